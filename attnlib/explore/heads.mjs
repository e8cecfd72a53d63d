// Heads: the same product h·d, split into more and thinner heads → what changes and what does not.

import { pointerPosition, set, svg, whileHeld } from "./chart.mjs";
import {
  element, legend, legendItem, powersOfTwo, setText, showCount, showWhole, slider,
} from "./controls.mjs";
import {
  attentionParameters, coreFlops, limits, projectionFlops, rankBound, scoreNumbers,
} from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { powerOfTwo } from "./state.mjs";

export const fields = [
  powerOfTwo("width", "m", limits.stream_width),
  powerOfTwo("n_heads", "h", limits.n_heads),
  powerOfTwo("head_dim", "d", limits.head_dim),
  powerOfTwo("n_tokens", "n", limits.n_read_tokens),
];

/** The counts of one layer without mask, where g = h and e = d. */
function layerCosts({ width, n_heads: heads, head_dim: headDim, n_tokens: tokens }) {
  return {
    heads,
    headDim,
    parameters: attentionParameters(width, heads, headDim),
    projectionFlops: projectionFlops(width, heads, headDim, tokens),
    coreFlops: coreFlops(heads, headDim, tokens),
    exponentials: scoreNumbers(heads, tokens),
    rank: rankBound(tokens, width, headDim),
  };
}

/** The fewest and the most heads, within the sliders' ends, with this product h·d. */
function rangeOfHeads(joined) {
  const [fewest, most] = limits.n_heads;
  const [least, largest] = limits.head_dim;
  return [Math.max(fewest, joined / largest), Math.min(most, joined / least)];
}

/** Every (h, d) with this product, few heads first. */
function splitsOf(joined) {
  const { last, valueAt } = powersOfTwo(rangeOfHeads(joined));
  return Array.from({ length: last + 1 }, (_, i) => (
    { n_heads: valueAt(i), head_dim: joined / valueAt(i) }
  ));
}

/** The numbers of the picture. */
export function facts(state) {
  const joined = state.n_heads * state.head_dim;
  return {
    ...layerCosts(state),
    joined,
    isSquare: joined === state.width,
    splits: splitsOf(joined).map((split) => layerCosts({ ...state, ...split })),
  };
}

/** Which part of n the bound for the rank is: both are powers of two. */
const partOf = (n, rank) => (rank === n ? "all of n" : `1/${showWhole(n / rank)} of n`);

/** The picture in words. */
export function describe(state, found = facts(state)) {
  const { width: m, n_heads: h, head_dim: d, n_tokens: n } = state;
  const shape = found.isSquare ? "as wide as m: the matrices are square" : "which is not m";
  const words = `Width m = ${showWhole(m)}, h = ${showCount(h, "head")} of width d = ${d}: h·d = `
    + `${showWhole(found.joined)}, ${shape}. Parameters 4mhd: ${showWhole(found.parameters)}. `
    + `With n = ${showWhole(n)} tokens and no mask, FLOPs of the projections 8nmhd: `
    + `${showWhole(found.projectionFlops)}; of the scores and the weighted sums 4n²hd: `
    + `${showWhole(found.coreFlops)}. Exponentials hn²: ${showWhole(found.exponentials)}, as many `
    + "numbers as the scores if they are stored. The scores of a head have rank at most "
    + `min(n, m, d) = ${found.rank}, ${partOf(n, found.rank)}.`;
  const [few, many] = [found.splits[0], found.splits.at(-1)];
  if (found.splits.length === 1) {
    return `${words} No other number of heads here has the same h·d.`;
  }
  return `${words} At the same h·d, from ${few.heads} to ${many.heads} heads: the same parameters `
    + `and FLOPs, exponentials from ${showWhole(few.exponentials)} to `
    + `${showWhole(many.exponentials)}, rank at most from ${few.rank} to ${many.rank}.`;
}

