// What attributes with templates take: JSON values in which any part may be an expression. Their types, and how they become JSON.
import { celOf, escaped, type Gives, isPlain, nameOf, type Primitive, type Template, textOf } from "./expression.js";

export type Json = string | number | boolean | null | readonly Json[] | { readonly [member: string]: Json };
export type JsonObject = { readonly [member: string]: Json };

/** Any JSON value, with expressions inside. */
export type Anything = Template | Primitive | readonly Anything[] | { readonly [member: string]: Anything };

/** A T, of which any part may be an expression that gives that part. What may be missing fits nowhere: see `orElse`. */
export type Value<T> = unknown extends T ? Anything : Template<T> | Literal<T>;

type Literal<T> = T extends Primitive
  ? T
  : T extends readonly unknown[]
    ? { readonly [K in keyof T]: Value<T[K]> }
    : T extends object
      ? { readonly [K in keyof T]: Value<Exclude<T[K], undefined>> }
      : never;

/** The type of a value, once its expressions are evaluated. Unknown where it can be any: the compiler would look into that without end. */
export type Resolved<V> = [Anything] extends [V] ? unknown : ResolvedPart<V>;

type ResolvedPart<V> =
  V extends Template<infer T>
    ? T
    : V extends Primitive
      ? V
      : V extends object
        ? { -readonly [K in keyof V]: ResolvedPart<V[K]> }
        : V;

/** The type of a variable that was given a literal: others may follow. */
export type Widened<T> = T extends string ? string : T extends number ? number : T extends boolean ? boolean : T;

export type Variable<V> = V extends Template ? Gives<V> : Widened<Resolved<V>>;

/** The JSON of a value. Strings render as themselves, whatever they contain. Throws TypeError, with the path, for what JSON cannot say. */
export function templateOf(value: unknown, path: string): Json {
  const source = celOf(value);
  if (source !== undefined) return `\${${source}}`;
  const text = textOf(value);
  if (text !== undefined) return text;
  if (typeof value === "string") return escaped(value);
  if (Array.isArray(value)) return value.map((item, index) => templateOf(item, `${path}[${index}]`));
  if (isPlain(value)) {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return Object.fromEntries(members.map(([name, member]) => [name, templateOf(member, `${path}.${name}`)]));
  }
  return plainOf(value, path);
}

/** The JSON of a value without templates: a copy, so that a later change of the original does not count. */
export function plainOf(value: unknown, path: string): Json {
  if (value === null || typeof value === "boolean" || typeof value === "string") return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (Array.isArray(value)) return value.map((item, index) => plainOf(item, `${path}[${index}]`));
  if (celOf(value) === undefined && isPlain(value)) {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return Object.fromEntries(members.map(([name, member]) => [name, plainOf(member, `${path}.${name}`)]));
  }
  const found = celOf(value) === undefined ? nameOf(value) : "an expression";
  throw new TypeError(`${path} is ${typeof value === "number" ? value : found}, which is no JSON value`);
}

/** A CEL attribute: an expression, or a value as a literal. */
export function expressionOf(value: unknown, path: string, literal: (value: unknown) => string): string {
  if (textOf(value) !== undefined) throw new TypeError(`${path} is text\`…\`: an expression is written with cel\`…\``);
  return celOf(value) ?? literal(value);
}
