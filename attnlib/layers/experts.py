r"""A mixture of experts: many feed-forward networks, of which each token uses a few.

Source   Dai et al. 2024, arXiv:2401.06066, section 3 (shared and routed experts); DeepSeek-AI 2024,
         arXiv:2405.04434, sections 2.2.1 to 2.2.3 (devices, balance); Fedus et al. 2021,
         arXiv:2101.03961, section 2.2 (the loss that balances)
Chapter  chapters/models-compared.md
Axes     attnlib/axes.py

A token's result does not depend on the other tokens: no expert is ever full, and none is chosen by
what the others need. So a mixture of experts may be cached, and its rows may be batched at will.
(While DeepSeek-V2 was trained, devices with too many tokens dropped some: section 2.2.4.)

    >>> scores = torch.tensor([[5.0, 1.0, 4.0, 3.0]])
    >>> choose_experts(scores, 2)
    tensor([[0, 2]])
    >>> choose_experts(scores, 2, n_devices=2, n_devices_at_most=1)
    tensor([[0, 1]])
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib import require
from attnlib.attention import without_autocast
from attnlib.layers.feed_forward import FeedForward
from attnlib.layers.inputs import check_states
from attnlib.sizes import ExpertSizes
from attnlib.sizes.model import require_devices
from attnlib.softmax import computing_dtype, softmax
from attnlib.tensor_checks import check_floating, kind_of

__all__ = ["MixtureOfExperts", "Routing", "balance_loss", "choose_experts", "expert_load"]


class Routing(NamedTuple):
    """Which experts each token uses, and how much of each.

    Attributes:
        scores: Softmax over all routed experts, along the last axis, in at least fp32.
        chosen: The numbers of the chosen experts, the one with the largest score first.
        gates: What the results of these are multiplied by.
    """

    scores: Float[Tensor, "..."]
    chosen: Int[Tensor, "..."]
    gates: Float[Tensor, "..."]


class MixtureOfExperts(nn.Module):
    r"""Send each vector through the experts that its scores choose, and through all shared ones.

    $$y = \sum_{j} S_j(x) + \lambda \sum_{i \in C(x)} p_i\, E_i(x), \qquad
    p = \operatorname{softmax}(R x)$$

    where C(x) are the experts of the `n_chosen` largest scores. If experts stand on several devices
    and a token may use only some of them, those with the largest scores on them are taken, and the
    experts from among theirs. $R$ is `router`, the $S_j$ are `shared`, the $E_i$ are `routed`, all
    of them `FeedForward`; $\lambda$ is the `gate_factor`.

    The gates $p_i$ are not divided by their sum, as in DeepSeek-V2. With one routed expert p is 1,
    and the mixture is a sum of ordinary networks, one of them times λ.

    Scores are formed in at least fp32, under autocast too. The choice has no derivative; the gates
    have theirs, through all scores. The router begins with independent entries from N(0, 1/m).

    Args:
        width: m, of x and of what comes out.
        sizes: How many experts there are, and which a token uses.
        activation: Of each expert, as in `FeedForward`.
        gated: Of each expert, as in `FeedForward`.
        biases: Of each expert, as in `FeedForward`. The router has none.

    Raises:
        TypeError: If the width is not a whole number, or the sizes are no `ExpertSizes`.
        ValueError: If the width is below 1, the activation unknown, or the gate of the sizes not
            "softmax".

    Example:
        >>> sizes = ExpertSizes(n_routed=4, n_chosen=2, n_shared=1, inner_width=5)
        >>> layer = MixtureOfExperts(3, sizes, activation="silu", gated=True)
        >>> layer(torch.zeros(2, 7, 3)).shape, layer.route(torch.zeros(2, 7, 3)).chosen.shape
        (torch.Size([2, 7, 3]), torch.Size([2, 7, 2]))
    """

    def __init__(
        self,
        width: int,
        sizes: ExpertSizes,
        *,
        activation: str,
        gated: bool = False,
        biases: bool = False,
    ) -> None:
        width = require.at_least("width (m)", width, 1)
        if not isinstance(sizes, ExpertSizes):
            raise TypeError(f"sizes must be ExpertSizes, got {type(sizes).__name__}")
        if sizes.gate != "softmax":
            raise ValueError(
                "a mixture of experts has the gates of DeepSeek-V2, gate='softmax', got "
                f"gate={sizes.gate!r}"
            )
        super().__init__()
        self.width, self.sizes = width, sizes

        def networks(count: int) -> nn.ModuleList:
            return nn.ModuleList(
                FeedForward(
                    width, sizes.inner_width, activation=activation, gated=gated, biases=biases
                )
                for _ in range(count)
            )

        self.router = nn.Linear(width, sizes.n_routed, bias=False)
        self.shared, self.routed = networks(sizes.n_shared), networks(sizes.n_routed)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the router from N(0, 1/m) anew, and all experts as `FeedForward` does."""
        nn.init.normal_(self.router.weight, std=self.width**-0.5)
        for network in (*self.shared, *self.routed):
            network.reset_parameters()

    def route(self, x: Float[Tensor, "... m"]) -> Routing:
        """Choose the experts of each vector.

        Args:
            x: Vectors, along the last axis.

        Raises:
            TypeError: If x is not floating point of the weights' dtype.
            ValueError: If its last axis does not have the width m, or the device does not fit.
        """
        check_states("x", x, None, self.width, self.router.weight)
        sizes, dtype = self.sizes, computing_dtype(x.dtype)
        with without_autocast(x.device):
            logits = F.linear(x.to(dtype), self.router.weight.to(dtype))
        scores = softmax(logits)
        # by the logits, which still differ where two scores are rounded to one number
        chosen = choose_experts(
            logits,
            sizes.n_chosen,
            n_devices=sizes.n_devices,
            n_devices_at_most=sizes.n_devices_at_most,
        )
        return Routing(scores, chosen, sizes.gate_factor * scores.gather(-1, chosen))

    def forward(self, x: Float[Tensor, "... m"]) -> Float[Tensor, "... m"]:
        """Work on each vector by itself.

        Args:
            x: Vectors, along the last axis.

        Raises:
            TypeError: If x is not floating point of the weights' dtype.
            ValueError: If its last axis does not have the width m, or the device does not fit.
        """
        check_states("x", x, None, self.width, self.router.weight)
        rows = x.reshape(-1, self.width)
        _, chosen, gates = self.route(rows)
        y = sum((network(rows) for network in self.shared), torch.zeros_like(rows))
        for i in chosen.unique().tolist():
            row, place = torch.where(chosen == i)
            added = gates[row, place, None] * self.routed[i](rows[row])
            y = y.index_add(0, row, added.to(y.dtype))
        return y.view(x.shape)


