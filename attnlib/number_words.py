r"""Numbers in words, English and German: their tokens, and how a translator of them is trained.

Source   this book; the words are those of num2words 0.5.14 (see attnlib/data/PROVENANCE.md);
         teacher forcing: Williams and Zipser 1989, doi:10.1162/neco.1989.1.2.270
Chapter  chapters/encoder-decoder.md
Axes     attnlib/axes.py

German says the ones before the tens and writes all in one word: 21 is "einundzwanzig", one and
twenty. So a translator must read the English words in another order than they stand in.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, SupportsIndex

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from attnlib.generation import generate
from attnlib.models import EncoderDecoder
from attnlib.require import at_least
from attnlib.token_checks import check_text, list_of_ids
from attnlib.token_rows import in_mode, pad_right
from attnlib.training import cross_entropy, shifted
from attnlib.word_piece import word_piece

__all__ = [
    "Alignment",
    "NumberWordsTokenizer",
    "PairBatch",
    "alignments",
    "as_batch",
    "batches",
    "exact_match",
    "meaning_shares",
    "token_accuracy",
    "translate",
    "translation_loss",
]

_SPECIAL = ("[PAD]", "[BEGIN]", "[END]")
_ENGLISH_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred
thousand and
"""
# What may begin a German number word and may also stand within it.
_GERMAN_PIECES = """
ein eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn
sechzehn siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig
"""
_ENGLISH, _GERMAN = tuple(_ENGLISH_WORDS.split()), tuple(_GERMAN_PIECES.split())
# Both lists go from one to ninety; only "eins" has no word of its own, and "und" means no number.
_MEANINGS = {"null": "zero", "eins": "one", "hundert": "hundred", "tausend": "thousand"} | dict(
    zip((piece for piece in _GERMAN if piece != "eins"), _ENGLISH[1:], strict=False)
)
_WITHIN = ("und", "hundert", "tausend")
_MOST_GERMAN = 12  # pieces of 777 777, the end included: 5 + 1 + 5 + 1

Pair = tuple[int, str, str]
"""A number, its English words and its German word."""


