"""Pictures with sliders: one implementation for a live notebook and for the static page.

    attnlib.explore("softmax", temperature=0.5)
    attnlib.explore("soft-lookup", kernel="dot-product")
    attnlib.explore("tokens", text="To be, or not to be", merges=tokenizer.merges)
    attnlib.explore("neighbours", words=words, vectors=vectors, word="king")
    attnlib.explore("sinusoidal", width=64, dimension=8)
    attnlib.explore("rotary", query_position=12, key_position=30)

The mathematics and the drawing are ES modules beside this file. A notebook runs them through
anywidget; the book's pages mount the same files without a kernel.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlib.explore.widgets import Explorer

NAMES = ("softmax", "soft-lookup", "tokens", "neighbours", "sinusoidal", "rotary")


def explore(name: str, **options: Any) -> Explorer:
    """An explorer to show as the last line of a cell.

    Every option is an attribute of what is returned: it can be read, set and observed while the
    sliders move.

    Args:
        name: "softmax", "soft-lookup", "tokens", "neighbours", "sinusoidal" or "rotary".
        options: The first state; see `SoftmaxExplorer`, `SoftLookupExplorer`, `TokensExplorer`,
            `NeighboursExplorer`, `SinusoidalExplorer` and `RotaryExplorer`.

    Raises:
        ValueError: If no explorer has that name, or an option has a value that it cannot take.
        TypeError: If the explorer has no such option, or an option is of the wrong kind.
        ImportError: If anywidget is not installed.

    Example:
        >>> explorer = explore("softmax", scores=[2.0, 0.0], temperature=0.5)
        >>> explorer.temperature = 20.0
        >>> [round(p, 3) for p in explorer.facts()["weights"]]
        [0.525, 0.475]
    """
    if name not in NAMES:
        raise ValueError(f"the explorers are {', '.join(NAMES)}, got {name!r}")
    try:
        from attnlib.explore.widgets import EXPLORERS
    except ModuleNotFoundError as missing:
        raise ImportError(
            f"the explorers need {missing.name}, which is not installed: pip install anywidget"
        ) from missing
    _let_colab_show_widgets()
    return EXPLORERS[name](**options)


def _let_colab_show_widgets() -> None:
    """Colab shows widgets of other packages only when asked to; elsewhere this does nothing."""
    try:
        from google.colab import output
    except ImportError:
        return
    output.enable_custom_widget_manager()


class _CallableModule(ModuleType):
    """So that `attnlib.explore(...)` works, whether or not this module was imported before."""

    def __call__(self, name: str, **options: Any) -> Explorer:
        return explore(name, **options)


sys.modules[__name__].__class__ = _CallableModule
