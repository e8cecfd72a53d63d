"""The explorer of the next token: what temperature, top-k, top-p and min-p leave of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
import traitlets

from attnlib.data import plays
from attnlib.explore import checks, limits
from attnlib.explore.base import Contradiction, Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.packed_logits import pack_logits, unpack_logits
from attnlib.explore.readable import readable
from attnlib.explore.words import (
    State,
    quote,
    show_round,
    show_thousandths,
    show_weight,
    show_whole,
    untie,
)
from attnlib.pretrained import load_pretrained
from attnlib.sampling import Sampler

N_SHOWN = 12  # so many of the likeliest tokens are shown and named

_DATA = ("logits", "words", "text")
_BEGINS = "MACBETH.\nShe should have died hereafter;"
_LINE = "To-morrow, and to-morrow, and to-morrow,"
_N_TOKENS = 24
_FIRST_POSITION = 6


def check_words(name: str, value: Any, bounds: tuple[int, int]) -> tuple[str, ...]:
    """A text for each token; of bytes, those that make no character stand as ⟨E2⟩."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a list of texts or bytes, got {type(value).__name__}")
    fewest, most = bounds
    if not fewest <= len(value) <= most:
        raise ValueError(f"{name} must be {fewest} to {most} tokens, got {len(value)}")
    each = f"each of {name}"
    texts = (_text_of(token) if isinstance(token, bytes) else token for token in value)
    return tuple(checks.text(each, text, limits.TOKEN_LENGTH) for text in texts)


def _text_of(token: bytes) -> str:
    """Some bytes as a text: Python's own sign for a lone byte is half of a character."""
    halves = token.decode("utf-8", errors="surrogateescape")
    return "".join(f"⟨{ord(c) - 0xDC00:02X}⟩" if "\udc80" <= c <= "\udcff" else c for c in halves)


def check_ids(name: str, value: Any, bounds: tuple[int, int]) -> tuple[int, ...]:
    ids = value.tolist() if hasattr(value, "tolist") else value  # of NumPy or torch
    if isinstance(ids, str) or not isinstance(ids, Sequence):
        raise TypeError(f"{name} must be a list of token ids, got {value!r:.80}")
    fewest, most = bounds
    if not fewest <= len(ids) <= most:
        raise ValueError(f"{name} must be {fewest} to {most} token ids, got {len(ids)}")
    last = limits.VOCABULARY[1] - 1
    return tuple(checks.whole(f"each of {name}", id, (0, last)) for id in ids)


def or_none(name: str, value: Any, bounds: tuple[float, float], none: float) -> float:
    """None is the value that drops nothing."""
    return checks.number(name, none if value is None else value, bounds)


def samplers_of(state: State) -> tuple[Sampler, Sampler, Sampler, Sampler]:
    """The temperature alone, then with top-k, with top-p too, and with min-p too."""
    warm = {"temperature": state["temperature"]}
    by_count = {**warm, "top_k": state["top_k"] or None}
    by_mass = {**by_count, "top_p": state["top_p"]}
    return (
        Sampler(**warm),
        Sampler(**by_count),
        Sampler(**by_mass),
        Sampler(**by_mass, min_p=state["min_p"]),
    )


def next_token_facts(state: State) -> dict[str, Any]:
    """The numbers of the explorer of the next token.

    `top` are the likeliest tokens, of equal ones the lowest ids; `before` is how likely the model
    has them and `after` how likely they are to be drawn. `kept` counts what can be drawn with the
    temperature alone, and after top-k, top-p and min-p. `mass` is what the last of these have
    together at this temperature. `rank` counts from 1, and belongs to the token of the text.
    """
    logits = torch.from_numpy(unpack_logits(state["logits"])[state["position"]])
    own = Sampler().probabilities(logits)
    warm, *_, after = drawn = [it.probabilities(logits) for it in samplers_of(state)]
    order = logits.sort(descending=True, stable=True).indices
    top, token = order[:N_SHOWN], state["text"][state["position"]]
    return {
        "top": top.tolist(),
        "before": own[top].tolist(),
        "after": after[top].tolist(),
        "kept": [int((p > 0).sum()) for p in drawn],
        "mass": float(warm[after > 0].sum()),
        "entropyBefore": float(torch.special.entr(own).sum()),
        "entropy": float(torch.special.entr(after).sum()),
        "largestEntropy": math.log(len(logits)),
        "rank": int((order == token).nonzero()) + 1,
        "tokenBefore": float(own[token]),
        "tokenAfter": float(after[token]),
    }


def _change(before: float, after: float) -> str:
    left = show_weight(untie(after)) if after > 0 else "dropped"
    return f"{show_weight(untie(before))} → {left}"


def describe_next_token(state: State) -> str:
    found, words = next_token_facts(state), state["words"]
    names = [quote(readable(words[id].encode())) for id in found["top"]]
    likeliest = zip(names, found["before"], found["after"], strict=True)
    token = quote(readable(words[state["text"][state["position"]]].encode()))
    by_count, by_mass, by_share = map(show_whole, found["kept"][1:])
    v = show_whole(len(words))
    top_k = show_whole(state["top_k"]) if state["top_k"] else "off"
    return (
        f"Position {state['position']} of {len(state['text'])}, counted from 0; the text has "
        f"{token} there. Temperature {show_round(state['temperature'])}, top-k {top_k}, top-p "
        f"{show_round(state['top_p'])}, min-p {show_round(state['min_p'])}. Of {v} tokens top-k "
        f"leaves {by_count}, then top-p {by_mass}, then min-p {by_share}. At this temperature "
        f"these have {show_weight(untie(found['mass']))} of the probability. Entropy "
        f"{show_thousandths(found['entropy'])} nats; the model's own "
        f"{show_thousandths(found['entropyBefore'])}, at most "
        f"{show_thousandths(found['largestEntropy'])}. The likeliest tokens, the model's own "
        f"probability → that of being drawn: "
        f"{', '.join(f'{name} {_change(p, q)}' for name, p, q in likeliest)}. The text's token "
        f"{token} is number {show_whole(found['rank'])} of {v}: "
        f"{_change(found['tokenBefore'], found['tokenAfter'])}."
    )


