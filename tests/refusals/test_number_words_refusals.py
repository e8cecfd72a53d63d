"""What number words refuse, and what they say. Run without the shape hook, which refuses first."""

import numpy as np
import pytest
import torch

from attnlib import NumberWordsTokenizer, load_pretrained
from attnlib.number_words import (
    alignments,
    as_batch,
    batches,
    exact_match,
    meaning_shares,
    token_accuracy,
    translate,
)

TOKENIZER = NumberWordsTokenizer()
PAIRS = [(1, "one", "eins"), (2, "two", "zwei")]
DICE = torch.Generator()

REFUSED = [
    (lambda: TOKENIZER.encode_english("one million"), ValueError, "below a million, got 'million'"),
    (lambda: TOKENIZER.encode_english(" ,-"), ValueError, "must have a word, got ' ,-'"),
    (lambda: TOKENIZER.encode_english("21"), ValueError, "below a million, got '21'"),
    (lambda: TOKENIZER.encode_english(21), TypeError, "text must be a string, got int"),
    (lambda: TOKENIZER.encode_german("eine"), ValueError, "made of number words, got 'eine'"),
    (lambda: TOKENIZER.encode_german("tausend"), ValueError, "of number words, got 'tausend'"),
    (lambda: TOKENIZER.encode_german("zwei drij"), ValueError, "of number words, got 'drij'"),
    (lambda: TOKENIZER.encode_german(""), ValueError, "must have a word, got ''"),
    (lambda: TOKENIZER.encode_german(b"eins"), TypeError, "text must be a string, got bytes"),
    (lambda: TOKENIZER.encode_german("eins\ud800"), ValueError, "must hold no lone surrogate"),
    (lambda: TOKENIZER.decode([1, 94]), ValueError, "at least 0 and less than 94, got 94"),
    (lambda: TOKENIZER.decode([-1]), ValueError, "at least 0 and less than 94, got -1"),
    (lambda: TOKENIZER.decode([1.5]), TypeError, "an id must be a whole number, got 1.5"),
    (lambda: TOKENIZER.decode("eins"), TypeError, "ids must be a sequence of integers"),
    (lambda: as_batch([]), ValueError, "a batch must have at least 1 pair, got 0"),
    (lambda: as_batch([(1, "uno", "eins")]), ValueError, "below a million, got 'uno'"),
    (lambda: batches(PAIRS, 0, DICE), ValueError, "size must be at least 1, got 0"),
    (lambda: batches(PAIRS, 3, DICE), ValueError, "size must be at most the 2 pairs .* got 3"),
    (lambda: batches(PAIRS, 1.0, DICE), TypeError, "size must be a whole number, got 1.0"),
    (lambda: batches(PAIRS, 1, 7), TypeError, "generator must be a torch.Generator, got int"),
    (
        lambda: batches(PAIRS, 1, np.random.default_rng(0)),
        TypeError,
        "must be a torch.Generator, got Generator",
    ),
    (lambda: meaning_shares([]), ValueError, "at least 1 piece that means a number, got 0"),
]


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED)
def test_what_is_no_number_is_refused_and_named(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


@pytest.fixture(scope="module")
def translator():
    return load_pretrained("number-words").model


def test_nothing_to_measure_is_refused(translator):
    with pytest.raises(ValueError, match="exact_match must have at least 1 pair, got 0"):
        exact_match(translator, [])
    for measure in (token_accuracy, alignments):
        with pytest.raises(ValueError, match="a batch must have at least 1 pair, got 0"):
            measure(translator, [])


def test_a_text_in_the_place_of_texts_is_refused(translator):
    with pytest.raises(TypeError, match="texts must be a list of texts, got the text 'one'"):
        translate(translator, "one")
    with pytest.raises(ValueError, match="got 'million'"):
        translate(translator, ["one", "one million"])
