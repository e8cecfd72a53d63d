"""The explorers as anywidgets: their state can be read, set and observed from Python.

Importing this module imports anywidget; `attnlib.explore` does so when an explorer is asked for.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable
from typing import Any, ClassVar

import anywidget
import traitlets

from attnlib.explore import checks, limits
from attnlib.explore.bundle import FOLDER, anywidget_module
from attnlib.explore.describe import (
    describe_soft_lookup,
    describe_softmax,
    soft_lookup_facts,
    softmax_facts,
)


def _in_the_books_build() -> bool:
    return os.environ.get("ATTNLIB_BOOK") == "1"  # set by the book's Sphinx extension


class Option(traitlets.TraitType):
    """A synchronised option whose check raises plain ValueError or TypeError."""

    def __init__(self, check: Callable[..., Any], default: Any, *bounds: Any, fixed: bool = False):
        super().__init__(default_value=default, read_only=fixed)
        self.check, self.bounds = check, bounds
        self.tag(sync=True, option=True)

    def validate(self, obj: Any, value: Any) -> Any:
        checked = self.check(self.name, value, *self.bounds)
        first = obj.initial.get(self.name)  # nothing while the explorer is made
        if isinstance(first, tuple) and len(checked) != len(first):
            raise ValueError(f"{self.name} must keep their number {len(first)}, got {len(checked)}")
        return checked


class Explorer(anywidget.AnyWidget):
    """A picture with sliders, drawn in the browser; `reset` in it goes back to `initial`.

    It shows as a widget where a kernel runs. For a page without one it also gives HTML: its state
    as JSON, which `page.mjs` mounts the same modules on, and the picture in words.
    """

    explorer: ClassVar[str]
    title: ClassVar[str]
    _css = (FOLDER / "explore.css").read_text(encoding="utf-8")

    initial = traitlets.Dict(read_only=True).tag(sync=True)

    def __init__(self, **options: Any):
        names = self.option_names()
        unknown = sorted(set(options) - set(names))
        if unknown:
            raise TypeError(
                f"the options of the explorer {self.explorer!r} are {', '.join(names)}, "
                f"got {', '.join(unknown)}"
            )
        # Before super().__init__, which sends the state to the front end.
        for name, value in options.items():
            self.set_trait(name, value)
        self.check_together()
        changeable = [name for name in names if not self.traits()[name].read_only]
        self.set_trait("initial", {name: getattr(self, name) for name in changeable})
        super().__init__()

    @classmethod
    def option_names(cls) -> list[str]:
        """What `explore(name, ...)` takes beside the name."""
        return sorted(cls.class_traits(option=True))

    @property
    def state(self) -> dict[str, Any]:
        """The options as they are now."""
        return {name: getattr(self, name) for name in self.option_names()}

    def check_together(self) -> None:
        """Raise where options contradict each other."""

    def describe(self) -> str:
        """The picture in words, as it is now."""
        raise NotImplementedError

    def open(self) -> None:
        """Connect to the front end; the book's build has none, and would save all that is sent."""
        if not _in_the_books_build():
            super().open()

    def _html(self) -> str:
        saved = json.dumps({**self.state, "initial": self.initial}).replace("<", "\\u003c")
        return (
            f'<div class="attn-explorer" data-explorer="{self.explorer}">'
            f'<script type="application/json">{saved}</script>'
            f'<p class="attn-title">{html.escape(self.title)}</p>'
            f'<p class="attn-words">{html.escape(self.describe())}</p></div>'
        )

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = ({}, {}) if self.comm is None else super()._repr_mimebundle_(**kwargs)
        data["text/plain"] = f"{self.title}. {self.describe()}"
        data["text/html"] = self._html()
        return data, metadata


class SoftmaxExplorer(Explorer):
    """Scores, temperature and key width → weights, entropy, the Jacobian's largest eigenvalue.

    `scores` are of unit variance; the raw scores are √`key_dim` times as large, and are divided by
    √`key_dim` if `scaled`. `labels` name the sources, if given.
    """

    explorer = "softmax"
    title = "Softmax: scores become weights"
    _esm = anywidget_module("softmax.mjs")

    scores = Option(checks.scores, (2.0, 1.0, 0.5, -0.5, -1.5))
    temperature = Option(checks.number, 1.0, limits.TEMPERATURE)
    key_dim = Option(checks.power_of_two, 64, limits.KEY_DIM)
    scaled = Option(checks.flag, True)
    labels = Option(checks.labels, (), fixed=True)

    def check_together(self) -> None:
        if self.labels and len(self.labels) != len(self.scores):
            raise ValueError(
                f"labels must be as many as scores, got {len(self.labels)} labels "
                f"and {len(self.scores)} scores"
            )

    def facts(self) -> dict[str, Any]:
        """Weights, entropy and the other numbers of the picture."""
        return softmax_facts(self.state)

    def describe(self) -> str:
        return describe_softmax(self.state)


class SoftLookupExplorer(Explorer):
    """A query among keys in the plane → weights, and an output inside the hull of the values.

    The value of each key is the key itself, one of `points`. The kernel is "gaussian",
    exp(−‖q − k‖² / 2h²), or "dot-product", exp(⟨q, k⟩ / h²), with `bandwidth` h.
    """

    explorer = "soft-lookup"
    title = "Soft lookup: a query among keys"
    _esm = anywidget_module("soft-lookup.mjs")

    query = Option(checks.point, (2.6, -0.3))
    bandwidth = Option(checks.number, 1.0, limits.BANDWIDTH)
    kernel = Option(checks.choice, "gaussian", limits.KERNELS)
    # Not `keys`: that is the list of synchronised names of every ipywidget.
    points = Option(
        checks.points,
        ((-2.2, -1.3), (-1.5, 1.7), (-0.4, -0.3), (0.3, 2.4), (1.2, 0.9), (2.4, 1.3), (1.6, -2.0)),
        fixed=True,
    )

    def facts(self) -> dict[str, Any]:
        """Weights, output and the other numbers of the picture."""
        return soft_lookup_facts(self.state)

    def describe(self) -> str:
        return describe_soft_lookup(self.state)


EXPLORERS: dict[str, type[Explorer]] = {
    cls.explorer: cls for cls in (SoftmaxExplorer, SoftLookupExplorer)
}
