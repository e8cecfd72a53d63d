// The numbers of a figure as a table, made when a reader asks for it.

const MOST_ROWS = 200;
const TYPES = {
  i1: Int8Array,
  u1: Uint8Array,
  i2: Int16Array,
  u2: Uint16Array,
  i4: Int32Array,
  u4: Uint32Array,
  f4: Float32Array,
  f8: Float64Array,
};

export function fillTable(details, { data, layout }, title) {
  const scroller = document.createElement("div");
  scroller.className = "attn-table";
  scroller.tabIndex = 0; // a keyboard scrolls what it can reach
  scroller.setAttribute("role", "region");
  scroller.setAttribute("aria-label", `Data: ${title}`);
  scroller.append(...data.map((trace) => (trace.z ? grid(trace, layout) : columns(trace, layout))));
  details.append(scroller);
}

// A heat map: its rows are rows, its columns are columns.
function grid(trace, layout) {
  const z = values(trace.z);
  const places = (given, n) => (given ? values(given) : [...Array(n).keys()]);
  const head = ["", ...named(places(trace.x, z[0].length), layout.xaxis)];
  const names = named(places(trace.y, z.length), layout.yaxis);
  return table(trace.name, head, names.map((name, row) => [name, ...z[row]]));
}

// Any other trace: a point is a row.
function columns(trace, layout) {
  const axes = ["x", "y"].filter((axis) => trace[axis]);
  const held = axes.map((axis) => named(values(trace[axis]), layout[`${axis}axis`]));
  const head = axes.map((axis) => layout[`${axis}axis`]?.title?.text ?? axis);
  return table(trace.name, head, held[0].map((_, row) => held.map((column) => column[row])));
}

// Places on an axis by the names that stand there, where it has names.
function named(places, axis) {
  if (!axis?.ticktext) return places;
  const ticks = values(axis.tickvals);
  return places.map((place) => plain(axis.ticktext[ticks.indexOf(place)] ?? place));
}

// A name without the escapes that keep plotly from reading it as markup.
function plain(name) {
  if (typeof name !== "string") return name;
  const signs = { lt: "<", gt: ">", amp: "&" };
  return name.replace(/&(lt|gt|amp);/g, (_, sign) => signs[sign]);
}

function table(name, head, rows) {
  const element = document.createElement("table");
  const add = (section, tag, cells) => {
    const row = section.insertRow();
    for (const content of cells) {
      const cell = document.createElement(content === "" ? "td" : tag);
      cell.textContent = typeof content === "number" ? +content.toPrecision(4) : content;
      row.append(cell);
    }
  };
  if (name) element.createCaption().textContent = plain(name);
  add(element.createTHead(), "th", head);
  const body = element.createTBody();
  for (const row of rows.slice(0, MOST_ROWS)) add(body, "td", row);
  if (rows.length > MOST_ROWS) add(body, "td", [`${rows.length - MOST_ROWS} further rows`]);
  return element;
}

// plotly writes NumPy arrays as base64 with a type and, for matrices, a shape "rows, columns".
function values(held) {
  if (Array.isArray(held)) return held.map((each) => (each?.bdata ? values(each) : each));
  const bytes = Uint8Array.from(atob(held.bdata), (character) => character.charCodeAt(0));
  const flat = [...new TYPES[held.dtype](bytes.buffer)];
  const [rows, width] = String(held.shape ?? flat.length).split(",").map(Number);
  if (!width) return flat;
  return [...Array(rows).keys()].map((row) => flat.slice(row * width, (row + 1) * width));
}
