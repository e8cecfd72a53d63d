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

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.caches import (
    CrossCache,
    KVCache,
    LatentCache,
    LayerCache,
    ModelCache,
    WindowCache,
)
from attnlib.layers import Block, check_dropout, make_norm
from attnlib.masks import causal_mask, padding_mask
from attnlib.positions import Pairing, Turns, padded_positions, sinusoidal_encoding
from attnlib.sizes import LatentAttentionSizes, ModelSizes
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
        first_with_experts = n_layers - sizes.n_expert_layers
        self.blocks = nn.ModuleList(
            Block(
                sizes,
                has_window=window is not None,
                pairing=pairing,
                cross=self.reads_encoder,
                has_experts=i >= first_with_experts,
                dropout=dropout,
            )
            for i, window in enumerate(self.windows)
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
        cache: ModelCache | None = None,
    ) -> tuple[Float[Tensor, "b t m"], ...]:
        """Keep what enters each layer, and last what comes out: one more than there are layers.

        Args:
            words_btm: The rows of the embedding, as they stand there.
            is_token: False where a row is filled up; None if all are tokens.
            segments: To which part of the input a token belongs; None puts all into part 0.
            read: The output of the encoder, in a decoder that reads one.
            may_read: False where that is padding; None if all are tokens.
            cache: What `new_cache` gave. The words are then the next chunk of each row, and the
                result is that of their places in the whole row. `read` is in the cache.

        Raises:
            TypeError: If `may_read` is not boolean, `read` not floating point, or the cache that
                of no model.
            ValueError: If `read` is missing or without use, or a shape does not fit; and, with a
                cache, if the stack is not causal, the cache is another model's or of another b,
                has no room, or the rows get longer than the model's context. The cache is then
                unchanged.
        """
        self._require_read(words_btm, read, may_read, cache)
        if cache is not None:
            self.check_cache(cache, words_btm, is_token)
        rows = _rows(words_btm, is_token, cache)
        states = [self._entering(words_btm, rows, segments)]
        calls = self._calls(words_btm, rows, read, may_read, cache)
        with nullcontext() if cache is None else cache.writing(rows.is_token):
            for block, call in zip(self.blocks, calls, strict=True):
                states.append(block(states[-1], **call))
            if self.end_norm is not None:
                states[-1] = self.end_norm(states[-1])
        return tuple(states)

    def new_cache(
        self,
        *,
        read: Float[Tensor, "b s m"] | None = None,
        may_read: Bool[Tensor, "b s"] | None = None,
        capacity: int | None = None,
        storage: str | None = None,
    ) -> ModelCache:
        """Make a cache for one text, or a batch of texts, that comes in chunks.

        A layer with a window keeps the tokens of its window, another one all; one with a latent
        keeps that in place of keys and values. The keys and values of the encoder's output are made
        here, once.

        Args:
            read: The output of the encoder, in a decoder that reads one.
            may_read: False where that is padding; None if all are tokens.
            capacity: How many tokens a row has at most, its padding included, so that memory is
                taken once; None lets it grow.
            storage: As in `KVCache`.

        Raises:
            TypeError: As `states_of_words`, and if the capacity is not a whole number.
            ValueError: As `states_of_words`, and if the stack is not causal, the capacity below 1
                or the storage unknown.
        """
        if not self.causal:
            raise ValueError(
                "a cache needs a causal model: where tokens read those after them too, every new "
                "token changes the keys and values of all, got causal=False in the layers of "
                f"{self.sizes.name}"
            )
        self._require_read(None, read, may_read, None)
        kept = {"capacity": capacity, "storage": storage}
        has_latent = isinstance(self.sizes.attention, LatentAttentionSizes)
        whole = LatentCache if has_latent else KVCache
        layers = [
            whole(**kept) if window is None else WindowCache(window, storage=storage)
            for window in self.windows
        ]
        cross = [
            CrossCache(
                block.cross_attention.keys(read),
                block.cross_attention.values(read),
                storage=storage,
            )
            for block in self.blocks
            if self.reads_encoder
        ]
        return ModelCache(self, layers, cross=cross, may_read=may_read)

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
        rows = _rows(words_btm, is_token)
        own = {} if self.sizes.rotary is None else {"positions": rows.positions}
        return torch.stack(
            [
                block.attention_weights(x, may_attend=mask, **own)
                for block, x, mask in zip(self.blocks, states[:-1], self._masks(rows), strict=True)
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
        rows = _rows(words_btm, is_token)
        own = {} if self.sizes.rotary is None else {"positions": rows.positions}
        own |= {"read": read, "may_read": None if may_read is None else padding_mask(may_read)}
        return torch.stack(
            [
                block.cross_attention_weights(x, may_attend=mask, **own)
                for block, x, mask in zip(self.blocks, states[:-1], self._masks(rows), strict=True)
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
        return self._entering(words_btm, _rows(words_btm, is_token), segments)

    def _entering(self, words_btm: Tensor, rows: "_Rows", segments: Tensor | None) -> Tensor:
        if self.segment_embedding is not None and segments is None:
            segments = torch.zeros(words_btm.shape[:2], dtype=torch.int64, device=words_btm.device)
        x_btm = self.summed(words_btm, rows.positions, segments)
        if self.embedding_norm is not None:
            x_btm = self.embedding_norm(x_btm)
        return self.dropout(x_btm)

    def summed(
        self,
        words_btm: Float[Tensor, "b t m"],
        positions: Int[Tensor, "*b t"],
        segments: Int[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b t m"]:
        """Give words, places and segments in one sum, before its norm and dropout.

        Args:
            words_btm: The embedded words.
            positions: Of each token, or of all rows alike; unused if attention itself has them.
            segments: Of each token; None where there are none.
        """
        sizes, dtype = self.sizes, words_btm.dtype
        if sizes.scaled_embedding:
            # the factor is rounded as the weights are, which is how Gemma was trained
            words_btm = words_btm * torch.tensor(sizes.width**0.5, dtype=dtype)
        x_btm = words_btm
        if self.position_embedding is not None:
            x_btm = x_btm + self.position_embedding(positions)
        elif sizes.sinusoidal_positions:
            x_btm = x_btm + sinusoidal_encoding(positions, sizes.width, dtype=dtype)
        return x_btm if segments is None else x_btm + self.segment_embedding(segments)

    def _norm(self, needed: bool) -> nn.Module | None:
        sizes = self.sizes
        return make_norm(sizes.norm, sizes.width, eps=sizes.norm_epsilon) if needed else None

    def _calls(
        self,
        words_btm: Tensor,
        rows: "_Rows",
        read: Tensor | None,
        may_read: Tensor | None,
        cache: ModelCache | None,
    ) -> list[dict[str, object]]:
        """Give what each block is given besides x."""
        layers = [None] * len(self.blocks) if cache is None else cache.layers
        calls = [
            {"may_attend": mask, "turns": turns, "cache": layer}
            for mask, turns, layer in zip(
                self._masks(rows, cache), self._turns(rows), layers, strict=True
            )
        ]
        if self.reads_encoder:
            may_read = may_read if cache is None else cache.may_read
            may_read = None if may_read is None else padding_mask(may_read)
            for i, call in enumerate(calls):
                call |= {"may_read": may_read}
                call |= {"read": read} if cache is None else {"cross_cache": cache.cross[i]}
        return calls

    def _turns(self, rows: "_Rows") -> list[Turns | None]:
        """Give the angles of each layer, made once for all that turn alike."""
        turns = {}
        for window, block in zip(self.windows, self.blocks, strict=True):
            if window not in turns:
                turns[window] = block.attention.turns(rows.positions)
        return [turns[window] for window in self.windows]

    def _masks(self, rows: "_Rows", cache: ModelCache | None = None) -> list[Tensor | None]:
        """Give the mask of each layer; layers with the same window have the same tokens."""
        masks = {}
        for i, window in enumerate(self.windows):
            if window not in masks:
                masks[window] = self._mask(rows, window, None if cache is None else cache.layers[i])
        return [masks[window] for window in self.windows]

    def _mask(self, rows: "_Rows", window: int | None, layer: LayerCache | None) -> Tensor | None:
        n_sources = rows.n_places if layer is None else layer.n_sources(rows.n_new)
        in_window = window is None or n_sources <= window
        if rows.n_new == 1 and rows.is_token is None and in_window:
            return None  # one token reads all there is
        masks = []
        if self.causal:
            masks.append(causal_mask(rows.n_new, rows.n_places, device=rows.device))
        if rows.is_token is not None:
            masks.append(padding_mask(rows.is_token))
        if window is not None:
            # by positions and not by places: padding may stand between two tokens
            positions = torch.atleast_2d(rows.all_positions)
            new = positions[:, rows.n_before :]
            steps_b1ts = (new[:, None, :, None] - positions[:, None, None, :]).abs()
            masks.append(steps_b1ts < window)
        if not masks:
            return None
        mask = reduce(and_, masks)
        if n_sources == rows.n_places:
            return mask
        # the cache has fewer places than the rows, and in another order
        return mask[..., layer.places(rows.n_new, rows.device)]

    def check_cache(
        self,
        cache: ModelCache,
        words_btm: Float[Tensor, "b t m"],
        is_token: Bool[Tensor, "b t"] | None,
    ) -> None:
        """Refuse a cache that cannot take these words as its next chunk.

        Args:
            cache: As in `states_of_words`.
            words_btm: As in `states_of_words`.
            is_token: As in `states_of_words`.
        """
        if not isinstance(cache, ModelCache):
            raise TypeError(f"cache must be what new_cache gives, got {type(cache).__name__}")
        if not cache.belongs_to(self):
            raise ValueError(
                "cache must be one that new_cache of this model made, got one of another model"
            )
        cache.check_whole()
        (b, t, _), n = words_btm.shape, cache.n_tokens
        if cache.n_rows not in (None, b):
            raise ValueError(
                f"a chunk must have the rows of the cache, got b={b} and b={cache.n_rows} in the "
                "cache; reset() it for another batch"
            )
        if n + t > self.sizes.context:
            raise ValueError(
                f"a row must have at most context={self.sizes.context} places, got n_tokens={n} in "
                f"the cache and t={t} more"
            )
        cache.check_room(t)
        if any(self.windows):
            after = cache.is_token_after(is_token, b, t, words_btm.device)
            if after is not None and bool((after[:, :-1] & ~after[:, 1:]).any()):
                raise ValueError(
                    "padding must stand before the first token of a row where layers keep only "
                    f"their window={self.sizes.window}, got padding after a token"
                )

    def _require_read(
        self,
        words_btm: Tensor | None,
        read: Tensor | None,
        may_read: Tensor | None,
        cache: ModelCache | None = None,
    ) -> None:
        """Refuse what is not the output of the encoder; without words, any b will do."""
        if cache is not None:
            if read is not None or may_read is not None:
                raise ValueError("read and may_read are in the cache already, got them and a cache")
            return
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
        b, m = (read if words_btm is None else words_btm).shape[0], self.sizes.width
        if (read.shape[0], read.shape[2]) != (b, m) or not read.shape[1]:
            raise ValueError(
                f"read must have the axes (b, s, m) with b={b}, at least 1 source and m={m}, got "
                f"shape {tuple(read.shape)}"
            )
        kind = read.device.type
        cast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
        dtype = self.blocks[0].attention.query.weight.dtype
        if read.dtype != dtype and not cast:
            raise TypeError(
                f"read must have the dtype of the model, got {read.dtype} and a model in {dtype}"
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
    attention, `narrow`) are drawn smaller by the root of the number of sub-layers in the stack, so
    that the sum of what they add has the same size in a deep stack as in a shallow one:
    N(0, 0.02²/(2L)) in L layers of two sub-layers. A scaled embedding gets N(0, 1/m) instead:
    multiplied by the root of m, it enters with variance 1.

    Args:
        model: Whose weights.
        generator: From which they come; None means torch's own.
    """
    added = {}
    for stack in (module for module in model.modules() if isinstance(module, Stack)):
        n_sub_layers = len(stack.blocks) * (3 if stack.reads_encoder else 2)
        for name, module in stack.blocks.named_modules():
            if name.endswith(("attention.output", ".narrow")):
                added[module] = _SPREAD / n_sub_layers**0.5
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


@dataclass(frozen=True)
class _Rows:
    """The rows so far: the places of a chunk, and those before it, which a cache has."""

    n_before: int
    n_new: int
    is_token: Tensor | None
    """(b, n_before + n_new), or None where all are tokens."""
    device: torch.device

    @property
    def n_places(self) -> int:
        return self.n_before + self.n_new

    @cached_property
    def all_positions(self) -> Tensor:
        if self.is_token is None:
            return torch.arange(self.n_places, device=self.device)
        return padded_positions(self.is_token)

    @cached_property
    def positions(self) -> Tensor:
        """Those of the new places."""
        if self.is_token is None:
            return torch.arange(self.n_before, self.n_places, device=self.device)
        return self.all_positions[:, self.n_before :]


def _rows(words_btm: Tensor, is_token: Tensor | None, cache: ModelCache | None = None) -> _Rows:
    b, t, _ = words_btm.shape
    if cache is None:
        return _Rows(0, t, is_token, words_btm.device)
    after = cache.is_token_after(is_token, b, t, words_btm.device)
    return _Rows(cache.n_tokens, t, after, words_btm.device)
