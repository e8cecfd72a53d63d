"""Train the book's translator of number words: attnlib/data/models/number-words.safetensors.

    python book/train_number_words.py            train, measure, write the weights and the record
    python book/train_number_words.py --check    train again; fail when the losses or the quality
                                                 are others than those on record

It takes about a minute on one core, and uses one only: on matrices as small as these a second one
is of little use, and sums are then added in one order whatever the number of cores. Versions of
torch and kinds of processors still differ, so the bytes are those of one machine; the same script
with the same seed comes within 1e-3 of its losses on machines of the same kind.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

from attnlib.data import number_words
from attnlib.models import EncoderDecoder
from attnlib.number_words import batches, exact_match, token_accuracy, translation_loss
from attnlib.pretrained import read_record, save_checkpoint
from attnlib.sizes import TRAINED
from attnlib.training import train
from command_line import DATA, parser_of, say
from losses import loss_differences

TARGET = DATA / "models/number-words.safetensors"

SEED = 0
# "zero" stands in one number, and "eins" begins one: so the smallest ones are read more often.
N_TIMES = 20
N_STEPS, BATCH = 1_000, 64
PLAN = {
    "n_steps": N_STEPS,
    "peak_rate": 4e-3,
    "n_warm_up": 100,
    "floor": 0.02,
    "weight_decay": 0.01,
}
WANTED_EXACT_MATCH = 0.995


def trained(say: Callable[[str], None]) -> tuple[EncoderDecoder, dict]:
    """The model, and what its record says."""
    torch.set_num_threads(1)
    held_out, pairs = number_words("held-out"), number_words("train")
    repeated = (N_TIMES - 1) * [pair for pair in pairs if pair[0] < 100]
    generator = torch.Generator().manual_seed(SEED)
    model = EncoderDecoder(TRAINED["number-words"])
    model.reset_parameters(generator=generator)
    say(f"training {model.sizes.n_parameters:,} parameters on {len(pairs):,} pairs")

    def on_step(step: int, loss: float) -> None:
        if step % 200 == 0:
            say(f"step {step:,} of {N_STEPS:,}: loss {loss:.4f} nats")

    started = time.process_time()
    record = train(
        model,
        translation_loss,
        batches(pairs + repeated, BATCH, generator),
        **PLAN,
        on_step=on_step,
        progress=False,
    )
    cpu_seconds = time.process_time() - started
    about = {
        **asdict(record),
        **PLAN,
        "losses": [round(loss, 5) for loss in record.losses],
        "rates": [float(f"{rate:.4g}") for rate in record.rates],
        "gradient_norms": [round(norm, 4) for norm in record.gradient_norms],
        "seconds": round(record.seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        "n_threads": torch.get_num_threads(),
        "seed": SEED,
        "batch_size": BATCH,
        "n_pairs": len(pairs),
        "n_times_below_100": N_TIMES,
        "n_held_out": len(held_out),
        "exact_match": exact_match(model, held_out),
        "token_accuracy": token_accuracy(model, held_out),
        "torch": torch.__version__,
    }
    say(
        f"{about['seconds']} s, {about['cpu_seconds']} s of processors; held out: "
        f"{about['exact_match']:.1%} letter for letter, "
        f"{about['token_accuracy']:.3%} of the pieces under teacher forcing"
    )
    return model, about


def differences(found: dict, recorded: dict) -> list[str]:
    """One sentence for each thing that is not as recorded."""
    wrong = loss_differences(found["losses"], recorded["losses"])
    if len(found["losses"]) != len(recorded["losses"]):
        wrong.append(f"{len(found['losses'])} steps, on record are {len(recorded['losses'])}")
    if found["exact_match"] < WANTED_EXACT_MATCH:
        wrong.append(f"only {found['exact_match']:.1%} of the held-out numbers are right")
    return wrong


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--to", type=Path, default=TARGET, metavar="FILE", help="[%(default)s]")
    options = parser.parse_args(arguments)

    recorded = read_record(options.to)["training"] if options.check else None
    model, about = trained(say)
    wrong = differences(about, recorded or about)
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        return 1
    if options.check:
        say("as on record")
        return 0
    options.to.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(model, options.to, training=about)
    say(f"wrote {options.to.name} ({options.to.stat().st_size:,} bytes) and its record")
    return 0


if __name__ == "__main__":
    sys.exit(main())
