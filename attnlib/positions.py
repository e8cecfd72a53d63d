r"""Positions: sinusoids that are added, rotations of queries and keys, biases of the scores.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.5 (sinusoids); Su et al. 2021,
         arXiv:2104.09864, section 3.2 (rotations); Chen et al. 2023, arXiv:2306.15595, section 2.3
         (positions divided by a factor); Peng et al. 2023, arXiv:2309.00071, section 3 (YaRN);
         Press et al. 2022, arXiv:2108.12409, section 3 (ALiBi)
Chapter  chapters/positions.md
Axes     attnlib/axes.py

Everything here turns pairs of coordinates: pair i turns by the angle $p\,\theta_i$ at position p.
Angles, sines and cosines are formed in fp64 and rounded afterwards, since a position of 100,000 in
fp32 is already several thousandths of a radian away from its angle.

A rotation must be told which coordinates make a pair, and nothing here guesses it:

- "half": coordinates i and i + r/2 (Llama and Gemma as Hugging Face stores them);
- "interleaved": neighbours 2i and 2i + 1 (the paper, Meta's code, GPT-J, DeepSeek).

Weights made for the one are wrong for the other; `pairing_permutation` leads across.

    >>> x = torch.tensor([1.0, 0.0, 0.0, 0.0])
    >>> quarter_turn = torch.tensor([torch.pi / 2, 0.0], dtype=torch.float64)
    >>> rotate(x, torch.tensor(1), pairing="half", frequencies=quarter_turn).round()
    tensor([0., 0., 1., 0.])
    >>> rotate(x, torch.tensor(1), pairing="interleaved", frequencies=quarter_turn).round()
    tensor([0., 1., 0., 0.])

Whether positions are negative is found out by looking, so `torch.func.vmap` over positions is
refused by torch, and positions on a GPU make the processor wait for them once.
"""

import math
from typing import Literal, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from attnlib import require
from attnlib.masks import steps_behind
from attnlib.softmax import computing_dtype
from attnlib.tensor_checks import (
    FLOATING,
    broadcasts_to,
    check_floating,
    check_is_token,
    check_positions,
)

Pairing = Literal["half", "interleaved"]

_DEFAULT_BASE = 10_000.0


def sinusoidal_encoding(
    positions: Int[Tensor, "..."],
    width: int,
    *,
    base: float = _DEFAULT_BASE,
    dtype: torch.dtype | None = None,
) -> Float[Tensor, "... m"]:
    r"""Encode each position by sines and cosines of m/2 frequencies.

    $$\mathrm{PE}_{p,2i} = \sin(p\,\omega_i), \qquad \mathrm{PE}_{p,2i+1} = \cos(p\,\omega_i),
    \qquad \omega_i = \mathrm{base}^{-2i/m}$$

    The sine of a pair stands before its cosine, in neighbouring coordinates.

    Args:
        positions: Whole numbers from 0, of any shape.
        width: m, even.
        base: The wavelengths run from 2π to just under 2π·base.
        dtype: Of the result; None means torch's default.

    Returns:
        One row of width m for each position, computed in fp64 and rounded once.

    Raises:
        TypeError: If the positions are not integers in a tensor, `width` is not an integer, `base`
            not a number or `dtype` not floating point.
        ValueError: If a position is negative, the width odd or less than 2, the base not positive.

    Example:
        >>> sinusoidal_encoding(torch.tensor([0, 1]), 4).round(decimals=2)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8400, 0.5400, 0.0100, 1.0000]])
    """
    check_positions("positions", positions)
    dtype = _floating_or_default(dtype)
    angles = _angles(positions, rotary_frequencies(width, base=base))
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)
    return pairs.flatten(-2).to(dtype)


