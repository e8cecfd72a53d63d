r"""Stored results: times over sizes, with the machine and the date, as a file of JSON.

Source   this book
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py

A page that was built without a GPU shows what was measured on one, and says so.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from math import isfinite
from pathlib import Path

import torch

from attnlib.files import written_whole
from attnlib.require import at_least
from attnlib.timing.clock import Timing, compare
from attnlib.timing.devices import Machine, this_machine
from attnlib.timing.exponents import Exponent, fit_exponent

__all__ = ["Measurement", "load_timings", "measure_sizes", "measured_or_stored", "save_timings"]

_KIND = "attnlib timings, version 1"
_SETTINGS = (str, int, float, bool, type(None))


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """How long some calls take at some sizes, on which machine and when.

    Args:
        title: What was measured.
        x_title: What the sizes count.
        sizes: Whole numbers from 1, growing.
        timings: From the name of a curve to one timing for each size.
        machine: On what.
        settings: What else a reader has to know, by name: the dtype, the model, the prompt.
        peak_bytes: From the name of a curve to the most memory at each size, where it is known.
        is_stored: Whether it was read from a file.

    Raises:
        TypeError: If a field is of another kind.
        ValueError: If the sizes do not grow, there is no curve, a curve has not one entry a size,
            or a setting is not finite.

    Example:
        >>> machine = this_machine("cpu")
        >>> now = Measurement(
        ...     title="a sum", x_title="numbers", sizes=(1, 2, 4), machine=machine,
        ...     timings={"sum": (Timing((1.0,)), Timing((2.0,)), Timing((4.0,)))})
        >>> round(now.exponent("sum").value, 9)
        1.0
        >>> now.provenance == f"measured now: {machine}"
        True
    """

    title: str
    x_title: str
    sizes: tuple[int, ...]
    timings: Mapping[str, tuple[Timing, ...]]
    machine: Machine
    settings: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    peak_bytes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    is_stored: bool = False

    def __post_init__(self) -> None:
        for name in ("title", "x_title"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a text, got {getattr(self, name)!r}")
        sizes = tuple(at_least("each of sizes", x, 1) for x in self.sizes)
        if not sizes or any(a >= b for a, b in pairwise(sizes)):
            raise ValueError(f"sizes must be at least 1 and grow, got {sizes}")
        if not isinstance(self.machine, Machine):
            raise TypeError(f"machine must be a Machine, got {type(self.machine).__name__}")
        if not self.timings:
            raise ValueError("there must be at least 1 curve, got 0")
        timings = {name: tuple(curve) for name, curve in self.timings.items()}
        peaks = {
            name: tuple(at_least("each of peak_bytes", x, 0) for x in curve)
            for name, curve in self.peak_bytes.items()
        }
        for name, curve in (*timings.items(), *peaks.items()):
            _require_name(name)
            if len(curve) != len(sizes):
                raise ValueError(
                    f"curve {name!r} must have one entry a size, {len(sizes)}, got {len(curve)}"
                )
        for curve in timings.values():
            for timing in curve:
                if not isinstance(timing, Timing):
                    raise TypeError(f"a curve must be of Timings, got {type(timing).__name__}")
        for name, value in self.settings.items():
            if not (isinstance(name, str) and isinstance(value, _SETTINGS)):
                raise TypeError(f"a setting must be a text or a number, got {name!r}: {value!r}")
            if isinstance(value, float) and not isfinite(value):
                raise ValueError(f"a setting must be finite, got {name!r}: {value}")
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "timings", timings)
        object.__setattr__(self, "peak_bytes", peaks)
        object.__setattr__(self, "settings", dict(self.settings))

    @property
    def provenance(self) -> str:
        """On what and when it was measured: "measured now: …" or "stored, measured before: …"."""
        when = "stored, measured before" if self.is_stored else "measured now"
        return f"{when}: {self.machine}"

    def medians_seconds(self, name: str) -> list[float]:
        """The median of a curve at each size.

        Raises:
            ValueError: If there is no such curve.
        """
        return [timing.median_seconds for timing in self._curve(name)]

    def exponent(self, name: str, *, n_last: int | None = None) -> Exponent:
        """Fit the exponent of a curve to its medians.

        Args:
            name: Of the curve.
            n_last: How many of the largest sizes count, at least 3; None counts all. What is small
                is often not yet in the growth that theory speaks of.

        Raises:
            TypeError: If `n_last` is not whole.
            ValueError: If there is no such curve, or `n_last` is below 3 or above the number of
                sizes.
        """
        medians = self.medians_seconds(name)
        n = len(medians) if n_last is None else at_least("n_last", n_last, 3)
        if n > len(medians):
            raise ValueError(f"n_last must be at most the number of sizes, {len(medians)}, got {n}")
        return fit_exponent(self.sizes[-n:], medians[-n:])

    def _curve(self, name: str) -> tuple[Timing, ...]:
        if name not in self.timings:
            raise ValueError(f"name must be one of {', '.join(self.timings)}, got {name!r}")
        return self.timings[name]


def _require_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a curve must be a text, got {name!r}")


def measure_sizes(
    calls_at: Callable[[int], Mapping[str, Callable[[], object]]],
    sizes: Sequence[int],
    *,
    title: str,
    x_title: str,
    settings: Mapping[str, str | int | float | bool | None] | None = None,
    n_warm_up: int = 1,
    n_repeats: int = 5,
    device: torch.device | str | None = None,
) -> Measurement:
    """Time the same calls at one size after the other, at each of them in turn.

    Args:
        calls_at: From a size to the calls by name; always the same names, whatever their order.
        sizes: As in `Measurement`.
        title: As in `Measurement`.
        x_title: As in `Measurement`.
        settings: As in `Measurement`.
        n_warm_up: As in `compare`.
        n_repeats: As in `compare`.
        device: As in `timed_device`.

    Raises:
        TypeError: As `compare` and `Measurement`.
        ValueError: As `compare` and `Measurement`, and if the names differ from size to size.

    Example:
        >>> timed = measure_sizes(lambda n: {"sum": lambda: sum(range(n))}, [100, 200, 400],
        ...                       title="a sum", x_title="numbers", device="cpu")
        >>> len(timed.timings["sum"])
        3
    """
    machine, sizes = this_machine(device), tuple(sizes)
    # refuses what is wrong with the words and the sizes before anything is timed
    none_yet = Measurement(
        title=title,
        x_title=x_title,
        sizes=sizes,
        timings={"none": (Timing((0.0,)),) * len(sizes)},
        machine=machine,
        settings=settings or {},
    )
    timings: dict[str, list[Timing]] = {}
    for i, size in enumerate(none_yet.sizes):
        calls = calls_at(size)
        for name in calls:
            _require_name(name)
        if i and set(calls) != set(timings):
            raise ValueError(
                f"the calls must have the same names at every size, got {', '.join(timings)} and "
                f"at size {size} {', '.join(calls)}"
            )
        timed = compare(calls, n_warm_up=n_warm_up, n_repeats=n_repeats, device=device)
        for name, timing in timed.items():
            timings.setdefault(name, []).append(timing)
    return replace(none_yet, timings={name: tuple(curve) for name, curve in timings.items()})


def save_timings(path: str | os.PathLike, measurement: Measurement) -> None:
    """Write a measurement as JSON, whole or not at all.

    Raises:
        FileNotFoundError: If there is no such folder.
        OSError: If the file cannot be written.
        TypeError: If it is no measurement.
        ValueError: If the path is that of a folder or of a device.
    """
    if not isinstance(measurement, Measurement):
        raise TypeError(f"measurement must be a Measurement, got {type(measurement).__name__}")
    held = {
        "kind": _KIND,
        "title": measurement.title,
        "x_title": measurement.x_title,
        "machine": asdict(measurement.machine),
        "settings": measurement.settings,
        "sizes": measurement.sizes,
        "seconds": {
            name: [timing.seconds for timing in curve]
            for name, curve in measurement.timings.items()
        },
        "peak_bytes": measurement.peak_bytes,
    }
    text = json.dumps(held, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with written_whole(Path(path)) as beside:
        beside.write_text(text, encoding="utf-8")


def load_timings(path: str | os.PathLike) -> Measurement:
    """Read a measurement that `save_timings` wrote; it says that it is stored.

    Raises:
        FileNotFoundError: If there is none.
        OSError: If the file cannot be read.
        ValueError: If it holds no measurement.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> now = measure_sizes(lambda n: {"sum": lambda: sum(range(n))}, [10, 20],
        ...                     title="a sum", x_title="numbers", device="cpu")
        >>> with TemporaryDirectory() as folder:
        ...     save_timings(f"{folder}/sum.json", now)
        ...     before = load_timings(f"{folder}/sum.json")
        >>> before.timings == now.timings, before.provenance.partition(":")[0]
        (True, 'stored, measured before')
    """
    content = Path(path).read_bytes()
    try:
        held = json.loads(content)
        if held["kind"] != _KIND:
            raise ValueError(f"kind must be {_KIND!r}, got {held['kind']!r}")
        return Measurement(
            title=held["title"],
            x_title=held["x_title"],
            sizes=tuple(held["sizes"]),
            timings={
                name: tuple(Timing(tuple(seconds)) for seconds in curve)
                for name, curve in held["seconds"].items()
            },
            machine=Machine(**held["machine"]),
            settings=held["settings"],
            peak_bytes={name: tuple(curve) for name, curve in held["peak_bytes"].items()},
            is_stored=True,
        )
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} must be a file that save_timings wrote: {type(error).__name__}: {error}"
        ) from None


def measured_or_stored(
    measure: Callable[[], Measurement],
    path: str | os.PathLike,
    *,
    now: bool | None = None,
) -> Measurement:
    """Measure now where there is a GPU, else read what was stored; `provenance` says which.

    Args:
        measure: What measures.
        path: Of the stored result.
        now: True measures, False reads, None measures where there is a GPU.

    Raises:
        TypeError: If `measure` cannot be called, or `now` is neither of these.
        OSError: As `load_timings`.
        ValueError: As `load_timings`.
    """
    if not callable(measure):
        raise TypeError(f"measure must be something to call, got {type(measure).__name__}")
    if not (now is None or isinstance(now, bool)):
        raise TypeError(f"now must be True, False or None, got {now!r}")
    now = torch.cuda.is_available() if now is None else now
    return measure() if now else load_timings(path)
