// Retention by workflow and by the state in which a run ended, against a model of its rules: what is gone is gone with all its rows, what is kept is kept
// with all of them, and a week of audit rows falls when nothing in it is kept any more.
// @module-tag both
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openDatabase } from "../../src/store/engine/connection.js";
import type { RunRetention } from "../../src/store/upkeep/policies.js";
import { Pruner } from "../../src/store/upkeep/pruner.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import {
  type FamilyOf,
  insertFamily,
  type Made,
  makePastWeeks,
  OF_RUN,
  publishRetention,
  rowsByRun,
  weeksOf,
} from "./retained.js";

const DAY_MS = 86_400_000;
const WEEK_MS = 7 * DAY_MS;
const OLDEST_DAYS = 460;
const STATES = ["succeeded", "failed", "cancelled"] as const;

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase({ fresh: true });
}, 120_000);
afterAll(() => database.drop());
beforeEach(async () => {
  for (const [table] of OF_RUN) await database.sql`delete from ${database.sql(table)}`;
  await database.sql`delete from definitions`;
  await makePastWeeks(database.sql, OLDEST_DAYS + 40);
}, 60_000);

async function prune(settings: RunRetention): Promise<void> {
  const { sql, close } = openDatabase(database.url, { max: 3, applicationName: "pruner", log: silentLog });
  try {
    expect(await new Pruner(sql, silentLog, { eventDays: 30, ...settings }).prune()).toBe(true);
  } finally {
    await close();
  }
}

/** Audit rows alone are no run: those of the longest retention fall with their week. */
const left = async () =>
  [...(await rowsByRun(database.sql))]
    .filter(([, rows]) => !/^run_events \d+$/.test(rows))
    .map(([id]) => id)
    .sort();
const all = (...families: readonly Made[]) => families.flatMap(({ runs }) => runs).sort();
const ran = (workflow: string, state: FamilyOf["state"], ended: number, more: Partial<FamilyOf> = {}) =>
  insertFamily(database.sql, { workflow, state, ended, ...more });

/** A generator of numbers that a seed repeats. */
function numbers(seed: number) {
  let state = seed;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (end: number) => Math.floor(next() * end);
  const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T;
  return { below, pick, isTrue: (share: number) => next() < share };
}

type Numbers = ReturnType<typeof numbers>;
type Said = { readonly days?: number; readonly [state: string]: number | undefined };

const randomSaid = ({ pick, isTrue }: Numbers): Said | undefined => {
  if (isTrue(0.25)) return undefined;
  const days = () => pick([1, 7, 8, 30, 31, 90, 400]);
  return {
    ...(isTrue(0.5) && { days: days() }),
    ...Object.fromEntries(STATES.filter(() => isTrue(0.4)).map((state) => [`${state}_days`, days()])),
  };
};

/** What the rules of docs/operations.md say, in the words of the page. */
function modelOf(settings: RunRetention, workflows: ReadonlyMap<string, Said | undefined>) {
  const bounded = (days: number) =>
    Math.max(Math.min(days, settings.maxDays ?? Number.POSITIVE_INFINITY), settings.minDays ?? 0);
  const kept = (workflow: string, state: string) => {
    const said = workflows.get(workflow);
    const days = said?.[`${state}_days`] ?? said?.days;
    return days === undefined ? (settings.runDays ?? Number.POSITIVE_INFINITY) : bounded(days);
  };
  const named = [...workflows.values()].flatMap((said) => Object.values(said ?? {}));
  const every = [settings.runDays ?? Number.POSITIVE_INFINITY, ...named.map((days) => bounded(days ?? 0))];
  return { kept, longest: Math.max(...every), shortest: Math.min(...every) };
}

interface EventRow {
  readonly run: string;
  readonly at: Date;
  readonly week: Date;
}

const events = () => database.sql<EventRow[]>`
  select run_id as run, recorded_at as at, date_trunc('week', recorded_at at time zone 'UTC') at time zone 'UTC' as week
  from run_events order by run_id, recorded_at`;

const nameOfWeek = (week: Date | number) => new Date(week).toISOString().slice(0, 10).replaceAll("-", "");
const endOf = (name: string) => Date.parse(name.replace(/(....)(..)(..)/, "$1-$2-$3T00:00:00Z")) + WEEK_MS;

