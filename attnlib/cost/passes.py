r"""What one pass of the whole model costs, and generation in total: FLOPs, bytes, intensity.

Source   Kwon et al. 2023, arXiv:2309.06180, section 2 (prefill and decode); Williams, Waterman and
         Patterson 2009, Communications of the ACM 52(4) (intensity); this book
Chapter  chapters/counting-cost.md
Axes     attnlib/axes.py

A pass takes B rows with T new tokens each to N tokens: with T = 1 it is a decode step, with T = N a
prefill. Logits are made of each row's last token. Bytes are the least that must move: every matrix
that is used once, what is kept of all N tokens once in, and what is new once out. Activations are
left out, and so are norms and biases.

    >>> core_intensity()
    2*h/(beta*g)
    >>> linear_intensity()
    2*B*T/beta_w
"""

import sympy as sp

from attnlib.cost.attention import (
    ABSORBED,
    RE_EXPANDED,
    SHARED_HEADS,
    AttentionCost,
)
from attnlib.cost.counts import (
    Count,
    n_dense_pairs_cached,
    n_dense_pairs_recomputed,
    n_keys_of_pass,
    n_pairs,
    n_pairs_cached,
    n_pairs_of_pass,
    n_pairs_recomputed,
    n_tokens_cached,
    n_tokens_recomputed,
)
from attnlib.cost.evaluation import Sizes, evaluate, letters_of
from attnlib.cost.letters import SYMBOLS, B, L, L_w, N, P, T, W, beta, beta_w, x_m
from attnlib.cost.parts import Parts, linear_flops, matrices_read
from attnlib.sizes import LatentAttentionSizes, ModelSizes


def usual_form(sizes: Sizes, *, decoding: bool) -> AttentionCost:
    """Give the form in which a model's attention is run: a latent is absorbed to decode.

    Absorbing is dear where many tokens are new, so a prefill builds keys and values and keeps the
    latent.

    Example:
        >>> from attnlib import PUBLISHED
        >>> usual_form(PUBLISHED["deepseek-v2"], decoding=True).name
        'absorbed'
        >>> usual_form(PUBLISHED["llama-3-70b"], decoding=True).name
        'shared heads'
    """
    attention = sizes.attention if isinstance(sizes, ModelSizes) else sizes
    if not isinstance(attention, LatentAttentionSizes):
        return SHARED_HEADS
    return ABSORBED if decoding else RE_EXPANDED


def pass_flops(
    form: AttentionCost = SHARED_HEADS, n_new: Count = T, n_keys: Count = N, *, dense: bool = False
) -> Parts:
    """Count the FLOPs of one pass of the whole model over all rows, by part.

    Args:
        form: The attention of the layers.
        n_new: T, new tokens of a row.
        n_keys: N, tokens of a row when the pass is over.
        dense: Whether all T·N pairs of every layer are multiplied, those that the mask forbids
            included, as plain matrix products do.

    Example:
        >>> pass_flops(n_new=1)["attention core"].subs({L_w: 0})
        2*B*L*N*h*(d + e)
    """
    new, keys = sp.sympify(n_new), sp.sympify(n_keys)
    full, window = (
        [new * keys] * 2 if dense else [n_pairs_of_pass(new, keys, window=w) for w in (None, W)]
    )
    pairs = (L - L_w) * full + L_w * window
    read = (L - L_w) * keys + L_w * n_keys_of_pass(new, keys, window=W)
    return _by_part(form, new, pairs, read, n_logits=1)


def pass_bytes(form: AttentionCost = SHARED_HEADS, n_new: Count = T, n_keys: Count = N) -> Parts:
    """Count the bytes that one pass of the whole model moves at least, by part.

    The first four parts are weights, which are read once for all rows; each row has its own cache.

    Args:
        form: The attention of the layers.
        n_new: T, new tokens of a row.
        n_keys: N, tokens of a row when the pass is over.

    Example:
        >>> pass_bytes(n_new=1)["cache read"].subs({L_w: 0})
        B*L*N*beta*g*(d + e)
    """
    new, keys = sp.sympify(n_new), sp.sympify(n_keys)
    read = (L - L_w) * keys + L_w * n_keys_of_pass(new, keys, window=W)
    weights = {part: beta_w * count for part, count in matrices_read(x_m, form).items()}
    element = B * beta * form.cache_elements
    return weights | {"cache read": element * read, "cache written": element * L * new}


