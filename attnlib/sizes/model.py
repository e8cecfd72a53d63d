r"""The sizes of a whole model, and its parameters, counted one matrix at a time.

Source   Vaswani et al. 2017, arXiv:1706.03762 (the parts); Shazeer 2020, arXiv:2002.05202 (gated
         networks); Dai et al. 2024, arXiv:2401.06066 (experts)
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py
"""

from dataclasses import dataclass

from attnlib.sizes.attention import AttentionSizes, LatentAttentionSizes
from attnlib.sizes.require import require_fields, require_one_of
from attnlib.sizes.rotary import RotarySizes

_NORMS_PER_SUB_LAYER = {"pre": 1, "post": 1, "peri": 2}


@dataclass(frozen=True, kw_only=True)
class ExpertSizes:
    """Feed-forward networks of which a token uses only some: the experts.

    Args:
        n_routed: How many there are to choose from.
        n_chosen: How many of them a token uses.
        n_shared: How many more every token uses.
        inner_width: The inner width of one expert.
        n_dense_layers: How many layers, the first ones, have one ordinary network instead.
        n_devices: Into how many runs of neighbours the routed experts are cut, each for a device of
            its own; must divide their number.
        n_devices_at_most: From how many of these runs the experts of one token come at most; None
            means that any will do.
        gate: What makes the gates of the scores: "softmax" over all routed experts, or "sigmoid",
            score by score, those of the chosen experts then divided by their sum.
        gate_factor: By what the gates are multiplied in the end.

    Raises:
        TypeError: If a size is not a whole number, or the factor no number.
        ValueError: If a size is too small, more experts are chosen than there are or than stand on
            the devices that a token may use, the devices do not divide the experts, or the gate is
            unknown.

    Example:
        >>> from attnlib import PUBLISHED
        >>> experts = PUBLISHED["deepseek-v2"].experts
        >>> experts.n_chosen + experts.n_shared, experts.n_routed // experts.n_devices
        (8, 20)
    """

    n_routed: int
    n_chosen: int
    inner_width: int
    n_shared: int = 0
    n_dense_layers: int = 0
    n_devices: int = 1
    n_devices_at_most: int | None = None
    gate: str = "softmax"
    gate_factor: float = 1.0

    def __post_init__(self) -> None:
        require_fields(self)
        require_one_of(self, "gate", ("softmax", "sigmoid"))
        if self.n_chosen > self.n_routed:
            raise ValueError(
                "n_chosen must be at most n_routed, got "
                f"n_chosen={self.n_chosen} and n_routed={self.n_routed}"
            )
        require_devices(self.n_routed, self.n_chosen, self.n_devices, self.n_devices_at_most)


