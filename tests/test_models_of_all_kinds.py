"""What holds of all models: who reads whom, what padding does, and how the weights begin.

Parity with transformers is in test_models_parity.py; the encoder of BERT is in test_models.py.
"""

import io
from dataclasses import replace
from functools import cache

import pytest
import torch
import torch.nn.functional as F

from attnlib import (
    AttentionSizes,
    Decoder,
    Encoder,
    EncoderDecoder,
    LanguageModel,
    ModelSizes,
    causal_mask,
    compose_masks,
    sinusoidal_encoding,
    window_mask,
)
from attnlib.sizes import RotarySizes

B, T, S, H, G, D, E, M, INNER, V, CONTEXT = 2, 7, 5, 6, 3, 4, 9, 8, 11, 13, 10
N_LAYERS, N_ENCODER = 3, 2
DECODER = ModelSizes(
    name="a small model",
    source="made up for a test",
    n_layers=N_LAYERS,
    width=M,
    attention=AttentionSizes(n_query_heads=H, n_kv_heads=G, head_dim=D, value_dim=E),
    feed_forward_width=INNER,
    gated=True,
    activation="silu",
    vocabulary=V,
    tied_embeddings=True,
    norm="rms",
    norm_placement="pre",
    norm_epsilon=1e-3,
    context=CONTEXT,
)
BOTH = {"n_encoder_layers": N_ENCODER}
POSITIONS = {
    "rotary": {"rotary": RotarySizes(base=100.0)},
    "learned": {"learned_positions": True},
    "sinusoidal": {"sinusoidal_positions": True, "scaled_embedding": True},
}
PLACEMENTS = ["pre", "post", "peri"]
WINDOW = {"window": 3, "window_pattern": (True, False, True)}


def made(kind, seed=0, dropout=0.0, **changes):
    """In fp64, every number random, those of norms and biases too, so that nothing is small."""
    sizes = replace(DECODER, **changes)
    pairing = None if sizes.rotary is None else "half"
    model = kind(sizes, pairing=pairing, dropout=dropout).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            spread = weight.shape[1] ** -0.5 if weight.ndim == 2 else 0.5
            spread = 1.0 if "embedding.weight" in name else spread
            random = spread * torch.randn(weight.shape, generator=generator).double()
            weight.copy_(random + ("norm" in name and name.endswith("weight")))
    return model.requires_grad_(False)


shared = cache(made)  # for tests that leave the model as it is


def numbers(*shape, seed=1):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


TOKENS, SOURCE = numbers(B, T), numbers(B, S, seed=2)
LEFT = torch.arange(T) >= torch.tensor([[3], [0]])
RIGHT = LEFT.flip(1)
INSIDE = torch.tensor([[True, False, True, True, False, False, True], [True] * T])


def assert_equal(actual, wanted, atol=1e-11):
    torch.testing.assert_close(actual, wanted, rtol=0, atol=atol)


# --- who reads whom ---------------------------------------------------------------------------


def influence(outputs_of, words):
    """Whether a word (s) moves an output (t), by derivatives in a random direction.

    All ones would not do: a norm that takes off the mean gives them no derivative.
    """
    words = words.clone().requires_grad_()
    out = outputs_of(words)
    direction = torch.randn(M, generator=torch.Generator().manual_seed(9)).double()
    rows = [
        torch.autograd.grad((out[0, t] @ direction), words, retain_graph=True)[0][0]
        for t in range(out.shape[1])
    ]
    return torch.stack(rows).abs().amax(-1)


def assert_reads(found, may_read):
    assert (found[~may_read] == 0).all()
    assert (found[may_read] > 1e-9).all()


@pytest.mark.parametrize("norm", ["rms", "layer"])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_no_token_of_a_language_model_sees_those_after_it(placement, norm):
    decoder = shared(LanguageModel, norm_placement=placement, norm=norm).decoder
    words = decoder.word_embedding(TOKENS[:1])
    found = influence(lambda words: decoder.states_of_words(words)[-1], words)
    assert_reads(found, causal_mask(T))


