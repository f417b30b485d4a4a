// The things of two tenants and of the platform, as rows, and the three ways to read them: behind both walls, and behind each of them alone.
import type { FastifyInstance } from "fastify";
import type { Sql } from "postgres";
import { EVERYTHING, type Verifier } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import type { Reach } from "../../src/store/lists/reach.js";
import { type Reader, ReadPool } from "../../src/store/lists/read-pool.js";
import { openReaders } from "../harness/readers.js";
import { appendEvents, insertRun, otherApi, type Rig, readPoolOn, WORKFLOW } from "./rig.js";

/** What a tenant has, by the name of the parameter that names it in a path. */
export interface Owned {
  readonly id: string;
  readonly childId: string;
  readonly wideId: string;
  readonly taskId: string;
  readonly triggerId: string;
  readonly fireId: string;
  readonly bulkId: string;
  readonly signalId: string;
  readonly wf_id: string;
  readonly rule_id: string;
  readonly service: string;
}
/** What paths name. */
export type Named = Pick<Owned, "id" | "bulkId" | "triggerId" | "wf_id" | "rule_id">;

/** A thing of every kind. `mark`: begins the names of what has a name. */
export async function seed(rig: Rig, mark: string, tenant: string | null): Promise<Owned> {
  const { sql } = rig.database;
  const ids = { taskId: uuidv7(), triggerId: uuidv7(), fireId: uuidv7(), bulkId: uuidv7(), signalId: uuidv7() };
  const names = { wf_id: `${mark}.flow`, rule_id: `${mark}.rule`, service: `${mark}.service` };
  const record = { entries: 1, entry: { number: 1, at: 0 }, groups: {} };
  const owner = { ...(tenant !== null && { tenant_id: tenant }), record };
  const past = new Date(Date.now() - 3_600_000).toISOString();
  const id = await insertRun(rig, {
    ...owner,
    workflow_id: names.wf_id,
    state: "running",
    business_key: `key-${mark}`,
  });
  const childId = await insertRun(rig, {
    ...{ ...owner, workflow_id: names.wf_id, state: "paused", paused_reason: "incident", requires_manual_review: true },
    ...{ parent_run_id: id, parent_step_id: "sub", root_run_id: id },
  });
  // A sub-saga of another workflow.
  const wideId = await insertRun(rig, {
    ...{
      ...owner,
      workflow_id: `${mark}.wide`,
      state: "failed",
      terminal_at: past,
      parent_run_id: id,
      parent_step_id: "sub",
    },
  });
  for (const run of [id, wideId]) await appendEvents(rig, run, [{ type: "log", step: "one" }]);
  for (const run of [id, childId, wideId]) {
    await sql`insert into run_labels values (${run}, 'kind', 'seeded')`;
    await sql`insert into undo (owner_run_id, step_id, entry, forward_idempotency_key, state) values (${run}, 'one', 1, '', 'failed')`;
  }
  await sql`insert into signals (id, run_id, signal_name, received_at) values (${ids.signalId}, ${id}, 'go', now())`;
  await sql`insert into user_tasks (id, run_id, step_id, assignee) values (${ids.taskId}, ${id}, 'ask', 'ann')`;
  const document = JSON.stringify({ ...WORKFLOW, id: names.wf_id });
  await sql`insert into definitions (definition_id, workflow_id, version, tenant_id, name, published, ever_published, document)
    values (${uuidv7()}, ${names.wf_id}, 1, ${tenant}, 'seeded', true, true, ${document}::text::json)`;
  await sql`insert into rules (id, rule_id, version, tenant_id, name, published, ever_published, rule_type, spec)
    values (${uuidv7()}, ${names.rule_id}, 1, ${tenant}, 'seeded', true, true, 'decision_table', '{}')`;
  await sql`insert into actions (id, service, action_name, version, compensable, input_schema, output_schema, deprecated, dry_run_supported, transport, tenant_id)
    values (${uuidv7()}, ${names.service}, 'act', 1, false, '{}', '{}', false, false, 'grpc', ${tenant})`;
  const config = JSON.stringify({ schedule: "0 0 * * *" });
  await sql`insert into triggers (id, shard, trigger_type, workflow_id, config, enabled, tenant_id)
    values (${ids.triggerId}, 0, 'cron', ${names.wf_id}, ${config}::text::json, true, ${tenant})`;
  await sql`insert into trigger_fires (id, trigger_id, workflow_id, scheduled_at, fired_at) values (${ids.fireId}, ${ids.triggerId}, ${names.wf_id}, now(), now())`;
  const reach = JSON.stringify({ tenants: tenant === null ? "*" : [tenant] });
  await sql`insert into bulk_jobs (id, shard, action, filter, params, state, matched, actor, tenant_id, reach, request_hash)
    values (${ids.bulkId}, 0, 'pause', '{}', '{}', 'done', 1, 'api', ${tenant}, ${reach}::text::json, '')`;
  await sql`insert into bulk_targets (bulk_id, nth, run_id, state) values (${ids.bulkId}, 1, ${id}, 'done')`;
  await sql`insert into forks (origin_id, fork_id, step, entry, inherits, at) values (${id}, ${wideId}, 'one', 1, true, now())`;
  return { id, childId, wideId, ...ids, ...names };
}

