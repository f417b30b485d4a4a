// Checks the value of a form against its JSON Schema, as the service does and by the same code, and says where it does not fit; and what a form
// means that nobody has filled in. It draws nothing.
import {
  ErrorSchemaBuilder,
  findSchemaDefinition,
  type RJSFSchema,
  type RJSFValidationError,
  type ValidationData,
  type ValidatorType,
} from "@rjsf/utils";
import type { Violation as Found } from "../../../machines/schema/check.js";
import { type CheckOptions, Schemas } from "../../../machines/schema/schemas.js";
import type { Json, JsonObject } from "../../../machines/values/json.js";
import { type FieldPath, fieldPathOf } from "../../../machines/values/json-path.js";
import { misfitWords } from "./form-words.js";
import { isObject } from "./json-text.js";

export interface Misfit {
  readonly place: FieldPath;
  readonly message: string;
}

const schemas = new Schemas();

/** Parts of a schema with the definitions of the whole, by the whole. */
const parts = new WeakMap<object, WeakMap<object, JsonObject>>();

/** What does not fit, at most one message for each cause. */
export function misfits(schema: object, value: unknown, options?: CheckOptions): Misfit[] {
  const given = plain(value);
  return causes(schemas.violations(schema as JsonObject, given, options)).map((found) => misfitOf(found, given));
}

/** A part refers to definitions of the whole. */
function withDefinitions(schema: object, root: RJSFSchema): JsonObject {
  if (schema === root) return schema as JsonObject;
  const ofRoot = parts.get(root) ?? new WeakMap<object, JsonObject>();
  parts.set(root, ofRoot);
  const { $defs, definitions } = root;
  const part = ofRoot.get(schema) ?? { ...($defs && { $defs }), ...(definitions && { definitions }), ...schema };
  ofRoot.set(schema, part as JsonObject);
  return part as JsonObject;
}

/** The value as the service will read it: a member without a value is absent. */
const plain = (value: unknown): Json => (value === undefined ? {} : JSON.parse(JSON.stringify(value)));

/** The alternatives that fit best count: what the others lack is not what the person meant. The form shows the fields of one of them. */
function causes(found: readonly Found[]): Found[] {
  return found.flatMap((misfit) => {
    const { alternatives = [] } = misfit;
    const fewest = Math.min(...alternatives.map(({ length }) => length));
    const best = alternatives.filter(({ length }) => length === fewest && length > 0);
    return best.length > 0 ? best.flatMap(causes) : [misfit];
  });
}

/** Schemas may contain themselves. */
const MAX_DEPTH = 20;

/** The value with its required groups and lists: one that nobody filled in is empty, which a person can say in no other way. */
export function complete(schema: RJSFSchema, value: unknown, root = schema, depth = 0): unknown {
  if (depth === MAX_DEPTH) return value;
  const { properties = {}, required = [], items } = resolved(schema, root);
  const within = (part: unknown, given: unknown) => complete(part as RJSFSchema, given, root, depth + 1);
  if (Array.isArray(value)) return value.map((item) => (isObject(items) ? within(items, item) : item));
  if (!isObject(value)) return value;
  const members: Record<string, unknown> = { ...value };
  for (const [name, part] of Object.entries(properties)) {
    const own = Object.hasOwn(value, name) ? value[name] : undefined;
    const given = own === undefined && required.includes(name) ? emptyOf(part, root) : own;
    if (given !== undefined) members[name] = within(part, given);
  }
  return members;
}

/** Undefined: the schema is for neither groups nor lists alone. */
function emptyOf(part: unknown, root: RJSFSchema): object | undefined {
  const { type, oneOf, anyOf } = resolved(part, root);
  if (type === "array") return [];
  if (isGroup(resolved(part, root))) return {};
  const alternatives = oneOf ?? anyOf ?? [];
  return alternatives.length > 0 && alternatives.every((one) => isGroup(resolved(one, root))) ? {} : undefined;
}

const isGroup = ({ type, properties }: RJSFSchema) => type === "object" || (type === undefined && !!properties);

function resolved(part: unknown, root: RJSFSchema): RJSFSchema {
  if (!isObject(part)) return {};
  return typeof part.$ref === "string" ? findSchemaDefinition(part.$ref, root) : (part as RJSFSchema);
}

/** A missing member is shown at its own field. An item that was added, and not filled in, is null. */
function misfitOf({ pointer, message }: Found, given: Json): Misfit {
  const place = fieldPathOf(pointer);
  const value = place.reduce<unknown>((part, key) => (part as Record<string, unknown> | null)?.[key], given);
  return { place, message: value === null ? "is required" : misfitWords(message) };
}

const errorOf = ({ place, message }: Misfit): RJSFValidationError => ({
  message,
  property: `.${place.join(".")}`,
  stack: `${place.join(".")} ${message}`.trim(),
});

/** Misfits as the form keeps them: a tree like the value's. */
export function treeOf(found: readonly Misfit[]) {
  const tree = new ErrorSchemaBuilder<unknown>();
  for (const { place, message } of found) tree.addErrors(message, [...place]);
  return tree.ErrorSchema;
}

export type Judge = (value: unknown) => readonly Misfit[];

/** The validator of a form. Without a judge, its schema judges the value. */
export const validatorOf = (judge?: Judge): ValidatorType<unknown> => ({
  validateFormData(value, schema): ValidationData<unknown> {
    const whole = complete(schema, value);
    const found = judge?.(whole) ?? misfits(schema, whole);
    return { errors: found.map(errorOf), errorSchema: treeOf(found) };
  },
  /** The form asks which alternative a value is of. A schema that cannot be read fits nothing. */
  isValid: (schema, value, root) =>
    value !== undefined && schemas.violations(withDefinitions(schema as object, root), plain(value)).length === 0,
  rawValidation: <Result>(schema: RJSFSchema, value?: unknown) => ({
    errors: schemas.violations(schema as JsonObject, plain(value)) as Result[],
  }),
});
