// Templates: JSON values whose strings may contain `${ CEL }`, compiled once and rendered with a scope. A string that is one whole
// template keeps the type of its value; a value without templates renders as itself.
import { FORBIDDEN_NAMES, type Json, type JsonObject } from "../values/json.js";
import { evaluation } from "./border.js";
import { type CelExpression, compileExpression } from "./compile.js";
import { ExpressionSyntaxError } from "./errors.js";
import { takeResultChars } from "./fuel.js";
import { asText } from "./result.js";
import { closingBrace } from "./scan.js";
import type { Scope } from "./values.js";

const MAX_DEPTH = 100;

export interface Template {
  /** As it was written. */
  readonly source: Json;
  /** There is no expression inside: `render` always returns the same object and cannot fail. */
  readonly constant: boolean;
  readonly references: ReadonlySet<string>;
  /** The members of `vars` that it reads by name, without those that it tests for. */
  readonly variables: ReadonlySet<string>;
  readonly warnings: readonly string[];
  /** The least cost of one rendering, in units of the step budget. */
  readonly weight: number;
  /** Throws ExpressionError. All expressions inside share one step budget. */
  render(scope: Scope): Json;
}

/** Renders a value that is not constant. */
type Render = (scope: Scope) => Json;
type Node = { readonly constant: Json } | { readonly render: Render; readonly weight: number };

/** Throws ExpressionSyntaxError. Its position is an offset into the faulty string, and its message names that string's place. */
export function compileTemplate(value: Json): Template {
  if (typeof value === "string") {
    const whole = wholeExpression(value);
    if (whole !== undefined) return new Whole(value, whole);
  }
  const expressions: CelExpression[] = [];
  const node = compileNode(value, expressions, [], 0);
  return new Composite(value, node, expressions);
}

/** The common case, a string that is one template. The result has no other part, so it needs no bound of its own. */
class Whole implements Template {
  readonly constant = false;
  constructor(
    readonly source: Json,
    private readonly expression: CelExpression,
  ) {}

  get references(): ReadonlySet<string> {
    return this.expression.references;
  }

  get variables(): ReadonlySet<string> {
    return this.expression.variables;
  }

  get warnings(): readonly string[] {
    return this.expression.warnings;
  }

  get weight(): number {
    return this.expression.weight;
  }

  render(scope: Scope): Json {
    return this.expression.evaluate(scope);
  }
}

class Composite implements Template {
  readonly constant: boolean;
  readonly references: ReadonlySet<string>;
  readonly variables: ReadonlySet<string>;
  readonly warnings: readonly string[];
  readonly weight: number;

  constructor(
    readonly source: Json,
    private readonly node: Node,
    expressions: readonly CelExpression[],
  ) {
    this.constant = "constant" in node;
    this.references = new Set(expressions.flatMap((expression) => [...expression.references]));
    this.variables = new Set(expressions.flatMap((expression) => [...expression.variables]));
    this.warnings = expressions.flatMap((expression) => expression.warnings);
    this.weight = weightOf(node);
  }

  render(scope: Scope): Json {
    const node = this.node;
    return "constant" in node ? node.constant : evaluation(() => node.render(scope));
  }
}

function compileNode(value: Json, found: CelExpression[], path: readonly string[], depth: number): Node {
  if (depth > MAX_DEPTH) throw new ExpressionSyntaxError("the template is nested too deeply");
  if (typeof value === "string") return compileText(value, found, path);
  if (typeof value !== "object" || value === null) return { constant: value };
  if (Array.isArray(value)) return compileList(value, found, path, depth);
  return compileObject(value as JsonObject, found, path, depth);
}

function compileList(list: readonly Json[], found: CelExpression[], path: readonly string[], depth: number): Node {
  const nodes = list.map((item, index) => compileNode(item, found, [...path, `[${index}]`], depth + 1));
  if (nodes.every((node, index) => "constant" in node && node.constant === list[index])) return { constant: list };
  const items = nodes.map(toRender);
  const render = (scope: Scope) => items.map((item) => item(scope));
  return nodes.every((node) => "constant" in node) ? { constant: render({}) } : { render, weight: weightOf(...nodes) };
}

