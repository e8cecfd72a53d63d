"""The cost explorer: what one pass of a model computes and moves, by part, and on the roofline."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from attnlib.explore import checks, limits
from attnlib.explore.base import Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.words import (
    State,
    show_count,
    show_metric,
    show_round,
    show_wavelength,
    show_whole,
    untie,
)
from attnlib.sizes import PUBLISHED

WEIGHTS = ("projections", "feed-forward", "experts", "output head")
OF_THE_CACHE = ("keys rebuilt", "attention core")


@lru_cache(maxsize=256)
def counts(
    model: str, phase: str, n_tokens: int, n_rows: int, n_bytes: int
) -> tuple[dict[str, Any], dict[str, Any], int]:
    """FLOPs and bytes of a pass by part, and the bytes of the cache after it."""
    from attnlib import cost  # it brings SymPy, which the other explorers do not need

    sizes, decoding = PUBLISHED[model], phase == "decode"
    form = cost.usual_form(sizes, decoding=decoding)
    n_new = 1 if decoding else n_tokens
    how = {"T": n_new, "N": n_tokens, "B": n_rows}
    flops = cost.evaluate(cost.pass_flops(form), sizes, **how)
    moved = cost.evaluate(cost.pass_bytes(form), sizes, **how, beta=n_bytes, beta_w=n_bytes)
    return flops, moved, cost.kv_cache_bytes(sizes, n_tokens, n_bytes, n_rows)


def cost_facts(state: State) -> dict[str, Any]:
    """The numbers of the cost explorer, whole ones exactly."""
    from attnlib import cost

    names = ("model", "phase", "n_tokens", "n_rows", "bytes_per_number")
    flops, moved, kept = counts(*(state[name] for name in names))
    device = cost.DEVICES[state["device"]]
    total, total_moved = sum(flops.values()), sum(moved.values())
    intensity = total / total_moved
    core = sum(flops[part] for part in OF_THE_CACHE)
    return {
        "flops": flops,
        "bytes": moved,
        "totalFlops": total,
        "totalBytes": total_moved,
        "cacheBytes": kept,
        "intensity": intensity,
        "linearIntensity": (total - core) / sum(moved[part] for part in WEIGHTS),
        "coreIntensity": core / moved["cache read"],
        "ridge": device.ridge,
        "attained": min(device.peak, device.bandwidth * intensity),
        "seconds": max(total / device.peak, total_moved / device.bandwidth),
    }


def _shares(parts: dict[str, Any], unit: str) -> str:
    """The parts that are there, with their shares of the whole in per cent."""
    whole = sum(parts.values())
    return ", ".join(
        f"{part} {show_metric(count, unit)} ({show_round(untie(100 * count / whole))} %)"
        for part, count in parts.items()
        if count > 0
    )


def _intensity(x: float) -> str:
    return show_wavelength(untie(x))  # three digits, and whole from a hundred on


def describe_cost(state: State) -> str:
    from attnlib import cost

    found, device = cost_facts(state), cost.DEVICES[state["device"]]
    sizes, n_tokens = PUBLISHED[state["model"]], show_whole(state["n_tokens"])
    rows = show_count(state["n_rows"], "row")
    what = {
        "decode": f"one decode step of {rows}: a new token each, the last of {n_tokens}",
        "prefill": f"the prefill of {rows} of {n_tokens} tokens",
    }[state["phase"]]
    beyond = (
        f" That is beyond the {show_whole(sizes.context)} tokens that it is said to read."
        if state["n_tokens"] > sizes.context
        else ""
    )
    is_memory = found["intensity"] < found["ridge"]
    side, limit = ("below", "memory") if is_memory else ("above", "arithmetic")
    return (
        f"{sizes.name}, {what}.{beyond} Weights and cache have "
        f"{show_count(state['bytes_per_number'], 'byte')} a number. FLOPs of the whole model: "
        f"{show_metric(found['totalFlops'], 'FLOP')}: {_shares(found['flops'], 'FLOP')}. Bytes "
        f"that move at least: {show_metric(found['totalBytes'], 'B')}: "
        f"{_shares(found['bytes'], 'B')}. The cache then takes "
        f"{show_metric(found['cacheBytes'], 'B')}. Intensity: "
        f"{_intensity(found['intensity'])} FLOP a byte, of the weights alone "
        f"{_intensity(found['linearIntensity'])}, of the cache alone "
        f"{_intensity(found['coreIntensity'])}. That is {side} the ridge of "
        f"{_intensity(found['ridge'])} of {device.name}, so {limit} is the limit: at least "
        f"{show_metric(found['seconds'], 's')}, at {show_metric(found['attained'], 'FLOP/s')} of "
        f"{show_metric(device.peak, 'FLOP/s')}."
    )


class CostExplorer(Explorer):
    """Model, context, batch, phase → FLOPs and bytes of one pass by part, and its roofline.

    A pass is a "decode" step, in which each of `n_rows` rows gets the last of its `n_tokens`
    tokens, or the "prefill" of all of them. Weights and cache have `bytes_per_number` bytes a
    number. Models are keys of `PUBLISHED`, devices of `cost.DEVICES`.
    """

    explorer = "cost"
    title = "Cost: what a pass computes and what it moves"
    _esm = anywidget_module("cost.mjs")

    model = Option(checks.choice, "llama-3.1-70b", limits.COST_MODELS)
    device = Option(checks.choice, "a100", limits.COST_DEVICES)
    phase = Option(checks.choice, "decode", limits.COST_PHASES)
    n_tokens = Option(checks.power_of_two, 8192, limits.COST_CONTEXT)
    n_rows = Option(checks.power_of_two, 4, limits.COST_ROWS)
    bytes_per_number = Option(checks.listed, 2, limits.COST_BYTES)

    def facts(self) -> dict[str, Any]:
        """FLOPs and bytes by part and in total, the cache, intensities, and the roofline's time."""
        return cost_facts(self.state)

    def describe(self) -> str:
        return describe_cost(self.state)
