// Leases of the poll: bounded, not lost while a node is slow, and not held against a run whose node survives. The test controls the
// runtime and the dispatcher; the rows are real.

import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { internal, overloaded, SagaError } from "../../src/errors.js";
import { type ShardId, shardOf, uuidv7 } from "../../src/ids.js";
import { MAX_LEASED } from "../../src/run/leases.js";
import { Poller } from "../../src/run/poller.js";
import type { QueuedCommand } from "../../src/run/resident.js";
import { SHARDS } from "../../src/shard/placement.js";
import { inbox, LEASE_SECONDS, outbox, reclaim, wakes } from "../../src/store/engine/poll.js";
import { createTestDatabase, deleteRuns, silentLog, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import { everySuspectLives, startHalf } from "./rig.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
});
beforeEach(async () => {
  await deleteRuns(database.sql);
});
afterAll(() => database.drop());

/** A runtime whose runs answer when the test lets them. */
class HeldRuntime {
  readonly waiting = new Map<
    string,
    { settle(): void; fail(error: unknown): void; command: QueuedCommand["command"] }
  >();
  busy = new Set<string>();
  most = 0;
  deliveries = 0;

  readonly residents = { movesLeasedWake: (runId: string) => this.busy.has(runId) };

  command(runId: string, command: QueuedCommand["command"]): Promise<never> {
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
      this.deliveries++;
      this.most = Math.max(this.most, this.waiting.size);
    });
  }

  advanceFailed(): void {}

  one(runId: string) {
    return until(() => this.waiting.get(runId), { what: `the delivery to ${runId}` });
  }
}

/** Polls without pause until the test ends it. */
async function polling(work: (runtime: HeldRuntime, poller: Poller) => Promise<void>, holds = () => false) {
  const runtime = new HeldRuntime();
  const options = {
    sql: database.sql,
    log: silentLog,
    runtime,
    dispatcher: { holds, waitsWithoutTenant: () => false },
    trials: everySuspectLives,
  };
  const poller = new Poller({ ...options, shards: () => SHARDS, intervalMs: 20 });
  poller.start();
  try {
    await work(runtime, poller);
  } finally {
    await poller.stop();
  }
}

type Table = "wakes" | "inbox" | "outbox";
const PAST = new Date(0);

