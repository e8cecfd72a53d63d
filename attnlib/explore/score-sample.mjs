// The fixed sample of scores that the score-spread explorer shows: score_sample.py draws the same.
//
// A random number is the hash of its place (the constants are MurmurHash3's). Coordinates are
// multiples of 2⁻¹², so the products and their sums are exact in any order, here as in Python.

import { limits } from "./formulas.mjs";

const SEED = 17;
const GRID = 4096; // coordinates are multiples of 1 / GRID
const [NARROWEST, WIDEST] = limits.key_dim;
export const REACH = 4; // standard deviations to either side that the histogram shows
export const N_QUERIES = limits.sample_queries;
export const N_KEYS = limits.sample_keys;
export const N_SCORES = N_QUERIES * N_KEYS;
export const FOURTH_MOMENTS = { gaussian: 3, rademacher: 1, uniform: 1.8, "heavy-tailed": 9 };

/** A 32-bit number for each 32-bit counter, one to one and without visible order. */
function hashed(counter) {
  let x = Math.imul(counter, 0x9e3779b1) + SEED;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

/** A number between 0 and 1, neither of them reached, for each counter. */
const uniform = (counter) => (hashed(counter) + 0.5) / 2 ** 32;

/** From two uniform numbers to one of mean 0 and variance 1. */
const DRAW = {
  gaussian: (u, v) => Math.sqrt(-2 * Math.log(u)) * Math.cos(2 * Math.PI * v),
  rademacher: (u, v) => (v < 0.5 ? -1 : 1),
  uniform: (u, v) => Math.sqrt(3) * (2 * v - 1),
  "heavy-tailed": (u, v) => Math.sqrt(3 * (u ** -0.4 - 1)) * Math.cos(2 * Math.PI * v),
};

function coordinates(distribution) {
  const draw = DRAW[distribution];
  const drawn = new Float64Array((N_QUERIES + N_KEYS) * WIDEST);
  for (let i = 0; i < drawn.length; i += 1) {
    drawn[i] = Math.floor(draw(uniform(2 * i), uniform(2 * i + 1)) * GRID + 0.5) / GRID;
  }
  return drawn;
}

function scoresByWidth(distribution) {
  const drawn = coordinates(distribution);
  const byWidth = new Map();
  for (let d = NARROWEST; d <= WIDEST; d *= 2) byWidth.set(d, new Float64Array(N_SCORES));
  for (let place = 0; place < N_SCORES; place += 1) {
    const q = Math.floor(place / N_KEYS) * WIDEST;
    const k = (N_QUERIES + (place % N_KEYS)) * WIDEST;
    let total = 0;
    let l = 0;
    for (const [d, scores] of byWidth) {
      for (; l < d; l += 1) total += drawn[q + l] * drawn[k + l];
      scores[place] = total;
    }
  }
  return byWidth;
}

const kept = new Map();

/** ⟨q, k⟩ of every query and key by the width d; drawn when first asked for, then kept. */
export function rawScores(distribution) {
  if (!kept.has(distribution)) kept.set(distribution, scoresByWidth(distribution));
  return kept.get(distribution);
}

/**
 * The first edge, the width and the number of the histogram's bars, in raw scores ⟨q, k⟩.
 *
 * A bar is a fifth of a standard deviation √d wide. Scores of coordinates ±1 lie two apart: there
 * each bar holds a whole number of possible scores, an odd one, about as wide.
 */
export function bars(distribution, keyDim) {
  const root = Math.sqrt(keyDim);
  if (distribution !== "rademacher") return [-REACH * root, root / 5, 10 * REACH];
  const held = 1 + 2 * Math.max(Math.floor((root / 10 - 1) / 2 + 0.5), 0); // near √d / 10
  if (keyDim === 1) return [-4, 2, 4]; // the scores are ±1, in the middle of two bars
  const beside = Math.floor((REACH * root - held) / (2 * held));
  return [-held * (2 * beside + 1), 2 * held, 2 * beside + 1];
}

/** How many scores of the sample lie in each bar; those farther out are in none. */
export function counts(distribution, keyDim) {
  const [first, width, number] = bars(distribution, keyDim);
  const found = new Array(number).fill(0);
  for (const score of rawScores(distribution).get(keyDim)) {
    const place = Math.floor((score - first) / width);
    if (place >= 0 && place < number) found[place] += 1;
  }
  return found;
}
