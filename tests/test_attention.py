"""The claims of chapters/attention.md about attention, each held to at least one oracle."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from attnlib import (
    attention,
    attention_weights,
    attention_with_lse,
    causal_mask,
    definitions,
    dot_product_attention,
    grouped_query_attention,
    log_sum_exp,
    merge_attention,
    padding_mask,
)
from attnlib.attention import _attend

# All different, so that no two axes can be confused; h = g·p.
B, G, P, T, S, D, E = 2, 3, 4, 5, 7, 11, 13
H = G * P
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
LOW = [torch.float16, torch.bfloat16]


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def qkv(dtype: torch.dtype = torch.float64, t: int = T, s: int = S, g: int = G):
    shapes = (B, H, t, D), (B, g, s, D), (B, g, s, E)
    return tuple(random(*shape, seed=i).to(dtype) for i, shape in enumerate(shapes))


def some_mask(seed: int = 3) -> torch.Tensor:
    """A mask for (b, h, t, s) that leaves one target of each head with nothing to read."""
    mask = random(B, H, T, S, seed=seed) > -0.3
    mask[:, :, 2] = False
    return mask


def defined(q, k, v, may_attend=None, bias=None, scale=None) -> torch.Tensor:
    arrays = [None if x is None else x.detach().double().numpy() for x in (q, k, v, bias)]
    may = None if may_attend is None else may_attend.numpy()
    with np.errstate(invalid="ignore", over="ignore"):
        out = definitions.grouped_query_attention(*arrays[:3], may, arrays[3], scale)
    return torch.from_numpy(out)


def assert_equal(actual: torch.Tensor, wanted: torch.Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(actual, wanted, rtol=0, atol=atol, equal_nan=True)


@st.composite
def problems(draw):
    """Everything that attention takes, in float64, of any size from nothing upwards."""
    b, g, p = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    t, s = draw(st.integers(0, 4)), draw(st.integers(0, 5))
    d, e = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    seed = draw(st.integers(0, 999))
    q = random(b, g * p, t, d, seed=seed) * draw(st.sampled_from([0.1, 1, 30]))
    k, v = random(b, g, s, d, seed=seed + 1), random(b, g, s, e, seed=seed + 2)

    def any_shape() -> tuple[int, ...]:
        sizes = [draw(st.sampled_from([1, size])) for size in (b, g * p, t, s)]
        return tuple(sizes[draw(st.integers(0, 4)) :])

    may_attend = bias = scale = None
    if draw(st.booleans()):
        may_attend = random(*any_shape(), seed=seed + 3) > draw(st.sampled_from([-0.7, 0.7]))
    if draw(st.booleans()):
        bias = random(*any_shape(), seed=seed + 4)
        if draw(st.booleans()):
            bias = bias.masked_fill(bias > 0.5, -torch.inf)
    if draw(st.booleans()):
        scale = draw(st.sampled_from([-1.5, 0.0, 0.7]))
    return (q, k, v), {"may_attend": may_attend, "bias": bias, "scale": scale}


# --- oracle 1: the definition ---------------------------------------------------------------


@given(problems())
def test_attention_is_its_definition(problem):
    tensors, options = problem
    assert_equal(grouped_query_attention(*tensors, **options), defined(*tensors, **options))


@given(problems())
def test_weights_and_lse_belong_to_the_same_attention(problem):
    (q, k, v), options = problem
    out, lse = attention_with_lse(q, k, v, **options)
    weights = attention_weights(q, k, **options)
    p = q.shape[1] // k.shape[1]
    values = v.repeat_interleave(p, dim=1)
    assert_equal(out, grouped_query_attention(q, k, v, **options))
    assert_equal(weights @ values, out)
    reads = lse > -torch.inf
    assert_equal(weights.sum(-1), reads.double())
    scale = q.shape[-1] ** -0.5 if options["scale"] is None else options["scale"]
    scores = scale * torch.einsum("bhtd,bhsd->bhts", q, k.repeat_interleave(p, dim=1))
    scores = scores + (0 if options["bias"] is None else options["bias"])
    assert_equal(lse, log_sum_exp(scores, options["may_attend"]))


# --- oracle 2: identities and limits --------------------------------------------------------


def test_as_many_kv_heads_as_query_heads_is_multi_head_attention():
    q, k, v = qkv(g=H)
    assert_equal(grouped_query_attention(q, k, v), dot_product_attention(q, k, v), atol=0)


def test_one_kv_head_is_read_by_every_query_head():
    q, k, v = qkv(g=1)
    copies = k.expand(B, H, S, D), v.expand(B, H, S, E)
    assert_equal(grouped_query_attention(q, k, v), dot_product_attention(q, *copies))


def test_sharing_kv_heads_is_copying_each_to_p_neighbours():
    q, k, v = qkv()
    copies = k.repeat_interleave(P, dim=1), v.repeat_interleave(P, dim=1)
    for options in ({}, {"may_attend": some_mask(), "bias": random(H, T, S, seed=5)}):
        assert_equal(
            grouped_query_attention(q, k, v, **options),
            dot_product_attention(q, *copies, **options),
        )


def test_order_of_sources_does_not_matter():
    q, k, v = qkv()
    order = torch.randperm(S, generator=torch.Generator().manual_seed(4))
    mask = some_mask()
    assert_equal(
        grouped_query_attention(q, k[:, :, order], v[:, :, order], may_attend=mask[..., order]),
        grouped_query_attention(q, k, v, may_attend=mask),
    )


def test_targets_in_another_order_give_outputs_in_that_order():
    q, k, v = qkv()
    order = torch.tensor([3, 0, 4, 1, 2])
    assert_equal(
        grouped_query_attention(q[:, :, order], k, v),
        grouped_query_attention(q, k, v)[:, :, order],
        atol=1e-15,
    )


def test_scale_zero_gives_the_mean_and_a_large_scale_the_value_of_the_best_key():
    q, k, v = qkv(g=H)
    mean = v.mean(2, keepdim=True).expand(B, H, T, E)
    assert_equal(dot_product_attention(q, k, v, scale=0.0), mean, atol=1e-15)
    best = torch.einsum("bhtd,bhsd->bhts", q, k).argmax(-1)
    chosen = torch.take_along_dim(v, best[..., None], dim=2)
    assert_equal(dot_product_attention(q, k, v, scale=1e6), chosen, atol=0)


def test_the_default_scale_is_one_over_root_d():
    q, k, v = qkv()
    for d in (1, 4, 9):
        assert_equal(
            grouped_query_attention(q[..., :d], k[..., :d], v),
            grouped_query_attention(q[..., :d] / d**0.5, k[..., :d], v, scale=1.0),
        )


def test_a_common_vector_added_to_all_keys_changes_nothing():
    q, k, v = qkv()
    assert_equal(
        grouped_query_attention(q, k + random(D, seed=9), v), grouped_query_attention(q, k, v)
    )


def test_a_constant_bias_changes_only_the_log_sum_exp():
    q, k, v = qkv()
    constant = random(B, H, T, 1, seed=5)
    out, lse = attention_with_lse(q, k, v)
    shifted, shifted_lse = attention_with_lse(q, k, v, bias=constant)
    assert_equal(shifted, out)
    assert_equal(shifted_lse, lse + constant[..., 0])


def test_the_bias_is_added_after_scaling():
    q, k, _ = qkv()
    bias = random(T, S, seed=5)
    zero = torch.zeros_like(q)
    wanted = torch.softmax(bias, -1)
    assert_equal(attention_weights(zero, k, bias=bias), wanted.expand(B, H, T, S))
    assert_equal(attention_weights(zero, k, bias=bias, scale=17.0), wanted.expand(B, H, T, S))


def test_the_output_lies_between_the_least_and_the_largest_value_that_is_read():
    q, k, v = qkv(g=H)
    mask = causal_mask(T, S)
    out = dot_product_attention(q, k, v, may_attend=mask)
    for t in range(T):
        read = v[:, :, mask[t]]
        assert (out[:, :, t] <= read.amax(2) + 1e-14).all()
        assert (out[:, :, t] >= read.amin(2) - 1e-14).all()


@pytest.mark.parametrize("window", [None, 1, 3, 20])
def test_the_last_targets_alone_give_the_rows_of_the_whole(window):
    q, k, v = qkv(t=S)
    whole = grouped_query_attention(q, k, v, may_attend=causal_mask(S, window=window))
    for n in range(S + 1):
        mask = causal_mask(n, S, window=window)
        assert_equal(
            grouped_query_attention(q[:, :, S - n :], k, v, may_attend=mask), whole[:, :, S - n :]
        )


def test_decoding_one_token_after_another_gives_the_rows_of_the_whole():
    q, k, v = qkv(t=S)
    whole = grouped_query_attention(q, k, v, may_attend=causal_mask(S))
    for t in range(S):
        past = slice(0, t + 1)
        step = grouped_query_attention(q[:, :, t : t + 1], k[:, :, past], v[:, :, past])
        assert_equal(step, whole[:, :, t : t + 1])


@given(
    problem=problems(),
    cuts=st.lists(st.integers(0, 5), max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_attention_over_pieces_merges_to_attention_over_all(problem, cuts, order):
    (q, k, v), options = problem
    s = k.shape[2]
    edges = [0, *sorted(min(cut, s) for cut in cuts), s]
    pieces = [slice(edges[i], edges[i + 1]) for i in range(len(edges) - 1)]
    order.shuffle(pieces)

    def columns(x, piece):
        if x is None or x.ndim == 0 or x.shape[-1] == 1 != s:
            return x
        return x[..., piece]

    parts = [
        attention_with_lse(
            q,
            k[:, :, piece],
            v[:, :, piece],
            may_attend=columns(options["may_attend"], piece),
            bias=columns(options["bias"], piece),
            scale=options["scale"],
        )
        for piece in pieces
    ]
    for merged, whole in zip(
        merge_attention(parts), attention_with_lse(q, k, v, **options), strict=True
    ):
        assert_equal(merged, whole)


def test_batch_elements_do_not_see_each_other():
    q, k, v = qkv()
    mask = some_mask()
    for b in range(B):
        alone = [x[b : b + 1] for x in (q, k, v)]
        assert_equal(
            grouped_query_attention(*alone, may_attend=mask[b : b + 1]),
            grouped_query_attention(q, k, v, may_attend=mask)[b : b + 1],
        )


# --- oracle 3: cases whose answer is seen ---------------------------------------------------


def test_query_head_i_reads_kv_head_i_div_p():
    q, k, _ = qkv()
    v = torch.arange(3.0, dtype=torch.float64).reshape(1, G, 1, 1).expand(B, G, S, 1)
    heads = grouped_query_attention(q, k, v)[0, :, 0, 0]
    assert heads.round(decimals=12).tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]


def test_attention_is_the_mean_of_what_may_be_read_when_all_keys_are_equal():
    q, k = torch.ones(1, 1, 3, 2), torch.ones(1, 1, 4, 2)
    v = torch.tensor([1.0, 3.0, 5.0, 90.0]).reshape(1, 1, 4, 1)
    out = dot_product_attention(q, k, v, may_attend=causal_mask(3, 4, window=2))
    assert out.flatten().tolist() == [2.0, 4.0, 47.5]


def test_padding_is_never_read():
    q, k, v = qkv()
    is_token = torch.tensor([[False, False] + [True] * 5, [True] * 7])
    out = grouped_query_attention(q, k, v, may_attend=padding_mask(is_token))
    assert_equal(out[:1], grouped_query_attention(q[:1], k[:1, :, 2:], v[:1, :, 2:]))
    assert_equal(out[1:], grouped_query_attention(q[1:], k[1:], v[1:]))


@pytest.mark.parametrize("scale_and_size", [(None, 2e18), (1.0, 1e18)])
def test_the_scale_is_applied_before_the_product(scale_and_size):
    scale, size = scale_and_size
    # 128 · (2e18)² overflows in fp32, divided by √128 it does not
    q, k = torch.full((1, 1, 1, 128), size), torch.full((1, 1, 3, 128), size)
    v = torch.tensor([1.0, 2.0, 6.0]).reshape(1, 1, 3, 1)
    assert dot_product_attention(q, k, v, scale=scale).item() == 3.0


def test_a_product_that_would_fall_out_of_range_before_it_is_scaled_keeps_its_weight():
    # −4e38 and −3e38 are −∞ in fp32; scaled they are −4 and −3. Values are as wide as keys, so that
    # torch's kernel is asked
    q, k = torch.full((1, 1, 1, 2), 1e19), torch.tensor([[[[-2e19] * 2, [-1.5e19] * 2]]])
    v = torch.tensor([[[[1.0, 1.0], [2.0, 2.0]]]])
    with torch.inference_mode():
        out = dot_product_attention(q, k, v, scale=1e-38)
    assert out.flatten().tolist() == pytest.approx([1 + 1 / (1 + math.exp(-1))] * 2, rel=1e-6)


@pytest.mark.parametrize("dtype", LOW)
def test_scores_beyond_the_range_of_half_precision_are_formed_in_float32(dtype):
    # q·k = 131,072 overflows in fp16; scaled by 1/16 it does not, but a step of fp16 is 8 there
    q = torch.full((1, 1, 1, 128), 32.0, dtype=dtype)
    k = torch.full((1, 1, 3, 128), 32.0, dtype=dtype)
    v = torch.tensor([1.0, 2.0, 6.0], dtype=dtype).reshape(1, 1, 3, 1)
    assert dot_product_attention(q, k, v).item() == 3.0
    k[0, 0, 1, 0] = 32.25  # its score grows by 0.5, and every number on the way is exact in fp32
    out, exact = dot_product_attention(q, k, v, scale=1 / 16), defined(q, k, v, scale=1 / 16)
    # rounded once to the dtype, after exponentials and sums of three terms in fp32
    assert_equal(out.double(), exact, atol=torch.finfo(dtype).eps / 2 * exact.item() + 2.0**-20)


# --- oracle 4: an independent library -------------------------------------------------------


def test_agrees_with_torch():
    q, k, v = qkv(g=H)
    mask = random(B, H, T, S, seed=3) > -0.3
    bias = random(1, H, T, S, seed=5)
    for ours, theirs in [
        ({}, {}),
        ({"scale": 0.3}, {"scale": 0.3}),
        ({"may_attend": mask}, {"attn_mask": mask}),
        ({"bias": bias}, {"attn_mask": bias}),
        ({"bias": bias, "may_attend": mask}, {"attn_mask": bias.masked_fill(~mask, -torch.inf)}),
    ]:
        assert_equal(
            dot_product_attention(q, k, v, **ours), scaled_dot_product_attention(q, k, v, **theirs)
        )


def test_shared_kv_heads_agree_with_torch_enable_gqa():
    q, k, v = qkv()
    for ours, theirs in [
        ({}, {}),
        ({"may_attend": some_mask()}, {"attn_mask": some_mask()}),
    ]:
        wanted = scaled_dot_product_attention(q, k, v, enable_gqa=True, **theirs)
        assert_equal(grouped_query_attention(q, k, v, **ours), wanted)


def test_fewer_targets_than_sources_agree_with_torch_lower_right():
    q, k, v = qkv(g=H)
    ours = dot_product_attention(q, k, v, may_attend=causal_mask(T, S))
    assert_equal(ours, scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(T, S)))
    # torch's own is_causal has the other alignment, where the first target reads one source
    top_left = scaled_dot_product_attention(q, k, v, is_causal=True)
    assert (ours - top_left).abs().max() > 0.1


def test_as_many_targets_as_sources_agree_with_torch_is_causal():
    q, k, v = qkv(t=S, g=H)
    ours = dot_product_attention(q, k, v, may_attend=causal_mask(S))
    assert_equal(ours, scaled_dot_product_attention(q, k, v, is_causal=True))


# --- gradients ------------------------------------------------------------------------------


def small(**options):
    """Inputs of few numbers that require gradients: every difference quotient is two calls."""
    q, k, v = random(1, 4, 3, 2), random(1, 2, 5, 2, seed=1), random(1, 2, 5, 3, seed=2)
    return [x.requires_grad_() for x in (q, k, v)]


MASK_WITH_AN_EMPTY_ROW = torch.tensor(
    [[True, False, True, True, False], [False] * 5, [False, True, False, False, False]]
)


def test_gradients_agree_with_difference_quotients():
    bias = random(4, 1, 5, seed=4).requires_grad_()

    def attend(q, k, v, bias):
        out, lse = attention_with_lse(q, k, v, may_attend=MASK_WITH_AN_EMPTY_ROW, bias=bias)
        weights = attention_weights(q, k, may_attend=MASK_WITH_AN_EMPTY_ROW, bias=bias)
        return out, lse[:, :, [0, 2]], weights

    assert torch.autograd.gradcheck(attend, (*small(), bias))
    assert torch.autograd.gradcheck(lambda *x: grouped_query_attention(*x, scale=0.3), small())


def test_second_derivatives_agree_with_difference_quotients():
    def attend(q, k, v):
        return grouped_query_attention(q, k, v, may_attend=MASK_WITH_AN_EMPTY_ROW)

    assert torch.autograd.gradgradcheck(attend, small())


def test_gradients_agree_with_torch():
    tensors = [x.requires_grad_() for x in qkv()]
    mask, weight = random(B, H, T, S, seed=3) > -0.3, random(B, H, T, E, seed=6)
    ours = grouped_query_attention(*tensors, may_attend=mask)
    theirs = scaled_dot_product_attention(*tensors, attn_mask=mask, enable_gqa=True)
    gradients = [torch.autograd.grad((x * weight).sum(), tensors) for x in (ours, theirs)]
    for a, b in zip(*gradients, strict=True):
        assert_equal(a, b)


def test_no_target_depends_on_its_future_and_each_depends_on_its_whole_past():
    def layer(x):
        q, k, v = (x @ random(E, D, seed=i) / E**0.5 for i in range(3))
        as_head = [y[None, None] for y in (q, k, v)]
        return dot_product_attention(*as_head, may_attend=causal_mask(S))[0, 0]

    jacobian = torch.autograd.functional.jacobian(layer, random(S, E, seed=8))
    influence = jacobian.abs().amax(dim=(1, 3))
    assert (influence.triu(1) == 0).all()
    assert (influence[torch.ones(S, S).tril().bool()] > 1e-6).all()


# --- nothing to read ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", ["mask", "bias", "both"])
def test_a_target_with_nothing_to_read_gets_zeros(dtype, how):
    q, k, v = (x.requires_grad_() for x in qkv(dtype))
    mask = some_mask()
    zero = torch.zeros(B, H, T, S, dtype=dtype)
    half = torch.arange(S) % 2 == 0
    options = {
        "mask": {"may_attend": mask},
        "bias": {"bias": zero.masked_fill(~mask, -torch.inf)},
        "both": {"may_attend": mask | half, "bias": zero.masked_fill(~mask & half, -torch.inf)},
    }[how]
    out, lse = attention_with_lse(q, k, v, **options)
    weights = attention_weights(q, k, **options)
    assert (out[:, :, 2] == 0).all()
    assert (weights[:, :, 2] == 0).all()
    assert (lse[:, :, 2] == -torch.inf).all()
    assert out.isfinite().all()
    for result in (out, weights, lse):
        gradients = torch.autograd.grad(result[:, :, 2].sum(), (q, k), retain_graph=True)
        assert all((gradient == 0).all() for gradient in gradients)
    gradients = torch.autograd.grad(out.sum() + weights.square().sum(), (q, k, v))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[0][:, :, 2] == 0).all()


def test_a_bias_of_minus_infinity_forbids_as_the_mask_does():
    tensors, mask, bias = qkv(), some_mask(), random(H, T, S, seed=5)
    forbidding = bias.masked_fill(~mask, -torch.inf)
    assert_equal(
        grouped_query_attention(*tensors, bias=forbidding),
        grouped_query_attention(*tensors, may_attend=mask, bias=bias),
        atol=0,
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_bias_of_the_least_number_of_its_dtype_does_not_overflow(dtype):
    tensors, mask = qkv(dtype), random(T, S, seed=5) > 0
    mask[:, 0] = True
    least = torch.zeros(T, S, dtype=dtype).masked_fill(~mask, torch.finfo(dtype).min)
    assert_equal(
        grouped_query_attention(*tensors, bias=least),
        grouped_query_attention(*tensors, may_attend=mask),
        atol=0,
    )


@pytest.mark.parametrize("t,s,e", [(0, S, E), (T, 0, E), (T, S, 0), (0, 0, E)])
def test_zero_targets_or_sources_or_value_width_are_legal(t, s, e):
    q, k, v = random(B, H, t, D), random(B, G, s, D), random(B, G, s, e)
    for tensor in (q, k, v):
        tensor.requires_grad_()
    for options in ({}, {"may_attend": causal_mask(t, s), "bias": torch.zeros(t, s)}):
        out, lse = attention_with_lse(q, k, v, **options)
        assert tuple(out.shape) == (B, H, t, e)
        assert tuple(attention_weights(q, k, **options).shape) == (B, H, t, s)
        (out.sum() + lse.sum()).backward()
        if s == 0:
            assert (out == 0).all()
            assert (lse == -torch.inf).all()
    assert all(x.grad.isfinite().all() for x in (q, k, v))


# --- NaN and infinity -----------------------------------------------------------------------

POISON = [torch.nan, torch.inf, -torch.inf]


@st.composite
def poisoned_problems(draw):
    """A problem in which some numbers of q, k, v or the bias are NaN or infinite."""
    (q, k, v), options = draw(problems())
    tensors = [x for x in (q, k, v, options["bias"]) if x is not None and x.numel()]
    for x in draw(st.lists(st.sampled_from(tensors), max_size=3) if tensors else st.just([])):
        x.view(-1)[draw(st.integers(0, x.numel() - 1))] = draw(st.sampled_from(POISON))
    return (q, k, v), options


def clean_targets(q, k, v, may_attend, bias, scale) -> torch.Tensor:
    """Which targets (b, h, t) meet finite numbers only, or read nothing at all.

    Without values it is whether the weights and the log-sum-exp do.
    """
    v = k[..., :0] if v is None else v
    b, h, t, _ = q.shape
    everywhere = (b, h, t, k.shape[2])
    may = torch.ones(everywhere) > 0 if may_attend is None else may_attend.expand(everywhere)
    bias = torch.zeros(everywhere) if bias is None else bias.expand(everywhere)
    may = may & (bias != -torch.inf)
    p = h // k.shape[1]
    finite = (k.isfinite().all(-1) & v.isfinite().all(-1)).repeat_interleave(p, dim=1)
    reads_finite = (~may | (finite[:, :, None] & bias.isfinite())).all(-1)
    return (reads_finite & q.isfinite().all(-1)) | ~may.any(-1)


@given(poisoned_problems())
def test_outputs_follow_ieee_arithmetic_over_what_may_be_read(problem):
    tensors, options = problem
    assert_equal(grouped_query_attention(*tensors, **options), defined(*tensors, **options))
    # gradients wanted or not, the values are the same
    with_gradients = [x.clone().requires_grad_() for x in tensors]
    out = grouped_query_attention(*with_gradients, **options)
    assert_equal(out.detach(), grouped_query_attention(*tensors, **options))


@given(poisoned_problems())
def test_losses_over_clean_targets_have_the_gradients_of_clean_inputs(problem):
    tensors, options = problem
    clean = clean_targets(*tensors, **options)
    clean_logits = clean_targets(*tensors[:2], None, **options)

    def gradients(cleaned: bool):
        leaves = [(x.nan_to_num(0.0, 0.0, 0.0) if cleaned else x.clone()) for x in tensors]
        used = dict(options)
        if options["bias"] is not None:
            bias = options["bias"]
            used["bias"] = bias.nan_to_num(0.0, 0.0, -torch.inf) if cleaned else bias.clone()
            leaves.append(used["bias"])
        for leaf in leaves:
            leaf.requires_grad_()
        out, lse = attention_with_lse(*leaves[:3], **used)
        weights = attention_weights(*leaves[:2], **used)
        lse = lse[clean_logits]
        loss = (
            out[clean].square().sum()
            + lse[lse > -torch.inf].square().sum()
            + weights[clean_logits].pow(3).sum()
        )
        return torch.autograd.grad(loss, leaves)

    poisoned, wanted = gradients(cleaned=False), gradients(cleaned=True)
    for gradient, other in zip(poisoned, wanted, strict=True):
        assert gradient.isfinite().all()
        assert_equal(gradient, other, atol=1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("poison", POISON)
@pytest.mark.parametrize("where", ["keys", "values", "both"])
@pytest.mark.parametrize("how", ["mask", "bias"])
def test_what_may_not_be_read_has_no_influence(dtype, poison, where, how):
    q, k, v = qkv(dtype)
    mask = causal_mask(T, S)
    options = {
        "mask": {"may_attend": mask},
        "bias": {"bias": torch.zeros(T, S, dtype=dtype).masked_fill(~mask, -torch.inf)},
    }[how]
    wanted = grouped_query_attention(q, k, v, **options)
    bad_k, bad_v = k.clone(), v.clone()
    if where != "values":
        bad_k[:, :, -1, 4] = poison
    if where != "keys":
        bad_v[:, :, -1, 6] = poison
    for tensor in (q, bad_k, bad_v):
        tensor.requires_grad_()
    out = grouped_query_attention(q, bad_k, bad_v, **options)
    # the last target alone may read the last source
    assert torch.equal(out[:, :, :-1], wanted[:, :, :-1])
    assert where == "keys" or not out[:, :, -1].isfinite().all()
    out[:, :, :-1].float().square().sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in (q, bad_k, bad_v))
    assert (bad_k.grad[:, :, -1] == 0).all()
    assert (bad_v.grad[:, :, -1] == 0).all()


def test_a_nan_in_a_query_with_nothing_to_read_gives_zeros_and_finite_gradients():
    q, k, v = qkv()
    q[:, :, 2] = torch.nan
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = grouped_query_attention(*leaves, may_attend=some_mask())
    assert (out[:, :, 2] == 0).all()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(out.sum(), leaves))


def test_only_part_of_what_is_not_finite_is_read():
    # each target reads three sources: which of +∞, −∞ and NaN meet decides
    q, k = torch.zeros(1, 1, 5, 2), torch.zeros(1, 1, 5, 2)
    v = torch.tensor([1.0, torch.inf, -torch.inf, torch.nan, 4.0]).reshape(1, 1, 5, 1)
    reads = [[1, 0, 0, 0, 1], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [0, 1, 1, 0, 0], [1, 0, 0, 1, 0]]
    mask = torch.tensor(reads).bool()
    out = dot_product_attention(q, k, v, may_attend=mask).flatten()
    wanted = torch.tensor([2.5, torch.inf, -torch.inf, torch.nan, torch.nan])
    assert_equal(out, wanted, atol=0)
    # a weight that underflows to 0 makes NaN of an infinite value, as 0 · ∞ does
    bias = torch.tensor([0.0, -1e4, 0.0, 0.0, 0.0])
    out = dot_product_attention(q, k, v, may_attend=mask, bias=bias).flatten()
    assert_equal(out[1], torch.tensor(torch.nan), atol=0)


@pytest.mark.parametrize("masked", [True, False])
def test_a_nan_in_a_query_spoils_that_target_alone(masked):
    q, k, v = qkv()
    mask = causal_mask(T, S) if masked else None
    wanted = grouped_query_attention(q, k, v, may_attend=mask)
    q = q.index_fill(2, torch.tensor(1), torch.nan)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = grouped_query_attention(*leaves, may_attend=mask)
    others = [0, 2, 3, 4]
    assert out[:, :, 1].isnan().all()
    assert torch.equal(out[:, :, others], wanted[:, :, others])
    out[:, :, others].sum().backward()
    assert all(x.grad.isfinite().all() for x in leaves)


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_a_nan_in_the_bias_spoils_the_targets_that_read_there(poison):
    q, k, v = qkv()
    wanted = grouped_query_attention(q, k, v, bias=torch.zeros(T, S))
    bias = torch.zeros(T, S, dtype=torch.float64)
    bias[1, 3] = poison
    leaves = [x.requires_grad_() for x in (q, k, v, bias)]
    out = grouped_query_attention(q, k, v, bias=bias)
    others = [0, 2, 3, 4]
    assert out[:, :, 1].isnan().all()
    assert torch.equal(out[:, :, others], wanted[:, :, others])
    for gradient in torch.autograd.grad(out[:, :, others].square().sum(), leaves):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
@pytest.mark.parametrize("result", ["weights", "log-sum-exp"])
def test_a_bias_that_spoils_one_target_does_not_reach_another_where_no_output_is_wanted(
    result, poison
):
    bias = torch.zeros(2, 4, dtype=torch.float64)
    bias[0, 0] = poison

    def gradients(bias: torch.Tensor):
        q, k = random(1, 1, 2, 3), random(1, 1, 4, 3, seed=1)
        leaves = [x.clone().requires_grad_() for x in (q, k, bias)]
        q, k, bias = leaves
        if result == "weights":
            used = attention_weights(q, k, bias=bias)[:, :, 1, 0]
        else:
            used = attention_with_lse(q, k, k[..., :0], bias=bias)[1][:, :, 1]
        return torch.autograd.grad(used.sum(), leaves)

    for gradient, wanted in zip(gradients(bias), gradients(torch.zeros_like(bias)), strict=True):
        assert gradient.isfinite().all()
        assert_equal(gradient, wanted)


@pytest.mark.parametrize("poison", POISON)
@pytest.mark.parametrize("masked", [True, False])
def test_a_nan_in_the_values_does_not_reach_the_gradient_of_the_log_sum_exp(masked, poison):
    q, k, v = qkv()
    mask = some_mask() if masked else None

    def gradients(v: torch.Tensor):
        leaves = [x.clone().requires_grad_() for x in (q, k)]
        _, lse = attention_with_lse(*leaves, v, may_attend=mask)
        read = lse[lse > -torch.inf]
        return torch.autograd.grad(read.square().sum(), leaves)

    bad_v = v.clone()
    bad_v[0, 0, 0, 0] = poison
    for gradient, wanted in zip(gradients(bad_v), gradients(v), strict=True):
        assert gradient.abs().sum() > 0
        assert_equal(gradient, wanted)


def test_a_nan_in_the_values_does_not_reach_the_gradient_of_the_weights():
    # attention_weights has no values: what it takes its weights from is asked for them here
    q, k, v = qkv()

    def gradients(v: torch.Tensor):
        leaves = [x.clone().requires_grad_() for x in (q, k)]
        weights = _attend(*leaves, v, None, None, None)[2]
        return torch.autograd.grad(weights.pow(3).sum(), leaves)

    bad_v = v.clone()
    bad_v[0, 0, 0, 0] = torch.nan
    for gradient, wanted in zip(gradients(bad_v), gradients(v), strict=True):
        assert gradient.abs().sum() > 0
        assert_equal(gradient, wanted)


def test_a_score_of_infinity_gives_a_log_sum_exp_of_infinity_and_no_weights():
    q, k, v = qkv()
    bias = torch.zeros(T, S, dtype=torch.float64)
    bias[1, 3] = torch.inf
    out, lse = attention_with_lse(q, k, v, bias=bias)
    assert (lse[:, :, 1] == torch.inf).all()
    assert out[:, :, 1].isnan().all()
    assert lse[:, :, [0, 2, 3, 4]].isfinite().all()


def test_a_loss_that_uses_a_target_that_reads_nan_has_nan_gradients():
    q, k, v = qkv()
    v[:, :, 0, 0] = torch.nan
    only_the_first = torch.arange(S) == 0
    for mask in (None, causal_mask(T, S), only_the_first):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        out = grouped_query_attention(*leaves, may_attend=mask)
        # a training run that has diverged must not look healthy
        for gradient in torch.autograd.grad(out.sum(), leaves):
            assert gradient[:, :, 0].isnan().all()


def test_scores_that_overflow_where_nothing_may_be_read_have_no_influence():
    q, k, v = qkv(torch.float32)
    q[:, :, 0], k[:, :, -1] = 1e25, 1e25
    mask = causal_mask(T, S)
    for tensor in (q, k, v):
        tensor.requires_grad_()
    out = grouped_query_attention(q, k, v, may_attend=mask)
    out[:, :, 1:-1].sum().backward()
    assert out[:, :, :-1].isfinite().all()
    assert all(tensor.grad.isfinite().all() for tensor in (q, k, v))


def test_a_target_whose_scores_overflow_spoils_no_gradient_but_its_own():
    q, k, v = qkv()
    q[:, :, 1] *= 1e200
    k[:, :, 0] = 1e200 * q[:, ::P, 1].sign()
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = grouped_query_attention(*leaves, may_attend=causal_mask(T, S))
    assert out[:, ::P, 1].isnan().all()
    for gradient in torch.autograd.grad(out[:, :, [0]].square().sum(), leaves):
        assert gradient.isfinite().all()


# --- precision ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", LOW)
@pytest.mark.parametrize("biased", [False, True])
def test_low_precision_is_rounded_once(dtype, biased):
    q, k, v = qkv(dtype, t=20, s=30)
    q = q * 2
    bias = random(20, 30, seed=5).to(dtype) if biased else None
    exact = defined(q, k, v, bias=bias)
    out = grouped_query_attention(q, k, v, bias=bias)
    assert out.dtype == dtype
    # Half a step of the dtype, and fp32's own error: scores below 2⁵ formed in 11 terms cost at
    # most 2⁵ · 12 · 2⁻²⁴ < 2⁻¹⁵ relative in a weight, with values below 2²; averages of rounding
    # errors of either sign are far below the worst case, 2⁻¹⁶ is still 16 times less than a
    # step of fp16 at 1.
    bound = torch.finfo(dtype).eps / 2 * exact.abs() + 2.0**-16
    assert ((out.double() - exact).abs() <= bound).all()
    weights = attention_weights(q, k, bias=bias).double()
    exact_weights = attention_weights(
        q.double(), k.double(), bias=None if bias is None else bias.double()
    )
    tiny = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps / 2
    bound = (torch.finfo(dtype).eps / 2 + 2.0**-15) * exact_weights + tiny
    assert ((weights - exact_weights).abs() <= bound).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_have_the_dtype_of_the_inputs_and_lse_at_least_float32(dtype):
    q, k, v = qkv(dtype)
    out, lse = attention_with_lse(q, k, v, bias=torch.zeros(T, S))
    assert out.dtype == attention_weights(q, k).dtype == dtype
    assert lse.dtype == torch.promote_types(dtype, torch.float32)


def test_a_bias_is_rounded_to_the_dtype_in_which_scores_are_formed():
    tensors, bias = qkv(torch.float32), random(T, S, seed=5)
    bias[:, 2], bias[:, 3] = 1 + 2.0**-30, -1e300
    rounded = bias.float()
    assert (rounded[:, 3] == -torch.inf).all()
    assert_equal(
        grouped_query_attention(*tensors, bias=bias),
        grouped_query_attention(*tensors, bias=rounded),
        atol=0,
    )


def test_float32_is_accurate_to_its_own_rounding():
    q, k, v = qkv(torch.float32)
    # 11 + 7 terms of rounding 2⁻²⁴ at most, for scores below 2³ and values below 2²
    assert_equal(grouped_query_attention(q, k, v).double(), defined(q, k, v), atol=2.0**-16)


def test_autocast_does_not_lower_the_precision_of_scores():
    q, k, v = qkv(torch.float32)
    wanted = grouped_query_attention(q, k, v)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(grouped_query_attention(q, k, v), wanted)


# --- manners --------------------------------------------------------------------------------


@pytest.mark.parametrize("poison", [0.0, torch.nan])
def test_inputs_are_left_as_they_were(poison):
    q, k, v = qkv()
    v[:, :, -1] = poison
    mask, bias = some_mask(), random(T, S, seed=5)
    inputs = (q, k, v, mask, bias)
    before = [x.clone() for x in inputs]
    grouped_query_attention(q, k, v, may_attend=mask, bias=bias)
    for x, y in zip(inputs, before, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("poison", [0.0, torch.nan])
def test_the_gradients_of_torch_func_are_those_of_backward(poison):
    q, k, v = qkv()
    v[:, :, -1] = poison
    mask = causal_mask(T, S)

    def loss(q, k, v):
        return grouped_query_attention(q, k, v, may_attend=mask)[:, :, :-1].square().sum()

    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    wanted = torch.autograd.grad(loss(*leaves), leaves)
    for gradient, other in zip(torch.func.grad(loss, (0, 1, 2))(q, k, v), wanted, strict=True):
        assert gradient.isfinite().all()
        assert_equal(gradient, other)


# torch itself uses torch.jit, which it deprecates, for its first forward derivative
@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
def test_forward_derivatives_are_right_where_all_is_finite_and_refused_elsewhere():
    q, k, v = qkv()
    step = [random(*x.shape, seed=7 + i) for i, x in enumerate((q, k, v))]
    mask = causal_mask(T, S)

    def attend(q, k, v):
        return grouped_query_attention(q, k, v, may_attend=mask)

    _, change = torch.func.jvp(attend, (q, k, v), tuple(step))
    ahead = attend(*(x + 1e-6 * dx for x, dx in zip((q, k, v), step, strict=True)))
    behind = attend(*(x - 1e-6 * dx for x, dx in zip((q, k, v), step, strict=True)))
    # central difference: 1e-12 times a third derivative below 10³, plus rounding eps/step
    assert_equal(change, (ahead - behind) / 2e-6, atol=1e-8)
    v[:, :, -1] = torch.nan
    for without_gradients in (True, False):
        refused = pytest.raises(RuntimeError, match="jvp")
        with torch.set_grad_enabled(not without_gradients), refused:
            torch.func.jvp(attend, (q, k, v), tuple(step))


# --- torch's own kernel ---------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch) -> list[int]:
    """Grows by one whenever torch's own kernel is asked."""
    calls = []

    def counted(*tensors, **options):
        calls.append(1)
        return scaled_dot_product_attention(*tensors, **options)

    monkeypatch.setattr(attention, "scaled_dot_product_attention", counted)
    return calls


