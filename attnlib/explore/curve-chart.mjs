// A small chart of curves over a whole-number variable, with a mark at its current value.

import { axes, linear, pointerPosition, pointList, set, svg, whileHeld } from "./chart.mjs";

// About as many units as the narrow column of a page has pixels: the words keep their size.
const VIEW = { left: 30, right: 290, top: 24, bottom: 134, width: 300, height: 172, knob: 4.5 };

/** So many values from a to b in equal steps. */
export function evenly([a, b], count) {
  return Array.from({ length: count }, (_, i) => a + ((b - a) * i) / (count - 1));
}

/**
 * `over` and `range` are the ends of the two axes; `curves` the classes of the lines, in order.
 * `onValue`, if given, gets the value that the pointer chooses; `view` is the room in the picture.
 */
export function curveChart({
  over, range, xTicks, yTicks, xName, yName, label, textId, curves, onValue, view = VIEW,
}) {
  const { left, right, top, bottom, width, height } = view;
  const x = linear(over, [left, right]);
  const y = linear(range, [bottom, top]);
  const lines = curves.map((name) => svg("polyline", { class: `attn-curve ${name}` }));
  const cut = svg("line", { class: "attn-cut", y1: top - 4, y2: bottom, visibility: "hidden" });
  const knob = svg("circle", { class: "attn-knob", r: view.knob, visibility: "hidden" });
  const picture = svg("svg", {
    class: `attn-picture${onValue ? " attn-movable" : ""}`,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": label,
    "aria-describedby": textId,
  }, axes({ x, y, left, right, top, bottom, xTicks, yTicks, xName, yName }), ...lines, cut, knob);

  if (onValue) {
    whileHeld(picture, (event) => {
      const [px] = pointerPosition(picture, event);
      const value = Math.round(over[0] + ((px - left) / (right - left)) * (over[1] - over[0]));
      onValue(Math.min(Math.max(value, over[0]), over[1]));
    });
  }

  return {
    node: picture,
    /** Draws the curve with this number; no points leave it out. */
    drawCurve: (i, points) => {
      set(lines[i], { points: pointList(points.map(([px, py]) => [x(px), y(py)])) });
    },
    mark(px, py) {
      const at = { x: x(px).toFixed(2), y: y(py).toFixed(2) };
      set(cut, { x1: at.x, x2: at.x, visibility: "visible" });
      set(knob, { cx: at.x, cy: at.y, visibility: "visible" });
    },
  };
}
