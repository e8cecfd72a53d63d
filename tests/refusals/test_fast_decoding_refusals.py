"""What a quick step cannot read is refused by name before any work, and the cache stays as it was.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import copy
from dataclasses import replace

import pytest
import torch

from attnlib import (
    TRAINED,
    Decoder,
    DecodeStep,
    LanguageModel,
    generate,
)
from attnlib.vector_products import Matrices

SIZES = replace(TRAINED["shakespeare"], n_layers=1, vocabulary=11, context=6)
MODEL = LanguageModel(SIZES, pairing="half").eval().requires_grad_(False)
STEP = DecodeStep(MODEL)
TOKENS = torch.tensor([[1, 2, 3], [4, 5, 6]])
NEXT = TOKENS[:, :1]


def filled(model=MODEL, n_tokens=3, **options):
    cache = model.new_cache(**options)
    model(TOKENS.repeat(1, 2)[:, :n_tokens], cache=cache)
    return cache


@pytest.mark.parametrize(
    ("model", "layout", "kind", "message"),
    [
        (None, None, TypeError, "model must be a LanguageModel, got NoneType"),
        (MODEL.decoder, None, TypeError, "model must be a LanguageModel, got Decoder"),
        (MODEL, "columns", ValueError, "layout must be None, 'rows' or 'parts', got 'columns'"),
        (MODEL, 2, ValueError, "layout must be None, 'rows' or 'parts', got 2"),
    ],
)
def test_a_step_is_made_of_a_language_model_and_a_layout(model, layout, kind, message):
    assert isinstance(MODEL.decoder, Decoder)
    with pytest.raises(kind, match=message):
        DecodeStep(model, layout=layout)


def test_matrices_stand_in_a_layout_that_there_is():
    with pytest.raises(ValueError, match="layout must be 'rows' or 'parts', got 'columns'"):
        Matrices([torch.ones(2, 3)], "columns")


@pytest.mark.parametrize(
    ("tokens", "kind", "message"),
    [
        ([[1], [2]], TypeError, "tokens must be a tensor of int64 or int32, got list"),
        (NEXT.double(), TypeError, "tokens must be a tensor of int64 or int32, got .*float64"),
        (NEXT[:, 0], ValueError, r"tokens must have axes \(b, t\), got shape \(2,\)"),
        (TOKENS[:, :2], ValueError, "a step reads one token a row, got t=2; more at a time are"),
        (TOKENS[:, :0], ValueError, "a row of tokens must have from 1 to context=6 places, got 0"),
        (NEXT + 10, ValueError, "tokens must be from 0 to v − 1 = 10, got 11 to 14"),
        (NEXT - 2, ValueError, "tokens must be from 0 to v − 1 = 10, got -1 to 2"),
        (NEXT[:1], ValueError, "a chunk must have the rows of the cache, got b=1 and b=2"),
    ],
)
def test_a_step_reads_one_token_of_each_row(tokens, kind, message):
    cache = filled()
    with pytest.raises(kind, match=message):
        STEP(tokens, cache=cache)
    assert cache.n_tokens == cache.layers[0].n_tokens == 3


@pytest.mark.parametrize(
    ("cache", "kind", "message"),
    [
        (None, TypeError, "cache must be what new_cache gives, got NoneType"),
        (filled().layers[0], TypeError, "cache must be what new_cache gives, got KVCache"),
        (
            filled(copy.deepcopy(MODEL)),
            ValueError,
            "cache must be one that new_cache of this model",
        ),
        (filled(n_tokens=6), ValueError, "at most context=6 places, got n_tokens=6 in the cache"),
        (filled(capacity=3), ValueError, "a cache of capacity=3 must take n_tokens=3 and 1 more"),
    ],
    ids=["none", "layer", "another", "context", "capacity"],
)
def test_a_step_needs_a_cache_of_its_model_with_room(cache, kind, message):
    before = getattr(cache, "n_tokens", None)
    with pytest.raises(kind, match=message):
        STEP(NEXT, cache=cache)
    assert getattr(cache, "n_tokens", None) == before


def changed_in_place(model):
    model.decoder.blocks[0].attention.key.weight.mul_(2.0)


def loaded(model):
    model.load_state_dict({name: x + 1 for name, x in model.state_dict().items()})


def assigned(model):
    state = {name: x.clone() + 1 for name, x in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


def trained(model):
    model.requires_grad_(True)
    torch.nn.functional.cross_entropy(model(TOKENS)[:, -1], TOKENS[:, 0]).backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    model.requires_grad_(False)


@pytest.mark.parametrize(
    "change", [changed_in_place, loaded, assigned, trained, torch.nn.Module.double]
)
def test_a_step_of_weights_that_the_model_no_longer_has_is_refused(change):
    model = copy.deepcopy(MODEL)
    step = DecodeStep(model)
    step(NEXT, cache=filled(model))
    change(model)
    cache = filled(model)
    with pytest.raises(ValueError, match="must have the weights of which the step was made, got o"):
        step(NEXT, cache=cache)
    assert cache.n_tokens == 3
    DecodeStep(model)(NEXT, cache=cache)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        ({"step": True}, TypeError, "step must be a DecodeStep, got bool"),
        (
            {"step": DecodeStep(copy.deepcopy(MODEL))},
            ValueError,
            "step must be a DecodeStep of this model, got one of another",
        ),
        (
            {"step": STEP, "use_cache": False},
            ValueError,
            "a step reads a cache, got step and use_cache=False",
        ),
    ],
)
def test_generation_takes_a_step_of_its_model_and_a_cache(call, kind, message):
    with pytest.raises(kind, match=message):
        generate(MODEL, [[1, 2]], 2, **call)