def test_changing_a_token_changes_no_logits_before_it():
    model = shared(LanguageModel, rotary=RotarySizes(base=100.0), tied_embeddings=False)
    for place in range(T):
        other = TOKENS.clone()
        other[:, place] = (other[:, place] + 1) % V
        moved = (model(other) - model(TOKENS)).abs().amax((0, 2))
        assert (moved[:place] == 0).all() and (moved[place:] > 1e-6).all()


def test_layers_with_a_window_reach_as_far_as_their_masks_composed():
    sizes = {"window": 2, "window_pattern": (True,)}
    decoder = shared(Decoder, **sizes)
    found = influence(
        lambda words: decoder.states_of_words(words)[-1], decoder.word_embedding(TOKENS[:1])
    )
    mask = causal_mask(T, window=2)
    assert_reads(found, compose_masks(compose_masks(mask, mask), mask))
    encoder = shared(Encoder, causal=False, n_layers=2, **sizes)
    found = influence(
        lambda words: encoder.states_of_words(words)[-1], encoder.word_embedding(TOKENS[:1])
    )
    mask = window_mask(T, window=2)
    assert_reads(found, compose_masks(mask, mask))


@pytest.mark.parametrize("kind", [Decoder, LanguageModel])
def test_each_layer_has_the_window_that_the_sizes_say(kind):
    weights = shared(kind, **WINDOW).attention_weights(TOKENS)
    for layer, window in zip(weights, (3, None, 3), strict=True):
        assert ((layer > 0) == causal_mask(T, window=window)).all()


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_an_encoder_sees_both_sides(placement):
    encoder = shared(Encoder, causal=False, norm_placement=placement)
    found = influence(
        lambda words: encoder.states_of_words(words)[-1], encoder.word_embedding(TOKENS[:1])
    )
    assert_reads(found, torch.ones(T, T).bool())


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_decoder_sees_all_of_the_source_and_no_token_after_its_own(placement):
    model = shared(EncoderDecoder, norm_placement=placement, **BOTH)
    written, read = model.word_embedding(TOKENS[:1]), model.word_embedding(SOURCE[:1])

    def through_source(words):
        encoded = model.encoder.states_of_words(words)[-1]
        return model.decoder.states_of_words(written, read=encoded)[-1]

    encoded = model.encoder.states_of_words(read)[-1]

    def through_written(words):
        return model.decoder.states_of_words(words, read=encoded)[-1]

    assert_reads(influence(through_source, read), torch.ones(T, S).bool())
    assert_reads(influence(through_written, written), causal_mask(T))


def test_the_decoder_reads_the_output_of_the_encoder_and_not_what_entered_it():
    model = made(EncoderDecoder, **BOTH)
    seen = []
    for block in model.decoder.blocks:
        for name in ("key", "value"):
            getattr(block.cross_attention, name).register_forward_hook(
                lambda module, given, out: seen.append(given[0])
            )
    model(SOURCE, TOKENS)
    output = model.encode(SOURCE)
    assert len(seen) == 2 * N_LAYERS
    for given in seen:
        assert_equal(given, output, atol=0)
    entered = model.encoder.states_of_words(model.word_embedding(SOURCE))[0]
    assert (output - entered).abs().max() > 0.1


def test_the_order_of_what_the_encoder_gives_does_not_matter():
    model, order = shared(EncoderDecoder, **BOTH), torch.tensor([3, 0, 4, 1, 2])
    is_source = torch.arange(S) < torch.tensor([[S], [3]])
    read = model.encode(SOURCE, is_source=is_source)
    moved = model.decode(TOKENS, read[:, order], is_source=is_source[:, order])
    assert_equal(moved, model.decode(TOKENS, read, is_source=is_source))
    assert_equal(moved, model(SOURCE, TOKENS, is_source=is_source))
    # without positions the encoder knows no order either; with them it does
    assert_equal(model(SOURCE[:, order], TOKENS), model(SOURCE, TOKENS))
    ordered = shared(EncoderDecoder, **BOTH, **POSITIONS["learned"])
    assert (ordered(SOURCE[:, order], TOKENS) - ordered(SOURCE, TOKENS)).abs().max() > 1e-2


