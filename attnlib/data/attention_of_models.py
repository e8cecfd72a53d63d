r"""Attention of a published model: what its heads read, and enough of its first layer to try out.

Source   sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0); PROVENANCE.md says how it was made
Chapter  chapters/multi-head-attention.md
Axes     attnlib/axes.py
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

_HERE = files("attnlib.data").joinpath("attention")
_WEIGHT_STEP = 1 / 65535  # weights are stored as whole multiples of it


@dataclass(frozen=True, kw_only=True, eq=False)
class PretrainedAttention:
    r"""Weights of all heads on a sentence, what the heads do on average, and the first layer.

    The averages are over passages of 128 tokens ([CLS], 126 word pieces, [SEP]), four of each
    held-out play, which start at the first blank line after one, three, five and seven eighths of
    the play's characters. Heads are numbered through the layers where a matrix has a row for each:
    head i of layer l has the number 12·l + i. All was computed in float64 and rounded once.

    Args:
        name: Of the model.
        source: The package that the weights were taken from.
        licence: Of the model.
        sentence: A line of Romeo and Juliet.
        tokens: Its word pieces, from [CLS] to [SEP].
        weights: With which each target of each head reads each source in that sentence, as whole
            multiples of 1/65535: a row sums to one up to n/2 of these.
        n_passages: How many passages the averages are over.
        entropies: The mean entropy of the rows of weights, in nats; at most ln 128.
        divergences: How differently two heads read: the mean over the targets of the
            Jensen-Shannon divergence of their rows, in nats, to five decimals; at most ln 2.
        score_spread: The standard deviation of ⟨q, k⟩, before the scale, over all pairs of target
            and source.
        score_maximum: The largest |⟨q, k⟩|/√d.
        n_paragraphs: How many texts the ablations are over.
        ablations: What is lost without one head: its values are set to zero before the output
            matrix, and 1 − cosine is taken between the text's vector (the mean over its tokens of
            what leaves the last layer) without and with the head; the mean over the paragraphs of
            the English declaration that end in a punctuation mark, which headings do not.
        layer_ablations: The same without all heads of a layer at once. The bias of the output
            matrix is still added, as it is without one head: each token gets that vector and
            nothing from others.
        paragraph_distance: For comparison, 1 − cosine between the vectors of two different
            paragraphs: the mean over all pairs.
        state_tokens: [CLS] and the first word pieces of the English declaration.
        states: The vectors of these, as they enter the first layer: sums of word, position and
            segment, normalised; rounded to half precision.
        query_weight: $W^Q$ of the first layer, rounded to half precision: q = W x + b. Head i has
            the rows from i·d to (i + 1)·d.
        query_bias: b of the queries.
        key_weight: $W^K$, likewise.
        key_bias: b of the keys.
        value_weight: $W^V$, likewise.
        value_bias: b of the values.

    Example:
        >>> from attnlib.data import pretrained_attention
        >>> minilm = pretrained_attention("minilm")
        >>> minilm.weights.shape, minilm.tokens[7:9]
        ((6, 12, 24, 24), ('yo', '##nder'))
        >>> minilm.states.shape, minilm.query_weight.shape
        ((128, 384), (384, 384))
    """

    name: str
    source: str
    licence: str
    sentence: str
    tokens: tuple[str, ...]
    weights: Float[ndarray, "*layers h t s"]
    n_passages: int
    entropies: Float[ndarray, "*layers h"]
    divergences: Float[ndarray, "*heads"]
    score_spread: Float[ndarray, "*layers h"]
    score_maximum: Float[ndarray, "*layers h"]
    n_paragraphs: int
    ablations: Float[ndarray, "*layers h"]
    layer_ablations: Float[ndarray, "*layers"]
    paragraph_distance: float
    state_tokens: tuple[str, ...]
    states: Float[ndarray, "*states m"]
    query_weight: Float[ndarray, "*hd m"]
    query_bias: Float[ndarray, "*hd"]
    key_weight: Float[ndarray, "*gd m"]
    key_bias: Float[ndarray, "*gd"]
    value_weight: Float[ndarray, "*ge m"]
    value_bias: Float[ndarray, "*ge"]

    @property
    def n_heads(self) -> int:
        """How many heads a layer has: h."""
        return self.weights.shape[1]


def load(name: str) -> PretrainedAttention:
    """Read the two files of one model; `attnlib.data.pretrained_attention` checks the name."""
    about: dict[str, Any] = json.loads(_HERE.joinpath(f"{name}.json").read_text("utf-8"))
    with (
        _HERE.joinpath(f"{name}.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as stored,
    ):
        arrays = {
            # half precision is widened, which is exact; what is stored wider stays as it is
            key: array.astype(np.float32) if array.dtype == np.float16 else array
            for key, array in stored.items()
        }
    weights = (arrays.pop("weights") * _WEIGHT_STEP).astype(np.float32)
    return PretrainedAttention(
        name=about["name"],
        source=about["source"],
        licence=about["licence"],
        sentence=about["sentence"],
        tokens=tuple(about["tokens"].split(" ")),
        state_tokens=tuple(about["state_tokens"].split(" ")),
        n_passages=about["n_passages"],
        n_paragraphs=about["n_paragraphs"],
        paragraph_distance=about["paragraph_distance"],
        weights=weights,
        **arrays,
    )
