"""What a tensor must be: the refusals that masks, positions, attention and layers share.

Source   this book
Chapter  chapters/conventions.md
Axes     attnlib/axes.py

Each is made before anything is computed, and names the requirement, the letters and what came. A
wrong kind of thing is a TypeError, a wrong shape or value a ValueError.
"""

import torch
from torch import Tensor

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The dtypes that attnlib computes with."""

SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
"""The dtypes of positions."""


def kind_of(x: object) -> str:
    """Name the dtype of a tensor, or the type of anything else.

    Example:
        >>> kind_of(torch.ones(2)), kind_of([1.0, 1.0])
        ('torch.float32', 'list')
    """
    return str(x.dtype) if isinstance(x, Tensor) else type(x).__name__


def check_floating(name: str, x: Tensor, advice: str = "") -> None:
    """Refuse what is no tensor of numbers with a fraction.

    Example:
        >>> check_floating("q", torch.ones(2, dtype=torch.int64))
        Traceback (most recent call last):
        TypeError: q must be a tensor of fp16, bf16, fp32 or fp64, got torch.int64
    """
    if not isinstance(x, Tensor) or x.dtype not in FLOATING:
        raise TypeError(
            f"{name} must be a tensor of fp16, bf16, fp32 or fp64, got {kind_of(x)}{advice}"
        )


def check_boolean(name: str, x: Tensor, true_means: str, advice: str = "") -> None:
    """Refuse what is no boolean tensor: 0 and 1 mean different things in different libraries.

    Example:
        >>> check_boolean("where", torch.ones(2), "counts")
        Traceback (most recent call last):
        TypeError: where must be a boolean tensor, True = counts, got torch.float32
    """
    if not isinstance(x, Tensor) or x.dtype != torch.bool:
        raise TypeError(
            f"{name} must be a boolean tensor, True = {true_means}, got {kind_of(x)}{advice}"
        )


def check_axes(name: str, x: Tensor, axes: str) -> None:
    """Refuse another number of axes than there are letters.

    Example:
        >>> check_axes("q", torch.ones(2, 3), "b h t d")
        Traceback (most recent call last):
        ValueError: q must have axes (b, h, t, d), got shape (2, 3)
    """
    letters = axes.split()
    if x.ndim != len(letters):
        raise ValueError(
            f"{name} must have axes ({', '.join(letters)}), got shape {tuple(x.shape)}"
        )


def check_is_token(is_token: Tensor) -> None:
    """Refuse what does not say of every place of every row whether a token stands there.

    Example:
        >>> check_is_token(torch.tensor([True, False]))
        Traceback (most recent call last):
        ValueError: is_token must have axes (b, s), got shape (2,)
    """
    advice = "; for 0 and 1 write is_token.bool(), for tokens write tokens != pad_id"
    check_boolean("is_token", is_token, "token", advice)
    check_axes("is_token", is_token, "b s")


def check_positions(name: str, positions: Tensor) -> None:
    """Refuse what are no whole numbers from 0.

    Example:
        >>> check_positions("positions", torch.tensor([0, -1]))
        Traceback (most recent call last):
        ValueError: positions must be at least 0, got -1
    """
    if not isinstance(positions, Tensor) or positions.dtype not in SIGNED:
        raise TypeError(
            f"{name} must be a tensor of signed integers, got {kind_of(positions)}; for a boolean "
            "mask write padded_positions(is_token)"
        )
    if positions.is_meta:  # a shape without numbers
        return
    if positions.numel() and (lowest := int(positions.min())) < 0:
        raise ValueError(f"{name} must be at least 0, got {lowest}")


def broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Say whether an array of the one shape can be repeated to fill the other.

    Example:
        >>> broadcasts_to((5, 7), (2, 6, 5, 7)), broadcasts_to((2, 7), (2, 6, 5, 7))
        (True, False)
    """
    missing = len(target) - len(shape)
    return missing >= 0 and all(
        size in (1, wanted) for size, wanted in zip(shape, target[missing:], strict=True)
    )
