// The state in the address: #softmax:tau=0.5;d=64&soft-lookup:h=0.3
//
// Each explorer of a page has a part of its own, named after it (the second softmax is softmax.2),
// so they do not overwrite one another. The entry in the history is replaced, never added, so the
// back button leaves the page as it should.

import { parseFields, writeFields } from "./state.mjs";

const PART = /^([a-z][a-z-]*(?:\.\d+)?):(.*)$/;
const PAUSE_MS = 250; // browsers limit how often a page may write its address

/** The parts of a fragment by explorer; anything else in it (a heading's anchor) is left out. */
export function parseFragment(hash) {
  let text = hash.replace(/^#/, "");
  try {
    text = decodeURIComponent(text);
  } catch {
    return new Map(); // a stray % is no link of ours
  }
  const parts = text.split("&").map((part) => PART.exec(part)).filter(Boolean);
  return new Map(parts.map(([, id, rest]) => [id, rest]));
}

/** The fragment with one explorer's part set, or removed where the part is empty. */
export function withPart(hash, id, part) {
  const parts = parseFragment(hash);
  if (part === "") parts.delete(id);
  else parts.set(id, part);
  return [...parts].map(([name, rest]) => `${name}:${rest}`).join("&");
}

/** Reads and writes one explorer's part of the address of a page. */
export function addressOf(id, fields, initial, page = window) {
  let timer = 0;
  let pending = null;

  const flush = () => {
    page.clearTimeout(timer);
    if (pending === null) return;
    const { pathname, search, hash } = page.location;
    const fragment = withPart(hash, id, writeFields(pending, initial, fields));
    const hadPart = parseFragment(hash).has(id);
    pending = null;
    if (fragment === "" && !hadPart) return; // a heading's anchor stays as it is
    const address = pathname + search + (fragment === "" ? "" : `#${fragment}`);
    try {
      page.history.replaceState(page.history.state, "", address);
    } catch {
      // Some frames may not write their address; the explorer works without.
    }
  };

  return {
    flush,
    read: () => {
      const part = parseFragment(page.location.hash).get(id);
      return part === undefined ? null : parseFields(part, initial, fields);
    },
    write: (state) => {
      pending = state;
      page.clearTimeout(timer);
      timer = page.setTimeout(flush, PAUSE_MS);
    },
    link: (state) => {
      pending = state;
      flush();
      const base = page.location.href.split("#")[0];
      return `${base}#${id}:${writeFields(state, initial, fields)}`;
    },
  };
}

/** Puts a text on the clipboard; false where the browser lets no page do so. */
export async function copyText(text, page = window) {
  try {
    await page.navigator.clipboard.writeText(text);
    return true;
  } catch {
    const box = page.document.createElement("textarea");
    box.value = text;
    box.style.position = "fixed";
    page.document.body.append(box);
    box.select();
    const copied = page.document.execCommand("copy");
    box.remove();
    return copied;
  }
}
