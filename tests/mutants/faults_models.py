"""Faults in the models, and in what is stored of a real one."""

from fault import fault

STACK = "attnlib/models/stack.py"
ENCODER = "attnlib/models/encoder.py"
BOTH = "attnlib/models/encoder_decoder.py"
HEAD = "attnlib/models/head.py"
INPUTS = "attnlib/models/inputs.py"
STORED = "attnlib/data/attention_of_models.py"
MAKER = "book/make_attention.py"

T_MODELS = "tests/test_models.py"
T_KINDS = "tests/test_models_of_all_kinds.py"
T_STORED = "tests/test_attention_data.py"
T_REFUSALS = "tests/refusals/test_models_refusals.py"


FAULTS = (
    # --- from words to states -----------------------------------------------------------------
    fault(
        "a decoder sees the future",
        STACK,
        T_KINDS,
        ("        if self.causal:\n", "        if False:\n"),
        bug="B18",
    ),
    fault(
        "the encoder beside a decoder is causal too",
        STACK,
        T_KINDS,
        ("self.causal = sizes.causal and not of_encoder", "self.causal = sizes.causal"),
    ),
    fault(
        "padding is read",
        STACK,
        T_KINDS,
        ("            masks.append(padding_mask(rows.is_token))\n", "            pass\n"),
    ),
    fault(
        "positions count the padding on the left too",
        STACK,
        T_KINDS,
        (
            "        return padded_positions(self.is_token)\n",
            "        return torch.arange(self.n_places).expand_as(self.is_token)\n",
        ),
        bug="B65",
    ),
    fault(
        "a window of W reads W + 1",
        STACK,
        T_KINDS,
        ("steps_b1ts < window", "steps_b1ts <= window"),
        bug="B40",
    ),
    fault(
        "a window counts padding",
        STACK,
        T_KINDS,
        (
            "torch.atleast_2d(rows.all_positions)",
            "torch.atleast_2d(torch.arange(rows.n_places))",
        ),
    ),
    fault(
        "all layers have the mask of the first",
        STACK,
        T_KINDS,
        (
            "return [masks[window] for window in self.windows]",
            "return [masks[self.windows[0]] for window in self.windows]",
        ),
    ),
    fault(
        "every layer reads what enters the first",
        STACK,
        T_MODELS,
        ("states.append(block(states[-1], **", "states.append(block(states[0], **"),
    ),
    fault(
        "the norm at the end is left out",
        STACK,
        T_KINDS,
        ("            states[-1] = self.end_norm(states[-1])\n", "            pass\n"),
    ),
    fault(
        "the embedding is not normed",
        STACK,
        T_MODELS,
        ("            x_btm = self.embedding_norm(x_btm)\n", "            pass\n"),
    ),
    fault(
        "the positions are scaled with the embedding",
        STACK,
        T_KINDS,
        (
            "        return x_btm if segments is None else",
            "        if sizes.scaled_embedding:\n"
            "            x_btm = words_btm + (x_btm - words_btm) * sizes.width**0.5\n"
            "        return x_btm if segments is None else",
        ),
    ),
    fault(
        "the factor of a scaled embedding is not rounded",
        STACK,
        T_KINDS,
        (
            "words_btm = words_btm * torch.tensor(sizes.width**0.5, dtype=dtype)",
            "words_btm = words_btm * sizes.width**0.5",
        ),
    ),
    fault(
        "segments that are given are forgotten",
        STACK,
        T_MODELS,
        ("is not None and segments is None:", "is not None:"),
    ),
    fault(
        "without segments all tokens are in the last",
        STACK,
        T_MODELS,
        ("segments = torch.zeros(words", "segments = torch.ones(words"),
    ),
    fault(
        "the weights that are shown are those of the next state",
        STACK,
        T_MODELS,
        (
            "block.attention_weights(x, may_attend=mask, **own)",
            "block.attention_weights(block(x, may_attend=mask, **own), may_attend=mask, **own)",
        ),
    ),
    fault(
        "what enters the first layer is never dropped",
        STACK,
        T_KINDS,
        ("return self.dropout(x_btm)", "return x_btm"),
    ),
    # --- how the weights begin ----------------------------------------------------------------
    fault(
        "what is added to the stream begins as large as the rest",
        STACK,
        T_KINDS,
        ("_SPREAD / n_sub_layers**0.5", "_SPREAD"),
    ),
    fault(
        "cross-attention is not counted among what is added",
        STACK,
        T_KINDS,
        ("(3 if stack.reads_encoder else 2)", "2"),
    ),
    fault(
        "a scaled embedding begins as one that is not",
        STACK,
        T_KINDS,
        ("                spread = model.sizes.width**-0.5\n", "                pass\n"),
    ),
    fault(
        "the generator is accepted and not used",
        STACK,
        T_KINDS,
        ("std=spread, generator=generator)", "std=spread)"),
    ),
    # --- encoders -----------------------------------------------------------------------------
    fault(
        "a sentence vector counts padding in its mean",
        ENCODER,
        T_MODELS,
        ("is_token.sum(-1, keepdim=True)", "is_token.shape[-1]"),
    ),
    fault(
        "the pooler looks at the last place",
        ENCODER,
        T_MODELS,
        ("self.pooler(out_btm[:, 0])", "self.pooler(out_btm[:, -1])"),
    ),
    fault(
        "the pooler has no hyperbolic tangent",
        ENCODER,
        T_MODELS,
        ("return torch.tanh(self.pooler(out_btm[:, 0]))", "return self.pooler(out_btm[:, 0])"),
    ),
    # --- decoders -----------------------------------------------------------------------------
    fault(
        "the embedding gives the logits although there is a matrix for them",
        HEAD,
        T_KINDS,
        (" if output is None else output(x_btm)", ""),
    ),
    fault(
        "a translator does not use its own matrix for the logits",
        BOTH,
        T_KINDS,
        ("logits_of_states(x_btm, self.output, ", "logits_of_states(x_btm, None, "),
    ),
    fault(
        "the decoder reads what enters the encoder",
        BOTH,
        T_KINDS,
        ("is_token=is_source)[-1]", "is_token=is_source)[0]"),
    ),
    fault(
        "the decoder reads the padding of the source",
        BOTH,
        T_KINDS,
        (
            "                may_read=is_source,\n                cache=cache,\n",
            "                cache=cache,\n",
        ),
    ),
    fault(
        "the encoder reads the padding of the source",
        BOTH,
        T_KINDS,
        (
            "(self.word_embedding(source), is_token=is_source)[-1]",
            "(self.word_embedding(source))[-1]",
        ),
    ),
    # --- refusals -----------------------------------------------------------------------------
    fault(
        "a causal model is taken for an encoder",
        ENCODER,
        T_REFUSALS,
        ("sizes, causal=False, n_enc", "sizes, n_enc"),
    ),
    fault(
        "an encoder may have a matrix of its own for the output, which nobody reads",
        ENCODER,
        T_REFUSALS,
        (", tied_embeddings=True)", ")"),
    ),
    fault(
        "a token may have the number v",
        INPUTS,
        T_REFUSALS,
        ("<= most < count:", "<= most <= count:"),
    ),
    fault(
        "a row may be longer than the context",
        INPUTS,
        T_REFUSALS,
        ("if not 1 <= n_places <= sizes.context:", "if not 1 <= n_places:"),
    ),
    fault(
        "truth values of another shape pass",
        INPUTS,
        T_REFUSALS,
        ("        check_same_shape(name, is_token, tokens_name, tokens)\n", ""),
    ),
    fault(
        "a decoder finds out late that it has nothing to read",
        STACK,
        T_REFUSALS,
        ("        self._require_read(words_btm, read, may_read, cache)\n", ""),
    ),
    # --- what is stored of a real model -------------------------------------------------------
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
