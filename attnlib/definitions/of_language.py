r"""The probability of a text, its units, how a token is drawn, and what training costs.

Source   Shannon 1948 (entropy of a text); Fan et al. 2018, arXiv:1805.04833 (top-k); Holtzman et
         al. 2019, arXiv:1904.09751 (top-p); Nguyen et al. 2024, arXiv:2407.01082 (min-p); Kaplan
         et al. 2020, arXiv:2001.08361, section 2.1 (6ND); Vaswani et al. 2017, arXiv:1706.03762,
         equation 3 (learning rate)
Chapter  chapters/language-models.md
Axes     attnlib/axes.py
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from attnlib.definitions.of_attention import softmax

Array = np.ndarray


# --- probability ------------------------------------------------------------------------------


def shifted(tokens: Sequence) -> tuple[list, list]:
    r"""Give what a model reads, and what it shall answer: at each token the next one.

    $$\text{input}_t = x_t, \qquad \text{target}_t = x_{t+1}$$

    Example:
        >>> shifted([7, 3, 9, 4])
        ([7, 3, 9], [3, 9, 4])
    """
    inputs = [tokens[t] for t in range(len(tokens) - 1)]
    targets = [tokens[t + 1] for t in range(len(tokens) - 1)]
    return inputs, targets


def sequence_log_probability(
    probabilities_of_next: Callable[[Sequence[int]], ArrayLike], tokens: Sequence[int]
) -> float:
    r"""Add up the log-probabilities, in nats, of each token after those before it.

    $$\log p(x) = \sum_t \log p(x_t \mid x_1, \dots, x_{t-1})$$

    The function that is given maps the tokens so far, at first none, to the probability of each
    next token.

    Example:
        >>> round(sequence_log_probability(lambda before: [0.5, 0.25, 0.25], [0, 2, 1]) / np.log(2))
        -5
    """
    total = 0.0
    for t, token in enumerate(tokens):
        p = probabilities_of_next(tokens[:t])
        total += math.log(p[token]) if p[token] > 0 else -math.inf
    return total


def cross_entropy(
    logits: ArrayLike, targets: ArrayLike, is_target: ArrayLike | None = None
) -> float:
    r"""Average, over the targets that count, the surprise in nats at the right token.

    $$-\frac{1}{\lvert T\rvert} \sum_{t \in T} \log \operatorname{softmax}(z_t)_{y_t}$$

    At least one target must count. Shapes: logits (t, v), targets and is_target (t).

    Example:
        >>> round(cross_entropy([[0.0, 0.0], [9.0, 1.0]], [1, 0], [True, False]), 4)
        0.6931
    """
    counts = [True] * len(targets) if is_target is None else is_target
    surprises = []
    for row, target, counted in zip(
        np.asarray(logits, dtype=np.float64), targets, counts, strict=True
    ):
        if counted:
            largest = np.max(row)
            surprises.append(largest + np.log(np.sum(np.exp(row - largest))) - row[target])
    return float(sum(surprises) / len(surprises))


def perplexity(log_probabilities: ArrayLike) -> float:
    r"""Give the number of equally likely tokens that would surprise as much.

    $$\exp\Bigl(-\frac1n \sum_t \log p(x_t \mid x_{<t})\Bigr)$$

    The log-probabilities are in nats, one for each token.

    Example:
        >>> round(perplexity(np.log([0.5, 0.125])), 12)
        4.0
    """
    log_probabilities = np.asarray(log_probabilities, dtype=np.float64)
    return math.exp(-sum(log_probabilities) / len(log_probabilities))


def bits_per_byte(log_probabilities: ArrayLike, n_bytes: int) -> float:
    r"""Give the bits that a text needs under a model, for each of its bytes.

    $$-\frac{1}{n_\text{bytes} \log 2} \sum_t \log p(x_t \mid x_{<t})$$

    The log-probabilities are in nats, one for each token. Unlike perplexity it may be compared
    between models of different tokens.

    Example:
        >>> round(bits_per_byte(np.log([0.5, 0.125]), 8), 12)
        0.5
    """
    nats = -sum(np.asarray(log_probabilities, dtype=np.float64))
    return float(nats / (n_bytes * math.log(2)))


# --- sampling ---------------------------------------------------------------------------------


def temper(logits: ArrayLike, temperature: float) -> Array:
    r"""Give the probabilities of logits that are divided by a temperature.

    $$p_i = \frac{e^{z_i / \theta}}{\sum_j e^{z_j / \theta}}$$

    Logits may be log-probabilities: then $p_i$ is proportional to its $1/\theta$-th power.

    Example:
        >>> temper(np.log([0.8, 0.2]), 0.5).round(4)
        array([0.9412, 0.0588])
    """
    return softmax([z / temperature for z in logits])


def top_k(p: ArrayLike, k: int) -> Array:
    r"""Keep the k likeliest tokens, and let them share what the others had.

    Of equal probabilities the lower token comes first. If k is at least v, all are kept.

    Example:
        >>> top_k([0.25, 0.5, 0.25], 2).round(4)
        array([0.3333, 0.6667, 0.    ])
    """
    return _only(p, _likeliest_first(p)[:k])


def top_p(p: ArrayLike, mass: float) -> Array:
    r"""Keep the fewest likeliest tokens whose probabilities add up to the mass at least.

    $$\min \Bigl\{ n : \sum_{j \le n} p_{(j)} \ge \text{mass} \Bigr\}, \qquad
    p_{(1)} \ge p_{(2)} \ge \dots$$

    The token that crosses the mass is kept. Of equal probabilities the lower token comes first. A
    mass of 1 keeps all.

    Example:
        >>> top_p([0.25, 0.5, 0.125, 0.125], 0.625).round(4)
        array([0.3333, 0.6667, 0.    , 0.    ])
    """
    kept, so_far = [], 0.0
    for i in _likeliest_first(p):
        if so_far >= mass and mass < 1:
            break
        kept.append(i)
        so_far += p[i]
    return _only(p, kept)


def min_p(p: ArrayLike, share: float) -> Array:
    r"""Keep the tokens that have at least a share of what the likeliest one has.

    $$\{\, i : p_i \ge \text{share} \cdot \max_j p_j \,\}$$

    Example:
        >>> min_p([0.25, 0.5, 0.125, 0.125], 0.5).round(4)
        array([0.3333, 0.6667, 0.    , 0.    ])
    """
    largest = max(p)
    return _only(p, [i for i in range(len(p)) if p[i] >= share * largest])


def _likeliest_first(p: ArrayLike) -> list[int]:
    return sorted(range(len(p)), key=lambda i: (-p[i], i))


def _only(p: ArrayLike, kept: Sequence[int]) -> Array:
    """What is kept is divided by its sum; the rest is zero."""
    total = sum(p[i] for i in kept)
    return np.array([p[i] / total if i in kept else 0.0 for i in range(len(p))])


# --- training ---------------------------------------------------------------------------------


def vaswani_rate(step: int, width: int, n_warm_up: int) -> float:
    r"""Give the learning rate of 2017: it rises linearly, then falls with the root of the step.

    $$m^{-1/2} \min\bigl(\text{step}^{-1/2},\ \text{step} \cdot n_\text{warm-up}^{-3/2}\bigr)$$

    Steps count from 1. The peak is at step = n_warm_up.

    Example:
        >>> [round(vaswani_rate(step, 512, 4000), 6) for step in (1, 2000, 4000, 16000)]
        [0.0, 0.000349, 0.000699, 0.000349]
    """
    return width**-0.5 * min(step**-0.5, step * n_warm_up**-1.5)


def training_memory_bytes(
    n_parameters: int,
    n_activations: int,
    *,
    bytes_per_weight: int = 4,
    bytes_per_gradient: int = 4,
    bytes_per_moment: int = 4,
    bytes_per_activation: int = 4,
    bytes_per_master_weight: int = 0,
) -> int:
    r"""Add up what training keeps: weights, gradients, two moments of Adam, activations.

    $$N\,(b_w + b_g + 2\, b_\text{moment} + b_\text{master}) + A\, b_a$$

    A master weight is the copy in float32 that training in half precision keeps; the defaults are
    float32 throughout, without one. Activations are the numbers kept for the backward pass.

    Example:
        >>> training_memory_bytes(1000, 50)
        16200
    """
    n_bytes = 0
    n_bytes += n_parameters * bytes_per_weight
    n_bytes += n_parameters * bytes_per_gradient
    n_bytes += n_parameters * 2 * bytes_per_moment
    n_bytes += n_parameters * bytes_per_master_weight
    n_bytes += n_activations * bytes_per_activation
    return n_bytes


def n_training_flops(n_parameters: int, n_tokens: int) -> int:
    r"""Estimate the operations of training: two forwards and four backwards, a parameter a token.

    $$6 N D$$

    A multiplication and an addition are two operations. The products of queries with keys and of
    weights with values are left out; N counts the parameters that multiply.

    Example:
        >>> n_training_flops(124_000_000, 300_000_000_000)
        223200000000000000000
    """
    forward, backward = 2, 4
    return (forward + backward) * n_parameters * n_tokens
