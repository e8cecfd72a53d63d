r"""Multi-head latent attention as a layer: tokens leave a latent and one rotated key.

Source   DeepSeek-AI 2024, arXiv:2405.04434, section 2.1 and appendix C; deepseek-ai/DeepSeek-V3,
         inference/model.py (the norms of the latents, YaRN's factor)
Chapter  chapters/latent-attention.md
Axes     attnlib/axes.py

The two forms of `latent` compute the same, so that this layer chooses by what it costs: a prompt
expanded, a new token absorbed. Its weights stand as torch.nn.Linear has them, a row for each number
that comes out:

| module | weight | rows |
|---|---|---|
| query_down | (u, m) | |
| query_norm | (u,) | one weight for each coordinate of the query latent |
| query_up | (h·(n + r), u) | head i has n + r rows: n without rotation, then r that are turned |
| kv_down | (c, m) | |
| kv_norm | (c,) | one weight for each coordinate of the latent that is kept |
| rotary_key | (r, m) | one key for all heads |
| key_up | (h·n, c) | head i has the rows from i·n to (i + 1)·n |
| value_up | (h·e, c) | head i has the rows from i·e to (i + 1)·e |
| output | (m, h·e) | head i has the **columns** from i·e to (i + 1)·e |

DeepSeek's files have `kv_down` over `rotary_key` in one matrix, and in another one, head by head,
the n rows of `key_up` over the e rows of `value_up`.

    >>> from attnlib import LatentAttentionSizes
    >>> sizes = LatentAttentionSizes(
    ...     n_query_heads=3, query_latent=5, kv_latent=7, nope_dim=6, rope_dim=4, value_dim=2
    ... )
    >>> layer = LatentSelfAttention(8, sizes)
    >>> sum(weight.numel() for weight in layer.parameters()) == sizes.n_parameters(8)
    True
"""

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib import require
from attnlib.attention import attention_weights, check_mask_and_bias, without_autocast
from attnlib.caches import LatentCache
from attnlib.latent import (
    LatentForm,
    cheaper_form,
    check_form,
    expanded_keys_and_values,
    latent_attention_absorbed,
    latent_attention_expanded,
)
from attnlib.layers.inputs import check_places, check_states, check_stream, note_positions
from attnlib.layers.norms import RMSNorm
from attnlib.layers.rotary import check_rotary, frequencies_of
from attnlib.positions import Pairing, Turns, turn_by, turns_at
from attnlib.sizes import LatentAttentionSizes, RotarySizes
from attnlib.softmax import computing_dtype

__all__ = ["LatentSelfAttention"]

_NORM_EPSILON = 1e-6


