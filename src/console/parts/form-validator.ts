// Checks values against JSON Schema 2020-12 by interpreting it, and says where a value does not fit. It draws nothing, and compiles
// nothing: the console's policy forbids code that is made from text.
import { type OutputUnit, type Schema, Validator } from "@cfworker/json-schema";
import {
  ErrorSchemaBuilder,
  type RJSFSchema,
  type RJSFValidationError,
  type ValidationData,
  type ValidatorType,
} from "@rjsf/utils";

import { misfitWords } from "./form-words.js";

export type Place = readonly (string | number)[];

export interface Misfit {
  readonly place: Place;
  readonly message: string;
}

/** Checking a schema first links its references, which costs more than the check. */
const linked = new WeakMap<object, WeakMap<object, Validator>>();

/** What does not fit, at most one message for each cause. */
export function misfits(schema: object, value: unknown): Misfit[] {
  const { errors } = checkerOf(schema, schema).validate(plain(value));
  return causes(errors).map(misfitOf);
}

function checkerOf(schema: object, root: object): Validator {
  const ofRoot = linked.get(root) ?? new WeakMap<object, Validator>();
  linked.set(root, ofRoot);
  const checker = ofRoot.get(schema) ?? new Validator(withDefinitions(schema, root), "2020-12", false);
  ofRoot.set(schema, checker);
  return checker;
}

/** A copy, because linking writes into the schema. A part of a schema refers to definitions of the whole. */
function withDefinitions(schema: object, { $defs, definitions }: RJSFSchema): Schema {
  const whole = { ...($defs && { $defs }), ...(definitions && { definitions }), ...schema };
  return JSON.parse(JSON.stringify(whole)) as Schema;
}

/** As the service will read it: a member without a value is absent. */
const plain = (value: unknown): unknown => (value === undefined ? {} : JSON.parse(JSON.stringify(value)));

const ALTERNATIVES = new Set(["anyOf", "oneOf"]);
/** These say only that something in them did not fit. */
const CONTAINERS = new Set([
  ...["$ref", "$recursiveRef", "allOf", "properties", "patternProperties", "items", "prefixItems", "then", "else"],
  ...["dependentSchemas", "dependencies", "if", ...ALTERNATIVES],
]);

/** Of alternatives, the one that fits best counts: what the others lack is not what the person meant. */
function causes(errors: readonly OutputUnit[]): OutputUnit[] {
  const dropped = errors.filter(({ keyword }) => ALTERNATIVES.has(keyword)).flatMap((union) => losers(union, errors));
  const left = errors.filter((error) => !dropped.includes(error) && error.keyword !== "false");
  return left.filter((error) => !CONTAINERS.has(error.keyword) || !left.some((other) => isWithin(other, error)));
}

const isWithin = (inner: OutputUnit, outer: OutputUnit) =>
  inner.keywordLocation.startsWith(`${outer.keywordLocation}/`);

function losers({ keywordLocation }: OutputUnit, errors: readonly OutputUnit[]): OutputUnit[] {
  const byOption = new Map<string, OutputUnit[]>();
  for (const error of errors) {
    if (!error.keywordLocation.startsWith(`${keywordLocation}/`)) continue;
    const option = error.keywordLocation.slice(keywordLocation.length + 1).split("/", 1)[0] ?? "";
    byOption.set(option, [...(byOption.get(option) ?? []), error]);
  }
  const [, ...others] = [...byOption.values()].sort((a, b) => a.length - b.length);
  return others.flat();
}

/** A missing member is shown at its own field. */
function misfitOf({ keyword, instanceLocation, error }: OutputUnit): Misfit {
  const place = placeOf(decodeURI(instanceLocation).slice(1));
  const missing = keyword === "required" ? /property "(.*)"\.$/s.exec(error)?.[1] : undefined;
  if (missing !== undefined) return { place: [...place, missing], message: "is required" };
  return { place, message: misfitWords(error) };
}

/** Of a JSON pointer. */
export const placeOf = (pointer: string): Place =>
  pointer
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"))
    .map((key) => (/^\d+$/.test(key) ? Number(key) : key));

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

export const validator: ValidatorType<unknown> = {
  validateFormData(value, schema): ValidationData<unknown> {
    const found = misfits(schema, value);
    return { errors: found.map(errorOf), errorSchema: treeOf(found) };
  },
  /** The form asks which alternative a value is of. A schema that cannot be read fits nothing. */
  isValid(schema, value, root) {
    if (value === undefined) return false;
    try {
      return checkerOf(schema, root).validate(plain(value)).valid;
    } catch {
      return false;
    }
  },
  rawValidation: <Result>(schema: RJSFSchema, value?: unknown) => ({
    errors: checkerOf(schema, schema).validate(plain(value)).errors as Result[],
  }),
};
