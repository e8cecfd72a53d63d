"""An environment with attnlib's wheel and what the wheel asks for, and nothing else.

A fresh virtual environment sees no other package. Into it go attnlib, unpacked from a wheel
that is built here, and links to the files of exactly those installed distributions that the
wheel's own metadata (with the extra `notebooks`) and a kernel require. So a chapter that
imports anything more fails, as it would for a reader; and neither network nor a second copy of
torch is needed.
"""

import importlib.metadata
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Iterator
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def build_wheel(folder: Path) -> Path:
    """Build attnlib's wheel, as pip does for a reader who installs from the repository.

    From a copy: setuptools takes up what an earlier build has left in the folder.
    """
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "attnlib", source / "attnlib", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run(
        [
            sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index",
            "--no-build-isolation", "--wheel-dir", folder, source,
        ],
        check=True,
    )  # fmt: skip
    (wheel,) = folder.glob("attnlib-*.whl")
    return wheel


def requirements_of_wheel(wheel: Path) -> list[str]:
    """Return the requirements that the wheel's metadata states."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    return metadata.get_all("Requires-Dist") or []


def closure(requirements: Iterable[str], extras: Iterable[str] = ()) -> set[str]:
    """Return the names of all distributions that the requirements lead to.

    Raises:
        RuntimeError: If one is not installed here, or in a version that does not satisfy.
    """
    found: set[str] = set()
    waiting = [(text, extra) for text in requirements for extra in ("", *extras)]
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            raise RuntimeError(f"{text} is required and not installed") from None
        if not requirement.specifier.contains(version, prereleases=True):
            raise RuntimeError(f"{text} is required, and {version} is installed")
        name = canonicalize_name(requirement.name)
        more = importlib.metadata.requires(name) or []
        if name not in found or requirement.extras:
            waiting += [(text, e) for text in more for e in ("", *requirement.extras)]
        found.add(name)
    return found


def _top_level(name: str) -> Iterator[Path]:
    """Return what a distribution has put directly into site-packages."""
    distribution = importlib.metadata.distribution(name)
    base = Path(str(distribution.locate_file("")))
    parts = {path.parts[0] for path in distribution.files or [] if path.parts[0] != ".."}
    return (base / part for part in sorted(parts - {"__pycache__"}))


def make(folder: Path, wheel: Path) -> Path:
    """Make the environment in `folder` and return its Python."""
    venv.create(folder / "env", symlinks=True, with_pip=False)
    (packages,) = (folder / "env").glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    names = closure([*requirements_of_wheel(wheel), "ipykernel"], extras=["notebooks"])
    for name in sorted(names):
        for source in _top_level(name):
            target = packages / source.name
            # A namespace package (nvidia, google) is shared by several distributions.
            if not target.exists():
                target.symlink_to(source)
    return folder / "env/bin/python"
