"""The claims of attnlib.plots: one colour a role, names in their places, data that survive."""

import base64
import importlib
import json
import re
import subprocess
import sys
from itertools import combinations

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
import pytest
import torch

from attnlib import plots
from attnlib.timing import Timing, fit_exponent

# How the three kinds of colour blindness mix linear red, green and blue (Machado, Oliveira and
# Fernandes 2009, severity 1).
VISION = {
    "full": np.eye(3),
    "without red cones": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "without green cones": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
    "without blue cones": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]]
    ),
}  # fmt: skip
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE_XYZ = TO_XYZ.sum(axis=1)


def linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return TO_XYZ[1] @ linear(colour)


def lab(colour: str, vision: np.ndarray) -> np.ndarray:
    """The colour in CIE L*a*b*, where a distance of about 2 can just be seen."""
    x, y, z = np.cbrt(TO_XYZ @ np.clip(vision @ linear(colour), 0, 1) / WHITE_XYZ)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("page", ["#FFFFFF", "#121212"])
def test_role_colours_stand_out_from_a_light_and_a_dark_page(page):
    """WCAG asks 3 : 1 of what carries meaning in a picture."""
    for colour in (*plots.ROLES.values(), plots.NO_ROLE):
        dark, light = sorted([luminance(colour), luminance(page)])
        assert (light + 0.05) / (dark + 0.05) >= 3


@pytest.mark.parametrize("vision", VISION)
def test_role_colours_are_told_apart_with_any_colour_vision(vision):
    """Five times the distance that can just be seen."""
    for one, other in combinations((*plots.ROLES.values(), plots.NO_ROLE), 2):
        assert np.linalg.norm(lab(one, VISION[vision]) - lab(other, VISION[vision])) >= 10


def test_the_colour_scale_of_a_heat_map_grows_lighter_throughout():
    figure = plots.heat_map(np.eye(2))
    template = figure.layout.template.data.heatmap[0]
    assert figure.data[0].colorscale is None, "the template's scale is overridden"
    lightness = [lab(colour, np.eye(3))[0] for _, colour in template.colorscale]
    assert lightness == sorted(lightness)


