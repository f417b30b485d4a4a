// Trips: runs that pass through every kind of step that waits, while a test does something to the services. Some rest in a wait over a
// whole stage of the test. Each must end as its fate says, in its run, its family's histories and the workers' ledgers.
import { randomUUID } from "node:crypto";
import type { Sql } from "postgres";
import { expect } from "vitest";
import { until } from "../harness/until.js";
import type { Step } from "../run/rig.js";
import { type Client, PAUSE_MS } from "./client.js";
import type { Shop } from "./shop.js";

const compensation = { action: "shop.refund" };
const retry = { max_attempts: 20, initial_backoff_ms: 50, max_backoff_ms: 500 };
const charge = { type: "action", action: "shop.charge", retry };

const LEG: Step[] = [
  { id: "ticket", ...charge, compensation, next: "ride" },
  { id: "ride", type: "wait_duration", duration_ms: 50 },
];

const TRIP: Step[] = [
  { id: "pack", type: "set_var", variables: { cargo: "${inputs.cargo}" }, next: "fork" },
  { id: "fork", type: "parallel", branches: { seat: { next: "seat" }, bags: { next: "bags" } }, next: "join" },
  { id: "seat", ...charge, compensation, save_as: "seat" },
  { id: "bags", type: "foreach", items: "[1, 2, 3]", body: "bag", max_concurrency: 2 },
  { id: "bag", type: "action", action: "shop.slow", inputs: { ms: "${inputs.slow}" }, compensation, retry },
  { id: "join", type: "join", next: "leg" },
  { id: "leg", type: "sub_saga", workflow_id: "leg", next: "rounds" },
  { id: "rounds", type: "while", condition: "iteration < 2", body: "round", next: "tell" },
  { id: "round", type: "wait_duration", duration_ms: 10 },
  { id: "tell", type: "emit_event", topic: "trip.told", payload: "${inputs.trip}", next: "called" },
  {
    id: "called",
    type: "wait_for_event",
    topic: "trip.called",
    headers: { trip: "${inputs.trip}" },
    lookback: "none",
    next: "heard",
  },
  {
    id: "heard",
    type: "wait_for_event",
    topic: "trip.called",
    headers: { trip: "${inputs.trip}" },
    match: "event.payload.n == 2",
    next: "ask",
  },
  {
    id: "ask",
    type: "manual_approval",
    assignee: "ann",
    branches: { approved: { next: "attempt" }, rejected: { next: "no" } },
  },
  { id: "attempt", type: "try_catch", try: "deposit", catch: "caught", rollback: true, next: "done" },
  { id: "deposit", ...charge, compensation, next: "bump" },
  { id: "bump", type: "error", code: "bump" },
  { id: "caught", type: "noop" },
  { id: "done", type: "end", output: "${size(vars.cargo)}" },
  { id: "no", type: "error", code: "rejected" },
];

/** A worker takes this long now and then: its node may be replaced meanwhile. */
const ACROSS_A_STAGE_MS = 5_000;

const FATES = ["succeeded", "failed", "cancelled"] as const;
type Fate = (typeof FATES)[number];

export class Trips {
  readonly runs = new Map<number, string>();
  private readonly id = randomUUID();
  private next = 0;
  private stopped = false;
  private stage = 0;
  private drivers: Promise<void>[] = [];

  /** `patience`: how long a trip may take from one wait to the next; a stage may last twice as long. */
  constructor(
    private readonly client: Client,
    private readonly shops: readonly Shop[],
    private readonly patience = 60_000,
  ) {}

  async begin(atOnce: number): Promise<void> {
    await this.client.publish("leg", LEG);
    await this.client.publish("trip", TRIP);
    this.drivers = Array.from({ length: atOnce }, async () => {
      while (!this.stopped) await this.drive(this.next++);
    });
    for (const driver of this.drivers) driver.catch(() => {});
  }

  /** Trips that rest over a stage go on. */
  nextStage(): void {
    this.stage++;
  }

