r"""The base of rotary positions, and how their frequencies are stretched for longer texts.

Source   Su et al. 2021, arXiv:2104.09864 (rotary positions); Chen et al. 2023, arXiv:2306.15595
         (linear); Peng et al. 2023, arXiv:2309.00071 (YaRN); meta-llama/llama-models,
         models/llama3/model.py (Llama 3.1)
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py
"""

from dataclasses import dataclass

from attnlib.positions import yarn_attention_factor
from attnlib.sizes.require import require_fields


@dataclass(frozen=True, kw_only=True)
class LinearScaling:
    """Positions divided by a factor, so that a longer text fits the trained range.

    Example:
        >>> from attnlib import PUBLISHED
        >>> PUBLISHED["gemma-3-27b"].rotary.scaling
        LinearScaling(factor=8.0)
    """

    factor: float

    def __post_init__(self) -> None:
        require_fields(self)
        _require_stretch(self.factor)


@dataclass(frozen=True, kw_only=True)
class Llama3Scaling:
    """Slow frequencies divided by a factor, fast ones kept, a ramp between, as in Llama 3.1.

    Example:
        >>> from attnlib import PUBLISHED
        >>> PUBLISHED["llama-3.2-1b"].rotary.scaling.factor
        32.0
    """

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_length: int

    def __post_init__(self) -> None:
        require_fields(self)
        _require_stretch(self.factor)
        if self.low_frequency_factor >= self.high_frequency_factor:
            raise ValueError(
                "low_frequency_factor must be below high_frequency_factor, got "
                f"{self.low_frequency_factor} and {self.high_frequency_factor}"
            )


@dataclass(frozen=True, kw_only=True)
class YarnScaling:
    r"""YaRN: frequencies scaled by how often they turn in the trained length, and scores sharpened.

    $$\text{score factor} = \bigl(0.1\,\mu \ln(\text{factor}) + 1\bigr)^2$$

    with `mscale` as $\mu$. DeepSeek-V2 multiplies the scale of its scores by it.

    Example:
        >>> from attnlib import PUBLISHED
        >>> round(PUBLISHED["deepseek-v2"].rotary.scaling.score_factor, 3)
        1.59
    """

    factor: float
    original_length: int
    beta_fast: float
    beta_slow: float
    mscale: float

    def __post_init__(self) -> None:
        require_fields(self)
        _require_stretch(self.factor)
        if self.beta_slow >= self.beta_fast:
            raise ValueError(
                f"beta_slow must be below beta_fast, got {self.beta_slow} and {self.beta_fast}"
            )

    @property
    def score_factor(self) -> float:
        """What the scores are multiplied by besides the scale of attention."""
        return yarn_attention_factor(self.factor, self.mscale) ** 2


@dataclass(frozen=True, kw_only=True)
class RotarySizes:
    """Rotary positions: the base of their frequencies and how these are stretched.

    Args:
        base: Pair ℓ of a head of width d turns by base^(−2ℓ/d) a token.
        window_base: The base in layers with a sliding window; None means the same one.
        scaling: How the frequencies are changed in layers without a window; None means not at all.
            Its fields have the names of the arguments of the function in `positions` that does it.

    Raises:
        TypeError: If a base is not a number.
        ValueError: If a base is not above 1.

    Example:
        >>> from attnlib import PUBLISHED
        >>> PUBLISHED["llama-3-70b"].rotary.base
        500000.0
    """

    base: float
    window_base: float | None = None
    scaling: LinearScaling | Llama3Scaling | YarnScaling | None = None

    def __post_init__(self) -> None:
        require_fields(self)
        for name in ("base", "window_base"):
            base = getattr(self, name)
            if base is not None and base <= 1:
                raise ValueError(f"{name} of rotary positions must be above 1, got {base}")

    @property
    def score_factor(self) -> float:
        """What the scores are multiplied by besides the scale of attention: 1 but for YaRN."""
        return self.scaling.score_factor if isinstance(self.scaling, YarnScaling) else 1.0


def _require_stretch(factor: float) -> None:
    if factor < 1:
        raise ValueError(f"factor must be at least 1, since texts get longer, got {factor}")
