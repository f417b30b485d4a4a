// Priority and fairness as a client sees them: a backlog of all priorities and keys is queued before its worker comes, at one node and at several, of which one after the
// other is killed (SIGKILL). The worker notes in which order it is given the calls.
// @module-tag long
// @access both
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { uuidv7 } from "../../src/ids.js";
import { createWorker, type Worker } from "../../src/sdk/worker/index.js";
import { livingNodes, sampled } from "../cluster/rig.js";
import { credential, workerToken } from "../harness/access.js";
import { handleAll } from "../harness/actions.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";

const PATIENCE_MS = 120_000;
const silent = { debug() {}, info() {}, warn() {}, error() {} };
/** More of each than two cycles of turns take. */
const BACKLOG = { 1: 60, 2: 32, 3: 18, 4: 12, 5: 10 } as const;
const TOTAL = Object.values(BACKLOG).reduce((sum, runs) => sum + runs, 0);
/** Two cycles of turns, and what they give to each level. */
const WINDOW = 62;
const EXPECTED: Readonly<Record<string, number>> = { 1: 32, 2: 16, 3: 8, 4: 4, 5: 2 };

/** A service, and a worker that takes one call of each node at a time. */
class Rig {
  private constructor(
    readonly database: TestDatabase,
    readonly service: ServiceProcess,
    readonly client: Client,
    readonly nodes: number,
  ) {}

  worker: Worker | undefined;
  /** Run ids in the order in which their calls came, each once. */
  served: string[] = [];
  executions = 0;
  private readonly held = new Set<() => void>();
  private mayPass = Number.POSITIVE_INFINITY;

  static async of(nodes: number): Promise<Rig> {
    const database = await createTestDatabase({ max: 4 });
    const service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: String(nodes) });
    await service.start({ within: 60_000 });
    // The only node is the service's own process.
    if (nodes > 1) await until(() => livingNodes(service).length === nodes, { what: "all nodes" });
    const rig = new Rig(database, service, new Client(service.url), nodes);
    await rig.client.publish("calls", [{ id: "call", type: "action", action: "line.call" }]);
    await rig.client.publish(
      "slots",
      [
        { id: "gate", type: "switch", cases: [{ when: "inputs.waits", next: "hold" }], default: "call" },
        { id: "hold", type: "wait_for_signal", signal_name: "go", next: "call" },
        { id: "call", type: "action", action: "line.call" },
      ],
      { concurrency: { key: "${inputs.key}", limit: 1 } },
    );
    // Registers the action.
    await rig.connect();
    return rig;
  }

  /** From then on calls are carried out. */
  async connect(): Promise<void> {
    const timing = { resendMs: 100, backoffMs: 50, backoffMaxMs: 500, abortGraceMs: 100, lookAgainMs: 1_000 };
    const worker = createWorker({
      ...workerToken(),
      ...{ service: "line", grpc: this.service.grpcAddress, api: this.service.url, log: silent, timing },
      maxInFlight: this.nodes,
    });
    handleAll(worker, "line", [{ name: "call", execute: async (_input, { runId }) => this.execute(runId) }]);
    await worker.start();
    this.worker = worker;
  }

  async disconnect(): Promise<void> {
    await this.worker?.stop();
    this.worker = undefined;
    this.served = [];
    this.executions = 0;
  }

  /** The next so many calls are carried out; those after them stay with the worker until there are more. */
  pass(more: number): void {
    this.mayPass = this.served.length + more;
    for (const letGo of this.held) letGo();
    this.held.clear();
  }

  private async execute(runId: string): Promise<JsonObject> {
    this.executions++;
    if (!this.served.includes(runId)) this.served.push(runId);
    while (this.served.indexOf(runId) >= this.mayPass) await new Promise<void>((letGo) => this.held.add(letGo));
    return {};
  }

  async count(what: string): Promise<number> {
    const [row] = await this.database.sql.unsafe<{ count: number }[]>(`select count(*)::int as count from ${what}`);
    return row?.count ?? 0;
  }

  start = (workflow: string, more: JsonObject) => this.client.start(workflow, { idempotency_key: uuidv7(), ...more });

  /** All priorities, mixed. The groups are in the order of their start. */
  async backlog(workflow: string, more: JsonObject = {}): Promise<Readonly<Record<string, string[]>>> {
    const groups: Record<string, string[]> = { 1: [], 2: [], 3: [], 4: [], 5: [] };
    for (let nth = 0; nth < 60; nth++)
      for (const [priority, runs] of Object.entries(BACKLOG))
        if (nth < runs) groups[priority]?.push(await this.start(workflow, { priority: Number(priority), ...more }));
    return groups;
  }

  /** The calls at the nodes that live. */
  private async calls(): Promise<{ waiting: number; known: number }> {
    const page = await (await fetch(`${this.service.url}/metrics`, { headers: credential() })).text();
    const waiting = sampled(page, "saga_dispatches_queued");
    return { waiting, known: waiting + sampled(page, "saga_dispatches_in_flight") };
  }

  async untilWaiting(calls: number): Promise<void> {
    const all = async () => (await this.calls()).waiting === calls;
    await until(all, { within: PATIENCE_MS, pause: 200, what: `${calls} calls that wait` });
  }

  private open = () => this.count("runs where terminal_at is null");

  /**
   * What may pass has ended, and a node knows the call of every other run, while the worker carries nothing out. A call that it holds of a node that was
   * killed waits at the next one, or is in flight again.
   */
  async untilSettled(): Promise<void> {
    const isSettled = async () => {
      const open = await this.open();
      return open === TOTAL - this.mayPass && (await this.calls()).known === open;
    };
    await until(isSettled, { within: PATIENCE_MS, pause: 500, what: "every call queued again" });
  }

  async allEnded(): Promise<void> {
    await until(async () => (await this.open()) === 0, { within: PATIENCE_MS, what: "the end of all runs" });
    expect(await this.count("runs where state <> 'succeeded'")).toBe(0);
    await nothingUnwatched(this.database.sql);
  }

  async close(): Promise<void> {
    this.pass(Number.POSITIVE_INFINITY);
    await this.worker?.stop();
    await this.service.stop();
    await this.database.drop();
  }
}

