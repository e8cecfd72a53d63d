"""The chapters' notebooks in JupyterLab 4, in a real browser, with no other host in reach."""

import ast
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from built import place_of_book
from jupyterlab_server import ROOT, ask_kernel, jupyterlab, open_notebook, run_all
from pages import chromium, served
from playwright.sync_api import Locator, Page

NOTEBOOKS = ROOT / "notebooks"
BUILT = place_of_book()
# What each chapter shows; a chapter that is not here is run by test_colab.py alone.
EXPLORERS = {
    "attention": ("softmax", "soft-lookup"),
    "tokenization": ("tokens",),
    "embeddings": ("neighbours",),
    "positions": ("sinusoidal", "rotary"),
}
# A slider of each, whose trait in Python has its name.
SLIDERS = {
    "softmax": "temperature",
    "soft-lookup": "bandwidth",
    "tokens": "n_merges",
    "neighbours": "width",
    "sinusoidal": "position",
    "rotary": "query_position",
}


@dataclass
class Lab:
    """A page of JupyterLab with what it complained of and whom else it wanted to ask."""

    page: Page
    chapter: str
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def cut_off(self) -> None:
        """Let the page reach this machine alone, and note what it says."""

        def decide(route) -> None:
            address = urlsplit(route.request.url)
            if address.hostname == "127.0.0.1" or address.scheme in ("data", "blob"):
                route.continue_()
            else:
                self.foreign.append(route.request.url)
                route.abort()

        def hear(message) -> None:
            if message.type == "error":
                self.complaints.append(message.text)

        self.page.route("**/*", decide)
        self.page.on("console", hear)
        self.page.on("pageerror", lambda error: self.complaints.append(f"exception: {error}"))


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    """JupyterLab on a copy of the notebooks."""
    folder, private = tmp_path_factory.mktemp("shown"), tmp_path_factory.mktemp("private")
    for path in NOTEBOOKS.glob("*.ipynb"):
        shutil.copy(path, folder)
    with jupyterlab(folder, private) as at:
        yield at


@pytest.fixture(scope="module", params=EXPLORERS)
def lab(request, browser, address) -> Iterator[Lab]:
    """A chapter's notebook, all its cells run."""
    lab = Lab(browser.new_page(viewport={"width": 1280, "height": 1000}), request.param)
    lab.cut_off()
    open_notebook(lab.page, address, f"{lab.chapter}.ipynb")
    run_all(lab.page)
    yield lab
    lab.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.shutdown()"
    )
    lab.page.close()


@pytest.fixture(scope="module")
def static(lab, browser) -> Iterator[Page]:
    """The same chapter's built page."""
    built = BUILT / f"chapters/{lab.chapter}.html"
    assert built.is_file(), f"{built.name} is not built yet: make strict-book"
    with served(BUILT) as at:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(f"{at}/chapters/{lab.chapter}.html")
        yield page
        page.close()


# ---- explorers ----------------------------------------------------------------------------


def explorer(page: Page, name: str) -> Locator:
    box = page.locator(f".attn-box.attn-{name}").first
    box.wait_for(timeout=60_000)
    return box


def words(box: Locator) -> str:
    return box.locator(".attn-words").inner_text()


def picture(box: Locator) -> str:
    """What is drawn, without what depends on the page: made-up ids and the places of words,
    which keep a readable size however wide the picture is."""
    drawn = box.locator("svg").evaluate_all("(all) => all.map((svg) => svg.outerHTML).join()")
    drawn = re.sub(r'(<text\b[^>]*?) x="[^"]*" y="[^"]*"', r"\1", drawn)
    maps = box.locator("canvas").evaluate_all("(all) => all.map((it) => it.toDataURL()).join()")
    rows = box.locator(".attn-token-list, .attn-neighbours-rows").all_inner_texts()
    return re.sub(r"attn-[a-z]+-[a-z0-9]{8}", "", drawn) + maps + "".join(rows)


def settled(box: Locator) -> tuple[str, str]:
    """The words and the picture, after one frame to draw in and one more to be past it."""
    box.evaluate("() => new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)))")
    return words(box), picture(box)


def press(box: Locator, slider: str, keys: tuple[str, ...]) -> list[tuple[str, str]]:
    """Press keys on a slider; return the words and the picture after each."""
    handle = box.locator(f"input[type=range][name='{slider}']")
    handle.focus()
    seen = []
    for key in keys:
        handle.press(key)
        seen.append(settled(box))
    return seen


def test_every_slider_moved_by_keyboard_changes_picture_and_words_as_in_the_static_page(
    lab, static
):
    for name in EXPLORERS[lab.chapter]:
        assert_sliders_do_the_same(lab.page, static, name)


