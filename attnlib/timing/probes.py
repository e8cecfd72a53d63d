r"""Probes: what a device can do at its best, in bytes and in operations, and what a call holds.

Source   Williams, Waterman and Patterson 2009, "Roofline: an insightful visual performance model
         for multicore architectures"
Chapter  chapters/counting-cost.md
Axes     attnlib/axes.py

Other work can only slow a probe down, so the best of several counts and not the median.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

from attnlib.require import at_least
from attnlib.tensor_checks import FLOATING
from attnlib.timing.clock import seconds_of, time_calls
from attnlib.timing.devices import quick_dtype, timed_device

try:
    import resource
except ModuleNotFoundError:  # Windows
    resource = None

__all__ = ["PeakMemory", "memory_bandwidth", "peak_flops", "peak_memory"]

_WIDTH = {"cpu": 1024, "cuda": 8192}  # of the matrices: some milliseconds each


def memory_bandwidth(
    *,
    n_bytes: int = 500_000_000,
    n_probes: int = 8,
    device: torch.device | str | None = None,
) -> float:
    """Give the bytes a second that a device reads: the best of several sums over one vector.

    Args:
        n_bytes: How long the fp32 vector is; a vector that fits into a cache measures the cache.
        n_probes: How many sums, from 1, after one that does not count.
        device: As in `timed_device`; on the CPU torch's threads read together.

    Raises:
        TypeError: As `timed_device`, and if a number is not whole.
        ValueError: As `timed_device`, and if the vector has no element or there is no probe.

    Example:
        >>> bandwidth = memory_bandwidth(n_bytes=1_000_000, n_probes=2, device="cpu")
        >>> gigabytes_per_second = bandwidth / 1e9
    """
    n = at_least("n_bytes", n_bytes, 4) // 4
    n_probes = at_least("n_probes", n_probes, 1)
    device = timed_device(device)
    # ones: zeros that nobody has written may all be one and the same page of memory
    vector = torch.ones(n, dtype=torch.float32, device=device)
    return 4 * n / min(time_calls(vector.sum, n_repeats=n_probes, device=device).seconds)


def peak_flops(
    *,
    width: int | None = None,
    dtype: torch.dtype | None = None,
    n_probes: int = 8,
    device: torch.device | str | None = None,
) -> float:
    """Give the operations a second of a device: the best of several products of two matrices.

    A product of two square matrices of width w takes w³ multiplications and as many additions, and
    each counts.

    Args:
        width: Of the matrices, from 1; None takes 1,024 on a CPU and 8,192 on a GPU.
        dtype: Of their elements; None takes that of `quick_dtype`.
        n_probes: How many products, from 1, after one that does not count.
        device: As in `timed_device`.

    Raises:
        TypeError: As `timed_device`, and if a number is not whole or the dtype none of fp16, bf16,
            fp32 and fp64.
        ValueError: As `timed_device`, and if a number is below 1.

    Example:
        >>> gigaflops_per_second = peak_flops(width=64, n_probes=2, device="cpu") / 1e9
    """
    n_probes = at_least("n_probes", n_probes, 1)
    device = timed_device(device)
    width = at_least("width", _WIDTH[device.type] if width is None else width, 1)
    dtype = quick_dtype(device) if dtype is None else dtype
    if dtype not in FLOATING:
        raise TypeError(f"dtype must be one of fp16, bf16, fp32 and fp64, got {dtype}")
    matrix = torch.full((width, width), 1 / width, dtype=dtype, device=device)
    timing = time_calls(lambda: matrix @ matrix, n_repeats=n_probes, device=device)
    return 2 * width**3 / min(timing.seconds)


@dataclass(frozen=True, kw_only=True)
class PeakMemory:
    """The most memory that was held, before a call and up to its end.

    Args:
        before_bytes: Before the call.
        peak_bytes: At its end.
        is_of_call: Whether the second is of the call alone. If not, it is the most that the process
            ever held: a call that stays below what an earlier one needed leaves no trace.
        seconds: What the call took.

    Example:
        >>> memory = PeakMemory(before_bytes=70, peak_bytes=100, is_of_call=True, seconds=1.0)
        >>> memory.added_bytes
        30
    """

    before_bytes: int
    peak_bytes: int
    is_of_call: bool
    seconds: float

    @property
    def added_bytes(self) -> int:
        """What the call needed on top; only at least that where `is_of_call` is False."""
        return self.peak_bytes - self.before_bytes


def peak_memory(
    call: Callable[[], object], *, device: torch.device | str | None = None
) -> PeakMemory | None:
    """Run a call once and give the most memory that it held, where the device tells it.

    On a GPU it is what torch held in tensors, before the call and at most during it. A CPU tells
    only the most that the whole process ever held in memory. Windows tells nothing: None, and the
    call is not run.

    Args:
        call: What is run.
        device: As in `timed_device`.

    Raises:
        TypeError: As `seconds_of`.
        ValueError: As `seconds_of`.

    Example:
        >>> import sys
        >>> memory = peak_memory(lambda: torch.ones(10), device="cpu")
        >>> memory is None if sys.platform == "win32" else memory.added_bytes >= 0
        True
    """
    device = timed_device(device)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        seconds = seconds_of(call, device)
        peak = torch.cuda.max_memory_allocated(device)
    elif resource is None:
        return None
    else:
        before = _most_ever_bytes()
        seconds = seconds_of(call, device)
        peak = _most_ever_bytes()
    return PeakMemory(
        before_bytes=before,
        peak_bytes=peak,
        is_of_call=device.type == "cuda",
        seconds=seconds,
    )


def _most_ever_bytes() -> int:
    """Linux counts in KiB, macOS in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
