"""SmolLM2 is the Llama of transformers, weight for weight and token for token.

Nothing is downloaded. The real weights are used where they are (`make weights`); elsewhere the
tests of them say that they did not run. Those of MiniLM are in test_models_of_transformers.py.
"""

from dataclasses import replace

import gguf
import numpy as np
import pytest
import safetensors.torch
import torch
import transformers
from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

from attnlib import PUBLISHED, AttentionSizes, load_pretrained
from attnlib.generation import generate
from attnlib.pretrained import SOURCES, WEIGHTS, folder_of, is_installed, load_llama
from attnlib.pretrained.gguf_files import conversion_of, converted, kept_for_user, read_gguf
from attnlib.pretrained.names import gguf_names, llama_names

# Q4_1 packs 32 weights of a row, so the widths are such multiples; transformers wants m = h·d.
H, G, D, M, INNER, V, LAYERS = 6, 2, 16, 96, 64, 19, 3
SMOL = PUBLISHED["smollm2-135m"]
SIZES = replace(
    SMOL,
    name="a small Llama",
    source="made up for a test",
    n_layers=LAYERS,
    width=M,
    attention=AttentionSizes(n_query_heads=H, n_kv_heads=G, head_dim=D, value_dim=D),
    feed_forward_width=INNER,
    vocabulary=V,
)


def llama(sizes):
    """The model of transformers, its configuration written by hand from our sizes."""
    config = transformers.LlamaConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.width,
        intermediate_size=sizes.feed_forward_width,
        num_hidden_layers=sizes.n_layers,
        num_attention_heads=sizes.attention.n_query_heads,
        num_key_value_heads=sizes.attention.n_kv_heads,
        head_dim=sizes.attention.head_dim,
        max_position_embeddings=sizes.context,
        rms_norm_eps=sizes.norm_epsilon,
        rope_parameters={"rope_type": "default", "rope_theta": sizes.rotary.base},
        tie_word_embeddings=sizes.tied_embeddings,
        attn_implementation="eager",
    )
    return transformers.LlamaForCausalLM(config).eval().requires_grad_(False)


def random_llama(dtype):
    """Random weights, those of norms too, each a number of the given kind."""
    model, generator = llama(SIZES), torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        random = torch.randn(parameter.shape, generator=generator)
        parameter.copy_((0.2 * random + ("norm" in name)).to(dtype))
    return model


def stored(model, dtype):
    """As `save_pretrained` writes them: a matrix in two places once."""
    return {name: p.to(dtype) for name, p in model.named_parameters() if name != "lm_head.weight"}


def assert_same_logits(found, theirs, tokens):
    """Both in float64; but transformers rounds the angles, their sines and cosines to float32.

    So a turned query or key is off by (t + 1)·2⁻²⁴ of itself, its scores by twice that, and a layer
    adds as much, relatively, to what it adds; logits have the size of the largest of them.
    """
    with torch.no_grad():
        wanted = theirs(input_ids=tokens).logits
    layers, t = theirs.config.num_hidden_layers, tokens.shape[1]
    atol = 2 * layers * (t + 1) * 2**-24 * wanted.abs().max().item()
    torch.testing.assert_close(found, wanted, rtol=0, atol=atol)


