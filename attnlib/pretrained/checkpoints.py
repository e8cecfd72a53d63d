r"""The book's own checkpoints: the weights of a model, and a record of how they were made.

Source   this book
Chapter  chapters/language-models.md
Axes     attnlib/axes.py

A checkpoint is two files: `name.safetensors` holds the parameters under the names that they have
in the model, and `name.json` the SHA-256 of that file and the record of the training.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnlib.files import read, written_whole
from attnlib.pretrained.tensors import library

__all__ = ["read_record", "save_checkpoint"]

KINDS = (torch.float32, torch.float16)


def save_checkpoint(
    model: nn.Module,
    path: str | Path,
    *,
    training: Mapping[str, Any] | None = None,
    dtype: torch.dtype = torch.float32,
) -> str:
    """Write a model's parameters, and beside them the record of its training.

    Each of the two files is written whole or not at all, and both are there before either takes its
    name. The same parameters make the same bytes.

    Args:
        model: Whose parameters; one that is used in two places is written once.
        path: The file with the weights; its name ends in ".safetensors".
        training: What is to be known of the training: numbers, texts, and lists of them.
        dtype: torch.float32, or torch.float16 for half the size, each number rounded once.

    Returns:
        The SHA-256 of the weights' file, in hexadecimal.

    Raises:
        ImportError: If the library safetensors is missing.
        FileNotFoundError: If there is no such folder.
        TypeError: If the model is no module, or the record cannot stand in JSON.
        ValueError: If the path ends otherwise, the kind of numbers is another, or a parameter or a
            number of the record is not finite.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "small.safetensors")
        ...     sha256 = save_checkpoint(nn.Linear(3, 2), path, training={"n_steps": 7})
        ...     read_record(path)["training"], read_record(path)["weights_sha256"] == sha256
        ({'n_steps': 7}, True)
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"path must end in .safetensors, got {path.name}")
    if dtype not in KINDS:
        raise ValueError(f"dtype must be torch.float32 or torch.float16, got {dtype}")
    tensors = {
        name: p.detach().to("cpu", dtype).contiguous() for name, p in model.named_parameters()
    }
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"every parameter must be finite in {dtype}, and {name} is not")
    content = library().torch.save(tensors)
    sha256 = hashlib.sha256(content).hexdigest()
    record = {"name": path.stem, "weights_sha256": sha256, "training": dict(training or {})}
    text = json.dumps(record, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    with written_whole(path) as weights, written_whole(path.with_suffix(".json")) as beside:
        weights.write_bytes(content)
        beside.write_text(text, encoding="utf-8")
    return sha256


def read_record(path: str | Path) -> dict[str, Any]:
    """Read the record beside a checkpoint.

    Args:
        path: The file with the weights, or the record itself.

    Returns:
        "name", "weights_sha256" and "training".

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is not one that `save_checkpoint` wrote.
    """
    path = Path(path).with_suffix(".json")
    try:
        record = json.loads(read(path))
        name, sha256, training = record["name"], record["weights_sha256"], record["training"]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise ValueError(
            f"{path} must be the record of a checkpoint, with name, weights_sha256 and training: "
            f"{type(error).__name__}: {error}"
        ) from None
    if not (isinstance(name, str) and isinstance(sha256, str) and isinstance(training, dict)):
        raise ValueError(f"{path} must be the record of a checkpoint: its entries are other ones")
    return {"name": name, "weights_sha256": sha256, "training": training}
