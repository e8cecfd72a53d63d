"""Faults in multi-head latent attention: its two forms, its layer, its cache and models of it.

B23, B53 and B55 are rows of the reports on latent attention. B57, bytes without the rotary part or
with a factor 2 for values, was a formula there; here the bytes are those of what is kept.
"""

from fault import fault

LATENT = "attnlib/latent.py"
LAYER = "attnlib/layers/latent_self_attention.py"
CACHE = "attnlib/caches/latent.py"
CACHES = "attnlib/caches/layer.py"
INPUTS = "attnlib/layers/inputs.py"
BLOCK = "attnlib/layers/block.py"

T_LATENT = "tests/test_latent.py"
T_LAYER = "tests/test_latent_layer.py"
T_REFUSALS = "tests/refusals/test_latent_refusals.py"  # run without the shape hook

_SCALE = "self.score_scale = sizes.score_scale * (1.0 if rotary is None else rotary.score_factor)"
_APPEND = "cache.append(latent_bsc, key_bsr)"
_NOTE = "            note_positions(cache, positions, self.rotary)\n"
_KEPT = "return self.kv_norm(self.kv_down(x_bsm)), key_bsr"


def latent(name: str, file: str, test: str, *edits: tuple[str, str], bug: str = ""):
    return fault(f"latent: {name}", file, test, *edits, bug=bug)


