"""The claims of chapters/models-compared.md and latent-attention.md about published models.

The tables of arXiv:2604.00965 are rebuilt here, and what the report of DeepSeek-V2 says of itself.
"""

from dataclasses import replace
from fractions import Fraction

import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from attnlib import PUBLISHED, TRAINED, AttentionSizes, LatentAttentionSizes, cost, kv_cache_bytes
from attnlib.cost import ABSORBED, ALL_MERGED, EXPANDED, MERGED, SHARED_HEADS, evaluate
from attnlib.cost.letters import N, c, d, e, g, h, m, n, u
from attnlib.sizes import ModelSizes

LLAMA, GEMMA, DEEPSEEK = (PUBLISHED[x] for x in ("llama-3-70b", "gemma-3-27b", "deepseek-v2"))
LATENT = LatentAttentionSizes(
    n_query_heads=2, query_latent=3, kv_latent=5, nope_dim=7, rope_dim=4, value_dim=11
)


def model(**changes):
    small = {
        "name": "a small model",
        "source": "made up for a test",
        "n_layers": 3,
        "width": 17,
        "attention": AttentionSizes(n_query_heads=6, n_kv_heads=3, head_dim=4, value_dim=5),
        "feed_forward_width": 19,
        "gated": False,
        "activation": "gelu",
        "vocabulary": 23,
        "tied_embeddings": True,
        "norm": "rms",
        "norm_placement": "pre",
        "norm_epsilon": 1e-5,
        "context": 29,
    }
    return ModelSizes(**(small | changes))


# --- tables 1 and 2 ---------------------------------------------------------------------------


def test_table_1_is_multi_head_attention_matrix_by_matrix():
    printed = h * N * (d + e) + 2 * h * m * d + h * e * (m + m)
    assert sp.expand(cost.layer_elements().subs(g, h) - printed) == 0
    assert cost.layer_elements(n_tokens=7) == cost.layer_elements().subs(N, 7)


def test_table_2_is_the_latent_with_all_matrices_multiplied_out():
    printed = N * c + m * c + h * c * (m + m)
    assert sp.expand(cost.layer_elements(ALL_MERGED) - printed) == 0
    # one key of width c, which is the value too
    as_one_head = {g: 1, d: c, e: c}
    assert ALL_MERGED.flops_per_pair == SHARED_HEADS.flops_per_pair.subs(as_one_head)
    assert ALL_MERGED.projection_flops == 2 * ALL_MERGED.matrices


def test_table_2_of_deepseek_v2_has_more_weights_than_multi_head_attention_and_a_key_too_few():
    weights = evaluate(ALL_MERGED.matrices, DEEPSEEK)
    assert weights == 673_710_080
    with_heads = cost.multi_head_baseline(DEEPSEEK.attention).n_parameters(DEEPSEEK.width)
    assert with_heads == 335_544_320
    assert weights / with_heads == pytest.approx(2.008, abs=5e-4)
    real = DEEPSEEK.n_attention_parameters_per_layer
    assert real == evaluate(ABSORBED.matrices, DEEPSEEK) + 1536 + 512
    assert weights / real == pytest.approx(4.515, abs=5e-4)
    kept = [evaluate(form.cache_elements, DEEPSEEK) for form in (ALL_MERGED, ABSORBED)]
    assert kept == [512, 576]


# --- table 3 ----------------------------------------------------------------------------------


def test_table_3_has_one_wrong_number():
    wrong = {
        (name, row): (printed, cost.model_row(PUBLISHED[name])[row])
        for name, rows in cost.PRINTED.items()
        for row, printed in rows.items()
        if printed != cost.model_row(PUBLISHED[name])[row]
    }
    assert wrong == {("deepseek-v2", "width of a query and a key"): (512, 192)}


def test_the_rows_of_the_three_models():
    rows = [cost.model_row(sizes, 8192, 131_072) for sizes in (LLAMA, GEMMA, DEEPSEEK)]
    wanted = {
        "layers": (80, 62, 60),
        "query heads": (64, 32, 128),
        "key/value heads": (8, 16, None),
        "width of the residual stream": (8192, 5376, 5120),
        "width of a query and a key": (128, 128, 192),
        "width of a value": (128, 128, 128),
        "kept of a token in a layer": (2048, 4096, 576),
        "parameters": (70_553_706_496, 27_009_002_240, 235_741_434_880),
        "parameters that a token meets": (70_553_706_496, 27_009_002_240, 21_375_800_320),
        "bytes that a first token adds": (327_680, 507_904, 69_120),
        "bytes that a later token adds": (327_680, 81_920, 69_120),
        "bytes of 8,192 tokens": (5 * 2**29, 33 * 2**25, 69_120 * 2**13),
        "bytes of 131,072 tokens": (40 * 2**30, 333 * 2**25, 69_120 * 2**17),
    }
    assert {name: tuple(row[name] for row in rows) for name in rows[0]} == wanted


