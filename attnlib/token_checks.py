"""What a text and the ids of tokens must be: the refusals that both kinds of tokenizer share.

Source   this book
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py
"""

from collections.abc import Iterable, Mapping, Set
from typing import Any

from attnlib.require import integer


def check_text(text: Any, name: str = "text") -> None:
    """Refuse what is no string, or a string that UTF-8 cannot hold.

    Example:
        >>> check_text("to be")
        >>> check_text(7)
        Traceback (most recent call last):
        TypeError: text must be a string, got int
    """
    if not isinstance(text, str):
        hint = "; encode_bytes takes bytes" if isinstance(text, bytes) and name == "text" else ""
        raise TypeError(f"{name} must be a string, got {type(text).__name__}{hint}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} must hold no lone surrogate, got {text[error.start]!r} at position "
            f"{error.start}; no UTF-8 can hold it"
        ) from None


def list_of_ids(ids: Any, name: str = "ids") -> list[int]:
    """The ids of a list, an array, a tensor of one axis, or an iterator, as plain integers.

    Bytes would be read as numbers, and a set or a dictionary has no order that means anything, so
    these are refused, though Python could go through them.

    Example:
        >>> list_of_ids(range(3))
        [0, 1, 2]
    """
    ids = ids.tolist() if hasattr(ids, "tolist") and not isinstance(ids, memoryview) else ids
    no_sequence = isinstance(ids, str | bytes | bytearray | memoryview | Set | Mapping)
    if no_sequence or not isinstance(ids, Iterable):
        raise TypeError(f"{name} must be a sequence of integers, got {ids!r}")
    ids = list(ids)
    return ids if set(map(type, ids)) <= {int} else [integer("an id", i) for i in ids]
