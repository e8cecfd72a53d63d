// What all explorers share: a title, reset and link buttons, one drawing a frame, a spoken summary.

import { element, freshId, oncePerFrame, setText, speaker } from "./controls.mjs";
import { copyText } from "./share.mjs";
import { readState } from "./state.mjs";

/**
 * Mounts one explorer on a model (an anywidget model, or the page's stand-in for one).
 *
 * `build({ change, textId, shortId, state })` makes the parts and returns { nodes, draw }.
 * `draw(state)` brings them up to date and returns { text, spoken }: the picture in words, and the
 * short form that is said aloud. `address` is given on a static page only.
 */
export function mountExplorer({ model, el, address }, { name, title, fields, build }) {
  const textId = freshId("text");
  const shortId = freshId("short");
  const titleId = freshId("title");
  const voice = speaker();
  const words = element("p", { class: "attn-words", id: textId });
  // What a screen reader says with a control's name: one clause, where the picture has them all.
  const short = element("div", { class: "attn-hidden", id: shortId });
  let state = readState(model, fields);

  const change = (patch) => {
    for (const [key, value] of Object.entries(patch)) model.set(key, value);
    model.save_changes();
  };

  const { nodes, draw } = build({ change, textId, shortId, state });

  const buttons = [
    element("button", {
      type: "button",
      class: "attn-button",
      name: "reset",
      click: () => change(model.get("initial")),
    }, "Reset"),
  ];
  if (address) {
    buttons.push(element("button", {
      type: "button",
      class: "attn-button",
      name: "copy-link",
      click: async () => {
        const copied = await copyText(address.link(state));
        voice.say(copied ? "Link copied." : "The link stands in the address bar.");
        flash(buttons[1], copied ? "Copied" : "See address bar");
      },
    }, "Copy link"));
  }

  const header = element(
    "div",
    { class: "attn-header" },
    element("div", { class: "attn-title", id: titleId }, title),
    element("div", { class: "attn-buttons" }, ...buttons),
  );
  const box = element(
    "div",
    {
      class: `attn-box attn-${name}`,
      role: "group",
      "aria-labelledby": titleId,
      // Plain keys belong to the controls here, not to a notebook that moves among its cells.
      keydown: (event) => {
        const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
        if (isPlain && event.key !== "Escape") event.stopPropagation();
      },
    },
    header, ...nodes, words, short, voice.node,
  );
  el.replaceChildren(box);

  const update = () => {
    state = readState(model, fields);
    const { text, spoken } = draw(state);
    setText(words, text);
    setText(short, spoken);
    return spoken;
  };
  const frame = oncePerFrame(() => {
    voice.say(update());
    address?.write(state);
  });
  for (const { key } of fields) model.on(`change:${key}`, frame.ask);

  const arrive = () => {
    const linked = address.read();
    if (linked) change({ ...model.get("initial"), ...linked });
  };
  if (address) {
    arrive();
    window.addEventListener("hashchange", arrive);
  }
  update();

  return () => {
    frame.cancel();
    voice.stop();
    for (const { key } of fields) model.off(`change:${key}`, frame.ask);
    if (address) window.removeEventListener("hashchange", arrive);
  };
}

/** Shows a short answer on a button, then its name again. */
function flash(button, answer) {
  const name = button.dataset.name ?? button.textContent;
  button.dataset.name = name;
  button.textContent = answer;
  setTimeout(() => { button.textContent = name; }, 1600);
}
