r"""The encoder of BERT: a text in, one vector for each of its tokens out.

Source   Devlin et al. 2019, arXiv:1810.04805, section 3; Vaswani et al. 2017, arXiv:1706.03762,
         section 3.1 (the layer); Hendrycks and Gimpel 2016, arXiv:1606.08415 (GELU)
Chapter  chapters/multi-head-attention.md
Axes     attnlib/axes.py

    >>> from attnlib import AttentionSizes, ModelSizes
    >>> heads = AttentionSizes(n_query_heads=2, n_kv_heads=2, head_dim=3, value_dim=3, biases=True)
    >>> sizes = ModelSizes(
    ...     name="small", source="this page", n_layers=2, width=6, attention=heads,
    ...     feed_forward_width=8, gated=False, activation="gelu", feed_forward_biases=True,
    ...     vocabulary=11, tied_embeddings=True, norm="layer", norms_per_layer=2,
    ...     norm_of_embedding=True, norm_at_end=False, norm_epsilon=1e-12, context=5,
    ...     learned_positions=True, n_segments=2, causal=False,
    ... )
    >>> encoder = Encoder(sizes)
    >>> tuple(encoder(torch.tensor([[1, 7, 4, 2]])).shape)
    (1, 4, 6)
"""

import torch
import torch.nn.functional as F
from einops import einsum
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlib.layers import MultiHeadAttention
from attnlib.masks import padding_mask
from attnlib.positions import padded_positions
from attnlib.sizes import AttentionSizes, ModelSizes
from attnlib.tensor_checks import check_axes, check_boolean, kind_of

__all__ = ["Encoder", "EncoderBlock"]

# What BERT is, field by field of ModelSizes; the counts are free.
_OF_BERT = {
    "gated": False,
    "activation": "gelu",
    "feed_forward_biases": True,
    "tied_embeddings": True,
    "experts": None,
    "norm": "layer",
    "norms_per_layer": 2,
    "norm_of_embedding": True,
    "norm_at_end": False,
    "rotary": None,
    "learned_positions": True,
    "window": None,
    "causal": False,
}
_OF_ITS_ATTENTION = {"biases": True, "query_key_norm": False}


class EncoderBlock(nn.Module):
    r"""One layer of the encoder, with its norms after the sums.

    $$y = \operatorname{LN}_1(x + \operatorname{Attention}(x)), \qquad
    z = \operatorname{LN}_2\bigl(y + W_2\, \operatorname{GELU}(W_1 y + b_1) + b_2\bigr)$$

    GELU is the exact one, $x\,\Phi(x)$ with the normal distribution function.

    Args:
        sizes: Of the whole model, as `Encoder` takes them.

    Example:
        >>> from attnlib import PUBLISHED
        >>> block = EncoderBlock(PUBLISHED["minilm-l6"])
        >>> sum(p.numel() for p in block.parameters())
        1774464
    """

    def __init__(self, sizes: ModelSizes):
        super().__init__()
        _require_bert(sizes)
        m, inner = sizes.width, sizes.feed_forward_width
        self.attention = MultiHeadAttention(m, sizes.attention)
        self.attention_norm = nn.LayerNorm(m, eps=sizes.norm_epsilon)
        self.widen = nn.Linear(m, inner)
        self.narrow = nn.Linear(inner, m)
        self.feed_forward_norm = nn.LayerNorm(m, eps=sizes.norm_epsilon)

    def forward(
        self, x: Float[Tensor, "b t m"], *, may_attend: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "b t m"]:
        """Mix the tokens, then work on each by itself.

        Args:
            x: What the layer before made of each token.
            may_attend: True where a target may read a source; broadcasts to (b, h, t, s).
        """
        y = self.attention_norm(x + self.attention(x, may_attend=may_attend))
        return self.feed_forward_norm(y + self.narrow(F.gelu(self.widen(y))))


