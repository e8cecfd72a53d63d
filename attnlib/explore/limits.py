"""What the reader may choose: one table for Python and for JavaScript.

`formulas.py` copies it into `formulas.mjs`, so a slider cannot reach a value that Python refuses.
"""

from __future__ import annotations

N_SOURCES = (2, 8)  # fewest and most scores or keys in a picture that stays readable
SCORE = (-5.0, 5.0)
TEMPERATURE = (0.05, 20.0)
KEY_DIM = (1, 1024)  # powers of two only
POSITION = (-3.0, 3.0)
BANDWIDTH = (0.05, 20.0)
KERNELS = ("gaussian", "dot-product")

LIMITS = {
    "n_sources": N_SOURCES,
    "score": SCORE,
    "temperature": TEMPERATURE,
    "key_dim": KEY_DIM,
    "position": POSITION,
    "bandwidth": BANDWIDTH,
    "kernels": KERNELS,
}
