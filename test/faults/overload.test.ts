// Overload: the built service, on a small heap, gets several times the load that it can take. Accepted runs are durable and end,
// refused ones leave no trace, reads are answered, memory stays bounded, and the service recovers.
// @module-tag long
import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { credential } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { allEnd, allSound, nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";

const HEAP_MIB = 128;
/** Includes code, buffers and six hundred sockets. Measured: 165 under the flood, 250 with the heavy runs. */
const MOST_RSS_MIB = 400;

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;
const agent = new Agent({ keepAlive: true, maxSockets: 600 });

beforeAll(async () => {
  database = await createTestDatabase({ max: 3 });
});
afterEach(async () => {
  await service.kill();
});
afterAll(async () => {
  agent.destroy();
  await database.drop();
});

async function startService(env: Record<string, string>): Promise<void> {
  const common = { DATABASE_URL: database.url, SAGA_WORKERS: "1", NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}` };
  service = await createService({ ...common, ...env });
  await service.start();
  client = new Client(service.url);
}

interface Reply {
  readonly status: number;
  readonly retryAfter: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: tests read answers of any shape, and fail if the shape is wrong.
  readonly body: any;
}

/** Over kept connections, because `fetch` would be the bottleneck. */
function post(path: string, body: object): Promise<Reply> {
  const text = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const about = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    const headers = { ...credential(), ...about };
    const sent = request(`${service.url}/api/v1${path}`, { method: "POST", agent, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => {
        const { statusCode: status = 0, headers: answered } = response;
        resolve({ status, retryAfter: answered["retry-after"], body: JSON.parse(String(Buffer.concat(chunks))) });
      });
    });
    sent.on("error", reject);
    sent.end(text);
  });
}

async function inLanes<T>(count: number, lanes: number, work: (nth: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const lane = async () => {
    for (let nth = next++; nth < count; nth = next++) results[nth] = await work(nth);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return results;
}

const rssMiB = () => {
  const [, kib] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${service.pid}/status`, "utf8")) ?? [];
  return Math.round(Number(kib) / 1024);
};

/** Samples the memory of the service and the status of probes and reads until the work is done. */
async function watching<T>(runId: string, work: Promise<T>): Promise<{ result: T; mostRss: number; reads: number[] }> {
  let done = false;
  let mostRss = 0;
  const reads: number[] = [];
  const look = async () => {
    while (!done) {
      for (const path of ["/healthz", "/readyz", `/api/v1/sagas/${runId}`, "/metrics"])
        reads.push(
          (await fetch(`${service.url}${path}`, { headers: credential(), signal: AbortSignal.timeout(20_000) })).status,
        );
      mostRss = Math.max(mostRss, rssMiB());
    }
  };
  const looking = look();
  const result = await work.finally(() => {
    done = true;
  });
  await looking;
  return { result, mostRss, reads };
}

const metric = async (name: string) => {
  const text = await (await fetch(`${service.url}/metrics`, { headers: credential() })).text();
  return [...text.matchAll(new RegExp(`^${name}(?:{[^}]*})? (\\S+)$`, "gm"))].reduce(
    (sum, [, n]) => sum + Number(n),
    0,
  );
};

