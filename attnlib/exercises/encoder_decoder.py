"""The exercises of the chapter on encoder and decoder: definitions, cases and known mistakes.

Source   attnlib/definitions/of_layers.py; the mistakes are those that readers and libraries make
Chapter  chapters/encoder-decoder.md
Axes     attnlib/axes.py
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnlib import definitions
from attnlib.exercises.exact import ExactExercise
from attnlib.exercises.judge import Case, Exercise
from attnlib.exercises.steps import softmax

_RNG = np.random.default_rng(1607_06450)


def _normal(*shape: int) -> np.ndarray:
    return _RNG.normal(size=shape)


# --- layer norm -------------------------------------------------------------------------------


def _norm_with(
    variance: Callable = lambda x: x.var(-1, keepdims=True),
    mean: Callable = lambda x: x.mean(-1, keepdims=True),
    divisor: Callable = lambda variance, epsilon: np.sqrt(variance + epsilon),
) -> Callable:
    """A variant of layer norm that differs in one of its steps."""

    def norm(x, gain, shift, epsilon):
        return (x - mean(x)) / divisor(variance(x), epsilon) * gain + shift

    return norm


def _layer_norm(x, gain, shift, epsilon):
    return definitions.layer_norm(x, gain, shift, epsilon=epsilon)


def _norm_case(about: str, t: int, m: int, epsilon: float, x: np.ndarray | None = None) -> Case:
    x = 3 + 2 * _normal(t, m) if x is None else x
    return Case(
        about=about,
        arguments={"x": x, "gain": 2 + _normal(m), "shift": _normal(m), "epsilon": epsilon},
    )


_LAYER_NORM = Exercise(
    name="layer-norm",
    asks=(
        "layer_norm(x, gain, shift, epsilon) → (t, m), every row of x (t, m) less its mean and "
        "over its standard deviation, where epsilon is added to the variance; then times gain "
        "(m,) plus shift (m,)"
    ),
    definition=_layer_norm,
    cases=(
        _norm_case("rows of four", t=3, m=4, epsilon=0.25),
        _norm_case("a single row", t=1, m=5, epsilon=0.5),
        _norm_case("rows of nearly equal numbers", 2, 3, 0.125, x=5 + 0.1 * _normal(2, 3)),
    ),
    mistakes={
        "the variance divides by m − 1 = {less}; here it divides by m = {m} (torch.var needs "
        "correction=0).": _norm_with(variance=lambda x: x.var(-1, ddof=1, keepdims=True)),
        "ε is missing: a row of equal numbers would be 0/0.": _norm_with(
            divisor=lambda variance, epsilon: np.sqrt(variance)
        ),
        "ε is added to the standard deviation; it belongs to the variance, inside the root.": (
            _norm_with(divisor=lambda variance, epsilon: np.sqrt(variance) + epsilon)
        ),
        "ε is taken off the variance, not added.": _norm_with(
            divisor=lambda variance, epsilon: np.sqrt(np.abs(variance - epsilon))
        ),
        "the rows are divided by their variance, not by its root.": _norm_with(
            divisor=lambda variance, epsilon: variance + epsilon
        ),
        "the means are taken over the tokens: each row has a mean and a variance of its own.": (
            _norm_with(
                variance=lambda x: x.var(0, keepdims=True), mean=lambda x: x.mean(0, keepdims=True)
            )
        ),
        "one mean and one variance serve all rows: each row has its own.": _norm_with(
            variance=lambda x: x.var(), mean=lambda x: x.mean()
        ),
        "the mean is not taken off: what remains is divided by the right number.": _norm_with(
            mean=lambda x: 0.0
        ),
        "that is RMS norm: the mean is not taken off, neither above nor in the root.": _norm_with(
            variance=lambda x: (x**2).mean(-1, keepdims=True), mean=lambda x: 0.0
        ),
        "the mean is taken off above, but the root has the mean square of x itself.": _norm_with(
            variance=lambda x: (x**2).mean(-1, keepdims=True)
        ),
        "the squares are added up, not averaged: the result is √m = √{m} times too small.": (
            _norm_with(
                variance=lambda x: x.shape[-1] * x.var(-1, keepdims=True),
                divisor=lambda variance, epsilon: np.sqrt(variance + epsilon),
            )
        ),
        "gain and shift are missing.": lambda x, gain, shift, epsilon: definitions.layer_norm(
            x, epsilon=epsilon
        ),
        "the gain is missing.": lambda x, gain, shift, epsilon: definitions.layer_norm(
            x, None, shift, epsilon=epsilon
        ),
        "the shift is missing.": lambda x, gain, shift, epsilon: definitions.layer_norm(
            x, gain, epsilon=epsilon
        ),
        "gain and shift have changed places.": lambda x, gain, shift, epsilon: _layer_norm(
            x, shift, gain, epsilon
        ),
        "the shift is added before the gain multiplies: it comes last.": (
            lambda x, gain, shift, epsilon: (
                gain * (definitions.layer_norm(x, epsilon=epsilon) + shift)
            )
        ),
        "x is added to the result: that is the shortcut around a sub-layer.": (
            lambda x, *given: x + _layer_norm(x, *given)
        ),
    },
    numbers=lambda arguments, *results: {
        "m": arguments["x"].shape[1],
        "less": arguments["x"].shape[1] - 1,
    },
)


# --- its Jacobian -----------------------------------------------------------------------------


def _jacobian_with(
    mean_part: Callable = lambda m: np.ones((m, m)) / m,
    own_part: Callable = lambda z, m: np.outer(z, z) / m,
    root: Callable = lambda variance, epsilon: np.sqrt(variance + epsilon),
    root_of_z: Callable = lambda variance, epsilon: np.sqrt(variance + epsilon),
) -> Callable:
    """A variant of the Jacobian that differs in one of its parts."""

    def jacobian(x, epsilon):
        m, variance = len(x), x.var()
        z = (x - x.mean()) / root_of_z(variance, epsilon)
        return (np.eye(m) - mean_part(m) - own_part(z, m)) / root(variance, epsilon)

    return jacobian


def _jacobian_case(about: str, m: int, epsilon: float) -> Case:
    return Case(about=about, arguments={"x": 1 + _normal(m), "epsilon": epsilon})


_JACOBIAN = Exercise(
    name="layer-norm-jacobian",
    asks=(
        "jacobian(x, epsilon) → (m, m), the derivative of entry i of the normed row by entry j of "
        "x (m,); no gain, no shift"
    ),
    definition=lambda x, epsilon: definitions.layer_norm_jacobian(x, epsilon=epsilon),
    cases=(
        _jacobian_case("four numbers", 4, 0.25),
        _jacobian_case("no ε", 5, 0.0),
        _jacobian_case("two numbers", 2, 0.5),
    ),
    mistakes={
        "the mean is taken as a constant: it depends on x too.": _jacobian_with(
            mean_part=lambda m: 0.0
        ),
        "the standard deviation is taken as a constant: it depends on x too.": _jacobian_with(
            own_part=lambda z, m: 0.0
        ),
        "mean and standard deviation are taken as constants: both depend on x.": _jacobian_with(
            mean_part=lambda m: 0.0, own_part=lambda z, m: 0.0
        ),
        "the part of the mean is not divided by m = {m}.": _jacobian_with(
            mean_part=lambda m: np.ones((m, m))
        ),
        "the part of the standard deviation is not divided by m = {m}.": _jacobian_with(
            own_part=lambda z, m: np.outer(z, z)
        ),
        "the part of the standard deviation is added, not taken off.": _jacobian_with(
            own_part=lambda z, m: -np.outer(z, z) / m
        ),
        "the whole is not divided by the standard deviation.": _jacobian_with(
            root=lambda variance, epsilon: 1.0
        ),
        "the whole is divided by the variance, not by its root.": _jacobian_with(
            root=lambda variance, epsilon: variance + epsilon
        ),
        "the normed row inside lacks ε: with it, its squares have a mean below one.": (
            _jacobian_with(root_of_z=lambda variance, epsilon: np.sqrt(variance))
        ),
        "ε is missing.": lambda x, epsilon: definitions.layer_norm_jacobian(x, epsilon=0.0),
        "that is the Jacobian of RMS norm.": lambda x, epsilon: definitions.rms_norm_jacobian(
            x, epsilon=epsilon
        ),
        "the products are those of x less its mean; they must be those of the normed row.": (
            _jacobian_with(root_of_z=lambda variance, epsilon: 1.0)
        ),
    },
    numbers=lambda arguments, *results: {"m": len(arguments["x"])},
)


# --- the width of a gated network -------------------------------------------------------------


def _width_case(about: str, f: int) -> Case:
    return Case(about=about, arguments={"f": f})


_GATED_WIDTH = Exercise(
    name="gated-width",
    asks=(
        "gated_width(f) → the largest inner width with which a gated feed-forward network has at "
        "most as many parameters as a plain one of inner width f; neither has biases"
    ),
    definition=lambda f: 2 * f // 3,
    cases=(
        _width_case("a width that three divides", 3072),
        _width_case("a width that leaves 1", 10),
        _width_case("a width that leaves 2", 11),
    ),
    mistakes={
        "the result is rounded up: the gated network then has more parameters.": lambda f: (
            -(-2 * f // 3)
        ),
        "the result is rounded to the nearest: where that is up, the gated network has more "
        "parameters.": lambda f: round(2 * f / 3),
        "the result is a fraction: a width is a whole number, and a larger one has too many "
        "parameters.": lambda f: 2 * f / 3,
        "that is half of f: the gated network has three matrices, not four.": lambda f: f // 2,
        "that is f itself: the gated network has a third matrix.": lambda f: f,
        "the fraction is upside down: with a third matrix the width must shrink.": lambda f: (
            3 * f // 2
        ),
        "that is a third of f: the two matrices of the plain network are counted as one.": (
            lambda f: f // 3
        ),
        "f is taken for the width of the residual stream, and 4·f for the inner width.": lambda f: (
            8 * f // 3
        ),
        "f is divided by three first and rounded, and then doubled: round once, at the end.": (
            lambda f: 2 * (f // 3)
        ),
    },
)


# --- what the decoder reads -------------------------------------------------------------------


def _shift_right(tokens: list[int], begin: int, end: int) -> tuple[list[int], list[int]]:
    return definitions.shifted([begin, *tokens, end])


_SHIFT_RIGHT = ExactExercise(
    name="shift-right",
    asks=(
        "shift_right(tokens, begin, end) → two lists, what the decoder reads in training and what "
        "it shall answer at each place: it reads the token of the beginning and then the right "
        "ones, and answers the right ones and then the token of the end"
    ),
    definition=_shift_right,
    cases=(
        Case(about="three tokens", arguments={"tokens": [7, 5, 9], "begin": 1, "end": 2}),
        Case(about="a token twice", arguments={"tokens": [4, 4, 3, 8], "begin": 0, "end": 6}),
        Case(about="a single token", arguments={"tokens": [5], "begin": 3, "end": 1}),
        Case(about="no token", arguments={"tokens": [], "begin": 1, "end": 2}),
    ),
    mistakes={
        "what is read and what is answered are the same: the decoder would learn to copy the token "
        "that it has just read.": lambda tokens, begin, end: (
            [begin, *tokens],
            [begin, *tokens],
        ),
        "both lists hold everything, from the beginning to the end: they must be shifted by one "
        "place.": lambda tokens, begin, end: ([begin, *tokens, end], [begin, *tokens, end]),
        "the lists have changed places: first what is read, then what is answered.": (
            lambda tokens, begin, end: _shift_right(tokens, begin, end)[::-1]
        ),
        "the end is missing from what is answered: the decoder would never learn to stop.": (
            lambda tokens, begin, end: ([begin, *tokens], list(tokens))
        ),
        "the end is missing, and the last token is not read: the decoder would never learn to "
        "stop.": lambda tokens, begin, end: (([begin, *tokens])[:-1], list(tokens)),
        "the beginning is missing from what is read: nothing would stand where the first token is "
        "to be answered.": lambda tokens, begin, end: (list(tokens), [*tokens, end]),
        "the tokens are shifted, but neither the beginning nor the end is there.": (
            lambda tokens, begin, end: (list(tokens[:-1]), list(tokens[1:]))
        ),
        "the end is read, though nothing follows it: both lists have one token more than there are "
        "tokens.": lambda tokens, begin, end: ([begin, *tokens, end], [*tokens, end]),
        "begin and end have changed places.": lambda tokens, begin, end: _shift_right(
            tokens, end, begin
        ),
        "the tokens that are read stand in reverse order.": lambda tokens, begin, end: (
            [begin, *tokens[::-1]],
            [*tokens, end],
        ),
    },
)


# --- cross-attention --------------------------------------------------------------------------


def _cross_with(
    scale: Callable = lambda d: d**-0.5,
    weights: Callable = softmax,
    keys_of: Callable = lambda x, read: read,
    values_of: Callable = lambda x, read: read,
    together: Callable = lambda out, w_o: np.einsum("hte,hem->tm", out, w_o),
) -> Callable:
    """A variant of cross-attention that differs in one of its steps."""

    def attend(x, read, w_q, w_k, w_v, w_o):
        q = np.einsum("tm,hmd->htd", x, w_q)
        k = np.einsum("sm,hmd->hsd", keys_of(x, read), w_k)
        v = np.einsum("sm,hme->hse", values_of(x, read), w_v)
        scores = scale(q.shape[-1]) * np.einsum("htd,hsd->hts", q, k)
        return together(weights(scores) @ v, w_o)

    return attend


def _under(mask: Callable) -> Callable:
    def attend(x, read, *matrices):
        return definitions.cross_attention(x, read, *matrices, mask(len(x), len(read)))

    return attend


def _from_the_upper_left(n_targets: int, n_sources: int) -> np.ndarray:
    """The diagonal begins in the first row and column: target t reads the sources up to t."""
    return np.tri(n_targets, n_sources, dtype=bool)


def _cross_case(about: str, t: int, s: int, h: int, m: int, d: int, e: int) -> Case:
    return Case(
        about=about,
        arguments={
            "x": _normal(t, m),
            "read": _normal(s, m),
            "w_q": _normal(h, m, d),
            "w_k": _normal(h, m, d),
            "w_v": _normal(h, m, e),
            "w_o": _normal(h, e, m),
        },
    )


def _cross_numbers(arguments: dict[str, Any], *results: np.ndarray) -> dict[str, int]:
    h, m, d = arguments["w_q"].shape
    sizes = {"t": len(arguments["x"]), "s": len(arguments["read"]), "h": h, "m": m, "d": d}
    return sizes | {"e": arguments["w_v"].shape[-1]}


_CROSS_ATTENTION = Exercise(
    name="cross-attention",
    asks=(
        "cross_attention(x, read, w_q, w_k, w_v, w_o) → (t, m), what all heads write, for the rows "
        "x (t, m) of the decoder and the output read (s, m) of the encoder; w_q and w_k (h, m, d), "
        "w_v (h, m, e), w_o (h, e, m)"
    ),
    definition=definitions.cross_attention,
    cases=(
        _cross_case("more sources than targets", t=3, s=5, h=2, m=4, d=3, e=6),
        _cross_case("as many sources as targets", t=4, s=4, h=2, m=5, d=3, e=2),
        _cross_case("a single target", t=1, s=6, h=3, m=4, d=2, e=5),
        _cross_case("more targets than sources", t=6, s=2, h=2, m=3, d=4, e=5),
    ),
    mistakes={
        "the roles are swapped: here the encoder asks and reads the decoder. The result must have "
        "t = {t} rows.": lambda x, read, *matrices: definitions.cross_attention(read, x, *matrices),
        "the decoder reads itself: keys and values come from read.": lambda x, read, *matrices: (
            definitions.cross_attention(x, x, *matrices)
        ),
        "the encoder reads itself: the queries come from x.": lambda x, read, *matrices: (
            definitions.cross_attention(read, read, *matrices)
        ),
        "keys come from read, but values from x: both come from read.": _cross_with(
            values_of=lambda x, read: x
        ),
        "values come from read, but keys from x: both come from read.": _cross_with(
            keys_of=lambda x, read: x
        ),
        "x and read are one behind the other, and all of it is read: only read is.": _cross_with(
            keys_of=lambda x, read: np.vstack([x, read]),
            values_of=lambda x, read: np.vstack([x, read]),
        ),
        "a causal mask is used, its diagonal ending in the last row and column: every target may "
        "read all s = {s} sources, since the source is known as a whole.": _under(
            definitions.causal_mask
        ),
        "a causal mask is used, its diagonal beginning in the first row and column: every target "
        "may read all s = {s} sources, since the source is known as a whole.": _under(
            _from_the_upper_left
        ),
        "the softmax is over the targets: the weights of one target over its sources must sum to "
        "one.": _cross_with(weights=lambda scores: softmax(scores, 1)),
        "the softmax is over the heads: the weights of one target over its sources must sum to one "
        "in every head.": _cross_with(weights=lambda scores: softmax(scores, 0)),
        "there is no softmax: the scores themselves average the values.": _cross_with(
            weights=lambda scores: scores
        ),
        "the scores are not scaled.": _cross_with(scale=lambda d: 1.0),
        "the scores are divided by d = {d}, not by its root.": _cross_with(scale=lambda d: 1 / d),
        "only the first head writes: the output of all {h} is added up.": _cross_with(
            together=lambda out, w_o: out[0] @ w_o[0]
        ),
        "that is the mean over the {h} heads: what they write is added up.": _cross_with(
            together=lambda out, w_o: np.einsum("hte,hem->tm", out, w_o) / len(w_o)
        ),
        "(h, t, e) is reshaped straight to (t, h·e), which mixes tokens: move the axis of heads "
        "behind that of tokens first.": _cross_with(
            together=lambda out, w_o: out.reshape(out.shape[1], -1) @ w_o.reshape(-1, w_o.shape[-1])
        ),
        "the output matrices are left out: the result must have width m = {m}.": _cross_with(
            together=lambda out, w_o: np.concatenate(list(out), axis=-1)
        ),
        "keys and queries have changed matrices.": lambda x, read, w_q, w_k, w_v, w_o: (
            definitions.cross_attention(x, read, w_k, w_q, w_v, w_o)
        ),
        "what is read is added to x: that comes later, in the residual stream.": (
            lambda x, *rest: x + definitions.cross_attention(x, *rest)
        ),
    },
    numbers=_cross_numbers,
)


# --- Dobrushin's coefficient ------------------------------------------------------------------


def _distances(p: np.ndarray) -> np.ndarray:
    """The entries of p_i − p_j without their signs, for every two rows: (i, j, s)."""
    return np.abs(p[:, None] - p[None])


def _weights_case(about: str, t: int, s: int, spread: float) -> Case:
    return Case(about=about, arguments={"p": softmax(spread * _normal(t, s))})


_DOBRUSHIN = Exercise(
    name="dobrushin",
    asks=(
        "dobrushin(p) → the coefficient of the weights p (t, s): half of the largest distance of "
        "two rows, where the distance sums over the sources what they differ by, without signs"
    ),
    definition=definitions.dobrushin,
    cases=(
        _weights_case("rows that differ much", 4, 3, 2.0),
        _weights_case("rows that differ little", 3, 5, 0.5),
        Case(
            about="a first row between the others",
            arguments={
                "p": np.array([[0.25, 0.5, 0.25, 0.0], [0.5, 0.5, 0, 0], [0, 0.5, 0.25, 0.25]])
            },
        ),
        Case(
            about="rows that share no source",
            arguments={"p": np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.25, 0.75]])},
        ),
        Case(about="equal rows", arguments={"p": np.full((2, 4), 0.25)}),
        Case(about="a single row", arguments={"p": np.array([[0.25, 0.75]])}),
    ),
    mistakes={
        "the half is missing: two rows that share no source have distance 2, and the coefficient "
        "1.": lambda p: _distances(p).sum(-1).max(),
        "the columns are compared, not the rows: a row is what a target reads.": lambda p: (
            _distances(p.T).sum(-1).max() / 2
        ),
        "the mean over all pairs is taken, not the largest.": lambda p: (
            _distances(p).sum(-1).mean() / 2
        ),
        "only rows that stand beside each other are compared: all pairs count.": lambda p: (
            max(np.abs(np.diff(p, axis=0)).sum(-1), default=0.0) / 2
        ),
        "only the first row is compared with the others: all pairs count.": lambda p: (
            _distances(p)[0].sum(-1).max() / 2
        ),
        "the largest difference is taken, in place of the sum over the sources.": lambda p: (
            _distances(p).max() / 2
        ),
        "the distance is Euclidean: what the rows differ by is added up without signs.": lambda p: (
            np.sqrt((_distances(p) ** 2).sum(-1)).max() / 2
        ),
        "that is one less the coefficient: what two rows share, where it is least.": lambda p: (
            1 - _distances(p).sum(-1).max() / 2
        ),
        "the signs are kept: both rows sum to one, so that nothing remains.": lambda p: (
            (p[:, None] - p[None]).sum(-1).max() / 2
        ),
        "the rows are compared with their mean, not with each other.": lambda p: (
            np.abs(p - p.mean(0)).sum(-1).max() / 2
        ),
    },
)

EXERCISES = (
    _LAYER_NORM,
    _JACOBIAN,
    _GATED_WIDTH,
    _SHIFT_RIGHT,
    _CROSS_ATTENTION,
    _DOBRUSHIN,
)
