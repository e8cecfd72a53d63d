"""Names that are no strings are refused like unknown ones, with those that exist."""

import pytest

from attnlib.data import declaration, plays, shakespeare


@pytest.mark.parametrize("name", [None, 7, ["en"], b"en"])
def test_a_language_that_is_no_string_is_refused(name):
    with pytest.raises(ValueError, match=r"language must be one of 'en', .*; got"):
        declaration(name)


@pytest.mark.parametrize("load", [shakespeare, plays])
@pytest.mark.parametrize("name", [3, ["train"], b"train"])
def test_a_split_that_is_no_string_is_refused(load, name):
    with pytest.raises(ValueError, match=r"split must be one of 'train', 'held-out'; got"):
        load(name)
