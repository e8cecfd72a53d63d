"""The judges of the chapter on language models, against what readers write."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlib import definitions, exercises
from attnlib.exercises import Mistake


def refused(name, function) -> str:
    with pytest.raises(Mistake) as caught:
        exercises.check(name, function)
    return str(caught.value)


def test_the_chapter_has_its_exercises():
    wanted = {"perplexity", "bits-per-byte", "token-loss", "temperature", "top-p", "min-p"}
    assert wanted | {"training-memory"} <= set(exercises.names())


# --- right functions, in NumPy and in torch -----------------------------------------------


def loss_of_torch(logits, targets, is_target):
    return F.cross_entropy(logits, targets.masked_fill(~is_target, -100))


def loss_in_numpy(logits, targets, is_target):
    surprises = np.log(np.exp(logits).sum(-1)) - logits[range(len(targets)), targets]
    return surprises[is_target].mean()


def top_p_with(keep=lambda total, p, mass: total - p < mass, descending=True, renormed=True):
    def top_p(p, mass):
        p_sorted, order = torch.sort(p, descending=descending, stable=True)
        kept = torch.zeros_like(p, dtype=torch.bool)
        kept[order] = keep(torch.cumsum(p_sorted, 0), p_sorted, mass)
        q = torch.where(kept, p, 0.0)
        return q / q.sum() if renormed else q

    return top_p


def top_p_by_loop(p, mass):
    q, total = np.zeros(len(p)), 0.0
    while total < mass:
        best = max((i for i in range(len(p)) if q[i] == 0), key=lambda i: p[i])
        q[best] = p[best]
        total += p[best]
    return q / q.sum()


@pytest.mark.parametrize(
    "name,function",
    [
        ("perplexity", lambda logs: np.exp(-np.mean(logs))),
        ("perplexity", lambda logs: torch.exp(-logs.mean())),
        ("perplexity", lambda logs: np.prod(np.exp(logs)) ** (-1 / len(logs))),
        ("bits-per-byte", lambda logs, n: -np.log2(np.exp(logs)).sum() / n),
        ("bits-per-byte", lambda logs, n: np.log2(definitions.perplexity(logs)) * len(logs) / n),
        ("token-loss", loss_of_torch),
        ("token-loss", loss_in_numpy),
        ("temperature", lambda z, temperature: torch.softmax(z / temperature, 0)),
        ("top-p", top_p_with()),
        ("top-p", top_p_by_loop),
        ("min-p", lambda p, share: (kept := np.where(p >= share * max(p), p, 0)) / kept.sum()),
        ("training-memory", lambda n, a, b: (4 * n + a) * b),
        ("training-memory", lambda n, a, b: torch.tensor(b * a + b * 4 * n)),
    ],
)
def test_other_right_functions_are_accepted(name, function, capsys):
    exercises.check(name, function)
    assert capsys.readouterr().out.startswith("Right: ")


# --- wrong functions, as readers write them -----------------------------------------------


@pytest.mark.parametrize(
    "name,function,says",
    [
        ("perplexity", lambda logs: 2 ** -logs.mean(), "two is raised to nats"),
        ("perplexity", lambda logs: torch.exp(-logs.sum()), "the logarithms are added up"),
        ("perplexity", lambda logs: -logs.mean(), "in nats for each token: the exponential"),
        ("perplexity", lambda logs: torch.exp(logs.mean()), "the sign is missing"),
        (
            "perplexity",
            lambda logs: np.exp(-logs.sum() / (len(logs) - 1)),
            "one token less than there are log-probabilities: every one of the 3 counts",
        ),
        ("bits-per-byte", lambda logs, n: -logs.sum() / n, "that is in nats"),
        (
            "bits-per-byte",
            lambda logs, n: -logs.mean() / np.log(2),
            "the bits are for each token, not for each byte",
        ),
        (
            "bits-per-byte",
            lambda logs, n: -logs.sum() / np.log(2),
            "that is the whole text: divide by its 9 bytes",
        ),
        (
            "token-loss",
            lambda z, y, counts: F.cross_entropy(z, y),
            "padding counts: is_target is not used",
        ),
        (
            "token-loss",
            lambda z, y, counts: (F.cross_entropy(z, y, reduction="none") * counts).mean(),
            "the mean is over all 5 positions: 3 count",
        ),
        (
            "token-loss",
            lambda z, y, counts: F.cross_entropy(z[counts], y[counts], reduction="sum"),
            "added up, not averaged",
        ),
        (
            "token-loss",
            lambda z, y, counts: F.cross_entropy(z.softmax(-1)[counts], y[counts]),
            "softmax is applied twice",
        ),
        (
            "token-loss",
            lambda z, y, counts: F.nll_loss(z[counts], y[counts]),
            "the softmax is missing",
        ),
        ("temperature", lambda z, temp: torch.softmax(z * temp, 0), "multiplied by the temper"),
        ("temperature", lambda z, temp: torch.softmax(z, 0) / temp, "they no longer sum to one"),
        ("temperature", lambda z, temp: torch.softmax(z.softmax(0) / temp, 0), "applied to proba"),
        (
            "temperature",
            lambda z, temp: np.exp(z / temp) / np.exp(z / temp).sum(),
            "is not taken off before the exponential",
        ),
        (
            "top-p",
            top_p_with(keep=lambda total, p, mass: total <= mass),
            "left out: what is kept must have 0.8 at least",
        ),
        (
            "top-p",
            top_p_with(keep=lambda total, p, mass: total - p <= mass),
            "where the mass is met exactly, one token more is kept",
        ),
        ("top-p", top_p_with(descending=False), "the least likely first"),
        ("top-p", top_p_with(renormed=False), "what is kept does not sum to one"),
        (
            "top-p",
            lambda p, mass: (kept := p * (np.cumsum(p) - p < mass)) / kept.sum(),
            "in the order of the vocabulary",
        ),
        (
            "top-p",
            lambda p, mass: torch.sort(top_p_with()(p, mass), descending=True).values,
            "each probability belongs back at its token",
        ),
        (
            "min-p",
            lambda p, share: (kept := np.where(p >= share, p, 0)) / kept.sum(),
            "the share itself, 0.25: the threshold is that share of the largest probability, 0.5",
        ),
        (
            "min-p",
            lambda p, share: (kept := np.where(p > share * p.max(), p, 0)) / kept.sum(),
            "a token at the threshold is left out",
        ),
        ("min-p", lambda p, share: np.where(p >= share * p.max(), p, 0), "does not sum to one"),
        ("training-memory", lambda n, a, b: 3 * n * b + a * b, "it keeps two"),
        ("training-memory", lambda n, a, b: 4 * n + a, "those are numbers, not bytes: each has 4"),
        ("training-memory", lambda n, a, b: 4 * n * b, "the activations are missing"),
    ],
)
def test_what_readers_write_is_told_with_the_numbers_of_the_case(name, function, says):
    assert says in refused(name, function)


SOLUTIONS = {
    "perplexity": ["exp(−", "exp(-", "e to the power of less"],
    "bits-per-byte": ["/ (n_bytes", "log2("],
    "token-loss": ["[is_target]", "log_softmax", "nll"],
    "temperature": ["exp(", "/ temperature"],
    "top-p": ["cumsum", "cumulative", "sort("],
    "min-p": ["max(", ">= "],
    "training-memory": ["4 N", "4·n", "16 bytes", "(4"],
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_no_message_holds_the_solution(name):
    exercise = exercises.judge(name)
    for text in (exercise.asks, *exercise.mistakes):
        for code in ("np.", "torch.", "einsum", "return x", " @ ", "lambda", *SOLUTIONS[name]):
            assert code not in text


def test_the_cases_of_top_p_are_what_they_say():
    exercise = exercises.judge("top-p")
    kept = [np.flatnonzero(exercise.definition(*c.arguments.values())) for c in exercise.cases]
    assert [k.tolist() for k in kept] == [[0, 1, 3], [0, 1], [1], [0, 1], [0, 1, 2, 3]]
    exact = exercise.cases[1].arguments
    assert exact["p"][[0, 1]].sum() == exact["mass"]


def test_the_memory_agrees_with_the_definition_of_the_chapter():
    exercise = exercises.judge("training-memory")
    for case in exercise.cases:
        n, a, n_bytes = case.arguments.values()
        kinds = ("weight", "gradient", "moment", "activation")
        each = {f"bytes_per_{kind}": n_bytes for kind in kinds}
        assert exercise.definition(n, a, n_bytes) == definitions.training_memory_bytes(n, a, **each)
