// Each small example does what it prints, on a real node with real workers; and the documented command runs one of them.
// @module-tag both
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "amqplib";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { Saga } from "../../examples/client.js";
import * as httpWorker from "../../examples/http-worker/example.js";
import * as nightlyCron from "../../examples/nightly-cron/example.js";
import * as rabbitMqWorker from "../../examples/rabbitmq-worker/example.js";
import * as recordTransition from "../../examples/record-transition/example.js";
import * as threeTransports from "../../examples/three-transports/example.js";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { packageRoot } from "../../src/config/package.js";
import { uuidv7 } from "../../src/ids.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { brokerSettings } from "../harness/rabbitmq.js";
import { describeWithRabbitMq } from "../harness/services.js";

const EXAMPLES = join(packageRoot(), "examples");
const COMMAND = join(packageRoot(), "dist", "examples", "run.js");
const amqpUrl = inject("amqpUrl");
const queues = `test.${uuidv7()}.`;

let database: TestDatabase;
let node: NodeHandle;

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  const env = { HTTP_PORT: "0", GRPC_PORT: "0", ...(amqpUrl !== "" && brokerSettings(amqpUrl)) };
  node = await startNode({ config: loadConfig(env).config, databaseUrl: database.url, log: silentLog });
});
afterAll(async () => {
  await node?.stop();
  await database?.drop();
});

const api = () => `http://127.0.0.1:${node.httpPort}`;

/** What the example printed. */
async function printed({ run }: typeof httpWorker): Promise<string[]> {
  const lines: string[] = [];
  const broker = amqpUrl === "" ? {} : { amqpUrl };
  const print = (line: string) => void lines.push(line);
  await run({ saga: new Saga(api()), grpc: `127.0.0.1:${node.grpcPort}`, ...broker, queues, print });
  return lines;
}

/** The command with these arguments, as a process of its own. */
function command(name: string, env: Readonly<Record<string, string>>): Promise<{ code: number; output: string }> {
  const { PATH = "", HOME = "" } = process.env;
  return new Promise((resolve) => {
    execFile(process.execPath, [COMMAND, name], { env: { PATH, HOME, ...env } }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), output: stdout + stderr }),
    );
  });
}

describe("the example", { tags: "short" }, () => {
  it("http-worker prints a label, and refuses one without an address", async () => {
    const [label, refused] = await printed(httpWorker);
    expect(label).toBe("the run succeeded: L-1 to Rue 1, Basel");
    expect(refused).toBe("the run without an address failed: no_address");
  });

  it("nightly-cron has ticks at three in the night, and runs when it is fired", async () => {
    const [ticks, fired] = await printed(nightlyCron);
    expect(ticks?.match(/T03:00:00\.000Z/g)).toHaveLength(3);
    expect(fired).toMatch(/^fired now: \{"branch":"Basel","for":"\d{4}-/);
  });

  it("record-transition starts one run for two transitions", async () => {
    expect(await printed(recordTransition)).toEqual(["two transitions, 1 run: invoiced O-7, total 42.5"]);
  });
});

describeWithRabbitMq("the example", (url) => {
  afterAll(async () => {
    const connection = await connect(url);
    const channel = await connection.createChannel();
    for (const name of ["warehouse", "carrier"])
      for (const end of ["", ".dead"]) await channel.deleteQueue(`${queues}${name}${end}`);
    await connection.close();
  });

  it("rabbitmq-worker picks for three runs", async () => {
    expect(await printed(rabbitMqWorker)).toEqual([`three runs picked 1, 2, 3 from the queue ${queues}warehouse`]);
  });

  it("three-transports undoes a saga that fails late over gRPC, HTTP and RabbitMQ, and its books balance", async () => {
    expect(await printed(threeTransports)).toEqual([
      "the order without an address failed at address and was undone: book, charge, reserve",
      "stock    over gRPC      made 42, undone 12, left 30",
      "bank     over HTTP      made 42, undone 12, left 30",
      "carrier  over RabbitMQ  made 42, undone 12, left 30",
      "The books balance.",
    ]);
  });
});

describe("the command", () => {
  it("runs an example on the service that SAGA_API names", { tags: "short" }, async () => {
    const { code, output } = await command("record-transition", { SAGA_API: api() });
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining("two transitions, 1 run") });
  });

  it("refuses an unknown example and names the known ones, and says what an example needs", {
    tags: "short",
  }, async () => {
    const { code, output } = await command("moon", {});
    expect(code).toBe(2);
    for (const name of ["http-worker", "rabbitmq-worker", "nightly-cron", "record-transition", "three-transports"])
      expect(output).toContain(name);
    const needing = await command("three-transports", {});
    expect(needing).toEqual({ code: 2, output: "three-transports needs RabbitMQ: set AMQP_URL\n" });
  });

  it("starts and stops a service of its own", { tags: "long", timeout: 240_000 }, async () => {
    const { code, output } = await command("http-worker", {});
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining("the run succeeded: L-1") });
  });
});

describe("the index", { tags: "short" }, () => {
  it("names every example", () => {
    const index = readFileSync(join(EXAMPLES, "README.md"), "utf8");
    const folders = readdirSync(EXAMPLES, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(folders.map(({ name }) => name).filter((name) => !index.includes(`(${name}`))).toEqual([]);
  });
});
