"""Faults in the explorer of the next token, in Python and in JavaScript."""

from fault import fault

EXPLORER = "attnlib/explore/next_token.py"
PACKED = "attnlib/explore/packed_logits.py"
EXPLORER_JS = "attnlib/explore/next-token.mjs"
PACKED_JS = "attnlib/explore/packed-logits.mjs"

T_PYTHON = "tests/test_explore_next_token.py"
T_JAVASCRIPT = "tests/book/test_explorer_next_token_js.py"

_ORDER = "logits.sort(descending=True, stable=True).indices"

FAULTS = (
    fault(
        "next token: of equal tokens the highest ids come first",
        EXPLORER,
        T_PYTHON,
        (_ORDER, f"len(logits) - 1 - logits.flip(0){_ORDER.removeprefix('logits')}"),
    ),
    fault(
        "next token: the kept mass is that of the model without its temperature",
        EXPLORER,
        T_PYTHON,
        ("warm[after > 0]", "own[after > 0]"),
    ),
    fault(
        "next token: min-p forgets top-p",
        EXPLORER,
        T_PYTHON,
        ("Sampler(**by_mass, min_p", "Sampler(**by_count, min_p"),
    ),
    fault(
        "next token: the text's token is counted from 0",
        EXPLORER,
        T_PYTHON,
        ("int((order == token).nonzero()) + 1", "int((order == token).nonzero())"),
    ),
    fault(
        "next token: the model has read the token that it is asked for",
        EXPLORER,
        T_PYTHON,
        ("ids[: last - 1]]))[0, first - 1 :]", "ids[:last]]))[0, first:]"),
    ),
    fault(
        "next token: logits are packed below the largest of all rows",
        PACKED,
        T_PYTHON,
        ("logits.max(axis=1, keepdims=True)", "logits.max()"),
    ),
    fault(
        "next token: a far token becomes a forbidden one",
        PACKED,
        T_PYTHON,
        ("np.finfo(np.float16).min)", "-np.inf)"),
    ),
    fault(
        "next token, page: top-p drops the token that reaches the mass",
        EXPLORER_JS,
        T_JAVASCRIPT,
        ("&& before < mass", "&& before + weights[kept] <= mass"),
    ),
    fault(
        "next token, page: top-p takes its masses before top-k",
        EXPLORER_JS,
        T_JAVASCRIPT,
        ("countByMass(weightsOf(warm, byCount),", "countByMass(weights,"),
    ),
    fault(
        "next token, page: min-p acts on the logits before the temperature",
        EXPLORER_JS,
        T_JAVASCRIPT,
        ("warm.slice(0, byMass).filter", "scores.slice(0, byMass).filter"),
    ),
    fault(
        "next token, page: of equal tokens the highest ids come first",
        EXPLORER_JS,
        T_JAVASCRIPT,
        ("row[b] - row[a] || a - b", "row[b] - row[a] || b - a"),
    ),
    fault(
        "next token, page: the smallest distances are halved",
        PACKED_JS,
        T_JAVASCRIPT,
        ("fraction * 2 ** -24", "fraction * 2 ** -25"),
    ),
)
