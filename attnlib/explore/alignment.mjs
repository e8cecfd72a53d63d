// Alignment of a translator: a number, a layer and a head → what is read for each piece written.

import {
  element, freshId, listedSteps, quote, setText, showCount, showThousandths, showWeight, showWhole,
  slider, wholeSteps,
} from "./controls.mjs";
import { entropyTerm, largestEntropy, limits } from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { colourLegend, headButtons, headMap } from "./head-map.mjs";
import { argmax, sum } from "./numerics.mjs";
import { largestRoot, rootsOf, unpackedMaps, weightOf } from "./packed-maps.mjs";
import { fixed, whole } from "./state.mjs";

const LARGEST_CELL = 30; // of 282: a number of two words stays a small picture

const isTexts = (list) => Array.isArray(list) && list.every((x) => typeof x === "string");

/** Whether an entry has a map for its words and its pieces. */
function isAlignment(entry) {
  if (entry === null || typeof entry !== "object" || !Number.isInteger(entry.number)) return false;
  const { source, target, weights } = entry;
  const maps = unpackedMaps(weights);
  return maps !== undefined && isTexts(source) && isTexts(target)
    && maps.sources === source.length && maps.targets === target.length;
}

const isAlignments = (list) => Array.isArray(list) && list.length > 0 && list.every(isAlignment);
const below = ([, most]) => [0, most - 1];

export const fields = [
  whole("number", "n", limits.number_in_words),
  whole("layer", "layer", below(limits.n_map_layers)),
  whole("head", "head", [0, limits.n_map_heads[1]]),
  whole("target", "t", below(limits.n_aligned_tokens)),
  whole("source", "s", below(limits.n_aligned_tokens)),
  fixed("alignments", (list) => (isAlignments(list) ? list : undefined)),
];

/** The entry of a number, or that of the nearest one below it, if there is any. */
function entryOf({ alignments, number }) {
  return alignments.findLast((entry) => entry.number <= number) ?? alignments[0];
}

/** A hand-written link may ask for more than there is: then the last of it. */
function possible(state) {
  const entry = entryOf(state);
  const { layers, heads, targets, sources } = unpackedMaps(entry.weights);
  return {
    ...state,
    number: entry.number,
    layer: Math.min(state.layer, layers - 1),
    head: Math.min(state.head, heads),
    target: Math.min(state.target, targets - 1),
    source: Math.min(state.source, sources - 1),
  };
}

