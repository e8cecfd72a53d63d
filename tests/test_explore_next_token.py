"""The explorer of the next token, in Python: its facts against NumPy, its words, its refusals."""

import itertools
import json
import math

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import entropy

from attnlib import load_pretrained
from attnlib.data import shakespeare
from attnlib.explore import explore
from attnlib.explore.packed_logits import pack_logits, unpack_logits

# Half, a quarter, and two eighths; the second row has equal ones, the third a forbidden one.
EIGHTHS = [
    [math.log(p) for p in (0.125, 0.5, 0.25, 0.125)],
    [0.0, 0.0, 0.0, 0.0],
    [0.0, -math.inf, 0.0, -1.0],
]
WORDS = [" to", "be", b"\xe2\x82", "\n"]
BY_HAND = {"logits": EIGHTHS, "words": WORDS, "text": [3, 1, 0]}
ALL = {"temperature": 1.0, "top_k": None, "top_p": None, "min_p": None}

N, V = 5, 37
MADE_UP = {
    "logits": 3 * np.random.default_rng(0).normal(size=(N, V)),
    "words": [f"w{id}" for id in range(V)],
    "text": [7, 0, 36, 20, 11],
}


def by_hand(position: int = 0, **options):
    return explore("next-token", **BY_HAND, position=position, **{**ALL, **options})


def test_the_words_of_a_distribution_that_a_person_can_draw():
    # The entropy after, 0.6365, is what shows that logits are rounded once.
    assert by_hand(top_p=0.7, min_p=0.4).describe() == (
        "Position 0 of 3, counted from 0; the text has “⏎” there. Temperature 1, top-k off, top-p "
        "0.7, min-p 0.4. Of 4 tokens top-k leaves 4, then top-p 2, then min-p 2. At this "
        "temperature these have 0.750 of the probability. Entropy 0.636 nats; the model's own "
        "1.213, at most 1.386. The likeliest tokens, the model's own probability → that of being "
        "drawn: “be” 0.500 → 0.667, “⟨E2⟩⟨82⟩” 0.250 → 0.333, “␣to” 0.125 → dropped, “⏎” 0.125 → "
        "dropped. The text's token “⏎” is number 4 of 4: 0.125 → dropped."
    )


def test_the_facts_of_a_distribution_that_a_person_can_draw():
    found = by_hand(temperature=0.5, top_k=3).facts()
    assert found["top"] == [1, 2, 0, 3]
    # The logits are rounded once, by at most 2⁻¹¹ of themselves, and those are at most ln 4.
    off = math.log(4) * 2**-11
    assert found["before"] == pytest.approx([1 / 2, 1 / 4, 1 / 8, 1 / 8], rel=2 * off)
    # Squares: 16, 4, 1 and 1 parts of 22, of which the last one is dropped.
    assert found["after"] == pytest.approx([16 / 21, 4 / 21, 1 / 21, 0], rel=4 * off)
    assert found["mass"] == pytest.approx(21 / 22, rel=4 * off)
    assert found["kept"] == [4, 3, 3, 3]
    assert (found["rank"], found["tokenAfter"]) == (4, 0)


def test_of_equal_tokens_the_lowest_ids_are_kept_and_min_p_keeps_them_all():
    assert by_hand(1).facts()["top"] == [0, 1, 2, 3]
    assert by_hand(1, top_k=2).facts()["after"] == [0.5, 0.5, 0, 0]
    assert by_hand(1, top_p=0.5).facts()["kept"] == [4, 4, 2, 2]
    assert by_hand(1, top_p=0.51).facts()["kept"] == [4, 4, 3, 3]
    assert by_hand(1, min_p=1.0).facts()["kept"] == [4, 4, 4, 4]


def test_a_forbidden_token_is_never_left():
    found = by_hand(2).facts()
    assert (found["top"], found["kept"]) == ([0, 2, 3, 1], [3, 3, 3, 3])
    assert found["before"][-1] == found["after"][-1] == 0
    assert by_hand(2, top_k=4).facts()["kept"] == [3, 3, 3, 3]


def sampled_by_numpy(z, temperature, top_k, top_p, min_p):
    """The definitions in a plain loop over the tokens, the likeliest first."""
    p = softmax(z / temperature)
    order = np.argsort(-z, kind="stable")
    kept = [V]
    order = order[: top_k or V]
    kept.append(len(order))
    shares = p[order] / p[order].sum()
    before_each = [0, *np.cumsum(shares)[:-1]]
    if top_p < 1:
        order = [id for id, before in zip(order, before_each, strict=True) if before < top_p]
    kept.append(len(order))
    order = [id for id in order if p[id] >= min_p * p.max()]
    kept.append(len(order))
    drawn = np.zeros(V)
    drawn[order] = p[order] / p[order].sum()
    return kept, drawn, p[order].sum()


