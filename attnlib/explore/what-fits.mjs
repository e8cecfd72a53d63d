// What fits: context, batch, bytes and card → weights and cache of published models, and the rows
// that there is room for.

import {
  axes, logarithmic, pointerPosition, pointList, ratios, set, svg, whileHeld,
} from "./chart.mjs";
import {
  element, legend, legendItem, listedSteps, powersOfTwo, selection, setText, showBinary, showCount,
  showTokens, showWhole, slider,
} from "./controls.mjs";
import { cacheAbsorbed, cacheShared } from "./cost-formulas.mjs";
import { limits } from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { choice, listed, powerOfTwo } from "./state.mjs";
import { models } from "./what-fits-models.mjs";

export const fields = [
  powerOfTwo("n_tokens", "N", limits.fitting_context),
  powerOfTwo("n_rows", "B", limits.fitting_rows),
  listed("bytes_per_weight", "weights", limits.weight_bytes),
  listed("bytes_per_number", "cache", limits.cache_bytes),
  listed("card_gib", "card", limits.card_gib),
  choice("model", "model", limits.fitting_models),
  choice("other", "other", limits.fitting_models),
];

const GIB = 2 ** 30;
const NAMES = limits.fitting_models;

/** What one row keeps after so many tokens. */
function rowBytes(name, n, bytesPerNumber) {
  const { latent, letters } = models[name];
  return (latent ? cacheAbsorbed : cacheShared)({ ...letters, N: n, B: 1, beta: bytesPerNumber })
    .bytes;
}

/** What a model takes, and how many rows there is room for; no row is longer than it reads. */
function fit(name, state) {
  const tokens = Math.min(state.n_tokens, models[name].context);
  const weights = models[name].parameters * state.bytes_per_weight;
  const row = rowBytes(name, tokens, state.bytes_per_number);
  const card = state.card_gib * GIB;
  const cache = state.n_rows * row;
  return {
    tokens,
    weights,
    cache,
    total: weights + cache,
    fits: weights + cache <= card,
    rowsAtMost: Math.max(0, Math.floor((card - weights) / row)),
  };
}

/** From how many tokens on one model's cache is smaller, as `attnlib.cost.cache_break_even`. */
function breakEven(smaller, larger) {
  const more = (n) => rowBytes(smaller, n, 1) - rowBytes(larger, n, 1);
  const slope = (n) => more(n + 1) - more(n);
  const windows = [smaller, larger].map((name) => models[name].letters.W ?? 0);
  const ends = [0, ...windows].sort((a, b) => b - a); // from one to the next all is linear
  if (slope(ends[0]) > 0 || (slope(ends[0]) === 0 && more(ends[0]) >= 0)) return null;
  const start = ends.find((end) => more(end) >= 0);
  return start + Math.floor(more(start) / -slope(start)) + 1;
}

/** Which of two models keeps fewer bytes of a row in the end, and from how many tokens on. */
function cacheLead(model, other) {
  const upTo = Math.min(models[model].context, models[other].context);
  for (const [fewer, more] of [[model, other], [other, model]]) {
    const from = breakEven(fewer, more);
    if (from !== null && from <= upTo) return { fewer, more, from, upTo };
    if (from !== null) return { fewer: more, more: fewer, from: 1, upTo };
  }
  return { fewer: model, more: other, from: null, upTo };
}

/** The numbers of the picture. */
export function facts(state) {
  const all = Object.fromEntries(NAMES.map((name) => [name, fit(name, state)]));
  const pair = [state.model, state.other];
  return {
    models: all,
    rows: pair.map((name) => rowBytes(name, all[name].tokens, state.bytes_per_number)),
    lead: cacheLead(...pair),
  };
}

function sayVerdict({ weights, fits, rowsAtMost: rows }, { card_gib: card }) {
  if (weights > card * GIB) return "weights too large";
  if (rows === 0) return "fits no row";
  return `fits ${showWhole(rows)} ${rows === 1 ? "row" : "rows"}${fits ? "" : " only"}`;
}

const saySizes = ({ weights, cache }) => `${showBinary(weights)} + ${showBinary(cache)}`;

function sayLead({ fewer, more, from, upTo }) {
  const end = `up to the ${showTokens(upTo)} that both read`;
  if (from === null) return `Both keep as many bytes, ${end}.`;
  const when = from === 1 ? "at every context" : `from ${showTokens(from)} on`;
  return `${models[fewer].name} keeps fewer bytes than ${models[more].name} ${when}, ${end}.`;
}

const countFitting = (found) => NAMES.filter((name) => found.models[name].fits).length;