const shares = (served: readonly string[], groups: Readonly<Record<string, readonly string[]>>) =>
  Object.fromEntries(
    Object.entries(groups).map(([name, runs]) => [name, served.filter((run) => runs.includes(run)).length]),
  );

/** Each node has its own cycle, which may be anywhere, and one call that was on its way. */
function expectShares(
  seen: Readonly<Record<string, number>>,
  expected: Readonly<Record<string, number>>,
  nodes: number,
) {
  report({ nodes, ...seen });
  for (const [name, count] of Object.entries(expected)) {
    expect(seen[name], `${name} of ${JSON.stringify(seen)}`).toBeGreaterThanOrEqual(Math.max(1, count - 2 * nodes));
    expect(seen[name], `${name} of ${JSON.stringify(seen)}`).toBeLessThanOrEqual(count + 2 * nodes);
  }
}

describe.each([1, 3])("a backlog of calls at %i nodes", (nodes) => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await Rig.of(nodes);
  }, 120_000);
  afterAll(() => rig.close());

  it(
    "is worked off by priority, and no priority starves",
    async () => {
      await rig.disconnect();
      const groups = await rig.backlog("calls");
      await rig.untilWaiting(TOTAL);
      await rig.connect();
      await rig.allEnded();
      expect([...rig.served].sort()).toEqual(Object.values(groups).flat().sort());
      expect(rig.executions, "each once").toBe(TOTAL);
      expectShares(shares(rig.served.slice(0, WINDOW), groups), EXPECTED, nodes);
    },
    3 * PATIENCE_MS,
  );

  it(
    "is shared by the keys of a priority by their weights",
    async () => {
      await rig.disconnect();
      const groups: Record<string, string[]> = { many: [], heavy: [], none: [] };
      for (let nth = 0; nth < 50; nth++) {
        groups.many?.push(await rig.start("calls", { fairness_key: "many" }));
        groups.heavy?.push(await rig.start("calls", { fairness_key: "heavy", fairness_weight: 3 }));
        if (nth < 25) groups.none?.push(await rig.start("calls", {}));
      }
      await rig.untilWaiting(125);
      await rig.connect();
      await rig.allEnded();
      expect(rig.executions).toBe(125);
      expectShares(shares(rig.served.slice(0, 50), groups), { many: 10, heavy: 30, none: 10 }, nodes);
    },
    3 * PATIENCE_MS,
  );

  it(
    "a run says its priority and key, and a priority that does not exist is refused",
    async () => {
      const turn = { priority: 2, fairness_key: "shop-7 🙂", fairness_weight: 0.5 };
      const id = await rig.start("calls", turn);
      expect(await rig.client.run(id)).toMatchObject(turn);
      expect(await rig.client.run(await rig.start("calls", { priority: 3 }))).not.toHaveProperty("priority");
      for (const [wrong, path] of [
        [{ priority: 0 }, "$.priority"],
        [{ priority: 6 }, "$.priority"],
        [{ priority: 1.5 }, "$.priority"],
        [{ priority: "1" }, "$.priority"],
        [{ fairness_key: "" }, "$.fairness_key"],
        [{ fairness_key: "k".repeat(257) }, "$.fairness_key"],
        [{ fairness_key: "k", fairness_weight: 0 }, "$.fairness_weight"],
        [{ fairness_key: "k", fairness_weight: 1_001 }, "$.fairness_weight"],
        [{ fairness_weight: 2 }, "$.fairness_key"],
      ] as const) {
        const { status, body } = await rig.client.ask("POST", "/sagas/start", { workflow_id: "calls", ...wrong });
        expect([status, body.details?.[0]?.path], JSON.stringify(wrong)).toEqual([400, path]);
      }
      const { status } = await rig.client.ask("POST", "/sagas/start", {
        ...{ workflow_id: "calls", priority: null, fairness_key: null, fairness_weight: null },
      });
      expect(status).toBe(202);
      await rig.allEnded();
    },
    PATIENCE_MS,
  );
});

