r"""Models beside each other: the tables of an introduction rebuilt, ratios, and where caches cross.

Source   Serret 2026, arXiv:2604.00965, tables 1 to 3; DeepSeek-AI 2024, arXiv:2405.04434, sections
         2.1.2 to 2.1.4 (the ratios of a latent); this book
Chapter  chapters/latent-attention.md, chapters/models-compared.md
Axes     attnlib/axes.py

    >>> from attnlib import PUBLISHED
    >>> cache_break_even(PUBLISHED["gemma-3-27b"], PUBLISHED["llama-3-70b"])
    1775
"""

from collections.abc import Mapping
from types import MappingProxyType

import sympy as sp

from attnlib import require
from attnlib.cost.attention import ABSORBED, EXPANDED, SHARED_HEADS, AttentionCost
from attnlib.cost.cache import kv_cache_bytes
from attnlib.cost.counts import Count
from attnlib.cost.evaluation import evaluate
from attnlib.cost.letters import N, c, d, e, g, h, m, n, u
from attnlib.cost.passes import usual_form
from attnlib.sizes import AttentionSizes, LatentAttentionSizes, ModelSizes

ALL_MERGED = AttentionCost(
    name="all merged",
    matrices=m * c + h * m * c + h * c * m,
    projection_flops=2 * (m * c + h * m * c + h * c * m),
    flops_per_pair=2 * h * 2 * c,
    flops_per_key=sp.Integer(0),
    cache_elements=c,
)
"""The latent of table 2: without rotary part, and all matrices that meet multiplied out.

No released model can be run so. DeepSeek-V2 has a norm on the latent of the queries, which no
product of matrices crosses, and a rotary part of the keys, which is kept beside the latent.
"""

LATENT_RATIOS: Mapping[str, sp.Expr] = MappingProxyType(
    {
        "cache: expanded keys and values / latent": (
            EXPANDED.cache_elements / ABSORBED.cache_elements
        ),
        "cache: multi-head attention with heads of n and e / latent": (
            SHARED_HEADS.cache_elements.subs({g: h, d: n}) / ABSORBED.cache_elements
        ),
        "key/value heads of n and e with the cache of the latent": (
            ABSORBED.cache_elements / SHARED_HEADS.cache_elements.subs({g: 1, d: n})
        ),
        "FLOPs of a pair: absorbed / expanded": ABSORBED.flops_per_pair / EXPANDED.flops_per_pair,
        "weights of queries and keys: merged / two factors": u * c / (n * (u + c)),
        "weights of values and output: merged / two factors": c * m / (e * (c + m)),
    }
)
"""What is said of a latent, each with its baseline, in the letters of `LatentAttentionSizes` and m.

The last two are of the parts without rotation, and above 1 where a head is narrow: where
n < uc/(u + c), and where e < cm/(c + m).
"""

PRINTED: Mapping[str, Mapping[str, int | None]] = MappingProxyType(
    {
        "llama-3-70b": MappingProxyType(
            {
                "layers": 80,
                "query heads": 64,
                "key/value heads": 8,
                "width of the residual stream": 8192,
                "width of a query and a key": 128,
            }
        ),
        "gemma-3-27b": MappingProxyType(
            {
                "layers": 62,
                "query heads": 32,
                "key/value heads": 16,
                "width of the residual stream": 5376,
                "width of a query and a key": 128,
            }
        ),
        "deepseek-v2": MappingProxyType(
            {
                "layers": 60,
                "query heads": 128,
                "key/value heads": None,
                "width of the residual stream": 5120,
                "width of a query and a key": 512,
            }
        ),
    }
)
"""Table 3 as it is printed, with the names of the rows of `model_row`; None where it has a dash.

The 512 of DeepSeek-V2 stands there as the width of the latent.
"""


def layer_elements(form: AttentionCost = SHARED_HEADS, n_tokens: Count = N) -> sp.Expr:
    """Count the numbers that one layer's attention holds: its matrices, and its cache of N tokens.

    The last rows of tables 1 and 2, for one layer and one row of the batch.

    Args:
        form: `SHARED_HEADS` is table 1, `ALL_MERGED` table 2.
        n_tokens: N.

    Example:
        >>> layer_elements(ALL_MERGED)
        N*c + 2*c*h*m + c*m
    """
    return form.matrices + n_tokens * form.cache_elements


