"""Turn MyST into Markdown that Colab, JupyterLab and GitHub show alike.

The text stays as the author wrote it, except for what only Sphinx understands: directives
become quotations with a bold title or collapsed <details>, roles become words and links, and a
display formula becomes one line of its own. One line, because in a quotation the front ends
take a formula out before they read the Markdown, so a second line's ">" would become part of
it. What has no rule is refused, with its file and line: nothing raw can slip through.

sphinx-tojupyter 0.6 does a similar job and was not used: it works on Sphinx's resolved tree,
so that every check of freshness would need a run of Sphinx, its links drop the chapters'
folder, and its solutions are not collapsed.
"""

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from markdown_it.token import Token
from pybtex.database import BibliographyData

from citations import ROLES as CITATIONS
from citations import cite, reference_list
from cross_references import Index, Label
from myst_inline import Span, spans
from myst_syntax import (
    ADMONITIONS,
    PROOF_KINDS,
    Directive,
    SourceError,
    directive_name,
    glossary_entries,
    markdown_parser,
    plain_text,
    read_directive,
)
from tex_macros import Macros, expand

# Blocks that Markdown itself knows and that need no change beyond the words inside them.
PLAIN = {
    "paragraph", "heading", "bullet_list", "ordered_list", "list_item", "blockquote", "hr",
    "code_block", "front_matter",
}  # fmt: skip

# Environments that stand alone in LaTeX, and what does the same inside $$ … $$.
INNER = {
    "align*": "aligned", "alignat*": "alignedat", "gather*": "gathered",
    "multline*": "gathered", "equation*": None,
}  # fmt: skip

LITERAL_ROLES = {"code", "py:func", "py:class", "py:mod", "py:meth", "func", "class", "mod"}


@dataclass
class Book:
    """What all notebooks share.

    Args:
        index: Labels, titles and terms of all pages.
        works: The bibliography.
        notebooks: Page name to file name of its notebook, for the pages that have one.
        site: The address of the rendered book, with a trailing slash.
        macros: The book's TeX macros.
        referenced: Labels that some notebook links to; None means all. Only these get an
            anchor: an anchor before a formula costs an empty paragraph.
    """

    index: Index
    works: BibliographyData
    notebooks: Mapping[str, str]
    site: str
    macros: Macros = field(default_factory=dict)
    referenced: set[str] | None = None
    asked_for: set[str] = field(default_factory=set)


