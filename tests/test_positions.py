"""The claims of chapters/positions.md, each held to at least one oracle."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import (
    alibi_bias,
    alibi_slopes,
    causal_mask,
    definitions,
    dot_product_attention,
    grouped_query_attention,
    linear_frequencies,
    llama3_frequencies,
    padded_positions,
    padding_mask,
    pairing_permutation,
    rotary_frequencies,
    rotate,
    shift_matrix,
    sinusoidal_encoding,
    yarn_attention_factor,
    yarn_frequencies,
)

# All different, so that no two axes can be confused.
B, H, G, T, S, D, E, M = 2, 6, 3, 5, 7, 12, 11, 10
PAIRINGS = ["half", "interleaved"]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64]
FP32 = 2.0**-24  # half a step of fp32, relative

pairings = st.sampled_from(PAIRINGS)
widths = st.integers(1, 8).map(lambda n: 2 * n)
bases = st.sampled_from([10_000.0, 500_000.0, 100.0, 1.0, 0.5])
some_positions = st.integers(0, 200_000)
shifts = st.integers(-200_000, 200_000)


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def at(*positions: int) -> torch.Tensor:
    """Positions as a tensor; a single one without an axis."""
    return torch.tensor(positions[0] if len(positions) == 1 else positions)


def assert_equal(actual: torch.Tensor, wanted, atol: float = 1e-12) -> None:
    wanted = torch.as_tensor(wanted, dtype=actual.dtype)
    torch.testing.assert_close(actual, wanted, rtol=0, atol=atol)


def encoded(positions: torch.Tensor, width: int = M, **options) -> torch.Tensor:
    return sinusoidal_encoding(positions, width, dtype=torch.float64, **options)


# The largest angles here are 400,000 radians. In fp64 the frequency, a rounded power, and its
# product with the position are each off by a step at most.
FAR = 2 * 400_000 * 2.0**-52


# --- sinusoids ------------------------------------------------------------------------------


@given(positions=st.lists(some_positions, max_size=5), width=widths, base=bases)
def test_sinusoids_are_their_definition(positions, width, base):
    actual = encoded(torch.tensor(positions, dtype=torch.int64), width, base=base)
    wanted = definitions.sinusoidal_encoding(positions, width, base)
    scale = max(1.0, base ** -((width - 2) / width))  # the fastest frequency
    assert_equal(actual, wanted, atol=FAR * scale)


def test_a_sine_stands_before_its_cosine_and_beside_it():
    p = 3
    slow = p / 100.0  # 10,000 to the power of −2/4
    wanted = [math.sin(p), math.cos(p), math.sin(slow), math.cos(slow)]
    assert_equal(encoded(at(p), 4), wanted, atol=1e-15)


def test_position_zero_is_zeros_and_ones():
    assert encoded(at(0), 6).tolist() == [0, 1, 0, 1, 0, 1]


def test_wavelengths_run_from_two_pi_to_just_under_two_pi_times_base():
    wavelengths = 2 * math.pi / rotary_frequencies(M)
    ratios = wavelengths[1:] / wavelengths[:-1]
    assert wavelengths[0].item() == 2 * math.pi
    assert wavelengths[-1].item() == pytest.approx(2 * math.pi * 10_000 ** (1 - 2 / M), rel=1e-14)
    assert_equal(ratios, [10_000 ** (2 / M)] * (M // 2 - 1))


def test_positions_may_have_any_shape():
    positions = torch.arange(2 * 3 * 4).reshape(2, 3, 4)
    encoding = encoded(positions)
    assert tuple(encoding.shape) == (2, 3, 4, M)
    assert torch.equal(encoding[1, 2, 3], encoded(at(23)))
    assert tuple(encoded(at(5)).shape) == (M,)
    assert tuple(encoded(positions[:0]).shape) == (0, 3, 4, M)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sinusoids_are_rounded_once(dtype):
    positions = torch.tensor([0, 1, 77, 100_000])
    exact = encoded(positions)
    rounded = sinusoidal_encoding(positions, M, dtype=dtype)
    assert rounded.dtype == dtype
    assert torch.equal(rounded, exact.to(dtype))


def test_without_a_dtype_sinusoids_and_slopes_are_torchs_default():
    assert sinusoidal_encoding(at(1), M).dtype == alibi_slopes(H).dtype == torch.float32
    try:
        torch.set_default_dtype(torch.float64)
        assert sinusoidal_encoding(at(1), M).dtype == alibi_slopes(H).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@given(p=some_positions, k=shifts, base=bases.filter(lambda base: base >= 1))
def test_one_matrix_moves_every_encoding_on(p, k, base):
    k = max(k, -p)
    moved = shift_matrix(k, M, base=base) @ encoded(at(p), base=base)
    assert_equal(moved, encoded(at(p + k), base=base), atol=2 * FAR)


@given(k=shifts, width=widths)
def test_the_shift_matrix_is_its_definition_and_the_transposed_rotation(k, width):
    matrix = shift_matrix(k, width)
    assert_equal(matrix, definitions.shift_matrix(k, width), atol=FAR)
    assert_equal(matrix.T, definitions.rotation_matrix(k, width, "interleaved"), atol=FAR)


@given(k=shifts, further=shifts)
def test_shift_matrices_are_orthogonal_and_a_one_parameter_group(k, further):
    here, there = shift_matrix(k, M), shift_matrix(further, M)
    assert_equal(here @ here.T, torch.eye(M), atol=1e-14)
    assert_equal(here @ there, shift_matrix(k + further, M), atol=2 * FAR)
    assert_equal(here.T, shift_matrix(-k, M), atol=0)
    assert torch.linalg.det(here).item() == pytest.approx(1, abs=1e-13)
    assert torch.equal(shift_matrix(0, M), torch.eye(M, dtype=torch.float64))


def test_inner_products_of_encodings_depend_on_the_distance_alone():
    rows = encoded(torch.arange(9))
    gram = rows @ rows.T
    wanted = [torch.cos(k * rotary_frequencies(M)).sum() for k in range(9)]
    for k in range(9):  # Toeplitz: constant along each diagonal; even: the same on both sides
        assert_equal(gram.diagonal(k), wanted[k].expand(9 - k), atol=1e-14)
        assert_equal(gram.diagonal(-k), wanted[k].expand(9 - k), atol=1e-14)
    assert wanted[0].item() == M / 2


# --- rotations: the definition, complex numbers, the group ------------------------------------


@given(
    pairing=pairings,
    width=widths,
    base=bases.filter(lambda base: base >= 1),
    positions=st.lists(some_positions, max_size=5),
    seed=st.integers(0, 99),
)
def test_rotation_is_its_definition(pairing, width, base, positions, seed):
    x = random(len(positions), width, seed=seed)
    actual = rotate(x, torch.tensor(positions, dtype=torch.int64), pairing=pairing, base=base)
    wanted = definitions.rotate(x.numpy(), positions, pairing, base)
    assert_equal(actual, wanted, atol=10 * FAR)


@given(pairing=pairings, width=widths, seed=st.integers(0, 99), dtype=st.sampled_from(DTYPES[2:]))
def test_rotation_multiplies_complex_numbers(pairing, width, seed, dtype):
    positions = torch.arange(T) * 7
    x = random(B, H, T, width, seed=seed, dtype=dtype)
    pairs = (
        x.reshape(B, H, T, 2, width // 2)
        if pairing == "half"
        else x.reshape(B, H, T, width // 2, 2).transpose(-1, -2)
    )
    z = pairs[..., 0, :].double() + 1j * pairs[..., 1, :].double()
    turned = z * torch.exp(1j * positions.double()[:, None] * rotary_frequencies(width))
    parts = torch.stack([turned.real, turned.imag], dim=-2)
    wanted = (parts if pairing == "half" else parts.transpose(-1, -2)).reshape(x.shape)
    # rounded: cosine and sine, two products and a sum; |x| stays under 6
    atol = 6 * 5 * torch.finfo(dtype).eps
    assert_equal(rotate(x, positions, pairing=pairing), wanted.to(dtype), atol)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_quarter_turn_takes_the_first_of_a_pair_to_the_second(pairing):
    quarter = torch.tensor([math.pi / 2, 0.0])
    turned = rotate(torch.tensor([1.0, 2.0, 3.0, 4.0]), at(1), pairing=pairing, frequencies=quarter)
    wanted = [-3, 2, 1, 4] if pairing == "half" else [-2, 1, 3, 4]
    assert_equal(turned, wanted, atol=4 * 2 * FP32)


def rotation_matrix(p: int, pairing: str) -> torch.Tensor:
    """R_p: the rows of the identity are turned into the columns of R_p."""
    return rotate(torch.eye(D, dtype=torch.float64), at(p), pairing=pairing).T


@given(m=some_positions, n=some_positions, pairing=pairings)
def test_rotations_are_a_one_parameter_group(m, n, pairing):
    m, n = sorted([m, n])
    turn_m, turn_n = rotation_matrix(m, pairing), rotation_matrix(n, pairing)
    assert_equal(turn_m.T @ turn_n, rotation_matrix(n - m, pairing), atol=2 * FAR)
    assert_equal(turn_m @ turn_n, rotation_matrix(m + n, pairing), atol=2 * FAR)
    assert_equal(turn_m @ turn_m.T, torch.eye(D), atol=1e-14)


@given(p=st.integers(0, 9_000), dtype=st.sampled_from(DTYPES), pairing=pairings)
def test_norms_are_kept_and_position_zero_changes_nothing(p, dtype, pairing):
    x = random(H, D, dtype=torch.float64).to(dtype)
    turned = rotate(x, at(p), pairing=pairing)
    eps = torch.finfo(dtype).eps
    norms = x.double().norm(dim=-1)
    torch.testing.assert_close(turned.double().norm(dim=-1), norms, rtol=4 * eps, atol=0)
    assert torch.equal(rotate(x, at(0), pairing=pairing), x)


@given(m=some_positions, n=some_positions, shift=some_positions, pairing=pairings)
def test_scores_depend_on_the_difference_of_positions_alone(m, n, shift, pairing):
    q, k = random(D, seed=1), random(D, seed=2)

    def score(m: int, n: int) -> torch.Tensor:
        return rotate(q, at(m), pairing=pairing) @ rotate(k, at(n), pairing=pairing)

    assert_equal(score(m, n), score(m + shift, n + shift), atol=100 * FAR)
    if n >= m:
        assert_equal(score(m, n), q @ rotate(k, at(n - m), pairing=pairing), atol=100 * FAR)
    else:
        assert_equal(score(m, n), rotate(q, at(m - n), pairing=pairing) @ k, atol=100 * FAR)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_the_score_of_a_vector_with_itself_is_the_sum_of_cosines(pairing):
    x = torch.ones(D, dtype=torch.float64)
    scores = rotate(x.expand(9, D), torch.arange(9), pairing=pairing) @ x
    wanted = 2 * torch.cos(torch.arange(9)[:, None] * rotary_frequencies(D)).sum(-1)
    assert_equal(scores, wanted, atol=1e-13)


# --- rotations: shapes, dtypes, gradients -----------------------------------------------------


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_each_row_of_a_batch_has_its_own_positions(pairing):
    x, positions = random(B, H, T, D), torch.arange(B * T).reshape(B, T) * 3
    turned = rotate(x, positions, pairing=pairing)
    for b in range(B):
        for h in range(H):
            wanted = definitions.rotate(x[b, h].numpy(), positions[b].tolist(), pairing)
            assert_equal(turned[b, h], wanted)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_positions_broadcast_as_documented(pairing):
    x, positions = random(B, H, T, D), torch.arange(T) + 4
    turned = rotate(x, positions, pairing=pairing)

    def same(x: torch.Tensor, positions: torch.Tensor, wanted: torch.Tensor) -> None:
        actual = rotate(x, positions, pairing=pairing)
        assert actual.shape == x.shape
        assert_equal(actual, wanted, atol=1e-14)

    same(x, positions.expand(B, T), turned)
    same(x, positions[None], turned)
    same(x, positions[None, None], turned)
    same(x, positions.expand(B, H, T), turned)
    same(x[:, 0], positions.expand(B, T), turned[:, 0])
    same(x[:, :1], positions.expand(B, T), turned[:, :1])
    same(x[0, 0], positions, turned[0, 0])
    same(x[0, 0, 2], positions[2], turned[0, 0, 2])
    same(x[:, :, 2], positions[2], turned[:, :, 2])
    same(x[:, :, 2:3], positions[2:3], turned[:, :, 2:3])
    same(x[:, :, 2:3], positions[2:3].expand(B, 1), turned[:, :, 2:3])
    five = x.reshape(B, G, H // G, T, D)
    same(five, positions.expand(B, T), turned.reshape(five.shape))
    everywhere_the_same = torch.tensor([[3], [8]])
    for b, p in enumerate((3, 8)):
        actual = rotate(x, everywhere_the_same, pairing=pairing)[b]
        assert_equal(actual, rotate(x[b], at(p), pairing=pairing), atol=1e-14)
    nothing = rotate(x[:, :, :0], positions[:0], pairing=pairing)
    assert tuple(nothing.shape) == (B, H, 0, D)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_step_with_a_cache_turns_as_the_whole_text_does(pairing):
    x, positions = random(B, H, 9, D), torch.arange(9)
    whole = rotate(x, positions, pairing=pairing)
    for start in range(9):
        step = rotate(x[:, :, start:], positions[start:], pairing=pairing)
        assert_equal(step, whole[:, :, start:], atol=1e-14)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_tensors_need_not_lie_in_order_in_memory(pairing):
    x, positions = random(B, H, T, D), torch.arange(T)
    wanted = rotate(x, positions, pairing=pairing)
    other_order = x.transpose(1, 2).contiguous().transpose(1, 2)
    assert_equal(rotate(other_order, positions, pairing=pairing), wanted, atol=0)
    odd = random(D + 3)
    for start in range(4):
        part = odd[start : start + D]
        actual = rotate(part, at(7), pairing=pairing)
        assert_equal(actual, rotate(part.clone(), at(7), pairing=pairing), atol=0)
    columns = random(D, T).T
    actual = rotate(columns, positions, pairing=pairing)
    assert_equal(actual, rotate(columns.contiguous(), positions, pairing=pairing), atol=0)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("r", [0, 4, D])
def test_the_result_is_a_tensor_of_its_own(pairing, r):
    x = random(T, D)
    before = x.clone()
    turned = rotate(x, at(0), pairing=pairing, frequencies=rotary_frequencies(D)[: r // 2])
    assert torch.equal(turned, before)  # nothing turns at position 0
    turned.zero_()
    assert torch.equal(x, before)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_where_batch_heads_and_targets_are_as_many_rows_belong_to_the_batch(pairing):
    x, positions = random(2, 2, 2, D), torch.tensor([[0, 1], [5, 9]])
    turned = rotate(x, positions, pairing=pairing)
    for b in range(2):
        assert_equal(turned[b], rotate(x[b], positions[b], pairing=pairing), atol=0)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_shapes_are_known_without_numbers(pairing):
    x, positions = torch.empty(B, H, T, D, device="meta"), torch.empty(B, T, device="meta").long()
    options = {"pairing": pairing, "frequencies": torch.empty(D // 2 - 1, device="meta")}
    for turned in (rotate(x, positions, pairing=pairing), rotate(x, positions, **options)):
        assert (turned.shape, turned.device) == (x.shape, x.device)
    assert rotate(x, torch.arange(T), pairing=pairing).shape == x.shape
    assert tuple(sinusoidal_encoding(positions, M).shape) == (B, T, M)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_far_positions_are_right_in_every_dtype(pairing, dtype):
    positions = torch.tensor([0, 1, 4_097, 100_000, 1_000_003])
    x = random(5, D).to(dtype)
    actual = rotate(x, positions, pairing=pairing)
    exact = torch.from_numpy(definitions.rotate(x.double().numpy(), positions.tolist(), pairing))
    assert actual.dtype == dtype
    # half a step of the result, and three roundings in fp32 (or fp64) of terms of size |x| < 4
    inner = FP32 if dtype != torch.float64 else 1_000_003 * 2.0**-52
    bound = torch.finfo(dtype).eps / 2 * exact.abs() + 8 * 3 * inner
    assert ((actual.double() - exact).abs() <= bound).all()


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_positions_of_every_integer_type_are_the_same(pairing, dtype):
    x = random(T, D)
    positions = torch.tensor([0, 1, 2, 100, 127])
    wanted = rotate(x, positions, pairing=pairing)
    assert torch.equal(rotate(x, positions.to(dtype), pairing=pairing), wanted)
    assert torch.equal(encoded(positions.to(dtype)), encoded(positions))


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("r", [D, D - 4])
def test_gradients_are_those_of_finite_differences(pairing, r):
    x = random(B, 3, 2, D).requires_grad_()
    frequencies = rotary_frequencies(r)
    positions = torch.tensor([[0, 3], [5, 11]])

    def turn(x: torch.Tensor) -> torch.Tensor:
        return rotate(x, positions, pairing=pairing, frequencies=frequencies)

    assert torch.autograd.gradcheck(turn, (x,))
    assert torch.autograd.gradgradcheck(lambda x: turn(x) ** 2, (x,))


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_flow_in_every_dtype_and_turn_back(pairing, dtype):
    x = random(T, D).to(dtype).requires_grad_()
    before = x.detach().clone()
    rotate(x, torch.arange(T) + 2, pairing=pairing).sum().backward()
    assert x.grad.dtype == dtype
    assert torch.equal(x.detach(), before)
    ones = np.ones(D)
    for t in range(T):
        wanted = definitions.rotation_matrix(t + 2, D, pairing).T @ ones
        assert_equal(x.grad[t].double(), wanted, atol=2 * torch.finfo(dtype).eps)


def test_frequencies_can_be_learned():
    frequencies = rotary_frequencies(D).requires_grad_()
    rotate(random(T, D), torch.arange(T), pairing="half", frequencies=frequencies).sum().backward()
    assert frequencies.grad.abs().min() > 0


def test_everything_is_what_its_signature_says():
    assert isinstance(rotate(random(T, D), torch.arange(T), pairing="half"), torch.Tensor)
    tensors = [
        encoded(torch.arange(T)),
        shift_matrix(1, M),
        rotary_frequencies(D),
        pairing_permutation(D),
        alibi_slopes(H),
        alibi_bias(T, S, alibi_slopes(H)),
        padded_positions(torch.ones(B, S, dtype=torch.bool)),
        yarn_frequencies(D, factor=2.0, original_length=99),
    ]
    assert {type(x) for x in tensors} == {torch.Tensor}
    assert type(yarn_attention_factor(4.0)) is float


# --- two pairings -----------------------------------------------------------------------------


@given(width=widths, seed=st.integers(0, 99), p=some_positions)
def test_the_permutation_leads_from_one_pairing_to_the_other(width, seed, p):
    x, pi = random(3, width, seed=seed), pairing_permutation(width)
    neighbours = rotate(x, at(p), pairing="interleaved")
    halves = rotate(x[:, pi], at(p), pairing="half")
    assert_equal(neighbours[:, pi], halves, atol=1e-14)
    assert_equal(halves[:, pi.argsort()], neighbours, atol=1e-14)


def projected(x, w_q, w_k, w_v, pairing: str, positions=None) -> torch.Tensor:
    """Causal attention of x (b, t, m) with rotated queries and keys."""
    q, k, v = (
        torch.einsum("btm,hmd->bhtd", x, w) if w is w_q else torch.einsum("bsm,gmd->bgsd", x, w)
        for w in (w_q, w_k, w_v)
    )
    positions = torch.arange(x.shape[1]) if positions is None else positions
    q, k = (rotate(y, positions, pairing=pairing) for y in (q, k))
    return grouped_query_attention(q, k, v, may_attend=causal_mask(x.shape[1]))


def some_weights() -> tuple[torch.Tensor, ...]:
    return random(H, M, D, seed=1), random(G, M, D, seed=2), random(G, M, E, seed=3)


def test_with_permuted_weights_both_pairings_give_the_same_output():
    x, (w_q, w_k, w_v) = random(B, T, M), some_weights()
    pi = pairing_permutation(D)
    as_trained = projected(x, w_q, w_k, w_v, "interleaved")
    converted = projected(x, w_q[..., pi], w_k[..., pi], w_v, "half")
    assert_equal(converted, as_trained)


def test_with_the_weights_of_the_other_pairing_the_output_is_wrong():
    x, weights = random(B, T, M), some_weights()
    right, wrong = (projected(x, *weights, pairing) for pairing in PAIRINGS)
    assert_equal(right[:, :, 0], wrong[:, :, 0])  # the first target reads only itself
    assert (right[:, :, 1:] - wrong[:, :, 1:]).abs().max() > 0.1


def test_scores_through_attention_do_not_see_where_the_text_starts():
    x, weights = random(B, T, M), some_weights()
    here = projected(x, *weights, "half")
    there = projected(x, *weights, "half", torch.arange(T) + 1000)
    assert_equal(here, there, atol=1e-10)


# --- partial rotation, other frequencies ------------------------------------------------------


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("d", [D, D + 1])
@pytest.mark.parametrize("r", [2, 6, D])
def test_with_fewer_frequencies_only_the_first_coordinates_turn(pairing, d, r):
    x, positions = random(B, H, T, d), torch.arange(T) + 1
    turned = rotate(x, positions, pairing=pairing, frequencies=rotary_frequencies(r))
    assert torch.equal(turned[..., r:], x[..., r:])
    assert_equal(turned[..., :r], rotate(x[..., :r], positions, pairing=pairing), atol=1e-14)


@given(width=widths, base=bases, pairing=pairings)
def test_frequencies_are_powers_of_the_base_and_may_be_given(width, base, pairing):
    frequencies = rotary_frequencies(width, base=base)
    assert_equal(frequencies, [base ** (-2 * i / width) for i in range(width // 2)], atol=1e-14)
    x, positions = random(T, width), torch.arange(T)
    given_them = rotate(x, positions, pairing=pairing, frequencies=frequencies)
    assert torch.equal(given_them, rotate(x, positions, pairing=pairing, base=base))


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_position_interpolation_puts_p_where_p_over_f_was(pairing):
    x, trained = random(T, D), rotary_frequencies(D)
    slower = linear_frequencies(trained, 8.0)
    far = rotate(x, 8 * torch.arange(T), pairing=pairing, frequencies=slower)
    assert_equal(far, rotate(x, torch.arange(T), pairing=pairing), atol=1e-14)
    assert torch.equal(linear_frequencies(trained, 1.0), trained)


LLAMA_3_1 = {
    "factor": 8.0,
    "low_frequency_factor": 1.0,
    "high_frequency_factor": 4.0,
    "original_length": 8192,
}


def test_llama_3_slows_down_what_makes_few_turns():
    turns = torch.tensor([1000.0, 4.0, 2.5, 1.0, 0.01], dtype=torch.float64)
    trained = 2 * math.pi * turns / 8192
    slower = llama3_frequencies(trained, **LLAMA_3_1)
    assert_equal(slower / trained, [1, 1, (1 + 1 / 8) / 2, 1 / 8, 1 / 8], atol=1e-14)


def test_llama_3_as_its_authors_write_it():
    def scaled(frequency: float) -> float:
        wavelength = 2 * math.pi / frequency
        if wavelength < 8192 / 4.0:
            return frequency
        if wavelength > 8192 / 1.0:
            return frequency / 8.0
        smooth = (8192 / wavelength - 1.0) / (4.0 - 1.0)
        return (1 - smooth) * frequency / 8.0 + smooth * frequency

    trained = rotary_frequencies(128, base=500_000.0)
    wanted = [scaled(frequency) for frequency in trained.tolist()]
    slower = llama3_frequencies(trained, **LLAMA_3_1)
    torch.testing.assert_close(slower, torch.tensor(wanted).double(), rtol=1e-7, atol=0)
    assert_equal(slower, torch.tensor(wanted, dtype=torch.float64), atol=1e-15)


DEEPSEEK_V2 = {"factor": 40.0, "original_length": 4096, "beta_fast": 32.0, "beta_slow": 1.0}


def test_yarn_blends_along_the_index_of_the_pair():
    trained, slower = rotary_frequencies(64), yarn_frequencies(64, **DEEPSEEK_V2)
    # The pair with β turns in 4,096 tokens: 32·ln(4096/2πβ)/ln 10⁴ is 10.47 for β = 32 and 22.51
    # for β = 1, so that the ramp runs from 10 to 23.
    kept = [1 - min(1, max(0, (i - 10) / (23 - 10))) for i in range(32)]
    wanted = [k + (1 - k) / 40 for k in kept]
    assert_equal(slower / trained, wanted, atol=1e-14)


@given(
    width=widths,
    base=st.sampled_from([1.5, 100.0, 10_000.0, 1e6]),
    factor=st.sampled_from([1.0, 2.0, 40.0]),
    length=st.sampled_from([1, 7, 4096, 10**9]),
)
def test_yarn_keeps_the_fast_pairs_and_slows_the_slow_ones(width, base, factor, length):
    trained = rotary_frequencies(width, base=base)
    slower = yarn_frequencies(width, base=base, factor=factor, original_length=length)
    ratio = trained / slower
    assert ((ratio >= 1 - 1e-12) & (ratio <= factor + 1e-12)).all()
    assert (ratio.diff() >= -1e-12).all()  # the slower a pair, the more it is slowed down
    if factor == 1.0:
        assert_equal(slower, trained, atol=1e-15)


def test_yarn_keeps_all_pairs_but_those_behind_a_ramp_of_no_length():
    # 128·ln(10⁹/2πβ)/ln 10⁴ is beyond the last pair for both limits: all pairs make many turns
    kept = yarn_frequencies(256, factor=8.0, original_length=10**9)
    assert_equal(kept, rotary_frequencies(256), atol=0)
    # one token holds no turn at all: the ramp would end before it begins, at pair 0
    slowed = yarn_frequencies(256, factor=8.0, original_length=1)
    assert_equal(slowed[1:], rotary_frequencies(256)[1:] / 8, atol=1e-16)


def test_yarns_factor_is_that_of_deepseek_v2():
    assert yarn_attention_factor(40.0) == pytest.approx(0.1 * math.log(40) + 1, rel=1e-15)
    assert yarn_attention_factor(40.0, 0.707) == pytest.approx(0.0707 * math.log(40) + 1, rel=1e-15)
    assert round(yarn_attention_factor(40.0, mscale=0.707) ** 2, 3) == 1.590
    assert yarn_attention_factor(1.0) == yarn_attention_factor(0.5) == 1.0
    assert yarn_attention_factor(40.0, 0.0) == 1.0


# --- linear biases ----------------------------------------------------------------------------


@given(n=st.integers(1, 200))
def test_slopes_are_their_definition(n):
    slopes = alibi_slopes(n, dtype=torch.float64)
    assert_equal(slopes, definitions.alibi_slopes(n), atol=1e-15)
    assert len(set(slopes.tolist())) == n
    assert torch.equal(alibi_slopes(n), slopes.float())


def test_slopes_of_heads_between_two_powers_of_two_are_those_published():
    assert alibi_slopes(12).log2().tolist() == [
        -1,
        -2,
        -3,
        -4,
        -5,
        -6,
        -7,
        -8,
        -0.5,
        -1.5,
        -2.5,
        -3.5,
    ]


@given(
    t=st.integers(0, 6),
    s=st.integers(0, 7),
    slopes=st.lists(st.sampled_from([0.5, 0.25, 0.3, 0.0]), max_size=3),
)
def test_linear_biases_are_their_definition(t, s, slopes):
    bias = alibi_bias(t, s, torch.tensor(slopes, dtype=torch.float64))
    assert tuple(bias.shape) == (len(slopes), t, s)
    for b, slope in zip(bias, slopes, strict=True):
        assert_equal(b, definitions.alibi_bias(t, s, slope), atol=1e-15)


def test_the_last_target_stands_at_the_last_source():
    whole = alibi_bias(S, S, alibi_slopes(H))
    for t in range(S + 1):
        assert torch.equal(alibi_bias(t, S, alibi_slopes(H)), whole[:, S - t :])
    assert (alibi_bias(T, S, alibi_slopes(H))[:, -1, -1] == 0).all()
    assert alibi_bias(1, 4, torch.tensor([0.5])).tolist() == [[[-1.5, -1.0, -0.5, 0.0]]]


def test_linear_biases_are_added_to_the_scores_of_attention():
    q, k, v = random(B, H, T, D, seed=1), random(B, H, S, D, seed=2), random(B, H, S, E, seed=3)
    slopes, mask = alibi_slopes(H, dtype=torch.float64), causal_mask(T, S)
    out = dot_product_attention(q, k, v, may_attend=mask, bias=alibi_bias(T, S, slopes))
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / D**0.5
    # for the past, −m(t̄ − s) is m·s less a number that is the same in the whole row
    scores = scores + slopes[:, None, None] * torch.arange(S)
    weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), -1)
    assert_equal(out, weights @ v)


def test_without_scores_a_head_halves_its_weight_every_few_steps():
    q, k, v = torch.zeros(1, 1, 1, D), torch.zeros(1, 1, S, D), torch.eye(S)[None, None]
    slope = torch.tensor([math.log(2)])
    weights = dot_product_attention(q, k, v, bias=alibi_bias(1, S, slope))[0, 0, 0]
    assert_equal(weights[1:] / weights[:-1], [2.0] * (S - 1), atol=2 * 8 * S * FP32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_biases_have_the_dtype_of_the_slopes_and_are_rounded_once(dtype):
    slopes = torch.tensor([1 / 8, 3 / 8], dtype=dtype)
    bias = alibi_bias(1, 1001, slopes)
    assert bias.dtype == dtype
    distance = torch.arange(1000, -1, -1, dtype=torch.float64)
    assert torch.equal(bias[:, 0], (-slopes.double()[:, None] * distance).to(dtype))


# --- padded batches ---------------------------------------------------------------------------


@given(st.data())
def test_padded_positions_are_their_definition(data):
    b, s = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 6))
    rows = data.draw(
        st.lists(st.lists(st.booleans(), min_size=s, max_size=s), min_size=b, max_size=b)
    )
    is_token = torch.tensor(rows, dtype=torch.bool).reshape(b, s)
    positions = padded_positions(is_token)
    assert positions.dtype == torch.int64
    np.testing.assert_array_equal(
        positions.numpy(), definitions.padded_positions(is_token.numpy()).reshape(b, s)
    )


def test_each_row_counts_its_own_tokens_from_zero():
    left = torch.tensor([[0, 0, 0, 1, 1], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]]).bool()
    wanted = [[0, 0, 0, 0, 1], [0, 0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 0, 0, 0, 0]]
    assert padded_positions(left).tolist() == wanted
    right = torch.tensor([[1, 1, 0, 0, 0]]).bool()
    assert padded_positions(right).tolist() == [[0, 1, 1, 1, 1]]


def left_padded(lengths: list[int]) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """Texts of their lengths, the batch that holds them, and where it holds tokens."""
    texts = [random(n, M, seed=n) for n in lengths]
    longest = max(lengths)
    batch = torch.stack([torch.cat([torch.full((longest - len(x), M), 9.0), x]) for x in texts])
    is_token = torch.arange(longest) >= longest - torch.tensor(lengths)[:, None]
    return texts, batch, is_token


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_padded_batch_gives_what_each_text_gives_alone(pairing):
    texts, batch, is_token = left_padded([2, 5, 3])
    w_q, w_k, w_v = some_weights()
    positions = padded_positions(is_token)
    q = rotate(torch.einsum("btm,hmd->bhtd", batch, w_q), positions, pairing=pairing)
    k = rotate(torch.einsum("bsm,gmd->bgsd", batch, w_k), positions, pairing=pairing)
    v = torch.einsum("bsm,gmd->bgsd", batch, w_v)
    mask = causal_mask(5) & padding_mask(is_token)
    out = grouped_query_attention(q, k, v, may_attend=mask)
    for b, text in enumerate(texts):
        alone = projected(text[None], w_q, w_k, w_v, pairing)
        assert_equal(out[b, :, 5 - len(text) :], alone[0])


def test_a_padded_batch_with_sinusoids_gives_what_each_text_gives_alone():
    texts, batch, is_token = left_padded([2, 5, 3])
    x = batch + encoded(padded_positions(is_token))
    for b, text in enumerate(texts):
        alone = text + encoded(torch.arange(len(text)))
        assert torch.equal(x[b, 5 - len(text) :], alone)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_what_stands_at_padding_is_finite_and_turned_by_nothing(pairing):
    _, batch, is_token = left_padded([2, 5, 3])
    x = batch[:, None, :, :]
    turned = rotate(x, padded_positions(is_token), pairing=pairing)
    pads = ~is_token[:, None, :]
    assert torch.equal(turned[pads], x[pads])
    assert turned.isfinite().all()


# --- independent libraries: last, because they take seconds to import -------------------------
#
# transformers forms angles in fp32: its frequencies are powers rounded a few times (up to 8 half
# steps), the product with the position is rounded once more.

FREQUENCY_RTOL = 8 * FP32
FAR_POSITIONS = torch.tensor([0, 1, 17, 500, 1_023])


def angle_atol(x: torch.Tensor) -> float:
    return x.abs().max().item() * (10 * FP32 * FAR_POSITIONS.max().item() + 4 * FP32)


def same_frequencies(actual: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(actual, theirs.double(), rtol=FREQUENCY_RTOL, atol=0)


def queries_and_keys(d: int, n_kv_heads: int = G) -> tuple[torch.Tensor, torch.Tensor]:
    n = len(FAR_POSITIONS)
    return tuple(
        random(B, heads, n, d, seed=heads, dtype=torch.float32) for heads in (H, n_kv_heads)
    )


def turned_by_halves(embedding, *layer_type, d: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs (x, x as Hugging Face's Llama turns it)."""
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    q, k = queries_and_keys(d)
    cos, sin = embedding(q, FAR_POSITIONS.expand(B, -1), *layer_type)
    return list(zip((q, k), apply_rotary_pos_emb(q, k, cos, sin), strict=True))


