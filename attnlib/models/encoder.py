r"""The encoder: a text in, one vector for each of its tokens out.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.1; Devlin et al. 2019, arXiv:1810.04805,
         section 3
Chapter  chapters/encoder-decoder.md
Axes     attnlib/axes.py
"""

import torch
from einops import einsum
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.models.inputs import check_model, check_numbers, check_same_shape, check_tokens
from attnlib.models.stack import Stack, reset_matrices
from attnlib.positions import Pairing
from attnlib.sizes import ModelSizes

__all__ = ["Encoder"]


class Encoder(Stack):
    r"""A stack whose tokens read all tokens of their text, on both sides, such as BERT.

    Positions count the tokens of a row from 0 wherever its padding stands, so that the result for a
    token does not depend on how its row was filled up. (BERT's own code counts the padding on the
    left too.)

    The weights begin as `reset_parameters` says.

    Args:
        sizes: Those of a model that is not causal, such as `PUBLISHED["minilm-l6"]`.
        pairing: "half" or "interleaved", if and only if the sizes have rotary positions.
        dropout: As in `Block`; it also acts on what enters the first layer.

    Raises:
        TypeError: If the sizes are no `ModelSizes`.
        ValueError: If they are those of another kind of model: causal, beside a decoder, with an
            output matrix of its own, with experts that `MixtureOfExperts` refuses, or a latent
            beside windows; or if pairing or dropout do not fit.

    Example:
        >>> from attnlib import PUBLISHED
        >>> sizes = PUBLISHED["minilm-l6"]
        >>> encoder = Encoder(sizes)
        >>> sum(p.numel() for p in encoder.parameters()) == sizes.n_parameters
        True
    """

    def __init__(
        self, sizes: ModelSizes, *, pairing: Pairing | None = None, dropout: float = 0.0
    ) -> None:
        kind = "an encoder"
        check_model(kind, sizes, causal=False, n_encoder_layers=0, tied_embeddings=True)
        super().__init__(sizes, pairing=pairing, dropout=dropout)
        self.word_embedding = nn.Embedding(sizes.vocabulary, sizes.width)
        self.pooler = nn.Linear(sizes.width, sizes.width) if sizes.pooler else None
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
        segments: Int[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b t m"]:
        """Give each token its vector, made in view of all others.

        Args:
            tokens: Their numbers, from 0 to v − 1. A row has at most `context` tokens.
            is_token: False where a row is filled up; those places are not read, and their own
                vectors mean nothing. None if all are tokens.
            segments: To which part of the input a token belongs, in a model with segments; None
                puts all into part 0.

        Raises:
            TypeError: If tokens or segments are not whole numbers, or `is_token` not boolean.
            ValueError: If a number is outside its range, there is no token, a row is too long, or
                the shapes differ.
        """
        return self.states(tokens, is_token=is_token, segments=segments)[-1]

    def states(
        self,
        tokens: Int[Tensor, "b t"],
        *,
        is_token: Bool[Tensor, "b t"] | None = None,
        segments: Int[Tensor, "b t"] | None = None,
    ) -> tuple[Float[Tensor, "b t m"], ...]:
        """Keep what enters each layer, and last what comes out: one more than there are layers.

        Args:
            tokens: As in `forward`.
            is_token: As in `forward`.
            segments: As in `forward`.
        """
        self._require_inputs(tokens, is_token, segments)
        words_btm = self.word_embedding(tokens)
        return self.states_of_words(words_btm, is_token=is_token, segments=segments)

    def embed(
        self,
        tokens: Int[Tensor, "b t"],
        *,
        is_token: Bool[Tensor, "b t"] | None = None,
        segments: Int[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b t m"]:
        """Form what enters the first layer.

        Args:
            tokens: As in `forward`.
            is_token: As in `forward`.
            segments: As in `forward`.
        """
        self._require_inputs(tokens, is_token, segments)
        return self.entering(self.word_embedding(tokens), is_token=is_token, segments=segments)

    def attention_weights(
        self,
        tokens: Int[Tensor, "b t"],
        *,
        is_token: Bool[Tensor, "b t"] | None = None,
        segments: Int[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "*layers b h t s"]:
        """Give the attention weights of every layer and head, the first layer first.

        Args:
            tokens: As in `forward`.
            is_token: As in `forward`.
            segments: As in `forward`.

        Returns:
            Weights whose rows sum to one over the sources.
        """
        self._require_inputs(tokens, is_token, segments)
        words_btm = self.word_embedding(tokens)
        return self.weights_of_words(words_btm, is_token=is_token, segments=segments)

    def sentence_vectors(
        self,
        tokens: Int[Tensor, "b t"],
        *,
        is_token: Bool[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b m"]:
        """Average the vectors of a row's tokens, [CLS] and [SEP] included, as MiniLM does.

        Their lengths are left as they are.

        Args:
            tokens: As in `forward`.
            is_token: As in `forward`; every row must have a token.

        Raises:
            ValueError: As `forward`, and if a row has no token.
        """
        self._require_inputs(tokens, is_token, None)
        if is_token is None:
            is_token = torch.ones(tokens.shape, dtype=torch.bool, device=tokens.device)
        if not is_token.any(-1).all():
            raise ValueError("a mean needs at least 1 token in every row, got a row of padding")
        out_btm = self(tokens, is_token=is_token)
        shares_bt = is_token.to(out_btm.dtype) / is_token.sum(-1, keepdim=True)
        return einsum(shares_bt, out_btm, "b t, b t m -> b m")

    def pooled(
        self,
        tokens: Int[Tensor, "b t"],
        *,
        is_token: Bool[Tensor, "b t"] | None = None,
        segments: Int[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b m"]:
        r"""Give BERT's own summary of each row, $\tanh(W x_0 + b)$ of its first place.

        Args:
            tokens: As in `forward`; padding on the right only, so that a token comes first.
            is_token: As in `forward`.
            segments: As in `forward`.

        Raises:
            ValueError: If the model has no pooler or a row begins with padding.
        """
        if self.pooler is None:
            raise ValueError(f"{self.sizes.name} must have a pooler to pool, and has none")
        self._require_inputs(tokens, is_token, segments)
        if is_token is not None and not is_token[:, 0].all():
            raise ValueError("every row must begin with a token, got padding at t=0")
        out_btm = self(tokens, is_token=is_token, segments=segments)
        return torch.tanh(self.pooler(out_btm[:, 0]))

    def _require_inputs(
        self, tokens: Tensor, is_token: Tensor | None, segments: Tensor | None
    ) -> None:
        """Refuse what has no meaning, before a look-up that fails in words of its own."""
        check_tokens("tokens", tokens, self.sizes, is_token, "is_token")
        if segments is None:
            return
        if not self.sizes.n_segments:
            raise ValueError(f"{self.sizes.name} has no segments (n_segments=0), got segments")
        check_numbers("segments", segments, "n_segments", self.sizes.n_segments)
        check_same_shape("segments", segments, "tokens", tokens)
