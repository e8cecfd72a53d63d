"""Generation timed with a cache and anew: the runs, what is stored of them, and the explorer."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import measure_generation
from attnlib.data import generation_timings
from attnlib.explore import explore, generation_runs, limits
from attnlib.explore.formulas import FORMULAS
from attnlib.explore.generation_runs import (
    ANEW,
    CACHED,
    LENGTHS,
    curve,
    merged,
    run_once,
    timed_model,
    timed_sizes,
)
from attnlib.explore.generation_runs import measure_generation as measure
from attnlib.explore.generation_times import N_REPEATS_HERE, generation_flops
from attnlib.explore.packed_timings import pack, pack_measured, pack_timings
from attnlib.timing import Machine, Measurement, Timing, load_timings, save_timings

DATA = Path(measure_generation.FOLDER).parent
GRID = [(n, h) for n in limits.GENERATION_LAYERS for h in limits.GENERATION_HEADS]
MACHINE = Machine(
    device="cpu",
    name="a processor",
    n_threads=3,
    system="Linux",
    python="3.12.1",
    torch="2.4.0",
    date="2026-01-31",
)


def made_up(models=GRID, lengths=LENGTHS, device="cpu", slower=(1, 2, 4)) -> Measurement:
    """With a cache a token takes 1 ms a layer and head, anew the t-th one takes t/8 of that, too.

    The second and the third of three runs are twice and four times as slow, or as `slower` says.
    """
    timings = {}
    for n_layers, n_heads in models:
        token = 2.0**-10 * n_layers * n_heads
        for way, total in ((CACHED, lambda n: n), (ANEW, lambda n: n + (n - 1) * n / 16)):
            timings[curve(n_layers, n_heads, way)] = tuple(
                Timing(tuple(k * token * total(n) for k in slower)) for n in lengths
            )
    return Measurement(
        title="made up",
        x_title="new tokens",
        sizes=lengths,
        timings=timings,
        machine=replace(MACHINE, device=device, cuda="12.6" if device == "cuda" else None),
        settings={"dtype": "float32", "n_repeats": len(slower), "same_tokens": True},
    )


PACKED = pack_timings("timings", made_up())


# --- the count --------------------------------------------------------------------------------


def counted(n_layers: int, n_heads: int, n_new: int, is_cached: bool) -> int:
    """Step by step: the matrices of all tokens that are read, every pair, one row of logits."""
    d, m, v, flops = 32, 32 * n_heads, 256, 0
    for n_tokens in range(1, n_new + 1):
        n_read = 1 if is_cached else n_tokens
        projections, network = 4 * m * m, 2 * m * 4 * m
        flops += n_layers * n_read * 2 * (projections + network)
        flops += n_layers * n_heads * n_read * n_tokens * 2 * (d + d)
        flops += 2 * m * v
    return flops


@pytest.mark.parametrize("model", [(1, 2), (2, 8), (4, 4)])
@pytest.mark.parametrize("n_new", [1, 32, 96])
def test_flops_are_those_of_a_count_step_by_step(model, n_new):
    wanted = counted(*model, n_new, True), counted(*model, n_new, False)
    assert generation_flops(*model, n_new) == wanted
    # and so are the formulas of the page
    for name, value in zip(("cachedGenerationFlops", "anewGenerationFlops"), wanted, strict=True):
        expression, arguments, _ = FORMULAS[name]
        assert expression.subs(dict(zip(arguments, (*model, n_new), strict=True))) == value


def test_the_models_are_what_the_count_takes_them_for():
    sizes = timed_sizes(3, 5)
    assert (sizes.width, sizes.attention.n_kv_heads, sizes.feed_forward_width) == (160, 5, 640)
    assert (sizes.n_layers, sizes.window, sizes.experts, sizes.gated) == (3, None, None, False)
    assert sizes.vocabulary == 256 and sizes.context >= LENGTHS[-1]


# --- the runs ---------------------------------------------------------------------------------


def test_both_ways_write_the_same_and_note_every_token():
    model = timed_model(1, 2, "cpu")
    (tokens, ends), (others, _) = (run_once(model, 9, way) for way in (CACHED, ANEW))
    assert tokens == others and len(tokens) == len(ends) == 9
    assert ends[0] > 0 and all(a < b for a, b in pairwise(ends))
    again = timed_model(1, 2, "cpu")
    pairs = zip(model.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_only_with_a_cache_it_has_one(monkeypatch):
    used = {}

    def generate(model, tokens, n_new, *, use_cache, on_token, progress):
        used[n_new] = use_cache
        return [[7] * n_new]

    monkeypatch.setattr(generation_runs, "generate", generate)
    model = timed_model(1, 2, "cpu")
    run_once(model, 3, CACHED)
    run_once(model, 4, ANEW)
    assert used == {3: True, 4: False}


@pytest.fixture
def faked(monkeypatch):
    """Runs that are made up: the t-th token of the i-th one comes after i + t/8 seconds."""
    ways = []

    def run(model, n_new, way):
        ways.append((way, n_new))
        return [5] * n_new, [len(ways) + t / 8 for t in range(1, n_new + 1)]

    monkeypatch.setattr(generation_runs, "run_once", run)
    return ways


def test_runs_take_turns_and_the_first_two_do_not_count(faked):
    seen = []
    timed = measure(2, 2, (1, 3, 16), n_repeats=2, device="cpu", on_run=lambda: seen.append(1))
    assert faked == [(CACHED, 8), (ANEW, 8), (CACHED, 16), (ANEW, 16), (ANEW, 16), (CACHED, 16)]
    assert len(seen) == 4
    cached, anew = (timed.timings[curve(2, 2, way)] for way in (CACHED, ANEW))
    assert cached == (
        Timing((3.125, 6.125)),
        Timing((3.375, 6.375)),
        Timing((5.0, 8.0)),
    )
    assert anew[0] == Timing((4.125, 5.125))
    assert timed.sizes == (1, 3, 16)
    assert timed.settings["same_tokens"] is True
    assert timed.settings["dtype"] == "float32" and timed.settings["n_repeats"] == 2


def test_runs_that_write_other_tokens_are_told(monkeypatch, faked):
    fake = generation_runs.run_once

    def run(model, n_new, way):
        tokens, ends = fake(model, n_new, way)
        return ([6] * n_new if way == ANEW and len(faked) > 4 else tokens), ends

    monkeypatch.setattr(generation_runs, "run_once", run)
    timed = measure(1, 2, (1, 3), n_repeats=2, device="cpu")
    assert timed.settings["same_tokens"] is False
    good = made_up([(1, 4)], (1, 3))
    both = merged([good, replace(timed, machine=MACHINE)])
    assert both.settings["same_tokens"] is False
    assert list(both.timings) == [curve(1, h, way) for h in (4, 2) for way in (CACHED, ANEW)]


@pytest.mark.parametrize(
    "call,message",
    [
        ({"n_layers": 0}, "n_layers must be at least 1, got 0"),
        ({"lengths": (2, 3)}, r"lengths must grow from 1, got \(2, 3\)"),
        ({"lengths": (1, 3, 3)}, r"lengths must grow from 1, got \(1, 3, 3\)"),
        ({"lengths": ()}, r"lengths must grow from 1, got \(\)"),
        ({"n_repeats": 0}, "n_repeats must be at least 1, got 0"),
        ({"device": "tpu"}, "device must be 'cpu' or 'cuda', got 'tpu'"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_runs(faked, call, message):
    with pytest.raises(ValueError, match=message):
        measure(**{"n_layers": 1, "n_heads": 2, "lengths": (1, 3)} | call)
    assert faked == []


# --- what is stored ---------------------------------------------------------------------------

STORED = {device: load_timings(path) for device, path in generation_timings().items()}


def test_the_timings_of_a_cpu_are_stored_and_small():
    assert "cpu" in STORED and set(STORED) <= set(limits.GENERATION_DEVICES)
    for device, path in generation_timings().items():
        assert path.stat().st_size < 100_000
        assert STORED[device].machine.device == device


@pytest.mark.parametrize("device", STORED)
def test_what_is_stored_is_what_the_script_measures(device):
    stored = STORED[device]
    settings = generation_runs.settings_of(getattr(torch, stored.settings["dtype"]), 5)
    assert {**stored.settings, **settings} == stored.settings
    assert stored.sizes == LENGTHS
    assert set(stored.timings) == {curve(*model, way) for model in GRID for way in (CACHED, ANEW)}
    if device == "cpu":  # in half precision equally likely tokens may change places
        assert stored.settings["same_tokens"] is True


@pytest.mark.parametrize("model", GRID)
def test_the_stored_runs_say_that_a_cache_saves_time_and_the_more_the_longer(model):
    stored = STORED["cpu"]
    anew, cached = (stored.medians_seconds(curve(*model, way)) for way in (ANEW, CACHED))
    ratios = [a / b for a, b in zip(anew, cached, strict=True)]
    assert ratios[-1] > 2 and ratios[-1] > ratios[1]


def test_the_provenance_says_where_the_timings_come_from():
    section = (DATA / "PROVENANCE.md").read_text("utf-8").partition("## Timings of generation")[2]
    for stated in ("timings/generation-cpu.json", "book/measure_generation.py", "MIT"):
        assert stated in section


# --- the script -------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    """The script measures as we make it up."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def timed(n_layers, n_heads, *, n_repeats, device):
        found = made_up([(n_layers, n_heads)], slower=range(1, n_repeats + 1))
        settings = generation_runs.settings_of(torch.float32, n_repeats) | {"same_tokens": True}
        return replace(found, settings=settings)

    monkeypatch.setattr(measure_generation, "measure_generation", timed)
    return monkeypatch


