"""Rows are continued token by token, whatever stands beside them: chapter language-models.

Parity with transformers is in test_generation_of_transformers.py.
"""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from attnlib import (
    GREEDY,
    PUBLISHED,
    AttentionSizes,
    EncoderDecoder,
    LanguageModel,
    Sampler,
    generate,
)
from attnlib.sizes import RotarySizes
from attnlib.token_rows import pad_left

V, CONTEXT = 11, 12
LEARNED = replace(
    PUBLISHED["gpt-2"],
    name="a small language model",
    source="made up for a test",
    n_layers=2,
    width=6,
    attention=AttentionSizes(n_query_heads=2, n_kv_heads=1, head_dim=4, value_dim=3, biases=True),
    feed_forward_width=7,
    vocabulary=V,
    tied_embeddings=False,
    context=CONTEXT,
)
ROTARY = replace(LEARNED, learned_positions=False, rotary=RotarySizes(base=20.0))
WINDOW = replace(ROTARY, window=3, window_pattern=(True, False))
BOTH = replace(LEARNED, n_encoder_layers=1, norm_placement="post", norm_at_end=False)
SAMPLED = Sampler(temperature=1.5, top_k=8, top_p=0.95, min_p=0.02)


def random(model, seed=0):
    """Rows that differ get different tokens, and in fp64 no rounding decides about them."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.double().eval().requires_grad_(False).named_parameters():
        spread = 1.0 if parameter.ndim == 2 else 0.2
        parameter.copy_(spread * torch.randn(parameter.shape, generator=generator).double())
        if "norm.weight" in name:
            parameter += 1.0
    return model


MODELS = {
    "learned": random(LanguageModel(LEARNED)),
    "rotary": random(LanguageModel(ROTARY, pairing="half")),
    "window": random(LanguageModel(WINDOW, pairing="half")),
}
TRANSLATOR = random(EncoderDecoder(BOTH), seed=8)
MODEL = MODELS["learned"]
ROWS = [[3, 1, 4], [1], [5, 9, 2, 6, 5], [10, 0]]


def successor(**changes):
    """A model that says w + 1 after w, by its output matrix alone."""
    model = random(LanguageModel(replace(LEARNED, width=V, **changes)))
    for name, parameter in model.named_parameters():
        parameter.fill_(1.0 if name == "decoder.end_norm.weight" else 0.0)
    model.decoder.word_embedding.weight.copy_(torch.eye(V).double())
    model.output.weight.copy_(torch.eye(V).double().roll(1, 0))
    return model


def calls_of(monkeypatch, module, name="forward"):
    """The arguments of every call from now on."""
    calls, method = [], getattr(module, name)

    def recorded(*arguments, **options):
        calls.append((arguments, options))
        return method(*arguments, **options)

    monkeypatch.setattr(module, name, recorded)
    return calls


# --- a case that a person can check -----------------------------------------------------------


def test_a_model_that_counts_goes_on_counting():
    assert generate(successor(), [[1, 2, 3], [7], [9]], 4) == [
        [4, 5, 6, 7],
        [8, 9, 10, 0],
        [10, 0, 1, 2],
    ]


def test_a_row_ends_with_its_stop_token_and_the_others_go_on(monkeypatch):
    model = successor()
    calls = calls_of(monkeypatch, model.decoder)
    new = generate(model, [[1], [6], [4, 3], [8]], 5, stop=[5, 9])
    assert new == [[2, 3, 4, 5], [7, 8, 9], [4, 5], [9]]
    # four rows, then those that have not ended; after four steps none has
    assert [len(arguments[0]) for arguments, _ in calls] == [4, 3, 2, 1]


def test_a_stop_token_that_a_row_begins_with_does_not_end_it():
    assert generate(successor(), [[5], [4, 5]], 2, stop=[5]) == [[6, 7], [6, 7]]


def test_the_stop_token_may_be_the_last_that_is_allowed():
    assert generate(successor(), [[3]], 2, stop=[5]) == [[4, 5]]


def test_no_new_tokens_are_no_work(monkeypatch):
    model = successor()
    calls = calls_of(monkeypatch, model.decoder)
    assert generate(model, [[1], [2]], 0) == [[], []]
    assert generate(model, [], 3) == generate(model, [], CONTEXT + 2) == []
    assert calls == []


def test_tokens_are_streamed_as_they_come_row_by_row():
    seen = []
    new = generate(
        successor(), [[1], [7], [3]], 3, stop=[8], on_token=lambda *token: seen.append(token)
    )
    assert new == [[2, 3, 4], [8], [4, 5, 6]]
    assert seen == [(0, 2), (1, 8), (2, 4), (0, 3), (2, 5), (0, 4), (2, 6)]


def test_the_row_and_the_step_where_logits_are_no_numbers_are_named():
    model = successor()
    model.decoder.word_embedding.weight[4] = math.nan
    # row 0 has ended by then, row 1 reads its 4 at step 3
    says = "neither NaN nor \\+inf, got NaN in row 1 at step 3"
    with pytest.raises(FloatingPointError, match=says):
        generate(model, [[7], [2], [8]], 4, stop=[8])
    model.output.weight.fill_(-math.inf)
    model.decoder.end_norm.weight.zero_()
    model.decoder.end_norm.bias.fill_(1.0)
    with pytest.raises(FloatingPointError, match="got nothing but -inf in row 0 at step 1"):
        generate(model, [[1]], 1)


def test_of_equal_logits_the_lowest_id_is_taken():
    model = successor()
    model.output.weight.zero_()
    assert generate(model, [[5], [7, 3]], 2) == [[0, 0], [0, 0]]


# --- the definition: one row, one token at a time ---------------------------------------------


def continued(model, row, n_new):
    row = list(row)
    for _ in range(n_new):
        row.append(int(model(torch.tensor([row]))[0, -1].argmax()))
    return row[-n_new:]


@pytest.mark.parametrize("name", MODELS)
def test_greedy_tokens_are_those_of_the_definition(name):
    new = generate(MODELS[name], ROWS, 6)
    assert new == [continued(MODELS[name], row, 6) for row in ROWS]
    assert len({tuple(row) for row in new}) == len(ROWS)


def test_sampled_tokens_are_those_of_the_inverse_distribution_function():
    """One uniform number of the row's own generator a step, for each row."""
    new = generate(MODEL, ROWS, 5, sampler=SAMPLED, seed=20)
    for i, row in enumerate(ROWS):
        generator, wanted = torch.Generator().manual_seed(20 + i), []
        for _ in range(5):
            p = SAMPLED.probabilities(MODEL(torch.tensor([row + wanted]))[0, -1])
            u = torch.rand((), generator=generator, dtype=torch.float64)
            wanted.append(int((p.cumsum(0) > u).nonzero()[0]))
        assert new[i] == wanted
    assert new != generate(MODEL, ROWS, 5)


