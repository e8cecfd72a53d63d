"""The letters of the axes, one for each, obeyed in every signature, einsum and chapter.

Source   this book; g agrees with Ainslie et al. 2023 (arXiv:2305.13245), c with DeepSeek-AI
         2024 (arXiv:2405.04434)
Chapter  chapters/conventions.md
Axes     this file

Letters name axes, words name sizes. Positions have two letters, because a target asks and a
source is read, so that no einsum needs a prime. The letters q, k and v name arrays and never axes;
v alone is also the vocabulary, an axis that never meets the values.

    >>> AXES["t"]
    'target: a position that asks'
    >>> AXES["h"]
    'query head, h = g·p; query head i reads key/value head ⌊i/p⌋'
"""

AXES: dict[str, str] = {
    "b": "batch element",
    "t": "target: a position that asks",
    "s": "source: a position that is read",
    "h": "query head, h = g·p; query head i reads key/value head ⌊i/p⌋",
    "g": "key/value head",
    "p": "query heads per key/value head",
    "d": "width of a query/key head, d = n + r",
    "e": "width of a value head",
    "m": "width of the residual stream",
    "c": "width of the key/value latent",
    "u": "width of the query latent",
    "n": "width of a head's part without rotation",
    "r": "width of a head's rotary part",
    "v": "vocabulary",
}
"""What each axis letter means."""