# --- padding and neighbours -------------------------------------------------------------------


# Three rows of four tokens each, filled up in three ways, and one that needs nothing.
ROWS = numbers(4, T, seed=3)
IS_TOKEN = torch.stack([LEFT[0], RIGHT[0], INSIDE[0], LEFT[1]])


def alone(x, is_there):
    """What is there, without the rest: of the rows with gaps, and of the one without."""
    return x[:3][is_there[:3]].unflatten(0, (3, -1)), x[3:]


def assert_reads_what_is_there(weights, is_target, is_source, wanted):
    """The weights of targets that are there are `wanted`, and 0 into gaps."""
    weights = weights.movedim((0, 2), (-2, -1))  # b, t, s, then layers and heads
    reads = is_target[:, :, None] & is_source[:, None, :]
    short = weights[:3][reads[:3]].unflatten(0, (3, int(is_target[0].sum()), -1))
    for found, other in zip((short, weights[3:]), wanted, strict=True):
        assert_equal(found, other.movedim((0, 2), (-2, -1)))
    assert (weights[is_target[:, :, None] & ~is_source[:, None, :]] == 0).all()


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("window", [{}, WINDOW], ids=["full", "window"])
def test_a_row_of_a_language_model_does_not_know_how_it_was_filled_up(positions, window):
    model = shared(LanguageModel, **POSITIONS[positions], **window)
    logits = model(ROWS, is_token=IS_TOKEN)
    without_gaps = alone(ROWS, IS_TOKEN)
    for found, tokens in zip(alone(logits, IS_TOKEN), without_gaps, strict=True):
        assert_equal(found, model(tokens))
    weights = model.attention_weights(ROWS, is_token=IS_TOKEN)
    wanted = [model.attention_weights(tokens) for tokens in without_gaps]
    assert_reads_what_is_there(weights, IS_TOKEN, IS_TOKEN, wanted)
    other = torch.where(IS_TOKEN, ROWS, (ROWS + 1) % V)
    same = model(other, is_token=IS_TOKEN)
    assert_equal(logits[IS_TOKEN], same[IS_TOKEN], atol=0)
    assert logits.isfinite().all()


@pytest.mark.parametrize("positions", POSITIONS)
def test_an_encoder_of_any_positions_does_not_know_how_a_row_was_filled_up(positions):
    sizes = {"causal": False, "window": 3, "window_pattern": (True, False)}
    model = shared(Encoder, **sizes, **POSITIONS[positions])
    out = alone(model(ROWS, is_token=IS_TOKEN), IS_TOKEN)
    for found, tokens in zip(out, alone(ROWS, IS_TOKEN), strict=True):
        assert_equal(found, model(tokens))


@pytest.mark.parametrize("positions", POSITIONS)
def test_both_rows_of_a_translation_may_be_filled_up(positions):
    model = shared(EncoderDecoder, **BOTH, **POSITIONS[positions])
    source, is_source = numbers(4, S, seed=4), torch.ones(4, S).bool()
    is_source[:3] = torch.arange(S) < torch.tensor([[3]])
    is_source[1:3] = torch.stack([is_source[1].flip(0), INSIDE[0, 2:]])
    call = {"is_source": is_source, "is_token": IS_TOKEN}
    pairs = list(zip(alone(source, is_source), alone(ROWS, IS_TOKEN), strict=True))
    logits = alone(model(source, ROWS, **call), IS_TOKEN)
    for found, pair in zip(logits, pairs, strict=True):
        assert_equal(found, model(*pair))
    cross = model.cross_attention_weights(source, ROWS, **call)
    wanted = [model.cross_attention_weights(*pair) for pair in pairs]
    assert_reads_what_is_there(cross, IS_TOKEN, is_source, wanted)
    own = model.attention_weights(source, ROWS, **call)
    wanted = zip(*(model.attention_weights(*pair) for pair in pairs), strict=True)
    for found, is_there, others in zip(own, (is_source, IS_TOKEN), wanted, strict=True):
        assert_reads_what_is_there(found, is_there, is_there, others)