def assert_turned(pairs, pairing: str, **options) -> None:
    for x, theirs in pairs:
        ours = rotate(x, FAR_POSITIONS, pairing=pairing, **options)
        assert_equal(ours, theirs, atol=angle_atol(x))


def llama(d: int = 32, **rope):
    from transformers.models.llama.modeling_llama import LlamaConfig, LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=2 * d,
        num_attention_heads=2,
        head_dim=d,
        max_position_embeddings=10**8,
        rope_parameters={**rope},
    )
    return LlamaRotaryEmbedding(config)


def test_llama_turns_halves():
    embedding = llama(rope_type="default", rope_theta=500_000.0)
    same_frequencies(rotary_frequencies(32, base=500_000.0), embedding.inv_freq)
    assert_turned(turned_by_halves(embedding, d=32), "half", base=500_000.0)


def test_llama_3_1_scales_as_here():
    embedding = llama(
        rope_type="llama3",
        rope_theta=500_000.0,
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    )
    frequencies = llama3_frequencies(rotary_frequencies(32, base=500_000.0), **LLAMA_3_1)
    same_frequencies(frequencies, embedding.inv_freq)
    assert_turned(turned_by_halves(embedding, d=32), "half", frequencies=frequencies)


def test_gemma_3_slows_its_global_layers_down():
    from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding, Gemma3TextConfig

    config = Gemma3TextConfig(
        head_dim=32,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    )
    embedding = Gemma3RotaryEmbedding(config)
    slower = linear_frequencies(rotary_frequencies(32, base=1e6), 8.0)
    same_frequencies(slower, embedding.full_attention_inv_freq)
    same_frequencies(rotary_frequencies(32), embedding.sliding_attention_inv_freq)
    everywhere = turned_by_halves(embedding, "full_attention", d=32)
    assert_turned(everywhere, "half", frequencies=slower)
    assert_turned(turned_by_halves(embedding, "sliding_attention", d=32), "half")


