"""Token for token: the published tokenizers against tiktoken and tokenizers, and their budgets.

Every text of attnlib/data, every Unicode scalar value, and texts that hypothesis thinks of. These
tests run without the shape hook, under which millions of small calls take minutes.

The patterns ask what is a letter, a number, or white space. Each library answers by the Unicode it
was built with, so characters of a later Unicode than theirs are left out, and nothing else.
"""

import re
from functools import cache

import pytest
import regex
import tiktoken
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from attnlib import BytePairTokenizer
from attnlib.data import declaration, declaration_languages, plays, vocabulary
from attnlib.tokenizer import _Known
from make_vocabularies import BYTE_OF

NAMES = ("gpt-2", "cl100k", "smollm2")
OURS = {name: BytePairTokenizer.published(name) for name in NAMES}
TEXTS = {**plays(), **{code: declaration(code) for code in declaration_languages()}}
# The bytes that SmolLM2's training text did not hold, so that its vocabulary does not either.
LACKING = {b for b in range(256) if bytes([b]) not in OURS["smollm2"].tokens.values()}


def published_arguments(constructor):
    """What tiktoken would build an encoding of, but for the ranks that it would download."""
    with pytest.MonkeyPatch.context() as patch:
        for load in ("load_tiktoken_bpe", "data_gym_to_mergeable_bpe_ranks"):
            patch.setattr(openai_public, load, lambda *args, **kwargs: {})
        return constructor()


def in_tiktoken(name, constructor):
    ordinary = {
        token: i
        for i, token in OURS[name].tokens.items()
        if i not in OURS[name].special_tokens.values()
    }
    return tiktoken.Encoding(**{**published_arguments(constructor), "mergeable_ranks": ordinary})


def in_tokenizers(name):
    """SmolLM2's tokenizer as its tokenizer.json describes it."""
    letter = {byte: character for character, byte in BYTE_OF.items()}
    tokenizer = OURS[name]

    def spelt(i):
        return "".join(letter[byte] for byte in tokenizer.token_bytes(i))

    special = tokenizer.special_tokens
    ordinary = (i for i in tokenizer.tokens if i not in special.values())
    theirs = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            {spelt(i): i for i in ordinary} | special,
            [(spelt(left), spelt(right)) for left, right in tokenizer.merges],
        )
    )
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Digits(individual_digits=True),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    theirs.add_special_tokens(list(special))
    return theirs


TIKTOKEN = {
    "gpt-2": in_tiktoken("gpt-2", openai_public.gpt2),
    "cl100k": in_tiktoken("cl100k", openai_public.cl100k_base),
}
TOKENIZERS = {"smollm2": in_tokenizers("smollm2")}


def theirs(name, text):
    """The tokens in the other library, special tokens treated as text where it can."""
    if name in TIKTOKEN:
        return TIKTOKEN[name].encode(text, disallowed_special=())
    return TOKENIZERS[name].encode(text).ids


def lacks(text):
    return not LACKING.isdisjoint(text.encode())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", TEXTS)
def test_every_text_of_the_book_has_the_published_tokens(name, text):
    ids = OURS[name].encode(TEXTS[text])
    assert ids == theirs(name, TEXTS[text])
    assert OURS[name].decode(ids) == TEXTS[text]


SCALARS = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)


@cache
def of_class_in_tiktoken(name):
    """The characters that a pattern such as \\p{L} finds in tiktoken; Cn are those without one."""
    ranks = {bytes([b]): b for b in range(256)}
    pattern = tiktoken.Encoding(name, pat_str=f"{name}+", mergeable_ranks=ranks, special_tokens={})
    return set(pattern.decode_bytes(pattern.encode_ordinary(SCALARS)).decode())


@cache
def of_class_in_tokenizers(name):
    rest = tokenizers.Regex(f"[^{name}]+")
    found = tokenizers.pre_tokenizers.Split(rest, "removed").pre_tokenize_str(SCALARS)
    return set("".join(piece for piece, _ in found))


@cache
def of_class_here(name):
    return set("".join(regex.findall(f"{name}+", SCALARS, regex.VERSION0)))


