// Templates: JSON values whose strings may contain `${ CEL }`, compiled once and rendered with a scope. A string that is one whole
// template keeps the type of its value; a value without templates renders as itself.
import { FORBIDDEN_NAMES, type Json, type JsonObject } from "../values/json.js";
import { secret } from "../values/secret.js";
import { evaluation } from "./border.js";
import { CelExpression } from "./compile.js";
import { ExpressionSyntaxError } from "./errors.js";
import { takeResultChars } from "./fuel.js";
import { asText, isSecretText } from "./result.js";
import { closingBrace } from "./scan.js";
import type { Scope } from "./values.js";

const MAX_DEPTH = 100;

export interface Template {
  /** The template as it was written. */
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
  /** As `render`, for an attribute that is a number: an exact decimal is written back as one. */
  renderNumber(scope: Scope): Json;
}

/** Renders a value that is not constant. */
type Render = (scope: Scope) => Json;
type Node = { readonly constant: Json } | { readonly render: Render; readonly weight: () => number };

/** The place of a value in the template, the innermost step first. There may be thousands, and few are ever written. */
type Path = { readonly key: string; readonly above: Path } | undefined;

/** An expression of a template, which is not parsed yet. */
export class Found {
  constructor(
    readonly expression: CelExpression,
    private readonly offset: number,
    private readonly path: Path,
  ) {}

  /** Parses it. Throws ExpressionSyntaxError, with the place in the template. */
  check(): void {
    within(this.path, () => checkAt(this.expression, this.offset));
  }
}

export interface UncheckedTemplate {
  readonly template: Template;
  /** The expressions in order. */
  readonly found: readonly Found[];
}

/** Throws ExpressionSyntaxError. Its position is an offset into the faulty string, and its message names that string's place. */
export function compileTemplate(value: Json): Template {
  const { template, found } = readTemplate(value);
  for (const one of found) one.check();
  return template;
}

/** `place`: where it is in its document. Reads its structure, and leaves the parsing of its expressions to the caller: there may be thousands. Throws ExpressionSyntaxError. */
export function readTemplate(value: Json, place?: string): UncheckedTemplate {
  if (typeof value === "string") {
    const whole = wholeExpression(value, place);
    if (whole !== undefined) return { template: new Whole(value, whole.expression), found: [whole] };
  }
  const found: Found[] = [];
  const node = readNode(value, { found, place }, undefined, 0);
  const expressions = found.map(({ expression }) => expression);
  return { template: new Composite(value, node, expressions), found };
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

  renderNumber(scope: Scope): Json {
    return this.expression.evaluateNumber(scope);
  }
}

class Composite implements Template {
  readonly constant: boolean;

  constructor(
    readonly source: Json,
    private readonly node: Node,
    private readonly expressions: readonly CelExpression[],
  ) {
    this.constant = "constant" in node;
  }

  get references(): ReadonlySet<string> {
    return new Set(this.expressions.flatMap((expression) => [...expression.references]));
  }

  get variables(): ReadonlySet<string> {
    return new Set(this.expressions.flatMap((expression) => [...expression.variables]));
  }

  get warnings(): readonly string[] {
    return this.expressions.flatMap((expression) => expression.warnings);
  }

  get weight(): number {
    return weightOf(this.node);
  }

  render(scope: Scope): Json {
    const node = this.node;
    return "constant" in node ? node.constant : evaluation(() => node.render(scope));
  }

  renderNumber(scope: Scope): Json {
    return this.render(scope);
  }
}

interface Reading {
  readonly found: Found[];
  readonly place: string | undefined;
}

function readNode(value: Json, reading: Reading, path: Path, depth: number): Node {
  if (depth > MAX_DEPTH) throw new ExpressionSyntaxError("the template is nested too deeply");
  if (typeof value === "string") return readText(value, reading, path);
  if (typeof value !== "object" || value === null) return { constant: value };
  if (Array.isArray(value)) return readList(value, reading, path, depth);
  return readObject(value as JsonObject, reading, path, depth);
}

