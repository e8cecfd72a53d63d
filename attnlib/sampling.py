r"""Sampling: from the logits of the next token to one token.

Source   Fan et al. 2018, arXiv:1805.04833, section 5.4 (top-k); Holtzman et al. 2020,
         arXiv:1904.09751, section 3.1 (top-p); Nguyen et al. 2024, arXiv:2407.01082, section 3
         (min-p)
Chapter  chapters/language-models.md
Axes     attnlib/axes.py

    >>> logits = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()
    >>> keep_top_k(logits, 2).softmax(-1)
    tensor([0.0000, 0.5714, 0.0000, 0.4286])
    >>> Sampler(top_k=2).probabilities(logits)
    tensor([0.0000, 0.5714, 0.0000, 0.4286], dtype=torch.float64)
    >>> GREEDY.probabilities(logits)
    tensor([0., 1., 0., 0.], dtype=torch.float64)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from attnlib.require import at_least, number
from attnlib.tensor_checks import check_floating, kind_of

__all__ = [
    "GREEDY",
    "Sampler",
    "check_choice",
    "draw",
    "fault_of_logits",
    "keep_min_p",
    "keep_top_k",
    "keep_top_p",
    "temper",
]


def temper(logits: Float[Tensor, "*rows v"], temperature: float) -> Float[Tensor, "*rows v"]:
    r"""Divide the logits by the temperature, after taking the largest off.

    $$z_w \leftarrow \frac{z_w - \max_u z_u}{T}$$

    Softmax does not notice what is taken off, and the largest logits become 0 at any temperature;
    where T is so low that another one overflows, it becomes −∞. As T falls to 0 only the largest
    stay; as it grows all tokens become alike, those with −∞ excepted.

    Args:
        logits: Of the next token; −∞ forbids one.
        temperature: T, above 0 and finite. What is meant by 0 is `GREEDY`.

    Raises:
        TypeError: If the logits are not floating point or T is no number.
        ValueError: If T is outside its range, or a row holds NaN or +∞ or nothing but −∞.

    Example:
        >>> temper(torch.tensor([3.0, 1.0]), 0.5)
        tensor([ 0., -4.])
    """
    temperature = _temperature(temperature)
    _require_logits(logits)
    exact = logits.double()
    return ((exact - exact.amax(-1, keepdim=True)) / temperature).to(logits.dtype)


def keep_top_k(logits: Float[Tensor, "*rows v"], k: int) -> Float[Tensor, "*rows v"]:
    """Keep the k largest logits of a row and set the others to −∞.

    Of equal logits those with the lower ids are kept, so that never more than k are left.

    Args:
        logits: Of the next token.
        k: At least 1; from v on, all are kept.

    Raises:
        TypeError: If the logits are not floating point or k is not a whole number.
        ValueError: If k is below 1, or a row holds NaN or +∞ or nothing but −∞.

    Example:
        >>> keep_top_k(torch.tensor([1.0, 5.0, 5.0, 5.0]), 2)
        tensor([-inf, 5., 5., -inf])
    """
    k = at_least("top_k", k, 1)
    _require_logits(logits)
    if k >= logits.shape[-1]:
        return logits
    # one of v is found sooner than v are put in order
    order = logits.argmax(-1, keepdim=True) if k == 1 else _largest_first(logits)
    kept = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order[..., :k], True)
    return logits.masked_fill(~kept, -math.inf)


def keep_top_p(logits: Float[Tensor, "*rows v"], mass: float) -> Float[Tensor, "*rows v"]:
    r"""Keep the fewest tokens, the likeliest first, that have at least this mass together.

    The token with which the mass is reached is kept, too, so that at least one is. Of equal tokens
    those with the lower ids come first. The masses are summed in fp64; where one meets the limit
    exactly, that rounding decides.

    Args:
        logits: Of the next token.
        mass: Above 0 and at most 1; 1 keeps all, however their sum is rounded.

    Raises:
        TypeError: If the logits are not floating point or the mass is no number.
        ValueError: If the mass is outside its range, or a row holds NaN or +∞ or nothing but −∞.

    Example:
        >>> keep_top_p(torch.tensor([0.1, 0.4, 0.2, 0.3]).log(), 0.65).softmax(-1)
        tensor([0.0000, 0.5714, 0.0000, 0.4286])
    """
    mass = _mass(mass)
    _require_logits(logits)
    if mass == 1:
        return logits
    order = _largest_first(logits)
    p = logits.double().softmax(-1).gather(-1, order)
    before = torch.cat([torch.zeros_like(p[..., :1]), p.cumsum(-1)[..., :-1]], dim=-1)
    kept = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before < mass)
    return logits.masked_fill(~kept, -math.inf)


def keep_min_p(logits: Float[Tensor, "*rows v"], share: float) -> Float[Tensor, "*rows v"]:
    r"""Keep the tokens that are at least this share as likely as the likeliest.

    $$p_w \ge s \max_u p_u \iff z_w \ge \max_u z_u + \log s$$

    Args:
        logits: Of the next token.
        share: s, from 0 to 1; 0 keeps all, and 1 the likeliest alone, with all its equals.

    Raises:
        TypeError: If the logits are not floating point or the share is no number.
        ValueError: If the share is outside its range, or a row holds NaN or +∞ or nothing but −∞.

    Example:
        >>> keep_min_p(torch.tensor([0.1, 0.4, 0.2, 0.3]).log(), 0.6).softmax(-1)
        tensor([0.0000, 0.5714, 0.0000, 0.4286])
    """
    share = _share(share)
    _require_logits(logits)
    if share == 0:
        return logits
    exact = logits.double()
    least = exact.amax(-1, keepdim=True) + math.log(share)
    return logits.masked_fill(exact < least, -math.inf)


def draw(
    probabilities: Float64[Tensor, "*rows v"], uniforms: Float64[Tensor, "*rows"]
) -> Int[Tensor, "*rows"]:
    r"""Turn a uniform number into a token: the first id whose cumulated probability exceeds it.

    $$w = \min\Bigl\{w : \sum_{u \le w} p_u > U \sum_u p_u\Bigr\}$$

    A token without probability is never drawn, wherever the roundings fall.

    Args:
        probabilities: At least 0, with a positive sum; it need not be exactly 1.
        uniforms: One for each row, at least 0 and below 1.

    Raises:
        TypeError: If one of them is not fp64.
        ValueError: If there is not one uniform for each row, or a number is outside its range.

    Example:
        >>> p = torch.tensor([[0.0, 0.25, 0.0, 0.75]] * 3).double()
        >>> draw(p, torch.tensor([0.0, 0.25, 0.999]).double())
        tensor([1, 3, 3])
    """
    for name, x in (("probabilities", probabilities), ("uniforms", uniforms)):
        if not isinstance(x, Tensor) or x.dtype != torch.float64:
            raise TypeError(f"{name} must be a tensor of fp64, got {kind_of(x)}")
    if probabilities.ndim < 1 or uniforms.shape != probabilities.shape[:-1]:
        raise ValueError(
            "uniforms must have the shape of probabilities without their last axis v, got shapes "
            f"{tuple(uniforms.shape)} and {tuple(probabilities.shape)}"
        )
    if not probabilities.shape[-1]:
        raise ValueError(f"v must be at least 1, got shape {tuple(probabilities.shape)}")
    fit = (uniforms >= 0) & (uniforms < 1)
    if not fit.all():
        raise ValueError(f"uniforms must be at least 0 and below 1, got {uniforms[~fit][0].item()}")
    # searching wants rows that stand together in memory
    cumulated = probabilities.cumsum(-1).contiguous()
    whole = cumulated[..., -1:].contiguous()
    _require_distributions(probabilities, whole[..., 0])
    first = torch.searchsorted(cumulated, (uniforms[..., None] * whole).contiguous(), right=True)
    # U times the sum may round up to the sum
    last = torch.searchsorted(cumulated, whole)
    return torch.minimum(first, last)[..., 0]


@dataclass(frozen=True, kw_only=True)
class Sampler:
    r"""How the next token is chosen: which tokens are left, and how likely each of them is.

    The steps act in this order: temperature, top-k, top-p, min-p, each on what the one before has
    left, as a distribution of its own. Top-k and min-p commute, and top-k commutes with the
    temperature, since neither changes which logits are larger. Top-p and min-p do not commute with
    the temperature, which changes masses and ratios; nor does top-p with top-k or min-p, since
    what they drop changes the masses of the rest.

    Args:
        temperature: Above 0 and finite; 1 leaves the model's distribution.
        top_k: How many tokens are kept at most, or None.
        top_p: The mass that is kept at least, above 0 and at most 1, or None.
        min_p: How likely a token must be relative to the likeliest, from 0 to 1, or None.

    Raises:
        TypeError: If a value is no number, or `top_k` not a whole one.
        ValueError: If a value is outside its range.

    Example:
        >>> logits = torch.tensor([0.1, 0.4, 0.2, 0.3]).log()
        >>> Sampler(temperature=0.5, top_p=0.9).probabilities(logits)
        tensor([0.0000, 0.5517, 0.1379, 0.3103], dtype=torch.float64)
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", _temperature(self.temperature))
        if self.top_k is not None:
            object.__setattr__(self, "top_k", at_least("top_k", self.top_k, 1))
        if self.top_p is not None:
            object.__setattr__(self, "top_p", _mass(self.top_p))
        if self.min_p is not None:
            object.__setattr__(self, "min_p", _share(self.min_p))

    def probabilities(self, logits: Float[Tensor, "*rows v"]) -> Float64[Tensor, "*rows v"]:
        """Give the distribution from which the next token is drawn.

        Args:
            logits: Of the next token; −∞ forbids one.

        Returns:
            Probabilities in fp64 that sum to one; 0 for what is not kept.

        Raises:
            TypeError: If the logits are not floating point.
            ValueError: If a row holds NaN or +∞ or nothing but −∞.
        """
        check_floating("logits", logits)
        kept = logits.double()
        if self.top_k is not None:  # before the temperature, which may round two logits to one
            kept = keep_top_k(kept, self.top_k)
        kept = temper(kept, self.temperature)
        if self.top_p is not None:
            kept = keep_top_p(kept, self.top_p)
        if self.min_p is not None:
            kept = keep_min_p(kept, self.min_p)
        return kept.softmax(-1)


