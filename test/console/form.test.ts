// The validator of the console's forms, and how the problems of a refusal find their fields. The forms themselves are tested in a browser
// with the page of tasks.
import { describe, expect, it } from "vitest";
import { ASSERTIONS } from "../../machines/schema/assertions.js";
import { keysOf, misfitsAt } from "../../src/console/parts/form-problems.js";
import { complete, misfits, validatorOf } from "../../src/console/parts/form-validator.js";
import { approvalMisfits, withoutDecision } from "../../src/console/tasks/approval.js";

const validator = validatorOf();

const PERSON = {
  type: "object",
  required: ["name"],
  properties: { name: { type: "string", minLength: 2 }, age: { type: "integer", minimum: 0 } },
};

describe("the validator of forms", () => {
  it("names the place of each misfit, and a missing member at its own field", () => {
    const schema = { type: "object", properties: { people: { type: "array", items: PERSON } } };
    const found = misfits(schema, { people: [{ age: -1 }, { name: "x" }] });
    expect(found.map(({ place }) => place.join("."))).toEqual(["people.0.name", "people.0.age", "people.1.name"]);
    expect(found[0]?.message).toBe("is required");
  });

  it("takes an undefined member for an absent one", () => {
    expect(misfits(PERSON, { name: "ann", age: undefined })).toEqual([]);
    expect(misfits(PERSON, { name: undefined })).toEqual([{ place: ["name"], message: "is required" }]);
  });

  it("reports the alternative that fits best", () => {
    const card = { type: "object", required: ["card", "until"], properties: { card: { type: "string" } } };
    const bank = { type: "object", required: ["iban", "bic"], properties: { iban: { type: "string" } } };
    const schema = { type: "object", properties: { pay: { oneOf: [card, bank] } } };
    expect(misfits(schema, { pay: { card: "4711" } })).toEqual([{ place: ["pay", "until"], message: "is required" }]);
  });

  it("reports every alternative that fits as well as the best: the form shows the fields of one", () => {
    const [card, bank] = ["card", "iban"].map((name) => ({ type: "object", required: [name] }));
    const found = misfits({ type: "object", properties: { pay: { oneOf: [card, bank] } } }, { pay: {} });
    expect(found.map(({ place }) => place.join("."))).toEqual(["pay.card", "pay.iban"]);
  });

  it("counts decimals as they are written", () => {
    const schema = { type: "object", properties: { price: { type: "number", multipleOf: 0.01 } } };
    expect(misfits(schema, { price: 19.99 })).toEqual([]);
    expect(misfits(schema, { price: 19.999 })).toEqual([{ place: ["price"], message: "must be a multiple of 0.01" }]);
  });

  it("resolves a definition of the whole schema for a part of it", () => {
    const root: object = { $defs: { person: PERSON } };
    const part = { $ref: "#/$defs/person" };
    expect(validator.isValid(part, { name: "ann" }, root)).toBe(true);
    expect(validator.isValid(part, { name: "a" }, root)).toBe(false);
    expect(validator.isValid({ $ref: "#/$defs/none" }, {}, root)).toBe(false);
  });

  it("leaves the schema as it was", () => {
    const schema = Object.freeze({
      type: "object",
      properties: Object.freeze({ a: Object.freeze({ type: "string" }) }),
    });
    expect(misfits(schema, { a: 1 })).toHaveLength(1);
  });

  it("does not run code that is made from text", () => {
    const made = globalThis.Function;
    globalThis.Function = (() => {
      throw new Error("forbidden");
    }) as unknown as FunctionConstructor;
    try {
      expect(misfits({ ...PERSON }, { name: "ann" })).toEqual([]);
    } finally {
      globalThis.Function = made;
    }
  });
});

describe("a form that is not filled in", () => {
  const group = { type: "object", required: ["lines", "at"], properties: { lines: { type: "array" }, at: PERSON } };
  const either = { oneOf: [{ $ref: "#/$defs/group" }, { type: "object" }] };
  const schema = (properties: object, required = Object.keys(properties)) => ({
    ...{ type: "object", properties, required, $defs: { group } },
  });

  it.each<[string, object, unknown, unknown]>([
    ["a group", schema({ a: PERSON }), {}, { a: {} }],
    ["a list", schema({ a: { type: "array", items: PERSON } }), {}, { a: [] }],
    ["a group of groups, by reference", schema({ a: { $ref: "#/$defs/group" } }), {}, { a: { lines: [], at: {} } }],
    ["a choice of groups", schema({ a: either }), {}, { a: {} }],
    ["a member that the form cleared", schema({ a: PERSON }), { a: undefined }, { a: {} }],
    ["the items of a list", { type: "array", items: schema({ a: PERSON }) }, [{}, null], [{ a: {} }, null]],
  ])("has what is required, and empty: %s", (_, of, value, expected) => {
    expect(complete(of, value)).toEqual(expected);
  });

  it.each<[string, object, unknown]>([
    ["what is not required", schema({ a: PERSON, b: { type: "array" } }, []), {}],
    ["a value", schema({ a: { type: "string" }, b: { type: "integer" } }), {}],
    ["a choice that is no group", schema({ a: { oneOf: [PERSON, { type: "string" }] } }), {}],
    ["null", schema({ a: PERSON }), { a: null }],
    ["a member of every object", schema({ constructor: { type: "string" } }), {}],
  ])("lacks what only a person can fill in: %s", (_, of, value) => {
    expect(complete(of, value)).toEqual(value);
  });

  it("ends where a schema contains itself", () => {
    const node: object = { type: "object", required: ["next"], properties: { next: { $ref: "#/$defs/node" } } };
    expect(complete({ ...node, $defs: { node } }, {})).toHaveProperty("next.next");
  });
});

