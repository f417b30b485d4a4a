// The planner: a tree becomes a function of a scope. Names are resolved when the expression is planned, a member is read when it is
// needed, and each round of a loop pays before it runs. Calls go to functions.ts; message literals to the library's own planner.
import { type CelError, type CelResult, type CelValue, celError, isCelError, isCelList, isCelMap } from "@bufbuild/cel";
import { spend } from "./fuel.js";
import { functionNamed } from "./functions.js";
import { indexed, isPresent, member, optionalMember } from "./members.js";
import { messageOf, messageTypeNamed, withinLibrary } from "./messages.js";
import { alternative, binary, conditional, constant, invocation, junction, type Node, noOptional } from "./nodes.js";
import { Optional } from "./optional.js";
import { type Call, type Comprehension, type Expr, OPTIONAL_INDEX, OPTIONAL_MEMBER, type Struct } from "./tree.js";
import { typeNamed, typeOf } from "./types.js";
import { listOf, MadeMap, type Scope, toCel } from "./values.js";

/** The value of an expression, or the error that it ended with. */
export type Run = (scope: Scope) => CelResult;

/** The slots of the names that the loops around a node bind, the innermost last. */
type Bound = readonly (readonly [name: string, slot: number])[];

const NO_ROUNDS: ReadonlyMap<Comprehension, number> = new Map();

/** `rounds`: what a round of each loop costs. */
export function plan(expr: Expr, rounds = NO_ROUNDS): Run {
  const planner = new Planner(rounds);
  const node = planner.plan(expr, []);
  return (scope) => withinLibrary(() => node({ scope, slots: new Array(planner.slots) }));
}

class Planner {
  slots = 0;

  constructor(private readonly rounds: ReadonlyMap<Comprehension, number>) {}

  plan(expr: Expr, bound: Bound): Node {
    const { exprKind: kind } = expr;
    switch (kind.case) {
      case "constExpr":
        return constant(kind.value.constantKind);
      case "identExpr":
        return this.name(kind.value.name, bound);
      case "selectExpr":
        return this.select(expr, bound);
      case "callExpr":
        return this.call(kind.value, bound);
      case "listExpr":
        return this.list(kind.value.elements, new Set(kind.value.optionalIndices), bound);
      case "structExpr":
        return kind.value.messageName === "" ? this.map(kind.value, bound) : this.message(kind.value, bound);
      case "comprehensionExpr":
        return this.loop(kind.value, bound);
      default:
        return () => celError("evaluation failed");
    }
  }

  private name(name: string, bound: Bound): Node {
    const slot = bound.findLast(([known]) => known === name)?.[1];
    if (slot !== undefined) return ({ slots }) => slots[slot] as CelResult;
    const plain = name.startsWith(".") ? name.slice(1) : name;
    const type = typeNamed(plain);
    return ({ scope }) => {
      const value = Object.hasOwn(scope, plain) ? scope[plain] : undefined;
      return value === undefined ? (type ?? celError(`unknown name "${plain}"`)) : toCel(value, true);
    };
  }

  private select(expr: Expr, bound: Bound): Node {
    const { operand, field, testOnly } = expr.exprKind.value as { operand: Expr; field: string; testOnly: boolean };
    const type = messageTypeNamed(expr);
    if (type !== undefined) return () => type;
    const of = this.plan(operand, bound);
    if (!testOnly) {
      return (activation) => {
        const value = of(activation);
        return isCelError(value) ? value : member(value, field);
      };
    }
    // `has(output.id)` is false where the scope has no `output`.
    const root = rootOf(operand);
    const inScope = root === undefined || bound.some(([known]) => known === root) ? undefined : root;
    return (activation) => {
      if (inScope !== undefined && !Object.hasOwn(activation.scope, inScope)) return false;
      const value = of(activation);
      return isCelError(value) ? value : isPresent(value, field);
    };
  }

  private call(call: Call, bound: Bound): Node {
    const { function: name, args, target } = call;
    const space =
      target?.exprKind.case === "identExpr" ? functionNamed(`${target.exprKind.value.name}.${name}`) : undefined;
    const all = target && !space ? [target, ...args] : args;
    const nodes = all.map((arg) => this.plan(arg, bound));
    const [first, second, third] = nodes as [Node, Node, Node];
    switch (name) {
      case "_&&_":
        return junction(false, first, second);
      case "_||_":
        return junction(true, first, second);
      case "_?_:_":
        return conditional(first, second, third);
      case "@not_strictly_false":
        return (activation) => first(activation) !== false;
      case "_[_]":
        return binary(first, second, indexed);
      case OPTIONAL_INDEX:
      case OPTIONAL_MEMBER:
        return binary(first, second, optionalMember);
      case "or":
      case "orValue":
        if (nodes.length === 2) return alternative(name, first, second);
    }
    const callable = space ?? functionNamed(name);
    if (!callable) return () => celError(`found no matching overload for '${name}'`);
    return invocation(callable, nodes, target !== undefined && !space);
  }