class LatentSelfAttention(nn.Module):
    r"""Let h heads attend, whose queries, keys and values all come from latents.

    $$y_t = \sum_{i=1}^{h} W^O_i\, o_{i,t}, \qquad o_{i,t} = \sum_s \operatorname{softmax}_s
    \!\big(\alpha\,(q^C_{i,t} \cdot k^C_{i,s} + q^R_{i,t} \cdot k^R_s)\big)\, v_{i,s}$$

    with the latents $c^Q_t = N(W^{DQ} x_t)$ of width u and $c_s = N(W^{DKV} x_s)$ of width c, each
    divided by its root mean square and weighted, the queries $(q^C_{i,t}, q^R_{i,t}) = W^{UQ}_i
    c^Q_t$, the keys $k^C_{i,s} = W^{UK}_i c_s$ and the values $v_{i,s} = W^{UV}_i c_s$. The key
    $k^R_s = W^{KR} x_s$ of width r is one for all heads and does not pass the latent. Where there
    are rotary positions, $q^R$ and $k^R$ are turned, and nothing else: a rotation between
    $W^{UQ}$ and $W^{UK}$ would differ from pair to pair, and could not be absorbed.

    $\alpha = 1/\sqrt{n + r}$, times YaRN's factor: $\mu^2/\sqrt{n + r}$ in DeepSeek-V2, with $\mu$
    as `yarn_attention_factor` gives it.

    A token that may not be read has no influence on the outputs of the others, even if it holds
    NaN; on the gradients of the matrices it has one, as in `MultiHeadAttention`. The matrices begin
    with independent entries from N(0, 1/fan_in), the weights of the norms with 1.

    Args:
        width: m, of x and of what comes out.
        sizes: h, u, c, n, r and e.
        rotary: Rotary positions, or None. The frequencies are those of its `base` and `scaling`,
            for r coordinates.
        pairing: "half" or "interleaved", as `rotate` has it; given if and only if `rotary` is.
            DeepSeek's weights are made for "interleaved".
        norm_epsilon: What is added to the mean square in the norms of the latents.

    Raises:
        TypeError: If the width is not a whole number, `sizes` not LatentAttentionSizes or `rotary`
            not RotarySizes.
        ValueError: If the width is below 1, `pairing` is missing, unknown or without `rotary`, r is
            odd with `rotary`, or `norm_epsilon` is not above 0.

    Example:
        >>> from attnlib import PUBLISHED
        >>> with torch.device("meta"):
        ...     layer = LatentSelfAttention(5120, PUBLISHED["deepseek-v2"].attention)
        >>> sum(weight.numel() for weight in layer.parameters())
        149227520
    """

    def __init__(
        self,
        width: int,
        sizes: LatentAttentionSizes,
        *,
        rotary: RotarySizes | None = None,
        pairing: Pairing | None = None,
        norm_epsilon: float = _NORM_EPSILON,
    ) -> None:
        width = require.at_least("width (m)", width, 1)
        norm_epsilon = require.positive("norm_epsilon", norm_epsilon)
        if not isinstance(sizes, LatentAttentionSizes):
            raise TypeError(
                "sizes must be LatentAttentionSizes, whose keys and values come from a latent, got "
                f"{type(sizes).__name__}"
            )
        check_rotary(rotary, pairing, "r", sizes.rope_dim)
        super().__init__()
        h, u, c = sizes.n_query_heads, sizes.query_latent, sizes.kv_latent
        n, r, e = sizes.nope_dim, sizes.rope_dim, sizes.value_dim
        self.width, self.sizes, self.rotary, self.pairing = width, sizes, rotary, pairing
        self.score_scale = sizes.score_scale * (1.0 if rotary is None else rotary.score_factor)
        # no buffer: these stay in fp64 whatever the weights are cast to
        self._frequencies = None if rotary is None else frequencies_of(rotary, r)
        self.query_down = nn.Linear(width, u, bias=False)
        self.query_norm = RMSNorm(u, eps=norm_epsilon)
        self.query_up = nn.Linear(u, h * (n + r), bias=False)
        self.kv_down = nn.Linear(width, c, bias=False)
        self.kv_norm = RMSNorm(c, eps=norm_epsilon)
        self.rotary_key = nn.Linear(width, r, bias=False)
        self.key_up = nn.Linear(c, h * n, bias=False)
        self.value_up = nn.Linear(c, h * e, bias=False)
        self.output = nn.Linear(h * e, width, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the matrices from N(0, 1/fan_in) anew; weights of norms become 1."""
        for module in self.children():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5)
            else:
                module.reset_parameters()

    def queries(
        self, x_btm: Float[Tensor, "b t m"], positions: Int[Tensor, "..."] | None = None
    ) -> Float[Tensor, "b h t d"]:
        """Give the queries as they enter the scores, their last r coordinates turned.

        Args:
            x_btm: What asks.
            positions: As in `forward`; None means 0, 1, … where the layer has rotary positions.

        Raises:
            TypeError: As `forward`.
            ValueError: As `forward`.
        """
        self._require_tokens("x_btm", x_btm, positions)
        return self._queries(x_btm, self._turns(positions, x_btm))

    def latents(
        self, x_bsm: Float[Tensor, "b s m"], positions: Int[Tensor, "..."] | None = None
    ) -> tuple[Float[Tensor, "b s c"], Float[Tensor, "b s r"]]:
        """Give what is kept of a token: its latent, normed, and its shared key, turned.

        Args:
            x_bsm: What is read.
            positions: As in `forward`; None means 0, 1, … where the layer has rotary positions.

        Raises:
            TypeError: As `forward`.
            ValueError: As `forward`.
        """
        self._require_tokens("x_bsm", x_bsm, positions)
        return self._latents(x_bsm, self._turns(positions, x_bsm))

    def ups(self, dtype: torch.dtype) -> tuple[Float[Tensor, "h n c"], Float[Tensor, "h e c"]]:
        """Give the matrices that make the keys and the values of each head from a latent.

        Args:
            dtype: Of the result; under autocast it is not that of the weights.
        """
        return tuple(
            rearrange(module.weight, "(h width) c -> h width c", h=self.sizes.n_query_heads).to(
                dtype
            )
            for module in (self.key_up, self.value_up)
        )

    def turns(self, positions: Int[Tensor, "..."]) -> Turns | None:
        """Form what turns queries and shared keys at these positions, for `forward` to use again.

        Args:
            positions: As in `forward`.

        Returns:
            None where there are no rotary positions.

        Raises:
            TypeError: If they are no whole numbers.
            ValueError: If one is negative.
        """
        if self.rotary is None:
            return None
        weight = self.output.weight
        return turns_at(positions, self._frequencies, dtype=weight.dtype, device=weight.device)

    def form(self, n_targets: int, n_sources: int) -> LatentForm:
        """Say in which form `forward` attends where none is asked for: the cheaper one.

        Args:
            n_targets: t, the tokens of x.
            n_sources: s, with those that the cache has.

        Raises:
            TypeError: As `cheaper_form`.
            ValueError: As `cheaper_form`.
        """
        sizes = self.sizes
        return cheaper_form(
            n_targets,
            n_sources,
            kv_latent=sizes.kv_latent,
            nope_dim=sizes.nope_dim,
            value_dim=sizes.value_dim,
        )

    def weights(
        self,
        x_btm: Float[Tensor, "b t m"],
        *,
        may_attend: Bool[Tensor, "..."] | None = None,
        positions: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "b h t t"]:
        """Show with which weight each target of each head reads each source.

        Args:
            x_btm: As in `forward`.
            may_attend: As in `forward`.
            positions: As in `forward`.

        Returns:
            Rows are targets, columns are sources; each row sums to one, or to zero where there is
            nothing to read.

        Raises:
            TypeError: As `forward`.
            ValueError: As `forward`.
        """
        self._require_call(x_btm, may_attend, positions)
        turns = self._turns(positions, x_btm)
        q_bhtd, kept = self._queries(x_btm, turns), self._latents(x_btm, turns)
        dtype = computing_dtype(q_bhtd.dtype)  # of the keys too, as in `forward`
        with without_autocast(q_bhtd.device):
            k_bhsd, _ = expanded_keys_and_values(
                *(x.to(dtype) for x in (*kept, *self.ups(q_bhtd.dtype)))
            )
        weights = attention_weights(
            q_bhtd.to(dtype), k_bhsd, may_attend=may_attend, scale=self.score_scale
        )
        return weights.to(q_bhtd.dtype)

    def forward(
        self,
        x_btm: Float[Tensor, "b t m"],
        *,
        may_attend: Bool[Tensor, "..."] | None = None,
        positions: Int[Tensor, "..."] | None = None,
        turns: Turns | None = None,
        cache: LatentCache | None = None,
        form: LatentForm | None = None,
    ) -> Float[Tensor, "b t m"]:
        """Let each token of x read x, and with a cache all tokens before it, in all heads.

        Args:
            x_btm: What asks and is read; with a cache the next chunk of a stream.
            may_attend: True where target t may read source s; broadcasts to (b, h, t, s); None lets
                all be read. With a cache, s are the sources at its `places(t)`.
            positions: Where the tokens of x stand, (t,) or a row for each batch element, (b, t);
                only with rotary positions. None means 0, 1, …, and with a cache the places after
                those that it has.
            turns: What `turns` gave for the positions, in their place; not looked at again.
            cache: What the layer keeps of the tokens before x.
            form: "expanded" or "absorbed"; None means what `form` says. The result is the same, up
                to rounding.

        Returns:
            One row of width m for each token of x. Residual connection and norm belong to the
            block around this layer.

        Raises:
            TypeError: If x is not floating point of the weights' dtype, the mask not boolean, the
                positions not whole numbers or the cache not a LatentCache.
            ValueError: If a shape or a device does not fit, positions are negative or without use,
                or those of a chunk do not go on from those before it, or the form is unknown; and
                as `append` of the cache, which is then unchanged.
        """
        self._require_call(x_btm, may_attend, positions, turns, cache, form)
        if turns is None:
            turns = self._turns(positions, x_btm, cache)
        q_bhtd = self._queries(x_btm, turns)
        latent_bsc, key_bsr = self._latents(x_btm, turns)
        if cache is not None:
            latent_bsc, key_bsr = cache.append(latent_bsc, key_bsr)
            note_positions(cache, positions, self.rotary)
        form = self.form(x_btm.shape[1], latent_bsc.shape[1]) if form is None else form
        attend = latent_attention_absorbed if form == "absorbed" else latent_attention_expanded
        out_bhte = attend(
            q_bhtd,
            latent_bsc,
            key_bsr,
            *self.ups(q_bhtd.dtype),
            may_attend=may_attend,
            scale=self.score_scale,
        )
        return self.output(rearrange(out_bhte, "b h t e -> b t (h e)"))

    def _queries(self, x_btm: Tensor, turns: Turns | None) -> Tensor:
        latent_btu = self.query_norm(self.query_down(x_btm))
        q_bhtd = rearrange(
            self.query_up(latent_btu), "b t (h d) -> b h t d", h=self.sizes.n_query_heads
        )
        if turns is None:
            return q_bhtd
        plain, turned = q_bhtd.split([self.sizes.nope_dim, self.sizes.rope_dim], dim=-1)
        return torch.cat([plain, turn_by(turned, turns, pairing=self.pairing)], dim=-1)

    def _latents(self, x_bsm: Tensor, turns: Turns | None) -> tuple[Tensor, Tensor]:
        key_bsr = self.rotary_key(x_bsm)
        key_bsr = key_bsr if turns is None else turn_by(key_bsr, turns, pairing=self.pairing)
        return self.kv_norm(self.kv_down(x_bsm)), key_bsr

    def _turns(
        self, positions: Tensor | None, x: Tensor, cache: LatentCache | None = None
    ) -> Turns | None:
        if self.rotary is None:
            return None
        if positions is None:
            first = 0 if cache is None else cache.n_tokens
            positions = torch.arange(first, first + x.shape[1], device="cpu")
        return self.turns(positions)

    def _require_tokens(self, name: str, x: Tensor, positions: Tensor | None) -> None:
        axes = "b s m" if name == "x_bsm" else "b t m"
        check_states(name, x, axes, self.width, self.output.weight)
        check_places("positions", positions, x, self.rotary)

    def _require_call(
        self,
        x_btm: Tensor,
        may_attend: Tensor | None,
        positions: Tensor | None,
        turns: Turns | None = None,
        cache: LatentCache | None = None,
        form: LatentForm | None = None,
    ) -> None:
        """Refuse what has no meaning, before anything is projected or appended."""
        self._require_tokens("x_btm", x_btm, positions)
        if turns is not None and (self.rotary is None or positions is not None):
            raise ValueError(
                "turns stand in place of the positions of a layer with rotary=..., got "
                f"rotary={self.rotary} and {'no ' if positions is None else ''}positions"
            )
        if form is not None:
            check_form(form)
        (b, t, _), s = x_btm.shape, x_btm.shape[1]
        if cache is not None:
            s = self._require_cache(cache, x_btm, positions, turns)
        check_mask_and_bias(may_attend, None, (b, self.sizes.n_query_heads, t, s), "x_btm", x_btm)

    def _require_cache(
        self, cache: LatentCache, x: Tensor, positions: Tensor | None, turns: Turns | None
    ) -> int:
        """Refuse a cache that is not this layer's, or whose text x does not continue; give s."""
        if not isinstance(cache, LatentCache):
            raise TypeError(
                "cache must be a LatentCache, which keeps what this layer makes of a token, got "
                f"{type(cache).__name__}"
            )
        wanted = {"b": x.shape[0], "c": self.sizes.kv_latent, "r": self.sizes.rope_dim}
        if cache.letters and cache.letters != wanted:
            raise ValueError(
                f"cache must hold what this layer keeps for x, {wanted}, got {cache.letters}"
            )
        if turns is None:
            check_stream(cache, positions)
        return cache.n_sources(x.shape[1])
