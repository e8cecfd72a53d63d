"""Faults in byte pairs, pre-tokens, word pieces, their definitions and their judge.

B70: merges applied in another order than that of their ranks. B72: empty text and exhausted pairs.
B74: a table of merges that is not what the counts give. B76: other pre-tokens or special tokens
than those that were published.
"""

from fault import fault

BYTE_PAIRS = "attnlib/byte_pairs.py"
PRE_TOKENS = "attnlib/pre_tokens.py"
TOKENIZER = "attnlib/tokenizer.py"
TOKEN_CHECKS = "attnlib/token_checks.py"
WORD_PIECE = "attnlib/word_piece.py"
DEFINITIONS = "attnlib/definitions/of_tokenization.py"

T_TOKENIZER = "tests/test_tokenizer.py"
T_WORD_PIECE = "tests/test_word_piece.py"
T_DEFINITIONS = "tests/test_definitions.py"
T_REFUSALS = "tests/refusals/test_tokenizer_refusals.py"  # run without the shape hook

FAULTS = (
    # --- applying merges ------------------------------------------------------------------
    fault(
        "byte pairs: the leftmost merge comes first, whatever its rank",
        BYTE_PAIRS,
        T_TOKENIZER,
        ("lowest = min(ranks)", "lowest = next((r for r in ranks if r != _NEVER), _NEVER)"),
        bug="B70",
    ),
    fault(
        "byte pairs: the highest rank comes first in a long piece",
        BYTE_PAIRS,
        T_TOKENIZER,
        ("heap = [r * n + i for", "heap = [-r * n + i for"),
        ("lowest, i = divmod(heapq.heappop(heap), n)", "lowest, i = divmod(heap.pop(0), n)"),
        bug="B70",
    ),
    fault(
        "byte pairs: of equal ranks in a long piece the rightmost comes first",
        BYTE_PAIRS,
        T_TOKENIZER,
        ("heap = [r * n + i for i, r", "heap = [r * n + n - 1 - i for i, r"),
        ("heappush(heap, new * n + start)", "heappush(heap, new * n + n - 1 - start)"),
        (
            "lowest, i = divmod(heapq.heappop(heap), n)",
            "lowest, i = divmod(heapq.heappop(heap), n)\n        i = n - 1 - i",
        ),
        bug="B70",
    ),
    fault(
        "byte pairs: the pair to the left of a merge keeps its old rank",
        BYTE_PAIRS,
        T_TOKENIZER,
        (
            "        if i:\n            ranks[i - 1] =",
            "        if i > 1:\n            ranks[i - 1] =",
        ),
        bug="B70",
    ),
    fault(
        "byte pairs: a pair in a long piece that is out of date is merged",
        BYTE_PAIRS,
        T_TOKENIZER,
        ("if ranks[i] != lowest:", "if ranks[i] == _NEVER:"),
        bug="B70",
    ),
    # --- learning merges ------------------------------------------------------------------
    fault(
        "byte pairs: a pair that has no place left is merged again",
        BYTE_PAIRS,
        T_TOKENIZER,
        ("if n and n == -bound:", "if n == -bound:"),
        bug="B72",
    ),
    fault(
        "byte pairs: exhausted pairs crash the training",
        BYTE_PAIRS,
        T_TOKENIZER,
        ("        while self.heap:\n", "        while True:\n"),
        bug="B72",
    ),
    fault(
        "byte pairs: an empty text without pre-tokens is one empty piece",
        PRE_TOKENS,
        T_TOKENIZER,
        ("return [text] if text else []", "return [text]"),
        bug="B72",
    ),
    fault(
        "byte pairs: the counts of the neighbours of a merge stay as they were",
        BYTE_PAIRS,
        T_TOKENIZER,
        ("self.n_adjacent[pair] -= self.weight[i]", "pass"),
        bug="B74",
    ),
    fault(
        "byte pairs: places that overlap are counted twice",
        BYTE_PAIRS,
        T_TOKENIZER,
        ("        if a != b:\n", "        if True:\n"),
        bug="B74",
    ),
    fault(
        "byte pairs: of equal counts the greatest pair is merged",
        BYTE_PAIRS,
        T_TOKENIZER,
        (
            "            if n and n == -bound:\n                return pair\n",
            "            if n and n == -bound:\n"
            "                return max(p for p in self.n_adjacent if self._n_places(p) == n)\n",
        ),
        bug="B74",
    ),
    fault(
        "byte pairs: a piece counts once, however often it occurs",
        BYTE_PAIRS,
        T_TOKENIZER,
        ("[*repeat(count, len(piece)), 0]", "[*repeat(1, len(piece)), 0]"),
        bug="B74",
    ),
    fault(
        "byte pairs: merges in a run start at the right",
        BYTE_PAIRS,
        T_TOKENIZER,
        (
            "for i in sorted(self.places.pop(pair)):",
            "for i in sorted(self.places.pop(pair), reverse=True):",
        ),
        bug="B74",
    ),
    # --- pre-tokens and special tokens ----------------------------------------------------
    fault(
        "pre-tokens: cl100k takes capital contractions apart",
        PRE_TOKENS,
        T_TOKENIZER,
        ("(?i:[sdmt]|ll|ve|re)", "(?:[sdmt]|ll|ve|re)"),
        bug="B76",
    ),
    fault(
        "pre-tokens: all white space stays away from the word behind it",
        PRE_TOKENS,
        T_TOKENIZER,
        (
            '        rf" ?{_OTHER}+",\n        r"\\s+(?!\\S)",',
            '        rf" ?{_OTHER}+",\n        r"\\s+",',
        ),
        bug="B76",
    ),
    fault(
        "pre-tokens: cl100k leaves line breaks after punctuation apart",
        PRE_TOKENS,
        T_TOKENIZER,
        ('rf" ?{_OTHER}+[\\r\\n]*"', 'rf" ?{_OTHER}+"'),
        bug="B76",
    ),
    fault(
        "pre-tokens: smollm2 keeps numbers together",
        PRE_TOKENS,
        T_TOKENIZER,
        ('        r"\\p{N}",\n', '        r"\\p{N}+",\n'),
        bug="B76",
    ),
    fault(
        "pre-tokens: smollm2 lets a number share the white space before it",
        PRE_TOKENS,
        T_TOKENIZER,
        ('r"\\s+(?![^\\s\\p{N}])"', 'r"\\s+(?!\\S)"'),
        bug="B76",
    ),
    fault(
        "special tokens: of several the shortest is taken",
        TOKENIZER,
        T_TOKENIZER,
        ("key=len, reverse=True)", "key=len)"),
        bug="B76",
    ),
    fault(
        "special tokens: their text is a pattern",
        TOKENIZER,
        T_TOKENIZER,
        ("map(re.escape, longest_first)", "map(str, longest_first)"),
        bug="B76",
    ),
    fault(
        "special tokens: they are encoded without being asked for",
        TOKENIZER,
        T_TOKENIZER,
        ('if special == "encode":', 'if special != "as text":'),
        bug="B76",
    ),
    fault(
        "special tokens: training merges across them",
        TOKENIZER,
        T_TOKENIZER,
        ("for part, _ in _parts(text, special_tokens):", "for part, _ in _parts(text, ()):"),
        bug="B76",
    ),
    fault(
        "ranks: a pre-token that is a token is taken apart and put together by merges",
        TOKENIZER,
        T_TOKENIZER,
        (
            '        if self._kind == "ranks":\n            return {token',
            "        if not self._kind:\n            return {token",
        ),
        bug="B76",
    ),
    fault(
        "trained: a pre-token that is a token is taken whole, though no merge leads there",
        TOKENIZER,
        T_TOKENIZER,
        ("self._tokens.items() if self._merged(t) == [i]}", "self._tokens.items()}"),
        bug="B70",
    ),
    # --- bytes, files, memory -------------------------------------------------------------
    fault(
        "bytes that are no UTF-8 are replaced",
        TOKENIZER,
        T_TOKENIZER,
        (
            'bytes(data).decode("utf-8", "surrogateescape")',
            'bytes(data).decode("utf-8", "replace")',
        ),
    ),
    fault(
        "what is known of pre-tokens grows without bound",
        TOKENIZER,
        T_TOKENIZER,
        ("                self.clear()\n", "                pass\n"),
    ),
    fault(
        "a tokenizer is written into its file while others read it",
        TOKENIZER,
        T_TOKENIZER,
        (
            "            os.replace(beside, path)\n",
            "            path.write_bytes(Path(beside).read_bytes())\n",
        ),
    ),
    fault(
        "a tokenizer hands out what it works with",
        TOKENIZER,
        T_TOKENIZER,
        ("return dict(self._special_tokens)", "return self._special_tokens"),
    ),
    fault(
        "a lone surrogate crashes with the words of the codec",
        TOKEN_CHECKS,
        T_REFUSALS,
        ("except UnicodeEncodeError as error:\n", "except UnicodeDecodeError as error:\n"),
    ),
    fault(
        "an unknown id is passed over",
        TOKENIZER,
        T_REFUSALS,
        (
            'return b"".join(map(self._bytes_of.__getitem__, ids))',
            'return b"".join(self._bytes_of.get(i, b"") for i in ids)',
        ),
    ),
    fault(
        "a vocabulary without room for the bytes is trained all the same",
        TOKENIZER,
        T_REFUSALS,
        ("        if n_merges < 0:\n", "        if False:\n"),
    ),
    fault(
        "a tokenizer without pre-tokens cannot be sent to another process",
        TOKENIZER,
        T_TOKENIZER,
        ("def __reduce__(self)", "def made_of(self)"),
    ),
    fault(
        "ids of arrays stay as they are",
        TOKENIZER,
        T_TOKENIZER,
        ('{token: integer(f"the id of {token!r}", i) for', "{token: i for"),
    ),
    fault(
        "a special token may come in a set, whose order the seed of hashes gives",
        TOKENIZER,
        T_REFUSALS,
        ("or not isinstance(special_tokens, Sequence):", "or False:"),
    ),
    fault(
        "saving puts a file in the place of a device",
        TOKENIZER,
        T_REFUSALS,
        ("if path.exists() and not path.is_file():", "if path.is_dir():"),
    ),
    fault(
        "ids are read from bytes",
        TOKEN_CHECKS,
        T_REFUSALS,
        ("isinstance(ids, str | bytes | bytearray", "isinstance(ids, str | bytearray"),
    ),
    # --- word pieces ----------------------------------------------------------------------
    fault(
        "word pieces: a string is searched for pieces",
        WORD_PIECE,
        T_REFUSALS,
        ("if isinstance(vocabulary, str) or not", "if not"),
    ),
    fault(
        "word pieces: codes without a character are taken out",
        WORD_PIECE,
        T_WORD_PIECE,
        ('in ("Cc", "Cf", "Co", "Cs")', 'in ("Cc", "Cf", "Cn", "Co", "Cs")'),
    ),
    fault(
        "word pieces: the shortest piece is taken",
        WORD_PIECE,
        T_WORD_PIECE,
        ("range(len(word), start, -1)", "range(start + 1, len(word) + 1)"),
    ),
    fault(
        "word pieces: what was found before an unknown part is kept",
        WORD_PIECE,
        T_WORD_PIECE,
        ("            return [unknown]\n", "            return [*pieces, unknown]\n"),
    ),
    fault(
        "word pieces: accents stay",
        WORD_PIECE,
        T_WORD_PIECE,
        ('normalize("NFD", ', 'normalize("NFC", '),
    ),
    fault(
        "word pieces: symbols of ASCII do not count as punctuation",
        WORD_PIECE,
        T_WORD_PIECE,
        ("return symbol or unicodedata", "return unicodedata"),
    ),
    # --- the definitions ------------------------------------------------------------------
    fault(
        "the definition counts overlapping pairs twice",
        DEFINITIONS,
        T_DEFINITIONS,
        ("free[pair] = i + 2", "free[pair] = i"),
        bug="B74",
    ),
    fault(
        "the definition of encoding takes the leftmost pair",
        DEFINITIONS,
        T_DEFINITIONS,
        ("i = int(np.argmin(ranks))", "i = int(np.argmax(np.isfinite(ranks)))"),
        bug="B70",
    ),
    fault(
        "the definition of training goes on without pairs",
        DEFINITIONS,
        T_DEFINITIONS,
        ("        if not total:\n            break\n", ""),
        bug="B72",
    ),
)
