"""The exercises of the chapter on positions: definitions, cases and known mistakes.

Source   attnlib/definitions/of_positions.py; the mistakes are those that readers and libraries make
Chapter  chapters/positions.md
Axes     attnlib/axes.py
"""

from collections.abc import Callable

import numpy as np

from attnlib import definitions
from attnlib.exercises.judge import Case, Exercise

_RNG = np.random.default_rng(2104_09864)


def _exponents(width: int) -> np.ndarray:
    """−2i/m for the pairs i: the power of the base that is the frequency."""
    return -np.arange(0, width, 2) / width


# --- sinusoids --------------------------------------------------------------------------------


def _sinusoids(
    exponents: Callable = _exponents,
    first: Callable = np.sin,
    second: Callable = np.cos,
    of_positions: Callable = lambda positions: positions,
    halves: bool = False,
) -> Callable:
    """A variant of the encoding that differs in one of its parts."""

    def encoding(positions, width):
        frequencies = 10_000.0 ** exponents(width)
        angles = of_positions(np.asarray(positions, dtype=np.float64))[:, None] * frequencies
        parts = [first(angles), second(angles)]
        if halves:
            return np.concatenate(parts, axis=-1)
        return np.stack(parts, axis=-1).reshape(len(positions), width)

    return encoding


def _one_frequency_a_coordinate(positions, width):
    angles = np.asarray(positions)[:, None] * 10_000.0 ** (-np.arange(width) / width)
    return np.where(np.arange(width) % 2 == 0, np.sin(angles), np.cos(angles))


