"""The definitions against values known by hand and independent libraries."""

import inspect

import numpy as np
import pytest
import scipy.linalg
import scipy.spatial.distance
import scipy.special
import scipy.stats

from attnlib import definitions

RNG = np.random.default_rng(7)


def test_softmax_of_logarithms_are_the_fractions():
    np.testing.assert_allclose(
        definitions.softmax(np.log([1, 2, 5])), [1 / 8, 2 / 8, 5 / 8], rtol=0, atol=1e-15
    )


def test_softmax_and_log_sum_exp_agree_with_scipy():
    scores = RNG.normal(size=9) * 30
    np.testing.assert_allclose(
        definitions.softmax(scores), scipy.special.softmax(scores), rtol=1e-14
    )
    np.testing.assert_allclose(
        definitions.log_sum_exp(scores), scipy.special.logsumexp(scores), rtol=1e-15
    )


def test_softmax_does_not_overflow():
    np.testing.assert_array_equal(definitions.softmax([2000.0, 2000.0]), [0.5, 0.5])
    assert definitions.log_sum_exp([2000.0, -2000.0]) == 2000.0


def test_nothing_to_choose_from_gives_zeros_and_minus_infinity():
    np.testing.assert_array_equal(definitions.softmax([-np.inf, -np.inf]), [0.0, 0.0])
    assert definitions.softmax([]).shape == (0,)
    assert definitions.log_sum_exp([]) == -np.inf
    assert definitions.log_sum_exp([-np.inf]) == -np.inf


def test_a_score_of_infinity_gives_infinity_as_scipy_does():
    for scores in ([np.inf, 0.0], [np.inf, np.inf], [np.inf, -np.inf]):
        assert definitions.log_sum_exp(scores) == scipy.special.logsumexp(scores) == np.inf
    assert np.isnan(definitions.log_sum_exp([np.inf, np.nan]))


def test_entropy_agrees_with_scipy_and_is_zero_for_certainty():
    p = RNG.dirichlet(np.ones(7))
    np.testing.assert_allclose(definitions.entropy(p), scipy.stats.entropy(p), rtol=1e-14)
    assert definitions.entropy([0.0, 1.0, 0.0]) == 0.0


def test_the_jacobian_is_the_difference_quotient_of_softmax():
    scores, step = RNG.normal(size=5), 1e-5
    jacobian = definitions.softmax_jacobian(definitions.softmax(scores))
    for j in range(5):
        nudge = step * np.eye(5)[j]
        quotient = (definitions.softmax(scores + nudge) - definitions.softmax(scores - nudge)) / (
            2 * step
        )
        # central difference: step²/6 times a third derivative below 1, plus rounding eps/step
        np.testing.assert_allclose(jacobian[:, j], quotient, rtol=0, atol=1e-10)


def test_the_jacobian_is_symmetric_and_kills_constants():
    jacobian = definitions.softmax_jacobian(RNG.dirichlet(np.ones(6)))
    np.testing.assert_array_equal(jacobian, jacobian.T)
    np.testing.assert_allclose(jacobian @ np.ones(6), 0, atol=1e-16)


def test_attention_is_the_kernel_average_with_the_exponential_kernel():
    q, k, v = RNG.normal(size=(3, 4)), RNG.normal(size=(5, 4)), RNG.normal(size=(5, 2))
    out = definitions.attention(q, k, v)
    for t in range(3):
        average = definitions.kernel_average(
            q[t], k, v, lambda query, key: float(np.exp(query @ key / 2))
        )
        np.testing.assert_allclose(out[t], average, rtol=1e-13)


def test_the_linear_kernel_may_have_negative_weights():
    average = definitions.kernel_average(
        np.array([1.0]),
        np.array([[-1.0], [2.0]]),
        np.array([[10.0], [20.0]]),
        lambda query, key: float(query @ key),
    )
    np.testing.assert_array_equal(average, [30.0])


def test_attention_reads_only_what_it_may():
    q, k, v = np.zeros((2, 3)), np.zeros((4, 3)), np.array([[1.0], [3.0], [np.nan], [7.0]])
    may = np.array([[True, True, False, False], [False] * 4])
    np.testing.assert_array_equal(definitions.attention(q, k, v, may), [[2.0], [0.0]])
    bias = np.where(may, 0.0, -np.inf)
    np.testing.assert_array_equal(definitions.attention(q, k, v, None, bias), [[2.0], [0.0]])


