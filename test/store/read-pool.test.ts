// The reads of clients: bounded, and ended in Postgres with their client or their time.

import type { Sql } from "postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EVERYTHING } from "../../src/access/index.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { cancelStatement, ReadPool, type ReadSession } from "../../src/store/lists/read-pool.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";

const NAME = "saga-read-test";

let database: TestDatabase;
let session: ReadSession & { close(): Promise<void> };
beforeAll(async () => {
  database = await createTestDatabase();
  session = {
    ...openDatabase(database.url, { max: 1, applicationName: NAME, log: silentLog }),
    cancel: () => cancelStatement(database.sql, NAME),
  };
});
afterAll(async () => {
  await session.close();
  await database.drop();
});

const reader = (closed: AbortSignal) => ({ closed, reach: EVERYTHING });
const stays = () => reader(new AbortController().signal);
const sleeps = (sql: Sql) => sql`select pg_sleep(60)`;
const one = async (sql: Sql) => (await sql<{ one: number }[]>`select 1 as one`)[0]?.one;

const sleeping = async () => {
  const [row] = await database.sql<{ count: number }[]>`
    select count(*)::int as count from pg_stat_activity
    where application_name = ${NAME} and state = 'active' and query like '%pg_sleep%'`;
  return row?.count ?? 0;
};

const refusal = (read: Promise<unknown>) =>
  read.then(
    () => "none",
    (error: Error) => error.message,
  );

describe("a read", () => {
  it("ends in Postgres when its client goes away, and the next one has the session", async () => {
    const readPool = new ReadPool({ sessions: [session] });
    const client = new AbortController();
    const slow = refusal(readPool.run(reader(client.signal), sleeps));
    await until(async () => (await sleeping()) === 1);
    const next = readPool.run(stays(), one);
    client.abort();
    expect(await next).toBe(1);
    expect([await sleeping(), await slow]).toEqual([0, expect.stringContaining("not done")]);
    expect(await Promise.all(Array.from({ length: 50 }, () => readPool.run(stays(), one)))).toEqual(Array(50).fill(1));
  });

  it("ends in Postgres when its time is over, between its statements too, and names the limit", async () => {
    const readPool = new ReadPool({ sessions: [session], timeoutMs: 200 });
    const many = async (sql: Sql) => {
      for (;;) await sql`select pg_sleep(0.02)`;
    };
    for (const read of [sleeps, many]) {
      expect(await refusal(readPool.run(stays(), read))).toContain("within 200 ms, the most that a read may take");
      expect(await sleeping()).toBe(0);
    }
    expect(await readPool.run(stays(), one)).toBe(1);
  });

  it("waits for a session in its order, and leaves the line with its client", async () => {
    const readPool = new ReadPool({ sessions: [session] });
    const [first, gone] = [new AbortController(), new AbortController()];
    const slow = refusal(readPool.run(reader(first.signal), sleeps));
    const order: string[] = [];
    const [left, ...rest] = ["left", "a", "b", "c"].map((name) =>
      readPool.run(name === "left" ? reader(gone.signal) : stays(), async () => order.push(name)),
    );
    gone.abort();
    await expect(left).rejects.toMatchObject({ status: 503 });
    first.abort();
    await Promise.all([slow, ...rest]);
    expect(order).toEqual(["a", "b", "c"]);
  });

  it("is refused with 503 when too many wait, and the text says which limit", async () => {
    let refused = 0;
    const readPool = new ReadPool({ sessions: [session], waiting: 2, onRefused: () => refused++ });
    const client = new AbortController();
    const waiting = [1, 2, 3].map(() => refusal(readPool.run(reader(client.signal), sleeps)));
    const error = await readPool.run(stays(), one).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ status: 503, message: expect.stringMatching(/^2 reads wait on this node/) });
    expect(refused).toBe(1);
    client.abort();
    await Promise.all(waiting);
    expect(await readPool.run(stays(), one)).toBe(1);
  });

  it("that is cancelled while the driver opens its session ends alone", async () => {
    for (let round = 0; round < 5; round++) {
      const name = `${NAME}-new-${round}`;
      const { sql, close } = openDatabase(database.url, { max: 1, applicationName: name, log: silentLog });
      const readPool = new ReadPool({ sessions: [{ sql, cancel: () => cancelStatement(database.sql, name) }] });
      const client = new AbortController();
      const slow = refusal(readPool.run(reader(client.signal), sleeps));
      client.abort();
      expect(await slow).toContain("not done");
      await close();
    }
  });

  it("of single rows does not wait for lists, and lists do not wait for it", async () => {
    const other = openDatabase(database.url, { max: 1, applicationName: `${NAME}-2`, log: silentLog });
    const cancel = () => cancelStatement(database.sql, `${NAME}-2`);
    const readPool = new ReadPool({ sessions: [session, { ...other, cancel }] });
    const client = new AbortController();
    const slow = [1, 2, 3].map(() => refusal(readPool.run(reader(client.signal), sleeps)));
    expect(await Promise.all([1, 2, 3].map(() => readPool.look(stays(), one)))).toEqual([1, 1, 1]);
    client.abort();
    await Promise.all(slow);
    const looker = new AbortController();
    const looks = [1, 2, 3].map(() => refusal(readPool.look(reader(looker.signal), sleeps)));
    expect(await readPool.run(stays(), one)).toBe(1);
    looker.abort();
    await Promise.all(looks);
    await other.close();
  });

  it("that fails is its caller's, and the session is free", async () => {
    const readPool = new ReadPool({ sessions: [session] });
    await expect(readPool.run(stays(), (sql) => sql`select 1 / 0`)).rejects.toMatchObject({ code: "22012" });
    expect(await readPool.run(stays(), one)).toBe(1);
  });
});
