"""The exercises of the chapter on attention: definitions, cases and known mistakes.

Source   attnlib/definitions/of_attention.py; the mistakes are those that readers and libraries make
Chapter  chapters/attention.md
Axes     attnlib/axes.py
"""

from collections.abc import Callable

import numpy as np

from attnlib import definitions
from attnlib.exercises.judge import Case, Exercise

_RNG = np.random.default_rng(1706_03762)


def _normal(*shape: int) -> np.ndarray:
    return _RNG.normal(size=shape)


def _of_rows(scores: np.ndarray) -> np.ndarray:
    return np.stack([definitions.softmax(row) for row in scores])


def _exp_over_sum(scores: np.ndarray, axis: int | None = -1, less: object = 0.0) -> np.ndarray:
    """exp(scores − less) over its sum along the axis, with nothing done about overflow."""
    exponentials = np.exp(scores - less)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


_SOFTMAX = Exercise(
    name="softmax",
    asks="softmax(scores) → weights, both (t, s): every row of weights sums to one",
    definition=_of_rows,
    cases=(
        Case(about="a few small scores", arguments={"scores": _normal(3, 5)}),
        Case(
            about="one row of scores near 1000, one near −1000",
            arguments={"scores": _normal(2, 4) + np.array([[1000.0], [-1000.0]])},
        ),
        Case(
            about="rows that hold both 10000 and −10000",
            arguments={"scores": np.array([[1e4, -1e4, 0.0, 3.0], [-1e4, -1e4, 1e4, 1e4]])},
        ),
    ),
    mistakes={
        "that is the softmax over the wrong axis: every row must sum to one, not every column.": (
            lambda s: _exp_over_sum(s, 0, s.max(0))
        ),
        "the sum must be over each row, not over all scores.": (
            lambda s: _exp_over_sum(s, None, s.max())
        ),
        "right for small scores, but exp of large ones overflows: take the largest score of each "
        "row off first, it changes nothing.": _exp_over_sum,
        "take off the largest score of each row, not the smallest: the others overflow.": (
            lambda s: _exp_over_sum(s, -1, s.min(-1, keepdims=True))
        ),
        "take off the largest score of each row, not the mean: the largest overflows.": (
            lambda s: _exp_over_sum(s, -1, s.mean(-1, keepdims=True))
        ),
        "take off the largest score of each row, not of the whole matrix: in the other rows "
        "everything underflows to 0/0.": lambda s: _exp_over_sum(s, -1, s.max()),
        "the exponentials are not divided by their sum.": np.exp,
        "the exponentials are not divided by their sum, after the largest score was taken off.": (
            lambda s: np.exp(s - s.max(-1, keepdims=True))
        ),
        "the scores are divided by their sum without the exponential.": (
            lambda s: s / s.sum(-1, keepdims=True)
        ),
        "the sign is turned round: the largest score must get the largest weight.": (
            lambda s: _of_rows(-s)
        ),
        "that is the logarithm of softmax.": (
            lambda s: s - np.array([[definitions.log_sum_exp(row)] for row in s])
        ),
    },
)


def _linear(query, key) -> float:
    return float((query * key).sum())


def _exponential(query, key) -> float:
    return float(np.exp(_linear(query, key)))


def _lopsided(query, key) -> float:
    return float(np.exp(query[0] * key[1]))


def _with_weights(of_closeness: Callable) -> Callable:
    """A variant of the kernel average that makes its weights in another way."""

    def average(query, keys, values, kernel):
        closeness = np.array([kernel(query, key) for key in keys])
        return of_closeness(closeness) @ values

    return average


def _kernel_case(about: str, kernel: Callable) -> Case:
    return Case(
        about=about,
        arguments={
            "query": _normal(3),
            "keys": _normal(5, 3),
            "values": _normal(5, 2),
            "kernel": kernel,
        },
    )


