r"""What a Transformer has besides attention, what contracts its rows, and what it replaced.

Source   Vaswani et al. 2017, arXiv:1706.03762, sections 3.1 to 3.3 (blocks, feed-forward); Ba et
         al. 2016, arXiv:1607.06450 (layer norm); Shazeer 2020, arXiv:2002.05202 (gates); Hendrycks
         and Gimpel 2016, arXiv:1606.08415 (GELU); Dobrushin 1956 (τ); Hochreiter and Schmidhuber
         1997 with the forget gates of Gers et al. 2000 (LSTM)
Chapter  chapters/encoder-decoder.md
Axes     attnlib/axes.py
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from attnlib.definitions.of_attention import attention

Array = np.ndarray


# --- norms ------------------------------------------------------------------------------------


def layer_norm(
    x: ArrayLike,
    gain: ArrayLike | None = None,
    shift: ArrayLike | None = None,
    *,
    epsilon: float,
) -> Array:
    r"""Take the mean off each row, and divide it by its standard deviation.

    $$y_i = \frac{x_i - \mu}{\sqrt{\sigma^2 + \varepsilon}}\; g_i + \beta_i, \qquad
    \mu = \frac1m \sum_i x_i, \qquad \sigma^2 = \frac1m \sum_i (x_i - \mu)^2$$

    The variance divides by m, not by m − 1. One row (m,) or several (t, m) may be given. No row
    may be constant unless ε is above 0.

    Example:
        >>> layer_norm([1.0, 3.0, 5.0, 7.0], epsilon=4.0)
        array([-1.        , -0.33333333,  0.33333333,  1.        ])
    """
    x = np.asarray(x, dtype=np.float64)
    if x.ndim > 1:
        return np.array([layer_norm(row, gain, shift, epsilon=epsilon) for row in x])
    mean = sum(x_i for x_i in x) / len(x)
    variance = sum((x_i - mean) ** 2 for x_i in x) / len(x)
    gain = np.ones(len(x)) if gain is None else gain
    shift = np.zeros(len(x)) if shift is None else shift
    return np.array(
        [
            (x_i - mean) / np.sqrt(variance + epsilon) * g_i + b_i
            for x_i, g_i, b_i in zip(x, gain, shift, strict=True)
        ]
    )


def layer_norm_jacobian(x: ArrayLike, *, epsilon: float) -> Array:
    r"""Differentiate layer norm, without gain and shift, at one row.

    $$\frac{\partial y_i}{\partial x_j} = \frac{1}{\sqrt{\sigma^2 + \varepsilon}}
    \Bigl(\delta_{ij} - \frac1m - \frac{z_i z_j}{m}\Bigr), \qquad
    z_i = \frac{x_i - \mu}{\sqrt{\sigma^2 + \varepsilon}}$$

    Example:
        >>> layer_norm_jacobian([0.0, 2.0], epsilon=3.0)
        array([[ 0.1875, -0.1875],
               [-0.1875,  0.1875]])
    """
    x = np.asarray(x, dtype=np.float64)
    m, z = len(x), layer_norm(x, epsilon=epsilon)
    mean = sum(x_i for x_i in x) / m
    root = np.sqrt(sum((x_i - mean) ** 2 for x_i in x) / m + epsilon)
    return np.array(
        [[((i == j) - 1 / m - z[i] * z[j] / m) / root for j in range(m)] for i in range(m)]
    )


def rms_norm_jacobian(x: ArrayLike, *, epsilon: float) -> Array:
    r"""Differentiate the division by the root mean square, without gain, at one row.

    $$\frac{\partial y_i}{\partial x_j} = \frac{1}{\sqrt{\frac1m \sum_k x_k^2 + \varepsilon}}
    \Bigl(\delta_{ij} - \frac{y_i y_j}{m}\Bigr)$$

    Example:
        >>> rms_norm_jacobian([1.0, 1.0], epsilon=3.0)
        array([[ 0.4375, -0.0625],
               [-0.0625,  0.4375]])
    """
    x = np.asarray(x, dtype=np.float64)
    m = len(x)
    root = np.sqrt(sum(x_k * x_k for x_k in x) / m + epsilon)
    y = x / root
    return np.array([[((i == j) - y[i] * y[j] / m) / root for j in range(m)] for i in range(m)])


# --- feed-forward -----------------------------------------------------------------------------


def relu(x: float) -> float:
    r"""Keep what is positive: $\max(x, 0)$.

    Example:
        >>> relu(-3.0), relu(2.0)
        (0.0, 2.0)
    """
    return max(float(x), 0.0)


def gelu(x: float) -> float:
    r"""Weigh x with the probability that a standard normal number is below it.

    $$x\, \Phi(x) = \tfrac{x}{2} \bigl(1 + \operatorname{erf}(x / \sqrt 2)\bigr)$$

    Example:
        >>> round(gelu(1.0), 4), gelu(0.0)
        (0.8413, 0.0)
    """
    return float(x / 2 * (1 + math.erf(x / math.sqrt(2))))


def gelu_tanh(x: float) -> float:
    r"""Give GELU as GPT-2 computes it, with tanh in place of the error function.

    $$\tfrac{x}{2} \Bigl(1 + \tanh\bigl(\sqrt{2/\pi}\,(x + 0.044715\, x^3)\bigr)\Bigr)$$

    Example:
        >>> round(gelu_tanh(1.0), 4)
        0.8412
    """
    return float(x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def silu(x: float) -> float:
    r"""Weigh x with the logistic function of itself: $x / (1 + e^{-x})$.

    Example:
        >>> silu(0.0), round(silu(1.0), 4)
        (0.0, 0.7311)
    """
    # The logistic function as it does not overflow: e⁻ˣ would, for x below −709.
    return float(x * (1 + math.tanh(x / 2)) / 2)


def feed_forward(
    x: ArrayLike,
    w_1: ArrayLike,
    b_1: ArrayLike,
    w_2: ArrayLike,
    b_2: ArrayLike,
    activation: Callable[[float], float] = relu,
) -> Array:
    r"""Widen each row, bend every number by itself, and narrow it again.

    $$y_{t,j} = \sum_i \sigma\Bigl(\sum_k x_{t,k}\, W^1_{k,i} + b^1_i\Bigr)\, W^2_{i,j} + b^2_j$$

    No row sees another one. Shapes: x (t, m), w_1 (m, f), b_1 (f), w_2 (f, m), b_2 (m), where f is
    the inner width.

    Example:
        >>> feed_forward([[3.0], [-3.0]], [[1.0, -1.0]], [0.0, 0.0], [[10.0], [100.0]], [1.0])
        array([[ 31.],
               [301.]])
    """
    y = []
    for row in np.asarray(x, dtype=np.float64):
        inner = [
            activation(row @ column + b) for column, b in zip(np.transpose(w_1), b_1, strict=True)
        ]
        y.append([inner @ column + b for column, b in zip(np.transpose(w_2), b_2, strict=True)])
    return np.array(y)


def gated_feed_forward(
    x: ArrayLike,
    gate: ArrayLike,
    up: ArrayLike,
    down: ArrayLike,
    activation: Callable[[float], float] = silu,
) -> Array:
    r"""Widen each row twice, multiply the one with the other bent, and narrow the product.

    $$y_{t,j} = \sum_i \sigma\Bigl(\sum_k x_{t,k}\, G_{k,i}\Bigr)
    \Bigl(\sum_k x_{t,k}\, U_{k,i}\Bigr)\, D_{i,j}$$

    With SiLU this is SwiGLU, with GELU it is GeGLU. Shapes: x (t, m), gate and up (m, f), down
    (f, m), where f is the inner width.

    Example:
        >>> gated_feed_forward([[3.0], [-3.0]], [[2.0]], [[5.0]], [[1.0]], relu)
        array([[90.],
               [ 0.]])
    """
    y = []
    for row in np.asarray(x, dtype=np.float64):
        inner = [
            activation(row @ g) * (row @ u)
            for g, u in zip(np.transpose(gate), np.transpose(up), strict=True)
        ]
        y.append([inner @ column for column in np.transpose(down)])
    return np.array(y)


# --- blocks -----------------------------------------------------------------------------------


def post_norm(x: ArrayLike, sub_layer: Callable, *, epsilon: float) -> Array:
    r"""Add what a sub-layer makes of the rows to them, and norm the sum: the form of 2017.

    $$y = \operatorname{LN}(x + f(x))$$

    Example:
        >>> post_norm([[1.0, 3.0]], lambda x: 0 * x, epsilon=0.0)
        array([[-1.,  1.]])
    """
    x = np.asarray(x, dtype=np.float64)
    return layer_norm(x + sub_layer(x), epsilon=epsilon)


def pre_norm(x: ArrayLike, sub_layer: Callable, *, epsilon: float) -> Array:
    r"""Add what a sub-layer makes of the normed rows to the rows as they are.

    $$y = x + f(\operatorname{LN}(x))$$

    Example:
        >>> pre_norm([[1.0, 3.0]], lambda x: 10 * x, epsilon=0.0)
        array([[-9., 13.]])
    """
    x = np.asarray(x, dtype=np.float64)
    return x + sub_layer(layer_norm(x, epsilon=epsilon))


def cross_attention(
    x: ArrayLike,
    read: ArrayLike,
    w_q: ArrayLike,
    w_k: ArrayLike,
    w_v: ArrayLike,
    w_o: ArrayLike,
    may_read: ArrayLike | None = None,
) -> Array:
    r"""Let the rows of a decoder ask, and read what an encoder put out.

    $$y_t = \sum_i W^O_i{}^{\mathsf T}\, o_{i,t}, \qquad
    o_i = \operatorname{attention}(X W^Q_i,\ R\, W^K_i,\ R\, W^V_i)$$

    Every target may read every source unless may_read says otherwise: the source is known as a
    whole. Shapes: x (t, m), read (s, m), w_q and w_k (h, m, d), w_v (h, m, e), w_o (h, e, m),
    may_read (t, s).

    Example:
        >>> x, read, w = np.zeros((3, 1)), np.array([[2.0], [4.0]]), np.ones((1, 1, 1))
        >>> cross_attention(x, read, w, w, w, w)
        array([[3.],
               [3.],
               [3.]])
    """
    x, read = np.asarray(x, dtype=np.float64), np.asarray(read, dtype=np.float64)
    y = np.zeros((len(x), np.shape(w_o)[2]))
    for i in range(len(w_q)):
        out = attention(x @ w_q[i], read @ w_k[i], read @ w_v[i], may_read)
        for t in range(len(x)):
            for j in range(out.shape[1]):
                y[t] += out[t, j] * np.asarray(w_o[i][j])
    return y


# --- contraction ------------------------------------------------------------------------------


def row_diameter(x: ArrayLike, order: int | float = 2) -> float:
    r"""Give the largest distance between two rows; 0 means that all rows are equal.

    $$\operatorname{diam}(X) = \max_{i,j} \lVert x_i - x_j\rVert$$

    The order of the norm is 1, 2 or infinity.

    Example:
        >>> x = [[0.0, 0.0], [3.0, 4.0], [3.0, 3.0]]
        >>> row_diameter(x), row_diameter(x, order=1), row_diameter(x, order=float("inf"))
        (5.0, 7.0, 4.0)
    """
    x = np.asarray(x, dtype=np.float64)
    return max(float(np.linalg.norm(x_i - x_j, ord=order)) for x_i in x for x_j in x)


def dobrushin(p: ArrayLike) -> float:
    r"""Give Dobrushin's coefficient of a matrix of weights: how far apart two of its rows are.

    $$\tau(P) = \tfrac12 \max_{i,j} \sum_s \lvert P_{i,s} - P_{j,s}\rvert$$

    For rows that sum to one it lies between 0 (all rows are equal) and 1 (two rows share no
    source), and averaging with P shrinks the diameter of the rows by it, in every norm.

    Example:
        >>> dobrushin([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]), dobrushin([[1.0, 0.0], [0.0, 1.0]])
        (0.5, 1.0)
    """
    p = np.asarray(p, dtype=np.float64)
    distances = [sum(abs(a - b) for a, b in zip(p_i, p_j, strict=True)) for p_i in p for p_j in p]
    return float(max(distances) / 2)


# --- what was before --------------------------------------------------------------------------


def recurrent_states(
    x: ArrayLike, w_h: ArrayLike, w_x: ArrayLike, b: ArrayLike, start: ArrayLike | None = None
) -> Array:
    r"""Run a recurrent network: each state is made of the one before it and of one token.

    $$h_t = \tanh(W^h h_{t-1} + W^x x_t + b), \qquad h_0 = 0 \text{ unless it is given}$$

    Shapes, for a state of width n: x (t, m), w_h (n, n), w_x (n, m), b (n,), and the states h₁, h₂,
    … (t, n).

    Example:
        >>> recurrent_states([[1.0], [0.0]], [[2.0]], [[1.0]], [0.0]).round(4)
        array([[0.7616],
               [0.9093]])
    """
    h = np.zeros(len(b)) if start is None else np.asarray(start, dtype=np.float64)
    states = []
    for x_t in np.asarray(x, dtype=np.float64):
        h = np.tanh(np.asarray(w_h) @ h + np.asarray(w_x) @ x_t + np.asarray(b))
        states.append(h)
    return np.array(states)


def recurrent_jacobian(
    x: ArrayLike, w_h: ArrayLike, w_x: ArrayLike, b: ArrayLike, start: ArrayLike | None = None
) -> Array:
    r"""Differentiate the last state of a recurrent network by its first one.

    $$\frac{\partial h_T}{\partial h_0} = \prod_{t = T}^{1}
    \operatorname{diag}\bigl(1 - h_t^2\bigr)\, W^h$$

    One factor for each token: below one it vanishes, above one it may explode.

    Example:
        >>> recurrent_jacobian([[0.0], [0.0], [0.0]], [[0.5]], [[1.0]], [0.0])
        array([[0.125]])
    """
    product = np.eye(len(b))
    for h in recurrent_states(x, w_h, w_x, b, start):
        product = np.diag(1 - h * h) @ np.asarray(w_h) @ product
    return product


def lstm_states(x: ArrayLike, w_h: ArrayLike, w_x: ArrayLike, b: ArrayLike) -> tuple[Array, Array]:
    r"""Run an LSTM: a cell is kept as far as the forget gate says, and added to.

    $$c_t = f_t \odot c_{t-1} + i_t \odot \tanh(g_t), \qquad h_t = o_t \odot \tanh(c_t)$$

    The gates i, f and o are logistic functions, and they and g are of the form
    $W^h h_{t-1} + W^x x_t + b$. Both states start at zero.

    Shapes, for a state of width n: x (t, m); w_h (4, n, n), w_x (4, n, m) and b (4, n), in the
    order i, f, g, o. The result is the states and the cells, (t, n) each.

    Example:
        >>> w = np.zeros((4, 1, 1))
        >>> open_gates = [[50.0], [50.0], [1.0], [50.0]]
        >>> states, cells = lstm_states([[0.0], [0.0], [0.0]], w, w, open_gates)
        >>> (cells / np.tanh(1.0)).round(12).T
        array([[1., 2., 3.]])
    """
    h = c = np.zeros(np.shape(b)[1])
    states, cells = [], []
    for x_t in np.asarray(x, dtype=np.float64):
        i, f, g, o = (
            np.asarray(w_h[gate]) @ h + np.asarray(w_x[gate]) @ x_t + np.asarray(b[gate])
            for gate in range(4)
        )
        c = _logistic(f) * c + _logistic(i) * np.tanh(g)
        h = _logistic(o) * np.tanh(c)
        states.append(h)
        cells.append(c)
    return np.array(states), np.array(cells)


def _logistic(x: Array) -> Array:
    return (1 + np.tanh(x / 2)) / 2
