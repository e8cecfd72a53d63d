r"""Multi-head attention as a layer, in which heads may share keys and values.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2 (heads); Shazeer 2019,
         arXiv:1911.02150, section 3 (one key/value head); Ainslie et al. 2023, arXiv:2305.13245,
         section 2.2 (shared key/value heads); Henry et al. 2020, arXiv:2010.04245 (normed queries
         and keys)
Chapter  chapters/multi-head-attention.md
Axes     attnlib/axes.py

A layer holds weights and calls the functions of `attention` and `positions`; there is no second
formula here, and what `attention` does not support, a layer does not either. Its weights stand as
torch.nn.Linear has them, a row for each number that comes out:

| module | weight | rows |
|---|---|---|
| query | (h·d, m) | head i has the rows from i·d to (i + 1)·d |
| key | (g·d, m) | key/value head j has the rows from j·d to (j + 1)·d |
| value | (g·e, m) | key/value head j has the rows from j·e to (j + 1)·e |
| output | (m, h·e) | head i has the **columns** from i·e to (i + 1)·e |
| query_norm, key_norm | (d,) | one weight for each coordinate, shared by all heads |

    >>> from attnlib import AttentionSizes
    >>> sizes = AttentionSizes(n_query_heads=6, n_kv_heads=2, head_dim=4, value_dim=5)
    >>> layer = MultiHeadAttention(7, sizes)
    >>> for name, weight in layer.named_parameters():
    ...     print(name, tuple(weight.shape))
    query.weight (24, 7)
    key.weight (8, 7)
    value.weight (10, 7)
    output.weight (7, 30)
"""

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib import require
from attnlib.attention import attention_weights, check_mask_and_bias, grouped_query_attention
from attnlib.caches import CrossCache, LayerCache
from attnlib.layers.inputs import check_places, check_states, check_stream, note_positions
from attnlib.layers.norms import RMSNorm
from attnlib.layers.rotary import check_rotary, frequencies_of
from attnlib.positions import Pairing, Turns, turn_by, turns_at
from attnlib.sizes import AttentionSizes, RotarySizes

__all__ = ["MultiHeadAttention"]

_NORM_EPSILON = 1e-6


