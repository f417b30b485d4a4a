// A failover that leaves sessions behind on a server that has become read-only: they answer, so nothing closes them. The service says
// that it is not ready, replaces them by itself, and continues.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { nothingUnwatched } from "../run/seen.js";
import { type Service, startService } from "./rig.js";

let database: TestDatabase;
let service: Service;

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  service = await startService(database.url);
  await service.client.publish("wait", [
    { id: "timer", type: "wait_duration", duration_ms: 300, next: "wait" },
    { id: "wait", type: "wait_for_signal", signal_name: "go" },
  ]);
});
afterAll(async () => {
  await service.stop();
  await database.drop();
});

const name = () => new URL(database.url).pathname.slice(1);
/** Every session of the service is closed by the server, and the new ones are opened as that has decided. */
const closeSessions = () => database.sql`
  select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name like 'saga%'
    and pid <> pg_backend_pid() and application_name <> 'saga-test'`;
const sessions = async () => {
  const rows = await database.sql<{ pid: number }[]>`
    select pid from pg_stat_activity where datname = current_database() and application_name like 'saga%' and application_name <> 'saga-test'`;
  return rows.map(({ pid }) => pid);
};

describe("sessions that are left behind on a read-only server", () => {
  it("make the service not ready, are replaced, and runs continue", async () => {
    const { client } = service;
    const ready = async () => {
      const response = await fetch(new URL("/readyz", client.url));
      const text = await response.text();
      return response.ok ? "ready" : text.includes("the store is read-only") ? "read-only" : text;
    };
    const runId = await client.start("wait");
    expect(await ready()).toBe("ready");
    await database.sql.unsafe(`alter database ${name()} set default_transaction_read_only = on`);
    await closeSessions();
    await until(async () => (await ready()) === "read-only");
    // All sessions of the pools are opened there.
    const asked = await Promise.all(
      Array.from({ length: 20 }, () => client.ask("POST", "/sagas/start", { workflow_id: "wait" })),
    );
    expect(new Set(asked.map(({ status }) => status))).toEqual(new Set([503]));
    const left = await until(async () => {
      // They are replaced all the time, so there may be none for a moment.
      const open = await sessions();
      return open.length > 0 && open;
    });
    // New sessions reach the server that takes writes; those that are open stay where they are.
    await database.sql.unsafe(`alter database ${name()} reset default_transaction_read_only`);
    await until(async () => (await ready()) === "ready");
    await until(async () => (await sessions()).every((pid) => !left.includes(pid)));
    // It matches at once, or when the run comes to wait for it.
    await client.insist("POST", `/sagas/${runId}/signal/go`, {});
    await until(async () => (await client.run(runId)).state === "succeeded");
    await nothingUnwatched(database.sql);
  });
});
