"""How an explorer says its numbers. Tests hold the words of the JavaScript modules to these.

The words stand in the page until JavaScript takes over, and wherever it never does (a notebook on
a code host, a screen reader's first visit).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

State = Mapping[str, Any]


def show(x: float, decimals: int = 2) -> str:
    """A number with so many decimals, a true minus sign, and no negative zero."""
    text = f"{x:.{decimals}f}"
    return text.replace("-", "" if float(text) == 0 else "−")


def untie(x: float) -> float:
    """A number that may lie halfway between two decimals, such as 1/16, moved off that place.

    There Python would round to even and JavaScript away from zero; so both do the latter.
    """
    return x * (1 + 2.0**-40)


def show_round(x: float) -> str:
    """A number as a person would write it: about three digits, fewer where they are zeros."""
    decimals = min(max(2 - math.floor(math.log10(abs(x) or 1.0)), 0), 4)
    text = show(x, decimals)
    return text.rstrip("0").rstrip(".") if "." in text else text


def show_weight(p: float) -> str:
    """A weight; a small one is not called zero."""
    return "<0.001" if 0 < p < 0.0005 else show(p, 3)


def show_small(x: float) -> str:
    """A number that may be tiny: as a power of ten where three decimals would call it zero."""
    if not 0 < x < 0.0005:
        return show(x, 3)
    mantissa, exponent = f"{x:.1e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_RAISED)}"


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def show_whole(x: float | int) -> str:
    """The nearest whole number, its thousands apart."""
    return f"{x:,.0f}".replace("-", "−")


def show_wavelength(x: float) -> str:
    """A length in positions: three digits, and whole from a hundred on."""
    return show_whole(x) if x >= 100 else show_round(x)


def show_frequency(x: float) -> str:
    """A positive number of any size with three digits, a small one as a power of ten."""
    if x > 0.0099999:
        return show_round(x)
    mantissa, exponent = f"{x:.2e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_RAISED)}"


def show_metric(x: float | int, unit: str) -> str:
    """A number that is not negative, with three digits and a metric prefix: 139 GFLOP, 69.6 ms."""
    if x == 0:
        return f"0 {unit}"
    mantissa, exponent = f"{untie(float(x)):.2e}".split("e")
    thousands, before = divmod(int(exponent), 3)
    digits = mantissa.replace(".", "")
    text = digits[: 1 + before] + ("" if before == 2 else f".{digits[1 + before :]}")
    return f"{text} {_PREFIXES[thousands]}{unit}"


_PREFIXES = {-4: "p", -3: "n", -2: "µ", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P"}
_PREFIXES |= {6: "E", 7: "Z"}


def show_binary(n_bytes: float | int) -> str:
    """A number of bytes with about three digits and a binary prefix: 67.5 KiB, 2.5 GiB."""
    amount, power = untie(float(n_bytes)), 0
    while amount >= 1023.5 and power < len(_BINARY) - 1:
        amount, power = amount / 1024, power + 1
    return f"{show_wavelength(amount)} {_BINARY[power]}"


_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def show_thousandths(x: float) -> str:
    """Three decimals; half a thousandth counts up in Python as in JavaScript."""
    return show(math.floor(1000 * x + 0.5) / 1000, 3)


def quote(text: str) -> str:
    """A text in quotes; one that reads from the right is isolated: else it turns what follows."""
    return f"“\u2068{text}\u2069”" if _FROM_THE_RIGHT.search(text) else f"“{text}”"


# The blocks of scripts that read from the right, Hebrew and Arabic before all.
_FROM_THE_RIGHT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]"
)


def show_count(count: float | int, thing: str) -> str:
    """A number and its noun: 1 head, 2 heads."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def show_tokens(count: int) -> str:
    """A number of tokens, its thousands apart: 1 token, 8,192 tokens."""
    return f"{show_whole(count)} token{'' if count == 1 else 's'}"


def show_point(point: Sequence[float]) -> str:
    return f"({show(point[0])}, {show(point[1])})"
