// The configuration: every setting with its default, validated together, frozen, and passed by hand. This is the only place that
// reads `process.env`, and nothing here changes after the start. docs/operations.md explains the settings to operators.
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { inspect } from "node:util";
import { type AccessSettings, accessWarnings, readAccess } from "./access.js";
import type { TokenSettings } from "./access-tokens.js";
import { type Capacity, readCapacity } from "./capacity.js";
import { type CertificateFiles, readTls } from "./certificate.js";
import { SERVICE_TOKEN, SERVICE_URL } from "./command.js";
import { isUnverified, printableDatabaseUrl } from "./database-url.js";
import { readEncryptionKeysFile } from "./encryption-keys.js";
import { type Env, Environment } from "./environment.js";
import { type Limits, readLimits } from "./limits.js";
import { readStartupProvider, type StartupProviderConfig } from "./startup-variables.js";
import { readTlsClients, type TlsClients } from "./tls-clients.js";
import { readTracing, type TracingConfig } from "./tracing.js";

export { type AccessMode, type AccessSettings, type CredentialKind, isAccessOn, type RateSetting } from "./access.js";
export { type ClaimPaths, KEYS_FILE, type TokenSettings } from "./access-tokens.js";
export type { Capacity } from "./capacity.js";
export {
  type Certificate,
  CertificateError,
  type CertificateFiles,
  readCertificate,
  type ServerTls,
  validityWarning,
} from "./certificate.js";
export { type CommandSettings, readCommandSettings, SERVICE_TOKEN, SERVICE_URL } from "./command.js";
export { type DatabaseAddress, type DatabaseTls, parseDatabaseUrl, printableDatabaseUrl } from "./database-url.js";
export {
  ENCRYPTION_KEYS,
  EncryptionKeysError,
  type MasterKeys,
  readMasterKeys,
} from "./encryption-keys.js";
export type { Env } from "./environment.js";
export type { Limits } from "./limits.js";
export { isLoopback } from "./loopback.js";
export type { OidcAddresses, OidcSettings } from "./oidc.js";
export { isOpenToOthers } from "./private-file.js";
export type { StartupProviderConfig } from "./startup-variables.js";
export { readClientAuthority, readClients, type TlsClient, type TlsClients } from "./tls-clients.js";
export type { TracingConfig } from "./tracing.js";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

