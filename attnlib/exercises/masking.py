"""The exercises of the chapter on masking: definitions, cases and known mistakes.

Source   attnlib/definitions/of_masks.py and of_attention.py; the mistakes are those that readers
         and libraries make
Chapter  chapters/masking.md
Axes     attnlib/axes.py
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from attnlib import definitions
from attnlib.exercises.judge import Case, Exercise
from attnlib.exercises.steps import softmax

_RNG = np.random.default_rng(2004_05150)


def _pair(arguments: dict[str, Any], got: np.ndarray, wanted: np.ndarray) -> dict[str, str]:
    """The plainest pair that a mask gets wrong: one that may be read and must not, if there is."""
    if got.shape != wanted.shape:
        return {"pair": f"its shape is {got.shape} in place of {wanted.shape}"}
    may = got == 1
    for wrong, word in ((may & ~wanted, "may read"), (~may & wanted, "may not read")):
        if wrong.any():
            t = np.flatnonzero(wrong.any(1))[0]
            return {"pair": f"target {t} {word} source {np.flatnonzero(wrong[t])[-1]}"}
    return {"pair": "no pair is wrong"}


def _behind(n_targets: int, n_sources: int) -> np.ndarray:
    """How many steps each source lies behind each target, bottom-right aligned."""
    return np.arange(n_targets)[:, None] + n_sources - n_targets - np.arange(n_sources)


def _top_left(n_targets: int, n_sources: int) -> np.ndarray:
    return np.arange(n_targets)[:, None] - np.arange(n_sources)


def _never_before_the_sources(n_targets: int, n_sources: int) -> np.ndarray:
    return np.arange(n_targets)[:, None] + max(n_sources - n_targets, 0) - np.arange(n_sources)


def _additive(mask: np.ndarray) -> np.ndarray:
    return np.where(mask, 0.0, -np.inf)


# --- the causal mask --------------------------------------------------------------------------


def _causal(
    rule: Callable = lambda behind: behind >= 0,
    behind: Callable = _behind,
    after: Callable = lambda mask: mask,
) -> Callable:
    """A variant of the causal mask that differs in one of its steps."""
    return lambda n_targets, n_sources: after(rule(behind(n_targets, n_sources)))


def _causal_case(about: str, n_targets: int, n_sources: int) -> Case:
    return Case(about=about, arguments={"n_targets": n_targets, "n_sources": n_sources})


_CAUSAL_MASK = Exercise(
    name="causal-mask",
    asks=(
        "causal_mask(n_targets, n_sources) → booleans (t, s), True where target t may read source "
        "s: itself and what stands before it, where the targets are the last of the positions"
    ),
    definition=definitions.causal_mask,
    cases=(
        _causal_case("as many targets as sources", 5, 5),
        _causal_case("fewer targets than sources", 2, 5),
        _causal_case("one target, as in a cached step", 1, 4),
        _causal_case("more targets than sources", 5, 3),
    ),
    mistakes={
        "the mask is transposed: {pair}. Rows are targets, columns are sources, also in the "
        "shape.": _causal(after=lambda mask: mask.T),
        "the mask is transposed, and rules out the past in place of the future: {pair}.": _causal(
            rule=lambda behind: behind <= 0
        ),
        "the diagonal starts top left: {pair}. The last target must read the last source.": _causal(
            behind=_top_left
        ),
        "right but for more targets than sources: {pair}. Targets that stand before the first "
        "source have nothing to read.": _causal(behind=_never_before_the_sources),
        "a target must read itself too: {pair}.": _causal(rule=lambda behind: behind > 0),
        "the mask reaches one source too far: {pair}, which is the next one.": _causal(
            rule=lambda behind: behind >= -1
        ),
        "the mask is turned round: True means that a source may be read, and {pair}.": _causal(
            after=lambda mask: ~mask
        ),
        "only the target itself may be read; all that stands before it belongs to it.": _causal(
            rule=lambda behind: behind == 0
        ),
        "everything may be read: {pair}.": _causal(rule=lambda behind: behind == behind),
        "that is the additive form, with 0 and −∞; return booleans, True where target t may read "
        "source s.": _causal(after=_additive),
        "that is the additive form, with 0 and a large negative number; return booleans, True "
        "where target t may read source s.": _causal(after=lambda mask: np.where(mask, 0.0, -1e9)),
        "that is the additive form, and turned round: 0 stands where nothing may be read.": _causal(
            after=lambda mask: _additive(~mask)
        ),
    },
    numbers=_pair,
)


# --- windows ----------------------------------------------------------------------------------


def _window(
    rule: Callable = lambda behind, window: (behind >= 0) & (behind < window),
    behind: Callable = _behind,
    after: Callable = lambda mask: mask,
) -> Callable:
    """A variant of the window that differs in one of its steps."""

    def mask(n_targets, n_sources, window):
        return after(rule(behind(n_targets, n_sources), window))

    return mask


def _causal_in_blocks(n_targets, n_sources, window):
    same = definitions.block_mask(n_targets, n_sources, window)
    return same & definitions.causal_mask(n_targets, n_sources)


def _window_case(about: str, n_targets: int, n_sources: int, window: int) -> Case:
    return Case(
        about=about,
        arguments={"n_targets": n_targets, "n_sources": n_sources, "window": window},
    )


_WINDOW_MASK = Exercise(
    name="window-mask",
    asks=(
        "window_mask(n_targets, n_sources, window) → booleans (t, s), True where target t may read "
        "source s: causal, and at most `window` sources, itself included; the targets are the last "
        "of the positions"
    ),
    definition=definitions.causal_mask,
    cases=(
        _window_case("as many targets as sources", 6, 6, 3),
        _window_case("fewer targets than sources", 3, 7, 2),
        _window_case("a window of one", 2, 4, 1),
        _window_case("a window wider than the text", 3, 5, 9),
        _window_case("more targets than sources", 4, 2, 2),
    ),
    mistakes={
        "the window holds W + 1 sources: {pair}. The target itself is one of the W = {window}.": (
            _window(lambda behind, window: (behind >= 0) & (behind <= window))
        ),
        "the window holds W − 1 sources: {pair}, though W = {window}.": _window(
            lambda behind, window: (behind >= 0) & (behind < window - 1)
        ),
        "the target itself is left out: {pair}. It is one of the W = {window}.": _window(
            lambda behind, window: (behind > 0) & (behind <= window)
        ),
        "the target itself is left out, and what remains are W − 1 sources: {pair}.": _window(
            lambda behind, window: (behind > 0) & (behind < window)
        ),
        "the window lies on both sides: {pair}, which stands in the future.": _window(
            lambda behind, window: np.abs(behind) < window
        ),
        "the mask is transposed, and the window lies in the future: {pair}.": _window(
            lambda behind, window: (behind <= 0) & (-behind < window)
        ),
        "the past has its limit, but the future is open: {pair}.": _window(
            lambda behind, window: behind < window
        ),
        "the window is not used: {pair}, further back than W = {window} sources.": _window(
            lambda behind, window: behind >= 0
        ),
        "the mask is causal only beyond the window: {pair}, though it lies within.": _window(
            lambda behind, window: behind >= window
        ),
        "these are blocks of W = {window}, not windows: {pair}. Every target has the last W "
        "sources, wherever it stands.": _causal_in_blocks,
        "the diagonal starts top left: {pair}. The last target must read the last source.": _window(
            behind=_top_left
        ),
        "right but for more targets than sources: {pair}. Targets that stand before the first "
        "source have nothing to read.": _window(behind=_never_before_the_sources),
        "the mask is transposed: {pair}. Rows are targets, columns are sources, also in the "
        "shape.": _window(after=lambda mask: mask.T),
        "the mask is turned round: True means that a source may be read, and {pair}.": _window(
            after=lambda mask: ~mask
        ),
        "that is the additive form, with 0 and −∞; return booleans, True where target t may read "
        "source s.": _window(after=_additive),
    },
    numbers=lambda arguments, got, wanted: (
        _pair(arguments, got, wanted) | {"window": arguments["window"]}
    ),
)


# --- documents --------------------------------------------------------------------------------


def _documents(
    same: Callable = lambda a, b: a == b,
    causal: Callable = lambda behind: behind >= 0,
    after: Callable = lambda mask: mask,
) -> Callable:
    """A variant of the mask of packed documents that differs in one of its parts."""

    def mask(document):
        document = np.asarray(document)
        behind = _behind(len(document), len(document))
        return after(same(document[:, None], document[None, :]) & causal(behind))

    return mask


def _in_one_run(document):
    """Documents taken for the runs of equal numbers, so that one that returns is another."""
    run = np.concatenate([[0], np.cumsum(np.diff(document) != 0)])
    return _documents()(run)


def _only_the_neighbour(document):
    """True on the diagonal and where the source just before is of the same document."""
    return _documents(causal=lambda behind: (behind == 0) | (behind == 1))(document)


def _by_neighbours(document):
    """Compare each source with the one before it, whatever the target is."""
    document = np.asarray(document)
    starts = np.concatenate([[True], document[1:] == document[:-1]])
    return definitions.causal_mask(len(document), len(document)) & starts[None, :]


def _document_case(about: str, *document: int) -> Case:
    return Case(about=about, arguments={"document": np.array(document)})


_DOCUMENT_MASK = Exercise(
    name="document-mask",
    asks=(
        "document_mask(document) → booleans (s, s), True where target t may read source s: causal, "
        "and in the same document, for one row of document numbers (s,); the same number is the "
        "same document, also after another one"
    ),
    definition=lambda document: (
        definitions.document_mask(document) & definitions.causal_mask(len(document), len(document))
    ),
    cases=(
        _document_case("two documents", 1, 1, 1, 2, 2),
        _document_case("a document that returns", 0, 0, 1, 1, 0),
        _document_case("numbers in no order", 7, 7, 3, 3, 3, 5),
        _document_case("a single document", 4, 4, 4),
    ),
    mistakes={
        "the mask is not causal: {pair}, which stands in its future.": _documents(
            causal=lambda behind: behind == behind
        ),
        "documents are not kept apart: {pair}, of another document.": _documents(
            same=lambda a, b: a == a
        ),
        "causal or of the same document is not enough; both must hold: {pair}.": lambda document: (
            definitions.document_mask(document)
            | definitions.causal_mask(len(document), len(document))
        ),
        "a document that returns is taken for another one: {pair}, of the same document.": (
            _in_one_run
        ),
        "only the source just before a target is looked at: {pair}, of the same document.": (
            _only_the_neighbour
        ),
        "each source is compared with the one before it, not with the target: {pair}.": (
            _by_neighbours
        ),
        "documents of lower number are read too: {pair}.": _documents(same=lambda a, b: a >= b),
        "documents of higher number are read too: {pair}.": _documents(same=lambda a, b: a <= b),
        "number 0 is taken for padding: it is a document like any other, and {pair}.": _documents(
            same=lambda a, b: (a == b) & (a != 0)
        ),
        "the mask is transposed, and rules out the past in place of the future: {pair}.": (
            _documents(causal=lambda behind: behind <= 0)
        ),
        "a target must read itself too: {pair}.": _documents(causal=lambda behind: behind > 0),
        "documents are turned round: only other documents are read, and {pair}.": _documents(
            same=lambda a, b: a != b
        ),
        "the mask is turned round: True means that a source may be read, and {pair}.": _documents(
            after=lambda mask: ~mask
        ),
        "that is the additive form, with 0 and −∞; return booleans, True where target t may read "
        "source s.": _documents(after=_additive),
    },
    numbers=_pair,
)


# --- softmax under a mask ---------------------------------------------------------------------


def _filled(number: float) -> Callable:
    return lambda scores, may: softmax(np.where(may, scores, number))


def _renormalised(scores, may):
    weights = softmax(scores) * may
    return weights / weights.sum(-1, keepdims=True)


def _renormalised_with_a_guard(scores, may):
    weights = softmax(scores) * may
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total)


def _over_the_targets(scores, may):
    return definitions.masked_weights(scores.T, may.T).T


def _transposed(scores, may):
    return definitions.masked_weights(scores, may.T)


def _weights_case(about: str, scores: np.ndarray, may_attend: list) -> Case:
    return Case(
        about=about,
        arguments={"scores": scores, "may_attend": np.array(may_attend, dtype=bool)},
    )


def _largest_unreadable() -> np.ndarray:
    scores = _RNG.normal(size=(2, 5))
    scores[:, 1] = 2000.0
    return scores


def _row(arguments: dict[str, Any], got: np.ndarray, wanted: np.ndarray) -> dict[str, str]:
    """The first row that is wrong, what it sums to, and a source that it reads against the mask."""
    if got.shape != wanted.shape:
        return {"row": "0", "total": "another number", "unreadable": "0"}
    row = np.flatnonzero(~np.isclose(got, wanted, rtol=0, atol=1e-4).all(1))[0]
    read = np.flatnonzero((got[row] != 0) & ~arguments["may_attend"][row])
    return {
        "row": str(row),
        "total": f"{got[row].sum():.3g}",
        "unreadable": str(read[0] if len(read) else 0),
    }


_MASKED_WEIGHTS = Exercise(
    name="masked-weights",
    asks=(
        "weights(scores, may_attend) → the weights (t, s) of scores (t, s) under the booleans "
        "may_attend (t, s): zero where nothing may be read, and every other row sums to one"
    ),
    definition=definitions.masked_weights,
    cases=(
        _weights_case(
            "as many targets as sources, and a mask",
            _RNG.normal(size=(4, 4)),
            [[1, 0, 0, 1], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0]],
        ),
        _weights_case(
            "fewer targets than sources, and a mask",
            _RNG.normal(size=(3, 5)),
            [[1, 0, 1, 1, 0], [0, 1, 1, 0, 1], [1, 1, 1, 1, 1]],
        ),
        _weights_case(
            "a target that has nothing to read",
            _RNG.normal(size=(3, 4)),
            [[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 0]],
        ),
        _weights_case(
            "the by far largest scores where nothing may be read",
            _largest_unreadable(),
            [[1, 0, 1, 1, 0], [0, 0, 1, 1, 1]],
        ),
        _weights_case(
            "scores in the thousands",
            np.array([[4000.0, 4001.0, 3000.0], [-4000.0, -4001.0, -3999.0]]),
            [[1, 1, 0], [1, 1, 0]],
        ),
    ),
    mistakes={
        "the mask comes after the softmax, so that what may not be read still takes its share: "
        "row {row} sums to {total}.": lambda scores, may: softmax(scores) * may,
        "the mask is multiplied into the scores, or zeros are filled in, and a score of 0 is still "
        "read: row {row} reads source {unreadable}.": lambda scores, may: softmax(scores * may),
        "right, but for a target with nothing to read: a large negative number in place of −∞ "
        "makes its row uniform, and zeros are wanted.": _filled(-1e9),
        "right, but for a target with nothing to read: a large negative number added to all of its "
        "scores changes none of its weights, and zeros are wanted.": lambda scores, may: softmax(
            scores + np.where(may, 0, -1e9)
        ),
        "every weight is NaN, since 0 · ∞ is: −∞ must not be multiplied by a mask of 0 and 1.": (
            lambda scores, may: np.full(scores.shape, np.nan)
        ),
        "right, but for a target with nothing to read: 0/0 makes its row NaN, and zeros are "
        "wanted.": _filled(-np.inf),
        "right, but for targets whose largest score may not be read: beside it all others "
        "underflow, and 0/0 is left. Look for the largest score among those that may be read.": (
            _renormalised
        ),
        "right, but for targets whose largest score may not be read: beside it all others "
        "underflow, and the row is zero. Look for the largest score among those that may be "
        "read.": _renormalised_with_a_guard,
        "the mask is transposed: row {row} reads by the columns of may_attend. Rows are targets, "
        "columns are sources.": _transposed,
        "the softmax is over the targets: every row must sum to one, and row {row} sums to "
        "{total}.": _over_the_targets,
        "the mask is turned round: True means that a source may be read.": lambda scores, may: (
            definitions.masked_weights(scores, ~may)
        ),
        "the mask is not used.": lambda scores, may: softmax(scores),
        "the exponentials are masked, but not divided by their sum: row {row} sums to {total}.": (
            lambda scores, may: np.exp(scores) * may
        ),
        "right for scores of moderate size: exp of large ones overflows. Take the largest that may "
        "be read off first.": lambda scores, may: (
            np.exp(scores) * may / np.where(may.any(-1), (np.exp(scores) * may).sum(-1), 1)[:, None]
        ),
    },
    numbers=_row,
)


# --- what several layers reach ----------------------------------------------------------------

_REACH = Exercise(
    name="reach",
    asks=(
        "reach(n_layers, window) → how many sources a target far from the start reaches, itself "
        "included, through layers whose causal windows hold `window` sources, itself included"
    ),
    definition=definitions.reach,
    cases=tuple(
        Case(
            about=f"L = {n_layers} and W = {window}",
            arguments={"n_layers": n_layers, "window": window},
        )
        for n_layers, window in ((1, 4), (2, 5), (4, 3), (3, 1), (5, 2))
    ),
    mistakes={
        "that is L·W = {product}: each layer counts the position that it starts from again, though "
        "the layer before has counted it.": lambda n_layers, window: n_layers * window,
        "that is L·W − 1: where there are more than two layers, more than one position is counted "
        "twice.": lambda n_layers, window: n_layers * window - 1,
        "that is how many sources lie behind the target: it reaches itself too.": (
            lambda n_layers, window: n_layers * (window - 1)
        ),
        "that is W to the power of L: the paths multiply, but most of them end at the same "
        "sources.": lambda n_layers, window: window**n_layers,
        "that is the window of one layer: what it reads has read before.": (
            lambda n_layers, window: window
        ),
        "a window of W reaches W − 1 sources back, not W: the target itself is one of them.": (
            lambda n_layers, window: n_layers * window + 1
        ),
        "that counts sources on both sides; the windows are causal.": (
            lambda n_layers, window: 2 * n_layers * (window - 1) + 1
        ),
        "that is W + L − 1: each further layer adds more than one source.": (
            lambda n_layers, window: window + n_layers - 1
        ),
        "that is one layer too few.": lambda n_layers, window: definitions.reach(
            n_layers - 1, window
        ),
        "that is one layer too many.": lambda n_layers, window: definitions.reach(
            n_layers + 1, window
        ),
    },
    numbers=lambda arguments, *results: {"product": arguments["n_layers"] * arguments["window"]},
)

EXERCISES = (_CAUSAL_MASK, _WINDOW_MASK, _DOCUMENT_MASK, _MASKED_WEIGHTS, _REACH)
