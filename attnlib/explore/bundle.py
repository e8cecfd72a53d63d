"""One ES module out of several: what anywidget sends to a live front end.

The static page gets the same files through esbuild. Here `pip install` must do without a build
step, so this reads the little of the module syntax that our files use, and refuses the rest:

    import { a, b as c } from "./x.mjs";     import * as x from "./x.mjs";
    export function f(…) {…}     export const c = …     export async function g(…) {…}

Each file becomes a function that returns what it exports, so names of two files cannot collide.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent

_IMPORT = re.compile(
    r"^import\s+(?:\{(?P<names>[^}]*)\}|\*\s+as\s+(?P<all>\w+))\s+from\s+"
    r'"\./(?P<file>[\w-]+\.mjs)";[ \t]*\n',
    re.MULTILINE,
)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const) (?P<name>\w+))", re.MULTILINE)
_LEFT_OVER = re.compile(r"^\s*(?:import|export)\b.*", re.MULTILINE)


def _variable(file: str) -> str:
    return "module_" + re.sub(r"\W", "_", file.removesuffix(".mjs"))


def _as_function(file: str, source: str) -> str:
    """One file, with what it imports read from other files' variables."""

    def taken(match: re.Match[str]) -> str:
        names = match["all"] or "{" + re.sub(r"\s+as\s+", ": ", match["names"]) + "}"
        return f"const {' '.join(names.split())} = {_variable(match['file'])};\n"

    exported = [match["name"] for match in _EXPORT.finditer(source)]
    body = _EXPORT.sub("", _IMPORT.sub(taken, source))
    left_over = _LEFT_OVER.search(body)
    if left_over:
        raise ValueError(
            f"{file} must import and export only in the forms that attnlib.explore.bundle reads, "
            f"got {left_over[0].strip()!r}"
        )
    returned = f"return {{ {', '.join(exported)} }};"
    return f"const {_variable(file)} = (() => {{\n{body.rstrip()}\n{returned}\n}})();\n"


def _in_order(file: str, folder: Path, above: tuple[str, ...], done: dict[str, str]) -> None:
    """Add to `done` every file that this one imports, then the file itself."""
    if file in above:
        raise ValueError(f"modules must not import in a circle, got {' → '.join((*above, file))}")
    if file in done:
        return
    source = (folder / file).read_text(encoding="utf-8")
    for match in _IMPORT.finditer(source):
        _in_order(match["file"], folder, (*above, file), done)
    done[file] = _as_function(file, source)


@cache
def anywidget_module(file: str, folder: Path = FOLDER) -> str:
    """The text of one ES module whose default export is `{ render }` of the file."""
    done: dict[str, str] = {}
    _in_order(file, folder, (), done)
    render = f"{_variable(file)}.render"
    return "\n".join([*done.values(), f"export default {{ render: {render} }};\n"])
