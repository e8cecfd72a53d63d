"""The exercises of the chapter on counting cost: definitions, cases and known mistakes.

Source   attnlib/definitions/of_cost.py; the mistakes are those that readers and calculators make
Chapter  chapters/counting-cost.md
Axes     attnlib/axes.py
"""

import math
from collections.abc import Callable
from fractions import Fraction
from numbers import Real

import numpy as np

from attnlib import definitions
from attnlib.exercises.judge import Case, Exercise


def _case_of(names: str) -> Callable[..., Case]:
    """A maker of cases whose arguments have these names, in this order."""

    def case(about: str, *values: Real) -> Case:
        return Case(about=about, arguments=dict(zip(names.split(), values, strict=True)))

    return case


# --- a product of matrices --------------------------------------------------------------------


def _product_flops(a_rows: int, inner: int, b_columns: int) -> int:
    return definitions.product_flops(np.ones((a_rows, inner)), np.ones((inner, b_columns)))


_product_case = _case_of("a_rows inner b_columns")

_PRODUCT_FLOPS = Exercise(
    name="product-flops",
    asks=(
        "product_flops(a_rows, inner, b_columns) → the FLOPs of a matrix of a_rows rows and inner "
        "columns times one of inner rows and b_columns columns, a multiply-add counted as two"
    ),
    definition=_product_flops,
    cases=(
        _product_case("three different sizes", 2, 3, 5),
        _product_case("a single row", 1, 7, 4),
        _product_case("a product of a column and a row", 4, 1, 6),
    ),
    mistakes={
        "those are multiply-adds: each is a multiplication and an addition.": (
            lambda r, i, c: r * i * c
        ),
        "the first of {inner} products is not added to anything, if one counts strictly; in this "
        "book, as nearly everywhere, it is a multiply-add like the others.": lambda r, i, c: (
            r * c * (2 * i - 1)
        ),
        "every entry of the result is counted as one multiply-add: it is a sum of {inner}.": (
            lambda r, i, c: 2 * r * c
        ),
        "those are the entries of the result.": lambda r, i, c: r * c,
        "the {b_columns} columns of the right matrix are missing.": lambda r, i, c: 2 * r * i,
        "the {a_rows} rows of the left matrix are missing.": lambda r, i, c: 2 * i * c,
        "those are the numbers that the two matrices hold.": lambda r, i, c: r * i + i * c,
        "those are the numbers that all three matrices hold.": lambda r, i, c: (
            r * i + i * c + r * c
        ),
        "the inner size counts twice, once for each matrix: they share it.": lambda r, i, c: (
            2 * r * i * i * c
        ),
        "each multiply-add is counted four times; it is two FLOPs.": lambda r, i, c: 4 * r * i * c,
    },
    numbers=lambda arguments, *results: arguments,
)


# --- what a token costs in the matrices of a layer --------------------------------------------


def _projected(m: int, h: int, g: int, d: int, e: int) -> int:
    """Multiply-adds of a token in the matrices of queries, keys, values and output."""
    return m * h * d + m * g * d + m * g * e + h * e * m


def _in_network(m: int, inner_width: int, n_matrices: int) -> int:
    return n_matrices * m * inner_width


def _linear_with(
    projected: Callable = _projected, in_network: Callable = _in_network, each: int = 2
) -> Callable:
    """A variant of the linear part that counts something else in one of its parts."""

    def linear_flops(m, h, g, d, e, inner_width, n_matrices):
        return each * (projected(m, h, g, d, e) + in_network(m, inner_width, n_matrices))

    return linear_flops


