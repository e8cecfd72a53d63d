r"""Word vectors by linear algebra, and the geometry of vectors that were learned.

Source   Church and Hanks 1990, Computational Linguistics 16(1) (mutual information of words); Levy
         and Goldberg 2014, NeurIPS, and Levy, Goldberg and Dagan 2015, TACL 3 (positive mutual
         information and its SVD); Mu and Viswanath 2018, arXiv:1702.01417 (leading directions taken
         off)
Chapter  chapters/embeddings.md
Axes     attnlib/axes.py

Counts, then surprise against chance, then the leading singular vectors: three functions, and words
that occur in the same company have vectors that point the same way.

    >>> words = "the sea roars the wind roars the sea and the wind".split()
    >>> vocabulary = ["the", "sea", "wind", "roars", "and"]
    >>> surprise = positive_pmi(cooccurrence(words, vocabulary, window=1))
    >>> vectors, _ = svd_vectors(surprise, 2)
    >>> vocabulary[nearest(vectors, vocabulary.index("sea"), 1)[0][0]]
    'wind'
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int, Num
from numpy import ndarray

from attnlib import require


def cooccurrence(
    words: Sequence[str], vocabulary: Sequence[str], *, window: int
) -> Float[ndarray, "v v"]:
    r"""Count how often two words of the vocabulary stand near each other.

    $$C_{ij} = \#\{(a, b) : 1 \le |a - b| \le W,\ w_a = i,\ w_b = j\}$$

    The counts are symmetric: two places that are near each other count once in either order.

    Args:
        words: The text, word by word. A word outside the vocabulary is not counted, but it keeps
            its place in the line.
        vocabulary: The words that have a row, each once.
        window: W, the largest distance that is near; at least 1.

    Returns:
        Whole numbers, as float64.

    Raises:
        TypeError: If the words or the vocabulary are no sequence of texts, or the window is no
            whole number.
        ValueError: If the window is below 1 or the vocabulary holds a word twice.

    Example:
        >>> cooccurrence("to be or not to be".split(), ["to", "be"], window=1)
        array([[0., 2.],
               [2., 0.]])
    """
    _require_words("words", words)
    _require_words("vocabulary", vocabulary)
    window = require.at_least("window", window, 1)
    row = {word: i for i, word in enumerate(vocabulary)}
    if len(row) != len(vocabulary):
        twice = next(word for i, word in enumerate(vocabulary) if row[word] != i)
        raise ValueError(f"the vocabulary must hold each word once, got {twice!r} twice")

    v = len(vocabulary)
    ids = np.array([row.get(word, -1) for word in words], dtype=np.int64)
    counts = np.zeros((v, v))
    for distance in range(1, min(window, len(ids) - 1) + 1):
        left, right = ids[:-distance], ids[distance:]
        both = (left >= 0) & (right >= 0)
        np.add.at(counts, (left[both], right[both]), 1.0)
    return counts + counts.T


def positive_pmi(counts: Num[ndarray, "v s"]) -> Float[ndarray, "v s"]:
    r"""Turn counts into surprise: how much more often two words meet than by chance, in nats.

    $$P_{ij} = \max\Bigl(0,\ \log \frac{C_{ij}\, C}{C_{i\cdot}\, C_{\cdot j}}\Bigr)$$

    with the sums $C_{i\cdot}$ of rows, $C_{\cdot j}$ of columns and $C$ of everything. A pair that
    never meets has 0, and so has one that meets as often as chance has it, or less: pointwise
    mutual information, its negative part cut off.

    Args:
        counts: Of words (rows) near words (columns), not negative; they need not be whole.

    Returns:
        Not negative, zero wherever the counts are, symmetric if they are.

    Raises:
        TypeError: If the counts are no array of real numbers.
        ValueError: If they have not two axes, or one is negative or not finite.

    Example:
        >>> positive_pmi(np.array([[0.0, 3.0], [3.0, 0.0]])).round(4)
        array([[0.    , 0.6931],
               [0.6931, 0.    ]])
    """
    counts = _real_matrix("counts", counts)
    if (counts < 0).any():
        raise ValueError(f"counts must not be negative, got {counts.min()}")
    # by a power of two, which is exact: the ratio does not change, and no product overflows
    counts = np.ldexp(counts, -np.frexp(counts.max(initial=0.0))[1])
    # both sums run along memory, so that equal rows and columns have equal ones to the last digit
    chance = np.outer(*(np.ascontiguousarray(x).sum(1) for x in (counts, counts.T)))
    # both sides are whole numbers for whole counts: what meets as often as by chance has exactly 1
    ratio = np.divide(counts * counts.sum(), chance, out=np.ones_like(counts), where=counts > 0)
    return np.log(np.maximum(ratio, 1.0))


def svd_vectors(
    matrix: Num[ndarray, "v s"], width: int, *, exponent: float = 0.5
) -> tuple[Float[ndarray, "v m"], Float[ndarray, "*singular"]]:
    r"""Give every row of a matrix a short vector, from its leading singular directions.

    $$M = U \Sigma V^{\mathsf T}, \qquad X = U_m \Sigma_m^{\alpha}$$

    with the m largest singular values. With exponent 1 the inner products of the rows of X are
    those of the best approximation of M of rank m, and with ½ a symmetric M with no negative
    eigenvalue is approximated by $XX^{\mathsf T}$ itself. Singular vectors have no sign of their
    own: here the entry of largest absolute value is positive.

    Args:
        matrix: A row for every word; square and symmetric if it comes from `positive_pmi`.
        width: m, from 1 to the number of singular values.
        exponent: α, at least 0.

    Returns:
        The vectors, columns by falling singular value, and all singular values, not only m of them.

    Raises:
        TypeError: If the matrix is no array of real numbers, the width no whole number, or the
            exponent no number.
        ValueError: If width or exponent are outside their ranges, or the matrix is not finite.

    Example:
        >>> vectors, singular_values = svd_vectors(np.array([[0.0, 3.0], [4.0, 0.0]]), 1)
        >>> vectors.tolist(), singular_values.tolist()
        ([[0.0], [2.0]], [4.0, 3.0])
    """
    matrix = _real_matrix("matrix", matrix)
    width = require.between("width", width, 1, min(matrix.shape))
    exponent = require.number("exponent", exponent)
    if exponent < 0:
        raise ValueError(f"exponent must be at least 0, got {exponent}")
    left, singular_values = _left_singular_vectors(matrix)
    left = left[:, :width]
    # adding 0 turns −0 into 0
    return left * _signs(left) * singular_values[:width] ** exponent + 0.0, singular_values


def cosines(vectors: Num[ndarray, "v m"]) -> Float[ndarray, "v v"]:
    r"""Give the cosine of the angle between any two vectors.

    $$\cos(x, y) = \frac{\langle x, y\rangle}{\lVert x\rVert\, \lVert y\rVert}$$

    A vector of zeros has no direction: its cosine is 0 with every other, and with itself.

    Raises:
        TypeError: If the vectors are no array of real numbers.
        ValueError: If they are not two-dimensional or not finite.

    Example:
        >>> cosines(np.array([[1.0, 0.0], [0.0, 5.0], [-2.0, 0.0]]))
        array([[ 1.,  0., -1.],
               [ 0.,  1.,  0.],
               [-1.,  0.,  1.]])
    """
    units = _units(_real_matrix("vectors", vectors))
    return np.clip(units @ units.T, -1.0, 1.0) + 0.0


def nearest(
    vectors: Num[ndarray, "v m"], index: int, n: int
) -> tuple[Int[ndarray, "n"], Float[ndarray, "n"]]:
    """Find the n vectors whose direction is closest to that of one of them, itself left out.

    Args:
        vectors: A row for every word.
        index: Whose neighbours; from 0 to v − 1.
        n: How many; from 0 to v − 1.

    Returns:
        Their rows by falling cosine (of equal ones the lower row first), and the cosines. Equal
        rows have equal cosines; rows of one direction and different lengths, up to rounding.

    Raises:
        TypeError: If index or n are no whole numbers, or the vectors no array of real numbers.
        ValueError: If index or n are outside their ranges, or the vectors not finite.

    Example:
        >>> indices, _ = nearest(np.array([[1.0, 0.0], [9.0, 9.0], [0.0, 1.0], [3.0, 0.1]]), 0, 2)
        >>> indices.tolist()
        [3, 1]
    """
    vectors = _real_matrix("vectors", vectors)
    v = len(vectors)
    if v == 0:
        raise ValueError("neighbours need at least 1 vector, got v=0")
    index = require.between("index", index, 0, v - 1)
    n = require.between("n", n, 0, v - 1)
    units = _units(vectors)
    # a sum along each row by itself: a matrix product may round equal rows differently
    to_all = np.clip((units * units[index]).sum(1), -1.0, 1.0) + 0.0
    others = np.delete(np.arange(v), index)
    closest = others[np.argsort(-to_all[others], kind="stable")[:n]]
    return closest, to_all[closest]


def mean_cosine(vectors: Num[ndarray, "v m"]) -> float:
    r"""Average the cosine over all pairs of different vectors: 0 if no direction is preferred.

    With unit vectors $u_i$ nobody has to look at v² pairs:

    $$\frac{1}{v(v-1)} \sum_{i \ne j} \langle u_i, u_j\rangle
    = \frac{\bigl\lVert \sum_i u_i \bigr\rVert^2 - v}{v(v-1)}$$

    A vector of zeros counts as one at right angles to all others.

    Raises:
        TypeError: If the vectors are no array of real numbers.
        ValueError: If there are fewer than two, or they are not finite.

    Example:
        >>> mean_cosine(np.array([[2.0, 0.0], [0.0, 3.0], [7.0, 0.0]])).__round__(12)
        0.333333333333
    """
    vectors = _real_matrix("vectors", vectors)
    v = len(vectors)
    if v < 2:
        raise ValueError(f"a mean over pairs needs at least 2 vectors, got v={v}")
    units = _units(vectors)
    total = units.sum(0)
    return float((total @ total - (units * units).sum()) / (v * (v - 1)))


def effective_rank(singular_values: Num[ndarray, "s"]) -> float:
    r"""Count the directions that matter, with the energy in each as its weight.

    $$\exp\Bigl(-\sum_i p_i \log p_i\Bigr), \qquad p_i = \frac{\sigma_i^2}{\sum_j \sigma_j^2}$$

    It is r where r singular values are equal and the others zero, and 1 where one direction holds
    everything. (Roy and Vetterli 2007, who gave it its name, take the σ themselves, not their
    squares, as weights.)

    Raises:
        TypeError: If the singular values are no array of real numbers.
        ValueError: If they are not one-dimensional, one is negative or not finite, or all are zero.

    Example:
        >>> effective_rank(np.array([5.0, 5.0, 5.0, 0.0])).__round__(12)
        3.0
    """
    sigma = _real("singular_values", singular_values)
    if sigma.ndim != 1 or not sigma.any() or (sigma < 0).any():
        raise ValueError(
            "singular_values must be one row of numbers that are not negative and not all zero, "
            f"got shape {sigma.shape}" + (f" from {sigma.min()} on" if sigma.size else "")
        )
    p = (sigma / sigma.max()) ** 2
    p = p[p > 0] / p.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def remove_top_directions(vectors: Num[ndarray, "v m"], n: int) -> Float[ndarray, "v m"]:
    r"""Take off what all vectors have in common: their mean, then the n leading directions.

    $$X' = (X - \mathbf 1 \bar x^{\mathsf T})\,(I - V_n V_n^{\mathsf T})$$

    with the leading right singular vectors $V_n$ of the centred matrix. Nothing else changes: what
    is left is at right angles to what was taken.

    Args:
        vectors: A row for every word.
        n: How many directions; from 0 (only the mean) to m.

    Raises:
        TypeError: If n is no whole number, or the vectors no array of real numbers.
        ValueError: If n is outside its range, or there are no vectors, or they are not finite.

    Example:
        >>> remove_top_directions(np.array([[9.0, 1.0], [9.0, -1.0], [3.0, 1.0], [3.0, -1.0]]), 1)
        array([[ 0.,  1.],
               [ 0., -1.],
               [ 0.,  1.],
               [ 0., -1.]])
    """
    vectors = _real_matrix("vectors", vectors)
    n = require.between("n", n, 0, vectors.shape[1])
    if not len(vectors):
        raise ValueError("a mean needs at least 1 vector, got v=0")
    centred = vectors - vectors.mean(0)
    scaled = centred / (np.abs(centred).max(initial=0.0) or 1.0)  # no square over- or underflows
    _, directions = np.linalg.eigh(scaled.T @ scaled)
    top = directions[:, ::-1][:, :n]
    return centred - (centred @ top) @ top.T


def _left_singular_vectors(matrix: ndarray) -> tuple[ndarray, ndarray]:
    """U and the singular values; the eigenvectors do for a symmetric matrix, several times faster.

    There M = QΛQᵀ = Q|Λ|(sign(Λ)Qᵀ), so the singular values are the absolute eigenvalues.
    """
    if matrix.shape[0] != matrix.shape[1] or not np.array_equal(matrix, matrix.T):
        left, singular_values, _ = np.linalg.svd(matrix, full_matrices=False)
        return left, singular_values
    eigenvalues, eigenvectors = np.linalg.eigh(matrix)
    order = np.argsort(-np.abs(eigenvalues), kind="stable")
    return eigenvectors[:, order], np.abs(eigenvalues[order])


def _signs(columns: ndarray) -> ndarray:
    """The sign of each column's largest entry; of several as large, up to rounding, the first."""
    size = np.abs(columns)
    first = np.argmax(size >= (1 - 1e-6) * size.max(0), axis=0)
    return np.where(columns[first, np.arange(columns.shape[1])] < 0, -1.0, 1.0)


def _units(vectors: ndarray) -> ndarray:
    """Every row divided by its length; zeros stay zeros, and no square over- or underflows."""
    largest = np.abs(vectors).max(1, keepdims=True, initial=0.0)
    vectors = vectors / np.where(largest == 0, 1.0, largest)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths == 0, 1.0, lengths)


def _real(name: str, x: ndarray) -> ndarray:
    wanted = f"{name} must be an array of real numbers, got"
    try:
        array = np.asarray(x)
    except (TypeError, ValueError, RuntimeError):  # rows of different lengths, some tensors
        raise TypeError(f"{wanted} {type(x).__name__}") from None
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{wanted} {array.dtype}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array


def _real_matrix(name: str, x: ndarray) -> ndarray:
    array = _real(name, x)
    if array.ndim != 2:
        raise ValueError(f"{name} must have two axes, got shape {array.shape}")
    return array


def _require_words(name: str, words: Sequence[str]) -> None:
    if isinstance(words, str):
        raise TypeError(f"{name} must be a sequence of words, got one text: split it first")
    if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
        raise TypeError(f"{name} must be a sequence of texts, got {type(words).__name__}")
