"""A model whose embeddings are not there is refused by name.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import re

import pytest

from attnlib.data import pretrained_embeddings


@pytest.mark.parametrize("name", ["MiniLM", "../minilm", "smollm", "", None, ["minilm"]])
def test_an_unknown_model_is_refused_with_the_ones_that_exist(name):
    says = f"name must be one of 'minilm', 'smollm2'; got {name!r}"
    with pytest.raises(ValueError, match=re.escape(says)):
        pretrained_embeddings(name)
