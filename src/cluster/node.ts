// One node: the core and its ports, started in the order in which they need each other and stopped in reverse.

import type { Server } from "node:http";
import { join } from "node:path";
import {
  type CompileOptions,
  compileRuleSlices,
  type JsonObject,
  type Program,
  type RuleOptions,
  reviewedSlices,
} from "../../machines/index.js";
import { ClientAddresses, ClientCertificates, PLATFORM } from "../access/index.js";
import { delay, performance } from "../ambient.js";
import { type ApiConfig, type ApiDeps, buildApi, loadDefinitionsDir } from "../api/index.js";
import type { Catalog } from "../catalog/catalog.js";
import { CertificateError, type Config, isAccessOn, readClientAuthority, readClients } from "../config/index.js";
import { packageRoot } from "../config/package.js";
import { GrpcDoor } from "../dispatch/grpc/door.js";
import { startGrpcServer } from "../dispatch/grpc/server.js";
import type { Metrics } from "../metrics/index.js";
import type { MetricsPage, PageFormat } from "../metrics/page.js";
import { Migrations } from "../operate/index.js";
import type { Router } from "../run/router.js";
import { recordDeath } from "../store/engine/suspects.js";
import { migrateDatabase } from "../store/migrate/migrate.js";
import { readerRights } from "../store/migrate/reader-role.js";
import type { Keyring } from "../store/sealed/keyring.js";
import { type Core, type CoreOptions, createCore } from "./core.js";
import type { Foundations } from "./foundations.js";
import { ServedCertificate } from "./served-certificate.js";

/** How long clients have to give up their kept connections: the next answer over each one tells its client to close it. */
const FAREWELL_MS = 500;
/** How long shutdown waits for workers' answers. */
const WORKER_GRACE_MS = 5_000;

export interface NodeHandle {
  readonly nodeId: string;
  readonly httpPort: number;
  readonly grpcPort: number;
  /** This node's own. */
  readonly metrics: Metrics;
  /** Another node has died while it decided on this. */
  suspect(key: string): void;
  /**
   * The ports serve what the files of the certificate hold now, and clients are known by what their file holds. What is unfit changes nothing. Without
   * TLS nothing happens.
   */
  replaceCertificate(): void;
  /** Ends readiness, then intake, then finishes the work in progress. Complete on return, safe to call twice. */
  stop(): Promise<void>;
}

export interface NodeOptions extends CoreOptions {
  /** What the process before this one was deciding on when it died: all nodes suspect it. */
  readonly diedOf?: string;
  /** The page of `/metrics`, where it shows more than this node. */
  readonly scrape?: (format: PageFormat) => Promise<MetricsPage>;
}

