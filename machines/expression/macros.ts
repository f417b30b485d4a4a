// The macros of CEL: `has`, and the loops over a list or the keys of a map. A call that only looks like one stays a call.
import type { Call, Comprehension, Expr, Tree } from "./tree.js";

/** No source can contain this name. */
const RESULT = "@result";

type Parts = Pick<Comprehension, "accuInit" | "loopCondition" | "loopStep" | "result">;
/** `body` is the arguments after the name of the loop's variable. */
type Macro = (loop: Loop, body: readonly Expr[]) => Parts;

/** `has(a.b)`: whether the member is there. */
export function expandGlobal(tree: Tree, at: number, name: string, args: Expr[]): Expr {
  const [only] = args;
  if (name !== "has" || args.length !== 1 || only?.exprKind.case !== "selectExpr") return tree.call(at, name, args);
  const { operand, field } = only.exprKind.value;
  return operand ? tree.select(at, operand, field, true) : only;
}

/** `list.map(x, ...)` and the like. */
export function expandMethod(tree: Tree, at: number, iterRange: Expr, name: string, args: Expr[]): Expr {
  const [variable, ...body] = args;
  const macro = MACROS.get(`${name}/${args.length}`);
  if (!macro || variable?.exprKind.case !== "identExpr") return tree.call(at, name, args, iterRange);
  const iterVar = variable.exprKind.value.name;
  return tree.loop(at, { iterRange, iterVar, accuVar: RESULT, ...macro(new Loop(tree, at, iterVar), body) });
}

/** The nodes that a loop's macro writes, all at the place of the call. */
class Loop {
  constructor(
    private readonly tree: Tree,
    private readonly at: number,
    private readonly iterVar: string,
  ) {}

  get item(): Expr {
    return this.tree.name(this.at, this.iterVar);
  }

  get result(): Expr {
    return this.tree.name(this.at, RESULT);
  }

  call(name: Call["function"], ...args: Expr[]): Expr {
    return this.tree.call(this.at, name, args);
  }

  bool(value: boolean): Expr {
    return this.tree.constant(this.at, { case: "boolValue", value });
  }

  int(value: bigint): Expr {
    return this.tree.constant(this.at, { case: "int64Value", value });
  }

  list(...elements: Expr[]): Expr {
    return this.tree.list(this.at, elements);
  }
}

/** A search ends where the result can no longer change. Errors of items are absorbed if another item decides. */
const search =
  (join: "_&&_" | "_||_"): Macro =>
  (loop, [test]) => {
    const until = join === "_&&_" ? loop.result : loop.call("!_", loop.result);
    return {
      accuInit: loop.bool(join === "_&&_"),
      loopCondition: loop.call("@not_strictly_false", until),
      loopStep: loop.call(join, loop.result, test as Expr),
      result: loop.result,
    };
  };

/** Builds a list of the items that pass the test, if there is one. */
const collect =
  (parts: (loop: Loop, body: readonly Expr[]) => { readonly test?: Expr | undefined; readonly item: Expr }): Macro =>
  (loop, body) => {
    const { test, item } = parts(loop, body);
    const added = loop.call("_+_", loop.result, loop.list(item));
    return {
      accuInit: loop.list(),
      loopCondition: loop.bool(true),
      loopStep: test ? loop.call("_?_:_", test, added, loop.result) : added,
      result: loop.result,
    };
  };

const one: Macro = (loop, [test]) => ({
  accuInit: loop.int(0n),
  loopCondition: loop.bool(true),
  loopStep: loop.call("_?_:_", test as Expr, loop.call("_+_", loop.result, loop.int(1n)), loop.result),
  result: loop.call("_==_", loop.result, loop.int(1n)),
});

/** By name and number of arguments. */
const MACROS: ReadonlyMap<string, Macro> = new Map([
  ["all/2", search("_&&_")],
  ["exists/2", search("_||_")],
  ["exists_one/2", one],
  ["existsOne/2", one],
  ["map/2", collect((_, [item]) => ({ item: item as Expr }))],
  ["map/3", collect((_, [test, item]) => ({ test, item: item as Expr }))],
  ["filter/2", collect((loop, [test]) => ({ test, item: loop.item }))],
]);
