// The words nearest to one, for all widths at once, from whole numbers that Python has rounded.

import { cosine, limits } from "./formulas.mjs";

const known = new WeakMap();

/** The table of whole numbers: rows, columns and the entries row by row; undefined if malformed. */
export function unpacked(packed) {
  if (packed === null || typeof packed !== "object") return undefined;
  if (known.has(packed)) return known.get(packed);
  const { rows, columns, int16 } = packed;
  const isCount = (x, [low, high]) => Number.isInteger(x) && x >= low && x <= high;
  if (!isCount(rows, limits.n_words) || !isCount(columns, limits.n_columns)) return undefined;
  let text;
  try {
    text = atob(int16);
  } catch {
    return undefined;
  }
  if (text.length !== 2 * rows * columns) return undefined;
  const bytes = new DataView(Uint8Array.from(text, (c) => c.charCodeAt(0)).buffer);
  const entries = Int16Array.from({ length: rows * columns }, (_, i) => bytes.getInt16(2 * i, true));
  const table = { rows, columns, entries };
  known.set(packed, table);
  return table;
}

/** The first places of a falling order; equal ones stay as they were. */
function largest(values, count, except) {
  const best = [];
  for (let i = 0; i < values.length; i += 1) {
    if (i === except || (best.length === count && values[i] <= values[best[count - 1]])) continue;
    let at = best.length === count ? count - 1 : best.length;
    for (; at > 0 && values[best[at - 1]] < values[i]; at -= 1) best[at] = best[at - 1];
    best[at] = i;
  }
  return best;
}

/**
 * For each width, the rows nearest to one by cosine and their cosines.
 *
 * Dot products and squared lengths grow by one term a column. They are whole numbers below 2⁵³, so
 * nothing is rounded before the roots and the quotient.
 */
export function nearestByWidth({ rows, columns, entries }, row) {
  const dots = new Float64Array(rows);
  const squares = new Float64Array(rows);
  const cosines = new Float64Array(rows);
  return Array.from({ length: columns }, (_, column) => {
    const own = entries[row * columns + column];
    for (let i = 0; i < rows; i += 1) {
      const other = entries[i * columns + column];
      dots[i] += own * other;
      squares[i] += other * other;
    }
    for (let i = 0; i < rows; i += 1) {
      // A vector that is zero so far points nowhere.
      const points = squares[i] > 0 && squares[row] > 0;
      cosines[i] = points ? cosine(dots[i], squares[row], squares[i]) : 0;
    }
    const order = largest(cosines, Math.min(limits.n_neighbours, rows - 1), row);
    return { order, cosines: order.map((i) => cosines[i]) };
  });
}
