r"""Looking up rows, counting company, surprise, and neighbours, as they are read aloud.

Source   Levy and Goldberg 2014, NeurIPS (positive mutual information of words); each formula is
         in the chapter
Chapter  chapters/embeddings.md
Axes     attnlib/axes.py
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray


def embed(table: ArrayLike, ids: ArrayLike) -> Array:
    r"""Multiply the embedding, transposed, with the one-hot vector of each token.

    $$x_t = E^{\mathsf T} e_{w_t}, \qquad (e_w)_i = \delta_{iw}$$

    Example:
        >>> embed([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [2, 0, 2])
        array([[5., 6.],
               [1., 2.],
               [5., 6.]])
    """
    table = np.asarray(table, dtype=np.float64)
    v = len(table)
    one_hot = [np.array([float(i == w) for i in range(v)]) for w in np.asarray(ids)]
    return np.array([table.T @ e for e in one_hot])


def embedding_gradient(ids: ArrayLike, gradients: ArrayLike, v: int) -> Array:
    r"""Send the gradient of each looked-up row back to the row that it came from.

    $$\frac{\partial L}{\partial E_{i}} = \sum_{t\,:\,w_t = i} \frac{\partial L}{\partial x_t}$$

    A token that does not occur gets zeros; one that occurs twice gets the sum.

    Example:
        >>> embedding_gradient([2, 0, 2], [[1.0], [10.0], [100.0]], 4)
        array([[ 10.],
               [  0.],
               [101.],
               [  0.]])
    """
    gradients = np.asarray(gradients, dtype=np.float64)
    of_table = np.zeros((v, gradients.shape[1]))
    for w, gradient in zip(np.asarray(ids), gradients, strict=True):
        of_table[w] += gradient
    return of_table


def cooccurrence(words: Sequence, vocabulary: Sequence, window: int) -> Array:
    r"""Count how often two words of the vocabulary stand near each other.

    $$C_{ij} = \#\{(a, b) : 1 \le |a - b| \le W,\ w_a = i,\ w_b = j\}$$

    Example:
        >>> cooccurrence("to be or not to be".split(), ["to", "be"], 1)
        array([[0., 2.],
               [2., 0.]])
    """
    counts = np.zeros((len(vocabulary), len(vocabulary)))
    for a, word in enumerate(words):
        for b, other in enumerate(words):
            near = 1 <= abs(a - b) <= window
            if near and word in vocabulary and other in vocabulary:
                counts[vocabulary.index(word), vocabulary.index(other)] += 1
    return counts


def positive_pmi(counts: ArrayLike) -> Array:
    r"""Compare each count with chance, on a logarithmic scale, and keep what is above it.

    $$P_{ij} = \max\Bigl(0,\ \log \frac{C_{ij}\, C}{C_{i\cdot}\, C_{\cdot j}}\Bigr), \qquad
    P_{ij} = 0 \text{ where } C_{ij} = 0$$

    Example:
        >>> positive_pmi([[0.0, 3.0], [1.0, 0.0]]).round(3)
        array([[0.   , 0.288],
               [1.386, 0.   ]])
    """
    counts = np.asarray(counts, dtype=np.float64)
    total, surprise = np.sum(counts), np.zeros(counts.shape)
    for i, row in enumerate(counts):
        for j, column in enumerate(counts.T):
            if counts[i, j] > 0:
                ratio = counts[i, j] * total / (np.sum(row) * np.sum(column))
                surprise[i, j] = max(0.0, np.log(ratio))
    return surprise


def cosine(x: ArrayLike, y: ArrayLike) -> float:
    r"""Measure how far two vectors point the same way; 0 if one of them is zero.

    $$\cos(x, y) = \frac{\langle x, y\rangle}{\lVert x\rVert\,\lVert y\rVert}$$

    Example:
        >>> cosine([3.0, 0.0], [-2.0, 0.0])
        -1.0
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    lengths = np.sqrt(np.sum(x * x)) * np.sqrt(np.sum(y * y))
    return float(np.sum(x * y) / lengths) if lengths > 0 else 0.0


def nearest(vectors: ArrayLike, index: int, n: int) -> tuple[Array, Array]:
    """List the n vectors of largest cosine with one of them, itself left out.

    Of equal cosines the lower row comes first.

    Example:
        >>> nearest([[1.0, 0.0], [9.0, 9.0], [0.0, 1.0], [3.0, 0.0]], 0, 1)
        (array([3]), array([1.]))
    """
    similar = [cosine(vectors[index], vector) for vector in vectors]
    others = [j for j in range(len(similar)) if j != index]
    closest = sorted(others, key=lambda j: (-similar[j], j))[:n]
    return np.array(closest, dtype=int), np.array([similar[j] for j in closest])


def mean_cosine(vectors: ArrayLike) -> float:
    r"""Average the cosine over all pairs of different vectors.

    $$\frac{1}{v(v-1)} \sum_{i \ne j} \cos(x_i, x_j)$$

    Example:
        >>> mean_cosine([[1.0, 0.0], [0.0, 2.0]])
        0.0
    """
    v = len(vectors)
    pairs = [(i, j) for i in range(v) for j in range(v) if i != j]
    return sum(cosine(vectors[i], vectors[j]) for i, j in pairs) / len(pairs)
