// Hostile documents, schemas, values and requests against the built service, while a client outside pings it every 20 ms: the node lives,
// every ping is answered, none while its loop computed for long, and the runs of others end. The longest hold seen from outside and the
// peak memory of the node are printed.
// @module-tag long
import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";

const REQUESTS = 40;
const AT_ONCE = 4;

const many = <T>(count: number, of: (index: number) => T): T[] => Array.from({ length: count }, (_, n) => of(n));
const workflow = (id: string, steps: readonly object[], head: object = {}) =>
  JSON.stringify({ id, name: id, start: "s0", steps, published: true, ...head });
const chained = (count: number, of: (index: number) => object) =>
  many(count, (n) => ({ id: `s${n}`, ...(n + 1 < count && { next: `s${n + 1}` }), ...of(n) }));

/** Up to 1.5 MB each. */
const DOCUMENTS: readonly string[] = [
  workflow(
    "d0",
    chained(180, (n) => ({ type: "transform", expression: `[${"1,".repeat(3_900)}${n}]` })),
  ),
  workflow("d1", [{ id: "s0", type: "set_var", variables: { x: many(90_000, (n) => `\${inputs.a${n}}`) } }]),
  workflow("d2", [{ id: "s0", type: "noop" }], { input_schema: { anyOf: many(200_000, () => false) } }),
  workflow("d3", [{ id: "s0", type: "noop" }], {
    input_schema: { allOf: many(1_000, (n) => ({ pattern: `${"a{1000}".repeat(140)}${n}` })) },
  }),
  workflow(
    "d4",
    chained(400, () => ({ type: "switch", cases: many(90, (k) => ({ when: "true", next: `s${k}` })) })),
  ),
  workflow(
    "d5",
    chained(1_000, () => ({ type: "transform", expression: `${"(".repeat(99)}1${")".repeat(99)}` })),
  ),
  workflow("d6", [{ id: "s0", type: "noop" }], {
    input_schema: {
      properties: Object.fromEntries(many(900, (n) => [`p${n}`, { type: "string", maxLength: n }])),
    },
  }),
];
const [sideways, big] = ["abcd".repeat(100_000), "a".repeat(900_000)];
const registrations = (nth: number) =>
  JSON.stringify({
    service: `hostile${nth % 3}`,
    actions: many(100, (n) => ({
      action_name: `a${n}`,
      input_schema: {
        properties: Object.fromEntries(many(40, (k) => [`p${k}`, { type: "string", maxLength: k + n }])),
      },
    })),
  });

interface Hostile {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: string;
}

const KINDS: readonly ((nth: number) => Hostile)[] = [
  (nth) => ({ method: "POST", path: "/workflows/validate", body: documentOf(nth) }),
  (nth) => ({ method: "POST", path: "/workflows", body: documentOf(nth) }),
  (nth) => ({ method: "POST", path: "/registry/register", body: registrations(nth) }),
  () => start({ text: big, list: many(60, () => "x".repeat(10_000)) }),
  () => start({ text: `${sideways}a`, list: [] }),
  () => ({
    method: "POST",
    path: "/events",
    body: JSON.stringify({ topic: "hostile", payload: { big: many(9_000, () => big.slice(0, 90)) } }),
  }),
  () => ({ method: "GET", path: `/sagas?page_size=200&label.${"x".repeat(60)}=${"y".repeat(60)}` }),
];

/** Four rounds of the kinds send each document, seven send each to both of the kinds that send documents. */
function documentOf(nth: number): string | undefined {
  return DOCUMENTS[(Math.floor(nth / KINDS.length) + 3 * (nth % KINDS.length)) % DOCUMENTS.length];
}

function start(inputs: object): Hostile {
  return { method: "POST", path: "/sagas/start", body: JSON.stringify({ workflow_id: "checked", inputs }) };
}

/**
 * The most that the loop may compute until a ping is answered, in pieces of work: machines differ, and a busy one inflates processor time, too. The
 * aim is 50 ms. Ten pieces took 300 ms where a document that was compiled at once took 400 ms and more.
 */
const HOLD_PIECES = 10;

/** The processor time of a thread, in milliseconds: by default of this one, which is the main thread of its process. */
function computed(pid = process.pid): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
}

/** The processor time that a piece of work takes here and now. */
function pieceMs(): number {
  const before = computed();
  for (let round = 0; round < 5; round++) JSON.stringify(JSON.parse(DOCUMENTS[1] ?? ""));
  return computed() - before;
}

/**
 * Pings from a thread of its own, so that the sender does not hold them up. On a busy machine an answer also waits for a processor, so
 * what the thread of the loop computed until an answer is measured beside it. The pings are one after the other for that.
 */
