"""The definitions of the chapter on language models against libraries and known cases."""

import itertools
import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

from attnlib import definitions

RNG = np.random.default_rng(29)


# --- probability --------------------------------------------------------------------------


def test_what_is_read_and_what_is_answered_are_one_place_apart():
    inputs, targets = definitions.shifted(list("abcd"))
    assert (inputs, targets) == (list("abc"), list("bcd"))
    assert definitions.shifted([5]) == ([], [])


def chain(tokens):
    """A model whose next token depends on how many there are and on the last one."""
    last = tokens[-1] if len(tokens) else 2
    return scipy.special.softmax(np.sin([len(tokens) + 3.0 * last + 5.0 * i for i in range(3)]))


def test_the_probabilities_of_all_texts_of_one_length_sum_to_one():
    texts = itertools.product(range(3), repeat=4)
    total = sum(math.exp(definitions.sequence_log_probability(chain, text)) for text in texts)
    # 81 numbers below one, each a product of four
    np.testing.assert_allclose(total, 1.0, rtol=0, atol=1e-14)


def test_each_token_is_asked_for_after_those_before_it():
    before = []

    def model(tokens):
        before.append(list(tokens))
        return [0.5, 0.5, 0.0]

    assert definitions.sequence_log_probability(model, [1, 0, 1]) == 3 * math.log(0.5)
    assert before == [[], [1], [1, 0]]
    assert definitions.sequence_log_probability(model, []) == 0.0
    assert definitions.sequence_log_probability(model, [1, 2]) == -math.inf


def test_cross_entropy_agrees_with_torch():
    logits, targets = 5 * RNG.normal(size=(6, 4)), np.array([0, 3, 1, 1, 2, 0])
    counted = np.array([True, False, True, True, False, True])
    theirs = torch.nn.functional.cross_entropy
    ours = definitions.cross_entropy(logits, targets)
    wanted = theirs(torch.tensor(logits), torch.tensor(targets)).item()
    np.testing.assert_allclose(ours, wanted, rtol=1e-14)
    marked = torch.tensor(np.where(counted, targets, -100))
    ours = definitions.cross_entropy(logits, targets, counted)
    np.testing.assert_allclose(ours, theirs(torch.tensor(logits), marked).item(), rtol=1e-14)
    # the difference of two logits near 1e4 is exact
    assert definitions.cross_entropy([[1e4, 1e4 + 50]], [0]) == 50.0


def test_the_perplexity_of_equally_likely_tokens_is_their_number():
    np.testing.assert_allclose(definitions.perplexity(np.log(np.full(5, 1 / 7))), 7.0, rtol=1e-14)
    p = RNG.dirichlet(np.ones(6))
    # the expected surprise of a distribution at itself is its entropy
    surprises = np.repeat(np.log([0.5, 0.25, 0.25]), [2, 1, 1])
    wanted = math.exp(scipy.stats.entropy([0.5, 0.25, 0.25]))
    np.testing.assert_allclose(definitions.perplexity(surprises), wanted, rtol=1e-14)
    assert definitions.perplexity(np.log(p)) > math.exp(scipy.stats.entropy(p))


def test_bits_per_byte_count_bits_and_bytes():
    logs = np.log(np.full(6, 1 / 256))
    np.testing.assert_allclose(definitions.bits_per_byte(logs, 6), 8.0, rtol=1e-14)
    np.testing.assert_allclose(definitions.bits_per_byte(logs, 24), 2.0, rtol=1e-14)


def test_bits_per_byte_do_not_depend_on_how_a_text_is_cut_into_tokens():
    probabilities = [0.5, 0.25, 0.125, 0.5]
    halves = [math.log(0.5 * 0.25), math.log(0.125 * 0.5)]
    one = definitions.bits_per_byte(np.log(probabilities), 4)
    np.testing.assert_allclose(definitions.bits_per_byte(halves, 4), one, rtol=1e-14)
    assert definitions.perplexity(halves) > 2 * definitions.perplexity(np.log(probabilities))


# --- sampling -----------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_a_temperature_raises_probabilities_to_a_power(temperature):
    p = RNG.dirichlet(np.ones(5))
    powers = p ** (1 / temperature)
    tempered = definitions.temper(np.log(p), temperature)
    np.testing.assert_allclose(tempered, powers / powers.sum(), rtol=1e-13)
    logits = 1e3 * RNG.normal(size=4)
    wanted = scipy.special.softmax(logits / temperature)
    np.testing.assert_allclose(definitions.temper(logits, temperature), wanted, rtol=1e-12)


def test_what_has_no_probability_gets_none_at_any_temperature():
    np.testing.assert_array_equal(definitions.temper([0.0, -np.inf, 0.0], 9.0), [0.5, 0.0, 0.5])


def smallest_sets(p, mass):
    """Every set of fewest tokens that has the mass, found among all sets."""
    for n in range(1, len(p) + 1):
        sets = [s for s in itertools.combinations(range(len(p)), n) if sum(p[list(s)]) >= mass]
        if sets:
            return sets
    raise AssertionError("no set has the mass")


