r"""Attention: each target averages the values of the sources that it may read.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1; Shazeer 2019, arXiv:1911.02150,
         section 3 (one key/value head); Ainslie et al. 2023, arXiv:2305.13245, section 2.2
Chapter  chapters/attention.md
Axes     attnlib/axes.py

One code path serves every function here: h = g·p query heads read g key/value heads. With p = 1
this is multi-head attention, with g = 1 multi-query attention; keys and values from elsewhere than
the queries make it cross-attention, without any change. Where the output alone is wanted of fp32 or
fp64 on the CPU, without mask, bias or gradients, as when a token is decoded, torch's own kernel
makes it, which keeps no scores; it is the same up to rounding, and what is not finite is computed
again.

What holds for all of them:

- Scores are formed in at least fp32, from queries that are scaled first, and stay there until the
  output is rounded once to the dtype of the inputs. Autocast does not change this.
- A target with nothing to read gets zeros, in the output, the weights and the gradients, and a
  log-sum-exp of −∞.
- A source may be read where `may_attend` is True and `bias` is not −∞. What stands at a source
  that may not be read, NaN and ±∞ included, has no influence, neither on the outputs nor on the
  gradients. A target that does read a NaN follows IEEE arithmetic over the sources that it reads,
  and only a loss that uses this target has gradients that are NaN. The weights and the log-sum-exp
  do not depend on the values, so a NaN among these does not reach them.
- A bias is rounded to the dtype in which scores are formed: one in fp64 beside inputs of fp32 or
  less becomes fp32, and what is beyond its range becomes ±∞ there, so that −1e300 forbids reading.

What is not supported: with a mask, a bias or gradients, and on the CPU with torch's own kernel, a
number or two is looked at to see whether all are finite. So `torch.func.vmap` is refused by torch
there, `torch.compile` breaks its graph, and tensors on the meta device are refused with a mask, a
bias or gradients. Forward-mode derivatives (`torch.func.jvp`) under a mask or a bias are refused by
torch where something is not finite.
"""

from contextlib import nullcontext
from math import inf, isfinite
from numbers import Real

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual
from torch.nn.functional import scaled_dot_product_attention

from attnlib.softmax import computing_dtype, softmax_and_log_sum_exp
from attnlib.tensor_checks import broadcasts_to, check_axes, check_boolean, check_floating


def dot_product_attention(
    q: Float[Tensor, "b h t d"],
    k: Float[Tensor, "b h s d"],
    v: Float[Tensor, "b h s e"],
    *,
    may_attend: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "b h t e"]:
    r"""Average the values, weighted by the softmax of query times key.

    $$o_t = \sum_s \operatorname{softmax}_s\!\Big(\frac{q_t \cdot k_s}{\sqrt d} + b_{ts}\Big)\,
    v_s$$

    Every head does this on its own. A scale of 0 without bias gives the plain mean; a scale that
    grows without bound gives the value of the best key.

    Args:
        q: Queries.
        k: Keys, as many heads as queries.
        v: Values; e may differ from d.
        may_attend: True where target t may read source s; broadcasts to (b, h, t, s); None lets
            all be read.
        bias: Added to the scaled scores, in their dtype; broadcasts to (b, h, t, s). −∞ forbids
            reading.
        scale: Multiplies the scores; None means 1 / sqrt(d).

    Returns:
        One row of width e for each batch element, head and target, in the dtype of the inputs.

    Raises:
        TypeError: If q, k and v are not floating point of one dtype, if `may_attend` is not
            boolean, `bias` not floating point or `scale` not a number.
        ValueError: If b, h, s or d differ between the inputs, if d = 0, if a mask or bias does
            not broadcast to (b, h, t, s), if the tensors are on different devices or the scale
            is not finite in the dtype in which scores are formed.

    Example:
        >>> q, k = torch.zeros(1, 1, 1, 2), torch.ones(1, 1, 3, 2)
        >>> v = torch.tensor([1.0, 2.0, 6.0]).reshape(1, 1, 3, 1)
        >>> dot_product_attention(q, k, v)
        tensor([[[[3.]]]])
        >>> dot_product_attention(q, k, v, may_attend=torch.tensor([[True, True, False]]))
        tensor([[[[1.5000]]]])
    """
    _require_same_heads(q, k, v)
    return _output(q, k, v, may_attend, bias, scale)


