// How values are printed as TypeScript: literals, objects, names. What they are values of is not known here.
import type { Json } from "./value.js";

/** A part of a module: its text, and the value that the text has. */
export interface Piece {
  readonly source: string;
  readonly value: unknown;
}

const WIDTH = 100;
const PLAIN = /^[A-Za-z_$][\w$]*$/;
/** Words that cannot be the name of a constant, and names that the module imports. */
const TAKEN =
  /^(actions|arguments|await|break|case|catch|cel|class|const|continue|debugger|default|defineAction|delete|do|else|enum|eval|export|extends|false|finally|for|fromDocument|function|if|implements|import|in|instanceof|interface|let|new|null|package|pinned|private|protected|public|return|saga|static|super|switch|text|this|throw|true|try|typeof|undefined|var|void|while|with|yield)$/;

/** `order-fulfilment` is `orderFulfilment`. */
export function identifier(name: string): string {
  const words = name.replace(/[^\w$]+([A-Za-z0-9]?)/g, (_, letter: string) => letter.toUpperCase());
  const plain = PLAIN.test(words) ? words : `_${words}`;
  return TAKEN.test(plain) ? `${plain}_` : plain;
}

/** A plain `__proto__` would set the prototype. */
export const memberName = (name: string): string =>
  name === "__proto__" ? '["__proto__"]' : PLAIN.test(name) ? name : quoted(name);

/** These two end a line in old readers of JavaScript, and never in JSON. */
const quoted = (value: unknown) =>
  JSON.stringify(value).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");

export function literal(json: Json): string {
  if (Array.isArray(json)) return within("[", "]", json.map(literal));
  if (typeof json !== "object" || json === null) return quoted(json);
  return within(
    "{ ",
    " }",
    Object.entries(json).map(([name, member]) => `${memberName(name)}: ${literal(member)}`),
  );
}

function within(open: string, close: string, parts: readonly string[]): string {
  if (parts.length === 0) return open.trim() + close.trim();
  const line = open + parts.join(", ") + close;
  if (line.length <= WIDTH && !line.includes("\n")) return line;
  return `${open.trim()}\n${parts.map((part) => `  ${part.replaceAll("\n", "\n  ")},\n`).join("")}${close.trim()}`;
}

/** The texts are read late: that of a block is there once the block has been called. */
export function object(parts: readonly (readonly [name: string, piece: Piece])[]): Piece {
  return {
    get source() {
      return within(
        "{ ",
        " }",
        parts.map(([name, { source }]) => (source === name ? name : `${memberName(name)}: ${source}`)),
      );
    },
    value: Object.fromEntries(parts.map(([name, { value }]) => [name, value])),
  };
}

export function list(parts: readonly Piece[]): Piece {
  return {
    get source() {
      return within(
        "[",
        "]",
        parts.map(({ source }) => source),
      );
    },
    value: parts.map(({ value }) => value),
  };
}

/** What a method is given: on one line, or with the last one laid out, or all of them on lines of their own. */
export function argumentsOf(pieces: readonly Piece[]): string {
  const parts = pieces.map(({ source }) => source);
  const line = `(${parts.join(", ")})`;
  const isShort =
    (line.split("\n")[0] ?? "").length <= WIDTH && !parts.slice(0, -1).some((part) => part.includes("\n"));
  return isShort ? line : within("(", ")", parts);
}

/** A function from a chain to a chain. */
export function blockOf(calls: readonly string[]): string {
  if (calls.length === 0) return "(b) => b";
  const [only = ""] = calls;
  if (calls.length === 1) return `(b) => b${only}`;
  return `(b) =>\n  b${calls.map((call) => `\n    ${call.replaceAll("\n", "\n    ")}`).join("")}`;
}

export function sameJson(left: unknown, right: unknown): boolean {
  if (typeof left !== "object" || left === null || typeof right !== "object" || right === null)
    return Object.is(left, right);
  if (Array.isArray(left) !== Array.isArray(right)) return false;
  const [names, others] = [Object.keys(left), Object.keys(right)];
  return (
    names.length === others.length &&
    names.every(
      (name) =>
        Object.hasOwn(right, name) &&
        sameJson((left as Record<string, unknown>)[name], (right as Record<string, unknown>)[name]),
    )
  );
}

/** A template in its texts and expressions: one text more than there are expressions. Braces in quotes do not count. */
export function wordsOf(template: string): {
  readonly texts: readonly string[];
  readonly expressions: readonly string[];
} {
  const texts = [""];
  const expressions: string[] = [];
  for (let at = 0; at < template.length; ) {
    if (template.startsWith("$${", at)) {
      texts.push(`${texts.pop()}\${`);
      at += 3;
    } else if (template.startsWith("${", at)) {
      const end = closing(template, at + 2);
      expressions.push(template.slice(at + 2, end));
      texts.push("");
      at = end + 1;
    } else texts.push(`${texts.pop()}${template[at++]}`);
  }
  return { texts, expressions };
}

/** Where the brace that closes an expression is; the end of the template if there is none. */
function closing(template: string, from: number): number {
  let depth = 0;
  let quote: string | undefined;
  for (let at = from; at < template.length; at++) {
    const char = template[at];
    if (quote !== undefined) {
      if (char === "\\") at++;
      else if (char === quote) quote = undefined;
    } else if (char === '"' || char === "'") quote = char;
    else if (char === "{") depth++;
    else if (char === "}" && depth-- === 0) return at;
  }
  return template.length;
}