_KERNEL_AVERAGE = Exercise(
    name="kernel-average",
    asks=(
        "kernel_average(query, keys, values, kernel) → the average (e,) of values (s, e), weighted "
        "by kernel(query, key) for the keys (s, d)"
    ),
    definition=definitions.kernel_average,
    cases=(
        _kernel_case("the exponential kernel", _exponential),
        _kernel_case("the linear kernel, whose weights may be negative", _linear),
        _kernel_case("a kernel that is not symmetric", _lopsided),
    ),
    mistakes={
        "the weighted sum is not divided by the sum of the weights.": _with_weights(lambda c: c),
        "divide by the sum of the weights, not by the number of keys.": _with_weights(
            lambda c: c / len(c)
        ),
        "that is a softmax of the kernel: the kernel is the weight already.": _with_weights(
            definitions.softmax
        ),
        "negative weights are allowed: neither cut them off nor take absolute values.": (
            _with_weights(lambda c: np.maximum(c, 0) / np.maximum(c, 0).sum())
        ),
        "negative weights are allowed: do not take their absolute values.": _with_weights(
            lambda c: np.abs(c) / np.abs(c).sum()
        ),
        "divide by the sum of the weights, not of their absolute values.": _with_weights(
            lambda c: c / np.abs(c).sum()
        ),
        "call kernel(query, key), in this order: a kernel need not be symmetric.": (
            lambda query, keys, values, kernel: definitions.kernel_average(
                query, keys, values, lambda q, k: kernel(k, q)
            )
        ),
    },
)


def _linear_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.stack([definitions.kernel_average(row, k, v, _linear) for row in q])


_LINEAR_KERNEL = Exercise(
    name="linear-kernel",
    asks="linear_kernel(q, k, v) → Z⁻¹ A V, with A = Q Kᵀ and Z the diagonal of its row sums",
    definition=_linear_attention,
    cases=(
        Case(
            about="fewer targets than sources",
            arguments={"q": _normal(3, 4), "k": _normal(5, 4), "v": _normal(5, 2)},
        ),
        Case(
            about="as many targets as sources",
            arguments={"q": _normal(6, 2), "k": _normal(6, 2), "v": _normal(6, 3)},
        ),
    ),
    mistakes={
        "that is softmax attention: here the kernel is f(x) = x, without the exponential.": (
            lambda q, k, v: _of_rows(q @ k.T) @ v
        ),
        "that is scaled softmax attention: here the kernel is f(x) = x, without the exponential.": (
            definitions.attention
        ),
        "the rows of A are not divided by their sums.": lambda q, k, v: (q @ k.T) @ v,
        "divide every row of A by its sum, not every column.": (
            lambda q, k, v: (q @ k.T / (q @ k.T).sum(0)) @ v
        ),
        "divide by the row sums, not by the sums of absolute values.": (
            lambda q, k, v: (q @ k.T / np.abs(q @ k.T).sum(1, keepdims=True)) @ v
        ),
    },
)


def _attention_with(
    scale: Callable = lambda q, k, v: q.shape[1] ** -0.5,
    masked: Callable = lambda scores, may: np.where(may, scores, -np.inf),
    weights: Callable = _of_rows,
    after: Callable = lambda weights, may: weights,
) -> Callable:
    """A variant of attention in which one of the steps is another."""

    def attend(q, k, v, may_attend):
        may = np.ones((len(q), len(k)), dtype=bool) if may_attend is None else may_attend
        scores = masked(scale(q, k, v) * (q @ k.T), may)
        return after(weights(scores), may) @ v

    return attend


def _nan_without_readable(scores: np.ndarray) -> np.ndarray:
    """What exp over sum gives after −∞ is filled in: 0/0 in an empty row."""
    return _exp_over_sum(scores, -1, scores.max(-1, keepdims=True))


def _attention_case(about: str, t: int, s: int, may_attend: list | None, size: float = 1.0) -> Case:
    return Case(
        about=about,
        arguments={
            "q": size * _normal(t, 7),
            "k": size * _normal(s, 7),
            "v": _normal(s, 6),
            "may_attend": None if may_attend is None else np.array(may_attend, dtype=bool),
        },
    )


