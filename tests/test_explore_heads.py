"""The explorers of masks, heads and attention maps, in Python: facts against other countings."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import entropy
from torch.utils.flop_counter import FlopCounterMode

from attnlib.attention import dot_product_attention
from attnlib.explore import explore
from attnlib.explore.limits import LIMITS
from attnlib.explore.mask import may_attend
from attnlib.explore.packed_maps import (
    MOST_OFF,
    SUM_TOLERANCE,
    pack_maps,
    unpack_maps,
    unpack_roots,
)
from attnlib.masks import causal_mask, padding_mask, prefix_mask, window_mask

# ---- masks --------------------------------------------------------------------------------


def is_allowed(t: int, s: int, state: dict) -> bool:
    """The rule read aloud, for one pair."""
    position = t + state["n_sources"] - state["n_targets"]
    nearby = not state["window"] or abs(position - s) < state["window"]
    past = not state["causal"] or s <= position
    return ((past and nearby) or s < state["n_prefix"]) and s >= state["n_padding"]


def mask_states():
    """Every combination for small sizes, of which some have fewer sources than targets."""
    for t, s in [(1, 1), (3, 5), (5, 3), (4, 4)]:
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


def test_the_facts_of_a_mask_are_those_of_its_rule_for_every_small_one():
    seen = set()
    explorer = explore("mask", n_targets=1, n_sources=1)
    for state in mask_states():
        explorer.set_state(state)  # as a front end does
        found = explorer.facts()
        n_targets, n_sources = state["n_targets"], state["n_sources"]
        table = [[is_allowed(t, s, state) for s in range(n_sources)] for t in range(n_targets)]
        counts = [sum(row) for row in table]
        assert found["allowed"] == sum(counts)
        assert found["share"] == sum(counts) / (n_targets * n_sources)
        assert found["counts"] == counts
        assert found["emptyTargets"] == [t for t in range(n_targets) if not any(table[t])]
        # The words say "0 to …".
        assert found["emptyTargets"] == list(range(len(found["emptyTargets"])))
        assert (found["fewest"], found["most"]) == (min(counts), max(counts))
        assert found["isComplete"] == all(all(row) for row in table)
        assert found["mayRead"] == table[state["target"]][state["source"]]
        assert found["mayRead"] == (found["verdict"] in ("may", "prefix"))
        seen.add(found["verdict"])
    assert seen == {"may", "prefix", "padding", "future", "window"}


def test_one_rule_alone_is_the_mask_of_that_name():
    shape = 4, 7
    for n in range(1, 8):
        cases = [
            ({"window": n}, causal_mask(*shape, window=n)),
            ({"window": n, "causal": False}, window_mask(*shape, window=n)),
            ({"n_prefix": n}, prefix_mask(*shape, n_prefix=n)),
            (
                {"n_padding": n, "causal": False},
                padding_mask(torch.arange(7)[None] >= n)[0, 0].expand(shape),
            ),
        ]
        for options, wanted in cases:
            explorer = explore("mask", n_targets=4, n_sources=7, **options)
            assert torch.equal(may_attend(explorer.state), wanted), options
    assert torch.equal(
        may_attend(explore("mask", n_targets=4, n_sources=7).state), causal_mask(*shape)
    )
    complete = explore("mask", n_targets=4, n_sources=7, causal=False)
    assert may_attend(complete.state).all() and complete.facts()["isComplete"]


def test_a_mask_that_a_person_can_draw():
    options = {"window": 2, "n_prefix": 2, "n_padding": 1, "target": 0, "source": 1}
    explorer = explore("mask", n_targets=3, n_sources=5, **options)
    assert may_attend(explorer.state).int().tolist() == [
        [0, 1, 1, 0, 0],
        [0, 1, 1, 1, 0],
        [0, 1, 0, 1, 1],
    ]
    assert explorer.describe() == (
        "Targets: 3, sources: 5, bottom right aligned. Rules: causal; a window of 2, the target "
        "included; a prefix of 2; 1 of padding on the left. 8 of 3 · 5 = 15 pairs are allowed, a "
        "share of 0.533. A target reads 2 to 3 sources. Every target has something to "
        "read. Target 0, at position 2, may read source 1."
    )
    explorer.target = 2
    assert explorer.describe().endswith(
        "Target 2, at position 4, may read source 1: it is in the prefix."
    )
    explorer.source = 2
    assert explorer.describe().endswith("source 2: it lies outside the window.")
    explorer.set_state({"target": 0, "source": 3})
    assert explorer.describe().endswith("source 3: it lies in the future.")
    explorer.source = 0
    assert explorer.describe().endswith("may not read source 0: it is padding.")


def test_the_targets_said_to_get_zeros_get_zeros():
    options = {"n_targets": 6, "n_sources": 5, "window": 2, "n_padding": 2}
    explorer = explore("mask", **options)
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, n, 3, dtype=torch.float64) for n in (6, 5, 5))
    out = dot_product_attention(q, k, v, may_attend=may_attend(explorer.state))[0, 0]
    zeros = [t for t in range(6) if not out[t].any()]
    assert explorer.facts()["emptyTargets"] == zeros == [0, 1, 2]
    assert "Targets 0 to 2 read nothing and get zeros." in explorer.describe()
    assert "at position 3," in explorer.describe()
    explorer.target = 0
    assert "Target 0, at position −1, may not read" in explorer.describe()
    explorer.n_padding = 0
    assert "Target 0 reads nothing and gets zeros." in explorer.describe()


def test_the_words_of_a_complete_square_and_of_two_sides():
    square = explore("mask", causal=False).describe()
    assert (
        "a share of 1.000. The mask is the complete square. Each target reads 8 sources." in square
    )
    assert "Rules: not causal; no window; no prefix; no padding." in square
    sides = explore("mask", causal=False, window=3).describe()
    assert "a window of 3 on either side, the target included" in sides


def test_no_window_is_none_or_zero_and_the_first_look_is_within_the_grid():
    assert explore("mask", window=None).state == explore("mask", window=0).state
    explorer = explore("mask")
    explorer.window = None
    assert explorer.window == 0
    for t, s in itertools.product((1, 2, 16), repeat=2):
        state = explore("mask", n_targets=t, n_sources=s).state
        assert (state["target"], state["source"]) == (max(t - 2, 0), min(1, s - 1))


def test_parts_of_a_mask_change_together_in_any_order_or_not_at_all():
    small = {"n_targets": 2, "n_sources": 3, "n_prefix": 3, "n_padding": 3, "target": 1}
    small["source"] = 2
    large = {"n_targets": 16, "n_sources": 16, "n_prefix": 16, "n_padding": 16, "target": 15}
    large["source"] = 15
    names = list(small)
    turned = [names[i:] + names[:i] for i in range(len(names))]
    for order in [*turned, *(list(reversed(each)) for each in turned)]:
        explorer = explore("mask")
        for wanted in (small, large, small):
            explorer.set_state({name: wanted[name] for name in order})
            assert explorer.state.items() >= wanted.items()
    before = explorer.state
    for wrong in ({"n_prefix": 4}, {"n_padding": 4}, {"n_sources": 2}, {"n_targets": 1}):
        with pytest.raises(ValueError, match=r"must be (at most|less than)"):
            explorer.set_state({**wrong, "window": 7})
        assert explorer.state == before


# ---- heads --------------------------------------------------------------------------------


def counted_flops(m: int, h: int, d: int, n: int) -> tuple[int, int]:
    """What PyTorch counts for the four projections and for the core."""
    x = torch.zeros(n, m)
    to_heads, back = torch.zeros(m, h * d), torch.zeros(h * d, m)
    q, k, v = (torch.zeros(h, n, d) for _ in range(3))
    with FlopCounterMode(display=False) as projections:
        for _ in range(3):
            y = x @ to_heads
        y @ back
    with FlopCounterMode(display=False) as core:
        torch.bmm(torch.bmm(q, k.transpose(1, 2)), v)
    return projections.get_total_flops(), core.get_total_flops()


def test_the_costs_of_heads_are_those_that_pytorch_counts():
    for m, h, d, n in [(64, 2, 16, 32), (128, 8, 4, 16), (64, 1, 128, 64), (256, 16, 16, 128)]:
        found = explore("heads", width=m, n_heads=h, head_dim=d, n_tokens=n).facts()
        assert (found["projectionFlops"], found["coreFlops"]) == counted_flops(m, h, d, n)
        assert found["exponentials"] == torch.zeros(h, n, n).numel()
        assert found["joined"] == h * d
        assert found["isSquare"] == (h * d == m)
    layer = torch.nn.MultiheadAttention(256, 16, bias=False)
    assert found["parameters"] == sum(p.numel() for p in layer.parameters())


def test_the_scores_of_a_head_reach_the_bound_of_their_rank():
    torch.manual_seed(0)
    for m, d, n in [(64, 4, 16), (128, 16, 16), (64, 256, 32), (64, 128, 256)]:
        x = torch.randn(n, m, dtype=torch.float64)
        q, k = x @ torch.randn(2, m, d, dtype=torch.float64)
        found = explore("heads", width=m, head_dim=d, n_tokens=n).facts()
        assert torch.linalg.matrix_rank(q @ k.T) == found["rank"], (m, d, n)


def test_another_split_of_one_product_costs_the_same_and_has_another_rank():
    found = explore("heads").facts()
    splits = found["splits"]
    assert [(each["heads"], each["headDim"]) for each in splits] == [
        *((1, 512), (2, 256), (4, 128), (8, 64), (16, 32), (32, 16), (64, 8), (128, 4)),
    ]
    for each in splits:
        state = {"n_heads": each["heads"], "head_dim": each["headDim"]}
        alone = explore("heads", **state).facts()
        assert {name: alone[name] for name in each} == each
    for name in ("parameters", "projectionFlops", "coreFlops"):
        assert {each[name] for each in splits} == {found[name]}
    assert [each["exponentials"] for each in splits] == [h * 1024**2 for h in 2 ** np.arange(8)]
    assert [each["rank"] for each in splits] == [512, 256, 128, 64, 32, 16, 8, 4]


def test_the_splits_stay_within_the_sliders():
    powers = {name: [2**i for i in range(10) if 2**i <= LIMITS[name][1]] for name in ("n_heads",)}
    for h, d in itertools.product(powers["n_heads"], [1, 2, 64, 512]):
        splits = explore("heads", n_heads=h, head_dim=d).facts()["splits"]
        wanted = [
            (a, h * d // a) for a in powers["n_heads"] if 1 <= h * d // a <= 512 and a <= h * d
        ]
        assert [(each["heads"], each["headDim"]) for each in splits] == wanted
    words = explore("heads", n_heads=128, head_dim=512).describe()
    assert words.endswith("No other number of heads here has the same h·d.")


def test_the_largest_counts_are_exact_in_javascript_too():
    largest = {"width": 8192, "n_heads": 128, "head_dim": 512, "n_tokens": 131_072}
    found = explore("heads", **largest).facts()
    assert found["coreFlops"] == 2**52
    assert found["projectionFlops"] + found["coreFlops"] < 2**53


def test_the_words_of_heads_say_whether_the_matrices_are_square_and_which_part_of_n():
    assert explore("heads").describe() == (
        "Width m = 512, h = 8 heads of width d = 64: h·d = 512, as wide as m: the matrices are "
        "square. Parameters 4mhd: 1,048,576. With n = 1,024 tokens and no mask, FLOPs of the "
        "projections 8nmhd: 2,147,483,648; of the scores and the weighted sums 4n²hd: "
        "2,147,483,648. Exponentials hn²: 8,388,608, as many numbers as the scores if they are "
        "stored. The scores of a head have rank at most min(n, m, d) = 64, 1/16 of n. At the same "
        "h·d, from 1 to 128 heads: the same parameters and FLOPs, exponentials from 1,048,576 to "
        "134,217,728, rank at most from 512 to 4."
    )
    one = explore("heads", n_heads=1, head_dim=128, n_tokens=64).describe()
    assert "h = 1 head of width d = 128: h·d = 128, which is not m." in one
    assert "min(n, m, d) = 64, all of n." in one


# ---- attention maps -----------------------------------------------------------------------


def random_maps(layers: int, heads: int, n: int, spread: float = 3.0, seed: int = 0) -> np.ndarray:
    scores = spread * np.random.default_rng(seed).normal(size=(layers, heads, n, n))
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(("n", "spread"), [(2, 1.0), (5, 0.0), (24, 3.0), (64, 30.0)])
def test_a_packed_weight_is_off_by_less_than_is_said(n, spread):
    weights = random_maps(2, 3, n, spread)
    packed = pack_maps("weights", weights)
    kept = unpack_maps(packed)
    assert kept.shape == weights.shape
    # A root is off by half a step at most; the weight is off by its square.
    off = np.sqrt(weights) / 4095 + 1 / 8190**2
    assert (abs(kept - weights) <= off + 1e-15).all()
    assert off.max() < MOST_OFF
    assert pack_maps("weights", packed) == packed
    again = pack_maps("weights", torch.from_numpy(weights).float())
    assert abs(unpack_roots(again) - unpack_roots(packed).astype(int)).max() <= 1


def test_zero_and_one_are_kept_exactly_at_every_place():
    for place in range(9):  # 3 · 3 numbers are odd in count: half a byte is filled up
        rows = np.zeros((1, 1, 3, 3))
        rows[0, 0, :, place % 3] = 1
        assert np.array_equal(unpack_maps(pack_maps("weights", rows)), rows)


def test_the_maps_of_a_small_encoder_are_light():
    words = ["token"] * 24
    maps = explore("attention-maps", tokens=words, weights=random_maps(6, 12, 24))
    assert len(maps._html()) < 100_000


def test_the_facts_of_a_head_are_those_of_numpy():
    weights = random_maps(2, 3, 11, spread=2.0)
    tokens = [f"w{i}" for i in range(11)]
    t, s = np.mgrid[:11, :11]
    for layer, head, target in itertools.product(range(2), range(3), (0, 4, 10)):
        place = {"layer": layer, "head": head, "target": target, "source": 7}
        explorer = explore("attention-maps", tokens=tokens, weights=weights, **place)
        found = explorer.facts()
        w = weights[layer, head]
        kept = unpack_maps(explorer.weights)[layer, head]
        order = np.argsort(-kept[target], kind="stable")[:5]
        assert found["top"] == order.tolist()
        assert found["topWeights"] == pytest.approx(w[target][order], abs=MOST_OFF)
        assert found["tops"] == np.argsort(-kept, axis=1, kind="stable")[:, :3].tolist()
        assert found["weight"] == pytest.approx(w[target, 7], abs=MOST_OFF)
        # A mean of single weights is off as a weight is. For sums over a row: each term is off by
        # at most MOST_OFF times its factor, at most 10 for a distance; for an entropy the factor
        # is √w |1 + ln w| ≤ 1, summed over 11 sources.
        wanted = {
            "onFirst": w[:, 0].mean(),
            "onLast": w[:, -1].mean(),
            "onItself": w.diagonal().mean(),
            "onPrevious": w.diagonal(-1).mean(),
            "onNext": w.diagonal(1).mean(),
        }
        for name, value in wanted.items():
            assert found[name] == pytest.approx(value, abs=MOST_OFF), name
        distance = (w * abs(t - s)).sum(axis=1).mean()
        assert found["distance"] == pytest.approx(distance, abs=55 * MOST_OFF)
        assert found["entropy"] == pytest.approx(entropy(w, axis=1).mean(), abs=11 * MOST_OFF)
        assert found["largestEntropy"] == np.log(11)


def test_equal_weights_are_named_in_the_order_of_their_sources():
    equal = np.full((1, 1, 6, 6), 1 / 6)
    found = explore("attention-maps", tokens=list("abcdef"), weights=equal).facts()
    assert found["top"] == [0, 1, 2, 3, 4]
    assert found["tops"] == [[0, 1, 2]] * 6


def test_the_words_of_a_map_that_a_person_can_draw():
    weights = [[[[0.25, 0.75, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]]
    explorer = explore("attention-maps", tokens=["a", "b", "a"], weights=weights, source=2)
    assert explorer.describe() == (
        "Layer 0, head 0, of 1 layer with 1 head each, counted from 0; 3 tokens. Target 0 “a” "
        "reads most from sources 1 “b” 0.750, 0 “a” 0.250, 2 “a” 0.000. Its weight on source 2 "
        "“a” is 0.000. Means over the targets: entropy 0.187 of at most 1.099 nats; distance "
        "|t − s| 1.250; weight on the first token “a” 0.417, on the last “a” 0.333, on the target "
        "itself 0.083, on the token before it, where there is one, 0.000, on the one after it "
        "0.875."
    )


def test_a_token_is_named_where_it_is_invisible_and_cannot_turn_the_words_around_it():
    tokens = ["שלום", "\u202e", "<b>"]
    said = explore("attention-maps", tokens=tokens, weights=np.full((1, 1, 3, 3), 1 / 3))
    top = "0 “\u2068שלום\u2069” 0.333, 1 “⟨U+202E⟩” 0.333, 2 “<b>” 0.333."
    assert f"reads most from sources {top}" in said.describe()
    assert "“&lt;b&gt;”" in said._html() and "<b>" not in said._html()


def test_the_heads_made_by_hand_read_what_their_rule_says():
    explorer = explore("attention-maps")
    found = {}
    for layer, head in itertools.product(range(2), range(3)):
        explorer.set_state({"layer": layer, "head": head})
        found[layer, head] = explorer.facts()
    assert found[0, 0]["entropy"] == pytest.approx(np.log(7), abs=1e-3)
    names = ["onFirst", "onLast", "onItself", "onPrevious", "onNext"]
    wanted = {(0, 1): "onItself", (0, 2): "onPrevious", (1, 0): "onNext", (1, 1): "onFirst"}
    for place, name in wanted.items():
        assert max(names, key=found[place].get) == name


ROWS = [[[[0.5, 0.5], [1.0, 0.0]]]]


def with_row(row: list[float]) -> list:
    return [[[[0.5, 0.5], row]]]


REFUSED = [
    ("heads", {"head_dim": 1024}, ValueError, "a power of two from 1 to 512, got 1024"),
    ("attention-maps", {"tokens": ["a"]}, ValueError, "tokens must be 2 to 64 tokens, got 1"),
    ("attention-maps", {"tokens": ["a", 5]}, TypeError, "each of tokens must be a text, got 5"),
    ("attention-maps", {"tokens": ["a", ""]}, ValueError, "each of tokens must have 1 to 40"),
    ("attention-maps", {"tokens": "ab"}, TypeError, "tokens must be a list, got 'ab'"),
    ("attention-maps", {"tokens": ["a", "b"]}, ValueError, "got 7 targets and 2 tokens"),
    ("attention-maps", {"weights": ROWS[0]}, TypeError, r"\(layer, head, t, s\), got the shape"),
    ("attention-maps", {"weights": "abc"}, TypeError, r"axes \(layer, head, t, s\), got 'abc'"),
    (
        "attention-maps",
        {"weights": np.ones((1, 1, 2, 3)) / 3},
        ValueError,
        "as many sources as targets, got s=3 and t=2",
    ),
    ("attention-maps", {"weights": np.ones((49, 1, 2, 2)) / 2}, ValueError, "1 to 48 layers"),
    ("attention-maps", {"weights": np.ones((1, 65, 2, 2)) / 2}, ValueError, "1 to 64 heads"),
    ("attention-maps", {"weights": np.ones((1, 1, 65, 65)) / 65}, ValueError, "2 to 64 targets"),
    (
        "attention-maps",
        {"weights": with_row([1.5, -0.5])},
        ValueError,
        "must be at least 0, got -0.5 at layer=0, head=0, t=1, s=1",
    ),
    ("attention-maps", {"weights": with_row([np.nan, 1.0])}, ValueError, "0, got nan at layer=0"),
    (
        "attention-maps",
        {"weights": with_row([0.5, 0.498])},
        ValueError,
        "must sum to 1 within 0.001, got 0.998 at layer=0, head=0, t=1",
    ),
    ("attention-maps", {"weights": with_row([0.0, 0.0])}, ValueError, "sum to 1 .*, got 0 at"),
    ("attention-maps", {"weights": with_row([np.inf, 0.0])}, ValueError, "sum to 1 .*, got inf"),
    ("attention-maps", {"weights": {"layers": 1}}, ValueError, "as this explorer packs them"),
]


@pytest.mark.parametrize(("name", "options", "kind", "words"), REFUSED)
def test_an_option_that_makes_no_picture_is_refused(name, options, kind, words):
    with pytest.raises(kind, match=words):
        explore(name, **options)


def test_packed_weights_that_do_not_say_what_they_are_are_refused():
    packed = pack_maps("weights", ROWS)
    assert pack_maps("weights", packed) == packed
    wrong = [
        {**packed, "layers": 2},
        {**packed, "tokens": 3},
        {**packed, "heads": "1"},
        {**packed, "roots": packed["roots"] + "AAAA"},
        {**packed, "roots": "*" + packed["roots"][1:]},
        {**packed, "layers": 0, "roots": ""},
    ]
    for each in wrong:
        with pytest.raises(ValueError, match="as this explorer packs them"):
            pack_maps("weights", each)
    zeros = {**packed, "roots": "A" * len(packed["roots"])}
    with pytest.raises(ValueError, match=r"sum to 1 within .*, got 0 at layer=0, head=0, t=0"):
        pack_maps("weights", zeros)


def test_rows_within_the_tolerance_are_taken_and_stay_taken_once_packed():
    for off in (-0.99, 0.99):
        row = np.full(64, (1 + off * SUM_TOLERANCE) / 64)
        packed = pack_maps("weights", np.broadcast_to(row, (1, 1, 64, 64)))
        assert pack_maps("weights", packed) == packed
    half = torch.softmax(torch.randn(1, 2, 50, 50, generator=torch.manual_seed(0)), dim=-1).half()
    assert pack_maps("weights", half)["tokens"] == 50


@pytest.mark.parametrize(
    ("name", "count"), [("layer", 2), ("head", 3), ("target", 7), ("source", 7)]
)
def test_a_place_that_the_maps_lack_is_refused_at_first_and_later(name, count):
    with pytest.raises(
        ValueError, match=f"{name} must be less than the number of .*, {count}, got"
    ):
        explore("attention-maps", **{name: count})
    explorer = explore("attention-maps", **{name: count - 1})
    with pytest.raises(
        ValueError, match=f"{name} must be less than the number of .*, {count}, got"
    ):
        explorer.set_state({name: count})
    assert explorer.state[name] == count - 1


def test_the_table_of_limits_is_that_of_the_options():
    for name, limit in [("n_targets", "mask_size"), ("n_sources", "mask_size")]:
        for value in LIMITS[limit]:
            assert explore("mask", **{name: value}).state[name] == value
    for name in ("window", "n_prefix", "n_padding"):
        for value in LIMITS["mask_part"]:
            assert explore("mask", n_sources=16, **{name: value}).state[name] == value
    ends = {"width": "stream_width", "n_tokens": "n_read_tokens"}
    ends |= {name: name for name in ("n_heads", "head_dim")}
    for name, limit in ends.items():
        for value in LIMITS[limit]:
            assert explore("heads", **{name: value}).state[name] == value
