// Bytes of UTF-8 as readable signs: what is invisible or only a part of a character gets a name.

const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;
const COMBINING = /\p{M}/u;
const SIGNS = { " ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥" };
const WIDTHS = [[0xf0, 4], [0xe0, 3], [0xc0, 2], [0, 1]];

const hex = (byte) => byte.toString(16).toUpperCase().padStart(2, "0");

/** "6E 61": bytes as everyone writes them. */
export const hexBytes = (bytes) => Array.from(bytes, hex).join(" ");

// It would swallow U+FEFF at the beginning, and put U+FFFD for what is no character.
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The character that begins at a byte, and its width; undefined where none is complete. */
function characterAt(bytes, at) {
  const width = WIDTHS.find(([least]) => bytes[at] >= least)[1];
  try {
    return [strict.decode(Uint8Array.from(bytes.slice(at, at + width))), width];
  } catch {
    return undefined;
  }
}

/**
 * The parts of a token, given by its place among a text's bytes: [what is shown, what it stands
 * for, whether it is only a sign for that]. A character that several tokens share is stood for by
 * the one with its first byte.
 */
export function readableParts(bytes, start = 0, end = bytes.length) {
  const parts = [];
  let broken = [];
  let plain = "";
  const endBroken = () => {
    if (broken.length > 0) parts.push([`⟨${hexBytes(broken)}⟩`, plain, true]);
    broken = [];
    plain = "";
  };
  for (let at = start; at < end;) {
    const [character, width] = characterAt(bytes, at) ?? ["", 1];
    if (character === "" || at + width > end) {
      broken.push(bytes[at]);
      plain += character;
      at += 1;
      continue;
    }
    endBroken();
    addCharacter(parts, character);
    at += width;
  }
  endBroken();
  return parts;
}

function addCharacter(parts, character) {
  const last = parts.at(-1);
  const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  if (SIGNS[character] !== undefined) parts.push([SIGNS[character], character, true]);
  else if (INVISIBLE.test(character)) parts.push([`⟨U+${code}⟩`, character, true]);
  else if (last === undefined || last[2]) {
    // A mark that begins a token would climb onto what stands before it.
    parts.push([COMBINING.test(character) ? `◌${character}` : character, character, false]);
  } else {
    last[0] += character;
    last[1] += character;
  }
}

export const readable = (bytes) => readableParts(bytes).map(([shown]) => shown).join("");
