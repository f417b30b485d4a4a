// What a definition computes: references to the data of a run, and CEL around them. Nothing is evaluated here; an expression is its source text,
// with the type that it gives.

declare const gives: unique symbol;
declare const cels: unique symbol;

/** What an attribute with templates takes in place of a value: text with expressions inside, or one expression. */
export interface Template<out T = unknown> {
  readonly [gives]: T;
}

/** A CEL expression that gives a T. */
export interface Expr<out T = unknown> extends Template<T> {
  readonly [cels]: true;
}

export type Primitive = string | number | boolean | null | undefined;

type Keys<T> = T extends Primitive ? never : T extends readonly unknown[] ? number : keyof T;
/** They need no `!` where the compiler is told `noUncheckedIndexedAccess`. `at` takes any index. */
type FirstIndexes = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9;

type At<T, K> = T extends Primitive
  ? undefined
  : T extends readonly (infer Item)[]
    ? Item
    : K extends keyof T
      ? T[K]
      : undefined;

type Members<T> = { readonly [K in Keys<T>]-?: Ref<At<T, K>> } & (T extends readonly (infer Item)[]
  ? { readonly [K in FirstIndexes]: Ref<Item> }
  : unknown);

/** A reference: an expression whose members are references. `undefined` in T: it may be missing. */
export type Ref<T> = Expr<T> & Members<T>;

/** What an expression or template gives. */
export type Gives<R> = R extends Template<infer T> ? T : never;

/** What `cel` takes between `${` and `}`: expressions, and JSON values, which become CEL literals. */
export type Embedded =
  | Expr
  | string
  | number
  | boolean
  | null
  | readonly Embedded[]
  | { readonly [member: string]: Embedded };

/** The source of an expression: a base, and the members below it. */
interface Source {
  readonly base: string;
  readonly path: readonly (string | number)[];
  /** The base as it is written where nothing is around it: without the parentheses that keep it together as a part. */
  readonly alone?: string;
}

/** Global, because each package has this module in itself. */
const SOURCE = Symbol.for("saga-orchestrator.define.expression");
const TEXT = Symbol.for("saga-orchestrator.define.text");

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;
const CEL_WORDS: ReadonlySet<string> = new Set(
  "true false null in as break const continue else for function if import let loop package namespace return var void while".split(
    " ",
  ),
);
const PRIMARY = /^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$/;

const isName = (name: string) => IDENTIFIER.test(name) && !CEL_WORDS.has(name);

function quoted(text: string): string {
  if (/[\ud800-\udfff]/u.test(text))
    throw new TypeError(`${JSON.stringify(text)} has half of a surrogate pair, which no service can store`);
  return JSON.stringify(text);
}

function access(key: string | number, mark = ""): string {
  if (typeof key === "number") return `[${mark}${key}]`;
  return isName(key) ? `.${mark}${key}` : `[${mark}${quoted(key)}]`;
}

const written = ({ base, path }: Source) => base + path.map((key) => access(key)).join("");

function reference(source: Source): object {
  return new Proxy(Object.create(null) as object, {
    get(_, key) {
      if (key === SOURCE) return source;
      if (key === Symbol.toPrimitive) return misplaced(source);
      if (typeof key === "symbol") return undefined;
      const index = /^(0|[1-9]\d{0,8})$/.test(key) ? Number(key) : key;
      return reference({ base: source.base, path: [...source.path, index] });
    },
    has: (_, key) => key === SOURCE,
    set(_, key) {
      throw new TypeError(`${written(source)}.${String(key)} is a reference: a definition cannot assign to it`);
    },
  });
}

/** A plain template literal or `+` would make text of a reference when the definition is written, not when it runs. */
function misplaced(source: Source) {
  return () => {
    const at = written(source);
    throw new TypeError(
      `${at} has no value yet: write text\`… \${${at}} …\` for a text, or cel\`\${${at}} + …\` for an expression`,
    );
  };
}

export const rootReference = (name: string): object => reference({ base: name, path: [] });

const sourceOf = (value: unknown): Source | undefined =>
  typeof value === "object" && value !== null && SOURCE in value
    ? ((value as Record<symbol, unknown>)[SOURCE] as Source)
    : undefined;

export const isExpression = (value: unknown): boolean => sourceOf(value) !== undefined;

/** The CEL of an expression. Undefined: it is none. */
export function celOf(value: unknown): string | undefined {
  const source = sourceOf(value);
  return source && (source.alone ?? written(source));
}

/** A JSON value as a CEL literal; expressions inside stay expressions. Throws TypeError for what JSON cannot say. */
export function celLiteral(value: unknown): string {
  const source = sourceOf(value);
  if (source) return written(source);
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return quoted(value);
  if (typeof value === "number") return celNumber(value);
  if (Array.isArray(value)) return `[${value.map(celLiteral).join(", ")}]`;
  if (isPlain(value)) {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return `{${members.map(([name, member]) => `${quoted(name)}: ${celLiteral(member)}`).join(", ")}}`;
  }
  throw new TypeError(`${nameOf(value)} cannot be a part of an expression: it takes references and JSON values`);
}

