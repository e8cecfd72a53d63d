"""The explorers' JavaScript computes what Python computes; Node runs the shipped modules."""

import itertools
import json
import math
import subprocess

import numpy as np
import pytest
import sympy as sp

from attnlib.explore.bundle import FOLDER
from attnlib.explore.formulas import FORMULAS, javascript_function
from attnlib.explore.limits import LIMITS
from attnlib.explore.widgets import EXPLORERS

EPS = 2.0**-52


def ends_and_between(bounds, count: int, seed: int) -> list[float]:
    low, high = bounds
    return [low, high, *np.random.default_rng(seed).uniform(low, high, count)]


# Arguments of each formula, by symbol; all that the explorers can reach, ends included.
VALUES = {
    "z": ends_and_between(LIMITS["score"], 3, 0),
    "d": [1, 2, 64, 1024],
    "divisor": [1.0, math.sqrt(2), 32.0],
    "tau": [0.05, 0.3, 1.0, 20.0],
    "score": [-3200.0, -1.7, 0.0, 3200.0],
    "largest": [0.3, 3200.0],
    "total": [1.0, 1.37, 8.0],
    "weight": [0.0, 5e-324, 1e-300, 0.25, 0.9999999999999999, 1.0],
    "n": [2, 5, 8],
    "entropy": [0.0, 1e-12, 0.7, math.log(8)],
    "p_max": [0.2, 0.5, 0.9, 1.0],
    "p_rest": [0.0, 1e-17, 0.1, 0.8],
    "q_x": ends_and_between(LIMITS["position"], 2, 1),
    "q_y": ends_and_between(LIMITS["position"], 1, 2),
    "k_x": ends_and_between(LIMITS["position"], 2, 3),
    "k_y": ends_and_between(LIMITS["position"], 1, 4),
    "h": [0.05, 0.8, 20.0],
    "pair": [0, 1, 31, 63],
    "width": [4, 64, 128],
    "base": LIMITS["encoding_base"],
    "omega": [1.2e-6, 0.1, 1.0],
    "position": [0, 1, 64, 254],
    "distance": [-64, 0, 17],
    "angle": [-3.1, 0.0, math.pi],
    "x": [-1.0, 0.3],
    "y": [0.0, 0.9],
    "dot": [-3.0, 0.0, 17.0, 107_367_628_900.0],
    "square_q": [1.0, 2.0, 107_367_628_900.0],
    "square_k": [3.0, 107_367_628_899.0],
    "exponent": [0.0, 0.35, 0.5, 1.0],
    "mu_4": [1.0, 1.8, 3.0, 9.0],
    "n_queries": [32],
    "n_keys": [64],
    "spread": [0.03125, 1.0, 32.0],
    "gap": [0.0, 0.7, 20.0],
    "leaders": [1, 2],
    "weight_a": [0.0, 0.3, 1.0],
    "weight_b": [0.0, 1e-10, 0.2],
    "share": [0.01, 0.3, 1.0],
    "heads": [1, 8, 128],
    "head_dim": [1, 64, 512],
    "tokens": [16, 1024, 131_072],
    "layers": [1, 2, 4],
}


@pytest.mark.parametrize("name", FORMULAS)
def test_each_formula_has_sympys_value_to_two_units_in_the_last_place(name, javascript):
    expression, arguments, _ = FORMULAS[name]
    grid = list(itertools.product(*(VALUES[str(symbol)] for symbol in arguments)))
    if name == "shiftedExponential":  # the largest score is the largest
        grid = [(score, largest) for score, largest in grid if score <= largest]
    found = javascript(FOLDER / "formulas.mjs", [(name, list(values)) for values in grid])
    for values, value in zip(grid, found, strict=True):
        exact = {s: sp.Rational(float(v)) for s, v in zip(arguments, values, strict=True)}
        wanted = float(expression.subs(exact).evalf(30))
        # A sum that cancels is as exact as its terms, here bounded by those of (Σ|x|)² / 8h².
        scale = abs(wanted)
        if name.endswith("LogKernel"):
            scale = max(scale, sum(abs(v) for v in values[:4]) ** 2 / values[4] ** 2 / 8)
        if name == "shiftedExponential":  # the rounding of score − largest, magnified by exp
            scale *= 1 + abs(values[0] - values[1])
        if name in {"frequency", "scoreDivisor", "scoreSpread"}:
            # the rounding of the exponent, magnified by the logarithm
            scale *= 1 + abs(math.log(wanted))
        if name == "scoreKurtosis":
            scale = (values[1] ** 2 + 3) / values[0]
        if name == "spreadError":  # the terms under the root, and its slope there
            d, mu_4, queries, keys = values
            terms = 2 + (queries + keys) * abs(mu_4 - 1) / d + (mu_4**2 + 3) / d
            scale += terms / (wanted * 4 * queries * keys) if wanted > 0 else 0.0
        if name == "normalDensity":  # two roots, and the exponent's rounding, magnified by exp
            scale *= 2 + (values[0] / values[1]) ** 2
        if name in {"sineEntry", "cosineEntry", "turnedX", "turnedY", "scoreAtDistance"}:
            # the rounding of an angle, and of a sum of at most two terms
            angle = math.prod(values[-2:]) + (values[0] if name == "scoreAtDistance" else 0)
            scale = (2 if name.startswith("turned") else 1) * (1 + abs(angle))
        assert value == pytest.approx(wanted, rel=0, abs=2 * EPS * scale + 5e-324), values


