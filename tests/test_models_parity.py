"""Whole models are those of transformers, weight for weight: GPT-2, Llama, Gemma 3, BART, Marian.

Every number of the weights is random and in fp64, and so is what transformers would do in fp32.
BERT is in test_models_of_transformers.py. Nothing is downloaded.
"""

from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
import torch
import transformers

from attnlib import AttentionSizes, EncoderDecoder, LanguageModel, ModelSizes, sinusoidal_encoding
from attnlib.sizes import LinearScaling, RotarySizes

# All different but for d, which is e in these models, and m/h in GPT-2, BART and Marian.
B, T, S, V, CONTEXT = 2, 7, 5, 31, 13
IS_TOKEN = torch.arange(T) >= torch.tensor([[3], [0]])  # padded on the left
IS_SOURCE = torch.arange(S) < torch.tensor([[S], [2]])  # padded on the right


@contextmanager
def in_fp64():
    """What is made is in fp64, and what asks for fp32 gets fp64."""
    double = {"float32": torch.float64, "float": torch.float64}
    torch.set_default_dtype(torch.float64)
    try:
        with (
            mock.patch.multiple(torch, **double),
            mock.patch.object(torch.Tensor, "float", torch.Tensor.double),
        ):
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def made(kind, config_kind, **config):
    """A model with random numbers everywhere, those of biases and norms too."""
    with in_fp64():
        model = kind(config_kind(vocab_size=V, attn_implementation="eager", **config))
        model.eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for name, weight in model.named_parameters():
        if "embed_positions" in name and isinstance(model, transformers.MarianMTModel):
            continue
        assert weight.dtype == torch.float64
        spread = weight.shape[-1] ** -0.5 if weight.ndim == 2 else 0.3
        weight.copy_(spread * torch.randn(weight.shape, generator=generator).double())
        is_norm = "norm" in name or ".ln_" in name
        if is_norm and name.endswith("weight") and not isinstance(model, GEMMA):
            weight += 1.0
    return model


GEMMA = transformers.Gemma3ForCausalLM


def numbers(*shape, seed=1):
    return torch.randint(3, V, shape, generator=torch.Generator().manual_seed(seed))


def loaded(model, weights):
    """All our weights, from theirs; what is missing or left over is an error."""
    model = model.double().eval().requires_grad_(False)
    model.load_state_dict(weights, strict=True)
    return model


def named(theirs, pairs):
    """Their weights under our names; a module without one of its kinds has none here either."""
    weights = dict(theirs.state_dict())
    return {
        f"{ours}.{kind}": weights[f"{their_name}.{kind}"]
        for ours, their_name in pairs
        for kind in ("weight", "bias")
        if f"{their_name}.{kind}" in weights
    }


def pairs_of_layers(ours, theirs, n_layers, names):
    return [
        (f"{ours}.{i}.{our_name}", f"{theirs}.{i}.{their_name}")
        for i in range(n_layers)
        for our_name, their_name in names.items()
    ]


def assert_equal(actual, wanted, atol=1e-11):
    torch.testing.assert_close(actual, wanted, rtol=0, atol=atol)


def heads(n_query_heads, n_kv_heads, head_dim, **options):
    return AttentionSizes(
        n_query_heads=n_query_heads,
        n_kv_heads=n_kv_heads,
        head_dim=head_dim,
        value_dim=head_dim,
        **options,
    )


def sizes(**fields):
    of_all = {"vocabulary": V, "context": CONTEXT, "norm_epsilon": 1e-3}
    return ModelSizes(name="a small model", source="made up for a test", **of_all | fields)


# --- decoders ---------------------------------------------------------------------------------


