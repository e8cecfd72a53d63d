"""The exercises of the chapter on language models: definitions, cases and known mistakes.

Source   attnlib/definitions/of_language.py; the mistakes are those that readers and reports make
Chapter  chapters/language-models.md
Axes     attnlib/axes.py
"""

from collections.abc import Callable

import numpy as np

from attnlib import definitions
from attnlib.exercises.judge import Case, Exercise
from attnlib.exercises.steps import softmax

_RNG = np.random.default_rng(1904_09751)


# --- perplexity -------------------------------------------------------------------------------


def _log_case(about: str, probabilities: list[float], **more: int) -> Case:
    return Case(about=about, arguments={"log_probabilities": np.log(probabilities), **more})


_PERPLEXITY = Exercise(
    name="perplexity",
    asks=(
        "perplexity(log_probabilities) → the perplexity of a text whose tokens have these natural "
        "logarithms of probabilities (t,)"
    ),
    definition=definitions.perplexity,
    cases=(
        _log_case("probabilities of two sizes", [0.5, 0.5, 0.125]),
        _log_case("probabilities that differ much", [0.9, 0.01, 0.3, 0.05]),
        _log_case("a single token", [0.2]),
    ),
    mistakes={
        "two is raised to nats: natural logarithms go with e.": lambda log_probabilities: (
            2.0 ** -log_probabilities.mean()
        ),
        "the logarithms are added up, not averaged: that is one over the probability of the whole "
        "text.": lambda log_probabilities: np.exp(-log_probabilities.sum()),
        "the sign is missing: that is one over the perplexity.": lambda log_probabilities: np.exp(
            log_probabilities.mean()
        ),
        "that is the loss, in nats for each token: the exponential is missing.": (
            lambda log_probabilities: -log_probabilities.mean()
        ),
        "that is the loss, in bits for each token: the exponential is missing.": (
            lambda log_probabilities: -log_probabilities.mean() / np.log(2)
        ),
        "the logarithms are divided by log 2, and then e is raised to bits: one base for both.": (
            lambda log_probabilities: np.exp(-log_probabilities.mean() / np.log(2))
        ),
        "one over the probability is averaged: it is the logarithms whose mean is taken.": (
            lambda log_probabilities: np.exp(-log_probabilities).mean()
        ),
        "that is one over the mean probability: it is the logarithms whose mean is taken.": (
            lambda log_probabilities: 1 / np.exp(log_probabilities).mean()
        ),
        "the sum is divided by one token less than there are log-probabilities: every one of the "
        "{t} counts.": lambda log_probabilities: np.exp(
            -log_probabilities.sum() / (len(log_probabilities) - 1)
        ),
    },
    numbers=lambda arguments, *results: {"t": len(arguments["log_probabilities"])},
)


# --- bits per byte ----------------------------------------------------------------------------


def _bits(log_probabilities: np.ndarray) -> float:
    return -log_probabilities.sum() / np.log(2)


_BITS_PER_BYTE = Exercise(
    name="bits-per-byte",
    asks=(
        "bits_per_byte(log_probabilities, n_bytes) → the bits for each byte of a text of n_bytes "
        "bytes whose tokens have these natural logarithms of probabilities (t,)"
    ),
    definition=definitions.bits_per_byte,
    cases=(
        _log_case("three bytes a token", [0.5, 0.5, 0.125], n_bytes=9),
        _log_case("tokens that are bytes", [0.9, 0.01, 0.3, 0.05], n_bytes=4),
        _log_case("a single token", [0.2], n_bytes=7),
    ),
    mistakes={
        "that is in nats: a bit is log 2 nats.": lambda log_probabilities, n_bytes: (
            -log_probabilities.sum() / n_bytes
        ),
        "the nats are multiplied by log 2, not divided.": lambda log_probabilities, n_bytes: (
            -log_probabilities.sum() * np.log(2) / n_bytes
        ),
        "the bits are for each token, not for each byte.": lambda log_probabilities, n_bytes: (
            _bits(log_probabilities) / len(log_probabilities)
        ),
        "the bits for each token are divided by the bytes of the whole text.": (
            lambda log_probabilities, n_bytes: (
                _bits(log_probabilities) / len(log_probabilities) / n_bytes
            )
        ),
        "the bits for each token are multiplied by the bytes for each token; divide.": (
            lambda log_probabilities, n_bytes: (
                _bits(log_probabilities) * n_bytes / len(log_probabilities) ** 2
            )
        ),
        "that is the whole text: divide by its {n_bytes} bytes.": (
            lambda log_probabilities, n_bytes: _bits(log_probabilities)
        ),
        "the sign is missing: a text needs a positive number of bits.": (
            lambda log_probabilities, n_bytes: -_bits(log_probabilities) / n_bytes
        ),
        "a byte has eight bits, but they are no part of this: the model's bits are counted, for "
        "each byte.": lambda log_probabilities, n_bytes: _bits(log_probabilities) / (8 * n_bytes),
        "that is two to the power of it, a perplexity for each byte.": (
            lambda log_probabilities, n_bytes: 2 ** (_bits(log_probabilities) / n_bytes)
        ),
    },
    numbers=lambda arguments, *results: arguments,
)


