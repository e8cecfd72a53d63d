"""The explorer of the next token in a real Chromium, with logits made up for it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from controls import Explorer, assert_the_address_brings_all_back, next_frames
from pages import chromium, keep_account, overflowing, served, violations
from playwright.sync_api import Page

from attnlib.explore import explore

ROOT = Path(__file__).resolve().parents[2]

V, N = 900, 20
_RANDOM = np.random.default_rng(3)
WORDS = [f" word{id}" if id % 3 else f"-w{id}" for id in range(V)]
WORDS[5], WORDS[6], WORDS[7] = "\n", "nevertheless-and-more", "M" * 30
OPTIONS = {
    # From nearly certain to nearly even.
    "logits": np.linspace(4.0, 0.5, N)[:, None] * _RANDOM.normal(size=(N, V)),
    "words": WORDS,
    "text": [*range(4, 8), *_RANDOM.integers(V, size=N - 4).tolist()],
    "before": "MACBETH.\nShe should have died hereafter;\nThere would have been a time for such a ",
}


@pytest.fixture(scope="module")
def address(assets, tmp_path_factory) -> Iterator[str]:
    """A page with the book's own script and style, and this explorer alone."""
    folder = tmp_path_factory.mktemp("page")
    for name in ("book.css", "book.js"):
        shutil.copy(ROOT / "book/assets" / name, folder)
    (folder / "page.html").write_text(
        '<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Explorer</title>'
        '<link rel="icon" href="data:,"><link rel="stylesheet" href="book.css">'
        '<script defer src="book.js"></script>'
        "<style>body {font-family: sans-serif; margin: 0}"
        ":root {--pst-color-background: #fff; --pst-color-text-base: #222}"
        "html[data-theme=dark] {--pst-color-background: #14181e;"
        "--pst-color-text-base: #ced6dd; --pst-color-text-muted: #9ca4af;"
        "background: #14181e; color: #ced6dd}</style>"
        f"<main><h1>Explorer</h1>{explore('next-token', **OPTIONS)._html()}</main>",
        encoding="utf-8",
    )
    with served(folder) as at:
        yield f"{at}/page.html"


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


def opened(browser, address: str, **window) -> Page:
    context = browser.new_context(**{"viewport": {"width": 1000, "height": 900}, **window})
    page = context.new_page()
    page.account = keep_account(page, ROOT / "book/assets")
    page.goto(address)
    page.wait_for_selector(".attn-box")
    return page


@pytest.fixture
def page(browser, address):
    page = opened(browser, address)
    yield page
    assert (page.account.complaints, page.account.foreign) == ([], [])
    page.context.close()


def test_every_slider_moves_the_picture_and_the_words_by_keyboard_and_mouse(page):
    explorer = Explorer(page, 0)
    sliders = explorer.sliders()
    assert len(sliders) == 5
    for slider in sliders:
        keys = ("ArrowRight", "Home", "End")
        explorer.assert_moves(slider, *[lambda k=key, s=slider: s.press(k) for key in keys])
        explorer.assert_moves(
            slider,
            lambda s=slider: explorer.drag(s, 0.5, 0.05),
            lambda s=slider: explorer.drag(s, 0.05, 0.8),
        )


def test_on_a_phone_every_slider_moves_the_picture_and_the_words_by_touch(browser, address):
    size = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}
    page = opened(browser, address, **size)
    assert overflowing(page) == []
    explorer = Explorer(page, 0)
    for slider in explorer.sliders():
        explorer.assert_moves(
            slider,
            lambda s=slider: explorer.tap(s, 0.05),
            lambda s=slider: explorer.tap(s, 0.75),
        )
    assert (page.account.complaints, page.account.foreign) == ([], [])
    page.context.close()


def test_top_k_is_chosen_by_pressing_and_dragging_in_the_chart(page):
    explorer = Explorer(page, 0)
    (picture,) = explorer.movable_pictures()
    explorer.assert_picture_moves(picture, 0.5, 0.25)
    for fraction, wanted in [(34 / 300, "1"), (1.0, "off")]:
        explorer.drag(picture, 0.5, fraction)
        assert f"top-k {wanted}, top-p" in explorer.look().words


def test_every_control_counts_and_the_address_brings_all_back(page):
    assert_the_address_brings_all_back(page, 0)


