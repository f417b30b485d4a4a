// Every endpoint and every status that the interface gives it, asked over a real socket: of a real node with a real worker, and, for
// the statuses of a service that is broken or composed without a part, of an API whose ports fail. The OpenAPI document has every answer.
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import postgres, { type Sql } from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { uuidv7 } from "../../src/ids.js";
import { documented } from "../api/documented.js";
import { otherApi, useRig } from "../api/rig.js";
import { ask, type WireAnswer, type WireRequest } from "../api/wire.js";
import { Client } from "../faults/client.js";
import { openShop, type Shop } from "../faults/shop.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";

const API = "/api/v1";
const WEBSOCKET = {
  ...{ connection: "Upgrade", upgrade: "websocket" },
  ...{ "sec-websocket-version": "13", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==" },
};
const TWO_DAYS = { from: "2026-01-01T00:00:00Z", to: "2026-01-02T23:59:59Z" };
const CRON = { trigger_type: "cron", workflow_id: "wait", config: { schedule: "0 3 * * *" } };
const RECORDS = { record_type: "order", from_state: "new", to_state: "paid", input_mapping: { id: "${record.id}" } };

let database: TestDatabase;
let node: NodeHandle;
let shop: Shop;
let client: Client;
/** The service that gives runs their startup variables. */
const variables = createServer((_, response) => response.end('{"currency":"CHF"}'));
const called = new Set<string>();
const settings = mkdtempSync(join(tmpdir(), "saga-endpoints-"));

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  const licences = join(settings, "licences.json");
  writeFileSync(licences, "{}");
  variables.listen(0, "127.0.0.1");
  await once(variables, "listening");
  const from = `http://127.0.0.1:${(variables.address() as AddressInfo).port}`;
  const env = { HTTP_PORT: "0", GRPC_PORT: "0", SAGA_LICENSES_FILE: licences, SAGA_STARTUP_VARIABLES_URL: from };
  const { config } = loadConfig({ ...env, SAGA_CONCURRENCY_QUEUE: "1", SAGA_RATE_LIMIT_QUEUE: "1" });
  node = await startNode({ config, databaseUrl: database.url, log: silentLog });
  client = new Client(`http://127.0.0.1:${node.httpPort}`);
  shop = await openShop({ grpc: `127.0.0.1:${node.grpcPort}`, api: client.url });
  await publishAll();
});
afterAll(async () => {
  shop?.letAllGo();
  await shop?.stop();
  await node?.stop();
  await database?.drop();
  variables.close();
  rmSync(settings, { recursive: true });
});

async function publishAll(): Promise<void> {
  await post(`${API}/registry/register`, { service: "bank", actions: [{ action_name: "pay", license_group: "gold" }] });
  const wait = { id: "wait", type: "wait_for_signal", signal_name: "go" };
  await client.publish("wait", [{ ...wait, title: "before" }]);
  await client.publish("wait", [wait], { version: 2 });
  for (const on_limit of ["queue", "refuse"]) {
    const head = { concurrency: { key: "all", limit: 1, on_limit } };
    await client.publish(`single-${on_limit}`, [{ id: "wait", type: "wait_for_signal", signal_name: "go" }], head);
  }
  await client.publish("daily", [wait], { rate_limit: { key: "all", limit: 1, per_ms: 86_400_000 } });
  await client.publish("hang", [{ id: "hang", type: "action", action: "shop.hang" }]);
  await client.publish("ask", [{ id: "ask", type: "manual_approval", assignee: "ann" }]);
  const compensation = { action: "shop.refund" };
  await client.publish("paid", [{ id: "pay", type: "action", action: "shop.charge", compensation }]);
  await client.publish("costly", [{ id: "pay", type: "action", action: "bank.pay" }]);
  const strict = { type: "object", required: ["n"] };
  await client.publish("strict", [{ id: "end", type: "end", output: "${inputs.n}" }], { input_schema: strict });
  await post(`${API}/rules`, rule("sizes", [{ when: "inputs.n > 10", then: { size: "large" } }]));
}

const rule = (rule_id: string, rows: object[]) => {
  const spec = { hit_policy: "first", rows };
  return { rule_id, name: rule_id, version: 1, rule_type: "decision_table", published: true, spec };
};

async function asked(port: number, request: WireRequest): Promise<WireAnswer> {
  const answer = await ask(port, request);
  const { method = "GET", path } = request;
  const { status, headers, text, json } = answer;
  const name = documented().check({ method, path, status, contentType: headers["content-type"], body: json ?? text });
  if (name !== undefined) called.add(name);
  return answer;
}

const get = (path: string, headers = {}) => asked(node.httpPort, { path, headers });
const post = (path: string, body: unknown = {}, headers = {}) =>
  asked(node.httpPort, { method: "POST", path, headers, body: JSON.stringify(body) });
