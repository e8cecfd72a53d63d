"""The latent explorer: what a latent keeps, and what it costs to read it in four forms."""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import combinations
from typing import Any

from attnlib.explore import checks, limits
from attnlib.explore.base import Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.words import (
    State,
    show_binary,
    show_metric,
    show_tokens,
    show_wavelength,
    show_whole,
    untie,
)
from attnlib.sizes import PUBLISHED

LATENT = ("expanded", "re-expanded", "absorbed", "merged")
BASELINES = ("multi-head", "grouped", "expanded")
_NAMES = {
    "multi-head": "multi-head attention",
    "grouped": f"{limits.LATENT_KV_HEADS} key/value heads",
    **{name: name for name in LATENT},
}
_PAIRS = tuple(combinations(LATENT, 2))
_SHARED = "shared heads"


@cache
def _functions() -> dict[str, Any]:
    from attnlib.explore.latent_formulas import functions  # SymPy, which other explorers need not

    return {name: parts for name, (parts, _) in functions().items()}


@lru_cache(maxsize=512)
def _evaluated(function: str, **letters: int) -> dict[str, Any]:
    """By form: FLOPs of a step, numbers kept of a token, or the intensity of the core."""
    from attnlib import cost

    return cost.evaluate(_functions()[function], **letters)


def _counted(prefix: str, n_tokens: int, letters: dict[str, int]) -> dict[str, dict[str, Any]]:
    steps = _evaluated(f"{prefix}Steps", **letters, N=n_tokens)
    kept, intensities = (_evaluated(prefix + of, **letters) for of in ("Kept", "Intensities"))
    return {
        name: {
            "kept": kept[name],
            "bytes": kept[name] * letters["beta"],
            "flops": steps[name],
            "intensity": float(intensities[name]),
        }
        for name in steps
    }


def _letters(state: State) -> dict[str, int]:
    sizes = PUBLISHED[state["model"]]
    return {
        "m": sizes.width,
        "u": sizes.attention.query_latent,
        "c": state["kv_latent"],
        "r": state["rope_dim"],
        "h": state["n_heads"],
        "n": state["nope_dim"],
        "e": state["value_dim"],
        "beta": state["bytes_per_number"],
    }


def _shared(letters: dict[str, int], n_kv_heads: int) -> dict[str, int]:
    """Ordinary heads of the same width, all of which may turn: d is n, and there is no r."""
    kept = {name: letters[name] for name in ("m", "h", "e", "beta")}
    return {**kept, "g": n_kv_heads, "d": letters["n"]}


