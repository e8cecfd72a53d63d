"""The explorer of alignments, in Python: its facts against NumPy, its words, its refusals."""

import itertools
import json

import numpy as np
import pytest
from scipy.stats import entropy

from attnlib.explore import explore
from attnlib.explore.alignment import check_alignments
from attnlib.explore.packed_maps import MOST_OFF, pack_maps, shape_of, unpack_maps
from attnlib.number_words import Alignment


def made_up(number: int, n_targets: int, n_sources: int, seed: int = 0) -> Alignment:
    """Two layers of three heads that read at random."""
    scores = 2 * np.random.default_rng(seed).normal(size=(2, 3, n_targets, n_sources))
    exponentials = np.exp(scores)
    return Alignment(
        number=number,
        source=tuple(f"w{s}" for s in range(n_sources)),
        target=(*(f"##p{t}" for t in range(n_targets - 1)), "[END]"),
        weights=exponentials / exponentials.sum(axis=-1, keepdims=True),
    )


MADE_UP = [made_up(7, 2, 1), made_up(21, 4, 2, seed=1), made_up(345_678, 11, 9, seed=2)]

# "one and twenty": each row reads what its word means, and "und" and [END] the word before.
SWAP = Alignment(
    number=21,
    source=("twenty", "one"),
    target=("ein", "##und", "##zwanzig", "[END]"),
    weights=[[[[0.0, 1.0], [0.25, 0.75], [1.0, 0.0], [0.75, 0.25]]]],
)


def test_the_words_of_an_alignment_that_a_person_can_draw():
    explorer = explore("alignment", alignments=[SWAP], target=1)
    assert explorer.describe() == (
        "21: “twenty one” becomes “einundzwanzig”. Layer 0, head 0, of 1 layer with 1 head each, "
        "counted from 0. When it writes a piece it reads mostly: “ein” “one” 1.000, “und” “one” "
        "0.750, “zwanzig” “twenty” 1.000, “[END]” “twenty” 0.750. Steps back in the English words: "
        "1. The weight of “und” on “twenty” is 0.250. Mean entropy 0.281 of at most 0.693 nats."
    )


def test_steps_back_are_counted_between_one_piece_and_the_next():
    in_order = SWAP._replace(weights=[[[[1.0, 0], [1, 0], [0, 1], [0, 1]]]])
    there_and_back = SWAP._replace(weights=[[[[0.0, 1], [1, 0], [0, 1], [1, 0]]]])
    for each, n in [(in_order, 0), (SWAP, 1), (there_and_back, 2)]:
        assert explore("alignment", alignments=[each]).facts()["nBackward"] == n


def test_the_facts_of_a_head_and_of_the_mean_are_those_of_numpy():
    for each, layer, head in itertools.product(MADE_UP, range(2), range(4)):
        n_targets, n_sources = each.weights.shape[2:]
        place = {"layer": layer, "head": head, "target": n_targets - 1, "source": n_sources - 1}
        explorer = explore("alignment", alignments=MADE_UP, number=each.number, **place)
        found = explorer.facts()
        of_layer = each.weights[layer]
        w = of_layer.mean(axis=0) if head == 3 else of_layer[head]
        assert found["weight"] == pytest.approx(w[-1, -1], abs=MOST_OFF)
        assert found["topWeights"] == pytest.approx(w.max(axis=1), abs=MOST_OFF)
        # Random weights lie farther apart than they are off, so the largest stays the largest.
        assert found["tops"] == w.argmax(axis=1).tolist()
        assert found["nBackward"] == (np.diff(w.argmax(axis=1)) < 0).sum()
        # √w |1 + ln w| ≤ 1, so each of at most 9 terms is off by no more than its weight.
        assert found["entropy"] == pytest.approx(entropy(w, axis=1).mean(), abs=9 * MOST_OFF)
        assert found["largestEntropy"] == np.log(n_sources)


def test_equal_weights_are_named_in_the_order_of_their_words():
    equal = SWAP._replace(weights=np.full((1, 1, 4, 2), 0.5))
    assert explore("alignment", alignments=[equal]).facts()["tops"] == [0, 0, 0, 0]


def test_without_a_place_the_head_is_shown_that_reads_what_the_pieces_mean():
    unsure, clear = np.full((4, 2), 0.5), np.array(SWAP.weights)[0, 0]
    wrong = clear[:, ::-1]  # as sure, but of the other word
    weights = np.stack([np.stack([wrong, unsure, wrong]), np.stack([unsure, clear, wrong])])
    given = [SWAP._replace(weights=weights)]
    assert explore("alignment", alignments=given).state.items() >= {"layer": 1, "head": 1}.items()
    # A place that is asked for stays, and the other one is the clearest there.
    first = explore("alignment", alignments=given, layer=0)
    assert (first.layer, first.head) == (0, 1)
    mean = explore("alignment", alignments=given, head=3)
    assert (mean.layer, mean.head) == (0, 3)


