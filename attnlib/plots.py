"""The book's figures: one template, one colour a role, and the few pictures used everywhere.

Importing this module makes the template plotly's default. In the book's build (ATTNLIB_BOOK=1)
figures are saved as data that the page's own script draws; anywhere else, on Colab for
instance, plotly shows them as it always does.

Axes     attnlib/axes.py
"""

import base64
import html
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, pairwise

import numpy as np

from attnlib.timing import Exponent, Timing

try:
    import plotly.graph_objects as go
    import plotly.io as pio
    from plotly.io.base_renderers import MimetypeRenderer
except ModuleNotFoundError as missing:
    library = str(missing.name).split(".")[0]
    raise ImportError(
        f'the figures need {library}, which is not installed: pip install "attnlib[notebooks]"'
    ) from missing

# From the palettes of Okabe and Ito and of Tol: told apart with any kind of colour vision, and
# at least 3 : 1 against a white and against a near-black page (tests/test_plots.py).
ROLES = {"query": "#0077BB", "key": "#D55E00", "value": "#009E73", "output": "#AA4499"}
NO_ROLE = "#6B7785"  # for a curve without a role where curves with roles have all other colours
COLOUR_SCALE = "Cividis"  # grows in lightness alone: the same picture in grey
HEIGHT = 420  # pixels; the page keeps this much room free before a figure is drawn

# The trace types of plotly's cartesian bundle, the one the pages load.
DRAWABLE = {"bar", "box", "contour", "heatmap", "histogram", "histogram2d"}
DRAWABLE |= {"histogram2dcontour", "image", "pie", "scatter", "violin"}

_MOST_TICKS = 8  # what a narrow screen has room for
_DASHES = ("solid", "dash", "dot", "dashdot")
_AXIS = {"showline": True, "ticks": "outside", "automargin": True, "title": {"standoff": 8}}
_COLOUR_BAR = {"thickness": 12, "title_side": "right"}  # narrow, for narrow screens

pio.templates["attnlib"] = go.layout.Template(
    data={"heatmap": [{"colorscale": COLOUR_SCALE, "colorbar": _COLOUR_BAR}]},
    layout={
        "colorway": list(ROLES.values()),
        "font": {"family": "system-ui, sans-serif", "size": 14},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "height": HEIGHT,
        "margin": {"l": 8, "r": 8, "t": 32, "b": 8},
        "xaxis": {**_AXIS, "gridcolor": "#DFE3E8", "linecolor": "#6B7785"},
        "yaxis": {**_AXIS, "gridcolor": "#DFE3E8", "linecolor": "#6B7785"},
        # Above the picture, where a narrow screen has room for it.
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    },
)
pio.templates.default = "attnlib"


def heat_map(
    weights,
    *,
    targets: Sequence | None = None,
    sources: Sequence | None = None,
    x_title: str = "source",
    y_title: str = "target",
    colour_title: str = "weight",
) -> go.Figure:
    """Show a matrix of weights: targets are rows, from the top, and sources are columns.

    Args:
        weights: A matrix with one row a target and one column a source.
        targets: The rows' names; they may repeat, as words do. None numbers the rows.
        sources: The columns' names, likewise.
        x_title: What the columns are.
        y_title: What the rows are.
        colour_title: What a cell's colour measures.

    Raises:
        ValueError: If weights is not a matrix, names are missing, or a title is empty.

    Example:
        >>> figure = heat_map([[0.2, 0.8], [0.5, 0.5]], sources=["the", "sea"])
        >>> describe(figure)
        'Heat map: rows are target, columns are source; 2 by 2 cells from 0.2 to 0.8.'
    """
    weights = _array(weights)
    if weights.ndim != 2:
        raise ValueError(f"weights must have the axes t and s, got the shape {weights.shape}")
    cell = f"{y_title} %{{y}}<br>{x_title} %{{x}}<br>{colour_title} %{{z:.4g}}<extra></extra>"
    heat = go.Heatmap(z=weights, colorbar={"title": {"text": colour_title}}, hovertemplate=cell)
    figure = go.Figure(heat).update_layout(**_titles(x_title, y_title))
    figure.update_xaxes(showgrid=False, **_ticks("source", sources, weights.shape[1]))
    figure.update_yaxes(showgrid=False, **_ticks("target", targets, weights.shape[0]))
    return figure.update_yaxes(autorange="reversed")


def lines(x, curves: Mapping[str, object], *, x_title: str, y_title: str) -> go.Figure:
    """Draw one line for each named curve over x; a curve named after a role has its colour.

    Other curves share the colours that are left, and differ in their dashes where those are few.

    Args:
        x: The places at which every curve is known.
        curves: From a curve's name to its values at x.
        x_title: Quantity and unit of x.
        y_title: Quantity and unit of the curves.

    Raises:
        ValueError: If a curve and x differ in length, or a title is empty.

    Example:
        >>> loss = {"training": [3.1, 2.2], "held out": [3.2, 2.6]}
        >>> figure = lines([1, 2], loss, x_title="epoch", y_title="loss (nats)")
        >>> [trace.name for trace in figure.data]
        ['training', 'held out']
    """
    x = _array(x)
    figure = go.Figure(layout={**_titles(x_title, y_title), "hovermode": "x unified"})
    looks = _looks(curves)
    for name, values in curves.items():
        y = _array(values)
        if y.shape != x.shape:
            raise ValueError(f"curve {name!r} must have the shape of x, {x.shape}, got {y.shape}")
        figure.add_scatter(x=x, y=y, name=_escaped(name), mode="lines", line=looks[name])
    return figure.update_layout(showlegend=len(curves) > 1)


