"""The explorer of generation's times in a real Chromium, without a kernel and with a fake one."""

import json
from collections.abc import Iterator
from itertools import pairwise

import pytest
from controls import Explorer, assert_the_address_brings_all_back, next_frames
from explorer_pages import (
    PHONE,
    PLACES,
    assert_every_slider_moves_by_keyboard_and_mouse,
    assert_every_slider_moves_by_touch,
    assert_tab_reaches_every_control_in_turn,
    opened,
    served_pages,
)
from pages import chromium, overflowing, violations
from playwright.sync_api import Page
from test_explorer_generation_js import other

from attnlib.explore import explore, limits
from attnlib.explore.generation_times import N_REPEATS_HERE
from attnlib.explore.packed_timings import pack_timings

DEVICES = pack_timings("timings", [other(0.9, 1.0, 1.2), other(0.011, 0.01, 0.02, device="cuda")])
ONE = {"timings": DEVICES[:1]}
TWO = {"timings": DEVICES, "device": "cpu"}

# A live notebook's side of the explorer: a model with a kernel that notes what it is sent.
KERNEL = """<script type="module">
const values = STATE, heard = [], sent = [];
const listeners = new Map();
window.kernel = {
    sent,
    say: (content) => heard.forEach((listener) => listener(content)),
    set(key, value) {
        values[key] = value;
        (listeners.get(`change:${key}`) ?? []).forEach((listener) => listener());
    },
};
const model = {
    get: (key) => values[key],
    set: (key, value) => window.kernel.set(key, value),
    save_changes() {},
    on: (event, listener) => (event === "msg:custom" ? heard.push(listener)
        : listeners.set(event, [...(listeners.get(event) ?? []), listener])),
    off: (event, listener) => heard.splice(heard.indexOf(listener), 1),
    send: (content) => sent.push(content),
};
const el = document.querySelector(".attn-explorer");
const { default: explorer } = await import("./explorer.mjs");
window.kernel.stop = explorer.render({ model, el });
</script><div class="attn-explorer"></div>"""


@pytest.fixture(scope="module")
def folder(assets, tmp_path_factory) -> Iterator[str]:
    """Pages with this explorer alone: of one device, of two, and with a kernel that is made up."""
    at = tmp_path_factory.mktemp("pages")
    first = explore("generation-times", **ONE, n_heads=8, n_new=128)
    pages = {
        "one": [explore("generation-times", **ONE)],
        "two": [explore("generation-times", **TWO)],
        "live": [],
    }
    with served_pages(at, pages) as address:
        (at / "explorer.mjs").write_text(first._esm, encoding="utf-8")
        state = {**first.state, "initial": first.initial}
        kernel = KERNEL.replace("STATE", json.dumps(state).replace("<", "\\u003c"))
        style = f"<style>{first._css}</style>"
        live = (at / "live.html").read_text("utf-8").replace("</main>", f"{style}{kernel}</main>")
        (at / "live.html").write_text(live, encoding="utf-8")
        yield address


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser, folder):
    with opened(browser, f"{folder}/one.html") as page:
        yield page


@pytest.fixture
def of_two(browser, folder):
    with opened(browser, f"{folder}/two.html") as page:
        yield page


@pytest.fixture
def live(browser, folder):
    with opened(browser, f"{folder}/live.html") as page:
        yield page


def test_every_slider_moves_the_picture_and_the_words_by_keyboard_and_mouse(page):
    explorer = Explorer(page, 0)
    assert len(explorer.sliders()) == 3
    assert_every_slider_moves_by_keyboard_and_mouse(explorer)


def test_on_a_phone_every_slider_moves_the_picture_and_the_words_by_touch(browser, folder):
    with opened(browser, f"{folder}/one.html", **PHONE) as page:
        assert overflowing(page) == []
        assert_every_slider_moves_by_touch(Explorer(page, 0))


def test_the_length_is_chosen_by_pressing_and_dragging_in_the_chart(page):
    explorer = Explorer(page, 0)
    (picture,) = explorer.movable_pictures()
    explorer.assert_picture_moves(picture, 0.5, 0.2)
    for fraction, wanted in [(0.0, 32), (0.55, 128), (1.0, 512)]:
        explorer.drag(picture, 0.4, fraction)
        assert f", {wanted} new tokens after one." in explorer.look().words


