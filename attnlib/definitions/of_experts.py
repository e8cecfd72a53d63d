r"""A mixture of experts: which networks a token uses, what they give, and how even the load is.

Source   Dai et al. 2024, arXiv:2401.06066, section 3; DeepSeek-AI 2024, arXiv:2405.04434, section
         2.2
Chapter  chapters/models-compared.md
Axes     attnlib/axes.py
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from attnlib.definitions.of_attention import softmax

Array = np.ndarray
Network = Callable[[Array], Array]


def choose_experts(
    scores: ArrayLike, n_chosen: int, *, n_devices: int = 1, n_devices_at_most: int | None = None
) -> list[int]:
    """Give the numbers of the experts with the largest scores of one token, the largest first.

    The experts stand on devices, equally many on each, one device after another. First the devices
    are chosen, by the largest score on each; then, among their experts, the experts. Of equal
    scores the one with the lower number is taken first.

    Example:
        >>> choose_experts([5.0, 1.0, 4.0, 3.0], 2)
        [0, 2]
        >>> choose_experts([5.0, 1.0, 4.0, 3.0], 2, n_devices=2, n_devices_at_most=1)
        [0, 1]
    """
    scores = np.asarray(scores, dtype=np.float64)
    devices = [list(numbers) for numbers in np.split(np.arange(len(scores)), n_devices)]
    devices = sorted(devices, key=lambda numbers: -max(scores[i] for i in numbers))
    may_be_chosen = sorted(i for numbers in devices[:n_devices_at_most] for i in numbers)
    return [int(i) for i in sorted(may_be_chosen, key=lambda i: -scores[i])[:n_chosen]]


def mixture_of_experts(
    x: ArrayLike,
    router: ArrayLike,
    routed: Sequence[Network],
    shared: Sequence[Network] = (),
    *,
    n_chosen: int,
    n_devices: int = 1,
    n_devices_at_most: int | None = None,
    gate_factor: float = 1.0,
) -> Array:
    r"""Send each row through the experts that its scores choose, and through all shared ones.

    $$y_t = \sum_j S_j(x_t) + \lambda \sum_{i \in C_t} p_{t,i}\, E_i(x_t), \qquad
    p_t = \operatorname{softmax}(R\, x_t)$$

    The gates $p_{t,i}$ of the chosen experts $C_t$ do not sum to one, since those of the others are
    left out and nothing takes their place. Shapes: x (t, m), router R with a row of width m for
    each routed expert. An expert takes rows (t, m) and gives rows (t, m).

    Example:
        >>> twice, tenfold = lambda x: 2 * x, lambda x: 10 * x
        >>> router = [[0.0], [np.log(3.0)]]
        >>> mixture_of_experts([[1.0], [-1.0]], router, [twice, tenfold], n_chosen=1)
        array([[ 7.5],
               [-1.5]])
    """
    y = []
    for row in np.asarray(x, dtype=np.float64):
        scores = softmax([row @ np.asarray(r) for r in router])
        chosen = choose_experts(
            scores, n_chosen, n_devices=n_devices, n_devices_at_most=n_devices_at_most
        )
        total = np.zeros_like(row)
        for network in shared:
            total += network(row[None])[0]
        for i in chosen:
            total += gate_factor * scores[i] * routed[i](row[None])[0]
        y.append(total)
    return np.array(y)


def balance_loss(scores: ArrayLike, chosen: Sequence[Sequence[int]]) -> float:
    r"""Sum, over the experts, the load of each times its mean score.

    $$\sum_i f_i P_i, \qquad f_i = \frac{x}{x_c\, n} \sum_t [i \in C_t], \qquad
    P_i = \frac1n \sum_t p_{t,i}$$

    for n tokens with $x_c$ chosen experts each, out of x. A load of 1 is an even share. Shapes:
    scores (t, x), chosen (t, x_c).

    Example:
        >>> balance_loss([[0.75, 0.25], [0.75, 0.25]], [[0], [0]])
        1.5
        >>> balance_loss([[0.75, 0.25], [0.25, 0.75]], [[0], [1]])
        1.0
    """
    scores = np.asarray(scores, dtype=np.float64)
    n_tokens, n_routed = scores.shape
    total = 0.0
    for i in range(n_routed):
        count = sum(i in numbers for numbers in chosen)
        load = n_routed * count / (len(chosen[0]) * n_tokens)
        total += load * sum(scores[t, i] for t in range(n_tokens)) / n_tokens
    return float(total)
