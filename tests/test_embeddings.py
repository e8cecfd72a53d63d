"""The claims of chapters/embeddings.md: looking up, counting company, surprise, geometry.

The real embeddings have tests of their own, in tests/test_embeddings_data.py.
"""

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import definitions
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

V, M, S = 7, 5, 11
RNG = np.random.default_rng(1402)
EXACT = {"rtol": 0, "atol": 1e-12}


def close(x, y):
    np.testing.assert_allclose(x, y, **EXACT)


# --- looking up rows (definitions) --------------------------------------------------------


def test_a_one_hot_product_is_a_lookup():
    table, ids = RNG.normal(size=(V, M)), np.array([3, 0, 3, 6])
    np.testing.assert_array_equal(definitions.embed(table, ids), table[ids])


def test_the_gradient_of_a_lookup_adds_up_where_a_token_occurs_again():
    table = torch.randn(V, M, dtype=torch.float64, requires_grad=True)
    ids, gradients = torch.tensor([3, 0, 3, 6, 3]), torch.randn(5, M, dtype=torch.float64)
    (table[ids] * gradients).sum().backward()
    close(definitions.embedding_gradient(ids.numpy(), gradients.numpy(), V), table.grad)
    assert not table.grad[[1, 2, 4, 5]].any()


def test_the_gradient_is_the_transposed_one_hot_matrix_times_the_gradients():
    ids, gradients = np.array([1, 4, 1]), RNG.normal(size=(3, M))
    one_hot = np.eye(V)[ids]
    close(definitions.embedding_gradient(ids, gradients, V), one_hot.T @ gradients)


# --- company ------------------------------------------------------------------------------

texts = st.lists(st.sampled_from("abcdx"), max_size=14)
VOCABULARY = ["b", "a", "d", "c"]


@given(words=texts, window=st.integers(1, 20))
def test_counts_are_those_of_the_definition(words, window):
    counts = cooccurrence(words, VOCABULARY, window=window)
    np.testing.assert_array_equal(counts, definitions.cooccurrence(words, VOCABULARY, window))


@given(words=texts, window=st.integers(1, 5))
def test_counts_do_not_change_when_the_text_is_read_backwards(words, window):
    counts = cooccurrence(words, VOCABULARY, window=window)
    np.testing.assert_array_equal(counts, cooccurrence(words[::-1], VOCABULARY, window=window))
    np.testing.assert_array_equal(counts, counts.T)


@given(words=texts, window=st.integers(1, 5), order=st.permutations(range(4)))
def test_counts_move_with_the_words_of_the_vocabulary(words, window, order):
    moved = cooccurrence(words, [VOCABULARY[i] for i in order], window=window)
    counts = cooccurrence(words, VOCABULARY, window=window)
    np.testing.assert_array_equal(moved, counts[np.ix_(order, order)])


def test_every_pair_of_places_in_the_window_counts_once_in_either_order():
    # with all words the same, places a and b: t − 1 pairs at distance 1, t − 2 at distance 2
    counts = cooccurrence(["a"] * 9, ["a"], window=2)
    assert counts.tolist() == [[2 * (8 + 7)]]


def test_a_word_outside_the_vocabulary_keeps_its_place():
    assert cooccurrence(["a", "x", "b"], ["a", "b"], window=1).sum() == 0
    assert cooccurrence(["a", "x", "b"], ["a", "b"], window=2).sum() == 2


def test_texts_and_vocabularies_may_be_empty():
    assert cooccurrence([], ["a", "b"], window=3).tolist() == [[0, 0], [0, 0]]
    assert cooccurrence(["a", "b"], [], window=3).shape == (0, 0)
    assert cooccurrence(["a"], ["a"], window=1).tolist() == [[0]]


# --- surprise -----------------------------------------------------------------------------

whole_counts = st.integers(1, 5).flatmap(
    lambda s: st.lists(st.lists(st.integers(0, 9), min_size=s, max_size=s), min_size=1, max_size=5)
)


@given(counts=whole_counts)
def test_surprise_is_that_of_the_definition(counts):
    close(positive_pmi(np.array(counts)), definitions.positive_pmi(counts))


