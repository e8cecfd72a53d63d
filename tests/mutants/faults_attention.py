"""Faults in softmax, masks, attention, their definitions and their judges.

B01 to B18 are about masks, softmax and numerical range, B20 to B27 about the scale. Functions of
arrays know neither models nor YaRN, so three of them are here as the nearest thing: B23 (the factor
that YaRN adds to the scale) as a scale that the caller gives and the code does not use, B25 (heads
and layers exchanged) as heads that cannot be shared out, and B27 (a head's width taken to be m/h)
as a scale made from another width. As themselves they stand in faults_sizes.py, faults_layers.py
and, for the factor alone, in faults_positions.py. What B23 does to latent attention, whose scale is
(n + r) to the power −½ times the square of the factor, is planted in the sizes of DeepSeek-V2.
"""

from fault import fault

SOFTMAX = "attnlib/softmax.py"
CHECKS = "attnlib/tensor_checks.py"
MASKS = "attnlib/masks.py"
ATTENTION = "attnlib/attention.py"
DEFINITIONS = "attnlib/definitions/of_attention.py"
JUDGE = "attnlib/exercises/judge.py"

T_SOFTMAX = "tests/test_softmax.py"
T_MASKS = "tests/test_masks.py"
T_ATTENTION = "tests/test_attention.py"
T_DEFINITIONS = "tests/test_definitions.py"
T_EXERCISES = "tests/test_exercises.py"
T_REFUSALS = "tests/refusals/test_attention_refusals.py"  # run without the shape hook

_MASK_SCORES = "scores = scores.masked_fill(~where, -torch.inf)"
_MASK_WEIGHTS = "weights = weights.masked_fill(~where, 0.0)"
_DEFAULT_SCALE = "scale = q.shape[-1] ** -0.5 if scale is None else float(scale)"
_FIRST_LINE = "    g = k.shape[1]\n    dtype"

