// What the library alone does: messages of protobuf, such as google.protobuf.Timestamp{seconds: 1}, and the context in which its
// functions run.
import { type CelEnv, type CelResult, type CelValue, celEnv, celError, isCelError, plan } from "@bufbuild/cel";
import { strings } from "@bufbuild/cel/ext";
import { spend } from "./fuel.js";
import { Optional } from "./optional.js";
import { weigh } from "./prices.js";
import { type Expr, type Struct, Tree } from "./tree.js";

export const library: CelEnv = celEnv({ funcs: strings });

type Bindings = NonNullable<Parameters<ReturnType<typeof plan>>[0]>;

const MESSAGE = "@message";
let work: (() => CelResult) | undefined;

/** The library opens the context of its functions only around a plan of its own: this one has a single call, of the evaluation. */
const door = plan(
  {
    namespace: library.namespace,
    registry: library.registry,
    variables: library.variables,
    funcs: { find: () => ({ call: () => (work as () => CelResult)() }) },
  } as unknown as CelEnv,
  new Tree().call(0, "@evaluate", []),
);

/** What `evaluation` throws becomes an error of CEL with that cause. */
export function withinLibrary(evaluation: () => CelResult): CelResult {
  const outer = work;
  work = evaluation;
  try {
    return door();
  } finally {
    work = outer;
  }
}

/** The type, or value of an enumeration, that a chain of names means: `google.protobuf.Timestamp`. */
export function messageTypeNamed(expr: Expr): CelValue | undefined {
  if (!qualified(expr)?.startsWith("google.protobuf.")) return undefined;
  const value = plan(library, expr)();
  return isCelError(value) ? undefined : value;
}

function qualified({ exprKind }: Expr): string | undefined {
  if (exprKind.case === "identExpr") return exprKind.value.name;
  if (exprKind.case !== "selectExpr" || exprKind.value.testOnly || !exprKind.value.operand) return undefined;
  const operand = qualified(exprKind.value.operand);
  return operand === undefined ? undefined : `${operand}.${exprKind.value.field}`;
}

/** It takes up to 5 µs (measured). */
export function fieldOf(message: CelValue, name: string, testOnly = false): CelResult {
  spend(100);
  const tree = new Tree();
  const select = tree.select(0, tree.name(0, MESSAGE), name, testOnly);
  return plan(library, select)({ [MESSAGE]: message } as Bindings);
}

/** Makes the message from the values of its fields. They are copied into protobuf's values, so each pays for its size. */
export function messageOf(struct: Struct): (values: readonly CelValue[]) => CelResult {
  const tree = new Tree();
  const entries = struct.entries.map(({ keyKind }, index) => tree.entry(0, keyKind, tree.name(0, `@${index}`)));
  const planOf = (present: typeof entries) => plan(library, tree.struct(0, present, struct.messageName));
  const whole = planOf(entries);
  return (values) => {
    const bindings: Record<string, CelValue> = Object.create(null);
    for (const [index, value] of values.entries()) {
      const optional = struct.entries[index]?.optionalEntry === true;
      if (optional && !(value instanceof Optional)) return celError("type mismatch: expected optional_type");
      const given = optional ? (value as unknown as Optional).value : value;
      if (given === undefined) continue;
      weigh(given, 10);
      bindings[`@${index}`] = given;
    }
    const present = entries.filter((_, index) => `@${index}` in bindings);
    return (present.length === entries.length ? whole : planOf(present))(bindings as Bindings);
  };
}
