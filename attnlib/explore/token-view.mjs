// Tokens as coloured pieces of text. A step changes only the pieces whose bounds it moves.

import { element, freshId, setText, showWhole } from "./controls.mjs";
import { tokenBytes } from "./byte-pair.mjs";
import { hexBytes, readable, readableParts } from "./readable.mjs";

const HUES = ["query", "key", "value", "output", "weight"];
const RIGHT_TO_LEFT = /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}]/u;
const LETTER_OR_DIGIT = /[\p{L}\p{Nd}]/u;
const BRACKET = /[\p{Ps}\p{Pe}]/u;
const HINT = "Point at a token, or choose one with the arrow keys, to see its id and its bytes.";

/** The direction in which a text is read: that of its first letter. */
const directionOf = (text) => (RIGHT_TO_LEFT.test(/\p{L}/u.exec(text)?.[0] ?? "") ? "rtl" : "ltr");

/**
 * To the order of signs in a line a token is one without a direction. Where what it shows runs
 * against the list, a mark on either side says so: a word's tokens then stand in the word's order.
 * So does one at a bracket, which belongs to the list and not to the word beside it.
 */
function inItsDirection(piece, shown, direction) {
  const own = RIGHT_TO_LEFT.test(shown) ? "rtl" : LETTER_OR_DIGIT.test(shown) ? "ltr" : direction;
  if (own === direction && !BRACKET.test(shown)) return [piece];
  const mark = () => element("span", { "data-plain": "" }, own === "rtl" ? "\u200F" : "\u200E");
  return [mark(), piece, mark()];
}

/** One token: its piece of text and, where the text has one, an end of the line. */
function makeEntry({ bytes }, start, end, id, direction) {
  const piece = element("span", {
    class: `attn-token attn-token-${HUES[id % HUES.length]}`,
    role: "option",
  });
  let lastPlain = "";
  let letters = "";
  for (const [shown, plain, isSign] of readableParts(bytes, start, end)) {
    lastPlain = plain;
    if (!isSign) letters += shown;
    if (shown === plain) piece.append(shown);
    else {
      const name = isSign ? "attn-sign" : undefined;
      piece.append(element("span", { class: name, "data-plain": plain }, shown));
    }
  }
  const nodes = inItsDirection(piece, letters, direction);
  if (lastPlain === "\n") nodes.push(element("br"));
  return { start, end, id, nodes, piece };
}

const remove = ({ nodes }) => nodes.forEach((node) => node.remove());

/** How many ids at the beginning, and then at the end, are the same in both lists. */
function commonEnds(old, ids) {
  const most = Math.min(old.length, ids.length);
  let first = 0;
  while (first < most && old[first].id === ids[first]) first += 1;
  let last = 0;
  while (last < most - first && old.at(-1 - last).id === ids.at(-1 - last)) last += 1;
  // A character's first byte stands for all of it, and the next three tokens may have changed.
  return [Math.max(first - 3, 0), last];
}

/** What is copied is the text itself, not the signs for its blanks and ends of lines. */
function copyPlainText(event) {
  const selection = event.currentTarget.ownerDocument.getSelection();
  if (selection.rangeCount === 0 || selection.isCollapsed) return;
  const range = selection.getRangeAt(0).cloneRange();
  const around = range.commonAncestorContainer;
  const sign = (around.closest ? around : around.parentElement).closest("[data-plain]");
  if (sign) range.selectNode(sign); // a part of one sign, such as a bracket
  const copied = range.cloneContents();
  for (const each of copied.querySelectorAll("[data-plain]")) each.textContent = each.dataset.plain;
  event.clipboardData.setData("text/plain", copied.textContent);
  event.preventDefault();
}

