"""The exercises of the chapter on tokenization: definitions, cases and known mistakes.

Source   attnlib/definitions/of_tokenization.py; the mistakes are those that readers and tokenizers
         written for teaching make
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py
"""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from attnlib import definitions
from attnlib.exercises.exact import ExactExercise
from attnlib.exercises.judge import Case

Pair = tuple[int, int]


def _ids_case(about: str, ids: list[int]) -> Case:
    return Case(about=about, arguments={"ids": ids})


def _never_twice_in_a_run(ids: list[int]) -> dict[Pair, int]:
    pairs = list(pairwise(ids))
    return Counter(pair for i, pair in enumerate(pairs) if i == 0 or pairs[i - 1] != pair)


_COUNT_PAIRS = ExactExercise(
    name="count-pairs",
    asks=(
        "count_pairs(ids) → a dictionary from each pair (left, right) of neighbours to the number "
        "of its places, overlapping ones counted once"
    ),
    definition=definitions.count_pairs,
    cases=(
        _ids_case("no two equal neighbours", [1, 2, 3, 1, 2, 1]),
        _ids_case("a run of three equal tokens", [7, 5, 5, 5, 6]),
        _ids_case("a run of four and one of five", [4] * 4 + [9] + [4] * 5),
        _ids_case("ids of several digits", [1, 12, 11, 2, 300, 1, 12]),
        _ids_case("a single token", [8]),
        _ids_case("nothing", []),
    ),
    mistakes={
        "places that overlap are counted twice: three equal tokens hold the pair once.": (
            lambda ids: Counter(pairwise(ids))
        ),
        "a run of four equal tokens holds the pair twice, not once: only places that overlap the "
        "one counted last are left out.": _never_twice_in_a_run,
        "after a pair that was counted, the next one may start at its second token, unless both "
        "are the same pair.": lambda ids: Counter(zip(ids[::2], ids[1::2], strict=False)),
        "the order within a pair matters: (1, 2) is not (2, 1).": (
            lambda ids: Counter(tuple(sorted(pair)) for pair in _places(ids))
        ),
        "the last pair is missing.": lambda ids: definitions.count_pairs(ids[:-1]),
        "the first pair is missing.": lambda ids: definitions.count_pairs(ids[1:]),
        "these are counts of tokens, not of pairs.": Counter,
    },
)


def _places(ids: list[int]) -> list[Pair]:
    """Every place that the definition counts, as its pair."""
    return list(Counter(definitions.count_pairs(ids)).elements())


def _merge_case(about: str, ids: list[int], pair: Pair) -> Case:
    return Case(about=about, arguments={"ids": ids, "pair": pair, "new_id": 99})


def _merge_from_the_right(ids: list[int], pair: Pair, new_id: int) -> list[int]:
    return definitions.merge_pair(ids[::-1], pair[::-1], new_id)[::-1]


def _merge_the_first(ids: list[int], pair: Pair, new_id: int) -> list[int]:
    places = [i for i, two in enumerate(pairwise(ids)) if two == pair]
    return [*ids[: places[0]], new_id, *ids[places[0] + 2 :]] if places else ids


def _merge_overlapping(ids: list[int], pair: Pair, new_id: int) -> list[int]:
    """Every place becomes a new token, also where two share one."""
    starts = {i for i, two in enumerate(pairwise(ids)) if two == pair}
    kept = (i for i in range(len(ids)) if i in starts or i - 1 not in starts)
    return [new_id if i in starts else ids[i] for i in kept]


def _merge_either_way(ids: list[int], pair: Pair, new_id: int) -> list[int]:
    merged = definitions.merge_pair(ids, pair, new_id)
    return definitions.merge_pair(merged, pair[::-1], new_id)


def _merge_without_the_end(ids: list[int], pair: Pair, new_id: int) -> list[int]:
    merged, i = [], 0
    while i < len(ids) - 1:
        found = (ids[i], ids[i + 1]) == pair
        merged.append(new_id if found else ids[i])
        i += 2 if found else 1
    return merged


def _merge_and_keep_the_right(ids: list[int], pair: Pair, new_id: int) -> list[int]:
    return [new_id if two == pair else two[0] for two in pairwise(ids)] + ids[-1:]


