"""The latent layer is that of transformers, weight for weight: DeepSeek-V2 and DeepSeek-V3.

Every number of the weights is random and in fp64. Angles are formed here in fp64, because the
models form them in fp32; test_positions.py compares their frequencies. Nothing is downloaded.

V2 turns neighbours and leaves them where they are; V3 turns neighbours and puts the halves apart,
in queries and keys alike, which no score notices; and V3 can be told to turn halves.
"""

import pytest
import torch
from transformers import DeepseekV2Config, DeepseekV3Config, DynamicCache
from transformers.models.deepseek_v2.modeling_deepseek_v2 import (
    DeepseekV2Attention,
    DeepseekV2RotaryEmbedding,
)
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention

from attnlib import (
    LatentAttentionSizes,
    LatentCache,
    LatentSelfAttention,
    causal_mask,
    padded_positions,
    padding_mask,
    pairing_permutation,
    yarn_frequencies,
)
from attnlib.sizes import RotarySizes, YarnScaling

B, H, T, N, R, E, C, U, M = 2, 3, 9, 6, 8, 5, 7, 10, 12
BASE = 100.0
SIZES = LatentAttentionSizes(
    n_query_heads=H, query_latent=U, kv_latent=C, nope_dim=N, rope_dim=R, value_dim=E
)
IS_TOKEN = torch.arange(T) >= torch.tensor([[2], [0]])  # padded on the left
YARN = {
    "rope_type": "yarn",
    "rope_theta": BASE,
    "factor": 40.0,
    "original_max_position_embeddings": 64,
    "beta_fast": 8,
    "beta_slow": 1,
    "mscale": 0.707,
    "mscale_all_dim": 0.707,
}
SCALING = YarnScaling(factor=40.0, original_length=64, beta_fast=8.0, beta_slow=1.0, mscale=0.707)
FREQUENCIES = torch.tensor([BASE ** (-2 * i / R) for i in range(R // 2)], dtype=torch.float64)


@pytest.fixture(autouse=True)
def in_double_precision(monkeypatch):
    """Their norms and rotations go to fp32 by these two names, and only for the dtype's sake."""
    # .float() copies, and what it copies may be looked at as complex numbers
    monkeypatch.setattr(torch.Tensor, "float", lambda x: x.double().contiguous())
    monkeypatch.setattr(torch, "float32", torch.float64)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def configured(kind, **changes):
    return kind(
        hidden_size=M,
        num_attention_heads=H,
        q_lora_rank=U,
        kv_lora_rank=C,
        qk_nope_head_dim=N,
        qk_rope_head_dim=R,
        v_head_dim=E,
        attn_implementation="sdpa",
        **changes,
    )


def filled(theirs: torch.nn.Module) -> torch.nn.Module:
    theirs = theirs.double().eval().requires_grad_(False)
    for i, weight in enumerate(theirs.parameters()):
        spread = 1 if weight.ndim == 1 else weight.shape[1] ** -0.5
        weight.copy_(spread * random(*weight.shape, seed=i))
    return theirs


def with_weights_of(theirs, pairing="interleaved", scaling=None) -> LatentSelfAttention:
    """Their matrices, taken apart: the latent from the key, and keys from values head by head."""
    layer = LatentSelfAttention(
        M, SIZES, rotary=RotarySizes(base=BASE, scaling=scaling), pairing=pairing
    ).double()
    down = theirs.kv_a_proj_with_mqa.weight.split([C, R])
    up = theirs.kv_b_proj.weight.unflatten(0, (H, N + E)).split([N, E], dim=1)
    layer.load_state_dict(
        {
            "query_down.weight": theirs.q_a_proj.weight,
            "query_norm.weight": theirs.q_a_layernorm.weight,
            "query_up.weight": theirs.q_b_proj.weight,
            "kv_down.weight": down[0],
            "rotary_key.weight": down[1],
            "kv_norm.weight": theirs.kv_a_layernorm.weight,
            "key_up.weight": up[0].flatten(0, 1),
            "value_up.weight": up[1].flatten(0, 1),
            "output.weight": theirs.o_proj.weight,
        }
    )
    return layer.requires_grad_(False)


def turned(kind, positions: torch.Tensor, frequencies: torch.Tensor):
    """A complex number for each pair in V2; cosines and sines, once for each half, in V3."""
    angles = positions.double()[..., None] * frequencies
    if kind is DeepseekV2Attention:
        return torch.polar(torch.ones_like(angles), angles)
    return angles.repeat(1, 1, 2).cos(), angles.repeat(1, 1, 2).sin()


def assert_equal(actual: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(actual, wanted, rtol=0, atol=1e-12)


KINDS = {
    "V2": (DeepseekV2Attention, DeepseekV2Config, {}, "interleaved"),
    "V3": (DeepseekV3Attention, DeepseekV3Config, {"rope_interleave": True}, "interleaved"),
    "V3 with halves": (DeepseekV3Attention, DeepseekV3Config, {"rope_interleave": False}, "half"),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("form", ["expanded", "absorbed"])
@pytest.mark.parametrize("scaling", [None, SCALING], ids=["plain", "yarn"])
def test_the_layer_is_theirs(name, form, scaling):
    kind, config, options, pairing = KINDS[name]
    rope, frequencies = {}, FREQUENCIES
    if scaling is not None:
        rope = {"rope_parameters": dict(YARN), "max_position_embeddings": 2560}
        frequencies = yarn_frequencies(R, base=BASE, factor=40.0, original_length=64, beta_fast=8.0)
    theirs = filled(kind(configured(config, **options, **rope), layer_idx=0))
    layer, x = with_weights_of(theirs, pairing, scaling), random(B, T, M, seed=99)
    assert theirs.scaling == pytest.approx(layer.score_scale, rel=1e-15)
    for mask, positions in (
        (torch.ones(1, 1, T, T, dtype=torch.bool), torch.arange(T).expand(B, T)),
        (padding_mask(IS_TOKEN) & causal_mask(T), padded_positions(IS_TOKEN)),
    ):
        wanted = theirs(
            x,
            position_embeddings=turned(kind, positions, frequencies),
            attention_mask=mask,
        )[0]
        ours = layer(x, may_attend=mask, positions=positions, form=form)
        reads = mask.expand(B, 1, T, T).any(-1)[:, 0]  # what reads nothing is theirs to decide
        assert_equal(ours[reads], wanted[reads])


def test_yarn_leaves_their_cosines_as_long_as_they_are():
    rotary = DeepseekV2RotaryEmbedding(configured(DeepseekV2Config, rope_parameters=dict(YARN)))
    assert rotary.attention_scaling == pytest.approx(1.0)  # mscale over mscale_all_dim


@pytest.mark.parametrize("name", KINDS)
def test_chunk_by_chunk_with_a_cache_each(name):
    kind, config, options, pairing = KINDS[name]
    theirs = filled(kind(configured(config, **options), layer_idx=0))
    layer, x = with_weights_of(theirs, pairing), random(B, T, M, seed=99)
    cache, other = LatentCache(), DynamicCache()
    begin = 0
    for end in (4, 5, 6, T):
        positions, mask = torch.arange(begin, end), causal_mask(end - begin, end)
        wanted = theirs(
            x[:, begin:end],
            position_embeddings=turned(kind, positions.expand(B, -1), FREQUENCIES),
            attention_mask=mask[None, None],
            cache=other,
        )[0]
        assert_equal(layer(x[:, begin:end], may_attend=mask, cache=cache), wanted)
        begin = end
    latent, key = cache.append(x[:, :0, :C], x[:, :0, :R])
    assert_equal(latent, other.layers[0].keys[:, 0])
    # V3 keeps the halves of interleaved pairs apart
    order = pairing_permutation(R) if name == "V3" else torch.arange(R)
    assert_equal(key[..., order], other.layers[0].values[:, 0])


def test_weights_for_neighbours_turn_halves_once_their_rows_are_permuted():
    theirs = filled(DeepseekV2Attention(configured(DeepseekV2Config), layer_idx=0))
    layer, other = with_weights_of(theirs), with_weights_of(theirs, pairing="half")
    x, order = random(B, T, M, seed=99), pairing_permutation(R)
    assert (layer(x) - other(x)).abs().max() > 1e-2
    query = other.query_up.weight.unflatten(0, (H, N + R))
    query[:, N:] = query[:, N:][:, order]
    other.rotary_key.weight.copy_(other.rotary_key.weight[order])
    assert_equal(other(x), layer(x))