/** Each member names its setting and, in parentheses, the default. Members without a default are absent unless set. */
export interface Config extends Readonly<Present<AccessSettings>> {
  /** `HOST` (127.0.0.1). Loopback, or `SAGA_INSECURE` is on. */
  readonly host: string;
  /** `HTTP_PORT` (8080). 0: any free port. */
  readonly httpPort: number;
  /** `GRPC_PORT` (9090). 0: any free port. */
  readonly grpcPort: number;
  /** `SAGA_HTTP_KEEPALIVE_MS` (620000). */
  readonly httpKeepaliveMs: number;
  /** `SAGA_GRPC_KEEPALIVE_MS` (10000) and `SAGA_GRPC_KEEPALIVE_TIMEOUT_MS` (5000). */
  readonly grpcKeepalive: { readonly afterMs: number; readonly waitMs: number };
  /** `SAGA_TLS_CERT_FILE` and `SAGA_TLS_KEY_FILE`. Absent: the ports have no TLS. */
  readonly tls?: CertificateFiles;
  /** `SAGA_TLS_CLIENT_CA_FILE` and `SAGA_TLS_CLIENTS_FILE`. Absent: no worker is known by a certificate. */
  readonly tlsClients?: TlsClients;
  /** `SAGA_PUBLIC_URL` (from host and port). Base of `callback_url`, without a slash at its end. */
  readonly publicUrl: string;
  /** `SAGA_ALLOWED_HOSTS` (none). Names, addresses and CIDR blocks that the header `Host` may hold. */
  readonly allowedHosts: readonly string[];
  /** `SAGA_ALLOWED_ORIGINS` (none). Sites whose pages may use the API. */
  readonly allowedOrigins: readonly string[];
  /** `DATABASE_URL`. Absent: embedded Postgres under `dataDir`. */
  readonly databaseUrl?: string;
  /** `SAGA_READ_DATABASE_URL`. The login of clients' reads, with access on. Absent: that of `databaseUrl`, as a role that reads alone. */
  readonly readDatabaseUrl?: string;
  /** `SAGA_DATA_DIR` (.saga), as an absolute path. */
  readonly dataDir: string;
  /** `REDIS_URL`. Absent: one machine, messages over node:cluster IPC. */
  readonly redisUrl?: string;
  /** `REDIS_PREFIX` (empty). Prefix of every channel. */
  readonly redisPrefix: string;
  /** `SAGA_BUS_KEY`, newest first. Absent: generated, in Postgres. */
  readonly busKeys?: readonly string[];
  /** `SAGA_CALLBACK_KEY`, newest first. Absent: generated, in Postgres. */
  readonly callbackKeys?: readonly string[];
  /** `SAGA_ENCRYPTION_KEYS_FILE`, as an absolute path. Absent: nothing in the database is encrypted by the service. */
  readonly encryptionKeysFile?: string;
  /** `AMQP_URL`. Absent: `rmq` registrations are refused. */
  readonly amqpUrl?: string;
  /** `SAGA_EVENTS_EXCHANGE` (saga.events). Of the broker at `amqpUrl`; the queues have its name, too. */
  readonly eventsExchange: string;
  /** `SAGA_LIFECYCLE_EVENTS` (off). Publish the lifecycle of runs to the exchange. */
  readonly lifecycleEvents: boolean;
  /** `SAGA_WORKERS` (cores - 1, at least 1). node:cluster processes. */
  readonly workers: number;
  /** `SAGA_STEPS_PER_COMMIT` (64). 1 to 64. */
  readonly stepsPerCommit: number;
  /** `SAGA_LICENSES_FILE`. Absent: everything is licensed. */
  readonly licensesFile?: string;
  /** `SAGA_STARTUP_VARIABLES_FILE`. */
  readonly startupVariablesFile?: string;
  /** `SAGA_TENANT_SHARES_FILE`. Absent: all tenants have the same. */
  readonly tenantSharesFile?: string;
  /** `SAGA_STARTUP_VARIABLES_URL` and the settings beside it. */
  readonly startupProvider?: StartupProviderConfig;
  /** `SAGA_DEFINITIONS_DIR`. */
  readonly definitionsDir?: string;
  /** `SAGA_EGRESS_ALLOW` (none). Addresses, CIDR blocks and hosts that steps may reach besides public ones. */
  readonly egressAllow: readonly string[];
  /** `SAGA_WORKER_ALLOW`. Where registered workers may run; absent: anywhere. */
  readonly workerAllow?: readonly string[];
  /** `SAGA_SECRETS_FILE`. The values of `secret_ref`. */
  readonly secretsFile?: string;
  /** `SAGA_SIGNING_SECRET`, as it is written. Signs calls of HTTP workers, and webhooks that name no secret. */
  readonly signingSecret?: string;
  /** `SAGA_RETENTION_DAYS`. Absent: ended runs are kept, but for those whose workflow says otherwise. */
  readonly retentionDays?: number;
  /** `SAGA_RETENTION_MIN_DAYS`, `SAGA_RETENTION_MAX_DAYS`. What definitions say is raised, or lowered, to them. */
  readonly retentionMinDays?: number;
  readonly retentionMaxDays?: number;
  /** `SAGA_ARCHIVE_DIR`, as an absolute path. Absent: what retention deletes is not written anywhere. */
  readonly archiveDir?: string;
  /** `SAGA_EVENT_RETENTION_DAYS` (30). */
  readonly eventRetentionDays: number;
  /** `SAGA_CONSOLE` (on). The web pages at `/console`. */
  readonly console: boolean;
  /** `SAGA_INSPECT` (on). Runs can be inspected. */
  readonly inspect: boolean;
  /** `SAGA_INSPECT_UI`. The page of the Stately inspector, which gets the data of the runs that it shows. Absent: there is none. */
  readonly inspectUi?: string;
  /** The `OTEL_` settings. Absent: there are no traces. */
  readonly tracing?: TracingConfig;
  /** `LOG_LEVEL` (info). */
  readonly logLevel: (typeof LOG_LEVELS)[number];
  /** The `SAGA_LIMIT_` settings. */
  readonly limits: Limits;
  /** `SAGA_RESIDENTS`, `SAGA_RESIDENT_BYTES`, `SAGA_BULK_PER_SECOND`, `SAGA_CONCURRENCY_QUEUE`, `SAGA_RATE_LIMIT_QUEUE` and the `SAGA_SHED_` settings. */
  readonly capacity: Capacity;
}

