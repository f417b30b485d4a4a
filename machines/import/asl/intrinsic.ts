// Intrinsic functions of the Amazon States Language as CEL. A function that is random, parses JSON or computes a hash has no equivalent.
import type { Json } from "../../values/json.js";
import { literal, quoted } from "../cel.js";
import { NoEquivalent } from "../report.js";
import { type PathScope, pathToCel } from "./path.js";

/** `text`: gives text, and is written best as a template of these parts. */
export type Written =
  | { readonly kind: "cel"; readonly cel: string }
  | { readonly kind: "text"; readonly parts: readonly (string | { readonly cel: string })[] };

type Node =
  | { readonly kind: "call"; readonly name: string; readonly args: readonly Node[] }
  | { readonly kind: "path"; readonly path: string }
  | { readonly kind: "literal"; readonly value: Json };

class Reader {
  private at = 0;
  constructor(private readonly text: string) {}

  whole(): Node {
    const node = this.node();
    this.space();
    if (this.at !== this.text.length) throw this.wrong();
    return node;
  }

  private node(): Node {
    this.space();
    const rest = this.text.slice(this.at);
    if (rest.startsWith("'")) return { kind: "literal", value: this.string() };
    const call = /^(States\.[A-Za-z0-9]+)\s*\(/.exec(rest);
    if (call) return this.call(call[1] ?? "", call[0].length);
    if (rest.startsWith("$")) return { kind: "path", path: this.path() };
    const word = /^(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)/.exec(rest);
    if (!word) throw this.wrong();
    this.at += word[0].length;
    return { kind: "literal", value: JSON.parse(word[0]) as Json };
  }

  private call(name: string, length: number): Node {
    this.at += length;
    const args: Node[] = [];
    for (this.space(); this.text[this.at] !== ")"; this.space()) {
      args.push(this.node());
      this.space();
      if (this.text[this.at] === ",") this.at++;
      else if (this.text[this.at] !== ")") throw this.wrong();
    }
    this.at++;
    return { kind: "call", name, args };
  }

  /** In single quotes, where a backslash takes the next character as it is. */
  private string(): string {
    let value = "";
    for (this.at++; this.text[this.at] !== "'"; this.at++) {
      if (this.at >= this.text.length) throw this.wrong();
      if (this.text[this.at] === "\\") {
        const taken = this.text[this.at + 1] ?? "";
        if (!/['{}\\]/.test(taken)) throw this.wrong();
        // Format looks for braces itself, and needs to see which are escaped.
        if (!/[{}]/.test(taken)) this.at++;
      }
      value += this.text[this.at] ?? "";
    }
    this.at++;
    return value;
  }

  /** Up to a comma or parenthesis that is in no bracket. */
  private path(): string {
    const from = this.at;
    for (let depth = 0; this.at < this.text.length; this.at++) {
      const letter = this.text[this.at] ?? "";
      if (letter === "[") depth++;
      else if (letter === "]") depth--;
      else if (depth === 0 && /[,)\s]/.test(letter)) break;
    }
    return this.text.slice(from, this.at);
  }

  private space(): void {
    while (/\s/.test(this.text[this.at] ?? "")) this.at++;
  }

  private wrong(): NoEquivalent {
    return new NoEquivalent(this.text, `it is no intrinsic function (at character ${this.at + 1})`);
  }
}

export const isIntrinsic = (text: string): boolean => text.startsWith("States.");

/** Throws NoEquivalent. */
export function intrinsicOf(text: string, scope: PathScope): Written {
  return write(new Reader(text).whole(), scope);
}

function write(node: Node, scope: PathScope): Written {
  if (node.kind === "path") return { kind: "cel", cel: pathToCel(node.path, scope) };
  if (node.kind === "literal") return { kind: "cel", cel: literal(plain(node.value)) };
  if (node.name === "States.Format") return formatOf(node.args, scope);
  if (node.name === "States.JsonToString") return jsonText(celOfNode(node.args[0], scope));
  const make = Object.hasOwn(FUNCTIONS, node.name) ? FUNCTIONS[node.name] : undefined;
  if (typeof make !== "function") throw new NoEquivalent(`the function ${node.name}`, make ?? "it is not known");
  return {
    kind: "cel",
    cel: make(
      node.args.map((arg) => celOfNode(arg, scope)),
      node.args,
    ),
  };
}

/** A brace that was escaped for Format is a brace elsewhere. */
const plain = (value: Json): Json => (typeof value === "string" ? value.replace(/\\([{}])/g, "$1") : value);

function celOfNode(node: Node | undefined, scope: PathScope): string {
  if (!node) throw new NoEquivalent("an intrinsic function", "an argument is missing");
  return celOfWritten(write(node, scope));
}

/** As one expression. `%s` writes texts, numbers, booleans and null as a template does, but not objects. */
export function celOfWritten(written: Written): string {
  if (written.kind === "cel") return written.cel;
  const cels = written.parts.flatMap((part) => (typeof part === "string" ? [] : [part.cel]));
  if (cels.some((cel) => cel.startsWith(JSON_TEXT)))
    throw new NoEquivalent(
      "the function States.JsonToString inside another one",
      "CEL has no text of JSON; only a template has",
    );
  const text = written.parts.map((part) => (typeof part === "string" ? part.replaceAll("%", "%%") : "%s")).join("");
  return `${quoted(text)}.format([${cels.join(", ")}])`;
}

const JSON_TEXT = "dyn(type(";

/** JSON as text: a template writes any value but a string so. */
const jsonText = (cel: string): Written => ({
  kind: "text",
  parts: [{ cel: `${JSON_TEXT}${cel}) == string ? strings.quote(${cel}) : ${cel})` }],
});

function formatOf(args: readonly Node[], scope: PathScope): Written {
  const [format, ...values] = args;
  if (format?.kind !== "literal" || typeof format.value !== "string")
    throw new NoEquivalent("States.Format", "its first argument is computed");
  const texts = format.value.split(/(?<!\\)\{\}/).map((text) => text.replace(/\\([{}])/g, "$1"));
  if (texts.length !== values.length + 1)
    throw new NoEquivalent("States.Format", "it has another number of values than of braces");
  const parts = texts.flatMap((text, index): (string | { cel: string })[] => {
    const value = values[index];
    if (!value) return [text];
    const written = write(value, scope);
    return written.kind === "text" ? [text, ...written.parts] : [text, { cel: written.cel }];
  });
  return { kind: "text", parts: parts.filter((part) => part !== "") };
}

/** Fails for a text or an object, which `size` and `in` take, too. */
const listed = (cel: string): string => `${cel}.slice(0, size(${cel}))`;

const NO_PARSER = "CEL does not parse JSON: let the action that gives the text give the object";
const RANDOM = "expressions are not random: the same run decides the same on every node";

/** What makes the CEL of arguments, or why there is none. */
const FUNCTIONS: Readonly<Record<string, string | ((args: readonly string[], nodes: readonly Node[]) => string)>> = {
  "States.StringToJson": NO_PARSER,
  "States.MathRandom": RANDOM,
  "States.UUID": RANDOM,
  "States.Hash": "CEL has no hashes",
  "States.Array": (args) => `[${args.join(", ")}]`,
  "States.ArrayPartition": ([list = "", size = ""]) =>
    `lists.range(int(math.ceil(double(size(${list})) / double(${size})))).map(i, ${list}.slice(i * ${size}, math.least((i + 1) * ${size}, size(${list}))))`,
  "States.ArrayContains": ([list = "", value = ""]) => `(${value} in ${listed(list)})`,
  "States.ArrayRange": ([from = "", to = "", step = "1"]) =>
    `lists.range(int(math.greatest(0, math.floor(double((${to}) - (${from})) / double(${step})) + 1))).map(i, (${from}) + i * (${step}))`,
  "States.ArrayGetItem": ([list = "", index = ""]) => `${list}[${index}]`,
  "States.ArrayLength": ([list = ""]) => `size(${listed(list)})`,
  "States.ArrayUnique": ([list = ""]) => `${list}.distinct()`,
  "States.Base64Encode": ([text = ""]) => `base64.encode(${text})`,
  "States.Base64Decode": ([text = ""]) => `string(base64.decode(${text}))`,
  "States.MathAdd": ([a = "", b = ""]) => `[${a}, ${b}].sum()`,
  "States.JsonMerge": ([a = "", b = ""], nodes) => {
    if (nodes[2]?.kind === "literal" && nodes[2].value === true)
      throw new NoEquivalent("States.JsonMerge", "its deep form is none that the specification has");
    return `[${a}, ${b}].map(m, m.map(k, k)).flatten().distinct().transformMapEntry(i, k, {k: k in ${b} ? ${b}[k] : ${a}[k]})`;
  },
  "States.StringSplit": ([text = "", by = ""], nodes) => {
    const separator = nodes[1]?.kind === "literal" ? nodes[1].value : undefined;
    if (typeof separator !== "string" || [...separator].length !== 1)
      throw new NoEquivalent("States.StringSplit", "it splits at one constant character here");
    return `${text}.split(${by}).filter(x, x != '')`;
  },
};
