"""What a tokenizer refuses, and the sentence it says; run without the shape hook."""

import json
import os

import numpy as np
import pytest
import torch

from attnlib import BytePairTokenizer, WordPieceTokenizer, exercises, word_piece
from attnlib.word_piece import words_of

train = BytePairTokenizer.train
SMALL = train("to be or not to be", 262, special_tokens=["<|end|>"])
BYTES = {bytes([b]): b for b in range(256)}
PIECES = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3}
PIECE_TOKENIZER = WordPieceTokenizer(PIECES)


# --- training -----------------------------------------------------------------------------


@pytest.mark.parametrize("text", [None, 7, ["to", "be"], b"to be"])
def test_training_wants_a_string(text):
    with pytest.raises(TypeError, match=rf"text must be a string, got {type(text).__name__}"):
        train(text, 300)


@pytest.mark.parametrize(
    "vocab_size,special,least", [(255, [], 256), (0, [], 256), (-1, [], 256), (257, "<> <|>", 258)]
)
def test_the_vocabulary_must_hold_the_bytes_and_the_special_tokens(vocab_size, special, least):
    special = special.split() if special else []
    with pytest.raises(ValueError, match=rf"at least 256, .*: {least}; got {vocab_size}"):
        train("to be", vocab_size, special_tokens=special)


@pytest.mark.parametrize("vocab_size", [300.0, "300", None, True])
def test_the_size_must_be_an_integer(vocab_size):
    with pytest.raises(TypeError, match="vocab_size must be a whole number, got"):
        train("to be", vocab_size)


@pytest.mark.parametrize("pattern", ["gpt2", r"\w+", 3, ["gpt-2"], ""])
def test_unknown_patterns_are_refused_with_those_that_exist(pattern):
    known = "pattern must be one of 'gpt-2', 'cl100k', 'smollm2', or None; got "
    for make in (
        lambda: train("to be", 300, pattern=pattern),
        lambda: BytePairTokenizer.from_ranks(BYTES, pattern=pattern),
        lambda: BytePairTokenizer.from_merges(BYTES, [], pattern=pattern),
    ):
        with pytest.raises(ValueError, match=known):
            make()


def test_lone_surrogates_are_refused_with_their_place():
    for refuse in (SMALL.encode, SMALL.pre_tokens, lambda text: train(text, 300)):
        with pytest.raises(ValueError, match=r"no lone surrogate, got '\\ud83d' at position 3"):
            refuse("to \ud83d be \udc00")


# --- special tokens -----------------------------------------------------------------------


def test_special_tokens_must_be_there_once_and_not_empty():
    with pytest.raises(ValueError, match="a special token must not be empty"):
        train("to be", 300, special_tokens=["<x>", ""])
    with pytest.raises(ValueError, match="given once, but '<x>' is there twice"):
        train("to be", 300, special_tokens=["<y>", "<x>", "<x>"])
    with pytest.raises(
        TypeError, match="a sequence of texts, in the order of their ids; got '<x>'"
    ):
        train("to be", 300, special_tokens="<x>")
    with pytest.raises(TypeError, match="a special token must be a string, got int"):
        train("to be", 300, special_tokens=[7])
    with pytest.raises(ValueError, match="a special token must hold no lone surrogate"):
        train("to be", 300, special_tokens=["\ud83d"])


@pytest.mark.parametrize(
    "special", [{"<x>", "<y>"}, {"<x>": 300}, None, 7, b"<x>", (s for s in ["<x>", "<y>"])]
)
def test_special_tokens_must_come_in_an_order_that_gives_their_ids(special):
    # a set has another order for every seed of hashes, a dictionary's ids would be passed over
    with pytest.raises(
        TypeError, match=r"in the order of their ids; got|must be a string, got int"
    ):
        train("to be", 300, special_tokens=special)


def test_a_special_token_in_a_text_is_refused_with_its_place_and_what_to_choose():
    with pytest.raises(
        ValueError, match=r"'<\|end\|>' at position 5; choose special='encode' .* special='as text'"
    ):
        SMALL.encode("to be<|end|>")


@pytest.mark.parametrize("special", ["allow", True, None, ["encode"]])
def test_other_choices_for_special_tokens_are_refused(special):
    with pytest.raises(ValueError, match="special must be one of 'refuse', 'encode', 'as text'; g"):
        SMALL.encode("to be", special=special)


