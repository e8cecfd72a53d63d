"""Faults in the timed runs of generation and their explorer, in Python and in JavaScript."""

from fault import fault

RUNS = "attnlib/explore/generation_runs.py"
PACKED = "attnlib/explore/packed_timings.py"
EXPLORER = "attnlib/explore/generation_times.py"
SCRIPT = "book/measure_generation.py"
EXPLORER_JS = "attnlib/explore/generation-times.mjs"

T_PYTHON = "tests/test_explore_generation.py"
T_JAVASCRIPT = "tests/book/test_explorer_generation_js.py"

FAULTS = (
    fault(
        "generation timed: both ways have a cache",
        RUNS,
        T_PYTHON,
        ("use_cache=way == CACHED", "use_cache=way in (CACHED, ANEW)"),
    ),
    fault(
        "generation timed: a length has the time of the token after it",
        RUNS,
        T_PYTHON,
        ("[ends[n - 1] for n in lengths]", "[ends[min(n, lengths[-1] - 1)] for n in lengths]"),
    ),
    fault(
        "generation timed: nothing is run before the clock counts",
        RUNS,
        T_PYTHON,
        ("        run_once(model, min(_N_WARM_UP, lengths[-1]), way)\n", "        pass\n"),
    ),
    fault(
        "generation timed: other tokens are not told",
        RUNS,
        T_PYTHON,
        ('"same_tokens": len(written) == 1', '"same_tokens": len(written) > 0'),
    ),
    fault(
        "generation timed: a further token is a share of all, the first included",
        PACKED,
        T_PYTHON,
        ("tuple((a - b) / (n - 1) for", "tuple((a - 0 * b) / n for"),
    ),
    fault(
        "generation timed: the ratio is that of with a cache to anew",
        PACKED,
        T_PYTHON,
        ("zip(anew, cached, strict=True)", "zip(cached, anew, strict=True)"),
    ),
    fault(
        "generation timed: only pairs that are read are counted",
        EXPLORER,
        T_PYTHON,
        ("sum(total(dense=True).values())", "sum(total(dense=False).values())"),
    ),
    fault(
        "generation timed: the newer measurement stands beside the older one",
        EXPLORER,
        T_PYTHON,
        ("[*others, packed]", "[*self.measured, packed]"),
    ),
    fault(
        "generation timed: a failure leaves the page waiting",
        EXPLORER,
        T_PYTHON,
        ('            self.send({"failed": ', '            str({"failed": '),
    ),
    fault(
        "generation timed: the check takes a cache that does nothing",
        SCRIPT,
        T_PYTHON,
        ("if not 1 / WITHIN < here / before < WITHIN:", "if here / before < 1 / WITHIN:"),
    ),
    fault(
        "generation timed, page: each further token is that of the length before",
        EXPLORER_JS,
        T_JAVASCRIPT,
        ("[`${way}Further`][i - 1]", "[`${way}Further`][Math.max(i - 2, 0)]"),
    ),
    fault(
        "generation timed, page: the first measurement here is shown, not the last",
        EXPLORER_JS,
        T_JAVASCRIPT,
        (".pop()", ".shift()"),
    ),
    fault(
        "generation timed, page: what was measured here is shown for longer texts, too",
        EXPLORER_JS,
        T_JAVASCRIPT,
        (" && each.lengths.includes(state.n_new)", ""),
    ),
)
