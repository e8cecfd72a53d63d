r"""The end of a model with logits: one number for each token of the vocabulary.

Source   Press and Wolf 2017, arXiv:1608.05859 (one matrix for both ends)
Chapter  chapters/language-models.md
Axes     attnlib/axes.py
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attnlib.sizes import ModelSizes

__all__ = ["logits_of_states", "output_matrix"]


def output_matrix(sizes: ModelSizes) -> nn.Linear | None:
    """Make the matrix of the logits, or None where the embedding's own is to serve."""
    if sizes.tied_embeddings:
        return None
    return nn.Linear(sizes.width, sizes.vocabulary, bias=False)


def logits_of_states(
    x_btm: Float[Tensor, "b t m"], output: nn.Linear | None, word_embedding: nn.Embedding
) -> Float[Tensor, "b t v"]:
    """Make logits of what a decoder gives, by the matrix for them or else by the embedding's."""
    return F.linear(x_btm, word_embedding.weight) if output is None else output(x_btm)