def shift_matrix(k: int, width: int, *, base: float = _DEFAULT_BASE) -> Float64[Tensor, "m m"]:
    r"""Give the one matrix that moves every encoding on by k positions.

    $$M_k\,\mathrm{PE}_p = \mathrm{PE}_{p+k} \text{ for all } p, \qquad
    M_k = \operatorname{blockdiag}_i
    \begin{pmatrix} \cos k\omega_i & \sin k\omega_i \\ -\sin k\omega_i & \cos k\omega_i
    \end{pmatrix}$$

    Each block is the transpose of the usual rotation, because the sine stands first. The matrices
    are orthogonal, $M_k M_l = M_{k+l}$ and $M_{-k} = M_k^\top$.

    Args:
        k: How far; a negative k moves back.
        width: m, even.
        base: As in `sinusoidal_encoding`.

    Returns:
        The matrix in fp64; it acts on columns, so rows E of encodings move on as E @ M_k.T.

    Raises:
        TypeError: If `k` or `width` is not an integer, or `base` not a number.
        ValueError: If the width is odd or less than 2, the base not positive, or k is beyond 2⁵³.

    Example:
        >>> here = sinusoidal_encoding(torch.tensor(5), 6, dtype=torch.float64)
        >>> there = sinusoidal_encoding(torch.tensor(3), 6, dtype=torch.float64)
        >>> torch.allclose(shift_matrix(-2, 6) @ here, there)
        True
    """
    k = require.integer("k", k)
    if abs(k) > 2**53:
        raise ValueError(f"k must lie within ±2⁵³, where fp64 holds every integer, got k={k}")
    angles = float(k) * rotary_frequencies(width, base=base)
    cos, sin = angles.cos(), angles.sin()
    blocks = rearrange([cos, sin, -sin, cos], "(row column) i -> i row column", row=2)
    return torch.block_diag(*blocks)


def rotary_frequencies(
    width: int, *, base: float = _DEFAULT_BASE
) -> Float64[Tensor, "*frequencies"]:
    r"""List by which angle each pair of coordinates turns at every step.

    $$\theta_i = \mathrm{base}^{-2i/r}, \qquad i = 0, \dots, r/2 - 1$$

    Args:
        width: r, how many coordinates turn; even.
        base: 10,000 in the first models; larger in those for long texts.

    Returns:
        r/2 frequencies in fp64, in radians a step, the fastest first.

    Raises:
        TypeError: If `width` is not an integer or `base` not a number.
        ValueError: If the width is odd or less than 2, or the base not positive and finite.

    Example:
        >>> rotary_frequencies(4, base=100.0)
        tensor([1.0000, 0.1000], dtype=torch.float64)
    """
    width = _require_width(width)
    base = require.positive("base", base)
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    return base**-exponents


def rotate(
    x: Float[Tensor, "... d"],
    positions: Int[Tensor, "..."],
    *,
    pairing: Pairing,
    base: float = _DEFAULT_BASE,
    frequencies: Float[Tensor, "*frequencies"] | None = None,
) -> Float[Tensor, "... d"]:
    r"""Turn each pair of coordinates by an angle proportional to the position.

    $$\begin{pmatrix} y_1 \\ y_2 \end{pmatrix} =
    \begin{pmatrix} \cos p\theta_i & -\sin p\theta_i \\ \sin p\theta_i & \cos p\theta_i
    \end{pmatrix} \begin{pmatrix} x_1 \\ x_2 \end{pmatrix}$$

    for the coordinates $(x_1, x_2)$ of pair i. Position 0 changes nothing, norms are kept, and
    $\langle R_m q, R_n k\rangle = \langle q, R_{n-m}\,k\rangle$ depends on n − m alone.

    The last axis of `positions` stands beside the last but one of x; axes before it stand beside
    the first of x, and the axes of x between them, the heads, share their positions:

    | x | positions |
    |---|---|
    | (b, h, t, d) | (t,) for the whole batch, or (b, t) with a row for each batch element |
    | (b, t, d) | (t,) or (b, t) |
    | (t, d) | (t,) |
    | (d,) and any other | () for one position everywhere |

    Args:
        x: Queries or keys, never values.
        positions: Whole numbers from 0, as above; a size of 1 is repeated.
        pairing: "half" for coordinates i and i + r/2, "interleaved" for neighbours.
        base: Of the frequencies, where these are not given.
        frequencies: r/2 angles a step in radians, one for each pair. With r < d only the first r
            coordinates turn and the others stay (partial rotation). None means
            `rotary_frequencies(d, base=base)`.

    Returns:
        x turned, of its shape, dtype and device. Angles are formed in fp64, products in at least
        fp32.

    Raises:
        TypeError: If x or the frequencies are not floating point, the positions not integers, or
            `base` not a number.
        ValueError: If the pairing is unknown, a position negative, the shapes do not fit, d is odd
            where all coordinates turn, there are more frequencies than pairs, one is not finite,
            or a base other than 10,000 is given beside frequencies.

    Example:
        >>> q, k = torch.randn(2, 8), torch.randn(2, 8)
        >>> near, far = torch.tensor([3, 5]), torch.tensor([1003, 1005])
        >>> a, b = (rotate(q, p, pairing="half") @ rotate(k, p, pairing="half").T
        ...         for p in (near, far))
        >>> torch.allclose(a, b, atol=1e-5)
        True
    """
    frequencies = _require_rotation(x, positions, pairing, base, frequencies)
    return turn_by(x, _turns(positions, frequencies, x.dtype, x.device), pairing=pairing)


