"""The chapters as notebooks: fresh, readable, with the numbers and links of the pages."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import nbformat
import pytest
from bs4 import BeautifulSoup
from built import place_of_book
from markdown_it import MarkdownIt

import notebooks
from assets import run_node
from cross_references import pages_in_order
from myst_inline import spans
from myst_syntax import SourceError
from repository import ROOT, Repository, colab_url, pages_url, repository
from tex_macros import expand

HERE = Repository("https://github.com/someone/book", "main")
BUILT = place_of_book()
COMMITTED = sorted((ROOT / "notebooks").glob("*.ipynb"))
MARKDOWN = MarkdownIt("commonmark").enable("table")

BIBLIOGRAPHY = """
@article{one, author = {Ada Long}, title = {One}, year = {1901}, doi = {10.1/one}}
@article{two, author = {Ada Long and Bo Mid}, title = {Two}, year = {1902},
  journal = {J}, eprint = {1902.2}}
@article{three, author = {A. A and B. B and C. C}, title = {Three}, year = {1903}}
"""

GLOSSARY = """
# Words

```{glossary}
Soft word
  What it means, $x$.
Other; word
  Another.
```
"""


def write_book(root: Path, **pages: str) -> Path:
    """Write a book with the real settings: each page's text by its name, glossary included."""
    config = (ROOT / "_config.yml").read_text("utf-8")
    (root / "_config.yml").write_text(config, "utf-8")
    pages = {"index": "# The book", **pages, "words": GLOSSARY}
    toc = "format: jb-book\nroot: index\nchapters:\n" + "".join(
        f"  - file: {name}\n" for name in pages if name != "index"
    )
    (root / "_toc.yml").write_text(toc, "utf-8")
    (root / "references.bib").write_text(BIBLIOGRAPHY, "utf-8")
    for name, text in pages.items():
        (root / f"{name}.md").write_text(dedent(text), "utf-8")
    return root


CELL = "\n```{code-cell} python\n1 + 1\n```\n"


def convert(root: Path, text: str, **pages: str) -> list:
    """Return the cells of a one-chapter book, without the set-up cell."""
    book = write_book(root, chapter="# Chapter\n\n" + dedent(text) + CELL, **pages)
    return nbformat.reads(notebooks.generate(book, HERE)["notebooks/chapter.ipynb"], 4).cells[1:]


def markdown(root: Path, text: str, **pages: str) -> str:
    """Return what a piece of a chapter becomes, all Markdown cells joined."""
    cells = [c.source for c in convert(root, text, **pages) if c.cell_type == "markdown"]
    return "\n\n".join(cells).split("without a kernel.*\n\n", 1)[1]


def cells_of(path: Path, kind: str) -> list:
    return [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == kind]


# ---- what is committed --------------------------------------------------------------------


def test_the_notebooks_are_what_the_chapters_give():
    assert notebooks.stale() == [], "run `make notebooks` and commit"