def test_query_head_i_reads_kv_head_i_div_p():
    q, k = np.ones((1, 12, 1, 4)), np.ones((1, 3, 2, 4))
    v = np.broadcast_to(np.arange(3.0).reshape(1, 3, 1, 1), (1, 3, 2, 1))
    out = definitions.grouped_query_attention(q, k, v)
    np.testing.assert_allclose(out.ravel(), [0] * 4 + [1] * 4 + [2] * 4, atol=1e-15)


def test_merging_two_parts_gives_the_whole():
    q, k, v = RNG.normal(size=(1, 4)), RNG.normal(size=(7, 4)), RNG.normal(size=(7, 2))
    scores = k @ q[0] / 2

    def part(sources):
        out = definitions.attention(q, k[sources], v[sources])[0]
        return out, definitions.log_sum_exp(scores[sources])

    out, lse = definitions.merge(part(slice(0, 3)), part(slice(3, 7)))
    np.testing.assert_allclose(out, definitions.attention(q, k, v)[0], rtol=1e-13)
    np.testing.assert_allclose(lse, definitions.log_sum_exp(scores), rtol=1e-14)


def test_merging_with_nothing_changes_nothing():
    part, nothing = (np.array([1.0, 2.0]), 0.5), (np.zeros(2), -np.inf)
    for merged in (definitions.merge(part, nothing), definitions.merge(nothing, part)):
        np.testing.assert_array_equal(merged[0], part[0])
        assert merged[1] == 0.5
    assert definitions.merge(nothing, nothing)[1] == -np.inf


def test_sinusoids_of_one_pair_go_once_around_the_circle():
    np.testing.assert_allclose(
        definitions.sinusoidal_encoding([0, 3], 2), [[0, 1], [np.sin(3), np.cos(3)]], atol=1e-15
    )
    slow = definitions.sinusoidal_encoding([3], 4, base=81.0)[0, 2:]
    np.testing.assert_allclose(slow, [np.sin(1 / 3), np.cos(1 / 3)], atol=1e-15)


def generator(pairs: list[tuple[int, int]], frequencies: list[float]) -> np.ndarray:
    """The skew matrix A for which exp(pA) turns each pair by p times its frequency."""
    a = np.zeros((2 * len(pairs), 2 * len(pairs)))
    for (i, j), frequency in zip(pairs, frequencies, strict=True):
        a[i, j], a[j, i] = -frequency, frequency
    return a


@pytest.mark.parametrize(
    "pairing,pairs",
    [("half", [(0, 3), (1, 4), (2, 5)]), ("interleaved", [(0, 1), (2, 3), (4, 5)])],
)
def test_rotations_and_shifts_are_exponentials_of_a_skew_matrix(pairing, pairs):
    a = generator(pairs, [1.0, 10.0 ** (-4 / 3), 10.0 ** (-8 / 3)])
    for p in (0, 1, 5):
        turned = scipy.linalg.expm(p * a)
        np.testing.assert_allclose(
            definitions.rotation_matrix(p, 6, pairing), turned, rtol=0, atol=1e-14
        )
        x = RNG.normal(size=(1, 6))
        rows = definitions.rotate(x, [p], pairing)
        np.testing.assert_allclose(rows[0], turned @ x[0], rtol=0, atol=1e-14)
        if pairing == "interleaved":
            shift = definitions.shift_matrix(p, 6)
            np.testing.assert_allclose(shift, turned.T, rtol=0, atol=1e-14)


def test_linear_biases_and_their_slopes_are_those_of_the_paper():
    assert definitions.alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert definitions.alibi_slopes(16)[:3] == [2.0**-0.5, 2.0**-1, 2.0**-1.5]
    assert definitions.alibi_slopes(6) == [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]
    bias = [[-2.0, 0.0, -2.0], [-4.0, -2.0, 0.0]]
    np.testing.assert_array_equal(definitions.alibi_bias(2, 3, 2.0), bias)


def test_each_row_counts_its_own_tokens():
    is_token = [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]]
    wanted = [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4], [0, 1, 1, 1, 1], [0, 0, 0, 0, 0]]
    np.testing.assert_array_equal(definitions.padded_positions(is_token), wanted)


def test_company_is_counted_by_hand():
    counts = definitions.cooccurrence(list("abxaa"), ["a", "b"], 2)
    # a–b at distances 1 and 2, a–a at distance 1, and x keeps its place
    np.testing.assert_array_equal(counts, [[2, 2], [2, 0]])


