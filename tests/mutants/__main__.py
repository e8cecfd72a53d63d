"""Plant each fault of the table into a copy of the package and expect a test to fail.

Run as `python -m tests.mutants` from the root of the repository; words that follow choose the
faults whose name or bug holds one of them.

The copy is tested without any fault first. Then every fault must make a test fail: an exit code of
1 from pytest. Anything else (no failure, or a copy that cannot even be imported or collected) is
printed with its difference, and the run ends with an error.

The hook that checks every shape takes most of the time of a run, and few faults need it. So tests
run without it first, but for those that fail without it, and with it if they let a fault pass.

The first failure ends a run, so the tests that are quick and have caught many faults come first.
Where nothing is planted the last test is the first: one that depends on the order cannot stay.
"""

import ast
import contextlib
import difflib
import gc
import importlib.util
import json
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import NamedTuple

os.environ |= {"OMP_NUM_THREADS": "1", "HYPOTHESIS_PROFILE": "mutants"}

# Every run starts as a fork of this process, so that the slow imports are paid for once: these, and
# what the tests import (see import_what_the_tests_import).
import beartype  # noqa: F401
import pytest
import torch  # noqa: F401
from hypothesis import given, settings
from hypothesis.strategies import integers

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from fault import Fault  # noqa: E402 (found beside this file, however it is started)
from table import FAULTS  # noqa: E402

AT_ONCE = max(2, os.cpu_count() or 2)
SECONDS_A_RUN = 300
# Assertions stay as they are written: libraries that are imported already cannot be rewritten, and
# pytest says so with a warning, which is an error. Of the plugins only jaxtyping's has a part.
PLUGINS = ("cacheprovider", "nbmake", "anyio", "hypothesispytest")
OPTIONS = ["-q", "--tb=line", "--assert=plain", *(f"-pno:{name}" for name in PLUGINS)]
WITHOUT_HOOK = ["-o", "addopts=--strict-markers"]
# A process that ends with an exception of its own ends with 1, as pytest does where a test fails.
TOO_SLOW, NOT_THE_COPY, NOT_RUN = 124, 99, 98
NO_TESTS = 5  # what pytest says where all tests are left out
NOTES = "notes.json"
# With these the tests of JavaScript in tests/book find Node and call the modules of the copy.
FOR_NODE = ("tests/book/conftest.py", "tests/book/builds.py", "tests/parts.py")
CODE = (".py", ".mjs", ".css")


@dataclass(frozen=True)
class Known:
    """What is known of the tests of a file, by their names.

    Attributes:
        seconds: How long each took without a fault.
        need_hook: Those that fail without it.
        caught: How many faults each has caught.
    """

    seconds: Mapping[str, float]
    need_hook: frozenset[str]
    caught: Counter = field(default_factory=Counter)

    def worth(self, name: str) -> float:
        """How likely a test is to catch the next fault, per second; all alike at first."""
        chance = self.caught[name] + 1 / len(self.seconds)
        return chance / (0.01 + self.seconds.get(name, 0))


class Run(NamedTuple):
    """A test file to be run on a copy, up to the first failure where there is a fault.

    Attributes:
        test: The file.
        fault: What is planted into the copy.
        known: What the run without a fault has shown.
        hook: Whether shapes are checked, but for tests of refusals, which never run like that.
    """

    test: str
    fault: Fault | None = None
    known: Known | None = None
    hook: bool = False

    def in_turn(self, items: list[pytest.Item]) -> list[pytest.Item]:
        """The tests that run, in their order."""
        if self.known is None:
            return items[::-1]
        left_out = frozenset() if self.hook else self.known.need_hook
        chosen = [item for item in items if item.nodeid not in left_out]
        return sorted(chosen, key=lambda item: -self.known.worth(item.nodeid))


class Result(NamedTuple):
    """How a run ended: pytest's exit code, what was noted of its tests, and what was printed."""

    code: int
    failed: tuple[str, ...]
    seconds: Mapping[str, float]
    output: str


