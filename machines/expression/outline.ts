// The outline of a template or an expression: what its value certainly looks like, read from the source alone. Whatever is not understood is
// unknown, so an outline never claims too much; nothing is evaluated.
import { FORBIDDEN_NAMES, isObject, type Json } from "../values/json.js";
import { CelExpression } from "./compile.js";
import { ExpressionSyntaxError } from "./errors.js";
import { parse } from "./parse.js";
import { readTemplate } from "./template.js";
import type { Call, Comprehension, Constant, Expr } from "./tree.js";

export type JsonType = "null" | "boolean" | "number" | "integer" | "string" | "array" | "object";

export type Outline =
  | { readonly kind: "value"; readonly value: Json }
  /** An object with these members and no others. */
  | { readonly kind: "object"; readonly members: ReadonlyMap<string, Outline> }
  | { readonly kind: "list"; readonly items: readonly Outline[] }
  | { readonly kind: "type"; readonly type: JsonType }
  /** A name of the scope, and the way from there: `inputs.items[0]`. */
  | { readonly kind: "reference"; readonly path: readonly [root: string, ...below: (string | number)[]] }
  | { readonly kind: "either"; readonly of: readonly Outline[] }
  | { readonly kind: "unknown" };

const UNKNOWN: Outline = { kind: "unknown" };
/** Deeper parts are unknown. */
const MAX_DEPTH = 40;

const ofType = (type: JsonType): Outline => ({ kind: "type", type });

/** Of a template as it was written. */
export function outlineOf(source: Json, depth = 0): Outline {
  if (depth > MAX_DEPTH) return UNKNOWN;
  if (typeof source === "string") return outlineOfText(source);
  if (Array.isArray(source))
    return { kind: "list", items: (source as readonly Json[]).map((item) => outlineOf(item, depth + 1)) };
  if (!isObject(source)) return { kind: "value", value: source };
  return {
    kind: "object",
    members: new Map(Object.entries(source).map(([name, member]) => [name, outlineOf(member, depth + 1)])),
  };
}

function outlineOfText(text: string): Outline {
  if (!text.includes("${")) return { kind: "value", value: text };
  const { template, found } = readTemplate(text);
  if (template.constant) return { kind: "value", value: template.render({}) };
  const [only] = found;
  const inside = text.startsWith("${") && text.endsWith("}") ? text.slice(2, -1).trim() : undefined;
  return found.length === 1 && only && inside === only.expression.source
    ? outlineOfExpression(only.expression.source)
    : ofType("string");
}

/** Of a CEL expression. One that cannot be parsed is unknown. */
export function outlineOfExpression(source: string): Outline {
  try {
    // The check bounds the source before the parser recurses.
    new CelExpression(source).check();
    return outlineOfExpr(parse(source).expr, 0);
  } catch (error) {
    if (error instanceof ExpressionSyntaxError) return UNKNOWN;
    throw error;
  }
}

function outlineOfExpr(expr: Expr, depth: number): Outline {
  if (depth > MAX_DEPTH) return UNKNOWN;
  const kind = expr.exprKind;
  switch (kind.case) {
    case "constExpr":
      return constantOutline(kind.value.constantKind);
    case "identExpr":
    case "selectExpr": {
      if (kind.case === "selectExpr" && kind.value.testOnly) return ofType("boolean");
      const path = pathOf(expr);
      return path ? { kind: "reference", path } : UNKNOWN;
    }
    case "callExpr":
      return callOutline(expr, kind.value, depth);
    case "listExpr":
      if (kind.value.optionalIndices.length > 0) return ofType("array");
      return { kind: "list", items: kind.value.elements.map((element) => outlineOfExpr(element, depth + 1)) };
    case "structExpr":
      return structOutline(kind.value, depth);
    case "comprehensionExpr":
      return loopOutline(kind.value);
    default:
      return UNKNOWN;
  }
}