@pytest.mark.parametrize("kind", [LanguageModel, EncoderDecoder])
def test_a_row_does_not_notice_its_neighbours(kind):
    both = kind is EncoderDecoder
    model = shared(kind, **(BOTH if both else {}), **POSITIONS["rotary"])
    rows = (SOURCE, TOKENS) if both else (TOKENS,)
    for i in range(B):
        assert_equal(model(*rows)[i], model(*(row[i : i + 1] for row in rows))[0])


# --- states, weights, logits ------------------------------------------------------------------


def test_states_begin_with_what_enters_and_end_with_what_the_logits_are_made_of():
    model = shared(LanguageModel, **POSITIONS["sinusoidal"], tied_embeddings=False)
    states = model.states(TOKENS)
    assert len(states) == N_LAYERS + 1
    words = model.decoder.word_embedding(TOKENS) * M**0.5
    assert_equal(states[0], words + sinusoidal_encoding(torch.arange(T), M, dtype=torch.float64))
    assert_equal(model(TOKENS), model.output(states[-1]), atol=0)
    assert_equal(model.logits(states[-1]), model(TOKENS), atol=0)
    # the last norm leaves a mean square of one, but for ε and its weights
    size = (states[-1] / model.decoder.end_norm.weight).square().mean(-1)
    assert (size > 0.9).all() and (size < 1).all()
    x = states[0]
    for block in model.decoder.blocks:
        x = block(x, may_attend=causal_mask(T))
    assert_equal(model.decoder.end_norm(x), states[-1], atol=0)


def test_one_matrix_serves_both_ends_where_the_embedding_is_tied():
    model = made(LanguageModel)
    assert model.output is None
    embedding = model.decoder.word_embedding.weight
    assert_equal(model(TOKENS), model.states(TOKENS)[-1] @ embedding.T, atol=1e-13)
    # a token that is not there moves its own logit, and no other one
    absent = TOKENS.clamp(max=11)
    before = model(absent)
    embedding[12] += 1.0
    after = model(absent)
    assert_equal(after[..., :12], before[..., :12], atol=0)
    assert_equal((after - before)[..., 12], model.states(absent)[-1].sum(-1))


def test_an_output_matrix_of_its_own_is_another_one():
    for kind, sizes in ((LanguageModel, {}), (EncoderDecoder, BOTH)):
        model = shared(kind, tied_embeddings=False, **sizes)
        assert tuple(model.output.weight.shape) == (V, M) and model.output.bias is None
        tied = shared(kind, **sizes)
        counts = [sum(p.numel() for p in m.parameters()) for m in (model, tied)]
        assert counts == [model.sizes.n_parameters, tied.sizes.n_parameters]
        assert counts[0] - counts[1] == V * M
    read = model.encode(SOURCE)
    states = model.decoder.states_of_words(model.word_embedding(TOKENS), read=read)
    assert_equal(model(SOURCE, TOKENS), states[-1] @ model.output.weight.T, atol=1e-13)


def test_the_embedding_serves_both_stacks_and_the_end():
    model = shared(EncoderDecoder, **BOTH)
    names = [name for name, _ in model.named_parameters() if "word_embedding" in name]
    assert names == ["word_embedding.weight"]
    read = model.encode(SOURCE)
    states = model.decoder.states_of_words(model.word_embedding(TOKENS), read=read)
    assert_equal(model(SOURCE, TOKENS), states[-1] @ model.word_embedding.weight.T, atol=1e-13)


