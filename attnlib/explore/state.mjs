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
