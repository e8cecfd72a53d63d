"""Faults in the explorer of key/value heads, in Python and in JavaScript."""

from fault import fault

EXPLORER = "attnlib/explore/key_value_heads.py"
FORMULAS = "attnlib/explore/key_value_formulas.py"
PRESETS = "attnlib/explore/key_value_presets.py"
EXPLORER_JS = "attnlib/explore/key-value-heads.mjs"
FORMULAS_JS = "attnlib/explore/key-value-formulas.mjs"

T_PYTHON = "tests/test_explore_key_value_heads.py"
T_JAVASCRIPT = "tests/book/test_explorer_key_value_heads_js.py"

FAULTS = (
    fault(
        "key/value heads: the wires lead to i mod g",
        EXPLORER,
        T_PYTHON,
        (
            'kv_head = state["query_head"] // queries',
            'kv_head = state["query_head"] % g',
        ),
        bug="B50",
    ),
    fault(
        "key/value heads: the cache has keys and values of every query head",
        EXPLORER,
        T_PYTHON,
        ('("GQA", g)', '("GQA", h)'),
        bug="B36",
    ),
    fault(
        "key/value heads: the latent keeps no rotated key",
        FORMULAS,
        T_PYTHON,
        (
            '"cacheBytes": _B * _beta * cost.cache_elements(form),',
            '"cacheBytes": _B * _beta * cost.cache_elements(form).subs(cost.SYMBOLS["r"], 0),',
        ),
        bug="B57",
    ),
    fault(
        "key/value heads: the latent is re-expanded at every step",
        EXPLORER,
        T_PYTHON,
        ("counts(cost.ABSORBED)", "counts(cost.RE_EXPANDED)"),
    ),
    fault(
        "key/value heads: a latent may be wider than the stream that it is made of",
        FORMULAS,
        T_PYTHON,
        ("sp.Min(12 * _d, _m, ", "sp.Min(12 * _d, "),
    ),
    fault(
        "key/value heads: the rotated key is as wide as a head",
        FORMULAS,
        T_PYTHON,
        ("_n, _e, _r = _d, _d, _d / 2", "_n, _e, _r = _d, _d, _d"),
    ),
    fault(
        "key/value heads: every layer of Gemma reads everything",
        PRESETS,
        T_PYTHON,
        ('"windowLayers": sizes.n_window_layers', '"windowLayers": 0'),
    ),
    fault(
        "key/value heads: a head is as wide as m/h",
        PRESETS,
        T_PYTHON,
        (
            '"head_dim": attention.head_dim}',
            '"head_dim": sizes.width // attention.n_query_heads}',
        ),
        bug="B27",
    ),
    fault(
        "key/value heads: other sizes keep the windows of the model that they were",
        EXPLORER,
        T_PYTHON,
        ("if self.initial and not has_its_sizes(self.state):", "if False:"),
    ),
    fault(
        "key/value heads: a model that is chosen brings no sizes",
        EXPLORER,
        T_PYTHON,
        ("                setattr(self, name, size)\n", "                str(size)\n"),
    ),
    fault(
        "key/value heads: any number of them can be chosen",
        EXPLORER,
        T_PYTHON,
        ("        if h % g != 0:\n", "        if h < g:\n"),
        bug="B25",
    ),
    fault(
        "key/value heads: one head of each is called multi-query",
        EXPLORER,
        T_PYTHON,
        ('{1: "MQA", state["n_query_heads"]: "MHA"}', '{state["n_query_heads"]: "MHA", 1: "MQA"}'),
    ),
    fault(
        "key/value heads: a smaller number is said to be a multiple of MHA's",
        EXPLORER,
        T_PYTHON,
        ('if x >= base else ("÷", base / x)', 'if x >= base else ("×", base / x)'),
    ),
    fault(
        "key/value heads, page: the wires lead to i mod g",
        EXPLORER_JS,
        T_JAVASCRIPT,
        (
            "const kvHead = Math.floor(state.query_head / queries);",
            "const kvHead = state.query_head % g;",
        ),
        bug="B50",
    ),
    fault(
        "key/value heads, page: the latent is that of the largest model",
        EXPLORER_JS,
        T_JAVASCRIPT,
        (
            "const latent = latentSizes(letters);",
            "const latent = latentSizes({ ...letters, h: 128 });",
        ),
    ),
    fault(
        "key/value heads, page: a step has no core",
        EXPLORER_JS,
        T_JAVASCRIPT,
        (
            "stepFlops: counts.projectionFlops + counts.coreFlops",
            "stepFlops: counts.projectionFlops",
        ),
    ),
    fault(
        "key/value heads, page: a link can ask for heads that cannot be shared",
        EXPLORER_JS,
        T_JAVASCRIPT,
        ("filter((g) => g <= most)", "filter((g) => g < most)"),
    ),
    fault(
        "key/value heads, page: a link keeps windows with other sizes",
        EXPLORER_JS,
        T_JAVASCRIPT,
        ("every(([name, n]) => state[name] === n)", "some(([name, n]) => state[name] === n)"),
    ),
    fault(
        "key/value heads: a generated file is edited by hand",
        FORMULAS_JS,
        T_PYTHON,
        ('"r": d/2,', '"r": d/4,'),
    ),
)
