"""The explorer of alignments: which English words a translator reads for each German piece."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import traitlets

from attnlib.data import number_words
from attnlib.explore import checks, limits
from attnlib.explore.base import Contradiction, Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.packed_maps import pack_maps, shape_of, unpack_maps
from attnlib.explore.words import (
    State,
    quote,
    show_count,
    show_thousandths,
    show_weight,
    show_whole,
)
from attnlib.number_words import Alignment, alignments, meaning_shares
from attnlib.pretrained import load_pretrained

_DEFAULT_NUMBER = 21_021


def check_alignments(name: str, value: Any) -> tuple[dict[str, Any], ...]:
    """Alignments as `attnlib.number_words.alignments` gives them, or as this packs them."""
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a list of alignments, got {type(value).__name__}")
    fewest, most = limits.N_ALIGNMENTS
    if not fewest <= len(value) <= most:
        raise ValueError(f"{name} must be {fewest} to {most} alignments, got {len(value)}")
    checked = tuple(_checked(f"each of {name}", each) for each in value)
    numbers = [each["number"] for each in checked]
    if any(later <= before for before, later in pairwise(numbers)):
        raise ValueError(f"{name} must be in the order of their numbers, each once, got {numbers}")
    first = shape_of(checked[0]["weights"])[:2]
    for each in checked:
        if shape_of(each["weights"])[:2] != first:
            raise ValueError(
                f"{name} must have as many layers and heads as the first has, {first}, got "
                f"{shape_of(each['weights'])[:2]} for {each['number']}"
            )
    return checked


def _checked(name: str, value: Any) -> dict[str, Any]:
    fields = value if isinstance(value, Mapping) else getattr(value, "_asdict", dict)()
    missing = [key for key in ("number", "source", "target", "weights") if key not in fields]
    if missing:
        raise TypeError(f"{name} must have a number, source, target and weights, got {value!r:.60}")
    tokens = {
        key: checks.token_texts(f"the {key} {name}", fields[key], limits.N_ALIGNED_TOKENS)
        for key in ("source", "target")
    }
    weights = pack_maps(f"weights {name}", fields["weights"], square=False)
    n_targets, n_sources = shape_of(weights)[2:]
    if (n_targets, n_sources) != (len(tokens["target"]), len(tokens["source"])):
        raise ValueError(
            f"the weights of {name} must have a target for each piece and a source for each word, "
            f"got t={n_targets} and s={n_sources} for {len(tokens['target'])} pieces and "
            f"{len(tokens['source'])} words"
        )
    number = checks.whole(f"the number {name}", fields["number"], limits.NUMBER_IN_WORDS)
    return {"number": number, **{key: list(tokens[key]) for key in tokens}, "weights": weights}


def plain(piece: str) -> str:
    """A piece as it stands in its word: "##" only says that it is within one."""
    return piece.removeprefix("##")


def _chosen(state: State) -> dict[str, Any]:
    return next(each for each in state["alignments"] if each["number"] == state["number"])


def _total(numbers: Sequence[float]) -> float:
    """One after the other, as JavaScript adds: `sum` of a new Python keeps more digits."""
    total = 0.0
    for x in numbers:
        total += x
    return total


def _rows_of(state: State) -> list[list[float]]:
    """The weights of the chosen head, or their mean over the heads."""
    heads = unpack_maps(_chosen(state)["weights"])[state["layer"]].tolist()
    if state["head"] < len(heads):
        return heads[state["head"]]
    return [
        [_total(weights) / len(heads) for weights in zip(*rows, strict=True)]
        for rows in zip(*heads, strict=True)
    ]


def alignment_facts(state: State) -> dict[str, Any]:
    """The numbers of the explorer of alignments.

    `tops` are the words that each piece reads most, the first of equal ones, and `topWeights` the
    weights on them. `nBackward` counts the pieces whose word stands before that of the piece
    before: where it is 0, the order of the two languages is the same. The entropy is in nats and
    the mean over the pieces.
    """
    rows = _rows_of(state)
    tops = [row.index(max(row)) for row in rows]
    terms = [-p * math.log(p) if p > 0 else 0.0 for row in rows for p in row]
    return {
        "weight": rows[state["target"]][state["source"]],
        "tops": tops,
        "topWeights": [row[s] for row, s in zip(rows, tops, strict=True)],
        "nBackward": sum(s < before for before, s in pairwise(tops)),
        "entropy": _total(terms) / len(rows),
        "largestEntropy": math.log(len(rows[0])),
    }


def describe_alignment(state: State) -> str:
    found, chosen = alignment_facts(state), _chosen(state)
    source, target = chosen["source"], [plain(piece) for piece in chosen["target"]]
    n_layers, n_heads = shape_of(chosen["weights"])[:2]
    head = "mean over the heads" if state["head"] == n_heads else f"head {state['head']}"
    written = "".join(piece for piece in target if piece != "[END]")
    pairs = zip(target, found["tops"], found["topWeights"], strict=True)
    reads = ", ".join(f"{quote(it)} {quote(source[s])} {show_weight(p)}" for it, s, p in pairs)
    return (
        f"{show_whole(chosen['number'])}: {quote(' '.join(source))} becomes {quote(written)}. "
        f"Layer {state['layer']}, {head}, of {show_count(n_layers, 'layer')} with "
        f"{show_count(n_heads, 'head')} each, counted from 0. When it writes a piece it reads "
        f"mostly: {reads}. Steps back in the English words: {found['nBackward']}. The weight of "
        f"{quote(target[state['target']])} on {quote(source[state['source']])} is "
        f"{show_weight(found['weight'])}. Mean entropy {show_thousandths(found['entropy'])} of at "
        f"most {show_thousandths(found['largestEntropy'])} nats."
    )


def _shares(packed: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """What `meaning_shares` says of each head; 0 where no piece means a number."""
    unpacked = (
        Alignment(it["number"], it["source"], it["target"], unpack_maps(it["weights"]))
        for it in packed
    )
    found = [it._replace(weights=torch.from_numpy(it.weights)) for it in unpacked]
    try:
        return meaning_shares(found).numpy()
    except ValueError:
        return np.zeros(found[0].weights.shape[:2])


@cache
def _of_the_books_translator() -> tuple[dict[str, Any], ...]:
    model = load_pretrained("number-words").model
    return check_alignments("alignments", alignments(model, number_words("examples")))


class AlignmentExplorer(Explorer):
    """A number, a layer and a head of a translator → what it reads for each piece it writes.

    `alignments` are those that `attnlib.number_words.alignments` gives; they are kept in 12 bits,
    as `attnlib.explore.packed_maps` has it. The row of a piece is what is read when that piece is
    written. A `head` that is the number of heads stands for their mean. `target` and `source` are
    the pair that is looked at. Without data they are the book's own translator's, and without a
    layer and a head those of the clearest one, by `attnlib.number_words.meaning_shares`.
    """

    explorer = "alignment"
    title = "Alignment: which English words are read for each German piece"
    _esm = anywidget_module("alignment.mjs")

    alignments = Option(check_alignments, None, fixed=True)
    number = Option(checks.whole, 0, limits.NUMBER_IN_WORDS)
    layer = Option(checks.whole, 0, (0, limits.N_MAP_LAYERS[1] - 1))
    head = Option(checks.whole, 0, (0, limits.N_MAP_HEADS[1]))
    target = Option(checks.whole, 0, (0, limits.N_ALIGNED_TOKENS[1] - 1))
    source = Option(checks.whole, 0, (0, limits.N_ALIGNED_TOKENS[1] - 1))

    @traitlets.default("alignments")
    def _translators(self) -> tuple[dict[str, Any], ...]:
        return _of_the_books_translator()

    @traitlets.default("number")
    def _number_to_start_with(self) -> int:
        numbers = [each["number"] for each in self.alignments]
        return _DEFAULT_NUMBER if _DEFAULT_NUMBER in numbers else numbers[0]

    @traitlets.default("layer")
    def _layer_of_the_clearest(self) -> int:
        return self._clearest()[0]

    @traitlets.default("head")
    def _head_of_the_clearest(self) -> int:
        return self._clearest()[1]

    def _clearest(self) -> tuple[int, int]:
        """The head that reads most of what the pieces mean; layer or head may be asked for."""
        shares = _shares(self.alignments)
        n_layers, n_heads = shares.shape
        layers = [self.layer] if self.trait_has_value("layer") else range(n_layers)
        heads = [self.head] if self.trait_has_value("head") else range(n_heads)
        places = [(i, j) for i in layers for j in heads if i < n_layers and j < n_heads]
        return max(places, key=lambda place: shares[place], default=(0, 0))

    def check_together(self, state: State) -> None:
        numbers = [each["number"] for each in state["alignments"]]
        if state["number"] not in numbers:
            raise Contradiction(f"number must be one of {numbers}, got {state['number']}")
        n_layers, n_heads, n_targets, n_sources = shape_of(_chosen(state)["weights"])
        for name, count, what in (
            ("layer", n_layers, "layers"),
            ("head", n_heads + 1, "heads and their mean"),
            ("target", n_targets, "pieces"),
            ("source", n_sources, "words"),
        ):
            if state[name] >= count:
                raise Contradiction(
                    f"{name} must be less than the number of {what}, {count}, got {state[name]}"
                )

    @traitlets.validate("number", "layer", "head", "target", "source")
    def _keep_to_the_maps(self, proposal: Any) -> int:
        return self.checked(proposal)

    def facts(self) -> dict[str, Any]:
        """What each piece reads most, how often that goes back, and how sure the head is."""
        return alignment_facts(self.state)

    def describe(self) -> str:
        return describe_alignment(self.state)
