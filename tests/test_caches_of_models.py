"""The equivalence theorem of chapter kv-caching: a causal model may be read in any chunks.

Keys and values never change once they are made, so that what a model gives for a chunk, with the
cache of all before it, is what it gives for those places of the whole rows.
"""

import copy
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnlib import AttentionSizes, Decoder, Encoder, EncoderDecoder, LanguageModel, ModelSizes
from attnlib.caches import CrossCache, KVCache, WindowCache
from attnlib.sizes import RotarySizes

# All different; two queries a key/value head and three of these, so that g is neither 1 nor h.
B, T, S, H, G, D, E, M, INNER, V, CONTEXT = 2, 12, 5, 6, 3, 4, 7, 8, 11, 13, 16
N_LAYERS = 3
SIZES = ModelSizes(
    name="a small model",
    source="made up for a test",
    n_layers=N_LAYERS,
    width=M,
    attention=AttentionSizes(n_query_heads=H, n_kv_heads=G, head_dim=D, value_dim=E),
    feed_forward_width=INNER,
    gated=True,
    activation="silu",
    vocabulary=V,
    tied_embeddings=True,
    norm="rms",
    norm_placement="pre",
    norm_epsilon=1e-3,
    context=CONTEXT,
)
POSITIONS = {
    "rotary": {"rotary": RotarySizes(base=100.0)},
    "learned": {"learned_positions": True},
    "sinusoidal": {"sinusoidal_positions": True},
    "none": {},
}
ATOL = 1e-11  # ten thousand roundings of numbers of size 10 in fp64


def made(kind=LanguageModel, seed=0, **changes):
    """In fp64, every number random, so that no part of a token is without influence."""
    sizes = replace(SIZES, **changes)
    model = kind(sizes, pairing=None if sizes.rotary is None else "half").double().eval()
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.requires_grad_(False).named_parameters():
        spread = 1.0 if "embedding" in name or weight.ndim == 1 else weight.shape[1] ** -0.5
        weight.copy_(spread * torch.randn(weight.shape, generator=generator).double())
    return model


def with_window(window):
    return {"window": window, "window_pattern": (True, False, True)} if window else {}


MODELS = {
    (name, window): made(**POSITIONS[name], **with_window(window))
    for name in POSITIONS
    for window in (None, 1, 3, 5)
}
MODEL, RING = MODELS["rotary", None], MODELS["rotary", 3]
TRANSLATOR = made(EncoderDecoder, n_encoder_layers=2, **POSITIONS["rotary"])


def numbers(*shape, seed=1):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


def padded(n_paddings, t=T):
    """Where tokens stand in rows that are filled up on the left."""
    return torch.arange(t) >= torch.tensor(n_paddings)[:, None]


TOKENS, SOURCE = numbers(B, T), numbers(B, S, seed=2)


def in_chunks(read, tokens, chunks, is_token=None):
    """The results of `read` for one chunk after the other, side by side; the sizes go round."""
    results, begin, i = [], 0, 0
    while begin < tokens.shape[1]:
        end = begin + chunks[i % len(chunks)]
        mask = None if is_token is None else is_token[:, begin:end]
        results.append(read(tokens[:, begin:end], is_token=mask))
        begin, i = end, i + 1
    return torch.cat(results, dim=1)


def reader(model, cache):
    read = model.decode if isinstance(model, EncoderDecoder) else model
    return lambda tokens, is_token=None: read(tokens, is_token=is_token, cache=cache)


def assert_equal(actual, wanted, where=None):
    if where is not None:
        actual, wanted = actual[where], wanted[where]
    torch.testing.assert_close(actual, wanted, rtol=0, atol=ATOL)


CHUNKS = st.lists(st.integers(1, 6), min_size=1, max_size=5)
PADDINGS = st.lists(st.integers(0, T - 1), min_size=B, max_size=B)


# --- the theorem ------------------------------------------------------------------------------


