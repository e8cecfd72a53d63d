"""Gates that Sphinx and Jupyter Book lack: formulas that do not typeset, figures that vanish.

Each fault is a warning with its place, and the build counts warnings as errors.
"""

import contextlib
import html
import json
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from assets import run_node

LOGGER = logging.getLogger(__name__)
PLOTLY = "application/vnd.plotly.v1+json"


def check_formulas(app: Sphinx, env: BuildEnvironment) -> None:
    """Typeset every formula of the book with the MathJax and the macros of its pages."""
    pages = {name: formulas(app, env.get_doctree(name)) for name in sorted(env.found_docs)}
    request = {
        "tex": app.config.mathjax3_config["tex"],
        "pages": [[formula for _, formula in found] for found in pages.values()],
    }
    for found, complaints in zip(pages.values(), run_node("check_tex.cjs", request), strict=True):
        for (node, formula), complaint in zip(found, complaints, strict=True):
            if complaint:
                LOGGER.warning(
                    "formula: %s in %s",
                    html.unescape(complaint),
                    " ".join(formula["tex"].split()),
                    location=place(node),
                )


def formulas(app: Sphinx, doctree: nodes.document) -> list[tuple[nodes.Node, dict]]:
    """Every formula of a page as the page will hand it to MathJax."""
    inline = [
        (node, {"tex": node.astext(), "display": False}) for node in doctree.findall(nodes.math)
    ]
    blocks = doctree.findall(nodes.math_block)
    return inline + [(node, {"tex": as_written(app, node), "display": True}) for node in blocks]


class Writer:
    """The little of Sphinx's HTML writer that its formula writers ask for."""

    def __init__(self, app: Sphinx) -> None:
        self.builder = app.builder
        self.body: list[str] = []

    def starttag(self, *_: object, **__: object) -> str:
        return ""

    def encode(self, text: str) -> str:
        return text


def as_written(app: Sphinx, node: nodes.math_block) -> str:
    """The block's TeX with the alignment that Sphinx puts around it."""
    visit, _ = app.registry.html_block_math_renderers["mathjax"]
    writer, bare = Writer(app), node.deepcopy()
    bare["number"] = None  # the number stands outside the formula
    with contextlib.suppress(nodes.SkipNode):
        visit(writer, bare)
    opening, closing = map(re.escape, app.config.mathjax_display)
    written = "".join(writer.body)
    framed = re.search(f"{opening}(.*){closing}", written, re.DOTALL)
    return framed[1] if framed else written.removesuffix("</div>")


def place(node: nodes.Node) -> nodes.Node:
    """The nearest node that knows its line."""
    while node.parent is not None and node.line is None:
        node = node.parent
    return node


def check_figures(app: Sphinx, env: BuildEnvironment) -> None:
    """Refuse figures that no page can show: myst-nb drops them without a word."""
    executed = Path(app.outdir).parent / "jupyter_execute"
    for name in sorted(env.found_docs):
        path = executed / f"{name}.ipynb"
        for cell in json.loads(path.read_text("utf-8"))["cells"] if path.is_file() else []:
            for output in cell.get("outputs", []):
                data = output.get("data", {})
                if PLOTLY in data and "text/html" not in data:
                    LOGGER.warning(
                        "figure: a plotly figure that the page cannot show; "
                        "import attnlib.plots before drawing",
                        location=name,
                    )
