"""The loss, the rates and the loop of training: what the chapters say of them holds."""

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from jaxtyping import TypeCheckError
from torch import nn

from attnlib import PUBLISHED, AttentionSizes, LanguageModel, definitions
from attnlib.training import (
    cross_entropy,
    inverse_root_rate,
    learning_rate,
    shifted,
    train,
)

B, T, V = 3, 5, 7
PLAN = {"peak_rate": 0.05, "n_warm_up": 2}


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def numbers(*shape, below=V, seed=1):
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed))


def assert_equal(actual, wanted, atol=1e-14):
    torch.testing.assert_close(actual, wanted, rtol=0, atol=atol)


# --- rates ------------------------------------------------------------------------------------


def test_the_rate_rises_on_a_line_and_falls_on_a_cosine():
    plan = {"peak": 0.8, "n_warm_up": 4, "n_steps": 12, "floor": 0.25}
    rates = [learning_rate(i, **plan) for i in range(1, 13)]
    assert rates[:4] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    # half way down it is half way between the peak and the floor, a quarter way at cos 45°
    assert rates[7] == pytest.approx(0.5)
    assert rates[5] == pytest.approx(0.2 + 0.3 * (1 + math.sqrt(0.5)))
    assert rates[11] == pytest.approx(0.2)
    assert rates[3:] == sorted(rates[3:], reverse=True)


def test_without_warm_up_the_rate_only_falls_and_with_nothing_else_it_only_rises():
    falling = [learning_rate(i, peak=1.0, n_warm_up=0, n_steps=3, floor=0.0) for i in (1, 2, 3)]
    assert falling == pytest.approx([0.75, 0.25, 0.0])
    rising = [learning_rate(i, peak=1.0, n_warm_up=3, n_steps=3, floor=0.0) for i in (1, 2, 3)]
    assert rising == pytest.approx([1 / 3, 2 / 3, 1])


def test_vaswanis_rate_at_points_that_are_computed_by_hand():
    base = {"width": 512, "n_warm_up": 4000}
    # 512 = 2⁹ and 4000 = 2⁵ · 5³: at the peak 1/√(2¹⁴ · 125) = 1/(128 · 5√5)
    assert inverse_root_rate(4000, **base) == pytest.approx(1 / (640 * math.sqrt(5)))
    assert inverse_root_rate(1000, **base) == pytest.approx(0.25 / (640 * math.sqrt(5)))
    assert inverse_root_rate(16_000, **base) == pytest.approx(0.5 / (640 * math.sqrt(5)))
    assert inverse_root_rate(1, **base) == pytest.approx(1 / (4000 * 640 * math.sqrt(5)))
    for step in (1, 17, 4000, 4001, 100_000):
        assert inverse_root_rate(step, **base) == definitions.vaswani_rate(step, 512, 4000)


# --- the loss ---------------------------------------------------------------------------------


def test_a_target_is_the_token_that_follows():
    inputs, targets = shifted(torch.tensor([[7, 3, 9, 4], [1, 2, 3, 4]]))
    assert inputs.tolist() == [[7, 3, 9], [1, 2, 3]]
    assert targets.tolist() == [[3, 9, 4], [2, 3, 4]]
    for row in numbers(B, T).tolist():
        both = shifted(torch.tensor([row]))
        assert tuple(x[0].tolist() for x in both) == definitions.shifted(row)


def test_the_loss_is_the_one_of_the_definition():
    logits, targets, counts = random(T, V), numbers(T), numbers(T, below=2, seed=5).bool()
    assert 0 < counts.sum() < T
    for is_target in (None, counts):
        wanted = definitions.cross_entropy(logits.numpy(), targets, is_target)
        assert abs(cross_entropy(logits, targets, is_target=is_target).item() - wanted) < 1e-14


def test_the_loss_of_a_model_that_knows_nothing_is_the_logarithm_of_the_vocabulary():
    for smoothing in (0.0, 0.3):
        loss = cross_entropy(torch.zeros(B, T, V).double(), numbers(B, T), smoothing=smoothing)
        assert abs(loss.item() - math.log(V)) < 1e-15


