// Masks: causal, window, prefix and padding → which pairs of a target and a source may attend.

import { pointerPosition, set, showSome, svg, whereClicked } from "./chart.mjs";
import {
  element, legend, legendItem, setText, show, showCount, showThousandths, slider, wholeSteps,
} from "./controls.mjs";
import { limits } from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { sum } from "./numerics.mjs";
import { flag, whole } from "./state.mjs";

export const fields = [
  whole("n_targets", "t", limits.mask_size),
  whole("n_sources", "s", limits.mask_size),
  whole("window", "W", limits.mask_part),
  whole("n_prefix", "prefix", limits.mask_part),
  whole("n_padding", "padding", limits.mask_part),
  flag("causal", "causal"),
  whole("target", "row", limits.mask_place),
  whole("source", "column", limits.mask_place),
];

/** A hand-written link may ask for more than there is: then the last of it. */
function possible(state) {
  const { n_targets: t, n_sources: s } = state;
  return {
    ...state,
    n_prefix: Math.min(state.n_prefix, s),
    n_padding: Math.min(state.n_padding, s),
    target: Math.min(state.target, t - 1),
    source: Math.min(state.source, s - 1),
  };
}

/** Where a target stands among the sources: the last target at the last source. */
const positionOf = (state, target) => target + state.n_sources - state.n_targets;

/** Why a target may or may not read a source: "may" and "prefix" allow it. */
function verdictOf(state, target, source) {
  const behind = positionOf(state, target) - source;
  const inPrefix = source < state.n_prefix;
  if (source < state.n_padding) return "padding";
  if (state.causal && behind < 0) return inPrefix ? "prefix" : "future";
  if (state.window > 0 && Math.abs(behind) >= state.window) return inPrefix ? "prefix" : "window";
  return "may";
}

const allows = (verdict) => verdict === "may" || verdict === "prefix";

/** The verdicts, a row a target. */
function verdictsOf(state) {
  return Array.from({ length: state.n_targets }, (_, target) => (
    Array.from({ length: state.n_sources }, (__, source) => verdictOf(state, target, source))
  ));
}

/** The numbers of the picture. */
export function facts(asked, verdicts = verdictsOf(possible(asked))) {
  const state = possible(asked);
  const counts = verdicts.map((row) => row.filter(allows).length);
  const allowed = sum(counts);
  const verdict = verdicts[state.target][state.source];
  return {
    allowed,
    share: allowed / (state.n_targets * state.n_sources),
    counts,
    emptyTargets: counts.flatMap((count, target) => (count === 0 ? [target] : [])),
    fewest: Math.min(...counts),
    most: Math.max(...counts),
    isComplete: allowed === state.n_targets * state.n_sources,
    mayRead: allows(verdict),
    verdict,
  };
}

const VERDICTS = {
  may: (source) => `may read source ${source}`,
  prefix: (source) => `may read source ${source}: it is in the prefix`,
  padding: (source) => `may not read source ${source}: it is padding`,
  future: (source) => `may not read source ${source}: it lies in the future`,
  window: (source) => `may not read source ${source}: it lies outside the window`,
};

/** One cell in words. */
function sayCell(state, target, source) {
  const position = show(positionOf(state, target), 0);
  const words = VERDICTS[verdictOf(state, target, source)](source);
  return `Target ${target}, at position ${position}, ${words}.`;
}

function sayRules({ window, n_prefix: prefix, n_padding: padding, causal }) {
  return [
    causal ? "causal" : "not causal",
    window > 0
      ? `a window of ${window}${causal ? "" : " on either side"}, the target included`
      : "no window",
    prefix > 0 ? `a prefix of ${prefix}` : "no prefix",
    padding > 0 ? `${padding} of padding on the left` : "no padding",
  ].join("; ");
}

const sayCounts = ({ fewest, most }) => (fewest === most
  ? `Each target reads ${showCount(most, "source")}.`
  : `A target reads ${fewest} to ${most} sources.`);

/** Targets with nothing to read are the first ones: who stands later reads no fewer. */
function sayEmpty(empty) {
  if (empty.length === 0) return "Every target has something to read.";
  return empty.length === 1
    ? "Target 0 reads nothing and gets zeros."
    : `Targets 0 to ${empty.at(-1)} read nothing and get zeros.`;
}

