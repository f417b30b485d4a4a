// Each small example does what it prints, on a real node with real workers, without access control and with it; and the documented command runs
// one of them.
// @module-tag both
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "amqplib";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { makeKey } from "../../examples/access.js";
import { type Credentials, Saga } from "../../examples/client.js";
import * as httpWorker from "../../examples/http-worker/example.js";
import * as nightlyCron from "../../examples/nightly-cron/example.js";
import * as rabbitMqWorker from "../../examples/rabbitmq-worker/example.js";
import * as recordTransition from "../../examples/record-transition/example.js";
import * as threeTransports from "../../examples/three-transports/example.js";
import { makeKey as newKey } from "../../src/access/key-text.js";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { packageRoot } from "../../src/config/package.js";
import { readSigning } from "../../src/egress/signing.js";
import { uuidv7 } from "../../src/ids.js";
import { insertKey } from "../../src/store/lists/api-keys.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { brokerSettings } from "../harness/rabbitmq.js";
import { describeWithRabbitMq } from "../harness/services.js";

const EXAMPLES = join(packageRoot(), "examples");
const COMMAND = join(packageRoot(), "dist", "examples", "run.js");
const amqpUrl = inject("amqpUrl");
const TENANT = "0190a000-0000-7000-8000-0000000000e1";
const SECRET = "a signing secret for the examples, of any text";
const PROTECTED = { SAGA_AUTH: "api_key", SAGA_SIGNING_SECRET: SECRET, SAGA_WORKER_ALLOW: "127.0.0.1" };

/** A node, and what an example says to it. */
interface Rig {
  readonly api: () => string;
  readonly database: () => TestDatabase;
  /** The key of an admin of the tenant. */
  readonly adminKey: () => string;
  readonly queue: (service: string) => string;
  /** What the example printed. */
  readonly printed: (example: typeof httpWorker) => Promise<string[]>;
}

function useNode(access: "off" | "on"): Rig {
  const isOn = access === "on";
  const name = `test.${uuidv7()}`;
  const queue = (service: string) => `${service}/${name}`;
  let database: TestDatabase;
  let node: NodeHandle;
  let adminKey = "";
  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    const settings = { ...(amqpUrl !== "" && brokerSettings(amqpUrl)), ...(isOn && PROTECTED) };
    const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0", ...settings });
    node = await startNode({ config, databaseUrl: database.url, log: silentLog });
    const { id, key, secretHash } = newKey();
    const admin = { name: "admin", roles: ["admin"], tenantId: TENANT, createdBy: "cli" };
    await insertKey(database.sql, { id, secretHash, ...admin });
    adminKey = key;
  });
  afterAll(async () => {
    await node?.stop();
    await database?.drop();
  });
  const api = () => `http://127.0.0.1:${node.httpPort}`;
  const credentials = async (service: string): Promise<Credentials> => {
    if (!isOn) return {};
    const token = await makeKey(api(), adminKey, { name: service, roles: ["worker"], services: [service] });
    return { token, signingSecret: readSigning(SECRET).of(service)[0] ?? "" };
  };
  const printed = async ({ run }: typeof httpWorker) => {
    const lines: string[] = [];
    const client = isOn ? [await makeKey(api(), adminKey, { name: "client", roles: ["author"] })] : [];
    const place = { saga: new Saga(api(), ...client), grpc: `127.0.0.1:${node.grpcPort}`, queue, credentials };
    await run({ ...place, ...(amqpUrl !== "" && { amqpUrl }), print: (line) => void lines.push(line) });
    return lines;
  };
  return { api, database: () => database, adminKey: () => adminKey, queue, printed };
}

/** The command with these arguments, as a process of its own. */
function command(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<{ code: number; output: string }> {
  const { PATH = "", HOME = "" } = process.env;
  return new Promise((resolve) => {
    execFile(process.execPath, [COMMAND, ...args], { env: { PATH, HOME, ...env } }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), output: stdout + stderr }),
    );
  });
}

