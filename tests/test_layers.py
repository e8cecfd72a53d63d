"""The claims of chapters/multi-head-attention.md about the layer, each held to an oracle.

The layers of transformers are compared in test_layers_of_transformers.py.
"""

import copy
import io

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch.func import functional_call

from attnlib import (
    PUBLISHED,
    AttentionSizes,
    MultiHeadAttention,
    attention_weights,
    causal_mask,
    definitions,
    dot_product_attention,
    linear_frequencies,
    llama3_frequencies,
    padded_positions,
    padding_mask,
    rotary_frequencies,
    rotate,
    yarn_attention_factor,
    yarn_frequencies,
)
from attnlib.layers import RMSNorm
from attnlib.sizes import LinearScaling, Llama3Scaling, RotarySizes, YarnScaling

# All different, so that no two axes can be confused; h = g·p, and neither d nor e is m/h. R is the
# width of what is read by cross-attention.
B, G, P, T, S, D, E, M, R = 2, 3, 4, 5, 7, 8, 9, 10, 11
H = G * P
SIZES = AttentionSizes(n_query_heads=H, n_kv_heads=G, head_dim=D, value_dim=E)
ROTARY = RotarySizes(base=100.0)
TURNED = {"rotary": ROTARY, "pairing": "half"}
LOW = [torch.float16, torch.bfloat16]


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sized(**changes) -> AttentionSizes:
    fields = {"n_query_heads": H, "n_kv_heads": G, "head_dim": D, "value_dim": E}
    return AttentionSizes(**(fields | changes))


def made(sizes: AttentionSizes = SIZES, width: int = M, seed: int = 7, **options):
    """A layer in fp64 in which every number is random, those of biases and norms too."""
    layer = MultiHeadAttention(width, sizes, **options).double()
    with torch.no_grad():
        for i, (name, weight) in enumerate(layer.named_parameters()):
            size = weight.shape[1] ** -0.5 if weight.ndim == 2 else 1.0
            weight.copy_(size * random(*weight.shape, seed=100 * seed + i) + ("norm" in name))
    return layer.requires_grad_(False)


def states(n: int = T, width: int = M, seed: int = 1) -> torch.Tensor:
    return random(B, n, width, seed=seed)


