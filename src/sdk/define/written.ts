// How the options of a step become its JSON, by the tables of attributes.ts. Which step comes next is not its business.
import { type ActionContract, refuseUnknown } from "../contract/index.js";
import {
  ATTRIBUTES,
  type AttributeKind,
  attributeName,
  COMMON,
  optionName,
  RETRYING,
  type StepTypeName,
  WITHOUT_OUTPUT,
} from "./attributes.js";
import { celLiteral, type Template } from "./expression.js";
import { type AnyAction, scopeOf } from "./scope.js";
import { expressionOf, type Json, type JsonObject, plainOf, templateOf } from "./value.js";

/** What a step is written with: its attributes by their options' names. Functions get the scope. */
export type Options = Readonly<Record<string, unknown>>;

/** The names that some attributes see besides. */
const MORE: Readonly<Record<string, readonly string[]>> = {
  "filter.condition": ["item", "index"],
  "map.expression": ["item", "index"],
  "map.template": ["item", "index"],
  "wait_for_event.match": ["event"],
  "while.condition": ["iteration"],
};

const computed = (value: unknown, names: readonly string[]): unknown =>
  typeof value === "function" ? value(scopeOf(names)) : value;

/** The scope's function is called once, so that what it makes can be asked for what it is. */
export function computedFor(type: StepTypeName, attribute: string, value: unknown, locals: readonly string[]): unknown {
  return computed(value, [...locals, ...(MORE[`${type}.${attribute}`] ?? [])]);
}

const RETRY_OPTIONS = {
  ...{ maxAttempts: true, initialBackoffMs: true, maxBackoffMs: true, multiplier: true, jitter: true },
  nonRetryableCodes: true,
};
const PARTS: Readonly<Record<string, object>> = {
  ...{ retry: RETRY_OPTIONS, concurrency: { key: true, limit: true } },
  rate_limit: { key: true, limit: true, perMs: true, burst: true },
};

/** An object whose members are values of their own. */
function partsOf(name: string, value: unknown, locals: readonly string[], path: string): JsonObject {
  refuseUnknown(path, value as object, PARTS[name] ?? {});
  const members = Object.entries(value as object).filter(([, member]) => member !== undefined);
  return Object.fromEntries(
    members.map(([member, given]) => {
      const plain = member === "nonRetryableCodes" || member === "jitter";
      const read = plain
        ? plainOf(given, `${path}.${member}`)
        : templateOf(computed(given, locals), `${path}.${member}`);
      return [attributeName(member), read];
    }),
  );
}

/** TypeBox keeps kinds in members that JSON leaves out. */
export const schemaOf = (schema: unknown): Json => JSON.parse(JSON.stringify(schema)) as Json;

function writtenAs(kind: AttributeKind, name: string, value: unknown, locals: readonly string[], path: string): Json {
  switch (kind) {
    case "cel":
      return expressionOf(value, path, celLiteral);
    case "cels":
      return (value as readonly unknown[]).map((one, index) => expressionOf(one, `${path}[${index}]`, celLiteral));
    case "schema":
      return schemaOf(value);
    case "parts":
      return partsOf(name, value, locals, path);
    case "value":
      return templateOf(value, path);
    default:
      return plainOf(value, path);
  }
}

/** `options` by a table, in its order. Targets are left to the chain. */
function byTable(
  table: Readonly<Record<string, AttributeKind>>,
  options: Options,
  { id, type, locals }: Written,
): JsonObject {
  const json: Record<string, Json> = {};
  for (const [name, kind] of Object.entries(table)) {
    const given = options[optionName(name)];
    if (given === undefined || kind === "target" || name === "compensation") continue;
    const path = `${id}.${optionName(name)}`;
    const value = computedFor(type, name, given, locals);
    if (value === undefined) throw new TypeError(`${path} is a function that returns nothing: return the value`);
    json[name] = writtenAs(kind, name, value, locals, path);
  }
  return json;
}

export interface Written {
  readonly id: string;
  readonly type: StepTypeName;
  /** The names that the blocks around it give. */
  readonly locals: readonly string[];
}

