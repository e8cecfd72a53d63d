"""Caches hold what those of transformers hold, and the logits of every chunk are theirs.

On random weights; that the models are the same without cache is in test_models_parity.py.
"""

import pytest
import torch
from test_models_parity import IS_SOURCE, B, V, bart, gemma_3, gpt_2, in_fp64, llama
from transformers import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

T, CHUNKS = 11, (4, 1, 1, 3, 2)  # more tokens than Gemma's window of 3
TOKENS = torch.randint(3, V, (B, T), generator=torch.Generator().manual_seed(6))
LEFT = torch.arange(T) >= torch.tensor([[2], [0]])
ATOL = 1e-11  # as without cache


def assert_equal(actual, wanted):
    torch.testing.assert_close(actual, wanted, rtol=0, atol=ATOL)


def chunks():
    ends = torch.tensor(CHUNKS).cumsum(0).tolist()
    return [slice(end - n, end) for end, n in zip(ends, CHUNKS, strict=True)]


@pytest.fixture(scope="module", params=[gpt_2, llama, gemma_3], ids=["gpt-2", "llama", "gemma-3"])
def pair(request):
    return request.param()


@pytest.mark.parametrize("is_token", [torch.ones(B, T).bool(), LEFT], ids=["whole", "padded"])
def test_chunk_by_chunk_the_logits_are_those_of_their_cached_model(pair, is_token):
    theirs, ours = pair
    cache, their_cache = ours.new_cache(), DynamicCache(config=theirs.config)
    positions = (is_token.cumsum(-1) - 1).clamp(min=0)
    for chunk in chunks():
        with in_fp64(), torch.no_grad():
            wanted = theirs(
                input_ids=TOKENS[:, chunk],
                attention_mask=is_token[:, : chunk.stop].long(),
                position_ids=positions[:, chunk],
                cache=their_cache,
                use_cache=True,
            ).logits
        logits = ours(TOKENS[:, chunk], is_token=is_token[:, chunk], cache=cache)
        assert_equal(logits[is_token[:, chunk]], wanted[is_token[:, chunk]])


def test_keys_and_values_are_theirs_place_by_place(pair):
    theirs, ours = pair
    cache, their_cache = ours.new_cache(), DynamicCache(config=theirs.config)
    for chunk in chunks():
        with in_fp64(), torch.no_grad():
            theirs(input_ids=TOKENS[:, chunk], cache=their_cache, use_cache=True)
        ours(TOKENS[:, chunk], cache=cache)
    their_bytes = 0
    for layer, theirs_layer in zip(cache.layers, their_cache.layers, strict=True):
        # nothing new: the places that one more token would read, without its own
        places, n_kept = layer.places(0), theirs_layer.keys.shape[2]
        no_token = theirs_layer.keys[:, :, :0], theirs_layer.values[:, :, :0]
        for kept, wanted in zip(
            layer.append(*no_token), (theirs_layer.keys, theirs_layer.values), strict=True
        ):
            assert_equal(kept, wanted[:, :, places - (T - n_kept)])
            their_bytes += wanted.nbytes
    # a ring of W has one token more than they keep for the next
    n_rings = ours.sizes.n_window_layers
    heads = ours.sizes.attention
    a_token = B * heads.n_kv_heads * (heads.head_dim + heads.value_dim) * 8
    assert cache.nbytes == their_bytes + n_rings * a_token


def test_chunk_by_chunk_a_translation_is_that_of_bart():
    theirs, ours = bart()
    source = torch.randint(3, V, IS_SOURCE.shape, generator=torch.Generator().manual_seed(7))
    cache = ours.new_cache(source, is_source=IS_SOURCE)
    their_cache = EncoderDecoderCache(
        DynamicCache(config=theirs.config), DynamicCache(config=theirs.config)
    )
    with in_fp64(), torch.no_grad():
        encoded = theirs.model.encoder(source, attention_mask=IS_SOURCE.long()).last_hidden_state
        for chunk in chunks():
            wanted = theirs(
                encoder_outputs=BaseModelOutput(last_hidden_state=encoded),
                attention_mask=IS_SOURCE.long(),
                decoder_input_ids=TOKENS[:, chunk],
                cache=their_cache,
                use_cache=True,
            ).logits
            assert_equal(ours.decode(TOKENS[:, chunk], cache=cache), wanted)
    for layer, theirs_layer in zip(cache.cross, their_cache.cross_attention_cache.layers, strict=1):
        k, v = layer.read()
        for row in range(B):  # what they make of padding is of no concern
            assert_equal(k[row][:, IS_SOURCE[row]], theirs_layer.keys[row][:, IS_SOURCE[row]])
            assert_equal(v[row][:, IS_SOURCE[row]], theirs_layer.values[row][:, IS_SOURCE[row]])
