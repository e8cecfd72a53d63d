"""What the build makes of a page, seen in the miniature book and in a real browser."""

import json
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from builds import ROOT
from fontTools.ttLib import TTFont
from pages import chromium, keep_account, scroll_through, served, settle

from attnlib import plots


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def address(sound):
    assert sound.outcome.code == 0, sound.outcome.output
    with served(sound.html) as at:
        yield at


@pytest.fixture
def page(browser):
    opened = browser.new_page(viewport={"width": 1280, "height": 700}, color_scheme="light")
    yield opened
    opened.close()


def text_of(sound, name: str) -> str:
    return (sound.html / name).read_text("utf-8")


def test_the_launch_button_of_a_fork_leads_to_the_notebook_of_the_fork(sound):
    links = re.findall(r'href="(https://colab[^"]*)"', text_of(sound, "page.html"))
    assert links == [
        "https://colab.research.google.com/github/a-reader/a-fork/blob/main/notebooks/page.ipynb"
    ]
    assert 'href="https://github.com/a-reader/a-fork"' in text_of(sound, "page.html")


def test_the_download_is_the_generated_notebook(sound):
    assert 'href="_sources/page.ipynb"' in text_of(sound, "page.html")
    assert (sound.html / "_sources/page.ipynb").read_text("utf-8") == "{}"


def test_a_page_without_a_notebook_has_no_launch_button(sound):
    assert "colab" not in text_of(sound, "terms.html")


def test_no_page_holds_the_machinery_of_live_kernels(sound):
    for path in sound.html.glob("*.html"):
        text = path.read_text("utf-8").lower()
        for word in ("thebe", "kernelname", "require.js", "html-manager", "fontawesome.js"):
            assert word not in text, f"{path.name} holds {word}"


def test_no_id_stands_twice_on_a_page(sound):
    for path in sound.html.glob("*.html"):
        ids = re.findall(r'\sid="([^"]*)"', path.read_text("utf-8"))
        assert sorted(ids) == sorted(set(ids)), path.name


def test_every_icon_of_a_page_has_its_glyph_and_few_others(sound):
    static = sound.html / "_static"
    fonts = sorted((static / "vendor/fontawesome/webfonts").iterdir())
    assert {path.suffix for path in fonts} == {".woff2"}
    kept = {point for path in fonts for point in TTFont(path).getBestCmap()}
    sheet = (static / "styles/pydata-sphinx-theme.css").read_text("utf-8")
    points = dict(re.findall(r'\.(fa-[\w-]+):before[^{}]*\{content:"\\(\w+)"\}', sheet))
    shown = set(re.findall(r'class="fa[\w-]* (fa-[\w-]+)', text_of(sound, "page.html")))
    assert {"fa-bars", "fa-rocket", "fa-github"} <= shown
    assert {int(points[name], 16) for name in shown} <= kept
    assert sum(path.stat().st_size for path in fonts) < 10_000


@pytest.mark.parametrize("scheme", ["http", "file"])
@pytest.mark.parametrize("name", ["index.html", "page.html", "terms.html", "search.html?q=weight"])
def test_a_page_loads_from_itself_alone_and_without_complaint(sound, address, page, scheme, name):
    account = keep_account(page, sound.html)
    page.goto(f"{address}/{name}" if scheme == "http" else f"file://{sound.html}/{name}")
    settle(page)
    scroll_through(page)
    assert account.foreign == account.failed == account.complaints == []


def test_search_finds_a_page_without_a_server(sound, page):
    page.goto(f"file://{sound.html}/search.html?q=numerators")
    page.wait_for_selector("#search-results li a")
    assert "A page" in page.inner_text("#search-results")


def test_plotly_loads_only_on_a_page_with_figures(sound, address, page):
    account = keep_account(page, sound.html)
    page.goto(f"{address}/terms.html")
    settle(page)
    assert not any("plotly" in url for url in account.sizes)
    page.goto(f"{address}/page.html")
    settle(page)
    assert any("plotly" in url for url in account.sizes)


def tick_colour(page) -> str:
    return page.eval_on_selector(".attn-plot .xtick text", "it => getComputedStyle(it).fill")


def test_a_figure_follows_the_theme(address, page):
    page.goto(f"{address}/page.html")
    settle(page)
    scroll_through(page)
    light = tick_colour(page)
    page.evaluate("() => { document.documentElement.dataset.theme = 'dark'; }")
    page.wait_for_function(
        "before => getComputedStyle(document.querySelector('.attn-plot .xtick text')).fill"
        " !== before",
        arg=light,
    )
    channels = [int(value) for value in re.findall(r"\d+", tick_colour(page))[:3]]
    assert min(channels) > 150, "text on a dark page is light"


