// Hostile JSON Schemas: no schema, pattern or value stalls the node. The longest time on the event loop is printed.
import { afterAll, describe, expect, it } from "vitest";
import { type Json, type JsonObject, Schemas } from "../../../machines/index.js";
import { computing } from "../../harness/computing.js";
import { LONG } from "../../harness/long.js";

const schemas = new Schemas();
const holds: { readonly ms: number; readonly what: string }[] = [];

function held<T>(what: string, work: () => T): T {
  return computing(work, (ms) => holds.push({ what, ms }));
}

const properties = (count: number, of: object = { type: "string" }): JsonObject =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, of as Json]));
const chain = (depth: number): Json => (depth === 0 ? {} : { x: chain(depth - 1) });
const nest = (depth: number, wrap: (inner: JsonObject) => JsonObject): JsonObject =>
  depth === 0 ? {} : wrap(nest(depth - 1, wrap));
const many = <T>(count: number, of: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => of(index));
/** `a0` refers twice to `a1`, that twice to `a2`, and so on: 2^levels checks of one value. */
const doubling = (levels: number, twice: (ref: JsonObject) => JsonObject, end: JsonObject): JsonObject => ({
  $defs: Object.fromEntries(
    many(levels, (level) => [`a${level}`, level === levels - 1 ? end : twice({ $ref: `#/$defs/a${level + 1}` })]),
  ),
  $ref: "#/$defs/a0",
});
/** Refers to itself twice at every level of the value. */
const recursive = (twice: (ref: JsonObject) => JsonObject): JsonObject => ({
  $defs: { a: twice({ properties: { x: { $ref: "#/$defs/a" } } }) },
  $ref: "#/$defs/a",
});

const contains = (depth: number): JsonObject => (depth === 0 ? { const: 1 } : { contains: contains(depth - 1) });
const cube = (size: number, depth: number): Json => (depth === 0 ? 0 : many(size, () => cube(size, depth - 1)));

const ENDLESS = ["/ takes too long to check against its schema"];
const big = "a".repeat(500_000);

/** Valid schemas whose check would take far too long. */
const STALLING: readonly (readonly [string, JsonObject, Json])[] = [
  ["allOf of itself", recursive((ref) => ({ allOf: [ref, ref] })), chain(150)],
  ["allOf of itself, inside", recursive((ref) => ({ allOf: [{ allOf: [ref, ref] }] })), chain(150)],
  ["not not anyOf of itself", recursive((ref) => ({ not: { not: { allOf: [ref, ref] } } })), chain(150)],
  ["if and then of itself", recursive((ref) => ({ if: ref, then: ref })), chain(150)],
  ["dependentSchemas of itself", recursive((ref) => ({ dependentSchemas: { x: ref }, allOf: [ref] })), chain(150)],
  ["oneOf of itself", recursive((ref) => ({ oneOf: [ref, { allOf: [ref, { not: {} }] }] })), chain(150)],
  ["anyOf that fails last", recursive((ref) => ({ anyOf: [{ allOf: [ref, { not: {} }] }, ref] })), chain(150)],
  ["unevaluated in itself", recursive((ref) => ({ allOf: [ref, ref], unevaluatedProperties: false })), chain(150)],
  [
    "additional properties of itself",
    { $id: "u", allOf: many(2, () => ({ additionalProperties: { $ref: "u" } })) },
    chain(150),
  ],
  [
    "a dynamic reference",
    { $dynamicAnchor: "n", allOf: many(2, () => ({ properties: { x: { $dynamicRef: "#n" } } })) },
    chain(150),
  ],
  ["contains in contains in contains", { properties: { a: contains(3) } }, { a: cube(90, 3) }],
  ["unevaluated items of unevaluated items", nest(60, (inner) => ({ unevaluatedItems: inner })), cube(80, 3)],
  [
    "objects in long lists, all of them",
    { items: { enum: [many(20_000, (n) => [n])] } },
    many(200, () => many(20_000, (n) => [n])),
  ],
  [
    "a long list, compared often",
    {
      properties: { v: { $ref: "#/$defs/b" } },
      $defs: { a: { const: many(100_000, () => 0) }, b: { allOf: many(900, () => ({ $ref: "#/$defs/a" })) } },
    },
    { v: many(100_000, () => 0) },
  ],
  ["decimals far apart", { items: { multipleOf: 1e-300 } }, many(100_000, (n) => 1e300 + n * 1e290)],
  [
    "international names of hosts",
    { items: { format: "hostname" } },
    many(100_000, () => "xn--9n2bp8q.xn--9t4b11yi5a"),
  ],
  ["moments", { items: { format: "date-time" } }, many(200_000, () => "2026-01-01T00:00:00.123456789+01:00")],
  ["references that double", doubling(60, (ref) => ({ allOf: [ref, ref] }), { type: "number" }), 1],
  ["references that double and fail", doubling(60, (ref) => ({ anyOf: [ref, ref] }), { type: "string" }), 1],
  ["references that double under not", doubling(60, (ref) => ({ not: { not: { allOf: [ref, ref] } } }), {}), 1],
  [
    "patterns times properties",
    { patternProperties: Object.fromEntries(many(300, (n) => [`^(a|b)*${n}$`, {}])) },
    Object.fromEntries(many(3_000, (n) => [`abababab${n}`, 1])),
  ],
  ["a pattern on a long text, often", { items: { pattern: "^(a|b)*(a|b){1,100}$" } }, many(3, () => big)],
  [
    "the length of a long text, often",
    { items: { allOf: many(300, (n) => ({ minLength: 300_000 + n })) } },
    many(40, () => big),
  ],
  [
    "the format of a long text, often",
    { items: { allOf: many(300, () => ({ format: "regex" })) } },
    many(40, () => big),
  ],
  [
    "the number of members, often",
    { items: { allOf: many(300, () => ({ minProperties: 1 })) } },
    many(40, () => properties(5_000)),
  ],
  [
    "unique among long items",
    { items: { uniqueItems: true } },
    many(10, () => many(5_000, (n) => ({ n, text: "x".repeat(400) }))),
  ],
];

