// Cost: model, context, batch and phase → FLOPs and bytes of one pass by part, and the roofline.

import { axes, logarithmic, pointList, set, svg } from "./chart.mjs";
import {
  element, legend, legendItem, listedSteps, powersOfTwo, selection, setText, showCount, showMetric,
  showRound, showWavelength, showWhole, slider, untie,
} from "./controls.mjs";
import {
  bytesAbsorbed, bytesReExpanded, bytesShared, cacheAbsorbed, cacheReExpanded, cacheShared,
  devices, flopsAbsorbed, flopsReExpanded, flopsShared, models,
} from "./cost-formulas.mjs";
import { limits } from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { sum } from "./numerics.mjs";
import { choice, listed, powerOfTwo } from "./state.mjs";

export const fields = [
  choice("model", "model", limits.cost_models),
  choice("device", "device", limits.cost_devices),
  choice("phase", "phase", limits.cost_phases),
  powerOfTwo("n_tokens", "N", limits.cost_context),
  powerOfTwo("n_rows", "B", limits.cost_rows),
  listed("bytes_per_number", "bytes", limits.cost_bytes),
];

const WEIGHTS = ["projections", "feed-forward", "experts", "output head"];
const OF_THE_CACHE = ["keys rebuilt", "attention core"];
const SHARED = { flops: flopsShared, bytes: bytesShared, cache: cacheShared };
const LATENT = {
  decode: { flops: flopsAbsorbed, bytes: bytesAbsorbed, cache: cacheAbsorbed },
  prefill: { flops: flopsReExpanded, bytes: bytesReExpanded, cache: cacheReExpanded },
};

/** How many experts so many tokens meet on average, as `attnlib.cost.experts_met`. */
function expertsMet(routed, chosen, tokens) {
  if (routed === 0 || tokens === 1) return chosen;
  return routed * (1 - (1 - chosen / routed) ** tokens);
}

const total = (parts) => sum(Object.values(parts));
const some = (parts, names) => sum(names.map((name) => parts[name]));

/** The numbers of the picture. */
export function facts(state) {
  const { letters, latent } = models[state.model];
  const { peak, bandwidth } = devices[state.device];
  const form = latent ? LATENT[state.phase] : SHARED;
  const [T, N, B] = [state.phase === "decode" ? 1 : state.n_tokens, state.n_tokens, state.n_rows];
  const all = {
    ...letters, T, N, B, beta: state.bytes_per_number, beta_w: state.bytes_per_number,
    x_m: expertsMet(letters.x, letters.x_c, B * T),
  };
  const [flops, bytes] = [form.flops(all), form.bytes(all)];
  const [totalFlops, totalBytes] = [total(flops), total(bytes)];
  const intensity = totalFlops / totalBytes;
  const core = some(flops, OF_THE_CACHE);
  return {
    flops,
    bytes,
    totalFlops,
    totalBytes,
    cacheBytes: form.cache(all).bytes,
    intensity,
    linearIntensity: (totalFlops - core) / some(bytes, WEIGHTS),
    coreIntensity: core / bytes["cache read"],
    ridge: peak / bandwidth,
    attained: Math.min(peak, bandwidth * intensity),
    seconds: Math.max(totalFlops / peak, totalBytes / bandwidth),
  };
}

/** Three digits, and whole from a hundred on. */
const sayIntensity = (x) => showWavelength(untie(x));

const percent = (count, whole) => `${showRound(untie((100 * count) / whole))} %`;

/** The parts that are there, with their shares of the whole. */
function sayShares(parts, unit) {
  const whole = total(parts);
  return Object.entries(parts)
    .filter(([, count]) => count > 0)
    .map(([part, count]) => `${part} ${showMetric(count, unit)} (${percent(count, whole)})`)
    .join(", ");
}

/** The picture in words. */
export function describe(state, found = facts(state)) {
  const [model, device] = [models[state.model], devices[state.device]];
  const rows = showCount(state.n_rows, "row");
  const tokens = showWhole(state.n_tokens);
  const what = {
    decode: `one decode step of ${rows}: a new token each, the last of ${tokens}`,
    prefill: `the prefill of ${rows} of ${tokens} tokens`,
  }[state.phase];
  const beyond = state.n_tokens > model.context
    ? ` That is beyond the ${showWhole(model.context)} tokens that it is said to read.` : "";
  const isMemory = found.intensity < found.ridge;
  const [side, limit] = isMemory ? ["below", "memory"] : ["above", "arithmetic"];
  return `${model.name}, ${what}.${beyond} Weights and cache have `
    + `${showCount(state.bytes_per_number, "byte")} a number. FLOPs of the whole model: `
    + `${showMetric(found.totalFlops, "FLOP")}: ${sayShares(found.flops, "FLOP")}. Bytes that move `
    + `at least: ${showMetric(found.totalBytes, "B")}: ${sayShares(found.bytes, "B")}. The cache `
    + `then takes ${showMetric(found.cacheBytes, "B")}. Intensity: `
    + `${sayIntensity(found.intensity)} FLOP a byte, of the weights alone `
    + `${sayIntensity(found.linearIntensity)}, of the cache alone `
    + `${sayIntensity(found.coreIntensity)}. That is ${side} the ridge of `
    + `${sayIntensity(found.ridge)} of ${device.name}, so ${limit} is the limit: at least `
    + `${showMetric(found.seconds, "s")}, at ${showMetric(found.attained, "FLOP/s")} of `
    + `${showMetric(device.peak, "FLOP/s")}.`;
}

