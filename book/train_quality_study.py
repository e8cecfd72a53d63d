"""Train one small language model with six kinds of attention: attnlib/data/studies/quality.json.

    python book/train_quality_study.py            train all, measure, write the record
    python book/train_quality_study.py --check    repeat the first steps of every kind of attention;
                                                  fail when a loss is another than that on record

Multi-head attention, grouped-query attention with four and with two key/value heads, multi-query
attention, and latents of two ranks that take the cache of the latter two, three seeds each: within
an hour on two cores, two models at a time, each on one thread. All read the same tokens; a seed
draws the same batches, in the same order, for all of them. What attention saves in parameters its
feed-forward networks get, so that totals differ by less than one of their inner rows in each layer.
The settings are those of `train_shakespeare.py`, but for fewer steps and less dropout; none was
chosen by the held-out plays, and none for one kind of attention.
"""

import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

import train_shakespeare
from attnlib.data import shakespeare
from attnlib.files import written_whole
from attnlib.models import LanguageModel
from attnlib.pretrained import load_pretrained
from attnlib.sizes import TRAINED, AttentionSizes, LatentAttentionSizes, ModelSizes
from attnlib.tokenizer import BytePairTokenizer
from attnlib.training import train
from command_line import DATA, parser_of, say
from losses import loss_differences
from train_shakespeare import StopTraining, measured, next_token_loss, parts, windows

TARGET = DATA / "studies/quality.json"

SEEDS = (0, 1, 2)
N_PROCESSES = 2
BATCH, DROPOUT = 16, 0.05
PLAN = train_shakespeare.PLAN | {"n_steps": 400, "n_warm_up": 40}
EVALUATED = (100, 200, PLAN["n_steps"])
N_CHECKED = 20

N_HEADS, HEAD_WIDTH = 8, 16


def shared(n_kv_heads: int) -> AttentionSizes:
    return AttentionSizes(
        n_query_heads=N_HEADS, n_kv_heads=n_kv_heads, head_dim=HEAD_WIDTH, value_dim=HEAD_WIDTH
    )


def latent(rank: int, rope_dim: int) -> LatentAttentionSizes:
    return LatentAttentionSizes(
        n_query_heads=N_HEADS,
        query_latent=64,
        kv_latent=rank,
        nope_dim=HEAD_WIDTH,
        rope_dim=rope_dim,
        value_dim=HEAD_WIDTH,
    )


ATTENTION = {
    "MHA": shared(8),
    "GQA, 4 heads": shared(4),
    "GQA, 2 heads": shared(2),
    "MQA": shared(1),
    "MLA, rank 48": latent(48, 16),
    "MLA, rank 24": latent(24, 8),
}
BASE = replace(
    TRAINED["shakespeare"],
    name="Quality study",
    source="this book, chapters/latent-attention.md",
    n_layers=3,
    width=N_HEADS * HEAD_WIDTH,
    context=128,
    attention=ATTENTION["MHA"],
    feed_forward_width=320,
)


def sizes_with(attention: AttentionSizes | LatentAttentionSizes) -> ModelSizes:
    """The model with this attention, its feed-forward width such that the total is nearest."""
    with_it = replace(BASE, attention=attention)
    an_inner_row = 3 * BASE.width * BASE.n_layers
    more = round((BASE.n_parameters - with_it.n_parameters) / an_inner_row)
    return replace(with_it, feed_forward_width=BASE.feed_forward_width + more)


def cache_bytes_a_token(model: LanguageModel) -> int:
    """What a cache holds for one token more, all layers together, in this model's float32."""
    held = []
    for n_tokens in (1, 2):
        kept = model.new_cache(capacity=n_tokens)
        with torch.no_grad():
            model(torch.zeros(1, n_tokens, dtype=torch.int64), cache=kept)
        held.append(kept.nbytes)
    return held[1] - held[0]