def test_the_first_target_of_a_heat_map_is_the_top_row():
    figure = plots.heat_map([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    assert figure.layout.yaxis.autorange == "reversed"
    assert figure.layout.xaxis.autorange is None
    np.testing.assert_array_equal(figure.data[0].z, [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])


def test_equal_words_keep_rows_and_columns_of_their_own():
    figure = plots.heat_map(np.ones((2, 3)), targets=["be", "be"], sources=["to", "be", "to"])
    assert figure.layout.xaxis.tickvals == (0, 1, 2)
    assert figure.layout.xaxis.ticktext == ("to", "be", "to")
    assert figure.layout.yaxis.tickvals == (0, 1)
    assert figure.layout.yaxis.ticktext == ("be", "be")


def test_equal_words_keep_bars_of_their_own():
    figure = plots.bars(["to", "be", "to"], [3, 1, 2], x_title="word", y_title="count")
    np.testing.assert_array_equal(figure.data[0].x, [0, 1, 2])
    assert figure.layout.xaxis.ticktext == ("to", "be", "to")


def test_a_curve_named_after_a_role_has_its_colour():
    curves = {"key": [1, 2], "other": [2, 1]}
    figure = plots.lines([0, 1], curves, x_title="step", y_title="loss")
    assert [trace.line.color for trace in figure.data] == [plots.ROLES["key"], plots.ROLES["query"]]


@pytest.mark.parametrize("roles", [("query",), ("key", "output"), tuple(plots.ROLES)])
def test_no_other_curve_has_the_colour_of_a_role_in_the_same_picture(roles):
    names = ["a", "b", *roles, "c", "d", "e"]
    curves = {name: [1, 2] for name in names}
    figure = plots.lines([0, 1], curves, x_title="step", y_title="loss")
    look = {trace.name: (trace.line.color, trace.line.dash) for trace in figure.data}
    assert len(set(look.values())) == len(names) or roles == tuple(plots.ROLES)
    for name, (colour, _) in look.items():
        if name in roles:
            assert colour == plots.ROLES[name]
        else:
            assert colour is not None
            assert colour not in {plots.ROLES[role] for role in roles}


def timed(*medians):
    """A quarter of the repeats took at most half the median, three quarters at most its double."""
    return tuple(Timing((0.5 * s, s, 2.0 * s)) for s in medians)


def test_times_are_drawn_on_logarithmic_scales_with_the_middle_half_of_the_repeats():
    curves = {"cached": timed(1.0, 2.0, 4.0), "uncached": timed(1.0, 4.0, 16.0)}
    figure = plots.timings([64, 128, 256], curves, x_title="tokens")
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert figure.layout.xaxis.tickvals == (64, 128, 256)
    assert figure.layout.xaxis.ticktext == ("64", "128", "256")
    assert figure.layout.yaxis.title.text == "time (s)"
    band, line = figure.data[2:]
    assert line.x == (64, 128, 256) and line.y == (1.0, 4.0, 16.0)
    # once along the upper quartiles and back along the lower ones: 1.5 and 0.75 of the medians
    assert band.x == (64, 128, 256, 256, 128, 64)
    assert band.y == (1.5, 6.0, 24.0, 12.0, 3.0, 0.75)
    assert band.fill == "toself"
    rgb = tuple(int(line.line.color[i : i + 2], 16) for i in (1, 3, 5))
    assert band.fillcolor == f"rgba{(*rgb, 0.2)}"
    assert figure.data[0].fillcolor != band.fillcolor
    assert not band.showlegend and line.showlegend is None


def test_a_slope_is_a_line_over_the_sizes_that_it_was_fitted_to():
    sizes = [1, 2, 4, 8]
    fits = {"a": fit_exponent(sizes[1:], [6.0, 12.0, 24.0])}
    curves = {"a": timed(5.0, 6.0, 12.0, 24.0), "b": timed(1.0, 1.0, 1.0, 1.0)}
    figure = plots.timings(sizes, curves, fits=fits, x_title="tokens")
    (slope,) = [trace for trace in figure.data if trace.line.dash == "dot"]
    assert slope.name == "a: slope 1.00 ± 0.00"
    assert slope.x == (2.0, 8.0)
    np.testing.assert_allclose(slope.y, [6.0, 24.0], rtol=1e-12)
    assert slope.line.color == figure.data[1].line.color


def test_times_can_be_put_into_words():
    words = plots.describe(plots.timings([1, 2], {"<a>": timed(1.0, 3.0)}, x_title="tokens"))
    assert words == (
        "time (s) against tokens. Band <a>, middle half: 4 values from 0.75 to 4.5. "
        "Line <a>: 2 values from 1 to 3."
    )


def test_a_figure_of_times_needs_sizes_that_grow_and_times_above_zero():
    curve, fit = timed(1.0, 2.0), fit_exponent([1, 2, 4], [1.0, 2.0, 4.0])

    def refused(says, sizes, curves, **options):
        with pytest.raises(ValueError, match=re.escape(says)):
            plots.timings(sizes, curves, **{"x_title": "tokens", **options})

    refused("sizes must be at least 1 and grow, got [2, 2]", [2, 2], {"a": curve})
    refused("sizes must be at least 1 and grow, got []", [], {"a": ()})
    refused("sizes must be at least 1 and grow, got [0, 1]", [0, 1], {"a": curve})
    refused("curve 'a' must have one timing a size, 3, got 2", [1, 2, 3], {"a": curve})
    refused("times above 0, got 0 in curve 'a'", [1, 2], {"a": timed(1.0, 0.0)})
    refused("a fit must be of a curve, a, got 'b'", [1, 2], {"a": curve}, fits={"b": fit})
    refused("both axes need a title", [1, 2], {"a": curve}, x_title="")


def test_tensors_that_need_gradients_are_drawn():
    weights = torch.full((2, 3), 0.25, requires_grad=True)
    np.testing.assert_array_equal(plots.heat_map(weights).data[0].z, np.full((2, 3), 0.25))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_tensors_of_every_float_are_drawn(dtype):
    weights = torch.tensor([[0.25, 0.75]], dtype=dtype, requires_grad=True)
    z = plots.heat_map(weights).data[0].z
    np.testing.assert_array_equal(z, [[0.25, 0.75]])
    assert z.dtype == (np.float64 if dtype == torch.float64 else np.float32)


NAMES = ["<s>", "&lt;", "AT&T", "<b>x</b>"]
AS_PLOTLY_READS_THEM = ("&lt;s&gt;", "&amp;lt;", "AT&amp;T", "&lt;b&gt;x&lt;/b&gt;")


def test_names_are_shown_in_full_and_not_read_as_markup():
    heat = plots.heat_map(np.eye(4), targets=NAMES, sources=NAMES)
    assert heat.layout.xaxis.ticktext == heat.layout.yaxis.ticktext == AS_PLOTLY_READS_THEM
    bars = plots.bars(NAMES, [1, 2, 3, 4], x_title="token", y_title="count")
    assert bars.layout.xaxis.ticktext == AS_PLOTLY_READS_THEM
    curves = {name: [1, 2] for name in NAMES}
    lines = plots.lines([0, 1], curves, x_title="step", y_title="loss")
    assert tuple(trace.name for trace in lines.data) == AS_PLOTLY_READS_THEM
    for name in NAMES:
        assert f"Line {name}: 2 values" in plots.describe(lines)


@pytest.mark.parametrize(
    "draw",
    [
        lambda **titles: plots.heat_map(np.eye(2), **titles),
        lambda **titles: plots.lines([1, 2], {"a": [1, 2]}, **titles),
        lambda **titles: plots.bars(["a"], [1], **titles),
    ],
    ids=["heat_map", "lines", "bars"],
)
@pytest.mark.parametrize("titles", [("", "loss"), ("step", "")])
def test_an_axis_without_a_title_is_refused(draw, titles):
    with pytest.raises(ValueError, match="both axes need a title"):
        draw(x_title=titles[0], y_title=titles[1])


def test_counts_that_differ_are_refused_with_both_counts():
    with pytest.raises(ValueError, match="one name for each source, 3, got 2"):
        plots.heat_map(np.ones((2, 3)), sources=["to", "be"])
    with pytest.raises(ValueError, match=r"axes t and s, got the shape \(2, 3, 5\)"):
        plots.heat_map(np.ones((2, 3, 5)))
    with pytest.raises(ValueError, match=r"curve 'a' must have the shape of x, \(2,\), got \(3,\)"):
        plots.lines([1, 2], {"a": [1, 2, 3]}, x_title="x", y_title="y")
    with pytest.raises(ValueError, match=r"one number a name, 2, got \(3,\)"):
        plots.bars(["to", "be"], [1, 2, 3], x_title="x", y_title="y")
    with pytest.raises(ValueError, match="role must be one of query, key, value, output"):
        plots.bars(["to"], [1], x_title="x", y_title="y", role="queries")


def test_without_plotly_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['plotly'] = None\n"
        "try: import attnlib.plots\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        'the figures need plotly, which is not installed: pip install "attnlib[notebooks]"'
    )


@pytest.fixture
def in_book(monkeypatch):
    """attnlib.plots as the book's kernels import it."""
    before = pio.renderers.default
    monkeypatch.setenv("ATTNLIB_BOOK", "1")
    importlib.reload(plots)
    yield
    monkeypatch.undo()
    pio.renderers.default = before
    importlib.reload(plots)


def saved(figure: go.Figure) -> tuple[dict, str]:
    """The figure's data and its whole HTML, as a page holds them."""
    page = figure._repr_mimebundle_(None, None)["text/html"]
    held = re.search(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)[1]
    return json.loads(held), page


def test_in_the_book_a_figure_is_saved_as_its_data(in_book):
    data, page = saved(plots.heat_map(np.array([[0.5, 0.25, 0.25]])))
    z = data["data"][0]["z"]
    values = np.frombuffer(base64.b64decode(z["bdata"]), dtype=z["dtype"])
    np.testing.assert_array_equal(values, [0.5, 0.25, 0.25])
    assert "plotly.js" not in page and "http" not in page


def test_in_the_book_a_name_cannot_end_the_data_early(in_book):
    name = 'a </script> "b"'
    data, page = saved(plots.lines([0, 1], {name: [1, 2]}, x_title="x & y", y_title='<"y">'))
    assert data["data"][0]["name"] == 'a &lt;/script&gt; "b"'
    assert page.count("</script>") == 1
    label = re.search(r'aria-label="([^"]*)"', page)[1]
    assert "&lt;&quot;y&quot;&gt; against x &amp; y." in label


def test_in_the_book_a_figure_comes_with_its_text(in_book):
    bundle = plots.heat_map([[0.25, 0.75]])._repr_mimebundle_(None, None)
    expected = "Heat map: rows are target, columns are source; 1 by 2 cells from 0.25 to 0.75."
    assert set(bundle) == {"text/html", "text/plain"}
    assert bundle["text/plain"] == expected
    assert f'role="img" aria-label="{expected}"' in bundle["text/html"]


def test_in_the_book_a_figure_that_no_page_can_draw_is_refused(in_book):
    figure = go.Figure(go.Surface(z=[[1, 2], [3, 4]]))
    with pytest.raises(ValueError, match="got 'surface'"):
        figure._repr_mimebundle_(None, None)


def test_outside_the_book_plotly_keeps_its_own_renderer(monkeypatch):
    before = pio.renderers.default
    monkeypatch.delenv("ATTNLIB_BOOK", raising=False)
    importlib.reload(plots)
    assert pio.renderers.default == before != "attnlib"


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        (go.Figure(go.Scatter(x=[1, 2], y=[3, 5], name="key")), "y against x. Line key: 2 values"),
        (go.Figure(go.Scatter(y=[3, 5], mode="markers")), "Points: 2 values from 3 to 5."),
        (go.Figure(go.Bar(y=[7])), "Bar: 1 value from 7 to 7."),
        (go.Figure(go.Histogram(x=[1, 1, 2])), "Histogram."),
        (go.Figure(go.Scatter(x=[1], y=[np.nan])), "Line: 1 value."),
        (go.Figure(go.Bar(x=[1], y=["a"], orientation="h")), "Bar: 1 value."),
        (go.Figure(), "y against x."),
    ],
)
def test_every_figure_can_be_put_into_words(figure, words):
    assert words in plots.describe(figure)
