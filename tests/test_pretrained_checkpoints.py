"""The book's own checkpoints: what is saved is what is loaded, and the record belongs to it."""

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from attnlib import AttentionSizes, BytePairTokenizer, load_pretrained
from attnlib.models import EncoderDecoder, LanguageModel
from attnlib.number_words import NumberWordsTokenizer
from attnlib.pretrained import SOURCES, load_checkpoint, read_record, save_checkpoint
from attnlib.sizes import TRAINED

# A learned and a turned position, tied and untied, one stack and two: as the book's own models.
HEADS = AttentionSizes(n_query_heads=6, n_kv_heads=2, head_dim=4, value_dim=4)
TOKENIZER = BytePairTokenizer.train("to be or not to be", 260, special_tokens=["<|endoftext|>"])
OTHER = BytePairTokenizer.train("banana banana", 260, special_tokens=["<|endoftext|>"])
LANGUAGE = replace(
    TRAINED["shakespeare"],
    name="a small language model",
    n_layers=2,
    width=14,
    attention=HEADS,
    feed_forward_width=10,
    vocabulary=TOKENIZER.vocab_size,
    context=9,
)
PAIRS = replace(
    TRAINED["number-words"],
    name="a small translator",
    n_layers=2,
    n_encoder_layers=1,
    width=14,
    attention=replace(HEADS, n_kv_heads=6),
    feed_forward_width=10,
    vocabulary=NumberWordsTokenizer().vocab_size,
)
TOKENS = torch.tensor([[3, 7, 5, 2, 8]])


def random(kind, sizes):
    """A model whose every parameter is random, those of norms too."""
    turns = {} if sizes.rotary is None else {"pairing": "half"}
    model, generator = kind(sizes, **turns), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


CASES = [(LanguageModel, LANGUAGE), (EncoderDecoder, PAIRS)]


def outputs(model):
    with torch.no_grad():
        return model(TOKENS, TOKENS[:, :3]) if isinstance(model, EncoderDecoder) else model(TOKENS)


@pytest.mark.parametrize("kind,sizes", CASES)
@pytest.mark.parametrize("tied", [True, False])
def test_what_is_saved_is_what_is_loaded(tmp_path, kind, sizes, tied):
    sizes = replace(sizes, tied_embeddings=tied)
    model = random(kind, sizes)
    sha256 = save_checkpoint(model, tmp_path / "small.safetensors")
    again = load_checkpoint(tmp_path / "small.safetensors", sizes, sha256=sha256)
    assert type(again) is kind and not again.training
    for (name, ours), (other, theirs) in zip(
        model.named_parameters(), again.named_parameters(), strict=True
    ):
        assert name == other and torch.equal(ours, theirs) and theirs.requires_grad
    assert torch.equal(outputs(model), outputs(again))
    stored = safetensors.torch.load_file(tmp_path / "small.safetensors")
    # a matrix in two places is written once
    assert sum(x.numel() for x in stored.values()) == sizes.n_parameters


def test_loading_draws_no_random_numbers(tmp_path):
    save_checkpoint(random(LanguageModel, LANGUAGE), tmp_path / "small.safetensors")
    before = torch.get_rng_state()
    load_checkpoint(tmp_path / "small.safetensors", LANGUAGE)
    assert torch.equal(torch.get_rng_state(), before)


def test_half_precision_on_disk_is_each_number_rounded_once(tmp_path):
    model = random(LanguageModel, LANGUAGE)
    save_checkpoint(model, tmp_path / "half.safetensors", dtype=torch.float16)
    half = load_checkpoint(tmp_path / "half.safetensors", LANGUAGE)
    for ours, theirs in zip(model.parameters(), half.parameters(), strict=True):
        assert theirs.dtype == torch.float32
        assert torch.equal(ours.half().float(), theirs)
    save_checkpoint(model, tmp_path / "whole.safetensors")
    for name, n_bytes in (("half", 2), ("whole", 4)):
        stored = safetensors.torch.load_file(tmp_path / f"{name}.safetensors").values()
        assert sum(x.nbytes for x in stored) == n_bytes * LANGUAGE.n_parameters


def test_the_same_parameters_make_the_same_bytes(tmp_path):
    for name in ("first", "second"):
        save_checkpoint(random(EncoderDecoder, PAIRS), tmp_path / f"{name}.safetensors")
    first, second = ((tmp_path / f"{n}.safetensors").read_bytes() for n in ("first", "second"))
    assert first == second


