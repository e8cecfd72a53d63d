"""The explorers of text, in Python: tokens merge by merge, neighbours by dimensions."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import data
from attnlib.explore import explore
from attnlib.explore.neighbours import nearest
from attnlib.explore.packed import LARGEST, pack, unpack
from attnlib.explore.readable import readable
from attnlib.explore.tokens import show_ratio, token_bytes, tokens_after
from attnlib.tokenizer import BytePairTokenizer

SENTENCE = "The theme of the thesis: these three, then those.\n\n  Naïve — €5!"


@pytest.fixture(scope="module")
def trained() -> BytePairTokenizer:
    return BytePairTokenizer.train(data.declaration("en") + SENTENCE, 256 + 150, progress=False)


# ---- tokens -------------------------------------------------------------------------------

TEXTS = st.text(max_size=60) | st.text(alphabet="thes e\n'1€", max_size=60)


@settings(deadline=None)
@given(text=TEXTS, n=st.integers(0, 150))
def test_the_tokens_are_those_of_the_tokenizer_with_so_many_merges(trained, text, n):
    tokens = tokens_after(text, trained.merges, n)
    assert tokens == trained.with_merges(n).encode(text)
    assert b"".join(token_bytes(t, trained.merges) for t in tokens) == text.encode()


def test_each_join_takes_one_token_away(trained):
    merges = trained.merges
    counts = [
        explore("tokens", text=SENTENCE, merges=merges, n_merges=n).facts() for n in range(151)
    ]
    assert counts[0]["tokens"] == list(SENTENCE.encode())
    for before, after in pairwise(counts):
        assert len(before["tokens"]) - len(after["tokens"]) == after["joins"] >= 0
    assert sum(found["joins"] for found in counts) > 20


def test_the_counts_are_those_of_a_hand_made_text():
    found = explore("tokens", text="naïve  €5\u2028x", merges=[(32, 32)], n_merges=1).facts()
    assert found["characters"] == 11
    assert found["bytes"] == 11 + 1 + 2 + 2  # ï, € and the separator of lines take more than one
    assert found["words"] == 3  # the separator is white space
    # GPT-2's pattern leaves the last blank to the next piece, so nothing is joined
    assert found["joins"] == 0
    assert len(found["tokens"]) == found["bytes"]


def test_the_picture_in_words_says_the_last_merge_and_how_often_it_joins():
    merges = [(116, 104), (256, 101), (32, 256)]
    assert explore("tokens", text="the then", merges=merges, n_merges=2).describe() == (
        "Merge 2 of 3: “th” + “e” → “the”, joins 2 places here. The text has 8 characters, 8 bytes "
        "and 2 words, and is 4 tokens: 2.00 bytes a token, 2.00 tokens a word. Tokens: “the” “␣” "
        "“the” “n”."
    )
    assert explore("tokens", text="", merges=merges).describe() == (
        "No merge yet: each byte is a token. There is no text."
    )
    assert (
        "joins 1 place here" in explore("tokens", text="th", merges=merges, n_merges=1).describe()
    )
    assert (
        "joins no place here" in explore("tokens", text="x", merges=merges, n_merges=3).describe()
    )
    long = explore("tokens", text="x" * 50, merges=merges).describe()
    assert long.endswith("“x” “x” … and 10 more.")


def test_a_quotient_of_counts_is_rounded_half_up():
    assert [show_ratio(a, b) for a, b in [(17, 8), (1, 8), (2, 3), (0, 5), (1000, 1)]] == [
        "2.13",  # 2.125
        "0.13",
        "0.67",
        "0.00",
        "1000.00",
    ]


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b" a\n\t\r\x00", "␣a⏎⇥␍⟨U+0000⟩"),
        ("€".encode()[:2], "⟨E2 82⟩"),
        ("€".encode()[2:] + b"x\xff", "⟨AC⟩x⟨FF⟩"),
        ("\u200b\ufeff\u00a0\u3000".encode(), "⟨U+200B⟩⟨U+FEFF⟩⟨U+00A0⟩⟨U+3000⟩"),
        ("\u0e33\u0e48".encode(), "ำ่"),  # a vowel that is a letter, and the mark on it
        ("\u0301e".encode(), "◌\u0301e"),
        (" \u0301\u0302".encode(), "␣◌\u0301\u0302"),
        (b"\xc0\x80\xed\xa0\x80", "⟨C0 80 ED A0 80⟩"),  # no characters, only their look
        (b"", ""),
    ],
)
def test_bytes_are_shown_so_that_nothing_is_invisible(data, shown):
    assert readable(data) == shown


# ---- neighbours ---------------------------------------------------------------------------


def test_packing_keeps_the_directions_and_a_common_factor_does_not_matter():
    table = np.random.default_rng(0).normal(size=(7, 5))
    whole = unpack(pack("vectors", table))
    assert np.abs(whole).max() == LARGEST
    # An entry is rounded by at most one half.
    assert np.abs(whole / LARGEST - table / np.abs(table).max()).max() <= 0.5 / LARGEST * (
        1 + 1e-12
    )
    assert pack("vectors", 3.7e-200 * table) == pack("vectors", table)
    assert pack("vectors", pack("vectors", table)) == pack("vectors", table)


@settings(deadline=None)
@given(rows=st.integers(2, 15), columns=st.integers(1, 6), seed=st.integers(0, 99), data=st.data())
def test_the_nearest_rows_are_those_of_largest_cosine(rows, columns, seed, data):
    # Small whole numbers: many ties, and vectors that are zero in their first columns.
    whole = np.random.default_rng(seed).integers(-2, 3, size=(rows, columns))
    row, width = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(1, columns))
    order, cosines = nearest(whole, row, width)

    def cosine(i):
        x, y = whole[i, :width].astype(float), whole[row, :width].astype(float)
        lengths = np.linalg.norm(x) * np.linalg.norm(y)
        return x @ y / lengths if lengths else 0.0

    assert len(order) == min(10, rows - 1) and row not in order
    assert cosines == pytest.approx([cosine(i) for i in order], rel=0, abs=1e-15)
    assert cosines == sorted(cosines, reverse=True)
    left_out = set(range(rows)) - {row} - set(order)
    assert all(cosine(i) <= cosines[-1] + 1e-15 for i in left_out)
    for (i, a), (j, b) in pairwise(zip(order, cosines, strict=True)):
        assert a > b or i < j, "equally near rows come in their order"


def test_at_full_width_all_neighbours_are_shared_and_the_curve_ends_there():
    explorer = explore("neighbours", word="ship")
    found = explorer.facts()
    assert explorer.width == 12 and found["isShared"] == [True] * 10
    assert found["sharedByWidth"][-1] == 10
    explorer.width = 3
    few = explorer.facts()
    assert sum(few["isShared"]) == few["sharedByWidth"][2] < 10
    assert found["neighbours"][:2] == ["ships", "shipping"]


def test_the_words_of_neighbours_name_them_with_their_cosines():
    explorer = explore(
        "neighbours", words=["a", "b", "c"], vectors=[[2, 0], [2, 2], [0, 1]], word="a", width=2
    )
    assert explorer.describe() == (
        "“a” in the first 2 of 2 dimensions. Nearest by cosine: b 0.707, c 0.000. Of these 2, 2 "
        "are among its 2 nearest in all 2 dimensions."
    )
    explorer.word = "b"
    assert "Nearest by cosine: a 0.707, c 0.707." in explorer.describe()


# ---- what is refused ----------------------------------------------------------------------

PAIR = {"words": ["a", "b"], "vectors": [[1.0], [2.0]]}
REFUSED = [
    ("tokens", {"text": 5}, TypeError, "text must be a text, got 5"),
    ("tokens", {"text": "x" * 2001}, ValueError, "text must have 0 to 2000 characters, got 2001"),
    (
        "tokens",
        {"text": "a\ud800"},
        ValueError,
        r"whole characters, got half of one, '\\ud800', at 1",
    ),
    ("tokens", {"merges": [(97, 256)]}, ValueError, "each id of merges must lie between 0 and 255"),
    ("tokens", {"merges": [(97, -1)]}, ValueError, "must lie between 0 and 255, got -1"),
    ("tokens", {"merges": [(97, 98.0)]}, TypeError, "each id of merges must be a whole number"),
    ("tokens", {"merges": [(1, 2, 3)]}, ValueError, r"a pair of ids, got \(1, 2, 3\) at 0"),
    (
        "tokens",
        {"merges": [(1, 2), (1, 2)]},
        ValueError,
        r"each pair once, got \(1, 2\) at 0 and at 1",
    ),
    ("tokens", {"merges": "ab"}, TypeError, "merges must be a list, got 'ab'"),
    (
        "tokens",
        {"merges": [(0, i % 256) for i in range(256)] * 40},
        ValueError,
        "0 to 8192 pairs, got",
    ),
    ("tokens", {"merges": [(1, 2)], "n_merges": 2}, ValueError, "number of merges, 1, got 2"),
    ("tokens", {"n_merges": -1}, ValueError, "n_merges must lie between 0 and 8192, got -1"),
    ("tokens", {"n_merges": 1.0}, TypeError, "n_merges must be a whole number, got 1.0"),
    ("neighbours", {"words": ["a"]}, ValueError, "words must be 2 to 800 words, got 1"),
    ("neighbours", {"words": ["a", "a"]}, ValueError, "each word once, got 'a' twice"),
    ("neighbours", {"words": ["a", ""]}, ValueError, "each of words must have 1 to 40 characters"),
    ("neighbours", {"words": ["a", 5]}, TypeError, "each of words must be a text, got 5"),
    ("neighbours", {"words": ["a", "b"]}, ValueError, "got 24 rows and 2 words"),
    ("neighbours", {**PAIR, "word": "c"}, ValueError, "one of the 2 words, got 'c'"),
    ("neighbours", {**PAIR, "width": 2}, ValueError, "number of columns, 1, got 2"),
    ("neighbours", {**PAIR, "width": 0}, ValueError, "width must lie between 1 and 100, got 0"),
    ("neighbours", {"vectors": [1.0, 2.0]}, TypeError, "a table of numbers, one row a word"),
    ("neighbours", {"vectors": "abc"}, TypeError, "a table of numbers, one row a word, got 'abc'"),
    ("neighbours", {"vectors": [[1.0], [np.nan]]}, ValueError, r"finite, got \[nan\] in row 1"),
    ("neighbours", {"vectors": [[1.0], [0.0]]}, ValueError, "must have a direction, .* in row 1"),
    ("neighbours", {"vectors": np.ones((801, 2))}, ValueError, "2 to 800 rows, got 801"),
    ("neighbours", {"vectors": np.ones((3, 101))}, ValueError, "1 to 100 columns, got 101"),
    ("neighbours", {"vectors": {"rows": 2, "columns": 1}}, ValueError, "as this explorer packs it"),
    (
        "neighbours",
        {"vectors": {"rows": 2, "columns": 1, "int16": "AAAA"}},
        ValueError,
        "as this explorer packs it",
    ),
]


@pytest.mark.parametrize(("name", "options", "kind", "words"), REFUSED)
def test_an_option_that_makes_no_picture_is_refused(name, options, kind, words):
    with pytest.raises(kind, match=words):
        explore(name, **options)


def test_a_later_change_is_refused_as_a_first_value_is():
    tokens = explore("tokens", text="aa", merges=[(97, 97)])
    with pytest.raises(ValueError, match="at most the number of merges, 1, got 2"):
        tokens.n_merges = 2
    with pytest.raises(ValueError, match="at most the number of merges, 1, got 2"):
        tokens.set_state({"n_merges": 2})  # as a front end does
    assert tokens.n_merges == 0
    neighbours = explore("neighbours", **PAIR)
    with pytest.raises(ValueError, match="word must be one of the 2 words, got 'queen'"):
        neighbours.word = "queen"
    with pytest.raises(ValueError, match="at most the number of columns, 1, got 2"):
        neighbours.width = 2
    assert (neighbours.word, neighbours.width) == ("a", 1)
    neighbours.set_state({"word": "b"})
    assert neighbours.word == "b"


def test_without_a_word_and_a_width_the_first_word_is_shown_at_full_width():
    explorer = explore("neighbours", words=["x", "y"], vectors=[[1, 2], [3, 4]])
    assert explorer.initial == {"word": "x", "width": 2}
