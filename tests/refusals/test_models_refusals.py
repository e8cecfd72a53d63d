"""What a model cannot be or read is refused before any work.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import re
from dataclasses import replace

import pytest
import torch

from attnlib import (
    PUBLISHED,
    AttentionSizes,
    Decoder,
    Encoder,
    EncoderDecoder,
    LanguageModel,
)
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

CAUSAL = replace(SIZES, causal=True, n_segments=0, pooler=False)
BOTH = replace(CAUSAL, n_encoder_layers=3)
EXPERTS = ExpertSizes(n_routed=3, n_chosen=1, inner_width=2)
KINDS = [(Encoder, SIZES), (Decoder, CAUSAL), (LanguageModel, CAUSAL), (EncoderDecoder, BOTH)]


@pytest.mark.parametrize(
    "kind,sizes,change,says",
    [
        (Encoder, SIZES, {"causal": True}, "an encoder has causal=False, got causal=True in a sm"),
        (Encoder, SIZES, {"tied_embeddings": False}, "an encoder has tied_embeddings=True, got"),
        (Decoder, CAUSAL, {"causal": False}, "a decoder has causal=True, got causal=False"),
        (Decoder, CAUSAL, {"n_segments": 2}, "a decoder has n_segments=0, got n_segments=2"),
        (Decoder, CAUSAL, {"pooler": True}, "a decoder has pooler=False, got pooler=True"),
        (LanguageModel, CAUSAL, {"causal": False}, "has causal=True, got causal=False"),
        (LanguageModel, CAUSAL, {"n_segments": 2}, "has n_segments=0, got n_segments=2"),
        (LanguageModel, CAUSAL, {"n_encoder_layers": 1}, "a language model has n_encoder_layers=0"),
        (
            EncoderDecoder,
            BOTH,
            {"n_encoder_layers": 0},
            "has n_encoder_layers of at least 1, got 0",
        ),
        (EncoderDecoder, BOTH, {"n_segments": 2}, "has n_segments=0, got n_segments=2"),
        (EncoderDecoder, BOTH, {"pooler": True}, "has pooler=False, got pooler=True"),
        (
            EncoderDecoder,
            BOTH,
            {"window": 4, "window_pattern": (True,)},
            "a model of encoder and decoder has window=None, got window=4 in a small encoder",
        ),
    ],
)
def test_sizes_of_another_kind_of_model_are_refused_by_the_field(kind, sizes, change, says):
    refused(ValueError, says, kind, replace(sizes, **change))


@pytest.mark.parametrize("kind,sizes", KINDS)
def test_what_no_block_can_be_no_model_can(kind, sizes):
    latent = replace(sizes, attention=PUBLISHED["deepseek-v2"].attention)
    window = {} if kind is EncoderDecoder else {"window": 3, "window_pattern": (True, False)}
    says = "got LatentAttentionSizes in a small encoder"
    refused(ValueError, says, kind, replace(latent, **window))
    if not sizes.n_encoder_layers:
        experts = replace(sizes, experts=replace(EXPERTS, gate="sigmoid"))
        refused(ValueError, "gate='softmax', got gate='sigmoid'", kind, experts)
    rotary = replace(sizes, learned_positions=False, rotary=RotarySizes(base=100.0))
    refused(ValueError, "pairing must be", kind, rotary)
    refused(ValueError, "pairing says how rotary positions turn", kind, sizes, pairing="half")
    refused(ValueError, "at least 0 and below 1, got 1.0", kind, sizes, dropout=1)
    refused(TypeError, "dropout must be a number, got None", kind, sizes, dropout=None)


@pytest.mark.parametrize("name", ["gpt-2", "llama-3-8b", "deepseek-v2", "transformer-base"])
def test_no_decoder_becomes_an_encoder(name):
    refused(ValueError, "an encoder has causal=False", Encoder, PUBLISHED[name])


@pytest.mark.parametrize("kind,sizes", KINDS)
def test_what_are_no_sizes_is_refused(kind, sizes):
    refused(TypeError, "sizes must be ModelSizes, got dict", kind, {"width": 6})
    refused(TypeError, "got AttentionSizes", kind, sizes.attention)


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
        (ValueError, TOKENS[:, :0], "a row of tokens must have from 1 to context=7 places, got 0"),
        (
            ValueError,
            TOKENS.repeat(1, 3),
            "a row of tokens must have from 1 to context=7 places, got 9",
        ),
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


def test_a_model_without_segments_is_given_none():
    model = Encoder(replace(SIZES, n_segments=0))
    says = "a small encoder has no segments (n_segments=0), got segments"
    refused(ValueError, says, model, TOKENS, segments=TOKENS * 0)


# --- decoders ---------------------------------------------------------------------------------

LANGUAGE, DECODER = LanguageModel(CAUSAL), Decoder(BOTH)
TRANSLATOR = EncoderDecoder(BOTH)
READ = torch.zeros(2, 4, 6)
MAY_READ = torch.ones(2, 4).bool()
OF_TOKENS = {
    "logits": LANGUAGE,
    "states": LANGUAGE.states,
    "weights": LANGUAGE.attention_weights,
    "decoder": lambda tokens, **call: DECODER(tokens, read=READ, **call),
    "decoder's states": lambda tokens, **call: DECODER.states(tokens, read=READ, **call),
    "decode": lambda tokens, **call: TRANSLATOR.decode(tokens, READ, **call),
    "translation": lambda tokens, **call: TRANSLATOR(TOKENS, tokens, **call),
    "cross": lambda tokens, **call: TRANSLATOR.cross_attention_weights(TOKENS, tokens, **call),
    "both": lambda tokens, **call: TRANSLATOR.attention_weights(TOKENS, tokens, **call),
}
OF_SOURCE = {
    "encode": TRANSLATOR.encode,
    "translation": lambda source, **call: TRANSLATOR(source, TOKENS, **call),
    "cross": lambda source, **call: TRANSLATOR.cross_attention_weights(source, TOKENS, **call),
    "both": lambda source, **call: TRANSLATOR.attention_weights(source, TOKENS, **call),
}
BAD_TOKENS = [
    (TypeError, [[1, 2]], "must be a tensor of int64 or int32, got list"),
    (TypeError, TOKENS.float(), "must be a tensor of int64 or int32, got torch.float32"),
    (ValueError, TOKENS[0], "must have axes (b, t), got shape (3,)"),
    (ValueError, TOKENS + V - 6, "must be from 0 to v − 1 = 10, got 6 to 11"),
    (ValueError, TOKENS - 2, "must be from 0 to v − 1 = 10, got -1 to 4"),
    (ValueError, TOKENS[:, :0], "must have from 1 to context=7 places, got 0"),
    (ValueError, TOKENS.repeat(1, 3), "must have from 1 to context=7 places, got 9"),
]
BAD_TRUTHS = [
    (TypeError, torch.ones(2, 3), "must be a boolean tensor, True = token, got torch.float32"),
    (ValueError, torch.ones(3, 2).bool(), "(b, t) = (2, 3), got (3, 2)"),
]


@pytest.mark.parametrize("name", OF_TOKENS)
def test_tokens_of_a_decoder_that_cannot_be_looked_up_are_refused(name):
    for kind, tokens, says in BAD_TOKENS:
        refused(kind, says, OF_TOKENS[name], tokens)
    for kind, is_token, says in BAD_TRUTHS:
        refused(kind, says, OF_TOKENS[name], TOKENS, is_token=is_token)


@pytest.mark.parametrize("name", OF_SOURCE)
def test_sources_that_cannot_be_looked_up_are_refused_by_their_name(name):
    for kind, source, says in BAD_TOKENS:
        with pytest.raises(kind, match=f"source {re.escape(says)}"):
            OF_SOURCE[name](source)
    for kind, is_source, says in BAD_TRUTHS:
        with pytest.raises(kind, match=f"is_source must .*{re.escape(says.removeprefix('must '))}"):
            OF_SOURCE[name](TOKENS, is_source=is_source)


def test_source_and_tokens_have_as_many_rows():
    says = "the same b, got b=1 in source and b=2 in tokens"
    refused(ValueError, says, TRANSLATOR, TOKENS[:1], TOKENS)
    refused(ValueError, says, TRANSLATOR.cross_attention_weights, TOKENS[:1], TOKENS)
    refused(ValueError, says, TRANSLATOR.attention_weights, TOKENS[:1], TOKENS)


@pytest.mark.parametrize(
    "kind,read,says",
    [
        (ValueError, None, "the decoder of a small encoder reads the output of an encoder, got re"),
        (
            TypeError,
            READ.long(),
            "read must be a tensor of fp16, bf16, fp32 or fp64, got torch.int",
        ),
        (ValueError, READ[0], "read must have axes (b, s, m), got shape (4, 6)"),
        (ValueError, READ[:1], "with b=2, at least 1 source and m=6, got shape (1, 4, 6)"),
        (ValueError, READ[..., :5], "with b=2, at least 1 source and m=6, got shape (2, 4, 5)"),
        (ValueError, READ[:, :0], "with b=2, at least 1 source and m=6, got shape (2, 0, 6)"),
        (TypeError, READ.double(), "read must have the dtype of the model, got torch.float64"),
    ],
)
def test_what_a_decoder_cannot_read_is_refused_before_it_begins(kind, read, says):
    def worked(*_):
        raise AssertionError("worked before refusing")

    decoder = Decoder(BOTH)
    decoder.blocks[0].register_forward_pre_hook(worked)
    for method in (decoder, decoder.states, decoder.attention_weights):
        refused(kind, says, method, TOKENS, read=read)
    refused(kind, says, decoder.cross_attention_weights, TOKENS, read=read)
    if read is not None:
        refused(kind, says, TRANSLATOR.decode, TOKENS, read)


def test_what_may_be_read_is_said_of_what_is_read():
    call = {"read": READ}
    says = "may_read must be a boolean tensor, True = may be read, got torch.int64"
    refused(TypeError, says, DECODER, TOKENS, may_read=MAY_READ.long(), **call)
    says = "may_read must have the axes (b, s) of read, (2, 4), got (2, 3)"
    refused(ValueError, says, DECODER, TOKENS, may_read=MAY_READ[:, :3], **call)


def test_a_decoder_beside_no_encoder_is_given_nothing_to_read():
    decoder = Decoder(CAUSAL)
    says = "read and may_read are for a decoder beside an encoder, got them and n_encoder_layers=0"
    for call in ({"read": READ}, {"may_read": MAY_READ}):
        for method in (decoder, decoder.states, decoder.attention_weights):
            refused(ValueError, says, method, TOKENS, **call)
    refused(ValueError, says, decoder.cross_attention_weights, TOKENS, read=READ)
