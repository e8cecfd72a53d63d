"""Faults in the definitions of scores and of heads, and in their judges."""

from fault import fault

SCORES = "attnlib/definitions/of_scores.py"
HEADS = "attnlib/definitions/of_heads.py"
J_SCORES = "attnlib/exercises/variance_scaling.py"
J_HEADS = "attnlib/exercises/heads.py"

T_DEFINITIONS = "tests/test_definitions.py"
T_J_SCORES = "tests/test_exercises_of_scores.py"
T_J_HEADS = "tests/test_exercises_of_heads.py"

FAULTS = (
    # --- scores -------------------------------------------------------------------------------
    fault(
        "the mean of q meets the covariance of q",
        SCORES,
        T_DEFINITIONS,
        ("mean_q[i] * mean_q[j] * cov_k[i][j]", "mean_q[i] * mean_q[j] * cov_q[i][j]"),
    ),
    fault(
        "the mean of k is left out of the variance",
        SCORES,
        T_DEFINITIONS,
        ("variance += mean_k[i] * mean_k[j] * cov_q[i][j]", "pass"),
    ),
    fault(
        "coordinates are taken to be uncorrelated",
        SCORES,
        T_DEFINITIONS,
        ("        for j in range(len(mean_q)):", "        for j in (i,):"),
    ),
    fault(
        "a vector is divided by its length in place of its root mean square",
        SCORES,
        T_DEFINITIONS,
        ("sum(x_j * x_j for x_j in x) / len(x)", "sum(x_j * x_j for x_j in x)"),
    ),
    fault(
        "ε is added outside the root",
        SCORES,
        T_DEFINITIONS,
        ("/ np.sqrt(mean_square + epsilon)", "/ (np.sqrt(mean_square) + epsilon)"),
    ),
    fault(
        "the cap does not divide",
        SCORES,
        T_DEFINITIONS,
        ("np.tanh(score / cap)", "np.tanh(score)"),
    ),
    fault(
        "the bound of the Jacobian is the worse one",
        SCORES,
        T_DEFINITIONS,
        ("return min(largest,", "return max(largest,"),
    ),
    fault(
        "the bound of the Jacobian is its largest entry",
        SCORES,
        T_DEFINITIONS,
        ("2 * largest * (1 - largest))", "largest * (1 - largest))"),
    ),
    # --- heads --------------------------------------------------------------------------------
    fault(
        "the columns of heads take turns",
        HEADS,
        T_DEFINITIONS,
        ("x[t, i * d + j]", "x[t, j * n_heads + i]"),
    ),
    fault(
        "what heads write is averaged",
        HEADS,
        T_DEFINITIONS,
        ("y[t] += out[t, j]", "y[t] += 1 / len(w_q) * out[t, j]"),
    ),
    fault(
        "heads are multiplied with the output matrices of others",
        HEADS,
        T_DEFINITIONS,
        ("np.asarray(w_o[i][j])", "np.asarray(w_o[-1 - i][j])"),
    ),
    fault(
        "the mask does not reach the heads",
        HEADS,
        T_DEFINITIONS,
        ("x @ w_v[i], may_attend)", "x @ w_v[i])"),
    ),
    fault(
        "the shift of each row counts for the width",
        HEADS,
        T_DEFINITIONS,
        ("np.array([row - np.mean(row) for row in logs])", "logs"),
    ),
    fault(
        "the shift of each column is free in place of that of each row",
        HEADS,
        T_DEFINITIONS,
        ("np.array([row - np.mean(row) for row in logs])", "logs - logs.mean(axis=0)"),
    ),
    fault(
        "roundings count for the width",
        HEADS,
        T_DEFINITIONS,
        ("rounding = 2.0**-50 *", "rounding = 2.0**-60 *"),
    ),
    fault(
        "small scores do not count for the width",
        HEADS,
        T_DEFINITIONS,
        ("rounding = 2.0**-50 *", "rounding = 2.0**-5 *"),
    ),
    # --- judges -------------------------------------------------------------------------------
    fault(
        "the judge of scores scales by the width of the model",
        J_SCORES,
        T_J_SCORES,
        ("q_i @ k_i.T / np.sqrt(d)", "q_i @ k_i.T / np.sqrt(x.shape[1])"),
        bug="B20",
    ),
    fault(
        "the judge of scores tells h·d for d",
        J_SCORES,
        T_J_SCORES,
        ('"d": hd // h, "m_by_h"', '"d": hd, "m_by_h"'),
    ),
    fault(
        "the judge of variances has correlated coordinates nowhere",
        J_SCORES,
        T_J_SCORES,
        ("return factor @ factor.T / d", "return np.diag(np.diag(factor @ factor.T / d))"),
    ),
    fault(
        "the judge of variances has no mean of k",
        J_SCORES,
        T_J_SCORES,
        ('"mean_k": nothing if mean_k is None else mean_k', '"mean_k": nothing'),
    ),
    fault(
        "the judge of bounds has no weight above ½",
        J_SCORES,
        T_J_SCORES,
        ("np.array([0.1, 0.7, 0.05, 0.15])", "np.array([0.1, 0.4, 0.35, 0.15])"),
        ("np.array([0, 1.0])", "np.array([0.5, 0.5])"),
    ),
    fault(
        "the judge of normed scores has no small vectors",
        J_SCORES,
        T_J_SCORES,
        ("scale=0.8, size=1e-3)", "scale=0.8, size=1e3)"),
    ),
    fault(
        "the judge of caps has no scores far below the cap",
        J_SCORES,
        T_J_SCORES,
        ("100 * _normal(3, 4), 2.5)", "np.abs(100 * _normal(3, 4)), 2.5)"),
        ("3 * _normal(2, 3), 3.0)", "np.abs(3 * _normal(2, 3)), 3.0)"),
        ("0.1 * _normal(4, 2), 5.0)", "np.abs(0.1 * _normal(4, 2)), 5.0)"),
    ),
    fault(
        "the judge of heads splits columns in turns",
        J_HEADS,
        T_J_HEADS,
        (
            "    definition=definitions.split_heads,",
            "    definition=lambda x, n: np.stack([x[:, i::n] for i in range(n)]),",
        ),
    ),
    fault(
        "the judge of many heads has one head only",
        J_HEADS,
        T_J_HEADS,
        ('"two heads", t=4, h=2, m=7, d=3, e=5', '"two heads", t=4, h=1, m=7, d=3, e=5'),
        ('"three heads", t=6, h=3, m=5, d=2, e=4', '"three heads", t=6, h=1, m=5, d=2, e=4'),
    ),
    fault(
        "the judge of widths has random weights only",
        J_HEADS,
        T_J_HEADS,
        ("2 * _normal(4, 2) @ _normal(2, 6)", "2 * _normal(4, 6)"),
        ("2 * _normal(5, 1) @ _normal(1, 3)", "2 * _normal(5, 3)"),
        ("2 * _normal(2, 6)[[0, 1, 0, 1, 1]]", "2 * _normal(5, 6)"),
    ),
    fault(
        "the judge of widths has no part that all targets share",
        J_HEADS,
        T_J_HEADS,
        ("2 * _shared(5) @ _normal(2, 4)", "2 * _normal(5, 2) @ _normal(2, 4)"),
    ),
    fault(
        "the judge of parameters gives the output the width of queries",
        J_HEADS,
        T_J_HEADS,
        ("m * g * d, m * g * e, h * e * m\n", "m * g * d, m * g * e, h * d * m\n"),
    ),
)
