// The settings of `saga dev`, which starts a service and gives it and the worker their environments. What a setting means is the service's matter.
import { resolve } from "node:path";
import { printableDatabaseUrl } from "./database-url.js";
import { type Env, Environment } from "./environment.js";
import { ConfigError } from "./index.js";

export interface DevSettings {
  /** `HOST` (127.0.0.1). */
  readonly host: string;
  /** `HTTP_PORT` and `GRPC_PORT`. Absent: 8080 and 9090, or the next free ones. */
  readonly httpPort?: number;
  readonly grpcPort?: number;
  /** `DATABASE_URL`, without its password. Absent: the embedded Postgres. */
  readonly databaseUrl?: string;
  /** `SAGA_DATA_DIR` (.saga of the folder). */
  readonly dataDir: string;
  /** Whether the service has a certificate. */
  readonly isTls: boolean;
  /** `SAGA_TOKEN`: with access control on, the key by which definitions are published, of the role `author`. */
  readonly token?: string;
  /** What the children get of this process's environment. */
  readonly env: Env;
  /** Colours are not wanted (`NO_COLOR`), or the terminal has none. */
  readonly isPlain: boolean;
}

/** Of clients and workers: the service would not know them. */
const OF_CLIENTS = ["SAGA_API", "SAGA_URL", "SAGA_GRPC", "SAGA_TOKEN"];
/** Of `saga dev` itself and of tools that watch: a child must not take them for its own. */
const OF_THIS_PROCESS = ["NODE_CHANNEL_FD", "NODE_CHANNEL_SERIALIZATION_MODE", "NODE_UNIQUE_ID"];

/** Throws ConfigError. The service checks the rest. */
export function readDevSettings(folder: string, env: Env = process.env): DevSettings {
  const environment = new Environment(env);
  const ports = { min: 0, max: 65_535 };
  const httpPort = environment.integer("HTTP_PORT", ports);
  const grpcPort = environment.integer("GRPC_PORT", ports);
  const databaseUrl = environment.databaseUrl("DATABASE_URL");
  const token = environment.text("SAGA_TOKEN");
  const settings = {
    host: environment.text("HOST") ?? "127.0.0.1",
    ...(httpPort !== undefined && { httpPort }),
    ...(grpcPort !== undefined && { grpcPort }),
    ...(databaseUrl !== undefined && { databaseUrl: printableDatabaseUrl(databaseUrl) }),
    dataDir: resolve(folder, environment.text("SAGA_DATA_DIR") ?? ".saga"),
    isTls: environment.text("SAGA_TLS_CERT_FILE") !== undefined,
    ...(token !== undefined && { token }),
    isPlain: Boolean(env.NO_COLOR) || env.TERM === "dumb",
    env: projectEnvironment(env),
  };
  if (environment.problems.length > 0) throw new ConfigError(environment.problems);
  return settings;
}

/** The environment of code of the project: that of the command. */
export const projectEnvironment = (env: Env = process.env): Env => without(env, OF_THIS_PROCESS);

/** The environment of the service: these settings, and of the rest what the user has set. One node is enough, and starts faster. */
export function serviceEnvironment({ env, dataDir, host }: DevSettings, ports: { http: number; grpc: number }): Env {
  const own = { HOST: host, HTTP_PORT: String(ports.http), GRPC_PORT: String(ports.grpc), SAGA_DATA_DIR: dataDir };
  return { SAGA_WORKERS: "1", ...without(env, OF_CLIENTS), ...own };
}

/** The environment of the worker: where the service is, and not what only the service may know. */
export function workerEnvironment({ env }: DevSettings, { api, grpc }: { api: string; grpc: string }): Env {
  return { ...env, SAGA_API: api, SAGA_URL: api, SAGA_GRPC: grpc };
}

const without = (env: Env, names: readonly string[]): Env =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !names.includes(name)));
