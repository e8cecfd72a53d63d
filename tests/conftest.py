"""How hypothesis searches: the same examples each run, and fewer of them for planted faults.

And where tests run in parts side by side: which of them are this part's (parts.py).
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

# Deadlines and the check for slowness measure the machine, not the code; a database would make a
# run depend on the last one.
settings.register_profile(
    "book",
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "mutants",
    settings.get_profile("book"),
    max_examples=25,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "book"))


def pytest_configure(config: pytest.Config) -> None:
    if "TESTS_TAKEN" in os.environ:
        from parts import Taking

        config.pluginmanager.register(Taking(Path(os.environ["TESTS_TAKEN"])))
