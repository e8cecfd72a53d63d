"""A layer refuses wrong sizes when it is made, and wrong input before it projects anything.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnlib import PUBLISHED, AttentionSizes, Block, FeedForward, MultiHeadAttention, causal_mask
from attnlib.layers import RMSNorm, make_norm
from attnlib.sizes import ExpertSizes, RotarySizes

B, G, P, T, S, D, E, M, R = 2, 3, 4, 5, 7, 8, 9, 10, 11
H = G * P
SIZES = AttentionSizes(n_query_heads=H, n_kv_heads=G, head_dim=D, value_dim=E)
ROTARY = RotarySizes(base=100.0)
TURNED = {"rotary": ROTARY, "pairing": "half"}
NORMED = replace(SIZES, query_key_norm=True)


def made(width=M, sizes=SIZES, **options) -> MultiHeadAttention:
    return MultiHeadAttention(width, sizes, **options)


def refuses(kind: type[Exception], message: str):
    return pytest.raises(kind, match=re.escape(message))


class Unprojected(MultiHeadAttention):
    """A layer that may look at what it is given, and may not begin to work."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)

        def worked(*_):
            raise AssertionError("projected before refusing")

        for projection in (self.query, self.key, self.value, self.output):
            projection.register_forward_pre_hook(worked)


def refused(kind: type[Exception], message: str, *given, layer=None, methods=None, **call):
    layer = Unprojected(M, SIZES, **(layer or {}))
    for name in methods or ("forward", "weights"):
        with refuses(kind, message):
            getattr(layer, name)(*given, **call)


def test_these_tests_run_without_the_shape_hook():
    assert not hasattr(MultiHeadAttention.forward, "__wrapped__")


def test_a_layer_of_the_refusing_kind_would_notice_work():
    with pytest.raises(AssertionError, match="projected before refusing"):
        Unprojected(M, SIZES)(torch.zeros(B, T, M))


def test_the_correct_input_is_not_refused():
    x, read = torch.zeros(B, T, M), torch.zeros(B, S, R)
    layer = made(np.int64(M), NORMED, source_width=np.int64(R), norm_epsilon=np.float64(1e-5))
    layer(x, read, may_attend=causal_mask(T, S), bias=torch.zeros(H, T, S))
    assert type(layer.width) is type(layer.source_width) is int
    turned = made(**TURNED)
    turned(x, positions=torch.arange(T, dtype=torch.int16))
    turned.weights(x, x, positions=torch.arange(T)[None], read_positions=torch.ones(B, T).int())


# --- what makes a layer ---------------------------------------------------------------------


@pytest.mark.parametrize("width", [0, -3])
def test_widths_below_one_are_refused(width):
    with refuses(ValueError, f"width (m) must be at least 1, got {width}"):
        made(width)
    with refuses(ValueError, f"source_width must be at least 1, got {width}"):
        made(source_width=width)


@pytest.mark.parametrize("width", [10.0, True, "10", (10,)])
def test_widths_that_are_no_whole_numbers_are_refused(width):
    with refuses(TypeError, f"width (m) must be a whole number, got {width!r}"):
        made(width)
    with refuses(TypeError, f"source_width must be a whole number, got {width!r}"):
        made(source_width=width)


def test_sizes_and_width_in_the_wrong_order_are_refused():
    with refuses(TypeError, "width (m) must be a whole number, got AttentionSizes("):
        MultiHeadAttention(SIZES, M)


def test_a_latent_is_refused_by_name():
    latent = PUBLISHED["deepseek-v2"].attention
    with refuses(TypeError, "sizes must be AttentionSizes, in which query heads share"):
        made(sizes=latent)
    with refuses(TypeError, "got LatentAttentionSizes"):
        made(sizes=latent)


@pytest.mark.parametrize("sizes", [None, {"n_query_heads": H}, PUBLISHED["gpt-2"]])
def test_what_are_no_sizes_of_attention_is_refused(sizes):
    with refuses(
        TypeError,
        f"sizes must be AttentionSizes, in which query heads share keys and "
        f"values, got {type(sizes).__name__}",
    ):
        made(sizes=sizes)