def test_surprise_is_the_logarithm_of_how_much_likelier_than_by_chance():
    # the pair (0, 0) has probability 6/12, by chance (8/12)·(7/12)
    surprise = definitions.positive_pmi([[6, 2], [1, 3]])
    np.testing.assert_allclose(surprise[0, 0], np.log((6 / 12) / (8 / 12 * 7 / 12)), rtol=1e-14)
    assert surprise[0, 1] == surprise[1, 0] == 0.0
    np.testing.assert_allclose(surprise[1, 1], np.log(3 / 12 / (4 / 12 * 5 / 12)), rtol=1e-14)


def test_cosines_agree_with_scipy():
    vectors = RNG.normal(size=(6, 3))
    distances = scipy.spatial.distance.pdist(vectors, "cosine")
    np.testing.assert_allclose(definitions.mean_cosine(vectors), 1 - distances.mean(), atol=1e-15)
    indices, similar = definitions.nearest(vectors, 2, 5)
    wanted = 1 - scipy.spatial.distance.cdist(vectors, vectors, "cosine")[2]
    np.testing.assert_allclose(similar, np.sort(np.delete(wanted, 2))[::-1], atol=1e-15)
    np.testing.assert_allclose(similar, wanted[indices], atol=1e-15)


def test_a_lookup_is_a_row_and_its_gradient_goes_back_there():
    table, gradient = RNG.normal(size=(5, 3)), RNG.normal(size=(1, 3))
    np.testing.assert_array_equal(definitions.embed(table, [4]), table[[4]])
    back = definitions.embedding_gradient([4], gradient, 5)
    np.testing.assert_array_equal(back, np.vstack([np.zeros((4, 3)), gradient]))


def test_pairs_that_overlap_are_counted_once_and_merged_from_the_left():
    assert definitions.count_pairs([5, 5, 5, 7, 5, 5, 5, 5]) == {(5, 5): 3, (5, 7): 1, (7, 5): 1}
    assert definitions.count_pairs([]) == definitions.count_pairs([3]) == {}
    assert definitions.merge_pair([5, 5, 5, 7], (5, 5), 9) == [9, 5, 7]
    assert definitions.merge_pair([7, 5], (5, 7), 9) == [7, 5]


def test_a_merge_shortens_the_list_by_the_count_of_its_pair():
    ids = RNG.integers(0, 3, size=60).tolist()
    for pair, count in definitions.count_pairs(ids).items():
        assert len(definitions.merge_pair(ids, pair, 9)) == len(ids) - count


def test_training_stops_where_no_pair_is_left_and_ties_go_to_the_smallest_pair():
    assert definitions.train_byte_pairs([], 3) == []
    assert definitions.train_byte_pairs([b"ba", b"ab"], 9) == [(97, 98), (98, 97)]
    assert definitions.train_byte_pairs([b"abcab"], 2) == [(97, 98), (99, 256)]


def test_encoding_goes_by_rank_and_gives_back_what_training_left():
    assert definitions.encode_by_rank(b"abc", [(98, 99), (97, 98)]) == [97, 256]
    pieces = [b"abacabadabacaba", b"dabcab", b""]
    merges = definitions.train_byte_pairs(pieces, 6)
    for piece in pieces:
        replayed = list(piece)
        for rank, pair in enumerate(merges):
            replayed = definitions.merge_pair(replayed, pair, 256 + rank)
        assert definitions.encode_by_rank(piece, merges) == replayed


def test_word_pieces_are_the_longest_from_the_left():
    assert definitions.word_piece("abcd", {"a", "ab", "##c", "##cd"}) == ["ab", "##cd"]
    assert definitions.word_piece("abcd", {"ab", "abc", "##cd"}) == ["[UNK]"]
    assert definitions.word_piece("", {"a"}) == []


# --- scores -------------------------------------------------------------------------------


