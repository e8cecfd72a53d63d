"""What is timed, how it is summed up, and that a stored result says so: chapter kv-caching.

No clock decides a test: the clock here shows what the test says.
"""

import contextlib
import json
import math
import platform
import statistics
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attnlib.timing import (
    Machine,
    Measurement,
    Spread,
    Timing,
    clock,
    compare,
    devices,
    fit_exponent,
    load_timings,
    measure_sizes,
    measured_or_stored,
    memory_bandwidth,
    peak_flops,
    peak_memory,
    probes,
    quick_dtype,
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
    sizes=(2, 3, 5, 7),
    timings={
        "quick": tuple(Timing((x, 2.0 * x, 4.0 * x)) for x in (0.1, 0.2, 0.3, 0.7)),
        "slow": tuple(Timing((9.0 * x,)) for x in (0.1, 0.2, 0.3, 0.7)),
    },
    machine=MACHINE,
    settings={"dtype": "float32", "n_layers": 2, "rate": 0.1, "is_warm": True, "note": None},
    peak_bytes={"slow": (10, 20, 30, 70)},
)


class FakeClock:
    """Shows what the calls say has passed, in binary fractions, so that sums are exact."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def passes(self, *seconds):
        """A call that takes the first of these, then the second …, then the last for ever."""
        left = list(seconds)

        def call():
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return call


@contextlib.contextmanager
def faked():
    """For tests with many examples, which a fixture would serve only once."""
    with pytest.MonkeyPatch.context() as patch:
        shown = FakeClock()
        patch.setattr(clock, "perf_counter", shown)
        yield shown


@pytest.fixture
def shown():
    with faked() as fake:
        yield fake


# --- the clock --------------------------------------------------------------------------------


def test_a_call_takes_what_passes_between_its_beginning_and_its_end(shown):
    assert seconds_of(shown.passes(0.75), "cpu") == 0.75


def test_what_warms_up_does_not_count(shown):
    timing = time_calls(shown.passes(64.0, 32.0, 4.0, 2.0, 8.0), n_warm_up=2, n_repeats=3)
    assert timing == Timing((4.0, 2.0, 8.0))


def test_calls_take_turns_and_every_second_round_runs_backwards(shown):
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "ABC"}
    compare(calls, n_warm_up=2, n_repeats=3, device="cpu")
    assert "".join(order) == "ABCABC" + "ABC" + "CBA" + "ABC"


def test_each_call_gets_its_own_seconds_round_by_round(shown):
    calls = {"A": shown.passes(9.0, 1.0, 2.0, 3.0), "B": shown.passes(9.0, 0.5, 0.25, 0.125)}
    timings = compare(calls, n_warm_up=1, n_repeats=3, device="cpu")
    assert timings == {"A": Timing((1.0, 2.0, 3.0)), "B": Timing((0.5, 0.25, 0.125))}
    assert list(timings) == ["A", "B"]


@given(st.integers(2, 5), st.integers(1, 9), st.integers(1, 64))
def test_a_machine_that_slows_down_evenly_favours_none(n_calls, n_repeats, drift):
    with faked() as shown:
        n_done = 0

        def call():
            nonlocal n_done
            n_done += 1
            shown.now += 1024 + drift * n_done

        calls = {str(i): call for i in range(n_calls)}
        timings = compare(calls, n_warm_up=1, n_repeats=n_repeats, device="cpu")
    medians = [timing.median_seconds for timing in timings.values()]
    within_one_round = drift * (n_calls - 1)
    assert max(medians) - min(medians) <= (0 if n_repeats % 2 == 0 else within_one_round)


def test_a_first_step_and_the_further_ones_are_told_apart(shown):
    def call(on_step):
        for seconds in (8.0, 1.0, 2.0, 3.0):
            shown.now += seconds
            on_step("a row", token=7)
        shown.now += 100.0  # after the last step nothing is waited for

    timing = time_steps(call, n_warm_up=1, n_repeats=2, device="cpu")
    assert timing.first == Timing((8.0, 8.0))
    assert timing.further == Timing((2.0, 2.0))
    assert timing.n_steps == 4


@pytest.mark.parametrize("steps,says", [([1], "1, 1"), ([0], "0, 0"), ([3, 3, 2], "3, 3, 2")])
def test_steps_that_cannot_be_told_apart_are_refused_with_their_counts(shown, steps, says):
    left = list(steps)

    def call(on_step):
        for _ in range(left.pop(0) if len(left) > 1 else left[0]):
            on_step()

    n_repeats = max(1, len(steps) - 1)
    with pytest.raises(ValueError, match=f"at least 2 steps and always as many, got {says}"):
        time_steps(call, n_warm_up=1, n_repeats=n_repeats, device="cpu")


# --- a GPU, made up ---------------------------------------------------------------------------


class FakeCuda:
    """What the clock asks of torch.cuda: work is queued, and begins when the GPU has come to it."""

    def __init__(self, shown):
        self.log, self.shown, self.free = [], shown, shown.now
        self.held = self.peak = 7

    def device(self, device):
        self.log.append(f"in {device}")
        return contextlib.nullcontext()

    def is_initialized(self):
        return True

    def is_available(self):
        return True

    def device_count(self):
        return 2

    def Event(self, *, enable_timing):
        assert enable_timing
        event = SimpleNamespace()

        def record():
            event.at = max(self.free, self.shown.now)

        def elapsed_time(end):
            if end.at > self.shown.now:
                raise RuntimeError("device not ready")
            return 1000 * (end.at - event.at)

        event.record, event.elapsed_time = record, elapsed_time
        return event

    def launch(self, seconds, launching=0.0):
        self.log.append("launch")
        self.shown.now += launching
        self.free = max(self.free, self.shown.now) + seconds

    def synchronize(self, device=None):
        self.log.append("wait")
        self.shown.now = max(self.shown.now, self.free)

    def reset_peak_memory_stats(self, device):
        self.log.append("reset")
        self.peak = self.held

    def memory_allocated(self, device):
        return self.held

    def max_memory_allocated(self, device):
        return self.peak

    def get_device_name(self, device):
        return f"a GPU, {device}"

    def get_device_capability(self, device):
        return self.capability


@pytest.fixture
def cuda(monkeypatch, shown):
    fake = FakeCuda(shown)
    monkeypatch.setattr(torch, "cuda", fake)
    return fake


def test_on_a_gpu_a_call_takes_until_its_work_is_done(cuda):
    assert seconds_of(lambda: cuda.launch(0.5, launching=0.25), "cuda:1") == 0.75
    assert cuda.log == ["in cuda:1", "wait", "launch", "wait"]


def test_on_a_gpu_what_was_queued_before_neither_counts_nor_hides_the_launching(cuda):
    cuda.launch(64.0)
    assert seconds_of(lambda: cuda.launch(0.5, launching=0.25), "cuda:1") == 0.75


def test_on_a_gpu_a_step_is_over_when_its_work_is(cuda):
    def call(on_step):
        for seconds in (4.0, 1.0, 2.0):
            cuda.launch(seconds)
            on_step()

    cuda.launch(64.0)
    timing = time_steps(call, n_warm_up=0, n_repeats=1, device="cuda")
    assert timing.first == Timing((4.0,))
    assert timing.further == Timing((1.5,))


def test_no_device_means_the_gpu_once_it_is_in_use(cuda, monkeypatch):
    assert timed_device() == torch.device("cuda")
    monkeypatch.setattr(cuda, "is_initialized", lambda: False)
    assert timed_device() == torch.device("cpu")


def test_a_gpu_that_is_not_there_is_refused(cuda, monkeypatch):
    assert timed_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ValueError, match="one that is there, got 'cuda:2' of 2 GPUs"):
        timed_device("cuda:2")
    monkeypatch.setattr(cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="one that is there, got 'cuda' of 0 GPUs"):
        timed_device("cuda")


@pytest.mark.parametrize(
    "capability,dtype",
    [((7, 5), torch.float16), ((8, 0), torch.bfloat16), ((9, 0), torch.bfloat16)],
)
def test_a_gpu_without_bf16_of_its_own_takes_fp16(cuda, capability, dtype):
    """7.5 is Colab's T4, 8.0 the A100, 9.0 the H100."""
    cuda.capability = capability
    assert quick_dtype("cuda") == dtype
    assert quick_dtype("cpu") == torch.float32


