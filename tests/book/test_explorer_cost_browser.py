"""The cost explorer in a real Chromium, on a page of its own."""

from collections.abc import Iterator

import pytest
from controls import Explorer, next_frames
from explorer_pages import PLACES, OneExplorer, opened, served_pages
from pages import chromium, overflowing, violations

from attnlib.explore import explore, limits


@pytest.fixture(scope="module")
def address(assets, tmp_path_factory) -> Iterator[str]:
    """A page with this explorer alone."""
    with served_pages(tmp_path_factory.mktemp("page"), {"page": [explore("cost")]}) as at:
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
    n_sliders = 3


@pytest.mark.parametrize("width", [690, 358])  # of the book's column, on a desk and on a phone
def test_no_control_and_no_picture_moves_when_another_model_or_context_is_chosen(
    browser, address, width
):
    with opened(browser, address, viewport={"width": width, "height": 900}) as page:
        explorer = Explorer(page, 0)
        before = explorer.box.evaluate(PLACES)
        for model in limits.COST_MODELS:
            for step, phase in (("0", "decode"), ("13", "prefill")):
                explorer.box.locator("select[name=model]").select_option(model)
                explorer.box.locator("select[name=phase]").select_option(phase)
                explorer.box.locator("input[name=n_tokens]").fill(step)
                next_frames(page)
                assert explorer.box.evaluate(PLACES) == before, (model, phase)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 390])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(page, width, theme):
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(f"() => {{ document.documentElement.dataset.theme = '{theme}'; }}")
    for model in ("llama-3.1-70b", "deepseek-v3"):
        page.locator("select[name=model]").select_option(model)
        page.locator("select[name=phase]").select_option("prefill")
        next_frames(page)
        assert overflowing(page) == []
        assert violations(page, ("moderate", "serious", "critical")) == []


def test_the_page_says_what_python_says_for_every_model_and_phase(page):
    explorer = Explorer(page, 0)
    for model in limits.COST_MODELS:
        for phase in limits.COST_PHASES:
            explorer.box.locator("select[name=model]").select_option(model)
            explorer.box.locator("select[name=phase]").select_option(phase)
            explorer.box.locator("input[name=n_rows]").fill("6")
            next_frames(page)
            wanted = explore("cost", model=model, phase=phase, n_rows=64)
            assert explorer.look().words == wanted.describe()


PIECES = """(box) => [...box.querySelectorAll("svg")].slice(0, 2).map((bar) => (
    [...bar.querySelectorAll("rect")].map((piece) => Number(piece.getAttribute("width")))
))"""


WEIGHTS = ("projections", "feed-forward", "experts", "output head")
IN_FLOPS = (*WEIGHTS, "keys rebuilt", "attention core")
IN_BYTES = (*WEIGHTS, "cache read", "cache written")


@pytest.mark.parametrize("model", ["gemma-3-27b", "deepseek-v2"])
def test_the_pieces_of_a_bar_are_as_long_as_their_shares(page, model):
    explorer = Explorer(page, 0)
    explorer.box.locator("select[name=model]").select_option(model)
    next_frames(page)
    found = explore("cost", model=model).facts()
    flops, moved = explorer.box.evaluate(PIECES)
    for lengths, order, parts in (
        (flops, IN_FLOPS, found["flops"]),
        (moved, IN_BYTES, found["bytes"]),
    ):
        whole = sum(parts.values())
        assert set(order) == set(parts)
        # to the two decimals in which a picture's lengths are written
        wanted = [300 * parts[name] / whole for name in order]
        assert lengths == pytest.approx(wanted, abs=0.006)


POINT = """(box) => {
    const { x, y } = box.querySelector(".attn-cost-whole").getBoundingClientRect();
    const roof = box.querySelector(".attn-cost-roof");
    const points = [...roof.points].map((point) => [point.x, point.y]);
    const circle = box.querySelector(".attn-cost-whole");
    return [points, [Number(circle.getAttribute("cx")), Number(circle.getAttribute("cy"))]];
}"""


@pytest.mark.parametrize("device", limits.COST_DEVICES)
def test_the_pass_lies_on_the_roof_left_of_the_ridge_where_memory_is_the_limit(page, device):
    explorer = Explorer(page, 0)
    explorer.box.locator("select[name=device]").select_option(device)
    for phase in limits.COST_PHASES:
        explorer.box.locator("select[name=phase]").select_option(phase)
        next_frames(page)
        (start, ridge, end), point = explorer.box.evaluate(POINT)
        found = explore("cost", device=device, phase=phase).facts()
        assert (point[0] < ridge[0]) == (found["intensity"] < found["ridge"])
        (x0, y0), (x1, y1) = (start, ridge) if point[0] < ridge[0] else (ridge, end)
        on_the_line = y0 + (y1 - y0) * (point[0] - x0) / (x1 - x0)
        assert point[1] == pytest.approx(on_the_line, abs=0.03)
