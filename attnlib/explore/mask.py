"""The mask explorer: which pairs of a target and a source a mask lets through."""

from __future__ import annotations

from typing import Any

import torch
import traitlets

from attnlib.explore import checks, limits
from attnlib.explore.base import Contradiction, Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.words import State, show_count, show_thousandths
from attnlib.masks import causal_mask, padding_mask, window_mask


def may_attend(state: State) -> torch.Tensor:
    r"""The mask of a state: ((causal ∩ window) ∪ prefix) ∩ tokens, as (t, s).

    A window without the causal mask counts on both sides. Padding stands on the left.
    """
    shape = state["n_targets"], state["n_sources"]
    read_ts = causal_mask(*shape) if state["causal"] else torch.ones(shape, dtype=torch.bool)
    if state["window"]:
        read_ts = read_ts & window_mask(*shape, window=state["window"])
    source_s = torch.arange(state["n_sources"])
    read_ts = read_ts | (source_s < state["n_prefix"])
    return read_ts & padding_mask((source_s >= state["n_padding"])[None])[0, 0]


def verdict(state: State) -> str:
    """Why the chosen target may or may not read the chosen source."""
    position = state["target"] + state["n_sources"] - state["n_targets"]
    behind = position - state["source"]
    in_prefix = state["source"] < state["n_prefix"]
    if state["source"] < state["n_padding"]:
        return "padding"
    if state["causal"] and behind < 0:
        return "prefix" if in_prefix else "future"
    if state["window"] and abs(behind) >= state["window"]:
        return "prefix" if in_prefix else "window"
    return "may"


def mask_facts(state: State) -> dict[str, Any]:
    """The numbers of the mask explorer."""
    read_ts = may_attend(state)
    counts_t = read_ts.sum(dim=1)
    return {
        "allowed": int(read_ts.sum()),
        "share": int(read_ts.sum()) / read_ts.numel(),
        "counts": counts_t.tolist(),
        "emptyTargets": torch.nonzero(counts_t == 0).flatten().tolist(),
        "fewest": int(counts_t.min()),
        "most": int(counts_t.max()),
        "isComplete": bool(read_ts.all()),
        "mayRead": bool(read_ts[state["target"], state["source"]]),
        "verdict": verdict(state),
    }


_VERDICTS = {
    "may": "may read source {}",
    "prefix": "may read source {}: it is in the prefix",
    "padding": "may not read source {}: it is padding",
    "future": "may not read source {}: it lies in the future",
    "window": "may not read source {}: it lies outside the window",
}


def _say_rules(state: State) -> str:
    window, prefix, padding = state["window"], state["n_prefix"], state["n_padding"]
    sides = "" if state["causal"] else " on either side"
    rules = [
        "causal" if state["causal"] else "not causal",
        f"a window of {window}{sides}, the target included" if window else "no window",
        f"a prefix of {prefix}" if prefix else "no prefix",
        f"{padding} of padding on the left" if padding else "no padding",
    ]
    return "; ".join(rules)


def describe_mask(state: State) -> str:
    found = mask_facts(state)
    n_targets, n_sources = state["n_targets"], state["n_sources"]
    target = state["target"]
    position = str(target + n_sources - n_targets).replace("-", "−")
    empty = found["emptyTargets"]
    fewest, most = found["fewest"], found["most"]
    each = (
        f"Each target reads {show_count(most, 'source')}"
        if fewest == most
        else f"A target reads {fewest} to {most} sources"
    )
    # Targets with nothing to read are the first ones: who stands later reads no fewer.
    nothing = {
        0: "Every target has something to read.",
        1: "Target 0 reads nothing and gets zeros.",
    }.get(len(empty), f"Targets 0 to {len(empty) - 1} read nothing and get zeros.")
    complete = " The mask is the complete square." if found["isComplete"] else ""
    return (
        f"Targets: {n_targets}, sources: {n_sources}, bottom right aligned. "
        f"Rules: {_say_rules(state)}. {found['allowed']} of {n_targets} · {n_sources} = "
        f"{n_targets * n_sources} pairs are allowed, a share of "
        f"{show_thousandths(found['share'])}.{complete} {each}. {nothing} Target {target}, at "
        f"position {position}, {_VERDICTS[found['verdict']].format(state['source'])}."
    )


class MaskExplorer(Explorer):
    """A causal mask, a window, a prefix and padding → the pairs that may attend.

    A pair is allowed if ((causal and inside the window) or in the prefix) and no padding. `window`
    counts the sources that a target reads, itself included; 0 or None is no window, and without
    `causal` it counts on both sides. The first `n_padding` sources are padding. Targets are the
    last positions of the sources. `target` and `source` are the pair that is looked at.
    """

    explorer = "mask"
    title = "Masks: who may read whom"
    _esm = anywidget_module("mask.mjs")

    n_targets = Option(checks.whole, 8, limits.MASK_SIZE)
    n_sources = Option(checks.whole, 8, limits.MASK_SIZE)
    window = Option(checks.whole_or_none, 0, limits.MASK_PART)
    n_prefix = Option(checks.whole, 0, limits.MASK_PART)
    n_padding = Option(checks.whole, 0, limits.MASK_PART)
    causal = Option(checks.flag, True)
    target = Option(checks.whole, None, limits.MASK_PLACE)
    source = Option(checks.whole, None, limits.MASK_PLACE)

    @traitlets.default("target")
    def _last_but_one(self) -> int:
        return max(self.n_targets - 2, 0)

    @traitlets.default("source")
    def _second(self) -> int:
        return min(1, self.n_sources - 1)

    @traitlets.validate("n_targets", "n_sources", "n_prefix", "n_padding", "target", "source")
    def _keep_them_together(self, proposal: Any) -> int:
        return self.checked(proposal)

    def check_together(self, state: State) -> None:
        for part in ("n_prefix", "n_padding"):
            if state[part] > state["n_sources"]:
                raise Contradiction(
                    f"{part} must be at most n_sources, got {part}={state[part]} "
                    f"and n_sources={state['n_sources']}"
                )
        for place, count in (("target", "n_targets"), ("source", "n_sources")):
            if state[place] >= state[count]:
                raise Contradiction(
                    f"{place} must be less than {count}, got {place}={state[place]} "
                    f"and {count}={state[count]}"
                )

    def facts(self) -> dict[str, Any]:
        """The allowed pairs in numbers, the targets with nothing to read, and the chosen pair."""
        return mask_facts(self.state)

    def describe(self) -> str:
        return describe_mask(self.state)