def deepseek_v2_config(**changes):
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Config

    rope = {
        "rope_type": "yarn",
        "rope_theta": 10_000.0,
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": 0.707,
        "mscale_all_dim": 0.707,
    }
    return DeepseekV2Config(
        hidden_size=64,
        num_attention_heads=4,
        q_lora_rank=24,
        kv_lora_rank=16,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=10,
        max_position_embeddings=163_840,
        rope_parameters=rope | changes,
    )


@pytest.mark.parametrize("mscale", [0.707, 1.0])
def test_deepseek_v2_turns_neighbours_slowed_down_by_yarn(mscale):
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import (
        DeepseekV2RotaryEmbedding,
        apply_rotary_emb,
    )

    embedding = DeepseekV2RotaryEmbedding(deepseek_v2_config(mscale=mscale))
    frequencies = yarn_frequencies(64, **DEEPSEEK_V2)
    same_frequencies(frequencies, embedding.inv_freq)
    quotient = yarn_attention_factor(40.0, mscale) / yarn_attention_factor(40.0, 0.707)
    assert embedding.attention_scaling == pytest.approx(quotient, rel=1e-15)
    q, k = queries_and_keys(64, n_kv_heads=1)
    theirs = apply_rotary_emb(q, k, embedding(q, FAR_POSITIONS.expand(B, -1)))
    assert_turned(
        [(x, y / quotient) for x, y in zip((q, k), theirs, strict=True)],
        "interleaved",
        frequencies=frequencies,
    )


