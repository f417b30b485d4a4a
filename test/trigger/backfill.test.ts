// Backfills on a real store and runtime, with a clock that the test moves: which ticks of a past range are fired, once each, in what order, and what is
// written of it. Real processes that are killed meanwhile are in killed-backfill.test.ts.
// @module-tag both
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type JsonObject, Schemas } from "../../machines/index.js";
import { ANYONE, EVERYTHING } from "../../src/access/index.js";
import { createMetrics } from "../../src/metrics/index.js";
import { SHARDS } from "../../src/shard/placement.js";
import { decideFires, listFires } from "../../src/store/engine/trigger-fires.js";
import { triggerById } from "../../src/store/lists/triggers.js";
import { Triggers } from "../../src/trigger/index.js";
import { delayOf } from "../../src/trigger/schedule.js";
import { tickFireId } from "../../src/trigger/triggered-starts.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { cases, firstSeed } from "../harness/long.js";
import { until } from "../harness/until.js";
import { randomOf } from "../machines/scheduler.js";
import { type Half, publish, startHalf } from "../run/rig.js";
import { type Matches, minutesIn, ticksIn } from "./minutes.js";

const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000];
const NOON = Date.UTC(2026, 10, 22, 12);
const at = (time: number) => new Date(time).toISOString();

let database: TestDatabase;
let half: Half;
let now: number;
beforeAll(async () => {
  database = await createTestDatabase({ max: 6 });
  half = await startHalf(database, { hints: false });
  await publish(database, "waits", [{ id: "w", type: "wait_for_signal", signal_name: "go" }]);
  await half.catalog.refresh();
});
afterAll(async () => {
  await half?.stop();
  await database?.drop();
});
beforeEach(async () => {
  now = NOON;
  await database.sql`delete from triggers`;
});

/** The triggers of a node. Nodes share the store and the clock. */
const node = () =>
  new Triggers({
    ...{ sql: database.sql, log: silentLog, metrics: createMetrics(), catalog: half.catalog, shards: () => SHARDS },
    ...{ schemas: new Schemas(), scheduler: new FairScheduler(), starter: half.starter },
    ...{ clock: { now: () => now }, licences: { licensed: () => true } },
  });

async function create(config: JsonObject = {}, more: JsonObject = {}): Promise<string> {
  const document = {
    trigger_type: "cron",
    workflow_id: "waits",
    ...more,
    config: { schedule: "0 * * * *", ...config },
  };
  return (await node().registrar.create(document, ANYONE)).id;
}

const backfill = (id: string, from: number, to: number, dryRun = false) =>
  node().registrar.backfill(ANYONE, id, { from, to }, dryRun);

async function firesOf(id: string): Promise<readonly JsonObject[]> {
  const { items } = await listFires(database.sql, EVERYTHING, id, { limit: 500, offset: 0 });
  return [...items].sort((a, b) => String(a.scheduled_at).localeCompare(String(b.scheduled_at)));
}

const runsOf = (id: string) =>
  database.sql<{ id: string; tick: string }[]>`
    select r.id, s.inputs->'trigger'->>'scheduled_at' as tick from runs r join run_starts s on s.run_id = r.id
    where r.trigger_id = ${id} order by 2`;

/** Rounds of two nodes until nothing is owed but fires that await their turn. On a busy machine a start may be put off. */
async function carryOut(): Promise<void> {
  const owed = () => database.sql`select 1 from trigger_fires where due_at is not null and not in_turn limit 1`;
  await until(
    async () => {
      await database.sql`update trigger_fires set due_at = now() where due_at is not null`;
      await Promise.all([node().poll(), node().poll()]);
      return (await owed()).length === 0;
    },
    { what: "the end of what is owed" },
  );
}

const endRuns = (id: string) =>
  database.sql`update runs set terminal_at = now(), state = 'succeeded' where trigger_id = ${id} and terminal_at is null`;

