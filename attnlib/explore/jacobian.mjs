// The Jacobian of softmax where some sources share the lead: its spectrum, and its norm over the gap.

import { axes, linear, set, svg } from "./chart.mjs";
import {
  element, legend, legendItem, linearSteps, setText, showRound, showSmall, slider, untie,
  wholeSteps,
} from "./controls.mjs";
import { curveChart } from "./curve-chart.mjs";
import {
  acrossEigenvalue, gapBound, jacobianBound, leaderWeight, limits, shiftedExponential,
} from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { number, whole } from "./state.mjs";

export const fields = [
  whole("n_sources", "n", limits.jacobian_sources),
  whole("n_leaders", "l", [1, limits.jacobian_sources[1]]),
  number("gap", "g", limits.gap),
];

/** A hand-written link may ask for more leaders than sources: then all of them lead. */
const leadersOf = ({ n_leaders: leaders, n_sources: n }) => Math.min(leaders, n);

/** The eigenvalues with their multiplicities, from the largest; equal ones are one. */
function spectrumOf({ n, leaders, gap, a, b }) {
  if (leaders === n || gap === 0) return [[a, n - 1], [0, 1]];
  const all = [[a, leaders - 1], [acrossEigenvalue(n, a, b), 1], [b, n - leaders - 1], [0, 1]];
  return all.filter(([, count]) => count > 0);
}

/** The numbers of the picture, in closed form; what does not exist is null. */
export function facts(state) {
  const { n_sources: n, gap } = state;
  const leaders = leadersOf(state);
  const a = leaderWeight(n, leaders, gap);
  const b = leaders < n ? a * shiftedExponential(0, gap) : null;
  const spectrum = spectrumOf({ n, leaders, gap, a, b });
  const rest = (leaders - 1) * a + (n - leaders) * b; // 1 − a would cancel
  return {
    leader: a,
    other: b,
    spectrum,
    norm: spectrum[0][0],
    bound: jacobianBound(a, rest),
    gapBound: leaders === 1 ? gapBound(n, gap) : null,
    trace: leaders * a * rest + (n - leaders) * b * (1 - b),
    leaderEntry: a * rest,
  };
}

const say = (x) => (x === 0 ? "0" : showSmall(untie(x)));

const times = (count) => ({ 1: "once", 2: "twice" })[count] ?? `${count} times`;

function settingOf({ n, leaders, gap }, { leader, other }) {
  if (leaders === n) return `${n} sources of equal score, each of weight a = ${say(leader)}.`;
  const others = n - leaders === 1 ? "the other" : `the ${n - leaders} others`;
  const lead = leaders === 1 ? "1 leads" : `${leaders} share the lead`;
  return `${n} sources, of which ${lead} by the gap g = ${showRound(untie(gap))}: weight a = `
    + `${say(leader)}${leaders === 1 ? "" : " each"}, and b = ${say(other)} for ${others}.`;
}

function limitOf(n, leaders) {
  if (leaders === 1) return "As g → ∞, all of J vanishes.";
  if (leaders === n) return "All sources lead: the gap changes nothing.";
  return `As g → ∞, ‖J‖₂ goes to 1/${leaders}: between leaders, a gradient passes.`;
}

/** The picture in words. */
export function describe(state, found = facts(state)) {
  const { n_sources: n, gap } = state;
  const leaders = leadersOf(state);
  const spectrum = found.spectrum
    .map(([value, count]) => `${say(value)} ${times(count)}`).join(", ");
  const bound = `min(a, 2a(1 − a)) = ${say(found.bound)}`
    + (leaders === 1 ? ` and 2(n − 1)e^(−g) = ${say(found.gapBound)}` : "");
  return `${settingOf({ n, leaders, gap }, found)} Eigenvalues of J = diag(p) − ppᵀ: ${spectrum}. `
    + `‖J‖₂ = ${say(found.norm)}, at most ${bound}. The leader's own entry a(1 − a) is `
    + `${say(found.leaderEntry)}, the trace 1 − ‖p‖² is ${say(found.trace)}. `
    + limitOf(n, leaders);
}

function sayShort(state, { norm }) {
  return `${state.n_sources} sources, leaders ${leadersOf(state)}, gap `
    + `${showRound(untie(state.gap))}: ‖J‖₂ ${say(norm)}.`;
}

const VIEW = { left: 30, right: 350, top: 26, bottom: 214, width: 360, height: 252 };

