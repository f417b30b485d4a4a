// What the nodes of a planned expression do: constants, calls, and the operators that do not read all of their operands.
import { type CelError, type CelResult, type CelValue, celError, isCelError } from "@bufbuild/cel";
import type { CallableFunction } from "./functions.js";
import { constantOf } from "./literals.js";
import { Optional } from "./optional.js";
import type { Constant } from "./tree.js";
import { typeOf } from "./types.js";
import type { Scope } from "./values.js";

export interface Activation {
  readonly scope: Scope;
  /** The values of the names that loops bind. */
  readonly slots: CelResult[];
}

export type Node = (activation: Activation) => CelResult;
export function constant(kind: Constant): Node {
  const value = constantOf(kind);
  return () => value;
}

export function invocation(callable: CallableFunction, nodes: readonly Node[], isMethod: boolean): Node {
  const [first, second] = nodes as [Node, Node];
  if (nodes.length === 2) return binary(first, second, (left, right) => callable.call([left, right], isMethod));
  if (nodes.length === 1) {
    return (activation) => {
      const value = first(activation);
      return isCelError(value) ? value : callable.call([value], isMethod);
    };
  }
  return (activation) => {
    const values: CelValue[] = [];
    for (const node of nodes) {
      const value = node(activation);
      if (isCelError(value)) return value;
      values.push(value);
    }
    return callable.call(values, isMethod);
  };
}

export function binary(first: Node, second: Node, work: (left: CelValue, right: CelValue) => CelResult): Node {
  return (activation) => {
    const left = first(activation);
    if (isCelError(left)) return left;
    const right = second(activation);
    return isCelError(right) ? right : work(left, right);
  };
}

/** `&&` and `||`: the side that decides absorbs an error of the other. */
export function junction(decides: boolean, first: Node, second: Node): Node {
  return (activation) => {
    const left = first(activation);
    if (left === decides) return decides;
    const right = second(activation);
    if (right === decides) return decides;
    const wrong = typeof left === "boolean" ? right : left;
    if (typeof wrong === "boolean" || isCelError(wrong)) return wrong;
    return celError(`type mismatch: expected bool, got ${typeOf(wrong).name}`);
  };
}

export function conditional(condition: Node, then: Node, otherwise: Node): Node {
  return (activation) => {
    const value = condition(activation);
    if (value === true) return then(activation);
    if (value === false) return otherwise(activation);
    if (isCelError(value)) return value;
    return celError(`found no matching overload for _?_:_ applied to '(${typeOf(value).name})'`);
  };
}

/** `a.or(b)` and `a.orValue(b)`: the second is not read if the first has a value. */
export function alternative(name: "or" | "orValue", first: Node, second: Node): Node {
  return (activation) => {
    const value = first(activation);
    if (isCelError(value)) return value;
    if (!(value instanceof Optional)) return noOptional(value);
    if (value.value !== undefined) return name === "or" ? value : value.value;
    const other = second(activation);
    return name === "orValue" || isCelError(other) || other instanceof Optional ? other : noOptional(other);
  };
}

export function noOptional(value: CelValue): CelError {
  return celError(`type mismatch: expected optional_type, got ${typeOf(value).name}`);
}
