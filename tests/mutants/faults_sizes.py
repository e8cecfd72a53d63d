"""Faults in sizes: what is counted, what is refused, what the published models are.

B25 (heads and layers in each other's place) and B27 (a head's width taken to be the model's width
over the number of heads) are here as users met them.
"""

from fault import fault

ATTENTION = "attnlib/sizes/attention.py"
MODEL = "attnlib/sizes/model.py"
PUBLISHED = "attnlib/sizes/published.py"
REQUIRE = "attnlib/require.py"
ROTARY = "attnlib/sizes/rotary.py"

T_SIZES = "tests/test_sizes.py"
T_REFUSALS = "tests/refusals/test_sizes_refusals.py"

_ADJACENT = "h, g, d, e = self.n_query_heads, self.n_kv_heads, self.head_dim, self.value_dim"

FAULTS = (
    fault(
        "sizes whose heads cannot be shared out evenly are not refused",
        ATTENTION,
        T_REFUSALS,
        ("if self.n_query_heads % self.n_kv_heads != 0:", "if False:"),
        bug="B25",
    ),
    fault(
        "a head's width is the model's width over the number of heads when counting",
        ATTENTION,
        T_SIZES,
        (_ADJACENT, f"{_ADJACENT}\n        d = e = width // h"),
        bug="B27",
    ),
    fault(
        "heads may be given by their place, where another number can stand",
        ATTENTION,
        T_REFUSALS,
        (
            "@dataclass(frozen=True, kw_only=True)\nclass AttentionSizes:",
            "@dataclass(frozen=True)\nclass AttentionSizes:",
        ),
        bug="B25",
    ),
    fault(
        "YaRN's factor is left out of the scale of DeepSeek-V2",
        MODEL,
        T_SIZES,
        ("return self.attention.score_scale * factor", "return self.attention.score_scale"),
        bug="B23",
    ),
    fault(
        "YaRN's factor is not squared",
        ROTARY,
        T_SIZES,
        ("(self.factor, self.mscale) ** 2", "(self.factor, self.mscale)"),
        bug="B23",
    ),
    fault(
        "keys and values are counted once for every query head",
        ATTENTION,
        T_SIZES,
        ("read = h * d + g * d + g * e", "read = h * d + h * d + h * e"),
    ),
    fault(
        "all layers have experts, the first one too",
        MODEL,
        T_SIZES,
        ("self.n_layers - self.experts.n_dense_layers", "self.n_layers"),
    ),
    fault(
        "the layer without a window comes first in each pattern",
        PUBLISHED,
        T_SIZES,
        (
            "(True, True, True, True, True, False)",
            "(False, True, True, True, True, True)",
        ),
    ),
    fault(
        "whole numbers of NumPy stay what they are and wrap round",
        REQUIRE,
        T_REFUSALS,
        ("return operator.index(x)", "operator.index(x)\n        return x"),
    ),
    fault(
        "a size that is no whole number is rounded",
        REQUIRE,
        T_REFUSALS,
        ("return operator.index(x)", "return int(round(float(x)))"),
    ),
    fault(
        "layers that read an encoder are counted with one attention",
        MODEL,
        T_SIZES,
        ("(self.n_encoder_layers + self.n_layers) * (self.n_stacks - 1)", "self.n_encoder_layers"),
    ),
    fault(
        "an encoder has no learned positions of its own",
        MODEL,
        T_SIZES,
        ("self.n_stacks * self.context if", "self.context if"),
    ),
    fault(
        "peri-norm has one norm a sub-layer",
        MODEL,
        T_SIZES,
        ('"peri": 2}', '"peri": 1}'),
    ),
    fault(
        "only one of two stacks is normed at its end",
        MODEL,
        T_SIZES,
        ("around_layers = self.n_stacks * (", "around_layers = ("),
    ),
    fault(
        "the networks of an encoder are not counted",
        MODEL,
        T_SIZES,
        (
            "self.n_layers + self.n_encoder_layers - self.n_expert_layers",
            "self.n_layers - self.n_expert_layers",
        ),
    ),
)
