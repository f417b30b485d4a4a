// Nodes killed (SIGKILL) at moments nobody chose, with gRPC workers attached and commits under way, and started again. Two
// services share one database; whatever the one dropped, it or the other picks up.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report, type Seen } from "../run/seen.js";
import { Client } from "./client.js";
import { openShop, receiptFor, type Shop } from "./shop.js";

const RUNS = 90;
const KILLS = 4;

let database: TestDatabase;
let services: ServiceProcess[];
let clients: Client[];
let shops: Shop[];

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  const env = { DATABASE_URL: database.url, LOG_LEVEL: "warn" };
  services = [await createService(env), await createService(env)];
  for (const service of services) await service.start();
  clients = services.map(({ url }) => new Client(url));
  shops = await Promise.all(services.map(({ grpcAddress, url }) => openShop({ grpc: grpcAddress, api: url })));
  const compensation = { action: "shop.refund" };
  await clients[0]?.publish("order", [
    { id: "pay", type: "action", action: "shop.charge", compensation, next: "rest" },
    { id: "rest", type: "wait_duration", duration_ms: 100, next: "make" },
    { id: "make", type: "action", action: "shop.slow", inputs: { ms: 60 }, compensation, next: "wait" },
    { id: "wait", type: "wait_for_signal", signal_name: "go", next: "which" },
    { id: "which", type: "switch", cases: [{ when: "inputs.refuse", next: "refuse" }], default: "ship" },
    { id: "refuse", type: "action", action: "shop.refuse" },
    { id: "ship", type: "action", action: "shop.charge" },
  ]);
});
afterAll(async () => {
  for (const shop of shops) await shop.stop();
  for (const service of services) await service.stop();
  await database.drop();
});

/** What a run of this kind must have left, in its variables and in the workers' ledgers alike. */
function holdAgainstLedgers({ run, events }: Seen, refused: boolean): void {
  expect({ id: run.id, state: run.state }).toEqual({ id: run.id, state: refused ? "failed" : "succeeded" });
  const executed = shops.flatMap((shop) => shop.of(run.id));
  const keys = new Map(
    executed.map((entry) => [`${entry.stepId} ${entry.forwardKey ? "undo" : "forward"}`, entry.key]),
  );
  for (const step of refused ? ["pay", "make"] : ["pay", "make", "ship"]) {
    // However often it was executed: one key, one effect, and the receipt in the run is that effect's.
    const used = new Set(
      executed.filter(({ stepId, forwardKey }) => stepId === step && !forwardKey).map(({ key }) => key),
    );
    expect([step, used.size]).toEqual([step, 1]);
    expect(run.variables[step]).toEqual({ receipt: receiptFor(keys.get(`${step} forward`) ?? "") });
  }
  const undone = events
    .filter(({ event_type, metadata }) => event_type === "step.succeeded" && metadata?.phase === "compensation")
    .map(({ step_id }) => step_id);
  expect(undone).toEqual(refused ? ["make", "pay"] : []);
  const refunded = executed.filter(({ forwardKey }) => forwardKey !== undefined).map(({ forwardKey }) => forwardKey);
  expect(new Set(refunded)).toEqual(new Set(refused ? [keys.get("make forward"), keys.get("pay forward")] : []));
}

describe("nodes killed at random with workers attached", () => {
  it("lose nothing acknowledged, execute every step under one key, and bring every run to its end", async () => {
    const began = performance.now();
    const started = new Map<number, string>();
    const client = (nth: number) => clients[nth % 2] as Client;
    const drive = async (nth: number) => {
      const idempotency_key = `order-${nth}`;
      const inputs = { refuse: nth % 6 === 0 };
      started.set(nth, await client(nth).start("order", { idempotency_key, inputs }));
      const runId = started.get(nth) ?? "";
      await until(async () => (await client(nth + 1).run(runId)).awaited_signal === "go", { within: 90_000 });
      // The client of the other service, and again if that one is away: a signal has its own id.
      const { status } = await client(nth + 1).insist("POST", `/sagas/${runId}/signal/go`, { idempotency_key });
      expect(status).toBe(202);
    };
    let next = 0;
    const drivers = Array.from({ length: 15 }, async () => {
      while (next < RUNS) await drive(next++);
    });
    const killing = (async () => {
      for (let nth = 0; nth < KILLS; nth++) {
        const victim = services[nth % 2] as ServiceProcess;
        // A share of the work later, at whatever it is doing then.
        const due = Math.floor(((nth + 0.3 + Math.random() * 0.5) * RUNS) / KILLS);
        await until(() => started.size >= due, { within: 90_000, what: `${due} runs` });
        await victim.kill();
        await victim.start();
      }
    })();
    await Promise.all([...drivers, killing]);
    const runIds = Array.from({ length: RUNS }, (_, nth) => started.get(nth) ?? "");
    expect(new Set(runIds).size).toBe(RUNS);
    const seen = await client(0).allEnd(runIds);
    seen.forEach((one, nth) => {
      holdAgainstLedgers(one, nth % 6 === 0);
    });
    const [row] = await database.sql`select count(*)::int as count from runs`;
    expect(row?.count).toBe(RUNS);
    await nothingUnwatched(database.sql);
    const executions = shops.reduce((sum, { ledger }) => sum + ledger.length, 0);
    const keys = new Set(shops.flatMap(({ ledger }) => ledger.map(({ key }) => key))).size;
    report({ runs: RUNS, kills: KILLS, executions, keys, ms: performance.now() - began });
  }, 120_000);
});
