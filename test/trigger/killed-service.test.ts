// Schedules on a service of three node processes that are killed (SIGKILL) at random: just before a minute, while its ticks are decided and
// carried out, and, once, all of them with their primary over a minute. The time is real, so many triggers tick together, twice.
// The short form, with a clock that the test moves, is killed-nodes.test.ts.
// @module-tag long
// @waits
// @access both
import { afterAll, beforeAll, expect, it } from "vitest";
import { livingNodes } from "../cluster/rig.js";
import { Client } from "../faults/client.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { firstSeed } from "../harness/long.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { randomOf } from "../machines/scheduler.js";
import { nothingUnwatched, report } from "../run/seen.js";

const NODES = 3;
/** The number of triggers of each kind. */
const TRIGGERS = 60;
const MINUTE = 60_000;
/** Ticks: one under kills, and the one that no node is there for. */
const MINUTES = 2;
/** A minute's kills end after this, so that its ticks are carried out before the next. */
const KILLING_MS = 30_000;
/** `catchup: none`: a tick that is decided later than this is missed. */
const ON_TIME_MS = 30_000;
/** Settled ticks between two kills. */
const MOST_BETWEEN_KILLS = TRIGGERS;

const seed = firstSeed();
const random = randomOf(seed);
const below = (count: number) => Math.floor(random() * count);

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;
let kills = 0;
beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: String(NODES) });
  await service.start({ within: 60_000 });
  await until(() => livingNodes(service).length === NODES, { what: "all nodes" });
  client = new Client(service.url);
  await client.publish("minutely", [{ id: "a", type: "noop" }]);
}, 120_000);
afterAll(async () => {
  await service.stop();
  await database.drop();
});

type Catchup = "latest" | "none";

async function createTriggers(catchup: Catchup): Promise<void> {
  const config = { schedule: "* * * * *", catchup };
  const document = { trigger_type: "cron", workflow_id: "minutely", config };
  for (let left = TRIGGERS; left > 0; left -= 10) {
    const created = await Promise.all(
      Array.from({ length: Math.min(10, left) }, () => client.ask("POST", "/triggers", document)),
    );
    expect(created.filter(({ status }) => status !== 201)).toEqual([]);
  }
}

async function databaseNow(): Promise<number> {
  const [row] = await database.sql<{ now: number }[]>`
    select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`;
  return row?.now ?? 0;
}

/** Resolves when the database's time has come. */
async function untilTime(time: number): Promise<void> {
  await until(async () => (await databaseNow()) >= time, {
    within: 2 * MINUTE,
    pause: 200,
    what: new Date(time).toISOString(),
  });
}

/** Triggers whose fire of this tick owes nothing any more. */
async function settled(tick: number): Promise<number> {
  const [row] = await database.sql<{ count: number }[]>`
    select count(*)::int as count from trigger_fires where scheduled_at = ${new Date(tick)} and due_at is null`;
  return row?.count ?? 0;
}

async function killOne(): Promise<void> {
  const living = await until(() => livingNodes(service).length > 0 && livingNodes(service), { what: "a node to kill" });
  const victim = living[below(living.length)];
  if (!victim) return;
  process.kill(victim.pid, "SIGKILL");
  kills++;
}

/** Kills a node whenever some more ticks have been carried out, and ends when all have. */
async function killThrough(tick: number): Promise<void> {
  const all = 2 * TRIGGERS;
  const began = performance.now();
  for (let due = 0; due < all; due = Math.min(all, (await settled(tick)) + 1 + below(MOST_BETWEEN_KILLS))) {
    await untilSettled(tick, due);
    if (performance.now() < began + KILLING_MS) await killOne();
  }
  await untilSettled(tick, all);
}

async function untilSettled(tick: number, count: number): Promise<void> {
  await until(async () => (await settled(tick)) >= count, { within: MINUTE, what: `${count} ticks carried out` });
}

interface FireSeen {
  readonly trigger: string;
  readonly catchup: Catchup;
  readonly created: Date;
  readonly tick: Date;
  readonly fired: Date;
  readonly error: string | null;
  /** Runs that say in their inputs that they are for this tick of this trigger. */
  readonly runs: readonly string[];
  readonly run: string | null;
  readonly started: Date | null;
}

