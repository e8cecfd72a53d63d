r"""Byte-level byte-pair encoding: from text to token ids and back, without loss.

Source   Sennrich et al. 2016, arXiv:1508.07909, section 3.2; Radford et al. 2019, "Language Models
         are Unsupervised Multitask Learners", section 2.2 (bytes)
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py

A text is cut into pre-tokens, each becomes its UTF-8 bytes, and neighbouring tokens are merged,
lowest rank first, until no merge is left. Since every byte is a token, every text and every string
of bytes has tokens, and those tokens give it back.
"""

import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, SupportsIndex

from attnlib.byte_pairs import Pair, apply_merges, learn_merges
from attnlib.pre_tokens import check_pattern, pre_tokens
from attnlib.progress import progress_bar
from attnlib.require import integer
from attnlib.token_checks import check_text, list_of_ids

__all__ = ["BytePairTokenizer"]

_FORMAT = "attnlib byte-pair tokenizer 1"
_BYTES = tuple(bytes([b]) for b in range(256))
_SPECIAL = ("refuse", "encode", "as text")
# Every id up to the largest has a place in a saved file and a row in an embedding.
_LARGEST_ID = (1 << 24) - 1
# A file of forty merges, each of the last token with itself, would make a token of a terabyte.
_MOST_BYTES_OF_A_FILE = 1 << 28


