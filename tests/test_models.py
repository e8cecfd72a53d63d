"""The encoder of BERT is the one of its definition, and what chapters say of it holds.

Parity with transformers is in test_models_of_transformers.py.
"""

import io
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError

from attnlib import PUBLISHED, AttentionSizes, Encoder, definitions
from attnlib.layers import Block

# All different, so that no two axes can be confused; d is not m/h, and e is not d.
B, T, H, G, D, E, M, INNER, V, CONTEXT, LAYERS, SEGMENTS = 2, 5, 6, 3, 4, 7, 8, 11, 13, 9, 3, 2
SIZES = replace(
    PUBLISHED["minilm-l6"],
    name="a small encoder",
    source="made up for a test",
    n_layers=LAYERS,
    width=M,
    attention=AttentionSizes(n_query_heads=H, n_kv_heads=G, head_dim=D, value_dim=E, biases=True),
    feed_forward_width=INNER,
    vocabulary=V,
    norm_epsilon=1e-3,
    context=CONTEXT,
    n_segments=SEGMENTS,
)


def sizes(**changes):
    return replace(SIZES, **changes)


def encoder(seed=0, **changes):
    """Every number random, those of norms and biases too."""
    model = Encoder(sizes(**changes)).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            matrix = parameter.ndim == 2 and "embedding" not in name
            size = parameter.shape[1] ** -0.5 if matrix else 0.5
            parameter.copy_(size * torch.randn(parameter.shape, generator=generator).double())
            if "norm.weight" in name:
                parameter += 1.0
    return model.requires_grad_(False)


def numbers(*shape, below, seed=1):
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed))


TOKENS = numbers(B, T, below=V)
ON_THE_RIGHT = torch.arange(T) < torch.tensor([[T], [3]])
ON_THE_LEFT = ON_THE_RIGHT.flip(1)


def assert_equal(actual, wanted, atol=1e-11):
    torch.testing.assert_close(actual, wanted, rtol=0, atol=atol)


# --- oracle 1: the definition, one token at a time --------------------------------------------


def normed(x, norm):
    x = x - x.mean()
    return (
        x / np.sqrt((x * x).mean() + SIZES.norm_epsilon) * norm.weight.numpy() + norm.bias.numpy()
    )


def affine(x, linear):
    return linear.weight.numpy() @ x + linear.bias.numpy()


def gelu(x):
    """x times the probability that a standard normal number is smaller."""
    return np.array([y * 0.5 * (1 + math.erf(y / math.sqrt(2))) for y in x])


def fed_forward(x, network):
    return affine(gelu(affine(x, network.widen)), network.narrow)


def heads_of(x_tm, linear, n_heads, width):
    projected = np.stack([affine(x, linear) for x in x_tm])
    return np.stack([projected[:, i * width : (i + 1) * width] for i in range(n_heads)])[None]


def defined_states(model, tokens, segments):
    """All states of one row without padding."""
    x_tm = np.stack(
        [
            normed(
                model.word_embedding.weight[token].numpy()
                + model.position_embedding.weight[position].numpy()
                + model.segment_embedding.weight[segment].numpy(),
                model.embedding_norm,
            )
            for position, (token, segment) in enumerate(zip(tokens, segments, strict=True))
        ]
    )
    states = [x_tm]
    for block in model.blocks:
        a = block.attention
        q = heads_of(x_tm, a.query, H, D)
        k, v = heads_of(x_tm, a.key, G, D), heads_of(x_tm, a.value, G, E)
        out_bhte = definitions.grouped_query_attention(q, k, v)
        read = [affine(out_bhte[0, :, t].ravel(), a.output) for t in range(len(x_tm))]
        y = [normed(x + r, block.attention_norm) for x, r in zip(x_tm, read, strict=True)]
        x_tm = np.stack(
            [normed(z + fed_forward(z, block.feed_forward), block.feed_forward_norm) for z in y]
        )
        states.append(x_tm)
    return states


