"""The latent explorer: its numbers are those of attnlib.cost, and its words say them."""

import re

import pytest

from attnlib import PUBLISHED, cost
from attnlib.explore import explore, latent_formulas, limits
from attnlib.explore.bundle import FOLDER
from attnlib.explore.latent_forms import BASELINES, LATENT
from attnlib.sizes import LatentAttentionSizes

# In the second the latent is narrow, in the third reading it costs what reading keys and values
# does, in the fourth merging is cheap to begin with and dear in the end, in the last it is wide.
STATES = (
    {},
    {"kv_latent": 64, "rope_dim": 34, "n_heads": 32, "nope_dim": 96, "value_dim": 192},
    {"kv_latent": 128, "rope_dim": 0, "nope_dim": 192, "value_dim": 64, "model": "deepseek-v3"},
    {"kv_latent": 256, "rope_dim": 2, "nope_dim": 192, "value_dim": 256, "n_heads": 64},
    {"kv_latent": 2048, "rope_dim": 128, "nope_dim": 64, "value_dim": 96, "n_heads": 256},
)


def steps(state: dict, n_tokens: int) -> dict[str, int]:
    """FLOPs of a step in each form, by attnlib.cost itself."""
    chosen = explore("latent-forms", **state)
    letters = {"h": chosen.n_heads, "c": chosen.kv_latent, "r": chosen.rope_dim, "N": n_tokens}
    letters |= {"n": chosen.nope_dim, "e": chosen.value_dim, "m": PUBLISHED[chosen.model].width}
    letters["u"] = PUBLISHED[chosen.model].attention.query_latent
    return {name: cost.evaluate(cost.FORMS[name].step_flops(), **letters) for name in LATENT}


def test_what_can_be_chosen_exists_and_no_rank_is_larger_than_what_it_factors():
    latent = [k for k, v in PUBLISHED.items() if isinstance(v.attention, LatentAttentionSizes)]
    assert list(limits.LATENT_MODELS) == latent
    assert PUBLISHED["llama-3-70b"].attention.n_kv_heads == limits.LATENT_KV_HEADS
    fewest, narrowest = limits.LATENT_HEADS[0], limits.LATENT_HEAD_DIM[0]
    assert fewest % limits.LATENT_KV_HEADS == 0
    for model in limits.LATENT_MODELS:
        assert max(limits.KV_LATENT) <= min(PUBLISHED[model].width, fewest * 2 * narrowest)
        assert PUBLISHED[model].attention.query_latent <= fewest * narrowest


def test_latent_formulas_mjs_is_what_the_formulas_generate():
    made = latent_formulas.javascript_module()
    assert (FOLDER / "latent-formulas.mjs").read_text("utf-8") == made


def test_it_begins_with_the_sizes_of_deepseek_v2():
    first = explore("latent-forms")
    sizes = PUBLISHED[first.model].attention
    assert first.model == "deepseek-v2"
    assert [first.kv_latent, first.rope_dim] == [sizes.kv_latent, sizes.rope_dim]
    assert [first.n_heads, first.nope_dim] == [sizes.n_query_heads, sizes.nope_dim]
    assert first.value_dim == sizes.value_dim


# By hand, from the shapes of the matrices: 298,450,944 without any key, with 81,920 for a key
# whose keys and values are kept, 33,636,352 where they are rebuilt, 278,528 where the latent is
# read; 919,207,936 without any key where the matrices are merged.
@pytest.mark.parametrize("n_tokens", [1, 1024, 131_072])
def test_a_decode_step_of_a_layer_of_deepseek_v2(n_tokens):
    forms = explore("latent-forms", n_tokens=n_tokens).facts()["forms"]
    assert forms["expanded"]["flops"] == 298_450_944 + 81_920 * n_tokens
    assert forms["re-expanded"]["flops"] == 298_450_944 - 33_554_432 + 33_636_352 * n_tokens
    assert forms["absorbed"]["flops"] == 298_450_944 + 278_528 * n_tokens
    assert forms["merged"]["flops"] == 919_207_936 + 278_528 * n_tokens
    # four square projections of 128 heads on 5,120, and both products with all keys
    assert forms["multi-head"]["flops"] == 2 * 4 * 5120 * 16_384 + 65_536 * n_tokens
    assert forms["grouped"]["flops"] == 2 * 2 * 5120 * (16_384 + 1024) + 65_536 * n_tokens


def test_a_layer_of_deepseek_v2_keeps_576_numbers_of_a_token_whichever_way_they_are_read():
    found = explore("latent-forms", n_tokens=4096, bytes_per_number=4).facts()
    kept = {name: each["kept"] for name, each in found["forms"].items()}
    assert kept == {
        "multi-head": 32_768,
        "grouped": 2048,
        "expanded": 40_960,
        **dict.fromkeys(("re-expanded", "absorbed", "merged"), 576),
    }
    assert all(each["bytes"] == 4 * each["kept"] for each in found["forms"].values())
    assert found["cacheBytes"] == 4 * 576 * 4096
    assert found["asManyHeads"] == 2.25


def test_the_ratios_are_those_that_attnlib_names_with_their_baselines():
    found = explore("latent-forms").facts()
    named = {
        words: cost.evaluate(ratio, PUBLISHED["deepseek-v2"])
        for words, ratio in cost.LATENT_RATIOS.items()
    }
    expanded = "cache: expanded keys and values / latent"
    ordinary = "cache: multi-head attention with heads of n and e / latent"
    assert found["times"]["expanded"] == pytest.approx(float(named[expanded]), rel=1e-15)
    assert found["times"]["multi-head"] == pytest.approx(float(named[ordinary]), rel=1e-15)
    assert list(found["times"]) == list(BASELINES)


