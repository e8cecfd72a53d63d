"""How a reader's function is judged.

Source   this book
Chapter  chapters/how-this-book-is-checked.md
Axes     attnlib/axes.py

An exercise holds a definition, a few cases of small and different sizes, and a table of wrong
variants. The reader's function is right if it agrees with the definition in every case. If it is
wrong, and agrees with one of the wrong variants in every case, or at least up to the first one in
which it goes wrong, that variant is the likely mistake.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

# A reader may compute in float32: ten roundings of 2⁻²⁴ in results of order one, with room.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


class Mistake(AssertionError):
    """What is wrong with a reader's function, in words for the reader."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One input, by the names of the arguments, and what is special about it."""

    about: str
    arguments: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """What is asked, the definition that knows the answer, and the mistakes that are known."""

    name: str
    asks: str
    definition: Callable
    cases: tuple[Case, ...]
    mistakes: dict[str, Callable]

    def check(self, function: Callable) -> None:
        """Run the function in every case; print one line if it is right, raise Mistake if not."""
        if not callable(function):
            raise Mistake(
                f"{self.name}: hand over the function itself, got {type(function).__name__}. "
                f"Asked for is {self.asks}."
            )
        outcomes = [self._outcome(function, case) for case in self.cases]
        wanted = [_results(_call(self.definition, case, _numpy)) for case in self.cases]
        agrees = [_agree(o, w) for o, w in zip(outcomes, wanted, strict=True)]
        if not all(agrees):
            raise self._mistake(outcomes, wanted, agrees.index(False))
        print(f"Right: {self.name} agrees with its definition in all {len(self.cases)} cases.")

    def _outcome(self, function: Callable, case: Case) -> list[np.ndarray] | Exception:
        """The results of the function, or what it raised.

        Whether it wants arrays of NumPy or of torch is found out by trying, the likelier first.
        """
        names = getattr(getattr(function, "__code__", None), "co_names", ())
        raised = []
        for kind in (_torch, _numpy) if "torch" in names else (_numpy, _torch):
            try:
                return _results(_call(function, case, kind))
            except Mistake as mistake:
                raise Mistake(f"{self.name}: {mistake}") from None
            except Exception as error:  # whatever a reader's function may raise
                raised.append(error)
        return raised[0]

    def _mistake(self, outcomes: list, wanted: list, first: int) -> Mistake:
        """The likely mistake, or else what was asked and what came instead."""
        for n_cases in (len(self.cases), first + 1):
            told = outcomes[:n_cases]
            # two functions that only raise have nothing in common
            if all(
                isinstance(o, Exception) or _agree(o, w) for o, w in zip(told, wanted, strict=False)
            ):
                continue
            for says, variant in self.mistakes.items():
                given = [_outcome_of_variant(variant, case) for case in self.cases[:n_cases]]
                if all(_agree(o, g) for o, g in zip(told, given, strict=True)):
                    return Mistake(f"{self.name}: {says}")
        case, outcome = self.cases[first], outcomes[first]
        where = f"{self.name}, {case.about} ({_shapes(case)})"
        if isinstance(outcome, Exception):
            mistake = Mistake(
                f"{where}: your function raised {type(outcome).__name__}: {outcome}. "
                f"{_hint(outcome)}Asked for is {self.asks}."
            )
            mistake.__cause__ = outcome
            return mistake
        return Mistake(f"{where}: {_difference(outcome, wanted[first])}")


def _call(function: Callable, case: Case, kind: Callable) -> Any:
    """Call with copies, so that a function that writes into its arguments is found out."""
    given = {name: kind(x) for name, x in case.arguments.items()}
    with np.errstate(all="ignore"):
        result = function(*given.values())
    for name, x in case.arguments.items():
        if not _same(given[name], x):
            raise Mistake(
                f"your function changes its argument {name}; work on a copy, since whoever calls "
                "it still needs it."
            )
    return result


def _numpy(x: Any) -> Any:
    """A copy, as NumPy holds it; what is no array is passed on."""
    if isinstance(x, tuple):
        return tuple(_numpy(y) for y in x)
    return x.copy() if isinstance(x, np.ndarray) else x


def _torch(x: Any) -> Any:
    """A copy, as torch holds it, numbers too; what is no array is passed on."""
    if isinstance(x, tuple):
        return tuple(_torch(y) for y in x)
    return torch.tensor(x) if isinstance(x, np.ndarray | np.generic) else x


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(b, np.ndarray | np.generic):
        return np.array_equal(np.asarray(a), b)
    return a is b


def _results(result: Any) -> list[np.ndarray]:
    """One array or a tuple of them, as a list of float64 arrays."""
    if result is None:
        raise Mistake("your function returns None: is there a return at its end?")
    results = result if isinstance(result, tuple) else (result,)
    try:
        return [
            x.detach().cpu().double().numpy()
            if isinstance(x, torch.Tensor)
            else np.asarray(x, dtype=np.float64)
            for x in results
        ]
    except (TypeError, ValueError):
        raise Mistake(
            "your function must return numbers in an array or a tensor, or a tuple of them, got "
            f"{type(result).__name__}."
        ) from None


def _outcome_of_variant(variant: Callable, case: Case) -> list[np.ndarray] | Exception:
    """What a known mistake gives; it may raise, as the reader's function then does too."""
    try:
        return _results(_call(variant, case, _numpy))
    except Exception as error:
        return error


def _agree(a: list[np.ndarray] | Exception, b: list[np.ndarray] | Exception) -> bool:
    if isinstance(a, Exception) or isinstance(b, Exception):
        return isinstance(a, Exception) and isinstance(b, Exception)
    return len(a) == len(b) and all(
        x.shape == y.shape and np.allclose(x, y, equal_nan=True, **TOLERANCE)
        for x, y in zip(a, b, strict=True)
    )


def _hint(error: Exception) -> str:
    """What is behind the error that reducing an axis provokes most often."""
    if "broadcast" in str(error) or "must match the size" in str(error):
        return "A sum or maximum over an axis keeps its place with keepdims=True. "
    return ""


def _shapes(case: Case) -> str:
    return ", ".join(f"{name} {_shape(x)}" for name, x in case.arguments.items() if not callable(x))


def _shape(x: Any) -> Any:
    """The shape of an array, or those of a tuple; a single number has the shape ()."""
    return tuple(_shape(y) for y in x) if isinstance(x, tuple) else np.shape(x)


def _difference(got: list[np.ndarray], wanted: list[np.ndarray]) -> str:
    if len(got) != len(wanted):
        return f"{len(wanted)} results are asked for, got {len(got)}."
    for x, y in zip(got, wanted, strict=True):
        if x.shape != y.shape:
            return f"the result must have shape {y.shape}, got {x.shape}."
    x, y = next(
        (x, y)
        for x, y in zip(got, wanted, strict=True)
        if not np.allclose(x, y, equal_nan=True, **TOLERANCE)
    )
    place = np.unravel_index(np.argmax(~np.isclose(x, y, equal_nan=True, **TOLERANCE)), x.shape)
    index = f"[{', '.join(str(i) for i in place)}]" if x.ndim else ""
    return f"result{index} must be {y[place]:.6g}, got {x[place]:.6g}."