def test_integer_formulas_are_exact_below_2_to_the_53(javascript, tmp_path):
    g, n, d, layers = sp.symbols("g n d layers", integer=True, positive=True)
    numbers = 2 * layers * g * n * d  # keys and values in a cache
    pairs = n * (n + 1) / 2  # pairs that a causal mask lets through
    module = tmp_path / "counts.mjs"
    module.write_text(
        javascript_function("cache", numbers, (layers, g, n, d))
        + "\n"
        + javascript_function("pairs", pairs, (n,))
    )
    caches = [(61, 7, 3, 5), (126, 8, 1_000_003, 128), (3, 1, 1_501_199_875_790_165, 1)]
    lengths = [1, 131_071, 94_906_264]  # n(n + 1) < 2⁵³
    found = javascript(module, [("cache", c) for c in caches] + [("pairs", [x]) for x in lengths])
    assert found[: len(caches)] == [2 * math.prod(c) for c in caches]
    assert found[len(caches) :] == [x * (x + 1) // 2 for x in lengths]
    assert max(found) == 2**53 - 2


def softmax_states():
    rng = np.random.default_rng(0)
    lists = [[0.0, 0.0], [5.0, -5.0], [5.0, 5.0, -5.0], [-5.0, 5.0, 4.9, 5.0, -5.0], [0.1] * 8]
    lists += [np.round(rng.uniform(-5, 5, n), 1).tolist() for n in (3, 5, 7)]
    for scores, tau, d in itertools.product(lists, [0.05, 1.0, 20.0], [1, 64, 1024]):
        for scaled in (True, False):
            state = {"scores": scores, "temperature": tau, "key_dim": d, "scaled": scaled}
            yield {**state, "labels": []}


def test_softmax_facts_are_pythons_even_where_one_weight_takes_all(javascript):
    states = list(softmax_states())
    found = javascript(FOLDER / "softmax.mjs", [("facts", [state]) for state in states])
    for state, facts in zip(states, found, strict=True):
        wanted = EXPLORERS["softmax"](**state).facts()
        gain = state["key_dim"] ** 0.5 / state["temperature"]
        largest = gain * max(map(abs, state["scores"]))
        # Scores are rounded four times on the way in: their error is at most 4 eps · |s|, and that
        # is the relative error of a weight; 16 eps for the exponential, the sum and the quotient.
        relative = (8 * largest + 16) * EPS
        # A weight that underflows has no relative accuracy.
        for p, q in zip(facts["weights"], wanted["weights"], strict=True):
            assert math.isclose(p, q, rel_tol=relative, abs_tol=1e-300), state
        assert facts["winner"] == wanted["winner"]
        # |dH| ≤ Σ |dp| (1 + |ln p|) ≤ relative · (1 + ln 8), and exp H ≤ 8 times that.
        for name in ["entropy", "largestEntropy", "effectiveSources", "eigenvalueBound"]:
            assert math.isclose(facts[name], wanted[name], rel_tol=0, abs_tol=25 * relative), name
        for name in ["meanScore", "logSumExp"]:
            tolerance = (1 + 2 * largest) * relative
            assert math.isclose(facts[name], wanted[name], rel_tol=0, abs_tol=tolerance), name
        # NumPy's eigenvalues are exact to a few eps of the matrix's norm, at most one half.
        assert abs(facts["eigenvalue"] - wanted["eigenvalue"]) <= 16 * EPS + relative
        assert facts["eigenvalue"] <= facts["eigenvalueBound"]


def test_the_largest_eigenvalue_keeps_its_digits_where_the_matrix_all_but_vanishes(javascript):
    # p = (1 − 2ε, ε, ε): the eigenvalues are ε and 3ε(1 − 2ε), which eigvalsh would lose.
    tiny = [1e-5, 1e-17, 1e-100, 1e-300]
    calls = [("largestJacobianEigenvalue", [[1 - 2 * e, e, e]]) for e in tiny]
    found = javascript(FOLDER / "numerics.mjs", calls)
    for e, value in zip(tiny, found, strict=True):
        wanted = 3 * e * (1 - 2 * e)
        assert value == pytest.approx(wanted, rel=16 * EPS / min(1, 1 - 2 * e), abs=0)


def lookup_states():
    points = list(EXPLORERS["soft-lookup"].points.default_value)
    square = [(1, 1), (-1, 1), (-1, -1), (1, -1)]
    same = [(0.5, -2.0)] * 2
    queries = [(0.0, 0.0), (-3.0, 3.0), (2.6, -0.3)]
    for keys, query in itertools.product([points, square, same], queries):
        for bandwidth, kernel in itertools.product([0.05, 0.8, 20.0], LIMITS["kernels"]):
            yield {"points": keys, "query": query, "bandwidth": bandwidth, "kernel": kernel}


def test_soft_lookup_facts_are_pythons(javascript):
    states = list(lookup_states())
    found = javascript(FOLDER / "soft-lookup.mjs", [("facts", [state]) for state in states])
    for state, facts in zip(states, found, strict=True):
        wanted = EXPLORERS["soft-lookup"](**state).facts()
        # |q − k|² ≤ 72, so a log kernel is at most 36 / h² and is rounded a few times.
        relative = (8 * 36 / state["bandwidth"] ** 2 + 16) * EPS
        assert np.allclose(facts["weights"], wanted["weights"], rtol=relative, atol=1e-300)
        # Two coordinates of at most 3, and weights whose errors add up to `relative`.
        assert np.allclose(facts["output"], wanted["output"], rtol=0, atol=6 * relative)
        assert np.allclose(facts["mean"], wanted["mean"], rtol=0, atol=16 * EPS)
        assert facts["limitKeys"] == wanted["limitKeys"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("softmax", {}),
        ("softmax", {"scores": [-1.0, 2.5], "temperature": 0.3, "labels": ["the", "cat"]}),
        ("softmax", {"temperature": 12.0, "key_dim": 1024, "scaled": False}),
        ("soft-lookup", {}),
        ("soft-lookup", {"kernel": "dot-product", "query": (-1.2, 0.05), "bandwidth": 0.07}),
        ("soft-lookup", {"points": [(1, 0), (-1, 0), (0, 2)], "query": (0, 0.3)}),
    ],
)
def test_the_picture_in_words_is_pythons(name, options, javascript):
    explorer = EXPLORERS[name](**options)
    [words] = javascript(FOLDER / f"{name}.mjs", [("describe", [explorer.state])])
    assert words == explorer.describe()


