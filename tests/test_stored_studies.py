"""What is stored of latent attention and its relatives: a study of quality, and times of a step."""

import json
from pathlib import Path

import pytest
import torch

import train_quality_study as study
from attnlib import kv_cache_bytes
from attnlib.data import attention_step_timings, quality_study
from attnlib.models import LanguageModel
from attnlib.timing import load_timings

DATA = Path(study.TARGET).parents[1]
RECORD = quality_study()
RUNS = RECORD["runs"]
STEPS = {key: load_timings(path) for key, path in attention_step_timings().items()}


# --- quality ----------------------------------------------------------------------------------


def test_every_kind_of_attention_was_trained_with_every_seed():
    trained = [(run["attention"], run["seed"]) for run in RUNS]
    assert sorted(trained) == sorted(
        (name, seed) for name in study.ATTENTION for seed in study.SEEDS
    )


def test_the_record_is_of_the_script_as_it_is():
    plan = study.PLAN | {"betas": list(study.PLAN["betas"])}
    assert RECORD["plan"] == plan
    assert RECORD["batch_size"] == study.BATCH and RECORD["dropout"] == study.DROPOUT
    assert RECORD["n_tokens_seen"] == plan["n_steps"] * study.BATCH * study.BASE.context
    assert RECORD["cpu_seconds"] == pytest.approx(sum(run["cpu_seconds"] for run in RUNS), abs=1)
    assert RECORD["cpu_seconds"] < 2 * 60 * 60  # an hour on two cores


@pytest.mark.parametrize("name", study.ATTENTION)
def test_the_totals_are_equal_to_within_half_an_inner_row_of_each_layer(name):
    sizes = study.sizes_with(study.ATTENTION[name])
    a_row_of_each = 3 * sizes.width * sizes.n_layers
    assert abs(sizes.n_parameters - study.BASE.n_parameters) <= a_row_of_each / 2
    for run in RUNS:
        if run["attention"] == name:
            assert run["n_parameters"] == sizes.n_parameters
            assert run["feed_forward_width"] == sizes.feed_forward_width


@pytest.mark.parametrize("name", study.ATTENTION)
def test_the_cache_holds_what_is_counted_and_on_record(name):
    sizes = study.sizes_with(study.ATTENTION[name])
    counted = kv_cache_bytes(sizes, 1, bytes_per_element=4)
    assert study.cache_bytes_a_token(LanguageModel(sizes, pairing="half").eval()) == counted
    assert {run["cache_bytes_a_token"] for run in RUNS if run["attention"] == name} == {counted}


def test_the_two_latents_keep_what_two_heads_and_one_keep():
    kept = {run["attention"]: run["cache_bytes_a_token"] for run in RUNS}
    assert kept["MLA, rank 48"] == kept["GQA, 2 heads"] == 2 * kept["MQA"]
    assert kept["MLA, rank 24"] == kept["MQA"]


def test_every_model_learned():
    for run in RUNS:
        unlearned = run["first_losses"][0]
        assert unlearned == pytest.approx(torch.tensor(study.BASE.vocabulary).log().item(), abs=0.1)
        steps = [point["step"] for point in run["curve"]]
        bits = [point["validation"] for point in run["curve"]]
        assert steps == list(study.EVALUATED) and bits == sorted(bits, reverse=True)
        assert run["last_loss"] < 0.7 * unlearned and 1.5 < run["held_out"] < 4


def test_the_first_losses_of_one_seed_begin_alike_and_not_the_same():
    """All begin near the logarithm of the vocabulary; what is attended to is not the same."""
    first = {json.dumps(run["first_losses"]) for run in RUNS}
    assert len(first) == len(RUNS)


# --- times ------------------------------------------------------------------------------------


def test_there_are_times_of_one_thread_and_two_and_of_two_latents():
    assert set(STEPS) == {(threads, width) for threads in (1, 2) for width in (256, 512)}
    for (threads, width), stored in STEPS.items():
        assert stored.machine.n_threads == threads and stored.settings["c"] == width
        assert stored.machine.device == "cpu" and stored.sizes == (512, 1024, 2048, 4096, 8192)
        drawn = {"MHA", "GQA", "MQA", "MLA expanded", "MLA re-expanded", "MLA absorbed"}
        assert drawn | {"MLA absorbed, laid out"} < set(stored.timings)
        assert stored.settings["bytes_a_second"] > 1e9 < stored.settings["flops_a_second"]


@pytest.mark.parametrize("key", STEPS)
def test_the_stored_runs_say_that_expanding_anew_costs_with_every_token(key):
    again, absorbed = (STEPS[key].medians_seconds(f"MLA {x}") for x in ("re-expanded", "absorbed"))
    ratios = [a / b for a, b in zip(again, absorbed, strict=True)]
    assert ratios[-1] > 3 and ratios[-1] > ratios[0]


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ("## Timings of one step of attention", "benchmarks/attention_steps.py"),
        ("## The study of quality against cache", "book/train_quality_study.py"),
    ],
)
def test_the_provenance_says_where_they_come_from(section, named):
    text = (DATA / "PROVENANCE.md").read_text("utf-8").partition(section)[2].partition("\n## ")[0]
    assert named in text and "MIT" in text