  private list(elements: readonly Expr[], optional: ReadonlySet<number>, bound: Bound): Node {
    const nodes = elements.map((element) => this.plan(element, bound));
    return (activation) => {
      const items: CelValue[] = [];
      for (let index = 0; index < nodes.length; index++) {
        const value = (nodes[index] as Node)(activation);
        if (isCelError(value)) return value;
        if (!optional.has(index)) items.push(value);
        else if (!(value instanceof Optional)) return noOptional(value);
        else if (value.value !== undefined) items.push(value.value);
      }
      return listOf(items);
    };
  }

  private map(struct: Struct, bound: Bound): Node {
    const members = struct.entries.map(({ keyKind, value, optionalEntry }) => ({
      key: this.plan(keyKind.value as Expr, bound),
      value: this.plan(value as Expr, bound),
      optional: optionalEntry,
    }));
    return (activation) => {
      const map = new MadeMap();
      for (const { key: keyNode, value: valueNode, optional } of members) {
        const key = keyNode(activation);
        if (isCelError(key)) return key;
        const value = valueNode(activation);
        if (isCelError(value)) return value;
        if (optional && !(value instanceof Optional)) return noOptional(value);
        const given = optional ? (value as unknown as Optional).value : value;
        if (given === undefined) continue;
        const added = map.add(key, given);
        if (added !== true) return celError(added === undefined ? "unsupported key type" : "map key conflict");
      }
      return map as unknown as CelValue;
    };
  }

  private message(struct: Struct, bound: Bound): Node {
    const fields = struct.entries.map(({ value }) => this.plan(value as Expr, bound));
    const make = messageOf(struct);
    return (activation) => {
      const values: CelValue[] = [];
      for (const field of fields) {
        const value = field(activation);
        if (isCelError(value)) return value;
        values.push(value);
      }
      return make(values);
    };
  }

  /** Each round pays for the whole body before it runs. */
  private loop(loop: Comprehension, bound: Bound): Node {
    const slotOf = () => this.slots++;
    const [accu, first, second] = [slotOf(), slotOf(), slotOf()];
    const around: Bound = [...bound, [loop.accuVar, accu]];
    const inner: Bound = [
      ...around,
      [loop.iterVar, first],
      ...(loop.iterVar2 ? [[loop.iterVar2, second] as const] : []),
    ];
    const range = this.plan(loop.iterRange as Expr, bound);
    const init = this.plan(loop.accuInit as Expr, bound);
    const condition = this.plan(loop.loopCondition as Expr, inner);
    const step = this.plan(loop.loopStep as Expr, inner);
    const result = this.plan(loop.result as Expr, around);
    const round = this.rounds.get(loop) ?? 0;
    const both = loop.iterVar2 !== "";
    return (activation) => {
      const { slots } = activation;
      const items = range(activation);
      if (isCelError(items)) return items;
      const initial = init(activation);
      if (isCelError(initial)) return initial;
      slots[accu] = initial;
      const turn = (item: CelValue, value: CelValue): CelResult => {
        spend(round);
        slots[first] = item;
        slots[second] = value;
        const goesOn = condition(activation);
        if (goesOn === true) slots[accu] = step(activation);
        return goesOn;
      };
      const ended = each(items, both, turn);
      return isCelError(ended) ? ended : result(activation);
    };
  }
}

/** Calls `turn` for each item until it does not return true. An error ends the loop. */
function each(
  items: CelValue,
  both: boolean,
  turn: (item: CelValue, value: CelValue) => CelResult,
): CelError | undefined {
  let goesOn: CelResult = true;
  if (isCelList(items)) {
    spend(items.size);
    for (let index = 0, { size } = items; index < size && goesOn === true; index++) {
      const item = items.get(index) as CelValue;
      goesOn = both ? turn(BigInt(index), item) : turn(item, null);
    }
  } else if (isCelMap(items)) {
    spend(items.size * 4);
    for (const key of items.keys()) {
      goesOn = turn(key, both ? (items.get(key) as CelValue) : null);
      if (goesOn !== true) break;
    }
  } else return celError(`type mismatch: iterable vs ${typeOf(items).name}`);
  return isCelError(goesOn) ? goesOn : undefined;
}

/** The name that a chain of members begins with. */
function rootOf({ exprKind }: Expr): string | undefined {
  if (exprKind.case === "identExpr") return exprKind.value.name.replace(/^\./, "");
  const operand =
    exprKind.case === "selectExpr"
      ? exprKind.value.operand
      : exprKind.case === "callExpr" && exprKind.value.function === "_[_]"
        ? exprKind.value.args[0]
        : undefined;
  return operand && rootOf(operand);
}
