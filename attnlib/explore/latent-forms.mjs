// Latent, rope width, heads, context → what one layer keeps, and what a decode step computes, in
// four forms.

import {
  axes, logarithmic, pointerPosition, pointList, ratios, set, svg, whileHeld,
} from "./chart.mjs";
import {
  element, evenSteps, legend, legendItem, listedSteps, powersOfTwo, selection, setText, showBinary,
  showMetric, showTokens, showWavelength, showWhole, slider, untie,
} from "./controls.mjs";
import { limits } from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import {
  latentIntensities, latentKept, latentSteps, sharedIntensities, sharedKept, sharedSteps, streams,
} from "./latent-formulas.mjs";
import { choice, even, listed, powerOfTwo } from "./state.mjs";

export const fields = [
  listed("kv_latent", "c", limits.kv_latent),
  even("rope_dim", "r", limits.rope_dim),
  powerOfTwo("n_heads", "h", limits.latent_heads),
  listed("nope_dim", "n", limits.latent_head_dim),
  listed("value_dim", "e", limits.latent_head_dim),
  powerOfTwo("n_tokens", "N", limits.latent_context),
  listed("bytes_per_number", "bytes", limits.cost_bytes),
  choice("model", "model", limits.latent_models),
];

const LATENT = ["expanded", "re-expanded", "absorbed", "merged"];
const PAIRS = LATENT.flatMap((a, i) => LATENT.slice(i + 1).map((b) => [a, b]));
const BASELINES = ["multi-head", "grouped", "expanded"];
const SHARED_HEADS = "shared heads";
const KV_HEADS = limits.latent_kv_heads;
const NAMES = {
  "multi-head": "multi-head attention",
  grouped: `${KV_HEADS} key/value heads`,
  ...Object.fromEntries(LATENT.map((name) => [name, name])),
};

const lettersOf = (state) => ({
  m: streams[state.model].m,
  u: streams[state.model].u,
  c: state.kv_latent,
  r: state.rope_dim,
  h: state.n_heads,
  n: state.nope_dim,
  e: state.value_dim,
  beta: state.bytes_per_number,
  N: state.n_tokens,
});

const shown = (kept, flops, intensity, { beta }) => (
  { kept, bytes: kept * beta, flops, intensity }
);

/** Ordinary heads of the same width, all of which may turn: d is n, and there is no r. */
function shared(letters, g) {
  const all = { ...letters, g, d: letters.n };
  const [kept, steps, intensities] = [sharedKept(all), sharedSteps(all), sharedIntensities(all)];
  return shown(kept[SHARED_HEADS], steps[SHARED_HEADS], intensities[SHARED_HEADS], all);
}

/** Of each form, FLOPs of a step without any token, and those of each token. */
function linesOf(letters) {
  const [none, one] = [0, 1].map((N) => latentSteps({ ...letters, N }));
  return Object.fromEntries(LATENT.map((name) => [name, [none[name], one[name] - none[name]]]));
}

/** Which of two forms takes fewer FLOPs a step in the end, and from how many tokens on. */
export function lead([name, other], [[fixed, growth], [otherFixed, otherGrowth]]) {
  const [gained, start] = [otherGrowth - growth, otherFixed - fixed];
  if (gained < 0 || (gained === 0 && start < 0)) {
    return lead([other, name], [[otherFixed, otherGrowth], [fixed, growth]]);
  }
  const first = gained === 0 ? 1 : Math.max(1, Math.floor(-start / gained) + 1);
  return { fewer: name, more: other, from: gained === 0 && start === 0 ? null : first };
}

/** The numbers of the picture. */
export function facts(state) {
  const letters = lettersOf(state);
  const [kept, steps] = [latentKept(letters), latentSteps(letters)];
  const intensities = latentIntensities(letters);
  const lines = linesOf(letters);
  const forms = {
    "multi-head": shared(letters, letters.h),
    grouped: shared(letters, KV_HEADS),
    ...Object.fromEntries(LATENT.map((name) => (
      [name, shown(kept[name], steps[name], intensities[name], letters)]
    ))),
  };
  return {
    forms,
    leads: PAIRS.map((pair) => lead(pair, pair.map((name) => lines[name]))),
    times: Object.fromEntries(BASELINES.map((name) => [name, forms[name].kept / kept.absorbed])),
    asManyHeads: kept.absorbed / (letters.n + letters.e),
    cacheBytes: forms.absorbed.bytes * state.n_tokens,
  };
}