def test_the_record_beside_it_has_its_hash_and_the_training(tmp_path):
    path = tmp_path / "small.safetensors"
    training = {"losses": [2.5, 1.25], "seconds": 7, "machine": "ein Rechner"}
    sha256 = save_checkpoint(random(LanguageModel, LANGUAGE), path, training=training)
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    wanted = {"name": "small", "weights_sha256": sha256, "training": training}
    assert read_record(path) == read_record(tmp_path / "small.json") == wanted
    assert json.loads((tmp_path / "small.json").read_bytes()) == wanted


def test_a_training_that_goes_on_after_saving_does_not_change_the_file(tmp_path):
    path, model = tmp_path / "small.safetensors", random(LanguageModel, LANGUAGE)
    sha256 = save_checkpoint(model, path)
    with torch.no_grad():
        next(model.parameters()).zero_()
    assert load_checkpoint(path, LANGUAGE, sha256=sha256)


def test_a_link_stays_and_what_it_names_is_written_and_one_to_itself_is_replaced(tmp_path):
    path, link, loop = (tmp_path / f"{n}.safetensors" for n in ("small", "link", "loop"))
    link.symlink_to(path)
    loop.symlink_to(loop)
    save_checkpoint(random(LanguageModel, LANGUAGE), link)
    assert link.is_symlink() and not path.is_symlink()
    save_checkpoint(random(LanguageModel, LANGUAGE), loop)
    assert path.read_bytes() == loop.read_bytes()


