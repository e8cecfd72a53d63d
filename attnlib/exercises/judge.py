"""How a reader's function is judged.

Source   this book
Chapter  chapters/how-this-book-is-checked.md
Axes     attnlib/axes.py

An exercise holds a definition, a few cases of small and different sizes, and a table of wrong
variants. The reader's function is right if it agrees with the definition in every case. If it is
wrong, and agrees with one of the wrong variants in every case, that variant is the likely mistake;
if it does so at least up to the first case in which it goes wrong, that case is named too. Where
the definition says True and False, so must the reader's function.
"""

import traceback
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
    """What is asked, the definition that knows the answer, and the mistakes that are known.

    A mistake may name numbers in braces, such as {m}. `numbers` gives them, for the first case in
    which the function goes wrong: from its arguments, what the function returned, and what it
    should have.
    """

    name: str
    asks: str
    definition: Callable
    cases: tuple[Case, ...]
    mistakes: dict[str, Callable]
    numbers: Callable[[dict[str, Any], np.ndarray, np.ndarray], dict[str, Any]] | None = None

    def check(self, function: Callable) -> None:
        """Run the function in every case; print one line if it is right, raise Mistake if not."""
        if not callable(function):
            raise Mistake(
                f"{self.name}: hand over the function itself, got {type(function).__name__}. "
                f"Asked for is {self.asks}."
            )
        wanted = [_results(_call(self.definition, case, _numpy)) for case in self.cases]
        outcomes = [
            self._outcome(function, case, len(w))
            for case, w in zip(self.cases, wanted, strict=True)
        ]
        agrees = [_agree(o, w) for o, w in zip(outcomes, wanted, strict=True)]
        if not all(agrees):
            raise self._mistake(outcomes, wanted, agrees.index(False))
        if _is_truth(wanted[0]) and not all(map(_is_truth, outcomes)):
            raise Mistake(
                f"{self.name}: the numbers 0 and 1 stand where True and False belong; "
                "return booleans."
            )
        print(f"Right: {self.name} agrees with its definition in all {len(self.cases)} cases.")

    def _outcome(self, function: Callable, case: Case, n: int) -> list[np.ndarray] | Exception:
        """The n results of the function, or what it raised.

        Whether it wants arrays of NumPy or of torch is found out by trying, the likelier first.
        """
        names = getattr(getattr(function, "__code__", None), "co_names", ())
        raised = []
        for kind in (_torch, _numpy) if "torch" in names else (_numpy, _torch):
            try:
                return _results(_call(function, case, kind), n)
            except Mistake as mistake:
                raise Mistake(f"{self.name}: {mistake}") from None
            except Exception as error:  # whatever a reader's function may raise
                raised.append(error)
        return _to_tell(raised, names)

    def _mistake(self, outcomes: list, wanted: list, first: int) -> Mistake:
        """The likely mistake, or else what was asked and what came instead."""
        case, outcome = self.cases[first], outcomes[first]
        for n_cases, where in (
            (len(self.cases), self.name),
            (first + 1, f"{self.name}, {case.about}"),
        ):
            told = outcomes[:n_cases]
            # two functions that only raise have nothing in common
            if all(
                isinstance(o, Exception) or _agree(o, w) for o, w in zip(told, wanted, strict=False)
            ):
                continue
            for says, variant in self.mistakes.items():
                given = [_outcome_of_variant(variant, case) for case in self.cases[:n_cases]]
                if all(_agree(o, g) for o, g in zip(told, given, strict=True)):
                    return Mistake(f"{where}: {self._with_numbers(says, outcomes, wanted)}")
        where = f"{self.name}, {case.about} ({_shapes(case)})"
        if isinstance(outcome, Exception):
            mistake = Mistake(
                f"{where}: your function raised {_named(outcome)}. "
                f"{_hint(outcome)}Asked for is {self.asks}."
            )
            mistake.__cause__ = outcome.errors[0] if isinstance(outcome, _Both) else outcome
            return mistake
        return Mistake(f"{where}: {_difference(outcome, wanted[first])}")

    def _with_numbers(self, says: str, outcomes: list, wanted: list) -> str:
        """The mistake with the numbers of the first case in which it shows."""
        if self.numbers is None:
            return says
        case, got, right = next(
            (case, got, right)
            for case, got, right in zip(self.cases, outcomes, wanted, strict=True)
            if not isinstance(got, Exception) and not _agree(got, right)
        )
        return says.format(**self.numbers(case.arguments, got[0], right[0]))


