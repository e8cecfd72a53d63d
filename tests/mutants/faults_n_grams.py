"""Faults in n-gram models."""

from fault import fault

N_GRAMS = "attnlib/n_grams.py"
T_N_GRAMS = "tests/test_n_grams.py"

FAULTS = (
    fault(
        "n-grams: lower orders count places, not what stands before them",
        N_GRAMS,
        T_N_GRAMS,
        (
            "np.unique(np.append(shorter, beginning), return_counts=True)",
            "np.unique(_runs(data, k + 1), return_counts=True)",
        ),
    ),
    fault(
        "n-grams: the beginning of the text is not one of the things before a byte",
        N_GRAMS,
        T_N_GRAMS,
        ("np.append(shorter, beginning)", "shorter"),
    ),
    fault(
        "n-grams: a shorter n-gram loses its last byte, not its first",
        N_GRAMS,
        T_N_GRAMS,
        ("n_grams & np.uint64(256 ** (k + 1) - 1)", "n_grams >> _BYTE"),
    ),
    fault(
        "n-grams: the estimate of the discounts counts pairs once",
        N_GRAMS,
        T_N_GRAMS,
        ("below = n[1] + 2 * n[2]", "below = n[1] + n[2]"),
    ),
    fault(
        "n-grams: a discount of 0 is taken, and nothing is left to what was not seen",
        N_GRAMS,
        T_N_GRAMS,
        ("min(above) > 0", "min(above) >= 0"),
    ),
    fault(
        "n-grams: counts above 3 keep all",
        N_GRAMS,
        T_N_GRAMS,
        (
            "[0.0, *discounts])[np.minimum(counts, 3)]",
            "[0.0, *discounts, 0.0])[np.minimum(counts, 4)]",
        ),
    ),
    fault(
        "n-grams: a context that was never seen leaves nothing to the lower order",
        N_GRAMS,
        T_N_GRAMS,
        ("n_grams >> _BYTE, 1.0)", "n_grams >> _BYTE, 0.0)"),
    ),
    fault(
        "n-grams: what is not in the table gets the value of its neighbour",
        N_GRAMS,
        T_N_GRAMS,
        ("np.where(keys[place] == asked, values[place], otherwise)", "values[place]"),
    ),
    fault(
        "n-grams: a context that is too long is read from its beginning",
        N_GRAMS,
        T_N_GRAMS,
        ("context[max(len(context) - self.order, 0) :]", "context[: self.order]"),
    ),
    fault(
        "n-grams: a short context is filled up with NUL",
        N_GRAMS,
        T_N_GRAMS,
        (
            "read = context[max(len(context) - self.order, 0) :]",
            "read = np.append(np.zeros(self.order, np.uint8), context)[len(context) :]",
        ),
    ),
    fault(
        "n-grams: bits are nats",
        N_GRAMS,
        T_N_GRAMS,
        ("mean()) / math.log(2)", "mean())"),
    ),
)