def fault_of_logits(logits: Float[Tensor, "*rows v"]) -> tuple[int, str] | None:
    """Say in which row no token can be chosen, counting rows from 0, and why; None if in none.

    Example:
        >>> fault_of_logits(torch.tensor([[0.0, 1.0], [-math.inf, -math.inf]]))
        (1, 'nothing but -inf')
    """
    if logits.shape[-1] == 0:
        raise ValueError(f"v must be at least 1, got shape {tuple(logits.shape)}")
    largest = logits.amax(-1).flatten()  # NaN if there is one
    bad = (~largest.isfinite()).nonzero()
    if len(bad) == 0:
        return None
    row = int(bad[0])
    x = largest[row].item()
    return row, "NaN" if math.isnan(x) else "+inf" if x > 0 else "nothing but -inf"


def check_choice(logits: Float[Tensor, "b v"], rows: Sequence[int], step: int) -> None:
    """Refuse logits of a model among which there is no likeliest token.

    Args:
        logits: Of the next token of some rows.
        rows: Their numbers.
        step: Which new token it is to be, from 1.

    Example:
        >>> check_choice(torch.tensor([[0.0, 1.0], [math.nan, 0.0]]), [3, 7], 2)
        Traceback (most recent call last):
        FloatingPointError: the model's logits must hold a finite one and neither NaN nor +inf, ...
    """
    if (fault := fault_of_logits(logits)) is not None:
        row, holds = fault
        raise FloatingPointError(
            "the model's logits must hold a finite one and neither NaN nor +inf, got "
            f"{holds} in row {rows[row]} at step {step}"
        )