def of_one_width(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    """Values as wide as keys, which torch's kernel wants."""
    q, k, _ = qkv(dtype)
    return q, k, random(B, G, S, D, seed=2).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torchs_kernel_gives_what_is_computed_here(dtype, asked):
    everything = torch.ones((), dtype=torch.bool)
    for options in ({}, {"scale": 0.7}):
        out = grouped_query_attention(*of_one_width(dtype), **options)
        wanted = grouped_query_attention(*of_one_width(dtype), may_attend=everything, **options)
        # scores up to 20 with D + 2 roundings each, twice; S exponentials, and as many products
        atol = (2 * 20 * (D + 2) + 2 * S) * torch.finfo(dtype).eps
        assert_equal(out, wanted, atol=atol)
    assert len(asked) == 2  # and not for the other two


# as above: the first forward derivative of a process
@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
def test_torchs_kernel_is_asked_only_where_it_does_the_same(asked):
    q, k, v = of_one_width()
    grouped_query_attention(q, k, v, may_attend=torch.ones(T, S).bool())
    grouped_query_attention(q, k, v, bias=torch.zeros(T, S).double())
    grouped_query_attention(q, k, v[..., 1:])
    grouped_query_attention(q[:, :, :0], k, v)
    grouped_query_attention(q, k[:, :, :0], v[:, :, :0])
    grouped_query_attention(q.bfloat16(), k.bfloat16(), v.bfloat16())
    for i in range(3):
        given = [x.clone().requires_grad_(i == j) for j, x in enumerate((q, k, v))]
        grouped_query_attention(*given)
    torch.func.jvp(lambda x: grouped_query_attention(x, k, v), (q,), (q,))
    assert asked == []
    with torch.no_grad():
        grouped_query_attention(q.requires_grad_(), k, v)
    assert asked == [1]


@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf, 1e200])
@pytest.mark.parametrize("which", ["q", "k", "v"])
def test_what_torchs_kernel_makes_of_odd_numbers_is_computed_again(odd, which):
    everything = torch.ones((), dtype=torch.bool)
    # one key alone, fewer and more than the kernel takes at a time; one of them odd, some, and all
    for n_sources in (1, S, 600):
        for places in (slice(-1, None), slice(0, 512), slice(None)):
            q, k, v = (
                random(1, P, 2, D),
                random(1, 1, n_sources, D, seed=1),
                random(1, 1, n_sources, D, seed=2),
            )
            {"q": q, "k": k, "v": v}[which][:, :, places] = odd
            if odd == 1e200:
                q[:, 1] = odd  # scores beyond fp64 where keys are as large
            out = grouped_query_attention(q, k, v)
            wanted = grouped_query_attention(q, k, v, may_attend=everything)
            torch.testing.assert_close(out, wanted, rtol=1e-14, atol=1e-12, equal_nan=True)
    q, k, v = of_one_width()
    k[:], q[:] = -torch.inf, 1.0  # every score is −∞, so that nothing is read
    assert (grouped_query_attention(q, k, v) == 0).all()


