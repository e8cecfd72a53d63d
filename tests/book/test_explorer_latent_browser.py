"""The latent explorer in a real Chromium, on a page of its own."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from controls import Explorer
from explorer_pages import PLACES, OneExplorer, opened, served_pages, slide
from pages import chromium, overflowing, violations

from attnlib.explore import explore


@pytest.fixture(scope="module")
def address(assets, tmp_path_factory) -> Iterator[str]:
    """A page with this explorer alone."""
    with served_pages(tmp_path_factory.mktemp("page"), {"page": [explore("latent-forms")]}) as at:
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
    n_sliders = 7


# The ends of all sliders, and a tie of two forms.
CHOSEN = (
    {"kv_latent": 0, "rope_dim": 0, "n_heads": 0, "nope_dim": 0, "value_dim": 0, "n_tokens": 0},
    {"kv_latent": 10, "rope_dim": 64, "n_heads": 3, "nope_dim": 4, "value_dim": 4, "n_tokens": 17},
    {"kv_latent": 2, "rope_dim": 5, "n_heads": 2, "nope_dim": 3, "value_dim": 0, "n_tokens": 9},
)


@pytest.mark.parametrize("width", [690, 358])  # of the book's column, on a desk and on a phone
def test_no_control_and_no_picture_moves_whatever_is_chosen(browser, address, width):
    with opened(browser, address, viewport={"width": width, "height": 900}) as page:
        explorer = Explorer(page, 0)
        before = explorer.box.evaluate(PLACES)
        for steps in CHOSEN:
            slide(explorer, **steps)
            assert overflowing(page) == []
            assert explorer.box.evaluate(PLACES) == before, steps


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
    slide(explorer, **CHOSEN[2])
    wanted = explore(
        "latent-forms", kv_latent=128, rope_dim=10, nope_dim=192, value_dim=64, n_tokens=512
    )
    assert explorer.look().words == wanted.describe()


CURVES = """(box) => [...box.querySelectorAll("polyline")].map((curve) => [
    curve.getAttribute("class"), [...curve.points].map(({x, y}) => [x, y]),
])"""
RINGS = """(box) => [...box.querySelectorAll(".attn-crossing")]
    .filter((ring) => ring.getAttribute("visibility") === "visible")
    .map((ring) => ["cx", "cy"].map((name) => Number(ring.getAttribute(name))))"""
VIEW = {"left": 46, "right": 350, "top": 26, "bottom": 236}


def test_a_ring_stands_where_two_curves_cross(page):
    explorer = Explorer(page, 0)
    curves = {
        name.split("attn-latent-")[1]: points for name, points in explorer.box.evaluate(CURVES)
    }
    rings = explorer.box.evaluate(RINGS)
    leads = [each for each in explore("latent-forms").facts()["leads"] if each["from"] > 1]
    assert len(rings) == len(leads) == 3

    def height(name: str, x: float) -> float:
        points = curves[name]
        for (x0, y0), (x1, y1) in pairwise(points):
            if x0 <= x <= x1:
                return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
        raise AssertionError(f"no curve at {x}")

    for lead, (x, y) in zip(leads, rings, strict=True):
        # straight pieces between 35 places, on axes where the curves bend: within a pixel
        assert height(lead["fewer"], x) == pytest.approx(y, abs=1)
        assert height(lead["more"], x) == pytest.approx(y, abs=1)


def test_the_curves_are_as_high_as_the_flops(page):
    explorer = Explorer(page, 0)
    slide(explorer, n_tokens=17)
    found = explore("latent-forms", n_tokens=131_072).facts()["forms"]
    for name, points in explorer.box.evaluate(CURVES):
        flops = found[name.split("attn-latent-")[1]]["flops"]
        x, y = points[-1]
        decades = (VIEW["bottom"] - y) / (VIEW["bottom"] - VIEW["top"]) * 7
        assert x == pytest.approx(VIEW["right"], abs=0.006)
        # two decimals of a pixel, of which a decade has 30
        assert 1e7 * 10**decades == pytest.approx(flops, rel=1e-3)


def test_a_drag_in_the_picture_chooses_the_context(page):
    explorer = Explorer(page, 0)
    [picture] = explorer.movable_pictures()
    explorer.assert_picture_moves(picture, 0.5, 0.25)
