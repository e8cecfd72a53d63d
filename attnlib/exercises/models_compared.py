"""The exercises of the chapter that compares models: definitions, cases and known mistakes.

Source   attnlib/definitions/of_experts.py; the mistakes are those that readers and libraries make
Chapter  chapters/models-compared.md
Axes     attnlib/axes.py
"""

import math
from collections.abc import Callable
from numbers import Real

import numpy as np

from attnlib import definitions
from attnlib.exercises.judge import Case, Exercise
from attnlib.exercises.steps import softmax

_RNG = np.random.default_rng(2405_04434)


# --- where two caches cross -------------------------------------------------------------------

_MORE_THAN_ANY_CASE_NEEDS = 200


def _crossing_with(
    held: Callable = lambda kept, windows, n: kept * np.minimum(n, windows).sum(),
    is_fewer: Callable = lambda held, others: held < others,
    after: Callable = lambda n: n,
) -> Callable:
    """A variant that counts, or compares, something else; the last length that is not fewer."""

    def break_even(kept, windows, other):
        lengths = range(1, _MORE_THAN_ANY_CASE_NEEDS)
        not_fewer = [n for n in lengths if not is_fewer(held(kept, windows, n), other * n)]
        return after(1 + max(not_fewer, default=0))

    return break_even


def _finite(windows: np.ndarray) -> np.ndarray:
    return windows[np.isfinite(windows)]


def _with_windows_full(kept: int, windows: np.ndarray, n: int) -> Real:
    n_full = len(windows) - len(_finite(windows))
    return kept * (n_full * n + _finite(windows).sum())


def _not_rounded(kept, windows, other):
    grows = kept * (len(windows) - len(_finite(windows)))
    return kept * _finite(windows).sum() / (other - grows)


def _break_even_case(about: str, kept: int, windows: tuple[Real, ...], other: int) -> Case:
    given = {"kept": kept, "windows": np.array(windows, dtype=np.float64), "other": other}
    return Case(about=about, arguments=given)


_BREAK_EVEN = Exercise(
    name="break-even",
    asks=(
        "break_even(kept, windows, other) → from how many tokens on a model holds fewer numbers "
        "than another that holds other of each token; in each of its layers it holds kept numbers "
        "of every token that it still needs, and windows has one entry a layer, infinite where the "
        "layer reads everything"
    ),
    definition=_crossing_with(),
    cases=(
        _break_even_case("windows that are full at the crossing", 3, (4, 4, 4, math.inf), 8),
        _break_even_case("caches that are equal at a whole number", 3, (5, 5, math.inf), 5),
        _break_even_case("a window that is not yet full", 2, (1, 9, math.inf), 5),
        _break_even_case("fewer from the first token on", 2, (6, math.inf), 5),
        _break_even_case("no layer that reads everything", 5, (3, 3), 4),
    ),
    mistakes={
        "where both hold as many, the model does not hold fewer yet.": _crossing_with(
            is_fewer=lambda held, others: held <= others
        ),
        "one too few: that is the last length at which the model does not hold fewer.": (
            _crossing_with(after=lambda n: n - 1)
        ),
        "one too many.": _crossing_with(after=lambda n: n + 1),
        "a number of tokens is whole: from which one on are there fewer?": _not_rounded,
        "that is the place of the crossing rounded up: at the crossing itself there are not fewer "
        "yet, and all windows need not be full there.": lambda *given: math.ceil(
            _not_rounded(*given)
        ),
        "that is the place of the crossing rounded down.": lambda *given: math.floor(
            _not_rounded(*given)
        ),
        "every window is taken to be full from the first token on: a layer holds no more tokens "
        "than there are.": _crossing_with(held=_with_windows_full),
        "what the layers with a window hold is forgotten: they hold numbers of a few tokens too.": (
            _crossing_with(
                held=lambda kept, windows, n: kept * n * (len(windows) - len(_finite(windows)))
            )
        ),
        "a window of W holds W tokens, the newest among them; here it holds one more.": (
            _crossing_with(held=lambda kept, windows, n: kept * np.minimum(n, windows + 1).sum())
        ),
        "a window of W holds W tokens, the newest among them; here it holds one fewer.": (
            _crossing_with(held=lambda kept, windows, n: kept * np.minimum(n, windows - 1).sum())
        ),
        "that is one layer: there are {n_layers}, and other is of all layers together.": (
            _crossing_with(held=lambda kept, windows, n: kept * np.minimum(n, windows).mean())
        ),
    },
    numbers=lambda arguments, *results: {"n_layers": len(arguments["windows"])},
)


# --- the choice of experts --------------------------------------------------------------------


