// Neighbours: a word and a width d → its nearest words by cosine in the first d coordinates.

import { element, freshId, setText, showThousandths, slider, wholeSteps } from "./controls.mjs";
import { curveChart } from "./curve-chart.mjs";
import { limits } from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { nearestByWidth, unpacked } from "./nearest.mjs";
import { fixed, text, whole } from "./state.mjs";

const coded = text("word", "word", limits.word_length);
const PLAIN = /^[\p{L}\p{N}]+$/u;

/** In a link a word stands as it is, unless its signs mean something there. */
const wordField = {
  ...coded,
  write: (word) => (PLAIN.test(word) ? word : `.${coded.write(word)}`),
  parse: (written) => (written.startsWith(".") ? coded.parse(written.slice(1)) : written),
};

const isWords = (list) => Array.isArray(list) && list.every((x) => typeof x === "string");

export const fields = [
  wordField,
  whole("width", "d", limits.n_columns),
  fixed("words", (list) => (isWords(list) ? list : undefined)),
  fixed("vectors", (packed) => (unpacked(packed) ? packed : undefined)),
];

/** A link may name a word that is none of these, or more dimensions than there are. */
function possible(state, otherwise = state.words[0]) {
  const word = state.words.includes(state.word) ? state.word : otherwise;
  return { ...state, word, width: Math.min(state.width, state.vectors.columns) };
}

let latest = {};

/** The nearest words at every width: they depend on the word alone. */
function nearestTo({ word, words, vectors }) {
  if (latest.word !== word || latest.vectors !== vectors) {
    const byWidth = nearestByWidth(unpacked(vectors), words.indexOf(word));
    const inTheEnd = new Set(byWidth.at(-1).order);
    const isShared = byWidth.map(({ order }) => order.map((i) => inTheEnd.has(i)));
    const sharedByWidth = isShared.map((list) => list.filter(Boolean).length);
    latest = { word, vectors, byWidth, isShared, sharedByWidth };
  }
  return latest;
}

/** The numbers of the picture. */
export function facts(state) {
  const { byWidth, isShared, sharedByWidth } = nearestTo(state);
  const { order, cosines } = byWidth[state.width - 1];
  return {
    neighbours: order.map((i) => state.words[i]),
    cosines,
    isShared: isShared[state.width - 1],
    sharedByWidth,
  };
}

/** The picture in words. */
export function describe(state, found = facts(state)) {
  const { word, width, vectors: { columns } } = state;
  const { neighbours, cosines, sharedByWidth } = found;
  const names = neighbours.map((name, i) => `${name} ${showThousandths(cosines[i])}`).join(", ");
  const n = neighbours.length;
  return `“${word}” in the first ${width} of ${columns} dimensions. Nearest by cosine: ${names}. `
    + `Of these ${n}, ${sharedByWidth[width - 1]} are among its ${n} nearest in all ${columns} `
    + "dimensions.";
}

function sayShort({ word, width }, { neighbours, cosines, sharedByWidth }) {
  return `Nearest to ${word} in ${width} dimensions: ${neighbours[0]}, ${showThousandths(cosines[0])}; `
    + `${sharedByWidth[width - 1]} of ${neighbours.length} shared with the full width.`;
}

/** The word, typed or taken from the list of all. */
function wordBox({ words, change, shortId }) {
  const id = freshId("word");
  const listId = freshId("words");
  const noteId = freshId("word-note");
  const note = element("div", { class: "attn-note attn-problem", id: noteId, role: "status" });
  const box = element("input", {
    id,
    name: "word",
    class: "attn-select",
    list: listId,
    maxlength: 2 * limits.word_length[1], // it counts halves of characters
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    dir: "auto",
    "aria-describedby": `${noteId} ${shortId}`,
  });
  const find = (typed) => [typed, typed.trim(), typed.trim().toLowerCase()]
    .find((word) => words.includes(word));
  const complain = (isUnknown) => {
    box.setAttribute("aria-invalid", String(isUnknown));
    const missed = box.value.trim() === "" ? "Type one" : `“${box.value}” is none`;
    setText(note, isUnknown
      ? `${missed} of the ${words.length} words, such as “${words[0]}” or “${words.at(-1)}”.`
      : "");
  };
  box.addEventListener("input", () => {
    const word = find(box.value);
    if (word !== undefined) change({ word });
    const mayBecomeOne = words.some((other) => other.startsWith(box.value.trim()));
    complain(word === undefined && !mayBecomeOne);
  });
  box.addEventListener("change", () => {
    const word = find(box.value);
    complain(word === undefined);
    if (word !== undefined) box.value = word; // without the blanks and capitals around it
  });
  return {
    node: element(
      "div",
      { class: "attn-choice" },
      element("label", { for: id, class: "attn-label" }, `word, one of ${words.length}`),
      box,
      element("datalist", { id: listId }, ...words.map((value) => element("option", { value }))),
      note,
    ),
    show(word) {
      const isHere = box.getRootNode().activeElement === box;
      const meant = find(box.value);
      if (isHere && meant === undefined) return; // it is being typed
      if (!isHere || meant !== word) box.value = word;
      complain(false);
    },
  };
}

