"""The book's own checkpoints are there, and are the models that their sizes say."""

import re
from pathlib import Path

import pytest

from attnlib import TRAINED, load_pretrained
from attnlib.pretrained import SOURCES, folder_of, is_installed

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("name", TRAINED)
def test_the_books_own_models_come_with_the_package(name):
    ours = load_pretrained(name)
    assert is_installed(name) and folder_of(name).parts[-3:] == ("attnlib", "data", "models")
    assert sum(p.numel() for p in ours.model.parameters()) == TRAINED[name].n_parameters
    assert not ours.model.training
    assert (ours.source, ours.licence) == ("this book", "MIT")
    assert ours.tokenizer.vocab_size == TRAINED[name].vocabulary


def test_the_licence_of_the_books_own_files_is_said_where_a_reader_looks_for_it():
    provenance = (ROOT / "attnlib" / "data" / "PROVENANCE.md").read_text(encoding="utf-8")
    sections = provenance.split("\n## ")
    for name in TRAINED:
        (section,) = (part for part in sections if f"`models/{name}.safetensors`" in part)
        (why,) = re.findall(r"Why it may be used\*\*:(.*?)\n- \*\*", section, re.DOTALL)
        assert f"the {SOURCES[name].licence} licence" in " ".join(why.split())
    first, mit = (ROOT / "LICENSE").read_text(encoding="utf-8").split("\nMIT License\n")
    said = " ".join(first.split())
    assert "attnlib/data/models/" in said and "are licensed under the MIT License" in said
    assert mit.lstrip().startswith("Copyright")


def test_every_file_of_the_books_own_models_is_named_in_their_provenance():
    provenance = (ROOT / "attnlib" / "data" / "PROVENANCE.md").read_text(encoding="utf-8")
    files = sorted(path.name for path in (ROOT / "attnlib" / "data" / "models").iterdir())
    assert files and files == sorted(set(re.findall(r"`models/([^`]+)`", provenance)))
