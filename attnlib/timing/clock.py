r"""The clock: seconds of repeated calls, alone or in turn, and of the steps within a call.

Source   this book
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py

A call on a GPU returns before its work is done. There two events in the GPU's own stream are
the clock, and the CPU waits for the second; on a CPU it is Python's finest clock.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch

from attnlib.require import at_least, number
from attnlib.timing.devices import timed_device

__all__ = [
    "Spread",
    "StepTiming",
    "Timing",
    "compare",
    "ratio",
    "seconds_of",
    "time_calls",
    "time_steps",
]


@dataclass(frozen=True)
class Spread:
    """The middle half of some numbers and their median.

    Args:
        lower: A quarter of the numbers are below.
        median: Half are below.
        upper: A quarter are above.

    Example:
        >>> print(Spread(1.9, 2.0, 2.2))
        2 (1.9 to 2.2)
    """

    lower: float
    median: float
    upper: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.lower:.3g} to {self.upper:.3g})"


@dataclass(frozen=True)
class Timing:
    """The seconds of each repeat of a call, in the order in which they were run.

    Args:
        seconds: At least one, finite and not negative.

    Raises:
        TypeError: If one is no number.
        ValueError: If there is none, or one is negative or not finite.

    Example:
        >>> Timing((4.0, 1.0, 2.0, 3.0)).spread  # quartiles between numbers are interpolated
        Spread(lower=1.75, median=2.5, upper=3.25)
    """

    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        seconds = tuple(number("each of seconds", x) for x in self.seconds)
        if not seconds:
            raise ValueError("there must be at least 1 repeat, got 0")
        if min(seconds) < 0:
            raise ValueError(f"each of seconds must be at least 0, got {min(seconds)}")
        object.__setattr__(self, "seconds", seconds)

    @property
    def spread(self) -> Spread:
        return _spread(self.seconds)

    @property
    def median_seconds(self) -> float:
        return self.spread.median

    @property
    def quartiles_seconds(self) -> tuple[float, float]:
        return self.spread.lower, self.spread.upper


@dataclass(frozen=True, kw_only=True)
class StepTiming:
    """What the first step of a call takes, and what each further one takes.

    Args:
        first: From the beginning of the call to its first step.
        further: The mean over all further steps, one for each repeat.
        n_steps: How many steps each repeat had.
    """

    first: Timing
    further: Timing
    n_steps: int


def seconds_of(call: Callable[[], object], device: torch.device | str | None = None) -> float:
    """Time one call, its work on a GPU included.

    A GPU is idle when the call begins: what was queued before is not counted, and launching the
    call's work is not hidden behind it. What the call does in a stream other than the current
    one is not counted.

    Args:
        call: What is timed; its result is thrown away.
        device: As in `timed_device`.

    Raises:
        TypeError: As `timed_device`, and if call cannot be called.
        ValueError: As `timed_device`.

    Example:
        >>> seconds_of(lambda: sum(range(1000)), "cpu") >= 0
        True
    """
    _require_callable("call", call)
    return _seconds_of(call, timed_device(device))


def time_calls(
    call: Callable[[], object],
    *,
    n_warm_up: int = 1,
    n_repeats: int = 5,
    device: torch.device | str | None = None,
) -> Timing:
    """Time a call several times, after some that do not count.

    The first calls load what later ones find in place: weights in the caches, memory that the
    system has handed out, kernels that are compiled.

    Args:
        call: What is timed; its results are thrown away.
        n_warm_up: How many calls do not count, from 0.
        n_repeats: How many count, from 1.
        device: As in `timed_device`.

    Raises:
        TypeError: As `timed_device`, and if call cannot be called or a number is not whole.
        ValueError: As `timed_device`, and if a number is too small.

    Example:
        >>> calls = []
        >>> timing = time_calls(lambda: calls.append(1), n_warm_up=2, n_repeats=3, device="cpu")
        >>> len(calls), len(timing.seconds)
        (5, 3)
    """
    _require_callable("call", call)
    calls = {"call": call}
    return compare(calls, n_warm_up=n_warm_up, n_repeats=n_repeats, device=device)["call"]


def compare(
    calls: Mapping[str, Callable[[], object]],
    *,
    n_warm_up: int = 1,
    n_repeats: int = 5,
    device: torch.device | str | None = None,
) -> dict[str, Timing]:
    """Time several calls in turn: A B C, then C B A, then A B C again.

    What disturbs the machine for a while then disturbs all of them. Since every second round runs
    backwards, a machine that slows down evenly favours none over an even number of rounds, and over
    an odd number none by more than it slows down within one round.

    Args:
        calls: From names to what is timed.
        n_warm_up: How many rounds do not count, from 0.
        n_repeats: How many rounds count, from 1.
        device: As in `timed_device`.

    Returns:
        One timing for each name, in the order of calls; repeat i of each is of round i.

    Raises:
        TypeError: As `time_calls`.
        ValueError: As `time_calls`, and if there is no call.

    Example:
        >>> order = []
        >>> calls = {name: lambda name=name: order.append(name) for name in "ABC"}
        >>> timings = compare(calls, n_warm_up=1, n_repeats=2, device="cpu")
        >>> "".join(order), list(timings)
        ('ABCABCCBA', ['A', 'B', 'C'])
    """
    if not calls:
        raise ValueError("there must be at least 1 call to time, got 0")
    for name, call in calls.items():
        _require_callable(f"call {name!r}", call)
    n_warm_up = at_least("n_warm_up", n_warm_up, 0)
    n_repeats = at_least("n_repeats", n_repeats, 1)
    device = timed_device(device)

    for _ in range(n_warm_up):
        for call in calls.values():
            call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for i in range(n_repeats):
        for name in names if i % 2 == 0 else reversed(names):
            seconds[name].append(_seconds_of(calls[name], device))
    return {name: Timing(tuple(taken)) for name, taken in seconds.items()}


def ratio(over: Timing, under: Timing) -> Spread:
    """Give how many times as long the first takes as the second, repeat by repeat.

    Of calls that were timed in turn, repeat i of both met the same machine; the ratio of two
    medians would mix a quiet moment of one with a busy one of the other.

    Args:
        over: What is divided.
        under: By what; as many repeats, none of them of no time.

    Raises:
        ValueError: If the numbers of repeats differ, or one of `under` is 0.

    Example:
        >>> ratio(Timing((2.0, 6.0, 3.0)), Timing((1.0, 2.0, 1.0)))
        Spread(lower=2.5, median=3.0, upper=3.0)
    """
    n_over, n_under = len(over.seconds), len(under.seconds)
    if n_over != n_under:
        raise ValueError(f"both must have as many repeats, got {n_over} and {n_under}")
    if min(under.seconds) == 0:
        raise ValueError("each of seconds must be above 0 to divide by it, got 0.0")
    return _spread([a / b for a, b in zip(over.seconds, under.seconds, strict=True)])


def time_steps(
    call: Callable[[Callable[..., None]], object],
    *,
    n_warm_up: int = 1,
    n_repeats: int = 5,
    device: torch.device | str | None = None,
) -> StepTiming:
    """Time the first step of a call and its further steps apart.

    Of generation these are the time to the first token, which reads the whole prompt, and the time
    of each further token: `time_steps(lambda f: generate(model, rows, 128, on_token=f))`.

    Args:
        call: Is given a function that it calls, with whatever arguments, after each step.
        n_warm_up: How many calls do not count, from 0.
        n_repeats: How many count, from 1.
        device: As in `timed_device`.

    Raises:
        TypeError: As `time_calls`.
        ValueError: As `time_calls`, and if a call has fewer than 2 steps or not always as many.

    Example:
        >>> def three_steps(on_step):
        ...     for i in range(3):
        ...         on_step(i)
        >>> time_steps(three_steps, device="cpu").n_steps
        3
    """
    _require_callable("call", call)
    n_warm_up = at_least("n_warm_up", n_warm_up, 0)
    n_repeats = at_least("n_repeats", n_repeats, 1)
    device = timed_device(device)

    ends = [_ends_of_steps(call, device) for _ in range(n_warm_up + n_repeats)]
    n_steps = len(ends[0])
    if n_steps < 2 or any(len(each) != n_steps for each in ends):
        counts = ", ".join(str(len(each)) for each in ends)
        raise ValueError(f"a call must have at least 2 steps and always as many, got {counts}")
    ends = ends[n_warm_up:]
    return StepTiming(
        first=Timing(tuple(each[0] for each in ends)),
        further=Timing(tuple((each[-1] - each[0]) / (n_steps - 1) for each in ends)),
        n_steps=n_steps,
    )


def _seconds_of(call: Callable[[], object], device: torch.device) -> float:
    if device.type == "cpu":
        start = perf_counter()
        call()
        return perf_counter() - start
    with torch.cuda.device(device):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1000  # the events count in milliseconds


def _ends_of_steps(
    call: Callable[[Callable[..., None]], object], device: torch.device
) -> list[float]:
    """When each step was done, in seconds since the beginning."""
    ends: list[float] = []

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    def on_step(*_: object, **__: object) -> None:
        wait()
        ends.append(perf_counter() - start)

    wait()
    start = perf_counter()
    call(on_step)
    return ends


def _spread(values: Sequence[float]) -> Spread:
    return Spread(*np.quantile(values, [0.25, 0.5, 0.75]).tolist())


def _require_callable(name: str, call: object) -> None:
    if not callable(call):
        raise TypeError(f"{name} must be something to call, got {type(call).__name__}")
