"""The explorers' Python side: options, errors, HTML, the bundle and the formulas' JavaScript."""

import html
import importlib.resources
import json
import re
import subprocess
import sys
import types

import numpy as np
import pytest
import sympy as sp

from attnlib.explore import NAMES, explore, formulas
from attnlib.explore.bundle import FOLDER, anywidget_module
from attnlib.explore.limits import LIMITS
from attnlib.explore.widgets import EXPLORERS


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


LIBRARIES = ["anywidget", "ipywidgets", "traitlets", "sympy"]


def test_explore_works_before_its_module_is_imported_and_imports_no_sympy():
    code = "import sys, attnlib; print(attnlib.explore('softmax', temperature=0.5).temperature)"
    assert run(f"{code}; print('sympy' in sys.modules)").split() == ["0.5", "False"]


def test_explore_works_after_its_module_is_imported_which_imports_no_widget_library():
    code = f"import sys, attnlib, attnlib.explore; print(set({LIBRARIES}) & set(sys.modules))"
    ask = "print(attnlib.explore('softmax', temperature=0.5).temperature)"
    assert run(f"{code}; {ask}").split() == ["set()", "0.5"]


def test_without_anywidget_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['anywidget'] = None\nimport attnlib\n"
        "try: attnlib.explore('softmax')\nexcept ImportError as error: print(error)"
    )
    assert run(code) == (
        "the explorers need anywidget, which is not installed: pip install anywidget"
    )


def test_every_name_has_its_explorer():
    assert tuple(EXPLORERS) == NAMES
    assert [EXPLORERS[name].explorer for name in NAMES] == list(NAMES)


def test_an_unknown_name_is_answered_with_the_names():
    with pytest.raises(ValueError, match=f"the explorers are {', '.join(NAMES)}, got 'sofmax'"):
        explore("sofmax")


def test_an_unknown_option_is_answered_with_the_options():
    wanted = "'softmax' are key_dim, labels, scaled, scores, temperature, got tau"
    with pytest.raises(TypeError, match=wanted):
        explore("softmax", tau=0.5)


