"""Which built book the tests open, and what is in it.

That is _build/html, made by `make strict-book`; it must be newer than everything it is made of.
The variable BOOK_HTML names another one, which is then taken as it is.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("index.md", "references.bib", "_config.yml", "_toc.yml", "chapters", "attnlib", "book")
# What is installed or made, and is no source.
MADE = {"node_modules", "assets", "__pycache__"}
SCHEMES = ("http", "file")
HINT = "run `make strict-book` first"


class Visited(NamedTuple):
    """A page as a reader opens it: from a server, or from the disk."""

    page: str
    scheme: str

    def __str__(self) -> str:
        return f"{self.page.removesuffix('.html')}-{self.scheme}"


class Placed(NamedTuple):
    """An explorer: the how-manieth of its page, and its kind."""

    visited: Visited
    place: int
    name: str

    def __str__(self) -> str:
        return f"{self.name}-{self.place + 1}"


def place_of_book() -> Path:
    """Return the folder of the book under test, there or not."""
    return Path(os.environ.get("BOOK_HTML") or ROOT / "_build/html").resolve()


def built_book() -> Path:
    """Return the folder of the book under test.

    Raises:
        RuntimeError: If it is missing, or older than one of its sources.
    """
    html = place_of_book()
    if not (html / "index.html").is_file():
        raise RuntimeError(f"there is no built book in {html}: {HINT}")
    if not os.environ.get("BOOK_HTML"):
        newest = max(sources(), key=lambda path: path.stat().st_mtime)
        if newest.stat().st_mtime > (html / "index.html").stat().st_mtime:
            raise RuntimeError(f"the built book is older than {newest.relative_to(ROOT)}: {HINT}")
    return html


def sources(root: Path = ROOT) -> Iterator[Path]:
    """Return every file that the book is made of."""
    for name in SOURCES:
        path = root / name
        for each in path.rglob("*") if path.is_dir() else [path]:
            if each.is_file() and MADE.isdisjoint(each.relative_to(root).parts):
                yield each


def page_names(html: Path) -> list[str]:
    """Return every page of a built book; the theme's own leftovers under _static are none."""
    found = (path.relative_to(html) for path in html.rglob("*.html"))
    return sorted(path.as_posix() for path in found if not path.parts[0].startswith("_"))


def visits(html: Path) -> list[Visited]:
    """Return every page of a built book, in each way that it can be opened."""
    return [Visited(page, scheme) for page in page_names(html) for scheme in SCHEMES]


def explorers(html: Path) -> list[Placed]:
    """Return every explorer of a built book, in each way that its page can be opened."""
    return [
        Placed(visited, place, name)
        for visited in visits(html)
        for place, name in enumerate(
            re.findall(r'data-explorer="([\w-]+)"', (html / visited.page).read_text("utf-8"))
        )
    ]


def figures(html: Path, page: str) -> int:
    """Return how many plotly figures a page has."""
    return (html / page).read_text("utf-8").count('class="attn-figure"')