def choose_experts(
    scores: Float[Tensor, "..."],
    n_chosen: int,
    *,
    n_devices: int = 1,
    n_devices_at_most: int | None = None,
) -> Int[Tensor, "..."]:
    """Give the numbers of the experts with the largest scores, the largest first.

    Experts stand on devices in runs of neighbours, equally many on each. First devices are chosen,
    by the largest score on each, then experts among theirs. Of equal scores the one with the lower
    number is taken first, so that the choice is always the same.

    Args:
        scores: One for each routed expert, along the last axis; what keeps their order, such as
            their logarithms, gives the same choice.
        n_chosen: How many experts each token uses.
        n_devices: How many devices there are; must divide the number of experts.
        n_devices_at_most: From how many of them the experts of one token come at most; None means
            that any will do.

    Raises:
        TypeError: If the scores are not floating point or a number is not whole.
        ValueError: If there is no axis, or the numbers do not fit to each other, as in
            `ExpertSizes`.

    Example:
        >>> choose_experts(torch.tensor([0.25, 0.25, 0.5]), 2)
        tensor([2, 0])
    """
    n_routed = _n_routed(scores)
    n_chosen = require.between("n_chosen", n_chosen, 1, n_routed)
    n_devices = require.at_least("n_devices", n_devices, 1)
    if n_devices_at_most is None:
        n_devices_at_most = n_devices
    n_devices_at_most = require.at_least("n_devices_at_most", n_devices_at_most, 1)
    require_devices(n_routed, n_chosen, n_devices, n_devices_at_most)

    by_device = rearrange(scores, "... (device expert) -> ... device expert", device=n_devices)
    devices = _largest(by_device.amax(-1), n_devices_at_most).sort(-1).values
    on_device = torch.arange(n_routed // n_devices, device=scores.device)
    numbers = (devices[..., None] * len(on_device) + on_device).flatten(-2)
    return numbers.gather(-1, _largest(scores.gather(-1, numbers), n_chosen))


def expert_load(chosen: Int[Tensor, "..."], n_routed: int) -> Float[Tensor, "..."]:
    r"""Give the load of each expert, in even shares: 1 each if all are chosen equally often.

    $$f_i = \frac{x}{x_c\, n} \sum_t [i \in C_t]$$

    for n tokens with $x_c$ chosen experts each, out of x. The loads always sum to x.

    Args:
        chosen: Numbers of experts, those of one token along the last axis.
        n_routed: x.

    Raises:
        TypeError: If the numbers are not int64, or x is not whole.
        ValueError: If there are none, one is outside its range, or x is below 1.

    Example:
        >>> expert_load(torch.tensor([[0, 1], [0, 2]]), 4)
        tensor([2., 1., 1., 0.])
    """
    n_routed = require.at_least("n_routed", n_routed, 1)
    _require_chosen(chosen, n_routed)
    return _load(chosen, n_routed, torch.get_default_dtype())


def balance_loss(
    scores: Float[Tensor, "..."], chosen: Int[Tensor, "..."], factor: float = 1.0
) -> Float[Tensor, ""]:
    r"""Give what is added to the loss of training so that experts are used evenly.

    $$\alpha \sum_i f_i P_i, \qquad P_i = \frac1n \sum_t p_{t,i}$$

    with the loads $f_i$ of `expert_load`, which have no derivative, over all tokens that are given;
    DeepSeek-V2 takes those of one text at a time. The derivative by $P_i$ is
    $\alpha f_i$: the scores of an expert are pressed down as it is loaded. Where all loads are 1
    nothing is pressed, since every token's scores sum to 1; the value is then $\alpha$, whatever
    the scores. It is $\alpha$ also where all mean scores are equal, whatever the loads.

    This is no minimum. If the experts with more load have the larger mean scores, the value is at
    least $\alpha$ (Chebyshev's sum inequality); so it is for a single token that may use any
    device. But an expert may win many tokens narrowly and lose the others widely: then more load
    goes with a smaller mean score, and the value is below $\alpha$.

    Args:
        scores: p, along the last axis one for each routed expert, each token's summing to one.
        chosen: The experts that each token uses. Both without padding, which would count.
        factor: α.

    Raises:
        TypeError: If the scores are not floating point, the choice not int64, or α no number.
        ValueError: If they are not of the same tokens, there is no token, a number of an expert is
            outside its range, or α is not above 0.

    Example:
        >>> scores = torch.tensor([[0.6, 0.4], [0.6, 0.4], [0.0, 1.0]])
        >>> balance_loss(scores, choose_experts(scores, 1))
        tensor(0.9333)
    """
    n_routed = _n_routed(scores)
    factor = require.positive("factor", factor)
    _require_chosen(chosen, n_routed)
    if scores.shape[:-1] != chosen.shape[:-1]:
        raise ValueError(
            "scores and chosen must be of the same tokens, all axes but the last, got scores "
            f"{tuple(scores.shape)} and chosen {tuple(chosen.shape)}"
        )
    dtype = computing_dtype(scores.dtype)
    mean = scores.to(dtype).reshape(-1, n_routed).mean(0)
    return factor * (_load(chosen, n_routed, dtype) * mean).sum()


def _load(chosen: Tensor, n_routed: int, dtype: torch.dtype) -> Tensor:
    counts = chosen.flatten().bincount(minlength=n_routed)
    return counts.to(dtype) * n_routed / chosen.numel()


def _largest(x: Tensor, count: int) -> Tensor:
    """Where the largest numbers stand, of equal ones the first: topk promises no order of these."""
    return x.argsort(dim=-1, descending=True, stable=True)[..., :count]


def _n_routed(scores: Tensor) -> int:
    check_floating("scores", scores)
    if scores.ndim == 0 or scores.shape[-1] == 0:
        raise ValueError(
            "scores must have one for each routed expert along the last axis, got shape "
            f"{tuple(scores.shape)}"
        )
    return scores.shape[-1]


def _require_chosen(chosen: Tensor, n_routed: int) -> None:
    if not isinstance(chosen, Tensor) or chosen.dtype != torch.int64:
        raise TypeError(f"chosen must be a tensor of int64, got {kind_of(chosen)}")
    if chosen.ndim == 0 or chosen.numel() == 0:
        raise ValueError(
            "chosen must have the experts of at least one token along its last axis, got shape "
            f"{tuple(chosen.shape)}"
        )
    least, most = int(chosen.min()), int(chosen.max())
    if not 0 <= least <= most < n_routed:
        raise ValueError(
            f"chosen must be from 0 to n_routed − 1 = {n_routed - 1}, got {least} to {most}"
        )
