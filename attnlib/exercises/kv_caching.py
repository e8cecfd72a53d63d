"""The exercises of the chapter on the KV cache: definitions, cases and known mistakes.

Source   attnlib/definitions/of_caches.py; the mistakes are those that readers and libraries make
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnlib import definitions
from attnlib.exercises.exact import ExactExercise
from attnlib.exercises.judge import Case, Exercise
from attnlib.exercises.steps import softmax

_RNG = np.random.default_rng(2211_05102)


# --- the pairs of generation ------------------------------------------------------------------


def _pairs_with(
    passes: Callable = lambda n, n_prompt, cached: range(n_prompt, n_prompt + n),
    of_cached: Callable = lambda n_tokens, n_prompt: (
        n_tokens if n_tokens > n_prompt else n_tokens * (n_tokens + 1) // 2
    ),
    of_uncached: Callable = lambda n_tokens: n_tokens * (n_tokens + 1) // 2,
) -> Callable:
    """A variant that has other passes, or counts other pairs in one."""

    def pairs(n, n_prompt, cached):
        lengths = passes(n, n_prompt, cached)
        if cached:
            return sum(of_cached(n_tokens, n_prompt) for n_tokens in lengths)
        return sum(of_uncached(n_tokens) for n_tokens in lengths)

    return pairs


def _pairs_case(about: str, n: int, n_prompt: int, cached: bool) -> Case:
    return Case(about=about, arguments={"n": n, "n_prompt": n_prompt, "cached": cached})


_GENERATION_PAIRS = Exercise(
    name="generation-pairs",
    asks=(
        "pairs(n, n_prompt, cached) → how many pairs of a target and a source one causal layer "
        "multiplies to generate n tokens after n_prompt, with a cache or without; only pairs that "
        "may be read are multiplied"
    ),
    definition=definitions.generation_pairs,
    cases=(
        _pairs_case("three tokens with a cache", 3, 5, True),
        _pairs_case("three tokens without a cache", 3, 5, False),
        _pairs_case("a prompt of one token, with a cache", 4, 1, True),
        _pairs_case("a prompt of one token, without a cache", 4, 1, False),
        _pairs_case("one new token, with a cache", 1, 6, True),
        _pairs_case("one new token, without a cache", 1, 6, False),
    ),
    mistakes={
        "there is one pass too many: the prompt's pass gives the first new token, and the last new "
        "token is not processed.": _pairs_with(
            passes=lambda n, n_prompt, cached: range(n_prompt, n_prompt + n + 1)
        ),
        "there is one pass too few: each of the {n} new tokens needs one, the first that of the "
        "prompt.": _pairs_with(
            passes=lambda n, n_prompt, cached: range(n_prompt, n_prompt + n - 1)
        ),
        "the prompt's own pass is missing, and the last new token is processed though nothing "
        "follows it.": _pairs_with(
            passes=lambda n, n_prompt, cached: range(n_prompt + 1, n_prompt + n + 1)
        ),
        "without a cache, there is one pass too many: the last new token is not processed.": (
            _pairs_with(
                passes=lambda n, n_prompt, cached: range(
                    n_prompt, n_prompt + n + (0 if cached else 1)
                )
            )
        ),
        "without a cache, each pass has one token too many: the first is over the prompt alone.": (
            _pairs_with(
                passes=lambda n, n_prompt, cached: (
                    range(n_prompt, n_prompt + n)
                    if cached
                    else range(n_prompt + 1, n_prompt + n + 1)
                )
            )
        ),
        "without a cache, pairs that may not be read are counted too: a causal target reads itself "
        "and what stands before it.": _pairs_with(of_uncached=lambda n_tokens: n_tokens * n_tokens),
        "the prompt is taken to be a single token: it has {n_prompt}.": (
            lambda n, n_prompt, cached: definitions.generation_pairs(n, 1, cached)
        ),
        "the cache makes no difference: with one, a pass has a single target but for the first.": (
            lambda n, n_prompt, cached: definitions.generation_pairs(n, n_prompt, False)
        ),
        "without a cache all tokens are targets again in every pass.": (
            lambda n, n_prompt, cached: definitions.generation_pairs(n, n_prompt, True)
        ),
        "cached and uncached have changed places.": lambda n, n_prompt, cached: (
            definitions.generation_pairs(n, n_prompt, not cached)
        ),
        "pairs that may not be read are counted too: a causal target reads itself and what stands "
        "before it.": _pairs_with(
            of_cached=lambda n_tokens, n_prompt: (
                n_tokens if n_tokens > n_prompt else n_tokens * n_tokens
            ),
            of_uncached=lambda n_tokens: n_tokens * n_tokens,
        ),
        "a target reads itself too.": _pairs_with(
            of_cached=lambda n_tokens, n_prompt: (
                n_tokens - 1 if n_tokens > n_prompt else n_tokens * (n_tokens - 1) // 2
            ),
            of_uncached=lambda n_tokens: n_tokens * (n_tokens - 1) // 2,
        ),
        "with a cache, a step's target reads itself too.": _pairs_with(
            of_cached=lambda n_tokens, n_prompt: (
                n_tokens - 1 if n_tokens > n_prompt else n_tokens * (n_tokens + 1) // 2
            )
        ),
        "with a cache, the pairs of the prompt are missing: its tokens are processed once.": (
            _pairs_with(of_cached=lambda n_tokens, n_prompt: n_tokens if n_tokens > n_prompt else 0)
        ),
        "with a cache, the prompt is counted as one target: it has {n_prompt}, all of them new.": (
            _pairs_with(of_cached=lambda n_tokens, n_prompt: n_tokens)
        ),
        "those are tokens that are processed, not pairs.": definitions.generation_tokens,
        "only the last target of each pass is counted, with or without a cache.": _pairs_with(
            of_cached=lambda n_tokens, n_prompt: n_tokens, of_uncached=lambda n_tokens: n_tokens
        ),
        "each pair is counted twice: a pair is asked for, not its FLOPs.": lambda *given: (
            2 * definitions.generation_pairs(*given)
        ),
    },
    numbers=lambda arguments, *results: arguments,
)


# --- a step with a cache ----------------------------------------------------------------------


def _cached_step(q, k_new, v_new, cache):
    keys, values = np.vstack([cache[0], k_new]), np.vstack([cache[1], v_new])
    return definitions.attention(q[None], keys, values)[0], keys, values


def _step_with(
    read: Callable = lambda old, new: new,
    scale: Callable = lambda d, e: d**-0.5,
    weights: Callable = softmax,
    keep: Callable = lambda cache, q, k_new, v_new: (
        np.vstack([cache[0], k_new]),
        np.vstack([cache[1], v_new]),
    ),
    returns: Callable = lambda old, new: new,
    averaged: Callable = lambda p, keys, values: p @ values,
) -> Callable:
    """A variant of the step that keeps, reads or returns something else."""

    def step(q, k_new, v_new, cache):
        new = keep(cache, q, k_new, v_new)
        keys, values = read(cache, new)
        p = weights(scale(keys.shape[-1], values.shape[-1]) * (keys @ q))
        return averaged(p, keys, values), *returns(cache, new)

    return step


def _step_with_the_output_kept(q, k_new, v_new, cache):
    output, keys, _ = _cached_step(q, k_new, v_new, cache)
    return output, keys, np.vstack([cache[1], output])


def _step_case(about: str, s: int, d: int, e: int) -> Case:
    new = {"q": 2 * _RNG.normal(size=d), "k_new": _RNG.normal(size=d), "v_new": _RNG.normal(size=e)}
    cache = (_RNG.normal(size=(s, d)), _RNG.normal(size=(s, e)))
    return Case(about=about, arguments={**new, "cache": cache})


def _step_numbers(arguments: dict[str, Any], *results: np.ndarray) -> dict[str, int]:
    n_kept, d = arguments["cache"][0].shape
    return {"kept": n_kept, "then": n_kept + 1, "d": d, "e": len(arguments["v_new"])}


_CACHED_STEP = Exercise(
    name="cached-step",
    asks=(
        "step(q, k_new, v_new, cache) → (output, cache), where the cache is a pair of keys (s, d) "
        "and values (s, e), perhaps without a row: the output (e,) of one head for the newest "
        "token, whose query is q (d,) and whose key and value are k_new (d,) and v_new (e,), and "
        "the cache with the new row behind the others"
    ),
    definition=_cached_step,
    cases=(
        _step_case("two tokens kept", s=2, d=3, e=4),
        _step_case("nothing kept yet", s=0, d=5, e=2),
        _step_case("five tokens kept", s=5, d=2, e=3),
    ),
    mistakes={
        "the new token does not read itself: its key and value are kept before it reads.": (
            _step_with(read=lambda old, new: old)
        ),
        "the new token does not read itself, unless it is the first: its key and value are kept "
        "before it reads.": _step_with(
            read=lambda old, new: old if len(old[0]) else new,
        ),
        "the cache that comes back is the old one, with {kept} rows: it never advances.": (
            _step_with(returns=lambda old, new: old)
        ),
        "the new row takes the place of the last one; the tokens before it are read later too.": (
            _step_with(
                keep=lambda cache, q, k_new, v_new: (
                    np.vstack([cache[0][:-1], k_new]),
                    np.vstack([cache[1][:-1], v_new]),
                )
            )
        ),
        "only the new row is kept: the {kept} before it are read later too.": _step_with(
            returns=lambda old, new: (new[0][-1:], new[1][-1:])
        ),
        "the new token reads itself alone, and the cache forgets the rest.": _step_with(
            keep=lambda cache, q, k_new, v_new: (k_new[None], v_new[None])
        ),
        "the new token reads itself alone, not the {kept} that are kept.": _step_with(
            read=lambda old, new: (new[0][-1:], new[1][-1:])
        ),
        "the new row stands before the others; the output is the same, but the rows of the cache "
        "are in the order of the tokens.": _step_with(
            keep=lambda cache, q, k_new, v_new: (
                np.vstack([k_new, cache[0]]),
                np.vstack([v_new, cache[1]]),
            )
        ),
        "the keys advance, the values do not: both must have {then} rows.": _step_with(
            returns=lambda old, new: (new[0], old[1])
        ),
        "the values advance, the keys do not: both must have {then} rows.": _step_with(
            returns=lambda old, new: (old[0], new[1])
        ),
        "keys and values have changed places in the cache that comes back.": _step_with(
            returns=lambda old, new: new[::-1]
        ),
        "the query is kept in place of the key: nobody reads an old query.": _step_with(
            keep=lambda cache, q, k_new, v_new: (
                np.vstack([cache[0], q]),
                np.vstack([cache[1], v_new]),
            )
        ),
        "the output is kept in place of the value: later tokens read the value itself.": (
            _step_with_the_output_kept
        ),
        "the scores are not scaled.": _step_with(scale=lambda d, e: 1.0),
        "the scores are divided by d = {d}, not by its root.": _step_with(scale=lambda d, e: 1 / d),
        "the scores are divided by the root of e = {e}, the width of the values.": _step_with(
            scale=lambda d, e: e**-0.5
        ),
        "the scores are multiplied by the root of d = {d}, not divided.": _step_with(
            scale=lambda d, e: d**0.5
        ),
        "there is no softmax: the scores themselves average the values.": _step_with(
            weights=lambda scores: scores
        ),
        "the weights do not sum to one.": _step_with(weights=lambda scores: np.exp(scores)),
        "the keys are averaged: it is the values that are.": _step_with(
            averaged=lambda p, keys, values: p @ keys
        ),
        "the scaled keys are kept: scale the scores, or the query.": _step_with(
            returns=lambda old, new: (
                np.vstack([old[0], new[0][-1:] / np.sqrt(new[0].shape[1])]),
                new[1],
            )
        ),
    },
    numbers=_step_numbers,
)


# --- the mask of a chunk ----------------------------------------------------------------------


def _chunk_with(
    rule: Callable = lambda behind: behind >= 0,
    behind: Callable = lambda n_cached, n_new: (
        n_cached + np.arange(n_new)[:, None] - np.arange(n_cached + n_new)
    ),
    after: Callable = lambda mask, n_cached: mask,
) -> Callable:
    """A variant of the chunk's mask that differs in one of its steps."""
    return lambda n_cached, n_new: after(rule(behind(n_cached, n_new)), n_cached)


