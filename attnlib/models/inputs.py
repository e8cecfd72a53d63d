"""What tokens must be that a model is given: the refusals that all models share.

Source   this book
Chapter  chapters/encoder-decoder.md
Axes     attnlib/axes.py
"""

import torch
from torch import Tensor

from attnlib.sizes import ModelSizes
from attnlib.tensor_checks import check_axes, check_boolean, kind_of

__all__ = ["check_is_token", "check_model", "check_numbers", "check_same_shape", "check_tokens"]


def check_tokens(
    name: str, tokens: Tensor, sizes: ModelSizes, is_token: Tensor | None, is_token_name: str
) -> None:
    """Refuse rows of tokens that a model of these sizes cannot look up."""
    check_numbers(name, tokens, "v", sizes.vocabulary)
    n_places = tokens.shape[1]
    if not 1 <= n_places <= sizes.context:
        raise ValueError(
            f"a row of {name} must have from 1 to context={sizes.context} places, got {n_places}"
        )
    check_is_token(is_token_name, is_token, name, tokens)


def check_is_token(name: str, is_token: Tensor | None, tokens_name: str, tokens: Tensor) -> None:
    """Refuse what does not say of every place of the rows whether a token stands there."""
    if is_token is not None:
        check_boolean(name, is_token, "token")
        check_same_shape(name, is_token, tokens_name, tokens)


def check_numbers(name: str, x: Tensor, letter: str, count: int) -> None:
    """Refuse what are no numbers from 0 to count − 1 with the axes (b, t)."""
    if not isinstance(x, Tensor) or x.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{name} must be a tensor of int64 or int32, got {kind_of(x)}")
    check_axes(name, x, "b t")
    if x.is_meta or not x.numel():
        return
    least, most = int(x.min()), int(x.max())
    if not 0 <= least <= most < count:
        raise ValueError(
            f"{name} must be from 0 to {letter} − 1 = {count - 1}, got {least} to {most}"
        )


def check_same_shape(name: str, x: Tensor, tokens_name: str, tokens: Tensor) -> None:
    """Refuse another shape than that of the tokens."""
    if x.shape != tokens.shape:
        raise ValueError(
            f"{name} must have the shape of {tokens_name}, (b, t) = {tuple(tokens.shape)}, got "
            f"{tuple(x.shape)}"
        )


def check_model(kind: str, sizes: ModelSizes, **wanted: object) -> None:
    """Refuse the sizes of another kind of model, by the first field that differs.

    Example:
        >>> from attnlib import PUBLISHED
        >>> check_model("an encoder", PUBLISHED["gpt-2"], causal=False)
        Traceback (most recent call last):
        ValueError: an encoder has causal=False, got causal=True in GPT-2
    """
    if not isinstance(sizes, ModelSizes):
        raise TypeError(f"sizes must be ModelSizes, got {type(sizes).__name__}")
    for field, value in wanted.items():
        if getattr(sizes, field) != value:
            raise ValueError(
                f"{kind} has {field}={value!r}, got {field}={getattr(sizes, field)!r} in "
                f"{sizes.name}"
            )
