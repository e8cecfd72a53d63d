// What a keyboard or a screen reader needs and the theme's pages lack.

export function makeAccessible(root) {
  reachScrollers(root);
  nameSearch(root);
}

// Boxes that scroll sideways: reachable by keyboard while something is hidden in them.
const SCROLLERS = "div.highlight pre, .cell_output .output, .pst-scrollable-table-container";
const FORMULAS = 'mjx-container[display="true"], .bd-article :is(span, div).math';

function reachScrollers(root) {
  const watch = new ResizeObserver((entries) => entries.forEach(({ target }) => settle(target)));
  const observe = (selector) => root.querySelectorAll(selector).forEach((box) => watch.observe(box));
  observe(SCROLLERS);
  // This script runs before MathJax's own: wait for it to come, then for its formulas.
  window.addEventListener("load", () =>
    window.MathJax?.startup?.promise.then(() => observe(FORMULAS)),
  );
}

function settle(box) {
  const hides = box.clientWidth > 0 && box.scrollWidth > box.clientWidth + 1;
  if (hides && getComputedStyle(box).overflowX !== "visible") box.tabIndex = 0;
  else box.removeAttribute("tabindex");
}

// The button says "Search Ctrl+K"; its name for machines said less than its face.
function nameSearch(root) {
  for (const button of root.querySelectorAll(".search-button-field")) {
    button.removeAttribute("aria-label");
  }
}
