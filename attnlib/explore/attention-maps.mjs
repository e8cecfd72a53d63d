// Attention maps of a real model: a layer, a head and a target → whom it reads, and how much.

import {
  element, quote, setText, showCount, showThousandths, showWeight, slider, wholeSteps,
} from "./controls.mjs";
import { entropyTerm, largestEntropy, limits } from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { colourLegend, headButtons, headMap, shortened } from "./head-map.mjs";
import { sum } from "./numerics.mjs";
import { rootsOf, unpackedMaps, weightOf } from "./packed-maps.mjs";
import { readable } from "./readable.mjs";
import { fixed, whole } from "./state.mjs";

const N_SAID = 5; // so many sources of the chosen target are named
const N_LISTED = 3; // and so many of each target in the list of all

const isTexts = (list) => Array.isArray(list) && list.every((x) => typeof x === "string");
const below = ([, most]) => [0, most - 1];

export const fields = [
  whole("layer", "layer", below(limits.n_map_layers)),
  whole("head", "head", below(limits.n_map_heads)),
  whole("target", "t", below(limits.n_map_tokens)),
  whole("source", "s", below(limits.n_map_tokens)),
  fixed("tokens", (list) => (isTexts(list) ? list : undefined)),
  fixed("weights", (packed) => (unpackedMaps(packed)?.tokens ? packed : undefined)),
];

/** A hand-written link may ask for more than there is: then the last of it. */
function possible(state) {
  const { layers, heads, tokens } = unpackedMaps(state.weights);
  return {
    ...state,
    layer: Math.min(state.layer, layers - 1),
    head: Math.min(state.head, heads - 1),
    target: Math.min(state.target, tokens - 1),
    source: Math.min(state.source, tokens - 1),
  };
}

/** The sources of largest weight; of equal ones the first. */
function topSources(row, count) {
  return Array.from(row, (_, s) => s).sort((a, b) => row[b] - row[a] || a - b).slice(0, count);
}

let latest = {};

/** What does not depend on the chosen target: the rows of a head, and their means. */
function headOf({ weights, layer, head }) {
  if (latest.weights === weights && latest.layer === layer && latest.head === head) return latest;
  const maps = unpackedMaps(weights);
  const n = maps.tokens;
  const all = Array.from(rootsOf(maps, layer, head), weightOf);
  const rows = Array.from({ length: n }, (_, t) => all.slice(t * n, (t + 1) * n));
  const mean = (numbers) => sum(numbers) / numbers.length;
  const means = {
    entropy: sum(all.map(entropyTerm)) / n,
    largestEntropy: largestEntropy(n),
    distance: sum(all.map((p, i) => p * Math.abs(Math.floor(i / n) - (i % n)))) / n,
    onFirst: mean(rows.map((row) => row[0])),
    onLast: mean(rows.map((row) => row[n - 1])),
    onItself: mean(rows.map((row, t) => row[t])),
    onPrevious: mean(rows.slice(1).map((row, i) => row[i])),
    onNext: mean(rows.slice(0, -1).map((row, t) => row[t + 1])),
  };
  const tops = rows.map((row) => topSources(row, N_LISTED));
  latest = { weights, layer, head, rows, tops, means };
  return latest;
}

/** The numbers of the picture. */
export function facts(asked) {
  const state = possible(asked);
  const { rows, tops, means } = headOf(state);
  const row = rows[state.target];
  const top = topSources(row, N_SAID);
  return { weight: row[state.source], top, topWeights: top.map((s) => row[s]), tops, ...means };
}

const utf8 = new TextEncoder();

/** The tokens as a person can read them: what is invisible gets a name. */
const shownTokens = (tokens) => tokens.map((token) => readable(utf8.encode(token)));

/** The picture in words. */
export function describe(asked, found = facts(asked)) {
  const state = possible(asked);
  const { target, source, weights: { layers, heads } } = state;
  const tokens = shownTokens(state.tokens).map(quote);
  const names = found.top
    .map((s, i) => `${s} ${tokens[s]} ${showWeight(found.topWeights[i])}`).join(", ");
  return `Layer ${state.layer}, head ${state.head}, of ${showCount(layers, "layer")} with `
    + `${showCount(heads, "head")} each, counted from 0; ${tokens.length} tokens. Target ${target} `
    + `${tokens[target]} reads most from sources ${names}. Its weight on source ${source} `
    + `${tokens[source]} is ${showWeight(found.weight)}. Means over the targets: entropy `
    + `${showThousandths(found.entropy)} of at most ${showThousandths(found.largestEntropy)} `
    + `nats; distance |t − s| ${showThousandths(found.distance)}; weight on the first token `
    + `${tokens[0]} ${showThousandths(found.onFirst)}, on the last ${tokens.at(-1)} `
    + `${showThousandths(found.onLast)}, on the target itself `
    + `${showThousandths(found.onItself)}, on the token before it, where there is one, `
    + `${showThousandths(found.onPrevious)}, on the one after it `
    + `${showThousandths(found.onNext)}.`;
}

function sayShort({ layer, head, target, tokens }, { top, topWeights }) {
  const [reader, read] = shownTokens([tokens[target], tokens[top[0]]]).map(quote);
  return `Layer ${layer}, head ${head}: ${reader} reads most from ${read}, `
    + `${showWeight(topWeights[0])}.`;
}

