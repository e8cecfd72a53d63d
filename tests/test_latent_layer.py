"""The claims of chapters/latent-attention.md about the layer, its cache and models of it.

The two forms themselves are in test_latent.py, the layers of transformers in
test_latent_of_transformers.py.
"""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from attnlib import (
    GREEDY,
    Encoder,
    LanguageModel,
    LatentAttentionSizes,
    LatentCache,
    LatentSelfAttention,
    ModelSizes,
    Sampler,
    attention_weights,
    causal_mask,
    cost,
    definitions,
    generate,
    kv_cache_bytes,
    padded_positions,
    padding_mask,
    yarn_attention_factor,
    yarn_frequencies,
)
from attnlib.caches import from_int8, to_int8
from attnlib.latent import expanded_keys_and_values
from attnlib.layers import latent_self_attention
from attnlib.sizes import RotarySizes, YarnScaling

# All different, so that no two axes can be confused; d = n + r is 10.
B, H, T, N, R, E, C, U, M = 2, 3, 9, 6, 4, 5, 7, 8, 11
SIZES = LatentAttentionSizes(
    n_query_heads=H, query_latent=U, kv_latent=C, nope_dim=N, rope_dim=R, value_dim=E
)
ROTARY = RotarySizes(base=100.0)
KINDS = {
    "plain": {},
    "half": {"rotary": ROTARY, "pairing": "half"},
    "interleaved": {"rotary": ROTARY, "pairing": "interleaved"},
}
EPSILON = 1e-3


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def filled(module: torch.nn.Module) -> torch.nn.Module:
    """In fp64, every number random, those of the norms around 1."""
    module = module.double().eval().requires_grad_(False)
    for i, (name, weight) in enumerate(module.named_parameters()):
        spread = 1.0 if "embedding" in name else weight.shape[-1] ** -0.5
        weight.copy_(
            spread * random(*weight.shape, seed=i)
            if weight.ndim == 2
            else 1 + 0.3 * random(*weight.shape, seed=i)
        )
    return module


def made(kind: str = "interleaved", sizes: LatentAttentionSizes = SIZES, **options):
    return filled(LatentSelfAttention(M, sizes, **KINDS[kind], norm_epsilon=EPSILON, **options))


LAYERS = {kind: made(kind) for kind in KINDS}
LAYER, X = LAYERS["interleaved"], random(B, T, M, seed=99)
CAUSAL = causal_mask(T)


