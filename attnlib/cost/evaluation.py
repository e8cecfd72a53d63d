"""From a formula to its number: the letters of a model, put into an expression.

Source   this book
Chapter  chapters/counting-cost.md
Axes     attnlib/axes.py

Numbers are exact: whole ones are Python's integers, and what is not whole is a fraction. Only the
number of experts that several tokens meet is an expectation, and a float.

    >>> from attnlib import PUBLISHED
    >>> from attnlib.cost.attention import SHARED_HEADS
    >>> evaluate(SHARED_HEADS.flops_per_pair, PUBLISHED["llama-3-70b"])
    32768
"""

from collections.abc import Mapping
from fractions import Fraction
from numbers import Rational, Real

import sympy as sp

from attnlib import require
from attnlib.cost.letters import LETTERS, B, P, T, x_m
from attnlib.sizes import AttentionSizes, LatentAttentionSizes, ModelSizes

Sizes = ModelSizes | AttentionSizes | LatentAttentionSizes
Number = int | Fraction | float

_LEAST = {"B": 1, "T": 1, "P": 1}
_OF_PASSES = {B.name, T.name, P.name}
_MEASURES = ("beta", "beta_w", "peak", "bandwidth")


def letters_of(sizes: Sizes) -> dict[str, int]:
    """Give the numbers behind the letters of the formulas; experts and windows may be none.

    Example:
        >>> from attnlib import PUBLISHED
        >>> letters = letters_of(PUBLISHED["gemma-3-27b"])
        >>> letters["L"], letters["L_w"], letters["W"], letters["L_x"]
        (62, 52, 1024, 0)
    """
    if not isinstance(sizes, ModelSizes):
        return sizes.letters
    experts = sizes.experts
    return sizes.letters | {
        "L": sizes.n_layers,
        "L_e": sizes.n_encoder_layers,
        "L_w": sizes.n_window_layers,
        "W": sizes.window or 0,
        "L_x": sizes.n_expert_layers,
        "f": sizes.feed_forward_width,
        "k_f": 3 if sizes.gated else 2,
        "f_x": experts.inner_width if experts else 0,
        "x": experts.n_routed if experts else 0,
        "x_c": experts.n_chosen if experts else 0,
        "x_s": experts.n_shared if experts else 0,
    }


def experts_met(n_routed: int, n_chosen: int, n_tokens: int) -> Number:
    r"""Give how many of x experts are met by n tokens that choose x_c each, on average.

    $$x\,\Bigl(1 - \bigl(1 - \tfrac{x_c}{x}\bigr)^n\Bigr)$$

    if the choices of different tokens are independent and no expert is preferred. One token meets
    exactly x_c.

    Args:
        n_routed: x, 0 if there are none.
        n_chosen: x_c.
        n_tokens: n, of all rows together.

    Example:
        >>> experts_met(160, 6, 1), round(experts_met(160, 6, 64), 1)
        (6, 146.1)
    """
    if n_routed == 0 or n_tokens == 1:
        return n_chosen
    return n_routed * (1 - (1 - n_chosen / n_routed) ** n_tokens)