def test_every_state_is_the_one_of_the_definition():
    model, segments = encoder(), numbers(B, T, below=SEGMENTS, seed=2)
    states = model.states(TOKENS, segments=segments)
    assert len(states) == LAYERS + 1
    for i in range(B):
        wanted = defined_states(model, TOKENS[i].tolist(), segments[i].tolist())
        for state, want in zip(states, wanted, strict=True):
            assert_equal(state[i], torch.from_numpy(want))


def test_without_segments_all_tokens_are_in_the_first():
    model = encoder()
    assert_equal(model(TOKENS), model(TOKENS, segments=torch.zeros_like(TOKENS)), atol=0)
    assert (model(TOKENS) - model(TOKENS, segments=torch.ones_like(TOKENS))).abs().max() > 0.01


# --- oracle 2: identities ---------------------------------------------------------------------


@pytest.mark.parametrize("is_token", [ON_THE_RIGHT, ON_THE_LEFT], ids=["right", "left"])
def test_a_row_does_not_know_how_it_was_filled_up(is_token):
    model = encoder()
    out, weights = (f(TOKENS, is_token=is_token) for f in (model, model.attention_weights))
    means = model.sentence_vectors(TOKENS, is_token=is_token)
    for i in range(B):
        alone = TOKENS[i : i + 1, is_token[i]]
        assert_equal(out[i, is_token[i]], model(alone)[0])
        assert_equal(means[i], model.sentence_vectors(alone)[0])
        here = weights[:, i][..., is_token[i], :]
        assert_equal(here[..., is_token[i]], model.attention_weights(alone)[:, 0])
        assert (here[..., ~is_token[i]] == 0).all()


def test_what_stands_in_the_padding_has_no_influence():
    model = encoder()
    other = torch.where(ON_THE_RIGHT, TOKENS, (TOKENS + 1) % V)
    out, same = (model(tokens, is_token=ON_THE_RIGHT) for tokens in (TOKENS, other))
    assert_equal(out[ON_THE_RIGHT], same[ON_THE_RIGHT], atol=0)


def test_a_row_of_padding_alone_stays_finite_and_its_neighbour_does_not_notice():
    model = encoder().requires_grad_()
    is_token = torch.tensor([[True] * T, [False] * T])
    out = model(TOKENS, is_token=is_token)
    assert_equal(out[0], model(TOKENS[:1])[0])
    assert out.isfinite().all()
    assert (model.attention_weights(TOKENS, is_token=is_token)[:, 1] == 0).all()
    out[0].sum().backward()
    assert all(p.grad.isfinite().all() for p in model.blocks.parameters())


def test_without_positions_the_order_of_tokens_only_orders_the_output():
    model = encoder()
    with torch.no_grad():
        model.position_embedding.weight.zero_()
    order = torch.tensor([3, 0, 4, 1, 2])
    assert_equal(model(TOKENS[:, order]), model(TOKENS)[:, order])


def test_each_token_reads_both_sides():
    model = encoder()
    for place in (0, T - 1):
        other = TOKENS.clone()
        other[:, place] = (other[:, place] + 1) % V
        moved = (model(other) - model(TOKENS)).abs().amax(-1)
        assert (moved > 1e-3).all()


def test_the_forward_pass_is_the_last_state_and_begins_with_the_embedding():
    model = encoder()
    states = model.states(TOKENS, is_token=ON_THE_LEFT)
    assert_equal(model(TOKENS, is_token=ON_THE_LEFT), states[-1], atol=0)
    assert_equal(model.embed(TOKENS, is_token=ON_THE_LEFT), states[0], atol=0)


def test_weights_are_those_with_which_each_layer_reads_its_state():
    model = encoder()
    states, weights = model.states(TOKENS), model.attention_weights(TOKENS)
    assert weights.shape == (LAYERS, B, H, T, T)
    assert_equal(weights.sum(-1), torch.ones(LAYERS, B, H, T).double())
    for block, x, layer in zip(model.blocks, states[:-1], weights, strict=True):
        assert_equal(layer, block.attention.weights(x), atol=0)


