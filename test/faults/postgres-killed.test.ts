// Postgres is killed (SIGKILL to the postmaster) right after a burst of acknowledgements, and comes back. Everything acknowledged
// is stored, every run ends, and the service recovers by itself.
// @module-tag long
// @access both
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import postgres, { type Sql } from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../src/store/embedded/postgres.js";
import { migrateDatabase } from "../../src/store/migrate/migrate.js";
import { putKeysBack } from "../harness/access.js";
import { silentLog } from "../harness/database.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { type Service, startService } from "./rig.js";
import { receiptFor } from "./shop.js";

const WAITING = 16;
const HANGING = WAITING;
const STARTS = 3 * WAITING;
/** Acknowledgements before the kill. */
const BURST = 1.5 * WAITING;

let dataDir: string;
let server: EmbeddedPostgres;
let service: Service;
let sql: Sql;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "saga-killed-"));
  server = await startEmbeddedPostgres({ dataDir, log: silentLog });
  sql = postgres(server.url, { max: 1, onnotice: () => {}, backoff: () => 0.1 });
  await migrateDatabase(server.url, silentLog);
  await putKeysBack(sql);
  service = await startService(server.url);
  const compensation = { action: "shop.refund" };
  await service.client.publish("order", [
    { id: "pay", type: "action", action: "shop.charge", compensation, next: "rest" },
    { id: "rest", type: "wait_duration", duration_ms: 50, next: "ship" },
    { id: "ship", type: "action", action: "shop.charge" },
  ]);
  await service.client.publish("wait", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
  await service.client.publish("hang", [
    { id: "hang", type: "action", action: "shop.hang", next: "ship" },
    { id: "ship", type: "action", action: "shop.charge" },
  ]);
});
afterAll(async () => {
  await service.stop();
  await sql.end({ timeout: 1 });
  await server.stop();
  await rm(dataDir, { recursive: true, force: true });
});

async function postmaster(): Promise<number> {
  return Number((await readFile(join(dataDir, "postgres", "postmaster.pid"), "utf8")).split("\n")[0]);
}

interface Acknowledged {
  readonly starts: Map<string, string>;
  readonly signals: { readonly runId: string; readonly signalId: string }[];
  readonly results: { readonly runId: string; readonly by: string }[];
  unanswered: number;
}

/** Sends all requests at once, and keeps those that were answered with 202. */
async function burst(waiting: readonly string[], hanging: readonly string[], seen: Acknowledged): Promise<void> {
  const { client } = service;
  const count = async (asked: Promise<{ status: number }>, kept: (body: never) => void) => {
    const answer = (await asked.catch(() => undefined)) as { status: number; body: never } | undefined;
    if (answer?.status === 202) kept(answer.body);
    else seen.unanswered++;
  };
  const start = (nth: number) =>
    count(
      client.ask("POST", "/sagas/start", { workflow_id: "order", idempotency_key: `order-${nth}` }),
      ({ run_id }: { run_id: string }) => seen.starts.set(`order-${nth}`, run_id),
    );
  const signal = (runId: string) =>
    count(
      client.ask("POST", `/sagas/${runId}/signal/go`, { payload: { n: 1 }, idempotency_key: runId }),
      ({ signal_id }: { signal_id: string }) => seen.signals.push({ runId, signalId: signal_id }),
    );
  const result = (runId: string) =>
    count(client.ask("POST", `/sagas/${runId}/actions/hang/result`, { result: { by: runId } }), () =>
      seen.results.push({ runId, by: runId }),
    );
  const all: Promise<void>[] = [];
  // The kinds alternate, so that the kill interrupts some of each.
  for (let nth = 0; nth < STARTS; nth++) {
    const [toSignal, toAnswer] = [waiting[nth], hanging[nth]];
    if (toSignal) all.push(signal(toSignal));
    if (toAnswer) all.push(result(toAnswer));
    all.push(start(nth));
  }
  await Promise.all(all);
}

describe("a service whose Postgres is killed after a burst of acknowledgements", () => {
  it("recovers by itself, has lost nothing acknowledged, and ends every run", async () => {
    const { client, shop } = service;
    const startMany = (workflowId: string, count: number) =>
      Promise.all(Array.from({ length: count }, () => client.start(workflowId)));
    const waiting = await startMany("wait", WAITING);
    const hanging = await startMany("hang", HANGING);
    for (const runId of waiting) await client.untilState(runId, "paused");
    await until(() => hanging.every((runId) => shop.hanging(runId).length > 0));

    const seen: Acknowledged = { starts: new Map(), signals: [], results: [], unanswered: 0 };
    const killed = await postmaster();
    const bursting = burst(waiting, hanging, seen);
    await until(() => seen.starts.size + seen.signals.length + seen.results.length >= BURST, {
      what: `${BURST} acknowledgements`,
    });
    process.kill(killed, "SIGKILL");
    const began = performance.now();
    const atKill = { starts: seen.starts.size, signals: seen.signals.length, results: seen.results.length };
    await bursting;
    await until(async () => (await postmaster()) !== killed && (await sql`select 1`).length === 1);
    const backAfterMs = performance.now() - began;
    const readyAgain = () => fetch(`${client.url}/readyz`).then(({ ok }) => ok);
    await until(readyAgain, { what: "the service's recovery" });
    const recoveredAfterMs = performance.now() - began;

    // Nothing acknowledged is lost.
    for (const [key, runId] of seen.starts) {
      const again = await client.insist("POST", "/sagas/start", { workflow_id: "order", idempotency_key: key });
      expect(again).toMatchObject({ status: 202, body: { run_id: runId, deduplicated: true } });
    }
    for (const { runId, signalId } of seen.signals) {
      const { body } = await client.insist("GET", `/sagas/${runId}/signals`);
      expect(body.items).toMatchObject([{ id: signalId, payload: { n: 1 }, consumed_at: expect.any(String) }]);
    }
    for (const { runId, by } of seen.results)
      expect((await client.run(runId)).variables).toMatchObject({ hang: { by } });

    // Clients without an answer repeat their requests, and workers answer: then every run ends as if nothing had happened.
    const orders = await Promise.all(
      Array.from({ length: STARTS }, (_, nth) => client.start("order", { idempotency_key: `order-${nth}` })),
    );
    expect(new Set(orders).size).toBe(STARTS);
    for (const runId of waiting) {
      const again = { payload: { n: 1 }, idempotency_key: runId };
      expect((await client.insist("POST", `/sagas/${runId}/signal/go`, again)).status).toBe(202);
    }
    shop.letAllGo();
    const ended = await client.allEnd([...waiting, ...hanging, ...orders]);
    for (const { run } of ended) expect({ id: run.id, state: run.state }).toEqual({ id: run.id, state: "succeeded" });
    for (const { run, events } of ended.slice(WAITING + HANGING)) {
      const [paid] = shop.of(run.id).filter(({ stepId }) => stepId === "pay");
      expect(run.variables).toMatchObject({ pay: { receipt: receiptFor(paid?.key ?? "") } });
      expect(events.filter(({ event_type }) => event_type === "step.dispatched")).toHaveLength(2);
    }
    await until(async () => (await sql`select 1 from signals`).length === WAITING);
    await nothingUnwatched(sql);
    const { unanswered } = seen;
    const endedAfterMs = performance.now() - began;
    report({ atKill, unanswered, backAfterMs, recoveredAfterMs, endedAfterMs, executions: shop.ledger.length });
  });
});
