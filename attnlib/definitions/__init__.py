"""Every formula as it is read aloud: NumPy, float64, loops.

Source   each file beside this one names its own
Chapter  every chapter
Axes     attnlib/axes.py

Slow on purpose. These functions are the first code that a chapter shows and the oracle of the
tests and of the judges, so each is short enough to be checked against the page by eye. They import
nothing of attnlib, so that no mistake can be made in both places at once.
"""

from attnlib.definitions.of_attention import (
    attention,
    causal_mask,
    dot_product_attention,
    entropy,
    grouped_query_attention,
    kernel_average,
    log_sum_exp,
    merge,
    readable_sources,
    softmax,
    softmax_jacobian,
)

__all__ = [
    "attention",
    "causal_mask",
    "dot_product_attention",
    "entropy",
    "grouped_query_attention",
    "kernel_average",
    "log_sum_exp",
    "merge",
    "readable_sources",
    "softmax",
    "softmax_jacobian",
]
