"""Every explorer by its name."""

from attnlib.explore.alignment import AlignmentExplorer
from attnlib.explore.attention_maps import AttentionMapsExplorer
from attnlib.explore.base import Explorer
from attnlib.explore.cost import CostExplorer
from attnlib.explore.generation_times import GenerationTimesExplorer
from attnlib.explore.heads import HeadsExplorer
from attnlib.explore.jacobian import JacobianExplorer
from attnlib.explore.key_value_heads import KeyValueHeadsExplorer
from attnlib.explore.latent_forms import LatentFormsExplorer
from attnlib.explore.mask import MaskExplorer
from attnlib.explore.neighbours import NeighboursExplorer
from attnlib.explore.next_token import NextTokenExplorer
from attnlib.explore.rotary import RotaryExplorer
from attnlib.explore.score_spread import ScoreSpreadExplorer
from attnlib.explore.sinusoidal import SinusoidalExplorer
from attnlib.explore.soft_lookup import SoftLookupExplorer
from attnlib.explore.softmax import SoftmaxExplorer
from attnlib.explore.tokens import TokensExplorer
from attnlib.explore.what_fits import WhatFitsExplorer

EXPLORERS: dict[str, type[Explorer]] = {
    cls.explorer: cls
    for cls in (
        SoftmaxExplorer,
        SoftLookupExplorer,
        TokensExplorer,
        NeighboursExplorer,
        SinusoidalExplorer,
        RotaryExplorer,
        ScoreSpreadExplorer,
        JacobianExplorer,
        MaskExplorer,
        HeadsExplorer,
        AttentionMapsExplorer,
        AlignmentExplorer,
        NextTokenExplorer,
        CostExplorer,
        GenerationTimesExplorer,
        KeyValueHeadsExplorer,
        LatentFormsExplorer,
        WhatFitsExplorer,
    )
}
