"""Every page of the built book in a real Chromium, from a server and from the disk.

The pages are found in the built folder. Each is opened once for all its tests, so
the tests change the window and the theme as they need them; the last one asks what
the page has requested and complained of in the meantime.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup
from built import Placed, Visited, built_book, explorers, figures, page_names, place_of_book, visits
from controls import OTHER_WORD, Explorer, assert_all_change, next_frames
from pages import (
    Account,
    chromium,
    keep_account,
    overflowing,
    scroll_through,
    served,
    settle,
    violations,
)
from playwright.sync_api import Browser, BrowserContext, Locator, Page

from attnlib.explore import NAMES
from repository import colab_url, repository

ROOT = Path(__file__).resolve().parents[2]
BUILT = place_of_book()
WIDTHS = (1920, 1280, 768, 390)
LARGEST_MB = {True: 1.3, False: 0.75}  # over the wire, gzipped: with figures, and without
PAPER_PX = 718  # A4 without its margins, at 96 pixels an inch

# Without a book there is nothing to find; then one placeholder fails with the reason.
NOWHERE = Visited("index.html", "http")
PAGES = page_names(BUILT) or [NOWHERE.page]
VISITS = visits(BUILT) or [NOWHERE]
WITH_FIGURES = [visit for visit in VISITS if BUILT.is_dir() and figures(BUILT, visit.page)]
EXPLORERS = explorers(BUILT) or [Placed(NOWHERE, 0, "softmax")]


@dataclass
class Opened:
    """A page of the book in a window of its own, with the account of what it did."""

    where: Visited
    url: str
    page: Page
    account: Account
    drawn_unseen: int  # figures that were drawn before the page was scrolled

    def show(self, width: int = 1280, theme: str = "light") -> None:
        """Show the page from its top at this width and in this theme."""
        if self.page.evaluate("() => document.documentElement.dataset.theme") != theme:
            self.page.set_viewport_size({"width": 1280, "height": 900})
            choose_theme(self.page, theme)
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.evaluate("() => scrollTo(0, 0)")
        calm(self.page)

    def explorer(self, place: int) -> Explorer:
        return Explorer(self.page, place)

    def assert_blameless(self) -> None:
        """Assert that nothing was asked of another host, was missing, or gave cause to complain.

        The browser asks for the page's icon anew at every change of the address, in vain while
        it is offline.
        """
        account = self.account
        icon = next((url for url in account.sizes if "favicon" in url), "no icon")
        in_vain = f"error: Failed to load resource: net::ERR_INTERNET_DISCONNECTED ({icon})"
        assert account.foreign == []
        assert [url for url in account.failed if url != icon] == []
        assert [text for text in account.complaints if text != in_vain] == []


@pytest.fixture(scope="module")
def html() -> Path:
    """The folder of the book under test; a missing or a stale book ends the run, not green."""
    try:
        return built_book()
    except RuntimeError as error:
        reason = str(error)
    pytest.exit(reason, returncode=1)


@pytest.fixture(scope="module")
def browser(html):
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def address(html) -> Iterator[str]:
    with served(html) as at:
        yield at


@pytest.fixture(scope="module")
def url_of(html, address) -> Callable[[Visited], str]:
    def url(where: Visited) -> str:
        root = address if where.scheme == "http" else html.as_uri()
        return f"{root}/{where.page}"

    return url


@pytest.fixture(scope="module")
def open_book(browser, html, url_of) -> Iterator[Callable[[Visited], Opened]]:
    """Give a page of the book, read once to its end; the same one until another is asked for."""
    held: list[Opened] = []

    def give(where: Visited) -> Opened:
        if not held or held[0].where != where:
            put_back()
            held.append(read(browser, html, where, url_of(where)))
        return held[0]

    def put_back() -> None:
        while held:
            held.pop().page.context.close()

    yield give
    put_back()


@pytest.fixture
def opened(request, open_book) -> Opened:
    """The page that the test is about. conftest.py brings its tests together."""
    return open_book(request.param)


def read(browser: Browser, html: Path, where: Visited, url: str, **window) -> Opened:
    """Open a page in a window of its own and read it to its end."""
    window = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light", **window}
    context = browser.new_context(**window, reduced_motion="reduce")
    stay_at_home(context)
    page = context.new_page()
    account = keep_account(page, html)
    page.goto(url)
    settle(page)
    drawn_unseen = page.locator(".attn-figure[data-drawn]").count()
    scroll_through(page)
    return Opened(where, url, page, account, drawn_unseen)


def stay_at_home(context: BrowserContext) -> None:
    """Let nothing out to another host; the account notes the attempt."""
    foreign = re.compile(r"^(https?|wss?)://(?!127\.0\.0\.1[:/])")
    context.route(foreign, lambda route: route.abort())


def choose_theme(page: Page, theme: str) -> None:
    """Press the page's own button until the theme is the wanted one."""
    button = page.locator("button.theme-switch-button:visible").first
    for _ in range(3):
        if page.evaluate("() => document.documentElement.dataset.theme") == theme:
            break
        button.evaluate("(it) => it.click()")
    assert page.evaluate("() => document.documentElement.dataset.theme") == theme


