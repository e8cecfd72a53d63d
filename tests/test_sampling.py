"""From logits to a token: what the chapter language-models says of sampling holds."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from scipy import stats
from transformers import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from attnlib import definitions
from attnlib.sampling import (
    GREEDY,
    Sampler,
    draw,
    fault_of_logits,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    temper,
)

ROWS, V = 3, 7
INF = math.inf


def logits(*shape, seed=0, spread=2.0):
    generator = torch.Generator().manual_seed(seed)
    return spread * torch.randn(shape or (ROWS, V), generator=generator, dtype=torch.float64)


def of(*p):
    """Logits whose softmax is p, up to rounding; 0 is forbidden."""
    return torch.tensor(p, dtype=torch.float64).log()


def kept(x):
    return (x > -INF).nonzero()[:, -1].tolist()


def assert_equal(actual, wanted, atol=1e-14):
    torch.testing.assert_close(
        actual, torch.as_tensor(wanted, dtype=actual.dtype), rtol=0, atol=atol
    )


# --- cases that a person can check ------------------------------------------------------------


def test_of_equal_logits_the_lowest_id_is_the_greedy_one():
    p = GREEDY.probabilities(torch.tensor([[1.0, 5.0, 5.0, 2.0], [3.0, 3.0, 3.0, 3.0]]))
    assert p.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]


def test_top_k_never_keeps_more_than_k_and_breaks_ties_by_id():
    tied = torch.tensor([2.0, 7.0, 2.0, 2.0, 9.0])
    assert [kept(keep_top_k(tied, k)) for k in (1, 2, 3, 4)] == [
        [4],
        [1, 4],
        [0, 1, 4],
        [0, 1, 2, 4],
    ]


def test_a_k_beyond_the_vocabulary_keeps_all():
    for k in (V, V + 1, 10**9):
        assert_equal(keep_top_k(logits(), k), logits(), atol=0)


def test_the_token_with_which_the_mass_is_reached_is_kept():
    z = of(0.125, 0.5, 0.25, 0.125)
    masses = {0.01: [1], 0.49: [1], 0.51: [1, 2], 0.74: [1, 2], 0.76: [0, 1, 2], 0.9: [0, 1, 2, 3]}
    for mass, wanted in masses.items():
        assert kept(keep_top_p(z, mass)) == wanted


def test_a_mass_that_is_met_exactly_is_enough():
    # all four are equal, so that softmax gives exact quarters
    assert kept(keep_top_p(torch.zeros(4), 0.5)) == [0, 1]
    assert kept(keep_top_p(torch.zeros(4), 0.25)) == [0]


def test_a_mass_of_1_keeps_all_however_small_they_are():
    z = torch.tensor([0.0, -40.0, -80.0, -700.0])  # the sum is 1 from the first on
    assert kept(keep_top_p(z, 1.0)) == [0, 1, 2, 3]


@pytest.mark.parametrize("mass", [1e-300, 0.5, 1 - 1e-16, 1.0])
def test_no_mass_is_so_small_that_nothing_is_kept(mass):
    assert kept(keep_top_p(torch.full((5,), -3.0), mass))[0] == 0
    assert Sampler(top_p=mass).probabilities(logits()).sum() == pytest.approx(ROWS, abs=1e-14)


def test_min_p_is_relative_to_the_likeliest_and_keeps_its_equals():
    z = of(0.1, 0.4, 0.2, 0.3)
    assert kept(keep_min_p(z, 0.49)) == [1, 2, 3]
    assert kept(keep_min_p(z, 0.51)) == [1, 3]
    assert kept(keep_min_p(torch.tensor([4.0, 1.0, 4.0]), 1.0)) == [0, 2]
    assert kept(keep_min_p(torch.tensor([0.0, -700.0]), 0.0)) == [0, 1]


def test_what_is_forbidden_stays_forbidden():
    z = torch.tensor([-INF, 1.0, -INF, 0.0])
    everything = [
        Sampler(),
        Sampler(temperature=1e9),
        Sampler(top_k=3),
        Sampler(top_p=1.0),
        Sampler(min_p=0.0),
    ]
    for sampler in everything:
        p = sampler.probabilities(z)
        assert p[[0, 2]].tolist() == [0, 0] and p[1] > 0 and p[3] > 0


def test_temperature_sharpens_flattens_and_never_overflows():
    z = torch.tensor([1000.0, 999.0, -1000.0])
    assert_equal(temper(z, 0.25), [0.0, -4.0, -8000.0], atol=0)
    # 1000/10⁻³⁰⁷ is beyond the largest number of fp64
    assert Sampler(temperature=1e-307).probabilities(z).tolist() == [1, 0, 0]
    assert_equal(Sampler(temperature=1e300).probabilities(z), [1 / 3] * 3, atol=1e-15)


def test_a_uniform_number_takes_the_first_token_whose_sum_exceeds_it():
    p = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0], dtype=torch.float64)
    for u, wanted in ((0.0, 1), (0.2499, 1), (0.25, 3), (0.7499, 3), (0.75, 4), (1 - 2**-53, 4)):
        assert draw(p, torch.tensor(u, dtype=torch.float64)).item() == wanted


def test_the_largest_uniform_number_draws_no_token_without_probability():
    # 2⁻¹⁰⁷⁴ is the smallest number above 0: any share of it rounds to 0 or to itself
    p = torch.tensor([0.0, 2.0**-1074, 0.0], dtype=torch.float64)
    for u in (0.0, 0.4, 0.6, 1 - 2**-53):
        assert draw(p, torch.tensor(u, dtype=torch.float64)).item() == 1


def test_rows_draw_by_themselves():
    p = Sampler().probabilities(logits(5, V))
    u = torch.rand(5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    alone = [draw(p[i], u[i]).item() for i in range(5)]
    assert draw(p, u).tolist() == alone
    assert len(set(alone)) > 1


def test_rows_need_not_stand_together_in_memory():
    p, u = torch.rand(V, 5, 2).double(), torch.rand(2, 5).double()
    one_by_one = [[draw(p[:, i, j], u[j, i]).item() for j in range(2)] for i in range(5)]
    assert draw(p.permute(1, 2, 0), u.T).tolist() == one_by_one


def test_the_row_that_cannot_be_sampled_is_named():
    z = logits(4, V)
    assert fault_of_logits(z) is None
    for value, says in ((math.nan, "NaN"), (INF, "+inf")):
        bad = z.clone()
        bad[2, 3] = value
        assert fault_of_logits(bad) == (2, says)
    z[1] = -INF
    assert fault_of_logits(z) == (1, "nothing but -inf")


# --- the definitions --------------------------------------------------------------------------


def defined(z, sampler):
    p = definitions.temper(z.tolist(), sampler.temperature)
    p = p if sampler.top_k is None else definitions.top_k(p, sampler.top_k)
    p = p if sampler.top_p is None else definitions.top_p(p, sampler.top_p)
    return p if sampler.min_p is None else definitions.min_p(p, sampler.min_p)


SAMPLERS = st.builds(
    Sampler,
    temperature=st.floats(0.1, 10),
    top_k=st.none() | st.integers(1, V + 2),
    top_p=st.none() | st.floats(0.01, 1),
    min_p=st.none() | st.floats(0, 1, exclude_max=True),
)


@given(sampler=SAMPLERS, seed=st.integers(0, 1000))
def test_the_steps_are_those_of_the_definition_in_the_order_that_is_stated(sampler, seed):
    z = logits(seed=seed)
    p = sampler.probabilities(z)
    for row, wanted in zip(p, z, strict=True):
        # v sums and quotients of numbers below 1; limits are met with probability 0
        np.testing.assert_allclose(row, defined(wanted, sampler), rtol=0, atol=1e-13)


@given(
    tied=st.lists(st.integers(-2, 2), min_size=V, max_size=V),
    sampler=st.builds(Sampler, top_k=st.none() | st.integers(1, V), top_p=st.none() | st.just(0.7)),
)
def test_ties_are_broken_as_in_the_definition(tied, sampler):
    z = torch.tensor(tied, dtype=torch.float64)
    np.testing.assert_allclose(sampler.probabilities(z), defined(z, sampler), rtol=0, atol=1e-13)


# --- identities -------------------------------------------------------------------------------


def test_what_is_left_keeps_its_proportions():
    p = Sampler().probabilities(logits())
    for sampler in (Sampler(top_k=3), Sampler(top_p=0.6), Sampler(min_p=0.3)):
        q = sampler.probabilities(logits())
        only = torch.where(q > 0, p, 0.0)
        assert_equal(q, only / only.sum(-1, keepdim=True))


def test_only_differences_of_logits_matter():
    for sampler in (GREEDY, Sampler(temperature=0.7, top_k=5, top_p=0.8, min_p=0.1)):
        # adding 100 rounds the logits by 2⁻⁴⁷ or less
        assert_equal(
            sampler.probabilities(logits() + 100), sampler.probabilities(logits()), atol=1e-12
        )


def test_greedy_is_the_limit_of_low_temperatures_and_the_argmax():
    z = logits(50, V)
    greedy = GREEDY.probabilities(z)
    assert greedy.argmax(-1).tolist() == z.argmax(-1).tolist()
    assert_equal(greedy, Sampler(temperature=1e-6).probabilities(z))


def test_a_temperature_that_rounds_logits_to_one_does_not_change_which_are_the_largest():
    z = torch.tensor([0.0, 1e-17, -1.0], dtype=torch.float64)
    assert (z / 1e308)[0] == (z / 1e308)[1]
    assert Sampler(temperature=1e308, top_k=1).probabilities(z).tolist() == [0, 1, 0]


def supports(first, second):
    """Which tokens are left after two steps in the one order and in the other."""
    z = logits(200, V)
    return (second(first(z)) > -INF), (first(second(z)) > -INF)


def hot(x):
    return temper(x, 2.5)


def top_k(x):
    return keep_top_k(x, 4)


def top_p(x):
    return keep_top_p(x, 0.9)


def min_p(x):
    return keep_min_p(x, 0.12)


@pytest.mark.parametrize("pair", [(hot, top_k), (top_k, min_p)], ids=["T and k", "k and min"])
def test_these_steps_commute(pair):
    one, other = supports(*pair)
    assert (one == other).all()


@pytest.mark.parametrize(
    "pair",
    [(hot, top_p), (hot, min_p), (top_k, top_p), (top_p, min_p)],
    ids=["T and p", "T and min", "k and p", "p and min"],
)
def test_these_steps_do_not_commute(pair):
    one, other = supports(*pair)
    assert (one != other).any()


def test_the_steps_of_a_sampler_act_in_the_order_that_is_stated():
    z = logits(300, V)
    p = Sampler(temperature=2.5, top_k=4, top_p=0.9, min_p=0.12).probabilities(z)
    wrong = [(top_p, hot, top_k, min_p), (hot, top_p, top_k, min_p), (hot, top_k, min_p, top_p)]
    for order in [(hot, top_k, top_p, min_p), (top_k, hot, top_p, min_p), *wrong]:
        found = z
        for step in order:
            found = step(found)
        assert torch.allclose(found.softmax(-1), p, rtol=0, atol=1e-13) == (order not in wrong)


# --- another library --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ours,theirs",
    [
        (lambda z: keep_top_k(z, 5), TopKLogitsWarper(5)),
        (lambda z: keep_top_p(z, 0.75), TopPLogitsWarper(0.75)),
        (lambda z: keep_min_p(z, 0.08), MinPLogitsWarper(0.08)),
    ],
    ids=["top-k", "top-p", "min-p"],
)
def test_transformers_keeps_the_same_tokens(ours, theirs):
    z = logits(300, 23)
    assert_equal(ours(z), theirs(None, z), atol=0)


def test_transformers_has_the_same_temperature():
    z = logits(300, 23)
    theirs = TemperatureLogitsWarper(0.6)(None, z).softmax(-1)
    assert_equal(Sampler(temperature=0.6).probabilities(z), theirs)


def test_draws_come_as_often_as_their_probabilities_say():
    """Chi-square of 20,000 draws; a sampler without fault fails one time in a million."""
    n = 20_000
    p = Sampler(temperature=1.3, top_k=6).probabilities(logits(11))
    u = torch.rand(n, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    counts = torch.bincount(draw(p.expand(n, 11), u), minlength=11)
    assert counts[p == 0].sum() == 0
    expected = n * p[p > 0]
    assert expected.min() > 50
    assert stats.chisquare(counts[p > 0], expected).pvalue > 1e-6


# --- as arrays --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_steps_compute_in_64_bits_and_round_once_to_the_dtype_that_is_given(dtype):
    # so many rows that some are kept or not by the last of 24 bits
    z = logits(200_000 if dtype == torch.float32 else 1000, V).to(dtype)
    for step in (hot, top_k, top_p, min_p):
        assert_equal(step(z), step(z.double()).to(dtype), atol=0)
    sampler = Sampler(temperature=0.7, top_k=4, top_p=0.9, min_p=0.1)
    assert_equal(sampler.probabilities(z), sampler.probabilities(z.double()), atol=0)


def test_a_step_changes_no_logits_that_it_is_given():
    z = logits()
    for step in (hot, top_k, top_p, min_p):
        step(z)
    assert_equal(z, logits(), atol=0)


def test_a_sampler_can_be_compared_and_never_changes():
    sampler = Sampler(temperature=0.5, top_k=3)
    assert sampler == Sampler(temperature=0.5, top_k=3) != Sampler(temperature=0.5)
    assert hash(sampler) == hash(Sampler(temperature=0.5, top_k=3))
    with pytest.raises(AttributeError):
        sampler.top_k = 5


def test_probabilities_for_the_draw_must_have_64_bits_while_tests_run():
    with pytest.raises(TypeCheckError):
        draw(torch.ones(3), torch.tensor(0.5))
