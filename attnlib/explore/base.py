"""What every explorer is: an anywidget whose state can be read, set and observed from Python.

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

from attnlib.explore.bundle import FOLDER


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


class Contradiction(traitlets.TraitError, ValueError):
    """Options that contradict each other; of a TraitError, traitlets takes every change back."""


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
        self.check_together(self.state)
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

    def check_together(self, state: dict[str, Any]) -> None:
        """Raise where options contradict each other."""

    def checked(self, proposal: Any) -> Any:
        """The value that traitlets proposes for one option, checked together with the others.

        Several may change at once, as from a front end: traitlets asks when the last one has. And
        while the explorer is made, others may still come.
        """
        value = proposal["value"]
        if self.initial:
            self.check_together({**self.state, proposal["trait"].name: value})
        return value

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