def test_without_a_rotary_part_only_the_latent_is_kept():
    found = explore("latent-forms", rope_dim=0, kv_latent=384).facts()
    assert found["forms"]["absorbed"]["kept"] == 384
    assert found["times"]["expanded"] == found["times"]["multi-head"]


def test_the_intensity_is_of_the_core_and_keys_that_are_rebuilt_count():
    forms = explore("latent-forms", n_heads=32, bytes_per_number=1).facts()["forms"]
    intensity = {name: each["intensity"] for name, each in forms.items()}
    assert intensity["multi-head"] == intensity["expanded"] == 2
    assert intensity["grouped"] == 2 * 32 / 8
    assert intensity["absorbed"] == intensity["merged"]
    assert intensity["absorbed"] == pytest.approx(2 * 32 * (2 * 512 + 64) / 576, rel=1e-15)
    rebuilt = 2 * 32 * (128 + 64 + 128) + 2 * 512 * 32 * (128 + 128)
    assert intensity["re-expanded"] == pytest.approx(rebuilt / 576, rel=1e-15)


@pytest.mark.parametrize("state", STATES)
def test_from_each_crossing_on_one_form_takes_fewer_flops_and_before_it_not(state):
    leads = explore("latent-forms", **state).facts()["leads"]
    pairs = [{each["fewer"], each["more"]} for each in leads]
    assert len(pairs) == 6 and all(pairs.count(pair) == 1 for pair in pairs)
    for each in leads:
        fewer, more, first = each["fewer"], each["more"], each["from"]
        here, far = steps(state, first or 1), steps(state, 10**9)
        if first is None:
            assert (here[fewer], far[fewer]) == (here[more], far[more])
            continue
        assert here[fewer] < here[more] and far[fewer] < far[more]
        if first > 1:
            before = steps(state, first - 1)
            assert before[fewer] >= before[more]


def test_every_kind_of_crossing_is_among_these():
    leads = [
        (each["fewer"], each["more"], each["from"])
        for state in STATES
        for each in explore("latent-forms", **state).facts()["leads"]
    ]
    assert ("absorbed", "merged", 1) in leads and ("merged", "absorbed", 1) in leads
    assert ("expanded", "absorbed", None) in leads
    assert ("expanded", "absorbed", 1) in leads and ("absorbed", "expanded", 1) in leads
    ends = [first for *pair, first in leads if pair == ["expanded", "merged"]]
    assert any(first > 1 for first in ends), "one begins dearer and is cheaper in the end"


@pytest.mark.parametrize("n_tokens", limits.LATENT_CONTEXT)
def test_every_curve_lies_in_the_picture(n_tokens):
    least = {"kv_latent": 64, "rope_dim": 0, "n_heads": 32, "nope_dim": 64, "value_dim": 64}
    most = {"kv_latent": 2048, "rope_dim": 128, "n_heads": 256, "nope_dim": 256, "value_dim": 256}
    for state in (least, {**most, "model": "deepseek-v3"}):
        assert all(1e7 < flops < 1e14 for flops in steps(state, n_tokens).values())


def test_the_picture_in_words():
    state = {**STATES[2], "n_tokens": 1, "bytes_per_number": 1}
    assert explore("latent-forms", **state).describe() == (
        "h = 128 heads with n = 192, r = 0, e = 64 and a latent of width c = 128, on a stream of "
        "m = 7,168 with query latents of u = 1,536, as in DeepSeek-V3. Of a token a layer keeps "
        "c + r = 128 numbers, 128 B: as many as 0.5 key/value heads of widths n and e. Multi-head "
        "attention, h(n + e), keeps 256 times as many, 8 key/value heads 16 times as many, and the "
        "latent's own keys and values, h(n + r + e), 256 times as many. Over 1 token the layer's "
        "cache takes 128 B. One decode step of the layer there, the new token among them: "
        "multi-head attention 940 MFLOP, 8 key/value heads 499 MFLOP, expanded 225 MFLOP, "
        "re-expanded 225 MFLOP, absorbed 225 MFLOP, merged 309 MFLOP. FLOPs of the core for each "
        "byte of cache: multi-head attention 2, 8 key/value heads 32, expanded 2, re-expanded "
        "66,048, absorbed 512, merged 512. A step takes fewer FLOPs expanded than re-expanded from "
        "2 tokens on, than merged at every context; absorbed than re-expanded from 2 tokens on, "
        "than merged at every context; merged than re-expanded from 12 tokens on. It takes as many "
        "expanded as absorbed."
    )


@pytest.mark.parametrize(
    "option,value,message",
    [
        ("kv_latent", 100, "kv_latent must be one of 64, 96, 128, 192, 256, "),
        ("rope_dim", 63, "rope_dim must be even, got 63"),
        ("rope_dim", 130, "rope_dim must lie between 0 and 128, got 130"),
        ("n_heads", 48, "n_heads must be a power of two from 32 to 256, got 48"),
        ("nope_dim", 0, "nope_dim must be one of 64, 96, 128, 192, 256, got 0"),
        ("value_dim", 512, "value_dim must be one of 64, 96, 128, 192, 256, got 512"),
        ("n_tokens", 3, "n_tokens must be a power of two from 1 to 131072, got 3"),
        ("bytes_per_number", 3, "bytes_per_number must be one of 1, 2, 4, got 3"),
        (
            "model",
            "llama-3-70b",
            "model must be one of deepseek-v2, deepseek-v3, got 'llama-3-70b'",
        ),
    ],
)
def test_what_cannot_be_chosen_is_refused(option, value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        explore("latent-forms", **{option: value})