@settings(max_examples=20)
@given(chunks=CHUNKS, n_paddings=PADDINGS, name=st.sampled_from(sorted(MODELS, key=str)))
@example(chunks=[1], n_paddings=[9, 4], name=("rotary", 5))  # a ring that wraps within padding
def test_any_chunks_give_what_the_whole_gives(chunks, n_paddings, name):
    model, is_token = MODELS[name], padded(n_paddings)
    cache = model.new_cache()
    logits = in_chunks(reader(model, cache), TOKENS, chunks, is_token)
    assert_equal(logits, model(TOKENS, is_token=is_token), is_token)
    assert cache.n_tokens == T
    assert cache.n_tokens_of_rows == [T - n for n in n_paddings]


@settings(max_examples=4)
@given(chunks=CHUNKS, n_paddings=PADDINGS, source_padding=st.integers(0, S - 1))
def test_any_chunks_of_a_translation_give_what_the_whole_gives(chunks, n_paddings, source_padding):
    is_token = padded(n_paddings)
    is_source = torch.arange(S) < torch.tensor([[S], [S - source_padding]])
    cache = TRANSLATOR.new_cache(SOURCE, is_source=is_source)
    logits = in_chunks(reader(TRANSLATOR, cache), TOKENS, chunks, is_token)
    wanted = TRANSLATOR(SOURCE, TOKENS, is_source=is_source, is_token=is_token)
    assert_equal(logits, wanted, is_token)


@pytest.mark.parametrize("name", POSITIONS)
def test_one_token_at_a_time_from_the_first_one_on(name):
    model = MODELS[name, None]
    logits = in_chunks(reader(model, model.new_cache()), TOKENS, [1])
    assert_equal(logits, model(TOKENS))
    # what comes before a token matters: the cache does advance
    alone = torch.cat([model(TOKENS[:, i : i + 1]) for i in range(T)], dim=1)
    assert ((logits - alone)[:, 1:].abs().amax(-1) > 1e-3).all()


@pytest.mark.parametrize("n_kv_heads", [1, 2, H])
def test_query_heads_share_what_is_kept(n_kv_heads):
    heads = replace(SIZES.attention, n_kv_heads=n_kv_heads)
    model = made(attention=heads, **POSITIONS["rotary"])
    cache = model.new_cache()
    assert_equal(in_chunks(reader(model, cache), TOKENS, [5, 1, 1, 3]), model(TOKENS))
    assert cache.nbytes == N_LAYERS * B * T * n_kv_heads * (D + E) * 8


def test_padding_may_stand_anywhere_where_all_tokens_are_kept():
    is_token = torch.rand(B, T, generator=torch.Generator().manual_seed(4)) < 0.6
    logits = in_chunks(reader(MODEL, MODEL.new_cache()), TOKENS, [3, 1, 4], is_token)
    assert_equal(logits, MODEL(TOKENS, is_token=is_token), is_token)


def test_a_chunk_of_padding_alone_may_come_first():
    is_token = padded([7, 7])
    for model in (MODEL, RING):
        logits = in_chunks(reader(model, model.new_cache()), TOKENS, [4, 2, 3], is_token)
        assert_equal(logits, model(TOKENS, is_token=is_token), is_token)


def test_every_kind_of_model_with_a_cache_has_the_same_states():
    decoder = made(Decoder, **POSITIONS["learned"])
    cache = decoder.new_cache()
    states = [decoder.states(chunk, cache=cache) for chunk in TOKENS.split(5, dim=1)]
    for parts, whole in zip(zip(*states, strict=True), decoder.states(TOKENS), strict=True):
        assert_equal(torch.cat(parts, dim=1), whole)
    beside = made(Decoder, n_encoder_layers=1)
    read = torch.randn(B, S, M, generator=torch.Generator().manual_seed(3)).double()
    may_read = padded([2, 0], S)
    cache = beside.new_cache(read=read, may_read=may_read)
    out = in_chunks(lambda x, is_token: beside(x, cache=cache), TOKENS, [2, 5])
    assert_equal(out, beside(TOKENS, read=read, may_read=may_read))