@pytest.mark.parametrize("name", ["one", "two"])
def test_every_control_counts_and_the_address_brings_all_back(browser, folder, name):
    with opened(browser, f"{folder}/{name}.html") as page:
        assert_the_address_brings_all_back(page, 0)


def test_tab_reaches_every_control_in_turn_and_shows_where_it_is(of_two):
    assert_tab_reaches_every_control_in_turn(Explorer(of_two, 0))


def test_a_page_of_one_device_has_no_list_of_devices_and_without_a_kernel_no_button(page, of_two):
    assert page.locator("select").count() == 0
    assert of_two.locator("select").all_inner_texts() == [
        "\n".join(each["where"] for each in DEVICES)
    ]
    for each in (page, of_two):
        names = each.locator("button").evaluate_all("(all) => all.map((it) => it.name)")
        assert names == ["reset", "copy-link"]
        assert each.locator(".attn-timed-live").count() == 0


@pytest.mark.parametrize("width", [690, 358])  # of the book's column, on a desk and on a phone
def test_no_control_and_no_picture_moves_when_a_slider_does(browser, folder, width):
    with opened(browser, f"{folder}/two.html", viewport={"width": width, "height": 900}) as page:
        explorer = Explorer(page, 0)
        before = explorer.box.evaluate(PLACES)
        for name, last in (("n_layers", 2), ("n_heads", 2), ("n_new", 8)):
            for step in (0, last):
                explorer.box.locator(f"input[name={name}]").fill(str(step))
                next_frames(page)
                assert explorer.box.evaluate(PLACES) == before


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 390])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(of_two, width, theme):
    of_two.set_viewport_size({"width": width, "height": 900})
    of_two.evaluate(f"() => {{ document.documentElement.dataset.theme = '{theme}'; }}")
    for step in ("0", "8"):
        of_two.locator("input[name=n_new]").fill(step)
        next_frames(of_two)
        assert overflowing(of_two) == []
        assert violations(of_two, ("moderate", "serious", "critical")) == []