def assert_equal(actual: torch.Tensor, wanted: torch.Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(actual, wanted, rtol=0, atol=atol, equal_nan=True)


# --- oracle 1: the definition ---------------------------------------------------------------


def defined_heads(layer, projection, norm, x, positions, n_heads) -> np.ndarray:
    """Each vector of each head by itself: project, norm, turn. Shape (b, heads, tokens, width)."""
    matrix, x = projection.weight.numpy(), x.numpy()
    width = len(matrix) // n_heads
    offset = np.zeros(len(matrix)) if projection.bias is None else projection.bias.numpy()
    heads = np.zeros((len(x), n_heads, x.shape[1], width))
    for b in range(len(x)):
        for i in range(n_heads):
            rows = slice(i * width, (i + 1) * width)
            for t, token in enumerate(x[b]):
                y = matrix[rows] @ token + offset[rows]
                if norm is not None:
                    y = y / np.sqrt(np.mean(y**2) + norm.eps) * norm.weight.numpy()
                heads[b, i, t] = y
            if positions is not None:
                at = np.broadcast_to(positions.numpy(), x.shape[:2])[b]
                heads[b, i] = definitions.rotate(heads[b, i], at, layer.pairing, layer.rotary.base)
    return heads


def defined(
    layer, x, read=None, may_attend=None, bias=None, positions=None, read_positions=None
) -> torch.Tensor:
    """The sum over heads, each with its own columns of the output's matrix."""
    if read is None:
        if layer.rotary is not None and positions is None:
            positions = torch.arange(x.shape[1])
        read, read_positions = x, positions
    h, g = layer.sizes.n_query_heads, layer.sizes.n_kv_heads
    q = defined_heads(layer, layer.query, layer.query_norm, x, positions, h)
    k = defined_heads(layer, layer.key, layer.key_norm, read, read_positions, g)
    v = defined_heads(layer, layer.value, None, read, None, g)
    everywhere = (len(x), h, x.shape[1], read.shape[1])
    may = np.broadcast_to(True if may_attend is None else may_attend.numpy(), everywhere)
    added = np.broadcast_to(0.0 if bias is None else bias.numpy(), everywhere)
    scale = 1 / np.sqrt(layer.sizes.scale_width or layer.sizes.head_dim)
    matrix, e = layer.output.weight.numpy(), layer.sizes.value_dim
    out = np.zeros((len(x), x.shape[1], len(matrix)))
    for b in range(len(x)):
        for i in range(h):
            j = i // (h // g)
            read_by_head = definitions.attention(
                q[b, i], k[b, j], v[b, j], may[b, i], added[b, i], scale
            )
            out[b] += read_by_head @ matrix[:, i * e : (i + 1) * e].T
    return torch.from_numpy(out if layer.output.bias is None else out + layer.output.bias.numpy())


@st.composite
def problems(draw):
    """What makes a layer of any kind, what it is given, and how it is called."""
    b, g, p = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    t, s = draw(st.integers(0, 3)), draw(st.integers(0, 4))
    d, e = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    m, r = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    pairing = draw(st.sampled_from([None, "half", "interleaved"]))
    itself = draw(st.booleans())
    seed = draw(st.integers(0, 999))
    sizes = {
        "n_query_heads": g * p,
        "n_kv_heads": g,
        "head_dim": d if pairing is None else 2 * d,
        "value_dim": e,
        "scale_width": draw(st.sampled_from([None, 7])),
        "biases": draw(st.booleans()),
        "query_key_norm": draw(st.booleans()),
    }
    options = {} if pairing is None else {"rotary": ROTARY, "pairing": pairing}
    options |= {} if itself else {"source_width": r}
    options |= {"norm_epsilon": 0.5} if sizes["query_key_norm"] and draw(st.booleans()) else {}
    x, read = random(b, t, m, seed=seed), random(b, s, r, seed=seed + 1)
    call = {} if itself else {"read": read}
    s = t if itself else s
    if draw(st.booleans()):
        call["may_attend"] = random(b, 1, t, s, seed=seed + 2) > -0.5
    if draw(st.booleans()):
        call["bias"] = random(g * p, t, s, seed=seed + 3)

    def somewhere(n: int, more: int) -> torch.Tensor:
        shape = draw(st.sampled_from([(n,), (1, n), (b, n)]))
        generator = torch.Generator().manual_seed(seed + more)
        return torch.randint(0, 50, shape, generator=generator)

    if pairing is not None and (not itself or draw(st.booleans())):
        call["positions"] = somewhere(t, 4)
        if not itself:
            call["read_positions"] = somewhere(s, 5)
    return (sizes, m, seed), options, x, call


def called(method, x, call) -> torch.Tensor:
    call = dict(call)
    return method(x, call.pop("read", None), **call)


@given(problems())
def test_the_layer_is_its_definition(problem):
    (sizes, m, seed), options, x, call = problem
    layer = made(AttentionSizes(**sizes), m, seed, **options)
    assert_equal(called(layer, x, call), defined(layer, x, **call))


@pytest.mark.parametrize("pairing", [None, "half", "interleaved"])
@pytest.mark.parametrize("itself", [True, False])
def test_the_layer_is_its_definition_where_all_sizes_differ(pairing, itself):
    options = {} if itself else {"source_width": R}
    call = {} if itself else {"read": states(S, R, seed=2)}
    s = T if itself else S
    if pairing is not None:
        options |= {"rotary": ROTARY, "pairing": pairing}
        call["positions"] = torch.tensor([[0, 1, 5, 6, 40], [3, 4, 4, 9, 2]])
        if not itself:
            call["read_positions"] = torch.arange(S) + 3
    layer = made(sized(scale_width=5, biases=True, query_key_norm=True), **options)
    call |= {"may_attend": random(B, H, T, s, seed=3) > -0.3, "bias": random(T, s, seed=4)}
    assert_equal(called(layer, states(), call), defined(layer, states(), **call))


@given(problems())
def test_queries_keys_values_and_weights_are_those_of_the_output(problem):
    (sizes, m, seed), options, x, call = problem
    layer = made(AttentionSizes(**sizes), m, seed, **options)
    read = call.get("read", x)
    positions = call.get("positions")
    read_positions = call.get("read_positions", positions)
    q, k, v = layer.queries(x, positions), layer.keys(read, read_positions), layer.values(read)
    weights = called(layer.weights, x, call)
    masks = {name: call.get(name) for name in ("may_attend", "bias")}
    assert_equal(weights, attention_weights(q, k, **masks, scale=layer.score_scale), atol=0)
    p = layer.sizes.queries_per_kv_head
    out = torch.einsum("bhts,bhse->bthe", weights, v.repeat_interleave(p, dim=1)).flatten(2)
    assert_equal(called(layer, x, call), layer.output(out))


# --- oracle 2: identities and limits --------------------------------------------------------


def rows(n_heads: int, width: int, heads: list[int]) -> torch.Tensor:
    """The places of the given heads, one after another."""
    places = torch.arange(n_heads * width).reshape(n_heads, width)
    return places[torch.tensor(heads)].flatten()


def with_weights(layer: MultiHeadAttention, weights: dict, sizes=None) -> MultiHeadAttention:
    other = MultiHeadAttention(
        layer.width,
        sizes or layer.sizes,
        rotary=layer.rotary,
        pairing=layer.pairing,
        source_width=layer.source_width,
    ).double()
    other.load_state_dict(weights)
    return other.requires_grad_(False)


def chosen_heads(layer: MultiHeadAttention, heads: list[int], kv_heads: list[int]):
    """A layer of these heads alone, in this order."""
    query, source = rows(H, D, heads), rows(layer.sizes.n_kv_heads, D, kv_heads)
    value, output = rows(layer.sizes.n_kv_heads, E, kv_heads), rows(H, E, heads)
    index = {"query": query, "key": source, "value": value}
    weights = dict(layer.state_dict())
    for name, places in index.items():
        weights |= {k: w[places] for k, w in weights.items() if k.startswith(f"{name}.")}
    weights["output.weight"] = weights["output.weight"][:, output]
    sizes = sized(
        n_query_heads=len(heads),
        n_kv_heads=len(kv_heads),
        biases=layer.sizes.biases,
        query_key_norm=layer.sizes.query_key_norm,
    )
    return with_weights(layer, weights, sizes)


@pytest.mark.parametrize("options", [{}, TURNED], ids=["plain", "rotary"])
def test_concatenating_the_heads_is_adding_up_layers_of_one_head(options):
    layer = made(sized(biases=True, query_key_norm=True), **options)
    x, bias = states(), layer.output.bias
    alone = [chosen_heads(layer, [i], [i // P])(x) - bias for i in range(H)]
    assert_equal(layer(x), sum(alone) + bias)


@pytest.mark.parametrize("options", [{}, TURNED], ids=["plain", "rotary"])
def test_heads_in_another_order_with_their_columns_of_the_output_change_nothing(options):
    layer = made(sized(biases=True, query_key_norm=True), **options)
    x, kv_heads = states(), [2, 0, 1]
    heads = [j * P + i for j in kv_heads for i in (1, 3, 0, 2)]
    moved = chosen_heads(layer, heads, kv_heads)
    assert_equal(moved(x), layer(x))
    assert_equal(moved.weights(x), layer.weights(x)[:, heads], atol=0)
    # query heads alone cannot leave their key/value head
    astray = chosen_heads(layer, heads, [0, 1, 2])
    assert not torch.allclose(astray(x), layer(x), atol=1e-2)


@pytest.mark.parametrize("g", [1, G])
def test_sharing_kv_heads_is_a_layer_with_as_many_whose_matrices_are_copies(g):
    layer = made(sized(n_kv_heads=g, biases=True), **TURNED)
    x = states()
    copies = chosen_heads(layer, list(range(H)), [i // (H // g) for i in range(H)])
    assert copies.sizes.n_kv_heads == H
    assert_equal(copies(x), layer(x))


def test_one_head_is_attention_between_three_matrices():
    layer = made(sized(n_query_heads=1, n_kv_heads=1), source_width=R)
    x, read = states(), states(S, R, seed=2)
    q, k, v = (
        y[:, None] @ projection.weight.T
        for y, projection in ((x, layer.query), (read, layer.key), (read, layer.value))
    )
    out = dot_product_attention(q, k, v)[:, 0]
    assert_equal(layer(x, read), out @ layer.output.weight.T)


def test_a_change_of_basis_inside_each_head_changes_nothing_without_rotary_positions():
    x = states()
    # near the identity: inverting it loses less than a digit
    basis_hdd = torch.eye(D) + 0.1 * random(G, D, D, seed=5)
    basis_hee = torch.eye(E) + 0.1 * random(G, E, E, seed=6)

    def changed(layer):
        weights = dict(layer.state_dict())
        of_query = basis_hdd.repeat_interleave(P, 0)
        for name, by in (
            ("query", of_query),
            ("key", torch.linalg.inv(basis_hdd).mT),
            ("value", basis_hee),
        ):
            heads = weights[f"{name}.weight"].unflatten(0, by.shape[:2])
            weights[f"{name}.weight"] = (by @ heads).flatten(0, 1)
        columns = weights["output.weight"].unflatten(1, (H, E))
        back = torch.linalg.inv(basis_hee).repeat_interleave(P, 0)
        weights["output.weight"] = torch.einsum("mhe,hef->mhf", columns, back).flatten(1)
        return with_weights(layer, weights)

    plain, turned = made(), made(**TURNED)
    assert_equal(changed(plain).weights(x), plain.weights(x))
    assert_equal(changed(plain)(x), plain(x))
    assert not torch.allclose(changed(turned).weights(x), turned.weights(x), atol=1e-3)


def test_the_bias_of_the_keys_is_without_effect_unless_positions_turn_it():
    x, sizes = states(), sized(biases=True)
    for options, idle in (({}, True), (TURNED, False)):
        layer = made(sizes, **options)
        weights = dict(layer.state_dict())
        weights["key.bias"] = torch.zeros_like(weights["key.bias"])
        same = torch.allclose(with_weights(layer, weights)(x), layer(x), rtol=0, atol=1e-12)
        assert same is idle


def test_tokens_in_another_order_give_outputs_in_that_order():
    x, order = states(), torch.tensor([3, 0, 4, 1, 2])
    layer, turned = made(), made(**TURNED)
    assert_equal(layer(x[:, order]), layer(x)[:, order])
    assert_equal(turned(x[:, order], positions=order), turned(x)[:, order])
    assert not torch.allclose(turned(x[:, order]), turned(x)[:, order], atol=1e-2)


def test_positions_count_from_zero_where_none_are_given():
    layer, x = made(**TURNED), states()
    positions = torch.arange(T)
    assert_equal(layer(x), layer(x, positions=positions), atol=0)
    assert_equal(layer.weights(x), layer.weights(x, positions=positions), atol=0)
    assert_equal(layer.queries(x), layer.queries(x, positions), atol=0)
    assert_equal(layer.keys(x), layer.keys(x, positions), atol=0)


def test_a_layer_that_is_given_itself_to_read_is_self_attention():
    x, positions = states(), torch.tensor([2, 3, 9, 4, 40])
    mask = causal_mask(T)
    assert_equal(made()(x, x, may_attend=mask), made()(x, may_attend=mask), atol=0)
    layer = made(**TURNED)
    assert_equal(
        layer(x, x, positions=positions, read_positions=positions),
        layer(x, positions=positions),
        atol=0,
    )


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_only_differences_of_positions_matter(pairing):
    layer = made(rotary=ROTARY, pairing=pairing)
    x, read = states(), states(S, seed=2)
    here = {"positions": torch.arange(T) + 2, "read_positions": torch.arange(S)}
    there = {name: positions + 1000 for name, positions in here.items()}
    # an angle of up to 1,006 is rounded to within 1e-13, which vectors of length about 10 magnify
    assert_equal(layer(x, read, **there), layer(x, read, **here), atol=1e-11)
    apart = here | {"positions": here["positions"] + 1}
    assert not torch.allclose(layer(x, read, **apart), layer(x, read, **here), atol=1e-2)


@pytest.mark.parametrize("options", [{}, TURNED], ids=["plain", "rotary"])
def test_one_token_after_another_gives_the_rows_of_the_whole(options):
    layer, x = made(sized(query_key_norm=True), **options), states()
    whole = layer(x, may_attend=causal_mask(T))
    for t in range(T):
        past = x[:, : t + 1]
        where = {"positions": torch.tensor([t]), "read_positions": torch.arange(t + 1)}
        step = layer(x[:, t : t + 1], past, **(where if options else {}))
        assert_equal(step, whole[:, t : t + 1])


def test_a_left_padded_batch_gives_what_each_text_gives_alone():
    layer, x = made(**TURNED), states()
    lengths = (3, T)
    is_token = torch.arange(T) >= T - torch.tensor(lengths)[:, None]
    may_attend = padding_mask(is_token) & causal_mask(T)
    out = layer(x, may_attend=may_attend, positions=padded_positions(is_token))
    for b, n in enumerate(lengths):
        alone = layer(x[b : b + 1, T - n :], may_attend=causal_mask(n))
        assert_equal(out[b : b + 1, T - n :], alone)


def test_a_text_that_is_counted_with_its_padding_gives_the_same_by_differences():
    # rotary positions forgive an offset that is the same for a whole text, and no other
    layer, x = made(**TURNED), states()
    assert_equal(layer(x, positions=torch.arange(T) + 2), layer(x))
    uneven = torch.tensor([0, 1, 2, 4, 5])
    assert not torch.allclose(layer(x, positions=uneven), layer(x), atol=1e-2)


def test_each_batch_element_has_its_own_positions():
    layer, x = made(**TURNED), states()
    positions = torch.stack([torch.arange(T), torch.tensor([0, 2, 3, 7, 8])])
    out = layer(x, positions=positions)
    for b in range(B):
        assert_equal(out[b : b + 1], layer(x[b : b + 1], positions=positions[b]))


def test_normed_queries_and_keys_do_not_feel_the_length_of_their_projections():
    layer = made(sized(query_key_norm=True), norm_epsilon=1e-30, **TURNED)
    weights = dict(layer.state_dict())
    weights["query.weight"], weights["key.weight"] = (
        7.0 * weights["query.weight"],
        0.01 * weights["key.weight"],
    )
    longer = made(sized(query_key_norm=True), norm_epsilon=1e-30, **TURNED)
    longer.load_state_dict(weights)
    assert_equal(longer(states()), layer(states()))
    # with weights of 1, every query and key has the mean square 1, turned or not
    torch.nn.init.ones_(layer.query_norm.weight)
    torch.nn.init.ones_(layer.key_norm.weight)
    for heads in (layer.queries(states()), layer.keys(states())):
        assert_equal(heads.square().mean(-1), torch.ones(heads.shape[:-1]).double())


# --- oracle 3: by hand ----------------------------------------------------------------------


def test_query_head_i_reads_kv_head_i_div_p_by_hand():
    # every value is the number of its key/value head; the output shows one head a coordinate
    sizes = AttentionSizes(n_query_heads=6, n_kv_heads=3, head_dim=2, value_dim=1, biases=True)
    layer = MultiHeadAttention(6, sizes)
    with torch.no_grad():
        layer.value.weight.zero_()
        layer.value.bias.copy_(torch.arange(3.0))
        layer.output.weight.copy_(torch.eye(6))
    out = layer(torch.randn(1, 1, 6))
    assert out.flatten().tolist() == [0, 0, 1, 1, 2, 2]


def test_three_tokens_by_hand():
    # x_t is the t-th unit vector; q_t = ln(2)·x_t and k_s = x_s, so that t weighs itself twice
    sizes = AttentionSizes(n_query_heads=1, n_kv_heads=1, head_dim=3, value_dim=1, scale_width=1)
    layer = MultiHeadAttention(3, sizes).double()
    with torch.no_grad():
        layer.query.weight.copy_(np.log(2) * torch.eye(3).double())
        layer.key.weight.copy_(torch.eye(3))
        layer.value.weight.copy_(torch.tensor([[1.0, 2.0, 6.0]]))
        layer.output.weight.copy_(torch.tensor([[1.0], [10.0], [0.0]]))
    out = layer(torch.eye(3).double()[None])
    averages = torch.tensor([10.0, 11.0, 15.0], dtype=torch.float64) / 4
    wanted = torch.stack([averages, 10 * averages, 0 * averages], dim=-1)
    assert_equal(out[0], wanted, atol=1e-14)


def test_a_target_with_nothing_to_read_gets_the_bias_of_the_output():
    for biases in (False, True):
        layer, x = made(sized(biases=biases)), states()
        mask = causal_mask(T).clone()
        mask[2] = False
        out = layer(x, may_attend=mask)
        bias = layer.output.bias if biases else torch.zeros(M).double()
        assert torch.equal(out[:, 2], bias.expand(B, M))
        assert (layer.weights(x, may_attend=mask)[:, :, 2] == 0).all()


def test_what_may_not_be_read_has_no_influence_even_if_it_is_nan():
    layer, x = made(sized(query_key_norm=True), **TURNED), states()
    wanted = layer(x, may_attend=causal_mask(T))
    x[:, -1] = torch.nan
    x.requires_grad_()
    layer.requires_grad_(True)
    out = layer(x, may_attend=causal_mask(T))
    assert torch.equal(out[:, :-1], wanted[:, :-1])
    assert out[:, -1].isnan().all()
    out[:, :-1].square().sum().backward()
    assert x.grad[:, :-1].isfinite().all()
    # the limit of this, which the page of the layer states: a product of matrices has 0 · NaN
    assert layer.key.weight.grad.isnan().all()
    assert layer.output.weight.grad.isnan().all()


@pytest.mark.parametrize("options", [{}, TURNED], ids=["plain", "rotary"])
def test_no_target_depends_on_its_future_and_each_depends_on_its_whole_past(options):
    layer = made(**options)

    def of(x):
        return layer(x[None], may_attend=causal_mask(T))[0]

    jacobian = torch.autograd.functional.jacobian(of, states()[0])
    influence = jacobian.abs().amax(dim=(1, 3))
    assert (influence.triu(1) == 0).all()
    assert (influence[torch.ones(T, T).tril().bool()] > 1e-6).all()


@pytest.mark.parametrize("b,t,s", [(B, 0, S), (B, T, 0), (0, T, S), (B, 0, 0)])
def test_no_targets_no_sources_and_no_batch_are_legal(b, t, s):
    for options in ({}, TURNED):
        layer = made(sized(query_key_norm=True, biases=True), source_width=R, **options)
        x, read = torch.zeros(b, t, M).double(), torch.zeros(b, s, R).double()
        where = {"positions": torch.arange(t), "read_positions": torch.arange(s)}
        out = layer(x, read, may_attend=causal_mask(t, s), **(where if options else {}))
        assert tuple(out.shape) == (b, t, M)
        if s == 0:
            assert torch.equal(out, layer.output.bias.expand(b, t, M))


# --- the scale, the frequencies, the sizes ---------------------------------------------------


def test_scores_are_multiplied_once_by_what_the_sizes_say():
    x = states()
    for scale_width, scale in ((None, D**-0.5), (64, 1 / 8), (1, 1.0)):
        layer = made(sized(scale_width=scale_width))
        q, k = layer.queries(x), layer.keys(x).repeat_interleave(P, dim=1)
        scores = torch.einsum("bhtd,bhsd->bhts", q, k) * scale
        assert_equal(layer.weights(x), scores.softmax(-1))


LLAMA = {
    "factor": 8.0,
    "low_frequency_factor": 1.0,
    "high_frequency_factor": 4.0,
    "original_length": 64,
}
YARN = {"factor": 40.0, "original_length": 640, "beta_fast": 8.0, "beta_slow": 2.0}
PLAIN = rotary_frequencies(D, base=100.0)
STRETCHED = {
    "none": (None, PLAIN),
    "linear": (LinearScaling(factor=8.0), linear_frequencies(PLAIN, 8.0)),
    "llama 3": (Llama3Scaling(**LLAMA), llama3_frequencies(PLAIN, **LLAMA)),
    "yarn": (YarnScaling(**YARN, mscale=0.7), yarn_frequencies(D, base=100.0, **YARN)),
}


@pytest.mark.parametrize("scaling,frequencies", STRETCHED.values(), ids=STRETCHED)
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_queries_and_keys_turn_by_the_frequencies_of_the_base_and_its_scaling(
    scaling, frequencies, pairing
):
    # the base of layers with a window is not this layer's
    rotary = RotarySizes(base=100.0, window_base=7.0, scaling=scaling)
    layer, still = made(rotary=rotary, pairing=pairing), made()
    x, positions = states(), torch.tensor([0, 3, 40, 41, 90])
    turn = {"pairing": pairing, "frequencies": frequencies}
    for name in ("queries", "keys"):
        wanted = rotate(getattr(still, name)(x), positions, **turn)
        assert torch.equal(getattr(layer, name)(x, positions), wanted)
    assert torch.equal(layer.values(x), still.values(x))


def test_yarn_sharpens_the_scores_by_the_square_of_its_factor():
    scaling = YarnScaling(**YARN, mscale=0.7)
    layer = made(rotary=RotarySizes(base=100.0, scaling=scaling), pairing="half")
    a, x = yarn_attention_factor(40.0, 0.7), states()
    weights = attention_weights(a * layer.queries(x), a * layer.keys(x))
    assert_equal(layer.weights(x), weights)


def of_shared_heads() -> list[str]:
    return [n for n, s in PUBLISHED.items() if isinstance(s.attention, AttentionSizes)]


@pytest.mark.parametrize("name", of_shared_heads())
def test_the_layers_of_published_models_have_their_parameters_and_their_scale(name):
    sizes = PUBLISHED[name]
    pairing = None if sizes.rotary is None else "half"
    with torch.device("meta"):
        layer = MultiHeadAttention(
            sizes.width, sizes.attention, rotary=sizes.rotary, pairing=pairing
        )
    counted = sum(weight.numel() for weight in layer.parameters())
    assert counted == sizes.attention.n_parameters(sizes.width)
    assert layer.score_scale == sizes.score_scale


def test_a_layer_that_is_made_without_memory_turns_as_any_other():
    layer = made(**TURNED)
    with torch.device("meta"):
        other = MultiHeadAttention(M, SIZES, **TURNED)
    other = other.double().to_empty(device="cpu")
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(states()), layer(states()))


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("normed", [False, True])
def test_weights_can_be_saved_and_loaded_and_hold_nothing_else(biases, normed):
    layer = made(sized(biases=biases, query_key_norm=normed), **TURNED)
    names = {f"{name}.weight" for name in ("query", "key", "value", "output")}
    names |= {name.replace("weight", "bias") for name in names} if biases else set()
    names |= {"query_norm.weight", "key_norm.weight"} if normed else set()
    assert set(layer.state_dict()) == names
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    loaded = with_weights(layer, torch.load(file))
    assert torch.equal(loaded(states()), layer(states()))
    assert torch.equal(copy.deepcopy(layer)(states()), layer(states()))


def test_how_the_numbers_lie_in_memory_does_not_matter():
    layer = made(sized(query_key_norm=True), source_width=R, **TURNED)
    x, read = states().mT.contiguous().mT, states(1, R, seed=2).expand(B, S, R)
    may_attend = causal_mask(S, T).T.expand(B, 1, T, S)
    where = {"positions": torch.arange(2 * T)[::2], "read_positions": torch.arange(S).expand(B, S)}
    copies = {name: positions.contiguous() for name, positions in where.items()}
    assert not any(y.is_contiguous() for y in (x, read, may_attend, *where.values()))
    out = layer(x, read, may_attend=may_attend, **where)
    again = layer(x.contiguous(), read.contiguous(), may_attend=may_attend.contiguous(), **copies)
    # a product of matrices may add its terms in another order
    assert_equal(out, again)


def test_training_and_evaluation_are_the_same_function():
    layer, x = made(sized(query_key_norm=True), **TURNED), states()
    assert torch.equal(layer.train()(x), layer.eval()(x))


def test_the_shape_of_what_comes_in_is_checked_while_tests_run():
    layer = made(source_width=R)
    with pytest.raises(TypeCheckError):
        layer(states()[0], states(S, R))
    with pytest.raises(TypeCheckError):
        layer(states(), states(S, R)[:1])


# --- the beginning --------------------------------------------------------------------------


def test_projections_begin_as_normal_numbers_of_variance_one_over_fan_in():
    torch.manual_seed(0)
    layer = MultiHeadAttention(61, sized(biases=True, query_key_norm=True), source_width=67)
    projections = {"query": 61, "key": 67, "value": 67, "output": H * E}
    for name, fan_in in projections.items():
        projection = getattr(layer, name)
        z = projection.weight.detach().double().flatten() * fan_in**0.5
        # z, z² and z⁴ of a normal number have the variances 1, 2 and 96; five standard errors
        error = 5 / len(z) ** 0.5
        assert abs(z.mean()) < error
        assert abs(z.square().mean() - 1) < 2**0.5 * error
        assert abs(z.pow(4).mean() - 3) < 96**0.5 * error
        assert (projection.bias == 0).all()
    assert (layer.query_norm.weight == 1).all()
    assert (layer.key_norm.weight == 1).all()


@pytest.mark.parametrize("uniform,variance", [(False, 1.0), (True, 1 / 9)])
def test_scores_begin_with_variance_one_and_with_torchs_beginning_with_a_ninth(uniform, variance):
    torch.manual_seed(0)
    n = 4096  # heads, each of which is a draw of its own
    layer = MultiHeadAttention(M, sized(n_query_heads=n, n_kv_heads=n, value_dim=1))
    if uniform:
        layer.query.reset_parameters()
        layer.key.reset_parameters()
    x = random(1, 2, M, seed=3).float()
    x = x / x.square().mean(-1, keepdim=True).sqrt()
    q, k = layer.queries(x)[0].double(), layer.keys(x)[0].double()
    one_vector = variance**0.5  # both factors have it
    # a coordinate is a sum of m terms: the square of a normal one has variance 2, of others less
    error = 5 * (2 / (n * D)) ** 0.5 * one_vector
    assert abs(q[:, 0].square().mean() - one_vector) < error
    assert abs(k[:, 1].square().mean() - one_vector) < error
    scores = layer.score_scale * torch.einsum("htd,hsd->hts", q, k)
    # given k the score is normal with variance |k|²/d, so its square has variance 2 + 6/d
    error = 5 * ((2 + 6 / D) / n) ** 0.5 * variance
    for s in (0, 1):  # the token itself and the other one
        assert abs(scores[:, 0, s].square().mean() - variance) < error


# --- gradients ------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, TURNED], ids=["plain", "rotary"])
def test_gradients_agree_with_difference_quotients(options):
    sizes = AttentionSizes(
        n_query_heads=2,
        n_kv_heads=1,
        head_dim=2,
        value_dim=1,
        biases=True,
        query_key_norm=True,
    )
    layer = made(sizes, 3, source_width=2, **options)
    names = [name for name, _ in layer.named_parameters()]
    weights = [weight.clone().requires_grad_() for weight in layer.parameters()]
    mask = torch.tensor([[True, False, True], [False, False, False]])
    where = {"positions": torch.tensor([3, 4]), "read_positions": torch.tensor([0, 1, 5])}
    keywords = {"may_attend": mask} | (where if options else {})
    bias = random(2, 1, 3, seed=4).requires_grad_()

    def attend(x, read, bias, *weights):
        given = dict(zip(names, weights, strict=True))
        return functional_call(layer, given, (x, read), keywords | {"bias": bias})

    x, read = random(1, 2, 3).requires_grad_(), random(1, 3, 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(attend, (x, read, bias, *weights))


@pytest.mark.parametrize("options", [{}, TURNED], ids=["plain", "rotary"])
def test_second_derivatives_agree_with_difference_quotients(options):
    sizes = AttentionSizes(
        n_query_heads=2, n_kv_heads=1, head_dim=2, value_dim=1, query_key_norm=True
    )
    layer = made(sizes, 3, **options)
    x = random(1, 2, 3).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: layer(x, may_attend=causal_mask(2)), (x,))


def test_all_weights_learn():
    layer = made(sized(biases=True, query_key_norm=True), **TURNED).requires_grad_(True)
    layer(states()).square().sum().backward()
    assert all(weight.grad.abs().max() > 1e-6 for weight in layer.parameters())


# --- low precision --------------------------------------------------------------------------


def naive(layer: MultiHeadAttention, x: torch.Tensor) -> torch.Tensor:
    """The same in torch alone, every step in the dtype of the weights."""
    p, positions = layer.sizes.queries_per_kv_head, torch.arange(x.shape[1])
    q = layer.query(x).unflatten(-1, (H, D)).transpose(1, 2)
    k = layer.key(x).unflatten(-1, (G, D)).transpose(1, 2)
    v = layer.value(x).unflatten(-1, (G, E)).transpose(1, 2).repeat_interleave(p, dim=1)
    turn = {"pairing": layer.pairing, "base": layer.rotary.base}
    q = rotate(layer.query_norm(q), positions, **turn)
    k = rotate(layer.key_norm(k), positions, **turn).repeat_interleave(p, dim=1)
    weights = ((q @ k.mT) * layer.score_scale).softmax(-1)
    return layer.output((weights @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("dtype", LOW)
def test_low_precision_is_at_most_twice_as_wrong_as_every_step_in_it(dtype):
    layer = made(sized(biases=True, query_key_norm=True), **TURNED).to(dtype)
    x = states().to(dtype)
    exact = copy.deepcopy(layer).double()(x.double())
    out = layer(x)
    assert out.dtype == layer.weights(x).dtype == dtype
    error, allowed = ((y.double() - exact).abs().max() for y in (out, naive(layer, x)))
    assert 0 < error <= 2 * allowed


@pytest.mark.parametrize("dtype", LOW)
def test_a_norm_of_low_precision_is_rounded_once(dtype):
    # weights of fp32, as under autocast
    norm, x = RMSNorm(D, eps=1e-6), random(100, D).to(dtype)
    torch.nn.init.normal_(norm.weight, generator=torch.Generator().manual_seed(1))
    out = norm(x)
    exact = copy.deepcopy(norm).double()(x.double())
    # half a step of the dtype, and what fp32 adds to it
    half_a_step = (torch.finfo(dtype).eps / 2 + D * 2.0**-24) * exact.abs()
    assert out.dtype == dtype
    assert ((out.double() - exact).abs() <= half_a_step).all()


@pytest.mark.parametrize("dtype", LOW)
def test_positions_are_exact_in_low_precision(dtype):
    layer, still = made(**TURNED).to(dtype), made().to(dtype)
    x, positions = states().to(dtype), torch.tensor([0, 1, 2049, 5001, 100_003])
    wanted = rotate(still.queries(x), positions, pairing="half", base=ROTARY.base)
    assert torch.equal(layer.queries(x, positions), wanted)


@pytest.mark.parametrize("normed", [False, True])
def test_neither_scores_nor_norms_overflow_in_half_precision(normed):
    layer, x = made(sized(query_key_norm=normed)), 300 * states()
    low = copy.deepcopy(layer).half()
    assert low.query(x.half()).square().isinf().any()  # what a norm in fp16 would meet
    assert low(x.half()).isfinite().all()
    if normed:
        # three roundings of half a step, at most, on top of those of x and of the projection
        q, exact = low.queries(x.half()), copy.deepcopy(low).double().queries(x.half().double())
        steps = 2.0**-11 * (3 * exact.abs() + 2 * exact.abs().amax(-1, keepdim=True))
        assert ((q.double() - exact).abs() <= steps).all()


@pytest.mark.parametrize("options", [{}, TURNED], ids=["plain", "rotary"])
def test_autocast_is_no_worse_than_weights_in_its_precision(options):
    layer = made(sized(biases=True, query_key_norm=True), **options)
    x = states()
    exact, single = layer(x), copy.deepcopy(layer).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, from_low = single(x.float()), single(x.bfloat16())
    assert out.dtype == torch.bfloat16
    low = copy.deepcopy(layer).bfloat16()(x.bfloat16())
    allowed = 2 * (low.double() - exact).abs().max()
    for y in (out, from_low):
        assert 0 < (y.double() - exact).abs().max() <= allowed


# --- oracle 4: torch ------------------------------------------------------------------------


def of_torch(theirs: torch.nn.MultiheadAttention, head_dim: int) -> MultiHeadAttention:
    """The layer here with the weights of one of torch."""
    m, h = theirs.embed_dim, theirs.num_heads
    sizes = AttentionSizes(
        n_query_heads=h,
        n_kv_heads=h,
        head_dim=head_dim,
        value_dim=head_dim,
        biases=theirs.in_proj_bias is not None,
    )
    layer = MultiHeadAttention(m, sizes, source_width=theirs.kdim).to(theirs.out_proj.weight)
    if theirs.in_proj_weight is None:
        matrices = theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight
    else:
        matrices = theirs.in_proj_weight.chunk(3)
    weights = dict(zip(("query.weight", "key.weight", "value.weight"), matrices, strict=True))
    weights["output.weight"] = theirs.out_proj.weight
    if sizes.biases:
        offsets = theirs.in_proj_bias.chunk(3)
        weights |= dict(zip(("query.bias", "key.bias", "value.bias"), offsets, strict=True))
        weights["output.bias"] = theirs.out_proj.bias
    layer.load_state_dict(weights)
    return layer


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("read", ["itself", "same width", "other width"])
@pytest.mark.parametrize("masked", [False, True])
def test_the_layer_is_that_of_torch_weight_for_weight(biases, read, masked):
    h, d = 6, 4
    m, r = h * d, h * d if read != "other width" else R
    theirs = torch.nn.MultiheadAttention(
        m, h, bias=biases, kdim=r, vdim=r, batch_first=True, dtype=torch.float64
    )
    for i, weight in enumerate(theirs.parameters()):
        torch.nn.init.normal_(weight, std=m**-0.5, generator=torch.Generator().manual_seed(i))
    layer = of_torch(theirs, d)
    x = states(T, m)
    other = None if read == "itself" else states(S, r, seed=2)
    sources = x if other is None else other
    s = sources.shape[1]
    blocked = padding = may_attend = None
    if masked:
        # True is blocked there and may be read here
        blocked = ~causal_mask(T, s)
        is_token = torch.arange(s) < torch.tensor([s, s - 1])[:, None]
        padding = ~is_token
        may_attend = causal_mask(T, s) & padding_mask(is_token)
    wanted, weights = theirs(
        x,
        sources,
        sources,
        attn_mask=blocked,
        key_padding_mask=padding,
        average_attn_weights=False,
    )
    assert_equal(layer(x, other, may_attend=may_attend), wanted)
    assert_equal(layer.weights(x, other, may_attend=may_attend), weights)
