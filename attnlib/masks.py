r"""Masks say which sources a target may read: True = may be read.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3 (causal); Beltagy et al. 2020,
         arXiv:2004.05150, section 3.1 (window); Raffel et al. 2020, arXiv:1910.10683,
         section 3.2.1 (prefix); this book (blocks, documents, composition)
Chapter  chapters/masking.md
Axes     attnlib/axes.py

A mask is a boolean tensor that broadcasts to (b, h, t, s), so masks are sets of pairs
(target, source) and their algebra is that of sets: `&` intersects, `|` unites, `~` complements.
Targets are the last positions of the sources (bottom-right alignment): the last target reads every
source that is not ruled out otherwise. A target with nothing to read gets zeros from attention.

    >>> causal = causal_mask(3)
    >>> is_token = torch.tensor([[True, True, True], [False, True, True]])
    >>> both = causal & padding_mask(is_token)
    >>> tuple(both.shape)
    (2, 1, 3, 3)
    >>> both[1, 0].int()
    tensor([[0, 0, 0],
            [0, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    >>> torch.equal(causal_mask(5, window=2), causal_mask(5) & window_mask(5, window=2))
    True

As sets of pairs they are also relations, and those of two layers, one after the other, compose:

    >>> two_layers = compose_masks(causal_mask(5, window=2), causal_mask(5, window=2))
    >>> torch.equal(two_layers, causal_mask(5, window=3))
    True
"""

from itertools import zip_longest

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from attnlib import require
from attnlib.tensor_checks import SIGNED, check_axes, check_boolean, check_is_token, kind_of

Device = torch.device | str | None


def causal_mask(
    n_targets: int,
    n_sources: int | None = None,
    *,
    window: int | None = None,
    device: Device = None,
) -> Bool[Tensor, "t s"]:
    r"""Let each target read itself and what stands before it.

    Target t stands at position $\bar t = t + n_s - n_t$ and reads the sources with

    $$s \le \bar t \qquad\text{and, with a window of } W, \qquad \bar t - s < W.$$

    With as many targets as sources this is the lower triangle. A window of W means W sources, the
    target itself included; W = 1 leaves the target alone, W ≥ n_sources changes nothing.

    Args:
        n_targets: How many positions ask.
        n_sources: How many positions can be read; None means as many as targets. With fewer
            sources than targets the first targets have nothing to read.
        window: How many sources a target reads at most, itself included; None means all.
        device: Where the mask is made.

    Returns:
        True where target t may read source s.

    Raises:
        TypeError: If a size is not an integer.
        ValueError: If a count is negative or the window is less than 1.

    Example:
        >>> causal_mask(2, 5).int()
        tensor([[1, 1, 1, 1, 0],
                [1, 1, 1, 1, 1]], dtype=torch.int32)
        >>> causal_mask(2, 5, window=3).int()
        tensor([[0, 1, 1, 1, 0],
                [0, 0, 1, 1, 1]], dtype=torch.int32)
    """
    n_targets, n_sources = _require_counts(n_targets, n_sources)
    if window is not None:
        window = _require_window(window)
    behind_ts = steps_behind(n_targets, n_sources, device)
    if window is None:
        return behind_ts >= 0
    window = min(window, n_sources)  # torch does not take integers of every size
    return (behind_ts >= 0) & (behind_ts < window)


def window_mask(
    n_targets: int, n_sources: int | None = None, *, window: int, device: Device = None
) -> Bool[Tensor, "t s"]:
    r"""Let each target read the sources near it, on both sides.

    $$|\bar t - s| < W, \qquad \bar t = t + n_s - n_t$$

    The target reads itself and up to W − 1 sources on each side, so that the intersection with
    the causal mask is the causal window of W sources: `causal_mask(n, window=W)`.

    Args:
        n_targets: How many positions ask.
        n_sources: How many positions can be read; None means as many as targets.
        window: How many sources a target reads on each side at most, itself included.
        device: Where the mask is made.

    Returns:
        True where target t may read source s.

    Raises:
        TypeError: If a size is not an integer.
        ValueError: If a count is negative or the window is less than 1.

    Example:
        >>> window_mask(4, window=2).int()
        tensor([[1, 1, 0, 0],
                [1, 1, 1, 0],
                [0, 1, 1, 1],
                [0, 0, 1, 1]], dtype=torch.int32)
    """
    n_targets, n_sources = _require_counts(n_targets, n_sources)
    window = _require_window(window)
    window = min(window, max(n_targets, n_sources))  # no step is as long
    return steps_behind(n_targets, n_sources, device).abs() < window