def test_the_script_writes_what_its_check_accepts(quick, tmp_path, capsys):
    folder = tmp_path / "timings"
    assert measure_generation.main(["--to", str(folder)]) == 0
    assert "4 layers, 8 heads: 512 new tokens in" in capsys.readouterr().out
    assert set(load_timings(folder / "generation-cpu.json").timings) == set(made_up().timings)
    assert measure_generation.main(["--to", str(folder), "--check"]) == 0
    assert "much as stored: stored, measured before: a processor" in capsys.readouterr().out


def test_without_a_stored_file_the_check_times_nothing(quick, tmp_path):
    quick.setattr(measure_generation, "measure_generation", None)
    with pytest.raises(FileNotFoundError, match=r"generation-cpu\.json"):
        measure_generation.main(["--to", str(tmp_path), "--check"])


def stored_otherwise(change, tmp_path) -> str:
    path = tmp_path / "timings/generation-cpu.json"
    measure_generation.main(["--to", str(path.parent)])
    save_timings(path, change(load_timings(path)))
    return str(path.parent)


def without_the_last(stored: Measurement) -> Measurement:
    return replace(stored, timings=dict(list(stored.timings.items())[:-1]))


def with_a_cache_as_slow(stored: Measurement) -> Measurement:
    """As if the cache did nothing."""
    slow = {curve(*m, CACHED): stored.timings[curve(*m, ANEW)] for m in GRID}
    return replace(stored, timings={**stored.timings, **slow})


