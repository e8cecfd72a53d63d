// Rotary positions: a query and a key turn with their positions, and their score depends on the
// distance alone.

import { pointList, set, svg } from "./chart.mjs";
import {
  element, legend, legendItem, setText, show, showFrequency, showWavelength, slider, wholeSteps,
} from "./controls.mjs";
import { curveChart, evenly } from "./curve-chart.mjs";
import {
  dotProductLogKernel, frequency, limits, scoreAtDistance, turnedX, turnedY, wavelength,
} from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { sum } from "./numerics.mjs";
import { flag, whole } from "./state.mjs";

const BASE = 10000;
const N_PAIRS = limits.turn_pair[1] + 1;
const WIDTH = 2 * N_PAIRS;
const FARTHEST = limits.turn_position[1];
const RISE = 1e-9; // less is rounding

export const fields = [
  whole("query_position", "m", limits.turn_position),
  whole("key_position", "n", limits.turn_position),
  whole("pair", "pair", limits.turn_pair),
  whole("angle", "angle", limits.turn_angle),
  flag("all_pairs", "all"),
];

const radians = (degrees) => (degrees * Math.PI) / 180;
const degrees = (angle) => (angle * 180) / Math.PI;

const FREQUENCIES = Array.from({ length: N_PAIRS }, (_, l) => frequency(l, WIDTH, BASE));

/** The score of q = k = (1, …, 1) over all pairs, divided by its largest value. */
export function meanScore(distance) {
  return sum(FREQUENCIES.map((theta) => scoreAtDistance(0, distance, theta))) / N_PAIRS;
}

const MEANS = Array.from({ length: FARTHEST + 1 }, (_, distance) => meanScore(distance));
const RISES = MEANS.filter((mean, i) => i > 0 && mean - MEANS[i - 1] > RISE).length;

/** An angle in degrees as the turn from −180 to 180 that leads to the same place. */
const withinHalfATurn = (angle) => angle - 360 * Math.ceil((angle - 180) / 360);

const turned = ([x, y], position, theta) => [
  turnedX(x, y, position, theta), turnedY(x, y, position, theta),
];

/** The numbers of the picture; the score is the inner product of the turned vectors. */
export function facts(state) {
  const { query_position: m, key_position: n, pair, angle } = state;
  const theta = FREQUENCIES[pair];
  const query = turned([1, 0], m, theta);
  const key = turned([Math.cos(radians(angle)), Math.sin(radians(angle))], n, theta);
  return {
    frequency: theta,
    wavelength: wavelength(theta),
    distance: n - m,
    query,
    key,
    angleAfter: withinHalfATurn(angle + degrees((n - m) * theta)),
    score: dotProductLogKernel(...query, ...key, 1),
    meanScore: meanScore(n - m),
    rises: RISES,
  };
}

/** The picture in words. */
export function describe(state, found = facts(state)) {
  const distance = show(found.distance, 0);
  const words = `Query at position m = ${state.query_position}, key at position `
    + `n = ${state.key_position}, distance n − m = ${distance}. Pair ${state.pair} of width `
    + `d = ${WIDTH} turns by θ = ${showFrequency(found.frequency)} at each position, once in `
    + `${showWavelength(found.wavelength)} positions. The angle from query to key is `
    + `${show(state.angle, 0)}° before the rotation and ${show(found.angleAfter, 1)}° after `
    + `it. The score is its cosine, ${show(found.score, 3)}, at all positions with this `
    + "distance.";
  if (!state.all_pairs) return words;
  return `${words} With q = k = (1, …, 1), the mean over all ${N_PAIRS} pairs is `
    + `${show(found.meanScore, 3)} at this distance. It falls from 1 to `
    + `${show(MEANS[FARTHEST], 3)} at distance ${FARTHEST}, but not steadily: at `
    + `${found.rises} of these ${FARTHEST} steps it rises.`;
}

function sayShort(state, { distance, score }) {
  return `m ${state.query_position}, n ${state.key_position}, distance ${show(distance, 0)}: `
    + `score ${show(score)}.`;
}

const SIZE = 340;
const CENTRE = SIZE / 2;
const RADIUS = 132;
const PITCH = 3.2; // how far a spiral grows in one turn: at most ten turns are shown

const at = (angle, radius) => [
  CENTRE + radius * Math.cos(angle), CENTRE - radius * Math.sin(angle),
];

/** The way of a vector from one angle to another, a turn outside the last one. */
function spiral(from, turn, radius) {
  const count = Math.max(2, Math.ceil(Math.abs(turn) * 12));
  return evenly([0, turn], count).map((way) => (
    at(from + way, radius + (PITCH * Math.abs(way)) / (2 * Math.PI))
  ));
}

