r"""Layers with weights: attention, feed-forward networks, norms, and the block that joins them.

Source   Vaswani et al. 2017, arXiv:1706.03762, sections 3.1 to 3.3
Chapter  chapters/multi-head-attention.md (attention), chapters/encoder-decoder.md (the others)
Axes     attnlib/axes.py

    >>> from attnlib import PUBLISHED
    >>> block = Block(PUBLISHED["gpt-2"])
    >>> sum(p.numel() for p in block.parameters())
    7087872
"""

from attnlib.layers.block import Block, check_dropout
from attnlib.layers.feed_forward import ACTIVATIONS, FeedForward
from attnlib.layers.multi_head_attention import MultiHeadAttention
from attnlib.layers.norms import RMSNorm, make_norm

__all__ = [
    "ACTIVATIONS",
    "Block",
    "FeedForward",
    "MultiHeadAttention",
    "RMSNorm",
    "check_dropout",
    "make_norm",
]
