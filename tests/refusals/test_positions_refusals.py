"""Wrong positions, widths and frequencies are refused before anything is computed.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import re
from fractions import Fraction

import numpy as np
import pytest
import torch

from attnlib import (
    alibi_bias,
    alibi_slopes,
    linear_frequencies,
    llama3_frequencies,
    padded_positions,
    pairing_permutation,
    rotary_frequencies,
    rotate,
    shift_matrix,
    sinusoidal_encoding,
    yarn_attention_factor,
    yarn_frequencies,
)

B, H, T, D, M = 2, 6, 5, 12, 10
PAIRINGS = ["half", "interleaved"]
LLAMA = {
    "factor": 8,
    "low_frequency_factor": 1,
    "high_frequency_factor": 4,
    "original_length": 8192,
}
YARN = {"factor": 40, "original_length": 4096}


def turn(x=None, positions=None, pairing="half", **options):
    x = torch.ones(B, H, T, D) if x is None else x
    positions = torch.arange(T) if positions is None else positions
    return rotate(x, positions, pairing=pairing, **options)


def llama(**changes):
    return llama3_frequencies(rotary_frequencies(D), **(LLAMA | changes))


def yarn(width=64, **changes):
    return yarn_frequencies(width, **(YARN | changes))


def refuses(kind: type[Exception], message: str):
    return pytest.raises(kind, match=re.escape(message))


def test_these_tests_run_without_the_shape_hook():
    assert not hasattr(rotate, "__wrapped__")


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_the_correct_input_is_not_refused(pairing):
    turn(pairing=pairing)
    turn(pairing=pairing, base=100)
    turn(pairing=pairing, frequencies=torch.ones(D // 2))
    llama()
    yarn()
    assert torch.equal(shift_matrix(np.int64(3), np.int64(M)), shift_matrix(3, M))
    # −128 has no absolute value in int8
    assert torch.equal(shift_matrix(np.int8(-128), np.int8(M)), shift_matrix(-128, M))
    assert torch.equal(alibi_slopes(np.int64(12)), alibi_slopes(12))
    sinusoidal_encoding(torch.arange(T), M, base=np.float64(100), dtype=torch.bfloat16)


TAKES_POSITIONS = [lambda p: turn(positions=p), lambda p: sinusoidal_encoding(p, M)]


@pytest.mark.parametrize("function", TAKES_POSITIONS, ids=["rotate", "sinusoids"])
def test_positions_that_are_negative_are_refused(function):
    with refuses(ValueError, "positions must be at least 0, got -2"):
        function(torch.tensor([0, 1, -2, 3, -1]))
    with refuses(ValueError, "positions must be at least 0, got -1"):
        function(torch.tensor(-1))


@pytest.mark.parametrize("function", TAKES_POSITIONS, ids=["rotate", "sinusoids"])
@pytest.mark.parametrize(
    "positions,kind",
    [
        (torch.arange(5.0), "torch.float32"),
        (torch.ones(5, dtype=torch.bool), "torch.bool"),
        (torch.ones(5, dtype=torch.complex64), "torch.complex64"),
        (torch.ones(5, dtype=torch.uint8), "torch.uint8"),
        ([0, 1, 2, 3, 4], "list"),
        (np.arange(5), "ndarray"),
        (3, "int"),
    ],
    ids=str,
)
def test_positions_that_are_no_integers_in_a_tensor_are_refused(function, positions, kind):
    with refuses(TypeError, f"positions must be a tensor of signed integers, got {kind}"):
        function(positions)


def test_booleans_are_sent_to_padded_positions():
    with refuses(TypeError, "write padded_positions(is_token)"):
        turn(positions=torch.ones(T, dtype=torch.bool))


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("d", [1, 5, 13])
def test_an_odd_width_is_refused(pairing, d):
    message = f"d must be even and at least 2, because coordinates turn in pairs, got d={d}"
    with refuses(ValueError, message):
        turn(torch.ones(B, H, T, d), pairing=pairing)
    with refuses(ValueError, "with frequencies=... the first r coordinates turn"):
        turn(torch.ones(B, H, T, d), pairing=pairing)


WIDTHS = {
    "sinusoids": lambda width: sinusoidal_encoding(torch.arange(T), width),
    "shift": lambda width: shift_matrix(1, width),
    "frequencies": rotary_frequencies,
    "permutation": pairing_permutation,
    "yarn": yarn,
}


@pytest.mark.parametrize("function", WIDTHS.values(), ids=WIDTHS)
def test_impossible_widths_are_refused(function):
    for width in (5, 1, 0, -2):
        message = f"because coordinates turn in pairs, got width={width}"
        with refuses(ValueError, f"width must be even and at least 2, {message}"):
            function(width)
    for width in (4.0, True, "4"):
        with refuses(TypeError, f"width must be a whole number, got {width!r}"):
            function(width)


@pytest.mark.parametrize(
    "pairing", ["halves", "Half", "", None, True, 2, ["half"], np.array(["half", "interleaved"])]
)
def test_an_unknown_pairing_is_refused(pairing):
    message = '"half" (coordinates i and i + r/2) or "interleaved" (neighbours), got '
    with refuses(ValueError, f"pairing must be {message}{pairing!r}"):
        turn(pairing=pairing)


def test_a_pairing_must_be_given_by_name():
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'pairing'"):
        rotate(torch.ones(T, D), torch.arange(T))
    with pytest.raises(TypeError, match="positional"):
        rotate(torch.ones(T, D), torch.arange(T), "half")


BASES = {
    "rotate": lambda base: turn(base=base),
    "rotate with frequencies": lambda base: turn(base=base, frequencies=torch.ones(2)),
    "sinusoids": lambda base: sinusoidal_encoding(torch.arange(T), M, base=base),
    "shift": lambda base: shift_matrix(1, M, base=base),
    "frequencies": lambda base: rotary_frequencies(D, base=base),
    "yarn": lambda base: yarn(base=base),
}


@pytest.mark.parametrize("function", BASES.values(), ids=BASES)
def test_impossible_bases_are_refused(function):
    for base in (0, -10_000.0):
        with refuses(ValueError, f"base must be above 0, got {base}"):
            function(base)
    for base in (float("nan"), float("inf")):
        with refuses(ValueError, f"base must be finite, got {base}"):
            function(base)
    with refuses(ValueError, "base must be finite, got inf"):
        function(10**400)  # no float holds it
    for base in ("10", True, torch.ones(2)):
        with refuses(TypeError, f"base must be a number, got {base!r}"):
            function(base)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("shape", [(4,), (3, T), (T, B), (B, 4), (T, 1), (B, 3, T)])
def test_positions_that_do_not_fit_are_refused(pairing, shape):
    positions = torch.zeros(shape, dtype=torch.int64)
    message = f"got positions {shape} and x (2, 6, 5, 12)"
    with refuses(ValueError, message):
        turn(positions=positions, pairing=pairing)
    with refuses(ValueError, "positions must have the shape (t,) or (b, t) beside x (b, h, t, d)"):
        turn(positions=positions, pairing=pairing)


def test_one_vector_is_not_repeated_for_many_positions():
    with refuses(ValueError, "got positions (5,) and x (2, 6, 1, 12)"):
        turn(torch.ones(B, H, 1, D))


@pytest.mark.parametrize("shape,positions", [((), 0), ((D,), 1), ((T, D), 2), ((T, D), 3)])
def test_more_axes_of_positions_than_x_has_are_refused(shape, positions):
    message = "x must have an axis for its width and one for each axis of the positions, got x "
    with refuses(ValueError, f"{message}{shape}"):
        turn(torch.ones(shape), torch.zeros((1,) * positions, dtype=torch.int64))


def test_vectors_that_are_not_floating_point_are_refused():
    with refuses(TypeError, "x must be a tensor of fp16, bf16, fp32 or fp64, got torch.int64"):
        turn(torch.ones(T, D).long())
    with refuses(TypeError, "x must be a tensor of fp16, bf16, fp32 or fp64, got list"):
        turn([1.0])


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_impossible_frequencies_are_refused(pairing):
    with refuses(ValueError, "r must be at most d, got r=14 and d=12"):
        turn(pairing=pairing, frequencies=torch.ones(7))
    with refuses(ValueError, "give either base or frequencies, got both, base=500000.0"):
        turn(pairing=pairing, frequencies=torch.ones(6), base=500_000.0)


FREQUENCIES = {
    "rotate": lambda f: turn(frequencies=f),
    "linear": lambda f: linear_frequencies(f, 8),
    "llama": lambda f: llama3_frequencies(f, **LLAMA),
}


@pytest.mark.parametrize("function", FREQUENCIES.values(), ids=FREQUENCIES)
def test_frequencies_of_the_wrong_kind_are_refused(function):
    message = "frequencies must be a tensor of fp16, bf16, fp32 or fp64, got "
    with refuses(TypeError, message + "torch.int64"):
        function(torch.ones(3).long())
    with refuses(TypeError, message + "list"):
        function([1.0])
    for wrong in ([1.0, torch.nan], [torch.inf]):
        with refuses(ValueError, f"frequencies must be finite, got {wrong}"):
            function(torch.tensor(wrong))
    message = "frequencies must have one axis, one for each pair of coordinates, got shape "
    for shape in ((), (1, 3)):
        with refuses(ValueError, f"{message}{shape}"):
            function(torch.ones(shape))


NUMBERS = {
    "factor": [
        lambda x: linear_frequencies(torch.ones(3), x),
        lambda x: llama(factor=x),
        lambda x: yarn(factor=x),
        yarn_attention_factor,
    ],
    "low_frequency_factor": [lambda x: llama(low_frequency_factor=x)],
    "high_frequency_factor": [lambda x: llama(high_frequency_factor=x)],
    "original_length": [lambda x: llama(original_length=x), lambda x: yarn(original_length=x)],
    "beta_fast": [lambda x: yarn(beta_fast=x)],
    "beta_slow": [lambda x: yarn(beta_slow=x)],
}


@pytest.mark.parametrize("name", NUMBERS)
def test_impossible_numbers_of_scalings_are_refused(name):
    for function in NUMBERS[name]:
        for value in (0, -1.5):
            with refuses(ValueError, f"{name} must be above 0, got {value}"):
                function(value)
        with refuses(ValueError, f"{name} must be finite, got nan"):
            function(float("nan"))
        for value in ("8", True, None):
            with refuses(TypeError, f"{name} must be a number, got {value!r}"):
                function(value)


def test_fractions_are_numbers_too():
    eight, trained = Fraction(8), rotary_frequencies(D)
    assert torch.equal(linear_frequencies(trained, eight), trained / 8)
    assert torch.equal(llama(factor=eight), llama(factor=8))
    assert torch.equal(yarn(factor=Fraction(40)), yarn())


def test_scalings_whose_limits_have_changed_places_are_refused():
    message = "high_frequency_factor must be above low_frequency_factor, got 1.0 and 4.0"
    with refuses(ValueError, message):
        llama(low_frequency_factor=4, high_frequency_factor=1)
    with refuses(ValueError, "got 4.0 and 4.0"):
        llama(low_frequency_factor=4)
    for fast, slow in ((1.0, 32.0), (2.0, 2.0)):
        with refuses(ValueError, f"beta_fast must be above beta_slow, got {fast} and {slow}"):
            yarn(beta_fast=fast, beta_slow=slow)
    with refuses(ValueError, "base must be above 1, so that pairs differ in speed, got base=1"):
        yarn(base=1)


def test_yarns_factor_refuses_what_is_no_number():
    with refuses(TypeError, "mscale must be a number, got '0.7'"):
        yarn_attention_factor(40, "0.7")
    with refuses(ValueError, "mscale must be finite, got inf"):
        yarn_attention_factor(40, float("inf"))


def test_impossible_shifts_are_refused():
    for k in (1.0, True, None):
        with refuses(TypeError, f"k must be a whole number, got {k}"):
            shift_matrix(k, M)
    for k in (2**53 + 1, -(2**60)):
        with refuses(ValueError, f"fp64 holds every integer, got k={k}"):
            shift_matrix(k, M)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64, "float32"])
def test_dtypes_that_are_not_floating_point_are_refused(dtype):
    message = f"dtype must be one of fp16, bf16, fp32, fp64, got {dtype}"
    with refuses(TypeError, message):
        sinusoidal_encoding(torch.arange(T), M, dtype=dtype)
    with refuses(TypeError, message):
        alibi_slopes(H, dtype=dtype)


def test_linear_biases_refuse():
    for n in (0, -1):
        with refuses(ValueError, f"n_heads must be at least 1, got {n}"):
            alibi_slopes(n)
    with refuses(TypeError, "n_heads must be a whole number, got 8.0"):
        alibi_slopes(8.0)
    slopes = alibi_slopes(H)
    with refuses(ValueError, "n_targets must be at least 0, got -1"):
        alibi_bias(-1, T, slopes)
    with refuses(ValueError, "n_sources must be at least 0, got -1"):
        alibi_bias(T, -1, slopes)
    with refuses(TypeError, "n_sources must be a whole number, got 5.0"):
        alibi_bias(T, 5.0, slopes)
    with refuses(TypeError, "n_sources must be a whole number, got None"):
        alibi_bias(T, None, slopes)
    with refuses(ValueError, "slopes must have the one axis (h,), got shape (6, 1, 1)"):
        alibi_bias(T, T, slopes[:, None, None])
    with refuses(TypeError, "slopes must be a tensor of fp16, bf16, fp32 or fp64, got float"):
        alibi_bias(T, T, 0.5)
    with refuses(TypeError, "slopes must be a tensor of fp16, bf16, fp32 or fp64, got torch.int64"):
        alibi_bias(T, T, torch.ones(H).long())


def test_padded_positions_refuse_what_is_not_boolean():
    for wrong, kind in ((torch.ones(2, 3).long(), "torch.int64"), ([[True]], "list")):
        with refuses(TypeError, f"is_token must be a boolean tensor, True = token, got {kind}"):
            padded_positions(wrong)
    with refuses(TypeError, "for tokens write tokens != pad_id"):
        padded_positions(torch.ones(2, 3))
    for shape in ((3,), (1, 2, 3)):
        with refuses(ValueError, f"is_token must have axes (b, s), got shape {shape}"):
            padded_positions(torch.ones(shape, dtype=torch.bool))


def test_everything_is_refused_before_anything_is_computed(monkeypatch):
    def compute(*_, **__):
        raise AssertionError("something was computed")

    monkeypatch.setattr("attnlib.positions._angles", compute)
    monkeypatch.setattr("attnlib.positions.steps_behind", compute)
    with refuses(ValueError, "pairing must be"):
        turn(pairing="both")
    with refuses(ValueError, "positions must have the shape"):
        turn(positions=torch.arange(4))
    with refuses(ValueError, "width must be even"):
        sinusoidal_encoding(torch.arange(T), 5)
    with refuses(ValueError, "slopes must have"):
        alibi_bias(10**9, 10**9, torch.ones(1, 1))
