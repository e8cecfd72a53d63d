"""The Sphinx extension of this book: light pages of our own files, and gates that bite.

`jupyter-book build .` is enough once `book/set_up.py` has run: what the pages need is put
together here, before the first page is read.
"""

import os
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

import assets
import citations
import gates
import icons
import page
from repository import repository

BOOK = Path(__file__).resolve().parent


def setup(app: Sphinx) -> dict:
    # attnlib.plots and attnlib.explore read this in the kernels, which inherit the environment:
    # in the book a figure is saved as data for the page's own script to draw.
    os.environ["ATTNLIB_BOOK"] = "1"
    citations.register_style()
    # Before Sphinx asks whether the folder of assets exists, which a fresh clone has not.
    app.connect("config-inited", assemble_assets, priority=50)
    app.connect("config-inited", configure, priority=100)
    app.connect("config-inited", settle_mathjax, priority=900)
    app.connect("env-check-consistency", gates.check_formulas)
    app.connect("env-check-consistency", gates.check_figures)
    app.connect("html-page-context", page.drop_unused_files, priority=900)
    app.connect("html-page-context", page.tidy_text, priority=900)
    app.connect("html-page-context", page.lead_to_notebook, priority=900)
    app.connect("build-finished", icons.keep_used_icons)
    app.add_css_file("book.css", priority=900)
    app.add_js_file("book.js", priority=900, loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def configure(app: Sphinx, config: Config) -> None:
    """Take the repository from its one place, and the page's frame from our templates."""
    address, branch = repository()
    config.html_theme_options |= {"repository_url": address, "repository_branch": branch}
    config.templates_path.append(str(BOOK / "templates"))
    config.html_favicon = str(BOOK / "favicon.svg")
    config.mathjax_path = "mathjax/tex-chtml.js"


def settle_mathjax(app: Sphinx, config: Config) -> None:
    """Configure MathJax after myst-parser had its say; the formula gate uses the same `tex`."""
    settings = dict(config.mathjax3_config or {})
    settings["tex"] = formula_settings(settings.get("tex", {}))
    # The menu makes each formula a stop of the tab key: hundreds before the first slider.
    settings["options"] = {**settings.get("options", {}), "enableMenu": False}
    config.mathjax3_config = settings


def formula_settings(tex: dict) -> dict:
    """Refuse what MathJax lets pass: unknown macros, and macros defined in passing.

    A macro has one home, `_config.yml` (mathjax3_config: {tex: {macros: …}}), so that all
    pages know it and the gate can check each page in any order.
    """
    return {
        **tex,
        "packages": {"[-]": ["noundefined", "newcommand"]},
        "autoload": {"newcommand": []},
    }


def assemble_assets(app: Sphinx, config: Config) -> None:
    try:
        assets.assemble()
    except RuntimeError as error:
        # One sentence that says what to do; after any other error Jupyter Book adds a long trace.
        raise SystemExit(f"\n{error}") from None
