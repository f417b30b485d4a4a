// The part of the CEL specification's own tests that speaks of JSON-like values without protobuf messages or bindings,
// run through our bounds, rules and conversions. Departures are declared here, each with its reason.
import { tests } from "@bufbuild/cel-spec/testdata/conformance.js";
import { expect, test } from "vitest";
import { compileExpression } from "../../machines/expression/index.js";
import type { Json } from "../../machines/json.js";

/** Extensions we do not enable, static types, and protobuf. */
const OTHER_SUITES =
  /^(macros2|optionals|type_deductions|enums|dynamic|wrappers|proto\w*|(block|bindings|encoders|math|network|proto2)_ext)$/;

const DEPARTURES: readonly (readonly [RegExp, string])[] = [
  [/^basic\/functions\/unbound_is_runtime_error$/, "an unknown function is refused at publish"],
  [/^parse\/receiver_function_names\//, "an unknown function is refused at publish"],
  [/^fields\/quoted_map_fields\//, "the library's grammar has no quoted fields"],
  [/^fields\/.*\/map_value_repeat_key_heterogeneous$/, "the library takes 0 and 0u for two keys"],
  [/^fp_math\/fp_math\/mod_not_support$/, "contract: % works on doubles"],
];

type Suite = typeof tests;
type Case = NonNullable<Suite["tests"]>[number];
type Wire = { readonly [kind: string]: unknown };

function* cases(suite: Suite, path: readonly string[]): Generator<[string, Case]> {
  for (const child of suite.suites ?? []) {
    if (path.length > 0 || !OTHER_SUITES.test(child.name)) yield* cases(child, [...path, child.name]);
  }
  for (const each of suite.tests ?? []) yield [[...path, each.original.name ?? ""].join("/"), each];
}

/** The JSON that the contract makes of an expected value, or undefined if it has none (NaN, int64, U+0000, messages). */
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

test("the specification's tests pass, but for the declared departures", () => {
  let run = 0;
  const wrong: string[] = [];
  const met = new Set<string>();
  for (const [name, { original }] of cases(tests, [])) {
    const { expr, container, typeEnv, bindings, checkOnly, evalError, value } = original as Wire & { expr: string };
    if (container || typeEnv || bindings || checkOnly || expr.includes("TestAllTypes")) continue;
    const wanted = evalError ? undefined : toJson((value as Wire | undefined) ?? { boolValue: true });
    if (!evalError && wanted === undefined) continue;
    run++;
    if (agrees(expr, wanted)) continue;
    const departure = DEPARTURES.find(([pattern]) => pattern.test(name));
    if (departure === undefined) wrong.push(`${name}: ${expr}`);
    else met.add(departure[0].source);
  }
  expect(wrong).toEqual([]);
  expect(run).toBeGreaterThan(1000);
  expect(met.size).toBe(DEPARTURES.length);
});

function agrees(source: string, wanted: Json | undefined): boolean {
  let result: Json | undefined;
  try {
    result = compileExpression(source).evaluate({});
  } catch {
    result = undefined;
  }
  return wanted === undefined ? result === undefined : sorted(result) === sorted(wanted);
}

function sorted(value: Json | undefined): string {
  return JSON.stringify(value, (_, member: unknown) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort())
      : member,
  );
}
