"""Tests in parts: every test is in exactly one, and those that share a page stay together."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import parts
import pytest


def made_up(file: str, page: str | None = None) -> SimpleNamespace:
    callspec = SimpleNamespace(params={} if page is None else {"opened": page})
    return SimpleNamespace(path=Path(file), callspec=callspec)


ITEMS = [
    *(made_up("test_a.py") for _ in range(5)),
    *(made_up("test_browser.py", "index-http") for _ in range(4)),
    *(made_up("test_browser.py") for _ in range(2)),
    *(made_up("test_browser.py", "index-file") for _ in range(3)),
]


def chosen(part: int, n_parts: int) -> list[int]:
    """The places of the items that a part keeps; the others it must report."""
    left_out, kept = [], list(ITEMS)
    hook = SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items))
    only = parts.OnlyOnePart(f"{part}/{n_parts}")
    only.pytest_collection_modifyitems(SimpleNamespace(hook=hook), kept)
    assert len(left_out) + len(kept) == len(ITEMS)
    return [i for i, item in enumerate(ITEMS) if any(item is each for each in kept)]


@pytest.mark.parametrize("n_parts", [1, 2, 3, 9])
def test_every_test_is_in_exactly_one_part(n_parts):
    found = [i for part in range(n_parts) for i in chosen(part, n_parts)]
    assert sorted(found) == list(range(len(ITEMS)))


def test_what_shares_a_page_or_a_file_stays_together_and_parts_are_of_like_size():
    assert chosen(0, 2) == [0, 1, 2, 3, 4, 9, 10]
    assert chosen(1, 2) == [5, 6, 7, 8, 11, 12, 13]


@pytest.mark.parametrize(
    "failing,code",
    [("", 0), ("0", 1), ("1", 1), ("01", 1), ("none", 5)],
    ids=["all pass", "the first fails", "the second fails", "both fail", "there are none"],
)
def test_a_failure_in_any_part_fails_the_run(tmp_path, monkeypatch, capfd, failing, code):
    test = f"import os\ndef test_it():\n    assert os.environ['PART'][0] not in {failing!r}\n"
    (tmp_path / "test_made_up.py").write_text("" if failing == "none" else test, "utf-8")
    monkeypatch.setattr(parts, "FOLDER", tmp_path)
    assert parts.main(2, ["-q", "-p", "no:cacheprovider"]) == code
    shown = capfd.readouterr().out
    assert "--- part 2 of 2" in shown
    assert shown.count("1 failed") == len(failing) % 4


def test_parts_end_with_the_run(tmp_path):
    (tmp_path / "parts.py").write_text(Path(parts.__file__).read_text("utf-8"), "utf-8")
    told = tmp_path / "pid"
    test = f"import os, pathlib, time\ndef test_it():\n    told = pathlib.Path({str(told)!r})\n"
    test += "    told.write_text(f'{os.getpid()}.')\n    time.sleep(600)\n"
    (tmp_path / "test_made_up.py").write_text(test, "utf-8")
    command = [sys.executable, tmp_path / "parts.py", "2", "-p", "no:cacheprovider"]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not (told.is_file() and told.read_text().endswith(".")):
        assert run.poll() is None
        time.sleep(0.1)
    run.terminate()
    assert run.wait() == 128 + 15
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()[:-1]), 0)


def test_the_command_line_hands_the_code_on(tmp_path):
    script = Path(parts.__file__).read_text("utf-8")
    (tmp_path / "parts.py").write_text(script, "utf-8")
    (tmp_path / "test_made_up.py").write_text("def test_it():\n    assert False\n", "utf-8")
    done = subprocess.run(
        [sys.executable, tmp_path / "parts.py", "2", "-q", "-p", "no:cacheprovider"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
