// What the database notes of runs as their commits end them: the code that the list finds them by, and what counts them.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EVERYTHING } from "../../src/access/index.js";
import type { RunFilter } from "../../src/store/lists/matching-runs.js";
import { listRuns } from "../../src/store/lists/runs.js";
import { countEnds } from "../../src/store/statistics/end-counts.js";
import { countRuns } from "../../src/store/statistics/run-counts.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { type Half, publish, start, startHalf } from "./rig.js";
import { allEnd } from "./seen.js";

let database: TestDatabase;
let half: Half;
beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  await publish(database, "declines", [{ id: "only", type: "error", code: "card_declined" }]);
  await publish(database, "holds", [{ id: "only", type: "wait_for_signal", signal_name: "go" }]);
  half = await startHalf(database);
});
afterAll(async () => {
  await half.stop();
  await database.drop();
});

const listed = async (filter: RunFilter) => {
  const { items } = await listRuns(database.sql, EVERYTHING, filter, { limit: 10, offset: 0 }, false);
  return items.map(({ id }) => id);
};

describe("a run that ends", () => {
  it("is found by its error code, and counted before and after the counts are kept", async () => {
    const failed = [await start(half.starter, "declines"), await start(half.starter, "declines")];
    const cancelled = await start(half.starter, "holds");
    await half.runtime.command(
      cancelled,
      { type: "cancel", reason: "no", compensate: true, actor: "api" },
      { reach: EVERYTHING },
    );
    await allEnd(database.sql, [...failed, cancelled]);
    expect(await listed({ errorCode: "card_declined" })).toEqual(failed);
    expect(await listed({ errorCode: "cancelled" })).toEqual([]);
    const counts = () => countRuns(database.sql, EVERYTHING, { states: ["failed", "cancelled"] });
    const expected = {
      items: [
        { workflow_id: "declines", version: 1, state: "failed", count: 2 },
        { workflow_id: "holds", version: 1, state: "cancelled", count: 1 },
      ],
    };
    expect(await counts()).toEqual(expected);
    await countEnds(database.sql);
    expect(await counts()).toEqual(expected);
  });
});

describe("a run that begins to wait and goes on", () => {
  it("is updated without an entry in any index", async () => {
    const id = await start(half.starter, "holds");
    const [before, after] = await database.sql.begin(async (sql) => {
      // Of this session, also before this transaction: until it reports them to the server, at most once a second.
      const updated = async () => {
        const [row] = await sql<{ all: number; hot: number }[]>`
          select n_tup_upd::int as "all", n_tup_hot_upd::int as hot from pg_stat_xact_user_tables where relname = 'runs'`;
        return row ?? { all: 0, hot: 0 };
      };
      const counted = await updated();
      for (const reason of ["timer", "signal", "children", "retry"])
        await sql`update runs set paused_reason = ${reason}, revision = revision + 1 where id = ${id}`;
      return [counted, await updated()] as const;
    });
    expect({ all: after.all - before.all, hot: after.hot - before.hot }).toEqual({ all: 4, hot: 4 });
  });
});
