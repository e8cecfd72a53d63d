"""The explorers of scores, masks, heads and attention maps in a real Chromium."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from controls import Explorer, assert_the_address_brings_all_back, next_frames
from explorer_pages import (
    PHONE,
    assert_every_slider_moves_by_keyboard_and_mouse,
    assert_every_slider_moves_by_touch,
    assert_tab_reaches_every_control_in_turn,
    opened,
    served_pages,
)
from pages import chromium, overflowing, violations
from playwright.sync_api import Page

from attnlib.explore import explore, words
from attnlib.explore.bundle import FOLDER
from attnlib.explore.limits import LIMITS
from attnlib.explore.mask import describe_mask, mask_facts, may_attend
from attnlib.explore.packed_maps import pack_maps, unpack_roots

NAMES = ("mask", "heads", "attention-maps")


def random_maps(layers: int, heads: int, n: int, seed: int = 0) -> np.ndarray:
    scores = 2.5 * np.random.default_rng(seed).normal(size=(layers, heads, n, n))
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


# The first state stands at no end of a slider, so that every move has somewhere to go.
MASK = {"window": 4, "n_prefix": 1, "n_padding": 2}
TOKENS = [
    *("[CLS]", "To", "be", ",", "or", "not", "to", "be", ":", "that", "is", "the", "quest"),
    *("##ion", "##ing", "of", "all", "[SEP]"),
]
MAPS = random_maps(5, 7, len(TOKENS), seed=2)
PLACE = {"layer": 2, "head": 3, "target": 5, "source": 2}


MANY = [f"w{i}" for i in range(64)]


@pytest.fixture(scope="module")
def address(assets, tmp_path_factory) -> Iterator[str]:
    """Pages with the book's own script and style: three explorers, two more, and a large map."""
    three = [
        explore("mask", **MASK),
        explore("heads"),
        explore("attention-maps", tokens=TOKENS, weights=MAPS, **PLACE),
    ]
    large = explore(
        "attention-maps", tokens=MANY, weights=random_maps(1, 1, 64), target=31, source=6
    )
    scores = [explore("score-spread"), explore("jacobian", n_leaders=3)]
    pages = {"page": three, "scores": scores, "large": [large]}
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


every_explorer = pytest.mark.parametrize("place", range(3), ids=NAMES)


@every_explorer
def test_every_slider_moves_the_picture_and_the_words_by_keyboard_and_mouse(page, place):
    assert_every_slider_moves_by_keyboard_and_mouse(Explorer(page, place))


def test_on_a_phone_every_slider_moves_the_picture_and_the_words_by_touch(browser, address):
    with opened(browser, address, **PHONE) as page:
        assert overflowing(page) == []
        for place in range(3):
            assert_every_slider_moves_by_touch(Explorer(page, place))


@every_explorer
def test_a_picture_that_looks_movable_is(page, place):
    explorer = Explorer(page, place)
    pictures = explorer.movable_pictures()
    assert len(pictures) == (4 if place == 1 else 1)
    for picture in pictures:
        explorer.assert_picture_moves(picture, 0.5, 0.25)


@every_explorer
def test_every_control_counts_and_the_address_brings_all_back(page, place):
    assert_the_address_brings_all_back(page, place)


@every_explorer
def test_tab_reaches_every_control_in_turn_and_shows_where_it_is(page, place):
    assert_tab_reaches_every_control_in_turn(Explorer(page, place))


# Every slider goes from end to end; where do the controls and the pictures stand meanwhile?
MOVED = """async () => {
    const frames = () => new Promise((done) => (
        requestAnimationFrame(() => requestAnimationFrame(done))
    ));
    const moved = [];
    for (const box of document.querySelectorAll(".attn-box")) {
        const parts = [...box.querySelectorAll("input, select, button, svg, canvas, output")];
        const places = () => parts.map((part) => {
            const { x, y, right } = part.getBoundingClientRect();
            const from = box.getBoundingClientRect().top;
            return [part.matches("output") ? right : x, y - from].map(Math.round).join();
        });
        await frames();
        const before = places();
        for (const slider of box.querySelectorAll("input[type=range]")) {
            const first = slider.value, last = Number(slider.max);
            const steps = new Set([...Array(13).keys()].map((i) => Math.round(i * last / 12)));
            for (const step of [...steps, first]) {
                slider.value = step;
                slider.dispatchEvent(new Event("input", { bubbles: true }));
                await frames();
                places().forEach((at, i) => {
                    const what = `${parts[i].name ?? parts[i].tagName} at ${slider.name} ${step}`;
                    if (at !== before[i]) moved.push(`${what}: ${before[i]} → ${at}`);
                });
            }
        }
    }
    return moved;
}"""


