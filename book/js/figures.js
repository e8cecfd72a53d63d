// Draw the figures that attnlib.plots saved in the page as data.
import { fillTable } from "./table.js";
import { colours, onThemeChange } from "./theme.js";

const PLOTLY = new URL("plotly-cartesian.min.js", document.currentScript.src);
const NEAR = "600px"; // a figure this far below the screen is about to be read
const BESIDE = 180; // pixels that the names of rows and the colour bar take of a width
const PAPER_WIDTH = 640; // pixels of 1/96 inch: A4 and letter have room for it

export function mountFigures(root) {
  const figures = [...root.querySelectorAll(".attn-figure")].map(read);
  if (figures.length === 0) return;

  const watch = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        watch.unobserve(target);
        const figure = figures.find(({ element }) => element === target);
        plotly().then(() => draw(figure));
      }
    },
    { rootMargin: NEAR },
  );
  for (const figure of figures) {
    watch.observe(figure.element);
    offerTable(figure);
  }
  onThemeChange(() => redraw(figures));
  drawAllForPrint(figures);
}

function read(element) {
  const spec = JSON.parse(element.querySelector("script[type='application/json']").textContent);
  return { element, plot: element.querySelector(".attn-plot"), spec, drawn: false };
}

let loading;
function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = PLOTLY;
    script.onload = resolve;
    script.onerror = () => reject(new Error(`the figures need ${PLOTLY}, which did not load`));
    document.head.append(script);
  });
  return loading;
}

let onPaper = false;
function draw(figure) {
  const { plot, spec } = figure;
  const layout = onPaper ? { ...spec.layout, width: PAPER_WIDTH } : spec.layout;
  const config = { responsive: true, displayModeBar: false };
  figure.drawn = true;
  figure.element.dataset.drawn = "";
  return window.Plotly.react(plot, spec.data, inTheme(fitted(layout, plot)), config);
}

// Names under a picture shrink with it, so that on a phone they do not lie on one another.
function fitted(layout, plot) {
  const { ticktext } = layout.xaxis ?? {};
  if (!ticktext) return layout;
  const room = ((layout.width ?? plot.clientWidth) - BESIDE) / ticktext.length;
  const size = Math.max(8, Math.min(14, 0.95 * room));
  return { ...layout, xaxis: { ...layout.xaxis, tickfont: { size } } };
}

// The template of attnlib.plots with the page's colours for everything that is not data.
function inTheme(layout) {
  const { text, faint, line, paper } = colours();
  const template = layout.template ?? {};
  const axis = {
    gridcolor: faint,
    linecolor: line,
    tickcolor: line,
    zerolinecolor: line,
  };
  const themed = {
    ...template.layout,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { ...template.layout?.font, color: text },
    hoverlabel: { ...template.layout?.hoverlabel, bgcolor: paper, font: { color: text } },
    xaxis: { ...template.layout?.xaxis, ...axis },
    yaxis: { ...template.layout?.yaxis, ...axis },
  };
  return { ...layout, template: { ...template, layout: themed } };
}

function offerTable({ element, plot, spec }) {
  const details = document.createElement("details");
  details.className = "attn-data";
  details.innerHTML = "<summary>The data as a table</summary>";
  const fill = () => fillTable(details, spec, plot.getAttribute("aria-label"));
  details.addEventListener("toggle", fill, { once: true });
  element.append(details);
}

// A print comes without warning and does not wait for a script to load. So plotly is fetched
// once the page has come to rest, unless the reader asked to save data.
function drawAllForPrint(figures) {
  const rest = window.requestIdleCallback ?? ((work) => setTimeout(work, 1000));
  const fetchAtRest = () => rest(() => plotly());
  if (!navigator.connection?.saveData) {
    if (document.readyState === "complete") fetchAtRest();
    else window.addEventListener("load", fetchAtRest, { once: true });
  }
  window.addEventListener("beforeprint", () => {
    onPaper = true;
    if (window.Plotly) figures.forEach(draw);
  });
  window.addEventListener("afterprint", () => {
    onPaper = false;
    redraw(figures);
  });
}

function redraw(figures) {
  for (const figure of figures) if (figure.drawn) draw(figure);
}