FAULTS = (
    # --- widths and scales --------------------------------------------------------------------
    latent(
        "the rotary part of a query is thought to come first",
        LAYER,
        T_LAYER,
        (
            "plain, turned = q_bhtd.split([self.sizes.nope_dim, self.sizes.rope_dim], dim=-1)",
            "turned, plain = q_bhtd.split([self.sizes.rope_dim, self.sizes.nope_dim], dim=-1)",
        ),
        bug="B53",
    ),
    latent(
        "the whole of a query is turned",
        LAYER,
        T_LAYER,
        (
            "return torch.cat([plain, turn_by(turned, turns, pairing=self.pairing)], dim=-1)",
            "return turn_by(q_bhtd, turns, pairing=self.pairing)",
        ),
        bug="B53",
    ),
    latent(
        "the scale of the absorbed form is that of its wide keys",
        LATENT,
        T_LATENT,
        ("    scale = q.shape[-1] ** -0.5 if scale is None else scale\n", ""),
        bug="B53",
    ),
    latent(
        "YaRN's factor is left out of the scale",
        LAYER,
        T_LAYER,
        (_SCALE, "self.score_scale = sizes.score_scale"),
        bug="B23",
    ),
    latent(
        "YaRN's factor is not squared",
        LAYER,
        T_LAYER,
        (_SCALE, _SCALE.replace("rotary.score_factor)", "rotary.score_factor**0.5)")),
        bug="B23",
    ),
    latent(
        "the values of the absorbed form are the last coordinates of its keys",
        LATENT,
        T_LATENT,
        ("key_b1s[..., : latent.shape[-1]]", "key_b1s[..., -latent.shape[-1] :]"),
        bug="B3A",
    ),
    latent(
        "a head's rows of the up-projections are strided and not neighbours",
        LAYER,
        T_LAYER,
        ('"(h width) c -> h width c"', '"(width h) c -> h width c"'),
        bug="B50",
    ),
    latent(
        "the output's columns are sorted by coordinate and not by head",
        LAYER,
        T_LAYER,
        ('"b h t e -> b t (h e)"', '"b h t e -> b t (e h)"'),
    ),
    # --- norms and positions ------------------------------------------------------------------
    latent(
        "the latent of the queries is not normed",
        LAYER,
        T_LAYER,
        ("self.query_norm(self.query_down(x_btm))", "self.query_down(x_btm)"),
    ),
    latent(
        "the shared key is normed with the latent",
        LAYER,
        T_LAYER,
        (
            "key_bsr = self.rotary_key(x_bsm)",
            "key_bsr = nn.functional.rms_norm(self.rotary_key(x_bsm), (self.sizes.rope_dim,))",
        ),
    ),
    latent(
        "the epsilon of the norms is accepted and not used",
        LAYER,
        T_LAYER,
        ("self.kv_norm = RMSNorm(c, eps=norm_epsilon)", "self.kv_norm = RMSNorm(c, eps=1e-6)"),
    ),
    latent(
        "a block leaves the epsilon of the latents at its default",
        BLOCK,
        T_LAYER,
        (
            "normed = has_latent or heads.query_key_norm",
            "normed = not has_latent and heads.query_key_norm",
        ),
    ),
    latent(
        "the pairing of keys is accepted and not used",
        LAYER,
        T_LAYER,
        (
            "turn_by(key_bsr, turns, pairing=self.pairing)",
            'turn_by(key_bsr, turns, pairing="half")',
        ),
        bug="B61",
    ),
    latent(
        "every chunk begins at position 0",
        LAYER,
        T_LAYER,
        ("first = 0 if cache is None else cache.n_tokens", "first = 0"),
        bug="B38",
    ),
    latent(
        "the key is kept before it is turned",
        LAYER,
        T_LAYER,
        (_APPEND, "cache.append(latent_bsc, self.rotary_key(x_btm))"),
        bug="B3E",
    ),
    # --- precision ----------------------------------------------------------------------------
    latent(
        "queries are rounded where they are carried to the latent",
        LATENT,
        T_LATENT,
        (
            "absorbed_queries(q.to(dtype), up_keys.to(dtype))",
            "absorbed_queries(q, up_keys).to(dtype)",
        ),
    ),
    latent(
        "what is averaged is rounded before it is carried back",
        LATENT,
        T_LATENT,
        (
            'torch.einsum("bhtc,hec->bhte", mean_bhtc, up_values.to(dtype))',
            'torch.einsum("bhtc,hec->bhte", mean_bhtc.to(q.dtype), up_values)',
        ),
    ),
    latent(
        "autocast reaches the absorbed form",
        LATENT,
        T_LATENT,
        ("with without_autocast(q.device):\n        q_", "if True:\n        q_"),
    ),
    latent(
        "autocast reaches the expanded form",
        LATENT,
        T_LATENT,
        ("with without_autocast(q.device):\n        k_", "if True:\n        k_"),
    ),
    latent(
        "weights are shown of keys that were rounded",
        LAYER,
        T_LAYER,
        ("dtype = computing_dtype(q_bhtd.dtype)", "dtype = q_bhtd.dtype"),
        bug="B15",
    ),
    # --- what is kept -------------------------------------------------------------------------
    latent(
        "a gap that was taken back stays",
        CACHES,
        T_LAYER,
        ("max(-1, min(last, n_tokens - 1))", "max(-1, last)"),
    ),
    latent(
        "an interrupted first chunk leaves its buffers",
        CACHES,
        T_LAYER,
        ("self._forget()  # an interrupt", "pass  # an interrupt"),
    ),
    latent(
        "the keys of all heads are kept beside the latent",
        LAYER,
        T_LAYER,
        (_APPEND, "cache.append(torch.cat([latent_bsc, self.key_up(latent_bsc)], -1), key_bsr)"),
        (_NOTE, f"{_NOTE}            latent_bsc = latent_bsc[..., : self.sizes.kv_latent]\n"),
        ("if cache.letters and cache.letters != wanted:", "if False:"),
        bug="B55",
    ),
    latent(
        "the shared key is kept for every head",
        LAYER,
        T_LAYER,
        (_APPEND, "cache.append(latent_bsc, key_bsr.repeat(1, 1, self.sizes.n_query_heads))"),
        (_NOTE, f"{_NOTE}            key_bsr = key_bsr[..., : self.sizes.rope_dim]\n"),
        ("if cache.letters and cache.letters != wanted:", "if False:"),
        bug="B55",
    ),
    latent(
        "the latent is kept twice, as keys and as values",
        CACHE,
        T_LAYER,
        ("torch.cat(raw, dim=-1)", "torch.cat([*raw, raw[0]], dim=-1)"),
        (
            "list(both.split([x.shape[-1] for x in raw], dim=-1))",
            "list(both.split([x.shape[-1] for x in (*raw, raw[0])], dim=-1))[:2]",
        ),
        bug="B57",
    ),
    latent(
        "the latent is kept before its norm",
        LAYER,
        T_LAYER,
        (_KEPT, "return self.kv_down(x_bsm), key_bsr"),
        (
            "        form = self.form(",
            "        latent_bsc = self.kv_norm(latent_bsc)\n        form = self.form(",
        ),
    ),
    latent(
        "what stands somewhere in the same memory is taken for neighbours",
        LATENT,
        T_LATENT,
        ("and rotary_key.storage_offset() == latent.storage_offset() + c\n", ""),
    ),
    latent(
        "neighbours of other rows are taken for those of these",
        LATENT,
        T_LATENT,
        ("        and latent.stride() == rotary_key.stride()\n", ""),
    ),
    latent(
        "gradients get lost between neighbours",
        LATENT,
        T_LATENT,
        ("not derivatives_wanted(latent, rotary_key)  #", "True  #"),
    ),
    latent(
        "what is kept is copied for every new token",
        LATENT,
        T_LATENT,
        (
            "return latent.as_strided((*latent.shape[:-1], c + r), latent.stride())",
            "return latent.as_strided((*latent.shape[:-1], c + r), latent.stride()).clone()",
        ),
    ),
    # --- which form ---------------------------------------------------------------------------
    latent(
        "what the expanded form rebuilds is thought to be new tokens only",
        LATENT,
        T_LATENT,
        ("expanded = t * s * (n + e) + s * c * (n + e)", "expanded = (t * s + t * c) * (n + e)"),
    ),
    latent(
        "the form that is asked for is ignored",
        LAYER,
        T_LAYER,
        ("latent_bsc.shape[1]) if form is None else form", "latent_bsc.shape[1])"),
    ),
    latent(
        "the form is chosen by the new tokens alone",
        LAYER,
        T_LAYER,
        (
            "self.form(x_btm.shape[1], latent_bsc.shape[1])",
            "self.form(x_btm.shape[1], x_btm.shape[1])",
        ),
    ),
    # --- refusals -----------------------------------------------------------------------------
    latent(
        "widths that do not add up are left to torch",
        LATENT,
        T_REFUSALS,
        ("    if d != n + r:\n", "    if False:\n"),
    ),
    latent(
        "a mask is looked at after the keys are built",
        LATENT,
        T_REFUSALS,
        ('    check_mask_and_bias(may_attend, None, bhts, "q", q)\n', ""),
    ),
    latent(
        "the cache of another layer is left to the products",
        LAYER,
        T_REFUSALS,
        ("if cache.letters and cache.letters != wanted:", "if False:"),
    ),
    latent(
        "keys and values are taken for latents",
        LAYER,
        T_REFUSALS,
        ("if not isinstance(cache, LatentCache):", "if not hasattr(cache, 'append'):"),
    ),
    latent(
        "an odd width is looked for in the whole head",
        LAYER,
        T_REFUSALS,
        (
            'check_rotary(rotary, pairing, "r", sizes.rope_dim)',
            'check_rotary(rotary, pairing, "r", sizes.head_dim)',
        ),
    ),
    latent(
        "a chunk of no token has a last position",
        INPUTS,
        T_REFUSALS,
        ("    elif positions.numel():\n", "    else:\n"),
    ),
    latent(
        "places go on from positions that are ahead of them",
        INPUTS,
        T_REFUSALS,
        ("if positions is None and cache.last_position >= cache.n_tokens:", "if False:"),
        bug="B38",
    ),
    latent(
        "turns do not say where they stand",
        LAYER,
        T_REFUSALS,
        (
            "        if turns is None:\n            check_stream",
            "        if True:\n            check_stream",
        ),
    ),
    latent(
        "a window beside a latent is forgotten",
        BLOCK,
        T_REFUSALS,
        ("LatentAttentionSizes) and (cross or has_window):", "LatentAttentionSizes) and cross:"),
    ),
)
