"""The explorer of key/value heads in a real Chromium, on a page of its own."""

import re
from collections.abc import Iterator

import pytest
from controls import Explorer, next_frames
from explorer_pages import PLACES, OneExplorer, opened, served_pages
from pages import chromium, overflowing, violations
from playwright.sync_api import Page

from attnlib.explore import explore, limits
from attnlib.explore.key_value_heads import FORMS
from attnlib.explore.key_value_presets import OWN

NAME = "key-value-heads"
MODELS = [model for model in limits.KEY_VALUE_MODELS if model != OWN]


@pytest.fixture(scope="module")
def address(assets, tmp_path_factory) -> Iterator[str]:
    """A page with this explorer alone."""
    with served_pages(tmp_path_factory.mktemp("page"), {"page": [explore(NAME)]}) as at:
        yield f"{at}/page.html"


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser, address):
    with opened(browser, address) as page:
        yield page


def slide(page: Page, **steps: int) -> None:
    """Put sliders on their steps, one after the other."""
    for name, step in steps.items():
        page.locator(f"input[name={name}]").fill(str(step))
        next_frames(page)


def choose(page: Page, model: str) -> None:
    page.locator("select[name=model]").select_option(model)
    next_frames(page)


class TestEveryControl(OneExplorer):
    n_sliders = 9


def test_a_query_head_is_chosen_in_the_picture_of_the_wires(page):
    explorer = Explorer(page, 0)
    (picture,) = explorer.movable_pictures()
    explorer.assert_picture_moves(picture, 0.5, 0.25)
    for h in (64, 9):
        slide(page, n_query_heads=h - 1)
        for i in (0, h // 2, h - 1):
            [(x, y)] = explorer.points(picture, (10 + 340 * (i + 0.5) / h) / 360)
            page.mouse.click(x, y)
            assert f"Query head {i} reads" in explorer.look().words
            assert page.locator("input[name=query_head]").input_value() == str(i)


@pytest.mark.parametrize("width", [690, 358])  # of the book's column, on a desk and on a phone
def test_no_control_and_no_picture_moves_when_another_model_or_size_is_chosen(
    browser, address, width
):
    with opened(browser, address, viewport={"width": width, "height": 900}) as page:
        explorer = Explorer(page, 0)
        before = explorer.box.evaluate(PLACES)
        for model in MODELS:
            choose(page, model)
            assert explorer.box.evaluate(PLACES) == before, model
        for slider in explorer.sliders():
            for key in ("Home", "End"):
                slider.press(key)
                next_frames(page)
                assert explorer.box.evaluate(PLACES) == before, (explorer.name_of(slider), key)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 390])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(page, width, theme):
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(f"() => {{ document.documentElement.dataset.theme = '{theme}'; }}")
    for model in ("gemma-3-27b", "deepseek-v3"):
        choose(page, model)
        slide(page, n_tokens=13, n_rows=8, bytes_per_number=2)
        assert overflowing(page) == []
        assert violations(page, ("moderate", "serious", "critical")) == []


def test_on_paper_all_is_there_and_fits(page):
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})
    next_frames(page)
    assert overflowing(page) == []
    assert page.locator(".attn-buttons:visible").count() == 0
    assert page.locator(".attn-words").is_visible()


def test_the_page_says_what_python_says_of_every_model(page):
    explorer = Explorer(page, 0)
    shared = 8
    for model in MODELS:
        choose(page, model)
        wanted = explore(NAME, model=model)
        shared = wanted.n_kv_heads if "deepseek-v" not in model else shared
        wanted.n_kv_heads = shared  # a model with a latent leaves them as they are
        wanted.query_head = int(page.locator("input[name=query_head]").input_value())
        assert explorer.look().words == wanted.describe()


# ---- presets and sliders


def test_only_divisors_of_h_can_be_chosen(page):
    slider = page.locator("input[name=n_kv_heads]")
    for h in (1, 7, 12, 128):
        slide(page, n_query_heads=h - 1)
        divisors = [g for g in range(1, h + 1) if h % g == 0]
        assert slider.get_attribute("max") == str(len(divisors) - 1)
        shown = []
        for step in range(len(divisors)):
            slide(page, n_kv_heads=step)
            shown.append(int(Explorer(page, 0).look().values[2]))
        assert shown == divisors


def test_the_number_of_key_value_heads_comes_back_when_h_can_have_it_again(page):
    explorer = Explorer(page, 0)
    seen = []
    for h in (64, 63, 61, 12, 40, 64):
        slide(page, n_query_heads=h - 1)
        seen.append(int(explorer.look().values[2]))
    assert seen == [8, 7, 1, 6, 8, 8]
    slide(page, n_kv_heads=1)  # two of them are wanted from now on
    slide(page, n_query_heads=60)
    slide(page, n_query_heads=49)
    assert explorer.look().values[2] == "2"


