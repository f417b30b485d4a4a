// Reads of clients that hang: a lock on a table that no start needs holds them for as long as the test wants.
// @module-tag long
// @access both
import { get } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Client, hangUp } from "../api/client.js";
import { credential } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Service, startService } from "./rig.js";

const READS = 40;

let database: TestDatabase;
let service: Service;
beforeAll(async () => {
  database = await createTestDatabase();
  service = await startService(database.url);
});
afterAll(async () => {
  hangUp();
  await service.stop();
  await database.drop();
});

const heartbeat = async () => {
  const [row] = await database.sql<{ at: Date }[]>`select max(heartbeat_at) as at from nodes`;
  return row?.at.getTime() ?? 0;
};

describe("slow reads", () => {
  it("hold up neither starts nor the heartbeat nor the reads of single runs nor the stream of a run that has ended", async () => {
    const { client } = service;
    const { sql } = database;
    await client.publish("quick", [{ id: "one", type: "transform", expression: "1" }]);
    let answered = 0;
    let reads: Promise<unknown>[] = [];
    await sql.begin(async (transaction) => {
      await transaction`set local idle_in_transaction_session_timeout = 0`;
      await transaction`lock table user_tasks in access exclusive mode`;
      reads = Array.from({ length: READS }, async () => {
        await client.ask("GET", "/user_tasks");
        answered++;
      });
      await until(async () => {
        const [row] = await sql<{ held: number }[]>`
          select count(*)::int as held from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
        return (row?.held ?? 0) >= 3;
      });
      const runId = await client.start("quick");
      await until(async () => (await sql`select 1 from runs where id = ${runId} and state = 'succeeded'`).length === 1);
      const before = await heartbeat();
      await until(async () => (await heartbeat()) > before);
      const stream = new Client(service.node.httpPort, runId);
      await until(() => stream.code !== undefined);
      expect(stream.kinds).toEqual(["snapshot", "end"]);
      expect((await client.ask("GET", `/sagas/${runId}`)).status).toBe(200);
      // A read gives up its lock after five seconds, and the next ones wait: most are still unanswered.
      expect(answered).toBeLessThan(READS / 2);
    });
    await Promise.all(reads);
  });

  it("end in Postgres when their clients go away", async () => {
    const { sql } = database;
    const held = async () => {
      const [row] = await sql<{ held: number }[]>`
        select count(*)::int as held from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
      return row?.held ?? 0;
    };
    await sql.begin(async (transaction) => {
      await transaction`set local idle_in_transaction_session_timeout = 0`;
      await transaction`lock table user_tasks in access exclusive mode`;
      const url = `http://127.0.0.1:${service.node.httpPort}/api/v1/user_tasks`;
      const clients = Array.from({ length: READS }, () =>
        get(url, { agent: false, headers: credential() }).on("error", () => {}),
      );
      await until(async () => (await held()) >= 3);
      for (const client of clients) client.destroy();
      // Without a cancel each gives up its lock after five seconds, and the next ones take their place.
      await until(async () => (await held()) === 0, { within: 15_000 });
    });
    expect((await service.client.ask("GET", "/user_tasks")).status).toBe(200);
  });
});
