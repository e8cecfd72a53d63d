"""What an explorer's options must be; each check returns the value in its plain, fixed form."""

from __future__ import annotations

import math
from collections import Counter
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


def whole(name: str, value: Any, bounds: tuple[int, int]) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    low, high = bounds
    if not low <= value <= high:
        raise ValueError(f"{name} must lie between {low} and {high}, got {value!r}")
    return int(value)


def whole_or_none(name: str, value: Any, bounds: tuple[int, int]) -> int:
    """None is the lower end, which stands for none of it."""
    return whole(name, bounds[0] if value is None else value, bounds)


def even(name: str, value: Any, bounds: tuple[int, int]) -> int:
    number = whole(name, value, bounds)
    if number % 2:
        raise ValueError(f"{name} must be even, got {value!r}")
    return number


def listed(name: str, value: Any, options: Sequence[int | float]) -> int | float:
    """One of a few numbers; 1e4 is 10_000."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(str, options))}, got {value!r}")
    return options[options.index(value)]


def text(name: str, value: Any, bounds: tuple[int, int]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, got {value!r}")
    fewest, most = bounds
    if not fewest <= len(value) <= most:
        raise ValueError(f"{name} must have {fewest} to {most} characters, got {len(value)}")
    for place, character in enumerate(value):
        if "\ud800" <= character <= "\udfff":
            raise ValueError(
                f"{name} must hold whole characters, got half of one, {character!r}, at {place}"
            )
    return value


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


def merges(name: str, value: Any, bounds: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Pairs of ids; merge i makes the id 256 + i, so its parts must be smaller."""
    checked = tuple(
        tuple(whole(f"each id of {name}", part, (0, 256 + i - 1)) for part in _items(name, pair))
        for i, pair in enumerate(_items(name, value))
    )
    fewest, most = bounds
    if not fewest <= len(checked) <= most:
        raise ValueError(f"{name} must be {fewest} to {most} pairs, got {len(checked)}")
    place: dict[tuple[int, ...], int] = {}
    for i, pair in enumerate(checked):
        if len(pair) != 2:
            raise ValueError(f"each of {name} must be a pair of ids, got {pair} at {i}")
        if place.setdefault(pair, i) != i:
            raise ValueError(
                f"{name} must join each pair once, got {pair} at {place[pair]} and at {i}"
            )
    return checked


def distinct_words(name: str, value: Any, bounds: tuple[int, int]) -> tuple[str, ...]:
    each = f"each of {name}"
    checked = tuple(text(each, word, limits.WORD_LENGTH) for word in _items(name, value))
    fewest, most = bounds
    if not fewest <= len(checked) <= most:
        raise ValueError(f"{name} must be {fewest} to {most} words, got {len(checked)}")
    twice = next((word for word, n in Counter(checked).items() if n > 1), None)
    if twice is not None:
        raise ValueError(f"{name} must hold each word once, got {twice!r} twice")
    return checked


def token_texts(name: str, value: Any, bounds: tuple[int, int]) -> tuple[str, ...]:
    each = f"each of {name}"
    checked = tuple(text(each, token, limits.WORD_LENGTH) for token in _items(name, value))
    fewest, most = bounds
    if not fewest <= len(checked) <= most:
        raise ValueError(f"{name} must be {fewest} to {most} tokens, got {len(checked)}")
    return checked


def labels(name: str, value: Any) -> tuple[str, ...]:
    texts = _items(name, value)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name} must be texts, got {texts!r}")
    return texts
