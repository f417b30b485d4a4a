// The group commit: its promises to each run of a group, regardless of the others.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject, RunCommit, RunId } from "../../machines/index.js";
import { shardOf } from "../../src/ids.js";
import { createMetrics } from "../../src/metrics/index.js";
import { Committer, DataRejected, OutcomeUnknown } from "../../src/run/committer.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import {
  AT,
  confirmation,
  creation,
  event,
  NO_WAKE,
  rowsOf,
  signal,
  update,
  variables,
  wake,
} from "../store/commit-rows.js";
import { report } from "./seen.js";

const BURST = 200;

let database: TestDatabase;
let committer: Committer;

beforeAll(async () => {
  database = await createTestDatabase();
  committer = new Committer({ sql: database.sql, log: silentLog, metrics: createMetrics() });
});
afterAll(async () => {
  await committer.stop();
  await database.drop();
});

async function created(count: number): Promise<RunId[]> {
  const shares = Array.from({ length: count }, () => creation());
  const won = await Promise.all(shares.map((share) => committer.submit(share)));
  expect(won).toEqual(Array(count).fill(true));
  return shares.map(({ runId }) => runId);
}

const outcomeOf = (submitted: Promise<boolean>) =>
  submitted.then(
    (won) => (won ? "won" : "lost"),
    (error: unknown) => (error instanceof DataRejected ? error.sqlState : String(error)),
  );

const POISONS: readonly (readonly [string, string, (runId: RunId) => RunCommit])[] = [
  ["a number out of range", "22003", (id) => update(id, 1, {}, { last_seq: 2 ** 31 })],
  ["a number that is none", "22P02", (id) => update(id, 1, {}, { last_seq: Number.NaN })],
  [
    "an id that is no uuid",
    "22P02",
    (id) => update(id, 1, { outbox_row: [{ id: "nonsense", kind: "action", due_at: AT }] }),
  ],
  ["text with U+0000", "22021", (id) => update(id, 1, {}, { step: "a\0b" })],
  ["a missing value", "23502", (id) => update(id, 1, { undo_entry: [{ step_id: "s", entry: 1 }] })],
];

describe("a run whose rows Postgres rejects", () => {
  it.each(POISONS)("is rejected alone, and its batch mates win: %s", async (_, sqlState, poison) => {
    const [guilty = newRunId(), ...mates] = await created(20);
    const before = await rowsOf(database.sql, guilty);
    const shares = mates.map((runId) => update(runId, 1, { audit_event: [event(2)] }));
    shares.splice(7, 0, poison(guilty));
    const outcomes = await Promise.all(shares.map((share) => outcomeOf(committer.submit(share))));
    expect(outcomes[7]).toBe(sqlState);
    expect(outcomes.toSpliced(7, 1)).toEqual(Array(19).fill("won"));
    expect(await rowsOf(database.sql, guilty)).toEqual(before);
  });

  it(`never fails its mates in a burst of ${BURST}, with many faulty runs among them`, async () => {
    const runIds = await created(BURST);
    const isGuilty = (nth: number) => nth % 23 === 5;
    const began = performance.now();
    const outcomes = await Promise.all(
      runIds.map((runId, nth) => {
        const [, , poison] = POISONS[nth % POISONS.length] ?? [];
        const share = isGuilty(nth) && poison ? poison(runId) : update(runId, 1, { audit_event: [event(2)] });
        return outcomeOf(committer.submit(share));
      }),
    );
    outcomes.forEach((outcome, nth) => {
      const expected = isGuilty(nth) ? POISONS[nth % POISONS.length]?.[1] : "won";
      expect([nth, outcome]).toEqual([nth, expected]);
    });
    const [row] = await database.sql<{ moved: number }[]>`
      select count(*)::int as moved from runs where id = any(${runIds}::text[]::uuid[]) and revision = 2`;
    expect(row?.moved).toBe(outcomes.filter((outcome) => outcome === "won").length);
    report({
      burst: BURST,
      guilty: outcomes.filter((outcome) => outcome !== "won").length,
      ms: performance.now() - began,
    });
  });

  it("that exists already loses, and is not rejected", async () => {
    const [runId = newRunId(), mate = newRunId()] = await created(2);
    const taken = signal();
    await committer.submit(confirmation(mate, 1, { signal: [taken] }));
    expect(await committer.submit(update(runId, 1, { signal: [taken] }))).toBe(false);
  });
});

