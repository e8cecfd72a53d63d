"""The explorer of alignments: JavaScript has Python's numbers and words; Node runs the module."""

import itertools
import json
from collections.abc import Iterator

import numpy as np
import pytest

from attnlib.explore import explore
from attnlib.explore.alignment import alignment_facts, check_alignments, describe_alignment
from attnlib.explore.bundle import FOLDER
from attnlib.explore.packed_maps import pack_maps, unpack_roots

MODULE = FOLDER / "alignment.mjs"


def made_up(number: int, n_targets: int, n_sources: int, seed: int, spread: float = 2.0) -> dict:
    scores = spread * np.random.default_rng(seed).normal(size=(2, 3, n_targets, n_sources))
    exponentials = np.exp(scores)
    return {
        "number": number,
        "source": [f"w{s}" for s in range(n_sources)],
        "target": [*(f"##p{t}" for t in range(n_targets - 1)), "[END]"],
        "weights": exponentials / exponentials.sum(axis=-1, keepdims=True),
    }


ALIGNMENTS = json.loads(
    json.dumps(
        check_alignments(
            "alignments",
            [
                made_up(0, 1, 1, seed=0),
                made_up(21, 4, 2, seed=1),
                made_up(1_234, 7, 8, seed=2, spread=0.0),
                made_up(345_678, 12, 11, seed=3),
                made_up(999_999, 24, 24, seed=4, spread=30.0),
            ],
        )
    )
)
FIRST = {"number": 21, "layer": 1, "head": 1, "target": 2, "source": 1}


def states() -> Iterator[dict]:
    for entry in ALIGNMENTS:
        t, s = len(entry["target"]), len(entry["source"])
        for layer, head in itertools.product(range(2), range(4)):
            for target, source in {(0, s - 1), (t // 2, 0), (t - 1, s // 2)}:
                place = {"layer": layer, "head": head, "target": target, "source": source}
                yield {"alignments": ALIGNMENTS, "number": entry["number"], **place}


def test_the_facts_are_pythons(javascript):
    found = javascript(MODULE, [("facts", [state]) for state in states()])
    for state, facts in zip(states(), found, strict=True):
        wanted = alignment_facts(state)
        # Logarithms may differ in their last digit: 24 terms of at most 1/e a row.
        for name in ("entropy", "largestEntropy"):
            assert facts.pop(name) == pytest.approx(wanted.pop(name), rel=0, abs=1e-13)
        # The same whole numbers, added in the same order.
        assert facts == wanted


def test_the_picture_in_words_is_pythons(javascript):
    found = javascript(MODULE, [("describe", [state]) for state in states()])
    assert found == [describe_alignment(state) for state in states()]
    assert any("345,678" in text and "mean over the heads" in text for text in found)


def test_maps_that_are_not_square_are_unpacked_as_in_python_and_malformed_ones_are_none(
    javascript,
):
    good = ALIGNMENTS[3]["weights"]
    bad = [
        {**good, "targets": 11},
        {**good, "targets": 0},
        {**good, "sources": "11"},
        {**good, "sources": 25},
        {**good, "tokens": 1},
        {key: good[key] for key in good if key != "sources"},
    ]
    calls = [("unpackedMaps", [packed]) for packed in [good, *bad]]
    maps, *refused = javascript(FOLDER / "packed-maps.mjs", calls)
    assert list(maps["roots"].values()) == unpack_roots(good).reshape(-1).tolist()
    assert (maps["targets"], maps["sources"]) == (12, 11) and "tokens" not in maps
    assert refused == [None] * len(bad)


def test_a_link_brings_the_state_back_and_what_cannot_be_chosen_is_left_out(linked):
    initial = {"alignments": ALIGNMENTS, **FIRST}
    changed = {"number": 345_678, "layer": 0, "head": 3, "target": 10, "source": 4}
    text = "n=345678;layer=0;head=3;t=10;s=4"
    wrong = ["n=1e6", "n=-1", "n=2.5", "layer=48", "head=65", "t=24", "s=x", "alignments=[]"]
    malformed = ["", "t", "t=", "n=NaN", "initial=1", "__proto__=1", "=;;="]
    calls = [
        ("write", [{**initial, **changed}, initial]),
        ("read", [text, initial]),
        *(("read", [bad, initial]) for bad in [*wrong, *malformed]),
    ]
    written, read, *refused = linked("alignment", calls)
    assert written == text
    assert read == changed
    assert refused == [{}] * len(refused)
    explorer = explore("alignment", alignments=ALIGNMENTS, **read)  # Python takes it, too
    assert explorer.state.items() >= read.items()


def test_a_saved_value_that_cannot_be_chosen_falls_back_to_the_first_state(linked):
    state = {"alignments": ALIGNMENTS, **FIRST}
    entry = ALIGNMENTS[1]
    odd = [None, "8", [8], -180, 0.5, {}, 10**9]
    broken = [
        {**entry, "source": ["w0"]},
        {**entry, "target": "four"},
        {**entry, "number": None},
        {**entry, "weights": pack_maps("weights", np.full((2, 3, 4, 3), 1 / 3), square=False)},
        {**entry, "weights": {}},
        None,
    ]
    saved = [
        *({**state, key: value} for key, value in itertools.product(state, odd)),
        *({**state, "alignments": [ALIGNMENTS[0], each]} for each in broken),
    ]
    calls = [("restore", [{**each, "initial": state}]) for each in saved]
    assert linked("alignment", calls) == [state] * len(calls)


def test_a_link_beyond_what_there_is_leads_to_the_last_of_it(javascript):
    asked = {"alignments": ALIGNMENTS, "layer": 47, "head": 64, "target": 23, "source": 23}
    last = {"alignments": ALIGNMENTS, "layer": 1, "head": 3}
    for number, wanted, target, source in [(21, 21, 3, 1), (20, 0, 0, 0), (1_233, 21, 3, 1)]:
        found = javascript(MODULE, [("describe", [{**asked, "number": number}])])
        place = {"number": wanted, "target": target, "source": source}
        assert found == [describe_alignment({**last, **place})]