def assert_equal(actual: torch.Tensor, wanted: torch.Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(actual, wanted, rtol=0, atol=atol)


# --- oracle 1: the definition ---------------------------------------------------------------


def defined(layer: LatentSelfAttention, x: torch.Tensor, may_attend, positions) -> torch.Tensor:
    """Token by token and head by head, from the matrices as they stand."""
    sizes = {name: weight.numpy() for name, weight in layer.named_parameters()}
    x, out = x.numpy(), np.zeros(x.shape)

    def normed(name: str, vector: np.ndarray) -> np.ndarray:
        return vector / np.sqrt(np.mean(vector**2) + EPSILON) * sizes[f"{name}_norm.weight"]

    def turned(vectors: np.ndarray, at: np.ndarray) -> np.ndarray:
        if layer.rotary is None:
            return vectors
        return definitions.rotate(vectors, at, layer.pairing, layer.rotary.base)

    for b in range(len(x)):
        at = np.broadcast_to(positions.numpy(), x.shape[:2])[b]
        latent, rotary_key = np.zeros((x.shape[1], C)), np.zeros((x.shape[1], R))
        q = np.zeros((H, x.shape[1], N + R))
        for t, token in enumerate(x[b]):
            latent[t] = normed("kv", sizes["kv_down.weight"] @ token)
            rotary_key[t] = sizes["rotary_key.weight"] @ token
            of_query = normed("query", sizes["query_down.weight"] @ token)
            for i in range(H):
                q[i, t] = sizes["query_up.weight"][i * (N + R) : (i + 1) * (N + R)] @ of_query
        for i in range(H):
            q[i, :, N:] = turned(q[i, :, N:], at)
        heads = definitions.latent_attention(
            q[None],
            latent[None],
            turned(rotary_key, at)[None],
            sizes["key_up.weight"].reshape(H, N, C),
            sizes["value_up.weight"].reshape(H, E, C),
            None if may_attend is None else may_attend.numpy(),
            None,
        )[0]
        for i in range(H):
            out[b] += heads[i] @ sizes["output.weight"][:, i * E : (i + 1) * E].T
    return torch.from_numpy(out)


@pytest.mark.parametrize("form", ["expanded", "absorbed"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_layer_is_its_definition(kind, form):
    positions = torch.arange(T) + torch.tensor([[0], [3]])
    call = {} if kind == "plain" else {"positions": positions}
    for mask in (None, CAUSAL):
        out = LAYERS[kind](X, may_attend=mask, form=form, **call)
        assert_equal(out, defined(LAYERS[kind], X, mask, positions))


def test_weights_are_those_with_which_the_values_are_averaged():
    weights = LAYER.weights(X, may_attend=CAUSAL)
    assert_equal(weights.sum(-1), torch.ones(B, H, T).double())
    assert (weights[:, :, ~CAUSAL] == 0).all()
    kept = LAYER.latents(X)
    _, values = expanded_keys_and_values(*kept, *LAYER.ups(torch.float64))
    out = torch.einsum("bhts,bhse->bthe", weights, values).flatten(2)
    assert_equal(LAYER(X, may_attend=CAUSAL), LAYER.output(out))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_in_low_precision_are_rounded_once_and_their_keys_may_be_larger_than_fp16_knows(
    dtype,
):
    layer = copy.deepcopy(LAYER)
    layer.key_up.weight.mul_(3e4)
    layer.query_up.weight.div_(3e4)
    layer, x = layer.to(dtype), X.to(dtype)
    kept, ups = layer.latents(x), layer.ups(torch.float64)
    keys, _ = expanded_keys_and_values(*(part.double() for part in kept), *ups)
    assert keys.abs().max() > torch.finfo(torch.float16).max
    exact = attention_weights(layer.queries(x).double(), keys, scale=layer.score_scale)
    weights = layer.weights(x)
    assert weights.dtype == dtype
    # half a step, and a hundred roundings of scores of size 1 in fp32
    most = torch.finfo(dtype).eps / 2 + 100 * 2.0**-24
    assert ((weights.double() - exact).abs() <= most * exact + 2.0**-25).all()


def test_its_parameters_are_those_that_the_sizes_count():
    assert sum(weight.numel() for weight in LAYER.parameters()) == SIZES.n_parameters(M)
    shapes = {name: tuple(weight.shape) for name, weight in LAYER.named_parameters()}
    assert shapes["query_up.weight"] == (H * (N + R), U)
    assert (shapes["kv_down.weight"], shapes["rotary_key.weight"]) == ((C, M), (R, M))
    assert (shapes["key_up.weight"], shapes["value_up.weight"]) == ((H * N, C), (H * E, C))


def test_it_begins_as_the_other_attention_does():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = LatentSelfAttention(256, replace(SIZES, query_latent=192, kv_latent=160))
    for name, weight in layer.named_parameters():
        if weight.ndim == 1:
            assert (weight == 1).all()
        else:
            spread = weight.std() * weight.shape[1] ** 0.5
            # the deviation of k numbers is off by 1/√(2k); five times that
            assert abs(spread - 1) < 5 / (2 * weight.numel()) ** 0.5, name


# --- positions ------------------------------------------------------------------------------


def test_only_the_rotary_part_knows_positions():
    apart = torch.arange(T) * 5
    plain, turned = LAYER.queries(X), LAYER.queries(X, apart)
    assert torch.equal(plain[..., :N], turned[..., :N])
    assert ((plain - turned)[:, :, 1:, N:].abs().amax(-1) > 1e-3).all()
    (latent, key), (same, other) = LAYER.latents(X), LAYER.latents(X, apart)
    assert torch.equal(latent, same) and ((key - other)[:, 1:].abs().amax(-1) > 1e-3).all()


@pytest.mark.parametrize("kind", ["half", "interleaved"])
def test_only_differences_of_positions_matter(kind):
    layer = LAYERS[kind]
    near, far = torch.arange(T), torch.arange(T) + 1000
    # an angle of a thousand radians is rounded in its 13th digit
    assert_equal(layer(X, positions=far), layer(X, positions=near), atol=1e-11)
    assert (layer(X, positions=2 * near) - layer(X, positions=near)).abs().max() > 1e-3


def test_yarn_slows_the_rotation_and_its_factor_multiplies_the_scale_squared():
    scaling = YarnScaling(
        factor=40.0, original_length=64, beta_fast=8.0, beta_slow=1.0, mscale=0.707
    )
    rotary = RotarySizes(base=100.0, scaling=scaling)
    layer = LatentSelfAttention(M, SIZES, rotary=rotary, pairing="half").double()
    factor = yarn_attention_factor(40.0, mscale=0.707)
    assert factor > 1.2
    np.testing.assert_allclose(layer.score_scale, factor**2 / (N + R) ** 0.5, rtol=1e-15)
    slower = yarn_frequencies(R, base=100.0, factor=40.0, original_length=64, beta_fast=8.0)
    positions = torch.arange(5)
    assert torch.equal(layer.turns(positions).cos, (positions[:, None] * slower).cos())
    layer.load_state_dict(LAYER.state_dict())
    layer.requires_grad_(False)
    q, kept = layer.queries(X), layer.latents(X)
    keys, _ = expanded_keys_and_values(*kept, *layer.ups(torch.float64))
    scores = factor**2 * (N + R) ** -0.5 * torch.einsum("bhtd,bhsd->bhts", q, keys)
    assert_equal(layer.weights(X), scores.softmax(-1))
    # the rotated part is not longer for it: the factor is in the scale alone
    assert_equal(kept[1].norm(dim=-1), layer.rotary_key(X).norm(dim=-1))


# --- chunks ---------------------------------------------------------------------------------

CHUNKS = st.lists(st.integers(1, T), min_size=1, max_size=6)
ANY_FORM = st.sampled_from([None, "expanded", "absorbed"])


def in_chunks(layer, x, chunks, forms=(None,), cache=None):
    cache = LatentCache() if cache is None else cache
    outs, begin, i = [], 0, 0
    while begin < x.shape[1]:
        new = x[:, begin : begin + chunks[i % len(chunks)]]
        begin += new.shape[1]
        mask = causal_mask(new.shape[1], begin)
        outs.append(layer(new, may_attend=mask, cache=cache, form=forms[i % len(forms)]))
        i += 1
    return torch.cat(outs, dim=1)


@settings(max_examples=15)
@example(chunks=[1], forms=["absorbed"], kind="half")
@example(chunks=[T - 2, 1], forms=[None], kind="interleaved")
@given(
    chunks=CHUNKS, forms=st.lists(ANY_FORM, min_size=1, max_size=3), kind=st.sampled_from([*KINDS])
)
def test_any_chunks_in_any_form_give_what_the_whole_gives(chunks, forms, kind):
    whole = LAYERS[kind](X, may_attend=CAUSAL)
    assert_equal(in_chunks(LAYERS[kind], X, chunks, forms), whole)


def test_a_prompt_is_expanded_a_token_absorbed_and_either_may_be_asked_for(monkeypatch):
    used = []
    for form in ("expanded", "absorbed"):
        name = f"latent_attention_{form}"
        attend = getattr(latent_self_attention, name)
        monkeypatch.setattr(
            latent_self_attention,
            name,
            lambda *x, form=form, attend=attend, **options: (
                used.append(form) or attend(*x, **options)
            ),
        )
    in_chunks(LAYER, X, [T - 2, 1])
    assert used == ["expanded", "absorbed", "absorbed"]
    assert [LAYER.form(t, s) for t, s in ((T - 2, T - 2), (1, T - 1), (1, T))] == used
    in_chunks(LAYER, X, [T - 2, 1], ["absorbed", "expanded"])
    assert used[3:] == ["absorbed", "expanded", "absorbed"]


@pytest.mark.parametrize("form", ["expanded", "absorbed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_chunks_in_lower_precision_are_as_near_as_the_whole(form, dtype):
    layer, x = copy.deepcopy(LAYER).to(dtype), X.to(dtype)
    exact = copy.deepcopy(layer).double()(x.double(), may_attend=CAUSAL)
    whole = layer(x, may_attend=CAUSAL)
    chunks = in_chunks(layer, x, [4, 1], [form])
    # the naive form's own error in this dtype, twice, as two roundings may differ in sign
    most = 2 * (whole.double() - exact).abs().max()
    assert 0 < (chunks.double() - exact).abs().max() <= most
    assert most < 20 * torch.finfo(dtype).eps * exact.abs().max()


@pytest.mark.parametrize("form", ["expanded", "absorbed"])
def test_the_flops_are_those_of_the_cost_model(form):
    """Both as the matrix products of our own layer do them: a chunk of 4 tokens after 5."""
    cache = LatentCache()
    LAYER(X[:, :5], cache=cache)
    with FlopCounterMode(display=False) as counter:
        # torch counts nothing of its own kernel, which is not asked where there is a mask
        LAYER(X[:, 5:], may_attend=causal_mask(4, T), cache=cache, form=form)
    counted = {"expanded": cost.RE_EXPANDED, "absorbed": cost.ABSORBED}[form]
    letters = SIZES.letters | {"m": M}
    flops = (
        4 * counted.projection_flops + 4 * 9 * counted.flops_per_pair + 9 * counted.flops_per_key
    )
    assert counter.get_total_flops() == B * int(
        flops.subs({symbol: letters[str(symbol)] for symbol in flops.free_symbols})
    )


def test_a_left_padded_row_gives_what_it_gives_alone():
    is_token = torch.arange(T) >= torch.tensor([[3], [0]])
    mask, positions = padding_mask(is_token) & CAUSAL, padded_positions(is_token)
    alone = LAYER(X[:1, 3:], may_attend=causal_mask(T - 3))
    for form in ("expanded", "absorbed"):
        whole = LAYER(X, may_attend=mask, positions=positions, form=form)
        assert_equal(whole[:1, 3:], alone)
        odd = X.clone()
        odd[0, :3] = torch.nan
        assert_equal(LAYER(odd, may_attend=mask, positions=positions, form=form)[:1, 3:], alone)
        assert_equal(LAYER(odd, may_attend=mask, positions=positions, form=form)[1], whole[1])


def test_positions_go_on_where_the_cache_ends():
    caches = [LatentCache() for _ in range(2)]
    for cache in caches:
        LAYER(X[:, :5], may_attend=causal_mask(5), cache=cache)
    mask, positions = causal_mask(4, T), torch.arange(5, T)
    given_them = LAYER(X[:, 5:], may_attend=mask, positions=positions, cache=caches[0])
    assert torch.equal(LAYER(X[:, 5:], may_attend=mask, cache=caches[1]), given_them)
    turns = LAYER.turns(torch.arange(T))
    assert torch.equal(LAYER(X, turns=turns), LAYER(X))
    assert LAYERS["plain"].turns(positions) is None


def test_what_was_taken_back_leaves_no_gap_behind():
    cache = LatentCache()
    LAYER(X[:, :4], positions=torch.tensor([0, 1, 2, 50]), cache=cache)
    cache.truncate(3)
    assert cache.last_position == 2
    out = LAYER(X[:, 3:4], positions=torch.tensor([3]), cache=cache)
    assert_equal(out, LAYER(X[:, :4], may_attend=causal_mask(4))[:, 3:])


def test_autocast_keeps_the_cache_in_half_precision():
    layer, x, cache = copy.deepcopy(LAYER).float(), X.float(), LatentCache()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(x, may_attend=CAUSAL, cache=cache, form="absorbed")
    assert out.dtype == torch.bfloat16
    assert cache.nbytes == B * T * (C + R) * 2
    assert (out.double() - LAYER(X, may_attend=CAUSAL)).abs().max() < 0.1


# --- what is kept ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype,width", [(torch.float64, 8), (torch.float32, 4), (torch.bfloat16, 2)]
)
def test_a_token_leaves_c_plus_r_numbers(dtype, width):
    layer, cache = copy.deepcopy(LAYER).to(dtype), LatentCache()
    for n in (4, 1):
        layer(X[:, :n].to(dtype), cache=cache)
    assert cache.nbytes == B * 5 * (C + R) * width
    assert cache.letters == {"b": B, "c": C, "r": R}
    fixed = LatentCache(capacity=T)
    layer(X[:, :1].to(dtype), cache=fixed)
    assert fixed.nbytes_allocated == B * T * (C + R) * width


def test_what_is_kept_is_the_normed_latent_and_the_turned_key():
    cache = LatentCache()
    LAYER(X[:, :5], cache=cache)
    LAYER(X[:, 5:6], cache=cache)
    kept = cache.append(X[:, :0, :C], X[:, :0, :R])
    for x, wanted in zip(kept, LAYER.latents(X[:, :6]), strict=True):
        assert_equal(x, wanted)
    size = (kept[0] / LAYER.kv_norm.weight).square().mean(-1)
    assert ((size > 0.9) & (size < 1)).all()  # 1, but for ε


@settings(max_examples=15)
@given(data=st.data(), storage=st.sampled_from([None, "int8"]))
def test_whatever_is_done_the_cache_is_a_list_of_tokens(data, storage):
    """Append, truncate, reorder and reset in any order, against plain lists."""
    cache, n_seen = LatentCache(storage=storage), 0
    rows = [torch.zeros(0, C + R).double() for _ in range(B)]
    for _ in range(data.draw(st.integers(1, 7))):
        kind = data.draw(st.sampled_from(["append", "append", "truncate", "reorder", "reset"]))
        n = len(rows[0])
        if kind == "append":
            new = random(len(rows), data.draw(st.integers(1, 70)), C + R, seed=n_seen)
            n_seen += 1
            rows = [torch.cat(pair) for pair in zip(rows, new, strict=True)]
            wanted, read = torch.stack(rows), cache.append(new[..., :C], new[..., C:])
            for x, y in zip(read, (wanted[..., :C], wanted[..., C:]), strict=True):
                y = y if storage is None else from_int8(*to_int8(y), y.dtype)
                assert torch.equal(x, y)
        elif kind == "truncate" and n:
            kept = data.draw(st.integers(0, n))
            cache.truncate(kept)
            rows = [row[:kept] for row in rows]
        elif kind == "reorder" and n:
            order = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=3))
            cache.reorder(order)
            rows = [rows[i] for i in order]
        elif kind == "reset":
            cache.reset()
            rows = [torch.zeros(0, C + R).double() for _ in range(B)]
        a_token = 8 * (C + R) if storage is None else C + R + 2 * 8
        assert cache.nbytes == len(rows) * len(rows[0]) * a_token
        assert cache.n_tokens == len(rows[0])


def test_a_first_chunk_that_was_interrupted_leaves_nothing_of_its_kind(monkeypatch):
    cache = LatentCache()

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(torch.Tensor, "copy_", interrupt)
        cache.append(random(B, 5, C), random(B, 5, R))
    given = random(B, 3, C).float(), random(B, 3, R).float()
    for x, y in zip(cache.append(*given), given, strict=True):
        assert x.dtype == y.dtype and torch.equal(x, y)


def test_a_token_is_written_where_it_stays_and_nothing_else_moves():
    cache = LatentCache()
    first = cache.append(random(B, 65, C), random(B, 65, R))
    second = cache.append(random(B, 1, C), random(B, 1, R))
    for x, y in zip(first, second, strict=True):
        assert x.data_ptr() == y.data_ptr()


# --- models ---------------------------------------------------------------------------------

N_LAYERS, INNER, V, CONTEXT = 3, 12, 13, 16
MODEL_SIZES = ModelSizes(
    name="a small model with a latent",
    source="made up for a test",
    n_layers=N_LAYERS,
    width=M,
    attention=SIZES,
    feed_forward_width=INNER,
    gated=True,
    activation="silu",
    vocabulary=V,
    tied_embeddings=True,
    norm="rms",
    norm_placement="pre",
    norm_epsilon=EPSILON,
    context=CONTEXT,
    rotary=ROTARY,
)
MODEL = filled(LanguageModel(MODEL_SIZES, pairing="interleaved"))
TOKENS = torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))
ATOL = 1e-11  # ten thousand roundings of numbers of size 10 in fp64


