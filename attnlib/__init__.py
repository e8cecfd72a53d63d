"""The mathematics of Transformer attention as small, tested functions.

Chapter  chapters/attention.md
Axes     attnlib/axes.py

    >>> import attnlib
    >>> attnlib.causal_mask(2, 5).int()
    tensor([[1, 1, 1, 1, 0],
            [1, 1, 1, 1, 1]], dtype=torch.int32)

Importing it costs little beyond torch: what draws, reads files or judges exercises is loaded when
it is first used.
"""

import importlib

from attnlib.attention import (
    attention_weights,
    attention_with_lse,
    dot_product_attention,
    grouped_query_attention,
)
from attnlib.axes import AXES
from attnlib.beams import Beam, beam_search
from attnlib.caches import CrossCache, KVCache, LatentCache, ModelCache, WindowCache
from attnlib.fast_decoding import DecodeStep
from attnlib.generation import generate
from attnlib.latent import latent_attention_absorbed, latent_attention_expanded
from attnlib.layers import (
    Block,
    FeedForward,
    LatentSelfAttention,
    MixtureOfExperts,
    MultiHeadAttention,
)
from attnlib.masks import (
    block_mask,
    causal_mask,
    compose_masks,
    document_mask,
    padding_mask,
    prefix_mask,
    window_mask,
)
from attnlib.models import Decoder, Encoder, EncoderDecoder, LanguageModel
from attnlib.number_words import NumberWordsTokenizer
from attnlib.positions import (
    alibi_bias,
    alibi_slopes,
    linear_frequencies,
    llama3_frequencies,
    padded_positions,
    pairing_permutation,
    rotary_frequencies,
    rotate,
    shift_matrix,
    sinusoidal_encoding,
    yarn_attention_factor,
    yarn_frequencies,
)
from attnlib.pretrained import load_pretrained
from attnlib.sampling import GREEDY, Sampler
from attnlib.sizes import PUBLISHED, TRAINED, AttentionSizes, LatentAttentionSizes, ModelSizes
from attnlib.softmax import log_sum_exp, merge_attention, softmax
from attnlib.speculative import Speculation, speculative_generate
from attnlib.tokenizer import BytePairTokenizer
from attnlib.word_piece import WordPieceTokenizer, word_piece

__version__ = "0.1.0"

__all__ = [
    "AXES",
    "GREEDY",
    "PUBLISHED",
    "TRAINED",
    "AttentionSizes",
    "Beam",
    "Block",
    "BytePairTokenizer",
    "CrossCache",
    "DecodeStep",
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "FeedForward",
    "KVCache",
    "LanguageModel",
    "LatentAttentionSizes",
    "LatentCache",
    "LatentSelfAttention",
    "MixtureOfExperts",
    "ModelCache",
    "ModelSizes",
    "MultiHeadAttention",
    "NumberWordsTokenizer",
    "Sampler",
    "Speculation",
    "WindowCache",
    "WordPieceTokenizer",
    "alibi_bias",
    "alibi_slopes",
    "attention_weights",
    "attention_with_lse",
    "beam_search",
    "block_mask",
    "causal_mask",
    "compose_masks",
    "document_mask",
    "dot_product_attention",
    "explore",
    "generate",
    "grouped_query_attention",
    "kv_cache_bytes",
    "latent_attention_absorbed",
    "latent_attention_expanded",
    "linear_frequencies",
    "llama3_frequencies",
    "load_pretrained",
    "log_sum_exp",
    "merge_attention",
    "padded_positions",
    "padding_mask",
    "pairing_permutation",
    "prefix_mask",
    "rotary_frequencies",
    "rotate",
    "shift_matrix",
    "sinusoidal_encoding",
    "softmax",
    "speculative_generate",
    "window_mask",
    "word_piece",
    "yarn_attention_factor",
    "yarn_frequencies",
]

_LOADED_WHEN_USED = ("cost", "data", "definitions", "exercises", "explore", "plots")


def __getattr__(name: str):
    if name == "kv_cache_bytes":
        return importlib.import_module("attnlib.cost").kv_cache_bytes
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module 'attnlib' has no attribute {name!r}")
    return importlib.import_module(f"attnlib.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LOADED_WHEN_USED})
