"""The explorers of positions compute in JavaScript what Python computes; Node runs the modules."""

import itertools
import json
import math

import numpy as np
import pytest
import torch

import attnlib
from attnlib.explore import words
from attnlib.explore.bundle import FOLDER
from attnlib.explore.limits import LIMITS
from attnlib.explore.widgets import EXPLORERS

# Angles of at most 254 radians are rounded to 3e-14; sums of 128 terms, divided by 64, to less.
AS_IN_PYTHON = 1e-12
WIDTHS_AND_BASES = [(4, 100), (10, 1_000_000), (64, 10_000), (128, 1_000)]


def assert_same(found: dict, wanted: dict, state: dict) -> None:
    """Whole numbers agree exactly, the others relative to 1 or to their size."""
    assert found.keys() == wanted.keys()
    for name in wanted:
        if isinstance(wanted[name], int):
            assert found[name] == wanted[name], (name, state)
        else:
            a, b = np.array(found[name], dtype=float), np.array(wanted[name], dtype=float)
            assert a.shape == b.shape
            assert np.all(abs(a - b) <= AS_IN_PYTHON * np.maximum(1, abs(b))), (name, state)


def sinusoidal_states():
    for width, base in WIDTHS_AND_BASES:
        for position, dimension in [(0, 0), (1, 1), (90, width // 2), (127, width - 1)]:
            yield {"width": width, "base": base, "position": position, "dimension": dimension}


def rotary_states():
    positions = [(0, 0), (12, 30), (64, 0), (0, 64), (63, 64)]
    for (m, n), pair, angle in itertools.product(positions, [0, 8, 31], [-179, -37, 0, 90, 180]):
        state = {"query_position": m, "key_position": n, "pair": pair, "angle": angle}
        yield {**state, "all_pairs": (m + pair) % 2 == 1}


STATES = {"sinusoidal": list(sinusoidal_states()), "rotary": list(rotary_states())}


@pytest.mark.parametrize("name", STATES)
def test_facts_are_pythons(name, javascript):
    found = javascript(FOLDER / f"{name}.mjs", [("facts", [state]) for state in STATES[name]])
    for state, facts in zip(STATES[name], found, strict=True):
        assert_same(facts, EXPLORERS[name](**state).facts(), state)


@pytest.mark.parametrize("name", STATES)
def test_the_picture_in_words_is_pythons(name, javascript):
    found = javascript(FOLDER / f"{name}.mjs", [("describe", [state]) for state in STATES[name]])
    for state, text in zip(STATES[name], found, strict=True):
        assert text == EXPLORERS[name](**state).describe()


def test_the_map_is_the_encoding_of_the_package(javascript, tmp_path):
    module = tmp_path / "rows.mjs"
    module.write_text(
        f'import {{ encodingRows }} from "{(FOLDER / "sinusoidal.mjs").as_uri()}";\n'
        "export const rows = (...xs) => [...encodingRows(...xs)];\n"
    )
    calls = [("rows", [128, width, base]) for width, base in WIDTHS_AND_BASES]
    for (_, (_, width, base)), rows in zip(calls, javascript(module, calls), strict=True):
        wanted = attnlib.sinusoidal_encoding(
            torch.arange(128), width, base=float(base), dtype=torch.float64
        )
        assert np.abs(np.reshape(rows, (128, width)) - wanted.numpy()).max() <= AS_IN_PYTHON


def test_the_mean_over_all_pairs_is_the_score_of_rotated_ones(javascript):
    ones = torch.ones(65, 64, dtype=torch.float64)
    keys = attnlib.rotate(ones, torch.arange(65), pairing="half")
    wanted = (keys @ ones[0] / 64).tolist()
    distances = [*range(65), *range(-64, 0)]
    found = javascript(FOLDER / "rotary.mjs", [("meanScore", [k]) for k in distances])
    for distance, mean in zip(distances, found, strict=True):
        assert mean == pytest.approx(wanted[abs(distance)], abs=AS_IN_PYTHON)


def test_a_chosen_distance_is_reached_and_moves_the_query_only_where_it_must(javascript):
    cases = list(itertools.product(range(-64, 65), [0, 12, 64]))
    calls = [("positionsAt", [distance, {"query_position": m}]) for distance, m in cases]
    found = javascript(FOLDER / "rotary.mjs", calls)
    for (distance, m), positions in zip(cases, found, strict=True):
        query, key = positions["query_position"], positions["key_position"]
        assert key - query == distance
        assert 0 <= min(query, key) <= max(query, key) <= 64
        nearest = min((q for q in range(65) if 0 <= q + distance <= 64), key=lambda q: abs(q - m))
        assert query == nearest


def test_numbers_are_said_as_in_python(javascript):
    rng = np.random.default_rng(0)
    numbers = [*(10 ** rng.uniform(-7, 7, 300)).tolist(), 0.01, 0.1, 1.0, 99.96, 1e6, 999_999.6]
    numbers += [10_000 ** (-2 * pair / 64) for pair in range(32)]
    for name, same in [
        ("showWhole", words.show_whole),
        ("showWavelength", words.show_wavelength),
        ("showFrequency", words.show_frequency),
    ]:
        found = javascript(FOLDER / "controls.mjs", [(name, [x]) for x in numbers])
        assert found == [same(x) for x in numbers]
    whole = [-180, -12_345, -1, 0, 999, 1_000, 1_234_567]
    found = javascript(FOLDER / "controls.mjs", [("showWhole", [x]) for x in whole])
    assert found == [words.show_whole(x) for x in whole]
    assert found[1] == "−12,345"


def test_every_step_of_every_slider_can_be_chosen(javascript, tmp_path):
    module = tmp_path / "steps.mjs"
    module.write_text(
        f'import * as c from "{(FOLDER / "controls.mjs").as_uri()}";\n'
        "export function steps(kind, range) {\n"
        "  const s = c[kind](range);\n"
        "  const values = Array.from({ length: s.last + 1 }, (_, i) => s.valueAt(i));\n"
        "  return [values, values.map(s.stepOf)];\n"
        "}\n"
    )
    kinds = [
        ("wholeSteps", "encoding_position", 1),
        ("wholeSteps", "turn_angle", 1),
        ("evenSteps", "encoding_width", 2),
    ]
    found = javascript(module, [("steps", [kind, LIMITS[name]]) for kind, name, _ in kinds])
    for (_, name, step), (values, back) in zip(kinds, found, strict=True):
        low, high = LIMITS[name]
        assert values == list(range(low, high + 1, step))
        assert back == list(range(len(values)))
    [[values, back]] = javascript(module, [("steps", ["listedSteps", LIMITS["encoding_base"]])])
    assert values == list(LIMITS["encoding_base"])
    assert back == list(range(len(values)))


LINKS = {
    "sinusoidal": ("m=4;p=127;j=3;base=1000000", ["m=5", "m=130", "m=8.0e-1", "p=-1", "p=1.5"]),
    "rotary": ("m=0;n=64;pair=31;angle=-179;all=yes", ["m=65", "n=x", "pair=32", "angle=0.5"]),
}
CHANGED = {
    "sinusoidal": {"width": 4, "position": 127, "dimension": 3, "base": 1_000_000},
    "rotary": {
        "query_position": 0,
        "key_position": 64,
        "pair": 31,
        "angle": -179,
        "all_pairs": True,
    },
}
MALFORMED = ["", "m", "m=", "base=500", "base=NaN", "j=128", "all=1", "initial=1", "width=8"]


@pytest.mark.parametrize("name", LINKS)
def test_a_link_brings_the_state_back_and_what_cannot_be_chosen_is_left_out(name, linked):
    initial = EXPLORERS[name]().state
    text, malformed = LINKS[name]
    calls = [
        ("write", [CHANGED[name], initial]),
        ("read", [text, initial]),
        *(("read", [bad, initial]) for bad in [*malformed, *MALFORMED]),
    ]
    written, read, *refused = linked(name, calls)
    assert written == text
    assert read == CHANGED[name]
    assert refused == [{}] * len(refused)
    assert EXPLORERS[name](**read).state == read  # Python takes what a link can say


@pytest.mark.parametrize("name", LINKS)
def test_a_saved_value_that_cannot_be_chosen_falls_back_to_the_first_state(name, linked):
    state = json.loads(json.dumps(EXPLORERS[name]().state))
    odd = [None, "8", [8], -180, 0.5, {}, 10**9]
    calls = [
        ("restore", [{**state, key: value, "initial": state}])
        for key, value in itertools.product(state, odd)
    ]
    assert linked(name, calls) == [state] * len(calls)


def test_a_link_to_a_dimension_that_the_width_lacks_leads_to_the_last_one(javascript):
    state = {"width": 4, "position": 7, "dimension": 8, "base": 100}
    last = {**state, "dimension": 3}
    module = FOLDER / "sinusoidal.mjs"
    facts, wanted, text = javascript(
        module, [("facts", [state]), ("facts", [last]), ("describe", [state])]
    )
    assert facts == wanted
    assert text == EXPLORERS["sinusoidal"](**last).describe()
    assert math.isclose(facts["value"], math.cos(7 / 10), abs_tol=AS_IN_PYTHON)
