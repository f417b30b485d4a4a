// What has no tenant is given to one: a database from before there were tenants, while its nodes run. And the same by the command.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { asRunId, type JsonObject, type RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { hashOfKey } from "../../src/store/engine/start-keys.js";
import { workflowVersions } from "../../src/store/lists/definitions.js";
import { lockServices } from "../../src/store/lists/registry.js";
import { countEnds } from "../../src/store/statistics/end-counts.js";
import { countRuns } from "../../src/store/statistics/run-counts.js";
import { adopt } from "../../src/store/upkeep/adoption.js";
import { Erasure } from "../../src/store/upkeep/erasure.js";
import { createTestDatabase, deleteRuns, forgetCounts, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, registerActions, signal, start, startHalf } from "../run/rig.js";
import { pruneRuns } from "./retained.js";

let database: TestDatabase;
let half: Half | undefined;
beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
});
beforeEach(async () => {
  await deleteRuns(database.sql);
  await forgetCounts(database.sql);
  await database.sql`delete from start_keys`;
  for (const table of ["definitions", "rules", "actions", "triggers", "bulk_jobs"])
    await database.sql`delete from ${database.sql(table)}`;
});
afterEach(async () => {
  await half?.stop();
  half = undefined;
});
afterAll(() => database.drop());

const NONE = { runs: 0, triggers: 0, jobs: 0, workflows: 0, rules: 0, services: 0, left: 0 };
const [A, B] = [uuidv7(), uuidv7()];
const ownersIn = async (table: string) =>
  (
    await database.sql<{ tenant: string | null }[]>`select tenant_id as tenant from ${database.sql(table)} order by 1`
  ).map(({ tenant }) => tenant);
const ownerOf = async (runId: RunId) =>
  (await database.sql<{ tenant: string | null }[]>`select tenant_id as tenant from runs where id = ${runId}`)[0]
    ?.tenant;

/** Runs that ended long ago, as an earlier release left them. */
async function insertEnded(count: number, more: { tenant?: string; id?: string } = {}): Promise<void> {
  await database.sql`
    insert into runs (id, shard, revision, fence, last_seq, state, last_event_at, terminal_at, requires_manual_review, record, workflow_id,
      version, definition_id, tenant_id, started_at)
    select coalesce(${more.id ?? null}::uuid, gen_random_uuid()), 0, 1, 1, 1, (array['succeeded', 'failed'])[1 + nth % 2], now(), now() - interval '1 hour', false,
      '{}', 'old', 1, gen_random_uuid(), ${more.tenant ?? null}::uuid, now() - interval '2 hours' from generate_series(1, ${count}::int) nth`;
}