def test_tab_reaches_every_control_in_turn_and_shows_where_it_is(page):
    explorer = Explorer(page, 0)
    controls = explorer.controls()
    controls[0].focus()
    reached = []
    for _ in controls:
        name, ring = explorer.focused()
        assert ring, f"nothing shows that {name} has the focus"
        reached.append(name)
        page.keyboard.press("Tab")
    assert reached == [explorer.name_of(control) for control in controls]


PLACES = """(box) => [...box.querySelectorAll("input, button, svg, output")].map((part) => {
    const { x, y, right } = part.getBoundingClientRect();
    const at = part.matches("output") ? right : x;
    return [part.name ?? part.tagName, at, y - box.getBoundingClientRect().top].map(String).join();
})"""


@pytest.mark.parametrize("width", [690, 358])  # of the book's column, on a desk and on a phone
def test_no_control_and_no_picture_moves_when_the_position_does(browser, address, width):
    page = opened(browser, address, viewport={"width": width, "height": 900})
    explorer = Explorer(page, 0)
    before = explorer.box.evaluate(PLACES)
    for step in (0, 1, 3, N - 1):
        explorer.box.locator("input[name=position]").fill(str(step))
        next_frames(page)
        assert explorer.box.evaluate(PLACES) == before
    page.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 390])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(page, width, theme):
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(f"() => {{ document.documentElement.dataset.theme = '{theme}'; }}")
    for step in ("2", "3", str(N - 1)):  # the longest words, and the last position
        page.locator("input[name=position]").fill(step)
        next_frames(page)
        assert overflowing(page) == []
        assert violations(page, ("moderate", "serious", "critical")) == []


def test_the_page_says_what_python_says_at_every_position(page):
    explorer = Explorer(page, 0)
    for position in range(0, N, 3):
        # Steps of the sliders: T = 0.1 · 50^(i/51), k from a list, hundredths.
        for name, step in (
            ("position", position),
            ("temperature", 30),
            ("top_k", 10),
            ("top_p", 79),
        ):
            explorer.box.locator(f"input[name={name}]").fill(str(step))
        next_frames(page)
        how = {"temperature": 1.0, "top_k": 20, "top_p": 0.8, "min_p": 0.1}
        wanted = explore("next-token", **OPTIONS, position=position, **how)
        assert explorer.look().words == wanted.describe()


BAR_WIDTHS = """(box) => [".attn-own-bar", ".attn-drawn-bar"].map((name) => (
    [...box.querySelectorAll(name)].map((bar) => Number(bar.getAttribute("width")))
))"""


def test_the_bars_are_as_long_as_the_tokens_are_likely_and_the_dropped_ones_are_faint(page):
    explorer = Explorer(page, 0)
    for position, end in ((0, 1.0), (6, None), (N - 1, None)):
        explorer.box.locator("input[name=position]").fill(str(position))
        next_frames(page)
        found = explore("next-token", **OPTIONS, position=position).facts()
        own, drawn = map(np.array, explorer.box.evaluate(BAR_WIDTHS))
        ticks = explorer.box.locator(".attn-stage svg .attn-tick").all_text_contents()
        axis = end or float(ticks[2])
        assert max(found["before"][0], found["after"][0]) <= axis
        # To the two decimals in which a picture's lengths are written.
        wanted = [*found["before"], found["tokenBefore"]], [*found["after"], found["tokenAfter"]]
        assert own == pytest.approx(np.array(wanted[0]) * 148 / axis, abs=0.006)
        assert drawn == pytest.approx(np.array(wanted[1]) * 148 / axis, abs=0.006)
        faint = explorer.box.locator(".attn-own-bar").evaluate_all(
            "(bars) => bars.map((bar) => bar.classList.contains('attn-dropped'))"
        )
        assert faint == [p == 0 for p in wanted[1]]


def test_a_click_on_a_token_of_the_text_leads_there(page):
    explorer = Explorer(page, 0)
    tokens = explorer.box.locator(".attn-running-text span")
    assert tokens.count() == N + 1
    for position in (0, 9, 19):
        tokens.nth(position + 1).click()
        wanted = explore("next-token", **OPTIONS, position=position)
        assert explorer.look().words == wanted.describe()
        assert explorer.box.locator(".attn-token-asked").count() == 1
        assert explorer.box.locator(".attn-read-token").count() == position + 1
