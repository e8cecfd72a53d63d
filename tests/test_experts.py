"""The claims of chapters/models-compared.md about experts: choice, gates, load and balance.

tests/test_experts_of_transformers.py holds the layer to DeepSeek-V2 there, weight for weight.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

import attnlib
from attnlib import (
    PUBLISHED,
    TRAINED,
    AttentionSizes,
    Block,
    FeedForward,
    LanguageModel,
    MixtureOfExperts,
    cost,
    definitions,
)
from attnlib.layers import balance_loss, choose_experts, expert_load
from attnlib.sizes import ExpertSizes

# x = 12 experts on 4 devices of 3; a token uses 5 of them, on at most 2 devices, and 2 shared ones
B, T, M, INNER = 2, 5, 7, 11
SIZES = ExpertSizes(
    n_routed=12,
    n_chosen=5,
    n_shared=2,
    inner_width=INNER,
    n_devices=4,
    n_devices_at_most=2,
    gate_factor=3.5,
)
ANYWHERE = replace(SIZES, n_devices=1, n_devices_at_most=None)
CHOICE = {"n_chosen": 5, "n_devices": 4, "n_devices_at_most": 2}


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(sizes=SIZES, seed=1, **options):
    """In fp64, every number random, those of biases too."""
    options = {"activation": "silu", "gated": True} | options
    layer = MixtureOfExperts(M, sizes, **options).double().requires_grad_(False)
    for i, weight in enumerate(layer.parameters()):
        size = weight.shape[1] ** -0.5 if weight.ndim == 2 else 0.5
        weight.copy_(size * random(*weight.shape, seed=100 * seed + i))
    return layer


def assert_equal(actual, wanted, atol=1e-12):
    torch.testing.assert_close(actual, wanted, rtol=0, atol=atol)


def in_numpy(network):
    return lambda rows: network(torch.from_numpy(rows)).numpy()


# --- the choice -------------------------------------------------------------------------------


def test_the_experts_of_the_largest_scores_are_chosen():
    scores = torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.4, 0.3, 0.2, 0.1]])
    assert choose_experts(scores, 3).tolist() == [[1, 3, 2], [0, 1, 2]]


def test_devices_are_chosen_by_their_best_expert_before_any_other_counts():
    # the second best expert stands beside the third, on a device without the best
    scores = torch.tensor([9.0, 1.0, 8.0, 7.0, 2.0, 3.0])
    choice = {"n_devices": 3, "n_devices_at_most": 1}
    assert choose_experts(scores, 2).tolist() == [0, 2]
    assert choose_experts(scores, 2, **choice).tolist() == [0, 1]
    assert choose_experts(scores, 4, **choice | {"n_devices_at_most": 2}).tolist() == [0, 2, 3, 1]


@given(
    st.integers(0, 2**32 - 1), st.sampled_from([(1, 1), (2, 1), (3, 2), (4, 3), (6, 2), (12, 7)])
)
def test_the_choice_is_that_of_the_definition(seed, devices):
    n_devices, at_most = devices
    n_chosen = min(5, at_most * 12 // n_devices)
    choice = {"n_chosen": n_chosen, "n_devices": n_devices, "n_devices_at_most": at_most}
    # whole numbers from 0 to 5: many are equal, and on whole devices too
    scores = torch.randint(6, (3, 12), generator=torch.Generator().manual_seed(seed)).double()
    wanted = [definitions.choose_experts(row, **choice) for row in scores.numpy()]
    assert choose_experts(scores, **choice).tolist() == wanted


def test_each_token_uses_so_many_different_experts_and_at_most_the_allowed_devices():
    chosen = choose_experts(random(500, 12), **CHOICE)
    for numbers in chosen.tolist():
        assert len(set(numbers)) == 5
        assert len({i // 3 for i in numbers}) <= 2
    # one device has 3 experts, so that two are needed, and of four devices each is used
    assert {i // 3 for i in chosen.flatten().tolist()} == {0, 1, 2, 3}


def test_of_equal_scores_the_lower_numbers_win_and_the_number_of_experts_stays():
    assert choose_experts(torch.zeros(12), **CHOICE).tolist() == [0, 1, 2, 3, 4]
    scores = torch.tensor([1.0, 1.0, 1.0, 0.0, 2.0, 0.0, 2.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    assert choose_experts(scores, **CHOICE).tolist() == [4, 6, 8, 3, 5]
    # more than 16 equal scores: a sort that is not stable may change their order
    assert choose_experts(torch.ones(640), 600).tolist() == list(range(600))


def test_an_expert_elsewhere_is_not_taken_even_where_all_that_is_left_scores_nothing():
    # the best device has one expert above zero, and zeros elsewhere are as large as its others
    scores = torch.zeros(12)
    scores[10] = 1.0
    chosen = choose_experts(scores, 3, n_devices=4, n_devices_at_most=1)
    assert chosen.tolist() == [10, 9, 11]
    nothing = torch.full((12,), -torch.inf)
    assert choose_experts(nothing, 3, n_devices=4, n_devices_at_most=1).tolist() == [0, 1, 2]


# --- the layer --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_shared", [0, 1, 2])
@pytest.mark.parametrize("sizes", [SIZES, ANYWHERE], ids=["devices", "anywhere"])
def test_the_layer_is_that_of_the_definition(sizes, n_shared):
    layer, x = made(replace(sizes, n_shared=n_shared)), random(T, M)
    wanted = definitions.mixture_of_experts(
        x.numpy(),
        layer.router.weight.numpy(),
        [in_numpy(network) for network in layer.routed],
        [in_numpy(network) for network in layer.shared],
        n_chosen=5,
        n_devices=sizes.n_devices,
        n_devices_at_most=sizes.n_devices_at_most,
        gate_factor=3.5,
    )
    assert_equal(layer(x), torch.from_numpy(wanted))


def test_a_hand_made_layer_shows_its_gates():
    # expert i multiplies by 10^i for x > 0, as ReLU(x)·10^i; the router likes them 1 : 2 : 5
    sizes = ExpertSizes(n_routed=3, n_chosen=2, inner_width=1, gate_factor=4.0)
    layer = MixtureOfExperts(1, sizes, activation="relu").double().requires_grad_(False)
    layer.router.weight.copy_(torch.tensor([[1.0], [2.0], [5.0]]).double().log())
    for i, network in enumerate(layer.routed):
        network.widen.weight.fill_(1.0)
        network.narrow.weight.fill_(10.0**i)
    # 4 · (5/8 · 100 + 2/8 · 10): an eighth is lost, and no gate grows for it
    assert_equal(layer(torch.tensor([[1.0]]).double()), torch.tensor([[260.0]]).double())
    scores, chosen, gates = layer.route(torch.tensor([[1.0]]).double())
    assert_equal(scores, torch.tensor([[1.0, 2.0, 5.0]]).double() / 8)
    assert chosen.tolist() == [[2, 1]]
    assert_equal(gates, torch.tensor([[2.5, 1.0]]).double())


def test_with_one_expert_the_mixture_is_an_ordinary_network_times_the_factor():
    layer = made(ExpertSizes(n_routed=1, n_chosen=1, inner_width=INNER, gate_factor=3.5))
    x = random(B, T, M)
    assert_equal(layer(x), 3.5 * layer.routed[0](x))


def test_equal_experts_are_one_network_times_the_sum_of_the_gates():
    layer, x = made(), random(B, T, M)
    for network in (*layer.routed, *layer.shared):
        network.load_state_dict(layer.routed[0].state_dict())
    gates = layer.route(x).gates.sum(-1, keepdim=True)
    assert (gates < 3.5).all()
    assert_equal(layer(x), (gates + 2) * layer.routed[0](x))


def test_the_order_of_experts_does_not_matter_and_whole_devices_may_change_places():
    layer, x = made(), random(T, M)
    devices = torch.arange(12).view(4, 3)[torch.tensor([2, 0, 3, 1])]
    order = devices[:, torch.tensor([1, 2, 0])].flatten()
    other = made()
    other.router.weight.copy_(layer.router.weight[order])
    for i, network in zip(order.tolist(), other.routed, strict=True):
        network.load_state_dict(layer.routed[i].state_dict())
    other.shared = torch.nn.ModuleList(reversed(other.shared))
    assert_equal(other(x), layer(x))
    assert (order[other.route(x).chosen] == layer.route(x).chosen).all()


def test_a_token_does_not_depend_on_the_others_whatever_they_choose():
    # all tokens want the same experts; none of these is ever full
    layer = made()
    x = random(1, M) + 0.01 * random(64, M, seed=1)
    assert len(layer.route(x).chosen.sort(-1).values.unique(dim=0)) < 10
    together = layer(x)
    assert_equal(together, torch.stack([layer(row) for row in x]))
    assert_equal(layer(x.view(4, 16, M)), together.view(4, 16, M), atol=0)
    spoilt = x.clone()
    spoilt[3] = torch.nan
    others = torch.arange(64) != 3
    assert_equal(layer(spoilt)[others], together[others])
    assert layer(spoilt)[3].isnan().all()


def test_nothing_comes_of_no_tokens():
    assert made()(torch.zeros(0, M).double()).shape == (0, M)
    assert made()(torch.zeros(B, 0, M).double()).shape == (B, 0, M)


def test_derivatives_are_those_of_finite_differences_the_choice_aside():
    sizes = ExpertSizes(n_routed=4, n_chosen=2, inner_width=3, n_devices=2, n_devices_at_most=1)
    layer, x = made(sizes), random(3, M).requires_grad_()
    layer.requires_grad_(True)
    gaps = layer.route(x).scores.sort(-1).values.diff(dim=-1)
    assert gaps.min() > 1e-3  # so that a small step changes no choice

    def result(x, router):
        return torch.func.functional_call(layer, {"router.weight": router}, x)

    assert torch.autograd.gradcheck(result, (x, layer.router.weight), atol=1e-6)
    layer(x).sum().backward()
    used = set(layer.route(x).chosen.flatten().tolist())
    for i, network in enumerate(layer.routed):
        assert (network.widen.weight.grad is not None) == (i in used)


@pytest.mark.parametrize("autocast", [False, True])
def test_scores_are_formed_in_fp32_from_what_the_router_and_the_tokens_are(autocast):
    layer = made().bfloat16()
    x = random(200, M).bfloat16()
    exact = torch.softmax(x.double() @ layer.router.weight.double().T, dim=-1)
    if autocast:
        layer, x = layer.float(), x.float()
    with torch.autocast("cpu", enabled=autocast):
        scores, _, gates = layer.route(x)
        y = layer(x)
    assert scores.dtype == gates.dtype == torch.float32
    # a score errs by m roundings of at most |r|·|x|, and softmax by twice that and a few of its own
    largest = x.norm(dim=-1).max() * layer.router.weight.norm(dim=-1).max()
    bound = (2 * M * float(largest) + 12 + 4) * 2.0**-24
    assert_equal(scores.double(), exact, atol=bound)
    assert y.dtype == (torch.float32 if autocast else torch.bfloat16)
    # what is chosen is not what scores in bf16 would choose
    rough = choose_experts((x.bfloat16() @ layer.router.weight.bfloat16().T).softmax(-1), **CHOICE)
    assert (choose_experts(exact, **CHOICE) == layer.route(x).chosen).all()
    assert (rough != layer.route(x).chosen).any()


def test_of_scores_that_are_rounded_to_one_number_the_larger_wins():
    # softmax makes 1 and 0, 0, 0 of these; the order of the last three is in the logits alone
    sizes = ExpertSizes(n_routed=4, n_chosen=2, inner_width=1)
    layer = MixtureOfExperts(1, sizes, activation="relu").requires_grad_(False)
    layer.router.weight.copy_(torch.tensor([[0.0], [10.0], [20.0], [900.0]]))
    scores, chosen, _ = layer.route(torch.ones(1, 1))
    assert scores.tolist() == [[0.0, 0.0, 0.0, 1.0]]
    assert chosen.tolist() == [[3, 2]]


def test_weights_begin_with_the_spread_that_is_stated():
    layer = MixtureOfExperts(400, replace(SIZES, n_routed=100, n_devices=4), activation="relu")
    for _ in range(2):
        # 40,000 numbers: their spread errs by 1/√(2·40,000) = 0.0035 of itself, five times that
        assert layer.router.weight.std().item() * 20 == pytest.approx(1, abs=0.018)
        assert layer.router.weight.mean().abs() < 5 / 20 / 200
        before = [w.clone() for w in layer.parameters()]
        layer.reset_parameters()
        assert all((w != old).any() for w, old in zip(layer.parameters(), before, strict=True))


# --- what it costs ----------------------------------------------------------------------------


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("biases", [False, True])
def test_it_has_the_parameters_that_the_sizes_count(gated, biases):
    layer = made(gated=gated, biases=biases)
    sizes = replace(
        PUBLISHED["deepseek-v2"],
        width=M,
        experts=SIZES,
        gated=gated,
        feed_forward_biases=biases,
    )
    n_parameters = sum(weight.numel() for weight in layer.parameters())
    assert n_parameters == sizes.n_expert_parameters_per_layer
    names = [name for name, _ in layer.named_parameters() if "router" in name]
    assert names == ["router.weight"]


def test_a_token_costs_the_matrices_of_its_own_experts_and_of_the_router():
    layer = made()
    with FlopCounterMode(display=False) as counter:
        layer(random(T, M))
    sizes = replace(PUBLISHED["deepseek-v2"], width=M, n_layers=2, experts=SIZES)
    one_layer = replace(sizes, experts=replace(SIZES, n_dense_layers=1))
    flops = cost.evaluate(cost.linear_flops(cost.ABSORBED)["experts"], one_layer)
    assert counter.get_total_flops() == T * flops == T * 2 * M * (3 * INNER * (5 + 2) + 12)


# --- load and balance -------------------------------------------------------------------------


def test_loads_are_counted_in_even_shares_and_sum_to_the_number_of_experts():
    chosen = torch.tensor([[[0, 1], [0, 2]], [[0, 1], [2, 0]]])
    assert expert_load(chosen, 5).tolist() == [2.5, 1.25, 1.25, 0.0, 0.0]
    chosen = choose_experts(random(B, 50, 12), **CHOICE)
    assert expert_load(chosen, 12).sum().item() == pytest.approx(12, rel=1e-6)
    assert expert_load(torch.arange(12)[:, None], 12).tolist() == [1.0] * 12


@given(st.integers(0, 2**32 - 1))
def test_the_balance_is_that_of_the_definition(seed):
    scores = torch.softmax(2 * random(B, T, 12, seed=seed), dim=-1)
    chosen = choose_experts(scores, **CHOICE)
    wanted = definitions.balance_loss(scores.reshape(-1, 12), chosen.reshape(-1, 5).tolist())
    assert balance_loss(scores, chosen).item() == pytest.approx(wanted, rel=1e-13)
    assert balance_loss(scores, chosen, 0.25).item() == pytest.approx(wanted / 4, rel=1e-13)


def test_with_even_loads_the_balance_is_alpha_whatever_the_scores_and_nothing_presses():
    logits = random(4, 12).requires_grad_()
    chosen = torch.arange(12).view(4, 3)  # each expert once
    loss = balance_loss(logits.softmax(-1), chosen, 0.3)
    assert loss.item() == pytest.approx(0.3, rel=1e-14)
    (pressed,) = torch.autograd.grad(loss, logits)
    assert_equal(pressed, torch.zeros(4, 12).double(), atol=1e-16)


def test_with_even_scores_the_balance_is_alpha_whatever_the_loads():
    scores = torch.full((6, 12), 1 / 12, dtype=torch.float64)
    chosen = choose_experts(scores, **CHOICE)
    assert expert_load(chosen, 12).max() > 2
    assert balance_loss(scores, chosen, 0.3).item() == pytest.approx(0.3, rel=1e-14)


def test_an_uneven_load_may_give_less_than_alpha():
    # narrowly won twice, widely lost once: loads 4/3 and 2/3, mean scores 0.4 and 0.6
    scores = torch.tensor([[0.6, 0.4], [0.6, 0.4], [0.0, 1.0]], dtype=torch.float64)
    loss = balance_loss(scores, choose_experts(scores, 1))
    assert loss.item() == pytest.approx(4 / 3 * 0.4 + 2 / 3 * 0.6, rel=1e-14)
    assert loss < 1


@given(st.integers(0, 2**32 - 1))
def test_where_loads_and_mean_scores_have_one_order_the_balance_is_at_least_alpha(seed):
    # one token: what it chooses has its largest scores
    scores = torch.softmax(3 * random(1, 12, seed=seed), dim=-1)
    assert balance_loss(scores, choose_experts(scores, 5)) >= 1 - 1e-14


def test_with_devices_one_token_may_give_less_than_alpha():
    # the device of the best expert has a bad one besides, and both are used: 2 · (0.46 + 0)
    scores = torch.tensor([[0.28, 0.26, 0.46, 0.0]], dtype=torch.float64)
    chosen = choose_experts(scores, 2, n_devices=2, n_devices_at_most=1)
    assert balance_loss(scores, chosen).item() == pytest.approx(0.92, rel=1e-14)


def test_the_balance_presses_an_expert_down_as_it_is_loaded():
    logits = random(T, 12).requires_grad_()
    chosen = choose_experts(logits.detach(), **CHOICE)
    assert torch.autograd.gradcheck(lambda z: balance_loss(z.softmax(-1), chosen), logits)
    # through the choice too, which a small step does not change
    assert torch.autograd.gradcheck(
        lambda z: balance_loss(z.softmax(-1), choose_experts(z.softmax(-1), **CHOICE)), logits
    )
    scores = logits.detach().softmax(-1).requires_grad_()
    (pressed,) = torch.autograd.grad(balance_loss(scores, chosen), scores)
    assert_equal(pressed, (expert_load(chosen, 12).double() / T).expand(T, 12), atol=1e-6)


def test_steps_against_the_balance_even_out_the_load():
    logits = random(40, 12) + 2 * torch.arange(12) / 12
    before = expert_load(choose_experts(logits, 5), 12)
    offset = torch.zeros(12).double().requires_grad_()
    for _ in range(60):
        scores = (logits + offset).softmax(-1)
        (pressed,) = torch.autograd.grad(balance_loss(scores, choose_experts(scores, 5)), offset)
        offset = (offset - pressed).detach().requires_grad_()
    after = expert_load(choose_experts(logits + offset, 5), 12)
    assert before.max() - before.min() > 1.5
    assert after.max() - after.min() < 0.5 * (before.max() - before.min())


def test_balance_is_computed_in_fp32_of_scores_in_half_precision():
    scores = torch.softmax(random(300, 12), dim=-1)
    chosen = choose_experts(scores, **CHOICE)
    half = scores.bfloat16()
    wanted = definitions.balance_loss(half.double(), chosen.tolist())
    # 300 additions and 12 products, each rounded once, of terms that sum to about 1
    assert balance_loss(half, chosen).dtype == torch.float32
    assert balance_loss(half, chosen).item() == pytest.approx(wanted, rel=312 * 2.0**-24)


# --- a model ------------------------------------------------------------------------------------

MODEL = replace(
    TRAINED["shakespeare"],
    name="a small model",
    n_layers=3,
    width=M + 1,
    attention=AttentionSizes(n_query_heads=6, n_kv_heads=3, head_dim=4, value_dim=5),
    feed_forward_width=13,
    vocabulary=17,
    context=19,
    experts=replace(SIZES, n_dense_layers=1),
)


def model(seed=0):
    language_model = LanguageModel(MODEL, pairing="half").double().requires_grad_(False)
    language_model.reset_parameters(torch.Generator().manual_seed(seed))
    for block in language_model.decoder.blocks[1:]:
        block.feed_forward.router.weight.mul_(100)  # or all experts score alike
    return language_model.eval()


def test_a_model_has_ordinary_networks_first_and_experts_in_all_other_layers():
    language_model = model()
    kinds = [type(block.feed_forward) for block in language_model.decoder.blocks]
    assert kinds == [FeedForward, MixtureOfExperts, MixtureOfExperts]
    assert language_model.decoder.blocks[0].feed_forward.inner_width == 13
    for block in language_model.decoder.blocks[1:]:
        assert block.feed_forward.sizes == MODEL.experts
        networks = (*block.feed_forward.shared, *block.feed_forward.routed)
        assert all((x.activation, x.gate is not None) == ("silu", True) for x in networks)
    assert sum(w.numel() for w in language_model.parameters()) == MODEL.n_parameters
    plain = Block(MODEL, pairing="half")
    assert isinstance(plain.feed_forward, FeedForward)


@pytest.mark.parametrize("chunks", [(9,), (1,) * 9, (4, 1, 3, 1)])
def test_experts_never_full_leave_cached_and_uncached_logits_equal(chunks):
    language_model = model()
    tokens = torch.randint(17, (B, 9), generator=torch.Generator().manual_seed(2))
    cache = language_model.new_cache()
    parts = [language_model(chunk, cache=cache) for chunk in tokens.split(chunks, dim=1)]
    assert_equal(torch.cat(parts, dim=1), language_model(tokens))


def test_the_experts_of_a_model_begin_as_its_other_matrices_do():
    sizes = replace(MODEL, width=48, experts=replace(MODEL.experts, inner_width=40))
    language_model = LanguageModel(sizes, pairing="half")
    language_model.reset_parameters(torch.Generator().manual_seed(0))
    layers = [block.feed_forward for block in language_model.decoder.blocks[1:]]
    networks = [x for layer in layers for x in (*layer.shared, *layer.routed)]
    # what is added to the stream is smaller by the root of 6 sub-layers, however many experts
    for matrices, spread in (
        ([x.narrow for x in networks], 0.02 / 6**0.5),
        ([x.widen for x in networks], 0.02),
        ([x.gate for x in networks], 0.02),
        ([x.router for x in layers], 0.02),
    ):
        numbers = torch.cat([matrix.weight.flatten() for matrix in matrices])
        # a spread of n numbers errs by 1/√(2n) of itself; five times that
        tolerance = 5 / (2 * len(numbers)) ** 0.5
        assert numbers.std().item() / spread == pytest.approx(1, abs=tolerance)


# --- the sizes of published models ------------------------------------------------------------


def test_deepseek_v2_chooses_6_of_160_experts_on_at_most_3_of_8_devices():
    sizes = PUBLISHED["deepseek-v2"].experts
    assert (sizes.n_devices, sizes.n_devices_at_most) == (8, 3)
    assert (sizes.gate, sizes.gate_factor) == ("softmax", 16.0)
    chosen = choose_experts(
        random(100, sizes.n_routed), sizes.n_chosen, n_devices=8, n_devices_at_most=3
    )
    assert max(len({i // 20 for i in numbers}) for numbers in chosen.tolist()) == 3
    other = PUBLISHED["deepseek-v3"].experts
    assert (other.n_devices, other.n_devices_at_most, other.gate_factor) == (8, 4, 2.5)
    assert other.gate == "sigmoid"


def test_an_expert_is_a_feed_forward_network():
    layer = made(activation="gelu", gated=False)
    assert all(isinstance(network, FeedForward) for network in (*layer.shared, *layer.routed))
    assert (len(layer.shared), len(layer.routed)) == (2, 12)
    assert {network.inner_width for network in layer.routed} == {INNER}
    assert np.all([network.activation == "gelu" for network in layer.routed])
    assert attnlib.MixtureOfExperts is MixtureOfExperts