describe("what has no tenant", () => {
  it("is given to one: runs, triggers, jobs, workflow ids, rule ids and services; what has one stays", async () => {
    const { sql } = database;
    await insertEnded(3);
    await insertEnded(2, { tenant: B });
    await sql`insert into triggers (id, shard, trigger_type, workflow_id, config, enabled, tenant_id)
      select gen_random_uuid(), 0, 'cron', 'w', '{}', false, tenant from unnest(array[null, ${B}]::uuid[]) tenant`;
    await sql`insert into bulk_jobs (id, shard, action, filter, params, state, matched, actor, reach, request_hash, tenant_id)
      select gen_random_uuid(), 0, 'cancel', '{}', '{}', 'done', 0, 'api', '{"tenants":"*"}', '', tenant from unnest(array[null, ${B}]::uuid[]) tenant`;
    for (const [name, versions] of [
      ["w1", 2],
      ["w2", 1],
    ] as const)
      for (let version = 1; version <= versions; version++) await store(name, version, null);
    await store("w3", 1, B);
    await sql`insert into rules (id, rule_id, version, name, published, ever_published, rule_type, spec) values (gen_random_uuid(), 'r', 1, 'r', true, true, 'decision_table', '{}')`;
    await registerActions(database, "pay", "ship");
    expect(await adopt(sql, A)).toEqual({
      runs: 3,
      triggers: 1,
      jobs: 1,
      workflows: 2,
      rules: 1,
      services: 1,
      left: 0,
    });
    const sorted = (...owners: string[]) => owners.sort();
    expect(await ownersIn("runs")).toEqual(sorted(A, A, A, B, B));
    expect(await ownersIn("triggers")).toEqual(sorted(A, B));
    expect(await ownersIn("bulk_jobs")).toEqual(sorted(A, B));
    expect(await ownersIn("definitions")).toEqual(sorted(A, A, A, B));
    expect(await ownersIn("rules")).toEqual([A]);
    expect(await ownersIn("actions")).toEqual([A, A]);
    const reaches = await sql<{ reach: JsonObject }[]>`select reach from bulk_jobs where tenant_id = ${A}`;
    expect(reaches).toEqual([{ reach: { tenants: [A] } }]);
  });

  it("is given once: a second time there is nothing, and to another tenant nothing either", async () => {
    await insertEnded(3);
    await store("w1", 1, null);
    await registerActions(database, "pay");
    expect(await adopt(database.sql, A)).toMatchObject({ runs: 3, workflows: 1, services: 1 });
    for (const tenant of [A, B]) expect(await adopt(database.sql, tenant)).toEqual(NONE);
    await insertEnded(1);
    expect(await adopt(database.sql, A)).toEqual({ ...NONE, runs: 1 });
  });

  it("is given by two at once to one of them, each thing once", async () => {
    await insertEnded(2_500);
    await store("w1", 1, null);
    const given = await Promise.all([adopt(database.sql, A), adopt(database.sql, B)]);
    expect(given[0].runs + given[1].runs).toBe(2_500);
    expect(given[0].workflows + given[1].workflows).toBe(1);
  });

  it("leaves the platform a name of which a version is a tenant's", async () => {
    await store("mixed", 1, B);
    await store("mixed", 2, null);
    expect(await adopt(database.sql, A)).toEqual(NONE);
  });
});

const store = (key: string, version: number, tenantId: string | null) =>
  workflowVersions.store(
    database.sql,
    { key, version, name: `${key} ${version}`, publish: true, document: { id: key, name: `${key} ${version}` } },
    { tenantId, exclusive: false },
  );

describe("the counts of ended runs", () => {
  const counts = async (tenantId: string | undefined) =>
    (await countRuns(database.sql, EVERYTHING, { workflowId: "old", ...(tenantId && { tenantId }) })).items.reduce(
      (sum, { count }) => sum + count,
      0,
    );

  it.each(["before they are counted", "after they are counted"])("follow the runs that are given %s", async (when) => {
    await insertEnded(10);
    await insertEnded(4, { tenant: B });
    if (when.startsWith("after")) await countEnds(database.sql);
    await adopt(database.sql, A);
    for (let nth = 0; nth < 2; nth++) {
      expect([await counts(A), await counts(B), await counts(undefined)]).toEqual([10, 4, 14]);
      await countEnds(database.sql);
    }
    const rows = await database.sql<{ tenant: string; n: number }[]>`
      select tenant_id as tenant, sum(count)::int as n from run_end_counts where minute = '-infinity' group by 1 order by 1`;
    expect(rows).toEqual(
      [
        { tenant: A, n: 10 },
        { tenant: B, n: 4 },
      ].sort((one, two) => (one.tenant < two.tenant ? -1 : 1)),
    );
  });
});

