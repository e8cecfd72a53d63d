"""Timings of generation as an explorer carries them: medians and middle halves, with the machine.

Every number has four significant digits, which is finer than any two runs agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from attnlib.explore import checks, limits
from attnlib.explore.generation_runs import ANEW, CACHED, LENGTHS, curve
from attnlib.timing import Measurement, Spread, Timing, ratio

Packed = Mapping[str, Any]

_FROM_THE_FIRST = ("cached", "anew", "ratio")  # at every length
_FURTHER = ("cachedFurther", "anewFurther")  # at every length but the first


def pack_timings(name: str, value: Any) -> tuple[dict[str, Any], ...]:
    """Stored measurements, one a device, of all models and lengths that can be chosen."""
    packed = _pack_all(name, value)
    for each in packed:
        missing = _GRID - {(run["layers"], run["heads"]) for run in each["runs"]}
        if missing:
            n_layers, n_heads = min(missing)
            raise ValueError(
                f"{name} must have every model that can be chosen, missing n_layers={n_layers} "
                f"with n_heads={n_heads}"
            )
        if tuple(each["lengths"]) != LENGTHS:
            raise ValueError(
                f"{name} must have the times after {_listed(LENGTHS)} new tokens, got "
                f"{_listed(each['lengths'])}"
            )
    devices = [each["device"] for each in packed]
    if not devices or len(set(devices)) != len(devices):
        raise ValueError(f"{name} must be one of each device, got {_listed(devices) or 'none'}")
    return packed


def pack_measured(name: str, value: Any) -> tuple[dict[str, Any], ...]:
    """What was measured here: any of the models and lengths."""
    return _pack_all(name, value)


def pack(name: str, measurement: Measurement) -> dict[str, Any]:
    """One measurement, of the models whose two curves it has."""
    runs = [
        _pack_run(measurement, n_layers, n_heads)
        for n_layers, n_heads in sorted(_GRID)
        if {curve(n_layers, n_heads, way) for way in (CACHED, ANEW)} <= set(measurement.timings)
    ]
    return _well_formed(
        name,
        {
            "device": measurement.machine.device,
            "where": str(measurement.machine),
            "dtype": measurement.settings.get("dtype"),
            "repeats": measurement.settings.get("n_repeats"),
            "lengths": list(measurement.sizes),
            "runs": runs,
        },
    )


_GRID = {(n, h) for n in limits.GENERATION_LAYERS for h in limits.GENERATION_HEADS}


def _pack_all(name: str, value: Any) -> tuple[dict[str, Any], ...]:
    each = [value] if isinstance(value, Measurement | Mapping) else value
    if isinstance(each, str) or not isinstance(each, Sequence):
        raise TypeError(f"{name} must be a Measurement or some, got {type(value).__name__}")
    return tuple(
        pack(name, one) if isinstance(one, Measurement) else _well_formed(name, one) for one in each
    )


def _pack_run(measurement: Measurement, n_layers: int, n_heads: int) -> dict[str, Any]:
    cached, anew = (measurement.timings[curve(n_layers, n_heads, x)] for x in (CACHED, ANEW))
    return {
        "layers": n_layers,
        "heads": n_heads,
        "cached": [_rounded(timing.spread) for timing in cached],
        "anew": [_rounded(timing.spread) for timing in anew],
        "ratio": [_rounded(ratio(*both)) for both in zip(anew, cached, strict=True)],
        "cachedFurther": _further(cached, measurement.sizes),
        "anewFurther": _further(anew, measurement.sizes),
    }


def _further(timings: Sequence[Timing], lengths: Sequence[int]) -> list[list[float]]:
    """What each token after the first takes, run by run, at each length but the first."""
    first = timings[0].seconds
    return [
        _rounded(
            Timing(
                tuple((a - b) / (n - 1) for a, b in zip(timing.seconds, first, strict=True))
            ).spread
        )
        for timing, n in zip(timings[1:], lengths[1:], strict=True)
    ]


def _rounded(spread: Spread) -> list[float]:
    return [float(f"{x:.4g}") for x in (spread.lower, spread.median, spread.upper)]


def _well_formed(name: str, packed: Any) -> dict[str, Any]:
    try:
        fits = _fits(name, packed)
    except (LookupError, TypeError, ValueError):
        fits = False
    if not fits:
        raise ValueError(
            f"{name} must be measurements of measure_generation, with times above 0 that grow, or "
            "what was packed of them"
        )
    return dict(packed)


def _fits(name: str, packed: Any) -> bool:
    checks.choice(name, packed["device"], limits.GENERATION_DEVICES)
    checks.text(name, packed["where"], (1, 400))
    checks.text(name, packed["dtype"], (1, 40))
    checks.whole(name, packed["repeats"], (1, 1000))
    lengths = [checks.listed(name, n, LENGTHS) for n in packed["lengths"]]
    models = [(run["layers"], run["heads"]) for run in packed["runs"]]
    n = len(lengths)
    return (
        lengths[0] == 1
        and n > 1
        and all(a < b for a, b in pairwise(lengths))
        and 0 < len(set(models)) == len(models)
        and set(models) <= _GRID
        and all(_are_spreads(run[x], n) for run in packed["runs"] for x in _FROM_THE_FIRST)
        and all(_are_spreads(run[x], n - 1) for run in packed["runs"] for x in _FURTHER)
    )


def _are_spreads(spreads: Sequence[Sequence[float]], n: int) -> bool:
    return len(spreads) == n and all(
        len(spread) == 3
        and 0 < spread[0] <= spread[1] <= spread[2]
        and all(isinstance(x, float | int) and math.isfinite(x) for x in spread)
        for spread in spreads
    )


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))
