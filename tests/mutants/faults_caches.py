"""Faults in caches, in models that use them, and in what takes back tokens and moves rows."""

from fault import fault

LAYER = "attnlib/caches/layer.py"
MODEL = "attnlib/caches/model.py"
INT8 = "attnlib/caches/int8.py"
STACK = "attnlib/models/stack.py"
ATTENTION = "attnlib/layers/multi_head_attention.py"
INPUTS = "attnlib/layers/inputs.py"
GENERATION = "attnlib/generation.py"
SPECULATIVE = "attnlib/speculative.py"
BEAMS = "attnlib/beams.py"

T_CACHES = "tests/test_caches.py"
T_MODELS = "tests/test_caches_of_models.py"
T_GENERATION = "tests/test_generation.py"
T_USERS = "tests/test_beams_and_speculation.py"
T_REFUSALS = "tests/refusals/test_caches_refusals.py"


def cache(name: str, file: str, test: str, *edits: tuple[str, str], bug: str = ""):
    return fault(f"caches: {name}", file, test, *edits, bug=bug)


FAULTS = (
    # --- which sources a chunk reads ----------------------------------------------------------
    cache(
        "a chunk is not masked where there is a cache",
        STACK,
        T_MODELS,
        ("if rows.n_new == 1 and rows.is", "if (rows.n_new == 1 or layer) and rows.is"),
        bug="B30",
    ),
    cache(
        "a mask is made only where there is a cache",
        STACK,
        T_MODELS,
        (
            "        masks = {}\n        for i",
            "        masks = {} if cache else {None: None}\n        for i",
        ),
        bug="B3C",
    ),
    cache(
        "the mask of a chunk begins at the first source",
        STACK,
        T_MODELS,
        (
            "causal_mask(rows.n_new, rows.n_places, device=rows.device)",
            "causal_mask(rows.n_places, device=rows.device)[: rows.n_new]",
        ),
        bug="B08",
    ),
    cache(
        "the sources of a ring are thought to stand in their order",
        STACK,
        T_MODELS,
        ("mask[..., layer.places(rows.n_new, rows.device)]", "mask[..., -n_sources:]"),
        bug="B39",
    ),
    cache(
        "the padding of earlier chunks is forgotten",
        MODEL,
        T_MODELS,
        (
            "self._n_tokens, self.is_token = self.layers[0].n_tokens, is_token",
            "self._n_tokens = self.layers[0].n_tokens",
        ),
        bug="B3D",
    ),
    # --- where the tokens of a chunk stand ----------------------------------------------------
    cache(
        "positions of every chunk begin at 0",
        STACK,
        T_MODELS,
        (
            "return torch.arange(self.n_before, self.n_places, device=self.device)",
            "return torch.arange(self.n_new, device=self.device)",
        ),
        bug="B38",
    ),
    cache(
        "a layer by itself begins every chunk at position 0",
        ATTENTION,
        T_CACHES,
        ("first = 0 if cache is None else cache.n_tokens", "first = 0"),
        bug="B38",
    ),
    cache(
        "positions of padded rows are those of the first places",
        STACK,
        T_MODELS,
        (
            "return self.all_positions[:, self.n_before :]",
            "return self.all_positions[:, : self.n_new]",
        ),
        bug="B65",
    ),
    cache(
        "the stream is as long as what a ring still has",
        STACK,
        T_MODELS,
        (
            "return _Rows(cache.n_tokens, t, after, words_btm.device)",
            "return _Rows(cache.layers[0].n_kept, t, after, words_btm.device)",
        ),
        bug="B39",
    ),
    cache(
        "a prompt advances the cache by one",
        LAYER,
        T_CACHES,
        ("        self._n_tokens += n_new\n", "        self._n_tokens += 1\n"),
        bug="B33",
    ),
    cache(
        "the cache never advances",
        LAYER,
        T_CACHES,
        ("        self._n_tokens += n_new\n", ""),
        bug="B34",
    ),
    cache(
        "the first token is written and not counted",
        LAYER,
        T_CACHES,
        (
            "        self._n_tokens += n_new\n",
            "        self._n_tokens += n_new - (kinds is None)\n",
        ),
        ("        self._kinds = kinds\n", "        self._kinds, kinds = kinds, self._kinds\n"),
        bug="B34",
    ),
    cache(
        "a cached step leaves out the turn",
        ATTENTION,
        T_CACHES,
        ("cache.append(k_bgsd, v_bgse)", "cache.append(self._keys(x_btm, None), v_bgse)"),
        bug="B3E",
    ),
    # --- texts after each other ---------------------------------------------------------------
    cache(
        "the next prompt reads the one before",
        MODEL,
        T_MODELS,
        ("        for cache in self.layers:\n            cache.reset()\n", ""),
        bug="B32",
    ),
    cache(
        "the next prompt has the padding of the one before",
        MODEL,
        T_MODELS,
        (
            "        self._n_tokens, self.is_token, self._interrupted = 0, None, None\n",
            "        self._n_tokens, self._interrupted = 0, None\n"
            "        self.is_token = getattr(self, 'is_token', None)\n",
        ),
        bug="B32",
    ),
    cache(
        "padding is not taken back with its tokens",
        MODEL,
        T_MODELS,
        ("else self.is_token[:, :n_tokens]", "else self.is_token"),
    ),
    cache(
        "an interrupt leaves some layers with more tokens",
        MODEL,
        T_MODELS,
        ("self._take_back(n_tokens, is_token, _WRITTEN)", "self._interrupted = None"),
    ),
    cache(
        "what is refused after an interrupt mends it",
        MODEL,
        T_MODELS,
        (
            "if was_whole and (self._interrupted or self._n_tokens != n_tokens):\n",
            "if not was_whole:\n                self._interrupted = None\n            else:\n",
        ),
    ),
    cache(
        "an error in the logits leaves a chunk that nobody has read",
        MODEL,
        T_MODELS,
        (
            "    return cache._unchanged_on_error() if isinstance(cache, ModelCache) else ",
            "    return ",
        ),
    ),
    cache(
        "an error in the last norm leaves a chunk that nobody has read",
        STACK,
        T_MODELS,
        (
            "            if self.end_norm is not None:\n                states[-1] =",
            "        if self.end_norm is not None:\n            states[-1] =",
        ),
    ),
    cache(
        "rows that an interrupt left half reordered are read",
        MODEL,
        T_MODELS,
        ("        self._interrupted = _REORDERED\n", ""),
    ),
    cache(
        "a source whose rows were half reordered is reset and read",
        MODEL,
        T_MODELS,
        (
            "        if self.cross and self._interrupted == _REORDERED:\n            self.",
            "        if False:\n            self.",
        ),
    ),
    cache(
        "a ring reads a chunk that was half written",
        LAYER,
        T_CACHES,
        ("        self.check_truncate(self._n_tokens)  # an", "        pass  # an"),
    ),
    cache(
        "an empty chunk has no memory to stand in",
        LAYER,
        T_CACHES,
        ("if self._buffers and n_places <= n_held:", "if n_places <= n_held:"),
    ),
    cache(
        "a model takes back tokens layer by layer, until one cannot",
        MODEL,
        T_MODELS,
        ("            n_tokens = cache.check_truncate(n_tokens)\n", "            pass\n"),
        (
            "for cache in self.layers:\n            cache.truncate(n_tokens)",
            "for cache in sorted(self.layers, key=lambda x: -x.n_kept):\n"
            "            cache.truncate(n_tokens)",
        ),
    ),
    # --- rows ---------------------------------------------------------------------------------
    cache(
        "keys are reordered and values are not",
        LAYER,
        T_CACHES,
        (
            "[x.index_select(0, index.to(x.device)) for x in self._buffers]",
            "[self._buffers[0].index_select(0, index), *self._buffers[1:]]",
        ),
        bug="B3A",
    ),
    cache(
        "the sources of reordered rows stay",
        MODEL,
        T_MODELS,
        ('for name in ("may_read", "is_token"):', 'for name in ("is_token",):'),
        bug="B3A",
    ),
    cache(
        "beams go on with the keys and values of others",
        BEAMS,
        T_USERS,
        (
            "cache.reorder(parents)",
            "cache.reorder([i % cache.n_rows for i in range(len(parents))])",
        ),
        bug="B3A",
    ),
    cache(
        "rows that go on have the cache of the first ones",
        GENERATION,
        T_GENERATION,
        (
            "[self.numbers.index(number) for number in numbers]",
            "range(len(numbers))",
        ),
        bug="B3A",
    ),
    # --- the ring -----------------------------------------------------------------------------
    cache(
        "a ring stays at its last slot",
        LAYER,
        T_CACHES,
        ("x.narrow(-2, n % w, 1).copy_(y)", "x.narrow(-2, min(n, w - 1), 1).copy_(y)"),
        bug="B43",
    ),
    cache(
        "a chunk is written from the first slot of a ring on",
        LAYER,
        T_CACHES,
        (
            "torch.arange(n + n_new - n_kept, n + n_new, device=raw[0].device) % w",
            "torch.arange(n_kept, device=raw[0].device)",
        ),
        bug="B43",
    ),
    cache(
        "a chunk that is longer than the window evicts its own first tokens too early",
        LAYER,
        T_CACHES,
        ("        return read or [", "        return [x[:, :, -w:] for x in read or []] or ["),
        bug="B32",
    ),
    cache(
        "a ring keeps a token more than its window",
        STACK,
        T_MODELS,
        ("else WindowCache(window, storage", "else WindowCache(window + 1, storage"),
        bug="B40",
    ),
    cache(
        "a ring keeps a token less than its window",
        STACK,
        T_MODELS,
        ("else WindowCache(window, storage", "else WindowCache(max(1, window - 1), storage"),
        bug="B40",
    ),
    cache(
        "a ring gives back what it no longer has",
        LAYER,
        T_CACHES,
        ("if n_tokens and first_needed < self._first:", "if False:"),
        bug="B39",
    ),
    # --- memory -------------------------------------------------------------------------------
    cache(
        "memory that grows loses what it held",
        LAYER,
        T_CACHES,
        ("                y.narrow(-2, 0, n_held).copy_(x)\n", "                pass\n"),
    ),
    cache(
        "memory grows by a block only",
        LAYER,
        T_CACHES,
        ("max(n_places, n_held + n_held // 2)", "n_places"),
    ),
    cache(
        "bytes are those of the memory that is held",
        LAYER,
        T_CACHES,
        ("sum(x.narrow(-2, 0, self.n_kept).nbytes for", "sum(x.nbytes for"),
    ),
    cache(
        "memory that was taken in inference mode stays there",
        LAYER,
        T_CACHES,
        (
            "with torch.inference_mode(False), torch.no_grad():\n            # what is made",
            "with torch.no_grad():\n            # what is made",
        ),
    ),
    cache(
        "rows that were moved in inference mode stay there",
        LAYER,
        T_CACHES,
        (
            "with torch.inference_mode(False), torch.no_grad():  # see",
            "with torch.no_grad():  # see",
        ),
    ),
    cache(
        "a source is given beside its cache and forgotten",
        STACK,
        T_REFUSALS,
        (
            "if cache is not None:\n            if read is not None or may_read is not None:\n",
            "if cache is not None:\n            if False:\n",
        ),
    ),
    cache(
        "a source changes with the tensors that it was made of",
        LAYER,
        T_CACHES,
        ("self._buffers = [x.clone() for x in raw]", "self._buffers = raw"),
    ),
    cache(
        "a source's padding changes with the mask that was given",
        MODEL,
        T_MODELS,
        ("None if may_read is None else may_read.clone()", "may_read"),
    ),
    # --- eight bits ---------------------------------------------------------------------------
    cache(
        "the largest number is infinite in eight bits",
        INT8,
        T_CACHES,
        (", max=of_dtype.max / _MOST * (1 - of_dtype.eps)", ""),
    ),
    cache(
        "all vectors have one scale",
        INT8,
        T_CACHES,
        (
            "x.abs().amax(-1, keepdim=True) / _MOST",
            "x.abs().amax() / _MOST * torch.ones_like(x[..., :1])",
        ),
    ),
    cache(
        "codes are cut off and not rounded",
        INT8,
        T_CACHES,
        ("(x / scales).round()", "(x / scales).trunc()"),
    ),
    cache(
        "a vector without numbers becomes zeros",
        INT8,
        T_CACHES,
        ("scales.where(finite, torch.nan)", "scales.where(finite, 0.0)"),
    ),
    cache(
        "the newest tokens are read before they are rounded",
        LAYER,
        T_MODELS,
        (
            "        return self._unpacked(read, given[0].dtype)\n",
            "        read = self._unpacked(read, given[0].dtype)\n"
            "        return read if self._n_tokens > n_new else given\n",
        ),
    ),
    # --- what takes tokens back ---------------------------------------------------------------
    cache(
        "a wrong guess stays in the cache",
        SPECULATIVE,
        T_USERS,
        ("len(text) + n_right))", "len(text) + n_right + 1))"),
    ),
    cache(
        "the first wrong guess counts as right",
        SPECULATIVE,
        T_USERS,
        ("n_accepted += n_right", "n_accepted += min(n_right + 1, len(guesses))"),
    ),
    cache(
        "the draft guesses from the prompt alone",
        SPECULATIVE,
        T_USERS,
        (
            "_choices(draft, draft_cache, text + guesses)[-1:]",
            "_choices(draft, draft_cache, text + guesses)[:1]",
        ),
    ),
    cache(
        "the large model's own token after the guesses is lost",
        SPECULATIVE,
        T_USERS,
        ("new += chosen[: n_right + 1]", "new += chosen[: max(1, n_right)]"),
    ),
    cache(
        "a beam that has ended goes on",
        BEAMS,
        T_USERS,
        ("ended=token in ends,", "ended=False,"),
    ),
    cache(
        "sums of beams are kept in fp32",
        BEAMS,
        T_USERS,
        ("for beam in running], dtype=torch.float64)", "for beam in running]).double()"),
    ),
    # --- refusals -----------------------------------------------------------------------------
    cache(
        "what overflows a capacity is left to torch",
        LAYER,
        T_REFUSALS,
        ("        self.check_room(n_new)\n        raw", "        raw"),
        bug="B32",
    ),
    cache(
        "the capacity is looked at layer by layer, after the first has written",
        STACK,
        T_REFUSALS,
        ("        cache.check_room(t)\n", ""),
    ),
    cache(
        "a cache serves any model",
        STACK,
        T_REFUSALS,
        ("        if not cache.belongs_to(self):\n", "        if False:\n"),
    ),
    cache(
        "rows may get longer than the context, chunk by chunk",
        STACK,
        T_REFUSALS,
        ("if n + t > self.sizes.context:", "if t > self.sizes.context:"),
        bug="B32",
    ),
    cache(
        "gradients end at a cache in silence",
        LAYER,
        T_REFUSALS,
        ("if x.requires_grad and torch.is_grad_enabled():", "if False:"),
    ),
    cache(
        "keys and values of different tokens are kept",
        LAYER,
        T_REFUSALS,
        ("        self._require_one_another(given)\n", ""),
    ),
    cache(
        "a ring counts padding that came after a token",
        STACK,
        T_REFUSALS,
        ("        if any(self.windows):\n", "        if False:\n"),
    ),
    cache(
        "positions may go backward",
        INPUTS,
        T_REFUSALS,
        ("if first <= cache.last_position or", "if"),
        bug="B38",
    ),
    cache(
        "a source may grow",
        LAYER,
        T_REFUSALS,
        (
            '        raise ValueError(\n            "the keys and values of a source are made once',
            "        return self._append(k, v)\n        raise ValueError(\n"
            '            "the keys and values of a source are made once',
        ),
    ),
)
