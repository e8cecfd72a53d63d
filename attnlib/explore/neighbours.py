"""The neighbours explorer: the words nearest to a word, in the first d columns of their vectors."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import traitlets

from attnlib.explore import checks, limits
from attnlib.explore.base import Contradiction, Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.packed import pack, unpack
from attnlib.explore.words import State, show_thousandths


def nearest(whole: np.ndarray, row: int, width: int) -> tuple[list[int], list[float]]:
    r"""The rows nearest to one by cosine in the first `width` columns, and their cosines.

    $$\cos(x, y) = \frac{\langle x, y \rangle}{\|x\| \|y\|}$$

    Rows that are equally near come in their order; a row that is zero so far has cosine 0.
    """
    first = whole[:, :width]
    dots, lengths = first @ first[row], np.sqrt((first * first).sum(axis=1))
    products = lengths * lengths[row]
    cosines = np.divide(dots, products, out=np.zeros(len(whole)), where=products > 0)
    order = [int(i) for i in np.argsort(-cosines, kind="stable") if i != row]
    order = order[: limits.N_NEIGHBOURS]
    return order, cosines[order].tolist()


def neighbours_facts(state: State) -> dict[str, Any]:
    """The numbers of the neighbours explorer."""
    whole, words = unpack(state["vectors"]), state["words"]
    row, width = list(words).index(state["word"]), state["width"]
    order, cosines = nearest(whole, row, width)
    n_columns = whole.shape[1]
    in_the_end = set(nearest(whole, row, n_columns)[0])
    shared = [len(in_the_end & set(nearest(whole, row, d + 1)[0])) for d in range(n_columns)]
    return {
        "neighbours": [words[i] for i in order],
        "cosines": cosines,
        "isShared": [i in in_the_end for i in order],
        "sharedByWidth": shared,
    }


def describe_neighbours(state: State) -> str:
    found = neighbours_facts(state)
    pairs = zip(found["neighbours"], found["cosines"], strict=True)
    names = ", ".join(f"{word} {show_thousandths(cosine)}" for word, cosine in pairs)
    n, n_columns = len(found["neighbours"]), state["vectors"]["columns"]
    return (
        f"“{state['word']}” in the first {state['width']} of {n_columns} dimensions. Nearest by "
        f"cosine: {names}. Of these {n}, {sum(found['isShared'])} are among its {n} nearest in all "
        f"{n_columns} dimensions."
    )


_WORDS = (
    *("king", "kings", "kingdom", "kind", "kin", "queen", "queens", "sea", "seas", "season"),
    *("see", "seen", "seem", "ship", "ships", "shipping", "word", "words", "sword", "world"),
    *("wander", "wonder", "thunder", "under"),
)


@cache
def _spelling() -> dict[str, Any]:
    """Vectors at hand without any data: the pairs of letters in each word, factorised."""
    pairs = sorted({a + b for word in _WORDS for a, b in pairwise(word)})
    counts = np.array([[word.count(pair) for pair in pairs] for word in _WORDS], dtype=float)
    left, values, _ = np.linalg.svd(counts, full_matrices=False)
    return pack("vectors", (left * values)[:, :12])


class NeighboursExplorer(Explorer):
    """A word and a width d → its nearest words by cosine in the first d coordinates.

    `vectors` has a row for each of `words`; its columns fall in importance, as those of a singular
    value decomposition do. It is kept as whole numbers of 16 bits: `attnlib.explore.packed.unpack`
    gives them. Without `word` and `width` the first word is shown at full width.
    """

    explorer = "neighbours"
    title = "Neighbours: how many dimensions a meaning needs"
    _esm = anywidget_module("neighbours.mjs")

    words = Option(checks.distinct_words, _WORDS, limits.N_WORDS, fixed=True)
    vectors = Option(pack, None, fixed=True)
    word = Option(checks.text, None, limits.WORD_LENGTH)
    width = Option(checks.whole, None, limits.N_COLUMNS)

    @traitlets.default("vectors")
    def _vectors_at_hand(self) -> dict[str, Any]:
        return _spelling()

    @traitlets.default("word")
    def _first_word(self) -> str:
        return self.words[0]

    @traitlets.default("width")
    def _full_width(self) -> int:
        return self.vectors["columns"]

    def check_together(self, state: State) -> None:
        words, vectors = state["words"], state["vectors"]
        if vectors["rows"] != len(words):
            raise ValueError(
                f"vectors must have a row for each of words, got {vectors['rows']} rows "
                f"and {len(words)} words"
            )
        if state["word"] not in words:
            raise Contradiction(
                f"word must be one of the {len(words)} words, got {state['word']!r}"
            )
        if state["width"] > vectors["columns"]:
            raise Contradiction(
                f"width must be at most the number of columns, {vectors['columns']}, "
                f"got {state['width']}"
            )

    @traitlets.validate("word", "width")
    def _keep_to_the_vectors(self, proposal: Any) -> str | int:
        return self.checked(proposal)

    def facts(self) -> dict[str, Any]:
        """The nearest words, their cosines, and how many are shared at every width."""
        return neighbours_facts(self.state)

    def describe(self) -> str:
        return describe_neighbours(self.state)