/** What more a tenant has: a second of each thing, so that each list has a next page, and what its filters ask for. */
export async function seedMore(rig: Rig, mark: string, tenant: string, one: Owned): Promise<void> {
  const { sql } = rig.database;
  const { id, wf_id } = one;
  const of = { tenant_id: tenant, workflow_id: wf_id };
  const entry = { entries: 1, entry: { number: 1, at: 0 }, groups: {} };
  const ended = (at: string, more: object) => ({ ...of, started_at: at, terminal_at: at, ...more });
  const waiting = await insertRun(rig, {
    ...{ ...of, version: 7, state: "paused", paused_reason: "signal", awaited_signal: `${mark}.signal` },
    ...{ current_step: `${mark}.step`, record: entry },
  });
  await sql`update runs set trigger_id = ${one.triggerId} where id = ${waiting}`;
  await sql`insert into run_labels values (${waiting}, 'owner', ${mark})`;
  await insertRun(rig, {
    ...{
      ...of,
      state: "paused",
      paused_reason: "incident",
      parent_run_id: id,
      parent_step_id: `${mark}.sub`,
      root_run_id: id,
    },
    record: { ...entry, wait: { error: { code: `${mark}.stuck`, message: "no" } } },
  });
  const error = { error: { code: `${mark}.code`, message: "no" } };
  await insertRun(rig, ended("1990-01-01T00:00:00.000Z", { state: "succeeded", output: {} }));
  await insertRun(rig, ended("2090-01-01T00:00:00.000Z", { state: "failed", record: { ending: error } }));
  // Of a workflow that everyone may use.
  const now = new Date(Date.now() - 60_000).toISOString();
  await insertRun(rig, ended(now, { workflow_id: "none.flow", state: "failed", record: { ending: error } }));
  await insertRun(rig, { ...of, workflow_id: "none.flow", state: "paused", paused_reason: "timer", record: entry });
  await appendEvents(rig, id, [{ type: "log", step: "two" }]);
  await sql`insert into signals (id, run_id, signal_name, received_at) values (${uuidv7()}, ${id}, 'again', now())`;
  await sql`insert into undo (owner_run_id, step_id, entry, forward_idempotency_key, state) values (${id}, 'two', 2, '', 'done')`;
  await sql`insert into user_tasks (id, run_id, step_id, assignee, submitted_at, closed_at)
    values (${uuidv7()}, ${id}, 'ask', ${`${mark}.person`}, now(), now())`;
  for (const [key, version] of [
    [wf_id, 7],
    [`${mark}.second`, 1],
  ] as const)
    await sql`insert into definitions (definition_id, workflow_id, version, tenant_id, name, published, ever_published, document)
      values (${uuidv7()}, ${key}, ${version}, ${tenant}, 'seeded', true, true, ${JSON.stringify({ ...WORKFLOW, id: key })}::text::json)`;
  for (const [key, version] of [
    [one.rule_id, 2],
    [`${mark}.second`, 1],
  ] as const)
    await sql`insert into rules (id, rule_id, version, tenant_id, name, published, ever_published, rule_type, spec)
      values (${uuidv7()}, ${key}, ${version}, ${tenant}, 'seeded', true, true, 'decision_table', '{}')`;
  await sql`insert into actions (id, service, action_name, version, category, compensable, input_schema, output_schema, deprecated, dry_run_supported, transport, tenant_id)
    values (${uuidv7()}, ${one.service}, 'more', 1, ${`${mark}.kind`}, false, '{}', '{}', false, false, 'grpc', ${tenant})`;
  await sql`insert into triggers (id, shard, trigger_type, workflow_id, config, enabled, tenant_id)
    values (${uuidv7()}, 0, 'record_transition', ${wf_id}, '{}', false, ${tenant})`;
  await sql`insert into trigger_fires (id, trigger_id, workflow_id, scheduled_at, fired_at) values (${uuidv7()}, ${one.triggerId}, ${wf_id}, now(), now())`;
  await sql`insert into bulk_jobs (id, shard, action, filter, params, state, matched, actor, tenant_id, reach, request_hash)
    values (${uuidv7()}, 0, 'pause', '{}', '{}', 'done', 0, 'api', ${tenant}, ${JSON.stringify({ tenants: [tenant] })}::text::json, '')`;
  for (const nth of [1, 2])
    await sql`insert into api_keys (id, secret_hash, name, tenant_id, roles, created_by)
      values (${`${mark}${nth}`.padEnd(16, "0")}, ${mark}, ${`${mark}.key`}, ${tenant}, '["viewer"]', 'cli')`;
}

