"""Latent attention, its layer and its cache refuse what they cannot take, before any work.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import copy
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnlib import (
    PUBLISHED,
    TRAINED,
    AttentionSizes,
    KVCache,
    LanguageModel,
    LatentAttentionSizes,
    LatentCache,
    LatentSelfAttention,
    MultiHeadAttention,
    WindowCache,
    causal_mask,
    latent_attention_absorbed,
    latent_attention_expanded,
)
from attnlib.caches import ModelCache
from attnlib.latent import cheaper_form
from attnlib.sizes import RotarySizes

B, H, T, S, N, R, E, C, U, M = 2, 3, 5, 8, 7, 4, 9, 6, 10, 12
Q, LATENT, KEY = torch.zeros(B, H, T, N + R), torch.zeros(B, S, C), torch.zeros(B, S, R)
UP_KEYS, UP_VALUES = torch.zeros(H, N, C), torch.zeros(H, E, C)
GIVEN = {
    "q": Q,
    "latent": LATENT,
    "rotary_key": KEY,
    "up_keys": UP_KEYS,
    "up_values": UP_VALUES,
}
SIZES = LatentAttentionSizes(
    n_query_heads=H, query_latent=U, kv_latent=C, nope_dim=N, rope_dim=R, value_dim=E
)
ROTARY = {"rotary": RotarySizes(base=100.0), "pairing": "half"}
X = torch.zeros(B, T, M)


def refuses(kind: type[Exception], message: str):
    return pytest.raises(kind, match=re.escape(message))


# --- the two forms --------------------------------------------------------------------------


@pytest.fixture(params=[latent_attention_expanded, latent_attention_absorbed])
def attend(request, monkeypatch):
    """One of the forms, which may look at what it is given and may not begin to work."""

    def worked(*_):
        raise AssertionError("multiplied before refusing")

    monkeypatch.setattr(torch, "einsum", worked)
    return request.param


def test_these_tests_run_without_the_shape_hook_and_would_notice_work(attend):
    assert not hasattr(latent_attention_expanded, "__wrapped__")
    with pytest.raises(AssertionError, match="multiplied before refusing"):
        attend(**GIVEN)


@pytest.mark.parametrize(
    "kind,message,change",
    [
        (TypeError, "q must be a tensor of fp16, bf16, fp32 or fp64, got list", {"q": [1.0]}),
        (TypeError, "latent must be a tensor of fp16", {"latent": LATENT.long()}),
        (ValueError, "q must have axes (b, h, t, d), got shape (3, 5, 11)", {"q": Q[0]}),
        (ValueError, "latent must have axes (b, s, c), got", {"latent": LATENT[:, None]}),
        (ValueError, "rotary_key must have axes (b, s, r), got", {"rotary_key": KEY[:, None]}),
        (ValueError, "up_keys must have axes (h, n, c), got", {"up_keys": UP_KEYS.flatten(0, 1)}),
        (ValueError, "up_values must have axes (h, e, c), got", {"up_values": UP_VALUES[0]}),
        (
            TypeError,
            "q and latent must have the same dtype, got torch.float32 and torch.float64",
            {"latent": LATENT.double()},
        ),
        (TypeError, "q and up_values must have the same", {"up_values": UP_VALUES.half()}),
        (
            ValueError,
            "q and rotary_key must be on the same device, got cpu and meta",
            {"rotary_key": KEY.to("meta")},
        ),
        (
            ValueError,
            "q and latent must have the same b, got b=2 in q and b=1 in latent",
            {"latent": LATENT[:1]},
        ),
        (
            ValueError,
            "latent and rotary_key must have the same s, got s=8 in latent and s=7 in rotary_key",
            {"rotary_key": KEY[:, 1:]},
        ),
        (ValueError, "q and rotary_key must have the same b", {"rotary_key": KEY[:1]}),
        (
            ValueError,
            "q and up_keys must have the same h, got h=3 in q and h=2 in up_keys",
            {"up_keys": UP_KEYS[:2]},
        ),
        (
            ValueError,
            "latent and up_keys must have the same c, got c=6 in latent and c=5 in up_keys",
            {"up_keys": UP_KEYS[..., 1:]},
        ),
        (ValueError, "q and up_values must have the same h", {"up_values": UP_VALUES[:1]}),
        (ValueError, "latent and up_values must have the same c", {"up_values": UP_KEYS.mT}),
        (
            ValueError,
            "there must be at least 1 head, got h=0",
            {"q": Q[:, :0], "up_keys": UP_KEYS[:0], "up_values": UP_VALUES[:0]},
        ),
        (ValueError, "so d must be n + r, got d=10, n=7 and r=4", {"q": Q[..., 1:]}),
        (ValueError, "so d must be n + r, got d=11, n=7 and r=3", {"rotary_key": KEY[..., 1:]}),
        (
            ValueError,
            "queries and keys must have a width, got d=0",
            {"q": Q[..., :0], "rotary_key": KEY[..., :0], "up_keys": UP_KEYS[:, :0]},
        ),
        (TypeError, "may_attend must be a boolean tensor", {"may_attend": torch.ones(T, S)}),
        (
            ValueError,
            "may_attend must broadcast to (b, h, t, s) = (2, 3, 5, 8), got shape (8, 5)",
            {"may_attend": torch.ones(S, T).bool()},
        ),
        (ValueError, "q and may_attend must be", {"may_attend": causal_mask(T, S, device="meta")}),
        (TypeError, "scale must be a number or None, got str", {"scale": "1"}),
        (ValueError, "scale must be finite, got scale=inf", {"scale": float("inf")}),
    ],
)
def test_what_does_not_fit_is_refused_before_any_product(attend, kind, message, change):
    with refuses(kind, message):
        attend(**GIVEN | change)


def test_a_form_is_chosen_by_counts():
    widths = {"kv_latent": C, "nope_dim": N, "value_dim": E}
    assert cheaper_form(np.int64(1), 10, **widths) == "absorbed"
    with refuses(ValueError, "n_targets must be at least 0, got -1"):
        cheaper_form(-1, 3, **widths)
    with refuses(TypeError, "n_sources must be a whole number, got 2.0"):
        cheaper_form(1, 2.0, **widths)
    for name in widths:
        with refuses(ValueError, f"{name} must be at least 1, got 0"):
            cheaper_form(1, 3, **widths | {name: 0})


# --- what makes a layer ---------------------------------------------------------------------


def made(width=M, sizes=SIZES, **options) -> LatentSelfAttention:
    return LatentSelfAttention(width, sizes, **options)


@pytest.mark.parametrize("sizes", [None, PUBLISHED["gpt-2"].attention, PUBLISHED["deepseek-v2"]])
def test_what_are_no_sizes_of_a_latent_is_refused(sizes):
    with refuses(
        TypeError,
        "sizes must be LatentAttentionSizes, whose keys and values come from a latent, got "
        f"{type(sizes).__name__}",
    ):
        made(sizes=sizes)


def test_widths_and_epsilons_that_cannot_be_are_refused():
    with refuses(ValueError, "width (m) must be at least 1, got 0"):
        made(0)
    with refuses(TypeError, "width (m) must be a whole number, got LatentAttentionSizes("):
        LatentSelfAttention(SIZES, M)
    with refuses(ValueError, "norm_epsilon must be above 0, got 0"):
        made(norm_epsilon=0)


def test_a_rotary_part_of_odd_width_cannot_turn():
    odd = replace(SIZES, rope_dim=5)
    made(sizes=odd)
    with refuses(
        ValueError, "rotary positions turn pairs of coordinates, so r must be even, got r=5"
    ):
        made(sizes=odd, **ROTARY)
    # the width of a whole head may be odd
    assert (N + R) % 2 == 1 and made(**ROTARY).rotary is not None


def test_rotary_positions_and_a_pairing_go_together():
    with refuses(ValueError, "pairing must be"):
        made(rotary=ROTARY["rotary"])
    with refuses(ValueError, "pairing says how rotary positions turn and needs rotary=..."):
        made(pairing="half")
    with refuses(TypeError, "rotary must be RotarySizes or None, got float"):
        made(rotary=100.0, pairing="half")


# --- what a layer is given ------------------------------------------------------------------


class Unprojected(LatentSelfAttention):
    """A layer that may look at what it is given, and may not begin to work."""

    def __init__(self, **options):
        super().__init__(M, SIZES, **options)

        def worked(*_):
            raise AssertionError("projected before refusing")

        for module in self.children():
            module.register_forward_pre_hook(worked)


def refused(kind, message, *given, layer=None, methods=("forward",), **call):
    layer = Unprojected(**(layer or {}))
    for name in methods:
        with refuses(kind, message):
            getattr(layer, name)(*given, **call)


ALL = ("forward", "weights", "queries")


def test_a_layer_of_the_refusing_kind_would_notice_work():
    for name in (*ALL, "latents"):
        with pytest.raises(AssertionError, match="projected before refusing"):
            getattr(Unprojected(), name)(X)


def test_x_must_be_vectors_of_the_layer():
    for methods, name, axes in ((ALL, "x_btm", "b, t, m"), (("latents",), "x_bsm", "b, s, m")):
        refused(TypeError, f"{name} must be a tensor of fp16", X.long(), methods=methods)
        refused(ValueError, f"{name} must have axes ({axes}), got shape", X[0], methods=methods)
        message = f"{name} must have the width m=12 that this layer takes along its last axis, got"
        refused(ValueError, message, X[..., 1:], methods=methods)
        message = f"{name} must have the dtype of the layer's weights, got torch.float64 and"
        refused(TypeError, message, X.double(), methods=methods)
        message = f"{name} must be on the device of the layer, got meta and a layer on cpu"
        refused(ValueError, message, X.to("meta"), methods=methods)


def test_positions_must_be_one_a_token():
    positions = torch.arange(T)
    every = (*ALL[:2],)
    refused(ValueError, "positions have no use in a layer without", X, positions=positions)
    refused(ValueError, "positions have no use", X, positions, methods=("queries", "latents"))
    turned = {"layer": ROTARY, "methods": every}
    message = "positions must have the shape (5,), one for each token, or (2, 5), got (4,)"
    refused(ValueError, message, X, positions=positions[1:], **turned)
    refused(
        ValueError, "positions must be at least 0, got -1", X, positions=positions - 1, **turned
    )
    refused(TypeError, "tensor of signed integers", X, positions=positions.double(), **turned)


def test_turns_take_the_place_of_positions():
    turns = made(**ROTARY).turns(torch.arange(T))
    message = "turns stand in place of the positions of a layer with rotary=..., got rotary="
    refused(ValueError, message, X, turns=turns)
    refused(ValueError, message, X, turns=turns, positions=torch.arange(T), layer=ROTARY)


def test_masks_and_forms_that_do_not_fit_are_refused():
    message = "may_attend must broadcast to (b, h, t, s) = (2, 3, 5, 5), got shape (5, 8)"
    refused(ValueError, message, X, may_attend=causal_mask(T, S).new_ones(T, S), methods=ALL[:2])
    refused(TypeError, "may_attend must be a boolean", X, may_attend=torch.ones(T, T))
    for form in ("merged", "", 1):
        refused(ValueError, f"form must be 'expanded' or 'absorbed', got {form!r}", X, form=form)


# --- the cache ------------------------------------------------------------------------------


def filled(**options) -> LatentCache:
    cache = LatentCache(**options)
    cache.append(torch.ones(B, 3, C), torch.ones(B, 3, R))
    return cache


def state(cache: LatentCache):
    read = copy.deepcopy(cache).append(*(x[:, :0] for x in (LATENT, KEY)))
    return cache.n_tokens, cache.last_position, cache.nbytes, *(x.sum().item() for x in read)


@pytest.mark.parametrize("options", [{}, {"storage": "int8"}, {"capacity": 9}])
@pytest.mark.parametrize(
    "kind,message,latent,key",
    [
        (TypeError, "latent must be a tensor of fp16", LATENT.long(), KEY),
        (ValueError, "latent must have axes (b, t, c), got shape", LATENT[:, None], KEY),
        (ValueError, "rotary_key must have axes (b, t, r), got shape", LATENT, KEY[:, None]),
        (ValueError, "must have the same t, got t=8 in latent and t=7", LATENT, KEY[:, 1:]),
        (ValueError, "must have the same b, got b=2 in latent and b=1", LATENT, KEY[:1]),
        (TypeError, "latent and rotary_key must have the same dtype", LATENT, KEY.half()),
        (ValueError, "latent must have c=6 as in what is kept, got c=5", LATENT[..., 1:], KEY),
        (ValueError, "rotary_key must have r=4 as in what is kept, got r=2", LATENT, KEY[..., 2:]),
        (ValueError, "latent must have b=2 as in what is kept, got b=1", LATENT[:1], KEY[:1]),
        (
            TypeError,
            "the dtype of what is kept, torch.float32, got torch.float64",
            LATENT.double(),
            KEY.double(),
        ),
        (ValueError, "keeps numbers and no gradients, got r", LATENT, KEY.clone().requires_grad_()),
    ],
)
def test_what_does_not_go_with_what_is_kept_changes_nothing(options, kind, message, latent, key):
    cache = filled(**options)
    before = state(cache)
    with refuses(kind, message):
        cache.append(latent, key)
    assert state(cache) == before


def test_a_capacity_is_not_exceeded():
    cache = filled(capacity=9)
    before = state(cache)
    with refuses(ValueError, "capacity=9 must take n_tokens=3 and 8 more, got 2 too many"):
        cache.append(LATENT, KEY)
    assert state(cache) == before
    with refuses(ValueError, "capacity must be at least 1, got 0"):
        LatentCache(capacity=0)
    with refuses(ValueError, "storage must be None or 'int8', got 'int4'"):
        LatentCache(storage="int4")


@pytest.mark.parametrize(
    "kind,message,cache",
    [
        (TypeError, "cache must be a LatentCache, which keeps what this", KVCache()),
        (TypeError, "got WindowCache", WindowCache(3)),
        (TypeError, "got dict", {}),
    ],
)
def test_another_kind_of_cache_is_refused(kind, message, cache):
    refused(kind, message, X, cache=cache)


@pytest.mark.parametrize(
    "c,r,b", [(C + 1, R, B), (C, R + 2, B), (C, R, B + 1)], ids=["latent", "rope", "batch"]
)
def test_the_cache_of_another_layer_or_batch_is_refused(c, r, b):
    cache = LatentCache()
    cache.append(torch.ones(b, 3, c), torch.ones(b, 3, r))
    before = cache.nbytes
    wanted, got = {"b": B, "c": C, "r": R}, {"b": b, "c": c, "r": r}
    message = f"cache must hold what this layer keeps for x, {wanted}, got {got}"
    refused(ValueError, message, X, cache=cache)
    assert (cache.n_tokens, cache.nbytes) == (3, before)


def test_the_other_attention_has_no_latent_to_keep():
    heads = AttentionSizes(n_query_heads=H, n_kv_heads=H, head_dim=N, value_dim=E)
    layer, cache = MultiHeadAttention(M, heads).requires_grad_(False), LatentCache()
    with refuses(ValueError, "latent must have axes (b, t, c), got shape (2, 3, 5, 7)"):
        layer(X, cache=cache)
    assert cache.n_tokens == 0


def test_a_chunk_goes_on_where_the_text_before_it_ends():
    layer, cache = made(**ROTARY).requires_grad_(False), LatentCache()
    layer(X, positions=torch.arange(T), cache=cache)
    before = state(cache)
    for positions in ([4, 5], [6, 5]):
        with refuses(ValueError, f"must go on from those before it, got {positions} after posi"):
            layer(X[:, :2], positions=torch.tensor(positions), cache=cache)
    assert state(cache) == before
    layer(X[:, :0], positions=torch.arange(0), cache=cache)  # a chunk of no token is one
    assert state(cache) == before


@pytest.mark.parametrize("latent", [True, False], ids=["latent", "heads"])
def test_places_do_not_go_on_from_positions_that_are_ahead_of_them(latent):
    heads = AttentionSizes(n_query_heads=H, n_kv_heads=H, head_dim=R, value_dim=E)
    layer = made(**ROTARY) if latent else MultiHeadAttention(M, heads, **ROTARY)
    layer, cache = layer.requires_grad_(False), LatentCache() if latent else KVCache()
    layer(X, positions=torch.arange(T) + 90, cache=cache)
    message = "got None, which are the places from 5 on, after position 94"
    with refuses(ValueError, f"must go on from those before it, {message}"):
        layer(X, cache=cache)
    assert (cache.n_tokens, cache.last_position) == (T, 94)
    # turns say themselves where they stand
    layer(X, turns=layer.turns(torch.arange(T) + 95), cache=cache)


def test_a_mask_that_forgets_what_is_kept_is_refused_and_nothing_is_appended():
    layer, cache = made().requires_grad_(False), filled()
    before = state(cache)
    with refuses(ValueError, "must broadcast to (b, h, t, s) = (2, 3, 5, 8), got shape (5, 5)"):
        layer(X, may_attend=causal_mask(T), cache=cache)
    assert state(cache) == before


def test_gradients_do_not_end_at_a_cache_in_silence():
    with refuses(ValueError, "a cache keeps numbers and no gradients, got latent that requires"):
        made()(X, cache=LatentCache())


# --- models ---------------------------------------------------------------------------------

MODEL_SIZES = replace(
    TRAINED["shakespeare"], name="a small model", n_layers=2, width=M, attention=SIZES, vocabulary=9
)


def test_the_cache_of_another_model_is_refused():
    models = [LanguageModel(MODEL_SIZES, pairing="half").requires_grad_(False) for _ in range(2)]
    tokens, cache = torch.tensor([[1, 2, 3]]), models[0].new_cache()
    models[0](tokens, cache=cache)
    with refuses(ValueError, "cache must be one that new_cache of this model made, got one of an"):
        models[1](tokens, cache=cache)
    assert isinstance(cache, ModelCache) and cache.n_tokens == 3


def test_a_window_is_refused_beside_a_latent():
    with refuses(ValueError, "a block with cross-attention or a window has AttentionSizes, got L"):
        LanguageModel(replace(MODEL_SIZES, window=3, window_pattern=(True,)), pairing="half")
    with refuses(ValueError, "pairing must be"):
        LanguageModel(MODEL_SIZES)
