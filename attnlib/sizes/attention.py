r"""The sizes of one layer's attention: heads that share keys and values, or a latent.

Source   Ainslie et al. 2023, arXiv:2305.13245, section 2.2 (shared heads); DeepSeek-AI 2024,
         arXiv:2405.04434, section 2.1 (latent)
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py
"""

from dataclasses import dataclass

from attnlib import require
from attnlib.sizes.require import require_fields


@dataclass(frozen=True, kw_only=True)
class AttentionSizes:
    r"""Attention in which h query heads share g key/value heads.

    With g = h it is multi-head attention, with g = 1 multi-query attention. The scores are
    multiplied by $1/\sqrt d$, or by one over the root of `scale_width` where that is given.

    Args:
        n_query_heads: h.
        n_kv_heads: g; must divide h.
        head_dim: d, of queries and keys; it need not be m/h.
        value_dim: e, of values.
        scale_width: The number whose root the scores are divided by; None means d.
        biases: Whether the four projections add a bias.
        query_key_norm: Whether queries and keys are normalised, with one weight for each of their
            d coordinates, shared by all heads.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is below 1 or g does not divide h.

    Example:
        >>> sizes = AttentionSizes(n_query_heads=6, n_kv_heads=2, head_dim=16, value_dim=16)
        >>> sizes.queries_per_kv_head, sizes.score_scale
        (3, 0.25)
    """

    n_query_heads: int
    n_kv_heads: int
    head_dim: int
    value_dim: int
    scale_width: int | None = None
    biases: bool = False
    query_key_norm: bool = False

    def __post_init__(self) -> None:
        require_fields(self)
        if self.n_query_heads % self.n_kv_heads != 0:
            raise ValueError(
                "n_kv_heads must divide n_query_heads (g divides h), got "
                f"h={self.n_query_heads} and g={self.n_kv_heads}"
            )

    @property
    def queries_per_kv_head(self) -> int:
        """How many query heads read one key/value head: p = h/g."""
        return self.n_query_heads // self.n_kv_heads

    @property
    def rotary_width(self) -> int:
        """How many coordinates of a head turn where there are rotary positions: all d."""
        return self.head_dim

    @property
    def score_scale(self) -> float:
        r"""What the scores are multiplied by: $1/\sqrt d$ unless `scale_width` says otherwise."""
        return (self.scale_width or self.head_dim) ** -0.5

    @property
    def letters(self) -> dict[str, int]:
        """The sizes by their axis letters.

        Example:
            >>> from attnlib import PUBLISHED
            >>> PUBLISHED["llama-3-70b"].attention.letters
            {'h': 64, 'g': 8, 'p': 8, 'd': 128, 'e': 128}
        """
        return {
            "h": self.n_query_heads,
            "g": self.n_kv_heads,
            "p": self.queries_per_kv_head,
            "d": self.head_dim,
            "e": self.value_dim,
        }

    def n_parameters(self, width: int) -> int:
        r"""Count the parameters of one layer's attention on a residual stream of width m.

        $$m\,(hd + gd + ge) + hem$$

        and, where there are biases, hd + gd + ge + m more; with normed queries and keys 2d more.

        Example:
            >>> from attnlib import PUBLISHED
            >>> PUBLISHED["llama-3-70b"].attention.n_parameters(8192) == 8192 * (8192 * 2 + 2048)
            True
        """
        width = require.at_least("width (m)", width, 1)
        h, g, d, e = self.n_query_heads, self.n_kv_heads, self.head_dim, self.value_dim
        read = h * d + g * d + g * e
        matrices = width * read + h * e * width
        biases = (read + width) if self.biases else 0
        norms = 2 * d if self.query_key_norm else 0
        return matrices + biases + norms


@dataclass(frozen=True, kw_only=True)
class LatentAttentionSizes:
    r"""Attention whose keys and values are made from one latent of width c, as in DeepSeek-V2.

    A query and a key have n coordinates that come from the latents and r that carry the position;
    the rotary part of the key is one for all heads. What is kept of a token is c + r numbers.

    Args:
        n_query_heads: h; each has its own keys and values, rebuilt from the latent.
        query_latent: u.
        kv_latent: c.
        nope_dim: n, of a head's part without rotation.
        rope_dim: r, of its rotary part.
        value_dim: e, of values.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is below 1.

    Example:
        >>> from attnlib import PUBLISHED
        >>> sizes = PUBLISHED["deepseek-v2"].attention
        >>> sizes.head_dim, sizes.kv_latent + sizes.rope_dim
        (192, 576)
    """

    n_query_heads: int
    query_latent: int
    kv_latent: int
    nope_dim: int
    rope_dim: int
    value_dim: int

    def __post_init__(self) -> None:
        require_fields(self)

    @property
    def head_dim(self) -> int:
        """The width of queries and keys: d = n + r."""
        return self.nope_dim + self.rope_dim

    @property
    def rotary_width(self) -> int:
        """How many coordinates of a head turn: r."""
        return self.rope_dim

    @property
    def score_scale(self) -> float:
        r"""What the scores are multiplied by: $1/\sqrt{n + r}$, and not $1/\sqrt c$."""
        return self.head_dim**-0.5

    @property
    def letters(self) -> dict[str, int]:
        """The sizes by their axis letters.

        Example:
            >>> from attnlib import PUBLISHED
            >>> PUBLISHED["deepseek-v2"].attention.letters
            {'h': 128, 'd': 192, 'e': 128, 'u': 1536, 'c': 512, 'n': 128, 'r': 64}
        """
        return {
            "h": self.n_query_heads,
            "d": self.head_dim,
            "e": self.value_dim,
            "u": self.query_latent,
            "c": self.kv_latent,
            "n": self.nope_dim,
            "r": self.rope_dim,
        }

    def n_parameters(self, width: int) -> int:
        r"""Count the parameters of one layer's attention on a residual stream of width m.

        $$mu + uhd + m\,(c + r) + ch\,(n + e) + hem + u + c$$

        The last two are the norms of the latents.

        Example:
            >>> from attnlib import PUBLISHED
            >>> PUBLISHED["deepseek-v2"].attention.n_parameters(5120)
            149227520
        """
        width = require.at_least("width (m)", width, 1)
        h, u, c, r = self.n_query_heads, self.query_latent, self.kv_latent, self.rope_dim
        queries = width * u + u * h * self.head_dim
        latent = width * (c + r)
        keys_and_values = c * h * (self.nope_dim + self.value_dim)
        out = h * self.value_dim * width
        return queries + latent + keys_and_values + out + u + c
