"""What is handed to a judge in place of a function is refused in words for the reader."""

import pytest

from attnlib import exercises


def test_a_number_in_place_of_a_function_is_refused():
    with pytest.raises(exercises.Mistake, match="hand over the function itself, got float") as told:
        exercises.check("entropy", 1.0)
    assert "entropy(p) → the entropy in nats" in str(told.value)


@pytest.mark.parametrize("name", [["softmax"], {}, None, 3])
def test_a_name_that_is_no_text_is_answered_with_the_names(name):
    with pytest.raises(ValueError, match=r"there is no exercise .*: softmax, kernel"):
        exercises.check(name, len)
