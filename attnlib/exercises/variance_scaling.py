"""The exercises of the chapter on variance scaling: definitions, cases and known mistakes.

Source   attnlib/definitions/of_scores.py; the mistakes are those that readers and libraries make
Chapter  chapters/variance-scaling.md
Axes     attnlib/axes.py
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnlib import definitions
from attnlib.exercises.judge import Case, Exercise
from attnlib.exercises.steps import columns_in_turns, reshaped_straight

_RNG = np.random.default_rng(2604_00965)


def _normal(*shape: int) -> np.ndarray:
    return _RNG.normal(size=shape)


# --- the variance of a score ------------------------------------------------------------------


def _covariance(d: int) -> np.ndarray:
    factor = _normal(d, d + 2)
    return factor @ factor.T / d


def _variance_case(
    about: str,
    cov_q: np.ndarray,
    cov_k: np.ndarray,
    mean_q: np.ndarray | None = None,
    mean_k: np.ndarray | None = None,
) -> Case:
    nothing = np.zeros(len(cov_q))
    return Case(
        about=about,
        arguments={
            "mean_q": nothing if mean_q is None else mean_q,
            "cov_q": cov_q,
            "mean_k": nothing if mean_k is None else mean_k,
            "cov_k": cov_k,
        },
    )


def _variance_of(terms: Callable) -> Callable:
    """A variant made of other terms, from the three right ones and from what they are made of."""

    def variance(mean_q, cov_q, mean_k, cov_k):
        both = np.trace(cov_q @ cov_k)
        by_mean_q, by_mean_k = mean_q @ cov_k @ mean_q, mean_k @ cov_q @ mean_k
        return terms(both, by_mean_q, by_mean_k)

    return variance


def _second_moment(mean_q, cov_q, mean_k, cov_k):
    mean = definitions.score_mean(mean_q, mean_k)
    return definitions.score_variance(mean_q, cov_q, mean_k, cov_k) + mean**2


def _without_cross_terms(mean_q, cov_q, mean_k, cov_k):
    only = np.eye(len(mean_q))
    return definitions.score_variance(mean_q, cov_q * only, mean_k, cov_k * only)


_SCORE_VARIANCE = Exercise(
    name="score-variance",
    asks=(
        "variance(mean_q, cov_q, mean_k, cov_k) → the variance of ⟨q, k⟩, a single number, for "
        "independent q and k with means (d,) and covariances (d, d)"
    ),
    definition=definitions.score_variance,
    cases=(
        _variance_case("means of zero and unit covariances", np.eye(4), np.eye(4)),
        _variance_case(
            "means of zero and uncorrelated coordinates",
            np.diag([0.5, 2.0, 3.0]),
            np.diag([1.5, 0.25, 4.0]),
        ),
        _variance_case("means of zero and correlated coordinates", _covariance(3), _covariance(3)),
        _variance_case(
            "a mean of q that is not zero", _covariance(4), _covariance(4), mean_q=_normal(4)
        ),
        _variance_case(
            "a mean of k that is not zero", _covariance(2), _covariance(2), mean_k=_normal(2)
        ),
        _variance_case(
            "two means that are not zero", _covariance(3), _covariance(3), _normal(3), _normal(3)
        ),
    ),
    mistakes={
        "the variance is d only where both covariances are the identity and the means are zero.": (
            lambda mean_q, cov_q, mean_k, cov_k: len(mean_q)
        ),
        "right while both means are zero. A mean turns the variance of the other vector into "
        "variance of the score, and both of these terms are missing.": _variance_of(
            lambda both, by_mean_q, by_mean_k: both
        ),
        "right while q has mean zero: the mean of q meets the covariance of k, and this term is "
        "missing.": _variance_of(lambda both, by_mean_q, by_mean_k: both + by_mean_k),
        "right while k has mean zero: the mean of k meets the covariance of q, and this term is "
        "missing.": _variance_of(lambda both, by_mean_q, by_mean_k: both + by_mean_q),
        "right only for uncorrelated coordinates: what stands beside the diagonals of the "
        "covariances counts too.": _without_cross_terms,
        "each mean meets the covariance of its own vector; it must meet that of the other.": (
            lambda mean_q, cov_q, mean_k, cov_k: definitions.score_variance(
                mean_k, cov_q, mean_q, cov_k
            )
        ),
        "a covariance meets one mean on its left and the other on its right; it must meet the same "
        "one twice.": lambda mean_q, cov_q, mean_k, cov_k: (
            np.trace(cov_q @ cov_k) + mean_q @ cov_k @ mean_k + mean_k @ cov_q @ mean_q
        ),
        "that is the second moment of the score: the square of its mean is still to be taken "
        "off.": _second_moment,
        "that is the standard deviation: the variance is its square.": (
            lambda *given: np.sqrt(definitions.score_variance(*given))
        ),
        "that is the variance of the scaled score ⟨q, k⟩/√d: nothing is divided here.": (
            lambda *given: definitions.score_variance(*given) / len(given[0])
        ),
        "that is the product of the two traces. The trace of a product is another number.": (
            lambda mean_q, cov_q, mean_k, cov_k: np.trace(cov_q) * np.trace(cov_k)
        ),
        "the product of the covariances is summed over all its entries; only its diagonal "
        "counts.": lambda mean_q, cov_q, mean_k, cov_k: (
            (cov_q @ cov_k).sum() + mean_q @ cov_k @ mean_q + mean_k @ cov_q @ mean_k
        ),
        "that is the variance of the sum of all coordinates of q and k, not of their product.": (
            lambda mean_q, cov_q, mean_k, cov_k: cov_q.sum() + cov_k.sum()
        ),
        "that is the mean of the score, not its variance.": (
            lambda mean_q, cov_q, mean_k, cov_k: mean_q @ mean_k
        ),
    },
)


# --- the scores of all heads ------------------------------------------------------------------


def _scores_with(
    scale: Callable = lambda n: n["d"] ** -0.5,
    split: Callable = definitions.split_heads,
    after: Callable = lambda scores: scores,
) -> Callable:
    """A variant of the scores of all heads that differs in one of its steps."""

    def scores(x, w_q, w_k, n_heads):
        q, k = split(x @ w_q, n_heads), split(x @ w_k, n_heads)
        numbers = _sizes_of_heads({"x": x, "w_q": w_q, "n_heads": n_heads})
        return after(scale(numbers) * np.einsum("htd,hsd->hts", q, k))

    return scores


def _head_scores(x, w_q, w_k, n_heads):
    q = definitions.split_heads(x @ w_q, n_heads)
    k = definitions.split_heads(x @ w_k, n_heads)
    d = q.shape[-1]
    return np.array([q_i @ k_i.T / np.sqrt(d) for q_i, k_i in zip(q, k, strict=True)])


def _sizes_of_heads(arguments: dict[str, Any], *results: np.ndarray) -> dict[str, Any]:
    """The letters that mistakes of scale speak of, in one case."""
    (t, m), hd, h = arguments["x"].shape, arguments["w_q"].shape[1], arguments["n_heads"]
    return {"t": t, "m": m, "hd": hd, "h": h, "d": hd // h, "m_by_h": f"{m / h:g}"}


def _weights_of(scores: np.ndarray) -> np.ndarray:
    return np.array([[definitions.softmax(row) for row in head] for head in scores])


def _scores_case(about: str, t: int, m: int, h: int, d: int) -> Case:
    return Case(
        about=about,
        arguments={
            "x": _normal(t, m),
            "w_q": _normal(m, h * d),
            "w_k": _normal(m, h * d),
            "n_heads": h,
        },
    )


_HEAD_SCORES = Exercise(
    name="head-scores",
    asks=(
        "scores(x, w_q, w_k, n_heads) → the scaled scores (h, t, s) of all heads, where every row "
        "of x (t, m) is a target and a source, w_q and w_k are (m, h·d), and head i has the "
        "columns from i·d up to (i + 1)·d"
    ),
    definition=_head_scores,
    cases=(
        _scores_case("two heads", t=4, m=12, h=2, d=3),
        _scores_case("three heads", t=5, m=8, h=3, d=4),
        _scores_case("a single head", t=3, m=9, h=1, d=2),
    ),
    mistakes={
        "the scores are not scaled.": _scores_with(scale=lambda n: 1.0),
        "the scale uses m = {m} instead of d = {d}: a score is a sum of {d} products, however wide "
        "the model is.": _scores_with(scale=lambda n: n["m"] ** -0.5),
        "the scale uses h·d = {hd} instead of d = {d}: a score is a sum over the {d} coordinates "
        "of one head.": _scores_with(scale=lambda n: n["hd"] ** -0.5),
        "the scale uses m/h = {m_by_h} instead of d = {d}: the width of a head is that of its "
        "columns in w_q, and need not be m/h.": _scores_with(
            scale=lambda n: (n["m"] / n["h"]) ** -0.5
        ),
        "the scale uses h = {h}, the number of heads, instead of d = {d}.": _scores_with(
            scale=lambda n: n["h"] ** -0.5
        ),
        "the scale uses t = {t}, the number of tokens, instead of d = {d}.": _scores_with(
            scale=lambda n: n["t"] ** -0.5
        ),
        "the scores are divided by d = {d}, not by its root; that happens too where queries, keys "
        "or scores are scaled twice.": _scores_with(scale=lambda n: 1 / n["d"]),
        "the scores are multiplied by the root of d = {d}, not divided by it.": _scores_with(
            scale=lambda n: n["d"] ** 0.5
        ),
        "the scores are divided by d = {d} squared.": _scores_with(scale=lambda n: n["d"] ** -2.0),
        "head i takes the columns i, i + {h}, i + 2·{h}, …; its {d} columns must be neighbours.": (
            _scores_with(split=columns_in_turns)
        ),
        "(t, h·d) is reshaped straight to (h, t, d), which mixes tokens: a row of a head then "
        "holds parts of several targets. Split the columns first, then move the axis.": (
            _scores_with(split=reshaped_straight)
        ),
        "the scores are transposed: rows are targets and columns are sources.": _scores_with(
            after=lambda scores: scores.transpose(0, 2, 1)
        ),
        "the axis of heads stands last; the shape must be (h, t, s).": _scores_with(
            after=lambda scores: scores.transpose(1, 2, 0)
        ),
        "the axis of heads stands between those of targets and sources; the shape must be "
        "(h, t, s).": _scores_with(after=lambda scores: scores.transpose(1, 0, 2)),
        "that is one matrix of scores for all heads together: each head has its own.": _scores_with(
            after=lambda scores: scores.sum(0)
        ),
        "these are weights already: the softmax comes later.": _scores_with(after=_weights_of),
    },
    numbers=_sizes_of_heads,
)


# --- the bound of the Jacobian ----------------------------------------------------------------


def _bound_of_largest(bound: Callable) -> Callable:
    """A variant of the bound that is another function of the largest weight."""
    return lambda p: bound(np.max(p))


def _largest_eigenvalue(p: np.ndarray) -> float:
    return np.linalg.eigvalsh(definitions.softmax_jacobian(p)).max()


_JACOBIAN_BOUND = Exercise(
    name="jacobian-bound",
    asks=(
        "bound(p) → the better of the two bounds on the norm of the Jacobian of softmax, a single "
        "number, from the largest of the weights p (s,)"
    ),
    definition=definitions.jacobian_bound,
    cases=(
        Case(about="a largest weight above ½", arguments={"p": np.array([0.1, 0.7, 0.05, 0.15])}),
        Case(
            about="a largest weight below ½", arguments={"p": np.array([0.2, 0.15, 0.3, 0.1, 0.25])}
        ),
        Case(about="three equal weights", arguments={"p": np.full(3, 1 / 3)}),
        Case(about="a single source that has all the weight", arguments={"p": np.array([0, 1.0])}),
    ),
    mistakes={
        "that is one of the two bounds, and where a weight is above ½ the other is better: near 1 "
        "the Jacobian vanishes.": _bound_of_largest(lambda largest: largest),
        "that is one of the two bounds, Gershgorin's, and where all weights are below ½ the other "
        "is better.": _bound_of_largest(lambda largest: 2 * largest * (1 - largest)),
        "that is the worse of the two bounds: both hold, so the smaller one does.": (
            _bound_of_largest(lambda largest: max(largest, 2 * largest * (1 - largest)))
        ),
        "that is the largest entry of the Jacobian: its norm can be larger.": _bound_of_largest(
            lambda largest: largest * (1 - largest)
        ),
        "½ holds for every p, but this p allows a better bound.": _bound_of_largest(
            lambda largest: 0.5
        ),
        "that is the trace, the sum of all eigenvalues: a bound, but seldom a good one.": (
            lambda p: 1 - (p**2).sum()
        ),
        "that is the norm itself: right, but asked for is its bound from the largest weight, "
        "which needs no eigenvalues.": _largest_eigenvalue,
        "the bound is made from the smallest weight, not from the largest.": lambda p: min(
            np.min(p), 2 * np.min(p) * (1 - np.min(p))
        ),
        "the bound is made from the place of the largest weight, not from the weight.": lambda p: (
            min(np.argmax(p), 2 * np.argmax(p) * (1 - np.argmax(p)))
        ),
    },
)


# --- normalised queries and keys --------------------------------------------------------------


def _root_mean_square(x: np.ndarray, axis: int | None = -1) -> np.ndarray:
    return np.sqrt((x**2).mean(axis=axis, keepdims=True))


def _by_rms(x: np.ndarray) -> np.ndarray:
    return np.array([definitions.rms_norm(row) for row in x])


def _normed_with(
    norm: Callable = _by_rms,
    norm_k: Callable | None = None,
    after: Callable = lambda scores, scale, d: scale * scores,
) -> Callable:
    """A variant of the normed scores that differs in one of its steps."""

    def scores(q, k, scale):
        products = norm(q) @ (norm_k or norm)(k).T
        return after(products, scale, q.shape[1])

    return scores


def _with_epsilon(epsilon: float) -> Callable:
    return _normed_with(lambda x: x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon))


def _less_mean(x: np.ndarray) -> np.ndarray:
    return x - x.mean(-1, keepdims=True)


def _normed_case(about: str, t: int, s: int, d: int, scale: float, size: float = 1.0) -> Case:
    return Case(
        about=about,
        arguments={"q": size * _normal(t, d), "k": size * _normal(s, d), "scale": scale},
    )


_AN_EPSILON = (
    "an ε of {epsilon} is added under the root; here there is none, and queries of any size must "
    "give the same scores."
)

_QK_NORM = Exercise(
    name="qk-norm",
    asks=(
        "normed_scores(q, k, scale) → the scores (t, s) of q (t, d) and k (s, d) after each query "
        "and each key was divided by its own root mean square, times the scale and nothing else"
    ),
    definition=lambda q, k, scale: scale * _by_rms(q) @ _by_rms(k).T,
    cases=(
        _normed_case("fewer targets than sources", t=3, s=5, d=4, scale=0.5),
        _normed_case("another width and scale", t=4, s=2, d=6, scale=1.25),
        _normed_case("large queries and keys", t=2, s=3, d=5, scale=0.75, size=1e4),
        _normed_case("small queries and keys", t=2, s=4, d=3, scale=0.8, size=1e-3),
    ),
    mistakes={
        "each vector is divided by its length: with d = {d} coordinates that is √d times its root "
        "mean square.": _normed_with(lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)),
        "each vector is divided by its mean square: the root is missing.": _normed_with(
            lambda x: x / (x**2).mean(-1, keepdims=True)
        ),
        "only the queries are normed: large keys still make large scores.": _normed_with(
            norm_k=lambda k: k
        ),
        "only the keys are normed: large queries still make large scores.": _normed_with(
            lambda q: q, norm_k=_by_rms
        ),
        "nothing is normed.": _normed_with(lambda x: x),
        "the mean square is taken over the tokens: each query has a root mean square of its own, "
        "over its d = {d} coordinates.": _normed_with(lambda x: x / _root_mean_square(x, 0)),
        "one root mean square serves the whole matrix: each query and each key has its own.": (
            _normed_with(lambda x: x / _root_mean_square(x, None))
        ),
        "the mean is taken off first: that is layer normalisation, not the root mean square.": (
            _normed_with(lambda x: _less_mean(x) / _root_mean_square(_less_mean(x)))
        ),
        "each vector is divided by its standard deviation, which leaves its mean out of account.": (
            _normed_with(lambda x: x / x.std(-1, keepdims=True))
        ),
        "the scores are divided by √d on top: with d = {d} they are {root_d} times too small.": (
            _normed_with(after=lambda scores, scale, d: scale * scores / np.sqrt(d))
        ),
        "the scale is not used.": _normed_with(after=lambda scores, scale, d: scores),
        "the scale is not used, and 1/√d takes its place.": _normed_with(
            after=lambda scores, scale, d: scores / np.sqrt(d)
        ),
        "the scores are divided by the scale, not multiplied by it.": _normed_with(
            after=lambda scores, scale, d: scores / scale
        ),
        "the scale is applied twice, to queries and to keys.": _normed_with(
            after=lambda scores, scale, d: scale**2 * scores
        ),
        "the rows of scores are normed; norm queries and keys before their product.": _normed_with(
            lambda x: x, after=lambda scores, scale, d: scale * scores / _root_mean_square(scores)
        ),
        "the scores are transposed: rows are targets and columns are sources.": (
            lambda q, k, scale: scale * _by_rms(k) @ _by_rms(q).T
        ),
    }
    | {
        _AN_EPSILON.format(epsilon=name): _with_epsilon(float(name))
        for name in ("1e-5", "1e-6", "1e-8")
    },
    numbers=lambda arguments, *results: {
        "d": arguments["q"].shape[1],
        "root_d": f"{np.sqrt(arguments['q'].shape[1]):.2f}",
    },
)


# --- the soft-cap -----------------------------------------------------------------------------


def _soft_cap(scores: np.ndarray, cap: float) -> np.ndarray:
    return np.array([[definitions.soft_cap(x, cap) for x in row] for row in scores])


def _cap_case(about: str, scores: np.ndarray, cap: float) -> Case:
    return Case(about=about, arguments={"scores": scores, "cap": cap})


_SOFT_CAP = Exercise(
    name="soft-cap",
    asks=(
        "soft_cap(scores, cap) → the scores (t, s), bent by the hyperbolic tangent so that small "
        "ones stay nearly as they are and none leaves the range from −cap to cap"
    ),
    definition=_soft_cap,
    cases=(
        _cap_case("scores of the size of the cap", 3 * _normal(2, 3), 3.0),
        _cap_case("scores far above and below the cap", 100 * _normal(3, 4), 2.5),
        _cap_case("small scores", 0.1 * _normal(4, 2), 5.0),
    ),
    mistakes={
        "that is a hard cap: beyond it the gradient is zero. The tangent bends instead.": (
            lambda scores, cap: np.clip(scores, -cap, cap)
        ),
        "the scores are not divided by the cap inside the tangent: with cap = {cap:g}, small "
        "scores grow {cap:g} times.": lambda scores, cap: cap * np.tanh(scores),
        "the tangent is not multiplied by the cap: nothing leaves the range from −1 to 1, where "
        "the cap is {cap:g}.": lambda scores, cap: np.tanh(scores / cap),
        "the cap is not used: that is the tangent of the scores.": (
            lambda scores, cap: np.tanh(scores)
        ),
        "the scores are multiplied by the cap inside the tangent, not divided.": (
            lambda scores, cap: cap * np.tanh(cap * scores)
        ),
        "the cap multiplies inside the tangent and divides outside: it is the other way round.": (
            lambda scores, cap: np.tanh(cap * scores) / cap
        ),
        "the logistic function stands where the tangent belongs: it makes a score of 0 half the "
        "cap, {half_cap:g}.": lambda scores, cap: cap / (1 + np.exp(-scores / cap)),
        "only large positive scores are capped; those far below −cap stay.": (
            lambda scores, cap: np.where(scores > 0, _soft_cap(scores, cap), scores)
        ),
        "the sign is lost: a score far below zero must stay near −cap.": (
            lambda scores, cap: np.abs(_soft_cap(scores, cap))
        ),
        "the arc tangent stands where the hyperbolic tangent belongs.": (
            lambda scores, cap: cap * np.arctan(scores / cap)
        ),
        "the scores are divided by √s first, s = {s}: they are scaled already.": (
            lambda scores, cap: _soft_cap(scores / np.sqrt(scores.shape[1]), cap)
        ),
        "the tangent is applied twice.": lambda scores, cap: _soft_cap(_soft_cap(scores, cap), cap),
    },
    numbers=lambda arguments, *results: {
        "cap": arguments["cap"],
        "half_cap": arguments["cap"] / 2,
        "s": arguments["scores"].shape[1],
    },
)

EXERCISES = (_SCORE_VARIANCE, _HEAD_SCORES, _JACOBIAN_BOUND, _QK_NORM, _SOFT_CAP)