# --- vocabularies -------------------------------------------------------------------------


@pytest.mark.parametrize("make", ["from_ranks", "from_merges"])
def test_tokens_must_be_bytes_with_an_id_of_their_own(make):
    def of(vocabulary, special_tokens=None):
        merges = () if make == "from_ranks" else ([],)
        return getattr(BytePairTokenizer, make)(
            vocabulary, *merges, pattern=None, special_tokens=special_tokens
        )

    with pytest.raises(TypeError, match="a token must be bytes, got 'a'"):
        of({"a": 0})
    with pytest.raises(ValueError, match="a token must not be empty"):
        of({b"": 0})
    with pytest.raises(ValueError, match="a special token must not be empty"):
        of({b"a": 0}, {"": 1})
    with pytest.raises(ValueError, match="an id must be from 0 to 16777215, got -1 for b'a'"):
        of({b"a": -1})
    with pytest.raises(TypeError, match=r"the id of b'a' must be a whole number, got 0\.5"):
        of({b"a": 0.5})
    with pytest.raises(ValueError, match="b'a' and b'b' both have 7"):
        of({b"a": 7, b"b": 7})
    with pytest.raises(ValueError, match="b'a' and '<x>' both have 7"):
        of({b"a": 7}, {"<x>": 7})
    with pytest.raises(TypeError, match="a token must be bytes, got '<x>'"):
        of({"<x>": 7, b"a": 8}, {"<x>": 9})
    with pytest.raises(ValueError, match="an id must be from 0 to 16777215, got 16777216 for b'a'"):
        of({b"a": 1 << 24})
    for vocabulary in ([b"a"], None, 7):
        with pytest.raises(TypeError, match="the vocabulary must be a mapping from tokens to ids"):
            of(vocabulary)
    with pytest.raises(TypeError, match="special_tokens must be a mapping from tokens to ids"):
        of({b"a": 7}, ["<x>"])


@pytest.mark.parametrize("merges", [None, 7, "ab", b"ab", ["a b"], [(97, 98)], [(b"a",)], [b"ab"]])
def test_merges_must_be_pairs_of_tokens(merges):
    with pytest.raises(TypeError, match=r"must be (a pair|pairs) of tokens"):
        BytePairTokenizer.from_merges(BYTES | {b"ab": 256}, merges, pattern=None)


def test_merges_must_name_and_make_tokens_once():
    vocabulary = BYTES | {b"ab": 256}
    with pytest.raises(ValueError, match="merge 1, b'a' and b'c', needs b'ac'"):
        BytePairTokenizer.from_merges(vocabulary, [(b"a", b"b"), (b"a", b"c")], pattern=None)
    with pytest.raises(ValueError, match="merge 0, b'xy' and b'z', needs b'xy'"):
        BytePairTokenizer.from_merges(vocabulary, [(b"xy", b"z")], pattern=None)
    with pytest.raises(ValueError, match="b'a' and b'b' are merge 0 and merge 1"):
        BytePairTokenizer.from_merges(vocabulary, [(b"a", b"b")] * 2, pattern=None)


def test_a_byte_that_the_vocabulary_lacks_is_named():
    tokenizer = BytePairTokenizer.from_ranks({b"a": 0, b"b": 1}, pattern=None)
    with pytest.raises(ValueError, match=r"no token for the byte 0x63, which 'abc' needs"):
        tokenizer.encode("abc")


def test_merges_are_kept_of_trained_tokenizers_only_and_so_many():
    assert len(SMALL.merges) == 5
    for n in (-1, 6):
        with pytest.raises(ValueError, match=f"n must be between 0 and 5 merges, got {n}"):
            SMALL.with_merges(n)
    with pytest.raises(TypeError, match=r"n must be a whole number, got 1\.0"):
        SMALL.with_merges(1.0)
    ranks = BytePairTokenizer.from_ranks(BYTES, pattern=None)
    with pytest.raises(ValueError, match="with_merges is for trained tokenizers"):
        ranks.with_merges(0)
    with pytest.raises(ValueError, match="made from ranks, which list no merges"):
        ranks.merges  # noqa: B018


