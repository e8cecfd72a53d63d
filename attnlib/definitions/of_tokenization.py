r"""Byte pairs and word pieces, as they are read aloud.

Source   Sennrich et al. 2016, arXiv:1508.07909, section 3.2 (byte pairs); Wu et al. 2016,
         arXiv:1609.08144, section 4.1 (word pieces)
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py
"""

from collections.abc import Container, Sequence
from itertools import pairwise

import numpy as np


def count_pairs(ids: Sequence[int]) -> dict[tuple[int, int], int]:
    r"""Count how often each pair of tokens stands side by side, places that overlap once.

    $$n(a, b) = \text{the most places } i \text{ with } x_i x_{i+1} = ab, \text{ no two sharing a
    token}$$

    Example:
        >>> count_pairs([1, 1, 1, 2])
        {(1, 1): 1, (1, 2): 1}
    """
    counts, free = {}, {}
    for i in range(len(ids) - 1):
        pair = int(ids[i]), int(ids[i + 1])
        if i >= free.get(pair, 0):
            counts[pair] = counts.get(pair, 0) + 1
            free[pair] = i + 2
    return counts


def merge_pair(ids: Sequence[int], pair: tuple[int, int], new_id: int) -> list[int]:
    r"""Put one new token in the place of a pair, from left to right.

    Example:
        >>> merge_pair([1, 1, 1, 2], (1, 1), 9)
        [9, 1, 2]
    """
    merged, i = [], 0
    while i < len(ids):
        if i + 1 < len(ids) and ids[i] == pair[0] and ids[i + 1] == pair[1]:
            merged.append(new_id)
            i += 2
        else:
            merged.append(int(ids[i]))
            i += 1
    return merged


def train_byte_pairs(pieces: Sequence[bytes], n_merges: int) -> list[tuple[int, int]]:
    r"""Merge the commonest pair, the smallest of several, until there are n merges or no pairs.

    Example:
        >>> train_byte_pairs([b"aaab", b"ab"], 2)
        [(97, 98), (97, 97)]
    """
    texts, merges = [list(piece) for piece in pieces], []
    while len(merges) < n_merges:
        total = {}
        for ids in texts:
            for pair, n in count_pairs(ids).items():
                total[pair] = total.get(pair, 0) + n
        if not total:
            break
        pair = min(total, key=lambda pair: (-total[pair], pair))
        texts = [merge_pair(ids, pair, 256 + len(merges)) for ids in texts]
        merges.append(pair)
    return merges


def encode_by_rank(ids: Sequence[int], merges: Sequence[tuple[int, int]]) -> list[int]:
    r"""Merge the pair of lowest rank, at its leftmost place, until no pair has a rank.

    Merge i, of rank i, makes the token 256 + i.

    Example:
        >>> encode_by_rank([97, 98, 99], [(98, 99), (97, 98), (97, 256)])
        [258]
    """
    ids, merges = [int(x) for x in ids], [(int(a), int(b)) for a, b in merges]
    while True:
        pairs = list(pairwise(ids))
        ranks = [merges.index(pair) if pair in merges else np.inf for pair in pairs]
        if not pairs or min(ranks) == np.inf:
            return ids
        i = int(np.argmin(ranks))
        ids[i : i + 2] = [256 + ranks[i]]


def word_piece(word: str, vocabulary: Container[str], unknown: str = "[UNK]") -> list[str]:
    r"""Take the longest piece that fits, again and again; if once none fits, the word is unknown.

    Example:
        >>> word_piece("tokens", {"to", "token", "##ken", "##s"})
        ['token', '##s']
    """
    pieces, rest = [], word
    while rest:
        for length in range(len(rest), 0, -1):
            piece = ("##" if pieces else "") + rest[:length]
            if piece in vocabulary:
                break
        else:
            return [unknown]
        pieces.append(piece)
        rest = rest[length:]
    return pieces
