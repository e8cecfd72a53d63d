"""Every explorer by its name."""

from attnlib.explore.base import Explorer
from attnlib.explore.neighbours import NeighboursExplorer
from attnlib.explore.rotary import RotaryExplorer
from attnlib.explore.sinusoidal import SinusoidalExplorer
from attnlib.explore.soft_lookup import SoftLookupExplorer
from attnlib.explore.softmax import SoftmaxExplorer
from attnlib.explore.tokens import TokensExplorer

EXPLORERS: dict[str, type[Explorer]] = {
    cls.explorer: cls
    for cls in (
        SoftmaxExplorer,
        SoftLookupExplorer,
        TokensExplorer,
        NeighboursExplorer,
        SinusoidalExplorer,
        RotaryExplorer,
    )
}
