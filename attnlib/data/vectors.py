r"""Embeddings that a published model learned: some rows, and what all rows together look like.

Source   sentence-transformers/all-MiniLM-L6-v2 and HuggingFaceTB/SmolLM2-135M-Instruct (both
         Apache-2.0); PROVENANCE.md says how it was made
Chapter  chapters/embeddings.md
Axes     attnlib/axes.py
"""

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped
from numpy import ndarray

KINDS = ("word", "continuation", "character", "unused", "special", "other")
"""What a row can stand for; the order is that of the numbers in the file."""

_HERE = files("attnlib.data").joinpath("embeddings")


@dataclass(frozen=True, kw_only=True, eq=False)
class PretrainedEmbeddings:
    r"""Rows of a published embedding matrix for common words, and facts about the whole matrix.

    Args:
        name: Of the model.
        source: The package and the tensor that the numbers were taken from.
        licence: Of the model.
        words: Common English words, in the order of their rows in the whole matrix of MiniLM:
            in that vocabulary this is roughly by falling frequency. In SmolLM2's vocabulary a
            token holds the space before it, and the word "king" here is its token " king".
        ids: The row of each word in the whole matrix of this model.
        sets: Words that belong together, by what they are: "numbers", "colours", "family",
            "animals"; of MiniLM also "days", "months", "countries" and, in the same order, their
            "capitals", which SmolLM2 spells with a capital letter.
        vectors: The rows themselves, rounded once to half precision.
        kinds: What each row of the whole matrix stands for, one of `KINDS`: a word, the
            continuation of one ("##ing"), a single character, nothing (never trained), a special
            token, or something else (a run of signs or spaces, half a character). A "word" of
            SmolLM2 is a space and letters, a "continuation" letters without the space.
        norms: The length of each row of the whole matrix.
        alignments: The cosine of each row of the whole matrix with the mean direction of all rows,
            rounded once to half precision.
        mean: The mean row of the whole matrix.
        singular_values: Of the whole matrix, falling, to 8 significant digits.
        centred_singular_values: The same after the mean row was taken off.
        mean_cosine: Over all pairs of different rows of the whole matrix, to 10 decimals.

    Example:
        >>> from attnlib.data import pretrained_embeddings
        >>> minilm = pretrained_embeddings("minilm")
        >>> minilm.vectors.shape, len(minilm.norms)
        ((1440, 384), 30522)
        >>> round(float(minilm.norms[minilm.kinds == "unused"].mean()), 2)
        0.46
        >>> smollm2 = pretrained_embeddings("smollm2")
        >>> smollm2.vectors.shape, len(smollm2.norms), round(smollm2.mean_cosine, 2)
        ((480, 576), 49152, 0.44)
    """

    name: str
    source: str
    licence: str
    words: tuple[str, ...]
    sets: dict[str, tuple[str, ...]]
    ids: Int[ndarray, "v"]
    vectors: Float[ndarray, "v m"]
    kinds: Shaped[ndarray, "*rows"]
    norms: Float[ndarray, "*rows"]
    alignments: Float[ndarray, "*rows"]
    mean: Float[ndarray, "m"]
    singular_values: Float[ndarray, "m"]
    centred_singular_values: Float[ndarray, "m"]
    mean_cosine: float


def load(name: str) -> PretrainedEmbeddings:
    """Read the two files of one model; `attnlib.data.pretrained_embeddings` checks the name."""
    about: dict[str, Any] = json.loads(_HERE.joinpath(f"{name}.json").read_text("utf-8"))
    with (
        _HERE.joinpath(f"{name}.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
        return PretrainedEmbeddings(
            name=about["name"],
            source=about["source"],
            licence=about["licence"],
            words=tuple(about["words"].split(" ")),
            sets={name: tuple(words.split(" ")) for name, words in about["sets"].items()},
            ids=arrays["ids"].astype(np.int64),
            vectors=arrays["vectors"].astype(np.float32),
            kinds=np.array(KINDS)[arrays["kinds"]],
            norms=arrays["norms"],
            alignments=arrays["alignments"].astype(np.float32),
            mean=arrays["mean"],
            singular_values=arrays["singular_values"],
            centred_singular_values=arrays["centred_singular_values"],
            mean_cosine=about["mean_cosine"],
        )
