"""Open built pages in a real Chromium and keep account of what they load and complain of."""

import gzip
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "book/node_modules/axe-core/axe.min.js"
LOCAL_SCHEMES = {"data", "blob", "about", "file"}
# Formats that a server sends as they are: they are compressed already.
COMPRESSED = {".woff", ".woff2", ".png", ".jpg", ".ico", ".gz"}


class QuietHandler(SimpleHTTPRequestHandler):
    """Serve a folder without a line for every file."""

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a built book on a free port of this machine; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser that book/browser.py finds; none is an error, never a skip."""
    sys.path.insert(0, str(ROOT / "book"))
    try:
        from browser import ARGUMENTS, browser
    finally:
        sys.path.pop(0)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser(), args=ARGUMENTS)
        try:
            yield started
        finally:
            started.close()


@dataclass
class Account:
    """What one page asked for and complained of.

    Attributes:
        sizes: From address to bytes over the wire, as a server that gzips sends it.
        foreign: Requests to any other host.
        failed: Requests without an answer, or answered with an error.
        complaints: Errors and warnings of the console, and exceptions.
    """

    sizes: dict[str, int] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def megabytes(self) -> float:
        return sum(self.sizes.values()) / 1e6

    def table(self) -> str:
        """The files, heaviest first, one a line."""
        rows = sorted(self.sizes.items(), key=lambda item: -item[1])
        lines = [f"{size / 1e3:9.1f} kB  {urlsplit(address).path}" for address, size in rows]
        return "\n".join([f"{self.megabytes * 1e3:9.1f} kB  in all", *lines])


def keep_account(page: Page, built: Path) -> Account:
    """Note from now on what `page` requests and what it complains of.

    Sizes come from the built files, gzipped as a server would, so that file:// and http count
    alike.
    """
    account = Account()

    def note(request) -> None:
        address = urlsplit(request.url)
        if address.scheme in LOCAL_SCHEMES - {"file"}:
            return
        if address.scheme != "file" and address.hostname != "127.0.0.1":
            account.foreign.append(request.url)
            return
        path = Path(address.path)
        if address.scheme == "http":
            path = built / address.path.lstrip("/")
        path = path / "index.html" if path.is_dir() else path
        if path.is_file():
            content = path.read_bytes()
            whole = path.suffix in COMPRESSED
            account.sizes[request.url] = len(content if whole else gzip.compress(content, 6))
        else:
            account.failed.append(request.url)

    def hear(message) -> None:
        if message.type in ("error", "warning"):
            address = message.location["url"]
            account.complaints.append(f"{message.type}: {message.text} ({address})")

    def safely(listen: Callable) -> Callable:
        """An exception of a listener is a complaint, and must not disturb who reads the answers."""

        def listener(event) -> None:
            try:
                listen(event)
            except Exception as error:
                account.complaints.append(f"a listener failed: {error!r}")

        return listener

    page.on("request", safely(note))
    page.on("requestfailed", safely(lambda request: account.failed.append(request.url)))
    page.on("console", safely(hear))
    page.on("pageerror", safely(lambda error: account.complaints.append(f"exception: {error}")))
    return account


def settle(page: Page) -> None:
    """Wait until formulas are set, fonts are there and nothing is on its way."""
    page.wait_for_load_state("networkidle")
    page.evaluate("() => window.MathJax?.startup?.promise.then(() => document.fonts.ready)")


def scroll_through(page: Page) -> None:
    """Show every part of the page once, as a reader does, and wait for its figures."""
    page.evaluate(
        """async () => {
            for (let y = 0; y <= document.documentElement.scrollHeight; y += innerHeight / 2) {
                scrollTo(0, y);
                await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)));
            }
        }"""
    )
    page.wait_for_function(
        """() => [...document.querySelectorAll('.attn-figure:not([data-drawn])')]
            .every((figure) => !figure.checkVisibility())"""
    )
    settle(page)


def violations(
    page: Page,
    impacts: tuple[str, ...] = ("serious", "critical"),
    rules: tuple[str, ...] | None = None,
    but: tuple[str, ...] = (),
) -> list[str]:
    """What axe-core finds on the page as it is, by these rules or by all, as `rule: element`."""
    page.evaluate(AXE.read_text("utf-8"))
    options: dict = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = list(rules)
    options["rules"] = {rule: {"enabled": False} for rule in but}
    found = page.evaluate("(options) => axe.run(document, options)", options)["violations"]
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:300]} {node.get('failureSummary', '')}"
        for rule in found
        if rule["impact"] in impacts
        for node in rule["nodes"]
    ]


def overflowing(page: Page) -> list[str]:
    """Elements that stick out of the screen to the right without a box that scrolls them."""
    return page.evaluate(
        """() => {
            const width = document.documentElement.clientWidth;
            if (document.documentElement.scrollWidth <= width) return [];
            const hidden = (element) => {
                for (let box = element.parentElement; box; box = box.parentElement) {
                    if (getComputedStyle(box).overflowX !== "visible" && box !== document.body
                        && box !== document.documentElement) return true;
                }
                return false;
            };
            const found = [...document.body.querySelectorAll("*")]
                .filter((element) => element.getBoundingClientRect().right > width + 1)
                .filter((element) => !hidden(element))
                .map((element) => element.outerHTML.slice(0, 160));
            return found.length ? found : [`${document.documentElement.scrollWidth} > ${width}`];
        }"""
    )