/** Schemas that look hostile but are cheap: the check ends with its answer. */
const CHEAP: readonly (readonly [string, JsonObject, Json, boolean])[] = [
  ["nested quantifiers", { pattern: "^(a+)+$" }, `${"a".repeat(20_000)}!`, false],
  ["alternatives that overlap", { pattern: "^(a|a|aa)*$" }, `${"a".repeat(20_000)}!`, false],
  [
    "names checked by patterns",
    { propertyNames: { pattern: "(x+x+)+y" } },
    Object.fromEntries(many(20_000, (n) => ["x".repeat(50) + n, 1])),
    false,
  ],
  ["a wildcard twice", { pattern: "^(.*)*b$" }, "a".repeat(20_000), false],
  ["an e-mail address", { format: "email" }, `${"a.".repeat(20_000)}@`, false],
  ["a date", { format: "date-time" }, "2026-".repeat(20_000), false],
  ["an address", { format: "uri" }, `http://${"a:".repeat(20_000)}`, false],
  ["a template of addresses", { format: "uri-template" }, "{a".repeat(20_000), false],
  ["an IPv6 address", { format: "ipv6" }, "::".repeat(20_000), false],
  ["a host", { format: "hostname" }, "a-.".repeat(20_000), false],
  ["a duration", { format: "duration" }, `P${"1Y".repeat(20_000)}`, false],
  ["a pointer", { format: "json-pointer" }, "/~".repeat(20_000), false],
  ["twenty thousand items, unique", { uniqueItems: true }, many(20_000, (n) => ({ n })), true],
  [
    "twenty thousand items, the last a repeat",
    { uniqueItems: true },
    [...many(20_000, (n) => ({ a: n, b: 1 })), { b: 1, a: 7 }],
    false,
  ],
  ["a long enumeration", { items: { enum: many(10_000, (n) => `e${n}`) } }, many(20, () => "nothing"), false],
  [
    "a long list in a large schema",
    { properties: { ...properties(400), list: { items: { type: "string" } } } },
    { list: many(20_000, () => "x") },
    true,
  ],
  ["a deep value", recursive((ref) => ref), chain(190), true],
  [
    "a large schema for each of many items",
    { items: { properties: properties(300) } },
    many(30_000, () => ({ p1: "x" })),
    true,
  ],
  [
    "an error under each alternative",
    { items: { anyOf: many(100, () => ({ required: many(20, (k) => `k${k}`) })) } },
    many(5_000, () => ({})),
    false,
  ],
  ["contains in contains in contains", { properties: { a: contains(3) } }, { a: cube(40, 3) }, false],
];

