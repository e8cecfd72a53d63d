r"""Whole models, each made of the blocks of `layers` as its `ModelSizes` say.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 3
Chapter  chapters/encoder-decoder.md
Axes     attnlib/axes.py

Encoder only, decoder only and both are three ways to say who may read whom:

| model | a token reads | gives |
|---|---|---|
| `Encoder` | all tokens of its row | vectors |
| `Decoder` | itself and those before it, and perhaps an encoder's output | vectors |
| `LanguageModel` | itself and those before it | logits of the next token |
| `EncoderDecoder` | as a decoder; the source as an encoder | logits of the next token |

    >>> import torch
    >>> from attnlib import AttentionSizes, ModelSizes
    >>> heads = AttentionSizes(n_query_heads=2, n_kv_heads=2, head_dim=3, value_dim=3, biases=True)
    >>> sizes = ModelSizes(
    ...     name="small", source="this page", n_layers=2, width=6, attention=heads,
    ...     feed_forward_width=8, gated=False, activation="gelu", feed_forward_biases=True,
    ...     vocabulary=11, tied_embeddings=True, norm="layer", norm_placement="post",
    ...     norm_of_embedding=True, norm_at_end=False, norm_epsilon=1e-12, context=5,
    ...     learned_positions=True, n_segments=2, causal=False,
    ... )
    >>> encoder = Encoder(sizes)
    >>> tuple(encoder(torch.tensor([[1, 7, 4, 2]])).shape)
    (1, 4, 6)
"""

from attnlib.models.decoder import Decoder
from attnlib.models.encoder import Encoder
from attnlib.models.encoder_decoder import EncoderDecoder
from attnlib.models.language_model import LanguageModel
from attnlib.models.stack import Stack

__all__ = ["Decoder", "Encoder", "EncoderDecoder", "LanguageModel", "Stack"]