/** The configuration is invalid. Lists every problem at once; names settings and rules, never the values of secrets. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  constructor(readonly problems: readonly string[]) {
    super(`The configuration has ${problems.length} problem(s):\n${problems.map((line) => `  - ${line}`).join("\n")}`);
  }
}

const PORTS = { min: 0, max: 65_535 };
/** Below, signs of life would be load; above, a node would hold dispatches of a worker that is gone for hours. */
const KEEPALIVE = { min: 200, max: 3_600_000 };

/**
 * A balancer that sends a request over a connection which the service closes at that moment answers 502, so the service keeps connections
 * for longer: those of Google Cloud are kept for 600 s, those of AWS and nginx for 60 s by default.
 */
const KEPT_FOR_MS = 620_000;

/** Throws ConfigError with all problems. The warnings are for the log, which needs the configuration first. */
export function loadConfig(env: Env = process.env): { config: Config; warnings: string[] } {
  const environment = new Environment(env);
  const addresses = readAddresses(environment);
  const access = readAccess(environment, addresses.host);
  const has = { hasMtls: access.credentials.includes("mtls"), hasTls: addresses.tls !== undefined };
  const tlsClients = readTlsClients(environment, has);
  const config = withoutAbsent({
    ...{ ...addresses, ...access, tlsClients },
    ...{ ...readStores(environment), ...readRest(environment) },
  });
  environment.know(SERVICE_URL, SERVICE_TOKEN);
  const warnings = environment
    .unknownNames("SAGA_")
    .map(({ name, hint }) => `${name} is not a setting of this service${hint} and has no effect`);
  if (environment.problems.length > 0) throw new ConfigError(environment.problems);
  warnings.push(...accessWarnings(config));
  for (const [name, url] of [
    ["DATABASE_URL", config.databaseUrl],
    ["SAGA_READ_DATABASE_URL", config.readDatabaseUrl],
  ] as const)
    if (url !== undefined && isUnverified(url)) warnings.push(`${name} ${UNVERIFIED}`);
  return { config: sealed(config), warnings };
}

const UNVERIFIED =
  "has sslmode=require, which encrypts and verifies nothing: whoever answers at its address is taken for the database; use sslmode=verify-full, with sslrootcert where the authority is your own";

/** The environment of this process, for a program that it starts. */
export function environmentNow(env: Env = process.env): Env {
  return { ...env };
}

/** One setting alone, for a command that needs no more. Throws ConfigError. */
export function readSetting(name: string, env: Env = process.env): string | undefined {
  const environment = new Environment(env);
  const text = environment.text(name);
  if (environment.problems.length > 0) throw new ConfigError(environment.problems);
  return text;
}

/** Where the data is, for a command that needs no more. Throws ConfigError. */
export function readPlace(env: Env = process.env): Pick<Config, "databaseUrl" | "dataDir"> {
  const environment = new Environment(env);
  const place = withoutAbsent(placeIn(environment));
  if (environment.problems.length > 0) throw new ConfigError(environment.problems);
  return place;
}

const placeIn = (environment: Environment) => ({
  databaseUrl: environment.databaseUrl("DATABASE_URL"),
  dataDir: resolve(environment.text("SAGA_DATA_DIR") ?? ".saga"),
});

