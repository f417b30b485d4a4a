// Checks the value of a form against its JSON Schema, as the service does and by the same code, and says where it does not fit. It draws
// nothing.
import {
  ErrorSchemaBuilder,
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

/** The alternative that fits best counts: what the others lack is not what the person meant. */
function causes(found: readonly Found[]): Found[] {
  return found.flatMap((misfit) => {
    const [best] = [...(misfit.alternatives ?? [])].sort((a, b) => a.length - b.length);
    return best && best.length > 0 ? causes(best) : [misfit];
  });
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
    const found = judge?.(value) ?? misfits(schema, value);
    return { errors: found.map(errorOf), errorSchema: treeOf(found) };
  },
  /** The form asks which alternative a value is of. A schema that cannot be read fits nothing. */
  isValid: (schema, value, root) =>
    value !== undefined && schemas.violations(withDefinitions(schema as object, root), plain(value)).length === 0,
  rawValidation: <Result>(schema: RJSFSchema, value?: unknown) => ({
    errors: schemas.violations(schema as JsonObject, plain(value)) as Result[],
  }),
});
