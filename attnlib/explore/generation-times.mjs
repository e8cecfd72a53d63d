// Generation, timed: layers, heads and length → seconds with a cache and anew, as stored and, where
// a kernel is at hand, as measured here.

import {
  axes, logarithmic, pointerPosition, pointList, set, svg, whileHeld,
} from "./chart.mjs";
import {
  element, freshId, legend, legendItem, listedSteps, setText, showCount, showMetric, showRound,
  slider, untie,
} from "./controls.mjs";
import { anewGenerationFlops, cachedGenerationFlops, limits } from "./formulas.mjs";
import { mountExplorer } from "./frame.mjs";
import { choice, fixed, listed } from "./state.mjs";

const asList = (x) => (Array.isArray(x) ? x : undefined);

export const fields = [
  fixed("timings", asList),
  fixed("measured", asList),
  choice("device", "device", limits.generation_devices),
  listed("n_layers", "L", limits.generation_layers),
  listed("n_heads", "h", limits.generation_heads),
  listed("n_new", "N", limits.generation_lengths),
];

const LENGTHS = limits.generation_lengths;
const [FIRST, LAST] = [LENGTHS[0], LENGTHS[LENGTHS.length - 1]];
const WAYS = ["cached", "anew"];

const runOf = (packed, { n_layers: layers, n_heads: heads }) => (
  packed.runs.find((run) => run.layers === layers && run.heads === heads)
);

/** A link may name a device of which nothing is stored here. */
const storedOf = ({ timings, device }) => (
  timings.find((each) => each.device === device) ?? timings[0]
);

/** The last measurement here of the chosen model that is as long. */
const measuredOf = (state) => (
  state.measured.filter((each) => runOf(each, state) && each.lengths.includes(state.n_new)).pop()
);

/** Quartile, median, quartile of all, in seconds; the ratio is taken run by run. */
function timesOf(packed, state) {
  const [run, i] = [runOf(packed, state), packed.lengths.indexOf(state.n_new)];
  const times = (way) => ({
    all: run[way][i], first: run[way][0], further: run[`${way}Further`][i - 1],
  });
  return { cached: times("cached"), anew: times("anew"), ratio: run.ratio[i] };
}

const flopsOf = ({ n_layers: layers, n_heads: heads }, n) => ({
  cached: cachedGenerationFlops(layers, heads, n), anew: anewGenerationFlops(layers, heads, n),
});

/** The numbers of the picture. */
export function facts(state) {
  const [stored, here] = [storedOf(state), measuredOf(state)];
  const [run, i] = [runOf(stored, state), stored.lengths.indexOf(state.n_new)];
  const [flops, atFirst] = [flopsOf(state, state.n_new), flopsOf(state, FIRST)];
  return {
    ...timesOf(stored, state),
    cachedFlops: flops.cached,
    anewFlops: flops.anew,
    flopsRatio: flops.anew / flops.cached,
    growth: {
      cached: run.cached[i][1] / run.cached[1][1],
      anew: run.anew[i][1] / run.anew[1][1],
      cachedFlops: flops.cached / atFirst.cached,
      anewFlops: flops.anew / atFirst.anew,
    },
    here: here === undefined ? null : timesOf(here, state),
  };
}

const round = (x) => showRound(untie(x));

/** The unit once, where it is the same. */
function sayRange(lower, upper) {
  const [[a, unit], [b, other]] = [lower, upper].map((x) => showMetric(x, "s").split(" "));
  return unit === other ? `${a} to ${b} ${unit}` : `${a} ${unit} to ${b} ${other}`;
}

const saySeconds = ([lower, median, upper]) => (
  `${showMetric(median, "s")} (${sayRange(lower, upper)})`
);

const sayRatio = ([lower, median, upper]) => (
  `${round(median)} times as long (${round(lower)} to ${round(upper)})`
);

const sayTimes = ({ cached, anew, ratio }) => {
  const [before, after] = [cached, anew].map(({ all, first, further }) => (
    `${saySeconds(all)}, the first token ${saySeconds(first)} and each further one `
    + saySeconds(further)
  ));
  return `With a cache ${before}. Anew ${after}. Anew takes ${sayRatio(ratio)}, run by run.`;
};

const sayOrigin = ({ where, dtype }) => `on ${where}, in ${dtype}`;