const send = (method: string, path: string, body?: unknown) =>
  asked(node.httpPort, { method, path, ...(body !== undefined && { body: JSON.stringify(body) }) });

const start = (body: object, query = "") => post(`${API}/sagas/start${query}`, body);

/** A run that waits for the signal `go`. */
async function waiting(): Promise<string> {
  const runId = (await start({ workflow_id: "wait" })).json.run_id;
  await client.untilState(runId, "paused");
  return `${API}/sagas/${runId}`;
}

/** One that no row changes. */
let parked: Promise<string> | undefined;
const aRun = () => {
  parked ??= waiting();
  return parked;
};

/** A run whose step is with the worker, which does not answer. */
async function hanging(): Promise<string> {
  const runId = (await start({ workflow_id: "hang" })).json.run_id;
  await until(() => shop.hanging(runId).length > 0, { what: "the hanging step" });
  return `${API}/sagas/${runId}/actions/hang`;
}

/** The open task of a run that waits for an approval. */
async function task(): Promise<string> {
  const runId = (await start({ workflow_id: "ask" })).json.run_id;
  await client.untilState(runId, "paused");
  const { json } = await get(`${API}/sagas/${runId}/user_tasks`);
  return `${API}/sagas/${runId}/user_task/${json.items[0].id}/submit`;
}

async function trigger(document: object = CRON): Promise<string> {
  return `${API}/triggers/${(await post(`${API}/triggers`, document)).json.id}`;
}

const OPERATOR = { name: "ops", roles: ["platform", "admin"] };
const keyUrl = async () => `${API}/api_keys/${(await post(`${API}/api_keys`, OPERATOR)).json.id}`;

const unknownRun = () => `${API}/sagas/${uuidv7()}`;
const twice = async (act: () => Promise<WireAnswer>) => {
  await act();
  return act();
};

/** Starts runs for one slot until no more may wait for it. */
const full = (begin: () => Promise<WireAnswer>) =>
  until(async () => {
    const answer = await begin();
    return answer.status === 429 && answer;
  });

/** A signal to the run of a business key, or to a new one. */
const signalled = (key: string | undefined, name: string, query = "", workflow = "wait", inputs: object = {}) =>
  post(`${API}/sagas/signal_with_start${query}`, {
    ...{ workflow_id: workflow, business_key: key, inputs },
    signal: { name, payload: { amount: 12.5 } },
  });

type Row = readonly [status: number, when: string, ask: () => Promise<WireAnswer>, has?: object];

const HELD = { workflow_id: "wait", business_key: "held" };
const TOO_MANY = { error: "rate_limit_queue_full" };
const FULL = { error: "concurrency_queue_full" };
const FINE = { status: expect.any(String) };
const PAGE = { items: expect.any(Array), total: expect.any(Number), limit: 50, offset: 0 };
const STALE = { accepted: true, stale: true };
const UNMATCHED = expect.stringMatching(/^no_decision_row_matched/);
const UNDO = { items: [{ ordinal: 1, step_id: "pay", action: "shop.refund@1", state: "not_needed" }] };
const TAKEN = { accepted: true, stale: false };

