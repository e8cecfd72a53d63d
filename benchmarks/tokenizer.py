"""BytePairTokenizer beside tiktoken and tokenizers, in one process: python benchmarks/tokenizer.py

Both are written in Rust; the budgets are for Python alone. Every number is the median of several
runs, in seconds of one core (of all cores for what runs on several, as training in tokenizers
does), so that other work on the machine counts little. With --check the command fails when a budget
is missed. Tokenizers are made anew for each run, so that nothing is known of a text beforehand,
except where a line says "again".
"""

import argparse
import random
import sys
import time
from collections.abc import Callable
from statistics import median

import tiktoken
import tokenizers

from attnlib import BytePairTokenizer
from attnlib.data import shakespeare

RUNS = 5
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


def seconds(run: Callable, prepare: Callable = lambda: None) -> float:
    """The median time that run(prepare()) keeps a core busy."""
    taken = []
    for _ in range(RUNS):
        prepared = prepare()
        start = time.process_time()
        run(prepared)
        taken.append(time.process_time() - start)
    return median(taken)


def different_words(n_bytes: int) -> str:
    """Words of a few letters, no two the same."""
    rng, words, size = random.Random(0), {}, 0
    while size < n_bytes:
        word = "".join(rng.choices("etaoinshrdlucmfw", k=rng.randint(4, 9)))
        size += 0 if word in words else len(word) + 1
        words[word] = None
    return " ".join(words)


def in_tiktoken(tokenizer: BytePairTokenizer) -> tiktoken.Encoding:
    special = tokenizer.special_tokens
    ranks = {t: i for i, t in tokenizer.tokens.items() if i not in special.values()}
    return tiktoken.Encoding("gpt-2", pat_str=GPT2, mergeable_ranks=ranks, special_tokens=special)


def train_in_tokenizers(text: str) -> tokenizers.Tokenizer:
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=4096, initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator([text], trainer)
    return trained


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail when a budget is missed")
    check = parser.parse_args().check
    missed = []

    def tell(what: str, value: float, unit: str, budget: float, most: bool, peer: str) -> None:
        kept = value <= budget if most else value >= budget
        sign = "≤" if most else "≥"
        print(f"{what:46} {value:8.2f} {unit:5} {sign} {budget:4g}  {peer}", flush=True)
        if not kept:
            missed.append(what)

    text = shakespeare("train")
    ours = seconds(lambda _: BytePairTokenizer.train(text, 4096))
    peer = seconds(lambda _: train_in_tokenizers(text))
    tell("training to 4,096 tokens", ours, "s", 4, True, f"tokenizers {peer:.2f} s")
    ours = seconds(lambda _: BytePairTokenizer.train(text[:200_000], 1024, pattern=None))
    tell("the same on 200 kB without pre-tokens, to 1,024", ours, "s", 4, True, "")

    for name in ("gpt-2", "cl100k", "smollm2"):
        ours = seconds(lambda _, name=name: BytePairTokenizer.published(name))
        tell(f"loading {name}", ours, "s", 1, True, "")

    def trained() -> BytePairTokenizer:
        return small.with_merges(len(small.merges))

    small = BytePairTokenizer.train(text, 4096)
    gpt2 = BytePairTokenizer.published("gpt-2")
    rust = in_tiktoken(gpt2)
    rare = different_words(1_000_000)
    for what, sample, budget in (("running text", text, 4), ("all words different", rare, 0.9)):
        megabytes = len(sample.encode()) / 1e6
        peer = megabytes / seconds(lambda _, sample=sample: rust.encode(sample))
        compared = f"tiktoken {peer:.1f} MB/s"
        rate = megabytes / seconds(lambda t, sample=sample: t.encode(sample), trained)
        tell(f"encoding {what}, our 4,096", rate, "MB/s", budget, False, compared)
        fresh = seconds(
            lambda t, sample=sample: t.encode(sample), lambda: BytePairTokenizer.published("gpt-2")
        )
        tell(f"encoding {what}, gpt-2", megabytes / fresh, "MB/s", budget, False, compared)
    gpt2.encode(text)
    rate = len(text.encode()) / 1e6 / seconds(lambda _: gpt2.encode(text))
    tell("encoding running text again, gpt-2", rate, "MB/s", 4, False, "")

    for what, piece in (("of one letter", "a" * 100_000), ("of words", text[:100_000])):
        piece = "".join(filter(str.isalpha, piece)).ljust(100_000, "e")
        rate = seconds(lambda _, piece=piece: gpt2.encode(piece))
        peer = seconds(lambda _, piece=piece: rust.encode(piece))
        tell(f"one 100 kB pre-token {what}, gpt-2", rate, "s", 1, True, f"tiktoken {peer:.3f} s")

    ids = gpt2.encode(text)
    rate = len(text.encode()) / 1e6 / seconds(lambda _: gpt2.decode(ids))
    tell("decoding", rate, "MB/s", 4, False, "")
    if missed:
        print(f"over budget: {', '.join(missed)}")
    return 1 if check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
