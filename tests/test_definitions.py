"""The definitions against values known by hand and independent libraries."""

import inspect

import numpy as np
import pytest
import scipy.special
import scipy.stats

from attnlib import definitions

RNG = np.random.default_rng(7)


def test_softmax_of_logarithms_are_the_fractions():
    np.testing.assert_allclose(
        definitions.softmax(np.log([1, 2, 5])), [1 / 8, 2 / 8, 5 / 8], rtol=0, atol=1e-15
    )


def test_softmax_and_log_sum_exp_agree_with_scipy():
    scores = RNG.normal(size=9) * 30
    np.testing.assert_allclose(
        definitions.softmax(scores), scipy.special.softmax(scores), rtol=1e-14
    )
    np.testing.assert_allclose(
        definitions.log_sum_exp(scores), scipy.special.logsumexp(scores), rtol=1e-15
    )


def test_softmax_does_not_overflow():
    np.testing.assert_array_equal(definitions.softmax([2000.0, 2000.0]), [0.5, 0.5])
    assert definitions.log_sum_exp([2000.0, -2000.0]) == 2000.0


def test_nothing_to_choose_from_gives_zeros_and_minus_infinity():
    np.testing.assert_array_equal(definitions.softmax([-np.inf, -np.inf]), [0.0, 0.0])
    assert definitions.softmax([]).shape == (0,)
    assert definitions.log_sum_exp([]) == -np.inf
    assert definitions.log_sum_exp([-np.inf]) == -np.inf


def test_a_score_of_infinity_gives_infinity_as_scipy_does():
    for scores in ([np.inf, 0.0], [np.inf, np.inf], [np.inf, -np.inf]):
        assert definitions.log_sum_exp(scores) == scipy.special.logsumexp(scores) == np.inf
    assert np.isnan(definitions.log_sum_exp([np.inf, np.nan]))


def test_entropy_agrees_with_scipy_and_is_zero_for_certainty():
    p = RNG.dirichlet(np.ones(7))
    np.testing.assert_allclose(definitions.entropy(p), scipy.stats.entropy(p), rtol=1e-14)
    assert definitions.entropy([0.0, 1.0, 0.0]) == 0.0


def test_the_jacobian_is_the_difference_quotient_of_softmax():
    scores, step = RNG.normal(size=5), 1e-5
    jacobian = definitions.softmax_jacobian(definitions.softmax(scores))
    for j in range(5):
        nudge = step * np.eye(5)[j]
        quotient = (definitions.softmax(scores + nudge) - definitions.softmax(scores - nudge)) / (
            2 * step
        )
        # central difference: step²/6 times a third derivative below 1, plus rounding eps/step
        np.testing.assert_allclose(jacobian[:, j], quotient, rtol=0, atol=1e-10)


def test_the_jacobian_is_symmetric_and_kills_constants():
    jacobian = definitions.softmax_jacobian(RNG.dirichlet(np.ones(6)))
    np.testing.assert_array_equal(jacobian, jacobian.T)
    np.testing.assert_allclose(jacobian @ np.ones(6), 0, atol=1e-16)


def test_attention_is_the_kernel_average_with_the_exponential_kernel():
    q, k, v = RNG.normal(size=(3, 4)), RNG.normal(size=(5, 4)), RNG.normal(size=(5, 2))
    out = definitions.attention(q, k, v)
    for t in range(3):
        average = definitions.kernel_average(
            q[t], k, v, lambda query, key: float(np.exp(query @ key / 2))
        )
        np.testing.assert_allclose(out[t], average, rtol=1e-13)


def test_the_linear_kernel_may_have_negative_weights():
    average = definitions.kernel_average(
        np.array([1.0]),
        np.array([[-1.0], [2.0]]),
        np.array([[10.0], [20.0]]),
        lambda query, key: float(query @ key),
    )
    np.testing.assert_array_equal(average, [30.0])


def test_attention_reads_only_what_it_may():
    q, k, v = np.zeros((2, 3)), np.zeros((4, 3)), np.array([[1.0], [3.0], [np.nan], [7.0]])
    may = np.array([[True, True, False, False], [False] * 4])
    np.testing.assert_array_equal(definitions.attention(q, k, v, may), [[2.0], [0.0]])
    bias = np.where(may, 0.0, -np.inf)
    np.testing.assert_array_equal(definitions.attention(q, k, v, None, bias), [[2.0], [0.0]])


def test_query_head_i_reads_kv_head_i_div_p():
    q, k = np.ones((1, 12, 1, 4)), np.ones((1, 3, 2, 4))
    v = np.broadcast_to(np.arange(3.0).reshape(1, 3, 1, 1), (1, 3, 2, 1))
    out = definitions.grouped_query_attention(q, k, v)
    np.testing.assert_allclose(out.ravel(), [0] * 4 + [1] * 4 + [2] * 4, atol=1e-15)


def test_merging_two_parts_gives_the_whole():
    q, k, v = RNG.normal(size=(1, 4)), RNG.normal(size=(7, 4)), RNG.normal(size=(7, 2))
    scores = k @ q[0] / 2

    def part(sources):
        out = definitions.attention(q, k[sources], v[sources])[0]
        return out, definitions.log_sum_exp(scores[sources])

    out, lse = definitions.merge(part(slice(0, 3)), part(slice(3, 7)))
    np.testing.assert_allclose(out, definitions.attention(q, k, v)[0], rtol=1e-13)
    np.testing.assert_allclose(lse, definitions.log_sum_exp(scores), rtol=1e-14)


def test_merging_with_nothing_changes_nothing():
    part, nothing = (np.array([1.0, 2.0]), 0.5), (np.zeros(2), -np.inf)
    for merged in (definitions.merge(part, nothing), definitions.merge(nothing, part)):
        np.testing.assert_array_equal(merged[0], part[0])
        assert merged[1] == 0.5
    assert definitions.merge(nothing, nothing)[1] == -np.inf


@pytest.mark.parametrize(
    "function",
    [f for _, f in inspect.getmembers(definitions, inspect.isfunction)],
    ids=lambda f: f.__name__,
)
def test_every_definition_is_short_enough_to_show(function):
    body = inspect.getsource(function).split('"""')[2]
    assert len(body.strip().splitlines()) <= 16
