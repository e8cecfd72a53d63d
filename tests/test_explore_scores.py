"""The explorers of variance scaling: the fixed sample of scores, its facts, and the Jacobian's."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats

from attnlib.explore import explore, score_sample
from attnlib.explore.limits import LIMITS
from attnlib.explore.score_spread import show_error, standard_error
from attnlib.explore.words import show, show_small, untie

DISTRIBUTIONS = LIMITS["distributions"]
WIDTHS = [2**i for i in range(11)]
N_QUERIES, N_KEYS, N_SCORES = 32, 64, 2048
N_DRAWN = (N_QUERIES + N_KEYS) * 1024
# Student t with 5 degrees of freedom, of variance 5/3, scaled to variance 1.
LAWS = {
    "gaussian": scipy.stats.norm(),
    "uniform": scipy.stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)),
    "heavy-tailed": scipy.stats.t(5, scale=math.sqrt(3 / 5)),
}


def drawn(distribution: str) -> np.ndarray:
    return score_sample.coordinates(distribution, np.arange(N_DRAWN))


# ---- the sample ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAWS)
def test_coordinates_have_the_law_that_they_are_named_after(name):
    # Kolmogorov: the distance exceeds 1.95 / √N for one sample in a thousand; the grid moves a
    # coordinate by at most 2⁻¹³, and the law by that times a density below 1/2.
    distance = scipy.stats.kstest(drawn(name), LAWS[name].cdf).statistic
    assert distance <= 1.95 / math.sqrt(N_DRAWN) + 2.0**-14
    assert LAWS[name].var() == pytest.approx(1, rel=1e-12, abs=0)
    fourth = LAWS[name].stats(moments="k") + 3
    assert score_sample.FOURTH_MOMENTS[name] == pytest.approx(fourth, rel=1e-12, abs=0)


def test_rademacher_coordinates_are_one_or_minus_one_equally_often():
    signs = drawn("rademacher")
    assert set(signs) == {-1.0, 1.0}
    assert abs(signs.mean()) <= 4 / math.sqrt(N_DRAWN)
    assert score_sample.FOURTH_MOMENTS["rademacher"] == np.mean(signs**4) == 1


def test_the_hash_gives_each_place_a_number_of_its_own_and_no_order():
    numbers = score_sample.uniform(np.arange(2 * N_DRAWN))
    assert len(np.unique(numbers)) == 2 * N_DRAWN
    assert numbers.min() > 0 and numbers.max() < 1
    # The correlation of independent numbers has a standard deviation of 1 / √N.
    for lag in (1, 2, 3, 64, 2048):
        assert abs(np.corrcoef(numbers[:-lag], numbers[lag:])[0, 1]) <= 4 / math.sqrt(2 * N_DRAWN)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_raw_scores_are_inner_products_of_the_first_d_coordinates_without_any_rounding(name):
    whole = (drawn(name) * 4096).reshape(N_QUERIES + N_KEYS, 1024)
    assert np.all(whole == np.rint(whole))
    # int64 is exact: 1024 products below 2⁵³ / 1024
    assert np.abs(whole).max() ** 2 * 1024 < 2**53
    q_td, k_sd = np.split(whole.astype(np.int64), [N_QUERIES])
    scores = score_sample.raw_scores(name)
    assert list(scores) == WIDTHS
    for d in WIDTHS:
        exact = np.einsum("td,sd->ts", q_td[:, :d], k_sd[:, :d])
        assert np.array_equal(scores[d] * 4096**2, exact)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_sample_spreads_as_the_theorem_says_within_three_standard_errors(name):
    for d in WIDTHS:
        relative = math.sqrt(np.mean(score_sample.raw_scores(name)[d] ** 2) / d)
        assert abs(relative - 1) <= 3 * standard_error(name, d), d


@pytest.mark.parametrize("name", ["gaussian", "uniform", "rademacher"])
@pytest.mark.parametrize("d", [1, 4])
def test_the_standard_error_knows_that_scores_share_their_queries_and_keys(name, d):
    rng = np.random.default_rng(0)
    draw = {
        "gaussian": rng.standard_normal,
        "uniform": lambda size: rng.uniform(-math.sqrt(3), math.sqrt(3), size),
        "rademacher": lambda size: rng.choice([-1.0, 1.0], size),
    }[name]
    repeats = 3000
    q, k = draw((repeats, N_QUERIES, d)), draw((repeats, N_KEYS, d))
    squares = np.mean(np.einsum("rtd,rsd->rts", q, k) ** 2, axis=(1, 2)) / d
    found, wanted = np.std(squares), 2 * standard_error(name, d)
    # The standard deviation of N numbers of kurtosis κ has the relative error √((κ − 1) / 4N).
    kurtosis = scipy.stats.kurtosis(squares, fisher=False) if found > 0 else 1.0
    assert abs(found - wanted) <= 4 * wanted * math.sqrt((kurtosis - 1) / (4 * repeats))


def test_scores_of_independent_pairs_would_have_a_smaller_standard_error():
    # κ + 2 over N alone, as if no two scores shared a query or a key.
    alone = math.sqrt((6 / 64 + 2) / N_SCORES) / 2
    assert standard_error("gaussian", 64) > 1.5 * alone


# ---- the histogram ------------------------------------------------------------------------


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_bars_count_every_score_within_their_edges(name):
    for d in WIDTHS:
        first, width, number = score_sample.bars(name, d)
        scores = score_sample.raw_scores(name)[d].ravel()
        edges = first + width * np.arange(number + 1)
        # An edge of continuous scores is rounded, but no score is so near to one.
        assert np.abs(scores[:, None] - edges).min() > 1e-9
        assert score_sample.counts(name, d) == np.histogram(scores, edges)[0].tolist()
        assert edges[-1] == pytest.approx(-first, rel=1e-12, abs=0)
        assert 3 <= edges[-1] / math.sqrt(d) <= 4 + 1e-12


def test_every_bar_holds_the_same_number_of_possible_rademacher_scores():
    for d in WIDTHS:
        first, width, number = score_sample.bars("rademacher", d)
        edges = first + width * np.arange(number + 1)
        possible = np.arange(-5 * d - 200, 5 * d + 201, 2)  # odd where d is odd, beyond ±4√d
        assert not set(edges) & set(possible)
        assert set(np.histogram(possible, edges)[0]) == {width / 2}
        assert width / 2 % 2 == 1
        nearest = min((held for held in range(1, 99, 2)), key=lambda h: abs(h - math.sqrt(d) / 10))
        assert width / 2 == nearest


def test_the_facts_speak_of_scores_and_the_histogram_of_a_whole_sample():
    facts = explore("score-spread", key_dim=256, exponent=0.25).facts()
    assert facts["spread"] == pytest.approx(4, rel=1e-15, abs=0)
    assert facts["firstEdge"] == pytest.approx(-16, rel=1e-15, abs=0)
    assert facts["barWidth"] * len(facts["counts"]) == pytest.approx(32, rel=1e-15, abs=0)
    assert sum(facts["counts"]) + facts["beyond"] == N_SCORES
    # Of the normal law, 95.4 % lie within two standard deviations; here with a standard error of
    # at most that of N / 32 independent scores.
    within = sum(facts["counts"][10:30]) / N_SCORES
    assert abs(within - 0.9545) <= 3 * math.sqrt(0.9545 * 0.0455 / 64)


# ---- facts of the score spread ------------------------------------------------------------


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize(("d", "exponent"), [(1, 0.5), (8, 0.0), (64, 0.35), (1024, 1.0)])
def test_facts_are_those_of_scipy_row_by_row(name, d, exponent):
    facts = explore("score-spread", key_dim=d, exponent=exponent, distribution=name).facts()
    scores = score_sample.raw_scores(name)[d] / d**exponent
    second, fourth = (scipy.stats.moment(scores.ravel(), k, center=0) for k in (2, 4))
    assert facts["measuredSpread"] == pytest.approx(math.sqrt(second), rel=1e-12, abs=0)
    assert facts["measuredKurtosis"] == pytest.approx(fourth / second**2 - 3, abs=1e-11)
    assert facts["beyond"] == np.count_nonzero(np.abs(scores) / facts["spread"] > 4)
    weights = [scipy.special.softmax(row) for row in scores]
    entropies = [scipy.stats.entropy(p) for p in weights]
    norms = [np.linalg.norm(np.diag(p) - np.outer(p, p), 2) for p in weights]
    # The weights' relative errors are some eps times the size of the scores.
    assert facts["entropy"] == pytest.approx(np.mean(entropies), abs=1e-11)
    assert facts["norm"] == pytest.approx(np.mean(norms), abs=1e-11)
    assert facts["largestEntropy"] == math.log(N_KEYS)


def test_spread_and_kurtosis_are_those_of_all_rademacher_pairs():
    for d in (1, 2, 4, 8):
        # ⟨q, k⟩ is a sum of d signs, since the product of two signs is one.
        sums = [sum(signs) for signs in itertools.product([-1, 1], repeat=d)]
        second, fourth = np.mean(np.square(sums)), np.mean(np.power(sums, 4))
        facts = explore("score-spread", key_dim=d, exponent=0.0, distribution="rademacher").facts()
        assert facts["spread"] == pytest.approx(math.sqrt(second), rel=1e-15, abs=0)
        assert facts["kurtosis"] == pytest.approx(fourth / second**2 - 3, rel=1e-14, abs=0)


@pytest.mark.parametrize("name", LAWS)
def test_kurtosis_of_one_product_is_that_of_the_law_and_falls_like_one_over_d(name):
    fourth = float(LAWS[name].stats(moments="k")) + 3
    for d in (1, 32):
        facts = explore("score-spread", key_dim=d, distribution=name).facts()
        # E (q k)⁴ = (E q⁴)², and the excess of a sum of d independent terms is a d-th of a term's.
        assert facts["kurtosis"] == pytest.approx((fourth**2 - 3) / d, rel=1e-12, abs=0)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_only_the_root_of_d_keeps_entropy_and_gradient_level(name):
    def at(exponent):
        found = [
            explore("score-spread", key_dim=d, exponent=exponent, distribution=name).facts()
            for d in (16, 64, 256, 1024)
        ]
        return np.array([[facts["entropy"], facts["norm"]] for facts in found]).T

    (entropy, norm), most = at(0.5), math.log(N_KEYS)
    assert np.ptp(entropy) < 0.05 * most and np.ptp(norm) < 0.03
    entropy, norm = at(0.0)
    assert np.all(np.diff(entropy) < 0) and entropy[-1] < 0.1 * most
    assert norm[-1] < norm[0]
    entropy, norm = at(1.0)
    assert np.all(np.diff(entropy) > 0) and entropy[-1] > 0.999 * most
    assert np.all(np.diff(norm) < 0) and norm[-1] == pytest.approx(1 / N_KEYS, rel=0.15, abs=0)


def test_the_words_of_the_score_spread_say_what_the_sample_is_and_how_sure():
    words = explore("score-spread", key_dim=4, distribution="heavy-tailed").describe()
    assert "coordinates heavy-tailed (Student t with 5 degrees of freedom)" in words
    assert "a fixed sample of 2,048 scores, of 32 queries and 64 keys" in words
    facts = explore("score-spread", key_dim=4, distribution="heavy-tailed").facts()
    wanted = f"is {facts['measuredSpread']:.2f} with a standard error of {facts['spreadError']:.2f}"
    assert wanted in words
    assert "excess kurtosis 19.5." in words
    assert f"{facts['beyond']} scores lie beyond 4 standard deviations" in words
    assert "no score lies beyond" in explore("score-spread").describe()


def test_an_error_is_said_with_two_digits_and_the_number_as_finely():
    assert show_error(1.00828, 0.02478, " ± ") == "1.008 ± 0.025"
    assert show_error(-31.94, 12.6, " ± ") == "−32 ± 13"
    assert show_error(1.0, 0.0, " ± ") == "1 ± 0"


def test_halves_are_said_alike_everywhere_rounded_away_from_zero():
    assert show(0.0625, 3) == "0.062"  # Python rounds to even
    assert show_small(untie(0.0625)) == "0.063"
    assert show(untie(-0.0625), 3) == "−0.063"
    assert untie(0.0) == 0.0


# ---- the Jacobian -------------------------------------------------------------------------


SPECTRA = [
    (n, m, gap)
    for n in (2, 3, 7, 64)
    for m in sorted({1, 2, n - 1, n})
    for gap in (0.0, 0.1, 2.0, 9.5, 20.0)
    if 1 <= m <= n
]


def weights_of(n: int, m: int, gap: float) -> np.ndarray:
    return scipy.special.softmax(np.where(np.arange(n) < m, 0.0, -gap))


@pytest.mark.parametrize(("n", "m", "gap"), SPECTRA)
def test_the_spectrum_is_that_of_the_matrix_with_its_multiplicities(n, m, gap):
    p = weights_of(n, m, gap)
    facts = explore("jacobian", n_sources=n, n_leaders=m, gap=gap).facts()
    values = [value for value, count in facts["spectrum"] for _ in range(count)]
    wanted = np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[::-1]
    assert all(count > 0 for _, count in facts["spectrum"])
    # eigvalsh is exact to a few eps times the norm, at most one half, and n.
    np.testing.assert_allclose(values, wanted, rtol=0, atol=n * 2.0**-52)
    assert facts["norm"] == values[0] == max(values)
    assert facts["trace"] == pytest.approx(1 - np.sum(p**2), abs=n * 2.0**-52)
    assert facts["trace"] == pytest.approx(sum(values), rel=1e-13, abs=0)
    assert facts["leader"] == pytest.approx(p[0], rel=1e-14, abs=0)
    assert facts["leaderEntry"] == pytest.approx(p[0] * p[1:].sum(), rel=1e-13, abs=0)
    if m < n:
        assert facts["other"] == pytest.approx(p[-1], rel=1e-14, abs=0)
    else:
        assert facts["other"] is None


def test_equal_eigenvalues_are_said_once():
    for options in ({"gap": 0.0}, {"n_leaders": 16}, {"n_leaders": 16, "gap": 0.0}):
        assert explore("jacobian", **options).facts()["spectrum"] == [[1 / 16, 15], [0.0, 1]]
    for m, n_values in [(1, 3), (2, 4), (5, 4), (15, 3)]:
        found = explore("jacobian", n_leaders=m).facts()["spectrum"]
        values = [value for value, _ in found]
        assert len(found) == n_values and values == sorted(set(values), reverse=True)


@pytest.mark.parametrize(("n", "m"), [(2, 1), (5, 1), (5, 4), (7, 3)])
def test_the_smallest_eigenvalues_keep_their_digits(n, m):
    with mpmath.workdps(60):
        weights = [mpmath.mpf(1) if j < m else mpmath.exp(-20) for j in range(n)]
        total = mpmath.fsum(weights)
        p = [w / total for w in weights]
        jacobian = mpmath.matrix(n, n)
        for i, j in itertools.product(range(n), repeat=2):
            jacobian[i, j] = (p[i] if i == j else 0) - p[i] * p[j]
        exact = sorted(map(float, mpmath.eigsy(jacobian, eigvals_only=True)), reverse=True)
        entry = float(p[0] * (1 - p[0]))
    facts = explore("jacobian", n_sources=n, n_leaders=m, gap=20.0).facts()
    values = [value for value, count in facts["spectrum"] for _ in range(count)]
    # e⁻²⁰ is rounded once, and all else are products and sums of positive numbers.
    assert values[:-1] == pytest.approx(exact[:-1], rel=1e-14, abs=0)
    assert values[-1] == 0.0
    assert facts["leaderEntry"] == pytest.approx(entry, rel=1e-14, abs=0)


@pytest.mark.parametrize(("n", "m", "gap"), SPECTRA)
def test_both_bounds_bound_the_norm(n, m, gap):
    facts = explore("jacobian", n_sources=n, n_leaders=m, gap=gap).facts()
    p = weights_of(n, m, gap)[0]
    assert facts["bound"] == pytest.approx(min(p, 2 * p * (1 - p)), rel=1e-6, abs=0)
    assert facts["norm"] <= facts["bound"] * (1 + 4 * 2.0**-52) <= 0.5 * (1 + 4 * 2.0**-52)
    if m == 1:
        assert facts["gapBound"] == pytest.approx(2 * (n - 1) * math.exp(-gap), rel=1e-15, abs=0)
        assert facts["bound"] <= facts["gapBound"] * (1 + 4 * 2.0**-52)
    else:
        assert facts["gapBound"] is None
        assert facts["norm"] == facts["bound"]  # with two leaders the bound is reached


def test_one_leader_stops_every_gradient_its_own_too_and_two_do_not():
    alone = explore("jacobian", n_leaders=1, gap=20.0).facts()
    assert max(alone["norm"], alone["leaderEntry"]) < 1e-7
    for m in (2, 5):
        shared = explore("jacobian", n_leaders=m, gap=20.0).facts()
        assert shared["norm"] == pytest.approx(1 / m, rel=1e-7, abs=0)
        assert f"goes to 1/{m}" in explore("jacobian", n_leaders=m).describe()


@pytest.mark.parametrize(
    ("options", "setting", "spectrum"),
    [
        ({}, "16 sources, of which 1 leads by the gap g = 2: weight", "0.045 14 times, 0 once."),
        ({"n_leaders": 3}, "of which 3 share the lead", "twice, 0.096 once, 0.028 12 times, 0 on"),
        (
            {"n_sources": 2},
            "weight a = 0.881, and b = 0.119 for the other.",
            "J = diag(p) − ppᵀ: 0.210",
        ),
        (
            {"n_leaders": 16},
            "16 sources of equal score, each of weight a = 0.063.",
            "0.063 15 times",
        ),
    ],
)
def test_the_words_of_the_jacobian_count_sources_and_eigenvalues(options, setting, spectrum):
    words = explore("jacobian", **options).describe()
    assert setting in words
    assert spectrum in words


@pytest.mark.parametrize("order", [("n_sources", "n_leaders"), ("n_leaders", "n_sources")])
def test_sources_and_leaders_may_change_together_in_either_order(order):
    given = {"n_sources": 64, "n_leaders": 60}
    explorer = explore("jacobian", **{name: given[name] for name in order})
    for wanted in ({"n_sources": 3, "n_leaders": 3}, given):  # as a front end does
        explorer.set_state({name: wanted[name] for name in order})
        assert {name: explorer.state[name] for name in order} == wanted


def test_fewer_sources_than_leaders_are_taken_back_whole():
    explorer = explore("jacobian", n_leaders=5)
    before = explorer.state
    wanted = "must be at most n_sources, got n_leaders=5 and n_sources=4"
    with pytest.raises(ValueError, match=wanted):
        explorer.n_sources = 4
    with pytest.raises(ValueError, match=wanted):
        explorer.set_state({"gap": 1.0, "n_sources": 4})
    assert explorer.state == before
    explorer.set_state({"n_sources": 5})
    assert explorer.facts()["spectrum"] == [[0.2, 4], [0.0, 1]]


def test_the_table_of_limits_is_that_of_the_options():
    ends = {"key_dim": "key_dim", "exponent": "score_exponent", "distribution": "distributions"}
    for option, name in ends.items():
        for value in (LIMITS[name][0], LIMITS[name][-1]):
            assert explore("score-spread", **{option: value}).state[option] == value
    for option, name in {"n_sources": "jacobian_sources", "gap": "gap"}.items():
        for value in LIMITS[name]:
            assert explore("jacobian", **{option: value}).state[option] == value
    assert (LIMITS["sample_queries"], LIMITS["sample_keys"]) == (N_QUERIES, N_KEYS)
