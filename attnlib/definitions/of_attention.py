r"""Softmax, kernel averages and attention, as they are read aloud.

Source   Nadaraya 1964 and Watson 1964 (kernel average); Vaswani et al. 2017, arXiv:1706.03762,
         section 3.2.1 (attention); Ainslie et al. 2023, arXiv:2305.13245, section 2.2 (shared
         heads); Milakov and Gimelshein 2018, arXiv:1805.02867 (merge)
Chapter  chapters/attention.md
Axes     attnlib/axes.py
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray


def softmax(scores: ArrayLike) -> Array:
    r"""Turn the scores of one row into weights that are positive and sum to one.

    $$p_j = \frac{e^{s_j}}{\sum_i e^{s_i}} = \frac{e^{s_j - m}}{\sum_i e^{s_i - m}},
    \qquad m = \max_i s_i.$$

    A row whose scores are all $-\infty$ has nothing to choose from: its weights are zeros.

    Example:
        >>> softmax(np.log([1.0, 2.0, 5.0]))
        array([0.125, 0.25 , 0.625])
    """
    scores = np.asarray(scores, dtype=np.float64)
    if np.all(scores == -np.inf):
        return np.zeros_like(scores)
    exponentials = np.exp(scores - np.max(scores))
    return exponentials / np.sum(exponentials)


def log_sum_exp(scores: ArrayLike) -> float:
    r"""Give the logarithm of the sum that softmax divides by.

    $$\operatorname{LSE}(s) = \log \sum_j e^{s_j}$$

    The sum over nothing is zero, and its logarithm is $-\infty$; a score of $+\infty$ makes both
    infinite.

    Example:
        >>> log_sum_exp([0.0, 0.0]) == float(np.log(2.0))
        True
    """
    scores = np.asarray(scores, dtype=np.float64)
    largest = np.max(scores, initial=-np.inf)
    if np.isinf(largest):
        return float(largest)
    return float(largest + np.log(np.sum(np.exp(scores - largest))))


def entropy(p: ArrayLike) -> float:
    r"""Measure in nats how spread out the weights p are.

    $$H(p) = -\sum_j p_j \log p_j, \qquad 0 \log 0 = 0$$

    Example:
        >>> entropy([0.25, 0.25, 0.25, 0.25]) == float(np.log(4.0))
        True
        >>> entropy([1.0, 0.0])
        0.0
    """
    return float(sum(-p_j * np.log(p_j) for p_j in np.asarray(p, dtype=np.float64) if p_j != 0))


def softmax_jacobian(p: ArrayLike) -> Array:
    r"""Differentiate softmax at the scores whose weights are p.

    $$J_{ij} = \frac{\partial p_i}{\partial s_j} = p_i\,(\delta_{ij} - p_j)$$

    Example:
        >>> softmax_jacobian([0.5, 0.5])
        array([[ 0.25, -0.25],
               [-0.25,  0.25]])
    """
    p = np.asarray(p, dtype=np.float64)
    jacobian = np.zeros((len(p), len(p)))
    for i in range(len(p)):
        for j in range(len(p)):
            jacobian[i, j] = p[i] * ((i == j) - p[j])
    return jacobian


def kernel_average(
    query: ArrayLike, keys: ArrayLike, values: ArrayLike, kernel: Callable[[Array, Array], float]
) -> Array:
    r"""Average the values, each weighted by how close its key is to the one query.

    $$y(q) = \frac{\sum_j \kappa(q, k_j)\, v_j}{\sum_j \kappa(q, k_j)}$$

    Nothing is asked of the kernel but a sum that is not zero: weights may be negative.

    Example:
        >>> near = lambda query, key: float(np.linalg.norm(query - key) < 1)
        >>> keys, values = np.array([[0.0], [1.5], [2.5]]), np.array([[10.0], [20.0], [40.0]])
        >>> kernel_average(np.array([2.0]), keys, values, near)
        array([30.])
    """
    closeness = [kernel(query, key) for key in keys]
    weighted = [c * np.asarray(value) for c, value in zip(closeness, values, strict=True)]
    return sum(weighted) / sum(closeness)


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    may_attend: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    scale: float | None = None,
) -> Array:
    r"""Let each target average the values that it may read, in one head.

    $$o_t = \sum_{s \in S_t} \frac{e^{\alpha\, q_t \cdot k_s + b_{ts}}}
    {\sum_{s' \in S_t} e^{\alpha\, q_t \cdot k_{s'} + b_{ts'}}}\; v_s,
    \qquad \alpha = \frac{1}{\sqrt d} \text{ unless it is given}.$$

    $S_t$ are the sources that target t may read: those with `may_attend` True and no bias of
    $-\infty$. A target with nothing to read gets zeros. Shapes: q (t, d), k (s, d), v (s, e).

    Example:
        >>> q, k, v = np.zeros((1, 2)), np.ones((3, 2)), np.array([[1.0], [2.0], [6.0]])
        >>> attention(q, k, v)
        array([[3.]])
        >>> attention(q, k, v, may_attend=np.array([[True, True, False]]))
        array([[1.5]])
    """
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    n_targets, d = q.shape
    out = np.zeros((n_targets, v.shape[1]))
    alpha = 1 / np.sqrt(d) if scale is None else scale
    for t in range(n_targets):
        readable = readable_sources(t, len(k), may_attend, bias)
        scores = [
            alpha * np.dot(q[t], k[s]) + (0.0 if bias is None else bias[t][s]) for s in readable
        ]
        for weight, s in zip(softmax(scores), readable, strict=True):
            out[t] += weight * v[s]
    return out


def readable_sources(
    t: int, n_sources: int, may_attend: ArrayLike | None, bias: ArrayLike | None
) -> list:
    r"""List the sources that target t may read, in order.

    $$S_t = \{\, s : \mathrm{may\_attend}_{ts} \text{ and } b_{ts} \ne -\infty \,\}$$

    Example:
        >>> readable_sources(0, 3, np.array([[True, False, True]]), None)
        [0, 2]
    """
    return [
        s
        for s in range(n_sources)
        if (may_attend is None or may_attend[t][s]) and (bias is None or bias[t][s] != -np.inf)
    ]


def dot_product_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    may_attend: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    scale: float | None = None,
) -> Array:
    r"""Attend in every batch element and head on its own.

    $$o_{b,h} = \operatorname{attention}(q_{b,h},\, k_{b,h},\, v_{b,h})$$

    Shapes: q (b, h, t, d), k (b, h, s, d), v (b, h, s, e); the mask and the bias broadcast to
    (b, h, t, s).

    Example:
        >>> q, k, v = np.ones((2, 3, 5, 4)), np.ones((2, 3, 7, 4)), np.ones((2, 3, 7, 6))
        >>> dot_product_attention(q, k, v).shape
        (2, 3, 5, 6)
    """
    return grouped_query_attention(q, k, v, may_attend, bias, scale)


def grouped_query_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    may_attend: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    scale: float | None = None,
) -> Array:
    r"""Attend with h query heads that share g key/value heads.

    $$o_{b,i} = \operatorname{attention}(q_{b,i},\, k_{b,\lfloor i/p \rfloor},\,
    v_{b,\lfloor i/p \rfloor}), \qquad p = h/g$$

    Shapes: q (b, h, t, d), k (b, g, s, d), v (b, g, s, e).

    Example:
        >>> q, k = np.ones((1, 6, 1, 4)), np.ones((1, 3, 7, 4))
        >>> v = np.arange(3.0).reshape(1, 3, 1, 1) * np.ones((1, 3, 7, 1))
        >>> grouped_query_attention(q, k, v).ravel().round(12)
        array([0., 0., 1., 1., 2., 2.])
    """
    n_batch, n_query_heads, n_targets, _ = q.shape
    n_kv_heads, n_sources = k.shape[1], k.shape[2]
    p = n_query_heads // n_kv_heads
    everywhere = (n_batch, n_query_heads, n_targets, n_sources)
    may_attend = np.broadcast_to(True if may_attend is None else may_attend, everywhere)
    bias = np.broadcast_to(0.0 if bias is None else bias, everywhere)
    out = np.zeros((n_batch, n_query_heads, n_targets, v.shape[-1]))
    for b in range(n_batch):
        for i in range(n_query_heads):
            j = i // p
            out[b, i] = attention(q[b, i], k[b, j], v[b, j], may_attend[b, i], bias[b, i], scale)
    return out


def causal_mask(n_targets: int, n_sources: int, window: int | None = None) -> Array:
    r"""Say which sources lie in the past of each target, or at most W − 1 before it.

    Targets are the last positions of the sources, so target t stands at
    $\bar t = t + n_s - n_t$ and may read s exactly when

    $$s \le \bar t \qquad\text{and}\qquad \bar t - s < W \text{ (if there is a window)}.$$

    Example:
        >>> causal_mask(2, 4).astype(int)
        array([[1, 1, 1, 0],
               [1, 1, 1, 1]])
        >>> causal_mask(2, 4, window=2).astype(int)
        array([[0, 1, 1, 0],
               [0, 0, 1, 1]])
    """
    mask = np.zeros((n_targets, n_sources), dtype=bool)
    for t in range(n_targets):
        position = t + n_sources - n_targets
        for s in range(n_sources):
            mask[t, s] = s <= position and (window is None or position - s < window)
    return mask


def merge(part_a: tuple[Array, float], part_b: tuple[Array, float]) -> tuple[Array, float]:
    r"""Merge what one target read in two disjoint sets of sources.

    A part is its output and its log-sum-exp, $(o, \ell)$. The whole is

    $$\ell = \log(e^{\ell_a} + e^{\ell_b}), \qquad
    o = e^{\ell_a - \ell}\, o_a + e^{\ell_b - \ell}\, o_b.$$

    A part with $\ell = -\infty$ has read nothing and changes nothing.

    Example:
        >>> merge((np.array([1.0]), np.log(1.0)), (np.array([5.0]), np.log(3.0)))[0].round(12)
        array([4.])
        >>> merge((np.array([1.0]), 0.0), (np.array([0.0]), -np.inf))
        (array([1.]), 0.0)
    """
    (out_a, lse_a), (out_b, lse_b) = part_a, part_b
    if lse_b == -np.inf:
        return out_a, lse_a
    if lse_a == -np.inf:
        return out_b, lse_b
    lse = log_sum_exp([lse_a, lse_b])
    return np.exp(lse_a - lse) * out_a + np.exp(lse_b - lse) * out_b, lse