NO_CHARACTER = of_class_in_tiktoken(r"\p{Cn}")
NEWER = NO_CHARACTER ^ of_class_here(r"\p{Cn}")


@pytest.mark.parametrize("name", [r"\p{L}", r"\p{N}", r"\s"])
def test_letters_numbers_and_white_space_are_theirs_but_for_a_later_unicode(name):
    there = of_class_in_tiktoken(name)
    assert there ^ of_class_here(name) <= NEWER
    assert there == of_class_in_tokenizers(name)
    assert len(there - NEWER) > (20 if name == r"\s" else 1500)
    assert max(there - NEWER) >= chr(0x20000) or name != r"\p{L}"
    assert max(there - NEWER) < chr(0x20000) or name == r"\p{L}"


def test_a_later_unicode_is_a_few_characters_that_only_the_newer_library_knows():
    assert of_class_in_tokenizers(r"\p{Cn}") == NO_CHARACTER
    # three hundredths of the characters there are; none where both are of one Unicode
    assert len(NEWER) < 0.03 * len(SCALARS)
    assert NEWER <= NO_CHARACTER or NEWER.isdisjoint(NO_CHARACTER)


def in_contexts(name, first):
    """Texts of the 2,048 scalar values from here on, in which their class decides the tokens.

    Before "'ll" a symbol takes the apostrophe; of two blanks before a letter one stays; of numbers
    cl100k takes three. The third and fourth plane have no numbers and no white space. From the
    fifth on there are values without a character, and private ones, all of one class, as the tests
    above say: these stand in a row.
    """
    scalars = [chr(c) for c in range(first, first + 0x800) if not 0xD800 <= c < 0xE000]
    scalars = [c for c in scalars if c not in NEWER]
    if first >= 0x40000:
        return ["a" + "".join(scalars[i : i + 16]) for i in range(0, len(scalars), 16)]
    number = "123" if name == "cl100k" else "1"
    return [f"{c}'ll" if first >= 0x20000 else f"{c}'ll  {c}{number}" for c in scalars]


@pytest.mark.parametrize("name", NAMES)
def test_every_scalar_value_has_the_published_tokens(name):
    n_scalars = 0
    for first in range(0, 0x110000, 0x800):
        contexts = in_contexts(name, first)
        if name == "smollm2":
            contexts = [context for context in contexts if not lacks(context)]
        text = "".join(contexts)
        n_scalars += len(set(text))
        if OURS[name].encode(text) != theirs(name, text):
            wrong = [c for c in contexts if OURS[name].encode(c) != theirs(name, c)]
            pytest.fail(f"{len(wrong)} contexts differ: {wrong[:9]!a}")
    assert n_scalars > len(SCALARS) - len(NEWER) or name == "smollm2"


def test_a_character_of_a_later_unicode_may_be_a_letter_here_and_a_symbol_there():
    letters = NEWER & of_class_here(r"\p{L}")
    for letter in sorted(letters)[:9]:
        text = f"{letter}'ll"
        assert OURS["gpt-2"].pre_tokens(text) == [letter, "'ll"]
        assert OURS["gpt-2"].decode(theirs("gpt-2", text)) == text


# Blanks, letters, marks, numbers and apostrophes, which the patterns tell apart, and anything else.
SHAPES = "  \t\n\r\u00a0\u2003aAsSſéßтह\u0301\u094d东12٣½'’-.!\U0001f600\u200d"
ANY_TEXT = st.text(
    st.sampled_from(SHAPES) | st.characters(exclude_categories=["Cs"]), max_size=50
) | st.lists(
    st.sampled_from(["'ll", "'S", " the", "  ", "\r\n", " 1234", "tion", "ing", "://", "ß"])
).map("".join)


@pytest.mark.parametrize("name", NAMES)
@given(text=ANY_TEXT)
def test_any_text_has_the_published_tokens(name, text):
    text = "".join(c for c in text if c not in NEWER)
    if name == "smollm2":
        text = "".join(c for c in text if not lacks(c))
    assert OURS[name].encode(text, special="as text") == theirs(name, text)
    assert OURS[name].decode(OURS[name].encode(text, special="as text")) == text


