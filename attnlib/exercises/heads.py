"""The exercises of the chapter on many heads: definitions, cases and known mistakes.

Source   attnlib/definitions/of_heads.py; the mistakes are those that readers and libraries make
Chapter  chapters/multi-head-attention.md
Axes     attnlib/axes.py
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnlib import definitions
from attnlib.exercises.judge import Case, Exercise
from attnlib.exercises.steps import columns_in_turns, reshaped_straight, softmax

_RNG = np.random.default_rng(2002_07028)


def _normal(*shape: int) -> np.ndarray:
    return _RNG.normal(size=shape)


# --- splitting --------------------------------------------------------------------------------


def _split_case(about: str, t: int, h: int, d: int) -> Case:
    return Case(about=about, arguments={"x": _normal(t, h * d), "n_heads": h})


_SPLIT_HEADS = Exercise(
    name="split-heads",
    asks=(
        "split(x, n_heads) → the heads (h, t, d) of x (t, h·d), where head i has the columns from "
        "i·d up to (i + 1)·d"
    ),
    definition=definitions.split_heads,
    cases=(
        _split_case("two heads", t=4, h=2, d=3),
        _split_case("four heads", t=3, h=4, d=2),
        _split_case("a single head", t=5, h=1, d=2),
    ),
    mistakes={
        "(t, h·d) is reshaped straight to (h, t, d): head 0 then begins with all {h_d} columns of "
        "token 0, in place of its own {d} of every token.": reshaped_straight,
        "head i takes the columns i, i + {h}, i + 2·{h}, …; its {d} columns must be neighbours.": (
            columns_in_turns
        ),
        "the columns are split rightly, but the axes stand as (t, h, d): heads come first.": (
            lambda x, n_heads: x.reshape(len(x), n_heads, -1)
        ),
        "the columns are split rightly, but the axes stand as (h, d, t): tokens come before "
        "coordinates.": lambda x, n_heads: definitions.split_heads(x, n_heads).transpose(0, 2, 1),
        "the number of heads and their width have changed places: these are {d} heads of width "
        "{h}.": lambda x, n_heads: definitions.split_heads(x, x.shape[1] // n_heads),
        "the heads are there, but in reverse order.": lambda x, n_heads: definitions.split_heads(
            x, n_heads
        )[::-1],
        "x is transposed before it is reshaped: the axes are right, the numbers are not.": (
            lambda x, n_heads: x.T.reshape(n_heads, len(x), -1)
        ),
        "every head gets the columns of head 0.": lambda x, n_heads: np.stack(
            [definitions.split_heads(x, n_heads)[0]] * n_heads
        ),
    },
    numbers=lambda arguments, *results: {
        "h": arguments["n_heads"],
        "h_d": arguments["x"].shape[1],
        "d": arguments["x"].shape[1] // arguments["n_heads"],
    },
)


# --- many heads -------------------------------------------------------------------------------


def _sum_of_heads(out: np.ndarray, w_o: np.ndarray) -> np.ndarray:
    return np.einsum("hte,hem->tm", out, w_o)


def _heads_with(
    scale: Callable = lambda n: n["d"] ** -0.5,
    weights: Callable = softmax,
    together: Callable = _sum_of_heads,
) -> Callable:
    """A variant of multi-head attention that differs in one of its steps."""

    def attend(x, w_q, w_k, w_v, w_o):
        q, k, v = (np.einsum("tm,hmd->htd", x, w) for w in (w_q, w_k, w_v))
        numbers = _sizes({"x": x, "w_q": w_q, "w_v": w_v})
        scores = scale(numbers) * np.einsum("htd,hsd->hts", q, k)
        return together(weights(scores) @ v, w_o)

    return attend


def _sizes(arguments: dict[str, Any], *results: np.ndarray) -> dict[str, int]:
    """The letters that mistakes speak of, in one case."""
    h, m, d = arguments["w_q"].shape
    return {"h": h, "m": m, "d": d, "hd": h * d, "e": arguments["w_v"].shape[-1]}


def _concatenated(out: np.ndarray) -> np.ndarray:
    return np.concatenate(list(out), axis=-1)


def _concatenated_by_coordinate(out: np.ndarray, w_o: np.ndarray) -> np.ndarray:
    """The heads take turns coordinate by coordinate, the rows of the output matrix do not."""
    return out.transpose(1, 2, 0).reshape(out.shape[1], -1) @ w_o.reshape(-1, w_o.shape[-1])


def _reshaped_straight(out: np.ndarray, w_o: np.ndarray) -> np.ndarray:
    return out.reshape(out.shape[1], -1) @ w_o.reshape(-1, w_o.shape[-1])


def _queries_for_keys(x, w_q, w_k, w_v, w_o):
    return definitions.multi_head_attention(x, w_k, w_q, w_v, w_o)


def _values_of_the_first_head(x, w_q, w_k, w_v, w_o):
    return definitions.multi_head_attention(x, w_q, w_k, np.stack([w_v[0]] * len(w_v)), w_o)


def _causal(x, w_q, w_k, w_v, w_o):
    may_attend = definitions.causal_mask(len(x), len(x))
    return definitions.multi_head_attention(x, w_q, w_k, w_v, w_o, may_attend)


def _heads_case(about: str, t: int, h: int, m: int, d: int, e: int) -> Case:
    return Case(
        about=about,
        arguments={
            "x": _normal(t, m),
            "w_q": _normal(h, m, d),
            "w_k": _normal(h, m, d),
            "w_v": _normal(h, m, e),
            "w_o": _normal(h, e, m),
        },
    )


_MULTI_HEAD = Exercise(
    name="multi-head",
    asks=(
        "multi_head(x, w_q, w_k, w_v, w_o) → (t, m), what all heads write, for x (t, m), w_q and "
        "w_k (h, m, d), w_v (h, m, e) and w_o (h, e, m); every token reads every token"
    ),
    definition=definitions.multi_head_attention,
    cases=(
        _heads_case("two heads", t=4, h=2, m=7, d=3, e=5),
        _heads_case("three heads", t=6, h=3, m=5, d=2, e=4),
        _heads_case("a single head", t=5, h=1, m=3, d=4, e=2),
    ),
    mistakes={
        "that is the mean over the {h} heads: what they write is added up.": _heads_with(
            together=lambda out, w_o: _sum_of_heads(out, w_o) / len(w_o)
        ),
        "only the first head writes: the output of all {h} is added up.": _heads_with(
            together=lambda out, w_o: out[0] @ w_o[0]
        ),
        "the scores are not scaled.": _heads_with(scale=lambda n: 1.0),
        "the scale uses m = {m} instead of d = {d}.": _heads_with(scale=lambda n: n["m"] ** -0.5),
        "the scale uses h·d = {hd} instead of d = {d}: each head has scores of its own.": (
            _heads_with(scale=lambda n: n["hd"] ** -0.5)
        ),
        "the scale uses the width of the values, e = {e}, instead of d = {d}.": _heads_with(
            scale=lambda n: n["e"] ** -0.5
        ),
        "the scores are divided by d = {d}, not by its root.": _heads_with(
            scale=lambda n: 1 / n["d"]
        ),
        "the scores are multiplied by the root of d = {d}, not divided by it.": _heads_with(
            scale=lambda n: n["d"] ** 0.5
        ),
        "the softmax is over the heads: the weights of one target over its sources must sum to one "
        "in every head.": _heads_with(weights=lambda scores: softmax(scores, 0)),
        "the softmax is over the targets: the weights of one target over its sources must sum to "
        "one.": _heads_with(weights=lambda scores: softmax(scores, 1)),
        "the scores of all heads are added and have one softmax: each of the {h} heads has its "
        "own.": _heads_with(
            weights=lambda scores: np.broadcast_to(softmax(scores.sum(0)), scores.shape)
        ),
        "the weights of the {h} heads are averaged: each head averages its values with its own.": (
            _heads_with(
                weights=lambda scores: np.broadcast_to(softmax(scores).mean(0), scores.shape)
            )
        ),
        "there is no softmax: the scores themselves average the values.": _heads_with(
            weights=lambda scores: scores
        ),
        "the weights are transposed: targets average, sources are averaged.": _heads_with(
            weights=lambda scores: softmax(scores).transpose(0, 2, 1)
        ),
        "the output matrices come in the wrong order: head i has w_o[i].": _heads_with(
            together=lambda out, w_o: _sum_of_heads(out, w_o[::-1])
        ),
        "the coordinates of the heads take turns where they are concatenated, and the rows of the "
        "output matrix do not: each head's {e} coordinates stay together.": _heads_with(
            together=_concatenated_by_coordinate
        ),
        "(h, t, e) is reshaped straight to (t, h·e), which mixes tokens: move the axis of heads "
        "behind that of tokens first.": _heads_with(together=_reshaped_straight),
        "the heads are concatenated, and the output matrix is left out: the result must have "
        "width m = {m}.": _heads_with(together=lambda out, w_o: _concatenated(out)),
        "the heads are left side by side, and the output matrices are left out: the result must "
        "be (t, m).": _heads_with(together=lambda out, w_o: out),
        "each head is multiplied with its output matrix, but what they write is not added up.": (
            _heads_with(together=lambda out, w_o: np.einsum("hte,hem->htm", out, w_o))
        ),
        "queries and keys have changed places.": _queries_for_keys,
        "all heads have the values of head 0.": _values_of_the_first_head,
        "a causal mask is used: here every token reads every token.": _causal,
        "what a token writes is added to x: that comes later, in the residual stream.": (
            lambda x, *weights: x + definitions.multi_head_attention(x, *weights)
        ),
    },
    numbers=_sizes,
)


# --- the least width --------------------------------------------------------------------------


def _weights(scores: np.ndarray) -> np.ndarray:
    return np.array([definitions.softmax(row) for row in scores])


def _width_case(about: str, scores: np.ndarray) -> Case:
    return Case(about=about, arguments={"p": _weights(scores)})


def _shared(t: int) -> np.ndarray:
    """Queries of width 2 with the same first coordinate."""
    return np.hstack([np.ones((t, 1)), _normal(t, 1)])


def _rank(matrix: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(matrix, tol=1e-9))


def _less(x: np.ndarray, *axes: int) -> np.ndarray:
    """The array less its mean over each of the axes."""
    for axis in axes:
        x = x - x.mean(axis, keepdims=True)
    return x


_LEAST_WIDTH = Exercise(
    name="least-width",
    asks=(
        "least_width(p) → the least width d of queries (t, d) and keys (s, d) whose softmax gives "
        "the positive weights p (t, s)"
    ),
    definition=definitions.least_score_width,
    cases=(
        _width_case("scores of width 2", 2 * _normal(4, 2) @ _normal(2, 6)),
        _width_case("scores of width 1", 2 * _normal(5, 1) @ _normal(1, 3)),
        _width_case("targets of two kinds", 2 * _normal(2, 6)[[0, 1, 0, 1, 1]]),
        _width_case("as many targets as sources, at random", 2 * _normal(4, 4)),
        _width_case("more targets than sources, at random", 2 * _normal(6, 3)),
        _width_case("scores with a part that all targets share", 2 * _shared(5) @ _normal(2, 4)),
    ),
    mistakes={
        "that is the rank of log P: softmax does not notice a number added to a row, and one for "
        "each row is free.": lambda p: _rank(np.log(p)),
        "that is one less than the rank of log P: what softmax forgets need not add to the rank, "
        "and then nothing comes off.": lambda p: _rank(np.log(p)) - 1,
        "that is the rank of P: softmax is not linear, and the scores have another rank.": _rank,
        "that is the rank of P less the means of its rows; the logarithm is missing.": (
            lambda p: _rank(_less(p, 1))
        ),
        "the means of the columns are taken off; softmax forgets what is added to a row.": (
            lambda p: _rank(_less(np.log(p), 0))
        ),
        "the means of rows and of columns are taken off; softmax forgets only what is added to a "
        "row.": lambda p: _rank(_less(np.log(p), 0, 1)),
        "that is one too many: the width that the rows are shifted by is free.": (
            lambda p: _rank(_less(np.log(p), 1)) + 1
        ),
        "that many always suffice, one less than there are sources, but here less may do.": (
            lambda p: p.shape[1] - 1
        ),
        "that is the number of sources: their keys may depend on each other.": (
            lambda p: p.shape[1]
        ),
        "that is the smaller number of rows and columns: the rank may be lower.": (
            lambda p: min(p.shape)
        ),
    },
)


# --- parameters -------------------------------------------------------------------------------


def _parameters(m: int, h: int, g: int, d: int, e: int) -> int:
    queries, keys, values, output = m * h * d, m * g * d, m * g * e, h * e * m
    return queries + keys + values + output


def _parameters_case(about: str, m: int, h: int, g: int, d: int, e: int) -> Case:
    return Case(about=about, arguments={"m": m, "h": h, "g": g, "d": d, "e": e})


_HEAD_PARAMETERS = Exercise(
    name="head-parameters",
    asks=(
        "parameters(m, h, g, d, e) → how many entries the four matrices of one layer's attention "
        "have: h query heads of width d, g key heads of width d, g value heads of width e, and the "
        "output; no biases"
    ),
    definition=_parameters,
    cases=(
        _parameters_case("as many key/value heads as query heads", 12, 3, 3, 4, 4),
        _parameters_case("heads whose widths do not add up to m", 10, 6, 6, 3, 3),
        _parameters_case("fewer key/value heads than query heads", 7, 6, 2, 3, 3),
        _parameters_case("values of another width", 11, 8, 4, 3, 5),
    ),
    mistakes={
        "that is 4 m²: it holds only where the widths of the heads add up to m.": (
            lambda m, h, g, d, e: 4 * m * m
        ),
        "g = {g} key/value heads are counted as if there were h = {h}.": lambda m, h, g, d, e: (
            _parameters(m, h, h, d, e)
        ),
        "h = {h} query heads are counted as if there were g = {g}.": lambda m, h, g, d, e: (
            _parameters(m, g, g, d, e)
        ),
        "the output is counted with g = {g} heads: all h = {h} heads write.": (
            lambda m, h, g, d, e: m * h * d + m * g * d + m * g * e + g * e * m
        ),
        "values and output are counted with d = {d}, the width of queries and keys, in place of "
        "e = {e}.": lambda m, h, g, d, e: _parameters(m, h, g, d, d),
        "only the values are counted with e = {e}; what the output reads has this width too.": (
            lambda m, h, g, d, e: m * h * d + m * g * d + m * g * e + h * d * m
        ),
        "the output matrix is missing.": lambda m, h, g, d, e: m * h * d + m * g * d + m * g * e,
        "the output matrix is counted as m², though it reads h·e = {he} numbers.": (
            lambda m, h, g, d, e: m * h * d + m * g * d + m * g * e + m * m
        ),
        "the queries are counted as m², though they are h·d = {hd} numbers.": (
            lambda m, h, g, d, e: m * m + m * g * d + m * g * e + h * e * m
        ),
        "the heads are not counted: that is one head.": lambda m, h, g, d, e: _parameters(
            m, 1, 1, d, e
        ),
        "the values are missing.": lambda m, h, g, d, e: m * h * d + m * g * d + h * e * m,
        "biases are counted too: here there are none.": lambda m, h, g, d, e: (
            _parameters(m, h, g, d, e) + h * d + g * d + g * e + m
        ),
        "every entry is counted twice.": lambda m, h, g, d, e: 2 * _parameters(m, h, g, d, e),
    },
    numbers=lambda arguments, *results: (
        arguments | {"hd": arguments["h"] * arguments["d"], "he": arguments["h"] * arguments["e"]}
    ),
)

EXERCISES = (_SPLIT_HEADS, _MULTI_HEAD, _LEAST_WIDTH, _HEAD_PARAMETERS)