describe("a run that a node has in memory", () => {
  it("goes on as the tenant's, with the children that it starts from then on", async () => {
    await publish(database, "inner", [{ id: "in", type: "wait_for_signal", signal_name: "go" }]);
    await publish(database, "outer", [
      { id: "wait", type: "wait_for_signal", signal_name: "go", next: "sub" },
      { id: "sub", type: "sub_saga", workflow_id: "inner", next: "done" },
      { id: "done", type: "end", output: "${run.tenant_id}" },
    ]);
    half = await startHalf(database);
    const runId = await start(half.starter, "outer");
    await until(async () => (await stateOf(runId)) === "paused");
    expect(await adopt(database.sql, A)).toMatchObject({ runs: 1, left: 0 });
    await half.runtime.command(runId, signal(uuidv7(), "go"), { reach: EVERYTHING });
    const child = await until(async () => {
      const [row] = await database.sql<
        { id: string }[]
      >`select id from runs where parent_run_id = ${runId} and state = 'paused'`;
      return row && asRunId(row.id);
    });
    expect([await ownerOf(runId), await ownerOf(child)]).toEqual([A, A]);
    await half.runtime.command(child, signal(uuidv7(), "go"), { reach: { tenants: [A] } });
    await until(async () => (await stateOf(runId)) === "succeeded");
    const [row] = await database.sql<{ output: unknown }[]>`select output from runs where id = ${runId}`;
    expect(row?.output).toBe(A);
  });

  it("is not given while a commit has its row, and is left for the next time", async () => {
    await publish(database, "outer", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
    half = await startHalf(database);
    const runId = await start(half.starter, "outer");
    await until(async () => (await stateOf(runId)) === "paused");
    const { sql, close } = database.session();
    await sql.begin(async (transaction) => {
      await transaction`select from runs where id = ${runId} for update`;
      expect(await adopt(database.sql, A)).toMatchObject({ runs: 0, left: 1 });
    });
    await close();
    expect(await adopt(database.sql, A)).toMatchObject({ runs: 1, left: 0 });
  });

  it("is found by its idempotency key as before, and goes with its key", async () => {
    await publish(database, "once", [{ id: "on", type: "noop" }]);
    half = await startHalf(database);
    const runId = await start(half.starter, "once", { idempotencyKey: "k" });
    await until(async () => (await stateOf(runId)) === "succeeded");
    await adopt(database.sql, A);
    const keys = await database.sql`select scope, key, run_id from start_keys`;
    expect(keys).toEqual([{ scope: `${A}/once`, key: hashOfKey("k"), run_id: runId }]);
    await expect(start(half.starter, "once", { idempotencyKey: "k", tenantId: A })).rejects.toMatchObject({
      status: 409,
    });
    await database.sql`update runs set tenant_id = tenant_id`;
    await pruneRuns(database.sql, { runDays: 0 });
    expect(await database.sql`select from start_keys`).toHaveLength(0);
  });

  it("that was erased is its tenant's, and so is its idempotency key", async () => {
    await publish(database, "once", [{ id: "on", type: "noop" }]);
    half = await startHalf(database);
    const runId = await start(half.starter, "once", { idempotencyKey: "k" });
    await until(async () => (await stateOf(runId)) === "succeeded");
    await new Erasure(database.sql).erase(runId, { actor: "api", reach: { tenants: "*" } });
    for (const _ of ["once", "again"]) await adopt(database.sql, A);
    expect(await database.sql`select tenant_id from erased_runs`).toEqual([{ tenant_id: A }]);
    await expect(start(half.starter, "once", { idempotencyKey: "k", tenantId: A })).rejects.toMatchObject({
      ...{ status: 409, message: expect.stringContaining("erased") },
    });
  });
});

const stateOf = async (runId: RunId) =>
  (await database.sql<{ state: string }[]>`select state from runs where id = ${runId}`)[0]?.state;

describe("a run that has ended", () => {
  it("may be given to a tenant, and changes in nothing else", async () => {
    await insertEnded(1);
    await database.sql`update runs set state = 'running'`;
    await database.sql`update runs set state = 'running', tenant_id = null`;
    expect((await database.sql`select state from runs`)[0]?.state).toBe("failed");
    await adopt(database.sql, A);
    await database.sql`update runs set tenant_id = ${B}`;
    expect(await ownersIn("runs")).toEqual([A]);
  });
});

describe("a service", () => {
  it("that is registered while it is given away has one owner", async () => {
    await registerActions(database, "pay");
    const { sql, close } = database.session();
    const adopted = await sql.begin(async (transaction) => {
      await lockServices(transaction, ["shop"]);
      await transaction`
        insert into actions (id, service, action_name, version, compensable, input_schema, output_schema, deprecated, dry_run_supported, transport)
        values (gen_random_uuid(), 'shop', 'ship', 1, false, '{}', '{}', false, false, 'grpc')`;
      const adopting = adopt(database.sql, A);
      await until(async () => {
        const [row] = await database.sql`select from pg_locks where locktype = 'advisory' and not granted`;
        return row !== undefined;
      });
      return { adopting };
    });
    await close();
    expect(await adopted.adopting).toMatchObject({ services: 1 });
    expect(await ownersIn("actions")).toEqual([A, A]);
  });
});
