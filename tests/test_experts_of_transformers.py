"""The mixture of experts is that of transformers' DeepSeek-V2, weight for weight.

Every number of the weights is random and in fp64. Nothing is downloaded.
"""

from dataclasses import replace

import pytest
import torch
from transformers import DeepseekV2Config, DeepseekV2ForCausalLM
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Moe
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

from attnlib import PUBLISHED, LanguageModel, LatentAttentionSizes, MixtureOfExperts
from attnlib.layers import balance_loss, choose_experts
from attnlib.sizes import ExpertSizes, RotarySizes

B, T, M, INNER, X, CHOSEN, SHARED, FACTOR = 2, 5, 9, 11, 12, 5, 3, 16.0
H, U, C, N, R, E, V = 3, 10, 7, 6, 8, 4, 17
DEVICES = {"n_devices": 4, "n_devices_at_most": 2}


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def filled(theirs: torch.nn.Module) -> torch.nn.Module:
    theirs = theirs.double().eval().requires_grad_(False)
    for i, weight in enumerate(theirs.parameters()):
        spread = 1 if weight.ndim == 1 else weight.shape[-1] ** -0.5
        weight.copy_(spread * random(*weight.shape, seed=i))
    return theirs


def configured(devices: dict[str, int], **changes) -> DeepseekV2Config:
    return DeepseekV2Config(
        hidden_size=M,
        num_attention_heads=1,
        moe_intermediate_size=INNER,
        n_routed_experts=X,
        num_experts_per_tok=CHOSEN,
        n_shared_experts=SHARED,
        routed_scaling_factor=FACTOR,
        topk_method="group_limited_greedy" if devices else "greedy",
        n_group=devices.get("n_devices"),
        topk_group=devices.get("n_devices_at_most"),
        experts_implementation="eager",  # the others have no fp64
        **changes,
    )


def sizes_of(devices: dict[str, int], **changes) -> ExpertSizes:
    return ExpertSizes(
        n_routed=X,
        n_chosen=CHOSEN,
        n_shared=SHARED,
        inner_width=INNER,
        gate_factor=FACTOR,
        **devices,
        **changes,
    )


def weights_of(layer: DeepseekV2Moe) -> dict[str, torch.Tensor]:
    """Theirs has gate and widen of an expert in one matrix, and one network for all shared ones."""
    weights = {"router.weight": layer.gate.weight}
    for i in range(X):
        gate, widen = layer.experts.gate_up_proj[i].chunk(2)
        parts = {"gate": gate, "widen": widen, "narrow": layer.experts.down_proj[i]}
        weights |= {f"routed.{i}.{name}.weight": matrix for name, matrix in parts.items()}
    for name, matrix in network_of(layer.shared_experts).items():
        for i, part in enumerate(matrix.chunk(SHARED, dim=1 if "narrow" in name else 0)):
            weights[f"shared.{i}.{name}"] = part
    return weights