def calm(page: Page) -> None:
    """Wait until what moves has come to rest."""
    next_frames(page)
    page.wait_for_function(
        "() => document.getAnimations().every(({playState}) => playState !== 'running')"
    )


def every(of: list) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("opened", of, ids=str, indirect=True)


def served_only(of: list[Visited]) -> list[Visited]:
    return [visit for visit in of if visit.scheme == "http"]


# From the disk a page has the same words, styles and scripts: there it is asked whether formulas,
# figures, explorers and the search come to life, and whether anything is missing.
every_visit = every(VISITS)
every_page = every(served_only(VISITS))
every_visit_with_figures = every(WITH_FIGURES or [NOWHERE])
every_page_with_figures = every(served_only(WITH_FIGURES) or [NOWHERE])
WITH_EXPLORERS = list(dict.fromkeys(each.visited for each in EXPLORERS))
every_page_with_explorers = every(served_only(WITH_EXPLORERS))


def each_of(of: list[Placed]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("opened", "place"),
        [pytest.param(each.visited, each.place, id=f"{each.visited}-{each}") for each in of],
        indirect=["opened"],
    )


# The script of a page is the same from the disk: there one way of moving says that it runs.
every_explorer_in_each_way = each_of(EXPLORERS)
every_explorer = each_of([each for each in EXPLORERS if each.visited.scheme == "http"])
# Nor is what an address holds, but that it may follow a file's name: one page says so.
ADDRESSED = [
    each
    for each in EXPLORERS
    if each.visited.scheme == "http" or each.visited.page == "chapters/attention.html"
]


# ---- the files, without a browser ---------------------------------------------------------


class Text:
    """A built page as text: its links and its anchors."""

    def __init__(self, path: Path):
        self.soup = BeautifulSoup(path.read_text("utf-8"), "html.parser")
        self.ids = [node["id"] for node in self.soup.find_all(id=True)]
        self.anchors = {*self.ids, *(node["name"] for node in self.soup.select("a[name]"))}
        self.links = [
            node.get("href") or node.get("src") for node in self.soup.select("[href], [src]")
        ]
        self.launches = [
            node["href"] for node in self.soup.select("a[href*='colab.research.google.com']")
        ]


@pytest.fixture(scope="module")
def texts(html) -> dict[str, Text]:
    return {page: Text(html / page) for page in page_names(html)}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_inside_the_book_leads_somewhere(html, texts, page):
    broken = []
    for link in texts[page].links:
        target = urlsplit(urljoin(f"//book/{page}", link))
        if target.netloc != "book" or target.scheme not in ("", "file"):
            continue
        name = unquote(target.path).lstrip("/")
        anchor = unquote(target.fragment)
        if not (html / name).is_file() or (
            anchor and name in texts and anchor not in texts[name].anchors
        ):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES)
def test_no_id_stands_twice_on_a_page(texts, page):
    ids = texts[page].ids
    assert sorted(ids) == sorted(set(ids))


@pytest.mark.parametrize("page", PAGES)
def test_the_launch_button_opens_the_notebook_of_the_page_if_there_is_one(texts, page):
    notebook = f"notebooks/{Path(page).stem}.ipynb"
    wanted = [colab_url(*repository(), notebook)] if (ROOT / notebook).is_file() else []
    assert texts[page].launches == wanted


def test_every_notebook_can_be_launched_from_a_page(html):
    stems = {Path(page).stem for page in page_names(html)}
    assert {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} <= stems


def test_the_book_has_the_explorers_and_figures_that_are_tested_here(html):
    """Else the tests below would find nothing to look at and pass."""
    assert {each.name for each in explorers(html)} == set(NAMES)
    assert sum(figures(html, page) for page in page_names(html)) > 0


# ---- any page -----------------------------------------------------------------------------


