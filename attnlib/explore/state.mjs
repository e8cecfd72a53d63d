// What an explorer remembers: its fields, each with the values it may take.
//
// A field is { key, param, clean, write, parse }: the trait's name in Python, its short name in a
// link, and three functions. `clean` returns undefined for what cannot be chosen, so neither a
// hand-written link nor a broken saved state can bring a NaN into a picture.

const isNumber = (x) => typeof x === "number" && Number.isFinite(x);

const within = ([low, high]) => (x) => (isNumber(x) && x >= low && x <= high ? x : undefined);

/** A text that is a number and nothing else: no "", no "0x10", no "Infinity". */
function parseNumber(text) {
  return /^-?\d+(\.\d+)?(e-?\d+)?$/i.test(text) ? Number(text) : undefined;
}

export function number(key, param, range) {
  return { key, param, clean: within(range), write: String, parse: parseNumber };
}

export function powerOfTwo(key, param, range) {
  const allowed = within(range);
  const clean = (x) => (Number.isInteger(Math.log2(allowed(x))) ? x : undefined);
  return { key, param, clean, write: String, parse: parseNumber };
}

export function whole(key, param, range) {
  const allowed = within(range);
  const clean = (x) => (Number.isInteger(allowed(x)) ? x : undefined);
  return { key, param, clean, write: String, parse: parseNumber };
}

export function even(key, param, range) {
  const { clean, ...rest } = whole(key, param, range);
  return { ...rest, clean: (x) => (clean(x) % 2 === 0 ? x : undefined) };
}

export function listed(key, param, values) {
  const clean = (x) => (values.includes(x) ? x : undefined);
  return { key, param, clean, write: String, parse: parseNumber };
}

export function flag(key, param) {
  return {
    key,
    param,
    clean: (x) => (typeof x === "boolean" ? x : undefined),
    write: (x) => (x ? "yes" : "no"),
    parse: (text) => ({ yes: true, no: false })[text],
  };
}

export function choice(key, param, options) {
  const clean = (x) => (options.includes(x) ? x : undefined);
  return { key, param, clean, write: String, parse: (text) => text };
}

/**
 * A text of so many characters, in a link as base64 of its UTF-8: that survives every
 * program that carries links, whatever the text is.
 */
export function text(key, param, [fewest, most]) {
  const fits = (x) => x.length <= 2 * most && [...x].length <= most && x.length >= fewest
    && !HALF.test(x);
  return {
    key,
    param,
    clean: (x) => (typeof x === "string" && fits(x) ? x : undefined),
    write: toBase64,
    parse: fromBase64,
  };
}

/** Half of a character: the /u flag sees the whole ones as one. */
const HALF = /[\uD800-\uDFFF]/u;

function toBase64(text) {
  const bytes = Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte));
  return btoa(bytes.join("")).replace(/=+$/, "").replace(/\+/g, "-").replace(/\//g, "_");
}

function fromBase64(written) {
  if (!/^[\w-]*$/.test(written)) return undefined;
  try {
    const bytes = atob(written.replace(/-/g, "+").replace(/_/g, "/"));
    const whole = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    return whole.decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)));
  } catch {
    return undefined; // a link that was cut, or written by hand
  }
}

/** A list of numbers; `lengths` is the fewest and the most of them. */
export function numbers(key, param, range, lengths) {
  const allowed = within(range);
  return {
    key,
    param,
    clean: (list) => {
      const fits = Array.isArray(list) && list.length >= lengths[0] && list.length <= lengths[1];
      return fits && list.every((x) => allowed(x) !== undefined) ? list : undefined;
    },
    write: (list) => list.join(","),
    parse: (text) => text.split(",").map(parseNumber),
    sameLength: true,
  };
}

/** What comes with the explorer and no link may change, such as labels. */
export function fixed(key, clean) {
  return { key, clean };
}

/** The state in the model; a value that cannot be chosen falls back to the explorer's first one. */
export function readState(model, fields) {
  const initial = model.get("initial") ?? {};
  return Object.fromEntries(
    fields.map(({ key, clean }) => [key, clean(model.get(key)) ?? initial[key]]),
  );
}

const shared = (fields) => fields.filter(({ param }) => param !== undefined);

/** "tau=0.5;d=64": the fields that differ from the first state. */
export function writeFields(state, initial, fields) {
  return shared(fields)
    .filter(({ key, write }) => write(state[key]) !== write(initial[key]))
    .map(({ key, param, write }) => `${param}=${write(state[key])}`)
    .join(";");
}

/** The fields of such a text that make sense; the others are left out. */
export function parseFields(text, initial, fields) {
  const found = {};
  for (const part of text.split(";")) {
    const at = part.indexOf("=");
    const field = shared(fields).find(({ param }) => param === part.slice(0, at));
    if (at < 1 || field === undefined) continue;
    const value = field.clean(field.parse(part.slice(at + 1)));
    const fits = !field.sameLength || value?.length === initial[field.key].length;
    if (value !== undefined && fits) found[field.key] = value;
  }
  return found;
}