# --- rows do not know of each other -----------------------------------------------------------

BATCHES = st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=6), min_size=1, max_size=5)


@settings(max_examples=25)
@given(
    rows=BATCHES,
    name=st.sampled_from(sorted(MODELS)),
    sampler=st.sampled_from([GREEDY, SAMPLED]),
    stop=st.sets(st.integers(0, V - 1), max_size=3),
    seed=st.integers(0, 100),
    extra=st.integers(0, 3),
    on_the_right=st.booleans(),
)
def test_a_batch_is_its_rows_one_at_a_time_however_it_is_padded(
    rows, name, sampler, stop, seed, extra, on_the_right
):
    model, options = MODELS[name], {"sampler": sampler, "stop": sorted(stop)}
    alone = [generate(model, [row], 4, seed=seed + i, **options)[0] for i, row in enumerate(rows)]
    assert generate(model, rows, 4, seed=seed, **options) == alone
    tokens, is_token = pad_left(rows, pad_id=V - 1)
    width = tokens.shape[1] + extra
    tokens = torch.cat([torch.full((len(rows), extra), 0), tokens], dim=1)
    is_token = torch.arange(width) >= torch.tensor([[width - len(row)] for row in rows])
    if on_the_right:
        tokens, is_token = tokens.flip(1), is_token.flip(1)
        tokens[is_token] = torch.tensor([token for row in rows for token in row])
    assert generate(model, tokens, 4, is_token=is_token, seed=seed, **options) == alone


@settings(max_examples=15)
@given(
    pairs=st.lists(
        st.tuples(
            st.lists(st.integers(0, V - 1), min_size=1, max_size=6),
            st.lists(st.integers(0, V - 1), min_size=1, max_size=3),
        ),
        min_size=1,
        max_size=4,
    ),
    sampler=st.sampled_from([GREEDY, SAMPLED]),
)
def test_each_row_translates_its_own_source(pairs, sampler):
    sources, rows = [list(x) for x in zip(*pairs, strict=True)]
    options = {"sampler": sampler, "stop": [3, 7]}
    alone = [
        generate(TRANSLATOR, [row], 3, source=[source], seed=5 + i, **options)[0]
        for i, (source, row) in enumerate(pairs)
    ]
    assert generate(TRANSLATOR, rows, 3, source=sources, seed=5, **options) == alone
    source, is_source = pad_left(sources)
    given_as_tensor = {"source": source.flip(1), "is_source": is_source.flip(1)}
    for i, row in enumerate(sources):
        given_as_tensor["source"][i, : len(row)] = torch.tensor(row)
    assert generate(TRANSLATOR, rows, 3, seed=5, **given_as_tensor, **options) == alone


