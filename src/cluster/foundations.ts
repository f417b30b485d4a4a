// The foundations of a node: the things that its parts share, opened before the parts are composed in core.ts.
import cluster from "node:cluster";
import type { Sql } from "postgres";
import { Schemas } from "../../machines/index.js";
import { CallbackTokens, SecurityLog, type Verifier } from "../access/index.js";
import type { Bus, BusHandlers, BusOptions } from "../bus/bus.js";
import { IpcBus } from "../bus/ipc.js";
import { createLocalBus } from "../bus/local.js";
import { combineProtocols } from "../bus/protocol.js";
import { StoreCatalog } from "../catalog/catalog.js";
import { DatabaseClock } from "../clock.js";
import { type Config, isAccessOn, readMasterKeys } from "../config/index.js";
import { dispatchProtocol } from "../dispatch/relay/messages.js";
import { Guard, type GuardOptions, listedOrAny, listedOrPublic, publicOrListed } from "../egress/guard.js";
import { readSecrets } from "../egress/secrets.js";
import { createFeed, type Feed } from "../feed/index.js";
import { uuidv7 } from "../ids.js";
import type { Logger } from "../log.js";
import { createMetrics, type Metrics } from "../metrics/index.js";
import { runProtocol } from "../run/node-messages.js";
import type { ConnectBroker } from "../sdk/broker/index.js";
import { openDatabase } from "../store/engine/connection.js";
import { knownServiceKey, serviceKey } from "../store/engine/service-keys.js";
import { ReadPool } from "../store/lists/read-pool.js";
import { untilStoreAnswers } from "../store/migrate/readiness.js";
import { Keyring, refuseSealed } from "../store/sealed/keyring.js";
import { openStartupProvider, type StartupProvider } from "../tenants/startup-provider.js";
import { readTenantSettings, type TenantSettings } from "../tenants/tenant-settings.js";
import { openTracing, type Tracing } from "../tracing/index.js";
import type { LastWords } from "../trial/last-words.js";
import type { TrialsOptions } from "../trial/trials.js";
import { FairScheduler } from "../work/fair-scheduler.js";
import { CountedBus } from "./counted-bus.js";
import { openReaders } from "./readers.js";

/**
 * Sessions to Postgres, so that none waits for another kind: commits; the loads and lookups of decisions; the poll, the heartbeat and the
 * pruner; reads of clients, of which a slow one holds up other reads only.
 */
const SESSIONS = { commits: 2, work: 4, upkeep: 4, reads: 4, asStored: 1 };

/** Shorter than the time after which a call of a worker counts as arrived (`reachedMs` of the dispatcher's limits). */
const WORKER_CONNECT_MS = 5_000;

export interface CoreOptions {
  readonly config: Config;
  /** A test's, in place of the one that `SAGA_AUTH` names. */
  readonly verifier?: Verifier;
  readonly databaseUrl: string;
  readonly log: Logger;
  /** False: bus, timers, in-memory deliveries and NOTIFY are off, and runs advance by the poll alone. For tests of law 7. */
  readonly hints?: boolean;
  /** Where this process says what it decides on. */
  readonly lastWords?: LastWords;
  /** A simulation's, in place of Redis, of RabbitMQ, of the sockets of HTTP and of other processes. */
  readonly surroundings?: Surroundings;
}

export interface Surroundings {
  openBus<Ask, Tell>(options: BusOptions<Ask, Tell>): Bus;
  readonly trialProcess: TrialsOptions["process"];
  /** The way to the hosts of HTTP workers, requests and webhooks. */
  readonly dial: NonNullable<GuardOptions["dial"]>;
  readonly connectBroker: ConnectBroker;
}

