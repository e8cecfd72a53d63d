"""Last touches to every page: fewer files, valid markup, and a button that opens its notebook."""

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

from repository import colab_url, repository


def drop_unused_files(app: Sphinx, pagename: str, template: str, context: dict, doctree) -> None:
    """Leave out live-kernel scripts: no page has a kernel, and two of them clash.

    sphinx-thebe and the theme both declare THEBE_JS_URL, which is an error on every page.
    """
    for kind in ("script_files", "css_files"):
        context[kind] = [file for file in context.get(kind, []) if "thebe" not in describe(file)]


def describe(file: object) -> str:
    """A script or style sheet's address and inline text, for a look at what it is."""
    body = getattr(file, "attributes", {}).get("body") or ""
    return f"{getattr(file, 'filename', file)} {body}".lower()


# What extensions write into the text of a page and should not, or not so.
TIDIED = [
    # Settings of live kernels, which no page has.
    (re.compile(r'<script type="text/x-thebe-config">.*?</script>', re.DOTALL), ""),
    (re.compile(r"<script>kernelName = .*?</script>"), ""),
    # The same id in every exercise, solution and theorem of a page.
    (re.compile(r' id="(?:exercise|solution|proof)-content"'), ""),
    (
        re.compile(r'<div class="proof admonition" id="proof">\n<p>Proof\. '),
        '<div class="proof attn-proof admonition">\n<p><em>Proof.</em> ',
    ),
    (re.compile(r'<div class="proof admonition" id="proof">'), '<div class="proof admonition">'),
    # A list of entries has entries: this role is its own, and withdrawn.
    (re.compile(r'(class="citation"[^>]*) role="doc-biblioentry"'), r'\1 role="listitem"'),
    # A name for machines that hides the words on the button from them.
    (re.compile(r'<summary aria-label="Toggle hidden content">'), "<summary>"),
]


def tidy_text(app: Sphinx, pagename: str, template: str, context: dict, doctree) -> None:
    """Mend the markup of a page's text."""
    for pattern, replacement in TIDIED:
        context["body"] = pattern.sub(replacement, context.get("body", ""))


def lead_to_notebook(app: Sphinx, pagename: str, template: str, context: dict, doctree) -> None:
    """Let the Colab button and the .ipynb download give the chapter's generated notebook.

    The theme's own point at the executed Markdown: Colab cannot open a .md, and the executed
    notebook still holds raw directives. A page without a notebook gets no button.
    """
    buttons = context.get("header_buttons", [])
    notebook = Path(app.srcdir) / "notebooks" / f"{Path(pagename).name}.ipynb"
    if not notebook.is_file():
        buttons[:] = [button for button in buttons if button.get("label") != "launch-buttons"]
        context.pop("ipynb_source", None)
        return
    address, branch = repository()
    for button in buttons:
        if button.get("label") == "launch-buttons":
            for each in button["buttons"]:
                each["url"] = colab_url(address, branch, f"notebooks/{notebook.name}")
    if "ipynb_source" in context:
        download = Path(app.outdir) / "_sources" / context["ipynb_source"]
        download.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(notebook, download)
