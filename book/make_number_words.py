"""Make the number words of attnlib/data, English and German, with num2words, byte for byte.

    python book/make_number_words.py                write what differs
    python book/make_number_words.py --check        write nothing; fail when anything differs
    python book/make_number_words.py --wheel FILE   use this copy of the wheel, if its hash is right
    python book/make_number_words.py --every        also try the tokens of every number (4 minutes)

num2words is unpacked into a folder that is gone afterwards, and run there in a process of its own;
nothing of it is installed or kept. `make_data.py` calls `make`.
"""

import hashlib
import lzma
import random
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from attnlib.number_words import NumberWordsTokenizer
from command_line import DATA, parser_of
from fetching import DataError, from_pypi, refuse_other_hash
from make_embeddings import write_or_compare

NUM2WORDS = "num2words==0.5.14"
NUM2WORDS_SHA256 = "1c8e5b00142fc2966fd8d685001e36c4a9911e070d1b120e1beb721fa1edb33d"

BOUND = 1_000_000
N_HELD_OUT, N_TRAIN = 1_000, 30_000
SEED = 5

# What the pictures show; those that are neither small nor whole thousands are not trained on.
EXAMPLES = (
    *(1, 7, 12, 13, 16, 17, 20, 21, 30, 32, 42, 57, 68, 76, 84, 99),
    *(100, 101, 112, 121, 200, 365, 542, 700, 999, 1000, 1001, 1066, 1200, 1234, 1789, 2024),
    *(7777, 10_000, 12_345, 21_000, 21_021, 42_042, 54_321, 65_536, 76_543, 99_999, 100_000),
    *(101_101, 123_456, 345_678, 654_321, 999_999),
)

SPEAK = """
import sys
from num2words import num2words
for line in sys.stdin:
    n = int(line)
    print(n, num2words(n), num2words(n, lang="de"), sep="\\t")
"""


def make(say: Callable[[str], None], wheel: Path | None = None) -> dict[str, bytes]:
    """The files of attnlib/data/number-words, by their path in attnlib/data.

    Args:
        wheel: A copy of the wheel; pip fetches it if it is None.
    """
    splits = numbers()
    with tempfile.TemporaryDirectory() as folder:
        package = unpacked(wheel, Path(folder), say)
        say(f"{sum(map(len, splits.values())):,} numbers in words, English and German")
        texts = {split: "".join(lines_of(package, chosen)) for split, chosen in splits.items()}
    return {
        f"number-words/{split}.txt.xz": lzma.compress(
            text.encode("utf-8"), preset=9 | lzma.PRESET_EXTREME
        )
        for split, text in texts.items()
    }


def numbers() -> dict[str, list[int]]:
    """Those held out, those to train on, and the examples; no number is in the first two.

    Held out are different ones drawn evenly from all below a million. To train on are the others
    below a thousand, the other whole thousands, and then others again, drawn evenly, but no more
    examples. Python states that `random()` gives the same in every version.
    """
    dice = random.Random(SEED)
    held_out: dict[int, None] = {}
    while len(held_out) < N_HELD_OUT:
        held_out[int(BOUND * dice.random())] = None
    train = {n: None for n in (*range(1000), *range(1000, BOUND, 1000)) if n not in held_out}
    while len(train) < N_TRAIN:
        n = int(BOUND * dice.random())
        if n not in held_out and n not in EXAMPLES:
            train[n] = None
    return {"held-out": sorted(held_out), "train": sorted(train), "examples": list(EXAMPLES)}


def unpacked(wheel: Path | None, folder: Path, say: Callable[[str], None]) -> Path:
    """A folder from which num2words can be imported; the hash of the wheel is checked first."""
    if wheel is None:
        say(f"fetching {NUM2WORDS} with pip")
        wheel = from_pypi(NUM2WORDS, NUM2WORDS_SHA256, folder, form="wheel")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    refuse_other_hash(wheel, "sha256", digest, NUM2WORDS_SHA256)
    with zipfile.ZipFile(wheel) as files:
        names = [name for name in files.namelist() if name.startswith("num2words/")]
        files.extractall(folder / "unpacked", names)
    return folder / "unpacked"


def lines_of(package: Path, wanted: Iterable[int]) -> Iterable[str]:
    """For each number a line: itself, its English words and its German word, tabs between them."""
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", SPEAK],
        input="".join(f"{n}\n" for n in wanted),
        capture_output=True,
        encoding="utf-8",
        cwd=package,
    )
    if done.returncode != 0:
        raise DataError(f"num2words failed:\n{done.stderr}")
    return [f"{corrected(line)}\n" for line in done.stdout.splitlines()]


def corrected(line: str) -> str:
    """German as it is written: "eins" stands at the end of a number only, before a thousand "ein".

    num2words 0.5.14 says "einhunderteinstausend" for 101 000.
    """
    return line.replace("einstausend", "eintausend")


def refuse_what_tokens_lose(lines: Iterable[str]) -> int:
    """Fail unless German comes back from its tokens, and no English is that of two numbers."""
    tokenizer = NumberWordsTokenizer()
    seen = set()
    for line in lines:
        n, english, german = line.rstrip("\n").split("\t")
        if tokenizer.decode(tokenizer.encode_german(german)) != german:
            raise DataError(f"{n}: {german!r} does not come back from its tokens")
        words = " ".join(tokenizer.english_tokens(english))
        if words in seen:
            raise DataError(f"{n}: {words!r} are the words of a smaller number, too")
        seen.add(words)
    return len(seen)


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__, DATA)
    parser.add_argument("--wheel", type=Path, metavar="FILE", help=f"a copy of {NUM2WORDS}'s wheel")
    parser.add_argument("--every", action="store_true", help="try the tokens of every number")
    options = parser.parse_args(arguments)

    def every(say: Callable[[str], None]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            package = unpacked(options.wheel, Path(folder), say)
            n = refuse_what_tokens_lose(lines_of(package, range(BOUND)))
        say(f"the tokens of all {n:,} numbers say which number it is")

    def made(say: Callable[[str], None]) -> dict[str, bytes]:
        if options.every:
            every(say)
        return make(say, options.wheel)

    return write_or_compare(made, options, "The number words")


if __name__ == "__main__":
    sys.exit(main())