def _underflowing(over: str, empty: Callable) -> Callable:
    """Attention whose weights are taken relative to a maximum over too much.

    Args:
        over: "sources", readable or not, or "matrix", all that is readable for any target.
        empty: From the sums of the exponentials to what the exponentials are divided by.
    """

    def attend(q, k, v, may_attend):
        scores = q @ k.T / np.sqrt(q.shape[1])
        may = np.ones(scores.shape, dtype=bool) if may_attend is None else may_attend
        largest = scores.max(-1, keepdims=True) if over == "sources" else scores[may].max()
        exponentials = np.where(may, np.exp(scores - largest), 0)
        return exponentials / empty(exponentials.sum(-1, keepdims=True)) @ v

    return attend


def _one_for_zero(sums: np.ndarray) -> np.ndarray:
    return np.where(sums == 0, 1, sums)


def _rows_apart() -> Case:
    case = _attention_case("with rows of scores thousands apart", 2, 3, None)
    # gaps of a hundred also within a row, so that float32 gives the same weights
    case.arguments["q"][:, 0] = [300, -300]
    case.arguments["k"][:, 0] = [100, 101, 102]
    return case


def _largest_unreadable() -> Case:
    case = _attention_case(
        "with the by far largest scores where nothing may be read",
        2,
        5,
        [[1, 0, 1, 1, 0], [0, 0, 1, 1, 1]],
    )
    case.arguments["q"][:, 0] = [3, 4]
    case.arguments["k"][1, 0] = 2000
    return case


_ATTENTION = Exercise(
    name="attention",
    asks=(
        "attention(q, k, v, may_attend=None) → (t, e), for q (t, d), k (s, d), v (s, e) and "
        "may_attend (t, s), True where target t may read source s"
    ),
    definition=definitions.attention,
    cases=(
        _attention_case("without a mask", 3, 5, None),
        _attention_case(
            "with as many targets as sources, and a mask",
            4,
            4,
            [[1, 0, 0, 1], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0]],
        ),
        _attention_case(
            "with fewer targets than sources, and a mask", 2, 5, [[1, 0, 1, 1, 0], [0, 1, 1, 0, 1]]
        ),
        _attention_case("with scores in the thousands", 2, 3, None, size=60.0),
        _rows_apart(),
        _largest_unreadable(),
        _attention_case("with a target that has nothing to read", 2, 3, [[1, 0, 1], [0, 0, 0]]),
    ),
    mistakes={
        "the scores are not scaled: multiply them by 1/√d.": _attention_with(
            scale=lambda q, k, v: 1.0
        ),
        "divide the scores by √d, not by d.": _attention_with(scale=lambda q, k, v: 1 / q.shape[1]),
        "divide the scores by √d, do not multiply by it.": _attention_with(
            scale=lambda q, k, v: q.shape[1] ** 0.5
        ),
        "the d of 1/√d is the width of queries and keys, not that of the values.": (
            _attention_with(scale=lambda q, k, v: v.shape[1] ** -0.5)
        ),
        "the d of 1/√d is the width of queries and keys, not the number of sources.": (
            _attention_with(scale=lambda q, k, v: len(k) ** -0.5)
        ),
        "the softmax is over the sources: every row of weights sums to one, not every column.": (
            _attention_with(weights=lambda s: _of_rows(s.T).T)
        ),
        "the mask comes after the softmax, so that what may not be read still takes its share: "
        "the rows no longer sum to one. Mask the scores, with −∞.": _attention_with(
            masked=lambda scores, may: scores, after=lambda weights, may: weights * may
        ),
        "the mask is multiplied into the scores, and a score of 0 is still read: "
        "put −∞ where may_attend is False.": _attention_with(
            masked=lambda scores, may: scores * may
        ),
        "the mask is turned round: True means that a source may be read.": _attention_with(
            masked=lambda scores, may: np.where(may, -np.inf, scores) if not may.all() else scores
        ),
        "the mask is transposed: rows are targets, columns are sources.": _attention_with(
            masked=lambda scores, may: np.where(may if may.all() else may.T, scores, -np.inf)
        ),
        "the mask is not used.": _attention_with(masked=lambda scores, may: scores),
        "right, but for a target with nothing to read: its output is zero, and 0/0 makes it NaN.": (
            _attention_with(weights=_nan_without_readable)
        ),
        "right, but for a target with nothing to read: its output is zero, and a large negative "
        "number in place of −∞ makes it the plain mean.": _attention_with(
            masked=lambda scores, may: np.where(may, scores, -1e9)
        ),
        "right for small scores, but exp of large ones overflows: take the largest score of each "
        "row off first.": _attention_with(weights=_exp_over_sum),
        "take off the largest score of each row, not of the whole matrix: in the other rows "
        "everything underflows to 0/0.": _underflowing("matrix", lambda sums: sums),
        "take off the largest score of each row, not of the whole matrix: in the other rows "
        "everything underflows to 0.": _underflowing("matrix", _one_for_zero),
        "take off the largest score among the sources that may be read: a far larger one that may "
        "not makes everything underflow to 0/0.": _underflowing("sources", lambda sums: sums),
        "take off the largest score among the sources that may be read: a far larger one that may "
        "not makes everything underflow to 0.": _underflowing("sources", _one_for_zero),
        "the weights are not divided by their sum.": _attention_with(weights=np.exp),
        "queries and keys have changed places: one output a target, not one a source.": (
            lambda q, k, v, may_attend: _attention_with()(k, q, v, may_attend)
        ),
    },
)


