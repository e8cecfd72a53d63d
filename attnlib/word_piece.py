r"""WordPiece: the longest piece that fits, from left to right, as BERT's tokenizer does it.

Source   Schuster and Nakajima 2012 and Wu et al. 2016, arXiv:1609.08144, section 4.1 (pieces of
         words); Devlin et al. 2019, arXiv:1810.04805, and its published code (normalisation)
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py

A piece that continues a word starts with "##". Unlike byte pairs, WordPiece loses something: case,
accents, white space, and every word of which some part is no piece.
"""

import unicodedata
from collections.abc import Callable, Container, Iterable, Mapping
from typing import SupportsIndex

from attnlib.require import integer
from attnlib.token_checks import check_text, list_of_ids

__all__ = ["WordPieceTokenizer", "word_piece", "words_of"]

_LONGEST_WORD = 100  # BERT calls a longer word unknown
_CJK = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


def word_piece(word: str, vocabulary: Container[str], *, unknown: str = "[UNK]") -> list[str]:
    r"""Cut a word into the longest pieces, from left to right.

    $$i_{k+1} = \max\{\, j : w_{i_k} \cdots w_{j-1} \in V \,\}, \qquad i_0 = 0$$

    Where no piece fits, the whole word is unknown: nothing that was found so far is kept, and no
    shorter piece is tried instead.

    Args:
        word: One word, without white space.
        vocabulary: The pieces; those that continue a word start with "##".
        unknown: What stands for a word that cannot be cut.

    Returns:
        The pieces; none for an empty word.

    Raises:
        TypeError: If the word is no string, or the vocabulary nothing that holds pieces.

    Example:
        >>> word_piece("tokens", {"to", "token", "##ken", "##s"})
        ['token', '##s']
        >>> word_piece("tokent", {"to", "token", "##kent"})
        ['[UNK]']
    """
    if not isinstance(word, str):
        raise TypeError(f"word must be a string, got {word!r}")
    # of a string, "in" asks for a part; an iterator is used up by the first question
    if isinstance(vocabulary, str) or not isinstance(vocabulary, Container):
        raise TypeError(
            "vocabulary must be a set, a list or a mapping of pieces, got "
            f"{type(vocabulary).__name__}"
        )
    pieces, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        fits = (end for end in range(len(word), start, -1) if mark + word[start:end] in vocabulary)
        end = next(fits, None)
        if end is None:
            return [unknown]
        pieces.append(mark + word[start:end])
        start = end
    return pieces


def words_of(text: str) -> list[str]:
    r"""Normalise a text as BERT's uncased models do, and cut it into words and punctuation.

    Control characters go, accents too (the marks of Unicode's form NFD), capitals become small,
    and every mark of punctuation and every Chinese character is a word of its own. Which characters
    are which is decided by the Unicode of this Python, as in BERT's code.

    Raises:
        TypeError: If the text is no string.

    Example:
        >>> words_of("The naïve  Ångström, in 東京!")
        ['the', 'naive', 'angstrom', ',', 'in', '東', '京', '!']
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {type(text).__name__}")
    decomposed = unicodedata.normalize("NFD", text.translate(_BEFORE))
    return decomposed.translate(_AFTER).split()


class _Table(dict):
    """What each character becomes, worked out when it is first met."""

    def __init__(self, becomes: Callable[[str], str]):
        super().__init__()
        self.becomes = becomes

    def __missing__(self, code: int) -> str:
        self[code] = self.becomes(chr(code))
        return self[code]


def _without_controls(c: str) -> str:
    if c in "\t\n\r":
        return " "
    if _is_control(c):
        return ""
    return f" {c} " if _is_chinese(c) else c


def _without_marks_and_capitals(c: str) -> str:
    if unicodedata.category(c) == "Mn":
        return ""
    # letter by letter: the Greek letter sigma stays as it is at the end of a word
    return f" {c} " if _is_punctuation(c) else c.lower()


def _is_control(c: str) -> bool:
    """Codes that no character has yet (category Cn) are kept, and make their word unknown."""
    return c == "\N{REPLACEMENT CHARACTER}" or unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs")


def _is_chinese(c: str) -> bool:
    return any(first <= ord(c) <= last for first, last in _CJK)


def _is_punctuation(c: str) -> bool:
    """ASCII's symbols count as punctuation here, though Unicode calls "$" and "^" symbols."""
    symbol = c.isascii() and c.isprintable() and not c.isalnum() and c != " "
    return symbol or unicodedata.category(c).startswith("P")


