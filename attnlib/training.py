r"""Training: the loss, the rate of learning step by step, and the loop that follows it.

Source   Vaswani et al. 2017, arXiv:1706.03762, sections 5.3 (rate) and 5.4 (smoothing); Loshchilov
         and Hutter 2019, arXiv:1711.05101 (AdamW), and 2017, arXiv:1608.03983 (cosine); Pascanu et
         al. 2013, arXiv:1211.5063, section 3.2 (clipping)
Chapter  chapters/encoder-decoder.md
Axes     attnlib/axes.py

A model that is taught reads the true tokens up to a place and is asked for the next one, at all
places at once:

    >>> inputs, targets = shifted(torch.tensor([[5, 7, 2, 9]]))
    >>> inputs, targets
    (tensor([[5, 7, 2]]), tensor([[7, 2, 9]]))
    >>> undecided = torch.zeros(1, 3, 10)
    >>> cross_entropy(undecided, targets)  # log 10
    tensor(2.3026)
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.progress import progress_bar
from attnlib.require import at_least, between, number, positive
from attnlib.tensor_checks import SIGNED, check_boolean, check_floating, kind_of
from attnlib.token_rows import in_mode

__all__ = [
    "TrainingRecord",
    "cross_entropy",
    "inverse_root_rate",
    "learning_rate",
    "shifted",
    "train",
]

_LARGEST_SEED = (1 << 64) - 1


def shifted(
    tokens: Int[Tensor, "b t"],
) -> tuple[Int[Tensor, "b t-1"], Int[Tensor, "b t-1"]]:
    """Part rows of tokens into what the model reads and what it should say after each.

    Target i is the token that follows input i: input 0, …, t − 2 and target 1, …, t − 1.

    Args:
        tokens: Rows of at least 2 tokens; the first is never a target.

    Returns:
        Inputs and targets, both one shorter than the rows.

    Raises:
        TypeError: If the tokens are no tensor of signed integers.
        ValueError: If there are not two axes or a row is too short.

    Example:
        >>> inputs, targets = shifted(torch.arange(8).view(2, 4))
        >>> targets - inputs
        tensor([[1, 1, 1],
                [1, 1, 1]])
    """
    _check_whole("tokens", tokens)
    if tokens.ndim != 2 or tokens.shape[1] < 2:
        raise ValueError(
            f"tokens must have axes (b, t) with t at least 2, got shape {tuple(tokens.shape)}"
        )
    return tokens[:, :-1], tokens[:, 1:]


def cross_entropy(
    logits: Float[Tensor, "*places v"],
    targets: Int[Tensor, "*places"],
    *,
    is_target: Bool[Tensor, "*places"] | None = None,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    r"""Average, over the targets, minus the logarithm of what the model gives them.

    $$\ell = \frac1n \sum_{i} \Bigl(-(1 - \varepsilon) \log p_i(y_i)
    - \frac{\varepsilon}{v} \sum_{w} \log p_i(w)\Bigr), \qquad p_i = \operatorname{softmax}(z_i)$$

    With $\varepsilon = 0$ this is the negative log-likelihood a token. A model that knows nothing
    has $\log v$. Smoothing gives every token, the target too, an equal share of $\varepsilon$; the
    loss is then above 0 even for the best model.

    Args:
        logits: One for each token of the vocabulary.
        targets: From 0 to v − 1 wherever one counts.
        is_target: False at places that do not count, padding mostly; whatever stands there, NaN
            included, has no influence. None counts all.
        smoothing: ε, at least 0 and below 1.

    Returns:
        The mean in nats, in at least fp32.

    Raises:
        TypeError: If the logits are not floating point, the targets no whole numbers or `is_target`
            is not boolean.
        ValueError: If shapes differ, nothing counts (the mean of nothing is no number), a target
            is outside the vocabulary, or a token is to get a share by smoothing that its logit of
            −∞ forbids.

    Example:
        >>> logits = torch.tensor([[0.0, 0.0], [7.0, 9.0]])
        >>> is_target = torch.tensor([True, False])
        >>> cross_entropy(logits, torch.tensor([1, 0]), is_target=is_target)  # log 2
        tensor(0.6931)
    """
    smoothing = _share("smoothing", smoothing)
    check_floating("logits", logits)
    _check_whole("targets", targets)
    if logits.ndim < 1 or targets.shape != logits.shape[:-1]:
        raise ValueError(
            "targets must have the shape of logits without their last axis v, got shapes "
            f"{tuple(targets.shape)} and {tuple(logits.shape)}"
        )
    if is_target is not None:
        check_boolean("is_target", is_target, "counts", "; for tokens write targets != pad_id")
        if is_target.shape != targets.shape:
            raise ValueError(
                "is_target must have the shape of targets, got shapes "
                f"{tuple(is_target.shape)} and {tuple(targets.shape)}"
            )
        logits, targets = logits[is_target], targets[is_target]
    if targets.numel() == 0:
        raise ValueError("a mean needs at least 1 target that counts, got 0")
    v = logits.shape[-1]
    lowest, highest = targets.min().item(), targets.max().item()
    if lowest < 0 or highest >= v:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(f"targets must be from 0 to v - 1 = {v - 1}, got {wrong}")

    logits_nv = logits.reshape(-1, v).to(torch.promote_types(logits.dtype, torch.float32))
    if smoothing and (logits_nv == -math.inf).any():
        raise ValueError(
            f"smoothing={smoothing} gives every token a share, so no logit may be -inf; leave the "
            "smoothing out or the tokens in"
        )
    return F.cross_entropy(logits_nv, targets.reshape(-1).long(), label_smoothing=smoothing)


def learning_rate(
    step: int, *, peak: float, n_warm_up: int, n_steps: int, floor: float = 0.1
) -> float:
    r"""Give the rate of a step: a straight line up to the peak, then half a cosine down.

    $$\eta_i = \eta \cdot \frac{i}{w} \quad (i \le w), \qquad
    \eta_i = \eta \Bigl(f + (1 - f) \cdot \tfrac12 \bigl(1 + \cos \pi \tfrac{i - w}{n - w}\bigr)
    \Bigr) \quad (w < i \le n)$$

    Steps count from 1, so that the first one moves already; the last has the rate $f \eta$, or
    $\eta$ where all of it is warm-up.

    Args:
        step: i, from 1 to `n_steps`.
        peak: η, the rate of step `n_warm_up`.
        n_warm_up: w; 0 begins one step down the cosine.
        n_steps: n, of the whole training.
        floor: f, the share of the peak that is left at the end, from 0 to 1.

    Raises:
        TypeError: If a count is not a whole number or a rate no number.
        ValueError: If a value is outside its range, or the warm-up is longer than the training.

    Example:
        >>> plan = dict(peak=4e-3, n_warm_up=4, n_steps=10, floor=0.5)
        >>> [round(learning_rate(i, **plan), 6) for i in (1, 4, 7, 10)]
        [0.001, 0.004, 0.003, 0.002]
    """
    n_steps = at_least("n_steps", n_steps, 1)
    n_warm_up = between("n_warm_up", n_warm_up, 0, n_steps)
    step = between("step", step, 1, n_steps)
    peak = positive("peak", peak)
    floor = _between_0_and_1("floor", floor)
    if step <= n_warm_up:
        return peak * step / n_warm_up
    gone = (step - n_warm_up) / (n_steps - n_warm_up)
    return peak * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * gone)))


def inverse_root_rate(step: int, *, width: int, n_warm_up: int) -> float:
    r"""Give the rate of a step as the first Transformer had it, in its equation 3.

    $$\eta_i = m^{-1/2} \min\bigl(i^{-1/2},\, i\, w^{-3/2}\bigr)$$

    Both terms are $w^{-1/2}$ at step w, where the rate is largest: $(m w)^{-1/2}$.

    Args:
        step: i, from 1.
        width: m, of the residual stream.
        n_warm_up: w, from 1.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If a number is below 1.

    Example:
        >>> round(inverse_root_rate(4000, width=512, n_warm_up=4000), 7)
        0.0006988
    """
    step = at_least("step", step, 1)
    width, n_warm_up = at_least("width", width, 1), at_least("n_warm_up", n_warm_up, 1)
    return width**-0.5 * min(step**-0.5, step * n_warm_up**-1.5)


@dataclass(frozen=True, kw_only=True)
class TrainingRecord:
    """What was measured while a model was trained, one entry a step.

    `dataclasses.asdict` makes of it what JSON can hold.

    Args:
        losses: That of each step's batch, before the step.
        rates: The learning rates.
        gradient_norms: The length of the whole gradient, before it is clipped.
        seconds: What all steps took together.

    Example:
        >>> TrainingRecord(losses=(2.0,), rates=(1e-3,), gradient_norms=(0.5,), seconds=0.1).n_steps
        1
    """

    losses: tuple[float, ...]
    rates: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    seconds: float

    @property
    def n_steps(self) -> int:
        """How many steps were made."""
        return len(self.losses)


def train(
    model: nn.Module,
    loss_of_batch: Callable[[nn.Module, Any], Tensor],
    batches: Iterable[Any],
    *,
    n_steps: int,
    peak_rate: float,
    n_warm_up: int,
    floor: float = 0.1,
    weight_decay: float = 0.1,
    betas: tuple[float, float] = (0.9, 0.95),
    clip: float | None = 1.0,
    seed: int | None = None,
    on_step: Callable[[int, float], object] | None = None,
    progress: bool | None = None,
) -> TrainingRecord:
    r"""Train a model in place by AdamW, one batch a step.

    Each step takes the gradient of the batch's loss, shortens it to the length `clip` if it is
    longer, all parameters together, and moves the model at the rate of `learning_rate`. Matrices
    and embeddings decay towards zero, by `weight_decay` times the rate; vectors (biases and the
    weights of norms) do not. A matrix that is used twice moves once.

    The same model, batches and seed give exactly the same losses on the same machine. The model
    is in training mode meanwhile and gets its mode back at the end, however that comes; it keeps
    no gradient.

    Args:
        model: Its parameters with `requires_grad` are trained.
        loss_of_batch: Takes the model and a batch, gives a scalar.
        batches: At least `n_steps` of them; it is not begun again when it ends.
        n_steps: How many steps.
        peak_rate: The largest rate.
        n_warm_up: How many steps the rate rises.
        floor: The share of the peak rate that is left at the end.
        weight_decay: At least 0.
        betas: How much of the two running means of AdamW is kept at each step.
        clip: The largest length of the gradient, or None to leave it.
        seed: For dropout, and for batches that torch draws while they are asked for, from 0 and
            below 2⁶⁴. Its state of chance on the CPU, and on GPUs that hold parameters, is set back
            afterwards. None goes on from that state.
        on_step: Called after each step with its number, from 1, and its loss.
        progress: True shows a bar, False none, None where somebody watches a long training.

    Raises:
        TypeError: If an argument is of another kind than that.
        ValueError: If a number is outside its range, nothing can be trained, a loss is no scalar
            with a gradient, or the batches end too early.
        FloatingPointError: If a loss or a gradient is not finite. The model is then as the last
            good step left it.

    Example:
        >>> model = nn.Linear(1, 1)
        >>> fit = lambda model, x: (model(x) - 3 * x).square().mean()
        >>> record = train(
        ...     model, fit, [torch.ones(2, 1)] * 5, n_steps=5, peak_rate=0.1, n_warm_up=1
        ... )
        >>> record.losses[-1] < record.losses[0]
        True
    """
    n_steps = at_least("n_steps", n_steps, 1)
    rates = tuple(
        learning_rate(i, peak=peak_rate, n_warm_up=n_warm_up, n_steps=n_steps, floor=floor)
        for i in range(1, n_steps + 1)
    )
    clip = None if clip is None else positive("clip", clip)
    optimiser = _adam_w(model, weight_decay, betas)
    parameters = [p for part in optimiser.param_groups for p in part["params"]]
    if not callable(loss_of_batch):
        raise TypeError(f"loss_of_batch must be a function, got {type(loss_of_batch).__name__}")
    if not isinstance(batches, Iterable):
        raise TypeError(f"batches must be iterable, got {type(batches).__name__}")
    chance = (
        nullcontext()
        if seed is None
        else _chance(between("seed", seed, 0, _LARGEST_SEED), parameters)
    )
    if on_step is not None and not callable(on_step):
        raise TypeError(f"on_step must be a function, got {type(on_step).__name__}")

    losses, norms = [], []
    start = time.perf_counter()
    with _training(model), chance, progress_bar(n_steps, "steps", progress) as on_done:
        supply = iter(batches)  # a DataLoader takes from torch's chance here already
        for step, rate in enumerate(rates, start=1):
            batch = _next_batch(supply, step, n_steps)
            loss = loss_of_batch(model, batch)
            _require_loss(loss, step)
            optimiser.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(parameters, math.inf if clip is None else clip)
            _require_finite("the gradient's length", norm.item(), step)
            for part in optimiser.param_groups:
                part["lr"] = rate
            optimiser.step()
            losses.append(loss.item())
            norms.append(norm.item())
            on_done()
            if on_step is not None:
                on_step(step, losses[-1])
    seconds = time.perf_counter() - start
    return TrainingRecord(
        losses=tuple(losses), rates=rates, gradient_norms=tuple(norms), seconds=seconds
    )


def _adam_w(model: nn.Module, decay: float, betas: tuple[float, float]) -> torch.optim.AdamW:
    """An optimiser whose decay acts on matrices only."""
    decay = number("weight_decay", decay)
    if decay < 0:
        raise ValueError(f"weight_decay must be at least 0, got {decay}")
    if not isinstance(betas, tuple) or len(betas) != 2:
        raise TypeError(f"betas must be a pair of numbers, got {betas!r}")
    betas = (_share("the first of betas", betas[0]), _share("the second of betas", betas[1]))
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch module, got {type(model).__name__}")
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError("model must have a parameter with requires_grad, got none")
    matrices = [p for p in parameters if p.ndim >= 2]
    vectors = [p for p in parameters if p.ndim < 2]
    parts = [
        {"params": matrices, "weight_decay": decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([part for part in parts if part["params"]], lr=0.0, betas=betas)


@contextmanager
def _training(model: nn.Module) -> Iterator[None]:
    try:
        with in_mode(model, True):
            yield
    finally:
        model.zero_grad()


@contextmanager
def _chance(seed: int, parameters: list[Tensor]) -> Iterator[None]:
    devices = sorted({p.device.index for p in parameters if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def _next_batch(supply: Iterator[Any], step: int, n_steps: int) -> Any:
    try:
        return next(supply)
    except StopIteration:
        raise ValueError(
            f"batches must give one for each of n_steps={n_steps} steps, got {step - 1}"
        ) from None


def _require_loss(loss: Any, step: int) -> None:
    if not isinstance(loss, Tensor):
        raise TypeError(f"loss_of_batch must give a tensor, got {type(loss).__name__}")
    if loss.ndim != 0 or not loss.requires_grad:
        raise ValueError(
            "loss_of_batch must give a scalar with a gradient, got shape "
            f"{tuple(loss.shape)} and requires_grad={loss.requires_grad}"
        )
    _require_finite("the loss", loss.item(), step)


def _require_finite(name: str, x: float, step: int) -> None:
    if not math.isfinite(x):
        raise FloatingPointError(
            f"{name} must be finite, got {x} at step {step}; a smaller peak_rate or a longer "
            "warm-up may help"
        )


def _check_whole(name: str, x: Any) -> None:
    if not isinstance(x, Tensor) or x.dtype not in SIGNED:
        raise TypeError(f"{name} must be a tensor of signed integers, got {kind_of(x)}")


def _between_0_and_1(name: str, x: Any) -> float:
    x = number(name, x)
    if not 0 <= x <= 1:
        raise ValueError(f"{name} must be from 0 to 1, got {x}")
    return x


def _share(name: str, x: Any) -> float:
    x = number(name, x)
    if not 0 <= x < 1:
        raise ValueError(f"{name} must be at least 0 and below 1, got {x}")
    return x
