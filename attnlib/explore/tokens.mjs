// Tokens: any text, cut by the first merges of a byte-pair tokenizer, merge by merge.

import { historyOf, joinsByMerge, tokenBytes, tokensAfter } from "./byte-pair.mjs";
import { axes, linear, pointerPosition, set, svg, whileHeld } from "./chart.mjs";
import {
  element, freshId, setText, show, showWhole, slider, wholeSteps,
} from "./controls.mjs";
import { limits } from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { readable } from "./readable.mjs";
import { fixed, text, whole } from "./state.mjs";
import { tokenView } from "./token-view.mjs";

const sound = new WeakSet(); // lists that were looked through once

/** Pairs of earlier ids, each once, as Python checks them. */
function cleanMerges(merges) {
  if (!Array.isArray(merges) || merges.length > limits.n_merges[1]) return undefined;
  if (sound.has(merges)) return merges;
  const isId = (x, i) => Number.isInteger(x) && x >= 0 && x < 256 + i;
  const fits = merges.every((pair, i) => (
    Array.isArray(pair) && pair.length === 2 && pair.every((x) => isId(x, i))
  ));
  if (!fits || new Set(merges.map(String)).size !== merges.length) return undefined;
  sound.add(merges);
  return merges;
}

export const fields = [
  text("text", "text", limits.text_length),
  whole("n_merges", "n", limits.n_merges),
  fixed("merges", cleanMerges),
];

/** A link may ask for more merges than there are. */
const numberOf = ({ n_merges: n, merges }) => Math.min(n, merges.length);

let latest = {};

/** Everything about a text that does not depend on how many merges count. */
function analysed({ text: written, merges }) {
  if (latest.written !== written || latest.merges !== merges) {
    const history = historyOf(written, merges);
    latest = {
      written,
      merges,
      history,
      joins: joinsByMerge(history, merges.length),
      characters: [...written].length,
      bytes: history.bytes.length,
      words: (written.match(/\P{White_Space}+/gu) ?? []).length,
    };
  }
  return latest;
}

/** The numbers of the picture. */
export function facts(state) {
  const { history, joins, characters, bytes, words } = analysed(state);
  const n = numberOf(state);
  const { ids } = tokensAfter(history, n);
  return { tokens: ids, characters, bytes, words, joins: n === 0 ? 0 : joins[n - 1] };
}

/** a / b with two decimals, halves rounded up: quotients of counts often are halves. */
const showRatio = (a, b) => show(Math.floor((200 * a + b) / (2 * b)) / 100);

const count = (number, thing) => `${showWhole(number)} ${thing}${number === 1 ? "" : "s"}`;

const quoted = (id, merges) => `“${readable(tokenBytes(id, merges))}”`;

/** The last merge that counts, in words. */
function describeMerge(state, joins) {
  const { merges } = state;
  const n = numberOf(state);
  if (n === 0) return "No merge yet: each byte is a token.";
  const [left, right, both] = [...merges[n - 1], 255 + n].map((id) => quoted(id, merges));
  return `Merge ${showWhole(n)} of ${showWhole(merges.length)}: ${left} + ${right} → ${both}, `
    + `joins ${joins > 0 ? count(joins, "place") : "no place"} here.`;
}

const N_SAID = 40; // so many tokens are listed in the words

/** The picture in words. */
export function describe(state, found = facts(state)) {
  const { tokens, characters, bytes, words, joins } = found;
  const merge = describeMerge(state, joins);
  if (tokens.length === 0) return `${merge} There is no text.`;
  const names = tokens.slice(0, N_SAID).map((id) => quoted(id, state.merges)).join(" ");
  const rest = tokens.length - N_SAID;
  const more = rest > 0 ? ` … and ${showWhole(rest)} more` : "";
  const aWord = words > 0 ? `, ${showRatio(tokens.length, words)} tokens a word` : "";
  return `${merge} The text has ${count(characters, "character")}, ${count(bytes, "byte")} and `
    + `${count(words, "word")}, and is ${count(tokens.length, "token")}: `
    + `${showRatio(bytes, tokens.length)} bytes a token${aWord}. Tokens: ${names}${more}.`;
}

function sayShort(state, { tokens }) {
  return `${count(numberOf(state), "merge")}: ${count(tokens.length, "token")}.`;
}

const CURVE = { left: 40, right: 290, top: 20, bottom: 150, width: 300, height: 188 };

