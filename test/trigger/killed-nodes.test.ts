// Schedules on four nodes that are killed at random: at any statement, before or after the server has carried it out, and around the start of
// a run. The store and the kills are real, the clock is moved by the test. No tick fires twice, and none that is due is missed.
// @module-tag both
import { afterAll, beforeAll, expect, it } from "vitest";
import { Schemas } from "../../machines/index.js";
import { ANYONE } from "../../src/access/index.js";
import { overloaded } from "../../src/errors.js";
import { createMetrics } from "../../src/metrics/index.js";
import type { RunStarter } from "../../src/run/ports.js";
import { SHARDS } from "../../src/shard/placement.js";
import { type Database, openDatabase } from "../../src/store/engine/connection.js";
import { Triggers } from "../../src/trigger/index.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { firstSeed, long } from "../harness/long.js";
import { until } from "../harness/until.js";
import { randomOf } from "../machines/scheduler.js";
import { CuttingProxy } from "../run/cutting-proxy.js";
import { type Half, publish, startHalf } from "../run/rig.js";
import { report } from "../run/seen.js";

const NODES = 4;
const VISITS = long(3, 6);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const NOON = Date.UTC(2026, 10, 22, 12);
/** A tick is on time if a node comes to it within this. */
const ON_TIME_MS = 30_000;

interface Plan {
  readonly schedule: string;
  readonly every: number;
  readonly window: number;
}

/** Without a window a tick that no node came to in time is missed; with one it fires late. */
const PLANS: readonly Plan[] = [
  { schedule: "0 * * * *", every: HOUR, window: 0 },
  { schedule: "*/20 * * * *", every: 20 * MINUTE, window: 0 },
  { schedule: "0 * * * *", every: HOUR, window: 50 * MINUTE },
  { schedule: "*/15 * * * *", every: 15 * MINUTE, window: 50 * MINUTE },
];

const seed = firstSeed();
const random = randomOf(seed);
const below = (count: number) => Math.floor(random() * count);

let database: TestDatabase;
let half: Half;
let now = NOON;
let kills = 0;
beforeAll(async () => {
  database = await createTestDatabase({ max: 3 });
  half = await startHalf(database, { hints: false });
  await publish(database, "nightly", [{ id: "a", type: "noop" }]);
  await half.catalog.refresh();
});
afterAll(async () => {
  await half.stop();
  await database.drop();
});

const options = () => ({
  ...{ log: silentLog, metrics: createMetrics(), catalog: half.catalog, shards: () => SHARDS },
  clock: { now: () => now },
  licences: { licensed: () => true },
  ...{ schemas: new Schemas(), scheduler: new FairScheduler() },
});

/** What a node can be killed at: one of its statements, or the start of a run. */
const MOMENTS = ['"triggers"', "with moved as", "set due_at", "with settled as", "start"] as const;

class MortalNode {
  private dead = false;

  private constructor(
    private readonly proxy: CuttingProxy,
    private readonly own: Database,
  ) {}

  static async open(url: string): Promise<MortalNode> {
    const proxy = await CuttingProxy.before(url);
    const own = openDatabase(proxy.url, { max: 1, applicationName: "mortal", log: silentLog });
    // The driver cannot bear the end of a session in its very first statement: the process would end.
    await own.sql`select 1`;
    return new MortalNode(proxy, own);
  }

  async live(): Promise<void> {
    const moment = MOMENTS[below(MOMENTS.length + 2)];
    const when = random() < 0.5 ? "before" : "after";
    if (moment !== undefined && moment !== "start") void this.proxy.cutAt(moment, when).then(() => this.kill());
    const start: RunStarter["start"] = async (request) => {
      if (moment === "start" && when === "before") this.kill();
      if (this.dead) throw overloaded("the node is dead");
      const started = await half.starter.start(request);
      if (moment === "start") this.kill();
      return started;
    };
    const triggers = new Triggers({ ...options(), sql: this.own.sql, starter: { start } });
    await triggers.poll().catch((error: unknown) => {
      if (!this.dead) throw error;
    });
    await this.end();
  }

  private kill(): void {
    if (!this.dead) kills++;
    this.dead = true;
    void this.proxy.close();
  }

  private async end(): Promise<void> {
    await this.own.close();
    await this.proxy.close();
  }
}

async function sessionsOfNodes(): Promise<number> {
  const rows = await database.sql`
    select 1 from pg_stat_activity where application_name = 'mortal' and datname = current_database()`;
  return rows.length;
}

/** Nodes come and are killed; in the end one lives, and takes over what the others have left. */
async function visit(): Promise<void> {
  const nodes = await Promise.all(Array.from({ length: NODES }, () => MortalNode.open(database.url)));
  await Promise.all(nodes.map((node) => node.live()));
  // On a busy machine the server is still at a statement of a node that was killed, and has its rows locked.
  await until(async () => (await sessionsOfNodes()) === 0, { what: "the end of their sessions" });
  await database.sql`update trigger_fires set due_at = now() - interval '1 s' where due_at is not null`;
  await new Triggers({ ...options(), sql: database.sql, starter: half.starter }).poll();
}

it("no tick fires twice on nodes that are killed, and none that is due is missed", async () => {
  const { registrar } = new Triggers({ ...options(), sql: database.sql, starter: half.starter });
  const ids = await Promise.all(
    PLANS.map(async ({ schedule, window }) => {
      const catchup = window > 0 ? { catchup: "latest", catchup_window_ms: window } : { catchup: "none" };
      const document = { trigger_type: "cron", workflow_id: "nightly", config: { schedule, ...catchup } };
      return (await registrar.create(document, ANYONE)).id;
    }),
  );
  const due: string[] = [];
  const decided = PLANS.map(() => NOON);
  // Which node comes to a tick first is a race, and only that one can be killed in its statements.
  for (let nth = 0; nth < VISITS || (kills <= VISITS && nth < 20 * VISITS); nth++) {
    // On time for the full hour, or up to three hours later, when nobody was there.
    now += random() < 0.6 ? HOUR - (now % HOUR) + below(20_000) : below(3 * HOUR);
    for (const [index, { every, window }] of PLANS.entries()) {
      const tick = now - (now % every);
      if (tick <= (decided[index] ?? 0)) continue;
      decided[index] = tick;
      if (now - tick <= Math.max(window, ON_TIME_MS)) due.push(`${ids[index]} ${new Date(tick).toISOString()}`);
    }
    await visit();
  }
  const fires = await database.sql<{ fire: string; run: string | null }[]>`
    select f.trigger_id || ' ' || to_char(f.scheduled_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as fire, r.id as run
    from trigger_fires f left join runs r on r.id = f.resulting_run_id`;
  const started = fires.filter(({ run }) => run !== null).map(({ fire }) => fire);
  const [row] = await database.sql<{ count: number }[]>`select count(*)::int as count from runs`;
  report({ seed, visits: VISITS, kills, ticks_due: due.length, runs: row?.count });
  expect(started.sort(), `seed ${seed}`).toEqual(due.sort());
  expect(row?.count).toBe(due.length);
  expect(kills).toBeGreaterThan(VISITS);
}, 400_000);
