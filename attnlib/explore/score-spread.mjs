// Score spread: width, exponent of the divisor and distribution → the scores' histogram, and what
// softmax makes of them: entropy, and how much gradient passes.

import { axes, linear, pointList, set, svg } from "./chart.mjs";
import {
  element, freshId, gauge, legend, legendItem, linearSteps, powersOfTwo, setText, show, showCount,
  showRound, showWhole, slider, untie,
} from "./controls.mjs";
import { curveChart, evenly } from "./curve-chart.mjs";
import {
  entropyTerm, largestEntropy, limits, normalDensity, scoreDivisor, scoreKurtosis, scoreSpread,
  spreadError,
} from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { largestJacobianEigenvalue, softmax, sum } from "./numerics.mjs";
import {
  bars, counts, FOURTH_MOMENTS, N_KEYS, N_QUERIES, N_SCORES, rawScores, REACH,
} from "./score-sample.mjs";
import { choice, number, powerOfTwo } from "./state.mjs";

export const fields = [
  powerOfTwo("key_dim", "d", limits.key_dim),
  number("exponent", "a", limits.score_exponent),
  choice("distribution", "of", limits.distributions),
];

const NAMES = {
  gaussian: "Gaussian",
  rademacher: "±1 with equal chances (Rademacher)",
  uniform: "uniform",
  "heavy-tailed": "heavy-tailed (Student t with 5 degrees of freedom)",
};

/** Means over the rows of the sample: entropy of softmax, and ‖J‖₂ of its Jacobian J. */
function passed(raw, divisor) {
  const found = { entropy: 0, norm: 0 };
  for (let row = 0; row < N_QUERIES; row += 1) {
    const scores = [];
    for (let i = row * N_KEYS; i < (row + 1) * N_KEYS; i += 1) scores.push(raw[i] / divisor);
    const { weights } = softmax(scores);
    found.entropy += sum(weights.map(entropyTerm)) / N_QUERIES;
    found.norm += largestJacobianEigenvalue(weights) / N_QUERIES;
  }
  return found;
}

const kept = new Map();

/** What passes at every width; found when first asked for, then kept. */
export function meansByWidth(distribution, exponent) {
  const key = `${distribution} ${exponent}`;
  if (!kept.has(key)) {
    const means = Array.from(rawScores(distribution), ([d, raw]) => (
      [d, passed(raw, scoreDivisor(d, exponent))]
    ));
    kept.set(key, new Map(means));
  }
  return kept.get(key);
}

/** The numbers of the picture; the bars' edges and widths are in scores. */
export function facts({ key_dim: d, exponent, distribution }) {
  const raw = rawScores(distribution).get(d);
  const divisor = scoreDivisor(d, exponent);
  const spread = scoreSpread(d, exponent);
  const farthest = REACH * Math.sqrt(d);
  const [first, width] = bars(distribution, d);
  let [squares, fourths, beyond] = [0, 0, 0];
  for (const score of raw) {
    squares += score ** 2 / N_SCORES;
    fourths += score ** 4 / N_SCORES;
    if (Math.abs(score) > farthest) beyond += 1;
  }
  return {
    spread,
    measuredSpread: Math.sqrt(squares) / divisor,
    spreadError: spread * spreadError(d, FOURTH_MOMENTS[distribution], N_QUERIES, N_KEYS),
    kurtosis: scoreKurtosis(d, FOURTH_MOMENTS[distribution]),
    measuredKurtosis: fourths / squares ** 2 - 3,
    beyond,
    firstEdge: first / divisor,
    barWidth: width / divisor,
    counts: counts(distribution, d),
    ...meansByWidth(distribution, exponent).get(d),
    largestEntropy: largestEntropy(N_KEYS),
  };
}

const sayBeyond = (count) => (
  ["no score lies", "1 score lies"][count] ?? `${count} scores lie`
);

/** A measured number and its standard error, both with two digits of the error. */
function showError(x, error, between) {
  const decimals = error > 0 ? Math.min(Math.max(1 - Math.floor(Math.log10(error)), 0), 6) : 0;
  return `${show(x, decimals)}${between}${show(error, decimals)}`;
}

/** The picture in words. */
export function describe(state, found = facts(state)) {
  const exponent = showRound(state.exponent);
  return `Width d = ${state.key_dim}, coordinates ${NAMES[state.distribution]} with mean 0 and `
    + `variance 1, scores ⟨q, k⟩ / d^${exponent}. Their standard deviation is d^(1/2 − ${exponent}`
    + `) = ${showRound(untie(found.spread))} and their excess kurtosis `
    + `${showRound(untie(found.kurtosis))}. In a fixed sample of ${showWhole(N_SCORES)} scores, of `
    + `${N_QUERIES} queries and ${N_KEYS} keys, the standard deviation is `
    + `${showError(found.measuredSpread, found.spreadError, " with a standard error of ")}, the `
    + `excess kurtosis ${show(found.measuredKurtosis)}, and ${sayBeyond(found.beyond)} beyond `
    + `${REACH} standard deviations. Softmax over the ${N_KEYS} keys of a query, means over the `
    + `queries: entropy ${show(found.entropy, 3)} of at most ${show(found.largestEntropy, 3)} nats, `
    + `largest Jacobian eigenvalue ${show(found.norm, 3)} of at most 0.5.`;
}