def test_a_translation_is_the_definitions_and_depends_on_its_source():
    sources = [[3, 1, 4, 1], [5, 9]]
    new = generate(TRANSLATOR, [[1], [1]], 5, source=sources)
    for source, got in zip(sources, new, strict=True):
        row = [1]
        for _ in range(5):
            logits = TRANSLATOR(torch.tensor([source]), torch.tensor([row]))
            row.append(int(logits[0, -1].argmax()))
        assert got == row[1:]
    assert new[0] != new[1]


def test_the_source_is_encoded_once(monkeypatch):
    encodings = calls_of(monkeypatch, TRANSLATOR, "encode")
    decodings = calls_of(monkeypatch, TRANSLATOR, "decode")
    generate(TRANSLATOR, [[1], [2]], 5, source=[[3, 4], [5]])
    assert (len(encodings), len(decodings)) == (1, 5)


# --- with a cache and without -----------------------------------------------------------------


@settings(max_examples=8)
@given(
    rows=BATCHES,
    name=st.sampled_from(sorted(MODELS)),
    sampler=st.sampled_from([GREEDY, SAMPLED]),
    stop=st.sets(st.integers(0, V - 1), max_size=3),
    seed=st.integers(0, 100),
)
def test_a_cache_changes_no_token(rows, name, sampler, stop, seed):
    options = {"sampler": sampler, "stop": sorted(stop), "seed": seed}
    cached, uncached = (
        generate(MODELS[name], rows, 6, use_cache=use, **options) for use in (True, False)
    )
    assert cached == uncached


@settings(max_examples=4)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    sampler=st.sampled_from([GREEDY, SAMPLED]),
    stop=st.sets(st.integers(0, V - 1), max_size=3),
)
def test_a_cache_changes_no_token_of_a_translation(lengths, sampler, stop):
    rows = [[1, 7][: 1 + n % 2] for n in lengths]
    sources = [[(3 * i + n) % V for i in range(n)] for n in lengths]
    options = {"source": sources, "sampler": sampler, "stop": sorted(stop), "seed": 3}
    cached, uncached = (
        generate(TRANSLATOR, rows, 6, use_cache=use, **options) for use in (True, False)
    )
    assert cached == uncached


def test_rows_that_end_at_different_steps_go_on_with_their_own_sources():
    sources, rows = [[3, 1, 4, 1], [5], [9, 2, 6], [8, 8]], [[1], [2, 3], [4], [5, 6]]
    free = generate(TRANSLATOR, rows, 6, source=sources)
    # the first row ends at its first new token, and others somewhere later or never
    stop = [free[0][0], free[2][2]]
    new = [
        generate(TRANSLATOR, rows, 6, source=sources, stop=stop, use_cache=use)
        for use in (True, False)
    ]
    assert new[0] == new[1] != free
    for row, whole in zip(new[0], free, strict=True):
        assert row == whole[: len(row)]


@pytest.mark.parametrize("use_cache", [True, False])
def test_a_step_reads_one_token_of_a_row_and_without_a_cache_all(monkeypatch, use_cache):
    calls = calls_of(monkeypatch, MODEL.decoder)
    generate(MODEL, [[1, 2, 3], [4]], 4, use_cache=use_cache)
    shapes = [tuple(arguments[0].shape) for arguments, _ in calls]
    assert shapes == [(2, 3), *((2, 1 if use_cache else n) for n in (4, 5, 6))]


# --- chance -----------------------------------------------------------------------------------


def test_first_tokens_of_neighbouring_seeds_come_as_often_as_they_should():
    """Chi-square of 4,000 rows; a sampler without fault fails one time in a million."""
    n = 4000
    p = Sampler().probabilities(MODEL(torch.tensor([[3]]))[0, -1])
    first = [row[0] for row in generate(MODEL, [[3]] * n, 1, sampler=Sampler(), seed=0)]
    likely = p * n > 20
    counts = torch.bincount(torch.tensor(first), minlength=V)
    wanted = torch.cat([p[likely], p[~likely].sum()[None]]) * n
    counted = torch.cat([counts[likely], counts[~likely].sum()[None]])
    assert likely.sum() >= 4
    assert stats.chisquare(counted, wanted).pvalue > 1e-6


def test_without_a_seed_torchs_own_chance_decides():
    def drawn():
        return generate(MODEL, [[3]] * 5, 4, sampler=Sampler(temperature=3.0))

    with torch.random.fork_rng():
        torch.manual_seed(1)
        first, second = drawn(), drawn()
        torch.manual_seed(1)
        assert (drawn(), drawn()) == (first, second)
    assert first != second and len({tuple(row) for row in first}) > 1


