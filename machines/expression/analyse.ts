// One walk over a parsed source: refuses sources that are too large or use unknown functions, collects names and warnings, and
// weighs the rounds of its loops. It checks no types, since JSON declares none.
import { ExpressionSyntaxError } from "./errors.js";
import { isFunction, isNamespace } from "./functions.js";
import {
  type Call,
  type Comprehension,
  type Expr,
  OPTIONAL_INDEX,
  OPTIONAL_MEMBER,
  type Struct,
  type Tree,
} from "./tree.js";
import { TYPE_NAMES } from "./types.js";

const MAX_DEPTH = 250;
const MAX_NODES = 4000;

/** The cost of a node each time a loop's body runs. Nodes that can fail cost most: each failure creates Error objects. */
const WEIGHT = { leaf: 1, call: 3, select: 6, logic: 6, loop: 6, message: 150 } as const;

export interface Analysis {
  readonly references: ReadonlySet<string>;
  /** The members of `vars` that it reads by name, without those that it tests for. */
  readonly variables: ReadonlySet<string>;
  /** All members of `vars` that it reads or tests for, by name. Undefined: it reads `vars` as a whole, or computes a name. */
  readonly reads: ReadonlySet<string> | undefined;
  readonly warnings: readonly string[];
  /** The cost of one evaluation, without the rounds of its loops, which pay for themselves. */
  readonly weight: number;
  readonly nodes: number;
  /** The cost of one round of each loop. */
  readonly rounds: ReadonlyMap<Comprehension, number>;
}

export function analyse(expr: Expr, tree: Tree, source: string): Analysis {
  const walk = new Walk(source, tree);
  const weight = walk.visit(expr, [], 0);
  const { references, warnings, nodes, rounds } = walk;
  return { references, warnings, variables: walk.variablesRead, reads: walk.reads, weight, nodes, rounds };
}

/** The calls whose second argument is a key of the first. */
const INDEXES: ReadonlySet<string> = new Set(["_[_]", OPTIONAL_INDEX, OPTIONAL_MEMBER]);

class Walk {
  readonly references = new Set<string>();
  readonly warnings: string[] = [];
  readonly rounds = new Map<Comprehension, number>();
  private readonly variables = new Set<string>();
  private readonly tested = new Set<string>();
  /** How often `vars` occurs, and how often with the name of a member. */
  private occurrences = 0;
  private named = 0;
  nodes = 0;

  constructor(
    private readonly source: string,
    private readonly tree: Tree,
  ) {}

  get variablesRead(): ReadonlySet<string> {
    return new Set([...this.variables].filter((name) => !this.tested.has(name)));
  }

  get reads(): ReadonlySet<string> | undefined {
    return this.occurrences === this.named ? new Set([...this.variables, ...this.tested]) : undefined;
  }

  /** Returns the weight of the node and its children, without the bodies of loops, which pay for themselves. */
  visit(expr: Expr, bound: readonly string[], depth: number): number {
    if (depth > MAX_DEPTH) throw this.refuse("the expression is nested too deeply", expr);
    if (++this.nodes > MAX_NODES) throw this.refuse("the expression is too large", expr);
    const below = (child: Expr | undefined) => (child === undefined ? 0 : this.visit(child, bound, depth + 1));
    const kind = expr.exprKind;
    switch (kind.case) {
      case "identExpr":
        this.name(kind.value.name, bound);
        return WEIGHT.leaf;
      case "selectExpr":
        if (isVars(kind.value.operand, bound)) this.variable(kind.value.field, kind.value.testOnly);
        return WEIGHT.select + below(kind.value.operand);
      case "callExpr":
        this.index(kind.value, bound);
        return this.call(kind.value, expr, below);
      case "listExpr":
        return kind.value.elements.reduce<number>((sum, element) => sum + below(element), WEIGHT.call);
      case "structExpr":
        return this.struct(kind.value, below);
      case "comprehensionExpr":
        return this.loop(kind.value, bound, depth + 1);
      default:
        return WEIGHT.leaf;
    }
  }

  private name(name: string, bound: readonly string[]): void {
    const plain = name.startsWith(".") ? name.slice(1) : name;
    if (isVariables(name, bound)) this.occurrences++;
    if (!bound.includes(name) && !TYPE_NAMES.has(plain)) this.references.add(plain);
  }

