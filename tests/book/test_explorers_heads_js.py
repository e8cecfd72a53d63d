"""Masks, heads and attention maps: JavaScript has Python's numbers; Node runs the modules."""

import itertools
import json
import random
from collections.abc import Iterator

import numpy as np
import plotly.colors
import pytest

from attnlib.explore import explore, words
from attnlib.explore.attention_maps import attention_maps_facts, describe_attention_maps
from attnlib.explore.bundle import FOLDER
from attnlib.explore.heads import describe_heads, heads_facts
from attnlib.explore.limits import LIMITS
from attnlib.explore.mask import describe_mask, mask_facts
from attnlib.explore.packed_maps import pack_maps, unpack_roots

NAMES = ("mask", "heads", "attention-maps")


def mask_states() -> Iterator[dict]:
    """Every combination for three sizes, and as many again out of the whole range."""
    for t, s in [(3, 5), (5, 3), (4, 4)]:
        parts = itertools.product(range(s + 2), range(s + 1), range(s + 1), [True, False])
        for window, prefix, padding, causal in parts:
            yield {
                "n_targets": t,
                "n_sources": s,
                "window": window,
                "n_prefix": prefix,
                "n_padding": padding,
                "causal": causal,
                "target": (window + prefix) % t,
                "source": (padding + prefix) % s,
            }
    dice = random.Random(0)
    for _ in range(1000):
        t, s = dice.randint(1, 16), dice.randint(1, 16)
        yield {
            "n_targets": t,
            "n_sources": s,
            "window": dice.randint(0, 16),
            "n_prefix": dice.randint(0, s),
            "n_padding": dice.randint(0, s),
            "causal": dice.random() < 0.5,
            "target": dice.randrange(t),
            "source": dice.randrange(s),
        }


def heads_states() -> Iterator[dict]:
    """Every choice of heads, widths and tokens, for some widths of the stream."""

    def powers(name: str) -> list[int]:
        low, high = LIMITS[name]
        return [2**i for i in range(18) if low <= 2**i <= high]

    choices = itertools.product(powers("n_heads"), powers("head_dim"), powers("n_read_tokens"))
    for h, d, n in choices:
        for m in (64, 512, 8192):
            yield {"width": m, "n_heads": h, "head_dim": d, "n_tokens": n}


