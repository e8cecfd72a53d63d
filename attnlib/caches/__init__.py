r"""Caches: what the tokens of a text have left for those to come, so that nothing is made twice.

Source   Pope et al. 2022, arXiv:2211.05102, section 2.1
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py

| cache | keeps |
|---|---|
| `KVCache` | the keys and values of all tokens |
| `LatentCache` | the latents of all tokens and the keys that all heads share |
| `WindowCache` | those of the last W tokens, in a ring |
| `CrossCache` | those of the output of an encoder, made once |
| `ModelCache` | one of these for each layer of a model, and the padding of the rows |

All of them have `n_tokens`, `nbytes`, `reset`, `truncate` and `reorder`.
"""

from attnlib.caches.int8 import from_int8, to_int8
from attnlib.caches.latent import LatentCache
from attnlib.caches.layer import (
    CrossCache,
    GrowingCache,
    KVCache,
    LayerCache,
    WindowCache,
    check_storage,
)
from attnlib.caches.model import ModelCache, unchanged_on_error

__all__ = [
    "CrossCache",
    "GrowingCache",
    "KVCache",
    "LatentCache",
    "LayerCache",
    "ModelCache",
    "WindowCache",
    "check_storage",
    "from_int8",
    "to_int8",
    "unchanged_on_error",
]