def with_a_run_less(stored: Measurement) -> Measurement:
    name, timings = next(iter(stored.timings.items()))
    short = tuple(Timing(each.seconds[1:]) for each in timings)
    return replace(stored, timings={**stored.timings, name: short})


@pytest.mark.parametrize(
    "change,message",
    [
        (without_the_last, "'4 layers, 8 heads, anew' is not stored"),
        (with_a_cache_as_slow, r"\(1, 2\): anew takes 32.9 times as long, stored 1\n"),
        (with_a_run_less, "'1 layer, 2 heads, with a cache' has not 5 runs at every length"),
        (lambda s: replace(s, settings={**s.settings, "seed": 7}), "seed is 0, stored is 7"),
    ],
)
def test_the_check_tells_what_is_not_as_stored(quick, tmp_path, capsys, change, message):
    folder = stored_otherwise(change, tmp_path)
    before = (Path(folder) / "generation-cpu.json").read_bytes()
    assert measure_generation.main(["--to", folder, "--check"]) == 1
    assert re.search(message, capsys.readouterr().err)
    assert (Path(folder) / "generation-cpu.json").read_bytes() == before


# --- what an explorer carries -----------------------------------------------------------------


def test_medians_quartiles_and_ratios_are_taken_run_by_run():
    run = next(r for r in PACKED[0]["runs"] if (r["layers"], r["heads"]) == (1, 2))
    # 2 ms a token; runs of 1, 2 and 4 times that: quartiles 1.5, 2 and 3
    assert run["cached"][0] == [0.00293, 0.003906, 0.005859]
    # the slow runs are slow for both, so they leave the ratio alone: 1 + (n − 1)/16
    assert run["ratio"][1] == [2.938] * 3
    assert run["cachedFurther"][0] == run["cached"][0]
    # (n + n(n − 1)/16 − 1) / (n − 1) = 1 + n/16
    assert run["anewFurther"][-1] == [float(f"{33 * x:.4g}") for x in (1.5 / 512, 2 / 512, 3 / 512)]
    assert len(run["anewFurther"]) == len(LENGTHS) - 1


def test_what_is_packed_goes_in_again_as_it_is():
    assert pack_timings("timings", json.loads(json.dumps(PACKED))) == PACKED
    assert [each["device"] for each in PACKED] == ["cpu"]