def test_on_a_gpu_memory_is_that_of_the_call(cuda):
    cuda.peak = 1000  # of an earlier call

    def call():
        cuda.peak = max(cuda.peak, cuda.held + 50)

    memory = peak_memory(call, device="cuda")
    assert (memory.before_bytes, memory.peak_bytes, memory.added_bytes) == (7, 57, 50)
    assert memory.is_of_call


# --- the spread -------------------------------------------------------------------------------


def test_quartiles_of_five_are_the_second_and_the_fourth():
    timing = Timing((5.0, 1.0, 4.0, 2.0, 3.0))
    assert timing.spread == Spread(2.0, 3.0, 4.0)
    assert (timing.median_seconds, timing.quartiles_seconds) == (3.0, (2.0, 4.0))
    assert Timing((0.25,)).spread == Spread(0.25, 0.25, 0.25)


@given(st.lists(st.integers(0, 1 << 20), min_size=2, max_size=12))
def test_quartiles_are_those_of_the_standard_library(seconds):
    spread = Timing(tuple(float(x) for x in seconds)).spread
    expected = statistics.quantiles(seconds, n=4, method="inclusive")
    # two products and a sum of numbers below 2^20
    assert np.allclose((spread.lower, spread.median, spread.upper), expected, rtol=0, atol=1e-9)


