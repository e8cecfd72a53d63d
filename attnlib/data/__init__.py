"""Small real texts (the Declaration of Human Rights, nine plays), and numbers of real models.

They ship with the package, so a notebook needs no download. PROVENANCE.md, beside this
module, says where each comes from, why it may be used and how it is rebuilt.
"""

import json
import lzma
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

__all__ = [
    "attention_step_timings",
    "declaration",
    "declaration_languages",
    "generation_timings",
    "number_words",
    "plays",
    "pretrained_attention",
    "pretrained_embeddings",
    "quality_study",
    "shakespeare",
    "training_record",
    "vocabulary",
]

_HERE = files(__name__)
_CONTENTS = json.loads(_HERE.joinpath("contents.json").read_text(encoding="utf-8"))
_SPLITS = ("train", "held-out")


def declaration(language: str = "en") -> str:
    """The Universal Declaration of Human Rights in one language, by its BCP 47 code.

    Blocks are set apart by one blank line: the title, the preamble, then the thirty
    articles, each under its heading. Every paragraph is one line.

    >>> blocks = declaration("nl").split("\\n\\n")
    >>> len(blocks)
    32
    >>> print(blocks[4])
    Artikel 3
    Een ieder heeft het recht op leven, vrijheid en onschendbaarheid van zijn persoon.
    """
    _require("language", language, _CONTENTS["declaration"])
    return _read("declaration", language)


def declaration_languages() -> dict[str, str]:
    """The codes that `declaration` knows, each with its language and script in English.

    >>> declaration_languages()["hy"]
    'Armenian (Armenian script)'
    """
    return {code: entry["language"] for code, entry in _CONTENTS["declaration"].items()}


def shakespeare(split: str = "train") -> str:
    """The plays of one split, one after the other, a blank line between two plays.

    "train" is for fitting, "held-out" for evaluation. Whole plays are held out, and no
    play is in both, so a low loss on "held-out" cannot come from having read it.

    >>> shakespeare("held-out")[:31]
    'MACBETH\\n\\nby William Shakespeare'
    """
    _require("split", split, _SPLITS)
    return "\n".join(plays(split).values())


def plays(split: str | None = None) -> dict[str, str]:
    """The text of each play by its short name; of one split, or of both when None.

    >>> list(plays("held-out"))
    ['macbeth', 'the-comedy-of-errors']
    """
    if split is not None:
        _require("split", split, _SPLITS)
    return {
        name: _read("shakespeare", name)
        for name, entry in _CONTENTS["shakespeare"].items()
        if split in (None, entry["split"])
    }


def vocabulary(name: str) -> bytes:
    """The JSON of a published tokenizer, for `BytePairTokenizer.published` to read.

    >>> vocabulary("gpt-2")[:42]
    b'{"format":"attnlib byte-pair tokenizer 1",'
    """
    _require("vocabulary", name, _CONTENTS["vocabularies"])
    return lzma.decompress(_HERE.joinpath("vocabularies", f"{name}.json.xz").read_bytes())


def number_words(split: str = "train") -> list[tuple[int, str, str]]:
    """Numbers below a million in words: each with its English and its German ones.

    "held-out" are 1,000 drawn evenly, of which none is in "train": the others below a thousand,
    the other whole thousands, and others drawn evenly, 30,000 together. "examples" are 48 that
    the book's pictures show; from 1,000 on only the whole thousands of them are in "train". All
    are in order.

    >>> number_words("train")[21]
    (21, 'twenty-one', 'einundzwanzig')
    """
    _require("split", split, (*_SPLITS, "examples"))
    content = _HERE.joinpath("number-words", f"{split}.txt.xz").read_bytes()
    lines = lzma.decompress(content).decode("utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return [(int(n), english, german) for n, english, german in rows]


def training_record(name: str) -> dict:
    """How one of the book's own models was trained: settings, losses, seconds, results.

    What its script in `book/` wrote down when it made the weights: "number-words", the
    translator, or "shakespeare", the language model. Losses are in nats a token.

    >>> training_record("number-words")["n_held_out"]
    1000
    """
    _require("name", name, ("number-words", "shakespeare"))
    record = _HERE.joinpath("models", f"{name}.json").read_text(encoding="utf-8")
    return json.loads(record)["training"]


def generation_timings() -> dict[str, Path]:
    """Where the stored timings of generation lie, one file a device, for `load_timings` to read.

    Small models generated with a cache and anew; `book/measure_generation.py` timed them.

    >>> generation_timings()["cpu"].name
    'generation-cpu.json'
    """
    folder = Path(str(_HERE.joinpath("timings")))
    paths = sorted(folder.glob("generation-*.json"))
    return {path.stem.removeprefix("generation-"): path for path in paths}


def attention_step_timings() -> dict[tuple[int, int], Path]:
    """Where the stored times of one step of attention lie, by threads and by the latent's width.

    For `load_timings` to read. Layers of one width with many, few and one key/value heads and with
    a latent, beside another library; `benchmarks/attention_steps.py` timed them.

    >>> attention_step_timings()[2, 512].name
    'attention-steps-cpu-2-512.json'
    """
    paths = Path(str(_HERE.joinpath("timings"))).glob("attention-steps-cpu-*.json")
    return {tuple(map(int, path.stem.split("-")[-2:])): path for path in sorted(paths)}


def quality_study() -> dict:
    """What a small language model gains or loses by another attention: one entry for each run.

    `book/train_quality_study.py` trained it with six kinds of attention and three seeds each.
    "held_out" and the "validation" of a curve are in bits per byte.

    >>> study = quality_study()
    >>> len(study["runs"]), study["runs"][0]["attention"]
    (18, 'MHA')
    """
    record = _HERE.joinpath("studies", "quality.json").read_text(encoding="utf-8")
    return json.loads(record)


def pretrained_embeddings(name: str = "minilm"):
    """Word embeddings that a published model learned: rows of some words, facts about all rows.

    "minilm" is the sentence encoder all-MiniLM-L6-v2, "smollm2" the language model
    SmolLM2-135M-Instruct. See `attnlib.data.vectors` for what is in it.

    >>> minilm = pretrained_embeddings("minilm")
    >>> len(minilm.words), minilm.words[:5], minilm.vectors.shape
    (1440, ('the', 'of', 'and', 'in', 'to'), (1440, 384))
    """
    _require("name", name, ("minilm", "smollm2"))
    from attnlib.data import vectors  # numpy is loaded when it is used

    return vectors.load(name)


def pretrained_attention(name: str = "minilm"):
    """What the attention heads of a published model do, and the weights of its first layer.

    "minilm" is the sentence encoder all-MiniLM-L6-v2: 6 layers of 12 heads of width 32. See
    `attnlib.data.attention_of_models` for what is in it.

    >>> minilm = pretrained_attention("minilm")
    >>> minilm.weights.shape, minilm.tokens[:5]
    ((6, 12, 24, 24), ('[CLS]', 'but', 'soft', '!', 'what'))
    """
    _require("name", name, ("minilm",))
    from attnlib.data import attention_of_models  # numpy is loaded when it is used

    return attention_of_models.load(name)


def _require(what: str, name: str, known: Iterable[str]) -> None:
    known = tuple(known)
    # a list or an array is no name either, and some of those cannot be compared
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, known))}; got {name!r}")


def _read(folder: str, name: str) -> str:
    return _HERE.joinpath(folder, f"{name}.txt").read_text(encoding="utf-8")
