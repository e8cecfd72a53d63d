// Logits in half precision, below the largest of their row, as packed_logits.py has rounded them.

import { limits } from "./formulas.mjs";

const known = new WeakMap();

const isCount = (x, [low, high]) => Number.isInteger(x) && x >= low && x <= high;

/** The number that 16 bits stand for. */
function halfOf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

/** The rows, each a list of numbers of which the largest is 0; undefined if malformed. */
export function unpackedLogits(packed) {
  if (packed === null || typeof packed !== "object") return undefined;
  if (known.has(packed)) return known.get(packed);
  const { rows, columns, float16: written } = packed;
  const fits = isCount(rows, limits.n_next_tokens) && isCount(columns, limits.vocabulary)
    && rows * columns <= limits.n_logits;
  if (!fits || typeof written !== "string") return undefined;
  let text;
  try {
    text = atob(written);
  } catch {
    return undefined;
  }
  if (text.length !== 2 * rows * columns) return undefined;
  const numberAt = (i) => halfOf(text.charCodeAt(2 * i) | (text.charCodeAt(2 * i + 1) << 8));
  const all = Array.from({ length: rows }, (_, row) => (
    Float64Array.from({ length: columns }, (_, i) => numberAt(row * columns + i))
  ));
  // One NaN makes the largest NaN.
  if (!all.every((row) => row.reduce((a, b) => Math.max(a, b), -Infinity) === 0)) return undefined;
  known.set(packed, all);
  return all;
}
