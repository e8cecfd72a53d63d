"""The explorers of positions: options, errors, and facts that are those of the definitions."""

import numpy as np
import pytest

from attnlib import definitions
from attnlib.explore import explore
from attnlib.explore.limits import LIMITS

# An angle of at most 254 radians is rounded to a few hundredths of a picoradian.
ROUNDING = {"rtol": 0, "atol": 1e-12}


def test_numbers_of_numpy_and_1e4_are_numbers():
    explorer = explore("sinusoidal", width=np.int64(8), dimension=np.int32(3), base=1e4)
    assert explorer.state == {"base": 10_000, "dimension": 3, "position": 10, "width": 8}
    assert {type(value) for value in explorer.state.values()} == {int}


@pytest.mark.parametrize("order", [("width", "dimension"), ("dimension", "width")])
def test_width_and_dimension_may_change_together_in_either_order(order):
    given = {"width": 128, "dimension": 100}
    explorer = explore("sinusoidal", **{name: given[name] for name in order})
    assert explorer.initial["dimension"] == 100
    for wanted in ({"width": 4, "dimension": 3}, given):  # as a front end does
        explorer.set_state({name: wanted[name] for name in order})
        assert {name: explorer.state[name] for name in order} == wanted


def test_a_contradiction_from_a_front_end_is_taken_back_whole():
    explorer = explore("sinusoidal")
    before = explorer.state
    with pytest.raises(ValueError, match="less than width, got dimension=50 and width=6"):
        explorer.set_state({"position": 3, "width": 6, "dimension": 50})
    assert explorer.state == before
    explorer.set_state({"width": 128})
    explorer.dimension = 127
    assert (explorer.width, explorer.dimension) == (128, 127)


@pytest.mark.parametrize(("width", "base"), [(4, 100), (10, 1_000_000), (64, 10_000)])
def test_sinusoidal_facts_are_those_of_the_definition(width, base):
    table = definitions.sinusoidal_encoding(range(255), width, float(base))
    for position, dimension in [(0, 0), (10, 1), (100, width - 2), (127, width - 1)]:
        options = {"width": width, "base": base, "position": position, "dimension": dimension}
        facts = explore("sinusoidal", **options).facts()
        np.testing.assert_allclose(facts["value"], table[position, dimension], **ROUNDING)
        wanted = table[position : position + 128] @ table[position] / (width / 2)
        np.testing.assert_allclose(facts["innerProducts"], wanted, **ROUNDING)


def test_the_inner_products_do_not_move_with_the_position():
    explorer, seen = explore("sinusoidal", width=10), []
    for position in (0, 1, 64, 127):
        explorer.position = position
        seen.append(explorer.facts()["innerProducts"])
    np.testing.assert_allclose(seen, [seen[0]] * 4, **ROUNDING)
    assert seen[0][0] == pytest.approx(1, abs=1e-12)
    assert np.ptp(seen[0]) > 0.5


def test_after_a_wavelength_the_dimension_has_its_value_again():
    for dimension in (0, 7, 12, 63):
        facts = explore("sinusoidal", dimension=dimension).facts()
        assert facts["wavelength"] * facts["frequency"] == pytest.approx(2 * np.pi, rel=1e-15)
        wanted = 2 * np.pi * 10_000 ** (2 * (dimension // 2) / 64)
        assert facts["wavelength"] == pytest.approx(wanted, rel=1e-13)


def test_a_sine_is_called_a_sine_and_a_cosine_a_cosine():
    assert "Dimension 8 is the sine of pair 4," in explore("sinusoidal").describe()
    odd = explore("sinusoidal", dimension=9, base=1_000_000).describe()
    assert "base 1,000,000. Dimension 9 is the cosine of pair 4," in odd


@pytest.mark.parametrize("pair", [0, 8, 31])
def test_rotary_facts_are_those_of_the_definition(pair):
    for m, n, angle in [(0, 0, 0), (64, 5, -179), (3, 64, 77)]:
        options = {"query_position": m, "key_position": n, "angle": angle, "pair": pair}
        facts = explore("rotary", **options).facts()
        here = slice(2 * pair, 2 * pair + 2)
        ahead = np.radians(angle)
        for role, position, start in [
            ("query", m, [1, 0]),
            ("key", n, [np.cos(ahead), np.sin(ahead)]),
        ]:
            turn = definitions.rotation_matrix(position, 64, "interleaved")[here, here]
            np.testing.assert_allclose(facts[role], turn @ start, **ROUNDING)
        assert facts["score"] == pytest.approx(np.dot(facts["query"], facts["key"]), abs=1e-15)
        cosine = np.cos(np.radians(facts["angleAfter"]))
        assert facts["score"] == pytest.approx(cosine, abs=1e-12)
        assert -180 < facts["angleAfter"] <= 180


def test_moving_both_positions_turns_the_vectors_and_keeps_the_score():
    explorer = explore("rotary", query_position=0, key_position=18)
    first = explorer.facts()
    for shift in (1, 12, 46):
        explorer.query_position, explorer.key_position = shift, 18 + shift
        moved = explorer.facts()
        assert np.linalg.norm(np.subtract(moved["query"], first["query"])) > 0.05
        assert moved["score"] == pytest.approx(first["score"], abs=1e-12)
    explorer.key_position -= 1
    assert abs(explorer.facts()["score"] - first["score"]) > 0.01


def test_the_mean_over_all_pairs_decays_but_not_steadily():
    ones = np.ones(64)
    turns = [definitions.rotation_matrix(n, 64, "interleaved") for n in range(65)]
    means = np.array([ones @ turn @ ones / 64 for turn in turns])
    for distance in (0, 1, 17, 64):
        ahead = explore("rotary", query_position=0, key_position=distance).facts()
        behind = explore("rotary", query_position=64, key_position=64 - distance).facts()
        assert ahead["meanScore"] == behind["meanScore"]
        assert ahead["meanScore"] == pytest.approx(means[distance], abs=1e-12)
        assert ahead["rises"] == (means[1:] > means[:-1]).sum()
    # No step is so close to level that rounding decides.
    assert abs(np.diff(means)).min() > 1e-6
    assert 0 < explore("rotary").facts()["rises"] < 64
    assert means[64] < 0.5


def test_the_words_speak_of_all_pairs_only_when_they_are_asked_for():
    assert "all 32 pairs" not in explore("rotary").describe()
    assert "the mean over all 32 pairs is 0.634" in explore("rotary", all_pairs=True).describe()


def test_the_table_of_limits_is_that_of_the_options():
    # The sliders' ends in JavaScript, and what Python takes at most.
    ends = {"width": "encoding_width", "position": "encoding_position", "base": "encoding_base"}
    for option, name in ends.items():
        for value in (LIMITS[name][0], LIMITS[name][-1]):
            explorer = explore("sinusoidal", **{"dimension": 0, option: value})
            assert explorer.state[option] == value
    ends = {"query_position": "turn_position", "pair": "turn_pair", "angle": "turn_angle"}
    for option, name in ends.items():
        for value in LIMITS[name]:
            assert explore("rotary", **{option: value}).state[option] == value