def test_a_sentence_vector_is_the_mean_of_its_tokens():
    model = encoder()
    out = model(TOKENS, is_token=ON_THE_RIGHT)
    means = model.sentence_vectors(TOKENS, is_token=ON_THE_RIGHT)
    assert_equal(means[0], out[0].mean(0))
    assert_equal(means[1], (out[1, 0] + out[1, 1] + out[1, 2]) / 3)


def test_the_pooler_looks_at_the_first_place_alone():
    model = encoder()
    out = model(TOKENS, is_token=ON_THE_RIGHT)
    wanted = [np.tanh(affine(out[i, 0].numpy(), model.pooler)) for i in range(B)]
    assert_equal(model.pooled(TOKENS, is_token=ON_THE_RIGHT), torch.from_numpy(np.stack(wanted)))


# --- oracle 3: a case that a person can check --------------------------------------------------


def test_layers_that_add_nothing_leave_normed_word_vectors():
    # words 0 and 1 are (3, 1, 3, 1, …) and (1, 5, 1, 5, …): their mean is taken off and their
    # deviation divided out, which leaves signs, and signs are normed already
    model = encoder(norm_epsilon=1e-30)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "norm" in name and "weight" in name else 0.0)
        model.word_embedding.weight[0, 0::2], model.word_embedding.weight[0, 1::2] = 3.0, 1.0
        model.word_embedding.weight[1, 0::2], model.word_embedding.weight[1, 1::2] = 1.0, 5.0
    out = model(torch.tensor([[0, 1, 1, 0]]))
    sign = torch.tensor([1.0, -1.0]).double().repeat(M // 2)
    for state in (out, *model.states(torch.tensor([[0, 1, 1, 0]]))):
        assert_equal(state[0], torch.stack([sign, -sign, -sign, sign]), atol=1e-14)
    # all scores are 0, so that every target reads all four sources alike
    assert (model.attention_weights(torch.tensor([[0, 1, 1, 0]])) == 0.25).all()


# --- as a module ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["minilm-l6", "bert-base"])
def test_the_parameters_are_those_that_the_sizes_count(name):
    with torch.device("meta"):
        model = Encoder(PUBLISHED[name])
    assert sum(p.numel() for p in model.parameters()) == PUBLISHED[name].n_parameters


def test_without_a_pooler_there_is_none_to_count():
    model = encoder(pooler=False)
    assert model.pooler is None
    assert sum(p.numel() for p in model.parameters()) == sizes(pooler=False).n_parameters


def test_derivatives_are_those_of_finite_differences():
    block = Block(sizes()).double()
    x = torch.randn(1, 3, M, generator=torch.Generator().manual_seed(3)).double()
    may_attend = torch.tensor([[True, True, False]] * 3)
    assert torch.autograd.gradcheck(
        lambda x: block(x, may_attend=may_attend), x.requires_grad_(), atol=1e-6
    )


def test_a_state_dict_gives_the_same_model_back_and_training_mode_changes_nothing():
    model, file = encoder(seed=4), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again = Encoder(sizes()).double()
    again.load_state_dict(torch.load(file, weights_only=True))
    assert_equal(again.train()(TOKENS), model(TOKENS), atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_other_kinds_of_numbers_give_the_same_up_to_their_rounding(dtype):
    model = encoder(n_layers=1)
    exact, rounded = model(TOKENS), model.to(dtype)(TOKENS)
    assert rounded.dtype == dtype
    # numbers of size 1 to 5 pass three norms, and five sums of at most h·e = 42 products each,
    # whose roundings of eps/2 add up like their roots: 5 · 5 · √42 · eps/2
    assert (rounded.double() - exact).abs().max() < 81 * torch.finfo(dtype).eps


def test_numbers_of_32_bits_will_do():
    assert_equal(encoder()(TOKENS.int()), encoder()(TOKENS), atol=0)


def test_a_swapped_axis_is_refused_while_tests_run():
    with pytest.raises(TypeCheckError):
        encoder()(TOKENS, is_token=ON_THE_RIGHT.T)
