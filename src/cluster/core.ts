// The inner half of a node, composed by hand: store, runtime, dispatcher, membership, bus and poll. It opens no port (node.ts
// does) and decides nothing.
import cluster from "node:cluster";
import type { Sql } from "postgres";
import { type RunLimits, warmUp } from "../../machines/index.js";
import type { Bus, BusHandlers } from "../bus/bus.js";
import { createIpcBus } from "../bus/ipc.js";
import { createLocalBus } from "../bus/local.js";
import { createRedisBus } from "../bus/redis.js";
import { DatabaseClock } from "../clock.js";
import type { Config } from "../config/index.js";
import { createDispatcher, type NodeDispatcher } from "../dispatch/dispatcher.js";
import { WebhookCourier } from "../dispatch/webhook/courier.js";
import { Guard, publicOrListed } from "../egress/guard.js";
import { readSecrets } from "../egress/secrets.js";
import { createFeed, type Feed } from "../feed/index.js";
import { shardOf, uuidv7 } from "../ids.js";
import type { Logger } from "../log.js";
import { createMetrics, type Metrics } from "../metrics.js";
import { Pressure, type PressureSample } from "../pressure.js";
import { Admission } from "../run/admission.js";
import { Announcer } from "../run/announcer.js";
import { StoreCatalog } from "../run/catalog.js";
import { Committer } from "../run/committer.js";
import { EmittedMetrics } from "../run/emitted.js";
import { readGrants } from "../run/grants.js";
import { Router } from "../run/router.js";
import { Runtime } from "../run/runtime.js";
import { Schemas } from "../run/schemas.js";
import { Stager } from "../run/stager.js";
import { Membership } from "../shard/membership.js";
import { Placement } from "../shard/placement.js";
import { openDatabase } from "../store/connection.js";
import { countUnwatched } from "../store/poll.js";
import { Pruner } from "../store/pruner.js";

/** Sessions to Postgres: two commits in flight, the poll, and reads of the API. */
const SESSIONS = 10;
const GAUGE_MS = 5_000;
/** How long webhooks under way have on the way down; workers have had theirs by then. */
const WEBHOOK_GRACE_MS = 2_000;
/** Residents give way at so many percent of the heap below the point where load is shed. */
const RELIEF_PERCENT = 15;
/** After a node has gone, and after its own start: so long a run that brings nodes down is looked out for. */
const CAREFUL_MS = 60_000;

export interface CoreOptions {
  readonly config: Config;
  readonly databaseUrl: string;
  readonly log: Logger;
  /** Switches off bus, timers, in-memory deliveries and NOTIFY: runs then advance by the poll alone. For tests of law 7. */
  readonly hints?: boolean;
}

export interface Core {
  readonly nodeId: string;
  readonly sql: Sql;
  readonly metrics: Metrics;
  readonly catalog: StoreCatalog;
  readonly schemas: Schemas;
  readonly feed: Feed;
  readonly dispatcher: NodeDispatcher;
  readonly router: Router;
  readonly admission: Admission;
  readonly announcer: Announcer;
  /** Seen by others from here on, and working for its shards. */
  start(): Promise<void>;
  /** Takes no more work from the poll; the others may have its shards. */
  drain(): Promise<void>;
  /** What is in hand, then everything else. After `drain`, and after the ports are closed. */
  stop(): Promise<void>;
}

