"""What every chapter keeps to: the rhythm, the length of cells, exercises with judges.

Chapters  all of chapters/
"""

import re
from pathlib import Path

import pytest

CHAPTERS = Path(__file__).parents[1] / "chapters"
NOTEBOOKS = sorted(path for path in CHAPTERS.glob("*.md") if "{code-cell}" in path.read_text())
NARROW = 80  # characters that a reader at 1280 px sees without scrolling

each_chapter = pytest.mark.parametrize("chapter", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(text: str) -> list[tuple[str, str]]:
    """(metadata, code) of each cell."""
    cells = []
    for block in re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", text, re.M | re.S):
        metadata = re.match(r"---\n.*?^---\n|(?::[^\n]*\n)+", block, re.M | re.S)
        head = metadata[0] if metadata else ""
        cells.append((head, block[len(head) :].strip("\n")))
    return cells


def prose(text: str) -> str:
    """The words of a chapter: no code, proofs, solutions, mathematics or directives."""
    text = re.sub(r"^---\n.*?^---\n", "", text, count=1, flags=re.M | re.S)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"^:::\{prf:proof\}.*?^:::$", "", text, flags=re.M | re.S)
    text = re.sub(r"\{solution-start\}.*?\{solution-end\}", "", text, flags=re.S)
    text = re.sub(r"\$\$.*?\$\$|\$[^$]*\$", " x ", text, flags=re.S)
    return re.sub(r"^:\w+:.*$|^:::.*$", "", text, flags=re.M)


@each_chapter
def test_visible_cells_are_short_and_narrow(chapter):
    for metadata, code in code_cells(chapter.read_text()):
        if "hide-input" in metadata:
            continue
        lines = code.splitlines()
        assert len(lines) <= 15, f"{len(lines)} lines in the cell that starts with {lines[0]!r}"
        wide = [line for line in lines if len(line) > NARROW]
        assert not wide, f"wider than {NARROW} characters: {wide}"


@each_chapter
def test_a_fence_begins_its_line(chapter):
    """Behind other words it is prose, and its cell never runs."""
    assert [line for line in chapter.read_text().splitlines() if "```" in line.strip("`")] == []


@each_chapter
def test_only_imports_and_plots_are_hidden(chapter):
    for metadata, code in code_cells(chapter.read_text()):
        if "hide-input" in metadata:
            assert code.startswith("import") or "fig" in code or "plots." in code, code


@each_chapter
def test_no_cell_is_removed_or_allowed_to_fail(chapter):
    for tag in ("remove-cell", "remove-output", "raises-exception", "skip-execution"):
        assert tag not in chapter.read_text()


@each_chapter
def test_a_chapter_opens_and_ends_as_all_do(chapter):
    text = chapter.read_text()
    assert ":::{admonition} After this chapter you can" in text
    headings = re.findall(r"^## (.+)$", text, re.M)
    assert headings[-5:] == ["When this fails", "Summary", "Exercises", "Sources", "In the code"]


@each_chapter
def test_every_exercise_has_a_collapsed_solution_that_runs(chapter):
    text = chapter.read_text()
    exercises = re.findall(r"\{exercise\}.*?:label: (\S+)", text, re.S)
    assert exercises
    for label in exercises:
        solution = re.search(
            rf"\{{solution-start\}} {label}\n:class: dropdown\n(.*?)\{{solution-end\}}", text, re.S
        )
        assert solution, f"{label} has no collapsed solution"
        assert re.search(r"exercises\.check\(|assert", solution[1]), f"{label} has no judge"


@each_chapter
def test_every_statement_is_proved_and_labelled(chapter):
    text = chapter.read_text()
    claims = list(
        re.finditer(
            r"^:::\{prf:(theorem|proposition|lemma|corollary)\}.*?\n:label: (\S+)", text, re.M
        )
    )
    assert len(claims) == len(re.findall(r"\{prf:(?:theorem|proposition|lemma|corollary)\}", text))
    for claim in claims:
        rest = text[claim.end() :]
        following = re.search(r"^:::\{prf:(\w+)\}", rest, re.M)
        assert following and following[1] == "proof", f"{claim[2]} has no proof"


@each_chapter
def test_every_figure_has_a_caption_and_is_announced_before(chapter):
    text = chapter.read_text()
    for metadata, code in code_cells(text):
        draws = re.search(r"^(fig|plots\.\w+\(.*\))$", code, re.M)
        if not draws:
            continue
        name = re.search(r"name: (fig-\S+)", metadata)
        assert name and "caption:" in metadata, f"no name or caption: {code[:60]}"
        announced = text.find(f"{{numref}}`{name[1]}`")
        assert -1 < announced < text.index(f"name: {name[1]}"), f"{name[1]} is not announced"


@each_chapter
def test_an_equation_that_is_labelled_is_cited(chapter):
    text = chapter.read_text()
    labels = re.findall(r"\$\$ \((eq-[\w-]+)\)", text)
    everywhere = "".join(path.read_text() for path in CHAPTERS.glob("*.md"))
    assert [label for label in labels if f"{{eq}}`{label}`" not in everywhere] == []


@each_chapter
def test_the_length_is_that_of_one_sitting(chapter):
    words = len(re.findall(r"[A-Za-zÀ-ž’']+", prose(chapter.read_text())))
    # The conventions are back matter: to be looked up, not read in one go.
    least = 1000 if chapter.stem == "conventions" else 1500
    assert least <= words <= 3500, f"{words} words"