def random_maps(layers: int, heads: int, n: int, seed: int = 0) -> np.ndarray:
    scores = 2.5 * np.random.default_rng(seed).normal(size=(layers, heads, n, n))
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def maps_states() -> Iterator[dict]:
    hand_made = json.loads(json.dumps(explore("attention-maps").state))
    cases = [(hand_made["tokens"], hand_made["weights"])]
    for layers, heads, n in [(2, 3, 5), (1, 2, 2), (3, 1, 24), (1, 1, 64)]:
        tokens = [f"w{i}" for i in range(n)]
        cases.append((tokens, pack_maps("weights", random_maps(layers, heads, n))))
    sharp = np.eye(9)[np.random.default_rng(1).integers(0, 9, size=(2, 2, 9))]
    odd = ["“", "שלום", "a\n", "##ing", "👩\u200d👧", "<s>", "\u202e", "\u0301", "&amp;"]
    cases.append((odd, pack_maps("w", sharp)))
    for tokens, packed in cases:
        n = len(tokens)
        for layer, head in itertools.product(range(packed["layers"]), range(packed["heads"])):
            for target, source in [(0, n - 1), (n // 2, 0), (n - 1, n // 2)]:
                place = {"layer": layer, "head": head, "target": target, "source": source}
                yield {"tokens": tokens, "weights": packed, **place}


def test_the_facts_of_masks_are_pythons(javascript):
    states = list(mask_states())
    assert {mask_facts(state)["verdict"] for state in states} == {
        *("may", "prefix", "padding", "future", "window"),
    }
    found = javascript(FOLDER / "mask.mjs", [("facts", [state]) for state in states])
    for state, facts in zip(states, found, strict=True):
        assert facts == mask_facts(state), state


def test_the_facts_of_heads_are_pythons_to_the_last_digit(javascript):
    states = list(heads_states())
    assert len(states) == 3 * 8 * 10 * 14
    found = javascript(FOLDER / "heads.mjs", [("facts", [state]) for state in states])
    for state, facts in zip(states, found, strict=True):
        assert facts == heads_facts(state), state


def test_the_facts_of_attention_maps_are_pythons(javascript):
    states = list(maps_states())
    found = javascript(FOLDER / "attention-maps.mjs", [("facts", [state]) for state in states])
    for state, facts in zip(states, found, strict=True):
        wanted = attention_maps_facts(state)
        # Logarithms may differ in their last digit: 64 terms of at most 1/e each.
        for name in ("entropy", "largestEntropy"):
            assert facts.pop(name) == pytest.approx(wanted.pop(name), rel=0, abs=1e-13)
        # The same whole numbers, added in the same order.
        assert facts == wanted


DESCRIPTIONS = {
    "mask": (describe_mask, mask_states),
    "heads": (describe_heads, lambda: itertools.islice(heads_states(), 0, None, 7)),
    "attention-maps": (describe_attention_maps, maps_states),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_picture_in_words_is_pythons(name, javascript):
    in_python, states = DESCRIPTIONS[name]
    found = javascript(FOLDER / f"{name}.mjs", [("describe", [state]) for state in states()])
    for state, text in zip(states(), found, strict=True):
        assert text == in_python(state)


def test_thousandths_counts_and_quotes_are_said_as_in_python(javascript):
    numbers = [i / 16 for i in range(33)] + [i / 1000 + 0.0005 for i in range(50)]
    found = javascript(FOLDER / "controls.mjs", [("showThousandths", [x]) for x in numbers])
    assert found == [words.show_thousandths(x) for x in numbers]
    assert found[1] == "0.063"
    found = javascript(FOLDER / "controls.mjs", [("showCount", [n, "head"]) for n in range(3)])
    assert found == [words.show_count(n, "head") for n in range(3)]
    assert found == ["0 heads", "1 head", "2 heads"]
    texts = [chr(code) for code in range(0x80, 0x20000) if not 0xD800 <= code < 0xE000]
    found = javascript(FOLDER / "controls.mjs", [("quote", [text]) for text in texts])
    assert found == [words.quote(text) for text in texts]


def test_packed_maps_are_unpacked_as_in_python_and_malformed_ones_are_none(javascript):
    good = pack_maps("weights", random_maps(2, 3, 5))  # 150 numbers
    odd = pack_maps("weights", np.full((1, 1, 3, 3), 1 / 3))  # 9, so half a byte is filled up
    bad = [
        None,
        5,
        {},
        {**good, "layers": 1},
        {**good, "heads": "3"},
        {**good, "tokens": 1},
        {**good, "layers": 0},
        {**good, "roots": 5},
        {**good, "roots": "*"},
        {**good, "roots": good["roots"] + "AAAA"},
    ]
    calls = [("unpackedMaps", [packed]) for packed in [good, odd, *bad]]
    found = javascript(FOLDER / "packed-maps.mjs", calls)
    for packed, maps in zip([good, odd], found, strict=False):
        assert list(maps["roots"].values()) == unpack_roots(packed).reshape(-1).tolist()
        assert maps.items() >= {k: packed[k] for k in ("layers", "heads", "tokens")}.items()
    assert found[2:] == [None] * len(bad)


def test_the_colours_are_near_the_books_scale_and_grow_in_lightness(javascript):
    roots = [i / 100 for i in range(101)]
    found = javascript(FOLDER / "head-map.mjs", [("colourOf", [root]) for root in roots])
    scale = plotly.colors.sample_colorscale("Cividis", roots, colortype="tuple")
    # A tenth of a channel: nobody who compares two figures takes one colour for another.
    assert np.abs(np.array(found) - 255 * np.array(scale)).max() <= 25.5
    linear = ((np.array(found) / 255 + 0.055) / 1.055) ** 2.4
    assert (np.diff(linear @ [0.2126, 0.7152, 0.0722]) > 0).all()


LINKS = {
    "mask": (
        "t=4;s=16;W=2;prefix=3;padding=1;causal=no;row=3;column=15",
        {
            "n_targets": 4,
            "n_sources": 16,
            "window": 2,
            "n_prefix": 3,
            "n_padding": 1,
            "causal": False,
            "target": 3,
            "source": 15,
        },
        ["t=0", "s=17", "W=-1", "W=1.5", "prefix=17", "causal=1", "row=16", "column=x"],
    ),
    "heads": (
        "m=64;h=128;d=1;n=131072",
        {"width": 64, "n_heads": 128, "head_dim": 1, "n_tokens": 131_072},
        ["m=65", "m=32", "h=256", "d=0", "n=8", "n=1e9", "split=1"],
    ),
    "attention-maps": (
        "layer=1;head=2;t=6;s=5",
        {"layer": 1, "head": 2, "target": 6, "source": 5},
        ["layer=48", "head=-1", "t=64", "s=0.5", "tokens=a", "weights=1", "labels=x"],
    ),
}
MALFORMED = ["", "t", "t=", "d=NaN", "initial=1", "__proto__=1", "=;;="]


@pytest.mark.parametrize("name", LINKS)
def test_a_link_brings_the_state_back_and_what_cannot_be_chosen_is_left_out(name, linked):
    text, changed, wrong = LINKS[name]
    initial = explore(name).state
    calls = [
        ("write", [{**initial, **changed}, initial]),
        ("read", [text, initial]),
        *(("read", [bad, initial]) for bad in [*wrong, *MALFORMED]),
    ]
    written, read, *refused = linked(name, calls)
    assert written == text
    assert read == changed
    assert refused == [{}] * len(refused)
    assert explore(name, **read).state.items() >= read.items()  # Python takes what a link can say


@pytest.mark.parametrize("name", LINKS)
def test_a_saved_value_that_cannot_be_chosen_falls_back_to_the_first_state(name, linked):
    state = json.loads(json.dumps(explore(name).state))
    odd = [None, "8", [8], -180, 0.5, {}, 10**9]
    calls = [
        ("restore", [{**state, key: value, "initial": state}])
        for key, value in itertools.product(state, odd)
    ]
    assert linked(name, calls) == [state] * len(calls)


def test_a_link_beyond_what_there_is_leads_to_the_last_of_it(javascript):
    asked = {"n_prefix": 16, "n_padding": 9, "target": 15, "source": 15}
    last = {"n_prefix": 8, "n_padding": 8, "target": 7, "source": 7}
    first = explore("mask").state
    found = javascript(FOLDER / "mask.mjs", [("describe", [{**first, **asked}])])
    assert found == [describe_mask({**first, **last})]
    first = explore("attention-maps").state
    asked = {"layer": 47, "head": 63, "target": 63, "source": 63}
    last = {"layer": 1, "head": 2, "target": 6, "source": 6}
    found = javascript(FOLDER / "attention-maps.mjs", [("describe", [{**first, **asked}])])
    assert found == [describe_attention_maps({**first, **last})]
