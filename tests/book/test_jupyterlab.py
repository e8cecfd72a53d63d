"""A chapter's notebook in JupyterLab 4, in a real browser, with every other host out of reach."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from jupyterlab_server import ROOT, ask_kernel, jupyterlab, open_notebook, run_all
from pages import chromium, served
from playwright.sync_api import Locator, Page

CHAPTER = "attention"
NOTEBOOK = ROOT / f"notebooks/{CHAPTER}.ipynb"
BUILT = ROOT / "_build/html"
EXPLORERS = ("softmax", "soft-lookup")


@dataclass
class Lab:
    """A page of JupyterLab with what it complained of and whom else it wanted to ask."""

    page: Page
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
def lab(browser, tmp_path_factory) -> Iterator[Lab]:
    """The chapter's notebook, all its cells run."""
    folder, private = tmp_path_factory.mktemp("shown"), tmp_path_factory.mktemp("private")
    for path in NOTEBOOK.parent.glob("*.ipynb"):
        shutil.copy(path, folder)
    with jupyterlab(folder, private) as address:
        lab = Lab(browser.new_page(viewport={"width": 1280, "height": 1000}))
        lab.cut_off()
        open_notebook(lab.page, address, NOTEBOOK.name)
        run_all(lab.page)
        yield lab
        lab.page.close()


@pytest.fixture(scope="module")
def static(browser) -> Iterator[Page]:
    """The same chapter's built page."""
    built = BUILT / f"chapters/{CHAPTER}.html"
    assert built.is_file(), f"{built.name} is not built yet: make strict-book"
    with served(BUILT) as address:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(f"{address}/chapters/{CHAPTER}.html")
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
    return re.sub(r"attn-[a-z]+-[a-z0-9]{8}", "", drawn)


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


@pytest.mark.parametrize("name", EXPLORERS)
def test_every_slider_moved_by_keyboard_changes_picture_and_words_as_in_the_static_page(
    lab, static, name
):
    live, still = explorer(lab.page, name), explorer(static, name)
    assert settled(live) == settled(still)
    names = "(all) => all.map((slider) => slider.name)"
    sliders = live.locator("input[type=range]").evaluate_all(names)
    assert sliders == still.locator("input[type=range]").evaluate_all(names)
    assert len(sliders) >= 3
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


def test_what_a_slider_sets_arrives_in_python(lab):
    box = explorer(lab.page, "softmax")
    box.locator("button[name=reset]").click()
    code = (
        "__import__('json').dumps([w.temperature for w in "
        "__import__('ipywidgets').widgets.widget._instances.values() "
        "if getattr(w, 'explorer', None) == 'softmax'])"
    )
    before = ask_kernel(lab.page, code)
    handle = box.locator("input[name=temperature]")
    handle.focus()
    handle.press("PageUp")
    shown = handle.get_attribute("aria-valuetext")
    after = ask_kernel(lab.page, code)
    assert before != after, f"the page shows {shown}, Python still has {after}"


# ---- the rest of the page -----------------------------------------------------------------


def test_formulas_are_set_without_an_error(lab):
    count = lab.page.locator("mjx-container").count()
    assert count > 100
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
    link = lab.page.locator(".jp-MarkdownOutput a[href^='#prop-']").first
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
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    assert collapsed.count() == sum("cellView" in cell["metadata"] for cell in cells)


def test_nothing_is_asked_of_another_host_and_nothing_complains(lab):
    assert lab.foreign == []
    assert lab.complaints == []
