"""The what-fits explorer in a real Chromium, on a page of its own."""

from collections.abc import Iterator

import pytest
from controls import Explorer, next_frames
from explorer_pages import PLACES, OneExplorer, opened, served_pages, slide
from pages import chromium, overflowing, violations

from attnlib import PUBLISHED
from attnlib.explore import explore, limits


@pytest.fixture(scope="module")
def address(assets, tmp_path_factory) -> Iterator[str]:
    """A page with this explorer alone."""
    with served_pages(tmp_path_factory.mktemp("page"), {"page": [explore("what-fits")]}) as at:
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


# One token of one row in the largest memory, and the other ends.
CHOSEN = (
    {"n_tokens": 0, "n_rows": 0, "card_gib": 7, "bytes_per_weight": 0, "bytes_per_number": 0},
    {"n_tokens": 17, "n_rows": 8, "card_gib": 0, "bytes_per_weight": 3, "bytes_per_number": 4},
)


@pytest.mark.parametrize("width", [690, 358])  # of the book's column, on a desk and on a phone
def test_no_control_and_no_picture_moves_whatever_is_chosen(browser, address, width):
    with opened(browser, address, viewport={"width": width, "height": 900}) as page:
        explorer = Explorer(page, 0)
        before = explorer.box.evaluate(PLACES)
        for steps in CHOSEN:
            slide(explorer, **steps)
            for model, other in (("gpt-2", "gpt-2"), ("deepseek-67b", "llama-3.1-70b")):
                explorer.box.locator("select[name=model]").select_option(model)
                explorer.box.locator("select[name=other]").select_option(other)
                next_frames(page)
                assert overflowing(page) == []
                assert explorer.box.evaluate(PLACES) == before, (steps, model)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 390])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(page, width, theme):
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(f"() => {{ document.documentElement.dataset.theme = '{theme}'; }}")
    for steps in CHOSEN:
        slide(Explorer(page, 0), **steps)
        assert overflowing(page) == []
        assert violations(page, ("moderate", "serious", "critical")) == []


def test_the_page_says_what_python_says(page):
    explorer = Explorer(page, 0)
    slide(explorer, **CHOSEN[1])
    options = {"n_tokens": 131_072, "n_rows": 256, "card_gib": 8}
    wanted = explore("what-fits", **options, bytes_per_weight=4, bytes_per_number=4)
    assert explorer.look().words == wanted.describe()


BARS = """(box) => [...box.querySelectorAll(".attn-fits-bar")].map((bar) => {
    const width = (name) => Number(bar.querySelector(name).getAttribute("width"));
    const beyond = bar.querySelector(".attn-fits-beyond").getAttribute("visibility");
    const card = Number(bar.querySelector(".attn-fits-card").getAttribute("x1"));
    return [width(".attn-fits-weights"), width(".attn-fits-cache"), beyond === "visible", card];
})"""


@pytest.mark.parametrize("step,card_gib", [(4, 80), (7, 640)])
def test_a_bar_ends_before_the_card_exactly_if_the_model_fits(page, step, card_gib):
    explorer = Explorer(page, 0)
    slide(explorer, card_gib=step)
    found = explore("what-fits", card_gib=card_gib).facts()["models"]
    for name, (weights, cache, beyond, card) in zip(
        limits.FITTING_MODELS, explorer.box.evaluate(BARS), strict=True
    ):
        one = found[name]
        assert (weights + cache <= card) == one["fits"], name
        scale = card / (card_gib * 2**30)
        assert beyond == (scale * one["total"] >= 192)
        if not beyond:
            # to the two decimals in which a picture's lengths are written
            assert weights == pytest.approx(scale * one["weights"], abs=0.006)
            assert cache == pytest.approx(scale * one["cache"], abs=0.006)


ENDS = """(box) => [...box.querySelectorAll("polyline.attn-fits-other")].map((curve) => {
    const {x, y} = curve.points[curve.points.length - 1];
    return [x, y];
})"""
VIEW = {"left": 52, "right": 350, "top": 26, "bottom": 226}


def test_every_curve_ends_at_the_context_and_the_cache_of_its_model(page):
    explorer = Explorer(page, 0)
    ends = explorer.box.evaluate(ENDS)
    found = explore("what-fits", n_tokens=131_072, n_rows=1).facts()["models"]
    for name, (x, y) in zip(limits.FITTING_MODELS, ends, strict=True):
        octaves = (x - VIEW["left"]) / (VIEW["right"] - VIEW["left"]) * 17
        # two decimals of a pixel: 7 of them are an octave of bytes, 17 one of tokens
        assert 2**octaves == pytest.approx(PUBLISHED[name].context, rel=1e-3)
        octaves = 12 + (VIEW["bottom"] - y) / (VIEW["bottom"] - VIEW["top"]) * 28
        assert 2**octaves == pytest.approx(found[name]["cache"], rel=1e-3)


RING = """(box) => {
    const ring = box.querySelector(".attn-crossing");
    return [ring.getAttribute("visibility"), Number(ring.getAttribute("cx"))];
}"""


def test_the_break_even_is_marked_where_there_is_one(page):
    explorer = Explorer(page, 0)
    shown, x = explorer.box.evaluate(RING)
    octaves = (x - VIEW["left"]) / (VIEW["right"] - VIEW["left"]) * 17
    assert shown == "visible" and 2**octaves == pytest.approx(1775, rel=1e-3)
    explorer.box.locator("select[name=other]").select_option("gemma-3-270m")
    next_frames(page)
    assert explorer.box.evaluate(RING)[0] == "hidden"


def test_a_drag_in_the_picture_chooses_the_context(page):
    explorer = Explorer(page, 0)
    [picture] = explorer.movable_pictures()
    explorer.assert_picture_moves(picture, 0.5, 0.25)