@cache
def _of_the_books_model() -> dict[str, Any]:
    """Its logits along a line of a play that was held out, as far as that line goes with it."""
    bard = load_pretrained("shakespeare")
    play = plays("held-out")["macbeth"]
    begin = play.index(_BEGINS)
    ids = bard.tokenizer.encode(play[begin : play.index(_LINE) + 40 * _N_TOKENS])
    n_bytes = len(play[begin : play.index(_LINE)].encode())
    first, place = 0, 0
    while place < n_bytes:  # a token may begin before the line and end in it
        place += len(bard.tokenizer.token_bytes(ids[first]))
        first += 1
    last = first + _N_TOKENS
    with torch.no_grad():
        logits = bard.model(torch.tensor([ids[: last - 1]]))[0, first - 1 :]
    return {
        "logits": pack_logits("logits", logits),
        "words": tuple(_text_of(bard.tokenizer.token_bytes(id)) for id in range(logits.shape[-1])),
        "text": tuple(ids[first:last]),
        "before": bard.decode(ids[:first]),
    }


class NextTokenExplorer(Explorer):
    """Logits of a model, a temperature, top-k, top-p and min-p → what the next token may be.

    Row i of `logits` is the model's answer where `text`, a list of token ids, has its token i: for
    `inputs, targets = shifted(tokens)` they are `model(inputs)[0]` and `targets[0]`. `words` are
    the texts, or bytes, of all tokens in the order of their ids, and `before` is what stands before
    `text`. The logits are kept in 16 bits: `attnlib.explore.packed_logits.unpack_logits` gives
    them. `temperature`, `top_k`, `top_p` and `min_p` are those of `attnlib.Sampler`; None drops
    nothing. Without data they are of the book's own model, on a line of a play it has not read.
    """

    explorer = "next-token"
    title = "The next token: what temperature, top-k, top-p and min-p leave"
    _esm = anywidget_module("next-token.mjs")

    logits = Option(pack_logits, None, fixed=True)
    words = Option(check_words, None, limits.VOCABULARY, fixed=True)
    text = Option(check_ids, None, limits.N_NEXT_TOKENS, fixed=True)
    before = Option(checks.text, "", limits.TEXT_LENGTH, fixed=True)
    position = Option(checks.whole, 0, (0, limits.N_NEXT_TOKENS[1] - 1))
    temperature = Option(checks.number, 0.8, limits.SAMPLING_TEMPERATURE)
    top_k = Option(checks.whole_or_none, 40, limits.TOP_K)
    top_p = Option(or_none, 0.95, limits.TOP_P, 1.0)
    min_p = Option(or_none, 0.1, limits.MIN_P, 0.0)

    def __init__(self, **options: Any):
        given = [name for name in (*_DATA, "before") if name in options]
        missing = [name for name in _DATA if name not in options]
        if given and missing:
            raise TypeError(
                f"logits, words and text belong together, got {', '.join(given)} without "
                f"{', '.join(missing)}"
            )
        super().__init__(**options)

    @traitlets.default("logits")
    def _books_logits(self) -> dict[str, Any]:
        return _of_the_books_model()["logits"]

    @traitlets.default("words")
    def _books_words(self) -> tuple[str, ...]:
        return _of_the_books_model()["words"]

    @traitlets.default("text")
    def _books_text(self) -> tuple[int, ...]:
        return _of_the_books_model()["text"]

    @traitlets.default("before")
    def _books_before(self) -> str:
        return "" if self.trait_has_value("text") else _of_the_books_model()["before"]

    @traitlets.default("position")
    def _position_to_start_with(self) -> int:
        return min(_FIRST_POSITION, len(self.text) - 1)

    def check_together(self, state: State) -> None:
        n, v = state["logits"]["rows"], state["logits"]["columns"]
        words, text = state["words"], state["text"]
        if len(words) != v:
            raise ValueError(
                f"words must name each token, got {len(words)} words and logits of v={v}"
            )
        if len(text) != n:
            raise ValueError(
                f"logits must have a row for each token of text, got {n} rows and {len(text)} "
                "tokens"
            )
        if max(text) >= v:
            raise ValueError(f"each of text must be less than v={v}, got {max(text)}")
        if state["position"] >= n:
            raise Contradiction(
                f"position must be less than the number of tokens of text, {n}, got "
                f"{state['position']}"
            )

    @traitlets.validate("position")
    def _keep_to_the_text(self, proposal: Any) -> int:
        return self.checked(proposal)

    def facts(self) -> dict[str, Any]:
        """The likeliest tokens before and after, how many are left, and the entropies."""
        return next_token_facts(self.state)

    def describe(self) -> str:
        return describe_next_token(self.state)
