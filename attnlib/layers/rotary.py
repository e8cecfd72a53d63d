r"""What layers with rotary positions share: how fast each pair turns, and what is refused.

Source   Su et al. 2021, arXiv:2104.09864 (rotary positions); attnlib/sizes/rotary.py names the
         sources of the scalings
Chapter  chapters/positions.md
Axes     attnlib/axes.py
"""

import torch
from jaxtyping import Float64
from torch import Tensor

from attnlib.positions import (
    Pairing,
    check_pairing,
    linear_frequencies,
    llama3_frequencies,
    rotary_frequencies,
    yarn_frequencies,
)
from attnlib.sizes import LinearScaling, Llama3Scaling, RotarySizes, YarnScaling

__all__ = ["check_rotary", "frequencies_of"]


def frequencies_of(rotary: RotarySizes, width: int) -> Float64[Tensor, "*frequencies"]:
    """List by which angle each pair of coordinates turns at every step, scaled as the sizes say.

    Args:
        rotary: Base and scaling.
        width: How many coordinates turn: d of a layer with shared heads, r of one with a latent.

    Example:
        >>> frequencies_of(RotarySizes(base=100.0, scaling=LinearScaling(factor=2.0)), 4)
        tensor([0.5000, 0.0500], dtype=torch.float64)
    """
    with torch.device("cpu"):  # numbers also where the weights are made without memory
        frequencies = rotary_frequencies(width, base=rotary.base)
        match rotary.scaling:
            case LinearScaling(factor=factor):
                return linear_frequencies(frequencies, factor)
            case Llama3Scaling() as scaling:
                return llama3_frequencies(frequencies, **vars(scaling))
            case YarnScaling() as scaling:
                return yarn_frequencies(
                    width,
                    base=rotary.base,
                    factor=scaling.factor,
                    original_length=scaling.original_length,
                    beta_fast=scaling.beta_fast,
                    beta_slow=scaling.beta_slow,
                )
        return frequencies


def check_rotary(
    rotary: RotarySizes | None, pairing: Pairing | None, letter: str, width: int
) -> None:
    """Refuse rotary positions without a pairing, a pairing without these, and an odd width.

    Args:
        rotary: As in `MultiHeadAttention`.
        pairing: As in `MultiHeadAttention`.
        letter: How the width is called.
        width: How many coordinates turn.

    Example:
        >>> check_rotary(RotarySizes(base=100.0), "half", "d", 5)
        Traceback (most recent call last):
        ValueError: rotary positions turn pairs of coordinates, so d must be even, got d=5
    """
    if rotary is None:
        if pairing is not None:
            raise ValueError(
                f"pairing says how rotary positions turn and needs rotary=..., got {pairing!r}"
            )
        return
    if not isinstance(rotary, RotarySizes):
        raise TypeError(f"rotary must be RotarySizes or None, got {type(rotary).__name__}")
    check_pairing(pairing)
    if width % 2:
        raise ValueError(
            f"rotary positions turn pairs of coordinates, so {letter} must be even, got "
            f"{letter}={width}"
        )
