"""The what-fits explorer: what models take is what attnlib counts, and its words say it."""

import re
from itertools import combinations, product

import numpy as np
import pytest

from attnlib import PUBLISHED, cost, kv_cache_bytes
from attnlib.explore import explore, limits, what_fits_models, words
from attnlib.explore.bundle import FOLDER
from attnlib.explore.what_fits import cache_lead, weight_bytes

GIB = 2**30


def test_every_published_model_that_is_a_decoder_alone_is_there():
    alone = [k for k, v in PUBLISHED.items() if v.causal and not v.n_encoder_layers]
    assert sorted(limits.FITTING_MODELS) == sorted(alone)


def test_what_fits_models_mjs_is_what_the_sizes_generate():
    made = what_fits_models.javascript_module()
    assert (FOLDER / "what-fits-models.mjs").read_text("utf-8") == made


@pytest.mark.parametrize("model", limits.FITTING_MODELS)
def test_weights_and_a_token_take_whole_bytes_at_every_width(model):
    for n_bytes in limits.WEIGHT_BYTES:
        assert weight_bytes(model, n_bytes) == PUBLISHED[model].n_parameters * n_bytes
    for n_bytes in limits.CACHE_BYTES:
        assert kv_cache_bytes(PUBLISHED[model], 1, n_bytes) > 0


def test_what_llama_3_1_70b_takes():
    found = explore("what-fits", n_tokens=131_072, n_rows=2).facts()["models"]["llama-3.1-70b"]
    assert found["weights"] == 2 * 70_553_706_496
    assert found["cache"] == 2 * 40 * GIB
    assert found["total"] == found["weights"] + found["cache"]
    assert not found["fits"] and found["rowsAtMost"] == 0
    state = {"n_rows": 2, "bytes_per_weight": 1, "bytes_per_number": 0.5, "card_gib": 160}
    found = explore("what-fits", n_tokens=131_072, **state).facts()["models"]["llama-3.1-70b"]
    assert found["weights"] == 70_553_706_496 and found["cache"] == 2 * 10 * GIB
    assert found["fits"] and found["rowsAtMost"] == 9


def test_windows_and_latents_are_seen():
    found = explore("what-fits", n_tokens=131_072, n_rows=1).facts()["models"]
    assert found["gemma-3-27b"]["cache"] == 10.40625 * GIB
    assert found["deepseek-v2"]["cache"] == 8.4375 * GIB


def test_a_row_ends_at_the_context_of_its_model():
    found = explore("what-fits", n_tokens=4096, n_rows=8).facts()["models"]
    assert found["gpt-2"]["tokens"] == 1024 and found["gpt-3"]["tokens"] == 2048
    assert found["llama-2-7b"]["tokens"] == found["llama-3-8b"]["tokens"] == 4096
    assert found["gpt-2"]["cache"] == 8 * kv_cache_bytes(PUBLISHED["gpt-2"], 1024)


@pytest.mark.parametrize("card_gib", [8, 80, 640])
def test_one_row_more_than_fits_would_not(card_gib):
    for n_tokens, n_rows in product((1, 8192, 131_072), (1, 64)):
        state = {"n_tokens": n_tokens, "n_rows": n_rows, "card_gib": card_gib}
        for name, found in explore("what-fits", **state).facts()["models"].items():
            row = kv_cache_bytes(PUBLISHED[name], min(n_tokens, PUBLISHED[name].context))
            rows, room = found["rowsAtMost"], card_gib * GIB - found["weights"]
            assert room < (rows + 1) * row and (rows == 0 or rows * row <= room)
            assert found["fits"] == (n_rows <= rows)


def kept(name: str) -> np.ndarray:
    """The numbers that one row keeps of 1, 2, ... tokens, layer by layer."""
    sizes = PUBLISHED[name]
    n = np.arange(1, sizes.context + 1)
    windows = [n if window is None else np.minimum(n, window) for window in set(sizes.windows)]
    layers = [sizes.windows.count(window) for window in set(sizes.windows)]
    each = cost.evaluate(cost.usual_form(sizes, decoding=True).cache_elements, sizes)
    return each * sum(many * tokens for many, tokens in zip(layers, windows, strict=True))


def test_of_every_two_models_one_leads_from_where_it_is_said_and_not_before():
    curves = {name: kept(name) for name in limits.FITTING_MODELS}
    froms = set()
    for pair in combinations(limits.FITTING_MODELS, 2):
        lead = cache_lead(*pair)
        assert {lead["fewer"], lead["more"]} == set(pair)
        assert lead["upTo"] == min(len(curves[name]) for name in pair)
        ahead = curves[lead["more"]][: lead["upTo"]] - curves[lead["fewer"]][: lead["upTo"]]
        first = lead["from"]
        froms.add(first)
        if first is None:
            assert (ahead == 0).all()
        else:
            assert 1 <= first <= lead["upTo"]
            assert (ahead[: first - 1] <= 0).all() and (ahead[first - 1 :] > 0).all()
    assert {None, 1} < froms, "all three kinds of pair are among these"


