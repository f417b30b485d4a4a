// What schemas describe, and how the compiler carries it from step to step: types alone.
import type { Static, TSchema } from "typebox";
import type { Primitive } from "./expression.js";

/** What a schema describes. A schema of no known form is not looked into: that alone would cost the compiler a million instantiations. */
export type TypeOf<T extends TSchema> = TSchema extends T ? unknown : Static<T>;

type Field<Name extends PropertyKey, T> = { [K in Name]: T };
type OptionalField<Name extends PropertyKey, T> = { [K in Name]?: T };

type Fields<T> = {
  [K in keyof T]-?: (
    field: Record<never, never> extends Pick<T, K>
      ? OptionalField<K, Carried<Exclude<T[K], undefined>>>
      : Field<K, Carried<T[K]>>,
  ) => void;
}[keyof T] extends (field: infer All) => void
  ? All
  : never;

/**
 * A type made of nothing but names and primitive types. The compiler looks through all variables at each function of a step, but not into those
 * that cannot contain a type parameter: what a schema describes might, as far as it knows. Without this, the cost of a chain is quadratic.
 */
export type Carried<T> = unknown extends T
  ? T
  : T extends Primitive
    ? T
    : T extends readonly (infer Item)[]
      ? Carried<Item>[]
      : T extends object
        ? keyof T extends never
          ? T
          : Fields<T>
        : T;

/** A carried type, as one writes it. */
export type Read<T> = T extends Primitive ? T : T extends object ? { [K in keyof T]: Read<T[K]> } : T;