def grouped_query_attention(
    q: Float[Tensor, "b h t d"],
    k: Float[Tensor, "b g s d"],
    v: Float[Tensor, "b g s e"],
    *,
    may_attend: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "b h t e"]:
    r"""Attend with h query heads that share g key/value heads.

    Query head $i$ reads key/value head $\lfloor i/p \rfloor$, where $p = h/g$:

    $$o_{i,t} = \sum_s \operatorname{softmax}_s\!\Big(\frac{q_{i,t} \cdot
    k_{\lfloor i/p \rfloor,s}}{\sqrt d} + b_{i,ts}\Big)\, v_{\lfloor i/p \rfloor,s}.$$

    With g = h this is multi-head attention, with g = 1 multi-query attention.

    Args:
        q: Queries.
        k: Keys; g must divide h. They are never copied out to h heads.
        v: Values; e may differ from d.
        may_attend: True where target t may read source s; broadcasts to (b, h, t, s); None lets
            all be read.
        bias: Added to the scaled scores, in their dtype; broadcasts to (b, h, t, s). −∞ forbids
            reading.
        scale: Multiplies the scores; None means 1 / sqrt(d).

    Returns:
        One row of width e for each batch element, query head and target, in the dtype of the
        inputs.

    Raises:
        TypeError: As `dot_product_attention`.
        ValueError: As `dot_product_attention`, and if g does not divide h.

    Example:
        >>> q, k = torch.ones(1, 6, 1, 4), torch.ones(1, 3, 7, 4)
        >>> v = torch.arange(3.0).reshape(1, 3, 1, 1).expand(1, 3, 7, 1)
        >>> grouped_query_attention(q, k, v).flatten()
        tensor([0., 0., 1., 1., 2., 2.])
    """
    return _output(q, k, v, may_attend, bias, scale)


def attention_weights(
    q: Float[Tensor, "b h t d"],
    k: Float[Tensor, "b g s d"],
    *,
    may_attend: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "b h t s"]:
    r"""Show with which weight each target reads each source.

    $$p_{i,ts} = \operatorname{softmax}_s\!\Big(\frac{q_{i,t} \cdot
    k_{\lfloor i/p \rfloor,s}}{\sqrt d} + b_{i,ts}\Big)$$

    The weights with which `grouped_query_attention` averages, from the same code. Each row sums to
    one, or to zero where there is nothing to read.

    Args:
        q: Queries.
        k: Keys; g must divide h.
        may_attend: As in `grouped_query_attention`.
        bias: As in `grouped_query_attention`.
        scale: As in `grouped_query_attention`.

    Returns:
        Rows are targets, columns are sources, in the dtype of the inputs.

    Raises:
        TypeError: As `grouped_query_attention`.
        ValueError: As `grouped_query_attention`.

    Example:
        >>> q, k = torch.zeros(1, 1, 2, 3), torch.ones(1, 1, 2, 3)
        >>> may_attend = torch.tensor([[True, False], [True, True]])
        >>> attention_weights(q, k, may_attend=may_attend)[0, 0]
        tensor([[1.0000, 0.0000],
                [0.5000, 0.5000]])
    """
    _require_shaped("k", k, "b g s d")
    no_values = k[..., :0]  # values of width 0: only the weights are wanted
    weights = _attend(q, k, no_values, may_attend, bias, scale)[2]
    return weights.to(q.dtype)


def attention_with_lse(
    q: Float[Tensor, "b h t d"],
    k: Float[Tensor, "b g s d"],
    v: Float[Tensor, "b g s e"],
    *,
    may_attend: Bool[Tensor, "..."] | None = None,
    bias: Float[Tensor, "..."] | None = None,
    scale: float | None = None,
) -> tuple[Float[Tensor, "b h t e"], Float[Tensor, "b h t"]]:
    r"""Attend, and give the log-sum-exp of the scores beside the output.

    $$\ell_{i,t} = \log \sum_s \exp\!\Big(\frac{q_{i,t} \cdot
    k_{\lfloor i/p \rfloor,s}}{\sqrt d} + b_{i,ts}\Big)$$

    The pair is what `merge_attention` needs to put together the results of disjoint sets of
    sources. A target with nothing to read gives (zeros, −∞).

    Args:
        q: Queries.
        k: Keys; g must divide h.
        v: Values; e may differ from d.
        may_attend: As in `grouped_query_attention`.
        bias: As in `grouped_query_attention`.
        scale: As in `grouped_query_attention`.

    Returns:
        The output of `grouped_query_attention`, and the log-sum-exp in nats, in fp64 if the
        inputs are, otherwise in fp32.

    Raises:
        TypeError: As `grouped_query_attention`.
        ValueError: As `grouped_query_attention`.

    Example:
        >>> q, k, v = torch.zeros(1, 1, 1, 4), torch.ones(1, 1, 8, 4), torch.ones(1, 1, 8, 2)
        >>> out, lse = attention_with_lse(q, k, v)
        >>> lse.exp()
        tensor([[[8.]]])
    """
    return _attend(q, k, v, may_attend, bias, scale)[:2]


