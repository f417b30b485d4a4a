// The tests of the CEL specification, section by section, with our bounds, rules and conversions. A case is left out only if it is about
// protobuf messages or checks types without evaluating. Departures are listed here, each with its reason.
import { tests } from "@bufbuild/cel-spec/testdata/conformance.js";
import { describe, expect, it } from "vitest";
import { compileExpression, ExpressionError, ExpressionSyntaxError } from "../../machines/expression/index.js";
import { isObject, type Json } from "../../machines/values/json.js";
import { formatInstant, parseInstant } from "../../machines/values/time.js";

/** The supported sections, with their number of cases, so that a missing case is noticed. */
const SUPPORTED: Readonly<Record<string, number>> = {
  basic: 43,
  bindings_ext: 5,
  comparisons: 362,
  conversions: 109,
  encoders_ext: 4,
  fields: 60,
  fp_math: 30,
  integer_math: 64,
  lists: 39,
  logic: 30,
  macros: 44,
  macros2: 46,
  math_ext: 199,
  namespace: 1,
  optionals: 59,
  parse: 193,
  plumbing: 5,
  string: 51,
  string_ext: 206,
  timestamps: 76,
};

const UNSUPPORTED: Readonly<Record<string, string>> = {
  block_ext: "what optimisers write, and people do not",
  network_ext: "an extension that is not enabled",
  dynamic: "about protobuf's wrapper and dynamic messages",
  enums: "about protobuf's enumerations",
  proto2: "about protobuf messages",
  proto2_ext: "about protobuf messages",
  proto3: "about protobuf messages",
  wrappers: "about protobuf messages",
  unknowns: "the specification has no cases in it",
  type_deductions: "about a type checker: JSON has no types to check against",
};