def _require_logits(logits: Any) -> None:
    check_floating("logits", logits)
    if logits.ndim < 1:
        raise ValueError(f"logits must have a last axis v, got shape {tuple(logits.shape)}")
    if (fault := fault_of_logits(logits)) is not None:
        row, holds = fault
        raise ValueError(
            "every row of logits must hold a finite one and neither NaN nor +inf, "
            f"got {holds} in row {row}"
        )


def _require_distributions(probabilities: Tensor, sums: Tensor) -> None:
    least = probabilities.amin(-1)
    fit = (least >= 0) & (sums > 0) & (sums < math.inf)
    if not fit.all():
        row = int((~fit).flatten().nonzero()[0])
        raise ValueError(
            "probabilities must be at least 0 and have a positive and finite sum in every row, got "
            f"at least {least.flatten()[row].item()} and a sum of {sums.flatten()[row].item()} in "
            f"row {row}"
        )


def _largest_first(logits: Tensor) -> Tensor:
    return logits.sort(dim=-1, descending=True, stable=True).indices


def _temperature(x: Any) -> float:
    temperature = number("temperature", x)
    if temperature <= 0:
        raise ValueError(
            f"temperature must be above 0, got {x}; for the likeliest token take GREEDY"
        )
    return temperature


def _mass(x: Any) -> float:
    mass = number("top_p", x)
    if not 0 < mass <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, got {x}")
    return mass


def _share(x: Any) -> float:
    share = number("min_p", x)
    if not 0 <= share <= 1:
        raise ValueError(f"min_p must be from 0 to 1, got {x}")
    return share


GREEDY = Sampler(top_k=1)
"""Always the largest logit; of equal ones that with the lowest id."""