/** Whole numbers become CEL integers, as one would write them; those beyond ±2^53 doubles. */
function celNumber(value: number): string {
  if (!Number.isFinite(value)) throw new TypeError(`${value} is no JSON value`);
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? value.toExponential() : String(value);
}

export function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null || TEXT in value) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

export function nameOf(value: unknown): string {
  if (textOf(value) !== undefined) return "text`…`";
  return typeof value === "object" && value !== null ? (value.constructor?.name ?? "an object") : typeof value;
}

/**
 * CEL as it is written, with references and JSON values between `${` and `}`: cel<number>`${inputs.amount} * 1.19`. A backslash is one of CEL. The
 * type is what you say; the service checks the syntax when the definition is published. An expression alone between the backticks gets that type.
 * Throws TypeError for values that JSON cannot say.
 */
export function cel<T = unknown>(strings: TemplateStringsArray, ...values: readonly Embedded[]): Ref<T> {
  const only = values.length === 1 && strings.raw.every((part) => part.trim() === "") && sourceOf(values[0]);
  if (only) return reference(only) as Ref<T>;
  const parts = strings.raw.map((part, index) => {
    const value = values[index];
    return part.replaceAll(/\\(`|\$\{)/g, "$1") + (index < values.length ? celLiteral(value) : "");
  });
  const source = parts.join("").trim();
  if (source === "") throw new TypeError("cel`` is empty: write an expression between the backticks");
  return reference({ base: PRIMARY.test(source) ? source : `(${source})`, path: [], alone: source }) as Ref<T>;
}

/** Text with values inside: text`Order ${inputs.order_id}`. Strings are put in as they are, anything else as JSON. */
export function text(
  strings: TemplateStringsArray,
  ...values: readonly (Template | string | number | boolean)[]
): Template<string> {
  const pieces: string[] = [];
  for (const [index, part] of strings.entries()) {
    pieces.push(escaped(part));
    const value = values[index];
    if (value === undefined) continue;
    const source = celOf(value);
    pieces.push(source === undefined ? (textOf(value) ?? escaped(String(value))) : `\${${source}}`);
  }
  return Object.freeze({ [TEXT]: joined(pieces.filter((piece) => piece !== "")) }) as unknown as Template<string>;
}

function joined(pieces: readonly string[]): string {
  // One whole template would keep the type of its value.
  if (pieces.length === 1 && pieces[0]?.startsWith("${")) return `${pieces[0]}\${""}`;
  return pieces.reduce((before, piece) => {
    // "$" before an expression would read as an escaped one.
    const isAmbiguous = piece.startsWith("${") && before.endsWith("$");
    return (isAmbiguous ? `${before.slice(0, -1)}\${"$"}` : before) + piece;
  }, "");
}

/** The template of a text. Undefined: it is none. */
export function textOf(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || isExpression(value) || !(TEXT in value)) return undefined;
  return (value as Record<symbol, unknown>)[TEXT] as string;
}

/** A string that renders as itself. The replacement is a function, because "$$" in a text of replacement stands for one "$". */
export const escaped = (plain: string): string => plain.replaceAll("${", () => "$${");

function pathOf(value: unknown, of: string): Source {
  const source = sourceOf(value);
  if (source && source.path.length > 0) return source;
  throw new TypeError(`${of} takes a member of a reference, such as inputs.note`);
}

const optionally = ({ base, path }: Source) => base + path.map((key) => access(key, "?")).join("");

/** Whether a member is there; null counts as there. */
export function has(member: Expr): Ref<boolean> {
  const source = pathOf(member, "has()");
  const [first] = source.path;
  const cel =
    source.path.length === 1 && typeof first === "string" && isName(first)
      ? `has(${written(source)})`
      : `${optionally(source)}.hasValue()`;
  return reference({ base: cel, path: [] }) as Ref<boolean>;
}

/** A member, or another value where it, or what it is a member of, is missing. Null counts as there. */
export function orElse<T, const Other extends Embedded>(
  member: Expr<T>,
  other: Other,
): Ref<Exclude<T, undefined> | (Other extends Expr<infer Value> ? Value : Other)> {
  const source = `${optionally(pathOf(member, "orElse()"))}.orValue(${celLiteral(other)})`;
  return reference({ base: source, path: [] }) as never;
}

/** An item of a list by any index, or a member by a name that looks like one: at(inputs.lines, 12), at(inputs.prices, "0"). */
export function at<T, const Key extends number | string | Expr<number | string>>(
  of: Expr<T>,
  key: Key,
): Ref<
  T extends readonly (infer Item)[] ? Item : T extends { readonly [name: string]: infer Member } ? Member : unknown
> {
  const source = sourceOf(of);
  if (!source) throw new TypeError("at() takes a reference");
  if (typeof key === "number" && !(Number.isInteger(key) && key >= 0))
    throw new TypeError(`${key} is no index: indexes count from 0`);
  return reference({ base: `${written(source)}[${celLiteral(key)}]`, path: [] }) as never;
}
