"""The tokens explorer: any text, cut by the first merges of a byte-pair tokenizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import traitlets

from attnlib.byte_pairs import apply_merges, learn_merges
from attnlib.explore import checks, limits
from attnlib.explore.base import Contradiction, Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.readable import readable
from attnlib.explore.words import State, show, show_whole
from attnlib.pre_tokens import pre_tokens

PATTERN = "gpt-2"
N_SAID = 40  # so many tokens are listed in the words
Pair = tuple[int, int]


def tokens_after(text: str, merges: Sequence[Pair], n_merges: int) -> list[int]:
    """The ids of a text's tokens under the first so many merges."""
    rank_of = {pair: rank for rank, pair in enumerate(merges[:n_merges])}
    made = range(256, 256 + n_merges)
    return [
        token
        for piece in pre_tokens(text, PATTERN)
        for token in apply_merges(piece.encode(), rank_of, made)
    ]


def token_bytes(token: int, merges: Sequence[Pair]) -> bytes:
    """What a token stands for."""
    if token < 256:
        return bytes([token])
    left, right = merges[token - 256]
    return token_bytes(left, merges) + token_bytes(right, merges)


def count_words(text: str) -> int:
    """How many runs of anything but white space a text has."""
    import regex

    return len(regex.findall(r"\P{White_Space}+", text))


def tokens_facts(state: State) -> dict[str, Any]:
    """The numbers of the tokens explorer."""
    text, merges, n = state["text"], state["merges"], state["n_merges"]
    tokens = tokens_after(text, merges, n)
    before = tokens_after(text, merges, n - 1) if n else tokens
    return {
        "tokens": tokens,
        "characters": len(text),
        "bytes": len(text.encode()),
        "words": count_words(text),
        "joins": len(before) - len(tokens),  # each takes away one token
    }


def show_ratio(a: int, b: int) -> str:
    """a / b with two decimals, halves rounded up: quotients of counts often are halves."""
    return show((200 * a + b) // (2 * b) / 100)


def _count(number: int, thing: str) -> str:
    return f"{show_whole(number)} {thing}{'' if number == 1 else 's'}"


def describe_merge(state: State, joins: int) -> str:
    """The last merge that counts, in words."""
    merges, n = state["merges"], state["n_merges"]
    if n == 0:
        return "No merge yet: each byte is a token."
    parts = [*merges[n - 1], 255 + n]
    left, right, both = (f"“{readable(token_bytes(part, merges))}”" for part in parts)
    return (
        f"Merge {show_whole(n)} of {show_whole(len(merges))}: {left} + {right} → {both}, joins "
        f"{_count(joins, 'place') if joins else 'no place'} here."
    )


def describe_tokens(state: State) -> str:
    found = tokens_facts(state)
    merge = describe_merge(state, found["joins"])
    tokens = found["tokens"]
    if not tokens:
        return f"{merge} There is no text."
    names = [f"“{readable(token_bytes(token, state['merges']))}”" for token in tokens[:N_SAID]]
    rest = len(tokens) - N_SAID
    more = f" … and {show_whole(rest)} more" if rest > 0 else ""
    a_word = f", {show_ratio(len(tokens), found['words'])} tokens a word" if found["words"] else ""
    return (
        f"{merge} The text has {_count(found['characters'], 'character')}, "
        f"{_count(found['bytes'], 'byte')} and {_count(found['words'], 'word')}, and is "
        f"{_count(len(tokens), 'token')}: {show_ratio(found['bytes'], len(tokens))} bytes a token"
        f"{a_word}. Tokens: {' '.join(names)}{more}."
    )


_TEXT = "The sea, the sea! She sees the sea: the season, the shells, the shore."


def _learnt(text: str, n_merges: int) -> tuple[Pair, ...]:
    counts = Counter(piece.encode() for piece in pre_tokens(text, PATTERN))
    return tuple(learn_merges(counts, n_merges))


class TokensExplorer(Explorer):
    """Any text → its tokens under the first `n_merges` of `merges`.

    `merges` are pairs of ids, where the ids up to 255 are bytes and merge i makes the id 256 + i,
    as `BytePairTokenizer.train(...).merges` gives them. The text is cut by GPT-2's pattern first.
    """

    explorer = "tokens"
    title = "Tokens: byte pairs, merge by merge"
    _esm = anywidget_module("tokens.mjs")

    text = Option(checks.text, _TEXT, limits.TEXT_LENGTH)
    merges = Option(checks.merges, None, limits.N_MERGES, fixed=True)
    n_merges = Option(checks.whole, 0, limits.N_MERGES)

    @traitlets.default("merges")
    def _learnt_from_the_first_text(self) -> tuple[Pair, ...]:
        return _learnt(_TEXT, 24)

    def check_together(self, state: State) -> None:
        if state["n_merges"] > len(state["merges"]):
            raise Contradiction(
                f"n_merges must be at most the number of merges, {len(state['merges'])}, "
                f"got {state['n_merges']}"
            )

    @traitlets.validate("n_merges")
    def _keep_to_the_merges(self, proposal: Any) -> int:
        return self.checked(proposal)

    def facts(self) -> dict[str, Any]:
        """The ids of the tokens, and the counts."""
        return tokens_facts(self.state)

    def describe(self) -> str:
        return describe_tokens(self.state)
