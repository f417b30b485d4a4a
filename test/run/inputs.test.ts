// The inputs of a start against the workflow's `input_schema`, on a real store: every problem is named with its place, and ordinary values fit.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../../machines/index.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { type Half, publish, start, startHalf } from "./rig.js";

const ITEM = {
  type: "object",
  required: ["sku"],
  properties: { sku: { type: "string", pattern: "^\\p{Letter}+$" }, price: { type: "number", multipleOf: 0.01 } },
};
const ORDER = {
  type: "object",
  required: ["customer", "items"],
  properties: {
    customer: { type: "string", minLength: 1, maxLength: 3 },
    items: { type: "array", items: ITEM },
    "due at": { type: "string", format: "date-time" },
    note: { type: ["string", "null"] },
  },
};

let database: TestDatabase;
let half: Half;

beforeAll(async () => {
  database = await createTestDatabase();
  await publish(database, "order", [{ id: "a", type: "noop" }], { input_schema: ORDER });
  await publish(database, "hostile", [{ id: "a", type: "noop" }], {
    input_schema: { properties: { a: { contains: { contains: { contains: { const: 1 } } } } } },
  });
  half = await startHalf(database);
});
afterAll(async () => {
  await half.stop();
  await database.drop();
});

const refusedWith = async (inputs: JsonObject, workflow = "order") => {
  const error = await start(half.starter, workflow, { inputs }).then(
    () => undefined,
    (reason: unknown) => reason as { status: number; details: readonly JsonObject[] },
  );
  expect(error?.status).toBe(422);
  return error?.details;
};

describe("the inputs of a start", () => {
  it("that are wrong in several places are refused with all of them, each with its path", async () => {
    const items: Json = [{ sku: "Größe", price: 19.99 }, { price: 19.999 }];
    expect(await refusedWith({ items, "due at": "tomorrow" })).toEqual([
      { path: "$.inputs.customer", message: "is required" },
      { path: "$.inputs.items[1].sku", message: "is required" },
      { path: "$.inputs.items[1].price", message: "must be a multiple of 0.01" },
      { path: '$.inputs["due at"]', message: "must be an RFC 3339 time" },
    ]);
  });

  it("are refused with at most twenty problems", async () => {
    const items = Array.from({ length: 100 }, () => ({}));
    expect(await refusedWith({ customer: "Ann", items })).toHaveLength(20);
  });

  it.each<[string, JsonObject]>([
    [
      "money",
      {
        customer: "Ann",
        items: [
          { sku: "a", price: 19.99 },
          { sku: "b", price: 0.07 },
          { sku: "c", price: 0 },
        ],
      },
    ],
    ["emoji", { customer: "🎉🎉🎉", items: [] }],
    ["null where the schema has it", { customer: "Ann", items: [], note: null }],
    ["a leap second", { customer: "Ann", items: [], "due at": "1990-12-31T23:59:60Z" }],
    ["other members", { customer: "Ann", items: [], toString: 1 }],
  ])("fit: %s", async (_, inputs) => {
    expect(await start(half.starter, "order", { inputs })).toEqual(expect.any(String));
  });

  it("that need a long check are answered", { tags: "long" }, async () => {
    const zeros = Array.from({ length: 40 }, () =>
      Array.from({ length: 40 }, () => Array.from({ length: 40 }, () => 0)),
    );
    expect(await refusedWith({ a: zeros }, "hostile")).toEqual([
      { path: "$.inputs.a", message: "must have at least 1 of the items that its schema asks for" },
    ]);
    const rows = Array.from({ length: 1_000 }, () => zeros[0] ?? []);
    const more = Array.from({ length: 40 }, () => rows);
    expect(await refusedWith({ a: more }, "hostile")).toEqual([
      { path: "$.inputs", message: "takes too long to check against its schema" },
    ]);
  });
});
