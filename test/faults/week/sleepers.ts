// Runs that rest for hours and days, so that nights pass over them: some end well, some fail afterwards and undo what they did days ago, when retention
// has dropped their first audit rows. A run that retention has reached is gone from the store; what became of it was seen the day it ended.
import type { Sql } from "postgres";
import { expect } from "vitest";
import { until } from "../../harness/until.js";
import { type Client, PAUSE_MS } from "../client.js";
import type { Shop } from "../shop.js";
import { HOUR_MS } from "./clocks.js";

const WORKFLOW = "sleeper";
const retry = { max_attempts: 20, initial_backoff_ms: 50, max_backoff_ms: 500 };
const compensation = { action: "shop.refund" };

const STEPS = [
  { id: "pay", type: "action", action: "shop.charge", compensation, retry, next: "try" },
  { id: "try", type: "action", action: "shop.flaky", compensation, retry, next: "rest" },
  { id: "rest", type: "wait_duration", duration: "${inputs.rest}", next: "which" },
  { id: "which", type: "switch", cases: [{ when: "inputs.fate == 'failed'", next: "no" }], default: "ship" },
  { id: "no", type: "error", code: "too_late" },
  { id: "ship", type: "action", action: "shop.charge", retry },
];

/** Not whole days, so that every rest ends within a night. The longest one is longer than the first week's audit rows are kept. */
const RESTS_HOURS = [12, 36, 60, 108];
const FATES = ["succeeded", "failed"] as const;

interface Sleeper {
  readonly runId: string;
  readonly restsMs: number;
  readonly fate: (typeof FATES)[number];
  /** Database time, after its start was acknowledged. */
  readonly startedBy: number;
}

interface Row {
  readonly id: string;
  readonly state: string;
  readonly started_at: Date;
  readonly terminal_at: Date | null;
}

export class Sleepers {
  private asleep: Sleeper[] = [];
  private awake = 0;

  constructor(
    private readonly client: Client,
    private readonly shops: readonly Shop[],
    private readonly sql: Sql,
  ) {}

  async publish(): Promise<void> {
    await this.client.publish(WORKFLOW, STEPS);
  }

  /** One of each rest and fate, `times` times. They rest when this is complete. */
  async begin(times: number, databaseNow: () => Promise<number>): Promise<void> {
    const runIds: string[] = [];
    for (let nth = 0; nth < times; nth++)
      for (const hours of RESTS_HOURS)
        for (const fate of FATES) {
          const restsMs = hours * HOUR_MS;
          const key = { idempotency_key: `${WORKFLOW}-${crypto.randomUUID()}` };
          const runId = await this.client.start(WORKFLOW, { ...key, inputs: { rest: `PT${hours}H`, fate } });
          this.asleep.push({ runId, restsMs, fate, startedBy: await databaseNow() });
          runIds.push(runId);
        }
    const resting = async () => {
      const rows = await this.sql`
        select 1 from runs where id = any(${runIds}::text[]::uuid[]) and state = 'paused' and current_step = 'rest'`;
      return rows.length === runIds.length;
    };
    await until(resting, { within: 120_000, pause: PAUSE_MS, what: "sleepers at rest" });
  }

  /** Those whose time has come have ended as they should, not before their time, and all others rest. Resolves with how many have ended so far. */
  async expectRight(databaseNow: number): Promise<{ readonly asleep: number; readonly awake: number }> {
    const isDue = ({ startedBy, restsMs }: Sleeper) => startedBy + restsMs <= databaseNow;
    const due = this.asleep.filter(isDue);
    const ended = async () => (await this.rowsOf(due)).every(({ terminal_at }) => terminal_at !== null);
    await until(ended, { within: 120_000, pause: PAUSE_MS, what: "the end of sleepers" });
    const rows = new Map((await this.rowsOf(due)).map((row) => [row.id, row]));
    for (const sleeper of due) this.expectEnd(sleeper, rows.get(sleeper.runId));
    this.awake += due.length;
    this.asleep = this.asleep.filter((sleeper) => !isDue(sleeper));
    const early = (await this.rowsOf(this.asleep)).filter(({ state }) => state !== "paused");
    expect(early, "sleepers that woke before their time").toEqual([]);
    return { asleep: this.asleep.length, awake: this.awake };
  }

  /** The runs that still rest. Nothing else may be left open at the end of a day. */
  get resting(): ReadonlySet<string> {
    return new Set(this.asleep.map(({ runId }) => runId));
  }

  private async rowsOf(sleepers: readonly Sleeper[]): Promise<readonly Row[]> {
    const ids = sleepers.map(({ runId }) => runId);
    const rows = await this.sql<Row[]>`
      select id, state, started_at, terminal_at from runs where id = any(${ids}::text[]::uuid[])`;
    expect(rows.length, "sleepers that are gone").toBe(ids.length);
    return rows;
  }

  private expectEnd({ runId, restsMs, fate }: Sleeper, row: Row | undefined): void {
    expect({ runId, state: row?.state }).toEqual({ runId, state: fate });
    const rested = (row?.terminal_at?.getTime() ?? 0) - (row?.started_at.getTime() ?? 0);
    expect(rested, `the rest of ${runId}`).toBeGreaterThanOrEqual(restsMs);
    const entries = this.shops.flatMap((shop) => shop.of(runId));
    const done = new Map(entries.flatMap(({ key, stepId, forwardKey }) => (forwardKey ? [] : [[key, stepId]])));
    expect([runId, [...done.values()].sort()]).toEqual([
      runId,
      fate === "succeeded" ? ["pay", "ship", "try"] : ["pay", "try"],
    ]);
    const undone = new Set(entries.flatMap(({ forwardKey }) => forwardKey ?? []));
    const owed = fate === "succeeded" ? [] : done.keys();
    expect([runId, undone]).toEqual([runId, new Set(owed)]);
  }
}
