// Soft lookup: a query among keys in the plane → weights, and a mean of the values inside the hull.
// The value of each key is the key's own point, so that the output can be seen beside the query.

import { axes, linear, pointList, pointerPosition, ratios, set, svg } from "./chart.mjs";
import {
  element, freshId, legend, legendItem, linearSteps, logSteps, setText, show, showRound, showWeight,
  slider,
} from "./controls.mjs";
import { dotProductLogKernel, gaussianLogKernel, limits } from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { argmax, convexHull, softmax, weightedMean } from "./numerics.mjs";
import { choice, fixed, number, numbers } from "./state.mjs";

const point = numbers("query", "q", limits.position, [2, 2]);
const [fewest, most] = limits.n_sources;

/** The keys, which are their own values: a list of points of the plane. */
function cleanPoints(list) {
  const fits = Array.isArray(list) && list.length >= fewest && list.length <= most;
  return fits && list.every((key) => point.clean(key) !== undefined) ? list : undefined;
}

export const fields = [
  point,
  number("bandwidth", "h", limits.bandwidth),
  choice("kernel", "kernel", limits.kernels),
  fixed("points", cleanPoints),
];

const KERNELS = {
  gaussian: {
    name: "Gaussian",
    formula: "exp(−‖q − k‖² / 2h²)",
    logarithm: gaussianLogKernel,
    limit: "nearest key",
  },
  "dot-product": {
    name: "exponential of the dot product",
    formula: "exp(⟨q, k⟩ / h²)",
    logarithm: dotProductLogKernel,
    limit: "key farthest in the query's direction",
  },
};

/** The logarithm of each key's kernel: the scores whose softmax is the weights. */
function logKernels({ query, points, kernel }, bandwidth) {
  return points.map((key) => KERNELS[kernel].logarithm(...query, ...key, bandwidth));
}

const outputAt = (state, bandwidth) => (
  weightedMean(softmax(logKernels(state, bandwidth)).weights, state.points)
);

const TIE = 1e-12; // positions are decimal fractions, so equal distances differ by rounding

/** The numbers of the picture. */
export function facts(state) {
  const { weights } = softmax(logKernels(state, state.bandwidth));
  const equal = state.points.map(() => 1 / state.points.length);
  const order = logKernels(state, 1); // which key is ahead is the same at every h
  const best = Math.max(...order);
  return {
    weights,
    winner: argmax(weights),
    output: weightedMean(weights, state.points),
    limitKeys: order.flatMap((value, j) => (best - value <= TIE ? [j] : [])),
    mean: weightedMean(equal, state.points),
  };
}

/** Where the output goes as h → 0: one key, or the mean of those that tie. */
function limitWords({ kernel }, { limitKeys }) {
  const names = limitKeys.map((j) => j + 1).join(", ");
  const { limit } = KERNELS[kernel];
  return limitKeys.length === 1
    ? `key ${names}, the ${limit}`
    : `the mean of keys ${names}, which tie as the ${limit}`;
}

const showPoint = ([x, y]) => `(${show(x)}, ${show(y)})`;

/** The picture in words. */
export function describe(state, found = facts(state)) {
  const { name } = KERNELS[state.kernel];
  const list = found.weights.map((p, j) => `key ${j + 1} ${showWeight(p)}`).join(", ");
  return `Query at ${showPoint(state.query)}, kernel ${name}, bandwidth `
    + `${showRound(state.bandwidth)}. Weights: ${list}. Output at ${showPoint(found.output)}, `
    + "inside the hull of the values. "
    + `As h → 0 it goes to ${limitWords(state, found)}; as h → ∞ to the mean of all, `
    + `${showPoint(found.mean)}.`;
}

function sayShort(state, { winner, weights, output }) {
  return `Query ${showPoint(state.query)}: output ${showPoint(output)}; `
    + `key ${winner + 1} has weight ${showWeight(weights[winner])}.`;
}

const VIEW = { left: 30, right: 390, top: 10, bottom: 370, width: 400, height: 408 };

/** The radius of a key: its area grows with its weight. */
const radius = (weight) => Math.sqrt(30 + 420 * weight);

