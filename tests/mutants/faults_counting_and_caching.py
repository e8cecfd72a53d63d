"""Faults in the loops that count cost and keep a cache, and in their judges."""

from fault import fault

COST = "attnlib/definitions/of_cost.py"
CACHES = "attnlib/definitions/of_caches.py"
J_COST = "attnlib/exercises/counting_cost.py"
J_CACHES = "attnlib/exercises/kv_caching.py"
JUDGE = "attnlib/exercises/judge.py"

T_COST = "tests/test_definitions_of_cost.py"
T_CACHES = "tests/test_definitions_of_caches.py"
T_J_COST = "tests/test_exercises_of_cost.py"
T_J_CACHES = "tests/test_exercises_of_caches.py"

FAULTS = (
    # --- what may come back -------------------------------------------------------------------
    fault(
        "a pair of results within a tuple must be a tuple, too",
        JUDGE,
        T_J_CACHES,
        ("if isinstance(x, tuple | list) else (x,)", "if isinstance(x, tuple) else (x,)"),
    ),
    # --- cost ---------------------------------------------------------------------------------
    fault(
        "a multiply-add is one FLOP",
        COST,
        T_COST,
        ("                n_flops += 2\n    return", "                n_flops += 1\n    return"),
    ),
    fault(
        "pairs that may not be read are counted",
        COST,
        T_COST,
        (
            "if may_attend is not None and not may_attend[t][s]:",
            "if may_attend is not None and may_attend[t][s] is None:",
        ),
    ),
    fault(
        "averages have the width of keys",
        COST,
        T_COST,
        ("for _ in range(e):", "for _ in range(d):"),
    ),
    # --- caches -------------------------------------------------------------------------------
    fault(
        "the last new token is processed too",
        CACHES,
        T_CACHES,
        (
            "for n_tokens in range(n_prompt, n_prompt + n_new):\n"
            "        for t in _targets(n_tokens, n_prompt, cached):",
            "for n_tokens in range(n_prompt, n_prompt + n_new + 1):\n"
            "        for t in _targets(n_tokens, n_prompt, cached):",
        ),
        bug="B33",
    ),
    fault(
        "with a cache the prompt is one token",
        CACHES,
        T_CACHES,
        ("if cached and n_tokens > n_prompt:", "if cached:"),
    ),
    fault(
        "a target that is counted does not read itself",
        CACHES,
        T_CACHES,
        ("for _ in range(t + 1):", "for _ in range(t):"),
    ),
    fault(
        "a target reads the whole chunk",
        CACHES,
        T_CACHES,
        ("read = range(first, t + 1)", "read = range(first, len(kept_keys))"),
        bug="B30",
    ),
    fault(
        "the window holds one source too many",
        CACHES,
        T_CACHES,
        ("max(0, t - window + 1)", "max(0, t - window)"),
        bug="B40",
    ),
    fault(
        "a chunk begins again at the first token",
        CACHES,
        T_CACHES,
        (
            "chunk = range(len(kept_keys), len(kept_keys) + size)",
            "chunk = range(size)",
        ),
        bug="B34",
    ),
    fault(
        "a ring has one slot more than it uses",
        CACHES,
        T_CACHES,
        ("slots[token % window] = token", "slots[token % max(window - 1, 1)] = token"),
        bug="B43",
    ),
    # --- judges -------------------------------------------------------------------------------
    fault(
        "the judge of a layer counts keys and values for all query heads",
        J_COST,
        T_J_COST,
        (
            "return m * h * d + m * g * d + m * g * e + h * e * m",
            "return m * h * d + m * h * d + m * h * e + h * e * m",
        ),
        bug="B59",
    ),
    fault(
        "the judge of the cache takes keys and values for one",
        J_COST,
        T_J_COST,
        ("lambda g, d, e: g * (d + e), each", "lambda g, d, e: g * d, each"),
    ),
    fault(
        "the judge of intensity forgets that heads are shared",
        J_COST,
        T_J_COST,
        ("2 * h / (g * n_bytes)", "2 / n_bytes"),
    ),
    fault(
        "the judge of the crossing counts the core for key/value heads",
        J_COST,
        T_J_COST,
        (
            "core_of_key: Callable = lambda h, g, d, e: 2 * h * (d + e)",
            "core_of_key: Callable = lambda h, g, d, e: 2 * g * (d + e)",
        ),
    ),
    fault(
        "the judge of the roofline wants the shorter time",
        J_COST,
        T_J_COST,
        ("def _time_with(together: Callable = max)", "def _time_with(together: Callable = min)"),
    ),
    fault(
        "the judge of a step lets the cache stand still",
        J_CACHES,
        T_J_CACHES,
        (
            "return definitions.attention(q[None], keys, values)[0], keys, values",
            "return definitions.attention(q[None], keys, values)[0], *cache",
        ),
        bug="B34",
    ),
    fault(
        "the judge of a chunk takes no mask for right",
        J_CACHES,
        T_J_CACHES,
        (
            "definition=lambda n_cached, n_new: definitions.causal_mask(n_new, n_cached + n_new)",
            "definition=lambda n_cached, n_new: np.ones((n_new, n_cached + n_new), dtype=bool)",
        ),
        bug="B08",
    ),
    fault(
        "the judge of speculative decoding goes on behind a wrong token",
        J_CACHES,
        T_J_CACHES,
        ("or drafted[i] != token:", "or i + 1 == len(wanted):"),
    ),
    fault(
        "the judge asks for the parts of a pair one by one",
        JUDGE,
        T_J_CACHES,
        ("(flat if len(flat) == n != len(parts) else parts)", "parts"),
    ),
    fault(
        "the judge takes every tuple within a tuple apart",
        JUDGE,
        T_J_CACHES,
        ("(flat if len(flat) == n != len(parts) else parts)", "flat"),
    ),
)