function compileObject(object: JsonObject, found: CelExpression[], path: readonly string[], depth: number): Node {
  const names = Object.keys(object);
  const nodes = names.map((name) => compileNode(object[name] ?? null, found, [...path, `.${name}`], depth + 1));
  const same = (node: Node, index: number) =>
    "constant" in node && node.constant === (object[names[index] ?? ""] ?? null);
  if (nodes.every(same)) return { constant: object };
  const forbidden = names.find((name) => FORBIDDEN_NAMES.has(name));
  if (forbidden !== undefined)
    throw new ExpressionSyntaxError(`"${forbidden}" is not allowed as a member name in a template`);
  const members = names.map((name, index) => [name, toRender(nodes[index] ?? { constant: null })] as const);
  const render = (scope: Scope) => {
    const rendered: Record<string, Json> = {};
    for (const [name, member] of members) rendered[name] = member(scope);
    return rendered;
  };
  return nodes.every((node) => "constant" in node) ? { constant: render({}) } : { render, weight: weightOf(...nodes) };
}

/** A rendering writes every member of a value with templates; values without templates are returned as they are. */
function weightOf(...nodes: readonly Node[]): number {
  return nodes.reduce((sum, node) => sum + 1 + ("constant" in node ? 0 : node.weight), 0);
}

function toRender(node: Node): Render {
  return "constant" in node ? () => node.constant : node.render;
}

type Part = string | { readonly source: string; readonly offset: number };

function compileText(text: string, found: CelExpression[], path: readonly string[]): Node {
  if (!text.includes("${")) return { constant: text };
  const parts = within(path, () =>
    split(text).map((part) => {
      if (typeof part === "string") return part;
      const expression = compileAt(part);
      found.push(expression);
      return expression;
    }),
  );
  const [first] = parts;
  if (parts.length === 1 && first !== undefined && typeof first !== "string") {
    return { render: (scope) => first.evaluate(scope), weight: first.weight };
  }
  if (parts.every((part) => typeof part === "string")) return { constant: parts.join("") };
  const weight = parts.reduce((sum, part) => sum + (typeof part === "string" ? part.length >>> 6 : part.weight), 1);
  return { render: (scope) => interpolate(parts, scope), weight };
}

function interpolate(parts: readonly (string | CelExpression)[], scope: Scope): string {
  let text = "";
  for (const part of parts) {
    const piece = typeof part === "string" ? part : asText(part.evaluate(scope));
    takeResultChars(piece.length);
    text += piece;
  }
  return text;
}

function wholeExpression(text: string): CelExpression | undefined {
  if (!text.startsWith("${") || !text.endsWith("}")) return undefined;
  const [part, ...others] = split(text);
  return part === undefined || typeof part === "string" || others.length > 0 ? undefined : compileAt(part);
}

/** Splits a string into its texts, with escapes resolved, and its expressions. */
function split(text: string): Part[] {
  const parts: Part[] = [];
  let literal = "";
  let index = 0;
  while (index < text.length) {
    if (text.startsWith("$${", index)) {
      literal += "${";
      index += 3;
    } else if (text.startsWith("${", index)) {
      const close = closingBrace(text, index + 2);
      if (close === undefined) throw new ExpressionSyntaxError("a template is not closed", index);
      if (literal !== "") parts.push(literal);
      literal = "";
      parts.push({ source: text.slice(index + 2, close), offset: index + 2 });
      index = close + 1;
    } else {
      const next = text.indexOf("$", index + 1);
      const end = next === -1 ? text.length : next;
      literal += text.slice(index, end);
      index = end;
    }
  }
  if (literal !== "") parts.push(literal);
  return parts;
}

/** Trims the source, so that `${ a }` and `${a}` share a plan. */
function compileAt({ source, offset }: Exclude<Part, string>): CelExpression {
  const trimmed = source.trimStart();
  try {
    return compileExpression(trimmed.trimEnd());
  } catch (error) {
    if (!(error instanceof ExpressionSyntaxError) || error.position === undefined) throw error;
    throw new ExpressionSyntaxError(error.message, offset + (source.length - trimmed.length) + error.position);
  }
}

/** Adds the place in a nested value to the message of a syntax error. */
function within<T>(path: readonly string[], work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof ExpressionSyntaxError) || path.length === 0) throw error;
    const place = path.join("").replace(/^\./, "");
    throw new ExpressionSyntaxError(`${place}: ${error.message}`, error.position);
  }
}
