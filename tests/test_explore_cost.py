"""The cost explorer: its numbers are those of attnlib.cost, and its words say them."""

import itertools
import re

import pytest

from attnlib import PUBLISHED, cost, kv_cache_bytes
from attnlib.explore import cost_formulas, explore, limits, words
from attnlib.explore.bundle import FOLDER

WEIGHTS = ("projections", "feed-forward", "experts", "output head")


def test_what_can_be_chosen_exists():
    assert set(limits.COST_MODELS) <= set(PUBLISHED)
    assert set(limits.COST_DEVICES) == set(cost.DEVICES)
    # a model that learned a vector for each position can read no more of them
    assert not any(PUBLISHED[name].learned_positions for name in limits.COST_MODELS)


def test_cost_formulas_mjs_is_what_the_formulas_generate():
    assert (FOLDER / "cost-formulas.mjs").read_text("utf-8") == cost_formulas.javascript_module()


def test_a_decode_step_of_llama_3_1_70b():
    found = explore("cost", n_tokens=8192, n_rows=1).facts()
    assert found["totalFlops"] == 139_003_428_864 + 21_474_836_480
    assert found["flops"]["attention core"] == 21_474_836_480
    assert found["bytes"]["cache read"] == found["cacheBytes"] == 2.5 * 2**30
    assert sum(found["bytes"][part] for part in WEIGHTS) == 139_003_428_864
    assert found["linearIntensity"] == 1 and found["coreIntensity"] == 8
    assert round(found["ridge"]) == 153
    # memory is the limit: the bytes over the bandwidth, and the same FLOPs in that time
    assert found["seconds"] == pytest.approx(found["totalBytes"] / 2.039e12, rel=1e-15)
    assert found["attained"] == pytest.approx(found["totalFlops"] / found["seconds"], rel=1e-14)


def test_in_a_prefill_arithmetic_is_the_limit():
    found = explore("cost", phase="prefill", n_rows=1).facts()
    assert found["intensity"] > found["ridge"]
    assert found["attained"] == 312e12
    assert found["seconds"] == pytest.approx(found["totalFlops"] / 312e12, rel=1e-15)
    # 8,192 tokens through all matrices, one through the output head
    linear = (139_003_428_864 - 2 * 128_256 * 8192) * 8192 + 2 * 128_256 * 8192
    assert found["totalFlops"] - found["flops"]["attention core"] == linear
    assert found["flops"]["attention core"] == 80 * 32_768 * 8192 * 8193 // 2


def test_more_rows_raise_the_intensity_of_the_weights_and_not_of_the_cache():
    one, many = (explore("cost", n_rows=rows).facts() for rows in (1, 64))
    assert many["linearIntensity"] == 64 * one["linearIntensity"]
    assert many["coreIntensity"] == one["coreIntensity"]
    assert many["cacheBytes"] == 64 * one["cacheBytes"]


def test_a_latent_is_absorbed_to_decode_and_rebuilt_in_a_prefill():
    step = explore("cost", model="deepseek-v2", n_rows=1).facts()
    assert step["coreIntensity"] == pytest.approx(128 * 1088 / 576, rel=1e-15)
    assert step["flops"]["keys rebuilt"] == 0
    prefill = explore("cost", model="deepseek-v2", phase="prefill", n_rows=1).facts()
    # once a token: both halves of the way up from the latent
    assert prefill["flops"]["keys rebuilt"] == 60 * 8192 * 2 * 512 * 128 * 256
    assert (
        prefill["cacheBytes"]
        == step["cacheBytes"]
        == kv_cache_bytes(PUBLISHED["deepseek-v2"], 8192)
    )


def test_windows_and_experts_are_seen():
    gemma = explore("cost", model="gemma-3-27b", n_tokens=131_072, n_rows=1).facts()
    assert gemma["cacheBytes"] == 10.40625 * 2**30
    one, two = (explore("cost", model="deepseek-v3", n_rows=b).facts()["bytes"] for b in (1, 2))
    assert one["experts"] == 58 * 2 * (9 * 3 * 7168 * 2048 + 256 * 7168)
    assert one["experts"] < two["experts"] < 2 * one["experts"]


@pytest.mark.parametrize("model", limits.COST_MODELS)
def test_every_state_can_be_said_and_its_point_lies_in_the_picture(model):
    some = itertools.product((16, 131_072), (1, 256), (1, 4), limits.COST_PHASES)
    for n_tokens, n_rows, n_bytes, phase in some:
        options = {"n_tokens": n_tokens, "n_rows": n_rows, "bytes_per_number": n_bytes}
        explorer = explore("cost", model=model, phase=phase, device="t4", **options)
        found = explorer.facts()
        assert found["totalFlops"] == sum(found["flops"].values())
        for at in ("intensity", "linearIntensity", "coreIntensity"):
            assert 0.1 < found[at] < 1e8
            assert 1e10 < min(65e12, 320e9 * found[at]) < 1e16
        assert "nan" not in explorer.describe()


def test_the_picture_in_words():
    said = explore("cost", model="gemma-3-270m", n_tokens=65_536, n_rows=2).describe()
    assert said.startswith(
        "Gemma 3 270M, one decode step of 2 rows: a new token each, the last of 65,536. That is "
        "beyond the 32,768 tokens that it is said to read. Weights and cache have 2 bytes a number."
    )
    assert "memory is the limit" in said and "experts" not in said
    assert "keys rebuilt" in explore("cost", model="deepseek-v2", phase="prefill").describe()
    other = explore("cost", phase="prefill", n_rows=1).describe()
    assert "the prefill of 1 row of 8,192 tokens. Weights" in other
    assert "above the ridge" in other and "arithmetic is the limit" in other


def test_shares_in_words_sum_to_a_hundred():
    said = explore("cost", model="deepseek-v3", n_rows=16).describe()
    flops, moved = re.findall(r": ([^:]*? %\))\.", said)
    for parts in (flops, moved):
        shares = [float(share) for share in re.findall(r"\(([\d.]+) %\)", parts)]
        assert len(shares) > 3
        # each rounded by at most half a unit of its third digit: 0.05 of a share below 100
        assert sum(shares) == pytest.approx(100, abs=0.05 * len(shares))


@pytest.mark.parametrize(
    "x,text",
    [
        (0, "0 B"),
        (1, "1.00 B"),
        (999, "999 B"),
        (999.6, "1.00 kB"),
        (139_003_428_864, "139 GB"),
        (0.0696, "69.6 mB"),
        (1.25e-9, "1.25 nB"),
        (1.125, "1.13 B"),  # halfway counts up
    ],
)
def test_a_number_with_a_metric_prefix(x, text):
    assert words.show_metric(x, "B") == text


@pytest.mark.parametrize(
    "option,value,message",
    [
        ("model", "gpt-2", "model must be one of llama-3.1-70b, llama-3.2-1b, "),
        ("device", "tpu", "device must be one of a100, h100, h200, t4, got 'tpu'"),
        ("phase", "train", "phase must be one of decode, prefill, got 'train'"),
        ("n_tokens", 8191, "n_tokens must be a power of two from 16 to 131072, got 8191"),
        ("n_rows", 512, "n_rows must be a power of two from 1 to 256, got 512"),
        ("bytes_per_number", 3, "bytes_per_number must be one of 1, 2, 4, got 3"),
    ],
)
def test_what_cannot_be_chosen_is_refused(option, value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        explore("cost", **{option: value})
