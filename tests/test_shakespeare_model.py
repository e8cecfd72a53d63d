"""The book's language model: how it was trained, and what it knows. Claims of language-models.

The record says what the training measured; here some of it is measured again, on a sample where all
of it would take long. `python book/train_shakespeare.py --check` repeats more of it.
"""

import hashlib
import math
import sys
from itertools import islice, pairwise
from pathlib import Path

import pytest
import torch

from attnlib.data import plays, shakespeare, training_record
from attnlib.likelihood import bits_per_byte
from attnlib.n_grams import NGramModel
from attnlib.pretrained import load_pretrained, read_record
from attnlib.sizes import TRAINED
from attnlib.tokenizer import BytePairTokenizer

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book"))

import train_shakespeare  # noqa: E402
from losses import loss_differences  # noqa: E402

RECORD = training_record("shakespeare")
SIZES = TRAINED["shakespeare"]
WEIGHTS = ROOT / "attnlib/data/models/shakespeare.safetensors"


# --- what is trained on -------------------------------------------------------------------------


def test_the_last_twentieth_of_each_training_play_is_left_out_and_nothing_is_lost():
    fit, validation = train_shakespeare.parts()
    n_rest = 0
    for play in plays("train").values():
        cut = next(i for i in range(int(0.95 * len(play)), len(play)) if play.startswith("\n\n", i))
        assert play[:cut] in fit and play[cut:] in validation
        assert play[cut : cut + 1_000] not in fit
        n_rest += len(play) - cut
    assert len(fit) + n_rest == len(shakespeare("train"))
    assert len(validation) == n_rest + len(plays("train")) - 1
    assert 0.04 < n_rest / len(shakespeare("train")) <= 0.05


def test_settings_are_compared_on_a_training_play_that_is_then_not_read():
    fit, left_out = train_shakespeare.parts("twelfth-night")
    others = dict(plays("train"))
    assert left_out == others.pop("twelfth-night")
    assert fit == "\n".join(others.values())


def test_no_held_out_play_is_trained_on():
    fit, validation = train_shakespeare.parts()
    for play in plays("held-out").values():
        for start in range(0, len(play) - 200, 5_000):
            assert play[start : start + 200] not in fit + validation
    assert RECORD["n_bytes_of_text"] == len(fit.encode())


def test_every_stretch_of_the_text_can_become_a_row_and_none_reaches_beyond_it():
    ids = torch.arange(7)
    found = train_shakespeare.windows(ids, 3, 4, torch.Generator().manual_seed(0))
    rows = [tuple(row) for batch in islice(found, 30) for row in batch.tolist()]
    assert set(rows) == {(i, i + 1, i + 2) for i in range(5)}
    assert len(rows) == 120


# --- the record ---------------------------------------------------------------------------------


def test_the_record_belongs_to_the_weights_and_they_fit_the_budget():
    content = WEIGHTS.read_bytes()
    assert hashlib.sha256(content).hexdigest() == read_record(WEIGHTS)["weights_sha256"]
    assert len(content) <= 6e6
    assert len(content) >= 2 * SIZES.n_parameters  # float16
    assert RECORD["n_parameters"] == SIZES.n_parameters


def test_the_record_tells_of_every_step():
    n_steps = RECORD["n_steps"]
    assert len(RECORD["losses"]) == len(RECORD["gradient_norms"]) == n_steps
    assert RECORD["n_context"] == SIZES.context
    assert RECORD["n_tokens_seen"] == n_steps * RECORD["batch_size"] * SIZES.context
    steps = [point["step"] for point in RECORD["curve"]]
    assert steps == sorted(set(steps)) and steps[-1] == n_steps and len(steps) >= 10
    assert all(RECORD[key] == train_shakespeare.PLAN[key] for key in ("peak_rate", "clip"))