/** A piece as it stands in its word: "##" only says that it is within one. */
const plain = (piece) => piece.replace(/^##/, "");

/** The weights of a head, one after the other; of their mean where there is no such head. */
function weightsOf(maps, layer, head) {
  if (head < maps.heads) return Array.from(rootsOf(maps, layer, head), weightOf);
  const heads = Array.from({ length: maps.heads }, (_, i) => rootsOf(maps, layer, i));
  return Array.from(heads[0], (_, i) => (
    sum(heads.map((roots) => weightOf(roots[i]))) / maps.heads
  ));
}

/** The whole numbers that colour them. */
function coloursOf(maps, layer, head) {
  if (head < maps.heads) return rootsOf(maps, layer, head);
  return weightsOf(maps, layer, head).map((p) => Math.round(largestRoot * Math.sqrt(p)));
}

function rowsOf({ layer, head }, maps) {
  const all = weightsOf(maps, layer, head);
  const n = maps.sources;
  return Array.from({ length: maps.targets }, (_, t) => all.slice(t * n, (t + 1) * n));
}

/** The numbers of the picture. */
export function facts(asked) {
  const state = possible(asked);
  const maps = unpackedMaps(entryOf(state).weights);
  const rows = rowsOf(state, maps);
  const tops = rows.map(argmax);
  return {
    weight: rows[state.target][state.source],
    tops,
    topWeights: rows.map((row, t) => row[tops[t]]),
    nBackward: tops.slice(1).filter((s, i) => s < tops[i]).length,
    entropy: sum(rows.flat().map(entropyTerm)) / maps.targets,
    largestEntropy: largestEntropy(maps.sources),
  };
}

const writtenBy = (target) => target.filter((piece) => piece !== "[END]").join("");

/** The picture in words. */
export function describe(asked, found = facts(asked)) {
  const state = possible(asked);
  const { source, target: pieces, weights } = entryOf(state);
  const target = pieces.map(plain);
  const { layers, heads } = unpackedMaps(weights);
  const head = state.head === heads ? "mean over the heads" : `head ${state.head}`;
  const reads = target.map((piece, t) => (
    `${quote(piece)} ${quote(source[found.tops[t]])} ${showWeight(found.topWeights[t])}`
  )).join(", ");
  return `${showWhole(state.number)}: ${quote(source.join(" "))} becomes `
    + `${quote(writtenBy(target))}. Layer ${state.layer}, ${head}, of `
    + `${showCount(layers, "layer")} with ${showCount(heads, "head")} each, counted from 0. When `
    + `it writes a piece it reads mostly: ${reads}. Steps back in the English words: `
    + `${found.nBackward}. The weight of ${quote(target[state.target])} on `
    + `${quote(source[state.source])} is ${showWeight(found.weight)}. Mean entropy `
    + `${showThousandths(found.entropy)} of at most ${showThousandths(found.largestEntropy)} nats.`;
}

/** What is said aloud: the chosen piece and its word. */
function sayShort(state, { tops, topWeights }) {
  const { source, target } = entryOf(state);
  const t = state.target;
  return `${showWhole(state.number)}: when it writes ${quote(plain(target[t]))} it reads mostly `
    + `${quote(source[tops[t]])}, ${showWeight(topWeights[t])}.`;
}

/** The weights of the chosen piece on all words, each with a bar; that of the chosen one is marked. */
function wordRows(most) {
  const rows = Array.from({ length: most }, () => {
    const name = element("span", { class: "attn-top-name" });
    const fill = element("div", { class: "attn-fill attn-weight" });
    const value = element("span", { class: "attn-value" });
    const track = element("div", { class: "attn-track" }, fill);
    const node = element("div", { class: "attn-weight-row" }, name, track, value);
    return { name, fill, value, track, node };
  });
  return {
    node: element("div", { class: "attn-weights" }, ...rows.map(({ node }) => node)),
    draw({ source }, weights, chosen) {
      rows.forEach(({ name, fill, value, track, node }, s) => {
        node.hidden = s >= source.length;
        track.classList.toggle("attn-track-chosen", s === chosen);
        setText(name, source[s] ?? "");
        fill.style.width = `${100 * (weights[s] ?? 0)}%`;
        setText(value, node.hidden ? "" : showWeight(weights[s]));
      });
    },
  };
}

/** For each piece the word that it reads most: the alignment as a list. */
function readList(most) {
  const items = Array.from({ length: most }, () => element("li", {}));
  return {
    node: element("ol", { class: "attn-read-list" }, ...items),
    draw({ source, target }, { tops, topWeights }, chosen) {
      items.forEach((item, t) => {
        item.hidden = t >= target.length;
        if (item.hidden) return;
        setText(item, `${plain(target[t])} ← ${source[tops[t]]} ${showWeight(topWeights[t])}`);
        item.classList.toggle("attn-read-chosen", t === chosen);
      });
    },
  };
}

/** The layer, of which there are few: a choice, which stands at no end as a slider would. */
function layerChoice({ layers, shortId, onValue }) {
  const id = freshId("layer");
  const select = element(
    "select",
    {
      id,
      name: "layer",
      class: "attn-select",
      "aria-describedby": shortId,
      change: () => onValue(Number(select.value)),
    },
    ...Array.from({ length: layers }, (_, layer) => (
      element("option", { value: layer }, `${layer}${layer === layers - 1 ? " (the last)" : ""}`)
    )),
  );
  return {
    node: element(
      "div",
      { class: "attn-choice" },
      element("label", { for: id, class: "attn-label" }, `layer, of ${layers}`),
      select,
    ),
    show(layer) {
      if (select.value !== String(layer)) select.value = String(layer);
    },
  };
}

function build({ change: changeModel, textId, shortId, state }) {
  let current = possible(state);
  let pointed = null;
  const { alignments } = state;
  const { layers, heads } = unpackedMaps(alignments[0].weights);
  const headNames = [...Array.from({ length: heads }, (_, head) => String(head)), "mean"];
  const change = (patch) => {
    const before = current;
    current = possible({ ...current, ...patch }); // two sliders may move before the next frame
    if (current.number !== before.number) pointed = null;
    // A smaller number has fewer pieces and words: Python is told of the places it has instead.
    const moved = Object.keys(current).filter((key) => current[key] !== before[key]);
    const told = new Set([...Object.keys(patch), ...moved]);
    changeModel(Object.fromEntries([...told].map((key) => [key, current[key]])));
  };
  const control = (name, label, steps, write, say) => slider({
    name,
    label,
    steps,
    write,
    say,
    describedBy: shortId,
    onValue: (value) => change({ [name]: value }),
  });
  const numbers = listedSteps(alignments.map(({ number }) => number));
  const inWords = (number) => (
    `${showWhole(number)}, ${entryOf({ alignments, number }).source.join(" ")}`
  );
  const piece = (t) => `${t} ${plain(entryOf(current).target[t])}`;
  const word = (s) => `${s} ${entryOf(current).source[s]}`;
  const controls = {
    number: control("number", "number", numbers, showWhole, inWords),
    layer: layerChoice({ layers, shortId, onValue: (layer) => change({ layer }) }),
    head: control("head", `head, of ${heads}`, wholeSteps([0, heads]), (head) => headNames[head]),
    target: control("target", "piece t that is written", wholeSteps([0, 0]), piece),
    source: control("source", "word s that is read", wholeSteps([0, 0]), word),
  };

  const translation = element("p", { class: "attn-formula attn-translation" });
  const reading = element("p", {});
  const read = () => {
    const { source, target, weights } = entryOf(current);
    const place = pointed ?? current;
    const weight = rowsOf(current, unpackedMaps(weights))[place.target][place.source];
    setText(reading, `When it writes ${quote(plain(target[place.target]))} it reads `
      + `${quote(source[place.source])} with weight ${showWeight(weight)}.`);
  };
  let named = entryOf(current);
  const map = headMap({
    rows: named.target.map(plain),
    columns: named.source,
    change,
    textId,
    largestCell: LARGEST_CELL,
    longest: alignments.flatMap(({ source }) => source),
    point: (place) => {
      pointed = place;
      read();
    },
  });
  const buttons = headButtons({ names: headNames, change });
  const most = (key) => Math.max(...alignments.map((entry) => entry[key].length));
  const words = wordRows(most("source"));
  const list = readList(most("target"));
  const wordsTitle = element("p", { class: "attn-formula" });
  const means = element("p", { class: "attn-note" });

  return {
    nodes: [
      element(
        "div",
        { class: "attn-controls attn-controls-even" },
        controls.number.node, controls.layer.node, controls.head.node,
        controls.target.node, controls.source.node,
      ),
      buttons.node,
      element(
        "div",
        { class: "attn-columns" },
        element(
          "div",
          { class: "attn-stage" },
          map.node, colourLegend(),
          element("div", { class: "attn-explain attn-reading" }, reading),
        ),
        element(
          "div",
          { class: "attn-side" },
          translation, wordsTitle, words.node,
          element("p", { class: "attn-note" }, "Each piece, and the word that is read most for it:"),
          list.node, means,
        ),
      ),
    ],
    draw(asked) {
      const now = possible(asked);
      if (now.number !== current.number) pointed = null; // Python, or a link, has moved it
      current = now;
      const entry = entryOf(now);
      const maps = unpackedMaps(entry.weights);
      const found = facts(now);
      if (entry !== named) map.rename(entry.target.map(plain), entry.source);
      named = entry;
      controls.target.input.max = String(maps.targets - 1);
      controls.source.input.max = String(maps.sources - 1);
      for (const [name, { show: showValue }] of Object.entries(controls)) showValue(now[name]);
      setText(translation, `${entry.source.join(" ")} → ${entry.target.map(plain).join(" · ")}`);
      map.draw(now, coloursOf(maps, now.layer, now.head), `${now.number} ${now.layer} ${now.head}`);
      buttons.draw(
        now.head,
        (i) => coloursOf(maps, now.layer, i),
        maps.sources,
        `${now.number} ${now.layer}`,
      );
      setText(wordsTitle, `When it writes ${quote(plain(entry.target[now.target]))} it reads:`);
      words.draw(entry, rowsOf(now, maps)[now.target], now.source);
      list.draw(entry, found, now.target);
      setText(means, `Steps back in the English words: ${found.nBackward}. Mean entropy `
        + `${showThousandths(found.entropy)} of at most `
        + `${showThousandths(found.largestEntropy)} nats.`);
      read();
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Alignment: which English words are read for each German piece";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "alignment", title, fields, build });
}