describe("a commit with more rows than are encoded in one piece", () => {
  it("is stored whole, and a stop waits for it", async () => {
    const [runId = newRunId()] = await created(1);
    const texts = [1.5, 'a "b" \\ 😀', null, true, { "c,d": [] }, "", "{}"];
    const values = Object.fromEntries(Array.from({ length: 4_500 }, (_, n) => [`v ${n}`, texts[n % texts.length]]));
    const slow = new Committer({ sql: database.sql, log: silentLog, metrics: createMetrics() });
    const submitted = slow.submit(update(runId, 1, variables(values as JsonObject)));
    await slow.stop();
    expect(await submitted).toBe(true);
    const stored = await database.sql<{ name: string; value: unknown }[]>`
      select name, value from run_variables where run_id = ${runId}`;
    expect(Object.fromEntries(stored.map(({ name, value }) => [name, value]))).toEqual(values);
  });
});

describe("a statement that is made for one run", () => {
  it("is announced with what is suspected if the process dies of it, and one for several runs is not", async () => {
    const said: string[] = [];
    const onAlone = (key: string) => void said.push(key);
    const lonely = new Committer({ sql: database.sql, log: silentLog, metrics: createMetrics(), onAlone });
    const [first, second] = [creation(), creation()];
    await lonely.submit(first);
    await lonely.submit(second, "the key of a start");
    await Promise.all([lonely.submit(creation()), lonely.submit(creation())]);
    expect(said).toEqual([first.runId, "the key of a start"]);
    await lonely.stop();
  });
});

describe("one run submitted twice at once", () => {
  it("is one run if both are starts with the same id, and one of them loses", async () => {
    const runId = newRunId();
    const [one, other, mate] = await Promise.all([
      committer.submit(creation({ runId })),
      committer.submit(creation({ runId })),
      committer.submit(creation()),
    ]);
    expect([one, other].filter(Boolean)).toHaveLength(1);
    expect(mate).toBe(true);
    expect((await rowsOf(database.sql, runId)).run_events).toHaveLength(1);
  });

  it("that exists loses the start and wins the update, and has no row of the start", async () => {
    const [runId = newRunId()] = await created(1);
    const [moved, started] = await Promise.all([
      committer.submit(update(runId, 1, { audit_event: [event(2)], ...NO_WAKE })),
      committer.submit(creation({ runId, ...wake(runId, AT), audit_event: [event(1, { recorded_at: AT + 99 })] })),
    ]);
    expect({ moved, started }).toEqual({ moved: true, started: false });
    const found = await rowsOf(database.sql, runId);
    expect(found.run_events.map(({ seq }) => seq)).toEqual([1, 2]);
    expect(found.wakes).toEqual([]);
  });

  it("keeps one history if a stale parent creates it again", async () => {
    const [parent = newRunId(), runId = newRunId()] = await created(2);
    await committer.submit(update(parent, 1));
    const birth = creation({ runId, audit_event: [event(1, { recorded_at: AT + 99 })] }, { made_by: parent });
    const [moved, stale] = await Promise.all([
      committer.submit(update(runId, 1, { audit_event: [event(2)], ...NO_WAKE })),
      committer.submit(update(parent, 1, birth.rows)),
    ]);
    expect({ moved, stale }).toEqual({ moved: true, stale: false });
    const found = await rowsOf(database.sql, runId);
    expect(found.run_events.map(({ seq }) => seq)).toEqual([1, 2]);
    expect(found.wakes).toEqual([]);
  });
});

describe("an unknown outcome", () => {
  it("is reported as unknown, not as lost, when no server answers", async () => {
    const { sql, close } = openDatabase("postgres://postgres@127.0.0.1:1/none", {
      ...{ max: 1, applicationName: "saga-nowhere", log: silentLog },
    });
    const lonely = new Committer({ sql, log: silentLog, metrics: createMetrics() });
    await expect(lonely.submit(creation())).rejects.toBeInstanceOf(OutcomeUnknown);
    await lonely.stop();
    await close();
  });
});