/** The nearest words with their cosines, each a button that goes to that word. */
function neighbourRows({ count, change }) {
  const rows = Array.from({ length: count }, () => {
    const button = element("button", {
      type: "button",
      class: "attn-button attn-word",
      dir: "auto",
      click: () => change({ word: button.textContent }),
    });
    const fill = element("div", { class: "attn-fill attn-weight" });
    const value = element("span", { class: "attn-value" });
    const mark = element("span", { class: "attn-shared" });
    const parts = [button, element("div", { class: "attn-track" }, fill), value, mark];
    return { button, fill, value, mark, node: element("div", { class: "attn-neighbour" }, ...parts) };
  });
  return {
    node: element("div", { class: "attn-neighbours-rows" }, ...rows.map(({ node }) => node)),
    draw({ neighbours, cosines, isShared }) {
      rows.forEach(({ button, fill, value, mark }, i) => {
        setText(button, neighbours[i]);
        const too = isShared[i] ? "also in all dimensions, " : "";
        button.setAttribute("aria-label", `${neighbours[i]}: ${too}go to its neighbours`);
        fill.style.width = `${100 * Math.min(Math.max(cosines[i], 0), 1)}%`;
        fill.classList.toggle("attn-fill-pale", !isShared[i]);
        setText(value, showThousandths(cosines[i]));
        setText(mark, isShared[i] ? "✓" : "");
      });
    },
  };
}

const CURVE = { left: 24, right: 290, top: 24, bottom: 200, width: 300, height: 238, knob: 5 };

/** At each width, how many of the nearest words are those of the full width. */
function sharedCurve({ columns, count, change, textId }) {
  const step = [1, 2, 5, 10, 20].find((s) => s * 7 >= columns) ?? 25;
  const inside = Array.from({ length: columns }, (_, i) => i + 1).filter((d) => d % step === 0);
  const chart = curveChart({
    over: [1, Math.max(columns, 2)],
    range: [0, count],
    xTicks: [...new Set([1, ...inside])].map((d) => [d, String(d)]),
    yTicks: [0, Math.ceil(count / 2), count].map((n) => [n, String(n)]),
    xName: "dimensions d",
    yName: `of these ${count}, also nearest in all ${columns}`,
    label: "How many of the nearest words stay the same, over the dimensions",
    textId,
    curves: ["attn-trace"],
    onValue: (d) => change({ width: Math.min(d, columns) }),
    view: CURVE,
  });
  return {
    node: chart.node,
    draw({ width: d }, { sharedByWidth }) {
      chart.drawCurve(0, sharedByWidth.map((n, i) => [i + 1, n]));
      chart.mark(d, sharedByWidth[d - 1]);
    },
  };
}

function build({ change, textId, shortId, state }) {
  const { words, vectors } = state;
  const first = possible(state).word;
  const count = Math.min(limits.n_neighbours, words.length - 1);
  const word = wordBox({ words, change, shortId });
  const width = slider({
    name: "width",
    label: "dimensions d",
    steps: wholeSteps([1, vectors.columns]),
    write: (d) => `${d} of ${vectors.columns}`,
    describedBy: shortId,
    onValue: (value) => change({ width: value }),
  });
  const sentence = element("p", {});
  const rows = neighbourRows({ count, change });
  const curve = sharedCurve({ columns: vectors.columns, count, change, textId });
  return {
    nodes: [
      element("div", { class: "attn-neighbour-controls" }, word.node, width.node),
      element("div", { class: "attn-explain" }, sentence),
      element("div", { class: "attn-columns" }, rows.node, curve.node),
    ],
    draw(asked) {
      const now = possible(asked, first);
      const found = facts(now);
      word.show(now.word);
      width.show(now.width);
      const shared = found.sharedByWidth[now.width - 1];
      setText(sentence, `✓ ${shared} of these ${count} are among the ${count} nearest to `
        + `“${now.word}” in all ${vectors.columns} dimensions.`);
      rows.draw(found);
      curve.draw(now, found);
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Neighbours: how many dimensions a meaning needs";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "neighbours", title, fields, build });
}
