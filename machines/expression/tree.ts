// The syntax tree of an expression, in the form that CEL specifies and the library declares, with the place of each node in the source.
// parse.ts builds it, analyse.ts walks it, evaluate.ts plans it.
import type { parse } from "@bufbuild/cel";

export type Expr = NonNullable<ReturnType<typeof parse>["expr"]>;
export type Call = Extract<Expr["exprKind"], { case: "callExpr" }>["value"];
export type Select = Extract<Expr["exprKind"], { case: "selectExpr" }>["value"];
export type Struct = Extract<Expr["exprKind"], { case: "structExpr" }>["value"];
export type Comprehension = Extract<Expr["exprKind"], { case: "comprehensionExpr" }>["value"];
type Entry = Struct["entries"][number];
export type Constant = Extract<Expr["exprKind"], { case: "constExpr" }>["value"]["constantKind"];

/** The functions of `a.?b` and `a[?b]`. */
export const OPTIONAL_MEMBER = "_?._";
export const OPTIONAL_INDEX = "_[?_]";

export class Tree {
  /** The place of each node, by its id. */
  private readonly places: number[] = [0];

  placeOf(expr: Expr): number | undefined {
    return this.places[Number(expr.id)];
  }

  constant(at: number, constantKind: Constant): Expr {
    return this.node(at, { case: "constExpr", value: { $typeName: "cel.expr.Constant", constantKind } });
  }

  name(at: number, name: string): Expr {
    return this.node(at, { case: "identExpr", value: { $typeName: "cel.expr.Expr.Ident", name } });
  }

  call(at: number, name: string, args: Expr[], target?: Expr): Expr {
    return this.node(at, { case: "callExpr", value: callOf(name, args, target) });
  }

  select(at: number, operand: Expr, field: string, testOnly = false): Expr {
    return this.node(at, {
      case: "selectExpr",
      value: { $typeName: "cel.expr.Expr.Select", operand, field, testOnly },
    });
  }

  /** `optionalIndices`: the elements that are left out if their optional value is none. */
  list(at: number, elements: Expr[], optionalIndices: number[] = []): Expr {
    return this.node(at, {
      case: "listExpr",
      value: { $typeName: "cel.expr.Expr.CreateList", elements, optionalIndices },
    });
  }

  /** A map, or a message of that name. */
  struct(at: number, entries: Entry[], messageName = ""): Expr {
    return this.node(at, {
      case: "structExpr",
      value: { $typeName: "cel.expr.Expr.CreateStruct", entries, messageName },
    });
  }

  entry(at: number, keyKind: Entry["keyKind"], value: Expr, optionalEntry = false): Entry {
    return { $typeName: "cel.expr.Expr.CreateStruct.Entry", id: this.id(at), keyKind, value, optionalEntry };
  }

  /** `iterVar2`: the loop has two names, one for the index or key, and this one for the value. */
  loop(at: number, loop: Omit<Comprehension, "$typeName" | "iterVar2">, iterVar2 = ""): Expr {
    return this.node(at, {
      case: "comprehensionExpr",
      value: { $typeName: "cel.expr.Expr.Comprehension", iterVar2, ...loop },
    });
  }

  private node(at: number, exprKind: Expr["exprKind"]): Expr {
    return { $typeName: "cel.expr.Expr", id: this.id(at), exprKind };
  }

  private id(at: number): bigint {
    return BigInt(this.places.push(at) - 1);
  }
}

export function callOf(name: string, args: Expr[], target?: Expr): Call {
  return { $typeName: "cel.expr.Expr.Call", function: name, args, ...(target && { target }) };
}