/** A step without its targets, in two parts: what stands before `on_error`, where the targets of its type belong, and what stands behind. */
export function stepParts(options: Options, step: Written): { before: JsonObject; own: JsonObject; after: JsonObject } {
  const { id, type, locals } = step;
  const titled = "title" in ATTRIBUTES[type];
  const { title, ...rest } = COMMON.before;
  const undo =
    options.undo === undefined || options.undo === null ? {} : { compensation: undoOf(options.undo, id, locals) };
  const { retry, ...after } = byTable(COMMON.after, options, step);
  return {
    before: { id, type, ...byTable(titled ? rest : { title, ...rest }, options, step) },
    own: byTable(ATTRIBUTES[type], options, step),
    after: { ...after, ...(retry !== undefined && { retry }), ...undo } as JsonObject,
  };
}

/** The text of an action's name, "service.name" or "service.name@version", computed from the scope S. */
export type NamedLater<S> = (scope: S) => Template<string>;

/**
 * The same action, in the version that its contract says: "service.name@2". A step or an undo with the contract itself calls the newest version that
 * is not deprecated.
 */
export const pinned = <A extends AnyAction>(action: A): A => Object.freeze({ ...action, isPinned: true });

/** The name in the document. Throws TypeError, with the path, for what is no contract. */
export function nameOfAction(action: unknown, path: string): string {
  const { service, name, version, isPinned = false } = (action ?? {}) as Partial<AnyAction> & { isPinned?: boolean };
  if (typeof service !== "string" || typeof name !== "string")
    throw new TypeError(`${path} takes an action of defineAction`);
  return `${service}.${name}${isPinned ? `@${version}` : ""}`;
}

function undoOf(undo: unknown, id: string, locals: readonly string[]): JsonObject {
  const path = `${id}.undo`;
  const inScope = (given: unknown) => computed(given, [...locals, "output"]);
  const [action, inputs] = Array.isArray(undo) ? undo : [undo];
  const later = action as { readonly action?: unknown; readonly inputs?: unknown };
  if (typeof later?.action === "function") {
    refuseUnknown(path, later, { action: true, inputs: true });
    return withInputs(templateOf(inScope(later.action), `${path}.action`), inScope(later.inputs), path);
  }
  const name = nameOfAction(action, path);
  const takes = (action as ActionContract).input;
  return withInputs(name, inputs === undefined && takesNothing(takes) ? {} : inScope(inputs), path);
}

const withInputs = (action: Json, inputs: unknown, path: string): JsonObject => ({
  action,
  ...(inputs !== undefined && { inputs: templateOf(inputs, `${path}.inputs`) }),
});

/** `Type.Object({})`: without inputs in the document, the undo would get `{ inputs, output }` of the step. */
function takesNothing(schema: unknown): boolean {
  const {
    type,
    properties = {},
    required = [],
    additionalProperties = false,
    patternProperties,
  } = schema as {
    readonly type?: unknown;
    readonly properties?: object;
    readonly required?: readonly unknown[];
    readonly additionalProperties?: unknown;
    readonly patternProperties?: unknown;
  };
  const closed = additionalProperties === false && patternProperties === undefined;
  return type === "object" && closed && Object.keys(properties).length === 0 && required.length === 0;
}

const COMMON_OPTIONS = ["title", "description", "when", "saveAs", "onError", "onFailure", "onUndoFailure", "undo"];

/** Throws TypeError for a misspelt option. `more`: those of the function that are no attributes. */
export function refuseOptions(id: string, type: StepTypeName, options: Options, more: readonly string[] = []): void {
  const own = Object.keys(ATTRIBUTES[type]).map(optionName);
  const retry = RETRYING.has(type) ? ["retry"] : [];
  const common = WITHOUT_OUTPUT.has(type) ? COMMON_OPTIONS.filter((name) => name !== "saveAs") : COMMON_OPTIONS;
  const known = Object.fromEntries([...own, ...retry, ...common, ...more].map((name) => [name, true]));
  refuseUnknown(`step ${id}`, options, known);
}