_linear_case = _case_of("m h g d e inner_width n_matrices")
_LINEAR_CASES = (
    _linear_case("two key/value heads, a gated network", 10, 6, 2, 3, 4, 17, 3),
    _linear_case("as many key/value heads as query heads, a plain network", 7, 4, 4, 5, 3, 11, 2),
    _linear_case("a single key/value head", 9, 5, 1, 2, 6, 8, 3),
)
_OF_QUERY_HEADS = (
    "keys and values are counted for all h = {h} query heads: there are g = {g} key/value heads."
)
_PROJECTIONS_ALONE = "the feed-forward network is missing."
_NETWORK_ALONE = "the projections of attention are missing: that is the feed-forward network alone."
_WITHOUT_OUTPUT = "the matrix that takes the heads' outputs back to the residual stream is missing."
_AS_IF_QUERIES_HAD_M = (
    "the matrices of queries and output are taken to be m by m: the h = {h} heads need not have m "
    "= {m} columns together."
)
_TWO_MATRICES = (
    "the network is counted with two matrices, whatever n_matrices says: a gated one has a third."
)


def _of_square_matrices(m: int, h: int, g: int, d: int, e: int) -> int:
    return 2 * m * m + m * g * (d + e)


_LINEAR_FLOPS = Exercise(
    name="linear-flops",
    asks=(
        "linear_flops(m, h, g, d, e, inner_width, n_matrices) → the FLOPs of one token in all "
        "matrices of one layer: those of queries, keys, values and output, and n_matrices matrices "
        "of a feed-forward network between the widths m and inner_width; scores and averages do "
        "not count"
    ),
    definition=_linear_with(),
    cases=_LINEAR_CASES,
    mistakes={
        "those are multiply-adds, as many as the matrices have entries: each is two FLOPs.": (
            _linear_with(each=1)
        ),
        _OF_QUERY_HEADS: _linear_with(lambda m, h, g, d, e: _projected(m, h, h, d, e)),
        "queries and output are counted for g = {g} heads: there are h = {h} query heads.": (
            _linear_with(lambda m, h, g, d, e: _projected(m, g, g, d, e))
        ),
        _WITHOUT_OUTPUT: _linear_with(lambda m, h, g, d, e: m * (h * d + g * d + g * e)),
        "the matrix of the queries is missing.": _linear_with(
            lambda m, h, g, d, e: m * (g * d + g * e + h * e)
        ),
        "the matrix of the keys is missing.": _linear_with(
            lambda m, h, g, d, e: m * (h * d + g * e + h * e)
        ),
        "the matrix of the values is missing.": _linear_with(
            lambda m, h, g, d, e: m * (h * d + g * d + h * e)
        ),
        "the output's matrix is counted for g = {g} heads: each of the h = {h} query heads has an "
        "output.": _linear_with(lambda m, h, g, d, e: m * (h * d + g * d + g * e + g * e)),
        "values are taken to be as wide as keys: here d = {d} and e = {e}.": _linear_with(
            lambda m, h, g, d, e: _projected(m, h, g, d, d)
        ),
        "the output's matrix is counted with the width d = {d} of the keys: outputs are averages "
        "of values.": _linear_with(lambda m, h, g, d, e: m * (h * d + g * d + g * e + h * d)),
        _AS_IF_QUERIES_HAD_M: _linear_with(_of_square_matrices),
        _PROJECTIONS_ALONE: _linear_with(in_network=lambda *given: 0),
        _NETWORK_ALONE: _linear_with(lambda *given: 0),
        _TWO_MATRICES: _linear_with(in_network=lambda m, f, k: 2 * m * f),
        "the network is counted with a single matrix.": _linear_with(
            in_network=lambda m, f, k: m * f
        ),
        "the network is counted with three matrices, whatever n_matrices says.": _linear_with(
            in_network=lambda m, f, k: 3 * m * f
        ),
        "the network's matrices are taken to be square, inner_width by inner_width.": _linear_with(
            in_network=lambda m, f, k: k * f * f
        ),
        "each multiply-add is counted four times; it is two FLOPs.": _linear_with(each=4),
        "that is the cost in training, with the backward pass.": _linear_with(each=6),
    },
    numbers=lambda arguments, *results: arguments,
)


# --- the bytes of a cache ---------------------------------------------------------------------


def _bytes_with(of_token: Callable = lambda g, d, e: g * (d + e), each: Real = 1) -> Callable:
    """A variant that keeps other numbers of a token in a layer, or says it in another unit."""

    def cache_bytes(n_layers, g, d, e, n_tokens, bytes_per_element, n_rows):
        n_numbers = n_layers * n_tokens * n_rows * of_token(g, d, e)
        return each * bytes_per_element * n_numbers

    return cache_bytes


