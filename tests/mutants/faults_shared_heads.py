"""Faults in the loops of the chapter on fewer key/value heads, and in its judges."""

from fault import fault

SHARED = "attnlib/definitions/of_shared_heads.py"
J_SHARED = "attnlib/exercises/grouped_queries.py"

T_SHARED = "tests/test_definitions_of_shared_heads.py"
T_J_SHARED = "tests/test_exercises_of_shared_heads.py"

FAULTS = (
    # --- loops --------------------------------------------------------------------------------
    fault(
        "query heads take turns in the loop that says whom they read",
        SHARED,
        T_SHARED,
        ("heads[i] = i // p", "heads[i] = i % n_kv_heads"),
        bug="B50",
    ),
    fault(
        "the heads that are pooled are not neighbours",
        SHARED,
        T_SHARED,
        ("weights[j * p + i] / p", "weights[i * n_kv_heads + j] / p"),
        bug="B50",
    ),
    fault(
        "pooled heads are added up",
        SHARED,
        T_SHARED,
        ("weights[j * p + i] / p", "weights[j * p + i]"),
    ),
    fault(
        "a shared element is read once for each query head",
        SHARED,
        T_SHARED,
        ('read.add(("key", i // p, s, j))', 'read.add(("key", i, s, j))'),
        bug="B59",
    ),
    fault(
        "values that are read are taken for keys",
        SHARED,
        T_SHARED,
        ('read.add(("value", i // p, s, j))', 'read.add(("key", i // p, s, j))'),
    ),
    fault(
        "matrices that share a factor are stacked the other way",
        SHARED,
        T_SHARED,
        ("for w in weights], axis=1)", "for w in weights], axis=0)"),
    ),
    fault(
        "a shared factor has one column more than it is given",
        SHARED,
        T_SHARED,
        ("if k >= rank:", "if k > rank:"),
    ),
    # --- judges -------------------------------------------------------------------------------
    fault(
        "the judge of readers lets heads take turns",
        J_SHARED,
        T_J_SHARED,
        (
            "    definition=definitions.kv_heads_read,",
            "    definition=lambda h, g: np.arange(h) % g,",
        ),
        bug="B50",
    ),
    fault(
        "the judge of readers has only as many key/value heads as share one",
        J_SHARED,
        T_J_SHARED,
        ('"twelve query heads, three key/value heads", 12, 3', '"nine", 9, 3'),
        ('"ten query heads, five key/value heads", 10, 5', '"four", 4, 2'),
    ),
    fault(
        "the judge of pooling pools heads in turns",
        J_SHARED,
        T_J_SHARED,
        (
            "    definition=definitions.pooled_heads,",
            "    definition=lambda w, g: _heads_in_turns(w, g).mean(1),",
        ),
        bug="B50",
    ),
    fault(
        "the judge of a step with shared heads counts what is computed for key/value heads",
        J_SHARED,
        T_J_SHARED,
        (
            "    definition=definitions.shared_step,",
            "    definition=_step_with(flops=lambda h, g, d, e, n: 2 * n * g * (d + e)),",
        ),
    ),
    fault(
        "the judge of a step with shared heads tells the wrong number of readers",
        J_SHARED,
        T_J_SHARED,
        ('"p": arguments["h"] // arguments["g"]', '"p": arguments["g"]'),
    ),
    fault(
        "the judge of shared factors lets each matrix have its own",
        J_SHARED,
        T_J_SHARED,
        (
            "    definition=definitions.shared_factor_error,",
            "    definition=_each_with_a_factor_of_its_own,",
        ),
    ),
    fault(
        "the judge of shared factors never has all that is needed",
        J_SHARED,
        T_J_SHARED,
        ('as there are rows", _normal(3, 4, 2), 4)', 'as there are rows", _normal(3, 4, 2), 3)'),
    ),
)
