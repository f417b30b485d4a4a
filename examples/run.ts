// The command of the small examples: runs one of them on a service that it starts and stops itself, or on the one that SAGA_API names.
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Place, Saga } from "./client.js";
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

async function main(name = ""): Promise<number> {
  const example = Object.hasOwn(EXAMPLES, name) ? EXAMPLES[name] : undefined;
  const { AMQP_URL: amqpUrl, SAGA_API: api, SAGA_GRPC: grpc = "127.0.0.1:9090" } = process.env;
  if (!example) return refuse(`npm run example -- NAME, where NAME is one of ${Object.keys(EXAMPLES).join(", ")}`);
  if (example.rabbitMq && !amqpUrl) return refuse(`${name} needs RabbitMQ: set AMQP_URL`);
  const { run } = await example.load();
  const broker = amqpUrl ? { amqpUrl } : {};
  const play = (url: string, at: string) =>
    run({ saga: new Saga(url), grpc: at, ...broker, queues: "example.", print: (line) => console.log(line) });
  await (api === undefined ? withService(play) : play(api, grpc));
  return 0;
}

function refuse(sentence: string): number {
  console.error(sentence);
  return 2;
}

/** A service with an embedded Postgres, unless DATABASE_URL names one. Both end with the example. */
async function withService(play: (api: string, grpc: string) => Promise<void>): Promise<void> {
  const home = mkdtempSync(join(tmpdir(), "saga-example-"));
  const path = join(home, "service.log");
  const log = openSync(path, "a");
  const [http = 0, grpc = 0] = await freePorts(2);
  const addresses = { HOST: "127.0.0.1", HTTP_PORT: String(http), GRPC_PORT: String(grpc), SAGA_DATA_DIR: home };
  let onDeath: (why: string) => void = () => {};
  const died = new Promise<never>((_, reject) => {
    onDeath = (why) => reject(new Error(`the ${why}:\n${readFileSync(path, "utf8").slice(-LOG_CHARS)}`));
  });
  const env = { SAGA_WORKERS: "1", ...process.env, ...addresses };
  const service = new Child({ name: "service", entry: SERVICE, env, log, onDeath });
  service.start();
  try {
    const url = `http://127.0.0.1:${http}`;
    await Promise.race([untilReady(url).then(() => play(url, `127.0.0.1:${grpc}`)), died]);
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

process.exitCode = await main(process.argv[2]).catch((error: unknown) => {
  console.error(error);
  return 1;
});
