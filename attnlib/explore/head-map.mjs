// The map of one head: rows are targets, columns are sources, colours are weights.

import { pointerPosition, set, showSome, svg, whereClicked } from "./chart.mjs";
import { element } from "./controls.mjs";
import { sum } from "./numerics.mjs";
import { rootOf } from "./packed-maps.mjs";

// Near plotly's Cividis, the colour scale of the book's heat maps: it grows in lightness alone.
const STOPS = [[0, 32, 77], [62, 75, 108], [122, 122, 121], [186, 174, 109], [255, 234, 70]];

/** The colour of a root from 0 to 1, as red, green and blue. */
export function colourOf(root) {
  const place = root * (STOPS.length - 1);
  const i = Math.min(Math.floor(place), STOPS.length - 2);
  return STOPS[i].map((low, channel) => (
    Math.round(low + (place - i) * (STOPS[i + 1][channel] - low))
  ));
}

let colours = null; // of every whole number of 12 bits, as four bytes; made when first needed

/** Colours a canvas, a pixel for each root, row by row. */
function paint(canvas, roots, width) {
  colours ??= Array.from({ length: 4096 }, (_, root) => (
    new Uint32Array(Uint8Array.of(...colourOf(rootOf(root)), 255).buffer)[0]
  ));
  const height = roots.length / width;
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(width, height);
  const cells = new Uint32Array(image.data.buffer);
  for (let i = 0; i < roots.length; i += 1) cells[i] = colours[roots[i]];
  pen.putImageData(image, 0, 0);
}

const VIEW = { left: 74, side: 282, width: 360 };
const MOST_LABELS = 26;
const MOST_ROOM = 10; // letters of a token where there is little room
const WIDE = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}]/u;
const BROAD = /[MWmw@%]/;
const COMBINING = /\p{M}/u;

/** About how many letters wide a text is. */
const roomOf = (text) => sum(Array.from(text, (sign) => {
  if (COMBINING.test(sign)) return 0;
  if (BROAD.test(sign)) return 1.6;
  return WIDE.test(sign) ? 2 : 1;
}));

/** A token, or as much of it as there is room for. */
export function shortened(token) {
  if (roomOf(token) <= MOST_ROOM) return token;
  const signs = [...token];
  while (roomOf(signs) >= MOST_ROOM) signs.pop();
  return `${signs.join("")}…`;
}

/**
 * The map of one head: `rows` and `columns` name its targets and sources.
 *
 * Where maps of several texts take turns, `largestCell` keeps a small one from growing, and
 * `longest`, the names that may stand above any of them, keeps their frames alike.
 */