const TABLE: Readonly<Record<string, readonly Row[]>> = {
  "health liveness probe": ["/healthz", "/livez", "/health", "/health/live"].map(
    (path): Row => [200, path, () => get(path), FINE],
  ),
  "health readiness probe": ["/readyz", "/health/ready"].map((path): Row => [200, path, () => get(path), FINE]),
  "POST /sagas/start": [
    [202, "a published workflow", () => start({ workflow_id: "wait" }), { state: "pending", deduplicated: false }],
    [
      200,
      "ended in time",
      () => start({ workflow_id: "strict", inputs: { n: 1 } }, "?wait_ms=30000"),
      { run: { output: 1 } },
    ],
    [202, "the entry name default", () => start({ workflow_id: "wait", entrypoint: "default" })],
    [202, "an empty entry name", () => start({ workflow_id: "wait", entrypoint: "" })],
    [202, "a repeat", () => twice(() => start({ workflow_id: "wait", idempotency_key: "k" })), { deduplicated: true }],
    [400, "a malformed body", () => start({ workflow_id: 1 }), { error: "bad_request" }],
    [400, "an unknown entry name", () => start({ workflow_id: "wait", entrypoint: "x" }), { error: "bad_request" }],
    [404, "an unknown workflow", () => start({ workflow_id: "nowhere" }), { error: "not_found" }],
    [409, "a key with another body", () => start({ workflow_id: "wait", idempotency_key: "k", inputs: { a: 1 } })],
    [409, "a held business key", () => twice(() => start({ ...HELD, on_conflict: "reject" })), { error: "conflict" }],
    [202, "the run that holds the key", () => start({ ...HELD, on_conflict: "return" }), { deduplicated: true }],
    [202, "in its place", () => start({ ...HELD, on_conflict: "cancel_old" }), { deduplicated: false }],
    [202, "a burst", () => start({ ...HELD, debounce: { window_ms: 1 } }), { deduplicated: false }],
    [400, "no business key", () => start({ workflow_id: "wait", on_conflict: "return" }), { error: "bad_request" }],
    [409, "no free slot", () => twice(() => start({ workflow_id: "single-refuse" })), { error: "concurrency_limit" }],
    [422, "inputs that fail their schema", () => start({ workflow_id: "strict" }), { error: "unprocessable" }],
    [429, "a full waiting list", () => full(() => start({ workflow_id: "single-queue" })), FULL],
    [429, "too many that wait for their turn", () => full(() => start({ workflow_id: "daily" })), TOO_MANY],
  ],
  "GET /sagas": [
    [200, "a page", () => get(`${API}/sagas`), PAGE],
    [200, "filters", () => get(`${API}/sagas?workflow_id=wait&state=paused,running&root_only=true&limit=50`), PAGE],
    [400, "an unknown filter", () => get(`${API}/sagas?color=red`), { error: "bad_request" }],
  ],
  "GET /sagas/counts": [
    [200, "counts", () => get(`${API}/sagas/counts?workflow_id=wait`), { items: expect.any(Array) }],
    [400, "a bad filter", () => get(`${API}/sagas/counts?incident=maybe`), { error: "bad_request" }],
  ],
  "GET /sagas/{id}": [
    [200, "a run", async () => get(await aRun()), { state: "paused", awaited_signal: "go" }],
    [200, "its startup variables", async () => get(await aRun()), { variables: { currency: "CHF" } }],
    [400, "a malformed id", () => get(`${API}/sagas/17`), { error: "bad_request" }],
    [404, "no such run", () => get(unknownRun()), { error: "not_found" }],
    ...["events", "signals", "undo", "children", "user_tasks"].map(
      (part): Row => [200, part, async () => get(`${await aRun()}/${part}`), PAGE],
    ),
    [200, "its failed children", async () => get(`${await aRun()}/children?parent_step_id=x&state=failed`), PAGE],
    [200, "the numbers of its children", async () => get(`${await aRun()}/children/counts`), { items: [] }],
    [404, "the children of no run", () => get(`${unknownRun()}/children/counts`), { error: "not_found" }],
    [200, "undo of a run that succeeded", async () => get(`${await succeeded("paid")}/undo`), UNDO],
    [200, "explain", async () => get(`${await aRun()}/explain`), { waiting_for: [{ kind: "signal" }] }],
  ],
  "DELETE /sagas/{id}": [
    [204, "a run that has ended", async () => send("DELETE", await succeeded("paid"))],
    [400, "a malformed id", () => send("DELETE", `${API}/sagas/17`), { error: "bad_request" }],
    [404, "no such run", () => send("DELETE", unknownRun()), { error: "not_found" }],
    [404, "an erased run", async () => deleteTwice(await succeeded("paid")), { error: "not_found" }],
    [409, "a run that has not ended", async () => send("DELETE", await waiting()), { error: "conflict" }],
  ],
  "POST /sagas/{id}/cancel": [
    [202, "accepted", async () => post(`${await waiting()}/cancel`, { reason: "enough" }), { already_terminal: false }],
    [202, "terminal already", async () => cancelTwice(await waiting()), { state: "cancelled", already_terminal: true }],
    [200, "the reason, if none was given", async () => cancelled(await waiting()), { last_error: "cancelled" }],
    [400, "a malformed id", () => post(`${API}/sagas/17/cancel`), { error: "bad_request" }],
    [404, "no such run", () => post(`${unknownRun()}/cancel`), { error: "not_found" }],
    [501, "no canceller is configured", () => brokenPost("/sagas/{id}/cancel"), { error: "invalid_config" }],
  ],
  "POST /sagas/{id}/release": [
    [409, "not in quarantine", async () => post(`${await aRun()}/release`), { error: "conflict" }],
    [404, "no such run", () => post(`${unknownRun()}/release`), { error: "not_found" }],
  ],
  "POST /sagas/{id}/pause": [
    [202, "a run that waits", async () => post(`${await waiting()}/pause`), { changed: true }],
    [404, "no such run", () => post(`${unknownRun()}/pause`), { error: "not_found" }],
  ],
  "POST /sagas/{id}/resume": [
    [409, "makes no sense", async () => post(`${await aRun()}/resume`), { error: "conflict" }],
    [404, "no such run", () => post(`${unknownRun()}/resume`), { error: "not_found" }],
  ],
  "POST /sagas/{id}/retry_step": [
    [409, "makes no sense", async () => post(`${await aRun()}/retry_step`), { error: "conflict" }],
    [404, "no such run", () => post(`${unknownRun()}/retry_step`), { error: "not_found" }],
  ],
  "POST /sagas/{id}/skip_step": [
    [409, "makes no sense", async () => post(`${await aRun()}/skip_step`), { error: "conflict" }],
    [404, "no such run", () => post(`${unknownRun()}/skip_step`), { error: "not_found" }],
  ],
  "POST /sagas/{id}/fail": [
    [409, "makes no sense", async () => post(`${await aRun()}/fail`), { error: "conflict" }],
    [404, "no such run", () => post(`${unknownRun()}/fail`), { error: "not_found" }],
  ],
  "POST /sagas/{id}/compensations/retry": [
    [409, "makes no sense", async () => post(`${await aRun()}/compensations/retry`), { error: "conflict" }],
    [404, "no such run", () => post(`${unknownRun()}/compensations/retry`), { error: "not_found" }],
  ],
  "POST /sagas/{id}/compensations/skip": [
    [409, "makes no sense", async () => post(`${await aRun()}/compensations/skip`), { error: "conflict" }],
    [404, "no such run", () => post(`${unknownRun()}/compensations/skip`), { error: "not_found" }],
  ],
  "POST /sagas/{id}/terminate": [
    [202, "a run that waits", async () => post(`${await waiting()}/terminate`, { reason: "stuck" }), { changed: true }],
    [400, "no reason", async () => post(`${await aRun()}/terminate`, {}), { error: "bad_request" }],
    [404, "no such run", () => post(`${unknownRun()}/terminate`, { reason: "stuck" }), { error: "not_found" }],
  ],
  "POST /sagas/{id}/migrate": [
    [202, "a run that waits", async () => post(`${await waiting()}/migrate`, { version: 1 }), { changed: true }],
    [200, "a check", async () => post(`${await aRun()}/migrate`, { version: 1, check: true }), { allowed: true }],
    [400, "no version", async () => post(`${await aRun()}/migrate`, {}), { error: "bad_request" }],
    [404, "no such version", async () => post(`${await aRun()}/migrate`, { version: 9 }), { error: "not_found" }],
    [404, "no such run", () => post(`${unknownRun()}/migrate`, { version: 1 }), { error: "not_found" }],
    [
      409,
      "an ended run",
      async () => post(`${await succeeded("paid")}/migrate`, { version: 1 }),
      { error: "conflict" },
    ],
  ],
  "POST /sagas/{id}/rerun": [
    [202, "an ended run", async () => post(`${await succeeded("paid")}/rerun`), { changed: true }],
    [409, "a run that goes on", async () => post(`${await aRun()}/rerun`), { error: "conflict" }],
    [404, "no such run", () => post(`${unknownRun()}/rerun`), { error: "not_found" }],
    [
      422,
      "inputs that fail their schema",
      async () => post(`${await succeeded("strict", { n: 1 })}/rerun`, { inputs: {} }),
      { error: "unprocessable" },
    ],
  ],
  "POST /sagas/{id}/fork": [
    [
      202,
      "a run that waits",
      async () => {
        const url = await waiting();
        const { current_step: step } = (await get(url)).json;
        return post(`${url}/fork`, { step });
      },
      { changed: true },
    ],
    [400, "no step", async () => post(`${await aRun()}/fork`, {}), { error: "bad_request" }],
    [404, "no such run", () => post(`${unknownRun()}/fork`, { step: "pay" }), { error: "not_found" }],
    [409, "no such step", async () => post(`${await aRun()}/fork`, { step: "nowhere" }), { error: "conflict" }],
  ],
  "POST /bulk": [
    [202, "a filter", () => post(`${API}/bulk`, BULK), { matched: 0 }],
    [400, "an unknown filter", () => post(`${API}/bulk`, { ...BULK, filter: { color: "red" } })],
    [409, "a key with another body", async () => otherBulk(), { error: "conflict" }],
    [422, "too many runs", async () => tooManyRuns(), { error: "unprocessable" }],
    [
      501,
      "no canceller is configured",
      () => brokenPost("/bulk", { ...BULK, action: "cancel" }),
      { error: "invalid_config" },
    ],
    [200, "the list", () => get(`${API}/bulk`), PAGE],
    [200, "one", async () => get(await bulkJob()), { state: "done", refusals: [] }],
    [404, "no such job", () => get(`${API}/bulk/${uuidv7()}`), { error: "not_found" }],
    [202, "a stop", async () => post(`${await bulkJob()}/stop`), { changed: false }],
    [202, "a resume", async () => post(`${await bulkJob()}/resume`), { changed: false }],
  ],
  "POST /sagas/{id}/query": [
    [200, "a value", async () => query(await aRun(), "vars.currency + ' of ' + run.workflow_id"), { state: "paused" }],
    [200, "null", async () => query(await aRun(), "null"), { value: null }],
    [400, "no expression", async () => query(await aRun(), "vars."), { error: "bad_request" }],
    [400, "a malformed id", () => query(`${API}/sagas/17`, "vars"), { error: "bad_request" }],
    [404, "no such run", () => query(unknownRun(), "vars"), { error: "not_found" }],
    [422, "no value for the run", async () => query(await aRun(), "vars.nowhere"), { error: "unprocessable" }],
  ],
  "POST /sagas/signal_with_start": [
    [200, "taken, and its end", () => signalled("k 1", "go", "?wait_ms=30000"), { matched: true }],
    [202, "recorded", () => signalled("k 2", "stop"), { matched: false, deduplicated: false }],
    [202, "to the run that is there", () => signalled("k 2", "stop"), { matched: false, deduplicated: true }],
    [400, "no business key", () => signalled(undefined, "go"), { error: "bad_request" }],
    [400, "a reserved signal", () => signalled("k 3", "user_task.x"), { error: "bad_request" }],
    [404, "no such workflow", () => signalled("k 4", "go", "", "nowhere"), { error: "not_found" }],
    [
      409,
      "a run that ends at once",
      () => signalled("k 5", "go", "", "strict", { n: 1 }),
      { error: "conflict", recorded: true },
    ],
    [422, "inputs that do not conform", () => signalled("k 6", "go", "", "strict"), { error: "unprocessable" }],
    [429, "a full waiting list", () => full(() => signalled(uuidv7(), "go", "", "single-queue")), FULL],
  ],
  "POST /sagas/{run_id}/signal/{name}": [
    [200, "awaited, and its end", async () => post(`${await waiting()}/signal/go?wait_ms=30000`), { matched: true }],
    [202, "awaited", async () => post(`${await waiting()}/signal/go`, { payload: { a: 1 } }), { matched: true }],
    [409, "not awaited", async () => post(`${await waiting()}/signal/stop`), { error: "conflict", recorded: true }],
    [400, "a bad run_id", () => post(`${API}/sagas/17/signal/go`), { error: "bad_request" }],
    [404, "no such run", () => post(`${unknownRun()}/signal/go`), { error: "not_found" }],
    [500, "an internal error", () => brokenPost("/sagas/{id}/signal/go"), { error: "internal" }],
  ],
  "POST /sagas/{run_id}/user_task/{task_id}/submit": [
    [202, "submitted", async () => post(await task(), { result: { approved: true } }), { matched: true }],
    [409, "submitted already", async () => submitTwice(await task()), { error: "conflict" }],
    [422, "a result that fails its form", async () => post(await task(), { result: {} }), { error: "unprocessable" }],
    [400, "a malformed id", () => post(`${unknownRun()}/user_task/17/submit`), { error: "bad_request" }],
    [404, "no such task", () => post(`${unknownRun()}/user_task/${uuidv7()}/submit`), { error: "not_found" }],
  ],
  "POST /sagas/{run_id}/actions/{step_id}/result": [
    [202, "a result", async () => post(`${await hanging()}/result`, { result: { receipt: "r" } }), TAKEN],
    [202, "an error", async () => post(`${await hanging()}/result`, { error: { code: "no", message: "no" } }), TAKEN],
    [202, "a stale attempt", async () => post(`${await hanging()}/result`, { attempt: 7, result: {} }), STALE],
    [400, "a bad run_id", () => post(`${API}/sagas/17/actions/hang/result`, { result: {} }), { error: "bad_request" }],
    [400, "neither", () => post(`${unknownRun()}/actions/hang/result`), { error: "bad_request" }],
    [404, "no such run", () => post(`${unknownRun()}/actions/hang/result`, { result: {} }), { error: "not_found" }],
    [
      500,
      "an internal error",
      () => brokenPost("/sagas/{id}/actions/hang/result", { result: {} }),
      { error: "internal" },
    ],
    [202, "a step that awaits none", async () => post(`${await aRun()}/actions/none/result`, { result: {} }), STALE],
    [202, "a heartbeat", async () => post(`${await hanging()}/heartbeat`), TAKEN],
  ],
  "GET /sagas/{run_id}/stream": [
    [101, "an upgrade", async () => get(`${await aRun()}/stream`, WEBSOCKET)],
    [400, "a malformed id", () => get(`${API}/sagas/17/stream`, WEBSOCKET), { error: "bad_request" }],
    [404, "no such run", () => get(`${unknownRun()}/stream`, WEBSOCKET), { error: "not_found" }],
    [426, "no upgrade", async () => get(`${await aRun()}/stream`), { error: "upgrade_required" }],
  ],
  "GET /sagas/{id}/inspect": [
    [101, "an upgrade", async () => get(`${await aRun()}/inspect`, WEBSOCKET)],
    [400, "a malformed id", () => get(`${API}/sagas/17/inspect`, WEBSOCKET), { error: "bad_request" }],
    [404, "no such run", () => get(`${unknownRun()}/inspect`, WEBSOCKET), { error: "not_found" }],
    [426, "no upgrade", async () => get(`${await aRun()}/inspect`), { error: "upgrade_required" }],
  ],
  "GET /inspect/{run_id}": [
    [200, "a page", async () => get((await aRun()).replace(`${API}/sagas`, "/inspect"))],
    [400, "a malformed id", () => get("/inspect/17"), { error: "bad_request" }],
    [404, "no such run", () => get(`/inspect/${uuidv7()}`), { error: "not_found" }],
  ],
  "POST /registry/register": [
    [200, "actions", () => register([{ action_name: "wrap" }]), { registered: 1, changed: [] }],
    [200, "the same again", () => twice(() => register([{ action_name: "wrap" }])), { registered: 1, changed: [] }],
    [400, "http without an address", () => register([{ action_name: "x", transport: "http" }])],
    [400, "rmq without a broker", () => register([{ action_name: "x", transport: "rmq", address: "q" }])],
  ],
  "GET /registry/actions": [
    [200, "filters", () => get(`${API}/registry/actions?service=bank&search=PAY`), { total: 1 }],
    [200, "a category", () => get(`${API}/registry/actions?category=none`), { total: 0 }],
  ],
  "POST /rules/{rule_id}/evaluate": [
    [200, "a row matches", () => evaluate("sizes", { inputs: { n: 11 } }), { output: { size: "large" } }],
    [404, "no such rule", () => evaluate("shapes", { inputs: {} }), { error: "not_found" }],
    [400, "a bad body", () => evaluate("sizes", {}), { error: "bad_request" }],
    [422, "CEL fails", () => evaluate("sizes", { inputs: {} }), { error: "unprocessable" }],
    [422, "no row matches", () => evaluate("sizes", { inputs: { n: 1 } }), { message: UNMATCHED }],
    [500, "an internal error", () => brokenPost("/rules/sizes/evaluate", { inputs: {} }), { error: "internal" }],
  ],
  "POST /triggers": [
    [201, "a schedule", () => post(`${API}/triggers`, CRON), { trigger_type: "cron", enabled: true }],
    [
      201,
      "a record's transition",
      () => post(`${API}/triggers`, { ...CRON, trigger_type: "record_transition", config: RECORDS }),
    ],
    [
      400,
      "a bad schedule",
      () => post(`${API}/triggers`, { ...CRON, config: { schedule: "often" } }),
      { error: "invalid_config" },
    ],
    [403, "no licence", () => post(`${API}/triggers`, { ...CRON, workflow_id: "costly" }), { error: "forbidden" }],
    [404, "no such workflow", () => post(`${API}/triggers`, { ...CRON, workflow_id: "x" }), { error: "not_found" }],
    [202, "fire", async () => post(`${await trigger()}/fire`), { run_id: expect.any(String) }],
  ],
  "GET /triggers": [
    [200, "a type", () => get(`${API}/triggers?type=cron&enabled=true`), PAGE],
    [400, "an unknown type", () => get(`${API}/triggers?type=moon`), { error: "bad_request" }],
    [200, "one", async () => get(await trigger()), { next_fire_at: expect.any(String) }],
    [404, "no such trigger", () => get(`${API}/triggers/${uuidv7()}`), { error: "not_found" }],
    [200, "its fires", async () => get(`${await trigger()}/fires`), PAGE],
    [200, "its next ticks", async () => get(`${await trigger()}/next?count=3`), { items: expect.any(Array) }],
    [200, "changed", async () => send("PATCH", await trigger(), { enabled: false }), { enabled: false }],
  ],
  "POST /triggers/{id}/backfill": [
    [202, "two days", async () => post(`${await trigger()}/backfill`, TWO_DAYS), { ticks: 2, fired: 2 }],
    [
      202,
      "a look",
      async () => post(`${await trigger()}/backfill`, { ...TWO_DAYS, dry_run: true }),
      { ticks: 2, fired: 2, dry_run: true },
    ],
    [
      422,
      "too many ticks",
      async () => post(`${await trigger()}/backfill`, { ...TWO_DAYS, from: "2020-01-01T00:00:00Z" }),
      { error: "unprocessable" },
    ],
    [
      400,
      "no beginning",
      async () => post(`${await trigger()}/backfill`, { to: TWO_DAYS.to }),
      { error: "bad_request" },
    ],
    [404, "no such trigger", () => post(`${API}/triggers/${uuidv7()}/backfill`, TWO_DAYS), { error: "not_found" }],
  ],
  "DELETE /triggers/{id}": [
    [204, "there", async () => send("DELETE", await trigger())],
    [404, "deleted already", async () => deleteTwice(await trigger()), { error: "not_found" }],
  ],
  "/auth without access control": [
    [403, "a session for another page", () => post("/auth/session", { api_key: "saga_a_b" }), { error: "forbidden" }],
    [200, "who asks", () => get("/auth/session"), { kind: "anyone" }],
    [204, "a logout", () => post("/auth/logout")],
    [501, "a login", () => get("/auth/login"), { error: "invalid_config" }],
    [400, "a login to go on elsewhere", () => get("/auth/login?next="), { error: "bad_request" }],
    [501, "a callback", () => get("/auth/callback"), { error: "invalid_config" }],
  ],
  "POST /api_keys": [
    [201, "a key of the platform", () => post(`${API}/api_keys`, OPERATOR), { name: "ops", key: expect.any(String) }],
    [400, "no tenant", () => post(`${API}/api_keys`, { ...OPERATOR, roles: ["viewer"] }), { error: "bad_request" }],
    [400, "an Idempotency-Key", () => post(`${API}/api_keys`, OPERATOR, { "idempotency-key": "k" })],
  ],
  "GET /api_keys": [
    [200, "a page", () => get(`${API}/api_keys`), PAGE],
    [400, "an unknown filter", () => get(`${API}/api_keys?name=ops`), { error: "bad_request" }],
  ],
  "DELETE /api_keys/{id}": [
    [204, "there, and again", () => twice(async () => send("DELETE", await keyUrl()))],
    [400, "a malformed id", () => send("DELETE", `${API}/api_keys/17`), { error: "bad_request" }],
    [404, "no such key", () => send("DELETE", `${API}/api_keys/0000000000000000`), { error: "not_found" }],
  ],
  // With encryption: destroyed-keys.test.ts.
  "GET /data_keys/{tenant_id}": [
    [501, "without encryption", () => get(`${API}/data_keys/${uuidv7()}`), { error: "invalid_config" }],
    [400, "a malformed id", () => get(`${API}/data_keys/17`), { error: "bad_request" }],
  ],
  "DELETE /data_keys/{tenant_id}": [
    [501, "without encryption", () => send("DELETE", `${API}/data_keys/${uuidv7()}`), { error: "invalid_config" }],
    [400, "a malformed id", () => send("DELETE", `${API}/data_keys/17`), { error: "bad_request" }],
  ],
  "POST /workflows/{wf_id}/migrations/check": [
    [200, "a version", () => post(`${API}/workflows/wait/migrations/check`, { version: 1 }), { refused: 0 }],
    [400, "no version", () => post(`${API}/workflows/wait/migrations/check`, {}), { error: "bad_request" }],
    [
      404,
      "no such version",
      () => post(`${API}/workflows/wait/migrations/check`, { version: 9 }),
      { error: "not_found" },
    ],
  ],
  "GET /workflows/{wf_id}/stats": [
    [200, "a workflow", () => get(`${API}/workflows/wait/stats`), { in_flight: expect.any(Number) }],
    [404, "no such workflow", () => get(`${API}/workflows/x/stats`), { error: "not_found" }],
  ],
  "GET /workflows/{wf_id}/performance": [
    [
      200,
      "a workflow",
      () => get(`${API}/workflows/wait/performance?hours=2`),
      { bucket_ms: 120_000, run_ms: { count: expect.any(Number) } },
    ],
    [400, "too many hours", () => get(`${API}/workflows/wait/performance?hours=999`), { error: "bad_request" }],
    [404, "no such workflow", () => get(`${API}/workflows/x/performance`), { error: "not_found" }],
  ],
  "GET /cluster": [
    [200, "one node", () => get(`${API}/cluster`), { nodes: [{ shards: 256, version: expect.any(String) }] }],
    [400, "an unknown parameter", () => get(`${API}/cluster?color=red`), { error: "bad_request" }],
  ],
  "the rest": [
    [200, "metrics", () => get("/metrics")],
    [200, "workers", () => get(`${API}/workers`), { items: [{ service: "shop" }] }],
    [200, "user tasks", () => get(`${API}/user_tasks?status=open`), PAGE],
    [202, "an event", () => post(`${API}/events`, { topic: "orders" }), { event_id: expect.any(String) }],
    [201, "a workflow", () => post(`${API}/workflows`, draft("new")), { published: false }],
    [200, "the same again", () => twice(() => post(`${API}/workflows`, draft("same"))), { version: 1 }],
    [400, "a workflow that is not valid", () => post(`${API}/workflows`, { id: "x" }), { error: "invalid_config" }],
    [200, "a validation", () => post(`${API}/workflows/validate`, { id: "x" }), { valid: false }],
    [200, "a rehearsal", () => post(`${API}/workflows/strict/test`, { inputs: { n: 1 }, mocks: {} }), { output: 1 }],
    [200, "a machine", () => get(`${API}/workflows/wait/machine`)],
    [200, "a diagram", () => get(`${API}/workflows/wait/machine?format=mermaid`)],
    [404, "a rule that is not there", () => get(`${API}/rules/x`), { error: "not_found" }],
    [
      201,
      "a rule",
      () => post(`${API}/rules`, { ...rule("new", [{ when: "true", then: {} }]), published: false }),
      { published: false },
    ],
    ...["workflows/wait", "rules/sizes"].flatMap((item): Row[] => [
      [200, `the list of ${item}`, () => get(`${API}/${item.split("/")[0]}`), PAGE],
      [200, item, () => get(`${API}/${item}`), { published: true }],
      [200, `the versions of ${item}`, () => get(`${API}/${item}/versions`), PAGE],
      [200, `${item} unpublished`, () => post(`${API}/${item}/versions/1/unpublish`), { published: false }],
      [200, `${item} published`, () => post(`${API}/${item}/versions/1/publish`), { published: true }],
    ]),
  ],
};

