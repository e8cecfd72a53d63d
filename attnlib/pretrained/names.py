r"""What the parameters of our models are called in the files of others.

Source   the files of sentence-transformers/all-MiniLM-L6-v2 and of
         HuggingFaceTB/SmolLM2-135M-Instruct, and the latter's GGUF
Chapter  chapters/language-models.md
Axes     attnlib/axes.py
"""

from attnlib.sizes import ModelSizes

__all__ = ["bert_names", "gguf_names", "llama_names"]


def bert_names(sizes: ModelSizes) -> dict[str, str]:
    """Each parameter of `Encoder`, and what transformers calls it in a BERT.

    Example:
        >>> from attnlib import PUBLISHED
        >>> bert_names(PUBLISHED["minilm-l6"])["blocks.2.attention.query.bias"]
        'encoder.layer.2.attention.self.query.bias'
    """
    modules = [
        ("word_embedding", "embeddings.word_embeddings"),
        ("position_embedding", "embeddings.position_embeddings"),
        ("segment_embedding", "embeddings.token_type_embeddings"),
        ("embedding_norm", "embeddings.LayerNorm"),
    ]
    for i in range(sizes.n_layers):
        modules += [
            (f"blocks.{i}.{ours}", f"encoder.layer.{i}.{theirs}")
            for ours, theirs in (
                ("attention.query", "attention.self.query"),
                ("attention.key", "attention.self.key"),
                ("attention.value", "attention.self.value"),
                ("attention.output", "attention.output.dense"),
                ("attention_norm", "attention.output.LayerNorm"),
                ("feed_forward.widen", "intermediate.dense"),
                ("feed_forward.narrow", "output.dense"),
                ("feed_forward_norm", "output.LayerNorm"),
            )
        ]
    if sizes.pooler:
        modules.append(("pooler", "pooler.dense"))
    names = {}
    for ours, theirs in modules:
        names[f"{ours}.weight"] = f"{theirs}.weight"
        if ours not in ("word_embedding", "position_embedding", "segment_embedding"):
            names[f"{ours}.bias"] = f"{theirs}.bias"
    return names


def llama_names(sizes: ModelSizes) -> dict[str, str]:
    """Each parameter of `LanguageModel`, and what transformers calls it in a Llama.

    Example:
        >>> from attnlib import PUBLISHED
        >>> names = llama_names(PUBLISHED["smollm2-135m"])
        >>> names["decoder.blocks.2.feed_forward.gate.weight"]
        'model.layers.2.mlp.gate_proj.weight'
    """
    return {ours: f"{theirs}.weight" for ours, theirs, _ in _llama_modules(sizes)}


def gguf_names(sizes: ModelSizes) -> dict[str, str]:
    """What transformers calls each tensor of a Llama, and what llama.cpp calls it.

    Example:
        >>> from attnlib import PUBLISHED
        >>> gguf_names(PUBLISHED["smollm2-135m"])["model.layers.2.mlp.gate_proj.weight"]
        'blk.2.ffn_gate.weight'
    """
    return {f"{theirs}.weight": f"{packed}.weight" for _, theirs, packed in _llama_modules(sizes)}


def _llama_modules(sizes: ModelSizes) -> list[tuple[str, str, str]]:
    modules = [
        ("decoder.word_embedding.weight", "model.embed_tokens", "token_embd"),
        ("decoder.end_norm.weight", "model.norm", "output_norm"),
    ]
    for i in range(sizes.n_layers):
        modules += [
            (f"decoder.blocks.{i}.{ours}.weight", f"model.layers.{i}.{theirs}", f"blk.{i}.{packed}")
            for ours, theirs, packed in (
                ("attention.query", "self_attn.q_proj", "attn_q"),
                ("attention.key", "self_attn.k_proj", "attn_k"),
                ("attention.value", "self_attn.v_proj", "attn_v"),
                ("attention.output", "self_attn.o_proj", "attn_output"),
                ("attention_norm", "input_layernorm", "attn_norm"),
                ("feed_forward.gate", "mlp.gate_proj", "ffn_gate"),
                ("feed_forward.widen", "mlp.up_proj", "ffn_up"),
                ("feed_forward.narrow", "mlp.down_proj", "ffn_down"),
                ("feed_forward_norm", "post_attention_layernorm", "ffn_norm"),
            )
        ]
    if not sizes.tied_embeddings:
        modules.append(("output.weight", "lm_head", "output"))
    return modules
