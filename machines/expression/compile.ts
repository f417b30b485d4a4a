// One CEL source, made into an expression: parsed, checked against the bounds, its loops rewritten to burn fuel, planned,
// and kept by its source. Not the functions it calls (functions.ts) and not the templates around it (template.ts).
import { type CelResult, type CelValue, isCelError, isCelList, isCelMap, parse, plan } from "@bufbuild/cel";
import type { Json } from "../json.js";
import { type Analysis, analyse } from "./analyse.js";
import { ExpressionError, ExpressionSyntaxError, explain } from "./errors.js";
import { burn, isShared, isSpent, spent } from "./fuel.js";
import { environment } from "./functions.js";
import { toJson, truthy } from "./result.js";
import { endOfLiteral } from "./scan.js";
import { type Scope, toCel } from "./values.js";

/** Parsing costs 6 µs a character at worst (measured), so a source of this size costs 50 ms, once, at publish. */
export const MAX_SOURCE_CHARS = 8 * 1024;
const MAX_BRACKETS = 100;
/** Plans kept, and the characters of their sources. A definition keeps its own; this is for definitions that share. */
const PLANS_KEPT = 2048;
const PLAN_CHARS_KEPT = 1024 * 1024;

export interface Expression {
  readonly source: string;
  /** The names of the scope that it reads. */
  readonly references: ReadonlySet<string>;
  /** Legal, but most likely not what was meant. */
  readonly warnings: readonly string[];
  /** What one evaluation costs at least, in units of the step budget. */
  readonly weight: number;
  /** The result as JSON. Throws ExpressionError. */
  evaluate(scope: Scope): Json;
  /** Whether the result is true in the contract's sense. Throws ExpressionError. */
  test(scope: Scope): boolean;
}

type Run = ReturnType<typeof plan>;
type Bindings = NonNullable<Parameters<Run>[0]>;

const known = new Map<string, CelExpression>();
let knownChars = 0;

/** Throws ExpressionSyntaxError. */
export function compileExpression(source: string): CelExpression {
  const kept = known.get(source);
  if (kept !== undefined) {
    known.delete(source);
    known.set(source, kept);
    return kept;
  }
  const fresh = compile(source);
  known.set(source, fresh);
  knownChars += source.length;
  for (const oldest of known.keys()) {
    if (known.size <= PLANS_KEPT && knownChars <= PLAN_CHARS_KEPT) break;
    known.delete(oldest);
    knownChars -= oldest.length;
  }
  return fresh;
}

function compile(source: string): CelExpression {
  if (source.length > MAX_SOURCE_CHARS) {
    throw new ExpressionSyntaxError(`an expression has at most ${MAX_SOURCE_CHARS} characters`);
  }
  if (source.trim() === "") throw new ExpressionSyntaxError("an expression is expected", 0);
  checkBrackets(source);
  try {
    const parsed = parse(source);
    const analysis = analyse(parsed, source);
    return new CelExpression(source, analysis, plan(environment, parsed));
  } catch (error) {
    throw syntaxError(error);
  }
}

/** Before the parser, which recurses: the bound must be the same however deep the stack already is. */
function checkBrackets(source: string): void {
  let depth = 0;
  let index = 0;
  while (index < source.length) {
    const char = source[index] ?? "";
    if (char === '"' || char === "'") {
      // An open literal is the parser's to report.
      index = endOfLiteral(source, index) ?? source.length;
      continue;
    }
    if ("([{".includes(char)) depth++;
    if (")]}".includes(char)) depth--;
    if (depth > MAX_BRACKETS) throw new ExpressionSyntaxError("the expression is nested too deeply", index);
    index++;
  }
}

function syntaxError(error: unknown): ExpressionSyntaxError {
  if (error instanceof ExpressionSyntaxError) return error;
  if (error instanceof RangeError) return new ExpressionSyntaxError("the expression is nested too deeply");
  if (!(error instanceof Error)) return new ExpressionSyntaxError("the expression cannot be parsed");
  const at = (error as { location?: { start?: { offset?: number } } }).location?.start?.offset;
  // The parser begins its message with "<input>:line:column: "; the position is given as a number instead.
  return new ExpressionSyntaxError(error.message.replace(/^<input>:\d+:\d+:\s*/, ""), at);
}

export class CelExpression implements Expression {
  readonly references: ReadonlySet<string>;
  readonly warnings: readonly string[];
  readonly weight: number;
  readonly #bound: readonly string[];

  constructor(
    readonly source: string,
    analysis: Analysis,
    private readonly run: Run,
  ) {
    this.references = analysis.references;
    this.warnings = analysis.warnings;
    this.weight = analysis.weight;
    this.#bound = [...analysis.references, ...analysis.types];
  }

  /** Inside a `burn` the result may become a part of a larger one: its size counts. */
  evaluate(scope: Scope): Json {
    const bounded = isShared();
    return burn(() => toJson(this.#value(scope), bounded));
  }

  test(scope: Scope): boolean {
    return burn(() => {
      const value = this.#value(scope);
      if (typeof value === "boolean") return value;
      if (isCelList(value) || isCelMap(value)) return value.size > 0;
      return truthy(toJson(value, false));
    });
  }

  #value(scope: Scope): CelValue {
    const result = withoutStacks(() => this.run(this.#bind(scope)));
    if (isSpent()) throw spent();
    if (isCelError(result)) throw this.#failure(result, scope);
    return result;
  }

  /** Only what is referred to, in an object without a prototype: `constructor` is a name like any other, and unknown. */
  #bind(scope: Scope): Bindings {
    const bindings: Record<string, unknown> = Object.create(null);
    for (const name of this.#bound) {
      const value = Object.hasOwn(scope, name) ? scope[name] : undefined;
      if (value !== undefined) bindings[name] = toCel(value, true);
    }
    return bindings as Bindings;
  }

  #failure(error: Extract<CelResult, Error>, scope: Scope): ExpressionError {
    if (error.cause instanceof ExpressionError) return error.cause;
    const message = error.message;
    if (message === "unresolved attribute") {
      const missing = [...this.references].filter((name) => !Object.hasOwn(scope, name));
      return new ExpressionError(`unknown name ${missing.map((name) => `"${name}"`).join(", ")}`.trimEnd());
    }
    return new ExpressionError(explain(message, this.source));
  }
}

/**
 * The library makes an Error for every missing key, also for those that `||` absorbs: 10 µs each with its stack, 0.5 µs
 * without (measured), and a loop may meet thousands. V8 reads this setting; elsewhere it does nothing.
 */
function withoutStacks<T>(work: () => T): T {
  const errors = Error as { stackTraceLimit?: number };
  const limit = errors.stackTraceLimit;
  errors.stackTraceLimit = 0;
  try {
    return work();
  } finally {
    errors.stackTraceLimit = limit;
  }
}