@pytest.mark.parametrize("name", ["gpt-2", "cl100k"])
@given(data=st.binary(max_size=60))
def test_every_string_of_bytes_comes_back_from_published_tokens(name, data):
    assert OURS[name].decode_bytes(OURS[name].encode_bytes(data)) == data


@pytest.mark.parametrize("name", NAMES)
def test_a_long_piece_has_the_published_tokens(name):
    for piece in ("a" * 3001, "antidisestablishmentarianism" * 90, "\n" * 999, " " * 2000 + "x"):
        assert OURS[name].encode(piece) == theirs(name, piece)


@pytest.mark.parametrize("name", NAMES)
def test_special_tokens_have_the_published_ids(name):
    text = "".join(f"to{token} be" for token in OURS[name].special_tokens)
    ids = OURS[name].encode(text, special="encode")
    if name == "smollm2":
        assert ids == TOKENIZERS[name].encode(text).ids
    else:
        assert ids == TIKTOKEN[name].encode(text, allowed_special="all")
        assert OURS[name].special_tokens == TIKTOKEN[name]._special_tokens
    assert OURS[name].decode(ids) == text


def test_the_vocabularies_have_the_published_sizes():
    assert OURS["gpt-2"].vocab_size == 50_257
    assert OURS["cl100k"].vocab_size == TIKTOKEN["cl100k"].n_vocab == 100_277
    assert OURS["smollm2"].vocab_size == 49_152
    assert len(OURS["smollm2"].merges) == 48_900
    assert OURS["smollm2"].special_tokens["<|im_start|>"] == 1


def test_a_byte_that_smollm2_lacks_is_refused_here_and_dropped_in_silence_there():
    assert {0xF5, 0xFF, 0x04} <= LACKING
    text = "a\x04b"
    with pytest.raises(ValueError, match="no token for the byte 0x04"):
        OURS["smollm2"].encode(text)
    assert OURS["smollm2"].decode(theirs("smollm2", text)) == "ab"


def test_a_published_tokenizer_can_be_saved_and_loaded(tmp_path):
    OURS["smollm2"].save(tmp_path / "t.json")
    again = BytePairTokenizer.load(tmp_path / "t.json")
    assert again.merges == OURS["smollm2"].merges
    assert again.tokens == OURS["smollm2"].tokens
    assert again.encode(TEXTS["ko"]) == OURS["smollm2"].encode(TEXTS["ko"])


def test_training_on_a_play_encodes_it_as_the_first_merges_do():
    text = TEXTS["macbeth"]
    tokenizer = BytePairTokenizer.train(text, 700)
    again = BytePairTokenizer.train(text, 900).with_merges(700 - 256)
    assert again.merges == tokenizer.merges
    assert tokenizer.decode(tokenizer.encode(text)) == text
    # a merge shortens the list by its count, so more merges make it shorter
    lengths = [len(tokenizer.with_merges(n).encode(text)) for n in (0, 100, 444)]
    assert lengths[0] == len(text.encode()) > lengths[1] > lengths[2]


def test_what_is_known_of_a_long_text_stays_bounded():
    tokenizer = BytePairTokenizer.published("gpt-2")
    words = " ".join(f"{i:x}" for i in range(2 * _Known.MOST_PIECES))
    words = re.sub(r"\d", lambda digit: "ghijklmnop"[int(digit[0])], words)
    assert tokenizer.decode(tokenizer.encode(words)) == words
    assert len(tokenizer._known) <= _Known.MOST_PIECES


@pytest.mark.parametrize("name", ["gpt2", "GPT-2", None, ["gpt-2"], "../contents"])
def test_unknown_vocabularies_are_refused_with_those_that_exist(name):
    for load in (BytePairTokenizer.published, vocabulary):
        with pytest.raises(ValueError, match="vocabulary must be one of 'gpt-2', 'cl100k', 'smol"):
            load(name)