/** Three digits, and whole from a hundred on. */
const round = (x) => showWavelength(untie(x));

const sayWhen = (first) => (first === 1 ? "at every context" : `from ${showTokens(first)} on`);

/** Where each form takes fewer FLOPs than another: the crossings of the picture. */
function sayLeads(leads) {
  const fewer = LATENT.flatMap((name) => {
    const than = leads.filter((each) => each.fewer === name && each.from !== null)
      .map((each) => `than ${each.more} ${sayWhen(each.from)}`);
    return than.length > 0 ? [`${name} ${than.join(", ")}`] : [];
  });
  const equal = leads.filter((each) => each.from === null)
    .map((each) => `${each.fewer} as ${each.more}`);
  const asMany = equal.length > 0 ? ` It takes as many ${equal.join(", ")}.` : "";
  return `A step takes fewer FLOPs ${fewer.join("; ")}.${asMany}`;
}

/** The picture in words. */
export function describe(state, found = facts(state)) {
  const { forms, times } = found;
  const { m, u, h, c, r, n, e } = lettersOf(state);
  const all = (write) => Object.keys(forms).map((name) => `${NAMES[name]} ${write(forms[name])}`)
    .join(", ");
  return `h = ${h} heads with n = ${n}, r = ${r}, e = ${e} and a latent of width c = ${c}, on a `
    + `stream of m = ${showWhole(m)} with query latents of u = ${showWhole(u)}, as in `
    + `${streams[state.model].name}. Of a token a layer keeps c + r = `
    + `${showWhole(forms.absorbed.kept)} numbers, ${showBinary(forms.absorbed.bytes)}: as many as `
    + `${round(found.asManyHeads)} key/value heads of widths n and e. Multi-head attention, `
    + `h(n + e), keeps ${round(times["multi-head"])} times as many, ${KV_HEADS} key/value heads `
    + `${round(times.grouped)} times as many, and the latent's own keys and values, h(n + r + e), `
    + `${round(times.expanded)} times as many. Over ${showTokens(state.n_tokens)} the layer's `
    + `cache takes ${showBinary(found.cacheBytes)}. One decode step of the layer there, the new token among `
    + `them: ${all(({ flops }) => showMetric(flops, "FLOP"))}. FLOPs of the core for each byte of `
    + `cache: ${all(({ intensity }) => round(intensity))}. ${sayLeads(found.leads)}`;
}

function sayShort(state, { forms }) {
  const steps = LATENT.map((name) => `${name} ${showMetric(forms[name].flops, "FLOP")}`);
  return `c + r = ${showWhole(forms.absorbed.kept)} numbers a token, `
    + `${showBinary(forms.absorbed.bytes)}. A step over ${showTokens(state.n_tokens)}: `
    + `${steps.join(", ")}.`;
}

const VIEW = { left: 46, right: 350, top: 26, bottom: 236, width: 360, height: 274 };
const FLOPS = [1e7, 1e14];
const PLACES = ratios(limits.latent_context, 35);
const X_TICKS = [[1, "1"], [16, "16"], [256, "256"], [4096, "4,096"], [65536, "65,536"]];
const Y_TICKS = [
  [1e7, "10 M"], [1e8, "100 M"], [1e9, "1 G"], [1e10, "10 G"], [1e11, "100 G"], [1e12, "1 T"],
  [1e13, "10 T"], [1e14, "100 T"],
];