def test_a_ratio_is_taken_repeat_by_repeat():
    """The machine was three times as slow in the second repeat; both met it."""
    ours, theirs = Timing((1.0, 3.0, 1.25)), Timing((2.0, 6.0, 5.0))
    assert ratio(theirs, ours) == Spread(2.0, 2.0, 3.0)
    assert theirs.median_seconds / ours.median_seconds == 4.0


# --- exponents --------------------------------------------------------------------------------

SIZES = st.lists(st.integers(1, 1 << 17), min_size=3, max_size=9, unique=True)


@given(SIZES, st.floats(-3, 3), st.floats(-9, 9))
def test_an_exact_power_law_gives_its_exponent(sizes, exponent, log_of_coefficient):
    """To the rounding of logarithms up to 45, 1e-14, over their spread."""
    coefficient = math.exp(log_of_coefficient)
    fit = fit_exponent(sizes, [coefficient * n**exponent for n in sizes])
    logs = np.log(sizes)
    spread = np.sqrt(np.square(logs - logs.mean()).sum())
    assert abs(fit.value - exponent) <= 1e-13 / spread
    assert fit.standard_error <= 1e-13 / spread
    if spread > 0.1:
        assert abs(fit.value - exponent) <= 1e-12


def test_three_points_whose_error_a_person_can_work_out():
    """In powers of two: x = −1, 0, 1 and y = −1, 2, −1; slope 0, squares left 6, error √(6/1/2)."""
    fit = fit_exponent([1, 2, 4], [1.0, 8.0, 1.0])
    assert abs(fit.value) < 1e-15
    assert math.isclose(fit.standard_error, math.sqrt(3), rel_tol=1e-14)
    assert math.isclose(fit.coefficient, 2.0, rel_tol=1e-14)
    # with one degree of freedom T is Cauchy's, whose quantile is a tangent
    half = math.sqrt(3) * math.tan(0.9 * math.pi / 2)
    np.testing.assert_allclose(fit.interval(0.9), [-half, half], rtol=1e-12)


@given(SIZES, st.integers(0, 1 << 30))
def test_exponent_and_error_are_those_of_linear_regression(sizes, seed):
    seconds = np.exp(np.random.default_rng(seed).normal(size=len(sizes))).tolist()
    fit = fit_exponent(sizes, seconds)
    expected = stats.linregress(np.log(sizes), np.log(seconds))
    assert math.isclose(fit.value, expected.slope, rel_tol=1e-6, abs_tol=1e-9)
    assert math.isclose(fit.standard_error, expected.stderr, rel_tol=1e-6, abs_tol=1e-9)
    assert math.isclose(math.log(fit.coefficient), expected.intercept, rel_tol=1e-6, abs_tol=1e-6)


def test_units_do_not_change_an_exponent_and_its_law_goes_through_the_middle():
    sizes, seconds = [3, 5, 11, 40], [0.2, 0.5, 0.9, 5.0]
    fit = fit_exponent(sizes, seconds)
    other = fit_exponent([1024 * n for n in sizes], [1000 * s for s in seconds])
    assert math.isclose(fit.value, other.value, rel_tol=1e-12)
    assert math.isclose(fit.standard_error, other.standard_error, rel_tol=1e-12)
    middle = math.prod(sizes) ** (1 / 4)
    assert math.isclose(fit.seconds_at(middle), math.prod(seconds) ** (1 / 4), rel_tol=1e-12)


