"""The claims of chapters/tokenization.md about byte pairs, on small texts.

tests/refusals/test_tokenizer_parity.py compares with tiktoken and tokenizers on what was published.
"""

import copy
import io
import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import tiktoken
import tokenizers
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from attnlib import BytePairTokenizer, byte_pairs, definitions, progress
from attnlib import tokenizer as module
from attnlib.pre_tokens import PATTERNS

train = BytePairTokenizer.train

# Few letters, so that pairs come back; runs of one letter, blanks, and letters of two and three
# bytes that share some of them.
TEXTS = st.text(alphabet="aab  \n'é€1", max_size=60)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)

SENTENCE = "the three then there, théé thee 1606 ’tis aaaaaaa   \n\n  ββ the"


@cache
def roomy() -> BytePairTokenizer:
    """A tokenizer with room for more merges than the text has: not made while tests are read."""
    return train(SENTENCE * 3, 400)


# --- training -----------------------------------------------------------------------------


@given(TEXTS, st.integers(0, 25), st.sampled_from([None, *PATTERNS]))
@example("aaa aaa aaaa", 9, None)
def test_training_is_the_definition(text, n_merges, pattern):
    tokenizer = train(text, 256 + n_merges, pattern=pattern)
    pieces = [piece.encode() for piece in tokenizer.pre_tokens(text)]
    assert tokenizer.merges == definitions.train_byte_pairs(pieces, n_merges)


def test_the_worked_table_of_merges():
    # Counted by hand, ties by the rule; the pieces are "low", " low" 4, " lower" 2, " newest" 6
    # and " widest" 3 times. At 9 stand (e, s) and (s, t), at 8 (w, e).
    text = "low" + " low" * 4 + " lower" * 2 + " newest" * 6 + " widest" * 3
    table = ["e|s 9", "es|t 9", "l|o 7", "lo|w 7", " |n 6", " |low 6", "e|w 6", " n|ew 6"]
    tokenizer = train(text, 256 + len(table))
    found = []
    for n, pair in enumerate(tokenizer.merges):
        left, right = (tokenizer.token_bytes(i).decode() for i in pair)
        before = tokenizer.with_merges(n)
        pieces = (before.encode(piece) for piece in before.pre_tokens(text))
        count = sum(definitions.count_pairs(ids).get(pair, 0) for ids in pieces)
        found.append(f"{left}|{right} {count}")
    assert found == table


def test_places_that_overlap_count_once():
    # (a, a) stands at 4 places of "aaa aaa", but two of them do not overlap; (b, c) stands at 3
    assert train("aaa aaa bcbcbc", 257).merges == [(ord("b"), ord("c"))]
    # and a run of four holds it twice: 4 against 3
    assert train("aaaa aaaa bcbcbc", 257).merges == [(ord("a"), ord("a"))]


def test_ties_go_to_the_smallest_left_id_and_then_to_the_smallest_right_id():
    assert train("bd\nbc\nad", 257).merges == [(ord("a"), ord("d"))]
    assert train("bd\nbc", 257).merges == [(ord("b"), ord("c"))]


def test_a_merge_may_use_what_merges_made():
    tokenizer = train("abababab", 300, pattern=None)
    assert [tokenizer.token_bytes(256 + i) for i in range(3)] == [b"ab", b"abab", b"abababab"]
    assert tokenizer.vocab_size == 259


@pytest.mark.parametrize("pattern", [None, *PATTERNS])
@pytest.mark.parametrize("text", ["", "a", "ab", "\n", "aaa"])
def test_empty_text_and_exhausted_pairs_give_a_smaller_vocabulary(text, pattern):
    tokenizer = train(text, 5000, pattern=pattern)
    assert tokenizer.vocab_size == 256 + len(tokenizer.merges)
    assert len(tokenizer.merges) == max(len(text) - 1, 0)
    assert tokenizer.encode("") == []
    assert tokenizer.encode_bytes(b"") == []
    assert tokenizer.decode([]) == ""


@given(TEXTS, st.sampled_from(PATTERNS))
def test_no_merge_crosses_the_border_of_a_pre_token(text, pattern):
    tokenizer = train(text, 300, pattern=pattern)
    pieces = [piece.encode() for piece in tokenizer.pre_tokens(text)]
    made = [tokenizer.token_bytes(256 + i) for i in range(len(tokenizer.merges))]
    assert all(any(token in piece for piece in pieces) for token in made)


