"""Faults in cost: what is counted twice, or not, and what is taken for something else.

B36 (a cache sized by query heads), B57 (a latent's bytes doubled, or without its rotary part) and
B59 (query heads in the size of keys and values) are here as users met them.
"""

from fault import fault

ATTENTION = "attnlib/cost/attention.py"
CACHE = "attnlib/cost/cache.py"
COUNTS = "attnlib/cost/counts.py"
EVALUATION = "attnlib/cost/evaluation.py"
PARTS = "attnlib/cost/parts.py"
PASSES = "attnlib/cost/passes.py"
PRINTING = "attnlib/cost/printing.py"
PUBLISHED = "attnlib/sizes/published.py"
EXPLORER = "attnlib/explore/cost.py"
EXPLORER_JS = "attnlib/explore/cost.mjs"
FORMULAS_JS = "attnlib/explore/cost-formulas.mjs"
CONTROLS_JS = "attnlib/explore/controls.mjs"
ROOFLINE = "attnlib/cost/roofline.py"

T_COST = "tests/test_cost.py"
T_COUNTS = "tests/test_cost_counts.py"
T_MODELS = "tests/test_cost_of_models.py"
T_REFUSALS = "tests/refusals/test_cost_refusals.py"
T_SIZES = "tests/test_sizes.py"
T_EXPLORER = "tests/test_explore_cost.py"
T_EXPLORER_JS = "tests/book/test_explorer_cost_js.py"

