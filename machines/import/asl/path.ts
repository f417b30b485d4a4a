// Paths of the Amazon States Language as CEL: reference paths, and the part of JSONPath that always finds the same values. What may find them in
// another order, or computes, has no equivalent.
import { member, quoted } from "../cel.js";
import { NoEquivalent } from "../report.js";

export type Segment =
  | { readonly kind: "member"; readonly name: string | number }
  | { readonly kind: "all" }
  | { readonly kind: "slice"; readonly from?: number; readonly to?: number }
  | { readonly kind: "filter"; readonly test: string };

/** What a path is relative to: the CEL of `$`, and of the context object and the variables by name. */
export interface PathScope {
  readonly root: string;
  context(path: readonly Segment[], text: string): string;
}

const NAME = /^\.([\p{L}\p{N}_$-]+)/u;
const INDEX = /^\[\s*(\d+)\s*\]/;
const QUOTED = /^\[\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*\]/;
const ALL = /^(?:\[\s*\*\s*\]|\.\*)/;
const SLICE = /^\[\s*(\d*)\s*:\s*(\d*)\s*\]/;
const FILTER = /^\[\?\((.*?)\)\]/;

/** The segments behind `$`, `$$` or `$name`. Throws NoEquivalent. */
export function segmentsOf(text: string, all: string): readonly Segment[] {
  const segments: Segment[] = [];
  let rest = text;
  const take = (pattern: RegExp): RegExpExecArray | null => {
    const found = pattern.exec(rest);
    if (found) rest = rest.slice(found[0].length);
    return found;
  };
  while (rest !== "") {
    if (rest.startsWith("..")) throw new NoEquivalent(`the path ${all}`, "CEL has no descendants (`..`) of a value");
    const all_ = take(ALL);
    if (all_) {
      segments.push({ kind: "all" });
      continue;
    }
    const name = take(NAME) ?? take(QUOTED);
    const index = name ? null : take(INDEX);
    const slice = name || index ? null : take(SLICE);
    const filter = name || index || slice ? null : take(FILTER);
    if (name) segments.push({ kind: "member", name: (name[1] ?? name[2] ?? "").replace(/\\(.)/g, "$1") });
    else if (index) segments.push({ kind: "member", name: Number(index[1]) });
    else if (slice) segments.push(sliceOf(slice));
    else if (filter) segments.push({ kind: "filter", test: filterOf(filter[1] ?? "", all) });
    else throw new NoEquivalent(`the path ${all}`, `nothing in CEL is \`${rest}\``);
  }
  return segments;
}

const sliceOf = ([, from, to]: RegExpExecArray): Segment => ({
  kind: "slice",
  ...(from && { from: Number(from) }),
  ...(to && { to: Number(to) }),
});

const TEST =
  /^\s*@((?:\.[A-Za-z_]\w*|\['[^']*'\])*)\s*(?:(==|!=|<=|>=|<|>)\s*('(?:[^'\\])*'|"(?:[^"\\])*"|-?\d+(?:\.\d+)?|true|false|null)\s*)?$/;

/** A comparison of a member with a literal, or whether it is there. An item without the member never passes. */
function filterOf(text: string, all: string): string {
  const tests = text.split("&&").map((part) => {
    const found = TEST.exec(part);
    if (!found || /\|\|/.test(part))
      throw new NoEquivalent(`the path ${all}`, `its filter \`${text}\` is no comparison`);
    const [, path = "", operator, value = ""] = found;
    const way = segmentsOf(path, all);
    const there = presence("x", way);
    if (operator === undefined) return there;
    const right = /^['"]/.test(value) ? quoted(value.slice(1, -1)) : value;
    const left = way.reduce((of, segment) => member(of, segment.kind === "member" ? segment.name : 0), "x");
    if (operator === "==" || operator === "!=") return `${there} && ${left} ${operator} ${right}`;
    const typed = /^['"]/.test(value) ? `type(${left}) == string` : `(type(${left}) == double || type(${left}) == int)`;
    return `${there} && ${typed} && ${left} ${operator} ${right}`;
  });
  return tests.join(" && ");
}

/** Whether the members are there, one after the other. */
export function presence(root: string, way: readonly Segment[]): string {
  const tests: string[] = [];
  let at = root;
  for (const segment of way) {
    if (segment.kind !== "member") throw new NoEquivalent("IsPresent", "its path may find several values");
    const { name } = segment;
    if (typeof name === "number") tests.push(`type(${at}) == list && size(${at}) > ${name}`);
    else tests.push(`type(${at}) == map && ${quoted(name)} in ${at}`);
    at = member(at, name);
  }
  return tests.length === 0 ? "true" : tests.join(" && ");
}

/** The CEL of segments behind a root. A segment that finds several values makes a list of them, and the rest is taken of each that has it. */
export function celOf(root: string, segments: readonly Segment[], depth = 0): string {
  const at = segments.findIndex(({ kind }) => kind !== "member");
  const straight = at === -1 ? segments : segments.slice(0, at);
  const base = straight.reduce((of, segment) => (segment.kind === "member" ? member(of, segment.name) : of), root);
  const segment = segments[at];
  if (!segment || segment.kind === "member") return base;
  const list = several(base, segment);
  const rest = segments.slice(at + 1);
  if (rest.length === 0) return list;
  const x = `x${depth}`;
  const end = rest.findIndex(({ kind }) => kind !== "member");
  const there = presence(x, end === -1 ? rest : rest.slice(0, end));
  const mapped = `${list}.filter(${x}, ${there}).map(${x}, ${celOf(x, rest, depth + 1)})`;
  return end === -1 ? mapped : `${mapped}.flatten()`;
}

function several(base: string, segment: Exclude<Segment, { kind: "member" }>): string {
  switch (segment.kind) {
    case "all":
      return `(type(${base}) == map ? ${base}.transformList(k, v, v) : ${base}.slice(0, size(${base})))`;
    case "slice": {
      const { from = 0, to } = segment;
      const end = to === undefined ? `size(${base})` : `math.least(${to}, size(${base}))`;
      return `${base}.slice(math.least(${from}, ${end}), ${end})`;
    }
    case "filter":
      return `${base}.filter(x, ${segment.test})`;
  }
}

/** The CEL of a path. Throws NoEquivalent. */
export function pathToCel(text: string, scope: PathScope): string {
  if (!text.startsWith("$")) throw new NoEquivalent(`the path ${text}`, "it does not begin with $");
  if (text.startsWith("$$")) return scope.context(segmentsOf(text.slice(2), text), text);
  if (/^\$[A-Za-z_]/.test(text))
    throw new NoEquivalent(`the variable ${text}`, "variables of JSONPath states are not imported");
  return celOf(scope.root, segmentsOf(text.slice(1), text));
}

/** The names of a reference path, which a ResultPath sets. Throws NoEquivalent. */
export function namesOf(text: string): readonly string[] {
  if (!text.startsWith("$") || text.startsWith("$$"))
    throw new NoEquivalent(`the ResultPath ${text}`, "it is no place in the data of the state");
  return segmentsOf(text.slice(1), text).map((segment) => {
    if (segment.kind === "member" && typeof segment.name === "string") return segment.name;
    throw new NoEquivalent(`the ResultPath ${text}`, "it sets an item of a list, and no step does");
  });
}
