// Softmax: scores, temperature and the width of the keys → weights, entropy, Jacobian.

import {
  axes, linear, logarithmic, pointList, pointerPosition, ratios, set, svg,
} from "./chart.mjs";
import {
  element, gauge, linearSteps, logSteps, powersOfTwo, setText, show, showRound, showSmall, showWeight,
  slider,
} from "./controls.mjs";
import { limits, rawScore, rootOf, softmaxInput } from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { softmax, softmaxFacts } from "./numerics.mjs";
import { fixed, flag, number, numbers, powerOfTwo } from "./state.mjs";

const isLabels = (list) => Array.isArray(list) && list.every((x) => typeof x === "string");

export const fields = [
  numbers("scores", "z", limits.score, limits.n_sources),
  number("temperature", "tau", limits.temperature),
  powerOfTwo("key_dim", "d", limits.key_dim),
  flag("scaled", "scaled"),
  fixed("labels", (list) => (isLabels(list) ? list : undefined)),
];

const divisorOf = (state) => (state.scaled ? rootOf(state.key_dim) : 1);

/** What goes into softmax, source by source, at the state's temperature or another one. */
export function softmaxInputs(state, temperature = state.temperature) {
  const divisor = divisorOf(state);
  return state.scores.map((z) => softmaxInput(z, state.key_dim, divisor, temperature));
}

/** The numbers of the picture. */
export function facts(state) {
  return softmaxFacts(softmaxInputs(state));
}

const nameOf = (state, j) => state.labels[j] ?? `source ${j + 1}`;

/** The picture in words. */
export function describe(state, found = facts(state)) {
  const list = found.weights.map((p, j) => `${nameOf(state, j)} ${showWeight(p)}`).join(", ");
  const divided = state.scaled ? "divided by √d" : "not divided by √d";
  return `Temperature ${showRound(state.temperature)}, width d = ${state.key_dim}, raw scores `
    + `${divided}. Weights: ${list}. Entropy ${show(found.entropy, 3)} of at most `
    + `${show(found.largestEntropy, 3)} nats, as of ${show(found.effectiveSources)} equal weights. `
    + `Largest Jacobian eigenvalue ${showSmall(found.eigenvalue)}, bounded by `
    + `${showSmall(found.eigenvalueBound)}.`;
}

function sayShort(state, found) {
  const { winner, weights, entropy } = found;
  return `${nameOf(state, winner)} has weight ${showWeight(weights[winner])}; `
    + `entropy ${show(entropy)} nats.`;
}

/** The slider moves in tenths; a score that Python set may be finer. */
const showScore = (z) => show(z, Math.abs(z - Number(z.toFixed(1))) < 1e-9 ? 1 : 2);

/** From dark to pale, the same for a source's bar and its band. */
const tint = (j, n) => 0.95 - (0.75 * j) / (n - 1);

/** One row a source: a slider for its score, a bar for its weight. */
function scoreRows({ state, change, shortId, current }) {
  const steps = linearSteps(limits.score, 0.1);
  const rows = state.scores.map((_, j) => {
    const name = nameOf(state, j);
    const control = slider({
      name: `score-${j + 1}`,
      label: [element("span", { class: "attn-hidden" }, "score z of "), name],
      steps,
      write: showScore,
      describedBy: shortId,
      onValue: (z) => change({ scores: current().scores.map((old, i) => (i === j ? z : old)) }),
    });
    const fill = element("div", { class: "attn-fill attn-weight" });
    fill.style.opacity = tint(j, state.scores.length);
    const value = element("span", { class: "attn-value" });
    const bar = element("div", { class: "attn-track" }, fill);
    const parts = [control.caption, control.input, control.output, bar, value];
    return { control, fill, value, node: element("div", { class: "attn-row" }, ...parts) };
  });
  const head = element(
    "div",
    { class: "attn-row attn-row-head", "aria-hidden": "true" },
    element("span", {}), element("span", {}, "score z"), element("span", {}),
    element("span", {}, "weight p"), element("span", {}),
  );
  return {
    node: element("div", { class: "attn-rows" }, head, ...rows.map(({ node }) => node)),
    draw(scores, weights) {
      rows.forEach(({ control, fill, value }, j) => {
        control.show(scores[j]);
        fill.style.width = `${100 * weights[j]}%`;
        setText(value, showWeight(weights[j]));
      });
    },
  };
}

const BANDS = { left: 30, right: 344, top: 14, bottom: 214, width: 356, height: 252 };