# --- the loss ---------------------------------------------------------------------------------


def _surprises(logits: np.ndarray, targets: np.ndarray, axis: int = -1) -> np.ndarray:
    return -np.log(softmax(logits, axis))[np.arange(len(targets)), targets]


def _loss_case(about: str, t: int, v: int, is_target: list[int]) -> Case:
    return Case(
        about=about,
        arguments={
            "logits": 2 * _RNG.normal(size=(t, v)),
            "targets": _RNG.permutation(np.arange(t) % (v - 1)),
            "is_target": np.array(is_target, dtype=bool),
        },
    )


def _loss_with(together: Callable) -> Callable:
    def loss(logits, targets, is_target):
        return together(_surprises(logits, targets), is_target)

    return loss


_TOKEN_LOSS = Exercise(
    name="token-loss",
    asks=(
        "loss(logits, targets, is_target) → the mean surprise in nats at the right token targets "
        "(t,) under logits (t, v), over the targets where is_target (t,) is True"
    ),
    definition=definitions.cross_entropy,
    cases=(
        _loss_case("padding at the end", 5, 4, [1, 1, 1, 0, 0]),
        _loss_case("padding at the beginning", 4, 6, [0, 1, 1, 1]),
        _loss_case("no padding", 3, 5, [1, 1, 1]),
    ),
    mistakes={
        "padding counts: is_target is not used.": _loss_with(
            lambda surprises, is_target: surprises.mean()
        ),
        "padding is left out of the sum, but the mean is over all {t} positions: {n} count.": (
            _loss_with(lambda surprises, is_target: (surprises * is_target).mean())
        ),
        "the surprises are added up, not averaged.": _loss_with(
            lambda surprises, is_target: surprises[is_target].sum()
        ),
        "the surprises are not averaged, one stands for each target.": _loss_with(
            lambda surprises, is_target: surprises[is_target]
        ),
        "is_target is read the wrong way round: only padding counts.": _loss_with(
            lambda surprises, is_target: surprises[~is_target].mean()
        ),
        "that is in bits: nats are asked for.": _loss_with(
            lambda surprises, is_target: surprises[is_target].mean() / np.log(2)
        ),
        "the sign is missing: surprise is positive.": _loss_with(
            lambda surprises, is_target: -surprises[is_target].mean()
        ),
        "that is the perplexity, e to the power of the loss.": _loss_with(
            lambda surprises, is_target: np.exp(surprises[is_target].mean())
        ),
        "the softmax is missing: the logits at the right tokens are averaged.": (
            lambda logits, targets, is_target: (
                -logits[np.arange(len(targets)), targets][is_target].mean()
            )
        ),
        "the logarithm is missing: the probabilities of the right tokens are averaged.": (
            lambda logits, targets, is_target: np.exp(-_surprises(logits, targets))[
                is_target
            ].mean()
        ),
        "the logarithm is taken of the mean: it is the logarithms whose mean is taken.": (
            lambda logits, targets, is_target: (
                -np.log(np.exp(-_surprises(logits, targets))[is_target].mean())
            )
        ),
        "the softmax is over the positions: it belongs over the {v} tokens of the vocabulary.": (
            lambda logits, targets, is_target: _surprises(logits, targets, 0)[is_target].mean()
        ),
        "softmax is applied twice, as where a loss that has its own is given probabilities.": (
            lambda logits, targets, is_target: _surprises(softmax(logits), targets)[
                is_target
            ].mean()
        ),
        "the targets are shifted once more: here targets[t] is the answer at logits[t] already.": (
            lambda logits, targets, is_target: _surprises(logits, np.roll(targets, -1))[
                is_target
            ].mean()
        ),
        "the mean is over all {v} tokens of the vocabulary, not at the right one.": (
            lambda logits, targets, is_target: -np.log(softmax(logits))[is_target].mean()
        ),
    },
    numbers=lambda arguments, *results: {
        "t": arguments["logits"].shape[0],
        "v": arguments["logits"].shape[1],
        "n": int(arguments["is_target"].sum()),
    },
)


