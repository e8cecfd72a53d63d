"""Costs that cannot be are refused, by plain errors that name the letters and the values.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import re
from fractions import Fraction

import numpy as np
import pytest

from attnlib import PUBLISHED, TRAINED, AttentionSizes, cost, kv_cache_bytes
from attnlib.cost import evaluate
from attnlib.cost.letters import L, N, P, T, f, g, h, x_m

LLAMA, DEEPSEEK = PUBLISHED["llama-3-70b"], PUBLISHED["deepseek-v2"]


def refuses(kind: type[Exception], message: str):
    return pytest.raises(kind, match=re.escape(message))


# --- the cache --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind,message,changes",
    [
        (TypeError, "n_tokens must be a whole number, got 2.0", {"n_tokens": 2.0}),
        (TypeError, "n_tokens must be a whole number, got True", {"n_tokens": True}),
        (ValueError, "n_tokens must be at least 0, got -1", {"n_tokens": -1}),
        (ValueError, "n_rows must be at least 1, got 0", {"n_rows": 0}),
        (TypeError, "n_rows must be a whole number, got 1.5", {"n_rows": 1.5}),
        (ValueError, "bytes_per_element must be above 0, got 0", {"bytes_per_element": 0}),
        (ValueError, "bytes_per_element must be above 0, got -2", {"bytes_per_element": -2}),
        (
            ValueError,
            "bytes_per_element must be finite, got inf",
            {"bytes_per_element": float("inf")},
        ),
        (
            TypeError,
            "bytes_per_element must be a number, got '2'",
            {"bytes_per_element": "2"},
        ),
        (TypeError, "bytes_per_element must be a number, got True", {"bytes_per_element": True}),
        (
            ValueError,
            "n_sources is needed if and only if there is an encoder, got n_encoder_layers=0 and "
            "n_sources=7",
            {"n_sources": 7},
        ),
    ],
)
def test_impossible_caches_are_refused(kind, message, changes):
    with refuses(kind, message):
        kv_cache_bytes(**({"sizes": LLAMA, "n_tokens": 3} | changes))


def test_bytes_that_are_not_whole_are_refused_and_never_rounded():
    # 163,840 numbers a token
    message = "the cache must take whole bytes, got 163840 numbers of bytes_per_element=0.1"
    with refuses(ValueError, message):
        kv_cache_bytes(LLAMA, 1, 0.1)
    with refuses(ValueError, "got 163840 numbers of bytes_per_element=1/3"):
        kv_cache_bytes(LLAMA, 1, Fraction(1, 3))


def test_a_model_that_is_not_causal_has_no_cache():
    with refuses(ValueError, "only a causal model has a cache: in others a new token changes"):
        kv_cache_bytes(PUBLISHED["bert-base"], 3)


def test_a_decoder_that_reads_an_encoder_must_say_what_is_read():
    with refuses(ValueError, "got n_encoder_layers=2 and n_sources=None"):
        kv_cache_bytes(TRAINED["number-words"], 3)
    with refuses(ValueError, "n_sources must be at least 0, got -1"):
        kv_cache_bytes(TRAINED["number-words"], 3, n_sources=-1)


def test_whole_numbers_of_numpy_do_not_wrap_round():
    found = kv_cache_bytes(LLAMA, np.int32(131_072), np.int16(2), np.int8(100))
    assert found == 100 * 40 * 2**30 and type(found) is int
    assert evaluate(h * N**4, LLAMA, N=np.int32(2**20)) == 64 * 2**80


# --- numbers for letters ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind,message,expression,sizes,letters",
    [
        (
            ValueError,
            "every letter of the expression needs a value, missing N (tokens of a row when the "
            "pass is over; the last of them reads so many keys), which ModelSizes do not have",
            h * N,
            LLAMA,
            {},
        ),
        (ValueError, "missing h (query head, h = g·p;", h * N, None, {"N": 3}),
        (ValueError, "missing g (key/value head)", g * h, DEEPSEEK, {}),
        (ValueError, "missing L (layers;", L * h, LLAMA.attention, {}),
        (ValueError, "missing x_m (routed experts of a layer that", x_m * h, DEEPSEEK, {"B": 1}),
        (ValueError, "the letters of the formulas are h, g, p,", h, LLAMA, {"M": 3}),
        (ValueError, "the sizes say what h is, got another value for it", h, LLAMA, {"h": 3}),
        (ValueError, "N (tokens of a row when the pass is", N, None, {"N": -1}),
        (ValueError, "must be at least 0, got -1", N, None, {"N": -1}),
        (ValueError, "B (rows of the batch) must be at least 1, got 0", N, None, {"N": 1, "B": 0}),
        (
            ValueError,
            "T (new tokens of a row in one pass) must be at least 1, got 0",
            N,
            None,
            {"N": 1, "T": 0},
        ),
        (TypeError, "must be a whole number, got 1.5", N, None, {"N": 1.5}),
        (TypeError, "must be a whole number, got '3'", N, None, {"N": "3"}),
        (
            ValueError,
            "T new tokens are among N, so T must be at most N, got T=4 and N=3",
            N * T,
            None,
            {"N": 3, "T": 4},
        ),
        (
            ValueError,
            "beta (bytes of a number in the cache) must be above 0, got 0",
            N,
            None,
            {"N": 1, "beta": 0},
        ),
        (
            ValueError,
            "a pass over the last T of N tokens needs a causal model, got BERT base (uncased)",
            N * T,
            PUBLISHED["bert-base"],
            {"N": 3, "T": 3},
        ),
        (
            ValueError,
            "the model must have no encoder, got Transformer (base) with n_encoder_layers=6",
            L * f,
            PUBLISHED["transformer-base"],
            {},
        ),
    ],
)
def test_letters_without_a_sensible_value_are_refused(kind, message, expression, sizes, letters):
    with refuses(kind, message):
        evaluate(expression, sizes, **letters)


@pytest.mark.parametrize(
    "parts,letters",
    [
        (cost.pass_flops(n_new=1), {"N": 8, "B": 1}),
        (cost.cached_generation_flops(n_new=3), {"P": 2, "B": 1}),
        ({"last": cost.n_tokens_cached(3, P)}, {"P": 2}),
    ],
)
def test_a_pass_of_a_model_that_is_not_causal_is_refused_whatever_letters_are_left(parts, letters):
    with refuses(ValueError, "needs a causal model, got BERT base (uncased)"):
        evaluate(parts, PUBLISHED["bert-base"], **letters)


def test_a_symbol_of_another_kind_is_refused():
    import sympy

    with refuses(ValueError, "the letters of the formulas are h, g, p,"):
        evaluate(sympy.Symbol("batch") * h, LLAMA)


@pytest.mark.parametrize("name", ["bert-base", "transformer-base"])
def test_crossings_of_models_that_have_none_are_refused(name):
    for decoding in (True, False):
        with refuses(ValueError, f"got {PUBLISHED[name].name}"):
            cost.crossing(PUBLISHED[name], decoding=decoding)


def test_a_device_without_speed_is_refused():
    with refuses(ValueError, "peak must be above 0, got 0"):
        cost.Device(name="none", source="made up", peak=0, bandwidth=1.0)
    with refuses(TypeError, "bandwidth must be a number, got '1'"):
        cost.Device(name="none", source="made up", peak=1.0, bandwidth="1")


def test_a_formula_of_shared_heads_is_not_silently_that_of_a_latent():
    heads = AttentionSizes(n_query_heads=6, n_kv_heads=3, head_dim=4, value_dim=5)
    with refuses(ValueError, "missing c (width of the key/value latent)"):
        evaluate(cost.ABSORBED.cache_elements, heads)
    with refuses(ValueError, "missing g (key/value head)"):
        evaluate(cost.SHARED_HEADS.cache_elements, DEEPSEEK)