# --- another text, another end, other rows ----------------------------------------------------


@pytest.mark.parametrize("model", [MODEL, RING], ids=["all", "window"])
def test_after_a_reset_nothing_is_left_of_the_text_before(model):
    cache = model.new_cache()
    first = in_chunks(reader(model, cache), TOKENS, [4, 1], padded([0, 5]))
    cache.reset()
    assert (cache.n_tokens, cache.n_rows, cache.nbytes, cache.is_token) == (0, None, 0, None)
    other = numbers(B + 1, 7, seed=8)
    assert_equal(in_chunks(reader(model, cache), other, [3, 1]), model(other))
    assert first.isfinite().all()


def test_after_a_reset_a_source_is_still_there():
    cache = TRANSLATOR.new_cache(SOURCE)
    in_chunks(reader(TRANSLATOR, cache), TOKENS, [4])
    source_bytes = sum(x.nbytes for x in cache.cross)
    cache.reset()
    assert cache.nbytes == source_bytes == N_LAYERS * B * S * G * (D + E) * 8
    other = numbers(B, 6, seed=8)
    assert_equal(in_chunks(reader(TRANSLATOR, cache), other, [1]), TRANSLATOR(SOURCE, other))


@settings(max_examples=8)
@given(kept=st.integers(0, 8), n_paddings=PADDINGS, chunks=CHUNKS)
def test_tokens_that_are_taken_back_were_never_there(kept, n_paddings, chunks):
    is_token = padded(n_paddings)
    cache = MODEL.new_cache()
    in_chunks(reader(MODEL, cache), TOKENS[:, :9], [3], is_token[:, :9])
    cache.truncate(kept)
    other = numbers(B, T - kept, seed=8)
    logits = in_chunks(reader(MODEL, cache), other, chunks, is_token[:, kept:])
    whole = MODEL(torch.cat([TOKENS[:, :kept], other], dim=1), is_token=is_token)
    assert_equal(logits, whole[:, kept:], is_token[:, kept:])


def test_a_window_takes_back_what_it_still_has():
    for n, kept in ((3, 1), (7, 6)):
        cache = RING.new_cache()
        in_chunks(reader(RING, cache), TOKENS[:, :n], [1])
        cache.truncate(kept)
        logits = in_chunks(reader(RING, cache), TOKENS[:, kept:], [1, 3])
        assert_equal(logits, RING(TOKENS)[:, kept:])
    before = cache.nbytes
    with pytest.raises(ValueError, match="cannot give back what it has evicted"):
        cache.truncate(8)
    # the layer without a window could have: it was not touched
    assert cache.nbytes == before and {x.n_tokens for x in cache.layers} == {T}


@settings(max_examples=4)
@given(rows=st.lists(st.integers(0, B - 1), min_size=1, max_size=4), n_paddings=PADDINGS)
def test_rows_may_be_dropped_exchanged_and_repeated(rows, n_paddings):
    is_token = padded(n_paddings)
    is_source = torch.arange(S) < torch.tensor([[S], [2]])
    for model in (MODEL, RING, TRANSLATOR):
        both = model is TRANSLATOR
        source = {"is_source": is_source} if both else {}
        cache = model.new_cache(SOURCE, **source) if both else model.new_cache()
        in_chunks(reader(model, cache), TOKENS[:, :7], [4], is_token[:, :7])
        cache.reorder(rows)
        assert cache.n_rows == len(rows)
        new = numbers(len(rows), T - 7, seed=8)
        whole = torch.cat([TOKENS[rows, :7], new], dim=1)
        logits = in_chunks(reader(model, cache), new, [1, 3], is_token[rows, 7:])
        source = {name: x[rows] for name, x in source.items()}
        given_them = (SOURCE[rows], whole) if both else (whole,)
        wanted = model(*given_them, is_token=is_token[rows], **source)[:, 7:]
        assert_equal(logits, wanted, is_token[rows, 7:])


