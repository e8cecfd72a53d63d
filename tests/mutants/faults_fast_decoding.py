"""Faults in the step that reads one token a row: a second way to compute what a model computes."""

from fault import Fault, fault

FAST, GENERATION = "attnlib/fast_decoding.py", "attnlib/generation.py"
PRODUCTS = "attnlib/vector_products.py"
T_FAST = "tests/test_fast_decoding.py"
T_REFUSALS = "tests/refusals/test_fast_decoding_refusals.py"

FAULTS: tuple[Fault, ...] = (
    fault(
        "fast decoding: the new token stands one place too far",
        FAST,
        T_FAST,
        ("torch.full((1,), cache.n_tokens,", "torch.full((1,), cache.n_tokens + 1,"),
        bug="B38",
    ),
    fault(
        "fast decoding: padding counts as positions",
        FAST,
        T_FAST,
        (
            "positions = is_token.sum(-1, keepdim=True) - 1",
            "positions = torch.full((len(tokens), 1), cache.n_tokens)",
        ),
        bug="B65",
    ),
    fault(
        "fast decoding: padding is read",
        FAST,
        T_FAST,
        ("return None if is_token is None else is_token[", "return None and is_token["),
        bug="B3D",
    ),
    fault(
        "fast decoding: the mask of a ring is in the order of the text",
        FAST,
        T_FAST,
        ("kept.places(1, is_token.device)", "-kept.n_sources(1) :"),
        bug="B43",
    ),
    fault(
        "fast decoding: the cache never advances",
        FAST,
        T_FAST,
        ("with cache.writing(is_token):", "if True:"),
        bug="B34",
    ),
    fault(
        "fast decoding: layers with a window turn as the others do",
        FAST,
        T_FAST,
        ("rotation_at(block.attention,", "rotation_at(decoder.blocks[-1].attention,"),
    ),
    fault(
        "fast decoding: query head i reads key/value head i mod g",
        FAST,
        T_FAST,
        ("q_bhd.view(b, g, h // g, d)", "q_bhd.view(b, h // g, g, d).transpose(1, 2)"),
        bug="B50",
    ),
    fault(
        "fast decoding: the scale is always that of the width",
        FAST,
        T_FAST,
        ("v_bgse, may_attend, scale).view(", "v_bgse, may_attend, d**-0.5).view("),
        bug="B22",
    ),
    fault(
        "fast decoding: gate and widen are exchanged",
        FAST,
        T_FAST,
        ("[network.gate, network.widen]", "[network.widen, network.gate]"),
    ),
    fault(
        "fast decoding: the shortcut around attention is lost",
        FAST,
        T_FAST,
        (
            "x = attended(norm(x), *call, x)",
            "x = attended(norm(x), *call)",
        ),
        bug="B3E",
    ),
    fault(
        "fast decoding: the second norm of a sub-layer is lost",
        FAST,
        T_FAST,
        ("x + network_out_norm(narrow(worked(", "x + (narrow(worked("),
        bug="B3E",
    ),
    fault(
        "fast decoding: queries and keys are not normed",
        FAST,
        T_FAST,
        ("if query_norm is not None:", "if query_norm is None and b == 0:"),
        bug="B3E",
    ),
    fault(
        "fast decoding: the latent that is kept is not normed",
        FAST,
        T_FAST,
        ("kv_norm(down.narrow(-1, u, c))", "down.narrow(-1, u, c)"),
        bug="B50",
    ),
    fault(
        "fast decoding: the shared key of a latent is not turned",
        FAST,
        T_FAST,
        ("key, q_turned = _turned(key, rotation), ", "q_turned = "),
    ),
    fault(
        "fast decoding: the key that is shared is read as part of the value",
        FAST,
        T_FAST,
        ("may_attend, scale)[..., :c]", "may_attend, scale)[..., -c:]"),
    ),
    fault(
        "fast decoding: heads take the matrices of others",
        PRODUCTS,
        T_FAST,
        (
            "held = place.view(weight.shape).copy_(weight.detach())",
            "held = place.view(weight.shape).copy_(weight.detach().flip(0))",
        ),
    ),
    fault(
        "fast decoding: the scale of a latent is that of the coordinates that are not turned",
        FAST,
        T_FAST,
        (
            "_read(q, k_b1sw, k_b1sw, may_attend, scale)",
            "_read(q, k_b1sw, k_b1sw, may_attend, n**-0.5)",
        ),
        bug="B22",
    ),
    fault(
        "fast decoding: the rotation of a latent is as wide as its keys",
        FAST,
        T_FAST,
        ("width = sizes.rope_dim if", "width = sizes.head_dim if"),
    ),
    fault(
        "fast decoding: under autocast a latent stays in fp32",
        FAST,
        T_FAST,
        ("        latent = latent.to(key.dtype)", "        latent = latent"),
    ),
    fault(
        "fast decoding: the matrices of heads are recorded for gradients",
        PRODUCTS,
        T_FAST,
        ("copy_(weight.detach())", "copy_(weight)"),
    ),
    fault(
        "fast decoding: biases are lost",
        PRODUCTS,
        T_FAST,
        ("y = y if bias is None else y + bias", "y = y"),
        bug="B3E",
    ),
    fault(
        "fast decoding: of (x, −x) the wrong half is kept",
        FAST,
        T_FAST,
        (".narrow(-2, 0, 1)", ".narrow(-2, 1, 1)"),
    ),
    fault(
        "fast decoding: the parts of several rows are mixed up",
        PRODUCTS,
        T_FAST,
        ("y.transpose(0, 1).reshape(b, 1,", "y.reshape(b, 1,"),
    ),
    fault(
        "fast decoding: the slower layout is taken",
        PRODUCTS,
        T_FAST,
        ("return min(timings,", "return max(timings,"),
    ),
    fault(
        "fast decoding: the matrices stand in pieces of memory of their own",
        PRODUCTS,
        T_FAST,
        ("rows = place.view(weight.shape).copy_(weight)", "rows = weight.clone()"),
    ),
    fault(
        "fast decoding: what is added is lost where rows are kept",
        PRODUCTS,
        T_FAST,
        (
            "y = F.linear(x, rows, bias)\n        return y if added_to is None else y + added_to",
            "return F.linear(x, rows, bias)",
        ),
    ),
    fault(
        "fast decoding: rows of zeros get logits",
        FAST,
        T_FAST,
        ("self._head(x_b1m)[..., : sizes.vocabulary]", "self._head(x_b1m)"),
    ),
    fault(
        "fast decoding: a step goes on with weights that were trained further",
        FAST,
        T_REFUSALS,
        ("_version(weight) == version", "_version(weight) >= 0"),
        bug="B3D",
    ),
    fault(
        "fast decoding: a step goes on with weights that are no longer the model's",
        FAST,
        T_REFUSALS,
        ("parts.get(name) is weight", "parts.get(name) is not None"),
        bug="B3D",
    ),
    fault(
        "fast decoding: an error in the last product leaves a token in the cache",
        FAST,
        T_FAST,
        (
            "            return self._head(x_b1m)[..., : sizes.vocabulary]",
            "        return self._head(x_b1m)[..., : sizes.vocabulary]",
        ),
    ),
    fault(
        "fast decoding: rows that have ended stay in the cache",
        GENERATION,
        T_FAST,
        ("if numbers != self.numbers:", "if len(numbers) > len(self.numbers):"),
    ),
)