/** The picture in words. */
export function describe(state, found = facts(state)) {
  const [stored, here] = [storedOf(state), measuredOf(state)];
  const { n_layers: layers, n_heads: heads, n_new: n } = state;
  const { cached, anew, cachedFlops, anewFlops } = found.growth;
  const growth = n > FIRST
    ? ` From ${FIRST} to ${n} new tokens the time grew ${round(cached)}-fold with a cache and `
      + `${round(anew)}-fold anew, the FLOPs ${round(cachedFlops)}-fold and `
      + `${round(anewFlops)}-fold.`
    : "";
  const measured = here === undefined ? ""
    : ` Measured here ${sayOrigin(here)}, ${showCount(here.repeats, "run")} of each: `
      + sayTimes(found.here);
  const width = limits.generation_head_dim;
  return `${showCount(layers, "layer")}, ${showCount(heads, "head")} of width ${width}, `
    + `m = ${width * heads}, ${n} new tokens after one. Stored, measured before `
    + `${sayOrigin(stored)}: medians of ${showCount(stored.repeats, "run")} of each, and in `
    + `brackets the middle half. ${sayTimes(found)} Counted, it is ${round(found.flopsRatio)} `
    + `times as much: ${showMetric(found.cachedFlops, "FLOP")} with a cache, `
    + `${showMetric(found.anewFlops, "FLOP")} anew.${growth}${measured}`;
}

const sayShort = (state, { cached, anew, ratio }) => (
  `${showCount(state.n_layers, "layer")}, ${showCount(state.n_heads, "head")}, ${state.n_new} new `
  + `tokens: ${showMetric(cached.all[1], "s")} with a cache, ${showMetric(anew.all[1], "s")} anew, `
  + `${round(ratio[1])} times as long.`
);

const VIEW = { left: 48, right: 350, top: 26, bottom: 230, width: 360, height: 268 };
const X_TICKS = LENGTHS.filter((n) => Number.isInteger(Math.log2(n))).map((n) => [n, String(n)]);

/** The count at each length, in seconds that begin where the median does. */
function countedSeconds(run, way) {
  const flops = LENGTHS.map((n) => flopsOf({ n_layers: run.layers, n_heads: run.heads }, n)[way]);
  return flops.map((count) => (run[way][1][1] * count) / flops[0]);
}

/** The powers of ten around all that this picture may show of a device, whatever is chosen. */
function decades(stored, measured) {
  const times = [stored, ...measured].flatMap(({ runs }) => runs)
    .flatMap((run) => WAYS.flatMap((way) => run[way].slice(1).flat()));
  const counted = stored.runs.flatMap((run) => WAYS.flatMap((way) => countedSeconds(run, way)));
  const powers = [...times, ...counted].map(Math.log10);
  return [Math.floor(Math.min(...powers)), Math.ceil(Math.max(...powers))];
}

const tickWords = (x) => showMetric(x, "s").replace(/\.0+ /, " ");

/** Seconds over new tokens, both axes in equal ratios: bands, medians, the count beside them. */
function timesChart({ textId, onLength }) {
  const { left, right, top, bottom, width, height } = VIEW;
  const x = logarithmic([FIRST, LAST], [left, right]);
  const frame = svg("g");
  const each = (make) => Object.fromEntries(WAYS.map((way) => [way, make(way)]));
  const bands = each((way) => svg("polygon", { class: `attn-timed-band attn-timed-${way}` }));
  const lines = each((way) => svg("polyline", { class: `attn-curve attn-timed-${way}` }));
  const counts = each((way) => (
    svg("polyline", { class: `attn-curve attn-timed-count attn-timed-${way}` })
  ));
  const points = each((way) => svg("path", { class: `attn-timed-here attn-timed-${way}` }));
  const cut = svg("line", { class: "attn-cut", y1: top - 4, y2: bottom });
  const knobs = each(() => svg("circle", { class: "attn-knob", r: 4.5 }));
  const picture = svg(
    "svg",
    {
      class: "attn-picture attn-movable",
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": "Seconds over new tokens, with a cache and anew, and the count of FLOPs",
      "aria-describedby": textId,
    },
    frame, ...WAYS.flatMap((way) => [bands[way], counts[way], lines[way]]), cut,
    ...WAYS.flatMap((way) => [points[way], knobs[way]]),
  );
  whileHeld(picture, (event) => {
    const [px] = pointerPosition(picture, event);
    const distance = (n) => Math.abs(x(n) - px);
    onLength(LENGTHS.reduce((best, n) => (distance(n) < distance(best) ? n : best)));
  });

  let drawnRange = "";
  return {
    node: picture,
    draw(state) {
      const [stored, here] = [storedOf(state), measuredOf(state)];
      const run = runOf(stored, state);
      const [low, high] = decades(stored, state.measured);
      const y = logarithmic([10 ** low, 10 ** high], [bottom, top]);
      if (drawnRange !== `${low} ${high}`) {
        drawnRange = `${low} ${high}`;
        const yTicks = Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i))
          .map((seconds) => [seconds, tickWords(seconds)]);
        frame.replaceChildren(axes({
          x, y, left, right, top, bottom, xTicks: X_TICKS, yTicks, xName: "new tokens N",
          yName: "seconds in all",
        }));
      }
      for (const way of WAYS) {
        const spreads = run[way].slice(1);
        const at = (quartile) => LENGTHS.map((n, i) => [x(n), y(spreads[i][quartile])]);
        set(bands[way], { points: pointList([...at(0), ...at(2).reverse()]) });
        set(lines[way], { points: pointList(at(1)) });
        const counted = countedSeconds(run, way);
        set(counts[way], { points: pointList(LENGTHS.map((n, i) => [x(n), y(counted[i])])) });
        set(knobs[way], {
          cx: x(state.n_new).toFixed(2), cy: y(spreads[LENGTHS.indexOf(state.n_new)][1]).toFixed(2),
        });
        const marks = here === undefined ? [] : here.lengths.slice(1).map((n, i) => (
          [x(n), y(runOf(here, state)[way][i + 1][1])]
        ));
        set(points[way], { d: marks.map(([px, py]) => MARKS[way](px, py)).join("") });
      }
      set(cut, { x1: x(state.n_new).toFixed(2), x2: x(state.n_new).toFixed(2) });
    },
  };
}

