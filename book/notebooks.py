"""Write each chapter as a notebook for Colab: `python book/notebooks.py` (make notebooks).

With --check nothing is written; the exit status says whether `notebooks/` is what the chapters
give, and the message names every notebook that is not.
"""

import argparse
import hashlib
import posixpath
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import nbformat
import yaml
from jupytext.myst import myst_to_notebook
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from citations import read_bibliography
from cross_references import Index, Label, index_book, pages_in_order
from myst_syntax import SourceError, directive_name, figure_options, markdown_parser, read_directive
from myst_to_markdown import Book, Page, details, quotation
from repository import ROOT, Repository, pages_url, repository
from tex_macros import read_macros

INSTALL = """\
# @title Set-up: installs attnlib where it is missing, and leaves everything else as it is
try:
    import attnlib
except ImportError:
    %pip install -q "{requirement}"
"""

METADATA = {
    "colab": {"provenance": [], "toc_visible": True},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


@dataclass(frozen=True)
class Piece:
    """A stretch of a chapter that becomes one cell: Markdown, or code with its metadata.

    `inside` is the label of the solution or exercise around it, if one is open.
    """

    text: str
    line: int
    code: dict | None = None
    inside: Label | None = None
    continued: bool = False


def requirement(where: Repository) -> str:
    """Return what pip is asked to install: attnlib from the book's repository."""
    return f"attnlib[notebooks] @ git+{where.url}@{where.branch}"


# ---- a chapter's pieces -------------------------------------------------------------------


def pieces(page: str, text: str, index: Index) -> Iterator[Piece]:
    """Split a chapter at its code cells, its headings, and where a solution opens or ends."""
    source = myst_to_notebook(text, add_source_map=True)
    lines = text.splitlines()
    around: Label | None = None
    begun = False
    for cell, start in zip(source.cells, source.metadata["source_map"], strict=True):
        if cell.cell_type == "code":
            yield Piece(cell.source, start, dict(cell.metadata), around)
            continue
        if cell.cell_type != "markdown":
            raise SourceError(page, start, f"a {cell.cell_type} cell has no use in a notebook")
        while not lines[start].strip():
            start += 1
        for piece in _markdown_pieces(page, cell.source, start + 1):
            gate = _gate(page, piece)
            if gate is None:
                yield replace(piece, inside=around, continued=begun)
                begun = around is not None
            elif gate.name.endswith("-start"):
                around, begun = index.at[page, gate.line], False
                if gate.body.strip():
                    yield replace(piece, text=gate.body, line=gate.body_line, inside=around)
                    begun = True
            else:
                around, begun = None, False
    if around is not None:
        raise SourceError(page, len(lines), f"the {around.kind} {around.name!r} never ends")


GATES = {f"{kind}-{end}" for kind in ("exercise", "solution") for end in ("start", "end")}


def _markdown_pieces(page: str, text: str, first_line: int) -> Iterator[Piece]:
    """Split Markdown before its headings of level 1 to 3 and around its gates."""
    lines, cuts = text.splitlines(), {0}
    tokens = markdown_parser().parse(text)
    for position, token in enumerate(tokens):
        if token.level or not token.map:
            continue
        if token.type == "heading_open" and token.tag in ("h1", "h2", "h3"):
            # A label belongs to the heading below it.
            while position and tokens[position - 1].type == "myst_target":
                position -= 1
            cuts.add(tokens[position].map[0])
        elif directive_name(token) in GATES:
            cuts |= set(token.map)
    for start, end in zip(sorted(cuts), [*sorted(cuts)[1:], len(lines)], strict=True):
        if any(row.strip() for row in lines[start:end]):
            yield Piece("\n".join(lines[start:end]), first_line + start)


def _gate(page: str, piece: Piece):
    """Return the directive if the piece opens or ends an exercise or a solution."""
    for token in markdown_parser().parse(piece.text):
        if not token.level and directive_name(token) in GATES:
            return read_directive(token, page, piece.line, piece.text.splitlines())
    return None


# ---- cells --------------------------------------------------------------------------------


def cells(page: Page, text: str) -> Iterator[tuple[nbformat.NotebookNode, str]]:
    """Return a chapter's cells, each with the source text that its id is made of."""
    for piece in pieces(page.name, text, page.book.index):
        if piece.code is None:
            yield new_markdown_cell(_markdown(page, piece)), piece.text
            continue
        yield _code_cell(page, piece), piece.text
        label = page.book.index.at.get((page.name, piece.line))
        if label is not None and label.kind == "figure":
            caption = page.inline(" ".join(label.title.split()), piece.line)
            start = f"**{label.text}.** " if label.number is not None else ""
            shown = f"{page.anchor(label.name)}{start}{caption}"
            yield new_markdown_cell(shown), f"caption of {piece.text}"


def _markdown(page: Page, piece: Piece) -> str:
    body = page.blocks(piece.text, piece.line)
    if piece.inside is None:
        return body
    title = _title_around(page, piece)
    anchor = "" if piece.continued else page.anchor(piece.inside.name)
    if piece.inside.kind == "solution":
        return details(title, body, anchor)
    return quotation(body if piece.continued else f"{anchor}**{title}**\n\n{body}")


def _title_around(page: Page, piece: Piece) -> str:
    label = piece.inside
    if label.kind == "solution":
        more = ", continued" if piece.continued else ""
        return page.solution_title(label, piece.line) + more
    title = page.inline(label.title, piece.line)
    return f"{label.text} ({title})" if title else label.text


def _code_cell(page: Page, piece: Piece) -> nbformat.NotebookNode:
    """Return a code cell; hidden input and solutions are collapsed, in Colab as a form."""
    metadata = {key: value for key, value in piece.code.items() if key != "mystnb"}
    tags = set(metadata.get("tags") or [])
    source = piece.text
    in_solution = piece.inside is not None and piece.inside.kind == "solution"
    if in_solution or tags & {"hide-input", "hide-cell", "remove-input"}:
        metadata |= {"cellView": "form", "jupyter": {"source_hidden": True}}
        if not source.startswith("%%"):
            source = f"# @title {_form_title(page, piece, in_solution)}\n{source}"
    if tags & {"hide-output", "hide-cell"}:
        metadata["jupyter"] = {**metadata.get("jupyter", {}), "outputs_hidden": True}
    return new_code_cell(source, metadata=metadata)


def _form_title(page: Page, piece: Piece, in_solution: bool) -> str:
    """Return what a collapsed cell says of itself; Colab shows it instead of the code."""
    label = page.book.index.at.get((page.name, piece.line))
    if in_solution:
        return f"Solution to {page.label(piece.inside.target, piece.line).text}: the code"
    if figure_options(piece.code) and label is not None:
        return f"{label.text}: the code"
    imports = piece.text.lstrip().startswith(("import ", "from "))
    return "Imports and settings" if imports else "The code behind this output"


# ---- notebooks ----------------------------------------------------------------------------


def notebook(page: Page, text: str, where: Repository, title: str) -> nbformat.NotebookNode:
    """Return a chapter as a notebook without outputs.

    Args:
        page: The converter of this chapter.
        text: The chapter's source.
        where: The repository from which the first cell installs.
        title: The title of the book.
    """
    install = new_code_cell(INSTALL.format(requirement=requirement(where)).rstrip())
    install.metadata = {"cellView": "form", "jupyter": {"source_hidden": True}}
    found = [(install, install.source), *cells(page, text)]
    heading = found[1][0]
    if heading.cell_type != "markdown" or not re.search(r"^# ", heading.source, re.MULTILINE):
        raise SourceError(page.name, 1, "a chapter begins with its title, `# Title`")
    address = f"{page.book.site}{page.name}.html"
    heading.source = re.sub(
        r"^(# [^\n]*)",
        lambda match: (
            f"{match[1]}\n\n*A chapter of [{title}]({page.book.site}), as a notebook. "
            f"[Its page in the book]({address}) shows every result without a kernel.*"
        ),
        heading.source,
        count=1,
        flags=re.MULTILINE,
    )
    _name_cells(found)
    return new_notebook(cells=[cell for cell, _ in found], metadata=METADATA)


def _name_cells(found: list[tuple[nbformat.NotebookNode, str]]) -> None:
    """Give each cell an id made of its source: no edit elsewhere changes it."""
    seen: dict[str, int] = {}
    for cell, source in found:
        digest = hashlib.sha256(source.encode()).hexdigest()[:12]
        seen[digest] = seen.get(digest, 0) + 1
        cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"


def generate(root: Path = ROOT, where: Repository | None = None) -> dict[str, str]:
    """Return every notebook's text by its path, "notebooks/attention.ipynb".

    Raises:
        SourceError: If a chapter holds something that no rule turns into Markdown.
    """
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    where = repository(config=root / "_config.yml") if where is None else where
    pages = pages_in_order(root / "_toc.yml")
    texts = {page: (root / f"{page}.md").read_text(encoding="utf-8") for page in pages}
    index = index_book(texts)
    names = {page: f"{posixpath.basename(page)}.ipynb" for page in pages if page in index.with_code}
    if len(set(names.values())) < len(names):
        raise ValueError(f"two chapters would share the name of a notebook: {sorted(names)}")
    works = read_bibliography(root / "references.bib")
    book = Book(index, works, names, pages_url(where.url), read_macros(config))
    # The first pass learns which labels anything links to, the second gives those an anchor.
    for _ in range(2):
        written = {
            f"notebooks/{name}": notebook(Page(book, page), texts[page], where, config["title"])
            for page, name in names.items()
        }
        book = replace(book, referenced=set(book.asked_for), asked_for=set())
    for content in written.values():
        nbformat.validate(content)
    return {path: nbformat.writes(content) + "\n" for path, content in written.items()}


def stale(root: Path = ROOT) -> list[str]:
    """Return the notebooks that are not what the chapters give: changed, missing or left over.

    A fork may commit notebooks that install from the fork, so both the repository of
    `_config.yml` and the one that this process's environment names are accepted.
    """
    config = root / "_config.yml"
    there = {
        f"notebooks/{path.name}": path.read_text(encoding="utf-8")
        for path in sorted((root / "notebooks").glob("*.ipynb"))
    }
    differing = []
    for where in {repository({}, config), repository(config=config)}:
        fresh = generate(root, where)
        paths = sorted(fresh.keys() | there.keys())
        differing.append([path for path in paths if fresh.get(path) != there.get(path)])
    return min(differing, key=len)


def write(root: Path = ROOT, where: Repository | None = None) -> list[str]:
    """Write the notebooks and return their paths; what no chapter gives is removed."""
    fresh = generate(root, where)
    (root / "notebooks").mkdir(exist_ok=True)
    for path in (root / "notebooks").glob("*.ipynb"):
        if f"notebooks/{path.name}" not in fresh:
            path.unlink()
    for path, text in fresh.items():
        (root / path).write_text(text, encoding="utf-8", newline="\n")
    return sorted(fresh)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if stale")
    options = parser.parse_args(arguments)
    try:
        if not options.check:
            print("\n".join(f"wrote {path}" for path in write()))
            return 0
        old = stale()
    except (ValueError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 2
    if old:
        print(f"stale: {', '.join(old)}. Run `make notebooks` and commit.", file=sys.stderr)
        return 1
    print("the notebooks are what the chapters give")
    return 0


if __name__ == "__main__":
    sys.exit(main())