@pytest.mark.parametrize("mass", [0.1, 0.5, 0.75, 0.9])
def test_top_p_keeps_the_likeliest_of_the_smallest_sets(mass):
    for _ in range(5):
        p = RNG.dirichlet(np.ones(6))
        kept = np.flatnonzero(definitions.top_p(p, mass))
        sets = smallest_sets(p, mass)
        assert tuple(kept) == max(sets, key=lambda s: p[list(s)].sum())


def test_top_p_at_its_borders():
    p = [0.125, 0.5, 0.125, 0.25]
    for mass, kept in ((0.5, [1]), (0.51, [1, 3]), (0.75, [1, 3]), (0.8, [0, 1, 3]), (1e-9, [1])):
        assert np.flatnonzero(definitions.top_p(p, mass)).tolist() == kept
    # two of them add up to one, and the third is below the rounding of one: it is kept too
    tail = np.array([2.0**-60, 1.0 - 2.0**-53, 2.0**-53])
    assert np.all(definitions.top_p(tail, 1.0) > 0)


def test_top_k_keeps_the_likeliest_and_of_equal_ones_the_lower():
    p = [0.125, 0.25, 0.125, 0.375, 0.125]
    kept = {k: np.flatnonzero(definitions.top_k(p, k)).tolist() for k in (1, 2, 3, 4, 5, 9)}
    everything = [0, 1, 2, 3, 4]
    assert kept == {1: [3], 2: [1, 3], 3: [0, 1, 3], 4: [0, 1, 2, 3], 5: everything, 9: everything}


def test_min_p_keeps_what_has_its_share_of_the_likeliest():
    p = [0.125, 0.5, 0.25, 0.0625, 0.0625]
    for share, kept in ((0.5, [1, 2]), (0.51, [1]), (0.25, [0, 1, 2]), (1.0, [1])):
        assert np.flatnonzero(definitions.min_p(p, share)).tolist() == kept
    np.testing.assert_array_equal(definitions.min_p([0.5, 0.5], 1.0), [0.5, 0.5])


@pytest.mark.parametrize(
    "kept",
    [
        lambda p: definitions.top_k(p, 3),
        lambda p: definitions.top_p(p, 0.7),
        lambda p: definitions.min_p(p, 0.3),
    ],
)
def test_what_is_kept_keeps_its_proportions_and_sums_to_one(kept):
    p = RNG.dirichlet(np.ones(7))
    q = kept(p)
    assert 1 < np.count_nonzero(q) < 7
    np.testing.assert_allclose(q.sum(), 1.0, rtol=0, atol=1e-15)
    ratios = (q / p)[q > 0]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-14)
    np.testing.assert_allclose(ratios[0], 1 / p[q > 0].sum(), rtol=1e-14)


# --- training -----------------------------------------------------------------------------


def test_the_rate_of_2017_by_hand():
    # m = 512, warm-up 4000: the peak is 1/√(512·4000) = 1/√2048000
    peak = 1 / math.sqrt(2_048_000)
    rate = [definitions.vaswani_rate(step, 512, 4000) for step in (1, 1000, 4000, 16_000)]
    np.testing.assert_allclose(rate, [peak / 4000, peak / 4, peak, peak / 2], rtol=1e-14)


def test_the_memory_of_training_by_hand():
    # 4 + 4 + 4 + 4 bytes for each of 10 parameters, and 4 for each of 3 activations
    assert definitions.training_memory_bytes(10, 3) == 172
    mixed = definitions.training_memory_bytes(
        10,
        3,
        bytes_per_weight=2,
        bytes_per_gradient=2,
        bytes_per_moment=4,
        bytes_per_activation=1,
        bytes_per_master_weight=4,
    )
    assert mixed == 10 * (2 + 2 + 4 + 4 + 4) + 3


def test_the_moments_of_adam_are_two_numbers_a_parameter():
    layer = torch.nn.Linear(5, 3)
    optimiser = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(2, 5)).sum().backward()
    optimiser.step()
    kept = [*layer.parameters(), *(p.grad for p in layer.parameters())]
    for state in optimiser.state.values():
        kept += [state["exp_avg"], state["exp_avg_sq"]]
    n_bytes = sum(x.nbytes for x in kept)
    assert definitions.training_memory_bytes(18, 0) == n_bytes


def test_the_operations_of_training_are_those_that_torch_counts():
    from torch.utils.flop_counter import FlopCounterMode

    n_tokens = 7
    # two matrices, so that the first one too has a gradient to pass back to
    x = torch.ones(n_tokens, 5, requires_grad=True)
    w_1, w_2 = torch.ones(5, 3, requires_grad=True), torch.ones(3, 2, requires_grad=True)
    with FlopCounterMode(display=False) as counted:
        (x @ w_1 @ w_2).sum().backward()
    assert definitions.n_training_flops(5 * 3 + 3 * 2, n_tokens) == counted.get_total_flops()
