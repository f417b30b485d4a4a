// Secret and encrypted values through a real service and a real worker: what a client sees, what it may send back, and what the worker's code gets.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { aesCodec, createWorker, encrypted, type Worker } from "../../src/sdk/worker/index.js";
import { accessSettings, credential, workerToken } from "../harness/access.js";
import { handleAll } from "../harness/actions.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const KEYS = { old: Buffer.alloc(32, 1), now: Buffer.alloc(32, 2).toString("base64") };
const X = { "x-secret": true };

let database: TestDatabase;
let node: NodeHandle;
let worker: Worker;
/** What the worker's code got. */
const got: object[] = [];

interface Answered {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: what it is depends on the route
  readonly json: any;
}

async function ask(path: string, body?: object): Promise<Answered> {
  const answer = await fetch(`http://127.0.0.1:${node.httpPort}${path}`, {
    headers: { ...credential(), ...(body && { "content-type": "application/json" }) },
    ...(body && { method: "POST", body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, text, json: JSON.parse(text) };
}

async function start(workflow_id: string, inputs: object): Promise<string> {
  const runId = randomUUID();
  const { status, text } = await ask("/api/v1/sagas/start", { run_id: runId, workflow_id, inputs });
  expect(status, text).toBe(202);
  return runId;
}

const run = (id: string, is: (run: Answered["json"]) => boolean) =>
  until(async () => {
    const { json } = await ask(`/api/v1/sagas/${id}`);
    return is(json) && json;
  });
const ended = (id: string) => run(id, ({ terminal_at }) => Boolean(terminal_at));

beforeAll(async () => {
  database = await createTestDatabase();
  const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0", LOG_LEVEL: "silent", ...accessSettings() });
  node = await startNode({ config, databaseUrl: database.url, log: silentLog });
  const [api, grpc] = [`http://127.0.0.1:${node.httpPort}`, `127.0.0.1:${node.grpcPort}`];
  worker = handleAll(
    createWorker({
      service: "bank",
      grpc,
      api,
      log: silent,
      ...workerToken(),
      codec: aesCodec({ keys: KEYS, use: "now" }),
    }),
    "bank",
    [
      {
        name: "pay",
        execute(input) {
          got.push(input);
          return { paid: true };
        },
      },
      {
        name: "open",
        execute: ({ name }: { name?: string }) => ({
          account: encrypted({ name, iban: "canary-iban" }),
          list: [encrypted(null)],
        }),
      },
      {
        name: "fail",
        execute(input) {
          got.push(input);
          throw new Error("no");
        },
      },
    ],
  );
  await worker.start();
  const input_schema = {
    type: "object",
    properties: { pin: { type: "string", ...X }, note: { type: "string" }, card: {} },
  };
  const pay = { id: "pay", type: "action", action: "bank.pay", inputs: "${inputs}" };
  const once = { max_attempts: 1, initial_backoff_ms: 0 };
  for (const document of [
    { id: "pays", name: "pays", start: "pay", input_schema, steps: [pay], published: true },
    {
      ...{ id: "fails", name: "fails", start: "set", input_schema, published: true },
      steps: [
        { id: "set", type: "set_var", name: "card", value: { pin: "${inputs.pin}", note: "n" }, next: "fail" },
        {
          id: "fail",
          type: "action",
          action: "bank.fail",
          inputs: "${vars.card}",
          retry: once,
          on_failure: "incident",
        },
      ],
    },
    {
      ...{ id: "listens", name: "listens", start: "hear", input_schema, published: true },
      steps: [
        {
          ...{ id: "hear", type: "wait_for_event", topic: "pins", lookback: "none", next: "pay" },
          match: "event.payload.pin == inputs.pin && event.payload.of == 'me'",
        },
        { ...pay, inputs: "${vars.hear.payload}" },
      ],
    },
    {
      ...{ id: "tells", name: "tells", start: "tell", input_schema, published: true },
      steps: [{ id: "tell", type: "emit_event", topic: "pins", payload: { pin: "${inputs.pin}", of: "me" } }],
    },
    {
      ...{ id: "opens", name: "opens", start: "open", published: true },
      steps: [
        { id: "open", type: "action", action: "bank.open", inputs: { name: "ann" }, next: "pay" },
        { ...pay, inputs: { to: "${vars.open.account}", all: "${vars.open}", given: "${inputs.given}" }, next: "read" },
        { id: "read", type: "transform", expression: "vars.open.account.iban" },
      ],
    },
  ])
    expect((await ask("/api/v1/workflows", document)).status).toBe(201);
});
afterAll(async () => {
  await worker?.stop();
  await node?.stop();
  await database?.drop();
});

describe("secret values over HTTP", () => {
  it("are masked in every answer, and workers get them plain", async () => {
    const id = await start("pays", { pin: "canary-pin", note: "seen" });
    expect((await ended(id)).inputs).toEqual({ pin: "***", note: "seen" });
    expect(got.at(-1)).toEqual({ pin: "canary-pin", note: "seen" });
    for (const path of ["", "/events", "/undo", "/explain", "?wait_ms=1"])
      expect((await ask(`/api/v1/sagas/${id}${path}`)).text, path).not.toContain("canary");
    expect((await ask("/api/v1/sagas")).text).not.toContain("canary");
    const query = (expression: string) => ask(`/api/v1/sagas/${id}/query`, { expression });
    expect((await query("inputs")).json.value).toEqual({ pin: "***", note: "seen" });
    for (const probe of ["inputs.pin == 'canary-pin'", "inputs.pin == 'canary-pin' ? 1 / 0 : 1", "int(inputs.pin)"])
      expect((await query(probe)).json, probe).toMatchObject({ value: "***" });
    expect((await query("inputs.note == 'seen'")).json).toMatchObject({ value: true });
  });

  it("a sender's own mark counts, and the value behind it is checked", async () => {
    const id = await start("pays", { note: { $secret: "canary-note" }, pin: { $secret: "p" } });
    expect((await ended(id)).inputs).toEqual({ note: "***", pin: "***" });
    expect(got.at(-1)).toEqual({ note: "canary-note", pin: "p" });
    const refused = await ask("/api/v1/sagas/start", { workflow_id: "pays", inputs: { note: { $secret: 1 } } });
    expect([refused.status, refused.json.details?.[0]?.path]).toEqual([422, "$.inputs.note"]);
  });

  it("a mask is refused by its place in a start, and means the first run's value in a rerun", async () => {
    const refused = await ask("/api/v1/sagas/start", { workflow_id: "pays", inputs: { pin: "***" } });
    expect(refused.status).toBe(422);
    expect(refused.json.details).toEqual([
      { path: "$.inputs.pin", message: expect.stringMatching(/^is "\*\*\*", which a view shows/) },
    ]);
    const first = await start("pays", { pin: "canary-pin", note: "***" });
    const seen = await ended(first);
    const again = await ask(`/api/v1/sagas/${first}/rerun`, { inputs: { ...seen.inputs, note: "changed" } });
    expect(again.status, again.text).toBe(202);
    expect((await ended(again.json.run_id)).inputs).toEqual({ pin: "***", note: "changed" });
    expect(got.at(-1)).toEqual({ pin: "canary-pin", note: "changed" });
    const other = await ask(`/api/v1/sagas/${first}/rerun`, { inputs: { pin: "new" } });
    await ended(other.json.run_id);
    expect(got.at(-1)).toEqual({ pin: "new" });
  });

  it("an event with secrets finds the run that waits for it, and no other, though no index has them", async () => {
    const [waiting, other] = [await start("listens", { pin: "canary-1" }), await start("listens", { pin: "canary-2" })];
    for (const id of [waiting, other]) await run(id, ({ awaited_event_topic }) => awaited_event_topic === "pins");
    await ended(await start("tells", { pin: "canary-1" }));
    expect(await ended(waiting)).toMatchObject({ variables: { hear: { payload: { pin: "***", of: "me" } } } });
    expect(got.at(-1)).toEqual({ pin: "canary-1", of: "me" });
    expect((await ask(`/api/v1/sagas/${other}`)).json.state).toBe("paused");
    const waits = await database.sql`select row_to_json(w)::text as text from event_waits w`;
    expect(JSON.stringify(waits)).not.toContain("canary");
    await ask(`/api/v1/sagas/${other}/cancel`, {});
  });

  it("a mask in a correction keeps the value, and a new one is secret", async () => {
    const id = await start("fails", { pin: "canary-pin" });
    const { variables } = await run(id, ({ incident }) => Boolean(incident));
    expect(variables.card).toEqual({ pin: "***", note: "n" });
    const corrected = async (card: unknown) => {
      const before = got.length;
      const { status, text } = await ask(`/api/v1/sagas/${id}/retry_step`, { variables: { card } });
      expect(status, text).toBe(202);
      await until(() => got.length > before);
      return (await run(id, ({ incident }) => Boolean(incident))).variables.card;
    };
    expect(await corrected({ ...variables.card, note: "m" })).toEqual({ pin: "***", note: "m" });
    expect(got.at(-1)).toEqual({ pin: "canary-pin", note: "m" });
    expect(await corrected({ pin: "new", note: "m" })).toEqual({ pin: "***", note: "m" });
    expect(got.at(-1)).toEqual({ pin: "new", note: "m" });
  });
});

describe("encrypted values", () => {
  it("are read by workers with a codec only, whatever key of theirs they name", async () => {
    const given = { $enc: aesCodec({ keys: KEYS, use: "old" }).encrypt({ amount: 5 }) };
    const id = await start("opens", { given });
    const seen = await ended(id);
    const account = { name: "ann", iban: "canary-iban" };
    expect(got.at(-1)).toEqual({ to: account, all: { account, list: [null] }, given: { amount: 5 } });
    expect(seen).toMatchObject({
      state: "failed",
      inputs: { given: "***" },
      variables: { open: { account: "***", list: ["***"] } },
    });
    expect(seen.last_error).toContain("a value is encrypted ($enc)");
    const stored = await database.sql`select value::text from run_variables where run_id = ${id}`;
    expect(JSON.stringify(stored)).toContain("$enc");
    expect(JSON.stringify(stored)).not.toContain("canary");
  });

  it("a value that cannot be decrypted fails the step, and says nothing of it", async () => {
    const id = await start("opens", { given: { $enc: { alg: "A256GCM", key: "gone", iv: "canary", data: "" } } });
    expect(await ended(id)).toMatchObject({
      state: "failed",
      last_error: "an encrypted input cannot be read: see the keys of the worker's codec",
    });
  });

  it("a codec refuses keys of another length, and a name that it does not have", () => {
    expect(() => aesCodec({ keys: { a: "short" }, use: "a" })).toThrow(/32 bytes/);
    expect(() => aesCodec({ keys: KEYS, use: "none" })).toThrow(/no key "none"/);
    const value = aesCodec({ keys: KEYS, use: "now" }).encrypt("x");
    expect(() => aesCodec({ keys: { now: Buffer.alloc(32, 9) }, use: "now" }).decrypt(value)).toThrow();
  });
});
