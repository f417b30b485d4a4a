// The kill loop: a service of four nodes, of which one is killed every two seconds, under load, with one poisonous run in the middle of it.
// What must be true of it afterwards is in `expectRight`; how long it lasts is the test's matter.
import { request } from "node:http";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { livingNodes, logged } from "../cluster/rig.js";
import { credential } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";
import { openShop, receiptFor, type Shop } from "./shop.js";

const NODES = 4;
/** The rhythm of the kills: a successor has not yet taken over everything when the next node dies. */
const KILL_MS = 2_000;
/** Before a start that was not acknowledged is sent again. */
const AGAIN_MS = 1_000;
/** A service without nodes shows nothing. */
const LEFT_ALIVE = 2;
/** Starts without an answer yet; more would only wait. */
const MOST_WAITING = 150;
const POISON = "brings-its-node-down";
/** Nodes that the poisonous run ends by itself: see poison.test.ts. One more is killed with its last words unread. */
const MOST_DEATHS = 3;
/** A machine with other work starts a node in tens of seconds. */
const MOST_LONGER_MS = 240_000;

export interface KillLoopOptions {
  /** Longer, up to four minutes more, until the least kills and runs are reached. */
  readonly lastsMs: number;
  readonly runsPerSecond: number;
  readonly least: { readonly kills: number; readonly acknowledged: number };
}

export interface Outcome {
  readonly acknowledged: readonly string[];
  readonly poisonous: string;
  /** The time from the start of the poisonous run to its quarantine, if that was before the end of the killing. */
  readonly foundMs: number | undefined;
}

interface QuarantineSeen {
  readonly run_id: string;
  readonly metadata: Readonly<Record<string, unknown>>;
}

class KillLoop {
  private began = 0;
  private kills = 0;
  private waiting = 0;
  private poisonous = "";
  private acknowledged: string[] = [];
  /** How many starts were answered with each status; 0 is no answer. */
  private answers: Record<number, number> = {};

  private constructor(
    private readonly database: TestDatabase,
    private readonly service: ServiceProcess,
    private readonly client: Client,
    private readonly shops: readonly Shop[],
    private readonly options: KillLoopOptions,
  ) {}