/** 1, 2 or 5 times a power of ten: at most five such steps up to `most`. */
function tickStep(most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(most, 5) / 5));
  return [1, 2, 5, 10].find((times) => times * power * 5 >= most) * power;
}

const ticksTo = (most) => {
  const step = tickStep(most);
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => [i * step, showWhole(i * step)]);
};

/** How many tokens the text is after each merge: a cut at n is the picture above. */
function tokenCurve({ change, textId, merges }) {
  const { left, right, top, bottom, width, height } = CURVE;
  const last = Math.max(merges.length, 1);
  const x = linear([0, last], [left, right]);
  let y = linear([0, 1], [bottom, top]);
  const frame = svg("g");
  const line = svg("polyline", { class: "attn-curve attn-trace" });
  const cut = svg("line", { class: "attn-cut", y1: top - 4, y2: bottom });
  const knob = svg("circle", { class: "attn-knob", r: 5 });
  const picture = svg("svg", {
    class: "attn-picture attn-movable",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "Number of tokens after each merge",
    "aria-describedby": textId,
  }, frame, line, cut, knob);

  whileHeld(picture, (event) => {
    const [px] = pointerPosition(picture, event);
    const n = Math.round((merges.length * (px - left)) / (right - left));
    change({ n_merges: Math.min(Math.max(n, 0), merges.length) });
  });

  let drawn = null;
  return {
    node: picture,
    draw(now, found) {
      const whole = analysed(now);
      if (drawn !== whole) {
        drawn = whole;
        y = linear([0, Math.max(whole.bytes, 1)], [bottom, top]);
        frame.replaceChildren(axes({
          x, y, left, right, top, bottom,
          xTicks: ticksTo(merges.length),
          yTicks: ticksTo(whole.bytes),
          xName: "merges",
          yName: "tokens of the text",
        }));
        let tokens = whole.bytes;
        const corners = [`${x(0)},${y(tokens).toFixed(2)}`];
        whole.joins.forEach((joins, i) => {
          if (joins === 0) return;
          corners.push(`${x(i + 1).toFixed(2)},${y(tokens).toFixed(2)}`);
          tokens -= joins;
          corners.push(`${x(i + 1).toFixed(2)},${y(tokens).toFixed(2)}`);
        });
        corners.push(`${x(last)},${y(tokens).toFixed(2)}`);
        set(line, { points: corners.join(" ") });
      }
      const at = x(numberOf(now)).toFixed(2);
      set(cut, { x1: at, x2: at });
      set(knob, { cx: at, cy: y(found.tokens.length).toFixed(2) });
    },
  };
}

/** The text, typed; what is too long is cut, and that is said. */
function textBox({ change, shortId }) {
  const id = freshId("text-box");
  const noteId = freshId("text-note");
  const [, most] = limits.text_length;
  const note = element("p", { class: "attn-note", id: noteId });
  const box = element("textarea", {
    id,
    name: "text",
    class: "attn-text",
    rows: 4,
    spellcheck: "false",
    autocapitalize: "off",
    dir: "auto",
    "aria-describedby": `${noteId} ${shortId}`,
  });
  let tooLong = 0;
  box.addEventListener("input", () => {
    const typed = [...box.value.replace(/[\uD800-\uDFFF]/gu, "\uFFFD")];
    tooLong = Math.max(typed.length - most, 0);
    const kept = typed.slice(0, most).join("");
    if (tooLong > 0) box.value = kept;
    change({ text: kept });
  });
  return {
    node: element(
      "div",
      { class: "attn-text-box" },
      element("label", { for: id, class: "attn-label" }, "text"),
      box,
      note,
    ),
    show(written, characters) {
      // A text box has no "\r": it reads "\r\n" as one end of a line.
      if (box.value !== written.replace(/\r\n?/g, "\n")) {
        box.value = written;
        tooLong = 0;
      }
      setText(note, tooLong > 0
        ? `Only the first ${showWhole(most)} characters were kept; ${showWhole(tooLong)} did not fit.`
        : `${showWhole(characters)} of ${showWhole(most)} characters; any script, any sign`);
    },
  };
}

/** The next merge from n on, or the last one before it, that joins something in the text. */
function mergeThatJoins(joins, n, direction) {
  for (let i = n - 1 + direction; i >= 0 && i < joins.length; i += direction) {
    if (joins[i] > 0) return i + 1;
  }
  return direction < 0 ? 0 : undefined;
}

