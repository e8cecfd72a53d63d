"""`make data` gives the committed texts back, byte for byte. Needs npm, pip and the network."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "attnlib" / "data"


def make_data(*arguments):
    command = [sys.executable, str(ROOT / "book" / "make_data.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def generated(folder):
    paths = [
        *folder.rglob("*.txt"),
        *folder.rglob("*.xz"),
        *folder.rglob("*.npz"),
        *folder.glob("embeddings/*.json"),
        folder / "checksums.json",
    ]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_rebuild_into_an_empty_folder_equals_the_committed_texts(tmp_path):
    done = make_data("--data", str(tmp_path))
    assert done.returncode == 0, f"the texts could not be rebuilt:\n{done.stderr}"
    assert generated(tmp_path) == generated(DATA)


@pytest.fixture
def a_copy(tmp_path):
    return shutil.copytree(DATA, tmp_path / "data")


def test_the_check_passes_on_the_committed_texts_and_writes_nothing(a_copy):
    before = {path: path.stat().st_mtime_ns for path in a_copy.rglob("*")}
    done = make_data("--check", "--data", str(a_copy))
    assert done.returncode == 0, f"the check failed:\n{done.stderr}"
    assert {path: path.stat().st_mtime_ns for path in a_copy.rglob("*")} == before


def test_the_check_fails_on_one_changed_letter_and_leaves_it(a_copy):
    target = a_copy / "shakespeare" / "hamlet.txt"
    changed = target.read_bytes().replace(b"To be, or not to be", b"To be, or not to bee")
    target.write_bytes(changed)
    done = make_data("--check", "--data", str(a_copy))
    assert done.returncode == 1
    assert "shakespeare/hamlet.txt differs" in done.stderr
    assert target.read_bytes() == changed