describe("a backfill", () => {
  it("fires the ticks of its range, both ends included, with the inputs of ticks, and moves the trigger no further", async () => {
    const id = await create({ inputs: { region: "eu" } });
    const before = await triggerById(database.sql, id);
    const { ticks, fires } = await backfill(id, NOON - 3 * HOUR, NOON - HOUR);
    expect([ticks, fires.map(({ scheduledAt }) => at(scheduledAt.getTime()))]).toEqual([
      3,
      [at(NOON - 3 * HOUR), at(NOON - 2 * HOUR), at(NOON - HOUR)],
    ]);
    await carryOut();
    const shown = await firesOf(id);
    expect(shown).toHaveLength(3);
    for (const fire of shown)
      expect(fire).toMatchObject({ backfilled: true, fired_at: at(NOON), resulting_run_id: expect.any(String) });
    const [first] = await database.sql<{ inputs: JsonObject }[]>`
      select inputs from run_starts where run_id = ${String(shown[0]?.resulting_run_id)}`;
    const tick = { id, scheduled_at: at(NOON - 3 * HOUR), fired_at: at(NOON) };
    expect(first?.inputs).toEqual({ region: "eu", trigger: tick });
    expect(await triggerById(database.sql, id)).toEqual(before);
  });

  it("fires no tick again that has a run or owes one, and those that were skipped, missed or failed", async () => {
    const id = await create({ overlap_policy: "skip" });
    const trigger = await triggerById(database.sql, id);
    if (!trigger) return expect.unreachable();
    for (const hour of [1, 2, 3]) {
      now = NOON + hour * HOUR;
      await node().poll();
    }
    now = NOON + 7 * HOUR + 600_000;
    await node().poll();
    const errors = (await firesOf(id)).map(({ error }) => String(error ?? "").split(":")[0]);
    expect(errors).toEqual(["", "skipped", "skipped", `ticks before ${at(NOON + 7 * HOUR).split(":")[0]}`, "skipped"]);
    const range = [NOON + HOUR, NOON + 7 * HOUR] as const;
    const missing = [2, 3, 4, 5, 6, 7].map((hour) => at(NOON + hour * HOUR));
    const listed = async (dryRun: boolean) =>
      (await backfill(id, ...range, dryRun)).fires.map(({ scheduledAt }) => at(scheduledAt.getTime()));
    expect(await listed(true)).toEqual(missing);
    expect(await listed(false)).toEqual(missing);
    expect(await listed(false), "owed").toEqual([]);
    expect(await listed(true), "owed").toEqual([]);
    for (let left = 8; left > 0; left--) {
      await endRuns(id);
      await carryOut();
    }
    expect(await listed(false), "fired").toEqual([]);
    const fires = await firesOf(id);
    expect(fires.map(({ error, backfilled }) => [error, backfilled])).toEqual([
      [undefined, undefined],
      ...missing.map(() => [undefined, true]),
    ]);
    expect((await runsOf(id)).map(({ tick }) => tick)).toEqual([at(NOON + HOUR), ...missing]);
  });

  it("of a tick that is due at the same moment is that tick's one fire", async () => {
    const ids = await Promise.all(Array.from({ length: 8 }, () => create()));
    now = NOON + HOUR;
    await Promise.all([node().poll(), ...ids.map((id) => backfill(id, now, now)), node().poll()]);
    await carryOut();
    for (const id of ids) {
      expect(await runsOf(id)).toMatchObject([{ tick: at(now) }]);
      expect(await firesOf(id)).toHaveLength(1);
    }
  });

  it("of several requests at once fires each tick once", async () => {
    const id = await create();
    const answers = await Promise.all([3, 5, 4, 5].map((hours) => backfill(id, NOON - hours * HOUR, NOON - 1)));
    expect(answers.reduce((sum, { fires }) => sum + fires.length, 0)).toBe(5);
    await carryOut();
    expect(await runsOf(id)).toHaveLength(5);
  });

  it("keeps to the start, the end and the zone, and leaves a tick whose jitter has not passed", async () => {
    const bounds = { start_at: at(NOON - 3 * HOUR), end_at: at(NOON - HOUR) };
    expect((await backfill(await create(bounds), NOON - DAY, NOON)).ticks).toBe(3);
    const zoned = await create({ schedule: "30 2 * * *", time_zone: "Europe/Vienna" });
    // Clocks go forward on the 29th.
    const { fires } = await backfill(zoned, Date.UTC(2026, 2, 28), Date.UTC(2026, 2, 30, 12));
    expect(fires.map(({ scheduledAt }) => scheduledAt.toISOString())).toEqual([
      "2026-03-28T01:30:00.000Z",
      "2026-03-29T01:00:00.000Z",
      "2026-03-30T00:30:00.000Z",
    ]);
    const late = await create({ jitter_ms: HOUR });
    const delay = delayOf(late, { jitter_ms: HOUR });
    now = NOON + delay - 1;
    expect((await backfill(late, NOON, now)).ticks).toBe(0);
    now = NOON + delay;
    expect((await backfill(late, NOON, now)).fires).toMatchObject([{ scheduledAt: new Date(NOON) }]);
  });

  it("of a trigger that skips starts one run after the other, whichever nodes look, and leaves none out", async () => {
    const id = await create({ overlap_policy: "skip" }, { enabled: false });
    await backfill(id, NOON - 3 * HOUR, NOON - HOUR);
    const seen: string[] = [];
    for (let nth = 1; nth <= 3; nth++) {
      for (let round = 0; round < 3; round++) await carryOut();
      const runs = await runsOf(id);
      expect(runs).toHaveLength(nth);
      seen.push(...runs.map(({ tick }) => tick).slice(-1));
      await endRuns(id);
    }
    expect(seen).toEqual([3, 2, 1].map((hours) => at(NOON - hours * HOUR)));
    expect((await firesOf(id)).map(({ error }) => error)).toEqual([undefined, undefined, undefined]);
  });

  it("waits for a run that was started by hand, and the ticks that come due meanwhile are skipped", async () => {
    const id = await create({ overlap_policy: "skip" });
    await node().registrar.fire(ANYONE, id, undefined);
    await backfill(id, NOON - HOUR, NOON - HOUR);
    await carryOut();
    expect(await runsOf(id)).toHaveLength(1);
    now = NOON + HOUR;
    await carryOut();
    expect((await firesOf(id)).at(-1)?.error).toMatch(/^skipped: the run/);
    await endRuns(id);
    await carryOut();
    expect(await runsOf(id)).toHaveLength(2);
  });

  it("of too many ticks is 422 with their number and the limit, and fires none", async () => {
    const id = await create({ schedule: "* * * * *" });
    const over = (ticks: number) => backfill(id, NOON - (ticks - 1) * MINUTE, NOON);
    await expect(over(1_001)).rejects.toMatchObject({
      status: 422,
      message: expect.stringContaining("the range has 1001 ticks, and one request fires at most 1000"),
      details: [{ path: "$.to", message: expect.stringContaining("1001") }],
    });
    await expect(over(1_000_000)).rejects.toMatchObject({ message: expect.stringContaining("more than 5000 ticks") });
    expect(await firesOf(id)).toEqual([]);
    expect((await backfill(id, NOON - 999 * MINUTE, NOON, true)).fires).toHaveLength(1_000);
    const large = await create({ inputs: { text: "x".repeat(200_000) } });
    await expect(backfill(large, NOON - 100 * HOUR, NOON)).rejects.toMatchObject({
      message: expect.stringMatching(
        /^the range has 101 ticks, and one request fires at most 83 with inputs of this size/,
      ),
    });
  });

  it("that ends before it begins, or in the future, is 400; an empty one fires nothing", async () => {
    const id = await create();
    await expect(backfill(id, NOON, NOON - 1)).rejects.toMatchObject({ status: 400, details: [{ path: "$.to" }] });
    await expect(backfill(id, NOON, NOON + 1)).rejects.toMatchObject({ status: 400, details: [{ path: "$.to" }] });
    expect(await backfill(id, NOON + 1 - HOUR, NOON - 1)).toEqual({ ticks: 0, fires: [] });
  });
});

