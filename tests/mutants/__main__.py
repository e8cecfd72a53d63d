"""Plant each fault of the table into a copy of the package and expect a test to fail.

Run as `python -m tests.mutants` from the root of the repository; words that follow choose the
faults whose name or bug holds one of them.

The copy is tested without any fault first. Then every fault must make a test fail: an exit code of
1 from pytest. Anything else (no failure, or a copy that cannot even be imported or collected) is
printed with its difference, and the run ends with an error.
"""

import ast
import contextlib
import difflib
import gc
import importlib.util
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "HYPOTHESIS_PROFILE": "mutants"}

# Every run starts as a fork of this process, so that the slow imports are paid for once: these, and
# what the tests import (see import_what_the_tests_import).
import beartype  # noqa: F401
import pytest
import torch  # noqa: F401

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from fault import Fault  # noqa: E402 (found beside this file, however it is started)
from table import FAULTS  # noqa: E402

AT_ONCE = max(2, os.cpu_count() or 2)
SECONDS_A_RUN = 300
# Assertions stay as they are written: libraries that are imported already cannot be rewritten, and
# pytest says so with a warning, which is an error.
OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:nbmake", "--tb=line", "--assert=plain"]
WITHOUT_HOOK = ["-o", "addopts=--strict-markers"]
# A process that ends with an exception of its own ends with 1, as pytest does where a test fails.
TOO_SLOW, NOT_THE_COPY, NOT_RUN = 124, 99, 98
# With these the tests of JavaScript in tests/book find Node and call the modules of the copy.
FOR_NODE = ("tests/book/conftest.py", "tests/book/builds.py", "tests/book/parts.py")
CODE = (".py", ".mjs", ".css")


def main(words: list[str]) -> int:
    faults = [f for f in FAULTS if not words or any(w in f"{f.bug} {f.name}" for w in words)]
    texts = {f.file: (ROOT / f.file).read_text(encoding="utf-8") for f in faults}
    stale = [line for f in faults for line in misplaced(f, texts[f.file])]
    if stale or not faults:
        print("\n".join(stale) or f"no fault is named like {' or '.join(words)}")
        return 1

    start = time.monotonic()
    import_what_the_tests_import({f.test for f in faults})
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
    # A search for garbage in a run need not look at the libraries.
    gc.collect()
    gc.freeze()


def is_a_library(package: str) -> bool:
    spec = importlib.util.find_spec(package)
    return package != "attnlib" and spec is not None and "site-packages" in str(spec.origin)


def copy_of_the_package(folder: Path, test: str, compiled: Path, fault: Fault | None) -> Path:
    """What the test needs, and no more: the figures stay behind, and so do the other tests."""
    leave_out = shutil.ignore_patterns("plots.py", "__pycache__")
    shutil.copytree(
        ROOT / "attnlib", folder / "attnlib", ignore=leave_out, copy_function=copy_or_link
    )
    for kind in ("refusals", "book"):
        (folder / "tests" / kind).mkdir(parents=True)
    (folder / "book").mkdir()
    scripts = {f"book/{path.name}" for path in (ROOT / "book").glob("*.py")}
    for name in {test, "tests/conftest.py", "pyproject.toml", "Makefile", *FOR_NODE} | scripts:
        shutil.copy(ROOT / name, folder / name)
    link_what_is_compiled(folder, compiled, fault)
    if fault is not None:
        path = folder / fault.file
        path.write_text(planted(fault, path.read_text("utf-8")), encoding="utf-8")
    return folder


def link_what_is_compiled(folder: Path, compiled: Path, fault: Fault | None) -> None:
    """Keep what the runs without a fault compile, and let it serve those with one.

    What a fault is planted into is compiled anew.
    """
    for path in sorted({path.parent for path in folder.rglob("*.py")}):
        kept, here = compiled / path.relative_to(folder), path / "__pycache__"
        kept.mkdir(parents=True, exist_ok=True)
        if fault is None or path != (folder / fault.file).parent:
            here.symlink_to(kept)
            continue
        here.mkdir()
        for file in kept.iterdir():
            if file.name.partition(".")[0] != Path(fault.file).stem:
                (here / file.name).symlink_to(file)


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
            copy = Path(tempfile.mkdtemp(dir=folder)) / "copy"
            copy_of_the_package(copy, test, folder / "compiled", fault)
            process = fork.Process(target=run, args=(copy, test, fault is None))
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


def run(copy: Path, test: str, keeps_what_it_compiles: bool) -> None:
    """In a process of its own: pytest on the copy, where its exit code is the process's."""
    with open(copy / "output.txt", "wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.chdir(copy)
    sys.dont_write_bytecode = not keeps_what_it_compiles
    sys.path[:] = [str(copy), *(p for p in sys.path if Path(p or ".").resolve() != ROOT)]
    try:
        code = pytest.main([*OPTIONS, *(WITHOUT_HOOK if "refusals" in test else []), test])
    except BaseException:
        traceback.print_exc()
        code = NOT_RUN
    sys.stdout.flush()
    tested = getattr(sys.modules.get("attnlib"), "__file__", str(copy))
    os._exit(int(code) if Path(tested).is_relative_to(copy) else NOT_THE_COPY)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
