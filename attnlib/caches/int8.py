r"""Eight bits a number: vectors as whole numbers from −127 to 127, times one scale for each vector.

Source   Dettmers et al. 2022, arXiv:2208.07339, section 2 (absolute maximum, vector by vector)
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py

    >>> codes, scales = to_int8(torch.tensor([[1.0, -0.5, 0.1], [3.0, -3.0, 0.01]]))
    >>> codes
    tensor([[ 127,  -64,   13],
            [ 127, -127,    0]], dtype=torch.int8)
    >>> from_int8(codes, scales, torch.float32)
    tensor([[ 1.0000, -0.5039,  0.1024],
            [ 3.0000, -3.0000,  0.0000]])
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlib.softmax import computing_dtype
from attnlib.tensor_checks import check_floating

__all__ = ["from_int8", "to_int8"]

_MOST = 127  # −128 stays unused, so that x and −x are rounded alike


def to_int8(x: Float[Tensor, "... d"]) -> tuple[Int[Tensor, "... d"], Float[Tensor, "... 1"]]:
    r"""Round each vector to whole multiples of its scale, which is its largest number over 127.

    $$c_i = \operatorname{round}(x_i / a), \qquad a = \tfrac1{127} \max_i |x_i|, \qquad
    |x_i - a\,c_i| \le \tfrac a2$$

    But for the rounding of the scale and of the products, which is that of fp32. A scale is at
    least the smallest normal number of its dtype, so that a vector of zeros stays one, and so small
    that 127 of it are finite.

    Args:
        x: Vectors along the last axis.

    Returns:
        The codes, one byte each, and the scales: fp64 where x is, fp32 otherwise. A vector that
        holds NaN or ±∞ has the scale NaN, and comes back as NaN altogether.

    Raises:
        TypeError: If x is not floating point.

    Example:
        >>> codes, scales = to_int8(torch.tensor([127.0, 1.4]))
        >>> codes.tolist(), scales.item()
        ([127, 1], 1.0)
    """
    check_floating("x", x)
    x = x.to(computing_dtype(x.dtype))
    scales = x.abs().amax(-1, keepdim=True) / _MOST
    finite = scales.isfinite()
    of_dtype = torch.finfo(x.dtype)
    # a scale that is rounded up would make ∞ of the largest number
    scales = scales.clamp(min=of_dtype.tiny, max=of_dtype.max / _MOST * (1 - of_dtype.eps))
    codes = (x / scales).round().clamp(-_MOST, _MOST).where(finite, 0.0)
    return codes.to(torch.int8), scales.where(finite, torch.nan)


def from_int8(
    codes: Int[Tensor, "... d"], scales: Float[Tensor, "... 1"], dtype: torch.dtype
) -> Float[Tensor, "... d"]:
    """Multiply codes by their scales, in the dtype of these, and round once to another.

    Args:
        codes: As `to_int8` gives them.
        scales: As `to_int8` gives them.
        dtype: Of the result.

    Example:
        >>> from_int8(torch.tensor([127, -1]).to(torch.int8), torch.tensor([0.5]), torch.float16)
        tensor([63.5000, -0.5000], dtype=torch.float16)
    """
    return (codes.to(scales.dtype) * scales).to(dtype)