def test_an_interval_holds_the_exponent_as_often_as_it_says():
    rng, sizes, n = np.random.default_rng(0), [64, 128, 256, 512], 400
    held = 0
    for noise in rng.normal(scale=0.1, size=(n, len(sizes))):
        fit = fit_exponent(sizes, [x**1.5 * math.exp(e) for x, e in zip(sizes, noise, strict=True)])
        lower, upper = fit.interval(0.8)
        held += lower <= 1.5 <= upper
    # four standard deviations of a share; the normal quantile 1.28 would hold it 0.67 of the time
    assert abs(held / n - 0.8) <= 4 * math.sqrt(0.8 * 0.2 / n)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 10, 31, 200])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.95, 0.999])
def test_quantiles_of_student_are_those_of_scipy(n, level):
    """Held against scipy's distribution, which is exact where its quantiles are iterated."""
    outside = 2 * stats.t.sf(student_quantile(level, n), n)
    assert abs(outside - (1 - level)) <= 1e-14


def test_quantiles_of_student_have_closed_forms_for_one_and_two():
    assert math.isclose(student_quantile(0.5, 1), 1.0, rel_tol=1e-14)
    assert math.isclose(student_quantile(0.6, 2), math.sqrt(2) * 0.75, rel_tol=1e-14)


# --- probes -----------------------------------------------------------------------------------


def test_the_bandwidth_is_the_bytes_of_the_best_sum(monkeypatch):
    seen = {}

    def timed(call, **options):
        seen.update(options, sum=call())
        return Timing((4.0, 0.5, 2.0))

    monkeypatch.setattr(probes, "time_calls", timed)
    assert memory_bandwidth(n_bytes=1003, n_probes=3, device="cpu") == 1000 / 0.5
    # what was summed: all 250 elements of 4 bytes
    assert seen["sum"] == 250.0 and seen["sum"].dtype == torch.float32
    assert seen["n_repeats"] == 3 and seen["device"] == torch.device("cpu")


@pytest.mark.parametrize("dtype", [None, torch.float64])
def test_the_peak_is_the_operations_of_the_best_product(monkeypatch, dtype):
    seen = {}

    def timed(call, **options):
        seen.update(options, product=call())
        return Timing((4.0, 0.25, 2.0))

    monkeypatch.setattr(probes, "time_calls", timed)
    # 5 · 5 numbers of 5 products and, with that of the accumulator, as many sums
    assert peak_flops(width=5, dtype=dtype, n_probes=3, device="cpu") == 250 / 0.25
    assert seen["product"].shape == (5, 5)
    assert seen["product"].dtype == (dtype or torch.float32)
    assert seen["n_repeats"] == 3 and seen["device"] == torch.device("cpu")


@pytest.mark.parametrize("system,unit", [("linux", 1024), ("darwin", 1)])
def test_a_cpu_tells_the_most_that_its_process_ever_held(monkeypatch, shown, system, unit):
    told = [300, 340]

    def of(who):
        assert who == "self"
        return SimpleNamespace(ru_maxrss=told.pop(0))

    fake = SimpleNamespace(RUSAGE_SELF="self", getrusage=of)
    monkeypatch.setattr(probes, "resource", fake)
    monkeypatch.setattr(probes, "sys", SimpleNamespace(platform=system))
    memory = peak_memory(shown.passes(0.5), device="cpu")
    assert (memory.before_bytes, memory.peak_bytes) == (300 * unit, 340 * unit)
    assert not memory.is_of_call
    assert memory.seconds == 0.5


def test_where_nothing_is_told_there_is_no_memory_and_no_work(monkeypatch):
    monkeypatch.setattr(probes, "resource", None)
    calls = []
    assert peak_memory(lambda: calls.append(1), device="cpu") is None
    assert calls == []


# --- the machine ------------------------------------------------------------------------------


def test_a_machine_is_described_by_what_it_says_itself(monkeypatch, tmp_path):
    told = tmp_path / "cpuinfo"
    told.write_text("processor\t: 0\nmodel\t\t: 85\nmodel name\t: A Fine CPU: mark 2\n", "utf-8")
    monkeypatch.setattr(devices, "_CPU_INFO", told)
    machine = this_machine("cpu")
    assert machine.name == "A Fine CPU: mark 2"
    assert (machine.device, machine.cuda) == ("cpu", torch.version.cuda)
    assert machine.n_threads == torch.get_num_threads()
    assert machine.torch == torch.__version__
    assert (machine.system, machine.python) == (platform.system(), platform.python_version())
    year, month, day = (int(part) for part in machine.date.split("-"))
    assert year >= 2025 and 1 <= month <= 12 and 1 <= day <= 31


