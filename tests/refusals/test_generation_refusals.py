"""What cannot be sampled, generated, scored or trained on is refused by name before any work.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from attnlib import PUBLISHED, AttentionSizes, EncoderDecoder, LanguageModel, Sampler, generate
from attnlib.likelihood import bits_per_byte, perplexity, text_windows, token_log_probabilities
from attnlib.sampling import draw, fault_of_logits, keep_min_p, keep_top_k, keep_top_p, temper
from attnlib.token_rows import pad_left
from attnlib.training import cross_entropy, inverse_root_rate, learning_rate, shifted, train

V, CONTEXT = 11, 6
SIZES = replace(
    PUBLISHED["gpt-2"],
    name="a small language model",
    source="made up for a test",
    n_layers=1,
    width=6,
    attention=AttentionSizes(n_query_heads=2, n_kv_heads=2, head_dim=4, value_dim=4, biases=True),
    feed_forward_width=5,
    vocabulary=V,
    context=CONTEXT,
)
MODEL = LanguageModel(SIZES)
TRANSLATOR = EncoderDecoder(replace(SIZES, n_encoder_layers=1))
with torch.device("meta"):
    MODEL_WITHOUT_WEIGHTS = LanguageModel(SIZES)
TOKENS = torch.tensor([[1, 2, 3], [4, 5, 6]])
HALF = torch.tensor([[True, True, True], [False, False, False]])
LOGITS = torch.zeros(2, 3)
STEPS = [
    lambda z: temper(z, 1.0),
    lambda z: keep_top_k(z, 2),
    lambda z: keep_top_p(z, 0.5),
    lambda z: keep_min_p(z, 0.5),
    Sampler(top_k=2).probabilities,
]


def refused(kind, says, call, *arguments, **options):
    with pytest.raises(kind, match=re.escape(says)):
        call(*arguments, **options)


@pytest.fixture(autouse=True)
def no_work(monkeypatch):
    """A model that is asked for anything fails the test."""

    def asked(*_, **__):
        raise AssertionError("the model was asked before the refusal")

    for model in (MODEL, TRANSLATOR):
        for part in model.modules():
            monkeypatch.setattr(part, "forward", asked)


# --- sampling ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind,says,given",
    [
        (ValueError, "temperature must be above 0, got 0; for", {"temperature": 0}),
        (ValueError, "for the likeliest token take GREEDY", {"temperature": 0.0}),
        (ValueError, "temperature must be above 0, got -1", {"temperature": -1}),
        (ValueError, "temperature must be finite, got inf", {"temperature": math.inf}),
        (ValueError, "temperature must be finite, got nan", {"temperature": math.nan}),
        (TypeError, "temperature must be a number, got '1'", {"temperature": "1"}),
        (TypeError, "temperature must be a number, got None", {"temperature": None}),
        (ValueError, "top_k must be at least 1, got 0", {"top_k": 0}),
        (TypeError, "top_k must be a whole number, got 2.5", {"top_k": 2.5}),
        (TypeError, "top_k must be a whole number, got True", {"top_k": True}),
        (ValueError, "top_p must be above 0 and at most 1, got 0", {"top_p": 0}),
        (ValueError, "top_p must be above 0 and at most 1, got 1.5", {"top_p": 1.5}),
        (ValueError, "top_p must be finite, got nan", {"top_p": math.nan}),
        (ValueError, "min_p must be from 0 to 1, got -0.1", {"min_p": -0.1}),
        (ValueError, "min_p must be from 0 to 1, got 2", {"min_p": 2}),
    ],
)
def test_no_sampler_has_such_values(kind, says, given):
    refused(kind, says, Sampler, **given)


def test_numbers_of_numpy_and_whole_ones_will_do():
    sampler = Sampler(temperature=np.float32(0.5), top_k=np.int64(3), top_p=1, min_p=np.float64(0))
    assert sampler == Sampler(temperature=0.5, top_k=3, top_p=1.0, min_p=0.0)
    assert type(sampler.top_k) is int and type(sampler.top_p) is float


@pytest.mark.parametrize("step", STEPS, ids=["temper", "k", "p", "min-p", "all"])
def test_logits_must_leave_something_to_choose(step):
    of_rows = "every row of logits must hold a finite one and neither NaN nor +inf, got "
    for value, holds in ((math.nan, "NaN"), (math.inf, "+inf")):
        bad = LOGITS.clone()
        bad[1, 2] = value
        refused(ValueError, f"{of_rows}{holds} in row 1", step, bad)
    refused(ValueError, f"{of_rows}nothing but -inf in row 0", step, LOGITS - math.inf)
    refused(ValueError, "v must be at least 1, got shape (2, 0)", step, torch.zeros(2, 0))
    refused(ValueError, "logits must have a last axis v, got shape ()", step, torch.tensor(1.0))
    refused(TypeError, "logits must be a tensor of fp16, bf16, fp32 or fp64", step, LOGITS.long())
    refused(TypeError, "logits must be a tensor", step, [0.0, 1.0])


def test_a_draw_needs_64_bits_and_a_number_for_each_row():
    p, u = torch.full((2, 3), 1 / 3).double(), torch.zeros(2).double()
    refused(TypeError, "probabilities must be a tensor of fp64", draw, p.float(), u)
    refused(TypeError, "uniforms must be a tensor of fp64, got list", draw, p, [0.5])
    says = "uniforms must have the shape of probabilities without their last axis v, got shapes "
    refused(ValueError, f"{says}(3,) and (2, 3)", draw, p, torch.zeros(3).double())
    refused(ValueError, "v must be at least 1", fault_of_logits, torch.zeros(2, 0))
    refused(ValueError, "v must be at least 1, got shape (2, 0)", draw, p[:, :0], u)


def test_no_draw_from_what_is_no_distribution_or_with_what_is_no_uniform_number():
    p, u = torch.full((2, 3), 1 / 3).double(), torch.zeros(2).double()
    for wrong in (-0.25, 1.0, math.nan, math.inf):
        says = f"uniforms must be at least 0 and below 1, got {wrong}"
        refused(ValueError, says, draw, p, torch.tensor([0.5, wrong]).double())
    says = "probabilities must be at least 0 and have a positive and finite sum in every row, got "
    for row, got in (
        ([0.0, 0.0, 0.0], "at least 0.0 and a sum of 0.0"),
        ([0.5, -0.25, 1.0], "at least -0.25 and a sum of 1.25"),
        ([0.5, math.nan, 1.0], "at least nan and a sum of nan"),
        ([0.5, math.inf, 1.0], "at least 0.5 and a sum of inf"),
    ):
        bad = torch.tensor([[0.5, 0.25, 0.25], row]).double()
        refused(ValueError, f"{says}{got} in row 1", draw, bad, u)
        refused(ValueError, f"{says}{got} in row 0", draw, bad[1], u[1])


# --- generation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind,says,given",
    [
        (TypeError, "model must be a LanguageModel or an EncoderDecoder", {"model": nn.ReLU()}),
        (ValueError, "got t=3, n_new=5 and context=6", {"n_new": 5}),
        (ValueError, "n_new must be at least 0, got -1", {"n_new": -1}),
        (TypeError, "n_new must be a whole number, got 2.0", {"n_new": 2.0}),
        (TypeError, "tokens must be signed integers, got torch.float32",
         {"tokens": TOKENS.float()}),
        (TypeError, "tokens must be signed integers, got torch.bool", {"tokens": TOKENS.bool()}),
        (ValueError, "tokens must be rows of ids, got shape (3,)", {"tokens": TOKENS[0]}),
        (TypeError, "tokens must be rows of ids, got str", {"tokens": "to be"}),
        (TypeError, "tokens must be rows of ids, got set", {"tokens": {1, 2}}),
        (TypeError, "a row of tokens must be a sequence of integers, got 1", {"tokens": [1, 2]}),
        (TypeError, "an id must be a whole number, got 1.5", {"tokens": [[1.5]]}),
        (ValueError, "every row of tokens must have at least 1 token, got 0 in row 1",
         {"tokens": [[1], []]}),
        (ValueError, "every row of tokens must have at least 1 token, got 0 in row 1",
         {"is_token": HALF}),
        (ValueError, "every row of tokens must have at least 1 token, got 0 in row 0",
         {"tokens": TOKENS[:, :0]}),
        (ValueError, "tokens must be from 0 to v - 1 = 10, got 11 in row 1",
         {"tokens": [[1], [3, 11]]}),
        (ValueError, "tokens must be from 0 to v - 1 = 10, got -1 in row 0",
         {"tokens": TOKENS - 2}),
        (TypeError, "is_token must be a boolean tensor, True = token", {"is_token": HALF.long()}),
        (ValueError, "is_token must have the shape of tokens, got shapes (2, 2) and (2, 3)",
         {"is_token": HALF[:, :2]}),
        (ValueError, "is_token belongs to a tensor of padded rows, got tokens as a list",
         {"tokens": [[1, 2], [3, 4]], "is_token": HALF}),
        (TypeError, "sampler must be a Sampler, got str", {"sampler": "greedy"}),
        (ValueError, "an id of stop must be at most 10, got 11", {"stop": [11]}),
        (ValueError, "an id of stop must be at least 0, got -1", {"stop": [-1]}),
        (TypeError, "stop must be a sequence of integers, got 5", {"stop": 5}),
        (TypeError, "stop must be a sequence of integers, got {5}", {"stop": {5}}),
        (TypeError, "on_token must be a function, got list", {"on_token": []}),
        (TypeError, "tokens must be signed integers, got torch.uint8", {"tokens": TOKENS.byte()}),
        (ValueError, "tokens must hold numbers, got a tensor on the meta device",
         {"tokens": TOKENS.to("meta")}),
        (ValueError, "model must have its weights, got them on the meta device",
         {"model": MODEL_WITHOUT_WEIGHTS}),
        (ValueError, "seed must be at least 0, got -1", {"seed": -1}),
        (ValueError, "seed must be at most 4294967293, got", {"seed": 2**32}),
        (TypeError, "seed must be a whole number, got 1.5", {"seed": 1.5}),
        (ValueError, "source and is_source belong to an EncoderDecoder", {"source": [[1], [2]]}),
        (ValueError, "source and is_source belong to an EncoderDecoder", {"is_source": HALF}),
    ],
)  # fmt: skip
def test_what_a_language_model_cannot_continue(kind, says, given):
    refused(kind, says, generate, **({"model": MODEL, "tokens": TOKENS, "n_new": 2} | given))


@pytest.mark.parametrize(
    "kind,says,given",
    [
        (ValueError, "an EncoderDecoder must be given a source, got source=None", {"source": None}),
        (ValueError, "source and tokens must have as many rows, got 1 and 2", {"source": [[1]]}),
        (ValueError, "a row of source must have at most context=6 tokens, got s=7",
         {"source": [[1], [2] * 7]}),
        (ValueError, "source must be from 0 to v - 1 = 10, got 11", {"source": TOKENS + 8}),
        (ValueError, "every row of source must have at least 1 token", {"is_source": HALF}),
        (TypeError, "is_source must be a boolean tensor", {"is_source": HALF.long()}),
        (ValueError, "got t=3, n_new=5 and context=6", {"n_new": 5}),
    ],
)  # fmt: skip
def test_what_cannot_be_translated(kind, says, given):
    options = {"model": TRANSLATOR, "tokens": TOKENS, "n_new": 2, "source": TOKENS} | given
    refused(kind, says, generate, **options)


def test_rows_to_pad_must_have_tokens():
    refused(ValueError, "each with at least 1 token, got lengths []", pad_left, [])
    refused(ValueError, "each with at least 1 token, got lengths [2, 0]", pad_left, [[1, 2], []])
    refused(TypeError, "a row must be a sequence of integers", pad_left, ["to", "be"])
    refused(TypeError, "pad_id must be a whole number, got 0.5", pad_left, [[1]], pad_id=0.5)


# --- likelihood -------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [token_log_probabilities, perplexity])
def test_what_cannot_be_scored(call):
    refused(TypeError, "model must be a LanguageModel or an EncoderDecoder", call, None, TOKENS)
    refused(ValueError, "got them on the meta device", call, MODEL_WITHOUT_WEIGHTS, TOKENS)
    refused(ValueError, "an EncoderDecoder must be given a source", call, TRANSLATOR, TOKENS)
    refused(ValueError, "belong to an EncoderDecoder", call, MODEL, TOKENS, source=TOKENS)
    refused(ValueError, "with t at least 2, got shape (2, 1)", call, MODEL, TOKENS[:, :1])
    refused(ValueError, "from 0 to v - 1 = 10, got 11 in row 1", call, MODEL, TOKENS + 7)
    refused(
        TypeError, "tokens must be signed integers, got torch.float32", call, MODEL, TOKENS.float()
    )
    long = torch.zeros(1, CONTEXT + 2, dtype=torch.int64)
    refused(ValueError, "got t=8 and context=6", call, MODEL, long)
    refused(ValueError, "at least 1 token, got 0 in row 1", call, MODEL, TOKENS, is_token=HALF)
    gap = torch.tensor([[True, True, True], [True, False, True]])
    says = "the tokens of a row must stand together, got padding between them in row 1"
    refused(ValueError, says, call, MODEL, TOKENS, is_token=gap)


@pytest.mark.parametrize("call", [token_log_probabilities, perplexity])
def test_what_has_no_source_cannot_be_scored(call):
    says = "every row of source must have at least 1 token, got 0 in row 1"
    refused(ValueError, says, call, TRANSLATOR, TOKENS, source=TOKENS, is_source=HALF)
    refused(
        ValueError, "source must be from 0 to v - 1", call, TRANSLATOR, TOKENS, source=TOKENS + 7
    )
    refused(TypeError, "source must be a tensor", call, TRANSLATOR, TOKENS, source=[[1], [2]])


def test_a_mean_over_no_token_is_refused():
    one_each = torch.tensor([[False, True, False], [True, False, False]])
    says = "a mean needs at least 1 token that is predicted, got 0"
    refused(ValueError, says, perplexity, MODEL, TOKENS, is_token=one_each)


@pytest.mark.parametrize(
    "kind,says,given",
    [
        (TypeError, "model must be a LanguageModel, got EncoderDecoder", {"model": TRANSLATOR}),
        (ValueError, "n must be at least 2, got 1", {"ids": [1]}),
        (ValueError, "ids must be from 0 to v - 1 = 10, got 11 in row 0", {"ids": [1, 11]}),
        (TypeError, "ids must be a sequence of integers, got 'to be'", {"ids": "to be"}),
        (TypeError, "an id must be a whole number", {"ids": TOKENS}),
        (ValueError, "n_bytes must be at least 1, got 0", {"n_bytes": 0}),
        (ValueError, "context must be at most 6, got 7", {"context": 7}),
        (ValueError, "stride must be at most 4, got 5", {"context": 4, "stride": 5}),
        (ValueError, "stride must be at least 1, got 0", {"stride": 0}),
        (ValueError, "batch_size must be at least 1, got 0", {"batch_size": 0}),
    ],
)
def test_what_has_no_bits_per_byte(kind, says, given):
    refused(kind, says, bits_per_byte, **({"model": MODEL, "ids": [1, 2, 3], "n_bytes": 5} | given))


def test_windows_need_a_text_and_must_meet():
    refused(ValueError, "n must be at least 2, got 1", text_windows, 1, 4, 2)
    refused(ValueError, "stride must be at most 4, got 5", text_windows, 9, 4, 5)


# --- training ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind,says,given",
    [
        (ValueError, "step must be at least 1, got 0", {"step": 0}),
        (ValueError, "step must be at most 9, got 10", {"step": 10}),
        (ValueError, "n_warm_up must be at most 9, got 10", {"n_warm_up": 10}),
        (ValueError, "n_steps must be at least 1, got 0", {"n_steps": 0}),
        (ValueError, "peak must be above 0, got 0.0", {"peak": 0.0}),
        (ValueError, "floor must be from 0 to 1, got 1.5", {"floor": 1.5}),
    ],
)
def test_no_rate_is_learnt_at(kind, says, given):
    options = {"step": 1, "peak": 1.0, "n_warm_up": 2, "n_steps": 9} | given
    refused(kind, says, learning_rate, **options)


def test_the_first_rate_needs_steps_from_1():
    refused(
        ValueError, "step must be at least 1, got 0", inverse_root_rate, 0, width=5, n_warm_up=2
    )
    refused(ValueError, "width must be at least 1", inverse_root_rate, 1, width=0, n_warm_up=2)
    refused(ValueError, "n_warm_up must be at least 1", inverse_root_rate, 1, width=5, n_warm_up=0)


def test_what_has_no_loss():
    targets = torch.tensor([0, 2])
    refused(TypeError, "logits must be a tensor of fp16", cross_entropy, LOGITS.long(), targets)
    refused(TypeError, "targets must be a tensor of signed", cross_entropy, LOGITS, targets.float())
    says = "targets must have the shape of logits without their last axis v, got shapes (3,) and (2"
    refused(ValueError, says, cross_entropy, LOGITS, torch.zeros(3, dtype=torch.int64))
    refused(
        ValueError, "targets must be from 0 to v - 1 = 2, got 3", cross_entropy, LOGITS, targets + 1
    )
    refused(ValueError, "got -100", cross_entropy, LOGITS, targets - 100)
    refused(ValueError, "smoothing must be at least 0 and below 1", cross_entropy, LOGITS, targets,
            smoothing=1.0)  # fmt: skip
    refused(TypeError, "is_target must be a boolean tensor, True = counts", cross_entropy, LOGITS,
            targets, is_target=targets)  # fmt: skip
    refused(ValueError, "is_target must have the shape of targets", cross_entropy, LOGITS, targets,
            is_target=HALF)  # fmt: skip
    refused(
        ValueError, "at least 1 target that counts, got 0", cross_entropy, LOGITS[:0], targets[:0]
    )


def test_what_cannot_be_shifted():
    refused(ValueError, "with t at least 2, got shape (2, 1)", shifted, TOKENS[:, :1])
    refused(ValueError, "tokens must have axes (b, t)", shifted, TOKENS[0])
    refused(TypeError, "tokens must be a tensor of signed integers, got list", shifted, [[1, 2]])


def loss(model, batch):
    return model(batch).sum()


@pytest.mark.parametrize(
    "kind,says,given",
    [
        (TypeError, "model must be a torch module, got str", {"model": "gpt"}),
        (ValueError, "model must have a parameter with requires_grad, got none",
         {"model": nn.Linear(2, 1).requires_grad_(False)}),
        (TypeError, "loss_of_batch must be a function, got float", {"loss_of_batch": 1.0}),
        (TypeError, "loss_of_batch must give a tensor, got float",
         {"loss_of_batch": lambda model, batch: 1.0}),
        (ValueError, "must give a scalar with a gradient, got shape (1,) and requires_grad=True",
         {"loss_of_batch": lambda model, batch: model(batch)}),
        (ValueError, "must give a scalar with a gradient, got shape () and requires_grad=False",
         {"loss_of_batch": lambda model, batch: torch.tensor(1.0)}),
        (TypeError, "batches must be iterable, got int", {"batches": 3}),
        (ValueError, "batches must give one for each of n_steps=3 steps, got 2",
         {"batches": [torch.ones(2)] * 2}),
        (ValueError, "n_steps must be at least 1, got 0", {"n_steps": 0}),
        (ValueError, "peak must be above 0, got -0.1", {"peak_rate": -0.1}),
        (ValueError, "n_warm_up must be at most 3, got 4", {"n_warm_up": 4}),
        (ValueError, "weight_decay must be at least 0, got -0.5", {"weight_decay": -0.5}),
        (TypeError, "betas must be a pair of numbers, got 0.9", {"betas": 0.9}),
        (ValueError, "the second of betas must be at least 0 and below 1, got 1.0",
         {"betas": (0.9, 1)}),
        (ValueError, "clip must be above 0, got 0", {"clip": 0}),
        (TypeError, "seed must be a whole number, got 'one'", {"seed": "one"}),
        (ValueError, "seed must be at least 0, got -1", {"seed": -1}),
        (ValueError, "seed must be at most 18446744073709551615, got", {"seed": 2**64}),
        (TypeError, "on_step must be a function, got int", {"on_step": 1}),
    ],
)  # fmt: skip
def test_what_cannot_be_trained(kind, says, given):
    options = {
        "model": nn.Linear(2, 1),
        "loss_of_batch": loss,
        "batches": [torch.ones(2)] * 3,
        "n_steps": 3,
        "peak_rate": 0.1,
        "n_warm_up": 1,
    } | given
    refused(kind, says, train, **options)