describe("a service under several times its load", () => {
  it("sheds with 503 and Retry-After, keeps and ends every run that it accepts, and recovers", async () => {
    await startService({ SAGA_SHED_RUNS: "200", SAGA_STEPS_PER_COMMIT: "1" });
    const steps = Array.from({ length: 10 }, (_, nth) => ({
      ...{ id: `s${nth}`, type: "transform", expression: `inputs.n + ${nth}` },
      ...(nth < 9 && { next: `s${nth + 1}` }),
    }));
    await client.publish("ten", steps);
    const first = await client.start("ten", { inputs: { n: 1 } });
    const { pid } = service;
    const text = "x".repeat(10_000);
    const ids = Array.from({ length: 800 }, () => uuidv7());
    const began = performance.now();
    const flood = inLanes(ids.length, 600, (nth) =>
      post("/sagas/start", { workflow_id: "ten", run_id: ids[nth], inputs: { n: nth, text } }),
    );
    const { result: replies, mostRss, reads } = await watching(first, flood);
    const seconds = (performance.now() - began) / 1000;

    const accepted = ids.filter((_, nth) => replies[nth]?.status === 202);
    const refused = replies.filter(({ status }) => status === 503);
    expect(accepted.length + refused.length).toBe(ids.length);
    expect(accepted.length).toBeGreaterThan(100);
    expect(refused.length, "it was not overloaded at all").toBeGreaterThan(100);
    for (const { body, retryAfter } of refused) {
      expect(body).toMatchObject({ error: "overloaded", request_id: expect.any(String) });
      expect(Number(retryAfter)).toBeGreaterThan(0);
    }
    expect(new Set(reads)).toEqual(new Set([200]));
    expect(service.pid).toBe(pid);
    expect(mostRss).toBeLessThan(MOST_RSS_MIB);
    expect(await metric("saga_load_shed_total")).toBeGreaterThanOrEqual(refused.length);

    await allEnd(database.sql, accepted, 60_000);
    // A start that was shed at admission leaves no trace.
    const shedIds = ids.filter((_, nth) => replies[nth]?.body.message?.includes("node is overloaded"));
    const [stored] = await database.sql<{ n: number }[]>`
      select count(*)::int as n from runs where id = any(${shedIds}::text[]::uuid[])`;
    expect(stored?.n).toBe(0);
    await allSound(database.sql, accepted.slice(0, 100));
    await nothingUnwatched(database.sql);

    await until(async () => (await metric("saga_overloaded")) === 0);
    const after = await inLanes(100, 10, (nth) => post("/sagas/start", { workflow_id: "ten", inputs: { n: nth } }));
    expect(new Set(after.map(({ status }) => status))).toEqual(new Set([202]));
    const figures = {
      offered: ids.length,
      accepted: accepted.length,
      seconds: Math.round(seconds),
      mostRssMiB: mostRss,
    };
    report({ ...figures, offeredPerS: Math.round(ids.length / seconds), reads: reads.length });
  });
});

describe("runs that are heavier together than the heap", () => {
  it("are parked as rows: the node survives, and every run continues", async () => {
    await startService({ SAGA_SHED_HEAP_PERCENT: "75" });
    await client.publish("heavy", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
    const { pid } = service;
    const text = "x".repeat(200_000);
    const first = await client.start("heavy", { inputs: { text } });
    // With 200 KB of text each, they would take three times the heap.
    const count = (HEAP_MIB * 1.5 * 2 ** 20) / text.length;
    const parked = inLanes(Math.ceil(count), 32, async () => {
      for (;;) {
        const { status, body } = await post("/sagas/start", { workflow_id: "heavy", inputs: { text } });
        if (status === 202) return body.run_id as string;
        expect({ status, error: body.error }).toEqual({ status: 503, error: "overloaded" });
      }
    });
    const { result: runIds, mostRss, reads } = await watching(first, parked);
    expect(new Set(reads)).toEqual(new Set([200]));
    expect(service.pid).toBe(pid);
    const shed = await metric("saga_load_shed_total");
    const residents = await metric("saga_runs_resident");
    expect(residents).toBeLessThan(runIds.length / 2);
    expect(mostRss).toBeLessThan(MOST_RSS_MIB);

    const waiting = async () => {
      const [row] = await database.sql<{ n: number }[]>`
        select count(*)::int as n from runs where awaited_signal = 'go' and id = any(${runIds}::text[]::uuid[])`;
      return row?.n === runIds.length;
    };
    await until(waiting, { what: "all of them parked" });
    await inLanes(runIds.length, 16, (nth) => client.insist("POST", `/sagas/${runIds[nth]}/signal/go`, {}));
    await allEnd(database.sql, runIds);
    expect(service.pid).toBe(pid);
    report({ runs: runIds.length, heapMiB: HEAP_MIB, mostRssMiB: mostRss, residents, shed });
  }, 400_000);
});
