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
from attnlib.definitions.of_embeddings import (
    cooccurrence,
    cosine,
    embed,
    embedding_gradient,
    mean_cosine,
    nearest,
    positive_pmi,
)
from attnlib.definitions.of_positions import (
    alibi_bias,
    alibi_slopes,
    padded_positions,
    rotate,
    rotation_matrix,
    shift_matrix,
    sinusoidal_encoding,
)
from attnlib.definitions.of_tokenization import (
    count_pairs,
    encode_by_rank,
    merge_pair,
    train_byte_pairs,
    word_piece,
)

__all__ = [
    "alibi_bias",
    "alibi_slopes",
    "attention",
    "causal_mask",
    "cooccurrence",
    "cosine",
    "count_pairs",
    "dot_product_attention",
    "embed",
    "embedding_gradient",
    "encode_by_rank",
    "entropy",
    "grouped_query_attention",
    "kernel_average",
    "log_sum_exp",
    "mean_cosine",
    "merge",
    "merge_pair",
    "nearest",
    "padded_positions",
    "positive_pmi",
    "readable_sources",
    "rotate",
    "rotation_matrix",
    "shift_matrix",
    "sinusoidal_encoding",
    "softmax",
    "softmax_jacobian",
    "train_byte_pairs",
    "word_piece",
]