_MERGE_PAIR = ExactExercise(
    name="merge-pair",
    asks="merge_pair(ids, pair, new_id) → the list with new_id in the place of each pair",
    definition=definitions.merge_pair,
    cases=(
        _merge_case("a pair of two different tokens", [1, 2, 3, 2, 1, 2, 5], (1, 2)),
        _merge_case("the pair at the end", [3, 1, 2], (1, 2)),
        _merge_case("ids of several digits", [1, 12, 11, 2, 300, 1, 12], (1, 12)),
        _merge_case("a run of three equal tokens", [7, 4, 4, 4, 6], (4, 4)),
        _merge_case("a pair that is not there", [2, 1, 1], (1, 2)),
        _merge_case("nothing", [], (1, 2)),
    ),
    mistakes={
        "nothing is merged. A slice of a list is a list, so `ids[i : i + 2] == pair` is false even "
        "where both hold the same; compare tuple(ids[i : i + 2]).": (
            lambda ids, pair, new_id: list(ids)
        ),
        "in a run of equal tokens, merge from the left: three of them become the new token and "
        "one.": _merge_from_the_right,
        "a token is used up by the merge it is in: three equal tokens hold one pair, not two.": (
            _merge_overlapping
        ),
        "every place of the pair is merged, not only the first.": _merge_the_first,
        "the order within the pair matters: (2, 1) is not merged with (1, 2).": _merge_either_way,
        "the last token is lost where no pair ends the list.": _merge_without_the_end,
        "the right token of the pair must go when the new one comes.": _merge_and_keep_the_right,
        "the pair is taken out, and the new token is not put in.": (
            lambda ids, pair, new_id: [
                x for x in definitions.merge_pair(ids, pair, new_id) if x != new_id
            ]
        ),
    },
)


def _encode_by(key: Callable[[int, int], tuple], most: int | None = None) -> Callable:
    """A variant of encoding: of the pairs that are merges, the one of least key(rank, place)."""

    def encode(ids: list[int], merges: list[Pair]) -> list[int]:
        ids, left = list(ids), most
        while left is None or left > 0:
            found = [(merges.index(p), i) for i, p in enumerate(pairwise(ids)) if p in merges]
            if not found:
                break
            rank, i = min(found, key=lambda place: key(*place))
            ids[i : i + 2] = [256 + rank]
            left = None if left is None else left - 1
        return ids

    return encode


def _encode_once_a_merge(ids: list[int], merges: list[Pair]) -> list[int]:
    for rank, pair in enumerate(merges):
        ids = _merge_the_first(ids, pair, 256 + rank)
    return ids


def _encode_from(first: int) -> Callable:
    """A variant in which merge i makes the token first + i, and merges name the tokens so."""

    def encode(ids: list[int], merges: list[Pair]) -> list[int]:
        return [x if x < 256 else x - 256 + first for x in definitions.encode_by_rank(ids, merges)]

    return encode


def _encode_longest(ids: list[int], merges: list[Pair]) -> list[int]:
    """From the left, the longest token that fits, as WordPiece does."""
    spelt = {i: (i,) for i in range(256)}
    for i, (a, b) in enumerate(merges):
        spelt[256 + i] = spelt[a] + spelt[b]
    rest, out = tuple(ids), []
    while rest:
        fits = [i for i, spelling in spelt.items() if rest[: len(spelling)] == spelling]
        out.append(max(fits, key=lambda i: len(spelt[i])))
        rest = rest[len(spelt[out[-1]]) :]
    return out


def _encode_case(about: str, text: bytes, merges: list[Pair]) -> Case:
    return Case(about=about, arguments={"ids": list(text), "merges": merges})


_A, _B, _C, _D = b"abcd"

_ENCODE_BY_RANK = ExactExercise(
    name="encode-by-rank",
    asks=(
        "encode(ids, merges) → the tokens of a list of bytes, where merge i, of rank i, makes the "
        "token 256 + i"
    ),
    definition=definitions.encode_by_rank,
    cases=(
        _encode_case("one pair, twice", b"abdab", [(_A, _B)]),
        _encode_case("the better pair further right", b"abc", [(_B, _C), (_A, _B)]),
        _encode_case("the better pair further left", b"abc", [(_A, _B), (_B, _C)]),
        _encode_case("two ways to one token", b"abcd", [(_A, _B), (_B, _C), (_A, 257)]),
        _encode_case("a merge of merges", b"dabcab", [(_A, _B), (256, _C), (_D, 257)]),
        _encode_case("a run of equal bytes", b"aaaaa", [(_A, _A), (256, _A)]),
        _encode_case(
            "a longer token that rank order does not reach",
            b"abcd",
            [(_B, _C), (_C, _D), (_A, _B), (258, _C)],
        ),
        _encode_case("no merge that fits", b"dcb", [(_A, _B)]),
        _encode_case("nothing", b"", [(_A, _B)]),
    ),
    mistakes={
        "the leftmost pair that is a merge is merged first; it must be the one of lowest rank, "
        "wherever it stands.": _encode_by(lambda rank, i: (i,)),
        "the pair of highest rank is merged first; the merge learnt first has the lowest rank and "
        "comes first.": _encode_by(lambda rank, i: (-rank, i)),
        "of several places of the best pair the leftmost comes first, not the rightmost.": (
            _encode_by(lambda rank, i: (rank, -i))
        ),
        "that takes the longest token from the left, as WordPiece does; byte pairs go by rank.": (
            _encode_longest
        ),
        "one merge is made, and then no more: go on until no pair is a merge.": _encode_by(
            lambda rank, i: (rank, i), most=1
        ),
        "every merge is made at one place only: go on until no pair is a merge.": (
            _encode_once_a_merge
        ),
        "merge i makes the token 256 + i: the bytes have the ids before it.": _encode_from(0),
        "merge i makes the token 256 + i, counted from i = 0.": _encode_from(257),
    },
)


