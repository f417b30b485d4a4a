// The inner half of a node on a test database: runtime, group commit and stager, composed as the node composes them, with a
// dispatcher that the test holds in its hand. No API and no gRPC; the stager only polls when told to.
import type { JsonObject, RunCommand } from "../../machines/index.js";
import { compileWorkflow } from "../../machines/index.js";
import { DatabaseClock } from "../../src/clock.js";
import { createMetrics, type Metrics } from "../../src/metrics.js";
import { StoreCatalog } from "../../src/run/catalog.js";
import { Committer } from "../../src/run/committer.js";
import type { CommitListener, Couriers, Runs, StartRequest } from "../../src/run/ports.js";
import { Runtime, type RuntimeOptions } from "../../src/run/runtime.js";
import { Schemas } from "../../src/run/schemas.js";
import { Stager } from "../../src/run/stager.js";
import { SHARDS } from "../../src/shard/placement.js";
import { openDatabase } from "../../src/store/connection.js";
import { storeDefinition } from "../../src/store/definitions.js";
import { register } from "../../src/store/registry.js";
import { silentLog, type TestDatabase } from "../harness/database.js";
import { HandDispatcher, type Reply } from "./hand-dispatcher.js";

export interface HalfOptions {
  /** Where its sessions go; the test database itself if absent (a proxy, mostly). */
  readonly url?: string;
  readonly applicationName?: string;
  readonly hints?: boolean;
  readonly reply?: Reply;
  readonly stepsPerCommit?: number;
  readonly pollMs?: number;
  readonly couriers?: Couriers;
  /** Milliseconds that its clock is ahead of the database's: what is due then is due there now. */
  readonly ahead?: number;
  readonly onCommit?: CommitListener;
  readonly residents?: RuntimeOptions["residents"];
}

export interface Half {
  readonly runtime: Runtime;
  readonly committer: Committer;
  readonly stager: Stager;
  readonly dispatcher: HandDispatcher;
  readonly catalog: StoreCatalog;
  readonly metrics: Metrics;
  conflicts(): Promise<number>;
  /** Safe twice. */
  stop(): Promise<void>;
}

/** Polls once `stager.start()` was called; until then only `stager.tick()` looks. */
export async function startHalf(database: TestDatabase, options: HalfOptions = {}): Promise<Half> {
  const {
    url = database.url,
    applicationName = "saga-half",
    hints,
    stepsPerCommit = 64,
    pollMs = 50,
    couriers,
    ahead = 0,
  } = options;
  const { sql, close } = openDatabase(url, { max: 6, applicationName, log: silentLog });
  const metrics = createMetrics();
  const measured = new DatabaseClock();
  await measured.measure(sql);
  const clock = { now: () => measured.now() + ahead };
  const catalog = new StoreCatalog(sql, silentLog);
  await catalog.start();
  const committer = new Committer({ sql, log: silentLog, metrics });
  const dispatcher = new HandDispatcher(options.reply);
  const schemas = new Schemas();
  const licences = { licensed: () => true };
  const runtime = new Runtime({
    ...{ sql, clock, metrics, committer, catalog, dispatcher, schemas, licences, stepsPerCommit, hints },
    ...(couriers && { couriers }),
    residents: options.residents,
    log: silentLog,
    onCommit: options.onCommit ?? (() => {}),
  });
  dispatcher.bind(runtime);
  const stager = new Stager({
    ...{ sql, log: silentLog, runtime, dispatcher, shards: () => SHARDS, intervalMs: pollMs },
    ...(couriers && { couriers }),
  });
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    await stager.stop();
    await dispatcher.stop();
    await runtime.stop();
    await committer.stop();
    catalog.stop();
    await close();
  };
  const conflicts = async () => (await metrics.commitConflicts.get()).values[0]?.value ?? 0;
  return {
    ...{ runtime, committer, stager, dispatcher, catalog, metrics, conflicts },
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
  };
}

export type Step = Record<string, unknown> & { id: string; type: string };

/** Validated as a publish would, so that a test's own mistake is told as such. */
export async function publish(
  { sql }: Pick<TestDatabase, "sql">,
  id: string,
  steps: readonly Step[],
  head: JsonObject = {},
): Promise<void> {
  const document = { id, name: id, start: steps[0]?.id, steps, ...head } as JsonObject;
  const { program, problems } = compileWorkflow(document);
  if (!program) throw new Error(JSON.stringify(problems, null, 1));
  await storeDefinition(sql, { workflowId: id, name: id, publish: true, document });
}

/** Actions of the service `shop`, carried by gRPC. */
export async function registerActions({ sql }: Pick<TestDatabase, "sql">, ...names: readonly string[]): Promise<void> {
  const common = {
    ...{ version: 1, compensable: false, deprecated: false, dry_run_supported: false },
    ...{ input_schema: {}, output_schema: {}, transport: "grpc" as const },
  };
  await register(
    sql,
    names.map((action_name) => ({ service: "shop", action_name, ...common })),
  );
}

export async function start(runs: Runs, workflowId: string, more: Partial<StartRequest> = {}): Promise<string> {
  const request = { workflowId, inputs: {}, variables: {}, dryRun: false, features: {}, actor: "api", ...more };
  return (await runs.start(request)).runId;
}

export function signal(id: string, name: string, payload: JsonObject = {}): RunCommand {
  return { type: "signal", id, name, payload, actor: "api" };
}

export const cancel: RunCommand = { type: "cancel", reason: "enough", compensate: true, actor: "api" };
