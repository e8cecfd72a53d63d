"""Speculative decoding takes tokens back, beam search reorders rows: chapter kv-caching.

Neither changes what the large model, or an exhaustive search, would choose.
"""

import math
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import (
    PUBLISHED,
    AttentionSizes,
    EncoderDecoder,
    LanguageModel,
    beam_search,
    generate,
    speculative_generate,
)
from attnlib.beams import Beam
from attnlib.sizes import RotarySizes
from attnlib.speculative import Speculation

V, CONTEXT = 13, 12
SIZES = replace(
    PUBLISHED["gpt-2"],
    name="a small model",
    source="made up for a test",
    n_layers=2,
    width=8,
    attention=AttentionSizes(n_query_heads=4, n_kv_heads=2, head_dim=4, value_dim=3, biases=True),
    feed_forward_width=11,
    vocabulary=V,
    context=CONTEXT,
    learned_positions=False,
    tied_embeddings=False,
)
ROTARY = {"rotary": RotarySizes(base=100.0)}


def made(kind=LanguageModel, seed=0, **changes):
    """In fp64, every number random, so that rows and beginnings get different tokens."""
    sizes = replace(SIZES, **changes)
    model = kind(sizes, pairing=None if sizes.rotary is None else "half").double().eval()
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.requires_grad_(False).named_parameters():
        spread = 1.0 if weight.ndim == 2 else 0.2
        weight.copy_(spread * torch.randn(weight.shape, generator=generator).double())
        if "norm.weight" in name:
            weight += 1.0
    return model


# --- speculative decoding ---------------------------------------------------------------------

MODEL = made(seed=7, **ROTARY)
STRANGER = made(seed=3, n_layers=1, learned_positions=True)


def nearly(model, spread):
    """The same model with weights that are a little off: a draft that is often right."""
    draft = made(seed=0, **ROTARY)
    generator = torch.Generator().manual_seed(7)
    for x, y in zip(draft.parameters(), model.parameters(), strict=True):
        x.copy_(y + spread * torch.randn(y.shape, generator=generator).double())
    return draft


DRAFTS = {"itself": MODEL, "near": nearly(MODEL, 0.1), "stranger": STRANGER}


@settings(max_examples=6)
@given(
    name=st.sampled_from(sorted(DRAFTS)),
    row=st.lists(st.integers(0, V - 1), min_size=1, max_size=5),
    n_new=st.integers(0, CONTEXT - 4),
    n_draft=st.integers(1, 6),
)
def test_the_tokens_are_those_of_the_large_model_whatever_the_draft_guesses(
    name, row, n_new, n_draft
):
    done = speculative_generate(MODEL, DRAFTS[name], row, n_new, n_draft=n_draft)
    assert [done.tokens] == generate(MODEL, [row], n_new)
    # each chunk adds the right guesses and one token of the large model
    assert done.n_accepted + done.n_chunks == n_new
    assert 0 <= done.n_accepted <= done.n_drafted <= n_draft * done.n_chunks


def accepted(draft, n_draft):
    done = speculative_generate(MODEL, draft, [1], 9, n_draft=n_draft)
    return done.n_accepted, done.n_drafted


def test_the_acceptance_rate_counts_the_guesses_that_were_right():
    whole = generate(MODEL, [[1]], 9)[0]
    assert len(set(whole)) > 3
    for name in ("near", "stranger"):
        draft = DRAFTS[name]
        new, right, drafted = [], 0, 0
        while len(new) < 9:  # by the definition: one guess after the other, no cache
            guesses = []
            while len(guesses) < min(2, 9 - len(new) - 1):
                logits = draft(torch.tensor([[1, *new, *guesses]]))[0, -1]
                guesses.append(int(logits.argmax()))
            hits = 0
            while hits < len(guesses) and guesses[hits] == whole[len(new) + hits]:
                hits += 1
            new = whole[: len(new) + hits + 1]
            right, drafted = right + hits, drafted + len(guesses)
        assert accepted(draft, 2) == (right, drafted)
    assert speculative_generate(MODEL, MODEL, [1], 9).acceptance_rate == 1.0
    near, strange = (accepted(DRAFTS[name], 2) for name in ("near", "stranger"))
    assert near[0] / near[1] > strange[0] / strange[1]


def test_a_model_that_agrees_is_asked_once_for_five_tokens():
    calls = []
    hook = MODEL.register_forward_hook(lambda module, given, out: calls.append(given[0].shape[1]))
    try:
        done = speculative_generate(MODEL, nearly(MODEL, 0.0), [2, 7], 11, n_draft=4)
    finally:
        hook.remove()
    # the prompt and four guesses; then the fifth of the last chunk and four more
    assert calls == [6, 5, 1] and done.n_chunks == 3
    assert done == Speculation(tokens=done.tokens, n_chunks=3, n_drafted=8, n_accepted=8)


def test_without_guesses_there_is_no_rate():
    assert math.isnan(speculative_generate(MODEL, STRANGER, [1], 1).acceptance_rate)
    assert speculative_generate(MODEL, STRANGER, torch.tensor([1]), 0).tokens == []


