r"""The explorers' formulas as SymPy expressions, and the JavaScript made from them.

`python -m attnlib.explore.formulas` writes `formulas.mjs`; a test writes it again and compares, and
another holds JavaScript's values to Python's. Every formula is a scalar: the sums over sources
($\sum_s$, max, argmax) and what has no closed form (the largest eigenvalue of
$\operatorname{diag}(p) - pp^\top$, the convex hull) cannot be said in `sympy.jscode`; they are
written by hand in `numerics.mjs` and tested by value against NumPy.
"""

from __future__ import annotations

import json
from pathlib import Path

import sympy as sp

from attnlib.cost import SYMBOLS, cached_generation_flops, javascript, recomputed_generation_flops
from attnlib.explore.generation_runs import HEAD_DIM, INNER, VOCABULARY
from attnlib.explore.limits import LIMITS

TARGET = Path(__file__).with_name("formulas.mjs")

z, d, divisor, tau = sp.symbols("z d divisor tau", positive=True)
score, largest, total, weight = sp.symbols("score largest total weight", real=True)
n, entropy, p_max, p_rest = sp.symbols("n entropy p_max p_rest", nonnegative=True)
q_x, q_y, k_x, k_y = sp.symbols("q_x q_y k_x k_y", real=True)
h = sp.Symbol("h", positive=True)
base, width, omega = sp.symbols("base width omega", positive=True)
pair, position = sp.symbols("pair position", nonnegative=True)
distance, angle, x, y = sp.symbols("distance angle x y", real=True)
dot = sp.Symbol("dot", real=True)
square_q, square_k = sp.symbols("square_q square_k", positive=True)
heads, head_dim, tokens = sp.symbols("heads head_dim tokens", integer=True, positive=True)
exponent, mu_4, spread, gap = sp.symbols("exponent mu_4 spread gap", nonnegative=True)
leaders = sp.Symbol("leaders", positive=True)
n_queries, n_keys = sp.symbols("n_queries n_keys", positive=True)
weight_a, weight_b = sp.symbols("weight_a weight_b", nonnegative=True)
share = sp.Symbol("share", positive=True)
layers = sp.Symbol("layers", integer=True, positive=True)


def _of_timed_models(parts: dict[str, sp.Expr]) -> sp.Expr:
    """The sum, with the widths of the models whose generation is timed: m = hd, no windows."""
    letters = dict.fromkeys(("L_w", "L_x", "W", "f_x", "x", "x_c", "x_s"), 0)
    letters |= {"L": layers, "h": heads, "g": heads, "d": HEAD_DIM, "e": HEAD_DIM}
    letters |= {"m": HEAD_DIM * heads, "f": INNER * HEAD_DIM * heads, "k_f": 2, "v": VOCABULARY}
    letters |= {"T": tokens, "P": 1, "B": 1}
    total = sum(parts.values()).subs({SYMBOLS[name]: value for name, value in letters.items()})
    return sp.factor(total)


