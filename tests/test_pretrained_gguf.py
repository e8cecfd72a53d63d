"""A GGUF becomes float32 once, exactly and whole; no file here is a real one.

What SmolLM2's own weights do is in test_pretrained_of_transformers.py.
"""

import hashlib
import os
import re
import stat
import struct
import sys
import threading
from dataclasses import replace

import gguf
import numpy as np
import pytest
import safetensors.torch
import torch

from attnlib import PUBLISHED, AttentionSizes
from attnlib.pretrained import gguf_files
from attnlib.pretrained.build import of_llama
from attnlib.pretrained.gguf_files import conversion_of, converted, kept_for_user, read_gguf
from attnlib.pretrained.names import gguf_names

# Q4_1 packs 32 weights of a row, so the rows' widths m, h·e and the inner one are such multiples.
H, G, D, M, INNER, V, LAYERS = 6, 2, 16, 64, 32, 19, 2
SIZES = replace(
    PUBLISHED["smollm2-135m"],
    name="a small Llama",
    source="made up for a test",
    n_layers=LAYERS,
    width=M,
    attention=AttentionSizes(n_query_heads=H, n_kv_heads=G, head_dim=D, value_dim=D),
    feed_forward_width=INNER,
    vocabulary=V,
)
Q4_1, Q8_0, F32 = (gguf.GGMLQuantizationType[name] for name in ("Q4_1", "Q8_0", "F32"))
HEADS = {"q_proj": H, "k_proj": G}


def shape_of(name):
    return {
        "embed_tokens": (V, M),
        "q_proj": (H * D, M),
        "k_proj": (G * D, M),
        "v_proj": (G * D, M),
        "o_proj": (M, H * D),
        "gate_proj": (INNER, M),
        "up_proj": (INNER, M),
        "down_proj": (M, INNER),
    }.get(name.split(".")[-2], (M,))