class Encoder(nn.Module):
    r"""BERT's encoder: each token reads all tokens of its text, on both sides.

    What enters the first layer is a sum of three learned vectors, normalised:

    $$x_t = \operatorname{LN}(E_{w_t} + P_t + S_{z_t})$$

    for the token's number $w_t$, its position and the number $z_t$ of its segment. Positions count
    the tokens of a row from 0 wherever its padding stands, so that the result for a token does not
    depend on how its row was filled up. (BERT's own code counts the padding on the left too.)

    Args:
        sizes: Those of a model of BERT's kind, such as `PUBLISHED["minilm-l6"]`.

    Raises:
        TypeError: If the sizes are no `ModelSizes`.
        ValueError: If they are those of another kind of model: causal, gated, rotary, and so on.

    Example:
        >>> from attnlib import PUBLISHED
        >>> sizes = PUBLISHED["minilm-l6"]
        >>> encoder = Encoder(sizes)
        >>> sum(p.numel() for p in encoder.parameters()) == sizes.n_parameters
        True
    """

    def __init__(self, sizes: ModelSizes):
        super().__init__()
        _require_bert(sizes)
        m = sizes.width
        self.sizes = sizes
        self.word_embedding = nn.Embedding(sizes.vocabulary, m)
        self.position_embedding = nn.Embedding(sizes.context, m)
        self.segment_embedding = nn.Embedding(sizes.n_segments, m)
        self.embedding_norm = nn.LayerNorm(m, eps=sizes.norm_epsilon)
        self.blocks = nn.ModuleList(EncoderBlock(sizes) for _ in range(sizes.n_layers))
        self.pooler = nn.Linear(m, m) if sizes.pooler else None

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
            segments: To which part of the input a token belongs; None puts all into part 0.

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
        """Keep what enters each layer, and last what leaves the last one: one more than layers.

        Args:
            tokens: As in `forward`.
            is_token: As in `forward`.
            segments: As in `forward`.
        """
        x = self.embed(tokens, is_token=is_token, segments=segments)
        may_attend = None if is_token is None else padding_mask(is_token)
        states = [x]
        for block in self.blocks:
            states.append(block(states[-1], may_attend=may_attend))
        return tuple(states)

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
        if is_token is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        else:
            positions = padded_positions(is_token)
        segments = torch.zeros_like(tokens) if segments is None else segments
        return self.embedding_norm(
            self.word_embedding(tokens)
            + self.position_embedding(positions)
            + self.segment_embedding(segments)
        )

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
        states = self.states(tokens, is_token=is_token, segments=segments)
        may_attend = None if is_token is None else padding_mask(is_token)
        weights = [
            block.attention.weights(x, may_attend=may_attend)
            for block, x in zip(self.blocks, states, strict=False)
        ]
        return torch.stack(weights)

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
        _require_numbers("tokens", tokens, "v", self.sizes.vocabulary)
        t = tokens.shape[1]
        if not 1 <= t <= self.sizes.context:
            raise ValueError(
                f"a row must have from 1 to context={self.sizes.context} places, got t={t}"
            )
        if segments is not None:
            _require_numbers("segments", segments, "n_segments", self.sizes.n_segments)
            _require_same_shape("segments", segments, tokens)
        if is_token is not None:
            check_boolean("is_token", is_token, "token")
            _require_same_shape("is_token", is_token, tokens)


def _require_bert(sizes: ModelSizes) -> None:
    if not isinstance(sizes, ModelSizes):
        raise TypeError(f"sizes must be ModelSizes, got {type(sizes).__name__}")
    if not isinstance(sizes.attention, AttentionSizes):
        raise ValueError(
            f"an encoder has AttentionSizes, got {type(sizes.attention).__name__} in {sizes.name}"
        )
    for part, fields in ((sizes, _OF_BERT), (sizes.attention, _OF_ITS_ATTENTION)):
        for field, wanted in fields.items():
            if getattr(part, field) != wanted:
                raise ValueError(
                    f"an encoder of BERT's kind has {field}={wanted!r}, "
                    f"got {field}={getattr(part, field)!r} in {sizes.name}"
                )
    if sizes.n_segments < 1:
        raise ValueError(
            f"an encoder of BERT's kind has at least 1 segment, got n_segments=0 in {sizes.name}"
        )


def _require_numbers(name: str, x: Tensor, letter: str, count: int) -> None:
    if not isinstance(x, Tensor) or x.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{name} must be a tensor of int64 or int32, got {kind_of(x)}")
    check_axes(name, x, "b t")
    if x.numel() and not 0 <= int(x.min()) <= int(x.max()) < count:
        raise ValueError(
            f"{name} must be from 0 to {letter} − 1 = {count - 1}, "
            f"got {int(x.min())} to {int(x.max())}"
        )


def _require_same_shape(name: str, x: Tensor, tokens: Tensor) -> None:
    if x.shape != tokens.shape:
        raise ValueError(
            f"{name} must have the shape of tokens, (b, t) = {tuple(tokens.shape)}, "
            f"got {tuple(x.shape)}"
        )
