"""The explorer of key/value heads: who shares whom, and what it costs beside MHA, MQA and MLA."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import traitlets

from attnlib.explore import checks, limits
from attnlib.explore.base import Contradiction, Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.key_value_presets import OWN, has_its_sizes, preset, sizes_of
from attnlib.explore.words import (
    State,
    show_binary,
    show_count,
    show_metric,
    show_wavelength,
    show_whole,
    untie,
)
from attnlib.sizes import AttentionSizes

FORMS = ("MHA", "GQA", "MQA", "MLA")
_LETTERS = {
    "width": "m",
    "n_layers": "L",
    "n_tokens": "N",
    "n_rows": "B",
    "bytes_per_number": "beta",
}
_FIRST = "llama-3.1-70b"
_FIRST_SIZES = sizes_of(_FIRST)
_OWN_SIZES = {"name": "Own sizes", "latent": False, "windowLayers": 0, "window": 0}


def fitting_kv_heads(n_query_heads: int, most: int) -> int:
    """The most key/value heads, but no more than these, that query heads can share evenly.

    Example:
        >>> fitting_kv_heads(12, 8), fitting_kv_heads(13, 8)
        (6, 1)
    """
    return max(g for g in range(1, min(n_query_heads, most) + 1) if n_query_heads % g == 0)


def _model_of(state: State) -> dict[str, Any]:
    return preset(state["model"]) if has_its_sizes(state) else _OWN_SIZES


@lru_cache(maxsize=256)
def _counts(h: int, g: int, d: int, **letters: int) -> dict[str, dict[str, Any]]:
    """What attention costs in each form, with the latent that stands beside these heads."""
    from attnlib import cost  # it brings SymPy, which the other explorers do not need
    from attnlib.explore.key_value_formulas import counts, latent_sizes

    latent = latent_sizes(h, d, letters["m"])
    found = {"MLA": cost.evaluate(counts(cost.ABSORBED), latent, **letters)}
    for name, n_kv_heads in (("MHA", h), ("GQA", g), ("MQA", 1)):
        shared = AttentionSizes(n_query_heads=h, n_kv_heads=n_kv_heads, head_dim=d, value_dim=d)
        found[name] = cost.evaluate(counts(cost.SHARED_HEADS), shared, **letters)
    return {
        "latent": {letter: latent.letters[letter] for letter in "neruc"},
        **{name: _with_sums(found[name]) for name in FORMS},
    }


def _with_sums(counts: dict[str, Any]) -> dict[str, Any]:
    step = counts["projectionFlops"] + counts["coreFlops"]
    return counts | {"stepFlops": step, "intensity": float(counts["intensity"])}


def _form_of(state: State, model: dict[str, Any]) -> str:
    if model["latent"]:
        return "MLA"
    return {1: "MQA", state["n_query_heads"]: "MHA"}.get(state["n_kv_heads"], "GQA")


def key_value_heads_facts(state: State) -> dict[str, Any]:
    """The numbers of the explorer of key/value heads, whole ones exactly.

    `form` is what the model has, or the chosen heads are. `sharing` are the first and the last
    query head that read the key/value head of the chosen one. Of each form, cache, parameters and
    FLOPs are those of attention in all layers, FLOPs and cache those of all rows.
    """
    model = _model_of(state)
    h, g, d = (state[name] for name in ("n_query_heads", "n_kv_heads", "head_dim"))
    letters = {letter: state[name] for name, letter in _LETTERS.items()}
    found = _counts(h, g, d, **letters, L_w=model["windowLayers"], W=model["window"])
    queries = h // g
    kv_head = state["query_head"] // queries
    return {
        "model": model["name"],
        "form": _form_of(state, model),
        "queriesPerKvHead": queries,
        "kvHead": kv_head,
        "sharing": [kv_head * queries, (kv_head + 1) * queries - 1],
        "windowLayers": model["windowLayers"],
        "window": model["window"],
        **found,
    }


def show_ratio(x: float | int, base: float | int) -> str:
    """So many times as much as the base, or the base divided by so much: ×3.4, ÷8."""
    sign, ratio = ("×", x / base) if x >= base else ("÷", base / x)
    return sign + show_wavelength(untie(ratio))


def _say_head(state: State, found: dict[str, Any]) -> str:
    i, p, (first, last) = state["query_head"], found["queriesPerKvHead"], found["sharing"]
    others = "and no other does" if p == 1 else f"as {first} to {last} do"
    return f"Query head {i} reads key/value head ⌊{i}/{p}⌋ = {found['kvHead']}, {others}."


def _say_layers(found: dict[str, Any]) -> str:
    if found["windowLayers"] == 0:
        return "none with a window"
    return f"{found['windowLayers']} with a window of {show_whole(found['window'])} tokens"


def _say_form(found: dict[str, Any]) -> str:
    if found["form"] == "MLA":
        return f"{found['model']} itself has MLA, and these heads stand beside it for comparison."
    return f"That is {found['form']}."


def _say_beyond(state: State) -> str:
    if not has_its_sizes(state):
        return ""
    context = preset(state["model"])["context"]
    if state["n_tokens"] <= context:
        return ""
    return f" That is beyond the {show_whole(context)} tokens that it is said to read."


def describe_key_value_heads(state: State) -> str:
    found = key_value_heads_facts(state)
    latent = found["latent"]

    def compare(key: str, write: Callable[[dict[str, Any]], str]) -> str:
        others = (
            f"{name} {write(found[name])} ({show_ratio(found[name][key], found['MHA'][key])})"
            for name in FORMS[1:]
        )
        return ", ".join([f"MHA {write(found['MHA'])}", *others])

    def flops(counts: dict[str, Any]) -> str:
        parts = (counts["projectionFlops"], counts["coreFlops"])
        return " + ".join(show_metric(part, "FLOP") for part in parts)

    return (
        f"{found['model']}: h = {show_count(state['n_query_heads'], 'query head')} of width d = "
        f"{state['head_dim']}, g = {show_count(state['n_kv_heads'], 'key/value head')}, p = h/g = "
        f"{found['queriesPerKvHead']}. {_say_form(found)} {_say_head(state, found)} Stream of m = "
        f"{show_whole(state['width'])}, {show_count(state['n_layers'], 'layer')}, "
        f"{_say_layers(found)}. One decode step of {show_count(state['n_rows'], 'row')}: a new "
        f"token each, the last of {show_whole(state['n_tokens'])}.{_say_beyond(state)} In brackets "
        f"the ratio to MHA, which has g = h. Cache of all layers and rows, "
        f"{show_count(state['bytes_per_number'], 'byte')} a number: "
        f"{compare('cacheBytes', lambda counts: show_binary(counts['cacheBytes']))}. Parameters of "
        f"attention's matrices in all layers: "
        f"{compare('parameters', lambda counts: show_whole(counts['parameters']))}. FLOPs of the "
        f"step in the attention of all layers and rows, projections + core: "
        f"{compare('stepFlops', flops)}. FLOPs of the core for each byte of the cache: "
        f"{compare('intensity', lambda counts: show_wavelength(untie(counts['intensity'])))}. MLA "
        f"is absorbed and as in DeepSeek-V2 beside heads of this width: c = "
        f"{show_whole(latent['c'])}, r = {latent['r']}, u = {show_whole(latent['u'])}."
    )


class KeyValueHeadsExplorer(Explorer):
    """Query heads, key/value heads, widths, context → who reads whom, cache, parameters, FLOPs.

    `n_query_heads` h heads of width `head_dim` d share `n_kv_heads` g key/value heads, which must
    divide h, in each of `n_layers` layers on a stream of `width` m; `query_head` is the one that is
    looked at. A decode step gives each of `n_rows` rows the last of its `n_tokens` tokens; a number
    in the cache has `bytes_per_number` bytes. `model`, a key of `PUBLISHED`, brings h, g, d, m, L
    and the layers that have a window, and with other sizes it is "own". One with a latent leaves g
    to be chosen.
    """

    explorer = "key-value-heads"
    title = "Key/value heads: who shares whom, and what it saves"
    _esm = anywidget_module("key-value-heads.mjs")

    model = Option(checks.choice, _FIRST, limits.KEY_VALUE_MODELS)
    n_query_heads = Option(checks.whole, _FIRST_SIZES["n_query_heads"], limits.KEY_VALUE_HEADS)
    n_kv_heads = Option(checks.whole, None, limits.KEY_VALUE_HEADS)
    head_dim = Option(checks.power_of_two, _FIRST_SIZES["head_dim"], limits.KEY_VALUE_HEAD_DIM)
    width = Option(checks.listed, _FIRST_SIZES["width"], limits.KEY_VALUE_WIDTH)
    n_layers = Option(checks.whole, _FIRST_SIZES["n_layers"], limits.KEY_VALUE_LAYERS)
    query_head = Option(checks.whole, None, limits.KEY_VALUE_PLACE)
    n_tokens = Option(checks.power_of_two, 8192, limits.COST_CONTEXT)
    n_rows = Option(checks.power_of_two, 4, limits.COST_ROWS)
    bytes_per_number = Option(checks.listed, 2, limits.COST_BYTES)

    def __init__(self, **options: Any):
        super().__init__(**_with_the_models_sizes(options))

    @traitlets.default("n_kv_heads")
    def _as_many_as_the_first_or_fewer(self) -> int:
        return fitting_kv_heads(self.n_query_heads, _FIRST_SIZES["n_kv_heads"])

    @traitlets.default("query_head")
    def _some_head(self) -> int:
        return min(10, self.n_query_heads // 2)

    def check_together(self, state: State) -> None:
        h, g, i = (state[name] for name in ("n_query_heads", "n_kv_heads", "query_head"))
        if h % g != 0:
            raise Contradiction(
                f"n_kv_heads must divide n_query_heads (g divides h), got h={h} and g={g}"
            )
        if i >= h:
            raise Contradiction(
                f"query_head must be less than n_query_heads, got query_head={i} and h={h}"
            )

    @traitlets.validate("n_query_heads", "n_kv_heads", "query_head")
    def _keep_them_together(self, proposal: Any) -> int:
        return self.checked(proposal)

    @traitlets.observe("model")
    def _take_its_sizes(self, change: Any) -> None:
        if not self.initial or change.new == OWN or has_its_sizes(self.state):
            return
        sizes = sizes_of(change.new)
        h = sizes["n_query_heads"]
        with self.hold_trait_notifications():
            for name, size in sizes.items():
                setattr(self, name, size)
            self.n_kv_heads = sizes.get("n_kv_heads", fitting_kv_heads(h, self.n_kv_heads))
            self.query_head = min(self.query_head, h - 1)

    @traitlets.observe("n_query_heads", "n_kv_heads", "head_dim", "width", "n_layers")
    def _be_no_model_with_other_sizes(self, _: Any) -> None:
        if self.initial and not has_its_sizes(self.state):
            self.model = OWN

    def facts(self) -> dict[str, Any]:
        """Who shares whom, and what each form keeps, has, computes, and computes for each byte."""
        return key_value_heads_facts(self.state)

    def describe(self) -> str:
        return describe_key_value_heads(self.state)


def _with_the_models_sizes(options: dict[str, Any]) -> dict[str, Any]:
    """The options, with the sizes of the model that is named, or of none if others are given."""
    named = options.get("model")
    model = _FIRST if named is None else named
    if model not in limits.KEY_VALUE_MODELS or model == OWN:
        return options
    sizes = sizes_of(model)
    others = [name for name in sizes if name in options and options[name] != sizes[name]]
    if not others:
        return {"model": model, **sizes, **options}
    if named is None:
        return {"model": OWN, **options}
    said = " and ".join(f"{name}={sizes[name]}" for name in others)
    got = " and ".join(f"{name}={options[name]!r}" for name in others)
    raise ValueError(f"the model {model} has {said}, so no others can be given, got {got}")
