"""The parameters that are counted are those that transformers makes, matrix by matrix.

Configurations are given in full, since the defaults of transformers are other models. Nothing is
downloaded, and on torch's meta device nothing takes memory.
"""

import pytest
import torch
import transformers

from attnlib import PUBLISHED


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


def deepseek_v2(sizes):
    return transformers.DeepseekV2ForCausalLM(
        transformers.DeepseekV2Config(
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


FAMILIES = {
    "llama-2-7b": llama,
    "llama-3-8b": llama,
    "llama-3-70b": llama,
    "llama-3.1-70b": llama,
    "llama-3.2-1b": llama,
    "smollm2-135m": llama,
    "gemma-3-27b": gemma_3,
    "gemma-3-270m": gemma_3,
    "deepseek-v2": deepseek_v2,
    "gpt-2": gpt_2,
    "bert-base": bert,
    "minilm-l6": bert,
}


def counted(model, name: str = "") -> int:
    """Parameters whose name holds a word; transformers lists a tied matrix once."""
    return sum(x.numel() for full_name, x in model.named_parameters() if name in full_name)


def made(name):
    with torch.device("meta"):
        return FAMILIES[name](PUBLISHED[name])


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_counted_parameters_are_those_of_the_model(name):
    sizes, model = PUBLISHED[name], made(name)
    assert sizes.n_parameters == counted(model)
    attention = counted(model, "attn.") + counted(model, ".attention.")
    if "attention.output.LayerNorm" in " ".join(dict(model.named_parameters())):
        attention -= counted(model, "attention.output.LayerNorm")
    assert sizes.n_layers * sizes.n_attention_parameters_per_layer == attention


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
