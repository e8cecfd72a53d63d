"""The parameters that are counted are those that transformers makes, matrix by matrix.

Configurations are given in full, since the defaults of transformers are other models. Nothing is
downloaded, and on torch's meta device nothing takes memory.
"""

from dataclasses import replace

import pytest
import torch
import transformers

from attnlib import PUBLISHED, Encoder, EncoderDecoder, LanguageModel, cost
from attnlib.sizes import TRAINED


def llama(sizes):
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=sizes.vocabulary,
            hidden_size=sizes.width,
            intermediate_size=sizes.feed_forward_width,
            num_hidden_layers=sizes.n_layers,
            num_attention_heads=sizes.attention.n_query_heads,
            num_key_value_heads=sizes.attention.n_kv_heads,
            head_dim=sizes.attention.head_dim,
            tie_word_embeddings=sizes.tied_embeddings,
        )
    )


def gemma_3(sizes):
    return transformers.Gemma3ForCausalLM(
        transformers.Gemma3TextConfig(
            vocab_size=sizes.vocabulary,
            hidden_size=sizes.width,
            intermediate_size=sizes.feed_forward_width,
            num_hidden_layers=sizes.n_layers,
            num_attention_heads=sizes.attention.n_query_heads,
            num_key_value_heads=sizes.attention.n_kv_heads,
            head_dim=sizes.attention.head_dim,
            query_pre_attn_scalar=sizes.attention.scale_width or sizes.attention.head_dim,
            sliding_window=sizes.window,
            tie_word_embeddings=sizes.tied_embeddings,
        )
    )


def deepseek(sizes):
    """V2 or V3; the biases that balance the experts of V3 are a buffer there."""
    v2 = transformers.DeepseekV2Config, transformers.DeepseekV2ForCausalLM
    v3 = transformers.DeepseekV3Config, transformers.DeepseekV3ForCausalLM
    configuration, kind = v3 if sizes.name.endswith("3") else v2
    return kind(
        configuration(
            vocab_size=sizes.vocabulary,
            hidden_size=sizes.width,
            intermediate_size=sizes.feed_forward_width,
            num_hidden_layers=sizes.n_layers,
            num_attention_heads=sizes.attention.n_query_heads,
            num_key_value_heads=sizes.attention.n_query_heads,
            q_lora_rank=sizes.attention.query_latent,
            kv_lora_rank=sizes.attention.kv_latent,
            qk_nope_head_dim=sizes.attention.nope_dim,
            qk_rope_head_dim=sizes.attention.rope_dim,
            v_head_dim=sizes.attention.value_dim,
            n_routed_experts=sizes.experts.n_routed,
            n_shared_experts=sizes.experts.n_shared,
            num_experts_per_tok=sizes.experts.n_chosen,
            moe_intermediate_size=sizes.experts.inner_width,
            first_k_dense_replace=sizes.experts.n_dense_layers,
            tie_word_embeddings=sizes.tied_embeddings,
        )
    )


def gpt_2(sizes):
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=sizes.vocabulary,
            n_positions=sizes.context,
            n_embd=sizes.width,
            n_layer=sizes.n_layers,
            n_head=sizes.attention.n_query_heads,
            n_inner=sizes.feed_forward_width,
            tie_word_embeddings=sizes.tied_embeddings,
        )
    )


def bert(sizes):
    return transformers.BertModel(
        transformers.BertConfig(
            vocab_size=sizes.vocabulary,
            hidden_size=sizes.width,
            num_hidden_layers=sizes.n_layers,
            num_attention_heads=sizes.attention.n_query_heads,
            intermediate_size=sizes.feed_forward_width,
            max_position_embeddings=sizes.context,
            type_vocab_size=sizes.n_segments,
        )
    )


def marian(sizes):
    return transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=sizes.vocabulary,
            d_model=sizes.width,
            encoder_layers=sizes.n_encoder_layers,
            decoder_layers=sizes.n_layers,
            encoder_attention_heads=sizes.attention.n_query_heads,
            decoder_attention_heads=sizes.attention.n_query_heads,
            encoder_ffn_dim=sizes.feed_forward_width,
            decoder_ffn_dim=sizes.feed_forward_width,
            max_position_embeddings=sizes.context,
            pad_token_id=0,
        )
    )


FAMILIES = {
    "llama-2-7b": llama,
    "llama-3-8b": llama,
    "llama-3-70b": llama,
    "llama-3.1-70b": llama,
    "llama-3.2-1b": llama,
    "smollm2-135m": llama,
    "gemma-3-27b": gemma_3,
    "gemma-3-270m": gemma_3,
    "deepseek-67b": llama,
    "deepseek-v2": deepseek,
    "deepseek-v3": deepseek,
    "transformer-base": marian,
    "transformer-big": marian,
    "gpt-2": gpt_2,
    "gpt-2-xl": gpt_2,
    "gpt-3": gpt_2,
    "bert-base": bert,
    "minilm-l6": bert,
}


