// The next token: a model's logits → what temperature, top-k, top-p and min-p leave of them.

import { axes, linear, logarithmic, pointerPosition, pointList, set, svg, whileHeld } from "./chart.mjs";
import {
  element, legend, legendItem, linearSteps, logSteps, quote, setText, showRound, showThousandths,
  showWeight, showWhole, slider, untie, wholeSteps,
} from "./controls.mjs";
import {
  entropyTerm, largestEntropy, leastKept, limits, normalised, shiftedExponential, tempered,
} from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { shortened } from "./head-map.mjs";
import { sum } from "./numerics.mjs";
import { unpackedLogits } from "./packed-logits.mjs";
import { readable } from "./readable.mjs";
import { fixed, number, whole } from "./state.mjs";

const N_SHOWN = 12; // so many of the likeliest tokens are shown and named

const isTexts = (list) => Array.isArray(list) && list.every((x) => typeof x === "string");
const isId = (x) => Number.isInteger(x) && x >= 0 && x < limits.vocabulary[1];
const isIds = (list) => Array.isArray(list) && list.length > 0 && list.every(isId);

export const fields = [
  whole("position", "at", [0, limits.n_next_tokens[1] - 1]),
  number("temperature", "T", limits.sampling_temperature),
  whole("top_k", "k", limits.top_k),
  number("top_p", "p", limits.top_p),
  number("min_p", "min", limits.min_p),
  fixed("logits", (packed) => (unpackedLogits(packed) ? packed : undefined)),
  fixed("words", (list) => (isTexts(list) ? list : undefined)),
  fixed("text", (list) => (isIds(list) ? list : undefined)),
  fixed("before", (text) => (typeof text === "string" ? text : undefined)),
];

/** A hand-written link may ask for a position beyond the text: then the last one. */
const possible = (state) => ({ ...state, position: Math.min(state.position, state.text.length - 1) });

/** Logits in falling order, as weights that sum to one; `count` of them, the others are dropped. */
function weightsOf(scores, count) {
  const exponentials = scores.map((z, i) => (i < count ? shiftedExponential(z, scores[0]) : 0));
  const total = sum(exponentials);
  return exponentials.map((e) => normalised(e, total));
}

let latest = {};

/** What no slider but the position changes: the ids, the likeliest first, and their weights. */
function rankedAt({ logits, position }) {
  if (latest.logits === logits && latest.position === position) return latest;
  const row = unpackedLogits(logits)[position];
  // A difference of two forbidden ones is NaN: then the ids decide, as for equal logits.
  const order = Array.from(row, (_, id) => id).sort((a, b) => row[b] - row[a] || a - b);
  const scores = Float64Array.from(order, (id) => row[id]);
  latest = { logits, position, order, scores, own: weightsOf(scores, scores.length) };
  return latest;
}

/** The fewest of the first weights that have this mass together. */
function countByMass(weights, count, mass) {
  if (mass === 1) return count;
  let before = 0;
  let kept = 0;
  while (kept < count && before < mass) {
    before += weights[kept];
    kept += 1;
  }
  return kept;
}

/**
 * The distribution that is drawn from, in the order of sampling.py: each step acts on what the one
 * before has left. Whatever is left is a beginning of the list, since no step changes the order.
 */
function sampled(state) {
  const { scores } = rankedAt(state);
  const { temperature, top_k: k, top_p: mass, min_p: share } = state;
  const warm = scores.map((z) => tempered(z, scores[0], temperature));
  const weights = weightsOf(warm, warm.length);
  const possibleOnes = weights.filter((p) => p > 0).length;
  const byCount = k === 0 ? possibleOnes : Math.min(k, possibleOnes);
  const byMass = countByMass(weightsOf(warm, byCount), byCount, mass);
  const least = share === 0 ? -Infinity : leastKept(warm[0], share);
  const byShare = warm.slice(0, byMass).filter((z) => z >= least).length;
  return { weights, drawn: weightsOf(warm, byShare), kept: [possibleOnes, byCount, byMass, byShare] };
}

/** The numbers of the picture. */
export function facts(asked, { weights, drawn, kept } = sampled(possible(asked))) {
  const state = possible(asked);
  const { order, own } = rankedAt(state);
  const shown = Math.min(N_SHOWN, order.length);
  const place = order.indexOf(state.text[state.position]);
  return {
    top: order.slice(0, shown),
    before: Array.from(own.slice(0, shown)),
    after: Array.from(drawn.slice(0, shown)),
    kept,
    mass: sum(weights.slice(0, kept.at(-1))),
    entropyBefore: sum(own.map(entropyTerm)),
    entropy: sum(drawn.map(entropyTerm)),
    largestEntropy: largestEntropy(order.length),
    rank: place + 1,
    tokenBefore: own[place],
    tokenAfter: drawn[place],
  };
}

