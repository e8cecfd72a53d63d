// Key/value heads: who reads whom, and what MHA, GQA, MQA and MLA of the same widths cost.

import { pointerPosition, set, svg, whileHeld } from "./chart.mjs";
import {
  element, legend, legendItem, listedSteps, powersOfTwo, selection, setText, showBinary, showCount,
  showMetric, showWavelength, showWhole, slider, untie, wholeSteps,
} from "./controls.mjs";
import { limits } from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { countsAbsorbed, countsShared, latentSizes, models } from "./key-value-formulas.mjs";
import { choice, listed, powerOfTwo, whole } from "./state.mjs";

export const fields = [
  choice("model", "model", limits.key_value_models),
  whole("n_query_heads", "h", limits.key_value_heads),
  whole("n_kv_heads", "g", limits.key_value_heads),
  powerOfTwo("head_dim", "d", limits.key_value_head_dim),
  listed("width", "m", limits.key_value_width),
  whole("n_layers", "L", limits.key_value_layers),
  whole("query_head", "i", limits.key_value_place),
  powerOfTwo("n_tokens", "N", limits.cost_context),
  powerOfTwo("n_rows", "B", limits.cost_rows),
  listed("bytes_per_number", "bytes", limits.cost_bytes),
];

const OWN = "own";
const OWN_SIZES = { name: "Own sizes", latent: false, windowLayers: 0, window: 0 };
const FORMS = ["MHA", "GQA", "MQA", "MLA"];

const divisorsOf = (h) => Array.from({ length: h }, (_, i) => i + 1).filter((g) => h % g === 0);

/** The most key/value heads, but no more than these, that query heads can share evenly. */
export const fittingKvHeads = (h, most) => divisorsOf(h).filter((g) => g <= most).at(-1);

function hasItsSizes(state) {
  const sizes = models[state.model]?.sizes; // there are none of the reader's own
  return sizes !== undefined && Object.entries(sizes).every(([name, n]) => state[name] === n);
}

const modelOf = (state) => (hasItsSizes(state) ? models[state.model] : OWN_SIZES);

/** What a hand-written link asks for need not go together: then the nearest that does. */
function possible(state) {
  const h = state.n_query_heads;
  const fitting = {
    ...state,
    n_kv_heads: fittingKvHeads(h, state.n_kv_heads),
    query_head: Math.min(state.query_head, h - 1),
  };
  return { ...fitting, model: hasItsSizes(fitting) ? state.model : OWN };
}

function formOf({ n_query_heads: h, n_kv_heads: g }, { latent }) {
  if (latent) return "MLA";
  if (g === h) return "MHA";
  return g === 1 ? "MQA" : "GQA";
}

/** The numbers of the picture. */
export function facts(asked) {
  const state = possible(asked);
  const { n_query_heads: h, n_kv_heads: g, head_dim: d } = state;
  const model = modelOf(state);
  const letters = {
    h, d, e: d, m: state.width, L: state.n_layers, N: state.n_tokens, B: state.n_rows,
    beta: state.bytes_per_number, L_w: model.windowLayers, W: model.window,
  };
  const latent = latentSizes(letters);
  const counted = {
    MHA: countsShared({ ...letters, g: h }),
    GQA: countsShared({ ...letters, g }),
    MQA: countsShared({ ...letters, g: 1 }),
    MLA: countsAbsorbed({ ...letters, ...latent }),
  };
  const queries = h / g;
  const kvHead = Math.floor(state.query_head / queries);
  return {
    model: model.name,
    form: formOf(state, model),
    queriesPerKvHead: queries,
    kvHead,
    sharing: [kvHead * queries, (kvHead + 1) * queries - 1],
    windowLayers: model.windowLayers,
    window: model.window,
    latent,
    ...Object.fromEntries(FORMS.map((name) => {
      const counts = counted[name];
      return [name, { ...counts, stepFlops: counts.projectionFlops + counts.coreFlops }];
    })),
  };
}

/** Three digits, and whole from a hundred on. */
const round = (x) => showWavelength(untie(x));

/** So many times as much as the base, or the base divided by so much: ×3.4, ÷8. */
export function showRatio(x, base) {
  return x >= base ? `×${round(x / base)}` : `÷${round(base / x)}`;
}

