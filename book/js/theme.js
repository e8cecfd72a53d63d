// The page's colours, as the theme's style sheet defines them, and word when they change.

export function colours() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  return {
    text: value("--pst-color-text-base"),
    faint: value("--attn-grid"),
    line: value("--pst-color-text-muted"),
    paper: value("--pst-color-background"),
  };
}

export function onThemeChange(redraw) {
  let shown = document.documentElement.dataset.theme;
  new MutationObserver(() => {
    if (shown === document.documentElement.dataset.theme) return;
    shown = document.documentElement.dataset.theme;
    redraw();
  }).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}

// Paper is white: a page in the dark theme prints in the light one.
export function printLight() {
  const root = document.documentElement;
  let shown;
  window.addEventListener("beforeprint", () => {
    shown = root.dataset.theme;
    root.dataset.theme = "light";
  });
  window.addEventListener("afterprint", () => {
    root.dataset.theme = shown;
  });
}
