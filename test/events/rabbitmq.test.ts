// Events from and to a real broker, with a real service: what is taken, once and not before its commit, what cannot be taken, and what runs
// publish, in their order, until the broker has it. The broker away under load is in test/faults.
// @access both
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { createLogger } from "../../src/log.js";
import { Client } from "../faults/client.js";
import { accessSettings, tenantHeader, testsTenant } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { describeWithRabbitMq } from "../harness/services.js";
import { until } from "../harness/until.js";
import { nothingUnwatched } from "../run/seen.js";
import { Exchange } from "./rig.js";

let database: TestDatabase;
let node: NodeHandle;
let client: Client;
/** What the service warns of. */
let lines: string[];

async function startService(env: Readonly<Record<string, string>>): Promise<void> {
  database = await createTestDatabase();
  const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0", LOG_LEVEL: "silent", ...accessSettings(), ...env });
  lines = [];
  const log = createLogger({ logLevel: "warn" }, { write: (line) => void lines.push(line) });
  node = await startNode({ config, databaseUrl: database.url, log });
  client = new Client(`http://127.0.0.1:${node.httpPort}`);
  await client.publish("hear", [
    { id: "s", type: "wait_for_event", topic: "order.paid", headers: { order: "${inputs.order}" }, next: "end" },
    { id: "end", type: "end", output: "${vars.s}" },
  ]);
  await client.publish("tell", [
    { id: "one", type: "emit_event", topic: "order.made", payload: "${inputs.order}", next: "two" },
    { id: "two", type: "emit_event", topic: "order.sent", headers: { to: "ann", n: 7 }, next: "end" },
    { id: "end", type: "end" },
  ]);
  await client.publish("fail", [
    { id: "try", type: "parallel", branches: { a: { next: "a" }, b: { next: "b" } }, next: "join" },
    { id: "a", type: "noop" },
    { id: "b", type: "noop" },
    { id: "join", type: "join", next: "fail" },
    { id: "fail", type: "error", code: "late", message: "too late" },
  ]);
}

async function stopService(): Promise<void> {
  await nothingUnwatched(database.sql);
  await node.stop();
  await database.drop();
}

const stored = (topic: string) =>
  database.sql<{ id: string; headers: object; payload: unknown; key: string | null }[]>`
    select id, headers, payload, idempotency_key as key from events where topic = ${topic} order by ordinal`;
const owed = async () => (await database.sql`select 1 from outgoing_events`).length;
const metric = async (name: string) => {
  const page = await node.metrics.registry.getSingleMetricAsString(name);
  return Object.fromEntries(
    [...page.matchAll(/^\w+\{\w+="(\w+)"\} (\d+)$/gm)].map(([, label = "", value]) => [label, Number(value)]),
  );
};