/** An arrow from the centre, with its name beyond the tip. */
function arrow(name, role) {
  const line = svg("line", { class: "attn-arrow", x1: CENTRE, y1: CENTRE });
  const head = svg("path", { class: "attn-arrow-head", d: "M0,0L-12,5.5L-12,-5.5Z" });
  const label = svg("text", { class: "attn-arrow-name" });
  label.textContent = name;
  return {
    node: svg("g", { class: `attn-arrow-${role}` }, line, head, label),
    draw(angle, aside) {
      const [x, y] = at(angle, RADIUS).map((value) => value.toFixed(2));
      const [x2, y2] = at(angle, RADIUS - 8).map((value) => value.toFixed(2));
      set(line, { x2, y2 });
      set(head, { transform: `translate(${x} ${y}) rotate(${(-degrees(angle)).toFixed(2)})` });
      const [lx, ly] = at(angle + aside, RADIUS + 19);
      set(label, { x: lx.toFixed(2), y: (ly + 4).toFixed(2) });
    },
  };
}

/** The plane of one pair: both vectors before and after, their ways, and the angle between. */
function plane({ textId }) {
  const grid = svg("g", { "aria-hidden": "true" },
    svg("line", { class: "attn-grid", x1: 20, x2: SIZE - 20, y1: CENTRE, y2: CENTRE }),
    svg("line", { class: "attn-grid", x1: CENTRE, x2: CENTRE, y1: 20, y2: SIZE - 20 }),
    svg("circle", { class: "attn-circle", cx: CENTRE, cy: CENTRE, r: RADIUS }));
  const wedge = svg("path", { class: "attn-wedge" });
  const ghosts = ["query", "key"].map((role) => (
    svg("line", { class: `attn-ghost attn-arrow-${role}`, x1: CENTRE, y1: CENTRE })
  ));
  const ways = ["query", "key"].map((role) => (
    svg("polyline", { class: `attn-way attn-arrow-${role}` })
  ));
  const query = arrow("Rₘq", "query");
  const key = arrow("Rₙk", "key");
  const picture = svg("svg", {
    class: "attn-picture",
    viewBox: `0 0 ${SIZE} ${SIZE}`,
    role: "img",
    "aria-label": "Query and key in the plane, before and after the rotation",
    "aria-describedby": textId,
  }, grid, wedge, ...ghosts, ...ways, key.node, query.node);

  return {
    node: picture,
    draw({ query_position: m, key_position: n, angle }, { frequency: theta, angleAfter }) {
      const starts = [0, radians(angle)];
      const turns = [m * theta, n * theta];
      const radii = [0.34 * RADIUS, 0.62 * RADIUS];
      ghosts.forEach((ghost, i) => {
        const [x2, y2] = at(starts[i], RADIUS).map((value) => value.toFixed(2));
        set(ghost, { x2, y2 });
        set(ways[i], { points: pointList(spiral(starts[i], turns[i], radii[i])) });
      });
      const end = turns[0] + radians(angleAfter);
      const corners = evenly([turns[0], end], 48).map((way) => at(way, 0.26 * RADIUS));
      set(wedge, { d: `M${CENTRE},${CENTRE}L${pointList(corners)}Z` });
      // Where the arrows all but agree, their names stand on either side.
      const apart = Math.max(0, 0.3 - Math.abs(end - turns[0])) / (end < turns[0] ? -2 : 2);
      query.draw(turns[0], -apart);
      key.draw(end, apart);
    },
  };
}

/** What each mark of the plane is. */
const marks = () => legend(
  legendItem("query", "query q"),
  legendItem("key", "key k"),
  legendItem("ghost", "before the rotation"),
  legendItem("wedge", "the angle that the score sees"),
);

const DISTANCES = [-FARTHEST, FARTHEST];
const FINE = evenly(DISTANCES, 8 * FARTHEST + 1);
const WHOLE = evenly(DISTANCES, 2 * FARTHEST + 1);

/** The smallest curve above the means that never rises, seen from beyond the chart's end. */
const FAR_MEANS = Array.from({ length: 4 * FARTHEST + 1 }, (_, distance) => meanScore(distance));
const ENVELOPE = MEANS.map((_, distance) => Math.max(...FAR_MEANS.slice(distance)));

/** The positions with this distance that are nearest to the present ones. */
export function positionsAt(distance, { query_position: m }) {
  const [low, high] = [Math.max(0, -distance), Math.min(FARTHEST, FARTHEST - distance)];
  const query = Math.min(Math.max(m, low), high);
  return { query_position: query, key_position: query + distance };
}