function readList(list: readonly Json[], reading: Reading, path: Path, depth: number): Node {
  const nodes = list.map((item, index) => readNode(item, reading, { key: `[${index}]`, above: path }, depth + 1));
  if (nodes.every((node, index) => "constant" in node && node.constant === list[index])) return { constant: list };
  const items = nodes.map(toRender);
  const render = (scope: Scope) => items.map((item) => item(scope));
  return nodes.every((node) => "constant" in node)
    ? { constant: render({}) }
    : { render, weight: () => weightOf(...nodes) };
}

function readObject(object: JsonObject, reading: Reading, path: Path, depth: number): Node {
  const names = Object.keys(object);
  const nodes = names.map((name) =>
    readNode(object[name] ?? null, reading, { key: `.${name}`, above: path }, depth + 1),
  );
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
  return nodes.every((node) => "constant" in node)
    ? { constant: render({}) }
    : { render, weight: () => weightOf(...nodes) };
}

/** A rendering writes every member of a value with templates; values without templates are returned as they are. */
function weightOf(...nodes: readonly Node[]): number {
  return nodes.reduce((sum, node) => sum + 1 + ("constant" in node ? 0 : node.weight()), 0);
}

function toRender(node: Node): Render {
  return "constant" in node ? () => node.constant : node.render;
}

type Part = string | { readonly source: string; readonly offset: number };

function readText(text: string, { found, place }: Reading, path: Path): Node {
  if (!text.includes("${")) return { constant: text };
  const parts = within(path, () => split(text)).map((part) => {
    if (typeof part === "string") return part;
    const read = expressionAt(part, path, place);
    found.push(read);
    return read.expression;
  });
  const [first] = parts;
  if (parts.length === 1 && first !== undefined && typeof first !== "string") {
    return { render: (scope) => first.evaluate(scope), weight: () => first.weight };
  }
  if (parts.every((part) => typeof part === "string")) return { constant: parts.join("") };
  return { render: (scope) => interpolate(parts, scope), weight: () => textWeight(parts) };
}

function textWeight(parts: readonly (string | CelExpression)[]): number {
  return parts.reduce((sum, part) => sum + (typeof part === "string" ? part.length >>> 6 : part.weight), 1);
}

/** The text is secret if a part of it is. */
function interpolate(parts: readonly (string | CelExpression)[], scope: Scope): Json {
  let text = "";
  let isSecret = false;
  for (const part of parts) {
    const value = typeof part === "string" ? part : part.evaluate(scope);
    const piece = asText(value);
    isSecret ||= isSecretText(value);
    takeResultChars(piece.length);
    text += piece;
  }
  return isSecret ? secret(text) : text;
}

function wholeExpression(text: string, place: string | undefined): Found | undefined {
  if (!text.startsWith("${") || !text.endsWith("}")) return undefined;
  const [part, ...others] = split(text);
  return part === undefined || typeof part === "string" || others.length > 0
    ? undefined
    : expressionAt(part, undefined, place);
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
function expressionAt({ source, offset }: Exclude<Part, string>, path: Path, place: string | undefined): Found {
  const trimmed = source.trimStart();
  const at = place === undefined ? undefined : place + written(path);
  return new Found(new CelExpression(trimmed.trimEnd(), at), offset + (source.length - trimmed.length), path);
}

function checkAt(expression: CelExpression, offset: number): void {
  try {
    expression.check();
  } catch (error) {
    if (!(error instanceof ExpressionSyntaxError) || error.position === undefined) throw error;
    throw new ExpressionSyntaxError(error.message, offset + error.position);
  }
}

/** Adds the place in a nested value to the message of a syntax error. */
function within<T>(path: Path, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof ExpressionSyntaxError) || path === undefined) throw error;
    const place = written(path).replace(/^\./, "");
    throw new ExpressionSyntaxError(`${place}: ${error.message}`, error.position);
  }
}

function written(path: Path): string {
  return path === undefined ? "" : written(path.above) + path.key;
}