async function keepsTheRules(seed: number): Promise<void> {
  const random = numbers(seed);
  const { below, pick, isTrue } = random;
  const limited = isTrue(0.8);
  const settings: RunRetention = {
    ...(limited && { runDays: pick([7, 30, 90]) }),
    ...(isTrue(0.3) && { minDays: pick([1, 7]) }),
    ...(limited && isTrue(0.3) && { maxDays: pick([90, 365]) }),
  };
  const workflows = new Map<string, Said | undefined>();
  for (const workflow of ["a", "b", "B", "a.b", "größe"]) {
    // The older version says something else, and it is not asked.
    await publishRetention(database.sql, workflow, 1, randomSaid(random));
    const said = randomSaid(random);
    await publishRetention(database.sql, workflow, 2, said);
    workflows.set(workflow, said);
  }
  const families: { of: FamilyOf; made: Made }[] = [];
  for (let nth = 0; nth < 40; nth++) {
    const children = pick([0, 0, 1, 4]);
    const of: FamilyOf = {
      workflow: pick([...workflows.keys(), "unpublished"]),
      state: pick(STATES),
      // Never at the moment of a limit.
      ...(isTrue(0.9) && { ended: pick([below(12), below(40), below(OLDEST_DAYS)]) + 0.5 }),
      lasted: pick([0, 0, 1, below(30)]),
      children,
      open: children > 0 && isTrue(0.1) ? 1 : 0,
    };
    families.push({ of, made: await insertFamily(database.sql, of) });
  }
  const before = await rowsByRun(database.sql);
  const rows = await events();
  const weeks = await weeksOf(database.sql);
  await prune(settings);

  const { kept, longest, shortest } = modelOf(settings, workflows);
  const now = Date.now();
  const isGone = ({ ended, open = 0, workflow, state }: FamilyOf) =>
    ended !== undefined && open === 0 && ended > kept(workflow, state);
  const gone = new Map(
    families.filter(({ of }) => isGone(of)).flatMap(({ of, made }) => made.runs.map((id) => [id, of])),
  );
  const isFallen = (week: Date) => week.getTime() + WEEK_MS <= now - longest * DAY_MS;
  const stays = ({ run, week }: EventRow) => {
    const of = gone.get(run);
    return !isFallen(week) && (of === undefined || kept(of.workflow, of.state) === longest);
  };
  const expectedRows = rows.filter(stays);
  const withoutEvents = (counts: string | undefined) => counts?.replace(/run_events \d+(, )?/, "");
  const after = await rowsByRun(database.sql);
  for (const id of before.keys())
    expect([id, withoutEvents(after.get(id)) || undefined]).toEqual([
      id,
      gone.has(id) ? undefined : withoutEvents(before.get(id)),
    ]);
  expect(await events(), "audit rows").toEqual(expectedRows);
  const used = new Set(expectedRows.map(({ week }) => nameOfWeek(week)));
  const expectedWeeks = weeks.filter((name) => {
    const end = endOf(name);
    return end > now - longest * DAY_MS && (end > now - shortest * DAY_MS || used.has(name));
  });
  expect(await weeksOf(database.sql), "weeks").toEqual(expectedWeeks);
  expect(gone.size, "some are gone").toBeGreaterThan(0);
}

