"""Each planted fault must fail the build, for its own reason; a sound book must pass.

Every test builds the miniature book of tests/book/miniature/ with the settings of the real
_config.yml and the command of the real Makefile, so that neither can drift away from here.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from builds import ROOT, Outcome, build, miniature
from conftest import STRAYS

pytestmark = pytest.mark.gate


class Fault(NamedTuple):
    """What is added to the page, and how the build must name it."""

    added: str
    named: str


def cell(code: str) -> str:
    return f"```{{code-cell}} python\n{code}\n```"


FAULTS = {
    "a failing assertion": Fault(cell("assert 1 + 1 == 3"), r"AssertionError"),
    "a cell that writes to stderr": Fault(
        cell("import sys\nprint('not so fine', file=sys.stderr)"), r"page\.md.*stderr"
    ),
    "a broken numref": Fault("See {numref}`fig-absent`.", r"undefined label: '?fig-absent"),
    "an undefined term": Fault("See {term}`absent`.", r"term not in glossary: '?absent"),
    "a broken eq": Fault("See {eq}`eq-absent`.", r"equation not found: eq-absent"),
    "a broken prf:ref": Fault("See {prf:ref}`prop-absent`.", r"label.*prop-absent"),
    "a broken ref": Fault("See {ref}`absent`.", r"undefined label: '?absent"),
    "a broken doc": Fault("See {doc}`absent`.", r"unknown document: '?absent"),
    "a broken link": Fault("See [there](absent.md).", r"target not found: 'absent\.md"),
    "an undefined citation": Fault("See {cite:p}`absent2000`.", r"absent2000"),
    "a label given twice": Fault("$$ 1 $$ (eq-softmax)", r"duplicate label of equation eq-softmax"),
    "an exercise that does not exist": Fault(
        "```{solution} ex-absent\nNone.\n```", r"undefined label: ex-absent"
    ),
    "a misspelt macro": Fault(
        r"Let $x \in \mathb{R}$.", r"page\.md:\d+: WARNING: formula: Undefined control .*\\mathb"
    ),
    "a misspelt macro in a display": Fault(
        "$$\n\\sofmax(s)\n$$", r"page\.md:\d+: WARNING: formula: Undefined control .*\\sofmax"
    ),
    "a misplaced alignment": Fault("$$\na & b\n$$", r"formula: Misplaced &"),
    "a macro defined in passing": Fault(
        r"$\newcommand{\R}{\mathbb{R}} \R$", r"formula: Undefined control .*\\newcommand"
    ),
    "a figure that no page can show": Fault(
        cell(
            "import plotly.graph_objects as go\nimport plotly.io as pio\n"
            "pio.renderers.default = 'plotly_mimetype'\ngo.Figure(go.Bar(y=[1, 2]))"
        ),
        r"page.*WARNING: figure: .*attnlib\.plots",
    ),
    "a figure that the page's plotly cannot draw": Fault(
        cell("import plotly.graph_objects as go\ngo.Figure(go.Surface(z=[[1, 2], [3, 4]]))"),
        r"the pages draw the trace types",
    ),
}


# The cells of the miniature page, and the line that refers to the figure of one.
CELLS = re.compile(r"(?ms)^```\{code-cell\}.*?^```$|^[^\n]*\{numref\}`fig-weights`[^\n]*$")


def without_cells(book: Path) -> Path:
    """Take the cells out of the miniature page: most of a build is their kernel."""
    page = book / "page.md"
    page.write_text(CELLS.sub("", page.read_text("utf-8")), "utf-8")
    return book


def assert_sound(outcome: Outcome) -> None:
    assert outcome.code == 0, outcome.output
    assert "WARNING: " not in outcome.output.replace("[IPKernelApp] WARNING", "")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_fails_the_build(fault, tmp_path, assets):
    """In a page without cells, if none is at fault."""
    added, named = FAULTS[fault]
    book = miniature(tmp_path)
    if "{code-cell}" not in added:
        without_cells(book)
    page = book / "page.md"
    page.write_text(f"{page.read_text('utf-8')}\n{added}\n", "utf-8")
    code, output = build(book)
    assert code != 0, output
    assert re.search(named, output), output


def test_a_sound_book_builds(sound):
    assert_sound(sound.outcome)


def test_a_sound_book_builds_without_its_cells(tmp_path, assets):
    book = without_cells(miniature(tmp_path))
    assert "{code-cell}" not in (book / "page.md").read_text("utf-8")
    assert_sound(build(book))


def test_stray_readmes_do_no_harm(sound):
    """pytest leaves .pytest_cache/README.md, and npm leaves hundreds: none is a chapter."""
    for stray in STRAYS:
        assert (sound.book / stray).is_file()
    assert sound.outcome.code == 0, sound.outcome.output


def test_attnlib_broken_with_its_chapters_unchanged_fails_the_build(tmp_path, assets):
    """The second build finds every output of the first in place, and must not trust them."""
    library = tmp_path / "library"
    shutil.copytree(ROOT / "attnlib", library / "attnlib")
    book = miniature(tmp_path)
    first = build(book, library=library)
    assert first.code == 0, first.output
    with (library / "attnlib/__init__.py").open("a") as file:
        file.write("\n\ndef softmax(scores, where=None):\n    return scores\n")
    second = build(book, library=library)
    assert second.code != 0, second.output
    assert "AssertionError" in second.output


def test_a_failure_in_a_pipe_fails_make(tmp_path):
    """Without the Makefile's shell settings, `build | tail` hides that the build failed."""
    settings = shell_settings()
    assert len(settings) == 2, settings
    target = "book:\n\tfalse | tail -n 1\n"
    assert make(tmp_path, target) == 0
    assert make(tmp_path, "\n".join([*settings, target])) != 0


def shell_settings() -> list[str]:
    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    return [line for line in lines if re.match(r"(SHELL|\.SHELLFLAGS)\b", line)]


def make(folder: Path, makefile: str) -> int:
    (folder / "Makefile").write_text(makefile, "utf-8")
    return subprocess.run(["make", "book"], cwd=folder, capture_output=True).returncode
