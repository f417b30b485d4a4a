// What the nodes of a planned expression do: constants, calls, and the operators that do not read all of their operands.
import { type CelError, type CelResult, type CelValue, celError, isCelError } from "@bufbuild/cel";
import type { CallableFunction } from "./functions.js";
import { constantOf } from "./literals.js";
import { Optional } from "./optional.js";
import type { Constant } from "./tree.js";
import { typeOf } from "./types.js";
import type { Scope } from "./values.js";

export interface Frame {
  readonly scope: Scope;
  /** The values of the names that loops bind. */
  readonly slots: CelResult[];
}

export type Node = (frame: Frame) => CelResult;
export function constant(kind: Constant): Node {
  const value = constantOf(kind);
  return () => value;
}

export function invocation(callable: CallableFunction, nodes: readonly Node[], isMethod: boolean): Node {
  const [first, second] = nodes as [Node, Node];
  if (nodes.length === 2) return binary(first, second, (left, right) => callable.call([left, right], isMethod));
  if (nodes.length === 1) {
    return (frame) => {
      const value = first(frame);
      return isCelError(value) ? value : callable.call([value], isMethod);
    };
  }
  return (frame) => {
    const values: CelValue[] = [];
    for (const node of nodes) {
      const value = node(frame);
      if (isCelError(value)) return value;
      values.push(value);
    }
    return callable.call(values, isMethod);
  };
}

export function binary(first: Node, second: Node, work: (left: CelValue, right: CelValue) => CelResult): Node {
  return (frame) => {
    const left = first(frame);
    if (isCelError(left)) return left;
    const right = second(frame);
    return isCelError(right) ? right : work(left, right);
  };
}

/** `&&` and `||`: the side that decides absorbs an error of the other. */
export function junction(decides: boolean, first: Node, second: Node): Node {
  return (frame) => {
    const left = first(frame);
    if (left === decides) return decides;
    const right = second(frame);
    if (right === decides) return decides;
    const wrong = typeof left === "boolean" ? right : left;
    if (typeof wrong === "boolean" || isCelError(wrong)) return wrong;
    return celError(`type mismatch: expected bool, got ${typeOf(wrong).name}`);
  };
}

export function conditional(condition: Node, then: Node, otherwise: Node): Node {
  return (frame) => {
    const value = condition(frame);
    if (value === true) return then(frame);
    if (value === false) return otherwise(frame);
    if (isCelError(value)) return value;
    return celError(`found no matching overload for _?_:_ applied to '(${typeOf(value).name})'`);
  };
}

/** `a.or(b)` and `a.orValue(b)`: the second is not read if the first has a value. */
export function alternative(name: "or" | "orValue", first: Node, second: Node): Node {
  return (frame) => {
    const value = first(frame);
    if (isCelError(value)) return value;
    if (!(value instanceof Optional)) return noOptional(value);
    if (value.value !== undefined) return name === "or" ? value : value.value;
    const other = second(frame);
    return name === "orValue" || isCelError(other) || other instanceof Optional ? other : noOptional(other);
  };
}

export function noOptional(value: CelValue): CelError {
  return celError(`type mismatch: expected optional_type, got ${typeOf(value).name}`);
}
