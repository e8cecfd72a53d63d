"""Citations as the pages show them, author and year, linked to the work itself.

`references.bib` is read with pybtex, whose plain style and Markdown backend also write the
lists of references, as on the pages.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from pybtex.database import BibliographyData, Entry, parse_file
from pybtex.plugin import find_plugin, register_plugin
from pybtex.richtext import Text
from pybtex.style.formatting.plain import Style as PlainStyle
from pybtex.style.labels import BaseLabelStyle
from sphinxcontrib.bibtex.citation_target import parse_citation_targets

ROLES = ("cite", "cite:p", "cite:ps", "cite:t", "cite:ts", "cite:alp", "cite:author", "cite:year")


class AuthorYearLabels(BaseLabelStyle):
    """The label of a work in the bibliography is what the text calls it."""

    def format_labels(self, entries: Iterable[Entry]):
        for entry in entries:
            yield f"{authors(entry).replace('*', '')}, {entry.fields.get('year', 'n.d.')}"


class AuthorYearStyle(PlainStyle):
    """Pybtex's plain style, with those labels: `:style: author-year` on the page."""

    default_label_style = AuthorYearLabels


def register_style() -> None:
    register_plugin("pybtex.style.formatting", "author-year", AuthorYearStyle)


def read_bibliography(path: Path) -> BibliographyData:
    """Return the works of a .bib file."""
    return parse_file(str(path), bib_format="bibtex")


def address(entry: Entry) -> str | None:
    """Return where the work can be read: its DOI, its arXiv number or its own address."""
    fields = entry.fields
    if "doi" in fields:
        return "https://doi.org/" + fields["doi"].removeprefix("https://doi.org/")
    if "eprint" in fields:
        return f"https://arxiv.org/abs/{fields['eprint']}"
    return fields.get("url")


def authors(entry: Entry, everyone: bool = False) -> str:
    """Return the last names: "Bahdanau and Cho", "Vaswani *et al.*" for three and more."""
    persons = entry.persons.get("author") or entry.persons.get("editor") or []
    names = [
        str(Text.from_latex(" ".join([*person.prelast_names, *person.last_names])))
        for person in persons
    ]
    if not names:
        return str(Text.from_latex(entry.fields["title"]))
    if len(names) > 2:
        return f"{', '.join(names[:-1])}, and {names[-1]}" if everyone else f"{names[0]} *et al.*"
    return " and ".join(names)


def cite(role: str, content: str, works: BibliographyData, fallback: str) -> str:
    """Return the Markdown of a citation.

    Args:
        role: One of ROLES.
        content: What stands between the role's backticks: keys, parted by commas.
        works: Where the keys are looked up.
        fallback: Where to lead when the work has no address of its own.

    Raises:
        KeyError: If a key is not in `works`.
    """
    shown = []
    for key, before, after in parse_citation_targets(content):
        if key not in works.entries:
            raise KeyError(key)
        entry = works.entries[key]
        names, year = authors(entry, everyone=role.endswith("s")), entry.fields.get("year", "n.d.")
        link = address(entry) or fallback
        if role.startswith("cite:t"):
            inside = _around(before, f"[{year}]({link})", after)
            shown.append(f"{names} [{inside}]")
        else:
            words = {"cite:author": names, "cite:year": year}.get(role, f"{names}, {year}")
            shown.append(_around(before, f"[{words}]({link})", after))
    together = ", ".join(shown)
    return f"[{together}]" if role in ("cite", "cite:p", "cite:ps") else together


def _around(before: str, middle: str, after: str) -> str:
    return f"{before + ' ' if before else ''}{middle}{', ' + after if after else ''}"


def reference_list(works: BibliographyData, keys: Iterable[str]) -> str:
    """Return the works as a Markdown list, sorted as pybtex's plain style sorts."""
    style = find_plugin("pybtex.style.formatting", "plain")()
    backend = find_plugin("pybtex.backends", "markdown")()
    chosen = style.format_entries([works.entries[key] for key in sorted(set(keys))])
    lines = (" ".join(entry.text.render(backend).split()) for entry in chosen)
    # The backend escapes marks that mean nothing inside a line.
    return "\n".join("- " + re.sub(r"\\([.()!+-])", r"\1", line) for line in lines)