/** The picture in words. */
export function describe(state, found = facts(state)) {
  const each = NAMES.map((name) => {
    const one = found.models[name];
    const shorter = one.tokens === state.n_tokens ? "" : ` of ${showTokens(one.tokens)} a row`;
    return `${models[name].name} ${saySizes(one)}${shorter}, ${sayVerdict(one, state)}`;
  }).join("; ");
  const rowsOf = [state.model, state.other]
    .map((name, i) => `${models[name].name} ${showBinary(found.rows[i])}`).join(" and ");
  return `${showCount(state.n_rows, "row")} of ${showTokens(state.n_tokens)}, `
    + `${showCount(state.bytes_per_weight, "byte")} a weight, `
    + `${showCount(state.bytes_per_number, "byte")} a number in the cache, on ${state.card_gib} `
    + `GiB. ${countFitting(found)} of ${NAMES.length} models fit. Weights and cache of each, and `
    + `the rows that there is room for: ${each}. A row ends at the context of its model. Cache of `
    + `one row: ${rowsOf}. ${sayLead(found.lead)}`;
}

function sayShort(state, found) {
  const { model, other } = state;
  const verdicts = [...new Set([model, other])].map((name) => (
    `${models[name].name} ${sayVerdict(found.models[name], state)}`
  ));
  return `${countFitting(found)} of ${NAMES.length} models fit ${state.card_gib} GiB with `
    + `${showCount(state.n_rows, "row")} of ${showTokens(state.n_tokens)}. ${verdicts.join(", ")}.`;
}

const BAR = { width: 200, height: 12, card: 160, most: 192 }; // beyond the most an arrow goes on

