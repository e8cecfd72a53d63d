"""The score-spread explorer: what dividing ⟨q, k⟩ by a power of d does to softmax."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from attnlib.explore import checks, limits
from attnlib.explore.base import Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.score_sample import (
    FOURTH_MOMENTS,
    N_SCORES,
    REACH,
    bars,
    counts,
    raw_scores,
)
from attnlib.explore.words import State, show, show_round, show_whole, untie
from attnlib.softmax import softmax

NAMES = {
    "gaussian": "Gaussian",
    "rademacher": "±1 with equal chances (Rademacher)",
    "uniform": "uniform",
    "heavy-tailed": "heavy-tailed (Student t with 5 degrees of freedom)",
}


def standard_error(distribution: str, key_dim: int) -> float:
    r"""Of the measured standard deviation, as a part of it, to first order.

    The scores of one query share its length, and those of one key the key's, so their squares are
    correlated though they are not: with the excess kurtosis $\kappa$ of a score and T queries and S
    keys, the mean square has the relative variance
    $(\kappa + 2 + (T + S - 2)(\mu_4 - 1)/d) / (TS)$.
    """
    mu_4 = FOURTH_MOMENTS[distribution]
    shared = (limits.SAMPLE_QUERIES + limits.SAMPLE_KEYS - 2) * (mu_4 - 1) / key_dim
    return math.sqrt((mu_4**2 - 3) / key_dim + 2 + shared) / (2 * math.sqrt(N_SCORES))


@lru_cache(maxsize=64)
def passed(distribution: str, exponent: float, key_dim: int) -> tuple[float, float]:
    """Means over the rows of the sample: entropy of softmax, and ‖J‖₂ of its Jacobian J."""
    scores = torch.from_numpy(raw_scores(distribution)[key_dim] / key_dim**exponent)
    p_ts = softmax(scores).numpy()
    logarithms = np.log(p_ts, where=p_ts > 0, out=np.zeros_like(p_ts))
    jacobians = p_ts[:, :, None] * np.eye(p_ts.shape[1]) - p_ts[:, :, None] * p_ts[:, None, :]
    norms = np.linalg.eigvalsh(jacobians)[:, -1]
    return float(-(p_ts * logarithms).sum(axis=1).mean()), float(norms.mean())


def means_by_width(distribution: str, exponent: float) -> list[tuple[float, float]]:
    """`passed` at every width: what the curves of the picture show."""
    return [passed(distribution, exponent, d) for d in raw_scores(distribution)]


def score_spread_facts(state: State) -> dict[str, Any]:
    """The numbers of the score-spread explorer; the bars' edges and widths are in scores."""
    distribution, d, exponent = (state[x] for x in ("distribution", "key_dim", "exponent"))
    raw = raw_scores(distribution)[d]
    divisor, spread = d**exponent, d ** (0.5 - exponent)
    squares = raw**2
    first, width, _ = bars(distribution, d)
    entropy, norm = passed(distribution, exponent, d)
    return {
        "spread": spread,
        "measuredSpread": math.sqrt(squares.mean()) / divisor,
        "spreadError": spread * standard_error(distribution, d),
        "kurtosis": (FOURTH_MOMENTS[distribution] ** 2 - 3) / d,
        "measuredKurtosis": float((squares**2).mean() / squares.mean() ** 2 - 3),
        "beyond": int((abs(raw) > REACH * math.sqrt(d)).sum()),
        "firstEdge": first / divisor,
        "barWidth": width / divisor,
        "counts": counts(distribution, d),
        "entropy": entropy,
        "largestEntropy": math.log(limits.SAMPLE_KEYS),
        "norm": norm,
    }


def show_error(x: float, error: float, between: str) -> str:
    """A measured number and its standard error, both with two digits of the error."""
    decimals = min(max(1 - math.floor(math.log10(error)), 0), 6) if error > 0 else 0
    return f"{show(x, decimals)}{between}{show(error, decimals)}"


def describe_score_spread(state: State) -> str:
    found = score_spread_facts(state)
    far = found["beyond"]
    beyond = {0: "no score lies", 1: "1 score lies"}.get(far, f"{far} scores lie")
    error = show_error(found["measuredSpread"], found["spreadError"], " with a standard error of ")
    exponent = show_round(state["exponent"])
    return (
        f"Width d = {state['key_dim']}, coordinates {NAMES[state['distribution']]} with mean 0 and "
        f"variance 1, scores ⟨q, k⟩ / d^{exponent}. Their standard deviation is d^(1/2 − {exponent}"
        f") = {show_round(untie(found['spread']))} and their excess kurtosis "
        f"{show_round(untie(found['kurtosis']))}. In a fixed sample of {show_whole(N_SCORES)} "
        f"scores, of {limits.SAMPLE_QUERIES} queries and {limits.SAMPLE_KEYS} keys, the standard "
        f"deviation is {error}, the excess kurtosis {show(found['measuredKurtosis'])}, and "
        f"{beyond} beyond {REACH} standard deviations. Softmax over the {limits.SAMPLE_KEYS} keys "
        f"of a query, means over the queries: entropy "
        f"{show(found['entropy'], 3)} of at most {show(found['largestEntropy'], 3)} nats, largest "
        f"Jacobian eigenvalue {show(found['norm'], 3)} of at most 0.5."
    )


class ScoreSpreadExplorer(Explorer):
    """Width, exponent and distribution → the scores' histogram, entropy, and what passes softmax.

    The scores are ⟨q, k⟩ / d^a with d = `key_dim` and a = `exponent`: 0 leaves them as they are,
    1/2 is the Transformer's scale, 1 that of μP. The coordinates are independent, of mean 0 and
    variance 1: "gaussian", "rademacher" (±1), "uniform" or "heavy-tailed" (Student t, 5 degrees of
    freedom). The sample is fixed, the same in Python and in the browser.
    """

    explorer = "score-spread"
    title = "Score spread: what the divisor does to softmax"
    _esm = anywidget_module("score-spread.mjs")

    key_dim = Option(checks.power_of_two, 64, limits.KEY_DIM)
    exponent = Option(checks.number, 0.5, limits.SCORE_EXPONENT)
    distribution = Option(checks.choice, "gaussian", limits.DISTRIBUTIONS)

    def facts(self) -> dict[str, Any]:
        """Spread and kurtosis in theory and in the sample, its histogram, entropy and ‖J‖₂."""
        return score_spread_facts(self.state)

    def describe(self) -> str:
        return describe_score_spread(self.state)