def test_a_loss_by_hand():
    logits = torch.tensor([[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]], dtype=torch.float64).log()
    loss = cross_entropy(logits, torch.tensor([0, 1]))
    assert abs(loss.item() - 2 * math.log(2)) < 1e-15  # (1 + 3)/2 bits
    # the first row's shares of 0.1 cost 1, 2 and 2 bits
    smoothed = cross_entropy(logits[:1], torch.tensor([0]), smoothing=0.3)
    assert abs(smoothed.item() - (0.7 + 0.1 * 5) * math.log(2)) < 1e-15


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_the_loss_is_that_of_torch_and_so_is_its_gradient(smoothing):
    ours, theirs = (random(B, T, V).requires_grad_() for _ in range(2))
    is_target = numbers(B, T, below=2, seed=5).bool()
    loss = cross_entropy(ours, numbers(B, T), is_target=is_target, smoothing=smoothing)
    wanted = F.cross_entropy(
        theirs.movedim(-1, 1),
        numbers(B, T).masked_fill(~is_target, -100),
        label_smoothing=smoothing,
    )
    assert_equal(loss, wanted)
    loss.backward()
    wanted.backward()
    assert_equal(ours.grad, theirs.grad)


def test_what_does_not_count_has_no_influence_even_as_nan():
    logits, is_target = random(B, T, V), torch.arange(T).expand(B, T) < 3
    wanted = cross_entropy(logits[:, :3], numbers(B, T)[:, :3], smoothing=0.2)
    logits[:, 3:] = math.nan
    targets = torch.where(is_target, numbers(B, T), -100)
    logits.requires_grad_()
    loss = cross_entropy(logits, targets, is_target=is_target, smoothing=0.2)
    assert_equal(loss, wanted)
    loss.backward()
    assert (logits.grad[:, 3:] == 0).all() and logits.grad[:, :3].isfinite().all()


def test_the_mean_is_over_targets_and_not_over_rows():
    logits, targets = random(2, 4, V), numbers(2, 4)
    is_target = torch.tensor([[True] * 4, [True, False, False, False]])
    parts = [cross_entropy(logits[i, j], targets[i, j]).item() for i, j in is_target.nonzero()]
    loss = cross_entropy(logits, targets, is_target=is_target).item()
    assert loss == pytest.approx(sum(parts) / 5, abs=1e-14)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_batch_of_padding_alone_is_refused(smoothing):
    nothing = torch.zeros(B, T, dtype=torch.bool)
    with pytest.raises(ValueError, match="a mean needs at least 1 target that counts, got 0"):
        cross_entropy(random(B, T, V), numbers(B, T), is_target=nothing, smoothing=smoothing)


def test_smoothing_cannot_give_a_share_to_what_is_forbidden():
    logits = random(T, V)
    logits[:, 6] = -math.inf
    targets = numbers(T, below=6)
    assert cross_entropy(logits, targets).isfinite()
    with pytest.raises(ValueError, match=r"smoothing=0\.1 gives every token a share"):
        cross_entropy(logits, targets, smoothing=0.1)


def test_half_precision_is_summed_in_32_bits():
    logits = random(B, T, V).half()
    loss = cross_entropy(logits, numbers(B, T))
    assert loss.dtype == torch.float32
    # v exponentials and a few roundings of 2⁻²⁴ of numbers below 10
    assert abs(loss.double() - cross_entropy(logits.double(), numbers(B, T))) < 10 * V * 2**-24


# --- the loop ---------------------------------------------------------------------------------


class Scale(nn.Module):
    """Two parameters of one number each: a matrix and a vector."""

    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.tensor([[2.0]], dtype=torch.float64))
        self.vector = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))


def pull(model, batch):
    """Slopes of 3 and 4 times the batch: their length is 5 times the batch."""
    return batch * (3 * model.matrix.sum() + 4 * model.vector.sum())


def test_the_length_of_the_gradient_is_that_of_all_parameters_before_clipping():
    record = train(Scale(), pull, [1.0, 0.01, 2.0], n_steps=3, clip=1.0, **PLAN)
    assert record.gradient_norms == pytest.approx([5.0, 0.05, 10.0])


def defined_adam_w(slopes, rates, *, start, decay, betas=(0.9, 0.95), epsilon=1e-8):
    """Loshchilov and Hutter's algorithm 2 for one number."""
    x, m, v = start, 0.0, 0.0
    for i, (g, rate) in enumerate(zip(slopes, rates, strict=True), start=1):
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        mean, square = m / (1 - betas[0] ** i), v / (1 - betas[1] ** i)
        x = x - rate * decay * x - rate * mean / (math.sqrt(square) + epsilon)
    return x


