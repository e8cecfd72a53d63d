"""The explorer of the next token in a real Chromium, with logits made up for it."""

from collections.abc import Iterator

import numpy as np
import pytest
from controls import Explorer, next_frames
from explorer_pages import PLACES, OneExplorer, opened, served_pages
from pages import chromium, overflowing, violations

from attnlib.explore import explore

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
    """A page with this explorer alone."""
    pages = {"page": [explore("next-token", **OPTIONS)]}
    with served_pages(tmp_path_factory.mktemp("page"), pages) as at:
        yield f"{at}/page.html"


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser, address):
    with opened(browser, address) as page:
        yield page


class TestEveryControl(OneExplorer):
    n_sliders = 5


def test_top_k_is_chosen_by_pressing_and_dragging_in_the_chart(page):
    explorer = Explorer(page, 0)
    (picture,) = explorer.movable_pictures()
    explorer.assert_picture_moves(picture, 0.5, 0.25)
    for fraction, wanted in [(34 / 300, "1"), (1.0, "off")]:
        explorer.drag(picture, 0.5, fraction)
        assert f"top-k {wanted}, top-p" in explorer.look().words


@pytest.mark.parametrize("width", [690, 358])  # of the book's column, on a desk and on a phone
def test_no_control_and_no_picture_moves_when_the_position_does(browser, address, width):
    with opened(browser, address, viewport={"width": width, "height": 900}) as page:
        explorer = Explorer(page, 0)
        before = explorer.box.evaluate(PLACES)
        for step in (0, 1, 3, N - 1):
            explorer.box.locator("input[name=position]").fill(str(step))
            next_frames(page)
            assert explorer.box.evaluate(PLACES) == before


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