def test_the_factor_of_a_scaled_embedding_is_rounded_as_the_weights_are():
    # √8 = 2.828…; bf16 has 8 bits: 2.828125. In Gemma 3 27B √5376 = 73.32 becomes 73.5
    model = made(LanguageModel, scaled_embedding=True).to(torch.bfloat16)
    words = model.decoder.word_embedding(TOKENS)
    factor = torch.tensor(8**0.5).to(torch.bfloat16)
    assert factor.item() == 2.828125
    assert torch.equal(model.states(TOKENS)[0], words * factor)
    entering = made(LanguageModel, scaled_embedding=True, width=5376, n_layers=1)
    entering = entering.to(torch.bfloat16)
    words = entering.decoder.word_embedding(TOKENS)
    assert torch.equal(entering.states(TOKENS)[0], (73.5 * words.double()).to(torch.bfloat16))


def test_a_decoder_alone_is_that_of_the_language_model():
    model = shared(LanguageModel, **POSITIONS["rotary"])
    decoder = made(Decoder, seed=5, **POSITIONS["rotary"])
    decoder.load_state_dict(model.decoder.state_dict())
    assert_equal(decoder(TOKENS, is_token=LEFT), model.states(TOKENS, is_token=LEFT)[-1], atol=0)
    assert_equal(decoder.attention_weights(TOKENS), model.attention_weights(TOKENS), atol=0)


def test_a_decoder_with_something_to_read_is_that_of_the_translator():
    model = shared(EncoderDecoder, **BOTH)
    decoder = made(Decoder, seed=5, **BOTH)
    weights = model.decoder.state_dict() | {"word_embedding.weight": model.word_embedding.weight}
    decoder.load_state_dict(weights)
    is_source = torch.arange(S) < torch.tensor([[S], [3]])
    call = {"read": model.encode(SOURCE, is_source=is_source), "may_read": is_source}
    out = decoder(TOKENS, is_token=LEFT, **call)
    logits = model(SOURCE, TOKENS, is_source=is_source, is_token=LEFT)
    assert_equal(F.linear(out, decoder.word_embedding.weight), logits, atol=0)
    cross = model.cross_attention_weights(SOURCE, TOKENS, is_source=is_source, is_token=LEFT)
    assert_equal(decoder.cross_attention_weights(TOKENS, is_token=LEFT, **call), cross, atol=0)
    _, own = model.attention_weights(SOURCE, TOKENS, is_source=is_source, is_token=LEFT)
    assert_equal(decoder.attention_weights(TOKENS, is_token=LEFT, **call), own, atol=0)


# --- how the weights begin --------------------------------------------------------------------

LARGE = {"width": 64, "vocabulary": 500, "feed_forward_width": 200, "learned_positions": True}
HEADS = AttentionSizes(n_query_heads=4, n_kv_heads=4, head_dim=16, value_dim=16, biases=True)


def begun(kind, **changes):
    sizes = replace(DECODER, **LARGE | {"attention": HEADS, "feed_forward_biases": True} | changes)
    model = kind(sizes)
    model.reset_parameters(torch.Generator().manual_seed(0))
    return model


@pytest.mark.parametrize("kind", [LanguageModel, EncoderDecoder])
def test_the_weights_begin_as_those_of_gpt_2(kind):
    both = kind is EncoderDecoder
    model = begun(kind, **(BOTH if both else {}), tied_embeddings=False, norm="layer")
    # sub-layers of a stack: 2 in each layer, 3 where it reads an encoder
    n_added = {"encoder": 2 * N_ENCODER, "decoder": (3 if both else 2) * N_LAYERS}
    for name, weight in model.named_parameters():
        if weight.ndim == 1:
            wanted = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            assert (weight == wanted).all(), name
            continue
        added = name.endswith(("attention.output.weight", "narrow.weight"))
        spread = 0.02 / n_added[name.split(".")[0]] ** 0.5 if added else 0.02
        # of n normal numbers the mean square has the relative spread √(2/n)
        error = weight.square().mean() / spread**2 - 1
        assert abs(error) < 4.5 * (2 / weight.numel()) ** 0.5, name