@dataclass(frozen=True, kw_only=True)
class ModelSizes:
    r"""The sizes of a whole model, and its parameters counted one matrix at a time.

    Args:
        name: As its authors write it.
        source: Where these numbers can be read.
        n_layers: How many layers; those of the decoder where there is an encoder besides.
        width: m, of the residual stream.
        attention: That of one layer; all layers have the same.
        feed_forward_width: The inner width of a layer's feed-forward network.
        gated: Whether the network has three matrices, one of which gates another, or two.
        activation: "relu", "silu", "gelu", or "gelu-tanh" (the same, by an approximation).
        feed_forward_biases: Whether its matrices add a bias.
        experts: What takes the place of the network in all but the first layers, or None.
        vocabulary: v, the number of tokens that have a row in the embedding.
        tied_embeddings: Whether the output uses the embedding's matrix; if not, it has its own.
        norm: "rms" (one weight a coordinate) or "layer" (a weight and a bias).
        norm_placement: Where the norms of a sub-layer stand: "pre" (before it), "post" (after its
            sum with what entered it) or "peri" (before it and after it, before the sum).
        norm_of_embedding: Whether there is one more before the first layer.
        norm_at_end: Whether there is one more after the last layer. Like the one before the first,
            encoder and decoder have it each.
        norm_epsilon: What is added under the root of the norms.
        context: The number of tokens that the model is said to read.
        rotary: Rotary positions, or None.
        learned_positions: Whether each of the `context` positions has a learned vector; encoder and
            decoder have their own.
        n_segments: Learned vectors that tell the parts of an input apart (two in BERT).
        window: W, the sources that a layer with a sliding window reads, the target included; if not
            causal, on each side.
        window_pattern: Which layers have the window: True or False for each of the first few
            layers, repeated for all. Empty if there is no window.
        causal: Whether a target reads only itself and what stands before it.
        pooler: Whether a last square layer stands over the first position, as in BERT.
        n_encoder_layers: The layers of an encoder, whose output every one of the n_layers layers
            reads by a second attention of the same sizes. Both stacks have the same widths and
            share one vocabulary and its embedding.
        sinusoidal_positions: Whether sines and cosines of the position are added to the embedding.
        scaled_embedding: Whether the rows of the embedding are multiplied by the root of m where
            they enter (not where they give the output).

    Raises:
        TypeError: If a size is not a whole number, a flag not True or False, or a part not one of
            this module's.
        ValueError: If a size is below what makes sense, a rotary or sinusoidal width is odd, the
            window and its pattern do not go together, a base is given for layers with a window and
            none has it, or an encoder stands beside layers that are not causal, or experts.

    Example:
        >>> from attnlib import PUBLISHED
        >>> smol = PUBLISHED["smollm2-135m"]
        >>> f"{smol.n_parameters:,}", f"{smol.n_embedding_parameters:,}"
        ('134,515,008', '28,311,552')
    """

    name: str
    source: str
    n_layers: int
    width: int
    attention: AttentionSizes | LatentAttentionSizes
    feed_forward_width: int
    gated: bool
    activation: str
    vocabulary: int
    tied_embeddings: bool
    norm: str
    norm_placement: str
    norm_epsilon: float
    context: int
    feed_forward_biases: bool = False
    experts: ExpertSizes | None = None
    norm_of_embedding: bool = False
    norm_at_end: bool = True
    rotary: RotarySizes | None = None
    learned_positions: bool = False
    n_segments: int = 0
    window: int | None = None
    window_pattern: tuple[bool, ...] = ()
    causal: bool = True
    pooler: bool = False
    n_encoder_layers: int = 0
    sinusoidal_positions: bool = False
    scaled_embedding: bool = False

    def __post_init__(self) -> None:
        require_fields(self)
        require_one_of(self, "norm", ("rms", "layer"))
        require_one_of(self, "norm_placement", tuple(_NORMS_PER_SUB_LAYER))
        require_one_of(self, "activation", ("relu", "silu", "gelu", "gelu-tanh"))
        if self.rotary is not None and self.attention.rotary_width % 2 != 0:
            raise ValueError(
                "rotary positions turn pairs of coordinates, so their width must be even, got "
                f"{self.attention.rotary_width}"
            )
        if self.experts is not None and self.experts.n_dense_layers > self.n_layers:
            raise ValueError(
                "n_dense_layers must be at most n_layers, got "
                f"n_dense_layers={self.experts.n_dense_layers} and n_layers={self.n_layers}"
            )
        if self.sinusoidal_positions and self.width % 2 != 0:
            raise ValueError(
                "sinusoidal positions are pairs of a sine and a cosine, so m must be even, got "
                f"m={self.width}"
            )
        if self.sinusoidal_positions and self.learned_positions:
            raise ValueError("positions are sinusoidal or learned, got both")
        _require_stacks(self)
        _require_window(self.window, self.window_pattern, self.n_layers)
        if self.window is None and self.rotary is not None and self.rotary.window_base is not None:
            raise ValueError(
                "window_base is for layers with a window and there is none, got "
                f"window_base={self.rotary.window_base}"
            )

    @property
    def windows(self) -> tuple[int | None, ...]:
        """How many sources a target may read, layer by layer; None where all that is allowed.

        Example:
            >>> from attnlib import PUBLISHED
            >>> PUBLISHED["gemma-3-270m"].windows[:7]
            (512, 512, 512, 512, 512, None, 512)
        """
        pattern = self.window_pattern or (False,)
        repeated = (pattern[layer % len(pattern)] for layer in range(self.n_layers))
        return tuple(self.window if has_window else None for has_window in repeated)

    @property
    def n_stacks(self) -> int:
        """How many stacks of layers: two where an encoder stands beside the decoder."""
        return 2 if self.n_encoder_layers else 1

    @property
    def norms_per_layer(self) -> int:
        """Norms of the residual stream in a layer of two sub-layers; a third one has half more.

        Example:
            >>> from attnlib import PUBLISHED
            >>> PUBLISHED["gpt-2"].norms_per_layer, PUBLISHED["gemma-3-270m"].norms_per_layer
            (2, 4)
        """
        return 2 * _NORMS_PER_SUB_LAYER[self.norm_placement]

    @property
    def n_attentions(self) -> int:
        """How often the model attends: once a layer, twice in those that read an encoder.

        Example:
            >>> from attnlib import PUBLISHED
            >>> PUBLISHED["transformer-base"].n_attentions
            18
        """
        return self.n_layers + (self.n_encoder_layers + self.n_layers) * (self.n_stacks - 1)

    @property
    def n_window_layers(self) -> int:
        """How many layers have the sliding window."""
        return self.n_layers - self.windows.count(None)

    @property
    def n_full_layers(self) -> int:
        """How many layers read everything that a target may read."""
        return self.windows.count(None)

    @property
    def n_expert_layers(self) -> int:
        """How many layers have experts."""
        return 0 if self.experts is None else self.n_layers - self.experts.n_dense_layers

    @property
    def score_scale(self) -> float:
        r"""What the released model multiplies its scores by, YaRN's factor included.

        Example:
            >>> from attnlib import PUBLISHED
            >>> deepseek = PUBLISHED["deepseek-v2"]
            >>> round(deepseek.score_scale * 192**0.5, 3)
            1.59
        """
        factor = 1.0 if self.rotary is None else self.rotary.score_factor
        return self.attention.score_scale * factor

    @property
    def letters(self) -> dict[str, int]:
        """The sizes by their axis letters: those of attention, m and v."""
        return self.attention.letters | {"m": self.width, "v": self.vocabulary}

    @property
    def n_embedding_parameters(self) -> int:
        """The entries of the embedding, vm, and as many of the output matrix if it is another."""
        return self.vocabulary * self.width * (1 if self.tied_embeddings else 2)

    @property
    def n_position_parameters(self) -> int:
        """The entries of the learned vectors of positions and segments."""
        n_positions = self.n_stacks * self.context if self.learned_positions else 0
        return (n_positions + self.n_segments) * self.width

    @property
    def n_attention_parameters_per_layer(self) -> int:
        """The matrices, biases and inner norms of one attention; see `n_attentions`."""
        return self.attention.n_parameters(self.width)

    @property
    def n_feed_forward_parameters_per_layer(self) -> int:
        """One ordinary feed-forward network: three matrices if gated, otherwise two."""
        return self._n_network_parameters(self.feed_forward_width)

    @property
    def n_expert_parameters_per_layer(self) -> int:
        """All experts of one layer and the router that chooses; 0 without experts."""
        if self.experts is None:
            return 0
        n_experts = self.experts.n_routed + self.experts.n_shared
        router = self.width * self.experts.n_routed
        return n_experts * self._n_network_parameters(self.experts.inner_width) + router

    @property
    def n_norm_parameters(self) -> int:
        """The norms of the residual stream; those inside attention count as attention."""
        one = self.width * (1 if self.norm == "rms" else 2)
        n_feed_forwards = self.n_layers + self.n_encoder_layers
        n_sub_layers = self.n_attentions + n_feed_forwards
        in_layers = n_sub_layers * _NORMS_PER_SUB_LAYER[self.norm_placement]
        around_layers = self.n_stacks * (self.norm_of_embedding + self.norm_at_end)
        return one * (in_layers + around_layers)

    @property
    def n_parameters(self) -> int:
        """All parameters; a matrix that is used twice counts once."""
        n_dense_layers = self.n_layers + self.n_encoder_layers - self.n_expert_layers
        return (
            self.n_embedding_parameters
            + self.n_position_parameters
            + self.n_attentions * self.n_attention_parameters_per_layer
            + n_dense_layers * self.n_feed_forward_parameters_per_layer
            + self.n_expert_layers * self.n_expert_parameters_per_layer
            + self.n_norm_parameters
            + (self.width * (self.width + 1) if self.pooler else 0)
        )

    @property
    def n_non_embedding_parameters(self) -> int:
        """All parameters but the embedding and the output matrix."""
        return self.n_parameters - self.n_embedding_parameters

    @property
    def n_active_parameters(self) -> int:
        """The parameters that one token meets: all, less the experts that it does not choose.

        Example:
            >>> from attnlib import PUBLISHED
            >>> f"{PUBLISHED['deepseek-v2'].n_active_parameters:,}"
            '21,375,800,320'
        """
        if self.experts is None:
            return self.n_parameters
        n_idle = self.experts.n_routed - self.experts.n_chosen
        idle = n_idle * self._n_network_parameters(self.experts.inner_width)
        return self.n_parameters - self.n_expert_layers * idle

    def _n_network_parameters(self, inner: int) -> int:
        n_matrices = 3 if self.gated else 2
        biases = (n_matrices - 1) * inner + self.width if self.feed_forward_biases else 0
        return n_matrices * self.width * inner + biases