/** All n eigenvalues as bars, from the largest; the axis ends at ½, which none exceeds. */
function spectrumChart({ textId }) {
  const { left, right, top, bottom, width, height } = VIEW;
  const y = linear([0, 0.5], [bottom, top]);
  const frame = axes({
    x: linear([0, 1], [left, right]), y, left, right, top, bottom,
    xTicks: [], yTicks: [[0, "0"], [0.25, "¼"], [0.5, "½"]],
    xName: "the n eigenvalues of J, from the largest", yName: "eigenvalue",
  });
  const columns = ["norm", "rest"].map((name) => svg("path", { class: `attn-spectrum-${name}` }));
  const zero = svg("circle", { class: "attn-spectrum-zero", cy: bottom, r: 3.5 });
  const numbers = [1, 2].map(() => (
    svg("text", { class: "attn-tick", y: bottom + 16, "text-anchor": "middle" })
  ));
  const picture = svg("svg", {
    class: "attn-picture",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "The eigenvalues of the Jacobian as bars, from the largest to the smallest",
    "aria-describedby": textId,
  }, frame, ...columns, zero, svg("g", { "aria-hidden": "true" }, ...numbers));

  return {
    node: picture,
    draw({ spectrum, norm }) {
      const values = spectrum.flatMap(([value, count]) => new Array(count).fill(value));
      const x = linear([0, values.length], [left, right]);
      const bar = (value, i) => {
        const [from, to] = [x(i + 0.1).toFixed(2), x(i + 0.9).toFixed(2)];
        return `M${from},${bottom}V${y(value).toFixed(2)}H${to}V${bottom}Z`;
      };
      const drawn = values.map(bar);
      const isNorm = (_, i) => values[i] === norm;
      set(columns[0], { d: drawn.filter(isNorm).join("") });
      set(columns[1], { d: drawn.filter((_, i) => !isNorm(_, i)).join("") });
      const last = values.length - 1;
      set(zero, { cx: x(last + 0.5).toFixed(2) });
      [0, last].forEach((i, place) => {
        set(numbers[place], { x: x(i + 0.5).toFixed(2) });
        setText(numbers[place], String(i + 1));
      });
    },
  };
}

/** What the bars are: each value, why it is there, how often. */
function spectrumTable() {
  const rows = [0, 1, 2, 3].map(() => {
    const parts = ["attn-value", "", "attn-note"].map((name) => element("span", { class: name }));
    return { parts, node: element("div", { class: "attn-spectrum-row" }, ...parts) };
  });
  return {
    node: element("div", { class: "attn-spectrum-table" }, ...rows.map(({ node }) => node)),
    draw(state, { spectrum }) {
      const vectors = vectorsOf(leadersOf(state), state.n_sources, state.gap);
      rows.forEach(({ parts, node }, i) => {
        node.hidden = i >= spectrum.length;
        if (node.hidden) return;
        setText(parts[0], say(spectrum[i][0]));
        setText(parts[1], times(spectrum[i][1]));
        setText(parts[2], vectors[i]);
      });
    },
  };
}

/** Which vectors have the eigenvalues, from the largest. */
function vectorsOf(leaders, n, gap) {
  const all = [
    [leaders - 1, "a: sum 0 on leaders"],
    [1, "nab: leaders − others"],
    [n - leaders - 1, "b: sum 0 on others"],
    [1, "all ones: common shift"],
  ];
  if (leaders === n || gap === 0) return ["1/n: sum 0", all[3][1]];
  return all.filter(([count]) => count > 0).map(([, words]) => words);
}

const [, WIDEST] = limits.gap;
const STEPS = linearSteps(limits.gap, 0.1);
const LOWEST = -9; // power of ten at the foot of the chart: e⁻²⁰ is 2·10⁻⁹
const GAP_TICKS = [0, 5, 10, 15, WIDEST].map((gap) => [STEPS.stepOf(gap), String(gap)]);
const POWER_TICKS = [[0, "1"], [-3, "10⁻³"], [-6, "10⁻⁶"], [-9, "10⁻⁹"]];
const CURVES = { // from the lowest to what lies on top
  norm: "norm", gapBound: "gap-bound", bound: "bound", leaderEntry: "leader-entry",
};
const CHART = { left: 40, right: 292, top: 24, bottom: 194, width: 300, height: 232, knob: 4.5 };

const power = (x) => Math.log10(x);

