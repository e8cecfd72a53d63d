"""Find the Chromium that drives the browser tests."""

import os
import shutil
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC_APPLICATIONS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
MISSING = (
    "The browser tests need Chromium or Chrome and found none: install one "
    "(for instance `apt-get install chromium`), or name one with CHROMIUM=/path/to/chromium."
)


def find_browser() -> str | None:
    """Return the path of a Chromium or Chrome, or None."""
    named = os.environ.get("CHROMIUM")
    if named:
        if not Path(named).is_file():
            sys.exit(f"CHROMIUM names {named}, which is not a file.")
        return named
    found = [path for path in map(shutil.which, NAMES) if path]
    found += [path for path in MAC_APPLICATIONS if Path(path).is_file()]
    return (found or [_playwright_browser()])[0]


def _playwright_browser() -> str | None:
    """The browser that Playwright installed for this user, if it did."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).is_file() else None


def browser() -> str:
    """Return the path of a browser, or stop with one sentence that says what to do."""
    path = find_browser()
    if path is None:
        raise RuntimeError(MISSING)
    return path


if __name__ == "__main__":
    try:
        print(browser())
    except RuntimeError as error:
        sys.exit(str(error))
