r"""Heads side by side, their sum, and the least width that a pattern of weights needs.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2 (heads); Bhojanapalli et al. 2020,
         arXiv:2002.07028, section 3 (width); the rank is this book's sharper form
Chapter  chapters/multi-head-attention.md
Axes     attnlib/axes.py
"""

import numpy as np
from numpy.typing import ArrayLike

from attnlib.definitions.of_attention import attention

Array = np.ndarray


def split_heads(x: ArrayLike, n_heads: int) -> Array:
    r"""Give head i the columns from i·d up to (i + 1)·d.

    $$y_{i,t,j} = x_{t,\; i d + j}, \qquad 0 \le j < d$$

    Shapes: x (t, h·d), the heads (h, t, d).

    Example:
        >>> split_heads([[1, 2, 3, 4], [5, 6, 7, 8]], 2)
        array([[[1., 2.],
                [5., 6.]],
        <BLANKLINE>
               [[3., 4.],
                [7., 8.]]])
    """
    x = np.asarray(x, dtype=np.float64)
    d = x.shape[1] // n_heads
    heads = np.zeros((n_heads, len(x), d))
    for i in range(n_heads):
        for t in range(len(x)):
            for j in range(d):
                heads[i, t, j] = x[t, i * d + j]
    return heads


def multi_head_attention(
    x: ArrayLike,
    w_q: ArrayLike,
    w_k: ArrayLike,
    w_v: ArrayLike,
    w_o: ArrayLike,
    may_attend: ArrayLike | None = None,
) -> Array:
    r"""Let every head attend, and add up what each of them writes.

    $$y_t = \sum_i W^O_i{}^{\mathsf T}\, o_{i,t}, \qquad
    o_i = \operatorname{attention}(X W^Q_i,\ X W^K_i,\ X W^V_i)$$

    Shapes: x (t, m), w_q and w_k (h, m, d), w_v (h, m, e), w_o (h, e, m), may_attend (t, t).

    Example:
        >>> x, once = np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros((3, 2, 1))
        >>> y = multi_head_attention(x, once, once, np.ones((3, 2, 5)), np.ones((3, 5, 2)))
        >>> y.round(12)
        array([[15., 15.],
               [15., 15.]])
    """
    x, y = np.asarray(x, dtype=np.float64), np.zeros(np.shape(x))
    for i in range(len(w_q)):
        out = attention(x @ w_q[i], x @ w_k[i], x @ w_v[i], may_attend)
        for t in range(len(x)):
            for j in range(out.shape[1]):
                y[t] += out[t, j] * np.asarray(w_o[i][j])
    return y


def least_score_width(p: ArrayLike) -> int:
    r"""Give the least width of queries and keys whose softmax is P, for positive rows of weights.

    $$\operatorname{rank}\bigl(\log P\,(I - \tfrac1n \mathbf 1 \mathbf 1^{\mathsf T})\bigr)$$

    Softmax does not notice a number added to a row, so the mean of each row is free and goes. The
    rank is found in floating point: log P is off by a few roundings, and singular values below
    $2^{-50} (1 + \max|\log P|)\,\max(t, n)$ count as zero.

    Example:
        >>> least_score_width([[0.25, 0.25, 0.5], [0.25, 0.25, 0.5]])
        1
        >>> least_score_width([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]])
        2
    """
    logs = np.log(np.asarray(p, dtype=np.float64))
    centred = np.array([row - np.mean(row) for row in logs])
    rounding = 2.0**-50 * (1 + np.max(np.abs(logs))) * max(logs.shape)
    return sum(int(value > rounding) for value in np.linalg.svd(centred, compute_uv=False))