const MIXED = "the contract: numbers of JSON are doubles, and mixed arithmetic promotes";
const DEPARTURES: readonly (readonly [RegExp, string])[] = [
  [/^fp_math\/fp_math\/mod_not_support$/, `${MIXED}; % works on them too`],
  [/^basic\/functions\/unbound_is_runtime_error$/, "an unknown function is refused at publish"],
  [/^parse\/receiver_function_names\//, "an unknown function is refused at publish"],
  [/^fields\/quoted_map_fields\//, "the library's grammar has no quoted fields"],
  [
    /\/(qualified_ident|map_field_select|qualified_identifier_resolution_unchecked|ident_with_longest_prefix_check|self_eval_qualified_lookup)$/,
    "a name of a scope has no dot",
  ],
  [/^comparisons\/bound\/bytes_gt_left_false$/, "a scope holds JSON, which has no bytes"],
  [/^timestamps\/duration_converters\/get_milliseconds$/, "a scope holds JSON, which has no durations"],
];

type Suite = typeof tests;
type Wire = { readonly [kind: string]: unknown };
interface Wanted {
  readonly expr: string;
  readonly container?: string;
  readonly checkOnly?: boolean;
  readonly bindings?: Readonly<Record<string, { readonly value?: Wire }>>;
  readonly evalError?: unknown;
  readonly value?: Wire;
}

function* cases(suite: Suite, path: readonly string[]): Generator<[string, Wanted]> {
  for (const child of suite.suites ?? []) yield* cases(child, [...path, child.name]);
  for (const { original } of suite.tests ?? [])
    yield [[...path, original.name ?? ""].join("/"), original as unknown as Wanted];
}

describe("CEL conformance", () => {
  it("every section of the specification is either supported or left out for a reason", () => {
    const sections = (tests.suites ?? []).map(({ name }) => name).sort();
    const listed = [...Object.keys(SUPPORTED), ...Object.keys(UNSUPPORTED)].filter((name) => sections.includes(name));
    expect(listed.sort()).toEqual(sections);
  });

  const departed = new Set<string>();

  it.each(Object.entries(SUPPORTED))("%s: all its %i cases pass, but for the declared departures", (name, count) => {
    const suite = tests.suites?.find((each) => each.name === name) as Suite;
    let run = 0;
    const wrong: string[] = [];
    for (const [path, wanted] of cases(suite, [name])) {
      if (isAboutProtobuf(wanted)) continue;
      run++;
      if (agrees(wanted)) continue;
      const departure = DEPARTURES.find(([pattern]) => pattern.test(path));
      if (departure === undefined) wrong.push(`${path}: ${wanted.expr}`);
      else departed.add(departure[0].source);
    }
    expect(wrong).toEqual([]);
    expect(run).toBe(count);
  });

  it("every declared departure is one", () => {
    expect(DEPARTURES.map(([{ source }]) => source).filter((source) => !departed.has(source))).toEqual([]);
  });
});

function isAboutProtobuf({ expr, container, checkOnly }: Wanted): boolean {
  return Boolean(container || checkOnly) || expr.includes("TestAllTypes");
}

/** A value that JSON lacks must be an error, as must every error of the specification. */
function agrees({ expr, bindings = {}, evalError, value }: Wanted): boolean {
  const scope = Object.fromEntries(Object.entries(bindings).map(([name, bound]) => [name, toJson(bound.value ?? {})]));
  if (Object.values(scope).includes(undefined)) throw new Error(`a binding of ${expr} is no JSON`);
  const wanted = evalError ? undefined : toJson(value ?? { boolValue: true });
  const result = resultOf(expr, scope as Record<string, Json>);
  return wanted === undefined ? result === undefined : sorted(result) === sorted(wanted);
}

function resultOf(source: string, scope: Record<string, Json>): Json | undefined {
  try {
    return compileExpression(source).evaluate(scope);
  } catch (error) {
    if (error instanceof ExpressionError || error instanceof ExpressionSyntaxError) return undefined;
    throw error;
  }
}

/** The JSON of an expected value. Undefined if there is none (NaN, int64, U+0000, types). */
function toJson(value: Wire): Json | undefined {
  const [kind, content] = Object.entries(value)[0] ?? [];
  switch (kind) {
    case "nullValue":
      return null;
    case "boolValue":
    case "bytesValue":
      return content as Json;
    case "stringValue":
      return String(content).includes("\u0000") ? undefined : String(content);
    case "int64Value":
    case "uint64Value":
      return Number.isSafeInteger(Number(content)) ? Number(content) : undefined;
    case "doubleValue":
      return Number.isFinite(Number(content)) ? Number(content) : undefined;
    case "listValue":
      return all(((content as { values?: Wire[] }).values ?? []).map(toJson));
    case "mapValue":
      return toObject((content as { entries?: { key: Wire; value: Wire }[] }).entries ?? []);
    case "objectValue":
      return timeOf(content as { "@type": string; value: string });
    default:
      return undefined;
  }
}

function all(items: (Json | undefined)[]): Json | undefined {
  return items.every((item) => item !== undefined) ? items : undefined;
}

function toObject(entries: readonly { key: Wire; value: Wire }[]): Json | undefined {
  const values = all(entries.map(({ value }) => toJson(value)));
  if (!Array.isArray(values)) return undefined;
  return Object.fromEntries(entries.map(({ key }, index) => [String(toJson(key)), values[index]]));
}

/** A timestamp is RFC 3339 to the millisecond, a duration whole milliseconds. */
function timeOf(message: { readonly "@type": string; readonly value: string }): Json | undefined {
  const type = message["@type"].split(".").at(-1);
  if (type === "Duration") return Math.floor(Number(message.value.replace(/s$/, "")) * 1000);
  const at = type === "Timestamp" ? parseInstant(message.value) : undefined;
  return at === undefined ? undefined : formatInstant(at);
}

function sorted(value: Json | undefined): string {
  return JSON.stringify(value, (_, member: unknown) =>
    isObject(member) ? Object.fromEntries(Object.entries(member).sort()) : member,
  );
}