def test_a_heat_map_shows_equal_words_in_columns_of_their_own(address, page):
    page.goto(f"{address}/page.html")
    settle(page)
    scroll_through(page)
    assert page.locator(".attn-plot .xtick text").all_text_contents() == ["the", "the", "sea"]
    assert page.locator(".attn-plot .ytick text").all_text_contents() == ["the", "sea"]
    top, bottom = (
        page.locator(".attn-plot .ytick text").nth(row).bounding_box()["y"] for row in (0, 1)
    )
    assert top < bottom


def test_the_numbers_of_a_figure_can_be_read_as_a_table(address, page):
    page.goto(f"{address}/page.html")
    settle(page)
    page.locator(".attn-data summary").click()
    rows = page.locator(".attn-table tr").all_inner_texts()
    # softmax of (0, 1, 2) and of (2, 0, 1), to four digits
    assert [row.split() for row in rows] == [
        ["the", "the", "sea"],
        ["the", "0.09003", "0.2447", "0.6652"],
        ["sea", "0.6652", "0.09003", "0.2447"],
    ]


def test_a_figure_is_drawn_for_print_though_it_was_never_seen(browser, address):
    """A low window: the figure is further away than any figure that is drawn for reading."""
    context = browser.new_context(viewport={"width": 1280, "height": 200}, color_scheme="dark")
    page = context.new_page()
    page.goto(f"{address}/page.html")
    page.add_style_tag(content=".bd-article > section > :first-child { margin-bottom: 3000px }")
    page.wait_for_function("() => window.Plotly")
    assert page.locator(".attn-figure[data-drawn]").count() == 0
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("() => document.documentElement.dataset.theme") == "light"
    assert page.locator(".attn-figure[data-drawn] svg.main-svg").count() > 0
    assert page.locator(".attn-plot .svg-container").bounding_box()["width"] == 640
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    context.close()


def test_a_solution_is_open_on_paper(address, page):
    page.goto(f"{address}/page.html")
    settle(page)
    solution = page.locator(".solution p", has_text="The constant cancels")
    assert not solution.is_visible()
    page.emulate_media(media="print")
    assert solution.is_visible() and solution.bounding_box()["height"] > 0
    assert not page.locator(".bd-sidebar-primary").is_visible()


def test_a_formula_that_does_not_fit_is_reached_by_keyboard(browser, address):
    page = browser.new_page(viewport={"width": 240, "height": 600})
    page.goto(f"{address}/page.html")
    settle(page)
    page.wait_for_selector('mjx-container[display="true"][tabindex="0"]')
    page.close()


def test_without_set_up_the_build_ends_in_one_sentence(monkeypatch, tmp_path):
    import assets
    import extension

    monkeypatch.setattr(assets, "NODE_MODULES", tmp_path)
    with pytest.raises(SystemExit, match=r"run `python3 book/set_up\.py` first"):
        extension.assemble_assets(None, None)


def test_assets_are_made_again_only_when_their_inputs_change(monkeypatch, tmp_path):
    import assets

    made = tmp_path / "assets"
    assert assets.assemble(made)
    assert not assets.assemble(made)
    sheets = tmp_path / "book/css"
    shutil.copytree(assets.BOOK / "css", sheets)
    (sheets / "new.css").write_text(".new { color: red }")
    monkeypatch.setattr(assets, "inputs", lambda: sorted(sheets.glob("*.css")))
    assert assets.assemble(made)


def test_builds_side_by_side_leave_whole_assets(tmp_path):
    import assets

    with ThreadPoolExecutor(max_workers=3) as pool:
        list(pool.map(assets.assemble, [tmp_path / "assets"] * 3))
    assert {path.name for path in tmp_path.iterdir()} == {"assets"}
    names = {path.name for path in (tmp_path / "assets").iterdir()}
    assert names >= {"book.js", "book.css", "mathjax", "plotly-cartesian.min.js", ".made-of"}


def test_the_pages_table_shows_names_in_full(node, tmp_path):
    lines = plots.lines([0], {"<s>": [1], "&lt;": [2]}, x_title="step", y_title="loss")
    bars = plots.bars(["AT&T"], [3], x_title="token", y_title="count")
    table = (ROOT / "book/js/table.js").read_text(encoding="utf-8")
    page = """
const shown = [];
const node = () => ({
  set textContent(text) { shown.push(text); },
  insertRow: node, createCaption: node, createTHead: node, createTBody: node,
  append() {}, setAttribute() {},
});
globalThis.document = { createElement: node };
"""
    calls = [f"fillTable(node(), {figure.to_json()}, 'title');" for figure in (lines, bars)]
    script = tmp_path / "table.mjs"
    end = "console.log(JSON.stringify(shown));"
    script.write_text("\n".join([table, page, *calls, end]), encoding="utf-8")
    done = subprocess.run([node, script], capture_output=True, text=True, check=True)
    assert {"<s>", "&lt;", "AT&T"} <= set(json.loads(done.stdout))
