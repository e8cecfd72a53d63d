r"""GGUF, the file format of llama.cpp: its few bits a weight become float32, once.

Source   this book; the format is that of the library gguf
Chapter  chapters/language-models.md
Axes     attnlib/axes.py

The numbers of a GGUF are packed: in its type Q4_1, 32 weights of a row share a step a and a least
value b, both in float16, and each weight is a·q + b with q from 0 to 15. In float32 the product is
exact (11 bits times 4) and the sum is rounded at most once; float16 and bfloat16 would round both.
So the conversion has four bytes a weight. It is a safetensors file with the names that transformers
gives.

llama.cpp turns neighbouring coordinates of queries and keys against each other, transformers those
that are half a head apart; so the rows of both stand in another order, which is undone here.
"""

import shutil
import warnings
from pathlib import Path

import torch
from einops import rearrange
from torch import Tensor

from attnlib.files import (
    cache_folder,
    require_file,
    require_hash,
    sha256_of,
    written_whole,
)
from attnlib.pretrained.build import of_llama
from attnlib.pretrained.names import gguf_names
from attnlib.pretrained.tensors import digest, library, mapped
from attnlib.sizes import ModelSizes

__all__ = ["conversion_of", "converted", "kept_for_user", "read_gguf"]

_FORMAT = "attnlib conversion 1"


def converted(path: Path, sizes: ModelSizes, *, sha256: str | None = None) -> dict[str, Tensor]:
    """The tensors of a GGUF in float32, from its conversion, which is made where there is none.

    The conversion stands beside the source, or in the user's cache folder where nothing can be
    written there. It appears whole or not at all, and one that was damaged is made again. Of a file
    that does not hold this model nothing is written.

    Args:
        path: The GGUF.
        sizes: Of the model in it.
        sha256: What its hash must be, in hexadecimal; None takes any.

    Returns:
        The tensors with the names that transformers gives to those of a Llama.

    Raises:
        ImportError: If the library safetensors is missing, or gguf where there is no conversion.
        FileNotFoundError: If there is no such file.
        ValueError: If the hash is another, or the file is damaged or holds another model.
    """
    library()
    found = sha256_of(path)
    if sha256 is not None:
        require_hash(path, found, sha256, path.stat().st_size)
    for place in _places(path, found):
        try:
            return conversion_of(found, place)
        except (OSError, ValueError):
            continue  # it is made anew below, and takes the place of a damaged one
    tensors = read_gguf(path, sizes)
    of_llama(path, tensors, sizes)  # refuses other shapes before half a gigabyte of them is kept
    _keep(tensors, path, found)
    return tensors


def conversion_of(sha256: str, place: Path) -> dict[str, Tensor]:
    """Read a conversion that was made before.

    Args:
        sha256: The hash of the GGUF that it was made of, in hexadecimal.
        place: The file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, or one of something else.
    """
    tensors, notes = mapped(place)
    if (notes.get("format"), notes.get("source_sha256")) != (_FORMAT, sha256):
        raise ValueError(f"{place} must be the conversion of a GGUF of SHA-256 {sha256}")
    if notes.get("tensors_sha256") != digest(tensors):
        raise ValueError(
            f"{place} must hold the numbers that were written, got damaged ones: delete it"
        )
    return tensors


def kept_for_user(name: str, sha256: str) -> Path | None:
    """Where the user's cache folder has a conversion, whose source may be gone; None if nowhere.

    Args:
        name: The file name of the source.
        sha256: Its hash, in hexadecimal.
    """
    place = cache_folder() / _name(Path(name), sha256)
    return place if place.is_file() else None


def read_gguf(path: Path, sizes: ModelSizes) -> dict[str, Tensor]:
    """Unpack a Llama from a GGUF.

    Args:
        path: The file.
        sizes: Of the model in it.

    Returns:
        Tensors in float32 with the names that transformers gives.

    Raises:
        ImportError: If the library gguf is missing.
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged, no GGUF, or holds another model.
    """
    require_file(path)
    try:
        import gguf
    except ImportError:
        raise ImportError(
            "a GGUF is converted with the library gguf, which is not installed: pip install gguf"
        ) from None
    with open(path, "rb") as file:
        if file.read(4) != b"GGUF":
            raise ValueError(f"{path} must be a GGUF, got a file of another kind")
    try:
        packed = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    # a file that is damaged fails wherever the damage leads
    except Exception as error:
        raise ValueError(
            f"{path} must be a whole GGUF, got one that is damaged or cut short "
            f"({type(error).__name__}: {error})"
        ) from None
    names = gguf_names(sizes)
    missing = sorted(set(names.values()) - set(packed))
    more = sorted(set(packed) - set(names.values()))
    if missing or more:
        raise ValueError(
            f"{path} must hold the tensors of {sizes.name}, got {len(missing)} missing and "
            f"{len(more)} not expected: {', '.join((missing + more)[:3])}"
        )
    tensors = {}
    for ours, theirs in names.items():
        try:
            numbers = gguf.dequantize(packed[theirs].data, packed[theirs].tensor_type)
        except (NotImplementedError, ValueError) as error:
            raise ValueError(f"{theirs} of {path} cannot be unpacked: {error}") from None
        tensors[ours] = _in_halves(path, ours, torch.tensor(numbers, dtype=torch.float32), sizes)
    return tensors


def _in_halves(path: Path, name: str, weight: Tensor, sizes: ModelSizes) -> Tensor:
    """Coordinate i of a head turns against i + d/2, as it was before llama.cpp reordered them."""
    heads = {
        "q_proj": sizes.attention.n_query_heads,
        "k_proj": sizes.attention.n_kv_heads,
    }.get(name.split(".")[-2])
    if heads is None:
        return weight
    d = sizes.attention.head_dim
    if weight.ndim != 2 or weight.shape[0] != heads * d:
        raise ValueError(
            f"{name} must be a matrix of h·d={heads * d} rows, got shape {tuple(weight.shape)} in "
            f"{path}"
        )
    return rearrange(weight, "(h pair side) m -> (h side pair) m", h=heads, side=2).contiguous()


def _name(path: Path, sha256: str) -> str:
    return f"{path.stem}.{sha256[:16]}.safetensors"


def _places(path: Path, sha256: str) -> tuple[Path, Path]:
    # beside the file itself, if the path is a link to it
    name = _name(path, sha256)
    return path.resolve().with_name(name), cache_folder() / name


def _keep(tensors: dict[str, Tensor], path: Path, sha256: str) -> None:
    """Write the conversion to the first place that takes it."""
    places = _places(path, sha256)
    notes = {"format": _FORMAT, "source_sha256": sha256, "tensors_sha256": digest(tensors)}
    reasons = []
    for place, is_ours in zip(places, (False, True), strict=True):
        try:
            if is_ours:
                place.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(place) as beside:
                library().torch.save_file(tensors, beside, metadata=notes)
                shutil.copymode(path, beside)  # who may read the source may read this
            return
        # the library has its own error for a full disk; a ValueError says that a folder is there
        except (OSError, ValueError, library().SafetensorError) as error:
            reasons.append(str(error))
    warnings.warn(
        f"the conversion could be kept neither at {places[0]} ({reasons[0]}) nor at {places[1]} "
        f"({reasons[1]}): it will be made again the next time",
        stacklevel=2,
    )
