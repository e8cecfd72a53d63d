"""What layers may be given: the refusals that all layers with attention share.

Source   this book
Chapter  chapters/multi-head-attention.md
Axes     attnlib/axes.py
"""

import torch
from torch import Tensor

from attnlib.caches import LayerCache
from attnlib.sizes import RotarySizes
from attnlib.tensor_checks import check_axes, check_floating, check_positions

__all__ = ["check_places", "check_states", "check_stream", "note_positions"]


def check_states(name: str, x: Tensor, axes: str | None, width: int, weight: Tensor) -> None:
    """Refuse what are no vectors of this width, of the dtype and on the device of the weights.

    Args:
        name: How x is called.
        x: Vectors, along the last axis.
        axes: Of x; None where the axes before the last do not matter.
        width: Of the last axis.
        weight: One of the layer's.
    """
    check_floating(name, x)
    if axes is not None:
        check_axes(name, x, axes)
    if x.shape[-1:] != (width,):
        raise ValueError(
            f"{name} must have the width m={width} that this layer takes along its last axis, got "
            f"shape {tuple(x.shape)}"
        )
    if x.device != weight.device:
        raise ValueError(
            f"{name} must be on the device of the layer, got {x.device} and a layer on "
            f"{weight.device}"
        )
    if x.dtype != weight.dtype and not _autocast_casts(x, weight):
        raise TypeError(
            f"{name} must have the dtype of the layer's weights, got {x.dtype} and weights of "
            f"{weight.dtype}"
        )


def check_places(
    name: str, positions: Tensor | None, x: Tensor, rotary: RotarySizes | None
) -> None:
    """Refuse positions that are not one for each token, or that nothing turns by.

    Args:
        name: How they are called.
        positions: None are always fine here.
        x: The tokens.
        rotary: Of the layer.
    """
    if positions is None:
        return
    if rotary is None:
        raise ValueError(f"{name} have no use in a layer without rotary=..., got {name}")
    check_positions(name, positions)
    b, n, _ = x.shape
    if tuple(positions.shape) not in ((n,), (1, n), (b, n)):
        raise ValueError(
            f"{name} must have the shape ({n},), one for each token, or ({b}, {n}), got "
            f"{tuple(positions.shape)}"
        )


def check_stream(cache: LayerCache, positions: Tensor | None) -> None:
    """Refuse positions of a chunk that do not go on from those before it.

    Args:
        cache: What the layer keeps of the tokens before.
        positions: Of the chunk; None are the places.
    """
    if positions is None and cache.last_position >= cache.n_tokens:
        raise ValueError(
            "positions of a chunk must go on from those before it, got None, which are the places "
            f"from {cache.n_tokens} on, after position {cache.last_position}"
        )
    if positions is None or not positions.numel():
        return
    first = int(positions[..., 0].max())
    if first <= cache.last_position or bool((positions.diff(dim=-1) < 0).any()):
        raise ValueError(
            "positions of a chunk must go on from those before it, got "
            f"{positions.tolist()} after position {cache.last_position}"
        )


def note_positions(cache: LayerCache, positions: Tensor | None, rotary: RotarySizes | None) -> None:
    """Let the cache know where its last token stands, for `check_stream`.

    Args:
        cache: To which a chunk has been appended.
        positions: Of the chunk; None are the places.
        rotary: Of the layer.
    """
    if positions is None:
        if rotary is not None:
            cache.last_position = cache.n_tokens - 1
    elif positions.numel():
        cache.last_position = int(positions.max())


def _autocast_casts(*tensors: Tensor) -> bool:
    """Autocast makes them one dtype, unless one is in fp64, which it leaves alone."""
    kind = tensors[0].device.type
    enabled = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return enabled and all(x.dtype != torch.float64 for x in tensors)
