// JSON Schemas from outside: values are checked against them, and hostile ones end as a problem.
import { describe, expect, it } from "vitest";
import { type Json, type JsonObject, Schemas, UNKNOWN_TEXT } from "../../../machines/index.js";

const schemas = new Schemas();
const text = (pattern: string): JsonObject => ({ type: "object", properties: { t: { type: "string", pattern } } });

describe("a value is checked against its schema", () => {
  const cases: [what: string, schema: JsonObject, fits: Json, unfit: Json, problem: string][] = [
    ["a type", { type: "object" }, {}, [], "/ must be an object"],
    ["a member", { required: ["n"] }, { n: 1 }, {}, "/n is required"],
    ["a bound", { properties: { n: { minimum: 1 } } }, { n: 1 }, { n: 0 }, "/n must be at least 1"],
    ["a pattern", text("^a+$"), { t: "aa" }, { t: "b" }, "/t must match the pattern ^a+$"],
    [
      "a format",
      { properties: { m: { format: "email" } } },
      { m: "a@b.cd" },
      { m: "a" },
      "/m must be of the format email",
    ],
    ["uniqueness", { uniqueItems: true }, [1, 2], [1, 1], "/ must not have the same item twice"],
  ];
  it.each(cases)("%s", (_, schema, fits, unfit, problem) => {
    expect(schemas.problems(schema)).toEqual([]);
    expect(schemas.conforms(schema, fits)).toEqual([]);
    expect(schemas.conforms(schema, unfit)).toEqual([problem]);
  });

  it("keeps several patterns in one schema apart", () => {
    const schema = { properties: { a: { pattern: "^a$" }, b: { pattern: "^b$" } } };
    expect(schemas.conforms(schema, { a: "a", b: "b" })).toEqual([]);
    expect(schemas.conforms(schema, { a: "b" })).toEqual(["/a must match the pattern ^a$"]);
    expect(schemas.conforms(schema, { b: "a" })).toEqual(["/b must match the pattern ^b$"]);
  });

  it("keeps two schemas with the same $id apart", () => {
    const named = (type: string) => ({ $id: "https://example.com/s", type });
    expect(schemas.conforms(named("object"), {})).toEqual([]);
    expect(schemas.conforms(named("array"), {})).toEqual(["/ must be a list"]);
  });
});

describe("a schema that says it is of another draft", () => {
  it("is refused where a document has it, and read as one of this draft where it was registered", () => {
    const schema = { $schema: "http://json-schema.org/draft-07/schema#", type: "object", definitions: {} };
    expect(schemas.problems(schema)).toEqual([expect.stringMatching(/its \$schema is not .*2020-12/)]);
    expect(schemas.conforms(schema, {})).toEqual([]);
    expect(schemas.conforms(schema, 1)).toEqual(["/ must be an object"]);
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
    expect(schemas.conforms(schema, [text, 1, text, 1])).toEqual(["/ must not have the same item twice"]);
  });
});

describe("an ordinary body", () => {
  const many = <T>(count: number, of: (index: number) => T): T[] =>
    Array.from({ length: count }, (_, index) => of(index));
  const size = (value: Json) => JSON.stringify(value).length;
  const MIB = 1_048_576;

  it("with nullable members fits, up to the limit of a body", () => {
    const names = many(10, (n) => `member_name_${n}`);
    const nullable = { anyOf: [{ type: "string" }, { type: "null" }], default: null };
    const row = { type: "object", properties: Object.fromEntries(names.map((name) => [name, nullable])) };
    const rows = (count: number, of: Json) =>
      many(count, () => Object.fromEntries(names.map((name) => [name, of])) as JsonObject);
    const schema = { type: "object", properties: { rows: { type: "array", items: row } } } as JsonObject;
    for (const value of [rows(9_500, null), rows(8_500, "text")]) {
      expect(size(value)).toBeGreaterThan(1.8 * MIB);
      expect(schemas.conforms(schema, { rows: value })).toEqual([]);
    }
    const wrong = schemas.conforms(schema, { rows: [...rows(8_000, null), { member_name_3: 1 }] });
    expect(wrong).toEqual([
      "/rows/8000/member_name_3 must be a string",
      "/rows/8000/member_name_3 must be null",
      "/rows/8000/member_name_3 must match a schema in anyOf",
    ]);
  });

  it("of an order fits, up to the limit of a body", () => {
    const properties = {
      ...{ sku: { type: "string", minLength: 1, maxLength: 40 }, qty: { type: "integer", minimum: 1 } },
      ...{ price: { type: "number", multipleOf: 0.01 }, currency: { enum: ["EUR", "USD"] } },
      at: { type: "string", format: "date-time" },
    };
    const item = { type: "object", required: ["sku", "qty", "price"], properties, additionalProperties: false };
    const schema = { type: "object", properties: { items: { type: "array", items: item } } } as JsonObject;
    const items = many(22_500, (n) => ({
      ...{ sku: `SKU-${n}`, qty: (n % 10) + 1, price: 19.99, currency: "EUR", at: "2026-01-01T00:00:00Z" },
    }));
    expect(size(items)).toBeGreaterThan(1.8 * MIB);
    expect(schemas.conforms(schema, { items })).toEqual([]);
    expect(schemas.conforms(schema, { items: [...items, { ...items[0], qty: 0 } as Json] })).toEqual([
      "/items/22500/qty must be at least 1",
    ]);
  });
});
