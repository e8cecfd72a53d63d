"""What the tests of the built book share: its front-end files, and one sound miniature build."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from builds import Outcome, build, miniature
from parts import page_of

EXPLORE = Path(__file__).parents[2] / "attnlib/explore"
# Files that tools leave in a work tree and that are no part of the book.
STRAYS = [".pytest_cache/README.md", "README.md", "book/node_modules/some/README.md"]


class Built(NamedTuple):
    """A book that was built: its sources, how that ended, and its pages."""

    book: Path
    outcome: Outcome
    html: Path


@pytest.fixture(scope="session")
def assets() -> None:
    """Make book/assets/ once, before builds that run side by side each see to it."""
    from assets import assemble

    assemble()


@pytest.fixture(scope="session")
def node() -> str:
    """The program `node`, found where the build finds it; without it a test fails."""
    from assets import search_path

    found = shutil.which("node", path=search_path())
    if found is None:
        pytest.fail("Node is needed to run the book's JavaScript: `make test` installs it")
    return found


@pytest.fixture(scope="session")
def javascript(node) -> Callable[[Path, list[tuple[str, list]]], list]:
    """Call functions of one module: a list of (name, arguments) → the list of their values."""

    def call(module: Path, calls: list[tuple[str, list]]) -> list:
        program = (
            "let text = ''; for await (const part of process.stdin) text += part;"
            f"const module = await import({json.dumps(module.as_uri())});"
            "const values = JSON.parse(text).map(([name, xs]) => module[name](...xs));"
            # JSON has no NaN and no infinity: they must not pass for null
            "console.log(JSON.stringify(values, (_, x) => typeof x === 'number' &&"
            " !Number.isFinite(x) ? String(x) : x));"
        )
        done = subprocess.run(
            [node, "--input-type=module", "--eval", program],
            input=json.dumps(calls),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return call


@pytest.fixture
def linked(javascript, tmp_path) -> Callable[[str, list[tuple[str, list]]], list]:
    """What links and saved states become: a call of `read`, `write` or `restore`."""

    def call(name: str, calls: list[tuple[str, list]]) -> list:
        module = tmp_path / f"links-{name}.mjs"
        uris = {file: (EXPLORE / f"{file}.mjs").as_uri() for file in ("state", name)}
        module.write_text(
            f'import {{ parseFields, readState, writeFields }} from "{uris["state"]}";\n'
            f'import {{ fields }} from "{uris[name]}";\n'
            "export const read = (text, initial) => parseFields(text, initial, fields);\n"
            "export const write = (state, initial) => writeFields(state, initial, fields);\n"
            "export const restore = (s) => readState({ get: (key) => s[key] }, fields);\n"
        )
        return javascript(module, calls)

    return call


@pytest.fixture(scope="session")
def sound(tmp_path_factory, assets) -> Built:
    """The miniature book without a fault, as a fork on GitHub would build it."""
    book = miniature(tmp_path_factory.mktemp("sound"))
    for stray in STRAYS:
        (book / stray).parent.mkdir(parents=True, exist_ok=True)
        (book / stray).write_text("# Not a page of the book\n\n{ref}`nowhere`\n", "utf-8")
    (book / "notebooks").mkdir()
    (book / "notebooks/page.ipynb").write_text("{}", "utf-8")
    outcome = build(book, environment={"GITHUB_REPOSITORY": "a-reader/a-fork"})
    return Built(book, outcome, book / "_build/html")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of one page of the built book follow each other: it is opened once for all."""
    items.sort(key=lambda item: (page_of(item) is not None, page_of(item) or ""))