/** The sources that the chosen target reads most, each with a bar, and below them the chosen one. */
function topRows(tokens, most) {
  const rows = Array.from({ length: most + 1 }, () => {
    const name = element("span", { class: "attn-top-name" });
    const fill = element("div", { class: "attn-fill attn-weight" });
    const value = element("span", { class: "attn-value" });
    const bar = element("div", { class: "attn-track" }, fill);
    return { name, fill, value, node: element("div", { class: "attn-weight-row" }, name, bar, value) };
  });
  const nodes = rows.map(({ node }) => node);
  const chosen = element("p", { class: "attn-note attn-weight-row-chosen" }, "The chosen source:");
  nodes.splice(most, 0, chosen);
  return {
    node: element("div", { class: "attn-weights" }, ...nodes),
    draw({ source }, { top, topWeights, weight }) {
      const weights = [...topWeights, weight];
      [...top, source].forEach((s, i) => {
        const { name, fill, value } = rows[i];
        setText(name, `${s} ${shortened(tokens[s])}`);
        fill.style.width = `${100 * weights[i]}%`;
        setText(value, showWeight(weights[i]));
      });
    },
  };
}

/** The means of the head over all targets. */
function meanList(tokens) {
  const items = [
    ["entropy", "entropy, nats"],
    ["distance", "distance |t − s|"],
    ["onFirst", `on the first, ${quote(shortened(tokens[0]))}`],
    ["onLast", `on the last, ${quote(shortened(tokens.at(-1)))}`],
    ["onItself", "on itself"],
    ["onPrevious", "on the token before"],
    ["onNext", "on the token after"],
  ].map(([name, words]) => ({ name, words, value: element("dd", { class: "attn-value" }) }));
  return {
    node: element(
      "dl",
      { class: "attn-means" },
      ...items.map(({ words, value }) => element("div", {}, element("dt", {}, words), value)),
    ),
    draw: (found) => items.forEach(({ name, value }) => setText(value, showThousandths(found[name]))),
  };
}

/** For every target the sources that it reads most: the whole map in words. */
function listOfAll(tokens) {
  const items = tokens.map(() => element("li", {}));
  let listed = null;
  return {
    node: element(
      "details",
      { class: "attn-all" },
      element("summary", {}, "What every target reads most"),
      element("ol", { class: "attn-all-list", start: 0 }, ...items),
    ),
    draw({ rows, tops }) {
      if (listed === tops) return;
      listed = tops;
      items.forEach((item, t) => {
        const names = tops[t].map((s) => `${s} ${quote(tokens[s])} ${showWeight(rows[t][s])}`);
        setText(item, `${quote(tokens[t])}: ${names.join(", ")}`);
      });
    },
  };
}

function build({ change: changeModel, textId, shortId, state }) {
  let current = possible(state);
  const tokens = shownTokens(state.tokens);
  const maps = unpackedMaps(state.weights);
  const n = tokens.length;
  const change = (patch) => {
    current = { ...current, ...patch }; // two sliders may move before the next frame
    changeModel(patch);
  };
  const control = (name, label, most, write) => slider({
    name,
    label,
    steps: wholeSteps([0, most - 1]),
    write,
    describedBy: shortId,
    onValue: (value) => change({ [name]: value }),
  });
  const named = (i) => `${i} ${shortened(tokens[i])}`;
  const controls = {
    layer: control("layer", `layer, of ${maps.layers}`, maps.layers, String),
    head: control("head", `head, of ${maps.heads}`, maps.heads, String),
    target: control("target", "target t", n, named),
    source: control("source", "source s", n, named),
  };

  let pointed = null;
  const reading = element("p", {});
  const read = () => {
    const { target, source } = pointed ?? current;
    const weight = headOf(current).rows[target][source];
    setText(reading, `Target ${target} ${quote(tokens[target])} reads source ${source} `
      + `${quote(tokens[source])} with weight ${showWeight(weight)}.`);
  };
  const map = headMap({
    rows: tokens,
    columns: tokens,
    change,
    textId,
    point: (place) => {
      pointed = place;
      read();
    },
  });
  const names = Array.from({ length: maps.heads }, (_, head) => String(head));
  const buttons = headButtons({ names, change });
  const top = topRows(tokens, Math.min(N_SAID, n));
  const means = meanList(tokens);
  const all = listOfAll(tokens);
  const topTitle = element("p", { class: "attn-formula" });

  return {
    nodes: [
      element(
        "div",
        { class: "attn-controls attn-controls-even" },
        controls.layer.node, controls.head.node, controls.target.node, controls.source.node,
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
          topTitle, top.node,
          element("p", { class: "attn-note" }, "Means of this head over all targets:"),
          means.node,
        ),
      ),
      all.node,
    ],
    draw(asked) {
      const now = possible(asked);
      current = now;
      const head = headOf(now);
      const found = facts(now);
      for (const [name, { show: showValue }] of Object.entries(controls)) showValue(now[name]);
      map.draw(now, rootsOf(maps, now.layer, now.head), `${now.layer} ${now.head}`);
      buttons.draw(now.head, (i) => rootsOf(maps, now.layer, i), n, now.layer);
      setText(topTitle, `${quote(shortened(tokens[now.target]))} reads most:`);
      top.draw(now, found);
      means.draw(found);
      all.draw(head);
      read();
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Attention maps: whom each token reads";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "attention-maps", title, fields, build });
}
