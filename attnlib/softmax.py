r"""Softmax over the scores that count, its logarithm, and the merge of two results.

Source   Milakov and Gimelshein 2018, arXiv:1805.02867, sections 2 and 3 (largest score taken off,
         merge of partial sums); Dao et al. 2022, arXiv:2205.14135, section 3.1 (the same for
         outputs)
Chapter  chapters/attention.md
Axes     attnlib/axes.py

    >>> scores = torch.tensor([[1.0, 2.0, 5.0]]).log()
    >>> softmax(scores)
    tensor([[0.1250, 0.2500, 0.6250]])
    >>> log_sum_exp(scores).exp()
    tensor([8.])
"""

from collections.abc import Iterable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlib.tensor_checks import broadcasts_to, check_boolean, check_floating


def softmax(
    scores: Float[Tensor, "*rows s"], where: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*rows s"]:
    r"""Turn each row of scores, along the last axis, into weights that sum to one.

    $$p_j = \frac{e^{s_j}}{\sum_{i \in S} e^{s_i}} \quad (j \in S), \qquad p_j = 0 \quad
    (j \notin S)$$

    A row with nothing to choose from (no True in `where`, or every score −∞) is a row of zeros,
    and so is its gradient. Whatever stands at an excluded place, NaN included, has no influence.
    Without `where` this is the usual softmax; a row that counts +∞ or NaN is NaN, as ∞ − ∞ is.

    Args:
        scores: Dimensionless scores, fp16, bf16, fp32 or fp64; formed into weights in at least
            fp32 and rounded once at the end.
        where: True where the score counts; broadcasts to the shape of `scores`.

    Returns:
        The weights, in the dtype of the scores.

    Raises:
        TypeError: If the scores are not floating point or `where` is not boolean.
        ValueError: If the scores have no axis or `where` does not broadcast to them.

    Example:
        >>> softmax(torch.zeros(2, 3), where=torch.tensor([[True, True, False], [False] * 3]))
        tensor([[0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 0.0000]])
    """
    _require_scores(scores, where)
    weights, _ = softmax_and_log_sum_exp(scores, where)
    return weights.to(scores.dtype)


def log_sum_exp(
    scores: Float[Tensor, "*rows s"], where: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*rows"]:
    r"""Give the logarithm of what softmax divides by, one number a row.

    $$\operatorname{LSE}(s) = \log \sum_{j \in S} e^{s_j}, \qquad
    \nabla \operatorname{LSE}(s) = \operatorname{softmax}(s)$$

    A row with nothing to choose from gives −∞, with a gradient of zeros. A row that counts +∞ and
    no NaN gives +∞; its gradient is softmax, which is NaN there.

    Args:
        scores: Dimensionless scores, fp16, bf16, fp32 or fp64; summed in at least fp32.
        where: True where the score counts; broadcasts to the shape of `scores`.

    Returns:
        One number a row, in nats, in the dtype of the scores.

    Raises:
        TypeError: If the scores are not floating point or `where` is not boolean.
        ValueError: If the scores have no axis or `where` does not broadcast to them.

    Example:
        >>> log_sum_exp(torch.tensor([[0.0, 0.0], [1000.0, 0.0], [-torch.inf, -torch.inf]]))
        tensor([6.9315e-01, 1.0000e+03,       -inf])
    """
    _require_scores(scores, where)
    _, lse = softmax_and_log_sum_exp(scores, where)
    return lse.to(scores.dtype)


def merge_attention(
    parts: Iterable[tuple[Float[Tensor, "*rows e"], Float[Tensor, "*rows"]]],
) -> tuple[Float[Tensor, "*rows e"], Float[Tensor, "*rows"]]:
    r"""Merge what the same targets read in disjoint sets of sources.

    A part is an output and its log-sum-exp, $(o_i, \ell_i)$, as `attention_with_lse` gives them.
    The whole is attention over the parts, with the $\ell_i$ as scores:

    $$o = \sum_i \operatorname{softmax}(\ell)_i\, o_i, \qquad \ell = \operatorname{LSE}(\ell_1,
    \ldots, \ell_n).$$

    The merge is associative and commutative up to rounding, and a part that read nothing,
    (anything, −∞), changes nothing; so sources may be cut anywhere and read in any order.

    Args:
        parts: At least one pair (output, log-sum-exp in nats), all of the same shapes. The
            outputs share a dtype, and so do the log-sum-exps.

    Returns:
        The output, in the dtype of the outputs, and the log-sum-exp, in the dtype of theirs.

    Raises:
        TypeError: If the parts are not pairs, if a tensor is not floating point or the dtypes
            differ between parts.
        ValueError: If there is no part or the shapes do not agree.

    Example:
        >>> one = (torch.tensor([[1.0]]), torch.tensor([1.0]).log())
        >>> other = (torch.tensor([[5.0]]), torch.tensor([3.0]).log())
        >>> merge_attention([one, other])[0]
        tensor([[4.]])
    """
    parts = _require_parts(parts)
    # a part that read nothing may hold anything, and 0 · NaN would leak from it
    outs = [out.masked_fill((lse == -torch.inf)[..., None], 0.0) for out, lse in parts]
    weights, lse = softmax_and_log_sum_exp(torch.stack([lse for _, lse in parts], dim=-1))
    out = sum(w[..., None] * o for w, o in zip(weights.unbind(-1), outs, strict=True))
    return out.to(outs[0].dtype), lse.to(parts[0][1].dtype)


def softmax_and_log_sum_exp(
    scores: Float[Tensor, "*rows s"], where: Bool[Tensor, "..."] | None = None
) -> tuple[Float[Tensor, "*rows s"], Float[Tensor, "*rows"]]:
    r"""Give the weights and their log-sum-exp from one pass, in at least fp32.

    $$m = \max_{j \in S} s_j, \qquad z = \sum_{j \in S} e^{s_j - m}, \qquad
    p_j = e^{s_j - m} / z, \qquad \ell = m + \log z$$

    What `softmax`, `log_sum_exp` and attention are made of; it checks nothing itself.

    Args:
        scores: Dimensionless scores.
        where: True where the score counts; broadcasts to the shape of `scores`.

    Returns:
        Weights and log-sum-exp, in fp64 if the scores are, otherwise in fp32.

    Example:
        >>> weights, lse = softmax_and_log_sum_exp(torch.zeros(4, dtype=torch.float16))
        >>> weights.dtype, round(lse.exp().item(), 5)
        (torch.float32, 4.0)
    """
    scores = scores.to(computing_dtype(scores.dtype))
    if where is not None:
        scores = scores.masked_fill(~where, -torch.inf)
    # taking off the largest score changes nothing but the range, so it needs no gradient
    largest = _largest(scores.detach())
    exponentials = torch.exp(scores - largest)
    z = exponentials.sum(-1, keepdim=True)
    nothing = z == 0
    z = z.masked_fill(nothing, 1.0)
    weights = exponentials / z
    if where is not None:
        # a score that is NaN spoils the weights of its row, but not the zeros outside `where`
        weights = weights.masked_fill(~where, 0.0)
    lse = (largest + z.log()).masked_fill(nothing, -torch.inf)
    lse = lse.masked_fill(largest == torch.inf, torch.inf)  # where z is NaN, as ∞ − ∞ is
    return weights, lse.squeeze(-1)


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """Name the dtype in which scores are formed: at least fp32.

    Example:
        >>> computing_dtype(torch.bfloat16), computing_dtype(torch.float64)
        (torch.float32, torch.float64)
    """
    return torch.promote_types(dtype, torch.float32)


def _largest(scores: Tensor) -> Tensor:
    """The largest score of each row; 0 where there is none above −∞, so that nothing is NaN."""
    if scores.shape[-1] == 0:
        return scores.new_zeros((*scores.shape[:-1], 1))
    largest = scores.amax(-1, keepdim=True)
    return largest.masked_fill(largest == -torch.inf, 0.0)


def _require_scores(scores: Tensor, where: Tensor | None) -> None:
    check_floating("scores", scores)
    if scores.ndim == 0:
        raise ValueError(
            "scores must have at least one axis, the last is summed over; got shape ()"
        )
    if where is None:
        return
    check_boolean("where", where, "counts")
    if not broadcasts_to(where.shape, scores.shape):
        raise ValueError(
            f"where must broadcast to the scores, got where {tuple(where.shape)} and "
            f"scores {tuple(scores.shape)}"
        )


def _require_parts(parts: Iterable[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
    pairs = "parts must be pairs (output, log-sum-exp), as in merge_attention([(out, lse)]), got"
    if isinstance(parts, Tensor) or not isinstance(parts, Iterable):
        raise TypeError(f"{pairs} {type(parts).__name__}")
    parts = list(parts)
    if not parts:
        raise ValueError("merging needs at least one part (output, log-sum-exp), got none")
    for i, part in enumerate(parts):
        if not isinstance(part, (tuple, list)):
            raise TypeError(f"{pairs} {type(part).__name__} as part {i}")
        if len(part) != 2:
            raise ValueError(f"{pairs} {len(part)} things in part {i}")
    for i, (out, lse) in enumerate(parts):
        check_floating(f"the output of part {i}", out)
        check_floating(f"the log-sum-exp of part {i}", lse)
        if out.shape[:-1] != lse.shape or out.ndim == 0:
            raise ValueError(
                f"a log-sum-exp must have the shape of its output without the last axis, got "
                f"output {tuple(out.shape)} and log-sum-exp {tuple(lse.shape)} in part {i}"
            )
        for x, first in zip((out, lse), parts[0], strict=True):
            if x.shape != first.shape:
                raise ValueError(
                    f"all parts must have the same shape, got {tuple(first.shape)} in part 0 and "
                    f"{tuple(x.shape)} in part {i}"
                )
            if x.dtype != first.dtype:
                raise TypeError(
                    f"all parts must have the same dtype, got {first.dtype} in part 0 and "
                    f"{x.dtype} in part {i}"
                )
    return parts