def test_merges_do_not_depend_on_the_seed_of_hashes():
    # the file is run by itself, since importing attnlib imports torch, which takes seconds
    code = (
        "import runpy, sys\n"
        "learn = runpy.run_path(sys.argv[1])['learn_merges']\n"
        "words = b'she sells sea shells by the sea shore; the shells are sea shells'.split()\n"
        "print(learn({word: words.count(word) for word in set(words)}, 40))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, byte_pairs.__file__],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2", "3")
    }
    assert len(outputs) == 1
    assert outputs.pop().startswith("[(104, 101), (108, 108), (115, 101), ")


def test_the_order_of_the_pieces_does_not_matter():
    words = ["the", "then", "there", "three", "thee", "that"]
    counts = {word.encode(): n for n, word in enumerate(words, 1)}
    turned = dict(reversed(counts.items()))
    assert byte_pairs.learn_merges(counts, 20) == byte_pairs.learn_merges(turned, 20)


@given(TEXTS, st.integers(0, 20), st.sampled_from([None, "gpt-2"]))
def test_the_first_merges_are_a_shorter_training(text, n, pattern):
    tokenizer = train(text, 256 + 20, pattern=pattern)
    n = min(n, len(tokenizer.merges))
    shorter, wanted = tokenizer.with_merges(n), train(text, 256 + n, pattern=pattern)
    assert shorter.merges == wanted.merges
    assert shorter.encode(text) == wanted.encode(text)
    assert shorter.vocab_size == 256 + n


def test_special_tokens_are_borders_in_training_and_have_the_last_ids():
    tokenizer = train("ab<x>ab<x>ab", 300, pattern=None, special_tokens=["<x>", "<y>"])
    assert tokenizer.merges == [(ord("a"), ord("b"))]
    assert tokenizer.special_tokens == {"<x>": 257, "<y>": 258}
    assert tokenizer.vocab_size == 259
    assert tokenizer.with_merges(0).special_tokens == {"<x>": 256, "<y>": 257}
    assert train("abab", 259, pattern=None, special_tokens=["<x>", "<y>"]).vocab_size == 259


# --- encoding -----------------------------------------------------------------------------


@given(TEXTS, TEXTS, st.sampled_from([None, *PATTERNS]))
def test_encoding_is_the_definition(learnt, text, pattern):
    tokenizer = train(learnt, 290, pattern=pattern)
    wanted = [
        token
        for piece in tokenizer.pre_tokens(text)
        for token in definitions.encode_by_rank(piece.encode(), tokenizer.merges)
    ]
    assert tokenizer.encode(text) == wanted


def test_the_lowest_rank_is_merged_first_wherever_it_stands():
    vocabulary = {bytes([b]): b for b in range(256)} | {b"bc": 256, b"ab": 257, b"abc": 258}
    merges = [(b"b", b"c"), (b"a", b"b")]
    tokenizer = BytePairTokenizer.from_merges(vocabulary, merges, pattern=None)
    assert tokenizer.encode("abc") == [ord("a"), 256]
    # "abc" is a token, but no listed merge makes it of "a" and "bc"; with ranks any pair will do
    assert BytePairTokenizer.from_ranks(vocabulary, pattern=None).encode("abc") == [258]


def test_a_pre_token_that_is_a_token_is_taken_whole_where_only_ranks_are_given():
    # no two tokens make "xyz", so that merges alone would not reach it
    ranks = {bytes([b]): b for b in range(256)} | {b"xyz": 256}
    assert BytePairTokenizer.from_ranks(ranks, pattern=None).encode("xyz") == [256]
    assert in_tiktoken(dict(enumerate(ranks)), r"(?s:.+)").encode("xyz") == [256]


def test_of_several_places_the_leftmost_is_merged_first():
    tokenizer = train("aa", 257)
    assert tokenizer.encode("aaa") == [256, ord("a")]
    assert tokenizer.encode("a" * 201) == [256] * 100 + [ord("a")]


@given(st.lists(st.sampled_from([b"a", b"b", b"ab", b"aab", b"c"]), min_size=40, max_size=90))
def test_a_long_piece_is_encoded_as_by_the_definition(parts):
    data = b"".join(parts) + b"abc" * 20
    tokenizer = train("aab abab aababc cab caab", 275, pattern=None)
    assert len(data) > byte_pairs._SHORT
    assert tokenizer.encode_bytes(data) == definitions.encode_by_rank(data, tokenizer.merges)


