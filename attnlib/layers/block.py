r"""The block: attention and a feed-forward network, each with a shortcut around it and norms.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.1 (norm after the sum); Xiong et al. 2020,
         arXiv:2002.04745 (norm before); Kim et al. 2025, arXiv:2502.02732 (norms on both sides)
Chapter  chapters/encoder-decoder.md
Axes     attnlib/axes.py

Each sub-layer F adds something to the residual stream x, and `ModelSizes.norm_placement` says where
the norms N stand:

| placement | what leaves the sub-layer | models |
|---|---|---|
| "post" | N(x + F(x)) | Vaswani et al., BERT, BART |
| "pre" | x + F(N(x)) | GPT-2, Llama |
| "peri" | x + N′(F(N(x))) | Gemma 2 and 3 |
"""

from collections.abc import Callable
from dataclasses import replace

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib import require
from attnlib.caches import CrossCache, LayerCache
from attnlib.layers.experts import MixtureOfExperts
from attnlib.layers.feed_forward import FeedForward
from attnlib.layers.latent_self_attention import LatentSelfAttention
from attnlib.layers.multi_head_attention import MultiHeadAttention
from attnlib.layers.norms import make_norm
from attnlib.positions import Pairing, Turns
from attnlib.sizes import LatentAttentionSizes, ModelSizes, RotarySizes
from attnlib.tensor_checks import check_axes, check_floating

__all__ = ["Block", "check_dropout"]