/** Every fire up to the last tick, with every run that was started for it, by whichever fire. */
function firesSeen(last: number): Promise<FireSeen[]> {
  return database.sql<FireSeen[]>`
    with started as (
      select r.trigger_id, (s.inputs->'trigger'->>'scheduled_at')::timestamptz as tick, array_agg(r.id::text) as runs,
        min(r.started_at) as started
      from runs r join run_starts s on s.run_id = r.id group by 1, 2
    )
    select t.id as trigger, t.config->>'catchup' as catchup, t.created_at as created, f.scheduled_at as tick,
      f.fired_at as fired, f.error, coalesce(s.runs, '{}') as runs, f.resulting_run_id::text as run, s.started
    from triggers t left join trigger_fires f on f.trigger_id = t.id
    full join started s on s.trigger_id = f.trigger_id and s.tick = f.scheduled_at
    where f.scheduled_at <= ${new Date(last)} or f.id is null
    order by 1, 4`;
}

/** What the contract says of a tick that was decided at a time, and the next tick that is decided. */
function outcomeOf({ catchup, tick, fired, run }: FireSeen) {
  const [due, at] = [tick.getTime(), fired.getTime()];
  const latest = at - (at % MINUTE);
  if (latest > due)
    return { error: `ticks before ${new Date(latest).toISOString()} were missed`, runs: [], next: latest };
  if (catchup === "latest" || at - due <= ON_TIME_MS) return { error: null, runs: [run], next: due + MINUTE };
  return { error: expect.stringMatching(/^missed: \d+ s late$/), runs: [], next: due + MINUTE };
}

it("every minute of every trigger is fired once, whichever nodes are killed, and over an outage of all", async () => {
  await createTriggers("latest");
  await createTriggers("none");
  const first = Math.ceil(((await databaseNow()) + 2_000) / MINUTE) * MINUTE;
  const last = first + (MINUTES - 1) * MINUTE;
  for (let tick = first; tick < last; tick += MINUTE) {
    await untilTime(tick - below(1_500));
    await killOne();
    await killThrough(tick);
  }
  await untilTime(last - below(2_000));
  await service.kill();
  kills += NODES;
  // No node is there in time for those that catch-up does not cover.
  await untilTime(last + ON_TIME_MS + below(2_000));
  await service.start({ within: 60_000 });
  await killThrough(last);
  const open = () => database.sql`select id from runs where terminal_at is null limit 1`;
  await until(async () => (await open()).length === 0, { what: "the end of all runs" });
  await nothingUnwatched(database.sql);
  await service.stop();
  await expectOnce(last);
}, 400_000);

async function expectOnce(last: number): Promise<void> {
  const fires = await firesSeen(last);
  const late = fires.flatMap(({ tick, started }) => (started ? [(started.getTime() - tick.getTime()) / 1_000] : []));
  const seconds = late.sort((a, b) => a - b);
  const missed = fires.filter(({ run }) => run === null).length;
  report({
    seed,
    ticks: fires.length,
    runs: seconds.length,
    missed,
    kills,
    lateMedian: seconds[seconds.length >> 1],
    lateMost: seconds.at(-1),
  });
  const triggers = new Set(fires.map(({ trigger }) => trigger));
  expect(triggers.size).toBe(2 * TRIGGERS);
  for (const trigger of triggers)
    expectEachOnce(
      fires.filter((fire) => fire.trigger === trigger),
      last,
    );
  expect(missed, "what no node was there for in time").toBeGreaterThanOrEqual(TRIGGERS);
  expect(kills).toBeGreaterThan(MINUTES * NODES);
}

/** Every tick from the minute after the creation of the trigger to the last was decided, and has the runs that it must have. */
function expectEachOnce(fires: readonly FireSeen[], last: number): void {
  const created = fires[0]?.created.getTime() ?? 0;
  let due = created - (created % MINUTE) + MINUTE;
  for (const fire of fires) {
    const { trigger, tick, error, runs } = fire;
    const { next, ...outcome } = outcomeOf(fire);
    const expected = { trigger, tick: new Date(due), ...outcome };
    expect({ trigger, tick, error, runs }, `seed ${seed}`).toEqual(expected);
    due = next;
  }
  expect(due, `seed ${seed}`).toBeGreaterThan(last);
}
