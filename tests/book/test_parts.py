"""Tests in parts: each test runs once, in one part, together with what shares its page or file."""

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import parts
import pytest

QUIET = ("-q", "-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def without_plugins(monkeypatch) -> None:
    """Those that are installed take longer to load than what is tested here."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def made_up(file: str, page: str | None = None, **more) -> SimpleNamespace:
    callspec = SimpleNamespace(params={} if page is None else {"opened": page})
    more = {"get_closest_marker": lambda name: None, **more}
    return SimpleNamespace(path=Path(file), callspec=callspec, **more)


def gate(name: str, *fixtures: str) -> SimpleNamespace:
    marker = {"get_closest_marker": lambda name: name == "gate" or None}
    return made_up("test_gates.py", nodeid=name, fixturenames=fixtures, **marker)


def test_what_shares_a_page_or_a_file_stays_together_and_the_longest_comes_first():
    items = [
        *(made_up("test_a.py") for _ in range(2)),
        *(made_up("test_browser.py", "index-http") for _ in range(4)),
        made_up("test_browser.py"),
        made_up("test_browser.py", "index-file"),
        made_up("test_a.py"),
        made_up("book/test_colab.py"),
        *(gate("a"), gate("b"), gate("c", "sound", "tmp_path"), gate("d", "sound")),
    ]
    turns = parts.in_turn(items)
    assert list(turns) == [
        *("book/test_colab.py", "index-http", "test_a.py", "sound"),
        *("a", "b", "index-file", "test_browser.py"),
    ]
    assert [id(item) for item in turns["test_a.py"]] == [id(items[i]) for i in (0, 1, 8)]
    assert sum(map(len, turns.values())) == len(items)


def test_what_one_part_has_taken_no_other_takes(tmp_path):
    one, other = parts.Taking(tmp_path), parts.Taking(tmp_path)
    assert one.takes("/a/test_a.py") and not other.takes("/a/test_a.py")
    assert not one.takes("/a/test_a.py")
    assert other.takes("/b/test_a.py") and other.takes("chapters/index-http")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder to run tests in, with the plugin that shares them out."""
    for name in ("parts.py", "conftest.py"):
        shutil.copy(Path(parts.__file__).with_name(name), tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


NOTED = """
import os, pathlib, time, pytest

@pytest.fixture(scope="session")
def kept():
    yield
    note("the end")

def note(what):
    with (pathlib.Path(__file__).parent / f"{os.getpid()}.txt").open("a") as file:
        file.write(f"{pathlib.Path(__file__).stem} {what}\\n")

@pytest.mark.parametrize("i", range(3))
def test_it(i, kept):
    note(i)
    time.sleep(0.1)  # so that one part cannot do it all before another has begun
"""


def test_every_test_runs_once_and_a_part_does_all_of_a_file(folder, capfd):
    """What is set up once for all is taken down after the last test, not after each file."""
    names = [f"test_{letter}" for letter in "abcdef"]
    for name in names:
        (folder / f"{name}.py").write_text(NOTED, "utf-8")
    assert parts.main(2, [*QUIET, str(folder)]) == 0
    logs = [path.read_text().splitlines() for path in folder.glob("*.txt")]
    assert len(logs) == 2
    done = [line.split() for log in logs for line in log if not line.endswith("the end")]
    assert Counter(map(tuple, done)) == Counter((n, str(i)) for n in names for i in range(3))
    for log in logs:
        ran = [line.split()[0] for line in log if not line.endswith("the end")]
        assert ran == sorted(ran)
        assert [line for line in log if line.endswith("the end")] == log[len(ran) :]
    assert "--- part 2 of 2" in capfd.readouterr().out


FAILING = """
import os, pathlib
part = pathlib.Path(os.environ["TESTS_TAKEN"]) / "part"

def test_it():
    try:
        part.touch(exist_ok=False)
        which = "0"
    except FileExistsError:
        which = "1"
    assert which not in WRONG
"""


@pytest.mark.parametrize(
    "failing,code",
    [("", 0), ("0", 1), ("1", 1), ("01", 1), ("none", parts.NO_TESTS)],
    ids=["all pass", "one fails", "another fails", "both fail", "there are none"],
)
def test_a_failure_in_any_part_fails_the_run(tmp_path, monkeypatch, capfd, failing, code):
    """Without the plugin each part runs all of the tests."""
    if failing != "none":
        text = FAILING.replace("WRONG", repr(failing))
        (tmp_path / "test_made_up.py").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    assert parts.main(2, [*QUIET, str(tmp_path)]) == code
    assert capfd.readouterr().out.count("1 failed") == len(failing) % 4


STANDING = """
import os, pathlib, time, pytest
here = pathlib.Path(__file__).parent

@pytest.fixture
def browser():
    pass

def test_before():
    assert not FAILS_BEFORE

def test_it(browser):
    seen = here / "seen"
    if not seen.exists():
        seen.touch()
        time.sleep(60)

def test_after():
    with (here / "after").open("a") as file:
        file.write("1")
"""


@pytest.mark.parametrize("fails_before", [False, True])
def test_a_part_that_stands_still_is_begun_anew_and_no_failure_is_forgotten(
    folder, monkeypatch, capfd, fails_before
):
    text = STANDING.replace("FAILS_BEFORE", f"({fails_before} and not (here / 'seen').exists())")
    (folder / "test_a.py").write_text(text, "utf-8")
    monkeypatch.setattr(parts, "LONGEST_S", 1)
    assert parts.main(1, [*QUIET, str(folder)]) == int(fails_before)
    assert (folder / "after").read_text() == "1"
    said = capfd.readouterr().out
    assert "begun anew: test_a.py::test_it" in said
    assert ("test_a.py::test_before" in said.partition("--- failed")[2]) == fails_before


def test_a_run_fails_in_which_parts_stand_still_too_often(folder, monkeypatch, capfd):
    text = STANDING.replace("FAILS_BEFORE", "False").replace("seen.touch()", "pass")
    (folder / "test_a.py").write_text(text, "utf-8")
    monkeypatch.setattr(parts, "LONGEST_S", 1)
    monkeypatch.setattr(parts, "MOST_AGAIN", 0)
    assert parts.main(1, [*QUIET, str(folder)]) == 1
    assert "and fails: test_a.py::test_it" in capfd.readouterr().out


def test_a_file_that_cannot_be_read_fails_the_run(folder):
    (folder / "test_made_up.py").write_text("import no_such_module\n", "utf-8")
    (folder / "test_sound.py").write_text("def test_it():\n    pass\n", "utf-8")
    assert parts.main(2, [*QUIET, str(folder)]) not in (0, parts.NO_TESTS)


def test_parts_end_with_the_run(tmp_path):
    told = tmp_path / "pid"
    test = f"import os, pathlib, time\ndef test_it():\n    told = pathlib.Path({str(told)!r})\n"
    test += "    told.write_text(f'{os.getpid()}.')\n    time.sleep(600)\n"
    (tmp_path / "test_made_up.py").write_text(test, "utf-8")
    command = [sys.executable, parts.__file__, "2", "-p", "no:cacheprovider", tmp_path]
    run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    while not (told.is_file() and told.read_text().endswith(".")):
        assert run.poll() is None
        time.sleep(0.1)
    run.terminate()
    assert run.wait() == 128 + 15
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()[:-1]), 0)


def test_the_command_line_hands_the_code_on(tmp_path):
    (tmp_path / "test_made_up.py").write_text("def test_it():\n    assert False\n", "utf-8")
    done = subprocess.run(
        [sys.executable, parts.__file__, "2", *QUIET, tmp_path],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