def _shortest_piece(word: str, vocabulary: set[str]) -> list[str]:
    pieces, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        ends = range(start + 1, len(word) + 1)
        end = next((e for e in ends if mark + word[start:e] in vocabulary), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(mark + word[start:end])
        start = end
    return pieces


def _without_marks(word: str, vocabulary: set[str]) -> list[str]:
    pieces = []
    while word:
        fits = [word[:n] for n in range(len(word), 0, -1) if word[:n] in vocabulary]
        if not fits:
            return ["[UNK]"]
        pieces.append(fits[0])
        word = word[len(fits[0]) :]
    return pieces


def _unknown_rest(word: str, vocabulary: set[str], skip: int | None = None) -> list[str]:
    """Keep what was found and call unknown what is left, or only its first letters."""
    pieces, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((e for e in ends if mark + word[start:e] in vocabulary), None)
        pieces.append("[UNK]" if end is None else mark + word[start:end])
        start = (len(word) if skip is None else start + skip) if end is None else end
    return pieces


def _going_back(word: str, vocabulary: set[str]) -> list[str]:
    """The longest pieces that can be continued to the end of the word."""

    def cut(start: int) -> list[str] | None:
        if start == len(word):
            return []
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary and (rest := cut(end)) is not None:
                return [piece, *rest]
        return None

    found = cut(0)
    return ["[UNK]"] if found is None else found


def _marks_taken_off(word: str, vocabulary: set[str]) -> list[str]:
    return [piece.removeprefix("##") for piece in definitions.word_piece(word, vocabulary)]


def _word_case(about: str, word: str, *vocabulary: str) -> Case:
    return Case(about=about, arguments={"word": word, "vocabulary": set(vocabulary)})


_WORD_PIECE = ExactExercise(
    name="word-piece",
    asks=(
        "word_piece(word, vocabulary) → the pieces of a word, where those after the first start "
        'with "##", and ["[UNK]"] where it cannot be cut'
    ),
    definition=definitions.word_piece,
    cases=(
        _word_case("a word of two pieces", "tokens", "to", "token", "##ken", "##s", "##kens", "s"),
        _word_case("a word that is a piece", "to", "to", "t", "##o"),
        _word_case("a piece that only starts words", "toto", "to", "t", "##o"),
        _word_case("a letter that is no piece", "toxto", "to", "##to"),
        _word_case("a longest piece that leads nowhere", "abcd", "ab", "abc", "##cd"),
        _word_case("an empty word", "", "to"),
    ),
    mistakes={
        "take the longest piece that fits, not the shortest.": _shortest_piece,
        'a piece that continues a word is looked up with "##" before it.': _without_marks,
        'a piece that continues a word keeps its "##".': _marks_taken_off,
        "where some part is no piece the whole word is unknown: do not keep the pieces before.": (
            _unknown_rest
        ),
        "where some part is no piece the whole word is unknown: do not go on behind it.": (
            lambda word, vocabulary: _unknown_rest(word, vocabulary, skip=1)
        ),
        "WordPiece never goes back: if the longest piece leads nowhere, the word is unknown.": (
            _going_back
        ),
        "where some part is no piece the whole word is unknown: do not stop with what was found.": (
            lambda word, vocabulary: [p for p in _unknown_rest(word, vocabulary) if p != "[UNK]"]
        ),
        "an unknown word is one piece, [UNK], not none.": (
            lambda word, vocabulary: [
                p for p in definitions.word_piece(word, vocabulary) if p != "[UNK]"
            ]
        ),
    },
)

EXERCISES = (_COUNT_PAIRS, _MERGE_PAIR, _ENCODE_BY_RANK, _WORD_PIECE)