/** The list of tokens, one stop of the tab key, and a line about the one pointed at or chosen. */
export function tokenView({ merges, shortId }) {
  const activeId = freshId("token");
  const detail = element("p", { class: "attn-note attn-token-detail" }, HINT);
  const list = element("div", {
    class: "attn-token-list",
    role: "listbox",
    tabindex: 0,
    "aria-label": "Tokens of the text",
    "aria-orientation": "horizontal",
    "aria-describedby": shortId,
  });
  let entries = [];
  let drawn = null; // the history that the entries show
  let chosenByte = 0; // merges come and go; the chosen place in the text stays
  let chosen = null;

  const about = (entry) => {
    const place = `token ${showWhole(entries.indexOf(entry) + 1)} of ${showWhole(entries.length)}`;
    const bytes = tokenBytes(entry.id, merges);
    const parts = (merges[entry.id - 256] ?? []).map((id) => `“${readable(tokenBytes(id, merges))}”`);
    const made = parts.length > 0 ? `, merge ${showWhole(entry.id - 255)}: ${parts.join(" + ")}` : "";
    return `${place}: “${readable(bytes)}”, id ${entry.id}, bytes ${hexBytes(bytes)}${made}`;
  };
  const hasFocus = () => list.getRootNode().activeElement === list;
  const hint = () => (entries.length > 0 ? HINT : "No tokens: the text is empty.");
  const tell = (entry) => setText(detail, entry ? about(entry) : hint());

  const choose = (entry) => {
    if (chosen !== null && chosen !== entry) {
      for (const name of ["id", "aria-selected", "aria-label"]) chosen.piece.removeAttribute(name);
    }
    chosen = entry ?? null;
    if (chosen === null) {
      list.removeAttribute("aria-activedescendant");
      return;
    }
    chosen.piece.id = activeId;
    chosen.piece.setAttribute("aria-selected", "true");
    chosen.piece.setAttribute("aria-label", about(chosen));
    list.setAttribute("aria-activedescendant", activeId);
  };

  /** The token in the line above or below that is nearest from side to side. */
  const inNextLine = (from, step) => {
    const isElsewhere = (a, b) => Math.abs(a.piece.offsetTop - b.piece.offsetTop) > 6;
    const middle = ({ piece }) => piece.offsetLeft + piece.offsetWidth / 2;
    let i = from;
    while (entries[i] && !isElsewhere(entries[i], entries[from])) i += step;
    let best = entries[i] ? i : from;
    for (let j = best; entries[j] && !isElsewhere(entries[j], entries[best]); j += step) {
      const distance = (k) => Math.abs(middle(entries[k]) - middle(entries[from]));
      if (distance(j) < distance(best)) best = j;
    }
    return best;
  };
  const target = (key, at) => {
    const onwards = list.dir === "rtl" ? "ArrowLeft" : "ArrowRight";
    if (key === "ArrowLeft" || key === "ArrowRight") return at + (key === onwards ? 1 : -1);
    if (key === "ArrowDown") return inNextLine(at, 1);
    if (key === "ArrowUp") return inNextLine(at, -1);
    return { Home: 0, End: entries.length - 1 }[key];
  };
  list.addEventListener("keydown", (event) => {
    const to = event.ctrlKey || event.metaKey || event.altKey || chosen === null
      ? undefined : target(event.key, entries.indexOf(chosen));
    if (to === undefined) return;
    event.preventDefault();
    const entry = entries[Math.min(Math.max(to, 0), entries.length - 1)];
    chosenByte = entry.start;
    choose(entry);
    tell(entry);
    entry.piece.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  const entryOf = (event) => {
    const piece = event.target.closest?.(".attn-token");
    return piece ? entries.find((entry) => entry.piece === piece) : undefined;
  };
  list.addEventListener("click", (event) => {
    const entry = entryOf(event);
    if (entry === undefined) return;
    chosenByte = entry.start;
    choose(entry);
    tell(entry);
  });
  list.addEventListener("pointerover", (event) => {
    const entry = entryOf(event);
    if (entry) tell(entry);
  });
  list.addEventListener("pointerleave", () => tell(hasFocus() ? chosen : null));
  list.addEventListener("focus", () => tell(chosen));
  list.addEventListener("blur", () => tell(null));
  list.addEventListener("copy", copyPlainText);

  /** The entries for other tokens: those with the same bounds stay, with all that is drawn. */
  const update = (history, starts, ids) => {
    let i = 0;
    const made = ids.map((id, j) => {
      const [start, end] = [starts[j], starts[j + 1]];
      for (; i < entries.length && entries[i].start < start; i += 1) remove(entries[i]);
      if (entries[i]?.start === start && entries[i].end === end) {
        i += 1;
        return entries[i - 1];
      }
      const entry = makeEntry(history, start, end, id, list.dir);
      for (const node of entry.nodes) list.insertBefore(node, entries[i]?.nodes[0] ?? null);
      return entry;
    });
    for (; i < entries.length; i += 1) remove(entries[i]);
    return made;
  };

  /** After a change of the text: the tokens before and behind it are as they were. */
  const keepEnds = (ids, end) => {
    const [first, last] = commonEnds(entries, ids);
    const shift = end - (entries.at(-1)?.end ?? 0);
    const behind = entries.slice(entries.length - last);
    entries.slice(first, entries.length - last).forEach(remove);
    for (const entry of behind) {
      entry.start += shift;
      entry.end += shift;
    }
    entries = [...entries.slice(0, first), ...behind];
  };

  return {
    nodes: [list, detail],
    draw(history, { starts, ids }, n) {
      if (drawn !== history) {
        const direction = directionOf(new TextDecoder().decode(history.bytes));
        if (list.dir !== direction) {
          entries.forEach(remove);
          entries = [];
          list.dir = direction;
        }
        keepEnds(ids, starts.at(-1));
        drawn = history;
      }
      entries = update(history, starts, ids);
      for (const entry of entries) {
        const isNew = entry.id === 255 + n && n > 0;
        if (isNew !== (entry.isNew ?? false)) entry.piece.classList.toggle("attn-token-new", isNew);
        entry.isNew = isNew;
      }
      choose(entries.findLast(({ start }) => start <= chosenByte));
      if (hasFocus()) tell(chosen);
      else setText(detail, hint());
    },
  };
}
