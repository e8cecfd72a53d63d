r"""The cache of a whole model: one of each layer, and where in the rows the tokens stand.

Source   Pope et al. 2022, arXiv:2211.05102, section 2.1
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py

A model makes its own by `new_cache` and is given it with each chunk of the stream:

    >>> from attnlib import TRAINED, LanguageModel
    >>> model = LanguageModel(TRAINED["shakespeare"], pairing="half").eval()
    >>> tokens, cache = torch.tensor([[3, 1, 4, 1, 5]]), model.new_cache()
    >>> with torch.inference_mode():
    ...     whole = model(tokens)
    ...     in_chunks = [model(chunk, cache=cache) for chunk in tokens.split([3, 1, 1], dim=1)]
    >>> torch.allclose(torch.cat(in_chunks, dim=1), whole, atol=1e-5)
    True
    >>> cache.n_tokens
    5
"""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnlib.caches.layer import CrossCache, LayerCache

__all__ = ["ModelCache", "unchanged_on_error"]

# What was going on when an interrupt came.
_WRITTEN = "a chunk was written"
_TAKEN_BACK = "tokens were taken back"
_REORDERED = "its rows were reordered"


class ModelCache:
    """The caches of a model's layers, and the padding of its rows.

    It belongs to one model, with the weights that this had: keys and values are of no use to
    another. A row may have padding before its first token; where no layer has a window, also later.

    Attributes:
        layers: The cache of each layer.
        cross: The keys and values of the encoder's output for each layer; empty without encoder.
        may_read: False where that output is padding; None if nowhere.
        is_token: False where a place of a row is padding, (b, s) for all places so far; None if
            nowhere.

    Args:
        owner: The stack of blocks whose cache it is.
        layers: As above.
        cross: As above.
        may_read: As above.
    """

    def __init__(
        self,
        owner: object,
        layers: Sequence[LayerCache],
        *,
        cross: Sequence[CrossCache] = (),
        may_read: Bool[Tensor, "b s"] | None = None,
    ) -> None:
        self.layers, self.cross = tuple(layers), tuple(cross)
        self.may_read = None if may_read is None else may_read.clone()
        self._owner = weakref.ref(owner)
        self._forget()

    @property
    def n_tokens(self) -> int:
        """How many places the rows have so far, padding included."""
        return self._n_tokens

    @property
    def n_rows(self) -> int | None:
        """b, or None where nothing has fixed it yet."""
        return (*self.cross, *self.layers)[0].n_rows

    @property
    def n_tokens_of_rows(self) -> list[int]:
        """How many tokens each row has so far, without its padding."""
        if self.is_token is None:
            return [self._n_tokens] * (self.n_rows or 0)
        return self.is_token.sum(-1).tolist()

    @property
    def nbytes(self) -> int:
        """The bytes of all keys and values that are kept, those of a source included."""
        return sum(cache.nbytes for cache in (*self.layers, *self.cross))

    @property
    def nbytes_allocated(self) -> int:
        """The bytes of the memory that is held for them."""
        return sum(cache.nbytes_allocated for cache in (*self.layers, *self.cross))

    def reset(self) -> None:
        """Forget all tokens. Where there is a source it stays, and with it b.

        Raises:
            ValueError: If the rows of a source were being reordered when an interrupt came.
        """
        if self.cross and self._interrupted == _REORDERED:
            self.check_whole()
        for cache in self.layers:
            cache.reset()
        self._forget()

    def truncate(self, n_tokens: int) -> None:
        """Take back the last places of all rows, so that so many are left.

        Args:
            n_tokens: From 0 to `n_tokens`, padding included.

        Raises:
            TypeError: If it is not a whole number.
            ValueError: If it is outside its range, or a ring no longer keeps what is needed.
        """
        self.check_whole()
        for cache in self.layers:
            n_tokens = cache.check_truncate(n_tokens)
        is_token = None if self.is_token is None else self.is_token[:, :n_tokens]
        self._take_back(n_tokens, is_token, _TAKEN_BACK)

    def reorder(self, rows: Sequence[int] | Int[Tensor, "*rows"]) -> None:
        """Let row i be what row `rows[i]` was: its keys, values, padding and source.

        Args:
            rows: As in `LayerCache.reorder`.

        Raises:
            TypeError: As `LayerCache.reorder`.
            ValueError: As `LayerCache.reorder`.
        """
        self.check_whole()
        caches = [cache for cache in (*self.cross, *self.layers) if cache.n_rows is not None]
        rows = (caches or self.layers)[0].check_rows(rows)
        if rows == list(range(self.n_rows)):
            return
        self._interrupted = _REORDERED
        for cache in caches:
            cache.reorder(rows)
        for name in ("may_read", "is_token"):
            mask = getattr(self, name)
            if mask is not None:
                setattr(self, name, mask[torch.tensor(rows, device=mask.device)])
        self._interrupted = None

    def belongs_to(self, owner: object) -> bool:
        """Say whether it was made by this stack of blocks.

        Args:
            owner: A stack.
        """
        return self._owner() is owner

    def check_whole(self) -> None:
        """Refuse to go on where an interrupt has left the layers with different tokens or rows."""
        if self._interrupted is None:
            return
        again = "reset() it"
        if self.cross and self._interrupted == _REORDERED:
            again = "make another with new_cache"
        raise ValueError(
            f"the cache was interrupted while {self._interrupted}, and its layers no longer go "
            f"together; {again} and read the text again"
        )

    def check_room(self, n_new: int) -> None:
        """Refuse more new places than a layer can take.

        Args:
            n_new: How many.
        """
        for cache in self.layers:
            cache.check_room(n_new)

    def is_token_after(
        self, is_token: Bool[Tensor, "b t"] | None, b: int, t: int, device: torch.device
    ) -> Bool[Tensor, "b s"] | None:
        """Say where tokens stand among all places, those of a new chunk included.

        Args:
            is_token: The same of the chunk; None if all are tokens.
            b: How many rows the chunk has.
            t: How many places it has.
            device: Of the tokens.

        Returns:
            None if there is no padding anywhere.
        """
        if is_token is not None and bool(is_token.all()):
            is_token = None
        if is_token is None and self.is_token is None:
            return None
        before, new = (
            torch.ones(b, n, dtype=torch.bool, device=device) if mask is None else mask
            for mask, n in ((self.is_token, self._n_tokens), (is_token, t))
        )
        return torch.cat([before, new], dim=1)

    @contextmanager
    def writing(self, is_token: Bool[Tensor, "b s"] | None) -> Iterator[None]:
        """Let each layer append the same chunk; after an error or an interrupt none has it.

        Args:
            is_token: Where tokens will stand among all places, as `is_token_after` says.
        """
        with self._unchanged_on_error():
            self._interrupted = _WRITTEN
            yield
            self._n_tokens, self.is_token = self.layers[0].n_tokens, is_token
            self._interrupted = None

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        n_tokens, is_token = self._n_tokens, self.is_token
        was_whole = self._interrupted is None
        try:
            yield
        except BaseException:
            if was_whole and (self._interrupted or self._n_tokens != n_tokens):
                with suppress(ValueError):  # of a ring; check_whole says so from now on
                    self._take_back(n_tokens, is_token, _WRITTEN)
            raise

    def _take_back(self, n_tokens: int, is_token: Tensor | None, interrupted: str) -> None:
        self._interrupted = interrupted
        self._n_tokens, self.is_token = n_tokens, is_token
        for cache in self.layers:
            cache.truncate(n_tokens)
        self._interrupted = None
        if n_tokens == 0:
            self._forget()

    def _forget(self) -> None:
        self._n_tokens, self.is_token, self._interrupted = 0, None, None


def unchanged_on_error(cache: ModelCache | None) -> AbstractContextManager[None]:
    """Let a model write to a cache and then do more; after an error or an interrupt all is undone.

    Args:
        cache: What the model is given; what is no cache is for the model to refuse.

    Example:
        >>> from attnlib import TRAINED, LanguageModel
        >>> model = LanguageModel(TRAINED["shakespeare"], pairing="half")
        >>> cache = model.new_cache()
        >>> with torch.inference_mode(), suppress(MemoryError), unchanged_on_error(cache):
        ...     states = model.decoder(torch.tensor([[3, 1, 4]]), cache=cache)
        ...     raise MemoryError("the logits take too much")
        >>> cache.n_tokens
        0
    """
    return cache._unchanged_on_error() if isinstance(cache, ModelCache) else nullcontext()