function sayShort(state, { totalFlops, totalBytes, intensity, seconds }) {
  return `${models[state.model].name}, ${state.phase}: ${showMetric(totalFlops, "FLOP")}, `
    + `${showMetric(totalBytes, "B")}, ${sayIntensity(intensity)} FLOP a byte, at least `
    + `${showMetric(seconds, "s")}.`;
}

// The rows of the table: how a part is called, its FLOPs and its bytes; one colour for both.
const PARTS = [
  { words: "projections", flops: "projections", bytes: "projections" },
  { words: "feed-forward", flops: "feed-forward", bytes: "feed-forward" },
  { words: "experts", flops: "experts", bytes: "experts" },
  { words: "output head", flops: "output head", bytes: "output head" },
  { words: "keys rebuilt", flops: "keys rebuilt" },
  { words: "attention core; cache read", flops: "attention core", bytes: "cache read" },
  { words: "cache written", bytes: "cache written" },
];
const BAR = { width: 300, height: 26 };

/** One bar of stacked parts, as long as the whole. */
function stackedBar(kind, label, textId) {
  const shown = PARTS.map((part, i) => [part[kind], i]).filter(([part]) => part !== undefined);
  const pieces = shown.map(([, i]) => svg("rect", { class: `attn-cost-part attn-cost-${i}`, y: 1 }));
  const picture = svg("svg", {
    class: "attn-picture",
    viewBox: `0 0 ${BAR.width} ${BAR.height}`,
    role: "img",
    "aria-label": label,
    "aria-describedby": textId,
  }, ...pieces);
  return {
    node: picture,
    draw(parts, whole) {
      let x = 0;
      shown.forEach(([part], i) => {
        const length = (BAR.width * parts[part]) / whole;
        set(pieces[i], { x: x.toFixed(2), width: length.toFixed(2), height: BAR.height - 2 });
        x += length;
      });
    },
  };
}

const VIEW = { left: 46, right: 350, top: 26, bottom: 190, width: 360, height: 228 };
const INTENSITIES = [0.1, 1e8];
const SPEEDS = [1e10, 1e16];

/** The roof of a device, and three points below it: the whole pass, its weights, its cache. */
function roofline({ textId }) {
  const { left, right, top, bottom, width, height } = VIEW;
  const x = logarithmic(INTENSITIES, [left, right]);
  const y = logarithmic(SPEEDS, [bottom, top]);
  const frame = axes({
    x, y, left, right, top, bottom,
    xTicks: [[1, "1"], [100, "100"], [1e4, "10⁴"], [1e6, "10⁶"], [1e8, "10⁸"]],
    yTicks: [[1e10, "10 G"], [1e12, "1 T"], [1e14, "100 T"], [1e16, "10 P"]],
    xName: "intensity, FLOP a byte", yName: "FLOP/s",
  });
  const ridgeLine = svg("line", { class: "attn-cost-ridge", y1: top, y2: bottom });
  const roof = svg("polyline", { class: "attn-curve attn-cost-roof" });
  const weights = svg("path", { class: "attn-cost-of-weights" });
  const cache = svg("path", { class: "attn-cost-of-cache" });
  const whole = svg("circle", { class: "attn-cost-whole", r: 5.5 });
  const picture = svg("svg", {
    class: "attn-picture",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "Roofline of the device with the intensity of the pass",
    "aria-describedby": textId,
  }, frame, ridgeLine, roof, weights, cache, whole);
  return {
    node: picture,
    draw({ intensity, linearIntensity, coreIntensity, ridge }, { peak, bandwidth }) {
      const place = (at) => [x(at), y(Math.min(peak, bandwidth * at))];
      set(roof, { points: pointList([INTENSITIES[0], ridge, INTENSITIES[1]].map(place)) });
      set(ridgeLine, { x1: x(ridge).toFixed(2), x2: x(ridge).toFixed(2) });
      const [cx, cy] = place(intensity);
      set(whole, { cx: cx.toFixed(2), cy: cy.toFixed(2) });
      // A square and a triangle: shapes beside the colours.
      const [wx, wy] = place(linearIntensity);
      set(weights, { d: `M${(wx - 5).toFixed(2)},${(wy - 5).toFixed(2)}h10v10h-10Z` });
      const [kx, ky] = place(coreIntensity);
      set(cache, { d: `M${kx.toFixed(2)},${(ky - 6).toFixed(2)}l6,11h-12Z` });
    },
  };
}

