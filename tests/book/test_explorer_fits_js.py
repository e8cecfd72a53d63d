"""The what-fits explorer computes in JavaScript what Python computes; Node runs its modules."""

from itertools import combinations_with_replacement

from attnlib.explore import limits, words
from attnlib.explore.bundle import FOLDER
from attnlib.explore.widgets import EXPLORERS

MODELS = limits.FITTING_MODELS


def states():
    """Every two models, with the other options in turn."""
    for i, (model, other) in enumerate(combinations_with_replacement(MODELS, 2)):
        yield {
            "model": model,
            "other": other,
            "n_tokens": 2 ** (i % 18),
            "n_rows": 2 ** (i % 9),
            "bytes_per_weight": limits.WEIGHT_BYTES[i % 4],
            "bytes_per_number": limits.CACHE_BYTES[i % 5],
            "card_gib": limits.CARD_GIB[i % 8],
        }


STATES = list(states())


def test_facts_are_pythons(javascript):
    found = javascript(FOLDER / "what-fits.mjs", [("facts", [state]) for state in STATES])
    for state, facts in zip(STATES, found, strict=True):
        assert facts == EXPLORERS["what-fits"](**state).facts(), state  # all are whole


def test_the_picture_in_words_is_pythons(javascript):
    found = javascript(FOLDER / "what-fits.mjs", [("describe", [state]) for state in STATES])
    for state, text in zip(STATES, found, strict=True):
        assert text == EXPLORERS["what-fits"](**state).describe()


def test_numbers_of_bytes_and_of_tokens_are_pythons(javascript):
    sizes = [0, 1, 1023, 1024, 1152, 69_120, 1023.4 * 1024, 1023.6 * 1024, 2**40, 2.0**70]
    found = javascript(FOLDER / "controls.mjs", [("showBinary", [x]) for x in sizes])
    assert found == [words.show_binary(x) for x in sizes]
    found = javascript(FOLDER / "controls.mjs", [("showTokens", [n]) for n in (0, 1, 8192)])
    assert found == [words.show_tokens(n) for n in (0, 1, 8192)]


def test_a_link_brings_a_state_back_and_a_broken_one_nothing(linked):
    initial = EXPLORERS["what-fits"]().initial
    state = STATES[5]
    [text] = linked("what-fits", [("write", [state, initial])])
    assert linked("what-fits", [("read", [text, initial])]) == [
        {key: value for key, value in state.items() if value != initial[key]}
    ]
    broken = "N=3;B=512;weights=0.75;cache=3;card=81;model=bert-base;other="
    assert linked("what-fits", [("read", [broken, initial])]) == [{}]