export interface Foundations {
  readonly config: Config;
  readonly surroundings?: Surroundings;
  readonly verifier?: Verifier;
  /** The tokens of dispatches. Absent: access is off. */
  readonly callbacks?: CallbackTokens;
  readonly log: Logger;
  readonly hints: boolean;
  readonly nodeId: string;
  readonly databaseUrl: string;
  /** For the group commit alone: as many sessions as it has statements in flight. */
  readonly commits: Sql;
  /** For loads, and writes outside the group commit. */
  readonly sql: Sql;
  /** For the poll, the heartbeat, gauges and retention. */
  readonly upkeep: Sql;
  /** For what clients read. */
  readonly readPool: ReadPool;
  readonly clock: DatabaseClock;
  readonly scheduler: FairScheduler;
  readonly metrics: Metrics;
  readonly catalog: StoreCatalog;
  readonly schemas: Schemas;
  readonly feed: Feed;
  /** Absent: there are no traces. */
  readonly tracing?: Tracing;
  /** Absent: encryption is off. */
  readonly keyring?: Keyring;
  /** Reads what is sealed as it is stored, for the archive. Absent: there is no archive, or encryption is off. */
  readonly asStored?: Sql;
  readonly tenants: TenantSettings;
  /** Absent: startup variables come from the file alone. */
  readonly startupProvider?: StartupProvider;
  /** One of the node, for all of its doors. */
  readonly security: SecurityLog;
  readonly lastWords?: LastWords;
  /** `guard` is for the requests of steps, `workers` for the addresses that workers registered. */
  readonly egress: { readonly guard: Guard; readonly workers: Guard; readonly secrets: ReturnType<typeof readSecrets> };
  /** The node cannot talk to others, so it must not leave work to them: it takes every shard, at the cost of duplicate work. */
  readonly alone: boolean;
  /** A step of the start, tried again while Postgres is away. */
  patiently<T>(step: () => Promise<T>): Promise<T>;
  /** New sessions for everything. */
  renewSessions(): void;
  closeDatabase(): Promise<void>;
}

/** Throws ConfigError if a file of the configuration is invalid, or an error of Postgres if it cannot be reached. */
export async function openFoundations(options: CoreOptions): Promise<Foundations> {
  const { config, databaseUrl, hints = true, lastWords, verifier, surroundings } = options;
  const nodeId = uuidv7();
  // Beside the host and the process id, which every line has: /cluster names the node by all three.
  const log = options.log.child({ nodeId });
  const tenants = readTenantSettings(config);
  const hasAccess = isAccessOn(config);
  const egress = egressOf(config, hasAccess, surroundings?.dial);
  for (const warning of egress.secrets.warnings) log.warn(warning);
  const clock = new DatabaseClock();
  const metrics = createMetrics(log);
  const provided = { secrets: egress.secrets, log, metrics, now: () => clock.now() };
  const startupProvider = openStartupProvider(config.startupProvider, provided);
  const { encryptionKeysFile } = config;
  const keyring =
    encryptionKeysFile === undefined ? undefined : new Keyring({ masters: readMasterKeys(encryptionKeysFile) });
  const common = { applicationName: "saga", log, ...(keyring && { sealing: keyring }) };
  const open = (max: number) => openDatabase(databaseUrl, { ...common, max });
  const commits = openDatabase(databaseUrl, { ...common, max: SESSIONS.commits, plannedOnce: true });
  const [work, upkeep] = [open(SESSIONS.work), open(SESSIONS.upkeep)];
  const readers = openReaders(options, { nodeId, upkeep, count: SESSIONS.reads, ...(keyring && { sealing: keyring }) });
  const { sql } = work;
  // The archive keeps values as they are stored.
  const asStored = keyring && config.archiveDir !== undefined ? openAsStored(databaseUrl, log) : undefined;
  const opened = [commits, work, upkeep, ...readers.databases, ...(asStored ? [asStored] : [])];
  const closeDatabase = async () => {
    await Promise.all(opened.map(({ close }) => close()));
  };
  const onRefused = () => metrics.loadShed.inc({ shortage: "reads" });
  const patiently = <T>(step: () => Promise<T>) => untilStoreAnswers(databaseUrl, log, step);
  await patiently(() => clock.measure(sql));
  const checks = async () => {
    await readers.check();
    await (keyring ? keyring.start(upkeep.sql) : refuseSealed(upkeep.sql));
  };
  await patiently(checks).catch(async (error: unknown) => {
    await closeDatabase();
    throw error;
  });
  const callbacks = hasAccess ? await patiently(() => openCallbacks(config, sql)) : undefined;
  const scheduler = new FairScheduler();
  const catalog = new StoreCatalog(sql, log, scheduler, hasAccess);
  await patiently(() => catalog.start());
  const tracing = await openTracing(config.tracing, { nodeId, log, metrics });
  const feed = createFeed({ sql, listenUrl: hints ? databaseUrl : undefined, log, scheduler });
  const renewSessions = () => {
    for (const { renew } of opened) renew();
    feed.reconnect();
  };
  return {
    ...(verifier && { verifier }),
    ...(surroundings && { surroundings }),
    ...(startupProvider && { startupProvider }),
    ...(callbacks && { callbacks }),
    ...(tracing && { tracing }),
    ...(keyring && { keyring }),
    ...(asStored && { asStored: asStored.sql }),
    ...{ config, databaseUrl, log, hints, tenants, egress, sql, clock, scheduler, catalog },
    ...{ patiently, renewSessions, closeDatabase, lastWords },
    commits: commits.sql,
    upkeep: upkeep.sql,
    readPool: new ReadPool({ sessions: readers.sessions, onRefused, ...(keyring && { sealing: keyring }) }),
    nodeId,
    metrics,
    security: new SecurityLog(log),
    schemas: new Schemas(),
    feed,
    alone: !hints || (config.redisUrl === undefined && !cluster.isWorker && !surroundings),
  };
}

