r"""How many tokens are processed and how many pairs are multiplied, in closed form.

Source   this book; every closed form is the sum that stands in its docstring
Chapter  chapters/counting-cost.md
Axes     attnlib/axes.py

A pair is a target and a source that it reads. All counts are for one row and one layer. With a
window W a target reads min(t, W) sources.

    >>> n_pairs(5), n_pairs(5, window=2)
    (15, 9)
    >>> sp.factor(n_pairs_recomputed(N))
    N*(N + 1)*(N + 2)/6
"""

import sympy as sp

from attnlib.cost.letters import N, T

Count = sp.Expr | int


def n_pairs(n_tokens: Count = N, *, window: Count | None = None) -> sp.Expr:
    r"""Count the pairs of n tokens, each of which reads itself and what stands before it.

    $$\sum_{t=1}^n \min(t, W) = \frac{w\,(2n - w + 1)}{2}, \qquad w = \min(n, W)$$

    Without a window n(n + 1)/2. Whether the tokens come at once (prefill) or one by one with a
    cache makes no difference.

    Args:
        n_tokens: n.
        window: W; None means that all is read.

    Example:
        >>> n_pairs(N)
        N*(N + 1)/2
    """
    n = sp.sympify(n_tokens)
    w = n if window is None else sp.Min(n, window)
    return w * (2 * n - w + 1) / 2


def n_pairs_of_pass(n_new: Count = T, n_keys: Count = N, *, window: Count | None = None) -> sp.Expr:
    r"""Count the pairs of a pass over the last T of N tokens.

    $$\sum_{t=N-T+1}^{N} \min(t, W)$$

    Without a window T(2N − T + 1)/2: a decode step has T = 1, a prefill T = N.

    Args:
        n_new: T.
        n_keys: N, the new tokens included.
        window: W; None means that all is read.

    Example:
        >>> n_pairs_of_pass(1), n_pairs_of_pass(1, window=8), n_pairs_of_pass(2, 5)
        (N, Min(8, N), 9)
    """
    new, keys = sp.sympify(n_new), sp.sympify(n_keys)
    if window is None:
        return new * (2 * keys - new + 1) / 2
    if new == 1:
        return sp.Min(keys, window)
    return n_pairs(keys, window=window) - n_pairs(keys - new, window=window)


def n_keys_of_pass(n_new: Count = T, n_keys: Count = N, *, window: Count | None = None) -> sp.Expr:
    """Count the keys that at least one target of a pass reads: min(N, W + T − 1).

    Example:
        >>> n_keys_of_pass(3, 9, window=4), n_keys_of_pass(3, 9)
        (6, 9)
    """
    keys = sp.sympify(n_keys)
    return keys if window is None else sp.Min(keys, window + sp.sympify(n_new) - 1)


def n_tokens_cached(n_new: Count = N, n_prompt: Count = 1) -> sp.Expr:
    """Count the tokens that a model processes to generate n tokens after P, with a cache.

    The prompt gives the first new token, and the last one is processed no more: P + n − 1.

    Example:
        >>> n_tokens_cached(4, 10)
        13
    """
    return sp.sympify(n_prompt) + n_new - 1


def n_tokens_recomputed(n_new: Count = N, n_prompt: Count = 1) -> sp.Expr:
    r"""Count the tokens that a model processes to generate n tokens after P, without a cache.

    $$\sum_{s=P}^{P+n-1} s$$

    From a prompt of one token n(n + 1)/2.

    Example:
        >>> n_tokens_recomputed(4, 10)
        46
        >>> n_tokens_recomputed(N)
        N*(N + 1)/2
    """
    n, prompt = sp.sympify(n_new), sp.sympify(n_prompt)
    return n * (2 * prompt + n - 1) / 2


def n_pairs_cached(
    n_new: Count = N, n_prompt: Count = 1, *, window: Count | None = None
) -> sp.Expr:
    """Count the pairs of generating n tokens after P with a cache.

    They are those of one prefill of the P + n − 1 tokens that are processed.

    Example:
        >>> n_pairs_cached(4, 10)
        91
    """
    return n_pairs(n_tokens_cached(n_new, n_prompt), window=window)


def n_pairs_recomputed(
    n_new: Count = N, n_prompt: Count = 1, *, window: Count | None = None
) -> sp.Expr:
    r"""Count the pairs of generating n tokens after P, each time from the beginning.

    $$\sum_{s=P}^{P+n-1} \sum_{t=1}^{s} \min(t, W)$$

    From a prompt of one token and without a window n(n + 1)(n + 2)/6: cubic, where the cache leaves
    a square.

    Args:
        n_new: n.
        n_prompt: P, at least 1.
        window: W; None means that all is read.

    Example:
        >>> n_pairs_recomputed(3), n_pairs_recomputed(2, 3, window=2)
        (10, 12)
    """
    last = n_tokens_cached(n_new, n_prompt)
    first = sp.sympify(n_prompt)
    return _n_pairs_of_all_prefixes(last, window) - _n_pairs_of_all_prefixes(first - 1, window)


def _n_pairs_of_all_prefixes(n: sp.Expr, window: Count | None) -> sp.Expr:
    """The sum of `n_pairs(s)` for s from 1 to n: up to w = min(n, W) cubic, then a square."""
    if window is None:
        return n * (n + 1) * (n + 2) / 6
    w = sp.Min(n, window)
    beyond = w * (n * (n + 1) - w * (w + 1) - (w - 1) * (n - w)) / 2
    return w * (w + 1) * (w + 2) / 6 + beyond


def n_dense_pairs_cached(n_new: Count = N, n_prompt: Count = 1) -> sp.Expr:
    r"""Count what plain matrix products multiply in generating n tokens after P with a cache.

    $$P^2 + \sum_{s=P+1}^{P+n-1} s$$

    They multiply the pairs that the mask then forbids as well: P² of them in the prefill.

    Example:
        >>> n_dense_pairs_cached(3, 5)
        38
    """
    prompt = sp.sympify(n_prompt)
    return prompt**2 + n_tokens_recomputed(n_new, prompt) - prompt


def n_dense_pairs_recomputed(n_new: Count = N, n_prompt: Count = 1) -> sp.Expr:
    r"""Count what plain matrix products multiply in generating n tokens after P without a cache.

    $$\sum_{s=P}^{P+n-1} s^2$$

    From a prompt of one token n(n + 1)(2n + 1)/6.

    Example:
        >>> n_dense_pairs_recomputed(3)
        14
    """
    last, before = n_tokens_cached(n_new, n_prompt), sp.sympify(n_prompt) - 1
    return sum(sign * s * (s + 1) * (2 * s + 1) / 6 for sign, s in ((1, last), (-1, before)))