def assert_sliders_do_the_same(lab: Page, static: Page, name: str) -> None:
    live, still = explorer(lab, name), explorer(static, name)
    assert settled(live) == settled(still)
    names = "(all) => all.map((slider) => slider.name)"
    sliders = live.locator("input[type=range]").evaluate_all(names)
    assert sliders == still.locator("input[type=range]").evaluate_all(names)
    assert SLIDERS[name] in sliders
    for slider in sliders:
        for box in (live, still):
            box.locator("button[name=reset]").click()
            if slider == "key_dim":
                # Divided by its root, the width has no effect: that is what this one shows.
                box.locator("input[name=scaled]").uncheck()
        before, keys = settled(live), ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft")
        moved = press(live, slider, keys)
        for there, back in ((before, moved[0]), (moved[0], moved[1]), (moved[1], moved[2])):
            assert there[0] != back[0], f"{slider} leaves the words as they were"
            assert there[1] != back[1], f"{slider} leaves the picture as it was"
        assert moved[3] == before
        assert moved == press(still, slider, keys)


def in_python(lab: Lab, name: str, trait: str) -> list:
    """What the kernel's explorers of a kind have for a trait."""
    code = (
        f"[w.{trait} for w in __import__('ipywidgets').widgets.widget._instances.values() "
        f"if getattr(w, 'explorer', None) == {name!r}]"
    )
    return ast.literal_eval(ask_kernel(lab.page, code))


TYPED = {
    "tokens": ("textarea[name=text]", "text", "naïve 語\n"),
    "neighbours": ("input[name=word]", "word", "queen"),
}


def test_what_a_slider_sets_and_what_is_typed_arrives_in_python(lab):
    for name in EXPLORERS[lab.chapter]:
        box = explorer(lab.page, name)
        box.locator("button[name=reset]").click()
        settled(box)
        before = in_python(lab, name, SLIDERS[name])
        handle = box.locator(f"input[name={SLIDERS[name]}]")
        handle.press("PageUp")
        settled(box)
        shown = handle.get_attribute("aria-valuetext")
        after = in_python(lab, name, SLIDERS[name])
        assert before != after, f"the page shows {shown}, Python still has {after}"
        number = float(re.search(r"\d+(\.\d+)?", shown.replace(",", ""))[0])
        assert after[0] == pytest.approx(number, rel=0.01), f"{shown} and {after}"
        if name in TYPED:
            field, trait, text = TYPED[name]
            box.locator(field).fill(text)
            settled(box)
            assert in_python(lab, name, trait)[0] == text


# ---- the rest of the page -----------------------------------------------------------------


def test_formulas_are_set_without_an_error(lab):
    count = lab.page.locator("mjx-container").count()
    assert count > 50
    errors = lab.page.locator("mjx-merror, [data-mjx-error]").evaluate_all(
        "(all) => all.map((error) => error.closest('.jp-Cell').innerText.slice(0, 200))"
    )
    assert errors == []
    text = lab.page.locator(".jp-MarkdownOutput").all_inner_texts()
    assert not any("$$" in part or "\\tag" in part for part in text)


def test_plotly_draws_every_figure_without_the_network(lab):
    captions = lab.page.locator(".jp-MarkdownOutput strong", has_text=re.compile(r"^Fig\. \d+\.$"))
    figures = lab.page.locator(".jp-OutputArea .js-plotly-plot:has(.main-svg .cartesianlayer path)")
    assert captions.count() == figures.count() >= 1


def test_a_reference_leads_to_what_it_names(lab):
    to_a_statement = ".jp-MarkdownOutput :is(a[href^='#prop-'], a[href^='#def-'], a[href^='#eq-'])"
    link = lab.page.locator(to_a_statement).first
    name = (link.get_attribute("href") or "").removeprefix("#")
    link.scroll_into_view_if_needed()
    link.click()
    target = lab.page.locator(f"[data-jupyter-id='{name}'], [id='{name}']").first
    lab.page.wait_for_function(
        "(target) => { const {top} = target.getBoundingClientRect();"
        " return top >= 0 && top < innerHeight; }",
        arg=target.element_handle(),
        timeout=10_000,
    )


def test_solutions_are_collapsed(lab):
    solutions = lab.page.locator(".jp-MarkdownOutput details")
    assert solutions.count() >= 3
    assert solutions.evaluate_all("(all) => all.filter((one) => one.open).length") == 0
    collapsed = lab.page.locator(".jp-CodeCell .jp-InputPlaceholder")
    notebook = NOTEBOOKS / f"{lab.chapter}.ipynb"
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    assert collapsed.count() == sum("cellView" in cell["metadata"] for cell in cells)


def test_nothing_is_asked_of_another_host_and_nothing_complains(lab):
    assert lab.foreign == []
    assert lab.complaints == []
