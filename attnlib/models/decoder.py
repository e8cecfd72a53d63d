r"""The decoder: each token reads itself and what stands before it, and perhaps an encoder's output.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.1
Chapter  chapters/encoder-decoder.md
Axes     attnlib/axes.py
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.caches import ModelCache
from attnlib.models.inputs import check_model, check_tokens
from attnlib.models.stack import Stack, reset_matrices
from attnlib.positions import Pairing
from attnlib.sizes import ModelSizes

__all__ = ["Decoder"]


class Decoder(Stack):
    """A causal stack: the vector of a token says nothing of the tokens after it.

    Where the sizes have encoder layers, each block also reads the output of an encoder; what that
    is made of is of no concern here. Keys and values of that second attention come from `read`
    alone.

    The weights begin as `reset_parameters` says.

    Args:
        sizes: Those of a causal model, such as `PUBLISHED["smollm2-135m"]`.
        pairing: "half" or "interleaved", if and only if the sizes have rotary positions.
        dropout: As in `Block`; it also acts on what enters the first layer.

    Raises:
        TypeError: If the sizes are no `ModelSizes`.
        ValueError: If they are those of another kind of model: not causal, with segments, a pooler,
            experts that `MixtureOfExperts` refuses, or a latent beside an encoder or windows; or if
            pairing or dropout do not fit.

    Example:
        >>> from attnlib import TRAINED
        >>> sizes = TRAINED["number-words"]
        >>> decoder, read = Decoder(sizes), torch.randn(1, 7, sizes.width)
        >>> decoder(torch.tensor([[1, 5, 2]]), read=read).shape[:2]
        torch.Size([1, 3])
    """

    def __init__(
        self, sizes: ModelSizes, *, pairing: Pairing | None = None, dropout: float = 0.0
    ) -> None:
        check_model("a decoder", sizes, causal=True, n_segments=0, pooler=False)
        super().__init__(sizes, pairing=pairing, dropout=dropout)
        self.word_embedding = nn.Embedding(sizes.vocabulary, sizes.width)
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights anew; see `reset_matrices`.

        Args:
            generator: From which they come; None means torch's own.
        """
        reset_matrices(self, generator)

    def forward(
        self,
        tokens: Int[Tensor, "b t"],
        *,
        is_token: Bool[Tensor, "b t"] | None = None,
        read: Float[Tensor, "b s m"] | None = None,
        may_read: Bool[Tensor, "b s"] | None = None,
        cache: ModelCache | None = None,
    ) -> Float[Tensor, "b t m"]:
        """Give each token its vector, made in view of those before it.

        Args:
            tokens: Their numbers, from 0 to v − 1. A row has at most `context` tokens.
            is_token: False where a row is filled up, on the left or elsewhere; those places are not
                read, and their own vectors mean nothing. None if all are tokens.
            read: The output of an encoder, if and only if the sizes have encoder layers.
            may_read: False where that is padding; None if all are tokens.
            cache: What `new_cache` gave and the tokens before these have filled; these are then the
                next chunk of each row, and `read` and `may_read` are in the cache. After an error
                it is as it was.

        Raises:
            TypeError: If tokens are not whole numbers, a mask is not boolean or `read` not floating
                point.
            ValueError: If a number is outside its range, there is no token, a row is too long, a
                shape does not fit, `read` is missing or without use, or the cache is another
                model's or of other rows, or has no room.
        """
        return self.states(tokens, is_token=is_token, read=read, may_read=may_read, cache=cache)[-1]

    def states(
        self,
        tokens: Int[Tensor, "b t"],
        *,
        is_token: Bool[Tensor, "b t"] | None = None,
        read: Float[Tensor, "b s m"] | None = None,
        may_read: Bool[Tensor, "b s"] | None = None,
        cache: ModelCache | None = None,
    ) -> tuple[Float[Tensor, "b t m"], ...]:
        """Keep what enters each layer, and last what comes out: one more than there are layers.

        Args:
            tokens: As in `forward`.
            is_token: As in `forward`.
            read: As in `forward`.
            may_read: As in `forward`.
            cache: As in `forward`.
        """
        words_btm = self._words(tokens, is_token)
        return self.states_of_words(
            words_btm, is_token=is_token, read=read, may_read=may_read, cache=cache
        )

    def attention_weights(
        self,
        tokens: Int[Tensor, "b t"],
        *,
        is_token: Bool[Tensor, "b t"] | None = None,
        read: Float[Tensor, "b s m"] | None = None,
        may_read: Bool[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "*layers b h t t"]:
        """Give the weights with which the tokens read each other, the first layer first.

        Args:
            tokens: As in `forward`.
            is_token: As in `forward`.
            read: As in `forward`.
            may_read: As in `forward`.
        """
        words_btm = self._words(tokens, is_token)
        return self.weights_of_words(words_btm, is_token=is_token, read=read, may_read=may_read)

    def cross_attention_weights(
        self,
        tokens: Int[Tensor, "b t"],
        *,
        read: Float[Tensor, "b s m"],
        is_token: Bool[Tensor, "b t"] | None = None,
        may_read: Bool[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "*layers b h t s"]:
        """Give the weights with which the encoder's output is read, the first layer first.

        Args:
            tokens: As in `forward`.
            read: As in `forward`.
            is_token: As in `forward`.
            may_read: As in `forward`.
        """
        words_btm = self._words(tokens, is_token)
        return self.cross_weights_of_words(
            words_btm, read=read, is_token=is_token, may_read=may_read
        )

    def _words(self, tokens: Tensor, is_token: Tensor | None) -> Tensor:
        check_tokens("tokens", tokens, self.sizes, is_token, "is_token")
        return self.word_embedding(tokens)
