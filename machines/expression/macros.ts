// The macros of CEL: `has`, `cel.bind`, the loops over a list or a map, and those of optional values. A call that only looks like one
// stays a call.
import type { Call, Comprehension, Expr, Tree } from "./tree.js";

/** No source can contain these names. */
const RESULT = "@result";
const TARGET = "@target";
const UNUSED = "@unused";

/** Functions that only macros call. */
export const PUT = "@put";
export const PUT_ALL = "@put_all";
export const SORT_BY_KEYS = "@sort_by_keys";

type Parts = Pick<Comprehension, "accuInit" | "loopCondition" | "loopStep" | "result">;
/** `body` is the arguments after the names of the loop's variables. */
type Macro = (loop: Loop, body: readonly Expr[]) => Parts;

/** `has(a.b)`: whether the member is there. */
export function expandGlobal(tree: Tree, at: number, name: string, args: Expr[]): Expr {
  const [only] = args;
  if (name !== "has" || args.length !== 1 || only?.exprKind.case !== "selectExpr") return tree.call(at, name, args);
  const { operand, field } = only.exprKind.value;
  return operand ? tree.select(at, operand, field, true) : only;
}

/** `list.map(x, ...)` and the like. */
export function expandMethod(tree: Tree, at: number, target: Expr, name: string, args: Expr[]): Expr {
  return (
    expandBind(tree, at, target, name, args) ??
    expandLoop(tree, at, target, name, args) ??
    expandOptional(tree, at, target, name, args) ??
    tree.call(at, name, args, target)
  );
}

/** `cel.bind(name, value, expression)`. */
function expandBind(tree: Tree, at: number, target: Expr, name: string, args: Expr[]): Expr | undefined {
  const [variable, value, body] = args;
  if (name !== "bind" || args.length !== 3 || nameOf(target) !== "cel") return undefined;
  const bound = nameOf(variable);
  return bound === undefined ? undefined : bind(tree, at, bound, value as Expr, body as Expr);
}

/** A loop without rounds, as CEL writes it: its result is the body, which sees the value under the name. */
function bind(tree: Tree, at: number, name: string, value: Expr, body: Expr): Expr {
  return tree.loop(at, {
    iterRange: tree.list(at, []),
    iterVar: UNUSED,
    accuVar: name,
    accuInit: value,
    loopCondition: tree.constant(at, { case: "boolValue", value: false }),
    loopStep: tree.name(at, name),
    result: body,
  });
}

function expandLoop(tree: Tree, at: number, iterRange: Expr, name: string, args: Expr[]): Expr | undefined {
  const [first, second, ...rest] = args.map(nameOf);
  if (first === undefined) return undefined;
  const one = MACROS.get(`${name}/${args.length}`);
  if (one)
    return tree.loop(at, {
      iterRange,
      iterVar: first,
      accuVar: RESULT,
      ...one(new Loop(tree, at, first), args.slice(1)),
    });
  const two = second === undefined ? undefined : MACROS_OF_TWO.get(`${name}/${rest.length}`);
  if (!two || second === undefined) return undefined;
  const parts = two(new Loop(tree, at, first), args.slice(2));
  return tree.loop(at, { iterRange, iterVar: first, accuVar: RESULT, ...parts }, second);
}

/** `optional.optMap(x, ...)`, `optional.optFlatMap(x, ...)` and `list.sortBy(x, ...)`: the target is read more than once. */
function expandOptional(tree: Tree, at: number, target: Expr, name: string, args: Expr[]): Expr | undefined {
  const [variable, body] = args;
  const bound = nameOf(variable);
  if (bound === undefined || body === undefined || args.length !== 2) return undefined;
  const read = () => tree.name(at, TARGET);
  const on = (method: string, ...more: Expr[]) => tree.call(at, method, more, read());
  const optional = (method: string, ...more: Expr[]) => tree.call(at, method, more, tree.name(at, "optional"));
  const found = () => bind(tree, at, bound, on("value"), body);
  switch (name) {
    case "optMap":
      return bind(tree, at, TARGET, target, either(optional("of", found())));
    case "optFlatMap":
      return bind(tree, at, TARGET, target, either(found()));
    case "sortBy": {
      const keys = expandLoop(tree, at, read(), "map", args) as Expr;
      return bind(tree, at, TARGET, target, tree.call(at, SORT_BY_KEYS, [read(), keys]));
    }
  }
  return undefined;

  function either(then: Expr): Expr {
    return tree.call(at, "_?_:_", [on("hasValue"), then, optional("none")]);
  }
}

function nameOf(expr: Expr | undefined): string | undefined {
  return expr?.exprKind.case === "identExpr" ? expr.exprKind.value.name : undefined;
}

/** The nodes that a loop's macro writes, all at the place of the call. */
class Loop {
  constructor(
    private readonly tree: Tree,
    private readonly at: number,
    private readonly iterVar: string,
  ) {}

  /** The item, or with two names its index or key. */
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

  map(): Expr {
    return this.tree.struct(this.at, []);
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

/** Builds a list or a map of the items that pass the test, if there is one. */
const gather =
  (empty: (loop: Loop) => Expr, add: (loop: Loop, item: Expr) => Expr): ((tested: boolean) => Macro) =>
  (tested) =>
  (loop, body) => {
    const [test, item] = tested ? body : [undefined, body[0]];
    const added = add(loop, item ?? loop.item);
    return {
      accuInit: empty(loop),
      loopCondition: loop.bool(true),
      loopStep: test ? loop.call("_?_:_", test, added, loop.result) : added,
      result: loop.result,
    };
  };

const collect = gather(
  (loop) => loop.list(),
  (loop, item) => loop.call("_+_", loop.result, loop.list(item)),
);
const collectValues = gather(
  (loop) => loop.map(),
  (loop, value) => loop.call(PUT, loop.result, loop.item, value),
);
const collectEntries = gather(
  (loop) => loop.map(),
  (loop, entries) => loop.call(PUT_ALL, loop.result, entries),
);

const one: Macro = (loop, [test]) => ({
  accuInit: loop.int(0n),
  loopCondition: loop.bool(true),
  loopStep: loop.call("_?_:_", test as Expr, loop.call("_+_", loop.result, loop.int(1n)), loop.result),
  result: loop.call("_==_", loop.result, loop.int(1n)),
});

/** Macros by name and number of arguments. */
const MACROS: ReadonlyMap<string, Macro> = new Map([
  ["all/2", search("_&&_")],
  ["exists/2", search("_||_")],
  ["exists_one/2", one],
  ["existsOne/2", one],
  ["map/2", collect(false)],
  ["map/3", collect(true)],
  ["filter/2", collect(true)],
]);

/** Macros with two names, by name and the number of arguments after them. */
const MACROS_OF_TWO: ReadonlyMap<string, Macro> = new Map([
  ["all/1", search("_&&_")],
  ["exists/1", search("_||_")],
  ["exists_one/1", one],
  ["existsOne/1", one],
  ["transformList/1", collect(false)],
  ["transformList/2", collect(true)],
  ["transformMap/1", collectValues(false)],
  ["transformMap/2", collectValues(true)],
  ["transformMapEntry/1", collectEntries(false)],
  ["transformMapEntry/2", collectEntries(true)],
]);

/** The names of all macros, for the page of functions. */
export const MACRO_NAMES: readonly string[] = [
  ...new Set(["has", "cel.bind", "sortBy", "optMap", "optFlatMap", ...names(MACROS), ...names(MACROS_OF_TWO)]),
];

function names(macros: ReadonlyMap<string, Macro>): string[] {
  return [...macros.keys()].map((key) => key.slice(0, key.indexOf("/")));
}
