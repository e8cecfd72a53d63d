r"""The language model: a text in, scores for the token that follows each of its tokens out.

Source   Radford et al. 2019 (GPT-2); Touvron et al. 2023, arXiv:2302.13971 (Llama); Press and Wolf
         2017, arXiv:1608.05859 (one matrix for both ends)
Chapter  chapters/language-models.md
Axes     attnlib/axes.py
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.caches import ModelCache, unchanged_on_error
from attnlib.models.decoder import Decoder
from attnlib.models.head import logits_of_states, output_matrix
from attnlib.models.inputs import check_model
from attnlib.models.stack import reset_matrices
from attnlib.positions import Pairing
from attnlib.sizes import ModelSizes

__all__ = ["LanguageModel"]


class LanguageModel(nn.Module):
    r"""A decoder, and a matrix that makes its vectors the logits of the next token.

    $$\log p(w_{t+1} = j \mid w_0, \dots, w_t) = z_{tj} - \log \sum_k e^{z_{tk}}, \qquad
    z_t = U x_t$$

    with the decoder's output $x_t$. U is the embedding's own matrix where `tied_embeddings` says
    so, and `output` otherwise. It adds no bias.

    The weights begin as `reset_parameters` says.

    Args:
        sizes: Those of a causal model without encoder, such as `PUBLISHED["smollm2-135m"]`.
        pairing: "half" or "interleaved", if and only if the sizes have rotary positions.
        dropout: As in `Decoder`.

    Raises:
        TypeError: As `Decoder`.
        ValueError: As `Decoder`, and if the sizes have an encoder.

    Example:
        >>> from attnlib import TRAINED
        >>> model = LanguageModel(TRAINED["shakespeare"], pairing="half")
        >>> logits = model(torch.tensor([[3, 1, 4, 1, 5]]))
        >>> logits.shape[-1] == TRAINED["shakespeare"].vocabulary
        True
    """

    def __init__(
        self, sizes: ModelSizes, *, pairing: Pairing | None = None, dropout: float = 0.0
    ) -> None:
        check_model("a language model", sizes, n_encoder_layers=0)
        super().__init__()
        self.sizes = sizes
        self.decoder = Decoder(sizes, pairing=pairing, dropout=dropout)
        self.output = output_matrix(sizes)
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
        cache: ModelCache | None = None,
    ) -> Float[Tensor, "b t v"]:
        """Give the logits of what follows each token.

        Args:
            tokens: As in `Decoder.forward`.
            is_token: As in `Decoder.forward`.
            cache: As in `Decoder.forward`.

        Returns:
            Row t belongs to the token after the one at t.

        Raises:
            TypeError: As `Decoder.forward`.
            ValueError: As `Decoder.forward`.
        """
        with unchanged_on_error(cache):
            return self.logits(self.decoder(tokens, is_token=is_token, cache=cache))

    def new_cache(self, *, capacity: int | None = None, storage: str | None = None) -> ModelCache:
        """Make a cache for one text, or a batch of texts, that comes in chunks.

        Args:
            capacity: As in `Stack.new_cache`.
            storage: As in `Stack.new_cache`.

        Raises:
            TypeError: As `Stack.new_cache`.
            ValueError: As `Stack.new_cache`.

        Example:
            >>> from attnlib import TRAINED
            >>> model = LanguageModel(TRAINED["shakespeare"], pairing="half")
            >>> cache = model.new_cache()
            >>> with torch.inference_mode():
            ...     for chunk in ([[3, 1, 4]], [[1]]):
            ...         logits = model(torch.tensor(chunk), cache=cache)
            >>> cache.n_tokens
            4
        """
        return self.decoder.new_cache(capacity=capacity, storage=storage)

    def logits(self, x_btm: Float[Tensor, "b t m"]) -> Float[Tensor, "b t v"]:
        """Make logits of what the decoder gives.

        Args:
            x_btm: The last of `states`, or some of its places.
        """
        return logits_of_states(x_btm, self.output, self.decoder.word_embedding)

    def states(
        self,
        tokens: Int[Tensor, "b t"],
        *,
        is_token: Bool[Tensor, "b t"] | None = None,
    ) -> tuple[Float[Tensor, "b t m"], ...]:
        """Keep what enters each layer, and last what comes out: one more than there are layers.

        Args:
            tokens: As in `forward`.
            is_token: As in `forward`.
        """
        return self.decoder.states(tokens, is_token=is_token)

    def attention_weights(
        self,
        tokens: Int[Tensor, "b t"],
        *,
        is_token: Bool[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "*layers b h t s"]:
        """Give the attention weights of every layer and head, the first layer first.

        Args:
            tokens: As in `forward`.
            is_token: As in `forward`.
        """
        return self.decoder.attention_weights(tokens, is_token=is_token)