/** The path of one thing. Throws where this file knows no such thing. */
export function pathOf(path: string, { id, bulkId, triggerId, wf_id, rule_id }: Named): string {
  return path.replace(/\/([a-z_]+)\/\{(\w+)\}/, (_, collection: string, parameter: string) => {
    const ids = {
      "sagas id": id,
      "inspect run_id": id,
      "bulk id": bulkId,
      "triggers id": triggerId,
      "workflows wf_id": wf_id,
      "rules rule_id": rule_id,
    };
    const value = ids[`${collection} ${parameter}` as keyof typeof ids];
    if (value === undefined) throw new Error(`a new kind of thing is read, ${path}: seed one for each tenant`);
    return `/${collection}/${value}`;
  });
}

/** The conditions of the statements ask for nothing: row-level security stands alone. */
function withoutConditions(pool: ReadPool): ReadPool {
  type Read<T> = (sql: Sql, reach: Reach) => Promise<T>;
  const run = <T>(reader: Reader, read: Read<T>) => pool.run(reader, (sql) => read(sql, EVERYTHING));
  const look = <T>(reader: Reader, read: Read<T>) => pool.look(reader, (sql) => read(sql, EVERYTHING));
  return { run, look } as unknown as ReadPool;
}

export const worker = (service: string, tenants?: readonly string[]) => ({
  ...{
    workerId: "w",
    service,
    actions: [],
    transport: "grpc" as const,
    nodeId: "n",
    since: 0,
    inFlight: 0,
    maxInFlight: 1,
  },
  ...(tenants && { tenants }),
});
export const waits = (service: string, tenantId?: string) => ({
  ...{ service, action: "act", version: 1, transport: "grpc" as const, calls: 1 },
  ...(tenantId !== undefined && { tenantId }),
});

export const WALLS = ["both walls", "the conditions of the statements alone", "row-level security alone"] as const;
export type Wall = (typeof WALLS)[number];

export interface OpenWalls {
  app(wall: Wall): FastifyInstance;
  close(): Promise<void>;
}

/** An API behind each of the walls, on the same rows. */
export async function openWalls(rig: Rig, verifier: Verifier): Promise<OpenWalls> {
  const readers = await openReaders(rig.database);
  const guarded = new ReadPool({ sessions: readers.sessions });
  const pools: Readonly<Record<Wall, ReadPool>> = {
    "both walls": guarded,
    "the conditions of the statements alone": readPoolOn(rig.database.sql),
    "row-level security alone": withoutConditions(guarded),
  };
  const apps = new Map<Wall, FastifyInstance>();
  for (const wall of WALLS) {
    const app = await otherApi(rig, {}, { verifier, readPool: pools[wall] });
    await app.listen({ port: 0, host: "127.0.0.1" });
    apps.set(wall, app);
  }
  return {
    app: (wall) => apps.get(wall) as FastifyInstance,
    close: async () => {
      for (const app of apps.values()) await app.close();
      await readers.close();
    },
  };
}
