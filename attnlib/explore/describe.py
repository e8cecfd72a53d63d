"""What an explorer shows, computed in Python: its numbers, and its picture in words.

The words stand in the page until JavaScript takes over, and wherever it never does (a notebook on
a code host, a screen reader's first visit). Tests hold the numbers and the words of the JavaScript
modules to these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from attnlib.softmax import log_sum_exp, softmax

State = Mapping[str, Any]


def softmax_inputs(state: State) -> list[float]:
    """What goes into softmax: √d·z, divided by √d or not, then by the temperature."""
    root = math.sqrt(state["key_dim"])
    divisor = root if state["scaled"] else 1.0
    return [root * z / (divisor * state["temperature"]) for z in state["scores"]]


def softmax_facts(state: State) -> dict[str, Any]:
    """The numbers of the softmax explorer."""
    scores = torch.tensor(softmax_inputs(state), dtype=torch.float64)
    p = softmax(scores).numpy()
    entropy = float(-sum(w * math.log(w) for w in p if w > 0))
    largest = float(p.max())
    rest = float(np.delete(p, p.argmax()).sum())
    return {
        "weights": p.tolist(),
        "winner": int(p.argmax()),
        "entropy": entropy,
        "largestEntropy": math.log(len(p)),
        "effectiveSources": math.exp(entropy),
        "eigenvalue": float(np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1]),
        "eigenvalueBound": min(largest, 2 * largest * rest),
        "meanScore": float(p @ scores.numpy()),
        "logSumExp": float(log_sum_exp(scores)),
    }


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


def show(x: float, decimals: int = 2) -> str:
    """A number with so many decimals, a true minus sign, and no negative zero."""
    text = f"{x:.{decimals}f}"
    return text.replace("-", "" if float(text) == 0 else "−")


def show_round(x: float) -> str:
    """A number as a person would write it: about three digits, fewer where they are zeros."""
    decimals = min(max(2 - math.floor(math.log10(abs(x) or 1.0)), 0), 4)
    text = show(x, decimals)
    return text.rstrip("0").rstrip(".") if "." in text else text


def show_weight(p: float) -> str:
    """A weight; a small one is not called zero."""
    return "<0.001" if 0 < p < 0.0005 else show(p, 3)


def show_small(x: float) -> str:
    """A number that may be tiny: as a power of ten where three decimals would call it zero."""
    if not 0 < x < 0.0005:
        return show(x, 3)
    mantissa, exponent = f"{x:.1e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_RAISED)}"


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def show_point(point: Sequence[float]) -> str:
    return f"({show(point[0])}, {show(point[1])})"


def describe_softmax(state: State) -> str:
    found = softmax_facts(state)
    labels = state["labels"] or [f"source {j + 1}" for j in range(len(state["scores"]))]
    weights = ", ".join(
        f"{label} {show_weight(p)}" for label, p in zip(labels, found["weights"], strict=True)
    )
    divided = "divided by √d" if state["scaled"] else "not divided by √d"
    return (
        f"Temperature {show_round(state['temperature'])}, width d = {state['key_dim']}, raw scores "
        f"{divided}. Weights: {weights}. Entropy {show(found['entropy'], 3)} of at most "
        f"{show(found['largestEntropy'], 3)} nats, as of {show(found['effectiveSources'])} equal "
        f"weights. Largest Jacobian eigenvalue {show_small(found['eigenvalue'])}, bounded by "
        f"{show_small(found['eigenvalueBound'])}."
    )


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