@every_visit
def test_every_formula_is_set_and_none_is_refused(opened):
    refused = opened.page.locator("mjx-merror, [data-mjx-error]").evaluate_all(
        "(all) => all.map((node) => node.closest('.math')?.outerHTML.slice(0, 300) ?? '?')"
    )
    assert refused == []
    raw = opened.page.locator(".math").evaluate_all(
        "(all) => all.filter((node) => !node.querySelector('mjx-container mjx-math'))"
        ".map((node) => node.textContent.slice(0, 100))"
    )
    assert raw == []


@every_page
def test_no_markup_is_left_in_the_text(opened):
    """A formula or a directive that nobody has read stands there as its source."""
    text = opened.page.evaluate(
        """() => {
            const text = document.querySelector("main").cloneNode(true);
            for (const node of text.querySelectorAll("pre, code, script, mjx-container")) {
                node.remove();
            }
            return text.textContent;
        }"""
    )
    left = re.search(r"\\[(\[]|\$\$|\\begin\{|:::|```|\{(?:eq|ref|term|numref|cite)[^}]*\}`", text)
    assert left is None, text[max(left.start() - 60, 0) : left.end() + 60]


# plotly follows the window a moment later: up to two seconds may pass.
FIT = """async () => {
    const {documentElement} = document, end = performance.now() + 2000;
    while (documentElement.scrollWidth > documentElement.clientWidth && performance.now() < end) {
        await new Promise((done) => setTimeout(done, 50));
    }
}"""


@every_page
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window(opened, width):
    opened.show(width)
    opened.page.evaluate(FIT)
    assert overflowing(opened.page) == []


# Two rules take four fifths of axe's time. They ask for colours, which neither the width of the
# window changes nor, for links, the page: all have the same style sheet.
CONTRAST, LINKS = "color-contrast", "link-in-text-block"


@every_page
def test_axe_finds_nothing_serious_on_a_wide_page_with_every_fold_open(opened):
    opened.show(1280, "light")
    unfold(opened.page)
    try:
        assert violations(opened.page, but=(LINKS,)) == []
        opened.show(1280, "dark")
        assert violations(opened.page, rules=(CONTRAST,)) == []
    finally:
        fold(opened.page)


@every_page
def test_axe_finds_nothing_serious_on_a_narrow_page_as_it_comes(opened):
    opened.show(390, "light")
    assert violations(opened.page, but=(CONTRAST, LINKS)) == []


@every([Visited(page, "http") for page in ("index.html", "chapters/attention.html")])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_links_stand_out_from_the_text_around_them(opened, theme):
    opened.show(1280, theme)
    assert violations(opened.page, rules=(LINKS,)) == []


def unfold(page: Page) -> None:
    """Open every collapsed part of the text."""
    page.evaluate(
        """() => {
            for (const part of document.querySelectorAll(".bd-article details:not([open])")) {
                part.open = true;
                part.dataset.unfolded = "";
            }
            for (const button of document.querySelectorAll(".bd-article button.toggle-button")) {
                if (button.closest(".toggle-hidden")) button.click();
            }
        }"""
    )
    calm(page)


def fold(page: Page) -> None:
    page.evaluate(
        """() => {
            for (const part of document.querySelectorAll("details[data-unfolded]")) {
                part.open = false;
            }
            for (const button of document.querySelectorAll(".bd-article button.toggle-button")) {
                if (!button.closest(".toggle-hidden")) button.click();
            }
        }"""
    )
    calm(page)


# Texts of drawings are no concern of axe: here is the contrast of each with the page behind it.
FAINT = """(drawings) => {
    const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const paint = (colour) => {
        pen.clearRect(0, 0, 1, 1);
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
        return [...pen.getImageData(0, 0, 1, 1).data];
    };
    const luminance = (colour) => {
        const [r, g, b] = paint(colour).map((byte) => {
            const x = byte / 255;
            return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (node) => {
        for (let box = node; box; box = box.parentElement) {
            const colour = getComputedStyle(box).backgroundColor;
            if (paint(colour)[3] > 250) return colour;
        }
        return "white";
    };
    const contrast = (a, b) => {
        const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
        return (light + 0.05) / (dark + 0.05);
    };
    return drawings.flatMap((drawing) => {
        const paper = behind(drawing.parentElement);
        return [...drawing.querySelectorAll("text")]
            .filter((text) => text.textContent.trim() && text.checkVisibility())
            .map((text) => [text.textContent, contrast(getComputedStyle(text).fill, paper)])
            .filter(([, ratio]) => ratio < 4.5)
            .map(([words, ratio]) => `${words}: ${ratio.toFixed(2)}`);
    });
}"""