function build({ change: changeModel, textId, shortId, state }) {
  let current = state;
  const change = (patch) => {
    current = { ...current, ...patch }; // two sliders may move before the next frame
    changeModel(patch);
  };
  const control = (name, label, steps, write, onValue = (value) => change({ [name]: value })) => (
    slider({ name, label, steps, write, describedBy: shortId, onValue })
  );
  const sources = control(
    "n_sources", "sources n", wholeSteps(limits.jacobian_sources), String,
    // Fewer sources may be fewer than the leaders.
    (value) => change({ n_sources: value, n_leaders: Math.min(current.n_leaders, value) }),
  );
  const leaders = control(
    "n_leaders", "leaders ℓ", wholeSteps([1, limits.jacobian_sources[1]]), String,
  );
  const gap = control(
    "gap", "gap g of the scores", STEPS, (value) => showRound(untie(value)),
  );

  const spectrum = spectrumChart({ textId });
  const table = spectrumTable();
  const formula = element("p", { class: "attn-formula" });
  const weights = element("p", { class: "attn-note" }, "Weights: leaders a, others a e⁻ᵍ");
  const [norm, entry, trace] = [1, 2, 3].map(() => element("p", { class: "attn-note" }));
  const chart = curveChart({
    over: [0, STEPS.last],
    range: [LOWEST, 0],
    xTicks: GAP_TICKS,
    yTicks: POWER_TICKS,
    xName: "gap g",
    yName: "‖J‖₂ and its bounds",
    label: "The norm of the Jacobian and its bounds over the gap, on a logarithmic axis",
    textId,
    curves: Object.values(CURVES).map((name) => `attn-curve-${name}`),
    onValue: (value) => change({ gap: STEPS.valueAt(value) }),
    view: CHART,
  });
  const gapItem = legendItem("line-dotted", "2(n − 1)e⁻ᵍ");
  const lines = legend(
    legendItem("line-norm", "‖J‖₂; drag to choose g"),
    legendItem("line-dashed", "min(a, 2a(1 − a))"),
    gapItem,
    legendItem("line-entry", "a(1 − a), the leader's own entry"),
  );
  const limit = element("p", { class: "attn-note" });
  let drawnCurves = "";

  return {
    nodes: [
      element(
        "div",
        { class: "attn-controls attn-controls-thirds" },
        sources.node, leaders.node, gap.node,
      ),
      element(
        "div",
        { class: "attn-columns" },
        element(
          "div",
          { class: "attn-stage" },
          spectrum.node,
          legend(legendItem("norm", "‖J‖₂, the largest"), legendItem("own", "0")),
          table.node,
        ),
        element(
          "div",
          { class: "attn-side" },
          element("div", { class: "attn-explain" }, formula, weights, norm, entry, trace),
          chart.node, lines, limit,
        ),
      ),
    ],
    draw(now) {
      const leaderCount = leadersOf(now);
      current = { ...now, n_leaders: leaderCount };
      const n = now.n_sources;
      const found = facts(now);

      sources.show(n);
      leaders.input.max = String(n - 1); // the slider counts from 0: its last step is ℓ = n
      leaders.show(leaderCount);
      gap.show(now.gap);
      spectrum.draw(found);
      table.draw(now, found);
      const curves = `${n} ${leaderCount}`;
      if (curves !== drawnCurves) { // the gap moves only the mark
        drawnCurves = curves;
        const all = Array.from({ length: STEPS.last + 1 }, (_, i) => (
          facts({ ...current, gap: STEPS.valueAt(i) })
        ));
        Object.keys(CURVES).forEach((name, i) => {
          const points = all.flatMap((at, step) => (
            at[name] !== null && at[name] <= 1 ? [[step, power(at[name])]] : []
          ));
          chart.drawCurve(i, points);
        });
        gapItem.hidden = leaderCount !== 1;
      }
      chart.mark(now.gap / 0.1, power(found.norm));

      setText(formula, leaderCount < n
        ? `a = ${say(found.leader)}, b = ${say(found.other)}`
        : `a = 1/n = ${say(found.leader)}`);
      setText(norm, `‖J‖₂ = ${say(found.norm)}`);
      setText(entry, `leader's own entry a(1 − a) = ${say(found.leaderEntry)}`);
      setText(trace, `trace 1 − ‖p‖² = ${say(found.trace)}`);
      setText(limit, limitOf(n, leaderCount));
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Softmax Jacobian: what a leader lets pass";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "jacobian", title, fields, build });
}
