"""Move the controls of an explorer as a reader does, and look at what that changes."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

from playwright.sync_api import Locator, Page

PAUSE_MS = 250  # attnlib/explore/share.mjs


class Look(NamedTuple):
    """What an explorer shows: its controls' values, drawing and bars, and all that in words."""

    values: tuple[str, ...]
    drawing: str
    bars: str
    words: str

    def still(self, before: "Look") -> bool:
        """Whether a part of the picture is as it was."""
        return self.drawing == before.drawing or (bool(self.bars) and self.bars == before.bars)


def assert_all_change(looks: list[Look]) -> None:
    """Assert that every look differs from the one before in words, drawing and bars."""
    for before, after in pairwise(looks):
        assert after.words != before.words
        assert not after.still(before)


def next_frames(page: Page) -> None:
    """Wait until one frame was drawn in which everything asked for by now is done."""
    page.evaluate("() => new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)))")


class Explorer:
    """One explorer of an open page.

    Args:
        page: The open page.
        place: How many explorers come before it.
    """

    def __init__(self, page: Page, place: int):
        self.page = page
        self.holder = page.locator(".attn-explorer").nth(place)
        self.box = self.holder.locator(".attn-box")

    def kind(self) -> str:
        return self.holder.get_attribute("data-explorer")

    def sliders(self) -> list[Locator]:
        return self.box.locator("input[type=range]").all()

    def controls(self) -> list[Locator]:
        """Everything that a reader can move, press or choose."""
        return self.box.locator(
            "input, select, textarea, button, summary, [role=slider], [role=listbox]"
        ).all()

    def name_of(self, control: Locator) -> str:
        return control.evaluate(NAME)

    def focused(self) -> tuple[str, bool]:
        """The name of the control that has the focus, and whether a ring shows that."""
        return self.page.evaluate(
            f"""() => {{
                const control = document.activeElement, name = ({NAME})(control);
                const parts = [control, ...control.querySelectorAll("*")];
                const look = () => parts.map((part) => {{
                    const {{outlineStyle, outlineWidth, outlineColor, stroke, fillOpacity}} =
                        getComputedStyle(part);
                    return [outlineStyle, outlineWidth, outlineColor, stroke, fillOpacity].join();
                }}).join();
                const focused = look();
                control.blur();
                const changed = look() !== focused;
                control.focus({{focusVisible: true}});
                return [name, changed];
            }}"""
        )

    @contextmanager
    def offline(self) -> Iterator[None]:
        """Pull the network's plug for a while."""
        self.page.context.set_offline(True)
        try:
            yield
        finally:
            self.page.context.set_offline(False)

    def look(self) -> Look:
        next_frames(self.page)
        values, drawing, bars, words = self.box.evaluate(
            """(box) => [
                [...box.querySelectorAll("input, select, textarea, [role=slider]")].map((control) =>
                    control.type === "checkbox" ? String(control.checked)
                    : control.labels && box.querySelector(`output[for="${control.id}"]`)
                        ?.textContent
                    || control.getAttribute("aria-valuetext") || control.value),
                [...box.querySelectorAll("svg, canvas")]
                    .map((it) => it.toDataURL?.() ?? it.outerHTML).join(""),
                [...box.querySelectorAll(".attn-track")].map((it) => it.outerHTML).join(""),
                box.querySelector(".attn-words").textContent,
            ]"""
        )
        # Ids are made anew on every page.
        drawing = re.sub(r' (id|aria-describedby)="[^"]*"', "", drawing)
        return Look(tuple(values), drawing, bars, words)

    def reset(self) -> None:
        self.box.locator("button[name=reset]").click()
        next_frames(self.page)

    def await_address(self) -> None:
        """Wait until the state stands in the address: explorers write it after a pause."""
        next_frames(self.page)
        self.page.evaluate(f"() => new Promise((done) => setTimeout(done, {2 * PAUSE_MS}))")

    def points(self, target: Locator, *fractions: float) -> list[tuple[float, float]]:
        """Places at these parts of an element's width, in the middle of its height."""
        target.scroll_into_view_if_needed()
        box = target.bounding_box()
        y = box["y"] + box["height"] / 2
        return [(box["x"] + fraction * box["width"], y) for fraction in fractions]

    @contextmanager
    def pressed(self, target: Locator, start: float, end: float) -> Iterator[Callable[[], None]]:
        """Hold the mouse down at one part of an element's width; yield the move to another."""
        start_point, end_point = self.points(target, start, end)
        self.page.mouse.move(*start_point)
        self.page.mouse.down()
        try:
            yield lambda: self.page.mouse.move(*end_point, steps=3)
        finally:
            self.page.mouse.up()

    def drag(self, target: Locator, start: float, end: float) -> None:
        with self.pressed(target, start, end) as move:
            move()

    def tap(self, target: Locator, fraction: float) -> None:
        self.page.touchscreen.tap(*self.points(target, fraction)[0])

    def movable_pictures(self) -> list[Locator]:
        """The drawings whose pointer says that they can be dragged."""
        movable = {"crosshair", "ew-resize", "grab", "move", "pointer"}
        return [
            picture
            for picture in self.box.locator("svg").all()
            if picture.evaluate("(it) => getComputedStyle(it).cursor") in movable
        ]

    def change_everything(self) -> None:
        """Leave no control as it was."""
        for box in self.box.locator("input[type=checkbox]").all():
            box.press("Space")
        for choice in self.box.locator("select").all():
            count = choice.locator("option").count()
            choice.select_option(index=(choice.evaluate("(it) => it.selectedIndex") + 1) % count)
        for box in self.box.locator("textarea").all():
            box.fill(f"{box.input_value()[:40]} – ⟨µ&;=%⟩\n日本")
        for box in self.box.locator("input[list]").all():
            box.fill(box.evaluate(OTHER_WORD))
        for slider in self.sliders():
            at_first = slider.input_value()
            slider.press("PageDown")
            slider.press("ArrowLeft")
            if slider.input_value() == at_first:
                slider.press("PageUp")
        next_frames(self.page)

    def assert_moves(self, slider: Locator, *moves: Callable[[], None]) -> None:
        """Assert that every move changes the slider's value, the picture and the words.

        The moves begin in the first state. A width of keys moves no weight as long as it is
        divided out: so where the picture stays, it has to move once a checkbox is switched.
        """
        name = self.name_of(slider)
        self.reset()
        if not self._still(slider, name, moves):
            return
        switches = self.box.locator("input[type=checkbox]").all()
        assert switches, f"{name} leaves the picture as it is"
        for switch in switches:
            self.reset()
            switch.evaluate("(it) => it.click()")
            assert not self._still(slider, name, moves), f"{name} leaves the picture as it is"

    def assert_picture_moves(self, picture: Locator, start: float, end: float) -> None:
        """Assert that pressing a picture changes it and the words, and so does dragging it on."""
        self.reset()
        looks = [self.look()]
        with self.pressed(picture, start, end) as move:
            looks.append(self.look())
            move()
            looks.append(self.look())
        assert_all_change(looks)

    def _still(self, slider: Locator, name: str, moves: tuple[Callable[[], None], ...]) -> bool:
        """Make the moves; say whether the picture stayed as it was in one of them."""
        output = self.box.locator(f"output[for='{slider.get_attribute('id')}']")
        still = False
        before, value = self.look(), output.inner_text()
        for move in moves:
            move()
            after, shown = self.look(), output.inner_text()
            assert shown != value, f"{name} shows the same value"
            assert after.words != before.words, f"{name} leaves the words as they are"
            still |= after.still(before)
            before, value = after, shown
        return still


