r"""N-grams: the next byte from how often the last few were followed by it, smoothed.

Source   Kneser and Ney 1995, doi:10.1109/ICASSP.1995.479394; Chen and Goodman 1998, "An Empirical
         Study of Smoothing Techniques for Language Modeling", TR-10-98, section 3 (three discounts,
         interpolated)
Chapter  chapters/language-models.md
Axes     attnlib/axes.py

$$p_k(w \mid x) = \frac{c(xw) - D(c(xw))}{\sum_u c(xu)} + \gamma(x)\, p_{k-1}(w \mid x'),
\qquad \gamma(x) = \frac{\sum_u D(c(xu))}{\sum_u c(xu)}$$

Here $x$ is the $k$ bytes before $w$ and $x'$ is $x$ without its first byte. The sums are over all
bytes $u$ that followed $x$. What the discounts $D$ take away is shared out by the next lower order,
and so on down to $p_{-1} = 1/256$. Where $x$ was never followed by anything, $p_k = p_{k-1}$.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int, UInt8, UInt64
from numpy import ndarray

from attnlib.require import between
from attnlib.token_checks import check_text

__all__ = ["MOST_ORDER", "NGramModel"]

MOST_ORDER = 7
"""The longest context in bytes: with the byte after it, it fills 64 bits."""

_BYTE = np.uint64(8)  # bits


@dataclass(frozen=True, eq=False)
class _Counted:
    r"""What one order knows. A run of bytes is one number, its first byte the most significant.

    `shares` is $(c(xw) - D(c(xw))) / \sum_u c(xu)$ of each n-gram $xw$, `left` is $\gamma(x)$ of
    each context $x$. Both lists of keys rise.
    """

    n_grams: UInt64[ndarray, "*grams"]
    shares: Float64[ndarray, "*grams"]
    contexts: UInt64[ndarray, "*contexts"]
    left: Float64[ndarray, "*contexts"]
    discounts: tuple[float, float, float]

    def mixed(
        self, n_grams: UInt64[ndarray, " t"], lower: Float64[ndarray, " t"]
    ) -> Float64[ndarray, " t"]:
        """A context that never stood in the text leaves all to the lower order."""
        share = _looked_up(self.n_grams, self.shares, n_grams, 0.0)
        return share + _looked_up(self.contexts, self.left, n_grams >> _BYTE, 1.0) * lower


class NGramModel:
    r"""Predict a byte from the bytes before it by interpolated modified Kneser–Ney smoothing.

    The highest order counts places in the text. A lower order counts in how many ways an n-gram
    goes on to the left: $c(xw)$ is the number of different bytes before $xw$, and the beginning of
    the text is one more. It is asked only where the longer context did not settle the matter, and
    there it counts where else a byte fits, not how often it stood in one place.

    From the counts of an order, $n_j$ of which are $j$, follow its discounts:

    $$D(j) = j - (j + 1)\, Y\, \frac{n_{j+1}}{n_j} \quad (j = 1, 2, 3), \qquad
    Y = \frac{n_1}{n_1 + 2 n_2}, \qquad D(c) = D(3) \text{ for } c > 3.$$

    Where one of $n_1, \dots, n_4$ is 0, or a $D(j)$ is not above 0, the order takes $D(j) = j/2$
    for all three. So no probability is 0, and every distribution sums to one.

    At the beginning of a text there are fewer bytes to read, and lower orders predict.

    Example:
        >>> model = NGramModel.train("to be or not to be", 2)
        >>> p = model.probabilities("to b")
        >>> chr(p.argmax()), round(float(p.max()), 3)
        ('e', 0.759)
        >>> round(model.bits_per_byte("to be"), 2), round(model.bits_per_byte("sein"), 2)
        (1.29, 7.17)
    """

    def __init__(self, counted: tuple[_Counted, ...]):
        """Only `train` calls this."""
        self._counted = counted

    @classmethod
    def train(cls, text: bytes | str, order: int) -> "NGramModel":
        """Count a text.

        Args:
            text: What to count, at least order + 1 bytes; a string as UTF-8.
            order: How many bytes are read before the one that is predicted, from 0 to 7. (Others
                call this an (order + 1)-gram.)

        Raises:
            TypeError: If the text is neither bytes nor a string, or order is not a whole number.
            ValueError: If order is out of range, the text is too short, or it holds a lone
                surrogate.

        Example:
            >>> NGramModel.train(b"abracadabra", 3).n_counted
            (5, 7, 7, 7)
        """
        order = between("order", order, 0, MOST_ORDER)
        data = _bytes_of(text)
        if len(data) <= order:
            raise ValueError(
                f"text must have at least order + 1 bytes, got {len(data)} and order={order}"
            )
        n_grams, counts = np.unique(_runs(data, order + 1), return_counts=True)
        counted = [_count(n_grams, counts)]
        for k in reversed(range(order)):
            shorter = n_grams & np.uint64(256 ** (k + 1) - 1)
            beginning = _runs(data[: k + 1], k + 1)
            n_grams, counts = np.unique(np.append(shorter, beginning), return_counts=True)
            counted.append(_count(n_grams, counts))
        return cls(tuple(reversed(counted)))

    @property
    def order(self) -> int:
        """How many bytes are read before the one that is predicted."""
        return len(self._counted) - 1

    @property
    def n_counted(self) -> tuple[int, ...]:
        """How many different n-grams of each order stood in the text, from order 0 on."""
        return tuple(len(counted.n_grams) for counted in self._counted)

    @property
    def discounts(self) -> tuple[tuple[float, float, float], ...]:
        """D(1), D(2) and D(3) of each order, from order 0 on."""
        return tuple(counted.discounts for counted in self._counted)

    def probabilities(self, context: bytes | str) -> Float64[ndarray, " v"]:
        """Give the probability of each byte after a context, of which the last bytes are read.

        Args:
            context: What stands before; empty at the beginning of a text.

        Raises:
            TypeError: If the context is neither bytes nor a string.
            ValueError: If it holds a lone surrogate.

        Example:
            >>> p = NGramModel.train(b"abab", 1).probabilities(b"a")
            >>> p.round(4)[[97, 98, 99]]
            array([0.1676, 0.5843, 0.001 ])
        """
        context = _bytes_of(context, "context")
        read = context[max(len(context) - self.order, 0) :]
        p = np.full(256, 1 / 256)
        for k, counted in enumerate(self._counted[: len(read) + 1]):
            (before,) = _runs(read[len(read) - k :], k)
            p = counted.mixed(before << _BYTE | np.arange(256, dtype=np.uint64), p)
        return p

    def log_probabilities(self, text: bytes | str) -> Float64[ndarray, " t"]:
        """Give the logarithm of the probability of each byte of a text, given those before it.

        Unlike `likelihood.token_log_probabilities`, it predicts the first one, too.

        Args:
            text: Read from its beginning; a string as UTF-8.

        Returns:
            Nats, below 0.

        Raises:
            TypeError: If the text is neither bytes nor a string.
            ValueError: If it holds a lone surrogate.

        Example:
            >>> NGramModel.train(b"abab", 1).log_probabilities(b"ab").round(4)
            array([-1.0928, -0.5373])
        """
        data = _bytes_of(text)
        p = np.full(len(data), 1 / 256)
        for k, counted in enumerate(self._counted):
            p[k:] = counted.mixed(_runs(data, k + 1), p[k:])
        return np.log(p)

    def bits_per_byte(self, text: bytes | str) -> float:
        r"""Give the bits that the model needs for each byte of a text.

        $$\frac1n \sum_{i=1}^{n} -\log_2 p(w_i \mid w_1, \dots, w_{i-1})$$

        Args:
            text: At least 1 byte.

        Raises:
            TypeError: If the text is neither bytes nor a string.
            ValueError: If it is empty or holds a lone surrogate.

        Example:
            >>> round(NGramModel.train(b"abab", 1).bits_per_byte(b"ab"), 4)
            1.1759
        """
        if not len(_bytes_of(text)):
            raise ValueError("a mean needs at least 1 byte of text, got 0")
        return -float(self.log_probabilities(text).mean()) / math.log(2)


def _bytes_of(text: bytes | str, name: str = "text") -> UInt8[ndarray, " t"]:
    if not isinstance(text, bytes | str):
        raise TypeError(f"{name} must be bytes or a string, got {type(text).__name__}")
    if isinstance(text, str):
        check_text(text, name)
        text = text.encode()
    return np.frombuffer(text, np.uint8)


def _runs(data: UInt8[ndarray, " t"], length: int) -> UInt64[ndarray, "*runs"]:
    """Each run of so many bytes as one number, in the order of the text."""
    n_runs = max(len(data) - length + 1, 0)
    runs = np.zeros(n_runs, np.uint64)
    for i in range(length):
        runs = runs << _BYTE | data[i : i + n_runs]
    return runs


def _count(n_grams: UInt64[ndarray, "*grams"], counts: Int[ndarray, "*grams"]) -> _Counted:
    """The shares and what is left, from rising n-grams and their counts."""
    discounts = _discounts(counts)
    taken = np.array([0.0, *discounts])[np.minimum(counts, 3)]
    contexts, first, n_follow = np.unique(n_grams >> _BYTE, return_index=True, return_counts=True)
    totals = np.add.reduceat(counts, first)
    return _Counted(
        n_grams=n_grams,
        shares=(counts - taken) / np.repeat(totals, n_follow),
        contexts=contexts,
        left=np.add.reduceat(taken, first) / totals,
        discounts=discounts,
    )


def _discounts(counts: Int[ndarray, "*grams"]) -> tuple[float, float, float]:
    """D(1), D(2), D(3), each as one fraction of whole numbers: no rounding decides its sign."""
    n = [int((counts == j).sum()) for j in range(5)]
    below = n[1] + 2 * n[2]  # Y is n[1] / below
    above = [j * n[j] * below - (j + 1) * n[1] * n[j + 1] for j in (1, 2, 3)]
    if all(n[1:]) and min(above) > 0:
        return tuple(a / (n[j] * below) for j, a in enumerate(above, start=1))
    return 0.5, 1.0, 1.5


def _looked_up(
    keys: UInt64[ndarray, "*keys"],
    values: Float64[ndarray, "*keys"],
    asked: UInt64[ndarray, " t"],
    otherwise: float,
) -> Float64[ndarray, " t"]:
    """The value of each key that is asked for; keys rise."""
    place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[place] == asked, values[place], otherwise)
