"""What n-gram models refuse, and what they say. Run without the shape hook, which refuses first."""

import pytest

from attnlib.n_grams import NGramModel

MODEL = NGramModel.train(b"abracadabra", 2)
OF_TEXT = [MODEL.log_probabilities, MODEL.bits_per_byte, lambda text: NGramModel.train(text, 0)]


@pytest.mark.parametrize(
    "kind,says,order",
    [
        (ValueError, "order must be at least 0, got -1", -1),
        (ValueError, "order must be at most 7, got 8", 8),
        (TypeError, "order must be a whole number, got 2.0", 2.0),
        (TypeError, "order must be a whole number, got True", True),
        (TypeError, "order must be a whole number, got None", None),
        (TypeError, "order must be a whole number, got '2'", "2"),
        (ValueError, r"at least order \+ 1 bytes, got 4 and order=4", 4),
        (ValueError, r"at least order \+ 1 bytes, got 4 and order=7", 7),
    ],
)
def test_no_model_has_such_an_order(kind, says, order):
    with pytest.raises(kind, match=says):
        NGramModel.train(b"abab", order)


@pytest.mark.parametrize("given", [[97, 98], bytearray(b"ab"), memoryview(b"ab"), 7, None])
@pytest.mark.parametrize("call", OF_TEXT)
def test_what_is_no_text_is_refused(call, given):
    with pytest.raises(
        TypeError, match=f"text must be bytes or a string, got {type(given).__name__}"
    ):
        call(given)


@pytest.mark.parametrize("call", OF_TEXT)
def test_a_lone_surrogate_is_refused(call):
    with pytest.raises(ValueError, match=r"text must hold no lone surrogate, got .* at position 2"):
        call("ab\ud800")


def test_an_empty_text_has_nothing_to_count_and_no_mean():
    for empty in (b"", ""):
        with pytest.raises(ValueError, match=r"at least order \+ 1 bytes, got 0 and order=0"):
            NGramModel.train(empty, 0)
        with pytest.raises(ValueError, match="a mean needs at least 1 byte of text, got 0"):
            MODEL.bits_per_byte(empty)


def test_a_context_is_named_in_its_refusal():
    with pytest.raises(TypeError, match="context must be bytes or a string, got list"):
        MODEL.probabilities([97])
    with pytest.raises(ValueError, match="context must hold no lone surrogate"):
        MODEL.probabilities("\udc00")
    assert MODEL.probabilities("").shape == (256,)
