"""The softmax explorer: scores become weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from attnlib.explore import checks, limits
from attnlib.explore.base import Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.words import State, show, show_round, show_small, show_weight
from attnlib.softmax import log_sum_exp, softmax


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


class SoftmaxExplorer(Explorer):
    """Scores, temperature and key width → weights, entropy, the Jacobian's largest eigenvalue.

    `scores` are of unit variance; the raw scores are √`key_dim` times as large, and are divided by
    √`key_dim` if `scaled`. `labels` name the sources, if given.
    """

    explorer = "softmax"
    title = "Softmax: scores become weights"
    _esm = anywidget_module("softmax.mjs")

    scores = Option(checks.scores, (2.0, 1.0, 0.5, -0.5, -1.5))
    temperature = Option(checks.number, 1.0, limits.TEMPERATURE)
    key_dim = Option(checks.power_of_two, 64, limits.KEY_DIM)
    scaled = Option(checks.flag, True)
    labels = Option(checks.labels, (), fixed=True)

    def check_together(self, state: State) -> None:
        labels, scores = state["labels"], state["scores"]
        if labels and len(labels) != len(scores):
            raise ValueError(
                f"labels must be as many as scores, got {len(labels)} labels "
                f"and {len(scores)} scores"
            )

    def facts(self) -> dict[str, Any]:
        """Weights, entropy and the other numbers of the picture."""
        return softmax_facts(self.state)

    def describe(self) -> str:
        return describe_softmax(self.state)
