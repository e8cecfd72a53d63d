// Attention weights as whole numbers of 12 bits, as packed_maps.py has rounded them.

import { limits } from "./formulas.mjs";

/** The whole number of the weight 1. */
export const largestRoot = 4095;

const known = new WeakMap();

/** The weight that such a whole number stands for. */
export const weightOf = (root) => (root / largestRoot) ** 2;

/** Its root, from 0 to 1. */
export const rootOf = (root) => root / largestRoot;

const isCount = (x, [low, high]) => Number.isInteger(x) && x >= low && x <= high;

/** As many targets as sources, called tokens, or a number of each. */
function sizesOf({ tokens, targets, sources }) {
  if (isCount(tokens, limits.n_map_tokens)) return { tokens, targets: tokens, sources: tokens };
  const fits = [targets, sources].every((count) => isCount(count, limits.n_aligned_tokens));
  return tokens === undefined && fits ? { targets, sources } : undefined;
}

/** The counts and the whole numbers, one after the other; undefined if malformed. */
export function unpackedMaps(packed) {
  if (packed === null || typeof packed !== "object") return undefined;
  if (known.has(packed)) return known.get(packed);
  const { layers, heads, roots: written } = packed;
  const sizes = sizesOf(packed);
  const fits = isCount(layers, limits.n_map_layers) && isCount(heads, limits.n_map_heads);
  if (!fits || sizes === undefined || typeof written !== "string") return undefined;
  let text;
  try {
    text = atob(written);
  } catch {
    return undefined;
  }
  const count = layers * heads * sizes.targets * sizes.sources;
  if (text.length !== 3 * Math.ceil(count / 2)) return undefined;
  const roots = new Uint16Array(count);
  for (let i = 0; i < count; i += 1) {
    const at = 3 * (i >> 1);
    const middle = text.charCodeAt(at + 1);
    roots[i] = i % 2 === 0
      ? (text.charCodeAt(at) << 4) | (middle >> 4)
      : ((middle & 15) << 8) | text.charCodeAt(at + 2);
  }
  const maps = { layers, heads, ...sizes, roots };
  known.set(packed, maps);
  return maps;
}

/** The whole numbers of one head, row by row. */
export function rootsOf({ heads, targets, sources, roots }, layer, head) {
  const size = targets * sources;
  const start = (layer * heads + head) * size;
  return roots.subarray(start, start + size);
}