# --- temperature ------------------------------------------------------------------------------


def _temper_case(about: str, logits: list[float], temperature: float) -> Case:
    return Case(about=about, arguments={"logits": np.array(logits), "temperature": temperature})


_TEMPERATURE = Exercise(
    name="temperature",
    asks=(
        "temper(logits, temperature) → the probabilities (v,) of the next token: the softmax of "
        "the logits (v,) over the temperature"
    ),
    definition=definitions.temper,
    cases=(
        _temper_case("a low temperature", [2.0, -1.0, 0.5, 0.0], 0.5),
        _temper_case("a high temperature", [1.0, 3.0, -2.0], 4.0),
        _temper_case("a token that must not come", [0.5, -np.inf, 2.0, 1.0, -1.0], 2.0),
        _temper_case("a temperature of one, large logits", [900.0, 901.0], 1.0),
    ),
    mistakes={
        "the logits are multiplied by the temperature, not divided: high and low have changed "
        "places.": lambda logits, temperature: softmax(temperature * logits),
        "the temperature is not used.": lambda logits, temperature: softmax(logits),
        "the probabilities are divided by the temperature, after the softmax: they no longer sum "
        "to one.": lambda logits, temperature: softmax(logits) / temperature,
        "softmax is applied to probabilities over the temperature: it belongs on the logits, "
        "once.": lambda logits, temperature: softmax(softmax(logits) / temperature),
        "the softmax is missing: those are logits.": lambda logits, temperature: (
            logits / temperature
        ),
        "those are the logarithms of the probabilities.": lambda logits, temperature: np.log(
            softmax(logits / temperature)
        ),
        "the logits are divided by the root of the temperature.": lambda logits, temperature: (
            softmax(logits / np.sqrt(temperature))
        ),
        "the probabilities are raised to a power, but do not sum to one.": (
            lambda logits, temperature: softmax(logits) ** (1 / temperature)
        ),
        "the largest logit is not taken off before the exponential, which overflows.": (
            lambda logits, temperature: (
                np.exp(logits / temperature) / np.exp(logits / temperature).sum()
            )
        ),
    },
)


# --- the smallest set of a mass ---------------------------------------------------------------


def _in_order(p: np.ndarray) -> np.ndarray:
    """The likeliest first; of equal ones the lower."""
    return np.argsort(-p, kind="stable")


def _shared(p: np.ndarray, kept: np.ndarray) -> np.ndarray:
    return np.where(kept, p, 0.0) / p[kept].sum()


def _top_with(
    keeps: Callable = lambda p_sorted, before, mass: (before < mass) | (mass >= 1),
    order: Callable = _in_order,
    together: Callable = _shared,
) -> Callable:
    """A variant of top-p that differs in what it keeps, in its order, or in the result."""

    def top_p(p, mass):
        tokens = order(p)
        before = np.cumsum(p[tokens]) - p[tokens]
        kept = np.zeros(len(p), dtype=bool)
        kept[tokens[keeps(p[tokens], before, mass)]] = True
        return together(p, kept)

    return top_p


def _chosen_case(about: str, p: list[float], **more: float) -> Case:
    return Case(about=about, arguments={"p": np.array(p), **more})