/** FLOPs of a step over the context, both in equal ratios, with a ring where two forms cross. */
function stepsChart({ textId, onTokens }) {
  const { left, right, top, bottom, width, height } = VIEW;
  const x = logarithmic(limits.latent_context, [left, right]);
  const y = logarithmic(FLOPS, [bottom, top]);
  const frame = axes({
    x, y, left, right, top, bottom, xTicks: X_TICKS, yTicks: Y_TICKS, xName: "context N, tokens",
    yName: "FLOPs of a decode step of one layer",
  });
  const lines = LATENT.map((name) => svg("polyline", { class: `attn-curve attn-latent-${name}` }));
  const rings = PAIRS.map(() => svg("circle", { class: "attn-crossing", r: 5 }));
  const knobs = LATENT.map(() => svg("circle", { class: "attn-knob", r: 3.5 }));
  const cut = svg("line", { class: "attn-cut", y1: top - 4, y2: bottom });
  const picture = svg("svg", {
    class: "attn-picture attn-movable",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "FLOPs of a decode step over the context, in four forms",
    "aria-describedby": textId,
  }, frame, ...lines, cut, ...knobs, ...rings);
  const { last, valueAt } = powersOfTwo(limits.latent_context);
  whileHeld(picture, (event) => {
    const [px] = pointerPosition(picture, event);
    const step = Math.round((last * (px - left)) / (right - left));
    onTokens(valueAt(Math.min(Math.max(step, 0), last)));
  });
  return {
    node: picture,
    draw(state, { leads }) {
      const letters = linesOf(lettersOf(state));
      const at = (name, n) => letters[name][0] + letters[name][1] * n;
      LATENT.forEach((name, i) => {
        set(lines[i], { points: pointList(PLACES.map((n) => [x(n), y(at(name, n))])) });
        set(knobs[i], {
          cx: x(state.n_tokens).toFixed(2), cy: y(at(name, state.n_tokens)).toFixed(2),
        });
      });
      leads.forEach(({ fewer, more, from }, i) => {
        const [[a, b], [c, d]] = [letters[fewer], letters[more]];
        const crossing = (a - c) / (d - b);
        const isSeen = from > 1 && crossing <= limits.latent_context[1];
        set(rings[i], isSeen
          ? {
            cx: x(crossing).toFixed(2), cy: y(at(fewer, crossing)).toFixed(2),
            visibility: "visible",
          }
          : { cx: 0, cy: 0, visibility: "hidden" });
      });
      set(cut, { x1: x(state.n_tokens).toFixed(2), x2: x(state.n_tokens).toFixed(2) });
    },
  };
}

const BARS = { width: 300, row: 38, height: 10 };
const KEPT = [
  { form: "multi-head", words: "multi-head, h(n + e)", mark: "ordinary" },
  { form: "grouped", words: `${KV_HEADS} key/value heads`, mark: "ordinary" },
  { form: "expanded", words: "expanded, h(n + r + e)", mark: "expanded" },
  { form: "absorbed", words: "latent, c + r", mark: "absorbed" },
];

/** What one layer keeps of a token: a bar each, its numbers and bytes above it. */
function keptBars({ textId }) {
  const text = (attributes) => svg("text", { class: "attn-tick", ...attributes });
  const rows = KEPT.map(({ words, mark }, i) => {
    const y = i * BARS.row;
    const name = text({ x: 0, y: y + 13 });
    setText(name, words);
    const amount = text({ x: BARS.width, y: y + 13, "text-anchor": "end" });
    const bar = svg("rect", {
      class: `attn-latent-bar attn-latent-${mark}`, x: 0, y: y + 19, height: BARS.height,
    });
    return { amount, bar, parts: [name, amount, bar] };
  });
  return {
    node: svg("svg", {
      class: "attn-picture",
      viewBox: `0 0 ${BARS.width} ${KEPT.length * BARS.row}`,
      role: "img",
      "aria-label": "Numbers that one layer keeps of a token",
      "aria-describedby": textId,
    }, ...rows.flatMap(({ parts }) => parts)),
    draw({ forms }) {
      const most = Math.max(...KEPT.map(({ form }) => forms[form].kept));
      KEPT.forEach(({ form }, i) => {
        const { kept, bytes } = forms[form];
        setText(rows[i].amount, `${showWhole(kept)} numbers, ${showBinary(bytes)}`);
        set(rows[i].bar, { width: ((BARS.width * kept) / most).toFixed(2) });
      });
    },
  };
}

const COLUMNS = ["one layer", "kept of a token", "FLOPs of a step", "FLOP a byte"];
const ROWS = [
  ["multi-head", "ordinary"], ["grouped", "ordinary"], ...LATENT.map((name) => [name, name]),
];

