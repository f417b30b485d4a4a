// RabbitMQ away under load, and the service killed while it takes and publishes events: everything resumes by itself, nothing is lost, and what
// comes twice has the same id and key. The broker itself is shared with other tests and is not stopped: a proxy in front of it is.
import { setTimeout as delay } from "node:timers/promises";
import type { ConsumeMessage } from "amqplib";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Exchange } from "../events/rig.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { describeWithRabbitMq } from "../harness/services.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";

/** Runs that are started before the broker goes, while it is away, and after it came back. */
const RUNS = long(15, 150);
/** The short form waits for facts alone. */
const AWAY_MS = long(0, 20_000);
const MESSAGES = long(60, 1_000);

interface Delivered {
  readonly messageId: string;
  readonly key: unknown;
}

describeWithRabbitMq("events and dispatches over RabbitMQ", (url) => {
  let database: TestDatabase;
  let exchange: Exchange;
  let service: ServiceProcess;
  let client: Client;
  const steps: Delivered[] = [];

  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    exchange = await Exchange.open(url);
    const env = { ...exchange.env, DATABASE_URL: database.url, SAGA_WORKERS: long("1", "2"), LOG_LEVEL: "warn" };
    service = await createService({ ...env, SAGA_LIFECYCLE_EVENTS: "on" });
    await service.start();
    client = new Client(service.url);
    const queue = await exchange.work(async ({ content, properties: { messageId, headers } }) => {
      steps.push({ messageId, key: headers?.["idempotency-key"] });
      const body = JSON.stringify({ result: {} });
      const { callback_url } = JSON.parse(String(content));
      await until(async () => (await fetch(callback_url, { method: "POST", headers: JSON_TYPE, body })).ok);
    });
    const actions = [{ action_name: "charge", transport: "rmq", address: queue }];
    await client.insist("POST", "/registry/register", { service: "shop", actions });
    await client.publish("order", [
      { id: "charge", type: "action", action: "shop.charge", timeout_ms: 120_000, next: "tell" },
      { id: "tell", type: "emit_event", topic: "order.made", payload: { run_id: "${run.id}" }, next: "paid" },
      { id: "paid", type: "wait_for_event", topic: "order.paid", headers: { order: "${inputs.order}" } },
    ]);
  });
  afterAll(async () => {
    await service.stop();
    await exchange.close();
    await database.drop();
  });

  const stored = (topic: string) => database.sql<{ key: string }[]>`
    select idempotency_key as key from events where topic = ${topic}`;
  const owed = async () => (await database.sql`select 1 from outgoing_events`).length;
  const noneOwed = () =>
    until(async () => (await owed()) === 0, { within: 120_000, what: "every event's publication" });

  /** The message of every third order is sent twice. */
  async function order(name: string, nth: number): Promise<string> {
    const options = { messageId: name, headers: { order: name } };
    const runId = await client.start("order", { inputs: { order: name }, idempotency_key: name });
    for (let copy = 0; copy < (nth % 3 === 0 ? 2 : 1); copy++)
      await exchange.send("order.paid", { by: "ann" }, options);
    return runId;
  }

  async function orders(phase: string): Promise<string[]> {
    const runIds: string[] = [];
    for (let nth = 0; nth < RUNS; nth++) runIds.push(await order(`${phase}-${nth}`, nth));
    return runIds;
  }

  it("resume by themselves after the broker was away: none is lost, duplicates have the same key and message id", async () => {
    const before = await orders("before");
    // The last orders are in flight: what the broker confirms now is not heard.
    exchange.gate.mute();
    const meanwhile = orders("meanwhile");
    await until(() => steps.length > RUNS / 2, { what: "some steps" });
    await exchange.gate.shut();
    const gone = performance.now();
    const runIds = [...before, ...(await meanwhile)];
    await until(async () => (await owed()) >= RUNS, { what: "events that are owed" });
    await delay(Math.max(AWAY_MS - (performance.now() - gone), 0));
    await exchange.gate.open();
    runIds.push(...(await orders("after")));

    const seen = await client.allEnd(runIds, 60_000);
    expect(seen.map(({ run }) => run.state)).toEqual(Array(3 * RUNS).fill("succeeded"));
    const keys = new Map(steps.map(({ messageId, key }) => [messageId, key]));
    expect([keys.size, new Set(keys.values()).size]).toEqual([3 * RUNS, 3 * RUNS]);
    expect(steps.filter(({ messageId, key }) => keys.get(messageId) !== key)).toEqual([]);
    expect((await stored("order.paid")).map(({ key }) => key).sort()).toHaveLength(3 * RUNS);

    await noneOwed();
    const told = () => exchange.heard.filter(({ fields }) => /^(saga\.run|order\.made)/.test(fields.routingKey));
    await until(() => idsOf(told()).size === 9 * RUNS, { within: 60_000, what: "every event" });
    const topics = topicsByRun(told());
    for (const runId of runIds)
      expect([...(topics.get(runId)?.values() ?? [])]).toEqual([
        "saga.run.started",
        "order.made",
        "saga.run.succeeded",
      ]);
    await nothingUnwatched(database.sql);
    report({
      runs: 3 * RUNS,
      awayMs: Math.round(performance.now() - gone),
      steps: steps.length,
      events: told().length,
    });
  }, 300_000);

  it("survive a kill of the service: each message is one event, each event is published", async () => {
    const heard = exchange.heard.length;
    const runIds = Array.from({ length: 10 }, (_, nth) => order(`killed-${nth}`, nth));
    for (let nth = 0; nth < MESSAGES; nth++)
      exchange.channel.publish(exchange.name, "order.kept", Buffer.from(String(nth)), { messageId: `kept-${nth}` });
    await until(async () => (await stored("order.kept")).length >= MESSAGES / 4, { what: "some events" });
    await service.kill();
    const taken = (await stored("order.kept")).length;
    await service.start();
    const seen = await client.allEnd(await Promise.all(runIds), 60_000);
    expect(seen.map(({ run }) => run.state)).toEqual(Array(10).fill("succeeded"));
    await until(async () => (await stored("order.kept")).length >= MESSAGES, { within: 120_000, what: "all events" });
    await until(async () => (await exchange.ready()) === 0);
    expect(new Set((await stored("order.kept")).map(({ key }) => key)).size).toBe(MESSAGES);
    expect(await stored("order.kept")).toHaveLength(MESSAGES);
    await noneOwed();
    const told = () => exchange.heard.slice(heard).filter(({ fields }) => fields.routingKey.startsWith("saga.run."));
    await until(() => idsOf(told()).size === 20, { what: "the lifecycle of ten runs" });
    expect(await exchange.ready(exchange.dead)).toBe(0);
    report({ messages: MESSAGES, takenBeforeTheKill: taken, lifecycle: told().length });
  }, 300_000);
});

const idsOf = (messages: readonly ConsumeMessage[]) => new Set(messages.map(({ properties }) => properties.messageId));

/** The topics of each run in the order of their first copies: a repeat may come later, and is known by its id. */
function topicsByRun(messages: readonly ConsumeMessage[]): ReadonlyMap<string, string[]> {
  const seen = new Set<string>();
  const topics = new Map<string, string[]>();
  for (const { content, fields, properties } of messages) {
    if (seen.has(properties.messageId)) continue;
    seen.add(properties.messageId);
    const { run_id: runId } = JSON.parse(String(content));
    topics.set(runId, [...(topics.get(runId) ?? []), fields.routingKey]);
  }
  return topics;
}

const JSON_TYPE = { "content-type": "application/json" };