function build({ change: changeModel, textId, shortId, state }) {
  let current = state;
  const change = (patch) => {
    current = { ...current, ...patch }; // two sliders may move before the next frame
    changeModel(patch);
  };
  const control = (name, label, range, write, onValue = (value) => change({ [name]: value })) => (
    slider({ name, label, steps: wholeSteps(range), write, describedBy: shortId, onValue })
  );

  const query = control("query_position", "position m of the query", limits.turn_position, String);
  const key = control("key_position", "position n of the key", limits.turn_position, String);
  const first = ({ query_position: m, key_position: n }) => Math.min(m, n);
  const both = control(
    "both", "move both, n − m fixed", limits.turn_position,
    () => `m ${current.query_position}, n ${current.key_position}`,
    (value) => {
      const shift = value - first(current);
      change({
        query_position: current.query_position + shift,
        key_position: current.key_position + shift,
      });
    },
  );
  const pair = control(
    "pair", "pair ℓ, of frequency θ", limits.turn_pair,
    (value) => `${value}, θ = ${showFrequency(FREQUENCIES[value])}`,
  );
  const angle = control(
    "angle", "angle from q to k before", limits.turn_angle, (value) => `${show(value, 0)}°`,
  );
  const all = element("input", {
    type: "checkbox",
    name: "all_pairs",
    "aria-describedby": shortId,
    change: () => change({ all_pairs: all.checked }),
  });
  const toggle = element("label", { class: "attn-toggle" }, all, ` mean over all ${N_PAIRS} pairs`);

  const picture = plane({ textId });
  const formula = element("p", { class: "attn-formula" });
  const note = element("p", { class: "attn-note" });
  const chart = curveChart({
    over: DISTANCES,
    range: [-1, 1],
    xTicks: [-64, -32, 0, 32, 64].map((value) => [value, show(value, 0)]),
    yTicks: [[-1, "−1"], [0, "0"], [1, "1"]],
    xName: "distance n − m",
    yName: "score",
    label: "The score over the distance",
    textId,
    curves: ["attn-curve-score", "attn-curve-envelope", "attn-curve-mean"],
    onValue: (value) => change(positionsAt(value, current)),
  });
  const reading = element("p", { class: "attn-note" });
  let drawnCurves = "";

  return {
    nodes: [
      element(
        "div",
        { class: "attn-controls attn-controls-even" },
        query.node, key.node, both.node, pair.node, angle.node, toggle,
      ),
      element(
        "div",
        { class: "attn-columns" },
        element("div", { class: "attn-stage" }, picture.node, marks()),
        element(
          "div",
          { class: "attn-side" },
          element("div", { class: "attn-explain" }, formula, note),
          chart.node, reading,
        ),
      ),
    ],
    draw(now) {
      current = now;
      const found = facts(now);
      const { query_position: m, key_position: n } = now;
      const distance = show(found.distance, 0);

      query.show(m);
      key.show(n);
      both.input.max = String(FARTHEST - Math.abs(found.distance));
      both.show(first(now));
      pair.show(now.pair);
      angle.show(now.angle);
      all.checked = now.all_pairs;
      picture.draw(now, found);
      const curves = `${now.pair} ${now.angle} ${now.all_pairs}`;
      if (curves !== drawnCurves) { // the positions move only the mark
        drawnCurves = curves;
        const ahead = radians(now.angle);
        chart.node.classList.toggle("attn-all-pairs", now.all_pairs);
        chart.drawCurve(0, FINE.map((x) => [x, scoreAtDistance(ahead, x, found.frequency)]));
        chart.drawCurve(1, now.all_pairs ? WHOLE.map((x) => [x, ENVELOPE[Math.abs(x)]]) : []);
        chart.drawCurve(2, now.all_pairs ? WHOLE.map((x) => [x, MEANS[Math.abs(x)]]) : []);
      }
      chart.mark(found.distance, now.all_pairs ? found.meanScore : found.score);

      const score = show(found.score, 3);
      const way = found.distance < 0 ? `− ${-found.distance}` : `+ ${distance}`;
      setText(formula, `⟨Rₘq, Rₙk⟩ = cos(${show(now.angle, 0)}° ${way} θ) = ${score}`);
      setText(note, `m θ = ${show(m * found.frequency)} and n θ = ${show(n * found.frequency)}; `
        + `only (n − m) θ = ${show(found.distance * found.frequency)} counts. Move both: the `
        + "picture turns, the score stays.");
      setText(reading, now.all_pairs
        ? `Strong: the mean of cos((n − m) θ) over all pairs, here ${show(found.meanScore, 3)}. `
          + `It rises at ${RISES} of the first ${FARTHEST} steps; its upper envelope, dashed, `
          + "never does. Pale: the one pair."
        : `One pair alone is a cosine, with one wave in ${showWavelength(found.wavelength)} `
          + "positions: it does not decay. Drag in the chart to choose the distance.");
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Rotary positions: both turn, the score sees only the distance";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "rotary", title, fields, build });
}
