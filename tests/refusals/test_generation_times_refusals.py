"""What cannot be timed: refused before anything runs."""

import re

import pytest

from attnlib.explore import generation_runs
from attnlib.explore.generation_runs import measure_generation, timed_model

RIGHT = {"n_layers": 1, "n_heads": 2, "lengths": (1, 3), "n_repeats": 1, "device": "cpu"}


@pytest.mark.parametrize(
    "wrong,message",
    [
        ({"n_layers": 1.5}, "n_layers must be a whole number, got 1.5"),
        ({"n_heads": True}, "n_heads (h) must be a whole number, got True"),
        ({"lengths": (1, "3")}, "each of lengths must be a whole number, got '3'"),
        ({"n_repeats": None}, "n_repeats must be a whole number, got None"),
        ({"device": 0}, "device must be a text or a device of torch, got 0"),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused_before_anything_runs(monkeypatch, wrong, message):
    monkeypatch.setattr(generation_runs, "run_once", None)
    with pytest.raises(TypeError, match=re.escape(message)):
        measure_generation(**RIGHT | wrong)


def test_a_model_on_no_known_device_is_refused():
    with pytest.raises(ValueError, match="device must be 'cpu' or 'cuda', got 'tpu'"):
        timed_model(1, 2, "tpu")
