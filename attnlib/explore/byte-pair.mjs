// Byte-pair encoding, all numbers of merges at once.
//
// Merge i joins a pair of ids, both below 256 + i, into token 256 + i. So a merge can only be
// waiting for earlier ones, encoding with the first n merges is a beginning of encoding with all,
// and a boundary between two bytes that is gone never comes back. One number a byte therefore holds
// the tokens at every n: `vanishes[p]`, the merge that takes away the boundary before byte p.

/** No merge takes this boundary away. */
export const NEVER = 2 ** 31 - 1;

// GPT-2's pattern as in attnlib/tokenizer.py. JavaScript's \s is not Unicode's white space: it has
// U+FEFF and lacks U+0085. Letters and digits are those of the browser's version of Unicode.
const PRE_TOKEN = new RegExp(
  "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\p{White_Space}\\p{L}\\p{N}]+"
  + "|\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+",
  "gu",
);

/** The pieces that no merge reaches across; together they are the text. */
export const preTokens = (text) => text.match(PRE_TOKEN) ?? [];

const utf8 = new TextEncoder();

/** A pair of ids as one number: ids stay below 2¹⁶. */
const keyOf = (left, right) => left * 65536 + right;

const ranksOf = new WeakMap(); // the merges of an explorer never change

/** From a pair to the merge that joins it. */
function rankTable(merges) {
  if (!ranksOf.has(merges)) {
    ranksOf.set(merges, new Map(merges.map(([left, right], i) => [keyOf(left, right), i])));
  }
  return ranksOf.get(merges);
}

/**
 * The bytes of some texts laid end to end, with the merge that takes away each boundary.
 *
 * Merge after merge, each joins its pairs from left to right, as Python does. No pair reaches from
 * one text into the next. The work is that of the bytes and of the merges, not their product.
 */
function joinAll(texts, merges) {
  const ranks = rankTable(merges);
  const pieces = texts.map((text) => utf8.encode(text));
  const length = pieces.reduce((total, piece) => total + piece.length, 0);
  const bytes = new Uint8Array(length);
  const starts = new Uint8Array(length + 1); // where a text begins, and the end
  starts[length] = 1;
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    if (piece.length > 0) starts[at] = 1;
    at += piece.length;
  }

  const vanishes = new Int32Array(length).fill(NEVER);
  const ids = Int32Array.from(bytes); // of the token that begins here; −1 inside a token
  const next = Int32Array.from(bytes, (_, p) => p + 1);
  const previous = Int32Array.from(bytes, (_, p) => p - 1);
  const waiting = merges.map(() => undefined); // by merge: where its pairs may begin
  const look = (p) => {
    const q = next[p];
    if (starts[q]) return;
    const rank = ranks.get(keyOf(ids[p], ids[q]));
    if (rank !== undefined) (waiting[rank] ??= []).push(p);
  };
  for (let p = 0; p < length; p += 1) look(p);

  merges.forEach(([left, right], rank) => {
    // Only pairs of two equal ids can overlap, and those were found from left to right.
    for (const p of waiting[rank] ?? []) {
      const q = next[p];
      if (ids[p] !== left || ids[q] !== right) continue; // taken by a neighbour
      ids[p] = 256 + rank;
      ids[q] = -1;
      vanishes[q] = rank;
      next[p] = next[q];
      if (next[p] < length) previous[next[p]] = p;
      if (!starts[p]) look(previous[p]);
      look(p);
    }
  });
  return { bytes, vanishes, pieces };
}

/**
 * The whole history of a text: its UTF-8 bytes and, for each, the merge that takes away the
 * boundary before it. Equal pre-tokens are merged once.
 */
export function historyOf(text, merges) {
  const all = preTokens(text);
  const distinct = [...new Set(all)];
  const merged = joinAll(distinct, merges);
  const from = new Map();
  let at = 0;
  distinct.forEach((piece, i) => {
    from.set(piece, [at, at + merged.pieces[i].length]);
    at += merged.pieces[i].length;
  });

  const length = all.reduce((total, piece) => total + from.get(piece)[1] - from.get(piece)[0], 0);
  const bytes = new Uint8Array(length);
  const vanishes = new Int32Array(length);
  at = 0;
  for (const piece of all) {
    const [start, end] = from.get(piece);
    bytes.set(merged.bytes.subarray(start, end), at);
    vanishes.set(merged.vanishes.subarray(start, end), at);
    at += end - start;
  }
  return { bytes, vanishes };
}

/** The tokens after the first n merges: where each begins, the end of the last, and their ids. */
export function tokensAfter({ bytes, vanishes }, n) {
  const starts = [];
  const ids = [];
  for (let p = 0; p < bytes.length; p += 1) {
    if (vanishes[p] >= n) {
      starts.push(p);
      ids.push(bytes[p]);
    } else {
      // A token's last merge is the latest of those inside it.
      ids[ids.length - 1] = Math.max(ids[ids.length - 1], 256 + vanishes[p]);
    }
  }
  starts.push(bytes.length);
  return { starts, ids };
}

/** How many places each merge joins in the text. */
export function joinsByMerge({ vanishes }, nMerges) {
  const joins = new Int32Array(nMerges);
  for (const rank of vanishes) if (rank !== NEVER) joins[rank] += 1;
  return joins;
}

const bytesOf = new WeakMap();

/** The bytes of a token, from the merges that made it. */
export function tokenBytes(id, merges) {
  if (id < 256) return [id];
  if (!bytesOf.has(merges)) bytesOf.set(merges, new Map());
  const known = bytesOf.get(merges);
  if (!known.has(id)) {
    known.set(id, merges[id - 256].flatMap((part) => tokenBytes(part, merges)));
  }
  return known.get(id);
}
