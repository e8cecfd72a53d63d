"""The soft-lookup explorer: a query among keys in the plane."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from attnlib.explore import checks, limits
from attnlib.explore.base import Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.words import State, show_point, show_round, show_weight
from attnlib.softmax import softmax


def log_kernels(state: State, bandwidth: float) -> np.ndarray:
    """The logarithm of each key's kernel, the scores of a soft lookup."""
    query = np.asarray(state["query"])
    keys = np.asarray(state["points"])
    if state["kernel"] == "gaussian":
        return -((query - keys) ** 2).sum(axis=1) / (2 * bandwidth**2)
    return keys @ query / bandwidth**2


def soft_lookup_facts(state: State) -> dict[str, Any]:
    """The numbers of the soft-lookup explorer."""
    keys = np.asarray(state["points"], dtype=np.float64)
    p = softmax(torch.from_numpy(log_kernels(state, state["bandwidth"]))).numpy()
    order = log_kernels(state, 1.0)
    return {
        "weights": p.tolist(),
        "winner": int(p.argmax()),
        "output": (p @ keys).tolist(),
        "limitKeys": np.flatnonzero(order.max() - order <= 1e-12).tolist(),
        "mean": keys.mean(axis=0).tolist(),
    }


_KERNEL_WORDS = {
    "gaussian": ("Gaussian", "nearest key"),
    "dot-product": ("exponential of the dot product", "key farthest in the query's direction"),
}


def describe_soft_lookup(state: State) -> str:
    found = soft_lookup_facts(state)
    kernel, limit = _KERNEL_WORDS[state["kernel"]]
    weights = ", ".join(f"key {j + 1} {show_weight(p)}" for j, p in enumerate(found["weights"]))
    names = ", ".join(str(j + 1) for j in found["limitKeys"])
    towards = (
        f"key {names}, the {limit}"
        if len(found["limitKeys"]) == 1
        else f"the mean of keys {names}, which tie as the {limit}"
    )
    return (
        f"Query at {show_point(state['query'])}, kernel {kernel}, bandwidth "
        f"{show_round(state['bandwidth'])}. Weights: {weights}. Output at "
        f"{show_point(found['output'])}, inside the hull of the values. As h → 0 it goes to "
        f"{towards}; as h → ∞ to the mean of all, {show_point(found['mean'])}."
    )


class SoftLookupExplorer(Explorer):
    """A query among keys in the plane → weights, and an output inside the hull of the values.

    The value of each key is the key itself, one of `points`. The kernel is "gaussian",
    exp(−‖q − k‖² / 2h²), or "dot-product", exp(⟨q, k⟩ / h²), with `bandwidth` h.
    """

    explorer = "soft-lookup"
    title = "Soft lookup: a query among keys"
    _esm = anywidget_module("soft-lookup.mjs")

    query = Option(checks.point, (2.6, -0.3))
    bandwidth = Option(checks.number, 1.0, limits.BANDWIDTH)
    kernel = Option(checks.choice, "gaussian", limits.KERNELS)
    # Not `keys`: that is the list of synchronised names of every ipywidget.
    points = Option(
        checks.points,
        ((-2.2, -1.3), (-1.5, 1.7), (-0.4, -0.3), (0.3, 2.4), (1.2, 0.9), (2.4, 1.3), (1.6, -2.0)),
        fixed=True,
    )

    def facts(self) -> dict[str, Any]:
        """Weights, output and the other numbers of the picture."""
        return soft_lookup_facts(self.state)

    def describe(self) -> str:
        return describe_soft_lookup(self.state)