/** Weights and cache of one model on the scale of the card; what is longer ends in an arrow. */
function stackedBar(name, textId) {
  const { width, height, card, most } = BAR;
  const weights = svg("rect", { class: "attn-fits-weights", x: 0, y: 2, height: height - 4 });
  const cache = svg("rect", { class: "attn-fits-cache", y: 2, height: height - 4 });
  const arrow = svg("path", {
    class: "attn-fits-beyond", d: `M${most},0L${width},${height / 2}L${most},${height}Z`,
  });
  const limit = svg("line", { class: "attn-fits-card", x1: card, x2: card, y1: 0, y2: height });
  const picture = svg("svg", {
    class: "attn-picture attn-fits-bar",
    viewBox: `0 0 ${width} ${height}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": `Weights and cache of ${models[name].name}`,
    "aria-describedby": textId,
  }, weights, cache, limit, arrow);
  return {
    node: picture,
    draw(one, { card_gib: gib }) {
      const until = (bytes) => Math.min((card * bytes) / (gib * GIB), most);
      const [end, whole] = [until(one.weights), until(one.total)];
      set(weights, { width: end.toFixed(2) });
      set(cache, { x: end.toFixed(2), width: (whole - end).toFixed(2) });
      set(arrow, { visibility: whole < most ? "hidden" : "visible" });
    },
  };
}

/** A row of each model: its name, its bar, its bytes, and what there is room for. */
function fittingRows(textId) {
  const rows = NAMES.map((name) => {
    const bar = stackedBar(name, textId);
    const sizes = element("span", { class: "attn-fits-sizes" });
    const verdict = element("span", { class: "attn-fits-verdict" });
    const node = element(
      "div", { class: "attn-fits-row" }, element("span", {}, models[name].name), bar.node, sizes,
      verdict,
    );
    return { bar, sizes, verdict, node };
  });
  return {
    node: element("div", { class: "attn-fits-rows" }, ...rows.map(({ node }) => node)),
    draw(state, found) {
      NAMES.forEach((name, i) => {
        const one = found.models[name];
        const { bar, sizes, verdict } = rows[i];
        bar.draw(one, state);
        setText(sizes, saySizes(one));
        setText(verdict, sayVerdict(one, state));
        verdict.classList.toggle("attn-fits-yes", one.fits);
      });
    },
  };
}

const VIEW = { left: 52, right: 350, top: 26, bottom: 226, width: 360, height: 264 };
const BYTES = [2 ** 12, 2 ** 40];
const X_TICKS = [[1, "1"], [16, "16"], [256, "256"], [4096, "4,096"], [65536, "65,536"]];
const Y_TICKS = [15, 20, 25, 30, 35, 40].map((power) => [2 ** power, showBinary(2 ** power)]);

/** Tokens at which a curve is drawn: in equal ratios, and where a window or the context ends. */
function placesOf({ context, letters: { W: window = 0 } }) {
  const some = ratios(limits.fitting_context, 35);
  const places = [...some, window, context].filter((n) => n >= 1 && n <= context);
  return places.sort((a, b) => a - b);
}

/** Cache of one row over the context, both in equal ratios; a curve ends where its model does. */
function cacheChart({ textId, onTokens }) {
  const { left, right, top, bottom, width, height } = VIEW;
  const x = logarithmic(limits.fitting_context, [left, right]);
  const y = logarithmic(BYTES, [bottom, top]);
  const frame = axes({
    x, y, left, right, top, bottom, xTicks: X_TICKS, yTicks: Y_TICKS, xName: "context N, tokens",
    yName: "cache of one row",
  });
  const others = NAMES.map(() => svg("polyline", { class: "attn-curve attn-fits-other" }));
  const [second, first] = ["second", "first"].map((role) => (
    svg("polyline", { class: `attn-curve attn-fits-${role}` })
  ));
  const card = svg("line", { class: "attn-fits-card", x1: left, x2: right });
  const cut = svg("line", { class: "attn-cut", y1: top - 4, y2: bottom });
  const ring = svg("circle", { class: "attn-crossing", r: 5 });
  const picture = svg("svg", {
    class: "attn-picture attn-movable",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "Cache of one row over the context, of every model",
    "aria-describedby": textId,
  }, frame, ...others, card, cut, first, second, ring);
  const { last, valueAt } = powersOfTwo(limits.fitting_context);
  whileHeld(picture, (event) => {
    const [px] = pointerPosition(picture, event);
    const step = Math.round((last * (px - left)) / (right - left));
    onTokens(valueAt(Math.min(Math.max(step, 0), last)));
  });
  const places = Object.fromEntries(NAMES.map((name) => [name, placesOf(models[name])]));
  return {
    node: picture,
    draw(state, { lead: { fewer, from } }) {
      const beta = state.bytes_per_number;
      const points = (name) => pointList(
        places[name].map((n) => [x(n), y(rowBytes(name, n, beta))]),
      );
      NAMES.forEach((name, i) => set(others[i], { points: points(name) }));
      set(first, { points: points(state.model) });
      set(second, { points: points(state.other) });
      const at = y(state.card_gib * GIB).toFixed(2);
      set(card, { y1: at, y2: at });
      set(cut, { x1: x(state.n_tokens).toFixed(2), x2: x(state.n_tokens).toFixed(2) });
      set(ring, from > 1
        ? {
          cx: x(from).toFixed(2), cy: y(rowBytes(fewer, from, beta)).toFixed(2),
          visibility: "visible",
        }
        : { cx: 0, cy: 0, visibility: "hidden" });
    },
  };
}

function build({ change, textId, shortId }) {
  const control = (name, label, steps, write = showWhole) => slider({
    name, label, steps, write, describedBy: shortId, onValue: (value) => change({ [name]: value }),
  });
  const sliders = {
    n_tokens: control("n_tokens", "context N, tokens", powersOfTwo(limits.fitting_context)),
    n_rows: control("n_rows", "batch B, rows", powersOfTwo(limits.fitting_rows)),
    card_gib: control("card_gib", "memory, GiB", listedSteps(limits.card_gib)),
    bytes_per_weight: control(
      "bytes_per_weight", "bytes of a weight", listedSteps(limits.weight_bytes), String,
    ),
    bytes_per_number: control(
      "bytes_per_number", "bytes of a number kept", listedSteps(limits.cache_bytes), String,
    ),
  };
  const choose = (name, label) => selection(
    name, label, NAMES.map((key) => [key, models[key].name]), shortId,
    (value) => change({ [name]: value }),
  );
  const [model, other] = [choose("model", "cache of"), choose("other", "beside that of")];
  const rows = fittingRows(textId);
  const chart = cacheChart({ textId, onTokens: (n) => change({ n_tokens: n }) });
  const formula = element("p", { class: "attn-formula" });
  const lead = element("p", { class: "attn-note" });
  const [nameOfFirst, nameOfSecond] = [element("span"), element("span")];

  return {
    nodes: [
      element(
        "div",
        { class: "attn-controls attn-controls-thirds" },
        ...Object.values(sliders).map(({ node }) => node),
      ),
      rows.node,
      legend(
        legendItem("fits-weights", "weights"),
        legendItem("fits-cache", "cache of all rows"),
        legendItem("line-fits-card", "the memory"),
      ),
      element(
        "div",
        { class: "attn-columns attn-fits-columns" },
        element(
          "div",
          { class: "attn-stage" },
          chart.node,
          legend(
            legendItem("line-fits-first", nameOfFirst),
            legendItem("line-fits-second", nameOfSecond),
            legendItem("line-fits-other", "the other models"),
            legendItem("crossing", "break-even"),
          ),
        ),
        element(
          "div",
          { class: "attn-side" },
          model.node,
          other.node,
          element(
            "div",
            { class: "attn-explain" },
            formula,
            lead,
            element(
              "p",
              { class: "attn-note" },
              "A curve ends at the context of its model, and so does a row above. Activations and "
              + "the scales of numbers with few bits are not counted.",
            ),
          ),
        ),
      ),
    ],
    draw(now) {
      const found = facts(now);
      for (const [name, { show }] of Object.entries(sliders)) show(now[name]);
      model.show(now.model);
      other.show(now.other);
      rows.draw(now, found);
      chart.draw(now, found);
      setText(nameOfFirst, models[now.model].name);
      setText(nameOfSecond, models[now.other].name);
      setText(formula, `${countFitting(found)} of ${NAMES.length} models fit`);
      setText(lead, sayLead(found.lead));
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "What fits: weights and cache against the memory";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "what-fits", title, fields, build });
}