/** The picture in words. */
export function describe(asked, found = facts(asked)) {
  const state = possible(asked);
  const { n_targets: t, n_sources: s } = state;
  const complete = found.isComplete ? " The mask is the complete square." : "";
  return `Targets: ${t}, sources: ${s}, bottom right aligned. Rules: ${sayRules(state)}. `
    + `${found.allowed} of ${t} · ${s} = ${t * s} pairs are allowed, a share of `
    + `${showThousandths(found.share)}.${complete} ${sayCounts(found)} `
    + `${sayEmpty(found.emptyTargets)} ${sayCell(state, state.target, state.source)}`;
}

function sayShort(state, { allowed, emptyTargets }) {
  const empty = emptyTargets.length === 0 ? "" : ` ${sayEmpty(emptyTargets)}`;
  return `${allowed} of ${state.n_targets * state.n_sources} pairs allowed.${empty}`;
}

const VIEW = { left: 30, top: 58, side: 272, width: 360, height: 334 };
const LARGEST_CELL = 68;
const MOST_NUMBERS = 10; // of columns, before two digits touch

const cell = (x, y, size) => `M${x.toFixed(2)},${y.toFixed(2)}h${size}v${size}h${-size}Z`;

/** Strokes across a cell, so that padding is told by more than its colour. */
const hatch = (x, y, size) => [0.5, 1, 1.5].map((way) => {
  const [a, b] = [Math.max(way - 1, 0) * size, Math.min(way, 1) * size];
  return `M${(x + a).toFixed(2)},${(y + b).toFixed(2)}`
    + `L${(x + b).toFixed(2)},${(y + a).toFixed(2)}`;
}).join("");

const NO_PLACE = { x: 0, y: 0, width: 0, height: 0 };