def test_inputs_need_not_be_contiguous():
    q, k, v = qkv()
    apart = [x.movedim(1, 2).contiguous().movedim(2, 1) for x in (q, k, v)]
    assert not apart[0].is_contiguous()
    assert_equal(grouped_query_attention(*apart), grouped_query_attention(q, k, v))


def test_masks_of_every_broadcastable_shape_mean_the_same():
    tensors = qkv()
    mask = causal_mask(T, S)
    wanted = grouped_query_attention(*tensors, may_attend=mask.expand(B, H, T, S))
    for shape in [(T, S), (1, T, S), (H, T, S), (1, 1, T, S), (B, 1, T, S), (1, H, T, S)]:
        out = grouped_query_attention(*tensors, may_attend=mask.expand(shape))
        assert_equal(out, wanted, atol=0)


def test_keys_are_never_copied_out_to_the_query_heads():
    q, k, v = (x.requires_grad_() for x in qkv())
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        grouped_query_attention(q, k, v)
    sizes = {x.untyped_storage().nbytes() // x.element_size() for x in saved}
    assert B * G * S * D in sizes
    assert B * H * S * D not in sizes
    assert B * H * S * E not in sizes


def test_a_swapped_axis_is_refused_by_the_shape_check():
    q, k, v = qkv()
    with pytest.raises(TypeCheckError):
        grouped_query_attention(q, k.transpose(2, 3), v)
    with pytest.raises(TypeCheckError):
        dot_product_attention(q, k, v)
