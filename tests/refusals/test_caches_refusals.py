"""What a cache cannot take is refused before any work, and leaves the cache as it was.

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
    AttentionSizes,
    Block,
    Decoder,
    Encoder,
    EncoderDecoder,
    LanguageModel,
    MultiHeadAttention,
    beam_search,
    generate,
    speculative_generate,
)
from attnlib.caches import CrossCache, KVCache, WindowCache, to_int8
from attnlib.sizes import RotarySizes

B, G, T, D, E = 2, 3, 4, 5, 6
K, V = torch.randn(B, G, T, D), torch.randn(B, G, T, E)


def refused(kind, says, call, *arguments, **options):
    with pytest.raises(kind, match=re.escape(says)):
        call(*arguments, **options)


def filled(made):
    cache = made()
    cache.append(K, V)
    return cache


def seen(cache):
    """All that can be seen of a cache: no new tokens read all that is kept for them."""
    b, g, d, e = cache.letters.values()
    read = copy.deepcopy(cache).append(torch.ones(b, g, 0, d), torch.ones(b, g, 0, e))
    return cache.n_tokens, cache.n_rows, cache.nbytes, read


def same(before, cache):
    now = seen(cache)
    return before[:3] == now[:3] and all(
        torch.equal(x, y) for x, y in zip(before[3], now[3], strict=True)
    )


MADE = [KVCache, lambda: KVCache(storage="int8"), lambda: WindowCache(3)]


# --- a layer's cache --------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [0, -3])
def test_a_cache_has_room_for_a_token_at_least(capacity):
    refused(ValueError, f"capacity must be at least 1, got {capacity}", KVCache, capacity=capacity)


def test_a_window_holds_a_token_at_least():
    refused(ValueError, "window must be at least 1, got 0", WindowCache, 0)
    for window in (2.0, None, True, "3"):
        refused(TypeError, "window must be a whole number", WindowCache, window)
    refused(TypeError, "capacity must be a whole number", KVCache, capacity=2.5)
    assert WindowCache(np.int8(100)).window + 100 == 200


def test_numbers_are_kept_in_known_ways_only():
    for made in (KVCache, lambda storage: WindowCache(3, storage=storage)):
        refused(ValueError, "storage must be None or 'int8', got 'int4'", made, storage="int4")
    refused(ValueError, "got torch.int8", KVCache, storage=torch.int8)
    refused(ValueError, "got 'fp8'", CrossCache, K, V, storage="fp8")
    refused(TypeError, "x must be a tensor of fp16, bf16, fp32 or fp64, got list", to_int8, [1.0])


@pytest.mark.parametrize("made", MADE, ids=["all", "int8", "window"])
@pytest.mark.parametrize(
    "kind,says,k,v",
    [
        (TypeError, "k must be a tensor of fp16, bf16, fp32 or fp64, got list", [1.0], V),
        (TypeError, "v must be a tensor of fp16, bf16, fp32 or fp64, got torch.int64", K, V.long()),
        (ValueError, "k must have axes (b, g, t, d), got shape (3, 4, 5)", K[0], V),
        (ValueError, "v must have axes (b, g, t, e), got shape (3, 4, 6)", K, V[0]),
        (ValueError, "k and v must have the same b, got b=2 in k and b=1 in v", K, V[:1]),
        (ValueError, "k and v must have the same g, got g=2 in k and g=3 in v", K[:, :2], V),
        (ValueError, "k and v must have the same t, got t=4 in k and t=1 in v", K, V[:, :, :1]),
        (TypeError, "k and v must have the same dtype and device", K, V.double()),
        (TypeError, "got torch.float32 on cpu and torch.float32 on meta", K, V.to("meta")),
        (ValueError, "k must have b=2 as in what is kept, got b=1; reset() the", K[:1], V[:1]),
        (ValueError, "k must have g=3 as in what is kept, got g=2", K[:, :2], V[:, :2]),
        (ValueError, "k must have d=5 as in what is kept, got d=4", K[..., :4], V),
        (ValueError, "v must have e=6 as in what is kept, got e=5", K, V[..., :5]),
        (TypeError, "the dtype of what is kept, torch.float32, got torch.f", K.half(), V.half()),
        (
            ValueError,
            "k must have the device of what is kept, cpu, got meta",
            K.to("meta"),
            V.to("meta"),
        ),
        (ValueError, "keeps numbers and no gradients, got v that", K, V.clone().requires_grad_()),
    ],
)
def test_what_does_not_go_with_what_is_kept_changes_nothing(made, kind, says, k, v):
    cache = filled(made)
    before = seen(cache)
    refused(kind, says, cache.append, k, v)
    assert same(before, cache)
    k, v = cache.append(K, V)
    assert k.shape[2] == v.shape[2] == (6 if isinstance(cache, WindowCache) else 8)


def test_what_is_refused_at_first_fixes_nothing():
    cache = KVCache()
    refused(TypeError, "the same dtype", cache.append, K, V.double())
    cache.append(K[:1].double(), V[:1].double())


def test_what_overflows_a_capacity_is_refused_as_a_whole():
    cache = filled(lambda: KVCache(capacity=7))
    before = seen(cache)
    says = "a cache of capacity=7 must take n_tokens=4 and 4 more, got 1 too many"
    refused(ValueError, says, cache.append, K, V)
    assert same(before, cache)
    cache.append(K[:, :, :3], V[:, :, :3])
    refused(ValueError, "n_tokens=7 and 1 more", cache.append, K[:, :, :1], V[:, :, :1])
    refused(ValueError, "n_tokens=0 and 4 more, got 1 too", KVCache(capacity=3).append, K, V)


@pytest.mark.parametrize("made", MADE, ids=["all", "int8", "window"])
def test_tokens_are_taken_back_within_what_there_is(made):
    cache = filled(made)
    before = seen(cache)
    refused(ValueError, "n_tokens must be at most 4, got 5", cache.truncate, 5)
    refused(ValueError, "n_tokens must be at least 0, got -1", cache.truncate, -1)
    refused(TypeError, "n_tokens must be a whole number, got 1.0", cache.truncate, 1.0)
    refused(TypeError, "n_tokens must be a whole number, got None", cache.truncate, None)
    assert same(before, cache)


def test_a_ring_says_what_it_has_evicted():
    cache = filled(lambda: WindowCache(3))
    before = seen(cache)
    says = (
        "a ring of window=3 cannot give back what it has evicted: with n_tokens=2 the next target "
        "reads from place 0 on, and the first place that is kept is 1"
    )
    refused(ValueError, says, cache.truncate, 2)
    assert same(before, cache)


@pytest.mark.parametrize("made", MADE, ids=["all", "int8", "window"])
def test_rows_are_named_by_their_numbers(made):
    cache = filled(made)
    before = seen(cache)
    refused(ValueError, "a row must be at most 1, got 2", cache.reorder, [0, 2])
    refused(ValueError, "a row must be at least 0, got -1", cache.reorder, torch.tensor([-1]))
    refused(ValueError, "rows must name at least 1 row, got none", cache.reorder, [])
    refused(TypeError, "must be a whole number", cache.reorder, [0.0])
    refused(TypeError, "must be a sequence", cache.reorder, 1)
    refused(TypeError, "must be a whole number", cache.reorder, [True, False])
    assert same(before, cache)
    refused(ValueError, "a cache without tokens has no rows to reorder", made().reorder, [0])


def test_a_source_neither_grows_nor_shrinks():
    cache = CrossCache(K, V)
    refused(ValueError, "the keys and values of a source are made once", cache.append, K, V)
    refused(ValueError, "a source is read as a whole, got truncate(2)", cache.truncate, 2)
    refused(ValueError, "a source is read as a whole, got reset()", cache.reset)
    assert torch.equal(cache.read()[0], K)
    refused(ValueError, "at least 1 token, got s=0", CrossCache, K[:, :, :0], V[:, :, :0])


# --- layers -----------------------------------------------------------------------------------

M = 7
HEADS = AttentionSizes(n_query_heads=6, n_kv_heads=G, head_dim=4, value_dim=E)
X = torch.randn(B, T, M)
LAYER = MultiHeadAttention(M, HEADS).requires_grad_(False)
TURNED = MultiHeadAttention(M, HEADS, rotary=RotarySizes(base=9.0), pairing="half")
TURNED.requires_grad_(False)


def test_a_layer_takes_the_cache_of_a_layer_and_its_own():
    refused(
        TypeError, "cache must be the cache of a layer, such as KVCache, got", LAYER, X, cache=1
    )
    refused(ValueError, "two ways to say what is read", LAYER, X, X, cache=KVCache())
    cache = filled(KVCache)  # d = 5 and not 4
    before = seen(cache)
    says = "must hold what this layer keeps for x, {'b': 2, 'g': 3, 'd': 4, 'e': 6}, got {'b': 2"
    refused(ValueError, says, LAYER, X, cache=cache)
    refused(ValueError, says, LAYER, X, cache=CrossCache(K, V))
    cache_of_one = KVCache()
    LAYER(X[:1], cache=cache_of_one)
    refused(ValueError, "got {'b': 1", LAYER, X, cache=cache_of_one)
    assert same(before, cache) and cache_of_one.n_tokens == T


def test_what_a_layer_refuses_is_not_appended():
    cache = KVCache()
    LAYER(X, cache=cache)
    before = seen(cache)
    says = "may_attend must broadcast to (b, h, t, s) = (2, 6, 4, 8), got shape (4, 4)"
    refused(ValueError, says, LAYER, X, cache=cache, may_attend=torch.ones(4, 4).bool())
    refused(TypeError, "may_attend must be a boolean", LAYER, X, cache=cache, may_attend=X)
    refused(TypeError, "bias must be", LAYER, X, cache=cache, bias=torch.ones(4, 8).int())
    refused(TypeError, "must have the dtype of the layer's", LAYER, X.double(), cache=cache)
    refused(ValueError, "positions have no use", LAYER, X, cache=cache, positions=torch.arange(4))
    refused(ValueError, "turns stand in place of the positions", LAYER, X, turns=(X, X))
    assert same(before, cache)
    narrow = WindowCache(3)
    LAYER(X, cache=narrow)
    says = "(b, h, t, s) = (2, 6, 1, 3), got shape (1, 5)"
    mask = torch.ones(1, 5).bool()
    refused(ValueError, says, LAYER, X[:, :1], cache=narrow, may_attend=mask)
    refused(ValueError, "got k that requires a gradient", TRAINING, X, cache=KVCache())


TRAINING = MultiHeadAttention(M, HEADS)


def test_positions_go_forward():
    cache = KVCache()
    TURNED(X, cache=cache)
    before = seen(cache)
    for positions in (torch.arange(T), torch.tensor([4, 5, 6, 5])):
        says = f"must go on from those before it, got {positions.tolist()} after position 3"
        refused(ValueError, says, TURNED, X, cache=cache, positions=positions)
    turns = TURNED.turns(torch.arange(4, 8))
    both = {"positions": torch.arange(4, 8), "turns": turns}
    refused(ValueError, "turns stand in place of the positions", TURNED, X, cache=cache, **both)
    refused(ValueError, "positions must be at least 0, got -1", TURNED.turns, torch.tensor([-1]))
    refused(TypeError, "positions must be a tensor of signed", TURNED.turns, torch.ones(3))
    assert same(before, cache)
    source = CrossCache(K[..., :4], V)
    refused(ValueError, "with rotary positions and a CrossCache positions", TURNED, X, cache=source)


def test_a_block_takes_the_cache_of_a_source_only_where_it_reads_one():
    sizes = SIZES
    plain, both = Block(sizes).requires_grad_(False), Block(sizes, cross=True).requires_grad_(False)
    x, read = torch.randn(B, T, 6), torch.randn(B, 3, 6)
    cross = CrossCache(both.cross_attention.keys(read), both.cross_attention.values(read))
    refused(ValueError, "read, may_read and cross_cache belong to", plain, x, cross_cache=cross)
    refused(ValueError, "stands in place of read, got both", both, x, read=read, cross_cache=cross)
    refused(TypeError, "must be a CrossCache, got KVCache", both, x, cross_cache=KVCache())
    refused(ValueError, "read must be given to a block with cross-attention", both, x)


# --- models -----------------------------------------------------------------------------------

VOCABULARY, CONTEXT = 11, 9
SIZES = replace(
    PUBLISHED["gpt-2"],
    name="a small model",
    source="made up for a test",
    n_layers=2,
    width=6,
    attention=AttentionSizes(n_query_heads=2, n_kv_heads=2, head_dim=4, value_dim=3, biases=True),
    feed_forward_width=5,
    vocabulary=VOCABULARY,
    context=CONTEXT,
)
WINDOW = {"window": 3, "window_pattern": (True, False)}
MODEL = LanguageModel(SIZES).requires_grad_(False)
RING = LanguageModel(replace(SIZES, **WINDOW)).requires_grad_(False)
TRANSLATOR = EncoderDecoder(replace(SIZES, n_encoder_layers=1)).requires_grad_(False)
TOKENS = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])


def unchanged(cache):
    return cache.n_tokens, cache.nbytes, {x.n_tokens for x in cache.layers}


@pytest.mark.parametrize("model", [MODEL, RING], ids=["all", "window"])
def test_what_a_model_refuses_changes_no_layer(model):
    cache = model.new_cache(capacity=6)
    model(TOKENS, cache=cache)
    before = unchanged(cache)
    refused(ValueError, "got b=1 and b=2 in the cache; reset() it", model, TOKENS[:1], cache=cache)
    says = "a cache of capacity=6 must take n_tokens=4 and 3 more, got 1 too many"
    refused(ValueError, says, model, TOKENS[:, :3], cache=cache)
    refused(ValueError, "tokens must be from 0 to", model, TOKENS + 9, cache=cache)
    mask = torch.ones(B, 8).bool()
    refused(ValueError, "the shape of tokens", model, TOKENS, is_token=mask, cache=cache)
    refused(TypeError, "must be what new_cache gives, got KVCache", model, TOKENS, cache=KVCache())
    other = LanguageModel(model.sizes).requires_grad_(False)
    refused(ValueError, "got one of another model", other, TOKENS[:, :1], cache=cache)
    assert unchanged(cache) == before
    model.double()
    try:
        says = "the dtype of what is kept, torch.float32, got torch.float64"
        refused(TypeError, says, model, TOKENS[:, :1], cache=cache)
    finally:
        model.float()
    assert unchanged(cache) == before
    model(TOKENS[:, :2], cache=cache)


def test_no_row_gets_longer_than_the_context():
    cache = MODEL.new_cache()
    MODEL(TOKENS, cache=cache)
    MODEL(TOKENS, cache=cache)
    says = "at most context=9 places, got n_tokens=8 in the cache and t=2 more"
    refused(ValueError, says, MODEL, TOKENS[:, :2], cache=cache)
    MODEL(TOKENS[:, :1], cache=cache)
    assert cache.n_tokens == 9


def test_a_window_does_not_count_what_it_has_lost():
    cache, mask = RING.new_cache(), torch.tensor([[True, False], [True, True]])
    RING(TOKENS, cache=cache)
    before = unchanged(cache)
    says = (
        "before the first token of a row where layers keep only their window=3, got padding after"
    )
    refused(ValueError, says, RING, TOKENS[:, :2], is_token=mask, cache=cache)
    refused(ValueError, says, RING, TOKENS[:, :1], is_token=mask[:, 1:], cache=cache)
    assert unchanged(cache) == before


def test_gradients_do_not_flow_through_a_cache():
    model = LanguageModel(SIZES)
    cache = model.new_cache()
    refused(ValueError, "use it within torch.inference_mode() or", model, TOKENS, cache=cache)
    assert unchanged(cache) == (0, 0, {0})
    with torch.no_grad():
        model(TOKENS, cache=cache)


def test_a_source_is_in_the_cache_and_nowhere_else():
    source = torch.tensor([[1, 2], [3, 4]])
    read = TRANSLATOR.encode(source)
    cache = TRANSLATOR.new_cache(source)
    for given in ({"read": read}, {"is_source": source > 0}):
        says = "read and may_read are in the cache already, got them and a cache"
        refused(ValueError, says, TRANSLATOR.decode, TOKENS, cache=cache, **given)
    refused(ValueError, "reads the output of an encoder, got read=None", TRANSLATOR.decode, TOKENS)
    says = "got b=1 and b=2 in the cache"
    refused(ValueError, says, TRANSLATOR.decode, TOKENS[:1], cache=cache)
    refused(
        ValueError,
        "is_source must have the shape",
        TRANSLATOR.new_cache,
        source,
        is_source=source[:1] > 0,
    )
    refused(ValueError, "got read=None", TRANSLATOR.decoder.new_cache)
    refused(
        ValueError, "read and may_read are for a decoder beside", MODEL.decoder.new_cache, read=read
    )
    says = "may_read must have the axes (b, s) of read, (2, 2), got (2, 3)"
    mask = torch.ones(2, 3).bool()
    refused(ValueError, says, TRANSLATOR.decoder.new_cache, read=read, may_read=mask)


def test_what_is_asked_of_a_new_cache_is_looked_at():
    for model in (MODEL, RING):
        refused(ValueError, "capacity must be at least 1, got 0", model.new_cache, capacity=0)
        refused(ValueError, "storage must be None or 'int8'", model.new_cache, storage="int4")
    encoder = Encoder(replace(SIZES, causal=False))
    says = "a cache needs a causal model: where tokens read those after them too, every new token"
    refused(ValueError, says, encoder.new_cache)
    refused(ValueError, says, TRANSLATOR.encoder.new_cache)
    cache = Decoder(SIZES).new_cache()
    words = encoder.word_embedding(TOKENS)
    refused(ValueError, "got one of another model", encoder.states_of_words, words, cache=cache)


def test_a_model_takes_back_what_all_its_layers_can():
    cache = RING.new_cache()
    RING(TOKENS, cache=cache)
    before = unchanged(cache)
    refused(ValueError, "cannot give back what it has evicted", cache.truncate, 2)
    refused(ValueError, "n_tokens must be at most 4, got 5", cache.truncate, 5)
    refused(ValueError, "a row must be at most 1, got 2", cache.reorder, [2])
    refused(ValueError, "has no rows to reorder", MODEL.new_cache().reorder, [0])
    assert unchanged(cache) == before


# --- speculative decoding and beam search -----------------------------------------------------


def test_what_is_to_be_continued_is_looked_at_before_any_model_is_asked(monkeypatch):
    def asked(*_, **__):
        raise AssertionError("the model was asked before the refusal")

    for model in (MODEL, RING, TRANSLATOR):
        monkeypatch.setattr(model, "forward", asked)
    other = LanguageModel(replace(SIZES, vocabulary=12))
    short = LanguageModel(replace(SIZES, context=5))

    def speculate(model=MODEL, draft=MODEL, tokens=(1, 2), n_new=3, **options):
        return speculative_generate(model, draft, list(tokens), n_new, **options)

    refused(TypeError, "model must be a LanguageModel, got Encod", speculate, TRANSLATOR)
    refused(TypeError, "draft must be a LanguageModel, got str", speculate, draft="small")
    refused(ValueError, "the same vocabulary, got v=11 and v=12", speculate, draft=other)
    refused(ValueError, "n_draft must be at least 1, got 0", speculate, n_draft=0)
    refused(ValueError, "context that the model reads, got t=2, n_new=9", speculate, n_new=9)
    says = "context that the draft reads, got t=2, n_new=5 and context=5"
    refused(ValueError, says, speculate, draft=short, n_new=5)
    says = "the window of the draft, since its ring could not take back more, got t=2, n_new=3 and"
    refused(ValueError, says, speculate, draft=RING)

    def search(model=MODEL, tokens=(1, 2), n_new=3, n_beams=2, **options):
        return beam_search(model, tokens, n_new, n_beams, **options)

    refused(TypeError, "model must be a LanguageModel or an Encod", search, RING.decoder)
    refused(ValueError, "n_beams must be at least 1, got 0", search, n_beams=0)
    refused(ValueError, "context that the model reads, got t=2, n_new=9", search, n_new=9)
    refused(ValueError, "must be given a source, got source=None", search, TRANSLATOR)
    refused(ValueError, "source and is_source belong to an EncoderDecoder", search, source=[1])
    refused(ValueError, "an id of stop must be at most 10, got 11", search, stop=[11])
    for call in (speculate, search):
        refused(ValueError, "n_new must be at least 0, got -1", call, n_new=-1)
        refused(TypeError, "n_new must be a whole number, got 2.0", call, n_new=2.0)
        refused(ValueError, "at least 1 token, got 0 in row 0", call, tokens=())
        refused(ValueError, "11", call, tokens=(1, 11))


def test_logits_that_are_no_numbers_are_named():
    model = LanguageModel(SIZES).requires_grad_(False)
    model.decoder.word_embedding.weight.fill_(torch.nan)
    says = "the model's logits must hold a finite one and neither NaN nor +inf, got NaN in row 0"
    refused(FloatingPointError, says, beam_search, model, [1, 2], 3, 2)
    refused(FloatingPointError, says, speculative_generate, model, MODEL, [1, 2], 3)
    refused(FloatingPointError, says, speculative_generate, MODEL, model, [1, 2], 3)


def test_a_cache_is_used_or_not():
    for use_cache in (1, None, "yes"):
        says = f"use_cache must be True or False, got {use_cache!r}"
        refused(TypeError, says, generate, MODEL, [[1]], 2, use_cache=use_cache)