def logits_in_chunks(model, tokens, chunks, is_token=None, cache=None):
    cache = model.new_cache() if cache is None else cache
    outs, begin, i = [], 0, 0
    while begin < tokens.shape[1]:
        end = begin + chunks[i % len(chunks)]
        mask = None if is_token is None else is_token[:, begin:end]
        outs.append(model(tokens[:, begin:end], is_token=mask, cache=cache))
        begin, i = end, i + 1
    return torch.cat(outs, dim=1), cache


@settings(max_examples=10)
@given(chunks=CHUNKS, n_paddings=st.lists(st.integers(0, T - 1), min_size=B, max_size=B))
def test_a_model_gives_in_any_chunks_what_it_gives_at_once(chunks, n_paddings):
    is_token = torch.arange(T) >= torch.tensor(n_paddings)[:, None]
    logits, cache = logits_in_chunks(MODEL, TOKENS, chunks, is_token)
    wanted = MODEL(TOKENS, is_token=is_token)
    assert_equal(logits[is_token], wanted[is_token], atol=ATOL)
    assert [type(layer) for layer in cache.layers] == [LatentCache] * N_LAYERS
    assert cache.nbytes == kv_cache_bytes(MODEL_SIZES, T, 8, n_rows=B)
    assert cache.nbytes == N_LAYERS * B * T * (C + R) * 8


