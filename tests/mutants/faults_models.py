"""Faults in the encoder, in reading its weights, and in what is stored of a real model."""

from fault import fault

MODELS = "attnlib/models.py"
PRETRAINED = "attnlib/pretrained.py"
STORED = "attnlib/data/attention_of_models.py"
MAKER = "book/make_attention.py"

T_MODELS = "tests/test_models.py"
T_PRETRAINED = "tests/test_pretrained.py"
T_STORED = "tests/test_attention_data.py"
T_REFUSALS = "tests/refusals/test_models_refusals.py"

FAULTS = (
    fault(
        "the sum around attention is left out",
        MODELS,
        T_MODELS,
        (
            "self.attention_norm(x + self.attention(x, may_attend=may_attend))",
            "self.attention_norm(self.attention(x, may_attend=may_attend))",
        ),
    ),
    fault(
        "the encoder norms before attention, not after the sum",
        MODELS,
        T_MODELS,
        (
            "self.attention_norm(x + self.attention(x, may_attend=may_attend))",
            "x + self.attention(self.attention_norm(x), may_attend=may_attend)",
        ),
    ),
    fault(
        "the sum around the network takes the layer's input",
        MODELS,
        T_MODELS,
        (
            "self.feed_forward_norm(y + self.narrow(F.gelu(self.widen(y))))",
            "self.feed_forward_norm(x + self.narrow(F.gelu(self.widen(y))))",
        ),
    ),
    fault(
        "GELU is approximated by the hyperbolic tangent",
        MODELS,
        T_MODELS,
        ("F.gelu(self.widen(y))", 'F.gelu(self.widen(y), approximate="tanh")'),
    ),
    fault(
        "the network has ReLU in place of GELU",
        MODELS,
        T_MODELS,
        ("F.gelu(self.widen(y))", "F.relu(self.widen(y))"),
    ),
    fault(
        "the two norms of a block are one",
        MODELS,
        T_MODELS,
        ("return self.feed_forward_norm(y + self", "return self.attention_norm(y + self"),
    ),
    fault(
        "a norm has torch's epsilon in place of the model's",
        MODELS,
        T_MODELS,
        (
            "self.attention_norm = nn.LayerNorm(m, eps=sizes.norm_epsilon)",
            "self.attention_norm = nn.LayerNorm(m)",
        ),
    ),
    fault(
        "the embedding is not normed",
        MODELS,
        T_MODELS,
        ("return self.embedding_norm(\n", "return (\n"),
    ),
    fault(
        "positions count the padding on the left too",
        MODELS,
        T_MODELS,
        (
            "positions = padded_positions(is_token)",
            "positions = torch.arange(tokens.shape[1], device=tokens.device)",
        ),
    ),
    fault(
        "segments that are given are forgotten",
        MODELS,
        T_MODELS,
        ("torch.zeros_like(tokens) if segments is None else segments", "torch.zeros_like(tokens)"),
    ),
    fault(
        "without segments all tokens are in the last",
        MODELS,
        T_MODELS,
        ("torch.zeros_like(tokens) if segments", "torch.ones_like(tokens) if segments"),
    ),
    fault(
        "padding is read",
        MODELS,
        T_MODELS,
        (
            "        may_attend = None if is_token is None else padding_mask(is_token)\n"
            "        states = [x]\n",
            "        may_attend = None\n        states = [x]\n",
        ),
    ),
    fault(
        "the weights that are shown let padding be read",
        MODELS,
        T_MODELS,
        (
            "        may_attend = None if is_token is None else padding_mask(is_token)\n"
            "        weights = [\n",
            "        may_attend = None\n        weights = [\n",
        ),
    ),
    fault(
        "the weights that are shown are those of the next state",
        MODELS,
        T_MODELS,
        ("zip(self.blocks, states, strict=False)", "zip(self.blocks, states[1:], strict=False)"),
    ),
    fault(
        "every layer reads what enters the first",
        MODELS,
        T_MODELS,
        ("states.append(block(states[-1], may", "states.append(block(states[0], may"),
    ),
    fault(
        "a sentence vector counts padding in its mean",
        MODELS,
        T_MODELS,
        ("is_token.sum(-1, keepdim=True)", "is_token.shape[-1]"),
    ),
    fault(
        "the pooler looks at the last place",
        MODELS,
        T_MODELS,
        ("self.pooler(out_btm[:, 0])", "self.pooler(out_btm[:, -1])"),
    ),
    fault(
        "the pooler has no hyperbolic tangent",
        MODELS,
        T_MODELS,
        ("return torch.tanh(self.pooler(out_btm[:, 0]))", "return self.pooler(out_btm[:, 0])"),
    ),
    fault(
        "a causal model is taken for an encoder",
        MODELS,
        T_REFUSALS,
        ('    "causal": False,\n', ""),
    ),
    fault(
        "a token may have the number v",
        MODELS,
        T_REFUSALS,
        ("<= int(x.max()) < count:", "<= int(x.max()) <= count:"),
    ),
    fault(
        "a row may be longer than the context",
        MODELS,
        T_REFUSALS,
        ("if not 1 <= t <= self.sizes.context:", "if not 1 <= t:"),
    ),
    fault(
        "truth values of another shape pass",
        MODELS,
        T_REFUSALS,
        ('            _require_same_shape("is_token", is_token, tokens)\n', ""),
    ),
    fault(
        "queries and keys change places on reading",
        PRETRAINED,
        T_PRETRAINED,
        ('"attention.self.query"', '"attention.self.key"'),
        ('("attention.key", "attention.self.key")', '("attention.key", "attention.self.query")'),
    ),
    fault(
        "the two norms of a layer change places on reading",
        PRETRAINED,
        T_PRETRAINED,
        (
            '("attention_norm", "attention.output.LayerNorm")',
            '("attention_norm", "output.LayerNorm")',
        ),
        (
            '("feed_forward_norm", "output.LayerNorm")',
            '("feed_forward_norm", "attention.output.LayerNorm")',
        ),
    ),
    fault(
        "the hash of a file is not looked at",
        PRETRAINED,
        T_PRETRAINED,
        ("if sha256 is not None and found != sha256:", "if False:"),
    ),
    fault(
        "the hash of the vocabulary is not handed on",
        PRETRAINED,
        T_PRETRAINED,
        ("sha256=source.vocabulary_sha256 if verify else None", "sha256=None"),
    ),
    fault(
        "files are verified even where that is not wanted",
        PRETRAINED,
        T_PRETRAINED,
        ("sha256=source.weights_sha256 if verify else None", "sha256=source.weights_sha256"),
    ),
    fault(
        "tensors that are not expected pass",
        PRETRAINED,
        T_PRETRAINED,
        ("    if missing or more:\n", "    if missing:\n"),
    ),
    fault(
        "half-precision tensors pass",
        PRETRAINED,
        T_PRETRAINED,
        (
            "if tensor.shape != shape or tensor.dtype != torch.float32:",
            "if tensor.shape != shape:",
        ),
    ),
    fault(
        "the package is imported to find it",
        PRETRAINED,
        T_PRETRAINED,
        (
            "    spec = find_spec(source.package)\n",
            "    spec = find_spec(source.package)\n    spec and __import__(source.package)\n",
        ),
    ),
    fault(
        "reading a model draws random numbers",
        PRETRAINED,
        T_PRETRAINED,
        ('with torch.device("meta"):', 'with torch.device("cpu"):'),
    ),
    fault(
        "a model is given back in training mode",
        PRETRAINED,
        T_PRETRAINED,
        ("return model.eval()", "return model.train()"),
    ),
    fault(
        "a batch is filled up on the left, its mask on the right",
        PRETRAINED,
        T_PRETRAINED,
        (
            "[row + [0] * (t - len(row)) for row in rows]",
            "[[0] * (t - len(row)) + row for row in rows]",
        ),
    ),
    fault(
        "any separator of lines ends a piece",
        PRETRAINED,
        T_PRETRAINED,
        ('.removesuffix("\\n").split("\\n")', ".splitlines()"),
    ),
    fault(
        "a piece may stand twice in a vocabulary",
        PRETRAINED,
        T_PRETRAINED,
        ("    if len(vocabulary) != len(pieces):\n", "    if False:\n"),
    ),
    fault(
        "an encoder may be without biases",
        MODELS,
        T_REFUSALS,
        ('{"biases": True, "query_key_norm": False}', '{"query_key_norm": False}'),
    ),
    fault(
        "an encoder may have a matrix of its own for the output, which nobody reads",
        MODELS,
        T_REFUSALS,
        ('    "tied_embeddings": True,\n    "experts"', '    "experts"'),
    ),
    fault(
        "numbers of a kind that torch does not have end in a KeyError",
        PRETRAINED,
        T_PRETRAINED,
        (
            "except (safetensors.SafetensorError, KeyError) as",
            "except safetensors.SafetensorError as",
        ),
    ),
    fault(
        "a vocabulary with the ends of lines of Windows is read with them",
        PRETRAINED,
        T_PRETRAINED,
        ('    if "\\r\\n" in text:\n', "    if False:\n"),
    ),
    fault(
        "without all heads of a layer one head stays",
        MAKER,
        T_STORED,
        (
            "slice(head, head + 1) for head in range(h)), slice(h)]",
            "slice(head, head + 1) for head in range(h)), slice(h - 1)]",
        ),
    ),
    fault(
        "what a layer loses is what its last head loses",
        MAKER,
        T_STORED,
        ("return found[:, :h], found[:, h],", "return found[:, :h], found[:, h - 1],"),
    ),
    fault(
        "without a head the bias of the output goes too",
        MAKER,
        T_STORED,
        ("    out = block(x)\n", "    block.attention.output.bias.zero_()\n    out = block(x)\n"),
    ),
    fault(
        "a head that was taken out does not come back",
        MAKER,
        T_STORED,
        ("    columns.copy_(kept)\n", ""),
    ),
    fault(
        "another head is taken out than the one that was asked for",
        MAKER,
        T_STORED,
        ("unflatten(1, (-1, e))[:, heads]", "unflatten(1, (e, -1))[:, :, heads]"),
    ),
    fault(
        "the distance of paragraphs is their cosine",
        MAKER,
        T_STORED,
        ("1 - mean_cosine(", "mean_cosine("),
    ),
    fault(
        "the distance of paragraphs counts each with itself",
        MAKER,
        T_STORED,
        ("mean_cosine(torch.cat(vectors).numpy())", "mean_cosine(torch.cat(vectors * 2).numpy())"),
    ),
    fault(
        "a layer without a head does not reach the end of the model",
        MAKER,
        T_STORED,
        ("for later in blocks[layer + 1 :]:", "for later in blocks[layer + 2 :]:"),
    ),
    fault(
        "passages begin where their eighth does not",
        MAKER,
        T_STORED,
        ("(2 * i + 1) // (2 * N_PASSAGES", "(2 * i) // (2 * N_PASSAGES"),
    ),
    fault(
        "headings are paragraphs",
        MAKER,
        T_STORED,
        ("if line and not line[-1].isalnum()]", "if line]"),
    ),
    fault(
        "the divergence is taken to the sum of two rows, not to their mean",
        MAKER,
        T_STORED,
        ("entr((rows[i] + rows[j]) / 2)", "entr(rows[i] + rows[j])"),
    ),
    fault(
        "the largest score is one before the scale",
        MAKER,
        T_STORED,
        ("products.abs().amax(1) * attention.score_scale", "products.abs().amax(1)"),
    ),
    fault(
        "three digits are kept of four",
        MAKER,
        T_STORED,
        ('f"{y:.4g}"', 'f"{y:.3g}"'),
    ),
    fault(
        "states are those after the first layer",
        MAKER,
        T_STORED,
        ("model.embed(torch.tensor([ids]))[0]", "model.states(torch.tensor([ids]))[1][0]"),
    ),
    fault(
        "weights are read in halves of their step",
        STORED,
        T_STORED,
        ("_WEIGHT_STEP = 1 / 65535", "_WEIGHT_STEP = 0.5 / 65535"),
    ),
)
