r"""Files from the Hugging Face Hub: of one revision, checked, and whole or not there.

Source   this book; the protocol is that of the library huggingface_hub
Chapter  chapters/language-models.md
Axes     attnlib/axes.py

Nothing is fetched unless somebody asks for it. The library goes on where a connection broke, shows
a bar, writes beside and renames; the files stand in its own cache, where other programs find them.
"""

import errno
from importlib.util import find_spec
from pathlib import Path

from attnlib.files import require_hash, sha256_of

__all__ = ["already_fetched", "fetch"]

_OF_THIS_MACHINE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)


def already_fetched(repository: str, revision: str, name: str) -> Path | None:
    """Where a file of the Hub is, if it was fetched before; nothing is asked of the network.

    Args:
        repository: Its owner and name.
        revision: The commit.
        name: The file's.
    """
    if find_spec("huggingface_hub") is None:
        return None
    import huggingface_hub

    found = huggingface_hub.try_to_load_from_cache(repository, name, revision=revision)
    return Path(found) if isinstance(found, str) and Path(found).is_file() else None


def fetch(
    repository: str, revision: str, name: str, *, sha256: str, endpoint: str | None = None
) -> Path:
    """Fetch a file from the Hub, unless it was fetched before and is undamaged.

    Args:
        repository: Its owner and name.
        revision: The commit, so that nobody can change what comes.
        name: The file's.
        sha256: What its hash must be, in hexadecimal. A file of another hash is deleted from the
            library's cache, and nothing outside of the cache is.
        endpoint: Where the Hub is; None means where the library huggingface_hub looks for it.

    Raises:
        ImportError: If the library huggingface_hub is missing.
        ConnectionError: If the file did not come whole.
        OSError: If this machine cannot keep it: no permission, no space.
        ValueError: If it has another hash.
    """
    try:
        import huggingface_hub
    except ImportError:
        raise ImportError(
            "files of the Hugging Face Hub are fetched with the library huggingface_hub, which is "
            "not installed: pip install huggingface-hub"
        ) from None
    was_there = already_fetched(repository, revision, name) is not None
    try:
        # token=False: no one's credentials are sent for a public file
        found = huggingface_hub.hf_hub_download(
            repository, name, revision=revision, endpoint=endpoint, token=False
        )
    # the library raises errors of its own, of its client for HTTP, and of the system
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OF_THIS_MACHINE:
            raise OSError(
                error.errno,
                f"{name} of {repository} could not be kept in {_cache()}: {error.strerror}",
            ) from error
        raise ConnectionError(
            f"{name} of {repository} did not come whole from the Hugging Face Hub, and nothing of "
            f"it was kept. Is there a network? ({type(error).__name__}: {error})"
        ) from error
    path = Path(found)
    try:
        require_hash(path, sha256_of(path), sha256, path.stat().st_size)
    except ValueError as error:
        # a wrong file that stayed would be found in place of the right one for ever
        try:
            _delete(path)
        except OSError as reason:
            raise ValueError(f"{error}: it could not be deleted ({reason})") from None
        if was_there:  # damaged since; what comes now is new
            return fetch(repository, revision, name, sha256=sha256, endpoint=endpoint)
        raise
    return path


def _cache() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _delete(path: Path) -> None:
    """Take a file out of the cache, where its name is a link to its content.

    Somebody may have put a link there to a file of their own, which is not ours to delete.
    """
    content = path.resolve()
    path.unlink(missing_ok=True)
    if content.is_relative_to(_cache().resolve()):
        content.unlink(missing_ok=True)
