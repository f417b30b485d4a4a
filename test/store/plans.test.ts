// Postgres plans a statement once a session, often while the tables are empty, and keeps the plan. It must still be right when they are full.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunId } from "../../machines/index.js";
import { uuidv7 } from "../../src/ids.js";
import type { RunCommit } from "../../src/store/commit/rows.js";
import { commitRuns } from "../../src/store/commit/statement.js";
import { type Database, openDatabase } from "../../src/store/connection.js";
import { outbox, wakes } from "../../src/store/poll.js";
import { readRuns } from "../../src/store/runs.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { confirmation, creation, row, update, withEverything } from "./commit-rows.js";

const GROUP = 10;
/** Rounds of work that fill the tables. */
const MANY = long(40, 150);

describe.each([
  ["are planned before the first row", "select"],
  ["are planned after an analysis of nearly empty tables", "analyze"],
])("statements that %s", (_, statistics) => {
  let database: TestDatabase;
  let commits: Database;

  beforeAll(async () => {
    // One session of each kind: a statement that was prepared stays prepared.
    database = await createTestDatabase({ max: 1, fresh: true });
    commits = openDatabase(database.url, { max: 1, applicationName: "saga-test", log: silentLog, plannedOnce: true });
  });
  afterAll(async () => {
    await commits.close();
    await database.drop();
  });

  const commit = async (group: readonly RunCommit[]) => {
    expect((await commitRuns(commits.sql, group)).size).toBe(group.length);
  };
  /** Starts, transitions with rows in every table, takers of signals, confirmations. */
  async function work(): Promise<void> {
    const ids = Array.from({ length: GROUP }, () => creation()).map((one) => [one.runId, one] as const);
    await commit(ids.map(([, one]) => one));
    const shares = ids.map(([id]) => [id, withEverything(id)] as const);
    await commit(shares.map(([id, share]) => update(id, 1, share)));
    await commit(
      shares.map(([id, { signals }]) => {
        const claims = (signals ?? []).map((signal) => ({ id: signal.id, at: signal.at }));
        return update(id, 2, { signalClaims: claims, undoSettled: [], undoPassed: { since: 0, every: true } });
      }),
    );
    await commit(
      ids.map(([id]) => confirmation(id, 3, { commands: [{ id: uuidv7(), answer: "{}", keep: false, at: 0 }] })),
    );
    await commit(ids.map(([id]) => update(id, 3, { update: row({ state: "running" }) })));
    await poll(ids.map(([id]) => id));
  }
  async function poll(ids: readonly RunId[]): Promise<void> {
    await wakes.renew(database.sql, ids);
    await outbox.renew(database.sql, ids);
  }
  async function rowsRead(): Promise<number> {
    for (const { sql } of [commits, database]) await sql`select pg_stat_force_next_flush()`;
    const [read] = await database.sql<{ rows: number }[]>`
      select (select sum(seq_tup_read) from pg_stat_user_tables)::int8::int
        + (select sum(idx_tup_read) from pg_stat_user_indexes)::int8::int as rows`;
    return read?.rows ?? 0;
  }

  it("read as many rows when the tables are full", async () => {
    // After a few executions, Postgres keeps a generic plan.
    for (let count = 0; count < 8; count++) {
      await work();
      if (count === 1) await database.sql.unsafe(statistics);
    }
    const read = async () => {
      const before = await rowsRead();
      for (let count = 0; count < 8; count++) await work();
      return (await rowsRead()) - before;
    };
    const early = await read();
    for (let count = 0; count < MANY; count++) await work();
    const late = await read();
    console.info(`rows read for 80 runs: ${early} in small tables, ${late} in larger ones`);
    expect(late).toBeLessThan(early * 1.5);
  });

  it("are not planned again for each commit", async () => {
    for (let count = 0; count < 8; count++) await work();
    const statements = await commits.sql<{ plans: number; custom: number }[]>`
      select generic_plans::int as plans, custom_plans::int as custom from pg_prepared_statements where statement like '%from won'`;
    expect(statements.length).toBeGreaterThan(3);
    for (const { plans, custom } of statements) expect({ used: plans > 7, custom }).toEqual({ used: true, custom: 0 });
  });

  it("look up one run or several are not planned for each lookup", async () => {
    const ids = Array.from({ length: 8 }, () => creation());
    await commit(ids);
    for (let count = 0; count < 20; count++) {
      const some = ids.slice(0, 1 + (count % 8)).map(({ runId }) => runId);
      expect([...(await readRuns(database.sql, some)).keys()].sort()).toEqual(some.sort());
    }
    const [lookup] = await database.sql<{ custom: number }[]>`
      select custom_plans::int as custom from pg_prepared_statements where statement like '%"own_variables"%'`;
    // Postgres plans the first five executions one by one, whatever it finds.
    expect(lookup?.custom).toBeLessThanOrEqual(5);
  });
});
