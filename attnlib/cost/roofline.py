r"""The roofline: what a device can do with a given intensity, and the time that follows from it.

Source   Williams, Waterman and Patterson 2009, Communications of the ACM 52(4); the devices' own
         sources are named with them
Chapter  chapters/counting-cost.md
Axes     attnlib/axes.py

    >>> round(DEVICES["a100"].ridge)
    153
"""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType

import sympy as sp

from attnlib import require
from attnlib.cost.letters import bandwidth, peak


@dataclass(frozen=True, kw_only=True)
class Device:
    """What a device does at most, as its maker says or as it was measured.

    Args:
        name: As its maker writes it.
        source: Where these numbers can be read, or how they were measured.
        peak: FLOPs a second of matrix products, without sparsity.
        bandwidth: Bytes a second that its memory gives.

    Raises:
        TypeError: If a speed is not a number.
        ValueError: If a speed is not positive and finite.

    Example:
        >>> Device(name="a clock", source="made up", peak=6e9, bandwidth=2e9).ridge
        3.0
    """

    name: str
    source: str
    peak: float
    bandwidth: float

    def __post_init__(self) -> None:
        for name in ("peak", "bandwidth"):
            object.__setattr__(self, name, require.positive(name, getattr(self, name)))

    @property
    def ridge(self) -> float:
        """The intensity in FLOPs a byte from which arithmetic, not memory, is the limit."""
        return self.peak / self.bandwidth


def attainable(intensity: sp.Expr | Real) -> sp.Expr:
    """Give the FLOPs a second that the roofline allows: min(peak, bandwidth · intensity).

    Args:
        intensity: FLOPs for each byte.

    Example:
        >>> attainable(2).subs({peak: 6, bandwidth: 2})
        4
    """
    return sp.Min(peak, bandwidth * intensity)


def least_seconds(flops: sp.Expr | Real, n_bytes: sp.Expr | Real) -> sp.Expr:
    """Give the least time that the roofline allows: max(FLOPs/peak, bytes/bandwidth).

    Args:
        flops: Of the work.
        n_bytes: That it moves.

    Example:
        >>> least_seconds(12, 2).subs({peak: 6, bandwidth: 2})
        2
    """
    return sp.Max(sp.sympify(flops) / peak, sp.sympify(n_bytes) / bandwidth)


DEVICES: Mapping[str, Device] = MappingProxyType(
    {
        "a100": Device(
            name="NVIDIA A100 80 GB (SXM)",
            source="NVIDIA A100 Tensor Core GPU data sheet: bf16, without sparsity",
            peak=312e12,
            bandwidth=2.039e12,
        ),
        "h100": Device(
            name="NVIDIA H100 (SXM)",
            source="NVIDIA H100 Tensor Core GPU data sheet: half of the bf16 figure with sparsity",
            peak=989.4e12,
            bandwidth=3.35e12,
        ),
        "h200": Device(
            name="NVIDIA H200 (SXM)",
            source="NVIDIA H200 Tensor Core GPU data sheet: half of the bf16 figure with sparsity",
            peak=989.4e12,
            bandwidth=4.8e12,
        ),
        "t4": Device(
            name="NVIDIA T4",
            source="NVIDIA T4 Tensor Core GPU data sheet: fp16, since it has no bf16",
            peak=65e12,
            bandwidth=320e9,
        ),
    }
)
"""Devices with the figures of their makers; what a program reaches is less."""
