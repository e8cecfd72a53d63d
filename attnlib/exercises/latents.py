"""The exercises of the chapter on latent attention: definitions, cases and known mistakes.

Source   attnlib/definitions/of_latent.py; the mistakes are those that readers and libraries make
Chapter  chapters/latent-attention.md
Axes     attnlib/axes.py
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnlib import definitions
from attnlib.exercises.judge import Case, Exercise

_RNG = np.random.default_rng(2405_04434)


def _normal(*shape: int) -> np.ndarray:
    return _RNG.normal(size=shape)


# --- scores -----------------------------------------------------------------------------------


def _by_latents(q: np.ndarray, latent: np.ndarray, up_key: np.ndarray) -> np.ndarray:
    return latent @ (q @ up_key)


def _scores_with(
    content: Callable = _by_latents,
    rotary: Callable = lambda q, key: key @ q,
    total: Callable = lambda content, rotary, n, r, c: (content + rotary) / np.sqrt(n + r),
    parts: Callable = lambda q, n, r: (q[:n], q[n:]),
) -> Callable:
    """A variant that forms one of the two products, parts the query or scales the sum otherwise."""

    def scores(q, latent, rotary_key, up_key):
        (n, c), r = up_key.shape, rotary_key.shape[1]
        without, turned = parts(q, n, r)
        return total(content(without, latent, up_key), rotary(turned, rotary_key), n, r, c)

    return scores


def _divided_by(width: Callable) -> Callable:
    return _scores_with(total=lambda content, rotary, n, r, c: (content + rotary) / width(n, r, c))


def _normed(latent: np.ndarray) -> np.ndarray:
    return latent / np.sqrt((latent**2).mean(-1, keepdims=True))


def _weights(content: np.ndarray, rotary: np.ndarray, n: int, r: int, c: int) -> np.ndarray:
    return definitions.softmax((content + rotary) / np.sqrt(n + r))


def _scores_case(about: str, n: int, r: int, s: int, c: int) -> Case:
    arguments = {
        "q": _normal(n + r),
        "latent": _normal(s, c),
        "rotary_key": _normal(s, r),
        "up_key": _normal(n, c),
    }
    return Case(about=about, arguments=arguments)


def _scores_numbers(arguments: dict[str, Any], *results: np.ndarray) -> dict[str, int]:
    (n, c), (s, r) = arguments["up_key"].shape, arguments["rotary_key"].shape
    return {"n": n, "r": r, "s": s, "c": c, "wide": c + r}


_LATENT_SCORES = Exercise(
    name="latent-scores",
    asks=(
        "scores(q, latent, rotary_key, up_key) → the scores (s,) of one target in one head, "
        "scaled, before the softmax: its query q has n coordinates without rotation and then r "
        "with; the key of a source is up_key (n, c) times its latent, a row of latent (s, c), "
        "and behind that its row of rotary_key (s, r); norms and rotations are done already, and "
        "the scale is the usual one for a query and a key as wide as these"
    ),
    definition=definitions.latent_scores,
    cases=(
        _scores_case("a latent wider than a key", n=5, r=3, s=4, c=9),
        _scores_case("a latent narrower than a key", n=6, r=2, s=5, c=3),
        _scores_case("more rotary coordinates than others", n=2, r=5, s=3, c=4),
        _scores_case("a single source", n=4, r=3, s=1, c=7),
        _scores_case("as many coordinates without rotation as in the latent", n=4, r=3, s=2, c=4),
    ),
    mistakes={
        "the scale is missing.": _divided_by(lambda n, r, c: 1),
        "the scale is that of the n = {n} coordinates without rotation: the r = {r} others stand "
        "in the same product.": _divided_by(lambda n, r, c: np.sqrt(n)),
        "the scale is that of the r = {r} rotary coordinates: the n = {n} others stand in the same "
        "product.": _divided_by(lambda n, r, c: np.sqrt(r)),
        "the scale is that of what is kept of a token, {wide} numbers: a query that is carried "
        "to the latents gives the same scores as before, and their scale stays too.": (
            _divided_by(lambda n, r, c: np.sqrt(c + r))
        ),
        "the scale is that of the latents, of width c = {c}: a latent is what keys are made of, "
        "and no key.": _divided_by(lambda n, r, c: np.sqrt(c)),
        "the width is right, and the scale lacks its root.": _divided_by(lambda n, r, c: n + r),
        "the scores are multiplied by what should divide them.": _divided_by(
            lambda n, r, c: 1 / np.sqrt(n + r)
        ),
        "each of the two parts has a scale of its own: they are parts of one product, and only "
        "their sum is scaled.": _scores_with(
            total=lambda content, rotary, n, r, c: content / np.sqrt(n) + rotary / np.sqrt(r)
        ),
        "only the rotary part is scaled: a division comes before a sum, unless brackets say "
        "otherwise.": _scores_with(
            total=lambda content, rotary, n, r, c: content + rotary / np.sqrt(n + r)
        ),
        "only the part of the latents is scaled: the rotary part needs it as well.": _scores_with(
            total=lambda content, rotary, n, r, c: content / np.sqrt(n + r) + rotary
        ),
        "the rotary part is missing: that is what the n = {n} coordinates without rotation "
        "give.": _scores_with(total=lambda content, rotary, n, r, c: content / np.sqrt(n + r)),
        "the rotary part is missing, and its width is missing in the scale.": _scores_with(
            total=lambda content, rotary, n, r, c: content / np.sqrt(n)
        ),
        "the part of the latents is missing: that is what the r = {r} rotary coordinates give.": (
            _scores_with(total=lambda content, rotary, n, r, c: rotary / np.sqrt(n + r))
        ),
        "the rotary coordinates are taken from the front of the query, and they stand at its "
        "end: the first n = {n} belong to the latents.": _scores_with(
            parts=lambda q, n, r: (q[r:], q[:r])
        ),
        "the first n = {n} coordinates meet the latents, as they should; but the first r = {r} "
        "of them meet the rotary key too, and the last r = {r} meet nothing.": _scores_with(
            parts=lambda q, n, r: (q[:n], q[:r])
        ),
        "the last r = {r} coordinates meet the rotary key, as they should; but the last n = {n} "
        "meet the latents, in place of the first.": _scores_with(
            parts=lambda q, n, r: (q[r:], q[n:])
        ),
        "up_key is used on its wrong side: where n = c this runs, but what makes coordinate i of "
        "a key is row i of the matrix, and not column i.": _scores_with(
            content=lambda q, latent, up_key: latent @ up_key @ q
        ),
        "up_key is reshaped where it should be transposed: a reshape reads the same numbers in "
        "the same order, row by row.": _scores_with(
            content=lambda q, latent, up_key: latent @ up_key.reshape(len(up_key[0]), -1) @ q
        ),
        "the query is carried to the latents by an inverse of up_key: no equation is solved here, "
        "and a product is only bracketed in another way.": _scores_with(
            content=lambda q, latent, up_key: latent @ np.linalg.pinv(up_key) @ q
        ),
        "the latents are normed, which is done already.": _scores_with(
            content=lambda q, latent, up_key: _by_latents(q, _normed(latent), up_key)
        ),
        "those are weights: the scores are asked for, before the softmax.": _scores_with(
            total=_weights
        ),
    },
    numbers=_scores_numbers,
)


# --- a pair -----------------------------------------------------------------------------------


def _pair_with(
    expanded: Callable = lambda h, n, r, e, c: 2 * h * (n + r + e),
    absorbed: Callable = lambda h, n, r, e, c: 2 * h * (2 * c + r),
    of_latents: Callable = lambda h, n, r, e, c: c + r,
    of_heads: Callable = lambda h, n, r, e, c: h * (n + r + e),
) -> Callable:
    """A variant of the two numbers of FLOPs and the two of elements, in closed form."""
    return lambda *sizes: tuple(
        count(*sizes) for count in (expanded, absorbed, of_latents, of_heads)
    )


def _pair_in_order(*order: int) -> Callable:
    return lambda *sizes: tuple(definitions.latent_pair(*sizes)[k] for k in order)


def _pair_case(about: str, h: int, n: int, r: int, e: int, c: int) -> Case:
    return Case(about=about, arguments={"h": h, "n": n, "r": r, "e": e, "c": c})


def _pair_numbers(arguments: dict[str, int], *results: np.ndarray) -> dict[str, int]:
    return arguments


_LATENT_PAIR = Exercise(
    name="latent-pair",
    asks=(
        "pair(h, n, r, e, c) → four numbers for a layer of h heads, whose keys have n coordinates "
        "made from a latent of width c and then the r of a rotary key, and whose values, made from "
        "the latent too, have width e: the FLOPs of the scores and the weighted sums of all heads "
        "for one target and one source, a multiply-add counted as two, in the expanded form, and "
        "in the absorbed form, without what is done once for a target or once for a source; the "
        "elements that are kept of one token for the absorbed form; and those of a cache that "
        "keeps the whole key and the value of every head"
    ),
    definition=definitions.latent_pair,
    cases=(
        _pair_case("a latent wider than a key", h=6, n=5, r=3, e=4, c=9),
        _pair_case("a latent narrower than a key", h=4, n=8, r=2, e=7, c=3),
        _pair_case("a single head", h=1, n=6, r=4, e=3, c=5),
        _pair_case("no rotary part", h=5, n=3, r=0, e=4, c=7),
    ),
    mistakes={
        # --- the elements ---
        "the rotary key, of width r = {r}, is missing among what is kept for the absorbed form: "
        "it cannot be made from a latent.": _pair_with(of_latents=lambda h, n, r, e, c: c),
        "the rotary key is kept once for each of the h = {h} heads: all share one.": _pair_with(
            of_latents=lambda h, n, r, e, c: c + h * r
        ),
        "a factor of two too many in what is kept for the absorbed form: keys and values are "
        "read from the same numbers, and it is not bytes that are asked for.": _pair_with(
            of_latents=lambda h, n, r, e, c: 2 * (c + r)
        ),
        "the latent is kept twice, for keys and for values: both are read from the same one.": (
            _pair_with(of_latents=lambda h, n, r, e, c: 2 * c + r)
        ),
        "a latent and a rotary key are kept for each of the h = {h} heads: all share one of "
        "each.": _pair_with(of_latents=lambda h, n, r, e, c: h * (c + r)),
        "a value of width e = {e} is kept beside what the absorbed form needs: it reads the latent "
        "for that.": _pair_with(of_latents=lambda h, n, r, e, c: c + r + e),
        "the rotary part, r = {r}, is missing in the keys that the last cache keeps: whole keys "
        "have it.": _pair_with(of_heads=lambda h, n, r, e, c: h * (n + e)),
        "the last cache keeps the rotary part once: it keeps the whole key of each of the h = {h} "
        "heads, as the expanded form reads it.": _pair_with(
            of_heads=lambda h, n, r, e, c: h * (n + e) + r
        ),
        "the values are missing in the last cache.": _pair_with(
            of_heads=lambda h, n, r, e, c: h * (n + r)
        ),
        "the keys are missing in the last cache.": _pair_with(of_heads=lambda h, n, r, e, c: h * e),
        "the last cache holds a single head: there are h = {h}.": _pair_with(
            of_heads=lambda h, n, r, e, c: n + r + e
        ),
        "values are taken to be as wide as keys in the last cache: here e = {e}.": _pair_with(
            of_heads=lambda h, n, r, e, c: 2 * h * (n + r)
        ),
        "a factor of two too many in the last cache: keys and values are both there already, and "
        "it is not bytes that are asked for.": _pair_with(
            of_heads=lambda h, n, r, e, c: 2 * h * (n + r + e)
        ),
        "the last cache keeps the latent as well: whole keys and values make it needless.": (
            _pair_with(of_heads=lambda h, n, r, e, c: h * (n + r + e) + c)
        ),
        "the rotary part, r = {r}, is missing in both caches.": _pair_with(
            of_latents=lambda h, n, r, e, c: c, of_heads=lambda h, n, r, e, c: h * (n + e)
        ),
        "a factor of two too many in both caches: keys and values are there already, and it is "
        "not bytes that are asked for.": _pair_with(
            of_latents=lambda h, n, r, e, c: 2 * (c + r),
            of_heads=lambda h, n, r, e, c: 2 * h * (n + r + e),
        ),
        # --- the FLOPs of the expanded form ---
        "the rotary part, r = {r}, is missing in the FLOPs of the expanded form.": _pair_with(
            expanded=lambda h, n, r, e, c: 2 * h * (n + e)
        ),
        "the rotary part is computed once in the expanded form: the rotary key is shared, and the "
        "rotary query of each of the h = {h} heads still meets it.": _pair_with(
            expanded=lambda h, n, r, e, c: 2 * (h * (n + e) + r)
        ),
        "the weighted sums are missing in the expanded form.": _pair_with(
            expanded=lambda h, n, r, e, c: 2 * h * (n + r)
        ),
        "the scores are missing in the expanded form.": _pair_with(
            expanded=lambda h, n, r, e, c: 2 * h * e
        ),
        "values are taken to be as wide as keys in the expanded form: here e = {e}.": _pair_with(
            expanded=lambda h, n, r, e, c: 4 * h * (n + r)
        ),
        "the values of the expanded form have a rotary part: only queries and keys have one.": (
            _pair_with(expanded=lambda h, n, r, e, c: 2 * h * (n + 2 * r + e))
        ),
        "the FLOPs that make a source's keys and values are counted for the pair: they are spent "
        "once for a source, however many targets read it.": _pair_with(
            expanded=lambda h, n, r, e, c: 2 * h * (n + r + e) + 2 * c * h * (n + e)
        ),
        # --- the FLOPs of the absorbed form ---
        "the sums of the absorbed form run over the rotary key as well: only the latent is "
        "averaged.": _pair_with(absorbed=lambda h, n, r, e, c: 4 * h * (c + r)),
        "the rotary key is averaged as a value, and kept twice: only the latent is read for both "
        "keys and values, and one copy serves.": _pair_with(
            absorbed=lambda h, n, r, e, c: 4 * h * (c + r),
            of_latents=lambda h, n, r, e, c: 2 * (c + r),
        ),
        "the weighted sums are missing in the absorbed form.": _pair_with(
            absorbed=lambda h, n, r, e, c: 2 * h * (c + r)
        ),
        "the scores are missing in the absorbed form.": _pair_with(
            absorbed=lambda h, n, r, e, c: 2 * h * c
        ),
        "the rotary part, r = {r}, is missing in the FLOPs of the absorbed form.": _pair_with(
            absorbed=lambda h, n, r, e, c: 4 * h * c
        ),
        "the rotary part is computed once in the absorbed form: the rotary key is shared, and the "
        "rotary query of each of the h = {h} heads still meets it.": _pair_with(
            absorbed=lambda h, n, r, e, c: 2 * (2 * h * c + r)
        ),
        "the absorbed form is counted for a single head: the key is shared, and each of the "
        "h = {h} query heads still computes.": _pair_with(
            absorbed=lambda h, n, r, e, c: 2 * (2 * c + r)
        ),
        "the weighted sums of the absorbed form are counted with values of width e = {e}: they are "
        "sums of latents, and values are made from them afterwards, once for a target.": _pair_with(
            absorbed=lambda h, n, r, e, c: 2 * h * (c + r + e)
        ),
        "the scores of the absorbed form are counted with keys of width n = {n} before the rotary "
        "part: queries are carried to the latents there.": _pair_with(
            absorbed=lambda h, n, r, e, c: 2 * h * (n + r + c)
        ),
        "the FLOPs that carry a query to the latents and a mean back are counted for the pair: "
        "they are spent once for a target, however many sources it reads.": _pair_with(
            absorbed=lambda h, n, r, e, c: 2 * h * (2 * c + r) + 2 * c * h * (n + e)
        ),
        # --- the FLOPs of both ---
        "those are multiply-adds: each is two FLOPs.": _pair_with(
            expanded=lambda h, n, r, e, c: h * (n + r + e),
            absorbed=lambda h, n, r, e, c: h * (2 * c + r),
        ),
        "the multiply-adds of the expanded form are counted once each: each is two FLOPs.": (
            _pair_with(expanded=lambda h, n, r, e, c: h * (n + r + e))
        ),
        "the multiply-adds of the absorbed form are counted once each: each is two FLOPs.": (
            _pair_with(absorbed=lambda h, n, r, e, c: h * (2 * c + r))
        ),
        "each multiply-add is counted four times; it is two FLOPs.": _pair_with(
            expanded=lambda h, n, r, e, c: 4 * h * (n + r + e),
            absorbed=lambda h, n, r, e, c: 4 * h * (2 * c + r),
        ),
        "the FLOPs are those of a single head: there are h = {h}.": _pair_with(
            expanded=lambda h, n, r, e, c: 2 * (n + r + e),
            absorbed=lambda h, n, r, e, c: 2 * (2 * c + r),
        ),
        "the FLOPs of the expanded form are those of a single head: there are h = {h}.": _pair_with(
            expanded=lambda h, n, r, e, c: 2 * (n + r + e)
        ),
        "all is counted for a single head: there are h = {h}, which share only what is kept for "
        "the absorbed form.": _pair_with(
            expanded=lambda h, n, r, e, c: 2 * (n + r + e),
            absorbed=lambda h, n, r, e, c: 2 * (2 * c + r),
            of_heads=lambda h, n, r, e, c: n + r + e,
        ),
        "the weighted sums are missing in both forms: those are the FLOPs of the scores.": (
            _pair_with(
                expanded=lambda h, n, r, e, c: 2 * h * (n + r),
                absorbed=lambda h, n, r, e, c: 2 * h * (c + r),
            )
        ),
        "the rotary part, r = {r}, is missing in the FLOPs of both forms.": _pair_with(
            expanded=lambda h, n, r, e, c: 2 * h * (n + e),
            absorbed=lambda h, n, r, e, c: 4 * h * c,
        ),
        "the rotary part, r = {r}, is missing everywhere.": lambda h, n, r, e, c: (
            definitions.latent_pair(h, n, 0, e, c)
        ),
        "values are taken to be as wide as keys, in the expanded form and in its cache: here "
        "e = {e}.": _pair_with(
            expanded=lambda h, n, r, e, c: 4 * h * (n + r),
            of_heads=lambda h, n, r, e, c: 2 * h * (n + r),
        ),
        # --- the order ---
        "the two forms have changed places in the FLOPs: the expanded form comes first.": (
            _pair_in_order(1, 0, 2, 3)
        ),
        "the two caches have changed places: that of the absorbed form comes first.": (
            _pair_in_order(0, 1, 3, 2)
        ),
        "the two forms have changed places, in FLOPs and in elements.": _pair_in_order(1, 0, 3, 2),
        "the elements stand before the FLOPs.": _pair_in_order(2, 3, 0, 1),
    },
    numbers=_pair_numbers,
)


# --- selectors --------------------------------------------------------------------------------


def _selectors_with(
    reads: Callable = lambda i, h, g: i // (h // g),
    values_read: Callable | None = None,
    key_start: Callable = lambda j, g, d, e: j * d,
    value_start: Callable = lambda j, g, d, e: g * d + j * e,
    block: Callable = lambda size, p: np.eye(size),
    width: Callable = lambda g, d, e: g * (d + e),
) -> Callable:
    """A variant that reads other heads, or places another block at another column."""

    def selectors(h, g, d, e):
        up_keys, up_values = np.zeros((h, d, width(g, d, e))), np.zeros((h, e, width(g, d, e)))
        for i in range(h):
            of_key = key_start(reads(i, h, g), g, d, e)
            of_value = value_start((values_read or reads)(i, h, g), g, d, e)
            up_keys[i, :, of_key : of_key + d] = block(d, h // g)
            up_values[i, :, of_value : of_value + e] = block(e, h // g)
        return up_keys, up_values

    return selectors


def _in_turns(i: int, h: int, g: int) -> int:
    return i % g


def _after(change: Callable) -> Callable:
    """A variant that changes the right matrices, one after the other, at their end."""
    return lambda h, g, d, e: tuple(
        change(up, h, g) for up in definitions.latent_selectors(h, g, d, e)
    )


def _without_what_the_other_reads(h: int, g: int, d: int, e: int) -> tuple[np.ndarray, np.ndarray]:
    up_keys, up_values = definitions.latent_selectors(h, g, d, e)
    return up_keys[..., : g * d], up_values[..., g * d :]


def _selectors_case(about: str, h: int, g: int, d: int, e: int) -> Case:
    return Case(about=about, arguments={"h": h, "g": g, "d": d, "e": e})


def _selectors_numbers(arguments: dict[str, int], *results: np.ndarray) -> dict[str, int]:
    h, g, d, e = arguments.values()
    return {**arguments, "p": h // g, "c": g * (d + e)}


_SELECTORS = Exercise(
    name="selectors",
    asks=(
        "selectors(h, g, d, e) → two arrays of zeros and ones, up_keys (h, d, c) and up_values "
        "(h, e, c), for a latent of width c = g(d + e) in which the g keys stand first, each of "
        "width d, and then the g values, each of width e: for query head i they make the key and "
        "the value that it reads in grouped-query attention, where neighbours share"
    ),
    definition=definitions.latent_selectors,
    cases=(
        _selectors_case("two query heads on each of three", h=6, g=3, d=4, e=2),
        _selectors_case("four query heads on each of two", h=8, g=2, d=3, e=5),
        _selectors_case("a single key/value head", h=5, g=1, d=2, e=4),
        _selectors_case("as many key/value heads as query heads", h=3, g=3, d=4, e=3),
    ),
    mistakes={
        "the heads take turns: query heads that read the same key/value head must be neighbours.": (
            _selectors_with(reads=_in_turns)
        ),
        "the heads take turns in the keys, and are neighbours in the values.": _selectors_with(
            reads=_in_turns, values_read=lambda i, h, g: i // (h // g)
        ),
        "the heads take turns in the values, and are neighbours in the keys.": _selectors_with(
            values_read=_in_turns
        ),
        "as many neighbours share as there are key/value heads, g = {g}: there are p = {p} "
        "to each.": _selectors_with(reads=lambda i, h, g: i // g),
        "a query head reads the key/value head of its place among the p = {p} that share.": (
            _selectors_with(reads=lambda i, h, g: i % (h // g))
        ),
        "the order is reversed: the first query heads read key/value head 0.": _selectors_with(
            reads=lambda i, h, g: g - 1 - i // (h // g)
        ),
        "all query heads read key/value head 0: there are g = {g}.": _selectors_with(
            reads=lambda i, h, g: 0
        ),
        "each value stands right behind its key: the latent has all g = {g} keys first, and then "
        "all values.": _selectors_with(
            key_start=lambda j, g, d, e: j * (d + e), value_start=lambda j, g, d, e: j * (d + e) + d
        ),
        "the values are read at the start of the latent, where the keys stand.": _selectors_with(
            value_start=lambda j, g, d, e: j * e
        ),
        "the values are read behind a single key of width d = {d}: all g = {g} keys stand before "
        "them.": _selectors_with(value_start=lambda j, g, d, e: d + j * e),
        "the values stand first, and then the keys: it is the other way round.": _selectors_with(
            key_start=lambda j, g, d, e: g * e + j * d, value_start=lambda j, g, d, e: j * e
        ),
        "the values are read where they would begin if keys were as wide as values: here d = {d} "
        "and e = {e}.": _selectors_with(value_start=lambda j, g, d, e: g * e + j * e),
        "from one value to the next are e = {e} places, and not d = {d}.": _selectors_with(
            value_start=lambda j, g, d, e: g * d + j * d
        ),
        "from one key to the next are d = {d} places, and not e = {e}.": _selectors_with(
            key_start=lambda j, g, d, e: j * e
        ),
        "the ones fill whole blocks: each coordinate of a key is then the sum of all, and a "
        "selector lets each through by itself.": _selectors_with(
            block=lambda size, p: np.ones((size, size))
        ),
        "the coordinates come out in reverse order.": _selectors_with(
            block=lambda size, p: np.eye(size)[::-1]
        ),
        "the ones are divided by p = {p}: each query head reads its key and value whole.": (
            _selectors_with(block=lambda size, p: np.eye(size) / p)
        ),
        "the ones are divided by the root of p = {p}: each query head reads its key and value "
        "whole.": _selectors_with(block=lambda size, p: np.eye(size) / np.sqrt(p)),
        "the matrices are transposed: one that makes a key from a latent has a row for each "
        "coordinate of the key.": _after(lambda up, h, g: up.swapaxes(1, 2)),
        "there is a matrix for each key/value head, g = {g}: each of the h = {h} query heads "
        "needs one.": _after(lambda up, h, g: up[:: h // g]),
        "the matrices of all heads stand one under the other: they need an axis of heads, the "
        "first of three.": _after(lambda up, h, g: up.reshape(-1, up.shape[2])),
        "the matrices of keys see the keys only, and those of values the values: both have c = {c} "
        "columns, for both are given the whole latent.": _without_what_the_other_reads,
        "the matrices of the values stand first: those of the keys do.": lambda h, g, d, e: (
            definitions.latent_selectors(h, g, d, e)[::-1]
        ),
    },
    numbers=_selectors_numbers,
)

EXERCISES = (_LATENT_SCORES, _LATENT_PAIR, _SELECTORS)