@every_page
def test_the_switch_changes_the_theme_and_all_drawings_follow(opened):
    page = opened.page
    seen = {}
    for theme in ("light", "dark"):
        opened.show(1280, theme)
        page.wait_for_timeout(100)  # plotly draws anew in its own time
        drawings = page.locator(".attn-plot svg.main-svg, .attn-box svg")
        assert drawings.evaluate_all(FAINT) == [], theme
        seen[theme] = page.evaluate(
            """() => ({
                page: getComputedStyle(document.body).backgroundColor,
                figures: [...document.querySelectorAll(".attn-plot")]
                    .map((plot) => getComputedStyle(plot.querySelector("text")).fill),
                explorers: [...document.querySelectorAll(".attn-box")]
                    .map((box) => getComputedStyle(box).backgroundColor),
            })"""
        )
    light, dark = seen["light"], seen["dark"]
    assert light["page"] != dark["page"]
    for kind in ("figures", "explorers"):
        assert all(a != b for a, b in zip(light[kind], dark[kind], strict=True)), kind


@every_page
def test_the_skip_link_comes_first_and_leads_to_the_text(opened):
    opened.show()
    page = opened.page
    from_the_top = "(it) => { it.tabIndex = -1; it.focus(); it.removeAttribute('tabindex'); }"
    page.locator("body").evaluate(from_the_top)
    page.keyboard.press("Tab")
    first = page.evaluate("() => document.activeElement.getAttribute('href')")
    assert first == "#main-content"
    calm(page)
    link = page.locator("a[href='#main-content']").first
    assert link.bounding_box()["y"] >= 0, "the skip link shows when it has the focus"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(
        "() => document.querySelector('#main-content').contains(document.activeElement)"
    ), "after the skip link the next stop is in the text"


# ---- figures ------------------------------------------------------------------------------


@every_visit_with_figures
def test_every_figure_is_drawn_once_seen_and_has_a_name(opened):
    opened.show()
    scroll_through(opened.page)
    boxes = opened.page.locator(".attn-figure")
    assert boxes.count() == figures(BUILT, opened.where.page)
    for box in boxes.all():
        plot = box.locator(".attn-plot")
        assert plot.locator("svg.main-svg :is(.trace, .hm image, .point)").count() > 0
        assert plot.get_attribute("role") == "img"
        assert len((plot.get_attribute("aria-label") or "").split()) >= 5
        assert plot.locator("svg.main-svg").first.bounding_box()["width"] > 300


@every_page_with_figures
def test_a_figure_far_below_the_window_waits(opened):
    assert opened.drawn_unseen < figures(BUILT, opened.where.page)


@every_page_with_figures
def test_plotly_never_delays_a_page_and_paper_shows_every_figure_though_none_was_seen(
    opened, browser
):
    """It is fetched after the page has loaded, and where data are to be saved only when needed."""
    context = browser.new_context(viewport={"width": 1280, "height": 300})
    context.add_init_script(
        "Object.defineProperty(navigator, 'connection', {value: {saveData: true}})"
    )
    page = context.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(opened.url)
    settle(page)
    assert not any("plotly" in url for url in asked)
    page.locator(".attn-figure").first.scroll_into_view_if_needed()
    page.wait_for_selector(".attn-figure svg.main-svg")
    assert any("plotly" in url for url in asked)
    count = figures(BUILT, opened.where.page)
    assert count == 1 or page.locator(".attn-figure[data-drawn]").count() < count
    assert_printed_completely(page)
    assert page.locator(".attn-figure[data-drawn] svg.main-svg").count() >= count
    context.close()


@every_visit
def test_plotly_is_loaded_once_where_there_are_figures_and_else_never(opened):
    asked = [url for url in opened.account.sizes if "plotly" in url]
    assert len(asked) == (1 if figures(BUILT, opened.where.page) else 0)


# ---- explorers ----------------------------------------------------------------------------


STILL = {"cost"}  # bars and a roofline: they show where the sliders lead, and are not taken hold of
LOW = 0.05  # of a slider's length: lower than where any slider begins, but for those at the end


def there_and_back(explorer: Explorer, slider: Locator, high: float) -> tuple[float, float]:
    """Two places on a slider; where it begins at its lower end, the first one is the high one."""
    explorer.reset()
    at_the_end = slider.evaluate("(it) => Number(it.value) === Number(it.min)")
    return (high, LOW) if at_the_end else (LOW, high)