/** The plane: hull, keys, query, output, and the way of the output from h → 0 to h → ∞. */
function plane({ state, change, textId, shortId, current }) {
  const { left, right, top, bottom, width, height } = VIEW;
  const [low, high] = limits.position;
  const x = linear(limits.position, [left, right]);
  const y = linear(limits.position, [bottom, top]);
  const at = ([px, py]) => [x(px), y(py)];
  const ticks = [-3, -2, -1, 0, 1, 2, 3].map((value) => [value, show(value, 0)]);
  const bandwidths = ratios([0.02, 50], 56);

  const grid = axes({
    x, y, left, right, top, bottom, xTicks: ticks, yTicks: ticks, xName: "", yName: "",
  });
  const corners = convexHull(state.points).map(at);
  const hull = svg("polygon", { class: "attn-hull", points: pointList(corners) });
  const spokes = state.points.map(() => svg("line", { class: "attn-spoke" }));
  const discs = state.points.map((key) => (
    svg("circle", { class: "attn-key", cx: x(key[0]), cy: y(key[1]) })
  ));
  const dots = state.points.map((key) => (
    svg("circle", { class: "attn-key-dot", cx: x(key[0]), cy: y(key[1]), r: 3 })
  ));
  const names = state.points.map((key, j) => {
    const made = svg("text", { class: "attn-key-name" });
    made.textContent = String(j + 1);
    return made;
  });
  const rings = state.points.map((key) => (
    svg("circle", { class: "attn-limit", cx: x(key[0]), cy: y(key[1]) })
  ));
  const trail = svg("polyline", { class: "attn-trail" });
  const mean = svg("path", { class: "attn-mean" });
  const output = svg("path", { class: "attn-output" });
  const knob = svg("circle", { class: "attn-query-knob", r: 8 });
  const target = svg("circle", { class: "attn-query-target", r: 24 });
  const query = svg("g", {
    class: "attn-query",
    role: "slider",
    tabindex: 0,
    "aria-label": "Query, moved by the arrow keys",
    "aria-valuemin": low,
    "aria-valuemax": high,
    "aria-describedby": shortId,
  }, target, knob);
  const picture = svg("svg", {
    class: "attn-picture attn-plane",
    viewBox: `0 0 ${width} ${height}`,
    role: "group",
    "aria-label": "Keys, query and output in the plane",
    "aria-describedby": textId,
  }, grid, hull, ...spokes, ...discs, ...dots, ...rings, trail, mean, ...names, output, query);

  const snap = (value) => Math.min(Math.max(Math.round(value * 20) / 20, low), high);
  const moveTo = (event) => {
    const [px, py] = pointerPosition(picture, event);
    const back = (pixel, from, to) => low + ((pixel - from) / (to - from)) * (high - low);
    change({ query: [snap(back(px, left, right)), snap(back(py, bottom, top))] });
  };
  // A finger drags the query alone, so that the page still scrolls elsewhere; a tap sends it there.
  picture.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" && !query.contains(event.target)) return;
    event.preventDefault();
    query.focus();
    picture.setPointerCapture(event.pointerId);
    moveTo(event);
  });
  picture.addEventListener("pointermove", (event) => {
    if (picture.hasPointerCapture(event.pointerId)) moveTo(event);
  });
  picture.addEventListener("click", moveTo);
  query.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? 0.5 : 0.05;
    const [dx, dy] = {
      ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step],
    }[event.key] ?? [0, 0];
    if (dx === 0 && dy === 0) return;
    event.preventDefault();
    const [qx, qy] = current().query;
    change({ query: [snap(qx + dx), snap(qy + dy)] });
  });

  return {
    node: picture,
    draw(now, found) {
      const [qx, qy] = at(now.query);
      const [ox, oy] = at(found.output);
      now.points.forEach((key, j) => {
        const [kx, ky] = at(key);
        const weight = found.weights[j];
        set(discs[j], {
          r: radius(weight).toFixed(2),
          "fill-opacity": (0.2 + 0.6 * weight).toFixed(3),
        });
        set(spokes[j], {
          x1: qx.toFixed(2), y1: qy.toFixed(2), x2: kx, y2: ky,
          "stroke-opacity": Math.min(1, 0.06 + weight).toFixed(3),
          "stroke-width": (0.8 + 4 * weight).toFixed(2),
        });
        const beside = radius(weight) + 4;
        set(rings[j], {
          r: beside.toFixed(2),
          visibility: found.limitKeys.includes(j) ? "visible" : "hidden",
        });
        const aside = beside * Math.SQRT1_2;
        set(names[j], { x: (kx + aside).toFixed(2), y: (ky - aside).toFixed(2) });
      });
      set(trail, { points: pointList(bandwidths.map((h) => at(outputAt(now, h)))) });
      const [mx, my] = at(found.mean);
      set(mean, { d: `M${mx - 5},${my - 5}l10,10m0,-10l-10,10` });
      set(output, { d: `M${ox.toFixed(2)},${(oy - 10).toFixed(2)}l10,10l-10,10l-10,-10z` });
      for (const circle of [knob, target]) set(circle, { cx: qx.toFixed(2), cy: qy.toFixed(2) });
      set(query, {
        "aria-valuenow": now.query[0],
        "aria-valuetext": `x ${show(now.query[0])}, y ${show(now.query[1])}`,
      });
    },
  };
}

