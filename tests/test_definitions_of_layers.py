"""The definitions of the chapter on encoder and decoder against torch and known cases."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlib import definitions

RNG = np.random.default_rng(23)


def tensor(x: np.ndarray) -> torch.Tensor:
    return torch.tensor(np.asarray(x), dtype=torch.float64)


# --- norms --------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_layer_norm_agrees_with_torch(epsilon):
    x, gain, shift = 3 + RNG.normal(size=(4, 7)), RNG.normal(size=7), RNG.normal(size=7)
    ours = definitions.layer_norm(x, gain, shift, epsilon=epsilon)
    theirs = F.layer_norm(tensor(x), (7,), tensor(gain), tensor(shift), eps=epsilon)
    # numbers of order one, some ten roundings each
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-14)
    np.testing.assert_allclose(
        definitions.rms_norm(x, gain, epsilon),
        F.rms_norm(tensor(x), (7,), tensor(gain), eps=epsilon),
        rtol=0,
        atol=1e-14,
    )


def test_the_variance_of_a_normed_row_is_below_one_by_epsilon():
    x = np.array([0.0, 2.0, 4.0, 2.0])  # variance 2
    normed = definitions.layer_norm(x, epsilon=0.5)
    np.testing.assert_allclose(np.var(normed), 2 / 2.5, rtol=1e-14)
    np.testing.assert_allclose(normed.mean(), 0, atol=1e-15)
    np.testing.assert_array_equal(definitions.layer_norm(np.full(3, 7.0), epsilon=0.5), np.zeros(3))


def test_shifting_and_stretching_a_row_does_not_matter_without_epsilon():
    x = RNG.normal(size=(3, 5))
    normed = definitions.layer_norm(x, epsilon=0.0)
    np.testing.assert_allclose(
        definitions.layer_norm(7 * x + 3, epsilon=0.0), normed, rtol=0, atol=1e-14
    )
    np.testing.assert_allclose(definitions.layer_norm(-x, epsilon=0.0), -normed, rtol=0, atol=1e-14)


@pytest.mark.parametrize("epsilon", [0.0, 0.25])
def test_the_jacobians_of_the_norms_are_those_of_autograd(epsilon):
    x = 1 + RNG.normal(size=6)
    for ours, theirs in (
        (definitions.layer_norm_jacobian, lambda y: F.layer_norm(y, (6,), eps=epsilon)),
        (definitions.rms_norm_jacobian, lambda y: F.rms_norm(y, (6,), eps=epsilon)),
    ):
        jacobian = torch.autograd.functional.jacobian(theirs, tensor(x))
        np.testing.assert_allclose(ours(x, epsilon=epsilon), jacobian, rtol=0, atol=1e-14)


def rank(matrix: np.ndarray) -> int:
    return int(np.linalg.matrix_rank(matrix, tol=1e-12))


def test_epsilon_gives_the_jacobian_back_one_direction():
    x = RNG.normal(size=6)
    ranks = [rank(definitions.layer_norm_jacobian(x, epsilon=e)) for e in (0.0, 0.25)]
    assert ranks == [4, 5]
    ranks = [rank(definitions.rms_norm_jacobian(x, epsilon=e)) for e in (0.0, 0.25)]
    assert ranks == [5, 6]


# --- feed-forward -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ours,theirs",
    [
        (definitions.relu, F.relu),
        (definitions.gelu, F.gelu),
        (definitions.gelu_tanh, lambda x: F.gelu(x, approximate="tanh")),
        (definitions.silu, F.silu),
    ],
)
def test_activations_agree_with_torch(ours, theirs):
    x = np.array([-3.0, -0.5, 0.0, 0.25, 2.0, 30.0])
    np.testing.assert_allclose([ours(y) for y in x], theirs(tensor(x)), rtol=1e-13, atol=1e-15)
    assert ours(-1e4) == 0.0


def test_feed_forward_agrees_with_linear_layers():
    m, f, t = 3, 5, 4
    x, w_1, w_2 = (RNG.normal(size=shape) for shape in ((t, m), (m, f), (f, m)))
    b_1, b_2 = RNG.normal(size=f), RNG.normal(size=m)
    theirs = F.relu(tensor(x) @ tensor(w_1) + tensor(b_1)) @ tensor(w_2) + tensor(b_2)
    np.testing.assert_allclose(
        definitions.feed_forward(x, w_1, b_1, w_2, b_2), theirs, rtol=0, atol=1e-14
    )
    theirs = F.gelu(tensor(x) @ tensor(w_1) + tensor(b_1)) @ tensor(w_2) + tensor(b_2)
    ours = definitions.feed_forward(x, w_1, b_1, w_2, b_2, definitions.gelu)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-14)


def test_the_gate_is_bent_and_the_other_is_not():
    m, f, t = 3, 5, 4
    x, gate, up, down = (RNG.normal(size=shape) for shape in ((t, m), (m, f), (m, f), (f, m)))
    theirs = (F.silu(tensor(x @ gate)) * tensor(x @ up)) @ tensor(down)
    ours = definitions.gated_feed_forward(x, gate, up, down)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-14)


# --- blocks -------------------------------------------------------------------------------


def test_a_pre_norm_block_that_adds_nothing_is_the_identity_and_a_post_norm_block_is_not():
    x = 3 + RNG.normal(size=(2, 5))

    def nothing(y):
        return np.zeros(y.shape)

    np.testing.assert_array_equal(definitions.pre_norm(x, nothing, epsilon=0.5), x)
    np.testing.assert_array_equal(
        definitions.post_norm(x, nothing, epsilon=0.5), definitions.layer_norm(x, epsilon=0.5)
    )


def test_the_sub_layer_reads_normed_rows_before_and_plain_rows_after():
    x, read = 3 + RNG.normal(size=(2, 5)), []

    def remembered(y):
        read.append(y)
        return np.ones(y.shape)

    definitions.pre_norm(x, remembered, epsilon=0.0)
    definitions.post_norm(x, remembered, epsilon=0.0)
    np.testing.assert_array_equal(read[0], definitions.layer_norm(x, epsilon=0.0))
    np.testing.assert_array_equal(read[1], x)


def cross_case(t: int, s: int) -> tuple[np.ndarray, ...]:
    h, m, d, e = 2, 4, 3, 5
    shapes = ((t, m), (s, m), (h, m, d), (h, m, d), (h, m, e), (h, e, m))
    return tuple(RNG.normal(size=shape) for shape in shapes)


def test_cross_attention_agrees_with_torch():
    x, read, w_q, w_k, w_v, w_o = cross_case(t=3, s=6)
    q, k, v = (
        tensor(np.einsum("tm,hmd->htd", y, w)) for y, w in ((x, w_q), (read, w_k), (read, w_v))
    )
    out = F.scaled_dot_product_attention(q, k, v)
    theirs = torch.einsum("hte,hem->tm", out, tensor(w_o))
    ours = definitions.cross_attention(x, read, w_q, w_k, w_v, w_o)
    # sums of h·e products of size ten
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_cross_attention_of_rows_to_themselves_is_self_attention():
    x, _, *matrices = cross_case(t=4, s=1)
    may = definitions.causal_mask(4, 4)
    np.testing.assert_array_equal(
        definitions.cross_attention(x, x, *matrices, may),
        definitions.multi_head_attention(x, *matrices, may),
    )


def test_the_order_of_what_is_read_does_not_matter():
    x, read, *matrices = cross_case(t=3, s=6)
    np.testing.assert_allclose(
        definitions.cross_attention(x, read[[4, 2, 5, 0, 1, 3]], *matrices),
        definitions.cross_attention(x, read, *matrices),
        rtol=0,
        atol=1e-12,
    )


# --- contraction --------------------------------------------------------------------------


def test_dobrushin_is_one_less_what_two_rows_share():
    p = RNG.dirichlet(np.ones(5), size=4)
    shared = min(np.minimum(a, b).sum() for a in p for b in p)
    np.testing.assert_allclose(definitions.dobrushin(p), 1 - shared, rtol=0, atol=1e-15)
    assert definitions.dobrushin(np.full((3, 4), 0.25)) == 0.0
    assert definitions.dobrushin(np.eye(3)) == 1.0


@pytest.mark.parametrize("order", [1, 2, np.inf])
def test_averaging_shrinks_the_diameter_by_dobrushin(order):
    for spread in (0.1, 1.0, 10.0):
        p, x = RNG.dirichlet(np.full(6, 1 / spread), size=6), RNG.normal(size=(6, 3))
        after, before = (definitions.row_diameter(y, order) for y in (p @ x, x))
        assert after <= definitions.dobrushin(p) * before * (1 + 1e-12)


def test_two_rows_are_reached_by_the_bound():
    p, x = np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([[0.0, 0.0], [3.0, 4.0]])
    assert definitions.row_diameter(x) == 5.0
    assert definitions.row_diameter(p @ x) == definitions.dobrushin(p) * 5.0 == 2.5


def test_the_diameter_is_that_of_the_farthest_rows_and_does_not_see_a_shift():
    x = np.array([[1.0, 1.0], [0.0, 0.0], [3.0, 4.0], [3.0, 3.0]])
    assert definitions.row_diameter(x) == 5.0
    assert definitions.row_diameter(x, 1) == 7.0
    assert definitions.row_diameter(x, np.inf) == 4.0
    assert definitions.row_diameter(x + 100) == 5.0
    assert definitions.row_diameter(x[:1]) == 0.0


# --- what was before ----------------------------------------------------------------------


def network(t: int, m: int, n: int) -> tuple[np.ndarray, ...]:
    return tuple(RNG.normal(size=shape) / 2 for shape in ((t, m), (n, n), (n, m), (n,)))


def test_states_agree_with_a_recurrent_network_of_torch():
    x, w_h, w_x, b = network(t=5, m=3, n=4)
    start = RNG.normal(size=4)
    theirs = torch.nn.RNN(3, 4, dtype=torch.float64)
    with torch.no_grad():
        for ours, name in ((w_h, "weight_hh_l0"), (w_x, "weight_ih_l0"), (b, "bias_hh_l0")):
            getattr(theirs, name).copy_(tensor(ours))
        theirs.bias_ih_l0.zero_()
        states, _ = theirs(tensor(x), tensor(start)[None])
        from_zero, _ = theirs(tensor(x))
    ours = definitions.recurrent_states(x, w_h, w_x, b, start)
    np.testing.assert_allclose(ours, states, rtol=0, atol=1e-14)
    ours = definitions.recurrent_states(x, w_h, w_x, b)
    np.testing.assert_allclose(ours, from_zero, rtol=0, atol=1e-14)


def test_the_jacobian_of_the_last_state_is_that_of_autograd():
    x, w_h, w_x, b = network(t=4, m=2, n=3)
    start = RNG.normal(size=3)

    def last(h):
        for x_t in tensor(x):
            h = torch.tanh(tensor(w_h) @ h + tensor(w_x) @ x_t + tensor(b))
        return h

    jacobian = torch.autograd.functional.jacobian(last, tensor(start))
    ours = definitions.recurrent_jacobian(x, w_h, w_x, b, start)
    np.testing.assert_allclose(ours, jacobian, rtol=0, atol=1e-14)


def test_the_jacobian_of_the_last_state_is_below_the_power_of_the_norm():
    x, w_h, w_x, b = network(t=12, m=2, n=3)
    w_h = 0.8 * w_h / np.linalg.norm(w_h, 2)
    jacobian = definitions.recurrent_jacobian(x, w_h, w_x, b)
    assert np.linalg.norm(jacobian, 2) <= 0.8**12
    assert np.linalg.norm(jacobian, 2) > 0


def test_states_and_cells_agree_with_an_lstm_of_torch():
    t, m, n = 5, 3, 2
    x, w_h, w_x, b = (RNG.normal(size=shape) for shape in ((t, m), (4, n, n), (4, n, m), (4, n)))
    theirs = torch.nn.LSTM(m, n, dtype=torch.float64)
    with torch.no_grad():
        for ours, name in ((w_h, "weight_hh_l0"), (w_x, "weight_ih_l0"), (b, "bias_hh_l0")):
            getattr(theirs, name).copy_(tensor(ours).flatten(0, 1))
        theirs.bias_ih_l0.zero_()
        states, (_, last_cell) = theirs(tensor(x))
    our_states, our_cells = definitions.lstm_states(x, w_h, w_x, b)
    np.testing.assert_allclose(our_states, states, rtol=0, atol=1e-14)
    np.testing.assert_allclose(our_cells[-1], last_cell[0], rtol=0, atol=1e-14)
    assert our_cells.shape == (t, n)
