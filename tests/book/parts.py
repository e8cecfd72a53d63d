"""Run the tests of this folder in parts side by side: `parts.py N [pytest's arguments]`.

A browser waits more than it works, so that two parts take little more than half of the time. The
tests of one file, and those of one page of the built book, stay together: they share what is
slow to set up. The first part prints as it goes; what another prints is shown in the end.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import pytest

FOLDER = Path(__file__).parent
NO_TESTS = 5  # pytest's exit code where all were chosen away: a part may be empty, but not all


def part_of_each(groups: Sequence[str], n_parts: int) -> dict[str, int]:
    """Give each group of tests a part, the largest first, always the part that has least.

    Args:
        groups: The group of each test, as often as it has tests.
        n_parts: How many parts there are.

    Example:
        >>> part_of_each(["a", "b", "b", "b", "c", "c"], 2)
        {'b': 0, 'c': 1, 'a': 1}
    """
    n_tests, parts = [0] * n_parts, {}
    for group, count in sorted(Counter(groups).items(), key=lambda item: (-item[1], item[0])):
        parts[group] = n_tests.index(min(n_tests))
        n_tests[parts[group]] += count
    return parts


def page_of(item: pytest.Item) -> str | None:
    """The page of the built book that a test is about, if it is about one."""
    where = getattr(item, "callspec", None) and item.callspec.params.get("opened")
    return None if where is None else str(where)


class OnlyOnePart:
    """A plugin that leaves the tests of one part: "i/n" is the i-th of n, counted from 0."""

    def __init__(self, part: str):
        self.part, self.n_parts = map(int, part.split("/"))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list) -> None:
        groups = [page_of(item) or item.path.name for item in items]
        parts = part_of_each(groups, self.n_parts)
        both = {True: [], False: []}
        for item, group in zip(items, groups, strict=True):
            both[parts[group] == self.part].append(item)
        config.hook.pytest_deselected(items=both[False])
        items[:] = both[True]


def main(n_parts: int, arguments: list[str]) -> int:
    with contextlib.ExitStack() as stack:
        outputs = [None, *(stack.enter_context(TemporaryFile()) for _ in range(n_parts - 1))]
        parts = [
            stack.enter_context(part_of_the_run(i, n_parts, arguments, output))
            for i, output in enumerate(outputs)
        ]
        codes = [part.wait() for part in parts]
        for i, output in enumerate(outputs[1:], 2):
            output.seek(0)
            print(f"--- part {i} of {n_parts}", output.read().decode(), sep="\n", flush=True)
    wrong = [code for code in codes if code not in (0, NO_TESTS)]
    return wrong[0] if wrong else min(codes)


@contextlib.contextmanager
def part_of_the_run(
    part: int, n_parts: int, arguments: list[str], output: IO | None
) -> Iterator[subprocess.Popen]:
    """Start one part, which ends with this process at the latest."""
    command = [sys.executable, "-m", "pytest", str(FOLDER), *arguments]
    # parts that share the processors: threads of torch that wait for one another would spin
    n_threads = max(1, (os.cpu_count() or 1) // n_parts)
    of_part = {"PART": f"{part}/{n_parts}"}
    environment = {"OMP_NUM_THREADS": str(n_threads)} | os.environ | of_part
    started = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        yield started
    finally:
        started.terminate()
        started.wait()


if __name__ == "__main__":
    # Whoever ends this process ends its parts: without this line they would run on.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