def test_a_rank_that_is_out_of_date_merges_nothing():
    # after "bc" is made, "ab" is gone from its place, and "abc" has a worse rank than "de"
    vocabulary = {bytes([b]): b for b in range(256)}
    vocabulary |= {b"bc": 256, b"ab": 257, b"de": 258, b"cd": 259, b"abc": 260, b"bcd": 261}
    pairs = [(b"b", b"c"), (b"a", b"b"), (b"bc", b"d"), (b"d", b"e"), (b"a", b"bc"), (b"c", b"d")]
    merges = [pair for pair in pairs if pair[0] + pair[1] in vocabulary]
    tokenizer = BytePairTokenizer.from_merges(vocabulary, merges, pattern=None)
    trained = [tuple(vocabulary[part] for part in pair) for pair in merges]
    made = [vocabulary[left + right] for left, right in merges]
    rank_of = {pair: rank for rank, pair in enumerate(trained)}
    once = byte_pairs.apply_merges(b"abcde", rank_of, made)
    assert once == [97, 261, 101]
    text = b"abcde" + b"." * byte_pairs._SHORT
    assert tokenizer.encode_bytes(text) == [*once, *[46] * byte_pairs._SHORT]


@given(st.binary(max_size=400), st.sampled_from([None, *PATTERNS]))
def test_every_string_of_bytes_comes_back(data, pattern):
    tokenizer = train(SENTENCE, 300, pattern=pattern)
    assert tokenizer.decode_bytes(tokenizer.encode_bytes(data)) == data


@given(ANY_TEXT)
def test_every_text_comes_back_and_bytes_of_a_text_have_its_tokens(text):
    ids = roomy().encode(text)
    assert roomy().decode(ids) == text
    assert roomy().encode_bytes(text.encode()) == ids
    assert roomy().encode_bytes(bytearray(text.encode())) == ids
    assert "".join(roomy().pre_tokens(text)) == text


def test_invalid_bytes_are_cut_as_symbols_are():
    assert roomy().encode_bytes(b" \xff\xfe the") == [32, 255, 254, *roomy().encode(" the")]
    assert roomy().decode(roomy().encode_bytes(b"a\xffb")) == "a\ufffdb"
    # a surrogate in what would be UTF-8 is three invalid bytes
    assert roomy().decode_bytes(roomy().encode_bytes(b"\xed\xa0\x80")) == b"\xed\xa0\x80"


@given(ANY_TEXT, TEXTS, st.sampled_from(PATTERNS))
def test_encoding_can_be_cut_at_the_borders_of_pre_tokens(text, more, pattern):
    tokenizer = train(SENTENCE, 330, pattern=pattern)
    pieces = tokenizer.pre_tokens(text + more)
    parts = [tokenizer.encode_bytes(piece.encode()) for piece in pieces]
    assert [i for part in parts for i in part] == tokenizer.encode(text + more)


def in_tiktoken(tokens, pattern):
    """A small vocabulary of ours in tiktoken, whose pre-tokens are what the pattern finds."""
    ranks = {token: i for i, token in tokens.items()}
    return tiktoken.Encoding("ours", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


@given(TEXTS)
@example("aaaaaaa" * 20)
def test_ranks_mean_what_they_mean_to_tiktoken(text):
    tokens = {i: roomy().token_bytes(i) for i in range(roomy().vocab_size)}
    ours = BytePairTokenizer.from_ranks({t: i for i, t in tokens.items()}, pattern=None)
    assert ours.encode(text) == in_tiktoken(tokens, r"(?s:.+)").encode(text)


@given(TEXTS)
@example("aaaaaaa" * 20)
def test_merges_mean_what_they_mean_to_tokenizers(text):
    # tokenizers wants printable tokens: one letter for each of the bytes there are
    letter = dict(zip(sorted(set((SENTENCE + "é€1'").encode())), LETTERS, strict=False))

    def spelt(data):
        return "".join(letter[b] for b in data)

    used = [i for i in range(roomy().vocab_size) if set(roomy().token_bytes(i)) <= set(letter)]
    theirs = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            {spelt(roomy().token_bytes(i)): i for i in used},
            [tuple(spelt(roomy().token_bytes(i)) for i in pair) for pair in roomy().merges],
        )
    )
    for piece in roomy().pre_tokens(text):
        data = piece.encode()
        if set(data) <= set(letter):
            assert roomy().encode(piece) == theirs.encode(spelt(data)).ids


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def test_what_is_known_of_pre_tokens_stays_bounded(monkeypatch):
    monkeypatch.setattr(module._Known, "MOST_PIECES", 7)
    tokenizer = train("the then", 260)
    words = [f" {'ab' * (i % 5)}the{i}" for i in range(50)]
    assert [tokenizer.encode(w) for w in words] == [tokenizer.encode(w) for w in words]
    assert 0 < len(tokenizer._known) <= 7
    long = "x" * (module._Known.LONGEST + 1)
    assert tokenizer.decode(tokenizer.encode(long)) == long
    assert long not in tokenizer._known