def _bytes_without(*left_out: str) -> Callable:
    """A variant that takes these numbers for one."""

    def cache_bytes(*values):
        given = dict(zip(_BYTES_NAMES.split(), values, strict=True))
        return _bytes_with()(**{x: 1 if x in left_out else y for x, y in given.items()})

    return cache_bytes


_BYTES_NAMES = "n_layers g d e n_tokens bytes_per_element n_rows"
_bytes_case = _case_of(_BYTES_NAMES)

_CACHE_BYTES = Exercise(
    name="cache-bytes",
    asks=(
        "cache_bytes(n_layers, g, d, e, n_tokens, bytes_per_element, n_rows) → the bytes that the "
        "whole model keeps of n_tokens tokens in each of n_rows rows, with g key/value heads, keys "
        "of width d and values of width e"
    ),
    definition=_bytes_with(),
    cases=(
        _bytes_case("a long text in half precision", 30, 5, 70, 40, 110_000, 2, 6),
        _bytes_case("half a byte a number", 4, 1, 6, 2, 9, 0.5, 3),
        _bytes_case("a single row in float32", 2, 3, 5, 8, 7, 4, 1),
    ),
    mistakes={
        "the values are missing: that is what the keys take.": _bytes_with(lambda g, d, e: g * d),
        "the keys are missing: that is what the values take.": _bytes_with(lambda g, d, e: g * e),
        "values are taken to be as wide as keys: here d = {d} and e = {e}.": _bytes_with(
            lambda g, d, e: 2 * g * d
        ),
        "keys are taken to be as wide as values: here d = {d} and e = {e}.": _bytes_with(
            lambda g, d, e: 2 * g * e
        ),
        "a factor of two too many: keys and values are both there already, each with its own "
        "width.": _bytes_with(lambda g, d, e: 2 * g * (d + e)),
        "the widths of keys and values are multiplied: they stand beside each other.": _bytes_with(
            lambda g, d, e: g * d * e
        ),
        "that is one layer: each of the n_layers = {n_layers} has a cache of its own.": (
            _bytes_without("n_layers")
        ),
        "that is one row: each of the n_rows = {n_rows} has a cache of its own.": (
            _bytes_without("n_rows")
        ),
        "that is one layer and one row.": _bytes_without("n_layers", "n_rows"),
        "that is one token: n_tokens = {n_tokens} are kept.": _bytes_without("n_tokens"),
        "that is one token of one row.": _bytes_without("n_tokens", "n_rows"),
        "that is one key/value head: there are g = {g}.": _bytes_without("g"),
        "those are numbers, not bytes: each has {bytes_per_element}.": _bytes_without(
            "bytes_per_element"
        ),
        "each number is counted with two bytes, whatever bytes_per_element says.": (
            lambda *given: 2 * _bytes_without("bytes_per_element")(*given)
        ),
        "those are bits.": _bytes_with(each=8),
        "those are kibibytes: bytes are asked for.": _bytes_with(each=2**-10),
        "those are gigabytes: bytes are asked for.": _bytes_with(each=1e-9),
        "those are gibibytes: bytes are asked for.": _bytes_with(each=2**-30),
        "the tokens are squared: of scores, which are as many, nothing is kept.": (
            lambda *given: _bytes_with()(*given) * given[4]
        ),
    },
    numbers=lambda arguments, *results: arguments,
)


# --- the intensity of a decode step -----------------------------------------------------------

_intensity_case = _case_of("h g bytes_per_element")

