// `x-secret` in a JSON Schema: which parts of a value it marks, and what a check says of marked, encrypted and masked values.
import { describe, expect, it } from "vitest";
import { type Json, type JsonObject, MASK, Schemas, secret, withSecrets } from "../../../machines/index.js";

const X = { "x-secret": true };
const schemas = new Schemas();

describe("x-secret", () => {
  const marked = (schema: JsonObject, value: Json) => withSecrets(schema, value);

  it.each<[string, JsonObject, Json, Json]>([
    ["a member", { properties: { a: X } }, { a: 1, b: 2 }, { a: secret(1), b: 2 }],
    ["a whole value", X, { a: 1 }, secret({ a: 1 })],
    ["an object as a whole", { properties: { a: { ...X, type: "object" } } }, { a: { b: 1 } }, { a: secret({ b: 1 }) }],
    ["items", { items: X }, ["a", null], [secret("a"), secret(null)]],
    ["an item by its place", { prefixItems: [{}, X] }, [1, 2, 3], [1, secret(2), 3]],
    ["items that a schema contains", { contains: X }, [1], [secret(1)]],
    ["values of a map", { additionalProperties: X }, { k: true }, { k: secret(true) }],
    ["members by pattern", { patternProperties: { "^s_": X } }, { s_a: 1, b: 2 }, { s_a: secret(1), b: 2 }],
    ["a definition", { $defs: { s: X }, properties: { a: { $ref: "#/$defs/s" } } }, { a: 1 }, { a: secret(1) }],
    ["an anchor", { $defs: { s: { $anchor: "s", ...X } }, items: { $ref: "#s" } }, [1], [secret(1)]],
    ["an id", { $id: "https://x.test/a", $defs: { s: { $id: "s", ...X } }, items: { $ref: "s" } }, [1], [secret(1)]],
    ["a tree", { properties: { key: X, next: { $ref: "#" } } }, { next: { key: 1 } }, { next: { key: secret(1) } }],
    ["every alternative", { anyOf: [{ type: "string" }, { properties: { a: X } }] }, { a: 1 }, { a: secret(1) }],
    [
      "an alternative that does not fit",
      { oneOf: [{ required: ["z"], properties: { a: X } }, {}] },
      { a: 1 },
      { a: secret(1) },
    ],
    ["a condition's way", { if: { required: ["z"] }, then: { properties: { a: X } } }, { a: 1 }, { a: secret(1) }],
    ["what depends", { dependentSchemas: { z: { properties: { a: X } } } }, { a: 1 }, { a: secret(1) }],
    ["nothing under false", { properties: { a: { "x-secret": false } } }, { a: 1 }, { a: 1 }],
    ["nothing in data", { const: { "x-secret": true } }, { a: 1 }, { a: 1 }],
  ])("marks %s", (_, schema, value, wanted) => {
    expect(marked(schema, value)).toEqual(wanted);
    // A value that is marked already is not marked twice.
    expect(marked(schema, marked(schema, value))).toEqual(wanted);
  });

  it("without it a value is the same object", () => {
    const value = { a: [1] };
    expect(withSecrets({ properties: { a: { items: { type: "integer" } } } }, value)).toBe(value);
    expect(withSecrets(undefined, value)).toBe(value);
  });

  it("a reference that is not followed marks", () => {
    expect(marked({ properties: { a: { $ref: "https://elsewhere.test/x" }, b: X } }, { a: 1 })).toEqual({
      a: secret(1),
    });
  });

  it("must be a boolean", () => {
    expect(schemas.problems({ properties: { a: { "x-secret": "yes" } } })).toEqual([
      "is not a usable JSON Schema: x-secret must be true or false",
    ]);
    expect(schemas.problems({ properties: { a: X } })).toEqual([]);
  });

  it("a secret value is checked as the value that it is", () => {
    const schema = { type: "object", properties: { a: { ...X, type: "string", minLength: 2 } }, required: ["a"] };
    expect(schemas.conforms(schema, { a: secret("ok") })).toEqual([]);
    expect(schemas.conforms(schema, { a: secret(1) })).toEqual(["/a must be a string"]);
    expect(schemas.conforms(schema, secret({ a: "ok" }))).toEqual([]);
  });

  it("a mask where a secret is asked for is refused by its place, and elsewhere it is a text", () => {
    const schema = { properties: { a: X, b: { type: "string" } } };
    expect(schemas.conforms(schema, { a: MASK, b: MASK })).toEqual([
      expect.stringMatching(/^\/a is "\*\*\*", which a view shows/),
    ]);
  });

  it("an encrypted value fits any value and a secret one, and no schema that would look inside", () => {
    const enc = { $enc: { v: "1" } };
    expect(schemas.conforms({}, { a: enc })).toEqual([]);
    expect(schemas.conforms({ properties: { a: { ...X, type: "string" } } }, { a: enc })).toEqual([]);
    expect(schemas.conforms({ properties: { a: { type: "object" } } }, { a: enc })).toEqual([
      expect.stringMatching(/^\/a is encrypted/),
    ]);
  });
});