def test_a_copy_of_a_cache_is_another_end_of_the_same_text():
    cache = MODEL.new_cache()
    MODEL(TOKENS[:, :6], cache=cache)
    other = copy.deepcopy(cache)
    first, second = (MODEL(TOKENS[:, i : i + 2], cache=c) for i, c in ((6, cache), (8, other)))
    assert_equal(first, MODEL(TOKENS[:, :8])[:, 6:])
    assert_equal(second, MODEL(TOKENS[:, [0, 1, 2, 3, 4, 5, 8, 9]])[:, 6:])


# --- what is kept -----------------------------------------------------------------------------


def test_bytes_are_those_of_every_number_that_is_kept():
    cache = RING.new_cache()
    assert [type(x) for x in cache.layers] == [WindowCache, KVCache, WindowCache]
    for n in range(1, 8):
        RING(TOKENS[:, n - 1 : n], cache=cache)
        count = 0
        for window in RING.sizes.windows:
            for place in range(n):
                if window is None or place >= n - window:
                    count += B * G * (D + E)
        assert cache.nbytes == 8 * count
    assert cache.nbytes_allocated > cache.nbytes


def test_the_dtype_is_that_of_the_model():
    model = made(**POSITIONS["rotary"]).to(torch.bfloat16)
    cache = model.new_cache(capacity=T)
    model(TOKENS, cache=cache)
    assert cache.nbytes == cache.nbytes_allocated == 2 * N_LAYERS * B * T * G * (D + E)


def test_a_source_is_made_into_keys_and_values_once():
    calls = []
    parts = [TRANSLATOR.encoder.blocks[0]]
    for block in TRANSLATOR.decoder.blocks:
        parts += [block.cross_attention.key, block.cross_attention.value]
    hooks = [part.register_forward_hook(lambda part, *_: calls.append(part)) for part in parts]
    try:
        cache = TRANSLATOR.new_cache(SOURCE)
        assert set(calls) == set(parts) and len(calls) == len(parts)
        in_chunks(reader(TRANSLATOR, cache), TOKENS, [3, 1])
        assert len(calls) == len(parts)
    finally:
        for hook in hooks:
            hook.remove()


def test_angles_are_made_once_a_chunk_for_all_layers_that_turn_alike(monkeypatch):
    rotary = {"rotary": RotarySizes(base=100.0, window_base=20.0)}
    model = made(**rotary, **with_window(3))
    cache, seen, calls = model.new_cache(), [], []
    model(TOKENS[:, :5], cache=cache)
    kind = type(model.decoder.blocks[0].attention)
    turns = kind.turns
    monkeypatch.setattr(kind, "turns", lambda self, p: calls.append(p) or turns(self, p))
    for block in model.decoder.blocks:
        block.attention.register_forward_pre_hook(
            lambda module, given, options: seen.append(options["turns"]), with_kwargs=True
        )
    model(TOKENS[:, 5:7], cache=cache)
    assert [p.tolist() for p in calls] == [[5, 6]] * 2  # with a window and without
    assert seen[0] is seen[2] is not seen[1]
    for block, given_them in zip(model.decoder.blocks, seen, strict=True):
        assert torch.equal(given_them.cos, turns(block.attention, torch.tensor([5, 6])).cos)


@pytest.mark.parametrize("model", [MODEL, RING], ids=["all", "window"])
def test_one_token_without_padding_needs_no_mask_and_more_do(model):
    masks = []
    hooks = [
        block.attention.register_forward_pre_hook(
            lambda module, given, options: masks.append(options["may_attend"]), with_kwargs=True
        )
        for block in model.decoder.blocks
    ]
    try:
        in_chunks(reader(model, model.new_cache()), TOKENS[:, :8], [5, 1, 2])
    finally:
        for hook in hooks:
            hook.remove()
    given_them = [mask is not None for mask in masks]
    assert given_them == [True] * N_LAYERS + [False] * N_LAYERS + [True] * N_LAYERS


