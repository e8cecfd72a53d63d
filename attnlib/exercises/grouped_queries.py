"""The exercises of the chapter on shared key/value heads: definitions, cases and known mistakes.

Source   attnlib/definitions/of_shared_heads.py; the mistakes are those that readers and libraries
         make
Chapter  chapters/grouped-query-attention.md
Axes     attnlib/axes.py
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnlib import definitions
from attnlib.exercises.judge import Case, Exercise

_RNG = np.random.default_rng(2305_13245)


def _normal(*shape: int) -> np.ndarray:
    return _RNG.normal(size=shape)


# --- who reads whom ---------------------------------------------------------------------------


def _reads_with(rule: Callable) -> Callable:
    """A variant that finds the head by another rule: of all i at once, p and g."""
    return lambda h, g: rule(np.arange(h), h // g, g)


def _reads_case(about: str, h: int, g: int) -> Case:
    return Case(about=about, arguments={"h": h, "g": g})


def _reads_numbers(arguments: dict[str, int], *results: np.ndarray) -> dict[str, int]:
    return {**arguments, "p": arguments["h"] // arguments["g"]}


_KV_HEAD_OF = Exercise(
    name="kv-head-of",
    asks=(
        "reads(h, g) → an array of h whole numbers: which of the g key/value heads, counted from "
        "0, each query head reads; g divides h, each key/value head has equally many readers, "
        "those are neighbours, and query head 0 reads key/value head 0"
    ),
    definition=definitions.kv_heads_read,
    cases=(
        _reads_case("twelve query heads, three key/value heads", 12, 3),
        _reads_case("ten query heads, five key/value heads", 10, 5),
        _reads_case("a single key/value head", 7, 1),
        _reads_case("as many key/value heads as query heads", 4, 4),
    ),
    mistakes={
        "the heads take turns: query heads that read the same key/value head must be neighbours.": (
            _reads_with(lambda i, p, g: i % g)
        ),
        "as many neighbours share as there are key/value heads, g = {g}: h = {h} query heads on "
        "g = {g} key/value heads make p = {p} for each.": _reads_with(lambda i, p, g: i // g),
        "that is the place of each query head among the p = {p} that share.": _reads_with(
            lambda i, p, g: i % p
        ),
        "key/value heads are counted from 0: all numbers are one too high.": _reads_with(
            lambda i, p, g: i // p + 1
        ),
        "query head 0 reads alone and every later set begins one too late: that rule is for heads "
        "that are counted from 1.": _reads_with(lambda i, p, g: -(-i // p)),
        "every set after the first begins one query head too early, and the last query head reads "
        "a head {g} that does not exist.": _reads_with(lambda i, p, g: (i + 1) // p),
        "the sets are cut in the middle, since a quotient is rounded to the nearest number.": (
            _reads_with(lambda i, p, g: np.rint(i / p))
        ),
        "those are fractions: a head is read as a whole.": _reads_with(lambda i, p, g: i / p),
        "the order is reversed: the first query heads read key/value head 0.": _reads_with(
            lambda i, p, g: g - 1 - i // p
        ),
        "each query head reads a head of its own: there are only g = {g}.": _reads_with(
            lambda i, p, g: i
        ),
        "all read key/value head 0: there are g = {g}.": _reads_with(lambda i, p, g: 0 * i),
        "the first g = {g} query heads read one head each, and the rest all share the last: each "
        "key/value head has p = {p} readers.": _reads_with(lambda i, p, g: np.minimum(i, g - 1)),
        "that is one number for each key/value head: each of the h = {h} query heads has one.": (
            _reads_with(lambda i, p, g: np.arange(g))
        ),
        "that is the list of readers of each key/value head; the other way round is asked for, a "
        "number for each query head.": _reads_with(lambda i, p, g: i.reshape(g, p)),
        "that is a table of who reads whom; a number for each query head is asked for.": (
            _reads_with(lambda i, p, g: np.repeat(np.eye(g), p, axis=0))
        ),
    },
    numbers=_reads_numbers,
)


# --- pooling ----------------------------------------------------------------------------------


def _pooled_with(
    sets: Callable = lambda weights, g: weights.reshape(g, -1, *weights.shape[1:]),
    together: Callable = lambda sets, h: sets.mean(1),
) -> Callable:
    """A variant that forms other sets of matrices (g, p, m, d), or another matrix of each."""
    return lambda weights, g: together(sets(weights, g), len(weights))


def _heads_in_turns(weights: np.ndarray, g: int) -> np.ndarray:
    return np.stack([weights[j::g] for j in range(g)])


def _reshaped_straight(weights: np.ndarray, g: int) -> np.ndarray:
    """Sets of numbers that lie side by side in memory, (g, p, m, d) to look at."""
    return np.moveaxis(weights.reshape(g, *weights.shape[1:], -1), -1, 1)


def _with_the_norm_of_the_heads(sets: np.ndarray, h: int) -> np.ndarray:
    mean = sets.mean(1)
    norms = np.linalg.norm(sets, axis=(2, 3)).mean(1)
    return mean * (norms / np.linalg.norm(mean, axis=(1, 2)))[:, None, None]


def _pooled_case(about: str, h: int, m: int, d: int, g: int) -> Case:
    return Case(about=about, arguments={"weights": _normal(h, m, d), "g": g})


def _pooled_numbers(arguments: dict[str, Any], *results: np.ndarray) -> dict[str, int]:
    h, m, d = arguments["weights"].shape
    g = arguments["g"]
    return {"h": h, "m": m, "d": d, "g": g, "p": h // g}


_POOL_HEADS = Exercise(
    name="pool-heads",
    asks=(
        "pooled(weights, g) → matrices (g, m, d) of g key/value heads, for those of h heads, "
        "weights (h, m, d): each is the mean of the h/g matrices whose query heads will read it"
    ),
    definition=definitions.pooled_heads,
    cases=(
        _pooled_case("three heads become one, twice", h=6, m=5, d=4, g=2),
        _pooled_case("two heads become one, four times", h=8, m=5, d=3, g=4),
        _pooled_case("all heads become one", h=4, m=3, d=5, g=1),
        _pooled_case("every head stays", h=3, m=4, d=2, g=3),
    ),
    mistakes={
        "that is the sum of p = {p} matrices: their mean is asked for.": _pooled_with(
            together=lambda sets, h: sets.sum(1)
        ),
        "the first matrix of each set is kept, and p = {p} make the mean.": _pooled_with(
            together=lambda sets, h: sets[:, 0]
        ),
        "the last matrix of each set is kept, and p = {p} make the mean.": _pooled_with(
            together=lambda sets, h: sets[:, -1]
        ),
        "the sets are heads j, j + {g}, …: query heads that read the same head are neighbours.": (
            _pooled_with(sets=_heads_in_turns)
        ),
        "numbers that lie side by side in memory make the mean, and they belong to one matrix: the "
        "axis of heads, the first, is the one to be parted.": _pooled_with(sets=_reshaped_straight),
        "p and g have changed places: g = {g} means of p = {p} heads each are asked for.": (
            lambda weights, g: definitions.pooled_heads(weights, len(weights) // g)
        ),
        "p = {p} matrices are left over, each a mean over the sets: the mean is within a set.": (
            _pooled_with(together=lambda sets, h: sets.mean(0))
        ),
        "the mean of all h = {h} heads stands in every place: each set has its own.": _pooled_with(
            together=lambda sets, h: np.broadcast_to(sets.mean((0, 1)), sets[:, 0].shape)
        ),
        "that is a single matrix, the mean of all h = {h} heads: g = {g} are asked for.": (
            _pooled_with(together=lambda sets, h: sets.mean((0, 1)))
        ),
        "the mean is over the m = {m} rows of each matrix: it is over heads.": _pooled_with(
            together=lambda sets, h: sets.mean(2)
        ),
        "the mean is over the d = {d} columns of each matrix: it is over heads.": _pooled_with(
            together=lambda sets, h: sets.mean(3)
        ),
        "the mean is over the m = {m} rows of every head, and no heads are pooled.": (
            lambda weights, g: weights.mean(1)
        ),
        "the mean is over the d = {d} columns of every head, and no heads are pooled.": (
            lambda weights, g: weights.mean(2)
        ),
        "the sum is divided by h = {h}: there are p = {p} matrices in it.": _pooled_with(
            together=lambda sets, h: sets.sum(1) / h
        ),
        "the sum is divided by g = {g}: there are p = {p} matrices in it.": _pooled_with(
            together=lambda sets, h: sets.sum(1) / len(sets)
        ),
        "the sum is divided by the root of p = {p}: that keeps the size of independent matrices, "
        "and is not their mean.": _pooled_with(
            together=lambda sets, h: sets.sum(1) / np.sqrt(sets.shape[1])
        ),
        "the means are stretched until they are as long as the matrices: the mean itself, which is "
        "shorter, is nearest to all of them.": _pooled_with(together=_with_the_norm_of_the_heads),
        "the means are divided by their norms: nothing is normalised.": _pooled_with(
            together=lambda sets, h: (
                sets.mean(1) / np.linalg.norm(sets.mean(1), axis=(1, 2), keepdims=True)
            )
        ),
        "that is the middle value of each entry: their mean is asked for.": _pooled_with(
            together=lambda sets, h: np.median(sets, axis=1)
        ),
        "each mean stands p = {p} times, once for each query head: g = {g} matrices are kept.": (
            _pooled_with(together=lambda sets, h: np.repeat(sets.mean(1), sets.shape[1], axis=0))
        ),
        "the means come in the reverse order.": _pooled_with(
            together=lambda sets, h: sets.mean(1)[::-1]
        ),
    },
    numbers=_pooled_numbers,
)


# --- a step with shared heads -----------------------------------------------------------------


def _step_with(
    elements: Callable = lambda h, g, d, e, n: n * g * (d + e),
    flops: Callable = lambda h, g, d, e, n: 2 * n * h * (d + e),
    ratio: Callable = lambda flops, elements, g: flops / elements,
) -> Callable:
    """A variant of the three counts that differs in one of them, or in two."""

    def step(h, g, d, e, n):
        given = h, g, d, e, n
        return elements(*given), flops(*given), ratio(flops(*given), elements(*given), g)

    return step


def _shared_step_case(about: str, h: int, g: int, d: int, e: int, n: int) -> Case:
    return Case(about=about, arguments={"h": h, "g": g, "d": d, "e": e, "n": n})


_SHARED_STEP = Exercise(
    name="shared-step",
    asks=(
        "step(h, g, d, e, n) → three numbers for one layer that keeps n tokens, with g key heads "
        "of width d and g value heads of width e: the elements that it keeps; the FLOPs of the "
        "scores and the weighted sums of one new token in all of h query heads, when it reads "
        "these n, a multiply-add counted as two; and the FLOPs for each element, which is read "
        "once however many heads use it"
    ),
    definition=definitions.shared_step,
    cases=(
        _shared_step_case("three query heads on each key/value head", 6, 2, 5, 4, 7),
        _shared_step_case("four query heads on each key/value head", 12, 3, 2, 7, 5),
        _shared_step_case("a single key/value head", 5, 1, 4, 3, 6),
        _shared_step_case("as many key/value heads as query heads", 4, 4, 3, 6, 2),
    ),
    mistakes={
        "the FLOPs are counted for g = {g} heads: what is shared is kept once, but each of the "
        "h = {h} query heads still computes.": _step_with(
            flops=lambda h, g, d, e, n: 2 * n * g * (d + e)
        ),
        "keys and values are kept for all h = {h} query heads: only g = {g} heads have them.": (
            _step_with(elements=lambda h, g, d, e, n: n * h * (d + e))
        ),
        "the two numbers of heads have changed places: g = {g} are kept, and h = {h} compute.": (
            _step_with(
                elements=lambda h, g, d, e, n: n * h * (d + e),
                flops=lambda h, g, d, e, n: 2 * n * g * (d + e),
            )
        ),
        "one key/value head is kept: there are g = {g}.": _step_with(
            elements=lambda h, g, d, e, n: n * (d + e)
        ),
        "the values are missing among the elements: that is what the keys take.": _step_with(
            elements=lambda h, g, d, e, n: n * g * d
        ),
        "the keys are missing among the elements: that is what the values take.": _step_with(
            elements=lambda h, g, d, e, n: n * g * e
        ),
        "values are taken to be as wide as keys among the elements: here d = {d} and e = {e}.": (
            _step_with(elements=lambda h, g, d, e, n: 2 * n * g * d)
        ),
        "a factor of two too many among the elements: keys and values are both there already, "
        "and it is not bytes that are asked for.": _step_with(
            elements=lambda h, g, d, e, n: 2 * n * g * (d + e)
        ),
        "the widths of keys and values are multiplied: they stand beside each other.": _step_with(
            elements=lambda h, g, d, e, n: n * g * d * e
        ),
        "the elements are those of one token: n = {n} are kept.": _step_with(
            elements=lambda h, g, d, e, n: g * (d + e)
        ),
        "those are multiply-adds: each is two FLOPs.": _step_with(
            flops=lambda h, g, d, e, n: n * h * (d + e)
        ),
        "the weighted sums are missing: those are the FLOPs of the scores.": _step_with(
            flops=lambda h, g, d, e, n: 2 * n * h * d
        ),
        "the scores are missing: those are the FLOPs of the weighted sums.": _step_with(
            flops=lambda h, g, d, e, n: 2 * n * h * e
        ),
        "values are taken to be as wide as keys in the FLOPs: here d = {d} and e = {e}.": (
            _step_with(flops=lambda h, g, d, e, n: 4 * n * h * d)
        ),
        "values are taken to be as wide as keys, in elements and in FLOPs: here d = {d} and "
        "e = {e}.": _step_with(
            elements=lambda h, g, d, e, n: 2 * n * g * d, flops=lambda h, g, d, e, n: 4 * n * h * d
        ),
        "only keys are counted, as elements and in the scores: values are kept and summed too.": (
            _step_with(
                elements=lambda h, g, d, e, n: n * g * d, flops=lambda h, g, d, e, n: 2 * n * h * d
            )
        ),
        "the FLOPs are those of a single query head: there are h = {h}.": _step_with(
            flops=lambda h, g, d, e, n: 2 * n * (d + e)
        ),
        "the FLOPs are those for one token that is read: there are n = {n}.": _step_with(
            flops=lambda h, g, d, e, n: 2 * h * (d + e)
        ),
        "the FLOPs are those of n = {n} new tokens that all read each other: one is new.": (
            _step_with(flops=lambda h, g, d, e, n: 2 * n * n * h * (d + e))
        ),
        "the FLOPs are those of n = {n} new tokens behind a causal mask: one is new.": _step_with(
            flops=lambda h, g, d, e, n: n * (n + 1) * h * (d + e)
        ),
        "each multiply-add is counted four times; it is two FLOPs.": _step_with(
            flops=lambda h, g, d, e, n: 4 * n * h * (d + e)
        ),
        "the first two numbers are right, and the third is that of heads that share nothing: one "
        "element is used by p = {p} query heads.": _step_with(ratio=lambda flops, elements, g: 2.0),
        "the first two numbers are right, and the third is half of it: a multiply-add is two "
        "FLOPs, also for one element.": _step_with(
            ratio=lambda flops, elements, g: flops / elements / 2
        ),
        "the first two numbers are right, and the third is twice as much: scores read keys, and "
        "sums read values. Either all FLOPs go with all elements, or half with half.": _step_with(
            ratio=lambda flops, elements, g: 2 * flops / elements
        ),
        "the first two numbers are right, and the third is upside down: those are elements for "
        "each FLOP.": _step_with(ratio=lambda flops, elements, g: elements / flops),
        "the first two numbers are right, and the third counts the elements of one key/value head "
        "against the FLOPs of all: there are g = {g}.": _step_with(
            ratio=lambda flops, elements, g: g * flops / elements
        ),
        "FLOPs and elements stand in each other's place: the elements come first.": (
            lambda *given: tuple(definitions.shared_step(*given)[k] for k in (1, 0, 2))
        ),
        "only the elements are wrong, with a factor of two too many: keys and values are both "
        "there already, and it is not bytes that are asked for.": _step_with(
            elements=lambda h, g, d, e, n: 2 * n * g * (d + e),
            ratio=lambda flops, elements, g: 2 * flops / elements,
        ),
    },
    numbers=_reads_numbers,
)


# --- a shared factor --------------------------------------------------------------------------


def _sizes(matrix: np.ndarray) -> np.ndarray:
    """The singular values, the largest first."""
    return np.linalg.svd(matrix, compute_uv=False)


def _side_by_side(weights: np.ndarray) -> np.ndarray:
    return np.hstack(list(weights))


def _error_with(
    matrix: Callable = _side_by_side,
    of: Callable = lambda sizes, rank: (sizes[rank:] ** 2).sum(),
    after: Callable = lambda error, weights: error,
) -> Callable:
    """A variant that decomposes another matrix, adds up other numbers, or divides the sum."""
    return lambda weights, rank: after(of(_sizes(matrix(weights)), rank), weights)


def _each_with_a_factor_of_its_own(weights: np.ndarray, rank: int) -> float:
    return sum((_sizes(w)[rank:] ** 2).sum() for w in weights)


def _without_the_smallest(weights: np.ndarray, rank: int) -> float:
    """What eigenvalues give that are taken to come in falling order."""
    matrix = _side_by_side(weights)
    return np.linalg.eigvalsh(matrix @ matrix.T)[rank:].sum()


def _counted_from_the_end(sizes: np.ndarray, rank: int) -> float:
    """For rank = len(sizes) this is all of them."""
    return (sizes[-(len(sizes) - rank) :] ** 2).sum()


def _next_alone(sizes: np.ndarray, rank: int) -> float:
    return (sizes[rank : rank + 1] ** 2).sum()


def _opposite(m: int, d: int) -> np.ndarray:
    w = _normal(m, d)
    return np.stack([w, -w])


def _error_case(about: str, weights: np.ndarray, rank: int) -> Case:
    # small entries keep sums of squares of order one, and float32 within the tolerance
    return Case(about=about, arguments={"weights": 0.3 * weights, "rank": rank})


def _error_numbers(arguments: dict[str, Any], *results: np.ndarray) -> dict[str, int]:
    p, m, d = arguments["weights"].shape
    return {"p": p, "m": m, "d": d, "rank": arguments["rank"]}


_SHARED_RANK = Exercise(
    name="shared-rank",
    asks=(
        "error(weights, rank) → the least sum of squared entries by which matrices A B_i can miss "
        "the p matrices W_i of weights (p, m, d), where A (m, rank) is shared, and each W_i has a "
        "B_i (rank, d) of its own"
    ),
    definition=definitions.shared_factor_error,
    cases=(
        _error_case("two tall matrices", _normal(2, 7, 3), 2),
        _error_case("three wide matrices", _normal(3, 4, 5), 3),
        _error_case("more rows than columns in all", _normal(4, 9, 2), 5),
        _error_case("two matrices whose mean is zero", _opposite(5, 3), 2),
        _error_case("nothing shared", _normal(3, 5, 2), 0),
        _error_case("a factor as wide as there are rows", _normal(3, 4, 2), 4),
    ),
    mistakes={
        "the matrices stand below one another: what rows have in common is a B for all p = {p}, "
        "and it is A that is shared.": _error_with(matrix=lambda weights: np.vstack(list(weights))),
        "(p, m, d) is reshaped straight to (m, p·d), which mixes rows of different matrices: row j "
        "has row j of each of the p = {p}.": _error_with(
            matrix=lambda weights: weights.reshape(weights.shape[1], -1)
        ),
        "each matrix has an A of its own: one serves all p = {p}.": _each_with_a_factor_of_its_own,
        "the sum of the matrices is decomposed: each of the p = {p} has a B of its own.": (
            _error_with(matrix=lambda weights: weights.sum(0))
        ),
        "the mean of the matrices is decomposed: each of the p = {p} has a B of its own.": (
            _error_with(matrix=lambda weights: weights.mean(0))
        ),
        "the singular values are added as they are: squared entries are asked for.": _error_with(
            of=lambda sizes, rank: sizes[rank:].sum()
        ),
        "that is the root of what is asked for: the Frobenius norm of what is missed.": (
            _error_with(after=lambda error, weights: np.sqrt(error))
        ),
        "that is what a factor of {rank} columns can hold: what it misses is asked for.": (
            _error_with(of=lambda sizes, rank: (sizes[:rank] ** 2).sum())
        ),
        "only the largest number that is missed counts, squared: all that are missed add up.": (
            _error_with(of=_next_alone)
        ),
        "that is the largest number that is missed, the spectral norm: the squares of all of them "
        "add up.": _error_with(of=lambda sizes, rank: sizes[rank : rank + 1].sum()),
        "one too few is held: A has {rank} columns.": _error_with(
            of=lambda sizes, rank: (sizes[max(rank - 1, 0) :] ** 2).sum()
        ),
        "one too many is held: A has {rank} columns.": _error_with(
            of=lambda sizes, rank: (sizes[rank + 1 :] ** 2).sum()
        ),
        "the fourth powers are added: eigenvalues of a matrix times its transpose are squares "
        "already.": _error_with(of=lambda sizes, rank: (sizes[rank:] ** 4).sum()),
        "the smallest are held and the largest are missed: eigenvalues come in rising order.": (
            _without_the_smallest
        ),
        "where nothing is missed, all is counted: a slice from −0 on is everything.": _error_with(
            of=_counted_from_the_end
        ),
        "that is the fraction that is missed: the sum of squares itself is asked for.": _error_with(
            after=lambda error, weights: error / (weights**2).sum()
        ),
        "that is the mean over all entries: their sum is asked for.": _error_with(
            after=lambda error, weights: error / weights.size
        ),
        "that is the mean over the p = {p} matrices: their sum is asked for.": _error_with(
            after=lambda error, weights: error / len(weights)
        ),
        "that is what their mean misses: a B for each is better.": lambda weights, rank: (
            (weights - weights.mean(0)) ** 2
        ).sum(),
    },
    numbers=_error_numbers,
)

EXERCISES = (_KV_HEAD_OF, _POOL_HEADS, _SHARED_STEP, _SHARED_RANK)
