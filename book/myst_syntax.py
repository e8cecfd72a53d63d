"""Read the chapters' MyST with the parsers that the book's build itself uses.

The Markdown parser is myst-parser's, with the extensions that `_config.yml` switches on, and
a directive's arguments and options are read against the very class that Sphinx will run. So
what is accepted here is what the build accepts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from textwrap import dedent
from typing import Any

import yaml
from docutils.nodes import make_id
from docutils.parsers.rst import Directive as DirectiveClass
from docutils.parsers.rst.directives import admonitions, body, parts, tables
from docutils.parsers.rst.states import MarkupError
from jupytext.myst import parse_directive_options
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.directives import parse_directive_text
from myst_parser.parsers.mdit import create_md_parser
from sphinx.directives.code import CodeBlock
from sphinx.directives.other import SeeAlso
from sphinx.directives.patches import MathDirective
from sphinx.domains.std import Glossary
from sphinx_design.dropdown import DropdownDirective
from sphinx_exercise import directive as exercise
from sphinx_proof.directive import ElementDirective, ProofDirective
from sphinx_proof.proof_type import PROOF_TYPES
from sphinxcontrib.bibtex.directives import BibliographyDirective

from repository import ROOT

PROOF_KINDS = tuple(PROOF_TYPES)

ADMONITIONS: dict[str, type[DirectiveClass]] = {
    "admonition": admonitions.Admonition,
    "note": admonitions.Note,
    "tip": admonitions.Tip,
    "hint": admonitions.Hint,
    "important": admonitions.Important,
    "warning": admonitions.Warning,
    "caution": admonitions.Caution,
    "attention": admonitions.Attention,
    "danger": admonitions.Danger,
    "error": admonitions.Error,
    "seealso": SeeAlso,
    "topic": body.Topic,
}

CLASSES: dict[str, type[DirectiveClass]] = {
    **ADMONITIONS,
    **{f"prf:{kind}": ElementDirective for kind in PROOF_KINDS},
    "prf:proof": ProofDirective,
    "exercise": exercise.ExerciseDirective,
    "exercise-start": exercise.ExerciseStartDirective,
    "exercise-end": exercise.ExerciseEndDirective,
    "solution": exercise.SolutionDirective,
    "solution-start": exercise.SolutionStartDirective,
    "solution-end": exercise.SolutionEndDirective,
    "math": MathDirective,
    "code-block": CodeBlock,
    "list-table": tables.ListTable,
    "table": tables.RSTTable,
    "glossary": Glossary,
    "bibliography": BibliographyDirective,
    "dropdown": DropdownDirective,
    "rubric": body.Rubric,
    "contents": parts.Contents,
}

# What the body of these holds is not Markdown with further directives in it.
WITHOUT_MARKDOWN = {"math", "code-block", "glossary", "bibliography", "contents"}


class SourceError(ValueError):
    """A chapter says something that a notebook cannot; the message names file and line."""

    def __init__(self, page: str, line: int, message: str) -> None:
        super().__init__(f"{page}.md:{line}: {message}")


@dataclass(frozen=True)
class Directive:
    """One directive of a page: `line` is where it opens, `body_line` where its body starts."""

    name: str
    argument: str
    options: dict[str, Any]
    body: str
    line: int
    body_line: int

    @property
    def classes(self) -> list[str]:
        """The names given by `:class:`."""
        return list(self.options.get("class") or [])


@cache
def markdown_parser() -> MarkdownIt:
    """Return myst-parser's Markdown parser, with the extensions of `_config.yml`."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    extensions = (config.get("parse") or {}).get("myst_enable_extensions") or []
    return create_md_parser(MdParserConfig(enable_extensions=set(extensions)), RendererHTML)


def directive_name(token: Token) -> str | None:
    """Return the name in `{name}` where a fence opens a directive, else None."""
    if token.type in ("fence", "colon_fence") and token.info.startswith("{"):
        return token.info[1:].partition("}")[0]
    return None


def read_directive(token: Token, page: str, first_line: int, lines: list[str]) -> Directive:
    """Read a fence as the directive that it opens.

    Args:
        token: The fence's token.
        page: The page's name, for messages.
        first_line: The page's line number of lines[0].
        lines: The text that was parsed.

    Raises:
        SourceError: If no rule exists for the directive, or it is not well formed.
    """
    name, _, argument = token.info[1:].partition("}")
    start, end = token.map or (0, 0)
    line = first_line + start
    if name not in CLASSES:
        raise SourceError(page, line, f"no rule turns the directive {{{name}}} into Markdown")
    last = lines[end - 1].strip() if end - start > 1 else ""
    if not last or set(last) != {token.markup[0]} or len(last) < len(token.markup):
        raise SourceError(page, line, f"the directive {{{name}}} is never closed")
    try:
        parsed = parse_directive_text(CLASSES[name], argument.strip(), token.content)
    except MarkupError as error:
        raise SourceError(page, line, f"{{{name}}}: {error}") from None
    if parsed.warnings:
        raise SourceError(page, line, f"{{{name}}}: {parsed.warnings[0].msg}")
    return Directive(
        name=name,
        argument=" ".join(parsed.arguments),
        options=parsed.options,
        body="\n".join(parsed.body),
        line=line,
        body_line=line + 1 + parsed.body_offset,
    )


def figure_options(cell: Token | dict[str, Any]) -> dict[str, Any]:
    """Return `mystnb: figure:` of a code cell, given as its token or its metadata."""
    metadata = parse_directive_options(cell.content, "")[1] if isinstance(cell, Token) else cell
    return (metadata.get("mystnb") or {}).get("figure") or {}


def plain_text(inline: str) -> str:
    """Return the words of one line of Markdown, without their markup."""

    def words(tokens: list[Token]) -> Iterator[str]:
        for token in tokens:
            yield token.content if not token.children else "".join(words(token.children))

    return "".join(words(markdown_parser().parseInline(inline)))


def glossary_entries(directive: Directive) -> list[tuple[list[str], str, int]]:
    """Split a glossary into (terms, definition, line of the definition), in its own order.

    Lines without indentation are terms, the indented lines below them say what they mean.
    """
    entries: list[tuple[list[str], list[str], int]] = []
    for line, text in enumerate(directive.body.splitlines(), directive.body_line):
        if text.strip() and not text[0].isspace():
            if not entries or any(entries[-1][1]):
                entries.append(([], [], line + 1))
            terms, _, _ = entries[-1]
            terms.append(text.split(" : ")[0].strip())
            entries[-1] = (terms, [], line + 1)
        elif entries:
            entries[-1][1].append(text)
    return [(terms, dedent("\n".join(text)).strip(), line) for terms, text, line in entries]


def anchor(label: str) -> str:
    """Return the id that docutils makes of a label."""
    return make_id(label)
