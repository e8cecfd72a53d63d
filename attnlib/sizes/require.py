"""What a size may be: whole numbers that count something, and nothing rounded.

Source   this book
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py
"""

from dataclasses import fields
from typing import get_args

from attnlib import require

# How each size is called in a message: by its axis letter where it has one.
_LETTERS = {
    "n_query_heads": "h",
    "n_kv_heads": "g",
    "head_dim": "d",
    "value_dim": "e",
    "query_latent": "u",
    "kv_latent": "c",
    "nope_dim": "n",
    "rope_dim": "r",
    "width": "m",
    "vocabulary": "v",
}


def require_fields(sizes: object) -> None:
    """Refuse every field of a dataclass whose value cannot be what its annotation says.

    A count is a whole number of at least 1, or of at least 0 where its default is 0; those of other
    libraries become Python's, which cannot overflow. A factor is finite and positive, a text not
    empty, a part one of the dataclasses named. Tuples are left to whoever knows what they mean.
    """
    for field in fields(sizes):
        value = getattr(sizes, field.name)
        kinds = get_args(field.type) or (field.type,)
        if value is None and type(None) in kinds:
            continue
        letter = _LETTERS.get(field.name)
        said = f"{field.name} ({letter})" if letter else field.name
        if int in kinds:
            count = require.at_least(said, value, 0 if field.default == 0 else 1)
            object.__setattr__(sizes, field.name, count)
        elif float in kinds:
            object.__setattr__(sizes, field.name, require.positive(said, value))
        elif field.type is bool:
            _require_kind(said, value, bool, "True or False")
        elif field.type is str:
            _require_kind(said, value, str, "a text")
            if not value:
                raise ValueError(f"{said} must not be empty")
        elif Ellipsis not in kinds:
            parts = tuple(kind for kind in kinds if kind is not type(None))
            _require_kind(said, value, parts, " or ".join(kind.__name__ for kind in parts))


def _require_kind(said: str, value: object, kind: type | tuple[type, ...], wanted: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{said} must be {wanted}, got {value!r}")


def require_one_of(sizes: object, name: str, known: tuple[str, ...]) -> None:
    value = getattr(sizes, name)
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}; got {value!r}")