@every_explorer
def test_every_control_has_a_name(opened, place):
    explorer = opened.explorer(place)
    names = [explorer.name_of(control) for control in explorer.controls()]
    assert len(names) >= 3 and all(names)
    assert len(set(names)) == len(names)


@every_explorer_in_each_way
def test_a_slider_moved_by_keyboard_changes_value_picture_and_words(opened, place):
    opened.show()
    explorer = opened.explorer(place)
    with explorer.offline():
        for slider in explorer.sliders():
            keys = ("ArrowRight", "Home", "End")
            explorer.assert_moves(
                slider, *[lambda key=key, slider=slider: slider.press(key) for key in keys]
            )


@every_explorer
def test_a_slider_dragged_by_mouse_changes_value_picture_and_words(opened, place):
    opened.show()
    explorer = opened.explorer(place)
    with explorer.offline():
        for slider in explorer.sliders():
            first, second = there_and_back(explorer, slider, 0.8)
            explorer.assert_moves(
                slider,
                lambda slider=slider, to=first: explorer.drag(slider, 0.5, to),
                lambda slider=slider, start=first, to=second: explorer.drag(slider, start, to),
            )


@every_page_with_explorers
def test_on_a_phone_a_tapped_slider_changes_value_picture_and_words(opened, browser, html):
    size = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}
    phone = read(browser, html, opened.where, opened.url, **size)
    assert overflowing(phone.page) == []
    for place in range(phone.page.locator(".attn-explorer").count()):
        explorer = phone.explorer(place)
        with explorer.offline():
            for slider in explorer.sliders():
                explorer.assert_moves(
                    slider,
                    *[
                        lambda at=at, slider=slider, explorer=explorer: explorer.tap(slider, at)
                        for at in there_and_back(explorer, slider, 0.75)
                    ],
                )
    phone.assert_blameless()
    phone.page.context.close()


@every_explorer
def test_every_other_control_changes_the_words(opened, place):
    opened.show()
    explorer = opened.explorer(place)
    with explorer.offline():
        explorer.reset()
        for box in explorer.box.locator("input[type=checkbox]").all():
            before = explorer.look()
            box.press("Space")
            assert explorer.look().words != before.words
        for choice in explorer.box.locator("select").all():
            options = choice.locator("option").evaluate_all("(all) => all.map((it) => it.value)")
            assert len(options) >= 2
            looks = []
            for option in options:
                choice.select_option(option)
                looks.append(explorer.look())
            assert_all_change(looks)
        for box in explorer.box.locator("textarea").all():
            looks = [explorer.look()]
            for typed in ("To be, or not to be", "naïve €5", ""):
                box.fill(typed)
                looks.append(explorer.look())
            assert all(a.words != b.words and a.drawing != b.drawing for a, b in pairwise(looks))
        for box in explorer.box.locator("input[list]").all():
            looks = [explorer.look()]
            for _ in range(3):
                box.fill(box.evaluate(OTHER_WORD))
                looks.append(explorer.look())
            assert_all_change(looks)


@every_explorer
def test_a_picture_that_looks_movable_is(opened, place):
    opened.show()
    explorer = opened.explorer(place)
    pictures = explorer.movable_pictures()
    assert bool(pictures) != (explorer.kind() in STILL), "only these explorers have none"
    with explorer.offline():
        for picture in pictures:
            explorer.assert_picture_moves(picture, 0.5, 0.25)


@every_explorer
def test_a_handle_in_the_picture_moves_by_the_arrow_keys(opened, place):
    opened.show()
    explorer = opened.explorer(place)
    with explorer.offline():
        for handle in explorer.box.locator("svg [role=slider]").all():
            explorer.reset()
            looks, values = [explorer.look()], [handle.get_attribute("aria-valuetext")]
            for key in ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"):
                handle.press(key)
                looks.append(explorer.look())
                values.append(handle.get_attribute("aria-valuetext"))
            assert_all_change(looks)
            assert all(a != b for a, b in pairwise(values))


@every_explorer
def test_reset_restores_the_first_state(opened, place):
    opened.show()
    explorer = opened.explorer(place)
    with explorer.offline():
        explorer.reset()
        first = explorer.look()
        explorer.change_everything()
        changed = explorer.look()
        assert changed.words != first.words
        assert all(a != b for a, b in zip(changed.values, first.values, strict=True))
        explorer.reset()
        assert explorer.look() == first