def test_models_get_their_mode_back_and_drop_nothing():
    model = LanguageModel(MODEL.sizes, pairing="half", dropout=0.5).double()
    model.load_state_dict(MODEL.state_dict())
    model.train()
    state = torch.get_rng_state()
    done = speculative_generate(model, STRANGER, [3, 1], 6)
    assert [done.tokens] == generate(MODEL, [[3, 1]], 6) and model.training
    assert torch.equal(torch.get_rng_state(), state)  # dropout would have drawn numbers


def test_a_window_that_holds_the_whole_text_takes_back_what_it_must():
    window = {"window": 9, "window_pattern": (True, False)}
    model = made(**ROTARY, **window)
    done = speculative_generate(model, STRANGER, [3, 1, 4], 7, n_draft=3)
    assert [done.tokens] == generate(model, [[3, 1, 4]], 7)
    with pytest.raises(ValueError, match="got t=3, n_new=8 and window=9"):
        speculative_generate(model, STRANGER, [3, 1, 4], 8)


# --- beam search ------------------------------------------------------------------------------

V_FEW, N = 3, 4
FEW = made(vocabulary=V_FEW, seed=0, learned_positions=True)
TRANSLATOR = made(EncoderDecoder, vocabulary=V_FEW, n_encoder_layers=1, learned_positions=True)
PROMPT, SOURCE = [2, 0], [1, 2, 0]


@cache
def table(model):
    """The log-probability of every continuation of up to N tokens, all read without a cache."""
    every = torch.tensor(list(product(range(V_FEW), repeat=N)))
    tokens = torch.cat([torch.tensor([PROMPT]).expand(len(every), -1), every], dim=1)
    source = torch.tensor([SOURCE]).expand(len(every), -1)
    logits = model(tokens) if model is FEW else model(source, tokens)
    steps = logits[:, len(PROMPT) - 1 : -1].log_softmax(-1).gather(-1, every[..., None])[..., 0]
    sums = zip(every.tolist(), steps.cumsum(-1).tolist(), strict=True)
    return {tuple(new[: i + 1]): x for new, xs in sums for i, x in enumerate(xs)}


def log_p(new, model=FEW):
    return table(model)[tuple(new)]


def all_continuations(stop=()):
    """Each once: up to its first stop token, or of full length."""
    for new in product(range(V_FEW), repeat=N):
        end = next((i for i, token in enumerate(new) if token in stop), N - 1)
        if all(token == 0 for token in new[end + 1 :]):
            yield new[: end + 1]


def search(n_beams, model=FEW, **options):
    source = {} if model is FEW else {"source": SOURCE}
    return beam_search(model, PROMPT, N, n_beams, **source, **options)


@pytest.mark.parametrize("stop", [[], [1], [0, 2]])
@pytest.mark.parametrize("model", [FEW, TRANSLATOR], ids=["language", "both"])
def test_with_enough_beams_the_search_is_exhaustive(model, stop):
    found = search(V_FEW**N, model, stop=stop)
    every = sorted(all_continuations(stop), key=lambda new: -log_p(new, model))
    assert [tuple(beam.tokens) for beam in found] == every
    for beam in found:
        assert beam.log_probability == pytest.approx(log_p(beam.tokens, model), abs=1e-11)
        assert beam.ended == (beam.tokens[-1] in stop)
    # the best of V beginnings of each of V^(N-1), so that no more are needed for the best one
    assert search(V_FEW ** (N - 1), model, stop=stop)[0] == found[0]


def by_the_definition(n_beams, stop):
    """The same search on whole rows, without a cache."""
    beams = [((), 0.0)]
    for _ in range(N):
        new = [(b, p) for b, p in beams if b and b[-1] in stop]
        for b, _ in beams:
            if not (b and b[-1] in stop):
                new += [((*b, token), log_p((*b, token))) for token in range(V_FEW)]
        beams = sorted(new, key=lambda pair: -pair[1])[:n_beams]
    return [list(b) for b, _ in beams]


@pytest.mark.parametrize("stop", [[], [2]])
@pytest.mark.parametrize("n_beams", [1, 2, 3, 5])
def test_few_beams_are_those_of_the_definition(n_beams, stop):
    found = search(n_beams, stop=stop)
    assert [beam.tokens for beam in found] == by_the_definition(n_beams, stop)
    for beam in found:
        assert beam.log_probability == pytest.approx(log_p(beam.tokens), abs=1e-11)


def test_one_beam_is_greedy():
    for stop in ([], [2]):
        assert [search(1, stop=stop)[0].tokens] == generate(FEW, [PROMPT], N, stop=stop)


def test_a_second_beam_may_find_what_greed_misses():
    one, two = search(1)[0], search(2)[0]
    assert two.log_probability > one.log_probability


def test_nothing_new_is_certain():
    assert beam_search(FEW, torch.tensor(PROMPT), 0, 3) == [Beam(tokens=[], log_probability=0.0)]