def prefix_mask(
    n_targets: int, n_sources: int | None = None, *, n_prefix: int, device: Device = None
) -> Bool[Tensor, "t s"]:
    r"""Let every target read the whole prefix, and read causally after it.

    $$s \le \bar t \qquad\text{or}\qquad s < n_\text{prefix}, \qquad \bar t = t + n_s - n_t$$

    An empty prefix is the causal mask; a prefix of all sources lets everything be read.

    Args:
        n_targets: How many positions ask.
        n_sources: How many positions can be read; None means as many as targets.
        n_prefix: How many of the first sources every target may read.
        device: Where the mask is made.

    Returns:
        True where target t may read source s.

    Raises:
        TypeError: If a size is not an integer.
        ValueError: If a count is negative or the prefix is longer than the sources.

    Example:
        >>> prefix_mask(4, n_prefix=2).int()
        tensor([[1, 1, 0, 0],
                [1, 1, 0, 0],
                [1, 1, 1, 0],
                [1, 1, 1, 1]], dtype=torch.int32)
    """
    n_targets, n_sources = _require_counts(n_targets, n_sources)
    n_prefix = require.at_least("n_prefix", n_prefix, 0)
    if n_prefix > n_sources:
        raise ValueError(
            f"the prefix must lie within the sources, got n_prefix={n_prefix} and "
            f"n_sources={n_sources}"
        )
    behind_ts = steps_behind(n_targets, n_sources, device)
    in_prefix_s = torch.arange(n_sources, device=device) < n_prefix
    return (behind_ts >= 0) | in_prefix_s


def padding_mask(is_token: Bool[Tensor, "b s"]) -> Bool[Tensor, "b 1 1 s"]:
    r"""Let the sources that are tokens be read, and no padding, left or right.

    $$\mathrm{may\_attend}_{bhts} = \mathrm{is\_token}_{bs}$$

    Padding is a property of sources, so it stands on the source axis; the targets at padded
    positions still compute something, and whoever uses the outputs leaves those out.

    Args:
        is_token: True where the row holds a token, False where it is filled up; for a tokenizer
            that pads with `pad_id`, write `padding_mask(tokens != pad_id)` (0 is a fine id).

    Returns:
        The same truth values, ready to be combined with a (t, s) mask.

    Raises:
        TypeError: If `is_token` is not boolean.
        ValueError: If `is_token` does not have the two axes (b, s).

    Example:
        >>> tokens, pad_id = torch.tensor([[7, 3, 0], [5, 0, 0]]), 0
        >>> padding_mask(tokens != pad_id)[:, 0, 0].int()
        tensor([[1, 1, 0],
                [1, 0, 0]], dtype=torch.int32)
    """
    check_is_token(is_token)
    return is_token[:, None, None, :]


def block_mask(
    n_targets: int, n_sources: int | None = None, *, block: int, device: Device = None
) -> Bool[Tensor, "t s"]:
    r"""Let each target read its own block of positions.

    $$\Bigl\lfloor \frac{s}{B} \Bigr\rfloor = \Bigl\lfloor \frac{\bar t}{B} \Bigr\rfloor,
    \qquad \bar t = t + n_s - n_t$$

    Blocks are counted from the first source, so the last one may be shorter. B = 1 leaves each
    target alone, B ≥ n_sources lets everything be read. `causal_mask(n) | block_mask(n, block=B)`
    reads the own block and all that come before it.

    Args:
        n_targets: How many positions ask.
        n_sources: How many positions can be read; None means as many as targets. With fewer
            sources than targets the first targets have nothing to read.
        block: How many positions a block holds.
        device: Where the mask is made.

    Returns:
        True where target t and source s stand in the same block.

    Raises:
        TypeError: If a size is not an integer.
        ValueError: If a count is negative or the block is less than 1.

    Example:
        >>> block_mask(3, 5, block=2).int()
        tensor([[0, 0, 1, 1, 0],
                [0, 0, 1, 1, 0],
                [0, 0, 0, 0, 1]], dtype=torch.int32)
    """
    n_targets, n_sources = _require_counts(n_targets, n_sources)
    block = require.at_least("block", block, 1)
    block = min(block, max(n_sources, 1))  # torch does not take integers of every size
    block_t = _positions(n_targets, n_sources, device) // block
    block_s = torch.arange(n_sources, device=device) // block
    return block_t[:, None] == block_s


def document_mask(document: Integer[Tensor, "b s"]) -> Bool[Tensor, "b 1 s s"]:
    r"""Let each token read those of its own document, where several are packed into one row.

    $$\mathrm{may\_attend}_{bhts} = (\mathrm{document}_{bt} = \mathrm{document}_{bs})$$

    Every position of the row is a target and a source. The mask is not causal by itself: write
    `document_mask(document) & causal_mask(document.shape[1])`.

    Args:
        document: The number of the document that each token belongs to. Any integers do, 0 and
            negative ones too, and a document may return after another one.

    Returns:
        True where target t and source s belong to the same document.

    Raises:
        TypeError: If `document` is not a tensor of integers.
        ValueError: If `document` does not have the two axes (b, s).

    Example:
        >>> document_mask(torch.tensor([[0, 0, 1, 1, 0]]))[0, 0].int()
        tensor([[1, 1, 0, 0, 1],
                [1, 1, 0, 0, 1],
                [0, 0, 1, 1, 0],
                [0, 0, 1, 1, 0],
                [1, 1, 0, 0, 1]], dtype=torch.int32)
    """
    _require_document(document)
    return document[:, None, :, None] == document[:, None, None, :]


