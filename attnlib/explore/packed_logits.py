"""Logits in 16 bits each, so that Python and the page compute with the very same.

What is kept of a logit is its distance from the largest of its row, in half precision: softmax does
not see what is taken off, and near 0, where the likely tokens are, that is finest. A distance is
off by at most 2⁻¹¹ of itself, so a weight of more than e⁻⁸ by less than 0.4 %. Tokens whose
distances are rounded to the same number have become equal ones.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from attnlib.explore import limits
from attnlib.sampling import fault_of_logits

Packed = Mapping[str, Any]
_LEAST = float(np.finfo(np.float16).min)  # what is farther away would become −∞


def pack_logits(name: str, value: Any) -> dict[str, Any]:
    """A row of logits for each position as their shape and base64; what is packed stays.

    Example:
        >>> packed = pack_logits("logits", [[2.0, 5.0, float("-inf")]])
        >>> unpack_logits(packed).tolist()
        [[-3.0, 0.0, -inf]]
    """
    if isinstance(value, Mapping):
        _check(name, unpack_logits(_well_formed(name, value)))
        return dict(value)
    logits = _as_table(name, value)
    _check(name, logits)
    distances = logits - logits.max(axis=1, keepdims=True)
    distances[np.isfinite(distances)] = np.maximum(distances[np.isfinite(distances)], _LEAST)
    return {
        "rows": logits.shape[0],
        "columns": logits.shape[1],
        "float16": base64.b64encode(distances.astype("<f2").tobytes()).decode(),
    }


def unpack_logits(packed: Packed) -> np.ndarray:
    """The logits in double precision, of shape (rows, columns); 0 is the largest of a row."""
    halves = np.frombuffer(base64.b64decode(packed["float16"]), dtype="<f2")
    return halves.reshape(packed["rows"], packed["columns"]).astype(np.float64)


def _as_table(name: str, value: Any) -> np.ndarray:
    if hasattr(value, "detach"):  # a torch tensor, of any float type and on any device
        value = value.detach().cpu().double().numpy()
    try:
        logits = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        logits = np.empty(0)
    if logits.ndim != 2:
        raise TypeError(
            f"{name} must be numbers of the axes (position, v), got "
            f"{f'the shape {logits.shape}' if logits.size else f'{value!r:.80}'}"
        )
    return logits


def _check(name: str, logits: np.ndarray) -> None:
    bounds = [("positions", limits.N_NEXT_TOKENS), ("tokens", limits.VOCABULARY)]
    for count, (what, (fewest, most)) in zip(logits.shape, bounds, strict=True):
        if not fewest <= count <= most:
            raise ValueError(f"{name} must have {fewest} to {most} {what}, got {count}")
    if logits.size > limits.N_LOGITS:
        raise ValueError(
            f"{name} must be at most {limits.N_LOGITS} numbers, got {logits.shape[0]} positions "
            f"of v={logits.shape[1]}"
        )
    if (fault := fault_of_logits(torch.from_numpy(logits))) is not None:
        row, holds = fault
        raise ValueError(
            f"every row of {name} must hold a finite one and neither NaN nor +inf, "
            f"got {holds} in row {row}"
        )


def _well_formed(name: str, packed: Packed) -> Packed:
    try:
        n_bytes = len(base64.b64decode(packed["float16"], validate=True))
        fits = n_bytes == 2 * packed["rows"] * packed["columns"] > 0
        fits = fits and bool((unpack_logits(packed).max(axis=1) == 0).all())
    except (KeyError, TypeError, ValueError, binascii.Error):
        fits = False
    if not fits:
        raise ValueError(f"{name} must be a row of logits for each position, or rows packed here")
    return packed
