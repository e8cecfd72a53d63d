"""The feed-forward network, the norms and the block are those of their definitions.

Attention is in test_layers.py; whole models are in test_models_of_all_kinds.py.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attnlib import AttentionSizes, Block, FeedForward, ModelSizes, causal_mask, definitions
from attnlib.layers import ACTIVATIONS, RMSNorm, make_norm
from attnlib.sizes import LinearScaling, RotarySizes

B, T, S, H, G, D, E, M, INNER = 2, 5, 7, 6, 3, 4, 9, 8, 11
SIZES = ModelSizes(
    name="a small model",
    source="made up for a test",
    n_layers=3,
    width=M,
    attention=AttentionSizes(n_query_heads=H, n_kv_heads=G, head_dim=D, value_dim=E, biases=True),
    feed_forward_width=INNER,
    gated=False,
    activation="gelu",
    feed_forward_biases=True,
    vocabulary=13,
    tied_embeddings=True,
    norm="layer",
    norm_placement="pre",
    norm_epsilon=1e-3,
    context=9,
)
PLACEMENTS = ["pre", "post", "peri"]


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def filled(module, seed=1):
    """In fp64, every number random, those of biases and norms too."""
    module = module.double().eval()
    with torch.no_grad():
        for i, (name, weight) in enumerate(module.named_parameters()):
            size = weight.shape[1] ** -0.5 if weight.ndim == 2 else 0.5
            is_norm = "norm" in name and name.endswith("weight")
            weight.copy_(size * random(*weight.shape, seed=100 * seed + i) + is_norm)
    return module.requires_grad_(False)


def block(seed=1, **changes):
    options = {k: changes.pop(k) for k in ("cross", "dropout", "has_window") if k in changes}
    pairing = None if changes.get("rotary") is None else "half"
    return filled(Block(replace(SIZES, **changes), pairing=pairing, **options), seed)


def assert_equal(actual, wanted, atol=1e-12):
    torch.testing.assert_close(actual, wanted, rtol=0, atol=atol)


def of_numpy(array):
    return torch.from_numpy(np.asarray(array))


# --- the feed-forward network -----------------------------------------------------------------

DEFINED = {
    "relu": definitions.relu,
    "silu": definitions.silu,
    "gelu": definitions.gelu,
    "gelu-tanh": definitions.gelu_tanh,
}


def arrays(linear):
    """As the definitions have them: a column of the matrix for each number that comes out."""
    bias = np.zeros(linear.out_features) if linear.bias is None else linear.bias.numpy()
    return linear.weight.T.numpy(), bias


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("activation", DEFINED)
def test_two_matrices_are_those_of_the_definition(activation, biases):
    network = filled(FeedForward(M, INNER, activation=activation, biases=biases))
    x = random(T, M)
    wanted = definitions.feed_forward(
        x.numpy(), *arrays(network.widen), *arrays(network.narrow), activation=DEFINED[activation]
    )
    assert_equal(network(x), of_numpy(wanted))


@pytest.mark.parametrize("activation", DEFINED)
def test_three_matrices_are_those_of_the_definition(activation):
    network = filled(FeedForward(M, INNER, activation=activation, gated=True))
    x = random(T, M)
    matrices = [linear.weight.T.numpy() for linear in (network.gate, network.widen, network.narrow)]
    wanted = definitions.gated_feed_forward(x.numpy(), *matrices, activation=DEFINED[activation])
    assert_equal(network(x), of_numpy(wanted))


def test_every_activation_of_the_sizes_is_there_and_no_other():
    for name in ACTIVATIONS:
        assert replace(SIZES, activation=name).activation == name
    assert set(ACTIVATIONS) == set(DEFINED)


def test_the_bend_of_a_hand_made_network_is_seen():
    # three inner numbers x, −x and 1; ReLU keeps one of the first two: y = |x| + 1
    network = FeedForward(1, 3, activation="relu", biases=True).double().requires_grad_(False)
    network.widen.weight.copy_(torch.tensor([[1.0], [-1.0], [0.0]]))
    network.widen.bias.copy_(torch.tensor([0.0, 0.0, 1.0]))
    network.narrow.weight.fill_(1.0)
    x = torch.tensor([[-3.0], [0.0], [2.5]]).double()
    assert_equal(network(x), x.abs() + 1, atol=0)


def test_a_gate_of_zero_shuts_and_a_wide_open_one_lets_through():
    network = filled(FeedForward(M, INNER, activation="silu", gated=True, biases=True))
    x = random(T, M)
    network.gate.weight.zero_()
    network.gate.bias.zero_()
    assert_equal(network(x), network.narrow.bias.expand(T, M), atol=0)
    network.gate.bias.fill_(1000.0)  # silu(1000) is 1000 up to e^−1000
    assert_equal(network(x), network.narrow(1000 * network.widen(x)), atol=1e-9)


def test_each_token_is_worked_on_by_itself():
    network, x = filled(FeedForward(M, INNER, activation="gelu")), random(B, T, M)
    order = torch.tensor([3, 0, 4, 1, 2])
    assert_equal(network(x[:, order]), network(x)[:, order])
    assert_equal(network(x)[1, 2], network(x[1, 2]))


@pytest.mark.parametrize("gated", [False, True])
def test_derivatives_of_the_network_are_those_of_finite_differences(gated):
    network = FeedForward(M, INNER, activation="gelu-tanh", gated=gated, biases=True).double()
    x = random(3, M).requires_grad_()
    assert torch.autograd.gradcheck(network, x, atol=1e-6)


def test_the_network_begins_with_variance_one_over_the_numbers_that_go_in():
    torch.manual_seed(0)
    network = FeedForward(200, 300, activation="relu", gated=True, biases=True)
    for linear in (network.widen, network.gate, network.narrow):
        # of 60,000 normal numbers the mean square has the relative spread √(2/60,000) = 0.006
        assert abs(linear.weight.square().mean() * linear.in_features - 1) < 0.03
        assert not linear.bias.any()


# --- the norms --------------------------------------------------------------------------------


def test_the_norms_are_those_of_their_definitions():
    x, eps = random(T, M), 0.1
    layer = filled(SimpleNorm("layer", eps)).norm
    wanted = definitions.layer_norm(
        x.numpy(), layer.weight.numpy(), layer.bias.numpy(), epsilon=eps
    )
    assert_equal(layer(x), of_numpy(wanted))
    rms = filled(SimpleNorm("rms", eps)).norm
    by_hand = [row / np.sqrt(np.mean(row**2) + eps) * rms.weight.numpy() for row in x.numpy()]
    assert_equal(rms(x), of_numpy(np.stack(by_hand)))
    assert isinstance(rms, RMSNorm)


class SimpleNorm(torch.nn.Module):
    """So that `filled` sees by the name that it is a norm."""

    def __init__(self, kind, eps):
        super().__init__()
        self.norm = make_norm(kind, M, eps=eps)


# --- the block --------------------------------------------------------------------------------


def norm_defined(x, norm):
    if isinstance(norm, RMSNorm):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + norm.eps) * norm.weight.numpy()
    return definitions.layer_norm(x, norm.weight.numpy(), norm.bias.numpy(), epsilon=norm.eps)


def defined(layer, x, placement, *, may_attend, read=None):
    """One row, written out: what each placement says, one sub-layer after another."""

    def attend(attention):
        return lambda z: attention(
            of_numpy(z)[None],
            None if attention is layer.attention else read[None],
            may_attend=may_attend if attention is layer.attention else None,
        )[0].numpy()

    def network(z):
        return definitions.feed_forward(
            z,
            *arrays(layer.feed_forward.widen),
            *arrays(layer.feed_forward.narrow),
            activation=definitions.gelu,
        )

    sub_layers = [("attention", attend(layer.attention)), ("feed_forward", network)]
    if read is not None:
        sub_layers.insert(1, ("cross_attention", attend(layer.cross_attention)))
    x = x.numpy()
    for name, f in sub_layers:
        norm = getattr(layer, f"{name}_norm")
        if placement == "post":
            x = norm_defined(x + f(x), norm)
        elif placement == "pre":
            x = x + f(norm_defined(x, norm))
        else:
            x = x + norm_defined(f(norm_defined(x, norm)), getattr(layer, f"{name}_out_norm"))
    return of_numpy(x)


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_block_is_what_its_placement_says(placement, norm, cross):
    layer = block(norm=norm, norm_placement=placement, cross=cross)
    x, read, mask = random(B, T, M), random(B, S, M, seed=2) if cross else None, causal_mask(T)
    out = layer(x, read=read, may_attend=mask)
    for row in range(B):
        wanted = defined(
            layer, x[row], placement, may_attend=mask, read=None if read is None else read[row]
        )
        assert_equal(out[row], wanted)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_sub_layers_that_add_nothing_leave_the_stream_alone_unless_the_norm_stands_after_the_sum(
    placement,
):
    layer = block(norm_placement=placement, cross=True)
    for linear in (
        layer.attention.output,
        layer.cross_attention.output,
        layer.feed_forward.narrow,
    ):
        linear.weight.zero_()
        linear.bias.zero_()
    if placement == "peri":  # a norm of zeros is its bias
        for name in ("attention", "cross_attention", "feed_forward"):
            getattr(layer, f"{name}_out_norm").bias.zero_()
    x = random(B, T, M)
    same = torch.equal(layer(x, read=random(B, S, M, seed=2)), x)
    assert same == (placement != "post")


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_weights_that_are_shown_are_those_with_which_the_block_reads(placement):
    layer = block(norm_placement=placement, cross=True, norm="rms")
    x, read, mask = random(B, T, M), random(B, S, M, seed=2), causal_mask(T)
    may_read = torch.arange(S) < 4
    seen = {}
    for name in ("attention", "cross_attention"):
        attention = getattr(layer, name)
        attention.register_forward_hook(
            lambda module, given, options, out, name=name: seen.update({name: (given, options)}),
            with_kwargs=True,
        )
    layer(x, read=read, may_attend=mask, may_read=may_read)
    call = {"may_attend": mask}
    shown = {
        "attention": layer.attention_weights(x, **call),
        "cross_attention": layer.cross_attention_weights(x, read=read, may_read=may_read, **call),
    }
    for name, weights in shown.items():
        given, options = seen[name]
        options = {key: x for key, x in options.items() if x is not None}
        assert_equal(weights, getattr(layer, name).weights(*given, **options), atol=0)
    assert (shown["cross_attention"][..., 4:] == 0).all()


def test_keys_and_values_of_cross_attention_come_from_what_is_read_alone():
    layer = block(cross=True)
    x, read = random(B, T, M), random(B, S, M, seed=2)
    seen = []
    for name in ("key", "value"):
        getattr(layer.cross_attention, name).register_forward_hook(
            lambda module, given, out: seen.append(given[0])
        )
    layer(x, read=read)
    assert len(seen) == 2 and all(given is read for given in seen)


def test_the_order_of_what_is_read_does_not_matter():
    layer, order = block(cross=True), torch.tensor([4, 6, 0, 2, 1, 5, 3])
    x, read = random(B, T, M), random(B, S, M, seed=2)
    assert_equal(layer(x, read=read[:, order]), layer(x, read=read))
    may_read = torch.arange(S) < 3
    moved = layer(x, read=read[:, order], may_read=may_read[order])
    assert_equal(moved, layer(x, read=read, may_read=may_read))
    assert (moved - layer(x, read=read)).abs().max() > 1e-3


def test_a_layer_with_a_window_turns_by_its_own_base_and_without_scaling():
    rotary = RotarySizes(base=100.0, window_base=10.0, scaling=LinearScaling(factor=4.0))
    window = {"window": 3, "window_pattern": (True, False)}
    x, positions = random(B, T, M), torch.arange(T) * 3

    def by(kept, has_window, **options):
        layer = block(rotary=kept, has_window=has_window, **options)
        return layer(x, positions=positions)

    plain = {base: by(RotarySizes(base=base), False) for base in (10.0, 100.0)}
    assert_equal(by(rotary, True, **window), plain[10.0], atol=0)
    scaled = RotarySizes(base=100.0, scaling=LinearScaling(factor=4.0))
    assert_equal(by(rotary, False, **window), by(scaled, False), atol=0)
    # without a base of their own, layers with a window have the one of all, and no scaling
    assert_equal(by(scaled, True, **window), plain[100.0], atol=0)
    assert (by(scaled, False) - plain[100.0]).abs().max() > 1e-3


def test_cross_attention_has_no_rotary_positions():
    layer = block(rotary=RotarySizes(base=100.0), cross=True)
    assert layer.attention.rotary is not None and layer.cross_attention.rotary is None


def test_the_epsilon_of_the_model_is_that_of_all_its_norms():
    heads = replace(SIZES.attention, query_key_norm=True)
    layer = Block(replace(SIZES, attention=heads, norm_placement="peri"), cross=True)
    found = [module.eps for name, module in layer.named_modules() if name.endswith("norm")]
    assert found == [1e-3] * (6 + 4)


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("cross", [False, True])
def test_derivatives_of_the_block_are_those_of_finite_differences(placement, cross):
    layer = block(norm_placement=placement, cross=cross)
    x = random(1, 3, M).requires_grad_()
    read = (random(1, 4, M, seed=2).requires_grad_(),) if cross else ()

    def f(x, read=None):
        return layer(x, read=read, may_attend=causal_mask(3))

    assert torch.autograd.gradcheck(f, (x, *read), atol=1e-6)


# --- dropout ----------------------------------------------------------------------------------


def test_dropout_acts_in_training_alone():
    layer, without = block(dropout=0.5), block()
    x = random(B, T, M)
    assert_equal(layer.eval()(x), without(x), atol=0)
    torch.manual_seed(0)
    first, second = layer.train()(x), layer(x)
    assert (first - without(x)).abs().max() > 0.1
    assert (first - second).abs().max() > 0.1


@pytest.mark.parametrize("name", ["attention", "cross_attention", "feed_forward"])
def test_dropout_acts_on_what_each_sub_layer_adds(name):
    layer = block(dropout=0.5, cross=True).train()
    parts = ("attention", "cross_attention", "feed_forward")
    for other in parts:
        matrix = getattr(layer, other)
        last = matrix.narrow if other == "feed_forward" else matrix.output
        last.weight.zero_()
        last.bias.fill_(1.0 if other == name else 0.0)
    torch.manual_seed(0)
    x = torch.full((1, 1000, M), 4.0).double()  # the stream itself is not dropped
    added = layer(x, read=random(1, S, M)) - x
    # 8,000 numbers, each 0 or 2 with probability 1/2: 4 standard errors of the share are 0.022
    assert set(added.unique().tolist()) == {0.0, 2.0}
    assert abs((added == 0).double().mean() - 0.5) < 0.023


# --- as modules -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_other_kinds_of_numbers_give_the_same_up_to_their_rounding(placement, dtype):
    layer, x = block(norm_placement=placement, norm="rms"), random(B, T, M)
    exact, rounded = layer(x), layer.to(dtype)(x.to(dtype))
    assert rounded.dtype == dtype
    # numbers of size 1 to 6 pass five sums of at most h·e = 54 products each, whose roundings of
    # eps/2 add up like their roots: 6 · 5 · √54 · eps/2
    assert (rounded.double() - exact).abs().max() < 111 * torch.finfo(dtype).eps


def test_activations_are_torchs():
    x = random(100, seed=5)
    wanted = {"relu": F.relu(x), "silu": F.silu(x), "gelu": F.gelu(x)}
    wanted["gelu-tanh"] = F.gelu(x, approximate="tanh")
    for name, values in wanted.items():
        assert_equal(ACTIVATIONS[name](x), values, atol=0)