// Diamonds and squares: shapes beside the colours.
const MARKS = {
  cached: (x, y) => `M${x.toFixed(2)},${(y - 5).toFixed(2)}l5,5l-5,5l-5,-5Z`,
  anew: (x, y) => `M${(x - 4).toFixed(2)},${(y - 4).toFixed(2)}h8v8h-8Z`,
};

const COLUMNS = ["in all", "first token", "each further"];
const PARTS = ["all", "first", "further"];
const ROWS = [
  { words: "with a cache", mark: "timed-cached", of: "stored", way: "cached" },
  { words: "anew", mark: "timed-anew", of: "stored", way: "anew" },
  { words: "with a cache, here", mark: "timed-cached-here", of: "here", way: "cached" },
  { words: "anew, here", mark: "timed-anew-here", of: "here", way: "anew" },
];

/** Medians with the middle half below them; what was measured here has rows once there is any. */
function table() {
  const rows = ROWS.map(({ words, mark, of, way }) => {
    const cells = PARTS.map(() => [element("span"), element("span", { class: "attn-note" })]);
    const node = element(
      "tr",
      {},
      element("th", { scope: "row" }, legendItem(mark, words)),
      ...cells.map((spans) => element("td", {}, ...spans)),
    );
    return { node, cells, of, way };
  });
  return {
    node: element(
      "table",
      { class: "attn-timed-table" },
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          element("td"),
          ...COLUMNS.map((words) => element("th", { scope: "col" }, words)),
        ),
      ),
      element("tbody", {}, ...rows.map(({ node }) => node)),
    ),
    draw(found) {
      for (const { node, cells, of, way } of rows) {
        const times = of === "here" ? found.here : found;
        node.hidden = times === null;
        if (times === null) continue;
        PARTS.forEach((part, i) => {
          const [lower, median, upper] = times[way][part];
          setText(cells[i][0], showMetric(median, "s"));
          setText(cells[i][1], sayRange(lower, upper));
        });
      }
    },
  };
}

const PATIENCE_MS = 10000; // a kernel that is idle answers at once
export const N_REPEATS_HERE = 3;

/** What a run here would take on the machine of the stored timing. */
function secondsHere(state) {
  const { cached, anew } = timesOf(storedOf(state), state);
  return N_REPEATS_HERE * (cached.all[1] + anew.all[1]);
}

/**
 * The button that measures in the kernel. It is there once a kernel has said that it can: a saved
 * notebook, or a static page, never shows it.
 */
