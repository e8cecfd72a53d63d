"""What a number must be that a function is given, said in one way and before any work.

Source   this book
Chapter  chapters/conventions.md
Axes     attnlib/axes.py

Each check gives the value back as Python's own number. One of NumPy wraps round where it overflows,
and a tensor cannot be divided by a fraction.

    >>> at_least("window", 3, 1), positive("factor", 8)
    (3, 8.0)
"""

import operator
from math import inf, isfinite
from numbers import Real


def integer(name: str, x: object) -> int:
    """A whole number, of NumPy and torch too; what is true or false is none."""
    is_truth = isinstance(x, bool) or str(getattr(x, "dtype", "")).endswith("bool")
    try:
        if is_truth:
            raise TypeError
        return operator.index(x)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {x!r}") from None


def at_least(name: str, x: object, least: int) -> int:
    whole = integer(name, x)
    if whole < least:
        raise ValueError(f"{name} must be at least {least}, got {x}")
    return whole


def between(name: str, x: object, least: int, most: int) -> int:
    whole = at_least(name, x, least)
    if whole > most:
        raise ValueError(f"{name} must be at most {most}, got {x}")
    return whole


def number(name: str, x: object) -> float:
    if isinstance(x, bool) or not isinstance(x, Real):
        raise TypeError(f"{name} must be a number, got {x!r}")
    try:
        value = float(x)
    except OverflowError:  # a whole number beyond the largest float
        value = inf
    if not isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")
    return value


def positive(name: str, x: object) -> float:
    value = number(name, x)
    if value <= 0:
        raise ValueError(f"{name} must be above 0, got {x}")
    return value
