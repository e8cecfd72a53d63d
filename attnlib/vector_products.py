r"""Products of matrices with one vector, as decoding takes them: each matrix is read once.

Source   Pope et al. 2022, arXiv:2211.05102, section 2 (decoding waits for the weights); this book
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py

For many vectors a matrix is multiplied in tiles; for one it is only read, so that what counts is in
which order its numbers stand. Which layout is read at the speed of the memory depends on the
machine and on the number of threads: rows, as `torch.nn.Linear` keeps them, or a transposed copy
cut into parts for the threads to share. `faster_layout` measures both.

    >>> weight = torch.arange(6.0).view(2, 3)
    >>> held = Matrices([weight], "parts")
    >>> held.product([weight], [None])(torch.tensor([[[1.0, 10.0, 100.0]]]))
    tensor([[[210., 543.]]])
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import gcd

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from attnlib.timing import compare

__all__ = ["LAYOUTS", "N_PARTS", "Matrices", "faster_layout", "matrices_of"]

LAYOUTS = ("rows", "parts")
N_PARTS = 16  # more than threads, so that each reads short runs; divides most widths


class Matrices:
    """Matrices for products with one vector a row, one after the other in one piece of memory.

    Args:
        weights: All that will stand in it, for the room they take.
        layout: One of `LAYOUTS`.

    Raises:
        ValueError: If the layout is none of the two.
    """

    def __init__(self, weights: Sequence[Tensor], layout: str) -> None:
        if layout not in LAYOUTS:
            raise ValueError(f"layout must be 'rows' or 'parts', got {layout!r}")
        self._free = weights[0].new_empty(sum(weight.numel() for weight in weights))
        self.nbytes = self._free.nbytes
        self._multiply = _by_rows if layout == "rows" else _by_parts

    def product(
        self, weights: Sequence[Tensor], biases: Sequence[Tensor | None]
    ) -> Callable[..., Tensor]:
        """Take in these matrices, one under the other, and give what multiplies by them.

        Args:
            weights: Of one width, as `torch.nn.Linear` has them.
            biases: One for each matrix, or None for all.

        Returns:
            A function of vectors (b, 1, width), and of what is to be added to the result or
            nothing.
        """
        weight = torch.cat(weights).detach()
        bias = None if biases[0] is None else torch.cat(biases).detach()
        place, self._free = self._free.tensor_split([weight.numel()])
        return self._multiply(place, weight, bias)

    def product_of_heads(self, weight: Tensor) -> Callable[[Tensor], Tensor]:
        """Take in a matrix for each head, and give what multiplies the vectors of all heads.

        Args:
            weight: A matrix for each of h heads, its rows as many as the vectors have coordinates.

        Returns:
            A function of vectors (b, h, width), whose results are (b, h, other width).
        """
        place, self._free = self._free.tensor_split([weight.numel()])
        held = place.view(weight.shape).copy_(weight.detach())

        def multiply(x: Tensor) -> Tensor:
            return torch.bmm(x.transpose(0, 1), held).transpose(0, 1)

        return multiply


def matrices_of(module: nn.Module) -> list[Tensor]:
    """Give the weights of all linear maps in a module, for the room they take in `Matrices`.

    Example:
        >>> two = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4))
        >>> [tuple(weight.shape) for weight in matrices_of(two)]
        [(3, 2), (4, 3)]
    """
    return [part.weight for part in module.modules() if isinstance(part, nn.Linear)]


def _by_rows(place: Tensor, weight: Tensor, bias: Tensor | None) -> Callable[..., Tensor]:
    rows = place.view(weight.shape).copy_(weight)

    def multiply(x: Tensor, added_to: Tensor | None = None) -> Tensor:
        y = F.linear(x, rows, bias)
        return y if added_to is None else y + added_to

    return multiply


def _by_parts(place: Tensor, weight: Tensor, bias: Tensor | None) -> Callable[..., Tensor]:
    parts = rearrange(weight, "(part j) i -> part i j", part=gcd(len(weight), N_PARTS))
    parts = place.view(parts.shape).copy_(parts)
    n_parts, n_in, n_out = parts.shape

    def multiply(x: Tensor, added_to: Tensor | None = None) -> Tensor:
        if x.shape[0] == 1 and bias is None:  # the parts stand in order: fewer calls
            x = x.expand(n_parts, 1, n_in)
            if added_to is None:
                return torch.bmm(x, parts).view(1, 1, -1)
            return torch.baddbmm(added_to.view(n_parts, 1, n_out), x, parts).view(1, 1, -1)
        b = x.shape[0]
        y = torch.bmm(x.transpose(0, 1).expand(n_parts, b, n_in), parts)
        y = y.transpose(0, 1).reshape(b, 1, n_parts * n_out)
        y = y if bias is None else y + bias
        return y if added_to is None else y + added_to

    return multiply


def faster_layout(weight: Tensor) -> str:
    """Time the product of one vector with a large matrix in each layout.

    Args:
        weight: The matrix; on another device than the CPU rows are taken.
    """
    if weight.device.type != "cpu":
        return "rows"
    vector = weight.new_ones(1, 1, weight.shape[1])
    calls = {
        layout: partial(Matrices([weight], layout).product([weight], [None]), vector)
        for layout in LAYOUTS
    }
    timings = compare(calls, device="cpu")
    return min(timings, key=lambda layout: timings[layout].median_seconds)