def test_a_model_without_rotary_positions_may_have_a_latent():
    sizes = replace(MODEL_SIZES, rotary=None, learned_positions=True)
    model = filled(LanguageModel(sizes))
    assert_equal(logits_in_chunks(model, TOKENS, [4, 1])[0], model(TOKENS), atol=ATOL)


def test_a_model_has_the_weights_and_the_norms_of_its_sizes():
    assert sum(weight.numel() for weight in MODEL.parameters()) == MODEL_SIZES.n_parameters
    for block in MODEL.decoder.blocks:
        assert block.attention.kv_norm.eps == block.attention.query_norm.eps == EPSILON


def test_a_model_writes_the_same_with_a_cache_and_without():
    for sampler in (GREEDY, Sampler(temperature=1.0)):
        call = {"sampler": sampler, "seed": 3, "progress": False}
        written = generate(MODEL, [[1, 2, 3], [4]], 6, **call)
        assert written == generate(MODEL, [[1, 2, 3], [4]], 6, use_cache=False, **call)
        assert len({tuple(row) for row in written}) == 2


def test_a_model_learns_in_every_one_of_its_matrices():
    model = copy.deepcopy(MODEL).train().requires_grad_(True)
    loss = torch.nn.functional.cross_entropy(model(TOKENS)[:, :-1].mT, TOKENS[:, 1:])
    loss.backward()
    for name, weight in model.named_parameters():
        assert (weight.grad != 0).any() and weight.grad.isfinite().all(), name