describe("the bounds of the group commit", () => {
  it("shed load with 503 above the queue limit, and a stop finishes the accepted commits", async () => {
    const { sql } = database;
    const small = new Committer({ sql, log: silentLog, metrics: createMetrics(), queueLimit: 5, concurrency: 1 });
    const submitted = Array.from({ length: 9 }, () => outcomeOf(small.submit(creation())));
    const stopped = small.stop();
    const outcomes = await Promise.all(submitted);
    await stopped;
    expect(outcomes.slice(0, 5)).toEqual(Array(5).fill("won"));
    for (const outcome of outcomes.slice(5)) expect(outcome).toContain("full");
    await expect(small.submit(creation())).rejects.toMatchObject({ status: 503 });
  });

  it("split any number of runs into groups", async () => {
    const metrics = createMetrics();
    const grouped = new Committer({ sql: database.sql, log: silentLog, metrics, groupSize: 50 });
    const shares = Array.from({ length: 430 }, () => creation());
    const won = await Promise.all(shares.map((share) => grouped.submit(share)));
    expect(won.every(Boolean)).toBe(true);
    expect((await metrics.commits.get()).values[0]?.value).toBe(9);
    expect(new Set(shares.map(({ runId }) => shardOf(runId))).size).toBeGreaterThan(50);
    await grouped.stop();
  });

  it("bound a group in bytes, and a run that is over the bound is written alone", async () => {
    const metrics = createMetrics();
    const grouped = new Committer({ sql: database.sql, log: silentLog, metrics, groupBytes: 300_000, concurrency: 1 });
    const text = (length: number) => "x".repeat(length);
    const lengths = [100_000, 100_000, 100_000, 1_000_000, 1_000, 250_000];
    const shares = lengths.map((length) => creation(variables({ v: text(length) })));
    const won = await Promise.all(shares.map((share) => grouped.submit(share)));
    expect(won.every(Boolean)).toBe(true);
    const rows = (await metrics.commitRows.get()).values.filter(({ metricName }) => metricName?.endsWith("_count"));
    expect(rows[0]?.value).toBe(4);
    await grouped.stop();
  });
});

/** A committer whose statements wait until the test lets them go, and how many runs each has. */
function heldCommitter() {
  const waiting: (() => void)[] = [];
  const metrics = createMetrics();
  const sql = new Proxy(database.sql, {
    get: (target, name) => {
      if (name !== "unsafe") return Reflect.get(target, name);
      return async (...statement: Parameters<typeof target.unsafe>) => {
        await new Promise<void>((go) => waiting.push(go));
        return target.unsafe(...statement);
      };
    },
  });
  const groups = async () => {
    const { values } = await metrics.commitRows.get();
    const of = (name: string) => values.find(({ metricName }) => metricName?.endsWith(name))?.value ?? 0;
    return { statements: of("_count"), runs: of("_sum") };
  };
  return { waiting, groups, committer: new Committer({ sql, log: silentLog, metrics }) };
}

describe("while a statement is in flight", () => {
  it("a few runs wait for its end and share the next one, but not for long", async () => {
    const held = heldCommitter();
    const first = held.committer.submit(creation());
    await until(() => held.waiting.length === 1);
    const few = Array.from({ length: 3 }, () => held.committer.submit(creation()));
    held.waiting.shift()?.();
    await first;
    await until(() => held.waiting.length === 1, { what: "the statement of the three" });
    const late = held.committer.submit(creation());
    await until(() => held.waiting.length === 2, { what: "a statement beside the one that is held up" });
    for (const go of held.waiting.splice(0)) go();
    expect(await Promise.all([...few, late])).toEqual([true, true, true, true]);
    expect(await held.groups()).toEqual({ statements: 3, runs: 5 });
    await held.committer.stop();
  });

  it("many runs do not wait, and a third statement is never sent", async () => {
    const held = heldCommitter();
    const shares = [held.committer.submit(creation())];
    await until(() => held.waiting.length === 1);
    while (shares.length < 60) {
      shares.push(...Array.from({ length: 16 }, () => held.committer.submit(creation())));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(held.waiting.length).toBe(2);
    await until(async () => {
      for (const go of held.waiting.splice(0)) go();
      return (await held.groups()).runs === shares.length;
    });
    expect(new Set(await Promise.all(shares))).toEqual(new Set([true]));
    expect((await held.groups()).statements).toBe(3);
    await held.committer.stop();
  });
});