# --- pre-tokens: written down from what tiktoken and tokenizers do ------------------------------


@pytest.mark.parametrize(
    "text,gpt2,cl100k,smollm2",
    [
        ("I'll it's", "I|'ll| it|'s", "I|'ll| it|'s", "I|'ll| it|'s"),
        ("I'LL", "I|'|LL", "I|'LL", "I|'|LL"),
        ("I'LLama", "I|'|LLama", "I|'LL|ama", "I|'|LLama"),
        ("a 12345", "a| 12345", "a| |123|45", "a| |1|2|3|4|5"),
        ("x=(y)", "x|=(|y|)", "x|=(|y|)", "x|=(|y|)"),
        ("a   b", "a|  | b", "a|  | b", "a|  | b"),
        ("a  1", "a| | 1", "a| | |1", "a|  |1"),
        ("a \n b", "a| \n| b", "a| \n| b", "a| \n| b"),
        ("a\n\nb", "a|\n|\n|b", "a|\n\n|b", "a|\n|\n|b"),
        ("end  ", "end|  ", "end|  ", "end|  "),
        ("end\n \n", "end|\n \n", "end|\n \n", "end|\n \n"),
        ("ok!\n\nno", "ok|!|\n|\n|no", "ok|!\n\n|no", "ok|!|\n|\n|no"),
        ("\tif", "\t|if", "\tif", "\t|if"),
        ("naïve 東京", "naïve| 東京", "naïve| 東京", "naïve| 東京"),
        ("e\u0301t", "e|\u0301|t", "e|\u0301t", "e|\u0301|t"),
        ("½²", "½²", "½²", "½|²"),
        ("a\u00a0b", "a|\u00a0|b", "a|\u00a0b", "a|\u00a0|b"),
        ("a\x1cb", "a|\x1c|b", "a|\x1cb", "a|\x1c|b"),
        ("it'\u017f", "it|'|\u017f", "it|'\u017f", "it|'|\u017f"),
    ],
)
def test_a_text_is_cut_as_each_published_pattern_cuts_it(text, gpt2, cl100k, smollm2):
    for pattern, wanted in zip(PATTERNS, (gpt2, cl100k, smollm2), strict=True):
        assert "|".join(train("", 256, pattern=pattern).pre_tokens(text)) == wanted, pattern


def test_without_a_pattern_the_text_is_one_piece():
    tokenizer = train("to be", 300, pattern=None)
    assert tokenizer.pre_tokens("to be, or") == ["to be, or"]
    assert tokenizer.pre_tokens("") == []
    assert tokenizer.encode("to be") == [259]


# --- special tokens -----------------------------------------------------------------------

CHAT = train("to be or not to be", 262, special_tokens=["<|end|>", "<|", "<|end|>!"])


def test_special_tokens_are_refused_encoded_or_taken_as_text():
    text = "to be<|end|>or"
    with pytest.raises(ValueError, match=r"'<\|end\|>' at position 5; choose special='encode'"):
        CHAT.encode(text)
    as_text = CHAT.encode(text, special="as text")
    assert CHAT.special_tokens["<|end|>"] not in as_text
    encoded = CHAT.encode(text, special="encode")
    special = CHAT.special_tokens["<|end|>"]
    assert encoded == [*CHAT.encode("to be"), special, *CHAT.encode("or")]
    assert CHAT.decode(as_text) == CHAT.decode(encoded) == text
    assert CHAT.encode_bytes(text.encode()) == as_text