def reordered(rows, n_heads):
    """What llama.cpp does to queries and keys: row i of a head's first half, then of its second."""
    order = [
        head * D + side * (D // 2) + i
        for head in range(n_heads)
        for i in range(D // 2)
        for side in range(2)
    ]
    return rows[order]


def weights(seed=0):
    """Those of the model, by the names of transformers, in the order of transformers."""
    generator = np.random.default_rng(seed)
    return {
        name: generator.standard_normal(shape_of(name)).astype(np.float32)
        for name in gguf_names(SIZES)
    }


def write_gguf(path, tensors, kinds=None):
    """As llama.cpp would write it: matrices in Q4_1, the embedding in Q8_0, norms in F32."""
    writer = gguf.GGUFWriter(path, "llama")
    for name, tensor in tensors.items():
        part = name.split(".")[-2]
        kind = F32 if tensor.ndim == 1 else Q8_0 if part == "embed_tokens" else Q4_1
        kind = (kinds or {}).get(name, kind)
        rows = reordered(tensor, HEADS[part]) if part in HEADS else tensor
        packed = gguf.quantize(rows, kind)
        writer.add_tensor(gguf_names(SIZES)[name], packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "attnlib"


@pytest.fixture
def source(tmp_path, cache):
    folder = tmp_path / "a-package"
    folder.mkdir()
    return write_gguf(folder / "small.Q4_1.gguf", weights())


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def conversions(folder):
    return sorted(folder.glob("*.safetensors"))


# --- the numbers ------------------------------------------------------------------------------


def test_four_bits_a_weight_are_unpacked_by_the_formula(source):
    """32 weights: a step and a least value in float16, then 16 bytes of two numbers q each."""
    name = "model.layers.1.mlp.up_proj.weight"
    found = read_gguf(source, SIZES)[name]
    (packed,) = (t for t in gguf.GGUFReader(source).tensors if t.name == gguf_names(SIZES)[name])
    for row in range(INNER):
        for block in range(M // 32):
            content = packed.data[row].tobytes()[20 * block : 20 * (block + 1)]
            step, least = struct.unpack("<ee", content[:4])
            q = [byte & 15 for byte in content[4:]] + [byte >> 4 for byte in content[4:]]
            wanted = torch.tensor([step * i + least for i in q], dtype=torch.float32)
            assert torch.equal(found[row, 32 * block : 32 * (block + 1)], wanted)


def test_each_weight_is_at_most_one_step_of_its_block_from_what_was_packed(source):
    for name, tensor in read_gguf(source, SIZES).items():
        original = torch.from_numpy(weights()[name])
        assert tensor.dtype == torch.float32 and tensor.shape == original.shape
        if original.ndim == 1:
            assert torch.equal(tensor, original)
            continue
        blocks = original.reshape(-1, 32)
        # half a step of 1/15 of the range, or of 1/127 of the largest; float16 moves step and least
        # value by 2⁻¹¹ of themselves
        steps = (blocks.amax(1) - blocks.amin(1)) / 15 / 2 + blocks.abs().amax(1) * 2**-9
        assert ((tensor.reshape(-1, 32) - blocks).abs().amax(1) <= steps).all()


def test_rows_of_queries_and_keys_come_back_into_the_order_of_halves(tmp_path):
    """Row i of every head holds the number i: after the round trip it still does."""
    tensors = weights()
    for name in tensors:
        heads = HEADS.get(name.split(".")[-2])
        if heads:
            rows = np.arange(heads * D, dtype=np.float32)[:, None]
            tensors[name] = np.repeat(rows, M, axis=1)
    found = read_gguf(write_gguf(tmp_path / "rows.gguf", tensors), SIZES)
    for layer in range(LAYERS):
        for name, heads in HEADS.items():
            weight = found[f"model.layers.{layer}.self_attn.{name}.weight"]
            assert weight[:, 0].tolist() == list(range(heads * D))


def test_the_names_mean_what_they_mean_in_a_llama(source):
    """Down of silu of gate times up; and each norm before its own sub-layer."""
    tensors = read_gguf(source, SIZES)
    block = of_llama(source, tensors, SIZES).decoder.blocks[1]
    gate, up, down = (
        tensors[f"model.layers.1.mlp.{part}_proj.weight"] for part in ("gate", "up", "down")
    )
    x = torch.randn(1, 3, M, generator=torch.Generator().manual_seed(0))
    wanted = (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T
    # sums of 64, then of 32 products, the sizes of which are below 10³
    torch.testing.assert_close(block.feed_forward(x), wanted, rtol=0, atol=1e3 * 96 * 2**-24)
    for ours, theirs in (
        (block.attention_norm, "input_layernorm"),
        (block.feed_forward_norm, "post_attention_layernorm"),
        (block.attention.value, "self_attn.v_proj"),
    ):
        assert torch.equal(ours.weight, tensors[f"model.layers.1.{theirs}.weight"])


# --- the conversion ---------------------------------------------------------------------------


def test_the_conversion_is_made_once_beside_the_source_and_holds_every_bit(source, monkeypatch):
    wanted = read_gguf(source, SIZES)
    first = converted(source, SIZES)
    (kept,) = conversions(source.parent)
    assert kept.name == f"small.Q4_1.{sha256(source)[:16]}.safetensors"
    monkeypatch.setattr(gguf_files, "read_gguf", None)  # a second conversion would call it
    second = converted(source, SIZES, sha256=sha256(source))
    stored = safetensors.torch.load_file(kept)
    assert set(first) == set(second) == set(stored) == set(wanted)
    for name, tensor in wanted.items():
        for found in (first, second, stored):
            assert torch.equal(found[name], tensor) and found[name].dtype == torch.float32
    assert {p.name for p in source.parent.iterdir()} == {source.name, kept.name}


def test_who_may_read_the_source_may_read_the_conversion(source):
    source.chmod(0o644)
    converted(source, SIZES)
    (kept,) = conversions(source.parent)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o644


def test_another_source_of_the_same_name_gets_a_conversion_of_its_own(source):
    converted(source, SIZES)
    write_gguf(source, weights(seed=1))
    found = converted(source, SIZES)
    assert torch.equal(found["model.norm.weight"], read_gguf(source, SIZES)["model.norm.weight"])
    assert len(conversions(source.parent)) == 2


@pytest.mark.parametrize("damage", ["cut short", "empty", "one bit", "another file"])
def test_a_damaged_conversion_is_made_again(source, damage):
    converted(source, SIZES)
    (kept,) = conversions(source.parent)
    whole = kept.read_bytes()
    wanted = read_gguf(source, SIZES)
    if damage == "one bit":
        changed = bytearray(whole)
        changed[-2] ^= 1
        kept.write_bytes(changed)
    elif damage == "another file":
        safetensors.torch.save_file({"x": torch.ones(2)}, kept)
    else:
        kept.write_bytes(whole[:-4] if damage == "cut short" else b"")
    found = converted(source, SIZES)
    again = conversion_of(sha256(source), kept)
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor) and torch.equal(again[name], tensor)
    assert {p.name for p in source.parent.iterdir()} == {source.name, kept.name}


def test_training_on_does_not_change_the_conversion(source):
    converted(source, SIZES)  # what is made is in memory; what is read below lies on the file
    (kept,) = conversions(source.parent)
    before = kept.read_bytes()
    model = of_llama(source, converted(source, SIZES), SIZES)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert kept.read_bytes() == before


def test_beside_the_file_that_a_link_names_is_its_conversion(source, tmp_path):
    link = tmp_path / "a link.gguf"
    link.symlink_to(source)
    converted(link, SIZES)
    assert conversions(tmp_path) == [] and len(conversions(source.parent)) == 1


def test_a_conversion_of_another_source_is_not_taken_for_this_one(source):
    other = write_gguf(source.with_name("other.gguf"), weights(seed=1))
    converted(other, SIZES)
    (kept,) = conversions(source.parent)
    place = source.with_name(f"small.Q4_1.{sha256(source)[:16]}.safetensors")
    kept.rename(place)
    found = converted(source, SIZES)
    assert torch.equal(found["model.norm.weight"], read_gguf(source, SIZES)["model.norm.weight"])


def refuse_to_write_in(folder, monkeypatch):
    """The tests may run as root, whom no permission stops."""
    really = gguf_files.written_whole

    def written_whole(path):
        if path.parent == folder:
            raise PermissionError(13, "Permission denied", str(path))
        return really(path)

    monkeypatch.setattr(gguf_files, "written_whole", written_whole)


def test_where_the_folder_is_read_only_the_users_cache_folder_has_it(source, cache, monkeypatch):
    refuse_to_write_in(source.parent, monkeypatch)
    assert kept_for_user(source.name, sha256(source)) is None
    converted(source, SIZES)
    assert conversions(source.parent) == []
    (kept,) = conversions(cache)
    assert kept_for_user(source.name, sha256(source)) == kept
    monkeypatch.setattr(gguf_files, "read_gguf", None)
    assert converted(source, SIZES)["model.norm.weight"].shape == (M,)


def test_where_nothing_can_be_kept_the_model_is_there_and_a_warning_says_so(
    source, cache, monkeypatch
):
    refuse_to_write_in(source.parent, monkeypatch)
    cache.parent.write_text("a file where the folder should be", encoding="utf-8")
    with pytest.warns(UserWarning, match="could be kept neither at .*Permission denied.* nor at"):
        found = converted(source, SIZES)
    assert torch.equal(found["model.norm.weight"], read_gguf(source, SIZES)["model.norm.weight"])
    assert conversions(source.parent) == []


def test_where_a_folder_has_its_name_the_users_cache_folder_has_it(source, cache):
    place = source.with_name(f"small.Q4_1.{sha256(source)[:16]}.safetensors")
    place.mkdir()
    converted(source, SIZES)
    assert place.is_dir() and len(conversions(cache)) == 1


def test_a_relative_cache_folder_is_passed_over(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for given, wanted in (
        ("somewhere", tmp_path / ".cache"),
        (str(tmp_path / "x"), tmp_path / "x"),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert gguf_files.cache_folder() == wanted / "attnlib"


def test_a_conversion_that_breaks_off_leaves_nothing(source, monkeypatch):
    def break_off(tensors, path, metadata):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(safetensors.torch, "save_file", break_off)
    with pytest.raises(KeyboardInterrupt):
        converted(source, SIZES)
    assert os.listdir(source.parent) == [source.name]


def test_a_full_disk_leaves_nothing_and_the_model_is_still_read(source, cache, monkeypatch):
    def full(tensors, path, metadata):
        path.write_bytes(b"half")
        raise safetensors.SafetensorError("No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        converted(source, SIZES)
    assert os.listdir(source.parent) == [source.name] and os.listdir(cache) == []


def test_several_converters_at_once_do_not_disturb_each_other(source):
    wanted, failed = read_gguf(source, SIZES), []

    def convert():
        found = converted(source, SIZES)
        if not all(torch.equal(found[name], tensor) for name, tensor in wanted.items()):
            failed.append("another number")

    threads = [threading.Thread(target=convert) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == [] and len(conversions(source.parent)) == 1
    assert len(os.listdir(source.parent)) == 2


# --- what is refused --------------------------------------------------------------------------


def refused(path, says, sizes=SIZES, **options):
    with pytest.raises(ValueError, match=says) as caught:
        converted(path, sizes, **options)
    assert path.name in str(caught.value)
    assert conversions(path.parent) == []


def test_another_hash_is_refused_before_anything_is_written(source):
    wrong = hashlib.sha256(b"").hexdigest()
    refused(source, f"with SHA-256 {wrong}, got {sha256(source)}", sha256=wrong)


@pytest.mark.parametrize("n_bytes", [4, 30, 2000, -40, -1000])
def test_a_gguf_that_was_cut_short_is_refused(source, n_bytes):
    source.write_bytes(source.read_bytes()[:n_bytes])
    refused(source, "must be a whole GGUF, got one that is damaged or cut short")


def test_a_file_of_another_kind_is_refused(source):
    for content in (b"", b"version: git-lfs\n", b"PK\x03\x04" + bytes(90)):
        source.write_bytes(content)
        refused(source, "must be a GGUF, got a file of another kind")


def test_the_tensors_of_another_model_are_refused(source):
    refused(source, r"9 missing and 0 not expected: blk\.2\.", replace(SIZES, n_layers=LAYERS + 1))
    refused(source, r"0 missing and 9 not expected: blk\.1\.", replace(SIZES, n_layers=1))


def test_queries_of_another_number_of_heads_are_refused(tmp_path, cache):
    name = "model.layers.0.self_attn.q_proj.weight"
    tensors = weights() | {name: np.ones((H * D, M), np.float32)}
    path = write_gguf(tmp_path / "small.gguf", tensors)
    more = replace(SIZES.attention, n_query_heads=H + G)
    with pytest.raises(ValueError, match=rf"h·d={(H + G) * D} rows, got shape \({H * D}, {M}\)"):
        converted(path, replace(SIZES, attention=more))
    assert conversions(tmp_path) == []


@pytest.mark.parametrize(
    "part,shape",
    [
        ("embed_tokens", (V + 1, M)),
        ("up_proj", (M, INNER)),
        ("input_layernorm", (2 * M,)),
        ("q_proj", (H * D,)),
        ("k_proj", (G * D, 2 * M)),
    ],
)
def test_tensors_of_another_shape_are_refused_before_anything_is_written(
    tmp_path, cache, part, shape
):
    tensors = weights()
    name = next(name for name in tensors if name.split(".")[-2] == part)
    tensors[name] = np.ones(shape, np.float32)
    refused(write_gguf(tmp_path / "small.gguf", tensors), f"{name} must be ")


def test_a_missing_source_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape("a file none.gguf in")):
        converted(tmp_path / "none.gguf", SIZES)


def test_without_the_libraries_the_errors_say_what_to_install(source, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "gguf", None)
        with pytest.raises(ImportError, match="pip install gguf"):
            converted(source, SIZES)
    for name in ("safetensors", "safetensors.torch"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install safetensors"):
        converted(source, SIZES)


def test_a_conversion_is_read_without_the_library_that_made_it(source, monkeypatch):
    converted(source, SIZES)
    monkeypatch.setitem(sys.modules, "gguf", None)
    assert len(converted(source, SIZES)) == len(gguf_names(SIZES))