function sayShort(state, { spread, entropy, norm }) {
  return `Width ${state.key_dim}, exponent ${showRound(state.exponent)}: standard deviation `
    + `${showRound(untie(spread))}; entropy ${show(entropy)} nats, Jacobian ${show(norm)}.`;
}

const VIEW = { left: 46, right: 350, top: 26, bottom: 214, width: 360, height: 252 };
const LOWEST_TOP = 0.5; // of the density axis, times the standard deviation: room for the normal
const PARTS = [-1, -0.5, 0, 0.5, 1];

/**
 * The scores as bars, their normal density as a line, and the scores from −1 to 1 as a band: within
 * it, weights differ by a factor of e² at most. The axis reaches 4 standard deviations, and ±4 at
 * least: scores that spread far make the band thin, and scores all but equal stand inside it.
 */
function histogram({ textId }) {
  const { left, right, top, bottom, width, height } = VIEW;
  const band = svg("rect", { class: "attn-unit-band", y: top, height: bottom - top });
  const columns = svg("path", { class: "attn-histogram" });
  const normal = svg("polyline", { class: "attn-curve attn-curve-normal" });
  const place = linear([-1, 1], [left, right]);
  const frame = axes({
    x: place, y: linear([0, 1], [bottom, top]), left, right, top, bottom,
    xTicks: PARTS.map((part) => [part, ""]), yTicks: [[0, "0"]],
    xName: "score", yName: "density",
  });
  const numbers = PARTS.map((part) => (
    svg("text", { class: "attn-tick", x: place(part), y: bottom + 16, "text-anchor": "middle" })
  ));
  const peakLine = svg("line", { class: "attn-grid", x1: left, x2: right });
  const peakNumber = svg("text", { class: "attn-tick", x: left - 6, "text-anchor": "end" });
  const labels = svg("g", { "aria-hidden": "true" }, peakLine, peakNumber, ...numbers);
  const picture = svg("svg", {
    class: "attn-picture",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "Histogram of the scores with the normal density of the same variance",
    "aria-describedby": textId,
  }, band, frame, labels, columns, normal);

  return {
    node: picture,
    draw({ spread, counts: heights, firstEdge, barWidth }) {
      const half = REACH * Math.max(1, spread);
      const densities = heights.map((count) => count / (N_SCORES * barWidth));
      const highest = Math.max(LOWEST_TOP / spread, 1.05 * Math.max(...densities));
      const x = linear([-half, half], [left, right]);
      const y = linear([0, highest], [bottom, top]);
      const outline = densities.map((density, i) => {
        const [from, to] = [x(firstEdge + i * barWidth), x(firstEdge + (i + 1) * barWidth)];
        return `M${from.toFixed(2)},${bottom}V${y(density).toFixed(2)}H${to.toFixed(2)}V${bottom}Z`;
      });
      set(columns, { d: outline.join("") });
      const line = evenly([-REACH * spread, REACH * spread], 97).map((score) => (
        [x(score), y(normalDensity(score, spread))]
      ));
      set(normal, { points: pointList(line) });
      set(band, { x: x(-1).toFixed(2), width: (x(1) - x(-1)).toFixed(2) });
      PARTS.forEach((part, i) => setText(numbers[i], showRound(untie(part * half))));
      const peak = normalDensity(0, spread);
      const level = y(peak).toFixed(2);
      set(peakLine, { y1: level, y2: level });
      set(peakNumber, { y: y(peak) + 4 });
      setText(peakNumber, showRound(peak));
    },
  };
}

const WIDTHS = powersOfTwo(limits.key_dim);
const WIDTH_TICKS = [0, 2, 4, 6, 8, 10].map((i) => [i, String(WIDTHS.valueAt(i))]);

/** The exponents that have a name: it stands below the slider, and is said with the value. */
const NAMED = { 0: "0 none", 0.5: "½ Transformer", 1: "1 μP" };