def test_of_special_tokens_at_one_place_the_longest_is_taken():
    one, two, three = CHAT.special_tokens.values()
    assert CHAT.encode("<|end|>!<|end|><|", special="encode") == [three, one, two]
    assert CHAT.encode("<|end|", special="encode")[0] == two


def test_special_tokens_are_no_patterns():
    tokenizer = train("", 258, special_tokens=[".", "a*"])
    assert tokenizer.encode("b.a*aa", special="encode") == [98, 256, 257, 97, 97]


# --- decoding and what the tokenizer holds ------------------------------------------------


def test_ids_may_come_in_an_array_or_a_tensor():
    ids = roomy().encode("the three")
    for kind in (
        np.array(ids),
        torch.tensor(ids),
        tuple(ids),
        iter(ids),
        [np.int64(i) for i in ids],
    ):
        assert roomy().decode(kind) == "the three"


def test_a_character_that_is_cut_is_shown_as_a_replacement():
    euro = train("", 256).encode("€")
    assert len(euro) == 3
    assert train("", 256).decode(euro[:2]) == "\ufffd"
    assert train("", 256).decode_bytes(euro[:2]) == "€".encode()[:2]


def test_a_tokenizer_cannot_be_changed_through_what_it_hands_out():
    CHAT.merges.append((0, 0))
    CHAT.special_tokens["<new>"] = 0
    CHAT.tokens[0] = b"changed"
    CHAT.encode("to be").append(7)
    assert CHAT.encode("to be") == CHAT.encode_bytes(b"to be")
    assert (0, 0) not in CHAT.merges
    assert "<new>" not in CHAT.special_tokens
    assert CHAT.token_bytes(0) == b"\x00"


def test_tokens_are_those_of_all_ids():
    assert CHAT.tokens == {i: CHAT.token_bytes(i) for i in range(CHAT.vocab_size)}
    assert CHAT.tokens[CHAT.special_tokens["<|"]] == b"<|"
    with_a_gap = BytePairTokenizer.from_ranks({b"a": 0, b"b": 5}, pattern=None)
    assert with_a_gap.vocab_size == 6
    assert list(with_a_gap.tokens) == [0, 5]


def test_it_shows_what_it_is():
    assert repr(CHAT) == (
        "BytePairTokenizer(vocab_size=262, pattern='gpt-2', "
        "special_tokens=['<|end|>', '<|', '<|end|>!'])"
    )


# --- files --------------------------------------------------------------------------------