def gpt_2():
    m, h, inner, n_layers = 12, 3, 17, 4
    theirs = made(
        transformers.GPT2LMHeadModel,
        transformers.GPT2Config,
        n_positions=CONTEXT,
        n_embd=m,
        n_layer=n_layers,
        n_head=h,
        n_inner=inner,
        layer_norm_epsilon=1e-3,
    )
    ours = LanguageModel(
        sizes(
            n_layers=n_layers,
            width=m,
            attention=heads(h, h, m // h, biases=True),
            feed_forward_width=inner,
            gated=False,
            activation="gelu-tanh",
            feed_forward_biases=True,
            tied_embeddings=True,
            norm="layer",
            norm_placement="pre",
            learned_positions=True,
        )
    )
    pairs = [
        ("decoder.word_embedding", "transformer.wte"),
        ("decoder.position_embedding", "transformer.wpe"),
        ("decoder.end_norm", "transformer.ln_f"),
    ]
    layers = ("decoder.blocks", "transformer.h", n_layers)
    pairs += pairs_of_layers(*layers, {"attention_norm": "ln_1", "feed_forward_norm": "ln_2"})
    turned = {}  # their matrices have a row for each number that goes in
    matrices = {
        "attention.output": "attn.c_proj",
        "feed_forward.widen": "mlp.c_fc",
        "feed_forward.narrow": "mlp.c_proj",
    }
    for our_name, their_name in pairs_of_layers(*layers, matrices):
        linear = theirs.get_submodule(their_name)
        turned |= {f"{our_name}.weight": linear.weight.T, f"{our_name}.bias": linear.bias}
    for our_name, their_name in pairs_of_layers(*layers, {"attention": "attn.c_attn"}):
        joint = theirs.get_submodule(their_name)
        for name, weight, bias in zip(
            ("query", "key", "value"), joint.weight.T.split(m), joint.bias.split(m), strict=True
        ):
            turned |= {f"{our_name}.{name}.weight": weight, f"{our_name}.{name}.bias": bias}
    return theirs, loaded(ours, named(theirs, pairs) | turned)


def in_the_manner_of_llama(kind, config_kind, config, norms, *, n_layers, attention=None, **fields):
    """Theirs, ours without weights, and theirs under our names; `norms` are those of a layer."""
    m, h, g, d, inner = 18, 6, 2, 4, 19
    theirs = made(
        kind,
        config_kind,
        hidden_size=m,
        intermediate_size=inner,
        num_hidden_layers=n_layers,
        num_attention_heads=h,
        num_key_value_heads=g,
        head_dim=d,
        rms_norm_eps=1e-3,
        **config,
    )
    ours = LanguageModel(
        sizes(
            n_layers=n_layers,
            width=m,
            attention=heads(h, g, d, **attention or {}),
            feed_forward_width=inner,
            gated=True,
            norm="rms",
            **fields,
        ),
        pairing="half",
    )
    pairs = [("decoder.word_embedding", "model.embed_tokens"), ("decoder.end_norm", "model.norm")]
    if not theirs.config.tie_word_embeddings:
        pairs.append(("output", "lm_head"))
    in_layer = norms | {
        "attention.query": "self_attn.q_proj",
        "attention.key": "self_attn.k_proj",
        "attention.value": "self_attn.v_proj",
        "attention.output": "self_attn.o_proj",
        "attention.query_norm": "self_attn.q_norm",
        "attention.key_norm": "self_attn.k_norm",
        "feed_forward.gate": "mlp.gate_proj",
        "feed_forward.widen": "mlp.up_proj",
        "feed_forward.narrow": "mlp.down_proj",
    }
    pairs += pairs_of_layers("decoder.blocks", "model.layers", n_layers, in_layer)
    return theirs, ours, named(theirs, pairs)


def llama(tied=False):
    theirs, ours, weights = in_the_manner_of_llama(
        transformers.LlamaForCausalLM,
        transformers.LlamaConfig,
        {
            "rope_parameters": {"rope_type": "default", "rope_theta": 100.0},
            "tie_word_embeddings": tied,
        },
        {"attention_norm": "input_layernorm", "feed_forward_norm": "post_attention_layernorm"},
        n_layers=3,
        activation="silu",
        tied_embeddings=tied,
        norm_placement="pre",
        rotary=RotarySizes(base=100.0),
    )
    return theirs, loaded(ours, weights)


def llama_with_one_matrix_for_both_ends():
    return llama(tied=True)


def gemma_3():
    window = 3
    theirs, ours, weights = in_the_manner_of_llama(
        GEMMA,
        transformers.Gemma3TextConfig,
        {
            "query_pre_attn_scalar": 11,
            "sliding_window": window,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 100.0},
            },
        },
        {
            "attention_norm": "input_layernorm",
            "attention_out_norm": "post_attention_layernorm",
            "feed_forward_norm": "pre_feedforward_layernorm",
            "feed_forward_out_norm": "post_feedforward_layernorm",
        },
        n_layers=7,
        attention={"scale_width": 11, "query_key_norm": True},
        activation="gelu-tanh",
        tied_embeddings=True,
        norm_placement="peri",
        rotary=RotarySizes(base=100.0, window_base=50.0, scaling=LinearScaling(factor=8.0)),
        window=window,
        window_pattern=(True, True, True, True, True, False),
        scaled_embedding=True,
    )
    weights = {name: weight + ("norm" in name) for name, weight in weights.items()}  # w for 1 + w
    return theirs, loaded(ours, weights)