@given(counts=whole_counts, factor=st.sampled_from([2, 3, 10]))
def test_surprise_does_not_depend_on_the_length_of_the_text(counts, factor):
    close(positive_pmi(factor * np.array(counts)), positive_pmi(np.array(counts)))


def test_a_pair_that_meets_as_often_as_by_chance_has_exactly_no_surprise():
    for row, column in (([1, 2, 3], [5, 7]), ([49, 3], [3, 11, 13])):
        assert not positive_pmi(np.outer(row, column)).any()


def test_words_without_company_have_no_surprise():
    counts = np.array([[0.0, 0.0, 0.0], [0.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    surprise = positive_pmi(counts)
    assert not surprise[0].any() and not surprise[:, 0].any()
    close(surprise[1, 1], np.log(4 / 3))
    assert surprise[1, 2] == 0.0
    assert not positive_pmi(np.zeros((3, 3))).any()


def test_two_words_that_only_meet_each_other_are_twice_as_likely_as_by_chance():
    close(positive_pmi(np.array([[0, 5], [5, 0]])), np.log(2) * np.array([[0, 1], [1, 0]]))


@given(seed=st.integers(0, 2**16), columnwise=st.booleans())
def test_surprise_is_symmetric_to_the_last_digit_where_the_counts_are(seed, columnwise):
    weights = np.random.default_rng(seed).random((40, 40))
    counts = np.asarray(weights + weights.T, order="F" if columnwise else "C")
    surprise = positive_pmi(counts)
    np.testing.assert_array_equal(surprise, surprise.T)


@pytest.mark.parametrize("unit", [1e-320, 1e-200, 1e200, 2.0**1020])
def test_surprise_does_not_depend_on_the_unit_of_the_counts(unit):
    counts = np.array([[7.0, 1.0, 0.0], [1.0, 2.0, 5.0]])
    # a subnormal number keeps only some of its digits: here a whole number of steps of 5e-324
    atol = 1e-3 if unit < 1e-300 else 1e-14
    np.testing.assert_allclose(positive_pmi(counts * unit), positive_pmi(counts), rtol=0, atol=atol)


# --- singular vectors ---------------------------------------------------------------------


def symmetric(v, rng=RNG):
    matrix = rng.normal(size=(v, v))
    return matrix + matrix.T


@pytest.mark.parametrize("matrix", [RNG.normal(size=(V, S)), RNG.normal(size=(S, V)), symmetric(V)])
def test_all_singular_values_come_back_falling(matrix):
    vectors, singular_values = svd_vectors(matrix, 3)
    close(singular_values, np.linalg.svd(matrix, compute_uv=False))
    assert vectors.shape == (len(matrix), 3)
    assert len(singular_values) == min(matrix.shape)


@pytest.mark.parametrize("matrix", [RNG.normal(size=(V, S)), symmetric(V)])
def test_with_exponent_one_inner_products_are_those_of_the_best_approximation(matrix):
    vectors, singular_values = svd_vectors(matrix, 4, exponent=1.0)
    left, sigma, right = np.linalg.svd(matrix)
    best = left[:, :4] * sigma[:4] @ right[:4]
    close(vectors @ vectors.T, best @ best.T)
    # Eckart and Young: what is lost is the tail of the singular values
    np.testing.assert_allclose(
        np.linalg.norm(matrix - best) ** 2, (singular_values[4:] ** 2).sum(), rtol=1e-12
    )


def test_half_an_exponent_takes_a_matrix_without_negative_eigenvalues_apart():
    root = RNG.normal(size=(V, 3))
    vectors, singular_values = svd_vectors(root @ root.T, 3)
    close(vectors @ vectors.T, root @ root.T)
    np.testing.assert_allclose(singular_values[3:], 0, atol=1e-13)


def test_exponent_zero_leaves_orthonormal_columns():
    for matrix in (RNG.normal(size=(V, S)), symmetric(V)):
        vectors, _ = svd_vectors(matrix, M, exponent=0.0)
        close(vectors.T @ vectors, np.eye(M))


def test_eigenvalues_are_taken_by_size_and_not_by_sign():
    vectors, singular_values = svd_vectors(np.diag([1.0, -9.0, 4.0]), 2, exponent=1.0)
    assert singular_values.tolist() == [9.0, 4.0, 1.0]
    assert vectors.tolist() == [[0.0, 0.0], [9.0, 0.0], [0.0, 4.0]]


@given(seed=st.integers(0, 2**16), square=st.booleans())
def test_the_largest_entry_of_a_column_is_positive_whatever_the_sign_of_the_matrix(seed, square):
    rng = np.random.default_rng(seed)
    matrix = symmetric(5, rng) if square else rng.normal(size=(5, 4))
    vectors, _ = svd_vectors(matrix, 3)
    assert (vectors[np.abs(vectors).argmax(0), range(3)] > 0).all()
    np.testing.assert_allclose(svd_vectors(-matrix, 3)[0], vectors, rtol=0, atol=1e-10)


def test_of_entries_equal_up_to_rounding_the_first_decides_the_sign():
    # rows 0 and 1 are opposite, so every column has its largest entry twice, once with each sign
    matrix = np.array([[3.0, 1.0], [-3.0, -1.0], [0.5, 0.1]])
    for nudge in (0.0, 1e-12, -1e-12):
        vectors, _ = svd_vectors(matrix + np.array([[0.0, 0.0], [nudge, 0.0], [0.0, 0.0]]), 1)
        assert vectors[0, 0] > 0


# --- neighbours and geometry --------------------------------------------------------------

vectors_of_few = st.integers(1, 3).flatmap(
    lambda m: st.lists(st.lists(st.integers(-4, 4), min_size=m, max_size=m), min_size=2, max_size=6)
)


@given(vectors=vectors_of_few)
def test_cosines_are_those_of_the_definition(vectors):
    matrix = cosines(np.array(vectors))
    wanted = [[definitions.cosine(x, y) for y in vectors] for x in vectors]
    close(matrix, wanted)
    assert np.abs(matrix).max(initial=0.0) <= 1.0


@given(vectors=vectors_of_few, data=st.data())
def test_neighbours_are_those_of_the_definition(vectors, data):
    index = data.draw(st.integers(0, len(vectors) - 1))
    n = data.draw(st.integers(0, len(vectors) - 1))
    indices, similar = nearest(np.array(vectors), index, n)
    exact = np.array([definitions.cosine(vectors[index], x) for x in vectors])
    assert index not in indices and len(set(indices.tolist())) == n
    close(similar, exact[indices])
    assert (np.diff(similar) <= 0).all()
    others = np.delete(exact, index)
    # the same cosines as the definition, though rounding may order equal directions otherwise
    close(np.sort(others)[::-1][:n], similar)


def test_of_equal_cosines_the_lower_row_comes_first():
    vectors = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 5.0], [4.0, 0.0], [0.0, 1.0]])
    indices, similar = nearest(vectors, 0, 4)
    assert indices.tolist() == [3, 1, 2, 4]
    assert similar.tolist() == [1.0, 0.0, 0.0, 0.0]
    definition, _ = definitions.nearest(vectors, 0, 4)
    assert definition.tolist() == indices.tolist()


