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
ENCODING_POSITION = (0, 127)  # the rows of the map of a sinusoidal encoding
ENCODING_WIDTH = (4, 128)  # even numbers only
ENCODING_BASE = (100, 1_000, 10_000, 100_000, 1_000_000)
TURN_POSITION = (0, 64)
TURN_PAIR = (0, 31)  # the pairs of a head of width 64
TURN_ANGLE = (-179, 180)  # whole degrees; −180 would be 180 once more
TEXT_LENGTH = (0, 2000)  # characters of the text that a reader may type
N_MERGES = (0, 8192)  # of the tokenizer that a page carries
N_WORDS = (2, 800)  # of the vectors that a page carries
WORD_LENGTH = (1, 40)
N_COLUMNS = (1, 100)
N_NEIGHBOURS = 10  # so many are shown, fewer where there are fewer words

LIMITS = {
    "n_sources": N_SOURCES,
    "score": SCORE,
    "temperature": TEMPERATURE,
    "key_dim": KEY_DIM,
    "position": POSITION,
    "bandwidth": BANDWIDTH,
    "kernels": KERNELS,
    "encoding_position": ENCODING_POSITION,
    "encoding_width": ENCODING_WIDTH,
    "encoding_base": ENCODING_BASE,
    "turn_position": TURN_POSITION,
    "turn_pair": TURN_PAIR,
    "turn_angle": TURN_ANGLE,
    "text_length": TEXT_LENGTH,
    "n_merges": N_MERGES,
    "n_words": N_WORDS,
    "word_length": WORD_LENGTH,
    "n_columns": N_COLUMNS,
    "n_neighbours": N_NEIGHBOURS,
}
