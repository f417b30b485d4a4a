// Rehearsals over HTTP: their answers and refusals; they store and send nothing.

import { beforeAll, describe, expect, it, vi } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { verifierOf } from "../harness/verifier.js";
import { otherApi, useRig } from "./rig.js";

const rig = useRig();
const post = (document: object) => rig.call("POST", "/api/v1/workflows", document);
const rehearse = (id: string, body: unknown) => rig.call("POST", `/api/v1/workflows/${id}/test`, body);

const PAY = {
  id: "pay",
  name: "Pay",
  start: "reserve",
  input_schema: { type: "object", required: ["amount"], properties: { amount: { type: "number" } } },
  steps: [
    { id: "reserve", type: "action", action: "s.reserve", compensation: { action: "s.release" }, next: "charge" },
    { id: "charge", type: "sub_saga", workflow_id: "bank", inputs: { amount: "${inputs.amount}" } },
  ],
};
const BANK = {
  id: "bank",
  name: "Bank",
  start: "book",
  steps: [{ id: "book", type: "action", action: "bank.book", inputs: { amount: "${inputs.amount}" } }],
};

beforeAll(async () => {
  await post({ ...PAY, published: true });
  await post({ ...PAY, name: "Second", steps: PAY.steps.slice(0, 1).map(({ next: _, ...step }) => step) });
  await post({ ...BANK, published: true });
});

describe("a rehearsal over HTTP", () => {
  it("ends as its mocks say, sub-sagas included, and nothing is stored or sent", async () => {
    const before = await rig.countRows();
    const inputs = { amount: 5 };
    const good = await rehearse("pay", { inputs, mocks: { "bank/book": [{ output: { id: "b" } }] } });
    expect(good).toMatchObject({ status: 200, body: { state: "succeeded", output: { id: "b" } } });
    expect(good.body.variables).toEqual({ reserve: {}, charge: { id: "b" } });
    const bad = await rehearse("pay", { inputs, mocks: { "bank/book": [{ error: { code: "x", retryable: false } }] } });
    expect(bad.body).toMatchObject({ state: "failed", error: { code: "child_failed", step_id: "charge" } });
    const undone = bad.body.events.filter(({ metadata }: { metadata?: { phase?: string } }) => metadata?.phase);
    expect(undone.at(-1)).toMatchObject({ event_type: "step.succeeded", step_id: "reserve", workflow_id: "pay" });
    expect(bad.body.events.at(-1)).toMatchObject({ event_type: "run.failed", seq: bad.body.events.length });
    expect(await rig.countRows()).toBe(before);
    expect([rig.started, rig.asked]).toEqual([[], []]);
  });

  it("a draft can be rehearsed by its version", async () => {
    const draft = await rehearse("pay", {
      version: 2,
      inputs: { amount: 1 },
      mocks: { reserve: [{ output: { r: 1 } }] },
    });
    expect(draft).toMatchObject({ status: 200, body: { state: "succeeded", output: { r: 1 } } });
  });

  it.each<[string, number, string, unknown]>([
    ["an unknown workflow", 404, "none", { mocks: {} }],
    ["an unknown version", 404, "pay", { version: 9, mocks: {} }],
    ["a malformed id", 400, "a%20b", { mocks: {} }],
    ["no mocks", 400, "pay", {}],
    ["mocks of an unknown step", 400, "pay", { inputs: { amount: 1 }, mocks: { x: [{ output: {} }] } }],
    ["mocks of a wrong shape", 400, "pay", { inputs: { amount: 1 }, mocks: { reserve: { output: {} } } }],
    ["inputs that fail the input_schema", 422, "pay", { inputs: {}, mocks: {} }],
  ])("%s is answered %i", async (_name, status, id, body) => {
    expect(await rehearse(id, body)).toMatchObject({ status, body: { message: expect.any(String) } });
  });

  it("problems of the inputs are named with their places", async () => {
    const { body } = await rehearse("pay", { inputs: { amount: "5" }, mocks: {} });
    expect(body.details).toEqual([{ path: "$.inputs.amount", message: "must be a number" }]);
  });

  it("problems of the mocks are named with their places", async () => {
    const { body } = await rehearse("pay", {
      inputs: { amount: 1 },
      mocks: { reserve: [{ output: {} }, { output: 7 }] },
    });
    expect(body.details).toEqual([{ path: "$.mocks.reserve[1].output", message: "must be an object" }]);
  });

  it("a long rehearsal lets other requests in between, and at most four run at the same time", async () => {
    const loop = {
      id: "l",
      type: "transform",
      expression: "inputs.list.filter(x, inputs.list.exists(y, y == x + 1))",
      next: "l",
    };
    await post({ id: "loop", name: "Loop", start: "l", steps: [loop], published: true });
    // Five seconds of computing are over sooner by a clock that runs thirty times as fast.
    const now = performance.now.bind(performance);
    vi.spyOn(performance, "now").mockImplementation(() => now() * 30);
    const body = { inputs: { list: Array.from({ length: 10 }, (_, n) => n) }, mocks: {} };
    const order: string[] = [];
    const rehearsals = Array.from({ length: 5 }, () => rehearse("loop", body).finally(() => order.push("rehearsed")));
    await rig.call("GET", "/livez").then(() => order.push("alive"));
    const answers = await Promise.all(rehearsals);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 503]);
    vi.restoreAllMocks();
    expect(order.indexOf("alive")).toBeLessThan(2);
    for (const { status, body: answered } of answers)
      if (status === 200) expect(answered.left).toMatch(/did not end within/);
  });

  it("of one tenant take half of the places of a node at most, and another's finds one", async () => {
    const [a, b] = [uuidv7(), uuidv7()];
    const app = await otherApi(
      rig,
      {},
      {
        verifier: verifierOf({
          ann: { roles: ["operator"], tenantId: a },
          al: { roles: ["operator"], tenantId: a },
          bob: { roles: ["operator"], tenantId: b },
        }),
      },
    );
    const asked = (token: string) =>
      app.inject({
        ...{ method: "POST", url: "/api/v1/workflows/pay/test", payload: { mocks: {} } },
        headers: { host: "localhost", authorization: `Bearer ${token}` },
      });
    const answers = await Promise.all(["ann", "al", "ann", "bob", "al"].map(asked));
    const refused = answers.filter(({ statusCode }) => statusCode === 503);
    expect(refused.map((answer) => answer.json().message)).toEqual([
      ...Array(2).fill("2 rehearsals of yours are in progress; try again"),
    ]);
    expect(answers[3]?.statusCode).not.toBe(503);
    await app.close();
  });
});