/** Four buttons: one merge back and on, and to the merges that change this text. */
function stepper({ change, current }) {
  const reach = {
    "previous-here": (now) => mergeThatJoins(analysed(now).joins, numberOf(now), -1),
    previous: (now) => numberOf(now) - 1,
    next: (now) => numberOf(now) + 1,
    "next-here": (now) => mergeThatJoins(analysed(now).joins, numberOf(now), 1),
  };
  const allowed = (n, { merges }) => n !== undefined && n >= 0 && n <= merges.length;
  const go = (name) => {
    const now = current();
    const n = reach[name](now);
    if (allowed(n, now) && n !== numberOf(now)) change({ n_merges: n });
  };
  const button = (name, shown, label) => element("button", {
    type: "button", class: "attn-button", name, "aria-label": label, title: label,
    click: () => go(name),
  }, shown);
  const buttons = [
    button("previous-here", "« joins here", "« joins here: the last merge before that changes this text"),
    button("previous", "− 1", "− 1 merge"),
    button("next", "+ 1", "+ 1 merge"),
    button("next-here", "joins here »", "joins here »: the next merge that changes this text"),
  ];
  return {
    node: element(
      "div",
      { class: "attn-stepper", role: "group", "aria-label": "Merge by merge" },
      ...buttons,
    ),
    // Not `disabled`: the focus would be lost at the end of a row of steps.
    draw(now) {
      for (const it of buttons) {
        const n = reach[it.name](now);
        const goes = allowed(n, now) && n !== numberOf(now);
        it.setAttribute("aria-disabled", String(!goes));
      }
    },
  };
}

const COUNTS = [
  ["characters", ({ characters }) => showWhole(characters)],
  ["UTF-8 bytes", ({ bytes }) => showWhole(bytes)],
  ["words", ({ words }) => showWhole(words)],
  ["tokens", ({ tokens }) => showWhole(tokens.length)],
  ["bytes a token", ({ bytes, tokens }) => (
    tokens.length > 0 ? showRatio(bytes, tokens.length) : "–"
  )],
  ["tokens a word", ({ tokens, words }) => (words > 0 ? showRatio(tokens.length, words) : "–")],
];

function countTable() {
  // No <dl>: notebooks lay its parts out in their own way.
  const values = COUNTS.map(() => element("div", { class: "attn-value" }));
  const pairs = COUNTS.map(([name], i) => (
    element("div", {}, element("div", { class: "attn-note" }, name), values[i])
  ));
  return {
    node: element("div", { class: "attn-counts" }, ...pairs),
    draw: (found) => values.forEach((node, i) => setText(node, COUNTS[i][1](found))),
  };
}

function build({ change: changeModel, textId, shortId, state }) {
  let current = state;
  const change = (patch) => {
    current = { ...current, ...patch }; // several steps may come before the next frame
    changeModel(patch);
  };
  const { merges } = state;
  const typed = textBox({ change, shortId });
  const nMerges = slider({
    name: "n_merges",
    label: "number of merges",
    steps: wholeSteps([0, merges.length]),
    write: (n) => `${showWhole(n)} of ${showWhole(merges.length)}`,
    describedBy: shortId,
    onValue: (value) => change({ n_merges: value }),
  });
  const steps = stepper({ change, current: () => current });
  const merge = element("p", { class: "attn-formula" });
  const tokens = tokenView({ merges, shortId });
  const counts = countTable();
  const curve = tokenCurve({ change, textId, merges });

  return {
    nodes: [
      typed.node,
      element("div", { class: "attn-merge-controls" }, nMerges.node, steps.node),
      element("div", { class: "attn-explain" }, merge),
      ...tokens.nodes,
      element("div", { class: "attn-columns" }, counts.node, curve.node),
    ],
    draw(now) {
      current = now;
      const found = facts(now);
      const { history } = analysed(now);
      typed.show(now.text, found.characters);
      nMerges.show(numberOf(now));
      steps.draw(now);
      setText(merge, describeMerge(now, found.joins));
      tokens.draw(history, tokensAfter(history, numberOf(now)), numberOf(now));
      counts.draw(found);
      curve.draw(now, found);
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Tokens: byte pairs, merge by merge";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "tokens", title, fields, build });
}