  /** `vars["name"]` reads a variable; `"name" in vars`, `vars.?name` and `vars[?"name"]` test for it. */
  private index({ function: name, args: [left, right] }: Call, bound: readonly string[]): void {
    const [of, key] = name === "@in" ? [right, left] : INDEXES.has(name) ? [left, right] : [];
    const variable = textOf(key);
    if (variable !== undefined && isVars(of, bound)) this.variable(variable, name !== "_[_]");
  }

  private variable(name: string, isTest: boolean): void {
    this.named++;
    (isTest ? this.tested : this.variables).add(name);
  }

  private call(call: Call, expr: Expr, below: (child: Expr | undefined) => number): number {
    const qualifier = call.target?.exprKind.case === "identExpr" ? `${call.target.exprKind.value.name}.` : "";
    const namespaced = qualifier !== "" && isFunction(qualifier + call.function);
    if (call.function === "has")
      throw this.refuse("has() takes a member, such as has(inputs.note); an optional value has hasValue()", expr);
    if (!namespaced && !isFunction(call.function))
      throw this.refuse(`unknown function "${isNamespace(qualifier) ? qualifier : ""}${call.function}"`, expr);
    if (call.function === "_-_") this.warnOfDash(call, expr);
    const own = /^_(\[\??_\]|\?_:_|\?\._|&&_|\|\|_)$/.test(call.function) ? WEIGHT.logic : WEIGHT.call;
    const target = namespaced ? 0 : below(call.target);
    return call.args.reduce((sum, argument) => sum + below(argument), own + target);
  }

  private struct(struct: Struct, below: (child: Expr | undefined) => number): number {
    let weight: number = struct.messageName === "" ? WEIGHT.call : WEIGHT.message;
    for (const entry of struct.entries) {
      if (entry.keyKind.case === "mapKey") weight += below(entry.keyKind.value);
      weight += below(entry.value);
    }
    return weight;
  }

  /** Each round pays for the whole body before it runs. */
  private loop(loop: Comprehension, bound: readonly string[], depth: number): number {
    const around = [...bound, loop.accuVar];
    const inner = [...around, loop.iterVar, loop.iterVar2];
    const { iterRange, loopCondition, loopStep, accuInit, result } = loop;
    if (!iterRange || !loopCondition || !loopStep || !accuInit || !result) {
      throw new ExpressionSyntaxError("the expression cannot be parsed");
    }
    const weight = this.visit(iterRange, bound, depth) + this.visit(accuInit, bound, depth);
    const round = this.visit(loopCondition, inner, depth) + this.visit(loopStep, inner, depth);
    const after = this.visit(result, around, depth);
    this.rounds.set(loop, round);
    return WEIGHT.loop + weight + after;
  }

  /** `vars.step-1`, written without blanks, nearly always means the id of a step. */
  private warnOfDash(call: Call, expr: Expr): void {
    const at = this.tree.placeOf(expr);
    const left = call.args[0]?.exprKind;
    if (at === undefined || left?.case !== "selectExpr") return;
    const before = /[A-Za-z_][\w.]*$/.exec(this.source.slice(0, at))?.[0];
    const behind = /^-\w+/.exec(this.source.slice(at))?.[0];
    if (before === undefined || behind === undefined) return;
    const dot = before.lastIndexOf(".");
    const key = before.slice(dot + 1) + behind;
    this.warnings.push(`${before + behind} is a subtraction; for a key write ${before.slice(0, dot)}["${key}"]`);
  }

  private refuse(message: string, expr: Expr): ExpressionSyntaxError {
    return new ExpressionSyntaxError(message, this.tree.placeOf(expr));
  }
}

function isVars(expr: Expr | undefined, bound: readonly string[]): boolean {
  return expr?.exprKind.case === "identExpr" && isVariables(expr.exprKind.value.name, bound);
}

/** A leading dot means the scope, whatever a loop calls its items. */
function isVariables(name: string, bound: readonly string[]): boolean {
  return name === ".vars" || (name === "vars" && !bound.includes("vars"));
}

/** A text literal. */
function textOf(expr: Expr | undefined): string | undefined {
  const constant = expr?.exprKind.case === "constExpr" ? expr.exprKind.value.constantKind : undefined;
  return constant?.case === "stringValue" ? constant.value : undefined;
}