SMALL_RANKS = {**{bytes([b]): 255 - b for b in range(200)}, b"ab": 300, b"\xff\x00": 301}
KINDS = {
    "trained": CHAT,
    "whole": train("abab ab", 258, pattern=None),
    "ranks": BytePairTokenizer.from_ranks(
        SMALL_RANKS, pattern="cl100k", special_tokens={"<e>": 400}
    ),
    "merges": BytePairTokenizer.from_merges(
        SMALL_RANKS, [(b"a", b"b")], pattern="smollm2", special_tokens={"<e>": 7, "<f>": 8}
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_and_what_another_process_gets_encode_alike(kind):
    tokenizer, text = KINDS[kind], "ab abab"
    ids = tokenizer.encode(text)
    for again in (pickle.loads(pickle.dumps(tokenizer)), copy.copy(tokenizer)):
        assert again.encode(text) == ids
        assert again.tokens == tokenizer.tokens
    # what is known of texts stays here
    assert len(pickle.dumps(train("the then " * 9, 260))) < 1000


def test_ids_of_numpy_and_torch_become_plain_integers(tmp_path):
    for number in (np.int64, torch.tensor):
        vocabulary = {b"a": number(7), b"b": number(3), b"ab": number(9)}
        special = {"<x>": number(20)}
        for tokenizer in (
            BytePairTokenizer.from_ranks(vocabulary, pattern=None, special_tokens=special),
            BytePairTokenizer.from_merges(
                vocabulary, [(b"a", b"b")], pattern=None, special_tokens=special
            ),
        ):
            ids = tokenizer.encode("abba<x>", special="encode")
            assert ids == [9, 3, 7, 20]
            assert set(map(type, [*ids, *tokenizer.tokens])) == {int}
            tokenizer.save(tmp_path / "t.json")
            assert BytePairTokenizer.load(tmp_path / "t.json").encode("abba") == [9, 3, 7]


def test_a_file_is_the_same_on_every_system_and_may_be_named_by_a_link(tmp_path):
    path = tmp_path / ("t" * 240 + ".json")
    link = tmp_path / "link"
    link.symlink_to(path)
    CHAT.save(link)
    assert link.is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", path.name]
    assert path.read_bytes().count(b"\n") == 1
    assert b"\r" not in path.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_comes_back_as_json(kind, tmp_path):
    tokenizer, path = KINDS[kind], tmp_path / "t.json"
    tokenizer.save(path)
    again = BytePairTokenizer.load(str(path))
    text = "ab abab to be, or 12 not" if kind != "whole" else "abab ab"
    assert again.encode(text) == tokenizer.encode(text)
    assert again.tokens == tokenizer.tokens
    assert again.special_tokens == tokenizer.special_tokens
    assert again.pre_tokens(text) == tokenizer.pre_tokens(text)
    if kind != "ranks":
        assert again.merges == tokenizer.merges
    assert json.loads(path.read_text("utf-8"))["format"] == "attnlib byte-pair tokenizer 1"
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_merges_of_a_file_that_no_training_made_are_still_applied_by_rank(tmp_path):
    train("", 256, pattern=None).save(tmp_path / "t.json")
    parts = json.loads((tmp_path / "t.json").read_text("utf-8"))
    # "ab" and "c" are never neighbours, since "bc" comes first
    parts["merges"] = [[98, 99], [97, 98], [257, 99]]
    (tmp_path / "t.json").write_text(json.dumps(parts), encoding="utf-8")
    tokenizer = BytePairTokenizer.load(tmp_path / "t.json")
    assert tokenizer.token_bytes(258) == b"abc"
    assert tokenizer.encode("abc") == [97, 256]


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    path = tmp_path / "t.json"
    path.write_text("old")

    def no_replace(source, target):
        raise OSError("No space left on device")

    monkeypatch.setattr(module.os, "replace", no_replace)
    with pytest.raises(OSError, match="No space left"):
        CHAT.save(path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("t.json", "old")]


def test_a_saved_file_may_be_read_by_those_who_may_read_others(tmp_path):
    CHAT.save(tmp_path / "t.json")
    (tmp_path / "other").write_text("")
    assert (tmp_path / "t.json").stat().st_mode == (tmp_path / "other").stat().st_mode


# --- the bar ------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def a_terminal(monkeypatch):
    """Not a fixture: pytest puts its own stderr in place before each test starts."""
    monkeypatch.delenv("ATTNLIB_BOOK", raising=False)
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def test_a_bar_is_shown_when_asked_for_and_ends_full(capsys):
    train("the three then there", 260, progress=True)
    shown = capsys.readouterr().err
    assert shown.endswith(f"\r{'█' * 30} 4 of 4 merges\n")
    assert capsys.readouterr().out == ""


def test_nothing_is_shown_unasked_where_nobody_watches(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.0)
    train("the three then there", 260)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_it_unasked_but_only_after_a_while(monkeypatch):
    terminal = a_terminal(monkeypatch)
    train("the three then there", 260)
    assert terminal.getvalue() == ""
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.0)
    train("the three then there", 260, progress=False)
    assert terminal.getvalue() == ""
    train("the three then there", 260)
    assert "4 of 4 merges" in terminal.getvalue()


def test_the_book_shows_none(monkeypatch):
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setenv("ATTNLIB_BOOK", "1")
    train("the three then there", 260)
    assert terminal.getvalue() == ""


def test_a_notebook_shows_it_in_the_output_of_the_cell(capsys, monkeypatch):
    class Shell:
        kernel = None

    class Notebook:
        get_ipython = Shell

    monkeypatch.delenv("ATTNLIB_BOOK", raising=False)
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setitem(sys.modules, "IPython", Notebook)
    train("the three then there", 260)
    shown = capsys.readouterr()
    assert "4 of 4 merges" in shown.out
    assert shown.err == ""


def test_the_counts_of_the_definition_are_those_of_a_search():
    ids = [1, 1, 1, 2, 1, 1, 1, 1, 2, 2, 2, 1, 2]
    text = "".join(map(str, ids))
    wanted = {p: text.count(f"{p[0]}{p[1]}") for p in set(pairwise(ids))}
    assert definitions.count_pairs(ids) == wanted
    assert Counter(wanted).total() < len(ids) - 1
