"""Faults in the explorers of masks, heads and attention maps, in Python and in JavaScript."""

from fault import fault

MASK = "attnlib/explore/mask.py"
HEADS = "attnlib/explore/heads.py"
PACKED = "attnlib/explore/packed_maps.py"
MAPS = "attnlib/explore/attention_maps.py"
WORDS = "attnlib/explore/words.py"
MASK_JS = "attnlib/explore/mask.mjs"
HEADS_JS = "attnlib/explore/heads.mjs"
PACKED_JS = "attnlib/explore/packed-maps.mjs"
MAPS_JS = "attnlib/explore/attention-maps.mjs"
HEAD_MAP_JS = "attnlib/explore/head-map.mjs"
CONTROLS_JS = "attnlib/explore/controls.mjs"
FORMULAS_JS = "attnlib/explore/formulas.mjs"

T_PYTHON = "tests/test_explore_heads.py"
T_JAVASCRIPT = "tests/book/test_explorers_heads_js.py"

_PADDING = '(source_s >= state["n_padding"])'
_PREFIX = 'read_ts | (source_s < state["n_prefix"])'

FAULTS = (
    # --- masks --------------------------------------------------------------------------------
    fault(
        "a window without the causal mask looks back only",
        MASK,
        T_PYTHON,
        (
            'window_mask(*shape, window=state["window"])',
            'causal_mask(*shape, window=state["window"])',
        ),
    ),
    fault(
        "the prefix brings padding back",
        MASK,
        T_PYTHON,
        (
            "    return read_ts & padding_mask((source_s",
            '    return (source_s < state["n_prefix"]) | read_ts & padding_mask((source_s',
        ),
    ),
    fault(
        "the prefix has one source more",
        MASK,
        T_PYTHON,
        (_PREFIX, _PREFIX.replace("<", "<=")),
    ),
    fault(
        "padding stands on the right",
        MASK,
        T_PYTHON,
        (_PADDING, '(source_s < state["n_sources"] - state["n_padding"])'),
    ),
    fault(
        "the reason of a cell takes the first target for the first source",
        MASK,
        T_PYTHON,
        (
            'position = state["target"] + state["n_sources"] - state["n_targets"]',
            'position = state["target"]',
        ),
    ),
    fault(
        "the reason of a cell knows a window of one source more",
        MASK,
        T_PYTHON,
        ('abs(behind) >= state["window"]', 'abs(behind) > state["window"]'),
    ),
    fault(
        "targets are counted by source",
        MASK,
        T_PYTHON,
        ("read_ts.sum(dim=1)", "read_ts.sum(dim=0)"),
    ),
    fault(
        "more padding than sources can be chosen",
        MASK,
        T_PYTHON,
        ('if state[part] > state["n_sources"]:', "if False:"),
    ),
    fault(
        "the page's window has one source more",
        MASK_JS,
        T_JAVASCRIPT,
        ("Math.abs(behind) >= state.window", "Math.abs(behind) > state.window"),
    ),
    fault(
        "the page takes the first target for the first source",
        MASK_JS,
        T_JAVASCRIPT,
        ("target + state.n_sources - state.n_targets", "target"),
    ),
    fault(
        "a link can ask for a prefix beyond the sources",
        MASK_JS,
        T_JAVASCRIPT,
        ("n_prefix: Math.min(state.n_prefix, s)", "n_prefix: state.n_prefix"),
    ),
    # --- heads --------------------------------------------------------------------------------
    fault(
        "the projection of the output costs nothing",
        HEADS,
        T_PYTHON,
        ("8 * n * m * h * d", "6 * n * m * h * d"),
    ),
    fault(
        "the weighted sums of values cost nothing",
        HEADS,
        T_PYTHON,
        ("4 * n**2 * h * d", "2 * n**2 * h * d"),
    ),
    fault(
        "a row of scores has one exponential",
        HEADS,
        T_PYTHON,
        ('"exponentials": h * n**2', '"exponentials": h * n'),
    ),
    fault(
        "scores of few tokens have the rank of the width",
        HEADS,
        T_PYTHON,
        ('"rank": min(n, m, d)', '"rank": min(m, d)'),
    ),
    fault(
        "scores of a narrow stream have the rank of the head",
        HEADS,
        T_PYTHON,
        ('"rank": min(n, m, d)', '"rank": min(n, d)'),
    ),
    fault(
        "the page gives scores of a narrow stream the rank of the head",
        FORMULAS_JS,
        T_JAVASCRIPT,
        ("Math.min(head_dim, tokens, width)", "Math.min(head_dim, tokens)"),
    ),
    fault(
        "heads wider than the slider are offered",
        HEADS,
        T_PYTHON,
        ("least <= joined // h <= largest", "least <= joined // h"),
    ),
    fault(
        "the page offers heads wider than the slider",
        HEADS_JS,
        T_JAVASCRIPT,
        ("Math.max(fewest, joined / largest)", "fewest"),
    ),
    # --- attention maps -----------------------------------------------------------------------
    fault(
        "weights are kept without their root and read as if they had one",
        PACKED,
        T_PYTHON,
        ("np.sqrt(np.minimum(weights, 1.0))", "np.minimum(weights, 1.0)"),
    ),
    fault(
        "a kept weight is cut instead of rounded",
        PACKED,
        T_PYTHON,
        ("np.rint(LARGEST *", "np.floor(LARGEST *"),
    ),
    fault(
        "every second weight has the upper half of the middle byte",
        PACKED,
        T_PYTHON,
        ("(middle & 15) << 8 | right", "(middle >> 4) << 8 | right"),
    ),
    fault(
        "rows that do not sum to one are taken",
        PACKED,
        T_PYTHON,
        ("~(abs(sums - 1) <= tolerance)", "~(sums > 0)"),
    ),
    fault(
        "a source is named by its column's weights",
        MAPS,
        T_PYTHON,
        ('row = len(w), w[state["target"]]', 'row = len(w), [r[state["target"]] for r in w]'),
    ),
    fault(
        "the last of equal sources is named first",
        MAPS,
        T_PYTHON,
        ("key=lambda s: -row[s]", "key=lambda s: (-row[s], -s)"),
    ),
    fault(
        "the entropy is divided by all pairs",
        MAPS,
        T_PYTHON,
        ("_total(terms) / n", "_total(terms) / n**2"),
    ),
    fault(
        "distances into the future are negative",
        MAPS,
        T_PYTHON,
        ("w[t][s] * abs(t - s)", "w[t][s] * (t - s)"),
    ),
    fault(
        "the token before is the token after",
        MAPS,
        T_PYTHON,
        ("w[t][t - 1] for t in every[1:]", "w[t - 1][t] for t in every[1:]"),
    ),
    fault(
        "an invisible token is named by nothing",
        MAPS,
        T_PYTHON,
        ("quote(readable(token.encode()))", "quote(token)"),
    ),
    fault(
        "a token that reads from the right turns the number after it",
        WORDS,
        T_PYTHON,
        ("\\u2068{text}\\u2069", "{text}"),
    ),
    fault(
        "the page names an invisible token by nothing",
        MAPS_JS,
        T_JAVASCRIPT,
        ("readable(utf8.encode(token))", "token"),
    ),
    fault(
        "the page leaves Arabic out of what reads from the right",
        CONTROLS_JS,
        T_JAVASCRIPT,
        ("[\\u0590-\\u08ff", "[\\u0590-\\u05ff"),
    ),
    fault(
        "the page names the last of equal sources first",
        MAPS_JS,
        T_JAVASCRIPT,
        ("|| a - b", "|| b - a"),
    ),
    fault(
        "the page reads the wrong half of the middle byte",
        PACKED_JS,
        T_JAVASCRIPT,
        ("((middle & 15) << 8)", "((middle >> 4) << 8)"),
    ),
    fault(
        "a larger weight can have a darker colour",
        HEAD_MAP_JS,
        T_JAVASCRIPT,
        ("[122, 122, 121], [186, 174, 109]", "[186, 174, 109], [122, 122, 121]"),
    ),
)
