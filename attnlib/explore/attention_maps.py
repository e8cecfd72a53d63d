"""The explorer of attention maps: the weights of a real model's heads on a text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import traitlets

from attnlib.explore import checks, limits
from attnlib.explore.base import Contradiction, Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.packed_maps import pack_maps, unpack_maps
from attnlib.explore.readable import readable
from attnlib.explore.words import State, quote, show_count, show_thousandths, show_weight

N_SAID = 5  # so many sources of the chosen target are named
N_LISTED = 3  # and so many of each target in the list of all


def top_sources(row: list[float], count: int) -> list[int]:
    """The sources of largest weight; of equal ones the first."""
    return sorted(range(len(row)), key=lambda s: -row[s])[:count]


def _total(numbers: Iterable[float]) -> float:
    """One after the other, as JavaScript adds: `sum` of a new Python keeps more digits."""
    total = 0.0
    for x in numbers:
        total += x
    return total


def _mean(weights: list[float]) -> float:
    return _total(weights) / len(weights)


def attention_maps_facts(state: State) -> dict[str, Any]:
    """The numbers of the explorer of attention maps; the means are over targets."""
    w = unpack_maps(state["weights"])[state["layer"], state["head"]].tolist()
    n, row = len(w), w[state["target"]]
    every = range(n)
    top = top_sources(row, N_SAID)
    terms = [-p * math.log(p) if p > 0 else 0.0 for r in w for p in r]
    return {
        "weight": row[state["source"]],
        "top": top,
        "topWeights": [row[s] for s in top],
        "tops": [top_sources(r, N_LISTED) for r in w],
        "entropy": _total(terms) / n,
        "largestEntropy": math.log(n),
        "distance": _total(w[t][s] * abs(t - s) for t in every for s in every) / n,
        "onFirst": _mean([w[t][0] for t in every]),
        "onLast": _mean([w[t][n - 1] for t in every]),
        "onItself": _mean([w[t][t] for t in every]),
        "onPrevious": _mean([w[t][t - 1] for t in every[1:]]),
        "onNext": _mean([w[t][t + 1] for t in every[:-1]]),
    }


def describe_attention_maps(state: State) -> str:
    found = attention_maps_facts(state)
    tokens = [quote(readable(token.encode())) for token in state["tokens"]]
    target, source = state["target"], state["source"]
    pairs = zip(found["top"], found["topWeights"], strict=True)
    names = ", ".join(f"{s} {tokens[s]} {show_weight(p)}" for s, p in pairs)
    layers, heads = (show_count(state["weights"][f"{it}s"], it) for it in ("layer", "head"))
    return (
        f"Layer {state['layer']}, head {state['head']}, of {layers} with {heads} each, counted "
        f"from 0; {len(tokens)} tokens. Target {target} {tokens[target]} reads most from "
        f"sources {names}. Its weight on source {source} {tokens[source]} is "
        f"{show_weight(found['weight'])}. Means over the targets: entropy "
        f"{show_thousandths(found['entropy'])} of at most "
        f"{show_thousandths(found['largestEntropy'])} nats; distance |t − s| "
        f"{show_thousandths(found['distance'])}; weight on the first token {tokens[0]} "
        f"{show_thousandths(found['onFirst'])}, on the last {tokens[-1]} "
        f"{show_thousandths(found['onLast'])}, on the target itself "
        f"{show_thousandths(found['onItself'])}, on the token before it, "
        f"where there is one, {show_thousandths(found['onPrevious'])}, on the one after it "
        f"{show_thousandths(found['onNext'])}."
    )


_TOKENS = ("To", "be", ",", "or", "not", "to", "be")


@cache
def _made_by_hand() -> dict[str, Any]:
    """Heads at hand without any model: what each reads is a rule of the positions alone."""
    t, s = np.mgrid[: len(_TOKENS), : len(_TOKENS)]
    behind = t - s
    scores = [
        [0.0 * s, -1.0 * abs(behind), -2.0 * abs(behind - 1)],
        [-2.0 * abs(behind + 1), -3.0 * s, 2.0 * (s - 6) + np.where(behind == 0, 8, 0)],
    ]
    exponentials = np.exp(np.array(scores, dtype=np.float64))
    return pack_maps("weights", exponentials / exponentials.sum(axis=-1, keepdims=True))


class AttentionMapsExplorer(Explorer):
    """A layer and a head of a model → whom each token of a text reads, and how much.

    `weights` has the axes (layer, head, t, s); each row sums to one. They are kept in 12 bits, off
    by less than 0.00025: `attnlib.explore.packed_maps.unpack_maps` gives them. `target` and
    `source` are the pair that is looked at. Without data the maps are made by hand.
    """

    explorer = "attention-maps"
    title = "Attention maps: whom each token reads"
    _esm = anywidget_module("attention-maps.mjs")

    tokens = Option(checks.token_texts, _TOKENS, limits.N_MAP_TOKENS, fixed=True)
    weights = Option(pack_maps, None, fixed=True)
    layer = Option(checks.whole, 0, (0, limits.N_MAP_LAYERS[1] - 1))
    head = Option(checks.whole, 0, (0, limits.N_MAP_HEADS[1] - 1))
    target = Option(checks.whole, 0, (0, limits.N_MAP_TOKENS[1] - 1))
    source = Option(checks.whole, 0, (0, limits.N_MAP_TOKENS[1] - 1))

    @traitlets.default("weights")
    def _maps_at_hand(self) -> dict[str, Any]:
        return _made_by_hand()

    def check_together(self, state: State) -> None:
        tokens, weights = state["tokens"], state["weights"]
        if weights["tokens"] != len(tokens):
            raise ValueError(
                f"weights must have a target for each of tokens, got {weights['tokens']} "
                f"targets and {len(tokens)} tokens"
            )
        places = {"layer": "layers", "head": "heads", "target": "tokens", "source": "tokens"}
        for name, axis in places.items():
            if state[name] >= weights[axis]:
                raise Contradiction(
                    f"{name} must be less than the number of {axis}, {weights[axis]}, "
                    f"got {state[name]}"
                )

    @traitlets.validate("layer", "head", "target", "source")
    def _keep_to_the_maps(self, proposal: Any) -> int:
        return self.checked(proposal)

    def facts(self) -> dict[str, Any]:
        """The largest weights of the chosen target, and means of the head over all targets."""
        return attention_maps_facts(self.state)

    def describe(self) -> str:
        return describe_attention_maps(self.state)