  static async open(database: TestDatabase, options: KillLoopOptions): Promise<KillLoop> {
    const NODE_OPTIONS = `--import=${join(packageRoot(), "test", "faults", "falls-dead.mjs")}`;
    const service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: String(NODES), NODE_OPTIONS });
    await service.start({ within: 60_000 });
    await until(() => livingNodes(service).length === NODES);
    const at = { grpc: service.grpcAddress, api: service.url };
    const shops = [await openShop(at), await openShop(at)];
    const loop = new KillLoop(database, service, new Client(service.url), shops, options);
    await loop.publish();
    return loop;
  }

  async close(): Promise<void> {
    for (const shop of this.shops) await shop.stop();
    await this.service.stop();
  }

  private async publish(): Promise<void> {
    const retry = { max_attempts: 20, initial_backoff_ms: 50, max_backoff_ms: 500 };
    const first = { id: "first", type: "noop" };
    const rest = [
      { id: "rest", type: "wait_duration", duration_ms: 200, next: "pay" },
      { id: "pay", type: "action", action: "shop.charge", retry, next: "done" },
      { id: "done", type: "end", output: "${vars.pay.receipt}" },
    ];
    await this.client.publish("healthy", [{ ...first, next: "rest" }, ...rest]);
    const poison = { id: POISON, type: "noop", next: "rest" };
    await this.client.publish("poisonous", [{ ...first, next: POISON }, poison, ...rest]);
  }

  /** Starts and kills until the time is over; the poisonous run comes after a quarter of the least kills. */
  async run(): Promise<Outcome> {
    const { least, lastsMs } = this.options;
    this.began = performance.now();
    // A second try gets the runs of the first one again.
    Object.assign(this, { kills: 0, acknowledged: [], answers: {} });
    const died = this.deaths;
    const loading = this.load();
    const killing = this.killNodes();
    await until(() => this.isOver || this.kills >= least.kills / 4, {
      within: lastsMs + MOST_LONGER_MS,
      what: "the first kills",
    });
    const foundMs = await this.poison();
    const [unanswered] = await Promise.all([loading, killing]);
    const { acknowledged, kills, poisonous, answers } = this;
    const deaths = this.deaths - died;
    report({ acknowledged: acknowledged.length, answers, unanswered, kills, deaths, foundMs, ms: this.lasted });
    const told = this.state({ answers, deaths });
    expect(kills, told).toBeGreaterThanOrEqual(least.kills);
    expect(acknowledged.length, told).toBeGreaterThanOrEqual(least.acknowledged);
    expect(deaths - kills, `nodes that were not killed: ${told}`).toBeLessThanOrEqual(MOST_DEATHS);
    return { acknowledged, poisonous, foundMs };
  }

  /** For the message of a failure, which is all that is seen of it elsewhere. */
  private state(figures: object): string {
    const nodes = livingNodes(this.service).length;
    const newest = this.service.log.filter((line) => /"level":"(?:warn|error|fatal)"/.test(line)).slice(-5);
    return `${JSON.stringify({ ...figures, nodes, kills: this.kills, ms: this.lasted })} ${newest.join(" ")}`;
  }

  private get deaths(): number {
    return logged(this.service, "node died, starting another").length;
  }

  private get lasted(): number {
    return Math.round(performance.now() - this.began);
  }

  private get isOver(): boolean {
    const { lastsMs, least } = this.options;
    if (this.lasted < lastsMs) return false;
    const enough = this.kills >= least.kills && this.acknowledged.length >= least.acknowledged && this.poisonous !== "";
    return enough || this.lasted > lastsMs + MOST_LONGER_MS;
  }

  /** Answers with how many were not acknowledged in time. */
  private async load(): Promise<number> {
    const perSecond = this.options.runsPerSecond;
    const all: Promise<boolean>[] = [];
    for (let nth = 0, begins = performance.now(); !this.isOver; nth++) {
      if (nth % (10 * perSecond) === 0) this.reportProgress();
      if (this.waiting < MOST_WAITING) all.push(this.startOne(nth));
      begins = Math.max(begins + 1_000 / perSecond, performance.now() - 1_000);
      await delay(Math.max(0, begins - performance.now()));
    }
    return (await Promise.all(all)).filter((answered) => !answered).length;
  }

  private reportProgress(): void {
    const { waiting, acknowledged } = this;
    const nodes = livingNodes(this.service).length;
    report({ nodes, acknowledged: acknowledged.length, waiting, kills: this.kills });
  }

  private async startOne(order: number): Promise<boolean> {
    this.waiting++;
    const runId = await this.acknowledgedStart("healthy", `healthy-${order}`, { order });
    this.waiting--;
    if (runId !== undefined) this.acknowledged.push(runId);
    return runId !== undefined;
  }

  /** The id of the run once it is acknowledged; undefined if that did not happen in time. */
  private async acknowledgedStart(workflowId: string, key: string, inputs = {}): Promise<string | undefined> {
    while (!this.isOver) {
      const answer = await post(
        `${this.service.url}/api/v1/sagas/start`,
        JSON.stringify({ workflow_id: workflowId, idempotency_key: key, inputs }),
      );
      this.answers[answer.status] = (this.answers[answer.status] ?? 0) + 1;
      if (answer.status === 202) return (JSON.parse(answer.text) as { run_id: string }).run_id;
      await delay(AGAIN_MS);
    }
    return undefined;
  }

  private async killNodes(): Promise<void> {
    for (; !this.isOver; await delay(KILL_MS)) {
      const living = () => livingNodes(this.service);
      await until(() => this.isOver || living().length > LEFT_ALIVE, {
        within: 300_000,
        pause: 100,
        what: "three nodes",
      });
      // The one that has lived longest, so that each is killed in turn.
      const [victim] = living();
      if (!victim || this.isOver) return;
      process.kill(victim.pid, "SIGKILL");
      this.kills++;
    }
  }

  private async poison(): Promise<number | undefined> {
    const began = performance.now();
    this.poisonous = (await this.acknowledgedStart("poisonous", "poisonous")) ?? "";
    const found = () => this.isQuarantined(this.poisonous);
    const end = await until(async () => (this.isOver ? "over" : (await found()) && "found"), {
      ...{ within: this.options.lastsMs + MOST_LONGER_MS, pause: 250, what: "the quarantine, or the end" },
    });
    return end === "found" ? Math.round(performance.now() - began) : undefined;
  }

  private async isQuarantined(runId: string): Promise<boolean> {
    return (
      (await this.database.sql`select 1 from runs where id = ${runId} and paused_reason = 'quarantine'`).length > 0
    );
  }

  /** Every acknowledged run ends right, the books balance, and the poisonous run alone is quarantined. */
  async expectRight({ acknowledged, poisonous }: Outcome): Promise<void> {
    await this.untilAllHaveEnded();
    await until(() => this.isQuarantined(poisonous), { what: "the quarantine" });
    expect(new Set(acknowledged).size).toBe(acknowledged.length);
    await this.expectBalanced(acknowledged, poisonous);
    await this.expectOneQuarantine(poisonous);
    await this.client.allEnd(acknowledged.filter((_, nth) => nth % 25 === 0));
    await nothingUnwatched(this.database.sql);
  }

  private async untilAllHaveEnded(): Promise<void> {
    const began = performance.now();
    const open = () => this.database.sql`
      select id from runs where terminal_at is null and paused_reason is distinct from 'quarantine' limit 1`;
    await until(async () => (await open()).length === 0, { within: 120_000, pause: 500, what: "the end of all runs" });
    report({ restMs: Math.round(performance.now() - began) });
  }

  /** Each run was charged under one key and has the receipt for it, and nothing else was charged. */
  private async expectBalanced(acknowledged: readonly string[], poisonous: string): Promise<void> {
    const rows = await this.database.sql<{ id: string; state: string; output: unknown }[]>`
      select id, state, output from runs where id <> ${poisonous}`;
    expect(rows.filter(({ state }) => state !== "succeeded")).toEqual([]);
    const receipts = new Map(rows.map(({ id, output }) => [id, output]));
    expect(acknowledged.filter((runId) => !receipts.has(runId))).toEqual([]);
    const charged = new Map<string, Set<string>>();
    const entries = this.shops.flatMap(({ ledger }) => ledger);
    for (const { runId, key } of entries) charged.set(runId, (charged.get(runId) ?? new Set()).add(receiptFor(key)));
    report({ runs: rows.length, executions: entries.length });
    expect(new Map([...charged].map(([runId, effects]) => [runId, [...effects]]))).toEqual(
      new Map([...receipts].map(([runId, receipt]) => [runId, [receipt]])),
    );
  }

  /** An audit row stays, also if somebody had released the run since. */
  private async expectOneQuarantine(poisonous: string): Promise<void> {
    const seen = await this.database.sql<QuarantineSeen[]>`
      select run_id, metadata from run_events where metadata->>'kind' = 'quarantine'`;
    report({ proof: seen[0]?.metadata });
    // At least three: the count is durable, and a node that tries the run before the quarantine is committed adds to it.
    const trials = seen[0]?.metadata.trials;
    expect(trials).toBeGreaterThanOrEqual(3);
    const proof = { trials, end: "ended", signal: "SIGKILL", heap_mb: expect.any(Number), ms: expect.any(Number) };
    expect(seen).toMatchObject([{ run_id: poisonous, metadata: proof }]);
    expect(await this.client.run(poisonous)).toMatchObject({ paused_reason: "quarantine", quarantine: proof });
  }
}

/** Over a new connection: a node that is killed takes no other request with it. */
function post(url: string, body: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve) => {
    const headers = { ...credential(), "content-type": "application/json", connection: "close" };
    let text = "";
    const sent = request(url, { method: "POST", agent: false, timeout: 10_000, headers }, (response) => {
      response.setEncoding("utf8").on("data", (part) => {
        text += part;
      });
      response.on("close", () => resolve({ status: response.complete ? (response.statusCode ?? 0) : 0, text }));
    });
    sent.on("timeout", () => sent.destroy());
    sent.on("error", () => resolve({ status: 0, text }));
    sent.end(body);
  });
}

/** The test: the same laws at any strength. */
export function describeKillLoop(options: KillLoopOptions): void {
  describe("four nodes, of which one is killed every two seconds", () => {
    let database: TestDatabase;
    let loop: KillLoop;
    beforeAll(async () => {
      database = await createTestDatabase({ max: 2 });
      loop = await KillLoop.open(database, options);
    }, 180_000);
    afterAll(async () => {
      await loop.close();
      await database.drop();
    });

    it("bring every acknowledged run to its right end, and quarantine the poisonous one among them, and only it", async () => {
      await loop.expectRight(await loop.run());
    }, 600_000);
  });
}
