// RabbitMQ killed and started again under load, and the service killed while it takes and publishes events: everything resumes by itself,
// nothing is lost, and what comes twice has the same id and key. Where no broker can be started, connections are cut instead.
// @module-tag long
// @access both
import { setTimeout as delay } from "node:timers/promises";
import type { ConsumeMessage } from "amqplib";
import { afterAll, beforeAll, expect, it } from "vitest";
import { reportHeaders } from "../dispatch/carriers-rig.js";
import { Exchange } from "../events/rig.js";
import { credential } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { type BreakableRabbitMq, openBreakableRabbitMq } from "../harness/rabbitmq.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { describeWithRabbitMq } from "../harness/services.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client } from "./client.js";

/** Runs that are started before the broker goes, while it is away, and after it came back. */
const RUNS = 30;
/** The message of every third order is published twice. */
const TWICE = Math.ceil(RUNS / 3);
/** How long the broker is away: longer than its clients wait between two tries. */
const AWAY_MS = 10_000;
const MESSAGES = 400;

describeWithRabbitMq("events and dispatches over RabbitMQ", (url) => {
  let database: TestDatabase;
  let broker: BreakableRabbitMq;
  let exchange: Exchange;
  let service: ServiceProcess;
  let client: Client;
  /** The dispatches that the worker got. */
  const steps: ConsumeMessage[] = [];
  /** The worker answers when it is resolved. */
  let mayAnswer = Promise.resolve();
  /** What the test publishes: resolved when the broker has it. */
  const sent: Promise<void>[] = [];

  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    broker = await openBreakableRabbitMq(url);
    exchange = await Exchange.open(broker.url);
    const env = { ...exchange.env, DATABASE_URL: database.url, SAGA_WORKERS: "2", LOG_LEVEL: "warn" };
    service = await createService({ ...env, SAGA_LIFECYCLE_EVENTS: "on" });
    await service.start();
    client = new Client(service.url);
    // Before the service has bound its queue for the first time, the exchange drops what the test sends.
    await until(areConnected, { what: "the service's connections to the broker" });
    const queue = await exchange.work("shop", (message) => {
      steps.push(message);
      void answer(message);
    });
    const actions = [{ action_name: "charge", transport: "rmq", address: queue }];
    await client.insist("POST", "/registry/register", { service: "shop", actions });
    const charge = { action: "shop.charge", inputs: { order: "${inputs.order}" }, timeout_ms: 300_000 };
    await client.publish("order", [
      { id: "charge", type: "action", ...charge, next: "tell" },
      { id: "tell", type: "emit_event", topic: "order.made", payload: { run_id: "${run.id}" }, next: "paid" },
      { id: "paid", type: "wait_for_event", topic: "order.paid", headers: { order: "${inputs.order}" } },
    ]);
  }, 150_000);
  afterAll(async () => {
    await service.stop();
    await exchange.close();
    await broker.end();
    await database.drop();
  });

  async function answer({ content }: ConsumeMessage): Promise<void> {
    await mayAnswer;
    const body = JSON.stringify({ result: {} });
    const step = JSON.parse(String(content));
    const answered = { method: "POST", headers: reportHeaders(step), body };
    await until(async () => (await fetch(step.callback_url, answered)).ok);
  }

  const stored = (topic: string) => database.sql<{ key: string }[]>`
    select idempotency_key as key from events where topic = ${topic}`;
  const owed = async () => (await database.sql`select 1 from outgoing_events`).length;
  const noneOwed = () =>
    until(async () => (await owed()) === 0, { within: 120_000, what: "every event's publication" });
  /** What the service published to the exchange. */
  const told = () => exchange.heard.filter(({ properties }) => properties.appId === "saga");
  const about = (order: string, messages: readonly ConsumeMessage[]) =>
    messages.filter(({ content }) => content.includes(order)).length;

  function send(...message: Parameters<Exchange["send"]>): void {
    const sending = exchange.send(...message);
    // A test that fails does not come to where all are awaited.
    sending.catch(() => {});
    sent.push(sending);
  }

  async function order(name: string, copies = 1): Promise<string> {
    const start = { inputs: { order: name }, idempotency_key: name, business_key: name };
    const runId = await client.start("order", start);
    const options = { messageId: name, headers: { order: name } };
    for (let copy = 0; copy < copies; copy++) send("order.paid", { by: "ann" }, options);
    return runId;
  }

  /** The names of the first test. */
  const names = new Set<string>();
  async function orders(phase: string): Promise<string[]> {
    const runIds: string[] = [];
    for (let nth = 0; nth < RUNS; nth++) {
      const name = `${phase}-${nth}`;
      names.add(name);
      runIds.push(await order(name, nth % 3 === 0 ? 2 : 1));
    }
    return runIds;
  }

  const metrics = async () => (await fetch(`${service.url}/metrics`, { headers: credential() })).text();

  async function repeatedMessages(): Promise<number> {
    return Number(/^saga_events_in_total\{outcome="repeated"\} (\d+)$/m.exec(await metrics())?.[1]);
  }

  /** The nodes, for both directions. */
  async function areConnected(): Promise<boolean> {
    const away = (await metrics()).matchAll(/^saga_event_links_away\{direction="(?:in|out)"\} (\d+)$/gm);
    return [...away].map(([, nodes]) => nodes).join() === "0,0";
  }

  it("resume by themselves after the broker was away: none is lost, duplicates have the same key and message id", async () => {
    const before = await orders("before");
    await client.allEnd(before);
    await noneOwed();
    let letAnswer = () => {};
    mayAnswer = new Promise((resolve) => {
      letAnswer = resolve;
    });
    // What the broker has from now on is confirmed, but the service does not hear it: it must publish it again.
    exchange.gate.mute();
    const meanwhile = orders("meanwhile");
    await until(() => about("meanwhile-", told()) > 0 && about("meanwhile-", steps) >= RUNS / 3, {
      what: "an event and dispatches that are not confirmed",
    });
    await exchange.cut(() => broker.kill());
    const gone = performance.now();
    const runIds = [...before, ...(await meanwhile)];
    await until(async () => (await owed()) >= RUNS, { what: "events that are owed" });
    await delay(Math.max(AWAY_MS - (performance.now() - gone), 0));
    await broker.start();
    const awayMs = Math.round(performance.now() - gone);
    runIds.push(...(await orders("after")));
    await until(() => repeatsIn(steps) > 0, { what: "a dispatch that is published again" });
    letAnswer();

    const seen = await client.allEnd(runIds, 120_000);
    expect(seen.map(({ run }) => run.state)).toEqual(Array(3 * RUNS).fill("succeeded"));
    expect([idsOf(steps).size, keysOf(steps).size]).toEqual([3 * RUNS, 3 * RUNS]);
    expectRepeats(steps);
    await Promise.all(sent);
    await until(async () => (await repeatedMessages()) >= 3 * TWICE, { what: "the repeats of what came in" });
    expect((await stored("order.paid")).map(({ key }) => key).sort()).toEqual([...names].sort());

    await noneOwed();
    await until(() => idsOf(told()).size === 9 * RUNS, { what: "every event" });
    expectRepeats(told());
    const topics = topicsByRun(told());
    for (const runId of runIds)
      expect([...(topics.get(runId)?.values() ?? [])]).toEqual([
        "saga.run.started",
        "order.made",
        "saga.run.succeeded",
      ]);
    await nothingUnwatched(database.sql);
    const repeats = { steps: repeatsIn(steps), events: repeatsIn(told()), messages: await repeatedMessages() };
    report({ runs: 3 * RUNS, awayMs, repeats });
  }, 400_000);

  it("survive a kill of the service: each message is one event, each event is published", async () => {
    const heard = told().length;
    const toldNow = () => told().slice(heard);
    for (let nth = 0; nth < MESSAGES; nth++) send("order.kept", nth, { messageId: `kept-${nth}` });
    await until(async () => (await stored("order.kept")).length >= MESSAGES / 4, { what: "some events" });
    // Killed between the broker's confirmation of an event and the commit that removes its row.
    exchange.gate.mute();
    const runIds = await Promise.all(Array.from({ length: 10 }, (_, nth) => order(`killed-${nth}`)));
    await until(() => about("killed-", toldNow()) > 0, { what: "an event that is not confirmed" });
    await service.kill();
    const taken = (await stored("order.kept")).length;
    await service.start();
    const seen = await client.allEnd(runIds, 60_000);
    expect(seen.map(({ run }) => run.state)).toEqual(Array(10).fill("succeeded"));
    await Promise.all(sent);
    await until(async () => (await stored("order.kept")).length >= MESSAGES, { within: 120_000, what: "all events" });
    await until(async () => (await exchange.ready()) === 0);
    expect(new Set((await stored("order.kept")).map(({ key }) => key)).size).toBe(MESSAGES);
    expect(await stored("order.kept")).toHaveLength(MESSAGES);
    await noneOwed();
    await until(() => idsOf(toldNow()).size === 30, { what: "every event of ten runs" });
    expectRepeats(toldNow());
    expect(await exchange.ready(exchange.dead)).toBe(0);
    report({ messages: MESSAGES, takenBeforeTheKill: taken, repeats: repeatsIn(toldNow()) });
  }, 300_000);
});

