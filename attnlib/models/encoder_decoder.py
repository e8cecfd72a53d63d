r"""Encoder and decoder as one machine: a text in one language in, one in another out.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 3; Lewis et al. 2019,
         arXiv:1910.13461 (BART)
Chapter  chapters/encoder-decoder.md
Axes     attnlib/axes.py
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.caches import ModelCache, unchanged_on_error
from attnlib.models.head import logits_of_states, output_matrix
from attnlib.models.inputs import check_model, check_tokens
from attnlib.models.stack import Stack, reset_matrices
from attnlib.positions import Pairing
from attnlib.sizes import AttentionSizes, ModelSizes

__all__ = ["EncoderDecoder"]


class EncoderDecoder(nn.Module):
    r"""The Transformer of 2017: a decoder that reads what an encoder made of another text.

    $$z_t = U\, \operatorname{Decoder}(w_0, \dots, w_t;\; \operatorname{Encoder}(\text{source}))_t$$

    One embedding serves both stacks, and U is its matrix where `tied_embeddings` says so, and
    `output` otherwise. It adds no bias: that of BART and Marian is a constant 0 unless somebody
    sets it.

    The weights begin as `reset_parameters` says.

    Args:
        sizes: With at least one encoder layer, such as `PUBLISHED["transformer-base"]`.
        pairing: "half" or "interleaved", if and only if the sizes have rotary positions; both
            stacks then turn in self-attention, and cross-attention does not.
        dropout: As in `Block`; it also acts on what enters the first layer of each stack.

    Raises:
        TypeError: If the sizes are no `ModelSizes`.
        ValueError: If they are those of another kind of model: without encoder, with segments, a
            pooler, a window or a latent; or if pairing or dropout do not fit.

    Example:
        >>> from attnlib import TRAINED
        >>> model = EncoderDecoder(TRAINED["number-words"])
        >>> source, tokens = torch.tensor([[3, 1, 4, 1]]), torch.tensor([[2, 7, 1]])
        >>> logits = model(source, tokens)
        >>> logits.shape[1], logits.shape[2] == TRAINED["number-words"].vocabulary
        (3, True)
        >>> tuple(model.cross_attention_weights(source, tokens)[0, 0, 0].shape)
        (3, 4)
    """

    def __init__(
        self, sizes: ModelSizes, *, pairing: Pairing | None = None, dropout: float = 0.0
    ) -> None:
        kind = "a model of encoder and decoder"
        check_model(kind, sizes, n_segments=0, pooler=False, window=None)
        if not sizes.n_encoder_layers:
            raise ValueError(f"{kind} has n_encoder_layers of at least 1, got 0 in {sizes.name}")
        if not isinstance(sizes.attention, AttentionSizes):
            raise ValueError(
                f"{kind} has AttentionSizes, for one text reads the other, got "
                f"{type(sizes.attention).__name__} in {sizes.name}"
            )
        super().__init__()
        self.sizes = sizes
        self.word_embedding = nn.Embedding(sizes.vocabulary, sizes.width)
        self.encoder = Stack(sizes, of_encoder=True, pairing=pairing, dropout=dropout)
        self.decoder = Stack(sizes, pairing=pairing, dropout=dropout)
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
        source: Int[Tensor, "b s"],
        tokens: Int[Tensor, "b t"],
        *,
        is_source: Bool[Tensor, "b s"] | None = None,
        is_token: Bool[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "b t v"]:
        """Give the logits of what follows each token.

        Args:
            source: The text that is read, numbers from 0 to v − 1; at most `context` in a row.
            tokens: The text that is being written, so far.
            is_source: False where a row of `source` is filled up; None if all are tokens.
            is_token: False where a row of `tokens` is filled up; None if all are tokens.

        Returns:
            Row t belongs to the token after the one at t.

        Raises:
            TypeError: If tokens are not whole numbers or a mask is not boolean.
            ValueError: If a number is outside its range, there is no token, a row is too long, or
                shapes differ.
        """
        self._require(source, tokens, is_source, is_token)
        read_bsm = self.encode(source, is_source=is_source)
        return self.decode(tokens, read_bsm, is_token=is_token, is_source=is_source)

    def encode(
        self, source: Int[Tensor, "b s"], *, is_source: Bool[Tensor, "b s"] | None = None
    ) -> Float[Tensor, "b s m"]:
        """Give what the decoder reads; it is the same for all tokens that are written.

        Args:
            source: As in `forward`.
            is_source: As in `forward`.
        """
        check_tokens("source", source, self.sizes, is_source, "is_source")
        return self.encoder.states_of_words(self.word_embedding(source), is_token=is_source)[-1]

    def decode(
        self,
        tokens: Int[Tensor, "b t"],
        read: Float[Tensor, "b s m"] | None = None,
        *,
        is_token: Bool[Tensor, "b t"] | None = None,
        is_source: Bool[Tensor, "b s"] | None = None,
        cache: ModelCache | None = None,
    ) -> Float[Tensor, "b t v"]:
        """Give the logits of what follows each token, with what `encode` gave.

        Args:
            tokens: As in `forward`.
            read: The output of the encoder; not given beside a cache.
            is_token: As in `forward`.
            is_source: As in `forward`; not given beside a cache.
            cache: What `new_cache` made of the source, with the tokens before these; these are then
                the next chunk of each row.

        Raises:
            TypeError: As `forward`, and if `read` is not floating point.
            ValueError: As `forward`, and as `Stack.states_of_words` with a cache.
        """
        check_tokens("tokens", tokens, self.sizes, is_token, "is_token")
        with unchanged_on_error(cache):
            x_btm = self.decoder.states_of_words(
                self.word_embedding(tokens),
                is_token=is_token,
                read=read,
                may_read=is_source,
                cache=cache,
            )[-1]
            return logits_of_states(x_btm, self.output, self.word_embedding)

    def new_cache(
        self,
        source: Int[Tensor, "b s"],
        *,
        is_source: Bool[Tensor, "b s"] | None = None,
        capacity: int | None = None,
        storage: str | None = None,
    ) -> ModelCache:
        """Encode a source, once, and make a cache for what is written about it.

        It holds the keys and values that each layer makes of the encoder's output.

        Args:
            source: As in `forward`.
            is_source: As in `forward`.
            capacity: As in `Stack.new_cache`, of what is written.
            storage: As in `Stack.new_cache`.

        Raises:
            TypeError: As `forward` and `Stack.new_cache`.
            ValueError: As `forward` and `Stack.new_cache`.

        Example:
            >>> from attnlib import TRAINED
            >>> model = EncoderDecoder(TRAINED["number-words"]).eval()
            >>> source, tokens = torch.tensor([[3, 1, 4, 1]]), torch.tensor([[2, 7, 1]])
            >>> with torch.inference_mode():
            ...     cache = model.new_cache(source)
            ...     logits = [model.decode(t, cache=cache) for t in tokens.split(1, dim=1)]
            ...     torch.allclose(torch.cat(logits, 1), model(source, tokens), atol=1e-5)
            True
        """
        read_bsm = self.encode(source, is_source=is_source)
        return self.decoder.new_cache(
            read=read_bsm, may_read=is_source, capacity=capacity, storage=storage
        )

    def attention_weights(
        self,
        source: Int[Tensor, "b s"],
        tokens: Int[Tensor, "b t"],
        *,
        is_source: Bool[Tensor, "b s"] | None = None,
        is_token: Bool[Tensor, "b t"] | None = None,
    ) -> tuple[Float[Tensor, "*encoder b h s s"], Float[Tensor, "*layers b h t t"]]:
        """Give the weights with which each text reads itself: the encoder's, the decoder's.

        Args:
            source: As in `forward`.
            tokens: As in `forward`.
            is_source: As in `forward`.
            is_token: As in `forward`.
        """
        self._require(source, tokens, is_source, is_token)
        of_encoder = self.encoder.weights_of_words(self.word_embedding(source), is_token=is_source)
        of_decoder = self.decoder.weights_of_words(
            self.word_embedding(tokens),
            is_token=is_token,
            read=self.encode(source, is_source=is_source),
            may_read=is_source,
        )
        return of_encoder, of_decoder

    def cross_attention_weights(
        self,
        source: Int[Tensor, "b s"],
        tokens: Int[Tensor, "b t"],
        *,
        is_source: Bool[Tensor, "b s"] | None = None,
        is_token: Bool[Tensor, "b t"] | None = None,
    ) -> Float[Tensor, "*layers b h t s"]:
        """Give the weights with which the written text reads the other, the first layer first.

        Args:
            source: As in `forward`.
            tokens: As in `forward`.
            is_source: As in `forward`.
            is_token: As in `forward`.
        """
        self._require(source, tokens, is_source, is_token)
        return self.decoder.cross_weights_of_words(
            self.word_embedding(tokens),
            read=self.encode(source, is_source=is_source),
            is_token=is_token,
            may_read=is_source,
        )

    def _require(
        self,
        source: Tensor,
        tokens: Tensor,
        is_source: Tensor | None,
        is_token: Tensor | None,
    ) -> None:
        check_tokens("source", source, self.sizes, is_source, "is_source")
        check_tokens("tokens", tokens, self.sizes, is_token, "is_token")
        if source.shape[0] != tokens.shape[0]:
            raise ValueError(
                f"source and tokens must have the same b, got b={source.shape[0]} in source and "
                f"b={tokens.shape[0]} in tokens"
            )