function sayHead({ query_head: i }, { queriesPerKvHead: p, kvHead, sharing: [first, last] }) {
  const others = p === 1 ? "and no other does" : `as ${first} to ${last} do`;
  return `Query head ${i} reads key/value head ⌊${i}/${p}⌋ = ${kvHead}, ${others}.`;
}

const sayLayers = ({ windowLayers, window }) => (windowLayers === 0
  ? "none with a window" : `${windowLayers} with a window of ${showWhole(window)} tokens`);

const sayForm = ({ model, form }) => (form === "MLA"
  ? `${model} itself has MLA, and these heads stand beside it for comparison.`
  : `That is ${form}.`);

function sayBeyond(state) {
  const { context } = modelOf(state);
  return state.n_tokens > context
    ? ` That is beyond the ${showWhole(context)} tokens that it is said to read.` : "";
}

const sayFlops = ({ projectionFlops, coreFlops }) => (
  `${showMetric(projectionFlops, "FLOP")} + ${showMetric(coreFlops, "FLOP")}`
);

/** The picture in words. */
export function describe(asked, found = facts(asked)) {
  const state = possible(asked);
  const { n_query_heads: h, n_kv_heads: g, head_dim: d, n_rows: rows } = state;
  const { c, r, u } = found.latent;
  const compare = (key, write) => FORMS.map((name) => {
    const ratio = name === "MHA" ? "" : ` (${showRatio(found[name][key], found.MHA[key])})`;
    return `${name} ${write(found[name])}${ratio}`;
  }).join(", ");
  return `${found.model}: h = ${showCount(h, "query head")} of width d = ${d}, g = `
    + `${showCount(g, "key/value head")}, p = h/g = ${found.queriesPerKvHead}. ${sayForm(found)} `
    + `${sayHead(state, found)} Stream of m = ${showWhole(state.width)}, `
    + `${showCount(state.n_layers, "layer")}, ${sayLayers(found)}. One decode step of `
    + `${showCount(rows, "row")}: a new token each, the last of ${showWhole(state.n_tokens)}.`
    + `${sayBeyond(state)} In brackets the ratio to MHA, which has g = h. Cache of all layers and `
    + `rows, ${showCount(state.bytes_per_number, "byte")} a number: `
    + `${compare("cacheBytes", ({ cacheBytes }) => showBinary(cacheBytes))}. Parameters of `
    + "attention's matrices in all layers: "
    + `${compare("parameters", ({ parameters }) => showWhole(parameters))}. FLOPs of the step in `
    + `the attention of all layers and rows, projections + core: ${compare("stepFlops", sayFlops)}. `
    + "FLOPs of the core for each byte of the cache: "
    + `${compare("intensity", ({ intensity }) => round(intensity))}. MLA is absorbed and as in `
    + `DeepSeek-V2 beside heads of this width: c = ${showWhole(c)}, r = ${r}, u = ${showWhole(u)}.`;
}

function sayShort(state, found) {
  const { cacheBytes } = found[found.form];
  return `${found.model}, ${found.form}: ${showCount(state.n_query_heads, "query head")}, `
    + `${showCount(state.n_kv_heads, "key/value head")}, cache ${showBinary(cacheBytes)}, `
    + `${showRatio(cacheBytes, found.MHA.cacheBytes)} of MHA's. ${sayHead(state, found)}`;
}

const WIRES = { left: 10, right: 350, top: 46, bottom: 174, width: 360, height: 226 };
const NODE = { height: 10, widest: 12 };
const APART = 26; // of two numbers below each other's nodes