def check_mask_and_bias(
    may_attend: Tensor | None,
    bias: Tensor | None,
    bhts: tuple[int, int, int, int],
    name: str,
    beside: Tensor,
) -> None:
    """Refuse a mask or a bias that says nothing about the pairs of targets and sources.

    Args:
        may_attend: As in `grouped_query_attention`.
        bias: As in `grouped_query_attention`.
        bhts: What both must broadcast to.
        name: How `beside` is called.
        beside: Whose device they must be on.

    Example:
        >>> check_mask_and_bias(torch.ones(7, 5).bool(), None, (2, 6, 5, 7), "q", torch.ones(()))
        Traceback (most recent call last):
        ValueError: may_attend must broadcast to (b, h, t, s) = (2, 6, 5, 7), got shape (7, 5)
    """
    if may_attend is not None:
        advice = "; numbers that are added to the scores go to bias"
        check_boolean("may_attend", may_attend, "may be read", advice)
    if bias is not None:
        check_floating("bias", bias, "; a boolean mask goes to may_attend")
    for mask, x in (("may_attend", may_attend), ("bias", bias)):
        if x is not None:
            _require_device(mask, x, name, beside)
            _require_broadcast(mask, x, bhts)


def check_scale(scale: float, dtype: torch.dtype) -> None:
    """Refuse what cannot multiply the scores.

    Args:
        scale: As in `grouped_query_attention`.
        dtype: In which scores are formed.

    Example:
        >>> check_scale(float("inf"), torch.float32)
        Traceback (most recent call last):
        ValueError: scale must be finite, got scale=inf
    """
    if isinstance(scale, bool) or not isinstance(scale, Real):
        raise TypeError(f"scale must be a number or None, got {type(scale).__name__}")
    try:
        number = float(scale)
    except OverflowError:  # an integer or a fraction beyond fp64
        number = inf if scale > 0 else -inf
    if not isfinite(number):
        raise ValueError(f"scale must be finite, got scale={number}")
    if abs(number) > torch.finfo(dtype).max:
        raise ValueError(
            f"scale must be finite in {dtype}, in which scores are formed, got scale={number}"
        )


def suits_fused_kernel(*tensors: Tensor, may_attend: Tensor | None, bias: Tensor | None) -> bool:
    """Say whether torch's own kernel may make the output: it does less, and does it faster.

    It reads every key and value once and keeps no scores, for all query heads of a key/value head
    together. It knows nothing of the policy for what is not finite, nothing of forward-mode
    derivatives, and computes in the dtype that it is given.

    Args:
        tensors: Queries, keys and values, of one dtype and device.
        may_attend: As in `grouped_query_attention`.
        bias: As in `grouped_query_attention`.
    """
    one = tensors[0]
    return (
        may_attend is None
        and bias is None
        and one.device.type == "cpu"
        and one.dtype == computing_dtype(one.dtype)
        and all(x.numel() for x in tensors)
        and not derivatives_wanted(*tensors)
    )


