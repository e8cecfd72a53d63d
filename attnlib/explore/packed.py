"""Vectors as whole numbers of 16 bits, so that Python and the page compute with the very same.

The largest entry becomes 32767, so an entry is off by at most 1/65534 of that; a cosine does not
see the common factor. Dot products of up to 100 such numbers are exact in float64, in Python and
in JavaScript: they stay below 2⁵³.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np

from attnlib.explore import limits

LARGEST = 32767
Packed = Mapping[str, Any]


def pack(name: str, value: Any) -> dict[str, Any]:
    """A table of numbers, one row a word, as its shape and base64; what is packed stays.

    Example:
        >>> unpack(pack("vectors", [[2.0, 0.0], [-1.0, 1.0]])).tolist()
        [[32767, 0], [-16384, 16384]]
    """
    if isinstance(value, Mapping):
        _check(name, unpack(_well_formed(name, value)))
        return dict(value)
    try:
        table = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.ndim != 2:
        raise TypeError(f"{name} must be a table of numbers, one row a word, got {value!r:.80}")
    if not np.isfinite(table).all():
        row = int(np.flatnonzero(~np.isfinite(table).all(axis=1))[0])
        raise ValueError(f"{name} must be finite, got {table[row].tolist()!r:.80} in row {row}")
    whole = table * (LARGEST / max(float(np.abs(table).max(initial=0.0)), 1e-300))
    whole = np.rint(whole).astype("<i2")
    _check(name, whole)
    return {
        "rows": whole.shape[0],
        "columns": whole.shape[1],
        "int16": base64.b64encode(whole.tobytes()).decode(),
    }


def unpack(packed: Packed) -> np.ndarray:
    """The whole numbers, of shape (rows, columns)."""
    whole = np.frombuffer(base64.b64decode(packed["int16"]), dtype="<i2")
    return whole.reshape(packed["rows"], packed["columns"]).astype(np.int64)


def _check(name: str, whole: np.ndarray) -> None:
    for axis, bounds, what in ((0, limits.N_WORDS, "rows"), (1, limits.N_COLUMNS, "columns")):
        fewest, most = bounds
        if not fewest <= whole.shape[axis] <= most:
            raise ValueError(f"{name} must have {fewest} to {most} {what}, got {whole.shape[axis]}")
    empty = np.flatnonzero(~whole.any(axis=1))
    if empty.size:
        raise ValueError(
            f"each row of {name} must have a direction, got zeros, or next to them, "
            f"in row {empty[0]}"
        )


def _well_formed(name: str, packed: Packed) -> Packed:
    try:
        n_bytes = len(base64.b64decode(packed["int16"], validate=True))
        fits = n_bytes == 2 * packed["rows"] * packed["columns"]
    except (KeyError, TypeError, binascii.Error):
        fits = False
    if not fits:
        raise ValueError(f"{name} must be a table of numbers, or one as this explorer packs it")
    return packed
