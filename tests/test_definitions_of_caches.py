"""The definitions of the chapter on the KV cache against masks, closed forms and libraries."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlib import cost, definitions
from attnlib.caches import WindowCache

RNG = np.random.default_rng(31)

# --- what is processed --------------------------------------------------------------------

LENGTHS = [(1, 1), (4, 1), (1, 6), (3, 5), (7, 2)]


@pytest.mark.parametrize("n_new,n_prompt", LENGTHS)
def test_the_pairs_are_those_that_masks_let_through(n_new, n_prompt):
    after = range(n_prompt, n_prompt + n_new)
    whole = [definitions.causal_mask(n, n).sum() for n in after]
    one = [definitions.causal_mask(1, n).sum() for n in after]
    assert definitions.generation_pairs(n_new, n_prompt, cached=False) == sum(whole)
    assert definitions.generation_pairs(n_new, n_prompt, cached=True) == whole[0] + sum(one[1:])


@pytest.mark.parametrize("n_new,n_prompt", LENGTHS)
def test_the_counts_are_the_closed_forms(n_new, n_prompt):
    for cached, tokens, pairs in (
        (True, cost.n_tokens_cached, cost.n_pairs_cached),
        (False, cost.n_tokens_recomputed, cost.n_pairs_recomputed),
    ):
        given = n_new, n_prompt
        assert definitions.generation_tokens(*given, cached) == tokens(*given)
        assert definitions.generation_pairs(*given, cached) == pairs(*given)


def test_the_counts_by_hand():
    # the passes have 5, 6 and 7 tokens; with a cache 5, 1 and 1 of them are new
    assert definitions.generation_tokens(3, 5, cached=False) == 5 + 6 + 7
    assert definitions.generation_tokens(3, 5, cached=True) == 5 + 1 + 1
    assert definitions.generation_pairs(3, 5, cached=False) == 15 + 21 + 28
    assert definitions.generation_pairs(3, 5, cached=True) == 15 + 6 + 7


def test_the_first_new_token_costs_the_same_with_and_without_a_cache():
    for n_prompt in (1, 4):
        for count in (definitions.generation_tokens, definitions.generation_pairs):
            assert count(1, n_prompt, cached=True) == count(1, n_prompt, cached=False)
            assert count(2, n_prompt, cached=True) < count(2, n_prompt, cached=False)


# --- attention to a stream ----------------------------------------------------------------

N, D, E = 6, 3, 4
Q, K, V = RNG.normal(size=(N, D)), RNG.normal(size=(N, D)), RNG.normal(size=(N, E))


def all_cuts(n):
    """Every way to cut n tokens into chunks."""
    for cut_behind in itertools.product([False, True], repeat=n - 1):
        places = [0, *(i for i, cut in enumerate(cut_behind, 1) if cut), n]
        yield [b - a for a, b in itertools.pairwise(places)]


@pytest.mark.parametrize("window", [None, 1, 2, 4, N, N + 3])
def test_every_cut_of_a_stream_gives_what_causal_attention_gives_at_once(window):
    wanted = definitions.attention(Q, K, V, definitions.causal_mask(N, N, window))
    cuts = list(all_cuts(N))
    assert len(cuts) == 2 ** (N - 1)
    for sizes in cuts:
        out = definitions.attention_with_cache(Q, K, V, sizes, window)
        # at most 6 weights and values of order one, rounded in float64
        np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-14)


def test_a_stream_gives_what_torch_gives():
    wanted = F.scaled_dot_product_attention(
        *(torch.tensor(x)[None] for x in (Q, K, V)), is_causal=True
    )
    out = definitions.attention_with_cache(Q, K, V, [2, 3, 1])
    np.testing.assert_allclose(out, wanted[0], rtol=0, atol=1e-14)


def test_what_has_not_arrived_changes_nothing():
    k, v = K.copy(), V.copy()
    k[4:], v[4:] = np.nan, np.nan
    before = definitions.attention_with_cache(Q, k, v, [3, 1])
    np.testing.assert_array_equal(before, definitions.attention_with_cache(Q, K, V, [3, 3])[:4])


def test_a_window_of_one_reads_the_target_itself():
    np.testing.assert_array_equal(definitions.attention_with_cache(Q, K, V, [4, 2], 1), V)


def test_equal_scores_average_the_window_by_hand():
    v = np.array([[8.0], [2.0], [5.0], [11.0]])
    out = definitions.attention_with_cache(np.zeros((4, 1)), np.ones((4, 1)), v, [1, 3], 3)
    np.testing.assert_allclose(out.ravel(), [8, 5, 5, 6], rtol=1e-15)


# --- a ring -------------------------------------------------------------------------------


def test_the_slots_by_hand():
    slots = {n: definitions.ring_slots(n, 4) for n in (0, 3, 4, 6, 9)}
    assert slots == {
        0: [None] * 4,
        3: [0, 1, 2, None],
        4: [0, 1, 2, 3],
        6: [4, 5, 2, 3],
        9: [8, 5, 6, 7],
    }


@pytest.mark.parametrize("window", [1, 3, 5])
def test_a_ring_holds_the_newest_tokens_and_each_in_its_slot(window):
    for n in range(3 * window + 1):
        slots = definitions.ring_slots(n, window)
        held = [token for token in slots if token is not None]
        assert sorted(held) == list(range(max(0, n - window), n))
        assert all(token is None or token % window == i for i, token in enumerate(slots))


@pytest.mark.parametrize("n", [3, 4, 8, 10])
def test_the_ring_of_the_package_holds_the_same_tokens(n):
    cache = WindowCache(3)
    for token in range(n):
        k = torch.full((1, 1, 1, 1), float(token))
        read, _ = cache.append(k, k)
    assert read.flatten().tolist() == definitions.ring_slots(n, 3)