const idsOf = (messages: readonly ConsumeMessage[]) => new Set(messages.map(({ properties }) => properties.messageId));
const keysOf = (messages: readonly ConsumeMessage[]) =>
  new Set(messages.map(({ properties }) => properties.headers?.["idempotency-key"]));

/** How many messages were published more than once. What the broker delivers again because it has no acknowledgement does not count. */
function repeatsIn(messages: readonly ConsumeMessage[]): number {
  const published = messages.filter(({ fields }) => !fields.redelivered);
  return published.length - idsOf(published).size;
}

/** Some messages came more than once, and their copies are the same. */
function expectRepeats(messages: readonly ConsumeMessage[]): void {
  expect(repeatsIn(messages)).toBeGreaterThan(0);
  const firsts = new Map<string, ConsumeMessage>();
  for (const message of messages) {
    const first = firsts.get(message.properties.messageId) ?? message;
    firsts.set(message.properties.messageId, first);
    expect(contentOf(message)).toEqual(contentOf(first));
  }
}

function contentOf({ content, fields, properties: { messageId, appId, headers } }: ConsumeMessage) {
  // The time that is left to the deadline of a dispatch.
  const { timeout_ms: _, ...body } = JSON.parse(String(content));
  return { topic: fields.routingKey, messageId, appId, headers, body };
}

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