@pytest.mark.parametrize("pairing", ["half", "interleaved", "halves"])
def test_a_pairing_without_rotary_positions_is_refused(pairing):
    with refuses(
        ValueError, f"pairing says how rotary positions turn and needs rotary=..., got {pairing!r}"
    ):
        made(pairing=pairing)


@pytest.mark.parametrize("pairing", [None, "halves", "neighbours", 2, ["half"]])
def test_rotary_positions_without_a_known_pairing_are_refused(pairing):
    with refuses(
        ValueError,
        'pairing must be "half" (coordinates i and i + r/2) or "interleaved" (neighbours), got '
        f"{pairing!r}",
    ):
        made(rotary=ROTARY, pairing=pairing)


@pytest.mark.parametrize("rotary", [100.0, True, {"base": 100.0}, PUBLISHED["llama-3-8b"]])
def test_what_are_no_rotary_sizes_is_refused(rotary):
    with refuses(TypeError, f"rotary must be RotarySizes or None, got {type(rotary).__name__}"):
        made(rotary=rotary, pairing="half")


def test_heads_of_odd_width_cannot_turn():
    sizes = AttentionSizes(n_query_heads=H, n_kv_heads=G, head_dim=7, value_dim=E)
    made(sizes=sizes)
    with refuses(
        ValueError, "rotary positions turn pairs of coordinates, so d must be even, got d=7"
    ):
        made(sizes=sizes, **TURNED)


@pytest.mark.parametrize("epsilon", [0, -1e-6, float("nan")])
def test_a_norm_that_may_divide_by_nothing_is_refused(epsilon):
    with pytest.raises(ValueError, match=r"norm_epsilon must be (above 0|finite), got"):
        made(sizes=NORMED, norm_epsilon=epsilon)
    with pytest.raises(ValueError, match=r"eps must be (above 0|finite), got"):
        RMSNorm(D, eps=epsilon)


def test_an_epsilon_without_norms_is_refused():
    made(norm_epsilon=1e-6)
    with refuses(
        ValueError,
        "norm_epsilon belongs to the norms of queries and keys, got norm_epsilon=1e-05 and "
        "query_key_norm=False",
    ):
        made(norm_epsilon=1e-5)


def test_a_norm_refuses_whole_numbers_and_other_widths():
    with refuses(ValueError, "width (d) must be at least 1, got 0"):
        RMSNorm(0, eps=1e-6)
    with refuses(TypeError, "width (d) must be a whole number, got (2, 3)"):
        RMSNorm((2, 3), eps=1e-6)
    norm = RMSNorm(D, eps=1e-6)
    with refuses(TypeError, "x must be a tensor of fp16, bf16, fp32 or fp64, got torch.int64"):
        norm(torch.ones(D).long())
    for shape in ((), (D, M)):
        with refuses(
            ValueError,
            f"x must have the width d=8 of this norm along its last axis, got shape {shape}",
        ):
            norm(torch.ones(shape))


# --- what is read and what asks -------------------------------------------------------------


@pytest.mark.parametrize("x", [None, [[[0.0]]], np.zeros((B, T, M)), torch.zeros(B, T, M).int()])
def test_what_is_no_floating_point_tensor_is_refused(x):
    kind = x.dtype if isinstance(x, torch.Tensor) else type(x).__name__
    message = f"x_btm must be a tensor of fp16, bf16, fp32 or fp64, got {kind}"
    refused(TypeError, message, x, methods=("forward", "weights", "queries"))
    if x is not None:
        refused(TypeError, message.replace("x_btm", "read_bsm"), torch.zeros(B, T, M), x)


@pytest.mark.parametrize("shape", [(M,), (T, M), (B, 1, T, M)])
def test_other_axes_are_refused(shape):
    x = torch.zeros(shape)
    message = f"x_btm must have axes (b, t, m), got shape {shape}"
    refused(ValueError, message, x, methods=("forward", "weights", "queries"))
    refused(
        ValueError,
        f"read_bsm must have axes (b, s, m), got shape {shape}",
        torch.zeros(B, T, M),
        x,
    )
    refused(
        ValueError,
        f"x_bsm must have axes (b, s, m), got shape {shape}",
        x,
        methods=("keys", "values"),
    )


