// Pages of lists: their totals, and lists that take too long to count.

import { type SQL, sql } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EVERYTHING } from "../../src/access/index.js";
import { query } from "../../src/store/engine/query.js";
import { inRange, type Listing, type PageQuery, readPage } from "../../src/store/lists/page.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase({ migrated: false });
});
afterAll(() => database.drop());

/** The numbers from 1 to `last`, of which those of `from` are counted. */
function numbers(last: number, from: SQL): Listing<{ n: number }, number> {
  const all = () =>
    query(database.sql)
      .select({ n: sql<number>`n`.as("n") })
      .from(sql`generate_series(1, ${last}) as t (n)`);
  return {
    name: "numbers",
    reach: EVERYTHING,
    key: [{ column: { name: "n" }, kind: "integer" }],
    rows: (range) => inRange(all().$dynamic(), undefined, range),
    matching: { from },
    item: ({ n }) => n,
    position: ({ n }) => [String(n)],
  };
}

describe("a page", () => {
  it("has an exact total up to 10,000, and beyond that only where it is asked for", async () => {
    const read = async (last: number, asked: Partial<PageQuery> = {}) => {
      const listing = numbers(last, sql`generate_series(1, ${last}) as t (n)`);
      const { total, total_is_lower_bound } = await readPage(database.sql, listing, { limit: 5, offset: 0, ...asked });
      return [total, total_is_lower_bound];
    };
    expect(await read(10_000)).toEqual([10_000, undefined]);
    expect(await read(10_001)).toEqual([10_000, true]);
    expect(await read(10_001, { exact: true })).toEqual([10_001, undefined]);
    // The last page has seen them all; it says the same as the first.
    expect(await read(10_001, { offset: 10_000 })).toEqual([10_000, true]);
    expect(await read(10_001, { offset: 10_000, exact: true })).toEqual([10_001, undefined]);
  });

  it("has a lower bound as its total if counting takes too long", async () => {
    const listing = numbers(10, sql`(select pg_sleep(20)) slow`);
    const before = performance.now();
    const page = await readPage(database.sql, listing, { limit: 3, offset: 2 });
    expect(page).toMatchObject({ items: [3, 4, 5], total: 6, total_is_lower_bound: true });
    expect(performance.now() - before).toBeLessThan(20_000);
    const last = await readPage(database.sql, listing, { limit: 500, offset: 0 });
    expect(last).toEqual({ items: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], total: 10, limit: 500, offset: 0 });
  });
});
