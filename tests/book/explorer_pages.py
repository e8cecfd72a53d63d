"""Explorers on pages of their own, with the book's script and style, and what holds for each."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from controls import Explorer, assert_the_address_brings_all_back, next_frames
from pages import keep_account, overflowing, served
from playwright.sync_api import Browser, Page

from attnlib.explore.base import Explorer as Widget

ASSETS = Path(__file__).resolve().parents[2] / "book/assets"
PHONE = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}

# Where every control, picture and number of an explorer stands, from the top of its box.
PLACES = """(box) => [...box.querySelectorAll("input, select, button, svg, output")].map((part) => {
    const { x, y, right } = part.getBoundingClientRect();
    const at = part.matches("output") ? right : x;
    return [part.name ?? part.tagName, at, y - box.getBoundingClientRect().top].map(String).join();
})"""


@contextmanager
def served_pages(folder: Path, pages: Mapping[str, Sequence[Widget]]) -> Iterator[str]:
    """Serve a page for each name with its explorers; yield the address of the folder."""
    for name in ("book.css", "book.js"):
        shutil.copy(ASSETS / name, folder)
    for name, explorers in pages.items():
        (folder / f"{name}.html").write_text(
            '<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width"><title>Explorers</title>'
            '<link rel="icon" href="data:,"><link rel="stylesheet" href="book.css">'
            '<script defer src="book.js"></script>'
            "<style>body {font-family: sans-serif; margin: 0}"
            ":root {--pst-color-background: #fff; --pst-color-text-base: #222}"
            "html[data-theme=dark] {--pst-color-background: #14181e;"
            "--pst-color-text-base: #ced6dd; --pst-color-text-muted: #9ca4af;"
            "background: #14181e; color: #ced6dd}</style>"
            f"<main><h1>Explorers</h1>{''.join(each._html() for each in explorers)}</main>",
            encoding="utf-8",
        )
    with served(folder) as at:
        yield at


@contextmanager
def opened(browser: Browser, address: str, **window) -> Iterator[Page]:
    """Open a page until all its explorers are there; in the end nothing may have gone wrong."""
    context = browser.new_context(**{"viewport": {"width": 1000, "height": 900}, **window})
    page = context.new_page()
    account = keep_account(page, ASSETS)
    page.goto(address)
    page.wait_for_selector(".attn-explorer:last-child .attn-box")
    yield page
    assert (account.complaints, account.foreign) == ([], [])
    context.close()


def assert_every_slider_moves_by_keyboard_and_mouse(explorer: Explorer) -> None:
    for slider in explorer.sliders():
        keys = ("ArrowRight", "Home", "End")
        explorer.assert_moves(slider, *[lambda k=key, s=slider: s.press(k) for key in keys])
        explorer.assert_moves(
            slider,
            lambda s=slider: explorer.drag(s, 0.5, 0.05),
            lambda s=slider: explorer.drag(s, 0.05, 0.8),
        )


def assert_every_slider_moves_by_touch(explorer: Explorer) -> None:
    for slider in explorer.sliders():
        explorer.assert_moves(
            slider,
            lambda s=slider: explorer.tap(s, 0.05),
            lambda s=slider: explorer.tap(s, 0.75),
        )


def assert_tab_reaches_every_control_in_turn(explorer: Explorer) -> None:
    """And it is seen where the focus is."""
    controls = explorer.controls()
    controls[0].focus()
    reached = []
    for _ in controls:
        name, ring = explorer.focused()
        assert ring, f"nothing shows that {name} has the focus"
        reached.append(name)
        explorer.box.page.keyboard.press("Tab")
    assert reached == [explorer.name_of(control) for control in controls]


def slide(explorer: Explorer, **steps: int) -> None:
    """Put sliders, by their names, on so many steps from their lower ends."""
    for name, step in steps.items():
        explorer.box.locator(f"input[name={name}]").fill(str(step))
    next_frames(explorer.page)


class OneExplorer:
    """What holds for every explorer that has a page of its own, as tests of a class of its file.

    The file has the fixtures `browser`, `address` of the page, and `page`.
    """

    n_sliders: ClassVar[int]

    def test_no_slider_begins_at_its_upper_end(self, page):
        for slider in Explorer(page, 0).sliders():
            assert slider.evaluate("(it) => Number(it.value) < Number(it.max)")

    def test_every_slider_moves_the_picture_and_the_words_by_keyboard_and_mouse(self, page):
        explorer = Explorer(page, 0)
        assert len(explorer.sliders()) == self.n_sliders
        assert_every_slider_moves_by_keyboard_and_mouse(explorer)

    def test_on_a_phone_every_slider_moves_the_picture_and_the_words_by_touch(
        self, browser, address
    ):
        with opened(browser, address, **PHONE) as page:
            assert overflowing(page) == []
            assert_every_slider_moves_by_touch(Explorer(page, 0))

    def test_every_control_counts_and_the_address_brings_all_back(self, page):
        assert_the_address_brings_all_back(page, 0)

    def test_tab_reaches_every_control_in_turn_and_shows_where_it_is(self, page):
        assert_tab_reaches_every_control_in_turn(Explorer(page, 0))
