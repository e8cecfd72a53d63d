"""Faults in the explorers of variance scaling: the sample of scores, its facts, the Jacobian."""

from fault import fault

SAMPLE = "attnlib/explore/score_sample.py"
SPREAD = "attnlib/explore/score_spread.py"
JACOBIAN = "attnlib/explore/jacobian.py"
BASE = "attnlib/explore/base.py"
WORDS = "attnlib/explore/words.py"
SAMPLE_JS = "attnlib/explore/score-sample.mjs"
SPREAD_JS = "attnlib/explore/score-spread.mjs"
JACOBIAN_JS = "attnlib/explore/jacobian.mjs"
NUMERICS_JS = "attnlib/explore/numerics.mjs"
FORMULAS_JS = "attnlib/explore/formulas.mjs"

T_SCORES = "tests/test_explore_scores.py"
T_SCORES_JS = "tests/book/test_explorers_scores_js.py"

FAULTS = (
    # --- the sample ---------------------------------------------------------------------------
    fault(
        "a heavy-tailed coordinate keeps the variance 5/3 of Student's t",
        SAMPLE,
        T_SCORES,
        ("np.sqrt(3 * (u**-0.4 - 1))", "np.sqrt(5 * (u**-0.4 - 1))"),
    ),
    fault(
        "the angle of a Gaussian is its radius once more",
        SAMPLE,
        T_SCORES,
        (
            "np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)",
            "np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * u)",
        ),
    ),
    fault(
        "every width draws the last coordinates instead of the first",
        SAMPLE,
        T_SCORES,
        (
            "q_td[:, start:d], k_sd[:, start:d])",
            "q_td[:, -d:][:, start:], k_sd[:, -d:][:, start:])",
        ),
    ),
    fault(
        "a query is its own key",
        SAMPLE,
        T_SCORES,
        ("drawn[limits.SAMPLE_QUERIES :]", "drawn[: limits.SAMPLE_KEYS]"),
    ),
    fault(
        "Rademacher scores stand on the edges of their bars",
        SAMPLE,
        T_SCORES,
        ("return float(-held * (2 * beside + 1))", "return float(-held * 2 * beside)"),
    ),
    fault(
        "a score left of the histogram is counted from its right end",
        SAMPLE,
        T_SCORES,
        ("place[(place >= 0) & (place < number)]", "place[place < number] % number"),
    ),
    # --- facts of the spread ------------------------------------------------------------------
    fault(
        "the standard error takes all scores for independent",
        SPREAD,
        T_SCORES,
        ("(limits.SAMPLE_QUERIES + limits.SAMPLE_KEYS - 2) * (mu_4 - 1)", "0 * (mu_4 - 1)"),
    ),
    fault(
        "the standard error is that of the variance",
        SPREAD,
        T_SCORES,
        ("/ (2 * math.sqrt(N_SCORES))", "/ math.sqrt(N_SCORES)"),
    ),
    fault(
        "the exponent is taken of the standard deviation",
        SPREAD,
        T_SCORES,
        (
            "spread = d**exponent, d ** (0.5 - exponent)",
            "spread = d**exponent, d ** (-exponent / 2)",
        ),
    ),
    fault(
        "the kurtosis does not fall with the width",
        SPREAD,
        T_SCORES,
        ("(FOURTH_MOMENTS[distribution] ** 2 - 3) / d,", "FOURTH_MOMENTS[distribution] ** 2 - 3,"),
    ),
    fault(
        "the norm is the smallest eigenvalue",
        SPREAD,
        T_SCORES,
        ("np.linalg.eigvalsh(jacobians)[:, -1]", "np.linalg.eigvalsh(jacobians)[:, 0]"),
    ),
    fault(
        "softmax runs over the queries",
        SPREAD,
        T_SCORES,
        ("p_ts = softmax(scores).numpy()", "p_ts = softmax(scores.T).numpy().T"),
    ),
    fault(
        "halves are rounded as each language likes",
        WORDS,
        T_SCORES,
        ("return x * (1 + 2.0**-40)", "return x"),
    ),
    # --- the Jacobian -------------------------------------------------------------------------
    fault(
        "the others have one eigenvalue too many, and the leaders one too few",
        JACOBIAN,
        T_SCORES,
        (
            "[[a, n_leaders - 1], [n * a * b, 1], [b, n_others - 1], [0.0, 1]]",
            "[[a, n_leaders - 2], [n * a * b, 1], [b, n_others], [0.0, 1]]",
        ),
    ),
    fault(
        "the eigenvalue across leaders and others counts the others alone",
        JACOBIAN,
        T_SCORES,
        ("[n * a * b, 1]", "[n_others * a * b, 1]"),
    ),
    fault(
        "the leader's own entry is found by cancellation",
        JACOBIAN,
        T_SCORES,
        ('"leaderEntry": a * rest,', '"leaderEntry": a - a**2,'),
    ),
    fault(
        "what the leader leaves over is found by cancellation in JavaScript",
        JACOBIAN_JS,
        T_SCORES_JS,
        ("const rest = (leaders - 1) * a + (n - leaders) * b;", "const rest = 1 - a;"),
    ),
    fault(
        "the bound of the gap is shown for several leaders",
        JACOBIAN,
        T_SCORES,
        ("2 * (n - 1) * fall if n_leaders == 1 else None", "2 * (n - 1) * fall"),
    ),
    fault(
        "options that contradict each other are accepted later",
        BASE,
        T_SCORES,
        ("        if self.initial:\n", "        if not self.initial:\n"),
    ),
    # --- JavaScript ---------------------------------------------------------------------------
    fault(
        "the hash in JavaScript multiplies in floating point",
        SAMPLE_JS,
        T_SCORES_JS,
        ("Math.imul(x ^ (x >>> 13), 0xc2b2ae35)", "(x ^ (x >>> 13)) * 0xc2b2ae35"),
    ),
    fault(
        "a width in JavaScript leaves its last coordinate to the next",
        SAMPLE_JS,
        T_SCORES_JS,
        ("for (; l < d; l += 1) total", "for (; l < d - 1; l += 1) total"),
    ),
    fault(
        "the means over the rows are kept when the exponent changes",
        SPREAD_JS,
        T_SCORES_JS,
        ("const key = `${distribution} ${exponent}`;", "const key = distribution;"),
    ),
    fault(
        "scores beyond the axis are counted on one side",
        SPREAD_JS,
        T_SCORES_JS,
        ("if (Math.abs(score) > farthest)", "if (score > farthest)"),
    ),
    fault(
        "the search for the eigenvalue stops after one step of Newton",
        NUMERICS_JS,
        T_SCORES_JS,
        ("if (next === lambda) break;", "if (next !== lambda) break;"),
    ),
    fault(
        "the slope in the search for the eigenvalue has the wrong sign, and its bracket none",
        NUMERICS_JS,
        T_SCORES_JS,
        ("const next = lambda - falling / slope;", "const next = lambda + falling / slope;"),
        ("lambda = next > low && next < high ? next : low + (high - low) / 2;", "lambda = next;"),
    ),
    fault(
        "equal eigenvalues stand twice in JavaScript",
        JACOBIAN_JS,
        T_SCORES_JS,
        ("if (leaders === n || gap === 0) return [[a, n - 1], [0, 1]];", ""),
    ),
    fault(
        "a link to more leaders than sources draws them",
        JACOBIAN_JS,
        T_SCORES_JS,
        ("=> Math.min(leaders, n);", "=> leaders;"),
    ),
    fault(
        "the bound of the gap counts the leader among the others",
        FORMULAS_JS,
        T_SCORES_JS,
        ("return (2*n - 2)*Math.exp(-gap);", "return 2*n*Math.exp(-gap);"),
    ),
)