def network_of(layer: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {
        "gate.weight": layer.gate_proj.weight,
        "widen.weight": layer.up_proj.weight,
        "narrow.weight": layer.down_proj.weight,
    }


def attention_of(layer: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The latent taken apart from the key, and keys from values head by head."""
    kv_down, rotary_key = layer.kv_a_proj_with_mqa.weight.split([C, R])
    key_up, value_up = layer.kv_b_proj.weight.unflatten(0, (H, N + E)).split([N, E], dim=1)
    return {
        "query_down.weight": layer.q_a_proj.weight,
        "query_norm.weight": layer.q_a_layernorm.weight,
        "query_up.weight": layer.q_b_proj.weight,
        "kv_down.weight": kv_down,
        "rotary_key.weight": rotary_key,
        "kv_norm.weight": layer.kv_a_layernorm.weight,
        "key_up.weight": key_up.flatten(0, 1),
        "value_up.weight": value_up.flatten(0, 1),
        "output.weight": layer.o_proj.weight,
    }


@pytest.mark.parametrize("devices", [{}, DEVICES], ids=["greedy", "group_limited_greedy"])
def test_the_layer_is_that_of_deepseek_v2(devices, monkeypatch):
    # their scores go to fp32 by this name, and only for the dtype's sake
    monkeypatch.setattr(torch, "float32", torch.float64)
    layer, x = filled(DeepseekV2Moe(configured(devices))), random(B, T, M, seed=99)
    mine = MixtureOfExperts(M, sizes_of(devices), activation="silu", gated=True).double()
    mine.load_state_dict(weights_of(layer))
    mine.requires_grad_(False)
    torch.testing.assert_close(mine(x), layer(x), rtol=0, atol=1e-12)

    logits, gates, chosen = layer.gate(x)
    routing = mine.route(x.view(-1, M))
    torch.testing.assert_close(routing.scores, logits.softmax(-1), rtol=0, atol=1e-14)
    order = chosen.gather(-1, gates.argsort(dim=-1, descending=True))
    assert (routing.chosen == order).all()
    sorted_gates = gates.sort(dim=-1, descending=True).values
    torch.testing.assert_close(routing.gates, sorted_gates, rtol=0, atol=1e-13)
    # the limit is felt, or the two kinds of choice would be one test
    unlimited = choose_experts(routing.scores, CHOSEN)
    assert (unlimited == routing.chosen).all() == (not devices)


@pytest.mark.parametrize("chunks", [(T,), (3, 1, 1)], ids=["uncached", "in chunks"])
def test_a_whole_model_is_deepseek_v2_with_latents_and_a_first_layer_without_experts(
    chunks, monkeypatch
):
    # .float() copies, and what it copies may be looked at as complex numbers
    monkeypatch.setattr(torch.Tensor, "float", lambda x: x.double().contiguous())
    for name in ("float", "float32"):
        monkeypatch.setattr(torch, name, torch.float64)
    widths = {"q_lora_rank": U, "kv_lora_rank": C, "qk_nope_head_dim": N, "qk_rope_head_dim": R}
    config = configured(
        DEVICES,
        num_hidden_layers=3,
        first_k_dense_replace=1,
        intermediate_size=13,
        vocab_size=V,
        rms_norm_eps=1e-6,  # theirs of the latents is always this
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        v_head_dim=E,
        **widths,
    )
    config.num_attention_heads = config.num_key_value_heads = H
    theirs = filled(DeepseekV2ForCausalLM(config))
    theirs.model.rotary_emb.inv_freq = 100.0 ** (-torch.arange(0, R, 2).double() / R)

    sizes = replace(
        PUBLISHED["deepseek-v2"],
        n_layers=3,
        width=M,
        attention=LatentAttentionSizes(
            n_query_heads=H, query_latent=U, kv_latent=C, nope_dim=N, rope_dim=R, value_dim=E
        ),
        feed_forward_width=13,
        experts=sizes_of(DEVICES, n_dense_layers=1),
        vocabulary=V,
        rotary=RotarySizes(base=100.0),
    )
    model = LanguageModel(sizes, pairing="interleaved").double().eval().requires_grad_(False)
    weights = {
        "decoder.word_embedding.weight": theirs.model.embed_tokens.weight,
        "decoder.end_norm.weight": theirs.model.norm.weight,
        "output.weight": theirs.lm_head.weight,
    }
    for i, layer in enumerate(theirs.model.layers):
        network = weights_of(layer.mlp) if i else network_of(layer.mlp)
        weights |= {
            f"decoder.blocks.{i}.attention_norm.weight": layer.input_layernorm.weight,
            f"decoder.blocks.{i}.feed_forward_norm.weight": layer.post_attention_layernorm.weight,
            **{
                f"decoder.blocks.{i}.attention.{k}": x
                for k, x in attention_of(layer.self_attn).items()
            },
            **{f"decoder.blocks.{i}.feed_forward.{k}": x for k, x in network.items()},
        }
    model.load_state_dict(weights)

    tokens = torch.randint(V, (B, T), generator=torch.Generator().manual_seed(3))
    cache = model.new_cache() if len(chunks) > 1 else None
    parts = [model(chunk, cache=cache) for chunk in tokens.split(chunks, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), theirs(tokens).logits, rtol=0, atol=1e-12)


def test_the_balance_is_that_of_mixtral_for_each_chosen_expert(monkeypatch):
    monkeypatch.setattr(torch, "float32", torch.float64)
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    logits = random(T, X)
    wanted = load_balancing_loss_func((logits,), X, CHOSEN)
    scores = logits.softmax(-1)
    loss = balance_loss(scores, choose_experts(scores, CHOSEN))
    torch.testing.assert_close(CHOSEN * loss, wanted, rtol=0, atol=1e-12)
