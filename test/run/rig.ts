// The core of a node on a test database: runtime, group commit and poller, composed as in a node, with a dispatcher that the test
// controls. There is no API and no gRPC, and the poller only polls on request.
import type { JsonObject, RunCommand, RunId } from "../../machines/index.js";
import { compileWorkflow, Schemas } from "../../machines/index.js";
import { StoreCatalog } from "../../src/catalog/catalog.js";
import { type Clock, DatabaseClock } from "../../src/clock.js";
import { type GranterOptions, SLOTS, SlotGranter, TURNS } from "../../src/concurrency/slot-granter.js";
import { createMetrics, type Metrics } from "../../src/metrics/index.js";
import { Committer } from "../../src/run/committer.js";
import type { Judge } from "../../src/run/judge.js";
import { Poller } from "../../src/run/poller.js";
import type { CommitListener, Couriers, RunStarter, StartRequest } from "../../src/run/ports.js";
import { Runtime, type RuntimeOptions } from "../../src/run/runtime.js";
import { Starter, type StarterOptions } from "../../src/run/starter.js";
import { SHARDS } from "../../src/shard/placement.js";
import { workflowVersions } from "../../src/store/lists/definitions.js";
import { register } from "../../src/store/lists/registry.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { NODE, openNodePools, silentLog, type TestDatabase } from "../harness/database.js";
import { HandDispatcher, type Reply } from "./hand-dispatcher.js";

export interface HalfOptions {
  /** The database URL of its sessions, for example of a proxy; by default the test database itself. */
  readonly url?: string;
  readonly applicationName?: string;
  readonly hints?: boolean;
  readonly reply?: Reply;
  readonly stepsPerCommit?: number;
  readonly pollMs?: number;
  readonly couriers?: Couriers;
  /** Milliseconds that its clock is ahead of the database's: later due times have come there already. */
  readonly ahead?: number;
  readonly onCommit?: CommitListener;
  readonly residents?: RuntimeOptions["residents"];
  /** The judge of suspects. By default every suspect lives. */
  readonly trials?: Judge;
  readonly startupVariables?: StarterOptions["startupVariables"];
  readonly gate?: RuntimeOptions["gate"];
  readonly seenNodeLoss?: RuntimeOptions["seenNodeLoss"];
  readonly lastWords?: RuntimeOptions["lastWords"];
  /** The record format that it writes, because all nodes read it. */
  readonly recordFormat?: () => number;
  /** Its record formats, if it is a node of another release. */
  readonly formats?: RuntimeOptions["formats"];
  /** How many may wait for a slot of one key. */
  readonly slotRoom?: number;
  readonly turnRoom?: number;
  readonly traces?: RuntimeOptions["traces"];
  /** As with access on: an event of no tenant is for runs of no tenant only. */
  readonly tenantsApart?: boolean;
  /** The scheduler. By default a slice of the loop never ends: how far a run steps in a commit does not depend on the load of the machine. */
  readonly scheduler?: FairScheduler;
}

export interface Half {
  readonly runtime: Runtime;
  readonly starter: Starter;
  readonly committer: Committer;
  readonly poller: Poller;
  /** It polls only on request. */
  readonly slots: SlotGranter;
  readonly turns: SlotGranter;
  readonly dispatcher: HandDispatcher;
  /** What it decides by: behind the database's by a round trip at most. */
  readonly clock: Clock;
  readonly catalog: StoreCatalog;
  readonly metrics: Metrics;
  conflicts(): Promise<number>;
  /** Safe to call twice. */
  stop(): Promise<void>;
}

