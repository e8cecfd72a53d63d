r"""Multi-head latent attention: the keys and values of all heads come from one latent a token.

Source   DeepSeek-AI 2024, arXiv:2405.04434, section 2.1 and appendix C
Chapter  chapters/latent-attention.md
Axes     attnlib/axes.py

A source s leaves a latent $c_s$ of width c and one key $k^R_s$ of width r, which carries its
position and which all heads share. Head i reads the key $(W^{UK}_i c_s,\ k^R_s)$ of width n + r and
the value $W^{UV}_i c_s$. Two forms compute the same:

| form | builds | a pair of a target and a source costs |
|---|---|---|
| expanded | keys and values of all heads | 2h(n + r + e) FLOPs |
| absorbed | nothing a head: queries go to the width of the latent | 2h(2c + r) FLOPs |

They agree because products of matrices may be bracketed in any way:
$q_i \cdot (W^{UK}_i c_s) = (W^{UK}_i{}^{\mathsf T} q_i) \cdot c_s$, and
$\sum_s p_s W^{UV}_i c_s = W^{UV}_i \sum_s p_s c_s$. The absorbed form is multi-query attention: one
key of width c + r, whose first c coordinates are the value as well.

What holds for attention holds here: everything is computed in at least fp32 and rounded once, a
target with nothing to read gets zeros, and what stands at a source that may not be read, NaN and
±∞ included, has no influence on outputs. (In the expanded form it has one on the gradients of the
two matrices, where it is multiplied by a gradient of 0.) The two forms agree for finite numbers;
where a target reads a NaN or ±∞ neither says anything, and they may say it differently.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnlib.attention import (
    check_mask_and_bias,
    check_scale,
    derivatives_wanted,
    grouped_query_attention,
    suits_fused_kernel,
    without_autocast,
)
from attnlib.require import at_least
from attnlib.softmax import computing_dtype
from attnlib.tensor_checks import check_axes, check_floating

LatentForm = Literal["expanded", "absorbed"]
"""The two ways to compute the same."""


def latent_attention_expanded(
    q: Float[Tensor, "b h t d"],
    latent: Float[Tensor, "b s c"],
    rotary_key: Float[Tensor, "b s r"],
    up_keys: Float[Tensor, "h n c"],
    up_values: Float[Tensor, "h e c"],
    *,
    may_attend: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "b h t e"]:
    r"""Build the keys and values of every head from the latents, and attend.

    $$o_{i,t} = \sum_s \operatorname{softmax}_s\!\Big(\frac{q^C_{i,t} \cdot W^{UK}_i c_s +
    q^R_{i,t} \cdot k^R_s}{\sqrt{n + r}}\Big)\, W^{UV}_i c_s$$

    Multi-head attention with keys and values that are made here: for many targets, which share
    them.

    Args:
        q: Queries: n coordinates without rotation, then r that are turned; d = n + r.
        latent: What all keys and values are made of, normed where the layer norms it.
        rotary_key: One key for all heads, turned; r may be 0.
        up_keys: $W^{UK}$, from a latent to the n coordinates of each head's key.
        up_values: $W^{UV}$, from a latent to each head's value.
        may_attend: True where target t may read source s; broadcasts to (b, h, t, s); None lets
            all be read.
        scale: Multiplies the scores; None means 1 / sqrt(n + r).

    Returns:
        One row of width e for each batch element, head and target, in the dtype of the inputs.

    Raises:
        TypeError: If the tensors are not floating point of one dtype, `may_attend` is not boolean
            or `scale` not a number.
        ValueError: If b, h, s or c differ between the inputs, h is 0, d is not n + r or is 0, a
            mask does not broadcast to (b, h, t, s), the tensors are on different devices or the
            scale is not finite.

    Example:
        >>> q, latent = torch.zeros(1, 2, 1, 4), torch.tensor([[[1.0], [2.0], [6.0]]])
        >>> rotary_key, up_keys = torch.ones(1, 3, 1), torch.ones(2, 3, 1)
        >>> up_values = torch.tensor([[[1.0]], [[10.0]]])
        >>> latent_attention_expanded(q, latent, rotary_key, up_keys, up_values).flatten()
        tensor([ 3., 30.])
    """
    _require_inputs(q, latent, rotary_key, up_keys, up_values, may_attend, scale)
    dtype = computing_dtype(q.dtype)
    with without_autocast(q.device):
        k_bhsd, v_bhse = expanded_keys_and_values(
            *(x.to(dtype) for x in (latent, rotary_key, up_keys, up_values))
        )
        out_bhte = grouped_query_attention(
            q.to(dtype), k_bhsd, v_bhse, may_attend=may_attend, scale=scale
        )
    return out_bhte.to(q.dtype)


def latent_attention_absorbed(
    q: Float[Tensor, "b h t d"],
    latent: Float[Tensor, "b s c"],
    rotary_key: Float[Tensor, "b s r"],
    up_keys: Float[Tensor, "h n c"],
    up_values: Float[Tensor, "h e c"],
    *,
    may_attend: Bool[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "b h t e"]:
    r"""Carry the queries to the width of the latent, average latents, and carry these back.

    $$o_{i,t} = W^{UV}_i \sum_s \operatorname{softmax}_s\!\Big(\frac{(W^{UK}_i{}^{\mathsf T}
    q^C_{i,t}) \cdot c_s + q^R_{i,t} \cdot k^R_s}{\sqrt{n + r}}\Big)\, c_s$$

    Multi-query attention over what is kept of the tokens, as it is kept: for few targets. The
    scale is that of the expanded form: c does not enter it.

    Args:
        q: As in `latent_attention_expanded`.
        latent: As in `latent_attention_expanded`.
        rotary_key: As in `latent_attention_expanded`. Where it stands beside the latents in one
            memory, as a `LatentCache` gives the two, neither is copied, unless it is to be computed
            with in another dtype.
        up_keys: As in `latent_attention_expanded`.
        up_values: As in `latent_attention_expanded`.
        may_attend: As in `latent_attention_expanded`.
        scale: As in `latent_attention_expanded`.

    Returns:
        What `latent_attention_expanded` returns, up to rounding.

    Raises:
        TypeError: As `latent_attention_expanded`.
        ValueError: As `latent_attention_expanded`.

    Example:
        >>> q, latent = torch.zeros(1, 2, 1, 4), torch.tensor([[[1.0], [2.0], [6.0]]])
        >>> rotary_key, up_keys = torch.ones(1, 3, 1), torch.ones(2, 3, 1)
        >>> up_values = torch.tensor([[[1.0]], [[10.0]]])
        >>> latent_attention_absorbed(q, latent, rotary_key, up_keys, up_values).flatten()
        tensor([ 3., 30.])
    """
    _require_inputs(q, latent, rotary_key, up_keys, up_values, may_attend, scale)
    dtype = computing_dtype(q.dtype)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    with without_autocast(q.device):
        q_bht = absorbed_queries(q.to(dtype), up_keys.to(dtype))
        key_b1s = side_by_side(latent, rotary_key).to(dtype)[:, None]
        value_b1s = key_b1s[..., : latent.shape[-1]]
        if suits_fused_kernel(q_bht, key_b1s, value_b1s, may_attend=may_attend, bias=None):
            value_b1s = key_b1s  # that kernel wants values as wide as keys
        mean_bht = grouped_query_attention(
            q_bht, key_b1s, value_b1s, may_attend=may_attend, scale=scale
        )
        mean_bhtc = mean_bht[..., : latent.shape[-1]]
        out_bhte = torch.einsum("bhtc,hec->bhte", mean_bhtc, up_values.to(dtype))
    return out_bhte.to(q.dtype)


def expanded_keys_and_values(
    latent: Float[Tensor, "b s c"],
    rotary_key: Float[Tensor, "b s r"],
    up_keys: Float[Tensor, "h n c"],
    up_values: Float[Tensor, "h e c"],
) -> tuple[Float[Tensor, "b h s d"], Float[Tensor, "b h s e"]]:
    r"""Build what each head of the expanded form reads: keys of width n + r, and values.

    $$k_{i,s} = (W^{UK}_i c_s,\ k^R_s), \qquad v_{i,s} = W^{UV}_i c_s$$

    Args:
        latent: As in `latent_attention_expanded`.
        rotary_key: As in `latent_attention_expanded`.
        up_keys: As in `latent_attention_expanded`.
        up_values: As in `latent_attention_expanded`.

    Example:
        >>> latent, rotary_key = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[7.0]]])
        >>> up = torch.tensor([[[3.0, 0.0]], [[0.0, 5.0]]])
        >>> keys, values = expanded_keys_and_values(latent, rotary_key, up, 10 * up)
        >>> keys[0, :, 0].tolist(), values[0, :, 0].tolist()
        ([[3.0, 7.0], [10.0, 7.0]], [[30.0], [100.0]])
    """
    k_bhsn = torch.einsum("bsc,hnc->bhsn", latent, up_keys)
    k_bhsr = rotary_key[:, None].expand(-1, len(up_keys), -1, -1)
    v_bhse = torch.einsum("bsc,hec->bhse", latent, up_values)
    return torch.cat([k_bhsn, k_bhsr], dim=-1), v_bhse


def absorbed_queries(
    q: Float[Tensor, "b h t d"], up_keys: Float[Tensor, "h n c"]
) -> Float[Tensor, "b h t *width"]:
    r"""Carry the queries to where the absorbed form reads keys: width c + r.

    $$(q^C_i,\ q^R_i) \mapsto (W^{UK}_i{}^{\mathsf T} q^C_i,\ q^R_i)$$

    Args:
        q: As in `latent_attention_expanded`.
        up_keys: As in `latent_attention_expanded`.

    Example:
        >>> q, up_keys = torch.tensor([[[[2.0, 7.0]]]]), torch.tensor([[[1.0, 10.0, 100.0]]])
        >>> absorbed_queries(q, up_keys)
        tensor([[[[  2.,  20., 200.,   7.]]]])
    """
    n = up_keys.shape[1]
    q_bhtc = torch.einsum("bhtn,hnc->bhtc", q[..., :n], up_keys)
    return torch.cat([q_bhtc, q[..., n:]], dim=-1)


def cheaper_form(
    n_targets: int, n_sources: int, *, kv_latent: int, nope_dim: int, value_dim: int
) -> LatentForm:
    r"""Say which form takes fewer FLOPs, for t targets that are scored against s sources.

    With all t·s pairs multiplied, as plain products of matrices do, a head takes

    $$\text{expanded: } 2ts(n + r + e) + 2sc(n + e), \qquad
    \text{absorbed: } 2ts(2c + r) + 2tc(n + e).$$

    The rotary part costs both the same. Where 2c > n + e, the absorbed form is cheaper as long as

    $$\frac{t}{1 - t/s} < \frac{c(n + e)}{2c - n - e},$$

    in DeepSeek-V2 for chunks of up to 170 tokens of a long text; a whole text at once, t = s, is
    cheaper expanded.

    Args:
        n_targets: t, the new tokens.
        n_sources: s, all tokens.
        kv_latent: c.
        nope_dim: n.
        value_dim: e.

    Returns:
        "expanded" or "absorbed"; where both take the same, "expanded".

    Raises:
        TypeError: If a number is not whole.
        ValueError: If a count is below 0, or a width below 1.

    Example:
        >>> widths = {"kv_latent": 512, "nope_dim": 128, "value_dim": 128}
        >>> [cheaper_form(t, 10**9, **widths) for t in (1, 170, 171)]
        ['absorbed', 'absorbed', 'expanded']
        >>> cheaper_form(8192, 8192, **widths)
        'expanded'
    """
    t, s = at_least("n_targets", n_targets, 0), at_least("n_sources", n_sources, 0)
    c, n = at_least("kv_latent", kv_latent, 1), at_least("nope_dim", nope_dim, 1)
    e = at_least("value_dim", value_dim, 1)
    expanded = t * s * (n + e) + s * c * (n + e)
    absorbed = t * s * 2 * c + t * c * (n + e)
    return "absorbed" if absorbed < expanded else "expanded"


def check_form(form: str) -> None:
    """Refuse a form that is not one of the two.

    Example:
        >>> check_form("merged")
        Traceback (most recent call last):
        ValueError: form must be 'expanded' or 'absorbed', got 'merged'
    """
    if form not in ("expanded", "absorbed"):
        raise ValueError(f"form must be 'expanded' or 'absorbed', got {form!r}")


def side_by_side(
    latent: Float[Tensor, "b s c"], rotary_key: Float[Tensor, "b s r"]
) -> Float[Tensor, "b s *width"]:
    """Give one array of width c + r: a view where both are neighbours in one memory, else a copy.

    The view is of the numbers only, so that it is no way for gradients.

    Args:
        latent: As in `latent_attention_expanded`.
        rotary_key: As in `latent_attention_expanded`.

    Example:
        >>> both = torch.arange(6.0).view(1, 2, 3)
        >>> joined = side_by_side(both[..., :2], both[..., 2:])
        >>> torch.equal(joined, both), joined.data_ptr() == both.data_ptr()
        (True, True)
    """
    c, r = latent.shape[-1], rotary_key.shape[-1]
    if (
        not derivatives_wanted(latent, rotary_key)  # first: torch.func shows no storage
        and latent.untyped_storage().data_ptr() == rotary_key.untyped_storage().data_ptr()
        and latent.stride() == rotary_key.stride()
        and latent.stride(-1) == 1
        and rotary_key.storage_offset() == latent.storage_offset() + c
    ):
        return latent.as_strided((*latent.shape[:-1], c + r), latent.stride())
    return torch.cat([latent, rotary_key], dim=-1)


def _require_inputs(
    q: Tensor,
    latent: Tensor,
    rotary_key: Tensor,
    up_keys: Tensor,
    up_values: Tensor,
    may_attend: Tensor | None,
    scale: float | None,
) -> None:
    """Refuse what has no meaning, before anything is computed."""
    given = {
        "q": (q, "b h t d"),
        "latent": (latent, "b s c"),
        "rotary_key": (rotary_key, "b s r"),
        "up_keys": (up_keys, "h n c"),
        "up_values": (up_values, "h e c"),
    }
    sizes: dict[str, tuple[int, str]] = {}
    for name, (x, axes) in given.items():
        check_floating(name, x)
        check_axes(name, x, axes)
        if x.dtype != q.dtype:
            raise TypeError(f"q and {name} must have the same dtype, got {q.dtype} and {x.dtype}")
        if x.device != q.device:
            raise ValueError(
                f"q and {name} must be on the same device, got {q.device} and {x.device}"
            )
        for letter, size in zip(axes.split(), x.shape, strict=True):
            first, where = sizes.setdefault(letter, (size, name))
            if size != first:
                raise ValueError(
                    f"{where} and {name} must have the same {letter}, got {letter}={first} in "
                    f"{where} and {letter}={size} in {name}"
                )
    if sizes["h"][0] == 0:
        raise ValueError("there must be at least 1 head, got h=0")
    d, n, r = (sizes[letter][0] for letter in "dnr")
    if d != n + r:
        raise ValueError(
            f"queries have n coordinates without rotation and r with, so d must be n + r, got "
            f"d={d}, n={n} and r={r}"
        )
    if d == 0:
        raise ValueError("queries and keys must have a width, got d=0")
    bhts = tuple(sizes[letter][0] for letter in "bhts")
    check_mask_and_bias(may_attend, None, bhts, "q", q)
    if scale is not None:
        check_scale(scale, computing_dtype(q.dtype))
