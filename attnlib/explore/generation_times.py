"""The explorer of generation's times: with a cache and anew, stored before and measured here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch
import traitlets

from attnlib.data import generation_timings
from attnlib.explore import checks, limits
from attnlib.explore.base import Contradiction, Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.generation_runs import HEAD_DIM, measure_generation, timed_sizes
from attnlib.explore.packed_timings import Packed, pack, pack_measured, pack_timings
from attnlib.explore.words import (
    State,
    show_count,
    show_metric,
    show_round,
    untie,
)
from attnlib.timing import Measurement, load_timings

N_REPEATS_HERE = 3  # somebody waits
_FIRST = limits.GENERATION_LENGTHS[0]  # where the curves of the picture begin


@lru_cache(maxsize=256)
def generation_flops(n_layers: int, n_heads: int, n_new: int) -> tuple[int, int]:
    """FLOPs in total with a cache and anew: all pairs are multiplied, those not read included."""
    from attnlib import cost  # it brings SymPy, which the other explorers do not need

    sizes = timed_sizes(n_layers, n_heads)
    totals = (cost.cached_generation_flops, cost.recomputed_generation_flops)
    cached, anew = (
        cost.evaluate(sum(total(dense=True).values()), sizes, T=n_new, P=1, B=1) for total in totals
    )
    return cached, anew


def _run_of(packed: Packed, state: State) -> Mapping[str, Any] | None:
    wanted = (state["n_layers"], state["n_heads"])
    return next((r for r in packed["runs"] if (r["layers"], r["heads"]) == wanted), None)


def _stored(state: State) -> Packed:
    return next(each for each in state["timings"] if each["device"] == state["device"])


def _measured(state: State) -> Packed | None:
    """The last one of the chosen model that is as long."""
    fitting = [
        each
        for each in state["measured"]
        if _run_of(each, state) and state["n_new"] in each["lengths"]
    ]
    return fitting[-1] if fitting else None


def _times(packed: Packed, state: State) -> dict[str, Any]:
    """Quartile, median, quartile of all, in seconds; the ratio is taken run by run."""
    run, i = _run_of(packed, state), packed["lengths"].index(state["n_new"])
    return {
        **{
            way: {"all": run[way][i], "first": run[way][0], "further": run[f"{way}Further"][i - 1]}
            for way in ("cached", "anew")
        },
        "ratio": run["ratio"][i],
    }


def generation_times_facts(state: State) -> dict[str, Any]:
    """The numbers of the explorer of generation's times.

    Times are a quartile, the median and the other quartile, in seconds: `all` of the chosen length,
    `first` of the first token, `further` of each further one. `growth` is how many times as long
    or as much it takes as the shortest length; `here` is what was measured here, or None.
    """
    stored, here = _stored(state), _measured(state)
    run, i = _run_of(stored, state), stored["lengths"].index(state["n_new"])
    flops = generation_flops(state["n_layers"], state["n_heads"], state["n_new"])
    at_first = generation_flops(state["n_layers"], state["n_heads"], _FIRST)
    return {
        **_times(stored, state),
        "cachedFlops": flops[0],
        "anewFlops": flops[1],
        "flopsRatio": flops[1] / flops[0],
        "growth": {
            "cached": run["cached"][i][1] / run["cached"][1][1],
            "anew": run["anew"][i][1] / run["anew"][1][1],
            "cachedFlops": flops[0] / at_first[0],
            "anewFlops": flops[1] / at_first[1],
        },
        "here": None if here is None else _times(here, state),
    }


def _say_range(lower: float, upper: float) -> str:
    """The unit once, where it is the same."""
    (a, unit), (b, other) = (show_metric(x, "s").split() for x in (lower, upper))
    return f"{a} to {b} {unit}" if unit == other else f"{a} {unit} to {b} {other}"


def _say_seconds(spread: list[float]) -> str:
    lower, median, upper = spread
    return f"{show_metric(median, 's')} ({_say_range(lower, upper)})"


def _say_ratio(spread: list[float]) -> str:
    lower, median, upper = (show_round(untie(x)) for x in spread)
    return f"{median} times as long ({lower} to {upper})"


def _say_times(times: Mapping[str, Any]) -> str:
    cached, anew = (
        f"{_say_seconds(way['all'])}, the first token {_say_seconds(way['first'])} and each "
        f"further one {_say_seconds(way['further'])}"
        for way in (times["cached"], times["anew"])
    )
    return (
        f"With a cache {cached}. Anew {anew}. Anew takes {_say_ratio(times['ratio'])}, run by run."
    )


def _say_origin(packed: Packed) -> str:
    return f"on {packed['where']}, in {packed['dtype']}"


def describe_generation_times(state: State) -> str:
    found, stored, here = generation_times_facts(state), _stored(state), _measured(state)
    grown = {name: show_round(untie(x)) for name, x in found["growth"].items()}
    growth = (
        f" From {_FIRST} to {state['n_new']} new tokens the time grew {grown['cached']}-fold with "
        f"a cache and {grown['anew']}-fold anew, the FLOPs {grown['cachedFlops']}-fold and "
        f"{grown['anewFlops']}-fold."
        if state["n_new"] > _FIRST
        else ""
    )
    measured = (
        ""
        if here is None
        else f" Measured here {_say_origin(here)}, {show_count(here['repeats'], 'run')} of each: "
        f"{_say_times(found['here'])}"
    )
    return (
        f"{show_count(state['n_layers'], 'layer')}, {show_count(state['n_heads'], 'head')} of "
        f"width {HEAD_DIM}, m = {HEAD_DIM * state['n_heads']}, {state['n_new']} new tokens after "
        f"one. Stored, measured before {_say_origin(stored)}: medians of "
        f"{show_count(stored['repeats'], 'run')} of each, and in brackets the middle half. "
        f"{_say_times(found)} Counted, it is {show_round(untie(found['flopsRatio']))} times as "
        f"much: {show_metric(found['cachedFlops'], 'FLOP')} with a cache, "
        f"{show_metric(found['anewFlops'], 'FLOP')} anew.{growth}{measured}"
    )


class GenerationTimesExplorer(Explorer):
    """Layers, heads, length → seconds of generation with a cache and anew, beside the count.

    `timings` are measurements by `attnlib.explore.generation_runs`, one a device, of all models
    and lengths that can be chosen; without it they are those that come with the book. `device`
    chooses among them. `measured` is what `measure`, or the button in a live notebook, has added.
    """

    explorer = "generation-times"
    title = "Generation, timed: with a cache and anew"
    _esm = anywidget_module("generation-times.mjs")

    timings = Option(pack_timings, None, fixed=True)
    measured = Option(pack_measured, (), fixed=True)
    device = Option(checks.choice, None, limits.GENERATION_DEVICES)
    n_layers = Option(checks.listed, 2, limits.GENERATION_LAYERS)
    n_heads = Option(checks.listed, 4, limits.GENERATION_HEADS)
    n_new = Option(checks.listed, 256, limits.GENERATION_LENGTHS)

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.on_msg(self._answer)

    @traitlets.default("timings")
    def _of_the_book(self) -> tuple[dict[str, Any], ...]:
        return pack_timings("timings", [load_timings(path) for path in _stored_files()])

    @traitlets.default("device")
    def _the_first(self) -> str:
        return self.timings[0]["device"]

    def check_together(self, state: State) -> None:
        devices = [each["device"] for each in state["timings"]]
        if state["device"] not in devices:
            raise Contradiction(
                f"device must be one of those of timings, {', '.join(devices)}, got "
                f"{state['device']!r}"
            )

    @traitlets.validate("device")
    def _keep_to_the_timings(self, proposal: Any) -> str:
        return self.checked(proposal)

    def measure(
        self,
        device: torch.device | str | None = None,
        *,
        on_run: Callable[[], object] = lambda: None,
    ) -> Measurement:
        """Time the chosen model up to the chosen length here; the picture then shows it, too.

        Args:
            device: As in `attnlib.timing.timed_device`.
            on_run: Called after each run.
        """
        lengths = (1, *(n for n in limits.GENERATION_LENGTHS if n <= self.n_new))
        timed = measure_generation(
            self.n_layers,
            self.n_heads,
            lengths,
            n_repeats=N_REPEATS_HERE,
            device=device,
            on_run=on_run,
        )
        packed = pack("measured", timed)
        (run,) = packed["runs"]
        others = [
            each
            for each in self.measured
            if (each["device"], each["runs"][0]["layers"], each["runs"][0]["heads"])
            != (packed["device"], run["layers"], run["heads"])
        ]
        self.set_trait("measured", [*others, packed])
        return timed

    def facts(self) -> dict[str, Any]:
        """Seconds with a cache and anew, their ratio, the count of FLOPs, and what grew how."""
        return generation_times_facts(self.state)

    def describe(self) -> str:
        return describe_generation_times(self.state)

    def _answer(self, _: Any, content: Any, __: Any) -> None:
        """Answer the page: on which devices it can measure, and what came of it."""
        ask = content.get("ask") if isinstance(content, Mapping) else None
        if ask == "devices":
            has_gpu = torch.cuda.is_available()
            self.send({"devices": ["cpu", "cuda"] if has_gpu else ["cpu"]})
        elif ask == "measure":
            self._measure_for_page(content.get("device"))

    def _measure_for_page(self, device: Any) -> None:
        n_done, n_runs = 0, 2 * N_REPEATS_HERE

        def on_run() -> None:
            nonlocal n_done
            n_done += 1
            self.send({"progress": [n_done, n_runs]})

        self.send({"progress": [0, n_runs]})
        try:
            self.measure(device, on_run=on_run)
        except BaseException as error:  # whatever it is, the page must not wait for ever
            self.send({"failed": f"{type(error).__name__}: {error}".rstrip(": ")})
            if not isinstance(error, Exception):
                raise
        else:
            self.send({"done": True})


def _stored_files() -> list[Any]:
    stored = generation_timings()
    return [stored[device] for device in limits.GENERATION_DEVICES if device in stored]
