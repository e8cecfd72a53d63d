r"""What attention and its models cost: parameters, FLOPs, bytes, intensity, as SymPy expressions.

Source   named in the modules
Chapter  chapters/counting-cost.md, chapters/kv-caching.md, chapters/grouped-query-attention.md,
         chapters/latent-attention.md, chapters/models-compared.md
Axes     attnlib/axes.py; the other letters of the formulas are in `LETTERS`

The formulas are here once, for the text, the tests and the sliders. `evaluate` puts a model's sizes
into one, `javascript` writes it for a page. Names and docstrings say what is counted: one layer or
the whole model, one step or a total. A multiply-add is two FLOPs.

    >>> from attnlib import PUBLISHED
    >>> llama = PUBLISHED["llama-3-70b"]
    >>> step = evaluate(pass_flops(n_new=1), llama, N=8192, B=1)
    >>> for part, flops in step.items():
    ...     print(f"{part:15} {flops / 1e9:7.3f} GFLOP")
    projections      24.159 GFLOP
    feed-forward    112.743 GFLOP
    experts           0.000 GFLOP
    keys rebuilt      0.000 GFLOP
    attention core   21.475 GFLOP
    output head       2.101 GFLOP
"""

from attnlib.cost.attention import (
    ABSORBED,
    EXPANDED,
    FORMS,
    MERGED,
    RE_EXPANDED,
    SHARED_HEADS,
    AttentionCost,
    softmax_operations,
)
from attnlib.cost.cache import kv_cache_bytes
from attnlib.cost.compare import (
    ALL_MERGED,
    LATENT_RATIOS,
    PRINTED,
    cache_break_even,
    layer_elements,
    model_row,
    multi_head_baseline,
)
from attnlib.cost.counts import (
    n_dense_pairs_cached,
    n_dense_pairs_recomputed,
    n_keys_of_pass,
    n_pairs,
    n_pairs_cached,
    n_pairs_of_pass,
    n_pairs_recomputed,
    n_tokens_cached,
    n_tokens_recomputed,
)
from attnlib.cost.evaluation import evaluate, experts_met, letters_of
from attnlib.cost.letters import LETTERS, SYMBOLS
from attnlib.cost.parts import (
    cache_elements,
    core_flops,
    linear_flops,
    matrices_read,
    parameters,
)
from attnlib.cost.passes import (
    cached_generation_flops,
    core_intensity,
    crossing,
    linear_intensity,
    pass_bytes,
    pass_flops,
    pass_intensity,
    prefill_crossing,
    recomputed_generation_flops,
    step_crossing,
    usual_form,
)
from attnlib.cost.printing import javascript
from attnlib.cost.roofline import DEVICES, Device, attainable, least_seconds

__all__ = [
    "ABSORBED",
    "ALL_MERGED",
    "DEVICES",
    "EXPANDED",
    "FORMS",
    "LATENT_RATIOS",
    "LETTERS",
    "MERGED",
    "PRINTED",
    "RE_EXPANDED",
    "SHARED_HEADS",
    "SYMBOLS",
    "AttentionCost",
    "Device",
    "attainable",
    "cache_break_even",
    "cache_elements",
    "cached_generation_flops",
    "core_flops",
    "core_intensity",
    "crossing",
    "evaluate",
    "experts_met",
    "javascript",
    "kv_cache_bytes",
    "layer_elements",
    "least_seconds",
    "letters_of",
    "linear_flops",
    "linear_intensity",
    "matrices_read",
    "model_row",
    "multi_head_baseline",
    "n_dense_pairs_cached",
    "n_dense_pairs_recomputed",
    "n_keys_of_pass",
    "n_pairs",
    "n_pairs_cached",
    "n_pairs_of_pass",
    "n_pairs_recomputed",
    "n_tokens_cached",
    "n_tokens_recomputed",
    "parameters",
    "pass_bytes",
    "pass_flops",
    "pass_intensity",
    "prefill_crossing",
    "recomputed_generation_flops",
    "softmax_operations",
    "step_crossing",
    "usual_form",
]