def _output(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    may_attend: Tensor | None,
    bias: Tensor | None,
    scale: float | None,
) -> Tensor:
    """The output alone, by torch's kernel where that may be and makes something sound."""
    _require_inputs(q, k, v, may_attend, bias, scale)
    (b, h, t, d), (_, g, _, e) = q.shape, v.shape
    if d == e and suits_fused_kernel(q, k, v, may_attend=may_attend, bias=bias):
        # scaled first, or a product could overflow to −∞, which does not show in the output
        scaled = q * (d**-0.5 if scale is None else float(scale))
        # the p query heads of a key/value head stand where its targets would
        q_bgpd = scaled.reshape(b, g, h // g * t, d)
        with without_autocast(q.device):
            out_bgpd = scaled_dot_product_attention(q_bgpd, k, v, scale=1.0)
        least, most = out_bgpd.abs().amax(-1).aminmax()
        # NaN fails the comparison; a target whose scores are all NaN gets zeros from the kernel
        if least.item() > 0 and most.item() < inf:
            return out_bgpd.reshape(b, h, t, e)
    return _attend(q, k, v, may_attend, bias, scale)[0]


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    may_attend: Tensor | None,
    bias: Tensor | None,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output, log-sum-exp and weights: what every function above returns a part of."""
    _require_inputs(q, k, v, may_attend, bias, scale)
    g = k.shape[1]
    dtype = computing_dtype(q.dtype)
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)

    q_bgptd = rearrange(q, "b (g p) t d -> b g p t d", g=g).to(dtype)
    k_bgsd, v_bgse = k.to(dtype), v.to(dtype)
    may_bgpts = _over_kv_heads(may_attend, g)
    bias_bgpts = None if bias is None else _over_kv_heads(bias, g).to(dtype)
    if bias is not None:
        allowed = bias_bgpts != -torch.inf
        may_bgpts = allowed if may_bgpts is None else may_bgpts & allowed

    with without_autocast(q.device):
        scores_bgpts = _scores(q_bgptd, k_bgsd, scale)
        weights_bgpts, lse_bgpt = _weights(scores_bgpts, bias_bgpts, may_bgpts)
        out_bgpte = torch.einsum("bgpts,bgse->bgpte", weights_bgpts, v_bgse)
        may_leak = may_bgpts is not None or out_bgpte.requires_grad
        if may_leak and not (
            _all_finite(scores_bgpts) and _all_finite(out_bgpte) and _no_row_spoilt(lse_bgpt)
        ):
            out_bgpte, lse_bgpt, weights_bgpts = _attend_pair_by_pair(
                q_bgptd, k_bgsd, v_bgse, scores_bgpts, bias_bgpts, may_bgpts, scale
            )

    out = rearrange(out_bgpte, "b g p t e -> b (g p) t e").to(v.dtype)
    lse = rearrange(lse_bgpt, "b g p t -> b (g p) t")
    weights = rearrange(weights_bgpts, "b g p t s -> b (g p) t s")
    return out, lse, weights


def _scores(q_bgptd: Tensor, k_bgsd: Tensor, scale: float) -> Tensor:
    """Scaled scores; the scale goes to q, before a product that could overflow without it."""
    return torch.einsum("bgptd,bgsd->bgpts", q_bgptd * scale, k_bgsd)


def _weights(
    scores_bgpts: Tensor, bias_bgpts: Tensor | None, may_bgpts: Tensor | None
) -> tuple[Tensor, Tensor]:
    if bias_bgpts is not None:
        scores_bgpts = scores_bgpts + bias_bgpts
    return softmax_and_log_sum_exp(scores_bgpts, may_bgpts)


def _all_finite(x: Tensor) -> bool:
    """One number decides: a sum is finite only if every term is.

    The converse fails where a sum of finite terms overflows, which costs time but nothing else.
    """
    return isfinite(x.detach().sum().item())


def _no_row_spoilt(lse_bgpt: Tensor) -> bool:
    """NaN and +∞ of the bias show here and not in the scores; −∞ is a row that reads nothing."""
    return _all_finite(lse_bgpt.masked_fill(lse_bgpt == -torch.inf, 0.0))


def _attend_pair_by_pair(
    q_bgptd: Tensor,
    k_bgsd: Tensor,
    v_bgse: Tensor,
    scores_bgpts: Tensor,
    bias_bgpts: Tensor | None,
    may_bgpts: Tensor | None,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same three results where something is not finite.

    A product of matrices multiplies what may not be read by zero, and 0 · NaN = NaN: forward in
    weights · values, backward in (gradient of scores) · keys, and there even for targets that the
    loss leaves out. So the values come from IEEE arithmetic over the readable pairs alone, and the
    gradients from the same formula with zeros in place of all that is not finite.

    What spoils a logit (q, k, bias) spoils the weights, the log-sum-exp and the output of its
    target; what spoils a value spoils the output alone.
    """
    if may_bgpts is None:
        may_bgpts = torch.ones((), dtype=torch.bool, device=scores_bgpts.device)
    may_bgpts = may_bgpts.expand_as(scores_bgpts)
    odd_key_bgs, odd_value_bgs = ~k_bgsd.isfinite().all(-1), ~v_bgse.isfinite().all(-1)
    with torch.no_grad():
        logits_bgpts = scores_bgpts if bias_bgpts is None else scores_bgpts + bias_bgpts
        weights_bgpts, lse_bgpt = softmax_and_log_sum_exp(logits_bgpts, may_bgpts)
        out_bgpte = _average_of_readable(weights_bgpts, v_bgse, may_bgpts)
        # −∞ is a fine score of finite vectors that overflow: it has weight 0
        odd_logits_bgpts = may_bgpts & (
            logits_bgpts.isnan() | (logits_bgpts == torch.inf) | odd_key_bgs[:, :, None, None, :]
        )
        odd_query_bgpt = ~q_bgptd.isfinite().all(-1)
        spoilt_bgpt = odd_logits_bgpts.any(-1) | (odd_query_bgpt & may_bgpts.any(-1))
        reads_odd_value_bgpt = (may_bgpts & odd_value_bgs[:, :, None, None, :]).any(-1)
        spoilt_out_bgpt = spoilt_bgpt | reads_odd_value_bgpt
    if not derivatives_wanted(q_bgptd, k_bgsd, v_bgse, bias_bgpts):
        return out_bgpte, lse_bgpt, weights_bgpts

    k_bgsd = _with_zeros(k_bgsd, odd_key_bgs[..., None])
    v_bgse = _with_zeros(v_bgse, odd_value_bgs[..., None])
    q_bgptd = _with_zeros(q_bgptd, (spoilt_bgpt | odd_query_bgpt)[..., None])
    if bias_bgpts is not None:
        bias_bgpts = _with_zeros(bias_bgpts.expand_as(scores_bgpts), odd_logits_bgpts)
    smooth_weights, smooth_lse = _weights(_scores(q_bgptd, k_bgsd, scale), bias_bgpts, may_bgpts)
    smooth_out = torch.einsum("bgpts,bgse->bgpte", smooth_weights, v_bgse)
    return (
        _ValueWithGradientOf.apply(out_bgpte, smooth_out, spoilt_out_bgpt[..., None]),
        _ValueWithGradientOf.apply(lse_bgpt, smooth_lse, spoilt_bgpt),
        _ValueWithGradientOf.apply(weights_bgpts, smooth_weights, spoilt_bgpt[..., None]),
    )


def derivatives_wanted(*inputs: Tensor | None) -> bool:
    """Backward, or forward, which `no_grad` does not stop and torch is left to refuse."""
    if torch.is_inference_mode_enabled():
        return False
    given = [x for x in inputs if x is not None]
    backward = torch.is_grad_enabled() and any(x.requires_grad for x in given)
    return backward or any(unpack_dual(x).tangent is not None for x in given)


def _average_of_readable(weights_bgpts: Tensor, v_bgse: Tensor, may_bgpts: Tensor) -> Tensor:
    """Weights times values in IEEE arithmetic, leaving out what may not be read.

    The finite values make a product of matrices as usual. Of the others only three things matter:
    does a target read +∞, does it read −∞, does it read NaN (or ±∞ with weight 0, or both signs)?
    """

    def reads(sources_bgpts: Tensor, kind_bgse: Tensor) -> Tensor:
        counts = torch.einsum(
            "bgpts,bgse->bgpte", sources_bgpts.to(v_bgse.dtype), kind_bgse.to(v_bgse.dtype)
        )
        return counts > 0

    finite = torch.einsum(
        "bgpts,bgse->bgpte", weights_bgpts, v_bgse.masked_fill(~v_bgse.isfinite(), 0.0)
    )
    weighty_bgpts = may_bgpts & (weights_bgpts > 0)
    weightless_bgpts = may_bgpts & (weights_bgpts == 0)
    up = reads(weighty_bgpts, v_bgse == torch.inf)
    down = reads(weighty_bgpts, v_bgse == -torch.inf)
    nan = reads(may_bgpts, v_bgse.isnan()) | reads(weightless_bgpts, v_bgse.isinf()) | up & down
    out = finite.masked_fill(up, torch.inf).masked_fill(down, -torch.inf)
    # a weight that is NaN makes all weights of its row NaN, so that up and down are False there
    return out.masked_fill(nan, torch.nan)


class _ValueWithGradientOf(torch.autograd.Function):
    """Forward `value`; backward the gradient of `smooth`, NaN where a spoilt value was used.

    A spoilt value that the loss does not use sends back exactly zero. That is the whole point:
    autograd would send back 0 · NaN. There is no forward mode, so torch refuses it.
    """

    @staticmethod
    def forward(value: Tensor, smooth: Tensor, spoilt: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[None, Tensor, None]:
        (spoilt,) = ctx.saved_tensors
        return None, gradient.masked_fill(spoilt & (gradient != 0), torch.nan), None


def _with_zeros(x: Tensor, where: Tensor) -> Tensor:
    """Zeros in the marked places, through which a gradient flows as through all others.

    There it is zero for a loss that does not use what was spoilt, and NaN for one that does.
    """
    nothing_spoilt = torch.zeros((), dtype=torch.bool, device=x.device)
    return _ValueWithGradientOf.apply(x.detach().masked_fill(where, 0.0), x, nothing_spoilt)


def _over_kv_heads(x: Tensor | None, g: int) -> Tensor | None:
    """A view of what broadcasts to (b, h, t, s) that broadcasts to (b, g, p, t, s)."""
    if x is None:
        return None
    x_bhts = x[(None,) * (4 - x.ndim)]
    if x_bhts.shape[1] == 1:
        return rearrange(x_bhts, "b 1 t s -> b 1 1 t s")
    return rearrange(x_bhts, "b (g p) t s -> b g p t s", g=g)


def without_autocast(device: torch.device):
    """Keep the dtype of scores: autocast would form them in half precision."""
    if device.type in ("cpu", "cuda") and torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def _require_same_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    _require_shaped("q", q, "b h t d")
    _require_shaped("k", k, "b h s d")
    _require_shaped("v", v, "b h s e")
    for name, x in (("k", k), ("v", v)):
        if x.shape[1] != q.shape[1]:
            raise ValueError(
                f"q and {name} must have the same h, got h={q.shape[1]} in q and "
                f"h={x.shape[1]} in {name}; with fewer key/value heads than query heads use "
                "grouped_query_attention"
            )


def _require_inputs(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    may_attend: Tensor | None,
    bias: Tensor | None,
    scale: float | None,
) -> None:
    """Refuse what has no meaning, before anything is computed."""
    _require_shaped("q", q, "b h t d")
    _require_shaped("k", k, "b g s d")
    _require_shaped("v", v, "b g s e")
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(
            f"q, k and v must have the same dtype, got {q.dtype}, {k.dtype} and {v.dtype}"
        )
    for name, x in (("k", k), ("v", v)):
        _require_device(name, x, "q", q)
    (b, h, t, d), (_, g, s, _) = q.shape, k.shape
    for letter, axis, others in (("b", 0, (k, v)), ("d", 3, (k,))):
        for name, x in zip(("k", "v"), others, strict=False):
            if q.shape[axis] != x.shape[axis]:
                raise ValueError(
                    f"q and {name} must have the same {letter}, got {letter}={q.shape[axis]} in q "
                    f"and {letter}={x.shape[axis]} in {name}"
                )
    for letter, axis in (("g", 1), ("s", 2)):
        if k.shape[axis] != v.shape[axis]:
            raise ValueError(
                f"k and v must have the same {letter}, got {letter}={k.shape[axis]} in k and "
                f"{letter}={v.shape[axis]} in v"
            )
    if d == 0:
        raise ValueError("queries and keys must have a width, got d=0")
    if g == 0 or h % g != 0:
        raise ValueError(f"g must divide h, got h={h} and g={g}")
    check_mask_and_bias(may_attend, bias, (b, h, t, s), "q", q)
    if scale is not None:
        check_scale(scale, computing_dtype(q.dtype))


def _require_shaped(name: str, x: Tensor, axes: str) -> None:
    check_floating(name, x)
    check_axes(name, x, axes)


def _require_device(name: str, x: Tensor, other: str, beside: Tensor) -> None:
    if x.device != beside.device:
        raise ValueError(
            f"{other} and {name} must be on the same device, got {other} on {beside.device} and "
            f"{name} on {x.device}; masks are made where they are needed by causal_mask(..., "
            f"device={other}.device)"
        )


def _require_broadcast(name: str, x: Tensor, bhts: tuple[int, int, int, int]) -> None:
    if not broadcasts_to(x.shape, bhts):
        raise ValueError(
            f"{name} must broadcast to (b, h, t, s) = {bhts}, got shape {tuple(x.shape)}"
        )
