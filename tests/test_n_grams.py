"""N-gram models: claims of chapter language-models.

The definition below works in fractions, so that only `n_grams` rounds. No library that is pinned
here smooths in this way; on the plays a compressor that reads as little context stands in for one.
"""

import math
import zlib
from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlib.data import shakespeare
from attnlib.n_grams import MOST_ORDER, NGramModel

HALVES = (0.5, 1.0, 1.5)
ULP = 2.0**-53  # the largest relative error of one rounding

ABRACADABRA = b"abracadabra, a cab; a bad bar. Abba had a radar: arcadia! drab aardbark"
EDGES = b"\x00\x00\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00a"
LETTERS = st.binary(max_size=9).map(lambda text: bytes(byte % 3 for byte in text))


# --- the definition ---------------------------------------------------------------------------


def counts_of(text: bytes, k: int, is_highest: bool) -> Counter:
    """How often each run of k + 1 bytes stands in a text, or after how many different things."""
    places = [(text[i : i + k + 1], text[i - 1 : i]) for i in range(len(text) - k)]
    return Counter(run for run, _ in (places if is_highest else set(places)))


def discounts_of(counts: Counter) -> list[Fraction]:
    n = Counter(counts.values())
    if all(n[j] for j in (1, 2, 3, 4)):
        y = Fraction(n[1], n[1] + 2 * n[2])
        found = [
            1 - 2 * y * Fraction(n[2], n[1]),
            2 - 3 * y * Fraction(n[3], n[2]),
            3 - 4 * y * Fraction(n[4], n[3]),
        ]
        if all(d > 0 for d in found):
            return found
    return [Fraction(1, 2), Fraction(1), Fraction(3, 2)]


class Definition:
    """The formulas of Chen and Goodman, read aloud."""

    def __init__(self, text: bytes, order: int):
        self.order = order
        self.counts = [counts_of(text, k, k == order) for k in range(order + 1)]
        self.discounts = [discounts_of(counts) for counts in self.counts]
        self.probability = cache(self.probability)

    def probability(self, byte: int, context: bytes) -> Fraction:
        x = context[len(context) - min(self.order, len(context)) :]
        return self.of_order(len(x), byte, x)

    def of_order(self, k: int, byte: int, x: bytes) -> Fraction:
        if k < 0:
            return Fraction(1, 256)
        lower = self.of_order(k - 1, byte, x[1:])
        counts, (d1, d2, d3) = self.counts[k], self.discounts[k]
        followed = [counts[x + bytes([u])] for u in range(256) if counts[x + bytes([u])]]
        if not followed:
            return lower
        c, total = counts[x + bytes([byte])], sum(followed)
        discount = {0: 0, 1: d1, 2: d2}.get(c, d3)
        n1, n2 = followed.count(1), followed.count(2)
        left = (d1 * n1 + d2 * n2 + d3 * (len(followed) - n1 - n2)) / total
        return (c - discount) / total + left * lower


def error_of(order: int) -> float:
    """Each order rounds a share twice, and what is left over by at most 256 terms and thrice."""
    return (order + 1) * 261 * ULP


@pytest.mark.parametrize("text,order", [(ABRACADABRA, 0), (ABRACADABRA, 2), (EDGES, 7)])
def test_probabilities_are_those_of_the_definition(text, order):
    model, definition = NGramModel.train(text, order), Definition(text, order)
    for context in (b"", b"\x00", b"b", b"zb", b"ra", b"dabra", text[:8], b"\xff" * 9, b"\x00" * 9):
        p = model.probabilities(context)
        for byte in {*text[:40:3], *text[-2:], ord("z")}:
            wanted = float(definition.probability(byte, context))
            assert p[byte] == pytest.approx(wanted, rel=error_of(order), abs=0), (context, byte)


@given(text=LETTERS.filter(lambda text: len(text) > 2), read=LETTERS)
def test_a_text_is_as_probable_as_the_definition_says(text, read):
    model, definition = NGramModel.train(text, 2), Definition(text, 2)
    wanted = [definition.probability(read[i], read[:i]) for i in range(len(read))]
    # A relative error of a probability is the same absolute one of its logarithm, which is rounded.
    np.testing.assert_allclose(
        model.log_probabilities(read),
        [math.log(p) for p in wanted],
        rtol=4 * ULP,
        atol=error_of(2),
    )


def test_discounts_and_counts_are_those_of_the_definition():
    for text in (ABRACADABRA, EDGES, shakespeare("held-out")[:3000].encode()):
        model, definition = NGramModel.train(text, 3), Definition(text, 3)
        assert model.n_counted == tuple(map(len, definition.counts))
        assert np.array_equal(model.discounts, np.array(definition.discounts, float))
    # The last of the texts is long enough for the formula, at more than one order.
    assert sum(d != HALVES for d in model.discounts) >= 2


# --- cases by hand ----------------------------------------------------------------------------


def test_order_0_is_how_often_each_byte_stands_less_its_discount():
    # Once: a b c d; twice: e f; three times: g; four times: h. So n1 … n4 = 4, 2, 1, 1 and Y = 1/2.
    model = NGramModel.train(b"abcdeeffggghhhh", 0)
    assert model.discounts == ((0.5, 1.25, 1.0),)
    p, left = model.probabilities(b""), (4 * 0.5 + 2 * 1.25 + 2 * 1.0) / 15 / 256
    wanted = [0.5, 0.5, 0.5, 0.5, 0.75, 0.75, 2.0, 3.0, 0.0]
    np.testing.assert_allclose(p[97:106], np.array(wanted) / 15 + left, rtol=error_of(0), atol=0)


