// Compiles a CEL source into an expression: parses it, checks the bounds, rewrites its loops to use fuel, plans it, and caches
// it by its source. functions.ts has the functions, template.ts the templates.
import { type CelResult, type CelValue, isCelError, isCelList, isCelMap, parse, plan } from "@bufbuild/cel";
import type { Json } from "../values/json.js";
import { type Analysis, analyse } from "./analyse.js";
import { evaluation } from "./border.js";
import { ExpressionError, ExpressionSyntaxError, explain } from "./errors.js";
import { budgetExhausted, isExhausted, isShared } from "./fuel.js";
import { environment } from "./functions.js";
import { toJson, truthy } from "./result.js";
import { endOfLiteral } from "./scan.js";
import { type Scope, toCel } from "./values.js";

/** Parsing takes up to 6 µs a character (measured), so a source of this size takes 50 ms, once, when it is published. */
export const MAX_SOURCE_CHARS = 8 * 1024;
const MAX_BRACKETS = 100;
/**
 * The size of the cache in plans, and in characters of their sources. A definition holds its own plans; the cache lets
 * definitions share.
 */
const MAX_CACHED_PLANS = 2048;
const MAX_CACHED_CHARS = 1024 * 1024;

export interface Expression {
  readonly source: string;
  /** The names that it reads from the scope. */
  readonly references: ReadonlySet<string>;
  /** The members of `vars` that it reads by name, without those that it tests for. */
  readonly variables: ReadonlySet<string>;
  /** Legal, but most likely a mistake. */
  readonly warnings: readonly string[];
  /** The least cost of one evaluation, in units of the step budget. */
  readonly weight: number;
  /** The result as JSON. Throws ExpressionError. */
  evaluate(scope: Scope): Json;
  /** Whether the result is truthy. Throws ExpressionError. */
  test(scope: Scope): boolean;
}

type Run = ReturnType<typeof plan>;
type Bindings = NonNullable<Parameters<Run>[0]>;

const compiled = new Map<string, CelExpression>();
let compiledChars = 0;

/** Throws ExpressionSyntaxError. */
export function compileExpression(source: string): CelExpression {
  const kept = compiled.get(source);
  if (kept !== undefined) {
    compiled.delete(source);
    compiled.set(source, kept);
    return kept;
  }
  const fresh = compile(source);
  compiled.set(source, fresh);
  compiledChars += source.length;
  for (const oldest of compiled.keys()) {
    if (compiled.size <= MAX_CACHED_PLANS && compiledChars <= MAX_CACHED_CHARS) break;
    compiled.delete(oldest);
    compiledChars -= oldest.length;
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

/** Runs before the parser, which recurses: the bound must not depend on the depth of the stack. */
function checkBrackets(source: string): void {
  let depth = 0;
  let index = 0;
  while (index < source.length) {
    const char = source[index] ?? "";
    if (char === '"' || char === "'") {
      // The parser reports a literal that is not closed.
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
  // The parser's message starts with "<input>:line:column: "; the position is reported as a number instead.
  return new ExpressionSyntaxError(error.message.replace(/^<input>:\d+:\d+:\s*/, ""), at);
}

export class CelExpression implements Expression {
  readonly references: ReadonlySet<string>;
  readonly variables: ReadonlySet<string>;
  readonly warnings: readonly string[];
  readonly weight: number;
  private readonly bound: readonly string[];

  constructor(
    readonly source: string,
    analysis: Analysis,
    private readonly run: Run,
  ) {
    this.references = analysis.references;
    this.variables = analysis.variables;
    this.warnings = analysis.warnings;
    this.weight = analysis.weight;
    this.bound = [...analysis.references, ...analysis.types];
  }

  /** Inside `withFuel` the result may become part of a larger one, so its size counts. */
  evaluate(scope: Scope): Json {
    const bounded = isShared();
    return evaluation(() => toJson(this.value(scope), bounded));
  }

  test(scope: Scope): boolean {
    return evaluation(() => {
      const value = this.value(scope);
      if (typeof value === "boolean") return value;
      if (isCelList(value) || isCelMap(value)) return value.size > 0;
      return truthy(toJson(value, false));
    });
  }

  private value(scope: Scope): CelValue {
    const result = withoutStacks(() => this.run(this.bind(scope)));
    if (isExhausted()) throw budgetExhausted();
    if (isCelError(result)) throw this.failure(result, scope);
    return result;
  }

  /** Binds the names that the source reads, in an object without a prototype, so that `constructor` is an unknown name. */
  private bind(scope: Scope): Bindings {
    const bindings: Record<string, unknown> = Object.create(null);
    for (const name of this.bound) {
      const value = Object.hasOwn(scope, name) ? scope[name] : undefined;
      if (value !== undefined) bindings[name] = toCel(value, true);
    }
    return bindings as Bindings;
  }

  private failure(error: Extract<CelResult, Error>, scope: Scope): ExpressionError {
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
 * The library creates an Error for every missing key, even if `||` absorbs it: 10 µs with a stack, 0.5 µs without (measured), and
 * a loop may meet thousands. Only V8 reads this setting.
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
