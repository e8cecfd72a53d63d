"""The sinusoidal explorer: an encoding as a map of positions and dimensions."""

from __future__ import annotations

import math
from typing import Any

import torch
import traitlets

from attnlib.explore import checks, limits
from attnlib.explore.base import Contradiction, Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.words import State, show, show_frequency, show_wavelength, show_whole
from attnlib.positions import rotary_frequencies, sinusoidal_encoding

SAID_OFFSETS = (1, 10, 100)


def sinusoidal_facts(state: State) -> dict[str, Any]:
    """The numbers of the sinusoidal explorer; inner products are those of rows p and p + k."""
    width, base = state["width"], float(state["base"])
    omega = float(rotary_frequencies(width, base=base)[state["dimension"] // 2])
    offsets = torch.arange(limits.ENCODING_POSITION[1] + 1)
    rows = sinusoidal_encoding(state["position"] + offsets, width, base=base, dtype=torch.float64)
    return {
        "frequency": omega,
        "wavelength": 2 * math.pi / omega,
        "value": float(rows[0, state["dimension"]]),
        "innerProducts": (rows @ rows[0] / (width / 2)).tolist(),
    }


def describe_sinusoidal(state: State) -> str:
    found = sinusoidal_facts(state)
    p, j = state["position"], state["dimension"]
    near, middle, far = (f"{show(found['innerProducts'][k])} at k = {k}" for k in SAID_OFFSETS)
    return (
        f"Position {p}, dimension {j} of width m = {state['width']}, base "
        f"{show_whole(state['base'])}. Dimension {j} is the {('sine', 'cosine')[j % 2]} of pair "
        f"{j // 2}, of frequency {show_frequency(found['frequency'])}: one wave in "
        f"{show_wavelength(found['wavelength'])} positions. Its value here is "
        f"{show(found['value'], 3)}. The inner product of rows p and p + k, divided by m/2, is "
        f"1 at k = 0, {near}, {middle} and {far}, the same wherever p is."
    )


class SinusoidalExplorer(Explorer):
    """The sinusoidal encoding as a map, one chosen entry of it, and how rows resemble each other.

    `width` m is even, `dimension` below it, and `position` from 0 to 127. The pair i of dimensions
    2i and 2i + 1 has the frequency `base`^(−2i/m).
    """

    explorer = "sinusoidal"
    title = "Sinusoidal encoding: a clock for every pair of dimensions"
    _esm = anywidget_module("sinusoidal.mjs")

    width = Option(checks.even, 64, limits.ENCODING_WIDTH)
    position = Option(checks.whole, 10, limits.ENCODING_POSITION)
    dimension = Option(checks.whole, 8, (0, limits.ENCODING_WIDTH[1] - 1))
    base = Option(checks.listed, 10_000, limits.ENCODING_BASE)

    def check_together(self, state: State) -> None:
        if state["dimension"] >= state["width"]:
            raise Contradiction(
                f"dimension must be less than width, got dimension={state['dimension']} "
                f"and width={state['width']}"
            )

    @traitlets.validate("dimension", "width")
    def _keep_them_together(self, proposal: Any) -> int:
        return self.checked(proposal)

    def facts(self) -> dict[str, Any]:
        """The entry, its frequency and wavelength, and the inner products of rows."""
        return sinusoidal_facts(self.state)

    def describe(self) -> str:
        return describe_sinusoidal(self.state)