def main(words: list[str]) -> int:
    faults = [f for f in FAULTS if not words or any(w in f"{f.bug} {f.name}" for w in words)]
    texts = {f.file: (ROOT / f.file).read_text(encoding="utf-8") for f in faults}
    stale = [line for f in faults for line in misplaced(f, texts[f.file])]
    if stale or not faults:
        print("\n".join(stale) or f"no fault is named like {' or '.join(words)}")
        return 1

    start = time.monotonic()
    import_what_the_tests_import({f.test for f in faults})
    survivors = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        whole_package(Path(folder) / "whole", Path(folder) / "compiled")
        try:
            for i, (f, result) in enumerate(tried(faults, Path(folder)), 1):
                word = {0: "SURVIVED", 1: "caught"}.get(result.code, f"EXIT {result.code}")
                by = re.sub(r"^.*::|\[.*", "", result.failed[0]) if result.failed else ""
                print(f"{i:3}/{len(faults)} {word:8} {f.bug:4} {f.name}  [{by}]", flush=True)
                if result.code != 1 or not result.failed:
                    survivors.append((f, result.code, result.output))
        except FailsAlready as error:
            print(error)
            return 1

    for f, code, output in survivors:
        if code == 0:
            print(f"\nNo test of {f.test} noticed: {f.name}\n{difference(f, texts[f.file])}")
        else:
            print(
                f"\nExit code {code} is not a failing test: {f.name}\n"
                f"{difference(f, texts[f.file])}\n{output}"
            )
    seconds = time.monotonic() - start
    print(f"{len(faults) - len(survivors)} of {len(faults)} faults caught in {seconds:.0f} s")
    return 1 if survivors else 0


class FailsAlready(Exception):
    """A test file does not pass on the copy without any fault."""


def tried(faults: list[Fault], folder: Path) -> Iterator[tuple[Fault, Result]]:
    """Try the tests on the copy without a fault and then on each fault; yield these results.

    Raises:
        FailsAlready: If a test file does not pass without any fault.
    """
    tests = sorted({f.test for f in faults})
    print(f"The copy without a fault: {len(tests)} test files", flush=True)
    known, failing = {}, set()
    for run, result in run_all([Run(test) for test in tests], folder):
        known[run.test] = Known(result.seconds, frozenset(result.failed))
        if result.code != 0:
            failing.add(run.test)
    must_pass(failing, folder)

    print(f"{len(faults)} planted faults, {AT_ONCE} at a time", flush=True)
    passed = []
    for run, result in run_all([Run(f.test, f, known[f.test]) for f in faults], folder):
        if result.code in (0, NO_TESTS):
            passed.append(run.fault)
        else:
            run.known.caught.update(result.failed)
            yield run.fault, result

    must_pass({f.test for f in passed} - failing, folder)
    again = [Run(f.test, f, known[f.test], hook=True) for f in passed]
    for run, result in run_all(again, folder):
        yield run.fault, result


def must_pass(tests: set[str], folder: Path) -> None:
    """Run test files with the hook on the copy without a fault."""
    for run, result in run_all([Run(test, hook=True) for test in sorted(tests)], folder):
        if result.code != 0:
            raise FailsAlready(
                f"{run.test} fails (exit code {result.code}) without any fault:\n{result.output}"
            )


def misplaced(fault: Fault, text: str) -> list[str]:
    """An old text that does not stand exactly once plants nothing, or too much."""
    return [
        f"{fault.file} must hold this exactly once, found {text.count(old)} times, for the fault "
        f"{fault.name!r}:\n    {old}"
        for old, new in fault.edits
        if text.count(old) != 1 or old == new
    ]


def planted(fault: Fault, text: str) -> str:
    for old, new in fault.edits:
        text = text.replace(old, new)
    return text


def difference(fault: Fault, text: str) -> str:
    lines = difflib.unified_diff(
        text.splitlines(),
        planted(fault, text).splitlines(),
        fault.file,
        fault.file,
        n=1,
        lineterm="",
    )
    return "\n".join(lines)


