"""A bar for work that takes a while, shown where somebody is watching.

Source   this book
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOBase

_PATIENCE_SECONDS = 1.0  # shorter work needs no bar
_BETWEEN_SECONDS = 0.2
_WIDTH = 30


@contextmanager
def progress_bar(n: int, unit: str, shown: bool | None) -> Iterator[Callable[[], None]]:
    r"""Give a function to be called after each piece of work; it draws a bar on one line of text.

    Args:
        n: How many pieces make a full bar.
        unit: What they are, in the plural: "merges", "steps", "tokens".
        shown: True shows the bar at once, False never, and None after a second of work in a
            terminal or in a notebook that somebody runs, never while the book is built.

    Example:
        >>> with progress_bar(3, "merges", False) as on_merge:
        ...     for _ in range(3):
        ...         on_merge()
    """
    where = _screen() if shown is None else (sys.stderr if shown else None)
    if where is None or n == 0:
        yield lambda: None
        return
    n_done, last = 0, 0.0
    due = time.monotonic() + (0.0 if shown else _PATIENCE_SECONDS)

    def draw() -> None:
        nonlocal last
        last = time.monotonic()
        full = "█" * (_WIDTH * n_done // n)
        where.write(f"\r{full:·<{_WIDTH}} {n_done:,} of {n:,} {unit}")
        where.flush()

    def on_piece() -> None:
        nonlocal n_done
        n_done += 1
        now = time.monotonic()
        if now >= due and now - last >= _BETWEEN_SECONDS:
            draw()

    try:
        yield on_piece
    finally:
        if last:
            draw()
            where.write("\n")


def _screen() -> TextIOBase | None:
    """Where a watcher would see the bar: a terminal, or the output of a notebook's cell."""
    if "ATTNLIB_BOOK" in os.environ:
        return None
    if sys.stderr is not None and sys.stderr.isatty():
        return sys.stderr
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return sys.stdout if hasattr(shell, "kernel") else None