describe.each(["off", "on"] as const)("with access %s, the example", (access) => {
  const { printed, database } = useNode(access);

  it("http-worker prints a label, refuses one without an address, and with access a call that is not signed", {
    tags: "short",
  }, async () => {
    expect(await printed(httpWorker)).toEqual([
      expect.stringMatching(/^the run succeeded: L-\d to Rue 1, Basel$/),
      "the run without an address failed: no_address",
      ...(access === "on" ? ["the worker answered 401 to a call that the service did not sign"] : []),
    ]);
  });

  it("nightly-cron has ticks at three in the night, and runs when it is fired", { tags: "short" }, async () => {
    const [ticks, fired] = await printed(nightlyCron);
    expect(ticks?.match(/T03:00:00\.000Z/g)).toHaveLength(3);
    expect(fired).toMatch(/^fired now: \{"branch":"Basel","for":"\d{4}-/);
  });

  it("record-transition starts one run for two transitions", { tags: "short" }, async () => {
    expect(await printed(recordTransition)).toEqual(["two transitions, 1 run: invoiced O-7, total 42.5"]);
  });

  it("leaves its runs to the tenant of its key", { tags: "short" }, async () => {
    await printed(recordTransition);
    const tenants = await database().sql`select distinct tenant_id from runs`;
    expect(tenants).toEqual([{ tenant_id: access === "on" ? TENANT : null }]);
  });
});

describeWithRabbitMq("over RabbitMQ", (url) => {
  describe.each(["off", "on"] as const)("with access %s, the example", (access) => {
    const { printed, queue, database } = useNode(access);
    afterAll(async () => {
      const connection = await connect(url);
      const channel = await connection.createChannel();
      for (const service of ["warehouse", "carrier"])
        for (const end of ["", ".dead"]) await channel.deleteQueue(`${queue(service)}${end}`);
      await connection.close();
    });

    it("rabbitmq-worker picks for three runs", async () => {
      expect(await printed(rabbitMqWorker)).toEqual([`three runs picked 1, 2, 3 from the queue ${queue("warehouse")}`]);
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

    it("three-transports is answered over HTTP and RabbitMQ by the token of the dispatch, and over gRPC by the worker", async () => {
      const rows = await database().sql<{ step_id: string; actor: string; credential: string | null }[]>`
        select distinct step_id, actor, metadata->>'credential' as credential from run_events
        where event_type = 'step.succeeded' and step_id in ('book', 'charge', 'reserve') order by step_id`;
      // A report with the worker's own key would have that key as its actor.
      expect(rows).toEqual([
        { step_id: "book", actor: "api", credential: null },
        { step_id: "charge", actor: "api", credential: null },
        {
          step_id: "reserve",
          actor: expect.stringMatching(/^worker:stock:/),
          credential: access === "on" ? expect.stringMatching(/^key:/) : null,
        },
      ]);
    });
  });
});

describe("the command", () => {
  const open = useNode("off");
  const guarded = useNode("on");

  it("runs an example on the service that SAGA_API names", { tags: "short" }, async () => {
    const { code, output } = await command(["record-transition"], { SAGA_API: open.api() });
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining("two transitions, 1 run") });
  });

  it("runs it there with the keys that the key of an admin makes", { tags: "short" }, async () => {
    const service = { SAGA_API: guarded.api() };
    const { code, output } = await command(["record-transition", "--auth"], {
      ...service,
      SAGA_TOKEN: guarded.adminKey(),
    });
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining("two transitions, 1 run") });
    expect(await command(["record-transition", "--auth"], service)).toEqual({
      code: 2,
      output: "--auth on the service of SAGA_API needs SAGA_TOKEN: the key of an admin of a tenant\n",
    });
  });

  it("refuses an unknown example and names the known ones, and says what an example needs", {
    tags: "short",
  }, async () => {
    const { code, output } = await command(["moon"], {});
    expect(code).toBe(2);
    for (const name of ["http-worker", "rabbitmq-worker", "nightly-cron", "record-transition", "three-transports"])
      expect(output).toContain(name);
    const needing = await command(["three-transports"], {});
    expect(needing).toEqual({ code: 2, output: "three-transports needs RabbitMQ: set AMQP_URL\n" });
  });

  it("starts and stops a service of its own", { tags: "long", timeout: 240_000 }, async () => {
    const { code, output } = await command(["http-worker"], {});
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining("the run succeeded: L-1") });
  });

  it("starts one with access control, and makes its keys", { tags: "long", timeout: 240_000 }, async () => {
    const { code, output } = await command(["http-worker", "--auth"], {});
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining("the run succeeded: L-1") });
    expect(output).toContain("the worker answered 401 to a call that the service did not sign");
  });
});

describe("the index", { tags: "short" }, () => {
  it("names every example", () => {
    const index = readFileSync(join(EXAMPLES, "README.md"), "utf8");
    const folders = readdirSync(EXAMPLES, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    expect(folders.map(({ name }) => name).filter((name) => !index.includes(`(${name}`))).toEqual([]);
  });
});