FAULTS = (
    fault(
        "a decode step is counted for a model that is not causal",
        EVALUATION,
        T_REFUSALS,
        ("used & _OF_PASSES", "T.name in used"),
    ),
    fault(
        "the cache has keys and values of every query head",
        ATTENTION,
        T_MODELS,
        ("cache_elements=g * (d + e)", "cache_elements=h * (d + e)"),
        bug="B36",
    ),
    fault(
        "values are left out of the cache",
        ATTENTION,
        T_MODELS,
        ("cache_elements=g * (d + e)", "cache_elements=g * d"),
        bug="B59",
    ),
    fault(
        "a latent is kept for keys and once more for values",
        ATTENTION,
        T_MODELS,
        (
            "flops_per_pair=2 * h * (2 * c + r),\n    flops_per_key=sp.Integer(0),\n"
            '    cache_elements=c + r,\n)\n"""A latent that is kept and read',
            "flops_per_pair=2 * h * (2 * c + r),\n    flops_per_key=sp.Integer(0),\n"
            '    cache_elements=2 * (c + r),\n)\n"""A latent that is kept and read',
        ),
        bug="B57",
    ),
    fault(
        "the rotary key of a latent takes no room",
        ATTENTION,
        T_MODELS,
        (
            "flops_per_key=2 * _up,\n    cache_elements=c + r,",
            "flops_per_key=2 * _up,\n    cache_elements=c,",
        ),
        bug="B57",
    ),
    fault(
        "sharing keys and values makes the core cheaper",
        ATTENTION,
        T_MODELS,
        ("flops_per_pair=2 * h * (d + e)", "flops_per_pair=2 * g * (d + e)"),
    ),
    fault(
        "values are as wide as keys in the core",
        ATTENTION,
        T_MODELS,
        ("flops_per_pair=2 * h * (d + e)", "flops_per_pair=4 * h * d"),
    ),
    fault(
        "absorbed queries come from the latent for nothing",
        ATTENTION,
        T_MODELS,
        ("2 * _queries_and_latents + 2 * h * n * c + 2 * h * c * e", "2 * _queries_and_latents"),
    ),
    fault(
        "the average of latents is as wide as their keys",
        ATTENTION,
        T_MODELS,
        (
            "2 * _out,\n    flops_per_pair=2 * h * (2 * c + r)",
            "2 * _out,\n    flops_per_pair=4 * h * (c + r)",
        ),
    ),
    fault(
        "a target does not read itself",
        COUNTS,
        T_COUNTS,
        ("return w * (2 * n - w + 1) / 2", "return w * (2 * n - w - 1) / 2"),
    ),
    fault(
        "a window is one source wider",
        COUNTS,
        T_COUNTS,
        (
            "w = n if window is None else sp.Min(n, window)\n    return w",
            "w = n if window is None else sp.Min(n, window + 1)\n    return w",
        ),
        bug="B40",
    ),
    fault(
        "a chunk reads the window of its last token only",
        COUNTS,
        T_COUNTS,
        ("window + sp.sympify(n_new) - 1)", "window)"),
    ),
    fault(
        "the last new token is processed as well",
        COUNTS,
        T_COUNTS,
        ("return sp.sympify(n_prompt) + n_new - 1", "return sp.sympify(n_prompt) + n_new"),
    ),
    fault(
        "what is recomputed begins after the prompt",
        COUNTS,
        T_COUNTS,
        ("_n_pairs_of_all_prefixes(first - 1, window)", "_n_pairs_of_all_prefixes(first, window)"),
    ),
    fault(
        "layers with a window keep everything",
        CACHE,
        T_COST,
        ("n_tokens if w is None else min(n_tokens, w)", "n_tokens"),
    ),
    fault(
        "bytes that are not whole are rounded",
        CACHE,
        T_REFUSALS,
        ("if n_bytes.denominator != 1:", "if False:"),
    ),
    fault(
        "whole numbers of NumPy stay what they are in a fraction and overflow",
        EVALUATION,
        T_REFUSALS,
        ("Fraction(int(value.numerator), int(value.denominator))", "Fraction(value)"),
    ),
    fault(
        "one stack of layers is counted where there are two",
        EVALUATION,
        T_REFUSALS,
        ('if sizes.n_encoder_layers and "L" in used', 'if False and "L" in used'),
    ),
    fault(
        "every expert counts for a token",
        PARTS,
        T_COST,
        ("(_EXPERT * (x_c + x_s) + _ROUTER)", "(_EXPERT * (x + x_s) + _ROUTER)"),
    ),
    fault(
        "a network has two matrices, gated or not",
        EVALUATION,
        T_MODELS,
        ('"k_f": 3 if sizes.gated else 2', '"k_f": 2'),
    ),
    fault(
        "each row reads the weights anew",
        PASSES,
        T_COST,
        ("weights = {part: beta_w * count", "weights = {part: B * beta_w * count"),
    ),
    fault(
        "all rows share one cache",
        PASSES,
        T_COST,
        ("element = B * beta * form.cache_elements", "element = beta * form.cache_elements"),
    ),
    fault(
        "several tokens choose the same experts",
        EVALUATION,
        T_COST,
        (
            "return n_routed * (1 - (1 - n_chosen / n_routed) ** n_tokens)",
            "return n_chosen",
        ),
    ),
    fault(
        "the output head is counted where the core overtakes the linear parts",
        PASSES,
        T_COST,
        (
            'others = set(parts) - growing - {"output head"}',
            "others = set(parts) - growing",
        ),
    ),
    fault(
        "a division in JavaScript comes before the products",
        PRINTING,
        T_COST,
        ('return f"{numerator}/{coefficient.q}"', 'return f"1/{coefficient.q}*{numerator}"'),
    ),
    fault(
        "the roofline's roof is where its slope should be",
        ROOFLINE,
        T_COST,
        (
            "return sp.Min(peak, bandwidth * intensity)",
            "return sp.Max(peak, bandwidth * intensity)",
        ),
    ),
    fault(
        "DeepSeek-V3 has one dense layer, as V2",
        PUBLISHED,
        T_SIZES,
        ("n_dense_layers=3", "n_dense_layers=1"),
    ),
    # --- the explorer ---------------------------------------------------------------------------
    fault(
        "the explorer's decode step has as many new tokens as its context",
        EXPLORER,
        T_EXPLORER,
        ("n_new = 1 if decoding else n_tokens", "n_new = n_tokens"),
    ),
    fault(
        "the intensity of the weights counts attention's core as well",
        EXPLORER,
        T_EXPLORER,
        ("(total - core) / sum(moved", "total / sum(moved"),
    ),
    fault(
        "what memory takes is hidden by what arithmetic takes, however little",
        EXPLORER,
        T_EXPLORER,
        ('"seconds": max(', '"seconds": min('),
    ),
    fault(
        "JavaScript absorbs a latent in a prefill too",
        EXPLORER_JS,
        T_EXPLORER_JS,
        ("form = latent ? LATENT[state.phase] : SHARED", "form = latent ? LATENT.decode : SHARED"),
    ),
    fault(
        "in JavaScript all tokens choose the same experts",
        EXPLORER_JS,
        T_EXPLORER_JS,
        ("x_m: expertsMet(letters.x, letters.x_c, B * T)", "x_m: letters.x_c"),
    ),
    fault(
        "a file of generated formulas is edited by hand",
        FORMULAS_JS,
        T_EXPLORER,
        (
            '"name": "NVIDIA T4",\n    "peak": 65000000000000.0',
            '"name": "NVIDIA T4",\n    "peak": 6.5',
        ),
    ),
    fault(
        "numbers of ten and of a hundred thousand have the same digits in JavaScript",
        CONTROLS_JS,
        T_EXPLORER_JS,
        ("Number(exponent) - 3 * thousands", "Number(exponent) % 2"),
    ),
)