# --- encoding and decoding ----------------------------------------------------------------


@pytest.mark.parametrize("text", [None, 7, ["to"], 1.5])
def test_only_strings_are_encoded(text):
    for refuse in (SMALL.encode, SMALL.pre_tokens):
        with pytest.raises(TypeError, match=rf"text must be a string, got {type(text).__name__}"):
            refuse(text)


def test_bytes_and_strings_each_have_their_function():
    with pytest.raises(TypeError, match="must be a string, got bytes; encode_bytes takes bytes"):
        SMALL.encode(b"to be")
    with pytest.raises(TypeError, match="data must be bytes, got str"):
        SMALL.encode_bytes("to be")
    with pytest.raises(TypeError, match="data must be bytes, got list"):
        SMALL.encode_bytes([1, 2])


@pytest.mark.parametrize("unknown", [262, -1, 10**12])
def test_unknown_ids_are_refused_with_their_place(unknown):
    message = f"there is none of id {unknown} at position 2; the largest id is 261"
    for decode in (SMALL.decode, SMALL.decode_bytes):
        for kind in (list, np.array, torch.tensor):
            with pytest.raises(ValueError, match=message):
                decode(kind([98, 99, unknown]))
    with pytest.raises(ValueError, match=f"none of id {unknown} at position 0"):
        SMALL.token_bytes(unknown)


@pytest.mark.parametrize(
    "ids",
    [
        [1.0],
        ["a"],
        [None],
        [[1]],
        [True],
        [np.True_],
        [torch.tensor(True)],
        np.array([0.5]),
        torch.ones(2),
        torch.ones(1, 2, dtype=torch.long),
    ],
)
def test_ids_must_be_integers(ids):
    for decode in (SMALL.decode, PIECE_TOKENIZER.decode):
        with pytest.raises(TypeError, match="an id must be a whole number, got"):
            decode(ids)


@pytest.mark.parametrize(
    "ids", [7, "abc", None, torch.tensor(7), b"abc", memoryview(b"abc"), {1, 2}, {1: 2}]
)
def test_ids_must_be_a_sequence(ids):
    for decode in (SMALL.decode, PIECE_TOKENIZER.decode):
        with pytest.raises(TypeError, match="ids must be a sequence of integers, got"):
            decode(ids)


def test_an_id_in_a_gap_is_refused_without_saying_that_it_is_in_range():
    with_a_gap = BytePairTokenizer.from_ranks({b"a": 0, b"b": 5}, pattern=None)
    with pytest.raises(ValueError, match="none of id 3 at position 1; the largest id is 5"):
        with_a_gap.decode([0, 3])


# --- files --------------------------------------------------------------------------------