@pytest.mark.parametrize("breaks", ["weights", "record"])
def test_what_breaks_off_leaves_the_old_files(tmp_path, monkeypatch, breaks):
    path, model = tmp_path / "small.safetensors", random(LanguageModel, LANGUAGE)
    save_checkpoint(model, path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with torch.no_grad():
        next(model.parameters()).zero_()
    training = {}
    if breaks == "weights":
        really = Path.write_bytes

        def full(path, content):
            really(path, content[:9])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("pathlib.Path.write_bytes", full)
        error = OSError
    else:
        training, error = {"loss": float("nan")}, ValueError
    with pytest.raises(error):
        save_checkpoint(model, path, training=training)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_parameter_that_half_precision_cannot_hold_is_refused(tmp_path):
    model = random(LanguageModel, LANGUAGE)
    with torch.no_grad():
        next(model.parameters()).fill_(1e5)
    with pytest.raises(ValueError, match=r"must be finite in torch\.float16, and .*weight is not"):
        save_checkpoint(model, tmp_path / "small.safetensors", dtype=torch.float16)
    assert os.listdir(tmp_path) == []


# --- by name ----------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Small models in place of the book's own, in a folder in place of the package's."""
    monkeypatch.setattr("attnlib.pretrained._OWN_MODELS", tmp_path)
    for name, kind, sizes in (
        ("shakespeare", LanguageModel, LANGUAGE),
        ("number-words", EncoderDecoder, PAIRS),
    ):
        monkeypatch.setitem(SOURCES, name, replace(SOURCES[name], sizes=sizes))
        save_checkpoint(random(kind, sizes), tmp_path / f"{name}.safetensors")
    path = tmp_path / "shakespeare-tokenizer.json"
    TOKENIZER.save(path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    known = replace(SOURCES["shakespeare"], tokenizer_sha256=sha256)
    monkeypatch.setitem(SOURCES, "shakespeare", known)
    return tmp_path


def test_the_language_model_writes_after_a_text_and_stops_at_its_end(own):
    ours = load_pretrained("shakespeare")
    assert torch.equal(outputs(ours.model), outputs(random(LanguageModel, LANGUAGE)))
    assert ours.encode("to be") == TOKENIZER.encode("to be")
    assert ours.decode(ours.encode("to be")) == "to be"
    assert ours.stop_ids == (TOKENIZER.special_tokens["<|endoftext|>"],)


def test_rows_of_a_language_model_end_with_their_last_token(own):
    ours = load_pretrained("shakespeare")
    tokens, is_token = ours.batch(["to", "or not", "be"])
    rows = [ours.encode(text) for text in ("to", "or not", "be")]
    t = max(map(len, rows))
    assert len({len(row) for row in rows}) > 1
    assert tokens.tolist() == [[0] * (t - len(row)) + row for row in rows]
    assert is_token.tolist() == [[False] * (t - len(row)) + [True] * len(row) for row in rows]
    with torch.no_grad():
        together = ours.model(tokens, is_token=is_token)[0, -1]
        alone = ours.model(torch.tensor([rows[0]]))[0, -1]
    # a sum of 14 numbers of size one, rounded otherwise
    torch.testing.assert_close(together, alone, rtol=0, atol=1e3 * 2**-24)


def test_a_text_without_a_token_has_no_row(own):
    with pytest.raises(ValueError, match="every text of a batch must have a token, got ''"):
        load_pretrained("shakespeare").batch(["to be", ""])


def test_the_translator_reads_english_and_writes_german(own):
    ours, tokenizer = load_pretrained("number-words"), NumberWordsTokenizer()
    assert ours.encode("twenty-one") == tokenizer.encode_english("twenty-one")
    assert ours.decode(tokenizer.encode_german("einundzwanzig")) == "einundzwanzig"
    assert ours.stop_ids == (tokenizer.end,)
    tokens, is_token = ours.batch(["one", "twenty-one"])
    assert tokens[0].tolist() == [*tokenizer.encode_english("one"), tokenizer.pad]
    assert is_token.tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize("where", [".", "shakespeare.safetensors"])
def test_a_model_trained_anew_is_loaded_by_its_path(own, tmp_path, where):
    model = random(LanguageModel, LANGUAGE)
    with torch.no_grad():
        next(model.parameters()).zero_()
    folder = tmp_path / "anew"
    folder.mkdir()
    save_checkpoint(model, folder / "shakespeare.safetensors")
    again = load_pretrained("shakespeare", path=folder / where)
    assert torch.equal(outputs(again.model), outputs(model))
    # its own tokenizer, if one stands beside it
    OTHER.save(folder / "shakespeare-tokenizer.json")
    assert load_pretrained("shakespeare", path=folder / where).tokenizer.merges == OTHER.merges


def test_a_tokenizer_that_is_not_the_one_of_the_training_is_refused(own):
    path = own / "shakespeare-tokenizer.json"
    OTHER.save(path)
    with pytest.raises(ValueError, match=r"tokenizer\.json must be the published file"):
        load_pretrained("shakespeare")
    assert load_pretrained("shakespeare", verify=False).tokenizer.merges == OTHER.merges
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"a file shakespeare-tokenizer\.json in"):
        load_pretrained("shakespeare", verify=False)


def test_a_tokenizer_of_another_number_of_tokens_is_refused(own, tmp_path):
    folder = tmp_path / "anew"
    folder.mkdir()
    save_checkpoint(random(LanguageModel, LANGUAGE), folder / "shakespeare.safetensors")
    BytePairTokenizer.train("ha ha", 257).save(folder / "shakespeare-tokenizer.json")
    v = LANGUAGE.vocabulary
    with pytest.raises(ValueError, match=rf"hold a tokenizer of v={v} tokens, got 257"):
        load_pretrained("shakespeare", path=folder, verify=False)


@pytest.mark.parametrize("name", ["shakespeare", "number-words"])
def test_weights_that_are_not_those_of_the_record_are_refused(own, name):
    path = own / f"{name}.safetensors"
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="must be the published file, with SHA-256"):
        load_pretrained(name)
    assert load_pretrained(name, verify=False).name == name


@pytest.mark.parametrize(
    "content", ["", "[]", '{"name": "x"}', '{"name": 1, "weights_sha256": "", "training": {}}', "{"]
)
def test_a_record_that_is_none_is_refused(own, content):
    (own / "shakespeare.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"shakespeare\.json must be the record of a checkpoint"):
        load_pretrained("shakespeare")


@pytest.mark.parametrize("ending", ["safetensors", "json"])
def test_a_checkpoint_of_which_a_file_is_missing_is_refused(own, ending):
    (own / f"number-words.{ending}").unlink()
    with pytest.raises(FileNotFoundError, match=rf"a file .*number-words\.{ending}"):
        load_pretrained("number-words")


def test_a_checkpoint_of_other_sizes_is_refused(own, monkeypatch):
    larger = replace(LANGUAGE, n_layers=3)
    monkeypatch.setitem(SOURCES, "shakespeare", replace(SOURCES["shakespeare"], sizes=larger))
    with pytest.raises(ValueError, match=r"of a small language model: .* missing, none not"):
        load_pretrained("shakespeare")
