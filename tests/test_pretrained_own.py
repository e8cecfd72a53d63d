"""The book's own checkpoints are there, and are the models that their sizes say."""

import pytest

from attnlib import TRAINED, load_pretrained
from attnlib.pretrained import folder_of, is_installed


@pytest.mark.parametrize("name", TRAINED)
def test_the_books_own_models_come_with_the_package(name):
    ours = load_pretrained(name)
    assert is_installed(name) and folder_of(name).parts[-3:] == ("attnlib", "data", "models")
    assert sum(p.numel() for p in ours.model.parameters()) == TRAINED[name].n_parameters
    assert not ours.model.training
    assert (ours.source, ours.licence) == ("this book", "MIT")
    assert ours.tokenizer.vocab_size == TRAINED[name].vocabulary
