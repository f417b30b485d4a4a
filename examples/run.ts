// The command of the small examples: runs one of them on a service that it starts and stops itself, or on the one that SAGA_API names. With --auth
// that service has access control, and the example makes its keys.
import { randomBytes } from "node:crypto";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { makeAdminKey, makeKey, saga } from "./access.js";
import { type Credentials, type Place, Saga } from "./client.js";
import { Child, freePorts } from "./order-fulfilment/processes.js";

type Example = { run(place: Place): Promise<void> };

/** Those that need RabbitMQ say so. */
const EXAMPLES: Readonly<Record<string, { readonly rabbitMq: boolean; load(): Promise<Example> }>> = {
  "http-worker": { rabbitMq: false, load: () => import("./http-worker/example.js") },
  "rabbitmq-worker": { rabbitMq: true, load: () => import("./rabbitmq-worker/example.js") },
  "nightly-cron": { rabbitMq: false, load: () => import("./nightly-cron/example.js") },
  "record-transition": { rabbitMq: false, load: () => import("./record-transition/example.js") },
  "three-transports": { rabbitMq: true, load: () => import("./three-transports/example.js") },
};

const SERVICE = fileURLToPath(new URL("../service/main.js", import.meta.url));
const READY_MS = 60_000;
const LOG_CHARS = 4_000;

async function main(args: readonly string[]): Promise<number> {
  const isAuth = args.includes("--auth");
  const [name = "", ...rest] = args.filter((arg) => arg !== "--auth");
  const example = Object.hasOwn(EXAMPLES, name) && rest.length === 0 ? EXAMPLES[name] : undefined;
  const { AMQP_URL: amqpUrl, SAGA_API: api, SAGA_GRPC: grpc = "127.0.0.1:9090", SAGA_TOKEN: adminKey } = process.env;
  if (!example)
    return refuse(`npm run example -- NAME [--auth], where NAME is one of ${Object.keys(EXAMPLES).join(", ")}`);
  if (example.rabbitMq && !amqpUrl) return refuse(`${name} needs RabbitMQ: set AMQP_URL`);
  if (isAuth && api !== undefined && !adminKey)
    return refuse(`--auth on the service of SAGA_API needs SAGA_TOKEN: the key of an admin of a tenant`);
  const { run } = await example.load();
  const play = async (service: Service) => {
    const access = isAuth ? await accessOf(service) : OPEN;
    const place = { saga: new Saga(service.api, access.token), credentials: access.credentials, grpc: service.grpc };
    const queue = (of: string) => `${of}/example`;
    await run({ ...place, ...(amqpUrl && { amqpUrl }), queue, print: (line) => console.log(line) });
  };
  if (api === undefined) await withService(play, isAuth);
  else await play({ api, grpc, env: process.env, adminKey });
  return 0;
}

/** A service that runs. */
interface Service {
  readonly api: string;
  readonly grpc: string;
  /** Its settings. */
  readonly env: NodeJS.ProcessEnv;
  /** Absent: the command makes one. */
  readonly adminKey?: string | undefined;
}

/** What the client and the workers of an example say to the service. */
interface Access extends Pick<Place, "credentials"> {
  readonly token?: string;
}

const OPEN: Access = { credentials: () => Promise.resolve({}) };

async function accessOf({ api, env, adminKey }: Service): Promise<Access> {
  const admin = adminKey ?? (await makeAdminKey(env));
  const token = await makeKey(api, admin, { name: "client", roles: ["author"] });
  console.log("Access control is on: an admin's key made one for the client (author), and one for each worker.");
  const isSigning = Boolean(env.SAGA_SIGNING_SECRET);
  const credentials = async (service: string): Promise<Credentials> => ({
    token: await makeKey(api, admin, { name: service, roles: ["worker"], services: [service] }),
    ...(isSigning && { signingSecret: await saga(["signing-secret", service], env) }),
  });
  return { token, credentials };
}

/** Settings of a service with access control. HTTP workers must be at public addresses then, unless their place is named. */
const protectedSettings = () => ({
  SAGA_AUTH: "api_key",
  SAGA_SIGNING_SECRET: randomBytes(32).toString("base64"),
  SAGA_WORKER_ALLOW: "127.0.0.1",
});

function refuse(sentence: string): number {
  console.error(sentence);
  return 2;
}

/** A service with an embedded Postgres, unless DATABASE_URL names one. Both end with the example. */
async function withService(play: (service: Service) => Promise<void>, isAuth: boolean): Promise<void> {
  const home = mkdtempSync(join(tmpdir(), "saga-example-"));
  const path = join(home, "service.log");
  const log = openSync(path, "a");
  const [http = 0, grpc = 0] = await freePorts(2);
  const addresses = { HOST: "127.0.0.1", HTTP_PORT: String(http), GRPC_PORT: String(grpc), SAGA_DATA_DIR: home };
  let onDeath: (why: string) => void = () => {};
  const died = new Promise<never>((_, reject) => {
    onDeath = (why) => reject(new Error(`the ${why}:\n${readFileSync(path, "utf8").slice(-LOG_CHARS)}`));
  });
  const env = { SAGA_WORKERS: "1", ...process.env, ...addresses, ...(isAuth && protectedSettings()) };
  const service = new Child({ name: "service", entry: SERVICE, env, log, onDeath });
  service.start();
  try {
    const api = `http://127.0.0.1:${http}`;
    await Promise.race([untilReady(api).then(() => play({ api, grpc: `127.0.0.1:${grpc}`, env })), died]);
  } finally {
    await service.stop();
    closeSync(log);
    rmSync(home, { recursive: true, force: true });
  }
}

async function untilReady(url: string): Promise<void> {
  const isReady = () =>
    fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  for (const latest = performance.now() + READY_MS; !(await isReady()); await delay(100))
    if (performance.now() > latest) throw new Error(`the service was not ready within ${READY_MS / 1_000} s`);
}

process.exitCode = await main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error);
  return 1;
});
