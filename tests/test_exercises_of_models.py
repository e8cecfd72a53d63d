"""The judges of the chapter that compares models, against what readers write."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from attnlib import PUBLISHED, cost, exercises
from attnlib.exercises import Mistake
from attnlib.layers import balance_loss, choose_experts

NAMES = ["break-even", "choose-experts", "balance-loss", "experts-met"]


def refused(name, function) -> str:
    with pytest.raises(Mistake) as caught:
        exercises.check(name, function)
    return str(caught.value)


def test_the_chapter_has_its_exercises():
    assert set(NAMES) <= set(exercises.names())


# --- right functions, as readers write them -----------------------------------------------


def crossing(kept, windows, other, is_fewer=lambda held, others: held < others):
    n = 1
    while not is_fewer(kept * np.minimum(n, windows).sum(), other * n):
        n += 1
    return n


def crossing_in_torch(kept, windows, other):
    lengths = torch.arange(1, 500)
    held = kept * torch.minimum(lengths[:, None], windows).sum(1)
    return lengths[held < other * lengths][0]


def choice_by_devices(scores, n_chosen, n_devices, at_most, merit=np.max):
    rows = scores.reshape(n_devices, -1)
    devices = sorted(range(n_devices), key=lambda i: -merit(rows[i]))[:at_most]
    size = rows.shape[1]
    allowed = [i for i in range(len(scores)) if i // size in devices]
    return sorted(allowed, key=lambda i: -scores[i])[:n_chosen]


def choice_in_torch(scores, n_chosen, n_devices, at_most):
    best = scores.view(n_devices, -1).amax(1).topk(at_most).indices
    here = torch.isin(torch.arange(n_devices), best).repeat_interleave(len(scores) // n_devices)
    return torch.where(here, scores, -torch.inf).topk(n_chosen).indices


def choice_of_the_package(scores, n_chosen, n_devices, at_most):
    scores = torch.as_tensor(scores)
    return choose_experts(scores, n_chosen, n_devices=n_devices, n_devices_at_most=at_most)


def balance(scores, chosen):
    (n, x), x_c = scores.shape, chosen.shape[1]
    return sum(
        x * (chosen == i).sum() / (x_c * n) * sum(scores[:, i]) / n for i in range(scores.shape[1])
    )


def balance_in_torch(scores, chosen):
    used = torch.zeros_like(scores).scatter(1, chosen, 1.0)
    return (used.mean(0) / chosen.shape[1] * scores.shape[1] * scores.mean(0)).sum()


def met_step_by_step(x, x_c, n):
    met = 0
    for _ in range(n):
        met += (x - met) * x_c / x
    return met


@pytest.mark.parametrize(
    "name,function",
    [
        ("break-even", crossing),
        ("break-even", crossing_in_torch),
        ("choose-experts", choice_by_devices),
        ("choose-experts", choice_in_torch),
        ("choose-experts", choice_of_the_package),
        ("balance-loss", balance),
        ("balance-loss", balance_in_torch),
        ("balance-loss", balance_loss),
        ("experts-met", met_step_by_step),
        ("experts-met", lambda x, x_c, n: x * (1 - Fraction(x - x_c, x) ** n)),
        ("experts-met", cost.experts_met),
    ],
)
def test_other_right_functions_are_accepted(name, function, capsys):
    exercises.check(name, function)
    assert capsys.readouterr().out.startswith("Right: ")


# --- wrong functions, as readers write them -----------------------------------------------


def by_formula(kept, windows, other):
    finite = np.isfinite(windows)
    return math.floor(kept * windows[finite].sum() / (other - kept * (~finite).sum())) + 1


@pytest.mark.parametrize(
    "name,function,says",
    [
        ("break-even", by_formula, "every window is taken to be full"),
        (
            "break-even",
            lambda *given: crossing(*given, is_fewer=lambda held, others: held <= others),
            "where both hold as many",
        ),
        ("break-even", lambda *given: crossing(*given) - 1, "one too few"),
        (
            "break-even",
            lambda kept, windows, other: crossing(kept, windows + 1, other),
            "here it holds one more",
        ),
        ("choose-experts", lambda scores, n, *rest: np.argsort(-scores)[:n], "more than n_devices"),
        (
            "choose-experts",
            lambda *given: choice_by_devices(*given, merit=np.mean),
            "not by the sum or the mean",
        ),
        (
            "choose-experts",
            lambda *given: choice_by_devices(*given, merit=lambda x: np.sort(x)[-2:].sum()),
            "by the best two it does in DeepSeek-V3",
        ),
        ("choose-experts", lambda *given: sorted(choice_by_devices(*given)), "of their numbers"),
        (
            "choose-experts",
            lambda scores, n, devices, at_most: choice_in_torch(
                torch.where(
                    torch.isin(
                        torch.arange(len(scores)) // (len(scores) // devices),
                        scores.view(devices, -1).amax(1).topk(at_most).indices,
                    ),
                    scores,
                    0.0,
                ),
                n,
                1,
                1,
            ),
            "the score 0 stands for an expert elsewhere",
        ),
        (
            "balance-loss",
            lambda scores, chosen: balance(scores, chosen) * chosen.shape[1] / scores.shape[1],
            "with x = 6 experts and x_c = 2",
        ),
        (
            "balance-loss",
            lambda scores, chosen: balance(scores, chosen) / scores.shape[1],
            "the value is divided by x = 6",
        ),
        (
            "balance-loss",
            lambda scores, chosen: balance_in_torch(
                scores * torch.zeros_like(scores).scatter(1, chosen, 1.0), chosen
            ),
            "here only those count that use it",
        ),
        ("experts-met", lambda x, x_c, n: x_c * n, "is counted several times"),
        ("experts-met", lambda x, x_c, n: x * (1 - (1 - 1 / x) ** (x_c * n)), "one may come twice"),
        ("experts-met", lambda *given: round(met_step_by_step(*given)), "need not be whole"),
    ],
)
def test_what_readers_write_is_told_with_the_numbers_of_the_case(name, function, says):
    assert says in refused(name, function)


SOLUTIONS = {
    "break-even": ["minimum", "min(", "kept ·", "while"],
    "choose-experts": ["argsort", "topk", "amax", "−∞"],
    "balance-loss": ["bincount", "x /", "x_c n", "mean(0)"],
    "experts-met": ["1 −", "1 - ", "power", "to the n"],
}


@pytest.mark.parametrize("name", NAMES)
def test_no_message_holds_the_solution(name):
    exercise = exercises.judge(name)
    for text in (exercise.asks, *exercise.mistakes):
        for code in ("np.", "torch.", "return x", "lambda", " * ", *SOLUTIONS[name]):
            assert code not in text


# --- the definitions of the judges --------------------------------------------------------


def test_the_crossing_of_the_judge_is_that_of_the_package():
    gemma, llama = PUBLISHED["gemma-3-27b"], PUBLISHED["llama-3-70b"]
    windows = np.array([math.inf if w is None else w / 64 for w in gemma.windows])
    kept, other = 4096, 163_840
    found = exercises.judge("break-even").definition(kept, windows, other)
    # windows shorter by a factor of 64 move the crossing by that factor
    exact = Fraction(52 * 1024 * kept, other - 10 * kept)
    assert found == exact / 64 // 1 + 1
    assert cost.cache_break_even(gemma, llama) == exact // 1 + 1 == 1775


def test_the_cases_of_the_crossing_are_what_they_say():
    about = {}
    for case in exercises.judge("break-even").cases:
        kept, windows, other = case.arguments.values()
        n = crossing(kept, windows, other)
        before = kept * np.minimum(n - 1, windows).sum() - other * (n - 1)
        about[case.about] = n, before, windows[np.isfinite(windows)].max()
    n, before, widest = about["windows that are full at the crossing"]
    assert n > widest and before > 0
    assert about["caches that are equal at a whole number"][1] == 0
    n, before, widest = about["a window that is not yet full"]
    assert 1 < n < widest
    assert about["fewer from the first token on"][0] == 1
    assert about["no layer that reads everything"][0] > 1


def test_no_case_of_the_choice_depends_on_the_order_of_equal_scores():
    for case in exercises.judge("choose-experts").cases:
        assert len(set(case.arguments["scores"])) == len(case.arguments["scores"])


def test_the_experts_that_are_met_are_those_of_all_choices():
    met = exercises.judge("experts-met").definition
    for x, x_c, n in ((4, 2, 3), (5, 1, 2), (3, 3, 2)):
        sets = [*itertools.combinations(range(x), x_c)]
        sizes = [len(set().union(*some)) for some in itertools.product(sets, repeat=n)]
        assert met(x, x_c, n) == pytest.approx(np.mean(sizes), rel=1e-14)
