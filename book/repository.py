"""Where the book's repository stands on the web: one setting, read in one place.

`_config.yml` names the repository. GitHub's own runners name theirs in
GITHUB_REPOSITORY, and that wins: so a fork builds pages that lead to the fork.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import yaml

ROOT = Path(__file__).resolve().parent.parent


class Repository(NamedTuple):
    """The address of a repository, without a trailing slash, and the branch that is read."""

    url: str
    branch: str


def repository(
    environment: Mapping[str, str] | None = None, config: Path = ROOT / "_config.yml"
) -> Repository:
    """Return the repository's address and branch.

    Args:
        environment: Where GITHUB_REPOSITORY ("owner/name"), GITHUB_SERVER_URL and the branch of
            a push (GITHUB_REF_NAME) are looked up; None means this process's own environment,
            {} means _config.yml alone.
        config: The file with the setting `repository: {url, branch}`.

    Raises:
        ValueError: If neither place names a repository on the web.
    """
    environment = os.environ if environment is None else environment
    settings = yaml.safe_load(config.read_text(encoding="utf-8")) or {}
    setting = settings.get("repository") or {}
    if not isinstance(setting, dict):
        raise ValueError(f"repository in {config.name} must have a url, got {setting!r}")
    source = f"{config.name} (repository: url)"
    url, branch = str(setting.get("url", "")), str(setting.get("branch") or "main")
    if environment.get("GITHUB_REPOSITORY"):
        server = environment.get("GITHUB_SERVER_URL") or "https://github.com"
        url = f"{server}/{environment['GITHUB_REPOSITORY']}"
        source = "GITHUB_REPOSITORY in the environment"
        # On a pull request the name is "7/merge", which is no branch that anyone can open.
        if environment.get("GITHUB_REF_TYPE") == "branch" and not environment.get(
            "GITHUB_HEAD_REF"
        ):
            branch = environment.get("GITHUB_REF_NAME") or branch
    url = url.rstrip("/").removesuffix(".git")
    address = urlsplit(url)
    if address.scheme != "https" or len(address.path.strip("/").split("/")) != 2:
        raise ValueError(
            "the repository's address must have the form https://host/owner/name, "
            f"but {source} gives {url!r}"
        )
    return Repository(url, branch)


def owner_and_name(url: str) -> tuple[str, str]:
    """Split a repository's address: https://github.com/owner/name gives (owner, name)."""
    owner, name = urlsplit(url).path.strip("/").split("/")
    return owner, name


def pages_url(url: str) -> str:
    """Return where GitHub Pages shows the book of this repository, with a trailing slash."""
    owner, name = owner_and_name(url)
    site = f"https://{owner.lower()}.github.io/"
    return site if name.lower() == f"{owner.lower()}.github.io" else f"{site}{name}/"


def colab_url(url: str, branch: str, notebook: str) -> str:
    """Return the address that opens a notebook of this repository on Colab."""
    owner, name = owner_and_name(url)
    branch = quote(branch)
    return f"https://colab.research.google.com/github/{owner}/{name}/blob/{branch}/{notebook}"