describeWithRabbitMq("events over RabbitMQ", (url) => {
  let exchange: Exchange;
  beforeAll(async () => {
    exchange = await Exchange.open(url);
    await startService({ ...exchange.env, SAGA_LIFECYCLE_EVENTS: "on", SAGA_LIMIT_BODY_BYTES: "4000" });
    await untilConnected();
  });
  afterAll(async () => {
    await stopService();
    await exchange.close();
  });
  beforeEach(() => {
    exchange.heard.length = 0;
  });

  const untilConnected = () =>
    until(async () => !Object.values(await metric("saga_event_links_away")).includes(1), { what: "both connections" });
  const noneLeft = () => until(async () => (await exchange.ready()) === 0, { what: "an empty queue" });
  const heardFrom = (runId: string) =>
    exchange.heard.filter(({ content, properties }) => content.includes(runId) || properties.headers?.of === runId);

  describe("a message", () => {
    it("is an event: its routing key, headers, body and id are topic, headers, payload and key", async () => {
      const messageId = randomUUID();
      const headers = { to: "ann", n: 7, yes: true, "x-death": [{ count: 1 }], "x-saga-reason": "none", at: null };
      await exchange.send("order.kept", { order: 7 }, { messageId, headers });
      const [event] = await until(async () => (await stored("order.kept")).length > 0 && stored("order.kept"));
      expect(event).toMatchObject({
        headers: { to: "ann", n: "7", yes: "true" },
        payload: { order: 7 },
        key: messageId,
      });
      expect(Object.keys(event?.headers ?? {}).sort()).toEqual(["n", "to", "yes"]);
      await exchange.send("order.empty", Buffer.alloc(0));
      const [empty] = await until(async () => (await stored("order.empty")).length > 0 && stored("order.empty"));
      expect(empty).toMatchObject({ headers: {}, payload: {}, key: null });
    });

    it("counts without the headers of other libraries that no condition could name", async () => {
      const foreign = {
        "$.diagnostics.originating.hostid": "0a5b",
        "NServiceBus.ReplyToAddress": "orders",
        "a b": "c",
        "": "empty",
        trace: "t".repeat(1_025),
        zero: "\0",
        to: "ann",
      };
      await exchange.send("order.foreign", { order: 7 }, { headers: foreign });
      const [event] = await until(async () => (await stored("order.foreign")).length > 0 && stored("order.foreign"));
      expect(event).toMatchObject({ headers: { to: "ann", "NServiceBus.ReplyToAddress": "orders" } });
      expect(Object.keys(event?.headers ?? {})).toHaveLength(2);
    });

    it("counts without the headers beyond the 32 that an event may have, whatever their order, and the log says so once", async () => {
      const names = Array.from({ length: 40 }, (_, nth) => `h${String(nth).padStart(2, "0")}`);
      const headersOf = (list: readonly string[]) => ({
        ...Object.fromEntries(list.map((name) => [name, "x"])),
        "$.foreign": "y",
      });
      const [messageId, before] = [randomUUID(), await metric("saga_events_in_total")];
      const become = async () => {
        const now = await metric("saga_events_in_total");
        return ["taken", "repeated", "dead"].map((outcome) => (now[outcome] ?? 0) - (before[outcome] ?? 0));
      };
      await exchange.send("order.headed", {}, { messageId, headers: headersOf(names) });
      await exchange.send("order.headed", {}, { messageId, headers: headersOf(names.toReversed()) });
      await until(async () => (await become()).reduce((sum, count) => sum + count) === 2, { what: "both messages" });
      expect(await become()).toEqual([1, 1, 0]);
      expect((await stored("order.headed")).map(({ headers }) => Object.keys(headers).sort())).toEqual([
        names.slice(0, 32),
      ]);
      expect(lines.filter((line) => line.includes("the first 32 by name count"))).toEqual([
        expect.stringContaining('"leftOut":8'),
      ]);
    });

    it("may begin with a byte order mark", async () => {
      await exchange.send("order.marked", Buffer.from('\uFEFF{"order":8}'));
      const [event] = await until(async () => (await stored("order.marked")).length > 0 && stored("order.marked"));
      expect(event).toMatchObject({ payload: { order: 8 } });
    });

    it("that is delivered twice is committed once, and the same key over HTTP is the same event", async () => {
      const before = (await metric("saga_events_in_total")).repeated ?? 0;
      const [messageId, event] = [randomUUID(), { topic: "order.twice", headers: { to: "ann" }, payload: [1] }];
      for (let nth = 0; nth < 2; nth++)
        await exchange.send(event.topic, event.payload, { messageId, headers: event.headers });
      await until(async () => ((await metric("saga_events_in_total")).repeated ?? 0) === before + 1);
      const events = await stored(event.topic);
      const again = await client.insist("POST", "/events", { ...event, idempotency_key: messageId });
      expect([events.length, again.body.event_id]).toEqual([1, events[0]?.id]);
    });

    it("resumes the run that waits for it, and fires a trigger of record transitions", async () => {
      const order = randomUUID();
      const runId = await client.start("hear", { inputs: { order } });
      await client.untilState(runId, "paused");
      const config = {
        record_type: order,
        from_state: "open",
        to_state: "paid",
        input_mapping: { order: "${record.id}" },
      };
      const trigger = await client.insist("POST", "/triggers", {
        ...{ trigger_type: "record_transition", workflow_id: "tell", config },
      });
      expect(trigger.status).toBe(201);
      await exchange.send("order.paid", { by: "ann" }, { headers: { order } });
      const change = { record_type: order, from_state: "open", to_state: "paid", record: { id: "r-7" } };
      await exchange.send("record.transition", change);
      const [seen] = await client.allEnd([runId]);
      expect(seen?.run.output).toMatchObject({ topic: "order.paid", payload: { by: "ann" } });
      const fired = async () => (await client.ask("GET", `/sagas?trigger_id=${trigger.body.id}`)).body.items?.[0];
      expect(await until(fired)).toMatchObject({ workflow_id: "tell" });
    });

    it("is acknowledged after its commit: one whose connection breaks before is delivered again, and counts once", async () => {
      const topic = `order.${randomUUID()}`;
      // Its insert, and nothing else, waits for the lock.
      await database.sql.unsafe(`create or replace function wait_here() returns trigger language plpgsql as
        'begin perform pg_advisory_xact_lock(7); return new; end'`);
      await database.sql.unsafe(`create or replace trigger wait_here before insert on events for each row
        when (new.topic = '${topic}') execute function wait_here()`);
      const lock = database.session();
      await lock.sql`select pg_advisory_lock(7)`;
      try {
        const messageId = randomUUID();
        await exchange.send(topic, {}, { messageId });
        const waiting = () => database.sql`
          select 1 from pg_locks where locktype = 'advisory' and not granted
            and database = (select oid from pg_database where datname = current_database())`;
        await until(async () => (await waiting()).length > 0, { what: "the event's insert" });
        await exchange.cut(async () => {
          // Not acknowledged, so the broker has it again, perhaps beside events of the service itself.
          await until(() => exchange.has(messageId), { what: "the message's return" });
        });
      } finally {
        await lock.close();
      }
      await until(async () => (await stored(topic)).length === 1);
      await untilConnected();
      await exchange.send("order.later", {});
      await until(async () => (await stored("order.later")).length === 1);
      await noneLeft();
      expect((await stored(topic)).length).toBe(1);
    });
  });

  describe("a message that cannot be taken goes to the other queue, with the reason:", () => {
    it.each([
      ["no JSON", "order.bad", Buffer.from("{"), {}, "the body is not JSON"],
      ["no UTF-8", "order.bad", Buffer.from([0x22, 0xff, 0x22]), {}, "the body is not UTF-8"],
      [
        "compressed",
        "order.bad",
        {},
        { contentEncoding: "gzip" },
        "the body has a content encoding; send it without one",
      ],
      [
        "too large",
        "order.bad",
        "x".repeat(4_000),
        {},
        "the body has 4002 bytes, more than 4000 (SAGA_LIMIT_BODY_BYTES)",
      ],
      ["not storable", "order.bad", { a: "\u0000" }, {}, "the payload cannot be stored: $.a contains U+0000"],
      ["hostile", "order.bad", Buffer.from('{"a":{"__proto__":{}}}'), {}, "would reach the prototype of an object"],
      ["a bad topic", "order bad", {}, {}, "the routing key must be 1 to 255 of"],
    ])("%s", async (_, topic, body, options, reason) => {
      await exchange.send(topic, body, { ...options, messageId: "m-7", appId: "shop", expiration: "600000" });
      const message = await until(() => exchange.buried());
      const { headers } = message.properties;
      expect(headers?.["x-saga-reason"]).toContain(reason);
      expect(message.content).toEqual(Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body)));
      expect(message.properties).toMatchObject({
        messageId: "m-7",
        appId: "shop",
        deliveryMode: 2,
        expiration: undefined,
      });
      expect(headers?.["x-saga-topic"]).toBe(topic);
      await noneLeft();
      expect(await stored(topic)).toEqual([]);
    });

    it("another event under a key that was used", async () => {
      const messageId = randomUUID();
      await exchange.send("order.first", 1, { messageId });
      await until(async () => (await stored("order.first")).length === 1);
      await exchange.send("order.second", 2, { messageId });
      const { properties } = await until(() => exchange.buried());
      expect(properties.headers?.["x-saga-reason"]).toBe("another event was published with this message id");
      expect(await stored("order.second")).toEqual([]);
    });

    it("what is moved back is taken: headers of its way do not count", async () => {
      await exchange.send("order.back", "x".repeat(4_000), { messageId: randomUUID() });
      const { properties } = await until(() => exchange.buried());
      await exchange.send("order.back", "short", { messageId: properties.messageId, headers: properties.headers });
      const [event] = await until(async () => (await stored("order.back")).length > 0 && stored("order.back"));
      expect(event).toMatchObject({ headers: {}, payload: "short" });
    });
  });

  describe("a run", () => {
    it("publishes its events and its lifecycle in their order, and the service does not take them again", async () => {
      const order = randomUUID();
      const runId = await client.start("tell", { inputs: { order }, business_key: order });
      const seen = () => exchange.heard.map(({ fields }) => fields.routingKey);
      await until(() => seen().length === 4);
      expect(seen()).toEqual(["saga.run.started", "order.made", "order.sent", "saga.run.succeeded"]);
      const [started, made, sent, succeeded] = exchange.heard;
      const json = (nth: (typeof exchange.heard)[number] | undefined) => JSON.parse(String(nth?.content));
      for (const { properties } of exchange.heard)
        expect(properties).toMatchObject({ appId: "saga", deliveryMode: 2, contentType: "application/json" });
      const tenant_id = testsTenant();
      const about = {
        run_id: runId,
        workflow_id: "tell",
        version: 1,
        business_key: order,
        ...(tenant_id && { tenant_id }),
      };
      expect(json(started)).toEqual({ ...about, state: "pending", seq: 1, at: expect.any(String) });
      expect(json(succeeded)).toMatchObject({ ...about, state: "succeeded" });
      expect([json(made), json(sent), sent?.properties.headers]).toEqual([
        order,
        {},
        { ...tenantHeader(), to: "ann", n: "7" },
      ]);
      const { items } = (await client.ask("GET", `/sagas/${runId}/events`)).body;
      const idOf = (type: string) => items.find((item: { event_type: string }) => item.event_type === type).id;
      const rows = await database.sql<{ id: string }[]>`
        select id from events where topic = 'order.made' and payload::text = ${JSON.stringify(order)}`;
      expect(exchange.heard.map(({ properties }) => properties.messageId)).toMatchObject([
        ...[idOf("saga.started"), rows[0]?.id, expect.any(String), idOf("run.succeeded")],
      ]);
      await noneLeft();
      expect(rows).toHaveLength(1);
      await until(async () => (await owed()) === 0);
    });

    it("that fails says so, with its error; its branches and a dry run say nothing", async () => {
      const dry = await client.start("tell", { inputs: { order: "none" }, dry_run: true });
      const runId = await client.start("fail");
      await client.allEnd([dry, runId]);
      await until(() => heardFrom(runId).length === 2 && owed().then((count) => count === 0));
      expect(exchange.heard.map(({ fields }) => fields.routingKey)).toEqual(["saga.run.started", "saga.run.failed"]);
      expect(JSON.parse(String(exchange.heard[1]?.content))).toMatchObject({
        ...{ run_id: runId, state: "failed", error: { code: "late", message: "too late" } },
      });
    });

    it("publishes an event again, under the same id, until the broker has confirmed it, and the next ones after it", async () => {
      exchange.gate.mute();
      const runId = await client.start("tell", { inputs: { order: "again" } });
      await client.allEnd([runId]);
      await until(() => exchange.heard.length === 1);
      // Published and not confirmed: everything is still owed.
      expect([exchange.heard[0]?.fields.routingKey, await owed()]).toEqual(["saga.run.started", 4]);
      await exchange.cut(async () => {});
      await until(() => exchange.heard.length === 5);
      expect(exchange.heard.map(({ fields }) => fields.routingKey)).toEqual([
        ...["saga.run.started", "saga.run.started", "order.made", "order.sent", "saga.run.succeeded"],
      ]);
      const ids = exchange.heard.map(({ properties }) => properties.messageId);
      expect([ids[0], new Set(ids).size]).toEqual([ids[1], 4]);
      await until(async () => (await owed()) === 0);
      await untilConnected();
    });
  });

  it("a broker that is away is seen in the metrics, and the node stays ready; deleted queues are declared again", async () => {
    await exchange.cut(async () => {
      await until(async () => Object.values(await metric("saga_event_links_away")).join() === "1,1");
      const runId = await client.start("tell", { inputs: { order: "later" } });
      await client.allEnd([runId]);
      expect([await owed(), (await fetch(`${client.url}/readyz`)).status]).toEqual([4, 200]);
      const gauge = async () => /^saga_events_owed 4$/m.test(await node.metrics.registry.metrics());
      await until(gauge, { what: "the gauge" });
      for (const queue of [exchange.queue, exchange.dead]) await exchange.channel.deleteQueue(queue);
    });
    await until(() => exchange.heard.length === 4);
    await untilConnected();
    await exchange.channel.deleteQueue(exchange.queue);
    // What is published before the queue is there again reaches none.
    const messageId = randomUUID();
    const isStored = () => exchange.send("order.after", {}, { messageId }).then(() => stored("order.after"));
    await until(async () => (await isStored()).length === 1, { what: "an event in the queue that was declared again" });
  });
});

describe("without a broker", () => {
  beforeAll(() => startService({ SAGA_LIFECYCLE_EVENTS: "on" }));
  afterAll(stopService);

  it("a run owes no events", async () => {
    await database.sql.unsafe(
      `create function refuse() returns trigger language plpgsql as 'begin raise ''a row''; end'`,
    );
    await database.sql`create trigger refuse before insert on outgoing_events execute function refuse()`;
    const runId = await client.start("tell", { inputs: { order: "a" } });
    const [seen] = await client.allEnd([runId]);
    expect([seen?.run.state, await owed()]).toEqual(["succeeded", 0]);
  });
});
