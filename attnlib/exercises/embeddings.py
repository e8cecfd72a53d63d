"""The exercises of the chapter on embeddings: definitions, cases and known mistakes.

Source   attnlib/definitions/of_embeddings.py; the mistakes are those that readers make
Chapter  chapters/embeddings.md
Axes     attnlib/axes.py
"""

from collections.abc import Callable

import numpy as np

from attnlib import definitions
from attnlib.exercises.judge import Case, Exercise

_RNG = np.random.default_rng(1402_3722)


def _normal(*shape: int) -> np.ndarray:
    return _RNG.normal(size=shape)


def _assigned(ids: np.ndarray, gradients: np.ndarray, v: int) -> np.ndarray:
    """Each row set to the gradient of the last token that was looked up there."""
    of_table = np.zeros((v, gradients.shape[1]))
    for w, gradient in zip(ids, gradients, strict=True):
        of_table[w] = gradient
    return of_table


def _averaged(ids: np.ndarray, gradients: np.ndarray, v: int) -> np.ndarray:
    times = np.bincount(ids, minlength=v)
    return definitions.embedding_gradient(ids, gradients, v) / np.maximum(times, 1)[:, None]


def _gradient_case(about: str, ids: list[int], m: int, v: int) -> Case:
    arguments = {"ids": np.array(ids), "gradients": _normal(len(ids), m), "v": v}
    return Case(about=about, arguments=arguments)


_EMBEDDING_GRADIENT = Exercise(
    name="embedding-gradient",
    asks=(
        "embedding_gradient(ids, gradients, v) → ∂L/∂E (v, m), for the tokens ids (t,) that were "
        "looked up and the gradients ∂L/∂x (t, m) of their rows"
    ),
    definition=definitions.embedding_gradient,
    cases=(
        _gradient_case("three tokens, all different", [4, 0, 2], 2, 5),
        _gradient_case("a token that occurs three times", [3, 1, 3, 0, 3], 2, 6),
        _gradient_case("one token again and again", [1, 1, 1, 1], 3, 2),
    ),
    mistakes={
        "right while all tokens differ, but where one occurs again its gradients must be added up: "
        "an assignment keeps the last, and so does +=, which reads before it writes. Use np.add.at "
        "or index_add.": _assigned,
        "where a token occurs again its gradients are added up, not averaged.": _averaged,
        "the table has a row for every token of the vocabulary, zeros where one does not occur.": (
            lambda ids, gradients, v: gradients
        ),
        "the rows of the gradient belong to the tokens of the vocabulary, not to the places of the "
        "text.": lambda ids, gradients, v: np.pad(gradients, ((0, max(0, v - len(ids))), (0, 0))),
        "the sign is turned round: that is the direction of descent.": (
            lambda ids, gradients, v: -definitions.embedding_gradient(ids, gradients, v)
        ),
        "every row gets the sum over the whole text: a gradient goes to the row it came from.": (
            lambda ids, gradients, v: np.tile(gradients.sum(0), (v, 1))
        ),
        "that counts how often a token occurs: add up its gradients.": (
            lambda ids, gradients, v: definitions.embedding_gradient(
                ids, np.ones_like(gradients), v
            )
        ),
    },
)


def _of_ids(ids: np.ndarray, v: int, window: int) -> np.ndarray:
    return definitions.cooccurrence(ids.tolist(), range(v), window)


def _counted(
    ids: np.ndarray,
    v: int,
    distances: range,
    *,
    add: Callable = np.add.at,
    symmetric: bool = True,
    outside: bool = False,
) -> np.ndarray:
    """Counts of pairs at the given distances, in one way or another."""
    counts = np.zeros((v, v))
    for distance in distances:
        left, right = ids[: len(ids) - distance], ids[distance:]
        both = (left >= 0) & (right >= 0) | outside
        add(counts, (left[both], right[both]), 1)
    return counts + counts.T if symmetric else counts


def _add_without_repeats(counts: np.ndarray, places: tuple, one: int) -> None:
    counts[places] += one


def _count_case(about: str, ids: list[int], v: int, window: int) -> Case:
    return Case(about=about, arguments={"ids": np.array(ids), "v": v, "window": window})


