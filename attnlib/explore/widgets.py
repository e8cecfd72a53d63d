"""Every explorer by its name."""

from attnlib.explore.base import Explorer
from attnlib.explore.soft_lookup import SoftLookupExplorer
from attnlib.explore.softmax import SoftmaxExplorer

EXPLORERS: dict[str, type[Explorer]] = {
    cls.explorer: cls for cls in (SoftmaxExplorer, SoftLookupExplorer)
}