export async function startNode(options: NodeOptions): Promise<NodeHandle> {
  const { config, databaseUrl, log } = options;
  await migrateDatabase(databaseUrl, log, { reader: readerRights(config) });
  const core = await createCore(options);
  const { nodeId, metrics, sql, catalog, patiently } = core.foundations;
  const { diedOf } = options;
  try {
    await patiently(() => core.membership.check());
    if (config.definitionsDir !== undefined)
      await loadDefinitionsDir(config.definitionsDir, {
        ...{ sql, log, catalog, compile: compilerOf(core), triggers: core.triggers.registrar },
        ...(isAccessOn(config) && { principal: PLATFORM }),
      });
    if (diedOf !== undefined) await patiently(() => recordDeath(sql, diedOf));
    await core.start();
  } catch (error) {
    // A process that tries again, or does something else, keeps no session of it.
    await core.stop();
    throw error;
  }
  const certificate = openCertificate(core.foundations);
  const clients = openClients(core.foundations);
  const { ports, close } = await openPorts(core, { ...options, certificate, clients });
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    certificate?.stop();
    await close();
    await core.stop();
  };
  return {
    ...{ nodeId, metrics, ...ports },
    suspect: (key) => core.suspicion.name(key),
    replaceCertificate: () => {
      certificate?.replace();
      clients?.replace();
    },
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

/** Clients that are known by a certificate. Undefined: there are none. */
interface Clients {
  readonly certificates: ClientCertificates;
  /** As PEM. Throws CertificateError. */
  authority(): Buffer;
  /** From the file, as it is now. If that is unfit, an error is logged and the old ones stay. */
  replace(): void;
}

function openClients({ config: { tlsClients }, log }: Foundations): Clients | undefined {
  if (!tlsClients) return undefined;
  const { caFile, clientsFile, byName } = tlsClients;
  const certificates = new ClientCertificates(byName);
  const replace = () => {
    try {
      certificates.replace(readClients(clientsFile));
    } catch (error) {
      if (!(error instanceof CertificateError)) throw error;
      log.error({ reason: error.message }, "clients that are known by a certificate not replaced, the old ones stay");
      return;
    }
    log.info("clients that are known by a certificate read again");
  };
  return { certificates, authority: () => readClientAuthority(caFile), replace };
}

/** Undefined: the ports have no TLS. */
function openCertificate({ config, log, clock, metrics }: Foundations): ServedCertificate | undefined {
  const { tls: files } = config;
  if (files === undefined) return undefined;
  const onRemaining = (seconds: number) => metrics.tlsExpires.set(seconds);
  return new ServedCertificate({ files, log, now: () => clock.now(), onRemaining });
}

interface PortOptions extends Pick<NodeOptions, "scrape"> {
  readonly certificate: ServedCertificate | undefined;
  readonly clients: Clients | undefined;
}

async function openPorts(core: Core, { scrape, certificate, clients }: PortOptions) {
  const tls = certificate && { tls: certificate };
  const { nodeId, config, log, sql, readPool, upkeep, clock, scheduler, metrics, schemas, feed } = core.foundations;
  const { callbacks, security, keyring } = core.foundations;
  const doors = core.access?.doors;
  const { secrets } = core.foundations.egress;
  const { starter, router: runs, shedder, announcer, dispatcher, triggers, operate } = core;
  let ready = true;
  const api = await buildApi({
    ...{ nodeId, config: apiConfig(config), ...tls, ...(doors && { ...doors, callbacks }) },
    ...{
      log,
      security,
      scheduler,
      sql,
      readPool,
      upkeep,
      metrics,
      schemas,
      feed,
      starter,
      runs,
      canceller: runs,
      shedder,
      announcer,
      secrets,
      signing: secrets.signing,
    },
    triggers: triggers.registrar,
    ...{ reruns: operate.reruns, bulk: operate.bulk, erasure: operate.erasure },
    ...(keyring && { dataKeys: dataKeysOf(keyring, runs) }),
    migrations: new Migrations({ catalog: core.foundations.catalog, schemas, scheduler }),
    workers: dispatcher.directory,
    ...{ compile: compilerOf(core), catalog: catalogOfAllNodes(core), ready: () => ready, scrape },
    now: () => clock.now(),
  });
  await api.listen({ host: config.host, port: config.httpPort });
  const address = api.server.address();
  const httpPort = typeof address === "object" && address ? address.port : config.httpPort;
  core.listening(httpPort);
  const { host, grpcPort: port, grpcKeepalive: keepalive } = config;
  const door =
    doors &&
    new GrpcDoor({
      ...{ verifier: doors.verifier, security, ...(doors.rate && { rate: doors.rate }) },
      addresses: new ClientAddresses(config.trustedProxies),
      ...{ log, now: () => clock.now(), ...(clients && { certificates: clients.certificates }) },
    });
  const grpc = await startGrpcServer({
    ...{ host, port, keepalive, dispatcher, log, ...tls, ...(door && { door }) },
    ...(clients && { clientAuthority: clients.authority }),
  });
  const close = async () => {
    ready = false;
    await untilClientsLeft(api.server);
    await core.drain();
    await api.close();
    await grpc.stop(WORKER_GRACE_MS);
  };
  return { ports: { httpPort, grpcPort: grpc.port }, close };
}

function apiConfig(config: Config): ApiConfig {
  const {
    auth,
    credentials,
    authRollout,
    limits,
    amqpUrl,
    eventsExchange,
    inspect,
    inspectUi: ui,
    httpKeepaliveMs: keepAliveMs,
  } = config;
  return {
    ...{ auth, credentials, authRollout, limits, keepAliveMs, access: config, eventsExchange },
    ...(amqpUrl && { amqpUrl }),
    ...(inspect && { inspector: { ...(ui !== undefined && { ui }) } }),
    ...(config.console && { console: { folder: join(packageRoot(), "dist", "console") } }),
  };
}

/** If a connection closes at the moment its client sends over it, the request fails, and a client does not repeat a POST. */
async function untilClientsLeft(server: Server): Promise<void> {
  const latest = performance.now() + FAREWELL_MS;
  const count = () =>
    new Promise<number>((resolve) => server.getConnections((error, open) => resolve(error ? 0 : open)));
  while (performance.now() < latest && (await count()) > 0) await delay(20);
}

/** The keys of tenants for the API: destroyed ones are used on no node any more when it is answered. */
function dataKeysOf(keyring: Keyring, router: Router): ApiDeps["dataKeys"] {
  return {
    async destroy(tenantId) {
      await keyring.destroy(tenantId);
      await router.refreshAll("keys");
    },
  };
}

/** The catalog for the API: after a publish or a registration, all nodes read it again. */
function catalogOfAllNodes({ foundations: { catalog }, router }: Core): Catalog {
  return {
    program: (definitionId) => catalog.program(definitionId),
    published: (workflowId, version) => catalog.published(workflowId, version),
    stored: (workflowId, version, tenantId) => catalog.stored(workflowId, version, tenantId),
    action: (service, name, version, tenants) => catalog.action(service, name, version, tenants),
    actionNames: (tenants) => catalog.actionNames(tenants),
    rule: (ruleId, tenants) => catalog.rule(ruleId, tenants),
    refresh: () => router.refreshAll("catalog"),
  };
}

/** The compiler of machines/ with the limits from the settings and the check of JSON Schemas, in turns with everything else. */
function compilerOf({ foundations: { schemas, config, scheduler } }: Core) {
  const { limits } = config;
  const schemaProblems = (schema: JsonObject) => schemas.problemSlices(schema);
  return {
    compileWorkflow: (document: unknown, options: CompileOptions) =>
      scheduler.computeSlices("documents", reviewedSlices(document, { ...options, limits, schemaProblems })),
    compileRule: (document: unknown, options?: RuleOptions) =>
      scheduler.computeSlices("documents", compileRuleSlices(document, options)),
    machineConfig: (program: Program) => program.chart,
  };
}