def _choice(
    scores: np.ndarray, n_chosen: int, n_devices: int, n_devices_at_most: int
) -> np.ndarray:
    return np.array(
        definitions.choose_experts(
            scores, n_chosen, n_devices=n_devices, n_devices_at_most=n_devices_at_most
        )
    )


def _in_runs(n_routed: int, n_devices: int) -> np.ndarray:
    """The device of each expert."""
    return np.arange(n_routed) // (n_routed // n_devices)


def _choice_with(
    merit: Callable = np.max,
    device_of: Callable = _in_runs,
    how_many: Callable = lambda n_devices, at_most: at_most,
    elsewhere: float = -np.inf,
    after: Callable = lambda chosen, scores, n_devices: chosen,
) -> Callable:
    """A variant that ranks or places devices, or tells the result, in another way."""

    def choose_experts(scores, n_chosen, n_devices, n_devices_at_most):
        device = device_of(len(scores), n_devices)
        merits = np.array([merit(scores[device == i]) for i in range(n_devices)])
        best = np.argsort(-merits, kind="stable")[: how_many(n_devices, n_devices_at_most)]
        allowed = np.where(np.isin(device, best), scores, elsewhere)
        return after(np.argsort(-allowed, kind="stable")[:n_chosen], scores, n_devices)

    return choose_experts


def _best_two(scores: np.ndarray) -> float:
    return np.sort(scores)[-2:].sum()


def _one_from_each_device(scores, n_chosen, n_devices, n_devices_at_most):
    rows = scores.reshape(n_devices, -1)
    best = rows.argmax(1) + np.arange(n_devices) * rows.shape[1]
    return best[np.argsort(-scores[best])][:n_devices_at_most]


def _choice_case(about: str, scores: tuple[float, ...], *numbers: int) -> Case:
    names = ("n_chosen", "n_devices", "n_devices_at_most")
    given = {"scores": np.array(scores), **dict(zip(names, numbers, strict=True))}
    return Case(about=about, arguments=given)