_DECODE_INTENSITY = Exercise(
    name="decode-intensity",
    asks=(
        "decode_intensity(h, g, bytes_per_element) → the FLOPs of attention's core, scores and "
        "averages, for each byte of the cache that one new token reads; h query heads read g "
        "key/value heads"
    ),
    definition=lambda h, g, n_bytes: 2 * h / (g * n_bytes),
    cases=(
        _intensity_case("shared heads in half precision", 12, 3, 2),
        _intensity_case("a single key/value head in float32", 7, 1, 4),
        _intensity_case("as many key/value heads as query heads, a byte a number", 5, 5, 1),
        _intensity_case("half a byte a number", 10, 2, 0.5),
    ),
    mistakes={
        "half of it: a multiply-add is two FLOPs, and both keys and values are multiplied and "
        "read.": lambda h, g, n_bytes: h / g / n_bytes,
        "each query head is given keys and values of its own: h = {h} of them share g = {g}.": (
            lambda h, g, n_bytes: 2 / n_bytes
        ),
        "half of it, and each query head is given keys and values of its own: h = {h} of them "
        "share g = {g}.": lambda h, g, n_bytes: 1 / n_bytes,
        "the heads have changed places: what is read has g = {g} of them, what asks has h = {h}.": (
            lambda h, g, n_bytes: 2 * g / h / n_bytes
        ),
        "one key/value head is read, as it is counted here: there are g = {g}.": (
            lambda h, g, n_bytes: 2 * h / n_bytes
        ),
        "the bytes are multiplied with, not divided by.": lambda h, g, n_bytes: 2 * h / g * n_bytes,
        "that is for each number that is read, not for each of its bytes.": lambda h, g, n_bytes: (
            2 * h / g
        ),
        "upside down: those are bytes for each FLOP.": lambda h, g, n_bytes: g * n_bytes / 2 / h,
        "twice as much: scores read keys, and averages read values. Either all FLOPs go with all "
        "bytes, or half with half.": lambda h, g, n_bytes: 4 * h / g / n_bytes,
        "that is for each bit.": lambda h, g, n_bytes: h / g / n_bytes / 4,
        "the intensity is rounded down: it need not be whole.": lambda h, g, n_bytes: (
            2 * h / g // n_bytes
        ),
    },
    numbers=lambda arguments, *results: arguments,
)


# --- where the core overtakes the linear part -------------------------------------------------


def _crossing_with(
    linear: Callable = _LINEAR_FLOPS.definition,
    core_of_key: Callable = lambda h, g, d, e: 2 * h * (d + e),
    after: Callable = lambda crossing: crossing,
) -> Callable:
    """A variant of the crossing that counts one of the two sides in another way."""

    def crossing(m, h, g, d, e, inner_width, n_matrices):
        of_linear = linear(m, h, g, d, e, inner_width, n_matrices)
        return after(Fraction(of_linear, core_of_key(h, g, d, e)))

    return crossing


_CROSSING = Exercise(
    name="crossing",
    asks=(
        "crossing(m, h, g, d, e, inner_width, n_matrices) → the context, in tokens, at which one "
        "decode step's core costs as many FLOPs as its linear part, in one layer; a fraction is "
        "right"
    ),
    definition=_crossing_with(),
    cases=_LINEAR_CASES,
    mistakes={
        "a factor of two stands on the core's side alone: multiply-adds are compared with FLOPs.": (
            _crossing_with(linear=_linear_with(each=1))
        ),
        "a factor of two stands on the linear side alone: FLOPs are compared with multiply-adds.": (
            _crossing_with(core_of_key=lambda h, g, d, e: h * (d + e))
        ),
        "the core is counted for g = {g} heads: sharing keys and values spares bytes, but each of "
        "the h = {h} query heads still computes.": _crossing_with(
            core_of_key=lambda h, g, d, e: 2 * g * (d + e)
        ),
        "the core is counted for a single head.": _crossing_with(
            core_of_key=lambda h, g, d, e: 2 * (d + e)
        ),
        "the core is counted with scores alone: the averages of values belong to it.": (
            _crossing_with(core_of_key=lambda h, g, d, e: 2 * h * d)
        ),
        "the core is counted with averages alone: the scores belong to it.": _crossing_with(
            core_of_key=lambda h, g, d, e: 2 * h * e
        ),
        "values are taken to be as wide as keys in the core: here d = {d} and e = {e}.": (
            _crossing_with(core_of_key=lambda h, g, d, e: 4 * h * d)
        ),
        _OF_QUERY_HEADS: _crossing_with(
            linear=_linear_with(lambda m, h, g, d, e: _projected(m, h, h, d, e))
        ),
        _WITHOUT_OUTPUT: _crossing_with(
            linear=_linear_with(lambda m, h, g, d, e: m * (h * d + g * d + g * e))
        ),
        _AS_IF_QUERIES_HAD_M: _crossing_with(linear=_linear_with(_of_square_matrices)),
        _PROJECTIONS_ALONE: _crossing_with(linear=_linear_with(in_network=lambda *given: 0)),
        _NETWORK_ALONE: _crossing_with(linear=_linear_with(lambda *given: 0)),
        _TWO_MATRICES: _crossing_with(linear=_linear_with(in_network=lambda m, f, k: 2 * m * f)),
        "that is where the totals of a causal prefill are equal; a single step is asked for.": (
            _crossing_with(after=lambda crossing: 2 * crossing - 1)
        ),
        "upside down: that is the core of one key over the linear part.": _crossing_with(
            after=lambda crossing: 1 / crossing
        ),
        "the result is rounded up: a fraction is right here.": _crossing_with(after=math.ceil),
        "the result is rounded down: a fraction is right here.": _crossing_with(after=math.floor),
        "the result is rounded: a fraction is right here.": _crossing_with(after=round),
    },
    numbers=lambda arguments, *results: arguments,
)


