"""The definitions of the chapter on fewer key/value heads against identities and libraries."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

import attnlib
from attnlib import cost, definitions

RNG = np.random.default_rng(37)
HEADS = [(6, 2), (6, 3), (10, 5), (7, 1), (4, 4)]


# --- who reads whom -----------------------------------------------------------------------


@pytest.mark.parametrize("h,g", HEADS)
def test_a_head_reads_what_attention_gives_it(h, g):
    # values are the number of their head, so the output says which one was read
    q, k = RNG.normal(size=(1, h, 1, 2)), RNG.normal(size=(1, g, 3, 2))
    v = np.arange(float(g))[None, :, None, None] * np.ones((1, g, 3, 1))
    heads = definitions.kv_heads_read(h, g)
    out = definitions.grouped_query_attention(q, k, v)
    # three weights sum to one but for their roundings
    np.testing.assert_allclose(out.ravel(), heads, rtol=1e-15 * 4)
    of_torch = F.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), enable_gqa=True)
    np.testing.assert_allclose(of_torch.ravel(), heads, rtol=1e-15 * 4)


@pytest.mark.parametrize("h,g", HEADS)
def test_every_key_value_head_is_read_by_p_neighbours(h, g):
    heads = definitions.kv_heads_read(h, g)
    np.testing.assert_array_equal(np.bincount(heads, minlength=g), [h // g] * g)
    assert (np.diff(heads) >= 0).all()


# --- pooling ------------------------------------------------------------------------------


@pytest.mark.parametrize("h,g", HEADS)
def test_pooling_is_a_mean_over_those_that_read_the_same(h, g):
    weights = RNG.normal(size=(h, 5, 3))
    pooled = definitions.pooled_heads(weights, g)
    readers = definitions.kv_heads_read(h, g)
    wanted = [weights[readers == j].mean(0) for j in range(g)]
    # at most seven numbers of size one, each addition rounded
    np.testing.assert_allclose(pooled, wanted, rtol=0, atol=1e-14)


def test_pooling_of_equal_heads_gives_them_back():
    kept = RNG.normal(size=(2, 5, 4))
    pooled = definitions.pooled_heads(np.repeat(kept, 3, axis=0), 2)
    np.testing.assert_allclose(pooled, kept, rtol=1e-15)


def test_nothing_is_nearer_to_the_heads_than_their_mean():
    weights = RNG.normal(size=(4, 3, 2))
    (mean,) = definitions.pooled_heads(weights, 1)
    least = ((weights - mean) ** 2).sum()
    for _ in range(5):
        step = RNG.normal(size=mean.shape)
        missed = ((weights - mean - step) ** 2).sum()
        # the sum of squares splits: what the mean misses, and p times the step
        np.testing.assert_allclose(missed, least + 4 * (step**2).sum(), rtol=1e-14)


# --- a step -------------------------------------------------------------------------------


@pytest.mark.parametrize("h,g", HEADS)
def test_a_step_is_what_the_cost_model_says(h, g):
    d, e, n = 3, 5, 4
    n_elements, n_flops, intensity = definitions.shared_step(h, g, d, e, n)
    letters = cost.SHARED_HEADS.cache_elements, cost.SHARED_HEADS.flops_per_pair
    numbers = {"h": h, "g": g, "d": d, "e": e}
    per_token, per_pair = (x.subs({s: numbers[s.name] for s in x.free_symbols}) for x in letters)
    assert (n_elements, n_flops) == (n * per_token, n * per_pair)
    assert intensity == 2 * h / g


def test_the_flops_of_a_step_are_those_of_its_heads_and_of_torch():
    h, g, d, e, n = 6, 2, 3, 5, 4
    n_elements, n_flops, _ = definitions.shared_step(h, g, d, e, n)
    assert n_flops == h * definitions.attention_flops(1, n, d, e)
    q, k, v = torch.ones(1, h, 1, d), torch.ones(1, g, n, d), torch.ones(1, g, n, e)
    with FlopCounterMode(display=False) as counter:
        attnlib.grouped_query_attention(q, k, v)
    assert counter.get_total_flops() == n_flops > 0
    assert k.numel() + v.numel() == n_elements


# --- a shared factor ----------------------------------------------------------------------


@pytest.mark.parametrize("p,m,d", [(2, 7, 3), (3, 4, 5), (4, 9, 2)])
def test_the_least_error_is_attained_and_no_factor_beats_it(p, m, d):
    weights = RNG.normal(size=(p, m, d))
    left = np.linalg.svd(np.hstack(list(weights)))[0]

    def missed(a):
        """What is left when each matrix has its own best B."""
        b = [np.linalg.lstsq(a, w, rcond=None)[0] for w in weights]
        return sum(((w - a @ x) ** 2).sum() for w, x in zip(weights, b, strict=True))

    for rank in range(1, m + 1):
        least = definitions.shared_factor_error(weights, rank)
        # sums of p·m·d squares of size one, each side rounded a few times
        np.testing.assert_allclose(missed(left[:, :rank]), least, rtol=0, atol=1e-12)
        for _ in range(3):
            assert missed(RNG.normal(size=(m, rank))) >= least - 1e-12


def test_the_least_error_falls_from_everything_to_nothing():
    weights = RNG.normal(size=(3, 5, 4))
    errors = [definitions.shared_factor_error(weights, rank) for rank in range(7)]
    assert errors[0] == pytest.approx((weights**2).sum(), rel=1e-14)
    assert errors[5:] == [0, 0]
    assert errors == sorted(errors, reverse=True)
    # the eigenvalues of the sum of all W Wᵀ are the squares, the smallest first
    values = np.linalg.eigvalsh(sum(w @ w.T for w in weights))
    np.testing.assert_allclose(errors[1], values[:-1].sum(), rtol=1e-12)


def test_a_shared_factor_as_wide_as_a_head_misses_no_more_than_the_mean():
    weights = RNG.normal(size=(3, 8, 2))
    (mean,) = definitions.pooled_heads(weights, 1)
    of_mean = ((weights - mean) ** 2).sum()
    assert definitions.shared_factor_error(weights, 2) < of_mean
    # two heads that are equal in other coordinates: the mean is lost, the factor has all
    w, turn = RNG.normal(size=(8, 2)), np.array([[0.0, -1.0], [1.0, 0.0]])
    assert definitions.shared_factor_error([w, w @ turn], 2) < 1e-28 * (w**2).sum()
    assert definitions.shared_factor_error([w, -w], 2) < 1e-28 * (w**2).sum()
    assert definitions.pooled_heads([w, -w], 1).any() == np.False_