def lead(names: tuple[str, str], lines: tuple[tuple[int, int], ...]) -> dict[str, Any]:
    """Which of two forms takes fewer FLOPs a step in the end, and from how many tokens on.

    Of each form, FLOPs without any token, and those of each token. Where both always take as many,
    it leads from nowhere, which is None.
    """
    (fixed, growth), (other_fixed, other_growth) = lines
    ahead = (other_growth - growth, other_fixed - fixed)
    if ahead < (0, 0):
        return lead(names[::-1], lines[::-1])
    gained, start = ahead
    first = 1 if gained == 0 else max(1, -start // gained + 1)  # start + gained·N is above 0
    return {"fewer": names[0], "more": names[1], "from": first if ahead > (0, 0) else None}


def latent_facts(state: State) -> dict[str, Any]:
    """The numbers of the latent explorer, whole ones exactly."""
    letters, n_tokens = _letters(state), state["n_tokens"]
    forms = {
        name: _counted("shared", n_tokens, _shared(letters, n))[_SHARED]
        for name, n in (("multi-head", letters["h"]), ("grouped", limits.LATENT_KV_HEADS))
    }
    forms |= _counted("latent", n_tokens, letters)
    none, one = (_evaluated("latentSteps", **letters, N=n) for n in (0, 1))
    lines = {name: (none[name], one[name] - none[name]) for name in LATENT}
    kept = forms["absorbed"]["kept"]
    return {
        "forms": forms,
        "leads": [lead(pair, tuple(lines[name] for name in pair)) for pair in _PAIRS],
        "times": {name: forms[name]["kept"] / kept for name in BASELINES},
        "asManyHeads": kept / (letters["n"] + letters["e"]),
        "cacheBytes": forms["absorbed"]["bytes"] * n_tokens,
    }


def _say_leads(leads: list[dict[str, Any]]) -> str:
    """Where each form takes fewer FLOPs than another: the crossings of the picture."""
    fewer: dict[str, list[str]] = {name: [] for name in LATENT}
    equal = []
    for each in leads:
        first = each["from"]
        if first is None:
            equal.append(f"{each['fewer']} as {each['more']}")
        else:
            when = "at every context" if first == 1 else f"from {show_tokens(first)} on"
            fewer[each["fewer"]].append(f"than {each['more']} {when}")
    said = "; ".join(f"{name} {', '.join(than)}" for name, than in fewer.items() if than)
    as_many = f" It takes as many {', '.join(equal)}." if equal else ""
    return f"A step takes fewer FLOPs {said}.{as_many}"


def _round(x: float) -> str:
    return show_wavelength(untie(x))  # three digits, and whole from a hundred on


def describe_latent(state: State) -> str:
    found, letters = latent_facts(state), _letters(state)
    forms, times = found["forms"], found["times"]
    h, c, r, n, e = (letters[name] for name in "hcrne")
    flops = ", ".join(
        f"{_NAMES[name]} {show_metric(forms[name]['flops'], 'FLOP')}" for name in forms
    )
    intensities = ", ".join(f"{_NAMES[name]} {_round(forms[name]['intensity'])}" for name in forms)
    kept = forms["absorbed"]
    return (
        f"h = {h} heads with n = {n}, r = {r}, e = {e} and a latent of width c = {c}, on a stream "
        f"of m = {show_whole(letters['m'])} with query latents of u = {show_whole(letters['u'])}, "
        f"as in {PUBLISHED[state['model']].name}. Of a token a layer keeps c + r = "
        f"{show_whole(kept['kept'])} numbers, {show_binary(kept['bytes'])}: as many as "
        f"{_round(found['asManyHeads'])} key/value heads of widths n and e. Multi-head attention, "
        f"h(n + e), keeps {_round(times['multi-head'])} times as many, {_NAMES['grouped']} "
        f"{_round(times['grouped'])} times as many, and the latent's own keys and values, "
        f"h(n + r + e), {_round(times['expanded'])} times as many. Over "
        f"{show_tokens(state['n_tokens'])} the layer's cache takes "
        f"{show_binary(found['cacheBytes'])}. One decode step of the layer there, the new token "
        f"among them: {flops}. FLOPs of the core for each byte of cache: {intensities}. "
        f"{_say_leads(found['leads'])}"
    )


class LatentFormsExplorer(Explorer):
    """Latent, rope width, heads, context → what one layer keeps and computes, in four forms.

    A layer of `n_heads` h heads keeps a latent of width `kv_latent` c and one rotated key of width
    `rope_dim` r, which may be none; a head has `nope_dim` n coordinates without rotation and
    values of width `value_dim` e. It stands on the residual stream of `model`, a key of
    `PUBLISHED`, whose queries come from a latent, too. A decode step reads `n_tokens` tokens, the
    new one among them, from a cache of `bytes_per_number` bytes a number.
    """

    explorer = "latent-forms"
    title = "A latent: what it keeps, and what reading it costs"
    _esm = anywidget_module("latent-forms.mjs")

    kv_latent = Option(checks.listed, 512, limits.KV_LATENT)
    rope_dim = Option(checks.even, 64, limits.ROPE_DIM)
    n_heads = Option(checks.power_of_two, 128, limits.LATENT_HEADS)
    nope_dim = Option(checks.listed, 128, limits.LATENT_HEAD_DIM)
    value_dim = Option(checks.listed, 128, limits.LATENT_HEAD_DIM)
    n_tokens = Option(checks.power_of_two, 8192, limits.LATENT_CONTEXT)
    bytes_per_number = Option(checks.listed, 2, limits.COST_BYTES)
    model = Option(checks.choice, "deepseek-v2", limits.LATENT_MODELS)

    def facts(self) -> dict[str, Any]:
        """What each form keeps and computes, the baselines beside it, and where forms cross."""
        return latent_facts(self.state)

    def describe(self) -> str:
        return describe_latent(self.state)
