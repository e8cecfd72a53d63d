"""The definitions of the chapter on latent attention against identities and libraries."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

import attnlib
from attnlib import cost, definitions
from attnlib.latent import absorbed_queries

RNG = np.random.default_rng(41)

# n, r, s, c; a latent wider and one narrower than a key, and keys without a rotary part
WIDTHS = [(5, 3, 4, 9), (6, 2, 5, 3), (4, 0, 3, 7)]
HEADS = [(6, 3, 4, 2), (8, 2, 3, 5), (5, 1, 2, 4), (3, 3, 4, 3)]


def one_head(n: int, r: int, s: int, c: int) -> tuple[np.ndarray, ...]:
    shapes = (n + r,), (s, c), (s, r), (n, c)
    return tuple(RNG.normal(size=shape) for shape in shapes)


# --- scores -------------------------------------------------------------------------------


@pytest.mark.parametrize("n,r,s,c", WIDTHS)
def test_scores_do_not_depend_on_the_brackets(n, r, s, c):
    q, latent, rotary_key, up_key = one_head(n, r, s, c)
    scores = definitions.latent_scores(q, latent, rotary_key, up_key)
    carried = absorbed_queries(torch.tensor(q)[None, None, None], torch.tensor(up_key)[None])
    absorbed = np.hstack([latent, rotary_key]) @ carried.numpy().ravel() / np.sqrt(n + r)
    # sums of at most n·c + r products of size one
    np.testing.assert_allclose(scores, absorbed, rtol=0, atol=1e-13)


@pytest.mark.parametrize("n,r,s,c", WIDTHS)
def test_the_softmax_of_the_scores_are_the_weights_of_attention(n, r, s, c):
    q, latent, rotary_key, up_key = one_head(n, r, s, c)
    weights = definitions.softmax(definitions.latent_scores(q, latent, rotary_key, up_key))
    up_values = RNG.normal(size=(1, 2, c))
    out = definitions.latent_attention(
        q[None, None, None], latent[None], rotary_key[None], up_key[None], up_values
    )
    # weights sum to one, and means of size one are rounded a few times
    np.testing.assert_allclose(weights @ latent @ up_values[0].T, out[0, 0, 0], rtol=0, atol=1e-13)
    keys = torch.tensor(np.hstack([latent @ up_key.T, rotary_key]))[None]
    of_torch = F.scaled_dot_product_attention(
        torch.tensor(q)[None, None], keys, torch.eye(s)[None].double()
    )
    np.testing.assert_allclose(weights, of_torch[0, 0], rtol=0, atol=1e-13)


def test_scores_are_those_of_one_shared_key_head_where_the_matrix_is_the_identity():
    q, latent, rotary_key, _ = one_head(4, 3, 5, 4)
    keys = np.hstack([latent, rotary_key])
    scores = definitions.latent_scores(q, latent, rotary_key, np.eye(4))
    np.testing.assert_allclose(scores, keys @ q / np.sqrt(7), rtol=0, atol=1e-14)


# --- a pair -------------------------------------------------------------------------------


def test_a_pair_of_deepseek_v2():
    assert definitions.latent_pair(128, 128, 64, 128, 512) == (81_920, 278_528, 576, 40_960)


def test_a_cache_holds_what_the_absorbed_form_reads():
    n_tokens, (h, n, r, e, c) = 7, (6, 5, 3, 4, 9)
    cache = attnlib.LatentCache()
    cache.append(torch.ones(1, n_tokens, c), torch.ones(1, n_tokens, r))
    assert cache.nbytes == 4 * n_tokens * definitions.latent_pair(h, n, r, e, c)[2]


@pytest.mark.parametrize("h,n,r,e,c", [(6, 5, 3, 4, 9), (4, 8, 2, 7, 3), (1, 6, 4, 3, 5)])
def test_a_pair_is_what_the_cost_model_and_torch_count(h, n, r, e, c):
    pair = definitions.latent_pair(h, n, r, e, c)
    numbers = {"h": h, "n": n, "r": r, "e": e, "c": c}
    forms = cost.EXPANDED, cost.ABSORBED
    letters = [form.flops_per_pair for form in forms]
    letters += [form.cache_elements for form in reversed(forms)]
    assert pair == tuple(x.subs({s: numbers[s.name] for s in x.free_symbols}) for x in letters)

    def counted(key_heads, d, e):
        q = torch.ones(1, h, 1, d)
        k, v = (torch.ones(1, key_heads, n_sources, width) for width in (d, e))
        with FlopCounterMode(display=False) as counter:
            attnlib.grouped_query_attention(q, k, v)
        return counter.get_total_flops()

    # the absorbed form has one key head of width c + r, whose first c coordinates are the value
    n_sources = 4
    wanted = [n_sources * n_flops for n_flops in pair[:2]]
    assert wanted == [counted(h, n + r, e), counted(1, c + r, c)]


# --- selectors ----------------------------------------------------------------------------


@pytest.mark.parametrize("h,g,d,e", HEADS)
def test_selectors_make_shared_heads_a_latent_attention(h, g, d, e):
    t, s = 2, 3
    q, k, v = (RNG.normal(size=(1, *shape)) for shape in ((h, t, d), (g, s, d), (g, s, e)))
    latent = np.concatenate([*k[0], *v[0]], axis=1)[None]
    up_keys, up_values = definitions.latent_selectors(h, g, d, e)
    out = definitions.latent_attention(q, latent, np.zeros((1, s, 0)), up_keys, up_values)
    shared = definitions.grouped_query_attention(q, k, v)
    # products with zeros and ones are exact; sums of a few numbers of size one
    np.testing.assert_allclose(out, shared, rtol=0, atol=1e-14)
    of_torch = F.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), enable_gqa=True)
    np.testing.assert_allclose(out, of_torch, rtol=0, atol=1e-14)


@pytest.mark.parametrize("h,g,d,e", HEADS)
def test_each_coordinate_of_the_latent_is_read_by_p_heads(h, g, d, e):
    up_keys, up_values = definitions.latent_selectors(h, g, d, e)
    assert up_keys.shape == (h, d, g * (d + e))
    assert up_values.shape == (h, e, g * (d + e))
    for up in (up_keys, up_values):
        assert set(up.ravel()) <= {0, 1}
        np.testing.assert_array_equal(up.sum(-1), 1)
    readers = up_keys.sum((0, 1)), up_values.sum((0, 1))
    np.testing.assert_array_equal(readers[0], [h // g] * g * d + [0] * g * e)
    np.testing.assert_array_equal(readers[1], [0] * g * d + [h // g] * g * e)