FAULTS = (
    # --- masks, softmax and numerical range ---------------------------------------------------
    fault(
        "an empty row is NaN: −∞ is taken off −∞",
        SOFTMAX,
        T_SOFTMAX,
        ("return largest.masked_fill(largest == -torch.inf, 0.0)", "return largest"),
        bug="B01",
    ),
    fault(
        "an empty row is NaN: 0 is divided by 0",
        SOFTMAX,
        T_ATTENTION,
        ("z = z.masked_fill(nothing, 1.0)", "z = z.masked_fill(nothing, 0.0)"),
        bug="B01",
    ),
    fault(
        "an empty row is uniform: −1e9 in place of −∞",
        SOFTMAX,
        T_ATTENTION,
        (_MASK_SCORES, "scores = scores.masked_fill(~where, -1e9)"),
        (_MASK_WEIGHTS, "weights = weights"),
        bug="B02",
    ),
    fault(
        "an empty row is uniform, its gradient too",
        SOFTMAX,
        T_SOFTMAX,
        (_MASK_SCORES, "scores = scores.masked_fill(~where, -1e9)"),
        (_MASK_WEIGHTS, "weights = weights"),
        bug="B02",
    ),
    fault(
        "NaN of a source that may not be read leaks forward and backward",
        ATTENTION,
        T_ATTENTION,
        ("if may_leak and not (", "if False and not ("),
        bug="B04",
    ),
    fault(
        "NaN of a key that may not be read leaks backward: only the output is looked at",
        ATTENTION,
        T_ATTENTION,
        (
            "_all_finite(scores_bgpts) and _all_finite(out_bgpte)",
            "_all_finite(out_bgpte)",
        ),
        bug="B04",
    ),
    fault(
        "NaN of a value that may not be read leaks: only the scores are looked at",
        ATTENTION,
        T_ATTENTION,
        (
            "_all_finite(scores_bgpts) and _all_finite(out_bgpte)",
            "_all_finite(scores_bgpts)",
        ),
        bug="B04",
    ),
    fault(
        "NaN of the bias leaks backward where no output is wanted: the log-sum-exp is overlooked",
        ATTENTION,
        T_ATTENTION,
        (" and _no_row_spoilt(lse_bgpt)", ""),
        bug="B04",
    ),
    fault(
        "NaN of a value spoils the gradient of the log-sum-exp",
        ATTENTION,
        T_ATTENTION,
        (
            "apply(lse_bgpt, smooth_lse, spoilt_bgpt)",
            "apply(lse_bgpt, smooth_lse, spoilt_out_bgpt)",
        ),
        bug="B04",
    ),
    fault(
        "NaN of a value spoils the gradient of the weights",
        ATTENTION,
        T_ATTENTION,
        (
            "apply(weights_bgpts, smooth_weights, spoilt_bgpt[..., None])",
            "apply(weights_bgpts, smooth_weights, spoilt_out_bgpt[..., None])",
        ),
        bug="B04",
    ),
    fault(
        "a key is zero in gradients because its value is NaN",
        ATTENTION,
        T_ATTENTION,
        (
            "k_bgsd = _with_zeros(k_bgsd, odd_key_bgs[..., None])",
            "k_bgsd = _with_zeros(k_bgsd, (odd_key_bgs | odd_value_bgs)[..., None])",
        ),
        bug="B04",
    ),
    fault(
        "NaN of a key leaks backward from the second path",
        ATTENTION,
        T_ATTENTION,
        ("k_bgsd = _with_zeros(k_bgsd, odd_key_bgs[..., None])", "k_bgsd = k_bgsd"),
        bug="B04",
    ),
    fault(
        "NaN of a value leaks backward from the second path",
        ATTENTION,
        T_ATTENTION,
        ("v_bgse = _with_zeros(v_bgse, odd_value_bgs[..., None])", "v_bgse = v_bgse"),
        bug="B04",
    ),
    fault(
        "NaN of a query leaks backward from the second path",
        ATTENTION,
        T_ATTENTION,
        (
            "q_bgptd = _with_zeros(q_bgptd, (spoilt_bgpt | odd_query_bgpt)[..., None])",
            "q_bgptd = q_bgptd",
        ),
        bug="B04",
    ),
    fault(
        "NaN of a query with nothing to read leaks backward",
        ATTENTION,
        T_ATTENTION,
        ("(spoilt_bgpt | odd_query_bgpt)[..., None]", "spoilt_bgpt[..., None]"),
        bug="B04",
    ),
    fault(
        "NaN of the bias leaks backward from the second path",
        ATTENTION,
        T_ATTENTION,
        (
            "bias_bgpts = _with_zeros(bias_bgpts.expand_as(scores_bgpts), odd_logits_bgpts)",
            "bias_bgpts = bias_bgpts",
        ),
        bug="B04",
    ),
    fault(
        "NaN of a query leaks backward where there is no mask",
        ATTENTION,
        T_ATTENTION,
        (
            "may_leak = may_bgpts is not None or out_bgpte.requires_grad",
            "may_leak = may_bgpts is not None",
        ),
        bug="B04",
    ),
    fault(
        "NaN at a place that bias forbids leaks",
        ATTENTION,
        T_ATTENTION,
        ("allowed = bias_bgpts != -torch.inf", "allowed = bias_bgpts == bias_bgpts"),
        bug="B04",
    ),
    fault(
        "NaN that is read is hidden: the second path averages the finite values",
        ATTENTION,
        T_ATTENTION,
        ("return out.masked_fill(nan, torch.nan)", "return out"),
        bug="B04",
    ),
    fault(
        "∞ that is read with weight 0 is not NaN",
        ATTENTION,
        T_ATTENTION,
        (" | reads(weightless_bgpts, v_bgse.isinf())", ""),
        bug="B04",
    ),
    fault(
        "gradients of a loss that reads NaN look healthy",
        ATTENTION,
        T_ATTENTION,
        ("gradient.masked_fill(spoilt & (gradient != 0), torch.nan)", "gradient"),
        bug="B04",
    ),
    fault(
        "gradients of every loss are NaN as soon as one target is",
        ATTENTION,
        T_ATTENTION,
        ("spoilt & (gradient != 0)", "spoilt"),
        bug="B04",
    ),
    fault(
        "an excluded score that is NaN spoils the zeros of its row",
        SOFTMAX,
        T_SOFTMAX,
        (_MASK_WEIGHTS, "weights = weights"),
        bug="B04",
    ),
    fault(
        "the causal diagonal starts top left",
        MASKS,
        T_MASKS,
        (
            "torch.arange(n_targets, device=device) + n_sources - n_targets",
            "torch.arange(n_targets, device=device)",
        ),
        bug="B06",
    ),
    fault(
        "the causal diagonal starts top left, seen in attention",
        MASKS,
        T_ATTENTION,
        (
            "torch.arange(n_targets, device=device) + n_sources - n_targets",
            "torch.arange(n_targets, device=device)",
        ),
        bug="B06",
    ),
    fault(
        "a cached step of several tokens does not see what came before it",
        MASKS,
        T_ATTENTION,
        ("return behind_ts >= 0\n", "return (behind_ts >= 0) & (behind_ts < n_targets)\n"),
        bug="B08",
    ),
    fault(
        "padding stands on the target axis",
        MASKS,
        T_MASKS,
        ("return is_token[:, None, None, :]", "return is_token[:, None, :, None]"),
        bug="B09",
    ),
    fault(
        "padding is read and tokens are not",
        MASKS,
        T_ATTENTION,
        ("return is_token[:, None, None, :]", "return ~is_token[:, None, None, :]"),
        bug="B09",
    ),
    fault(
        "the mask comes after the softmax",
        SOFTMAX,
        T_ATTENTION,
        (_MASK_SCORES, "scores = scores"),
        bug="B11",
    ),
    fault(
        "the mask has the wrong infinity",
        SOFTMAX,
        T_ATTENTION,
        (_MASK_SCORES, "scores = scores.masked_fill(~where, torch.inf)"),
        bug="B11",
    ),
    fault(
        "the mask is turned round",
        SOFTMAX,
        T_ATTENTION,
        (_MASK_SCORES, "scores = scores.masked_fill(where, -torch.inf)"),
        (_MASK_WEIGHTS, "weights = weights.masked_fill(where, 0.0)"),
        bug="B11",
    ),
    fault(
        "a scale of 0 counts as not given",
        ATTENTION,
        T_ATTENTION,
        (_DEFAULT_SCALE, "scale = float(scale or q.shape[-1] ** -0.5)"),
        bug="B13",
    ),
    fault(
        "a window of 0 counts as not given",
        MASKS,
        T_REFUSALS,
        ("    if window is not None:\n", "    if window:\n"),
        ("    if window is None:\n", "    if not window:\n"),
        bug="B13",
    ),
    fault(
        "the mask is multiplied into the scores",
        SOFTMAX,
        T_ATTENTION,
        (_MASK_SCORES, "scores = scores * where"),
        (_MASK_WEIGHTS, "weights = weights"),
        bug="B14",
    ),
    fault(
        "scores are formed in half precision and overflow",
        SOFTMAX,
        T_ATTENTION,
        ("return torch.promote_types(dtype, torch.float32)", "return dtype"),
        bug="B15",
    ),
    fault(
        "the least number of fp16 is filled in for −∞",
        SOFTMAX,
        T_SOFTMAX,
        (_MASK_SCORES, "scores = scores.masked_fill(~where, -65504.0)"),
        bug="B15",
    ),
    fault(
        "the bias is added in half precision, where a large one overflows",
        ATTENTION,
        T_ATTENTION,
        (
            "scores_bgpts = scores_bgpts + bias_bgpts",
            "scores_bgpts = scores_bgpts + (bias_bgpts.half() + bias_bgpts.half()) / 2",
        ),
        bug="B15",
    ),
    fault(
        "weights are rounded to the dtype of the inputs before they average",
        ATTENTION,
        T_ATTENTION,
        (
            'out_bgpte = torch.einsum("bgpts,bgse->bgpte", weights_bgpts, v_bgse)',
            'out_bgpte = torch.einsum("bgpts,bgse->bgpte", weights_bgpts.to(q.dtype).to(dtype), '
            "v_bgse)",
        ),
        bug="B15",
    ),
    fault(
        "scores are rounded to the dtype of the inputs before the softmax",
        ATTENTION,
        T_ATTENTION,
        (
            "weights_bgpts, lse_bgpt = _weights(scores_bgpts, bias_bgpts, may_bgpts)",
            "weights_bgpts, lse_bgpt = _weights(scores_bgpts.to(q.dtype), bias_bgpts, may_bgpts)",
        ),
        bug="B15",
    ),
    fault(
        "autocast lowers the precision of scores",
        ATTENTION,
        T_ATTENTION,
        ('if device.type in ("cpu", "cuda") and', "if False and"),
        bug="B15",
    ),
    fault(
        "the largest score is not taken off",
        SOFTMAX,
        T_SOFTMAX,
        ("largest = _largest(scores.detach())", "largest = torch.zeros_like(scores[..., :1])"),
        bug="B17",
    ),
    fault(
        "the sum is over all rows",
        SOFTMAX,
        T_SOFTMAX,
        ("z = exponentials.sum(-1, keepdim=True)", "z = exponentials.sum()[None]"),
        bug="B17",
    ),
    fault(
        "a target sees one step of its future",
        MASKS,
        T_ATTENTION,
        ("return behind_ts >= 0\n", "return behind_ts >= -1\n"),
        bug="B18",
    ),
    # --- scale --------------------------------------------------------------------------------
    fault(
        "the scale is made from the width of the model",
        ATTENTION,
        T_ATTENTION,
        (_DEFAULT_SCALE, _DEFAULT_SCALE.replace("q.shape[-1]", "(q.shape[1] * q.shape[-1])")),
        bug="B20",
    ),
    fault(
        "scores are multiplied by √d",
        ATTENTION,
        T_ATTENTION,
        (_DEFAULT_SCALE, _DEFAULT_SCALE.replace("-0.5", "0.5")),
        bug="B21",
    ),
    fault(
        "scores are divided by d",
        ATTENTION,
        T_ATTENTION,
        (_DEFAULT_SCALE, _DEFAULT_SCALE.replace("-0.5", "-1.0")),
        bug="B22",
    ),
    fault(
        "the scale is missing",
        ATTENTION,
        T_ATTENTION,
        ("q_bgptd * scale, k_bgsd)", "q_bgptd, k_bgsd)"),
        bug="B22",
    ),
    fault(
        "the scale is applied twice, to queries and to keys",
        ATTENTION,
        T_ATTENTION,
        ("q_bgptd * scale, k_bgsd)", "q_bgptd * scale, k_bgsd * scale)"),
        bug="B22",
    ),
    fault(
        "the scale is missing in the second path",
        ATTENTION,
        T_ATTENTION,
        (
            "_weights(_scores(q_bgptd, k_bgsd, scale), bias",
            "_weights(_scores(q_bgptd, k_bgsd, 1.0), bias",
        ),
        bug="B22",
    ),
    fault(
        "the scale is applied after a product that overflows",
        ATTENTION,
        T_ATTENTION,
        ("q_bgptd * scale, k_bgsd)", "q_bgptd, k_bgsd) * scale"),
        bug="B22",
    ),
    fault(
        "a given scale is multiplied by 1/√d",
        ATTENTION,
        T_ATTENTION,
        (_DEFAULT_SCALE, "scale = q.shape[-1] ** -0.5 * (1.0 if scale is None else scale)"),
        bug="B23",
    ),
    fault(
        "a given scale is not used",
        ATTENTION,
        T_ATTENTION,
        (_DEFAULT_SCALE, "scale = q.shape[-1] ** -0.5"),
        bug="B23",
    ),
    fault(
        "heads that cannot be shared out evenly are not refused",
        ATTENTION,
        T_REFUSALS,
        ("if g == 0 or h % g != 0:", "if False:"),
        bug="B25",
    ),
    fault(
        "the scale is made from the width of the values",
        ATTENTION,
        T_ATTENTION,
        (_DEFAULT_SCALE, _DEFAULT_SCALE.replace("q.shape[-1]", "max(v.shape[-1], 1)")),
        bug="B27",
    ),
    # --- windows, prefixes ----------------------------------------------------------------------
    fault(
        "a causal window holds W + 1 sources",
        MASKS,
        T_MASKS,
        ("(behind_ts < window)", "(behind_ts <= window)"),
        bug="B40",
    ),
    fault(
        "a causal window leaves the target out",
        MASKS,
        T_MASKS,
        ("(behind_ts >= 0) & (behind_ts < window)", "(behind_ts > 0) & (behind_ts <= window)"),
        bug="B40",
    ),
    fault(
        "a window on both sides reaches one too far",
        MASKS,
        T_MASKS,
        (".abs() < window", ".abs() <= window"),
        bug="B46",
    ),
    fault(
        "a prefix is one source too long",
        MASKS,
        T_MASKS,
        ("device=device) < n_prefix", "device=device) <= n_prefix"),
    ),
    fault(
        "what follows a prefix is read by all",
        MASKS,
        T_MASKS,
        ("(behind_ts >= 0) | in_prefix_s", "(behind_ts >= -1) | in_prefix_s"),
    ),
    # --- heads ----------------------------------------------------------------------------------
    fault(
        "query head i reads key/value head i mod g",
        ATTENTION,
        T_ATTENTION,
        (
            'rearrange(q, "b (g p) t d -> b g p t d", g=g)',
            'rearrange(q, "b (p g) t d -> b g p t d", g=g)',
        ),
        ('"b g p t e -> b (g p) t e"', '"b g p t e -> b (p g) t e"'),
        bug="B50",
    ),
    fault(
        "what torch's kernel makes of NaN is believed",
        ATTENTION,
        T_ATTENTION,
        ("if least.item() > 0 and most.item() < inf:", "if least is not None:"),
        bug="B04",
    ),
    fault(
        "the zeros that torch's kernel makes of NaN are believed",
        ATTENTION,
        T_ATTENTION,
        ("if least.item() > 0 and most.item() < inf:", "if most.item() < inf:"),
        bug="B04",
    ),
    fault(
        "torch's kernel is asked where gradients are wanted",
        ATTENTION,
        T_ATTENTION,
        ("        and not derivatives_wanted(*tensors)\n", ""),
    ),
    fault(
        "torch's kernel is asked in half precision",
        ATTENTION,
        T_ATTENTION,
        ("        and one.dtype == computing_dtype(one.dtype)\n", ""),
        bug="B15",
    ),
    fault(
        "torch's kernel is asked where there is a mask",
        ATTENTION,
        T_ATTENTION,
        ("        may_attend is None\n        and bias is None\n", "        bias is None\n"),
    ),
    fault(
        "torch's kernel scales for the second time",
        ATTENTION,
        T_ATTENTION,
        (
            "scaled_dot_product_attention(q_bgpd, k, v, scale=1.0)",
            "scaled_dot_product_attention(q_bgpd, k, v)",
        ),
        bug="B22",
    ),
    fault(
        "torch's kernel scales what has overflowed",
        ATTENTION,
        T_ATTENTION,
        ("scaled = q * (d**-0.5 if scale is None else float(scale))", "scaled = q"),
        ("k, v, scale=1.0)", "k, v, scale=scale)"),
        bug="B22",
    ),
    fault(
        "heads are shared only where there is one for each query head",
        ATTENTION,
        T_ATTENTION,
        (
            _FIRST_LINE,
            "    own = torch.arange(q.shape[1], device=q.device).clamp(max=k.shape[1] - 1)\n"
            "    k, v = k[:, own], v[:, own]\n" + _FIRST_LINE,
        ),
        bug="B52",
    ),
    fault(
        "the heads of the mask take turns",
        ATTENTION,
        T_ATTENTION,
        (
            'rearrange(x_bhts, "b (g p) t s -> b g p t s", g=g)',
            'rearrange(x_bhts, "b (p g) t s -> b g p t s", g=g)',
        ),
        bug="B50",
    ),
    fault(
        "the heads of the weights take turns",
        ATTENTION,
        T_ATTENTION,
        ('"b g p t s -> b (g p) t s"', '"b g p t s -> b (p g) t s"'),
        bug="B50",
    ),
    fault(
        "the heads of the log-sum-exp take turns",
        ATTENTION,
        T_ATTENTION,
        ('"b g p t -> b (g p) t"', '"b g p t -> b (p g) t"'),
        bug="B50",
    ),
    fault(
        "keys and values are copied out to every query head",
        ATTENTION,
        T_ATTENTION,
        (
            _FIRST_LINE,
            "    p = q.shape[1] // k.shape[1]\n"
            "    k, v = k.repeat_interleave(p, 1), v.repeat_interleave(p, 1)\n" + _FIRST_LINE,
        ),
        bug="B36",
    ),
    fault(
        "the definition gives query head i key/value head i mod g",
        DEFINITIONS,
        T_DEFINITIONS,
        ("j = i // p", "j = i % n_kv_heads"),
        bug="B50",
    ),
    # --- bias, log-sum-exp, merge -----------------------------------------------------------------
    fault(
        "the bias is dropped",
        ATTENTION,
        T_ATTENTION,
        ("scores_bgpts = scores_bgpts + bias_bgpts", "scores_bgpts = scores_bgpts"),
    ),
    fault(
        "the bias is scaled",
        ATTENTION,
        T_ATTENTION,
        ("_over_kv_heads(bias, g).to(dtype)", "_over_kv_heads(bias, g).to(dtype) * abs(scale)"),
    ),
    fault(
        "the bias is taken off",
        ATTENTION,
        T_ATTENTION,
        ("scores_bgpts = scores_bgpts + bias_bgpts", "scores_bgpts = scores_bgpts - bias_bgpts"),
    ),
    fault(
        "the log-sum-exp lacks the largest score",
        SOFTMAX,
        T_SOFTMAX,
        ("lse = (largest + z.log())", "lse = z.log()"),
    ),
    fault(
        "the log-sum-exp is the largest score",
        SOFTMAX,
        T_SOFTMAX,
        ("lse = (largest + z.log())", "lse = (largest + 0 * z)"),
    ),
    fault(
        "the log-sum-exp of nothing is 0",
        SOFTMAX,
        T_SOFTMAX,
        (".masked_fill(nothing, -torch.inf)", ".masked_fill(nothing, 0.0)"),
    ),
    fault(
        "the log-sum-exp of infinity is NaN",
        SOFTMAX,
        T_SOFTMAX,
        ("lse = lse.masked_fill(largest == torch.inf, torch.inf)", "lse = lse"),
    ),
    fault(
        "a window beyond the range of torch is not made shorter",
        MASKS,
        T_MASKS,
        ("window = min(window, n_sources)", "window = window"),
    ),
    fault(
        "a merge takes the mean of the parts",
        SOFTMAX,
        T_SOFTMAX,
        ("out = sum(w[..., None] * o for", "out = sum(o / len(outs) for"),
    ),
    fault(
        "garbage in a part that read nothing leaks into the merge",
        SOFTMAX,
        T_SOFTMAX,
        ("out.masked_fill((lse == -torch.inf)[..., None], 0.0)", "out"),
    ),
    fault(
        "a gradient flows into the output only",
        SOFTMAX,
        T_SOFTMAX,
        ("lse = (largest + z.log())", "lse = (largest + z.detach().log())"),
    ),
    fault(
        "the gradient of the normaliser is lost",
        SOFTMAX,
        T_SOFTMAX,
        ("weights = exponentials / z", "weights = exponentials / z.detach()"),
    ),
    fault(
        "results come in float32",
        ATTENTION,
        T_ATTENTION,
        ('"b g p t e -> b (g p) t e").to(v.dtype)', '"b g p t e -> b (g p) t e")'),
    ),
    fault(
        "the shape in the signature is wrong",
        ATTENTION,
        T_ATTENTION,
        (
            ') -> Float[Tensor, "b h t s"]:',
            ') -> Float[Tensor, "b h s t"]:',
        ),
    ),
    # --- refusals ---------------------------------------------------------------------------------
    fault(
        "a mask of numbers is taken",
        CHECKS,
        T_REFUSALS,
        ("if not isinstance(x, Tensor) or x.dtype != torch.bool:", "if False:"),
    ),
    fault(
        "whole numbers are taken for numbers with a fraction",
        CHECKS,
        T_REFUSALS,
        ("or x.dtype not in FLOATING:", "or False:"),
    ),
    fault(
        "another number of axes is taken",
        CHECKS,
        T_REFUSALS,
        ("    if x.ndim != len(letters):", "    if False:"),
    ),
    fault(
        "a mask that does not broadcast is not refused",
        ATTENTION,
        T_REFUSALS,
        ("    if not broadcasts_to(x.shape, bhts):", "    if False:"),
    ),
    fault(
        "a mask may be larger than the scores",
        CHECKS,
        T_REFUSALS,
        ("size in (1, wanted)", "1 in (size, wanted) or size == wanted"),
    ),
    fault(
        "queries of width 0 are not refused",
        ATTENTION,
        T_REFUSALS,
        ("    if d == 0:", "    if d < 0:"),
    ),
    fault(
        "different dtypes are not refused",
        ATTENTION,
        T_REFUSALS,
        ("if not q.dtype == k.dtype == v.dtype:", "if not q.dtype == q.dtype:"),
    ),
    fault(
        "different devices are not refused",
        ATTENTION,
        T_REFUSALS,
        ("    if x.device != beside.device:", "    if False:"),
    ),
    fault(
        "a scale beyond the range of fp32 is taken",
        ATTENTION,
        T_REFUSALS,
        ("    if abs(number) > torch.finfo(dtype).max:", "    if False:"),
    ),
    fault(
        "an output without axes is merged",
        SOFTMAX,
        T_REFUSALS,
        ("out.shape[:-1] != lse.shape or out.ndim == 0", "out.shape[:-1] != lse.shape"),
    ),
    fault(
        "a prefix is checked after the mask is built",
        MASKS,
        T_REFUSALS,
        (
            "    if n_prefix > n_sources:\n",
            "    torch.arange(n_sources)\n    if n_prefix > n_sources:\n",
        ),
    ),
    fault(
        "different batches are not refused",
        ATTENTION,
        T_REFUSALS,
        ('(("b", 0, (k, v)), ("d", 3, (k,)))', '(("d", 3, (k,)),)'),
    ),
    # --- judges and definitions -------------------------------------------------------------------
    fault(
        "a judge overlooks that an argument was changed",
        JUDGE,
        T_EXERCISES,
        ("        return np.array_equal(np.asarray(a), b)", "        return True"),
    ),
    fault(
        "a judge accepts whatever has the right shape",
        JUDGE,
        T_EXERCISES,
        (
            "x.shape == y.shape and np.allclose(x, y, equal_nan=True, **TOLERANCE)",
            "x.shape == y.shape",
        ),
    ),
    fault(
        "a judge looks at the first case alone",
        JUDGE,
        T_EXERCISES,
        ("if not all(agrees):", "if not agrees[0]:"),
    ),
    fault(
        "the definition of the Jacobian has the wrong sign",
        DEFINITIONS,
        T_DEFINITIONS,
        ("p[i] * ((i == j) - p[j])", "p[i] * ((i == j) + p[j])"),
    ),
    fault(
        "the definition of entropy is in bits",
        DEFINITIONS,
        T_DEFINITIONS,
        ("-p_j * np.log(p_j)", "-p_j * np.log2(p_j)"),
    ),
    fault(
        "the definition of attention reads what it may not",
        DEFINITIONS,
        T_DEFINITIONS,
        ("if (may_attend is None or may_attend[t][s])", "if (may_attend is None or True)"),
    ),
)
