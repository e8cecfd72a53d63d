"""The judges: run a reader's function against the definition and name the likely mistake.

Source   this book
Chapter  every chapter, at its end
Axes     attnlib/axes.py

    >>> import numpy as np
    >>> def my_entropy(p):
    ...     return -sum(x * np.log(x) for x in p if x > 0)
    >>> check("entropy", my_entropy)
    Right: entropy agrees with its definition in all 3 cases.
"""

from collections.abc import Callable

from attnlib.exercises.attention import EXERCISES as _ATTENTION
from attnlib.exercises.counting_cost import EXERCISES as _COUNTING_COST
from attnlib.exercises.embeddings import EXERCISES as _EMBEDDINGS
from attnlib.exercises.encoder_decoder import EXERCISES as _ENCODER_DECODER
from attnlib.exercises.grouped_queries import EXERCISES as _GROUPED_QUERIES
from attnlib.exercises.heads import EXERCISES as _HEADS
from attnlib.exercises.judge import Exercise, Mistake
from attnlib.exercises.kv_caching import EXERCISES as _KV_CACHING
from attnlib.exercises.language_models import EXERCISES as _LANGUAGE_MODELS
from attnlib.exercises.latents import EXERCISES as _LATENTS
from attnlib.exercises.masking import EXERCISES as _MASKING
from attnlib.exercises.models_compared import EXERCISES as _MODELS_COMPARED
from attnlib.exercises.positions import EXERCISES as _POSITIONS
from attnlib.exercises.tokenization import EXERCISES as _TOKENIZATION
from attnlib.exercises.variance_scaling import EXERCISES as _VARIANCE_SCALING

__all__ = ["Exercise", "Mistake", "check", "judge", "names"]

_ALL = {
    exercise.name: exercise
    for exercise in (
        *_ATTENTION,
        *_TOKENIZATION,
        *_EMBEDDINGS,
        *_POSITIONS,
        *_VARIANCE_SCALING,
        *_MASKING,
        *_HEADS,
        *_ENCODER_DECODER,
        *_LANGUAGE_MODELS,
        *_COUNTING_COST,
        *_KV_CACHING,
        *_GROUPED_QUERIES,
        *_LATENTS,
        *_MODELS_COMPARED,
    )
}


def check(name: str, function: Callable) -> None:
    """Judge the reader's function, and say in one line that it is right.

    Args:
        name: Which exercise; `names()` lists them.
        function: The reader's; it may take and return NumPy arrays or torch tensors.

    Raises:
        Mistake: If the function is wrong, with the likely mistake.
        ValueError: If there is no such exercise.

    Example:
        >>> import numpy as np
        >>> check("entropy", lambda p: -(p * np.log2(p)).sum())  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        attnlib.exercises.judge.Mistake: entropy, five weights: that is the entropy in bits. ...
    """
    judge(name).check(function)


def judge(name: str) -> Exercise:
    """Find an exercise by its name.

    Raises:
        ValueError: If there is no such exercise; the message lists those that exist.

    Example:
        >>> judge("entropy").asks
        'entropy(p) → the entropy in nats of weights p of shape (s,)'
    """
    if not isinstance(name, str) or name not in _ALL:
        raise ValueError(f"there is no exercise {name!r}; those that exist: {', '.join(_ALL)}")
    return _ALL[name]


def names() -> list[str]:
    """List the exercises.

    Example:
        >>> names()[:2]
        ['softmax', 'kernel-average']
    """
    return list(_ALL)
