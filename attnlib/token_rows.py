"""What a model is given to read: rows of token ids, filled up to one length.

Source   this book
Chapter  chapters/language-models.md
Axes     attnlib/axes.py

What is to be continued is filled up on the left, so that the last place of every row holds its last
token: the one after which the next is wanted. Pairs and texts that are only read are filled up on
the right. `is_token` says where tokens stand, and the models do not read the other places.

    >>> tokens, is_token = pad_left([[5, 7, 2], [9]])
    >>> tokens
    tensor([[5, 7, 2],
            [0, 0, 9]])
    >>> is_token.int()
    tensor([[1, 1, 1],
            [0, 0, 1]], dtype=torch.int32)
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from attnlib.models import EncoderDecoder, LanguageModel
from attnlib.require import integer
from attnlib.tensor_checks import SIGNED, check_boolean, kind_of
from attnlib.token_checks import list_of_ids

__all__ = ["check_model", "check_room", "in_mode", "pad_left", "pad_right", "rows_of"]


def pad_left(
    rows: Sequence[Sequence[int]], *, pad_id: int = 0
) -> tuple[Int[Tensor, "b t"], Bool[Tensor, "b t"]]:
    """Put rows of ids into one tensor, each at its right end.

    Args:
        rows: At least one, each with at least one id.
        pad_id: What stands in front of the shorter rows; models do not read it.

    Returns:
        The ids, and where they stand.

    Raises:
        TypeError: If a row is no sequence of whole numbers, or `pad_id` none.
        ValueError: If there is no row or an empty one.

    Example:
        >>> pad_left([[1], [2, 3]], pad_id=9)[0].tolist()
        [[9, 1], [2, 3]]
    """
    rows, t = _with_length(rows)
    pad_id = integer("pad_id", pad_id)
    tokens = torch.tensor([[pad_id] * (t - len(row)) + row for row in rows])
    is_token = torch.arange(t) >= torch.tensor([[t - len(row)] for row in rows])
    return tokens, is_token


def pad_right(
    rows: Sequence[Sequence[int]], *, pad_id: int = 0
) -> tuple[Int[Tensor, "b t"], Bool[Tensor, "b t"]]:
    """Put rows of ids into one tensor, each at its left end.

    Args:
        rows: At least one, each with at least one id.
        pad_id: What stands behind the shorter rows; models do not read it.

    Returns:
        The ids, and where they stand.

    Raises:
        TypeError: If a row is no sequence of whole numbers, or `pad_id` none.
        ValueError: If there is no row or an empty one.

    Example:
        >>> pad_right([[1], [2, 3]], pad_id=9)[0].tolist()
        [[1, 9], [2, 3]]
    """
    rows, t = _with_length(rows)
    pad_id = integer("pad_id", pad_id)
    tokens = torch.tensor([row + [pad_id] * (t - len(row)) for row in rows])
    is_token = torch.arange(t) < torch.tensor([[len(row)] for row in rows])
    return tokens, is_token


def _with_length(rows: Sequence[Sequence[int]]) -> tuple[list[list[int]], int]:
    """The rows as lists, and the length of the longest."""
    rows = [list_of_ids(row, "a row") for row in rows]
    if not rows or not all(rows):
        raise ValueError(
            f"rows must be at least 1, each with at least 1 token, got lengths {[*map(len, rows)]}"
        )
    return rows, max(map(len, rows))


def rows_of(name: str, tokens: Any, is_token: Any, vocabulary: int) -> list[list[int]]:
    """Take the tokens of each row, in order, without what fills it up.

    Args:
        name: What the tokens are called in an error: tokens or source.
        tokens: A tensor of the axes (b, t), or a sequence of rows of ids.
        is_token: True where a token stands, for a tensor; None if everywhere.
        vocabulary: v; ids are from 0 to v − 1.

    Raises:
        TypeError: If the ids are no signed integers or `is_token` is not boolean.
        ValueError: If the shapes differ, a row has no token, or an id is outside the vocabulary.

    Example:
        >>> is_token = torch.tensor([[True, True], [False, True]])
        >>> rows_of("tokens", torch.tensor([[5, 7], [0, 9]]), is_token, 10)
        [[5, 7], [9]]
    """
    flags = f"is_{name.removesuffix('s')}"
    if isinstance(tokens, Tensor):
        if tokens.dtype not in SIGNED:
            raise TypeError(f"{name} must be signed integers, got {kind_of(tokens)}")
        if tokens.ndim != 2:
            raise ValueError(f"{name} must be rows of ids, got shape {tuple(tokens.shape)}")
        if tokens.is_meta:
            raise ValueError(f"{name} must hold numbers, got a tensor on the meta device")
        if is_token is None:
            rows = tokens.tolist()
        else:
            check_boolean(flags, is_token, "token")
            if is_token.shape != tokens.shape:
                raise ValueError(
                    f"{flags} must have the shape of {name}, got shapes "
                    f"{tuple(is_token.shape)} and {tuple(tokens.shape)}"
                )
            rows = [row[here].tolist() for row, here in zip(tokens, is_token, strict=True)]
    else:
        if is_token is not None:
            raise ValueError(f"{flags} belongs to a tensor of padded rows, got {name} as a list")
        if not isinstance(tokens, Sequence) or isinstance(tokens, str | bytes | Set | Mapping):
            raise TypeError(f"{name} must be rows of ids, got {kind_of(tokens)}")
        rows = [list_of_ids(row, f"a row of {name}") for row in tokens]
    for i, row in enumerate(rows):
        if not row:
            raise ValueError(f"every row of {name} must have at least 1 token, got 0 in row {i}")
        wrong = [x for x in (min(row), max(row)) if not 0 <= x < vocabulary]
        if wrong:
            raise ValueError(
                f"{name} must be from 0 to v - 1 = {vocabulary - 1}, got {wrong[0]} in row {i}"
            )
    return rows


def check_model(model: Any, source: Any, is_source: Any) -> None:
    """Refuse what is no model with logits, and a source that it lacks or cannot read.

    Args:
        model: A LanguageModel, or an EncoderDecoder with a source.
        source: What an EncoderDecoder reads, otherwise None.
        is_source: Where its tokens stand; without a source there is nowhere.

    Raises:
        TypeError: If the model is another.
        ValueError: If a source is missing or without use, or the weights are on the meta device.

    Example:
        >>> check_model(nn.Linear(2, 3), None, None)
        Traceback (most recent call last):
        TypeError: model must be a LanguageModel or an EncoderDecoder, got Linear
    """
    if not isinstance(model, LanguageModel | EncoderDecoder):
        raise TypeError(
            f"model must be a LanguageModel or an EncoderDecoder, got {type(model).__name__}"
        )
    if isinstance(model, EncoderDecoder):
        if source is None:
            raise ValueError("an EncoderDecoder must be given a source, got source=None")
    elif source is not None or is_source is not None:
        raise ValueError("source and is_source belong to an EncoderDecoder, got a LanguageModel")
    if next(model.parameters()).is_meta:
        raise ValueError("model must have its weights, got them on the meta device")


def check_room(t: int, n_new: int, context: int, reader: str = "model") -> None:
    """Refuse more tokens than a model can read; the last new one need not be read.

    Args:
        t: How many tokens there are.
        n_new: How many are to follow.
        context: How many the model reads at most.
        reader: What the model is called in the error.

    Raises:
        ValueError: If t + n_new − 1 is more than that.

    Example:
        >>> check_room(5, 4, context=8)
    """
    if t + max(n_new - 1, 0) > context:
        raise ValueError(
            f"t + n_new - 1 must be at most the context that the {reader} reads, got t={t}, "
            f"n_new={n_new} and context={context}"
        )


@contextmanager
def in_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """Put a model into training or evaluation mode, and give each of its parts its own mode back.

    They get it back after an error or an interrupt, too.

    Args:
        model: Any module.
        training: True for training mode, in which dropout acts.

    Example:
        >>> model = nn.Dropout(0.5)
        >>> with in_mode(model, False):
        ...     model.training
        False
        >>> model.training
        True
    """
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.train(training)
        yield
    finally:
        for module, mode in modes:
            module.training = mode
