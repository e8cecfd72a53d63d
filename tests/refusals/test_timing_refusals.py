"""What cannot be timed, fitted, stored or read is refused by name before any work.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import json
import math
import re
from dataclasses import replace

import pytest
import torch

from attnlib.timing import (
    Machine,
    Measurement,
    Timing,
    compare,
    fit_exponent,
    load_timings,
    measure_sizes,
    measured_or_stored,
    memory_bandwidth,
    peak_flops,
    peak_memory,
    ratio,
    save_timings,
    seconds_of,
    student_quantile,
    this_machine,
    time_calls,
    time_steps,
    timed_device,
)

MACHINE = Machine(
    device="cpu",
    name="a processor",
    n_threads=3,
    system="Linux",
    python="3.12.1",
    torch="2.4.0",
    date="2026-01-31",
)
TIMED = Measurement(
    title="a sum",
    x_title="numbers",
    sizes=(2, 3, 5),
    timings={"quick": (Timing((1.0, 2.0)),) * 3},
    machine=MACHINE,
)

ONE = (Timing((1.0,)),)


def refused(kind, says, call, *arguments, **options):
    with pytest.raises(kind, match=re.escape(says)):
        call(*arguments, **options)


def not_called(*_):
    raise AssertionError("something was timed before the refusal")


TIMERS = {
    "time_calls": lambda **options: time_calls(not_called, **options),
    "compare": lambda **options: compare({"a": not_called}, **options),
    "time_steps": lambda **options: time_steps(not_called, **options),
    "measure_sizes": lambda **options: measure_sizes(
        lambda n: {"a": not_called}, [1, 2], title="a", x_title="b", **options
    ),
}


@pytest.mark.parametrize("timer", TIMERS.values(), ids=TIMERS)
@pytest.mark.parametrize(
    "kind,says,given",
    [
        (ValueError, "n_warm_up must be at least 0, got -1", {"n_warm_up": -1}),
        (TypeError, "n_warm_up must be a whole number, got 1.0", {"n_warm_up": 1.0}),
        (ValueError, "n_repeats must be at least 1, got 0", {"n_repeats": 0}),
        (TypeError, "n_repeats must be a whole number, got True", {"n_repeats": True}),
        (ValueError, "device must be 'cpu' or 'cuda', got 'mps'", {"device": "mps"}),
        (ValueError, "device must be 'cpu' or 'cuda', got 'gpu 1'", {"device": "gpu 1"}),
        (TypeError, "device must be a text or a device of torch, got 0", {"device": 0}),
    ],
)
def test_repeats_and_devices_are_refused_before_a_call(timer, kind, says, given):
    refused(kind, says, timer, **given)


def test_what_cannot_be_called_is_not_timed():
    refused(TypeError, "call must be something to call, got int", time_calls, 3)
    refused(TypeError, "call must be something to call, got list", seconds_of, [], "cpu")
    refused(TypeError, "call must be something to call, got NoneType", time_steps, None)
    calls = {"a": not_called, "b": 3.0}
    refused(TypeError, "call 'b' must be something to call, got float", compare, calls)
    refused(ValueError, "there must be at least 1 call to time, got 0", compare, {})
    refused(TypeError, "call must be something to call, got int", peak_memory, 3, device="cpu")


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for call in (timed_device, this_machine):
        refused(ValueError, "one that is there, got 'cuda' of 0 GPUs", call, "cuda")


@pytest.mark.parametrize(
    "kind,says,seconds",
    [
        (ValueError, "there must be at least 1 repeat, got 0", ()),
        (ValueError, "each of seconds must be at least 0, got -1.0", (1.0, -1.0)),
        (ValueError, "each of seconds must be finite, got nan", (math.nan,)),
        (ValueError, "each of seconds must be finite, got inf", (math.inf,)),
        (TypeError, "each of seconds must be a number, got '1'", ("1",)),
    ],
)
def test_a_timing_holds_seconds(kind, says, seconds):
    refused(kind, says, Timing, seconds)


def test_a_ratio_needs_pairs_and_a_divisor():
    refused(ValueError, "as many repeats, got 2 and 1", ratio, Timing((1.0, 2.0)), Timing((1.0,)))
    says = "each of seconds must be above 0 to divide by it, got 0.0"
    refused(ValueError, says, ratio, Timing((1.0, 2.0)), Timing((1.0, 0.0)))


@pytest.mark.parametrize(
    "kind,says,sizes,seconds",
    [
        (ValueError, "one time a size, got 3 and 2", [1, 2, 3], [1.0, 2.0]),
        (ValueError, "needs at least 3 points, got 2", [1, 2], [1.0, 2.0]),
        (ValueError, "needs at least 3 points, got 0", [], []),
        (ValueError, "sizes must not all be equal, got 3 times 8", [8, 8, 8], [1.0, 2.0, 3.0]),
        (ValueError, "equal, got 3 times 1e+16", [1e16, 1e16 + 2, 1e16 + 4], [1.0, 2.0, 3.0]),
        (
            ValueError,
            "further apart for a law: these from 1000 to 1002 have the exponent -550, and no float",
            [1000, 1001, 1002],
            [3.0, 2.0, 1.0],
        ),
        (ValueError, "have the exponent 550, and no", [1000, 1001, 1002], [1.0, 2.0, 3.0]),
        (ValueError, "each of sizes must be above 0, got 0", [0, 1, 2], [1.0, 2.0, 3.0]),
        (ValueError, "each of seconds must be above 0, got 0.0", [1, 2, 3], [1.0, 0.0, 3.0]),
        (ValueError, "each of seconds must be finite, got nan", [1, 2, 3], [1.0, math.nan, 3.0]),
        (TypeError, "each of seconds must be a number, got Timing", [1, 2, 3], [*ONE, *ONE, *ONE]),
        (TypeError, "each of sizes must be a number, got '2'", [1, "2", 3], [1.0, 2.0, 3.0]),
    ],
)
def test_an_exponent_needs_three_points_above_zero(kind, says, sizes, seconds):
    refused(kind, says, fit_exponent, sizes, seconds)


@pytest.mark.parametrize(
    "kind,says,level,n_degrees",
    [
        (ValueError, "level must be above 0 and below 1, got 1", 1, 3),
        (ValueError, "level must be above 0 and below 1, got 0", 0, 3),
        (ValueError, "level must be above 0 and below 1, got 95", 95, 3),
        (TypeError, "level must be a number, got '0.9'", "0.9", 3),
        (ValueError, "n_degrees must be at least 1, got 0", 0.9, 0),
        (TypeError, "n_degrees must be a whole number, got 1.5", 0.9, 1.5),
    ],
)
def test_a_confidence_is_a_share(kind, says, level, n_degrees):
    refused(kind, says, student_quantile, level, n_degrees)


def test_a_law_and_its_interval_refuse_what_they_cannot_take():
    fit = fit_exponent([1, 2, 4], [1.0, 2.0, 5.0])
    refused(ValueError, "level must be above 0 and below 1, got 1", fit.interval, 1)
    refused(ValueError, "size must be above 0, got 0", fit.seconds_at, 0)


def test_probes_refuse_what_they_cannot_measure():
    refused(ValueError, "n_bytes must be at least 4, got 3", memory_bandwidth, n_bytes=3)
    refused(ValueError, "n_probes must be at least 1, got 0", memory_bandwidth, n_probes=0)
    refused(TypeError, "n_bytes must be a whole number, got '5e8'", memory_bandwidth, n_bytes="5e8")
    refused(ValueError, "width must be at least 1, got 0", peak_flops, width=0)
    refused(ValueError, "n_probes must be at least 1, got -2", peak_flops, n_probes=-2)
    says = "dtype must be one of fp16, bf16, fp32 and fp64, got torch.int8"
    refused(TypeError, says, peak_flops, dtype=torch.int8)


@pytest.mark.parametrize(
    "kind,says,given",
    [
        (TypeError, "name must be a text, got None", {"name": None}),
        (TypeError, "cuda must be a text or None, got 12.6", {"cuda": 12.6}),
        (ValueError, "n_threads must be at least 1, got 0", {"n_threads": 0}),
    ],
)
def test_a_machine_is_described_in_words(kind, says, given):
    refused(kind, says, replace, MACHINE, **given)


@pytest.mark.parametrize(
    "kind,says,given",
    [
        (TypeError, "title must be a text, got 7", {"title": 7}),
        (ValueError, "sizes must be at least 1 and grow, got ()", {"sizes": ()}),
        (ValueError, "sizes must be at least 1 and grow, got (2, 5, 5)", {"sizes": (2, 5, 5)}),
        (ValueError, "sizes must be at least 1 and grow, got (5, 3, 2)", {"sizes": (5, 3, 2)}),
        (ValueError, "each of sizes must be at least 1, got 0", {"sizes": (0, 1, 2)}),
        (TypeError, "each of sizes must be a whole number, got 2.0", {"sizes": (1, 2.0, 3)}),
        (TypeError, "machine must be a Machine, got str", {"machine": "mine"}),
        (ValueError, "there must be at least 1 curve, got 0", {"timings": {}}),
        (ValueError, "curve 'a' must have one entry a size, 3, got 1", {"timings": {"a": ONE}}),
        (TypeError, "the name of a curve must be a text, got 3", {"timings": {3: ONE * 3}}),
        (TypeError, "a curve must be of Timings, got float", {"timings": {"a": (1.0,) * 3}}),
        (ValueError, "curve 'b' must have one entry a size, 3, got 1", {"peak_bytes": {"b": (1,)}}),
        (TypeError, "a setting must be a text or a number, got 'd'", {"settings": {"d": [1]}}),
        (ValueError, "a setting must be finite, got 'd': nan", {"settings": {"d": math.nan}}),
    ],
)
def test_a_measurement_holds_together(kind, says, given):
    refused(kind, says, replace, TIMED, **given)


def test_curves_and_points_that_are_not_there_are_refused():
    refused(ValueError, "name must be one of quick, got 'slow'", TIMED.medians_seconds, "slow")
    refused(ValueError, "n_last must be at least 3, got 2", TIMED.exponent, "quick", n_last=2)
    refused(ValueError, "at most the number of sizes, 3, got 4", TIMED.exponent, "quick", n_last=4)


def test_titles_and_sizes_are_refused_before_anything_is_timed():
    def calls_at(n):
        return {"a": not_called}

    refused(
        ValueError, "sizes must be at least 1 and grow", measure_sizes, calls_at, [2, 1],
        title="a", x_title="b",
    )  # fmt: skip
    refused(
        TypeError, "x_title must be a text, got None", measure_sizes, calls_at, [1, 2],
        title="a", x_title=None,
    )  # fmt: skip
    says = "the name of a curve must be a text, got 1"
    number = {1: not_called}
    refused(TypeError, says, measure_sizes, lambda n: number, [1, 2], title="a", x_title="b")
    says = "the same names at every size, got 1 and at size 2 2"
    with pytest.raises(ValueError, match=re.escape(says)):
        measure_sizes(
            lambda n: {str(n): lambda: None}, [1, 2], title="a", x_title="b", device="cpu"
        )


def test_only_a_measurement_is_saved_and_only_into_a_folder_that_is_there(tmp_path):
    refused(TypeError, "must be a Measurement, got dict", save_timings, tmp_path / "a.json", {})
    refused(FileNotFoundError, "there is no folder", save_timings, tmp_path / "a" / "b.json", TIMED)
    refused(ValueError, "path must be that of a file", save_timings, tmp_path, TIMED)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "says,change",
    [
        ("kind must be 'attnlib timings, version 1', got 'other'", {"kind": "other"}),
        ("each of seconds must be at least 0, got -1.0", {"seconds": {"a": [[1], [1], [-1]]}}),
        ("each of seconds must be finite, got nan", {"seconds": {"a": [[1], [1], [math.nan]]}}),
        ("curve 'a' must have one entry a size, 3, got 1", {"seconds": {"a": [[1]]}}),
        ("unexpected keyword argument 'owner'", {"machine": {"owner": "me"}}),
        ("'int' object is not iterable", {"sizes": 3}),
        ("object has no attribute 'items'", {"seconds": [1, 2]}),
    ],
)
def test_a_file_that_holds_something_else_is_refused_by_its_name(tmp_path, says, change):
    path = tmp_path / "timed.json"
    save_timings(path, TIMED)
    held = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**held, **change}), "utf-8")
    refused(ValueError, "timed.json must be a file that save_timings wrote", load_timings, path)
    refused(ValueError, says, load_timings, path)


@pytest.mark.parametrize("content", [b"", b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b'{"kind": 1}'])
def test_a_file_that_is_no_such_json_is_refused_by_its_name(tmp_path, content):
    path = tmp_path / "timed.json"
    path.write_bytes(content)
    refused(ValueError, "timed.json must be a file that save_timings wrote", load_timings, path)


def test_a_result_that_was_never_stored_is_named(tmp_path):
    none = tmp_path / "none.json"
    refused(FileNotFoundError, "none.json", measured_or_stored, not_called, none, now=False)
    refused(TypeError, "measure must be something to call, got dict", measured_or_stored, {}, none)
    says = "now must be True, False or None, got 1"
    refused(TypeError, says, measured_or_stored, not_called, none, now=1)