function constantOutline(constant: Constant): Outline {
  switch (constant.case) {
    case "boolValue":
    case "stringValue":
      return { kind: "value", value: constant.value };
    case "nullValue":
      return { kind: "value", value: null };
    case "int64Value":
    case "uint64Value":
      return Number.isSafeInteger(Number(constant.value)) ? { kind: "value", value: Number(constant.value) } : UNKNOWN;
    case "doubleValue":
      return Number.isFinite(constant.value) ? { kind: "value", value: constant.value } : UNKNOWN;
    default:
      return UNKNOWN;
  }
}

const COMPARISONS: ReadonlySet<string> = new Set([
  "_==_",
  "_!=_",
  "_<_",
  "_<=_",
  "_>_",
  "_>=_",
  "@in",
  "_&&_",
  "_||_",
  "!_",
]);
/** Functions of one argument whose results have one type, whatever they take. */
const CONVERSIONS: Readonly<Record<string, JsonType>> = {
  string: "string",
  int: "integer",
  size: "integer",
  bool: "boolean",
};

function callOutline(expr: Expr, { function: name, args, target }: Call, depth: number): Outline {
  const below = (index: number) => (args[index] ? outlineOfExpr(args[index], depth + 1) : UNKNOWN);
  if (name === "_?_:_") return { kind: "either", of: [below(1), below(2)] };
  if (COMPARISONS.has(name)) return ofType("boolean");
  if (name === "_+_" && [below(0), below(1)].some(isText)) return ofType("string");
  if (name === "_[_]") {
    const path = pathOf(expr);
    return path ? { kind: "reference", path } : UNKNOWN;
  }
  const converted = !target && args.length === 1 && Object.hasOwn(CONVERSIONS, name) ? CONVERSIONS[name] : undefined;
  return converted ? ofType(converted) : UNKNOWN;
}

const isText = (outline: Outline): boolean =>
  (outline.kind === "type" && outline.type === "string") ||
  (outline.kind === "value" && typeof outline.value === "string");

function structOutline(
  { entries, messageName }: Extract<Expr["exprKind"], { case: "structExpr" }>["value"],
  depth: number,
): Outline {
  if (messageName !== "") return UNKNOWN;
  const members = new Map<string, Outline>();
  for (const { keyKind, value, optionalEntry } of entries) {
    const key = keyKind.case === "mapKey" ? keyKind.value.exprKind : undefined;
    const constant = key?.case === "constExpr" ? key.value.constantKind : undefined;
    if (optionalEntry || constant?.case !== "stringValue" || !value || FORBIDDEN_NAMES.has(constant.value))
      return ofType("object");
    members.set(constant.value, outlineOfExpr(value, depth + 1));
  }
  return { kind: "object", members };
}

/** `map`, `filter`, `all`, `exists`: what the loop collects is its result. */
function loopOutline({ accuInit, accuVar, result }: Comprehension): Outline {
  const isCollected = result?.exprKind.case === "identExpr" && result.exprKind.value.name === accuVar;
  const first = isCollected ? accuInit?.exprKind : undefined;
  if (first?.case === "listExpr") return ofType("array");
  if (first?.case === "constExpr" && first.value.constantKind.case === "boolValue") return ofType("boolean");
  return UNKNOWN;
}

function pathOf(expr: Expr): readonly [string, ...(string | number)[]] | undefined {
  const kind = expr.exprKind;
  if (kind.case === "identExpr") return [kind.value.name.replace(/^\./, "")];
  if (kind.case === "selectExpr") {
    const above = kind.value.operand && !kind.value.testOnly ? pathOf(kind.value.operand) : undefined;
    return above && [...above, kind.value.field];
  }
  const [operand, index] = kind.case === "callExpr" && kind.value.function === "_[_]" ? kind.value.args : [];
  const constant = index?.exprKind.case === "constExpr" ? index.exprKind.value.constantKind : undefined;
  const above = operand && constant ? pathOf(operand) : undefined;
  if (!above) return undefined;
  if (constant?.case === "stringValue") return [...above, constant.value];
  return constant?.case === "int64Value" ? [...above, Number(constant.value)] : undefined;
}