@pytest.mark.parametrize("name", ["page", "scores"])
@pytest.mark.parametrize("width", [690, 358])  # of the book's column, on a desk and on a phone
def test_no_control_and_no_picture_moves_while_a_slider_does(browser, address, width, name):
    size = {"width": width, "height": 900}
    with opened(browser, address.replace("page.html", f"{name}.html"), viewport=size) as page:
        assert page.evaluate(MOVED) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 390])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(page, width, theme):
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(f"() => {{ document.documentElement.dataset.theme = '{theme}'; }}")
    page.locator("summary").click()
    next_frames(page)
    assert overflowing(page) == []
    assert violations(page, ("moderate", "serious", "critical")) == []


def test_on_paper_all_is_there_and_fits(page):
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})
    next_frames(page)
    assert overflowing(page) == []
    assert page.locator(".attn-buttons:visible").count() == 0
    for name in NAMES:
        assert page.locator(f".attn-{name} .attn-words").is_visible()


# ---- masks in a browser


def cells(page: Page) -> dict[str, set[tuple[int, int]]]:
    """Which cells are painted how: read from the paths of the picture itself."""
    return page.evaluate(
        """() => {
            const picture = document.querySelector(".attn-mask svg");
            const found = {};
            for (const name of ["allowed", "empty"]) {
                const d = picture.querySelector(`.attn-mask-${name}`).getAttribute("d");
                found[name] = [...d.matchAll(/M([\\d.]+),([\\d.]+)/g)].map((m) => [+m[1], +m[2]]);
            }
            return found;
        }"""
    )


def test_the_painted_cells_are_those_of_the_mask(page):
    sliders = {each.get_attribute("name"): each for each in Explorer(page, 0).sliders()}
    cases = [
        {"n_targets": 8, "n_sources": 8, "window": 4, "n_prefix": 1, "n_padding": 2},
        {"n_targets": 6, "n_sources": 4, "window": 0, "n_prefix": 0, "n_padding": 0},
        {"n_targets": 3, "n_sources": 16, "window": 5, "n_prefix": 4, "n_padding": 1},
        {"n_targets": 16, "n_sources": 16, "window": 16, "n_prefix": 0, "n_padding": 16},
        {"n_targets": 1, "n_sources": 1, "window": 1, "n_prefix": 1, "n_padding": 0},
    ]
    for options in cases:
        for name, value in options.items():
            first = LIMITS["mask_size" if name in ("n_targets", "n_sources") else "mask_part"][0]
            sliders[name].fill(str(value - first))
            next_frames(page)
        size = min(272 / max(options["n_targets"], options["n_sources"]), 68)
        painted = cells(page)
        allowed = {(round((y - 58) / size), round((x - 30) / size)) for x, y in painted["allowed"]}
        state = explore("mask", **options).state
        wanted = {tuple(pair) for pair in may_attend(state).nonzero().tolist()}
        assert allowed == wanted
        empty = [round((y - 58) / size) for _, y in painted["empty"]]
        assert empty == mask_facts(state)["emptyTargets"]
        counts = page.locator(".attn-mask .attn-count").all_text_contents()
        counts = [text for text in counts if text]
        assert counts == [str(n) if n else "∅ zeros" for n in mask_facts(state)["counts"]]
        notice = page.locator(".attn-nothing").inner_text()
        assert notice in describe_mask(state)
        named = page.locator(".attn-mask svg text:visible").all_text_contents()
        assert ("padding" in named) == (options["n_padding"] > 0)
        assert ("prefix" in named) == (options["n_prefix"] > 0)


def test_pointing_at_a_cell_says_whether_the_target_may_read_and_why(page):
    picture = page.locator(".attn-mask svg")
    reading = page.locator(".attn-mask .attn-reading")
    chosen = "Target 6, at position 6, may not read source 1: it is padding."
    assert reading.inner_text() == chosen
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    scale = box["width"] / 360
    for target, source, wanted in [
        (3, 2, "Target 3, at position 3, may read source 2."),
        (3, 7, "Target 3, at position 3, may not read source 7: it lies in the future."),
        (7, 3, "Target 7, at position 7, may not read source 3: it lies outside the window."),
        (0, 0, "Target 0, at position 0, may not read source 0: it is padding."),
    ]:
        x, y = (30 + (source + 0.5) * 34) * scale, (58 + (target + 0.5) * 34) * scale
        page.mouse.move(box["x"] + x, box["y"] + y)
        assert reading.inner_text() == wanted
    page.mouse.move(box["x"], box["y"] - 5)
    assert reading.inner_text() == chosen