/** A field's text, and whether it has a value. */
interface Field {
  readonly text: string;
  readonly has: (value: number) => boolean;
}

const ZONES = ["UTC", "Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Cairo"];
/** Where the clocks of some of these zones change. */
const CHANGES = [
  Date.UTC(2026, 2, 8),
  Date.UTC(2026, 2, 29),
  Date.UTC(2026, 3, 4),
  Date.UTC(2026, 9, 3),
  Date.UTC(2026, 9, 24),
];

describe("a backfill of any range", () => {
  const seed = firstSeed();
  const random = randomOf(seed);
  const below = (count: number) => Math.floor(random() * count);
  const ANY: Field = { text: "*", has: () => true };

  function some(from: number, to: number, most: number): Field {
    const values = new Set(Array.from({ length: 1 + below(most) }, () => from + below(to - from + 1)));
    return { text: [...values].join(","), has: (value) => values.has(value) };
  }

  function someSchedule() {
    const [minute, hour] = [some(0, 59, 2), random() < 0.2 ? ANY : some(0, 4, 3)];
    const [day, weekday] = [random() < 0.6 ? ANY : some(1, 31, 12), random() < 0.6 ? ANY : some(0, 6, 4)];
    const matches: Matches = (local) => {
      const date = new Date(local);
      const [isDay, isWeekday] = [day.has(date.getUTCDate()), weekday.has(date.getUTCDay())];
      const fits = day === ANY || weekday === ANY ? isDay && isWeekday : isDay || isWeekday;
      return fits && minute.has(date.getUTCMinutes()) && hour.has(date.getUTCHours());
    };
    return {
      schedule: `${minute.text} ${hour.text} ${day.text} * ${weekday.text}`,
      matches,
      isOfEveryHour: hour === ANY,
    };
  }

  /** What became of a tick before: nothing, a run, a run that is owed, or an error. */
  async function before(id: string, tick: number): Promise<boolean> {
    const trigger = await triggerById(database.sql, id);
    const kind = below(4);
    if (kind === 0 || !trigger) return false;
    const fire = { id: tickFireId(id, tick), scheduledAt: new Date(tick), firedAt: new Date(tick) };
    const inputs = { trigger: { id, scheduled_at: at(tick), fired_at: at(tick) } };
    await decideFires(database.sql, trigger, [kind === 3 ? { ...fire, error: "skipped" } : { ...fire, inputs }]);
    if (kind === 1) await carryOut();
    return kind !== 3;
  }

  it("fires what an independent walk through its minutes finds, exactly once, after any fires before", async () => {
    let [compared, earlier] = [0, 0];
    for (let nth = 0; nth < cases(6, 80); nth++) {
      const { schedule, matches, isOfEveryHour } = someSchedule();
      const zone = ZONES[below(ZONES.length)] ?? "UTC";
      const middle = (CHANGES[below(CHANGES.length)] ?? 0) + below(2 * DAY);
      const from = middle - below(2 * DAY);
      const to = middle + below(2 * DAY);
      const [start, end] = [from + below(DAY) - HOUR * 12, to + below(DAY) - HOUR * 12].map(
        (time) => time - (time % 1_000),
      );
      const place = `seed ${seed}: ${schedule} ${zone} ${at(from)} ${at(to)}`;
      const minutes = minutesIn(zone, from - (from % MINUTE) - 2 * DAY, to - (to % MINUTE) + MINUTE);
      const isBounded = random() < 0.3;
      const expected = ticksIn(minutes, matches, isOfEveryHour).filter(
        (tick) => tick >= from && tick <= to && (!isBounded || (tick >= (start ?? 0) && tick <= (end ?? 0))),
      );
      const bounds: JsonObject =
        isBounded && expected.length > 0 ? { start_at: at(start ?? 0), end_at: at(end ?? 0) } : {};
      if (isBounded && expected.length === 0) continue;
      const id = await create({ schedule, time_zone: zone, jitter_ms: below(HOUR), ...bounds }, { enabled: false });
      const fired = new Set<number>();
      for (const tick of expected) if (await before(id, tick)) fired.add(tick);
      const answers = [await backfill(id, from, to), await backfill(id, from, to)];
      const left = expected.filter((tick) => !fired.has(tick));
      expect(
        answers.map(({ ticks }) => ticks),
        place,
      ).toEqual([expected.length, expected.length]);
      expect(
        answers.map(({ fires }) => fires.map(({ scheduledAt }) => at(scheduledAt.getTime()))),
        place,
      ).toEqual([left.map(at), []]);
      await carryOut();
      expect(
        (await runsOf(id)).map(({ tick }) => tick),
        place,
      ).toEqual(expected.map(at));
      const fires = await firesOf(id);
      expect(
        fires.map(({ scheduled_at: tick }) => tick),
        place,
      ).toEqual(expected.map(at));
      expect(
        fires.filter(({ resulting_run_id: run }) => run === undefined),
        place,
      ).toEqual([]);
      compared += expected.length;
      earlier += fired.size;
    }
    console.log(`${compared} ticks, of which ${earlier} had fired before`);
    expect(compared).toBeGreaterThan(0);
  }, 300_000);
});