def test_deepseek_v2_multiplies_its_scale_by_the_square_of_yarns_factor():
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Attention

    scale = DeepseekV2Attention(deepseek_v2_config(), layer_idx=0).scaling
    assert scale == pytest.approx(yarn_attention_factor(40.0, 0.707) ** 2 / 192**0.5, rel=1e-14)


def test_yarn_without_mscale_multiplies_queries_and_keys():
    embedding = llama(
        rope_type="yarn",
        rope_theta=10_000.0,
        factor=16.0,
        original_max_position_embeddings=2048,
    )
    frequencies = yarn_frequencies(32, factor=16.0, original_length=2048)
    same_frequencies(frequencies, embedding.inv_freq)
    factor = yarn_attention_factor(16.0)
    pairs = [(x, y / factor) for x, y in turned_by_halves(embedding, d=32)]
    assert_turned(pairs, "half", frequencies=frequencies)


@pytest.mark.parametrize("width", [8, 64, 128])
@pytest.mark.parametrize("base,length", [(100.0, 500), (1e4, 4096), (5e5, 10**6)])
@pytest.mark.parametrize("factor", [1.0, 1.5, 40.0])
@pytest.mark.parametrize("fast,slow", [(32.0, 1.0), (2.0, 1.0), (4.0, 3.9), (50.0, 0.3)])
def test_yarn_is_that_of_transformers_wherever_its_ramp_begins_before_it_ends(
    width, base, length, factor, fast, slow
):
    embedding = llama(
        d=width,
        rope_type="yarn",
        rope_theta=base,
        factor=factor,
        original_max_position_embeddings=length,
        beta_fast=fast,
        beta_slow=slow,
    )
    options = {"factor": factor, "original_length": length, "beta_fast": fast, "beta_slow": slow}
    same_frequencies(yarn_frequencies(width, base=base, **options), embedding.inv_freq)
    assert embedding.attention_scaling == pytest.approx(yarn_attention_factor(factor), rel=1e-14)


