// A large JSON Schema is compiled in parts: the values that conform to it are the same, and each part is a slice of the work.
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { inOnePiece, type Json, type JsonObject } from "../../machines/index.js";
import { partsOf } from "../../src/run/json-schema/parts.js";
import { Schemas } from "../../src/run/json-schema/schemas.js";

const many = <T>(count: number, of: (index: number) => T): T[] => Array.from({ length: count }, (_, n) => of(n));
const members = (count: number, of: (index: number) => Json): JsonObject =>
  Object.fromEntries(many(count, (n) => [`p${n}`, of(n)]));

const integer = { type: "integer" };
const SCHEMAS: readonly (readonly [string, JsonObject])[] = [
  [
    "many members",
    { type: "object", required: ["p3"], properties: members(90, (n) => ({ type: "integer", maximum: n })) },
  ],
  ["no others", { properties: members(60, () => integer), additionalProperties: false }],
  [
    "others of a kind",
    { properties: members(60, () => integer), additionalProperties: { properties: members(30, () => integer) } },
  ],
  [
    "members of members",
    { properties: members(8, () => ({ type: "object", properties: members(20, () => integer) })) },
  ],
  ["items", { properties: { p1: { type: "array", items: { properties: members(40, () => integer) } } } }],
  ["all of many", { allOf: many(80, (n) => ({ properties: { [`p${n}`]: integer } })) }],
  ["all of few large ones", { allOf: many(2, () => ({ properties: members(40, () => integer) })), minProperties: 1 }],
  [
    "any of large ones",
    {
      anyOf: [
        { properties: members(30, () => integer) },
        { properties: { p2: { type: "string" } }, required: ["p2"], allOf: many(26, () => ({})) },
      ],
    },
  ],
  [
    "one of large ones",
    {
      oneOf: [
        { required: ["p1"], properties: members(30, () => integer) },
        { required: ["p2"], properties: members(30, () => integer) },
      ],
    },
  ],
  ["forbidden members", { properties: members(40, (n) => n > 2) }],
  ["what is bound together", { $defs: { n: integer }, properties: members(40, () => ({ $ref: "#/$defs/n" })) }],
  ["what was not evaluated", { allOf: [{ properties: members(40, () => integer) }], unevaluatedProperties: false }],
];

const VALUES: readonly Json[] = [
  {},
  [],
  "text",
  ...["p0", "p1", "p2", "p3", "p39", "other", "constructor"].flatMap((name): Json[] => [
    { [name]: 0 },
    { [name]: "x" },
    { [name]: { p1: "x" } },
    { [name]: [{ p1: 1 }, { p5: "x" }] },
    { p3: 1, [name]: 100 },
  ]),
  members(40, () => 1),
  members(120, () => 1),
  members(40, (n) => members(20, (k) => (n === 7 && k === 19 ? "x" : 1))),
];

describe("a large schema", () => {
  it.each(SCHEMAS)("accepts the same values in parts as whole: %s", (_, schema) => {
    const schemas = new Schemas();
    const whole = new Ajv2020({ strict: false }).compile(schema);
    for (const value of VALUES)
      expect([value, schemas.conforms(schema, value).length === 0]).toEqual([value, whole(value)]);
  });

  it("names the member that is wrong", () => {
    const [, [, schema]] = [0, SCHEMAS[3] as [string, JsonObject]];
    expect(new Schemas().conforms(schema, { p5: { p7: "x" } })).toEqual(["/p5/p7 must be integer"]);
  });

  it("is compiled part by part, and a small one in one piece", () => {
    const slices = (schema: JsonObject) => [...new Schemas().problemSlices(schema)].length;
    expect(slices({ properties: members(10, () => integer) })).toBe(1);
    expect(slices({ properties: members(900, () => integer) })).toBeGreaterThan(30);
    expect(slices({ properties: members(10, (n) => ({ pattern: `a{1000}${n}` })) })).toBeGreaterThan(9);
  });

  it("that is faulty in a part is refused with the place", () => {
    const faulty = { properties: { ...members(60, () => integer), bad: { type: "banana" } } };
    expect(inOnePiece(new Schemas().problemSlices(faulty))).toEqual([expect.stringContaining("/properties/bad/type")]);
    const pattern = { properties: { ...members(60, () => integer), bad: { pattern: "(" } } };
    expect(new Schemas().problems(pattern)).toEqual([expect.stringMatching(/^is not a usable JSON Schema: /)]);
  });

  it("has parts that are themselves small", () => {
    for (const [, schema] of SCHEMAS)
      for (const part of partsOf(schema).parts) expect(JSON.stringify(part.schema).length).toBeLessThan(3_000);
  });
});