const PINGER = `
  const { parentPort, workerData: { url, pid } } = require("node:worker_threads");
  const { readFileSync } = require("node:fs");
  const { get } = require("node:http");
  const computed = () => Number(readFileSync("/proc/" + pid + "/task/" + pid + "/schedstat", "utf8").split(" ")[0]) / 1e6;
  let [sent, answered, longest, held, over] = [0, 0, 0, 0, false];
  const ping = () => {
    if (sent > answered && !over) return;
    const [began, before] = [performance.now(), computed()];
    sent++;
    get(url + "/livez", { agent: false }, (response) => {
      response.resume().on("end", () => {
        answered++;
        longest = Math.max(longest, performance.now() - began);
        held = Math.max(held, computed() - before);
        if (over && answered === sent) parentPort.postMessage({ sent, answered, longest, held });
      });
    }).on("error", (error) => parentPort.postMessage({ sent, answered, longest, held, error: error.message }));
  };
  const timer = setInterval(ping, 20);
  parentPort.on("message", () => { clearInterval(timer); over = true; ping(); });
`;

interface Pings {
  readonly sent: number;
  readonly answered: number;
  /** In milliseconds: the longest wait for an answer, and the most that the loop computed meanwhile. */
  readonly longest: number;
  readonly held: number;
  readonly error?: string;
}

let database: TestDatabase;
let service: ServiceProcess;
beforeAll(async () => {
  database = await createTestDatabase();
  service = await createService({
    DATABASE_URL: database.url,
    SAGA_WORKERS: "1",
    NODE_OPTIONS: "--max-old-space-size=768",
  });
  await service.start({ within: 120_000 });
}, 150_000);
afterAll(async () => {
  await service.kill();
  await database.drop();
});

async function ask({ method, path, body }: Hostile): Promise<{ status: number; body: Record<string, unknown> }> {
  const headers: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
  const response = await fetch(`${service.url}/api/v1${path}`, {
    method,
    headers,
    ...(body !== undefined && { body }),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

async function publish(document: string): Promise<void> {
  const { status, body } = await ask({ method: "POST", path: "/workflows", body: document });
  expect(status, JSON.stringify(body).slice(0, 300)).toBeLessThan(300);
}

/** The service is one process, or a primary with its nodes. */
function processes(): number[] {
  const children = readFileSync(`/proc/${service.pid}/task/${service.pid}/children`, "utf8").trim();
  return [service.pid, ...children.split(/\s+/).filter(Boolean).map(Number)];
}

/** In MiB. Throws if the process has ended. */
function peakOf(pid: number): number {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

describe.runIf(process.platform === "linux")("hostile documents", () => {
  it("end with an answer: the node lives, pings are answered, none after long computing, and the runs of others end", async () => {
    await publish(workflow("innocent", [{ id: "s0", type: "transform", expression: "inputs.n + 1" }]));
    await publish(
      workflow("checked", [{ id: "s0", type: "transform", expression: "inputs.text.matches('.{200}c.{20}d$')" }], {
        input_schema: {
          properties: { list: { uniqueItems: true, items: { allOf: many(50, (n) => ({ minLength: n })) } } },
        },
      }),
    );
    const pids = processes();
    const pieces = [pieceMs()];
    const pinger = new Worker(PINGER, { eval: true, workerData: { url: service.url, pid: service.pid } });
    const innocents: string[] = [];
    const statuses = new Map<number, number>();
    let next = 0;
    const sender = async () => {
      for (let nth = next++; nth < REQUESTS; nth = next++) {
        const { status } = await ask((KINDS[nth % KINDS.length] as (nth: number) => Hostile)(nth));
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        if (nth % 4 > 0) continue;
        const begun = await ask({
          method: "POST",
          path: "/sagas/start",
          body: `{"workflow_id":"innocent","inputs":{"n":${nth}}}`,
        });
        if (begun.status === 202) innocents.push(String(begun.body.run_id));
      }
    };
    await Promise.all(many(AT_ONCE, sender));
    const pings = new Promise<Pings>((resolve) => pinger.once("message", resolve));
    pinger.postMessage("stop");
    const { sent, answered, longest, held, error } = await pings;
    await pinger.terminate();
    pieces.push(pieceMs());
    const memory = pids.map(peakOf);
    console.log(
      `${REQUESTS} hostile requests (${[...statuses].map(([status, count]) => `${count} × ${status}`).join(", ")}): longest hold ${longest.toFixed(0)} ms of ${sent} pings, ${held.toFixed(0)} ms of it computing at most (a piece of work: ${pieces.map(Math.round).join(" and ")} ms), peak ${Math.max(...memory).toFixed(0)} MiB`,
    );
    expect(error).toBeUndefined();
    expect(answered).toBe(sent);
    expect(held).toBeLessThan(HOLD_PIECES * Math.max(...pieces));
    expect([...statuses.keys()].filter((status) => status >= 500 && status !== 503)).toEqual([]);
    expect(processes()).toEqual(expect.arrayContaining(pids));
    expect(service.log.filter((line) => line.includes("node died"))).toEqual([]);
    expect(innocents.length).toBeGreaterThan(0);
    await until(
      async () => {
        const [row] = await database.sql<{ ended: number }[]>`
          select count(*)::int as ended from runs where id in ${database.sql(innocents)} and state = 'succeeded'`;
        return row?.ended === innocents.length;
      },
      { within: 60_000 },
    );
  }, 540_000);
});