_SINUSOIDAL = Exercise(
    name="sinusoidal",
    asks=(
        "sinusoidal(positions, width) → the encodings (t, m) of positions (t,), with base 10000: "
        "sin(p ω_i) in coordinate 2i, cos(p ω_i) in coordinate 2i + 1, ω_i = 10000^(−2i/m)"
    ),
    definition=definitions.sinusoidal_encoding,
    cases=(
        Case(about="positions from 0", arguments={"positions": np.arange(5), "width": 8}),
        Case(
            about="positions in no order",
            arguments={"positions": np.array([7, 31, 2]), "width": 6},
        ),
        Case(about="one pair", arguments={"positions": np.array([3, 4, 1, 9]), "width": 2}),
    ),
    mistakes={
        "the 2 in the exponent is there twice: for pair i the frequency is 10000^(−2i/m), and a "
        "loop over 0, 2, 4, … has the 2 already.": _sinusoids(lambda m: 2 * _exponents(m)),
        "the 2 in the exponent is missing: for pair i the frequency is 10000^(−2i/m).": _sinusoids(
            lambda m: _exponents(m) / 2
        ),
        "the sign of the exponent is missing: frequencies fall with i.": _sinusoids(
            lambda m: -_exponents(m)
        ),
        "the exponent runs to −1 in some libraries, −i/(m/2 − 1); here it is −2i/m and stops "
        "short of it.": _sinusoids(lambda m: -np.arange(m // 2) / max(m // 2 - 1, 1)),
        "all pairs have the same frequency.": _sinusoids(lambda m: np.zeros(m // 2)),
        "the sine of a pair and its cosine must have the same frequency: both take the exponent of "
        "the pair, not of their own coordinate.": _one_frequency_a_coordinate,
        "sine and cosine have changed places: the sine stands first, in the even coordinates.": (
            _sinusoids(first=np.cos, second=np.sin)
        ),
        "all sines stand before all cosines: each cosine belongs beside its sine, in coordinate "
        "2i + 1.": _sinusoids(halves=True),
        "there are only sines.": _sinusoids(second=np.sin),
        "there are only cosines.": _sinusoids(first=np.cos),
        "the positions are used as if they began at 1: position 0 is all sin 0 and cos 0.": (
            _sinusoids(of_positions=lambda p: p + 1)
        ),
        "use the positions that are given: they need not be 0, 1, 2, …": _sinusoids(
            of_positions=lambda p: np.arange(len(p))
        ),
    },
)


# --- rotations --------------------------------------------------------------------------------


def _rotation(
    pairing: str,
    turn: Callable | None = None,
    exponents: Callable = _exponents,
    of_positions: Callable = lambda positions: positions,
) -> Callable:
    """A variant of the rotation that differs in one of its parts."""

    def rotated(x, positions):
        x, d = np.asarray(x, dtype=np.float64), np.shape(x)[1]
        p = of_positions(np.asarray(positions, dtype=np.float64))
        angles = p[:, None] * 10_000.0 ** exponents(d)
        halves = pairing == "half"
        first, second = (x[:, : d // 2], x[:, d // 2 :]) if halves else (x[:, ::2], x[:, 1::2])
        parts = (turn or _turned)(first, second, np.cos(angles), np.sin(angles))
        if halves:
            return np.concatenate(parts, axis=-1)
        return np.stack(parts, axis=-1).reshape(x.shape)

    return rotated


def _turned(x_1, x_2, cos, sin):
    return x_1 * cos - x_2 * sin, x_1 * sin + x_2 * cos


def _turned_one_after_the_other(x_1, x_2, cos, sin):
    y_1 = x_1 * cos - x_2 * sin
    return y_1, y_1 * sin + x_2 * cos


def _angles_laid_out(for_halves: bool) -> Callable:
    """Turn the coordinates of the one pairing with angles that are laid out for the other."""

    def rotated(x, positions):
        d = x.shape[1]
        frequencies = 10_000.0 ** _exponents(d)
        spread = np.tile(frequencies, 2) if for_halves else np.repeat(frequencies, 2)
        angles = np.asarray(positions)[:, None] * spread
        if for_halves:
            partner = np.stack([-x[:, 1::2], x[:, ::2]], axis=-1).reshape(x.shape)
        else:
            partner = np.concatenate([-x[:, d // 2 :], x[:, : d // 2]], axis=-1)
        return x * np.cos(angles) + partner * np.sin(angles)

    return rotated


def _halves_left_apart(x, positions):
    """Neighbours turned rightly, but put back as halves."""
    turned = definitions.rotate(x, positions, "interleaved")
    return np.concatenate([turned[:, ::2], turned[:, 1::2]], axis=-1)


def _halves_put_together(x, positions):
    """Halves turned rightly, but put back as neighbours."""
    turned = definitions.rotate(x, positions, "half")
    d = turned.shape[1]
    parts = [turned[:, : d // 2], turned[:, d // 2 :]]
    return np.stack(parts, axis=-1).reshape(turned.shape)


_OF_PAIRINGS = {
    "half": {
        "neighbours 2i and 2i + 1 are turned; here the pairs are i and i + d/2.": _rotation(
            "interleaved"
        ),
        "the pairs are right, but their angles are laid out for neighbours (θ_0, θ_0, θ_1, θ_1, "
        "…): both halves want θ_0, θ_1, … in order.": _angles_laid_out(for_halves=False),
        "the pairs are turned rightly, but put back as neighbours.": _halves_put_together,
    },
    "interleaved": {
        "coordinates i and i + d/2 are turned; here the pairs are the neighbours 2i and 2i + 1.": (
            _rotation("half")
        ),
        "the pairs are right, but their angles are laid out for halves (θ_0, θ_1, …, θ_0, θ_1, "
        "…): both neighbours want the same angle.": _angles_laid_out(for_halves=True),
        "the pairs are turned rightly, but all first coordinates are put before all second ones.": (
            _halves_left_apart
        ),
    },
}


def _of_any_pairing(pairing: str) -> dict[str, Callable]:
    def with_turn(turn: Callable) -> Callable:
        return _rotation(pairing, turn)

    return {
        "the rotation goes the wrong way: y_1 = x_1 cos − x_2 sin, y_2 = x_1 sin + x_2 cos.": (
            with_turn(lambda a, b, cos, sin: _turned(a, b, cos, -sin))
        ),
        "sine and cosine have changed places: at position 0 nothing must change.": with_turn(
            lambda a, b, cos, sin: _turned(a, b, sin, cos)
        ),
        "a minus is missing: y_1 = x_1 cos − x_2 sin.": with_turn(
            lambda a, b, cos, sin: (a * cos + b * sin, a * sin + b * cos)
        ),
        "there is a minus too many: y_2 = x_1 sin + x_2 cos.": with_turn(
            lambda a, b, cos, sin: (a * cos - b * sin, b * cos - a * sin)
        ),
        "y_2 is made from y_1 where it wants x_1: x_1 was overwritten too early.": (
            with_turn(_turned_one_after_the_other)
        ),
        "each coordinate is multiplied by a cosine only: the other one of the pair is missing.": (
            with_turn(lambda a, b, cos, sin: (a * cos, b * cos))
        ),
        "the 2 in the exponent is there twice: for pair i the frequency is 10000^(−2i/d).": (
            _rotation(pairing, exponents=lambda d: 2 * _exponents(d))
        ),
        "the 2 in the exponent is missing: for pair i the frequency is 10000^(−2i/d).": _rotation(
            pairing, exponents=lambda d: _exponents(d) / 2
        ),
        "the sign of the exponent is missing: frequencies fall with i.": _rotation(
            pairing, exponents=lambda d: -_exponents(d)
        ),
        "all pairs turn at the same speed.": _rotation(
            pairing, exponents=lambda d: np.zeros(d // 2)
        ),
        "the positions are used as if they began at 1: at position 0 nothing must change.": (
            _rotation(pairing, of_positions=lambda p: p + 1)
        ),
        "use the positions that are given: in a step with a cache they do not begin at 0.": (
            _rotation(pairing, of_positions=lambda p: np.arange(len(p)))
        ),
        "nothing is turned.": lambda x, positions: x,
    }


def _rotation_case(about: str, positions: list[int], d: int) -> Case:
    x = _RNG.normal(size=(len(positions), d))
    return Case(about=about, arguments={"x": x, "positions": np.array(positions)})


def _rotate(pairing: str, name: str, pairs: str) -> Exercise:
    return Exercise(
        name=name,
        asks=(
            f"rotate(x, positions) → x (t, d) with the pairs {pairs} turned by the positions (t,) "
            "times θ_i = 10000^(−2i/d)"
        ),
        definition=lambda x, positions: definitions.rotate(x, positions, pairing),
        cases=(
            _rotation_case("positions from 0", [0, 1, 2, 3, 4], 8),
            _rotation_case("a step with a cache", [17, 18, 19], 6),
            _rotation_case("one pair", [2, 0, 5, 1], 2),
        ),
        mistakes={**_OF_PAIRINGS[pairing], **_of_any_pairing(pairing)},
    )


_ROTATE_HALF = _rotate("half", "rotate-half", "(x_i, x_{i+d/2})")
_ROTATE_INTERLEAVED = _rotate("interleaved", "rotate-interleaved", "(x_{2i}, x_{2i+1})")


# --- linear biases ----------------------------------------------------------------------------


def _bias(of_steps: Callable, first_position: Callable = lambda t, s: s - t) -> Callable:
    """A variant of the bias: what it makes of the steps by which a source lies behind."""

    def bias(n_targets, n_sources, slope):
        position_t = np.arange(n_targets) + first_position(n_targets, n_sources)
        return of_steps(position_t[:, None] - np.arange(n_sources), slope)

    return bias


def _bias_case(about: str, n_targets: int, n_sources: int, slope: float) -> Case:
    arguments = {"n_targets": n_targets, "n_sources": n_sources, "slope": slope}
    return Case(about=about, arguments=arguments)


_ALIBI = Exercise(
    name="alibi",
    asks=(
        "alibi(n_targets, n_sources, slope) → the bias (t, s), −slope times the distance of target "
        "and source, on both sides; the last target stands at the last source"
    ),
    definition=definitions.alibi_bias,
    cases=(
        _bias_case("as many targets as sources", 4, 4, 0.5),
        _bias_case("a step with a cache", 2, 5, 0.25),
        _bias_case("one target", 1, 3, 2.0),
        _bias_case("more targets than sources", 3, 2, 0.5),
    ),
    mistakes={
        "the sign is turned round: distance must cost something.": _bias(
            lambda steps, m: m * np.abs(steps)
        ),
        "right for the past, but sources in the future get a bonus: a distance has no sign.": _bias(
            lambda steps, m: -m * steps
        ),
        "right for the past, but the future must cost as much: a mask forbids it, not the bias.": (
            _bias(lambda steps, m: np.where(steps < 0, -np.inf, -m * steps))
        ),
        "right for the past, but the future must cost as much: here it costs nothing.": _bias(
            lambda steps, m: -m * np.maximum(steps, 0)
        ),
        "the first target stands at the first source; where there are fewer targets than sources, "
        "they are the last ones.": _bias(lambda steps, m: -m * np.abs(steps), lambda t, s: 0),
        "the distance of a target to itself is 0, not 1.": _bias(
            lambda steps, m: -m * (np.abs(steps) + 1)
        ),
        "the slope is missing.": _bias(lambda steps, m: -np.abs(steps)),
        "the distance is squared: it counts once.": _bias(lambda steps, m: -m * steps**2),
        "the distance is divided by the slope: multiply.": _bias(
            lambda steps, m: -np.abs(steps) / m
        ),
        "the slope is there twice.": _bias(lambda steps, m: -m * m * np.abs(steps)),
        "rows are targets and columns are sources: the matrix lies on its side.": (
            lambda n_targets, n_sources, slope: (
                definitions.alibi_bias(n_targets, n_sources, slope).T
            )
        ),
        "that is −slope times the place counted from the last source, the same in every row: it "
        "adds up to the same softmax for the past, but is not the distance.": _bias(
            lambda steps, m: (
                np.broadcast_to(m * (np.arange(steps.shape[1]) + 1), steps.shape)
                - m * steps.shape[1]
            )
        ),
    },
)


# --- padded batches ---------------------------------------------------------------------------


def _counted(of_rows: Callable) -> Callable:
    return lambda is_token: of_rows(np.asarray(is_token).astype(np.int64))


def _is_token(n_sources: int, *n_padding: int) -> np.ndarray:
    return np.arange(n_sources) >= np.array(n_padding)[:, None]


_PADDED_POSITIONS = Exercise(
    name="padded-positions",
    asks=(
        "padded_positions(is_token) → the positions (b, s) in a batch that is padded on the left, "
        "is_token (b, s): each row counts its tokens from 0, padding gets 0"
    ),
    definition=definitions.padded_positions,
    cases=(
        Case(about="two rows", arguments={"is_token": _is_token(5, 2, 0)}),
        Case(about="a row without tokens", arguments={"is_token": _is_token(4, 1, 4, 3)}),
        Case(about="no padding", arguments={"is_token": _is_token(3, 0, 0)}),
    ),
    mistakes={
        "all rows share the same positions: each row must count its own tokens.": _counted(
            lambda rows: np.broadcast_to(np.arange(rows.shape[1]), rows.shape)
        ),
        "the count begins at 1: the first token of each row is at position 0.": _counted(
            lambda rows: rows.cumsum(-1)
        ),
        "right for tokens, but padding gets −1: cut off below 0.": _counted(
            lambda rows: rows.cumsum(-1) - 1
        ),
        "the count runs down the columns: it must run along each row.": _counted(
            lambda rows: np.maximum(rows.cumsum(0) - 1, 0)
        ),
        "the padding is counted instead of the tokens.": _counted(
            lambda rows: np.maximum((1 - rows).cumsum(-1) - 1, 0)
        ),
        "padding gets 0, but tokens keep the place that they have in the padded row.": _counted(
            lambda rows: np.arange(rows.shape[1]) * rows
        ),
        "right for tokens, but padding gets 1: here it gets 0.": _counted(
            lambda rows: np.where(rows == 1, rows.cumsum(-1) - 1, 1)
        ),
        "each row counts its tokens, but backward from the last one.": _counted(
            lambda rows: np.maximum(rows[:, ::-1].cumsum(-1)[:, ::-1] - 1, 0) * rows
        ),
        "that counts how many tokens a row has in all, not up to each place.": _counted(
            lambda rows: np.broadcast_to(np.maximum(rows.sum(-1, keepdims=True) - 1, 0), rows.shape)
        ),
    },
)

EXERCISES = (_SINUSOIDAL, _ROTATE_HALF, _ROTATE_INTERLEAVED, _ALIBI, _PADDED_POSITIONS)