def model_row(sizes: ModelSizes, *contexts: int) -> dict[str, int | None]:
    """Give one model's row of a table of models.

    Bytes are those of a cache with two bytes a number. A token adds more of them while the windows
    of the layers fill, and fewer afterwards; without windows the two are the same.

    Args:
        sizes: Of a causal model without encoder.
        contexts: Numbers of tokens, each of which gives the bytes of a whole cache.

    Returns:
        What it says by its name. There is no number of key/value heads with a latent, of which
        every head makes its own.

    Raises:
        TypeError: If a context is not a whole number.
        ValueError: If the model is not causal or has an encoder, or a context is negative.

    Example:
        >>> from attnlib import PUBLISHED
        >>> row = model_row(PUBLISHED["gemma-3-27b"], 131_072)
        >>> row["bytes that a first token adds"], row["bytes that a later token adds"]
        (507904, 81920)
        >>> row["bytes of 131,072 tokens"] / 2**30
        10.40625
    """
    contexts = [require.at_least("a context", context, 0) for context in contexts]
    caches = [kv_cache_bytes(sizes, context) for context in contexts]
    attention = sizes.attention
    shared = isinstance(attention, AttentionSizes)
    full = max((window for window in sizes.windows if window is not None), default=0)
    return {
        "layers": sizes.n_layers,
        "query heads": attention.n_query_heads,
        "key/value heads": attention.n_kv_heads if shared else None,
        "width of the residual stream": sizes.width,
        "width of a query and a key": attention.head_dim,
        "width of a value": attention.value_dim,
        "kept of a token in a layer": evaluate(
            usual_form(sizes, decoding=True).cache_elements, sizes
        ),
        "parameters": sizes.n_parameters,
        "parameters that a token meets": sizes.n_active_parameters,
        "bytes that a first token adds": kv_cache_bytes(sizes, 1),
        "bytes that a later token adds": (
            kv_cache_bytes(sizes, full + 1) - kv_cache_bytes(sizes, full)
        ),
        **{f"bytes of {n:,} tokens": cache for n, cache in zip(contexts, caches, strict=True)},
    }


def multi_head_baseline(attention: LatentAttentionSizes) -> AttentionSizes:
    """Give ordinary multi-head attention with as many heads, of the widths without rotation.

    Raises:
        TypeError: If the sizes are not LatentAttentionSizes.

    Example:
        >>> from attnlib import PUBLISHED
        >>> baseline = multi_head_baseline(PUBLISHED["deepseek-v2"].attention)
        >>> f"{baseline.n_parameters(5120):,}"
        '335,544,320'
    """
    if not isinstance(attention, LatentAttentionSizes):
        raise TypeError(f"attention must be LatentAttentionSizes, got {type(attention).__name__}")
    heads = attention.n_query_heads
    return AttentionSizes(
        n_query_heads=heads,
        n_kv_heads=heads,
        head_dim=attention.nope_dim,
        value_dim=attention.value_dim,
    )


def cache_break_even(smaller: ModelSizes, larger: ModelSizes) -> int | None:
    """Find from how many tokens on one model's cache is smaller than another's.

    Both have one row and as many bytes a number. Windows are counted exactly: between the lengths
    at which some window is full both caches grow by as much with each token, so that the last
    length at which the first is not smaller can be computed.

    Args:
        smaller: The model whose cache is to be smaller in the end.
        larger: The other one.

    Returns:
        The fewest tokens such that the cache is smaller from there on; None if it is not in the
        end.

    Raises:
        ValueError: If a model is not causal or has an encoder.

    Example:
        >>> from attnlib import PUBLISHED
        >>> gemma, llama = PUBLISHED["gemma-3-27b"], PUBLISHED["llama-3-70b"]
        >>> [kv_cache_bytes(gemma, n) < kv_cache_bytes(llama, n) for n in (1774, 1775)]
        [False, True]
    """

    def more(n_tokens: int) -> int:
        return kv_cache_bytes(smaller, n_tokens) - kv_cache_bytes(larger, n_tokens)

    windows = {w for sizes in (smaller, larger) for w in sizes.windows if w is not None}
    ends = sorted({0} | windows)
    slope = more(ends[-1] + 1) - more(ends[-1])
    if slope > 0 or (slope == 0 and more(ends[-1]) >= 0):
        return None
    start = next(end for end in reversed(ends) if more(end) >= 0)  # at 0 both are empty
    slope = more(start + 1) - more(start)
    return start + more(start) // -slope + 1