describe("a backlog at four nodes, of which two are killed", () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await Rig.of(4);
  }, 120_000);
  afterAll(() => rig.close());

  /** Any of those that are there, while the worker carries nothing out; and all that waits is queued again. */
  async function killOne(): Promise<void> {
    const living = livingNodes(rig.service);
    const victim = living[Math.floor(Math.random() * living.length)];
    if (victim) process.kill(victim.pid, "SIGKILL");
    await until(() => livingNodes(rig.service).every(({ pid }) => pid !== victim?.pid), { within: PATIENCE_MS });
  }

  it(
    "ends whole, each call once but those that were under way, and goes by priority again after each takeover",
    async () => {
      await rig.disconnect();
      const groups = await rig.backlog("calls");
      await rig.untilWaiting(TOTAL);
      rig.pass(10);
      await rig.connect();
      for (const kill of [1, 2]) {
        await until(() => rig.served.length >= 10 + 31 * (kill - 1) + 1, { within: PATIENCE_MS });
        await killOne();
        await rig.untilSettled();
        const before = rig.served.length;
        rig.pass(31);
        await until(() => rig.served.length >= before + 31, { within: PATIENCE_MS });
        const seen = shares(rig.served.slice(before, before + 31), groups);
        expectShares(seen, { 1: 16, 2: 8, 3: 4 }, 3);
      }
      rig.pass(Number.POSITIVE_INFINITY);
      await rig.allEnded();
      expect([...rig.served].sort()).toEqual(Object.values(groups).flat().sort());
      expect(rig.executions).toBeLessThanOrEqual(TOTAL + 2 * 2 * rig.nodes);
    },
    5 * PATIENCE_MS,
  );

  it(
    "lets runs have the one slot of a key by their priorities, whatever is killed",
    async () => {
      rig.pass(Number.POSITIVE_INFINITY);
      await rig.disconnect();
      await rig.connect();
      const key = uuidv7();
      const holder = await rig.start("slots", { inputs: { key, waits: true } });
      await until(async () => (await rig.client.run(holder)).paused_reason === "signal");
      const groups: Record<string, string[]> = { 1: [], 2: [], 3: [], 4: [], 5: [] };
      for (let nth = 0; nth < 18; nth++)
        for (const [priority, runs] of Object.entries({ 5: 2, 4: 3, 3: 5, 2: 9, 1: 18 }))
          if (nth < runs)
            groups[priority]?.push(
              await rig.start("slots", { inputs: { key, waits: false }, priority: Number(priority) }),
            );
      await until(async () => (await rig.count("runs where paused_reason = 'concurrency'")) === 37);
      await rig.client.insist("POST", `/sagas/${holder}/signal/go`, {});
      await until(() => rig.served.length > 10, { within: PATIENCE_MS });
      const [victim] = livingNodes(rig.service);
      if (victim) process.kill(victim.pid, "SIGKILL");
      await rig.allEnded();
      const entered = rig.served.filter((run) => run !== holder);
      expect(shares(entered.slice(0, 31), groups)).toEqual({ 1: 16, 2: 8, 3: 4, 4: 2, 5: 1 });
      for (const runs of Object.values(groups)) expect(entered.filter((run) => runs.includes(run))).toEqual(runs);
      expect(await rig.count("concurrency_tickets")).toBe(0);
    },
    3 * PATIENCE_MS,
  );
});
