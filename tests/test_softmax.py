"""The claims of chapters/attention.md about softmax, log-sum-exp and the merge."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.special
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import definitions, log_sum_exp, merge_attention, softmax

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
LOW = [torch.float16, torch.bfloat16]


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@st.composite
def rows(draw):
    """Scores (rows, s) of some spread, and a random mask or none."""
    n_rows, s = draw(st.integers(0, 4)), draw(st.integers(0, 9))
    scores = random(n_rows, s, seed=draw(st.integers(0, 99))) * draw(st.sampled_from([0.1, 3, 300]))
    if not draw(st.booleans()):
        return scores, None
    return scores, random(n_rows, s, seed=draw(st.integers(0, 99))) > draw(st.sampled_from([0, 1]))


@given(rows())
def test_softmax_and_log_sum_exp_are_their_definitions(scores_and_where):
    scores, where = scores_and_where
    weights, lse = softmax(scores, where), log_sum_exp(scores, where)
    assert weights.shape == scores.shape
    assert lse.shape == scores.shape[:-1]
    for i in range(len(scores)):
        counts = slice(None) if where is None else where[i]
        row = scores[i][counts].numpy()
        np.testing.assert_allclose(weights[i][counts], definitions.softmax(row), atol=1e-14)
        # 16 steps of rounding at most in a sum of 9 terms
        np.testing.assert_allclose(lse[i], definitions.log_sum_exp(row), rtol=4e-15, atol=4e-15)
        if where is not None:
            assert (weights[i][~where[i]] == 0).all()


def test_softmax_agrees_with_torch_and_scipy():
    scores = random(3, 4, 7) * 10
    torch.testing.assert_close(softmax(scores), torch.softmax(scores, -1), rtol=1e-14, atol=0)
    np.testing.assert_allclose(log_sum_exp(scores), scipy.special.logsumexp(scores, -1), rtol=1e-14)


@given(st.floats(-700, 700), st.integers(1, 8))
def test_a_constant_added_to_a_row_changes_nothing(constant, s):
    scores = random(2, s)
    # scores near 700 are only known to 700 · 2⁻⁵³, and so are their differences
    torch.testing.assert_close(softmax(scores + constant), softmax(scores), rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_as_large_as_the_dtype_holds_do_not_overflow(dtype):
    largest = torch.finfo(dtype).max
    scores = torch.tensor([[largest, largest, -largest]], dtype=dtype)
    assert softmax(scores).tolist() == [[0.5, 0.5, 0.0]]
    assert log_sum_exp(scores[:, 2:]).item() == -largest


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_to_choose_from_gives_zeros_and_minus_infinity(dtype):
    for scores, where in [
        (torch.full((2, 3), -torch.inf, dtype=dtype), None),
        (torch.ones(2, 3, dtype=dtype), torch.zeros(3, dtype=torch.bool)),
        (torch.ones(2, 0, dtype=dtype), None),
    ]:
        scores.requires_grad_()
        weights, lse = softmax(scores, where), log_sum_exp(scores, where)
        assert weights.dtype == lse.dtype == dtype
        assert (weights == 0).all()
        assert (lse == -torch.inf).all()
        for result in (weights, lse):
            (gradient,) = torch.autograd.grad(result.sum(), scores, retain_graph=True)
            assert (gradient == 0).all()


def test_a_row_with_nothing_leaves_the_gradients_of_the_other_rows_alone():
    scores = random(2, 5).requires_grad_()
    where = torch.tensor([[False] * 5, [True] * 5])
    (softmax(scores, where) * random(2, 5, seed=1)).sum().backward()
    alone = scores.detach()[1].clone().requires_grad_()
    (softmax(alone) * random(2, 5, seed=1)[1]).sum().backward()
    torch.testing.assert_close(scores.grad[1], alone.grad, rtol=0, atol=1e-16)
    assert (scores.grad[0] == 0).all()


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, -torch.inf])
def test_what_stands_at_an_excluded_place_has_no_influence(poison):
    where = torch.tensor([True, True, False])
    scores = torch.tensor([[1.0, 2.0, poison]], dtype=torch.float64, requires_grad=True)
    clean = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    assert torch.equal(softmax(scores, where)[:, :2], softmax(clean))
    assert torch.equal(log_sum_exp(scores, where), log_sum_exp(clean))
    (softmax(scores, where)[:, 0].sum() + log_sum_exp(scores, where).sum()).backward()
    assert scores.grad.isfinite().all()
    assert scores.grad[0, 2] == 0


def test_a_nan_that_counts_spoils_its_row_but_not_the_zeros():
    scores = torch.tensor([[torch.nan, 1.0, 2.0], [0.0, 0.0, 0.0]])
    weights = softmax(scores, torch.tensor([True, True, False]))
    assert weights[0, :2].isnan().all()
    assert weights[0, 2] == 0
    assert weights[1].tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_score_of_infinity_gives_infinity_as_torch_does(dtype):
    rows = [
        [torch.inf, 0.0],
        [torch.inf, torch.inf],
        [torch.inf, -torch.inf],
        [torch.inf, torch.nan],
    ]
    scores = torch.tensor(rows, dtype=dtype)
    lse = log_sum_exp(scores)
    assert lse[:3].tolist() == [torch.inf] * 3
    torch.testing.assert_close(lse, torch.logsumexp(scores, -1), equal_nan=True)
    assert softmax(scores).isnan().all()
    assert log_sum_exp(scores, torch.tensor([False, True]))[0] == 0
    np.testing.assert_array_equal([definitions.log_sum_exp(row) for row in rows], lse.double())


def test_the_jacobian_of_softmax_is_its_definition():
    scores = random(6)
    jacobian = torch.autograd.functional.jacobian(softmax, scores)
    wanted = definitions.softmax_jacobian(definitions.softmax(scores.numpy()))
    np.testing.assert_allclose(jacobian, wanted, rtol=0, atol=1e-15)


def test_the_gradient_of_log_sum_exp_is_softmax():
    scores = random(3, 5).requires_grad_()
    (gradient,) = torch.autograd.grad(log_sum_exp(scores).sum(), scores)
    torch.testing.assert_close(gradient, softmax(scores.detach()), rtol=1e-14, atol=0)


def test_gradients_agree_with_difference_quotients():
    scores = random(3, 4).requires_grad_()
    where = torch.tensor([[True] * 4, [True, False, True, False], [False] * 4])
    assert torch.autograd.gradcheck(lambda x: softmax(x, where), scores)
    assert torch.autograd.gradgradcheck(lambda x: softmax(x, where), scores)
    assert torch.autograd.gradcheck(lambda x: log_sum_exp(x, where)[:2], scores)


@pytest.mark.parametrize("dtype", LOW)
def test_low_precision_is_rounded_once(dtype):
    scores = (random(50, 40) * 3).to(dtype)
    exact = torch.from_numpy(
        np.stack([definitions.softmax(row) for row in scores.double().numpy()])
    )
    weights = softmax(scores).double()
    step = torch.finfo(dtype).eps / 2
    # half a step of the dtype (or of its least subnormal), and fp32's own error: differences of
    # scores below 2⁵, the exponential and a sum of 40 terms cost less than 2⁷ units of 2⁻²⁴
    bound = (step + 2.0**-17) * exact + torch.finfo(dtype).smallest_normal * step
    assert ((weights - exact).abs() <= bound).all()


def part_of(scores: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return softmax(scores) @ values, log_sum_exp(scores)


@given(
    cuts=st.lists(st.integers(0, 12), max_size=5),
    order=st.randoms(use_true_random=False),
    seed=st.integers(0, 99),
)
def test_sources_may_be_cut_anywhere_and_read_in_any_order(cuts, order, seed):
    scores, values = random(5, 12, seed=seed) * 9, random(12, 3, seed=seed + 1)
    edges = [0, *sorted(cuts), 12]
    pieces = [slice(a, b) for a, b in pairwise(edges)]
    order.shuffle(pieces)
    out, lse = merge_attention([part_of(scores[:, i], values[i]) for i in pieces])
    whole, whole_lse = part_of(scores, values)
    torch.testing.assert_close(out, whole, rtol=0, atol=1e-13)
    torch.testing.assert_close(lse, whole_lse, rtol=0, atol=1e-13)


def three_parts():
    return [(random(2, 5, 3, seed=i), 50 * random(2, 5, seed=10 + i)) for i in range(3)]


def test_the_merge_is_its_definition():
    a, b, _ = three_parts()
    out, lse = merge_attention([a, b])
    for i in np.ndindex(2, 5):
        wanted = definitions.merge(*[(o[i].numpy(), lse_[i].item()) for o, lse_ in (a, b)])
        np.testing.assert_allclose(out[i], wanted[0], rtol=0, atol=1e-13)
        np.testing.assert_allclose(lse[i], wanted[1], rtol=0, atol=1e-13)


def test_the_merge_is_associative_and_commutative():
    a, b, c = three_parts()
    left = merge_attention([merge_attention([a, b]), c])
    right = merge_attention([a, merge_attention([b, c])])
    at_once = merge_attention([c, a, b])
    for other in (right, at_once):
        for x, y in zip(left, other, strict=True):
            torch.testing.assert_close(x, y, rtol=0, atol=1e-13)


@pytest.mark.parametrize("filling", [0.0, torch.nan, torch.inf])
def test_a_part_that_read_nothing_changes_nothing(filling):
    (out, lse), *_ = three_parts()
    nothing = (torch.full_like(out, filling), torch.full_like(lse, -torch.inf))
    merged, merged_lse = merge_attention([nothing, (out, lse), nothing])
    torch.testing.assert_close(merged, out, rtol=0, atol=0)
    torch.testing.assert_close(merged_lse, lse, rtol=0, atol=0)


def test_merging_nothing_with_nothing_gives_nothing_and_no_nan():
    out = torch.zeros(4, 3, requires_grad=True)
    lse = torch.full((4,), -torch.inf, requires_grad=True)
    merged, merged_lse = merge_attention([(out, lse), (out, lse)])
    assert (merged == 0).all()
    assert (merged_lse == -torch.inf).all()
    (merged.sum() + softmax(merged_lse[None]).sum()).backward()
    assert (out.grad == 0).all()
    assert (lse.grad == 0).all()


def test_gradients_flow_through_a_merge_as_through_the_whole():
    scores, values, target = random(4, 9), random(9, 3), random(4, 3, seed=2)

    def gradient(merged: bool):
        x = scores.clone().requires_grad_()
        parts = [part_of(x[:, :5], values[:5]), part_of(x[:, 5:], values[5:])]
        out, lse = merge_attention(parts) if merged else part_of(x, values)
        ((out - target).square().sum() + lse.square().sum()).backward()
        return x.grad

    torch.testing.assert_close(gradient(True), gradient(False), rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", LOW)
def test_a_merge_in_low_precision_is_rounded_once(dtype):
    parts = [(out.to(dtype), lse.float() / 50) for out, lse in three_parts()]
    out, lse = merge_attention(parts)
    exact, _ = merge_attention([(out.double(), lse.double()) for out, lse in parts])
    assert out.dtype == dtype
    assert lse.dtype == torch.float32
    # half a step of the result, and fp32's error in three terms below 4
    bound = torch.finfo(dtype).eps / 2 * exact.abs() + 2.0**-19
    assert ((out.double() - exact).abs() <= bound).all()


def test_one_part_is_the_whole():
    (out, lse), *_ = three_parts()
    merged, merged_lse = merge_attention(iter([(out, lse)]))
    assert torch.equal(merged, out)
    assert torch.equal(merged_lse, lse)


def test_the_scores_are_left_as_they_were():
    scores, where = random(3, 4), random(3, 4) > 0
    before = scores.clone()
    softmax(scores, where)
    log_sum_exp(scores, where)
    assert torch.equal(scores, before)