/** The weights as numbers and bars. */
function weightList(state) {
  const rows = state.points.map((key, j) => {
    const fill = element("div", { class: "attn-fill attn-weight" });
    const value = element("span", { class: "attn-value" });
    const parts = [
      element("span", { class: "attn-label" }, `key ${j + 1}`),
      element("div", { class: "attn-track" }, fill),
      value,
    ];
    return { fill, value, node: element("div", { class: "attn-weight-row" }, ...parts) };
  });
  return {
    node: element("div", { class: "attn-weights" }, ...rows.map(({ node }) => node)),
    draw(weights) {
      rows.forEach(({ fill, value }, j) => {
        fill.style.width = `${100 * weights[j]}%`;
        setText(value, showWeight(weights[j]));
      });
    },
  };
}

/** What each mark of the plane is. */
const legendOf = (limitName) => legend(
  legendItem("query", "query"),
  legendItem("key", "keys = values, area by weight"),
  legendItem("output", "output"),
  legendItem("trail", "its way from h → 0 to h → ∞"),
  legendItem("limit", limitName),
  legendItem("mean", "mean"),
);

function build({ change: changeModel, textId, shortId, state }) {
  let current = state;
  const change = (patch) => {
    current = { ...current, ...patch }; // several moves may come before the next frame
    changeModel(patch);
  };

  const coordinate = (axis, name) => slider({
    name: `query_${name}`,
    label: `query ${name}`,
    steps: linearSteps(limits.position, 0.05),
    write: (value) => show(value),
    describedBy: shortId,
    onValue: (value) => {
      change({ query: current.query.map((old, i) => (i === axis ? value : old)) });
    },
  });
  const queryX = coordinate(0, "x");
  const queryY = coordinate(1, "y");
  const bandwidth = slider({
    name: "bandwidth",
    label: "bandwidth h",
    steps: logSteps(limits.bandwidth, 60),
    write: showRound,
    describedBy: shortId,
    onValue: (value) => change({ bandwidth: value }),
  });
  const kernelId = freshId("kernel");
  const select = element(
    "select",
    {
      id: kernelId,
      name: "kernel",
      class: "attn-select",
      "aria-describedby": shortId,
      change: () => change({ kernel: select.value }),
    },
    ...limits.kernels.map((value) => element("option", { value }, KERNELS[value].name)),
  );
  const kernel = element(
    "div",
    { class: "attn-choice" },
    element("label", { for: kernelId, class: "attn-label" }, "kernel"),
    select,
  );

  const limitName = element("span", {});
  const picture = plane({ state, change, textId, shortId, current: () => current });
  const weights = weightList(state);
  const formula = element("p", { class: "attn-formula" });
  const output = element("p", { class: "attn-formula" });

  return {
    nodes: [
      element(
        "div",
        { class: "attn-columns" },
        element("div", { class: "attn-stage" }, picture.node, legendOf(limitName)),
        element(
          "div",
          { class: "attn-side" },
          queryX.node, queryY.node, bandwidth.node, kernel, formula, weights.node, output,
        ),
      ),
    ],
    draw(now) {
      current = now;
      const found = facts(now);
      queryX.show(now.query[0]);
      queryY.show(now.query[1]);
      bandwidth.show(now.bandwidth);
      if (select.value !== now.kernel) select.value = now.kernel;
      picture.draw(now, found);
      weights.draw(found.weights);
      setText(limitName, `limit as h → 0: the ${KERNELS[now.kernel].limit}`);
      setText(formula, `weight ∝ ${KERNELS[now.kernel].formula}`);
      setText(output, `output = Σ weight · value = ${showPoint(found.output)}`);
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Soft lookup: a query among keys";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "soft-lookup", title, fields, build });
}
