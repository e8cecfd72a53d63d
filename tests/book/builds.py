"""Build the miniature book of tests/book/miniature/ under the settings of the real one."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
MINIATURE = Path(__file__).parent / "miniature"
COLOUR = re.compile(r"\x1b\[[\d;]*m")

BUILD = re.compile(r"^BUILD := .*?(jupyter-book build .*)$", re.MULTILINE)


class Outcome(NamedTuple):
    """How a build ended: its exit code, and everything it said."""

    code: int
    output: str


def miniature(folder: Path) -> Path:
    """Lay a copy of the miniature book into `folder`, with the real book's settings."""
    book = folder / "book"
    shutil.copytree(MINIATURE, book)
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    # The copy stands elsewhere; what the settings name relative to the repository stays there.
    sphinx = config["sphinx"]
    for name, path in sphinx["local_extensions"].items():
        sphinx["local_extensions"][name] = str(ROOT / path)
    static = sphinx["config"]["html_static_path"]
    sphinx["config"]["html_static_path"] = [str(ROOT / path) for path in static]
    (book / "_config.yml").write_text(yaml.safe_dump(config), "utf-8")
    return book


def gate() -> list[str]:
    """The Makefile's command that builds the book."""
    program, *arguments = BUILD.search((ROOT / "Makefile").read_text("utf-8"))[1].split()
    return [str(Path(sys.executable).parent / program), *arguments]


def build(
    book: Path, *, library: Path = ROOT, environment: Mapping[str, str] = MappingProxyType({})
) -> Outcome:
    """Build `book` as `make book` does.

    Args:
        book: A folder with a book's sources.
        library: The folder from which its cells import attnlib.
        environment: What the build's environment holds beyond this process's own.
    """
    programs = str(Path(sys.executable).parent)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")},
        **environment,
        "PATH": programs + os.pathsep + os.environ.get("PATH", ""),
        "PYTHONPATH": str(library),
    }
    done = subprocess.run(
        gate(),
        cwd=book,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    return Outcome(done.returncode, COLOUR.sub("", done.stdout))