def test_a_model_shows_its_weights():
    weights = MODEL.attention_weights(TOKENS)
    assert tuple(weights.shape) == (N_LAYERS, B, H, T, T)
    assert_equal(weights.sum(-1), torch.ones(N_LAYERS, B, H, T).double())
    assert (weights[..., ~CAUSAL] == 0).all()


def test_tokens_are_taken_back_and_rows_exchanged():
    _, cache = logits_in_chunks(MODEL, TOKENS[:, :7], [4])
    cache.truncate(5)
    cache.reorder([1, 0, 1])
    new = torch.randint(V, (3, 4), generator=torch.Generator().manual_seed(2))
    whole = MODEL(torch.cat([TOKENS[[1, 0, 1], :5], new], dim=1))
    assert_equal(logits_in_chunks(MODEL, new, [1, 3], cache=cache)[0], whole[:, 5:], atol=ATOL)


def test_an_encoder_may_have_a_latent_and_its_tokens_read_all():
    encoder = filled(Encoder(replace(MODEL_SIZES, causal=False), pairing="half"))
    out = encoder(TOKENS)
    later = TOKENS.clone()
    later[:, -1] = (later[:, -1] + 1) % V
    assert ((encoder(later) - out)[:, 0].abs().amax(-1) > 1e-4).all()
