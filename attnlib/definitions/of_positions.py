r"""Sinusoids, rotations, linear biases and counted positions, as they are read aloud.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.5 (sinusoids); Su et al. 2021,
         arXiv:2104.09864, section 3.2 (rotations); Press et al. 2022, arXiv:2108.12409, section 3
         (linear biases)
Chapter  chapters/positions.md
Axes     attnlib/axes.py
"""

from math import cos, sin
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray


def sinusoidal_encoding(positions: ArrayLike, width: int, base: float = 10_000.0) -> Array:
    r"""Encode each position by sines and cosines, a sine before its cosine.

    $$\mathrm{PE}_{p,2i} = \sin(p\,\omega_i), \qquad \mathrm{PE}_{p,2i+1} = \cos(p\,\omega_i),
    \qquad \omega_i = \mathrm{base}^{-2i/m}$$

    Shapes: positions (t,), the encoding (t, m).

    Example:
        >>> sinusoidal_encoding([0, 1], 4).round(2)
        array([[0.  , 1.  , 0.  , 1.  ],
               [0.84, 0.54, 0.01, 1.  ]])
    """
    encoding = np.zeros((len(positions), width))
    for t, p in enumerate(positions):
        for i in range(width // 2):
            angle = p * base ** (-2 * i / width)
            encoding[t, 2 * i] = sin(angle)
            encoding[t, 2 * i + 1] = cos(angle)
    return encoding


def shift_matrix(k: int, width: int, base: float = 10_000.0) -> Array:
    r"""Move every encoding on by k positions.

    $$M_k\,\mathrm{PE}_p = \mathrm{PE}_{p+k}$$

    One block for each pair, from the sine and cosine of a sum:

    $$\begin{pmatrix} \sin(p+k)\omega \\ \cos(p+k)\omega \end{pmatrix} =
    \begin{pmatrix} \cos k\omega & \sin k\omega \\ -\sin k\omega & \cos k\omega \end{pmatrix}
    \begin{pmatrix} \sin p\omega \\ \cos p\omega \end{pmatrix}$$

    Example:
        >>> shift_matrix(1, 2).round(2)
        array([[ 0.54,  0.84],
               [-0.84,  0.54]])
    """
    matrix = np.zeros((width, width))
    for i in range(width // 2):
        angle = k * base ** (-2 * i / width)
        matrix[2 * i, 2 * i : 2 * i + 2] = cos(angle), sin(angle)
        matrix[2 * i + 1, 2 * i : 2 * i + 2] = -sin(angle), cos(angle)
    return matrix


def rotation_matrix(position: Real, width: int, pairing: str, base: float = 10_000.0) -> Array:
    r"""Turn each pair of coordinates by the position times its frequency.

    $$R_p = \begin{pmatrix} \cos p\theta_i & -\sin p\theta_i \\ \sin p\theta_i & \cos p\theta_i
    \end{pmatrix} \text{ in the rows and columns of pair } i, \qquad
    \theta_i = \mathrm{base}^{-2i/d}$$

    Pair i is (i, i + d/2) if the pairing is "half", and (2i, 2i + 1) if it is "interleaved".

    Example:
        >>> rotation_matrix(1, 2, "half").round(2)
        array([[ 0.54, -0.84],
               [ 0.84,  0.54]])
    """
    matrix = np.zeros((width, width))
    for i in range(width // 2):
        a, b = (i, i + width // 2) if pairing == "half" else (2 * i, 2 * i + 1)
        angle = position * base ** (-2 * i / width)
        matrix[a, a], matrix[a, b] = cos(angle), -sin(angle)
        matrix[b, a], matrix[b, b] = sin(angle), cos(angle)
    return matrix


def rotate(x: ArrayLike, positions: ArrayLike, pairing: str, base: float = 10_000.0) -> Array:
    r"""Turn the vector of each token by its position.

    $$y_t = R_{p_t}\,x_t$$

    Shapes: x (t, d), positions (t,).

    Example:
        >>> rotate([[1.0, 0.0], [1.0, 0.0]], [0, 1], "half").round(2)
        array([[1.  , 0.  ],
               [0.54, 0.84]])
    """
    x = np.asarray(x, dtype=np.float64)
    turned = np.zeros_like(x)
    for t, p in enumerate(positions):
        turned[t] = rotation_matrix(p, x.shape[1], pairing, base) @ x[t]
    return turned


def alibi_bias(n_targets: int, n_sources: int, slope: float) -> Array:
    r"""Take the slope from the score of target t and source s for each step between them.

    Targets are the last positions of the sources, so target t stands at
    $\bar t = t + n_s - n_t$, and

    $$b_{ts} = -m\,|\bar t - s|.$$

    Example:
        >>> alibi_bias(2, 3, 0.5)
        array([[-0.5,  0. , -0.5],
               [-1. , -0.5,  0. ]])
    """
    bias = np.zeros((n_targets, n_sources))
    for t in range(n_targets):
        position = t + n_sources - n_targets
        for s in range(n_sources):
            bias[t, s] = slope * -abs(position - s)
    return bias


def alibi_slopes(n_heads: int) -> list[float]:
    r"""List the slope of each head.

    $$m_i = 2^{-8i/h}, \qquad i = 1, \dots, h$$

    Where h is no power of two: the slopes of the power of two below, then every other one of twice
    as many heads.

    Example:
        >>> alibi_slopes(3)
        [0.0625, 0.00390625, 0.25]
    """
    below = 1
    while 2 * below <= n_heads:
        below = 2 * below
    slopes = [2 ** (-8 * i / below) for i in range(1, below + 1)]
    between = [2 ** (-8 * i / (2 * below)) for i in range(1, 2 * below, 2)]
    return slopes + between[: n_heads - below]


def padded_positions(is_token: ArrayLike) -> Array:
    r"""Count the tokens of each row from 0; what stands before the first gets 0.

    $$p_{bs} = \max(0,\ \text{number of tokens of row } b \text{ up to } s,\ \text{less } 1)$$

    Example:
        >>> padded_positions([[False, False, True, True], [True, True, True, True]])
        array([[0, 0, 0, 1],
               [0, 1, 2, 3]])
    """
    positions = np.zeros(np.shape(is_token), dtype=np.int64)
    for b, row in enumerate(is_token):
        n_tokens = 0
        for s, token in enumerate(row):
            n_tokens += bool(token)
            positions[b, s] = max(0, n_tokens - 1)
    return positions
