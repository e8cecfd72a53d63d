"""What published models bring to the explorer of key/value heads: their sizes and their windows."""

from __future__ import annotations

from typing import Any

from attnlib.explore.words import State
from attnlib.sizes import PUBLISHED, AttentionSizes

OWN = "own"  # sizes of no model of the list


def sizes_of(model: str) -> dict[str, int]:
    """The options that a model brings.

    One with a latent has no key/value heads, and its head is as wide as the part without rotation.
    """
    sizes = PUBLISHED[model]
    attention = sizes.attention
    if isinstance(attention, AttentionSizes):
        of_heads = {"n_kv_heads": attention.n_kv_heads, "head_dim": attention.head_dim}
    else:
        of_heads = {"head_dim": attention.nope_dim}
    return {
        "n_query_heads": attention.n_query_heads,
        **of_heads,
        "width": sizes.width,
        "n_layers": sizes.n_layers,
    }


def has_its_sizes(state: State) -> bool:
    """Whether there is a model, and every size is as in it."""
    model = state["model"]
    return model != OWN and sizes_of(model).items() <= dict(state).items()


def preset(model: str) -> dict[str, Any]:
    """What JavaScript knows of a model."""
    sizes = PUBLISHED[model]
    return {
        "name": sizes.name,
        "context": sizes.context,
        "latent": not isinstance(sizes.attention, AttentionSizes),
        "windowLayers": sizes.n_window_layers,
        "window": sizes.window or 0,
        "sizes": sizes_of(model),
    }
