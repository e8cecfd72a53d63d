"""Faults in what times, fits, probes and stores."""

from fault import Fault, fault

FOLDER = "attnlib/timing"
CLOCK, EXPONENTS, PROBES = f"{FOLDER}/clock.py", f"{FOLDER}/exponents.py", f"{FOLDER}/probes.py"
DEVICES, STORED = f"{FOLDER}/devices.py", f"{FOLDER}/stored.py"
T_TIMING = "tests/test_timing.py"
T_REFUSALS = "tests/refusals/test_timing_refusals.py"

FAULTS: tuple[Fault, ...] = (
    # --- the clock ----------------------------------------------------------------------------
    fault(
        "timing: what warms up counts too",
        CLOCK,
        T_TIMING,
        ("for _ in range(n_warm_up):", "for _ in range(0):"),
        ("for i in range(n_repeats):", "for i in range(n_warm_up + n_repeats):"),
    ),
    fault(
        "timing: one call has all its repeats before the next begins",
        CLOCK,
        T_TIMING,
        (
            "    for i in range(n_repeats):\n        for name in names if i % 2 == 0 else "
            "reversed(names):\n",
            "    for name in names:\n        for i in range(n_repeats):\n",
        ),
    ),
    fault(
        "timing: every round runs forwards, and a machine that slows down favours the first",
        CLOCK,
        T_TIMING,
        ("names if i % 2 == 0 else reversed(names)", "names"),
    ),
    fault(
        "timing: launching is hidden behind what a GPU still had to do before",
        CLOCK,
        T_TIMING,
        (
            "        torch.cuda.synchronize()\n        start.record()\n",
            "        start.record()\n",
        ),
    ),
    fault(
        "timing: the clock of a GPU is read before its work is done",
        CLOCK,
        T_TIMING,
        (
            "        end.record()\n        torch.cuda.synchronize()\n",
            "        end.record()\n",
        ),
    ),
    fault(
        "timing: milliseconds of a GPU are taken for seconds",
        CLOCK,
        T_TIMING,
        ("start.elapsed_time(end) / 1000", "start.elapsed_time(end)"),
    ),
    fault(
        "timing: the first step is averaged with the further ones",
        CLOCK,
        T_TIMING,
        ("(each[-1] - each[0]) / (n_steps - 1)", "each[-1] / n_steps"),
    ),
    fault(
        "timing: on a GPU a step is over when it was queued",
        CLOCK,
        T_TIMING,
        ("        wait()\n        ends.append", "        ends.append"),
    ),
    fault(
        "timing: steps of warming up count",
        CLOCK,
        T_TIMING,
        ("ends = ends[n_warm_up:]", "ends = ends[:]"),
    ),
    fault(
        "timing: a ratio is that of the medians",
        CLOCK,
        T_TIMING,
        (
            "[a / b for a, b in zip(over.seconds, under.seconds, strict=True)]",
            "[over.median_seconds / under.median_seconds]",
        ),
    ),
    fault(
        "timing: quartiles are the ends",
        CLOCK,
        T_TIMING,
        ("[0.25, 0.5, 0.75]", "[0.0, 0.5, 1.0]"),
    ),
    fault(
        "timing: a GPU in use is not waited for unless it is named",
        DEVICES,
        T_TIMING,
        ('"cuda" if torch.cuda.is_initialized() else "cpu"', '"cpu"'),
    ),
    fault(
        "timing: a GPU that only emulates bf16 gets it",
        DEVICES,
        T_TIMING,
        ("major >= _NATIVE_BF16", "major >= 7"),
    ),
    # --- exponents ----------------------------------------------------------------------------
    fault(
        "timing: the error of an exponent forgets that two numbers were fitted",
        EXPONENTS,
        T_TIMING,
        ("left / (n - 2) / square", "left / n / square"),
    ),
    fault(
        "timing: an interval is two standard errors, however few points there are",
        EXPONENTS,
        T_TIMING,
        ("student_quantile(level, len(self.sizes) - 2)", "student_quantile(level, 10_000)"),
    ),
    fault(
        "timing: the coefficient forgets the exponent",
        EXPONENTS,
        T_TIMING,
        ("middle_y - value * middle_x", "middle_y"),
    ),
    fault(
        "timing: two points have an error of 0",
        EXPONENTS,
        T_REFUSALS,
        ("if n < 3:", "if n < 2:"),
        ("left / (n - 2) / square", "left / max(n - 2, 1) / square"),
    ),
    fault(
        "timing: sizes differ, and their logarithms do not",
        EXPONENTS,
        T_REFUSALS,
        ("if len(set(logs_of_sizes)) == 1:", "if len(set(sizes)) == 1:"),
    ),
    fault(
        "timing: sizes may be as close as one likes",
        EXPONENTS,
        T_REFUSALS,
        ("if abs(log_of_coefficient) > _LARGEST:", "if log_of_coefficient > 1e9:"),
    ),
    # --- probes -------------------------------------------------------------------------------
    fault(
        "timing: a bandwidth counts elements",
        PROBES,
        T_TIMING,
        ("return 4 * n / min", "return n / min"),
    ),
    fault(
        "timing: a bandwidth is that of the slowest probe",
        PROBES,
        T_TIMING,
        ("4 * n / min(", "4 * n / max("),
    ),
    fault(
        "timing: a multiplication with its addition is one operation",
        PROBES,
        T_TIMING,
        ("2 * width**3", "width**3"),
    ),
    fault(
        "timing: kilobytes of memory are taken for bytes",
        PROBES,
        T_TIMING,
        ('most if sys.platform == "darwin" else 1024 * most', "most"),
    ),
    fault(
        "timing: the peak of a GPU is that of an earlier call",
        PROBES,
        T_TIMING,
        ("        torch.cuda.reset_peak_memory_stats(device)\n", ""),
    ),
    # --- stored results -----------------------------------------------------------------------
    fault(
        "timing: a stored result says that it was measured now",
        STORED,
        T_TIMING,
        ("is_stored=True,", "is_stored=False,"),
    ),
    fault(
        "timing: what is stored is only the median",
        STORED,
        T_TIMING,
        (
            "[timing.seconds for timing in curve]",
            "[[timing.median_seconds] for timing in curve]",
        ),
    ),
    fault(
        "timing: the last points are the first",
        STORED,
        T_TIMING,
        ("self.sizes[-n:], medians[-n:]", "self.sizes[:n], medians[:n]"),
    ),
    fault(
        "timing: a curve may lack a size",
        STORED,
        T_REFUSALS,
        ("if len(curve) != len(sizes):", "if len(curve) > len(sizes):"),
    ),
)