_CHOOSE_EXPERTS = Exercise(
    name="choose-experts",
    asks=(
        "choose_experts(scores, n_chosen, n_devices, n_devices_at_most) → the numbers, from 0 on, "
        "of the n_chosen experts that a token uses, the one with the largest score first; scores "
        "has one number for each expert, perhaps below zero; experts stand on devices in runs of "
        "neighbours, equally many on each, and a token uses those n_devices_at_most devices whose "
        "best expert scores highest"
    ),
    definition=_choice,
    cases=(
        _choice_case(
            "three devices, two of which may be used",
            (0.4, 2.0, 0.1, 1.3, 1.1, 1.2, 1.0, 1.6, -3.0),
            4,
            3,
            2,
        ),
        _choice_case(
            "two runs of three, one of which may be used", (1.5, 0.2, 0.3, 1.4, 1.3, 1.2), 2, 2, 1
        ),
        _choice_case("one device", (0.3, -0.2, 0.7, 0.1, 0.5), 3, 1, 1),
        _choice_case(
            "four runs of two, three of which may be used",
            (0.2, 0.9, 1.4, -0.5, 0.8, 0.6, -0.3, 1.0),
            4,
            4,
            3,
        ),
        _choice_case("one expert on each device", (-0.5, 1.0, -0.8), 2, 3, 2),
    ),
    mistakes={
        "experts of more than n_devices_at_most = {at_most} devices are chosen: devices come "
        "first, and then the experts among theirs.": _choice_with(
            how_many=lambda n_devices, at_most: n_devices
        ),
        "a device counts by its best expert, not by the sum or the mean of all.": _choice_with(
            merit=np.sum
        ),
        "a device counts by its best expert alone; by the best two it does in DeepSeek-V3.": (
            _choice_with(merit=_best_two)
        ),
        "the first n_devices_at_most = {at_most} devices are taken: those with the best experts "
        "are meant.": _choice_with(merit=lambda scores: 0.0),
        "the devices with the worst best expert are taken.": _choice_with(
            merit=lambda scores: -scores.max()
        ),
        "a device counts by its worst expert: it is the best that counts.": _choice_with(
            merit=np.min
        ),
        "neighbours stand on different devices here: they stand on one, in runs.": _choice_with(
            device_of=lambda n_routed, n_devices: np.arange(n_routed) % n_devices
        ),
        "one device is used: n_devices_at_most = {at_most} may be.": _choice_with(
            how_many=lambda n_devices, at_most: 1
        ),
        "the score 0 stands for an expert elsewhere, and wins against scores below zero.": (
            _choice_with(elsewhere=0.0)
        ),
        "experts are called by their places on their own device: number them all in a row.": (
            _choice_with(after=lambda chosen, scores, n: chosen % (len(scores) // n))
        ),
        "those are the devices of the chosen experts: the experts are asked for.": _choice_with(
            after=lambda chosen, scores, n: chosen // (len(scores) // n)
        ),
        "those are the right experts in the order of their numbers: the one with the largest score "
        "stands first.": _choice_with(after=lambda chosen, *rest: np.sort(chosen)),
        "those are the right experts in the opposite order: the one with the largest score stands "
        "first.": _choice_with(after=lambda chosen, *rest: chosen[::-1]),
        "those are the scores of the chosen experts: their numbers are asked for.": _choice_with(
            after=lambda chosen, scores, n: scores[chosen]
        ),
        "experts are counted from 1 here: count from 0.": _choice_with(
            after=lambda chosen, *rest: chosen + 1
        ),
        "the experts with the smallest scores are taken.": lambda scores, n, *rest: np.argsort(
            scores
        )[:n],
        "one expert of each device is taken: n_chosen = {n_chosen} are asked for.": (
            _one_from_each_device
        ),
    },
    numbers=lambda arguments, *results: {
        "n_chosen": arguments["n_chosen"],
        "at_most": arguments["n_devices_at_most"],
    },
)


# --- balance ----------------------------------------------------------------------------------


def _balance(scores: np.ndarray, chosen: np.ndarray) -> float:
    return definitions.balance_loss(scores, chosen.tolist())


def _loads(chosen: np.ndarray, n_routed: int) -> np.ndarray:
    return np.bincount(chosen.ravel(), minlength=n_routed) * n_routed / chosen.size


def _balance_with(
    loads: Callable = lambda scores, chosen: _loads(chosen, scores.shape[1]),
    means: Callable = lambda scores, chosen: scores.mean(0),
    together: Callable = lambda loads, means: (loads * means).sum(),
) -> Callable:
    """A variant that has other loads or mean scores, or puts them together differently."""
    return lambda scores, chosen: together(loads(scores, chosen), means(scores, chosen))


def _scores_of_chosen(scores: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    mask = np.zeros_like(scores)
    np.put_along_axis(mask, chosen, 1.0, 1)
    return (mask * scores).mean(0)


def _shares(scores: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return np.bincount(chosen.ravel(), minlength=scores.shape[1]) / len(scores)


def _balance_case(about: str, n_tokens: int, n_routed: int, n_chosen: int) -> Case:
    scores = softmax(_RNG.normal(size=(n_tokens, n_routed)), axis=1)
    chosen = np.argsort(-scores, axis=1)[:, :n_chosen]
    return Case(about=about, arguments={"scores": scores, "chosen": chosen})


_BALANCE_LOSS = Exercise(
    name="balance-loss",
    asks=(
        "balance_loss(scores, chosen) → the sum, over the experts, of the load of each and its "
        "mean score, multiplied; scores (n, x) are those of n tokens for x experts, each row "
        "summing to one, chosen (n, x_c) the numbers of the experts that each token uses; the "
        "loads are 1 if all experts are used equally often"
    ),
    definition=_balance,
    cases=(
        _balance_case("five tokens that use two experts", 5, 6, 2),
        _balance_case("seven tokens that use one expert", 7, 3, 1),
        _balance_case("a single token", 1, 5, 3),
    ),
    mistakes={
        "the loads are shares of the n = {n_tokens} tokens: with x = {n_routed} experts and x_c = "
        "{n_chosen} of them for each token, a load of 1 must mean an even share.": _balance_with(
            loads=_shares
        ),
        "the value is divided by x = {n_routed}: loads sum to that, so that each is 1 if they are "
        "even, and products are added up, not averaged.": (
            _balance_with(
                loads=lambda scores, chosen: _loads(chosen, scores.shape[1]) / scores.shape[1]
            )
        ),
        "a token counts once for each of the x_c = {n_chosen} experts that it uses, and the loads "
        "are not divided by that.": _balance_with(
            loads=lambda scores, chosen: _loads(chosen, scores.shape[1]) * chosen.shape[1]
        ),
        "the loads are numbers of tokens, not even shares.": _balance_with(
            loads=lambda scores, chosen: len(scores) * _shares(scores, chosen)
        ),
        "the mean score of an expert is over all tokens: here only those count that use it.": (
            _balance_with(means=_scores_of_chosen)
        ),
        "the scores are added up over the tokens: their mean is meant.": _balance_with(
            means=lambda scores, chosen: scores.sum(0)
        ),
        "those are the loads times themselves: one factor is the mean score.": _balance_with(
            together=lambda loads, means: (loads * loads).sum() / len(loads)
        ),
        "those are the mean scores times themselves: one factor is the load.": _balance_with(
            together=lambda loads, means: len(means) * (means * means).sum()
        ),
        "only the first of the experts that a token uses counts for the loads.": _balance_with(
            loads=lambda scores, chosen: _loads(chosen[:, :1], scores.shape[1])
        ),
        "those are the products, one for each expert: they are added up.": _balance_with(
            together=lambda loads, means: loads * means
        ),
        "those are the loads.": _balance_with(together=lambda loads, means: loads),
        "those are the mean scores.": _balance_with(together=lambda loads, means: means),
        "1 is taken off: in this form the value is 1 if all loads are even.": _balance_with(
            together=lambda loads, means: (loads * means).sum() - 1
        ),
    },
    numbers=lambda arguments, *results: {
        "n_tokens": len(arguments["scores"]),
        "n_routed": arguments["scores"].shape[1],
        "n_chosen": arguments["chosen"].shape[1],
    },
)


# --- how many experts a batch meets -----------------------------------------------------------


def _met_with(
    missed: Callable = lambda x, x_c, n: (1 - x_c / x) ** n,
    total: Callable = lambda x, missed: x * (1 - missed),
) -> Callable:
    """A variant with another chance that an expert is used by nobody, or another use of it."""
    return lambda x, x_c, n: total(x, missed(x, x_c, n))


def _met_case(about: str, n_routed: int, n_chosen: int, n_tokens: int) -> Case:
    given = {"n_routed": n_routed, "n_chosen": n_chosen, "n_tokens": n_tokens}
    return Case(about=about, arguments=given)


_EXPERTS_MET = Exercise(
    name="experts-met",
    asks=(
        "experts_met(n_routed, n_chosen, n_tokens) → how many of n_routed experts are used by at "
        "least one token, on average, if each of n_tokens uses n_chosen different ones, every "
        "expert with the same chance, and tokens choose independently"
    ),
    definition=_met_with(),
    cases=(
        _met_case("two tokens", 10, 3, 2),
        _met_case("many tokens that use one expert each", 5, 1, 7),
        _met_case("one token", 7, 2, 1),
        _met_case("tokens that use all experts", 6, 6, 3),
        _met_case("more uses than experts", 9, 4, 5),
    ),
    mistakes={
        "an expert that several tokens use is counted several times.": lambda x, x_c, n: x_c * n,
        "that is the most that can be met, not the average.": lambda x, x_c, n: min(x, x_c * n),
        "that is one token: there are n_tokens = {n_tokens}.": lambda x, x_c, n: x_c,
        "the experts of one token are drawn one by one, and one may come twice: they are n_chosen "
        "= {n_chosen} different ones.": _met_with(lambda x, x_c, n: (1 - 1 / x) ** (x_c * n)),
        "each token is taken to use one expert: it uses n_chosen = {n_chosen}.": _met_with(
            lambda x, x_c, n: (1 - 1 / x) ** n
        ),
        "those are the experts that nobody uses.": _met_with(total=lambda x, missed: x * missed),
        "that is the chance of one expert to be used: there are n_routed = {n_routed}.": _met_with(
            total=lambda x, missed: 1 - missed
        ),
        "that is the chance of one expert to be used by nobody.": _met_with(
            total=lambda x, missed: missed
        ),
        "an expert is missed if no token uses it; here it is missed if all of them do.": _met_with(
            lambda x, x_c, n: (x_c / x) ** n
        ),
        "those are the experts that all tokens use: one token is enough.": lambda x, x_c, n: (
            x * (x_c / x) ** n
        ),
        "there is one token too few.": _met_with(lambda x, x_c, n: (1 - x_c / x) ** (n - 1)),
        "there is one token too many.": _met_with(lambda x, x_c, n: (1 - x_c / x) ** (n + 1)),
        "that is the limit for many experts; here it can be said exactly.": _met_with(
            lambda x, x_c, n: math.exp(-n * x_c / x)
        ),
        "an average need not be whole: here it is rounded.": lambda *given: round(
            _met_with()(*given)
        ),
        "an average need not be whole: here it is rounded down.": lambda *given: math.floor(
            _met_with()(*given)
        ),
        "an average need not be whole: here it is rounded up.": lambda *given: math.ceil(
            _met_with()(*given)
        ),
    },
    numbers=lambda arguments, *results: arguments,
)

EXERCISES = (_BREAK_EVEN, _CHOOSE_EXPERTS, _BALANCE_LOSS, _EXPERTS_MET)