def test_the_largest_seed_is_the_one_that_leaves_each_row_its_own():
    last = 2**32 - 3
    both = generate(MODEL, [[3], [3]], 6, sampler=SAMPLED, seed=last)
    assert both[1] == generate(MODEL, [[3]], 6, sampler=SAMPLED, seed=last + 1)[0] != both[0]


def test_the_likeliest_tokens_need_no_chance():
    state = torch.get_rng_state()
    generate(MODEL, ROWS, 3)
    generate(MODEL, ROWS, 3, sampler=SAMPLED, seed=1)
    assert torch.equal(torch.get_rng_state(), state)


# --- the model --------------------------------------------------------------------------------


def test_dropout_is_off_and_every_part_gets_its_mode_back():
    model = LanguageModel(LEARNED, dropout=0.6)
    model.load_state_dict(MODEL.state_dict())
    model.double().train().decoder.blocks[1].eval()
    modes, state = [module.training for module in model.modules()], torch.get_rng_state()
    assert generate(model, ROWS, 5) == generate(MODEL, ROWS, 5)
    assert torch.equal(torch.get_rng_state(), state)  # dropout would have drawn numbers
    assert [module.training for module in model.modules()] == modes
    assert model.training and not model.decoder.blocks[1].training


def test_dropout_is_off_in_the_encoder_too():
    model = EncoderDecoder(BOTH, dropout=0.6)
    model.load_state_dict(TRANSLATOR.state_dict())
    sources, rows = [[3, 1, 4], [5]], [[1], [2, 2]]
    state = torch.get_rng_state()
    new = generate(model.double().train(), rows, 5, source=sources)
    assert new == generate(TRANSLATOR, rows, 5, source=sources)
    assert torch.equal(torch.get_rng_state(), state)  # dropout would have drawn numbers
    assert model.training


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ZeroDivisionError])
def test_after_an_interrupt_the_model_is_as_it_was(kind):
    model = successor().train().requires_grad_()

    def interrupt(row, token):
        if token == 4:
            raise kind

    with pytest.raises(kind):
        generate(model, [[2]], 5, on_token=interrupt)
    assert model.training
    model(torch.tensor([[2]])).sum().backward()
    assert generate(model, [[2]], 2) == [[3, 4]]


def test_no_gradients_are_kept_and_what_is_called_may_have_them():
    seen = []
    for model, options in ((successor(), {}), (TRANSLATOR, {"source": [[3, 4]]})):
        hooks = [
            part.register_forward_hook(lambda *_: seen.append(torch.is_grad_enabled()))
            for part in model.modules()
        ]
        generate(model, [[2]], 1, **options)
        for hook in hooks:
            hook.remove()
    assert len(seen) > 40 and not any(seen)
    generate(successor(), [[2]], 1, on_token=lambda *_: seen.append(torch.is_grad_enabled()))
    assert seen[-1]


@pytest.mark.parametrize("sampler", [GREEDY, SAMPLED])
def test_torchs_default_device_is_no_matter(sampler):
    options = {"sampler": sampler, "seed": 3}
    wanted = generate(MODEL, ROWS, 4, **options)
    with torch.device("meta"):  # where nothing can be computed
        assert generate(MODEL, ROWS, 4, **options) == wanted
        assert len(generate(MODEL, ROWS, 1, sampler=SAMPLED)) == len(ROWS)


def test_a_model_reads_up_to_its_context_and_never_its_last_new_token():
    assert len(generate(MODEL, [[1] * 4], CONTEXT - 3)[0]) == CONTEXT - 3
    assert generate(MODEL, [[1] * CONTEXT], 1) == [continued(MODEL, [1] * CONTEXT, 1)]
    for row, n_new in (([1] * 4, CONTEXT - 2), ([1] * CONTEXT, 2), ([1] * (CONTEXT + 1), 0)):
        says = f"got t={len(row)}, n_new={n_new} and context={CONTEXT}"
        with pytest.raises(ValueError, match=says):
            generate(MODEL, [[1], row], n_new)


def test_a_bar_counts_the_steps(capsys):
    generate(successor(), [[1], [2]], 3, progress=True)
    assert capsys.readouterr().err.endswith(f"\r{'█' * 30} 3 of 3 tokens\n")


# --- rows -------------------------------------------------------------------------------------


def test_rows_stand_at_the_right_end():
    tokens, is_token = pad_left([[5, 7, 2], [9], [4, 4]], pad_id=8)
    assert tokens.tolist() == [[5, 7, 2], [8, 8, 9], [8, 4, 4]]
    assert is_token.int().tolist() == [[1, 1, 1], [0, 0, 1], [0, 1, 1]]