@cache
def texts() -> tuple[BytePairTokenizer, torch.Tensor, str]:
    """The tokenizer, the tokens to train on, and the validation text: once for a process."""
    tokenizer = load_pretrained("shakespeare").tokenizer
    fit, validation = parts()
    return tokenizer, torch.tensor(tokenizer.encode(fit)), validation


def trained(name: str, seed: int, n_checked: int | None = None) -> dict:
    """Train one model and tell all about it; with `n_checked`, only so many losses."""
    torch.set_num_threads(1)
    tokenizer, ids, validation = texts()
    sizes = sizes_with(ATTENTION[name])
    model = LanguageModel(sizes, pairing="half", dropout=DROPOUT)
    model.reset_parameters(generator=torch.Generator().manual_seed(seed))
    batches: Iterator = windows(
        ids, sizes.context + 1, BATCH, torch.Generator().manual_seed(1_000 + seed)
    )
    losses, curve = [], []

    def on_step(step: int, loss: float) -> None:
        losses.append(loss)
        if step == n_checked:
            raise StopTraining
        if step in EVALUATED and n_checked is None:
            curve.append({"step": step, "validation": bits(model, tokenizer, validation)})

    started = time.process_time()
    with suppress(StopTraining):
        train(model, next_token_loss, batches, **PLAN, seed=seed, on_step=on_step, progress=False)
    first = [round(loss, 5) for loss in losses[:N_CHECKED]]
    run = {"attention": name, "seed": seed, "first_losses": first}
    if n_checked is None:
        held_out = bits(model, tokenizer, shakespeare("held-out"))
        seconds = time.process_time() - started
        say(f"{name}, seed {seed}: {held_out} bits per byte; {seconds:.0f} s; {time.ctime()}")
        run |= {
            "held_out": held_out,
            "n_parameters": sizes.n_parameters,
            "feed_forward_width": sizes.feed_forward_width,
            "cache_bytes_a_token": cache_bytes_a_token(model.eval()),
            "last_loss": round(sum(losses[-20:]) / 20, 5),
            "curve": curve,
            "cpu_seconds": round(seconds, 1),
        }
    return run


def bits(model: LanguageModel, tokenizer: BytePairTokenizer, text: str) -> float:
    """Bits per byte of a text, in windows that do not overlap."""
    return round(measured(model, tokenizer, text, stride=model.sizes.context), 5)


def all_of(calls: list[tuple]) -> list[dict]:
    """These calls of `trained` in processes of their own, two at a time; results in order."""
    with multiprocessing.get_context("spawn").Pool(N_PROCESSES) as pool:
        return pool.starmap(trained, calls, chunksize=1)


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--to", type=Path, default=TARGET, metavar="FILE", help="[%(default)s]")
    options = parser.parse_args(arguments)

    if options.check:
        recorded = {
            (run["attention"], run["seed"]): run["first_losses"]
            for run in json.loads(options.to.read_text("utf-8"))["runs"]
        }
        found = all_of([(name, SEEDS[0], N_CHECKED) for name in ATTENTION])
        wrong = [
            f"{run['attention']}: {problem}"
            for run in found
            for problem in loss_differences(
                run["first_losses"], recorded[run["attention"], run["seed"]]
            )
        ]
        say("\n".join(wrong) or f"the first {N_CHECKED} losses of {len(found)} models as on record")
        return 1 if wrong else 0

    runs = all_of([(name, seed) for seed in SEEDS for name in ATTENTION])
    record = {
        "plan": PLAN | {"betas": list(PLAN["betas"])},
        "batch_size": BATCH,
        "dropout": DROPOUT,
        "n_context": BASE.context,
        "n_tokens_seen": PLAN["n_steps"] * BATCH * BASE.context,
        "n_bytes_held_out": len(shakespeare("held-out").encode()),
        "torch": torch.__version__,
        "cpu_seconds": round(sum(run["cpu_seconds"] for run in runs), 1),
        "runs": runs,
    }
    options.to.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(options.to) as target:
        target.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    seconds = record["cpu_seconds"]
    say(f"wrote {options.to.name}: {len(runs)} models, {seconds:,.0f} s of processor time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
