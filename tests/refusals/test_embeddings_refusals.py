"""Wrong input to the functions of embeddings is refused by plain errors that name the values.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import re
from fractions import Fraction

import numpy as np
import pytest
import torch

from attnlib.embeddings import (
    cooccurrence,
    cosines,
    effective_rank,
    mean_cosine,
    nearest,
    positive_pmi,
    remove_top_directions,
    svd_vectors,
)

V, M = 5, 3
VECTORS = np.arange(15.0).reshape(V, M)

# each as a function of one matrix
OF_A_MATRIX = {
    "counts": positive_pmi,
    "matrix": lambda x: svd_vectors(x, 1),
    "vectors": cosines,
    "vectors ": mean_cosine,
    "vectors  ": lambda x: nearest(x, 0, 1),
    "vectors   ": lambda x: remove_top_directions(x, 1),
}


def refuses(kind: type[Exception], message: str):
    return pytest.raises(kind, match=re.escape(message))


@pytest.mark.parametrize("name,function", OF_A_MATRIX.items())
def test_a_matrix_is_real_finite_and_has_two_axes(name, function):
    name = name.strip()
    function(VECTORS)
    function(VECTORS.astype(np.int16))
    function(VECTORS.tolist())
    no_numbers = [[1.0, 2.0], [3.0]], torch.ones(V, M, requires_grad=True), [[None]], {1: 2}
    for wrong in (VECTORS + 1j, VECTORS > 2, VECTORS.astype(str), *no_numbers):
        with refuses(TypeError, f"{name} must be an array of real numbers, got "):
            function(wrong)
    for wrong in (np.nan, np.inf):
        with refuses(ValueError, f"{name} must be finite, got NaN or infinity"):
            function(np.where(VECTORS == 4, wrong, VECTORS))
    for wrong in (VECTORS[0], VECTORS[None], 7.0):
        with refuses(ValueError, f"{name} must have two axes, got shape {np.shape(wrong)}"):
            function(wrong)


def test_one_text_is_no_sequence_of_words():
    with refuses(TypeError, "words must be a sequence of words, got one text: split it first"):
        cooccurrence("to be or not to be", ["to", "be"], window=1)
    with refuses(TypeError, "vocabulary must be a sequence of words, got one text"):
        cooccurrence(["to", "be"], "to be", window=1)


@pytest.mark.parametrize("words", [[1, 2], 7, None, {"to", "be"}, iter(["to"])])
def test_words_are_texts_in_an_order(words):
    with refuses(TypeError, f"words must be a sequence of texts, got {type(words).__name__}"):
        cooccurrence(words, ["to"], window=1)


def test_a_vocabulary_that_holds_a_word_twice_is_refused():
    with refuses(ValueError, "the vocabulary must hold each word once, got 'be' twice"):
        cooccurrence(["to"], ["to", "be", "or", "be"], window=1)


def test_a_window_is_a_whole_number_of_at_least_one():
    for window in (0, -1):
        with refuses(ValueError, f"window must be at least 1, got {window}"):
            cooccurrence(["to"], ["to"], window=window)
    for window in (1.0, True, None, "2"):
        with refuses(TypeError, f"window must be a whole number, got {window!r}"):
            cooccurrence(["to"], ["to"], window=window)


def test_negative_counts_are_refused():
    with refuses(ValueError, "counts must not be negative, got -3.0"):
        positive_pmi(np.array([[1, -3], [0, 2]]))


def test_a_width_beyond_the_number_of_singular_values_is_refused():
    for width, says in ((0, "at least 1, got 0"), (4, "at most 3, got 4")):
        with refuses(ValueError, f"width must be {says}"):
            svd_vectors(VECTORS, width)
    with refuses(TypeError, "width must be a whole number, got 2.0"):
        svd_vectors(VECTORS, 2.0)


def test_an_exponent_is_a_number_that_is_not_negative():
    with refuses(ValueError, "exponent must be at least 0, got -0.5"):
        svd_vectors(VECTORS, 1, exponent=-0.5)
    for exponent in (float("inf"), float("nan")):
        with refuses(ValueError, f"exponent must be finite, got {exponent}"):
            svd_vectors(VECTORS, 1, exponent=exponent)
    for exponent in ("0.5", True, None):
        with refuses(TypeError, f"exponent must be a number, got {exponent!r}"):
            svd_vectors(VECTORS, 1, exponent=exponent)


def test_an_exponent_may_be_a_fraction():
    halved, _ = svd_vectors(VECTORS, 2, exponent=Fraction(1, 2))
    assert halved.dtype == np.float64
    np.testing.assert_array_equal(halved, svd_vectors(VECTORS, 2)[0])


def test_rows_and_numbers_of_neighbours_are_those_that_exist():
    for index, says in ((-1, "at least 0, got -1"), (5, "at most 4, got 5")):
        with refuses(ValueError, f"index must be {says}"):
            nearest(VECTORS, index, 1)
    for n, says in ((-1, "at least 0, got -1"), (5, "at most 4, got 5")):
        with refuses(ValueError, f"n must be {says}"):
            nearest(VECTORS, 0, n)
    with refuses(TypeError, "index must be a whole number, got 'king'"):
        nearest(VECTORS, "king", 1)
    with refuses(ValueError, "neighbours need at least 1 vector, got v=0"):
        nearest(VECTORS[:0], 0, 0)


def test_a_mean_over_pairs_needs_a_pair():
    with refuses(ValueError, "a mean over pairs needs at least 2 vectors, got v=1"):
        mean_cosine(VECTORS[:1])


@pytest.mark.parametrize("sigma", [[], [0.0, 0.0], [2.0, -1.0], [[1.0, 2.0]]])
def test_singular_values_are_one_row_not_negative_and_not_all_zero(sigma):
    with refuses(ValueError, "singular_values must be one row of numbers that are not negative"):
        effective_rank(np.array(sigma))


def test_no_more_directions_than_there_are_can_be_taken_off():
    with refuses(ValueError, "n must be at most 3, got 4"):
        remove_top_directions(VECTORS, 4)
    with refuses(ValueError, "n must be at least 0, got -1"):
        remove_top_directions(VECTORS, -1)
    with refuses(ValueError, "a mean needs at least 1 vector, got v=0"):
        remove_top_directions(np.zeros((0, 3)), 1)
