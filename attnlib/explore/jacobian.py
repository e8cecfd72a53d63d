"""The Jacobian explorer: sources that lead by a gap, and the spectrum of softmax's Jacobian."""

from __future__ import annotations

import math
from typing import Any

import traitlets

from attnlib.explore import checks, limits
from attnlib.explore.base import Contradiction, Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.words import State, show_round, show_small, untie


def jacobian_facts(state: State) -> dict[str, Any]:
    r"""The numbers of the Jacobian explorer, in closed form.

    With ℓ leaders of weight $a$ and n − ℓ other sources of weight $b = a e^{-g}$, the matrix
    $\operatorname{diag}(p) - pp^\top$ has the eigenvalue $a$ on vectors that live on the leaders
    and sum to zero, $b$ on such vectors on the others, and on what is left of the plane of vectors
    that are constant on each side, 0 for the vector of ones and $nab$ for the one across it.
    `spectrum` is these eigenvalues with their multiplicities, from the largest; equal ones are one.
    """
    n, n_leaders, gap = state["n_sources"], state["n_leaders"], state["gap"]
    n_others = n - n_leaders
    fall = math.exp(-gap)
    a = 1 / (n_leaders + n_others * fall)
    b = a * fall if n_others else None
    if n_others == 0 or gap == 0:
        spectrum = [[a, n - 1], [0.0, 1]]
    else:
        found = [[a, n_leaders - 1], [n * a * b, 1], [b, n_others - 1], [0.0, 1]]
        spectrum = [[value, count] for value, count in found if count > 0]
    rest = (n_leaders - 1) * a + n_others * (b or 0.0)  # 1 − a would cancel
    others_entry = n_others * b * (1 - b) if n_others else 0.0
    return {
        "leader": a,
        "other": b,
        "spectrum": spectrum,
        "norm": spectrum[0][0],
        "bound": min(a, 2 * a * rest),
        "gapBound": 2 * (n - 1) * fall if n_leaders == 1 else None,
        "trace": n_leaders * a * rest + others_entry,
        "leaderEntry": a * rest,
    }


def _say(x: float) -> str:
    return "0" if x == 0 else show_small(untie(x))


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def describe_jacobian(state: State) -> str:
    found = jacobian_facts(state)
    n, n_leaders = state["n_sources"], state["n_leaders"]
    gap = show_round(untie(state["gap"]))
    if n_leaders == n:
        setting = f"{n} sources of equal score, each of weight a = {_say(found['leader'])}."
    else:
        others = "the other" if n - n_leaders == 1 else f"the {n - n_leaders} others"
        lead = "1 leads" if n_leaders == 1 else f"{n_leaders} share the lead"
        setting = (
            f"{n} sources, of which {lead} by the gap g = {gap}: weight a = "
            f"{_say(found['leader'])}{'' if n_leaders == 1 else ' each'}, and b = "
            f"{_say(found['other'])} for {others}."
        )
    spectrum = ", ".join(f"{_say(value)} {_times(count)}" for value, count in found["spectrum"])
    bound = f"min(a, 2a(1 − a)) = {_say(found['bound'])}"
    if n_leaders == 1:
        bound += f" and 2(n − 1)e^(−g) = {_say(found['gapBound'])}"
        limit = "As g → ∞, all of J vanishes."
    elif n_leaders == n:
        limit = "All sources lead: the gap changes nothing."
    else:
        limit = f"As g → ∞, ‖J‖₂ goes to 1/{n_leaders}: between leaders, a gradient passes."
    return (
        f"{setting} Eigenvalues of J = diag(p) − ppᵀ: {spectrum}. ‖J‖₂ = "
        f"{_say(found['norm'])}, at most {bound}. The leader's own entry a(1 − a) is "
        f"{_say(found['leaderEntry'])}, the trace 1 − ‖p‖² is {_say(found['trace'])}. {limit}"
    )


class JacobianExplorer(Explorer):
    """Sources, leaders and their gap → the spectrum of diag(p) − ppᵀ, its norm and its bounds.

    `n_leaders` of `n_sources` share the largest score, the others lie lower by `gap`.
    """

    explorer = "jacobian"
    title = "Softmax Jacobian: what a leader lets pass"
    _esm = anywidget_module("jacobian.mjs")

    n_sources = Option(checks.whole, 16, limits.JACOBIAN_SOURCES)
    n_leaders = Option(checks.whole, 1, (1, limits.JACOBIAN_SOURCES[1]))
    gap = Option(checks.number, 2.0, limits.GAP)

    def check_together(self, state: State) -> None:
        if state["n_leaders"] > state["n_sources"]:
            raise Contradiction(
                f"n_leaders must be at most n_sources, got n_leaders={state['n_leaders']} "
                f"and n_sources={state['n_sources']}"
            )

    @traitlets.validate("n_leaders", "n_sources")
    def _keep_them_together(self, proposal: Any) -> int:
        return self.checked(proposal)

    def facts(self) -> dict[str, Any]:
        """Weights, eigenvalues with multiplicities, ‖J‖₂ and its bounds, trace, leader's entry."""
        return jacobian_facts(self.state)

    def describe(self) -> str:
        return describe_jacobian(self.state)
