// Pages where counting takes too long.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Listing, readPage } from "../../src/store/page.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase({ migrated: false });
});
afterAll(() => database.drop());

test("a count that takes too long becomes a lower bound, and the page comes all the same", async () => {
  const { sql } = database;
  const listing: Listing<{ n: number }, number> = {
    name: "numbers",
    key: [{ column: "n", kind: "integer" }],
    rows: ({ after, order, window }) =>
      sql`select n from generate_series(1, 10) as numbers (n) where ${after} order by ${order} ${window}`,
    matching: sql`from (select pg_sleep(20)) slow`,
    item: ({ n }) => n,
    position: ({ n }) => [String(n)],
  };
  const before = performance.now();
  const page = await readPage(sql, listing, { limit: 3, offset: 2 });
  expect(page).toMatchObject({ items: [3, 4, 5], total: 6, total_is_lower_bound: true });
  expect(performance.now() - before).toBeLessThan(10_000);
  const last = await readPage(sql, listing, { limit: 500, offset: 0 });
  expect(last).toEqual({ items: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], total: 10, limit: 500, offset: 0 });
});
