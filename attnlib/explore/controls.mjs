// The few HTML parts that every explorer is made of.

/** An HTML element with attributes (functions become listeners) and children. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** An id that no other explorer has, even one whose script was loaded separately. */
export function freshId(name) {
  return `attn-${name}-${Math.random().toString(36).slice(2, 10)}`;
}

/** Writes only what changed: an untouched node costs no layout. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A number with so many decimals, a true minus sign, and no negative zero. */
export function show(x, decimals = 2) {
  const text = x.toFixed(decimals);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/** A number that may lie halfway between two decimals, moved off that place, as in Python. */
export const untie = (x) => x * (1 + 2 ** -40);

/** A number as a person would write it: about three digits, fewer where they are zeros. */
export function showRound(x) {
  const decimals = Math.min(Math.max(2 - Math.floor(Math.log10(Math.abs(x) || 1)), 0), 4);
  return show(x, decimals).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

/** A weight; a small one is not called zero. */
export function showWeight(p) {
  return p > 0 && p < 0.0005 ? "<0.001" : show(p, 3);
}

/** A number that may be tiny: as a power of ten where three decimals would call it zero. */
export function showSmall(x) {
  if (!(x > 0 && x < 0.0005)) return show(x, 3);
  const [mantissa, exponent] = x.toExponential(1).split("e");
  return `${mantissa}·10${exponent.replace(/./g, (sign) => RAISED[sign])}`;
}

/** Three decimals; half a thousandth counts up in Python as in JavaScript. */
export function showThousandths(x) {
  return show(Math.floor(1000 * x + 0.5) / 1000, 3);
}

/** A text in quotes; one that reads from the right is isolated: else it turns what follows. */
export const quote = (text) => (FROM_THE_RIGHT.test(text) ? `“\u2068${text}\u2069”` : `“${text}”`);

// The blocks of scripts that read from the right, Hebrew and Arabic before all.
const FROM_THE_RIGHT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** A number and its noun: 1 head, 2 heads. */
export const showCount = (count, thing) => `${count} ${thing}${count === 1 ? "" : "s"}`;

/** The nearest whole number, its thousands apart. */
export function showWhole(x) {
  return show(x, 0).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A number of tokens, its thousands apart: 1 token, 8,192 tokens. */
export const showTokens = (count) => `${showWhole(count)} token${count === 1 ? "" : "s"}`;

/** A length in positions: three digits, and whole from a hundred on. */
export function showWavelength(x) {
  return x >= 100 ? showWhole(x) : showRound(x);
}

/** A positive number of any size with three digits, a small one as a power of ten. */
export function showFrequency(x) {
  if (x > 0.0099999) return showRound(x);
  const [mantissa, exponent] = x.toExponential(2).split("e");
  return `${mantissa}·10${exponent.replace(/./g, (sign) => RAISED[sign])}`;
}

/** A number that is not negative, with three digits and a metric prefix: 139 GFLOP, 69.6 ms. */
export function showMetric(x, unit) {
  if (x === 0) return `0 ${unit}`;
  const [mantissa, exponent] = untie(x).toExponential(2).split("e");
  const thousands = Math.floor(Number(exponent) / 3);
  const before = Number(exponent) - 3 * thousands;
  const digits = mantissa.replace(".", "");
  const rest = before === 2 ? "" : `.${digits.slice(1 + before)}`;
  return `${digits.slice(0, 1 + before)}${rest} ${PREFIXES[thousands]}${unit}`;
}

/** A number of bytes with about three digits and a binary prefix: 67.5 KiB, 2.5 GiB. */
export function showBinary(bytes) {
  let [amount, power] = [untie(bytes), 0];
  while (amount >= 1023.5 && power < BINARY.length - 1) {
    amount /= 1024;
    power += 1;
  }
  return `${showWavelength(amount)} ${BINARY[power]}`;
}

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

const PREFIXES = {
  "-4": "p", "-3": "n", "-2": "µ", "-1": "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P", 6: "E",
  7: "Z",
};

const RAISED = {
  "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹",
};

// A scale turns the whole-number steps of a slider into values and back.

export function linearSteps([low, high], step) {
  const perUnit = Math.round(1 / step);
  return {
    last: Math.round((high - low) * perUnit),
    valueAt: (i) => Math.round(low * perUnit + i) / perUnit,
    stepOf: (x) => Math.round((x - low) * perUnit),
  };
}

/** Equal ratios, each value rounded to two digits; the range's ends are reached exactly. */
export function logSteps([low, high], last) {
  const span = Math.log(high / low);
  return {
    last,
    valueAt: (i) => Number((low * Math.exp((span * i) / last)).toPrecision(2)),
    stepOf: (x) => Math.round((last * Math.log(x / low)) / span),
  };
}

export function powersOfTwo([low, high]) {
  const first = Math.log2(low);
  return {
    last: Math.log2(high) - first,
    valueAt: (i) => 2 ** (first + i),
    stepOf: (x) => Math.round(Math.log2(x)) - first,
  };
}

export function wholeSteps([low, high]) {
  return { last: high - low, valueAt: (i) => low + i, stepOf: (x) => x - low };
}

export function evenSteps([low, high]) {
  return { last: (high - low) / 2, valueAt: (i) => low + 2 * i, stepOf: (x) => (x - low) / 2 };
}

export function listedSteps(values) {
  return {
    last: values.length - 1,
    valueAt: (i) => values[i],
    stepOf: (x) => values.indexOf(x),
  };
}

/**
 * A labelled slider with its value beside it.
 * `say` turns the value into the words that a screen reader speaks.
 */
export function slider({ name, label, steps, write, say = write, describedBy, onValue }) {
  const id = freshId(name);
  const output = element("output", { class: "attn-value", for: id });
  const input = element("input", {
    type: "range",
    id,
    name,
    min: 0,
    max: steps.last,
    step: 1,
    "aria-describedby": describedBy,
    input: () => onValue(steps.valueAt(Number(input.value))),
  });
  const caption = element("label", { for: id, class: "attn-label" }, ...[label].flat());
  return {
    caption,
    input,
    output,
    node: element("div", { class: "attn-slider" }, caption, output, input),
    show(value) {
      const step = String(steps.stepOf(value));
      if (input.value !== step) input.value = step;
      setText(output, write(value));
      const said = say(value);
      if (input.getAttribute("aria-valuetext") !== said) input.setAttribute("aria-valuetext", said);
    },
  };
}

/** A labelled list to choose from; `options` are pairs of a value and its words. */
export function selection(name, label, options, shortId, onValue) {
  const id = freshId(name);
  const select = element(
    "select",
    {
      id, name, class: "attn-select", "aria-describedby": shortId,
      change: () => onValue(select.value),
    },
    ...options.map(([value, words]) => element("option", { value }, words)),
  );
  return {
    select,
    node: element(
      "div",
      { class: "attn-choice" },
      element("label", { for: id, class: "attn-label" }, label),
      select,
    ),
    show(value) {
      if (select.value !== value) select.value = value;
    },
  };
}

/** What one mark of a picture means; `mark` names its sample in the style sheet. */
export function legendItem(mark, ...words) {
  const sample = element(
    "span", { class: `attn-sample attn-sample-${mark}`, "aria-hidden": "true" },
  );
  return element("span", { class: "attn-legend-item" }, sample, ...words);
}

export const legend = (...items) => element("div", { class: "attn-legend" }, ...items);

/** A bar for a value between 0 and the most it can be, with a mark for a bound. */
export function gauge(title) {
  const value = element("span", { class: "attn-value" });
  const fill = element("div", { class: "attn-fill" });
  const mark = element("div", { class: "attn-mark", hidden: "" });
  const note = element("div", { class: "attn-note" });
  const head = element("div", { class: "attn-gauge-head" }, element("span", {}, title), value);
  const track = element("div", { class: "attn-track" }, fill, mark);
  return {
    node: element("div", { class: "attn-gauge" }, head, track, note),
    show(text, fraction, noteText, bound) {
      setText(value, text);
      setText(note, noteText);
      fill.style.width = `${100 * fraction}%`;
      mark.hidden = bound === undefined;
      if (bound !== undefined) mark.style.left = `${100 * bound}%`;
    },
  };
}

/** However often it is asked, it draws once in the next animation frame. */
export function oncePerFrame(draw) {
  let waiting = 0;
  const ask = () => {
    if (waiting === 0) {
      waiting = requestAnimationFrame(() => {
        waiting = 0;
        draw();
      });
    }
  };
  return { ask, cancel: () => cancelAnimationFrame(waiting) };
}

/** A hidden live region that speaks when the reader pauses, not at every step of a slider. */
export function speaker(pauseMs = 700) {
  const node = element("div", { class: "attn-hidden", role: "status", "aria-live": "polite" });
  let timer = 0;
  return {
    node,
    say(text) {
      clearTimeout(timer);
      timer = setTimeout(() => setText(node, text), pauseMs);
    },
    stop: () => clearTimeout(timer),
  };
}
