// The API on a database of its own, with ports that the test fills: the runtime is a stub that records the commands it gets. Rows that
// the runtime would have written are inserted here.

import { Writable } from "node:stream";
import type { FastifyInstance, InjectOptions } from "fastify";
import type { Sql, TransactionSql } from "postgres";
import { afterAll, beforeAll } from "vitest";
import {
  type Answer,
  type AnswerTo,
  asRunId,
  compileRule,
  compileWorkflow,
  type JsonObject,
  type Program,
  type RunCommand,
  type RunId,
  Schemas,
} from "../../machines/index.js";
import { SecurityLog } from "../../src/access/index.js";
import { type ApiConfig, type ApiDeps, buildApi, loadDefinitionsDir } from "../../src/api/index.js";
import type { Workers } from "../../src/dispatch/workers.js";
import { createFeed, type Feed } from "../../src/feed/index.js";
import { shardOf } from "../../src/ids.js";
import { createLogger } from "../../src/log.js";
import { createMetrics } from "../../src/metrics/index.js";
import { BulkJobs, Migrations, Reruns } from "../../src/operate/index.js";
import type { CommandOptions, StartRequest } from "../../src/run/ports.js";
import { workflowVersions } from "../../src/store/lists/definitions.js";
import { ReadPool } from "../../src/store/lists/read-pool.js";
import { Erasure } from "../../src/store/upkeep/erasure.js";
import { Triggers } from "../../src/trigger/index.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { documented } from "./documented.js";

export interface Asked {
  readonly runId: string;
  readonly command: RunCommand;
  readonly options?: CommandOptions;
}

/** Database time, as the API sees it. */
export const NOW = 1_700_000_000_000;