def assert_the_address_brings_all_back(page: Page, place: int) -> None:
    """Change every control of an explorer, open the address again, and reset."""
    explorer = Explorer(page, place)
    names = [explorer.name_of(control) for control in explorer.controls()]
    assert all(names) and len(set(names)) == len(names)
    first = explorer.look()
    explorer.change_everything()
    changed = explorer.look()
    assert all(a != b for a, b in zip(changed.values, first.values, strict=True))
    explorer.await_address()
    again = page.context.new_page()
    again.goto(page.url)
    again.wait_for_function(ALL_MOUNTED)
    assert Explorer(again, place).look() == changed
    again.close()
    explorer.reset()
    assert explorer.look() == first


ALL_MOUNTED = """() => [...document.querySelectorAll(".attn-explorer")].every(
    (holder) => holder.querySelector(".attn-box"),
)"""

# One that can be chosen beside the one that stands there.
OTHER_WORD = "(box) => [...box.list.options].map((it) => it.value).find((it) => it !== box.value)"

# As a screen reader names a control, as far as explorers need it.
NAME = """(control) => {
    const by = control.getAttribute("aria-label")
        ?? [...(control.labels ?? [])].map((label) => label.textContent).join(" ");
    return (by || (control.matches("button, summary") ? control.textContent : "")).trim();
}"""
