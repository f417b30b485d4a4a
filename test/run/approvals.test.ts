// Approvals with a closed form, on a real store: the decision of an approval is part of every result, whatever the form says of other members.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, start, startHalf } from "./rig.js";

const COMMENT = { comment: { type: "string" } };

/** Closed schemas by the keyword that closes them. */
const CLOSED: Readonly<Record<string, JsonObject>> = {
  additionalProperties: { properties: COMMENT, additionalProperties: false },
  "additionalProperties of a kind": { properties: COMMENT, additionalProperties: { type: "string" } },
  unevaluatedProperties: { allOf: [{ properties: COMMENT }], unevaluatedProperties: false },
  maxProperties: { properties: COMMENT, maxProperties: 1 },
  propertyNames: { properties: COMMENT, propertyNames: { enum: ["comment"] } },
  patternProperties: { patternProperties: { ".": { type: "string" } }, additionalProperties: false },
  "a closed part": { allOf: [{ properties: COMMENT, additionalProperties: false }] },
};
/** These say something of the decision, and mean it. */
const NAMED: JsonObject = {
  properties: { ...COMMENT, approved: { const: true } },
  required: ["approved", "comment"],
  additionalProperties: false,
  maxProperties: 1,
};
const EXPLAINED: JsonObject = {
  if: { properties: { approved: { const: false } } },
  then: { required: ["comment"] },
  properties: COMMENT,
  additionalProperties: false,
};

let database: TestDatabase;
let half: Half;

beforeAll(async () => {
  database = await createTestDatabase();
  const forms = { ...CLOSED, named: NAMED, explained: EXPLAINED };
  for (const [name, form] of Object.entries(forms)) {
    const step = { id: "ask", type: "manual_approval", assignee: "ann", form_schema: { type: "object", ...form } };
    await publish(database, name.replaceAll(" ", "_"), [step]);
  }
  half = await startHalf(database);
});
afterAll(async () => {
  await half.stop();
  await database.drop();
});

/** A new task of the form. */
async function opened(name: string) {
  const runId = await start(half.starter, name.replaceAll(" ", "_"));
  const taskId = await until(
    async () => (await database.sql<{ id: string }[]>`select id from user_tasks where run_id = ${runId}`)[0]?.id,
    { what: "the task" },
  );
  const submit = (result: JsonObject) =>
    half.runtime.command(
      runId,
      { type: "submit", taskId, result, submittedBy: "ann", actor: "api" },
      { reach: EVERYTHING },
    );
  return { submit };
}

describe("an approval with a closed form", () => {
  it.each(Object.keys(CLOSED))("is answered by its decision and the rest: %s", async (name) => {
    const { submit } = await opened(name);
    expect(await submit({ comment: "fine" })).toEqual({ type: "unfit", problems: ["/approved must be true or false"] });
    expect(await submit({ approved: true, comment: 7 })).toMatchObject({ type: "unfit" });
    expect(await submit({ approved: true, comment: "a", more: 1 })).toMatchObject({ type: "unfit" });
    expect(await submit({ approved: true, comment: "fine" })).toMatchObject({ type: "submit" });
  });

  it("means what it says of the decision", async () => {
    const { submit } = await opened("named");
    expect(await submit({ approved: false, comment: "no" })).toEqual({
      type: "unfit",
      problems: ["/approved must be true"],
    });
    expect(await submit({ approved: true })).toEqual({
      type: "unfit",
      problems: ["/comment is required"],
    });
    expect(await submit({ approved: true, comment: "fine" })).toMatchObject({ type: "submit" });
  });

  it("may ask for a reason where it is rejected", async () => {
    const { submit } = await opened("explained");
    expect(await submit({ approved: false })).toMatchObject({ type: "unfit" });
    expect(await submit({ approved: true })).toMatchObject({ type: "submit" });
  });
});
