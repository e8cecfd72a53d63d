r"""A model from a file of named tensors.

Source   this book
Chapter  chapters/language-models.md
Axes     attnlib/axes.py
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from attnlib.models import Encoder, EncoderDecoder, LanguageModel
from attnlib.pretrained.names import bert_names, llama_names
from attnlib.pretrained.tensors import fitted, read_tensors
from attnlib.sizes import ModelSizes

__all__ = ["load_checkpoint", "load_encoder", "load_llama", "of_llama"]


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
    path = Path(path)
    tensors = read_tensors(path, sha256)
    model = _empty(Encoder, sizes)
    state = fitted(
        path,
        tensors,
        bert_names(sizes),
        model,
        name_of_model=sizes.name,
        kinds=(torch.float32,),
        # the numbers 0, 1, 2, …, which older versions of transformers wrote out
        passed_over=("embeddings.position_ids",),
    )
    return _filled(model, state)


def load_llama(path: str | Path, sizes: ModelSizes, *, sha256: str | None = None) -> LanguageModel:
    """Read a language model from a safetensors file with the names of transformers' Llama.

    Args:
        path: The file; its numbers may be bfloat16, float16 or float32.
        sizes: What it must hold.
        sha256: What the file's hash must be, in hexadecimal; None takes any.

    Returns:
        The model in eval mode, in float32, which holds every number of the file as it is.

    Raises:
        ImportError: If the library safetensors is missing.
        FileNotFoundError: If there is no such file.
        ValueError: If the hash is another, the file is damaged or no safetensors file, or a tensor
            is missing, not expected, or of another shape or kind of numbers.
    """
    path = Path(path)
    return of_llama(path, read_tensors(path, sha256), sizes)


def of_llama(path: Path, tensors: Mapping[str, Tensor], sizes: ModelSizes) -> LanguageModel:
    """Make a language model of the tensors of a Llama.

    Args:
        path: Where they come from, for the errors.
        tensors: With the names of transformers.
        sizes: What they must be.

    Raises:
        ValueError: If a tensor is missing, not expected, or of another shape or kind of numbers.
    """
    model = _empty(LanguageModel, sizes)
    state = fitted(
        path,
        tensors,
        llama_names(sizes),
        model,
        name_of_model=sizes.name,
        kinds=(torch.bfloat16, torch.float16, torch.float32),
    )
    return _filled(model, state)


def load_checkpoint(
    path: str | Path, sizes: ModelSizes, *, sha256: str | None = None
) -> Encoder | LanguageModel | EncoderDecoder:
    """Read a model that `save_checkpoint` wrote.

    Args:
        path: The file.
        sizes: What it must hold; they say which kind of model it is.
        sha256: What the file's hash must be, in hexadecimal; None takes any.

    Returns:
        The model in eval mode, in float32.

    Raises:
        ImportError: If the library safetensors is missing.
        FileNotFoundError: If there is no such file.
        ValueError: If the hash is another, the file is damaged or no safetensors file, or a tensor
            is missing, not expected, or of another shape or kind of numbers.
    """
    path = Path(path)
    tensors = read_tensors(path, sha256)
    model = _empty(_kind_of(sizes), sizes)
    names = {name: name for name, _ in model.named_parameters()}
    kinds = (torch.float32, torch.float16)
    state = fitted(path, tensors, names, model, name_of_model=sizes.name, kinds=kinds)
    return _filled(model, state)


def _kind_of(sizes: ModelSizes) -> type[nn.Module]:
    if sizes.n_encoder_layers:
        return EncoderDecoder
    return LanguageModel if sizes.causal else Encoder


def _empty(kind: type[nn.Module], sizes: ModelSizes) -> nn.Module:
    # all models here turn halves of a head, as transformers does
    turns = {} if sizes.rotary is None else {"pairing": "half"}
    with torch.device("meta"):  # no time and no random numbers for weights that are replaced
        return kind(sizes, **turns)


def _filled(model: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    model.load_state_dict(state, assign=True)
    return model.eval()
