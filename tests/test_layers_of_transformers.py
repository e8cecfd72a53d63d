"""The layer is that of transformers, weight for weight: Llama, Qwen 3, Gemma 3, GPT-2 and BERT.

Every number of the weights is random and in fp64. Angles are formed here in fp64, because the
models form them in fp32; test_positions.py compares their frequencies. Nothing is downloaded.
"""

import pytest
import torch
from transformers import (
    BertConfig,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    Qwen3Config,
)
from transformers.models.bert.modeling_bert import BertSelfAttention, BertSelfOutput
from transformers.models.gemma3.modeling_gemma3 import Gemma3Attention
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

from attnlib import (
    AttentionSizes,
    MultiHeadAttention,
    causal_mask,
    padded_positions,
    padding_mask,
    yarn_frequencies,
)
from attnlib.sizes import RotarySizes, YarnScaling

# m/h is 6 and not d; all sizes differ but for e, which is d in all of these models.
B, G, P, T, D, M = 2, 3, 4, 5, 8, 72
H = G * P
BASE = 100.0
FP32 = 2.0**-24  # half a step, relative
IS_TOKEN = torch.arange(T) >= torch.tensor([[2], [0]])  # padded on the left
MAY_ATTEND = padding_mask(IS_TOKEN) & causal_mask(T)
SIZES = {
    "hidden_size": M,
    "num_attention_heads": H,
    "num_key_value_heads": G,
    "head_dim": D,
    "attn_implementation": "sdpa",
}


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def filled(module: torch.nn.Module) -> torch.nn.Module:
    """In fp64, with random numbers everywhere, those of biases and norms too."""
    module = module.double().eval().requires_grad_(False)
    for i, weight in enumerate(module.parameters()):
        weight.copy_(random(*weight.shape, seed=i) * (M**-0.5 if weight.ndim == 2 else 0.5))
    return module