# name: (expression, arguments in the order in which JavaScript takes them, what it is)
FORMULAS: dict[str, tuple[sp.Expr, tuple[sp.Symbol, ...], str]] = {
    "rawScore": (sp.sqrt(d) * z, (z, d), "q·k of width d, whose spread over random pairs is √d"),
    "rootOf": (sp.sqrt(d), (d,), "the divisor of scaled dot-product attention"),
    "softmaxInput": (
        sp.sqrt(d) * z / divisor / tau,
        (z, d, divisor, tau),
        "what goes into softmax: the raw score, divided, then cooled or heated by τ",
    ),
    "shiftedExponential": (
        sp.exp(score - largest),
        (score, largest),
        "shifting every score by the largest leaves softmax as it is, and nothing overflows",
    ),
    "normalised": (weight / total, (weight, total), "one weight: Z⁻¹A, entry by entry"),
    "logSumExp": (
        largest + sp.log(total),
        (largest, total),
        "ln Σ eˢ from the largest score and the total of the shifted exponentials",
    ),
    "entropyTerm": (
        sp.Piecewise((-weight * sp.log(weight), weight > 0), (0, True)),
        (weight,),
        "−p ln p, and 0 at p = 0",
    ),
    "largestEntropy": (sp.log(n), (n,), "of n equal weights"),
    "effectiveSources": (sp.exp(entropy), (entropy,), "as many equal weights have this entropy"),
    "jacobianBound": (
        sp.Min(p_max, 2 * p_max * p_rest),
        (p_max, p_rest),
        "‖diag(p) − ppᵀ‖₂ is at most this; p_rest = 1 − p_max, summed from the small weights",
    ),
    "gaussianLogKernel": (
        -((q_x - k_x) ** 2 + (q_y - k_y) ** 2) / (2 * h**2),
        (q_x, q_y, k_x, k_y, h),
        "ln of exp(−‖q − k‖² / 2h²)",
    ),
    "dotProductLogKernel": (
        (q_x * k_x + q_y * k_y) / h**2,
        (q_x, q_y, k_x, k_y, h),
        "ln of exp(⟨q, k⟩ / h²): the Gaussian without its ‖k‖², so keys of one length agree",
    ),
    "frequency": (
        base ** (-2 * pair / width),
        (pair, width, base),
        "of a pair of coordinates, in radians a position, for sinusoidal and rotary positions",
    ),
    "wavelength": (2 * sp.pi / omega, (omega,), "after so many positions a pair has turned once"),
    "sineEntry": (sp.sin(position * omega), (position, omega), "of a pair of an encoding"),
    "cosineEntry": (sp.cos(position * omega), (position, omega), "of a pair of an encoding"),
    "turnedX": (
        x * sp.cos(position * omega) - y * sp.sin(position * omega),
        (x, y, position, omega),
        "first coordinate of a pair, turned by a rotary position",
    ),
    "turnedY": (
        x * sp.sin(position * omega) + y * sp.cos(position * omega),
        (x, y, position, omega),
        "second coordinate of a pair, turned by a rotary position",
    ),
    "scoreAtDistance": (
        sp.cos(angle + distance * omega),
        (angle, distance, omega),
        "of two unit vectors, the second ahead by the angle, after both have been turned",
    ),
    "cosine": (
        dot / (sp.sqrt(square_q) * sp.sqrt(square_k)),
        (dot, square_q, square_k),
        "of the angle between two vectors, from their dot product and their squared lengths",
    ),
    "attentionParameters": (
        4 * width * heads * head_dim,
        (width, heads, head_dim),
        "of the four matrices of a layer where every head has keys and values of its own",
    ),
    "projectionFlops": (
        8 * tokens * width * heads * head_dim,
        (width, heads, head_dim, tokens),
        "of the four projections, two a multiply-add",
    ),
    "coreFlops": (
        4 * tokens**2 * heads * head_dim,
        (heads, head_dim, tokens),
        "of the scores and the weighted sums without a mask, two a multiply-add",
    ),
    "scoreNumbers": (
        heads * tokens**2,
        (heads, tokens),
        "as many scores, and as many exponentials of softmax",
    ),
    "rankBound": (
        sp.Min(tokens, width, head_dim),
        (tokens, width, head_dim),
        "of the scores of one head: of the states and of the maps to queries and keys",
    ),
    "scoreDivisor": (d**exponent, (d, exponent), "of the raw score of width d"),
    "scoreSpread": (
        d ** (sp.Rational(1, 2) - exponent),
        (d, exponent),
        "standard deviation of ⟨q, k⟩ / d^a, for independent coordinates of mean 0 and variance 1",
    ),
    "scoreKurtosis": (
        (mu_4**2 - 3) / d,
        (d, mu_4),
        "excess kurtosis of ⟨q, k⟩, where μ₄ is the fourth moment of a coordinate",
    ),
    "spreadError": (
        sp.sqrt((mu_4**2 - 3) / d + 2 + (n_queries + n_keys - 2) * (mu_4 - 1) / d)
        / (2 * sp.sqrt(n_queries * n_keys)),
        (d, mu_4, n_queries, n_keys),
        "standard error of the root mean square of all ⟨q, k⟩, as a part of it, to first order",
    ),
    "normalDensity": (
        sp.exp(-((x / spread) ** 2) / 2) / (spread * sp.sqrt(2 * sp.pi)),
        (x, spread),
        "of the normal distribution with mean 0",
    ),
    "leaderWeight": (
        1 / (leaders + (n - leaders) * sp.exp(-gap)),
        (n, leaders, gap),
        "of each leader among n sources; the others lie lower by the gap",
    ),
    "acrossEigenvalue": (
        n * weight_a * weight_b,
        (n, weight_a, weight_b),
        "eigenvalue of diag(p) − ppᵀ across leaders of one weight and others of one weight",
    ),
    "gapBound": (
        2 * (n - 1) * sp.exp(-gap),
        (n, gap),
        "‖diag(p) − ppᵀ‖₂ is at most this if one source leads all others by the gap",
    ),
    "cachedGenerationFlops": (
        _of_timed_models(cached_generation_flops(dense=True)),
        (layers, heads, tokens),
        "of a timed model in total, with a cache, to generate so many tokens after one",
    ),
    "anewGenerationFlops": (
        _of_timed_models(recomputed_generation_flops(dense=True)),
        (layers, heads, tokens),
        "the same, where every step reads all tokens anew",
    ),
    "tempered": (
        (score - largest) / tau,
        (score, largest, tau),
        "a logit below the largest, divided by the temperature",
    ),
    "leastKept": (
        largest + sp.log(share),
        (largest, share),
        "what a logit must be to be at least this share as likely as the largest one",
    ),
}


def javascript_function(
    name: str, expression: sp.Expr, arguments: tuple[sp.Symbol, ...], meaning: str = ""
) -> str:
    """One exported JavaScript function that returns the expression.

    Products and sums of integers are exact in JavaScript as long as every partial result stays
    below 2⁵³; `Math.exp`, `Math.log` and a handful of roundings are within a few units in the last
    place of Python's.

    Example:
        >>> g, n = sp.symbols("g n", integer=True)
        >>> print(javascript_function("cacheNumbers", 2 * g * n, (g, n), "keys and values"))
        /** keys and values */
        export function cacheNumbers(g, n) {
          return 2*g*n;
        }
    """
    missing = expression.free_symbols - set(arguments)
    if missing:
        raise ValueError(
            f"every symbol of {name} must be an argument, "
            f"got {sorted(map(str, missing))} besides {[str(a) for a in arguments]}"
        )
    body = javascript(expression)
    comment = f"/** {meaning} */\n" if meaning else ""
    names = ", ".join(map(str, arguments))
    return f"{comment}export function {name}({names}) {{\n  return {body};\n}}"


def javascript_module() -> str:
    """The whole text of `formulas.mjs`."""
    header = (
        "// Generated by `python -m attnlib.explore.formulas` from the SymPy expressions in\n"
        "// formulas.py and the table in limits.py. Change those, not this file.\n"
    )
    limits = f"export const limits = {json.dumps(LIMITS, indent=2)};"
    functions = [
        javascript_function(name, expression, arguments, meaning)
        for name, (expression, arguments, meaning) in FORMULAS.items()
    ]
    return "\n\n".join([header + "\n" + limits, *functions]) + "\n"


if __name__ == "__main__":
    TARGET.write_text(javascript_module(), encoding="utf-8")
    print(f"wrote {TARGET.name}: {len(FORMULAS)} formulas")
