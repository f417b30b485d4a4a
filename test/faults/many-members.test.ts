// Requests with as many members as a body has room for, and expressions that burn their budgets, against the built service: each is answered as it should be. The longest piece of
// computing of the service's loop is printed, as a multiple of what parsing 2 MB of JSON takes in the same process; the aim is 5.
// @module-tag long
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";

const many = <T>(count: number, of: (index: number) => T): T[] => Array.from({ length: count }, (_, n) => of(n));
const members = (count = 100_000, of: (index: number) => unknown = () => 1) =>
  Object.fromEntries(many(count, (n) => [`k${n}`, of(n)]));
const empty = (count: number) => `[${"{},".repeat(count - 1)}{}]`;
const wf = (id: string, steps: readonly { id: string }[], head: object = {}) => ({
  ...{ id, name: id, start: steps[0]?.id, steps, published: true },
  ...head,
});
const noop = { id: "s0", type: "noop" };
/** Uses its whole budget, and fails. */
const BURN = ["a", "b", "c", "d", "e", "f"].reduceRight(
  (body, name) => `[0,1,2,3,4,5,6,7,8,9].all(${name}, ${body})`,
  "true",
);

const folder = mkdtempSync(join(tmpdir(), "saga-loop-"));
let database: TestDatabase;
let service: ServiceProcess;
let site: Server;

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of any shape, and fail where they have another.
  readonly body: any;
}

async function ask(method: string, path: string, body?: unknown): Promise<Answer> {
  const sent = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  for (;;) {
    const response = await fetch(`${service.url}/api/v1${path}`, {
      method,
      ...(sent !== undefined && { body: sent, headers: { "content-type": "application/json" } }),
    });
    const answer = { status: response.status, body: await response.json() };
    // It sheds load.
    if (answer.status !== 503) return answer;
  }
}

const post = (path: string, body: unknown) => ask("POST", path, body);

/** The state in which the run ends. */
async function run(body: object): Promise<string> {
  const { body: started } = await post("/sagas/start", body);
  for (;;) {
    const { body: run } = await ask("GET", `/sagas/${started.run_id}?wait_ms=20000`);
    if (run.terminal_at !== undefined || ["succeeded", "failed"].includes(run.state)) return run.state;
  }
}

/** 300 runs wait for an event whose match burns: each of them looks at it, and waits on. How many have. */
async function burningWaiters(): Promise<number> {
  const count = async (what: string) => {
    const [row] = await database.sql.unsafe<{ count: number }[]>(`select count(*)::int as count from ${what}`);
    return row?.count ?? 0;
  };
  await Promise.all(many(300, () => post("/sagas/start", { workflow_id: "waiting" })));
  await until(async () => (await count("runs where state = 'paused'")) === 300);
  await monitors("/begin");
  await post("/events", { topic: "bell" });
  const looked = () => count("run_events where metadata->>'kind' = 'event_not_matched'");
  await until(async () => (await looked()) >= 300);
  return looked();
}

const siteUrl = () => `http://127.0.0.1:${(site.address() as AddressInfo).port}`;

beforeAll(async () => {
  const answers: Readonly<Record<string, string>> = {
    "/members": JSON.stringify(members(58_000)),
    "/worker": JSON.stringify({ result: members(58_000) }),
  };
  site = createServer((request, response) => {
    request.resume().on("end", () => {
      response.writeHead(200, { "content-type": "application/json" }).end(answers[request.url ?? ""] ?? "{}");
    });
  });
  await new Promise<void>((resolve) => site.listen(0, "127.0.0.1", resolve));
  database = await createTestDatabase();
  service = await createService({
    ...{ DATABASE_URL: database.url, SAGA_WORKERS: "1", SAGA_EGRESS_ALLOW: "127.0.0.0/8" },
    NODE_OPTIONS: `--import ${join(packageRoot(), "test", "harness", "loop-monitor.mjs")}`,
    TEST_LOOP_MONITOR: folder,
  });
  await service.start({ within: 120_000 });
  await post("/workflows", wf("plain", [noop]));
  await post(
    "/workflows",
    wf("asking", [{ id: "ask", type: "http_request", method: "GET", url: `${siteUrl()}/members` } as { id: string }]),
  );
  await post("/workflows", wf("calling", [{ id: "call", type: "action", action: "shop.many" } as { id: string }]));
  const wait = { id: "wait", type: "wait_for_event", topic: "bell", match: BURN };
  await post("/workflows", wf("waiting", [wait]));
  const burn = { id: "burn", type: "transform", expression: BURN };
  const items = { id: "items", type: "foreach", items: "inputs.items", body: "burn", max_concurrency: 0 };
  await post("/workflows", wf("burning", [{ ...items, tolerated_failures: 1_500 } as { id: string }, burn]));
  await post(
    "/workflows",
    wf("writing", [{ id: "write", type: "transform", expression: "'%s'.format([inputs.map])" } as { id: string }]),
  );
  const address = `${siteUrl()}/worker`;
  await post("/registry/register", { service: "shop", actions: [{ action_name: "many", transport: "http", address }] });
}, 150_000);
afterAll(async () => {
  await service.kill();
  await new Promise((resolve) => site.close(resolve));
  await database.drop();
  rmSync(folder, { recursive: true });
});