def test_gptj_turns_the_first_neighbours_only():
    from transformers.models.gptj.modeling_gptj import (
        apply_rotary_pos_emb,
        create_sinusoidal_positions,
    )

    table = create_sinusoidal_positions(1024, 8)[FAR_POSITIONS].expand(B, -1, -1)
    sin, cos = table.chunk(2, dim=-1)
    x = queries_and_keys(D)[0]
    theirs = apply_rotary_pos_emb(x[..., :8].transpose(1, 2), sin, cos).transpose(1, 2)
    theirs = torch.cat([theirs, x[..., 8:]], dim=-1)
    assert_turned([(x, theirs)], "interleaved", frequencies=rotary_frequencies(8))


@pytest.mark.parametrize("n", [1, 2, 6, 8, 12, 71])
def test_bloom_and_mpt_have_the_same_slopes_and_biases(n):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    slopes = alibi_slopes(n, dtype=torch.float64)
    bloom = build_alibi_tensor(torch.ones(1, S), n, torch.float32).reshape(n, S).double()
    torch.testing.assert_close(bloom[:, 1], slopes, rtol=n * 4 * FP32, atol=0)  # powers of a power
    # Bloom adds m·s: in the last row that is our bias and a constant, which softmax does not see.
    last_row = alibi_bias(1, S, slopes)[:, 0]
    assert_equal(bloom - bloom[:, -1:], last_row, atol=S * n * 4 * FP32)
    if n & (n - 1) == 0:  # between powers of two MPT orders its slopes in another way
        mpt = build_mpt_alibi_tensor(n, S)[:, 0]
        assert_equal(mpt.double(), last_row, atol=S * 4 * FP32)