function table() {
  const cell = () => [element("span"), element("span", { class: "attn-soft" })];
  const cells = PARTS.map(() => [cell(), cell()]);
  const totals = [element("td"), element("td")];
  const rows = PARTS.map(({ words }, i) => element(
    "tr",
    {},
    element("th", { scope: "row" }, legendItem(`cost-${i}`, words)),
    ...cells[i].map((words) => element("td", {}, ...words)),
  ));
  const head = ["part", "FLOPs", "bytes, at least"].map((words) => (
    element("th", { scope: "col" }, words)
  ));
  return {
    node: element(
      "table",
      { class: "attn-cost-table" },
      element("thead", {}, element("tr", {}, ...head)),
      element(
        "tbody",
        {},
        ...rows,
        element(
          "tr",
          { class: "attn-cost-total" },
          element("th", { scope: "row" }, "the whole model"),
          ...totals,
        ),
      ),
    ),
    draw({ flops, bytes, totalFlops, totalBytes }) {
      PARTS.forEach((part, i) => {
        [[flops, part.flops, totalFlops, "FLOP"], [bytes, part.bytes, totalBytes, "B"]]
          .forEach(([parts, name, whole, unit], j) => {
            const count = name === undefined ? 0 : parts[name];
            const [amount, share] = cells[i][j];
            setText(amount, count > 0 ? showMetric(count, unit) : "–");
            setText(share, count > 0 ? percent(count, whole) : "");
          });
      });
      setText(totals[0], showMetric(totalFlops, "FLOP"));
      setText(totals[1], showMetric(totalBytes, "B"));
    },
  };
}

const PHASES = { decode: "decode: one new token a row", prefill: "prefill: all tokens are new" };

function build({ change, textId, shortId }) {
  const model = selection(
    "model",
    "model",
    limits.cost_models.map((key) => [key, models[key].name]),
    shortId,
    (value) => change({ model: value }),
  );
  const phase = selection(
    "phase",
    "phase",
    limits.cost_phases.map((key) => [key, PHASES[key]]),
    shortId,
    (value) => change({ phase: value }),
  );
  const device = selection(
    "device",
    "device",
    limits.cost_devices.map((key) => [key, devices[key].name]),
    shortId,
    (value) => change({ device: value }),
  );
  const control = (name, label, steps, write) => slider({
    name, label, steps, write, describedBy: shortId, onValue: (value) => change({ [name]: value }),
  });
  const tokens = control(
    "n_tokens", "context N, tokens", powersOfTwo(limits.cost_context), showWhole,
  );
  const rows = control("n_rows", "batch B, rows", powersOfTwo(limits.cost_rows), String);
  const bytes = control(
    "bytes_per_number", "bytes of a number", listedSteps(limits.cost_bytes), String,
  );
  const flopsBar = stackedBar("flops", "FLOPs by part", textId);
  const bytesBar = stackedBar("bytes", "Bytes by part", textId);
  const parts = table();
  const picture = roofline({ textId });
  const time = element("p", { class: "attn-formula" });
  const limit = element("p", { class: "attn-note" });
  const kept = element("p", { class: "attn-note" });

  return {
    nodes: [
      element("div", { class: "attn-cost-choices" }, model.node, phase.node, device.node),
      element(
        "div",
        { class: "attn-controls attn-controls-thirds" },
        tokens.node, rows.node, bytes.node,
      ),
      element(
        "div",
        { class: "attn-columns" },
        element(
          "div",
          { class: "attn-stage" },
          element("p", { class: "attn-label" }, "FLOPs"),
          flopsBar.node,
          element("p", { class: "attn-label" }, "bytes"),
          bytesBar.node,
          parts.node,
        ),
        element(
          "div",
          { class: "attn-side" },
          picture.node,
          legend(
            legendItem("cost-whole", "the pass"),
            legendItem("cost-of-weights", "its weights alone"),
            legendItem("cost-of-cache", "its cache alone"),
          ),
          element("div", { class: "attn-explain" }, time, limit, kept),
        ),
      ),
    ],
    draw(now) {
      const found = facts(now);
      model.show(now.model);
      phase.show(now.phase);
      device.show(now.device);
      tokens.show(now.n_tokens);
      rows.show(now.n_rows);
      bytes.show(now.bytes_per_number);
      flopsBar.draw(found.flops, found.totalFlops);
      bytesBar.draw(found.bytes, found.totalBytes);
      parts.draw(found);
      picture.draw(found, devices[now.device]);
      const isMemory = found.intensity < found.ridge;
      setText(time, `at least ${showMetric(found.seconds, "s")}`);
      setText(limit, `${isMemory ? "Memory" : "Arithmetic"} is the limit: `
        + `${sayIntensity(found.intensity)} FLOP a byte, where the ridge is at `
        + `${sayIntensity(found.ridge)}.`);
      setText(kept, `The cache then takes ${showMetric(found.cacheBytes, "B")}.`);
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Cost: what a pass computes and what it moves";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "cost", title, fields, build });
}