def test_another_width_is_refused():
    x, read, reads = torch.zeros(B, T, M), torch.zeros(B, S, R), {"source_width": R}
    takes = "must have the width m={} that this layer takes along its last axis, got shape {}"
    of = {width: (B, n, width) for n, width in ((T, M), (S, R))}
    refused(ValueError, "x_btm " + takes.format(M, of[R]), read, methods=("forward", "queries"))
    refused(ValueError, "read_bsm " + takes.format(M, of[R]), x, read)
    refused(ValueError, "read_bsm " + takes.format(R, of[M]), x, x, layer=reads)
    refused(
        ValueError, "x_bsm " + takes.format(R, of[M]), x, layer=reads, methods=("keys", "values")
    )


def test_a_layer_that_reads_another_width_cannot_read_x():
    refused(
        ValueError,
        "x can read itself only where source_width is m, got source_width=11 and m=10; give "
        "read_bsm",
        torch.zeros(B, T, M),
        layer={"source_width": R},
    )


def test_batches_of_different_size_are_refused():
    # a batch of 1 is not repeated either
    refused(
        ValueError,
        "x_btm and read_bsm must have the same b, got b=2 in x_btm and b=1 in read_bsm",
        torch.zeros(B, T, M),
        torch.zeros(1, S, M),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_another_dtype_than_that_of_the_weights_is_refused(dtype):
    x = torch.zeros(B, T, M)
    message = (
        f"must have the dtype of the layer's weights, got {dtype} and weights of torch.float32"
    )
    refused(TypeError, f"x_btm {message}", x.to(dtype), methods=("forward", "weights", "queries"))
    refused(TypeError, f"read_bsm {message}", x, x.to(dtype))
    refused(TypeError, f"x_bsm {message}", x.to(dtype), methods=("keys", "values"))


def test_autocast_does_not_cast_fp64():
    x, single = torch.zeros(B, T, M), made()
    message = "must have the dtype of the layer's weights, got {} and weights of {}"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        single(x.half(), x)
        with refuses(TypeError, message.format("torch.float64", "torch.float32")):
            single(x.double())
        with refuses(TypeError, message.format("torch.float64", "torch.float32")):
            single(x, x.double())
        with refuses(TypeError, message.format("torch.float32", "torch.float64")):
            made().double()(x)


def test_another_dtype_is_refused_without_memory_too():
    x = torch.zeros(B, T, M, dtype=torch.float64, device="meta")
    with refuses(TypeError, "got torch.float64 and weights of torch.float32"):
        made().to("meta")(x)


def test_another_device_is_refused():
    x = torch.zeros(B, T, M, device="meta")
    message = "x_btm must be on the device of the layer, got meta and a layer on cpu"
    refused(ValueError, message, x, methods=("forward", "weights", "queries"))


def test_a_mask_on_another_device_is_refused_beside_x():
    x = torch.zeros(B, T, M)
    rest = "on the same device, got x_btm on cpu and {} on meta; masks are made where they are"
    for name, given in (
        ("may_attend", causal_mask(T, device="meta")),
        ("bias", torch.zeros(T, T, device="meta")),
    ):
        message = f"x_btm and {name} must be {rest.format(name)}"
        refused(ValueError, message, x, **{name: given})


# --- positions ------------------------------------------------------------------------------


def test_positions_without_rotary_positions_are_refused():
    x, positions = torch.zeros(B, T, M), torch.arange(T)
    refused(
        ValueError,
        "positions have no use in a layer without rotary=..., got positions",
        x,
        positions=positions,
    )
    refused(
        ValueError,
        "read_positions have no use in a layer without rotary=..., got read_positions",
        x,
        x,
        read_positions=positions,
    )
    for methods in (("queries",), ("keys",)):
        refused(ValueError, "positions have no use", x, positions=positions, methods=methods)


@pytest.mark.parametrize("given", [(), ("positions",), ("read_positions",)])
def test_both_positions_are_needed_where_something_else_is_read(given):
    call = {name: torch.arange(T) for name in given}
    said = {name: name in given for name in ("positions", "read_positions")}
    refused(
        ValueError,
        "with rotary positions and read_bsm, both positions and read_positions must be given, got "
        f"{said}",
        torch.zeros(B, T, M),
        torch.zeros(B, T, M),
        layer=TURNED,
        **call,
    )


@pytest.mark.parametrize("layer", [{}, TURNED], ids=["plain", "rotary"])
def test_positions_of_what_is_read_without_it_are_refused(layer):
    refused(
        ValueError,
        "read_positions belong to read_bsm, got them without it",
        torch.zeros(B, T, M),
        layer=layer,
        read_positions=torch.arange(T),
    )


@pytest.mark.parametrize("shape", [(), (T - 1,), (1,), (B, T + 1), (T, B), (3, T), (B, 1, T)])
def test_positions_that_are_not_one_a_token_are_refused(shape):
    x, read = torch.zeros(B, T, M), torch.zeros(B, S, M)
    wrong = torch.zeros(shape, dtype=torch.int64)
    message = f"positions must have the shape (5,), one for each token, or (2, 5), got {shape}"
    refused(ValueError, message, x, layer=TURNED, positions=wrong)
    refused(ValueError, message, x, wrong, layer=TURNED, methods=("queries", "keys"))
    refused(
        ValueError,
        f"read_positions must have the shape (7,), one for each token, or (2, 7), got {shape}",
        x,
        read,
        layer=TURNED,
        positions=torch.arange(T),
        read_positions=wrong,
    )


@pytest.mark.parametrize("wrong", [[0, 1, 2, 3, 4], torch.arange(5.0), torch.ones(B, T).bool()])
def test_positions_that_are_no_whole_numbers_are_refused(wrong):
    x = torch.zeros(B, T, M)
    message = "positions must be a tensor of signed integers, got"
    refused(TypeError, message, x, layer=TURNED, positions=wrong)
    both = {"positions": torch.arange(T), "read_positions": wrong}
    refused(TypeError, f"read_{message}", x, x, layer=TURNED, **both)


def test_negative_positions_are_refused():
    x = torch.zeros(B, T, M)
    refused(
        ValueError,
        "positions must be at least 0, got -1",
        x,
        layer=TURNED,
        positions=torch.arange(T) - 1,
    )
    refused(
        ValueError,
        "read_positions must be at least 0, got -2",
        x,
        x,
        layer=TURNED,
        positions=torch.arange(T),
        read_positions=torch.arange(T) - 2,
    )


# --- masks and biases -----------------------------------------------------------------------


def test_masks_and_biases_that_do_not_fit_are_refused_before_any_work():
    x, read = torch.zeros(B, T, M), torch.zeros(B, S, R)
    reads = {"source_width": R}
    for shape in ((T, T), (G, T, S), (S, T)):
        refused(
            ValueError,
            f"may_attend must broadcast to (b, h, t, s) = (2, 12, 5, 7), got shape {shape}",
            x,
            read,
            layer=reads,
            may_attend=torch.ones(shape).bool(),
        )
        refused(
            ValueError,
            f"bias must broadcast to (b, h, t, s) = (2, 12, 5, 7), got shape {shape}",
            x,
            read,
            layer=reads,
            bias=torch.zeros(shape),
        )


def test_numbers_as_a_mask_and_truths_as_a_bias_are_refused():
    x = torch.zeros(B, T, M)
    refused(
        TypeError,
        "may_attend must be a boolean tensor, True = may be read, got torch.float32",
        x,
        may_attend=torch.zeros(T, T),
    )
    refused(
        TypeError,
        "bias must be a tensor of fp16, bf16, fp32 or fp64, got torch.bool",
        x,
        bias=torch.ones(T, T).bool(),
    )


# --- the other layers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind,message,change",
    [
        (ValueError, "width (m) must be at least 1, got 0", {"width": 0}),
        (TypeError, "width (m) must be a whole number, got 8.0", {"width": 8.0}),
        (ValueError, "inner_width must be at least 1, got -1", {"inner_width": -1}),
        (
            ValueError,
            "one of 'relu', 'silu', 'gelu', 'gelu-tanh'; got 'elu'",
            {"activation": "elu"},
        ),
    ],
)
def test_a_feed_forward_network_of_no_width_or_kind_is_refused(kind, message, change):
    with refuses(kind, message):
        FeedForward(**{"width": M, "inner_width": 3, "activation": "relu"} | change)