def test_the_facts_are_those_of_numpy():
    choices = itertools.product((0.3, 1.0, 2.5), (0, 1, 9, 100), (0.3, 0.9, 1.0), (0.0, 0.1))
    for i, (temperature, top_k, top_p, min_p) in enumerate(choices):
        how = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
        explorer = explore("next-token", **MADE_UP, position=i % N, **how)
        found, z = explorer.facts(), unpack_logits(explorer.logits)[i % N]
        kept, drawn, mass = sampled_by_numpy(z, *how.values())
        order, own = np.argsort(-z, kind="stable"), softmax(z)
        token = MADE_UP["text"][i % N]
        assert found["kept"] == kept
        assert found["top"] == order[:12].tolist()
        assert found["rank"] == order.tolist().index(token) + 1
        # A few roundings of numbers of at most 1; an entropy has V terms, each of at most 1/e.
        for name, wanted in (
            ("before", own[order[:12]]),
            ("after", drawn[order[:12]]),
            ("mass", mass),
            ("tokenBefore", own[token]),
            ("tokenAfter", drawn[token]),
            ("entropyBefore", entropy(own)),
            ("entropy", entropy(drawn)),
            ("largestEntropy", np.log(V)),
        ):
            assert found[name] == pytest.approx(wanted, rel=0, abs=1e-13), name


def test_logits_are_kept_below_the_largest_of_their_row_to_one_rounding():
    logits = np.array([[900.0, 897.3, -np.inf, 888.8], [0.1, -1e6, 0.0, 0.05]])
    packed = pack_logits("logits", logits)
    assert (packed["rows"], packed["columns"]) == (2, 4)
    found, exact = unpack_logits(packed), logits - logits.max(axis=1, keepdims=True)
    assert (found.max(axis=1) == 0).all()
    assert np.isneginf(found).tolist() == np.isneginf(logits).tolist()
    near = np.isfinite(exact) & (exact > -1e4)
    assert (abs(found[near] - exact[near]) <= 2**-11 * abs(exact[near])).all()
    assert found[1, 1] == np.finfo(np.float16).min  # a token, though a far one
    assert pack_logits("logits", packed) == packed
    assert pack_logits("logits", torch.tensor(logits)) == packed


def test_what_was_checked_may_be_given_again():
    explorer = by_hand(2, min_p=0.1)
    state = json.loads(json.dumps(explorer.state))
    assert explore("next-token", **state).state == explorer.state
    assert explorer.state["words"] == (" to", "be", "⟨E2⟩⟨82⟩", "\n")


def test_tensors_are_taken_as_a_model_gives_them():
    options = {**MADE_UP, "text": torch.tensor(MADE_UP["text"])}
    options["logits"] = torch.tensor(MADE_UP["logits"]).requires_grad_()
    assert explore("next-token", **options).state == explore("next-token", **MADE_UP).state


def test_none_drops_nothing_as_in_a_sampler():
    assert {name: by_hand().state[name] for name in ("top_k", "top_p", "min_p")} == {
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
    }


def test_it_starts_within_the_text():
    assert explore("next-token", **BY_HAND).position == 2
    assert explore("next-token", **BY_HAND).before == ""


def test_a_position_beyond_the_text_is_taken_back():
    explorer = by_hand()
    with pytest.raises(ValueError, match="less than the number of tokens of text, 3, got 3"):
        explorer.position = 3
    assert explorer.position == 0


def test_the_books_model_is_asked_for_every_token_of_the_line_after_what_stands_before_it():
    explorer, bard = explore("next-token"), load_pretrained("shakespeare")
    before, text = bard.encode(explorer.before), list(explorer.text)
    assert bard.decode(text).startswith("To-morrow, and to-morrow, and to-morrow,\nC")
    assert explorer.before + bard.decode(text) in shakespeare("held-out")
    with torch.no_grad():
        logits = bard.model(torch.tensor([before + text]))[0, len(before) - 1 : -1].double()
    wanted = (logits - logits.amax(1, keepdim=True)).numpy()
    # Rounded once to half precision, after some roundings of single precision on the way.
    assert unpack_logits(explorer.logits) == pytest.approx(wanted, rel=2**-11, abs=1e-4)
    assert explorer.words[text[1]] == "-"
    facts = explore("next-token", position=3).facts()  # "orrow" after "To-m"
    assert facts["rank"] == 1 and facts["tokenBefore"] > 0.9