REFUSED = [
    ("softmax", "temperature", 0.0, ValueError, "between 0.05 and 20, got 0.0"),
    ("softmax", "temperature", float("nan"), ValueError, "between 0.05 and 20, got nan"),
    ("softmax", "temperature", "1", TypeError, "temperature must be a number, got '1'"),
    ("softmax", "temperature", True, TypeError, "temperature must be a number, got True"),
    ("softmax", "key_dim", 63, ValueError, "a power of two from 1 to 1024, got 63"),
    ("softmax", "key_dim", 2048, ValueError, "a power of two from 1 to 1024, got 2048"),
    ("softmax", "key_dim", 64.0, TypeError, "key_dim must be a whole number, got 64.0"),
    ("softmax", "scaled", 1, TypeError, "scaled must be True or False, got 1"),
    ("softmax", "scores", [1.0], ValueError, "scores must have 2 to 8 numbers, got 1"),
    ("softmax", "scores", [1.0, 5.5], ValueError, "each of scores .* between -5 and 5, got 5.5"),
    ("softmax", "scores", "12345", TypeError, "scores must be a list, got '12345'"),
    ("soft-lookup", "query", [1.0], ValueError, "query must have 2 coordinates, got 1"),
    ("soft-lookup", "query", [1.0, 3.5], ValueError, "coordinate of query .* -3 and 3, got 3.5"),
    ("soft-lookup", "bandwidth", -1, ValueError, "bandwidth must lie between 0.05 and 20, got -1"),
    ("soft-lookup", "kernel", "rbf", ValueError, "one of gaussian, dot-product, got 'rbf'"),
    ("sinusoidal", "width", 63, ValueError, "width must be even, got 63"),
    ("sinusoidal", "width", 2, ValueError, "width must lie between 4 and 128, got 2"),
    ("sinusoidal", "width", 130, ValueError, "width must lie between 4 and 128, got 130"),
    ("sinusoidal", "width", 64.0, TypeError, "width must be a whole number, got 64.0"),
    ("sinusoidal", "position", -1, ValueError, "position must lie between 0 and 127, got -1"),
    ("sinusoidal", "position", 128, ValueError, "position must lie between 0 and 127, got 128"),
    ("sinusoidal", "position", True, TypeError, "position must be a whole number, got True"),
    ("sinusoidal", "dimension", 128, ValueError, "dimension must lie between 0 and 127, got 128"),
    (
        "sinusoidal",
        "dimension",
        64,
        ValueError,
        "dimension must be less than width, got dimension=64 and width=64",
    ),
    (
        "sinusoidal",
        "width",
        8,
        ValueError,
        "dimension must be less than width, got dimension=8 and width=8",
    ),
    ("sinusoidal", "base", 500, ValueError, "base must be one of 100, 1000, .*, got 500"),
    ("sinusoidal", "base", float("nan"), ValueError, "base must be one of .*, got nan"),
    ("sinusoidal", "base", "10000", TypeError, "base must be a number, got '10000'"),
    ("rotary", "query_position", 65, ValueError, "must lie between 0 and 64, got 65"),
    ("rotary", "key_position", -3, ValueError, "key_position must lie between 0 and 64, got -3"),
    ("rotary", "key_position", 2.5, TypeError, "key_position must be a whole number, got 2.5"),
    ("rotary", "pair", 32, ValueError, "pair must lie between 0 and 31, got 32"),
    ("rotary", "angle", -180, ValueError, "angle must lie between -179 and 180, got -180"),
    ("rotary", "all_pairs", 1, TypeError, "all_pairs must be True or False, got 1"),
    ("score-spread", "key_dim", 48, ValueError, "a power of two from 1 to 1024, got 48"),
    ("score-spread", "key_dim", 2048, ValueError, "a power of two from 1 to 1024, got 2048"),
    ("score-spread", "exponent", 1.05, ValueError, "must lie between 0 and 1, got 1.05"),
    ("score-spread", "exponent", float("nan"), ValueError, "must lie between 0 and 1, got nan"),
    ("score-spread", "exponent", "1/2", TypeError, "exponent must be a number, got '1/2'"),
    ("score-spread", "distribution", "cauchy", ValueError, "one of gaussian, .*, got 'cauchy'"),
    ("jacobian", "n_sources", 1, ValueError, "n_sources must lie between 2 and 64, got 1"),
    ("jacobian", "n_sources", 65, ValueError, "n_sources must lie between 2 and 64, got 65"),
    ("jacobian", "n_leaders", 0, ValueError, "n_leaders must lie between 1 and 64, got 0"),
    ("jacobian", "n_leaders", 1.5, TypeError, "n_leaders must be a whole number, got 1.5"),
    (
        "jacobian",
        "n_leaders",
        17,
        ValueError,
        "n_leaders must be at most n_sources, got n_leaders=17 and n_sources=16",
    ),
    ("jacobian", "gap", -0.1, ValueError, "gap must lie between 0 and 20, got -0.1"),
    ("jacobian", "gap", 20.5, ValueError, "gap must lie between 0 and 20, got 20.5"),
    ("jacobian", "gap", True, TypeError, "gap must be a number, got True"),
    ("mask", "n_targets", 0, ValueError, "n_targets must lie between 1 and 16, got 0"),
    ("mask", "n_sources", 17, ValueError, "n_sources must lie between 1 and 16, got 17"),
    ("mask", "n_sources", 8.0, TypeError, "n_sources must be a whole number, got 8.0"),
    ("mask", "window", -1, ValueError, "window must lie between 0 and 16, got -1"),
    ("mask", "window", "off", TypeError, "window must be a whole number, got 'off'"),
    ("mask", "causal", None, TypeError, "causal must be True or False, got None"),
    (
        "mask",
        "n_prefix",
        9,
        ValueError,
        "n_prefix must be at most n_sources, got n_prefix=9 and n_sources=8",
    ),
    (
        "mask",
        "n_padding",
        9,
        ValueError,
        "n_padding must be at most n_sources, got n_padding=9 and n_sources=8",
    ),
    ("mask", "target", 8, ValueError, "target must be less than n_targets, got target=8 and"),
    ("mask", "source", 8, ValueError, "source must be less than n_sources, got source=8 and"),
    ("mask", "source", -1, ValueError, "source must lie between 0 and 15, got -1"),
    ("heads", "width", 500, ValueError, "a power of two from 64 to 8192, got 500"),
    ("heads", "n_heads", 256, ValueError, "a power of two from 1 to 128, got 256"),
    ("heads", "n_heads", 12, ValueError, "a power of two from 1 to 128, got 12"),
    ("heads", "head_dim", 64.0, TypeError, "head_dim must be a whole number, got 64.0"),
    ("heads", "n_tokens", 8, ValueError, "a power of two from 16 to 131072, got 8"),
    ("attention-maps", "layer", 2, ValueError, "less than the number of layers, 2, got 2"),
    ("attention-maps", "head", 64, ValueError, "head must lie between 0 and 63, got 64"),
    ("attention-maps", "target", True, TypeError, "target must be a whole number, got True"),
    ("attention-maps", "source", None, TypeError, "source must be a whole number, got None"),
]