const utf8 = new TextEncoder();

/** A token as a person can read it: what is invisible gets a name. */
const shownToken = ({ words }, id) => readable(utf8.encode(words[id]));

const showShare = (p) => showWeight(untie(p));
const showLeft = (p) => (p > 0 ? showShare(p) : "dropped");
const showTopK = (k) => (k === 0 ? "off" : showWhole(k));

/** The picture in words. */
export function describe(asked, found = facts(asked)) {
  const state = possible(asked);
  const { position, text, words } = state;
  const token = quote(shownToken(state, text[position]));
  const [, byCount, byMass, byShare] = found.kept.map(showWhole);
  const v = showWhole(words.length);
  const likeliest = found.top.map((id, i) => (
    `${quote(shownToken(state, id))} ${showShare(found.before[i])} → ${showLeft(found.after[i])}`
  )).join(", ");
  return `Position ${position} of ${text.length}, counted from 0; the text has ${token} there. `
    + `Temperature ${showRound(state.temperature)}, top-k ${showTopK(state.top_k)}, top-p `
    + `${showRound(state.top_p)}, min-p ${showRound(state.min_p)}. Of ${v} tokens top-k leaves `
    + `${byCount}, then top-p ${byMass}, then min-p ${byShare}. At this temperature these have `
    + `${showShare(found.mass)} of the probability. Entropy ${showThousandths(found.entropy)} `
    + `nats; the model's own ${showThousandths(found.entropyBefore)}, at most `
    + `${showThousandths(found.largestEntropy)}. The likeliest tokens, the model's own `
    + `probability → that of being drawn: ${likeliest}. The text's token ${token} is number `
    + `${showWhole(found.rank)} of ${v}: ${showShare(found.tokenBefore)} → `
    + `${showLeft(found.tokenAfter)}.`;
}

/** What is said aloud: the likeliest token, and how many are left. */
function sayShort(state, { top, after, kept }) {
  return `${quote(shownToken(state, top[0]))} is likeliest, ${showShare(after[0])}; `
    + `${showWhole(kept.at(-1))} of ${showWhole(state.words.length)} tokens are left.`;
}

const MANTISSAS = [10, 12, 15, 20, 25, 30, 40, 50, 60, 80];

/** Numbers of tokens in about equal ratios, and at the upper end none dropped, which is 0. */
export function topKSteps(v) {
  const powers = Array.from({ length: 6 }, (_, i) => 10 ** i);
  const counts = powers.flatMap((power) => MANTISSAS.map((mantissa) => (mantissa * power) / 10));
  const values = [...counts.filter((k) => Number.isInteger(k) && k < v), 0];
  const last = values.length - 1;
  return {
    last,
    valueAt: (i) => values[i],
    stepOf: (k) => (k === 0 || k >= v ? last : values.findLastIndex((x) => x > 0 && x <= k)),
  };
}

/** The text as far as it is read, the token that is looked at, and what follows. */
function runningText({ state, change }) {
  const plain = (text) => readable(utf8.encode(text)).replaceAll("␣", " ");
  const tokens = state.text.map((id, position) => (
    element("span", { click: () => change({ position }) }, plain(state.words[id]))
  ));
  return {
    node: element(
      "p",
      { class: "attn-running-text", dir: "auto" },
      element("span", { class: "attn-read-token" }, plain(state.before)), ...tokens,
    ),
    draw({ position }) {
      tokens.forEach((token, i) => {
        token.classList.toggle("attn-read-token", i < position);
        token.classList.toggle("attn-token-asked", i === position);
      });
    },
  };
}

const BARS = { name: 80, left: 88, right: 236, before: 286, after: 342, top: 36, row: 17, width: 344 };

/** The end of an axis from 0: the next 1, 2 or 5 times a power of ten. */
function roundUp(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 5, 10].map((times) => times * power).find((end) => end >= x * (1 - 1e-9));
}

/** A row for a token: its name, two bars and two numbers. */
function tokenRow(y, extra = "") {
  const text = (x, anchor, name) => (
    svg("text", { class: name, x, y: y + 4, "text-anchor": anchor })
  );
  const name = text(BARS.name, "end", `attn-bar-name${extra}`);
  const own = svg("rect", { class: "attn-own-bar", x: BARS.left, y: y - 6, height: 12 });
  const drawn = svg("rect", { class: "attn-drawn-bar", x: BARS.left, y: y - 3, height: 6 });
  const before = text(BARS.before, "end", "attn-tick");
  const after = text(BARS.after, "end", `attn-bar-name${extra}`);
  return {
    nodes: [name, own, drawn, before, after],
    draw(x, token, p, q) {
      setText(name, shortened(token));
      set(own, { width: (x(p) - BARS.left).toFixed(2) });
      set(drawn, { width: (x(q) - BARS.left).toFixed(2) });
      own.classList.toggle("attn-dropped", q === 0);
      for (const part of [name, after]) part.classList.toggle("attn-bar-dropped", q === 0);
      setText(before, showShare(p));
      setText(after, showLeft(q));
    },
  };
}

