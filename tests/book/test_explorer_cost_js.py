"""The cost explorer computes in JavaScript what Python computes; Node runs the shipped modules."""

import itertools

import pytest

from attnlib.explore import limits, words
from attnlib.explore.bundle import FOLDER
from attnlib.explore.widgets import EXPLORERS


def states():
    some = itertools.product(limits.COST_MODELS, limits.COST_PHASES, (16, 1024, 131_072), (1, 32))
    for i, (model, phase, n_tokens, n_rows) in enumerate(some):
        yield {
            "model": model,
            "phase": phase,
            "n_tokens": n_tokens,
            "n_rows": n_rows,
            "bytes_per_number": limits.COST_BYTES[i % 3],
            "device": limits.COST_DEVICES[i % 4],
        }


STATES = list(states())


def assert_same(found: object, wanted: object, at: object) -> None:
    """Whole numbers below 2⁵³ agree exactly, all others within a few roundings."""
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            assert_same(found[key], wanted[key], (at, key))
    elif isinstance(wanted, int) and wanted < 2**53:
        assert found == wanted, at
    else:
        # the share of experts that are not met is a power of at most 32 · 131,072 factors
        assert found == pytest.approx(wanted, rel=1e-14), at


def test_facts_are_pythons(javascript):
    found = javascript(FOLDER / "cost.mjs", [("facts", [state]) for state in STATES])
    for state, facts in zip(STATES, found, strict=True):
        assert_same(facts, EXPLORERS["cost"](**state).facts(), state)


def test_the_picture_in_words_is_pythons(javascript):
    found = javascript(FOLDER / "cost.mjs", [("describe", [state]) for state in STATES])
    for state, text in zip(STATES, found, strict=True):
        assert text == EXPLORERS["cost"](**state).describe()


def test_numbers_with_a_metric_prefix_are_pythons(javascript):
    numbers = [0, 1, 999, 999.6, 1.125, 139_003_428_864, 0.0696, 1.25e-9, 2.0**70, 0.9995e-6]
    calls = [("showMetric", [x, "B"]) for x in numbers]
    found = javascript(FOLDER / "controls.mjs", calls)
    assert found == [words.show_metric(x, "B") for x in numbers]


def test_a_link_brings_a_state_back_and_a_broken_one_nothing(linked):
    initial = EXPLORERS["cost"]().initial
    state = STATES[-1]
    [text] = linked("cost", [("write", [state, initial])])
    assert linked("cost", [("read", [text, initial])]) == [
        {key: value for key, value in state.items() if value != initial[key]}
    ]
    broken = "model=gpt-2;N=8191;B=0;bytes=3;phase=;device=tpu"
    assert linked("cost", [("read", [broken, initial])]) == [{}]