def broken(change) -> dict:
    packed = json.loads(json.dumps(PACKED[0]))
    change(packed)
    return packed


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.pop("where"),
        lambda p: p.update(device="tpu"),
        lambda p: p.update(dtype=None),
        lambda p: p.update(repeats=0),
        lambda p: p.update(lengths=LENGTHS[1:]),
        lambda p: p.update(lengths=[]),
        lambda p: p.update(runs=[]),
        lambda p: p["runs"][0].update(layers=3),
        lambda p: p["runs"].append(p["runs"][0]),
        lambda p: p["runs"][0]["anew"].pop(),
        lambda p: p["runs"][0]["cachedFurther"].append([1.0, 1.0, 1.0]),
        lambda p: p["runs"][0]["cached"].__setitem__(0, [0.0, 1.0, 2.0]),
        lambda p: p["runs"][0]["cached"].__setitem__(0, [3.0, 1.0, 2.0]),
        lambda p: p["runs"][0]["cached"].__setitem__(0, [1.0, 2.0, float("inf")]),
    ],
)
def test_what_is_no_measurement_of_generation_is_refused(change):
    with pytest.raises(ValueError, match="timings must be measurements of measure_generation"):
        pack_timings("timings", [broken(change)])


def test_stored_timings_must_be_whole_and_one_a_device():
    with pytest.raises(ValueError, match="missing n_layers=2 with n_heads=4"):
        pack_timings("timings", made_up([m for m in GRID if m != (2, 4)]))
    with pytest.raises(ValueError, match=r"must have the times after 1, 32, .* got 1, 32"):
        pack_timings("timings", made_up(lengths=(1, 32)))
    with pytest.raises(ValueError, match="one of each device, got cpu, cpu"):
        pack_timings("timings", [made_up(), made_up()])
    with pytest.raises(ValueError, match="one of each device, got none"):
        pack_timings("timings", [])
    with pytest.raises(TypeError, match="a Measurement or some, got str"):
        pack_timings("timings", "cpu")
    assert len(pack_measured("measured", made_up([(2, 4)], (1, 32)))) == 1


# --- the explorer -----------------------------------------------------------------------------


def test_without_timings_it_shows_the_stored_ones():
    explorer = explore("generation-times")
    assert explorer.device == "cpu"
    assert [each["where"] for each in explorer.timings] == [
        str(STORED[x].machine) for x in limits.GENERATION_DEVICES if x in STORED
    ]
    assert explorer.timings[0] == pack("timings", STORED["cpu"])
    assert str(STORED["cpu"].machine) in explorer.describe()
    assert len(explorer._html()) < 60_000


def test_facts_of_a_made_up_measurement():
    explorer = explore("generation-times", timings=PACKED, n_layers=2, n_heads=4, n_new=64)
    found = explorer.facts()
    assert found["cached"]["all"][1] == float(f"{16 * 64 / 1024:.4g}")
    assert found["cached"]["first"][1] == float(f"{16 / 1024:.4g}")
    assert found["anew"]["further"][1] == float(f"{16 / 1024 * 5:.4g}")
    assert found["ratio"] == [4.938] * 3
    assert (found["cachedFlops"], found["anewFlops"]) == generation_flops(2, 4, 64)
    assert found["growth"]["cached"] == pytest.approx(2, rel=1e-3)
    assert found["growth"]["anew"] == pytest.approx(64 * 79 / (32 * 47), rel=1e-3)
    assert found["growth"]["anewFlops"] == counted(2, 4, 64, False) / counted(2, 4, 32, False)
    assert found["here"] is None


def test_the_picture_in_words():
    explorer = explore("generation-times", timings=PACKED, n_layers=1, n_heads=2, n_new=32)
    said = explorer.describe()
    assert said == (
        "1 layer, 2 heads of width 32, m = 64, 32 new tokens after one. Stored, measured before on "
        f"{MACHINE}, in float32: medians of 3 runs of each, and in brackets the middle half. With "
        "a cache 125 ms (93.8 to 188 ms), the first token 3.91 ms (2.93 to 5.86 ms) and each "
        "further one 3.91 ms (2.93 to 5.86 ms). Anew 367 ms (275 to 551 ms), the first token "
        "3.91 ms (2.93 to 5.86 ms) and each further one 11.7 ms (8.79 to 17.6 ms). Anew "
        "takes 2.94 times as long (2.94 to 2.94), run by run. Counted, it is 12.9 times as much: "
        "4.33 MFLOP with a cache, 55.9 MFLOP anew."
    )
    explorer.n_heads, explorer.n_new = 8, 64  # the units differ
    assert "With a cache 1.00 s (750 ms to 1.50 s)," in explorer.describe()
    explorer.n_heads = 2
    explorer.n_new = 64
    flops = [round(counted(1, 2, 64, x) / counted(1, 2, 32, x), 2) for x in (True, False)]
    assert explorer.describe().endswith(
        " From 32 to 64 new tokens the time grew 2-fold with a cache and 3.36-fold anew, the FLOPs "
        f"{flops[0]}-fold and {flops[1]}-fold."
    )
    assert "Measured here" not in explorer.describe()


