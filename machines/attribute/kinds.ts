// Attributes: the declarations of the members that a step type has. One declaration parses a member, compiles its expressions,
// reports its problems at their places, and is a row of the docs. Steps evaluate the parsed attributes. Kinds that are made of
// others are in composite.ts.
import {
  CelExpression,
  compileExpression,
  compileTemplate,
  type Expression,
  ExpressionSyntaxError,
  type Found,
  readTemplate,
  type Template,
} from "../expression/index.js";
import { FORBIDDEN_NAMES, isObject, type Json, type JsonObject, measure } from "../values/json.js";
import * as misfit from "../values/misfit.js";
import type { Slices } from "../values/slices.js";
import { isUuid } from "../values/uuid.js";
import { schemaWeight, templateWeight } from "./budget.js";
import type { Mention, Mentioned } from "./mention.js";
import type { Place } from "./problem.js";

/** The parser of one kind of value. `name` is its name in the docs. */
export interface Kind<T> {
  readonly name: string;
  parse(raw: Json, place: Place): T | undefined;
  /** What it names of the definition, from its value down. */
  readonly mentions?: readonly Mention[];
  /** The JSON Schema of what it gives when it is evaluated, where it takes a template. Absent: any value. */
  readonly gives?: JsonObject;
  /** The JSON Schema of what a document may have here, for editors. Absent: anything. */
  readonly written?: JsonObject;
  /** What an editor says about it behind the sentence of the attribute. */
  readonly note?: string;
  /** Null is a value of it. Elsewhere null counts as absent. */
  readonly takesNull?: true;
  /** What is left of a faulty value, so that the rest of the document can be checked beside it. Undefined: nothing. */
  salvage?(raw: Json): T | undefined;
}

export interface Attribute<T> {
  readonly kind: Kind<unknown>;
  readonly doc: string;
  readonly required: boolean;
  readonly fallback?: Json;
  /** Carries the parsed type. Never set at run time. */
  readonly parsed?: T;
}

// biome-ignore lint/suspicious/noExplicitAny: each attribute has its own parsed type; Parsed<> gives it back.
export type Attributes = Readonly<Record<string, Attribute<any>>>;

export type Parsed<A extends Attributes> = { readonly [K in keyof A]: A[K] extends Attribute<infer T> ? T : never };

export function required<T>(kind: Kind<T>, doc: string): Attribute<T> {
  return { kind, doc, required: true };
}

export function optional<T>(kind: Kind<T>, doc: string): Attribute<T | undefined> {
  return { kind, doc, required: false };
}

export function defaulted<T>(kind: Kind<T>, fallback: Json, doc: string): Attribute<T> {
  return { kind, doc, required: false, fallback };
}

/** A kind whose text names something of the definition. */
export function naming<T>(what: Mentioned, kind: Kind<T>): Kind<T> {
  return { ...kind, mentions: [{ what, path: [] }] };
}

/** What the attributes name, as data. */
export function mentionsOf(attributes: Attributes): readonly Mention[] {
  return Object.entries(attributes).flatMap(([name, { kind, fallback }]) =>
    (kind.mentions ?? []).map((mention) => ({
      ...mention,
      path: [name, ...mention.path],
      ...(typeof fallback === "string" && mention.path.length === 0 && { fallback }),
    })),
  );
}

/** The value of an attribute that a document gives. Undefined: it is absent, or null where null says nothing. */
export function given(raw: Json | undefined, { kind }: Attribute<unknown>): Json | undefined {
  return raw === null && !kind.takesNull ? undefined : raw;
}

/** A number, or one whole template that computes it when the step is entered. */
export type NumberSource = number | Template;

/** The name of a variable. Expressions can write `vars["step-1"]`. */
const NAME = new RegExp(misfit.ID_PATTERN);

const NAME_SCHEMA: JsonObject = { type: "string", pattern: misfit.ID_PATTERN };

export const variableName: Kind<string> = naming("variable", {
  name: "variable name",
  written: NAME_SCHEMA,
  parse(raw, place) {
    if (typeof raw !== "string") return place.problem(misfit.wrongType("string"));
    if (!NAME.test(raw)) return place.problem(misfit.unlike(misfit.ID_PATTERN));
    if (FORBIDDEN_NAMES.has(raw)) return place.problem(misfit.unwanted(raw));
    return raw;
  },
});