/** The weights as bands over the temperature: a cut at τ is the picture beside it. */
function bandChart({ state, change, textId }) {
  const { left, right, top, bottom, width, height } = BANDS;
  const x = logarithmic(limits.temperature, [left, right]);
  const y = linear([0, 1], [bottom, top]);
  const temperatures = ratios(limits.temperature, 64);
  const steps = logSteps(limits.temperature, 60);
  const n = state.scores.length;

  const bands = state.scores.map((_, j) => (
    svg("polygon", { class: "attn-band", "fill-opacity": tint(j, n) })
  ));
  const names = state.scores.map(() => svg("text", { class: "attn-band-name", x: right - 8 }));
  const cut = svg("line", { class: "attn-cut", y1: top - 4, y2: bottom });
  const knob = svg("circle", { class: "attn-knob", cy: top - 4, r: 5 });
  const grid = axes({
    x, y, left, right, top, bottom,
    xTicks: [[0.05, "0.05"], [0.2, "0.2"], [1, "1"], [5, "5"], [20, "20"]],
    yTicks: [[0, "0"], [0.5, "½"], [1, "1"]],
    xName: "all weights, stacked, over the temperature τ",
    yName: "",
  });
  const picture = svg("svg", {
    class: "attn-picture attn-bands",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "All weights, stacked, from the lowest temperature to the highest",
    "aria-describedby": textId,
  }, grid, ...bands, ...names, cut, knob);

  // A shortcut for the pointer; the temperature's slider does the same by keyboard.
  const toTemperature = (event) => {
    const [px] = pointerPosition(picture, event);
    const step = Math.round((steps.last * (px - left)) / (right - left));
    change({ temperature: steps.valueAt(Math.min(Math.max(step, 0), steps.last)) });
  };
  picture.addEventListener("pointerdown", (event) => {
    picture.setPointerCapture(event.pointerId);
    toTemperature(event);
  });
  picture.addEventListener("pointermove", (event) => {
    if (picture.hasPointerCapture(event.pointerId)) toTemperature(event);
  });

  return {
    node: picture,
    draw(now) {
      const columns = temperatures.map((tau) => softmax(softmaxInputs(now, tau)).weights);
      let upper = columns.map(() => 1); // source 1 on top, as in the rows
      bands.forEach((band, j) => {
        const lower = upper.map((edge, i) => Math.max(edge - columns[i][j], 0));
        const edgeOf = (edges) => edges.map((edge, i) => [x(temperatures[i]), y(edge)]);
        set(band, { points: pointList([...edgeOf(upper), ...edgeOf(lower).reverse()]) });
        const ends = [upper.at(-1), lower.at(-1)];
        const fits = y(ends[1]) - y(ends[0]) > 13;
        set(names[j], { y: (y(ends[0]) + y(ends[1])) / 2 + 4 });
        setText(names[j], fits ? now.labels[j] ?? String(j + 1) : "");
        upper = lower;
      });
      const at = x(now.temperature).toFixed(2);
      set(cut, { x1: at, x2: at });
      set(knob, { cx: at });
    },
  };
}

function build({ change: changeModel, textId, shortId, state }) {
  let current = state;
  const change = (patch) => {
    current = { ...current, ...patch }; // two sliders may move before the next frame
    changeModel(patch);
  };

  const temperature = slider({
    name: "temperature",
    label: "temperature τ",
    steps: logSteps(limits.temperature, 60),
    write: showRound,
    describedBy: shortId,
    onValue: (value) => change({ temperature: value }),
  });
  const keyDim = slider({
    name: "key_dim",
    label: "width d of a key",
    steps: powersOfTwo(limits.key_dim),
    write: String,
    describedBy: shortId,
    onValue: (value) => change({ key_dim: value }),
  });
  const scaled = element("input", {
    type: "checkbox",
    name: "scaled",
    "aria-describedby": shortId,
    change: () => change({ scaled: scaled.checked }),
  });
  const toggle = element("label", { class: "attn-toggle" }, scaled, " divide by √d");

  const rows = scoreRows({ state, change, shortId, current: () => current });
  const bands = bandChart({ state, change, textId });
  const formula = element("p", { class: "attn-formula" });
  const raw = element("p", { class: "attn-note" });
  const identity = element("p", { class: "attn-note" });
  const entropy = gauge("entropy H(p), nats");
  const sources = gauge("effective sources, exp H");
  const eigenvalue = gauge("Jacobian ‖J‖₂");

  return {
    nodes: [
      element("div", { class: "attn-controls" }, temperature.node, keyDim.node, toggle),
      element("div", { class: "attn-explain" }, formula, raw),
      rows.node,
      element(
        "div",
        { class: "attn-columns" },
        bands.node,
        element("div", { class: "attn-gauges" }, entropy.node, sources.node, eigenvalue.node),
      ),
      identity,
    ],
    draw(now) {
      current = now;
      const found = facts(now);
      const n = now.scores.length;
      const root = `√${now.key_dim}`;
      const gain = softmaxInput(1, now.key_dim, divisorOf(now), now.temperature);
      const largest = Math.max(...now.scores);

      temperature.show(now.temperature);
      keyDim.show(now.key_dim);
      scaled.checked = now.scaled;
      rows.draw(now.scores, found.weights);
      bands.draw(now);

      const tau = showRound(now.temperature);
      const divided = now.scaled ? `(${root} · ${tau})` : tau;
      setText(formula, `p = softmax(β z),  β = ${root} / ${divided} = ${showRound(gain)}`);
      setText(raw, "z has the spread of q·k / √d for standard random q and k: 1, at every d. "
        + `The raw scores are √d z, here at most ${root} · ${showScore(largest)} = `
        + `${show(rawScore(largest, now.key_dim), 1)}`
        + (now.scaled ? "; dividing undoes √d." : "."));
      setText(identity, `⟨p, s⟩ + H(p) = ${show(found.meanScore)} + ${show(found.entropy)} = `
        + `${show(found.logSumExp)} = ln Σ exp(s), where s is what goes into softmax.`);

      entropy.show(
        show(found.entropy, 3),
        found.entropy / found.largestEntropy,
        `at most ln ${n} = ${show(found.largestEntropy, 3)}`,
      );
      sources.show(
        show(found.effectiveSources),
        (found.effectiveSources - 1) / (n - 1),
        `from 1 (one takes all) to ${n} (all equal)`,
      );
      eigenvalue.show(
        showSmall(found.eigenvalue),
        2 * found.eigenvalue,
        `mark: the bound min(p₁, 2p₁(1 − p₁)) = ${showSmall(found.eigenvalueBound)} ≤ ½, `
        + "p₁ the largest weight",
        2 * found.eigenvalueBound,
      );
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Softmax: scores become weights";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "softmax", title, fields, build });
}