def compose_masks(
    later: Bool[Tensor, "... t r"], earlier: Bool[Tensor, "... r s"]
) -> Bool[Tensor, "... t s"]:
    r"""Say which sources a target of the later layer reaches through one position in between.

    $$(\mathrm{later} \circ \mathrm{earlier})_{ts} = \bigvee_r \mathrm{later}_{tr} \wedge
    \mathrm{earlier}_{rs}$$

    Here r numbers the positions in between: sources of the later layer, targets of the earlier one.
    It is the product of matrices with "or" for the sum and "and" for the product, so it is
    associative. L layers with a causal window of W compose to a causal window of L(W − 1) + 1.

    Args:
        later: True where target t of the later layer may read position r.
        earlier: True where position r, as a target of the earlier layer, may read source s. The
            axes before the last two broadcast.

    Returns:
        True where target t is reached by source s. A target with nothing to read in the later
        layer reaches nothing.

    Raises:
        TypeError: If a mask is not a boolean tensor.
        ValueError: If a mask has fewer than two axes, the positions in between are not equally
            many, the axes before them do not broadcast, or the devices differ.

    Example:
        >>> compose_masks(causal_mask(2, 5, window=2), causal_mask(5, window=3)).int()
        tensor([[1, 1, 1, 1, 0],
                [0, 1, 1, 1, 1]], dtype=torch.int32)
    """
    _require_to_compose(later, earlier)
    # a sum of zeros and ones is above 0 however it is rounded
    n_ways = torch.einsum("...tr,...rs->...ts", later.float(), earlier.float())
    return n_ways > 0


def steps_behind(n_targets: int, n_sources: int, device: Device) -> Tensor:
    """Count how many steps each source lies behind each target; negative in its future.

    Example:
        >>> steps_behind(2, 3, "cpu")
        tensor([[ 1,  0, -1],
                [ 2,  1,  0]])
    """
    position_t = _positions(n_targets, n_sources, device)
    return position_t[:, None] - torch.arange(n_sources, device=device)


def _positions(n_targets: int, n_sources: int, device: Device) -> Tensor:
    """Where each target stands among the sources: the last one at the last of them."""
    return torch.arange(n_targets, device=device) + n_sources - n_targets


def _require_counts(n_targets: int, n_sources: int | None) -> tuple[int, int]:
    """Give both numbers; that of sources is that of targets where it is not given."""
    n_targets = require.at_least("n_targets", n_targets, 0)
    return n_targets, (
        n_targets if n_sources is None else require.at_least("n_sources", n_sources, 0)
    )


def _require_window(window: int) -> int:
    window = require.integer("window", window)
    if window < 1:
        raise ValueError(
            f"a window counts the target itself, so it must be at least 1, got window={window}"
        )
    return window


def _require_document(document: Tensor) -> None:
    if not isinstance(document, Tensor) or document.dtype not in (*SIGNED, torch.uint8):
        raise TypeError(
            "document must be a tensor of integers, one number for each document, got "
            f"{kind_of(document)}"
        )
    check_axes("document", document, "b s")


def _require_to_compose(later: Tensor, earlier: Tensor) -> None:
    for name, mask, axes in (("later", later, "(…, t, r)"), ("earlier", earlier, "(…, r, s)")):
        check_boolean(name, mask, "may be read")
        if mask.ndim < 2:
            raise ValueError(f"{name} must have axes {axes}, got shape {tuple(mask.shape)}")
    if later.device != earlier.device:
        raise ValueError(
            f"later and earlier must be on the same device, got {later.device} and {earlier.device}"
        )
    if later.shape[-1] != earlier.shape[-2]:
        raise ValueError(
            "what the later layer reads are the targets of the earlier one, got "
            f"r={later.shape[-1]} in later and r={earlier.shape[-2]} in earlier"
        )
    leads = later.shape[:-2], earlier.shape[:-2]
    sizes = zip_longest(*(reversed(lead) for lead in leads), fillvalue=1)
    if any(a != b and 1 not in (a, b) for a, b in sizes):
        raise ValueError(
            f"the axes before (t, r) and (r, s) must broadcast, got {tuple(leads[0])} in later and "
            f"{tuple(leads[1])} in earlier"
        )