def _shared_heads(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return definitions.grouped_query_attention(q[None], k[None], v[None])[0]


_SHARED_HEADS = Exercise(
    name="shared-heads",
    asks="shared_heads(q, k, v) → (h, t, e), for q (h, t, d), k (g, s, d) and v (g, s, e)",
    definition=_shared_heads,
    cases=(
        Case(
            about="six query heads share three key/value heads",
            arguments={"q": _normal(6, 2, 4), "k": _normal(3, 5, 4), "v": _normal(3, 5, 7)},
        ),
        Case(
            about="four query heads share one key/value head",
            arguments={"q": _normal(4, 3, 2), "k": _normal(1, 5, 2), "v": _normal(1, 5, 6)},
        ),
    ),
    mistakes={
        "query head i reads key/value head ⌊i/p⌋, not i mod g: neighbours share (0, 0, 1, 1, "
        "2, 2), heads do not take turns.": lambda q, k, v: _shared_heads(
            q, np.concatenate([k] * (len(q) // len(k))), np.concatenate([v] * (len(q) // len(k)))
        ),
    },
)

_JACOBIAN = Exercise(
    name="softmax-jacobian",
    asks="softmax_jacobian(p) → the matrix (s, s) of ∂pᵢ/∂sⱼ at weights p (s,)",
    definition=definitions.softmax_jacobian,
    cases=(
        Case(about="five weights", arguments={"p": _RNG.dirichlet(np.ones(5))}),
        Case(about="a weight that is zero", arguments={"p": np.array([0.25, 0.0, 0.75])}),
    ),
    mistakes={
        "that is the diagonal alone: raising one score also lowers the other weights.": (
            lambda p: np.diag(p * (1 - p))
        ),
        "the diagonal of p is missing: J = diag(p) − p pᵀ.": lambda p: -np.outer(p, p),
        "the term − p pᵀ is missing: J = diag(p) − p pᵀ.": np.diag,
        "the sign is turned round: raising a score raises its own weight.": (
            lambda p: np.outer(p, p) - np.diag(p)
        ),
        "the sign of p pᵀ is wrong: J = diag(p) − p pᵀ, with rows that sum to zero.": (
            lambda p: np.diag(p) + np.outer(p, p)
        ),
        "p · p entry by entry is no matrix: J = diag(p) − p pᵀ has the outer product, "
        "np.outer(p, p).": lambda p: np.diag(p) - p * p,
        "p @ p is a single number: J = diag(p) − p pᵀ has the outer product, np.outer(p, p).": (
            lambda p: np.diag(p) - p @ p
        ),
        "p are the weights already: do not take their softmax again.": (
            lambda p: definitions.softmax_jacobian(definitions.softmax(p))
        ),
        "the identity stands where diag(p) belongs: J = diag(p) − p pᵀ.": (
            lambda p: np.eye(len(p)) - np.outer(p, p)
        ),
    },
)


def _gauge(w_q: np.ndarray, w_k: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return w_q @ a, w_k @ np.linalg.inv(a).T


def _gauge_case(about: str, m: int, d: int) -> Case:
    # the identity added keeps A well away from matrices that have no inverse
    a = 0.3 * _normal(d, d) + np.eye(d)
    return Case(about=about, arguments={"w_q": _normal(m, d), "w_k": _normal(m, d), "a": a})


_GAUGE = Exercise(
    name="gauge",
    asks=(
        "gauge(w_q, w_k, a) → the pair (W_Q A, W_K A⁻ᵀ), for w_q and w_k (m, d) and an invertible "
        "a (d, d)"
    ),
    definition=_gauge,
    cases=(_gauge_case("width 5 to 3", 5, 3), _gauge_case("width 4 to 2", 4, 2)),
    mistakes={
        "the inverse of A is not transposed: (W_Q A)(W_K A⁻¹)ᵀ = W_Q A A⁻ᵀ W_Kᵀ, and the two do "
        "not cancel.": lambda w_q, w_k, a: (w_q @ a, w_k @ np.linalg.inv(a)),
        "A is transposed but not inverted: only a rotation has A⁻ᵀ = A.": (
            lambda w_q, w_k, a: (w_q @ a, w_k @ a.T)
        ),
        "both sides got A: the keys need A⁻ᵀ to cancel it.": (
            lambda w_q, w_k, a: (w_q @ a, w_k @ a)
        ),
        "that gives the same scores, but the other way round: A belongs to the queries, A⁻ᵀ to the "
        "keys.": lambda w_q, w_k, a: _gauge(w_k, w_q, a)[::-1],
        "the two matrices have changed places: the queries' comes first.": (
            lambda w_q, w_k, a: _gauge(w_q, w_k, a)[::-1]
        ),
    },
)


def _right_weights(lse_a: float, lse_b: float) -> np.ndarray:
    return definitions.softmax([lse_a, lse_b])


def _right_lse(lse_a: float, lse_b: float) -> float:
    return definitions.log_sum_exp([lse_a, lse_b])


def _merge_with(weights: Callable = _right_weights, whole: Callable = _right_lse) -> Callable:
    """A variant of the merge with other weights or another log-sum-exp."""

    def merge(part_a, part_b):
        (out_a, lse_a), (out_b, lse_b) = part_a, part_b
        a, b = weights(lse_a, lse_b)
        return a * out_a + b * out_b, whole(lse_a, lse_b)

    return merge


def _less_the_larger(lse_a: float, lse_b: float) -> np.ndarray:
    """Both, less the larger of them: NaN if both are −∞."""
    return np.array([lse_a, lse_b]) - max(lse_a, lse_b)


def _relative_to(name: str) -> Callable:
    """The merge with masses relative to that of one part, be it the larger or not."""

    def masses(a: float, b: float) -> np.ndarray:
        return np.exp(np.array([a, b]) - (a if name == "a" else b))

    return _merge_with(
        lambda a, b: masses(a, b) / masses(a, b).sum(),
        lambda a, b: (a if name == "a" else b) + np.log(masses(a, b).sum()),
    )


def _merge_case(about: str, lse_a: float, lse_b: float) -> Case:
    parts = {
        name: (_normal(3) * (lse > -np.inf), np.float64(lse))
        for name, lse in (("part_a", lse_a), ("part_b", lse_b))
    }
    return Case(about=about, arguments=parts)


_MERGE = Exercise(
    name="merge",
    asks=(
        "merge((out_a, lse_a), (out_b, lse_b)) → (out, lse), what one target reads in both sets of "
        "sources together; outputs (e,), log-sum-exps single numbers"
    ),
    definition=definitions.merge,
    cases=(
        _merge_case("two parts", 0.3, 1.9),
        _merge_case("large log-sum-exps", 1000.0, 998.5),
        _merge_case("a second part of far larger mass", 0.0, 1000.0),
        _merge_case("a first part of far larger mass", 1000.0, 0.0),
        _merge_case("a second part that read nothing", 0.7, -np.inf),
        _merge_case("a first part that read nothing", -np.inf, 0.7),
        _merge_case("two parts that read nothing", -np.inf, -np.inf),
    ),
    mistakes={
        "right for small numbers, but exp of large ones overflows: take the larger log-sum-exp off "
        "first.": _merge_with(
            lambda a, b: _exp_over_sum(np.array([a, b])),
            lambda a, b: np.log(np.exp(a) + np.exp(b)),
        ),
        "right while the first part has the larger mass: exp(lse_b − lse_a) overflows where it has "
        "far less. Take the larger log-sum-exp off, whichever it is.": _relative_to("a"),
        "right while the second part has the larger mass: exp(lse_a − lse_b) overflows where it "
        "has far less. Take the larger log-sum-exp off, whichever it is.": _relative_to("b"),
        "right, but for two parts that read nothing: (−∞) − (−∞) is NaN, and zeros are wanted.": (
            _merge_with(
                lambda a, b: _exp_over_sum(_less_the_larger(a, b)),
                lambda a, b: max(a, b) + np.log(np.exp(_less_the_larger(a, b)).sum()),
            )
        ),
        "right, but for the output of two parts that read nothing: (−∞) − (−∞) is NaN, and zeros "
        "are wanted.": _merge_with(
            lambda a, b: np.exp(np.array([a, b]) - np.logaddexp(a, b)), np.logaddexp
        ),
        "the outputs are added as if both parts weighed the same.": _merge_with(
            lambda a, b: (0.5, 0.5)
        ),
        "the outputs are added without weights.": _merge_with(lambda a, b: (1.0, 1.0)),
        "the outputs are weighted with the log-sum-exps themselves: their exponentials are the "
        "masses.": _merge_with(lambda a, b: np.array([a, b]) / (a + b)),
        "the outputs are weighted rightly, but the log-sum-exps are added: add what is under the "
        "logarithm.": _merge_with(whole=lambda a, b: a + b),
        "the outputs are weighted rightly, but the log-sum-exp is only the larger of the two.": (
            _merge_with(whole=max)
        ),
        "the weights have changed places.": _merge_with(lambda a, b: _right_weights(b, a)),
    },
)

_ENTROPY = Exercise(
    name="entropy",
    asks="entropy(p) → the entropy in nats of weights p of shape (s,)",
    definition=definitions.entropy,
    cases=(
        Case(about="five weights", arguments={"p": _RNG.dirichlet(np.ones(5))}),
        Case(about="four equal weights", arguments={"p": np.full(4, 0.25)}),
        Case(about="a weight that is zero", arguments={"p": np.array([0.25, 0.0, 0.75])}),
    ),
    mistakes={
        "right, but 0 log 0 is NaN in floating point, and here it means 0.": (
            lambda p: -(p * np.log(p)).sum()
        ),
        "that is the entropy in bits. Nats want the natural logarithm.": (
            lambda p: definitions.entropy(p) / np.log(2)
        ),
        "the sign is missing: entropy is not negative.": lambda p: -definitions.entropy(p),
        "add up the terms, do not average them.": lambda p: definitions.entropy(p) / len(p),
        "each − log p is weighted with p.": lambda p: -np.log(p).sum(),
    },
)

EXERCISES = (
    _SOFTMAX,
    _KERNEL_AVERAGE,
    _LINEAR_KERNEL,
    _ATTENTION,
    _SHARED_HEADS,
    _JACOBIAN,
    _GAUGE,
    _MERGE,
    _ENTROPY,
)