export interface Rig {
  app: FastifyInstance;
  database: TestDatabase;
  feed: Feed;
  readonly started: StartRequest[];
  readonly asked: Asked[];
  readonly announced: string[];
  readonly logLines: string[];
  refreshed: number;
  ready: boolean;
  /** What all nodes know of workers. */
  workers: Workers;
  /** Requests that were admitted and are not over. */
  admitted: number;
  /** A second API with the rig's ports. Close it. */
  another(): Promise<FastifyInstance>;
  answer: (command: RunCommand, runId: string) => Answer;
  call(
    method: InjectOptions["method"],
    url: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Response>;
  countRows(): Promise<number>;
  /** Loads definitions as a node does at its start. */
  loadDefinitions(dir: string): Promise<void>;
}

export interface Response {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of any shape, and fail where they have another.
  readonly body: any;
  readonly headers: Readonly<Record<string, unknown>>;
}

export const compile: ApiDeps["compile"] = {
  compileWorkflow: async (document, options) => compileWorkflow(document, options),
  compileRule: async (document, options) => compileRule(document, options),
  machineConfig: (program) => program.chart,
};

const RUN_ID = asRunId("0190a000-0000-7000-8000-0000000000aa");

/** With a verifier, access is on. */
export interface RigOptions {
  readonly amqp?: boolean;
  readonly pingMs?: number;
  readonly maxWaiters?: number;
  readonly deps?: Partial<ApiDeps>;
}

/** Call it at the top of a test file. */
export function useRig(options: RigOptions = {}): Rig {
  const rig = {
    started: [],
    asked: [],
    announced: [],
    logLines: [],
    refreshed: 0,
    ready: true,
    admitted: 0,
    workers: {
      report: async () => ({ workers: [], waiting: [], silent: [], leftOff: 0 }),
      obstacles: async (actions: readonly unknown[]) => actions.map(() => ({ reason: "no_worker" })),
      holder: async () => undefined,
    },
    answer: defaultAnswer,
  } as unknown as Rig;
  beforeAll(async () => {
    rig.database = await createTestDatabase({ max: 5 });
    const { sql, url } = rig.database;
    rig.feed = createFeed({ sql, listenUrl: url, log: silentLog, pollMs: 200 });
    rig.app = await buildApi({ ...depsOf(rig, options), ...options.deps });
  });
  afterAll(async () => {
    await rig.app?.close();
    await rig.feed?.stop();
    await rig.database?.drop();
  });
  rig.another = async () => buildApi({ ...depsOf(rig, options), ...options.deps });
  rig.call = async (method, url, body, headers = {}) => {
    const payload =
      body === undefined || typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    const type = body === undefined ? {} : { "content-type": "application/json" };
    const response = await rig.app.inject({ method, url, payload, headers: { ...type, ...headers } });
    const isJson = String(response.headers["content-type"]).includes("json");
    const parsed = isJson && response.body !== "" ? JSON.parse(response.body) : response.body;
    const { statusCode: status } = response;
    const contentType = response.headers["content-type"]?.toString();
    documented().check({ method: method ?? "GET", path: url, status, contentType, body: parsed });
    return { status, body: parsed, headers: response.headers };
  };
  rig.loadDefinitions = async (dir) => loadDefinitionsDir(dir, { ...depsOf(rig, options), ...options.deps });
  rig.countRows = async () => {
    const [row] = await rig.database.sql<{ n: number }[]>`
      select ((select count(*) from definitions) + (select count(*) from rules) + (select count(*) from actions) + (select count(*) from runs))::int as n`;
    return row?.n ?? 0;
  };
  return rig;
}

const LOOPBACK: ApiConfig["access"] = {
  host: "127.0.0.1",
  publicUrl: "http://127.0.0.1:8080",
  allowedHosts: [],
  allowedOrigins: [],
};

/** A second API on the rig's database, which others may reach. Close it. */
export function otherApi(
  rig: Rig,
  access: Partial<ApiConfig["access"]>,
  other: Omit<Partial<ApiDeps>, "config"> & { readonly config?: Partial<ApiConfig> } = {},
): Promise<FastifyInstance> {
  const deps = depsOf(rig, {});
  return buildApi({
    ...deps,
    ...other,
    config: { ...deps.config, ...other.config, access: { ...LOOPBACK, ...access } },
  });
}

function depsOf(rig: Rig, { amqp = false, pingMs, maxWaiters, deps: { verifier } = {} }: RigOptions): ApiDeps {
  const owned = verifier !== undefined;
  const lines = new Writable({
    write(chunk, _encoding, done) {
      rig.logLines.push(String(chunk));
      done();
    },
  });
  const starter: ApiDeps["starter"] = {
    start: async (request) => {
      rig.started.push(request);
      const runId = request.runId ?? RUN_ID;
      const { workflowId, version = 1 } = request;
      return { runId, workflowId, version, definitionId: RUN_ID, state: "pending", deduplicated: false };
    },
  };
  const runs: ApiDeps["runs"] = {
    command: async <C extends RunCommand>(runId: string, command: C, options?: CommandOptions) => {
      rig.asked.push({ runId, command, options });
      return rig.answer(command, runId) as AnswerTo<C>;
    },
  };
  const log = createLogger({ logLevel: "info" }, lines);
  const deps: Omit<ApiDeps, "triggers"> = {
    config: {
      ...(amqp && { amqpUrl: "amqp://localhost" }),
      limits: { bodyBytes: 2 * 1024 * 1024, outputBytes: 1024 * 1024 },
      keepAliveMs: 60_000,
      auth: "off",
      access: LOOPBACK,
      inspector: {},
    },
    ...{ starter, runs, canceller: runs },
    catalog: {
      program: async (definitionId) => {
        const [row] = await rig.database.sql<{ document: JsonObject }[]>`
          select document from definitions where definition_id = ${definitionId}`;
        return compileWorkflow(row?.document).program as Program;
      },
      published: async (workflowId, version) => {
        const rows = await rig.database.sql<
          { definition_id: string; version: number; tenant_id: string | null; document: JsonObject }[]
        >`
          select definition_id, version, tenant_id, document from definitions
          where workflow_id = ${workflowId} and published order by version desc`;
        const row = rows.find((one) => version === undefined || one.version === version);
        const { program } = row ? compileWorkflow(row.document, { version: row.version }) : {};
        const owner = owned && row?.tenant_id ? { owner: row.tenant_id } : {};
        return row && program && { definitionId: row.definition_id, program, ...owner };
      },
      stored: async (workflowId, version, tenantId) => {
        const usableBy = { tenantId: tenantId ?? null, owned };
        return workflowVersions.exists(rig.database.sql, workflowId, { version, usableBy });
      },
      action: () => undefined,
      actionNames: () => ["shop.charge"],
      rule: () => undefined,
      refresh: async () => {
        rig.refreshed++;
      },
    },
    schemas: new Schemas(),
    sql: rig.database.sql,
    readPool: readPoolOn(rig.database.sql),
    upkeep: rig.database.sql,
    security: new SecurityLog(log),
    feed: rig.feed,
    workers: rig.workers,
    announcer: { announce: (eventId) => rig.announced.push(eventId) },
    shedder: {
      admit: () => {
        rig.admitted++;
        let held = true;
        const release = () => {
          if (held) rig.admitted--;
          held = false;
        };
        return { receive: () => {}, begin: () => {}, release };
      },
    },
    reruns: new Reruns(rig.database.sql, starter),
    bulk: new BulkJobs({ sql: rig.database.sql, onCreated: () => {} }),
    erasure: new Erasure(rig.database.sql),
    migrations: {
      check: (...asked) => migrations.check(...asked),
      report: (...asked) => migrations.report(...asked),
    },
    now: () => NOW,
    metrics: createMetrics(),
    scheduler: new FairScheduler(),
    log,
    compile,
    ready: () => rig.ready,
    pingMs,
    maxWaiters,
  };
  const migrations = new Migrations(deps);
  const triggers = new Triggers({
    ...deps,
    ...{ clock: { now: deps.now }, licences: { licensed: () => true }, shards: () => [] },
  });
  return { ...deps, triggers: triggers.registrar };
}

/** Clients' reads on a shared pool; their statements are not cancelled. */
export function readPoolOn(sql: Sql): ReadPool {
  return new ReadPool({ sessions: Array.from({ length: 4 }, () => ({ sql, cancel: async () => {} })) });
}

export function defaultAnswer(command: RunCommand): Answer {
  switch (command.type) {
    case "cancel":
      return { type: "cancel", state: "cancelled", alreadyTerminal: false };
    case "signal":
      return { type: "signal", id: command.id, matched: true };
    case "submit":
      return { type: "submit", taskId: command.taskId, submittedAt: Date.UTC(2026, 10, 21), matched: true };
    case "result":
    case "failure":
    case "heartbeat":
      return { type: "report", stale: false };
    case "fork":
      return { type: "forked", runId: command.runId };
    default:
      return { type: "advanced" };
  }
}

export interface RunSeed {
  readonly id?: RunId;
  readonly workflow_id?: string;
  readonly version?: number;
  readonly state?: string;
  readonly current_step?: string;
  readonly last_seq?: number;
  readonly terminal_at?: string;
  readonly requires_manual_review?: boolean;
  readonly awaited_signal?: string;
  readonly paused_reason?: string;
  readonly record?: object;
  readonly output?: unknown;
  readonly tenant_id?: string;
  readonly business_key?: string;
  readonly parent_run_id?: string;
  readonly parent_step_id?: string;
  readonly parent_branch_id?: string;
  readonly family_run_id?: string;
  readonly root_run_id?: string;
  readonly started_at?: string;
  readonly inputs?: object;
  readonly identity?: object;
  readonly variables?: Readonly<Record<string, unknown>>;
}

const RECORD = { v: 1, entries: 0, attempts: {}, unconsumedSignals: 0, owed: 0, unprotected: {}, quarantined: false };

/** A run as the runtime would have stored it. */
export async function insertRun({ database: { sql } }: Rig, seed: RunSeed = {}): Promise<RunId> {
  const { id = newRunId(), inputs = {}, identity = {}, variables = {}, record = {}, output, ...given } = seed;
  const started_at = seed.started_at ?? new Date().toISOString();
  const row = {
    id,
    shard: shardOf(id),
    revision: 1,
    fence: 1,
    last_seq: 0,
    state: "running",
    requires_manual_review: false,
    workflow_id: "orders",
    version: 1,
    definition_id: RUN_ID,
    last_event_at: started_at,
    ...given,
    started_at,
    record: JSON.stringify({ ...RECORD, ...record }),
    output: output === undefined ? null : JSON.stringify(output),
  };
  await sql`insert into runs ${sql(row)}`;
  const start = { entrypoint: "", features: {}, dryRun: false, ...identity };
  await sql`insert into run_starts (run_id, inputs, identity, request_hash)
    values (${id}, ${JSON.stringify(inputs)}::text::json, ${JSON.stringify(start)}::text::json, '')`;
  for (const [name, value] of Object.entries(variables)) {
    await sql`insert into run_variables values (${id}, ${name}, ${JSON.stringify(value)}::text::json)`;
  }
  return id;
}

export interface EventSeed {
  readonly type?: string;
  readonly to?: string;
  readonly metadata?: object;
  readonly step?: string;
}

/** Commits the run's next audit rows and `last_seq` together, as the runtime does, but sends no hint. */
export async function appendEvents(
  { database: { sql } }: Rig,
  runId: string,
  seeds: readonly EventSeed[],
  ending: (transaction: TransactionSql) => Promise<unknown> = async () => {},
): Promise<number> {
  return sql.begin(async (transaction) => {
    const [run] = await transaction<{ last_seq: number }[]>`
      update runs set last_seq = last_seq + ${seeds.length} where id = ${runId} returning last_seq`;
    const first = (run?.last_seq ?? 0) - seeds.length + 1;
    const rows = seeds.map(({ type = "log", to = "running", metadata, step }, index) => ({
      run_id: runId,
      seq: first + index,
      recorded_at: new Date(Date.UTC(2026, 10, 21, 0, 0, 0, first + index)).toISOString(),
      event_type: type,
      step_id: step ?? null,
      attempt: 0,
      from_state: "running",
      to_state: to,
      actor: "coordinator",
      metadata: metadata ? JSON.stringify(metadata) : null,
    }));
    await transaction`insert into run_events ${transaction(rows)}`;
    await ending(transaction);
    return first + seeds.length - 1;
  });
}

/** The run ends: its last event and its state, in one commit. */
export function endRun(rig: Rig, runId: string): Promise<number> {
  return appendEvents(rig, runId, [{ type: "run.succeeded", to: "succeeded" }], async (transaction) => {
    await transaction`
      update runs set state = 'succeeded', terminal_at = now(), output = '{"done":true}' where id = ${runId}`;
  });
}

export const WORKFLOW = {
  id: "orders",
  name: "Orders",
  start: "begin",
  steps: [
    { id: "begin", type: "noop", next: "done" },
    { id: "done", type: "end", output: "fine" },
  ],
};