def test_fewer_sources_take_prefix_padding_and_the_look_with_them(page):
    explorer = Explorer(page, 0)
    sliders = {each.get_attribute("name"): each for each in explorer.sliders()}
    for name in ("n_prefix", "n_padding", "source", "target"):
        sliders[name].press("End")
    sliders["n_sources"].fill("2")  # the third step: 3 sources
    sliders["n_targets"].fill("0")
    next_frames(page)
    ends = {"n_prefix": "3", "n_padding": "3", "source": "2", "target": "0"}
    for name, most in ends.items():
        assert (sliders[name].input_value(), sliders[name].get_attribute("max")) == (most, most)
    wanted = {"n_targets": 1, "n_sources": 3, "window": 4, "n_prefix": 3, "n_padding": 3}
    assert explorer.look().words == explore("mask", **wanted, target=0, source=2).describe()


# ---- heads in a browser


def test_the_split_slider_and_the_bars_keep_the_product(page):
    explorer = Explorer(page, 1)
    sliders = {each.get_attribute("name"): each for each in explorer.sliders()}
    for key, h, d in [("ArrowRight", 16, 32), ("End", 128, 4), ("Home", 1, 512)]:
        sliders["split"].press(key)
        assert explorer.look().words == explore("heads", n_heads=h, head_dim=d).describe()
    picture = explorer.box.locator("svg").first
    for i in range(8):
        [(x, y)] = explorer.points(picture, (6 + (i + 0.5) * 36) / 300)
        page.mouse.click(x, y)
        h = 2**i
        assert explorer.look().words == explore("heads", n_heads=h, head_dim=512 // h).describe()
    sliders["head_dim"].press("End")  # 128 heads of width 512: no other split has as much
    next_frames(page)
    assert sliders["split"].get_attribute("max") == "0"
    assert "No other number of heads" in explorer.look().words
    sliders["n_heads"].fill("5")  # 32 heads of width 512
    next_frames(page)
    assert sliders["split"].get_attribute("max") == "2"
    assert explorer.look().values[-1] == "32 · 512"


def bar_heights(explorer: Explorer, chart: int) -> list[float]:
    return (
        explorer.box.locator("svg")
        .nth(chart)
        .evaluate(
            """(svg) => {
            const at = new Map();
            for (const bar of svg.querySelectorAll(".attn-split")) {
                const x = bar.getAttribute("x");
                at.set(x, (at.get(x) ?? 0) + Number(bar.getAttribute("height")));
            }
            return [...at.values()].filter((height) => height > 0);
        }"""
        )
    )


def test_the_bars_are_as_high_as_their_counts(page):
    explorer = Explorer(page, 1)
    for n_heads, tokens in [("3", "6"), ("5", "2")]:
        explorer.box.locator("input[name=n_heads]").fill(n_heads)
        explorer.box.locator("input[name=n_tokens]").fill(tokens)
        next_frames(page)
        state = {"n_heads": 2 ** int(n_heads), "n_tokens": 16 * 2 ** int(tokens)}
        splits = explore("heads", **state).facts()["splits"]
        for chart, names in enumerate(
            [["parameters"], ["projectionFlops", "coreFlops"], ["exponentials"], ["rank"]]
        ):
            counts = [sum(split[name] for name in names) for split in splits]
            wanted = [80 * count / max(counts) for count in counts]
            # heights are written with two decimals, at most two of them in a bar
            assert bar_heights(explorer, chart) == pytest.approx(wanted, abs=0.011)
        chosen = explorer.box.locator(".attn-tick-chosen").all_text_contents()
        assert chosen == [str(state["n_heads"]), "64"] * 4


# ---- attention maps in a browser


def greens(page: Page, selector: str) -> list[list[int]]:
    """The green channel of a canvas, which grows with the weight."""
    return page.locator(selector).first.evaluate(
        """(canvas) => {
            const { width, height } = canvas;
            const copy = Object.assign(document.createElement("canvas"), { width, height });
            const pen = copy.getContext("2d", { willReadFrequently: true });
            pen.drawImage(canvas, 0, 0);
            const { data } = pen.getImageData(0, 0, width, height);
            return Array.from({ length: height }, (_, y) => (
                Array.from({ length: width }, (_, x) => data[4 * (y * width + x) + 1])
            ));
        }"""
    )


def test_the_map_is_painted_with_rows_for_targets_in_the_colours_of_the_weights(page, javascript):
    roots = unpack_roots(pack_maps("weights", MAPS)) / 4095
    explorer = Explorer(page, 2)
    for layer, head in [(2, 3), (0, 0), (4, 6)]:
        explorer.box.locator("input[name=layer]").fill(str(layer))
        explorer.box.locator("input[name=head]").fill(str(head))
        next_frames(page)
        calls = [("colourOf", [root]) for root in roots[layer, head].reshape(-1).tolist()]
        colours = javascript(FOLDER / "head-map.mjs", calls)
        wanted = np.array(colours)[:, 1].reshape(roots.shape[2:]).tolist()
        assert greens(page, ".attn-attention-maps .attn-map") == wanted
        assert greens(page, f".attn-head-button:nth-child({head + 1}) canvas") == wanted


def test_a_head_is_chosen_by_its_small_picture(page):
    explorer = Explorer(page, 2)
    buttons = explorer.box.locator(".attn-head-button")
    assert buttons.count() == MAPS.shape[1]
    for press in (lambda button: button.click(), lambda button: button.press("Enter")):
        for head in (0, 6, 4):
            press(buttons.nth(head))
            next_frames(page)
            pressed = buttons.evaluate_all("(all) => all.map((it) => it.ariaPressed)")
            assert pressed == [str(i == head).lower() for i in range(MAPS.shape[1])]
            assert f"Layer 2, head {head}," in explorer.look().words
            assert explorer.box.locator("input[name=head]").input_value() == str(head)


def test_pointing_at_a_cell_tells_its_weight_and_a_click_chooses_it(page):
    explorer = Explorer(page, 2)
    picture = explorer.box.locator("svg")
    reading = explorer.box.locator(".attn-reading")
    first = reading.inner_text()
    picture.scroll_into_view_if_needed()
    border = explorer.box.locator(".attn-map-border").bounding_box()
    n = len(TOKENS)
    for target, source in [(0, 0), (5, 12), (17, 3)]:
        x = border["x"] + (source + 0.5) / n * border["width"]
        y = border["y"] + (target + 0.5) / n * border["height"]
        page.mouse.move(x, y)
        place = {**PLACE, "target": target, "source": source}
        state = explore("attention-maps", tokens=TOKENS, weights=MAPS, **place)
        weight = words.show_weight(state.facts()["weight"])
        assert reading.inner_text() == (
            f"Target {target} “{TOKENS[target]}” reads source {source} “{TOKENS[source]}” "
            f"with weight {weight}."
        )
        page.mouse.move(0, 0)
        assert reading.inner_text() == first
    page.mouse.click(x, y)
    assert explorer.look().words == state.describe()
    assert picture.locator(".attn-tick-chosen").all_text_contents() == [TOKENS[17], TOKENS[3]]


def test_the_bars_and_the_list_name_the_sources_of_largest_weight(page):
    explorer = Explorer(page, 2)
    explorer.box.locator("summary").press("Enter")
    for layer in ("2", "4"):
        explorer.box.locator("input[name=layer]").fill(layer)
        next_frames(page)
        place = {**PLACE, "layer": int(layer)}
        found = explore("attention-maps", tokens=TOKENS, weights=MAPS, **place).facts()
        assert explorer.box.locator(".attn-side .attn-formula").inner_text() == "“not” reads most:"
        names = explorer.box.locator(".attn-top-name").all_inner_texts()
        assert names == [f"{s} {TOKENS[s]}" for s in [*found["top"], 2]]
        shares = [100 * p for p in [*found["topWeights"], found["weight"]]]
        widths = explorer.box.locator(".attn-weights .attn-fill").evaluate_all(
            "(all) => all.map((it) => parseFloat(it.style.width))"
        )
        assert widths == pytest.approx(shares, abs=1e-3)
        listed = explorer.box.locator(".attn-all-list li").all_inner_texts()
        assert len(listed) == len(TOKENS)
        for target, line in enumerate(listed):
            assert line.startswith(f"“{TOKENS[target]}”: {found['tops'][target][0]} “")
            assert [int(part.split(" ")[0]) for part in line.split("”: ")[1].split(", ")] == (
                found["tops"][target]
            )


@pytest.mark.parametrize("width", [1000, 390])
def test_where_many_names_have_no_room_some_are_shown_and_the_chosen_ones_always(
    browser, address, width
):
    size = {"width": width, "height": 900}
    with opened(browser, address.replace("page.html", "large.html"), viewport=size) as page:
        explorer = Explorer(page, 0)
        for target in (31, 0, 63):
            explorer.box.locator("input[name=target]").fill(str(target))
            next_frames(page)
            rows = explorer.box.locator("svg text[x]:visible").all_text_contents()
            columns = explorer.box.locator("svg text[transform]:visible").all_text_contents()
            assert f"w{target}" in rows and "w6" in columns
            assert 18 <= len(rows) <= 26 and 18 <= len(columns) <= 26
        boxes = explorer.box.locator("svg text[x]:visible").evaluate_all(
            "(all) => all.map((x) => x.getBoundingClientRect()).map((b) => [b.top, b.bottom])"
        )
        assert all(below[0] - above[0] >= 6 for above, below in pairwise(boxes))
        assert overflowing(page) == []