/** Which query head reads which key/value head: lines in fans, the chosen head's one thick. */
function wiring({ change, textId }) {
  const { left, right, top, bottom, width, height } = WIRES;
  const path = (name) => svg("path", { class: `attn-wire-${name}` });
  const [fans, lines, sharing, chosen] = ["fans", "lines", "sharing", "chosen"].map(path);
  const [queries, keys, chosenQuery, chosenKey] = ["query", "key", "chosen-query", "chosen-key"]
    .map(path);
  const label = (y) => svg("text", { class: "attn-tick", y, "text-anchor": "middle" });
  const [above, below] = [top - NODE.height - 6, bottom + NODE.height + 15]
    .map((y) => [label(y), label(y), label(y)]);
  const [queryName, keyName] = [14, height - 6].map((y) => (
    svg("text", { class: "attn-wire-name", x: left, y })
  ));
  const picture = svg(
    "svg",
    {
      class: "attn-picture attn-movable",
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "Which query head reads which key/value head",
      "aria-describedby": textId,
    },
    fans, sharing, lines, chosen, queries, keys, chosenQuery, chosenKey,
    ...above, ...below, queryName, keyName,
  );
  let nQueryHeads = 1;
  whileHeld(picture, (event) => {
    const [px] = pointerPosition(picture, event);
    const i = Math.floor(((px - left) / (right - left)) * nQueryHeads);
    change({ query_head: Math.min(Math.max(i, 0), nQueryHeads - 1) });
  });

  const centre = (i, count) => left + ((i + 0.5) / count) * (right - left);
  const nodeWidth = (count) => Math.min(NODE.widest, (0.7 * (right - left)) / count);
  const node = (i, count, y) => {
    const wide = nodeWidth(count).toFixed(2);
    const x = (centre(i, count) - wide / 2).toFixed(2);
    return `M${x},${y}h${wide}v${NODE.height}h-${wide}Z`;
  };
  const nodes = (count, y) => Array.from({ length: count }, (_, i) => node(i, count, y)).join("");
  /** First and last number, and the chosen one wherever it is; those in its way step back. */
  const write = (labels, at, count) => {
    const place = (i) => Math.min(Math.max(centre(i, count), left + 8), right - 8);
    [0, count - 1, at].forEach((i, j) => {
      const isAt = j === 2;
      const hasRoom = Math.abs(place(i) - place(at)) >= APART;
      setText(labels[j], isAt || hasRoom ? String(i) : "");
      set(labels[j], { x: place(i).toFixed(2) });
      labels[j].classList.toggle("attn-tick-chosen", isAt);
    });
  };

  return {
    node: picture,
    draw({ n_query_heads: h, n_kv_heads: g, query_head: i }, { queriesPerKvHead: p, kvHead }) {
      nQueryHeads = h;
      const wire = (query) => {
        const [x, y] = [centre(query, h), centre(Math.floor(query / p), g)];
        return `M${x.toFixed(2)},${top}L${y.toFixed(2)},${bottom}`;
      };
      const half = nodeWidth(h) / 2;
      const fan = (j) => {
        const [from, to] = [centre(j * p, h) - half, centre((j + 1) * p - 1, h) + half];
        const [x, wide] = [centre(j, g), nodeWidth(g) / 2];
        return `M${from.toFixed(2)},${top}L${to.toFixed(2)},${top}`
          + `L${(x + wide).toFixed(2)},${bottom}L${(x - wide).toFixed(2)},${bottom}Z`;
      };
      const all = (count, draw) => Array.from({ length: count }, (_, j) => draw(j)).join("");
      set(fans, { d: all(g, fan) });
      set(sharing, { d: fan(kvHead) });
      set(lines, { d: all(h, wire) });
      set(chosen, { d: wire(i) });
      set(queries, { d: nodes(h, top - NODE.height) });
      set(keys, { d: nodes(g, bottom) });
      set(chosenQuery, { d: node(i, h, top - NODE.height) });
      set(chosenKey, { d: node(kvHead, g, bottom) });
      write(above, i, h);
      write(below, kvHead, g);
      setText(queryName, `query heads, h = ${h}`);
      setText(keyName, `key/value heads, g = ${g}`);
    },
  };
}

// The colours of projections and of the core in the cost explorer.
const [OF_THE_WEIGHTS, OF_THE_CACHE] = ["cost-0", "cost-5"];
const BARS = { left: 50, longest: 106, number: 236, right: 300, top: 4, step: 21, height: 13 };

/**
 * A bar for each form, the longest as long as the largest. `parts` are the numbers that are stacked
 * in it; `write` writes it; the sign of the form that is chosen is an arrow.
 */
