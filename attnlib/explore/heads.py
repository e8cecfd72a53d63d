"""The heads explorer: what the number of heads costs, and what it does to the rank of scores."""

from __future__ import annotations

from typing import Any

from attnlib.explore import checks, limits
from attnlib.explore.base import Explorer, Option
from attnlib.explore.bundle import anywidget_module
from attnlib.explore.words import State, show_count, show_whole
from attnlib.sizes import AttentionSizes


def layer_costs(width: int, n_heads: int, head_dim: int, n_tokens: int) -> dict[str, int]:
    """The counts of one layer without mask, where g = h and e = d; two FLOPs a multiply-add."""
    m, h, d, n = width, n_heads, head_dim, n_tokens
    sizes = AttentionSizes(n_query_heads=h, n_kv_heads=h, head_dim=d, value_dim=d)
    return {
        "heads": h,
        "headDim": d,
        "parameters": sizes.n_parameters(m),
        "projectionFlops": 8 * n * m * h * d,  # q, k, v and the output
        "coreFlops": 4 * n**2 * h * d,  # scores, and the weighted sums of values
        "exponentials": h * n**2,
        "rank": min(n, m, d),
    }


def splits(joined: int) -> list[tuple[int, int]]:
    """Every (h, d) within the sliders' ends with this product h·d, few heads first."""
    (fewest, most), (least, largest) = limits.N_HEADS, limits.HEAD_DIM
    powers = [2**i for i in range(most.bit_length()) if fewest <= 2**i <= min(most, joined)]
    return [(h, joined // h) for h in powers if least <= joined // h <= largest]


def heads_facts(state: State) -> dict[str, Any]:
    """The numbers of the heads explorer; `splits` are the same for every (h, d) of one product."""
    m, h, d, n = (state[name] for name in ("width", "n_heads", "head_dim", "n_tokens"))
    return {
        **layer_costs(m, h, d, n),
        "joined": h * d,
        "isSquare": h * d == m,
        "splits": [layer_costs(m, *split, n) for split in splits(h * d)],
    }


def describe_heads(state: State) -> str:
    found = heads_facts(state)
    m, h, d, n = (state[name] for name in ("width", "n_heads", "head_dim", "n_tokens"))
    shape = "as wide as m: the matrices are square" if found["isSquare"] else "which is not m"
    part = "all of n" if found["rank"] == n else f"1/{show_whole(n // found['rank'])} of n"
    words = (
        f"Width m = {show_whole(m)}, h = {show_count(h, 'head')} of width d = {d}: h·d = "
        f"{show_whole(found['joined'])}, {shape}. Parameters 4mhd: "
        f"{show_whole(found['parameters'])}. With n = {show_whole(n)} tokens and no mask, FLOPs "
        f"of the projections 8nmhd: {show_whole(found['projectionFlops'])}; of the scores and the "
        f"weighted sums 4n²hd: {show_whole(found['coreFlops'])}. Exponentials hn²: "
        f"{show_whole(found['exponentials'])}, as many numbers as the scores if they are stored. "
        f"The scores of a head have rank at most min(n, m, d) = {found['rank']}, {part}."
    )
    few, many = found["splits"][0], found["splits"][-1]
    if few == many:
        return f"{words} No other number of heads here has the same h·d."
    return (
        f"{words} At the same h·d, from {few['heads']} to {many['heads']} heads: the same "
        f"parameters and FLOPs, exponentials from {show_whole(few['exponentials'])} to "
        f"{show_whole(many['exponentials'])}, rank at most from {few['rank']} to {many['rank']}."
    )


class HeadsExplorer(Explorer):
    """Widths and numbers of heads → parameters, FLOPs, exponentials and a bound for the rank.

    A layer of `n_heads` h heads, each with keys and values of its own of width `head_dim` d, on a
    residual stream of `width` m, reads `n_tokens` n tokens without a mask. All are powers of two.
    """

    explorer = "heads"
    title = "Heads: one cost, split more and thinner"
    _esm = anywidget_module("heads.mjs")

    width = Option(checks.power_of_two, 512, limits.STREAM_WIDTH)
    n_heads = Option(checks.power_of_two, 8, limits.N_HEADS)
    head_dim = Option(checks.power_of_two, 64, limits.HEAD_DIM)
    n_tokens = Option(checks.power_of_two, 1024, limits.N_READ_TOKENS)

    def facts(self) -> dict[str, Any]:
        """The counts of the layer, and of every other split of h·d into heads."""
        return heads_facts(self.state)

    def describe(self) -> str:
        return describe_heads(self.state)