def import_what_the_tests_import(tests: set[str]) -> None:
    """Import the libraries that the test files name, wherever in the file, before any fork.

    What is this repository's own is left out: it must come from the copy.
    """
    for test in (*sorted(tests), "tests/conftest.py"):
        for node in ast.walk(ast.parse((ROOT / test).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                wanted = [(alias.name, ()) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                wanted = [(node.module, tuple(alias.name for alias in node.names))]
            else:
                continue
            for module, names in wanted:
                if is_a_library(module.partition(".")[0]):
                    # A test that needs what is not installed says so, or skips itself.
                    with contextlib.suppress(ImportError):
                        __import__(module, fromlist=names)
    look_for_constants()
    # A search for garbage in a run need not look at the libraries.
    gc.collect()
    gc.freeze()


@settings(max_examples=1, database=None)
@given(integers())
def look_for_constants(_: int) -> None:
    """Before its first example hypothesis searches every module for constants: once for all."""


def is_a_library(package: str) -> bool:
    spec = importlib.util.find_spec(package)
    return package != "attnlib" and spec is not None and "site-packages" in str(spec.origin)


def whole_package(folder: Path, compiled: Path) -> None:
    """What every test needs, and no more: the figures stay behind, and so do the tests.

    What the runs without a fault compile is kept, and serves those with one.
    """
    leave_out = shutil.ignore_patterns("plots.py", "__pycache__")
    shutil.copytree(
        ROOT / "attnlib", folder / "attnlib", ignore=leave_out, copy_function=copy_or_link
    )
    for place in ("book", "tests/refusals", "tests/book"):
        (folder / place).mkdir(parents=True)
    scripts = {f"book/{path.name}" for path in (ROOT / "book").glob("*.py")}
    for name in {"tests/conftest.py", "pyproject.toml", "Makefile", *FOR_NODE} | scripts:
        shutil.copy2(ROOT / name, folder / name)
    for place in [path for path in folder.rglob("*") if path.is_dir()]:
        kept = compiled / place.relative_to(folder)
        kept.mkdir(parents=True)
        (place / "__pycache__").symlink_to(kept)


def copy_of_the_package(folder: Path, whole: Path, test: str, fault: Fault | None) -> Path:
    """The whole package again, in links to its files, with a test file and perhaps a fault."""
    shutil.copytree(whole, folder, symlinks=True, copy_function=os.link)
    shutil.copy2(ROOT / test, folder / test)
    if fault is not None:
        plant(fault, folder / fault.file)
    return folder


def plant(fault: Fault, path: Path) -> None:
    """Write a file of a copy anew, and let what was compiled of it be compiled anew."""
    text = planted(fault, path.read_text("utf-8"))
    path.unlink()  # it is a link, and what it leads to belongs to every copy
    path.write_text(text, encoding="utf-8")
    compiled = path.parent / "__pycache__"
    kept = compiled.readlink()
    compiled.unlink()
    compiled.mkdir()
    for file in kept.iterdir():
        if file.name.partition(".")[0] != path.stem:
            (compiled / file.name).symlink_to(file)


def copy_or_link(source: str, target: str) -> None:
    """Texts and numbers are many megabytes, and no fault is planted in them: a link will do."""
    if Path(source).suffix in CODE:
        shutil.copy2(source, target)
    else:
        os.symlink(source, target)


def run_all(runs: list[Run], folder: Path) -> Iterator[tuple[Run, Result]]:
    """Run each test file in a copy of its own, a few at a time; yield the results as they end."""
    fork = multiprocessing.get_context("fork")
    waiting, running = list(runs), {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            run = waiting.pop(0)
            copy = Path(tempfile.mkdtemp(dir=folder)) / "copy"
            copy_of_the_package(copy, folder / "whole", run.test, run.fault)
            process = fork.Process(target=run_here, args=(copy, run))
            process.start()
            running[process.sentinel] = process, run, copy, time.monotonic()
        ended = wait(list(running), timeout=1)
        for sentinel in list(running):
            process, run, copy, since = running[sentinel]
            late = time.monotonic() - since > SECONDS_A_RUN
            if late:
                process.kill()
            if late or sentinel in ended:
                process.join()
                output = (copy / "output.txt").read_text("utf-8", errors="replace")
                noted = copy / NOTES
                notes = json.loads(noted.read_text("utf-8")) if noted.is_file() else ([], {})
                code = TOO_SLOW if late else process.exitcode
                yield run, Result(code, *notes, output[-3000:])
                del running[sentinel]
                shutil.rmtree(copy.parent)


class Notes:
    """A plugin that brings tests into their order, and writes down how they ended."""

    def __init__(self, run: Run, path: Path):
        self.run, self.path, self.failed, self.seconds = run, path, [], Counter()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = self.run.in_turn(items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.path.write_text(json.dumps([self.failed, self.seconds]), "utf-8")


def run_here(copy: Path, run: Run) -> None:
    """In a process of its own: pytest on the copy, where its exit code is the process's."""
    with open(copy / "output.txt", "wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.chdir(copy)
    # what hypothesis finds in a module, by its content
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(copy.parents[1] / "hypothesis")
    sys.dont_write_bytecode = run.fault is not None
    sys.path[:] = [str(copy), *(p for p in sys.path if Path(p or ".").resolve() != ROOT)]
    hooked = [] if run.hook and "refusals" not in run.test else WITHOUT_HOOK
    first = [] if run.fault is None else ["-x"]
    notes = Notes(run, copy / NOTES)
    try:
        code = pytest.main([*OPTIONS, *hooked, *first, run.test], plugins=[notes])
    except BaseException:
        traceback.print_exc()
        code = NOT_RUN
    sys.stdout.flush()
    tested = getattr(sys.modules.get("attnlib"), "__file__", str(copy))
    os._exit(int(code) if Path(tested).is_relative_to(copy) else NOT_THE_COPY)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
