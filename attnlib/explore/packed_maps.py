"""Attention weights in 12 bits each, so that Python and the page compute with the very same.

What is kept of a weight w is the nearest whole number q to 4095 √w, and (q / 4095)² is what is
shown. The root is off by at most 1/8190, so the weight by at most √w / 4095 + 1/8190², less than
0.00025; small weights are kept finer than large ones. Two numbers of 12 bits fill three bytes.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from attnlib.explore import limits

LARGEST = 4095
MOST_OFF = 0.00025
SUM_TOLERANCE = 1e-3  # a row whose weights were rounded to half precision is off by 2⁻¹¹ at most
Packed = Mapping[str, Any]


def pack_maps(name: str, value: Any, *, square: bool = True) -> dict[str, Any]:
    """Weights of the axes (layer, head, t, s) as their shape and base64; what is packed stays.

    Args:
        name: What errors call them.
        value: The weights, or what this function made of some.
        square: Whether the targets are the sources too, as in self-attention; else their numbers
            may differ, and the shape has `targets` and `sources` in the place of `tokens`.

    Example:
        >>> packed = pack_maps("weights", [[[[1.0, 0.0], [0.25, 0.75]]]])
        >>> np.round(unpack_maps(packed), 3).tolist()
        [[[[1.0, 0.0], [0.25, 0.75]]]]
    """
    if isinstance(value, Mapping):
        packed = _well_formed(name, value, square)
        n_sources = shape_of(packed)[-1]
        # The roots of a row of length one, each off by at most 1/8190, and what it may be off by.
        off = n_sources**0.5 / LARGEST + n_sources / (2 * LARGEST) ** 2
        _check(name, unpack_maps(packed), SUM_TOLERANCE + off, square)
        return packed
    weights = _as_weights(name, value)
    _check(name, weights, SUM_TOLERANCE, square)
    roots = np.rint(LARGEST * np.sqrt(np.minimum(weights, 1.0))).astype(np.uint16)
    n_layers, n_heads, n_targets, n_sources = weights.shape
    sizes = {"tokens": n_targets} if square else {"targets": n_targets, "sources": n_sources}
    return {
        "layers": n_layers,
        "heads": n_heads,
        **sizes,
        "roots": base64.b64encode(_to_bytes(roots.reshape(-1))).decode(),
    }


def shape_of(packed: Packed) -> tuple[int, int, int, int]:
    """How many layers, heads, targets and sources there are."""
    targets, sources = ("tokens", "tokens") if "tokens" in packed else ("targets", "sources")
    return packed["layers"], packed["heads"], packed[targets], packed[sources]


def unpack_roots(packed: Packed) -> np.ndarray:
    """The whole numbers q, of shape (layers, heads, targets, sources)."""
    shape = shape_of(packed)
    triples = np.frombuffer(base64.b64decode(packed["roots"]), np.uint8).reshape(-1, 3)
    left, middle, right = triples.astype(np.uint16).T
    pairs = np.stack([left << 4 | middle >> 4, (middle & 15) << 8 | right], axis=1)
    return pairs.reshape(-1)[: np.prod(shape)].reshape(shape)


def unpack_maps(packed: Packed) -> np.ndarray:
    """The weights as they are shown, (q / 4095)²."""
    return (unpack_roots(packed) / LARGEST) ** 2


def _to_bytes(roots: np.ndarray) -> bytes:
    """Two numbers in three bytes; a zero is added where their count is odd."""
    first, second = np.append(roots, np.zeros(roots.size % 2, np.uint16)).reshape(-1, 2).T
    triples = np.stack([first >> 4, (first & 15) << 4 | second >> 8, second & 255], axis=1)
    return triples.astype(np.uint8).tobytes()


def _as_weights(name: str, value: Any) -> np.ndarray:
    if hasattr(value, "detach"):  # a torch tensor, of any float type and on any device
        value = value.detach().cpu().double().numpy()
    try:
        weights = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        weights = np.empty(0)
    if weights.ndim != 4:
        raise TypeError(
            f"{name} must be numbers of the axes (layer, head, t, s), got "
            f"{f'the shape {weights.shape}' if weights.size else f'{value!r:.80}'}"
        )
    return weights


def _check(name: str, weights: np.ndarray, tolerance: float, square: bool) -> None:
    bounds = [limits.N_MAP_LAYERS, limits.N_MAP_HEADS]
    bounds += [limits.N_MAP_TOKENS] if square else [limits.N_ALIGNED_TOKENS] * 2
    for count, (fewest, most), what in zip(
        weights.shape, bounds, ("layers", "heads", "targets", "sources"), strict=False
    ):
        if not fewest <= count <= most:
            raise ValueError(f"{name} must have {fewest} to {most} {what}, got {count}")
    if square and weights.shape[2] != weights.shape[3]:
        raise ValueError(
            f"{name} must have as many sources as targets, got s={weights.shape[3]} and "
            f"t={weights.shape[2]}"
        )
    if not (weights >= 0).all():  # also finds NaN
        layer, head, t, s = np.argwhere(~(weights >= 0))[0]
        raise ValueError(
            f"{name} must be at least 0, got {weights[layer, head, t, s]} at "
            f"layer={layer}, head={head}, t={t}, s={s}"
        )
    sums = weights.sum(axis=-1)
    wrong = np.argwhere(~(abs(sums - 1) <= tolerance))
    if wrong.size:
        layer, head, t = wrong[0]
        raise ValueError(
            f"the {name} of a target must sum to 1 within {tolerance:.2g}, got "
            f"{sums[layer, head, t]:.6g} at layer={layer}, head={head}, t={t}"
        )


def _well_formed(name: str, packed: Packed, square: bool) -> dict[str, Any]:
    try:
        n_numbers = math.prod(shape_of(packed))
        n_bytes = len(base64.b64decode(packed["roots"], validate=True))
        fits = (
            n_numbers > 0 and n_bytes == 3 * -(-n_numbers // 2) and square == ("tokens" in packed)
        )
    except (KeyError, TypeError, binascii.Error):
        fits = False
    if not fits:
        raise ValueError(f"{name} must be weights, or weights as this explorer packs them")
    return dict(packed)
