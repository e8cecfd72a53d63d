"""Put together book/assets/, the files that every page loads: `python book/assets.py`.

MathJax and plotly come from book/node_modules (book/set_up.py fetches them by the lock
file); the style sheets and scripts are ours. All scripts become one classic script, since
browsers refuse module scripts from file://.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

BOOK = Path(__file__).resolve().parent
EXPLORE = BOOK.parent / "attnlib" / "explore"
NODE_MODULES = BOOK / "node_modules"
ASSETS = BOOK / "assets"
STAMP = ".made-of"
MISSING = "The front-end packages are not installed: run `python3 book/set_up.py` first."


def assemble(assets: Path = ASSETS) -> bool:
    """Make `assets` unless it is made of the same inputs already; say whether it was made."""
    require_packages()
    stamp = digest_of_inputs()
    if (assets / STAMP).is_file() and (assets / STAMP).read_text() == stamp:
        return False
    # Made aside and then moved, so that an interrupted run leaves no half of it behind.
    with tempfile.TemporaryDirectory(dir=assets.parent, prefix=".assets-") as folder:
        made = Path(folder) / "assets"
        copy_mathjax(made / "mathjax")
        shutil.copy(NODE_MODULES / "plotly.js-cartesian-dist-min/plotly-cartesian.min.js", made)
        bundle(made)
        (made / STAMP).write_text(stamp)
        swap(made, assets)
    return True


def swap(made: Path, assets: Path) -> None:
    """Put `made` in the place of `assets`, which a build beside this one may do as well."""
    with contextlib.suppress(FileNotFoundError):
        assets.rename(made.with_name("old"))
    try:
        made.rename(assets)
    except OSError:
        if (made / STAMP).read_text() != (assets / STAMP).read_text():
            raise


def require_packages() -> None:
    if not (NODE_MODULES / "mathjax").is_dir() or not shutil.which("node", path=search_path()):
        raise RuntimeError(MISSING)


def search_path() -> str:
    """Where Node may be: beside this Python first, where set_up.py puts it if need be."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def run_node(script: str, request: object) -> object:
    """Run a script of this folder: JSON in, JSON out."""
    done = subprocess.run(
        [shutil.which("node", path=search_path()) or "node", BOOK / script],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    if done.returncode != 0:
        raise RuntimeError(f"book/{script} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def copy_mathjax(target: Path) -> None:
    """The component that reads TeX, its fonts, and the extensions it may ask for."""
    source = NODE_MODULES / "mathjax/es5"
    shutil.copytree(source / "output/chtml/fonts/woff-v2", target / "output/chtml/fonts/woff-v2")
    shutil.copytree(
        source / "input/tex/extensions",
        target / "input/tex/extensions",
        ignore=shutil.ignore_patterns("all-packages.js", "noundefined.js", "newcommand.js"),
    )
    shutil.copy(source / "tex-chtml.js", target)


def bundle(target: Path) -> None:
    """One script and one style sheet out of ours and the explorers'."""
    sheets = [*sorted((BOOK / "css").glob("*.css")), *sorted(EXPLORE.glob("*.css"))]
    run_node(
        "bundle.cjs",
        {"script": str(BOOK / "js/page.js"), "sheets": list(map(str, sheets)), "into": str(target)},
    )


def inputs() -> Iterator[Path]:
    yield from (BOOK / "assets.py", BOOK / "bundle.cjs", BOOK / "package-lock.json")
    for folder, patterns in [
        (BOOK / "css", ["*.css"]),
        (BOOK / "js", ["*.js"]),
        (EXPLORE, ["*.mjs", "*.css"]),
    ]:
        for pattern in patterns:
            yield from sorted(folder.glob(pattern))


def digest_of_inputs() -> str:
    digest = hashlib.sha256()
    for path in inputs():
        digest.update(f"{path.parent.name}/{path.name}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    print("book/assets/ made" if assemble() else "book/assets/ is up to date")
