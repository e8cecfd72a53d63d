"""The what-fits explorer: weights and cache of published models against the memory of a card."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from attnlib.explore import checks, limits
from attnlib.explore.base import Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.words import State, show_binary, show_count, show_tokens, show_whole
from attnlib.sizes import PUBLISHED

GIB = 2**30


@lru_cache(maxsize=4096)
def row_bytes(model: str, n_tokens: int, bytes_per_number: float | int) -> int:
    """What one row keeps after so many tokens."""
    from attnlib import cost  # it brings SymPy, which the other explorers do not need

    return cost.kv_cache_bytes(PUBLISHED[model], n_tokens, bytes_per_number)


def weight_bytes(model: str, bytes_per_weight: float | int) -> int:
    """What all parameters take: whole bytes for every model and width that can be chosen.

    Example:
        >>> weight_bytes("gpt-2", 0.5)
        62219904
    """
    return int(PUBLISHED[model].n_parameters * bytes_per_weight)


def fit(model: str, state: State) -> dict[str, Any]:
    """What a model takes, and how many rows there is room for.

    A row longer than the model's context is as long as that: it reads no more.
    """
    n_read = min(state["n_tokens"], PUBLISHED[model].context)
    weights = weight_bytes(model, state["bytes_per_weight"])
    row = row_bytes(model, n_read, state["bytes_per_number"])
    card, total = state["card_gib"] * GIB, weights + state["n_rows"] * row
    return {
        "tokens": n_read,
        "weights": weights,
        "cache": total - weights,
        "total": total,
        "fits": total <= card,
        "rowsAtMost": max(0, (card - weights) // row),
    }


@lru_cache(maxsize=256)
def cache_lead(model: str, other: str) -> dict[str, Any]:
    """Which of two models keeps fewer bytes of a row in the end, and from how many tokens on.

    Up to the shorter of the two contexts, at the same bytes of a number. Below that number of
    tokens the other one keeps fewer, or both as many. Where both always keep as many, it leads
    from nowhere, which is None.
    """
    from attnlib import cost

    up_to = min(PUBLISHED[name].context for name in (model, other))
    for pair in ((model, other), (other, model)):
        first = cost.cache_break_even(*(PUBLISHED[name] for name in pair))
        if first is not None:
            pair, first = (pair, first) if first <= up_to else (pair[::-1], 1)
            return {"fewer": pair[0], "more": pair[1], "from": first, "upTo": up_to}
    return {"fewer": model, "more": other, "from": None, "upTo": up_to}


def fits_facts(state: State) -> dict[str, Any]:
    """The numbers of the what-fits explorer, all whole."""
    pair = (state["model"], state["other"])
    return {
        "models": {name: fit(name, state) for name in limits.FITTING_MODELS},
        "rows": [
            row_bytes(name, fit(name, state)["tokens"], state["bytes_per_number"]) for name in pair
        ],
        "lead": cache_lead(*pair),
    }


def _verdict(found: dict[str, Any], state: State) -> str:
    rows = found["rowsAtMost"]
    if found["weights"] > state["card_gib"] * GIB:
        return "weights too large"
    if rows == 0:
        return "fits no row"
    said = f"fits {show_whole(rows)} {'row' if rows == 1 else 'rows'}"
    return said if found["fits"] else f"{said} only"


def _say_lead(lead: dict[str, Any]) -> str:
    up_to = f"up to the {show_tokens(lead['upTo'])} that both read"
    if lead["from"] is None:
        return f"Both keep as many bytes, {up_to}."
    fewer, more = (PUBLISHED[lead[which]].name for which in ("fewer", "more"))
    when = "at every context" if lead["from"] == 1 else f"from {show_tokens(lead['from'])} on"
    return f"{fewer} keeps fewer bytes than {more} {when}, {up_to}."


def _shorter(found: dict[str, Any], state: State) -> str:
    return (
        "" if found["tokens"] == state["n_tokens"] else f" of {show_tokens(found['tokens'])} a row"
    )


def describe_fits(state: State) -> str:
    found = fits_facts(state)
    rows = show_count(state["n_rows"], "row")
    each = "; ".join(
        f"{PUBLISHED[name].name} {show_binary(one['weights'])} + {show_binary(one['cache'])}"
        f"{_shorter(one, state)}, {_verdict(one, state)}"
        for name, one in found["models"].items()
    )
    n_fitting = sum(one["fits"] for one in found["models"].values())
    rows_of = " and ".join(
        f"{PUBLISHED[state[which]].name} {show_binary(n_bytes)}"
        for which, n_bytes in zip(("model", "other"), found["rows"], strict=True)
    )
    weight, kept = (state[f"bytes_per_{name}"] for name in ("weight", "number"))
    return (
        f"{rows} of {show_tokens(state['n_tokens'])}, {show_count(weight, 'byte')} a weight, "
        f"{show_count(kept, 'byte')} a number in the cache, on {state['card_gib']} GiB. "
        f"{n_fitting} of {len(found['models'])} models fit. Weights and cache of each, and the "
        f"rows that there is room for: {each}. A row ends at the context of its model. Cache of "
        f"one row: {rows_of}. {_say_lead(found['lead'])}"
    )


class WhatFitsExplorer(Explorer):
    """Context, batch, bytes, card → which published models fit, and how many rows of each.

    Each of `n_rows` rows has `n_tokens` tokens, or as many as the model reads. A weight has
    `bytes_per_weight` bytes, a number in the cache `bytes_per_number`; scales that stand beside
    numbers of few bits are not counted, nor are activations. The memory has `card_gib` GiB. The
    caches of `model` and `other`, keys of `PUBLISHED`, are compared over the context.
    """

    explorer = "what-fits"
    title = "What fits: weights and cache against the memory"
    _esm = anywidget_module("what-fits.mjs")

    n_tokens = Option(checks.power_of_two, 8192, limits.FITTING_CONTEXT)
    n_rows = Option(checks.power_of_two, 4, limits.FITTING_ROWS)
    bytes_per_weight = Option(checks.listed, 2, limits.WEIGHT_BYTES)
    bytes_per_number = Option(checks.listed, 2, limits.CACHE_BYTES)
    card_gib = Option(checks.listed, 80, limits.CARD_GIB)
    model = Option(checks.choice, "gemma-3-27b", limits.FITTING_MODELS)
    other = Option(checks.choice, "llama-3.1-70b", limits.FITTING_MODELS)

    def facts(self) -> dict[str, Any]:
        """What each model takes, how many rows fit, and which of two caches is smaller where."""
        return fits_facts(self.state)

    def describe(self) -> str:
        return describe_fits(self.state)