@given(seed=st.integers(0, 2**16))
def test_equal_rows_have_equal_cosines_wherever_they_stand(seed):
    rows = np.random.default_rng(seed).normal(size=(3, 17))
    vectors = rows[[0, 1, 1, 2, 1, 1, 2]]
    indices, similar = nearest(vectors, 0, 6)
    assert indices.tolist() in ([1, 2, 4, 5, 3, 6], [3, 6, 1, 2, 4, 5])
    assert len(set(similar.tolist())) == 2


@given(seed=st.integers(0, 2**16))
def test_neighbours_do_not_depend_on_lengths_and_rotations(seed):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(V, M))
    rotation, _ = np.linalg.qr(rng.normal(size=(M, M)))
    stretched = rng.uniform(0.1, 9.0, size=(V, 1)) * vectors @ rotation
    before, after = nearest(vectors, 2, 3), nearest(stretched, 2, 3)
    assert before[0].tolist() == after[0].tolist()
    close(before[1], after[1])


def test_very_long_and_very_short_vectors_have_directions_too():
    vectors = np.array([[1e-200, 0.0], [3e200, 4e200], [0.0, 5e-320]])
    close(cosines(vectors), [[1, 0.6, 0], [0.6, 1, 0.8], [0, 0.8, 1]])


def test_half_precision_is_computed_in_float64():
    vectors = RNG.normal(size=(V, M)).astype(np.float16)
    np.testing.assert_array_equal(cosines(vectors), cosines(vectors.astype(np.float64)))
    assert nearest(vectors, 0, 2)[1].dtype == np.float64