describe("retention by workflow and state", () => {
  it("keeps and deletes what the rules say, for random workflows, states, ages and families", async () => {
    const seeds = Array.from({ length: long(3, 25) }, (_, nth) => 20_261_130 + nth);
    for (const seed of seeds) {
      try {
        await keepsTheRules(seed);
      } catch (error) {
        throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
      }
      for (const [table] of OF_RUN) await database.sql`delete from ${database.sql(table)}`;
      await database.sql`delete from definitions`;
      await makePastWeeks(database.sql, OLDEST_DAYS + 40);
    }
  }, 600_000);

  it("is that of the newest published version, also for runs of older ones", async () => {
    await publishRetention(database.sql, "flow", 1, { days: 400 });
    await publishRetention(database.sql, "flow", 2, { days: 10 });
    const old = await ran("flow", "succeeded", 20);
    const young = await ran("flow", "succeeded", 5);
    // Of a version that was taken back nothing holds.
    await database.sql`update definitions set published = false where version = 2`;
    await prune({ runDays: 2 });
    expect(await left()).toEqual(all(old, young));
    await database.sql`update definitions set published = true where version = 2`;
    await prune({ runDays: 2 });
    expect(await left()).toEqual(all(young));
  });

  it("of a workflow of which no version is published any more is that of the newest that was", async () => {
    await publishRetention(database.sql, "flow", 1, { days: 400 });
    await publishRetention(database.sql, "flow", 2, { days: 10 });
    await database.sql`update definitions set published = false`;
    const old = await ran("flow", "succeeded", 20);
    const young = await ran("flow", "succeeded", 5);
    await prune({ runDays: 2 });
    expect(await left()).toEqual(all(young));
    expect(all(old)).not.toEqual(all(young));
  });

  it("by the state gives way to `days`, and that to the setting", async () => {
    await publishRetention(database.sql, "flow", 1, { days: 20, failed_days: 400 });
    await publishRetention(database.sql, "other", 1, { failed_days: 400 });
    const failed = await ran("flow", "failed", 399.5);
    await ran("flow", "failed", 400.5);
    const cancelled = await ran("flow", "cancelled", 19.5);
    await ran("flow", "succeeded", 20.5);
    const byDefault = await ran("other", "succeeded", 4.5);
    await ran("other", "succeeded", 5.5);
    await prune({ runDays: 5 });
    expect(await left()).toEqual(all(failed, cancelled, byDefault));
  });

  it("that a definition says holds without the setting, and other runs are kept without a limit", async () => {
    await publishRetention(database.sql, "flow", 1, { days: 20 });
    await ran("flow", "succeeded", 20.5);
    const kept = await ran("other", "succeeded", 450.5);
    await prune({});
    expect(await left()).toEqual(all(kept));
  });

  it("of a definition is raised and lowered to the bounds of the settings", async () => {
    await publishRetention(database.sql, "short", 1, { days: 1 });
    await publishRetention(database.sql, "long", 1, { days: 36_500 });
    const kept = [await ran("short", "failed", 9.5), await ran("long", "failed", 59.5)];
    await ran("short", "failed", 10.5);
    await ran("long", "failed", 60.5);
    await prune({ runDays: 30, minDays: 10, maxDays: 60 });
    expect(await left()).toEqual(all(...kept));
  });

  it("deletes a family as one by its root, whatever its children would be kept for", async () => {
    const { sql } = database;
    await publishRetention(sql, "root", 1, { days: 10 });
    // The children ended days before their root.
    const held = await ran("root", "succeeded", 9.5, { lasted: 20, children: 5 });
    const gone = await ran("root", "succeeded", 10.5, { children: 5 });
    await publishRetention(sql, "child", 1, { days: 400 });
    await sql`alter table runs disable trigger user`;
    await sql`update runs set workflow_id = 'child', state = 'failed' where id = any(${gone.runs.slice(1)}::text[]::uuid[])`;
    await sql`update start_keys set scope = '/child' where run_id = any(${gone.runs.slice(1)}::text[]::uuid[])`;
    await sql`alter table runs enable trigger user`;
    const open = await ran("root", "succeeded", 50.5, { children: 5, open: 1 });
    await prune({ runDays: 400 });
    expect(await left()).toEqual(all(held, open));
  });

  it("deletes families of more runs than are looked at together", async () => {
    const made: Made[] = [];
    for (let nth = 0; nth < 3; nth++) made.push(await ran("flow", "succeeded", 40 + nth));
    for (const { root } of made)
      await database.sql`
        insert into runs (id, shard, revision, fence, last_seq, state, last_event_at, terminal_at, requires_manual_review, record,
          workflow_id, version, definition_id, started_at, root_run_id, parent_run_id)
        select gen_random_uuid(), 0, 1, 1, 1, 'succeeded', now(), now() - interval '50 days', false, '{}', 'flow', 1, gen_random_uuid(),
          now() - interval '50 days', ${root}, ${root} from generate_series(1, 9000)`;
    const kept = await ran("flow", "succeeded", 1, { children: 3 });
    await prune({ runDays: 30 });
    expect(await left()).toEqual(all(kept));
  }, 120_000);
});