def timings(
    sizes: Sequence[int],
    curves: Mapping[str, Sequence[Timing]],
    *,
    fits: Mapping[str, Exponent] | None = None,
    x_title: str,
    y_title: str = "time (s)",
) -> go.Figure:
    """Draw times against sizes, both on logarithmic scales, on which a power law is a line.

    A curve goes through the medians; the band around it holds the middle half of the repeats.

    Args:
        sizes: Where every curve was timed, from 1 and growing.
        curves: From a curve's name to one timing for each size, none of no time.
        fits: From the names of some curves to the law that was fitted to them: a dotted line over
            its own sizes, whose name tells the slope and its standard error.
        x_title: What the sizes count.
        y_title: Quantity and unit of the times.

    Raises:
        ValueError: If the sizes do not grow from 1 on, a curve and the sizes differ in length, a
            time is 0, a fit is of no curve, or a title is empty.

    Example:
        >>> from attnlib.timing import fit_exponent
        >>> sizes, seconds = [64, 128, 256], [0.5, 1.0, 2.0]
        >>> cached = [Timing((0.9 * s, s, 1.2 * s)) for s in seconds]
        >>> fits = {"cached": fit_exponent(sizes, seconds)}
        >>> figure = timings(sizes, {"cached": cached}, fits=fits, x_title="tokens")
        >>> [trace.name for trace in figure.data]
        ['cached, middle half', 'cached', 'cached: slope 1.00 ± 0.00']
    """
    sizes, fits = list(sizes), dict(fits or {})
    if not sizes or sizes[0] < 1 or any(a >= b for a, b in pairwise(sizes)):
        raise ValueError(f"sizes must be at least 1 and grow, got {sizes}")
    for name, curve in curves.items():
        if len(curve) != len(sizes):
            raise ValueError(
                f"curve {name!r} must have one timing a size, {len(sizes)}, got {len(curve)}"
            )
        if min(timing.spread.lower for timing in curve) <= 0:
            raise ValueError(f"a logarithm needs times above 0, got 0 in curve {name!r}")
    if strange := [name for name in fits if name not in curves]:
        raise ValueError(f"a fit must be of a curve, {', '.join(curves)}, got {strange[0]!r}")

    figure = go.Figure(layout=_titles(x_title, y_title))
    looks = _looks(curves)
    for name, curve in curves.items():
        spreads = [timing.spread for timing in curve]
        edge = [each.upper for each in spreads] + [each.lower for each in reversed(spreads)]
        figure.add_scatter(
            x=sizes + sizes[::-1],
            y=edge,
            name=f"{_escaped(name)}, middle half",
            mode="lines",
            line={"width": 0},
            fill="toself",
            fillcolor=_faint(looks[name]["color"]),
            hoverinfo="skip",
            showlegend=False,
        )
        medians = [each.median for each in spreads]
        figure.add_scatter(
            x=sizes, y=medians, name=_escaped(name), mode="lines+markers", line=looks[name]
        )
        if name in fits:
            ends = [min(fits[name].sizes), max(fits[name].sizes)]
            figure.add_scatter(
                x=ends,
                y=[fits[name].seconds_at(size) for size in ends],
                name=f"{_escaped(name)}: slope {fits[name]}",
                mode="lines",
                line={"color": looks[name]["color"], "dash": "dot", "width": 1},
            )
    figure.update_xaxes(type="log")
    if len(sizes) <= _MOST_TICKS:
        figure.update_xaxes(tickvals=sizes, ticktext=[f"{size:,}" for size in sizes])
    return figure.update_yaxes(type="log", exponentformat="power")


def bars(
    names: Sequence, heights, *, x_title: str, y_title: str, role: str | None = None
) -> go.Figure:
    """Draw one bar for each name; names may repeat, as words do.

    Args:
        names: What stands under the bars.
        heights: One number for each name.
        x_title: What the names are.
        y_title: Quantity and unit of the heights.
        role: "query", "key", "value" or "output", for its colour.

    Raises:
        ValueError: If the counts differ, a title is empty, or the role is unknown.

    Example:
        >>> figure = bars(["the", "sea"], [0.3, 0.7], x_title="word", y_title="weight")
        >>> figure.layout.xaxis.ticktext
        ('the', 'sea')
    """
    heights = _array(heights)
    if role is not None and role not in ROLES:
        raise ValueError(f"role must be one of {', '.join(ROLES)}, got {role!r}")
    if heights.shape != (len(names),):
        raise ValueError(f"heights must be one number a name, {len(names)}, got {heights.shape}")
    figure = go.Figure(layout=_titles(x_title, y_title))
    figure.add_bar(x=np.arange(len(names)), y=heights, marker_color=ROLES.get(role))
    return figure.update_xaxes(**_ticks("bar", names, len(names)))