function readAddresses(environment: Environment) {
  const host = environment.text("HOST") ?? "127.0.0.1";
  const httpPort = environment.integer("HTTP_PORT", PORTS) ?? 8080;
  const grpcPort = environment.integer("GRPC_PORT", PORTS) ?? 9090;
  if (httpPort === grpcPort && httpPort !== 0) environment.problem("GRPC_PORT", "must differ from HTTP_PORT");
  const tls = readTls(environment);
  const scheme = tls === undefined ? "http" : "https";
  const publicUrl = environment.url("SAGA_PUBLIC_URL", ["http", "https"]) ?? defaultPublicUrl(scheme, host, httpPort);
  if (tls !== undefined && !/^https:/i.test(publicUrl))
    environment.problem("SAGA_PUBLIC_URL", "must begin with https://, because SAGA_TLS_CERT_FILE is set");
  return {
    ...{ host, httpPort, grpcPort, tls, publicUrl: publicUrl.replace(/\/+$/, "") },
    httpKeepaliveMs: environment.integer("SAGA_HTTP_KEEPALIVE_MS", { min: 1_000, max: 86_400_000 }) ?? KEPT_FOR_MS,
    grpcKeepalive: {
      afterMs: environment.integer("SAGA_GRPC_KEEPALIVE_MS", KEEPALIVE) ?? 10_000,
      waitMs: environment.integer("SAGA_GRPC_KEEPALIVE_TIMEOUT_MS", KEEPALIVE) ?? 5_000,
    },
    allowedHosts: environment.hosts("SAGA_ALLOWED_HOSTS") ?? [],
    allowedOrigins: environment.origins("SAGA_ALLOWED_ORIGINS") ?? [],
  };
}

/** Once it is known which port was chosen, where any free one was asked for. */
export function publicUrlAt(httpPort: number, { publicUrl }: Pick<Config, "publicUrl">): string {
  const url = new URL(publicUrl);
  if (url.port !== "0") return publicUrl;
  url.port = String(httpPort);
  return url.href.replace(/\/+$/, "");
}

/** A worker cannot call back an unspecified address. */
function defaultPublicUrl(scheme: string, host: string, port: number): string {
  const reachable = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `${scheme}://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`;
}

function readStores(environment: Environment) {
  return {
    ...placeIn(environment),
    readDatabaseUrl: environment.databaseUrl("SAGA_READ_DATABASE_URL"),
    redisUrl: environment.url("REDIS_URL", ["redis", "rediss"]),
    redisPrefix: environment.text("REDIS_PREFIX") ?? "",
    busKeys: environment.keys("SAGA_BUS_KEY"),
    callbackKeys: environment.keys("SAGA_CALLBACK_KEY"),
    encryptionKeysFile: readEncryptionKeysFile(environment),
    amqpUrl: environment.url("AMQP_URL", ["amqp", "amqps"]),
    eventsExchange: readExchange(environment),
    lifecycleEvents: environment.flag("SAGA_LIFECYCLE_EVENTS") ?? false,
  };
}

/** The broker reserves names with `amq.`. The names of the queues, which are longer, have at most 255 bytes. */
function readExchange(environment: Environment): string {
  const name = environment.text("SAGA_EVENTS_EXCHANGE") ?? "saga.events";
  if (!/^(?!amq\.)[A-Za-z0-9_.:-]{1,200}$/.test(name))
    environment.problem("SAGA_EVENTS_EXCHANGE", "must be 1 to 200 of A-Z a-z 0-9 _ . : - and not begin with amq.");
  return name;
}

function readRest(environment: Environment) {
  return {
    workers: environment.integer("SAGA_WORKERS", { min: 1, max: 256 }) ?? Math.max(1, availableParallelism() - 1),
    stepsPerCommit: environment.integer("SAGA_STEPS_PER_COMMIT", { min: 1, max: 64 }) ?? 64,
    licensesFile: environment.text("SAGA_LICENSES_FILE"),
    startupVariablesFile: environment.text("SAGA_STARTUP_VARIABLES_FILE"),
    tenantSharesFile: environment.text("SAGA_TENANT_SHARES_FILE"),
    startupProvider: readStartupProvider(environment),
    definitionsDir: environment.text("SAGA_DEFINITIONS_DIR"),
    egressAllow: environment.hosts("SAGA_EGRESS_ALLOW") ?? [],
    workerAllow: environment.hosts("SAGA_WORKER_ALLOW"),
    secretsFile: environment.text("SAGA_SECRETS_FILE"),
    signingSecret: environment.text("SAGA_SIGNING_SECRET"),
    ...readRetention(environment),
    console: environment.flag("SAGA_CONSOLE") ?? true,
    inspect: environment.flag("SAGA_INSPECT") ?? true,
    inspectUi: environment.url("SAGA_INSPECT_UI", ["http", "https"]),
    tracing: readTracing(environment),
    logLevel: environment.choice("LOG_LEVEL", LOG_LEVELS) ?? "info",
    limits: readLimits(environment),
    capacity: readCapacity(environment),
  };
}