function measuring(model) {
  const button = element("button", {
    type: "button", class: "attn-button", name: "measure", click: () => start(),
  }, "Measure here");
  const id = freshId("measure-on");
  const select = element("select", { id, name: "measure-on", class: "attn-select" });
  const devices = element(
    "div",
    { class: "attn-choice", hidden: "" },
    element("label", { for: id, class: "attn-label" }, "measure on"),
    select,
  );
  const bar = element("progress", { hidden: "", "aria-label": "runs that are done" });
  const note = element("p", { class: "attn-note", role: "status" });
  const node = element("div", { class: "attn-timed-live", hidden: "" }, devices, button, bar, note);
  let [busy, timer, guess] = [false, 0, ""];

  const rest = (words) => {
    clearTimeout(timer);
    busy = false;
    button.setAttribute("aria-disabled", "false");
    bar.hidden = true;
    setText(note, words);
  };
  const start = () => {
    if (busy) return;
    busy = true;
    button.setAttribute("aria-disabled", "true");
    setText(note, "Asking the kernel …");
    timer = setTimeout(
      () => rest("The kernel gives no answer: it is busy, or gone. It may still measure."),
      PATIENCE_MS,
    );
    model.send({ ask: "measure", device: select.value });
  };
  const hear = (content) => {
    if (content.devices) {
      select.replaceChildren(...content.devices.map((each) => (
        element("option", { value: each }, { cpu: "the CPU", cuda: "the GPU" }[each] ?? each)
      )));
      devices.hidden = content.devices.length < 2;
      node.hidden = false;
    } else if (content.progress) {
      const [done, all] = content.progress;
      clearTimeout(timer);
      busy = true;
      button.setAttribute("aria-disabled", "true");
      bar.hidden = false;
      set(bar, { value: done, max: all });
      setText(note, `Measuring: ${done} of ${all} runs are done. Sliders may be moved meanwhile.`);
    } else if (content.done) {
      rest("Measured: the table and the picture show it.");
    } else if (content.failed) {
      rest(`Nothing was measured: ${content.failed}`);
    }
  };
  model.on("msg:custom", hear);
  model.send({ ask: "devices" });
  return {
    node,
    draw(state) {
      const words = `${N_REPEATS_HERE} runs of each, as chosen above: about `
        + `${showMetric(secondsHere(state), "s")} on a machine like the stored one.`;
      if (!busy && words !== guess) setText(note, words);
      guess = words;
    },
    stop() {
      clearTimeout(timer);
      model.off("msg:custom", hear);
    },
  };
}

function build({ change, textId, shortId, state, live }) {
  const control = (name, label, values) => slider({
    name, label, steps: listedSteps(values), write: String, describedBy: shortId,
    onValue: (value) => change({ [name]: value }),
  });
  const layers = control("n_layers", "layers", limits.generation_layers);
  const heads = control(
    "n_heads", `heads of width ${limits.generation_head_dim}`, limits.generation_heads,
  );
  const length = control("n_new", "new tokens N", LENGTHS);
  const id = freshId("device");
  const select = element(
    "select",
    {
      id, name: "device", class: "attn-select", "aria-describedby": shortId,
      change: () => change({ device: select.value }),
    },
    ...state.timings.map(({ device, where }) => element("option", { value: device }, where)),
  );
  const device = element(
    "div",
    { class: "attn-choice" },
    element("label", { for: id, class: "attn-label" }, "stored, measured on"),
    select,
  );
  const chart = timesChart({ textId, onLength: (n) => change({ n_new: n }) });
  const times = table();
  const ratio = element("p", { class: "attn-formula" });
  const counted = element("p", { class: "attn-note" });
  const origin = element("p", { class: "attn-note" });

  return {
    nodes: [
      ...(state.timings.length > 1 ? [device] : []), // with one there is nothing to choose
      element(
        "div",
        { class: "attn-controls attn-controls-thirds" },
        layers.node, heads.node, length.node,
      ),
      element(
        "div",
        { class: "attn-columns" },
        element(
          "div",
          { class: "attn-stage" },
          chart.node,
          legend(
            legendItem("line-timed-cached", "with a cache"),
            legendItem("line-timed-anew", "anew"),
            legendItem("line-dashed", "as FLOPs grow, from the first point"),
          ),
        ),
        element(
          "div",
          { class: "attn-side" },
          times.node,
          element("div", { class: "attn-explain" }, ratio, counted, origin),
          ...(live ? [live.node] : []),
        ),
      ),
    ],
    draw(now) {
      const found = facts(now);
      const stored = storedOf(now);
      if (select.value !== stored.device) select.value = stored.device;
      layers.show(now.n_layers);
      heads.show(now.n_heads);
      length.show(now.n_new);
      chart.draw(now);
      times.draw(found);
      const here = found.here === null ? "" : `; here ${round(found.here.ratio[1])}`;
      setText(ratio, `Anew takes ${sayRatio(found.ratio)}${here}.`);
      setText(counted, `By the count of FLOPs it is ${round(found.flopsRatio)} times as much.`);
      const runs = showCount(stored.repeats, "run");
      setText(origin, `Stored: ${stored.where}, ${stored.dtype}, ${runs} of each.`);
      live?.draw(now);
      return { text: describe(now, found), spoken: sayShort(now, found) };
    },
  };
}

export const title = "Generation, timed: with a cache and anew";

export function render({ model, el, address }) {
  // A static page has an address and no kernel.
  const live = address === undefined && model.send ? measuring(model) : null;
  const stop = mountExplorer({ model, el, address }, {
    name: "generation-times", title, fields, build: (parts) => build({ ...parts, live }),
  });
  return () => {
    live?.stop();
    stop();
  };
}
