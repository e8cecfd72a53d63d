// What no formula of formulas.mjs can say: sums, orders, a root and a hull.
// Written by hand; tests/book/test_explorers_js.py holds each value to NumPy's.

import {
  effectiveSources, entropyTerm, jacobianBound, largestEntropy, logSumExp, normalised,
  shiftedExponential,
} from "./formulas.mjs";

export const sum = (numbers) => numbers.reduce((total, x) => total + x, 0);

/** Index of the first largest number. */
export function argmax(numbers) {
  let best = 0;
  for (let i = 1; i < numbers.length; i += 1) if (numbers[i] > numbers[best]) best = i;
  return best;
}

/** The weights of softmax, with the total of the exponentials shifted by the largest score. */
export function softmax(scores) {
  const largest = Math.max(...scores);
  const exponentials = scores.map((s) => shiftedExponential(s, largest));
  const total = sum(exponentials);
  return { weights: exponentials.map((e) => normalised(e, total)), largest, total };
}

/**
 * The largest eigenvalue of J = diag(p) − ppᵀ, the Jacobian of softmax.
 *
 * It lies between the two largest weights and solves 1 = Σ p_j² / (p_j − λ). With p₁ the largest
 * weight and r the sum of the others (not 1 − p₁, which cancels when one weight takes all), this is
 *     (p₁ r − λ) / (p₁ − λ) + Σ_{j>1} p_j² / (λ − p_j) = 0,
 * falling in λ. The bracket is max(p₂, p₁ r) ≤ λ ≤ min(p₁, 2 p₁ r). Newton's step is taken where it
 * stays in the bracket, and the bracket is halved where it does not, so the search cannot fail; it
 * ends where no step changes λ any more. Where p₁ = p₂ the bracket is the one point p₁.
 */
export function largestJacobianEigenvalue(weights) {
  const sorted = Float64Array.from(weights).sort();
  const first = sorted.at(-1);
  let rest = 0; // small ones first, to keep their digits
  for (let j = 0; j < sorted.length - 1; j += 1) rest += sorted[j];
  if (rest === 0) return 0;
  let low = Math.max(sorted.at(-2), first * rest);
  let high = jacobianBound(first, rest);
  let lambda = low + (high - low) / 2;
  while (lambda > low && lambda < high) {
    let falling = (first * rest - lambda) / (first - lambda);
    let slope = -((first / (first - lambda)) ** 2);
    for (let j = 0; j < sorted.length - 1; j += 1) {
      const ratio = sorted[j] / (lambda - sorted[j]);
      falling += sorted[j] * ratio;
      slope -= ratio * ratio;
    }
    if (falling > 0) low = lambda;
    else high = lambda;
    const next = lambda - falling / slope;
    if (next === lambda) break;
    lambda = next > low && next < high ? next : low + (high - low) / 2;
  }
  return Math.min(Math.max(lambda, low), high);
}

/** Everything that the softmax explorer says about its weights. */
export function softmaxFacts(scores) {
  const { weights, largest, total } = softmax(scores);
  const winner = argmax(weights);
  const entropy = sum(weights.map(entropyTerm));
  const rest = sum(weights.filter((_, j) => j !== winner).sort((a, b) => a - b));
  return {
    weights,
    winner,
    entropy,
    largestEntropy: largestEntropy(weights.length),
    effectiveSources: effectiveSources(entropy),
    eigenvalue: largestJacobianEigenvalue(weights),
    eigenvalueBound: jacobianBound(weights[winner], rest),
    meanScore: sum(weights.map((p, j) => p * scores[j])),
    logSumExp: logSumExp(largest, total),
  };
}

/** The weighted mean of points, and so a point of their hull. */
export function weightedMean(weights, points) {
  return [0, 1].map((axis) => sum(points.map((point, j) => weights[j] * point[axis])));
}

/** The corners of the convex hull, counter-clockwise (Andrew's monotone chain). */
export function convexHull(points) {
  const sorted = points.map((p) => [...p]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
  const halfChain = (ordered) => {
    const chain = [];
    for (const point of ordered) {
      while (chain.length > 1 && turn(chain.at(-2), chain.at(-1), point) <= 0) chain.pop();
      chain.push(point);
    }
    return chain.slice(0, -1);
  };
  return [...halfChain(sorted), ...halfChain(sorted.reverse())];
}
