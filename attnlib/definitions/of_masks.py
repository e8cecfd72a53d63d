r"""Masks of packed texts, of blocks and of several layers, and softmax under a mask.

Source   this book; the causal mask and its window are in of_attention.py
Chapter  chapters/masking.md
Axes     attnlib/axes.py
"""

import numpy as np
from numpy.typing import ArrayLike

from attnlib.definitions.of_attention import causal_mask, readable_sources, softmax

Array = np.ndarray


def document_mask(document: ArrayLike) -> Array:
    r"""Say which tokens of one row belong to the same document.

    $$M_{ts} = (\mathrm{document}_t = \mathrm{document}_s)$$

    Example:
        >>> document_mask([7, 7, 2]).astype(int)
        array([[1, 1, 0],
               [1, 1, 0],
               [0, 0, 1]])
    """
    mask = np.zeros((len(document), len(document)), dtype=bool)
    for t in range(len(document)):
        for s in range(len(document)):
            mask[t, s] = document[t] == document[s]
    return mask


def block_mask(n_targets: int, n_sources: int, block: int) -> Array:
    r"""Say which sources stand in the block of each target.

    Targets are the last positions of the sources, so target t stands at
    $\bar t = t + n_s - n_t$, and

    $$M_{ts} = \Bigl(\Bigl\lfloor \frac{\bar t}{B} \Bigr\rfloor =
    \Bigl\lfloor \frac{s}{B} \Bigr\rfloor\Bigr).$$

    Example:
        >>> block_mask(2, 3, block=2).astype(int)
        array([[1, 1, 0],
               [0, 0, 1]])
    """
    mask = np.zeros((n_targets, n_sources), dtype=bool)
    for t in range(n_targets):
        position = t + n_sources - n_targets
        for s in range(n_sources):
            mask[t, s] = position // block == s // block
    return mask


def compose_masks(later: ArrayLike, earlier: ArrayLike) -> Array:
    r"""Say which sources each target of the later layer reaches through a position in between.

    $$M_{ts} = \bigvee_r \mathrm{later}_{tr} \wedge \mathrm{earlier}_{rs}$$

    Shapes: later (t, r), earlier (r, s).

    Example:
        >>> compose_masks([[True, False]], [[False, True], [True, True]])
        array([[False,  True]])
    """
    later, earlier = np.asarray(later), np.asarray(earlier)
    mask = np.zeros((later.shape[0], earlier.shape[1]), dtype=bool)
    for t in range(later.shape[0]):
        for s in range(earlier.shape[1]):
            mask[t, s] = any(later[t, r] and earlier[r, s] for r in range(earlier.shape[0]))
    return mask


def reach(n_layers: int, window: int) -> int:
    r"""Count the sources that the last target reaches through layers with a causal window of W.

    One layer reaches fewer than W positions back, so that L·W positions are more than enough. The
    masks of the layers are composed, and what the last row holds is counted.

    Example:
        >>> reach(1, 4), reach(2, 4)
        (4, 7)
    """
    n = n_layers * window + 1
    layer, reached = causal_mask(n, n, window), np.eye(n, dtype=bool)
    for _ in range(n_layers):
        reached = compose_masks(layer, reached)
    return sum(int(may) for may in reached[-1])


def masked_weights(scores: ArrayLike, may_attend: ArrayLike) -> Array:
    r"""Take the softmax of each row over the sources that may be read, and leave zeros elsewhere.

    $$p_{ts} = \frac{e^{x_{ts}}}{\sum_{s' \in S_t} e^{x_{ts'}}} \ (s \in S_t), \qquad
    p_{ts} = 0 \ (s \notin S_t)$$

    $S_t$ are the sources with `may_attend` True, and a row where there are none is all zeros.

    Example:
        >>> masked_weights([[0.0, 0.0, 9.0], [1.0, 2.0, 3.0]], [[True, True, False], [False] * 3])
        array([[0.5, 0.5, 0. ],
               [0. , 0. , 0. ]])
    """
    scores = np.asarray(scores, dtype=np.float64)
    weights = np.zeros(scores.shape)
    for t in range(len(scores)):
        readable = readable_sources(t, len(scores[t]), may_attend, None)
        for s, weight in zip(readable, softmax(scores[t][readable]), strict=True):
            weights[t, s] = weight
    return weights