/** Polls by itself after `poller.start()`; until then only `poller.tick()` polls. */
export async function startHalf(database: TestDatabase, options: HalfOptions = {}): Promise<Half> {
  const {
    url = database.url,
    applicationName = NODE,
    hints,
    stepsPerCommit = 64,
    pollMs = 50,
    couriers,
    ahead = 0,
  } = options;
  const pools = url === database.url ? database.poolsOf(applicationName) : openNodePools(url, applicationName);
  const { sql, commits } = pools;
  const metrics = createMetrics();
  const measured = new DatabaseClock();
  await measured.measure(sql);
  const clock = { now: () => measured.now() + ahead };
  const catalog = new StoreCatalog(sql, silentLog, new FairScheduler());
  await catalog.start();
  const committer = new Committer({ sql: commits, log: silentLog, metrics });
  const dispatcher = new HandDispatcher(options.reply);
  const schemas = new Schemas();
  const licences = { licensed: () => true };
  const { gate, lastWords, scheduler = new FairScheduler(() => 0) } = options;
  const granting: Omit<GranterOptions, "of" | "room"> = {
    ...{ sql, log: silentLog, hints, polls: () => true },
    afterCommit: (runId, effects) => runtime.effects.afterCommit(runId, [], effects),
  };
  const slots = new SlotGranter({ ...granting, of: SLOTS, room: options.slotRoom ?? 10_000 });
  const turns = new SlotGranter({ ...granting, of: TURNS, room: options.turnRoom ?? 10_000 });
  const runtime: Runtime = new Runtime({
    ...{ sql, clock, metrics, committer, catalog, dispatcher, schemas, licences, stepsPerCommit, hints, slots, turns },
    ...(couriers && { couriers }),
    tenantsApart: options.tenantsApart,
    traces: options.traces,
    residents: options.residents,
    recordFormat: options.recordFormat,
    formats: options.formats,
    ...{ scheduler, gate },
    seenNodeLoss: options.seenNodeLoss,
    lastWords,
    log: silentLog,
    onCommit: options.onCommit ?? (() => {}),
  });
  const starter = new Starter({
    ...{ sql, clock, catalog, schemas, slots, turns, runtime, scheduler, gate, lastWords },
    ...{ slotRoom: options.slotRoom, turnRoom: options.turnRoom, startupVariables: options.startupVariables },
  });
  dispatcher.bind(runtime);
  const poller = new Poller({
    ...{ sql, log: silentLog, runtime, dispatcher, shards: () => SHARDS, intervalMs: pollMs },
    trials: options.trials ?? everySuspectLives,
    gate,
    ...(couriers && { couriers }),
  });
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    await poller.stop();
    await slots.stop();
    await turns.stop();
    await dispatcher.stop();
    await runtime.stop();
    await committer.stop();
    await catalog.stop();
    await pools.close();
  };
  const conflicts = async () => (await metrics.commitConflicts.get()).values[0]?.value ?? 0;
  return {
    ...{ runtime, starter, committer, poller, slots, turns, dispatcher, clock, catalog, metrics, conflicts },
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
  };
}

export const everySuspectLives: Judge = { verdictOn: async () => ({ kind: "lived" }) };

export type Step = Record<string, unknown> & { id: string; type: string };

/** Validates the definition like a publish, so that a mistake in a test is reported as such. */
export async function publish(
  { sql }: Pick<TestDatabase, "sql">,
  id: string,
  steps: readonly Step[],
  head: JsonObject = {},
): Promise<void> {
  const document = { id, name: id, start: steps[0]?.id, steps, ...head } as JsonObject;
  const { program, problems } = compileWorkflow(document);
  if (!program) throw new Error(JSON.stringify(problems, null, 1));
  await workflowVersions.store(sql, { key: id, name: id, publish: true, document });
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

export async function start(starter: RunStarter, workflowId: string, more: Partial<StartRequest> = {}): Promise<RunId> {
  const request = { workflowId, inputs: {}, variables: {}, dryRun: false, features: {}, actor: "api", ...more };
  return (await starter.start(request)).runId;
}

export function signal(id: string, name: string, payload: JsonObject = {}): RunCommand {
  return { type: "signal", id, name, payload, actor: "api" };
}

export const cancel: RunCommand = { type: "cancel", reason: "enough", compensate: true, actor: "api" };
