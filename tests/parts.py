"""Run tests in parts side by side: `parts.py N [pytest's arguments]`.

A browser waits more than it works, and a test uses one processor: parts use what is left over.
The tests of one file, and those of one page of the built book, stay together, for they share what
is slow to set up. No part is given its tests beforehand: whichever has done takes the next ones.
The first part prints as it goes; what another prints is shown in the end.

A test with a browser may wait for an answer that never comes. A part that stands still in one is
ended, and another begins what it had taken anew, which is said; when that has happened too often,
the run fails. No failure is forgotten with a part: all are noted as they happen.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO
from urllib.parse import quote

import pytest

POLL_S = 0.2
LONGEST_S = 300  # of one test with a browser; on a busy machine they take up to fifty seconds
MOST_AGAIN = 2  # parts that are begun anew; with more, something is wrong
NO_TESTS = 5  # pytest's exit code where it finds none: so for every part, or for no part
# Few tests that take long: they come first, lest one part ends with them while others are idle.
SLOW = ("test_colab.py", "test_jupyterlab.py", "test_data_rebuild.py")


def page_of(item: pytest.Item) -> str | None:
    """The page of the built book that a test is about, if it is about one."""
    where = getattr(item, "callspec", None) and item.callspec.params.get("opened")
    return None if where is None else str(where)


def shared_by(item: pytest.Item) -> str:
    """What is slow to set up for a test, or its file: tests that share it stay together."""
    if item.get_closest_marker("gate"):  # each builds a book of its own, but for the sound one
        return "sound" if "sound" in item.fixturenames else item.nodeid
    return page_of(item) or item.path.as_posix()


def in_turn(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """The tests that stay together, as lists by the name of their page or file, longest first."""
    found: dict[str, list[pytest.Item]] = {}
    for item in items:
        found.setdefault(shared_by(item), []).append(item)

    def rank(name: str) -> tuple[bool, int, str]:
        return (not name.endswith(SLOW), -len(found[name]), name)

    return {name: found[name] for name in sorted(found, key=rank)}


class Taking:
    """A plugin that runs those tests only which no other part has taken.

    Args:
        taken: A folder, empty at first. Whoever takes tests makes a file of their name there, and
            of all parts one alone can make it.
    """

    def __init__(self, taken: Path):
        self.taken = taken

    def takes(self, name: str) -> bool:
        try:
            (self.taken / quote(name, safe="")).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # pytest's own loop ends such a run
        own = (items for name, items in in_turn(session.items).items() if self.takes(name))
        # What an item leaves for the next one depends on the next one.
        for item, after in pairwise(chain(chain.from_iterable(own), [None])):
            self.note_now(item)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        now_of(self.taken, os.getpid()).unlink(missing_ok=True)
        return True

    def note_now(self, item: pytest.Item) -> None:
        """Say what is tested now, for whoever watches the parts."""
        has_browser = not BROWSERS.isdisjoint(getattr(item, "fixturenames", ()))
        now = {"taken": shared_by(item), "test": item.nodeid, "has_browser": has_browser}
        written = now_of(self.taken, f"{os.getpid()}-new")
        written.write_text(json.dumps(now | {"since": time.time()}), "utf-8")
        written.replace(now_of(self.taken, os.getpid()))  # whole or not there

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with (self.taken / FAILED).open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")


FAILED = ".failed"
BROWSERS = {"browser", "opened", "page"}


def now_of(taken: Path | str, part: int | str) -> Path:
    return Path(taken, f".now-{part}")


def stands_still(taken: str, part: subprocess.Popen) -> dict | None:
    """The test with a browser in which a part has been for too long, if it is in one."""
    try:
        now = json.loads(now_of(taken, part.pid).read_text("utf-8"))
    except FileNotFoundError:
        return None
    return now if now["has_browser"] and time.time() - now["since"] > LONGEST_S else None


def main(n_parts: int, arguments: Sequence[str]) -> int:
    with contextlib.ExitStack() as stack:
        taken = stack.enter_context(TemporaryDirectory(prefix="parts-"))

        def begin(output: IO | None) -> subprocess.Popen:
            return stack.enter_context(part_of_the_run(taken, n_parts, arguments, output))

        outputs = [None, *(stack.enter_context(TemporaryFile()) for _ in range(n_parts - 1))]
        parts, codes, n_again = [begin(output) for output in outputs], [], 0
        while parts:
            time.sleep(POLL_S)
            for part in list(parts):
                if part.poll() is not None:
                    codes.append(part.returncode)
                elif now := stands_still(taken, part):
                    os.killpg(part.pid, signal.SIGKILL)
                    n_again += 1
                    what = "is begun anew" if n_again <= MOST_AGAIN else "fails"
                    stood = f"--- stood still for {LONGEST_S} s, and {what}: {now['test']}"
                    print(stood, flush=True)
                    if n_again <= MOST_AGAIN:
                        (Path(taken) / quote(now["taken"], safe="")).unlink()
                        outputs.append(stack.enter_context(TemporaryFile()))
                        parts.append(begin(outputs[-1]))
                    else:
                        codes.append(1)
                else:
                    continue
                parts.remove(part)
        for i, output in enumerate(outputs[1:], 2):
            output.seek(0)
            print(f"--- part {i} of {len(outputs)}", output.read().decode(), sep="\n", flush=True)
        failed = Path(taken, FAILED)
        if failed.exists():  # in a part that was ended, maybe, which gave no code
            print("--- failed", failed.read_text("utf-8"), sep="\n", flush=True)
            codes.append(1)
    wrong = [code for code in codes if code not in (0, NO_TESTS)]
    return wrong[0] if wrong else min(codes)


@contextlib.contextmanager
def part_of_the_run(
    taken: str, n_parts: int, arguments: Sequence[str], output: IO | None
) -> Iterator[subprocess.Popen]:
    """Start one part, which ends with this process at the latest."""
    command = [sys.executable, "-m", "pytest", *arguments]
    # parts that share the processors: threads of torch that wait for one another would spin
    n_threads = max(1, (os.cpu_count() or 1) // n_parts)
    environment = {"OMP_NUM_THREADS": str(n_threads)} | os.environ | {"TESTS_TAKEN": taken}
    started = subprocess.Popen(
        command, env=environment, stdout=output, stderr=output, start_new_session=True
    )
    try:
        yield started
    finally:
        started.terminate()
        started.wait()


if __name__ == "__main__":
    # Whoever ends this process ends its parts: without this line they would run on.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