/** In a URL these are steps up and down its path, however they are written. */
export const DOT_SEGMENTS: ReadonlySet<string> = new Set([".", ".."]);
export const DOT_SEGMENT_RULE = 'must not be "." or "..", which no URL can name';

/** What has an id can be addressed by it. */
export const id: Kind<string> = {
  name: "id",
  written: NAME_SCHEMA,
  parse(raw, place) {
    const name = variableName.parse(raw, place);
    return name !== undefined && DOT_SEGMENTS.has(name) ? place.problem(DOT_SEGMENT_RULE) : name;
  },
};

/** The id of a step of the same definition. */
export const stepId: Kind<string> = naming("step", id);

/** `fail`, `continue`, or the id of the step that follows an error or a timeout. */
export const handler: Kind<string> = { ...naming("handler", id), name: '"fail" | "continue" | step id' };

const CEL_WORDS: ReadonlySet<string> = new Set(
  "true false null in as break const continue else for function if import let loop package namespace return var void while".split(
    " ",
  ),
);

/** A name that expressions see at the top level, not below `vars`. */
export const localName: Kind<string> = naming("local", {
  name: "identifier",
  written: { type: "string", pattern: "^[A-Za-z_][A-Za-z0-9_]*$" },
  parse(raw, place) {
    const name = id.parse(raw, place);
    if (name === undefined || (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !CEL_WORDS.has(name))) return name;
    return place.problem("must be a CEL identifier: A-Z a-z 0-9 _, and not a reserved word of CEL");
  },
});

export const flag: Kind<boolean> = {
  name: "boolean",
  written: { type: "boolean" },
  parse: (raw, place) => (typeof raw === "boolean" ? raw : place.problem(misfit.wrongType("boolean"))),
};

/** A string without templates. */
export const plainText: Kind<string> = {
  name: "string",
  written: { type: "string" },
  parse: (raw, place) => (typeof raw === "string" ? storable(raw, place) : place.problem(misfit.wrongType("string"))),
};

/** The form in which tenants are compared: the digits of a UUID in lower case. */
export function tenantName(text: string): string {
  return isUuid(text) ? text.toLowerCase() : text;
}

export const tenant: Kind<string> = {
  name: "string",
  written: { type: "string" },
  parse(raw, place) {
    const read = plainText.parse(raw, place);
    if (read !== undefined && !isUuid(read))
      place.warn("tenant_impossible", "no run can have this tenant: it is not a UUID");
    return read && tenantName(read);
  },
};

export function oneOf<const T extends string>(...values: readonly T[]): Kind<T> {
  return {
    name: values.map((value) => `"${value}"`).join(" | "),
    written: { type: "string", enum: values },
    parse: (raw, place) => values.find((value) => value === raw) ?? place.problem(misfit.noneOf(values)),
  };
}

export const expression: Kind<Expression> = {
  name: "CEL",
  written: { type: "string", minLength: 1 },
  note: "(An expression in CEL, without ${ }.)",
  parse(raw, place) {
    if (typeof raw !== "string") return place.problem("must be a CEL expression (a string)");
    if (!place.weigh(raw.length)) return undefined;
    const read = new CelExpression(raw, place.inDocument);
    place.later(() => parseEach([{ expression: read, check: () => read.check() }], place));
    return read;
  },
  salvage: () => compileExpression("null"),
};

/** A string that may contain `${ CEL }`. */
export const text: Kind<Template> = {
  name: "template",
  written: { type: "string" },
  note: "(A template: text that may contain ${ CEL }.)",
  parse: (raw, place) => (typeof raw === "string" ? template(raw, place) : place.problem(misfit.wrongType("string"))),
  salvage: () => compileTemplate(""),
};

/** A value that is one whole template, as a JSON Schema. */
const WHOLE_TEMPLATE: JsonObject = { type: "string", pattern: "^\\$\\{[\\s\\S]*\\}$" };

/** Any JSON value whose strings are templates. */
const TEMPLATES = "(Strings inside may contain ${ CEL }; one that is a single template keeps the type of its value.)";

export const value: Kind<Template> = {
  name: "any value, templates inside",
  parse: template,
  takesNull: true,
  note: TEMPLATES,
};

export const object: Kind<Template> = {
  name: "object, templates inside",
  gives: { type: "object" },
  written: { anyOf: [{ type: "object" }, WHOLE_TEMPLATE] },
  note: TEMPLATES,
  parse(raw, place) {
    if (isObject(raw) || isWholeTemplate(raw)) return template(raw, place);
    return place.problem(misfit.wrongType("object"));
  },
};

