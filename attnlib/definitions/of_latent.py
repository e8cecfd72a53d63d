r"""Multi-head latent attention: every key and value is made from a latent, token by token.

Source   DeepSeek-AI 2024, arXiv:2405.04434, section 2.1 and appendix C; Meng et al. 2025,
         arXiv:2502.07864 (the selectors)
Chapter  chapters/latent-attention.md
Axes     attnlib/axes.py
"""

import numpy as np
from numpy.typing import ArrayLike

from attnlib.definitions.of_attention import attention

Array = np.ndarray


def latent_attention(
    q: ArrayLike,
    latent: ArrayLike,
    rotary_key: ArrayLike,
    up_keys: ArrayLike,
    up_values: ArrayLike,
    may_attend: ArrayLike | None = None,
    scale: float | None = None,
) -> Array:
    r"""Make the key and the value of each head from each latent, and attend.

    $$o_i = \operatorname{attention}(q_i, k_i, v_i), \qquad
    k_{i,s} = (W^{UK}_i c_s,\ k^R_s), \qquad v_{i,s} = W^{UV}_i c_s$$

    The scale is $1/\sqrt{n + r}$ unless it is given. Shapes: q (b, h, t, n + r), latent (b, s, c),
    rotary_key (b, s, r), up_keys (h, n, c), up_values (h, e, c); the mask broadcasts to
    (b, h, t, s).

    Example:
        >>> q, latent = np.zeros((1, 1, 1, 3)), np.array([[[1.0], [2.0], [6.0]]])
        >>> up_keys, up_values = np.ones((1, 2, 1)), np.array([[[1.0], [10.0]]])
        >>> latent_attention(q, latent, np.ones((1, 3, 1)), up_keys, up_values)[0, 0, 0].round(12)
        array([ 3., 30.])
    """
    q, latent, rotary_key, up_keys, up_values = (
        np.asarray(x, dtype=np.float64) for x in (q, latent, rotary_key, up_keys, up_values)
    )
    n_batch, n_heads, n_targets, d = q.shape
    n_sources, e = latent.shape[1], up_values.shape[1]
    everywhere = (n_batch, n_heads, n_targets, n_sources)
    may_attend = np.broadcast_to(True if may_attend is None else may_attend, everywhere)
    out = np.zeros((n_batch, n_heads, n_targets, e))
    for b in range(n_batch):
        for i in range(n_heads):
            k, v = np.zeros((n_sources, d)), np.zeros((n_sources, e))
            for s in range(n_sources):
                k[s] = [*(up_keys[i] @ latent[b, s]), *rotary_key[b, s]]
                v[s] = up_values[i] @ latent[b, s]
            out[b, i] = attention(q[b, i], k, v, may_attend[b, i], None, scale)
    return out


def latent_scores(
    q: ArrayLike, latent: ArrayLike, rotary_key: ArrayLike, up_key: ArrayLike
) -> Array:
    r"""Score the latents of all sources for one target in one head.

    $$x_s = \frac{q \cdot (W^{UK} c_s,\ k^R_s)}{\sqrt{n + r}}$$

    Shapes: q (n + r,), latent (s, c), rotary_key (s, r), up_key (n, c).

    Example:
        >>> latent, rotary_key = [[1.0], [2.0]], [[10.0, 0.0], [0.0, 10.0]]
        >>> latent_scores([2.0, 0.0, 6.0, 4.0], latent, rotary_key, [[5.0], [7.0]])
        array([35., 30.])
    """
    q, latent, rotary_key, up_key = (
        np.asarray(x, dtype=np.float64) for x in (q, latent, rotary_key, up_key)
    )
    scores = np.zeros(len(latent))
    for s in range(len(latent)):
        key = [*(up_key @ latent[s]), *rotary_key[s]]
        scores[s] = q @ key / np.sqrt(len(q))
    return scores


def latent_pair(n_heads: int, n: int, r: int, e: int, c: int) -> tuple[int, int, int, int]:
    r"""Count what all heads do for one target and one source, and what the source must leave.

    The results: the FLOPs of the expanded form, of the absorbed form (a multiply-add is two; only
    scores and weighted sums, not what is done once for a target or once for a source), the elements
    that the absorbed form reads, each once, and those that the expanded form reads.

    Example:
        >>> latent_pair(3, n=5, r=2, e=4, c=6)
        (66, 84, 8, 33)
    """
    n_expanded, n_absorbed = 0, 0
    read_expanded, read_absorbed = set(), set()
    for i in range(n_heads):
        for j in range(n + r):
            n_expanded += 2  # x[i] += q[i, j] * k[i, j]
            read_expanded.add(("key", i, j))
        for j in range(e):
            n_expanded += 2  # o[i, j] += p[i] * v[i, j]
            read_expanded.add(("value", i, j))
        for j in range(c + r):
            n_absorbed += 2  # x[i] += carried[i, j] * key[j], the latent and then the rotary key
            read_absorbed.add(j)
        for j in range(c):
            n_absorbed += 2  # mean[i, j] += p[i] * latent[j]
            read_absorbed.add(j)
    return n_expanded, n_absorbed, len(read_absorbed), len(read_expanded)


def latent_selectors(n_query_heads: int, n_kv_heads: int, d: int, e: int) -> tuple[Array, Array]:
    r"""Make grouped-query attention a latent attention: matrices that select a head's part.

    $$c_s = (k_{0,s}, \dots, k_{g-1,s}, v_{0,s}, \dots, v_{g-1,s}), \qquad
    W^{UK}_i c_s = k_{\lfloor i/p\rfloor, s}, \qquad W^{UV}_i c_s = v_{\lfloor i/p\rfloor, s}$$

    Shapes: those of keys (h, d, g(d + e)), those of values (h, e, g(d + e)).

    Example:
        >>> up_keys, up_values = latent_selectors(4, 2, d=1, e=2)
        >>> latent = np.array([3.0, 4.0, 30.0, 31.0, 40.0, 41.0])
        >>> (up_keys @ latent).ravel()
        array([3., 3., 4., 4.])
        >>> (up_values @ latent)[1:3]
        array([[30., 31.],
               [40., 41.]])
    """
    p = n_query_heads // n_kv_heads
    c = n_kv_heads * (d + e)
    up_keys, up_values = np.zeros((n_query_heads, d, c)), np.zeros((n_query_heads, e, c))
    for i in range(n_query_heads):
        for j in range(d):
            up_keys[i, j, i // p * d + j] = 1
        for j in range(e):
            up_values[i, j, n_kv_heads * d + i // p * e + j] = 1
    return up_keys, up_values
