"""Steps that functions of more than one chapter take, right and wrong, in NumPy.

Source   this book
Chapter  chapters/how-this-book-is-checked.md
Axes     attnlib/axes.py
"""

import numpy as np


def softmax(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    """What a line of NumPy gives: NaN where all along the axis is −∞."""
    exponentials = np.exp(scores - scores.max(axis, keepdims=True))
    return exponentials / exponentials.sum(axis, keepdims=True)


def reshaped_straight(x: np.ndarray, n_heads: int) -> np.ndarray:
    """Heads that mix the tokens of x (t, h·d)."""
    return x.reshape(n_heads, len(x), -1)


def columns_in_turns(x: np.ndarray, n_heads: int) -> np.ndarray:
    """Heads that have every h-th column of x (t, h·d)."""
    return np.stack([x[:, i::n_heads] for i in range(n_heads)])
