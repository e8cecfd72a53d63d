// The explorers of a static page, without a kernel: each is mounted on a stand-in for its model.

import * as alignment from "./alignment.mjs";
import * as attentionMaps from "./attention-maps.mjs";
import * as cost from "./cost.mjs";
import * as generationTimes from "./generation-times.mjs";
import * as heads from "./heads.mjs";
import * as jacobian from "./jacobian.mjs";
import * as keyValueHeads from "./key-value-heads.mjs";
import * as latentForms from "./latent-forms.mjs";
import * as mask from "./mask.mjs";
import * as neighbours from "./neighbours.mjs";
import * as nextToken from "./next-token.mjs";
import * as rotary from "./rotary.mjs";
import * as scoreSpread from "./score-spread.mjs";
import * as sinusoidal from "./sinusoidal.mjs";
import * as softLookup from "./soft-lookup.mjs";
import * as softmax from "./softmax.mjs";
import * as tokens from "./tokens.mjs";
import * as whatFits from "./what-fits.mjs";
import { addressOf, parseFragment } from "./share.mjs";

const explorers = {
  softmax, "soft-lookup": softLookup, tokens, neighbours, sinusoidal, rotary,
  "score-spread": scoreSpread, jacobian, mask, heads, "attention-maps": attentionMaps,
  alignment, "next-token": nextToken, cost, "generation-times": generationTimes,
  "key-value-heads": keyValueHeads, "latent-forms": latentForms, "what-fits": whatFits,
};

/** As much of an anywidget model as an explorer uses. */
export function pageModel(state) {
  const values = { ...state };
  const listeners = new Map();
  return {
    get: (key) => values[key],
    set(key, value) {
      values[key] = value;
      for (const listener of listeners.get(`change:${key}`) ?? []) listener();
    },
    save_changes() {}, // there is no kernel to save to
    on(event, listener) {
      listeners.set(event, [...(listeners.get(event) ?? []), listener]);
    },
    off(event, listener) {
      listeners.set(event, (listeners.get(event) ?? []).filter((other) => other !== listener));
    },
  };
}

/**
 * Mounts every `<div class="attn-explorer" data-explorer="NAME">` that holds its state as JSON.
 * Until then, and without JavaScript, the div shows the picture in words.
 */
export function mountAll(root = document) {
  const seen = {};
  const linked = parseFragment(window.location.hash);
  let target = null;
  for (const el of root.querySelectorAll(".attn-explorer[data-explorer]")) {
    const name = el.dataset.explorer;
    seen[name] = (seen[name] ?? 0) + 1;
    const id = seen[name] === 1 ? name : `${name}.${seen[name]}`;
    if (el.dataset.mounted !== undefined) continue;
    const { render, fields } = explorers[name] ?? {};
    const saved = el.querySelector('script[type="application/json"]');
    if (render === undefined || saved === null) continue;
    el.dataset.mounted = id;
    try {
      const state = JSON.parse(saved.textContent);
      render({ model: pageModel(state), el, address: addressOf(id, fields, state.initial) });
    } catch (error) {
      console.error(`The explorer ${id} could not be drawn; its words stand in its place.`, error);
      continue;
    }
    if (linked.has(id)) target ??= el;
  }
  target?.scrollIntoView();
}