def test_the_growth_of_a_cache_is_that_of_tokens_before_and_after_the_windows():
    for sizes in (model(n_layers=5, window=4, window_pattern=(True, True, False)), GEMMA):
        row, w = cost.model_row(sizes), sizes.window
        first, later = (row[f"bytes that a {x} token adds"] for x in ("first", "later"))
        for tokens in (1, w - 1, w, w + 1, 3 * w):
            assert kv_cache_bytes(sizes, tokens) == (
                min(tokens, w) * first + max(tokens - w, 0) * later
            )
    everywhere = model(window=4, window_pattern=(True,))
    assert cost.model_row(everywhere)["bytes that a later token adds"] == 0


# --- where caches cross -----------------------------------------------------------------------


def test_gemma_holds_less_than_llama_from_1775_tokens_on():
    assert cost.cache_break_even(GEMMA, LLAMA) == 1775
    # 8,192 · (52 · 1,024 + 10 n) = 327,680 n, and what is not whole is rounded up
    assert 1774 < Fraction(8192 * 52 * 1024, 327_680 - 81_920) < 1775
    assert cost.cache_break_even(LLAMA, GEMMA) is None
    assert cost.cache_break_even(DEEPSEEK, GEMMA) == 1
    assert cost.cache_break_even(DEEPSEEK, LLAMA) == 1
    # counted as if every layer of Gemma read everything, it never does
    no_window = replace(GEMMA, window=None, window_pattern=(), rotary=None)
    assert cost.cache_break_even(no_window, LLAMA) is None


def heads(count: int) -> AttentionSizes:
    return AttentionSizes(n_query_heads=count, n_kv_heads=count, head_dim=1, value_dim=1)


def held(sizes: ModelSizes, n_tokens: int) -> int:
    kept = sum(n_tokens if w is None else min(n_tokens, w) for w in sizes.windows)
    return kept * sizes.attention.n_kv_heads


@given(
    st.tuples(st.integers(1, 6), st.integers(0, 3), st.integers(0, 3), st.integers(1, 9)),
    st.tuples(st.integers(1, 6), st.integers(0, 3), st.integers(0, 3), st.integers(1, 9)),
)
def test_a_break_even_is_that_of_a_search(one, other):
    def made(n_heads, n_full, n_window, window):
        n_full += n_full + n_window == 0
        windows = {"window": window, "window_pattern": (True,) * n_window + (False,) * n_full}
        return model(
            n_layers=n_full + n_window, attention=heads(n_heads), **(windows if n_window else {})
        )

    one, other = made(*one), made(*other)
    # when the last window of at most 9 tokens is full, 6 layers of 6 heads hold at most 324, and
    # from there on every token takes at least 1 of the difference
    smaller = [held(one, k) < held(other, k) for k in range(9 + 324 + 2)]
    wanted = 1 + max(k for k, is_smaller in enumerate(smaller) if not is_smaller)
    assert cost.cache_break_even(one, other) == (wanted if smaller[-1] else None)


def test_of_several_crossings_the_last_one_counts():
    # 3 a token up to 20 tokens and then nothing; against 6 a token up to 2 tokens and then 1
    one = model(n_layers=3, attention=heads(1), window=20, window_pattern=(True,))
    other = model(n_layers=6, attention=heads(1), window=2, window_pattern=(True,) * 5 + (False,))
    less = [k for k in range(1, 60) if kv_cache_bytes(one, k) < kv_cache_bytes(other, k)]
    assert less == [*range(1, 5), *range(51, 60)]
    assert cost.cache_break_even(one, other) == 51
    assert cost.cache_break_even(other, one) is None


def test_caches_that_grow_alike_in_the_end_differ_by_what_they_hold_there():
    one = model(n_layers=6, attention=heads(1), window=2, window_pattern=(True,) * 5 + (False,))
    other = model(n_layers=5, attention=heads(1), window=4, window_pattern=(True,) * 4 + (False,))
    less = [kv_cache_bytes(one, k) < kv_cache_bytes(other, k) for k in range(1, 7)]
    assert less == [False, False, True, True, True, True]
    assert cost.cache_break_even(one, other) == 3
    assert cost.cache_break_even(other, one) is None
    assert cost.cache_break_even(one, one) is None


