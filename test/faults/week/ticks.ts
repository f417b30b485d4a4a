// Schedules over a compressed week: one of every minute, whose ticks come while nodes die, and one of every hour, of which a night leaves many behind
// and the latest is caught up on. A tick has one fire, and a fire one run.
import type { Sql } from "postgres";
import { expect } from "vitest";
import { until } from "../../harness/until.js";
import type { Client } from "../client.js";

const WORKFLOW = "tick";
const TRIGGERS = { minutely: "* * * * *", hourly: "0 * * * *" };
const retry = { max_attempts: 20, initial_backoff_ms: 50, max_backoff_ms: 500 };

interface Fire {
  readonly id: string;
  readonly trigger: string;
  readonly tick: Date;
  readonly error: string | null;
  readonly run: string | null;
  readonly state: string | null;
  readonly owed: boolean;
  readonly runs: number;
}

export class Ticks {
  private readonly seen = new Set<string>();

  constructor(
    private readonly client: Client,
    private readonly sql: Sql,
  ) {}

  async begin(): Promise<void> {
    await this.client.publish(WORKFLOW, [{ id: "pay", type: "action", action: "shop.charge", retry }]);
    for (const schedule of Object.values(TRIGGERS)) {
      const document = { trigger_type: "cron", workflow_id: WORKFLOW, config: { schedule, catchup: "latest" } };
      const { status, body } = await this.client.ask("POST", "/triggers", document);
      if (status !== 201) throw new Error(JSON.stringify(body));
    }
  }

  /** All fires that are there: each started one run, which has succeeded, or says which ticks were missed. Resolves with how many are new. */
  async expectRight(): Promise<{ readonly fires: number; readonly missed: number }> {
    const settled = async () => {
      const fires = await this.fires();
      return fires.every(({ owed, run, state }) => !owed && (run === null || isEnded(state))) && fires;
    };
    const fires = await until(settled, { within: 120_000, pause: 200, what: "the end of what ticks started" });
    const ticks = fires.map(({ trigger, tick }) => `${trigger} ${tick.toISOString()}`);
    expect(new Set(ticks).size, "ticks that were fired twice").toBe(ticks.length);
    for (const { id, error, run, state, runs } of fires) {
      const right = run === null ? { error: expect.any(String), state: null, runs: 0 } : RIGHT;
      expect({ id, error, state, runs }).toEqual({ id, ...right });
    }
    const fresh = fires.filter(({ id }) => !this.seen.has(id));
    for (const { id } of fresh) this.seen.add(id);
    return { fires: fresh.length, missed: fresh.filter(({ run }) => run === null).length };
  }

  /** With the runs that say in their inputs that they are for this tick, whichever fire started them. */
  private fires(): Promise<readonly Fire[]> {
    return this.sql<Fire[]>`
      select f.id, f.trigger_id as trigger, f.scheduled_at as tick, f.error, f.resulting_run_id::text as run, f.due_at is not null as owed,
        (select r.state from runs r where r.id = f.resulting_run_id) as state,
        (select count(*)::int from runs r join run_starts s on s.run_id = r.id
          where r.trigger_id = f.trigger_id and (s.inputs->'trigger'->>'scheduled_at')::timestamptz = f.scheduled_at) as runs
      from trigger_fires f order by f.scheduled_at`;
  }
}

const RIGHT = { error: null, state: "succeeded", runs: 1 };
const isEnded = (state: string | null) => state === "succeeded" || state === "failed" || state === "cancelled";
