// Small charts in SVG: colours come from CSS, so light, dark and print need no redrawing.

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element with attributes and children. */
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  set(made, attributes);
  made.append(...children);
  return made;
}

/** Writes only what changed: an untouched node costs no layout. */
export function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
  }
}

/** From values to pixels, evenly. */
export function linear([a, b], [from, to]) {
  return (x) => from + ((x - a) / (b - a)) * (to - from);
}

/** From positive values to pixels, equal ratios to equal lengths. */
export function logarithmic([a, b], [from, to]) {
  return (x) => from + (Math.log(x / a) / Math.log(b / a)) * (to - from);
}

export function pointList(points) {
  return points.map(([x, y]) => `${x.toFixed(2)},${y.toFixed(2)}`).join(" ");
}

/** So many values from a to b in equal ratios. */
export function ratios([a, b], count) {
  return Array.from({ length: count }, (_, i) => a * (b / a) ** (i / (count - 1)));
}

/** Grid lines, numbers and names of two axes; ticks are [value, text] pairs. */
export function axes({ x, y, left, right, top, bottom, xTicks, yTicks, xName, yName }) {
  const text = (attributes, words) => {
    const made = svg("text", { class: "attn-tick", ...attributes });
    made.textContent = words;
    return made;
  };
  const vertical = xTicks.flatMap(([value, words]) => [
    svg("line", { class: "attn-grid", x1: x(value), x2: x(value), y1: top, y2: bottom }),
    text({ x: x(value), y: bottom + 16, "text-anchor": "middle" }, words),
  ]);
  const horizontal = yTicks.flatMap(([value, words]) => [
    svg("line", { class: "attn-grid", x1: left, x2: right, y1: y(value), y2: y(value) }),
    text({ x: left - 6, y: y(value) + 4, "text-anchor": "end" }, words),
  ]);
  const names = [
    text({ x: (left + right) / 2, y: bottom + 33, "text-anchor": "middle" }, xName),
    text({ x: left, y: top - 9, "text-anchor": "start" }, yName),
  ];
  return svg("g", { "aria-hidden": "true" }, ...vertical, ...horizontal, ...names);
}

/** Shows one in so many labels, and always the chosen one, in the place of its neighbours. */
export function showSome(labels, chosen, every) {
  labels.forEach((label, i) => {
    const isShown = i === chosen || (i % every === 0 && Math.abs(i - chosen) >= every);
    label.classList.toggle("attn-tick-hidden", !isShown);
    label.classList.toggle("attn-tick-chosen", i === chosen);
  });
}

/**
 * Calls `choose(event)` while the pointer is held down in a picture. A shortcut for the pointer: a
 * slider does the same by keyboard.
 */
export function whileHeld(picture, choose) {
  picture.addEventListener("pointerdown", (event) => {
    picture.setPointerCapture(event.pointerId);
    choose(event);
  });
  picture.addEventListener("pointermove", (event) => {
    if (picture.hasPointerCapture(event.pointerId)) choose(event);
  });
}

/**
 * Calls `choose(event)` for a click or a tap and while the mouse is held down: a finger that moves
 * scrolls the page. A shortcut for the pointer; sliders do the same by keyboard.
 */
export function whereClicked(picture, choose) {
  picture.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse") return;
    picture.setPointerCapture(event.pointerId);
    choose(event);
  });
  picture.addEventListener("pointermove", (event) => {
    if (picture.hasPointerCapture(event.pointerId)) choose(event);
  });
  picture.addEventListener("click", choose);
}

/** Where a pointer is, in the units of the picture's viewBox. */
export function pointerPosition(picture, event) {
  const box = picture.getBoundingClientRect();
  const view = picture.viewBox.baseVal;
  return [
    view.x + ((event.clientX - box.left) / box.width) * view.width,
    view.y + ((event.clientY - box.top) / box.height) * view.height,
  ];
}
