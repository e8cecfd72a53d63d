r"""Norms: each vector by itself is given a fixed size, and its coordinates their weights.

Source   Ba et al. 2016, arXiv:1607.06450 (layer norm); Zhang and Sennrich 2019, arXiv:1910.07467
         (root mean square)
Chapter  chapters/encoder-decoder.md
Axes     attnlib/axes.py
"""

from jaxtyping import Float
from torch import Tensor, nn

from attnlib import require
from attnlib.softmax import computing_dtype
from attnlib.tensor_checks import check_floating

__all__ = ["RMSNorm", "make_norm"]

_KINDS = ("rms", "layer")


class RMSNorm(nn.RMSNorm):
    r"""Divide each vector by its root mean square and multiply its coordinates by their weights.

    $$y_i = w_i\, \frac{x_i}{\sqrt{\tfrac1d \sum_j x_j^2 + \varepsilon}}$$

    torch's module, but computed in at least fp32 and rounded once, under autocast too. Gemma writes
    the weights as 1 + w and stores w: whoever loads them adds the 1.

    Args:
        width: d; there is a weight for each coordinate, 1 in the beginning.
        eps: ε, which is never left to the dtype of x.

    Raises:
        TypeError: If the width is not a whole number or ε not a number.
        ValueError: If the width is below 1 or ε not above 0.

    Example:
        >>> import torch
        >>> RMSNorm(2, eps=1e-6)(torch.tensor([1.0, 7.0])).detach()
        tensor([0.2000, 1.4000])
    """

    def __init__(self, width: int, *, eps: float) -> None:
        width = require.at_least("width (d)", width, 1)
        super().__init__(width, eps=require.positive("eps", eps))

    def forward(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        """Norm along the last axis, in the dtype of x.

        Args:
            x: Vectors, along the last axis.

        Raises:
            TypeError: If x is not floating point.
            ValueError: If its last axis does not have the width d.
        """
        check_floating("x", x)
        if x.shape[-1:] != self.weight.shape:
            raise ValueError(
                f"x must have the width d={len(self.weight)} of this norm along its last axis, got "
                f"shape {tuple(x.shape)}"
            )
        dtype = computing_dtype(x.dtype)
        weight = self.weight.to(dtype)
        normed = nn.functional.rms_norm(x.to(dtype), self.normalized_shape, weight, self.eps)
        return normed.to(x.dtype)


def make_norm(kind: str, width: int, *, eps: float) -> RMSNorm | nn.LayerNorm:
    r"""Make the norm that `ModelSizes.norm` names.

    "rms" is `RMSNorm`; "layer" is torch's, which takes off the mean first and adds a bias:

    $$y_i = w_i\, \frac{x_i - \bar x}{\sqrt{\tfrac1m \sum_j (x_j - \bar x)^2 + \varepsilon}} + b_i$$

    Args:
        kind: "rms" or "layer".
        width: m, of the vectors.
        eps: What is added under the root.

    Raises:
        TypeError: If the width is not a whole number or ε not a number.
        ValueError: If the kind is unknown, the width below 1 or ε not above 0.

    Example:
        >>> import torch
        >>> make_norm("layer", 2, eps=1e-12)(torch.tensor([1.0, 7.0])).detach()
        tensor([-1.,  1.])
    """
    if kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(map(repr, _KINDS))}; got {kind!r}")
    if kind == "rms":
        return RMSNorm(width, eps=eps)
    width = require.at_least("width (m)", width, 1)
    return nn.LayerNorm(width, eps=require.positive("eps", eps))