def _without_what_is_kept(mask: np.ndarray, n_cached: int) -> np.ndarray:
    mask[:, :n_cached] = False
    return mask


def _without_the_chunk(mask: np.ndarray, n_cached: int) -> np.ndarray:
    mask[:, n_cached:] = False
    return mask


def _square(n_cached: int, n_new: int) -> np.ndarray:
    places = np.arange(n_cached + n_new)
    return places[:, None] - places


def _additive(mask: np.ndarray, n_cached: int) -> np.ndarray:
    return np.where(mask, 0.0, -np.inf)


def _chunk_case(about: str, n_cached: int, n_new: int) -> Case:
    return Case(about=about, arguments={"n_cached": n_cached, "n_new": n_new})


def _chunk_numbers(arguments: dict[str, int], *results: np.ndarray) -> dict[str, int]:
    return {**arguments, "all": arguments["n_cached"] + arguments["n_new"]}


_CHUNK_MASK = Exercise(
    name="chunk-mask",
    asks=(
        "chunk_mask(n_cached, n_new) → booleans (n_new, n_cached + n_new), True where a new token "
        "may read: itself and every token before it, those that are cached and those of its chunk"
    ),
    definition=lambda n_cached, n_new: definitions.causal_mask(n_new, n_cached + n_new),
    cases=(
        _chunk_case("fewer new tokens than cached ones", 5, 3),
        _chunk_case("more new tokens than cached ones", 2, 4),
        _chunk_case("nothing cached", 0, 4),
        _chunk_case("a single new token", 4, 1),
    ),
    mistakes={
        "the mask is dropped, as if one token were new: within a chunk of {n_new} no token may "
        "read a later one.": _chunk_with(rule=lambda behind: behind == behind),
        "the cached tokens do not shift the diagonal: the first new token is token {n_cached}, not "
        "token 0.": _chunk_with(
            behind=lambda n_cached, n_new: np.arange(n_new)[:, None] - np.arange(n_cached + n_new)
        ),
        "the columns of the {n_cached} cached tokens are missing.": _chunk_with(
            behind=lambda n_cached, n_new: np.arange(n_new)[:, None] - np.arange(n_new)
        ),
        "the {n_cached} cached tokens may be read too.": _chunk_with(after=_without_what_is_kept),
        "a new token reads itself and its chunk too, not only what is cached.": _chunk_with(
            after=_without_the_chunk
        ),
        "there is a row for each of the {all} tokens: only the {n_new} new ones ask.": _chunk_with(
            behind=_square
        ),
        "a token must read itself too.": _chunk_with(rule=lambda behind: behind > 0),
        "the mask reaches one token too far: each new token may read the next.": _chunk_with(
            rule=lambda behind: behind >= -1
        ),
        "the mask is transposed: new tokens are rows, what they read are columns.": _chunk_with(
            after=lambda mask, n_cached: mask.T
        ),
        "the mask rules out the past in place of the future.": _chunk_with(
            rule=lambda behind: behind <= 0
        ),
        "the mask is turned round: True means that a token may be read.": _chunk_with(
            after=lambda mask, n_cached: ~mask
        ),
        "the columns of the chunk stand before those of the cache: the older tokens come first.": (
            _chunk_with(after=lambda mask, n_cached: np.roll(mask, -n_cached, axis=1))
        ),
        "of its chunk a new token reads only itself: those before it in the chunk belong to it.": (
            _chunk_with(
                after=lambda mask, n_cached: np.hstack(
                    [mask[:, :n_cached], np.eye(len(mask), dtype=bool)]
                )
            )
        ),
        "that is the additive form, with 0 and −∞; return booleans, True where a token may be "
        "read.": _chunk_with(after=_additive),
    },
    numbers=_chunk_numbers,
)