/** A JSON Schema, without templates. The shell checks it, because it has the validator. */
export const schema: Kind<JsonObject> = {
  name: "JSON Schema 2020-12",
  written: { type: "object" },
  parse(raw, place) {
    if (!isObject(raw)) return place.problem("must be an object (a JSON Schema)");
    return place.weigh(schemaWeight(raw)) ? storable(raw, place) : undefined;
  },
};

/** An object without templates. */
export const dataObject: Kind<JsonObject> = {
  name: "object",
  written: { type: "object" },
  parse: (raw, place) => (isObject(raw) ? storable(raw, place) : place.problem(misfit.wrongType("object"))),
};

/** A number outside the steps, where no run could compute it. */
export function plainNumber(bounds: NumberBounds = {}): Kind<number> {
  return {
    name: bounds.whole ? "integer" : "number",
    written: writtenNumber(bounds),
    parse(raw, place) {
      const fault = numberFault(raw, bounds);
      return fault ? place.problem(fault) : (raw as number);
    },
  };
}

export interface NumberBounds {
  readonly min?: number;
  readonly max?: number;
  readonly whole?: boolean;
  readonly not?: number;
}

export function number(bounds: NumberBounds = {}): Kind<NumberSource> {
  return {
    name: bounds.whole ? "integer" : "number",
    gives: { type: "number" },
    written: { anyOf: [writtenNumber(bounds), WHOLE_TEMPLATE] },
    parse(raw, place) {
      if (isWholeTemplate(raw)) return template(raw, place);
      const fault = numberFault(raw, bounds);
      return fault ? place.problem(fault) : (raw as number);
    },
  };
}

function writtenNumber({ min, max, whole, not }: NumberBounds): JsonObject {
  return {
    type: whole ? "integer" : "number",
    ...(min !== undefined && { minimum: min }),
    ...(max !== undefined && { maximum: max }),
    ...(not !== undefined && { not: { const: not } }),
  };
}

/** How a number violates its bounds, if it does. */
export function numberFault(raw: Json, { min, max, whole, not }: NumberBounds): string | undefined {
  if (typeof raw !== "number" || !Number.isFinite(raw)) return misfit.wrongType("number");
  if (whole && !Number.isSafeInteger(raw)) return misfit.wrongType("integer");
  if (min !== undefined && raw < min) return misfit.below(min);
  if (max !== undefined && raw > max) return misfit.above(max);
  if (raw === not) return misfit.unwanted(raw);
  return undefined;
}

function isWholeTemplate(raw: Json): raw is string {
  return typeof raw === "string" && raw.startsWith("${") && raw.endsWith("}");
}

function template(raw: Json, place: Place): Template | undefined {
  if (storable(raw, place) === undefined || !place.weigh(templateWeight(raw))) return undefined;
  const read = compiling(place, () => readTemplate(raw, place.inDocument));
  if (read && read.found.length > 0) place.later(() => parseEach(read.found, place));
  return read?.template;
}

function storable<T extends Json>(raw: T, place: Place): T | undefined {
  const size = measure(raw);
  return typeof size === "number" ? raw : place.below(size.path).problem(size.message);
}

type Unchecked = Pick<Found, "expression" | "check">;

/** Parses expression by expression, up to the first that is faulty. A name is warned of once. */
function* parseEach(found: readonly Unchecked[], place: Place): Slices<void> {
  const problems = place.problemCount;
  const [references, variables] = [new Set<string>(), new Set<string>()];
  for (const unchecked of found) {
    const { expression } = unchecked;
    compiling(place, () => unchecked.check());
    if (place.problemCount > problems) return;
    for (const warning of expression.warnings) place.warn("expression_doubt", warning);
    for (const name of expression.references) references.add(name);
    for (const name of expression.variables) variables.add(name);
    yield;
  }
  for (const name of references) place.warnOfName(name);
  yield;
  for (const name of variables) place.warnOfVariable(name);
}

function compiling<T>(place: Place, compile: () => T): T | undefined {
  try {
    return compile();
  } catch (error) {
    if (!(error instanceof ExpressionSyntaxError)) throw error;
    const { message, position } = error;
    return place.problem(position === undefined ? message : `${message} (at character ${position + 1})`);
  }
}
