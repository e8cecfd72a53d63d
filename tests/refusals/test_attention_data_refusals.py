"""A model whose attention is not there is refused by name.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import re

import pytest

from attnlib.data import pretrained_attention


@pytest.mark.parametrize("name", ["MiniLM", "../minilm", "smollm2", "", None, ["minilm"]])
def test_an_unknown_model_is_refused_with_the_one_that_exists(name):
    says = f"name must be one of 'minilm'; got {name!r}"
    with pytest.raises(ValueError, match=re.escape(says)):
        pretrained_attention(name)