/** The grid of pairs: rows are targets, columns are sources. */
function maskGrid({ change, point, textId }) {
  const { left, top, side, width, height } = VIEW;
  const label = (anchor) => svg("text", { class: "attn-tick", "text-anchor": anchor });
  const each = Array.from({ length: limits.mask_size[1] });
  const rowNames = each.map(() => label("end"));
  const columnNames = each.map(() => label("middle"));
  const countNames = each.map(() => svg("text", { class: "attn-tick attn-count" }));
  const path = (name) => svg("path", { class: name });
  const [sheet, grid] = [path("attn-mask-sheet"), path("attn-mask-grid")];
  const [allowed, prefix] = [path("attn-mask-allowed"), path("attn-mask-dots")];
  const [padding, empty] = [path("attn-mask-hatch"), path("attn-mask-empty")];
  const own = path("attn-mask-own");
  const reach = svg("rect", { class: "attn-mask-reach" });
  // How far prefix and padding reach, also where another rule decides.
  const bars = ["padding", "prefix"].map((name, i) => {
    const y = top - 34 + 12 * i;
    const label = svg("text", { class: "attn-tick", y: y + 4 });
    label.textContent = name;
    const line = svg("path", { class: `attn-mask-bar attn-mask-bar-${name}` });
    return { key: `n_${name}`, y, label, line };
  });
  const frames = ["attn-frame-halo", "attn-frame"].map((name) => svg("rect", { class: name }));
  const names = [
    ["source s →", { x: left, y: 11, "text-anchor": "start" }],
    ["t ↓", { x: left - 6, y: top - 6, "text-anchor": "end" }],
    ["reads", { y: top - 6, "text-anchor": "start" }],
  ].map(([words, attributes]) => {
    const made = svg("text", { class: "attn-tick", ...attributes });
    made.textContent = words;
    return made;
  });
  const picture = svg("svg", {
    class: "attn-picture attn-mask-picture",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": "The mask: targets from top to bottom, sources from left to right",
    "aria-describedby": textId,
  }, sheet, allowed, prefix, padding, empty, grid, own, reach, ...frames,
  ...bars.flatMap(({ line, label: name }) => [line, name]),
  ...rowNames, ...columnNames, ...countNames, ...names);

  let drawn = { n_targets: 1, n_sources: 1, size: side };
  const cellAt = (event) => {
    const [px, py] = pointerPosition(picture, event);
    const place = (from, count) => Math.min(Math.max(Math.floor(from / drawn.size), 0), count - 1);
    return {
      target: place(py - top, drawn.n_targets),
      source: place(px - left, drawn.n_sources),
    };
  };
  whereClicked(picture, (event) => change(cellAt(event)));
  picture.addEventListener("pointermove", (event) => point(cellAt(event)));
  picture.addEventListener("pointerleave", () => point(null));

  return {
    node: picture,
    draw(state, verdicts, { counts, emptyTargets }) {
      const { n_targets: t, n_sources: s, window, causal, target } = state;
      const size = Math.min(side / Math.max(t, s), LARGEST_CELL);
      drawn = { n_targets: t, n_sources: s, size };
      const x = (source) => left + source * size;
      const y = (row) => top + row * size;
      const all = (wanted, draw) => verdicts.flatMap((row, i) => row.map((verdict, j) => (
        wanted(verdict) ? draw(x(j), y(i), size) : ""
      ))).join("");
      const frame = `M${left},${top}H${x(s).toFixed(2)}V${y(t).toFixed(2)}H${left}Z`;
      set(sheet, { d: frame });
      set(grid, {
        d: frame + each.map((_, i) => (
          (i > 0 && i < t ? `M${left},${y(i).toFixed(2)}H${x(s).toFixed(2)}` : "")
          + (i > 0 && i < s ? `M${x(i).toFixed(2)},${top}V${y(t).toFixed(2)}` : "")
        )).join(""),
      });
      set(allowed, { d: all(allows, cell) });
      const dot = (cx, cy) => cell(cx + 0.38 * size, cy + 0.38 * size, 0.24 * size);
      set(prefix, { d: all((verdict) => verdict === "prefix", dot) });
      set(padding, { d: all((verdict) => verdict === "padding", hatch) });
      set(empty, {
        d: emptyTargets.map((i) => (
          `M${left},${y(i).toFixed(2)}H${x(s).toFixed(2)}V${y(i + 1).toFixed(2)}H${left}Z`
        )).join(""),
      });
      const r = (0.16 * size).toFixed(2);
      set(own, {
        d: verdicts.map((_, i) => {
          const position = positionOf(state, i);
          const start = `M${(x(position + 0.5) - r).toFixed(2)},${y(i + 0.5).toFixed(2)}`;
          return position < 0 ? "" : `${start}a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0`;
        }).join(""),
      });

      // The window of the chosen target, as far as it lies among the sources.
      const position = positionOf(state, target);
      const first = Math.max(position - window + 1, 0);
      const last = Math.min(causal ? position : position + window - 1, s - 1);
      set(reach, window > 0 && first <= last ? {
        x: x(first).toFixed(2),
        y: y(target).toFixed(2),
        width: ((last - first + 1) * size).toFixed(2),
        height: size.toFixed(2),
      } : NO_PLACE);
      for (const { key, y: at, line, label: name } of bars) {
        const end = x(state[key]).toFixed(2);
        set(line, { d: state[key] > 0 ? `M${left},${at}H${end}` : "" });
        set(name, { x: Number(end) + 5 });
        name.classList.toggle("attn-tick-hidden", state[key] === 0);
      }
      for (const node of frames) {
        set(node, {
          x: x(state.source).toFixed(2), y: y(target).toFixed(2),
          width: size.toFixed(2), height: size.toFixed(2),
        });
      }

      each.forEach((_, i) => {
        setText(rowNames[i], i < t ? String(i) : "");
        setText(columnNames[i], i < s ? String(i) : "");
        setText(countNames[i], i < t ? (counts[i] > 0 ? String(counts[i]) : "∅ zeros") : "");
        countNames[i].classList.toggle("attn-count-empty", i < t && counts[i] === 0);
        set(rowNames[i], { x: left - 6, y: (y(i + 0.5) + 4).toFixed(2) });
        set(columnNames[i], { x: x(i + 0.5).toFixed(2), y: top - 6 });
        set(countNames[i], { x: (x(s) + 6).toFixed(2), y: (y(i + 0.5) + 4).toFixed(2) });
      });
      showSome(rowNames, target, 1);
      showSome(columnNames, state.source, s > MOST_NUMBERS ? 2 : 1);
      set(names[2], { x: (x(s) + 6).toFixed(2) });
    },
  };
}