def test_the_hull_is_scipys(javascript):
    from scipy.spatial import ConvexHull

    clouds = [np.random.default_rng(seed).uniform(-3, 3, (3 + seed, 2)) for seed in range(6)]
    found = javascript(FOLDER / "numerics.mjs", [("convexHull", [c.tolist()]) for c in clouds])
    for cloud, hull in zip(clouds, found, strict=True):
        wanted = cloud[ConvexHull(cloud).vertices].tolist()  # counter-clockwise
        start = wanted.index(hull[0])
        assert hull == wanted[start:] + wanted[:start]
    on_a_line = [[[0, 0], [1, 1], [2, 2]], [[1, 2], [1, 2]]]
    found = javascript(FOLDER / "numerics.mjs", [("convexHull", [points]) for points in on_a_line])
    assert found[0] == [[0, 0], [2, 2]]
    assert found[1] == [[1, 2], [1, 2]]


def test_a_link_holds_each_explorers_state_apart_and_forgets_what_is_malformed(
    javascript, tmp_path
):
    module = tmp_path / "links.mjs"
    module.write_text(
        f'import {{ parseFragment, withPart }} from "{(FOLDER / "share.mjs").as_uri()}";\n'
        f'import {{ parseFields, writeFields }} from "{(FOLDER / "state.mjs").as_uri()}";\n'
        f'import {{ fields }} from "{(FOLDER / "softmax.mjs").as_uri()}";\n'
        "export const parts = (hash) => [...parseFragment(hash)];\n"
        "export const set = withPart;\n"
        "export const read = (text, initial) => parseFields(text, initial, fields);\n"
        "export const write = (state, initial) => writeFields(state, initial, fields);\n"
    )
    initial = EXPLORERS["softmax"]().state
    changed = {**initial, "temperature": 0.05, "scores": [-1, 0, 2.5, 5, 0], "scaled": False}
    text = "z=-1,0,2.5,5,0;tau=0.05;scaled=no"
    malformed = ["", "tau", "tau=", "tau=abc", "tau=NaN", "tau=Infinity", "tau=1e999", "tau=0"]
    malformed += ["tau=21", "tau=0x10", "d=63", "d=0", "d=-64", "d=64.5", "scaled=maybe"]
    malformed += ["scaled=toString", "z=1,2", "z=1,2,3,4,", "z=1,2,3,4,9", "labels=a", "=;;="]
    malformed += ["__proto__=1", "initial=1"]
    calls = [
        ("parts", ["#softmax:tau=0.5;d=64&soft-lookup:h=0.3&softmax.2:"]),
        ("parts", ["#a-heading"]),
        ("parts", ["#%E0%A4%A"]),
        ("set", ["#softmax:tau=0.5", "softmax.2", "d=4"]),
        ("set", ["#softmax:tau=0.5&softmax.2:d=4", "softmax", ""]),
        ("set", ["#a-heading", "softmax", "d=4"]),
        ("write", [initial, initial]),
        ("write", [changed, initial]),
        ("read", [text, initial]),
        *(("read", [bad, initial]) for bad in malformed),
        ("read", ["tau=bad;d=128;what=1", initial]),
    ]
    found = javascript(module, calls)
    assert found[0] == [["softmax", "tau=0.5;d=64"], ["soft-lookup", "h=0.3"], ["softmax.2", ""]]
    assert found[1:3] == [[], []]
    assert found[3:6] == ["softmax:tau=0.5&softmax.2:d=4", "softmax.2:d=4", "softmax:d=4"]
    assert found[6:8] == ["", text]
    assert found[8] == {"temperature": 0.05, "scores": [-1, 0, 2.5, 5, 0], "scaled": False}
    assert found[9:-1] == [{}] * len(malformed)
    assert found[-1] == {"key_dim": 128}