# --- a ring -----------------------------------------------------------------------------------

Slots = list[int | None]


def _ring_with(
    slot: Callable = lambda token, window: token % window,
    n_slots: Callable = lambda window: window,
    name: Callable = lambda token: token,
    empty: int | None = None,
) -> Callable:
    """A variant of the ring that writes elsewhere, or writes something else."""

    def ring(n_tokens: int, window: int) -> Slots:
        slots = [empty] * n_slots(window)
        for token in range(n_tokens):
            slots[slot(token, window)] = name(token)
        return slots

    return ring


def _shifted_on(n_tokens: int, window: int) -> Slots:
    newest = list(range(max(0, n_tokens - window), n_tokens))
    return newest + [None] * (window - len(newest))


def _emptied_when_full(n_tokens: int, window: int) -> Slots:
    slots = [None] * window
    for token in range(n_tokens):
        if token % window == 0:
            slots = [None] * window
        slots[token % window] = token
    return slots


def _ring_case(about: str, n_tokens: int, window: int) -> Case:
    return Case(about=about, arguments={"n_tokens": n_tokens, "window": window})


_RING = ExactExercise(
    name="ring",
    asks=(
        "ring(n_tokens, window) → a list of which token stands in each of window slots after "
        "n_tokens tokens, the first of which is token 0: slot 0 takes the first, and after the "
        "last slot it is its turn again; None where nothing has come yet"
    ),
    definition=definitions.ring_slots,
    cases=(
        _ring_case("twice around and a bit more", 11, 4),
        _ring_case("one token more than slots", 6, 5),
        _ring_case("a ring that is just full", 3, 3),
        _ring_case("fewer tokens than slots", 2, 4),
        _ring_case("a single slot", 5, 1),
        _ring_case("no token", 0, 3),
    ),
    mistakes={
        "the tokens stand in their order, as in a list that is shifted on: in a ring a token stays "
        "where it is until its slot is needed.": _shifted_on,
        "the first tokens stay, and what comes later is lost: the newest are kept.": (
            lambda n_tokens, window: _shifted_on(min(n_tokens, window), window)
        ),
        "all is one slot too far: token 0 stands in slot 0.": _ring_with(
            slot=lambda token, window: (token + 1) % window
        ),
        "all is one slot too early: token 0 stands in slot 0.": _ring_with(
            slot=lambda token, window: (token - 1) % window
        ),
        "the ring has one slot more than the window: the token itself is one of the window.": (
            _ring_with(slot=lambda token, window: token % (window + 1), n_slots=lambda w: w + 1)
        ),
        "the turn comes one slot too early: the last slot stays empty.": _ring_with(
            slot=lambda token, window: token % max(window - 1, 1)
        ),
        "the last slot is written again and again once the ring is full: the turn goes back to "
        "slot 0.": _ring_with(slot=lambda token, window: min(token, window - 1)),
        "the first token is token 0: all are called one too high.": _ring_with(
            name=lambda token: token + 1
        ),
        "0 stands where nothing has come yet: that is a token. None is asked for.": _ring_with(
            empty=0
        ),
        "−1 stands where nothing has come yet: None is asked for.": _ring_with(empty=-1),
        "slots where nothing has come yet are missing from the list.": lambda n_tokens, window: [
            token for token in definitions.ring_slots(n_tokens, window) if token is not None
        ],
        "the ring is emptied whenever it is full: only one slot is needed, the others stay.": (
            _emptied_when_full
        ),
        "the slots are filled from the last to the first.": lambda n_tokens, window: (
            definitions.ring_slots(n_tokens, window)[::-1]
        ),
        "one token is missing: token n_tokens − 1 has come.": lambda n_tokens, window: (
            definitions.ring_slots(n_tokens - 1, window)
        ),
        "there is one token too many: the last to have come is n_tokens − 1.": (
            lambda n_tokens, window: definitions.ring_slots(n_tokens + 1, window)
        ),
    },
)