class NumberWordsTokenizer:
    r"""One vocabulary for both languages: whole English words, and pieces of German ones.

    English words are cut at blanks, hyphens and commas, and neither hyphens nor commas are kept:
    the words alone say which number it is. "and" is kept; it is no more needed, but it is there to
    be read, and it is not where German has "und". German words are cut by
    `attnlib.word_piece.word_piece`, the longest piece first, and pieces within a word start with
    "##". The numbers from 13 to 19 are one piece, as they are one word in English. Capitals become
    small.

    The ids are the places in `tokens`; [PAD], [BEGIN] and [END] are the first three.

    Example:
        >>> tokenizer = NumberWordsTokenizer()
        >>> tokenizer.english_tokens("twenty-one thousand, one hundred and four")
        ['twenty', 'one', 'thousand', 'one', 'hundred', 'and', 'four']
        >>> tokenizer.german_tokens("einundzwanzigtausend")
        ['ein', '##und', '##zwanzig', '##tausend']
        >>> tokenizer.encode_german("eins")
        [1, 36, 2]
        >>> tokenizer.decode([1, 36, 2])
        'eins'
    """

    def __init__(self):
        within = tuple(f"##{piece}" for piece in (*_GERMAN, *_WITHIN))
        self._tokens = (*_SPECIAL, *_ENGLISH, "null", *_GERMAN, *within)
        self._ids = {token: i for i, token in enumerate(self._tokens)}
        self._german = frozenset(("null", *_GERMAN, *within))

    @property
    def tokens(self) -> tuple[str, ...]:
        """Every token, in the order of the ids."""
        return self._tokens

    @property
    def vocab_size(self) -> int:
        """How many tokens there are: v."""
        return len(self._tokens)

    @property
    def pad(self) -> int:
        """The id that fills a row up."""
        return self._ids["[PAD]"]

    @property
    def begin(self) -> int:
        """The id that the decoder reads before the first piece."""
        return self._ids["[BEGIN]"]

    @property
    def end(self) -> int:
        """The id that the decoder writes after the last piece."""
        return self._ids["[END]"]

    def english_tokens(self, text: str) -> list[str]:
        """The words of an English number.

        Raises:
            TypeError: If the text is no string.
            ValueError: If there is no word, or one that is in no number below a million.
        """
        check_text(text)
        words = text.lower().replace(",", " ").replace("-", " ").split()
        if not words:
            raise ValueError(f"an English number must have a word, got {text!r}")
        unknown = [word for word in words if word not in _ENGLISH]
        if unknown:
            raise ValueError(
                f"each word must be one of an English number below a million, got {unknown[0]!r}"
            )
        return words

    def german_tokens(self, text: str) -> list[str]:
        """The pieces of a German number.

        Raises:
            TypeError: If the text is no string.
            ValueError: If there is no word, or one that these pieces cannot be put together to.
        """
        check_text(text)
        words = unicodedata.normalize("NFC", text).lower().split()
        if not words:
            raise ValueError(f"a German number must have a word, got {text!r}")
        cut = [(word, word_piece(word, self._german)) for word in words]
        unknown = [word for word, pieces in cut if pieces == ["[UNK]"]]
        if unknown:
            raise ValueError(
                f"a German number below a million must be made of number words, got {unknown[0]!r}"
            )
        return [piece for _, pieces in cut for piece in pieces]

    def encode_english(self, text: str) -> list[int]:
        """The ids of the words, and nothing else: the encoder reads them all at once."""
        return [self._ids[token] for token in self.english_tokens(text)]

    def encode_german(self, text: str) -> list[int]:
        """The ids of the pieces between [BEGIN] and [END]."""
        pieces = (self._ids[token] for token in self.german_tokens(text))
        return [self.begin, *pieces, self.end]

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The text of ids of either language; [PAD], [BEGIN] and [END] are left out.

        Pieces are joined without a blank, words with one. Hyphens and commas of English are gone.

        Raises:
            TypeError: If ids are not integers in a sequence.
            ValueError: If there is no token of that id.
        """
        ids = list_of_ids(ids)
        unknown = [i for i in ids if not 0 <= i < self.vocab_size]
        if unknown:
            raise ValueError(
                f"every id must be at least 0 and less than {self.vocab_size}, got {unknown[0]}"
            )
        words = " ".join(self._tokens[i] for i in ids if self._tokens[i] not in _SPECIAL)
        return words.replace(" ##", "")


class PairBatch(NamedTuple):
    """Pairs as a model takes them: rows of ids, filled up on the right, and where tokens stand."""

    source: Int[Tensor, "b s"]
    is_source: Bool[Tensor, "b s"]
    tokens: Int[Tensor, "b t"]
    is_token: Bool[Tensor, "b t"]


def as_batch(pairs: Sequence[Pair], tokenizer: NumberWordsTokenizer | None = None) -> PairBatch:
    """Encode pairs and fill their rows up to the longest.

    Raises:
        ValueError: If there are no pairs, or a word is none of a number.

    Example:
        >>> batch = as_batch([(1, "one", "eins"), (20, "twenty", "zwanzig")])
        >>> batch.tokens.tolist(), batch.source.shape
        ([[1, 36, 2], [1, 55, 2]], torch.Size([2, 1]))
    """
    pairs = list(pairs)
    if not pairs:
        raise ValueError("a batch must have at least 1 pair, got 0")
    tokenizer = NumberWordsTokenizer() if tokenizer is None else tokenizer
    english = [tokenizer.encode_english(text) for _, text, _ in pairs]
    german = [tokenizer.encode_german(text) for _, _, text in pairs]
    return PairBatch(
        *pad_right(english, pad_id=tokenizer.pad), *pad_right(german, pad_id=tokenizer.pad)
    )


def batches(pairs: Sequence[Pair], size: int, generator: Generator) -> Iterator[PairBatch]:
    r"""Batches without end: every pair once, in a new order, then every pair once again.

    What is left of a pass and fills no batch waits for no other pass: it is left out of this one.

    Args:
        pairs: To choose from.
        size: How many pairs a batch has: b.
        generator: Says the order.

    Raises:
        TypeError: If the size is no whole number, or the generator no `torch.Generator`.
        ValueError: If the size is not between 1 and the number of pairs.

    Example:
        >>> pairs = [(1, "one", "eins"), (2, "two", "zwei"), (3, "three", "drei")]
        >>> batch = next(batches(pairs, 2, torch.Generator().manual_seed(0)))
        >>> batch.tokens.shape, batch.is_token.all().item()
        (torch.Size([2, 3]), True)
    """
    size = at_least("size", size, 1)
    if size > len(pairs):
        raise ValueError(f"size must be at most the {len(pairs)} pairs there are, got {size}")
    if not isinstance(generator, Generator):
        raise TypeError(f"generator must be a torch.Generator, got {type(generator).__name__}")
    return _without_end(as_batch(pairs), size, generator)


def _without_end(whole: PairBatch, size: int, generator: Generator) -> Iterator[PairBatch]:
    n_pairs = len(whole.tokens)
    while True:
        order = torch.randperm(n_pairs, generator=generator)
        for rows in order[: n_pairs - n_pairs % size].split(size):
            s = int(whole.is_source[rows].sum(1).max())
            t = int(whole.is_token[rows].sum(1).max())
            yield PairBatch(
                whole.source[rows, :s],
                whole.is_source[rows, :s],
                whole.tokens[rows, :t],
                whole.is_token[rows, :t],
            )


def translation_loss(model: EncoderDecoder, batch: PairBatch) -> Float[Tensor, ""]:
    r"""The mean cross-entropy of the German pieces, in nats, under teacher forcing.

    $$-\frac{1}{N} \sum_{\text{rows}} \sum_t \log p(y_{t+1} \mid x,\, y_0, \dots, y_t)$$

    The decoder reads the right pieces $y_0 = $ [BEGIN], $y_1, \dots$ whatever it would have written
    itself, and is asked for the next one at every place at once. [END] is asked for, too.
    """
    inputs, targets = shifted(batch.tokens)
    logits = model(batch.source, inputs, is_source=batch.is_source, is_token=batch.is_token[:, :-1])
    return cross_entropy(logits, targets, is_target=batch.is_token[:, 1:])


def token_accuracy(model: EncoderDecoder, pairs: Sequence[Pair]) -> float:
    r"""How many of the German tokens, [END] included, are the likeliest under teacher forcing.

    Raises:
        ValueError: If there are no pairs.
    """
    batch = as_batch(pairs)
    with in_mode(model, False), torch.no_grad():
        logits = model(
            batch.source,
            batch.tokens[:, :-1],
            is_source=batch.is_source,
            is_token=batch.is_token[:, :-1],
        )
    is_right = logits.argmax(-1) == batch.tokens[:, 1:]
    return is_right[batch.is_token[:, 1:]].double().mean().item()


def translate(model: EncoderDecoder, texts: Sequence[str]) -> list[str]:
    r"""Write each English number in German: the likeliest piece, again and again, until [END].

    Args:
        model: A translator over the tokens of `NumberWordsTokenizer`.
        texts: English numbers.

    Raises:
        TypeError: If texts is a string instead of a list of them.
        ValueError: If a text is no English number.
    """
    if isinstance(texts, str):
        raise TypeError(f"texts must be a list of texts, got the text {texts!r}")
    if not texts:
        return []
    tokenizer = NumberWordsTokenizer()
    english = [tokenizer.encode_english(text) for text in texts]
    source = pad_right(english, pad_id=tokenizer.pad)
    return [tokenizer.decode(ids) for ids in _written(model, *source, tokenizer)]


def _written(
    model: EncoderDecoder,
    source: Int[Tensor, "b s"],
    is_source: Bool[Tensor, "b s"],
    tokenizer: NumberWordsTokenizer,
) -> list[list[int]]:
    """What the model writes after [BEGIN], up to [END] if that comes."""
    return generate(
        model,
        [[tokenizer.begin]] * len(source),
        _MOST_GERMAN,
        source=source,
        is_source=is_source,
        stop=(tokenizer.end,),
    )


def exact_match(model: EncoderDecoder, pairs: Sequence[Pair]) -> float:
    r"""The share of the pairs whose German the model writes letter for letter, running freely.

    The decoder reads what it wrote itself, so one wrong piece is a wrong number.

    Raises:
        ValueError: If there are no pairs.
    """
    pairs = list(pairs)
    if not pairs:
        raise ValueError("exact_match must have at least 1 pair, got 0")
    written = translate(model, [english for _, english, _ in pairs])
    return sum(w == german for w, (_, _, german) in zip(written, pairs, strict=True)) / len(pairs)


class Alignment(NamedTuple):
    """What each head reads of the English words when it writes each German piece.

    `weights` has the axes (layer, head, t, s): the row of a piece is that of the target which asked
    for it, one place before it stands itself. The last piece is [END], unless it never came.
    """

    number: int
    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Float[Tensor, "*layers h t s"]


def alignments(model: EncoderDecoder, pairs: Sequence[Pair]) -> list[Alignment]:
    r"""The cross-attention of a translator while it writes numbers, running freely.

    Args:
        model: A translator over the tokens of `NumberWordsTokenizer`.
        pairs: The numbers; their German is not looked at.

    Raises:
        ValueError: If there are no pairs, or a text is no English number.
    """
    pairs = list(pairs)
    batch, tokenizer = as_batch(pairs), NumberWordsTokenizer()
    written = _written(model, batch.source, batch.is_source, tokenizer)
    so_far = [[tokenizer.begin, *ids[:-1]] for ids in written]
    read, is_token = pad_right(so_far, pad_id=tokenizer.pad)
    with in_mode(model, False), torch.no_grad():
        weights = model.cross_attention_weights(
            batch.source, read, is_source=batch.is_source, is_token=is_token
        )
    found = []
    for row, (ids, (number, english, _)) in enumerate(zip(written, pairs, strict=True)):
        source = tuple(tokenizer.english_tokens(english))
        target = tuple(tokenizer.tokens[i] for i in ids)
        found.append(
            Alignment(number, source, target, weights[:, row, :, : len(target), : len(source)])
        )
    return found


def meaning_shares(found: Sequence[Alignment]) -> Float[Tensor, "*layers h"]:
    r"""How much of its weight each head has on the words that mean the piece that is written.

    The mean over all pieces that mean a number: "ein" means "one", "hundert" means "hundred", while
    "und" and [END] mean none. Where a word stands twice, its weights are added. This takes a
    dictionary, which the model was never given.

    Args:
        found: Alignments of one model.

    Raises:
        ValueError: If there is no alignment, or no piece that means a number.

    Example:
        >>> rows = torch.tensor([[0.1, 0.9], [0.5, 0.5], [0.7, 0.3], [1.0, 0.0]])
        >>> pieces = ("ein", "##und", "##zwanzig", "[END]")
        >>> meaning_shares([Alignment(21, ("twenty", "one"), pieces, rows[None, None])])
        tensor([[0.8000]])
    """
    shares = [
        each.weights[..., t, [word == meaning for word in each.source]].sum(-1)
        for each in found
        for t, piece in enumerate(each.target)
        if (meaning := _MEANINGS.get(piece.removeprefix("##"))) is not None
    ]
    if not shares:
        raise ValueError("meaning_shares must have at least 1 piece that means a number, got 0")
    return torch.stack(shares).mean(0)
