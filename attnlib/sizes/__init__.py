r"""The sizes of published models, each with its source, and what follows from them by counting.

Source   named in every entry of `PUBLISHED`
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py

Sizes are whole numbers and are never rounded: what cannot be is refused. A head's width d is a
number of its own: in Gemma 3 27B, h = 32 heads of width d = 128 make 4,096 columns out of
m = 5,376, and m/h = 168 is nothing but the number whose root scales the scores.

    >>> gemma = PUBLISHED["gemma-3-27b"]
    >>> gemma.attention.head_dim, gemma.width // gemma.attention.n_query_heads
    (128, 168)
    >>> f"{gemma.n_parameters:,}"
    '27,009,002,240'
"""

from attnlib.sizes.attention import AttentionSizes, LatentAttentionSizes
from attnlib.sizes.model import ExpertSizes, ModelSizes
from attnlib.sizes.published import PUBLISHED
from attnlib.sizes.rotary import LinearScaling, Llama3Scaling, RotarySizes, YarnScaling
from attnlib.sizes.trained import TRAINED

__all__ = [
    "PUBLISHED",
    "TRAINED",
    "AttentionSizes",
    "ExpertSizes",
    "LatentAttentionSizes",
    "LinearScaling",
    "Llama3Scaling",
    "ModelSizes",
    "RotarySizes",
    "YarnScaling",
]
