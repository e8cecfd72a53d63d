"""The judges of the chapter on counting cost, against what readers write."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from attnlib import PUBLISHED, cost, exercises
from attnlib.exercises import Mistake

NAMES = ["product-flops", "linear-flops", "cache-bytes", "decode-intensity", "crossing"]
NAMES += ["roofline-time"]


def refused(name, function) -> str:
    with pytest.raises(Mistake) as caught:
        exercises.check(name, function)
    return str(caught.value)


def test_the_chapter_has_its_exercises():
    assert set(NAMES) <= set(exercises.names())


# --- right functions, as readers write them -----------------------------------------------


def linear(m, h, g, d, e, f, k):
    queries, keys, values, output = m * h * d, m * g * d, m * g * e, h * e * m
    return 2 * (queries + keys + values + output + k * m * f)


def linear_of_modules(m, h, g, d, e, f, k):
    layers = [torch.nn.Linear(m, width) for width in (h * d, g * d, g * e, *[f] * k)]
    layers.append(torch.nn.Linear(h * e, m))
    return 2 * sum(layer.weight.numel() for layer in layers)


def crossing(m, h, g, d, e, f, k):
    return linear(m, h, g, d, e, f, k) / (2 * h * (d + e))


def roofline_by_rate(flops, n_bytes, peak, bandwidth):
    if flops == 0:
        return n_bytes / bandwidth
    return flops / min(peak, bandwidth * flops / n_bytes)


@pytest.mark.parametrize(
    "name,function",
    [
        ("product-flops", lambda r, i, c: r * c * (i + i)),
        ("product-flops", lambda r, i, c: sum(2 for _ in range(r * i * c))),
        ("linear-flops", linear),
        ("linear-flops", linear_of_modules),
        (
            "cache-bytes",
            lambda n, g, d, e, t, b, rows: rows * t * n * (g * d * b + g * e * b),
        ),
        ("decode-intensity", lambda h, g, b: 2 * (h / g) / b),
        ("decode-intensity", lambda h, g, b: np.float32(2 * h) / (g * b)),
        ("decode-intensity", lambda h, g, b: Fraction(2 * h, g) / Fraction(b)),
        ("crossing", crossing),
        ("crossing", lambda *given: Fraction(linear(*given), 2 * given[1] * sum(given[3:5]))),
        ("roofline-time", lambda flops, n, peak, bandwidth: max(n / bandwidth, flops / peak)),
        ("roofline-time", roofline_by_rate),
    ],
)
def test_other_right_functions_are_accepted(name, function, capsys):
    exercises.check(name, function)
    assert capsys.readouterr().out.startswith("Right: ")


# --- wrong functions, as readers write them -----------------------------------------------


def first_half_right(m, h, g, d, e, f, k):
    return 2 * (m * (h * d + h * d + h * e) + h * e * m + k * m * f)


@pytest.mark.parametrize(
    "name,function,says",
    [
        ("product-flops", lambda r, i, c: r * i * c, "those are multiply-adds"),
        ("product-flops", lambda r, i, c: r * c * (i + i - 1), "the first of 3 products is not"),
        ("product-flops", lambda r, i, c: 2 * r * c, "it is a sum of 3."),
        ("product-flops", lambda r, i, c: 2 * r * i, "the 5 columns of the right matrix"),
        ("linear-flops", lambda *given: linear(*given) // 2, "as many as the matrices have entri"),
        (
            "linear-flops",
            first_half_right,
            "for all h = 6 query heads: there are g = 2 key/value heads",
        ),
        (
            "linear-flops",
            lambda m, h, g, d, e, f, k: linear(m, h, g, d, e, f, 2),
            "with two matrices, whatever n_matrices says",
        ),
        (
            "linear-flops",
            lambda m, h, g, d, e, f, k: linear(m, h, g, d, d, f, k),
            "as wide as keys: here d = 3 and e = 4",
        ),
        (
            "linear-flops",
            lambda m, h, g, d, e, f, k: 2 * (2 * m * m + m * g * (d + e) + k * m * f),
            "the h = 6 heads need not have m = 10 columns together",
        ),
        (
            "linear-flops",
            lambda m, h, g, d, e, f, k: 2 * (m * (h * d + g * (d + e)) + k * m * f),
            "back to the residual stream is missing",
        ),
        (
            "cache-bytes",
            lambda n, g, d, e, t, b, rows: 2 * n * g * d * t * b * rows,
            "as wide as keys: here d = 70 and e = 40",
        ),
        (
            "cache-bytes",
            lambda n, g, d, e, t, b, rows: g * (d + e) * t * b,
            "that is one layer and one row",
        ),
        (
            "cache-bytes",
            lambda n, g, d, e, t, b, rows: 2 * n * g * (d + e) * t * b * rows,
            "a factor of two too many",
        ),
        (
            "cache-bytes",
            lambda n, g, d, e, t, b, rows: n * g * (d + e) * t * b * rows / 2**30,
            "those are gibibytes",
        ),
        (
            "cache-bytes",
            lambda n, g, d, e, t, b, rows: n * g * (d + e) * t * 2 * rows,
            "with two bytes, whatever bytes_per_element says",
        ),
        ("decode-intensity", lambda h, g, b: h / (g * b), "half of it: a multiply-add"),
        ("decode-intensity", lambda h, g, b: 2 / b, "h = 12 of them share g = 3"),
        ("decode-intensity", lambda h, g, b: 2 * h / (g * b) // 1, "rounded down"),
        ("crossing", lambda *given: crossing(*given) / 2, "on the core's side alone"),
        ("crossing", lambda *given: round(crossing(*given)), "is rounded: a fraction"),
        (
            "crossing",
            lambda m, h, g, d, e, f, k: linear(m, h, g, d, e, f, k) / (2 * g * (d + e)),
            "the core is counted for g = 2 heads",
        ),
        (
            "crossing",
            lambda m, h, g, d, e, f, k: first_half_right(m, h, g, d, e, f, k) / (2 * h * (d + e)),
            "for all h = 6 query heads",
        ),
        (
            "crossing",
            lambda *given: 2 * crossing(*given) - 1,
            "where the totals of a causal prefill are equal",
        ),
        ("roofline-time", lambda f, n, peak, b: f / peak + n / b, "the two times are added up"),
        ("roofline-time", lambda f, n, peak, b: min(peak, b * f / n), "in FLOPs a second"),
        ("roofline-time", lambda f, n, peak, b: f / max(peak, b * f / n), "the shorter of the two"),
    ],
)
def test_what_readers_write_is_told_with_the_numbers_of_the_case(name, function, says):
    assert says in refused(name, function)


SOLUTIONS = {
    "product-flops": ["2 ·", "2·", "a_rows ·", "twice the"],
    "linear-flops": ["2 ·", "h·d", "h·e", "n_matrices ·"],
    "cache-bytes": ["d + e", "g·", "g ·", "sum of the widths"],
    "decode-intensity": ["2h", "h/g", "2/"],
    "crossing": ["d + e", "2h", "h·", "divide the"],
    "roofline-time": ["the longer", "max", "/ peak", "n_bytes / "],
}


@pytest.mark.parametrize("name", NAMES)
def test_no_message_holds_the_solution(name):
    exercise = exercises.judge(name)
    for text in (exercise.asks, *exercise.mistakes):
        for code in ("np.", "torch.", "return x", "lambda", " * ", *SOLUTIONS[name]):
            assert code not in text


# --- the definitions of the judges --------------------------------------------------------


def by_letter(case, letters):
    return dict(zip(letters.split(), case.arguments.values(), strict=True))


def test_the_definitions_are_the_formulas_of_the_package():
    of_step = sum(x for part, x in cost.linear_flops().items() if part != "output head")
    plain = {"L_x": 0, "f_x": 0, "x": 0, "x_c": 0, "x_s": 0}
    formulas = {
        "linear-flops": ("m h g d e f k_f", of_step, {"L": 1, **plain}),
        "crossing": ("m h g d e f k_f", cost.step_crossing(), {"L": 1, **plain}),
        "cache-bytes": (
            "L g d e N beta B",
            cost.SYMBOLS["B"] * cost.SYMBOLS["beta"] * cost.cache_elements(),
            {"L_w": 0, "W": 0},
        ),
        "decode-intensity": ("h g beta", cost.core_intensity(), {}),
    }
    for name, (letters, formula, others) in formulas.items():
        exercise = exercises.judge(name)
        used = {symbol.name for symbol in formula.free_symbols}
        for case in exercise.cases:
            given = {x: y for x, y in (by_letter(case, letters) | others).items() if x in used}
            wanted = cost.evaluate(formula, **given)
            assert exercise.definition(*case.arguments.values()) == pytest.approx(
                float(wanted), rel=1e-15
            )


def test_the_times_of_the_roofline_are_those_of_the_package():
    exercise = exercises.judge("roofline-time")
    for case in exercise.cases:
        flops, n_bytes, peak, bandwidth = case.arguments.values()
        wanted = cost.evaluate(
            cost.least_seconds(int(flops), int(n_bytes)), peak=peak, bandwidth=bandwidth
        )
        assert exercise.definition(*case.arguments.values()) == pytest.approx(float(wanted))


def test_the_definitions_give_the_published_numbers_of_llama_3_70b():
    llama = PUBLISHED["llama-3-70b"]
    letters = cost.letters_of(llama)
    h, g, d, e = (letters[x] for x in "hgde")
    sizes = tuple(letters[x] for x in ("m", "h", "g", "d", "e", "f", "k_f"))
    given = {name: exercises.judge(name).definition for name in NAMES}
    assert given["crossing"](*sizes) == 52_224
    assert given["linear-flops"](*sizes) == 1_711_276_032
    assert given["cache-bytes"](llama.n_layers, g, d, e, 1, 2, 1) == 327_680
    assert given["decode-intensity"](h, g, 2) == 8


def test_the_cases_of_the_roofline_are_what_they_say():
    times = {}
    for case in exercises.judge("roofline-time").cases:
        flops, n_bytes, peak, bandwidth = case.arguments.values()
        times[case.about] = flops / peak, n_bytes / bandwidth
    arithmetic, memory = times["work that memory limits"]
    assert 0 < arithmetic < memory
    arithmetic, memory = times["work that arithmetic limits"]
    assert arithmetic > memory
    arithmetic, memory = times["work at the ridge"]
    assert arithmetic == memory
    assert times["nothing to compute"][0] == 0