def test_sizes_of_ones_own_are_in_the_list_only_while_they_are_there(page):
    options = page.locator("select[name=model] option")
    assert options.count() == len(MODELS)
    slide(page, n_layers=40)
    assert options.count() == len(MODELS) + 1
    assert page.locator("select[name=model]").input_value() == OWN
    assert Explorer(page, 0).look().words.startswith("Own sizes: h = 64 query heads")
    choose(page, "gemma-3-27b")
    assert options.count() == len(MODELS)
    assert "62 layers, 52 with a window of 1,024 tokens" in Explorer(page, 0).look().words
    slide(page, n_tokens=3)  # neither context nor batch is the model's
    assert page.locator("select[name=model]").input_value() == "gemma-3-27b"


# ---- the pictures

LINES = """(box) => box.querySelector(".attn-wire-lines").getAttribute("d")"""


@pytest.mark.parametrize("h,g", [(64, 8), (12, 3), (128, 128), (128, 1), (1, 1), (25, 5)])
def test_the_wires_lead_from_query_head_i_to_key_value_head_i_div_p(page, h, g):
    slide(page, n_query_heads=h - 1)
    slide(page, n_kv_heads=[j for j in range(1, h + 1) if h % j == 0].index(g))
    d = Explorer(page, 0).box.evaluate(LINES)
    wires = [tuple(map(float, each)) for each in re.findall(r"M([\d.]+),46L([\d.]+),174", d)]
    assert len(wires) == h
    for i, (x, y) in enumerate(wires):
        # to the two decimals in which a picture's lengths are written
        assert x == pytest.approx(10 + 340 * (i + 0.5) / h, abs=0.006)
        assert y == pytest.approx(10 + 340 * (i // (h // g) + 0.5) / g, abs=0.006)


CHARTS = """(box) => [...box.querySelectorAll(".attn-split-charts svg")].map((chart) => ({
    widths: [...chart.querySelectorAll("rect")].map((bar) => Number(bar.getAttribute("width"))),
    texts: [...chart.querySelectorAll("text")].map((text) => text.textContent),
    chosen: [...chart.querySelectorAll("text.attn-tick-chosen")].map((text) => text.textContent),
    arrows: [...chart.querySelectorAll("path")].map((mark) => mark.getAttribute("d") !== ""),
}))"""
PARTS = [["cacheBytes"], ["parameters"], ["projectionFlops", "coreFlops"], ["intensity"]]


@pytest.mark.parametrize("model", ["llama-3.1-70b", "gemma-3-270m", "deepseek-v2", "gpt-3"])
def test_bars_are_as_long_as_their_counts_and_an_arrow_marks_the_models_own(page, model):
    explorer = Explorer(page, 0)
    choose(page, model)
    found = explore(NAME, model=model).facts()
    charts = explorer.box.evaluate(CHARTS)
    assert len(charts) == len(PARTS)
    for chart, parts in zip(charts, PARTS, strict=True):
        most = max(sum(found[form][part] for part in parts) for form in FORMS)
        wanted = [106 * found[form][part] / most for form in FORMS for part in parts]
        assert chart["widths"] == pytest.approx(wanted, abs=0.006)
        assert chart["texts"][0::3] == list(FORMS)
        assert chart["texts"][2] == "×1"  # MHA is what the others are compared with
        assert chart["arrows"] == [form == found["form"] for form in FORMS]
        assert chart["chosen"][0] == found["form"] and len(chart["chosen"]) == 3


def test_no_number_in_the_bars_runs_into_another(page):
    """At the largest sizes, where the numbers are longest."""
    for slider in Explorer(page, 0).sliders():
        slider.press("End")
    for n_kv_heads in ("Home", "End"):
        page.locator("input[name=n_kv_heads]").press(n_kv_heads)
        next_frames(page)
        for chart in page.locator(".attn-split-charts svg").all():
            overlaps = chart.evaluate(
                """(svg) => {
                    const boxes = [...svg.querySelectorAll("text, rect")]
                        .filter((it) => it.getBBox().width > 0).map((it) => it.getBBox());
                    return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => (
                        a.x < b.x + b.width - 0.1 && b.x < a.x + a.width - 0.1
                        && a.y < b.y + b.height - 4 && b.y < a.y + a.height - 4
                    ))).length;
                }"""
            )
            assert overlaps == 0
