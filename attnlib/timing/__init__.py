r"""Timing: how long a call takes, with its spread, and how that grows with a size.

Source   this book; Student 1908, "The Probable Error of a Mean" (the intervals of exponents)
Chapter  chapters/kv-caching.md, chapters/counting-cost.md
Axes     attnlib/axes.py

A call is warmed up first, then timed several times; the median stands for it, and the quartiles say
how far a repeat may be from it. Calls that are compared take turns, so that a machine that slows
down slows all of them.

    >>> timing = Timing((0.3, 0.1, 0.2, 0.9, 0.25))
    >>> timing.median_seconds, timing.quartiles_seconds
    (0.25, (0.2, 0.3))
    >>> print(fit_exponent([10, 20, 40], [3.0, 12.0, 48.0]))  # twice the size, four times as long
    2.00 ± 0.00

Results are stored with the machine, the versions and the date, and a stored result says so.
"""

from attnlib.timing.clock import (
    Spread,
    StepTiming,
    Timing,
    compare,
    ratio,
    seconds_of,
    time_calls,
    time_steps,
)
from attnlib.timing.devices import Machine, quick_dtype, this_machine, timed_device
from attnlib.timing.exponents import Exponent, fit_exponent, student_quantile
from attnlib.timing.probes import PeakMemory, memory_bandwidth, peak_flops, peak_memory
from attnlib.timing.stored import (
    Measurement,
    load_timings,
    measure_sizes,
    measured_or_stored,
    save_timings,
)

__all__ = [
    "Exponent",
    "Machine",
    "Measurement",
    "PeakMemory",
    "Spread",
    "StepTiming",
    "Timing",
    "compare",
    "fit_exponent",
    "load_timings",
    "measure_sizes",
    "measured_or_stored",
    "memory_bandwidth",
    "peak_flops",
    "peak_memory",
    "quick_dtype",
    "ratio",
    "save_timings",
    "seconds_of",
    "student_quantile",
    "this_machine",
    "time_calls",
    "time_steps",
    "timed_device",
]