@pytest.mark.parametrize("clip", [None, 1.0, 100.0])
@pytest.mark.parametrize("betas,floor", [({}, {}), ({"betas": (0.7, 0.8)}, {"floor": 0.6})])
def test_steps_are_those_of_adam_w_on_clipped_gradients_and_only_matrices_decay(clip, betas, floor):
    model, batches = Scale(), [1.0, -0.01, 2.0, 0.5]
    chosen = {"clip": clip, "weight_decay": 0.3} | betas | floor
    record = train(model, pull, batches, n_steps=4, **chosen, **PLAN)
    assert record.rates == tuple(
        learning_rate(i, peak=0.05, n_warm_up=2, n_steps=4, **floor) for i in range(1, 5)
    )
    factors = [1.0 if clip is None else min(1.0, clip / (5 * abs(b))) for b in batches]
    for parameter, slope, decay in ((model.matrix, 3.0, 0.3), (model.vector, 4.0, 0.0)):
        slopes = [slope * b * f for b, f in zip(batches, factors, strict=True)]
        wanted = defined_adam_w(slopes, record.rates, start=2.0, decay=decay, **betas)
        # torch divides by the length plus 1e-6
        assert parameter.item() == pytest.approx(wanted, abs=1e-6)
        # what decays, and what is clipped, makes a difference that this would show
        assert abs(parameter.item() - 2.0) > 1e-3


def test_without_decay_a_parameter_without_gradient_stays_and_with_it_only_matrices_shrink():
    model = Scale()
    train(model, lambda m, b: 0 * pull(m, b), [1.0] * 3, n_steps=3, weight_decay=0.5, **PLAN)
    rates = [learning_rate(i, peak=0.05, n_warm_up=2, n_steps=3) for i in (1, 2, 3)]
    assert model.matrix.item() == pytest.approx(2 * math.prod(1 - 0.5 * r for r in rates))
    assert model.vector.item() == 2.0


def test_what_needs_no_gradient_stays_as_it_is_and_has_no_part_in_the_length():
    model = Scale()
    model.matrix.requires_grad_(False)
    record = train(model, pull, [1.0, 0.5], n_steps=2, **PLAN)
    assert model.matrix.item() == 2.0 > model.vector.item()
    assert record.gradient_norms == pytest.approx([4.0, 2.0])


SIZES = replace(
    PUBLISHED["gpt-2"],
    name="a small language model",
    source="made up for a test",
    n_layers=1,
    width=12,
    attention=AttentionSizes(n_query_heads=2, n_kv_heads=2, head_dim=6, value_dim=6, biases=True),
    feed_forward_width=24,
    vocabulary=V,
    context=11,
)


def language_model(seed=0, dropout=0.0, **changes):
    model = LanguageModel(replace(SIZES, **changes), dropout=dropout)
    model.reset_parameters(torch.Generator().manual_seed(seed))
    return model


def next_token_loss(model, tokens):
    inputs, targets = shifted(tokens)
    return cross_entropy(model(inputs), targets)


def test_a_matrix_at_both_ends_is_moved_once():
    model = language_model()
    seen = []
    train(model, next_token_loss, [numbers(B, T)], n_steps=1, peak_rate=0.01, n_warm_up=1,
          weight_decay=0.0, on_step=lambda *_: seen.append(1))  # fmt: skip
    before, after = (m.decoder.word_embedding.weight for m in (language_model(), model))
    # the first step of Adam moves each number by the rate, or less where its slope is tiny
    assert (after - before).abs().max().item() == pytest.approx(0.01, rel=1e-3)
    assert seen == [1]


def test_the_same_seed_gives_exactly_the_same_losses_and_another_does_not():
    def losses(seed):
        model = language_model(dropout=0.3)
        batches = [numbers(B, T, seed=i) for i in range(4)]
        return train(model, next_token_loss, batches, n_steps=4, seed=seed, **PLAN).losses

    assert losses(1) == losses(1)
    assert losses(1) != losses(2)


class Drawn:
    """As a DataLoader it draws one number when it is begun, and others as it goes on."""

    def __iter__(self):
        first = torch.rand(())
        return (first + torch.rand(()) for _ in range(3))


def test_batches_that_torch_draws_come_from_the_seed_and_its_own_chance_stays_as_it_was():
    losses = []
    for seed in (5, 5, 6, 2**64 - 1):
        model = language_model(dropout=0.3)
        state = torch.get_rng_state()
        record = train(
            model,
            lambda model, x: x * next_token_loss(model, numbers(B, T)),
            Drawn(),
            n_steps=3,
            seed=seed,
            **PLAN,
        )
        losses.append(record.losses)
        assert torch.equal(torch.get_rng_state(), state)
    assert losses[0] == losses[1] and len(set(losses)) == 3
    assert len(set(losses[0])) == 3


