"""What an explorer's options must be; each check returns the value in its plain, fixed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from attnlib.explore import limits


def number(name: str, value: Any, bounds: tuple[float, float]) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    low, high = bounds
    if not low <= value <= high:  # also refuses NaN
        raise ValueError(f"{name} must lie between {low:g} and {high:g}, got {value!r}")
    return float(value)


def power_of_two(name: str, value: Any, bounds: tuple[int, int]) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    low, high = bounds
    if not low <= value <= high or not math.log2(value).is_integer():
        raise ValueError(f"{name} must be a power of two from {low} to {high}, got {value!r}")
    return int(value)


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return value


def choice(name: str, value: Any, options: Sequence[str]) -> str:
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(options)}, got {value!r}")
    return value


def _items(name: str, value: Any) -> tuple[Any, ...]:
    """A tuple, so that `explorer.scores[0] = 3`, which no picture would notice, is an error."""
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise TypeError(f"{name} must be a list, got {value!r}")
    return tuple(value)


def scores(name: str, value: Any) -> tuple[float, ...]:
    numbers = tuple(number(f"each of {name}", z, limits.SCORE) for z in _items(name, value))
    fewest, most = limits.N_SOURCES
    if not fewest <= len(numbers) <= most:
        raise ValueError(f"{name} must have {fewest} to {most} numbers, got {len(numbers)}")
    return numbers


def point(name: str, value: Any) -> tuple[float, ...]:
    each = f"each coordinate of {name}"
    numbers = tuple(number(each, x, limits.POSITION) for x in _items(name, value))
    if len(numbers) != 2:
        raise ValueError(f"{name} must have 2 coordinates, got {len(numbers)}")
    return numbers


def points(name: str, value: Any) -> tuple[tuple[float, ...], ...]:
    checked = tuple(point(f"each of {name}", key) for key in _items(name, value))
    fewest, most = limits.N_SOURCES
    if not fewest <= len(checked) <= most:
        raise ValueError(f"{name} must have {fewest} to {most} points, got {len(checked)}")
    return checked


def labels(name: str, value: Any) -> tuple[str, ...]:
    texts = _items(name, value)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name} must be texts, got {texts!r}")
    return texts
