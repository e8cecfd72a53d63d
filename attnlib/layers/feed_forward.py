r"""The feed-forward network: what a block does to each token by itself.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.3 (two matrices); Hendrycks and Gimpel
         2016, arXiv:1606.08415 (GELU); Shazeer 2020, arXiv:2002.05202 (gated networks)
Chapter  chapters/encoder-decoder.md
Axes     attnlib/axes.py
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attnlib import require
from attnlib.layers.inputs import check_states

__all__ = ["ACTIVATIONS", "FeedForward"]

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "relu": F.relu,
        "silu": F.silu,
        "gelu": F.gelu,
        "gelu-tanh": partial(F.gelu, approximate="tanh"),
    }
)
"""The functions σ between the matrices, by the names that `ModelSizes.activation` has."""


class FeedForward(nn.Module):
    r"""Widen each vector, bend it, and narrow it again.

    $$y = W_2\, \sigma(W_1 x + b_1) + b_2$$

    and, where it is gated, with a third matrix whose bent product multiplies coordinate by
    coordinate:

    $$y = W_2 \bigl(\sigma(W_g x + b_g) \odot (W_1 x + b_1)\bigr) + b_2$$

    $W_1$ is `widen`, $W_2$ is `narrow`, $W_g$ is `gate`. With "silu" the gated network is called
    SwiGLU, with "gelu" GeGLU. "gelu" is $x\,\Phi(x)$ with the normal distribution function, and
    "gelu-tanh" an approximation of it.

    The matrices begin with independent entries from N(0, 1/fan_in), the biases with 0.

    Args:
        width: m, of x and of what comes out.
        inner_width: The rows of `widen`.
        activation: "relu", "silu", "gelu" or "gelu-tanh".
        gated: Whether there is a third matrix.
        biases: Whether each matrix adds a bias.

    Raises:
        TypeError: If a width is not a whole number.
        ValueError: If a width is below 1 or the activation unknown.

    Example:
        >>> network = FeedForward(3, 5, activation="silu", gated=True)
        >>> for name, weight in network.named_parameters():
        ...     print(name, tuple(weight.shape))
        widen.weight (5, 3)
        gate.weight (5, 3)
        narrow.weight (3, 5)
    """

    def __init__(
        self,
        width: int,
        inner_width: int,
        *,
        activation: str,
        gated: bool = False,
        biases: bool = False,
    ) -> None:
        width = require.at_least("width (m)", width, 1)
        inner_width = require.at_least("inner_width", inner_width, 1)
        if activation not in ACTIVATIONS:
            known = ", ".join(map(repr, ACTIVATIONS))
            raise ValueError(f"activation must be one of {known}; got {activation!r}")
        super().__init__()
        self.width, self.inner_width, self.activation = width, inner_width, activation
        self.widen = nn.Linear(width, inner_width, bias=biases)
        self.gate = nn.Linear(width, inner_width, bias=biases) if gated else None
        self.narrow = nn.Linear(inner_width, width, bias=biases)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the matrices from N(0, 1/fan_in) anew; biases become 0."""
        for linear in (self.widen, self.gate, self.narrow):
            if linear is not None:
                nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
                if linear.bias is not None:
                    nn.init.zeros_(linear.bias)

    def forward(self, x: Float[Tensor, "... m"]) -> Float[Tensor, "... m"]:
        """Work on each vector by itself.

        Args:
            x: Vectors, along the last axis.

        Raises:
            TypeError: If x is not floating point of the weights' dtype.
            ValueError: If its last axis does not have the width m, or the device does not fit.
        """
        check_states("x", x, None, self.width, self.widen.weight)
        bent = ACTIVATIONS[self.activation]
        if self.gate is None:
            return self.narrow(bent(self.widen(x)))
        return self.narrow(bent(self.gate(x)) * self.widen(x))