/** What the monitors of the service's processes say. */
async function monitors(path: string): Promise<string[]> {
  const ports = readdirSync(folder).map((name) => readFileSync(join(folder, name), "utf8"));
  const answers = await Promise.allSettled(ports.map((port) => fetch(`http://127.0.0.1:${port}${path}`)));
  return Promise.all(answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value.text() : [])));
}

const problemsOf = async (document: object) => (await post("/workflows/validate", document)).body.errors.length;
const statusOf = async (path: string, body: unknown) => (await post(path, body)).status;

describe.runIf(process.platform === "linux")("a request with many members", () => {
  it.each<[string, () => Promise<unknown>, unknown]>([
    ["inputs of a start", () => run({ workflow_id: "plain", inputs: members() }), "succeeded"],
    ["variables of a start", () => run({ workflow_id: "plain", variables: members() }), "succeeded"],
    [
      "empty objects in inputs",
      () => run({ workflow_id: "plain", inputs: { list: many(600_000, () => ({})) } }),
      "succeeded",
    ],
    ["numbers in inputs", () => run({ workflow_id: "plain", inputs: { list: many(900_000, () => 1) } }), "succeeded"],
    ["labels", () => statusOf("/sagas/start", { workflow_id: "plain", labels: members() }), 400],
    ["unknown members of a start", () => run({ workflow_id: "plain", ...members() }), "succeeded"],
    ["headers of an event", () => statusOf("/events", { topic: "t", headers: members() }), 400],
    ["entrypoints", () => problemsOf(wf("x", [noop], { entrypoints: members(100_000, () => "s0") })), 1],
    ["unknown members of a document", () => problemsOf(wf("x", [noop], members())), 1_001],
    [
      "inputs of an action",
      () => problemsOf(wf("x", [{ id: "a", type: "action", action: "a.b", inputs: members() } as { id: string }])),
      0,
    ],
    ["actions", () => statusOf("/registry/register", `{"service":"s","actions":${empty(690_000)}}`), 400],
    ["members of a filter", () => statusOf("/bulk", { filter: members(), action: "pause" }), 400],
    ["an event and 300 waiters whose match burns", burningWaiters, 300],
    [
      "a foreach of 1,500 items that burn",
      () => run({ workflow_id: "burning", inputs: { items: many(1_500, (n) => n) } }),
      "succeeded",
    ],
    [
      "%s of a map of 30,000 names, beyond its budget",
      () => run({ workflow_id: "writing", inputs: { map: members(30_000) } }),
      "failed",
    ],
    ["the answer of a server", () => run({ workflow_id: "asking" }), "succeeded"],
    ["the result of a worker", () => run({ workflow_id: "calling" }), "succeeded"],
  ])(
    "%s",
    async (what, act, expected) => {
      await monitors("/begin");
      expect(await act()).toEqual(expected);
      const measured = (await monitors("/end")).map((text) => JSON.parse(text));
      const { longest, parsing } = measured.reduce((most, one) => (one.longest > most.longest ? one : most));
      console.log(
        `${what}: ${(longest / parsing.ms).toFixed(1)} (${longest.toFixed(0)} ms, parsing 2 MB ${parsing.ms.toFixed(0)} ms)`,
      );
    },
    120_000,
  );
});