def test_the_first_number_is_shown_where_the_books_own_is_missing():
    assert explore("alignment", alignments=MADE_UP).number == 7


def test_maps_that_are_not_square_are_packed_as_square_ones_are():
    weights = MADE_UP[2].weights
    packed = pack_maps("weights", weights, square=False)
    assert shape_of(packed) == weights.shape == (2, 3, 11, 9)
    assert abs(unpack_maps(packed) - weights).max() < MOST_OFF
    assert pack_maps("weights", packed, square=False) == packed
    square = pack_maps("weights", weights[..., :9, :])
    assert square["roots"] == pack_maps("weights", weights[..., :9, :], square=False)["roots"]
    with pytest.raises(ValueError, match="as many sources as targets, got s=9 and t=11"):
        pack_maps("weights", weights)
    with pytest.raises(ValueError, match="as this explorer packs them"):
        pack_maps("weights", packed)
    with pytest.raises(ValueError, match="as this explorer packs them"):
        pack_maps("weights", square, square=False)


def test_what_was_checked_may_be_given_again():
    checked = check_alignments("alignments", MADE_UP)
    assert check_alignments("alignments", json.loads(json.dumps(checked))) == checked


def test_a_change_of_the_number_must_keep_to_its_pieces_and_words():
    explorer = explore("alignment", alignments=MADE_UP, number=345_678, target=10, source=8)
    with pytest.raises(ValueError, match="target must be less than the number of pieces, 4, got"):
        explorer.set_state({"number": 21})
    assert explorer.number == 345_678
    explorer.set_state({"number": 21, "target": 3, "source": 1})  # as the slider does
    assert explorer.state.items() >= {"number": 21, "target": 3, "source": 1}.items()


WRONG_ROWS = np.full((1, 1, 4, 2), 0.4)
REFUSED = [
    ({"alignments": []}, ValueError, "alignments must be 1 to 64 alignments, got 0"),
    ({"alignments": "21"}, TypeError, "alignments must be a list of alignments, got str"),
    ({"alignments": [21]}, TypeError, "must have a number, source, target and weights, got 21"),
    (
        {"alignments": [MADE_UP[1], MADE_UP[0]]},
        ValueError,
        r"in the order of their numbers, each once, got \[21, 7\]",
    ),
    ({"alignments": [SWAP, SWAP]}, ValueError, r"each once, got \[21, 21\]"),
    (
        {"alignments": [MADE_UP[0], SWAP]},
        ValueError,
        r"as many layers and heads as the first has, \(2, 3\), got \(1, 1\) for 21",
    ),
    (
        {"alignments": [SWAP._replace(source=("one",))]},
        ValueError,
        "got t=4 and s=2 for 4 pieces and 1 words",
    ),
    (
        {"alignments": [SWAP._replace(source=("twenty", ""))]},
        ValueError,
        "each of the source each of alignments must have 1 to 40 characters, got 0",
    ),
    ({"alignments": [SWAP._replace(weights=WRONG_ROWS)]}, ValueError, "must sum to 1 .* got 0.8"),
    (
        {"alignments": [SWAP._replace(weights=np.full((1, 1, 25, 2), 0.5))]},
        ValueError,
        "1 to 24 targets, got 25",
    ),
    (
        {"alignments": [SWAP._replace(number=1_000_000)]},
        ValueError,
        "the number each of alignments must lie between 0 and 999999, got 1000000",
    ),
    ({"number": 22}, ValueError, r"number must be one of \[7, 21, 345678\], got 22"),
    ({"layer": 2}, ValueError, "less than the number of layers, 2, got 2"),
    ({"head": 4}, ValueError, "less than the number of heads and their mean, 4, got 4"),
    ({"target": 2}, ValueError, "less than the number of pieces, 2, got 2"),
    ({"source": 1}, ValueError, "less than the number of words, 1, got 1"),
    ({"head": True}, TypeError, "head must be a whole number, got True"),
]


@pytest.mark.parametrize(("options", "kind", "words"), REFUSED)
def test_an_option_that_makes_no_picture_is_refused(options, kind, words):
    with pytest.raises(kind, match=words):
        explore("alignment", **{"alignments": MADE_UP, **options})
