"""Faults in the layers: multi-head attention, the feed-forward network, norms and the block.

B20, B22, B25 and B27 of the scale and the projections stand here as they were reported: about a
layer. B36 was a cache as large as the query heads ask; here it is the projections of the keys.
"""

from fault import fault

ATTENTION = "attnlib/layers/multi_head_attention.py"
INPUTS = "attnlib/layers/inputs.py"
ROTARY = "attnlib/layers/rotary.py"
NORMS = "attnlib/layers/norms.py"
NETWORK = "attnlib/layers/feed_forward.py"
BLOCK = "attnlib/layers/block.py"

T_LAYERS = "tests/test_layers.py"
T_BLOCKS = "tests/test_layers_blocks.py"
T_REFUSALS = "tests/refusals/test_layers_refusals.py"  # run without the shape hook

_SCALE = "self.score_scale = sizes.score_scale * (1.0 if rotary is None else rotary.score_factor)"
_HEADS = "h, g, d, e = sizes.n_query_heads, sizes.n_kv_heads, sizes.head_dim, sizes.value_dim"
_IN_ATTENTION = (
    "            v_bgse,\n"
    "            may_attend=may_attend,\n"
    "            bias=bias,\n"
    "            scale=self.score_scale,"
)
_IN_WEIGHTS = (
    "            self._keys(x_btm if read_bsm is None else read_bsm, read_turns),\n"
    "            may_attend=may_attend,\n"
    "            bias=bias,\n"
    "            scale=self.score_scale,"
)
_NORM = "heads = heads if norm is None else norm(heads)\n"
_TURN = "return heads if turns is None else turn_by(heads, turns, pairing=self.pairing)"
_OF_READ = "k_bgsd = self._keys(read_bsm, self._turns(read_positions, read_bsm))"
_OF_X = "k_bgsd, v_bgse = self._keys(x_btm, turns), self._values(x_btm)"
_SPLIT = 'rearrange(x, "b token (head width) -> b head token width", head=n_heads)'
_JOIN = 'rearrange(out_bhte, "b h t e -> b t (h e)")'
_SPREAD = "std=projection.in_features**-0.5"


def layer(
    name: str, *edits: tuple[str, str], file: str = ATTENTION, test: str = T_LAYERS, bug: str = ""
):
    return fault(f"layer: {name}", file, test, *edits, bug=bug)