DECODERS = [gpt_2, llama, llama_with_one_matrix_for_both_ends, gemma_3]


@pytest.mark.parametrize("family", DECODERS)
@pytest.mark.parametrize("is_token", [torch.ones(B, T).bool(), IS_TOKEN], ids=["whole", "padded"])
def test_logits_states_and_weights_are_those_of_the_decoder(family, is_token):
    theirs, ours = family()
    tokens = numbers(B, T)
    with in_fp64(), torch.no_grad():
        wanted = theirs(
            input_ids=tokens,
            attention_mask=is_token.long(),
            position_ids=(is_token.cumsum(-1) - 1).clamp(min=0),
            output_hidden_states=True,
            output_attentions=True,
        )
    assert_equal(ours(tokens, is_token=is_token)[is_token], wanted.logits[is_token])
    states = ours.states(tokens, is_token=is_token)
    assert len(states) == len(wanted.hidden_states) == ours.sizes.n_layers + 1
    for state, theirs_state in zip(states, wanted.hidden_states, strict=True):
        assert_equal(state[is_token], theirs_state[is_token])
    weights = ours.attention_weights(tokens, is_token=is_token)
    for layer, theirs_layer in zip(weights, wanted.attentions, strict=True):
        for row in range(B):
            assert_equal(layer[row][:, is_token[row]], theirs_layer[row][:, is_token[row]])


@pytest.mark.parametrize("family", DECODERS)
def test_all_weights_of_the_decoder_are_used_and_none_is_used_twice(family):
    theirs, ours = family()
    count = sum(p.numel() for p in theirs.parameters())
    assert sum(p.numel() for p in ours.parameters()) == count == ours.sizes.n_parameters


# --- encoder and decoder ----------------------------------------------------------------------

M2, H2, INNER2, N_ENCODER, N_DECODER = 12, 3, 17, 2, 4
STACKS = {"encoder": N_ENCODER, "decoder": N_DECODER}


