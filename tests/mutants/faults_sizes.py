"""Faults in sizes: what is counted, what is refused, what the published models are.

B25 (heads and layers in each other's place) and B27 (a head's width taken to be the model's width
over the number of heads) are here as users met them.
"""

from fault import fault

ATTENTION = "attnlib/sizes/attention.py"
MODEL = "attnlib/sizes/model.py"
PUBLISHED = "attnlib/sizes/published.py"
REQUIRE = "attnlib/sizes/require.py"
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
        "heads and layers of a published model have changed places",
        PUBLISHED,
        T_SIZES,
        ("n_layers=30,", "n_layers=9,"),
        ("n_query_heads=9, n_kv_heads=3,", "n_query_heads=30, n_kv_heads=3,"),
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
        "the scale comes from the head's width where a number of its own is given",
        ATTENTION,
        T_SIZES,
        ("(self.scale_width or self.head_dim) ** -0.5", "self.head_dim**-0.5"),
        bug="B27",
    ),
    fault(
        "the scale of a head with a latent leaves the rotary part out",
        ATTENTION,
        T_SIZES,
        ("return self.head_dim**-0.5", "return self.nope_dim**-0.5"),
        bug="B23",
    ),
    fault(
        "the scale of the released model leaves YaRN's factor out",
        MODEL,
        T_SIZES,
        ("return self.attention.score_scale * factor", "return self.attention.score_scale"),
        bug="B23",
    ),
    fault(
        "YaRN's factor is not squared",
        ROTARY,
        T_SIZES,
        ("log(self.factor) + 1.0) ** 2", "log(self.factor) + 1.0)"),
        bug="B23",
    ),
    fault(
        "keys and values are counted once for every query head",
        ATTENTION,
        T_SIZES,
        ("read = h * d + g * d + g * e", "read = h * d + h * d + h * e"),
    ),
    fault(
        "the output of attention is as wide as the queries, not the values",
        ATTENTION,
        T_SIZES,
        ("width * read + h * e * width", "width * read + h * d * width"),
    ),
    fault(
        "all layers have experts, the first one too",
        MODEL,
        T_SIZES,
        ("self.n_layers - self.experts.n_dense_layers", "self.n_layers"),
    ),
    fault(
        "the experts that every token uses count as idle",
        MODEL,
        T_SIZES,
        (
            "n_idle = self.experts.n_routed - self.experts.n_chosen",
            "n_idle = self.experts.n_routed + self.experts.n_shared - self.experts.n_chosen",
        ),
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
        "Gemma's vocabulary is that of the padded configuration",
        PUBLISHED,
        T_SIZES,
        ('"vocabulary": 262_144,', '"vocabulary": 262_208,'),
    ),
    fault(
        "whole numbers of NumPy stay what they are and wrap round",
        REQUIRE,
        T_REFUSALS,
        ("object.__setattr__(sizes, field.name, int(value))", "pass"),
    ),
    fault(
        "a size that is no whole number is rounded",
        REQUIRE,
        T_REFUSALS,
        (
            "if isinstance(value, bool) or not isinstance(value, Integral):\n"
            '        raise TypeError(f"{said} must be a whole number, got {value!r}")',
            "value = int(round(float(value)))",
        ),
    ),
    fault(
        "a window without a layer that has it is not refused",
        MODEL,
        T_REFUSALS,
        ("if (window is None) != (True not in pattern):", "if False:"),
    ),
)
