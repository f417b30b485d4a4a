// Schemas as people and generators write them: patterns that are no regular expressions of JavaScript, references that are no exact URIs.
import { describe, expect, it } from "vitest";
import { type Json, type JsonObject, Schemas } from "../../../machines/index.js";

/** RE2 reads the patterns, and the references lead to a place in the schema, however it is written. */
const SCHEMAS: readonly (readonly [schema: JsonObject, fits: Json, unfit: Json])[] = [
  ...(
    [
      ["^[\\w-\\.]+@([\\w-]+\\.)+[\\w-]{2,4}$", "a.b@c.de", "a"],
      ["\\d{3}\\-\\d{4}", "555-0123", "5550123"],
      ["\\@", "a@b", "a"],
      ["(?i)abc", "xABC", "ab"],
      ["\\A\\d+\\z", "12", "12a"],
      ["[[:alpha:]]", "a", "1"],
      ["^(?P<year>\\d{4})$", "2026", "26"],
      ["a}", "a}", "a"],
    ] as const
  ).map(([pattern, fits, unfit]) => [{ pattern }, fits, unfit] as const),
  [{ patternProperties: { "^x\\-": { type: "string" } } }, { "x-a": "b" }, { "x-a": 1 }],
  ...["#/$defs/My Type", "#/$defs/Partial<Foo>", "#/$defs/Gr\u00f6\u00dfe", "#/$defs/a[b]"].map(
    (ref) => [{ $ref: ref, $defs: { [ref.slice("#/$defs/".length)]: { type: "string" } } }, "a", 1] as const,
  ),
  [{ $ref: "#/definitions/Partial<Foo>", definitions: { "Partial<Foo>": { type: "string" } } }, "a", 1],
  ...["", "#", "My Type", "order"].map(($id) => [{ $id, type: "string" }, "a", 1] as const),
  [{ $id: "", properties: { a: { $ref: "#" } }, type: "object" }, { a: {} }, { a: 1 }],
];

describe("a schema as people write it", () => {
  const schemas = new Schemas();
  it.each(SCHEMAS)("%j", (schema, fits, unfit) => {
    expect(schemas.problems(schema)).toEqual([]);
    expect(schemas.conforms(schema, fits)).toEqual([]);
    expect(schemas.conforms(schema, unfit)).toEqual([expect.stringMatching(/must/)]);
  });
});