def cached_generation_flops(
    form: AttentionCost = SHARED_HEADS,
    n_new: Count = T,
    n_prompt: Count = P,
    *,
    dense: bool = False,
) -> Parts:
    """Count the FLOPs of the whole model in total, to generate T tokens after P with a cache.

    One pass over the prompt, then T − 1 steps of one token.

    Args:
        form: The attention of the layers, in all passes.
        n_new: T, tokens to generate.
        n_prompt: P, tokens of the prompt.
        dense: As in `pass_flops`; it changes the pass over the prompt only, but for layers with a
            window.

    Example:
        >>> total = cached_generation_flops(n_new=N, n_prompt=1)["attention core"]
        >>> sp.factor(total.subs({L_w: 0}))
        B*L*N*h*(N + 1)*(d + e)
    """
    new, prompt = sp.sympify(n_new), sp.sympify(n_prompt)
    if dense:
        pairs = L * n_dense_pairs_cached(new, prompt)
    else:
        pairs = (L - L_w) * n_pairs_cached(new, prompt)
        pairs += L_w * n_pairs_cached(new, prompt, window=W)
    after = n_tokens_recomputed(new, prompt) - prompt
    last = n_tokens_cached(new, prompt)
    after_window = n_pairs(last, window=W) - n_pairs(prompt, window=W)
    read = L * prompt + (L - L_w) * after + L_w * after_window
    return _by_part(form, last, pairs, read, n_logits=new)


def recomputed_generation_flops(
    form: AttentionCost = SHARED_HEADS,
    n_new: Count = T,
    n_prompt: Count = P,
    *,
    dense: bool = False,
) -> Parts:
    """Count the FLOPs of the whole model in total, to generate T tokens after P without a cache.

    T passes, each over all tokens that are there.

    Args:
        form: The attention of the layers, in all passes.
        n_new: T, tokens to generate.
        n_prompt: P, tokens of the prompt.
        dense: As in `pass_flops`.

    Example:
        >>> total = recomputed_generation_flops(n_new=N, n_prompt=1)["attention core"]
        >>> sp.factor(total.subs({L_w: 0}))
        B*L*N*h*(N + 1)*(N + 2)*(d + e)/3
    """
    new, prompt = sp.sympify(n_new), sp.sympify(n_prompt)
    if dense:
        pairs = L * n_dense_pairs_recomputed(new, prompt)
    else:
        pairs = (L - L_w) * n_pairs_recomputed(new, prompt)
        pairs += L_w * n_pairs_recomputed(new, prompt, window=W)
    n_tokens = n_tokens_recomputed(new, prompt)
    return _by_part(form, n_tokens, pairs, L * n_tokens, n_logits=new)


def _by_part(
    form: AttentionCost, n_tokens: sp.Expr, pairs: sp.Expr, read: sp.Expr, *, n_logits: Count
) -> Parts:
    """What B rows cost; pairs and keys read are those of all layers together."""
    linear = linear_flops(form)
    head = linear.pop("output head")
    return {
        **{part: B * n_tokens * flops for part, flops in linear.items()},
        "keys rebuilt": B * read * form.flops_per_key,
        "attention core": B * pairs * form.flops_per_pair,
        "output head": B * n_logits * head,
    }


def core_intensity(form: AttentionCost = SHARED_HEADS, n_new: Count = 1) -> sp.Expr:
    """Give the FLOPs of attention's core for each byte of the cache that it reads.

    Of one layer that reads everything; softmax is left out. More rows do not raise it, since each
    has its own cache; more new tokens do, since they share what is read.

    Args:
        form: The attention of the layer.
        n_new: T, new tokens of a row.

    Example:
        >>> core_intensity(ABSORBED)
        2*h*(2*c + r)/(beta*(c + r))
    """
    flops = form.flops_per_pair * n_pairs_of_pass(n_new, N) + form.flops_per_key * N
    return sp.factor(flops / (beta * form.cache_elements * N))


