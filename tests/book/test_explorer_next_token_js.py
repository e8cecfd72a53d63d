"""The explorer of the next token: JavaScript has Python's numbers and words; Node runs it."""

import itertools
import json
import math
from collections.abc import Iterator

import numpy as np
import pytest

from attnlib.explore import explore
from attnlib.explore.bundle import FOLDER
from attnlib.explore.next_token import describe_next_token, next_token_facts
from attnlib.explore.packed_logits import pack_logits, unpack_logits

MODULE = FOLDER / "next-token.mjs"
WHOLE = ("top", "kept", "rank")


def made_up(v: int, n: int, seed: int, spread: float) -> dict:
    """Random logits; those of the second row are coarse, so that many are equal."""
    random = np.random.default_rng(seed)
    logits = spread * random.normal(size=(n, v))
    logits[n // 2] = np.rint(logits[n // 2] / spread) * spread
    logits[-1, :: max(v // 3, 2)] = -math.inf
    options = {
        "logits": logits,
        "words": [f" w{id}\n" if id % 2 else f"é{id}" for id in range(v)],
        "text": random.integers(v, size=n).tolist(),
        "before": "ROMEO.\n",
    }
    state = explore("next-token", **options, position=1).state
    return json.loads(json.dumps(state))


FIRST = made_up(300, 5, seed=0, spread=2.0)
TEXTS = [FIRST, made_up(2, 3, seed=1, spread=1.0), made_up(1100, 3, seed=2, spread=4.0)]
CHOICES = [
    {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    for temperature, top_k, top_p, min_p in itertools.product(
        (0.1, 0.8, 1.0, 5.0), (0, 1, 40, 65_536), (0.01, 0.5, 0.95, 1.0), (0.0, 0.1, 1.0)
    )
]


def states() -> Iterator[dict]:
    for text in TEXTS:
        n = len(text["text"])
        # Both have no factor in common with how many values each choice has.
        step = 5 if len(text["words"]) < 1000 else 11
        for i, choice in enumerate(CHOICES[::step]):
            yield {**text, **choice, "position": i % n}


def test_the_facts_are_pythons(javascript):
    found = javascript(MODULE, [("facts", [state]) for state in states()])
    for state, facts in zip(states(), found, strict=True):
        wanted = next_token_facts(state)
        assert set(facts) == set(wanted)
        assert {name: facts[name] for name in WHOLE} == {name: wanted[name] for name in WHOLE}
        # A sum of v numbers that are 1 together, each rounded v times at most.
        off = 2**-53 * len(state["words"])
        for name in set(wanted) - set(WHOLE):
            # A logarithm of an entropy is at most ln v, and may be off in its last digit.
            scale = wanted["largestEntropy"] + 1 if "ntropy" in name else 1
            assert facts[name] == pytest.approx(wanted[name], rel=0, abs=off * scale + 1e-15), name


def test_the_picture_in_words_is_pythons(javascript):
    found = javascript(MODULE, [("describe", [state]) for state in states()])
    assert found == [describe_next_token(state) for state in states()]
    assert any("top-k off" in text and "Of 1,100 tokens" in text for text in found)
    assert any("“␣w1⏎”" in text and "→ dropped" in text for text in found)


def test_a_row_is_the_numbers_that_python_unpacks_and_malformed_ones_are_none(javascript):
    logits = [[0.0, -math.inf, -1e-7, -3e-8, -6.1e-5], [-70_000.0, 1.5, 1.0, 0.1, -2000.3]]
    good = pack_logits("logits", logits)
    bad = [
        {**good, "rows": 3},
        {**good, "rows": 0},
        {**good, "rows": 25},
        {**good, "columns": 4},
        {**good, "columns": 1},
        {**good, "float16": good["float16"][:-4]},
        {**good, "float16": "?" + good["float16"][1:]},
        {**good, "float16": 5},
        {"rows": 1, "columns": 2, "float16": "AH4AAA=="},  # NaN and 0
        {"rows": 1, "columns": 2, "float16": "ADwAAA=="},  # 1 and 0
        {"rows": 1, "columns": 2, "float16": "AIAAvA=="},  # −0, which is 0, and −1
        {},
        None,
    ]
    calls = [("unpackedLogits", [packed]) for packed in [good, *bad]]
    rows, *refused = javascript(FOLDER / "packed-logits.mjs", calls)
    found = [[float(x) for x in row.values()] for row in rows]
    assert found == unpack_logits(good).tolist()
    assert refused.pop(-3) is not None
    assert refused == [None] * (len(bad) - 1)


def test_the_steps_of_top_k_grow_evenly_and_the_last_one_drops_nothing(javascript, tmp_path):
    module = tmp_path / "steps.mjs"
    module.write_text(
        f'import {{ topKSteps }} from "{MODULE.as_uri()}";\n'
        "export function steps(v, asked) {\n"
        "  const s = topKSteps(v);\n"
        "  const values = Array.from({ length: s.last + 1 }, (_, i) => s.valueAt(i));\n"
        "  return [values, values.map(s.stepOf), asked.map((k) => values[s.stepOf(k)])];\n"
        "}\n"
    )
    few, some, most = javascript(
        module,
        [("steps", [2, [1, 5]]), ("steps", [41, [7, 40, 41, 99]]), ("steps", [65_536, [39]])],
    )
    assert few == [[1, 0], [0, 1], [1, 0]]
    assert some[0] == [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 0]
    assert some[2] == [6, 40, 0, 0]
    assert most[0][-3:] == [50_000, 60_000, 0]
    for values, back, _ in (few, some, most):
        assert back == list(range(len(values)))


def test_a_link_brings_the_state_back_and_what_cannot_be_chosen_is_left_out(linked):
    changed = {"position": 3, "temperature": 1.3, "top_k": 0, "top_p": 0.5, "min_p": 0.25}
    text = "at=3;T=1.3;k=0;p=0.5;min=0.25"
    wrong = ["at=24", "at=-1", "at=1.5", "T=0.05", "T=6", "k=65537", "k=1.5", "p=0", "p=1.5"]
    wrong += ["min=-0.1", "min=2", "min=x", "words=a", "text=1", "logits={}", "before=a"]
    malformed = ["", "T", "T=", "T=NaN", "initial=1", "__proto__=1", "=;;="]
    calls = [
        ("write", [{**FIRST, **changed}, FIRST]),
        ("read", [text, FIRST]),
        *(("read", [bad, FIRST]) for bad in [*wrong, *malformed]),
    ]
    written, read, *refused = linked("next-token", calls)
    assert written == text
    assert read == changed
    assert refused == [{}] * len(refused)
    assert explore("next-token", **{**FIRST, **read}).state.items() >= read.items()


def test_a_saved_value_that_cannot_be_chosen_falls_back_to_the_first_state(linked):
    odd = [None, "8", [], -180, 70_000.5, {}, 10**9, [-1], [None]]
    saved = [{**FIRST, key: value} for key, value in itertools.product(FIRST, odd)]
    # A text is one as soon as it is a string, and a list of none is a list of texts.
    saved = [state for state in saved if state["before"] != "8" and state["words"] != []]
    calls = [("restore", [{**state, "initial": FIRST}]) for state in saved]
    assert linked("next-token", calls) == [FIRST] * len(calls)


def test_a_link_beyond_the_text_leads_to_its_last_token(javascript):
    (found,) = javascript(MODULE, [("describe", [{**FIRST, "position": 23}])])
    assert found == describe_next_token({**FIRST, "position": 4})