def in_the_manner_of_bart(kind, config_kind, config, **fields):
    """Theirs, ours without weights, and theirs under our names, but for the positions."""
    theirs = made(
        kind,
        config_kind,
        d_model=M2,
        encoder_layers=N_ENCODER,
        decoder_layers=N_DECODER,
        encoder_attention_heads=H2,
        decoder_attention_heads=H2,
        encoder_ffn_dim=INNER2,
        decoder_ffn_dim=INNER2,
        max_position_embeddings=CONTEXT,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
        decoder_start_token_id=2,
        **config,
    )
    ours = EncoderDecoder(
        sizes(
            n_layers=N_DECODER,
            n_encoder_layers=N_ENCODER,
            width=M2,
            attention=heads(H2, H2, M2 // H2, biases=True),
            feed_forward_width=INNER2,
            gated=False,
            feed_forward_biases=True,
            tied_embeddings=True,
            norm="layer",
            norm_placement="post",
            norm_at_end=False,
            norm_epsilon=1e-5,  # theirs is torch's and cannot be chosen
            **fields,
        )
    )
    pairs = [("word_embedding", "model.shared")]
    in_layer = {
        "attention.query": "self_attn.q_proj",
        "attention.key": "self_attn.k_proj",
        "attention.value": "self_attn.v_proj",
        "attention.output": "self_attn.out_proj",
        "attention_norm": "self_attn_layer_norm",
        "cross_attention.query": "encoder_attn.q_proj",
        "cross_attention.key": "encoder_attn.k_proj",
        "cross_attention.value": "encoder_attn.v_proj",
        "cross_attention.output": "encoder_attn.out_proj",
        "cross_attention_norm": "encoder_attn_layer_norm",
        "feed_forward.widen": "fc1",
        "feed_forward.narrow": "fc2",
        "feed_forward_norm": "final_layer_norm",
    }
    for stack, n_layers in STACKS.items():
        pairs.append((f"{stack}.embedding_norm", f"model.{stack}.layernorm_embedding"))
        pairs += pairs_of_layers(f"{stack}.blocks", f"model.{stack}.layers", n_layers, in_layer)
    assert not theirs.final_logits_bias.any()  # a constant, not a parameter
    return theirs, ours, named(theirs, pairs)


def position_tables(theirs):
    return {
        stack: theirs.get_submodule(f"model.{stack}.embed_positions").weight for stack in STACKS
    }


def bart():
    theirs, ours, weights = in_the_manner_of_bart(
        transformers.BartForConditionalGeneration,
        transformers.BartConfig,
        {"activation_function": "gelu", "scale_embedding": False},
        activation="gelu",
        learned_positions=True,
        norm_of_embedding=True,
    )
    for stack, table in position_tables(theirs).items():  # their first two rows are no position's
        weights[f"{stack}.position_embedding.weight"] = table[2:]
    return theirs, loaded(ours, weights)


def marian():
    """Their sines stand before all cosines, ours before their own: the whole stream is reordered.

    A norm and a matrix do not care in which order coordinates come, if all keep to it.
    """
    theirs, ours, theirs_by_our_names = in_the_manner_of_bart(
        transformers.MarianMTModel,
        transformers.MarianConfig,
        {"activation_function": "relu", "scale_embedding": True},
        activation="relu",
        sinusoidal_positions=True,
        scaled_embedding=True,
    )
    angles = np.arange(CONTEXT)[:, None] / 10_000 ** (np.arange(M2 // 2) / (M2 // 2))
    wanted = torch.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))
    for table in position_tables(theirs).values():
        table.copy_(wanted)
    order = torch.arange(M2).reshape(2, M2 // 2).T.flatten()  # our i-th coordinate among theirs
    assert_equal(sinusoidal_encoding(torch.arange(CONTEXT), M2).double(), wanted[:, order], 1e-7)
    weights = {}
    for name, weight in theirs_by_our_names.items():
        module, kind = name.rsplit(".", 1)
        reads_stream = module.endswith(("query", "key", "value", "widen", "word_embedding"))
        if kind == "weight" and reads_stream:
            weight = weight[:, order]
        elif not reads_stream:  # output, narrow and norms
            weight = weight[order]
        weights[name] = weight
    return theirs, loaded(ours, weights)


@pytest.mark.parametrize("family", [bart, marian])
@pytest.mark.parametrize("is_source", [None, IS_SOURCE], ids=["whole", "padded"])
def test_logits_and_weights_are_those_of_encoder_and_decoder(family, is_source):
    theirs, ours = family()
    source, tokens = numbers(B, S), numbers(B, T, seed=2)
    with in_fp64(), torch.no_grad():
        wanted = theirs(
            input_ids=source,
            attention_mask=torch.ones(B, S).long() if is_source is None else is_source.long(),
            decoder_input_ids=tokens,
            output_attentions=True,
        )
    assert_equal(ours(source, tokens, is_source=is_source), wanted.logits)
    weights = ours.cross_attention_weights(source, tokens, is_source=is_source)
    assert weights.shape == (N_DECODER, B, H2, T, S)
    assert_equal(weights, torch.stack(wanted.cross_attentions))
    of_encoder, of_decoder = ours.attention_weights(source, tokens, is_source=is_source)
    assert_equal(of_decoder, torch.stack(wanted.decoder_attentions))
    of_tokens = torch.ones(B, S).bool() if is_source is None else is_source
    for row in range(B):
        theirs_row = torch.stack(wanted.encoder_attentions)[:, row][:, :, of_tokens[row]]
        assert_equal(of_encoder[:, row][:, :, of_tokens[row]], theirs_row)


@pytest.mark.parametrize("family", [bart, marian])
def test_all_weights_of_both_are_used_and_none_is_used_twice(family):
    theirs, ours = family()
    theirs_counted = sum(
        p.numel() for name, p in theirs.named_parameters() if "embed_positions" not in name
    )
    ours_counted = sum(
        p.numel() for name, p in ours.named_parameters() if "position_embedding" not in name
    )
    assert ours_counted == theirs_counted
    assert sum(p.numel() for p in ours.parameters()) == ours.sizes.n_parameters