const draft = (id: string) => ({ id, name: id, version: 1, start: "end", steps: [{ id: "end", type: "end" }] });
const register = (actions: object[]) => post(`${API}/registry/register`, { service: "gift", actions });
const evaluate = (ruleId: string, body: object) => post(`${API}/rules/${ruleId}/evaluate`, body);
const submitTwice = (url: string) => twice(() => post(url, { result: { approved: true } }));
const deleteTwice = (url: string) => twice(() => send("DELETE", url));

const BULK = { filter: { workflow_id: "none" }, action: "pause" };
const bulkJob = async () => `${API}/bulk/${(await post(`${API}/bulk`, BULK)).json.bulk_id}`;

async function otherBulk(): Promise<WireAnswer> {
  await post(`${API}/bulk`, BULK, { "idempotency-key": "k" });
  return post(`${API}/bulk`, { ...BULK, action: "resume" }, { "idempotency-key": "k" });
}

async function tooManyRuns(): Promise<WireAnswer> {
  await Promise.all([waiting(), waiting()]);
  return post(`${API}/bulk`, { ...BULK, filter: { workflow_id: "wait" }, limit: 1 });
}

async function succeeded(workflowId: string, inputs: object = {}): Promise<string> {
  const { run_id: runId } = (await start({ workflow_id: workflowId, inputs }, "?wait_ms=30000")).json;
  return `${API}/sagas/${runId}`;
}

