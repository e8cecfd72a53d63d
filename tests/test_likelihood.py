"""How probable a text is, and in what units: chapter language-models.

Parity with transformers is in test_generation_of_transformers.py.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from attnlib import PUBLISHED, AttentionSizes, EncoderDecoder, LanguageModel, definitions
from attnlib.likelihood import bits_per_byte, perplexity, text_windows, token_log_probabilities

B, T, V, CONTEXT = 3, 5, 7, 9
SIZES = replace(
    PUBLISHED["gpt-2"],
    name="a small language model",
    source="made up for a test",
    n_layers=2,
    width=6,
    attention=AttentionSizes(n_query_heads=2, n_kv_heads=1, head_dim=4, value_dim=3, biases=True),
    feed_forward_width=8,
    vocabulary=V,
    tied_embeddings=False,
    context=CONTEXT,
)


def random(model, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.double().eval().requires_grad_(False).parameters():
        parameter.copy_(0.8 * torch.randn(parameter.shape, generator=generator).double())
    return model


def model(kind=LanguageModel, dropout=0.0, **changes):
    return random(kind(replace(SIZES, **changes), dropout=dropout))


def knows_nothing(vocabulary):
    blank = model(vocabulary=vocabulary)
    blank.output.weight.zero_()
    return blank


def translator():
    return model(EncoderDecoder, n_encoder_layers=1)


def numbers(*shape, below=V, seed=1):
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed))


TOKENS = numbers(B, T)
ON_THE_RIGHT = torch.arange(T) < torch.tensor([[T], [3], [1]])
ON_THE_LEFT = ON_THE_RIGHT.flip(1)


def assert_equal(actual, wanted, atol=1e-13):
    torch.testing.assert_close(actual, wanted, rtol=0, atol=atol)


# --- the definition ---------------------------------------------------------------------------


def next_token(model, first):
    """The definition asks for the first token, too: here that one is given."""

    def probabilities(before):
        read = torch.tensor([[first, *before]])
        return definitions.softmax(model(read)[0, -1].tolist())

    return probabilities


def test_the_sum_over_a_row_is_the_logarithm_of_its_probability():
    m = model()
    log_p = token_log_probabilities(m, TOKENS)
    for row, (first, *others) in zip(log_p, TOKENS.tolist(), strict=True):
        wanted = definitions.sequence_log_probability(next_token(m, first), others)
        assert abs(row.sum().item() - wanted) < 1e-13
        assert row[0].item() == pytest.approx(math.log(next_token(m, first)([])[others[0]]))


def test_perplexity_and_bits_are_those_of_the_definitions():
    m = model()
    log_p = token_log_probabilities(m, TOKENS)
    assert perplexity(m, TOKENS) == pytest.approx(definitions.perplexity(log_p.flatten().tolist()))
    row = token_log_probabilities(m, TOKENS[:1])[0].tolist()
    wanted = definitions.bits_per_byte(row, 17)
    assert bits_per_byte(m, TOKENS[0].tolist(), 17) == pytest.approx(wanted, rel=1e-13)


# --- identities and cases ---------------------------------------------------------------------


@pytest.mark.parametrize("first", range(3))
def test_the_probabilities_of_all_texts_of_one_length_sum_to_one(first):
    m = model(vocabulary=3)
    texts = torch.tensor([[first, *rest] for rest in itertools.product(range(3), repeat=4)])
    total = token_log_probabilities(m, texts).sum(-1).exp().sum().item()
    assert abs(total - 1) < 1e-13  # 81 terms


@pytest.mark.parametrize("vocabulary", [2, 7, 256])
def test_a_model_that_knows_nothing_chooses_among_all_tokens(vocabulary):
    m, ids = knows_nothing(vocabulary), numbers(40, below=vocabulary)
    assert perplexity(m, ids[None, :9]) == pytest.approx(vocabulary)
    n_bytes = 77
    wanted = math.log2(vocabulary) * 39 / n_bytes
    assert bits_per_byte(m, ids, n_bytes) == pytest.approx(wanted)


@pytest.mark.parametrize("is_token", [ON_THE_RIGHT, ON_THE_LEFT], ids=["right", "left"])
def test_padding_is_neither_read_nor_predicted(is_token):
    m = model()
    log_p = token_log_probabilities(m, TOKENS, is_token=is_token)
    n_predicted = nats = 0
    for row, tokens, here in zip(log_p, TOKENS, is_token, strict=True):
        n = int(here.sum())
        alone = token_log_probabilities(m, tokens[here][None])[0] if n > 1 else torch.zeros(0)
        places = (here[1:] & here[:-1]).nonzero()[:, 0]
        assert_equal(row[places], alone.double())
        assert (row != 0).sum() == n - 1
        n_predicted, nats = n_predicted + n - 1, nats - alone.sum().item()
    whole = perplexity(m, TOKENS, is_token=is_token)
    assert whole == pytest.approx(math.exp(nats / n_predicted), rel=1e-13)
    other = torch.where(is_token, TOKENS, (TOKENS + 1) % V)
    assert_equal(token_log_probabilities(m, other, is_token=is_token), log_p, atol=0)


def test_padding_that_is_nan_in_the_model_stays_out():
    m = model(vocabulary=V + 1)
    m.decoder.word_embedding.weight[V] = math.nan
    tokens = torch.where(ON_THE_RIGHT, TOKENS, V)
    log_p = token_log_probabilities(m, tokens, is_token=ON_THE_RIGHT)
    assert log_p.isfinite().all() and log_p[0].abs().min() > 0


def test_a_translation_is_scored_in_view_of_its_own_source():
    m, sources = translator(), numbers(B, 4, seed=3)
    is_source = torch.arange(4) < torch.tensor([[4], [2], [3]])
    log_p = token_log_probabilities(m, TOKENS, source=sources, is_source=is_source)
    for i in range(B):
        alone = sources[i : i + 1, is_source[i]]
        logits = m(alone, TOKENS[i : i + 1, :-1]).log_softmax(-1)
        wanted = logits.gather(-1, TOKENS[i : i + 1, 1:, None])[..., 0]
        assert_equal(log_p[i : i + 1], wanted)
    other = token_log_probabilities(m, TOKENS, source=sources.flip(0))
    assert (other - log_p).abs().max() > 0.01
    assert perplexity(m, TOKENS, source=sources, is_source=is_source) == pytest.approx(
        math.exp(-log_p.mean().item())
    )


# --- windows over a long text -----------------------------------------------------------------


@given(n=st.integers(2, 60), context=st.integers(1, 12), data=st.data())
def test_every_token_but_the_first_is_predicted_once_with_enough_before_it(n, context, data):
    stride = data.draw(st.integers(1, context))
    seen = []
    for start, stop, n_predicted in text_windows(n, context, stride):
        assert 0 <= start < stop <= n and stop - start - 1 <= context and n_predicted >= 1
        for i in range(stop - n_predicted, stop):
            seen.append(i)
            assert i - start >= min(i, context - stride + 1)
    assert seen == list(range(1, n))


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("batch_size", [1, 3, 50])
def test_bits_are_those_of_each_token_in_its_window(stride, batch_size):
    m, ids, context = model(), numbers(23), 4
    nats = 0.0
    for start, stop, n_predicted in text_windows(23, context, stride):
        for i in range(stop - n_predicted, stop):
            logits = m(ids[None, start:i])[0, -1]
            nats -= logits.log_softmax(-1)[ids[i]].item()
    bits = bits_per_byte(m, ids, 29, context=context, stride=stride, batch_size=batch_size)
    assert bits == pytest.approx(nats / math.log(2) / 29, rel=1e-12)


def test_a_text_of_one_window_is_read_at_once_and_strides_of_half_are_the_default():
    m, ids = model(), numbers(30)
    short = ids[: CONTEXT + 1]
    whole = -token_log_probabilities(m, short[None]).sum().item() / math.log(2) / 13
    assert bits_per_byte(m, short, 13) == pytest.approx(whole)
    half = bits_per_byte(m, ids, 13, context=CONTEXT, stride=5)  # 9/2, rounded up
    assert bits_per_byte(m, ids, 13) == half
    assert bits_per_byte(m, ids.tolist(), 13) == bits_per_byte(m, ids.numpy().tolist(), 13) == half


def test_a_bar_counts_the_windows(capsys):
    bits_per_byte(model(), numbers(23), 29, context=4, stride=3, progress=True)
    n_windows = len(text_windows(23, 4, 3))
    assert capsys.readouterr().err.endswith(f"{n_windows} of {n_windows} windows\n")


# --- the model --------------------------------------------------------------------------------


def test_dropout_is_off_and_every_part_gets_its_mode_back():
    m = model(dropout=0.6).train().requires_grad_()
    m.decoder.blocks[1].eval()
    log_p = token_log_probabilities(m, TOKENS)
    assert_equal(log_p, token_log_probabilities(model(), TOKENS), atol=0)
    assert not log_p.requires_grad
    assert m.training and not m.decoder.blocks[1].training


def test_half_precision_is_summed_in_32_bits():
    m = model().bfloat16()
    log_p = token_log_probabilities(m, TOKENS)
    assert log_p.dtype == torch.float32
    exact = m(TOKENS[:, :-1]).double().log_softmax(-1).gather(-1, TOKENS[:, 1:, None])[..., 0]
    # v exponentials and a few roundings of 2⁻²⁴ of numbers below 20; bf16 would round by 2⁻⁹
    assert exact.abs().max() < 20
    assert (log_p.double() - exact).abs().max() < 20 * V * 2**-24


def test_a_text_that_a_model_all_but_excludes_has_an_infinite_perplexity():
    m = model()
    m.output.weight.mul_(1e5)
    nats = -token_log_probabilities(m, TOKENS).mean()
    assert 1000 < nats < math.inf  # e to that is no number of 64 bits
    assert perplexity(m, TOKENS) == math.inf


def test_probabilities_are_at_most_one():
    assert (token_log_probabilities(model(), TOKENS) <= 0).all()
    assert np.isfinite(perplexity(model(), TOKENS))


def test_swapped_axes_are_refused_while_tests_run():
    with pytest.raises(TypeCheckError):
        token_log_probabilities(model(), TOKENS, is_token=ON_THE_RIGHT.T)