const marks = () => legend(
  legendItem("allowed", "may attend"),
  legendItem("dotted", "by the prefix alone"),
  legendItem("hatched", "padding"),
  legendItem("empty", "∅ reads nothing: gets zeros"),
  legendItem("own", "the target's own position"),
  legendItem("reach", "window of the chosen target"),
);

function build({ change: changeModel, textId, shortId, state }) {
  let current = possible(state);
  const change = (patch) => {
    const next = possible({ ...current, ...patch }); // fewer sources may lack the rest
    const changed = Object.entries(next).filter(([key, value]) => current[key] !== value);
    current = next; // two sliders may move before the next frame
    changeModel(Object.fromEntries(changed));
  };
  const control = (name, label, range, write = String) => slider({
    name,
    label,
    steps: wholeSteps(range),
    write,
    describedBy: shortId,
    onValue: (value) => change({ [name]: value }),
  });

  const controls = {
    n_targets: control("n_targets", "targets", limits.mask_size),
    n_sources: control("n_sources", "sources", limits.mask_size),
    window: control("window", "window W, sources", limits.mask_part, (w) => (w === 0 ? "off" : `${w}`)),
    n_prefix: control("n_prefix", "prefix, sources", limits.mask_part),
    n_padding: control("n_padding", "padding, sources", limits.mask_part),
    target: control("target", "look at target t", limits.mask_place),
    source: control("source", "and source s", limits.mask_place),
  };
  const causal = element("input", {
    type: "checkbox",
    name: "causal",
    "aria-describedby": shortId,
    change: () => change({ causal: causal.checked }),
  });
  const toggle = element("label", { class: "attn-toggle" }, causal, " causal: no future");

  let pointed = null;
  const reading = element("p", {});
  const read = () => {
    const { target, source } = pointed ?? current;
    setText(reading, sayCell(current, target, source));
  };
  const grid = maskGrid({
    change,
    textId,
    point: (place) => {
      pointed = place;
      read();
    },
  });
  const counted = element("p", { class: "attn-formula" });
  const note = element("p", { class: "attn-note" });
  const nothing = element("p", { class: "attn-note attn-nothing" });

  return {
    nodes: [
      element(
        "div",
        { class: "attn-controls attn-controls-even" },
        controls.n_targets.node, controls.n_sources.node, controls.window.node,
        controls.n_prefix.node, controls.n_padding.node, toggle,
      ),
      element(
        "div",
        { class: "attn-columns" },
        element("div", { class: "attn-stage" }, grid.node, marks()),
        element(
          "div",
          { class: "attn-side" },
          element("div", { class: "attn-explain" }, counted, note, nothing),
          controls.target.node, controls.source.node,
          element("div", { class: "attn-explain attn-reading" }, reading),
        ),
      ),
    ],
    draw(asked) {
      const now = possible(asked);
      current = now;
      const verdicts = verdictsOf(now);
      const found = facts(now, verdicts);
      const { n_targets: t, n_sources: s } = now;
      const ends = { n_prefix: s, n_padding: s, target: t - 1, source: s - 1 };
      for (const [name, end] of Object.entries(ends)) controls[name].input.max = String(end);
      for (const [name, { show: showValue }] of Object.entries(controls)) showValue(now[name]);
      causal.checked = now.causal;
      grid.draw(now, verdicts, found);
      read();

      setText(counted, `${found.allowed} of ${t} · ${s} pairs: `
        + `${found.isComplete ? "all" : showThousandths(found.share)}`);
      setText(note, sayCounts(found));
      setText(nothing, sayEmpty(found.emptyTargets));
      nothing.classList.toggle("attn-nothing-here", found.emptyTargets.length > 0);
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Masks: who may read whom";

export function render({ model, el, address }) {
  return mountExplorer({ model, el, address }, { name: "mask", title, fields, build });
}
