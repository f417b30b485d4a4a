// Compiles a CEL source into an expression: parses it, checks the bounds, weighs its loops, and plans it when it is first evaluated.
// evaluate.ts plans, functions.ts has the functions, template.ts the templates.
import { type CelResult, type CelValue, isCelError } from "@bufbuild/cel";
import type { Json } from "../values/json.js";
import { WeightedCache } from "../values/weighted-cache.js";
import { type Analysis, analyse } from "./analyse.js";
import { evaluation } from "./border.js";
import { ExpressionError, ExpressionSyntaxError, explain, locate } from "./errors.js";
import { plan, type Run } from "./evaluate.js";
import { budgetExhausted, isExhausted, isShared } from "./fuel.js";
import { parse } from "./parse.js";
import { isTrue, numberOrJson, toJson } from "./result.js";
import { endOfLiteral } from "./scan.js";
import { forgetReads, tainted } from "./secrets.js";
import type { Expr } from "./tree.js";
import type { Scope } from "./values.js";

export const MAX_SOURCE_CHARS = 8 * 1024;
const MAX_BRACKETS = 100;
/**
 * The plans of a process. An expression is planned when it is first evaluated, and again if its plan has gone: 0.1 ms for a usual one,
 * 3 ms for the largest (measured).
 */
const MAX_CACHED_BYTES = 48 * 1_048_576;
const NODE_BYTES = 500;

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
  /** The result as JSON, secret if it depends on a secret value. Throws ExpressionError. */
  evaluate(scope: Scope): Json;
  /** Whether the result is truthy. Throws ExpressionError. */
  test(scope: Scope): boolean;
}

const plans = new WeightedCache<string, Run>(MAX_CACHED_BYTES);

/** Throws ExpressionSyntaxError. */
export function compileExpression(source: string): CelExpression {
  const expression = new CelExpression(source);
  expression.check();
  return expression;
}

function planOf(source: string): Run {
  const known = plans.get(source);
  if (known) return known;
  const { expr, analysis } = analysed(source);
  const planned = plan(expr, analysis.rounds);
  plans.set(source, planned, source.length + analysis.nodes * NODE_BYTES);
  return planned;
}

function analysed(source: string): { readonly expr: Expr; readonly analysis: Analysis } {
  if (source.length > MAX_SOURCE_CHARS)
    throw new ExpressionSyntaxError(`an expression has at most ${MAX_SOURCE_CHARS} characters`);
  if (source.trim() === "") throw new ExpressionSyntaxError("an expression is expected", 0);
  checkBrackets(source);
  const { expr, tree } = parse(source);
  return { expr, analysis: analyse(expr, tree, source) };
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

/** Parsed when it is first used, or checked: a document may have thousands. */
export class CelExpression implements Expression {
  private known: Analysis | undefined;

  /** `place`: where it is in its document, for the messages of its failures. */
  constructor(
    readonly source: string,
    private readonly place?: string,
  ) {}

  /** Throws ExpressionSyntaxError. Every other use of an expression that is none throws it, too. */
  check(): void {
    this.known ??= analysed(this.source).analysis;
  }

  private get analysis(): Analysis {
    this.check();
    return this.known as Analysis;
  }

  get references(): ReadonlySet<string> {
    return this.analysis.references;
  }

  get variables(): ReadonlySet<string> {
    return this.analysis.variables;
  }

  /** All members of `vars` that it reads or tests for. Undefined: it reads `vars` as a whole, or computes a name. */
  get reads(): ReadonlySet<string> | undefined {
    return this.analysis.reads;
  }

  get warnings(): readonly string[] {
    return this.analysis.warnings;
  }

  get weight(): number {
    return this.analysis.weight;
  }

  /** Inside `withFuel` the result may become part of a larger one, so its size counts. */
  evaluate(scope: Scope): Json {
    const bounded = isShared();
    return tainted(() => this.located(() => toJson(this.value(scope), bounded)));
  }

  evaluateNumber(scope: Scope): Json {
    const bounded = isShared();
    return tainted(() => this.located(() => numberOrJson(this.value(scope), bounded)));
  }

  test(scope: Scope): boolean {
    forgetReads();
    return this.located(() => isTrue(this.value(scope)));
  }

  private located<T>(work: () => T): T {
    try {
      return evaluation(work);
    } catch (error) {
      throw this.place !== undefined && error instanceof ExpressionError
        ? locate(error, this.source, this.place)
        : error;
    }
  }

  private value(scope: Scope): CelValue {
    const run = planOf(this.source);
    const result = withoutStacks(() => run(scope));
    if (isExhausted()) throw budgetExhausted();
    if (isCelError(result)) throw this.failure(result);
    return result;
  }

  private failure(error: Extract<CelResult, Error>): ExpressionError {
    return error.cause instanceof ExpressionError
      ? error.cause
      : new ExpressionError(explain(error.message, this.source));
  }
}

/**
 * An evaluation creates an Error for every missing key, even if `||` absorbs it: 10 µs with a stack, 0.5 µs without (measured), and
 * a loop may meet thousands. Only V8 reads this setting.
 */
export function withoutStacks<T>(work: () => T): T {
  const errors = Error as { stackTraceLimit?: number };
  const limit = errors.stackTraceLimit;
  errors.stackTraceLimit = 0;
  try {
    return work();
  } finally {
    errors.stackTraceLimit = limit;
  }
}