# --- speculative decoding ---------------------------------------------------------------------

Tokens = list[int]


def _written(drafted: Tokens, wanted: Tokens) -> Tokens:
    """What greedy decoding of the large model writes, as far as one pass of it shows."""
    written = []
    for i, token in enumerate(wanted):
        written.append(token)
        if i == len(drafted) or drafted[i] != token:
            break
    return written


def _accepted(drafted: Tokens, wanted: Tokens) -> Tokens:
    return _written(drafted, wanted)[:-1]


def _agreeing(drafted: Tokens, wanted: Tokens) -> Tokens:
    return [token for token, w in zip(drafted, wanted, strict=False) if token == w]


def _with_the_next_of_the_draft(drafted: Tokens, wanted: Tokens) -> Tokens:
    n = len(_accepted(drafted, wanted))
    return drafted[: n + 1] if n < len(drafted) else list(wanted)


def _with_the_choice_behind_the_wrong_one(drafted: Tokens, wanted: Tokens) -> Tokens:
    n = len(_accepted(drafted, wanted))
    return [*drafted[: n + 1], wanted[min(n + 1, len(drafted))]]


def _compared_one_place_later(drafted: Tokens, wanted: Tokens) -> Tokens:
    n = len(_accepted(drafted, [*wanted[1:], -1]))
    return [*drafted[:n], wanted[n]]


