"""The explorers of variance scaling compute in JavaScript what Python computes; Node runs them."""

import itertools
import json

import numpy as np
import pytest

from attnlib.explore import score_sample, words
from attnlib.explore.bundle import FOLDER
from attnlib.explore.limits import LIMITS
from attnlib.explore.score_spread import means_by_width
from attnlib.explore.widgets import EXPLORERS

DISTRIBUTIONS = LIMITS["distributions"]
# The largest score of the sample is below 300: its rounding moves a weight by 300 eps of itself,
# and a mean entropy by less than (1 + ln 64) times that.
# The Jacobian's numbers are sums and products of positive ones: their relative error is a few eps.
AS_IN_PYTHON = {
    "score-spread": {"rel": 1e-12, "abs": 1e-12},
    "jacobian": {"rel": 1e-14, "abs": 0},
}


def assert_same(found: object, wanted: object, name: str, at: object) -> None:
    """Whole numbers and what is missing agree exactly, other numbers as the explorer can."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            assert_same(found[key], wanted[key], name, (at, key))
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), at
        for a, b in zip(found, wanted, strict=True):
            assert_same(a, b, name, at)
    elif wanted is None or isinstance(wanted, int):
        assert found == wanted, at
    else:
        assert found == pytest.approx(wanted, **AS_IN_PYTHON[name]), at


def spread_states():
    for name, d in itertools.product(DISTRIBUTIONS, [1, 2, 64, 1024]):
        for exponent in (0.0, 0.35, 0.5, 1.0):
            yield {"key_dim": d, "exponent": exponent, "distribution": name}


def jacobian_states():
    for n, gap in itertools.product([2, 3, 16, 64], [0.0, 0.1, 2.0, 7.3, 20.0]):
        for m in sorted({1, 2, n // 2, n - 1, n}):
            yield {"n_sources": n, "n_leaders": m, "gap": gap}


STATES = {"score-spread": list(spread_states()), "jacobian": list(jacobian_states())}


@pytest.mark.parametrize("name", STATES)
def test_facts_are_pythons(name, javascript):
    found = javascript(FOLDER / f"{name}.mjs", [("facts", [state]) for state in STATES[name]])
    for state, facts in zip(STATES[name], found, strict=True):
        assert_same(facts, EXPLORERS[name](**state).facts(), name, state)


@pytest.mark.parametrize("name", STATES)
def test_the_picture_in_words_is_pythons(name, javascript):
    found = javascript(FOLDER / f"{name}.mjs", [("describe", [state]) for state in STATES[name]])
    for state, text in zip(STATES[name], found, strict=True):
        assert text == EXPLORERS[name](**state).describe()


def test_the_sample_is_pythons_bit_by_bit(javascript, tmp_path):
    module = tmp_path / "sample.mjs"
    module.write_text(
        f'import * as sample from "{(FOLDER / "score-sample.mjs").as_uri()}";\n'
        "export const scores = (name) => (\n"
        "  [...sample.rawScores(name)].map(([d, scores]) => [d, [...scores]])\n"
        ");\n"
        "export const bars = sample.bars;\n"
        "export const fixed = () => [\n"
        "  sample.N_QUERIES, sample.N_KEYS, sample.REACH, sample.FOURTH_MOMENTS,\n"
        "];\n"
    )
    found = javascript(module, [("scores", [name]) for name in DISTRIBUTIONS])
    for name, by_width in zip(DISTRIBUTIONS, found, strict=True):
        wanted = score_sample.raw_scores(name)
        assert [d for d, _ in by_width] == list(wanted)
        assert all(np.array_equal(scores, wanted[d].ravel()) for d, scores in by_width)
    pairs = list(itertools.product(DISTRIBUTIONS, score_sample.raw_scores("uniform")))
    bars = javascript(module, [("bars", list(pair)) for pair in pairs])
    assert bars == [list(score_sample.bars(*pair)) for pair in pairs]
    [fixed] = javascript(module, [("fixed", [])])
    assert fixed == [32, 64, score_sample.REACH, score_sample.FOURTH_MOMENTS]


def test_the_curves_over_the_width_are_what_python_finds_at_each(javascript, tmp_path):
    module = tmp_path / "means.mjs"
    module.write_text(
        f'import {{ meansByWidth }} from "{(FOLDER / "score-spread.mjs").as_uri()}";\n'
        "export const means = (name, exponent) => (\n"
        "  [...meansByWidth(name, exponent).values()].map((at) => [at.entropy, at.norm])\n"
        ");\n"
    )
    cases = [("gaussian", 0.0), ("heavy-tailed", 0.25), ("gaussian", 0.5), ("gaussian", 0.0)]
    found = javascript(module, [("means", list(case)) for case in cases])
    for case, means in zip(cases, found, strict=True):
        wanted = [list(pair) for pair in means_by_width(*case)]
        assert_same(means, wanted, "score-spread", case)
    assert found[0] == found[3] != found[2]  # what is kept is kept for one exponent only


def test_the_largest_eigenvalue_of_many_sources_is_numpys_even_where_two_all_but_tie(javascript):
    rng = np.random.default_rng(0)
    cases = [np.exp(spread * rng.standard_normal(64)) for spread in (0.01, 0.5, 1, 3, 8, 30)]
    for near in (0.0, 1e-16, 1e-13, 1e-8, 1e-3):
        cases.append(np.array([1.0, 1.0 - near, 0.3, 0.2, 1e-9]))
        cases.append(np.append(np.full(9, 1.0 - near), 1.0))
    cases += [np.ones(2), np.ones(64), np.array([1.0, 0.0, 0.0]), np.array([1.0, 1e-300, 1e-310])]
    weights = [case / case.sum() for case in cases]
    calls = [("largestJacobianEigenvalue", [p.tolist()]) for p in weights]
    for p, value in zip(weights, javascript(FOLDER / "numerics.mjs", calls), strict=True):
        wanted = np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1]
        assert value == pytest.approx(wanted, rel=0, abs=16 * 2.0**-52), p
        assert 0 <= value <= 0.5


def test_every_step_of_every_slider_can_be_chosen(javascript, tmp_path):
    module = tmp_path / "steps.mjs"
    module.write_text(
        f'import * as c from "{(FOLDER / "controls.mjs").as_uri()}";\n'
        "export function steps(kind, ...xs) {\n"
        "  const s = c[kind](...xs);\n"
        "  const values = Array.from({ length: s.last + 1 }, (_, i) => s.valueAt(i));\n"
        "  return [values, values.map(s.stepOf)];\n"
        "}\n"
    )
    kinds = [
        ("linearSteps", LIMITS["score_exponent"], 0.05),
        ("linearSteps", LIMITS["gap"], 0.1),
        ("wholeSteps", LIMITS["jacobian_sources"]),
    ]
    found = javascript(module, [("steps", list(kind)) for kind in kinds])
    wanted = [[i / 20 for i in range(21)], [i / 10 for i in range(201)], list(range(2, 65))]
    for (values, back), exact in zip(found, wanted, strict=True):
        assert values == exact
        assert back == list(range(len(values)))
    for exponent in found[0][0]:
        assert EXPLORERS["score-spread"](exponent=exponent).exponent == exponent


def test_halves_are_said_as_in_python(javascript, tmp_path):
    module = tmp_path / "halves.mjs"
    module.write_text(
        f'import * as c from "{(FOLDER / "controls.mjs").as_uri()}";\n'
        "export const say = (x) => [\n"
        "  c.showRound(c.untie(x)), c.showSmall(c.untie(x)), c.show(c.untie(x), 3),\n"
        "];\n"
    )
    numbers = [2.0**-i for i in range(12)] + [-(2.0**-i) for i in range(12)]
    numbers += [n / 2**12 for n in range(-50, 50)] + [1.5, 2.25, 12.25, 78 / 32, 0.0]
    found = javascript(module, [("say", [x]) for x in numbers])
    for x, said in zip(numbers, found, strict=True):
        moved = words.untie(x)
        assert said == [words.show_round(moved), words.show_small(moved), words.show(moved, 3)]


LINKS = {
    "score-spread": (
        "d=1024;a=0.35;of=heavy-tailed",
        {"key_dim": 1024, "exponent": 0.35, "distribution": "heavy-tailed"},
        ["d=48", "d=2048", "a=1.05", "a=-0.1", "a=NaN", "of=cauchy", "of=", "of=toString"],
    ),
    "jacobian": (
        "n=64;l=3;g=7.5",
        {"n_sources": 64, "n_leaders": 3, "gap": 7.5},
        ["n=1", "n=65", "l=0", "l=1.5", "l=65", "g=-1", "g=20.5", "g=Infinity", "n="],
    ),
}


@pytest.mark.parametrize("name", LINKS)
def test_a_link_brings_the_state_back_and_what_cannot_be_chosen_is_left_out(name, linked):
    initial = EXPLORERS[name]().state
    text, changed, malformed = LINKS[name]
    calls = [
        ("write", [changed, initial]),
        ("read", [text, initial]),
        *(("read", [bad, initial]) for bad in malformed),
    ]
    written, read, *refused = linked(name, calls)
    assert written == text
    assert read == changed
    assert refused == [{}] * len(malformed)
    assert EXPLORERS[name](**read).state == read  # Python takes what a link can say


@pytest.mark.parametrize("name", LINKS)
def test_a_saved_value_that_cannot_be_chosen_falls_back_to_the_first_state(name, linked):
    state = json.loads(json.dumps(EXPLORERS[name]().state))
    odd = [None, "8", [8], -180, {}, 10**9, 0.3 if name == "jacobian" else 1.5]
    calls = [
        ("restore", [{**state, key: value, "initial": state}])
        for key, value in itertools.product(state, odd)
        if not (key == "gap" and value == 0.3)
    ]
    assert linked(name, calls) == [state] * len(calls)


def test_a_link_to_more_leaders_than_sources_lets_all_lead(javascript):
    state = {"n_sources": 4, "n_leaders": 9, "gap": 2.0}
    all_lead = {**state, "n_leaders": 4}
    module = FOLDER / "jacobian.mjs"
    facts, wanted, text = javascript(
        module, [("facts", [state]), ("facts", [all_lead]), ("describe", [state])]
    )
    assert facts == wanted
    assert text == EXPLORERS["jacobian"](**all_lead).describe()
