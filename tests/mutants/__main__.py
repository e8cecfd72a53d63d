"""Plant each fault of the table into a copy of the package and expect a test to fail.

Run as `python -m tests.mutants` from the root of the repository; words that follow choose the
faults whose name or bug holds one of them.

The copy is tested without any fault first. Then every fault must make a test fail: an exit code of
1 from pytest. Anything else (no failure, or a copy that cannot even be imported or collected) is
printed with its difference, and the run ends with an error.
"""

import difflib
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "HYPOTHESIS_PROFILE": "mutants"}

# Every run starts as a fork of this process, so that the slow imports are paid for once.
import beartype  # noqa: F401
import pytest
import scipy.special
import scipy.stats  # noqa: F401
import torch  # noqa: F401

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from fault import Fault  # noqa: E402 (found beside this file, however it is started)
from table import FAULTS  # noqa: E402

AT_ONCE = 2
SECONDS_A_RUN = 300
OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:nbmake", "--tb=line"]
WITHOUT_HOOK = ["-o", "addopts=--strict-markers"]
TOO_SLOW, NOT_THE_COPY = 124, 99
# With these the tests of JavaScript in tests/book find Node and call the modules of the copy.
FOR_NODE = ("tests/book/conftest.py", "tests/book/builds.py")
CODE = (".py", ".mjs", ".css")


def main(words: list[str]) -> int:
    faults = [f for f in FAULTS if not words or any(w in f"{f.bug} {f.name}" for w in words)]
    texts = {f.file: (ROOT / f.file).read_text(encoding="utf-8") for f in faults}
    stale = [line for f in faults for line in misplaced(f, texts[f.file])]
    if stale or not faults:
        print("\n".join(stale) or f"no fault is named like {' or '.join(words)}")
        return 1

    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tests = sorted({f.test for f in faults})
        print(f"The copy without a fault: {len(tests)} test files", flush=True)
        for test, (code, _, output) in run_all([(test, None) for test in tests], Path(folder)):
            if code != 0:
                print(f"{test} fails (exit code {code}) without any fault:\n{output}")
                return 1

        print(f"{len(faults)} planted faults, {AT_ONCE} at a time", flush=True)
        survivors = []
        results = run_all([(f.test, f) for f in faults], Path(folder))
        for i, (f, (code, caught_by, output)) in enumerate(results, 1):
            word = {0: "SURVIVED", 1: "caught"}.get(code, f"EXIT {code}")
            print(f"{i:3}/{len(faults)} {word:8} {f.bug:4} {f.name}  [{caught_by}]", flush=True)
            if code != 1:
                survivors.append((f, code, output))

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


def copy_of_the_package(folder: Path) -> Path:
    """What the tests of the table need, and no more: the figures stay behind."""
    leave_out = shutil.ignore_patterns("plots.py", "__pycache__")
    shutil.copytree(
        ROOT / "attnlib", folder / "attnlib", ignore=leave_out, copy_function=copy_or_link
    )
    for kind in ("refusals", "book"):
        (folder / "tests" / kind).mkdir(parents=True)
    (folder / "book").mkdir()
    scripts = {f"book/{path.name}" for path in (ROOT / "book").glob("*.py")}
    others = {"tests/conftest.py", "pyproject.toml", "Makefile", *FOR_NODE}
    for name in {f.test for f in FAULTS} | scripts | others:
        shutil.copy(ROOT / name, folder / name)
    return folder


def copy_or_link(source: str, target: str) -> None:
    """Texts and numbers are many megabytes, and no fault is planted in them: a link will do."""
    if Path(source).suffix in CODE:
        shutil.copy2(source, target)
    else:
        os.symlink(source, target)


def run_all(
    tasks: list[tuple[str, Fault | None]], folder: Path
) -> Iterator[tuple[Fault | str, tuple[int, str, str]]]:
    """Run the test file of each task in a copy of its own, as they end, a few at a time.

    Yields the fault (or the test file, where there is none) with pytest's exit code, the test that
    failed first, and what was printed.
    """
    fork = multiprocessing.get_context("fork")
    waiting, running = list(tasks), {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            test, fault = waiting.pop(0)
            copy = copy_of_the_package(Path(tempfile.mkdtemp(dir=folder)) / "copy")
            if fault is not None:
                path = copy / fault.file
                path.write_text(planted(fault, path.read_text("utf-8")), encoding="utf-8")
            process = fork.Process(target=run, args=(copy, test))
            process.start()
            running[process.sentinel] = process, fault or test, copy, time.monotonic()
        ended = wait(list(running), timeout=1)
        for sentinel in list(running):
            process, task, copy, since = running[sentinel]
            late = time.monotonic() - since > SECONDS_A_RUN
            if late:
                process.kill()
            if late or sentinel in ended:
                process.join()
                output = (copy / "output.txt").read_text("utf-8", errors="replace")
                failed = re.search(r"^FAILED \S+?::(\w+)", output, re.MULTILINE)
                code = TOO_SLOW if late else process.exitcode
                yield task, (code, failed[1] if failed else "", output[-3000:])
                del running[sentinel]
                shutil.rmtree(copy.parent)


def run(copy: Path, test: str) -> None:
    """In a process of its own: pytest on the copy, where its exit code is the process's."""
    with open(copy / "output.txt", "wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.chdir(copy)
    sys.path[:] = [str(copy), *(p for p in sys.path if Path(p or ".").resolve() != ROOT)]
    code = pytest.main([*OPTIONS, *(WITHOUT_HOOK if "refusals" in test else []), test])
    sys.stdout.flush()
    tested = getattr(sys.modules.get("attnlib"), "__file__", str(copy))
    os._exit(int(code) if Path(tested).is_relative_to(copy) else NOT_THE_COPY)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