_TOP_P = Exercise(
    name="top-p",
    asks=(
        "top_p(p, mass) → the probabilities (v,) after top-p: the fewest likeliest tokens of p "
        "(v,) whose probabilities add up to the mass at least are kept, of equal ones the lower "
        "first, and they share what the others had; a mass of 1 keeps all"
    ),
    definition=definitions.top_p,
    cases=(
        _chosen_case("likely tokens between others", [0.125, 0.5, 0.0625, 0.25, 0.0625], mass=0.8),
        _chosen_case("a mass that is met exactly", [0.25, 0.5, 0.125, 0.125], mass=0.75),
        _chosen_case("a token that has the mass alone", [0.125, 0.75, 0.125], mass=0.5),
        _chosen_case("equal tokens at the border", [0.25, 0.25, 0.25, 0.125, 0.125], mass=0.4),
        _chosen_case("all of the mass", [0.25, 0.0625, 0.5, 0.1875], mass=1.0),
    ),
    mistakes={
        "the token that crosses the mass is left out: what is kept must have {mass} at least.": (
            _top_with(keeps=lambda p_sorted, before, mass: before + p_sorted <= mass)
        ),
        "the token that crosses the mass is left out, unless it is the likeliest: what is kept "
        "must have {mass} at least.": _top_with(
            keeps=lambda p_sorted, before, mass: (before + p_sorted <= mass) | (before == 0)
        ),
        "where the mass is met exactly, one token more is kept than needed.": _top_with(
            keeps=lambda p_sorted, before, mass: before <= mass
        ),
        "one token more is kept than needed.": _top_with(
            keeps=lambda p_sorted, before, mass: before - np.append(0.0, p_sorted[:-1]) < mass
        ),
        "what is kept does not sum to one: divide by its sum.": _top_with(
            together=lambda p, kept: np.where(kept, p, 0.0)
        ),
        "what is kept goes through a softmax again; it is divided by its sum.": _top_with(
            together=lambda p, kept: softmax(np.where(kept, p, -np.inf))
        ),
        "the tokens are taken in the order of the vocabulary, not the likeliest first.": _top_with(
            order=lambda p: np.arange(len(p))
        ),
        "the tokens are taken with the least likely first.": _top_with(
            order=lambda p: np.argsort(p, kind="stable")
        ),
        "the result stands with the likeliest first: each probability belongs back at its "
        "token.": lambda p, mass: -np.sort(-definitions.top_p(p, mass)),
        "of equal tokens at the border the higher one is kept: the lower comes first.": _top_with(
            order=lambda p: np.argsort(p, kind="stable")[::-1]
        ),
        "all tokens that equal the last one needed are kept: of equal ones the lower first, until "
        "the mass is met.": _top_with(
            keeps=lambda p_sorted, before, mass: p_sorted >= p_sorted[before < mass].min()
        ),
        "each token is compared with the mass: it is their sum that must reach it.": _top_with(
            keeps=lambda p_sorted, before, mass: p_sorted >= mass
        ),
        "each token is compared with one less the mass: it is their sum that must reach it.": (
            _top_with(keeps=lambda p_sorted, before, mass: p_sorted >= 1 - mass)
        ),
        "the tokens that are kept all have the same probability: they keep their proportions.": (
            _top_with(together=lambda p, kept: kept / kept.sum())
        ),
    },
    numbers=lambda arguments, *results: arguments,
)


# --- a share of the likeliest -----------------------------------------------------------------


def _above(threshold: Callable) -> Callable:
    """A variant of min-p that keeps what reaches another threshold."""
    return lambda p, share: _shared(p, p >= threshold(p, share))