def describe(figure: go.Figure) -> str:
    """Say in a sentence or two what a figure shows: its text for those who do not see it."""
    layout = figure.layout
    x_title = layout.xaxis.title.text or "x"
    y_title = layout.yaxis.title.text or "y"
    sentences = [f"{y_title} against {x_title}."]
    for trace in figure.data:
        if trace.type == "heatmap":
            z = _decoded(trace.z)
            sentences = [
                f"Heat map: rows are {y_title}, columns are {x_title}; "
                f"{z.shape[0]} by {z.shape[1]} cells{_range(z)}."
            ]
        else:
            name = f"{_kind(trace)} {html.unescape(trace.name or '')}".rstrip()
            y = _decoded(trace.y)
            count = "1 value" if y.size == 1 else f"{y.size} values"
            sentences.append(f"{name}: {count}{_range(y)}." if y.size else f"{name}.")
    return " ".join(sentences)


def _kind(trace) -> str:
    if trace.type != "scatter":
        return trace.type.capitalize()
    if trace.fill == "toself":
        return "Band"
    return "Points" if trace.mode == "markers" else "Line"


def _range(values: np.ndarray) -> str:
    """Where numbers lie, in words; nothing for names, or where no number is finite."""
    numbers = values[np.isfinite(values)] if values.dtype.kind in "iuf" else values[:0]
    return f" from {numbers.min():.3g} to {numbers.max():.3g}" if numbers.size else ""


def _decoded(held) -> np.ndarray:
    """A trace's values as an array; plotly's JSON holds arrays as base64 with type and shape."""
    if not (isinstance(held, dict) and "bdata" in held):
        return np.asarray([] if held is None else held)
    flat = np.frombuffer(base64.b64decode(held["bdata"]), dtype=held["dtype"])
    return flat.reshape([int(size) for size in held.get("shape", "-1").split(",")])


def _array(values) -> np.ndarray:
    """A NumPy array of NumPy's, torch's or Python's numbers."""
    if not hasattr(values, "detach"):
        return np.asarray(values)
    values = values.detach().cpu()
    # NumPy has no bfloat16; the page's table has no float16.
    narrow = values.is_floating_point() and values.element_size() < 4
    return (values.float() if narrow else values).numpy()


def _looks(names: Iterable[str]) -> dict[str, dict]:
    """A line's colour and dash for each name: roles have their colours, others what is left."""
    names = list(names)
    left = [colour for role, colour in ROLES.items() if role not in names] or [NO_ROLE]
    without_role = cycle({"color": colour, "dash": dash} for dash in _DASHES for colour in left)
    return {name: {"color": ROLES[name]} if name in ROLES else next(without_role) for name in names}


def _faint(colour: str) -> str:
    """A colour that lets what is under it be seen."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, 0.2)"


def _titles(x_title: str, y_title: str) -> dict:
    if not (x_title and y_title):
        raise ValueError(f"both axes need a title, got x_title={x_title!r}, y_title={y_title!r}")
    return {"xaxis_title_text": x_title, "yaxis_title_text": y_title}


def _ticks(axis: str, names: Sequence | None, n: int) -> dict:
    """Ticks by position: plotly would lay equal names on one another."""
    if names is None:
        return {}
    if len(names) != n:
        raise ValueError(f"there must be one name for each {axis}, {n}, got {len(names)}")
    return {"tickvals": list(range(n)), "ticktext": [_escaped(name) for name in names]}


def _escaped(name: object) -> str:
    """A name as plotly shows it in full: it reads <s> as a tag and &lt; as a sign."""
    return html.escape(str(name), quote=False)


class BookRenderer(MimetypeRenderer):
    """Save a figure as data with a description; book/js/figures.js draws it."""

    def to_mimebundle(self, fig_dict: dict) -> dict:
        figure = go.Figure(fig_dict)
        for trace in figure.data:
            if trace.type not in DRAWABLE:
                raise ValueError(
                    f"the pages draw the trace types {', '.join(sorted(DRAWABLE))}, "
                    f"got {trace.type!r}"
                )
        text = html.escape(describe(figure))
        height = figure.layout.height or HEIGHT
        return {
            "text/html": (
                '<div class="attn-figure">'
                f'<div class="attn-plot" role="img" aria-label="{text}" '
                f'style="min-height:{height:g}px"></div>'
                f'<script type="application/json">{figure.to_json()}</script>'
                f"<noscript><p>This figure is drawn by JavaScript. {text}</p></noscript>"
                "</div>"
            ),
            "text/plain": describe(figure),
        }


if os.environ.get("ATTNLIB_BOOK") == "1":
    pio.renderers["attnlib"] = BookRenderer()
    pio.renderers.default = "attnlib"