class Page:
    """One page's converter. It remembers which works the page cites."""

    def __init__(self, book: Book, name: str) -> None:
        self.book, self.name = book, name
        self.cited: list[str] = []
        self.directives: dict[str, Callable[[Directive], str]] = {
            **{f"prf:{kind}": self.statement for kind in PROOF_KINDS},
            **dict.fromkeys(ADMONITIONS, self.admonition),
            "prf:proof": self.proof,
            "exercise": self.exercise,
            "solution": self.solution,
            "math": lambda d: self.formula(d.body, d.line, str(d.options.get("label") or "")),
            "code-block": self.code_block,
            "list-table": self.list_table,
            "table": self.table_with_caption,
            "glossary": self.glossary,
            "bibliography": self.bibliography,
            "dropdown": self.dropdown,
            "rubric": lambda d: f"**{self.inline(d.argument, d.line)}**",
            "contents": lambda d: "",
        }

    def fail(self, line: int, message: str) -> SourceError:
        """Return the error that names this page and line."""
        return SourceError(self.name, line, message)

    # ---- blocks ---------------------------------------------------------------------------

    def blocks(self, text: str, first_line: int) -> str:
        """Translate a piece of a page whose first line is line `first_line` of the file."""
        lines = text.splitlines()
        tokens = markdown_parser().parse(text)
        edits: list[tuple[int, int, list[str], str | None]] = []
        position = 0
        while position < len(tokens):
            token = tokens[position]
            position += 1
            if token.map is None or token.nesting < 0:
                continue
            start, end = token.map
            end = max(end, start + 1)
            line = first_line + start
            if token.type == "inline":
                edits.append((start, end, self.paragraph(token, lines[start:end], line), None))
                continue
            replacement = self.block(token, lines, first_line)
            if token.type in ("table_open", "dl_open"):
                close = token.type.replace("open", "close")
                stop = next(
                    later
                    for later in range(position, len(tokens))
                    if tokens[later].type == close and tokens[later].level == token.level
                )
                inside = tokens[position:stop]
                make = self.table if token.type == "table_open" else self.definitions
                replacement = make(inside, lines, first_line)
                position = stop + 1
            if replacement is not None:
                edits.append((start, end, *self.placed(replacement, lines[start], token)))
        for edit in sorted(edits, key=lambda edit: edit[0], reverse=True):
            splice(lines, *edit)
        return "\n".join(lines).strip("\n")

    def block(self, token: Token, lines: list[str], first_line: int) -> str | None:
        """Return what replaces a block; None leaves its lines as they are."""
        start = (token.map or (0, 0))[0]
        line = first_line + start
        kind = token.type.removesuffix("_open")
        name = directive_name(token)
        if name == "code-cell":
            raise self.fail(line, "a code cell inside another block cannot run in a notebook")
        if name:
            directive = read_directive(token, self.name, first_line, lines)
            if name not in self.directives:
                raise self.fail(line, f"{{{name}}} has no place inside another block")
            return self.directives[name](directive)
        if kind in PLAIN or (kind == "fence" and not token.info.startswith("{")):
            return None
        if kind in ("math_block", "math_block_label"):
            return self.formula(token.content, line, token.info)
        if kind == "amsmath":
            return self.environment(token, line)
        if kind == "myst_target":
            return self.anchor(token.content)
        if kind in ("myst_line_comment", "myst_block_break"):
            return ""
        if kind == "html_block":
            if re.search(r"""(src|href)=["'](?!https://|#)""", token.content):
                raise self.fail(line, "a relative address in HTML leads nowhere on Colab")
            return None
        if kind in ("table", "dl"):
            return None
        raise self.fail(line, f"no rule turns a {kind} into Markdown ({lines[start][:60]!r})")

    def placed(self, text: str, source: str, token: Token) -> tuple[list[str], str]:
        """Return a block's lines, indented like its first line, and what a blank line is there."""
        opening = "$$" if token.type.startswith("math_block") else token.markup
        column = source.find(opening) if opening else len(re.match(r"[\s>]*", source)[0])
        first = source[:column] if token.level else ""
        rest = re.sub(r"[^\s>]", " ", first)
        rows = text.splitlines()
        shown = [f"{rest if row else first}{words}".rstrip() for row, words in enumerate(rows)]
        return shown, rest.rstrip()

    def paragraph(self, token: Token, source: list[str], line: int) -> list[str]:
        """Translate a paragraph or heading; every line keeps what stands before its text."""
        content = token.content.splitlines()
        before = []
        for row, words in zip(source, content, strict=False):
            column = row.rfind(words.strip())
            if column < 0:
                raise self.fail(line, f"cannot find {words.strip()[:60]!r} in {row[:60]!r}")
            before.append(row[:column])
        after = source[0][len(before[0]) + len(content[0].strip()) :] if len(content) == 1 else ""
        translated = self.inline(token.content, line, token).splitlines()
        before += [before[-1]] * len(translated)
        return [before[row] + words.lstrip(" ") + after for row, words in enumerate(translated)]

    # ---- words ----------------------------------------------------------------------------

    def inline(self, text: str, line: int, token: Token | None = None) -> str:
        """Translate the words of one paragraph."""
        if token is None:
            token = markdown_parser().parseInline(text)[0]
        found = list(spans(text))
        self.agree(found, token, line)
        written: list[str] = []
        for position, span in enumerate(found):
            if span.kind == "role":
                written.append(self.role(span.name, span.text, line))
            elif span.kind == "math":
                written.append(f"${self.tex(' '.join(span.text.split()), line)}$")
            elif span.kind == "link":
                empty = not position or found[position - 1].text.endswith("[")
                image = self.is_image(written)
                written.append(self.markdown_link(span.text, empty, image, line))
            elif span.kind == "address":
                written.append(self.reference(span.text.removeprefix("project:"), "", line))
            else:
                written.append(span.text)
        return "".join(written)

    def agree(self, found: list[Span], token: Token, line: int) -> None:
        """Refuse a paragraph that the scanner and myst-parser do not read alike."""
        known = {
            "text", "softbreak", "hardbreak", "em_open", "em_close", "strong_open",
            "strong_close", "code_inline", "myst_role", "math_inline", "link_open", "link_close",
            "image", "html_inline", "s_open", "s_close", "text_special",
        }  # fmt: skip

        def flat(tokens: list[Token]) -> list[Token]:
            return [t for token in tokens for t in (token, *flat(token.children or []))]

        inside = flat(token.children or [])
        for child in inside:
            if child.type not in known:
                raise self.fail(line, f"no rule turns a {child.type} into Markdown")
        theirs = [
            (child.meta.get("name", ""), " ".join(child.content.split()))
            for child in inside
            if child.type in ("myst_role", "math_inline")
        ]
        ours = [
            (span.name, " ".join(span.text.split()))
            for span in found
            if span.kind in ("role", "math")
        ]
        if ours != theirs:
            odd = next(iter(set(ours) ^ set(theirs)), "their order")
            raise self.fail(line, f"roles or formulas can be read in two ways here: {odd}")

    @staticmethod
    def is_image(written: list[str]) -> bool:
        """Is the bracket that closes now an image's?"""
        depth, text = 1, "".join(written)
        for column in range(len(text) - 1, -1, -1):
            depth += {"]": 1, "[": -1}.get(text[column], 0)
            if depth == 0:
                return text[column - 1 : column] == "!"
        return False

    def role(self, name: str, content: str, line: int) -> str:
        """Translate one role."""
        if name in CITATIONS:
            try:
                shown = cite(name, content, self.book.works, self.bibliography_page())
            except KeyError as missing:
                raise self.fail(line, f"references.bib has no work {missing}") from None
            self.cited += [key.split("{")[0].split("}")[-1].strip() for key in content.split(",")]
            return shown
        words, target = self.words_and_target(content)
        if name == "eq":
            return self.reference(target, words, line, {"equation"})
        if name == "prf:ref":
            return self.reference(target, words, line, set(PROOF_KINDS))
        if name == "ref":
            return self.reference(target, words, line)
        if name == "numref":
            label = self.label(target, line)
            number = "" if label.number is None else str(label.number)
            words = words.replace("%s", number).replace("{number}", number)
            words = words.replace("{name}", plain_text(label.title))
            return self.reference(target, words, line)
        if name == "doc":
            return self.document(target, words, line)
        if name == "term":
            return self.term(target, words or target, line)
        if name == "math":
            return f"${self.tex(content, line)}$"
        if name in ("sub", "sup"):
            return f"<{name}>{content}</{name}>"
        if name == "kbd":
            return f"<kbd>{content}</kbd>"
        if name in LITERAL_ROLES:
            return f"`{content.lstrip('~')}`"
        raise self.fail(line, f"no rule turns the role {{{name}}} into Markdown")

    @staticmethod
    def words_and_target(content: str) -> tuple[str, str]:
        """Split "words <target>"; without the brackets there is a target alone."""
        match = re.fullmatch(r"(.+?)\s*<([^<>]+)>", content)
        return (match[1], match[2]) if match else ("", content)

    # ---- links ----------------------------------------------------------------------------

    def label(self, name: str, line: int) -> Label:
        """Look a label up."""
        labels = self.book.index.labels
        if name not in labels:
            raise self.fail(line, f"there is no label {name!r}")
        return labels[name]

    def reference(self, name: str, words: str, line: int, kinds: set[str] | None = None) -> str:
        """Return the link to a label, with the words that a page shows."""
        label = self.label(name.removeprefix("#"), line)
        if kinds and label.kind not in kinds:
            raise self.fail(line, f"{label.name!r} is a {label.kind}, not a {sorted(kinds)[0]}")
        words = words or self.inline(label.text, line)
        if label.kind == "solution":
            words = words or self.solution_title(label, line)
        if not words:
            raise self.fail(line, f"a reference to {label.name!r} needs words of its own")
        return f"[{words}]({self.destination(label)})"

    def destination(self, label: Label) -> str:
        """Return where a label stands: here, in another notebook, or on a page of the book."""
        if label.page not in self.book.notebooks:
            return f"{self.book.site}{label.page}.html#{label.fragment}"
        self.book.asked_for.add(label.name)
        here = label.page == self.name
        return f"{'' if here else self.book.notebooks[label.page]}#{label.name}"

    def document(self, target: str, words: str, line: int) -> str:
        """Return the link to a page of the book."""
        folder = "" if target.startswith("/") else posixpath.dirname(self.name)
        page = posixpath.normpath(posixpath.join(folder, target.strip("/"))).removesuffix(".md")
        if page not in self.book.index.titles:
            raise self.fail(line, f"the book has no page {page!r}")
        address = self.book.notebooks.get(page) or f"{self.book.site}{page}.html"
        return f"[{words or self.inline(self.book.index.titles[page], line)}]({address})"

    def term(self, target: str, words: str, line: int) -> str:
        """Return the link to a term's entry in the glossary."""
        label = self.book.index.term(target)
        if label is None:
            raise self.fail(line, f"the glossary does not explain {target!r}")
        # The rendered glossary, even when there is a notebook of it: its entries have anchors.
        return f"[{words}]({self.book.site}{label.page}.html#{label.fragment})"

    def markdown_link(self, destination: str, empty: bool, image: bool, line: int) -> str:
        """Return the end of a Markdown link or image, `](destination)`."""
        where, space, title = destination.strip().partition(" ")
        where = where.strip("<>")
        if re.match(r"(https?:|mailto:)", where):
            return f"]({destination})"
        if image:
            raise self.fail(line, f"Colab cannot find the image {where!r}: give its https address")
        path, _, fragment = where.removeprefix("project:").partition("#")
        if fragment:
            label = self.label(fragment, line)
            words, address = self.inline(label.text, line), self.destination(label)
        else:
            link = self.document(path, "", line)
            words, address = link[1 : link.rindex("](")], link[link.rindex("](") + 2 : -1]
        return f"{words if empty else ''}]({address}{space}{title})"

    def bibliography_page(self) -> str:
        """Return where the book lists its works, for a work without an address."""
        page = next((p for p in self.book.index.pages if p.endswith("bibliography")), "index")
        return f"{self.book.site}{page}.html"

    def anchor(self, name: str) -> str:
        """Return an anchor if something links to it. Colab reads `name`, others `id`."""
        wanted = self.book.referenced is None or name in self.book.referenced
        return f'<a name="{name}" id="{name}"></a>' if name and wanted else ""

    # ---- formulas -------------------------------------------------------------------------

    def tex(self, tex: str, line: int) -> str:
        """Return a formula on one line, with the book's macros written out."""
        if re.search(r"(?<!\\)%", tex):
            raise self.fail(line, "a comment in a formula would swallow the rest of its line")
        try:
            return expand(" ".join(tex.split()), self.book.macros)
        except ValueError as error:
            raise self.fail(line, str(error)) from None

    def formula(self, tex: str, line: int, label: str = "") -> str:
        """Return a display formula, numbered if the page numbers it."""
        # Sphinx sets several lines, or several paragraphs, as one aligned block.
        parts = [part for part in re.split(r"\n\s*\n", tex.strip()) if part.strip()]
        if len(parts) > 1:
            tex = r"\begin{aligned}" + r" \\ ".join(parts) + r"\end{aligned}"
        elif re.search(r"\\\\", _outside_environments(tex)):
            tex = r"\begin{aligned}" + tex + r"\end{aligned}"
        tex = self.tex(tex, line)
        if not label:
            return f"$${tex}$$"
        number = self.label(label, line).number
        anchor = self.anchor(label)
        return f"{anchor}{chr(10) * 2 if anchor else ''}$${tex} \\tag{{{number}}}$$"

    def environment(self, token: Token, line: int) -> str:
        """Return a LaTeX environment that stands by itself as a display formula."""
        name = token.meta["environment"] + token.meta["numbered"]
        if name not in INNER:
            raise self.fail(
                line,
                f"\\begin{{{name}}} numbers itself and cannot be referred to: "
                "write $$ … $$ (eq-label), with aligned inside",
            )
        body = token.content.strip().removeprefix(f"\\begin{{{name}}}")
        body = body.removesuffix(f"\\end{{{name}}}")
        inner = INNER[name]
        body = body if inner is None else f"\\begin{{{inner}}}{body}\\end{{{inner}}}"
        return f"$${self.tex(body, line)}$$"

    # ---- directives -----------------------------------------------------------------------

    def body(self, directive: Directive) -> str:
        """Translate a directive's body."""
        return self.blocks(directive.body, directive.body_line)

    def numbered_title(self, directive: Directive, shown: str | None = None) -> str:
        """Return "Proposition 3 (Convex hull)", as the page shows it."""
        label = self.book.index.at[self.name, directive.line]
        title = self.inline(directive.argument, directive.line)
        return f"{shown or label.text}{f' ({title})' if title else ''}"

    def box(self, directive: Directive, title: str, body: str | None = None) -> str:
        """Return a quotation with a bold title; collapsed if the directive asks for it."""
        body = self.body(directive) if body is None else body
        name = str(directive.options.get("label") or directive.options.get("name") or "")
        anchor = self.anchor(name)
        if {"dropdown", "toggle"} & set(directive.classes):
            return details(title, body, anchor)
        return quotation(f"{anchor}**{title}**\n\n{body}")

    def statement(self, directive: Directive) -> str:
        """A theorem, definition, algorithm …, numbered."""
        return self.box(directive, self.numbered_title(directive))

    def exercise(self, directive: Directive) -> str:
        """An exercise, numbered."""
        return "" if "hidden" in directive.options else self.statement(directive)

    def proof(self, directive: Directive) -> str:
        """A proof; its first word runs into the text."""
        body = self.body(directive)
        if "dropdown" in directive.classes:
            return details("Proof", body)
        joint = "\n\n" if body.startswith(("$$", "> ", "- ", "1. ", "<", "|", "```")) else " "
        return quotation(f"*Proof.*{joint}{body}")

    def admonition(self, directive: Directive) -> str:
        """A note, warning …; only `admonition` and `topic` have a title of their own."""
        title = self.inline(directive.argument, directive.line) or directive.name.title()
        return self.box(directive, "See also" if directive.name == "seealso" else title)

    def dropdown(self, directive: Directive) -> str:
        """A block that opens on a click."""
        title = self.inline(directive.argument, directive.line) or "Details"
        return details(title, self.body(directive))

    def solution_title(self, label: Label, line: int) -> str:
        """Return "Solution to Exercise 2 (Permutations)"."""
        exercise = self.label(label.target, line)
        title = f" ({self.inline(exercise.title, line)})" if exercise.title else ""
        return f"Solution to {exercise.text}{title}"

    def solution(self, directive: Directive) -> str:
        """A solution, collapsed."""
        label = self.book.index.at[self.name, directive.line]
        return details(
            self.solution_title(label, directive.line),
            self.body(directive),
            self.anchor(label.name if label.name != label.target else ""),
        )

    def code_block(self, directive: Directive) -> str:
        """Code that is shown and not run."""
        fence = "```" if "```" not in directive.body else "````"
        caption = directive.options.get("caption")
        above = f"*{self.inline(caption, directive.line)}*\n\n" if caption else ""
        return f"{above}{fence}{directive.argument}\n{directive.body}\n{fence}"

    def glossary(self, directive: Directive) -> str:
        """A glossary as a list of bold terms."""
        return "\n".join(
            hanging(
                f"**{', '.join(self.inline(term, line) for term in terms)}**: "
                f"{self.blocks(text, line)}"
            )
            for terms, text, line in glossary_entries(directive)
        )

    def bibliography(self, directive: Directive) -> str:
        """The list of works: those this page cites, or every one."""
        every = "all" in directive.options or "cited" in directive.options
        return reference_list(self.book.works, self.book.works.entries if every else self.cited)

    # ---- tables and definitions -----------------------------------------------------------

    def table(self, tokens: list[Token], lines: list[str], first_line: int) -> str:
        """A Markdown table, its cells translated."""
        rows: list[list[str]] = []
        rule: list[str] = []
        for position, token in enumerate(tokens):
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                cell = tokens[position + 1]
                line = first_line + (cell.map or (0, 0))[0]
                rows[-1].append(self.cell(cell.content, line))
                if token.type == "th_open":
                    side = str(token.attrs.get("style", "")).removeprefix("text-align:")
                    rule.append({"left": ":--", "right": "--:", "center": ":-:"}.get(side, "---"))
        return markdown_table(rows[0], rows[1:], rule)

    def cell(self, text: str, line: int) -> str:
        """Translate a cell: no bar may stand in it, and no line end."""
        paragraphs = self.blocks(text, line).split("\n\n")
        joined = "<br>".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        written = []
        for span in spans(joined):
            if span.kind == "math":
                tex = span.text.replace(r"\|", r"\Vert ").replace("|", r"\vert ")
                written.append(f"${tex}$")
            elif span.kind == "link":
                written.append(f"]({span.text})")
            else:
                written.append(re.sub(r"(?<!\\)\|", r"\\|", span.text))
        return "".join(written)

    def list_table(self, directive: Directive) -> str:
        """A table written as a list of lists."""
        tokens = markdown_parser().parse(directive.body)
        lines = directive.body.splitlines()
        rows: list[list[str]] = []
        items = [token for token in tokens if token.type == "list_item_open"]
        for item in items:
            start, end = item.map or (0, 0)
            if item.level == 1:
                rows.append([])
            elif item.level == 3:
                inside = lines[start:end]
                mark = re.match(r"[\s\-*+]*", inside[0])
                width = len(mark[0]) if mark else 0
                text = "\n".join([inside[0][width:], *(row[width:] for row in inside[1:])])
                rows[-1].append(self.cell(text.strip(), directive.body_line + start))
        if not rows or len({len(row) for row in rows}) > 1:
            raise self.fail(directive.line, "the rows of a list-table need equally many cells")
        count = int(directive.options.get("header-rows") or 0)
        if count > 1:
            raise self.fail(directive.line, "a Markdown table has one header row")
        header = rows.pop(0) if count else [""] * len(rows[0])
        return self.captioned(directive, markdown_table(header, rows, ["---"] * len(header)))

    def table_with_caption(self, directive: Directive) -> str:
        """A Markdown table with a caption."""
        return self.captioned(directive, self.body(directive))

    def captioned(self, directive: Directive, table: str) -> str:
        """Put a table's number and caption above it."""
        label = self.book.index.at[self.name, directive.line]
        if label.number is None:
            return table
        caption = self.inline(directive.argument, directive.line)
        return f"{self.anchor(label.name)}**{label.text}:** {caption}\n\n{table}"

    def definitions(self, tokens: list[Token], lines: list[str], first_line: int) -> str:
        """Terms with their definitions, as a list of bold terms."""
        entries: list[str] = []
        for position, token in enumerate(tokens):
            start, end = token.map or (0, 0)
            if token.type == "dt_open" and token.level == tokens[0].level:
                entries.append(
                    f"**{self.inline(tokens[position + 1].content, first_line + start)}**"
                )
            elif token.type == "dd_open" and token.level == tokens[0].level:
                inside = lines[start:end]
                width = len(re.match(r"\s*:\s*", inside[0])[0])
                text = "\n".join([inside[0][width:], *(row[width:] for row in inside[1:])])
                entries[-1] += f": {self.blocks(text.strip(), first_line + start)}"
        return "\n".join(hanging(entry) for entry in entries)