function sayShort({ head_dim: d }, { heads, rank, parameters }) {
  return `${showCount(heads, "head")} of width ${d}: ${showWhole(parameters)} parameters, `
    + `rank at most ${rank}.`;
}

const VIEW = { left: 6, right: 294, top: 8, bottom: 88, width: 300, height: 122 };
const MOST_BARS = Math.log2(limits.n_heads[1]) + 1;
const STEP = (VIEW.right - VIEW.left) / MOST_BARS;

/**
 * Bars over the splits of one product. `parts` are the numbers that are stacked, from below, with
 * what each is called where there are several; `write` writes the height of the chosen bar.
 */
function splitBars({ name, formula, parts, write, change, textId }) {
  const { top, bottom, width, height, left, right } = VIEW;
  const each = Array.from({ length: MOST_BARS });
  const bars = each.map(() => parts.map((_, i) => svg("rect", { class: `attn-split attn-part-${i}` })));
  const marks = each.map(() => svg("path", { class: "attn-split-mark" }));
  const heads = each.map(() => svg("text", { class: "attn-tick", "text-anchor": "middle" }));
  const dims = each.map(() => svg("text", { class: "attn-tick", "text-anchor": "middle" }));
  const base = svg("line", { class: "attn-grid", x1: left, x2: right, y1: bottom, y2: bottom });
  const picture = svg("svg", {
    class: "attn-picture attn-movable",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `${name} for every number of heads with the same h·d`,
    "aria-describedby": textId,
  }, base, ...bars.flat(), ...marks, ...heads, ...dims);
  let splits = [];
  let first = left;
  whileHeld(picture, (event) => {
    const [px] = pointerPosition(picture, event);
    const i = Math.min(Math.max(Math.floor((px - first) / STEP), 0), splits.length - 1);
    change({ n_heads: splits[i].heads, head_dim: splits[i].headDim });
  });
  const value = element("span", { class: "attn-value" });
  const title = element("span", {}, name, " ", element("span", { class: "attn-soft" }, formula));
  const named = parts.filter((part) => part.words);
  const shares = named.map(() => element("span"));
  const items = named.map(({ words }, i) => legendItem(`part-${i}`, words, shares[i]));
  const keys = items.length > 0 ? [legend(...items)] : [];
  return {
    node: element(
      "div",
      { class: "attn-split-chart" },
      element("div", { class: "attn-split-head" }, title, value, ...keys),
      picture,
    ),
    draw(found) {
      splits = found.splits;
      first = left + ((MOST_BARS - splits.length) * STEP) / 2; // few bars stand in the middle
      const heightOf = (split) => parts.reduce((total, { key: part }) => total + split[part], 0);
      const most = Math.max(...splits.map(heightOf));
      each.forEach((_, i) => {
        const split = splits[i];
        const isChosen = split?.heads === found.heads;
        const middle = (first + (i + 0.5) * STEP).toFixed(2);
        let y = bottom;
        parts.forEach(({ key: part }, j) => {
          const length = split ? ((bottom - top) * split[part]) / most : 0;
          y -= length;
          set(bars[i][j], {
            x: (first + (i + 0.16) * STEP).toFixed(2), y: y.toFixed(2),
            width: split ? (0.68 * STEP).toFixed(2) : 0, height: length.toFixed(2),
          });
          bars[i][j].classList.toggle("attn-split-chosen", isChosen);
        });
        // A sign beside the colour: the chosen one stands on an arrow.
        set(marks[i], { d: isChosen ? `M${middle},${bottom + 2}l5,7h-10Z` : "" });
        setText(heads[i], split ? String(split.heads) : "");
        setText(dims[i], split ? String(split.headDim) : "");
        set(heads[i], { x: middle, y: bottom + 20 });
        set(dims[i], { x: middle, y: bottom + 33 });
        for (const node of [heads[i], dims[i]]) node.classList.toggle("attn-tick-chosen", isChosen);
      });
      setText(value, write(heightOf(found)));
      named.forEach(({ key: part }, i) => setText(shares[i], showWhole(found[part])));
    },
  };
}

