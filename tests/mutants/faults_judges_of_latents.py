"""Faults in the loops of the chapter on latent attention, and in its judges."""

from fault import fault

LOOPS = "attnlib/definitions/of_latent.py"
J_LATENTS = "attnlib/exercises/latents.py"

T_LOOPS = "tests/test_definitions_of_latent.py"
T_J_LATENTS = "tests/test_exercises_of_latents.py"

FAULTS = (
    # --- loops --------------------------------------------------------------------------------
    fault(
        "the loop of latent scores has the scale of the latent",
        LOOPS,
        T_LOOPS,
        ("q @ key / np.sqrt(len(q))", "q @ key / np.sqrt(latent.shape[1])"),
        bug="B23",
    ),
    fault(
        "the loop of latent scores has the rotary key in front",
        LOOPS,
        T_LOOPS,
        (
            "key = [*(up_key @ latent[s]), *rotary_key[s]]",
            "key = [*rotary_key[s], *(up_key @ latent[s])]",
        ),
        bug="B53",
    ),
    fault(
        "the loop of a pair averages the rotary key",
        LOOPS,
        T_LOOPS,
        (
            "for j in range(c):\n            n_absorbed",
            "for j in range(c + r):\n            n_absorbed",
        ),
    ),
    fault(
        "the loop of a pair keeps a key and a value of the latent",
        LOOPS,
        T_LOOPS,
        (
            "mean[i, j] += p[i] * latent[j]\n            read_absorbed.add(j)",
            'mean[i, j] += p[i] * latent[j]\n            read_absorbed.add(("value", j))',
        ),
        bug="B57",
    ),
    fault(
        "the loop of a pair forgets the rotary key of the absorbed form",
        LOOPS,
        T_LOOPS,
        ("for j in range(c + r):", "for j in range(c):"),
        bug="B57",
    ),
    fault(
        "the loop of a pair keeps one head of the expanded form",
        LOOPS,
        T_LOOPS,
        ('read_expanded.add(("key", i, j))', 'read_expanded.add(("key", j))'),
    ),
    fault(
        "the loop of selectors lets heads take turns in the keys",
        LOOPS,
        T_LOOPS,
        ("up_keys[i, j, i // p * d + j]", "up_keys[i, j, i % n_kv_heads * d + j]"),
        bug="B50",
    ),
    fault(
        "the loop of selectors reads values behind one key",
        LOOPS,
        T_LOOPS,
        ("n_kv_heads * d + i // p * e + j", "d + i // p * e + j"),
    ),
    # --- judges -------------------------------------------------------------------------------
    fault(
        "the judge of latent scores has the scale of the absorbed key",
        J_LATENTS,
        T_J_LATENTS,
        (
            "    definition=definitions.latent_scores,",
            "    definition=_divided_by(lambda n, r, c: np.sqrt(c + r)),",
        ),
        bug="B23",
    ),
    fault(
        "the judge of latent scores has a latent as wide as the part without rotation alone",
        J_LATENTS,
        T_J_LATENTS,
        ("n=5, r=3, s=4, c=9)", "n=5, r=3, s=4, c=5)"),
    ),
    fault(
        "the judge of latent scores tells the wrong width of what is kept",
        J_LATENTS,
        T_J_LATENTS,
        ('"wide": c + r}', '"wide": n + r}'),
    ),
    fault(
        "the judge of a pair forgets the rotary key in the cache",
        J_LATENTS,
        T_J_LATENTS,
        (
            "    definition=definitions.latent_pair,",
            "    definition=_pair_with(of_latents=lambda h, n, r, e, c: c),",
        ),
        bug="B57",
    ),
    fault(
        "the judge of a pair has values as wide as the part without rotation",
        J_LATENTS,
        T_J_LATENTS,
        ("h=4, n=8, r=2, e=7, c=3)", "h=4, n=8, r=2, e=8, c=3)"),
    ),
    fault(
        "the judge of selectors lets heads take turns",
        J_LATENTS,
        T_J_LATENTS,
        (
            "    definition=definitions.latent_selectors,",
            "    definition=_selectors_with(reads=_in_turns),",
        ),
        bug="B50",
    ),
    fault(
        "the judge of selectors has keys that are always wider than values",
        J_LATENTS,
        T_J_LATENTS,
        ("h=8, g=2, d=3, e=5)", "h=8, g=2, d=5, e=3)"),
    ),
)
