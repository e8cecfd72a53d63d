"""Experts refuse sizes that do not fit to each other, and input that they cannot route.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnlib import PUBLISHED, TRAINED, AttentionSizes, LanguageModel, MixtureOfExperts, cost
from attnlib.fast_decoding import DecodeStep
from attnlib.layers import balance_loss, choose_experts, expert_load
from attnlib.sizes import ExpertSizes

B, T, M, INNER, X = 2, 5, 7, 11, 12
SIZES = ExpertSizes(n_routed=X, n_chosen=5, inner_width=INNER, n_devices=4, n_devices_at_most=2)
GPT_2, BERT = PUBLISHED["gpt-2"], PUBLISHED["bert-base"]


def refuses(kind: type[Exception], message: str):
    return pytest.raises(kind, match=re.escape(message))


def made(width=M, sizes=SIZES, **options):
    return MixtureOfExperts(width, sizes, **{"activation": "silu", "gated": True} | options)


def test_these_tests_run_without_the_shape_hook():
    assert not hasattr(MixtureOfExperts.forward, "__wrapped__")


def test_the_correct_input_is_not_refused():
    sizes = ExpertSizes(n_routed=np.int64(X), n_chosen=np.int64(5), inner_width=INNER)
    layer = made(np.int64(M), sizes)
    assert type(layer.width) is type(sizes.n_routed) is int
    scores, chosen, _ = layer.route(torch.zeros(B, T, M))
    balance_loss(scores, chosen, np.float64(0.5))
    expert_load(chosen, np.int64(X))
    choose_experts(scores, np.int64(1), n_devices=np.int64(X), n_devices_at_most=np.int64(1))


# --- sizes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind,message,changes",
    [
        (ValueError, "n_chosen must be at most n_routed, got n_chosen=13 and", {"n_chosen": 13}),
        (ValueError, "n_devices must be at least 1, got 0", {"n_devices": 0}),
        (TypeError, "n_devices must be a whole number, got 4.0", {"n_devices": 4.0}),
        (
            ValueError,
            "n_devices must divide n_routed, got n_devices=5 and n_routed=12",
            {"n_devices": 5},
        ),
        (ValueError, "n_devices_at_most must be at least 1, got 0", {"n_devices_at_most": 0}),
        (
            ValueError,
            "n_devices_at_most must be at most n_devices, got n_devices_at_most=5 and n_devices=4",
            {"n_devices_at_most": 5},
        ),
        (
            ValueError,
            "n_chosen must be at most 3, the experts of 1 of 4 devices, got n_chosen=5",
            {"n_devices_at_most": 1},
        ),
        (ValueError, "gate must be one of 'softmax', 'sigmoid'; got 'relu'", {"gate": "relu"}),
        (TypeError, "gate must be a text, got None", {"gate": None}),
        (ValueError, "gate_factor must be above 0, got 0", {"gate_factor": 0}),
        (ValueError, "gate_factor must be finite, got inf", {"gate_factor": float("inf")}),
    ],
)
def test_sizes_that_do_not_fit_to_each_other_are_refused(kind, message, changes):
    with refuses(kind, message):
        replace(SIZES, **changes)


# --- the choice ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind,message,scores,n_chosen,devices",
    [
        (TypeError, "scores must be a tensor of fp16, bf16, fp32 or fp64, got list", [1.0], 1, {}),
        (TypeError, "or fp64, got torch.int64", torch.ones(X).long(), 1, {}),
        (ValueError, "along the last axis, got shape ()", torch.tensor(1.0), 1, {}),
        (ValueError, "along the last axis, got shape (5, 0)", torch.ones(T, 0), 1, {}),
        (ValueError, "n_chosen must be at least 1, got 0", torch.ones(X), 0, {}),
        (ValueError, "n_chosen must be at most 12, got 13", torch.ones(X), 13, {}),
        (TypeError, "n_chosen must be a whole number, got 1.5", torch.ones(X), 1.5, {}),
        (ValueError, "n_devices must be at least 1, got 0", torch.ones(X), 1, {"n_devices": 0}),
        (ValueError, "divide n_routed, got n_devices=5", torch.ones(X), 1, {"n_devices": 5}),
        (
            ValueError,
            "n_devices_at_most must be at least 1, got 0",
            torch.ones(X),
            1,
            {"n_devices": 4, "n_devices_at_most": 0},
        ),
        (
            ValueError,
            "must be at most n_devices, got n_devices_at_most=2 and n_devices=1",
            torch.ones(X),
            1,
            {"n_devices_at_most": 2},
        ),
        (
            ValueError,
            "n_chosen must be at most 6, the experts of 2 of 4 devices, got n_chosen=7",
            torch.ones(X),
            7,
            {"n_devices": 4, "n_devices_at_most": 2},
        ),
    ],
)
def test_a_choice_that_is_none_is_refused(kind, message, scores, n_chosen, devices):
    with refuses(kind, message):
        choose_experts(scores, n_chosen, **devices)


# --- the layer ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind,message,make",
    [
        (ValueError, "width (m) must be at least 1, got 0", lambda: made(0)),
        (TypeError, "width (m) must be a whole number, got 7.0", lambda: made(7.0)),
        (TypeError, "sizes must be ExpertSizes, got dict", lambda: made(sizes={})),
        (TypeError, "sizes must be ExpertSizes, got ModelSizes", lambda: made(sizes=GPT_2)),
        (
            ValueError,
            "has the gates of DeepSeek-V2, gate='softmax', got gate='sigmoid'",
            lambda: made(sizes=PUBLISHED["deepseek-v3"].experts),
        ),
        (ValueError, "activation must be one of 'relu'", lambda: made(activation="swish")),
    ],
)
def test_a_layer_that_cannot_be_is_refused(kind, message, make):
    with refuses(kind, message):
        make()


@pytest.mark.parametrize("method", ["forward", "route"])
@pytest.mark.parametrize(
    "kind,message,x",
    [
        (TypeError, "x must be a tensor of fp16, bf16, fp32 or fp64, got list", [[1.0] * M]),
        (TypeError, "or fp64, got torch.int64", torch.ones(T, M).long()),
        (ValueError, "the width m=7 that this layer takes along its last axis, got shape (5, 8)",
         torch.ones(T, M + 1)),
        (TypeError, "weights, got torch.float64 and weights of torch.float32",
         torch.ones(T, M).double()),
        (ValueError, "must be on the device of the layer, got meta and a layer on cpu",
         torch.ones(T, M, device="meta")),
        (ValueError, "along its last axis, got shape ()", torch.tensor(1.0)),
    ],
)  # fmt: skip
def test_vectors_of_another_kind_are_refused_before_any_work(kind, message, x, method):
    layer = made()

    def worked(*_):
        raise AssertionError("worked before refusing")

    for module in layer.modules():
        if module is not layer:
            module.register_forward_pre_hook(worked)
    with refuses(kind, message):
        getattr(layer, method)(x)


# --- load and balance ---------------------------------------------------------------------------

SCORES, CHOSEN = torch.full((B, T, X), 1 / X), torch.zeros(B, T, 3, dtype=torch.int64)


@pytest.mark.parametrize(
    "kind,message,chosen",
    [
        (TypeError, "chosen must be a tensor of int64, got list", [[0, 1]]),
        (TypeError, "chosen must be a tensor of int64, got torch.int32", CHOSEN.int()),
        (ValueError, "at least one token along its last axis, got shape ()", torch.tensor(0)),
        (ValueError, "got shape (2, 0, 3)", CHOSEN[:, :0]),
        (ValueError, "chosen must be from 0 to n_routed − 1 = 11, got 0 to 12", CHOSEN + 12),
        (ValueError, "= 11, got -1 to 0", CHOSEN - 1),
    ],
)
def test_numbers_that_are_no_experts_are_refused(kind, message, chosen):
    if isinstance(chosen, torch.Tensor) and chosen.ndim == 3 and chosen.numel():
        chosen = chosen.clone()
        chosen[0, 0, 0] = 0
    with refuses(kind, message):
        expert_load(chosen, X)
    with refuses(kind, message):
        balance_loss(SCORES, chosen)


@pytest.mark.parametrize(
    "kind,message,scores,factor",
    [
        (TypeError, "scores must be a tensor of fp16", SCORES.tolist(), 1.0),
        (ValueError, "of the same tokens, all axes but the last, got scores (10, 12) and chosen (2",
         SCORES.view(-1, X), 1.0),
        (ValueError, "got scores (2, 4, 12) and chosen (2, 5, 3)", SCORES[:, 1:], 1.0),
        (ValueError, "factor must be above 0, got 0", SCORES, 0),
        (TypeError, "factor must be a number, got '1'", SCORES, "1"),
    ],
)  # fmt: skip
def test_a_balance_of_other_tokens_or_with_another_sign_is_refused(kind, message, scores, factor):
    with refuses(kind, message):
        balance_loss(scores, CHOSEN, factor)
    with refuses(ValueError, "n_routed must be at least 1, got 0"):
        expert_load(CHOSEN, 0)


# --- a model ------------------------------------------------------------------------------------


def test_a_prepared_step_has_no_place_for_experts():
    small = replace(
        TRAINED["shakespeare"],
        experts=ExpertSizes(n_routed=3, n_chosen=1, inner_width=INNER, n_dense_layers=1),
    )
    model = LanguageModel(small, pairing="half")
    with refuses(ValueError, "one feed-forward network a layer, since a step holds the matrices"):
        DecodeStep(model)
    # where all layers are ordinary ones there is nothing to refuse
    plain = replace(small, experts=replace(small.experts, n_dense_layers=small.n_layers))
    DecodeStep(LanguageModel(plain, pairing="half"))


# --- models beside each other ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind,message,compare",
    [
        (ValueError, "only a causal model has a cache", lambda: cost.model_row(BERT)),
        (ValueError, "a context must be at least 0, got -1", lambda: cost.model_row(GPT_2, 8, -1)),
        (TypeError, "a context must be a whole number", lambda: cost.model_row(GPT_2, 8.0)),
        (
            ValueError,
            "n_sources is needed if and only if there is an encoder",
            lambda: cost.model_row(TRAINED["number-words"]),
        ),
        (ValueError, "only a causal model", lambda: cost.cache_break_even(GPT_2, BERT)),
        (ValueError, "only a causal model", lambda: cost.cache_break_even(BERT, GPT_2)),
        (
            TypeError,
            "attention must be LatentAttentionSizes, got AttentionSizes",
            lambda: cost.multi_head_baseline(
                AttentionSizes(n_query_heads=2, n_kv_heads=1, head_dim=3, value_dim=4)
            ),
        ),
    ],
)
def test_models_that_cannot_be_compared_are_refused(kind, message, compare):
    with refuses(kind, message):
        compare()
