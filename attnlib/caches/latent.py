r"""The cache of a layer with a latent: c + r numbers a token, whatever the number of heads.

Source   DeepSeek-AI 2024, arXiv:2405.04434, section 2.1 and table 1
Chapter  chapters/latent-attention.md
Axes     attnlib/axes.py

A token leaves its latent, from which the keys and values of all heads are made, and one rotated
key, which all heads share. Both are kept as they enter `latent_attention_absorbed`: the latent
normed, the key turned.

    >>> cache = LatentCache()
    >>> latent, rotary_key = torch.ones(2, 5, 7), torch.ones(2, 5, 4)
    >>> for _ in range(3):
    ...     latents, rotary_keys = cache.append(latent, rotary_key)
    >>> tuple(latents.shape), tuple(rotary_keys.shape)
    ((2, 15, 7), (2, 15, 4))
    >>> cache.nbytes == 2 * 15 * (7 + 4) * 4
    True
"""

import torch
from jaxtyping import Float
from torch import Tensor

from attnlib.caches.layer import GrowingCache

__all__ = ["LatentCache"]


class LatentCache(GrowingCache):
    r"""Keep the latents and the rotated shared keys of all tokens.

    After n tokens it holds (c + r)n numbers a row: there is no axis of heads, and values need none
    of their own. The two stand side by side in one memory, so that the absorbed form reads both as
    one key, as they stand.

    In int8 each of the two has a scale of its own, and each stands by itself.

    Args:
        capacity: As in `GrowingCache`.
        storage: As in `LayerCache`.

    Raises:
        TypeError: As `GrowingCache`.
        ValueError: As `GrowingCache`.

    Example:
        >>> cache = LatentCache(capacity=9)
        >>> latents, _ = cache.append(torch.ones(1, 2, 5), torch.ones(1, 2, 4))
        >>> cache.nbytes, cache.nbytes_allocated  # 2 and 9 tokens of 5 + 4 numbers of 4 bytes
        (72, 324)
    """

    parts = (("latent", "b t c"), ("rotary_key", "b t r"))

    def append(
        self, latent: Float[Tensor, "b t c"], rotary_key: Float[Tensor, "b t r"]
    ) -> tuple[Float[Tensor, "b s c"], Float[Tensor, "b s r"]]:
        """Keep what new tokens leave, and give what all tokens left, in their order.

        Args:
            latent: Normed, if the layer norms it.
            rotary_key: Turned, if the layer has rotary positions.

        Raises:
            TypeError: If they are not floating point, or not of the dtype of what is kept.
            ValueError: If b, c, r or the device are not those of what is kept, if they require
                gradients, or if there is no room for all of them.
        """
        return self._append(latent, rotary_key)

    def _put(self, raw: list[Tensor], n_new: int) -> list[Tensor]:
        if self.storage is not None:
            return super()._put(raw, n_new)
        (both,) = super()._put([torch.cat(raw, dim=-1)], n_new)
        return list(both.split([x.shape[-1] for x in raw], dim=-1))
