r"""What the attention of one layer costs, in five forms: shared heads, and a latent in four ways.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 4; Ainslie et al. 2023, arXiv:2305.13245,
         section 2.2 (shared heads); DeepSeek-AI 2024, arXiv:2405.04434, section 2.1 and appendix C
         (latent)
Chapter  chapters/counting-cost.md, chapters/latent-attention.md
Axes     attnlib/axes.py

A multiply-add is two FLOPs. What matrix products do is counted, and nothing else: softmax, norms,
rotations and biases are left out (for softmax, see `softmax_operations`).

Sharing keys and values changes what is projected and kept, and not what a pair of a target and a
source costs:

    >>> SHARED_HEADS.flops_per_pair, SHARED_HEADS.cache_elements
    (2*h*(d + e), g*(d + e))
    >>> ABSORBED.flops_per_pair, ABSORBED.cache_elements
    (2*h*(2*c + r), c + r)
"""

from dataclasses import dataclass

import sympy as sp

from attnlib.cost.letters import N, c, d, e, g, h, m, n, r, u


@dataclass(frozen=True, kw_only=True)
class AttentionCost:
    r"""What one layer's attention costs, in its letters.

    A pass reads N keys a row, those of its own T tokens among them. Its FLOPs are

    $$T \cdot \text{projection} + \text{pairs} \cdot \text{per pair} + N \cdot \text{per key}.$$

    Args:
        name: The form.
        matrices: The weights that the matrix products of a pass read: parameters of the layer,
            or products of them where they are stored as such. Norms and biases are not among them.
        projection_flops: Of each new token, whatever it reads.
        flops_per_pair: Of each pair of a target and a source that it reads: the score and the
            weighted value, in all heads together.
        flops_per_key: Of each key that a pass reads, once a pass; 0 unless keys are rebuilt.
        cache_elements: The numbers that are kept of each token.
    """

    name: str
    matrices: sp.Expr
    projection_flops: sp.Expr
    flops_per_pair: sp.Expr
    flops_per_key: sp.Expr
    cache_elements: sp.Expr

    def step_flops(self, n_keys: sp.Expr | int = N) -> sp.Expr:
        """Of one layer in one decode step: a new token that reads n keys, its own among them.

        Example:
            >>> SHARED_HEADS.step_flops(7) - SHARED_HEADS.step_flops(6)
            2*h*(d + e)
        """
        return self.projection_flops + n_keys * (self.flops_per_pair + self.flops_per_key)


_queries_and_latents = m * u + u * h * (n + r) + m * (c + r)
_up, _out = c * h * (n + e), h * e * m

SHARED_HEADS = AttentionCost(
    name="shared heads",
    matrices=m * (h * d + g * d + g * e) + h * e * m,
    projection_flops=2 * m * (h * d + g * d + g * e) + 2 * h * e * m,
    flops_per_pair=2 * h * (d + e),
    flops_per_key=sp.Integer(0),
    cache_elements=g * (d + e),
)
"""Queries of h heads read g key/value heads: multi-head if g = h, multi-query if g = 1."""

EXPANDED = AttentionCost(
    name="expanded",
    matrices=_queries_and_latents + _up + _out,
    projection_flops=2 * _queries_and_latents + 2 * _up + 2 * _out,
    flops_per_pair=2 * h * (n + r + e),
    flops_per_key=sp.Integer(0),
    cache_elements=h * (n + r + e),
)
"""A latent from which each token's keys and values are built once, and these are kept."""

RE_EXPANDED = AttentionCost(
    name="re-expanded",
    matrices=_queries_and_latents + _up + _out,
    projection_flops=2 * _queries_and_latents + 2 * _out,
    flops_per_pair=2 * h * (n + r + e),
    flops_per_key=2 * _up,
    cache_elements=c + r,
)
"""A latent that is kept; every pass builds keys and values of all tokens anew."""

ABSORBED = AttentionCost(
    name="absorbed",
    matrices=_queries_and_latents + _up + _out,
    projection_flops=2 * _queries_and_latents + 2 * h * n * c + 2 * h * c * e + 2 * _out,
    flops_per_pair=2 * h * (2 * c + r),
    flops_per_key=sp.Integer(0),
    cache_elements=c + r,
)
"""A latent that is kept and read as it is: queries go to its width, averages come back from it."""

MERGED = AttentionCost(
    name="merged",
    matrices=m * u + u * h * r + h * u * c + m * (c + r) + h * c * m,
    projection_flops=2 * (m * u + u * h * r + h * u * c + m * (c + r) + h * c * m),
    flops_per_pair=2 * h * (2 * c + r),
    flops_per_key=sp.Integer(0),
    cache_elements=c + r,
)
"""Absorbed, with the pairs of matrices that meet multiplied out and stored as one."""

FORMS: dict[str, AttentionCost] = {
    form.name: form for form in (SHARED_HEADS, EXPANDED, RE_EXPANDED, ABSORBED, MERGED)
}
"""The five forms by their names."""


def softmax_operations(n_keys: sp.Expr | int = N) -> sp.Expr:
    """Count what softmax does for one target with n keys in one layer; no other count has it.

    In each head n − 1 comparisons, n subtractions, n exponentials, n − 1 additions, n divisions.

    Example:
        >>> softmax_operations(10)
        48*h
    """
    return h * (5 * n_keys - 2)
