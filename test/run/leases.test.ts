// What the poll has in hand: never more than its bound, never lost while a node is slow, and not held against a run whose node
// lives. The runtime and the dispatcher are in the test's hand; the rows are real.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { overloaded, SagaError } from "../../src/errors.js";
import { shardOf, uuidv7 } from "../../src/ids.js";
import { IN_HAND } from "../../src/run/loans.js";
import type { Delivery } from "../../src/run/resident.js";
import { Stager } from "../../src/run/stager.js";
import { SHARDS } from "../../src/shard/placement.js";
import { inbox, outbox, reclaim, wakes } from "../../src/store/poll.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { startHalf } from "./rig.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
});
beforeEach(async () => {
  await database.sql`truncate runs, run_starts, run_events, run_variables, run_commands, signals, wakes, inbox, outbox`;
});
afterAll(() => database.drop());

/** A node whose runs answer when the test says so. */
class HeldRuntime {
  readonly waiting = new Map<string, { settle(): void; fail(error: unknown): void; command: Delivery["command"] }>();
  busy = new Set<string>();
  most = 0;

  deliver(runId: string, command: Delivery["command"]): Promise<never> {
    return new Promise((resolve, reject) => {
      const settle = () => {
        this.waiting.delete(runId);
        resolve({ type: "advanced" } as never);
      };
      const fail = (error: unknown) => {
        this.waiting.delete(runId);
        reject(error);
      };
      this.waiting.set(runId, { settle, fail, command });
      this.most = Math.max(this.most, this.waiting.size);
    });
  }

  isBusy(runId: string): boolean {
    return this.busy.has(runId);
  }

  stuck(): void {}

  one(runId: string) {
    return until(() => this.waiting.get(runId), { what: `the delivery to ${runId}` });
  }
}

/** Looks without pause until the test ends it. */
async function polling(work: (runtime: HeldRuntime, stager: Stager) => Promise<void>, holds = () => false) {
  const runtime = new HeldRuntime();
  const options = { sql: database.sql, log: silentLog, runtime, dispatcher: { holds }, shards: () => SHARDS };
  const stager = new Stager({ ...options, intervalMs: 20 });
  stager.start();
  try {
    await work(runtime, stager);
  } finally {
    await stager.stop();
  }
}

type Table = "wakes" | "inbox" | "outbox";
const PAST = new Date(0);

/** Rows of runs that are in the store, unless `gone`. */
async function insert(
  table: Table,
  count: number,
  { gone = false, tries = 0, shard = undefined as number | undefined } = {},
) {
  const runIds = Array.from({ length: count }, () => uuidv7(shard));
  const { sql } = database;
  const ids = `{${runIds.join(",")}}`;
  if (!gone)
    await sql.unsafe(
      `insert into runs (id, shard, revision, last_seq, state, last_event_at, requires_manual_review, record, workflow_id, version, definition_id, started_at)
       select id, 0, 1, 1, 'running', now(), false, '{}', 'quick', 1, id, now() from unnest($1::text::uuid[]) id`,
      [ids],
    );
  const rows = runIds.map((runId) => ({
    ...(table === "wakes" ? { run_id: runId } : { id: uuidv7(), run_id: runId }),
    ...(table === "inbox" && { command: '{"type":"advance"}' }),
    ...(table === "outbox" && { kind: "action" }),
    ...{ shard: shardOf(runId), due_at: PAST, tries },
  }));
  for (let from = 0; from < rows.length; from += 5_000)
    await sql`insert into ${sql(table)} ${sql(rows.slice(from, from + 5_000))}`;
  return runIds;
}

const rowOf = async (table: Table, runId: string) => {
  const [row] = await database.sql<{ tries: number; due_in_s: number }[]>`
    select tries, extract(epoch from due_at - now())::float8 as due_in_s from ${database.sql(table)} where run_id = ${runId}`;
  return row;
};
/** As if so much time had passed for the loans. */
const age = (table: Table) => database.sql`update ${database.sql(table)} set due_at = now() - interval '1 s'`;

describe("rows in hand", () => {
  it("have a bound, and more are taken as soon as some have ended", async () => {
    await insert("wakes", IN_HAND + 700);
    await polling(async (runtime, stager) => {
      await until(() => runtime.waiting.size === IN_HAND);
      expect(stager.inHand).toBe(IN_HAND);
      for (const { settle } of [...runtime.waiting.values()].slice(0, 600)) settle();
      await until(() => runtime.waiting.size >= IN_HAND - 100);
      for (let left = IN_HAND + 100; left > 0; left -= 100) {
        const some = await until(() => runtime.waiting.size >= Math.min(100, left) && [...runtime.waiting.values()]);
        for (const { settle } of some.slice(0, 100)) settle();
      }
      await until(() => stager.inHand === 0);
    });
    const [left] = await database.sql`select count(*)::int as n from wakes where tries <> 1`;
    expect(left?.n).toBe(0);
  });

  it("do not keep others waiting: one that hangs costs its own place only", async () => {
    const [slow = ""] = await insert("wakes", 1);
    await polling(async (runtime) => {
      await runtime.one(slow);
      const [next = ""] = await insert("wakes", 1);
      await runtime.one(next);
    });
  });

  it("are renewed while the node is slow, and taking them again counts for nothing", async () => {
    const [runId = ""] = await insert("wakes", 1, { tries: 2 });
    await polling(async (runtime, stager) => {
      await runtime.one(runId);
      // Its loan ran out before it was renewed, as after a standstill: it is taken again, and delivered no second time.
      for (let nth = 0; nth < 3; nth++) {
        await age("wakes");
        await until(async () => ((await rowOf("wakes", runId))?.due_in_s ?? 0) > 5);
        await until(async () => (await rowOf("wakes", runId))?.tries === 3);
      }
      expect([runtime.most, stager.inHand]).toEqual([1, 1]);
      expect((await runtime.one(runId)).command.type).toBe("advance");
    });
    await wakes.renew(database.sql, [runId]);
    expect(await rowOf("wakes", runId)).toMatchObject({ tries: 3 });
  });

  it("stay where a commit has put them meanwhile", async () => {
    const [runId = ""] = await insert("wakes", 1);
    await database.sql`update wakes set due_at = now() + interval '1 s', tries = 0`;
    await wakes.renew(database.sql, [runId]);
    await outbox.hold(database.sql, [runId], 600);
    expect((await rowOf("wakes", runId))?.due_in_s).toBeLessThan(1.1);
  });
});

