"""The rotary explorer: two vectors turn, and their score depends on the distance alone."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import torch

from attnlib.explore import checks, limits
from attnlib.explore.base import Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.words import State, show, show_frequency, show_wavelength, show_whole
from attnlib.positions import rotary_frequencies, rotate

WIDTH = 2 * (limits.TURN_PAIR[1] + 1)
FARTHEST = limits.TURN_POSITION[1]
RISE = 1e-9  # less is rounding


@cache
def mean_scores() -> np.ndarray:
    """The score of q = k = (1, …, 1) over all pairs, over its largest value d, by distance."""
    ones = torch.ones(FARTHEST + 1, WIDTH, dtype=torch.float64)
    keys = rotate(ones, torch.arange(FARTHEST + 1), pairing="interleaved")
    return (keys @ ones[0] / WIDTH).numpy()


def within_half_a_turn(angle: float) -> float:
    """An angle in degrees as the turn from −180 to 180 that leads to the same place."""
    return angle - 360 * math.ceil((angle - 180) / 360)


def rotary_facts(state: State) -> dict[str, Any]:
    """The numbers of the rotary explorer; the score is the inner product of the turned vectors."""
    m, n = state["query_position"], state["key_position"]
    theta = float(rotary_frequencies(WIDTH)[state["pair"]])
    ahead = math.radians(state["angle"])
    vectors = torch.tensor([[1, 0], [math.cos(ahead), math.sin(ahead)]], dtype=torch.float64)
    frequencies = torch.tensor([theta], dtype=torch.float64)
    positions = torch.tensor([m, n])
    query, key = rotate(vectors, positions, pairing="interleaved", frequencies=frequencies)
    return {
        "frequency": theta,
        "wavelength": 2 * math.pi / theta,
        "distance": n - m,
        "query": query.tolist(),
        "key": key.tolist(),
        "angleAfter": within_half_a_turn(state["angle"] + math.degrees((n - m) * theta)),
        "score": float(query @ key),
        "meanScore": float(mean_scores()[abs(n - m)]),
        "rises": int((np.diff(mean_scores()) > RISE).sum()),
    }


def describe_rotary(state: State) -> str:
    found = rotary_facts(state)
    distance = show_whole(found["distance"])
    before, after = show_whole(state["angle"]), show(found["angleAfter"], 1)
    words = (
        f"Query at position m = {state['query_position']}, key at position "
        f"n = {state['key_position']}, distance n − m = {distance}. Pair {state['pair']} of width "
        f"d = {WIDTH} turns by θ = {show_frequency(found['frequency'])} at each position, once in "
        f"{show_wavelength(found['wavelength'])} positions. The angle from query to key is "
        f"{before}° before the rotation and {after}° after it. The score is its cosine, "
        f"{show(found['score'], 3)}, at all positions with this distance."
    )
    if not state["all_pairs"]:
        return words
    return words + (
        f" With q = k = (1, …, 1), the mean over all {WIDTH // 2} pairs is "
        f"{show(found['meanScore'], 3)} at this distance. It falls from 1 to "
        f"{show(float(mean_scores()[FARTHEST]), 3)} at distance {FARTHEST}, but not steadily: at "
        f"{found['rises']} of these {FARTHEST} steps it rises."
    )


class RotaryExplorer(Explorer):
    """One pair of coordinates of a query and a key, turned by their positions, and its score.

    The pair ℓ of a head of width 64 turns by θ_ℓ = 10,000^(−2ℓ/64) at each position. `angle` in
    degrees leads from query to key before the rotation. `all_pairs` adds the mean over all pairs.
    """

    explorer = "rotary"
    title = "Rotary positions: both turn, the score sees only the distance"
    _esm = anywidget_module("rotary.mjs")

    query_position = Option(checks.whole, 12, limits.TURN_POSITION)
    key_position = Option(checks.whole, 30, limits.TURN_POSITION)
    pair = Option(checks.whole, 8, limits.TURN_PAIR)
    angle = Option(checks.whole, 40, limits.TURN_ANGLE)
    all_pairs = Option(checks.flag, False)

    def facts(self) -> dict[str, Any]:
        """The turned vectors, the angle between them, the score, and the mean over all pairs."""
        return rotary_facts(self.state)

    def describe(self) -> str:
        return describe_rotary(self.state)
