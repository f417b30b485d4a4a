// What a value must equal for a test of it to pass: `event.payload.id == inputs.id && event.payload.n > 3` passes only for an event with
// that id. With it an index finds the values that may pass. The test keeps the last word, so whatever is not understood here is left out.
import { type CelValue, isCelError, isCelUint } from "@bufbuild/cel";
import type { Json } from "../values/json.js";
import { WeightedCache } from "../values/weighted-cache.js";
import { evaluation } from "./border.js";
import { type Expression, withoutStacks } from "./compile.js";
import { ExpressionError } from "./errors.js";
import { plan, type Run } from "./evaluate.js";
import { isExhausted } from "./fuel.js";
import { parse } from "./parse.js";
import { toJson } from "./result.js";
import { forgetReads, readsSecret } from "./secrets.js";
import type { Call, Expr } from "./tree.js";
import type { Scope } from "./values.js";

export type Scalar = string | number | boolean | null;

/** The member at `path` (names) of the value must be equal to `value`. */
export interface Equality {
  readonly path: readonly string[];
  readonly value: Scalar;
}

/** One that the source requires: the other side of the comparison does not read the value. */
interface Required {
  readonly path: readonly string[];
  /** The other side. */
  readonly run: Run;
}

/** The budget for all sides of a test: about a millisecond. */
const FUEL = 20_000;
const MAX_CACHED_BYTES = 4 * 1_048_576;
const SIDE_BYTES = 4_000;

const known = new WeightedCache<string, readonly Required[]>(MAX_CACHED_BYTES);

/**
 * The equalities without which `test` does not pass for any value of the scope's member `name`. Each is necessary, together they need not
 * be sufficient. It has a budget of its own: call it outside of any other evaluation.
 */
export function equalities({ source }: Expression, name: string, scope: Scope): readonly Equality[] {
  const required = requiredBy(source, name);
  if (required.length === 0) return [];
  return evaluation(() => required.flatMap((one) => equalityOf(one, scope)), FUEL);
}

function equalityOf({ path, run }: Required, scope: Scope): Equality[] {
  forgetReads();
  try {
    const result = isExhausted() ? undefined : withoutStacks(() => run(scope));
    // What an index looks up is plain: a secret is left to the test.
    const isPlain = result !== undefined && !isCelError(result) && !isExhausted() && !readsSecret();
    const value = isPlain ? scalar(result) : undefined;
    return value === undefined ? [] : [{ path, value }];
  } catch (error) {
    // The test will fail as well, or its side is no value that can be compared here.
    if (error instanceof ExpressionError) return [];
    throw error;
  }
}

/** Undefined: it cannot be looked up as JSON. */
function scalar(value: CelValue): Scalar | undefined {
  if (typeof value === "object" && value !== null && !isCelUint(value)) return undefined;
  return toJson(value, false) as Json as Scalar;
}

function requiredBy(source: string, name: string): readonly Required[] {
  const key = `${name} ${source}`;
  const found = known.get(key);
  if (found) return found;
  const required = conjuncts(parse(source).expr).flatMap((expr) => requiredIn(expr, name));
  known.set(key, required, key.length + (1 + required.length) * SIDE_BYTES);
  return required;
}

/** `a && b && c` passes only if each of them does. */
function conjuncts(expr: Expr): readonly Expr[] {
  const and = callTo("_&&_", expr);
  return and ? and.args.flatMap(conjuncts) : [expr];
}

function requiredIn(expr: Expr, name: string): readonly Required[] {
  const [left, right] = callTo("_==_", expr)?.args ?? [];
  if (!left || !right) return [];
  return requiredOf(left, right, name) ?? requiredOf(right, left, name) ?? [];
}

function requiredOf(read: Expr, other: Expr, name: string): readonly Required[] | undefined {
  const path = pathFrom(name, read);
  const names = new Set<string>();
  if (!path || !readsOnly(other, names) || names.has(name)) return undefined;
  return [{ path, run: plan(other) }];
}

/** The names that lead to a member of `name`: `event.payload["a b"].c`. */
function pathFrom(name: string, expr: Expr): readonly string[] | undefined {
  const { exprKind } = expr;
  if (exprKind.case === "identExpr") return exprKind.value.name === name ? [] : undefined;
  const [operand, member] = memberOf(expr);
  const path = operand && pathFrom(name, operand);
  return path && member !== undefined ? [...path, member] : undefined;
}

function memberOf(expr: Expr): readonly [operand?: Expr, member?: string] {
  const { exprKind } = expr;
  if (exprKind.case === "selectExpr")
    return exprKind.value.testOnly ? [] : [exprKind.value.operand, exprKind.value.field];
  const [operand, index] = callTo("_[_]", expr)?.args ?? [];
  const constant = index?.exprKind.case === "constExpr" ? index.exprKind.value.constantKind : undefined;
  return constant?.case === "stringValue" ? [operand, constant.value] : [];
}

/** Adds the names that it reads. False: it has a loop or makes a list or a map, which is no side to look up. */
function readsOnly({ exprKind }: Expr, names: Set<string>): boolean {
  switch (exprKind.case) {
    case "constExpr":
      return true;
    case "identExpr":
      names.add(exprKind.value.name);
      return !exprKind.value.name.startsWith(".");
    case "selectExpr":
      return exprKind.value.operand !== undefined && readsOnly(exprKind.value.operand, names);
    case "callExpr": {
      const { target, args } = exprKind.value;
      return [...(target ? [target] : []), ...args].every((part) => readsOnly(part, names));
    }
    default:
      return false;
  }
}

function callTo(operator: string, { exprKind }: Expr): Call | undefined {
  return exprKind.case === "callExpr" && exprKind.value.function === operator ? exprKind.value : undefined;
}
