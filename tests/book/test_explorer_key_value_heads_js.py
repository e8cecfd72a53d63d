"""The explorer of key/value heads computes in JavaScript what Python computes; Node runs it."""

from attnlib.explore import limits
from attnlib.explore.bundle import FOLDER
from attnlib.explore.key_value_heads import FORMS, fitting_kv_heads, show_ratio
from attnlib.explore.key_value_presets import OWN, sizes_of
from attnlib.explore.widgets import EXPLORERS

NAME = "key-value-heads"
MODULE = FOLDER / f"{NAME}.mjs"
WIDTHS = limits.KEY_VALUE_WIDTH


def states():
    """Every model, then sizes of one's own from one end of every slider to the other."""
    for i, model in enumerate(limits.KEY_VALUE_MODELS):
        sizes = {} if model == OWN else sizes_of(model)
        explorer = EXPLORERS[NAME](
            **{"model": model, **sizes},
            n_tokens=16 * 2 ** (i % 14),
            n_rows=2 ** (i % 9),
            bytes_per_number=limits.COST_BYTES[i % 3],
        )
        yield {**explorer.state, "query_head": 3 * explorer.n_query_heads // 4}
    ends = [(1, 1, 16, 1), (128, 128, 512, 128), (128, 1, 16, 3), (12, 4, 32, 7), (126, 42, 64, 61)]
    for i, (h, g, d, layers) in enumerate(ends):
        sizes = {"n_query_heads": h, "n_kv_heads": g, "head_dim": d, "n_layers": layers}
        for width in (WIDTHS[0], WIDTHS[3 * i], WIDTHS[-1]):
            explorer = EXPLORERS[NAME](
                **sizes,
                model=OWN,
                width=width,
                query_head=h // 2,
                n_tokens=131_072 if i % 2 else 16,
                n_rows=256 if i % 2 else 1,
                bytes_per_number=4 if i % 2 else 1,
            )
            yield explorer.state


STATES = list(states())


def test_facts_are_pythons_to_the_last_digit(javascript):
    """All counts stay below 2⁵³, and an intensity is one division of two of them."""
    found = javascript(MODULE, [("facts", [state]) for state in STATES])
    for state, facts in zip(STATES, found, strict=True):
        assert facts == EXPLORERS[NAME](**state).facts(), state


def test_the_picture_in_words_is_pythons(javascript):
    found = javascript(MODULE, [("describe", [state]) for state in STATES])
    for state, text in zip(STATES, found, strict=True):
        assert text == EXPLORERS[NAME](**state).describe()


def test_key_value_heads_fit_as_in_python(javascript):
    asked = [(h, most) for h in range(1, 129) for most in (1, 2, 8, 30, 128)]
    found = javascript(MODULE, [("fittingKvHeads", list(each)) for each in asked])
    assert found == [fitting_kv_heads(*each) for each in asked]


def test_ratios_are_said_as_in_python(javascript):
    asked = [(8, 8), (34, 10), (1, 8), (2, 250), (576, 32_768), (1.125, 1), (1, 1.125), (200, 1)]
    found = javascript(MODULE, [("showRatio", list(each)) for each in asked])
    assert found == [show_ratio(*each) for each in asked]


def test_a_link_that_asks_for_what_cannot_be_gets_the_nearest_that_can(javascript):
    first = EXPLORERS[NAME]().state
    asked = {**first, "n_query_heads": 12, "n_kv_heads": 8, "query_head": 40}
    [found] = javascript(MODULE, [("facts", [asked])])
    wanted = {"n_query_heads": 12, "n_kv_heads": 6, "query_head": 11, "model": OWN}
    assert found == EXPLORERS[NAME](**{**first, **wanted}).facts()
    assert found["form"] in FORMS and found["windowLayers"] == 0
    # of a model with windows, with other sizes than its own, there is no model
    gemma = {**first, "model": "gemma-3-27b"}
    [found] = javascript(MODULE, [("facts", [gemma])])
    assert found == EXPLORERS[NAME](**{**first, "model": OWN}).facts()


def test_a_link_brings_a_state_back_and_a_broken_one_nothing(linked):
    initial = EXPLORERS[NAME]().initial
    written = linked(NAME, [("write", [state, initial]) for state in STATES])
    read = linked(NAME, [("read", [text, initial]) for text in written])
    assert read == [
        {key: value for key, value in state.items() if value != initial[key]} for state in STATES
    ]
    broken = "model=bert-base;h=0;g=129;d=96;m=1000;L=1.5;i=128;N=8191;B=0;bytes=3;n_kv_heads=2;h="
    assert linked(NAME, [("read", [broken, initial])]) == [{}]


def test_a_broken_saved_state_falls_back_to_the_first(linked):
    state = EXPLORERS[NAME]().state
    calls = [
        ("restore", [{**state, key: value, "initial": state}])
        for key in ("n_query_heads", "head_dim", "width", "query_head", "model")
        for value in (None, "x", -1, 1e9, [8])
    ]
    assert linked(NAME, calls) == [state] * len(calls)
