// Starts the shop's two processes, the service and the worker, with their ports, settings and logs, and kills and restarts
// them. The database that they share is created in run.ts.
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { makeAdminKey, makeKey } from "../access.js";
import { Child, freePorts } from "./processes.js";
import { Saga } from "./rest.js";

const HERE = fileURLToPath(new URL("../../../examples/order-fulfilment", import.meta.url));
const WORKFLOW = join(HERE, "order-fulfilment.workflow.json");
const SERVICE = fileURLToPath(new URL("../../service/main.js", import.meta.url));
const WORKER = fileURLToPath(new URL("./worker.js", import.meta.url));

const READY_MS = 60_000;
const LOG_TAIL = 20;

/** What must be stopped at the end, in reverse order. */
export type Cleanup = (() => Promise<unknown> | undefined)[];

/** With access control: one for each of those who use the service. */
export interface Keys {
  readonly admin: string;
  readonly author: string;
  readonly operator: string;
  readonly worker: string;
}

export interface Shop {
  readonly api: string;
  readonly keys: Keys | undefined;
  readonly service: Child;
  readonly worker: Child;
  readonly isReady: () => Promise<void>;
}

export interface Place {
  readonly databaseUrl: string;
  readonly redisUrl: string | undefined;
  /** With access control. */
  readonly auth: boolean;
  /** The folder of the logs. */
  readonly home: string;
}

export async function openShop(
  { databaseUrl, redisUrl, home, auth }: Place,
  cleanup: Cleanup,
  stop: AbortController,
): Promise<Shop> {
  const [http = 0, grpc = 0] = await freePorts(2);
  const api = `http://127.0.0.1:${http}`;
  const child = (name: string, entry: string, env: NodeJS.ProcessEnv, channel: boolean): Child => {
    const path = join(home, `${name}.log`);
    const log = openSync(path, "a");
    const onDeath = (why: string) => stop.abort(new Error(`the ${why}. The end of its log:\n${tail(path)}`));
    const made = new Child({ name, entry, log, channel, onDeath, env: { ...neutral(process.env), ...env } });
    cleanup.push(async () => {
      await made.stop();
      closeSync(log);
    });
    return made;
  };
  const ports = { HOST: "127.0.0.1", HTTP_PORT: String(http), GRPC_PORT: String(grpc) };
  const bus = redisUrl === undefined ? {} : { REDIS_URL: redisUrl, REDIS_PREFIX: `order-fulfilment:${process.pid}:` };
  // What the folder of definitions holds is the platform's. With access control an author of the shop publishes it.
  const access = auth ? { SAGA_AUTH: "api_key" } : { SAGA_DEFINITIONS_DIR: HERE };
  const store = { DATABASE_URL: databaseUrl };
  const service = child("service", SERVICE, { ...ports, ...bus, ...store, ...access }, false);
  const isReady = () => untilReady(new Saga(api, stop.signal), stop.signal);
  service.start();
  await isReady();
  const keys = auth ? await makeKeys(api, databaseUrl) : undefined;
  if (keys) await new Saga(api, stop.signal, keys.author).publish(JSON.parse(readFileSync(WORKFLOW, "utf8")));
  const addresses = { SAGA_API: api, SAGA_GRPC: `127.0.0.1:${grpc}`, SHOP_DATABASE_URL: databaseUrl };
  const worker = child("worker", WORKER, { ...addresses, ...(keys && { SAGA_TOKEN: keys.worker }) }, true);
  worker.start();
  const probe = new Saga(api, stop.signal, keys?.operator);
  while ((await probe.countActions("shop")) === 0) await delay(50, undefined, { signal: stop.signal });
  return { api, keys, service, worker, isReady };
}

/** The first key is made where the database is, the others by the API. Each may do what it is needed for. */
async function makeKeys(api: string, databaseUrl: string): Promise<Keys> {
  const admin = await makeAdminKey({ DATABASE_URL: databaseUrl });
  const key = (name: string, services?: readonly string[]) =>
    makeKey(api, admin, { name, roles: [name], ...(services && { services }) });
  return { admin, author: await key("author"), operator: await key("operator"), worker: await key("worker", ["shop"]) };
}

/** The service of the demo uses default settings: of those in the environment, only its size is passed on. */
function neutral(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = ["SAGA_WORKERS", "SAGA_STEPS_PER_COMMIT"];
  const foreign = /^(SAGA_|REDIS_|AMQP_|DATABASE_URL)/;
  return Object.fromEntries(Object.entries(env).filter(([name]) => kept.includes(name) || !foreign.test(name)));
}

async function untilReady(probe: Saga, signal: AbortSignal): Promise<void> {
  const latest = Date.now() + READY_MS;
  while (!(await probe.isReady())) {
    if (Date.now() > latest) throw new Error(`the service was not ready within ${READY_MS / 1_000} s`);
    await delay(100, undefined, { signal });
  }
}

export async function strike(child: Child, isReady?: () => Promise<void>): Promise<void> {
  await child.kill();
  child.start();
  await isReady?.();
}

function tail(path: string): string {
  return readFileSync(path, "utf8").trimEnd().split("\n").slice(-LOG_TAIL).join("\n");
}