@settings(max_examples=4)
@given(chunks=CHUNKS)
def test_eight_bits_lose_little_and_no_chunk_changes_them(chunks):
    caches = [RING.new_cache(storage="int8") for _ in range(2)]
    at_once = RING(TOKENS, cache=caches[0])
    assert_equal(in_chunks(reader(RING, caches[1]), TOKENS, chunks), at_once)
    assert caches[0].nbytes == caches[1].nbytes
    # a byte for a number and 8 for a scale: (4 + 8) + (7 + 8) for 8·(4 + 7) in fp64
    exact = RING.new_cache()
    whole = RING(TOKENS, cache=exact)
    assert caches[0].nbytes * 8 * (D + E) == exact.nbytes * (D + E + 16)
    assert 0 < (at_once - whole).abs().max() < 0.1 * whole.abs().max()


# --- interrupts -------------------------------------------------------------------------------


def interrupted(model, tokens, cache, layer=1):
    """Read a chunk, and stop in the middle of a layer, after those before it have written."""

    def stop(*_):
        raise KeyboardInterrupt

    hook = model.decoder.blocks[layer].attention.output.register_forward_hook(stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            reader(model, cache)(tokens)
    finally:
        hook.remove()


@pytest.mark.parametrize("model", [MODEL, RING, TRANSLATOR], ids=["all", "window", "both"])
def test_after_an_interrupt_the_cache_is_as_it_was(model):
    both = model is TRANSLATOR
    cache = model.new_cache(SOURCE) if both else model.new_cache()
    interrupted(model, TOKENS[:, :5], cache)
    assert (cache.n_tokens, cache.layers[0].n_tokens) == (0, 0)
    parts = [reader(model, cache)(TOKENS[:, :6])]
    interrupted(model, TOKENS[:, 8:9], cache)
    assert {x.n_tokens for x in cache.layers} == {cache.n_tokens} == {6}
    parts += [reader(model, cache)(TOKENS[:, i : i + 1]) for i in range(6, T)]
    whole = model(SOURCE, TOKENS) if both else model(TOKENS)
    assert_equal(torch.cat(parts, dim=1), whole)


def test_a_ring_that_was_interrupted_within_a_chunk_says_so_until_it_is_reset():
    cache = RING.new_cache()
    RING(TOKENS[:, :6], cache=cache)
    interrupted(RING, TOKENS[:, 6:9], cache)
    for use in (
        lambda: RING(TOKENS[:, 6:7], cache=cache),
        lambda: cache.truncate(2),
        lambda: cache.reorder([0]),
    ):
        with pytest.raises(ValueError, match="was interrupted while a chunk was written, and it"):
            use()
    cache.reset()
    assert_equal(in_chunks(reader(RING, cache), TOKENS, [4, 1]), RING(TOKENS))


def full(*_):
    raise MemoryError


def test_after_an_error_in_the_last_norm_the_cache_is_as_it_was(monkeypatch):
    decoder = made(Decoder, **POSITIONS["learned"])
    cache = decoder.new_cache()
    first = decoder(TOKENS[:, :4], cache=cache)
    with monkeypatch.context() as patched, pytest.raises(MemoryError):
        patched.setattr(decoder.end_norm, "forward", full)
        decoder(TOKENS[:, 4:7], cache=cache)
    assert {x.n_tokens for x in cache.layers} == {cache.n_tokens} == {4}
    later = decoder(TOKENS[:, 4:], cache=cache)
    assert_equal(torch.cat([first, later], dim=1), decoder(TOKENS))


@pytest.mark.parametrize("model", [MODEL, TRANSLATOR], ids=["language", "both"])
def test_after_an_error_in_the_logits_the_cache_is_as_it_was(model, monkeypatch):
    """They are the largest tensor of all: memory ends there."""
    both = model is TRANSLATOR
    cache = model.new_cache(SOURCE) if both else model.new_cache()
    is_token = padded([0, 2], 6)
    first = reader(model, cache)(TOKENS[:, :6], is_token)

    for n_new in (1, 3):
        with monkeypatch.context() as patched, pytest.raises(MemoryError):
            patched.setattr(sys.modules[type(model).__module__], "logits_of_states", full)
            reader(model, cache)(TOKENS[:, 6 : 6 + n_new], padded([0, 0], n_new))
        assert {x.n_tokens for x in cache.layers} == {cache.n_tokens} == {6}
        assert torch.equal(cache.is_token, is_token)
    later = in_chunks(reader(model, cache), TOKENS[:, 6:], [1, 3])
    mask = torch.cat([is_token, padded([0, 0], T - 6)], dim=1)
    whole = model(*((SOURCE, TOKENS) if both else (TOKENS,)), is_token=mask)
    assert_equal(torch.cat([first, later], dim=1), whole, mask)


def test_a_ring_that_lost_a_chunk_behind_the_layers_says_so(monkeypatch):
    cache = RING.new_cache()
    RING(TOKENS[:, :6], cache=cache)

    for n_new, is_lost in ((1, False), (2, True)):
        with monkeypatch.context() as patched, pytest.raises(MemoryError):
            patched.setattr(sys.modules[LanguageModel.__module__], "logits_of_states", full)
            RING(TOKENS[:, 6 : 6 + n_new], cache=cache)
        if is_lost:
            for _ in range(2):  # what is refused mends nothing
                with pytest.raises(ValueError, match="interrupted while a chunk was written"):
                    RING(TOKENS[:, 6:7], cache=cache)


@pytest.mark.parametrize("model", [MODEL, TRANSLATOR], ids=["language", "both"])
def test_rows_that_were_half_reordered_are_not_read(model, monkeypatch):
    both = model is TRANSLATOR
    cache = model.new_cache(SOURCE) if both else model.new_cache()
    reader(model, cache)(TOKENS[:, :6])
    reorder, calls = KVCache.reorder, []

    def stop(self, rows):
        calls.append(self)
        if len(calls) == 2:
            raise KeyboardInterrupt
        reorder(self, rows)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        for kind in (KVCache, CrossCache):
            patched.setattr(kind, "reorder", stop)
        cache.reorder([1, 0])
    again = "make another with new_cache" if both else r"reset\(\) it"
    says = f"interrupted while its rows were reordered, and its layers no longer .*; {again} and"
    uses = [lambda: reader(model, cache)(TOKENS[:, 6:7]), lambda: cache.reorder([1, 0])]
    for use in [*uses, cache.reset] if both else uses:
        with pytest.raises(ValueError, match=says):
            use()
    if not both:
        cache.reset()
        assert_equal(in_chunks(reader(model, cache), TOKENS, [4, 1]), model(TOKENS))


def test_where_a_source_is_padding_is_kept_as_it_was():
    is_source = torch.arange(S) < torch.tensor([[S], [2]])
    wanted = TRANSLATOR(SOURCE, TOKENS, is_source=is_source)
    cache = TRANSLATOR.new_cache(SOURCE, is_source=is_source)
    is_source[:] = True
    assert_equal(reader(TRANSLATOR, cache)(TOKENS), wanted)


# --- when it fails ----------------------------------------------------------------------------


def test_a_model_that_reads_both_sides_has_no_cache_and_says_why():
    encoder = made(Encoder, causal=False)
    for stack in (encoder, TRANSLATOR.encoder):
        with pytest.raises(ValueError, match="every new token changes the keys and values of all"):
            stack.new_cache()
    # the reason: what a token leaves depends on the tokens after it
    first, longer = (encoder.states(TOKENS[:1, :n])[1][:, :3] for n in (3, 4))
    assert (first - longer).abs().max() > 1e-3
