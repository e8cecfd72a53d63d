"""Faults in the judges of the chapter that compares models."""

from fault import fault

JUDGES = "attnlib/exercises/models_compared.py"
T_JUDGES = "tests/test_exercises_of_models.py"


def judges(name: str, *edits: tuple[str, str]):
    return fault(f"judges of models: {name}", JUDGES, T_JUDGES, *edits)


FAULTS = (
    judges(
        "equal caches are fewer",
        ("lambda held, others: held < others", "lambda held, others: held <= others"),
    ),
    judges(
        "the crossing is the last length that is not fewer",
        ("after(1 + max(not_fewer, default=0))", "after(max(not_fewer, default=0))"),
    ),
    judges(
        "windows are always full",
        (
            "held: Callable = lambda kept, windows, n: kept * np.minimum(n, windows).sum(),",
            "held: Callable = lambda kept, windows, n: _with_windows_full(kept, windows, n),",
        ),
    ),
    judges(
        "any device may be used",
        (
            "scores, n_chosen, n_devices=n_devices, n_devices_at_most=n_devices_at_most\n",
            "scores, n_chosen, n_devices=n_devices, n_devices_at_most=n_devices\n",
        ),
    ),
    judges(
        "no case tells an expert elsewhere from one without score",
        ("(-0.5, 1.0, -0.8), 2, 3, 2)", "(0.5, 1.0, 0.3), 2, 3, 2)"),
    ),
    judges(
        "two scores of a case are equal",
        ("(1.5, 0.2, 0.3, 1.4, 1.3, 1.2)", "(1.5, 0.2, 0.3, 1.4, 1.2, 1.2)"),
    ),
    judges(
        "the choice counts once for the balance",
        (
            "return definitions.balance_loss(scores, chosen.tolist())",
            "return definitions.balance_loss(scores, chosen[:, :1].tolist())",
        ),
    ),
    judges(
        "every token of the balance uses all experts",
        ("np.argsort(-scores, axis=1)[:, :n_chosen]", "np.argsort(-scores, axis=1)"),
    ),
    judges(
        "the experts of a token may be one expert",
        (
            "missed: Callable = lambda x, x_c, n: (1 - x_c / x) ** n,",
            "missed: Callable = lambda x, x_c, n: (1 - 1 / x) ** (x_c * n),",
        ),
    ),
)