/** The likeliest tokens, each with the model's bar and in it the one that is drawn from. */
function barChart({ count, textId }) {
  const { left, right, top, row, width } = BARS;
  const yOf = (i) => top + row * (i + 0.5);
  const bottom = top + row * count;
  const tokenY = bottom + 50 + row / 2;
  const rows = Array.from({ length: count }, (_, i) => tokenRow(yOf(i)));
  const ofText = tokenRow(tokenY, " attn-bar-of-text");
  const frame = svg("g");
  const least = svg("line", { class: "attn-least", y1: top - 3, y2: bottom });
  const words = (attributes, text) => {
    const made = svg("text", { class: "attn-tick", ...attributes });
    made.textContent = text;
    return made;
  };
  const heads = [
    words({ x: BARS.before, y: top - 20, "text-anchor": "end" }, "model’s"),
    words({ x: BARS.after, y: top - 20, "text-anchor": "end" }, "drawn"),
    words({ x: BARS.name, y: bottom + 44, "text-anchor": "end" }, "in the text"),
  ];
  let drawnEnd = 0;
  return {
    node: svg(
      "svg",
      {
        class: "attn-picture",
        viewBox: `0 0 ${width} ${tokenY + row / 2 + 2}`,
        role: "img",
        "aria-label": "The likeliest tokens, before and after",
        "aria-describedby": textId,
      },
      frame, ...[...rows, ofText].flatMap(({ nodes }) => nodes), ...heads, least,
    ),
    draw(state, found) {
      const end = roundUp(Math.max(found.before[0], found.after[0]));
      const x = linear([0, end], [left, right]);
      if (end !== drawnEnd) {
        drawnEnd = end;
        frame.replaceChildren(axes({
          x, y: (it) => it, left, right, top: top - 3, bottom,
          xTicks: [0, end / 2, end].map((it) => [it, showRound(it)]),
          yTicks: [],
          xName: "probability",
          yName: "",
        }));
      }
      rows.forEach((it, i) => {
        it.draw(x, shownToken(state, found.top[i]), found.before[i], found.after[i]);
      });
      const token = shownToken(state, state.text[state.position]);
      ofText.draw(x, token, found.tokenBefore, found.tokenAfter);
      const at = x(state.min_p * found.after[0]).toFixed(2);
      set(least, { x1: at, x2: at });
    },
  };
}

const MASS = { left: 34, right: 290, top: 26, bottom: 176, width: 300, height: 214 };

/** The ranks at which the curves have corners: all of the first, then equal ratios. */
function ranksOf(v) {
  const ranks = new Set(Array.from({ length: 200 }, (_, i) => Math.round(v ** (i / 199))));
  return [...ranks].sort((a, b) => a - b);
}

function rankTicks(v) {
  const powers = Array.from({ length: 5 }, (_, i) => 10 ** i).filter((x) => x * 2 <= v);
  return [...powers, v].map((x) => [x, showWhole(x)]);
}

/** What the first so many tokens have together: the model's own, and at the temperature. */
function massChart({ v, steps, change, textId }) {
  const { left, right, top, bottom, width, height } = MASS;
  const x = logarithmic([1, v], [left, right]);
  const y = linear([0, 1], [bottom, top]);
  const ranks = ranksOf(v);
  const own = svg("polyline", { class: "attn-curve attn-curve-own" });
  const all = svg("polyline", { class: "attn-curve attn-curve-all" });
  const kept = svg("polyline", { class: "attn-curve attn-curve-kept" });
  const level = svg("line", { class: "attn-level", x1: left, x2: right });
  const cut = svg("line", { class: "attn-cut", y1: top - 4, y2: bottom });
  const knob = svg("circle", { class: "attn-knob", cy: top - 4, r: 5 });
  const end = svg("circle", { class: "attn-kept-end", r: 4.5 });
  const picture = svg("svg", {
    class: "attn-picture attn-movable",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "Probability of the likeliest tokens together, over how many they are",
    "aria-describedby": textId,
  }, axes({
    x, y, left, right, top, bottom,
    xTicks: rankTicks(v),
    yTicks: [[0, "0"], [0.5, "½"], [1, "1"]],
    xName: "the likeliest tokens, so many",
    yName: "their probability together",
  }), own, all, level, kept, cut, knob, end);

  whileHeld(picture, (event) => {
    const [px] = pointerPosition(picture, event);
    const rank = Math.round(v ** ((px - left) / (right - left)));
    change({ top_k: steps.valueAt(steps.stepOf(Math.max(rank, 1))) });
  });

  /** The mass of the first so many, for each of the ranks. */
  const masses = (weights) => {
    const found = new Map();
    let total = 0;
    let next = 0;
    weights.forEach((p, i) => {
      total += p;
      if (i + 1 === ranks[next]) {
        found.set(ranks[next], total);
        next += 1;
      }
    });
    return [...found];
  };
  const corners = (points) => pointList(points.map(([rank, mass]) => [x(rank), y(mass)]));
  return {
    node: picture,
    draw({ top_k: k, top_p: share }, { weights, kept: counts, mass }, ownWeights) {
      const points = masses(weights);
      const last = counts.at(-1);
      set(own, { points: corners(masses(ownWeights)) });
      set(all, { points: corners(points) });
      const first = points.filter(([rank]) => rank < last);
      set(kept, { points: corners([...first, [last, mass]]) });
      set(end, { cx: x(last).toFixed(2), cy: y(mass).toFixed(2) });
      const goal = y(share * sum(weights.slice(0, counts[1]))).toFixed(2);
      set(level, { y1: goal, y2: goal });
      const at = x(k === 0 ? v : Math.min(k, v)).toFixed(2);
      set(cut, { x1: at, x2: at });
      set(knob, { cx: at });
    },
  };
}