function formBars({ name, note, key, parts, write, textId }) {
  const { left, longest, number, right, top, step, height } = BARS;
  const text = (attributes) => svg("text", { class: "attn-form-number", ...attributes });
  const rows = FORMS.map((form, i) => {
    const y = top + i * step;
    const words = text({ x: 12, y: y + 11 });
    setText(words, form);
    return {
      form,
      words,
      mark: svg("path", { class: "attn-split-mark" }),
      arrow: `M2,${y + 2}l7,5l-7,5Z`,
      bars: parts.map(({ mark }) => svg("rect", { class: `attn-${mark}`, y, height })),
      value: text({ x: number, y: y + 11, "text-anchor": "end" }),
      ratio: text({ x: right, y: y + 11, "text-anchor": "end" }),
    };
  });
  const picture = svg(
    "svg",
    {
      class: "attn-picture",
      viewBox: `0 0 ${right} ${2 * top + FORMS.length * step}`,
      role: "img",
      "aria-label": `${name}, ${note}: MHA, GQA, MQA and MLA`,
      "aria-describedby": textId,
    },
    ...rows.flatMap(({ words, mark, bars, value, ratio }) => [words, mark, ...bars, value, ratio]),
  );
  const named = parts.filter(({ words }) => words);
  const keys = named.map(({ mark, words }) => legendItem(mark, words));
  return {
    node: element(
      "div",
      { class: "attn-split-chart" },
      element(
        "div",
        { class: "attn-split-head" },
        element("span", {}, name, " ", element("span", { class: "attn-soft" }, note)),
        ...(keys.length > 0 ? [legend(...keys)] : []),
      ),
      picture,
    ),
    draw(found) {
      const most = Math.max(...FORMS.map((form) => found[form][key]));
      for (const { form, words, mark, arrow, bars, value, ratio } of rows) {
        let x = left;
        parts.forEach((part, j) => {
          const length = (longest * found[form][part.key]) / most;
          set(bars[j], { x: x.toFixed(2), width: length.toFixed(2) });
          x += length;
        });
        const isChosen = form === found.form;
        set(mark, { d: isChosen ? arrow : "" });
        for (const each of [words, value, ratio]) {
          each.classList.toggle("attn-tick-chosen", isChosen);
        }
        setText(value, write(found[form][key]));
        setText(ratio, showRatio(found[form][key], found.MHA[key]));
      }
    },
  };
}