@pytest.mark.parametrize(("name", "option", "value", "kind", "words"), REFUSED)
def test_a_value_that_no_slider_reaches_is_refused_at_first_and_later(
    name, option, value, kind, words
):
    with pytest.raises(kind, match=words):
        explore(name, **{option: value})
    explorer = explore(name)
    before = explorer.state
    with pytest.raises(kind, match=words):
        setattr(explorer, option, value)
    assert explorer.state == before


def test_what_the_picture_is_built_of_is_fixed():
    explorer = explore("softmax", scores=[1.0, 0.0, 2.0])
    with pytest.raises(ValueError, match="scores must keep their number 3, got 2"):
        explorer.scores = [1.0, 0.0]
    with pytest.raises(ValueError, match="scores must keep their number 3, got 2"):
        explorer.set_state({"scores": [1.0, 0.0]})  # as a front end does
    assert explorer.scores == (1.0, 0.0, 2.0)
    explorer.set_state({"scores": [2.0, 0.0, 1.0]})
    assert explorer.scores == (2.0, 0.0, 1.0)
    explorer.scores = [1.0, 0.0, 2.0]
    with pytest.raises(TypeError, match="does not support item assignment"):
        explorer.scores[0] = 3.0
    with pytest.raises(ValueError, match="got 2 labels and 5 scores"):
        explore("softmax", labels=["the", "cat"])
    with pytest.raises(TypeError, match="labels must be texts"):
        explore("softmax", labels=[1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="points must have 2 to 8 points, got 1"):
        explore("soft-lookup", points=[(0.0, 1.0)])


def test_python_sees_every_change_of_an_option():
    explorer, seen = explore("softmax"), []
    explorer.observe(lambda change: seen.append((change.old, change.new)), names="temperature")
    explorer.set_state({"temperature": 0.25})  # as a front end does
    explorer.temperature = 4
    assert seen == [(1.0, 0.25), (0.25, 4.0)]
    assert explorer.initial["temperature"] == 1.0


def test_the_limits_of_temperature_are_one_source_and_all_sources():
    scores = [0.3, 0.5, -1.0, 0.1]
    cold = explore("softmax", scores=scores, temperature=0.05).facts()
    hot = explore("softmax", scores=[s / 100 for s in scores], temperature=20.0).facts()
    # The runner-up is 0.2 behind: e⁻⁴ at τ = 0.05. Scores within 0.015 at τ = 20 differ by 1e-3.
    assert cold["winner"] == 1
    assert cold["weights"][0] == pytest.approx(cold["weights"][1] * np.exp(-4), rel=1e-12)
    assert hot["weights"] == pytest.approx([0.25] * 4, rel=1e-3)


def test_unscaled_scores_grow_like_the_root_of_d_and_scaled_ones_do_not():
    for d in (1, 16, 1024):
        scaled = explore("softmax", key_dim=d).facts()["weights"]
        raw = explore("softmax", key_dim=d, scaled=False, temperature=4.0).facts()["weights"]
        same = explore("softmax", temperature=max(4.0 / d**0.5, 0.125)).facts()["weights"]
        assert scaled == pytest.approx(explore("softmax", key_dim=1).facts()["weights"], rel=1e-14)
        assert raw == pytest.approx(same, rel=1e-12)


def test_keys_of_one_length_make_the_two_kernels_agree():
    circle = [(2 * np.cos(angle), 2 * np.sin(angle)) for angle in (0.3, 1.1, 2.5, 4.0)]
    gaussian = explore("soft-lookup", points=circle).facts()
    product = explore("soft-lookup", points=circle, kernel="dot-product").facts()
    assert gaussian["weights"] == pytest.approx(product["weights"], rel=1e-12)


def test_the_output_lies_in_the_hull_of_the_values():
    points = EXPLORERS["soft-lookup"].points.default_value
    for query in [(-3.0, 3.0), (0.0, 0.0), (2.6, -0.3)]:
        for kernel in LIMITS["kernels"]:
            output = explore("soft-lookup", query=query, kernel=kernel).facts()["output"]
            # No direction sees the output farther out than the farthest value.
            for angle in np.linspace(0, 2 * np.pi, 37):
                towards = np.array([np.cos(angle), np.sin(angle)])
                assert towards @ output <= max(towards @ np.array(points).T) + 1e-12


def test_equally_near_keys_share_the_limit():
    explorer = explore("soft-lookup", points=[(1, 0), (-1, 0), (0, 2)], query=(0, 0.3))
    assert explorer.facts()["limitKeys"] == [0, 1]
    assert "the mean of keys 1, 2, which tie as the nearest key" in explorer.describe()


@pytest.mark.parametrize("name", NAMES)
def test_the_page_gets_the_state_and_the_picture_in_words(name):
    explorer = explore(name)
    data, _ = explorer._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    page = data["text/html"]
    saved = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page)[1])
    assert f'<div class="attn-explorer" data-explorer="{name}">' in page
    as_json = json.loads(json.dumps(explorer.state))
    assert {key: saved[key] for key in as_json} == as_json
    assert saved["initial"].items() <= as_json.items()
    assert html.escape(explorer.describe()) in page
    assert explorer.describe() in data["text/plain"]