describe("the words of a form", () => {
  const list = [1, 1, "a"];
  const object = { a: 1, b: 2 };
  const CASES: Readonly<Record<string, readonly [more: object, value: unknown]>> = {
    type: [{ type: ["string", "null"] }, 1],
    const: [{ const: 5 }, 1],
    enum: [{ enum: ["a", 5] }, 1],
    minimum: [{ minimum: 2 }, 1],
    maximum: [{ maximum: 0 }, 1],
    exclusiveMinimum: [{ exclusiveMinimum: 1 }, 1],
    exclusiveMaximum: [{ exclusiveMaximum: 1 }, 1],
    multipleOf: [{ multipleOf: 0.3 }, 1],
    minLength: [{ minLength: 2 }, "a"],
    maxLength: [{ maxLength: 1 }, "ab"],
    pattern: [{ pattern: "^b" }, "a"],
    format: [{ format: "date" }, "a"],
    minItems: [{ minItems: 5 }, list],
    maxItems: [{ maxItems: 1 }, list],
    uniqueItems: [{ uniqueItems: true }, list],
    contains: [{ contains: { type: "null" } }, list],
    maxContains: [{ contains: { const: 1 }, maxContains: 1 }, list],
    items: [{ prefixItems: [true], items: false }, list],
    unevaluatedItems: [{ prefixItems: [true], unevaluatedItems: false }, list],
    minProperties: [{ minProperties: 5 }, object],
    maxProperties: [{ maxProperties: 1 }, object],
    required: [{ required: ["c"] }, object],
    dependentRequired: [{ dependentRequired: { a: ["c"] } }, object],
    additionalProperties: [{ properties: { a: true }, additionalProperties: false }, object],
    unevaluatedProperties: [{ properties: { a: true }, unevaluatedProperties: false }, object],
    propertyNames: [{ propertyNames: { minLength: 2 } }, object],
    anyOf: [{ anyOf: [{ not: {} }] }, 1],
    oneOf: [{ oneOf: [true, true] }, 1],
    not: [{ not: {} }, 1],
    false: [{ properties: { a: false } }, object],
  };

  it("are those of people for every sentence that the check has", () => {
    for (const keyword of ASSERTIONS.keys()) expect(CASES).toHaveProperty(keyword);
    for (const [keyword, [schema, value]] of Object.entries(CASES)) {
      const found = misfits(schema, value);
      expect(found.length, keyword).toBeGreaterThan(0);
      for (const { message } of found)
        expect(message, keyword).not.toMatch(/NOT|[<>]|schema|valid|items|propert|format "|\bnull\b|string/);
    }
  });
});

describe("the form of an approval", () => {
  const form = (more: object) => ({ type: "object", properties: { comment: { type: "string" } }, ...more });
  const closed = [
    form({ additionalProperties: false }),
    form({ unevaluatedProperties: false }),
    form({ maxProperties: 1 }),
    form({ propertyNames: { enum: ["comment"] } }),
    form({ additionalProperties: false, required: ["approved", "comment"] }),
  ];

  it.each(closed)("takes a value that the service takes with the decision of a button: %j", (schema) => {
    expect(approvalMisfits(schema, { comment: "fine" })).toEqual([]);
    expect(misfits(withoutDecision(schema), { comment: "fine" })).toEqual([]);
    expect(approvalMisfits(schema, { comment: 7 })).toEqual([{ place: ["comment"], message: "must be a text" }]);
  });

  it("leaves what depends on the decision to the service", () => {
    const rejected = { properties: { approved: { const: false } } };
    const schema = form({ if: rejected, then: { required: ["comment"] } });
    expect(approvalMisfits(schema, {})).toEqual([]);
  });
});

describe("the problems of a refusal", () => {
  it("are read from JSON paths with indexes and quoted keys", () => {
    expect(keysOf('$.inputs.items[0]["a \\"b\\".c"].d')).toEqual(["inputs", "items", 0, 'a "b".c', "d"]);
  });

  it("belong to the field below the value that was sent, also where a pointer in the message leads on", () => {
    const problems = [
      { path: "$.result.street", message: "must be a string" },
      { path: "$.result", message: "/lines/1 must be a whole number" },
      { path: "$.result", message: "must be an object" },
      { path: "$.submitted_by", message: "is too long" },
    ];
    expect(misfitsAt("$.result", problems)).toEqual([
      { place: ["street"], message: "must be a string" },
      { place: ["lines", 1], message: "must be a whole number" },
    ]);
  });
});