function build({ change: changeModel, textId, shortId, state }) {
  let current = possible(state);
  // So many key/value heads are wanted: where h has no such divisor, it may have it again later.
  let wanted = current.n_kv_heads;
  const change = (patch) => {
    const next = possible({ ...current, ...patch });
    const changed = Object.entries(next).filter(([key, value]) => current[key] !== value);
    current = next; // two sliders may move before the next frame
    changeModel(Object.fromEntries(changed));
  };
  const control = (name, label, steps, write = String) => slider({
    name, label, steps, write, describedBy: shortId, onValue: (value) => change({ [name]: value }),
  });

  const model = selection(
    "model",
    "sizes of",
    Object.entries(models).map(([key, { name }]) => [key, name]),
    shortId,
    (key) => change(key === OWN ? {} : { model: key, ...models[key].sizes }),
  );
  const own = element("option", { value: OWN }, "own sizes, by the sliders");
  const heads = slider({
    name: "n_query_heads",
    label: "query heads h",
    steps: wholeSteps(limits.key_value_heads),
    write: String,
    describedBy: shortId,
    onValue: (h) => change({ n_query_heads: h, n_kv_heads: fittingKvHeads(h, wanted) }),
  });
  const kvHeads = slider({
    name: "n_kv_heads",
    label: "key/value heads g, a divisor of h",
    steps: {
      last: divisorsOf(current.n_query_heads).length - 1,
      valueAt: (i) => divisorsOf(current.n_query_heads)[i],
      stepOf: (g) => divisorsOf(current.n_query_heads).indexOf(g),
    },
    write: String,
    describedBy: shortId,
    onValue: (g) => change({ n_kv_heads: g }),
  });
  const place = control("query_head", "look at query head i", wholeSteps(limits.key_value_place));
  const controls = {
    n_query_heads: heads,
    n_kv_heads: kvHeads,
    query_head: place,
    head_dim: control("head_dim", "head width d", powersOfTwo(limits.key_value_head_dim)),
    width: control("width", "stream width m", listedSteps(limits.key_value_width), showWhole),
    n_layers: control("n_layers", "layers L", wholeSteps(limits.key_value_layers)),
    n_tokens: control(
      "n_tokens", "context N, tokens", powersOfTwo(limits.cost_context), showWhole,
    ),
    n_rows: control("n_rows", "batch B, rows", powersOfTwo(limits.cost_rows)),
    bytes_per_number: control(
      "bytes_per_number", "bytes of a number", listedSteps(limits.cost_bytes),
    ),
  };

  const wires = wiring({ change, textId });
  const shared = element("p", { class: "attn-formula" });
  const reading = element("p", { class: "attn-note" });
  const layers = element("p", { class: "attn-note" });
  const latent = element("p", { class: "attn-note" });
  const charts = [
    {
      name: "cache",
      note: "of all layers and rows",
      key: "cacheBytes",
      parts: [{ key: "cacheBytes", mark: OF_THE_CACHE }],
      write: showBinary,
    },
    {
      name: "parameters",
      note: "of attention's matrices, all layers",
      key: "parameters",
      parts: [{ key: "parameters", mark: OF_THE_WEIGHTS }],
      write: (count) => showMetric(count, "").trim(),
    },
    {
      name: "FLOPs of a step",
      note: "in all attention layers",
      key: "stepFlops",
      parts: [
        { key: "projectionFlops", mark: OF_THE_WEIGHTS, words: "projections" },
        { key: "coreFlops", mark: OF_THE_CACHE, words: "core: scores and weighted sums" },
      ],
      write: (count) => showMetric(count, "FLOP"),
    },
    {
      name: "intensity",
      note: "of the core, FLOP a byte of cache",
      key: "intensity",
      parts: [{ key: "intensity", mark: OF_THE_CACHE }],
      write: round,
    },
  ].map((chart) => formBars({ ...chart, textId }));

  return {
    nodes: [
      model.node,
      element(
        "div",
        { class: "attn-columns" },
        element("div", { class: "attn-stage" }, wires.node),
        element(
          "div",
          { class: "attn-side" },
          heads.node, kvHeads.node, place.node,
          element("div", { class: "attn-explain" }, shared, reading),
        ),
      ),
      element(
        "div",
        { class: "attn-controls attn-controls-thirds attn-of-the-model" },
        controls.head_dim.node, controls.width.node, controls.n_layers.node,
        controls.n_tokens.node, controls.n_rows.node, controls.bytes_per_number.node,
      ),
      element("div", { class: "attn-split-charts" }, ...charts.map(({ node }) => node)),
      layers,
      latent,
    ],
    draw(asked) {
      const now = possible(asked);
      current = now;
      if (now.n_kv_heads !== fittingKvHeads(now.n_query_heads, wanted)) wanted = now.n_kv_heads;
      const found = facts(now);
      const { select } = model;
      if (now.model === OWN && own.parentNode === null) select.append(own);
      if (now.model !== OWN) own.remove();
      model.show(now.model);
      kvHeads.input.max = String(divisorsOf(now.n_query_heads).length - 1);
      place.input.max = String(now.n_query_heads - 1);
      for (const [name, { show }] of Object.entries(controls)) show(now[name]);
      wires.draw(now, found);
      for (const chart of charts) chart.draw(found);

      const { c, r, u } = found.latent;
      setText(shared, `p = h/g = ${found.queriesPerKvHead}: ${found.form === "MLA"
        ? "heads beside MLA" : found.form}`);
      setText(reading, sayHead(now, found));
      setText(layers, `${showCount(now.n_layers, "layer")}, ${sayLayers(found)}.${sayBeyond(now)} `
        + "The arrow marks what the sizes above are; ÷ and × are against MHA, which has g = h.");
      setText(latent, "MLA is absorbed and as in DeepSeek-V2 beside heads of this width: "
        + `c = ${showWhole(c)}, r = ${r}, u = ${showWhole(u)}.`);
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Key/value heads: who shares whom, and what it saves";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "key-value-heads", title, fields, build });
}
