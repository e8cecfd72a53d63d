"""Measure the book against its budgets: `make measure`.

Three tables that a note can quote: what a page weighs over the wire; how long a step of a
slider takes, from the input event to the updated page with its layout done; and what importing
attnlib costs beyond torch. The exit code says whether every budget is kept. A slow or a busy
machine may exceed a time, so no test asks for one.
"""

import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from built import built_book, explorers, figures, page_names
from controls import Explorer
from pages import chromium, keep_account, scroll_through, served, settle
from playwright.sync_api import Browser, Page

from attnlib import data
from attnlib.explore.limits import LIMITS

LARGEST_MB = {True: 1.3, False: 0.75}  # with figures, and without
FRAME_MS = 16.7
IMPORT_MS = 1000
STEPS = 200
IMPORTS = 5
# The most that an explorer takes, of running text: its own text is a line.
LONGEST = data.shakespeare()[: LIMITS["text_length"][1]]
# From notch to notch, up and down, so that every step changes something. Explorers draw in an
# animation frame: the work is that of the event and of the frame.
SLIDE = """async ([slider, steps]) => {
    const { min, max, step } = slider, notch = Number(step), times = [];
    const frame = (work) => new Promise((done) => requestAnimationFrame(() => {
        work?.();
        done(performance.now());
    }));
    let direction = 1;
    await frame();
    for (let i = 0; i < steps; i++) {
        const value = Number(slider.value);
        if (value + direction * notch > Number(max)) direction = -1;
        else if (value + direction * notch < Number(min)) direction = 1;
        slider.value = value + direction * notch;
        const frameBegins = frame();
        const start = performance.now();
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        const handled = performance.now();
        const frameEnds = frame(() => document.body.getBoundingClientRect());
        const began = await frameBegins;
        times.push(handled - start + (await frameEnds) - began);
    }
    return times;
}"""
IMPORT = """
import time, torch
start = time.perf_counter()
import attnlib
print(1000 * (time.perf_counter() - start))
"""


def machine() -> str:
    """What the times were measured on, in a line."""
    name = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.is_file():
        lines = information.read_text().splitlines()
        name = next((line.split(":")[1].strip() for line in lines if "model name" in line), name)
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} × {name}, {system}{load}"


def opened(browser: Browser, url: str) -> Page:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(url)
    settle(page)
    return page


def weights(browser: Browser, address: str, html: Path) -> Iterator[bool]:
    """Print what each page weighs, read to its end; yield whether it keeps its budget."""
    print(f"\n{'MB':>8} {'at most':>8}  page, gzipped over the wire")
    for name in page_names(html):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        account = keep_account(page, html)
        page.goto(f"{address}/{name}")
        settle(page)
        scroll_through(page)
        count = figures(html, name)
        most = LARGEST_MB[count > 0]
        print(f"{account.megabytes:8.3f} {most:8.2f}  {name} ({count} figures)")
        yield account.megabytes <= most
        page.close()


def slider_steps(browser: Browser, address: str, html: Path) -> Iterator[bool]:
    """Print the time of a step of every slider; yield whether it fits into a frame."""
    print(f"\n{'median':>8} {'95 %':>8}  ms of {STEPS} steps, at most {FRAME_MS} at 95 %")
    for (name, scheme), place, kind in explorers(html):
        if scheme != "http":
            continue
        page = opened(browser, f"{address}/{name}")
        explorer = Explorer(page, place)
        explorer.box.scroll_into_view_if_needed()
        for box in explorer.box.locator("textarea").all():
            box.fill(LONGEST)
        for slider in explorer.sliders():
            times = sorted(page.evaluate(SLIDE, [slider.element_handle(), STEPS]))
            late = times[round(0.95 * STEPS) - 1]
            label = explorer.name_of(slider)
            print(f"{statistics.median(times):8.2f} {late:8.2f}  {kind}: {label}")
            yield late <= FRAME_MS
        page.close()
    print(f"{'':18} in Chromium {browser.version}")


def import_time() -> bool:
    """Print what `import attnlib` costs once torch is there; say whether that is little."""
    command = [sys.executable, "-c", IMPORT]
    times = [float(subprocess.check_output(command, text=True)) for _ in range(IMPORTS)]
    middle = statistics.median(times)
    print(f"\n{'median':>8} {'at most':>8}  ms of {IMPORTS} imports of attnlib, beyond torch's own")
    print(f"{middle:8.0f} {IMPORT_MS:8}  from {min(times):.0f} to {max(times):.0f}")
    return middle <= IMPORT_MS


def main() -> int:
    try:
        html = built_book()
    except RuntimeError as error:
        print(error)
        return 1
    print(machine())
    with served(html) as address, chromium() as browser:
        kept = [*weights(browser, address, html), *slider_steps(browser, address, html)]
    kept.append(import_time())
    print("\nEvery budget is kept." if all(kept) else "\nA budget is exceeded.")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
