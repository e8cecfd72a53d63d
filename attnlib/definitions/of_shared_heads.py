r"""Key/value heads that several query heads read: which, what they cost, and how many become one.

Source   Ainslie et al. 2023, arXiv:2305.13245, sections 2.1 (the mean) and 2.2 (who reads whom);
         Eckart and Young 1936, Psychometrika 1 (the least error of a shared factor)
Chapter  chapters/grouped-query-attention.md
Axes     attnlib/axes.py
"""

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray


def kv_heads_read(n_query_heads: int, n_kv_heads: int) -> Array:
    r"""Say which key/value head each query head reads.

    $$j(i) = \lfloor i / p \rfloor, \qquad p = h/g$$

    Example:
        >>> kv_heads_read(6, 3)
        array([0, 0, 1, 1, 2, 2])
    """
    p = n_query_heads // n_kv_heads
    heads = np.zeros(n_query_heads, dtype=int)
    for i in range(n_query_heads):
        heads[i] = i // p
    return heads


def pooled_heads(weights: ArrayLike, n_kv_heads: int) -> Array:
    r"""Give each key/value head the mean of the p matrices that it takes the place of.

    $$\bar W_j = \frac1p \sum_{i=0}^{p-1} W_{j p + i}$$

    Shapes: weights (h, m, d), their means (g, m, d).

    Example:
        >>> pooled_heads([[[1, 10]], [[3, 30]], [[5, 50]], [[9, 70]]], 2)
        array([[[ 2., 20.]],
        <BLANKLINE>
               [[ 7., 60.]]])
    """
    weights = np.asarray(weights, dtype=np.float64)
    n_heads, m, d = weights.shape
    p = n_heads // n_kv_heads
    pooled = np.zeros((n_kv_heads, m, d))
    for j in range(n_kv_heads):
        for i in range(p):
            pooled[j] += weights[j * p + i] / p
    return pooled


def shared_step(
    n_query_heads: int, n_kv_heads: int, d: int, e: int, n_tokens: int
) -> tuple[int, int, float]:
    r"""Count what one layer's core reads and computes for one target, while the loops run.

    $$x_{is} = \sum_j q_{ij}\, k_{\lfloor i/p\rfloor sj}, \qquad
    o_{ij} = \sum_s p_{is}\, v_{\lfloor i/p\rfloor sj}$$

    An element that several heads use is read once. The results: the elements of the cache that are
    read, the FLOPs (a multiply-add is two; scale and softmax are left out), and how many FLOPs
    there are for each element.

    Example:
        >>> shared_step(6, 2, d=3, e=4, n_tokens=10)
        (140, 840, 6.0)
    """
    p = n_query_heads // n_kv_heads
    read, n_flops = set(), 0
    for i in range(n_query_heads):
        for s in range(n_tokens):
            for j in range(d):
                read.add(("key", i // p, s, j))
                n_flops += 2  # x[i, s] += q[i, j] * k[i // p, s, j]
            for j in range(e):
                read.add(("value", i // p, s, j))
                n_flops += 2  # o[i, j] += p[i, s] * v[i // p, s, j]
    return len(read), n_flops, n_flops / len(read)


def shared_factor_error(weights: ArrayLike, rank: int) -> float:
    r"""Give the least error of p matrices that share their left factor A, of so many columns.

    $$\min_{A,\, B_1, \dots, B_p} \sum_{i=1}^p \|W_i - A B_i\|_F^2 = \sum_{k > r} \sigma_k^2$$

    The $\sigma_k$ are the singular values of $(W_1, \dots, W_p)$, the matrices side by side, the
    largest first. Shapes: weights (p, m, d), A (m, rank), each B (rank, d).

    Example:
        >>> once = np.array([[3.0, 0.0], [0.0, 2.0]])
        >>> [round(shared_factor_error([once, -once], rank), 12) for rank in (0, 1, 2)]
        [26.0, 8.0, 0.0]
    """
    side_by_side = np.concatenate([np.asarray(w, dtype=np.float64) for w in weights], axis=1)
    error = 0.0
    for k, value in enumerate(np.linalg.svd(side_by_side, compute_uv=False)):
        if k >= rank:
            error += float(value) ** 2
    return error