def test_the_losses_begin_at_that_of_knowing_nothing_and_fall():
    """Logits of a new model have a deviation of about 0.02 √m: half its square on top of log v."""
    losses = RECORD["losses"]
    knowing_nothing = math.log(SIZES.vocabulary)
    assert knowing_nothing - 0.05 < losses[0] < knowing_nothing + 0.02**2 * SIZES.width + 0.1
    quarter = len(losses) // 4
    means = [sum(losses[i * quarter : (i + 1) * quarter]) / quarter for i in range(4)]
    assert all(later < before for before, later in pairwise(means))


def test_the_first_losses_come_again():
    """The same script and seed: within 1e-3, as its `--check` demands of 100 steps."""
    model, tokenizer, about = train_shakespeare.trained(lambda line: None, n_checked=2)
    assert len(about["losses"]) == 2
    assert about["losses"] == pytest.approx(RECORD["losses"][:2], rel=0, abs=1e-3)
    stored = BytePairTokenizer.load(WEIGHTS.with_name("shakespeare-tokenizer.json"))
    assert tokenizer.merges == stored.merges
    assert model.sizes == SIZES


def test_a_loss_that_is_not_on_record_is_told():
    same, other = RECORD["losses"][:5], [*RECORD["losses"][:4], RECORD["losses"][4] + 2e-3]
    assert loss_differences(same, RECORD["losses"]) == []
    (said,) = loss_differences(other, RECORD["losses"])
    assert said == "a loss differs by 0.002 from that on record"
    (said,) = loss_differences([math.nan], RECORD["losses"])
    assert "nan" in said


# --- the tokenizer ------------------------------------------------------------------------------


def test_the_tokenizer_has_as_many_tokens_as_the_model_and_gives_every_text_back():
    tokenizer = load_pretrained("shakespeare").tokenizer
    assert tokenizer.vocab_size == SIZES.vocabulary
    text = shakespeare("held-out")[:20_000] + " naïve ☃"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert max(ids) < SIZES.vocabulary


# --- what the model knows -----------------------------------------------------------------------


def test_it_predicts_plays_that_it_never_saw_better_than_counting_at_any_order():
    best = min(RECORD["n_grams"].values())
    assert RECORD["held_out"] < best - 0.1
    assert RECORD["validation"] < RECORD["held_out"]  # it has read the rest of those plays
    # the beginning of the Comedy, where both have the same bytes to predict
    ours = load_pretrained("shakespeare")
    text = plays("held-out")["the-comedy-of-errors"][:6_000]
    bits = train_shakespeare.measured(ours.model, ours.tokenizer, text)
    assert bits < NGramModel.train(shakespeare("train"), 4).bits_per_byte(text) - 0.05


def test_counting_is_on_record_as_it_is():
    for order in (0, 2):
        model = NGramModel.train(shakespeare("train"), order)
        bits = model.bits_per_byte(shakespeare("held-out"))
        assert RECORD["n_grams"][str(order)] == pytest.approx(bits, rel=0, abs=1e-5)


def test_a_batch_needs_more_memory_than_one_row_and_less_than_the_whole_process():
    assert 0 < RECORD["memory_of_a_batch_bytes"] < RECORD["peak_memory_bytes"]


def test_rounding_the_weights_costs_less_than_a_thousandth_of_a_bit():
    assert abs(RECORD["held_out"] - RECORD["held_out_fp32"]) < 1e-3


def test_all_bytes_are_predicted_and_the_newline_before_them_is_not():
    ours = load_pretrained("shakespeare")
    text = "To be, or not to be: that is the question:\n"
    ids = ours.tokenizer.encode(text)
    found = train_shakespeare.measured(ours.model, ours.tokenizer, text)
    assert found == bits_per_byte(ours.model, [10, *ids], len(text))
    assert ours.tokenizer.decode([10]) == "\n"
    with torch.no_grad():
        log_p = ours.model(torch.tensor([[10, *ids[:-1]]]))[0].log_softmax(-1)
    bits = -sum(log_p[t, i].item() for t, i in enumerate(ids)) / math.log(2)
    # sums of about 20 numbers in float32, in another order
    assert found == pytest.approx(bits / len(text), rel=1e-5)