# --- the time that the roofline allows --------------------------------------------------------


def _time_with(together: Callable = max) -> Callable:
    """A variant that puts the time of the arithmetic and that of the memory together."""

    def roofline_time(flops, n_bytes, peak, bandwidth):
        return together(flops / peak, n_bytes / bandwidth)

    return roofline_time


_time_case = _case_of("flops n_bytes peak bandwidth")

_ROOFLINE_TIME = Exercise(
    name="roofline-time",
    asks=(
        "roofline_time(flops, n_bytes, peak, bandwidth) → the least seconds in which a device that "
        "does peak FLOPs a second at most, and whose memory gives bandwidth bytes a second at "
        "most, can do both; arithmetic and memory work at the same time"
    ),
    definition=_time_with(),
    cases=(
        _time_case("work that memory limits", 12.0, 10.0, 8.0, 2.5),
        _time_case("work that arithmetic limits", 30.0, 6.0, 4.0, 3.0),
        _time_case("work at the ridge", 12.0, 4.0, 6.0, 2.0),
        _time_case("nothing to compute", 0.0, 7.0, 5.0, 2.0),
    ),
    mistakes={
        "the two times are added up: arithmetic and memory work at the same time.": _time_with(
            lambda *times: sum(times)
        ),
        "the shorter of the two times is taken: both must be done.": _time_with(min),
        "that is the time of the arithmetic: memory has its own limit.": _time_with(
            lambda arithmetic, memory: arithmetic
        ),
        "that is the time of the memory: arithmetic has its own limit.": _time_with(
            lambda arithmetic, memory: memory
        ),
        "that is the mean of the two times.": _time_with(lambda *times: sum(times) / 2),
        "peak and bandwidth have changed places.": lambda flops, n_bytes, peak, bandwidth: max(
            flops / bandwidth, n_bytes / peak
        ),
        "that is what the roofline allows in FLOPs a second: seconds are asked for.": (
            lambda flops, n_bytes, peak, bandwidth: min(peak, bandwidth * flops / n_bytes)
        ),
        "that is the intensity, in FLOPs a byte: seconds are asked for.": (
            lambda flops, n_bytes, peak, bandwidth: flops / n_bytes
        ),
        "the bytes are taken for bits.": lambda flops, n_bytes, peak, bandwidth: max(
            flops / peak, n_bytes / bandwidth / 8
        ),
        "those are milliseconds: seconds are asked for.": lambda *given: 1e3 * _time_with()(*given),
    },
)

EXERCISES = (
    _PRODUCT_FLOPS,
    _LINEAR_FLOPS,
    _CACHE_BYTES,
    _DECODE_INTENSITY,
    _CROSSING,
    _ROOFLINE_TIME,
)