const COUNTS = [
  ["after top-k", ({ kept }) => showWhole(kept[1])],
  ["after top-p", ({ kept }) => showWhole(kept[2])],
  ["after min-p", ({ kept }) => showWhole(kept[3])],
  ["their mass", ({ mass }) => showShare(mass)],
  ["entropy, nats", ({ entropy }) => showThousandths(entropy)],
  ["the model’s", ({ entropyBefore }) => showThousandths(entropyBefore)],
];

function countTable() {
  const values = COUNTS.map(() => element("div", { class: "attn-value" }));
  const pairs = COUNTS.map(([name], i) => (
    element("div", {}, element("div", { class: "attn-note" }, name), values[i])
  ));
  return {
    node: element("div", { class: "attn-counts" }, ...pairs),
    draw: (found) => values.forEach((node, i) => setText(node, COUNTS[i][1](found))),
  };
}

function build({ change, textId, shortId, state }) {
  const v = state.words.length;
  const control = (name, label, steps, write, say) => slider({
    name,
    label,
    steps,
    write,
    say,
    describedBy: shortId,
    onValue: (value) => change({ [name]: value }),
  });
  const steps = topKSteps(v);
  const tokenAt = (i) => shownToken(state, state.text[i]);
  const controls = {
    position: control(
      "position", "position", wholeSteps([0, state.text.length - 1]),
      (i) => `${i} ${shortened(tokenAt(i))}`, (i) => `${i}, ${quote(tokenAt(i))}`,
    ),
    temperature: control(
      "temperature", "temperature T", logSteps(limits.sampling_temperature, 51), showRound,
    ),
    top_k: control("top_k", "top-k", steps, showTopK),
    top_p: control("top_p", "top-p", linearSteps(limits.top_p, 0.01), showRound),
    min_p: control("min_p", "min-p", linearSteps(limits.min_p, 0.01), showRound),
  };
  const text = runningText({ state, change });
  const bars = barChart({ count: Math.min(N_SHOWN, v), textId });
  const curve = massChart({ v, steps, change, textId });
  const counts = countTable();

  return {
    nodes: [
      text.node,
      element(
        "div",
        { class: "attn-controls attn-controls-even" },
        ...Object.values(controls).map(({ node }) => node),
      ),
      element(
        "div",
        { class: "attn-columns" },
        element(
          "div",
          { class: "attn-stage" },
          bars.node,
          legend(
            legendItem("own-bar", "the model’s own"),
            legendItem("drawn-bar", "drawn from"),
            legendItem("least", "min-p"),
          ),
        ),
        element(
          "div",
          { class: "attn-side" },
          curve.node,
          legend(
            legendItem("line-dotted", "the model’s own"),
            legendItem("line", "at T, the kept ones thick"),
            legendItem("level", "top-p of what top-k leaves"),
            legendItem("cut", "top-k; drag it"),
          ),
          counts.node,
        ),
      ),
    ],
    draw(asked) {
      const now = possible(asked);
      const distribution = sampled(now);
      const found = facts(now, distribution);
      for (const [name, { show: showValue }] of Object.entries(controls)) showValue(now[name]);
      text.draw(now);
      bars.draw(now, found);
      curve.draw(now, { ...distribution, mass: found.mass }, rankedAt(now).own);
      counts.draw(found);
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "The next token: what temperature, top-k, top-p and min-p leave";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "next-token", title, fields, build });
}