def test_a_processor_without_a_name_has_that_of_its_kind(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "_CPU_INFO", tmp_path / "none")
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "a kind")
    assert this_machine("cpu").name == "a kind"


def test_a_gpu_is_described_with_its_name_and_its_version(cuda):
    machine = replace(this_machine("cuda:1"), cuda="12.6")
    assert (machine.device, machine.name) == ("cuda", "a GPU, cuda:1")
    assert str(machine).startswith("a GPU, cuda:1 (cuda 12.6), ")


def test_threads_are_counted_in_words():
    assert str(MACHINE).startswith("a processor (3 threads), Linux")
    assert str(replace(MACHINE, n_threads=1)).startswith("a processor (1 thread), Linux")


# --- stored results ---------------------------------------------------------------------------


def test_a_measurement_comes_back_as_it_was_and_says_that_it_is_stored(tmp_path):
    save_timings(tmp_path / "timed.json", TIMED)
    back = load_timings(str(tmp_path / "timed.json"))
    assert back == replace(TIMED, is_stored=True)
    where = "a processor (3 threads), Linux, Python 3.12.1, torch 2.4.0, on 2026-01-31"
    assert TIMED.provenance == f"measured now: {where}"
    assert back.provenance == f"stored, measured before: {where}"


def test_a_stored_file_has_every_repeat_and_what_it_was_measured_on(tmp_path):
    save_timings(tmp_path / "timed.json", TIMED)
    held = json.loads((tmp_path / "timed.json").read_text("utf-8"))
    assert held["seconds"]["slow"] == [[x * 9.0] for x in (0.1, 0.2, 0.3, 0.7)]
    assert held["sizes"] == [2, 3, 5, 7]
    assert held["machine"]["date"] == "2026-01-31" and held["machine"]["torch"] == "2.4.0"
    assert held["settings"]["dtype"] == "float32"


def test_what_cannot_be_written_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "timed.json"
    save_timings(path, TIMED)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(OSError, match="no space left"):
        save_timings(path, replace(TIMED, title="another"))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("there,now,measures", [
    (False, None, False), (True, None, True), (True, False, False), (False, True, True),
])  # fmt: skip
def test_it_is_measured_now_where_there_is_a_gpu(tmp_path, monkeypatch, there, now, measures):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    save_timings(tmp_path / "timed.json", replace(TIMED, title="before"))
    found = measured_or_stored(lambda: TIMED, tmp_path / "timed.json", now=now)
    assert found.title == ("a sum" if measures else "before")
    assert found.is_stored is not measures


def test_sizes_are_timed_one_after_the_other_and_an_exponent_follows(shown):
    def calls_at(n):
        return {"square": shown.passes(n * n / 64), "line": shown.passes(n / 8)}

    timed = measure_sizes(
        calls_at,
        [1, 2, 8, 16],
        title="growth",
        x_title="tokens",
        settings={"dtype": "float32"},
        n_repeats=3,
        device="cpu",
    )
    assert timed.timings["square"][2] == Timing((1.0, 1.0, 1.0))
    assert timed.medians_seconds("line") == [0.125, 0.25, 1.0, 2.0]
    assert math.isclose(timed.exponent("square").value, 2.0, rel_tol=1e-13)
    assert (timed.title, timed.x_title) == ("growth", "tokens")
    assert timed.settings == {"dtype": "float32"}
    assert timed.machine == this_machine("cpu") and not timed.is_stored


def test_calls_are_told_apart_by_their_names_and_not_by_their_order(shown):
    def calls_at(n):
        calls = {"square": shown.passes(n * n), "line": shown.passes(n)}
        return calls if n % 2 else dict(reversed(calls.items()))

    timed = measure_sizes(calls_at, [1, 2, 3], title="growth", x_title="tokens", device="cpu")
    assert timed.medians_seconds("square") == [1.0, 4.0, 9.0]
    assert timed.medians_seconds("line") == [1.0, 2.0, 3.0]


def test_the_last_points_alone_have_an_exponent_of_their_own():
    seconds = [1.0, 1.0, 8.0, 64.0, 512.0]
    bent = replace(
        TIMED,
        sizes=(1, 2, 4, 8, 16),
        timings={"a": tuple(Timing((s,)) for s in seconds)},
        peak_bytes={},
    )
    assert math.isclose(bent.exponent("a", n_last=4).value, 3.0, rel_tol=1e-13)
    assert bent.exponent("a", n_last=4).sizes == (2.0, 4.0, 8.0, 16.0)
    assert bent.exponent("a").value < 2.8