def test_dropout_acts_in_training_and_every_part_gets_its_mode_back():
    model = language_model(dropout=0.5).eval()
    model.decoder.blocks[0].train()
    seen = []

    def loss(model, tokens):
        seen.append({module.training for module in model.modules()})
        return next_token_loss(model, tokens)

    tokens = numbers(B, T)
    record = train(model, loss, [tokens], n_steps=1, peak_rate=1e-9, n_warm_up=1)
    assert seen == [{True}]
    assert record.losses[0] != next_token_loss(model.eval(), tokens).item()
    model = language_model().eval()
    model.decoder.blocks[0].train()
    train(model, next_token_loss, [tokens], n_steps=1, peak_rate=0.1, n_warm_up=1)
    assert not model.training and model.decoder.blocks[0].training
    assert all(p.grad is None for p in model.parameters())


def test_a_small_model_learns_to_copy():
    """Rows are w w w with words of two letters: all but the second letter can be known.

    The first is not predicted, so that with 4 letters the best loss is log 4 for one token of five.
    Knowing only which tokens are letters costs log 4 for each. The bound lies half way.
    """
    generator = torch.Generator().manual_seed(0)

    def batches():
        while True:
            yield torch.randint(4, (32, 2), generator=generator).repeat(1, 3)

    model = language_model(width=24)
    record = train(model, next_token_loss, batches(), n_steps=100, peak_rate=2e-2, n_warm_up=10)
    assert abs(record.losses[0] - math.log(V)) < 0.2
    last, best = np.mean(record.losses[-10:]), math.log(4) / 5
    # nobody can know more; the mean of 320 rows is off by luck, but not by a tenth
    assert 0.9 * best < last < (best + math.log(4)) / 2


def test_the_record_says_what_happened_and_json_can_hold_it():
    seen = []
    record = train(
        Scale(), pull, iter([1.0, 2.0]), n_steps=2, on_step=lambda *step: seen.append(step), **PLAN
    )
    assert record.n_steps == 2 and len(record.rates) == len(record.gradient_norms) == 2
    assert seen == list(enumerate(record.losses, start=1))
    assert record.losses[0] == 14.0  # 3 · 2 + 4 · 2
    assert record.seconds > 0
    again = json.loads(json.dumps(asdict(record)))
    assert again["losses"] == list(record.losses) and again["seconds"] == record.seconds


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_the_training_and_leaves_the_last_good_model(bad):
    good, model = Scale(), Scale().eval()
    plan = {"n_steps": 3, "weight_decay": 0.1, **PLAN}
    with pytest.raises(FloatingPointError, match=f"the loss must be finite, got {bad} at step 2"):
        train(model, pull, [1.0, bad, 1.0], **plan)
    with pytest.raises(ValueError, match="batches must give one for each of n_steps=3"):
        train(good, pull, [1.0], **plan)
    assert model.matrix.item() == good.matrix.item() and not model.training
    assert model.matrix.grad is None


def test_a_gradient_that_is_not_finite_stops_the_training_too():
    def root(model, batch):
        """Its value at 0 is 0 and its slope there is infinite."""
        return (model.matrix * batch).sum().sqrt() + model.vector.sum()

    model = Scale()
    with pytest.raises(FloatingPointError, match=r"gradient's length must be finite, .* at step 1"):
        train(model, root, [0.0], n_steps=1, peak_rate=0.1, n_warm_up=1)
    assert model.matrix.item() == model.vector.item() == 2.0


def test_an_interrupt_leaves_a_usable_model():
    def interrupted():
        yield 1.0
        raise KeyboardInterrupt

    model = Scale().eval()
    with pytest.raises(KeyboardInterrupt):
        train(model, pull, interrupted(), n_steps=5, **PLAN)
    assert not model.training and model.matrix.grad is None and model.matrix.item() < 2


def test_a_bar_counts_the_steps(capsys):
    train(Scale(), pull, [1.0] * 3, n_steps=3, progress=True, **PLAN)
    assert capsys.readouterr().err.endswith(f"\r{'█' * 30} 3 of 3 steps\n")


def test_swapped_axes_are_refused_while_tests_run():
    with pytest.raises(TypeCheckError):
        cross_entropy(random(B, T, V), numbers(T, B))


def test_the_shift_and_the_loss_are_those_of_transformers():
    config = transformers.GPT2Config(
        vocab_size=V,
        n_positions=T,
        n_embd=8,
        n_layer=1,
        n_head=2,
        bos_token_id=None,
        eos_token_id=None,
    )
    gpt, tokens = transformers.GPT2LMHeadModel(config).eval(), numbers(B, T)
    inputs, targets = shifted(tokens)
    with torch.no_grad():
        loss = cross_entropy(gpt(inputs).logits, targets)
        # both in fp32: v exponentials and a few roundings of numbers of size log v
        assert_equal(loss, gpt(tokens, labels=tokens).loss, atol=V * 2**-23)
