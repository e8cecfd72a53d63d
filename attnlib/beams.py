r"""Beam search: several beginnings of a continuation are kept, and the likeliest of all goes on.

Source   Sutskever et al. 2014, arXiv:1409.3215, section 3.2
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py

What is sought is the continuation with the largest sum of log-probabilities,

$$\log p(w_{t+1}, \dots, w_{t+n} \mid w_1, \dots, w_t) = \sum_{i=1}^{n} \log p(w_{t+i} \mid w_1,
\dots, w_{t+i-1}),$$

of which greedy generation looks at one. With K beams each step continues the K best beginnings by
all v tokens and keeps the K best of these K·v. The keys and values of a beam are those of the beam
that it came from, so that the cache is reordered in every step: `reorder` is for this.

    >>> from attnlib import PUBLISHED
    >>> from dataclasses import replace
    >>> sizes = replace(PUBLISHED["gpt-2"], n_layers=1, vocabulary=11, context=16)
    >>> model = LanguageModel(sizes)
    >>> beams = beam_search(model, [3, 1, 4], 5, 2)
    >>> [len(beam.tokens) for beam in beams], beams[0].log_probability >= beams[1].log_probability
    ([5, 5], True)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from attnlib.caches import ModelCache
from attnlib.models import EncoderDecoder, LanguageModel
from attnlib.require import at_least, between
from attnlib.sampling import check_choice
from attnlib.token_checks import list_of_ids
from attnlib.token_rows import check_model, check_room, in_mode, rows_of

__all__ = ["Beam", "beam_search"]


@dataclass(frozen=True, kw_only=True)
class Beam:
    """A continuation, and how likely it is.

    Args:
        tokens: Its ids; the one that ends it is the last.
        log_probability: In nats, summed over these tokens.
        ended: Whether a token of `stop` ended it.
    """

    tokens: list[int]
    log_probability: float
    ended: bool = False


def beam_search(
    model: LanguageModel | EncoderDecoder,
    tokens: Sequence[int] | Int[Tensor, "t"],
    n_new: int,
    n_beams: int,
    *,
    source: Sequence[int] | Int[Tensor, "s"] | None = None,
    stop: Sequence[int] = (),
) -> list[Beam]:
    """Look for the likeliest continuation of a row among those that begin as one of the best.

    One beam is greedy generation, and with as many beams as there are beginnings the search is
    exhaustive. A beam that has ended is kept as it is for as long as it is among the best. Nothing
    is divided by a length: short continuations are likelier.

    Args:
        model: A language model, or an encoder–decoder with a source.
        tokens: What the row begins with, at least one token.
        n_new: The most new tokens, from 0.
        n_beams: K, from 1.
        source: What an encoder–decoder translates.
        stop: The ids that end a beam.

    Returns:
        Up to K beams, the likeliest first; of equally likely ones that with the better beginning,
        then the one with the lower id.

    Raises:
        TypeError: If an argument is of another kind than that.
        ValueError: If there is no token or one outside the vocabulary, a number is outside its
            range, a source is missing or without use, or the context is too short.
        FloatingPointError: As `generate`.
    """
    check_model(model, source, None)
    v = model.sizes.vocabulary
    (row,) = rows_of("tokens", [list_of_ids(tokens, "tokens")], None, v)
    sources = (
        None if source is None else rows_of("source", [list_of_ids(source, "source")], None, v)
    )
    n_new, n_beams = at_least("n_new", n_new, 0), at_least("n_beams", n_beams, 1)
    ends = {between("an id of stop", x, 0, v - 1) for x in list_of_ids(stop, "stop")}
    check_room(len(row), n_new, model.sizes.context)
    beams = [Beam(tokens=[], log_probability=0.0)]
    with in_mode(model, False), torch.inference_mode():
        cache = _new_cache(model, sources)
        chunks = [row]
        for step in range(1, n_new + 1):
            running = [beam for beam in beams if not beam.ended]
            log_p = _log_probabilities(model, chunks, cache, step)
            beams, parents = _best(beams, running, log_p, n_beams, ends)
            if not parents:
                break
            cache.reorder(parents)
            chunks = [beam.tokens[-1:] for beam in beams if not beam.ended]
    return beams


def _best(
    beams: list[Beam], running: list[Beam], log_p: Tensor, n_beams: int, ends: set[int]
) -> tuple[list[Beam], list[int]]:
    """The best of what has ended and of all continuations; and from which row each running came."""
    so_far = torch.tensor([beam.log_probability for beam in running], dtype=torch.float64)
    totals = so_far[:, None] + log_p
    order = totals.flatten().sort(descending=True, stable=True).indices[:n_beams].tolist()
    candidates = [(beam, None) for beam in beams if beam.ended]
    for i in order:
        parent, token = divmod(i, log_p.shape[1])
        new = Beam(
            tokens=[*running[parent].tokens, token],
            log_probability=totals[parent, token].item(),
            ended=token in ends,
        )
        candidates.append((new, parent))
    best = sorted(candidates, key=lambda pair: -pair[0].log_probability)[:n_beams]
    kept = [pair for pair in best if pair[0].log_probability > -torch.inf]
    return [beam for beam, _ in kept], [parent for beam, parent in kept if not beam.ended]


def _new_cache(
    model: LanguageModel | EncoderDecoder, sources: list[list[int]] | None
) -> ModelCache:
    if sources is None:
        return model.new_cache()
    return model.new_cache(torch.tensor(sources, device=next(model.parameters()).device))


def _log_probabilities(
    model: LanguageModel | EncoderDecoder, chunks: list[list[int]], cache: ModelCache, step: int
) -> Tensor:
    """Of what follows each chunk, in fp64 on the CPU, so that all are summed alike."""
    tokens = torch.tensor(chunks, device=next(model.parameters()).device)
    read = model.decode if isinstance(model, EncoderDecoder) else model
    logits_bv = read(tokens, cache=cache)[:, -1].cpu().double()
    check_choice(logits_bv, range(len(chunks)), step)
    return logits_bv.log_softmax(-1)