def _draft_case(about: str, drafted: Tokens, wanted: Tokens) -> Case:
    return Case(about=about, arguments={"drafted": drafted, "wanted": wanted})


_ACCEPTED = ExactExercise(
    name="accepted",
    asks=(
        "accepted(drafted, wanted) → the list of tokens that one round of greedy speculative "
        "decoding writes: those drafted tokens that are accepted, and the large model's next; "
        "wanted has the large model's choice at the place of each drafted token, given all drafted "
        "tokens before it, and one more behind the last"
    ),
    definition=_written,
    cases=(
        _draft_case(
            "a draft that goes wrong and is then right by chance", [5, 7, 2, 9], [5, 7, 4, 9, 1]
        ),
        _draft_case("a draft that is right", [3, 3, 8], [3, 3, 8, 6]),
        _draft_case("a draft that is wrong at once", [4, 6], [2, 6, 5]),
        _draft_case("a draft that is wrong at its end", [1, 9, 4], [1, 9, 8, 2]),
        _draft_case("a draft one place ahead", [7, 8, 9], [6, 7, 8, 9]),
        _draft_case("no draft", [], [7]),
    ),
    mistakes={
        "the large model's own next token is missing: its pass gives one in any case.": _accepted,
        "the large model's next token is missing where the whole draft is right: wanted has one "
        "more.": lambda drafted, wanted: _written(drafted, wanted)[: len(drafted)],
        "the large model's next token is missing where the draft goes wrong: its choice at that "
        "place is right.": lambda drafted, wanted: (
            list(wanted) if drafted == wanted[:-1] else _accepted(drafted, wanted)
        ),
        "tokens are accepted behind a wrong one: there the large model was asked about a text that "
        "is not written.": lambda drafted, wanted: [*_agreeing(drafted, wanted), wanted[-1]],
        "tokens are accepted behind a wrong one, and the large model's next is missing.": _agreeing,
        "all that the large model wanted is written: behind a wrong token it was asked about a "
        "text that is not written.": lambda drafted, wanted: list(wanted),
        "the whole draft is written, whatever the large model wanted.": lambda drafted, wanted: [
            *drafted,
            wanted[-1],
        ],
        "a wrong token is written: at its place stands what the large model wanted.": (
            _with_the_next_of_the_draft
        ),
        "a wrong token is written, and then the large model's choice behind it.": (
            _with_the_choice_behind_the_wrong_one
        ),
        "the token after the accepted ones is the large model's last choice, not the one at that "
        "place.": lambda drafted, wanted: [*_accepted(drafted, wanted), wanted[-1]],
        "the draft is accepted as a whole or not at all: each token counts on its own, up to the "
        "first wrong one.": lambda drafted, wanted: (
            list(wanted) if drafted == wanted[:-1] else [wanted[0]]
        ),
        "only the large model's first choice is written: accepted tokens are missing.": (
            lambda drafted, wanted: [wanted[0]]
        ),
        "each drafted token is compared with the choice one place later.": (
            _compared_one_place_later
        ),
        "that is how many are accepted: the tokens are asked for.": lambda drafted, wanted: len(
            _accepted(drafted, wanted)
        ),
        "that is how many are written: the tokens are asked for.": lambda drafted, wanted: len(
            _written(drafted, wanted)
        ),
    },
)

EXERCISES = (
    _GENERATION_PAIRS,
    _CACHED_STEP,
    _CHUNK_MASK,
    _RING,
    _ACCEPTED,
)
