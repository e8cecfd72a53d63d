"""Write a formula without the book's own TeX macros.

A notebook's reader has only the macros of MathJax itself, so the definitions of `_config.yml`
(mathjax3_config: tex: macros) are written out wherever a formula uses them.
"""

import re
from collections.abc import Mapping

Macros = Mapping[str, str | list]


def read_macros(config: dict) -> Macros:
    """Return the macros of `_config.yml`, as MathJax takes them: text, or [text, arguments]."""
    sphinx = (config.get("sphinx") or {}).get("config") or {}
    return ((sphinx.get("mathjax3_config") or {}).get("tex") or {}).get("macros") or {}


def expand(tex: str, macros: Macros, limit: int = 1000) -> str:
    """Return the formula with every macro replaced by its definition.

    Raises:
        ValueError: If a macro lacks an argument in braces, or macros define each other.
    """
    for _ in range(limit):
        match = next((m for m in re.finditer(r"\\([A-Za-z]+)", tex) if m[1] in macros), None)
        if match is None:
            return tex
        definition = macros[match[1]]
        body, count = (definition, 0) if isinstance(definition, str) else definition[:2]
        end, arguments = match.end(), []
        for _ in range(count):
            argument, end = _argument(tex, end, match[0])
            arguments.append(argument)
        # A function, since a replacement text would read its own backslashes as escapes.
        written = re.sub(r"#(\d)", lambda m, a=arguments: a[int(m[1]) - 1], body)
        tex = f"{tex[: match.start()]}{written}{tex[end:]}"
    raise ValueError(f"the macros of this formula do not end: {tex[:80]}")


def _argument(tex: str, start: int, macro: str) -> tuple[str, int]:
    while start < len(tex) and tex[start].isspace():
        start += 1
    if tex[start : start + 1] != "{":
        raise ValueError(f"{macro} needs its argument in braces: {tex[:80]}")
    depth = 0
    for end in range(start, len(tex)):
        depth += {"{": 1, "}": -1}.get(tex[end], 0)
        if depth == 0:
            return tex[start + 1 : end], end + 1
    raise ValueError(f"{macro}: a brace is never closed: {tex[:80]}")