def saved(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "t.json")
    return json.loads((tmp_path / "t.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "change,complaint",
    [
        ({"format": "other"}, "its format is 'other'"),
        ({"kind": "other"}, "KeyError"),
        ({"pattern": "other"}, "pattern must be one of"),
        ({"merges": [[0]]}, "not enough values"),
        ({"merges": [[0, 300]]}, r"merge 0 is \(0, 300\), of tokens that are not there yet"),
        ({"merges": [[0, -1]]}, "not there yet"),
        ({"merges": [[0, 1.5]]}, "not there yet"),
        ({"merges": [[0, 1], [0, 1]], "special_tokens": {}}, "a merge is there twice"),
        ({"special_tokens": {"<x>": 9}}, "the special tokens are not the last"),
        ({"merges": None}, "TypeError"),
        ({"merges": [[True, 5]]}, "not there yet"),
        ({"merges": [[97, 97], *([256 + i] * 2 for i in range(60))]}, "its tokens would have "),
    ],
)
def test_a_changed_file_is_refused(change, complaint, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps(saved(SMALL, tmp_path) | change), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"t\.json holds no tokenizer that .*{complaint}"):
        BytePairTokenizer.load(path)


@pytest.mark.parametrize(
    "change,complaint",
    [
        ({"kind": "other"}, "its kind is 'other'"),
        ({"tokens": ["a", "a"]}, "a token is there twice"),
        ({"tokens": ["a", "€"]}, "UnicodeEncodeError"),
        ({"tokens": ["a", 7]}, "AttributeError"),
        ({"tokens": "abc"}, "its tokens are no list"),
        ({"kind": "ranks", "tokens": {"a": 0}}, "its tokens are no list"),
        ({"merges": [[True, 0]]}, "a merge must be two ids"),
        ({"tokens": ["a", None, "ab"], "merges": [[0, 1]]}, "merge 0 is"),
        ({"merges": [[0, 1.5]]}, "a merge must be two ids"),
        ({"merges": [[0, -1]]}, "a merge must be two ids"),
        ({"merges": [[0, 10**9]]}, "IndexError"),
        ({"merges": [[0, 1]]}, "a merge must name and make tokens"),
    ],
)
def test_a_changed_file_of_merges_is_refused(change, complaint, tmp_path):
    tokenizer = BytePairTokenizer.from_merges(BYTES, [], pattern=None)
    path = tmp_path / "t.json"
    path.write_text(json.dumps(saved(tokenizer, tmp_path) | change), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"t\.json holds no tokenizer that .*{complaint}"):
        BytePairTokenizer.load(path)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"7", b"{}", b"\x80\x04pickle", b'{"format": 1}', b"[" * 10**5]
)
def test_what_is_no_tokenizer_is_refused(content, tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="holds no tokenizer that `save` wrote"):
        BytePairTokenizer.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.json"):
        BytePairTokenizer.load(tmp_path / "missing.json")
    with pytest.raises(
        FileNotFoundError, match=r"there is no folder .*/missing to save t\.json in"
    ):
        SMALL.save(tmp_path / "missing" / "t.json")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_or_a_device_is_no_place_for_a_tokenizer(tmp_path):
    # the pipe stands for devices such as /dev/null, which a file in its place would end
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, "", tmp_path / "pipe"):
        with pytest.raises(ValueError, match=r"path must be that of a file, but .* is a folder or"):
            SMALL.save(path)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


# --- word pieces --------------------------------------------------------------------------


def test_word_pieces_want_strings():
    for word in (None, b"a", ["a"]):
        with pytest.raises(TypeError, match="word must be a string, got"):
            word_piece(word, {"a"})
        with pytest.raises(TypeError, match="text must be a string, got"):
            WordPieceTokenizer(PIECES).encode(word)
        with pytest.raises(TypeError, match="text must be a string, got"):
            words_of(word)


@pytest.mark.parametrize("vocabulary", ["abcdef", None, 7, (p for p in ["a", "ab"])])
def test_a_string_or_an_iterator_is_no_vocabulary(vocabulary):
    # "b" in "abc" is true, though "abc" is no list of pieces
    with pytest.raises(TypeError, match="vocabulary must be a set, a list or a mapping of pieces"):
        word_piece("ab", vocabulary)


@pytest.mark.parametrize("vocabulary", [list(PIECES), None, "abc"])
def test_the_pieces_must_have_ids(vocabulary):
    with pytest.raises(TypeError, match="the vocabulary must be a mapping from pieces to ids, got"):
        WordPieceTokenizer(vocabulary)


def test_a_vocabulary_of_pieces_needs_its_special_tokens_and_ids_of_their_own():
    with pytest.raises(ValueError, match=r"\['\[CLS\]', '\[SEP\]'\] missing"):
        WordPieceTokenizer({"[UNK]": 0, "a": 1})
    with pytest.raises(ValueError, match="an id must belong to one piece, but several have 3"):
        WordPieceTokenizer(PIECES | {"b": 3})
    with pytest.raises(ValueError, match="an id must not be negative, got -4"):
        WordPieceTokenizer(PIECES | {"b": -4})
    with pytest.raises(TypeError, match="the id of 'b' must be a whole number, got '4'"):
        WordPieceTokenizer(PIECES | {"b": "4"})
    with pytest.raises(TypeError, match="a piece must be a string, got bytes"):
        WordPieceTokenizer(PIECES | {b"b": 4})


def test_unknown_ids_of_pieces_are_refused():
    with pytest.raises(ValueError, match=r"there is none of \[4, -1\]"):
        WordPieceTokenizer(PIECES).decode([1, 4, 3, -1])


def test_a_judge_wants_the_function_itself():
    with pytest.raises(exercises.Mistake, match="hand over the function itself, got list"):
        exercises.check("merge-pair", [])