def test_gemma_keeps_less_than_llama_only_because_of_its_windows():
    explorer = explore("what-fits")
    assert (explorer.model, explorer.other) == ("gemma-3-27b", "llama-3.1-70b")
    lead = explorer.facts()["lead"]
    assert (lead["fewer"], lead["from"]) == ("gemma-3-27b", 1775)
    gemma, llama = (kept(name) for name in (explorer.model, explorer.other))
    # until the windows are full it keeps 253,952 numbers of a token, where Llama keeps 163,840
    assert gemma[1023] / 1024 == 253_952 and llama[1023] / 1024 == 163_840
    assert gemma[1774] < llama[1774] and gemma[1773] > llama[1773]


def test_who_leads_does_not_depend_on_which_is_named_first():
    one, two = cache_lead("gemma-3-27b", "llama-2-7b"), cache_lead("llama-2-7b", "gemma-3-27b")
    assert one == two
    assert cache_lead("gpt-2", "gpt-2")["from"] is None


def test_every_curve_lies_in_the_picture_and_so_does_the_card():
    ends = [(name, n) for name in limits.FITTING_MODELS for n in (1, PUBLISHED[name].context)]
    sizes = [kv_cache_bytes(PUBLISHED[name], n, b) for name, n in ends for b in (0.5, 4)]
    sizes += [gib * GIB for gib in limits.CARD_GIB]
    assert min(sizes) > 2**12 and max(sizes) < 2**40


def test_the_picture_in_words():
    said = explore("what-fits", n_tokens=2048, n_rows=1, card_gib=24).describe()
    assert said.startswith(
        "1 row of 2,048 tokens, 2 bytes a weight, 2 bytes a number in the cache, on 24 GiB. 7 of "
        "14 models fit. Weights and cache of each, and the rows that there is room for: SmolLM2 "
        "135M 257 MiB + 45 MiB, fits 540 rows; GPT-2 237 MiB + 36 MiB of 1,024 tokens a row, fits "
    )
    assert said.endswith(
        "A row ends at the context of its model. Cache of one row: Gemma 3 27B 576 MiB and Llama "
        "3.1 70B 640 MiB. Gemma 3 27B keeps fewer bytes than Llama 3.1 70B from 1,775 tokens on, "
        "up to the 131,072 tokens that both read."
    )
    assert "Llama 3.1 70B 131 GiB + 640 MiB, weights too large;" in said


def test_what_there_is_room_for_in_words():
    state = {"n_tokens": 131_072, "n_rows": 4, "bytes_per_weight": 1, "bytes_per_number": 1}
    said = explore("what-fits", **state, model="gpt-2", other="gpt-2").describe()
    assert "Llama 3.1 70B 65.7 GiB + 80 GiB, fits no row;" in said
    assert "Gemma 3 27B 25.2 GiB + 20.8 GiB, fits 10 rows;" in said
    assert said.endswith("Both keep as many bytes, up to the 1,024 tokens that both read.")
    said = explore("what-fits", **(state | {"card_gib": 40, "n_rows": 8})).describe()
    assert "Gemma 3 27B 25.2 GiB + 41.6 GiB, fits 2 rows only;" in said
    other = explore("what-fits", model="llama-3.2-1b", other="llama-2-7b", card_gib=8).describe()
    assert (
        "Llama 3.2 1B keeps fewer bytes than Llama 2 7B at every context, up to the 4,096" in other
    )


@pytest.mark.parametrize(
    "n_bytes,text",
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (1152, "1.13 KiB"),  # halfway counts up
        (69_120, "67.5 KiB"),
        (1023.4 * 1024, "1,023 KiB"),
        (1023.6 * 1024, "1 MiB"),
        (40 * GIB, "40 GiB"),
        (1_349_131_657_216, "1.23 TiB"),
    ],
)
def test_a_number_of_bytes_with_a_binary_prefix(n_bytes, text):
    assert words.show_binary(n_bytes) == text


def test_a_number_of_a_list_is_kept_as_it_stands_there():
    explorer = explore("what-fits", bytes_per_weight=2.0, bytes_per_number=0.75)
    assert repr(explorer.bytes_per_weight) == "2" and explorer.bytes_per_number == 0.75


@pytest.mark.parametrize(
    "option,value,message",
    [
        ("n_tokens", 0, "n_tokens must be a power of two from 1 to 131072, got 0"),
        ("n_rows", 3, "n_rows must be a power of two from 1 to 256, got 3"),
        ("bytes_per_weight", 0.75, "bytes_per_weight must be one of 0.5, 1, 2, 4, got 0.75"),
        ("bytes_per_number", 0.1, "bytes_per_number must be one of 0.5, 0.75, 1, 2, 4, got 0.1"),
        ("card_gib", 81, "card_gib must be one of 8, 16, 24, 40, 80, 160, 320, 640, got 81"),
        ("model", "bert-base", "model must be one of smollm2-135m, gpt-2, "),
        ("other", "", "other must be one of smollm2-135m, gpt-2, "),
    ],
)
def test_what_cannot_be_chosen_is_refused(option, value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        explore("what-fits", **{option: value})