def _outside_environments(tex: str) -> str:
    """Return the formula without what stands inside \\begin … \\end or braces."""
    depth, outside = 0, []
    for piece in re.split(r"(\\begin\{|\\end\{|(?<!\\)[{}])", tex):
        # \begin{ opens an environment and a brace; \end{ closes the one and opens the other.
        change = {r"\begin{": 2, r"\end{": 0, "{": 1, "}": -1}.get(piece)
        if change is not None:
            depth += change
        elif depth == 0:
            outside.append(piece)
    return "".join(outside)


def splice(lines: list[str], start: int, end: int, new: list[str], blank: str | None) -> None:
    """Put new lines in the place of lines[start:end], parted from their neighbours by a blank
    line if they are a block (`blank` is what a blank line is there, None inside a paragraph)."""
    if blank is not None:
        above = lines[start - 1].strip(" >") if start else ""
        below = lines[end].strip(" >") if end < len(lines) else ""
        if not new and not above and end < len(lines) and not below:
            end += 1
        if new and above:
            new = [blank, *new]
        if below and (new or above):
            new = [*new, blank]
    lines[start:end] = new


def quotation(text: str) -> str:
    """Return the text with ">" before every line."""
    return "\n".join(f"> {row}".rstrip() for row in text.strip().splitlines())


def details(title: str, body: str, anchor: str = "") -> str:
    """Return a block that opens on a click; blank lines make its inside Markdown."""
    shown = re.sub(r"`+([^`]+)`+", r"<code>\1</code>", title)
    return f"<details>\n<summary>{anchor}<b>{shown}</b></summary>\n\n{body.strip()}\n\n</details>"


def hanging(text: str) -> str:
    """Return the text as one item of a list."""
    first, *rest = text.splitlines()
    return "\n".join([f"- {first}", *(f"  {row}".rstrip() for row in rest)])


def markdown_table(header: list[str], rows: list[list[str]], rule: list[str]) -> str:
    """Return a table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, rule, *rows])