  private async drive(nth: number): Promise<void> {
    const { client } = this;
    const trip = `${this.id}-${nth}`;
    const fate = FATES[nth % FATES.length];
    const inputs = { trip, cargo: "c".repeat(2_000), slow: nth % 4 === 3 ? ACROSS_A_STAGE_MS : 20 };
    const runId = await client.start("trip", { idempotency_key: trip, inputs });
    this.runs.set(nth, runId);
    await this.standsAt(runId, "called");
    if (nth % 4 === 0) await this.stageAfter(this.stage);
    if (fate === "cancelled") return this.accepted(`/sagas/${runId}/cancel`, { reason: "enough" });
    await this.publish(trip, 1);
    await this.standsAt(runId, "heard");
    if (nth % 4 === 1) await this.stageAfter(this.stage);
    await this.publish(trip, 2);
    const task = await this.standsAt(runId, "ask").then(() => this.taskOf(runId));
    if (nth % 4 === 2) await this.stageAfter(this.stage);
    await this.accepted(`/sagas/${runId}/user_task/${task}/submit`, { result: { approved: fate === "succeeded" } });
  }

  private async stageAfter(stage: number): Promise<void> {
    await until(() => this.stopped || this.stage > stage, {
      within: 2 * this.patience,
      pause: PAUSE_MS,
      what: "the next stage",
    });
  }

  private async standsAt(runId: string, step: string): Promise<void> {
    const stands = async () => {
      const run = await this.client.run(runId);
      if (run.terminal_at) throw new Error(`run ${runId} has ended: ${JSON.stringify(run)}`);
      return run.state === "paused" && run.current_step === step;
    };
    await until(stands, { within: this.patience, pause: PAUSE_MS, what: `run ${runId} at ${step}` });
  }

  private async taskOf(runId: string): Promise<string> {
    const { body } = await this.client.insist("GET", `/user_tasks?run_id=${runId}&status=open`);
    return body.items[0].id;
  }

  private async publish(trip: string, n: number): Promise<void> {
    const event = { topic: "trip.called", headers: { trip }, payload: { n }, idempotency_key: `${trip}-${n}` };
    await this.accepted("/events", event);
  }

  private async accepted(path: string, body: object): Promise<void> {
    const answer = await this.client.insist("POST", path, body);
    // 409: the answer of an earlier try was lost, and the task is submitted.
    if (answer.status !== 202 && answer.status !== 409) throw new Error(`${path}: ${JSON.stringify(answer)}`);
  }

  /** Takes no further trips. Complete on return, also if trips have failed. */
  async end(): Promise<void> {
    this.stopped = true;
    await Promise.allSettled(this.drivers);
  }

  /** Takes no further trips, waits for the end of all, and checks each against its fate. Resolves with their number. */
  async finish(sql: Sql, within?: number): Promise<number> {
    this.stopped = true;
    await Promise.all(this.drivers);
    const seen = await this.client.allEnd([...this.runs.values()], within);
    const fates = [...this.runs.keys()].map((nth) => FATES[nth % FATES.length] as Fate);
    for (const [index, { run }] of seen.entries()) {
      const fate = fates[index] as Fate;
      expect({ id: run.id, state: run.state }).toEqual({ id: run.id, state: fate });
      if (fate === "succeeded") expect(run.output).toBe(2_000);
      await this.booksBalance(sql, run.id, fate);
    }
    return seen.length;
  }

  /** Each effect has one key, however often it was executed; what was owed is undone once, and nothing else is. */
  private async booksBalance(sql: Sql, runId: string, fate: Fate): Promise<void> {
    const family = await sql<{ id: string }[]>`
      with recursive family as (
        select id from runs where id = ${runId} union all
        select r.id from runs r join family f on r.parent_run_id = f.id
      ) select id from family`;
    const executed = family.flatMap(({ id }) => this.shops.flatMap((shop) => shop.of(id)));
    const keys = new Map<string, string>();
    for (const { stepId, key, forwardKey } of executed) if (forwardKey === undefined) keys.set(key, stepId);
    const common = ["bag", "bag", "bag", "seat", "ticket"];
    const steps = [...keys.values()].sort();
    expect([runId, steps]).toEqual([runId, fate === "succeeded" ? [...common, "deposit"].sort() : common]);
    const undone = new Set(executed.flatMap(({ forwardKey }) => forwardKey ?? []));
    const owed = [...keys].filter(([, step]) => fate !== "succeeded" || step === "deposit").map(([key]) => key);
    expect([runId, [...undone].sort()]).toEqual([runId, owed.sort()]);
  }
}
