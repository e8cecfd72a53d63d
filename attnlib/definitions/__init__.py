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
from attnlib.definitions.of_heads import (
    least_score_width,
    multi_head_attention,
    split_heads,
)
from attnlib.definitions.of_masks import (
    block_mask,
    compose_masks,
    document_mask,
    masked_weights,
    reach,
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
from attnlib.definitions.of_scores import (
    jacobian_bound,
    rms_norm,
    score_mean,
    score_variance,
    soft_cap,
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
    "block_mask",
    "causal_mask",
    "compose_masks",
    "cooccurrence",
    "cosine",
    "count_pairs",
    "document_mask",
    "dot_product_attention",
    "embed",
    "embedding_gradient",
    "encode_by_rank",
    "entropy",
    "grouped_query_attention",
    "jacobian_bound",
    "kernel_average",
    "least_score_width",
    "log_sum_exp",
    "masked_weights",
    "mean_cosine",
    "merge",
    "merge_pair",
    "multi_head_attention",
    "nearest",
    "padded_positions",
    "positive_pmi",
    "reach",
    "readable_sources",
    "rms_norm",
    "rotate",
    "rotation_matrix",
    "score_mean",
    "score_variance",
    "shift_matrix",
    "sinusoidal_encoding",
    "soft_cap",
    "softmax",
    "softmax_jacobian",
    "split_heads",
    "train_byte_pairs",
    "word_piece",
]