def require_devices(
    n_routed: int, n_chosen: int, n_devices: int, n_devices_at_most: int | None
) -> None:
    """Refuse devices that do not share the experts evenly, or on which too few may be chosen.

    Example:
        >>> require_devices(6, 4, 3, 1)
        Traceback (most recent call last):
        ValueError: n_chosen must be at most 2, the experts of 1 of 3 devices, got n_chosen=4
    """
    if n_routed % n_devices != 0:
        raise ValueError(
            f"n_devices must divide n_routed, got n_devices={n_devices} and n_routed={n_routed}"
        )
    if n_devices_at_most is None:
        return
    if n_devices_at_most > n_devices:
        raise ValueError(
            "n_devices_at_most must be at most n_devices, got "
            f"n_devices_at_most={n_devices_at_most} and n_devices={n_devices}"
        )
    n_there = n_devices_at_most * (n_routed // n_devices)
    if n_chosen > n_there:
        raise ValueError(
            f"n_chosen must be at most {n_there}, the experts of {n_devices_at_most} of "
            f"{n_devices} devices, got n_chosen={n_chosen}"
        )


def _require_stacks(sizes: ModelSizes) -> None:
    if not sizes.n_encoder_layers:
        return
    for field, wanted in (("causal", True), ("experts", None)):
        if getattr(sizes, field) != wanted:
            raise ValueError(
                f"a model with n_encoder_layers={sizes.n_encoder_layers} has {field}={wanted}, got "
                f"{field}={getattr(sizes, field)}"
            )


def _require_window(window: int | None, pattern: tuple[bool, ...], n_layers: int) -> None:
    if not isinstance(pattern, tuple) or not all(isinstance(x, bool) for x in pattern):
        raise TypeError(f"window_pattern must be a tuple of True and False, got {pattern!r}")
    if (window is None) != (True not in pattern[:n_layers]):
        raise ValueError(
            "a window and a pattern with a layer that has it go together, got "
            f"window={window} and window_pattern={pattern} for n_layers={n_layers}"
        )