describe("a try", () => {
  it.each([
    ["counts if nobody comes back", undefined, 1],
    ["counts if the run's data is at fault", new SagaError(500, "internal", "refused"), 1],
    ["does not count if the node lives and was only too busy", overloaded("full"), 0],
  ])("%s", async (_, error, tries) => {
    const [runId = ""] = await insert("wakes", 1);
    await polling(async (runtime, stager) => {
      const { fail } = await runtime.one(runId);
      if (!error) return;
      fail(error);
      await until(() => stager.inHand === 0);
      await until(async () => (await rowOf("wakes", runId))?.tries === tries);
    });
    expect((await rowOf("wakes", runId))?.tries).toBe(tries);
  });

  it("does not count while another command of the run is under way", async () => {
    const [runId = ""] = await insert("wakes", 1, { tries: 7 });
    await polling(async (runtime) => {
      runtime.busy.add(runId);
      await age("wakes");
      await until(async () => ((await rowOf("wakes", runId))?.due_in_s ?? 0) > 5);
      await until(async () => (await rowOf("wakes", runId))?.tries === 7);
      expect(runtime.most).toBe(0);
    });
  });
});

describe("the row of a run that is gone", () => {
  it.each(["wakes", "inbox", "outbox"] as const)("is removed from %s", async (table) => {
    const [runId = ""] = await insert(table, 1, { gone: true });
    await polling(async (runtime) => {
      (await runtime.one(runId)).fail(new SagaError(404, "not_found", "there is no run"));
      await until(async () => (await rowOf(table, runId)) === undefined);
    });
  });

  it.each(["wakes", "inbox", "outbox"] as const)("stays in %s if the run is there", async (table) => {
    const [runId = ""] = await insert(table, 1);
    const tableOf = { wakes, inbox, outbox }[table];
    const [{ key = "" } = {}] = await database.sql<{ key: string }[]>`
      select ${database.sql(table === "wakes" ? "run_id" : "id")} as key from ${database.sql(table)} where run_id = ${runId}`;
    await tableOf.remove(database.sql, [key]);
    expect(await rowOf(table, runId)).toBeDefined();
  });

  it("is removed by the whole way, too: the run was purged, and what it was owed is polled once more", async () => {
    const half = await startHalf(database, { hints: false });
    for (const table of ["wakes", "inbox", "outbox"] as const) await insert(table, 3, { gone: true });
    await half.stager.tick();
    const [left] = await database.sql`
      select ((select count(*) from wakes) + (select count(*) from inbox) + (select count(*) from outbox))::int as n`;
    await half.stop();
    expect(left?.n).toBe(0);
  });
});

describe("a dispatch that this node holds", () => {
  it("is looked at ever more rarely, and at once where its shard is taken over", async () => {
    const [runId = ""] = await insert("outbox", 1);
    const loans: number[] = [];
    await polling(
      async (runtime) => {
        for (let nth = 1; nth <= 7; nth++) {
          const row = await until(async () => {
            const found = await rowOf("outbox", runId);
            return found && found.tries === nth && found.due_in_s > 12 && found;
          });
          loans.push(Math.round(row.due_in_s / 10) * 10);
          await age("outbox");
        }
        expect(runtime.most).toBe(0);
      },
      () => true,
    );
    expect(loans).toEqual([20, 40, 80, 120, 120, 120, 120]);
    await database.sql`update outbox set due_at = now() + interval '10 min'`;
    await reclaim(database.sql, SHARDS);
    expect((await outbox.take(database.sql, SHARDS, 10)).rows).toHaveLength(1);
  });
});

describe("taking shards over", () => {
  it("makes everything due in bounded bites, also where one shard has most of it", async () => {
    await insert("outbox", 3_000);
    await insert("inbox", 6_000, { shard: 7 });
    await database.sql`update outbox set due_at = now() + interval '10 min'`;
    await database.sql`update inbox set due_at = now() + interval '10 s'`;
    const due = async () => {
      const [row] = await database.sql<{ n: number }[]>`
        select ((select count(*) from outbox where due_at <= now()) + (select count(*) from inbox where due_at <= now()))::int as n`;
      return row?.n ?? 0;
    };
    const bites: number[] = [];
    let left: readonly number[] = SHARDS;
    for (let before = 0; left.length > 0; before = await due()) {
      left = await reclaim(database.sql, left);
      bites.push((await due()) - before);
    }
    expect(await due()).toBe(9_000);
    expect(bites.length).toBeGreaterThan(2);
    expect(Math.max(...bites)).toBeLessThanOrEqual(8_000);
  });
});