export function headMap({
  rows, columns, change, point, textId, largestCell = Infinity, longest = columns,
}) {
  const { left, side, width } = VIEW;
  const percent = (part, all) => `${(100 * part) / all}%`;
  const canvas = element("canvas", { class: "attn-map", "aria-hidden": "true" });
  const border = svg("rect", { class: "attn-map-border", x: left });
  const rowGroup = svg("g");
  const columnGroup = svg("g");
  const frames = ["row", "cell"].flatMap((which) => (
    ["attn-frame-halo", "attn-frame"].map((name) => ({ which, node: svg("rect", { class: name }) }))
  ));
  const picture = svg("svg", {
    class: "attn-picture attn-map-frame",
    role: "img",
    "aria-label": "Map of the weights: targets from top to bottom, sources from left to right",
    "aria-describedby": textId,
  }, border, rowGroup, columnGroup, ...frames.map(({ node }) => node));

  let shown = null; // the names of one text, and where they stand

  /** Gives the map other targets and sources. */
  function rename(rowTexts, columnTexts) {
    const most = Math.max(rowTexts.length, columnTexts.length);
    const cell = Math.min(side / most, largestCell);
    const [across, down] = [cell * columnTexts.length, cell * rowTexts.length];
    const every = Math.ceil(most / MOST_LABELS);
    const fontSize = Math.min(11, Math.max(9, cell * every * 0.95));
    const top = 14 + 0.62 * fontSize * Math.max(...longest.map((token) => roomOf(shortened(token))));
    const height = top + side + 4;
    set(picture, { viewBox: `0 0 ${width} ${height}` });
    set(border, { y: top, width: across, height: down });
    Object.assign(canvas.style, {
      left: percent(left, width),
      top: percent(top, height),
      width: percent(across, width),
      height: percent(down, height),
    });
    const label = (token, attributes) => {
      const made = svg("text", { class: "attn-tick", "text-anchor": "end", ...attributes });
      made.style.fontSize = `${fontSize.toFixed(1)}px`;
      made.textContent = shortened(token);
      return made;
    };
    const rowNames = rowTexts.map((token, t) => (
      label(token, { x: left - 5, y: (top + cell * (t + 0.5) + 0.35 * fontSize).toFixed(2) })
    ));
    const columnNames = columnTexts.map((token, s) => {
      const x = (left + cell * (s + 0.5) + 0.35 * fontSize).toFixed(2);
      return label(token, { "text-anchor": "start", transform: `translate(${x} ${top - 5}) rotate(-90)` });
    });
    rowGroup.replaceChildren(...rowNames);
    columnGroup.replaceChildren(...columnNames);
    shown = { cell, across, top, every, rowNames, columnNames };
  }
  rename(rows, columns);

  const cellAt = (event) => {
    const { cell, top, rowNames, columnNames } = shown;
    const [px, py] = pointerPosition(picture, event);
    const place = (x, count) => Math.min(Math.max(Math.floor(x / cell), 0), count - 1);
    return { target: place(py - top, rowNames.length), source: place(px - left, columnNames.length) };
  };
  whereClicked(picture, (event) => change(cellAt(event)));
  picture.addEventListener("pointermove", (event) => point(cellAt(event)));
  picture.addEventListener("pointerleave", () => point(null));

  let painted = null;
  return {
    node: element("div", { class: "attn-map-stage" }, canvas, picture),
    rename,
    /** `key` says which head's roots these are, and of which text. */
    draw({ target, source }, roots, key) {
      const { cell, across, top, every, rowNames, columnNames } = shown;
      if (painted !== key) paint(canvas, roots, columnNames.length);
      painted = key;
      const row = { x: left, y: top + cell * target, width: across, height: cell };
      const places = { row, cell: { ...row, x: left + cell * source, width: cell } };
      for (const { which, node } of frames) {
        const place = Object.entries(places[which]).map(([name, value]) => [name, value.toFixed(2)]);
        set(node, Object.fromEntries(place));
      }
      showSome(rowNames, target, every);
      showSome(columnNames, source, every);
    },
  };
}

/** What the colours mean: they show the root, so that small weights can be told from none. */
export function colourLegend() {
  const bar = element("span", { class: "attn-colours attn-colours-long", "aria-hidden": "true" });
  const stops = STOPS.map((colour) => `rgb(${colour.join(" ")})`).join(", ");
  bar.style.background = `linear-gradient(to right, ${stops})`;
  return element("div", { class: "attn-map-legend" }, "weight 0", bar, "1, square-root scale");
}

/** All heads of a layer, each a button that chooses it; `names` are what is written on them. */
export function headButtons({ names, change }) {
  const buttons = names.map((name, head) => {
    const canvas = element("canvas", { class: "attn-thumbnail", "aria-hidden": "true" });
    const node = element("button", {
      type: "button",
      class: "attn-head-button",
      "aria-label": `head ${name}`,
      click: () => change({ head }),
    }, canvas, element("span", { "aria-hidden": "true" }, name));
    return { canvas, node };
  });
  let painted = null;
  return {
    node: element(
      "div",
      { class: "attn-head-buttons", role: "group", "aria-label": "heads of this layer" },
      ...buttons.map(({ node }) => node),
    ),
    /** `rootsOfHead(i)` are those of a head, `columns` its sources; `key` says which layer it is. */
    draw(head, rootsOfHead, columns, key) {
      buttons.forEach(({ canvas, node }, i) => {
        if (painted !== key) paint(canvas, rootsOfHead(i), columns);
        set(node, { "aria-pressed": i === head });
      });
      painted = key;
    },
  };
}
