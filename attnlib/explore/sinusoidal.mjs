// The sinusoidal encoding: a map of positions and dimensions, one chosen entry of it, and how the
// rows of two positions resemble each other.

import { linear, pointerPosition, set, svg, whereClicked } from "./chart.mjs";
import {
  element, evenSteps, listedSteps, setText, show, showFrequency, showWavelength, showWhole, slider,
  wholeSteps,
} from "./controls.mjs";
import { curveChart, evenly } from "./curve-chart.mjs";
import { cosineEntry, frequency, limits, sineEntry, wavelength } from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { even, listed, whole } from "./state.mjs";

const LAST = limits.encoding_position[1];
const N_POSITIONS = LAST + 1;

export const fields = [
  even("width", "m", limits.encoding_width),
  whole("position", "p", limits.encoding_position),
  whole("dimension", "j", [0, limits.encoding_width[1] - 1]),
  listed("base", "base", limits.encoding_base),
];

/** A hand-written link may ask for a dimension that the width does not have: then the last one. */
const dimensionOf = ({ dimension, width }) => Math.min(dimension, width - 1);

const entryOf = (dimension) => (dimension % 2 === 0 ? sineEntry : cosineEntry);

const omegaOf = ({ width, base }, dimension) => frequency(Math.floor(dimension / 2), width, base);

/** Rows p = 0 … so many of the encoding, one after the other in one array. */
export function encodingRows(count, width, base) {
  const rows = new Float64Array(count * width);
  for (let dimension = 0; dimension < width; dimension += 1) {
    const [entry, omega] = [entryOf(dimension), omegaOf({ width, base }, dimension)];
    for (let p = 0; p < count; p += 1) rows[p * width + dimension] = entry(p, omega);
  }
  return rows;
}

let kept = { key: "", rows: null };

/** The rows of the map and as many again, kept until the width or the base changes. */
function rowsOf({ width, base }) {
  const key = `${width} ${base}`;
  if (kept.key !== key) kept = { key, rows: encodingRows(2 * N_POSITIONS - 1, width, base) };
  return kept.rows;
}

/** ⟨PE_p, PE_{p + k}⟩ / (m/2) of the two rows themselves, for every offset k. */
function innerProducts(rows, { position, width }) {
  return Array.from({ length: N_POSITIONS }, (_, k) => {
    let total = 0;
    for (let j = 0; j < width; j += 1) {
      total += rows[position * width + j] * rows[(position + k) * width + j];
    }
    return total / (width / 2);
  });
}

/** The numbers of the picture. */
export function facts(state) {
  const dimension = dimensionOf(state);
  const omega = omegaOf(state, dimension);
  const rows = rowsOf(state);
  return {
    frequency: omega,
    wavelength: wavelength(omega),
    value: rows[state.position * state.width + dimension],
    innerProducts: innerProducts(rows, state),
  };
}

const kindOf = (dimension) => (dimension % 2 === 0 ? "sine" : "cosine");

/** The picture in words. */
export function describe(state, found = facts(state)) {
  const dimension = dimensionOf(state);
  const [near, middle, far] = [1, 10, 100].map(
    (k) => `${show(found.innerProducts[k])} at k = ${k}`,
  );
  return `Position ${state.position}, dimension ${dimension} of width m = ${state.width}, base `
    + `${showWhole(state.base)}. Dimension ${dimension} is the ${kindOf(dimension)} of pair `
    + `${Math.floor(dimension / 2)}, of frequency ${showFrequency(found.frequency)}: one wave in `
    + `${showWavelength(found.wavelength)} positions. Its value here is `
    + `${show(found.value, 3)}. The inner product of rows p and p + k, divided by m/2, is `
    + `1 at k = 0, ${near}, ${middle} and ${far}, the same wherever p is.`;
}

function sayShort(state, { value, wavelength: length }) {
  const dimension = dimensionOf(state);
  return `Position ${state.position}, dimension ${dimension}: ${show(value)}; `
    + `one wave in ${showWavelength(length)} positions.`;
}

// Seen on a white page and on a near-black one, and with any kind of colour vision. The strength
// of the colour is the size of the value, so that zero is the page itself in either theme.
const NEGATIVE = [201, 110, 30];
const POSITIVE = [86, 112, 214];

const VIEW = { left: 34, right: 354, top: 10, bottom: 354, width: 360, height: 392 };