REFUSED = [
    ({"logits": EIGHTHS[0]}, TypeError, r"axes \(position, v\), got the shape \(4,\)"),
    ({"logits": "abc"}, TypeError, r"axes \(position, v\), got 'abc'"),
    ({"logits": np.zeros((25, 4))}, ValueError, "logits must have 1 to 24 positions, got 25"),
    ({"logits": np.zeros((3, 1))}, ValueError, "logits must have 2 to 65536 tokens, got 1"),
    (
        {"logits": np.zeros((17, 65_536), np.float16)},
        ValueError,
        "at most 1048576 numbers, got 17 positions of v=65536",
    ),
    (
        {"logits": [*EIGHTHS[:2], [0, 0, math.nan, 0]]},
        ValueError,
        "a finite one and neither NaN nor \\+inf, got NaN in row 2",
    ),
    ({"logits": [[math.inf] + 3 * [0.0]] * 3}, ValueError, r"got \+inf in row 0"),
    ({"logits": [[-math.inf] * 4] * 3}, ValueError, "got nothing but -inf in row 0"),
    ({"logits": {"rows": 3}}, ValueError, "a row of logits for each position, or rows packed"),
    (
        {"logits": {"rows": 1, "columns": 2, "float16": "AAAA"}},
        ValueError,
        "a row of logits for each position, or rows packed",
    ),
    (
        {"logits": {"rows": 1, "columns": 2, "float16": "ADwAPA=="}},  # 1 and 1
        ValueError,
        "a row of logits for each position, or rows packed",
    ),
    ({"words": WORDS[:3]}, ValueError, "got 3 words and logits of v=4"),
    ({"words": "abcd"}, TypeError, "words must be a list of texts or bytes, got str"),
    ({"words": [*WORDS[:3], 5]}, TypeError, "each of words must be a text, got 5"),
    ({"words": [*WORDS[:3], "a" * 257]}, ValueError, "each of words .* 0 to 256 .*, got 257"),
    ({"words": ["a"]}, ValueError, "words must be 2 to 65536 tokens, got 1"),
    ({"text": [3, 1]}, ValueError, "got 3 rows and 2 tokens"),
    ({"text": [3, 1, 4]}, ValueError, "each of text must be less than v=4, got 4"),
    ({"text": [3, 1, -1]}, ValueError, "each of text must lie between 0 and 65535, got -1"),
    ({"text": [3, 1, 2.0]}, TypeError, "each of text must be a whole number, got 2.0"),
    ({"text": "to"}, TypeError, "text must be a list of token ids, got 'to'"),
    ({"text": []}, ValueError, "text must be 1 to 24 token ids, got 0"),
    ({"before": 5}, TypeError, "before must be a text, got 5"),
    ({"position": 3}, ValueError, "less than the number of tokens of text, 3, got 3"),
    ({"position": 24}, ValueError, "position must lie between 0 and 23, got 24"),
    ({"temperature": 0.0}, ValueError, "temperature must lie between 0.1 and 5, got 0.0"),
    ({"top_k": 1.5}, TypeError, "top_k must be a whole number, got 1.5"),
    ({"top_k": 65_537}, ValueError, "top_k must lie between 0 and 65536, got 65537"),
    ({"top_p": 0.0}, ValueError, "top_p must lie between 0.01 and 1, got 0.0"),
    ({"top_p": "1"}, TypeError, "top_p must be a number, got '1'"),
    ({"min_p": 1.1}, ValueError, "min_p must lie between 0 and 1, got 1.1"),
]


@pytest.mark.parametrize(("options", "kind", "words"), REFUSED)
def test_an_option_that_makes_no_picture_is_refused(options, kind, words):
    with pytest.raises(kind, match=words):
        explore("next-token", **{**BY_HAND, **options})


@pytest.mark.parametrize("name", ["logits", "words", "text", "before"])
def test_data_in_part_is_refused_before_any_model_is_loaded(name):
    value = {**BY_HAND, "before": "O"}[name]
    with pytest.raises(TypeError, match=f"belong together, got {name} without"):
        explore("next-token", **{name: value})