def test_the_page_says_what_python_says_of_every_device(of_two):
    explorer = Explorer(of_two, 0)
    for i, n_new in enumerate(limits.GENERATION_LENGTHS):
        place = {"n_layers": i % 3, "n_heads": i // 3}
        for name, step in {**place, "n_new": i}.items():
            explorer.box.locator(f"input[name={name}]").fill(str(step))
        device = ("cpu", "cuda")[i % 2]
        explorer.box.locator("select[name=device]").select_option(device)
        wanted = explore(
            "generation-times",
            timings=DEVICES,
            device=device,
            n_layers=limits.GENERATION_LAYERS[place["n_layers"]],
            n_heads=limits.GENERATION_HEADS[place["n_heads"]],
            n_new=n_new,
        )
        assert explorer.look().words == wanted.describe()


POINTS = """(box) => Object.fromEntries(["cached", "anew"].flatMap((way) => [
    [way, box.querySelector(`polyline.attn-timed-${way}:not(.attn-timed-count)`)],
    [`${way} counted`, box.querySelector(`.attn-timed-count.attn-timed-${way}`)],
].map(([name, line]) => [name, line.getAttribute("points").split(" ").map((point) => (
    Number(point.split(",")[1])
))])))"""


def test_lines_are_as_high_as_the_times_and_the_count_begins_where_they_do(page):
    explorer = Explorer(page, 0)
    lines = explorer.box.evaluate(POINTS)
    facts = [explore("generation-times", **ONE, n_new=n).facts() for n in limits.GENERATION_LENGTHS]
    per_decade, *others = [a - b for a, b in pairwise(decade_lines(explorer))]
    assert others == pytest.approx([per_decade] * len(others))
    for way in ("cached", "anew"):
        assert lines[f"{way} counted"][0] == lines[way][0]
        for name, values in (
            (way, [found[way]["all"][1] for found in facts]),
            (f"{way} counted", [found[f"{way}Flops"] for found in facts]),
        ):
            for y, value in zip(lines[name], values, strict=True):
                grown = (lines[name][0] - y) / per_decade
                # to the two decimals in which a picture's lengths are written
                assert 10**grown == pytest.approx(value / values[0], rel=0.005)


def decade_lines(explorer: Explorer) -> list[float]:
    """How high the lines of the powers of ten are, the smallest first."""
    return explorer.box.locator("svg .attn-grid").evaluate_all(
        "(all) => all.filter((it) => it.getAttribute('y1') === it.getAttribute('y2'))"
        ".map((it) => Number(it.getAttribute('y1')))"
    )


# ---- with a kernel -----------------------------------------------------------------------------


def say(page: Page, content: dict) -> None:
    page.evaluate("(content) => window.kernel.say(content)", content)
    next_frames(page)


def sent(page: Page) -> list[dict]:
    return page.evaluate("() => window.kernel.sent")


def test_the_button_comes_when_a_kernel_has_answered(live):
    button = live.locator("button[name=measure]")
    assert sent(live) == [{"ask": "devices"}]
    assert not button.is_visible()
    say(live, {"devices": ["cpu"]})
    assert button.is_visible()
    assert not live.locator("select[name=measure-on]").is_visible()
    assert (
        live.locator("[role=status].attn-note")
        .inner_text()
        .startswith(f"{N_REPEATS_HERE} runs of each, as chosen above: about ")
    )
    say(live, {"devices": ["cpu", "cuda"]})
    assert live.locator("select[name=measure-on]").is_visible()


def test_the_button_measures_once_and_tells_how_far_it_is(live):
    say(live, {"devices": ["cpu", "cuda"]})
    live.locator("select[name=measure-on]").select_option("cuda")
    button, bar = live.locator("button[name=measure]"), live.locator("progress")
    note = live.locator("[role=status].attn-note")
    button.press("Enter")
    button.press("Enter")  # while it is busy
    assert sent(live)[1:] == [{"ask": "measure", "device": "cuda"}]
    assert button.get_attribute("aria-disabled") == "true"
    say(live, {"progress": [2, 6]})
    assert bar.is_visible()
    assert bar.evaluate("(it) => [it.value, it.max]") == [2, 6]
    assert "2 of 6 runs are done" in note.inner_text()
    assert violations(live, ("moderate", "serious", "critical")) == []
    say(live, {"done": True})
    assert not bar.is_visible()
    assert button.get_attribute("aria-disabled") == "false"
    button.press("Enter")
    say(live, {"failed": "RuntimeError: no memory left"})
    assert note.inner_text() == "Nothing was measured: RuntimeError: no memory left"
    assert len(sent(live)) == 3


def test_what_was_measured_stands_in_the_table_the_picture_and_the_words(live):
    explorer = Explorer(live, 0)
    before = explorer.look()
    assert live.locator("tbody tr:visible").count() == 2
    here = other(0.5, 0.6, models=[(2, 8)], lengths=(1, *limits.GENERATION_LENGTHS[:5]))
    wanted = explore("generation-times", **ONE, measured=here, n_heads=8, n_new=128)
    live.evaluate(
        "(x) => window.kernel.set('measured', x)", json.loads(json.dumps(wanted.measured))
    )
    after = explorer.look()
    assert after.words == wanted.describe() and "Measured here" in after.words
    assert after.drawing != before.drawing
    assert live.locator("tbody tr:visible").count() == 4
    marks = live.locator(".attn-timed-here").evaluate_all(
        "(all) => all.map((it) => it.getAttribute('d').split('M').length - 1)"
    )
    assert marks == [5, 5]
    assert overflowing(live) == []
    explorer.box.locator("input[name=n_new]").press("End")  # so long it was not measured
    next_frames(live)
    assert live.locator("tbody tr:visible").count() == 2


def test_a_kernel_that_does_not_answer_is_not_waited_for(live):
    live.clock.install()
    live.evaluate("() => window.kernel.say({ devices: ['cpu'] })")
    button = live.locator("button[name=measure]")
    button.press("Enter")
    live.clock.fast_forward(10_001)
    note = live.locator("[role=status].attn-note")
    assert note.inner_text().startswith("The kernel gives no answer")
    assert button.get_attribute("aria-disabled") == "false"


def test_an_explorer_that_goes_hears_no_more(live):
    live.evaluate("() => window.kernel.stop()")
    say(live, {"devices": ["cpu"]})
    assert not live.locator("button[name=measure]").is_visible()
