"""What an encoder cannot be or read is refused before any work, and so is what cannot be loaded.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import re
from dataclasses import replace

import pytest
import torch

from attnlib import PUBLISHED, AttentionSizes, Encoder, WordPieceTokenizer
from attnlib import load_pretrained as load
from attnlib.models import EncoderBlock
from attnlib.pretrained import Pretrained, folder_of, is_installed
from attnlib.sizes import ExpertSizes, RotarySizes

V, CONTEXT = 11, 7
SIZES = replace(
    PUBLISHED["minilm-l6"],
    name="a small encoder",
    source="made up for a test",
    n_layers=2,
    width=6,
    attention=AttentionSizes(n_query_heads=2, n_kv_heads=2, head_dim=4, value_dim=4, biases=True),
    feed_forward_width=5,
    vocabulary=V,
    context=CONTEXT,
)
ENCODER = Encoder(SIZES)
TOKENS = torch.tensor([[1, 2, 3], [4, 5, 6]])
METHODS = [
    ENCODER,
    ENCODER.states,
    ENCODER.embed,
    ENCODER.attention_weights,
    ENCODER.sentence_vectors,
    ENCODER.pooled,
]
WITH_SEGMENTS = [method for method in METHODS if method != ENCODER.sentence_vectors]


def refused(kind, says, call, *arguments, **options):
    with pytest.raises(kind, match=re.escape(says)):
        call(*arguments, **options)


# --- sizes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change,says",
    [
        ({"gated": True}, "has gated=False, got gated=True in a small encoder"),
        ({"activation": "gelu-tanh"}, "has activation='gelu', got activation='gelu-tanh'"),
        ({"feed_forward_biases": False}, "has feed_forward_biases=True, got"),
        ({"tied_embeddings": False}, "has tied_embeddings=True, got"),
        ({"experts": ExpertSizes(n_routed=3, n_chosen=1, inner_width=2)}, "has experts=None, got"),
        ({"norm": "rms"}, "has norm='layer', got norm='rms'"),
        ({"norms_per_layer": 4}, "has norms_per_layer=2, got norms_per_layer=4"),
        ({"norm_of_embedding": False}, "has norm_of_embedding=True, got"),
        ({"norm_at_end": True}, "has norm_at_end=False, got"),
        ({"rotary": RotarySizes(base=100.0)}, "has rotary=None, got"),
        ({"learned_positions": False}, "has learned_positions=True, got"),
        ({"window": 4, "window_pattern": (True,)}, "has window=None, got window=4"),
        ({"causal": True}, "has causal=False, got causal=True"),
        ({"n_segments": 0}, "has at least 1 segment, got n_segments=0"),
        ({"attention": PUBLISHED["deepseek-v2"].attention}, "got LatentAttentionSizes"),
        ({"attention": replace(SIZES.attention, biases=False)}, "has biases=True, got"),
        ({"attention": replace(SIZES.attention, query_key_norm=True)}, "has query_key_norm=False"),
    ],
)
@pytest.mark.parametrize("kind", [Encoder, EncoderBlock])
def test_sizes_of_another_kind_of_model_are_refused_by_the_field(kind, change, says):
    refused(ValueError, says, kind, replace(SIZES, **change))


@pytest.mark.parametrize("name", ["gpt-2", "llama-3-8b", "deepseek-v2"])
def test_no_decoder_becomes_an_encoder(name):
    with pytest.raises(ValueError, match="encoder"):
        Encoder(PUBLISHED[name])


def test_what_are_no_sizes_is_refused():
    refused(TypeError, "sizes must be ModelSizes, got dict", Encoder, {"width": 6})
    refused(TypeError, "got AttentionSizes", Encoder, SIZES.attention)


# --- tokens -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "kind,tokens,says",
    [
        (TypeError, [[1, 2]], "tokens must be a tensor of int64 or int32, got list"),
        (TypeError, TOKENS.float(), "tokens must be a tensor of int64 or int32, got torch.float32"),
        (TypeError, TOKENS.bool(), "got torch.bool"),
        (ValueError, TOKENS[0], "tokens must have axes (b, t), got shape (3,)"),
        (ValueError, TOKENS + V - 6, "tokens must be from 0 to v − 1 = 10, got 6 to 11"),
        (ValueError, TOKENS - 2, "tokens must be from 0 to v − 1 = 10, got -1 to 4"),
        (ValueError, TOKENS[:, :0], "a row must have from 1 to context=7 places, got t=0"),
        (ValueError, TOKENS.repeat(1, 3), "a row must have from 1 to context=7 places, got t=9"),
    ],
)
def test_tokens_that_cannot_be_looked_up_are_refused(method, kind, tokens, says):
    refused(kind, says, method, tokens)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "kind,is_token,says",
    [
        (TypeError, torch.ones(2, 3), "a boolean tensor, True = token, got torch.float32"),
        (TypeError, [[True] * 3] * 2, "is_token must be a boolean tensor, True = token"),
        (ValueError, torch.ones(3, 2).bool(), "of tokens, (b, t) = (2, 3), got (3, 2)"),
        (ValueError, torch.ones(3).bool(), "of tokens, (b, t) = (2, 3), got (3,)"),
    ],
)
def test_truth_values_that_do_not_fit_the_tokens_are_refused(method, kind, is_token, says):
    refused(kind, says, method, TOKENS, is_token=is_token)


@pytest.mark.parametrize("method", WITH_SEGMENTS)
@pytest.mark.parametrize(
    "kind,segments,says",
    [
        (TypeError, torch.ones(2, 3), "segments must be a tensor of int64 or int32"),
        (ValueError, TOKENS // 3, "segments must be from 0 to n_segments − 1 = 1, got 0 to 2"),
        (ValueError, TOKENS[:1] * 0, "segments must have the shape of tokens, (b, t) = (2, 3)"),
    ],
)
def test_segments_that_cannot_be_looked_up_are_refused(method, kind, segments, says):
    refused(kind, says, method, TOKENS, segments=segments)


def test_a_row_of_padding_has_no_mean_and_no_first_token():
    is_token = torch.tensor([[True, True, True], [False, False, False]])
    refused(
        ValueError, "at least 1 token in every row", ENCODER.sentence_vectors, TOKENS,
        is_token=is_token,
    )  # fmt: skip
    is_token = torch.tensor([[True, True, True], [False, True, True]])
    says = "every row must begin with a token, got padding at t=0"
    refused(ValueError, says, ENCODER.pooled, TOKENS, is_token=is_token)


def test_a_model_without_pooler_cannot_pool():
    model = Encoder(replace(SIZES, pooler=False))
    refused(ValueError, "a small encoder must have a pooler to pool", model.pooled, TOKENS)


# --- real weights -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["minilm", "MINILM-L6", "", None, ["minilm-l6"]])
@pytest.mark.parametrize("call", [load, folder_of, is_installed])
def test_an_unknown_model_is_refused_with_the_one_that_exists(call, name):
    refused(ValueError, f"name must be one of 'minilm-l6'; got {name!r}", call, name)


def test_a_batch_of_one_text_by_mistake_or_of_none_is_refused():
    tokenizer = WordPieceTokenizer({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2})
    small = Pretrained(
        name="small", model=ENCODER, tokenizer=tokenizer, source="a test", licence="none"
    )
    refused(TypeError, "got one text: write [text]", small.batch, "to be")
    refused(ValueError, "a batch must have at least 1 text, got none", small.batch, [])


@pytest.mark.parametrize("path", [7, b"model"])
def test_a_path_is_a_text_or_a_path(path):
    with pytest.raises(TypeError):
        load("minilm-l6", path=path)
