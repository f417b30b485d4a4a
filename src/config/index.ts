// The configuration: every setting there is, validated together, frozen, and handed down by hand. The only place that reads
// `process.env`; nothing here changes after the start.
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { inspect } from "node:util";
import { type AuthConfig, readAuth } from "./auth.js";
import { type Capacity, readCapacity } from "./capacity.js";
import { type Env, Environment } from "./environment.js";
import { type Limits, readLimits } from "./limits.js";

export type { ApiKey, AuthConfig, Role } from "./auth.js";
export type { Capacity } from "./capacity.js";
export type { Env } from "./environment.js";
export type { Limits } from "./limits.js";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

export interface Config {
  readonly host: string;
  /** 0: any free port. */
  readonly httpPort: number;
  readonly grpcPort: number;
  /** Base of `callback_url`, without a slash at its end. */
  readonly publicUrl: string;
  /** Absent: embedded Postgres under `dataDir`. */
  readonly databaseUrl?: string;
  readonly dataDir: string;
  /** Absent: one machine, messages over node:cluster IPC. */
  readonly redisUrl?: string;
  readonly redisPrefix: string;
  /** Absent: `rmq` registrations are refused. */
  readonly amqpUrl?: string;
  /** node:cluster processes. */
  readonly workers: number;
  readonly stepsPerCommit: number;
  readonly licensesFile?: string;
  readonly startupVariablesFile?: string;
  readonly definitionsDir?: string;
  /** Addresses, CIDR blocks and hosts that steps may reach beside public ones. */
  readonly egressAllow: readonly string[];
  /** Where registered workers may live; absent: anywhere. */
  readonly workerAllow?: readonly string[];
  readonly secretsFile?: string;
  readonly signingSecret?: string;
  /** Absent: ended runs and audit rows are kept. */
  readonly retentionDays?: number;
  readonly eventRetentionDays: number;
  readonly auth: AuthConfig;
  readonly inspect: boolean;
  readonly inspectUi?: string;
  readonly logLevel: (typeof LOG_LEVELS)[number];
  readonly limits: Limits;
  readonly capacity: Capacity;
}

/** The start cannot go on: lists every problem of the environment at once. Holds names and rules, never values of secrets. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  constructor(readonly problems: readonly string[]) {
    super(`The configuration has ${problems.length} problem(s):\n${problems.map((line) => `  - ${line}`).join("\n")}`);
  }
}

const PORTS = { min: 0, max: 65_535 };

/** Throws ConfigError with all problems. Warnings are for the log, once there is one. */
export function loadConfig(env: Env = process.env): { config: Config; warnings: string[] } {
  const environment = new Environment(env);
  const config = withoutAbsent({ ...readAddresses(environment), ...readStores(environment), ...readRest(environment) });
  const warnings = environment
    .unknownNames("SAGA_")
    .map((name) => `${name} is not a setting of this service: it has no effect`);
  if (environment.problems.length > 0) throw new ConfigError(environment.problems);
  if (config.auth.kind === "off")
    warnings.push("SAGA_AUTH is off: everyone who reaches this service may do everything");
  return { config: sealed(config), warnings };
}

function readAddresses(environment: Environment) {
  const host = environment.text("HOST") ?? "127.0.0.1";
  const httpPort = environment.integer("HTTP_PORT", PORTS) ?? 8080;
  const grpcPort = environment.integer("GRPC_PORT", PORTS) ?? 9090;
  if (httpPort === grpcPort && httpPort !== 0) environment.problem("GRPC_PORT", "must differ from HTTP_PORT");
  const publicUrl = environment.url("SAGA_PUBLIC_URL", ["http", "https"]) ?? defaultPublicUrl(host, httpPort);
  return { host, httpPort, grpcPort, publicUrl: publicUrl.replace(/\/+$/, "") };
}

/** An unspecified address is no address that a worker could call back. */
function defaultPublicUrl(host: string, port: number): string {
  const reachable = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`;
}

function readStores(environment: Environment) {
  return {
    databaseUrl: environment.url("DATABASE_URL", ["postgres", "postgresql"]),
    dataDir: resolve(environment.text("SAGA_DATA_DIR") ?? ".saga"),
    redisUrl: environment.url("REDIS_URL", ["redis", "rediss"]),
    redisPrefix: environment.text("REDIS_PREFIX") ?? "",
    amqpUrl: environment.url("AMQP_URL", ["amqp", "amqps"]),
  };
}

function readRest(environment: Environment) {
  return {
    workers: environment.integer("SAGA_WORKERS", { min: 1, max: 256 }) ?? Math.max(1, availableParallelism() - 1),
    stepsPerCommit: environment.integer("SAGA_STEPS_PER_COMMIT", { min: 1, max: 64 }) ?? 64,
    licensesFile: environment.text("SAGA_LICENSES_FILE"),
    startupVariablesFile: environment.text("SAGA_STARTUP_VARIABLES_FILE"),
    definitionsDir: environment.text("SAGA_DEFINITIONS_DIR"),
    egressAllow: environment.hosts("SAGA_EGRESS_ALLOW") ?? [],
    workerAllow: environment.hosts("SAGA_WORKER_ALLOW"),
    secretsFile: environment.text("SAGA_SECRETS_FILE"),
    signingSecret: environment.text("SAGA_SIGNING_SECRET"),
    retentionDays: environment.integer("SAGA_RETENTION_DAYS", { min: 1, max: 36_500 }),
    eventRetentionDays: environment.integer("SAGA_EVENT_RETENTION_DAYS", { min: 1, max: 36_500 }) ?? 30,
    auth: readAuth(environment),
    inspect: environment.flag("SAGA_INSPECT") ?? true,
    inspectUi: environment.url("SAGA_INSPECT_UI", ["http", "https"]),
    logLevel: environment.choice("LOG_LEVEL", LOG_LEVELS) ?? "info",
    limits: readLimits(environment),
    capacity: readCapacity(environment),
  };
}

type Present<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

function withoutAbsent<T extends object>(values: T): Present<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Present<T>;
}

/** Frozen all the way down; printing it, as JSON or by inspection, shows no secret. */
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
    databaseUrl: url(config.databaseUrl),
    redisUrl: url(config.redisUrl),
    amqpUrl: url(config.amqpUrl),
    signingSecret: config.signingSecret && REDACTED,
    auth: config.auth.kind === "off" ? config.auth : { kind: config.auth.kind, credentials: REDACTED },
  };
}

/** Queries go too: some drivers take a password there. */
function hidePassword(text: string): string {
  const { protocol, host, pathname, username, password } = new URL(text);
  const user = username || password ? `${username}:${REDACTED}@` : "";
  return `${protocol}//${user}${host}${pathname}`;
}