_MIN_P = Exercise(
    name="min-p",
    asks=(
        "min_p(p, share) → the probabilities (v,) after min-p: the tokens of p (v,) that have at "
        "least this share of what the likeliest has are kept, and they share what the others had"
    ),
    definition=definitions.min_p,
    cases=(
        _chosen_case("a token at the threshold", [0.25, 0.5, 0.125, 0.0625, 0.0625], share=0.25),
        _chosen_case("flat probabilities", [0.25, 0.3125, 0.25, 0.1875], share=0.7),
        _chosen_case("two likeliest tokens, and all of the share", [0.375, 0.25, 0.375], share=1.0),
        _chosen_case("a small share", [0.75, 0.125, 0.0625, 0.03125, 0.03125], share=0.05),
    ),
    mistakes={
        "each token is compared with the share itself, {share}: the threshold is that share of the "
        "largest probability, {largest}.": _above(lambda p, share: share),
        "a token at the threshold is left out: at least the share is asked for.": lambda p, share: (
            _shared(p, p > share * p.max())
        ),
        "the threshold is a share of the mean probability, not of the largest.": _above(
            lambda p, share: share * p.mean()
        ),
        "the threshold is a share of the smallest probability, not of the largest.": _above(
            lambda p, share: share * p.min()
        ),
        "the threshold is one less the share, times the largest.": _above(
            lambda p, share: (1 - share) * p.max()
        ),
        "the largest is divided by the share, not multiplied with it.": _above(
            lambda p, share: p.max() / share
        ),
        "what is kept does not sum to one: divide by its sum.": lambda p, share: np.where(
            p >= share * p.max(), p, 0.0
        ),
        "what is kept goes through a softmax again; it is divided by its sum.": lambda p, share: (
            softmax(np.where(p >= share * p.max(), p, -np.inf))
        ),
        "that is top-p: here a share of the likeliest is asked for, no mass.": lambda p, share: (
            definitions.top_p(p, share)
        ),
        "the wrong side is kept: the tokens below the threshold.": lambda p, share: _shared(
            p, p < share * p.max()
        ),
        "only the likeliest is kept.": _above(lambda p, share: p.max()),
    },
    numbers=lambda arguments, *results: {
        "share": arguments["share"],
        "largest": arguments["p"].max(),
    },
)


# --- the memory of training -------------------------------------------------------------------


def _bytes_with(
    n_of_parameters: int = 4, n_of_activations: int = 1, in_bytes: bool = True
) -> Callable:
    """A variant that counts so many numbers for each parameter and each activation."""

    def training_bytes(n_parameters, n_activations, bytes_per_number):
        n_numbers = n_of_parameters * n_parameters + n_of_activations * n_activations
        return n_numbers * (bytes_per_number if in_bytes else 1)

    return training_bytes


def _memory_case(about: str, n: int, a: int, n_bytes: int) -> Case:
    names = ("n_parameters", "n_activations", "bytes_per_number")
    return Case(about=about, arguments=dict(zip(names, (n, a, n_bytes), strict=True)))


_TRAINING_MEMORY = Exercise(
    name="training-memory",
    asks=(
        "training_bytes(n_parameters, n_activations, bytes_per_number) → the bytes that training "
        "with Adam keeps: weights, gradients, Adam's two moments, and the activations"
    ),
    definition=_bytes_with(),
    cases=(
        _memory_case("float32", 1000, 300, 4),
        _memory_case("half precision throughout", 70, 9000, 2),
        _memory_case("no activations", 11, 0, 8),
    ),
    mistakes={
        "Adam is counted with one moment: it keeps two, of the gradient and of its square.": (
            _bytes_with(3)
        ),
        "that is what the model alone needs, weights and activations: gradients and moments are "
        "missing.": _bytes_with(1),
        "Adam is counted with one moment, and the activations are missing.": _bytes_with(3, 0),
        "weights and gradients are there; Adam's moments are missing.": _bytes_with(2),
        "the activations are missing.": _bytes_with(4, 0),
        "that is the weights alone.": _bytes_with(1, 0),
        "weights and gradients are there; the moments and the activations are missing.": (
            _bytes_with(2, 0)
        ),
        "one number a parameter too many: weights, gradients and two moments are four.": (
            _bytes_with(5)
        ),
        "the activations are counted twice: their gradients are used up as they come.": (
            _bytes_with(4, 2)
        ),
        "each activation is counted four times: only parameters have gradients and moments that "
        "are kept.": _bytes_with(4, 4),
        "those are numbers, not bytes: each has {bytes_per_number}.": _bytes_with(in_bytes=False),
        "those are bits.": lambda *given: 8 * _bytes_with()(*given),
        "those are gigabytes: bytes are asked for.": lambda *given: _bytes_with()(*given) / 1e9,
    },
    numbers=lambda arguments, *results: arguments,
)

EXERCISES = (
    _PERPLEXITY,
    _BITS_PER_BYTE,
    _TOKEN_LOSS,
    _TEMPERATURE,
    _TOP_P,
    _MIN_P,
    _TRAINING_MEMORY,
)
