"""The letters of the cost formulas, as SymPy symbols: widths by their axis letters, and counts.

Source   this book; the axis letters are those of attnlib/axes.py
Chapter  chapters/counting-cost.md
Axes     attnlib/axes.py

    >>> LETTERS["N"]
    'tokens of a row when the pass is over; the last of them reads so many keys'
    >>> core = 2 * h * N * (d + e)
    >>> core.subs({d: e})
    4*N*e*h
"""

import sympy as sp

from attnlib.axes import AXES

_COUNTS = {
    "L": "layers; those of the decoder where there is an encoder besides",
    "L_e": "layers of the encoder beside them",
    "L_w": "layers with a sliding window",
    "W": "sources that a layer with a window reads, the target included",
    "L_x": "layers with experts",
    "f": "inner width of a feed-forward network",
    "k_f": "matrices of a feed-forward network: 3 if it is gated, otherwise 2",
    "f_x": "inner width of an expert",
    "x": "routed experts of a layer",
    "x_c": "routed experts that a token uses",
    "x_s": "shared experts of a layer, which every token uses",
    "x_m": "routed experts of a layer that the tokens of a pass meet",
    "B": "rows of the batch",
    "T": "new tokens of a row in one pass",
    "N": "tokens of a row when the pass is over; the last of them reads so many keys",
    "P": "tokens of a row's prompt",
}
_MEASURES = {
    "beta": "bytes of a number in the cache",
    "beta_w": "bytes of a weight",
    "peak": "FLOPs a second that the device can do at most",
    "bandwidth": "bytes a second that its memory can give at most",
}

_WIDTHS = {letter: meaning for letter, meaning in AXES.items() if letter not in "bts"}

LETTERS: dict[str, str] = {**_WIDTHS, **_COUNTS, **_MEASURES}
"""What each letter of a formula means."""

SYMBOLS: dict[str, sp.Symbol] = {
    **{name: sp.Symbol(name, integer=True, nonnegative=True) for name in (*_WIDTHS, *_COUNTS)},
    **{name: sp.Symbol(name, positive=True) for name in _MEASURES},
}
"""The same letters as symbols."""

h, g, p, d, e, m, c, u, n, r, v = (SYMBOLS[name] for name in "hgpdemcunrv")
L, L_e, L_w, W, L_x = (SYMBOLS[name] for name in ("L", "L_e", "L_w", "W", "L_x"))
f, k_f, f_x = (SYMBOLS[name] for name in ("f", "k_f", "f_x"))
x, x_c, x_s, x_m = (SYMBOLS[name] for name in ("x", "x_c", "x_s", "x_m"))
B, T, N, P = (SYMBOLS[name] for name in "BTNP")
beta, beta_w, peak, bandwidth = (SYMBOLS[name] for name in _MEASURES)
