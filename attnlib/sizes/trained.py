"""The sizes of the models that this book trains itself.

Source   this book; book/train_shakespeare.py and book/train_number_words.py train them
Chapter  chapters/encoder-decoder.md, chapters/language-models.md
Axes     attnlib/axes.py
"""

from collections.abc import Mapping
from types import MappingProxyType

from attnlib.sizes.attention import AttentionSizes
from attnlib.sizes.by_name import SizesByName
from attnlib.sizes.model import ModelSizes
from attnlib.sizes.rotary import RotarySizes

# A language model of today's kind, as small as two cores can train in minutes.
_SHAKESPEARE = ModelSizes(
    name="Shakespeare",
    source="this book, chapters/language-models.md",
    n_layers=4,
    width=192,
    attention=AttentionSizes(n_query_heads=4, n_kv_heads=2, head_dim=48, value_dim=48),
    feed_forward_width=512,
    gated=True,
    activation="silu",
    vocabulary=1024,
    tied_embeddings=True,
    norm="rms",
    norm_placement="pre",
    norm_epsilon=1e-5,
    context=256,
    rotary=RotarySizes(base=10_000.0),
)

# An encoder and a decoder as in 2017, but with the norms before the sub-layers.
_NUMBER_WORDS = ModelSizes(
    name="Number words",
    source="this book, chapters/encoder-decoder.md",
    n_layers=2,
    n_encoder_layers=2,
    width=96,
    attention=AttentionSizes(n_query_heads=4, n_kv_heads=4, head_dim=24, value_dim=24),
    feed_forward_width=384,
    gated=False,
    activation="relu",
    feed_forward_biases=True,
    vocabulary=94,
    tied_embeddings=True,
    norm="layer",
    norm_placement="pre",
    norm_epsilon=1e-5,
    context=32,
    sinusoidal_positions=True,
    scaled_embedding=True,
)

TRAINED: Mapping[str, ModelSizes] = MappingProxyType(
    SizesByName({"shakespeare": _SHAKESPEARE, "number-words": _NUMBER_WORDS})
)
"""The book's own models by a short name."""