function build({ change, textId, shortId }) {
  const keyDim = slider({
    name: "key_dim",
    label: "width d",
    steps: WIDTHS,
    write: String,
    describedBy: shortId,
    onValue: (value) => change({ key_dim: value }),
  });
  const exponent = slider({
    name: "exponent",
    label: "exponent a, divisor dᵃ",
    steps: linearSteps(limits.score_exponent, 0.05),
    write: showRound,
    say: (value) => NAMED[value] ?? showRound(value),
    describedBy: shortId,
    onValue: (value) => change({ exponent: value }),
  });
  exponent.node.append(element(
    "div",
    { class: "attn-slider-marks", "aria-hidden": "true" },
    ...[0, 0.5, 1].map((value) => element("span", {}, NAMED[value])),
  ));
  const selectId = freshId("distribution");
  const select = element(
    "select",
    {
      id: selectId,
      name: "distribution",
      class: "attn-select",
      "aria-describedby": shortId,
      change: () => change({ distribution: select.value }),
    },
    ...limits.distributions.map((value) => element("option", { value }, NAMES[value])),
  );
  const distribution = element(
    "div",
    { class: "attn-choice" },
    element("label", { for: selectId, class: "attn-label" }, "coordinates of q and k"),
    select,
  );

  const picture = histogram({ textId });
  const [power, spread] = [element("sup"), element("span")];
  const formula = element("p", { class: "attn-formula" }, "σ = d", power, spread);
  const measured = element("p", {});
  const kurtosis = element("p", { class: "attn-note" });
  const beyond = element("p", { class: "attn-note" });
  const sample = element("p", { class: "attn-note" }, `The sample is fixed: ${N_QUERIES} queries `
    + `and ${N_KEYS} keys, the same at every visit. ± is one standard error.`);
  const entropy = gauge(`entropy over ${N_KEYS} keys, nats`);
  const norm = gauge("gradient that passes, ‖J‖₂");
  const chart = curveChart({
    over: [0, WIDTHS.last],
    range: [0, 1],
    xTicks: WIDTH_TICKS,
    yTicks: [[0, "0"], [0.5, "½"], [1, "1"]],
    xName: "width d",
    yName: "share of the most, at this a",
    label: "Entropy and gradient that passes, as shares of the most they can be, over the width",
    textId,
    curves: ["attn-curve-entropy", "attn-curve-norm"],
    onValue: (value) => change({ key_dim: WIDTHS.valueAt(value) }),
  });
  const key = legend(
    legendItem("line-dashed", `entropy / ln ${N_KEYS}`),
    legendItem("line-norm", "2 ‖J‖₂; drag to choose d"),
  );
  let drawnCurves = "";

  return {
    nodes: [
      element("div", { class: "attn-controls attn-controls-even" }, keyDim.node, exponent.node),
      distribution,
      element(
        "div",
        { class: "attn-columns" },
        element(
          "div",
          { class: "attn-stage" },
          picture.node,
          legend(
            legendItem("bar", `${showWhole(N_SCORES)} scores`),
            legendItem("line", "normal, of the same variance"),
            legendItem("band", "scores from −1 to 1"),
          ),
          element("div", { class: "attn-explain" }, formula, measured, kurtosis, beyond, sample),
        ),
        element(
          "div",
          { class: "attn-side" },
          element("div", { class: "attn-gauges" }, entropy.node, norm.node),
          chart.node, key,
        ),
      ),
    ],
    draw(now) {
      const found = facts(now);
      keyDim.show(now.key_dim);
      exponent.show(now.exponent);
      if (select.value !== now.distribution) select.value = now.distribution;
      picture.draw(found);

      setText(power, `½ − ${showRound(now.exponent)}`);
      setText(spread, ` = ${showRound(untie(found.spread))}`);
      setText(measured, `measured ${showError(found.measuredSpread, found.spreadError, " ± ")}`);
      setText(kurtosis, `Excess kurtosis ${showRound(untie(found.kurtosis))}, measured `
        + show(found.measuredKurtosis));
      setText(beyond, `Beyond ${REACH} σ: ${showCount(found.beyond, "score")}`);
      entropy.show(
        show(found.entropy, 3),
        found.entropy / found.largestEntropy,
        `mean of ${N_QUERIES} rows; at most ln ${N_KEYS} = ${show(found.largestEntropy, 3)}`,
      );
      norm.show(
        show(found.norm, 3),
        2 * found.norm,
        `mean of ${N_QUERIES} rows, J = diag(p) − ppᵀ; at most ½`,
      );
      const curves = `${now.exponent} ${now.distribution}`;
      if (curves !== drawnCurves) { // the width moves only the mark
        drawnCurves = curves;
        const means = [...meansByWidth(now.distribution, now.exponent).values()];
        chart.drawCurve(0, means.map((mean, i) => [i, mean.entropy / found.largestEntropy]));
        chart.drawCurve(1, means.map((mean, i) => [i, 2 * mean.norm]));
      }
      chart.mark(WIDTHS.stepOf(now.key_dim), 2 * found.norm);
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Score spread: what the divisor does to softmax";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "score-spread", title, fields, build });
}
