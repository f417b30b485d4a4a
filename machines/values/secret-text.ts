// Secret values in JSON text: masked for those who read it, or plain for workers. It reads the text once and parses nothing, because most
// text has no secret value, and what has some may be megabytes. secret.ts has the format.
import { MASK } from "./secret.js";

/** In JSON this text is a name and never part of a value: there, its quotes would be escaped. */
const MARKS = /\{\s*"(\$secret|\$enc)"\s*:\s*/g;
const QUOTED_MASK = JSON.stringify(MASK);

/** Cheap, and true for any text that has a secret or an encrypted value. */
export function mayHoldSecrets(text: string): boolean {
  return text.includes('"$secret"') || text.includes('"$enc"');
}

/** The JSON text with a mask in the place of each secret or encrypted value. */
export function maskedText(text: string): string {
  return mayHoldSecrets(text) ? rewritten(text, () => QUOTED_MASK) : text;
}

/** The JSON text with each secret value in the place of its mark. Encrypted values stay. */
export function revealedText(text: string): string {
  if (!text.includes('"$secret"')) return text;
  return rewritten(text, (name, whole, inner) => (name === "$secret" ? revealedText(inner) : whole));
}

type Rewrite = (name: string, whole: string, inner: string) => string;

function rewritten(text: string, of: Rewrite): string {
  let written = "";
  let from = 0;
  MARKS.lastIndex = 0;
  for (let match = MARKS.exec(text); match; match = MARKS.exec(text)) {
    const begin = match.index + match[0].length;
    const end = endOfValue(text, begin);
    const close = skipBlanks(text, end);
    // Beside another member it is no mark.
    if (text[close] !== "}" || (match[1] === "$enc" && text[begin] !== "{")) continue;
    const [whole, inner] = [text.slice(match.index, close + 1), text.slice(begin, end)];
    written += text.slice(from, match.index) + of(match[1] as string, whole, inner);
    from = close + 1;
    // Inner texts were rewritten with the same expression.
    MARKS.lastIndex = from;
  }
  return from === 0 ? text : written + text.slice(from);
}

function skipBlanks(text: string, from: number): number {
  let at = from;
  while (at < text.length && " \t\r\n".includes(text[at] as string)) at++;
  return at;
}

/** Behind the value that begins there. */
function endOfValue(text: string, begin: number): number {
  let depth = 0;
  for (let at = begin; at < text.length; at++) {
    const char = text[at];
    if (char === '"') {
      at = endOfString(text, at);
      if (depth === 0) return at + 1;
    } else if (char === "{" || char === "[") depth++;
    else if (char === "}" || char === "]") {
      if (depth === 0) return at;
      if (--depth === 0) return at + 1;
    } else if (depth === 0 && (char === "," || " \t\r\n".includes(char as string))) return at;
  }
  return text.length;
}

/** Where the string that begins there is closed. */
function endOfString(text: string, begin: number): number {
  for (let at = begin + 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"') return at;
  }
  return text.length;
}