function table() {
  const rows = ROWS.map(([form, mark]) => {
    const cells = COLUMNS.slice(1).map(() => element("td"));
    const name = element("th", { scope: "row" }, legendItem(`latent-${mark}`, NAMES[form]));
    return { cells, node: element("tr", {}, name, ...cells) };
  });
  const head = COLUMNS.map((words) => element("th", { scope: "col" }, words));
  return {
    node: element(
      "table",
      { class: "attn-latent-table" },
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...rows.map(({ node }) => node)),
    ),
    draw({ forms }) {
      ROWS.forEach(([form], i) => {
        const { bytes, flops, intensity } = forms[form];
        const words = [showBinary(bytes), showMetric(flops, "FLOP"), round(intensity)];
        words.forEach((each, j) => setText(rows[i].cells[j], each));
      });
    },
  };
}

function build({ change, textId, shortId }) {
  const control = (name, label, steps, write = showWhole) => slider({
    name, label, steps, write, describedBy: shortId, onValue: (value) => change({ [name]: value }),
  });
  const sliders = {
    kv_latent: control("kv_latent", "latent c", listedSteps(limits.kv_latent)),
    rope_dim: control("rope_dim", "rope width r", evenSteps(limits.rope_dim)),
    n_heads: control("n_heads", "heads h", powersOfTwo(limits.latent_heads)),
    nope_dim: control("nope_dim", "key width n, unrotated", listedSteps(limits.latent_head_dim)),
    value_dim: control("value_dim", "value width e", listedSteps(limits.latent_head_dim)),
    bytes_per_number: control(
      "bytes_per_number", "bytes of a number", listedSteps(limits.cost_bytes),
    ),
    n_tokens: control("n_tokens", "context N, tokens", powersOfTwo(limits.latent_context)),
  };
  const model = selection(
    "model",
    "stream m and query latent u, as in",
    limits.latent_models.map((key) => {
      const { name, m, u } = streams[key];
      return [key, `${name}: m = ${showWhole(m)}, u = ${showWhole(u)}`];
    }),
    shortId,
    (value) => change({ model: value }),
  );
  const chart = stepsChart({ textId, onTokens: (n) => change({ n_tokens: n }) });
  const bars = keptBars({ textId });
  const costs = table();
  const formula = element("p", { class: "attn-formula" });
  const times = element("p", { class: "attn-note" });
  const crossings = element("p", { class: "attn-note" });
  const { n_tokens: tokens, ...widths } = sliders;

  return {
    nodes: [
      element(
        "div",
        { class: "attn-controls attn-controls-thirds" },
        ...Object.values(widths).map(({ node }) => node),
      ),
      element("div", { class: "attn-controls attn-controls-even" }, tokens.node, model.node),
      element(
        "div",
        { class: "attn-columns attn-latent-columns" },
        element(
          "div",
          { class: "attn-stage" },
          chart.node,
          legend(
            ...LATENT.map((name) => legendItem(`line-latent-${name}`, name)),
            legendItem("crossing", "where two cross"),
          ),
        ),
        element(
          "div",
          { class: "attn-side" },
          element("p", { class: "attn-label" }, "kept of a token in a layer"),
          bars.node,
        ),
      ),
      costs.node,
      element("div", { class: "attn-explain" }, formula, times, crossings),
    ],
    draw(now) {
      const found = facts(now);
      for (const [name, { show }] of Object.entries(sliders)) show(now[name]);
      model.show(now.model);
      chart.draw(now, found);
      bars.draw(found);
      costs.draw(found);
      setText(formula, `c + r = ${showWhole(found.forms.absorbed.kept)}: as many numbers as `
        + `${round(found.asManyHeads)} key/value heads of widths n and e keep`);
      setText(times, `Multi-head attention keeps ${round(found.times["multi-head"])} times as `
        + `many, ${KV_HEADS} key/value heads ${round(found.times.grouped)} times, the latent's own `
        + `keys and values ${round(found.times.expanded)} times. Over `
        + `${showTokens(now.n_tokens)} the latent takes ${showBinary(found.cacheBytes)} in a layer.`);
      setText(crossings, sayLeads(found.leads));
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "A latent: what it keeps, and what reading it costs";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "latent-forms", title, fields, build });
}
