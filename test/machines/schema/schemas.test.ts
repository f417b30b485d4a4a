// JSON Schemas from outside: values are checked against them, and hostile ones end as a problem.
import { describe, expect, it } from "vitest";
import { type Json, type JsonObject, Schemas, UNKNOWN_TEXT } from "../../../machines/index.js";

const schemas = new Schemas();
const text = (pattern: string): JsonObject => ({ type: "object", properties: { t: { type: "string", pattern } } });

describe("a value is checked against its schema", () => {
  const cases: [what: string, schema: JsonObject, fits: Json, unfit: Json, problem: string][] = [
    ["a type", { type: "object" }, {}, [], "/ must be object"],
    ["a member", { required: ["n"] }, { n: 1 }, {}, "/ must have required property 'n'"],
    ["a bound", { properties: { n: { minimum: 1 } } }, { n: 1 }, { n: 0 }, "/n must be >= 1"],
    ["a pattern", text("^a+$"), { t: "aa" }, { t: "b" }, '/t must match pattern "^a+$"'],
    [
      "a format",
      { properties: { m: { format: "email" } } },
      { m: "a@b.cd" },
      { m: "a" },
      '/m must match format "email"',
    ],
    ["uniqueness", { uniqueItems: true }, [1, 2], [1, 1], "/ must NOT have duplicate items"],
  ];
  it.each(cases)("%s", (_, schema, fits, unfit, problem) => {
    expect(schemas.problems(schema)).toEqual([]);
    expect(schemas.conforms(schema, fits)).toEqual([]);
    expect(schemas.conforms(schema, unfit)).toEqual([problem]);
  });

  it("keeps several patterns in one schema apart", () => {
    const schema = { properties: { a: { pattern: "^a$" }, b: { pattern: "^b$" } } };
    expect(schemas.conforms(schema, { a: "a", b: "b" })).toEqual([]);
    expect(schemas.conforms(schema, { a: "b" })).toEqual(['/a must match pattern "^a$"']);
    expect(schemas.conforms(schema, { b: "a" })).toEqual(['/b must match pattern "^b$"']);
  });

  it("keeps two schemas with the same $id apart", () => {
    const named = (type: string) => ({ $id: "https://example.com/s", type });
    expect(schemas.conforms(named("object"), {})).toEqual([]);
    expect(schemas.conforms(named("array"), {})).toEqual(["/ must be array"]);
  });
});

describe("a schema that says it is of another draft", () => {
  it("is refused where a document has it, and read as one of this draft where it was registered", () => {
    const schema = { $schema: "http://json-schema.org/draft-07/schema#", type: "object", definitions: {} };
    expect(schemas.problems(schema)).toEqual([expect.stringMatching(/its \$schema is not .*2020-12/)]);
    expect(schemas.conforms(schema, {})).toEqual([]);
    expect(schemas.conforms(schema, 1)).toEqual(["/ must be object"]);
  });
});

describe("an unusable schema is reported", () => {
  it.each<[string, JsonObject]>([
    ["an unknown type", { type: "banana" }],
    ["a pattern that does not parse", text("(")],
    ["a pattern with a look-around", text("(?=a)b")],
    ["a pattern with a back reference", text("(a)\\1")],
    ["a reference to another document", { $ref: "https://example.com/schema" }],
    ["a schema that is too large", { description: "x".repeat(262_144) }],
  ])("%s", (_, schema) => {
    expect(schemas.problems(schema)).toEqual([expect.stringMatching(/^is not a usable JSON Schema: /)]);
  });
});

describe("a hostile schema or value is checked to its end", () => {
  it.each<[string, JsonObject, Json]>([
    ["a pattern that backtracks", text("^(a+)+$"), { t: `${"a".repeat(50_000)}!` }],
    ["a pattern that counts", text("^(a{1,30}){1,30}$"), { t: `${"a".repeat(50_000)}!` }],
    [
      "duplicates in a long list",
      { properties: { l: { uniqueItems: true } } },
      { l: Array.from({ length: 9_999 }, () => ({})) },
    ],
  ])("%s", (_, schema, value) => {
    expect(schemas.conforms(schema, value)).toHaveLength(1);
  });
});

describe("a text that is not known yet", () => {
  it("is unique beside others that are not known", () => {
    const [schema, text] = [{ uniqueItems: true }, UNKNOWN_TEXT];
    expect(schemas.conforms(schema, [text, text, "a"])).toEqual([]);
    expect(schemas.conforms(schema, [{ a: text }, { a: text }])).toEqual([]);
    expect(schemas.conforms(schema, [text, 1, text, 1])).toEqual(["/ must NOT have duplicate items"]);
  });
});