_COOCCURRENCE = Exercise(
    name="cooccurrence",
    asks=(
        "cooccurrence(ids, v, window) → the counts (v, v) of pairs of words at distance 1 to "
        "window, for a text ids (t,) of words 0 to v − 1, with −1 for a word outside the vocabulary"
    ),
    definition=_of_ids,
    cases=(
        _count_case("neighbours only", [0, 1, 2, 0, 1, 3], 4, 1),
        _count_case("a word beside itself", [2, 2, 0, 1, 0], 3, 2),
        _count_case("words outside the vocabulary", [0, -1, 1, 2, -1, -1, 0], 3, 2),
        _count_case("a window larger than the text", [1, 0, 2], 3, 7),
    ),
    mistakes={
        "each pair must count in both orders: the counts are symmetric.": (
            lambda ids, v, window: _counted(
                ids, v, range(1, min(window, len(ids)) + 1), symmetric=False
            )
        ),
        "the window is included: distance 1 to window, not to window − 1.": (
            lambda ids, v, window: _counted(ids, v, range(1, min(window, len(ids) + 1)))
        ),
        "the largest distance is the window, not window + 1.": (
            lambda ids, v, window: _counted(ids, v, range(1, min(window + 1, len(ids)) + 1))
        ),
        "a word does not stand near itself: distance 0 does not count.": (
            lambda ids, v, window: _of_ids(ids, v, window) + np.diag(np.bincount(ids[ids >= 0]))
        ),
        "only pairs exactly window apart are counted: smaller distances belong to it too.": (
            lambda ids, v, window: (
                _counted(ids, v, range(window, window + 1))
                if window < len(ids)
                else np.zeros((v, v))
            )
        ),
        "right without words outside the vocabulary: these keep their place in the line, so do not "
        "take them out first.": lambda ids, v, window: _of_ids(ids[ids >= 0], v, window),
        "right without words outside the vocabulary: −1 is Python's name for the last row, which "
        "gets their counts.": lambda ids, v, window: _counted(
            ids, v, range(1, min(window, len(ids)) + 1), outside=True
        ),
        "pairs that occur again are lost: with lists of places, += adds only once. Use "
        "np.add.at.": lambda ids, v, window: _counted(
            ids, v, range(1, min(window, len(ids)) + 1), add=_add_without_repeats
        ),
        "every pair is counted twice: the pairs (a, b) and (b, a) of places are one each.": (
            lambda ids, v, window: 2 * _of_ids(ids, v, window)
        ),
        "a word beside itself counts in both orders too: it adds 2 to the diagonal.": (
            lambda ids, v, window: (
                _of_ids(ids, v, window) - np.diag(np.diag(_of_ids(ids, v, window))) / 2
            )
        ),
    },
)


def _ratio(counts: np.ndarray) -> np.ndarray:
    """Counts over those of chance: NaN for a row or column without any."""
    rows, columns = counts.sum(1, keepdims=True), counts.sum(0, keepdims=True)
    return counts * counts.sum() / (rows * columns)


def _or_nothing(counts: np.ndarray, surprise: np.ndarray) -> np.ndarray:
    """Zero for pairs that never meet."""
    return np.where(counts > 0, surprise, 0.0)


def _with_empty_rows(of_ratio: Callable) -> Callable:
    """A variant that does something else with the ratio to chance, and 0 where no pair meets."""
    return lambda counts: _or_nothing(counts, of_ratio(np.where(counts > 0, _ratio(counts), 1.0)))


_POSITIVE_PMI = Exercise(
    name="positive-pmi",
    asks=(
        "positive_pmi(counts) → the positive mutual information (v, s) in nats, for counts (v, s) "
        "of words (rows) and what stands near them (columns); 0 where the count is 0"
    ),
    definition=definitions.positive_pmi,
    cases=(
        Case(
            about="pairs above and below chance",
            arguments={"counts": np.array([[8.0, 1.0, 2.0], [1.0, 9.0, 4.0]])},
        ),
        Case(
            about="pairs that never meet",
            arguments={"counts": np.array([[0.0, 5.0], [7.0, 1.0], [2.0, 0.0]])},
        ),
        Case(
            about="a word that stands alone",
            arguments={
                "counts": np.array(
                    [[3.0, 1.0, 0.0, 2.0, 0.0], [0.0] * 5, [1.0, 6.0, 5.0, 0.0, 0.0]]
                )
            },
        ),
    ),
    mistakes={
        "below chance the information is negative, and its positive part is 0: cut it off.": (
            _with_empty_rows(np.log)
        ),
        "cut off what is negative, do not turn its sign.": _with_empty_rows(
            lambda ratio: np.abs(np.log(ratio))
        ),
        "right, but for a word without company: 0/0 is NaN, and 0 is wanted.": (
            lambda counts: np.maximum(np.log(_ratio(counts)), 0.0)
        ),
        "what is cut off is what lies below 0, and pairs that never meet have log 0 = −∞.": (
            lambda counts: np.log(_ratio(counts))
        ),
        "that is in bits. Nats want the natural logarithm.": _with_empty_rows(
            lambda ratio: np.maximum(np.log2(ratio), 0.0)
        ),
        "the logarithm is missing.": _with_empty_rows(lambda ratio: ratio),
        "cut off below 0 after the logarithm: that is the ratio to chance, less 1.": (
            _with_empty_rows(lambda ratio: np.maximum(ratio - 1.0, 0.0))
        ),
        "the total is missing: chance is (row sum) · (column sum) / (sum of everything).": (
            lambda counts: np.maximum(
                _or_nothing(
                    counts, np.log(counts / np.outer(counts.sum(1), counts.sum(0)).clip(1e-300))
                ),
                0.0,
            )
        ),
        "1 is added to the ratio under the logarithm: at chance that is log 2 and not 0.": (
            _with_empty_rows(np.log1p)
        ),
    },
)


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors, axis=1)


