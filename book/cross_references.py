"""Number what the book numbers, and know where every label stands.

Sphinx counts figures, tables, equations, propositions and exercises through the whole book,
each kind by itself, in the order of `_toc.yml`; a labelled equation counts, one without a
label does not. The notebooks use the same numbers, so this module counts the same way; a test
compares the result with the built pages.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from sphinx.util.nodes import make_id
from sphinx_external_toc.parsing import parse_toc_yaml

from myst_syntax import (
    CLASSES,
    PROOF_KINDS,
    WITHOUT_MARKDOWN,
    Directive,
    SourceError,
    anchor,
    directive_name,
    figure_options,
    glossary_entries,
    markdown_parser,
    plain_text,
    read_directive,
)

# How the page names each kind. What is not here goes by its own name: Proposition, Exercise.
NAMES = {"figure": "Fig.", "table": "Table", "code-block": "Listing"}


@dataclass(frozen=True)
class Label:
    """Something that can be referred to.

    Args:
        name: The label as written.
        kind: "figure", "table", "equation", "exercise", "section", "target", "solution" or
            a kind of sphinx-proof.
        page: The page it stands on, as `_toc.yml` names it.
        number: Its number in the book; None where the book gives none.
        title: Its title or caption, as Markdown.
        fragment: Its id in the rendered page.
        target: What a solution belongs to.
    """

    name: str
    kind: str
    page: str
    number: int | None
    title: str
    fragment: str
    target: str = ""

    @property
    def text(self) -> str:
        """What a reference shows: "Proposition 3", "Fig. 2", "(7)", a section's title."""
        if self.kind == "equation":
            return f"({self.number})"
        if self.kind in ("section", "target"):
            return self.title
        name = NAMES.get(self.kind, self.kind.title())
        return name if self.number is None else f"{name} {self.number}"


@dataclass
class Index:
    """Every page's title, label and glossary term.

    `at` finds numbered things that may have no label by where they stand: (page, line).
    """

    pages: list[str]
    titles: dict[str, str] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    terms: dict[str, Label] = field(default_factory=dict)
    at: dict[tuple[str, int], Label] = field(default_factory=dict)
    with_code: set[str] = field(default_factory=set)

    def term(self, name: str) -> Label | None:
        """Look a glossary term up, exactly first and then without regard to case."""
        folded = {known.casefold(): label for known, label in self.terms.items()}
        return self.terms.get(name) or folded.get(name.casefold())


def pages_in_order(toc: Path) -> list[str]:
    """Return the pages in the order in which Sphinx counts: each before what it contains."""
    site = parse_toc_yaml(toc)

    def walk(page: str) -> list[str]:
        inside = site[page].child_files() if site.get(page) else []
        return [page, *(deeper for child in inside for deeper in walk(child))]

    return [page.removesuffix(".md") for page in walk(site.root.docname)]


def index_book(texts: Mapping[str, str]) -> Index:
    """Number and index the pages.

    Args:
        texts: The text of each page, in the order in which the book counts.

    Raises:
        SourceError: If a label or a term stands twice, or a directive is unknown.
    """
    index = Index(list(texts))
    counts: Counter[str] = Counter()
    for page, text in texts.items():
        _Page(page, index, counts).read(text, 1)
        index.titles.setdefault(page, page)
    return index


class _Page:
    """One page on its way into the index."""

    def __init__(self, page: str, index: Index, counts: Counter[str]) -> None:
        self.page, self.index, self.counts = page, index, counts
        self.targets: list[tuple[str, int]] = []

    def add(self, line: int, name: str, kind: str, **rest) -> None:
        rest = {"number": None, "title": "", "fragment": name, **rest}
        label = Label(name, kind, self.page, **rest)
        self.index.at[self.page, line] = label
        if name:
            self.add_name(line, label)

    def add_name(self, line: int, label: Label) -> None:
        if label.name in self.index.labels:
            there = self.index.labels[label.name].page
            raise SourceError(
                self.page, line, f"the label {label.name!r} already stands in {there}.md"
            )
        self.index.labels[label.name] = label

    def next_number(self, kind: str) -> int:
        self.counts[kind] += 1
        return self.counts[kind]

    def read(self, text: str, first_line: int) -> None:
        tokens, lines = markdown_parser().parse(text), text.splitlines()
        for position, token in enumerate(tokens):
            line = first_line + token.map[0] if token.map else first_line
            if token.type == "myst_target":
                self.targets.append((token.content, line))
            elif token.type == "heading_open":
                title = tokens[position + 1].content
                self.index.titles.setdefault(self.page, title)
                self.name_targets("section", title)
            elif token.type == "math_block_label":
                self.equation(line, token.info)
            elif directive_name(token) == "code-cell":
                self.index.with_code.add(self.page)
                self.figure(line, figure_options(token))
            elif (name := directive_name(token)) and name not in CLASSES:
                # A page without a notebook may say more than a notebook can.
                self.read(token.content, line + 1)
            elif name:
                directive = read_directive(token, self.page, first_line, lines)
                self.directive(directive)
                if directive.name not in WITHOUT_MARKDOWN:
                    self.read(directive.body, directive.body_line)
            elif token.type in ("paragraph_open", "fence", "table_open", "math_block"):
                self.name_targets("target", "")
        if text and first_line == 1:
            self.name_targets("target", "")

    def name_targets(self, kind: str, title: str) -> None:
        """Give the waiting `(label)=` lines what they stand before."""
        for name, line in self.targets:
            self.add_name(line, Label(name, kind, self.page, None, title, anchor(name)))
        self.targets = []

    def equation(self, line: int, name: str) -> None:
        number = self.next_number("equation")
        self.add(line, name, "equation", number=number, fragment=anchor(f"equation-{name}"))

    def figure(self, line: int, options: dict) -> None:
        caption, name = str(options.get("caption") or "").strip(), str(options.get("name") or "")
        if caption or name:
            number = self.next_number("figure") if caption else None
            self.add(line, name, "figure", number=number, title=caption, fragment=anchor(name))

    def directive(self, directive: Directive) -> None:
        name = str(directive.options.get("label") or directive.options.get("name") or "")
        line, title = directive.line, directive.argument
        kind = directive.name.removeprefix("prf:").removesuffix("-start")
        self.name_targets("target", title)
        if directive.name == "math":
            if name:
                self.equation(line, name)
        elif kind in PROOF_KINDS or kind == "exercise":
            unnumbered = {"nonumber", "hidden"} & set(directive.options)
            number = None if unnumbered else self.next_number(kind)
            self.add(line, name, kind, number=number, title=title)
        elif kind == "solution":
            self.add(line, name, "solution", target=title)
        elif directive.name in ("list-table", "table"):
            number = self.next_number("table") if title else None
            self.add(line, name, "table", number=number, title=title, fragment=anchor(name))
        elif directive.name == "code-block":
            caption = str(directive.options.get("caption") or "")
            number = self.next_number("code-block") if caption else None
            self.add(line, name, "code-block", number=number, title=caption)
        elif directive.name == "glossary":
            for terms, _, term_line in glossary_entries(directive):
                for term in terms:
                    self.term(term, term_line)
        elif name:
            self.add(line, name, "target", title=title, fragment=anchor(name))

    def term(self, term: str, line: int) -> None:
        words = plain_text(term)
        if words in self.index.terms:
            raise SourceError(self.page, line, f"the glossary explains {words!r} twice")
        fragment = make_id(None, SimpleNamespace(ids={}), "term", words)
        self.index.terms[words] = Label(words, "term", self.page, None, words, fragment)