const openAsStored = (url: string, log: Logger) =>
  openDatabase(url, { max: SESSIONS.asStored, applicationName: "saga", log });

function egressOf(config: Config, hasAccess: boolean, dial: GuardOptions["dial"]): Foundations["egress"] {
  const { egressAllow, workerAllow } = config;
  return {
    guard: new Guard({ admits: publicOrListed(egressAllow), setting: "SAGA_EGRESS_ALLOW", ...(dial && { dial }) }),
    workers: new Guard({
      admits: hasAccess ? listedOrPublic(workerAllow) : listedOrAny(workerAllow),
      ...{ setting: "SAGA_WORKER_ALLOW", connectMs: WORKER_CONNECT_MS, ...(dial && { dial }) },
    }),
    secrets: readSecrets({ ...config, isAccessOn: hasAccess }),
  };
}

/** A key of the settings replaces the generated one, which signed what is under way. */
async function openCallbacks({ callbackKeys }: Config, sql: Sql): Promise<CallbackTokens> {
  if (callbackKeys === undefined) return new CallbackTokens([await serviceKey(sql, "callback")]);
  const replaced = await knownServiceKey(sql, "callback");
  return new CallbackTokens(replaced === undefined ? callbackKeys : [...callbackKeys, replaced]);
}

/** All that nodes send to each other. */
export const nodeProtocol = combineProtocols(runProtocol, dispatchProtocol);
type Received<Decode> = Decode extends (body: never) => infer Message ? Exclude<Message, undefined> : never;
export type NodeHandlers = BusHandlers<Received<typeof nodeProtocol.ask>, Received<typeof nodeProtocol.tell>>;

/** It counts what it carries. */
export async function openBus(foundations: Foundations, handlers: NodeHandlers): Promise<Bus> {
  const { relayed } = foundations.metrics;
  return new CountedBus(await chooseBus(foundations, handlers), (what) => relayed.inc({ what }));
}

/** Redis where it is configured, the primary's relay between the nodes of one machine, and no other node otherwise. */
async function chooseBus(
  { alone, nodeId, log, config, sql, clock, metrics, patiently, surroundings }: Foundations,
  handlers: NodeHandlers,
): Promise<Bus> {
  const onDropped = (reason: string) => metrics.busDropped.inc({ reason });
  const options = { nodeId, log, protocol: nodeProtocol, handlers, onDropped };
  if (alone) return createLocalBus(options);
  if (surroundings) return surroundings.openBus(options);
  if (config.redisUrl === undefined) return new IpcBus(options);
  const { createRedisBus } = await import("../bus/redis.js");
  const secrets = config.busKeys ?? [await patiently(() => serviceKey(sql, "bus"))];
  const seal = { secrets, now: () => clock.now() };
  return createRedisBus({ url: config.redisUrl, prefix: config.redisPrefix, seal, ...options });
}