def _cosines(vectors: np.ndarray, index: int) -> np.ndarray:
    lengths = _lengths(vectors)
    lengths = np.where(lengths > 0, lengths, 1.0)
    return vectors @ vectors[index] / (lengths * lengths[index])


def _neighbours(order: Callable, told: Callable | None = None, *, itself: bool = False) -> Callable:
    """A variant: sorted by falling `order`, with the numbers that `told` gives."""

    def find(vectors, index, n):
        by, numbers = order(vectors, index), (told or order)(vectors, index)
        others = np.array([j for j in range(len(vectors)) if itself or j != index])
        closest = others[np.argsort(-by[others], kind="stable")[:n]]
        return closest, numbers[closest]

    return find


def _without_the_first(vectors: np.ndarray, index: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    cosines = _cosines(vectors, index)
    closest = np.argsort(-cosines, kind="stable")[1 : n + 1]
    return closest, cosines[closest]


def _products(vectors: np.ndarray, index: int) -> np.ndarray:
    return vectors @ vectors[index]


def _distances(vectors: np.ndarray, index: int) -> np.ndarray:
    return _lengths(vectors - vectors[index])


def _cosines_or_nan(vectors: np.ndarray, index: int) -> np.ndarray:
    return _products(vectors, index) / (_lengths(vectors) * _lengths(vectors)[index])


def _neighbour_case(about: str, vectors: np.ndarray, index: int, n: int) -> Case:
    return Case(about=about, arguments={"vectors": vectors, "index": index, "n": n})


def _vectors_of_lengths(*lengths: float) -> np.ndarray:
    """Random directions in three dimensions, with given lengths."""
    directions = _normal(len(lengths), 3)
    return directions * (np.array(lengths) / _lengths(directions))[:, None]


_NEAREST = Exercise(
    name="nearest",
    asks=(
        "nearest(vectors, index, n) → (indices, cosines), both (n,): the n rows of vectors (v, m) "
        "of largest cosine with row index, that row left out, the closest first"
    ),
    definition=definitions.nearest,
    cases=(
        _neighbour_case(
            "lengths between 0.1 and 9", _vectors_of_lengths(1.0, 9.0, 0.1, 4.0, 0.5), 0, 3
        ),
        _neighbour_case("unit vectors", _vectors_of_lengths(*[1.0] * 6), 4, 2),
        _neighbour_case(
            "all the others, opposite ones too", _vectors_of_lengths(2.0, 1.0, 3.0, 5.0), 1, 3
        ),
        _neighbour_case(
            "a vector of zeros",
            np.array([[1.0, 2.0], [0.0, 0.0], [-3.0, 1.0], [2.0, 1.0]]),
            3,
            3,
        ),
        _neighbour_case(
            "a row of the same direction",
            np.array([[4.0, 0.0], [0.0, 2.0], [1.0, 0.0], [3.0, 4.0], [-1.0, 0.0]]),
            2,
            2,
        ),
    ),
    mistakes={
        "the word itself is among its neighbours: leave it out.": _neighbours(
            _cosines, itself=True
        ),
        "right while no other row has the direction of the word: the first of the sorted rows need "
        "not be the word itself. Leave the word out by its index.": _without_the_first,
        "that goes by the inner product, which favours long vectors: divide by both lengths.": (
            _neighbours(_products)
        ),
        "the cosines are right, but sorted by the inner product, which favours long vectors.": (
            _neighbours(_products, _cosines)
        ),
        "that goes by the distance between the points: two vectors of different lengths can point "
        "the same way.": _neighbours(lambda v, i: -_distances(v, i), _distances),
        "the cosines are right, but sorted by the distance between the points.": _neighbours(
            lambda v, i: -_distances(v, i), _cosines
        ),
        "those are the farthest: sort by falling cosine.": _neighbours(
            lambda v, i: -_cosines(v, i), _cosines
        ),
        "an opposite vector is not near: do not take the absolute value.": _neighbours(
            lambda v, i: np.abs(_cosines(v, i))
        ),
        "the cosines are right, but sorted by their absolute values: an opposite vector is not "
        "near.": _neighbours(lambda v, i: np.abs(_cosines(v, i)), _cosines),
        "the neighbours are right, but the numbers are inner products, not cosines.": _neighbours(
            _cosines, _products
        ),
        "the neighbours are right, but the numbers are 1 − cosine, a distance.": _neighbours(
            _cosines, lambda v, i: 1 - _cosines(v, i)
        ),
        "right, but for a vector of zeros: 0/0 is NaN, and its cosine is 0.": _neighbours(
            _cosines_or_nan
        ),
    },
)

EXERCISES = (_EMBEDDING_GRADIENT, _COOCCURRENCE, _POSITIVE_PMI, _NEAREST)