async function cancelled(run: string): Promise<WireAnswer> {
  await cancelTwice(run);
  return get(run);
}

async function cancelTwice(run: string): Promise<WireAnswer> {
  await post(`${run}/cancel`);
  await client.untilState(run.split("/").at(-1) ?? "", "cancelled");
  return post(`${run}/cancel`);
}

const rig = useRig();
let broken: FastifyInstance;
let nowhere: Sql;

/** An API without a canceller, whose runtime throws and whose store lacks its tables. */
beforeAll(async () => {
  rig.answer = () => {
    throw new Error("a fault that no client may see");
  };
  nowhere = postgres(rig.database.url, { max: 1, connection: { search_path: "nowhere" }, onnotice: () => {} });
  broken = await otherApi(rig, {}, { canceller: undefined, sql: nowhere });
  await broken.listen({ port: 0, host: "127.0.0.1" });
});
afterAll(async () => {
  await broken?.close();
  await nowhere?.end();
});

const query = (run: string, expression: string) => post(`${run}/query`, { expression });

async function brokenPost(path: string, body: object = {}): Promise<WireAnswer> {
  const { port } = broken.server.address() as AddressInfo;
  const url = `${API}${path.replace("{id}", uuidv7())}`;
  const answer = await asked(port, { method: "POST", path: url, body: JSON.stringify(body) });
  expect(answer.text).not.toMatch(/no client may see|relation/);
  return answer;
}

describe.each(Object.entries(TABLE))("%s", (_endpoint, rows) => {
  const cases = rows.map(([status, when, question, has = {}]) => ({ status, when, question, has }));
  it.each(cases)("answers $status: $when", async ({ status, question, has }) => {
    const { json, text, ...answer } = await question();
    expect(answer.status, text).toBe(status);
    if (json !== undefined) expect(json).toMatchObject(has);
  });
});

describe("the OpenAPI document", () => {
  it("has no operation that was not called here", () => {
    expect(documented().operations.filter((name) => !called.has(name))).toEqual([]);
  });
});