FREQUENCIES = torch.tensor([BASE ** (-2 * i / D) for i in range(D // 2)], dtype=torch.float64)


def angles(positions: torch.Tensor, frequencies: torch.Tensor = FREQUENCIES):
    """Cosines and sines of every pair, once for each of its two halves."""
    turned = (positions.double()[..., None] * frequencies).repeat(1, 1, 2)
    return turned.cos(), turned.sin()


def with_weights_of(theirs: torch.nn.Module, one_is_added: bool = False, **options):
    """The layer here with the weights of one in the manner of Llama."""
    normed, biases = hasattr(theirs, "q_norm"), theirs.q_proj.bias is not None
    sizes = AttentionSizes(
        n_query_heads=H,
        n_kv_heads=G,
        head_dim=D,
        value_dim=D,
        biases=biases,
        query_key_norm=normed,
        **options,
    )
    epsilon = {"norm_epsilon": theirs.config.rms_norm_eps} if normed else {}
    layer = MultiHeadAttention(
        M, sizes, rotary=RotarySizes(base=BASE), pairing="half", **epsilon
    ).double()
    names = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "o_proj": "output"}
    names |= {"q_norm": "query_norm", "k_norm": "key_norm"}
    weights = {}
    for name, weight in theirs.state_dict().items():
        module, kind = name.split(".")
        weights[f"{names[module]}.{kind}"] = weight + ("norm" in module and one_is_added)
    layer.load_state_dict(weights)
    return layer.requires_grad_(False)


def assert_equal(actual: torch.Tensor, wanted: torch.Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(actual, wanted, rtol=0, atol=atol)


def both(theirs, layer, x: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs (ours, theirs): all may be read; causal; padded on the left."""
    everything = torch.ones(1, 1, T, T, dtype=torch.bool)
    counted = torch.arange(T).expand(B, T)
    padded = padded_positions(IS_TOKEN)
    pairs = []
    for mask, positions in (
        (everything, counted),
        (causal_mask(T)[None, None], counted),
        (MAY_ATTEND, padded),
    ):
        wanted, _ = theirs(x, position_embeddings=angles(positions), attention_mask=mask)
        ours = layer(x, may_attend=mask, positions=positions)
        reads = mask.expand(B, 1, T, T).any(-1)[:, 0]  # what reads nothing is theirs to decide
        pairs.append((ours[reads], wanted[reads]))
    return pairs


@pytest.mark.parametrize("biases", [False, True])
def test_llama(biases):
    theirs = filled(LlamaAttention(LlamaConfig(**SIZES, attention_bias=biases), layer_idx=0))
    layer = with_weights_of(theirs)
    for ours, wanted in both(theirs, layer, random(B, T, M, seed=99)):
        assert_equal(ours, wanted)


def test_the_weights_of_llama_are_these_too():
    config = LlamaConfig(**SIZES | {"attn_implementation": "eager"})
    theirs = filled(LlamaAttention(config, layer_idx=0))
    layer, x = with_weights_of(theirs), random(B, T, M, seed=99)
    positions = torch.arange(T).expand(B, T)
    forbidden = torch.zeros(T, T).double().masked_fill(~causal_mask(T), -torch.inf)
    _, wanted = theirs(
        x, position_embeddings=angles(positions), attention_mask=forbidden[None, None]
    )
    # their softmax is in fp32: each score is rounded once, and so are its exponential (whose error
    # is that of the score), the sum of T of them, the quotient
    q, k = layer.queries(x), layer.keys(x)
    largest = layer.score_scale * q.norm(dim=-1).max() * k.norm(dim=-1).max()
    ours = layer.weights(x, may_attend=causal_mask(T))
    assert_equal(ours, wanted.double(), atol=(2 * largest + T + 4).item() * FP32)


def test_llama_with_yarn_whose_factor_multiplies_cosine_and_sine():
    rope = {
        "rope_type": "yarn",
        "rope_theta": BASE,
        "factor": 40.0,
        "original_max_position_embeddings": 64,
        "beta_fast": 8,
        "beta_slow": 1,
    }
    config = LlamaConfig(**SIZES, rope_parameters=rope, max_position_embeddings=2560)
    theirs = filled(LlamaAttention(config, layer_idx=0))
    scaling = YarnScaling(factor=40.0, original_length=64, beta_fast=8.0, beta_slow=1.0, mscale=1.0)
    layer = MultiHeadAttention(
        M,
        AttentionSizes(n_query_heads=H, n_kv_heads=G, head_dim=D, value_dim=D),
        rotary=RotarySizes(base=BASE, scaling=scaling),
        pairing="half",
    ).double()
    layer.load_state_dict(with_weights_of(theirs).state_dict())
    x, positions = random(B, T, M, seed=99), torch.arange(T).expand(B, T)
    slower = yarn_frequencies(D, base=BASE, factor=40.0, original_length=64, beta_fast=8.0)
    a = LlamaRotaryEmbedding(config).attention_scaling
    assert a > 1.3
    cos, sin = angles(positions, slower)
    wanted, _ = theirs(
        x, position_embeddings=(a * cos, a * sin), attention_mask=causal_mask(T)[None, None]
    )
    assert_equal(layer(x, may_attend=causal_mask(T)), wanted)


def qwen_3() -> tuple[torch.nn.Module, MultiHeadAttention]:
    theirs = filled(Qwen3Attention(Qwen3Config(**SIZES, rms_norm_eps=1e-5), layer_idx=0))
    return theirs, with_weights_of(theirs)


def gemma_3() -> tuple[torch.nn.Module, MultiHeadAttention]:
    config = Gemma3TextConfig(**SIZES, query_pre_attn_scalar=21, rms_norm_eps=1e-5)
    theirs = filled(Gemma3Attention(config, layer_idx=0))
    return theirs, with_weights_of(theirs, one_is_added=True, scale_width=21)


@pytest.mark.parametrize("pair", [qwen_3, gemma_3])
def test_models_that_norm_their_queries_and_keys(pair, monkeypatch):
    theirs, layer = pair()
    x = random(B, T, M, seed=99)
    # their norms go to fp32 by these two names, and only for the dtype's sake
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    monkeypatch.setattr(torch, "float32", torch.float64)
    for ours, wanted in both(theirs, layer, x):
        assert_equal(ours, wanted)


H_SQUARE, D_SQUARE = 6, 12  # h·d = m, as GPT-2 and BERT have it
SQUARE = AttentionSizes(
    n_query_heads=H_SQUARE,
    n_kv_heads=H_SQUARE,
    head_dim=D_SQUARE,
    value_dim=D_SQUARE,
    biases=True,
)


def test_gpt_2_whose_matrices_stand_the_other_way_round():
    config = GPT2Config(n_embd=M, n_head=H_SQUARE, attn_implementation="sdpa")
    theirs = filled(GPT2Attention(config, layer_idx=0))
    assert tuple(theirs.c_attn.weight.shape) == (M, 3 * M)
    layer = MultiHeadAttention(M, SQUARE).double()
    weights = {"output.weight": theirs.c_proj.weight.T, "output.bias": theirs.c_proj.bias}
    thirds = zip(
        ("query", "key", "value"),
        theirs.c_attn.weight.chunk(3, dim=1),
        theirs.c_attn.bias.chunk(3),
        strict=True,
    )
    for name, matrix, offset in thirds:
        weights |= {f"{name}.weight": matrix.T, f"{name}.bias": offset}
    layer.load_state_dict(weights)
    x = random(B, T, M, seed=99)
    # without a mask theirs is causal, which for as many targets as sources is causal_mask
    assert_equal(layer(x, may_attend=causal_mask(T)), theirs(x)[0])
    theirs.config._attn_implementation = "eager"
    forbidden = torch.zeros(T, T).double().masked_fill(~causal_mask(T), -torch.inf)
    wanted, probabilities = theirs(x, attention_mask=forbidden[None, None])[:2]
    assert_equal(layer(x, may_attend=causal_mask(T)), wanted)
    assert_equal(layer.weights(x, may_attend=causal_mask(T)), probabilities)


def test_gpt_2_reading_something_else():
    config = GPT2Config(n_embd=M, n_head=H_SQUARE, attn_implementation="sdpa")
    theirs = filled(GPT2Attention(config, is_cross_attention=True, layer_idx=0))
    layer = MultiHeadAttention(M, SQUARE).double()
    weights = {}
    for name, module in (("query", theirs.q_attn), ("output", theirs.c_proj)):
        weights |= {f"{name}.weight": module.weight.T, f"{name}.bias": module.bias}
    matrices, offsets = theirs.c_attn.weight.chunk(2, dim=1), theirs.c_attn.bias.chunk(2)
    for name, matrix, offset in zip(("key", "value"), matrices, offsets, strict=True):
        weights |= {f"{name}.weight": matrix.T, f"{name}.bias": offset}
    layer.load_state_dict(weights)
    x, read = random(B, T, M, seed=99), random(B, T + 2, M, seed=98)
    assert_equal(layer(x, read), theirs(x, encoder_hidden_states=read)[0])


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_bert(implementation):
    config = BertConfig(
        hidden_size=M, num_attention_heads=H_SQUARE, attn_implementation=implementation
    )
    theirs, output = filled(BertSelfAttention(config)), filled(BertSelfOutput(config))
    layer = MultiHeadAttention(M, SQUARE).double()
    layer.load_state_dict(
        theirs.state_dict() | {f"output.{k}": v for k, v in output.dense.state_dict().items()}
    )
    x, is_token = random(B, T, M, seed=99), torch.arange(T) < torch.tensor([[3], [T]])
    mask = padding_mask(is_token)
    given = torch.zeros(mask.shape).double().masked_fill(~mask, -torch.inf)
    attended, probabilities = theirs(x, attention_mask=mask if implementation == "sdpa" else given)
    # BertSelfOutput adds x and norms after this
    assert_equal(layer(x, may_attend=mask), output.dense(attended))
    if implementation == "eager":
        assert_equal(layer.weights(x, may_attend=mask), probabilities)
