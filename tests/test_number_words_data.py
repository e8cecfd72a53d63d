"""The stored number words are right, split as said, and made by a careful script.

Nothing here needs num2words or the network: the words are held to the rules of both languages.
"""

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

import make_data
import make_number_words
import train_number_words
from attnlib import NumberWordsTokenizer
from attnlib.data import number_words
from attnlib.pretrained import read_record
from attnlib.sizes import TRAINED
from fetching import DataError

DATA = Path(__file__).parents[1] / "attnlib" / "data"
SPLITS = ("train", "held-out", "examples")

WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
- - twenty thirty forty fifty sixty seventy eighty ninety
null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn
sechzehn siebzehn achtzehn neunzehn
- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig
"""
_ALL = WORDS.split()
ENGLISH, ENGLISH_TENS, GERMAN, GERMAN_TENS = _ALL[:20], _ALL[20:30], _ALL[30:50], _ALL[50:]


def in_english(n: int) -> str:
    """As the British say it: "and" before what is below a hundred, where more stands before."""
    if n >= 1000:
        rest = n % 1000
        joint = "" if rest == 0 else (" and " if rest < 100 else ", ")
        return f"{in_english(n // 1000)} thousand{joint}{in_english(rest) if rest else ''}"
    if n >= 100:
        return f"{ENGLISH[n // 100]} hundred" + (f" and {in_english(n % 100)}" if n % 100 else "")
    if n >= 20:
        return ENGLISH_TENS[n // 10] + (f"-{ENGLISH[n % 10]}" if n % 10 else "")
    return ENGLISH[n]


def in_german(n: int, *, at_the_end: bool = True) -> str:
    """All in one word, the ones before the tens, and "eins" only at the end of it."""
    if n >= 1000:
        rest = in_german(n % 1000) if n % 1000 else ""
        return f"{in_german(n // 1000, at_the_end=False)}tausend{rest}"
    if n >= 100:
        rest = in_german(n % 100, at_the_end=at_the_end) if n % 100 else ""
        return f"{GERMAN[n // 100]}hundert{rest}"
    if n >= 20:
        return (f"{GERMAN[n % 10]}und" if n % 10 else "") + GERMAN_TENS[n // 10]
    return "eins" if n == 1 and at_the_end else GERMAN[n]


@pytest.mark.parametrize("split", SPLITS)
def test_every_number_is_said_as_the_rules_of_both_languages_have_it(split):
    for n, english, german in number_words(split):
        assert (english, german) == (in_english(n), in_german(n))


def test_the_rules_say_what_a_person_would():
    assert in_german(101_101) == "einhunderteintausendeinhunderteins"
    assert in_german(21_021) == "einundzwanzigtausendeinundzwanzig"
    assert in_english(345_006) == "three hundred and forty-five thousand and six"
    assert in_english(1_234) == "one thousand, two hundred and thirty-four"


def test_no_number_that_is_held_out_is_trained_on_and_the_small_ones_are():
    train, held_out, examples = ({n for n, _, _ in number_words(split)} for split in SPLITS)
    assert (len(train), len(held_out), len(examples)) == (30_000, 1_000, 48)
    assert not train & held_out
    assert train | held_out >= {*range(1000), *range(1000, 1_000_000, 1000)}
    assert all(n < 1000 or n % 1000 == 0 for n in examples & train)
    assert not {1_234, 21_021, 345_678, 999_999} & train


def test_the_held_out_numbers_are_spread_evenly():
    held_out = [n for n, _, _ in number_words("held-out")]
    # Of 1,000 in tenths: 100 each, give or take √(1000 · 0.1 · 0.9) = 9.5; five of these.
    tenths = [sum(n // 100_000 == i for n in held_out) for i in range(10)]
    assert max(abs(count - 100) for count in tenths) < 48


def test_the_script_chooses_the_stored_numbers_in_order():
    chosen = make_number_words.numbers()
    for split in SPLITS:
        assert [n for n, _, _ in number_words(split)] == chosen[split] == sorted(chosen[split])


def test_the_files_are_those_of_the_checksums():
    sums = json.loads((DATA / "checksums.json").read_text("utf-8"))
    for split in SPLITS:
        path = f"number-words/{split}.txt.xz"
        assert hashlib.sha256((DATA / path).read_bytes()).hexdigest() == sums[path]


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="one of 'train', 'held-out', 'examples'; got 'test'"):
        number_words("test")


def test_what_num2words_says_wrong_is_corrected():
    line = "101000\tone hundred and one thousand\teinhunderteinstausend"
    assert make_number_words.corrected(line).endswith("\teinhunderteintausend")
    assert make_number_words.corrected("1\tone\teins") == "1\tone\teins"


def test_tokens_that_lose_something_are_refused():
    lines = [f"{n}\t{in_english(n)}\t{in_german(n)}\n" for n in (1, 21, 21_021)]
    assert make_number_words.refuse_what_tokens_lose(lines) == 3
    with pytest.raises(DataError, match="21: 'twenty one' are the words of a smaller number, too"):
        make_number_words.refuse_what_tokens_lose([lines[1], lines[1]])
    with pytest.raises(DataError, match="'Eins' does not come back from its tokens"):
        make_number_words.refuse_what_tokens_lose(["1\tone\tEins\n"])


def test_another_wheel_is_refused_before_anything_of_it_is_unpacked(tmp_path):
    wheel = tmp_path / "num2words-0.5.14-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as files:
        files.writestr("num2words/__init__.py", "raise SystemExit('it was run')")
    with pytest.raises(DataError, match="is not the archive this book was made from: its sha256"):
        make_number_words.make(print, wheel)


def test_the_provenance_states_the_source_and_the_hash():
    section = (DATA / "PROVENANCE.md").read_text("utf-8").partition("## Number words")[2]
    package, _, version = make_number_words.NUM2WORDS.partition("==")
    for stated in (f"`{package}`, version {version}", make_number_words.NUM2WORDS_SHA256, "LGPL"):
        assert stated in section


def test_every_script_of_the_data_makes_the_number_words_too(monkeypatch):
    assert make_data.make_number_words is make_number_words


# --- the checkpoint ---------------------------------------------------------------------------

CHECKPOINT = DATA / "models/number-words.safetensors"


def test_the_checkpoint_is_small_and_its_record_is_that_of_the_script():
    assert CHECKPOINT.stat().st_size <= 3_000_000
    record = read_record(CHECKPOINT)
    assert hashlib.sha256(CHECKPOINT.read_bytes()).hexdigest() == record["weights_sha256"]
    training = record["training"]
    for name, value in train_number_words.PLAN.items():
        assert training[name] == value
    assert training["seed"] == train_number_words.SEED
    assert training["batch_size"] == train_number_words.BATCH
    for name in ("losses", "rates", "gradient_norms"):
        assert len(training[name]) == training["n_steps"]


def test_the_record_says_what_was_promised():
    training = read_record(CHECKPOINT)["training"]
    assert training["n_held_out"] == 1_000
    assert training["exact_match"] >= 0.995
    assert training["token_accuracy"] >= training["exact_match"]
    assert training["seconds"] <= 120
    # It begins worse than what knows nothing, ln 94 = 4.54 nats: with one matrix for input and
    # output, a model whose layers add nothing yet repeats what it reads.
    assert training["losses"][0] > 4.54
    assert max(training["losses"][-50:]) < 0.05


def test_the_sizes_of_the_translator_are_those_of_its_tokens():
    sizes = TRAINED["number-words"]
    assert sizes.vocabulary == NumberWordsTokenizer().vocab_size
    assert sizes.n_parameters < 600_000


def test_a_training_that_differs_from_its_record_is_told():
    good = {"losses": [4.5, 0.1], "exact_match": 0.999}
    assert train_number_words.differences(good, good) == []
    near = {**good, "losses": [4.5009, 0.1]}
    assert train_number_words.differences(near, good) == []
    far = {**good, "losses": [4.5, 0.1011]}
    assert train_number_words.differences(far, good) == [
        "a loss differs by 0.0011 from that on record"
    ]
    broken = {**good, "losses": [4.5, float("nan")]}
    assert "differs by nan" in train_number_words.differences(broken, good)[0]
    short = {**good, "losses": [4.5]}
    assert train_number_words.differences(short, good) == ["1 steps, on record are 2"]
    poor = {**good, "exact_match": 0.99}
    assert train_number_words.differences(poor, good) == [
        "only 99.0% of the held-out numbers are right"
    ]
