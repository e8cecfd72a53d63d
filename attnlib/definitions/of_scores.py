r"""The mean and the variance of a score, and what keeps scores small, as they are read aloud.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1, footnote 4 (variance); Zhang and
         Sennrich 2019, arXiv:1910.07467 (root mean square); Gemma Team 2024, arXiv:2408.00118,
         section 2 (soft-cap)
Chapter  chapters/variance-scaling.md
Axes     attnlib/axes.py
"""

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray


def score_mean(mean_q: ArrayLike, mean_k: ArrayLike) -> float:
    r"""Give the mean of $\langle q, k\rangle$ for q and k that are uncorrelated with each other.

    $$\mathbb E\,\langle q, k\rangle = \sum_i \mathbb E[q_i]\; \mathbb E[k_i]$$

    Example:
        >>> score_mean([1.0, 2.0], [3.0, 5.0])
        13.0
    """
    return float(sum(m_q * m_k for m_q, m_k in zip(mean_q, mean_k, strict=True)))


def score_variance(
    mean_q: ArrayLike, cov_q: ArrayLike, mean_k: ArrayLike, cov_k: ArrayLike
) -> float:
    r"""Give the variance of $\langle q, k\rangle$ for independent q and k.

    $$\operatorname{Var} \langle q, k\rangle = \sum_{i,j} \bigl(\Sigma^q_{ij} \Sigma^k_{ij}
    + \mu^q_i \mu^q_j\, \Sigma^k_{ij} + \mu^k_i \mu^k_j\, \Sigma^q_{ij}\bigr)$$

    Only means and covariances enter: nothing is asked of the distributions, and the coordinates
    of one vector may depend on each other.

    Example:
        >>> score_variance(np.zeros(5), np.eye(5), np.zeros(5), np.eye(5))
        5.0
        >>> score_variance(np.ones(5), np.eye(5), np.zeros(5), np.eye(5))
        10.0
    """
    variance = 0.0
    for i in range(len(mean_q)):
        for j in range(len(mean_q)):
            variance += cov_q[i][j] * cov_k[i][j]
            variance += mean_q[i] * mean_q[j] * cov_k[i][j]
            variance += mean_k[i] * mean_k[j] * cov_q[i][j]
    return float(variance)


def rms_norm(x: ArrayLike, gain: ArrayLike | None = None, epsilon: float = 0.0) -> Array:
    r"""Divide a row by its root mean square, so that its squares are 1 on average.

    $$y_i = \frac{x_i}{\sqrt{\frac1d \sum_j x_j^2 + \varepsilon}}\; g_i, \qquad g_i = 1 \text{ if
    there is no gain}$$

    One row (d,) or several (t, d) may be given. No row may be zero unless ε is above 0.

    Example:
        >>> rms_norm([3.0, -4.0, 0.0, 0.0])
        array([ 1.2, -1.6,  0. ,  0. ])
    """
    x = np.asarray(x, dtype=np.float64)
    if x.ndim > 1:
        return np.array([rms_norm(row, gain, epsilon) for row in x])
    mean_square = sum(x_j * x_j for x_j in x) / len(x)
    gain = np.ones(len(x)) if gain is None else gain
    return np.array(
        [g_i * x_i / np.sqrt(mean_square + epsilon) for x_i, g_i in zip(x, gain, strict=True)]
    )


def soft_cap(score: float, cap: float) -> float:
    r"""Bend a score so that it stays between −C and C.

    $$C \tanh \frac{x}{C}$$

    Small scores stay nearly as they are.

    Example:
        >>> round(soft_cap(1.0, 50.0), 4), soft_cap(-9000.0, 50.0)
        (0.9999, -50.0)
    """
    return float(cap * np.tanh(score / cap))


def jacobian_bound(p: ArrayLike) -> float:
    r"""Bound the norm of the Jacobian of softmax where its weights are p.

    $$\lVert \operatorname{diag}(p) - p p^{\mathsf T} \rVert_2 \le
    \min\bigl(p_\text{max},\ 2\,p_\text{max}(1 - p_\text{max})\bigr) \le \tfrac12$$

    Example:
        >>> jacobian_bound([0.5, 0.5]), jacobian_bound([0.75, 0.25]), jacobian_bound([1.0, 0.0])
        (0.5, 0.375, 0.0)
    """
    largest = max(float(p_i) for p_i in p)
    return min(largest, 2 * largest * (1 - largest))