def test_in_the_books_build_nothing_but_the_page_is_made(monkeypatch):
    monkeypatch.setenv("ATTNLIB_BOOK", "1")
    explorer = explore("softmax")
    data, _ = explorer._repr_mimebundle_()
    assert set(data) == {"text/plain", "text/html"}
    assert explorer.comm is None  # so that no page carries the bundle as a saved widget
    explorer.temperature = 2.0
    assert '"temperature": 2.0' in explorer._repr_mimebundle_()[0]["text/html"]


def test_a_label_cannot_end_the_script_that_holds_the_state():
    label = "</script><b>&amp;"
    explorer = explore("softmax", scores=[1, 2], labels=[label, "b"])
    page = explorer._repr_mimebundle_()[0]["text/html"]
    assert page.count("</script>") == 1
    assert "<b>" not in page
    saved = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page)[1])
    assert saved["labels"] == [label, "b"]


def test_colab_is_asked_to_show_widgets(monkeypatch):
    asked = []
    output = types.ModuleType("google.colab.output")
    output.enable_custom_widget_manager = lambda: asked.append("asked")
    colab = types.ModuleType("google.colab")
    colab.output = output
    monkeypatch.setitem(sys.modules, "google", types.ModuleType("google"))
    monkeypatch.setitem(sys.modules, "google.colab", colab)
    explore("softmax")
    assert asked == ["asked"]


@pytest.mark.parametrize("cls", EXPLORERS.values(), ids=EXPLORERS)
def test_the_bundle_is_one_module_whose_only_export_is_render(cls):
    statements = re.findall(r"^[ \t]*(?:import|export)\b.*", cls._esm, re.MULTILINE)
    assert len(statements) == 1
    assert re.fullmatch(r"export default \{ render: module_\w+\.render \};", statements[0])


def test_the_bundler_refuses_what_it_cannot_read(tmp_path):
    (tmp_path / "a.mjs").write_text('import b from "./b.mjs";\nexport const render = b;\n')
    with pytest.raises(ValueError, match=r"a\.mjs must import and export only in the forms"):
        anywidget_module("a.mjs", tmp_path)
    (tmp_path / "c.mjs").write_text('import { d } from "./d.mjs";\nexport const c = d;\n')
    (tmp_path / "d.mjs").write_text('import { c } from "./c.mjs";\nexport const d = c;\n')
    with pytest.raises(ValueError, match=r"in a circle, got c\.mjs → d\.mjs → c\.mjs"):
        anywidget_module("c.mjs", tmp_path)


def test_formulas_mjs_is_what_the_formulas_generate():
    assert (FOLDER / "formulas.mjs").read_text("utf-8") == formulas.javascript_module()


def test_a_formula_with_a_symbol_that_is_no_argument_is_refused():
    x, y = sp.symbols("x y")
    with pytest.raises(ValueError, match=r"every symbol of f must be an argument, got \['y'\]"):
        formulas.javascript_function("f", x * y, (x,))


def test_every_module_ships_in_the_package():
    shipped = importlib.resources.files("attnlib.explore")
    for name in ["page.mjs", "softmax.mjs", "soft-lookup.mjs", "formulas.mjs", "explore.css"]:
        assert shipped.joinpath(name).is_file()