# --- random weights ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_file_with_the_names_of_transformers_is_the_llama_in_it(tmp_path, dtype):
    theirs = random_llama(dtype)
    safetensors.torch.save_file(stored(theirs, dtype), tmp_path / "model.safetensors")
    ours = load_llama(tmp_path / "model.safetensors", SIZES)
    assert not ours.training and all(p.dtype == torch.float32 for p in ours.parameters())
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    for name, other in llama_names(SIZES).items():
        assert torch.equal(ours.get_parameter(name), theirs.get_parameter(other)), name
    tokens = torch.randint(V, (3, 7), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert_same_logits(ours.double()(tokens), theirs.double(), tokens)


def test_rows_that_are_filled_up_on_the_left_are_those_of_transformers_alone(tmp_path):
    theirs = random_llama(torch.float32)
    safetensors.torch.save_file(stored(theirs, torch.float32), tmp_path / "model.safetensors")
    ours = load_llama(tmp_path / "model.safetensors", SIZES).double()
    tokens = torch.randint(V, (3, 7), generator=torch.Generator().manual_seed(1))
    is_token = torch.arange(7) >= torch.tensor([0, 2, 6])[:, None]
    with torch.no_grad():
        found = ours(tokens, is_token=is_token)
    theirs = theirs.double()
    for row, logits, where in zip(tokens, found, is_token, strict=True):
        assert_same_logits(logits[where][None], theirs, row[where][None])


def test_the_published_kind_of_file_is_loaded_from_its_folder_or_its_path(tmp_path, monkeypatch):
    monkeypatch.setitem(SOURCES, "smollm2-135m", replace(SOURCES["smollm2-135m"], sizes=SIZES))
    theirs = random_llama(torch.bfloat16)
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(stored(theirs, torch.bfloat16), path)
    for where in (tmp_path, path):
        ours = load_pretrained("smollm2-135m", path=where, verify=False).model
        assert torch.equal(ours.decoder.word_embedding.weight, theirs.model.embed_tokens.weight)
        with pytest.raises(ValueError, match="must be the published file, with SHA-256 5af571cb"):
            load_pretrained("smollm2-135m", path=where)


def test_the_tensors_of_a_bert_are_no_llama(tmp_path):
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file({"embeddings.LayerNorm.weight": torch.ones(M)}, path)
    with pytest.raises(ValueError, match=r"of a small Llama: model\..* missing, embeddings\."):
        load_llama(path, SIZES)


def test_a_llama_in_whole_numbers_is_refused(tmp_path):
    tensors = stored(random_llama(torch.float32), torch.float32)
    tensors["model.norm.weight"] = torch.ones(M, dtype=torch.int8)
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    says = (
        r"model\.norm\.weight must be bfloat16 or float16 or float32 of shape \(96,\).*torch\.int8"
    )
    with pytest.raises(ValueError, match=says):
        load_llama(tmp_path / "model.safetensors", SIZES)


def test_transformers_unpacks_a_gguf_to_the_same_weights(tmp_path):
    """Its way back to the order of halves is code of its own."""
    path = tmp_path / "small.Q4_1.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for name, parameter in random_llama(torch.float32).named_parameters():
        if name != "lm_head.weight":
            kind = gguf.GGMLQuantizationType["F32" if parameter.ndim == 1 else "Q4_1"]
            packed = gguf.quantize(parameter.numpy(), kind)
            writer.add_tensor(gguf_names(SIZES)[name], packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found, names = read_gguf(path, SIZES), gguf_names(SIZES)
    processor = LlamaTensorProcessor(config={"num_attention_heads": H, "num_key_value_heads": G})
    for packed in gguf.GGUFReader(path).tensors:
        numbers = gguf.dequantize(packed.data, packed.tensor_type)
        theirs = processor.process(numbers, name=packed.name).weights
        (ours,) = (name for name, other in names.items() if other == packed.name)
        assert np.array_equal(found[ours].numpy(), theirs), packed.name


# --- real weights -----------------------------------------------------------------------------

TEXTS = [
    "But soft! what light through yonder window breaks?",
    "Attention is all you need. In 2017, naïve models were replaced; 3.14159 is π.",
]


@pytest.fixture(scope="module")
def smollm2(request):
    if not is_installed("smollm2-135m"):
        why = "SmolLM2's weights are not here (make weights): the tests of them did not run."
        with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            print(f"\n{why}")
        pytest.skip(why)
    pretrained = load_pretrained("smollm2-135m")
    pretrained.model.double().requires_grad_(False)
    return pretrained


def tensors_of_smollm2():
    """Those of the file that was loaded: the package's, its conversion, or the Hub's."""
    folder, source = folder_of("smollm2-135m"), SOURCES["smollm2-135m"]
    gguf_file, sha256 = folder / source.gguf, source.sha256[source.gguf]
    if gguf_file.is_file():
        return converted(gguf_file, SMOL)
    kept = kept_for_user(source.gguf, sha256)
    if kept is not None and kept.parent == folder:
        return conversion_of(sha256, kept)
    tensors = safetensors.torch.load_file(folder / WEIGHTS)
    return {name: tensor.float() for name, tensor in tensors.items()}


@pytest.fixture(scope="module")
def real_llama(smollm2):
    tensors = tensors_of_smollm2()
    with torch.device("meta"):
        model = llama(SMOL)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    model.load_state_dict(tensors, assign=True)
    # transformers leaves these without numbers where the model is made without memory
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    return model.double()


@pytest.mark.parametrize("text", TEXTS)
def test_smollm2_is_the_llama_of_its_weights(smollm2, real_llama, text):
    tokens = torch.tensor([smollm2.encode(text)])
    assert_same_logits(smollm2.model(tokens), real_llama, tokens)


def test_smollm2_writes_token_for_token_what_the_llama_writes(smollm2, real_llama):
    ids = smollm2.encode("The capital of France is")
    (written,) = generate(smollm2.model, [ids], 20)
    with torch.no_grad():
        logits = real_llama(input_ids=torch.tensor([ids + written])).logits[0]
    # each token is the likeliest after those before it
    assert written == logits[len(ids) - 1 : -1].argmax(-1).tolist()
    assert smollm2.decode(written).startswith(" Paris")


def test_rows_of_smollm2_do_not_depend_on_their_padding(smollm2):
    tokens, is_token = smollm2.batch(TEXTS)
    assert not is_token.all() and is_token[:, -1].all()
    with torch.no_grad():
        together = smollm2.model(tokens, is_token=is_token)[:, -1]
        for row, text in zip(together, TEXTS, strict=True):
            alone = smollm2.model(torch.tensor([smollm2.encode(text)]))[0, -1]
            # 30 layers of sums of 576 to 1536 numbers, in float64
            torch.testing.assert_close(row, alone, rtol=0, atol=1e-9)


def test_smollm2_ends_texts_and_turns_with_tokens_of_their_own(smollm2):
    ends = [smollm2.tokenizer.decode([i]) for i in smollm2.stop_ids]
    assert ends == ["<|endoftext|>", "<|im_end|>"]
    assert smollm2.decode(smollm2.encode(TEXTS[1])) == TEXTS[1]