/** Fills the canvas: a row a position, a column a dimension. */
function paint(canvas, rows, width) {
  canvas.width = width;
  canvas.height = N_POSITIONS;
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(width, N_POSITIONS);
  for (let cell = 0; cell < width * N_POSITIONS; cell += 1) {
    const value = rows[cell];
    const colour = value < 0 ? NEGATIVE : POSITIVE;
    for (let channel = 0; channel < 3; channel += 1) {
      image.data[4 * cell + channel] = colour[channel];
    }
    image.data[4 * cell + 3] = Math.round(255 * Math.abs(value));
  }
  pen.putImageData(image, 0, 0);
}

/** The map, with the chosen row and column framed. */
function encodingMap({ change, textId }) {
  const { left, right, top, bottom, width: viewWidth, height: viewHeight } = VIEW;
  const percent = (part, all) => `${(100 * part) / all}%`;
  const canvas = element("canvas", { class: "attn-map", "aria-hidden": "true" });
  Object.assign(canvas.style, {
    left: percent(left, viewWidth),
    top: percent(top, viewHeight),
    width: percent(right - left, viewWidth),
    height: percent(bottom - top, viewHeight),
  });

  const text = (words, attributes) => {
    const made = svg("text", { class: "attn-tick", ...attributes });
    made.textContent = words;
    return made;
  };
  const y = linear([0, N_POSITIONS], [top, bottom]);
  const positions = [0, 32, 64, 96, LAST].map((p) => (
    text(String(p), { x: left - 6, y: y(p + 0.5) + 4, "text-anchor": "end" })
  ));
  const dimensions = [0, 1, 2, 3, 4].map(() => (
    text("", { y: bottom + 16, "text-anchor": "middle" })
  ));
  const names = [
    text("dimension j →", { x: (left + right) / 2, y: bottom + 33, "text-anchor": "middle" }),
    text("p ↓", { x: left - 6, y: y(16), "text-anchor": "end" }),
  ];
  const frames = ["row", "column"].flatMap((which) => (
    ["attn-frame-halo", "attn-frame"].map((name) => ({ which, node: svg("rect", { class: name }) }))
  ));
  const border = svg("rect", {
    class: "attn-map-border", x: left, y: top, width: right - left, height: bottom - top,
  });
  const picture = svg("svg", {
    class: "attn-picture attn-map-frame",
    viewBox: `0 0 ${viewWidth} ${viewHeight}`,
    role: "img",
    "aria-label": "Map of the encoding: positions from top to bottom, dimensions from left to right",
    "aria-describedby": textId,
  }, border, ...positions, ...dimensions, ...names, ...frames.map(({ node }) => node));

  let drawn = { rows: null, width: 0 };
  whereClicked(picture, (event) => {
    const [px, py] = pointerPosition(picture, event);
    const cell = (part, count) => Math.min(Math.max(Math.floor(part * count), 0), count - 1);
    change({
      position: cell((py - top) / (bottom - top), N_POSITIONS),
      dimension: cell((px - left) / (right - left), drawn.width),
    });
  });

  return {
    node: element("div", { class: "attn-map-stage" }, canvas, picture),
    draw({ position, width }, dimension, rows) {
      const x = linear([0, width], [left, right]);
      if (drawn.rows !== rows) {
        paint(canvas, rows, width);
        const shown = [0, 0.25, 0.5, 0.75, 1].map((part) => (
          Math.min(Math.floor(part * width), width - 1)
        ));
        shown.forEach((j, i) => {
          setText(dimensions[i], String(j));
          set(dimensions[i], { x: x(j + 0.5).toFixed(2) });
        });
      }
      drawn = { rows, width };
      const places = {
        row: { x: left, y: y(position), width: right - left, height: y(1) - y(0) },
        column: { x: x(dimension), y: top, width: x(1) - x(0), height: bottom - top },
      };
      for (const { which, node } of frames) {
        const place = Object.entries(places[which]).map(([name, value]) => (
          [name, value.toFixed(2)]
        ));
        set(node, Object.fromEntries(place));
      }
    },
  };
}

/** What the colours of the map mean. */
function colourLegend() {
  const bar = (side, colour) => {
    const made = element("span", { class: "attn-colours", "aria-hidden": "true" });
    const [clear, full] = [0, 1].map((alpha) => `rgb(${colour.join(" ")} / ${alpha})`);
    made.style.background = `linear-gradient(to ${side}, ${clear}, ${full})`;
    return made;
  };
  return element(
    "div",
    { class: "attn-map-legend" },
    "value −1", bar("left", NEGATIVE), "0", bar("right", POSITIVE), "1",
  );
}

