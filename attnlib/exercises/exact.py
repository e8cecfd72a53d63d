r"""Exercises whose results are lists, dictionaries or texts, right or wrong to the last element.

Source   this book
Chapter  chapters/how-this-book-is-checked.md
Axes     attnlib/axes.py

The judge of arrays, in judge.py, allows for rounding and knows shapes. Where a result is a list of
tokens, neither helps: here the reader is shown both lists, and 1.0 or True is no token.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from attnlib.exercises.judge import Case, Exercise, Mistake


class ExactExercise(Exercise):
    """What is asked, the definition that knows the answer, and the mistakes that are known."""

    def check(self, function: Callable) -> None:
        """Run the function in every case; print one line if it is right, raise Mistake if not."""
        if not callable(function):
            raise Mistake(
                f"{self.name}: hand over the function itself, got {type(function).__name__}. "
                f"Asked for is {self.asks}."
            )
        wanted = [_plain(self.definition(**case.arguments)) for case in self.cases]
        outcomes = [self._result(function, case) for case in self.cases]
        if not _same(outcomes, wanted):
            raise self._of_outcomes(outcomes, wanted)
        print(f"Right: {self.name} agrees with its definition in all {len(self.cases)} cases.")

    def _result(self, function: Callable, case: Case) -> Any:
        """What the function returns, in plain lists and integers, or what it raised."""
        given = deepcopy(case.arguments)
        try:
            result = _plain(function(*given.values()))
        except Mistake as mistake:
            raise Mistake(f"{self.name}: {mistake}") from None
        except Exception as error:  # whatever a reader's function may raise
            return error
        for name, x in case.arguments.items():
            if not _same(given[name], x):
                raise Mistake(
                    f"{self.name}: your function changes its argument {name}; work on a copy, "
                    "since whoever calls it still needs it."
                )
        if result is None:
            raise Mistake(
                f"{self.name}, {case.about}: your function returns None: is there a return at its "
                "end?"
            )
        return result

    def _of_outcomes(self, outcomes: list, wanted: list) -> Mistake:
        """The known mistake that has the same outcomes, in all cases or up to the first wrong."""
        first = next(i for i, w in enumerate(wanted) if not _same(outcomes[i], w))
        case, outcome = self.cases[first], outcomes[first]
        for n_cases, where in (
            (len(self.cases), self.name),
            (first + 1, f"{self.name}, {case.about}"),
        ):
            told = outcomes[:n_cases]
            if any(isinstance(outcome, Exception) for outcome in told):
                continue
            for says, variant in self.mistakes.items():
                if _same(told, [self._result(variant, case) for case in self.cases[:n_cases]]):
                    return Mistake(f"{where}: {says}")
        given = ", ".join(f"{name}={x!r}" for name, x in case.arguments.items())
        where = f"{self.name}, {case.about}, {given}"
        if isinstance(outcome, Exception):
            mistake = Mistake(
                f"{where}: your function raised {type(outcome).__name__}: {outcome}. "
                f"Asked for is {self.asks}."
            )
            mistake.__cause__ = outcome
            return mistake
        return Mistake(f"{where}: the result must be {wanted[first]!r}, got {outcome!r}.")


def _plain(x: Any) -> Any:
    """Arrays and tensors as lists, tuples too; the keys of dictionaries as tuples of integers."""
    if isinstance(x, Iterator):
        raise Mistake(f"your function returns a {type(x).__name__}; make a list of it.")
    if isinstance(x, Mapping):
        plain = {_key(key): _plain(value) for key, value in x.items()}
        if len(plain) < len(x):
            raise Mistake(
                "several keys of your dictionary say the same, since two tensors are two keys even "
                "where they are equal; make them integers."
            )
        return plain
    if hasattr(x, "tolist"):
        return x.tolist()
    return [_plain(y) for y in x] if isinstance(x, list | tuple) else x


def _key(key: Any) -> Any:
    return tuple(_plain(y) for y in key) if isinstance(key, tuple) else _plain(key)


def _same(a: Any, b: Any) -> bool:
    """Equal, and of equal types all the way down: 1, 1.0 and True are three results."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in b)
    return a == b