def test_a_device_is_one_of_the_stored_ones():
    both = explore("generation-times", timings=[made_up(), made_up(device="cuda", slower=(1,))])
    assert both.facts()["cached"]["first"][0] == float(f"{1.5 * 8 / 1024:.4g}")
    both.device = "cuda"
    assert both.facts()["cached"]["first"] == [float(f"{8 / 1024:.4g}")] * 3
    assert "a processor (cuda 12.6)" in both.describe()
    alone = explore("generation-times", timings=PACKED)
    with pytest.raises(ValueError, match="one of those of timings, cpu, got 'cuda'"):
        alone.device = "cuda"
    with pytest.raises(ValueError, match="device must be one of cpu, cuda, got 'tpu'"):
        alone.device = "tpu"


@pytest.mark.parametrize("option,value", [("n_layers", 3), ("n_heads", 1), ("n_new", 100)])
def test_what_was_not_timed_cannot_be_chosen(option, value):
    with pytest.raises(ValueError, match=f"{option} must be one of .*, got {value}"):
        explore("generation-times", timings=PACKED, **{option: value})


@pytest.fixture
def live(faked, monkeypatch):
    """An explorer, and what it sends to the page."""
    explorer = explore("generation-times", timings=PACKED, n_layers=1, n_heads=4, n_new=48)
    sent = []
    monkeypatch.setattr(explorer, "send", sent.append)
    return explorer, sent, lambda content: explorer._handle_custom_msg(content, [])


def test_what_is_measured_here_stands_beside_what_is_stored(live, faked):
    explorer, _, _ = live
    timed = explorer.measure("cpu")
    assert timed.sizes == (1, 32, 48)
    assert len(faked) == 2 + 2 * N_REPEATS_HERE
    here = explorer.facts()["here"]
    assert here["cached"]["all"][1] == 6 + 48 / 8  # of runs 3, 6 and 7
    said = explorer.describe()
    assert f"Measured here on {timed.machine}, in float32, 3 runs of each: With a cache" in said
    explorer.n_new = 64  # so long it was not measured
    assert explorer.facts()["here"] is None
    explorer.n_new, explorer.n_heads = 32, 2
    assert explorer.facts()["here"] is None
    explorer.measure("cpu")
    explorer.n_heads = 4
    assert explorer.facts()["here"] is not None
    explorer.measure("cpu")
    assert len(explorer.measured) == 2  # the newer one of a model takes the older one's place
    assert "measured" not in explorer.initial  # so that Reset leaves it


def test_the_page_hears_on_which_devices_it_can_measure(live, monkeypatch):
    _, sent, ask = live
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    ask({"ask": "devices"})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    ask({"ask": "devices"})
    assert sent == [{"devices": ["cpu"]}, {"devices": ["cpu", "cuda"]}]
    for nonsense in ({}, {"ask": "all"}, None, "measure"):
        ask(nonsense)
    assert len(sent) == 2


def test_the_button_measures_and_tells_how_far_it_is(live):
    explorer, sent, ask = live
    ask({"ask": "measure", "device": "cpu"})
    assert sent == [{"progress": [i, 6]} for i in range(7)] + [{"done": True}]
    assert explorer.facts()["here"] is not None


@pytest.mark.parametrize("error", [RuntimeError("no memory left"), KeyboardInterrupt()])
def test_a_measurement_that_fails_or_is_stopped_is_told_to_the_page(live, monkeypatch, error):
    explorer, sent, ask = live

    def fail(model, n_new, way):
        raise error

    monkeypatch.setattr(generation_runs, "run_once", fail)
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            ask({"ask": "measure", "device": "cpu"})
    else:
        ask({"ask": "measure", "device": "cpu"})
    said = {RuntimeError: "RuntimeError: no memory left", KeyboardInterrupt: "KeyboardInterrupt"}
    assert sent[-1] == {"failed": said[type(error)]}
    assert explorer.measured == ()


def test_a_device_that_is_not_there_is_told_to_the_page(live):
    _, sent, ask = live
    ask({"ask": "measure", "device": "tpu"})
    assert sent[-1] == {"failed": "ValueError: device must be 'cpu' or 'cuda', got 'tpu'"}