def test_a_scaled_embedding_enters_with_variance_one():
    model = begun(EncoderDecoder, **BOTH, scaled_embedding=True)
    entering = model.word_embedding.weight * model.sizes.width**0.5
    assert abs(entering.square().mean() - 1) < 4.5 * (2 / entering.numel()) ** 0.5


def test_a_generator_makes_the_same_weights_again():
    for kind, sizes in ((Encoder, {"causal": False}), (LanguageModel, {}), (Decoder, BOTH)):
        first, second = begun(kind, **sizes), begun(kind, **sizes)
        for x, y in zip(first.parameters(), second.parameters(), strict=True):
            assert torch.equal(x, y)
        second.reset_parameters()
        pairs = zip(first.parameters(), second.parameters(), strict=True)
        assert all(x.ndim == 1 or not torch.equal(x, y) for x, y in pairs)


def test_a_new_model_is_nearly_uniform():
    torch.manual_seed(0)
    logits = LanguageModel(DECODER)(TOKENS)
    # a normed vector of length √8 times rows of N(0, 0.02²): logits of spread 0.02·√8 = 0.06
    assert logits.abs().max() < 5 * 0.02 * 8**0.5


# --- as modules -------------------------------------------------------------------------------

KINDS = [(Encoder, {"causal": False}), (LanguageModel, {}), (EncoderDecoder, BOTH)]


@pytest.mark.parametrize("kind,sizes", KINDS)
def test_a_state_dict_gives_the_same_model_back_even_to_one_without_memory(kind, sizes):
    model, file = shared(kind, **sizes, **POSITIONS["rotary"]), io.BytesIO()
    rows = (SOURCE, TOKENS) if kind is EncoderDecoder else (TOKENS,)
    torch.save(model.state_dict(), file)
    file.seek(0)
    with torch.device("meta"):
        again = kind(model.sizes, pairing="half")
    again.load_state_dict(torch.load(file, weights_only=True), assign=True)
    assert_equal(again.eval()(*rows), model(*rows), atol=0)
    assert sum(p.numel() for p in again.parameters()) == model.sizes.n_parameters
    # every parameter has one name, so that what is saved is loaded without a word about ties
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}


@pytest.mark.parametrize("kind,sizes", KINDS)
def test_dropout_acts_while_training_and_not_after(kind, sizes):
    model = made(kind, dropout=0.3, **sizes)
    rows = (SOURCE, TOKENS) if kind is EncoderDecoder else (TOKENS,)
    plain = shared(kind, **sizes)(*rows)
    assert_equal(model(*rows), plain, atol=0)
    model.train()
    torch.manual_seed(0)
    first, second = model(*rows), model(*rows)
    assert (first - plain).abs().max() > 0.1 and (first - second).abs().max() > 0.1
    assert_equal(model.eval()(*rows), plain, atol=0)


def test_dropout_acts_on_what_enters_the_first_layer():
    model = made(Decoder, dropout=0.5, width=200, **POSITIONS["sinusoidal"]).train()
    torch.manual_seed(0)
    entering, without = model.states(TOKENS)[0], made(Decoder, width=200, **POSITIONS["sinusoidal"])
    kept = entering != 0
    # 2,800 numbers: 4 standard errors of the share are 0.038
    assert abs(kept.double().mean() - 0.5) < 0.039
    assert_equal(entering[kept], 2 * without.states(TOKENS)[0][kept])


@pytest.mark.parametrize("kind,sizes", KINDS)
def test_every_parameter_gets_a_gradient(kind, sizes):
    model = made(kind, norm_placement="peri", **sizes, **POSITIONS["learned"]).requires_grad_()
    rows = (SOURCE, TOKENS) if kind is EncoderDecoder else (TOKENS,)
    out = model(*rows)
    (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(3))).sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.abs().max() > 1e-9, name


def test_numbers_of_32_bits_will_do():
    model = shared(EncoderDecoder, **BOTH)
    assert_equal(model(SOURCE.int(), TOKENS.int()), model(SOURCE, TOKENS), atol=0)
