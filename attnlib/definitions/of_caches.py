r"""Generation with and without a cache: what is processed, what is kept, and where it stands.

Source   Pope et al. 2022, arXiv:2211.05102, section 2.1 (keys and values are kept); Beltagy et al.
         2020, arXiv:2004.05150, section 3.1 (windows)
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from attnlib.definitions.of_attention import softmax

Array = np.ndarray


def generation_tokens(n_new: int, n_prompt: int, cached: bool) -> int:
    r"""Count the tokens that a model processes to generate n tokens after P, pass by pass.

    Each pass gives one token: the first, over the prompt, gives the first new one, so the last
    new one is never processed. Without a cache each pass processes all tokens that are there; with
    one, all but the first process the newest only.

    Example:
        >>> generation_tokens(4, 10, cached=False), generation_tokens(4, 10, cached=True)
        (46, 13)
    """
    n_processed = 0
    for n_tokens in range(n_prompt, n_prompt + n_new):
        for _ in _targets(n_tokens, n_prompt, cached):
            n_processed += 1
    return n_processed


def generation_pairs(n_new: int, n_prompt: int, cached: bool) -> int:
    r"""Count the pairs of target and source that one causal layer multiplies, pass by pass.

    The passes are those of `generation_tokens`. Every token that is processed reads itself and all
    that stand before it, whether their keys and values are kept or made anew.

    Example:
        >>> generation_pairs(3, 1, cached=False), generation_pairs(3, 1, cached=True)
        (10, 6)
    """
    n_pairs = 0
    for n_tokens in range(n_prompt, n_prompt + n_new):
        for t in _targets(n_tokens, n_prompt, cached):
            for _ in range(t + 1):
                n_pairs += 1
    return n_pairs


def _targets(n_tokens: int, n_prompt: int, cached: bool) -> range:
    """Of the pass in which so many tokens are there; the prompt is new as a whole."""
    if cached and n_tokens > n_prompt:
        return range(n_tokens - 1, n_tokens)
    return range(n_tokens)


def attention_with_cache(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    sizes_of_chunks: Sequence[int],
    window: int | None = None,
) -> Array:
    r"""Attend in one head to a stream that arrives chunk by chunk, and keep what has arrived.

    $$o_t = \sum_{s \in S_t} p_{ts}\, v_s, \qquad
    S_t = \{\, s : t - W < s \le t \,\}$$

    without W all $s \le t$. Of a chunk all keys and values are kept before its first target reads.
    Shapes: q (t, d), k (t, d), v (t, e); the chunks have so many rows each.

    Example:
        >>> q, k, v = np.zeros((4, 2)), np.ones((4, 2)), np.array([[6.0], [2.0], [4.0], [8.0]])
        >>> attention_with_cache(q, k, v, [3, 1]).ravel()
        array([6., 4., 4., 5.])
        >>> attention_with_cache(q, k, v, [1, 2, 1], window=2).ravel()
        array([6., 4., 3., 6.])
    """
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    kept_keys, kept_values, out = [], [], []
    for size in sizes_of_chunks:
        chunk = range(len(kept_keys), len(kept_keys) + size)
        for t in chunk:
            kept_keys.append(k[t])
            kept_values.append(v[t])
        for t in chunk:
            first = 0 if window is None else max(0, t - window + 1)
            read = range(first, t + 1)
            weights = softmax([np.dot(q[t], kept_keys[s]) / np.sqrt(len(q[t])) for s in read])
            out.append(sum(p * kept_values[s] for p, s in zip(weights, read, strict=True)))
    return np.array(out)


def ring_slots(n_tokens: int, window: int) -> list[int | None]:
    r"""Say which token stands in each of W slots after n tokens, the first of which is token 0.

    $$\text{slot of token } t = t \bmod W$$

    A slot holds what came last; None stands where nothing has come yet.

    Example:
        >>> ring_slots(3, 4), ring_slots(6, 4)
        ([0, 1, 2, None], [4, 5, 2, 3])
    """
    slots = [None] * window
    for token in range(n_tokens):
        slots[token % window] = token
    return slots