def test_every_page_with_a_code_cell_has_a_notebook():
    pages = pages_in_order(ROOT / "_toc.yml")
    with_code = [p for p in pages if "{code-cell}" in (ROOT / f"{p}.md").read_text("utf-8")]
    assert {f"{Path(page).name}.ipynb" for page in with_code} == {path.name for path in COMMITTED}
    assert COMMITTED


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_a_notebook_is_valid_and_holds_no_output(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    for cell in cells_of(path, "code"):
        assert cell.outputs == [] and cell.execution_count is None
    names = [cell.id for cell in notebook.cells]
    assert len(set(names)) == len(names)


DISPLAY = re.compile(r"^[> ]*\$\$(.+)\$\$$", re.MULTILINE)


def prose(source: str) -> str:
    """Return the text of a Markdown cell without its code and its formulas."""
    source = DISPLAY.sub("", source)
    tokens = MARKDOWN.parse(source)
    code = [t.map for t in tokens if t.type in ("fence", "code_block")]
    lines = source.splitlines()
    kept = [row for i, row in enumerate(lines) if not any(a <= i < b for a, b in code)]
    return "".join(span.text for span in spans("\n".join(kept)) if span.kind == "text")


RAW = re.compile(
    r"\{[a-z][\w:.+-]*\}|^\s*>?\s*:{3,}|^\s*>?\s*:[\w-]+:|\{\{|^\([\w-]+\)=$|\{%|^%", re.MULTILINE
)


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_no_directive_and_no_role_is_left_raw(path):
    for cell in cells_of(path, "markdown"):
        kinds = {span.kind for span in spans(DISPLAY.sub("", cell.source))}
        assert "role" not in kinds, cell.source
        assert "```{" not in cell.source
        assert not RAW.search(prose(cell.source)), RAW.search(prose(cell.source))


@pytest.mark.parametrize(
    "raw", ["{note}", ":::", ":label: x", "{{ name }}", "(target)=", "% comment"]
)
def test_the_search_for_raw_myst_finds_it(raw):
    assert RAW.search(prose(f"before\n\n{raw}\n\nafter"))


def built_page(page: str) -> BeautifulSoup:
    assert (BUILT / page).is_file(), f"{page} is not built yet: make strict-book"
    return BeautifulSoup((BUILT / page).read_text("utf-8"), "html.parser")


def links(source: str) -> list[str]:
    tokens = [t for token in MARKDOWN.parse(source) for t in (token.children or [])]
    return [str(t.attrs["href"]) for t in tokens if t.type == "link_open"]


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_every_link_leads_somewhere(path):
    site = pages_url(repository({}).url)
    anchors = {
        other.name: set(re.findall(r'<a name="([^"]+)" id="\1"></a>', other.read_text("utf-8")
                                   .replace('\\"', '"')))
        for other in COMMITTED
    }  # fmt: skip
    for cell in cells_of(path, "markdown"):
        for link in links(cell.source):
            target, _, fragment = link.partition("#")
            if target.startswith(site):
                page = target.removeprefix(site) or "index.html"
                assert (ROOT / page).with_suffix(".md").is_file(), link
                if fragment:
                    html = built_page(page)
                    assert html.find(id=fragment), f"{link} names no part of the built page"
            elif target.startswith("https://"):
                assert re.fullmatch(r"https://[a-z0-9.-]+\.[a-z]+/\S*", target), link
            else:
                name = target or path.name
                assert name in anchors, f"{link} is no notebook"
                assert not fragment or fragment in anchors[name], f"{link} has no anchor"


def formulas(source: str) -> list[dict]:
    """Return a Markdown cell's formulas, as MathJax would be given them."""
    inline = [s.text for s in spans(DISPLAY.sub("", source)) if s.kind == "math"]
    return [
        *({"tex": tex, "display": True} for tex in DISPLAY.findall(source)),
        *({"tex": tex, "display": False} for tex in inline),
    ]


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_formulas_need_nothing_but_the_mathjax_of_every_front_end(path):
    """Base TeX and AMS are what Colab's MathJax and JupyterLab's have in common."""
    sources = [cell.source for cell in cells_of(path, "markdown")]
    pages = [formulas(source) for source in sources]
    complaints = run_node("check_tex.cjs", {"tex": {"packages": ["base", "ams"]}, "pages": pages})
    found = [
        f"{complaint}: {formula['tex']}"
        for page, said in zip(pages, complaints, strict=True)
        for formula, complaint in zip(page, said, strict=True)
        if complaint
    ]
    assert found == []
    assert sum(map(len, pages)) > 0
    assert not any("$$" in DISPLAY.sub("", s) for s in sources), "a display formula on two lines"


def squeezed(text: str) -> str:
    return re.sub(r"[^\w()]+", "", text)


def words(source: str) -> str:
    """Return a title's words: formulas, markup and spaces count for nothing."""
    return squeezed("".join(span.text for span in spans(source) if span.kind != "math"))


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_numbers_are_those_of_the_built_page(path):
    page = next(p for p in pages_in_order(ROOT / "_toc.yml") if Path(p).name == path.stem)
    html = built_page(f"{page}.html").find("article")
    for formula in html.select("span.math.notranslate, .headerlink"):
        formula.decompose()
    sources = [cell.source for cell in cells_of(path, "markdown")]
    source = "\n".join(sources)

    theirs = [
        squeezed(title.get_text())
        for title in html.select(
            "div.proof > p.admonition-title, div.exercise > p.admonition-title"
        )
    ]
    titles = re.findall(r"^> (?:<a [^>]*></a>)?\*\*(\w+ \d+(?: \(.*\))?)\*\*$", source, re.M)
    assert sorted(words(title) for title in titles) == sorted(theirs)

    theirs = [number.get_text().strip("()") for number in html.select("span.eqno")]
    assert re.findall(r"\\tag\{(\d+)\}", source) == theirs

    theirs = [n.get_text().strip() for n in html.select("figcaption .caption-number")]
    assert re.findall(r"\*\*(Fig\. \d+)\.\*\*", source) == theirs

    theirs = [n.get_text().strip() for n in html.select("table .caption-number")]
    assert re.findall(r"\*\*(Table \d+):\*\*", source) == theirs

    theirs = [a.get_text() for a in html.select("a.reference .std-numref, a.reference.internal")]
    numbered = [squeezed(t) for t in theirs if re.fullmatch(r"\(\d+\)|[A-Z]\w+\.? \d+", t.strip())]
    ours = re.findall(r"\[(\(\d+\)|[A-Z]\w+\.? \d+)\]\(", source)
    assert sorted(set(map(squeezed, ours))) == sorted(set(numbered))


# ---- freshness ----------------------------------------------------------------------------


def test_a_changed_a_missing_and_a_left_over_notebook_are_named(tmp_path):
    book = write_book(tmp_path, a="# A\n" + CELL, b="# B\n" + CELL, c="# C\n" + CELL)
    notebooks.write(book)
    assert notebooks.stale(book) == []
    (book / "a.md").write_text("# A, changed\n" + CELL)
    (book / "notebooks/b.ipynb").unlink()
    shutil.copy(book / "notebooks/c.ipynb", book / "notebooks/old.ipynb")
    assert notebooks.stale(book) == [f"notebooks/{name}.ipynb" for name in ("a", "b", "old")]
    notebooks.write(book)
    assert notebooks.stale(book) == []
    assert sorted(path.stem for path in (book / "notebooks").iterdir()) == ["a", "b", "c"]


def test_check_fails_and_names_what_is_stale(tmp_path):
    """The command line itself, on a copy of the real book with one letter more."""
    for name in ("_config.yml", "_toc.yml", "references.bib", "index.md"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("chapters", "notebooks"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "book").mkdir()
    for source in (ROOT / "book").glob("*.py"):
        shutil.copy(source, tmp_path / "book")

    def check():
        command = [sys.executable, tmp_path / "book/notebooks.py", "--check"]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    fresh = check()
    assert fresh.returncode == 0, fresh.stderr
    chapter = tmp_path / "chapters" / f"{COMMITTED[0].stem}.md"
    chapter.write_text(chapter.read_text("utf-8") + "\nOne sentence more.\n", "utf-8")
    stale = check()
    assert stale.returncode == 1
    assert f"notebooks/{COMMITTED[0].name}" in stale.stderr
    assert all(path.name not in stale.stderr for path in COMMITTED[1:])


def test_a_fork_may_commit_notebooks_that_install_from_the_fork(tmp_path, monkeypatch):
    book = write_book(tmp_path, a="# A\n" + CELL)
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    notebooks.write(book)
    monkeypatch.setenv("GITHUB_REPOSITORY", "fork/book")
    assert notebooks.stale(book) == []
    notebooks.write(book)
    assert "github.com/fork/book@" in (book / "notebooks/a.ipynb").read_text()
    assert notebooks.stale(book) == []
    monkeypatch.delenv("GITHUB_REPOSITORY")
    assert notebooks.stale(book) == ["notebooks/a.ipynb"]


def test_the_same_chapters_give_the_same_bytes():
    assert notebooks.generate(where=HERE) == notebooks.generate(where=HERE)


def test_an_edit_leaves_the_ids_of_all_other_cells(tmp_path):
    parts = ["## One\n\ntext\n", CELL, "## Two\n\n$$a$$ (eq-a)\n", CELL.replace("1", "2")]
    before = [cell.id for cell in convert(tmp_path, "".join(parts))]
    new = "## New\n\n$$b$$ (eq-b)\n"
    after = [cell.id for cell in convert(tmp_path, "".join([*parts[:2], new, *parts[2:]]))]
    assert len(after) == len(before) + 1
    assert [name for name in after if name in before] == before
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in after)


def test_two_equal_cells_have_different_ids(tmp_path):
    names = [cell.id for cell in convert(tmp_path, CELL + "\ntext\n" + CELL + "\ntext\n")]
    assert len(set(names)) == len(names) == 6


# ---- what MyST becomes --------------------------------------------------------------------


def test_statements_carry_their_kinds_own_numbers(tmp_path):
    text = markdown(
        tmp_path,
        """
        :::{prf:definition} Hull
        Words.
        :::
        :::{prf:theorem} Of $x$
        :label: thm-x
        The claim.

        $$
        a
        = b
        $$ (eq-ab)
        :::
        ```{prf:proof}
        Since {eq}`eq-ab`, done by {prf:ref}`thm-x` and {prf:ref}`that one <thm-x>`.
        ```
        :::{prf:theorem}
        :nonumber:
        No number.
        :::
        :::{prf:theorem} Last
        Words.
        :::
        """,
    )
    assert "> **Definition 1 (Hull)**\n>\n> Words." in text
    assert '> <a name="thm-x" id="thm-x"></a>**Theorem 1 (Of $x$)**\n>\n> The claim.' in text
    assert '> <a name="eq-ab" id="eq-ab"></a>\n>\n> $$a = b \\tag{1}$$' in text
    proof = "> *Proof.* Since [(1)](#eq-ab), done by [Theorem 1](#thm-x) and [that one](#thm-x)."
    assert proof in text
    assert "> **Theorem**\n" in text
    assert "> **Theorem 2 (Last)**" in text


def test_numbers_go_on_through_the_book(tmp_path):
    first = ":::{prf:lemma} First\n:label: lem-first\nWords.\n:::\n\n$$a$$ (eq-first)\n"
    text = markdown(
        tmp_path,
        "See {prf:ref}`lem-first` and {eq}`eq-first`.\n\n:::{prf:lemma} Second\nWords.\n:::\n",
        before=first,
    )
    assert text.count("**Lemma 1 (Second)**") == 1  # the chapter stands before this page
    site = pages_url(HERE.url)
    assert f"[Lemma 2]({site}before.html#lem-first)" in text
    assert f"[(1)]({site}before.html#equation-eq-first)" in text


def test_a_link_to_another_chapter_leads_to_its_notebook(tmp_path):
    other = "# Other $x$\n\n(sec-deep)=\n## Deep\n\n$$a$$ (eq-other)\n" + CELL
    text = markdown(
        tmp_path,
        "{doc}`other`, {doc}`words <words>`, {eq}`eq-other`, {ref}`sec-deep`, [](other.md), "
        "[it](other.md), [](#sec-deep), [w](words.md).",
        other=other,
    )
    site = pages_url(HERE.url)
    assert text.splitlines()[-1] == (
        f"[Other $x$](other.ipynb), [words]({site}words.html), [(1)](other.ipynb#eq-other), "
        f"[Deep](other.ipynb#sec-deep), [Other $x$](other.ipynb), [it](other.ipynb), "
        f"[Deep](other.ipynb#sec-deep), [w]({site}words.html)."
    )
    written = notebooks.generate(tmp_path, HERE)["notebooks/other.ipynb"]
    assert '<a name=\\"eq-other\\" id=\\"eq-other\\"></a>' in written
    assert '<a name=\\"sec-deep\\" id=\\"sec-deep\\"></a>' in written


def test_citations_show_author_and_year_and_lead_to_the_work(tmp_path):
    text = markdown(tmp_path, "{cite:p}`one,two` {cite:t}`two` {cite}`three` {cite:t}`three`")
    work = "https://doi.org/10.1/one", "https://arxiv.org/abs/1902.2"
    book = f"{pages_url(HERE.url)}index.html"
    assert text == (
        f"[[Long, 1901]({work[0]}), [Long and Mid, 1902]({work[1]})] "
        f"Long and Mid [[1902]({work[1]})] [[A *et al.*, 1903]({book})] A *et al.* [[1903]({book})]"
    )


def test_a_bibliography_lists_what_the_chapter_cites(tmp_path):
    text = markdown(
        tmp_path, "{cite:p}`two`\n\n```{bibliography}\n:filter: docname in docnames\n```"
    )
    listed = text.split("\n\n")[-1]
    assert listed == (
        "- Ada Long and Bo Mid. Two. *J*, 1902. [arXiv:1902.2](https://arxiv.org/abs/1902.2)."
    )


def test_terms_lead_to_the_glossary_whatever_their_case(tmp_path):
    text = markdown(tmp_path, "{term}`soft word` {term}`two words <Other; word>`")
    site = f"{pages_url(HERE.url)}words.html"
    assert text == f"[soft word]({site}#term-Soft-word) [two words]({site}#term-Other-word)"


def test_admonitions_are_quotations_and_dropdowns_are_collapsed(tmp_path):
    text = markdown(
        tmp_path,
        """
        :::{note}
        Said `aside`.
        :::
        :::{admonition} Why `d`?
        :class: dropdown
        Because.
        :::
        ```{dropdown} More
        Text.
        ```
        ````{warning}
        ```{prf:remark} Inside
        Nested.
        ```
        ````
        """,
    )
    assert "> **Note**\n>\n> Said `aside`." in text
    assert "<summary><b>Why <code>d</code>?</b></summary>\n\nBecause.\n\n</details>" in text
    assert "<summary><b>More</b></summary>\n\nText.\n\n</details>" in text
    assert "> **Warning**\n>\n> > **Remark 1 (Inside)**\n> >\n> > Nested." in text


SOLVED = """
:::{exercise} Sums
:label: ex-sums
Add.
:::

:::{solution-start} ex-sums
:class: dropdown
:::
First words.

```{code-cell} python
answer = 2
```

Last words, {ref}`ex-sums`.
:::{solution-end}
:::

After.
"""


def test_a_solution_is_collapsed_and_its_code_stays_a_cell(tmp_path):
    cells = convert(tmp_path, SOLVED)
    exercise, first, code, last, after = (cell.source for cell in cells[:5])
    assert exercise.endswith(
        "> **Exercise 1 (Sums)**\n>\n> Add.".replace("> **", anchor_of("ex-sums"))
    )
    title = "<details>\n<summary><b>Solution to Exercise 1 (Sums)"
    assert first == f"{title}</b></summary>\n\nFirst words.\n\n</details>"
    assert code == "# @title Solution to Exercise 1: the code\nanswer = 2"
    assert cells[2].metadata.cellView == "form"
    assert cells[2].metadata.jupyter == {"source_hidden": True}
    link = "[Exercise 1](#ex-sums)"
    assert last == f"{title}, continued</b></summary>\n\nLast words, {link}.\n\n</details>"
    assert after == "After."


def anchor_of(name: str) -> str:
    return f'> <a name="{name}" id="{name}"></a>**'


def test_hidden_input_is_collapsed_and_a_caption_follows_its_figure(tmp_path):
    cells = convert(
        tmp_path,
        """
        See {numref}`fig-one` and {numref}`picture %s <fig-one>`.

        ```{code-cell} python
        ---
        tags: [hide-input]
        mystnb:
          figure:
            name: fig-one
            caption: |
              Words with $x$
              and {cite:t}`one`.
        ---
        draw()
        ```
        """,
    )
    assert cells[0].source.endswith("See [Fig. 1](#fig-one) and [picture 1](#fig-one).")
    assert cells[1].source == "# @title Fig. 1: the code\ndraw()"
    assert cells[1].metadata == {
        "tags": ["hide-input"], "cellView": "form", "jupyter": {"source_hidden": True}
    }  # fmt: skip
    assert cells[2].source == (
        '<a name="fig-one" id="fig-one"></a>**Fig. 1.** Words with $x$ and Long '
        "[[1901](https://doi.org/10.1/one)]."
    )


def test_tables_glossaries_and_definition_lists_are_plain_markdown(tmp_path):
    text = markdown(
        tmp_path,
        r"""
        ```{list-table} Sizes
        :header-rows: 1
        :name: tab-sizes

        * - Name
          - Norm
        * - `a|b`
          - $|x|$

            twice
        ```

        | a | {term}`soft word` |
        |:--|--:|
        | {eq}`eq-a` | b |

        Term
        : Its meaning, {eq}`eq-a`,
          on two lines.

        ```{math}
        :label: eq-a
        a \\
        b
        ```

        {numref}`tab-sizes`
        """,
    )
    site = pages_url(HERE.url)
    assert '<a name="tab-sizes" id="tab-sizes"></a>**Table 1:** Sizes\n\n| Name | Norm |' in text
    assert "| `a\\|b` | $\\vert x\\vert $<br>twice |" in text
    assert f"| a | [soft word]({site}words.html#term-Soft-word) |\n| :-- | --: |" in text
    assert "| [(1)](#eq-a) | b |" in text
    assert "- **Term**: Its meaning, [(1)](#eq-a),\n  on two lines." in text
    assert r"$$\begin{aligned}a \\ b\end{aligned} \tag{1}$$" in text
    assert text.endswith("[Table 1](#tab-sizes)")


def test_a_directive_inside_a_list_keeps_its_indentation(tmp_path):
    text = markdown(tmp_path, "1. one\n\n   :::{note}\n   Said.\n   :::\n\n2. two $a\n   = b$\n")
    assert text == "1. one\n\n   > **Note**\n   >\n   > Said.\n\n2. two $a = b$"


def test_a_role_in_code_or_in_a_formula_is_left_alone(tmp_path):
    source = (
        "Write ``{eq}`eq-x` `` or `{term}`, and $x_{eq}$, and \\{eq}.\n\n```python\n{note}\n```"
    )
    assert markdown(tmp_path, source) == source


def test_small_roles_become_markdown_or_html(tmp_path):
    text = markdown(tmp_path, "{math}`x_1` {sub}`1` {sup}`2` {kbd}`Tab` {code}`a` {py:func}`~b.c`")
    assert text == "$x_1$ <sub>1</sub> <sup>2</sup> <kbd>Tab</kbd> `a` `b.c`"


def test_code_that_is_shown_only_stays_a_block_of_code(tmp_path):
    text = markdown(
        tmp_path,
        """
        ```{code-block} python
        :caption: As in {eq}`eq-a`

        x = {"a": 1}  # {eq}
        ```

        $$a$$ (eq-a)

        ```{rubric} Small title
        ```

        ```{seealso}
        More.
        ```

        ```{math}
        a_1

        b_1
        ```
        """,
    )
    assert '*As in [(1)](#eq-a)*\n\n```python\nx = {"a": 1}  # {eq}\n```' in text
    assert "**Small title**\n\n> **See also**\n>\n> More." in text
    assert text.endswith(r"$$\begin{aligned}a_1 \\ b_1\end{aligned}$$")


def test_comments_and_targets_leave_nothing_behind(tmp_path):
    assert markdown(tmp_path, "before\n\n% a comment\n\n(unused)=\n\nafter") == "before\n\nafter"


def test_macros_are_written_out():
    macros = {"softmax": r"\operatorname{softmax}", "inner": [r"\langle #1, #2\rangle", 2]}
    assert expand(r"\softmax(\inner{a}{\softmax{}})", macros) == (
        r"\operatorname{softmax}(\langle a, \operatorname{softmax}{}\rangle)"
    )
    assert expand(r"\softmaxx \innerx", macros) == r"\softmaxx \innerx"
    with pytest.raises(ValueError, match=r"\\inner needs its argument in braces"):
        expand(r"\inner a b", macros)
    with pytest.raises(ValueError, match="do not end"):
        expand(r"\loop", {"loop": r"\loop"})


# ---- what is refused ----------------------------------------------------------------------

REFUSED = {
    "an unknown directive": (":::{tab-set}\nText.\n:::", "no rule turns the directive {tab-set}"),
    "an unknown role": ("{abc}`x`", "no rule turns the role {abc}"),
    "an unknown role in a proposition": (
        ":::{prf:lemma} L\nText.\n\n{abc}`x`\n:::", "no rule turns the role {abc}"),
    "a number from glue": ("{glue:text}`x`", "no rule turns the role {glue:text}"),
    "a missing label": ("{eq}`eq-nowhere`", "there is no label 'eq-nowhere'"),
    "a label of another kind": ("$$a$$ (eq-a)\n\n{prf:ref}`eq-a`", "'eq-a' is a equation"),
    "a missing work": ("{cite:p}`nobody`", "references.bib has no work 'nobody'"),
    "a missing term": ("{term}`nothing`", "the glossary does not explain 'nothing'"),
    "a missing page": ("{doc}`nowhere`", "the book has no page 'nowhere'"),
    "a label twice": ("$$a$$ (eq-a)\n\n$$b$$ (eq-a)", "the label 'eq-a' already stands"),
    "an unknown option": (":::{note}\n:colour: red\nText.\n:::", "colour"),
    "an open directive": (":::{note}\nText.", "the directive {note} is never closed"),
    "an open solution": (
        ":::{exercise} E\n:label: ex-e\nText.\n:::\n:::{solution-start} ex-e\n:::\nText.",
        "the solution '' never ends"),
    "a footnote": ("Text[^1].\n\n[^1]: Note.", "no rule turns a footnote"),
    "a substitution": ("{{ name }}", "no rule turns a substitution"),
    "a relative image": ("![x](picture.png)", "Colab cannot find the image 'picture.png'"),
    "a numbered environment": (
        "\\begin{align}\na\n\\end{align}", "\\begin{align} numbers itself"),
    "a comment in a formula": ("$$\na % b\n$$", "a comment in a formula"),
    "a raw cell": ("```{raw-cell}\nx\n```", "a raw cell has no use"),
    "a code cell in a note": (
        "````{note}\n```{code-cell} python\n1\n```\n````", "a code cell inside another block"),
}  # fmt: skip


@pytest.mark.parametrize("text, message", REFUSED.values(), ids=REFUSED.keys())
def test_what_a_notebook_cannot_say_is_refused_with_its_place(tmp_path, text, message):
    with pytest.raises(SourceError) as refusal:
        convert(tmp_path, "First line.\n\n" + text + "\n")
    assert message in str(refusal.value)
    assert re.match(r"chapter\.md:\d+: ", str(refusal.value))


def test_a_refusal_names_the_line(tmp_path):
    text = "# Chapter\n\nWords.\n\n:::{prf:lemma} L\n:label: lem-l\n\nWords.\n\n- {abc}`x`\n:::\n"
    book = write_book(tmp_path, chapter=text + CELL)
    with pytest.raises(SourceError, match=r"chapter\.md:10: "):
        notebooks.generate(book, HERE)


def test_a_chapter_begins_with_its_title(tmp_path):
    book = write_book(tmp_path, chapter="Words before the title.\n" + CELL)
    with pytest.raises(SourceError, match=r"chapter\.md:1: a chapter begins with its title"):
        notebooks.generate(book, HERE)


# ---- where the repository is --------------------------------------------------------------


def test_the_repository_is_named_once_and_a_fork_overrides_it(tmp_path):
    config = tmp_path / "_config.yml"
    config.write_text("repository:\n  url: https://github.com/owner/name.git/\n  branch: dev\n")
    assert repository({}, config) == ("https://github.com/owner/name", "dev")
    fork = {"GITHUB_REPOSITORY": "Me/fork", "GITHUB_SERVER_URL": "https://github.com"}
    assert repository(fork, config) == ("https://github.com/Me/fork", "dev")
    on_branch = {**fork, "GITHUB_REF_TYPE": "branch", "GITHUB_REF_NAME": "trunk"}
    assert repository(on_branch, config).branch == "trunk"
    pull_request = {**on_branch, "GITHUB_HEAD_REF": "topic", "GITHUB_REF_NAME": "7/merge"}
    assert repository(pull_request, config).branch == "dev"


@pytest.mark.parametrize(
    "text", ["{}", "repository:\n  url: name", "repository:\n  url: https://a/b"]
)
def test_a_setting_that_names_no_repository_is_refused(tmp_path, text):
    (tmp_path / "_config.yml").write_text(text)
    with pytest.raises(ValueError, match=r"must have the form https://host/owner/name"):
        repository({}, tmp_path / "_config.yml")


def test_addresses_follow_from_the_repository():
    assert pages_url("https://github.com/Owner/name") == "https://owner.github.io/name/"
    assert pages_url("https://github.com/me/me.github.io") == "https://me.github.io/"
    assert colab_url("https://github.com/Owner/name", "main", "notebooks/a.ipynb") == (
        "https://colab.research.google.com/github/Owner/name/blob/main/notebooks/a.ipynb"
    )


def test_every_notebook_begins_with_the_set_up_and_leads_back_to_its_page():
    where = repository({})
    for path, text in notebooks.generate(where=where).items():
        first, second = json.loads(text)["cells"][:2]
        assert first["cell_type"] == "code"
        assert f"attnlib[notebooks] @ git+{where.url}@{where.branch}" in "".join(first["source"])
        page = f"{pages_url(where.url)}chapters/{Path(path).stem}.html"
        assert page in links("".join(second["source"]))
