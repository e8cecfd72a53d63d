r"""Named tensors: read from a safetensors file, held against a model, and put into it.

Source   this book; the file format is that of the library safetensors
Chapter  chapters/language-models.md
Axes     attnlib/axes.py

A safetensors file is a length, a header in JSON, then the numbers. It holds no program.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from attnlib.files import read, require_file

__all__ = ["digest", "fitted", "library", "mapped", "read_tensors"]

# The library passes what torch cannot hold: a kind of numbers (KeyError), an empty tensor that is
# longer than 63 bits can say along another axis (RuntimeError, TypeError).
_REFUSED_BY_TORCH = (KeyError, RuntimeError, TypeError)


def library():
    """The library safetensors, loaded when it is used.

    Raises:
        ImportError: If it is missing.
    """
    try:
        import safetensors.torch
    except ImportError:
        raise ImportError(
            "real weights are read with the library safetensors, which is not installed: "
            "pip install safetensors"
        ) from None
    return safetensors


def read_tensors(path: Path, sha256: str | None = None) -> dict[str, Tensor]:
    """Read all tensors of a file; they do not change with it.

    Args:
        path: The file.
        sha256: What the file's hash must be, in hexadecimal; None takes any.

    Raises:
        ImportError: If the library safetensors is missing.
        FileNotFoundError: If there is no such file.
        ValueError: If the hash is another, or the file is damaged or no safetensors file.
    """
    safetensors = library()
    content = read(path, sha256)
    try:
        return safetensors.torch.load(content)
    except (*_REFUSED_BY_TORCH, safetensors.SafetensorError) as error:
        raise _damaged(path, error) from None


def mapped(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file, read from it as they are used, and its notes.

    This is for files that this package alone writes, and only ever replaces as a whole. What is
    written into such a tensor stays in memory and never comes into the file.

    Raises:
        ImportError: If the library safetensors is missing.
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged or no safetensors file.
    """
    safetensors = library()
    require_file(path)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            notes = dict(file.metadata() or {})
            return {name: file.get_tensor(name) for name in file.keys()}, notes  # noqa: SIM118
    except (*_REFUSED_BY_TORCH, safetensors.SafetensorError) as error:
        raise _damaged(path, error) from None


def digest(tensors: Mapping[str, Tensor]) -> str:
    """One SHA-256 of all names, kinds, shapes and numbers, whatever their order.

    Example:
        >>> a, b = torch.ones(2), torch.zeros(3)
        >>> digest({"a": a, "b": b}) == digest({"b": b, "a": a}) != digest({"a": b, "b": a})
        True
    """
    found = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(memoryview(tensor.reshape(-1).view(torch.uint8).numpy()))
    return found.hexdigest()


def fitted(
    path: Path,
    tensors: Mapping[str, Tensor],
    names: Mapping[str, str],
    model: nn.Module,
    *,
    name_of_model: str,
    kinds: Collection[torch.dtype],
    passed_over: Collection[str] = (),
) -> dict[str, Tensor]:
    """The tensors under our names and in float32, after all of them were found to fit.

    Args:
        path: Where they come from, for the errors.
        tensors: What was found there.
        names: What each parameter of the model is called there.
        model: Which they must fit.
        name_of_model: For the errors.
        kinds: The kinds of numbers that may be there.
        passed_over: Names that may be there and are not used.

    Raises:
        ValueError: If a tensor is missing, not expected, or of another shape or kind of numbers.
    """
    found = set(tensors) - set(passed_over)
    missing, more = sorted(set(names.values()) - found), sorted(found - set(names.values()))
    if missing or more:
        raise ValueError(
            f"{path} must hold the tensors of {name_of_model}: "
            f"{_some(missing)} missing, {_some(more)} not expected"
        )
    for ours, theirs in names.items():
        shape, tensor = model.get_parameter(ours).shape, tensors[theirs]
        if tensor.shape != shape or tensor.dtype not in kinds:
            allowed = " or ".join(str(kind).removeprefix("torch.") for kind in kinds)
            raise ValueError(
                f"{theirs} must be {allowed} of shape {tuple(shape)} for {name_of_model}, "
                f"got {tensor.dtype} of shape {tuple(tensor.shape)} in {path}"
            )
    return {ours: tensors[theirs].float() for ours, theirs in names.items()}


def _damaged(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"{path} must be a whole safetensors file, got one that is damaged, cut short or of "
        f"another kind ({error})"
    )


def _some(names: Sequence[str]) -> str:
    if not names:
        return "none"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