/** Invalid, or over a limit. */
const REFUSED: readonly (readonly [string, JsonObject, RegExp])[] = [
  ["too many objects", { properties: properties(1_001) }, /over 1000 objects/],
  ["too long", { const: "x".repeat(300_000) }, /over 262144 characters/],
  ["nested too deeply", nest(999, (inner) => ({ not: inner })), /nested too deeply|over 1000 objects/],
  ["a look-ahead", { pattern: "^(?=a)b" }, /error parsing regexp/],
  ["a back reference", { pattern: "(a)\\1" }, /error parsing regexp/],
  ["a repeat of repeats", { pattern: "((a{100}){100}){100}" }, /over 10000 instructions/],
  ["a program made of repeats", { pattern: "a{1000}".repeat(140) }, /over 10000 instructions/],
  ["ten thousand schemas that are true", { properties: properties(10_000, true as never) }, /over 1000 objects and/],
  ["twenty thousand schemas that are false", { anyOf: many(20_000, () => false) }, /over 1000 objects and boolean/],
  ["a pattern too long", { pattern: "a".repeat(1_001) }, /at most 1000 characters/],
  ["a pattern that is none", { patternProperties: { "(": {} } }, /error parsing regexp|must be of the format regex/],
  ["a reference to nowhere", { $ref: "#/$defs/none" }, /can't resolve reference/],
  ["a reference to another host", { $ref: "http://example.com/schema.json" }, /can't resolve reference/],
  ["a type that is none", { type: "strin" }, /schema\/type must be one of array/],
  ["a limit that is none", { minLength: -1 }, /schema\/minLength must be at least 0/],
  ["a list of required that is none", { required: "a" }, /schema\/required must be a list/],
  ["one $id for two schemas", { $defs: { a: { $id: "x" }, b: { $id: "x" } } }, /two schemas in it have the \$id x/],
  ["one anchor for two schemas", { $anchor: "a", not: { $anchor: "a" } }, /two schemas in it have the anchor #a/],
  [
    "too many small patterns",
    { properties: Object.fromEntries(many(900, (n) => [`p${n}`, { pattern: `^a${n}$` }])) },
    /over 30000 instructions together, where each pattern counts 50 more/,
  ],
  [
    "too many patterns that count",
    { items: { allOf: many(40, (n) => ({ pattern: `[a-z]{900}${n}` })) } },
    /over 30000 instructions together/,
  ],
];

describe("a check that would take too long ends as a problem", () => {
  it.each(STALLING)("%s", (what, schema, value) => {
    expect(held(`compiling: ${what}`, () => schemas.problems(schema))).toEqual([]);
    expect(held(what, () => schemas.conforms(schema, value))).toEqual(ENDLESS);
  });

  it("a schema that refers to itself without descending into the value", () => {
    for (const schema of [{ $ref: "#" }, { allOf: [{ $ref: "#" }] }] as JsonObject[])
      expect(held("itself", () => schemas.conforms(schema, 1))[0]).toMatch(/refers to itself endlessly|takes too long/);
  });

  it("the next check has a full budget again", () => {
    expect(
      schemas.conforms(
        { items: { type: "string" } },
        many(10_000, () => "x"),
      ),
    ).toEqual([]);
  });
});

describe("a cheap check ends with its answer", () => {
  it.each(CHEAP)("%s", (what, schema, value, conforms) => {
    held(`compiling: ${what}`, () => schemas.problems(schema));
    const problems = held(what, () => schemas.conforms(schema, value));
    expect(problems.length === 0).toBe(conforms);
    expect(problems).not.toEqual(ENDLESS);
  });
});

describe("an unusable schema is refused", () => {
  it("and is a problem of each value, if it was registered", () => {
    for (const [, schema] of REFUSED) {
      const problems = schemas.conforms(schema, {});
      expect(problems).toHaveLength(1);
      expect(problems[0]).toMatch(/^\/ cannot be checked: its schema (is not usable|refers to itself)/);
    }
  });

  it.each(REFUSED)("%s", (what, schema, sentence) => {
    const problems = held(what, () => schemas.problems(schema));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(/^is not a usable JSON Schema: /);
    expect(problems[0]).toMatch(sentence);
  });
});

describe("a check whose schemas and values are deep", () => {
  /** Each level of the value applies so many schemas, one inside the other. */
  const hops = (count: number): JsonObject => ({
    $defs: Object.fromEntries(
      many(count + 1, (n): [string, Json] => [
        `d${n}`,
        n < count
          ? { anyOf: [{ $ref: `#/$defs/d${n + 1}` }] }
          : { properties: { x: { $ref: "#/$defs/d0" } }, unevaluatedProperties: false },
      ]),
    ),
    $ref: "#/$defs/d0",
  });
  const TOO_DEEP = ["/ cannot be checked: its schema applies schemas inside of schemas, over 1200 deep"];

  it("ends at the same depth in every process, with a sentence that is true", () => {
    for (const [count, depth] of [
      [2, 150],
      [100, 3],
    ] as const)
      expect(schemas.conforms(hops(count), chain(depth))).toEqual([]);
    for (const [count, depth] of [
      [3, 170],
      [300, 10],
      [20, 190],
    ] as const) {
      expect(held("deep", () => schemas.conforms(hops(count), chain(depth)))).toEqual(TOO_DEEP);
      for (let round = 0; round < 200; round++) schemas.conforms(hops(count), chain(2));
      expect(schemas.conforms(hops(count), chain(depth))).toEqual(TOO_DEEP);
    }
  });
});

describe("a check", () => {
  it("names each problem and its path", () => {
    const schema = { type: "object", properties: { a: { items: { type: "number" } } }, required: ["b"] };
    expect(schemas.conforms(schema, {})).toEqual(["/b is required"]);
    expect(schemas.conforms(schema, { a: [1, "x"], b: 1 })).toEqual(["/a/1 must be a number"]);
    expect(schemas.conforms({}, 1)).toEqual([]);
  });

  it("compares values without the order of their members, and tells text from numbers", () => {
    const unique = (...items: Json[]) => schemas.conforms({ uniqueItems: true }, items).length === 0;
    expect(unique({ a: 1, b: [1] }, { b: [1], a: 1 })).toBe(false);
    expect(unique(1, "1", true, "true", null, "null", [], {}, [1], 0)).toBe(true);
    expect(schemas.conforms({ uniqueItems: false }, [1, 1])).toEqual([]);
  });

  it("takes a name that looks like generated code as a name", () => {
    const name = "for(let i=0;;){function validate1(data, {}={}){";
    const schema = { properties: { [name]: { const: name } }, required: [name], additionalProperties: false };
    expect(schemas.conforms(schema, { [name]: name })).toEqual([]);
    expect(schemas.conforms(schema, { [name]: 1 })).toHaveLength(1);
  });

  it("keeps the patterns of a schema apart", () => {
    const schema = { properties: { a: { pattern: "^a" }, b: { pattern: "^b" } }, patternProperties: { "^c": false } };
    expect(schemas.conforms(schema, { a: "a", b: "b" })).toEqual([]);
    expect(schemas.conforms(schema, { b: "a" })).toEqual(["/b must match the pattern ^b"]);
    expect(schemas.conforms(schema, { c: 1 })).toHaveLength(1);
  });

  it("keeps an $id of one schema out of another", () => {
    expect(schemas.problems({ $id: "https://example.com/a", type: "string" })).toEqual([]);
    expect(schemas.problems({ $id: "https://example.com/a", type: "number" })).toEqual([]);
    expect(schemas.problems({ $ref: "https://example.com/a" })).toHaveLength(1);
  });
});

/** The yardstick: what a machine takes to parse two megabytes. */
function parsing(): number {
  const text = JSON.stringify(
    many(24_000, (n) => ({ id: n, name: `name ${n}`, on: true, price: n / 7, tags: ["a", "b"] })),
  );
  const times = many(5, () => {
    let least = 0;
    computing(
      () => JSON.parse(text),
      (ms) => {
        least = ms;
      },
    );
    return least;
  });
  return Math.min(...times);
}

afterAll(() => {
  const parse = parsing();
  const ratio = (ms: number) => (ms / parse).toFixed(1);
  const byTime = [...holds].sort((a, b) => b.ms - a.ms);
  const [longest] = byTime;
  const count = STALLING.length + CHEAP.length + REFUSED.length + 2;
  const lines = LONG ? byTime.filter(({ ms }) => ms >= parse).map(({ ms, what }) => `\n${what}: ${ratio(ms)}`) : [];
  console.log(
    `${count} hostile schemas and patterns, as multiples of the parsing of 2 MB (${parse.toFixed(0)} ms). ` +
      `The longest: ${longest?.what}, ${ratio(longest?.ms ?? 0)}${lines.join("")}`,
  );
});