def three_points(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A distribution on three points of equal probability: the points, their mean, covariance."""
    points = RNG.normal(size=(3, d))
    mean = points.mean(0)
    return points, mean, (points - mean).T @ (points - mean) / len(points)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_mean_and_variance_of_a_score_are_those_of_all_pairs_of_points(d):
    (q, mean_q, cov_q), (k, mean_k, cov_k) = three_points(d), three_points(d)
    scores = q @ k.T  # every pair of points has the same probability
    # sums of d products of size one, d² in the variance
    np.testing.assert_allclose(definitions.score_mean(mean_q, mean_k), scores.mean(), atol=1e-14)
    variance = definitions.score_variance(mean_q, cov_q, mean_k, cov_k)
    np.testing.assert_allclose(variance, scores.var(), rtol=1e-13)


def test_with_one_mean_zero_the_variance_is_the_trace_of_second_moment_and_covariance():
    _, mean_q, cov_q = three_points(4)
    _, _, cov_k = three_points(4)
    variance = definitions.score_variance(mean_q, cov_q, np.zeros(4), cov_k)
    moments = cov_q + np.outer(mean_q, mean_q)
    np.testing.assert_allclose(variance, np.trace(moments @ cov_k), rtol=1e-14)


def test_a_normed_vector_has_squares_of_mean_one_whatever_its_size():
    x = RNG.normal(size=6)
    for size in (1e-9, 1.0, 1e9):
        normed = definitions.rms_norm(size * x)
        np.testing.assert_allclose(np.mean(normed**2), 1.0, rtol=1e-14)
        np.testing.assert_allclose(normed, definitions.rms_norm(x), rtol=1e-13)
    np.testing.assert_array_equal(definitions.rms_norm([2.0, -2.0], gain=[3.0, 5.0]), [3.0, -5.0])
    np.testing.assert_allclose(definitions.rms_norm([3.0, 4.0], epsilon=3.5), [0.75, 1.0])
    np.testing.assert_array_equal(definitions.rms_norm([0.0, 0.0], epsilon=1.0), [0.0, 0.0])


def test_a_capped_score_keeps_its_order_its_sign_and_its_bound():
    assert definitions.soft_cap(0.0, 3.0) == 0.0
    assert definitions.soft_cap(1e4, 3.0) == 3.0 == -definitions.soft_cap(-1e4, 3.0)
    # C tanh(x/C) = x (1 − (x/C)²/3 + …), the next term is 2/15 of 10⁻⁸
    np.testing.assert_allclose(definitions.soft_cap(0.05, 5.0), 0.05 * (1 - 1e-4 / 3), rtol=1e-8)
    capped = [definitions.soft_cap(x, 2.0) for x in np.linspace(-5, 5, 11)]
    assert all(np.diff(capped) > 0)


def norm_of_jacobian(p: np.ndarray) -> float:
    return np.linalg.norm(definitions.softmax_jacobian(p), 2)


def test_the_bound_of_the_jacobian_holds_and_is_reached():
    for n in (2, 3, 7):
        for alpha in (0.1, 1.0, 10.0):
            p = RNG.dirichlet(np.full(n, alpha))
            # weights that do not quite sum to one, and a few roundings of numbers below one
            assert norm_of_jacobian(p) <= definitions.jacobian_bound(p) + 1e-15
            assert definitions.jacobian_bound(p) <= 0.5
    # two sources: Gershgorin's bound is the norm; equal weights: the largest weight is
    for p in ([0.8, 0.2], np.full(2, 0.5), np.full(5, 0.2)):
        np.testing.assert_allclose(norm_of_jacobian(p), definitions.jacobian_bound(p), rtol=1e-14)


# --- masks --------------------------------------------------------------------------------


def test_documents_and_blocks_by_hand():
    np.testing.assert_array_equal(
        definitions.document_mask([5, 0, 5]), [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    )
    blocks = [[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]
    np.testing.assert_array_equal(definitions.block_mask(4, 5, block=2), blocks)
    # the first target stands at position −1, before the block of source 0
    np.testing.assert_array_equal(definitions.block_mask(3, 2, block=2), [[0, 0], [1, 1], [1, 1]])


def test_composition_is_the_positive_part_of_the_product_of_matrices():
    later, earlier = RNG.random((3, 5)) < 0.4, RNG.random((5, 4)) < 0.4
    ways = later.astype(int) @ earlier.astype(int)
    np.testing.assert_array_equal(definitions.compose_masks(later, earlier), ways > 0)
    assert definitions.compose_masks(np.ones((2, 0)), np.ones((0, 3))).sum() == 0


def test_what_layers_reach_by_hand():
    # windows of three: 2 steps back in each layer; of one: nothing but the target
    assert [definitions.reach(n_layers, 3) for n_layers in (0, 1, 2, 3)] == [1, 3, 5, 7]
    assert definitions.reach(4, 1) == 1
    assert definitions.reach(1, 6) == 6


def test_weights_under_a_mask_are_the_softmax_of_what_may_be_read():
    scores = RNG.normal(size=(3, 5))
    scores[:, 4] = [np.nan, 1e6, np.inf]
    may = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]], dtype=bool)
    weights = definitions.masked_weights(scores, may)
    softmax = scipy.special.softmax(scores[0, [0, 2, 3]])
    np.testing.assert_allclose(weights[0, [0, 2, 3]], softmax, rtol=1e-14)
    np.testing.assert_array_equal(weights[~may], 0.0)
    np.testing.assert_array_equal(weights[1:], [[0, 0, 0, 0, 0], [0, 1, 0, 0, 0]])


# --- heads --------------------------------------------------------------------------------


def test_head_i_has_its_d_neighbouring_columns():
    x = 10.0 * np.arange(4)[:, None] + np.arange(6)
    heads = definitions.split_heads(x, 3)
    assert heads.shape == (3, 4, 2)
    np.testing.assert_array_equal(heads[1], x[:, 2:4])
    np.testing.assert_array_equal(np.concatenate(list(heads), axis=1), x)


def heads_by_concatenation(x, w_q, w_k, w_v, w_o, may_attend=None):
    """One product for all heads, then split, attend, concatenate and project."""
    q, k, v = (definitions.split_heads(x @ np.hstack(list(w)), len(w)) for w in (w_q, w_k, w_v))
    out = definitions.dot_product_attention(q[None], k[None], v[None], may_attend)[0]
    return np.hstack(list(out)) @ np.vstack(list(w_o))


def test_the_sum_over_heads_is_the_product_of_what_is_concatenated():
    t, h, m, d, e = 4, 3, 5, 2, 6
    x, w_q, w_k = RNG.normal(size=(t, m)), RNG.normal(size=(h, m, d)), RNG.normal(size=(h, m, d))
    w_v, w_o = RNG.normal(size=(h, m, e)), RNG.normal(size=(h, e, m))
    for may in (None, definitions.causal_mask(t, t), np.zeros((t, t), dtype=bool)):
        y = definitions.multi_head_attention(x, w_q, w_k, w_v, w_o, may)
        wanted = heads_by_concatenation(x, w_q, w_k, w_v, w_o, may)
        # sums of h·e products of size ten, each side rounded a few times
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-12)
    order = [2, 0, 1]
    again = definitions.multi_head_attention(x, w_q[order], w_k[order], w_v[order], w_o[order])
    y = definitions.multi_head_attention(x, w_q, w_k, w_v, w_o)
    np.testing.assert_allclose(again, y, rtol=0, atol=1e-12)


def softmax_of_rows(scores: np.ndarray) -> np.ndarray:
    return np.array([definitions.softmax(row) for row in scores])


@pytest.mark.parametrize("t,s,d", [(4, 6, 1), (7, 5, 2), (6, 8, 4), (5, 6, 4), (6, 3, 2)])
def test_the_least_width_is_that_of_the_scores_it_was_made_from(t, s, d):
    q, k = RNG.normal(size=(t, d)), RNG.normal(size=(s, d))
    assert definitions.least_score_width(softmax_of_rows(3 * q @ k.T)) == d
    # adding a number to every row changes nothing
    assert definitions.least_score_width(softmax_of_rows(q @ k.T + RNG.normal(size=(t, 1)))) == d


def test_one_less_than_there_are_sources_always_suffices():
    p = RNG.dirichlet(np.ones(5), size=9)
    assert definitions.least_score_width(p) == 4
    u, sizes, vt = np.linalg.svd(np.log(p) - np.log(p).mean(1, keepdims=True))
    q, k = u[:, :4] * sizes[:4], vt[:4].T
    # scores of size ten, rounded once or twice, under an exponential
    np.testing.assert_allclose(softmax_of_rows(q @ k.T), p, rtol=1e-12)


def test_equal_weights_need_no_width_and_equal_rows_need_one():
    for n in (3, 5, 7):  # log(1/n) is rounded, and nothing may come of that
        assert definitions.least_score_width(np.full((4, n), 1 / n)) == 0
    assert definitions.least_score_width(np.tile(RNG.dirichlet(np.ones(6)), (4, 1))) == 1


@pytest.mark.parametrize(
    "function",
    [f for _, f in inspect.getmembers(definitions, inspect.isfunction)],
    ids=lambda f: f.__name__,
)
def test_every_definition_is_short_enough_to_show(function):
    body = inspect.getsource(function).split('"""')[2]
    assert len(body.strip().splitlines()) <= 16