def counted(model, name: str = "") -> int:
    """Parameters whose name holds a word; transformers lists a tied matrix once.

    Sines and cosines, which Marian keeps as a parameter that is never trained, do not count.
    """
    return sum(
        x.numel()
        for full_name, x in model.named_parameters()
        if name in full_name and not (is_marian(model) and "embed_positions" in full_name)
    )


def is_marian(model) -> bool:
    return isinstance(model, transformers.MarianMTModel)


def made(name):
    with torch.device("meta"):
        return FAMILIES[name](PUBLISHED[name])


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_counted_parameters_are_those_of_the_model(name):
    sizes, model = PUBLISHED[name], made(name)
    if is_marian(model):  # its projections add biases, which those of 2017 do not
        sizes = replace(sizes, attention=replace(sizes.attention, biases=True))
    assert sizes.n_parameters == counted(model)
    attention = counted(model, "attn.") + counted(model, ".attention.")
    if "attention.output.LayerNorm" in " ".join(dict(model.named_parameters())):
        attention -= counted(model, "attention.output.LayerNorm")
    assert sizes.n_attentions * sizes.n_attention_parameters_per_layer == attention


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_matrices_that_a_pass_reads_are_those_of_the_model(name):
    sizes, model = PUBLISHED[name], made(name)
    if sizes.n_encoder_layers or sizes.pooler:  # no output head of one stack
        return
    embeddings = ("embed_tokens", "wte", "wpe")
    matrices = sum(
        x.numel()
        for full_name, x in model.named_parameters()
        if x.dim() >= 2 and not any(word in full_name for word in embeddings)
    )
    form = cost.usual_form(sizes, decoding=False)
    read = cost.evaluate(cost.matrices_read(cost.SYMBOLS["x"], form), sizes)
    head = read.pop("output head")
    assert head == sizes.vocabulary * sizes.width
    assert sum(read.values()) + (0 if sizes.tied_embeddings else head) == matrices


def ours(sizes):
    kind = Encoder if not sizes.causal else LanguageModel
    kind = EncoderDecoder if sizes.n_encoder_layers else kind
    with torch.device("meta"):
        return kind(sizes, pairing=None if sizes.rotary is None else "half")


@pytest.mark.parametrize("sizes", [*PUBLISHED.values(), *TRAINED.values()], ids=lambda s: s.name)
def test_the_counted_parameters_are_those_of_our_own_models(sizes):
    n_layers = 7  # a layer of each kind, and fast
    if sizes.experts is not None:
        n_layers = sizes.experts.n_dense_layers + 1
        # ours are those of V2, which have as many weights; and fewer of them are faster
        sizes = replace(sizes, experts=replace(sizes.experts, gate="softmax", n_routed=16))
    shorter = replace(sizes, n_layers=min(sizes.n_layers, n_layers))
    assert sum(p.numel() for p in ours(shorter).parameters()) == shorter.n_parameters


@pytest.mark.parametrize("name", ["gemma-3-27b", "gemma-3-270m"])
def test_the_layers_with_a_window_are_those_of_the_model(name):
    kinds = made(name).config.layer_types
    names = [
        "full_attention" if w is None else "sliding_attention" for w in PUBLISHED[name].windows
    ]
    assert names == kinds


def scale_of(model) -> float:
    (scale,) = {m.scaling for m in model.modules() if hasattr(m, "scaling")}
    return scale


@pytest.mark.parametrize("name", ["gemma-3-27b", "gemma-3-270m", "llama-3.2-1b", "deepseek-v2"])
def test_the_scale_of_attention_is_that_of_the_model(name):
    # the configuration above leaves YaRN out
    scale = PUBLISHED[name].attention.score_scale
    assert scale == pytest.approx(scale_of(made(name)), rel=1e-15)


def test_yarn_multiplies_the_scale_of_deepseek_v2_as_transformers_does():
    sizes, config = PUBLISHED["deepseek-v2"], made("deepseek-v2").config
    yarn = sizes.rotary.scaling
    config.rope_parameters = {
        "rope_type": "yarn",
        "rope_theta": sizes.rotary.base,
        "factor": yarn.factor,
        "original_max_position_embeddings": yarn.original_length,
        "beta_fast": yarn.beta_fast,
        "beta_slow": yarn.beta_slow,
        "mscale": yarn.mscale,
        "mscale_all_dim": yarn.mscale,
    }
    config.num_hidden_layers = 1
    with torch.device("meta"):
        model = transformers.DeepseekV2ForCausalLM(config)
    assert sizes.score_scale == pytest.approx(scale_of(model), rel=1e-15)
