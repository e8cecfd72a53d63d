r"""Pre-tokens: the pieces of a text that no merge may cross.

Source   Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2;
         the cl100k pattern as tiktoken publishes it; SmolLM2's as its tokenizer does
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py

A pattern is an ordered choice: at each place the first kind of piece that fits is taken, as long
as it gets. Every character fits one of the kinds, so the pieces joined again are the text.
"""

from collections.abc import Callable
from functools import cache

# What is neither white space nor a letter nor a number: punctuation, symbols, marks, controls.
_OTHER = r"[^\s\p{L}\p{N}]"

# The last two kinds share the white space before a word: all of it but one character, which the
# word takes with it where that is a blank.
_KINDS: dict[str, tuple[str, ...]] = {
    "gpt-2": (
        r"'(?:[sdmt]|ll|ve|re)",
        r" ?\p{L}+",
        r" ?\p{N}+",
        rf" ?{_OTHER}+",
        r"\s+(?!\S)",
        r"\s+",
    ),
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"\p{N}{1,3}",
        rf" ?{_OTHER}+[\r\n]*",
        r"\s+\Z",
        r"\s*[\r\n]",
        r"\s+(?!\S)",
        r"\s+",
    ),
    # Numbers are cut out one by one before GPT-2's pattern sees what lies between them, so that
    # white space before a number ends a piece as it does at the end of the text.
    "smollm2": (
        r"\p{N}",
        r"'(?:[sdmt]|ll|ve|re)",
        r" ?\p{L}+",
        rf" ?{_OTHER}+",
        r"\s+(?![^\s\p{N}])",
        r"\s+",
    ),
}

PATTERNS: tuple[str, ...] = tuple(_KINDS)
"""The names of the published patterns."""


def pre_tokens(text: str, pattern: str | None) -> list[str]:
    r"""Cut a text into the pieces inside which merges may happen.

    Joined, the pieces are the text. A pattern that is None leaves the text whole.

    Args:
        text: Any text; lone surrogates count as symbols.
        pattern: One of `PATTERNS`, or None.

    Returns:
        The pieces in order; none of them is empty.

    Raises:
        ValueError: If there is no such pattern.

    Example:
        >>> pre_tokens("We'll pay 12345  ducats!", "gpt-2")
        ['We', "'ll", ' pay', ' 12345', ' ', ' ducats', '!']
        >>> pre_tokens("We'll pay 12345  ducats!", "cl100k")
        ['We', "'ll", ' pay', ' ', '123', '45', ' ', ' ducats', '!']
        >>> pre_tokens("pay 123", "smollm2")
        ['pay', ' ', '1', '2', '3']
        >>> pre_tokens("We'll pay", None)
        ["We'll pay"]
    """
    if pattern is None:
        return [text] if text else []
    return _find_all(pattern)(text)


@cache
def _find_all(pattern: str) -> Callable[[str], list[str]]:
    """Compile a pattern; the package regex, which knows Unicode's classes, is imported here."""
    check_pattern(pattern)
    import regex

    # V0 folds the case of one letter to one letter, as the published implementations do
    return regex.compile("|".join(_KINDS[pattern]), regex.VERSION0).findall


def check_pattern(pattern: str | None) -> None:
    """Refuse what is neither None nor the name of a published pattern."""
    if pattern is not None and (not isinstance(pattern, str) or pattern not in _KINDS):
        known = ", ".join(map(repr, PATTERNS))
        raise ValueError(f"pattern must be one of {known}, or None; got {pattern!r}")
