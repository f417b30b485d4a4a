// What a list of a tenant costs under row-level security: its messages to the database, its plans, and the rows of others that it reads.
import type { Sql } from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ReadPool } from "../../src/store/lists/read-pool.js";
import { ReaderSession } from "../../src/store/lists/reader-session.js";
import { listRuns } from "../../src/store/lists/runs.js";
import { READER_ROLE } from "../../src/store/migrate/reader-role.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { type OpenReaders, openReaders } from "../harness/readers.js";

const [A, B] = ["0190a000-0000-7000-8000-00000000000a", "0190a000-0000-7000-8000-00000000000b"] as const;
const OTHERS = 5_000;
const OWN = 60;

let database: TestDatabase;
let readers: OpenReaders;
const messages: string[] = [];
let readPool: ReadPool;
beforeAll(async () => {
  database = await createTestDatabase({ fresh: true });
  for (const [tenant, count] of [
    [B, OTHERS],
    [A, OWN],
  ] as const)
    await database.sql`
      with new as (
        insert into runs (id, shard, revision, fence, last_seq, state, last_event_at, requires_manual_review, record, workflow_id, version,
          definition_id, tenant_id, business_key, started_at)
        select gen_random_uuid(), 0, 1, 1, 1, 'running', now(), false, '{}', 'orders', 1, gen_random_uuid(), ${tenant}::uuid,
          'key-' || nth, now() - nth * interval '1 s' from generate_series(1, ${count}::int) nth
        returning id)
      insert into run_labels (run_id, name, value) select id, 'kind', 'usual' from new`;
  await database.sql`vacuum (analyze) runs, run_labels`;
  readers = await openReaders(database, 1);
  const session = new ReaderSession(
    noted((readers.databases[0] as OpenReaders["databases"][number]).sql),
    async () => {},
    READER_ROLE,
  );
  readPool = new ReadPool({ sessions: [session] });
});
afterAll(async () => {
  await readers?.close();
  await database?.drop();
});

/** Each message of the session gets into `messages`. */
function noted(sql: Sql): Sql {
  const unsafe = (text: string, ...rest: []) => {
    messages.push(text);
    return sql.unsafe(text, ...rest);
  };
  return new Proxy(sql, { get: (pool, name) => (name === "unsafe" ? unsafe : Reflect.get(pool, name)) });
}

const here = new AbortController().signal;
const read = <T>(work: (sql: Sql) => Promise<T>) => readPool.run({ closed: here, reach: { tenants: [A] } }, work);
const list = (filter = {}, limit = 50) =>
  readPool.run({ closed: here, reach: { tenants: [A] } }, (sql, reach) =>
    listRuns(sql, reach, filter, { limit, offset: 0 }, true),
  );

describe("a list of a tenant", () => {
  it("is five messages: the page and the count, and around them what names the tenant, limits the count, and ends", async () => {
    messages.length = 0;
    expect(await list()).toMatchObject({ total: OWN });
    expect(messages.map((text) => text.replace(/^(with|select)\b.*/s, "$1").replace(A, "A"))).toEqual([
      "begin read only; set local saga.tenants = 'A'",
      "with",
      "savepoint nested; set local statement_timeout = 1000",
      "select",
      "commit",
    ]);
  });

  it("is not planned again for each page", async () => {
    for (let count = 0; count < 10; count++) await list({}, 20 + count);
    const [plans] = await read(
      (sql) =>
        sql<{ custom: number; generic: number }[]>`
        select custom_plans::int as custom, generic_plans::int as generic from pg_prepared_statements where statement like 'with "page"%'`,
    );
    // Postgres plans the first five executions one by one, whatever it finds.
    expect(plans?.custom).toBeLessThanOrEqual(5);
    expect(plans?.generic).toBeGreaterThanOrEqual(5);
  });

  it.each(["q", "label"])("by %s reads no runs of others, however many of these match", async (kind) => {
    const filter = kind === "q" ? { q: "key-" } : { labels: { kind: "usual" } };
    const rowsRead = async () => {
      await read((sql) => sql`select pg_stat_force_next_flush()`);
      await read((sql) => sql`select 1`);
      const [found] = await database.sql<[{ rows: number }]>`
        select (sum(idx_tup_read))::int8::int as rows from pg_stat_user_indexes where relname in ('runs', 'run_labels')`;
      return found.rows;
    };
    const before = await rowsRead();
    expect(await list(filter)).toMatchObject({ total: OWN });
    expect((await rowsRead()) - before).toBeLessThan(20 * OWN);
  });
});