export async function createCore({ config, databaseUrl, log, hints = true }: CoreOptions): Promise<Core> {
  const grants = readGrants(config);
  const egress = { guard: new Guard({ admits: publicOrListed(config.egressAllow) }), secrets: readSecrets(config) };
  warmUp();
  const nodeId = uuidv7();
  const { sql, close } = openDatabase(databaseUrl, { max: SESSIONS, applicationName: "saga", log });
  const metrics = createMetrics();
  const clock = new DatabaseClock();
  await clock.measure(sql);
  const catalog = new StoreCatalog(sql, log);
  await catalog.start();
  const schemas = new Schemas();
  const feed = createFeed({ sql, listenUrl: hints ? databaseUrl : undefined, log });
  const emitted = new EmittedMetrics(metrics, log);
  const committer = new Committer({ sql, log, metrics });
  const placement = new Placement(nodeId);
  // A node that cannot talk to others must not leave work to them: it takes every shard, at the cost of duplicate work.
  const alone = !hints || (config.redisUrl === undefined && !cluster.isWorker);
  const bus: Bus = await openBus(alone ? undefined : config, nodeId, log, {
    onAdvance: (runId) => runtime.advance(runId),
    onAsk: async (request) => dispatcher.asked(request) ?? router.asked(request),
    onTell: (message, from) => {
      dispatcher.told(message, from);
      router.told(message);
    },
  });
  const membership = new Membership({ nodeId, sql, clock, log, onAlive: (all) => place(alone ? [nodeId] : all) });
  const dispatcher = createDispatcher({
    nodeId,
    log,
    now: () => clock.now(),
    nodeCount: () => membership.nodeCount,
    limits: { outputBytes: config.limits.outputBytes },
    egress,
    ...(alone ? {} : { peers: { bus, owner: (shard) => placement.owner(shard) } }),
  });
  const webhook = new WebhookCourier({ ...egress, sql, log, metrics, now: () => clock.now() });
  const couriers = { webhook };
  const announcer = new Announcer({
    ...{ sql, log, hints },
    released: (runId, effects) => runtime.released(runId, [], effects),
  });
  let carefulUntil = performance.now() + CAREFUL_MS;
  const runtime = new Runtime({
    ...{ sql, clock, log, metrics, committer, catalog, dispatcher, couriers, announcer, schemas, hints },
    licences: grants,
    startupVariables: async ({ tenantId }) => grants.startupVariables(tenantId),
    onCommit: (runId, events) => {
      feed.onCommit(runId, events);
      emitted.onCommit(runId, events);
    },
    limits: runLimits(config),
    stepsPerCommit: config.stepsPerCommit,
    residents: { max: config.capacity.residents, maxBytes: config.capacity.residentBytes },
    careful: () => performance.now() < carefulUntil,
    neighbours: {
      isMine: (runId) => placement.owner(shardOf(runId)) === nodeId,
      advance: (runId) => bus.advance(runId),
      tell: (runId, effects) => router.tell(runId, effects),
    },
  });
  const pressure = new Pressure();
  const admission = admissionOf(config, { runtime, pressure, metrics, log });
  const meet = () => (alone ? Promise.resolve() : membership.beat());
  const router = new Router({ nodeId, runtime, placement, meet, bus, admission, catalog });
  dispatcher.bind(router);
  const stager = new Stager({ sql, log, runtime, dispatcher, couriers, shards: () => [...placement.mine] });
  const pruner = new Pruner(sql, log, { eventDays: config.eventRetentionDays, runDays: config.retentionDays });
  const gauges = setInterval(() => gauge(sql, metrics, dispatcher), GAUGE_MS).unref();

  /** Joining, leaving and overlapping cost duplicate work, never a wrong state. */
  function place(nodeIds: readonly string[]): void {
    const change = placement.place(nodeIds);
    if (!change) return;
    log.info({ nodes: nodeIds.length, shards: placement.mine.size }, "shards are placed");
    if (change.gained.length > 0) carefulUntil = performance.now() + CAREFUL_MS;
    bus.listen(placement.mine);
    dispatcher.placed(nodeIds);
    runtime.handOver();
    stager.takeOver(change.gained);
  }

  return {
    ...{ nodeId, sql, metrics, catalog, schemas, feed, dispatcher, router, admission, announcer },
    async start() {
      await membership.start();
      // Until now nobody told it what was published or registered meanwhile.
      await catalog.refresh();
      stager.start();
      announcer.start();
      pruner.start();
      pressure.start((sample) => relieve(sample, config, { runtime, admission, metrics }));
    },
    async drain() {
      clearInterval(gauges);
      await stager.stop();
      await announcer.stop();
    },
    async stop() {
      pressure.stop();
      await runtime.stop();
      await committer.stop();
      await webhook.stop(WEBHOOK_GRACE_MS);
      catalog.stop();
      await feed.stop();
      await pruner.stop();
      await membership.stop();
      await bus.stop();
      await close();
    },
  };
}

/** Redis where there is one, the primary's relay on one machine, nobody else otherwise. */
async function openBus(config: Config | undefined, nodeId: string, log: Logger, handlers: BusHandlers): Promise<Bus> {
  if (!config) return createLocalBus({ nodeId, handlers, log });
  if (config.redisUrl === undefined) return createIpcBus({ nodeId, handlers, log });
  return createRedisBus({ url: config.redisUrl, prefix: config.redisPrefix, nodeId, handlers, log });
}

function admissionOf(
  { capacity }: Config,
  { runtime, pressure, ...rest }: { runtime: Runtime; pressure: Pressure; metrics: Metrics; log: Logger },
): Admission {
  const { shedRuns: runs, shedLoopMs: loopMs, shedHeapPercent: heapPercent } = capacity;
  return new Admission({
    ...rest,
    limits: { runs, loopMs, heapPercent },
    runsInHand: () => runtime.residents.busy,
    pressure: () => pressure.now,
  });
}

/** At each sample: residents are let go before load is, and the gauges are set. */
function relieve(
  { heap }: PressureSample,
  { capacity }: Config,
  { runtime, admission, metrics }: { runtime: Runtime; admission: Admission; metrics: Metrics },
): void {
  const { residents } = runtime;
  if (heap * 100 >= capacity.shedHeapPercent - RELIEF_PERCENT) residents.relieve();
  admission.look();
  metrics.runsResident.set(residents.size);
  metrics.runsInHand.set(residents.busy);
  metrics.residentBytes.set(residents.restingBytes);
}

function runLimits({ limits }: Config): RunLimits {
  const { entries, outputBytes: output, variablesBytes: variables, metadataBytes: metadata } = limits;
  return { entries, output, variables, metadata };
}

function gauge(sql: Sql, metrics: Metrics, dispatcher: NodeDispatcher): void {
  metrics.dispatchesInFlight.set(dispatcher.inFlight);
  metrics.dispatchesQueued.set(dispatcher.queued);
  countUnwatched(sql).then(
    (count) => metrics.runsUnwatched.set(count),
    () => {}, // The store is away: the gauge keeps its last value.
  );
}
