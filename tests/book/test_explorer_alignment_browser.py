"""The explorer of alignments in a real Chromium, with the book's own translator."""

from collections.abc import Iterator

import numpy as np
import pytest
from controls import Explorer, next_frames
from explorer_pages import PLACES, OneExplorer, opened, served_pages
from pages import chromium, overflowing, violations

from attnlib.explore import explore, words
from attnlib.explore.alignment import plain
from attnlib.explore.bundle import FOLDER
from attnlib.explore.packed_maps import unpack_maps

# The first state stands at no end of a slider, so that every move has somewhere to go.
PLACE = {"number": 21_021, "layer": 1, "head": 2, "target": 2, "source": 4}


@pytest.fixture(scope="module")
def address(assets, tmp_path_factory) -> Iterator[str]:
    """A page with this explorer alone."""
    pages = {"page": [explore("alignment", **PLACE)]}
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
    n_sliders = 4


def test_the_map_can_be_pressed_and_dragged(page):
    explorer = Explorer(page, 0)
    (picture,) = explorer.movable_pictures()
    explorer.assert_picture_moves(picture, 0.5, 0.3)


@pytest.mark.parametrize("width", [690, 358])  # of the book's column, on a desk and on a phone
def test_no_control_and_no_picture_moves_when_the_number_does(browser, address, width):
    with opened(browser, address, viewport={"width": width, "height": 900}) as page:
        explorer = Explorer(page, 0)
        number = explorer.box.locator("input[name=number]")
        before = explorer.box.evaluate(PLACES)
        for step in (0, 12, 30, 47):
            number.fill(str(step))
            next_frames(page)
            assert explorer.box.evaluate(PLACES) == before


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 390])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(page, width, theme):
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(f"() => {{ document.documentElement.dataset.theme = '{theme}'; }}")
    for step in ("47", "0", "36"):  # the longest number, the shortest, and the first one
        page.locator("input[name=number]").fill(step)
        next_frames(page)
        assert overflowing(page) == []
        assert violations(page, ("moderate", "serious", "critical")) == []


def test_the_page_says_what_python_says_of_every_number_and_place(page):
    explorer = Explorer(page, 0)
    state = explore("alignment").state
    for step, entry in enumerate(state["alignments"]):
        if step % 6:
            continue
        explorer.box.locator("input[name=number]").fill(str(step))
        explorer.box.locator("select[name=layer]").select_option(str(step // 6 % 2))
        explorer.box.locator("input[name=head]").fill(str(step // 6 % 5))
        explorer.box.locator("input[name=target]").fill("1")
        explorer.box.locator("input[name=source]").fill("0")
        next_frames(page)
        place = {"number": entry["number"], "layer": step // 6 % 2, "head": step // 6 % 5}
        wanted = explore("alignment", **place, target=1, source=0)
        assert explorer.look().words == wanted.describe()
        names = explorer.box.locator("svg text").all_text_contents()
        assert names == [*map(plain, entry["target"]), *entry["source"]]


GREENS = """(canvas) => {
    const { width, height } = canvas;
    const copy = Object.assign(document.createElement("canvas"), { width, height });
    const pen = copy.getContext("2d", { willReadFrequently: true });
    pen.drawImage(canvas, 0, 0);
    const { data } = pen.getImageData(0, 0, width, height);
    const rows = Array.from({ length: height }, (_, y) => (
        Array.from({ length: width }, (_, x) => data[4 * (y * width + x) + 1])
    ));
    return rows;
}"""


def test_the_map_has_a_row_for_each_piece_in_the_colours_of_the_weights(page, javascript):
    explorer = Explorer(page, 0)
    for number, layer, head in [(21_021, 1, 2), (21, 0, 4), (999_999, 1, 0)]:
        state = explore("alignment", number=number, layer=layer, head=head).state
        numbers = [each["number"] for each in state["alignments"]]
        entry = state["alignments"][numbers.index(number)]
        explorer.box.locator("input[name=number]").fill(str(numbers.index(number)))
        explorer.box.locator("select[name=layer]").select_option(str(layer))
        explorer.box.locator("input[name=head]").fill(str(head))
        next_frames(page)
        of_layer = unpack_maps(entry["weights"])[layer]
        rows = of_layer.mean(axis=0) if head == 4 else of_layer[head]
        roots = np.rint(4095 * np.sqrt(rows)) / 4095
        calls = [("colourOf", [root]) for root in roots.reshape(-1).tolist()]
        colours = np.array(javascript(FOLDER / "head-map.mjs", calls))
        found = np.array(explorer.box.locator(".attn-map").evaluate(GREENS))
        assert found.shape == rows.shape == (len(entry["target"]), len(entry["source"]))
        # A root of the mean that lies halfway between two whole numbers may go either way.
        assert abs(found - colours[:, 1].reshape(rows.shape)).max() <= 1


def test_a_head_and_the_mean_are_chosen_by_their_small_pictures(page):
    explorer = Explorer(page, 0)
    buttons = explorer.box.locator(".attn-head-button")
    assert buttons.count() == 5
    for head, said in [(0, "head 0,"), (4, "mean over the heads,"), (3, "head 3,")]:
        buttons.nth(head).press("Enter")
        next_frames(page)
        assert f"Layer 1, {said}" in explorer.look().words
        assert explorer.box.locator("input[name=head]").input_value() == str(head)


def test_pointing_at_a_cell_tells_its_weight_and_a_click_chooses_it(page):
    explorer = Explorer(page, 0)
    reading = explorer.box.locator(".attn-reading")
    first = reading.inner_text()
    explorer.box.locator("svg").scroll_into_view_if_needed()
    border = explorer.box.locator(".attn-map-border").bounding_box()
    for target, source in [(0, 1), (7, 5), (4, 0)]:
        x = border["x"] + (source + 0.5) / 6 * border["width"]
        y = border["y"] + (target + 0.5) / 8 * border["height"]
        page.mouse.move(x, y)
        state = explore("alignment", **{**PLACE, "target": target, "source": source})
        entry = next(each for each in state.alignments if each["number"] == 21_021)
        weight = words.show_weight(state.facts()["weight"])
        assert reading.inner_text() == (
            f"When it writes “{plain(entry['target'][target])}” it reads "
            f"“{entry['source'][source]}” with weight {weight}."
        )
        page.mouse.move(0, 0)
        assert reading.inner_text() == first
    page.mouse.click(x, y)
    assert explorer.look().words == state.describe()


def test_a_smaller_number_takes_the_chosen_pair_along_to_its_last_piece_and_word(page):
    explorer = Explorer(page, 0)
    explorer.box.locator("input[name=target]").press("End")
    explorer.box.locator("input[name=source]").press("End")
    explorer.box.locator("input[name=number]").fill("7")  # 21: four pieces, two words
    next_frames(page)
    wanted = explore("alignment", number=21, layer=1, head=2, target=3, source=1)
    assert explorer.look().words == wanted.describe()
    for name, last in (("target", "3"), ("source", "1")):
        slider = explorer.box.locator(f"input[name={name}]")
        assert (slider.get_attribute("max"), slider.input_value()) == (last, last)