def test_a_feed_forward_network_looks_at_its_input_first():
    network = FeedForward(M, 3, activation="relu")
    with refuses(TypeError, "x must be a tensor of fp16, bf16, fp32 or fp64, got torch.int64"):
        network(torch.zeros(T, M, dtype=torch.int64))
    with refuses(ValueError, f"the width m={M} that this layer takes along its last axis, got"):
        network(torch.zeros(T, M + 1))
    with refuses(TypeError, "the dtype of the layer's weights, got torch.float64 and weights of t"):
        network(torch.zeros(T, M).double())
    with refuses(ValueError, "must be on the device of the layer, got meta and a layer on cpu"):
        network(torch.zeros(T, M, device="meta"))


def test_a_norm_of_another_kind_is_refused():
    with refuses(ValueError, "kind must be one of 'rms', 'layer'; got 'batch'"):
        make_norm("batch", M, eps=1e-5)
    for kind in ("rms", "layer"):
        with refuses(ValueError, "must be at least 1, got 0"):
            make_norm(kind, 0, eps=1e-5)
        with refuses(ValueError, "eps must be above 0, got 0"):
            make_norm(kind, M, eps=0)


SMALL = replace(
    PUBLISHED["gpt-2"], name="a small model", width=M, attention=SIZES, feed_forward_width=3
)


