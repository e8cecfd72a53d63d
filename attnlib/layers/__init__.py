r"""Layers with weights: attention, feed-forward networks, norms, and the block that joins them.

Source   Vaswani et al. 2017, arXiv:1706.03762, sections 3.1 to 3.3
Chapter  chapters/multi-head-attention.md and chapters/latent-attention.md (attention),
         chapters/encoder-decoder.md (the others)
Axes     attnlib/axes.py

    >>> from attnlib import PUBLISHED
    >>> block = Block(PUBLISHED["gpt-2"])
    >>> sum(p.numel() for p in block.parameters())
    7087872
"""

from attnlib.layers.block import Block, check_dropout
from attnlib.layers.experts import (
    MixtureOfExperts,
    Routing,
    balance_loss,
    choose_experts,
    expert_load,
)
from attnlib.layers.feed_forward import ACTIVATIONS, FeedForward
from attnlib.layers.latent_self_attention import LatentSelfAttention
from attnlib.layers.multi_head_attention import MultiHeadAttention
from attnlib.layers.norms import RMSNorm, make_norm

__all__ = [
    "ACTIVATIONS",
    "Block",
    "FeedForward",
    "LatentSelfAttention",
    "MixtureOfExperts",
    "MultiHeadAttention",
    "RMSNorm",
    "Routing",
    "balance_loss",
    "check_dropout",
    "choose_experts",
    "expert_load",
    "make_norm",
]
