r"""A stack of blocks: what encoder and decoder have in common, from word vectors to states.

Source   Vaswani et al. 2017, arXiv:1706.03762, sections 3.1 and 3.4; Radford et al. 2019, section
         2.3 (how the weights begin)
Chapter  chapters/encoder-decoder.md
Axes     attnlib/axes.py

What enters the first layer is a sum, normed where the sizes say so:

$$x_t = N\bigl(\sqrt m\, E_{w_t} + P_{p_t} + S_{z_t}\bigr)$$

with the row of the embedding for the token's number $w_t$, multiplied only where the embedding is
scaled, and, where there are such, a vector for its position $p_t$ (learned, or sines and cosines)
and one for its segment $z_t$.
"""

from functools import reduce
from operator import and_

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.layers import Block, check_dropout, make_norm
from attnlib.masks import causal_mask, padding_mask
from attnlib.positions import Pairing, padded_positions, sinusoidal_encoding
from attnlib.sizes import ModelSizes
from attnlib.tensor_checks import check_axes, check_boolean, check_floating

__all__ = ["Stack", "reset_matrices"]

_SPREAD = 0.02


class Stack(nn.Module):
    """The blocks of an encoder or of a decoder, with what stands before and after them.

    It is given word vectors, which belong to the whole model; `Encoder` and `Decoder` are stacks
    that have their own. A target reads the tokens of its own row: all of them, or, in a causal
    stack, itself and those before it, and in a layer with a window those near it. Padding is not
    read, wherever it stands, and positions count tokens only.

    Args:
        sizes: Of the whole model.
        of_encoder: Whether these are the blocks of the encoder in a model of both.
        pairing: "half" or "interleaved", if and only if the sizes have rotary positions.
        dropout: In training mode, the probability with which a number that enters the first layer,
            or that a sub-layer adds, is set to 0.

    Raises:
        TypeError: As `Block`.
        ValueError: As `Block`.
    """

    def __init__(
        self,
        sizes: ModelSizes,
        *,
        of_encoder: bool = False,
        pairing: Pairing | None = None,
        dropout: float = 0.0,
    ) -> None:
        dropout = check_dropout(dropout)
        super().__init__()
        m = sizes.width
        n_layers = sizes.n_encoder_layers if of_encoder else sizes.n_layers
        self.sizes = sizes
        self.causal = sizes.causal and not of_encoder
        self.windows = (None,) * n_layers if of_encoder else sizes.windows
        self.reads_encoder = sizes.n_encoder_layers > 0 and not of_encoder
        self.position_embedding = (
            nn.Embedding(sizes.context, m) if sizes.learned_positions else None
        )
        self.segment_embedding = nn.Embedding(sizes.n_segments, m) if sizes.n_segments else None
        self.embedding_norm = self._norm(sizes.norm_of_embedding)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(
                sizes,
                has_window=window is not None,
                pairing=pairing,
                cross=self.reads_encoder,
                dropout=dropout,
            )
            for window in self.windows
        )
        self.end_norm = self._norm(sizes.norm_at_end)

    def states_of_words(
        self,
        words_btm: Float[Tensor, "b t m"],
        *,
        is_token: Bool[Tensor, "b t"] | None = None,
        segments: Int[Tensor, "b t"] | None = None,
        read: Float[Tensor, "b s m"] | None = None,
        may_read: Bool[Tensor, "b s"] | None = None,
    ) -> tuple[Float[Tensor, "b t m"], ...]:
        """Keep what enters each layer, and last what comes out: one more than there are layers.

        Args:
            words_btm: The rows of the embedding, as they stand there.
            is_token: False where a row is filled up; None if all are tokens.
            segments: To which part of the input a token belongs; None puts all into part 0.
            read: The output of the encoder, in a decoder that reads one.
            may_read: False where that is padding; None if all are tokens.

        Raises:
            TypeError: If `may_read` is not boolean or `read` not floating point.
            ValueError: If `read` is missing or without use, or a shape does not fit.
        """
        self._require_read(words_btm, read, may_read)
        masks, call = self._call(words_btm, is_token, read, may_read)
        states = [self.entering(words_btm, is_token=is_token, segments=segments)]
        for block, mask in zip(self.blocks, masks, strict=True):
            states.append(block(states[-1], may_attend=mask, **call))
        if self.end_norm is not None:
            states[-1] = self.end_norm(states[-1])
        return tuple(states)

    def weights_of_words(
        self,
        words_btm: Float[Tensor, "b t m"],
        *,
        is_token: Bool[Tensor, "b t"] | None = None,
        segments: Int[Tensor, "b t"] | None = None,
        read: Float[Tensor, "b s m"] | None = None,
        may_read: Bool[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "*layers b h t t"]:
        """Give the weights with which the stack reads itself, layer by layer and head by head.

        Args:
            words_btm: As in `states_of_words`.
            is_token: As in `states_of_words`.
            segments: As in `states_of_words`.
            read: As in `states_of_words`.
            may_read: As in `states_of_words`.

        Raises:
            TypeError: As `states_of_words`.
            ValueError: As `states_of_words`.
        """
        states = self.states_of_words(
            words_btm, is_token=is_token, segments=segments, read=read, may_read=may_read
        )
        masks, call = self._call(words_btm, is_token, read, may_read)
        positions = call.get("positions")
        return torch.stack(
            [
                block.attention_weights(x, may_attend=mask, positions=positions)
                for block, x, mask in zip(self.blocks, states[:-1], masks, strict=True)
            ]
        )

    def cross_weights_of_words(
        self,
        words_btm: Float[Tensor, "b t m"],
        *,
        read: Float[Tensor, "b s m"],
        is_token: Bool[Tensor, "b t"] | None = None,
        may_read: Bool[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "*layers b h t s"]:
        """Give the weights with which the encoder's output is read, layer by layer.

        Args:
            words_btm: As in `states_of_words`.
            read: As in `states_of_words`.
            is_token: As in `states_of_words`.
            may_read: As in `states_of_words`.

        Raises:
            TypeError: As `states_of_words`.
            ValueError: As `states_of_words`.
        """
        states = self.states_of_words(words_btm, is_token=is_token, read=read, may_read=may_read)
        masks, call = self._call(words_btm, is_token, read, may_read)
        return torch.stack(
            [
                block.cross_attention_weights(x, may_attend=mask, **call)
                for block, x, mask in zip(self.blocks, states[:-1], masks, strict=True)
            ]
        )

    def entering(
        self,
        words_btm: Float[Tensor, "b t m"],
        *,
        is_token: Bool[Tensor, "b t"] | None = None,
        segments: Int[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b t m"]:
        """Form what enters the first layer from the rows of the embedding.

        Args:
            words_btm: As in `states_of_words`.
            is_token: As in `states_of_words`.
            segments: As in `states_of_words`.
        """
        sizes, dtype = self.sizes, words_btm.dtype
        if sizes.scaled_embedding:
            # the factor is rounded as the weights are, which is how Gemma was trained
            words_btm = words_btm * torch.tensor(sizes.width**0.5, dtype=dtype)
        x_btm = words_btm
        if self.position_embedding is not None or sizes.sinusoidal_positions:
            positions = _positions(words_btm, is_token)
            if self.position_embedding is not None:
                x_btm = x_btm + self.position_embedding(positions)
            else:
                x_btm = x_btm + sinusoidal_encoding(positions, sizes.width, dtype=dtype)
        if self.segment_embedding is not None:
            if segments is None:
                segments = torch.zeros(
                    words_btm.shape[:2], dtype=torch.int64, device=words_btm.device
                )
            x_btm = x_btm + self.segment_embedding(segments)
        if self.embedding_norm is not None:
            x_btm = self.embedding_norm(x_btm)
        return self.dropout(x_btm)

    def _norm(self, needed: bool) -> nn.Module | None:
        sizes = self.sizes
        return make_norm(sizes.norm, sizes.width, eps=sizes.norm_epsilon) if needed else None

    def _call(
        self,
        words_btm: Tensor,
        is_token: Tensor | None,
        read: Tensor | None,
        may_read: Tensor | None,
    ) -> tuple[list[Tensor | None], dict[str, Tensor | None]]:
        """Give the mask of each layer, and what all blocks are given besides."""
        call = {}
        if self.sizes.rotary is not None:
            call["positions"] = _positions(words_btm, is_token)
        if self.reads_encoder:
            call |= {"read": read, "may_read": None if may_read is None else padding_mask(may_read)}
        masks = {window: self._mask(words_btm, is_token, window) for window in set(self.windows)}
        return [masks[window] for window in self.windows], call

    def _mask(
        self, words_btm: Tensor, is_token: Tensor | None, window: int | None
    ) -> Tensor | None:
        masks = []
        if self.causal:
            masks.append(causal_mask(words_btm.shape[1], device=words_btm.device))
        if is_token is not None:
            masks.append(padding_mask(is_token))
        if window is not None:
            # by positions and not by places: padding may stand between two tokens
            positions = torch.atleast_2d(_positions(words_btm, is_token))
            steps_b1ts = (positions[:, None, :, None] - positions[:, None, None, :]).abs()
            masks.append(steps_b1ts < window)
        return reduce(and_, masks) if masks else None

    def _require_read(
        self, words_btm: Tensor, read: Tensor | None, may_read: Tensor | None
    ) -> None:
        if not self.reads_encoder:
            if read is not None or may_read is not None:
                raise ValueError(
                    "read and may_read are for a decoder beside an encoder, got them and "
                    f"n_encoder_layers={self.sizes.n_encoder_layers} in {self.sizes.name}"
                )
            return
        if read is None:
            raise ValueError(
                f"the decoder of {self.sizes.name} reads the output of an encoder, got read=None"
            )
        check_floating("read", read)
        check_axes("read", read, "b s m")
        b, m = words_btm.shape[0], self.sizes.width
        if (read.shape[0], read.shape[2]) != (b, m) or not read.shape[1]:
            raise ValueError(
                f"read must have the axes (b, s, m) with b={b}, at least 1 source and m={m}, got "
                f"shape {tuple(read.shape)}"
            )
        kind = read.device.type
        cast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
        if read.dtype != words_btm.dtype and not cast:
            raise TypeError(
                f"read must have the dtype of the model, got {read.dtype} and a model in "
                f"{words_btm.dtype}"
            )
        if may_read is not None:
            check_boolean("may_read", may_read, "may be read")
            if may_read.shape != read.shape[:2]:
                raise ValueError(
                    f"may_read must have the axes (b, s) of read, {tuple(read.shape[:2])}, got "
                    f"{tuple(may_read.shape)}"
                )


def reset_matrices(model: nn.Module, generator: torch.Generator | None = None) -> None:
    r"""Draw all weights anew, as GPT-2 begins.

    Matrices, embeddings and learned positions get independent entries from N(0, 0.02²), biases 0,
    weights of norms 1. The matrices whose products are added to the residual stream (`output` of an
    attention, `narrow`) are drawn smaller by the root of their number in the stack, so that the sum
    of what they add has the same size in a deep stack as in a shallow one: N(0, 0.02²/(2L)) in L
    layers of two sub-layers. A scaled embedding gets N(0, 1/m) instead: multiplied by the root of
    m, it enters with variance 1.

    Args:
        model: Whose weights.
        generator: From which they come; None means torch's own.
    """
    added = {}
    for stack in (module for module in model.modules() if isinstance(module, Stack)):
        matrices = [
            linear
            for block in stack.blocks
            for linear in (
                block.attention.output,
                block.feed_forward.narrow,
                *([block.cross_attention.output] if stack.reads_encoder else []),
            )
        ]
        added |= {linear: _SPREAD / len(matrices) ** 0.5 for linear in matrices}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            spread = added.get(module, _SPREAD)
            if name.endswith("word_embedding") and model.sizes.scaled_embedding:
                spread = model.sizes.width**-0.5
            nn.init.normal_(module.weight, std=spread, generator=generator)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.LayerNorm | nn.RMSNorm):
            module.reset_parameters()


def _positions(words_btm: Tensor, is_token: Tensor | None) -> Tensor:
    if is_token is None:
        return torch.arange(words_btm.shape[1], device=words_btm.device)
    return padded_positions(is_token)
