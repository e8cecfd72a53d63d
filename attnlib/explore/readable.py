"""Bytes of UTF-8 as readable signs: what is invisible or only part of a character gets a name."""

from __future__ import annotations

from functools import cache
from typing import Any

_SIGNS = {" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥"}


@cache
def _matcher(characters: str) -> Any:
    """Unicode's classes as in JavaScript; the package regex is loaded when a word is said."""
    import regex

    return regex.compile(characters).match


def _is_invisible(character: str) -> bool:
    properties = r"[\p{Cc}\p{Cf}\p{Zs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]"
    return _matcher(properties)(character) is not None


def _is_mark(character: str) -> bool:
    return _matcher(r"\p{M}")(character) is not None


def _characters(data: bytes) -> list[str | int]:
    """The whole characters in some bytes, and between them the bytes that are none."""
    found: list[str | int] = []
    at = 0
    while at < len(data):
        width = next(
            w for least, w in ((0xF0, 4), (0xE0, 3), (0xC0, 2), (0, 1)) if data[at] >= least
        )
        try:
            found.append(data[at : at + width].decode())
            at += width
        except UnicodeDecodeError:
            found.append(data[at])
            at += 1
    return found


def readable(data: bytes) -> str:
    r"""Some bytes as a person can read them.

    Example:
        >>> readable("no sea\n€".encode()[:-1])
        'no␣sea⏎⟨E2 82⟩'
        >>> readable("\ufeff".encode())
        '⟨U+FEFF⟩'
    """
    shown = ""
    after_sign = True  # a mark that begins a token would climb onto what stands before it
    broken: list[int] = []
    for part in [*_characters(data), None]:
        if isinstance(part, int):
            broken.append(part)
            continue
        if broken:
            shown += f"⟨{bytes(broken).hex(' ').upper()}⟩"
            broken, after_sign = [], True
        if part is None:
            break
        is_sign = part in _SIGNS or _is_invisible(part)
        if is_sign:
            shown += _SIGNS.get(part, f"⟨U+{ord(part):04X}⟩")
        else:
            shown += "◌" + part if after_sign and _is_mark(part) else part
        after_sign = is_sign
    return shown
