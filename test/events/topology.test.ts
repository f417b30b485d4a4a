// What the service relies on at the broker: it is there again after anyone has removed it, what exists already is taken as it is, and what cannot serve
// is refused in words, in the log and in a gauge.
import { type ChannelModel, connect } from "amqplib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { topologyOf } from "../../src/events/topology.js";
import { createLogger } from "../../src/log.js";
import { BrokerLink, ensureTopicExchange, onChannel } from "../../src/sdk/broker/index.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { brokerSettings } from "../harness/rabbitmq.js";
import { describeWithRabbitMq } from "../harness/services.js";
import { TcpGate } from "../harness/tcp-gate.js";
import { until } from "../harness/until.js";

describeWithRabbitMq("at the broker", (url) => {
  let settings: ReturnType<typeof brokerSettings>;
  let connection: ChannelModel;
  let database: TestDatabase;
  let node: NodeHandle | undefined;
  let lines: string[];

  beforeEach(async () => {
    settings = brokerSettings(url);
    connection = await connect(url);
    database = await createTestDatabase();
    lines = [];
  });
  afterEach(async () => {
    await node?.stop();
    node = undefined;
    await connection.close();
    await database.drop();
  });

  const names = () => topologyOf(settings.SAGA_EVENTS_EXCHANGE);
  const channel = async () => (await connection.createChannel()).on("error", () => {});
  const gauge = async () => {
    const page = await node?.metrics.registry.getSingleMetricAsString("saga_event_topology_missing");
    return Number(/^saga_event_topology_missing (\d)$/m.exec(page ?? "")?.[1]);
  };
  const away = async () => {
    const page = await node?.metrics.registry.getSingleMetricAsString("saga_event_links_away");
    return page?.match(/ 1$/gm)?.length ?? 0;
  };
  const linksAway = async (direction: string) => {
    const page = await node?.metrics.registry.getSingleMetricAsString("saga_event_links_away");
    return Number(new RegExp(`direction="${direction}"} (\\d)$`, "m").exec(page ?? "")?.[1]);
  };
  async function api(path: string, body: object): Promise<void> {
    const response = await fetch(`http://127.0.0.1:${node?.httpPort}/api/v1${path}`, {
      ...{ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) },
    });
    expect(response.status, await response.text()).toBeLessThan(300);
  }
  async function start(): Promise<void> {
    const env = { HTTP_PORT: "0", GRPC_PORT: "0", LOG_LEVEL: "info", ...settings };
    const log = createLogger({ logLevel: "info" }, { write: (line) => void lines.push(line) });
    node = await startNode({ config: loadConfig(env).config, databaseUrl: database.url, log });
  }
  async function started(): Promise<void> {
    await start();
    await until(async () => (await away()) === 0 && (await gauge()) === 0, { what: "both connections" });
  }
  const stored = async (topic: string) => (await database.sql`select 1 from events where topic = ${topic}`).length > 0;
  /** Sent until it is taken: an event that finds no exchange, or no queue behind it, is lost. */
  const isTaken = (topic: string) =>
    until(
      async () => {
        const sending = await channel();
        sending.publish(names().exchange, topic, Buffer.from("{}"), { messageId: topic });
        await sending.close().catch(() => {});
        return stored(topic);
      },
      { what: `the event ${topic}`, pause: 100 },
    );

  it("a deleted exchange, queue, queue of dead messages or binding is there again, without any event of ours", async () => {
    await started();
    const { exchange, queue, dead } = names();
    const removals: Record<string, () => Promise<unknown>> = {
      exchange: async () => (await channel()).deleteExchange(exchange),
      binding: async () => (await channel()).unbindQueue(queue, exchange, "#"),
      queue: async () => (await channel()).deleteQueue(queue),
      dead: async () => (await channel()).deleteQueue(dead),
    };
    for (const [what, remove] of Object.entries(removals)) {
      await remove();
      await isTaken(`after.${what}`);
    }
    await until(async () => (await channel()).checkQueue(dead).catch(() => undefined), {
      what: "the queue of the dead",
    });
    for (const name of [exchange, dead])
      await until(() => lines.some((line) => line.includes("declared again") && line.includes(`"${name}"`)), {
        what: `the line about ${name}`,
      });
    expect(await gauge()).toBe(0);
  }, 60_000);

  it("queues and an exchange that exist with other arguments are taken as they are", async () => {
    const { exchange, queue, dead } = names();
    const before = await channel();
    await before.assertExchange(`${exchange}.rest`, "fanout", { autoDelete: true });
    await before.assertExchange(exchange, "topic", { durable: true, alternateExchange: `${exchange}.rest` });
    await before.assertQueue(queue, { durable: true, arguments: { "x-queue-type": "quorum" } });
    await before.assertQueue(dead, { durable: true, maxLength: 1_000 });
    await started();
    await isTaken("order.quorum");
    expect(lines.filter((line) => line.includes("connecting again"))).toEqual([]);
    await before.deleteExchange(`${exchange}.rest`);
  });

  it("a connection that is lost between an answer and the end of its channel holds nothing up", async () => {
    const gate = new TcpGate(new URL(url));
    await gate.open();
    const behind = await connect(gate.url);
    behind.on("error", () => {});
    const { queue } = names();
    await (await channel()).assertQueue(queue, { durable: true });
    const asked = await onChannel(behind, async (asking) => {
      const { queue: found } = await asking.checkQueue(queue);
      gate.mute();
      return found;
    });
    expect(asked).toBe(queue);
    await gate.shut();
  });

  it("an exchange that was replaced by one of another type is noticed while the service runs", async () => {
    await started();
    const { exchange } = names();
    const other = await channel();
    await other.deleteExchange(exchange);
    // The service may have declared it in between.
    await until(
      async () => {
        const declaring = await channel();
        await declaring.deleteExchange(exchange);
        return declaring.assertExchange(exchange, "direct", { durable: true }).catch(() => undefined);
      },
      { what: "the other exchange" },
    );
    await until(async () => (await gauge()) === 1, { what: "the gauge" });
    expect(lines.some((line) => line.includes(`the exchange ${exchange} has another type than topic`))).toBe(true);
    await other.deleteExchange(exchange);
    await isTaken("order.topic");
  }, 60_000);

  it("a queue that is a stream is refused in words, and taken when it has gone", async () => {
    const { exchange, queue } = names();
    const before = await channel();
    await before.assertQueue(queue, { durable: true, arguments: { "x-queue-type": "stream" } });
    await start();
    // It refuses the queue, or takes messages from it.
    await until(async () => (await gauge()) === 1 || (await linksAway("in")) === 0, {
      what: "what it makes of the queue",
    });
    expect([await gauge(), await linksAway("in")]).toEqual([1, 1]);
    expect(lines.some((line) => line.includes(`the queue ${queue} is a stream`))).toBe(true);
    await before.deleteQueue(queue);
    await isTaken("order.queue");
    expect(await gauge()).toBe(0);
    await before.checkExchange(exchange);
  }, 60_000);

  it("the log has each reason once for which there is no connection", async () => {
    const reasons = ["one", "one", "another", "another", "one"];
    const said: unknown[] = [];
    let opened = 0;
    const link = new BrokerLink({
      ...{ url, name: "saga test", backoffMs: 1, backoffMaxMs: 1, lost: () => {} },
      log: { info: (_, message) => said.push(message), warn: ({ reason }) => said.push(reason) },
      opened: async () => {
        const reason = reasons[opened++];
        if (reason) throw new Error(reason);
      },
    });
    link.start();
    await until(() => said.at(-1) === "connected to RabbitMQ again", { what: "the connection" });
    await link.stop();
    expect(said.slice(0, -1)).toEqual(["one", "another", "one"]);
  });

  it("a connection that is given up while it is set up is followed by another, also if its broker does not answer", async () => {
    const gate = new TcpGate(new URL(url));
    await gate.open();
    const connections: ChannelModel[] = [];
    const link = new BrokerLink({
      ...{ url: gate.url, name: "saga test", backoffMs: 1, backoffMaxMs: 1, lost: () => {} },
      log: { info: () => {}, warn: () => {} },
      opened: async (opened) => {
        if (connections.push(opened) > 1) return;
        // The next try is due long before this one has been closed in order.
        gate.mute();
        link.reset("it hangs", opened);
        await new Promise(() => {});
      },
    });
    link.start();
    await until(() => connections.length === 2, { within: 15_000, what: "another connection" });
    const [first, second] = connections;
    await second?.createChannel();
    link.reset("the first one was closed", first);
    // It costs the second one nothing.
    await second?.createChannel();
    expect(connections).toHaveLength(2);
    await link.stop();
    await gate.shut();
  });

  it("an exchange of another type is refused in words, and taken when it has gone", async () => {
    const { exchange } = names();
    const before = await channel();
    await before.assertExchange(exchange, "direct", { durable: true });
    await start();
    await until(async () => (await gauge()) === 1, { what: "the gauge" });
    expect(lines.some((line) => line.includes(`the exchange ${exchange} has another type than topic`))).toBe(true);
    await before.deleteExchange(exchange);
    await until(async () => (await gauge()) === 0, { what: "the gauge at 0" });
    await isTaken("order.later");
  });

  it("a queue of another program's connection is refused in words", async () => {
    const before = await channel();
    const other = await connect(url);
    await (await other.createChannel()).assertQueue(names().queue, { exclusive: true });
    await start();
    await until(async () => (await gauge()) === 1, { what: "the gauge" });
    expect(lines.some((line) => line.includes("is exclusive to the connection of another program"))).toBe(true);
    // The exchange is there: events of runs are published.
    await until(async () => (await linksAway("out")) === 0, { what: "the connection of outgoing events" });
    expect([await linksAway("in"), await gauge()]).toEqual([1, 1]);
    const heard = await before.assertQueue("", { exclusive: true });
    await before.bindQueue(heard.queue, names().exchange, "#");
    const steps = [{ id: "tell", type: "emit_event", topic: "order.told" }];
    await api("/workflows", { id: "telling", name: "Telling", start: "tell", steps, published: true });
    await api("/sagas/start", { workflow_id: "telling", inputs: {} });
    const told = await until(() => before.get(heard.queue, { noAck: true }), { what: "the event of the run" });
    expect(told.fields.routingKey).toBe("order.told");
    await other.close();
    await until(async () => (await gauge()) === 0, { what: "the gauge at 0" });
    await before.close();
  });
});

describe("a user of the broker who may declare nothing", () => {
  const refused = Object.assign(new Error("403 (ACCESS-REFUSED)"), { code: 403 });
  /** A broker that answers whether the exchange is there, and refuses to declare it. */
  const broker = (found: () => Promise<unknown>) => {
    const channel = { on: () => {}, close: async () => {}, checkExchange: found };
    const assertExchange = () => Promise.reject(refused);
    return { createChannel: async () => ({ ...channel, assertExchange }) } as unknown as ChannelModel;
  };

  it("takes an exchange that is there as it is", async () => {
    expect(
      await ensureTopicExchange(
        broker(async () => ({})),
        "saga.events",
      ),
    ).toBe(false);
  });

  it("is told so if there is none", async () => {
    const missing = broker(() => Promise.reject(Object.assign(new Error("404"), { code: 404 })));
    await expect(ensureTopicExchange(missing, "saga.events")).rejects.toBe(refused);
  });
});
