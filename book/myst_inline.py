"""Walk along one paragraph's text and give each span to the rule for its kind.

CommonMark reads a paragraph from left to right: an escape, a code span, a formula or a role
closes before anything else may open in it. This scanner does the same, and keeps every other
character as the author wrote it; emphasis, images and links' words need no translation.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

ROLE = re.compile(r"\{([a-zA-Z0-9:_+\-]+)\}(`+)")
ADDRESS = re.compile(r"<(project:|#|path:)?[^<>\s]*>")


class Span(NamedTuple):
    """A piece of a paragraph.

    `kind` is "text", "code", "math", "role", "link" or "address"; `text` is what stands inside;
    `name` is the role's name. A "link" is the `](destination)` of a Markdown link.
    """

    kind: str
    text: str
    name: str = ""


def spans(text: str) -> Iterator[Span]:
    """Split a paragraph's text into spans; those of kind "text" and "code" are verbatim."""
    here = start = 0
    while here < len(text):
        found = _span_at(text, here)
        if found is None:
            # An escape is two characters; so is the first half of an unclosed run.
            here += 2 if text[here] == "\\" else 1
            continue
        span, end = found
        if start < here:
            yield Span("text", text[start:here])
        yield span
        here = start = end
    if start < len(text):
        yield Span("text", text[start:])


def _span_at(text: str, here: int) -> tuple[Span, int] | None:
    """Return the span that opens at `here`, and where it ends."""
    character = text[here]
    if character == "`":
        run = len(text) - here - len(text[here:].lstrip("`"))
        close = _closing_run(text, here + run, run)
        if close is None:
            # A run of backticks that nothing closes is plain text as a whole.
            return Span("code", text[here : here + run]), here + run
        return Span("code", text[here : close + run]), close + run
    if character == "{" and (role := ROLE.match(text, here)):
        run = len(role[2])
        close = _closing_run(text, role.end(), run)
        if close is not None:
            content = " ".join(text[role.end() : close].split())
            return Span("role", content, role[1]), close + run
    if character == "$":
        close = here + 1
        while (close := text.find("$", close)) > 0:
            if (len(text[:close]) - len(text[:close].rstrip("\\"))) % 2 == 0:
                break
            close += 1
        if close > here + 1:
            return Span("math", text[here + 1 : close]), close + 1
    if text.startswith("](", here):
        depth = 0
        for end in range(here + 1, len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                return Span("link", text[here + 2 : end]), end + 1
    if character == "<" and (address := ADDRESS.match(text, here)) and address[1]:
        return Span("address", address[0][1:-1]), address.end()
    return None


def _closing_run(text: str, start: int, run: int) -> int | None:
    """Return where a run of exactly `run` backticks begins, at or after `start`."""
    for match in re.finditer(r"`+", text[start:]):
        if len(match[0]) == run:
            return start + match.start()
    return None
