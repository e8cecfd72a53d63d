"""The fixed sample of scores that the score-spread explorer shows, the same in every place.

Source   Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (random numbers that are
         a hash of their place); Appleby, MurmurHash3 (the hash's constants, public domain);
         Bailey 1994, doi:10.1090/S0025-5718-1994-1219702-8 (Student t from two uniform numbers)
Chapter  chapters/variance-scaling.md
Axes     attnlib/axes.py

`score-sample.mjs` draws the same numbers. Every coordinate is rounded to a multiple of 2⁻¹², so the
products and their sums are exact in float64 in any order: Python's scores are JavaScript's, bit by
bit, and no score can fall into another bar of the histogram.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from attnlib.explore import limits

SEED = 17
GRID = 4096  # coordinates are multiples of 1 / GRID
REACH = 4  # standard deviations to either side that the histogram shows
N_SCORES = limits.SAMPLE_QUERIES * limits.SAMPLE_KEYS

FOURTH_MOMENTS = {"gaussian": 3.0, "rademacher": 1.0, "uniform": 1.8, "heavy-tailed": 9.0}


def hashed(counters: np.ndarray) -> np.ndarray:
    """A 32-bit number for each 32-bit counter, one to one and without visible order."""
    x = counters.astype(np.uint32) * np.uint32(0x9E3779B1) + np.uint32(SEED)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def uniform(counters: np.ndarray) -> np.ndarray:
    """A number between 0 and 1, neither of them reached, for each counter."""
    return (hashed(counters) + 0.5) / 2**32


def coordinates(distribution: str, counters: np.ndarray) -> np.ndarray:
    """Independent numbers of mean 0 and variance 1, one for each counter.

    A radius from one uniform number times the cosine of an angle from another is Gaussian for the
    radius √(−2 ln u) and Student t with ν degrees of freedom for √(ν(u^(−2/ν) − 1)); at ν = 5 the
    latter has variance 5/3, which is divided out.
    """
    u, v = uniform(2 * counters), uniform(2 * counters + 1)
    if distribution == "rademacher":
        return np.where(v < 0.5, -1.0, 1.0)
    if distribution == "uniform":
        drawn = math.sqrt(3) * (2 * v - 1)
    elif distribution == "gaussian":
        drawn = np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)
    else:
        drawn = np.sqrt(3 * (u**-0.4 - 1)) * np.cos(2 * np.pi * v)
    return np.floor(drawn * GRID + 0.5) / GRID


@cache
def raw_scores(distribution: str) -> dict[int, np.ndarray]:
    """⟨q, k⟩ of every query and key (t s) by the width d, a power of two.

    The width d takes the first d coordinates of vectors that are drawn once, as wide as the widest.
    """
    widest = limits.KEY_DIM[1]
    n_vectors = limits.SAMPLE_QUERIES + limits.SAMPLE_KEYS
    drawn = coordinates(distribution, np.arange(n_vectors * widest)).reshape(n_vectors, widest)
    q_td, k_sd = drawn[: limits.SAMPLE_QUERIES], drawn[limits.SAMPLE_QUERIES :]
    scores, total, start = {}, 0.0, 0
    d = limits.KEY_DIM[0]
    while d <= widest:
        total = total + np.einsum("td,sd->ts", q_td[:, start:d], k_sd[:, start:d])
        scores[d], start = total, d
        d *= 2
    return scores


def bars(distribution: str, key_dim: int) -> tuple[float, float, int]:
    """The first edge, the width and the number of the histogram's bars, in raw scores ⟨q, k⟩.

    A bar is a fifth of a standard deviation √d wide. Scores of coordinates ±1 lie two apart: there
    each bar holds a whole number of possible scores, an odd one, about as wide.
    """
    root = math.sqrt(key_dim)
    if distribution != "rademacher":
        return -REACH * root, root / 5, 10 * REACH
    held = 1 + 2 * max(math.floor((root / 10 - 1) / 2 + 0.5), 0)  # the odd number nearest to √d/10
    if key_dim == 1:
        return -4.0, 2.0, 4  # the scores are ±1, in the middle of two bars
    beside = math.floor((REACH * root - held) / (2 * held))
    return float(-held * (2 * beside + 1)), float(2 * held), 2 * beside + 1


def counts(distribution: str, key_dim: int) -> list[int]:
    """How many scores of the sample lie in each bar; those farther out are in none."""
    first, width, number = bars(distribution, key_dim)
    scores = raw_scores(distribution)[key_dim].ravel()
    place = np.floor((scores - first) / width).astype(int)
    return np.bincount(place[(place >= 0) & (place < number)], minlength=number).tolist()
