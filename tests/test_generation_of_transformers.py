"""Rows are continued, and scored, as transformers does it, token for token, on random weights.

Nothing is downloaded. That the models themselves are the same is in test_models_parity.py.
"""

import pytest
import torch
from test_models_parity import CONTEXT, V, bart, gpt_2, in_fp64, llama
from transformers import BartForConditionalGeneration, GenerationConfig

from attnlib import GREEDY, Sampler, generate
from attnlib.likelihood import perplexity, token_log_probabilities
from attnlib.token_rows import pad_left

ROWS = [[3, 1, 4], [15], [9, 2, 6, 5, 3]]
N_NEW = CONTEXT - 5
PAD = V - 1


@pytest.fixture(scope="module", params=[gpt_2, llama], ids=["gpt-2", "llama"])
def pair(request):
    return request.param()


def continued_by_transformers(model, n_new, stop=(), **inputs):
    """The new ids of each row, up to its first stop token."""
    begin = inputs.pop("begin", 0)
    # in place of the model's own, which would fill in what is None
    model.generation_config = GenerationConfig(
        max_new_tokens=n_new,
        do_sample=False,
        pad_token_id=PAD,
        eos_token_id=list(stop) or None,
        decoder_start_token_id=2,
        use_cache=False,
    )
    with in_fp64(), torch.no_grad():
        out = model.generate(**inputs)
    rows = [row[begin:] for row in out.tolist()]
    ends = [next((i for i, x in enumerate(row) if x in stop), n_new) for row in rows]
    return [row[: end + 1] for row, end in zip(rows, ends, strict=True)]


def of_pair(pair, stop=()):
    theirs, ours = pair
    tokens, is_token = pad_left(ROWS, pad_id=PAD)
    wanted = continued_by_transformers(
        theirs, N_NEW, stop, input_ids=tokens, attention_mask=is_token.long(), begin=tokens.shape[1]
    )
    return wanted, generate(ours, tokens, N_NEW, is_token=is_token, stop=stop)


def test_greedy_rows_padded_on_the_left_are_theirs(pair):
    wanted, new = of_pair(pair)
    assert new == wanted
    assert len({tuple(row) for row in new}) > 1


def test_rows_end_where_theirs_do(pair):
    free, _ = of_pair(pair)
    stop = sorted({free[0][2], free[2][4]})
    wanted, new = of_pair(pair, stop)
    assert new == wanted
    assert min(map(len, new)) < N_NEW


def test_translations_are_those_of_bart():
    theirs, ours = bart()
    assert isinstance(theirs, BartForConditionalGeneration)
    sources = [[3, 1, 4, 1, 5], [9, 2]]
    source, is_source = pad_left(sources, pad_id=PAD)
    source, is_source = source.flip(1), is_source.flip(1)
    begin = torch.tensor([[2, 7], [2, 8]])
    wanted = continued_by_transformers(
        theirs,
        6,
        input_ids=source,
        attention_mask=is_source.long(),
        decoder_input_ids=begin,
        begin=2,
    )
    new = generate(ours, begin, 6, source=source, is_source=is_source)
    assert new == wanted
    assert new[0] != new[1]


def test_a_text_is_as_probable_as_there(pair):
    theirs, ours = pair
    tokens = torch.randint(V, (3, 7), generator=torch.Generator().manual_seed(4))
    with in_fp64(), torch.no_grad():
        out = theirs(tokens, labels=tokens)
    log_p = out.logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    # a hundred roundings of numbers of size 10, at 7 places
    torch.testing.assert_close(token_log_probabilities(ours, tokens), log_p, rtol=0, atol=1e-11)
    assert perplexity(ours, tokens) == pytest.approx(out.loss.exp().item(), rel=1e-11)


def test_a_sampler_that_leaves_one_token_is_greedy(pair):
    _, ours = pair
    one = Sampler(temperature=0.3, top_p=1e-9)
    assert generate(ours, ROWS, 5, sampler=one, seed=3) == generate(ours, ROWS, 5, sampler=GREEDY)
