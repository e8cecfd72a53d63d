r"""The cache of one layer: what its tokens left for those to come.

Source   Pope et al. 2022, arXiv:2211.05102, section 2.1 (keys and values are kept); Beltagy et al.
         2020, arXiv:2004.05150, section 3.1 (windows)
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py

What is kept has the tokens along its last axis but one: keys (b, g, s, d) and values (b, g, s, e)
here. `append` writes what new tokens leave and gives what they may read, the new ones included.

A **place** is the number of a token in the stream, from 0, whatever became of those before it. The
ring of a `WindowCache` with W = 4 has the token at place n in slot n mod 4:

| tokens so far | slots 0 to 3 hold the places |
|---|---|
| 3 | 0 1 2 – |
| 4 | 0 1 2 3 |
| 6 | 4 5 2 3 |

    >>> cache, full = WindowCache(4), KVCache()
    >>> for n in range(6):
    ...     k = torch.full((1, 1, 1, 1), float(n))
    ...     (in_ring, _), (in_order, _) = cache.append(k, k), full.append(k, k)
    >>> in_ring.flatten().tolist(), in_order.flatten().tolist()
    ([4.0, 5.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    >>> cache.nbytes, full.nbytes  # 4 and 6 tokens of 2 numbers of 4 bytes
    (32, 48)
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlib.caches.int8 import from_int8, to_int8
from attnlib.require import at_least, between
from attnlib.tensor_checks import check_axes, check_floating
from attnlib.token_checks import list_of_ids

__all__ = [
    "CrossCache",
    "GrowingCache",
    "KVCache",
    "LayerCache",
    "WindowCache",
    "check_storage",
]

_BLOCK = 64  # buffers hold a multiple of so many tokens
_STORAGES = (None, "int8")


class LayerCache:
    """What all caches of a layer do; a kind of cache says what it keeps, and which tokens.

    The first `append` fixes b, the sizes of what is kept, dtype and device; `reset` frees them.
    Nothing that is refused changes a cache.

    The numbers are kept without a graph, so that no gradient would flow through them: tensors that
    require one are refused. They are copied, and what `append` gives are views that the next
    `append` may overwrite.

    Args:
        storage: None keeps the numbers as they are. "int8" keeps a byte for each and a scale for
            each vector of a token and head (see `to_int8`); what is read is then made anew at every
            step, the newest tokens included, so that the result depends on no cut of the stream.

    Raises:
        ValueError: If `storage` is another.
    """

    parts: tuple[tuple[str, str], ...] = (("k", "b g t d"), ("v", "b g t e"))
    """What is kept of a token: names, and axes as they are given to `append`."""

    def __init__(self, *, storage: str | None = None) -> None:
        self.storage = check_storage(storage)
        self._forget()

    @property
    def n_tokens(self) -> int:
        """How many tokens the stream has had so far, those included that are no longer kept."""
        return self._n_tokens

    @property
    def n_kept(self) -> int:
        """How many tokens are kept: all, unless the cache says otherwise."""
        return self._n_tokens

    @property
    def n_rows(self) -> int | None:
        """b, or None where nothing has been appended since the beginning or the last `reset`."""
        return None if self._kinds is None else self._kinds[0][0][0]

    @property
    def letters(self) -> dict[str, int]:
        """The sizes of what is kept by their axis letters; empty before anything is.

        Example:
            >>> CrossCache(torch.ones(2, 3, 4, 5), torch.ones(2, 3, 4, 7)).letters
            {'b': 2, 'g': 3, 'd': 5, 'e': 7}
        """
        found = {}
        for (_, axes), (shape, *_) in zip(self.parts, self._kinds or (), strict=False):
            found |= zip((x for x in axes.split() if x != "t"), shape, strict=True)
        return found

    @property
    def nbytes(self) -> int:
        """The bytes of what is kept, counted from the tensors; scales are counted too."""
        return sum(x.narrow(-2, 0, self.n_kept).nbytes for x in self._buffers)

    @property
    def nbytes_allocated(self) -> int:
        """The bytes of the memory that is held, room for tokens to come included."""
        return sum(x.nbytes for x in self._buffers)

    def n_sources(self, n_new: int) -> int:
        """Count what `append` will give to so many new tokens.

        Args:
            n_new: From 0.
        """
        return self._n_tokens + n_new

    def places(self, n_new: int, device: torch.device | None = None) -> Int[Tensor, "s"]:
        """Say where in the stream the sources stand that `append` will give to new tokens.

        Args:
            n_new: How many tokens will be new.
            device: Of the result.

        Returns:
            One place for each source, in the order of the sources. Masks are made of these.
        """
        return torch.arange(self._n_tokens + n_new, device=device)

    def check_room(self, n_new: int) -> None:
        """Refuse more new tokens than the cache can take.

        Args:
            n_new: How many.
        """

    def check_truncate(self, n_tokens: int) -> int:
        """Refuse what `truncate` would refuse; give the number.

        Args:
            n_tokens: As in `truncate`.
        """
        return between("n_tokens", n_tokens, 0, self._n_tokens)

    def reset(self) -> None:
        """Forget everything, b and the dtype included, and free the memory."""
        self._forget()

    def truncate(self, n_tokens: int) -> None:
        """Take back the last tokens, so that so many are left; where none is, this is `reset`.

        Args:
            n_tokens: From 0 to `n_tokens`.

        Raises:
            TypeError: If it is not a whole number.
            ValueError: If it is outside its range, or what is needed is no longer kept.
        """
        n_tokens = self.check_truncate(n_tokens)
        if n_tokens == 0:
            self.reset()
        # exact where positions are places; padding or a gap makes it too low, which refuses less
        last = self.last_position - (self._n_tokens - n_tokens)
        self.last_position = max(-1, min(last, n_tokens - 1))
        self._n_tokens = n_tokens

    def reorder(self, rows: Sequence[int] | Int[Tensor, "*rows"]) -> None:
        """Let row i be what row `rows[i]` was, keys and values alike.

        Rows may be left out and may be given more than once, so that this drops rows that have
        ended, and lets several go on from one.

        Args:
            rows: At least one number of a row.

        Raises:
            TypeError: If these are no whole numbers.
            ValueError: If there is none or one of no row, or nothing has been appended.
        """
        rows = self.check_rows(rows)
        if rows == list(range(self.n_rows)):
            return
        with torch.inference_mode(False), torch.no_grad():  # see _make_room
            index = torch.tensor(rows)
            self._buffers = [x.index_select(0, index.to(x.device)) for x in self._buffers]
        self.last_position = -1  # unknown: the row that was there may be gone
        self._kinds = tuple(((len(rows), *s[1:]), *rest) for s, *rest in self._kinds)

    def check_rows(self, rows: Sequence[int] | Int[Tensor, "*rows"]) -> list[int]:
        """Refuse what `reorder` would refuse; give the numbers.

        Args:
            rows: As in `reorder`.
        """
        if self.n_rows is None:
            raise ValueError("a cache without tokens has no rows to reorder, got n_tokens=0")
        rows = [between("a row", row, 0, self.n_rows - 1) for row in list_of_ids(rows)]
        if not rows:
            raise ValueError("rows must name at least 1 row, got none")
        return rows

    def _append(self, *given: Tensor) -> tuple[Tensor, ...]:
        kinds = self._require(given)
        n_new = given[0].shape[-2]
        self.check_room(n_new)
        raw = [part for x in given for part in self._packed(x)]
        if self._kinds is None:
            self._forget()  # an interrupt may have left buffers for numbers of another kind
        read = self._put(raw, n_new)
        self._kinds = kinds
        self._n_tokens += n_new
        return self._unpacked(read, given[0].dtype)

    def _forget(self) -> None:
        self._kinds, self._buffers = None, []
        self._n_tokens, self.last_position = 0, -1

    def _put(self, raw: list[Tensor], n_new: int) -> list[Tensor]:
        """Write what is new, and give all that the new tokens may read."""
        raise NotImplementedError

    def _packed(self, x: Tensor) -> tuple[Tensor, ...]:
        return (x,) if self.storage is None else to_int8(x)

    def _unpacked(self, raw: list[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
        if self.storage is None:
            return tuple(raw)
        return tuple(from_int8(*pair, dtype) for pair in zip(raw[::2], raw[1::2], strict=True))

    def _make_room(self, raw: list[Tensor], n_places: int, most: int | None = None) -> None:
        """Have buffers of so many places at least; what is held moves along.

        They grow by half, so that a token is moved less than three times on average however long
        the text gets, and at most a third of the memory is empty, but for the last block.
        """
        n_held = self._buffers[0].shape[-2] if self._buffers else 0
        if self._buffers and n_places <= n_held:
            return
        n_blocks = -(-max(n_places, n_held + n_held // 2) // _BLOCK)
        n = n_blocks * _BLOCK if most is None else min(n_blocks * _BLOCK, most)
        with torch.inference_mode(False), torch.no_grad():
            # what is made in inference mode could not be written to outside of it
            buffers = [
                torch.empty(*x.shape[:-2], n, x.shape[-1], dtype=x.dtype, device=x.device)
                for x in raw
            ]
            for x, y in zip(self._buffers, buffers, strict=False):
                y.narrow(-2, 0, n_held).copy_(x)
        self._buffers = buffers

    def _require(self, given: tuple[Tensor, ...]) -> tuple:
        """Refuse what does not go with what is kept; give what must be the same in all that come.

        That is, for each part, its shape without the tokens, its dtype and its device.
        """
        for (name, axes), x in zip(self.parts, given, strict=True):
            check_floating(name, x)
            check_axes(name, x, axes)
        kinds = tuple(((*x.shape[:-2], x.shape[-1]), x.dtype, x.device) for x in given)
        self._require_one_another(given)
        if self._kinds is not None and kinds != self._kinds:
            self._refuse_other(kinds)
        for (name, _), x in zip(self.parts, given, strict=True):
            if x.requires_grad and torch.is_grad_enabled():
                raise ValueError(
                    f"a cache keeps numbers and no gradients, got {name} that requires a gradient; "
                    "use it within torch.inference_mode() or torch.no_grad()"
                )
        return kinds

    def _require_one_another(self, given: tuple[Tensor, ...]) -> None:
        (first, first_axes), x = self.parts[0], given[0]
        sizes = dict(zip(first_axes.split(), x.shape, strict=True))
        for (name, axes), y in zip(self.parts[1:], given[1:], strict=True):
            for letter, size in zip(axes.split(), y.shape, strict=True):
                if sizes.get(letter, size) != size:
                    raise ValueError(
                        f"{first} and {name} must have the same {letter}, got "
                        f"{letter}={sizes[letter]} in {first} and {letter}={size} in {name}"
                    )
            if (x.dtype, x.device) != (y.dtype, y.device):
                raise TypeError(
                    f"{first} and {name} must have the same dtype and device, got {x.dtype} on "
                    f"{x.device} and {y.dtype} on {y.device}"
                )

    def _refuse_other(self, kinds: tuple) -> None:
        for (name, axes), kept, came in zip(self.parts, self._kinds, kinds, strict=True):
            letters = [letter for letter in axes.split() if letter != "t"]
            for letter, old, new in zip(letters, kept[0], came[0], strict=True):
                if old != new:
                    raise ValueError(
                        f"{name} must have {letter}={old} as in what is kept, got {letter}={new}; "
                        "reset() the cache for another batch or model"
                    )
            for what, old, new in zip(("dtype", "device"), kept[1:], came[1:], strict=True):
                if old != new:
                    kind = TypeError if what == "dtype" else ValueError
                    raise kind(
                        f"{name} must have the {what} of what is kept, {old}, got {new}; reset() "
                        "the cache for another one"
                    )


class GrowingCache(LayerCache):
    r"""Keep what all tokens leave; a kind of it says what that is.

    Memory is taken in blocks, ahead of the tokens; with a capacity all of it at the first `append`.

    Args:
        capacity: How many tokens it takes at most; None means any number.
        storage: As in `LayerCache`.

    Raises:
        TypeError: If the capacity is not a whole number.
        ValueError: If it is below 1, or `storage` is unknown.
    """

    def __init__(self, *, capacity: int | None = None, storage: str | None = None) -> None:
        self.capacity = None if capacity is None else at_least("capacity", capacity, 1)
        super().__init__(storage=storage)

    def check_room(self, n_new: int) -> None:
        if self.capacity is not None and self._n_tokens + n_new > self.capacity:
            raise ValueError(
                f"a cache of capacity={self.capacity} must take n_tokens={self._n_tokens} and "
                f"{n_new} more, got {self._n_tokens + n_new - self.capacity} too many"
            )

    def _put(self, raw: list[Tensor], n_new: int) -> list[Tensor]:
        n = self._n_tokens + n_new
        self._make_room(raw, self.capacity or n, most=self.capacity)
        for x, y in zip(self._buffers, raw, strict=True):
            x.narrow(-2, self._n_tokens, n_new).copy_(y)
        return [x.narrow(-2, 0, n) for x in self._buffers]


class KVCache(GrowingCache):
    r"""Keep the keys and values of all tokens.

    After n tokens it holds g(d + e)n numbers a row.

    Args:
        capacity: As in `GrowingCache`.
        storage: As in `LayerCache`.

    Raises:
        TypeError: As `GrowingCache`.
        ValueError: As `GrowingCache`.

    Example:
        >>> cache = KVCache(capacity=4)
        >>> k, v = torch.ones(2, 3, 1, 5), torch.ones(2, 3, 1, 7)
        >>> for _ in range(3):
        ...     keys, values = cache.append(k, v)
        >>> tuple(keys.shape), tuple(values.shape), cache.n_tokens, cache.nbytes
        ((2, 3, 3, 5), (2, 3, 3, 7), 3, 864)
    """

    def append(
        self, k: Float[Tensor, "b g t d"], v: Float[Tensor, "b g t e"]
    ) -> tuple[Float[Tensor, "b g s d"], Float[Tensor, "b g s e"]]:
        """Keep the keys and values of new tokens, and give those of all tokens, in their order.

        Args:
            k: Keys, as they enter the scores.
            v: Values.

        Raises:
            TypeError: If they are not floating point, or not of the dtype of what is kept.
            ValueError: If b, g, d, e or the device are not those of what is kept, if they require
                gradients, or if there is no room for all of them.
        """
        return self._append(k, v)


class WindowCache(LayerCache):
    r"""Keep the keys and values of the last W tokens, in a ring: all that targets to come may read.

    The target at place n reads the places from n − W + 1 to n. So W tokens are enough for one new
    one, and each token takes the slot of the one that left the window. For a chunk of t tokens,
    `append` gives up to W − 1 old ones and the chunk, in their order, whether or not the chunk is
    longer than the window; which of these a target may read is for the mask to say.

    Args:
        window: W, the target itself included.
        storage: As in `LayerCache`.

    Raises:
        TypeError: If the window is not a whole number.
        ValueError: If it is below 1, or `storage` is unknown.

    Example:
        >>> cache = WindowCache(3)
        >>> chunk = torch.arange(5.0).reshape(1, 1, 5, 1)
        >>> cache.append(chunk, chunk)[0].flatten().tolist()  # nothing is lost within a chunk
        [0.0, 1.0, 2.0, 3.0, 4.0]
        >>> cache.places(1).tolist(), cache.places(2).tolist()
        ([3, 4, 5], [3, 4, 5, 6])
        >>> cache.append(chunk[:, :, :1] + 5, chunk[:, :, :1])[0].flatten().tolist()
        [3.0, 4.0, 5.0]
    """

    def __init__(self, window: int, *, storage: str | None = None) -> None:
        self.window = at_least("window", window, 1)
        super().__init__(storage=storage)

    @property
    def n_kept(self) -> int:
        """How many tokens are kept: at most W."""
        return max(0, self._n_tokens - self._first)

    def append(
        self, k: Float[Tensor, "b g t d"], v: Float[Tensor, "b g t e"]
    ) -> tuple[Float[Tensor, "b g s d"], Float[Tensor, "b g s e"]]:
        """Keep the keys and values of new tokens, and give those that may be within their windows.

        Args:
            k: Keys, as they enter the scores.
            v: Values.

        Returns:
            The sources at `places(t)`. For one new token these are views of the ring as it stands.

        Raises:
            TypeError: As `KVCache.append`.
            ValueError: As `KVCache.append`.
        """
        return self._append(k, v)

    def places(self, n_new: int, device: torch.device | None = None) -> Int[Tensor, "s"]:
        n = self._n_tokens
        if n_new == 1 and n >= self.window:
            slots = torch.arange(self.window, device=device)
            return n - (n - slots) % self.window
        return torch.arange(self._first_read(), n + n_new, device=device)

    def n_sources(self, n_new: int) -> int:
        return self._n_tokens + n_new - self._first_read()

    def _forget(self) -> None:
        super()._forget()
        self._first = 0

    def _first_read(self) -> int:
        """The first place that the next target may read."""
        return max(0, self._n_tokens - self.window + 1)

    def _put(self, raw: list[Tensor], n_new: int) -> list[Tensor]:
        n, w = self._n_tokens, self.window
        read = None if n_new == 1 else self._before_and(raw)
        self._make_room(raw, min(n + n_new, w), most=w)
        # said before it is done: an interrupt in between must not leave it unsaid
        self._first = max(self._first if n else 0, n + n_new - w)
        if n_new == 1:
            for x, y in zip(self._buffers, raw, strict=True):
                x.narrow(-2, n % w, 1).copy_(y)
        else:
            n_kept = min(n_new, w)
            slots = torch.arange(n + n_new - n_kept, n + n_new, device=raw[0].device) % w
            for x, y in zip(self._buffers, raw, strict=True):
                x.index_copy_(-2, slots, y.narrow(-2, n_new - n_kept, n_kept))
        return read or [x.narrow(-2, 0, min(n + 1, w)) for x in self._buffers]

    def _before_and(self, raw: list[Tensor]) -> list[Tensor]:
        """What the first of several new tokens may read of the old ones, and they themselves."""
        if self._n_tokens == 0:
            return raw
        slots = self.places(0, raw[0].device) % self.window
        return [
            torch.cat([x.index_select(-2, slots), y], dim=-2)
            for x, y in zip(self._buffers, raw, strict=True)
        ]

    def check_room(self, n_new: int) -> None:
        self.check_truncate(self._n_tokens)  # an interrupt may have left a chunk half written

    def check_truncate(self, n_tokens: int) -> int:
        n_tokens = super().check_truncate(n_tokens)
        first_needed = max(0, n_tokens - self.window + 1)
        if n_tokens and first_needed < self._first:
            raise ValueError(
                f"a ring of window={self.window} cannot give back what it has evicted: with "
                f"n_tokens={n_tokens} the next target reads from place {first_needed} on, and the "
                f"first place that is kept is {self._first}; reset() and read the text again"
            )
        return n_tokens


class CrossCache(LayerCache):
    """Keep the keys and values of the output of an encoder: made once, for all tokens to come.

    They are copied, so that what becomes of the tensors later does not matter.

    Args:
        k: Keys of the source.
        v: Values of the source.
        storage: As in `LayerCache`.

    Raises:
        TypeError: As `KVCache.append`.
        ValueError: As `KVCache.append`, and if there is no source.

    Example:
        >>> cache = CrossCache(torch.ones(2, 3, 4, 5), torch.ones(2, 3, 4, 7))
        >>> cache.n_tokens, cache.nbytes
        (4, 1152)
        >>> cache.append(torch.ones(2, 3, 1, 5), torch.ones(2, 3, 1, 7))
        Traceback (most recent call last):
        ValueError: the keys and values of a source are made once, got more of them; what ...
    """

    def __init__(
        self,
        k: Float[Tensor, "b g s d"],
        v: Float[Tensor, "b g s e"],
        *,
        storage: str | None = None,
    ) -> None:
        super().__init__(storage=storage)
        self._append(k, v)
        if not self.n_tokens:
            raise ValueError("a source must have at least 1 token, got s=0")

    def append(self, k: Tensor, v: Tensor) -> None:
        """Refuse: a source does not grow.

        Args:
            k: Anything.
            v: Anything.
        """
        raise ValueError(
            "the keys and values of a source are made once, got more of them; what is written "
            "belongs to another cache"
        )

    def read(self) -> tuple[Float[Tensor, "b g s d"], Float[Tensor, "b g s e"]]:
        """Give all keys and values."""
        return self._unpacked(self._buffers, self._kinds[0][1])

    def reset(self) -> None:
        """Refuse: a source is read as a whole."""
        raise ValueError("a source is read as a whole, got reset()")

    def truncate(self, n_tokens: int) -> None:
        """Refuse: a source is read as a whole.

        Args:
            n_tokens: Anything.
        """
        raise ValueError(f"a source is read as a whole, got truncate({n_tokens})")

    def _put(self, raw: list[Tensor], n_new: int) -> list[Tensor]:
        with torch.inference_mode(False), torch.no_grad():  # for _make_room's reason
            self._buffers = [x.clone() for x in raw]
        return self._buffers


def check_storage(storage: str | None) -> str | None:
    """Refuse what is no way to keep numbers.

    Example:
        >>> check_storage("int4")
        Traceback (most recent call last):
        ValueError: storage must be None or 'int8', got 'int4'
    """
    if storage is not None and storage not in _STORAGES:
        raise ValueError(f"storage must be None or 'int8', got {storage!r}")
    return storage
