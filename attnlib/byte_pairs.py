r"""Byte pairs: learn which two tokens to merge next, and apply what was learnt.

Source   Gage 1994, "A New Algorithm for Data Compression"; Sennrich et al. 2016, arXiv:1508.07909,
         section 3.2
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py

Both are the definitions of `attnlib.definitions` with the work of each step kept small: learning
touches only the places where the merged pair stands, and applying looks for the lowest rank among
the few pairs of a word, or in a heap where a piece is long.
"""

import heapq
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise, repeat

Pair = tuple[int, int]

_NEVER = 1 << 60  # the rank of a pair that no merge makes
_SHORT = 96  # up to here, looking through a list is faster than keeping a heap


def learn_merges(
    counts: Mapping[bytes, int], n_merges: int, on_merge: Callable[[], object] = lambda: None
) -> list[Pair]:
    r"""Choose the merges one after the other, each the commonest pair at its time.

    $$(a, b)_i = \operatorname*{arg\,max}_{(a, b)} \#\{\text{non-overlapping places of } ab\},
    \qquad 256 + i \leftarrow (a, b)_i$$

    Of equally common pairs the smallest is taken, first by its left id, then by its right.

    Args:
        counts: How often each piece of the text occurs.
        n_merges: At most so many; fewer where no piece has two tokens left.
        on_merge: Called after each merge.

    Returns:
        The merged pairs; pair i becomes the id 256 + i.

    Example:
        >>> learn_merges({b"aaab": 1, b"ab": 1}, 3)
        [(97, 98), (97, 97), (257, 256)]
    """
    pieces = _Pieces(counts)
    merges: list[Pair] = []
    while len(merges) < n_merges and (pair := pieces.commonest()) is not None:
        pieces.merge(pair, 256 + len(merges))
        merges.append(pair)
        on_merge()
    return merges


class _Pieces:
    """All distinct pieces, one after the other, as a linked list of tokens.

    `n_adjacent` counts a pair wherever its two tokens are neighbours, so a merge changes it at the
    four neighbours of each place only. That counts "aa" twice in "aaa": for pairs of two equal
    tokens it is an upper bound, and the true number is counted when such a pair comes first.
    The heap, too, holds upper bounds; a pair is taken only when its own number stands there.
    """

    def __init__(self, counts: Mapping[bytes, int]):
        self.ids = array("q")
        self.weight = array("q")
        for piece, count in counts.items():
            if len(piece) > 1:
                # the end of a piece is a token of weight 0 that is in no pair
                self.ids.extend([*piece, -1])
                self.weight.extend([*repeat(count, len(piece)), 0])
        n = len(self.ids)
        self.before = array("q", range(-1, n - 1))
        self.after = array("q", range(1, n + 1))
        self.n_adjacent: dict[Pair, int] = {}
        self.places: dict[Pair, array] = {}
        for i in range(n - 1):
            self._add(i, i + 1)
        self.heap = [(-n, pair) for pair, n in self.n_adjacent.items()]
        heapq.heapify(self.heap)

    def commonest(self) -> Pair | None:
        """The pair with the most non-overlapping places; the smallest of several; None if none."""
        while self.heap:
            bound, pair = heapq.heappop(self.heap)
            n = self._n_places(pair)
            if n and n == -bound:
                return pair
            if n:
                heapq.heappush(self.heap, (-n, pair))
        return None

    def merge(self, pair: Pair, new: int) -> None:
        """Put `new` in the place of the pair, from left to right."""
        ids, before, after = self.ids, self.before, self.after
        a, b = pair
        grown: set[Pair] = set()
        for i in sorted(self.places.pop(pair)):
            if ids[i] != a or ids[j := after[i]] != b:
                continue
            left, right = before[i], after[j]
            self._remove(left, i)
            self._remove(j, right)
            ids[i], ids[j] = new, -1
            after[i], before[right] = right, i
            grown |= {self._add(left, i), self._add(i, right)}
        del self.n_adjacent[pair]
        for made in grown - {None}:
            heapq.heappush(self.heap, (-self.n_adjacent[made], made))

    def _add(self, i: int, j: int) -> Pair | None:
        """Note the neighbours at i and j as a pair, unless a piece ends between them."""
        if i < 0 or self.ids[i] < 0 or self.ids[j] < 0:
            return None
        pair = self.ids[i], self.ids[j]
        self.n_adjacent[pair] = self.n_adjacent.get(pair, 0) + self.weight[i]
        self.places.setdefault(pair, array("q")).append(i)
        return pair

    def _remove(self, i: int, j: int) -> None:
        """Forget the neighbours at i and j; their place is passed over when its turn comes."""
        if i >= 0 and (pair := (self.ids[i], self.ids[j])) in self.n_adjacent:
            self.n_adjacent[pair] -= self.weight[i]

    def _n_places(self, pair: Pair) -> int:
        a, b = pair
        if a != b:
            return self.n_adjacent.get(pair, 0)
        n, free = 0, 0
        for i in sorted(self.places.get(pair, ())):
            if i >= free and self.ids[i] == a and self.ids[j := self.after[i]] == a:
                n, free = n + self.weight[i], j + 1
        return n


def apply_merges(ids: Iterable[int], rank_of: Mapping[Pair, int], made: Sequence[int]) -> list[int]:
    r"""Merge the pair of lowest rank, the leftmost of several, until no pair has a rank.

    Args:
        ids: The tokens of one piece.
        rank_of: The rank of each pair that may be merged.
        made: The id that the merge of each rank makes.

    Returns:
        The tokens that are left.

    Example:
        >>> apply_merges(b"abc", {(98, 99): 0, (97, 98): 1, (97, 256): 2}, [256, 257, 258])
        [258]
    """
    ids = list(ids)
    if len(ids) > _SHORT:
        return _apply_to_many(ids, rank_of, made)
    rank = rank_of.get
    ranks = list(map(rank, pairwise(ids), repeat(_NEVER)))
    while ranks:
        lowest = min(ranks)
        if lowest == _NEVER:
            break
        i = ranks.index(lowest)
        new = made[lowest]
        ids[i : i + 2] = (new,)
        del ranks[i]
        if i:
            ranks[i - 1] = rank((ids[i - 1], new), _NEVER)
        if i < len(ranks):
            ranks[i] = rank((new, ids[i + 1]), _NEVER)
    return ids


def _apply_to_many(ids: list[int], rank_of: Mapping[Pair, int], made: Sequence[int]) -> list[int]:
    """The same for a long piece: a linked list, and a heap of rank·n + place."""
    n, rank = len(ids), rank_of.get
    before, after = list(range(-1, n - 1)), list(range(1, n + 1))
    # the rank of the pair that starts at each place, as it is now: other entries are out of date
    ranks = [rank(pair, _NEVER) for pair in pairwise(ids)] + [_NEVER]
    heap = [r * n + i for i, r in enumerate(ranks) if r != _NEVER]
    heapq.heapify(heap)
    while heap:
        lowest, i = divmod(heapq.heappop(heap), n)
        if ranks[i] != lowest:
            continue
        j = after[i]
        ids[i], ids[j], ranks[j] = made[lowest], -1, _NEVER
        after[i] = right = after[j]
        if right < n:
            before[right] = i
        for start, end in ((before[i], i), (i, right)):
            if start >= 0:
                new = rank((ids[start], ids[end]), _NEVER) if end < n else _NEVER
                ranks[start] = new
                if new != _NEVER:
                    heapq.heappush(heap, new * n + start)
    return [token for token in ids if token >= 0]
