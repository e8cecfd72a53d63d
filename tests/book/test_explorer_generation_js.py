"""The explorer of generation's times says in JavaScript what it says in Python; Node runs it."""

import itertools
import json
from dataclasses import replace

import pytest

from attnlib.data import generation_timings
from attnlib.explore import explore, limits
from attnlib.explore.bundle import FOLDER
from attnlib.explore.generation_runs import ANEW, CACHED, LENGTHS, curve
from attnlib.explore.generation_times import N_REPEATS_HERE
from attnlib.timing import Measurement, Timing, load_timings

MODULE = FOLDER / "generation-times.mjs"


def other(
    *factors: float,
    device: str = "cpu",
    models: list[tuple[int, int]] | None = None,
    lengths: tuple[int, ...] = LENGTHS,
) -> Measurement:
    """The stored times of a CPU, as many runs as factors, each so many times as slow."""
    stored = load_timings(generation_timings()["cpu"])
    wanted = {curve(*model, way) for model in models or () for way in (CACHED, ANEW)}
    timings = {
        name: tuple(
            Timing(tuple(f * timing.median_seconds for f in factors))
            for n, timing in zip(stored.sizes, timings, strict=True)
            if n in lengths
        )
        for name, timings in stored.timings.items()
        if models is None or name in wanted
    }
    is_gpu = device == "cuda"
    return replace(
        stored,
        sizes=lengths,
        timings=timings,
        machine=replace(
            stored.machine,
            device=device,
            name="a made-up GPU" if is_gpu else "a made-up processor",
            cuda="12.6" if is_gpu else None,
        ),
        settings={**stored.settings, "n_repeats": len(factors)},
    )


def plain(state: dict) -> dict:
    return json.loads(json.dumps(state))


@pytest.fixture(scope="module")
def said() -> list[tuple[dict, dict, str]]:
    """State, facts and words, of the book's own timings and of others, some also measured here."""
    here = [
        other(3.7, 3.1, models=[(1, 2)], lengths=(1, 32, 48)),
        other(0.4, 0.7, 0.5, models=[(4, 8)]),
        other(0.8, models=[(4, 8)], lengths=(1, 32)),
    ]
    two = [other(0.7, 1.1, 1.3), other(0.013, 0.011, 0.017, 0.02, device="cuda")]
    explorers = [
        explore("generation-times"),
        explore("generation-times", timings=two, measured=here, device="cuda"),
        explore("generation-times", timings=two, measured=here, device="cpu"),
    ]
    models = list(itertools.product(limits.GENERATION_LAYERS, limits.GENERATION_HEADS))
    found = []
    for i, (model, n_new) in enumerate(itertools.product(models, limits.GENERATION_LENGTHS)):
        explorer = explorers[i % 3 if model != (4, 8) else 2]
        explorer.n_layers, explorer.n_heads = model
        explorer.n_new = n_new
        found.append((plain(explorer.state), plain(explorer.facts()), explorer.describe()))
    return found


def test_facts_are_pythons(javascript, said):
    found = javascript(MODULE, [("facts", [state]) for state, _, _ in said])
    for facts, (_, wanted, _) in zip(found, said, strict=True):
        assert isinstance(wanted["anewFlops"], int)
        # whole numbers and divisions of two numbers: the same in every digit
        assert facts == wanted


def test_the_picture_in_words_is_pythons(javascript, said):
    found = javascript(MODULE, [("describe", [state]) for state, _, _ in said])
    assert found == [words for _, _, words in said]
    assert sum("Measured here" in words for words in found) >= 9


def test_a_link_to_a_device_of_which_nothing_is_stored_shows_the_first(javascript):
    explorer = explore("generation-times", timings=other(1.0))
    state = plain(explorer.state) | {"device": "cuda"}
    assert javascript(MODULE, [("describe", [state])]) == [explorer.describe()]


def test_as_many_runs_are_announced_as_are_made(javascript, tmp_path):
    module = tmp_path / "runs.mjs"
    module.write_text(
        f'import {{ N_REPEATS_HERE }} from "{MODULE.as_uri()}";\n'
        "export const runs = () => N_REPEATS_HERE;\n"
    )
    assert javascript(module, [("runs", [])]) == [N_REPEATS_HERE]


def test_a_link_brings_a_state_back_and_a_broken_one_nothing(linked):
    explorer = explore("generation-times", timings=other(1.0))
    initial = plain(explorer.initial)
    chosen = {"n_layers": 4, "n_heads": 8, "n_new": 48}
    state = plain(explorer.state) | chosen
    [text] = linked("generation-times", [("write", [state, initial])])
    assert text == "L=4;h=8;N=48"
    assert linked("generation-times", [("read", [text, initial])]) == [chosen]
    broken = "L=3;h=1;N=100;device=tpu;timings=;measured=1"
    assert linked("generation-times", [("read", [broken, initial])]) == [{}]
