r"""Exponents: how a time grows with a size, with the error of what is fitted.

Source   Student 1908, "The Probable Error of a Mean"; Abramowitz and Stegun 1964, "Handbook of
         Mathematical Functions", equations 26.7.3 and 26.7.4 (the distribution in closed form)
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attnlib.require import at_least, number, positive

__all__ = ["Exponent", "fit_exponent", "student_quantile"]

_LARGEST = 700.0  # its exponential, and one over it, are floats of full precision


@dataclass(frozen=True, kw_only=True)
class Exponent:
    """A power law $a N^k$ that was fitted to times.

    Args:
        value: k.
        standard_error: Of k, from how the times scatter about the law. It knows nothing of a curve
            that is none: fit the upper sizes alone and compare.
        coefficient: a, in seconds.
        sizes: At which it was fitted.

    Example:
        >>> print(fit_exponent([10, 20, 40, 80], [1.0, 2.0, 4.0, 8.5]))
        1.03 ± 0.02
    """

    value: float
    standard_error: float
    coefficient: float
    sizes: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.standard_error:.2f}"

    def seconds_at(self, size: float | int) -> float:
        """What the law says of a size.

        Example:
            >>> round(fit_exponent([1, 2, 4], [3.0, 12.0, 48.0]).seconds_at(8), 9)
            192.0
        """
        return self.coefficient * positive("size", size) ** self.value

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Where the exponent lies with some confidence, if the logarithms scatter normally.

        With few points it is much wider than two standard errors: 12.7 of them to each side for
        three points, 4.3 for four.

        Args:
            level: The confidence, above 0 and below 1.

        Raises:
            TypeError: If the level is no number.
            ValueError: If it is outside.
        """
        half = student_quantile(level, len(self.sizes) - 2) * self.standard_error
        return self.value - half, self.value + half


def fit_exponent(sizes: Sequence[float | int], seconds: Sequence[float | int]) -> Exponent:
    r"""Fit a power law by least squares in the logarithms.

    $$\log s_i = \log a + k \log N_i + \varepsilon_i, \qquad
    k = \frac{\sum_i x_i y_i}{\sum_i x_i^2}, \qquad
    \operatorname{se}(k)^2 = \frac{\sum_i (y_i - k x_i)^2}{(n - 2) \sum_i x_i^2},$$

    where x and y are the logarithms of sizes and seconds less their means.

    Args:
        sizes: N, above 0 and not all equal.
        seconds: As many, above 0; medians, mostly. At least 3: through two points a law goes
            exactly, and nothing is left to tell its error.

    Raises:
        TypeError: If one is no number.
        ValueError: If the counts differ, there are fewer than 3, one is not above 0, all sizes are
            equal, or so close that no float holds a or that their logarithms are.

    Example:
        >>> fit = fit_exponent([64, 128, 256], [0.02, 0.04, 0.08])
        >>> round(fit.value, 9), round(fit.standard_error, 9)
        (1.0, 0.0)
    """
    if len(sizes) != len(seconds):
        raise ValueError(f"there must be one time a size, got {len(sizes)} and {len(seconds)}")
    n = len(sizes)
    if n < 3:
        raise ValueError(f"an exponent with an error needs at least 3 points, got {n}")
    sizes = tuple(positive("each of sizes", x) for x in sizes)
    logs_of_sizes = [math.log(x) for x in sizes]
    if len(set(logs_of_sizes)) == 1:
        raise ValueError(f"sizes must not all be equal, got {n} times {sizes[0]:g}")
    logs_of_seconds = [math.log(positive("each of seconds", s)) for s in seconds]

    middle_x, middle_y = math.fsum(logs_of_sizes) / n, math.fsum(logs_of_seconds) / n
    x = [each - middle_x for each in logs_of_sizes]
    y = [each - middle_y for each in logs_of_seconds]
    square = math.fsum(a * a for a in x)
    value = math.fsum(a * b for a, b in zip(x, y, strict=True)) / square
    log_of_coefficient = middle_y - value * middle_x
    if abs(log_of_coefficient) > _LARGEST:
        raise ValueError(
            f"sizes must be further apart for a law: these from {min(sizes):g} to {max(sizes):g} "
            f"have the exponent {value:.3g}, and no float holds its coefficient"
        )
    left = math.fsum((b - value * a) ** 2 for a, b in zip(x, y, strict=True))
    return Exponent(
        value=value,
        standard_error=math.sqrt(left / (n - 2) / square),
        coefficient=math.exp(log_of_coefficient),
        sizes=sizes,
    )


def student_quantile(level: float, n_degrees: int) -> float:
    r"""Give t with $P(|T| \le t) =$ level for Student's T with n degrees of freedom.

    $P(|T| \le \sqrt n \tan\theta)$ is a finite sum of powers of $\cos\theta$, which grows with
    $\theta$ from 0 to 1: the angle is found by halving.

    Args:
        level: Above 0 and below 1.
        n_degrees: n, at least 1.

    Raises:
        TypeError: If the level is no number, or n is not whole.
        ValueError: If one is outside.

    Example:
        >>> round(student_quantile(0.95, 1), 3), round(student_quantile(0.95, 1000), 3)
        (12.706, 1.962)
    """
    level, n = number("level", level), at_least("n_degrees", n_degrees, 1)
    if not 0 < level < 1:
        raise ValueError(f"level must be above 0 and below 1, got {level}")
    below, above = 0.0, math.pi / 2
    while below < (angle := (below + above) / 2) < above:
        if _share_within(angle, n) < level:
            below = angle
        else:
            above = angle
    return math.sqrt(n) * math.tan(below)


def _share_within(angle: float, n: int) -> float:
    """How likely T with n degrees of freedom is within √n tan(angle) of 0."""
    total, term = 0.0, math.cos(angle) if n % 2 else 1.0
    for j in range(n % 2, n - 1, 2):
        total += term
        term *= (j + 1) / (j + 2) * math.cos(angle) ** 2
    share = math.sin(angle) * total
    return 2 / math.pi * (angle + share) if n % 2 else share