@each_of(ADDRESSED)
def test_the_address_holds_the_state_and_brings_it_back(opened, place):
    opened.show()
    for other in range(opened.page.locator(".attn-explorer").count()):
        opened.explorer(other).reset()  # each has a part of the address
    explorer = opened.explorer(place)
    explorer.change_everything()
    changed = explorer.look()
    explorer.await_address()
    assert f"{explorer.kind()}:" in opened.page.url
    again = opened.page.context.new_page()
    again.goto(opened.page.url)
    settle(again)
    restored = Explorer(again, place)
    assert restored.look() == changed
    assert restored.box.evaluate(
        "(box) => { const {top} = box.getBoundingClientRect(); return 0 <= top && top < 500; }"
    ), "a shared link leads to its explorer"
    again.close()
    explorer.reset()
    explorer.await_address()
    assert opened.page.url == opened.url


@every_page_with_explorers
def test_tab_reaches_every_control_in_turn_and_shows_where_it_is(opened):
    opened.show()
    page = opened.page
    page.locator("#main-content").evaluate("(it) => { it.tabIndex = -1; it.focus(); }")
    for place in range(page.locator(".attn-explorer").count()):
        explorer = opened.explorer(place)
        box, inside = explorer.box.element_handle(), "(box) => box.contains(document.activeElement)"
        for _ in range(1000):
            page.keyboard.press("Tab")
            if box.evaluate(inside):
                break
        reached = []
        while box.evaluate(inside):
            name, ring = explorer.focused()
            assert ring, f"nothing shows that {name} has the focus"
            reached.append(name)
            page.keyboard.press("Tab")
        assert reached == [explorer.name_of(control) for control in explorer.controls()]


# ---- paper --------------------------------------------------------------------------------


@every_page
def test_on_paper_the_text_is_complete_and_fits(opened):
    opened.show()
    page = opened.page
    page.emulate_media(media="print")
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    page.set_viewport_size({"width": PAPER_PX, "height": 1000})
    calm(page)
    try:
        hidden = page.locator(".bd-article .solution").evaluate_all(
            """(all) => all.flatMap((solution) => [...solution.querySelectorAll("p, pre, .math")])
                .filter((part) => part.textContent.trim() && !part.closest("details:not([open])"))
                .filter((part) => !part.checkVisibility({visibilityProperty: true,
                    opacityProperty: true}) || part.getBoundingClientRect().height === 0)
                .map((part) => part.outerHTML.slice(0, 160))"""
        )
        assert hidden == []
        assert overflowing(page) == []
        for machinery in (".bd-sidebar-primary", ".bd-header-article", ".attn-buttons"):
            assert page.locator(f"{machinery}:visible").count() == 0, machinery
        assert page.locator(".attn-figure:not([data-drawn])").count() == 0
    finally:
        page.evaluate("() => dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
        page.set_viewport_size({"width": 1280, "height": 900})


@every_page
def test_a_page_prints_completely(opened):
    opened.show()
    assert_printed_completely(opened.page)


def assert_printed_completely(page: Page) -> None:
    """Assert that a page gives a PDF of as many sheets as its words need at least."""
    paper = page.pdf(format="A4")
    assert paper.startswith(b"%PDF-") and len(paper) > 10_000
    words = len(page.locator("main").inner_text().split())
    sheets = len(re.findall(rb"/Type\s*/Page\b", paper))
    assert sheets >= max(1, words // 1500), f"{words} words cannot stand on {sheets} sheets"


# ---- search -------------------------------------------------------------------------------


@every([Visited("index.html", scheme) for scheme in ("http", "file")])
def test_a_search_for_entropy_finds_the_chapter_on_attention(opened, browser):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(opened.url)
    settle(page)
    page.keyboard.press("Control+k")
    page.keyboard.type("entropy")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li a")
    links = page.locator("#search-results li a").evaluate_all("(all) => all.map((a) => a.href)")
    chapter = next(link for link in links if "chapters/attention.html" in link)
    page.goto(chapter)
    settle(page)
    assert page.locator(".bd-article h1").is_visible()
    page.close()


# ---- in the end ---------------------------------------------------------------------------


@every_page
def test_a_page_weighs_no_more_than_its_budget(opened):
    most = LARGEST_MB[figures(BUILT, opened.where.page) > 0]
    assert opened.account.megabytes <= most, opened.account.table()


@every_visit
def test_a_page_asks_no_other_host_and_complains_of_nothing(opened):
    opened.assert_blameless()
