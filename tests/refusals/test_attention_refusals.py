"""Wrong input is refused before anything is computed, by plain errors that name the numbers.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import re

import numpy as np
import pytest
import torch

import attnlib
from attnlib import (
    attention_weights,
    attention_with_lse,
    block_mask,
    causal_mask,
    compose_masks,
    document_mask,
    dot_product_attention,
    grouped_query_attention,
    log_sum_exp,
    merge_attention,
    padding_mask,
    prefix_mask,
    softmax,
    window_mask,
)

B, H, G, T, S, D, E = 2, 6, 3, 5, 7, 11, 13


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


def qkv(g: int = G) -> dict[str, torch.Tensor]:
    return {"q": ones(B, H, T, D), "k": ones(B, g, S, D), "v": ones(B, g, S, E)}


def grouped(**changes):
    tensors = qkv() | changes
    q, k, v = (tensors.pop(name) for name in "qkv")
    return grouped_query_attention(q, k, v, **tensors)


def with_lse(**changes):
    tensors = qkv() | changes
    q, k, v = (tensors.pop(name) for name in "qkv")
    return attention_with_lse(q, k, v, **tensors)


def dot_product(**changes):
    tensors = qkv(g=H) | changes
    q, k, v = (tensors.pop(name) for name in "qkv")
    return dot_product_attention(q, k, v, **tensors)


def weights(**changes):
    tensors = qkv() | changes
    q, k, _ = (tensors.pop(name) for name in "qkv")
    return attention_weights(q, k, **tensors)


EVERY = [grouped, with_lse, weights, dot_product]


def inputs_of(attend) -> dict[str, torch.Tensor]:
    return qkv(g=H if attend is dot_product else G)


def refuses(kind: type[Exception], message: str):
    return pytest.raises(kind, match=re.escape(message))


def test_these_tests_run_without_the_shape_hook():
    assert not hasattr(grouped_query_attention, "__wrapped__")


@pytest.mark.parametrize("attend", EVERY)
def test_the_correct_input_is_not_refused(attend):
    attend()
    attend(may_attend=causal_mask(T, S), bias=ones(H, 1, S), scale=1)


@pytest.mark.parametrize("attend", EVERY)
def test_different_batches_are_refused(attend):
    heads = H if attend is dot_product else G
    with refuses(ValueError, "q and k must have the same b, got b=2 in q and b=4 in k"):
        attend(k=ones(4, heads, S, D))
    if attend is not weights:
        with refuses(ValueError, "q and v must have the same b, got b=2 in q and b=1 in v"):
            attend(v=ones(1, heads, S, E))


@pytest.mark.parametrize("attend", EVERY)
def test_different_widths_of_queries_and_keys_are_refused(attend):
    heads = H if attend is dot_product else G
    with refuses(ValueError, "q and k must have the same d, got d=11 in q and d=12 in k"):
        attend(k=ones(B, heads, S, 12))


@pytest.mark.parametrize("attend", [grouped, with_lse, dot_product])
def test_different_numbers_of_keys_and_values_are_refused(attend):
    heads = H if attend is dot_product else G
    with refuses(ValueError, "k and v must have the same s, got s=7 in k and s=8 in v"):
        attend(v=ones(B, heads, 8, E))


def test_different_heads_are_refused():
    with refuses(ValueError, "q and k must have the same h, got h=6 in q and h=3 in k"):
        dot_product(k=ones(B, G, S, D))
    with refuses(ValueError, "use grouped_query_attention"):
        dot_product(k=ones(B, G, S, D), v=ones(B, G, S, E))
    with refuses(ValueError, "q and v must have the same h, got h=6 in q and h=1 in v"):
        dot_product(v=ones(B, 1, S, E))
    with refuses(ValueError, "k and v must have the same g, got g=3 in k and g=2 in v"):
        grouped(v=ones(B, 2, S, E))


@pytest.mark.parametrize("attend", [grouped, with_lse, weights])
@pytest.mark.parametrize("g", [4, 0, 12])
def test_kv_heads_that_do_not_divide_the_query_heads_are_refused(attend, g):
    with refuses(ValueError, f"g must divide h, got h=6 and g={g}"):
        attend(k=ones(B, g, S, D), v=ones(B, g, S, E))


@pytest.mark.parametrize("attend", EVERY)
def test_width_zero_of_queries_is_refused(attend):
    heads = H if attend is dot_product else G
    with refuses(ValueError, "got d=0"):
        attend(q=ones(B, H, T, 0), k=ones(B, heads, S, 0))


@pytest.mark.parametrize("attend", EVERY)
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_tensors_that_are_not_floating_point_are_refused(attend, dtype):
    heads = H if attend is dot_product else G
    with refuses(TypeError, f"q must be a tensor of fp16, bf16, fp32 or fp64, got {dtype}"):
        attend(q=ones(B, H, T, D, dtype=dtype))
    with refuses(TypeError, f"k must be a tensor of fp16, bf16, fp32 or fp64, got {dtype}"):
        attend(k=ones(B, heads, S, D, dtype=dtype))
    if attend is not weights:
        with refuses(TypeError, f"v must be a tensor of fp16, bf16, fp32 or fp64, got {dtype}"):
            attend(v=ones(B, heads, S, E, dtype=dtype))


@pytest.mark.parametrize("attend", EVERY)
def test_arrays_that_are_not_tensors_are_refused(attend):
    with refuses(TypeError, "q must be a tensor of fp16, bf16, fp32 or fp64, got ndarray"):
        attend(q=np.ones((B, H, T, D)))


@pytest.mark.parametrize("attend", EVERY)
def test_different_dtypes_are_refused(attend):
    message = "q, k and v must have the same dtype, got torch.float16, torch.float32"
    with refuses(TypeError, message):
        attend(q=ones(B, H, T, D, dtype=torch.float16))


@pytest.mark.parametrize("attend", EVERY)
def test_the_wrong_number_of_axes_is_refused(attend):
    with refuses(ValueError, "q must have axes (b, h, t, d), got shape (6, 5, 11)"):
        attend(q=ones(H, T, D))
    with refuses(ValueError, "s, d), got shape (7, 11)"):
        attend(k=ones(S, D))


@pytest.mark.parametrize("attend", EVERY)
@pytest.mark.parametrize(
    "mask,kind",
    [
        (torch.ones(T, S), "torch.float32"),
        (torch.ones(T, S, dtype=torch.int64), "torch.int64"),
        (torch.ones(T, S, dtype=torch.uint8), "torch.uint8"),
        (np.ones((T, S), dtype=bool), "ndarray"),
        (True, "bool"),
    ],
)
def test_masks_that_are_not_boolean_tensors_are_refused(attend, mask, kind):
    with refuses(TypeError, f"may_attend must be a boolean tensor, True = may be read, got {kind}"):
        attend(may_attend=mask)


@pytest.mark.parametrize("attend", EVERY)
@pytest.mark.parametrize(
    "shape", [(S, T), (T, 1 + S), (G, T, S), (3, 1, T, S), (1, B, H, T, S), (B, T, S), (0,)]
)
def test_masks_and_biases_that_do_not_broadcast_are_refused(attend, shape):
    rest = f"must broadcast to (b, h, t, s) = (2, 6, 5, 7), got shape {shape}"
    with refuses(ValueError, f"may_attend {rest}"):
        attend(may_attend=torch.ones(shape, dtype=torch.bool))
    with refuses(ValueError, f"bias {rest}"):
        attend(bias=torch.ones(shape))


@pytest.mark.parametrize("attend", EVERY)
def test_a_mask_larger_than_the_scores_is_refused(attend):
    one_target = ones(B, H, 1, D)
    rest = "must broadcast to (b, h, t, s) = (2, 6, 1, 7), got shape (5, 7)"
    with refuses(ValueError, f"may_attend {rest}"):
        attend(q=one_target, may_attend=causal_mask(T, S))
    with refuses(ValueError, f"bias {rest}"):
        attend(q=one_target, bias=torch.ones(T, S))


@pytest.mark.parametrize("attend", EVERY)
@pytest.mark.parametrize(
    "bias,kind",
    [
        (torch.ones(T, S, dtype=torch.bool), "torch.bool"),
        (torch.ones(T, S, dtype=torch.int64), "torch.int64"),
        (1.0, "float"),
    ],
)
def test_biases_that_are_not_floating_point_tensors_are_refused(attend, bias, kind):
    with refuses(TypeError, f"bias must be a tensor of fp16, bf16, fp32 or fp64, got {kind}"):
        attend(bias=bias)


@pytest.mark.parametrize("attend", EVERY)
def test_a_scale_that_is_not_a_finite_number_is_refused(attend):
    for scale in (torch.ones(()), "1", True):
        with refuses(TypeError, f"scale must be a number or None, got {type(scale).__name__}"):
            attend(scale=scale)
    for scale in (float("nan"), float("inf")):
        with refuses(ValueError, f"scale must be finite, got scale={scale}"):
            attend(scale=scale)
    for scale, number in ((10**400, "inf"), (-(10**5000), "-inf")):
        with refuses(ValueError, f"scale must be finite, got scale={number}"):
            attend(scale=scale)


@pytest.mark.parametrize("attend", EVERY)
@pytest.mark.parametrize("scale", [1e39, -1e39])
def test_a_scale_that_is_not_finite_where_scores_are_formed_is_refused(attend, scale):
    message = (
        f"scale must be finite in torch.float32, in which scores are formed, got scale={scale}"
    )
    for dtype in (torch.float16, torch.float32):
        with refuses(ValueError, message):
            attend(**{name: x.to(dtype) for name, x in inputs_of(attend).items()}, scale=scale)
    attend(**{name: x.double() for name, x in inputs_of(attend).items()}, scale=scale)


@pytest.mark.parametrize("attend", EVERY)
def test_tensors_on_different_devices_are_refused(attend):
    for name, x in inputs_of(attend).items():
        if name == "q" or (name == "v" and attend is weights):
            continue
        message = f"q and {name} must be on the same device, got q on cpu and {name} on meta"
        with refuses(ValueError, message):
            attend(**{name: x.to("meta")})
    for name, x in (("may_attend", causal_mask(T, S, device="meta")), ("bias", ones(T, S))):
        message = f"q and {name} must be on the same device, got q on cpu and {name} on meta"
        with refuses(ValueError, message):
            attend(**{name: x.to("meta")})
        with refuses(ValueError, "causal_mask(..., device=q.device)"):
            attend(**{name: x.to("meta")})


@pytest.mark.parametrize("attend", EVERY)
def test_masks_are_refused_before_anything_is_computed(attend, monkeypatch):
    def compute(*_):
        raise AssertionError("something was computed")

    monkeypatch.setattr(torch, "einsum", compute)
    monkeypatch.setattr("attnlib.attention.softmax_and_log_sum_exp", compute)
    with refuses(ValueError, "may_attend must broadcast"):
        attend(may_attend=torch.ones(S, T, dtype=torch.bool))


@pytest.mark.parametrize("function", [softmax, log_sum_exp])
def test_softmax_refuses(function):
    with refuses(TypeError, "scores must be a tensor of fp16, bf16, fp32 or fp64, got torch.int64"):
        function(torch.ones(3, dtype=torch.int64))
    with refuses(TypeError, "scores must be a tensor of fp16, bf16, fp32 or fp64, got list"):
        function([1.0, 2.0])
    with refuses(ValueError, "scores must have at least one axis"):
        function(torch.tensor(1.0))
    with refuses(TypeError, "where must be a boolean tensor, True = counts, got torch.float32"):
        function(ones(2, 3), torch.ones(3))
    message = "where must broadcast to the scores, got where (2,) and scores (2, 3)"
    with refuses(ValueError, message):
        function(ones(2, 3), torch.ones(2, dtype=torch.bool))
    with refuses(ValueError, "where must broadcast"):
        function(ones(3), torch.ones(2, 3, dtype=torch.bool))


def test_merge_refuses():
    part = ones(2, 3), ones(2)
    with refuses(ValueError, "merging needs at least one part"):
        merge_attention([])
    with refuses(ValueError, "got output (2, 3) and log-sum-exp (3,) in part 1"):
        merge_attention([part, (ones(2, 3), ones(3))])
    with refuses(ValueError, "all parts must have the same shape, got (2, 3) in part 0 and (2, 4)"):
        merge_attention([part, (ones(2, 4), ones(2))])
    with refuses(TypeError, "all parts must have the same dtype, got torch.float32 in part 0"):
        merge_attention([part, (ones(2, 3).double(), ones(2))])
    with refuses(TypeError, "the log-sum-exp of part 0 must be a tensor of fp16, bf16, fp32"):
        merge_attention([(ones(2, 3), torch.ones(2, dtype=torch.int64))])
    with refuses(TypeError, "the output of part 0 must be a tensor of fp16, bf16, fp32"):
        merge_attention([([1.0], ones(2))])
    with refuses(ValueError, "got output () and log-sum-exp () in part 0"):
        merge_attention([(torch.tensor(1.0), torch.tensor(1.0))])


def test_merge_refuses_what_is_not_pairs():
    out, lse = ones(2, 3), ones(2)
    pairs = "parts must be pairs (output, log-sum-exp), as in merge_attention([(out, lse)]), got "
    for parts, kind in [
        ((out, lse), "Tensor as part 0"),
        (out, "Tensor"),
        (torch.tensor(1.0), "Tensor"),
        (None, "NoneType"),
        ([(out, lse), None], "NoneType as part 1"),
    ]:
        with refuses(TypeError, pairs + kind):
            merge_attention(parts)
    with refuses(ValueError, pairs + "3 things in part 1"):
        merge_attention([(out, lse), (out, lse, lse)])


@pytest.mark.parametrize(
    "mask",
    [
        causal_mask,
        lambda *a: window_mask(*a, window=2),
        lambda *a: prefix_mask(*a, n_prefix=0),
        lambda *a: block_mask(*a, block=2),
    ],
    ids=["causal", "window", "prefix", "block"],
)
def test_masks_refuse_impossible_counts(mask):
    with refuses(ValueError, "n_targets must be at least 0, got -1"):
        mask(-1)
    with refuses(ValueError, "n_sources must be at least 0, got -2"):
        mask(3, -2)
    with refuses(TypeError, "n_targets must be a whole number, got 3.0"):
        mask(3.0)
    with refuses(TypeError, "n_sources must be a whole number, got True"):
        mask(3, True)


SIZE_OF_A = {causal_mask: "window", window_mask: "window", prefix_mask: "n_prefix"}
SIZE_OF_A |= {block_mask: "block"}


@pytest.mark.parametrize("mask", SIZE_OF_A)
def test_masks_are_refused_before_anything_is_built(mask, monkeypatch):
    def build(*_, **__):
        raise AssertionError("something was built")

    monkeypatch.setattr(torch, "arange", build)
    n, wrong = 10**12, SIZE_OF_A[mask]
    for value in (10**12 + 1, -1) if mask is prefix_mask else (0, -1):
        with pytest.raises(ValueError, match=rf"{wrong}.*{value}"):
            mask(n, **{wrong: value})
    with refuses(TypeError, f"{wrong} must be a whole number"):
        mask(n, **{wrong: 1.5})


@pytest.mark.parametrize("mask", [causal_mask, window_mask])
def test_a_window_without_the_target_itself_is_refused(mask):
    for window in (0, -3):
        message = (
            f"a window counts the target itself, so it must be at least 1, got window={window}"
        )
        with refuses(ValueError, message):
            mask(4, window=window)
    with refuses(TypeError, "window must be a whole number, got 2.5"):
        mask(4, window=2.5)


def test_a_prefix_longer_than_the_sources_is_refused():
    with refuses(ValueError, "got n_prefix=5 and n_sources=4"):
        prefix_mask(4, n_prefix=5)
    with refuses(ValueError, "n_prefix must be at least 0, got -1"):
        prefix_mask(4, n_prefix=-1)


def test_a_block_without_a_position_is_refused():
    for block in (0, -3):
        with refuses(ValueError, f"block must be at least 1, got {block}"):
            block_mask(4, block=block)
    with refuses(TypeError, "block must be a whole number, got 2.5"):
        block_mask(4, block=2.5)


def test_documents_are_integers_of_two_axes():
    says = "document must be a tensor of integers, one number for each document, got "
    with refuses(TypeError, says + "torch.float32"):
        document_mask(ones(2, 3))
    with refuses(TypeError, says + "torch.bool"):
        document_mask(ones(2, 3, dtype=torch.bool))
    with refuses(TypeError, says + "list"):
        document_mask([[0, 1]])
    with refuses(ValueError, "document must have axes (b, s), got shape (3,)"):
        document_mask(ones(3, dtype=torch.int64))


def test_masks_that_do_not_compose_are_refused(monkeypatch):
    def build(*_, **__):
        raise AssertionError("something was computed")

    monkeypatch.setattr(torch, "einsum", build)
    mask = ones(2, 3, dtype=torch.bool)
    for place, which in enumerate(("later", "earlier")):
        for wrong, kind in ((ones(3, 3), "torch.float32"), ([[True]], "list")):
            masks = [mask, mask]
            masks[place] = wrong
            says = f"{which} must be a boolean tensor, True = may be read, got {kind}"
            with refuses(TypeError, says):
                compose_masks(*masks)
    with refuses(ValueError, "must be on the same device, got cpu and meta"):
        compose_masks(mask, mask.T.to("meta"))
    with refuses(ValueError, "later must have axes (…, t, r), got shape (3,)"):
        compose_masks(mask[0], mask)
    with refuses(ValueError, "earlier must have axes (…, r, s), got shape (3,)"):
        compose_masks(mask, mask[0])
    with refuses(ValueError, "got r=3 in later and r=2 in earlier"):
        compose_masks(mask, mask)
    with refuses(ValueError, "must broadcast, got (2, 4) in later and (3, 4) in earlier"):
        compose_masks(mask.expand(2, 4, 2, 3), mask.T.expand(3, 4, 3, 2))
    with refuses(ValueError, "must broadcast, got (2,) in later and (2, 4) in earlier"):
        compose_masks(mask.expand(2, 2, 3), mask.T.expand(2, 4, 3, 2))


def test_padding_refuses_numbers_and_says_what_to_write():
    with refuses(TypeError, "got torch.int64; for 0 and 1 write is_token.bool()"):
        padding_mask(torch.ones(2, 3, dtype=torch.int64))
    with refuses(TypeError, "is_token must be a boolean tensor, True = token, got list"):
        padding_mask([[True]])
    with refuses(ValueError, "is_token must have axes (b, s), got shape (3,)"):
        padding_mask(torch.ones(3, dtype=torch.bool))


def test_sizes_may_be_integers_of_numpy():
    assert torch.equal(
        causal_mask(np.int64(3), window=np.int64(2)), attnlib.causal_mask(3, window=2)
    )