@given(vectors=vectors_of_few)
def test_the_mean_cosine_is_the_mean_over_all_pairs(vectors):
    close(mean_cosine(np.array(vectors)), definitions.mean_cosine(vectors))


def test_a_common_direction_shows_in_the_mean_cosine():
    isotropic = RNG.normal(size=(400, 50))
    # pairs of random directions: mean 0, standard deviation 1/√(50 · 400 · 399 / 2) of the mean
    assert abs(mean_cosine(isotropic)) < 5 / np.sqrt(50 * 400 * 399 / 2)
    assert mean_cosine(isotropic + 3.0) > 0.8


@given(r=st.integers(1, 9), zeros=st.integers(0, 4), size=st.floats(1e-200, 1e200))
def test_the_effective_rank_of_equal_directions_is_their_number(r, zeros, size):
    np.testing.assert_allclose(effective_rank(np.array([size] * r + [0.0] * zeros)), r, rtol=1e-12)


@given(sigma=st.lists(st.floats(0.01, 100.0), min_size=1, max_size=8))
def test_the_effective_rank_is_the_exponential_of_the_entropy_of_squares(sigma):
    p = np.array(sigma) ** 2
    wanted = np.exp(scipy.stats.entropy(p))
    np.testing.assert_allclose(effective_rank(np.array(sigma)), wanted, rtol=1e-12)
    assert 1 - 1e-12 <= effective_rank(np.array(sigma)) <= len(sigma) + 1e-9


@given(seed=st.integers(0, 2**16), n=st.integers(0, 4))
def test_what_is_left_has_no_mean_and_none_of_the_leading_directions(seed, n):
    vectors = np.random.default_rng(seed).normal(size=(V, 4)) + 3.0
    left = remove_top_directions(vectors, n)
    close(left.mean(0), 0)
    before = np.linalg.svd(vectors - vectors.mean(0), compute_uv=False)
    after = np.linalg.svd(left, compute_uv=False)
    np.testing.assert_allclose(after, [*before[n:], *[0.0] * n], rtol=0, atol=1e-12)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_the_leading_direction_is_found_whatever_the_unit(unit):
    vectors = np.array([[3.0, 0.5], [-3.0, 0.5], [0.0, -1.0]])
    left = remove_top_directions(unit * vectors, 1) / unit
    close(left, vectors * [0, 1])


def test_taking_off_nothing_but_the_mean_keeps_all_differences():
    vectors = RNG.normal(size=(V, M))
    left = remove_top_directions(vectors, 0)
    close(left[1:] - left[:-1], vectors[1:] - vectors[:-1])


def test_words_of_the_same_company_become_neighbours():
    # two worlds, whose words meet only their own kind
    rng = np.random.default_rng(3)
    worlds = ["purr", "cat", "dog", "bark"], ["king", "queen", "crown", "throne"]
    sentences = [rng.permutation(worlds[i % 2]) for i in range(60)]
    words = [str(word) for sentence in sentences for word in [*sentence, ".", ".", "."]]
    vocabulary = [*worlds[0], *worlds[1]]
    surprise = positive_pmi(cooccurrence(words, vocabulary, window=3))
    vectors, _ = svd_vectors(surprise, 2)
    for world in worlds:
        for word in world:
            indices, _ = nearest(vectors, vocabulary.index(word), 3)
            assert {word, *(vocabulary[i] for i in indices)} == set(world)
