"""The definitions of the chapter on counting cost against counts of what really runs."""

from collections import Counter

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attnlib import cost, definitions


class Counted:
    """A number that notes in a list what is done with it."""

    def __init__(self, done):
        self.done = done

    def __mul__(self, other):
        self.done.append("multiplied")
        return self

    def __add__(self, other):
        self.done.append("added")
        return self

    __radd__ = __add__


def of_counted(*shape, done):
    return np.array([Counted(done) for _ in range(np.prod(shape))], dtype=object).reshape(shape)


T, M, D = 2, 7, 5


def test_what_is_counted_is_what_the_loops_do():
    done = []
    n_flops = definitions.product_flops(of_counted(T, M, done=done), of_counted(M, D, done=done))
    assert Counter(done) == {"multiplied": T * M * D, "added": T * M * D}
    assert n_flops == len(done) == 140


def test_numpy_multiplies_as_often_and_adds_once_less_for_each_entry():
    done = []
    of_counted(T, M, done=done) @ of_counted(M, D, done=done)
    n_flops = definitions.product_flops(np.ones((T, M)), np.ones((M, D)))
    assert Counter(done) == {"multiplied": n_flops // 2, "added": n_flops // 2 - T * D}


@pytest.mark.parametrize("t,m,d", [(2, 3, 5), (1, 7, 4), (4, 1, 6), (3, 0, 2)])
def test_a_product_costs_what_torch_counts(t, m, d):
    with FlopCounterMode(display=False) as counted:
        torch.ones(t, m) @ torch.ones(m, d)
    n_flops = definitions.product_flops(np.ones((t, m)), np.ones((m, d)))
    assert n_flops == counted.get_total_flops() == 2 * t * m * d


def test_matrices_that_do_not_fit_have_no_product():
    with pytest.raises(ValueError, match="zip"):
        definitions.product_flops(np.ones((2, 3)), np.ones((4, 5)))


S, E = 6, 3


def test_the_core_of_a_head_costs_what_torch_counts():
    q, k, v = torch.ones(T, D), torch.ones(S, D), torch.ones(S, E)
    with FlopCounterMode(display=False) as counted:
        torch.softmax(torch.einsum("td,sd->ts", q, k), -1) @ v
    n_flops = definitions.attention_flops(T, S, D, E)
    assert n_flops == counted.get_total_flops() == 2 * T * S * (D + E)


def test_scores_and_averages_are_two_products():
    of_scores = definitions.product_flops(np.ones((T, D)), np.ones((D, S)))
    of_averages = definitions.product_flops(np.ones((T, S)), np.ones((S, E)))
    assert definitions.attention_flops(T, S, D, 0) == of_scores
    assert definitions.attention_flops(T, S, 0, E) == of_averages
    assert definitions.attention_flops(T, S, D, E) == of_scores + of_averages


@pytest.mark.parametrize("t,s,window", [(4, 4, None), (2, 7, None), (1, 5, None), (3, 6, 2)])
def test_pairs_that_may_not_be_read_cost_nothing(t, s, window):
    mask = definitions.causal_mask(t, s, window)
    n_flops = definitions.attention_flops(t, s, D, E, mask)
    assert n_flops == 2 * (D + E) * mask.sum()
    n_pairs = cost.n_pairs_of_pass(t, s, window=window)
    letters = {"h": 1, "d": D, "e": E}
    assert n_flops == n_pairs * cost.evaluate(cost.SHARED_HEADS.flops_per_pair, **letters)


def test_a_target_may_have_nothing_to_read():
    assert definitions.attention_flops(1, 2, D, E, np.array([[False, False]])) == 0
