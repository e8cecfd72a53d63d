"""Every notebook runs on Colab as it is: with the wheel, the usual packages, and no more."""

import json
import os
import subprocess
import sys
import textwrap
import venv
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from clean_environment import ROOT, build_wheel, closure, make
from IPython.core.inputtransformer2 import TransformerManager
from packaging.requirements import Requirement

import notebooks
from attnlib.explore import NAMES
from repository import repository

COMMITTED = sorted((ROOT / "notebooks").glob("*.ipynb"))

REQUIREMENT = "attnlib[notebooks] @ git+{}@{}".format(*repository({}))

# The parts of Colab's own package that plotly, anywidget and attnlib look at.
GOOGLE_COLAB = {
    "google/__init__.py": "",
    "google/colab/__init__.py": "",
    "google/colab/output/__init__.py": """
        from google.colab.output import _widgets

        calls = []

        def enable_custom_widget_manager():
            calls.append("enable_custom_widget_manager")
            _widgets._installed_url = "https://colab.invalid/manager.js"
        """,
    "google/colab/output/_widgets.py": "_installed_url = None",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """attnlib as a reader's pip would build it."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(tmp_path_factory, wheel) -> Path:
    """The Python of an environment with the wheel and what it requires."""
    return make(tmp_path_factory.mktemp("clean"), wheel)


def run(notebook, python: Path, folder: Path, environment: dict[str, str] | None = None):
    """Run a notebook's cells with that Python, and return it with its outputs.

    The client runs in a process of its own: its sockets outlive it.
    """
    specification = folder / "share/kernels/clean"
    specification.mkdir(parents=True)
    kernel = {
        "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "clean",
        "language": "python",
        "env": {
            "PYTHONPATH": "",
            "PYTHONNOUSERSITE": "1",
            "IPYTHONDIR": str(folder / "ipython"),
            **(environment or {}),
        },
    }
    (specification / "kernel.json").write_text(json.dumps(kernel))
    work = folder / "work"
    work.mkdir()
    nbformat.write(notebook, work / "notebook.ipynb")
    client = "from nbclient.cli import main; main()"
    options = ["notebook.ipynb", "--inplace", "--kernel_name=clean", "--timeout=300"]
    done = subprocess.run(
        [sys.executable, "-c", client, *options],
        cwd=work, capture_output=True, text=True,
        env={**os.environ, "JUPYTER_PATH": str(folder / "share")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return nbformat.read(work / "notebook.ipynb", 4)


def text_of(cell) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


# ---- every notebook, as it is -------------------------------------------------------------


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_a_notebook_runs_outside_the_repository_with_the_wheel_alone(python, tmp_path, path):
    notebook = nbformat.read(path, 4)
    question = "import attnlib, sys; print(attnlib.__file__, *sys.path, sep='\\n')"
    notebook.cells.append(nbformat.v4.new_code_cell(question))
    ran = run(notebook, python, tmp_path)
    where, *searched = text_of(ran.cells[-1]).splitlines()
    assert Path(where).is_relative_to(python.parents[1])
    assert not any(Path(entry).is_relative_to(ROOT) for entry in searched if entry)
    assert text_of(ran.cells[0]) == "", "the set-up cell must do nothing where attnlib is there"


def test_the_clean_environment_lacks_what_the_book_alone_needs(python):
    """Else the test above would not notice a chapter that imports more than a reader has."""
    for name in ("sphinx", "myst_nb", "pytest", "scipy", "jupytext"):
        found = subprocess.run([python, "-c", f"import {name}"], capture_output=True, text=True)
        assert found.returncode != 0 and f"No module named '{name}'" in found.stderr


def test_an_unstated_requirement_is_noticed():
    with pytest.raises(RuntimeError, match="is required and not installed"):
        closure(["no-such-distribution>=1"])
    with pytest.raises(RuntimeError, match=r"is required, and .* is installed"):
        closure(["numpy<1"])


# ---- on Colab -----------------------------------------------------------------------------


ON_COLAB = (
    """
    import plotly.io
    import attnlib
    from attnlib import plots
    from google.colab import output
    print(plotly.io.renderers.default)
    """,
    "plots.heat_map([[0.9, 0.1], [0.5, 0.5]], targets=['a', 'b'], sources=['a', 'b'])",
    "print(output.calls)",
    *(f"attnlib.explore({name!r})" for name in NAMES),
    "print(output.calls)",
)


@pytest.fixture(scope="module")
def on_colab(python, tmp_path_factory) -> list:
    """The cells of ON_COLAB, run where there is a package google.colab."""
    folder = tmp_path_factory.mktemp("colab")
    for name, text in GOOGLE_COLAB.items():
        path = folder / "stand-in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    new = [nbformat.v4.new_code_cell(textwrap.dedent(text)) for text in ON_COLAB]
    notebook = nbformat.v4.new_notebook(cells=new, metadata=notebooks.METADATA)
    # By the second plotly 7 knows Colab, by the package plotly 5.
    environment = {"PYTHONPATH": str(folder / "stand-in"), "COLAB_NOTEBOOK_ID": "1"}
    return run(notebook, python, folder, environment).cells


def test_on_colab_figures_are_drawn_by_plotlys_own_colab_renderer(on_colab):
    assert text_of(on_colab[0]).strip() == "colab"
    (output,) = on_colab[1].outputs
    html = output.data["text/html"]
    assert "plotly" in html and "attn-figure" not in html


@pytest.mark.parametrize("name", NAMES)
def test_on_colab_an_explorer_shows_a_view_that_colabs_widget_manager_finds(on_colab, name):
    (output,) = on_colab[3 + NAMES.index(name)].outputs
    kind = "application/vnd.jupyter.widget-view+json"
    assert output.data[kind]["model_id"]
    hint = output.metadata[kind]["colab"]
    assert hint == {"custom_widget_manager": {"url": "https://colab.invalid/manager.js"}}


def test_on_colab_the_widget_manager_is_enabled_by_the_first_explorer_and_not_before(on_colab):
    assert text_of(on_colab[2]).strip() == "[]"
    assert "enable_custom_widget_manager" in text_of(on_colab[3 + len(NAMES)])


# ---- the first cell -----------------------------------------------------------------------


def set_up_cell() -> str:
    (first,) = {nbformat.read(path, 4).cells[0].source for path in COMMITTED}
    return TransformerManager().transform_cell(first)


class Shell:
    """Stands in for IPython's shell and notes which magics are run."""

    def __init__(self) -> None:
        self.magics: list[tuple[str, str]] = []

    def run_line_magic(self, name: str, line: str, **_: object) -> None:
        self.magics.append((name, line))


def run_set_up(monkeypatch, missing: bool) -> list[tuple[str, str]]:
    shell = Shell()
    # None in sys.modules is how Python marks a module that cannot be imported.
    monkeypatch.setitem(sys.modules, "attnlib", None if missing else ModuleType("attnlib"))
    exec(set_up_cell(), {"get_ipython": lambda: shell})
    return shell.magics


def test_the_first_cell_does_nothing_where_attnlib_can_be_imported(monkeypatch):
    assert run_set_up(monkeypatch, missing=False) == []


def test_the_first_cell_installs_exactly_attnlib_where_it_is_missing(monkeypatch):
    assert run_set_up(monkeypatch, missing=True) == [("pip", f'install -q "{REQUIREMENT}"')]


def test_what_the_first_cell_installs_is_a_requirement_that_pip_understands():
    requirement = Requirement(REQUIREMENT)
    assert (requirement.name, requirement.extras) == ("attnlib", {"notebooks"})
    assert requirement.url == "git+{}@{}".format(*repository({}))


def test_the_set_up_cell_is_the_same_in_every_notebook_and_collapsed():
    for path in COMMITTED:
        first = nbformat.read(path, 4).cells[0]
        assert first.cell_type == "code" and first.metadata.cellView == "form"
    assert set_up_cell()


# Versions that a Colab runtime had in 2025; newer runtimes have newer ones. The last two are
# not on Colab: they stand for what pip has to fetch, so that it need not ask an index here.
COLAB = {
    "torch": "2.6.0+cu124", "numpy": "2.0.2", "einops": "0.8.1", "plotly": "5.24.1",
    "sympy": "1.13.1", "ipywidgets": "7.7.1", "nbformat": "5.10.4",
    "regex": "2024.11.6", "safetensors": "0.5.3", "jaxtyping": "0.3.2", "anywidget": "0.9.18",
}  # fmt: skip


def pip_would_install(wheel: Path, folder: Path, installed: dict[str, str]) -> list[str]:
    """Ask pip what it would install with attnlib[notebooks] beside these packages."""
    venv.create(folder / "env", symlinks=True, with_pip=False)
    (packages,) = (folder / "env").glob("lib/python*/site-packages")
    for name, version in installed.items():
        metadata = packages / f"{name}-{version}.dist-info/METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    command = [
        sys.executable, "-m", "pip", "--python", folder / "env/bin/python", "install", "--quiet",
        "--dry-run", "--no-index", "--report", "-", f"{wheel}[notebooks]",
    ]  # fmt: skip
    # Links to wheels that the machine's own configuration names are as good as an index.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    environment["PIP_CONFIG_FILE"] = os.devnull
    report = subprocess.run(command, capture_output=True, text=True, env=environment)
    if report.returncode:
        raise RuntimeError(report.stderr)
    return [item["metadata"]["name"] for item in json.loads(report.stdout)["install"]]


def test_installing_replaces_nothing_that_colab_has(wheel, tmp_path):
    """A replaced torch loses its GPU, and a replaced widget library needs a restart."""
    assert pip_would_install(wheel, tmp_path, COLAB) == ["attnlib"]


def test_pip_would_replace_a_package_that_is_too_old(wheel, tmp_path):
    """Else the test above could not fail."""
    with pytest.raises(RuntimeError, match=r"No matching distribution found for torch>="):
        pip_would_install(wheel, tmp_path, {**COLAB, "torch": "1.13.0"})
