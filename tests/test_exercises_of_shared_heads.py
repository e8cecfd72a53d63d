"""The judges of the chapter on fewer key/value heads, against what readers write."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from einops import reduce

from attnlib import AttentionSizes, definitions, exercises
from attnlib.exercises import Mistake

NAMES = ["kv-head-of", "pool-heads", "shared-step", "shared-rank"]


def refused(name, function) -> str:
    with pytest.raises(Mistake) as caught:
        exercises.check(name, function)
    return str(caught.value)


def test_the_chapter_has_its_exercises():
    assert set(NAMES) <= set(exercises.names())


# --- right functions, in NumPy and in torch -----------------------------------------------


def step_in_closed_form(h, g, d, e, n):
    return n * g * (d + e), 2 * n * h * (d + e), 2 * h / g


def step_of_the_sizes(h, g, d, e, n):
    sizes = AttentionSizes(n_query_heads=h, n_kv_heads=g, head_dim=d, value_dim=e)
    flops = definitions.attention_flops(1, n, d, e) * h
    elements = n * sizes.n_kv_heads * (sizes.head_dim + sizes.value_dim)
    return [elements, torch.tensor(flops), Fraction(flops, elements)]


def error_in_torch(weights, rank):
    return torch.linalg.svdvals(torch.cat(list(weights), 1))[rank:].square().sum()


def error_in_float32(weights, rank):
    return error_in_torch(torch.as_tensor(weights).float(), rank)


def error_by_eigenvalues(weights, rank):
    values = np.linalg.eigvalsh(sum(w @ w.T for w in weights))
    return values[: len(values) - rank].sum()


def error_of_the_factors(weights, rank):
    """What the best factors miss, when they are made and put to use."""
    a = np.linalg.svd(np.hstack(list(weights)))[0][:, :rank]
    return sum(((w - a @ (a.T @ w)) ** 2).sum() for w in weights)


def error_of_the_rest(weights, rank):
    sizes = np.linalg.svd(weights.transpose(1, 0, 2).reshape(weights.shape[1], -1))[1]
    return np.square(sizes).sum() - np.square(sizes[:rank]).sum()


@pytest.mark.parametrize(
    "name,function",
    [
        ("kv-head-of", lambda h, g: np.arange(h) // (h // g)),
        ("kv-head-of", lambda h, g: np.repeat(np.arange(g), h // g)),
        ("kv-head-of", lambda h, g: torch.arange(g).repeat_interleave(h // g)),
        ("kv-head-of", lambda h, g: [i * g // h for i in range(h)]),
        ("kv-head-of", lambda h, g: [j for j in range(g) for _ in range(h // g)]),
        ("pool-heads", lambda w, g: w.reshape(g, len(w) // g, *w.shape[1:]).mean(1)),
        ("pool-heads", lambda w, g: w.unflatten(0, (g, -1)).mean(1)),
        ("pool-heads", lambda w, g: np.array([x.mean(0) for x in np.split(w, g)])),
        ("pool-heads", lambda w, g: torch.stack([x.float().mean(0) for x in w.chunk(g)])),
        ("pool-heads", lambda w, g: reduce(w, "(g p) m d -> g m d", "mean", g=g)),
        ("shared-step", step_in_closed_form),
        ("shared-step", step_of_the_sizes),
        ("shared-step", lambda *given: torch.tensor(step_in_closed_form(*given)).unbind()),
        ("shared-rank", error_in_torch),
        ("shared-rank", error_in_float32),
        ("shared-rank", error_by_eigenvalues),
        ("shared-rank", error_of_the_factors),
        ("shared-rank", error_of_the_rest),
    ],
)
def test_other_right_functions_are_accepted(name, function, capsys):
    exercises.check(name, function)
    assert capsys.readouterr().out.startswith("Right: ")


# --- wrong functions, as readers write them -----------------------------------------------


def step_with(kept=lambda h, g: g, computing=lambda h, g: h, each=2, widths=lambda d, e: d + e):
    def step(h, g, d, e, n):
        elements, flops = n * kept(h, g) * (d + e), each * n * computing(h, g) * widths(d, e)
        return elements, flops, flops / elements

    return step


def error_from_the_end(weights, rank):
    sizes = np.linalg.svd(np.hstack(list(weights)))[1]
    return (sizes[-(len(sizes) - rank) :] ** 2).sum()


def error_of_a_mean(weights, rank):
    return sum((w - weights.mean(0)).square().sum() for w in weights)


@pytest.mark.parametrize(
    "name,function,says",
    [
        ("kv-head-of", lambda h, g: [i % g for i in range(h)], "the heads take turns"),
        ("kv-head-of", lambda h, g: torch.arange(g).repeat(h // g), "the heads take turns"),
        ("kv-head-of", lambda h, g: np.arange(h) // g, "12 query heads on g = 3 key/value heads"),
        ("kv-head-of", lambda h, g: np.arange(h) % (h // g), "among the p = 4 that share"),
        ("kv-head-of", lambda h, g: np.arange(h) // (h // g) + 1, "all numbers are one too high"),
        (
            "kv-head-of",
            lambda h, g: np.ceil(np.arange(1, h + 1) * g / h),
            "all numbers are one too high",
        ),
        ("kv-head-of", lambda h, g: np.ceil(np.arange(h) * g / h), "for heads that are counted fr"),
        (
            "kv-head-of",
            lambda h, g: np.arange(1, h + 1) // (h // g),
            "reads a head 3 that does not exist",
        ),
        ("kv-head-of", lambda h, g: [round(i * g / h) for i in range(h)], "cut in the middle"),
        ("kv-head-of", lambda h, g: torch.arange(h) / (h // g), "those are fractions"),
        ("kv-head-of", lambda h, g: np.arange(h).reshape(g, -1), "the other way round"),
        ("pool-heads", lambda w, g: w.reshape(g, -1, *w.shape[1:]).sum(1), "the sum of p = 3"),
        ("pool-heads", lambda w, g: w[:: len(w) // g], "the first matrix of each set is kept"),
        (
            "pool-heads",
            lambda w, g: w.reshape(len(w) // g, g, *w.shape[1:]).mean(0),
            "the sets are heads j, j + 2, …",
        ),
        (
            "pool-heads",
            lambda w, g: w.reshape(len(w) // g, g, *w.shape[1:]).mean(1),
            "p and g have changed places: g = 2 means of p = 3",
        ),
        ("pool-heads", lambda w, g: w.reshape(g, *w.shape[1:], -1).mean(-1), "side by side"),
        ("pool-heads", lambda w, g: w.mean(0), "a single matrix, the mean of all h = 6"),
        ("pool-heads", lambda w, g: w.mean(1), "over the m = 5 rows of every head"),
        (
            "pool-heads",
            lambda w, g: w.unflatten(0, (g, -1)).sum(1) / (len(w) // g) ** 0.5,
            "the root of p = 3",
        ),
        ("pool-heads", lambda w, g: w.unflatten(0, (g, -1)).mean(2), "over the m = 5 rows of each"),
        ("shared-step", step_with(computing=lambda h, g: g), "each of the h = 6 query heads still"),
        ("shared-step", step_with(kept=lambda h, g: h), "only g = 2 heads have them"),
        ("shared-step", step_with(each=1), "those are multiply-adds"),
        ("shared-step", step_with(widths=lambda d, e: d), "the weighted sums are missing"),
        (
            "shared-step",
            lambda h, g, d, e, n: (*step_in_closed_form(h, g, d, e, n)[:2], 2),
            "one element is used by p = 3 query heads",
        ),
        (
            "shared-step",
            lambda h, g, d, e, n: (*step_in_closed_form(h, g, d, e, n)[:2], h / g),
            "the third is half of it",
        ),
        (
            "shared-step",
            lambda h, g, d, e, n: (2 * n * g * d, 4 * n * h * d, 2 * h / g),
            "in elements and in FLOPs: here d = 5 and e = 4",
        ),
        ("shared-step", lambda *given: step_in_closed_form(*given)[:2], "3 results are asked for"),
        (
            "shared-rank",
            lambda w, rank: error_by_eigenvalues(w.transpose(0, 2, 1), rank),
            "it is A that is shared",
        ),
        (
            "shared-rank",
            lambda w, rank: torch.linalg.svdvals(w.reshape(w.shape[1], -1))[rank:].square().sum(),
            "mixes rows of different matrices: row j has row j of each of the p = 2",
        ),
        (
            "shared-rank",
            lambda w, rank: torch.linalg.svdvals(w)[:, rank:].square().sum(),
            "each matrix has an A of its own",
        ),
        (
            "shared-rank",
            lambda w, rank: torch.linalg.svdvals(torch.hstack(list(w)))[rank:].sum(),
            "squared entries are asked for",
        ),
        (
            "shared-rank",
            lambda w, rank: torch.linalg.svdvals(torch.hstack(list(w)))[rank:].norm(),
            "that is the root of what is asked for",
        ),
        (
            "shared-rank",
            lambda w, rank: torch.linalg.svdvals(torch.hstack(list(w)))[:rank].square().sum(),
            "what a factor of 2 columns can hold",
        ),
        (
            "shared-rank",
            lambda w, rank: np.linalg.eigvalsh(sum(x @ x.T for x in w))[rank:].sum(),
            "eigenvalues come in rising order",
        ),
        ("shared-rank", error_from_the_end, "a slice from −0 on is everything"),
        ("shared-rank", error_of_a_mean, "that is what their mean misses"),
    ],
)
def test_what_readers_write_is_told_with_the_numbers_of_the_case(name, function, says):
    assert says in refused(name, function)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_near_miss_in_one_of_the_three_counts_is_refused(which):
    def near_miss(*given):
        return tuple(x + (k == which) for k, x in enumerate(step_in_closed_form(*given)))

    assert "result must be" in refused("shared-step", near_miss)


@pytest.mark.parametrize("name", ["pool-heads", "shared-rank"])
def test_a_near_miss_of_a_thousandth_is_refused(name):
    definition = exercises.judge(name).definition
    assert "result" in refused(name, lambda *given: 1.001 * definition(*given))


SOLUTIONS = {
    "kv-head-of": ["⌊", "//", "i/p", "i / p", "floor", "repeat", "round down", "rounded down"],
    "pool-heads": ["reshape(", "(g, p, m, d)", "mean(", "g p", "unflatten"],
    "shared-step": ["n g", "n·g", "2 n", "2·n", "(d + e)", "2p", "2 p", "2h", "h/g", "p = h"],
    "shared-rank": ["hstack", "concat", "side by side", "svd", "[W", "[rank:]", "σ", "p d)"],
}


@pytest.mark.parametrize("name", NAMES)
def test_no_message_holds_the_solution(name):
    exercise = exercises.judge(name)
    for text in (exercise.asks, *exercise.mistakes):
        for code in ("np.", "torch.", "einsum", "return x", " @ ", "lambda", *SOLUTIONS[name]):
            assert code not in text


# --- the cases ----------------------------------------------------------------------------


def test_the_cases_know_neighbours_from_turns_and_p_from_g():
    for name in ("kv-head-of", "shared-step"):
        sizes = [(c.arguments["h"], c.arguments["g"]) for c in exercises.judge(name).cases]
        assert any(1 < g < h and g * g != h for h, g in sizes)
        assert any(g == 1 for _, g in sizes)
        assert any(g == h for h, g in sizes)


def test_the_ranks_of_the_cases_are_on_both_sides_of_all_that_can_be_held():
    missed = {}
    for case in exercises.judge("shared-rank").cases:
        weights, rank = case.arguments.values()
        everything = (weights**2).sum()
        missed[case.about] = definitions.shared_factor_error(weights, rank) / everything
    assert missed["nothing shared"] == pytest.approx(1, rel=1e-14)
    assert missed["a factor as wide as there are rows"] == 0
    assert all(0.01 < x < 0.9 for x in list(missed.values())[:4])
    opposite = exercises.judge("shared-rank").cases[3].arguments["weights"]
    np.testing.assert_array_equal(opposite.mean(0), 0)