const POSITION_TICKS = [0, 32, 64, 96, LAST].map((p) => [p, String(p)]);
const VALUE_TICKS = [[-1, "−1"], [0, "0"], [1, "1"]];
const FINE = evenly(limits.encoding_position, 4 * LAST + 1);

function build({ change: changeModel, textId, shortId, state }) {
  let current = state;
  const change = (patch) => {
    current = { ...current, ...patch }; // two sliders may move before the next frame
    changeModel(patch);
  };
  const control = (name, label, steps, write, onValue = (value) => change({ [name]: value })) => (
    slider({ name, label, steps, write, describedBy: shortId, onValue })
  );

  const position = control("position", "position p", wholeSteps(limits.encoding_position), String);
  const dimension = control(
    "dimension", "dimension j", wholeSteps([0, limits.encoding_width[1] - 1]), String,
  );
  const width = control(
    "width", "width m", evenSteps(limits.encoding_width), String,
    // A narrower encoding may lack the dimension that is looked at.
    (value) => change({ width: value, dimension: Math.min(current.dimension, value - 1) }),
  );
  const base = control("base", "base", listedSteps(limits.encoding_base), showWhole);

  const map = encodingMap({ change, textId });
  const formula = element("p", { class: "attn-formula" });
  const [power, exponent, omegaText] = [element("span"), element("sup"), element("span")];
  const rate = element("p", { class: "attn-formula" }, power, exponent, omegaText);
  const note = element("p", { class: "attn-note" });
  const wave = curveChart({
    over: limits.encoding_position,
    range: [-1, 1],
    xTicks: POSITION_TICKS,
    yTicks: VALUE_TICKS,
    xName: "position p",
    yName: "the chosen dimension",
    label: "The chosen dimension over the position",
    textId,
    curves: ["attn-curve-wave"],
    onValue: (value) => change({ position: value }),
  });
  const likeness = curveChart({
    over: limits.encoding_position,
    range: [-1, 1],
    xTicks: POSITION_TICKS,
    yTicks: VALUE_TICKS,
    xName: "offset k",
    yName: "⟨PEₚ, PEₚ₊ₖ⟩ / (m/2)",
    label: "The inner product of the rows of p and p + k over the offset k",
    textId,
    curves: ["attn-curve-like"],
  });
  const unmoved = element(
    "p",
    { class: "attn-note" },
    "Move the position: this curve stays. It depends on the offset alone, and is the same for −k.",
  );

  return {
    nodes: [
      element(
        "div",
        { class: "attn-controls attn-controls-even" },
        position.node, dimension.node, width.node, base.node,
      ),
      element(
        "div",
        { class: "attn-columns" },
        element("div", { class: "attn-stage" }, map.node, colourLegend()),
        element(
          "div",
          { class: "attn-side" },
          element("div", { class: "attn-explain" }, formula, rate, note),
          wave.node, likeness.node, unmoved,
        ),
      ),
    ],
    draw(now) {
      const j = dimensionOf(now);
      current = { ...now, dimension: j };
      const found = facts(now);
      const pair = Math.floor(j / 2);
      const omega = showFrequency(found.frequency);

      position.show(now.position);
      dimension.input.max = String(now.width - 1);
      dimension.show(j);
      width.show(now.width);
      base.show(now.base);
      map.draw(now, j, rowsOf(now));
      wave.drawCurve(0, FINE.map((p) => [p, entryOf(j)(p, found.frequency)]));
      wave.mark(now.position, found.value);
      likeness.drawCurve(0, found.innerProducts.map((value, k) => [k, value]));

      const name = j % 2 === 0 ? "sin" : "cos";
      setText(formula, `PE[p, ${j}] = ${name}(p ω)`);
      setText(power, `ω = ${showWhole(now.base)}`);
      setText(exponent, `${show(-2 * pair, 0)}/${now.width}`);
      setText(omegaText, ` = ${omega}`);
      setText(note, `At p = ${now.position} it is ${show(found.value, 3)}. One wave, 2π/ω, is `
        + `${showWavelength(found.wavelength)} positions long`
        + (found.wavelength > N_POSITIONS ? ", longer than the map." : "."));
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Sinusoidal encoding: a clock for every pair of dimensions";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "sinusoidal", title, fields, build });
}