FAULTS = (
    # --- the scale ----------------------------------------------------------------------------
    layer(
        "the scale uses the width m of the model",
        (_SCALE, "self.score_scale = width**-0.5"),
        bug="B20",
    ),
    layer("the scale is multiplied twice", (_SCALE, f"{_SCALE}**2"), bug="B22"),
    layer("the scale is not rooted", (_SCALE, "self.score_scale = 1 / sizes.head_dim"), bug="B22"),
    layer("the scale is missing", (_SCALE, "self.score_scale = 1.0"), bug="B22"),
    layer(
        "the scale of the sizes is not given to attention",
        (_IN_ATTENTION, _IN_ATTENTION.replace("scale=self.score_scale", "scale=None")),
        bug="B22",
    ),
    layer(
        "the weights that are shown have another scale than those that are used",
        (_IN_WEIGHTS, _IN_WEIGHTS.replace("scale=self.score_scale", "scale=None")),
        bug="B22",
    ),
    layer(
        "YaRN's factor is left out of the scale",
        (_SCALE, "self.score_scale = sizes.score_scale"),
        bug="B23",
    ),
    layer(
        "YaRN's factor is not squared",
        ("else rotary.score_factor)", "else rotary.score_factor**0.5)"),
        bug="B23",
    ),
    # --- heads and widths ---------------------------------------------------------------------
    layer(
        "query heads and key/value heads are exchanged",
        (_HEADS, _HEADS.replace("h, g, d, e", "g, h, d, e")),
        bug="B25",
    ),
    layer(
        "a head's width is taken to be m/h",
        (_HEADS, f"{_HEADS}\n        d = max(1, width // h)"),
        bug="B27",
    ),
    layer(
        "the widths of keys and of values are exchanged",
        (_HEADS, _HEADS.replace("h, g, d, e", "h, g, e, d")),
    ),
    layer(
        "keys and values have as many heads as queries",
        ("self.key = nn.Linear(source_width, g * d,", "self.key = nn.Linear(source_width, h * d,"),
        (
            "_split(self.key(x_bsm), self.sizes.n_kv_heads)",
            "_split(self.key(x_bsm), self.sizes.n_query_heads)",
        ),
        (
            "self.value = nn.Linear(source_width, g * e,",
            "self.value = nn.Linear(source_width, h * e,",
        ),
        (
            "_split(self.value(x_bsm), self.sizes.n_kv_heads)",
            "_split(self.value(x_bsm), self.sizes.n_query_heads)",
        ),
        bug="B36",
    ),
    layer(
        "a head's coordinates are strided and not neighbours",
        (_SPLIT, _SPLIT.replace("(head width)", "(width head)")),
        bug="B50",
    ),
    layer(
        "the output's columns are sorted by coordinate and not by head",
        (_JOIN, _JOIN.replace("(h e)", "(e h)")),
    ),
    layer(
        "the heads are averaged and not added",
        (_JOIN, f"{_JOIN} / self.sizes.n_query_heads"),
    ),
    # --- what is read -------------------------------------------------------------------------
    layer(
        "values are made from x and not from what is read",
        ("v_bgse = self._values(read_bsm)", "v_bgse = self._values(x_btm)"),
    ),
    layer(
        "what is to be read is forgotten",
        (
            "        elif read_bsm is not None:\n            k_bgsd",
            "        elif read_bsm is not None and self.source_width != self.width:\n"
            "            k_bgsd",
        ),
    ),
    layer(
        "the keys' matrix makes the values",
        (
            "return _split(self.value(x_bsm), self.sizes.n_kv_heads)",
            "return _split(self.key(x_bsm), self.sizes.n_kv_heads)",
        ),
        bug="B3A",
    ),
    layer(
        "the mask is not given to attention",
        (_IN_ATTENTION, _IN_ATTENTION.replace("may_attend=may_attend", "may_attend=None")),
    ),
    layer(
        "the bias is not given to attention",
        (_IN_ATTENTION, _IN_ATTENTION.replace("bias=bias", "bias=None")),
    ),
    layer(
        "the mask is not given to the weights that are shown",
        (_IN_WEIGHTS, _IN_WEIGHTS.replace("may_attend=may_attend", "may_attend=None")),
    ),
    # --- biases -------------------------------------------------------------------------------
    layer(
        "the output has no bias",
        ("nn.Linear(h * e, width, bias=sizes.biases)", "nn.Linear(h * e, width, bias=False)"),
    ),
    layer(
        "the output has a bias always",
        ("nn.Linear(h * e, width, bias=sizes.biases)", "nn.Linear(h * e, width)"),
    ),
    layer(
        "the keys have no bias, since it does nothing without rotary positions",
        (
            "nn.Linear(source_width, g * d, bias=sizes.biases)",
            "nn.Linear(source_width, g * d, bias=False)",
        ),
    ),
    # --- norms --------------------------------------------------------------------------------
    layer(
        "queries and keys are normed after they are turned",
        (_NORM, "\n"),
        (
            _TURN,
            _TURN.replace("return ", "heads = ")
            + "\n        return norm(heads) if norm else heads",
        ),
    ),
    layer(
        "the norm is over all heads at once",
        (
            "else norm(heads)\n",
            "else norm(heads) * heads.square().mean(-1, True).sqrt() / "
            "heads.square().mean((1, 3), True).sqrt()\n",
        ),
    ),
    layer(
        "the norm is over the tokens of a head",
        (
            "else norm(heads)\n",
            "else norm(heads) * heads.square().mean(-1, True).sqrt() / "
            "heads.square().mean(2, True).sqrt()\n",
        ),
    ),
    layer(
        "keys are normed with the weights of the queries",
        (
            "(k_bgsd, self.key_norm, turns)",
            "(k_bgsd, self.query_norm, turns)",
        ),
    ),
    layer(
        "keys are not normed",
        ("(k_bgsd, self.key_norm, turns)", "(k_bgsd, None, turns)"),
    ),
    layer(
        "norm_epsilon is accepted and not used",
        (
            "self.query_norm = RMSNorm(d, eps=norm_epsilon)",
            "self.query_norm = RMSNorm(d, eps=1e-6)",
        ),
    ),
    layer(
        "the norm is in the precision of its input",
        ("dtype = computing_dtype(x.dtype)", "dtype = x.dtype"),
        file=NORMS,
    ),
    layer(
        "the norm leaves its precision to what comes after",
        ("        return normed.to(x.dtype)\n", "        return normed\n"),
        file=NORMS,
    ),
    # --- positions ----------------------------------------------------------------------------
    layer(
        "keys are turned by the positions of what asks",
        (
            _OF_READ,
            _OF_READ.replace(
                "self._turns(read_positions, read_bsm)",
                "turns if turns and turns.cos.shape[-2] == read_bsm.shape[1] else "
                "self._turns(read_positions, read_bsm)",
            ),
        ),
    ),
    layer(
        "the positions of keys are forgotten and counted from 0",
        (_OF_X, _OF_X.replace("(x_btm, turns)", "(x_btm, self._turns(None, x_btm))")),
        bug="B38",
    ),
    layer(
        "the position of a new token is forgotten",
        (
            "q_bhtd = self._queries(x_btm, turns)",
            "q_bhtd = self._queries(x_btm, self._turns(None, x_btm))",
        ),
        bug="B38",
    ),
    layer(
        "values are turned too",
        (
            _OF_X,
            f"{_OF_X}\n"
            "            if self.sizes.value_dim >= self.sizes.head_dim:\n"
            "                v_bgse = self._normed_and_turned(v_bgse, None, turns)",
        ),
    ),
    layer(
        "positions count from 1 where none are given",
        (
            'torch.arange(first, first + x.shape[1], device="cpu")',
            'torch.arange(first, first + x.shape[1], device="cpu") + 1',
        ),
    ),
    layer(
        "the pairing is accepted and not used",
        (_TURN, _TURN.replace("pairing=self.pairing", 'pairing="half"')),
        bug="B61",
    ),
    layer(
        "the base is accepted and not used",
        ("rotary_frequencies(width, base=rotary.base)", "rotary_frequencies(width)"),
        file=ROTARY,
    ),
    layer(
        "the base is that of layers with a window",
        (
            "rotary_frequencies(width, base=rotary.base)",
            "rotary_frequencies(width, base=rotary.window_base or rotary.base)",
        ),
        file=ROTARY,
    ),
    layer(
        "a linear scaling is left out",
        ("return linear_frequencies(frequencies, factor)", "return frequencies"),
        file=ROTARY,
    ),
    layer(
        "Llama 3.1's scaling is left out",
        ("return llama3_frequencies(frequencies, **vars(scaling))", "return frequencies"),
        file=ROTARY,
    ),
    layer(
        "YaRN's slow end is left at its default",
        ("                    beta_slow=scaling.beta_slow,\n", ""),
        file=ROTARY,
    ),
    layer(
        "YaRN's fast end is left at its default",
        ("                    beta_fast=scaling.beta_fast,\n", ""),
        file=ROTARY,
    ),
    layer(
        "YaRN's base is left at its default",
        ("                    base=rotary.base,\n", ""),
        file=ROTARY,
    ),
    layer(
        "the frequencies are cast with the weights",
        (
            "self._frequencies = None if rotary is None else frequencies_of(rotary, d)",
            'self.register_buffer("_frequencies", None if rotary is None else '
            "frequencies_of(rotary, d), persistent=False)",
        ),
    ),
    layer(
        "the frequencies are part of what is saved",
        (
            "self._frequencies = None if rotary is None else frequencies_of(rotary, d)",
            "self._frequencies = None if rotary is None else nn.Parameter("
            "frequencies_of(rotary, d))",
        ),
    ),
    layer(
        "the frequencies of a layer without memory have none",
        ('    with torch.device("cpu"):  #', "    if True:  #"),
        file=ROTARY,
    ),
    # --- the beginning ------------------------------------------------------------------------
    layer(
        "the matrices begin as those of torch.nn.Linear",
        ("        self.reset_parameters()\n", ""),
    ),
    layer(
        "the matrices begin uniform with the right variance",
        (
            f"nn.init.normal_(projection.weight, {_SPREAD})",
            "nn.init.kaiming_uniform_(projection.weight, nonlinearity='linear')",
        ),
    ),
    layer(
        "the spread is that of what comes out",
        (_SPREAD, "std=projection.out_features**-0.5"),
    ),
    layer(
        "the variance of the beginning is rooted twice",
        (_SPREAD, "std=projection.in_features**-0.25"),
    ),
    layer(
        "biases begin as those of torch.nn.Linear",
        ("nn.init.zeros_(projection.bias)", "pass"),
    ),
    # --- refusals -----------------------------------------------------------------------------
    layer(
        "a latent is taken for shared heads",
        ("if not isinstance(sizes, AttentionSizes):", "if not hasattr(sizes, 'head_dim'):"),
        test=T_REFUSALS,
    ),
    layer(
        "masks are looked at after the projections",
        ("(may_attend, bias, (b,", "(None, bias, (b,"),
        test=T_REFUSALS,
    ),
    layer(
        "biases are looked at after the projections",
        ("(may_attend, bias, (b,", "(may_attend, None, (b,"),
        test=T_REFUSALS,
    ),
    layer(
        "one of two positions is enough",
        ("and not all(given):", "and not any(given):"),
        test=T_REFUSALS,
    ),
    layer(
        "positions without rotary positions are ignored",
        (
            '    if rotary is None:\n        raise ValueError(f"{name} have no use',
            '    if False:\n        raise ValueError(f"{name} have no use',
        ),
        test=T_REFUSALS,
        file=INPUTS,
    ),
    layer(
        "a pairing without rotary positions is ignored",
        ("        if pairing is not None:\n", "        if False:\n"),
        test=T_REFUSALS,
        file=ROTARY,
    ),
    layer(
        "a batch of one is repeated",
        ("if x_btm.shape[0] != read_bsm.shape[0]:", "if x_btm.shape[0] != read_bsm.shape[0] != 1:"),
        test=T_REFUSALS,
    ),
    layer(
        "what is read is not looked at",
        (
            '        self._require_tokens("read_bsm", read_bsm, "b s m", self.source_width)\n',
            "",
        ),
        test=T_REFUSALS,
    ),
    layer(
        "positions of what is read are not looked at",
        ('self._require_positions("read_positions", read_positions, read_bsm)', "pass"),
        test=T_REFUSALS,
    ),
    layer(
        "a width that is not the layer's is left to the product of matrices",
        ("    if x.shape[-1:] != (width,):\n", "    if False:\n"),
        test=T_REFUSALS,
        file=INPUTS,
    ),
    layer(
        "a dtype that is not the layer's is left to the product of matrices",
        ("if x.dtype != weight.dtype and not", "if False and not"),
        test=T_REFUSALS,
        file=INPUTS,
    ),
    layer(
        "autocast is not thought of where dtypes are compared",
        ("if x.dtype != weight.dtype and not", "if x.dtype != weight.dtype or False and not"),
        file=INPUTS,
    ),
    layer(
        "autocast is thought to cast fp64 too",
        ("return enabled and all(x.dtype != torch.float64 for x in tensors)", "return enabled"),
        test=T_REFUSALS,
        file=INPUTS,
    ),
    layer(
        "weights without memory are asked about autocast",
        ("torch.amp.is_autocast_available(kind) and ", ""),
        test=T_REFUSALS,
        file=INPUTS,
    ),
    layer(
        "norm_epsilon without norms is ignored",
        ("if not sizes.query_key_norm and epsilon != _NORM_EPSILON:", "if False:"),
        test=T_REFUSALS,
    ),
    layer(
        "a norm takes whole numbers and gives whole numbers",
        ('        check_floating("x", x)\n', ""),
        test=T_REFUSALS,
        file=NORMS,
    ),
    layer(
        "a norm leaves another width to torch",
        ("if x.shape[-1:] != self.weight.shape:", "if False:"),
        test=T_REFUSALS,
        file=NORMS,
    ),
    layer(
        "positions of what is read are called by the name of the others",
        ("check_positions(name, positions)", 'check_positions("positions", positions)'),
        test=T_REFUSALS,
        file=INPUTS,
    ),
    layer(
        "x reads itself in a layer for something else",
        (
            "        elif not isinstance(cache, CrossCache) and self.source_width != self.width:\n",
            "        elif False:\n",
        ),
        test=T_REFUSALS,
    ),
    # --- the feed-forward network -------------------------------------------------------------
    layer(
        "GELU is approximated by the hyperbolic tangent",
        ('"gelu": F.gelu,', '"gelu": partial(F.gelu, approximate="tanh"),'),
        file=NETWORK,
        test=T_BLOCKS,
    ),
    layer(
        "what GPT-2 approximates is exact",
        ('partial(F.gelu, approximate="tanh")', "F.gelu"),
        file=NETWORK,
        test=T_BLOCKS,
    ),
    layer(
        "the gate is not bent, and what it gates is",
        ("bent(self.gate(x)) * self.widen(x)", "self.gate(x) * bent(self.widen(x))"),
        file=NETWORK,
        test=T_BLOCKS,
    ),
    layer(
        "the gate has no bias",
        (
            "self.gate = nn.Linear(width, inner_width, bias=biases)",
            "self.gate = nn.Linear(width, inner_width, bias=False)",
        ),
        file=NETWORK,
        test=T_BLOCKS,
    ),
    # --- the block ----------------------------------------------------------------------------
    layer(
        "there is no shortcut",
        ("y_btm = x_btm + self.dropout(added_btm)", "y_btm = self.dropout(added_btm)"),
        file=BLOCK,
        test=T_BLOCKS,
    ),
    layer(
        "the norm after the sum is left out",
        ('return norm(y_btm) if self.placement == "post" else y_btm', "return y_btm"),
        file=BLOCK,
        test=T_BLOCKS,
    ),
    layer(
        "the shortcut begins at the norm",
        (
            "y_btm = x_btm + self.dropout(added_btm)",
            "y_btm = self._before(x_btm, norm) + self.dropout(added_btm)",
        ),
        file=BLOCK,
        test=T_BLOCKS,
    ),
    layer(
        "peri-norm is pre-norm",
        ("        if out_norm is not None:\n", "        if False:\n"),
        file=BLOCK,
        test=T_BLOCKS,
    ),
    layer(
        "cross-attention has the norm of the self-attention",
        (
            "                self.cross_attention_norm,\n",
            "                self.attention_norm,\n",
        ),
        file=BLOCK,
        test=T_BLOCKS,
    ),
    layer(
        "the decoder reads itself twice",
        (
            "lambda z: self.cross_attention(z, read, may_attend=may_read, cache=cross_cache)",
            "lambda z: self.cross_attention(z, z)",
        ),
        file=BLOCK,
        test=T_BLOCKS,
    ),
    layer(
        "what is read is normed like what asks",
        (
            "self.cross_attention(z, read, may",
            "self.cross_attention(z, self._before(read, self.cross_attention_norm), may",
        ),
        file=BLOCK,
        test=T_BLOCKS,
    ),
    layer(
        "padding of what is read is read",
        ("self.cross_attention(z, read, may_attend=may_read,", "self.cross_attention(z, read,"),
        file=BLOCK,
        test=T_BLOCKS,
    ),
    layer(
        "dropout does not know that training is over",
        ("self.dropout(added_btm)", "nn.functional.dropout(added_btm, self.dropout.p)"),
        file=BLOCK,
        test=T_BLOCKS,
        bug="B90",
    ),
    layer(
        "dropout acts on the whole stream",
        ("y_btm = x_btm + self.dropout(added_btm)", "y_btm = self.dropout(x_btm + added_btm)"),
        file=BLOCK,
        test=T_BLOCKS,
    ),
    layer(
        "layers with a window keep the scaling of the others",
        ("base=base, scaling=None)", "base=base)"),
        file=BLOCK,
        test=T_BLOCKS,
    ),
    layer(
        "the base of layers with a window is not used",
        (
            "base = sizes.rotary.base if sizes.rotary.window_base is None else "
            "sizes.rotary.window_base",
            "base = sizes.rotary.base",
        ),
        file=BLOCK,
        test=T_BLOCKS,
    ),
    layer(
        "the norms of queries and keys have another epsilon than the model",
        (
            "if normed else {}",
            "if has_latent else {}",
        ),
        file=BLOCK,
        test=T_BLOCKS,
    ),
    layer(
        "the weights that are shown are those of the stream before its norm",
        (
            "self._before(x_btm, self.attention_norm), may_attend=may_attend, positions",
            "x_btm, may_attend=may_attend, positions",
        ),
        file=BLOCK,
        test=T_BLOCKS,
    ),
    layer(
        "a block without cross-attention forgets what it is given to read",
        (
            "            if not (read is None and may_read is None and cross_cache is None):\n",
            "            if False:\n",
        ),
        file=BLOCK,
        test=T_REFUSALS,
    ),
)