_BEFORE, _AFTER = _Table(_without_controls), _Table(_without_marks_and_capitals)


class WordPieceTokenizer:
    r"""BERT's uncased tokenizer over a vocabulary of word pieces; it never changes once made.

    Special tokens in a text are treated as text.

    Args:
        vocabulary: The id of each piece; "[CLS]", "[SEP]" and "[UNK]" must be among them.

    Raises:
        TypeError: If the vocabulary is no mapping from strings to integers.
        ValueError: If one of these is missing, or an id is negative or belongs to two pieces.

    Example:
        >>> pieces = ["[UNK]", "[CLS]", "[SEP]", "to", "##ken", "##s", "!"]
        >>> tokenizer = WordPieceTokenizer({piece: i for i, piece in enumerate(pieces)})
        >>> tokenizer.tokens("Tokens!")
        ['to', '##ken', '##s', '!']
        >>> tokenizer.encode("Tokens!")
        [1, 3, 4, 5, 6, 2]
        >>> tokenizer.decode([1, 3, 4, 5, 6, 2])
        'tokens !'
    """

    def __init__(self, vocabulary: Mapping[str, int]):
        if not isinstance(vocabulary, Mapping):
            raise TypeError(
                f"the vocabulary must be a mapping from pieces to ids, got {vocabulary!r:.60}"
            )
        for piece in vocabulary:
            check_text(piece, "a piece")
        self._ids = {piece: integer(f"the id of {piece!r}", i) for piece, i in vocabulary.items()}
        self._pieces = {i: piece for piece, i in self._ids.items()}
        missing = [piece for piece in ("[CLS]", "[SEP]", "[UNK]") if piece not in self._ids]
        if missing:
            raise ValueError(f"the vocabulary must hold [CLS], [SEP] and [UNK]; {missing} missing")
        if len(self._pieces) != len(self._ids):
            shared = next(i for piece, i in self._ids.items() if self._pieces[i] != piece)
            raise ValueError(f"an id must belong to one piece, but several have {shared}")
        if min(self._pieces) < 0:
            raise ValueError(f"an id must not be negative, got {min(self._pieces)}")

    @property
    def vocab_size(self) -> int:
        """The largest id and one: how many rows an embedding needs."""
        return max(self._pieces) + 1

    def tokens(self, text: str) -> list[str]:
        """The pieces of a text, without [CLS] and [SEP]."""
        return [
            piece
            for word in words_of(text)
            for piece in (word_piece(word, self._ids) if len(word) <= _LONGEST_WORD else ["[UNK]"])
        ]

    def encode(self, text: str) -> list[int]:
        """The ids of a text's pieces, between those of [CLS] and [SEP]."""
        return [self._ids[piece] for piece in ("[CLS]", *self.tokens(text), "[SEP]")]

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The words, a blank between two: close to the text, which cannot be had back.

        [CLS], [SEP] and [PAD] are left out.

        Raises:
            TypeError: If ids are not integers in a sequence.
            ValueError: If there is no piece of that id.
        """
        ids = list_of_ids(ids)
        unknown = [i for i in ids if i not in self._pieces]
        if unknown:
            raise ValueError(f"every id must be that of a piece, and there is none of {unknown}")
        pieces = (self._pieces[i] for i in ids)
        words = " ".join(p for p in pieces if p not in ("[CLS]", "[SEP]", "[PAD]"))
        return words.replace(" ##", "")
