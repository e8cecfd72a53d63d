"""Pictures with sliders: one implementation for a live notebook and for the static page.

    attnlib.explore("softmax", temperature=0.5)
    attnlib.explore("soft-lookup", kernel="dot-product")
    attnlib.explore("tokens", text="To be, or not to be", merges=tokenizer.merges)
    attnlib.explore("neighbours", words=words, vectors=vectors, word="king")
    attnlib.explore("sinusoidal", width=64, dimension=8)
    attnlib.explore("rotary", query_position=12, key_position=30)
    attnlib.explore("score-spread", key_dim=256, exponent=0.0)
    attnlib.explore("jacobian", n_sources=16, n_leaders=2, gap=3.0)
    attnlib.explore("mask", n_targets=4, n_sources=8, window=3)
    attnlib.explore("heads", width=512, n_heads=8, head_dim=64)
    attnlib.explore("attention-maps", tokens=tokens, weights=weights, layer=3, head=5)
    attnlib.explore("alignment", number=21)
    attnlib.explore("next-token", temperature=0.7, top_p=0.9)
    attnlib.explore("cost", model="gemma-3-27b", n_tokens=131_072)
    attnlib.explore("generation-times", n_layers=4, n_heads=8, n_new=512)
    attnlib.explore("key-value-heads", model="gemma-3-27b", n_rows=1)
    attnlib.explore("latent-forms", kv_latent=256, n_tokens=32_768)
    attnlib.explore("what-fits", n_tokens=131_072, n_rows=16)

The mathematics and the drawing are ES modules beside this file. A notebook runs them through
anywidget; the book's pages mount the same files without a kernel.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlib.explore.widgets import Explorer

NAMES = (
    "softmax",
    "soft-lookup",
    "tokens",
    "neighbours",
    "sinusoidal",
    "rotary",
    "score-spread",
    "jacobian",
    "mask",
    "heads",
    "attention-maps",
    "alignment",
    "next-token",
    "cost",
    "generation-times",
    "key-value-heads",
    "latent-forms",
    "what-fits",
)


def explore(name: str, **options: Any) -> Explorer:
    """An explorer to show as the last line of a cell.

    Every option is an attribute of what is returned: it can be read, set and observed while the
    sliders move.

    Args:
        name: One of `NAMES`: "softmax", "soft-lookup", "tokens" and so on.
        options: The first state; see the class of the explorer, which is named after it:
            `SoftmaxExplorer`, `SoftLookupExplorer`, `ScoreSpreadExplorer` and so on.

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