def linear_intensity(n_new: Count = T) -> sp.Expr:
    """Give the FLOPs of a matrix that all tokens use, for each byte of it: 2BT/β_w.

    Example:
        >>> linear_intensity(1)
        2*B/beta_w
    """
    return 2 * B * sp.sympify(n_new) / beta_w


def pass_intensity(
    form: AttentionCost = SHARED_HEADS, n_new: Count = T, n_keys: Count = N
) -> sp.Expr:
    """Give the FLOPs of a whole pass of the whole model for each byte that it moves at least.

    Example:
        >>> from attnlib import PUBLISHED
        >>> step = {"N": 8192, "T": 1, "beta": 2, "beta_w": 2}
        >>> for rows in (1, 64):
        ...     found = evaluate(pass_intensity(), PUBLISHED["llama-3-70b"], B=rows, **step)
        ...     print(round(float(found), 2))
        1.13
        33.04
    """
    flops, moved = pass_flops(form, n_new, n_keys), pass_bytes(form, n_new, n_keys)
    return sum(flops.values()) / sum(moved.values())


def step_crossing(form: AttentionCost = SHARED_HEADS) -> sp.Expr:
    """Give the context at which what grows with it costs a decode step as much as all the rest.

    In FLOPs of the whole model, output head excluded, if every layer reads everything: attention's
    core, with keys and values that are rebuilt, against the linear parts.

    Example:
        >>> from attnlib import PUBLISHED
        >>> evaluate(step_crossing(), PUBLISHED["llama-3-70b"])
        52224
    """
    return _linear_without_head(form) / (L * (form.flops_per_pair + form.flops_per_key))


def prefill_crossing(form: AttentionCost = SHARED_HEADS) -> sp.Expr:
    """Give the length at which a causal prefill's core costs what its linear parts cost.

    In total FLOPs of the whole model, output head excluded, if every layer reads everything and
    only pairs that may be read are multiplied: twice the crossing of a step, less one. Keys and
    values that are rebuilt are linear here, since it is done once a token.

    Example:
        >>> from attnlib import PUBLISHED
        >>> evaluate(prefill_crossing(), PUBLISHED["llama-3-70b"])
        104447
    """
    per_token = _linear_without_head(form) / L + form.flops_per_key
    return 2 * per_token / form.flops_per_pair - 1


def _linear_without_head(form: AttentionCost) -> sp.Expr:
    return sum(flops for part, flops in linear_flops(form).items() if part != "output head")


def crossing(sizes: ModelSizes, *, decoding: bool) -> int | None:
    """Find the fewest tokens at which attention's core costs at least what the linear parts cost.

    As `step_crossing` and `prefill_crossing` say, in the form that `usual_form` gives, and with
    layers that have a window counted as such.

    Args:
        sizes: Of a causal model without encoder.
        decoding: True for a decode step, False for a prefill.

    Returns:
        None if it never does, as where every layer has a window.

    Raises:
        ValueError: If the model is not causal, or has an encoder.

    Example:
        >>> from attnlib import PUBLISHED
        >>> crossing(PUBLISHED["gemma-3-27b"], decoding=True)
        307156
    """
    parts = pass_flops(usual_form(sizes, decoding=decoding), 1 if decoding else N)
    growing = {"attention core", "keys rebuilt"} if decoding else {"attention core"}
    others = set(parts) - growing - {"output head"}
    ahead = sum(parts[part] for part in growing) - sum(parts[part] for part in others)

    evaluate(ahead, sizes, N=1, B=1)  # refuses what has no such crossing
    letters = {SYMBOLS[name]: sp.Integer(count) for name, count in letters_of(sizes).items()}
    ahead = ahead.xreplace({**letters, B: sp.Integer(1)})

    def overtaken(n_tokens: int) -> bool:
        return bool(ahead.xreplace({N: sp.Integer(n_tokens)}) >= 0)

    most = 1
    while not overtaken(most):
        most *= 2
        if most > _LONGEST:
            return None
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if overtaken(middle) else (middle, most)
    return most


_LONGEST = 2**60  # a core that grows at all is ahead long before