const DAYS = { min: 1, max: 36_500 };

function readRetention(environment: Environment) {
  const archive = environment.text("SAGA_ARCHIVE_DIR");
  const retention = {
    retentionDays: environment.integer("SAGA_RETENTION_DAYS", DAYS),
    retentionMinDays: environment.integer("SAGA_RETENTION_MIN_DAYS", DAYS),
    retentionMaxDays: environment.integer("SAGA_RETENTION_MAX_DAYS", DAYS),
    archiveDir: archive === undefined ? undefined : resolve(archive),
    eventRetentionDays: environment.integer("SAGA_EVENT_RETENTION_DAYS", DAYS) ?? 30,
  };
  const { retentionDays: days, retentionMinDays: min, retentionMaxDays: max } = retention;
  if (max !== undefined && days === undefined)
    environment.problem(
      "SAGA_RETENTION_MAX_DAYS",
      "needs SAGA_RETENTION_DAYS: without it runs are kept without a limit",
    );
  if (max !== undefined && days !== undefined && days > max)
    environment.problem("SAGA_RETENTION_DAYS", "must not be more than SAGA_RETENTION_MAX_DAYS");
  if (min !== undefined && days !== undefined && days < min)
    environment.problem("SAGA_RETENTION_DAYS", "must not be less than SAGA_RETENTION_MIN_DAYS");
  if (min !== undefined && max !== undefined && min > max)
    environment.problem("SAGA_RETENTION_MIN_DAYS", "must not be more than SAGA_RETENTION_MAX_DAYS");
  return retention;
}

type Present<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

function withoutAbsent<T extends object>(values: T): Present<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Present<T>;
}

/** Deeply frozen. Printing it, as JSON or by inspection, shows no secret. */
function sealed(config: Config): Config {
  const printed = () => redacted(config);
  const hidden = { enumerable: false, value: printed };
  return deepFreeze(Object.defineProperties(config, { toJSON: hidden, [inspect.custom]: hidden }));
}

function deepFreeze<T extends object>(value: T): T {
  for (const member of Object.values(value)) if (typeof member === "object" && member !== null) deepFreeze(member);
  return Object.freeze(value);
}

const REDACTED = "[redacted]";

function redacted(config: Config): Record<string, unknown> {
  const url = (text: string | undefined) => text && hidePassword(text);
  return {
    ...config,
    databaseUrl: config.databaseUrl && printableDatabaseUrl(config.databaseUrl),
    readDatabaseUrl: config.readDatabaseUrl && printableDatabaseUrl(config.readDatabaseUrl),
    redisUrl: url(config.redisUrl),
    amqpUrl: url(config.amqpUrl),
    startupProvider: config.startupProvider && { ...config.startupProvider, url: url(config.startupProvider.url) },
    tokens: config.tokens && { ...config.tokens, keysAt: printableKeysAt(config.tokens.keysAt) },
    busKeys: config.busKeys && REDACTED,
    callbackKeys: config.callbackKeys && REDACTED,
    signingSecret: config.signingSecret && REDACTED,
    tracing: config.tracing && { ...config.tracing, url: url(config.tracing.url), headers: REDACTED },
    oidc: config.oidc && { ...config.oidc, clientSecret: config.oidc.clientSecret && REDACTED },
  };
}

const printableKeysAt = (at: TokenSettings["keysAt"]) => ("url" in at ? { url: hidePassword(at.url) } : at);

/** The query is removed too: some drivers take a password there. */
function hidePassword(text: string): string {
  const { protocol, host, pathname, username, password } = new URL(text);
  const user = username || password ? `${username}:${REDACTED}@` : "";
  return `${protocol}//${user}${host}${pathname}`;
}
