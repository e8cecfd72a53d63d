"""What a layer keeps of its tokens is what those to come may read: chapter kv-caching.

Whole models are in test_caches_of_models.py, those of transformers in
test_caches_of_transformers.py.
"""

import copy
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from attnlib import AttentionSizes, MultiHeadAttention, causal_mask
from attnlib.caches import CrossCache, KVCache, WindowCache, from_int8, to_int8
from attnlib.sizes import RotarySizes

B, G, D, E = 2, 3, 4, 5


def stream(n, b=B, seed=0, dtype=torch.float64):
    """Keys and values of n tokens."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(b, G, n, d, generator=generator, dtype=dtype) for d in (D, E))


def cut(x, chunks):
    return x.split(list(chunks), dim=-2)


CHUNKS = st.lists(st.integers(1, 9), min_size=1, max_size=7)
WINDOWS = st.integers(1, 8)

# --- all tokens -------------------------------------------------------------------------------


@settings(max_examples=15)
@given(chunks=CHUNKS, capacity=st.booleans())
def test_what_may_be_read_is_all_that_was_appended_in_its_order(chunks, capacity):
    n = sum(chunks)
    k, v = stream(n)
    cache, end = KVCache(capacity=n if capacity else None), 0
    for new_k, new_v in zip(cut(k, chunks), cut(v, chunks), strict=True):
        assert cache.places(new_k.shape[2]).tolist() == list(range(end + new_k.shape[2]))
        end += new_k.shape[2]
        read_k, read_v = cache.append(new_k, new_v)
        assert torch.equal(read_k, k[:, :, :end]) and torch.equal(read_v, v[:, :, :end])
        assert cache.n_tokens == cache.n_kept == end


def test_a_token_is_written_where_it_stays_and_nothing_else_moves():
    """Two tokens after each other read the same memory."""
    cache, (k, v) = KVCache(), stream(70)
    first = cache.append(k[:, :, :65], v[:, :, :65])
    second = cache.append(k[:, :, 65:66], v[:, :, 65:66])
    for x, y in zip(first, second, strict=True):
        assert x.data_ptr() == y.data_ptr()


def test_memory_grows_by_half_in_blocks_and_a_capacity_is_taken_at_once():
    k, v = stream(500)
    a_token = B * G * (D + E) * 8
    cache, held = KVCache(), []
    for n in range(1, 501):
        read_k, read_v = cache.append(k[:, :, n - 1 : n], v[:, :, n - 1 : n])
        assert cache.nbytes == n * a_token
        held.append(cache.nbytes_allocated // a_token)
        assert n <= held[-1] < max(64, 1.5 * n + 64)
    assert held[0] == 64 and all(size % 64 == 0 for size in held)
    moved = 0  # tokens; the most for one is where memory has just grown
    for n, (old, new) in enumerate(pairwise(held), start=2):
        moved += old if new != old else 0
        assert moved < 3 * n
    assert torch.equal(read_k, k) and torch.equal(read_v, v)
    fixed = KVCache(capacity=100)
    assert fixed.nbytes_allocated == 0
    fixed.append(k[:, :, :1], v[:, :, :1])
    assert (fixed.nbytes, fixed.nbytes_allocated) == (a_token, 100 * a_token)


# --- a window ---------------------------------------------------------------------------------


@settings(max_examples=25)
@given(chunks=CHUNKS, window=WINDOWS)
def test_a_ring_gives_every_token_that_is_within_a_window_of_the_chunk(chunks, window):
    n = sum(chunks)
    k, v = stream(n)
    cache, end = WindowCache(window), 0
    for new_k, new_v in zip(cut(k, chunks), cut(v, chunks), strict=True):
        t = new_k.shape[2]
        places = cache.places(t).tolist()
        assert cache.n_sources(t) == len(places)
        # from the first place of the first target's window to the last target
        assert sorted(places) == list(range(max(0, end - window + 1), end + t))
        end += t
        read_k, read_v = cache.append(new_k, new_v)
        assert torch.equal(read_k, k[:, :, places]) and torch.equal(read_v, v[:, :, places])
        assert (cache.n_tokens, cache.n_kept) == (end, min(end, window))


@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_what_is_written_into_a_ring_is_read_where_it_wraps(window):
    cache = WindowCache(window)
    for n in range(3 * window + 1):
        token = torch.full((1, 1, 1, 1), float(n))
        k, v = cache.append(token, -token)
        assert sorted(k.flatten().tolist()) == list(range(max(0, n - window + 1), n + 1))
        assert torch.equal(v, -k)
        # slot n mod W, and no other one, holds the new token
        assert k[0, 0, n % window].item() == n


def test_one_token_moves_nothing_in_a_ring():
    cache, (k, v) = WindowCache(4), stream(9)
    cache.append(k[:, :, :6], v[:, :, :6])
    reads = [cache.append(k[:, :, n : n + 1], v[:, :, n : n + 1])[0] for n in range(6, 9)]
    assert len({x.data_ptr() for x in reads}) == 1
    assert cache.nbytes == cache.nbytes_allocated == 4 * B * G * (D + E) * 8


def test_a_ring_gives_back_what_it_has_and_says_what_it_has_not():
    cache, (k, v) = WindowCache(4), stream(9)
    cache.append(k[:, :, :3], v[:, :, :3])
    cache.truncate(1)  # nothing is evicted yet
    assert cache.places(2).tolist() == [0, 1, 2]
    cache.append(k[:, :, 1:9], v[:, :, 1:9])
    cache.truncate(8)  # the target at place 8 reads 5 to 8, and 5 is kept
    assert torch.equal(cache.append(k[:, :, 8:], v[:, :, 8:])[0], k[:, :, [8, 5, 6, 7]])
    says = "with n_tokens=7 the next target reads from place 4 on, and the first .* kept is 5"
    with pytest.raises(ValueError, match=says):
        cache.truncate(7)
    assert cache.n_tokens == 9
    cache.truncate(0)
    assert (cache.n_tokens, cache.nbytes, cache.n_rows) == (0, 0, None)


@pytest.mark.parametrize("n_before", [0, 4])
def test_a_ring_that_was_interrupted_within_a_chunk_reads_nothing_of_it(n_before, monkeypatch):
    cache, (k, v) = WindowCache(3), stream(8)
    if n_before:
        cache.append(k[:, :, :n_before], v[:, :, :n_before])
    copied, calls = torch.Tensor.index_copy_, []

    def stop(self, *given):
        copied(self, *given)
        calls.append(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(torch.Tensor, "index_copy_", stop)
        cache.append(k, v)
    assert len(calls) == 1 and cache.n_tokens == n_before and cache.nbytes == 0
    if n_before:
        with pytest.raises(ValueError, match="n_tokens=4 the next target reads from place 2 on"):
            cache.append(k[:, :, :1], v[:, :, :1])
        cache.reset()
    cache.append(k[:, :, :4], v[:, :, :4])
    assert torch.equal(cache.append(k[:, :, 4:6], v[:, :, 4:6])[0], k[:, :, 2:6])
    assert cache.n_kept == 3


# --- the definition: a list of tokens ---------------------------------------------------------


@settings(max_examples=25)
@given(data=st.data(), window=st.none() | WINDOWS)
def test_whatever_is_done_the_cache_is_a_list_of_tokens(data, window):
    """Append, truncate, reorder and reset in any order, against plain lists."""
    cache = KVCache() if window is None else WindowCache(window)
    rows, n_seen, first = [[] for _ in range(B)], 0, 0
    for _ in range(data.draw(st.integers(1, 8))):
        kind = data.draw(st.sampled_from(["append", "append", "truncate", "reorder", "reset"]))
        n = len(rows[0])
        if kind == "append":
            t = data.draw(st.integers(0, 6))
            new = torch.arange(n_seen, n_seen + len(rows) * t).double().reshape(len(rows), t)
            n_seen += new.numel()
            places = cache.places(t).tolist()
            k, v = (new[:, None, :, None].expand(-1, G, -1, d) for d in (D, E))
            k, v = cache.append(k, -v)
            for row, numbers in zip(rows, new.tolist(), strict=True):
                row += numbers
            wanted = torch.tensor(rows, dtype=torch.float64)[:, places]
            assert torch.equal(k, wanted[:, None, :, None].expand_as(k))
            assert torch.equal(v, -wanted[:, None, :, None].expand_as(v))
            first = 0 if window is None else max(first, n + t - window)
        elif kind == "truncate" and n:
            m = data.draw(st.integers(0, n))
            if window and m and max(0, m - window + 1) < first:
                with pytest.raises(ValueError, match="cannot give back what it has evicted"):
                    cache.truncate(m)
                continue
            cache.truncate(m)
            rows = [row[:m] for row in rows]
            first = first if m else 0
        elif kind == "reorder" and n:
            order = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=4))
            cache.reorder(torch.tensor(order) if data.draw(st.booleans()) else order)
            rows = [list(rows[i]) for i in order]
        elif kind == "reset":
            cache.reset()
            rows, first = [[] for _ in range(B)], 0
        assert cache.n_tokens == len(rows[0])
        assert cache.nbytes == len(rows) * G * (D + E) * (len(rows[0]) - first) * 8


def test_rows_are_reordered_in_keys_and_values_alike():
    cache, (k, v) = KVCache(), stream(3)
    cache.append(k, v)
    cache.reorder([1, 1, 0])
    more = stream(1, b=3, seed=1)
    read_k, read_v = cache.append(*more)
    for x, y, new in ((read_k, k, more[0]), (read_v, v, more[1])):
        assert torch.equal(x, torch.cat([y[[1, 1, 0]], new], dim=2))


# --- a source ---------------------------------------------------------------------------------


def test_a_source_is_kept_as_it_is_and_only_its_rows_may_move():
    k, v = stream(7)
    cache = CrossCache(k, v)
    assert all(torch.equal(x, y) for x, y in zip(cache.read(), (k, v), strict=True))
    assert (cache.n_tokens, cache.nbytes) == (7, k.nbytes + v.nbytes)
    cache.reorder([1])
    assert all(torch.equal(x, y[1:]) for x, y in zip(cache.read(), (k, v), strict=True))


def test_a_source_is_kept_as_it_was_whatever_becomes_of_its_tensors():
    k, v = stream(7)
    with torch.no_grad():
        graph = CrossCache(k.clone().requires_grad_(), v)
    with torch.inference_mode():
        frozen = CrossCache(k + 0, v + 0)
    wanted = k.clone()
    cache = CrossCache(k, v)
    k.zero_()
    assert torch.equal(cache.read()[0], wanted)
    assert not graph.read()[0].requires_grad and not frozen.read()[0].is_inference()


# --- eight bits -------------------------------------------------------------------------------


@settings(max_examples=10)
@given(
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
    size=st.integers(-30, 30),
    seed=st.integers(0, 50),
)
def test_eight_bits_are_off_by_half_a_scale_at_most(dtype, size, seed):
    x = (stream(6, seed=seed)[0] * 2.0**size).to(dtype)
    codes, scales = to_int8(x)
    assert codes.dtype == torch.int8 and codes.abs().max() == 127
    assert tuple(scales.shape) == (B, G, 6, 1)
    off = (from_int8(codes, scales, scales.dtype).double() - x.double()).abs()
    # x/scale, the scale and the product are each rounded once, and all are at most 127 scales
    slack = 3 * 127 * torch.finfo(scales.dtype).eps / 2
    assert (off <= (0.5 + slack) * scales.double()).all()
    largest = x.double().abs().amax(-1, keepdim=True)
    torch.testing.assert_close(scales.double(), largest / 127, rtol=2**-23, atol=0)
    assert torch.equal(from_int8(*to_int8(-x), dtype), -from_int8(codes, scales, dtype))


def test_a_vector_of_zeros_stays_one_and_one_without_numbers_says_so():
    x = torch.zeros(4, 3)
    x[1, 0], x[2, 1], x[3] = torch.nan, torch.inf, 1e-45
    back = from_int8(*to_int8(x), torch.float32)
    assert (back[0] == 0).all() and back[1:3].isnan().all() and (back[3] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.half])
def test_the_largest_number_is_finite_in_eight_bits(dtype):
    largest = torch.finfo(dtype).max
    back = from_int8(*to_int8(torch.tensor([largest, -largest], dtype=dtype)), dtype).double()
    # the scale is at most a rounding smaller than 1/127 of it, and so is the product
    slack = max(torch.finfo(dtype).eps, 4 * torch.finfo(torch.float32).eps)
    assert (back.abs() <= largest).all() and (back.abs() >= (1 - slack) * largest).all()


@settings(max_examples=10)
@given(chunks=CHUNKS, window=st.none() | WINDOWS)
def test_what_is_read_in_eight_bits_does_not_depend_on_the_chunks(chunks, window):
    k, v = stream(sum(chunks))
    made = {"storage": "int8"}
    cache = KVCache(**made) if window is None else WindowCache(window, **made)
    rounded_k, rounded_v = (from_int8(*to_int8(x), x.dtype) for x in (k, v))
    for new_k, new_v in zip(cut(k, chunks), cut(v, chunks), strict=True):
        places = cache.places(new_k.shape[2])
        read_k, read_v = cache.append(new_k, new_v)
        assert torch.equal(read_k, rounded_k[:, :, places])
        assert torch.equal(read_v, rounded_v[:, :, places])


@pytest.mark.parametrize("dtype,width", [(torch.float64, 8), (torch.float32, 4), (torch.half, 4)])
def test_a_token_of_eight_bits_is_a_byte_a_number_and_a_scale_a_head(dtype, width):
    cache = KVCache(storage="int8")
    cache.append(*stream(3, dtype=torch.float64 if dtype == torch.half else dtype))
    if dtype == torch.half:
        cache = KVCache(storage="int8")
        assert cache.append(*(x.half() for x in stream(3)))[0].dtype == dtype
    assert cache.nbytes == 3 * B * G * (D + E + 2 * width)


# --- modes of torch ---------------------------------------------------------------------------


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("made", [KVCache, lambda: WindowCache(2)], ids=["all", "window"])
def test_a_cache_that_inference_mode_filled_can_be_filled_outside_of_it(made, moved):
    cache, (k, v) = made(), stream(6)
    with torch.inference_mode():
        cache.append(k[:, :, :2] + 0, v[:, :, :2] + 0)
        if moved:
            cache.reorder([1, 0])
    read_k, _ = cache.append(k[:, :, 2:], v[:, :, 2:])
    assert torch.equal(read_k[:, :, -4:], k[:, :, 2:])
    with torch.no_grad():
        cache.append(k.clone().requires_grad_(), v)  # no graph is made here, so that none is lost
    assert cache.n_tokens == 12


def test_a_copy_goes_its_own_way():
    cache, (k, v) = KVCache(), stream(3)
    cache.append(k[:, :, :2], v[:, :, :2])
    other = copy.deepcopy(cache)
    other.append(k[:, :, 2:], v[:, :, 2:])
    assert (cache.n_tokens, other.n_tokens) == (2, 3)
    assert torch.equal(cache.append(-k[:, :, 2:], v[:, :, 2:])[0][:, :, 2:], -k[:, :, 2:])


def test_a_swapped_axis_is_refused_while_tests_run():
    k, v = stream(6)
    with pytest.raises(TypeCheckError):
        KVCache().append(k.transpose(1, 2), v)


# --- the layer --------------------------------------------------------------------------------

H, M, T = 6, 7, 9
HEADS = AttentionSizes(n_query_heads=H, n_kv_heads=G, head_dim=D, value_dim=E, biases=True)
X = torch.randn(B, T, M, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def layer(**options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MultiHeadAttention(M, HEADS, **options).double().requires_grad_(False)


TURNED = layer(rotary=RotarySizes(base=50.0), pairing="half")


@settings(max_examples=10)
@pytest.mark.parametrize("made", [layer(), TURNED], ids=["plain", "rotary"])
@given(chunks=CHUNKS, window=st.none() | WINDOWS)
def test_a_layer_gives_in_chunks_what_it_gives_at_once(made, chunks, window):
    whole = made(X, may_attend=causal_mask(T, window=window))
    cache = KVCache() if window is None else WindowCache(window)
    end = 0
    while end < T:
        t = min(chunks[end % len(chunks)], T - end)
        targets, sources = torch.arange(end, end + t)[:, None], cache.places(t)
        steps = targets - sources
        may_attend = (steps >= 0) & (steps < (window or T))
        out = made(X[:, end : end + t], may_attend=may_attend, cache=cache)
        # a hundred roundings of numbers of size 1
        torch.testing.assert_close(out, whole[:, end : end + t], rtol=0, atol=1e-13)
        end += t


def test_positions_go_on_where_the_cache_ends():
    cache, other = KVCache(), KVCache()
    mask = causal_mask(4, T)
    for c in (cache, other):
        TURNED(X[:, :5], may_attend=causal_mask(5), cache=c)
    given_them = TURNED(X[:, 5:], may_attend=mask, positions=torch.arange(5, T), cache=cache)
    assert torch.equal(TURNED(X[:, 5:], may_attend=mask, cache=other), given_them)
    for positions in (torch.arange(4), torch.tensor([9, 8]), torch.tensor([8, 9])):
        before = cache.n_tokens
        with pytest.raises(ValueError, match=r"must go on from those before it, got .* position 8"):
            TURNED(X[:, : len(positions)], positions=positions, cache=cache)
        assert cache.n_tokens == before
    cache.truncate(6)
    TURNED(X[:, 6:7], positions=torch.tensor([6]), cache=cache)


def test_turns_made_before_are_those_of_the_positions():
    positions = torch.tensor([[3, 4, 7], [0, 0, 1]])
    turns = TURNED.turns(positions)
    assert torch.equal(TURNED(X[:, :3], turns=turns), TURNED(X[:, :3], positions=positions))
    assert layer().turns(positions) is None


def test_a_layer_reads_a_source_from_its_cache():
    made, read = layer(), X.flip(1)[:, :4]
    cache = CrossCache(made.keys(read), made.values(read))
    may_attend = torch.tensor([True, True, False, True])
    wanted = made(X, read, may_attend=may_attend)
    assert torch.equal(made(X, cache=cache, may_attend=may_attend), wanted)
    first = made(X[:, :1], cache=cache, may_attend=may_attend)
    torch.testing.assert_close(first, wanted[:, :1], rtol=0, atol=1e-13)
    assert cache.n_tokens == 4
