// A rollback on the real store, which returns the undo list newest first. The tests of the machine have a list in memory and do not
// see the store's order.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { type Half, publish, registerActions, start, startHalf } from "../run/rig.js";
import { allEnd } from "../run/seen.js";

let database: TestDatabase;
let half: Half;

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await registerActions(database, "charge", "refund");
  half = await startHalf(database);
});
afterAll(async () => {
  await half.stop();
  await database.drop();
});

describe("a rollback on the store", () => {
  it("what completed last is undone first", async () => {
    const charge = { type: "action", action: "shop.charge", compensation: { action: "shop.refund" } };
    await publish(database, "order", [
      { id: "one", ...charge, next: "two" },
      { id: "two", ...charge, next: "three" },
      { id: "three", ...charge, next: "fail" },
      { id: "fail", type: "error" },
    ]);
    await allEnd(database.sql, [await start(half.starter, "order")]);
    const undone = half.dispatcher.sent.filter(({ call }) => call.phase === "compensation");
    expect(undone.map(({ call }) => call.stepId)).toEqual(["three", "two", "one"]);
  });
});
