r"""The parts of a model: its parameters, and the FLOPs of what every token passes.

Source   Vaswani et al. 2017, arXiv:1706.03762 (the parts); Shazeer 2020, arXiv:2002.05202 (gated
         networks); Dai et al. 2024, arXiv:2401.06066 (experts)
Chapter  chapters/counting-cost.md
Axes     attnlib/axes.py

Everything here is of the whole model. A matrix that multiplies a vector takes one multiply-add, two
FLOPs, for each of its entries, whatever its shape: so what a token costs outside attention's core
is twice the entries of the matrices that it meets.

    >>> linear_flops()["feed-forward"], linear_flops()["output head"]
    (2*f*k_f*m*(L - L_x), 2*m*v)
"""

import sympy as sp

from attnlib.cost.attention import ABSORBED, SHARED_HEADS, AttentionCost
from attnlib.cost.counts import Count
from attnlib.cost.letters import (
    L,
    L_e,
    L_w,
    L_x,
    N,
    W,
    c,
    d,
    e,
    f,
    f_x,
    g,
    h,
    k_f,
    m,
    u,
    v,
    x,
    x_c,
    x_s,
)
from attnlib.sizes import AttentionSizes, ModelSizes

Parts = dict[str, sp.Expr]

# What one token meets of one layer's networks, and of an expert layer with its router.
_NETWORK, _EXPERT = k_f * m * f, k_f * m * f_x
_ROUTER = m * x


def linear_flops(form: AttentionCost = SHARED_HEADS) -> Parts:
    """Count the FLOPs of one token in all matrices of the model, by part.

    Of the whole model, whatever the context: all but the core of attention. The output head is
    counted where a token's logits are wanted.

    Args:
        form: The attention of the layers.

    Example:
        >>> linear_flops()["projections"]
        L*(2*e*h*m + 2*m*(d*g + d*h + e*g))
    """
    return {
        "projections": L * form.projection_flops,
        "feed-forward": 2 * _NETWORK * (L - L_x),
        "experts": 2 * L_x * (_EXPERT * (x_c + x_s) + _ROUTER),
        "output head": 2 * m * v,
    }


def matrices_read(n_experts: Count, form: AttentionCost = SHARED_HEADS) -> Parts:
    """Count the entries of all matrices that a pass reads, by part; each is read once.

    Of the embedding a token needs one row, which is not counted; its matrix is, as the output head.

    Args:
        n_experts: How many routed experts of a layer the tokens of the pass meet.
        form: The attention of the layers.

    Example:
        >>> matrices_read(0)["feed-forward"]
        f*k_f*m*(L - L_x)
    """
    return {
        "projections": L * form.matrices,
        "feed-forward": (L - L_x) * _NETWORK,
        "experts": L_x * (_EXPERT * (n_experts + x_s) + _ROUTER),
        "output head": m * v,
    }


def core_flops(form: AttentionCost = SHARED_HEADS, n_keys: Count = N) -> sp.Expr:
    """Count the FLOPs of attention's core in the whole model, for one query with n keys.

    In layers with a window the query reads min(n, W) keys. Keys and values that are rebuilt for it
    count.

    Args:
        form: The attention of the layers.
        n_keys: n.

    Example:
        >>> core_flops().subs({L_w: 0})
        2*L*N*h*(d + e)
    """
    return (form.flops_per_pair + form.flops_per_key) * _in_layers(n_keys)


def cache_elements(form: AttentionCost = SHARED_HEADS, n_tokens: Count = N) -> sp.Expr:
    """Count the numbers that the whole model keeps of n tokens of one row.

    In layers with a window only min(n, W) tokens are kept.

    Args:
        form: The attention of the layers.
        n_tokens: n.

    Example:
        >>> cache_elements().subs({L_w: 0})
        L*N*g*(d + e)
    """
    return form.cache_elements * _in_layers(n_tokens)


def _in_layers(n: Count) -> sp.Expr:
    return (L - L_w) * n + L_w * sp.Min(n, W)


def parameters(sizes: ModelSizes) -> Parts:
    """Count the parameters of the whole model, by part, in its letters.

    A matrix that is used twice counts once: as the embedding.

    Args:
        sizes: Which matrices, biases and norms there are; the numbers come in with `evaluate`.

    Example:
        >>> from attnlib import PUBLISHED
        >>> parameters(PUBLISHED["llama-3-70b"])["attention"]
        L*(e*h*m + m*(d*g + d*h + e*g))
    """
    n_stacks = 2 if sizes.n_encoder_layers else 1
    n_attentions, n_networks = (L_e + 2 * L, L_e + L) if n_stacks == 2 else (L, L - L_x)
    biases = sizes.feed_forward_biases
    inner_biases = k_f - 1 if biases else 0
    network = _NETWORK + inner_biases * f + (m if biases else 0)
    expert = _EXPERT + inner_biases * f_x + (m if biases else 0)
    norm = m if sizes.norm == "rms" else 2 * m
    n_norms = (n_attentions + L_e * (n_stacks - 1) + L) * (sizes.norms_per_layer // 2)
    around = n_stacks * (sizes.norm_of_embedding + sizes.norm_at_end)
    n_positions = n_stacks * sizes.context if sizes.learned_positions else 0
    return {
        "embedding": v * m,
        "output head": sp.Integer(0) if sizes.tied_embeddings else v * m,
        "positions": (n_positions + sizes.n_segments) * m,
        "attention": n_attentions * _attention_parameters(sizes),
        "feed-forward": n_networks * network,
        "experts": L_x * (expert * (x + x_s) + _ROUTER),
        "norms": (n_norms + around) * norm,
        "pooler": m * (m + 1) if sizes.pooler else sp.Integer(0),
    }


def _attention_parameters(sizes: ModelSizes) -> sp.Expr:
    attention = sizes.attention
    if not isinstance(attention, AttentionSizes):
        return ABSORBED.matrices + u + c
    biases = h * d + g * d + g * e + m if attention.biases else 0
    norms = 2 * d if attention.query_key_norm else 0
    return SHARED_HEADS.matrices + biases + norms