class Turns(NamedTuple):
    """Cosine and sine of the angle by which each pair of coordinates turns at each position."""

    cos: Float[Tensor, "..."]
    sin: Float[Tensor, "..."]


def turns_at(
    positions: Int[Tensor, "..."],
    frequencies: Float[Tensor, "*frequencies"],
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Turns:
    """Form the cosines and sines of `rotate` once, for all that is to turn alike.

    Args:
        positions: As in `rotate`.
        frequencies: As in `rotate`.
        dtype: Of what is to turn; None means torch's default.
        device: Of what is to turn; None means that of the positions.

    Returns:
        An axis for the pairs after those of the positions; in at least fp32.

    Raises:
        TypeError: As `rotate`.
        ValueError: As `rotate`.

    Example:
        >>> turns_at(torch.tensor([0, 1]), rotary_frequencies(2)).cos
        tensor([[1.0000],
                [0.5403]])
    """
    check_positions("positions", positions)
    _require_frequencies(frequencies)
    device = positions.device if device is None else device
    return _turns(positions, frequencies, _floating_or_default(dtype), device)


def turn_by(x: Float[Tensor, "... d"], turns: Turns, *, pairing: Pairing) -> Float[Tensor, "... d"]:
    """Turn as `rotate` does, by what `turns_at` gave; whoever calls this has checked both.

    Args:
        x: As in `rotate`.
        turns: Of the positions of x, and of at most d/2 pairs.
        pairing: As in `rotate`.

    Example:
        >>> x, positions = torch.randn(2, 3, 5, 4), torch.arange(5)
        >>> turns = turns_at(positions, rotary_frequencies(4))
        >>> torch.equal(turn_by(x, turns, pairing="half"), rotate(x, positions, pairing="half"))
        True
    """
    r = 2 * turns.cos.shape[-1]
    dtype = computing_dtype(x.dtype)
    turn = _turn_halves if pairing == "half" else _turn_neighbours
    cos, sin = (part[_beside_heads(x, part)] for part in turns)
    turned = turn(x[..., :r].to(dtype), cos, sin).to(x.dtype)
    return turned if r == x.shape[-1] else torch.cat([turned, x[..., r:]], dim=-1)


def pairing_permutation(width: int) -> Int[Tensor, "d"]:
    r"""Order interleaved coordinates as halves: the even ones first, then the odd ones.

    $$\operatorname{rotate}_\text{interleaved}(x)[\pi] = \operatorname{rotate}_\text{half}(x[\pi]),
    \qquad \pi = (0, 2, 4, \dots, 1, 3, 5, \dots)$$

    A scalar product does not see the order of its terms. So a model whose projections are permuted
    like this, head by head, and which then turns halves, gives the same scores: with weights
    (m, d) for one head, `w[:, pi]`; with (d, m), as `torch.nn.Linear` has them, `w[pi]`. The way
    back is `pi.argsort()`.

    Args:
        width: d (or r, where only the first r coordinates turn), even.

    Returns:
        The index π, so that `x[..., pi]` has the pairs as halves.

    Raises:
        TypeError: If `width` is not an integer.
        ValueError: If the width is odd or less than 2.

    Example:
        >>> pairing_permutation(6)
        tensor([0, 2, 4, 1, 3, 5])
    """
    width = _require_width(width)
    return rearrange(torch.arange(width), "(i two) -> (two i)", two=2)


def linear_frequencies(
    frequencies: Float[Tensor, "*frequencies"], factor: float
) -> Float[Tensor, "*frequencies"]:
    r"""Slow every pair down by the same factor (position interpolation).

    $$\theta_i' = \theta_i / f, \qquad\text{so that}\qquad p\,\theta_i' = (p/f)\,\theta_i$$

    Position p stands where p/f stood in training. Gemma 3 does this with f = 8 in its global
    layers.

    Args:
        frequencies: Of the model as trained.
        factor: f, by how much longer the text may be; 1 changes nothing.

    Returns:
        The new frequencies, for `rotate(..., frequencies=...)`.

    Raises:
        TypeError: If the frequencies are not floating point or `factor` not a number.
        ValueError: If the frequencies do not have one axis or are not finite, or the factor is not
            positive.

    Example:
        >>> linear_frequencies(rotary_frequencies(4, base=100.0), 8.0)
        tensor([0.1250, 0.0125], dtype=torch.float64)
    """
    _require_frequencies(frequencies)
    return frequencies / require.positive("factor", factor)


def llama3_frequencies(
    frequencies: Float[Tensor, "*frequencies"],
    *,
    factor: float,
    low_frequency_factor: float,
    high_frequency_factor: float,
    original_length: int,
) -> Float[Tensor, "*frequencies"]:
    r"""Slow down only the pairs that make few turns within the trained length (Llama 3.1).

    With $n_i = L\,\theta_i / 2\pi$ turns within the trained length L, and the share kept

    $$\kappa_i = \min\Big(1, \max\Big(0, \frac{n_i - n_\text{low}}{n_\text{high} - n_\text{low}}
    \Big)\Big), \qquad \theta_i' = \kappa_i\,\theta_i + (1 - \kappa_i)\,\theta_i / f.$$

    Pairs with more than $n_\text{high}$ turns keep their frequency, those with fewer than
    $n_\text{low}$ are slowed down by f, and what lies between is blended.

    Args:
        frequencies: Of the model as trained; base 500,000 in Llama 3.
        factor: f; 8 in Llama 3.1, 32 in Llama 3.2.
        low_frequency_factor: n_low, in turns; 1 in both.
        high_frequency_factor: n_high, in turns; 4 in both.
        original_length: L, in tokens; 8,192 in both.

    Returns:
        The new frequencies, for `rotate(..., frequencies=...)`.

    Raises:
        TypeError: If the frequencies are not floating point or something else is not a number.
        ValueError: If the frequencies do not have one axis or are not finite, a number is not
            positive, or n_high is not above n_low.

    Example:
        >>> turns = torch.tensor([8.0, 2.5, 0.5], dtype=torch.float64)
        >>> slower = llama3_frequencies(
        ...     2 * torch.pi * turns / 8192,
        ...     factor=8.0,
        ...     low_frequency_factor=1.0,
        ...     high_frequency_factor=4.0,
        ...     original_length=8192,
        ... )
        >>> slower * 8192 / (2 * torch.pi)  # kept, half and half, divided by 8
        tensor([8.0000, 1.4062, 0.0625], dtype=torch.float64)
    """
    _require_frequencies(frequencies)
    factor = require.positive("factor", factor)
    low = require.positive("low_frequency_factor", low_frequency_factor)
    high = require.positive("high_frequency_factor", high_frequency_factor)
    original_length = require.positive("original_length", original_length)
    if high <= low:
        raise ValueError(
            f"high_frequency_factor must be above low_frequency_factor, got {high} and {low}"
        )
    turns = original_length * frequencies / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return kept * frequencies + (1 - kept) * frequencies / factor


def yarn_frequencies(
    width: int,
    *,
    base: float = _DEFAULT_BASE,
    factor: float,
    original_length: int,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
) -> Float64[Tensor, "*frequencies"]:
    r"""Slow down the pairs with few turns, blending along the index of the pair (YaRN).

    The pair that makes β turns within the trained length L has the (real) index

    $$i(\beta) = \frac{r}{2} \cdot \frac{\ln(L / 2\pi\beta)}{\ln \mathrm{base}}.$$

    Between $i_0 = \lfloor i(\beta_\text{fast}) \rfloor \ge 0$ and
    $i_1 = \lceil i(\beta_\text{slow}) \rceil \le r - 1$ the share kept falls from 1 to 0:

    $$\kappa_i = 1 - \min\Big(1, \max\Big(0, \frac{i - i_0}{i_1 - i_0}\Big)\Big), \qquad
    \theta_i' = \kappa_i\,\theta_i + (1 - \kappa_i)\,\theta_i / f.$$

    This is what the released code of YaRN, DeepSeek-V2 and DeepSeek-V3 does; the paper's ramp is
    linear in the number of turns. One case, which no published model meets, is not as released:
    if all pairs make many more turns than $\beta_\text{fast}$, or far fewer than
    $\beta_\text{slow}$, so that $i_0 > i_1$, the released ramp runs backward. Here it is then a
    step behind pair $i_0$. The second half of the method is `yarn_attention_factor`.

    Args:
        width: r, how many coordinates turn; even.
        base: Of the model as trained, above 1.
        factor: f; 40 in DeepSeek-V2.
        original_length: L, in tokens; 4,096 in DeepSeek-V2.
        beta_fast: Pairs with more turns keep their frequency.
        beta_slow: Pairs with fewer turns are slowed down by f.

    Returns:
        r/2 new frequencies in fp64, for `rotate(..., frequencies=...)`.

    Raises:
        TypeError: If `width` is not an integer or something else not a number.
        ValueError: If the width is odd or less than 2, a number is not positive, base is not above
            1 or beta_fast not above beta_slow.

    Example:
        >>> slower = yarn_frequencies(64, factor=40.0, original_length=4096)
        >>> (rotary_frequencies(64) / slower)[[0, 10, 16, 22, 31]].round(decimals=2)
        tensor([ 1.0000,  1.0000,  1.8200, 10.0000, 40.0000], dtype=torch.float64)
    """
    frequencies = rotary_frequencies(width, base=base)
    factor = require.positive("factor", factor)
    original_length = require.positive("original_length", original_length)
    beta_fast = require.positive("beta_fast", beta_fast)
    beta_slow = require.positive("beta_slow", beta_slow)
    if base <= 1:
        raise ValueError(f"base must be above 1, so that pairs differ in speed, got base={base}")
    if beta_fast <= beta_slow:
        raise ValueError(f"beta_fast must be above beta_slow, got {beta_fast} and {beta_slow}")

    def pair_with(turns: float) -> float:
        return width / 2 * math.log(original_length / (2 * math.pi * turns)) / math.log(base)

    first = max(math.floor(pair_with(beta_fast)), 0)
    last = min(math.ceil(pair_with(beta_slow)), width - 1)
    length = max(last - first, 0.001)  # a ramp of no length is a step
    slowed = ((torch.arange(width // 2, dtype=torch.float64) - first) / length).clamp(0, 1)
    return (1 - slowed) * frequencies + slowed * frequencies / factor


def yarn_attention_factor(factor: float, mscale: float = 1.0) -> float:
    r"""Give YaRN's factor a, which makes up for the flatter scores of longer texts.

    $$a = 0.1\,\mu \ln f + 1 \quad (f > 1), \qquad a = 1 \quad (f \le 1)$$

    What it multiplies differs, and with it the power in which the scores see it:

    - YaRN as published (μ = 1) multiplies cosine and sine, that is the rotated queries **and** the
      rotated keys: `a * rotate(...)` of both, so that the rotated part of the scores grows by a².
    - DeepSeek-V2 has two numbers, `mscale` and `mscale_all_dim`, both 0.707. Cosine and sine are
      multiplied by the quotient of their factors, which is 1. The scale of all scores, also of
      the part that is not rotated, is multiplied by the **square** of the factor of
      `mscale_all_dim`: scale = a² / √(n + r), with a² = 1.590 for f = 40.

    Args:
        factor: f, by how much longer the text may be.
        mscale: μ.

    Returns:
        a, at least 1 where μ is not negative.

    Raises:
        TypeError: If one of them is not a number.
        ValueError: If the factor is not positive or μ not finite.

    Example:
        >>> a = yarn_attention_factor(40.0, mscale=0.707)
        >>> round(a, 4), round(a**2, 3)
        (1.2608, 1.59)
    """
    factor, mscale = require.positive("factor", factor), require.number("mscale", mscale)
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def alibi_slopes(n_heads: int, *, dtype: torch.dtype | None = None) -> Float[Tensor, "h"]:
    r"""Give each head its slope: how much a step of distance costs it.

    $$m_i = 2^{-8i/h}, \qquad i = 1, \dots, h, \qquad h \text{ a power of two}$$

    For other h the authors take the slopes of the power of two below, then every other one of the
    slopes of the power of two above, from the first on.

    Args:
        n_heads: h.
        dtype: Of the result; None means torch's default.

    Returns:
        One positive slope for each head, the steepest first (where h is a power of two).

    Raises:
        TypeError: If `n_heads` is not an integer or `dtype` not floating point.
        ValueError: If there is no head.

    Example:
        >>> alibi_slopes(8).log2()
        tensor([-1., -2., -3., -4., -5., -6., -7., -8.])
        >>> alibi_slopes(5).log2()
        tensor([-2., -4., -6., -8., -1.])
    """
    n_heads = require.at_least("n_heads", n_heads, 1)
    dtype = _floating_or_default(dtype)
    below = 2 ** (n_heads.bit_length() - 1)
    between = _geometric_slopes(2 * below)[::2]
    return torch.cat([_geometric_slopes(below), between[: n_heads - below]]).to(dtype)


def alibi_bias(
    n_targets: int, n_sources: int, slopes: Float[Tensor, "h"]
) -> Float[Tensor, "h t s"]:
    r"""Take from each score what the distance costs.

    $$b_{i,ts} = -m_i\,|\bar t - s|, \qquad \bar t = t + n_s - n_t$$

    Targets are the last positions of the sources, as in `causal_mask`: the last target stands at
    the last source. The bias is for `dot_product_attention(..., bias=...)`; it forbids nothing, so
    a causal model gives it together with `causal_mask`. The paper treats causal models only, and
    for the past the formula is its own; the future costs as much as the past here.

    Args:
        n_targets: How many positions ask.
        n_sources: How many positions can be read.
        slopes: One for each head, from `alibi_slopes`.

    Returns:
        The bias in the dtype and on the device of the slopes; products in at least fp32.

    Raises:
        TypeError: If a count is not an integer or the slopes are not floating point.
        ValueError: If a count is negative or the slopes do not have the one axis h.

    Example:
        >>> alibi_bias(2, 4, torch.tensor([1.0]))
        tensor([[[-2., -1.,  0., -1.],
                 [-3., -2., -1.,  0.]]])
    """
    n_targets = require.at_least("n_targets", n_targets, 0)
    n_sources = require.at_least("n_sources", n_sources, 0)
    check_floating("slopes", slopes)
    if slopes.ndim != 1:
        raise ValueError(f"slopes must have the one axis (h,), got shape {tuple(slopes.shape)}")
    dtype = computing_dtype(slopes.dtype)
    distance_ts = steps_behind(n_targets, n_sources, slopes.device).abs()
    return torch.einsum("h,ts->hts", slopes.to(dtype), (-distance_ts).to(dtype)).to(slopes.dtype)


def padded_positions(is_token: Bool[Tensor, "b s"]) -> Int[Tensor, "b s"]:
    r"""Count the tokens of each row from 0, wherever its padding stands.

    $$p_{bs} = \max\Big(0, \sum_{s' \le s} \mathrm{is\_token}_{bs'} - 1\Big)$$

    In a batch that is padded on the left, the first token of every row is at position 0, as it
    would be alone. Padding before the first token gets 0, padding after a token the position of
    that token; masks keep both from being read.

    Args:
        is_token: True where the row holds a token, False where it is filled up.

    Returns:
        Positions for `rotate` or `sinusoidal_encoding`, one row for each batch element.

    Raises:
        TypeError: If `is_token` is not boolean.
        ValueError: If it does not have the two axes (b, s).

    Example:
        >>> padded_positions(torch.tensor([[False, False, True, True], [True, True, True, True]]))
        tensor([[0, 0, 0, 1],
                [0, 1, 2, 3]])
    """
    check_is_token(is_token)
    return (is_token.cumsum(dim=-1) - 1).clamp(min=0)


def check_pairing(pairing: str) -> None:
    """Refuse a pairing that is not one of the two.

    Example:
        >>> check_pairing("halves")
        Traceback (most recent call last):
        ValueError: pairing must be "half" (coordinates i and i + r/2) or "interleaved" ...
    """
    if not isinstance(pairing, str) or pairing not in ("half", "interleaved"):
        raise ValueError(
            'pairing must be "half" (coordinates i and i + r/2) or "interleaved" (neighbours), got '
            f"{pairing!r}"
        )


def _angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    """Position times frequency in fp64, where the positions are; a new last axis for the pairs."""
    return positions.double()[..., None] * frequencies.to(positions.device, torch.float64)


def _turn_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    x_1, x_2 = x.chunk(2, dim=-1)
    return torch.cat([x_1 * cos - x_2 * sin, x_1 * sin + x_2 * cos], dim=-1)


def _turn_neighbours(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Neighbours are the two parts of a complex number, which e^{ipθ} turns in one pass."""
    pairs = rearrange(x, "... (i two) -> ... i two", two=2).contiguous()
    if pairs.storage_offset() % 2:  # a view as complex numbers must start at an even place
        pairs = pairs.clone()
    turned = torch.view_as_complex(pairs) * torch.complex(cos, sin)
    return rearrange(torch.view_as_real(turned), "... i two -> ... (i two)")


def _turns(
    positions: Tensor, frequencies: Tensor, dtype: torch.dtype, device: torch.device
) -> Turns:
    angles = _angles(positions, frequencies)
    dtype = computing_dtype(dtype)
    # rounded before they move: some devices have no fp64
    return Turns(*(part.to(dtype).to(device) for part in (angles.cos(), angles.sin())))


def _beside_heads(x: Tensor, angles: Tensor) -> tuple:
    """An index that gives angles (b, t, pairs) an axis of size 1 for each axis of heads in x."""
    n_heads_axes = x.ndim - angles.ndim
    return (*(slice(None),) * (angles.ndim - 2), *(None,) * n_heads_axes)


def _geometric_slopes(n: int) -> Tensor:
    return 2.0 ** (-8.0 * torch.arange(1, n + 1, dtype=torch.float64) / n)


def _require_rotation(
    x: Tensor, positions: Tensor, pairing: str, base: float, frequencies: Tensor | None
) -> Tensor:
    """Refuse what has no meaning, before anything is turned; give the frequencies."""
    check_floating("x", x)
    check_positions("positions", positions)
    check_pairing(pairing)
    if x.ndim < 1 or positions.ndim > x.ndim - 1:
        raise ValueError(
            "x must have an axis for its width and one for each axis of the positions, got x "
            f"{tuple(x.shape)} and positions {tuple(positions.shape)}"
        )
    shape = tuple(positions.shape)
    beside = (*shape[:-1], *(1,) * (x.ndim - 1 - len(shape)), *shape[-1:])
    if not broadcasts_to(beside, x.shape[:-1]):
        raise ValueError(
            "positions must have the shape (t,) or (b, t) beside x (b, h, t, d), got positions "
            f"{shape} and x {tuple(x.shape)}"
        )
    d, base = x.shape[-1], require.positive("base", base)
    if frequencies is None:
        _require_width(d, "d", "; with frequencies=... the first r coordinates turn")
        return rotary_frequencies(d, base=base)
    if base != _DEFAULT_BASE:
        raise ValueError(f"give either base or frequencies, got both, base={base}")
    _require_frequencies(frequencies)
    if 2 * len(frequencies) > d:
        raise ValueError(
            f"r/2 frequencies turn r coordinates, and r must be at most d, got "
            f"r={2 * len(frequencies)} and d={d}"
        )
    return frequencies


def _require_width(width: int, letter: str = "width", advice: str = "") -> int:
    width = require.integer(letter, width)
    if width < 2 or width % 2:
        raise ValueError(
            f"{letter} must be even and at least 2, because coordinates turn in pairs, got "
            f"{letter}={width}{advice}"
        )
    return width


def _require_frequencies(frequencies: Tensor) -> None:
    check_floating("frequencies", frequencies)
    if frequencies.ndim != 1:
        raise ValueError(
            f"frequencies must have one axis, one for each pair of coordinates, got shape "
            f"{tuple(frequencies.shape)}"
        )
    if not frequencies.is_meta and not frequencies.isfinite().all():
        raise ValueError(f"frequencies must be finite, got {frequencies.tolist()}")


def _floating_or_default(dtype: torch.dtype | None) -> torch.dtype:
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if dtype not in FLOATING:
        raise TypeError(f"dtype must be one of fp16, bf16, fp32, fp64, got {dtype}")
    return dtype
