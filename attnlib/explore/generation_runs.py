r"""The runs that are timed: small models of random weights generate with a cache and without one.

Source   this book
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py

A run notes when each new token was there, so that one run of 512 tokens has the times of all
shorter ones, too: its first token, and what each further one takes. A token is on the CPU before
it is noted, so what a GPU has to do for it is done by then. Both ways run in turn on one model,
with the same kernels, and write the same tokens.

    >>> sizes = timed_sizes(2, 4)
    >>> sizes.n_layers, sizes.width, f"{sizes.n_parameters:,}"
    (2, 128, '426,624')
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from time import perf_counter

import torch

from attnlib.explore import limits
from attnlib.explore.words import show_count
from attnlib.generation import generate
from attnlib.models import LanguageModel
from attnlib.require import at_least
from attnlib.sizes import AttentionSizes, ModelSizes, RotarySizes
from attnlib.timing import (
    Machine,
    Measurement,
    Timing,
    compare,
    quick_dtype,
    this_machine,
    timed_device,
)

HEAD_DIM = limits.GENERATION_HEAD_DIM  # d and e; m is h·d, so more heads make a wider model
INNER = 4  # the inner width of a feed-forward network, in widths
VOCABULARY = 256
PROMPT = (0,)
LENGTHS = (1, *limits.GENERATION_LENGTHS)  # the first token, too
CACHED, ANEW = "with a cache", "anew"
SEED = 0
N_REPEATS = 5
_N_WARM_UP = 8  # tokens that do not count: they load weights and kernels


def timed_sizes(n_layers: int, n_heads: int) -> ModelSizes:
    """Give the sizes of the model with so many layers and heads."""
    attention = AttentionSizes(
        n_query_heads=n_heads, n_kv_heads=n_heads, head_dim=HEAD_DIM, value_dim=HEAD_DIM
    )
    width = n_heads * HEAD_DIM
    return ModelSizes(
        name=f"{show_count(n_layers, 'layer')}, {show_count(n_heads, 'head')}",
        source="this book",
        n_layers=n_layers,
        width=width,
        attention=attention,
        feed_forward_width=INNER * width,
        gated=False,
        activation="gelu",
        vocabulary=VOCABULARY,
        tied_embeddings=True,
        norm="rms",
        norm_placement="pre",
        norm_epsilon=1e-5,
        context=1024,
        rotary=RotarySizes(base=10_000.0),
    )


def timed_model(
    n_layers: int, n_heads: int, device: torch.device | str | None = None
) -> LanguageModel:
    """Make the model, with weights of a fixed seed and in the dtype that suits the device."""
    device = timed_device(device)
    model = LanguageModel(timed_sizes(n_layers, n_heads), pairing="half")
    model.reset_parameters(torch.Generator().manual_seed(SEED))
    return model.to(device=device, dtype=quick_dtype(device)).eval()


def curve(n_layers: int, n_heads: int, way: str) -> str:
    """Give the name of a curve in a measurement.

    Example:
        >>> curve(2, 4, CACHED)
        '2 layers, 4 heads, with a cache'
    """
    return f"{show_count(n_layers, 'layer')}, {show_count(n_heads, 'head')}, {way}"


def run_once(model: LanguageModel, n_new: int, way: str) -> tuple[list[int], list[float]]:
    """Generate once; give the new tokens and when each was there, in seconds from the beginning."""
    ends: list[float] = []
    start = perf_counter()
    (tokens,) = generate(
        model,
        [list(PROMPT)],
        n_new,
        use_cache=way == CACHED,
        on_token=lambda *_: ends.append(perf_counter() - start),
        progress=False,
    )
    return tokens, ends


def measure_generation(
    n_layers: int,
    n_heads: int,
    lengths: Sequence[int] = LENGTHS,
    *,
    n_repeats: int = N_REPEATS,
    device: torch.device | str | None = None,
    on_run: Callable[[], object] = lambda: None,
) -> Measurement:
    """Time generation with a cache and anew, in turn, up to the longest length.

    Args:
        n_layers: From 1.
        n_heads: h, from 1.
        lengths: After how many new tokens the time is noted: whole numbers that grow from 1, the
            first token.
        n_repeats: How many runs of each kind, from 1.
        device: As in `timed_device`.
        on_run: Called after each run.

    Returns:
        The two curves, with the seconds from the beginning. `same_tokens` among the settings says
        whether all runs wrote the same; roundings may decide between tokens that are as likely.

    Raises:
        TypeError: As `timed_device`, and if a number is not whole.
        ValueError: As `timed_device`, and if a number is too small or the lengths do not grow
            from 1.
    """
    n_layers, n_heads = at_least("n_layers", n_layers, 1), at_least("n_heads (h)", n_heads, 1)
    lengths = tuple(at_least("each of lengths", n, 1) for n in lengths)
    if lengths[:1] != (1,) or any(a >= b for a, b in pairwise(lengths)):
        raise ValueError(f"lengths must grow from 1, got {lengths}")
    n_repeats = at_least("n_repeats", n_repeats, 1)
    device = timed_device(device)

    model = timed_model(n_layers, n_heads, device)
    seconds: dict[str, list[list[float]]] = {CACHED: [], ANEW: []}
    written: set[tuple[int, ...]] = set()

    def run(way: str) -> None:
        tokens, ends = run_once(model, lengths[-1], way)
        written.add(tuple(tokens))
        seconds[way].append([ends[n - 1] for n in lengths])
        on_run()

    for way in seconds:
        run_once(model, min(_N_WARM_UP, lengths[-1]), way)
    # `compare` sees to the turns; the seconds are the runs' own
    runs = {way: lambda way=way: run(way) for way in seconds}
    compare(runs, n_warm_up=0, n_repeats=n_repeats, device=device)
    return _measurement(
        {
            curve(n_layers, n_heads, way): tuple(map(Timing, zip(*ends, strict=True)))
            for way, ends in seconds.items()
        },
        lengths=lengths,
        machine=this_machine(device),
        settings=settings_of(quick_dtype(device), n_repeats) | {"same_tokens": len(written) == 1},
    )


def settings_of(dtype: torch.dtype, n_repeats: int) -> dict[str, str | int | bool]:
    """Give what a reader has to know of the runs besides their sizes."""
    return {
        "dtype": str(dtype).removeprefix("torch."),
        "n_repeats": n_repeats,
        "n_prompt": len(PROMPT),
        "head_dim": HEAD_DIM,
        "feed_forward": f"{INNER} m",
        "vocabulary": VOCABULARY,
        "seed": SEED,
    }


def merged(measurements: Sequence[Measurement]) -> Measurement:
    """Put measurements of several models on one machine into one."""
    first = measurements[0]
    return replace(
        first,
        timings={name: timed for each in measurements for name, timed in each.timings.items()},
        settings=first.settings
        | {"same_tokens": all(each.settings["same_tokens"] for each in measurements)},
    )


def _measurement(
    timings: dict[str, tuple[Timing, ...]],
    *,
    lengths: tuple[int, ...],
    machine: Machine,
    settings: dict[str, str | int | bool],
) -> Measurement:
    return Measurement(
        title="generation with a cache and anew",
        x_title="new tokens",
        sizes=lengths,
        timings=timings,
        machine=machine,
        settings=settings,
    )
