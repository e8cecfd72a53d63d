"""Published models, each number with the place where it can be read.

Source   named in every entry
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from attnlib.sizes.attention import AttentionSizes, LatentAttentionSizes
from attnlib.sizes.by_name import SizesByName
from attnlib.sizes.model import ExpertSizes, ModelSizes
from attnlib.sizes.rotary import LinearScaling, Llama3Scaling, RotarySizes, YarnScaling


def _llama(**sizes: object) -> ModelSizes:
    """What all Llama models have in common, and SmolLM2 and DeepSeek LLM with them."""
    common = {
        "gated": True,
        "activation": "silu",
        "norm": "rms",
        "norm_placement": "pre",
        "norm_epsilon": 1e-5,
    }
    return ModelSizes(**(common | sizes))


def _gemma_3(**sizes: object) -> ModelSizes:
    """What the Gemma 3 models have in common.

    The tokenizer has 262,144 tokens, and so has the vocabulary of Google's own code. The released
    configuration of the larger models says 262,208: 64 rows more, the first of which stands for
    an image.
    """
    common = {
        "gated": True,
        "activation": "gelu-tanh",
        "vocabulary": 262_144,
        "tied_embeddings": True,
        "norm": "rms",
        "norm_placement": "peri",
        "norm_epsilon": 1e-6,
        "window_pattern": (True, True, True, True, True, False),
        "scaled_embedding": True,
    }
    return ModelSizes(**(common | sizes))


def _gpt(**sizes: object) -> ModelSizes:
    """What the models GPT-2 and GPT-3 have in common."""
    common = {
        "gated": False,
        "activation": "gelu-tanh",
        "feed_forward_biases": True,
        "vocabulary": 50_257,
        "tied_embeddings": True,
        "norm": "layer",
        "norm_placement": "pre",
        "norm_epsilon": 1e-5,
        "learned_positions": True,
    }
    return ModelSizes(**(common | sizes))


def _transformer(**sizes: object) -> ModelSizes:
    """What the translators of 2017 have in common.

    The paper states no longest text; its code trained on pairs of up to 256 tokens. Nor does it
    state the vocabulary to the last token: "about 37000".
    """
    common = {
        "source": "arXiv:1706.03762, sections 3 and 5.1 and table 3; tensorflow/tensor2tensor, "
        "models/transformer.py (transformer_base_v1: context, ε)",
        "n_layers": 6,
        "n_encoder_layers": 6,
        "gated": False,
        "activation": "relu",
        "feed_forward_biases": True,
        "vocabulary": 37_000,
        "tied_embeddings": True,
        "norm": "layer",
        "norm_placement": "post",
        "norm_at_end": False,
        "norm_epsilon": 1e-6,
        "context": 256,
        "sinusoidal_positions": True,
        "scaled_embedding": True,
    }
    return ModelSizes(**(common | sizes))


def _bert(**sizes: object) -> ModelSizes:
    """What BERT and its small descendants have in common; a pooler is counted."""
    common = {
        "gated": False,
        "activation": "gelu",
        "feed_forward_biases": True,
        "vocabulary": 30_522,
        "tied_embeddings": True,
        "norm": "layer",
        "norm_placement": "post",
        "norm_of_embedding": True,
        "norm_at_end": False,
        "norm_epsilon": 1e-12,
        "context": 512,
        "learned_positions": True,
        "n_segments": 2,
        "causal": False,
        "pooler": True,
    }
    return ModelSizes(**(common | sizes))


def _llama_3_heads(n_query_heads: int, head_dim: int) -> AttentionSizes:
    return AttentionSizes(
        n_query_heads=n_query_heads, n_kv_heads=8, head_dim=head_dim, value_dim=head_dim
    )


def _same_heads(n_heads: int, head_dim: int) -> AttentionSizes:
    """Multi-head attention with biases, as GPT-2 and BERT have it."""
    return AttentionSizes(
        n_query_heads=n_heads,
        n_kv_heads=n_heads,
        head_dim=head_dim,
        value_dim=head_dim,
        biases=True,
    )


def _llama_3_scaling(factor: float) -> Llama3Scaling:
    return Llama3Scaling(
        factor=factor, low_frequency_factor=1.0, high_frequency_factor=4.0, original_length=8192
    )


_LLAMA_2_7B = _llama(
    name="Llama 2 7B",
    source="arXiv:2307.09288, section 2.2; config.json of the release",
    n_layers=32,
    width=4096,
    attention=AttentionSizes(n_query_heads=32, n_kv_heads=32, head_dim=128, value_dim=128),
    feed_forward_width=11_008,
    vocabulary=32_000,
    tied_embeddings=False,
    context=4096,
    rotary=RotarySizes(base=10_000.0),
)

_LLAMA_3_8B = _llama(
    name="Llama 3 8B",
    source="arXiv:2407.21783, table 3; config.json of the release",
    n_layers=32,
    width=4096,
    attention=_llama_3_heads(32, 128),
    feed_forward_width=14_336,
    vocabulary=128_256,
    tied_embeddings=False,
    context=8192,
    rotary=RotarySizes(base=500_000.0),
)

_LLAMA_3_70B = _llama(
    name="Llama 3 70B",
    source="arXiv:2407.21783, table 3; config.json of the release",
    n_layers=80,
    width=8192,
    attention=_llama_3_heads(64, 128),
    feed_forward_width=28_672,
    vocabulary=128_256,
    tied_embeddings=False,
    context=8192,
    rotary=RotarySizes(base=500_000.0),
)

_LLAMA_3_1_70B = replace(
    _LLAMA_3_70B,
    name="Llama 3.1 70B",
    source="arXiv:2407.21783, table 3; meta-llama/llama-models, models/llama3_1/MODEL_CARD.md; "
    "config.json of the release",
    context=131_072,
    rotary=RotarySizes(base=500_000.0, scaling=_llama_3_scaling(8.0)),
)

_LLAMA_3_2_1B = _llama(
    name="Llama 3.2 1B",
    source="meta-llama/llama-models, models/llama3_2/MODEL_CARD.md; config.json of the release",
    n_layers=16,
    width=2048,
    attention=_llama_3_heads(32, 64),
    feed_forward_width=8192,
    vocabulary=128_256,
    tied_embeddings=True,
    context=131_072,
    rotary=RotarySizes(base=500_000.0, scaling=_llama_3_scaling(32.0)),
)

_SMOLLM2_135M = _llama(
    name="SmolLM2 135M",
    source="arXiv:2502.02737; huggingface/smollm; config.json of the release",
    n_layers=30,
    width=576,
    attention=AttentionSizes(n_query_heads=9, n_kv_heads=3, head_dim=64, value_dim=64),
    feed_forward_width=1536,
    vocabulary=49_152,
    tied_embeddings=True,
    context=8192,
    rotary=RotarySizes(base=100_000.0),
)

_GEMMA_3_27B = _gemma_3(
    name="Gemma 3 27B",
    source="arXiv:2503.19786; google-deepmind/gemma, gemma/gm/nn/_gemma.py (text part)",
    n_layers=62,
    width=5376,
    attention=AttentionSizes(
        n_query_heads=32,
        n_kv_heads=16,
        head_dim=128,
        value_dim=128,
        scale_width=168,
        query_key_norm=True,
    ),
    feed_forward_width=21_504,
    context=131_072,
    rotary=RotarySizes(base=1_000_000.0, window_base=10_000.0, scaling=LinearScaling(factor=8.0)),
    window=1024,
)

_GEMMA_3_270M = _gemma_3(
    name="Gemma 3 270M",
    source="google-deepmind/gemma, gemma/gm/nn/_gemma.py; config.json of the release",
    n_layers=18,
    width=640,
    attention=AttentionSizes(
        n_query_heads=4, n_kv_heads=1, head_dim=256, value_dim=256, query_key_norm=True
    ),
    feed_forward_width=2048,
    context=32_768,
    rotary=RotarySizes(base=1_000_000.0, window_base=10_000.0),
    window=512,
)

# The baseline of the report of DeepSeek-V2.
_DEEPSEEK_67B = _llama(
    name="DeepSeek LLM 67B",
    source="arXiv:2401.02954, table 2; config.json of deepseek-ai/deepseek-llm-67b-base",
    n_layers=95,
    width=8192,
    attention=AttentionSizes(n_query_heads=64, n_kv_heads=8, head_dim=128, value_dim=128),
    feed_forward_width=22_016,
    vocabulary=102_400,
    tied_embeddings=False,
    norm_epsilon=1e-6,
    context=4096,
    rotary=RotarySizes(base=10_000.0),
)

# The report states a context of 128K; YaRN's factor 40 on a trained length of 4,096 would allow
# 163,840, which is what the configuration says.
_DEEPSEEK_V2 = ModelSizes(
    name="DeepSeek-V2",
    source="arXiv:2405.04434, sections 3.1.2 and 3.1.4; deepseek-ai/DeepSeek-V3, config_236B.json",
    n_layers=60,
    width=5120,
    attention=LatentAttentionSizes(
        n_query_heads=128,
        query_latent=1536,
        kv_latent=512,
        nope_dim=128,
        rope_dim=64,
        value_dim=128,
    ),
    feed_forward_width=12_288,
    gated=True,
    activation="silu",
    experts=ExpertSizes(
        n_routed=160,
        n_chosen=6,
        inner_width=1536,
        n_shared=2,
        n_dense_layers=1,
        n_devices=8,
        n_devices_at_most=3,
        gate_factor=16.0,
    ),
    vocabulary=102_400,
    tied_embeddings=False,
    norm="rms",
    norm_placement="pre",
    norm_epsilon=1e-6,
    context=131_072,
    rotary=RotarySizes(
        base=10_000.0,
        scaling=YarnScaling(
            factor=40.0, original_length=4096, beta_fast=32.0, beta_slow=1.0, mscale=0.707
        ),
    ),
)

# Context and YaRN as in DeepSeek-V2. Not counted are the module that predicts a second token, and
# the biases that balance the choice of experts, which no gradient trains.
_DEEPSEEK_V3 = ModelSizes(
    name="DeepSeek-V3",
    source="arXiv:2412.19437, sections 4.2 and 4.3; deepseek-ai/DeepSeek-V3, config_671B.json",
    n_layers=61,
    width=7168,
    attention=_DEEPSEEK_V2.attention,
    feed_forward_width=18_432,
    gated=True,
    activation="silu",
    experts=ExpertSizes(
        n_routed=256,
        n_chosen=8,
        inner_width=2048,
        n_shared=1,
        n_dense_layers=3,
        n_devices=8,
        n_devices_at_most=4,
        gate="sigmoid",
        gate_factor=2.5,
    ),
    vocabulary=129_280,
    tied_embeddings=False,
    norm="rms",
    norm_placement="pre",
    norm_epsilon=1e-6,
    context=131_072,
    rotary=RotarySizes(
        base=10_000.0,
        scaling=YarnScaling(
            factor=40.0, original_length=4096, beta_fast=32.0, beta_slow=1.0, mscale=1.0
        ),
    ),
)

_GPT_2 = _gpt(
    name="GPT-2",
    source="Radford et al. 2019, table 2, the smallest; openai/gpt-2, src/model.py",
    n_layers=12,
    width=768,
    attention=_same_heads(12, 64),
    feed_forward_width=3072,
    context=1024,
)

_GPT_2_XL = _gpt(
    name="GPT-2 XL",
    source="Radford et al. 2019, table 2, the largest; openai/gpt-2, src/model.py",
    n_layers=48,
    width=1600,
    attention=_same_heads(25, 64),
    feed_forward_width=6400,
    context=1024,
)

# Every second layer reads in bands of a width that the paper does not state; that changes no
# parameter, and here all layers read everything.
_GPT_3 = _gpt(
    name="GPT-3 175B",
    source="arXiv:2005.14165, section 2.1 and table 2.1",
    n_layers=96,
    width=12_288,
    attention=_same_heads(96, 128),
    feed_forward_width=49_152,
    context=2048,
)

_TRANSFORMER_BASE = _transformer(
    name="Transformer (base)",
    attention=AttentionSizes(n_query_heads=8, n_kv_heads=8, head_dim=64, value_dim=64),
    width=512,
    feed_forward_width=2048,
)

_TRANSFORMER_BIG = _transformer(
    name="Transformer (big)",
    attention=AttentionSizes(n_query_heads=16, n_kv_heads=16, head_dim=64, value_dim=64),
    width=1024,
    feed_forward_width=4096,
)

_BERT_BASE = _bert(
    name="BERT base (uncased)",
    source="arXiv:1810.04805, section 3; google-research/bert, bert_config.json of the release",
    n_layers=12,
    width=768,
    attention=_same_heads(12, 64),
    feed_forward_width=3072,
)

_MINILM_L6 = _bert(
    name="all-MiniLM-L6-v2",
    source="arXiv:2002.10957 (MiniLM); config.json of sentence-transformers/all-MiniLM-L6-v2",
    n_layers=6,
    width=384,
    attention=_same_heads(12, 32),
    feed_forward_width=1536,
)

PUBLISHED: Mapping[str, ModelSizes] = MappingProxyType(
    SizesByName(
        {
            "llama-2-7b": _LLAMA_2_7B,
            "llama-3-8b": _LLAMA_3_8B,
            "llama-3-70b": _LLAMA_3_70B,
            "llama-3.1-70b": _LLAMA_3_1_70B,
            "llama-3.2-1b": _LLAMA_3_2_1B,
            "smollm2-135m": _SMOLLM2_135M,
            "gemma-3-27b": _GEMMA_3_27B,
            "gemma-3-270m": _GEMMA_3_270M,
            "deepseek-67b": _DEEPSEEK_67B,
            "deepseek-v2": _DEEPSEEK_V2,
            "deepseek-v3": _DEEPSEEK_V3,
            "transformer-base": _TRANSFORMER_BASE,
            "transformer-big": _TRANSFORMER_BIG,
            "gpt-2": _GPT_2,
            "gpt-2-xl": _GPT_2_XL,
            "gpt-3": _GPT_3,
            "bert-base": _BERT_BASE,
            "minilm-l6": _MINILM_L6,
        }
    )
)
"""Published models by a short name, with the source of their sizes."""