def test_a_discount_that_would_be_0_is_not_taken():
    # n1 … n4 = 4, 4, 8, 1: Y = 1/3 and D(2) = 2 - 3 · 1/3 · 8/4 = 0.
    text = b"".join(
        bytes(range(start, start + n)) * j
        for j, start, n in [(1, 0, 4), (2, 10, 4), (3, 20, 8), (4, 30, 1)]
    )
    assert NGramModel.train(text, 0).discounts == (HALVES,)


def test_a_text_of_one_byte_repeated_leaves_little_to_the_others():
    p = NGramModel.train(b"a" * 10, 1).probabilities(b"a")
    # "aa" stands nine times; "a" comes after "a" and at the beginning.
    lower = (2 - 1) / 2 + 1 / 2 / 256
    assert p[97] == pytest.approx((9 - 1.5) / 9 + 1.5 / 9 * lower, rel=error_of(1))
    assert p[98] == pytest.approx(1.5 / 9 * (1 / 2 / 256), rel=error_of(1))


def test_a_lower_order_asks_after_how_many_different_bytes_one_came_not_how_often():
    # "f" stands often, but always after "s", as Francisco after San; "o" after five letters.
    text = b"sfsfsfsfsfsfsfsf ao bo co do eo"
    unseen = NGramModel.train(text, 1).probabilities(b"z")
    assert unseen[ord("o")] > unseen[ord("f")]
    often = NGramModel.train(text, 0).probabilities(b"z")
    assert often[ord("f")] > often[ord("o")]


# --- identities and limits --------------------------------------------------------------------


@given(
    text=LETTERS.filter(bool),
    order=st.integers(0, MOST_ORDER),
    context=st.one_of(LETTERS, st.binary(max_size=9)),
)
def test_every_distribution_sums_to_one_and_leaves_nothing_out(text, order, context):
    p = NGramModel.train(text * (order + 1), order).probabilities(context)
    assert p.shape == (256,) and p.min() > 0
    # Every entry is within its relative error of a number, and those numbers sum to one.
    assert abs(math.fsum(p) - 1) <= error_of(order)


@given(read=st.binary(min_size=1, max_size=9), order=st.integers(0, 3))
def test_each_byte_of_a_text_is_predicted_from_those_before_it(read, order):
    model = NGramModel.train(ABRACADABRA + read, order)
    wanted = [np.log(model.probabilities(read[:i])[read[i]]) for i in range(len(read))]
    # NumPy's logarithm of many numbers may differ in its last place from that of one.
    np.testing.assert_allclose(model.log_probabilities(read), wanted, rtol=4 * ULP, atol=0)


def test_a_context_that_never_stood_in_the_text_is_read_from_its_second_byte_on():
    model = NGramModel.train(ABRACADABRA, 3)
    for context in (b"ra", b"b", b""):
        wanted = model.probabilities(context)
        assert np.array_equal(model.probabilities(b"\x00" + context), wanted)
        assert np.array_equal(model.probabilities(b"zz\xff" + context), wanted)


def test_only_the_last_bytes_of_a_context_are_read():
    model = NGramModel.train(ABRACADABRA, 3)
    assert np.array_equal(model.probabilities(b"xyzabr"), model.probabilities(b"abr"))
    assert not np.array_equal(model.probabilities(b"abrxyz"), model.probabilities(b"abr"))


def test_bits_are_the_mean_surprise_in_base_2():
    model = NGramModel.train(ABRACADABRA, 2)
    surprises = [-math.log2(p) for p in np.exp(model.log_probabilities(b"cadabra"))]
    assert model.bits_per_byte(b"cadabra") == pytest.approx(sum(surprises) / 7, rel=1e-14)
    assert len(model.log_probabilities(b"")) == 0


def test_a_string_stands_for_its_utf_8_bytes():
    text = "Käse, süß: 100 €"
    model = NGramModel.train(text, 2)
    assert model.discounts == NGramModel.train(text.encode(), 2).discounts
    assert model.bits_per_byte(text) == model.bits_per_byte(text.encode())
    assert len(model.log_probabilities(text)) == len(text.encode())
    assert np.array_equal(model.probabilities("sü"), model.probabilities("sü".encode()))


def test_more_text_brings_order_0_to_the_frequencies():
    p = NGramModel.train(b"aab" * 10_000, 0).probabilities(b"")
    # Two bytes stood in the text: their discounts, 3/2 each, are all that is moved.
    assert abs(p[97] - 2 / 3) < 3 / 30_000
    assert p[99] == pytest.approx(3 / 30_000 / 256, rel=error_of(0))


# --- the plays --------------------------------------------------------------------------------


def test_on_plays_it_never_saw_more_context_helps_up_to_five_bytes():
    train, held_out = shakespeare("train"), shakespeare("held-out")
    bits = [NGramModel.train(train, order).bits_per_byte(held_out) for order in (0, 2, 5)]
    assert bits == sorted(bits, reverse=True)
    # Zlib copies runs from the 32 kB before, which stand for far less than order 5 has counted.
    copied = 8 * len(zlib.compress(held_out.encode(), 9)) / len(held_out.encode())
    assert bits[2] < copied - 0.5
    assert bits[2] > 1.3  # what Shannon's readers needed at most, with all they knew


def test_a_model_is_surprised_least_by_what_it_was_trained_on():
    first, second = shakespeare("train")[:20_000], shakespeare("held-out")[:20_000]
    for order in (1, 3):
        model, other = NGramModel.train(first, order), NGramModel.train(second, order)
        assert model.bits_per_byte(first) < other.bits_per_byte(first)
        assert other.bits_per_byte(second) < model.bits_per_byte(second)
