r"""The bytes of a model's cache.

Source   Shazeer 2019, arXiv:1911.02150 (what must be kept); DeepSeek-AI 2024, arXiv:2405.04434,
         section 2.1.4 (latent)
Chapter  chapters/counting-cost.md, chapters/kv-caching.md
Axes     attnlib/axes.py

    >>> from attnlib import PUBLISHED
    >>> [kv_cache_bytes(PUBLISHED["llama-3.1-70b"], n) / 2**30 for n in (8192, 131_072)]
    [2.5, 40.0]
    >>> kv_cache_bytes(PUBLISHED["gemma-3-27b"], 131_072) / 2**30
    10.40625
"""

from fractions import Fraction
from numbers import Real

from attnlib import require
from attnlib.cost.evaluation import evaluate, exact
from attnlib.cost.passes import usual_form
from attnlib.sizes import ModelSizes


def kv_cache_bytes(
    sizes: ModelSizes,
    n_tokens: int,
    bytes_per_element: Real = 2,
    n_rows: int = 1,
    *,
    n_sources: int | None = None,
) -> int:
    r"""Count the bytes that the cache of the whole model takes.

    $$B\,\beta\,\bigl((L - L_w)\,N + L_w \min(N, W)\bigr)\,C$$

    with the C = g(d + e) numbers that shared heads keep of a token in a layer, or the C = c + r of
    a latent. A layer that reads an encoder keeps its n_sources tokens as well. What stands beside
    the numbers, such as the scales of int8, is not counted.

    Args:
        sizes: Of a causal model.
        n_tokens: N, tokens of each row.
        bytes_per_element: β; half a byte is 0.5.
        n_rows: B.
        n_sources: Tokens that the encoder reads, if and only if there is one.

    Raises:
        TypeError: If a number is of the wrong kind.
        ValueError: If a number is too small, if the bytes are not a whole number, if the model is
            not causal, or if n_sources is given without an encoder or missing with one.

    Example:
        >>> from attnlib import PUBLISHED
        >>> kv_cache_bytes(PUBLISHED["llama-3-70b"], 1)
        327680
        >>> kv_cache_bytes(PUBLISHED["deepseek-v2"], 131_072) / 2**30
        8.4375
    """
    n_tokens = require.at_least("n_tokens", n_tokens, 0)
    n_rows = require.at_least("n_rows", n_rows, 1)
    element = exact("bytes_per_element", bytes_per_element)
    if not sizes.causal:
        raise ValueError(
            "only a causal model has a cache: in others a new token changes what is kept, got "
            f"{sizes.name}"
        )
    if (n_sources is None) == (sizes.n_encoder_layers > 0):
        raise ValueError(
            "n_sources is needed if and only if there is an encoder, got "
            f"n_encoder_layers={sizes.n_encoder_layers} and n_sources={n_sources}"
        )
    n_kept = sum(n_tokens if w is None else min(n_tokens, w) for w in sizes.windows)
    if n_sources is not None:
        n_kept += sizes.n_layers * require.at_least("n_sources", n_sources, 0)
    n_elements = n_kept * evaluate(usual_form(sizes, decoding=True).cache_elements, sizes)
    n_bytes = Fraction(n_rows * n_elements) * element
    if n_bytes.denominator != 1:
        raise ValueError(
            f"the cache must take whole bytes, got {n_rows * n_elements} numbers of "
            f"bytes_per_element={bytes_per_element}"
        )
    return int(n_bytes)
