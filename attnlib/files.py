r"""Files that are whole or not there: read and checked in one go, written beside and renamed.

Source   this book
Chapter  chapters/language-models.md
Axes     attnlib/axes.py
"""

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["cache_folder", "read", "sha256_of", "written_whole"]

_CHUNK = 1 << 24


def read(path: Path, sha256: str | None = None) -> bytes:
    """Read a whole file; what is checked is what is used, whatever happens to it meanwhile.

    Args:
        path: The file.
        sha256: What its hash must be, in hexadecimal; None takes any.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the hash is another.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "a.txt").write_bytes(b"to be")
        ...     read(Path(folder, "a.txt"))
        b'to be'
    """
    require_file(path)
    content = path.read_bytes()
    if sha256 is not None:
        require_hash(path, hashlib.sha256(content).hexdigest(), sha256, len(content))
    return content


def sha256_of(path: Path) -> str:
    """The hash of a file in hexadecimal, read in parts, so that it may be a large one.

    Raises:
        FileNotFoundError: If there is no such file.
    """
    require_file(path)
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def require_file(path: Path) -> None:
    """Refuse a path at which there is no file.

    Raises:
        FileNotFoundError: If there is none.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there must be a file {path.name} in {path.parent}, got none")


def require_hash(path: Path, found: str, wanted: str, n_bytes: int) -> None:
    """Refuse a file that is not the published one.

    Raises:
        ValueError: If the hash that was found is not the one that is wanted.
    """
    if found != wanted:
        raise ValueError(
            f"{path} must be the published file, with SHA-256 {wanted}, got {found} "
            f"({n_bytes:,} bytes): it is damaged, cut short or another one. Fetch it again"
        )


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give the path of a new file in the same folder, which takes this one's place at the end.

    Nobody ever sees half a file, two writers do not disturb each other, and after an error the old
    file stands there as before.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If the path is that of a folder or of a device.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     with written_whole(Path(folder, "a.txt")) as beside:
        ...         _ = beside.write_text("to be", encoding="utf-8")
        ...         before = os.listdir(folder) == ["a.txt"]
        ...     before, os.listdir(folder)
        (False, ['a.txt'])
    """
    # what a link names is written, and the link stays; one that names itself is replaced
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise ValueError(f"path must be that of a file, but {path} is a folder or a device")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to save {path.name} in")
    beside = path.with_name(f".{secrets.token_hex(8)}")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Where this user's programs keep what they can make again: XDG_CACHE_HOME, or ~/.cache.

    Example:
        >>> cache_folder().name
        'attnlib'
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    # the standard says that a relative path there is to be passed over
    base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    return base / "attnlib"
