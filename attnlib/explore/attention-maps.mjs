// Attention maps of a real model: a layer, a head and a target → whom it reads, and how much.

import { linear, pointerPosition, set, showSome, svg, whereClicked } from "./chart.mjs";
import {
  element, quote, setText, showCount, showThousandths, showWeight, slider, wholeSteps,
} from "./controls.mjs";
import { entropyTerm, largestEntropy, limits } from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { sum } from "./numerics.mjs";
import { rootOf, rootsOf, unpackedMaps, weightOf } from "./packed-maps.mjs";
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
  fixed("weights", (packed) => (unpackedMaps(packed) ? packed : undefined)),
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

// Near plotly's Cividis, the colour scale of the book's heat maps: it grows in lightness alone.
const STOPS = [[0, 32, 77], [62, 75, 108], [122, 122, 121], [186, 174, 109], [255, 234, 70]];

/** The colour of a root from 0 to 1, as red, green and blue. */
export function colourOf(root) {
  const place = root * (STOPS.length - 1);
  const i = Math.min(Math.floor(place), STOPS.length - 2);
  return STOPS[i].map((low, channel) => (
    Math.round(low + (place - i) * (STOPS[i + 1][channel] - low))
  ));
}

let colours = null; // of every whole number of 12 bits, as four bytes; made when first needed

function paint(canvas, roots, n) {
  colours ??= Array.from({ length: 4096 }, (_, root) => (
    new Uint32Array(Uint8Array.of(...colourOf(rootOf(root)), 255).buffer)[0]
  ));
  if (canvas.width !== n || canvas.height !== n) Object.assign(canvas, { width: n, height: n });
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(n, n);
  const cells = new Uint32Array(image.data.buffer);
  for (let i = 0; i < roots.length; i += 1) cells[i] = colours[roots[i]];
  pen.putImageData(image, 0, 0);
}

const VIEW = { left: 74, side: 282, width: 360 };
const MOST_LABELS = 26;
const MOST_ROOM = 10; // letters of a token where there is little room
const WIDE = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}]/u;
const BROAD = /[MWmw@%]/;
const COMBINING = /\p{M}/u;

/** About how many letters wide a text is. */
const roomOf = (text) => sum(Array.from(text, (sign) => {
  if (COMBINING.test(sign)) return 0;
  if (BROAD.test(sign)) return 1.6;
  return WIDE.test(sign) ? 2 : 1;
}));

function shortened(token) {
  if (roomOf(token) <= MOST_ROOM) return token;
  const signs = [...token];
  while (roomOf(signs) >= MOST_ROOM) signs.pop();
  return `${signs.join("")}…`;
}

/** The map of one head: rows are targets, columns are sources. */
function headMap({ tokens, change, point, textId }) {
  const { left, side, width } = VIEW;
  const n = tokens.length;
  const every = Math.ceil(n / MOST_LABELS);
  const fontSize = Math.min(11, Math.max(9, (side / n) * every * 0.95));
  const top = 14 + 0.62 * fontSize * Math.max(...tokens.map((token) => roomOf(shortened(token))));
  const height = top + side + 4;
  const percent = (part, all) => `${(100 * part) / all}%`;
  const canvas = element("canvas", { class: "attn-map", "aria-hidden": "true" });
  Object.assign(canvas.style, {
    left: percent(left, width),
    top: percent(top, height),
    width: percent(side, width),
    height: percent(side, height),
  });
  const at = linear([0, n], [0, side]);
  const label = (token, attributes) => {
    const made = svg("text", { class: "attn-tick", "text-anchor": "end", ...attributes });
    made.style.fontSize = `${fontSize.toFixed(1)}px`;
    made.textContent = shortened(token);
    return made;
  };
  const rowNames = tokens.map((token, t) => (
    label(token, { x: left - 5, y: (top + at(t + 0.5) + 0.35 * fontSize).toFixed(2) })
  ));
  const columnNames = tokens.map((token, s) => {
    const x = (left + at(s + 0.5) + 0.35 * fontSize).toFixed(2);
    return label(token, { "text-anchor": "start", transform: `translate(${x} ${top - 5}) rotate(-90)` });
  });
  const border = svg("rect", { class: "attn-map-border", x: left, y: top, width: side, height: side });
  const frames = ["row", "cell"].flatMap((which) => (
    ["attn-frame-halo", "attn-frame"].map((name) => ({ which, node: svg("rect", { class: name }) }))
  ));
  const picture = svg("svg", {
    class: "attn-picture attn-map-frame",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "Map of the weights: targets from top to bottom, sources from left to right",
    "aria-describedby": textId,
  }, border, ...rowNames, ...columnNames, ...frames.map(({ node }) => node));

  const cellAt = (event) => {
    const [px, py] = pointerPosition(picture, event);
    const place = (x) => Math.min(Math.max(Math.floor((x / side) * n), 0), n - 1);
    return { target: place(py - top), source: place(px - left) };
  };
  whereClicked(picture, (event) => change(cellAt(event)));
  picture.addEventListener("pointermove", (event) => point(cellAt(event)));
  picture.addEventListener("pointerleave", () => point(null));

  let painted = "";
  return {
    node: element("div", { class: "attn-map-stage" }, canvas, picture),
    draw({ layer, head, target, source }, maps) {
      const key = `${layer} ${head}`;
      if (painted !== key) paint(canvas, rootsOf(maps, layer, head), n);
      painted = key;
      const row = { x: left, y: top + at(target), width: side, height: at(1) };
      const places = { row, cell: { ...row, x: left + at(source), width: at(1) } };
      for (const { which, node } of frames) {
        const place = Object.entries(places[which]).map(([name, value]) => [name, value.toFixed(2)]);
        set(node, Object.fromEntries(place));
      }
      showSome(rowNames, target, every);
      showSome(columnNames, source, every);
    },
  };
}

/** What the colours mean: they show the root, so that small weights can be told from none. */
function colourLegend() {
  const bar = element("span", { class: "attn-colours attn-colours-long", "aria-hidden": "true" });
  const stops = STOPS.map((colour) => `rgb(${colour.join(" ")})`).join(", ");
  bar.style.background = `linear-gradient(to right, ${stops})`;
  return element("div", { class: "attn-map-legend" }, "weight 0", bar, "1, square-root scale");
}

/** All heads of the layer, each a button that chooses it. */
function headButtons({ heads, change }) {
  const buttons = Array.from({ length: heads }, (_, head) => {
    const canvas = element("canvas", { class: "attn-thumbnail", "aria-hidden": "true" });
    const node = element("button", {
      type: "button",
      class: "attn-head-button",
      "aria-label": `head ${head}`,
      click: () => change({ head }),
    }, canvas, element("span", { "aria-hidden": "true" }, String(head)));
    return { canvas, node };
  });
  let painted = null;
  return {
    node: element(
      "div",
      { class: "attn-head-buttons", role: "group", "aria-label": "heads of this layer" },
      ...buttons.map(({ node }) => node),
    ),
    draw({ layer, head }, maps) {
      buttons.forEach(({ canvas, node }, i) => {
        if (painted !== layer) paint(canvas, rootsOf(maps, layer, i), maps.tokens);
        set(node, { "aria-pressed": i === head });
      });
      painted = layer;
    },
  };
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
    tokens,
    change,
    textId,
    point: (place) => {
      pointed = place;
      read();
    },
  });
  const buttons = headButtons({ heads: maps.heads, change });
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
      map.draw(now, maps);
      buttons.draw(now, maps);
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
