"""Time generation with a cache and anew: attnlib/data/timings/generation-cpu.json, or …-cuda.json.

    python book/measure_generation.py            time all models on this device, write the file
    python book/measure_generation.py --check    time the smallest and the largest model once; fail
                                                 when that is nothing like what is stored

Where there is a GPU, that is the device (--device says otherwise), and the dtype is the one that
suits it. All models take about seven minutes on two cores. Nothing else should run meanwhile: the
spread of the runs is stored, but a machine that is busy throughout does not show in it.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from attnlib.explore import limits
from attnlib.explore.generation_runs import (
    ANEW,
    CACHED,
    LENGTHS,
    N_REPEATS,
    curve,
    measure_generation,
    merged,
    settings_of,
    timed_sizes,
)
from attnlib.timing import Measurement, load_timings, quick_dtype, ratio, save_timings, timed_device
from command_line import DATA, parser_of, say

FOLDER = DATA / "timings"
GRID = [(n, h) for n in limits.GENERATION_LAYERS for h in limits.GENERATION_HEADS]
# Another machine has other times, and the ratio of two of them differs less: a few cores more or
# less, a busy neighbour. What is broken differs by more: without a cache the ratio is 1.
WITHIN = 3.0


def measured(
    device: torch.device, say: Callable[[str], None], grid=GRID, n_repeats: int = N_REPEATS
) -> Measurement:
    """The times of all models of the grid, in one measurement."""
    found = []
    for n_layers, n_heads in grid:
        started = time.perf_counter()
        timed = measure_generation(n_layers, n_heads, n_repeats=n_repeats, device=device)
        found.append(timed)
        cached, anew = (timed.timings[curve(n_layers, n_heads, x)][-1] for x in (CACHED, ANEW))
        say(
            f"{timed_sizes(n_layers, n_heads).name}: {LENGTHS[-1]} new tokens in {cached.spread} s "
            f"with a cache, {anew.spread} s anew, {ratio(anew, cached)} times as long; measured in "
            f"{time.perf_counter() - started:.0f} s"
        )
    return merged(found)


def differences(found: Measurement, stored: Measurement) -> list[str]:
    """One sentence for each thing of the stored measurement that is not as it should be."""
    wrong = []
    n_repeats = stored.settings.get("n_repeats")
    wanted = settings_of(quick_dtype(found.machine.device), N_REPEATS)
    for name, value in wanted.items():
        if stored.settings.get(name) != value:
            wrong.append(f"{name} is {value!r}, stored is {stored.settings.get(name)!r}")
    if stored.sizes != LENGTHS:
        wrong.append(f"the lengths are {LENGTHS}, stored are {stored.sizes}")
    names = {curve(*model, way) for model in GRID for way in (CACHED, ANEW)}
    for name in sorted(names ^ set(stored.timings)):
        wrong.append(f"{name!r} is {'not stored' if name in names else 'stored, and not of these'}")
    for name, timings in stored.timings.items():
        if any(len(timing.seconds) != n_repeats for timing in timings):
            wrong.append(f"{name!r} has not {n_repeats} runs at every length")
    for model in GRID if not wrong else ():
        if curve(*model, ANEW) in found.timings:
            here, before = (_ratio_at_the_end(x, model) for x in (found, stored))
            if not 1 / WITHIN < here / before < WITHIN:
                wrong.append(f"{model}: anew takes {here:.3g} times as long, stored {before:.3g}")
    return wrong


def _ratio_at_the_end(measurement: Measurement, model: tuple[int, int]) -> float:
    anew, cached = (measurement.timings[curve(*model, way)][-1] for way in (ANEW, CACHED))
    return ratio(anew, cached).median


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--device", choices=limits.GENERATION_DEVICES, help="[a GPU if any]")
    parser.add_argument(
        "--to", type=Path, default=FOLDER, metavar="FOLDER", help="of the file [%(default)s]"
    )
    options = parser.parse_args(arguments)

    default = "cuda" if torch.cuda.is_available() else "cpu"
    device = timed_device(options.device or default)
    path = options.to / f"generation-{device.type}.json"
    if options.check:
        stored = load_timings(path)  # before minutes of work, since it may not be there
        wrong = differences(measured(device, say, [GRID[0], GRID[-1]], n_repeats=1), stored)
        for line in wrong:
            print(line, file=sys.stderr)
        if not wrong:
            say(f"much as stored: {stored.provenance}")
        return 1 if wrong else 0
    found = measured(device, say)
    options.to.mkdir(parents=True, exist_ok=True)
    save_timings(path, found)
    say(f"wrote {path.name} ({path.stat().st_size:,} bytes): {found.machine}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