class MultiHeadAttention(nn.Module):
    r"""Let h heads attend, each in its own coordinates, and add up what they bring.

    $$y_t = \sum_{i=1}^{h} W^O_i\, o_{i,t} + b^O, \qquad o_{i,t} = \sum_s \operatorname{softmax}_s
    \!\big(\alpha\, q_{i,t} \cdot k_{\lfloor i/p \rfloor,s}\big)\, v_{\lfloor i/p \rfloor,s}$$

    with $q_{i,t} = W^Q_i x_t + b^Q_i$, and $k_{j,s}$ and $v_{j,s}$ in the same way from what is
    read: x itself (self-attention) or something else (cross-attention). With g = h this is
    multi-head attention, with g = 1 multi-query attention. Keys and values are never copied out to
    h heads. Neither d nor e need be m/h.

    Where the sizes say so, each query and key is divided by its root mean square and multiplied by
    a weight a coordinate. Where there are rotary positions, both are turned after that. YaRN's
    factor multiplies $\alpha$.

    A token that may not be read has no influence on the outputs of the others, even if it holds
    NaN. It has one on the gradients of the matrices: these multiply it by a gradient of 0, and
    0 · NaN = NaN.

    The matrices begin with independent entries from N(0, 1/fan_in), the biases with 0. Over these
    draws, each coordinate of the query, key and value of a token has the variance |x|²/m, the mean
    square of the token's own coordinates. So tokens of mean square 1 have scores of variance 1,
    where $\alpha = 1/\sqrt d$ and nothing is normed. torch.nn.Linear's own beginning, uniform
    within $\pm 1/\sqrt{\text{fan\_in}}$, has the variance 1/(3 fan_in), which makes scores of
    variance 1/9.

    Args:
        width: m, of x and of what comes out.
        sizes: h, g, d, e, the scale, and whether there are biases and norms.
        rotary: Rotary positions, or None. The frequencies are those of its `base` and `scaling`; a
            layer with a sliding window of a model that has a `window_base` is given
            `RotarySizes(base=window_base)`.
        pairing: "half" or "interleaved", as `rotate` has it; given if and only if `rotary` is.
        source_width: The width of what is read; None means m.
        norm_epsilon: What is added to the mean square in the norms of queries and keys; another
            number than 10⁻⁶ is refused where there are none.

    Raises:
        TypeError: If a width is not a whole number, `sizes` not AttentionSizes or `rotary` not
            RotarySizes.
        ValueError: If a width is below 1, `pairing` is missing, unknown or without `rotary`, d is
            odd with `rotary`, or `norm_epsilon` is not above 0 or without use.

    Example:
        >>> sizes = AttentionSizes(n_query_heads=6, n_kv_heads=2, head_dim=4, value_dim=5)
        >>> layer = MultiHeadAttention(7, sizes)
        >>> x = torch.randn(2, 9, 7)
        >>> tuple(layer(x).shape), tuple(layer.weights(x).shape)
        ((2, 9, 7), (2, 6, 9, 9))
    """

    def __init__(
        self,
        width: int,
        sizes: AttentionSizes,
        *,
        rotary: RotarySizes | None = None,
        pairing: Pairing | None = None,
        source_width: int | None = None,
        norm_epsilon: float = _NORM_EPSILON,
    ) -> None:
        width = require.at_least("width (m)", width, 1)
        source_width = width if source_width is None else source_width
        source_width = require.at_least("source_width", source_width, 1)
        norm_epsilon = require.positive("norm_epsilon", norm_epsilon)
        _require_heads(sizes, rotary, pairing, norm_epsilon)
        super().__init__()
        h, g, d, e = sizes.n_query_heads, sizes.n_kv_heads, sizes.head_dim, sizes.value_dim
        self.width, self.source_width = width, source_width
        self.sizes, self.rotary, self.pairing = sizes, rotary, pairing
        self.score_scale = sizes.score_scale * (1.0 if rotary is None else rotary.score_factor)
        # no buffer: these stay in fp64 whatever the weights are cast to
        self._frequencies = None if rotary is None else frequencies_of(rotary, d)
        self.query = nn.Linear(width, h * d, bias=sizes.biases)
        self.key = nn.Linear(source_width, g * d, bias=sizes.biases)
        self.value = nn.Linear(source_width, g * e, bias=sizes.biases)
        self.output = nn.Linear(h * e, width, bias=sizes.biases)
        normed = sizes.query_key_norm
        self.query_norm = RMSNorm(d, eps=norm_epsilon) if normed else None
        self.key_norm = RMSNorm(d, eps=norm_epsilon) if normed else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the matrices from N(0, 1/fan_in) anew; biases become 0, weights of norms 1."""
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.normal_(projection.weight, std=projection.in_features**-0.5)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)
        for norm in (self.query_norm, self.key_norm):
            if norm is not None:
                norm.reset_parameters()

    def queries(
        self, x_btm: Float[Tensor, "b t m"], positions: Int[Tensor, "..."] | None = None
    ) -> Float[Tensor, "b h t d"]:
        """Give the queries as they enter the scores: normed and turned where the layer does that.

        Args:
            x_btm: What asks.
            positions: As in `forward`; None means 0, 1, … where the layer has rotary positions.

        Raises:
            TypeError: As `forward`.
            ValueError: As `forward`.
        """
        self._require_tokens("x_btm", x_btm, "b t m", self.width)
        self._require_positions("positions", positions, x_btm)
        return self._queries(x_btm, self._turns(positions, x_btm))

    def keys(
        self, x_bsm: Float[Tensor, "b s m"], positions: Int[Tensor, "..."] | None = None
    ) -> Float[Tensor, "b g s d"]:
        """Give the keys as they enter the scores: normed and turned where the layer does that.

        Args:
            x_bsm: What is read; m is `source_width` here.
            positions: As in `forward`; None means 0, 1, … where the layer has rotary positions.

        Raises:
            TypeError: As `forward`.
            ValueError: As `forward`.
        """
        self._require_tokens("x_bsm", x_bsm, "b s m", self.source_width)
        self._require_positions("positions", positions, x_bsm)
        return self._keys(x_bsm, self._turns(positions, x_bsm))

    def values(self, x_bsm: Float[Tensor, "b s m"]) -> Float[Tensor, "b g s e"]:
        """Give the values; they know nothing of positions.

        Args:
            x_bsm: What is read; m is `source_width` here.

        Raises:
            TypeError: As `forward`.
            ValueError: As `forward`.
        """
        self._require_tokens("x_bsm", x_bsm, "b s m", self.source_width)
        return self._values(x_bsm)

    def turns(self, positions: Int[Tensor, "..."]) -> Turns | None:
        """Form what turns queries and keys at these positions, for `forward` to use again.

        Layers with the same rotary positions turn alike, so that a model forms this once for all
        of them.

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
        weight = self.query.weight
        return turns_at(positions, self._frequencies, dtype=weight.dtype, device=weight.device)

    def weights(
        self,
        x_btm: Float[Tensor, "b t m"],
        read_bsm: Float[Tensor, "b s *width"] | None = None,
        *,
        may_attend: Bool[Tensor, "..."] | None = None,
        bias: Float[Tensor, "..."] | None = None,
        positions: Int[Tensor, "..."] | None = None,
        read_positions: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "b h t s"]:
        """Show with which weight each target of each head reads each source.

        The weights with which `forward` averages, from the same queries and keys.

        Args:
            x_btm: As in `forward`.
            read_bsm: As in `forward`.
            may_attend: As in `forward`.
            bias: As in `forward`.
            positions: As in `forward`.
            read_positions: As in `forward`.

        Returns:
            Rows are targets, columns are sources; each row sums to one, or to zero where there is
            nothing to read.

        Raises:
            TypeError: As `forward`.
            ValueError: As `forward`.
        """
        self._require_call(x_btm, read_bsm, may_attend, bias, positions, read_positions)
        turns = self._turns(positions, x_btm)
        read_turns = turns if read_bsm is None else self._turns(read_positions, read_bsm)
        return attention_weights(
            self._queries(x_btm, turns),
            self._keys(x_btm if read_bsm is None else read_bsm, read_turns),
            may_attend=may_attend,
            bias=bias,
            scale=self.score_scale,
        )

    def forward(
        self,
        x_btm: Float[Tensor, "b t m"],
        read_bsm: Float[Tensor, "b s *width"] | None = None,
        *,
        may_attend: Bool[Tensor, "..."] | None = None,
        bias: Float[Tensor, "..."] | None = None,
        positions: Int[Tensor, "..."] | None = None,
        read_positions: Int[Tensor, "..."] | None = None,
        turns: Turns | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "b t m"]:
        """Let each token of x read x, or something else, in all heads.

        With a cache, x is the next chunk of a stream: its keys and values are appended, and it
        reads all that the cache then gives. What a target of the chunk may read is for the mask to
        say, as without a cache. A `CrossCache` is read as it is, in place of `read_bsm`.

        Args:
            x_btm: What asks.
            read_bsm: What is read; None means x itself.
            may_attend: True where target t may read source s; broadcasts to (b, h, t, s); None lets
                all be read. A target with nothing to read gets the bias of the output alone. With a
                cache, s are the sources at its `places(t)`.
            bias: Added to the scaled scores; broadcasts to (b, h, t, s). −∞ forbids reading.
            positions: Where the tokens of x stand, (t,) or a row for each batch element, (b, t);
                only with rotary positions. None means 0, 1, … if x reads itself, and with a cache
                the places after those that it has.
            read_positions: Where the tokens that are read stand, (s,) or (b, s); given if and only
                if `read_bsm` is and the layer has rotary positions.
            turns: What `turns` gave for the positions, in their place; not looked at again.
            cache: What the layer keeps of the tokens before x, or of what is read.

        Returns:
            One row of width m for each token of x. Residual connection and norm belong to the
            block around this layer.

        Raises:
            TypeError: If x or what is read is not floating point of the weights' dtype, the mask
                not boolean, the bias not floating point or the positions not whole numbers.
            ValueError: If a shape or a device does not fit, x is to read itself in a layer that
                reads another width, positions are missing, negative or without use, or those of a
                chunk do not go on from those before it; and as `append` of the cache, which is
                then unchanged.
        """
        self._require_call(
            x_btm, read_bsm, may_attend, bias, positions, read_positions, turns, cache
        )
        if turns is None:
            turns = self._turns(positions, x_btm, cache)
        q_bhtd = self._queries(x_btm, turns)
        if isinstance(cache, CrossCache):
            k_bgsd, v_bgse = cache.read()
        elif read_bsm is not None:
            k_bgsd = self._keys(read_bsm, self._turns(read_positions, read_bsm))
            v_bgse = self._values(read_bsm)
        else:
            k_bgsd, v_bgse = self._keys(x_btm, turns), self._values(x_btm)
            if cache is not None:
                k_bgsd, v_bgse = cache.append(k_bgsd, v_bgse)
                note_positions(cache, positions, self.rotary)
        out_bhte = grouped_query_attention(
            q_bhtd,
            k_bgsd,
            v_bgse,
            may_attend=may_attend,
            bias=bias,
            scale=self.score_scale,
        )
        return self.output(rearrange(out_bhte, "b h t e -> b t (h e)"))

    def _queries(self, x_btm: Tensor, turns: Turns | None) -> Tensor:
        q_bhtd = _split(self.query(x_btm), self.sizes.n_query_heads)
        return self._normed_and_turned(q_bhtd, self.query_norm, turns)

    def _keys(self, x_bsm: Tensor, turns: Turns | None) -> Tensor:
        k_bgsd = _split(self.key(x_bsm), self.sizes.n_kv_heads)
        return self._normed_and_turned(k_bgsd, self.key_norm, turns)

    def _values(self, x_bsm: Tensor) -> Tensor:
        return _split(self.value(x_bsm), self.sizes.n_kv_heads)

    def _normed_and_turned(
        self, heads: Tensor, norm: nn.Module | None, turns: Turns | None
    ) -> Tensor:
        heads = heads if norm is None else norm(heads)
        return heads if turns is None else turn_by(heads, turns, pairing=self.pairing)

    def _turns(
        self, positions: Tensor | None, x: Tensor, cache: LayerCache | None = None
    ) -> Turns | None:
        if self.rotary is None:
            return None
        if positions is None:
            first = 0 if cache is None else cache.n_tokens
            positions = torch.arange(first, first + x.shape[1], device="cpu")
        return self.turns(positions)

    def _require_call(
        self,
        x_btm: Tensor,
        read_bsm: Tensor | None,
        may_attend: Tensor | None,
        bias: Tensor | None,
        positions: Tensor | None,
        read_positions: Tensor | None,
        turns: Turns | None = None,
        cache: LayerCache | None = None,
    ) -> None:
        """Refuse what has no meaning, before anything is projected or appended."""
        self._require_tokens("x_btm", x_btm, "b t m", self.width)
        self._require_positions("positions", positions, x_btm)
        if turns is not None and (self.rotary is None or positions is not None):
            raise ValueError(
                "turns stand in place of the positions of a layer with rotary=..., got "
                f"rotary={self.rotary} and {'no ' if positions is None else ''}positions"
            )
        (b, t, _), s = x_btm.shape, x_btm.shape[1]
        if cache is not None:
            s = self._require_cache(cache, x_btm, read_bsm, positions, turns)
        if read_bsm is not None:
            self._require_read(x_btm, read_bsm, positions, read_positions)
            s = read_bsm.shape[1]
        elif not isinstance(cache, CrossCache) and self.source_width != self.width:
            raise ValueError(
                "x can read itself only where source_width is m, got "
                f"source_width={self.source_width} and m={self.width}; give read_bsm"
            )
        elif read_positions is not None:
            raise ValueError(
                "read_positions belong to read_bsm, got them without it; where x reads itself "
                "its positions are positions"
            )
        check_mask_and_bias(may_attend, bias, (b, self.sizes.n_query_heads, t, s), "x_btm", x_btm)

    def _require_cache(
        self,
        cache: LayerCache,
        x_btm: Tensor,
        read_bsm: Tensor | None,
        positions: Tensor | None,
        turns: Turns | None,
    ) -> int:
        """Refuse a cache that is not this layer's, or whose text x does not continue; give s."""
        if not isinstance(cache, LayerCache):
            raise TypeError(
                f"cache must be the cache of a layer, such as KVCache, got {type(cache).__name__}"
            )
        if read_bsm is not None:
            raise ValueError(
                "read_bsm and cache are two ways to say what is read, got both; a CrossCache holds "
                "the keys and values of what is read"
            )
        b, t, _ = x_btm.shape
        wanted = {"b": b, "g": self.sizes.n_kv_heads, "d": self.sizes.head_dim}
        wanted["e"] = self.sizes.value_dim
        if cache.letters and cache.letters != wanted:
            raise ValueError(
                f"cache must hold what this layer keeps for x, {wanted}, got {cache.letters}"
            )
        if isinstance(cache, CrossCache):
            if self.rotary is not None and positions is None and turns is None:
                raise ValueError(
                    "with rotary positions and a CrossCache positions must be given, got None"
                )
            return cache.n_tokens
        if turns is None:
            check_stream(cache, positions)
        return cache.n_sources(t)

    def _require_read(
        self,
        x_btm: Tensor,
        read_bsm: Tensor,
        positions: Tensor | None,
        read_positions: Tensor | None,
    ) -> None:
        self._require_tokens("read_bsm", read_bsm, "b s m", self.source_width)
        self._require_positions("read_positions", read_positions, read_bsm)
        if x_btm.shape[0] != read_bsm.shape[0]:
            raise ValueError(
                f"x_btm and read_bsm must have the same b, got b={x_btm.shape[0]} in x_btm and "
                f"b={read_bsm.shape[0]} in read_bsm"
            )
        given = [p is not None for p in (positions, read_positions)]
        if self.rotary is not None and not all(given):
            raise ValueError(
                "with rotary positions and read_bsm, both positions and read_positions must be "
                f"given, got {dict(zip(('positions', 'read_positions'), given, strict=True))}"
            )

    def _require_tokens(self, name: str, x: Tensor, axes: str, width: int) -> None:
        check_states(name, x, axes, width, self.query.weight)

    def _require_positions(self, name: str, positions: Tensor | None, x: Tensor) -> None:
        check_places(name, positions, x, self.rotary)


def _split(x: Tensor, n_heads: int) -> Tensor:
    """Head i is the i-th run of neighbouring columns."""
    return rearrange(x, "b token (head width) -> b head token width", head=n_heads)


def _require_heads(
    sizes: AttentionSizes, rotary: RotarySizes | None, pairing: Pairing | None, epsilon: float
) -> None:
    if not isinstance(sizes, AttentionSizes):
        raise TypeError(
            "sizes must be AttentionSizes, in which query heads share keys and values, got "
            f"{type(sizes).__name__}"
        )
    if not sizes.query_key_norm and epsilon != _NORM_EPSILON:
        raise ValueError(
            "norm_epsilon belongs to the norms of queries and keys, got "
            f"norm_epsilon={epsilon} and query_key_norm=False"
        )
    check_rotary(rotary, pairing, "d", sizes.head_dim)