def test_a_saved_value_that_cannot_be_chosen_falls_back_to_the_first_state(javascript, tmp_path):
    module = tmp_path / "read.mjs"
    module.write_text(
        f'import {{ readState }} from "{(FOLDER / "state.mjs").as_uri()}";\n'
        f'import {{ fields }} from "{(FOLDER / "softmax.mjs").as_uri()}";\n'
        "export const read = (state) => readState({ get: (key) => state[key] }, fields);\n"
    )
    state = json.loads(json.dumps(EXPLORERS["softmax"]().state))
    odd = [
        *(("temperature", x) for x in [None, "1", [1], 0, 21, True, {}]),
        *(("key_dim", x) for x in [None, "64", [64], 63, 0, 2048, 0.5]),
        *(("scaled", x) for x in [None, 1, "yes"]),
        *(("scores", x) for x in [None, [1], [1, None, 2], ["1", "2"], [9, 1], "12", [[1], [2]]]),
    ]
    found = javascript(module, [("read", [{**state, k: x, "initial": state}]) for k, x in odd])
    assert found == [state] * len(odd)


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
        ("linearSteps", LIMITS["score"], 0.1),
        ("linearSteps", LIMITS["position"], 0.05),
        ("logSteps", LIMITS["temperature"], 60),
        ("logSteps", LIMITS["bandwidth"], 60),
        ("powersOfTwo", LIMITS["key_dim"]),
        ("logSteps", LIMITS["sampling_temperature"], 51),
        ("linearSteps", LIMITS["top_p"], 0.01),
        ("linearSteps", LIMITS["min_p"], 0.01),
    ]
    found = javascript(module, [("steps", list(kind)) for kind in kinds])
    for (_, bounds, *_), (values, back) in zip(kinds, found, strict=True):
        assert (values[0], values[-1]) == bounds
        assert all(a < b for a, b in itertools.pairwise(values))
        assert back == list(range(len(values)))
    assert {0.1, 0.5, 1, 2} <= set(found[2][0])
    assert {0.5, 1, 2} <= set(found[5][0])


@pytest.mark.parametrize("name", EXPLORERS)
def test_the_bundle_is_a_module_that_node_reads_and_whose_default_renders(name, node, tmp_path):
    bundle = tmp_path / "bundle.mjs"
    bundle.write_text(EXPLORERS[name]._esm, encoding="utf-8")
    subprocess.run([node, "--check", bundle], check=True)
    program = (
        f"const all = await import({json.dumps(bundle.as_uri())});"
        "console.log(Object.keys(all).join(), typeof all.default.render)"
    )
    command = [node, "--input-type=module", "--eval", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["default", "function"]


def test_titles_are_one_in_python_and_javascript(javascript, tmp_path):
    module = tmp_path / "titles.mjs"
    uris = {name: (FOLDER / f"{name}.mjs").as_uri() for name in EXPLORERS}
    module.write_text(
        f"const uris = {json.dumps(uris)};\n"
        "const all = {};\n"
        "for (const name in uris) all[name] = await import(uris[name]);\n"
        "export const title = (name) => all[name].title;\n"
    )
    found = javascript(module, [("title", [name]) for name in EXPLORERS])
    assert found == [explorer.title for explorer in EXPLORERS.values()]