class _Both(Exception):
    """What a function raised when given NumPy arrays, and when given torch tensors."""

    def __init__(self, errors: list[Exception]):
        with_numpy, with_torch = errors
        super().__init__(
            f"{_named(with_numpy)} (with NumPy arrays) and {_named(with_torch)} "
            "(with torch tensors)"
        )
        self.errors = errors


def _named(error: Exception) -> str:
    return str(error) if isinstance(error, _Both) else f"{type(error).__name__}: {error}"


def _to_tell(raised: list[Exception], names: tuple[str, ...]) -> Exception:
    """The error that tells the reader most, of those raised with either kind of array.

    Where the function names torch or NumPy, it is the error raised with that kind. Where an array
    of NumPy lacks a method that tensors have, the error raised with tensors is the real one.
    """
    first, second = raised
    if "torch" in names:
        return first
    if isinstance(first, AttributeError) and hasattr(torch.Tensor, first.name or ""):
        return second
    if {"np", "numpy"} & set(names) or _named(first) == _named(second):
        return first
    return _Both(raised)


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


def _results(result: Any, n: int = 1) -> list[np.ndarray]:
    """One array or a tuple of them, as a list of arrays, float64 or true and false.

    A list is an array, unless several results are wanted. A tuple or a list within the tuple is
    counted by its parts where only these make up the number that is wanted.
    """
    if result is None:
        raise Mistake("your function returns None: is there a return at its end?")
    several = isinstance(result, tuple) or (isinstance(result, list) and n > 1)
    parts = list(result) if several else [result]
    flat = [y for x in parts for y in (x if isinstance(x, tuple | list) else (x,))]
    try:
        return [_real(x) for x in (flat if len(flat) == n != len(parts) else parts)]
    except (TypeError, ValueError) as error:
        raise Mistake(
            "your function must return real numbers in an array or a tensor, or a tuple of them, "
            f"got {error if isinstance(error, _NotReal) else type(result).__name__}."
        ) from None


class _NotReal(TypeError):
    """What stands where real numbers belong."""


def _real(x: Any) -> np.ndarray:
    """A float64 array, unless it is true or false; no imaginary parts dropped, no texts read."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu()
        x = x.numpy() if x.is_complex() or x.dtype == torch.bool else x.double().numpy()
    x = np.asarray(x)
    if x.dtype.kind in "USc" or any(isinstance(y, str | bytes | complex) for y in x.ravel()):
        raise _NotReal("complex numbers" if x.dtype.kind == "c" else "texts")
    return x if x.dtype == bool else x.astype(np.float64)


def _is_truth(results: list[np.ndarray]) -> bool:
    return all(x.dtype == bool for x in results)


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
    """What is behind the error that reducing an axis provokes most often.

    Only elementwise arithmetic is meant. NumPy calls the shapes of a product "remapped"; torch has
    one sentence for both, and the line that raised it must tell them apart.
    """
    if isinstance(error, _Both):
        return _hint(error.errors[0]) or _hint(error.errors[1])
    text = str(error)
    of_numpy = "could not be broadcast together" in text and "remapped" not in text
    line = next((f.line or "" for f in reversed(traceback.extract_tb(error.__traceback__))), "")
    product = any(word in line for word in ("@", "matmul", "einsum", "bmm"))
    if of_numpy or ("must match the size" in text and not product):
        return "A sum or maximum over an axis keeps its place with keepdims=True. "
    return ""


def _shapes(case: Case) -> str:
    """What goes into a case: the shapes of arrays, and numbers as they are."""
    return ", ".join(
        f"{name} = {x}" if isinstance(x, int | float) else f"{name} {_shape(x)}"
        for name, x in case.arguments.items()
        if not callable(x)
    )


def _shape(x: Any) -> Any:
    """The shape of an array, or those of a tuple; a single number has the shape ()."""
    return tuple(_shape(y) for y in x) if isinstance(x, tuple) else np.shape(x)


def _difference(got: list[np.ndarray], wanted: list[np.ndarray]) -> str:
    if len(got) != len(wanted):
        if len(wanted) == 1:
            return f"one array is asked for, got a tuple of {len(got)}."
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
    return f"result{index} must be {_shown(y[place])}, got {_shown(x[place])}."


def _shown(x: np.generic) -> str:
    return str(x) if x.dtype == bool else f"{x:.6g}"
