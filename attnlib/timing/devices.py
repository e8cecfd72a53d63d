r"""Devices: what is timed, what it is called, and in which dtype it computes at its own speed.

Source   this book
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py
"""

import platform
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import torch

from attnlib.require import at_least

__all__ = ["Machine", "quick_dtype", "this_machine", "timed_device"]

_CPU_INFO = Path("/proc/cpuinfo")
_NATIVE_BF16 = 8  # the major number of NVIDIA's first GPUs that compute in bf16: Ampere


@dataclass(frozen=True, kw_only=True)
class Machine:
    """On what something was measured, with which versions, and when.

    Args:
        device: "cpu" or "cuda".
        name: Of the processor or the GPU, as the machine tells it.
        n_threads: How many threads torch computes with on the CPU.
        system: The kind of operating system.
        python: Its version.
        torch: Its version.
        cuda: Its version; None where torch was built without it.
        date: Year, month and day, in UTC.

    Raises:
        TypeError: If a field is no text, or the number of threads is not whole.
        ValueError: If the number of threads is below 1.

    Example:
        >>> print(Machine(device="cpu", name="a processor", n_threads=2, system="Linux",
        ...               python="3.12.1", torch="2.4.0", date="2026-01-31"))
        a processor (2 threads), Linux, Python 3.12.1, torch 2.4.0, on 2026-01-31
    """

    device: str
    name: str
    n_threads: int
    system: str
    python: str
    torch: str
    cuda: str | None = None
    date: str

    def __post_init__(self) -> None:
        for name in ("device", "name", "system", "python", "torch", "date"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a text, got {getattr(self, name)!r}")
        if not (self.cuda is None or isinstance(self.cuda, str)):
            raise TypeError(f"cuda must be a text or None, got {self.cuda!r}")
        object.__setattr__(self, "n_threads", at_least("n_threads", self.n_threads, 1))

    def __str__(self) -> str:
        threads = "1 thread" if self.n_threads == 1 else f"{self.n_threads} threads"
        how = threads if self.device == "cpu" else f"{self.device} {self.cuda}"
        versions = f"{self.system}, Python {self.python}, torch {self.torch}"
        return f"{self.name} ({how}), {versions}, on {self.date}"


def timed_device(device: torch.device | str | None = None) -> torch.device:
    """Give the device that a clock has to wait for.

    A GPU works on after a call has returned. So None means the GPU as soon as this process has
    used one: a clock that waits for a GPU is right for the CPU too, but not the other way round.

    Args:
        device: "cpu", "cuda" or "cuda:1", a device of torch, or None.

    Raises:
        TypeError: If it is something else.
        ValueError: If it is another kind of device, or a GPU that is not there.

    Example:
        >>> timed_device("cpu")
        device(type='cpu')
        >>> timed_device("tpu")
        Traceback (most recent call last):
        ValueError: device must be 'cpu' or 'cuda', got 'tpu'
    """
    if device is None:
        device = "cuda" if torch.cuda.is_initialized() else "cpu"
    if not isinstance(device, (str, torch.device)):
        raise TypeError(f"device must be a text or a device of torch, got {device!r}")
    try:
        found = torch.device(device)
    except RuntimeError:
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'cpu' or 'cuda', got {str(device)!r}")
    if found.type == "cpu":
        return torch.device("cpu")
    n_there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (found.index or 0) >= n_there:
        raise ValueError(f"device must be one that is there, got '{found}' of {n_there} GPUs")
    return found


def this_machine(device: torch.device | str | None = None) -> Machine:
    """Describe what is measured on, now.

    Args:
        device: As in `timed_device`.

    Raises:
        TypeError: As `timed_device`.
        ValueError: As `timed_device`.

    Example:
        >>> this_machine("cpu").torch == torch.__version__
        True
    """
    device = timed_device(device)
    on_cpu = device.type == "cpu"
    return Machine(
        device=device.type,
        name=_processor() if on_cpu else torch.cuda.get_device_name(device),
        n_threads=torch.get_num_threads(),
        system=platform.system(),
        python=platform.python_version(),
        torch=str(torch.__version__),
        cuda=torch.version.cuda,
        date=datetime.now(timezone.utc).date().isoformat(),
    )


def quick_dtype(device: torch.device | str | None = None) -> torch.dtype:
    """Give the narrowest dtype in which a language model runs well on a device.

    float32 on a CPU; bfloat16 on a GPU that has it in hardware, and float16 on an older one, which
    would only emulate it: the T4, for instance.

    Args:
        device: As in `timed_device`.

    Raises:
        TypeError: As `timed_device`.
        ValueError: As `timed_device`.

    Example:
        >>> quick_dtype("cpu")
        torch.float32
    """
    device = timed_device(device)
    if device.type == "cpu":
        return torch.float32
    major, _ = torch.cuda.get_device_capability(device)
    return torch.bfloat16 if major >= _NATIVE_BF16 else torch.float16


def _processor() -> str:
    """The name of the processor; Python itself knows no more than its kind on many systems."""
    try:
        for line in _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines():
            field, _, value = line.partition(":")
            if field.strip() == "model name" and value.strip():
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "an unknown processor"