def evaluate(
    expression: sp.Expr | Mapping[str, sp.Expr], sizes: Sizes | None = None, **letters: Real
) -> Number | dict[str, Number]:
    """Put numbers into an expression, or into each part of one.

    Args:
        expression: In the letters of `LETTERS`.
        sizes: Gives its widths and numbers of layers.
        letters: The others by name, such as N=8192. Whole numbers but for bytes and speeds, which
            may be fractions.

    Returns:
        A whole number where it is one, otherwise a fraction; or these by part.

    Raises:
        TypeError: If a number is not of the kind that its letter stands for.
        ValueError: If a letter is unknown or has no value, if T is more than N, if a pass is asked
            of a model that is not causal, or if one stack of layers is counted where there is an
            encoder besides.

    Example:
        >>> from attnlib import PUBLISHED
        >>> from attnlib.cost.parts import core_flops
        >>> evaluate(core_flops(), PUBLISHED["gemma-3-27b"], N=8192)
        2214592512
    """
    parts = expression if isinstance(expression, Mapping) else {"": expression}
    parts = {name: sp.sympify(part) for name, part in parts.items()}
    symbols = {symbol for part in parts.values() for symbol in part.free_symbols}
    used = {symbol.name for symbol in symbols}
    values = _values(sizes, letters, used)
    _require_model(sizes, used)
    if x_m.name in used and x_m.name not in values and {"x", "x_c", "B", "T"} <= set(values):
        n_tokens = values["B"] * values["T"]
        values[x_m.name] = experts_met(values["x"], values["x_c"], n_tokens)
    _require_all(used, values, sizes)
    numbers = {symbol: _as_sympy(values[symbol.name]) for symbol in symbols}
    found = {name: _as_python(part.xreplace(numbers)) for name, part in parts.items()}
    return found if isinstance(expression, Mapping) else found[""]


def _values(sizes: Sizes | None, letters: Mapping[str, Real], used: set[str]) -> dict[str, Number]:
    unknown = sorted((set(letters) | used) - set(LETTERS))
    if unknown:
        raise ValueError(
            f"the letters of the formulas are {', '.join(LETTERS)}; got {', '.join(unknown)}"
        )
    given = {name: _checked(name, value) for name, value in letters.items()}
    values = {} if sizes is None else letters_of(sizes)
    both = sorted(set(given) & set(values))
    if both:
        raise ValueError(f"the sizes say what {', '.join(both)} is, got another value for it")
    if "T" in given and "N" in given and given["T"] > given["N"]:
        raise ValueError(
            f"T new tokens are among N, so T must be at most N, got T={given['T']} and "
            f"N={given['N']}"
        )
    return values | given


def _checked(name: str, value: Real) -> Number:
    said = f"{name} ({LETTERS[name]})"
    if name in _MEASURES:
        return exact(said, value)
    if name == x_m.name:
        return require.number(said, value)
    return require.at_least(said, value, _LEAST.get(name, 0))


def exact(name: str, value: Real) -> Fraction:
    """A positive number as the fraction that it is: 0.75 is 3/4, and 0.1 is what a float makes it.

    Example:
        >>> exact("bytes", 0.75)
        Fraction(3, 4)
    """
    if isinstance(value, Rational) and not isinstance(value, bool) and value > 0:
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(require.positive(name, value))


def _require_model(sizes: Sizes | None, used: set[str]) -> None:
    if not isinstance(sizes, ModelSizes):
        return
    if sizes.n_encoder_layers and "L" in used and "L_e" not in used:
        raise ValueError(
            "the expression counts the layers of one stack, so the model must have no encoder, got "
            f"{sizes.name} with n_encoder_layers={sizes.n_encoder_layers}"
        )
    if not sizes.causal and used & _OF_PASSES:
        raise ValueError(
            f"a pass over the last T of N tokens needs a causal model, got {sizes.name}"
        )


def _require_all(used: set[str], values: Mapping[str, Number], sizes: Sizes | None) -> None:
    missing = [name for name in LETTERS if name in used and name not in values]
    if missing:
        said = "; ".join(f"{name} ({LETTERS[name]})" for name in missing)
        of = "" if sizes is None else f", which {type(sizes).__name__} do not have"
        raise ValueError(f"every letter of the expression needs a value, missing {said}{of}")


def _as_sympy(value: Number) -> sp.Expr:
    if isinstance(value, Fraction):
        return sp.Rational(value.numerator, value.denominator)
    return sp.Float(value) if isinstance(value, float) else sp.Integer(value)


def _as_python(value: sp.Expr) -> Number:
    if value.is_Integer:
        return int(value)
    if value.is_Rational:
        return Fraction(int(value.p), int(value.q))
    return float(value)