class BytePairTokenizer:
    r"""A byte-level byte-pair tokenizer; it never changes once it is made.

    Make one with `train`, `from_merges`, `from_ranks`, `published` or `load`.

    Example:
        >>> tokenizer = BytePairTokenizer.train("low lower lowest", 260)
        >>> tokenizer.encode("slow")
        [115, 257]
        >>> [tokenizer.token_bytes(i) for i in tokenizer.encode("slow")]
        [b's', b'low']
        >>> tokenizer.decode(tokenizer.encode("a naïve slowcoach"))
        'a naïve slowcoach'
    """

    def __init__(
        self,
        *,
        kind: str,
        pattern: str | None,
        tokens: Mapping[int, bytes],
        rank_of: Mapping[Pair, int],
        made: Sequence[int],
        special_tokens: Mapping[str, int],
    ):
        """Only the class itself calls this, with parts that it has checked."""
        self._kind, self._pattern = kind, pattern
        self._tokens, self._rank_of, self._made = tokens, rank_of, made
        self._special_tokens = dict(special_tokens)
        self._bytes_of = {**tokens, **{i: s.encode() for s, i in special_tokens.items()}}
        self._byte_ids = {token[0]: i for i, token in tokens.items() if len(token) == 1}
        self._whole = self._taken_whole()
        self._known = _Known(self._encode_piece)

    # --- making one -----------------------------------------------------------------------

    @classmethod
    def train(
        cls,
        text: str,
        vocab_size: int,
        *,
        pattern: str | None = "gpt-2",
        special_tokens: Sequence[str] = (),
        progress: bool | None = None,
    ) -> "BytePairTokenizer":
        r"""Learn merges from a text: at each step the commonest pair becomes a token.

        The ids 0 to 255 are the bytes, 256 + i is what merge i makes, and the special tokens have
        the last ids. Places of a pair are counted without overlap ("aaa" holds "aa" once); of
        equally common pairs the one with the smallest left id is merged, and of those the one with
        the smallest right id. No merge crosses the border of a pre-token or a special token.

        Args:
            text: What to learn from. Where it is too short for so many merges, the vocabulary is
                smaller than asked.
            vocab_size: How many tokens at most: at least 256 and the special tokens.
            pattern: How the text is cut into pre-tokens: "gpt-2", "cl100k", "smollm2", or None for
                not at all.
            special_tokens: Texts that are one token each, and never part of another.
            progress: Whether to show a bar; None shows one where somebody is watching and the
                training takes more than a second.

        Raises:
            TypeError: If the text is no string, vocab_size no integer, or special_tokens no
                sequence of strings.
            ValueError: If vocab_size is too small, the pattern is unknown, the text or a special
                token holds a lone surrogate, or a special token is empty or given twice.

        Example:
            >>> BytePairTokenizer.train("aaab ab", 300).merges
            [(97, 98), (32, 256), (97, 97), (258, 256)]
        """
        check_text(text)
        check_pattern(pattern)
        if isinstance(special_tokens, str) or not isinstance(special_tokens, Sequence):
            raise TypeError(
                "special_tokens must be a sequence of texts, in the order of their ids; "
                f"got {special_tokens!r}"
            )
        _check_texts_of_specials(special_tokens)
        vocab_size = integer("vocab_size", vocab_size)
        n_merges = vocab_size - 256 - len(special_tokens)
        if n_merges < 0:
            raise ValueError(
                "vocab_size must be at least 256, for the bytes, and the number of special tokens: "
                f"{256 + len(special_tokens)}; got {vocab_size}"
            )
        counts: Counter[str] = Counter()
        for part, _ in _parts(text, special_tokens):
            counts.update(pre_tokens(part, pattern))
        pieces = {piece.encode(): n for piece, n in counts.items()}
        with progress_bar(n_merges, "merges", progress) as on_merge:
            merges = learn_merges(pieces, n_merges, on_merge)
        return cls._trained(merges, pattern, special_tokens)

    @classmethod
    def _trained(
        cls, merges: Sequence[Pair], pattern: str | None, special_tokens: Iterable[str]
    ) -> "BytePairTokenizer":
        tokens = dict(enumerate(_BYTES))
        for left, right in merges:
            tokens[len(tokens)] = tokens[left] + tokens[right]
        return cls(
            kind="trained",
            pattern=pattern,
            tokens=tokens,
            rank_of={pair: i for i, pair in enumerate(merges)},
            made=range(256, 256 + len(merges)),
            special_tokens={s: len(tokens) + i for i, s in enumerate(special_tokens)},
        )

    @classmethod
    def from_merges(
        cls,
        vocabulary: Mapping[bytes, SupportsIndex],
        merges: Sequence[tuple[bytes, bytes]],
        *,
        pattern: str | None,
        special_tokens: Mapping[str, SupportsIndex] | None = None,
    ) -> "BytePairTokenizer":
        r"""Build a tokenizer from its tokens and its merges in rank order, as GPT-2's is published.

        Only the pairs that are listed are merged. A byte that is no token of the vocabulary cannot
        be encoded; some published vocabularies lack a few.

        Args:
            vocabulary: The id of each token, without the special tokens; ids are below 2²⁴.
            merges: Pairs of tokens; what they make must be a token, too.
            pattern: How the text is cut into pre-tokens, as in `train`.
            special_tokens: The id of each special token.

        Raises:
            TypeError: If tokens are not bytes, ids not integers, or merges not pairs of tokens.
            ValueError: If an id is out of range or given twice, a merge names or makes what is no
                token, a merge is given twice, or a special token is empty.

        Example:
            >>> vocabulary = {b"a": 7, b"b": 3, b"ab": 9}
            >>> tokenizer = BytePairTokenizer.from_merges(vocabulary, [(b"a", b"b")], pattern=None)
            >>> tokenizer.encode("abba")
            [9, 3, 7]
        """
        check_pattern(pattern)
        vocabulary, special_tokens = _with_plain_ids(vocabulary, special_tokens)
        rank_of: dict[Pair, int] = {}
        made = []
        for rank, (left, right) in enumerate(_pairs_of_bytes(merges)):
            for token in (left, right, left + right):
                if token not in vocabulary:
                    raise ValueError(
                        "a merge must name and make tokens of the vocabulary, but merge "
                        f"{rank}, {left!r} and {right!r}, needs {token!r}"
                    )
            pair = vocabulary[left], vocabulary[right]
            if rank_of.setdefault(pair, rank) != rank:
                raise ValueError(
                    f"a merge must be given once, but {left!r} and {right!r} are merge "
                    f"{rank_of[pair]} and merge {rank}"
                )
            made.append(vocabulary[left + right])
        return cls(
            kind="merges",
            pattern=pattern,
            tokens={i: token for token, i in vocabulary.items()},
            rank_of=rank_of,
            made=made,
            special_tokens=special_tokens,
        )

    @classmethod
    def from_ranks(
        cls,
        ranks: Mapping[bytes, SupportsIndex],
        *,
        pattern: str | None,
        special_tokens: Mapping[str, SupportsIndex] | None = None,
    ) -> "BytePairTokenizer":
        r"""Build a tokenizer from ranks alone, as tiktoken's vocabularies are published.

        The rank of a token is its id, and two neighbours may be merged whenever together they are
        a token. A pre-token that is a token is taken whole.

        Args:
            ranks: The id of each token, without the special tokens; ids are below 2²⁴.
            pattern: How the text is cut into pre-tokens, as in `train`.
            special_tokens: The id of each special token.

        Raises:
            TypeError: If tokens are not bytes or ids not integers.
            ValueError: If an id is out of range or given twice, or a special token is empty.

        Example:
            >>> ranks = {b"a": 0, b"b": 1, b"ab": 2, b"ba": 3}
            >>> BytePairTokenizer.from_ranks(ranks, pattern=None).encode("abba")
            [2, 3]
        """
        check_pattern(pattern)
        ranks, special_tokens = _with_plain_ids(ranks, special_tokens)
        rank_of: dict[Pair, int] = {}
        id_of = ranks.get
        for token, rank in ranks.items():
            for cut in range(1, len(token)):
                left = id_of(token[:cut])
                if left is not None and (right := id_of(token[cut:])) is not None:
                    rank_of[left, right] = rank
        return cls(
            kind="ranks",
            pattern=pattern,
            tokens={i: token for token, i in ranks.items()},
            rank_of=rank_of,
            made=range(max(ranks.values(), default=-1) + 1),
            special_tokens=special_tokens,
        )

    @classmethod
    def published(cls, name: str) -> "BytePairTokenizer":
        r"""Load the tokenizer of a published model, which ships with attnlib.

        Its tokens are those of tiktoken or tokenizers, but for characters that the Unicode of the
        installed package regex knows and theirs does not: a new letter is a symbol to the older.

        Args:
            name: "gpt-2", "cl100k" (GPT-4) or "smollm2".

        Raises:
            ValueError: If there is no such vocabulary.

        Example:
            >>> gpt2 = BytePairTokenizer.published("gpt-2")
            >>> gpt2.encode("To be, or not to be")
            [2514, 307, 11, 393, 407, 284, 307]
        """
        from attnlib import data

        return cls._from_json(data.vocabulary(name), f"the vocabulary {name!r}")

    def with_merges(self, n: int) -> "BytePairTokenizer":
        r"""Keep the first n merges only: the tokenizer that a shorter training would have made.

        Args:
            n: From 0, which leaves the bytes, to the number of merges.

        Raises:
            TypeError: If n is no integer.
            ValueError: If the tokenizer was not trained, or does not have so many merges.

        Example:
            >>> tokenizer = BytePairTokenizer.train("aaab ab", 300)
            >>> tokenizer.with_merges(1).encode("aaab")
            [97, 97, 256]
        """
        if self._kind != "trained":
            raise ValueError("with_merges is for trained tokenizers; this one was published")
        n = integer("n", n)
        if not 0 <= n <= len(self._made):
            raise ValueError(f"n must be between 0 and {len(self._made)} merges, got {n}")
        return self._trained(self.merges[:n], self._pattern, self._special_tokens)

    # --- what it holds --------------------------------------------------------------------

    @property
    def vocab_size(self) -> int:
        """The largest id and one: how many rows an embedding needs."""
        return max(self._bytes_of, default=-1) + 1

    @property
    def tokens(self) -> dict[int, bytes]:
        """The bytes of each token, special ones included; a published vocabulary may have gaps."""
        return dict(self._bytes_of)

    @property
    def merges(self) -> list[tuple[int, int]]:
        """The ids (left, right) of each merge in rank order; a vocabulary of ranks lists none."""
        if self._kind == "ranks":
            raise ValueError(
                "this tokenizer was made from ranks, which list no merges: any two neighbours that "
                "together are a token may be merged"
            )
        return list(self._rank_of)

    @property
    def special_tokens(self) -> dict[str, int]:
        """The id of each special token."""
        return dict(self._special_tokens)

    def token_bytes(self, id: SupportsIndex) -> bytes:
        """The bytes that a token stands for.

        Example:
            >>> BytePairTokenizer.train("ha ha", 257).token_bytes(256)
            b'ha'
        """
        return self.decode_bytes([id])

    def __repr__(self) -> str:
        return (
            f"BytePairTokenizer(vocab_size={self.vocab_size}, pattern={self._pattern!r}, "
            f"special_tokens={list(self._special_tokens)})"
        )

    # --- encoding -------------------------------------------------------------------------

    def pre_tokens(self, text: str) -> list[str]:
        """Cut a text into the pieces that no merge crosses.

        Example:
            >>> BytePairTokenizer.train("", 256).pre_tokens("to be, or")
            ['to', ' be', ',', ' or']
        """
        check_text(text)
        return pre_tokens(text, self._pattern)

    def encode(self, text: str, *, special: str = "refuse") -> list[int]:
        r"""Turn a text into token ids.

        Args:
            text: Any text without lone surrogates, which no UTF-8 can hold.
            special: What to do where the text holds a special token: "refuse" it, as one must with
                text from strangers; "encode" it as that token, the longest where several fit; or
                treat it "as text" like any other.

        Raises:
            TypeError: If the text is no string.
            ValueError: If it holds a special token and these are refused, or a lone surrogate, or
                a byte that the vocabulary lacks.

        Example:
            >>> tokenizer = BytePairTokenizer.train("", 257, special_tokens=["<|end|>"])
            >>> tokenizer.encode("no<|end|>", special="encode")
            [110, 111, 256]
        """
        check_text(text)
        if special not in _SPECIAL:
            known = ", ".join(map(repr, _SPECIAL))
            raise ValueError(f"special must be one of {known}; got {special!r}")
        if special == "encode":
            parts = _parts(text, self._special_tokens)
            return [i for part, found in parts for i in self._encode_part(part, found)]
        if special == "refuse":
            for token in self._special_tokens:
                if (at := text.find(token)) >= 0:
                    raise ValueError(
                        f"the text holds the special token {token!r} at position {at}; choose "
                        "special='encode' to make it that token, or special='as text' to treat it "
                        "like any other text"
                    )
        return self._encode_ordinary(text)

    def encode_bytes(self, data: bytes | bytearray | memoryview) -> list[int]:
        r"""Turn any bytes into token ids; special tokens are treated as text.

        Bytes that are not valid UTF-8 are cut into pre-tokens as symbols are. Valid UTF-8 has the
        tokens of its text.

        Raises:
            TypeError: If the data are no bytes.
            ValueError: If they hold a byte that the vocabulary lacks.

        Example:
            >>> tokenizer = BytePairTokenizer.train("é", 257)
            >>> tokenizer.encode_bytes(b"\xc3\xa9 \xa9\xc3")
            [256, 32, 169, 195]
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data must be bytes, got {type(data).__name__}")
        # invalid bytes become lone surrogates, which _encode_piece turns back
        return self._encode_ordinary(bytes(data).decode("utf-8", "surrogateescape"))

    def _encode_part(self, part: str, found: str | None) -> list[int]:
        ids = self._encode_ordinary(part)
        return ids if found is None else [*ids, self._special_tokens[found]]

    def _encode_ordinary(self, text: str) -> list[int]:
        pieces = pre_tokens(text, self._pattern)
        return list(chain.from_iterable(map(self._known.__getitem__, pieces)))

    def _encode_piece(self, piece: str) -> list[int]:
        """The tokens of one pre-token."""
        data = piece.encode("utf-8", "surrogateescape")
        whole = self._whole.get(data)
        if whole is not None:
            return [whole]
        try:
            return self._merged(data)
        except KeyError as error:
            raise ValueError(
                f"this vocabulary has no token for the byte 0x{error.args[0]:02X}, which "
                f"{piece[:40]!r} needs"
            ) from None

    def _merged(self, data: bytes) -> list[int]:
        return apply_merges(map(self._byte_ids.__getitem__, data), self._rank_of, self._made)

    def _taken_whole(self) -> dict[bytes, int]:
        """The tokens that a pre-token of the same bytes becomes at once.

        tiktoken takes a pre-token that is a token as it is, whether or not merges lead there. The
        tokens of a training are what their own bytes are merged to, so it is the same, and quicker,
        not to merge them; this is checked, since a file may list merges that no training made.
        """
        if self._kind == "ranks":
            return {token: i for i, token in self._tokens.items()}
        if self._kind == "trained":
            return {t: i for i, t in self._tokens.items() if self._merged(t) == [i]}
        return {}

    # --- decoding -------------------------------------------------------------------------

    def decode_bytes(self, ids: Iterable[SupportsIndex]) -> bytes:
        r"""Give the bytes that were encoded: the tokens' bytes, one after the other.

        Args:
            ids: Integers, in a list, an array or a tensor of one axis.

        Raises:
            TypeError: If ids are not integers, or stand in bytes, a set or a dictionary.
            ValueError: If there is no token of that id.

        Example:
            >>> BytePairTokenizer.train("", 256).decode_bytes([195, 169, 10])
            b'\xc3\xa9\n'
        """
        ids = list_of_ids(ids)
        try:
            return b"".join(map(self._bytes_of.__getitem__, ids))
        except KeyError as error:
            at = ids.index(error.args[0])
            raise ValueError(
                f"every id must be that of a token, and there is none of id {ids[at]} at position "
                f"{at}; the largest id is {self.vocab_size - 1}"
            ) from None

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        r"""Give the text for display: bytes that are no UTF-8 are shown as U+FFFD.

        A token can end in the middle of a character, so only a whole text is sure to come back;
        `decode_bytes` gives back everything.

        Raises:
            TypeError: If ids are not integers.
            ValueError: If there is no token of that id.

        Example:
            >>> BytePairTokenizer.train("", 256).decode([195, 169, 195])
            'é\ufffd'
        """
        return self.decode_bytes(ids).decode("utf-8", "replace")

    # --- files ----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike) -> None:
        """Write the tokenizer as JSON, whole or not at all.

        Raises:
            OSError: If the file cannot be written.
            ValueError: If the path is that of a folder or of a device.

        Example:
            >>> from tempfile import TemporaryDirectory
            >>> with TemporaryDirectory() as folder:
            ...     BytePairTokenizer.train("ha ha", 257).save(f"{folder}/tokenizer.json")
            ...     BytePairTokenizer.load(f"{folder}/tokenizer.json").merges
            [(104, 97)]
        """
        path = Path(path).resolve()  # what a link names is written, and the link stays
        if path.exists() and not path.is_file():
            raise ValueError(f"path must be that of a file, but {path} is a folder or a device")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {path.parent} to save {path.name} in")
        beside = path.with_name(f".{secrets.token_hex(8)}")
        try:
            with open(beside, "xb") as file:
                file.write(self._to_json())
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "BytePairTokenizer":
        """Read a tokenizer that `save` wrote.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If it holds no tokenizer.
        """
        return cls._from_json(Path(path).read_bytes(), str(path))

    def __reduce__(self) -> tuple:
        """A copy, or what another process gets, is made of what `save` writes."""
        return type(self)._from_json, (self._to_json(), "the pickle")

    def _to_json(self) -> bytes:
        content: dict[str, Any] = {
            "format": _FORMAT,
            "kind": self._kind,
            "pattern": self._pattern,
            "special_tokens": self._special_tokens,
        }
        if self._kind != "trained":
            # JSON has no bytes: each byte is written as the character of that number
            token = self._tokens.get
            content["tokens"] = [
                None if token(i) is None else token(i).decode("latin-1")
                for i in range(max(self._tokens, default=-1) + 1)
            ]
        if self._kind != "ranks":
            content["merges"] = [list(pair) for pair in self._rank_of]
        return (json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n").encode()

    @classmethod
    def _from_json(cls, content: bytes, where: str) -> "BytePairTokenizer":
        try:
            parts = json.loads(content)
            if parts["format"] != _FORMAT:
                raise ValueError(f"its format is {parts['format']!r}, expected {_FORMAT!r}")
            return cls._from_parts(parts)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"{where} holds no tokenizer that `save` wrote: {type(error).__name__}: {error}"
            ) from None

    @classmethod
    def _from_parts(cls, parts: dict[str, Any]) -> "BytePairTokenizer":
        kind, pattern, special_tokens = parts["kind"], parts["pattern"], parts["special_tokens"]
        if kind == "trained":
            check_pattern(pattern)
            _check_texts_of_specials(list(special_tokens))
            merges = [(left, right) for left, right in parts["merges"]]
            lengths = [1] * 256
            for i, pair in enumerate(merges):
                if not all(type(x) is int and 0 <= x < 256 + i for x in pair):
                    raise ValueError(f"merge {i} is {pair}, of tokens that are not there yet")
                lengths.append(sum(lengths[x] for x in pair))
            if (n_bytes := sum(lengths)) > _MOST_BYTES_OF_A_FILE:
                raise ValueError(f"its tokens would have {n_bytes:,} bytes")
            tokenizer = cls._trained(merges, pattern, special_tokens)
            if tokenizer.special_tokens != special_tokens or len(tokenizer.merges) != len(merges):
                raise ValueError("a merge is there twice, or the special tokens are not the last")
            return tokenizer
        if not isinstance(parts["tokens"], list):
            raise ValueError("its tokens are no list")
        tokens = [None if t is None else t.encode("latin-1") for t in parts["tokens"]]
        vocabulary = {token: i for i, token in enumerate(tokens) if token is not None}
        if len(vocabulary) != len(tokens) - tokens.count(None):
            raise ValueError("a token is there twice")
        if kind == "ranks":
            return cls.from_ranks(vocabulary, pattern=pattern, special_tokens=special_tokens)
        if kind != "merges":
            raise ValueError(f"its kind is {kind!r}")
        if not all(type(i) is int and i >= 0 for pair in parts["merges"] for i in pair):
            raise ValueError("a merge must be two ids of tokens")
        merges = [(tokens[left], tokens[right]) for left, right in parts["merges"]]
        return cls.from_merges(vocabulary, merges, pattern=pattern, special_tokens=special_tokens)


class _Known(dict):
    """The tokens of pre-tokens met before, since a text repeats its words.

    It holds at most so many pieces of at most so many characters, and starts afresh when full, so
    that no text makes it grow without bound. Hardly a word is longer, and what is longer, as a
    sentence of Chinese, hardly comes twice.
    """

    MOST_PIECES = 1 << 16
    LONGEST = 24

    def __init__(self, encode_piece: Callable[[str], list[int]]):
        super().__init__()
        self.encode_piece = encode_piece

    def __missing__(self, piece: str) -> list[int]:
        ids = self.encode_piece(piece)
        if len(piece) <= self.LONGEST:
            if len(self) >= self.MOST_PIECES:
                self.clear()
            self[piece] = ids
        return ids


def _parts(text: str, special_tokens: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """The stretches of ordinary text, each with the special token that ends it (None at the end).

    Where several special tokens start at one place, the longest is taken.
    """
    longest_first = sorted(special_tokens, key=len, reverse=True)
    start = 0
    if longest_first:
        for found in re.finditer("|".join(map(re.escape, longest_first)), text):
            yield text[start : found.start()], found[0]
            start = found.end()
    yield text[start:], None


# --- refusals -----------------------------------------------------------------------------


def _check_texts_of_specials(special_tokens: Sequence[str]) -> None:
    for token in special_tokens:
        check_text(token, "a special token")
        if not token:
            raise ValueError("a special token must not be empty: it would be everywhere")
    if len(set(special_tokens)) != len(special_tokens):
        (twice, _), *_ = Counter(special_tokens).most_common(1)
        raise ValueError(f"a special token must be given once, but {twice!r} is there twice")


def _with_plain_ids(
    vocabulary: Mapping[bytes, SupportsIndex], special_tokens: Mapping[str, SupportsIndex] | None
) -> tuple[dict[bytes, int], dict[str, int]]:
    """Both tables, their ids as Python's own integers, where nothing is wrong with them."""
    special_tokens = {} if special_tokens is None else special_tokens
    for name, given in (("the vocabulary", vocabulary), ("special_tokens", special_tokens)):
        if not isinstance(given, Mapping):
            raise TypeError(f"{name} must be a mapping from tokens to ids, got {given!r:.60}")
    _check_texts_of_specials(list(special_tokens))
    for token in vocabulary:
        if not isinstance(token, bytes):
            raise TypeError(f"a token must be bytes, got {token!r}")
        if not token:
            raise ValueError("a token must not be empty: nothing would encode to it")
    plain, plain_special = (
        {token: integer(f"the id of {token!r}", i) for token, i in table.items()}
        for table in (vocabulary, special_tokens)
    )
    token_of: dict[int, bytes | str] = {}
    for token, i in chain(plain.items(), plain_special.items()):
        if not 0 <= i <= _LARGEST_ID:
            raise ValueError(f"an id must be from 0 to {_LARGEST_ID}, got {i} for {token!r}")
        if token_of.setdefault(i, token) is not token:
            raise ValueError(
                f"an id must belong to one token, but {token_of[i]!r} and {token!r} both have {i}"
            )
    return plain, plain_special


def _pairs_of_bytes(merges: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    if isinstance(merges, str | bytes) or not isinstance(merges, Iterable):
        raise TypeError(f"merges must be pairs of tokens, got {merges!r:.60}")
    merges = list(merges)
    for rank, merge in enumerate(merges):
        pair = isinstance(merge, tuple | list) and len(merge) == 2
        if not pair or not all(isinstance(token, bytes) for token in merge):
            raise TypeError(
                f"a merge must be a pair of tokens, as bytes; merge {rank} is {merge!r}"
            )
    return merges