@pytest.mark.parametrize(
    "kind,message,sizes,options",
    [
        (TypeError, "sizes must be ModelSizes, got AttentionSizes", SIZES, {}),
        (
            ValueError,
            "a block with cross-attention or a window has AttentionSizes, got LatentAttentionSizes",
            replace(SMALL, attention=PUBLISHED["deepseek-v2"].attention),
            {"cross": True},
        ),
        (
            ValueError,
            "or a window has AttentionSizes, got LatentAttentionSizes in a small model",
            replace(
                SMALL,
                attention=PUBLISHED["deepseek-v2"].attention,
                window=3,
                window_pattern=(True,),
            ),
            {"has_window": True},
        ),
        (
            ValueError,
            "has the gates of DeepSeek-V2, gate='softmax', got gate='sigmoid'",
            replace(
                SMALL,
                experts=ExpertSizes(n_routed=3, n_chosen=1, inner_width=2, gate="sigmoid"),
            ),
            {"has_experts": True},
        ),
        (ValueError, "needs experts, got experts=None in a small", SMALL, {"has_experts": True}),
        (ValueError, "needs a window, got window=None in a small", SMALL, {"has_window": True}),
        (ValueError, "pairing says how rotary positions turn", SMALL, {"pairing": "half"}),
        (ValueError, "dropout must be at least 0 and below 1, got 1.0", SMALL, {"dropout": 1}),
        (ValueError, "dropout must be at least 0 and below 1, got -0.1", SMALL, {"dropout": -0.1}),
        (TypeError, "dropout must be a number, got '0.1'", SMALL, {"dropout": "0.1"}),
    ],
)
def test_a_block_that_cannot_be_is_refused(kind, message, sizes, options):
    with refuses(kind, message):
        Block(sizes, **options)


READ = torch.zeros(B, S, M)


@pytest.mark.parametrize(
    "kind,message,cross,call",
    [
        (ValueError, "this block has none (cross=False)", False, {"read": READ}),
        (ValueError, "has none (cross=False)", False, {"may_read": torch.ones(S).bool()}),
        (ValueError, "read must be given to a block with cross-attention", True, {"read": None}),
        (TypeError, "read must be a tensor of fp16", True, {"read": READ.long()}),
        (ValueError, "read must have axes (b, s, m), got shape", True, {"read": READ[0]}),
        (ValueError, f"with b={B} and m={M}, got shape (1,", True, {"read": READ[:1]}),
        (ValueError, f"with b={B} and m={M}, got", True, {"read": READ[..., 1:]}),
    ],
)
def test_a_block_refuses_what_it_cannot_read_before_it_begins(kind, message, cross, call):
    block = Block(SMALL, cross=cross)

    def worked(*_):
        raise AssertionError("projected before refusing")

    block.attention.register_forward_pre_hook(worked)
    with refuses(kind, message):
        block(torch.zeros(B, T, M), **call)
    if "read" in call:
        with refuses(kind, message):
            block.cross_attention_weights(torch.zeros(B, T, M), **call)