class Block(nn.Module):
    r"""One layer of a Transformer: mix the tokens, then work on each by itself.

    The sub-layers are, one after another: `attention`, in which x reads itself; where `cross` is
    True, `cross_attention`, in which x reads the output of an encoder; and `feed_forward`. Each has
    its norm, `attention_norm` and so on, and with "peri" a second one, `attention_out_norm` and so
    on. Cross-attention has no rotary positions: a target and a source have no distance.

    In a layer with experts `feed_forward` is a `MixtureOfExperts`.

    With `LatentAttentionSizes` the attention is a `LatentSelfAttention`, which has no
    cross-attention beside it and no window.

    Dropout, in training mode only, sets numbers of what a sub-layer adds to 0, each with the given
    probability, and divides the others by what remains.

    Args:
        sizes: Of the whole model.
        has_window: Whether this layer is one of those with the sliding window. The mask is given to
            `forward`; here it decides about the base of the rotary positions, which these layers
            have from `window_base` where there is one, without `scaling`.
        pairing: "half" or "interleaved", if and only if the sizes have rotary positions.
        cross: Whether there is cross-attention.
        has_experts: Whether this layer is one of those with experts in place of one network.
        dropout: The probability, from 0 to below 1.

    Raises:
        TypeError: If `sizes` are no ModelSizes or the probability no number.
        ValueError: If the sizes have a latent beside cross-attention or a window, `has_window` is
            True and they have no window, `has_experts` is True and they have none or those of
            another kind than `MixtureOfExperts` is, `pairing` does not fit, or the probability is
            not in its range.

    Example:
        >>> from attnlib import PUBLISHED
        >>> block = Block(PUBLISHED["minilm-l6"])
        >>> sum(p.numel() for p in block.parameters())
        1774464
    """

    def __init__(
        self,
        sizes: ModelSizes,
        *,
        has_window: bool = False,
        pairing: Pairing | None = None,
        cross: bool = False,
        has_experts: bool = False,
        dropout: float = 0.0,
    ) -> None:
        _require_parts(sizes, has_window, cross, has_experts)
        dropout = check_dropout(dropout)
        super().__init__()
        m, heads = sizes.width, sizes.attention
        self.placement, self.width = sizes.norm_placement, m
        has_latent = isinstance(heads, LatentAttentionSizes)
        normed = has_latent or heads.query_key_norm
        epsilon = {"norm_epsilon": sizes.norm_epsilon} if normed else {}
        rotary = _rotary(sizes, has_window)

        def norm(needed: bool = True) -> nn.Module | None:
            return make_norm(sizes.norm, m, eps=sizes.norm_epsilon) if needed else None

        peri = sizes.norm_placement == "peri"
        kind = LatentSelfAttention if has_latent else MultiHeadAttention
        self.attention = kind(m, heads, rotary=rotary, pairing=pairing, **epsilon)
        self.attention_norm, self.attention_out_norm = norm(), norm(peri)
        self.cross_attention = MultiHeadAttention(m, heads, **epsilon) if cross else None
        self.cross_attention_norm = norm(cross)
        self.cross_attention_out_norm = norm(cross and peri)
        network = {
            "activation": sizes.activation,
            "gated": sizes.gated,
            "biases": sizes.feed_forward_biases,
        }
        self.feed_forward = (
            MixtureOfExperts(m, sizes.experts, **network)
            if has_experts
            else FeedForward(m, sizes.feed_forward_width, **network)
        )
        self.feed_forward_norm, self.feed_forward_out_norm = norm(), norm(peri)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x_btm: Float[Tensor, "b t m"],
        *,
        read: Float[Tensor, "b s m"] | None = None,
        may_attend: Bool[Tensor, "..."] | None = None,
        may_read: Bool[Tensor, "..."] | None = None,
        positions: Int[Tensor, "..."] | None = None,
        turns: Turns | None = None,
        cache: LayerCache | None = None,
        cross_cache: CrossCache | None = None,
    ) -> Float[Tensor, "b t m"]:
        """Let each token read, and work on it.

        Args:
            x_btm: What the layer before made of each token.
            read: The output of the encoder; it or `cross_cache` is given if and only if there is
                cross-attention.
            may_attend: True where a target may read a token of x; broadcasts to (b, h, t, t), and
                with a cache to (b, h, t, s).
            may_read: True where a target may read a token of `read`; broadcasts to (b, h, t, s).
            positions: Where the tokens of x stand, (t,) or (b, t), with rotary positions only;
                None means 0, 1, …, and with a cache the places after those that it has.
            turns: As in `MultiHeadAttention.forward`.
            cache: What the self-attention keeps of the tokens before x.
            cross_cache: The keys and values that the cross-attention makes of `read`.

        Raises:
            TypeError: As `MultiHeadAttention`.
            ValueError: As `MultiHeadAttention`, and if `read` is missing or without use.
        """
        self._require_read(read, may_read, x_btm, cross_cache)
        y_btm = self._attended(x_btm, may_attend, positions, turns, cache)
        if self.cross_attention is not None:
            y_btm = self._added(
                y_btm,
                lambda z: self.cross_attention(z, read, may_attend=may_read, cache=cross_cache),
                self.cross_attention_norm,
                self.cross_attention_out_norm,
            )
        return self._added(
            y_btm, self.feed_forward, self.feed_forward_norm, self.feed_forward_out_norm
        )

    def attention_weights(
        self,
        x_btm: Float[Tensor, "b t m"],
        *,
        may_attend: Bool[Tensor, "..."] | None = None,
        positions: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "b h t t"]:
        """Give the weights with which `forward` lets x read itself.

        Args:
            x_btm: As in `forward`.
            may_attend: As in `forward`.
            positions: As in `forward`.

        Raises:
            TypeError: As `forward`.
            ValueError: As `forward`.
        """
        return self.attention.weights(
            self._before(x_btm, self.attention_norm), may_attend=may_attend, positions=positions
        )

    def cross_attention_weights(
        self,
        x_btm: Float[Tensor, "b t m"],
        *,
        read: Float[Tensor, "b s m"],
        may_attend: Bool[Tensor, "..."] | None = None,
        may_read: Bool[Tensor, "..."] | None = None,
        positions: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "b h t s"]:
        """Give the weights with which `forward` reads the output of the encoder.

        Args:
            x_btm: As in `forward`.
            read: As in `forward`.
            may_attend: As in `forward`.
            may_read: As in `forward`.
            positions: As in `forward`.

        Raises:
            TypeError: As `forward`.
            ValueError: As `forward`, and if there is no cross-attention.
        """
        self._require_read(read, may_read, x_btm)
        y_btm = self._attended(x_btm, may_attend, positions)
        return self.cross_attention.weights(
            self._before(y_btm, self.cross_attention_norm), read, may_attend=may_read
        )

    def _attended(
        self,
        x_btm: Tensor,
        may_attend: Tensor | None,
        positions: Tensor | None,
        turns: Turns | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        call = {"may_attend": may_attend, "positions": positions, "turns": turns, "cache": cache}
        return self._added(
            x_btm,
            lambda z: self.attention(z, **call),
            self.attention_norm,
            self.attention_out_norm,
        )

    def _added(
        self,
        x_btm: Tensor,
        sub_layer: Callable[[Tensor], Tensor],
        norm: nn.Module,
        out_norm: nn.Module | None,
    ) -> Tensor:
        """The shortcut, with the norms where the placement has them."""
        added_btm = sub_layer(self._before(x_btm, norm))
        if out_norm is not None:
            added_btm = out_norm(added_btm)
        y_btm = x_btm + self.dropout(added_btm)
        return norm(y_btm) if self.placement == "post" else y_btm

    def _before(self, x_btm: Tensor, norm: nn.Module) -> Tensor:
        return x_btm if self.placement == "post" else norm(x_btm)

    def _require_read(
        self,
        read: Tensor | None,
        may_read: Tensor | None,
        x_btm: Tensor,
        cross_cache: CrossCache | None = None,
    ) -> None:
        if self.cross_attention is None:
            if not (read is None and may_read is None and cross_cache is None):
                raise ValueError(
                    "read, may_read and cross_cache belong to cross-attention, and this block has "
                    "none (cross=False)"
                )
            return
        if cross_cache is not None:
            self._require_cross_cache(cross_cache, read)
            return
        if read is None:
            raise ValueError("read must be given to a block with cross-attention, got None")
        check_floating("read", read)
        check_axes("read", read, "b s m")
        wanted = (x_btm.shape[0], self.width)
        if (read.shape[0], read.shape[2]) != wanted:
            raise ValueError(
                f"read must have the axes (b, s, m) with b={wanted[0]} and m={wanted[1]}, got "
                f"shape {tuple(read.shape)}"
            )

    def _require_cross_cache(self, cross_cache: CrossCache, read: Tensor | None) -> None:
        if not isinstance(cross_cache, CrossCache):
            raise TypeError(f"cross_cache must be a CrossCache, got {type(cross_cache).__name__}")
        if read is not None:
            raise ValueError("cross_cache stands in place of read, got both")


def check_dropout(dropout: float) -> float:
    """Refuse what is no probability below 1.

    Example:
        >>> check_dropout(1.0)
        Traceback (most recent call last):
        ValueError: dropout must be at least 0 and below 1, got 1.0
    """
    dropout = require.number("dropout", dropout)
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be at least 0 and below 1, got {dropout}")
    return dropout


def _rotary(sizes: ModelSizes, has_window: bool) -> RotarySizes | None:
    if sizes.rotary is None or not has_window:
        return sizes.rotary
    base = sizes.rotary.base if sizes.rotary.window_base is None else sizes.rotary.window_base
    return replace(sizes.rotary, base=base, scaling=None)


def _require_parts(sizes: ModelSizes, has_window: bool, cross: bool, has_experts: bool) -> None:
    if not isinstance(sizes, ModelSizes):
        raise TypeError(f"sizes must be ModelSizes, got {type(sizes).__name__}")
    if isinstance(sizes.attention, LatentAttentionSizes) and (cross or has_window):
        raise ValueError(
            "a block with cross-attention or a window has AttentionSizes, got "
            f"LatentAttentionSizes in {sizes.name}"
        )
    if has_experts and sizes.experts is None:
        raise ValueError(f"has_experts=True needs experts, got experts=None in {sizes.name}")
    if has_window and sizes.window is None:
        raise ValueError(f"has_window=True needs a window, got window=None in {sizes.name}")