# --- what is said of a latent -----------------------------------------------------------------


def test_what_is_said_of_the_latent_of_deepseek_v2_each_with_its_baseline():
    assert list(evaluate(cost.LATENT_RATIOS, DEEPSEEK).values()) == [
        Fraction(640, 9),  # 71.1
        Fraction(512, 9),  # 56.9
        Fraction(9, 4),  # "GQA with only 2.25 groups"
        Fraction(17, 5),
        3,
        Fraction(40, 11),  # 3.64
    ]


def test_the_ratios_are_those_of_numbers_that_are_counted():
    baseline = cost.multi_head_baseline(DEEPSEEK.attention)
    assert baseline.letters == {"h": 128, "g": 128, "p": 1, "d": 128, "e": 128}
    kept = evaluate(SHARED_HEADS.cache_elements, baseline)
    expanded, latent = (evaluate(x.cache_elements, DEEPSEEK) for x in (EXPANDED, ABSORBED))
    one_head = kept // baseline.n_kv_heads
    pairs = [evaluate(x.flops_per_pair, DEEPSEEK) for x in (ABSORBED, EXPANDED)]
    found = list(evaluate(cost.LATENT_RATIOS, DEEPSEEK).values())
    assert (kept, expanded, latent, one_head) == (32_768, 40_960, 576, 256)
    assert found[:3] == [Fraction(x, y) for x, y in ((expanded, 576), (kept, 576), (576, 256))]
    assert found[3] == Fraction(*pairs)


def test_the_two_pairs_of_matrices_are_all_that_merging_changes():
    factors = h * n * (u + c), h * e * (c + m)
    merged = h * u * c, h * c * m
    added = sp.expand(MERGED.matrices - ABSORBED.matrices)
    assert sp.expand(sum(merged) - sum(factors) - added) == 0
    for ratio, one, two in zip(list(cost.LATENT_RATIOS.values())[4:], merged, factors, strict=True):
        assert sp.simplify(ratio - one / two) == 0
    at = evaluate({"merged": merged[0], "factors": factors[0]}, DEEPSEEK)
    assert at == {"merged": 100_663_296, "factors": 33_554_432}
    at = evaluate({"merged": merged[1], "factors": factors[1]}, DEEPSEEK)
    assert at == {"merged": 335_544_320, "factors": 92_274_688}


@pytest.mark.parametrize(
    "row,changes",
    [(4, {"nope_dim": 384}), (5, {"value_dim": 465})],
)
def test_merging_saves_weights_only_where_heads_are_wide(row, changes):
    def ratio(**sizes):
        wider = replace(DEEPSEEK, attention=replace(DEEPSEEK.attention, **sizes))
        return list(evaluate(cost.LATENT_RATIOS, wider).values())[row]

    ((name, width),) = changes.items()
    assert ratio(**{name: width}) >= 1 > ratio(**{name: width + 1})


def test_what_deepseek_v2_says_of_its_cache():
    # (c + r) L = 9/2 · n L, exactly; table 9 prints 34.6K
    kept = evaluate(cost.cache_elements(ABSORBED), DEEPSEEK, N=1)
    assert kept == Fraction(9, 2) * 128 * 60 == 34_560
    before = PUBLISHED["deepseek-67b"]
    assert evaluate(cost.cache_elements(), before, N=1) == 95 * 2 * 8 * 128 == 194_560
    # "93.3 %": 82.2 % with numbers of 16 bits in both, and the rest from 6 bits a number
    saved = [
        1 - Fraction(kv_cache_bytes(DEEPSEEK, 1, x), kv_cache_bytes(before, 1))
        for x in (2, Fraction(3, 4))
    ]
    assert [round(100 * float(x), 2) for x in saved] == [82.24, 93.34]
    # against multi-head attention with as many heads
    assert round(100 * (1 - 576 / 32_768), 2) == 98.24


def test_the_baseline_of_other_sizes_has_their_widths_without_rotation():
    baseline = cost.multi_head_baseline(LATENT)
    assert baseline.letters == {"h": 2, "g": 2, "p": 1, "d": 7, "e": 11}
    assert evaluate(SHARED_HEADS.cache_elements, baseline) == 2 * (7 + 11)


def test_a_model_of_the_book_has_a_row_too():
    row = cost.model_row(TRAINED["shakespeare"])
    assert row["parameters"] == TRAINED["shakespeare"].n_parameters
    assert row["kept of a token in a layer"] == 2 * 2 * 48