function build({ change: changeModel, textId, shortId, state }) {
  let current = state;
  const change = (patch) => {
    current = { ...current, ...patch }; // two sliders may move before the next frame
    changeModel(patch);
  };
  const control = (name, label, range) => slider({
    name,
    label,
    steps: powersOfTwo(range),
    write: showWhole,
    describedBy: shortId,
    onValue: (value) => change({ [name]: value }),
  });
  const width = control("width", "width m of the stream", limits.stream_width);
  const heads = control("n_heads", "heads h", limits.n_heads);
  const dim = control("head_dim", "width d of a head", limits.head_dim);
  const tokens = control("n_tokens", "tokens n", limits.n_read_tokens);
  const joined = () => current.n_heads * current.head_dim;
  const fewest = () => Math.log2(rangeOfHeads(joined())[0]);
  const split = slider({
    name: "split",
    label: "split h·d into heads, h·d fixed",
    steps: {
      last: Math.log2(limits.n_heads[1]),
      valueAt: (i) => 2 ** (fewest() + i),
      stepOf: (h) => Math.log2(h) - fewest(),
    },
    write: (h) => `${h} · ${joined() / h}`,
    say: (h) => `${showCount(h, "head")} of width ${joined() / h}`,
    describedBy: shortId,
    onValue: (h) => change({ n_heads: h, head_dim: joined() / h }),
  });

  const flops = [
    { key: "projectionFlops", words: "projections, 8nmhd:" },
    { key: "coreFlops", words: "QKᵀ and PV, 4n²hd:" },
  ];
  const sayRank = (rank) => `${rank}, ${partOf(current.n_tokens, rank)}`;
  const charts = [
    { name: "parameters", formula: "4mhd", parts: [{ key: "parameters" }] },
    { name: "FLOPs", formula: "8nmhd + 4n²hd", parts: flops },
    { name: "exponentials", formula: "hn²", parts: [{ key: "exponentials" }] },
    { name: "rank of scores", formula: "≤ min(n, m, d)", parts: [{ key: "rank" }], write: sayRank },
  ].map((chart) => splitBars({ write: showWhole, ...chart, change, textId }));
  const formula = element("p", { class: "attn-formula" });

  return {
    nodes: [
      element(
        "div",
        { class: "attn-controls attn-controls-even" },
        heads.node, dim.node, width.node, tokens.node, split.node,
      ),
      element(
        "div",
        { class: "attn-explain" },
        formula,
        element(
          "p",
          { class: "attn-note" },
          "More heads of the same h·d: parameters and FLOPs stay. The exponentials grow with h, "
          + "and the rank that a head's scores can have falls with d, once d is below n and m.",
        ),
      ),
      element("div", { class: "attn-split-charts" }, ...charts.map(({ node }) => node)),
      element(
        "p",
        { class: "attn-note" },
        "Below each bar: its heads h, and under them their width d. The arrow marks the chosen "
        + "split; drag in a chart, or move the last slider, to choose another. FLOPs are without a "
        + "mask, two a multiply-add.",
      ),
    ],
    draw(now) {
      current = now;
      const found = facts(now);
      width.show(now.width);
      heads.show(now.n_heads);
      dim.show(now.head_dim);
      tokens.show(now.n_tokens);
      split.input.max = String(found.splits.length - 1);
      split.show(now.n_heads);
      for (const chart of charts) chart.draw(found);

      const product = `h·d = ${showWhole(found.joined)}`;
      const than = found.joined > now.width ? ">" : "<";
      setText(formula, found.isSquare
        ? `${product} = m: square matrices`
        : `${product} ${than} m = ${showWhole(now.width)}`);
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Heads: one cost, split more and thinner";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "heads", title, fields, build });
}
