r"""What a product of matrices and the core of attention cost, counted while the loops run.

Source   Golub and Van Loan 2013, Matrix Computations, section 1.1 (a multiplication and an addition
         are two FLOPs); Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1 (the core)
Chapter  chapters/counting-cost.md
Axes     attnlib/axes.py

A FLOP is one multiplication or one addition of two numbers. Every multiply-add counts as two, the
first of a sum too, though it adds to zero.
"""

import numpy as np
from numpy.typing import ArrayLike


def product_flops(a: ArrayLike, b: ArrayLike) -> int:
    r"""Count the FLOPs of the product of two matrices, by carrying it out.

    $$(AB)_{tj} = \sum_i a_{ti}\, b_{ij}$$

    Each term is multiplied once and added once. Shapes: a (t, m), b (m, d).

    Example:
        >>> product_flops(np.ones((2, 3)), np.ones((3, 5)))
        60
    """
    n_flops = 0
    for row in np.asarray(a):
        for column in np.asarray(b).T:
            total = 0.0
            for x, y in zip(row, column, strict=True):
                total += x * y
                n_flops += 2
    return n_flops


def attention_flops(
    n_targets: int, n_sources: int, d: int, e: int, may_attend: ArrayLike | None = None
) -> int:
    r"""Count the FLOPs of one head's scores and averages.

    $$x_{ts} = \sum_i q_{ti}\, k_{si}, \qquad o_{tj} = \sum_s p_{ts}\, v_{sj}$$

    A pair of a target and a source costs d multiply-adds in the score and e in the average; a pair
    that may not be read costs nothing. Scale and softmax are left out. Shape of may_attend: (t, s).

    Example:
        >>> attention_flops(1, 4, 3, 5)
        64
        >>> attention_flops(2, 2, 3, 5, may_attend=[[True, False], [True, True]])
        48
    """
    n_flops = 0
    for t in range(n_targets):
        for s in range(n_sources):
            if may_attend is not None and not may_attend[t][s]:
                continue
            for _ in range(d):
                n_flops += 2  # x[t, s] += q[t, i] * k[s, i]
            for _ in range(e):
                n_flops += 2  # o[t, j] += p[t, s] * v[s, j]
    return n_flops