/** Rows of stored runs, unless `gone`. */
async function insert(
  table: Table,
  count: number,
  { gone = false, tries = 0, shard = undefined as number | undefined, due = PAST } = {},
) {
  const runIds = Array.from({ length: count }, () => newRunId(shard));
  const { sql } = database;
  const ids = `{${runIds.join(",")}}`;
  if (!gone)
    await sql.unsafe(
      `insert into runs (id, shard, revision, fence, last_seq, state, last_event_at, requires_manual_review, record, workflow_id, version, definition_id, started_at)
       select id, 0, 1, 1, 1, 'running', now(), false, '{}', 'quick', 1, id, now() from unnest($1::text::uuid[]) id`,
      [ids],
    );
  const rows = runIds.map((runId) => ({
    ...(table === "wakes" ? { run_id: runId } : { id: uuidv7(), run_id: runId }),
    ...(table === "inbox" && { command: '{"type":"advance"}' }),
    ...(table === "outbox" && { kind: "action" }),
    ...{ shard: shardOf(runId), due_at: due, tries },
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
/** Moves the due times into the past, as if the leases had expired. */
const age = (table: Table) => database.sql`update ${database.sql(table)} set due_at = now() - interval '1 s'`;

/** The row's lease has just begun or been renewed, and so many tries count. */
async function isLeased(runId: string, tries: number): Promise<void> {
  await until(async () => ((await rowOf("wakes", runId))?.due_in_s ?? 0) > 5);
  await until(async () => (await rowOf("wakes", runId))?.tries === tries);
}

describe("leased rows", () => {
  it("are bounded, and more are taken as soon as some are done", async () => {
    await insert("wakes", MAX_LEASED + 700);
    await polling(async (runtime, poller) => {
      await until(() => runtime.waiting.size === MAX_LEASED);
      expect(poller.leased).toBe(MAX_LEASED);
      for (const { settle } of [...runtime.waiting.values()].slice(0, 600)) settle();
      await until(() => runtime.waiting.size >= MAX_LEASED - 100);
      for (let left = MAX_LEASED + 100; left > 0; left -= 100) {
        const some = await until(() => runtime.waiting.size >= Math.min(100, left) && [...runtime.waiting.values()]);
        for (const { settle } of some.slice(0, 100)) settle();
      }
      await until(() => poller.leased === 0);
    });
    const [left] = await database.sql`select count(*)::int as n from wakes where tries <> 1`;
    expect(left?.n).toBe(0);
  });

  it("do not block others: a row that hangs takes one place only", async () => {
    const [slow = ""] = await insert("wakes", 1);
    await polling(async (runtime) => {
      await runtime.one(slow);
      const [next = ""] = await insert("wakes", 1);
      await runtime.one(next);
    });
  });

  it("are renewed while the node is slow", async () => {
    const [runId = ""] = await insert("wakes", 1, { tries: 1 });
    await polling(async (runtime, poller) => {
      await runtime.one(runId);
      const now = performance.now.bind(performance);
      for (let nth = 1; nth <= 3; nth++) {
        vi.spyOn(performance, "now").mockImplementation(() => now() + nth * LEASE_SECONDS * 1_000);
        await age("wakes");
        await isLeased(runId, 2);
      }
      vi.restoreAllMocks();
      expect([runtime.deliveries, poller.leased]).toEqual([1, 1]);
      expect((await runtime.one(runId)).command.type).toBe("advance");
    });
    await wakes.renew(database.sql, [runId]);
    expect(await rowOf("wakes", runId)).toMatchObject({ tries: 2 });
  });

  it("are not delivered twice if a lease expires before its renewal, and the second try does not count", async () => {
    const [runId = ""] = await insert("wakes", 1);
    await polling(async (runtime, poller) => {
      await runtime.one(runId);
      for (let nth = 1; nth <= 3; nth++) {
        await age("wakes");
        await isLeased(runId, 1);
      }
      expect([runtime.deliveries, poller.leased]).toEqual([1, 1]);
    });
  });

  it("are maintained without waiting for a row that a commit has locked", async () => {
    const [locked, free] = [newRunId(), newRunId()];
    const { sql } = database;
    for (const id of [locked, free])
      await sql`insert into wakes (run_id, shard, due_at, tries) values (${id}, ${shardOf(id)}, now(), 2)`;
    const keys = [locked, free];
    await sql.begin(async (commit) => {
      await commit`select 1 from wakes where run_id = ${locked} for update`;
      await wakes.renew(sql, keys);
      await wakes.forgiveTry(sql, keys);
      await wakes.postpone(sql, keys, 60);
    });
    const rows = await sql`select run_id, tries, due_at > now() as later from wakes`;
    expect(rows).toHaveLength(2);
    expect(rows).toContainEqual({ run_id: locked, tries: 2, later: false });
    expect(rows).toContainEqual({ run_id: free, tries: 1, later: true });
  });

  it("keep the due time that a commit has given them", async () => {
    const [runId = ""] = await insert("wakes", 1);
    await database.sql`update wakes set due_at = now() + interval '1 s', tries = 0`;
    await wakes.renew(database.sql, [runId]);
    await outbox.postpone(database.sql, [runId], 600);
    expect((await rowOf("wakes", runId))?.due_in_s).toBeLessThan(1.1);
  });
});

describe("a try", () => {
  it.each([
    ["counts if the work never ends", undefined, 1],
    ["counts if the run's data is at fault, which is tried again less and less often", internal("rejected"), 1],
    ["does not count if the node survives and was only too busy", overloaded("full"), 0],
  ])("%s", async (_, error, tries) => {
    const [runId = ""] = await insert("wakes", 1);
    await polling(async (runtime, poller) => {
      const { fail } = await runtime.one(runId);
      if (!error) return;
      fail(error);
      await until(() => poller.leased === 0);
      await until(async () => (await rowOf("wakes", runId))?.tries === tries);
    });
    expect((await rowOf("wakes", runId))?.tries).toBe(tries);
  });

  it("does not count while another command of the run is in progress", async () => {
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
    await tableOf.removeOrphans(database.sql, [key]);
    expect(await rowOf(table, runId)).toBeDefined();
  });

  it("is removed when a real runtime polls it after the run was purged", async () => {
    const half = await startHalf(database, { hints: false });
    for (const table of ["wakes", "inbox", "outbox"] as const) await insert(table, 3, { gone: true });
    await half.poller.tick();
    const [left] = await database.sql`
      select ((select count(*) from wakes) + (select count(*) from inbox) + (select count(*) from outbox))::int as n`;
    await half.stop();
    expect(left?.n).toBe(0);
  });
});

describe("a dispatch that this node holds", () => {
  it("is polled less and less often, and at once if its shard is taken over", async () => {
    const [runId = ""] = await insert("outbox", 1);
    const leases: number[] = [];
    await polling(
      async (runtime) => {
        for (let nth = 1; nth <= 7; nth++) {
          const row = await until(async () => {
            const found = await rowOf("outbox", runId);
            return found && found.tries === nth && found.due_in_s > 12 && found;
          });
          leases.push(Math.round(row.due_in_s / 10) * 10);
          await age("outbox");
        }
        expect(runtime.most).toBe(0);
      },
      () => true,
    );
    expect(leases).toEqual([20, 40, 80, 120, 120, 120, 120]);
    await database.sql`update outbox set due_at = now() + interval '10 min'`;
    await reclaim(database.sql, SHARDS);
    expect((await outbox.lease(database.sql, SHARDS, 10)).rows).toHaveLength(1);
  });
});

describe("taking shards over", () => {
  it("makes everything due in bounded batches, also if one shard has most of the rows", async () => {
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
    let left: readonly ShardId[] = SHARDS;
    for (let before = 0; left.length > 0; before = await due()) {
      left = await reclaim(database.sql, left);
      bites.push((await due()) - before);
    }
    expect(await due()).toBe(9_000);
    expect(bites.length).toBeGreaterThan(2);
    expect(Math.max(...bites)).toBeLessThanOrEqual(8_000);
  });

  it("ends what a lost node has leased in shards that were another node's already, and nothing else", async () => {
    const due = new Date(Date.now() + (LEASE_SECONDS - 1) * 1_000);
    const one = async (table: Table, about: Parameters<typeof insert>[2]) => (await insert(table, 1, about))[0] ?? "";
    const tables = ["wakes", "inbox", "outbox"] as const;
    const lost = await Promise.all(tables.map((table) => one(table, { tries: 1, due })));
    const timer = await one("wakes", { due });
    const held = await one("outbox", { tries: 1, due: new Date(due.getTime() + 100_000) });
    const post = await one("outbox", { tries: 1, due });
    await database.sql`update outbox set kind = 'webhook' where run_id = ${post}`;
    const delivered: string[] = [];
    const command = async (runId: string) => void delivered.push(runId) as never;
    const runtime = { command, residents: { movesLeasedWake: () => false }, advanceFailed: () => {} };
    const dispatcher = { holds: () => false, waitsWithoutTenant: () => false };
    const options = { sql: database.sql, log: silentLog, runtime, dispatcher, trials: everySuspectLives };
    const poller = new Poller({ ...options, shards: () => SHARDS });
    await poller.tick();
    expect(delivered).toEqual([]);
    poller.nodeLost();
    await poller.tick();
    expect(delivered.sort()).toEqual(lost.sort());
    expect([await rowOf("wakes", timer), await rowOf("outbox", held), await rowOf("outbox", post)]).toMatchObject([
      { tries: 0 },
      { tries: 1 },
      { tries: 1 },
    ]);
  });

  it("leaves a row to the node that works on it, also if another node is lost", async () => {
    const [own = "", next = ""] = [newRunId(), newRunId()];
    const runtime = new HeldRuntime();
    const options = {
      sql: database.sql,
      log: silentLog,
      runtime,
      dispatcher: { holds: () => false, waitsWithoutTenant: () => false },
    };
    const poller = new Poller({ ...options, trials: everySuspectLives, shards: () => SHARDS });
    await database.sql`insert into wakes ${database.sql([{ run_id: own, shard: shardOf(own), due_at: PAST }])}`;
    const first = poller.tick();
    await runtime.one(own);
    await database.sql`insert into wakes ${database.sql([{ run_id: next, shard: shardOf(next), due_at: PAST }])}`;
    poller.nodeLost();
    const second = poller.tick();
    (await runtime.one(next)).settle();
    expect(await rowOf("wakes", own)).toMatchObject({ tries: 1 });
    (await runtime.one(own)).settle();
    await Promise.all([first, second]);
    expect(runtime.deliveries).toBe(2);
  });
});
