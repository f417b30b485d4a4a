// With access on no event crosses between tenants, nor between a tenant and what belongs to none: not to a run that waits, not to one that looks
// back, not to a trigger, and not through the broker, where a header names the tenant.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { Announcer, EventIntake } from "../../src/events/announcer.js";
import { BrokerEvents } from "../../src/events/index.js";
import { readMessage } from "../../src/events/message.js";
import { uuidv7 } from "../../src/ids.js";
import { createMetrics } from "../../src/metrics/index.js";
import { SHARDS } from "../../src/shard/placement.js";
import { insertTrigger, matchingTriggers } from "../../src/store/lists/triggers.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { describeWithRabbitMq } from "../harness/services.js";
import { until } from "../harness/until.js";
import { type Half, publish, signal, start, startHalf } from "../run/rig.js";
import { look } from "../run/seen.js";
import { Exchange } from "./rig.js";

const [TENANT, OTHER] = [uuidv7(), uuidv7()];
const OWNERS = [TENANT, OTHER, undefined] as const;

let database: TestDatabase;
let half: Half;
let announcer: Announcer;
let intake: EventIntake;

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  half = await startHalf(database, { tenantsApart: true });
  announcer = new Announcer({
    ...{ sql: database.sql, log: silentLog, tenantsApart: true },
    afterCommit: (runId, sends) => half.runtime.effects.afterCommit(runId, [], sends),
  });
  intake = new EventIntake(database.sql, { announce: () => {} });
  const hear = { id: "hear", type: "wait_for_event", topic: "${inputs.topic}" };
  await publish(database, "hears", [hear]);
  await publish(database, "looks-back", [
    { id: "wait", type: "wait_for_signal", signal_name: "go", next: "hear" },
    hear,
  ]);
  await publish(database, "tells", [{ id: "tell", type: "emit_event", topic: "${inputs.topic}" }]);
});
afterAll(async () => {
  await announcer.stop();
  await half.stop();
  await database.drop();
});

const stateOf = async (runId: RunId) => (await look(database.sql, runId)).run.state;
const isPaused = (runId: RunId) => until(async () => (await stateOf(runId)) === "paused", { what: "a waiting run" });

/** A run of each owner, which waits. */
async function waiting(workflow: string, topic: string): Promise<readonly RunId[]> {
  const begin = (tenantId: string | undefined) =>
    start(half.starter, workflow, { inputs: { topic }, ...(tenantId && { tenantId }) });
  const runIds = await Promise.all(OWNERS.map(begin));
  await Promise.all(runIds.map(isPaused));
  return runIds;
}

/** Published by a client, or emitted by a run of that tenant. */
const PUBLISHERS = {
  "a client": (topic: string, tenantId: string | undefined) =>
    intake.take({ topic, headers: {}, payload: {}, ...(tenantId && { tenantId }) }),
  "a run": (topic: string, tenantId: string | undefined) =>
    start(half.starter, "tells", { inputs: { topic }, ...(tenantId && { tenantId }) }),
};
const everyWay = Object.entries(PUBLISHERS).flatMap(([name, tell]) =>
  OWNERS.map((owner, nth) => [name, ["the tenant", "another tenant", "no tenant"][nth] ?? "", owner, tell] as const),
);

describe("an event", () => {
  it.each(everyWay)("of %s of %s is taken by the run of the same owner alone", async (_, __, owner, tell) => {
    const topic = `waited.${uuidv7()}`;
    const runIds = await waiting("hears", topic);
    await tell(topic, owner);
    await until(async () => (await database.sql`select from events where topic = ${topic}`).length > 0);
    // In the past: the clocks of two sessions of one server can differ by a little.
    await database.sql`update events set due_at = now() - interval '1 s' where topic = ${topic} and due_at is not null`;
    await announcer.tick();
    const own = runIds[OWNERS.indexOf(owner)] as RunId;
    await until(async () => (await stateOf(own)) === "succeeded", { what: "the run that takes it" });
    const told = await database.sql`select from inbox where run_id = any(${[...runIds]}::text[]::uuid[])`;
    expect([await Promise.all(runIds.map(stateOf)), told.length]).toEqual([
      OWNERS.map((each) => (each === owner ? "succeeded" : "paused")),
      0,
    ]);
  });

  it.each(everyWay)("of %s of %s is found by the look back of the same owner alone", async (_, __, owner, tell) => {
    const topic = `looked.${uuidv7()}`;
    const runIds = await waiting("looks-back", topic);
    await tell(topic, owner);
    await until(async () => (await database.sql`select from events where topic = ${topic}`).length > 0);
    for (const runId of runIds) await half.runtime.command(runId, signal(uuidv7(), "go"), { reach: EVERYTHING });
    const at = async (runId: RunId) => {
      const { state, awaited_event_topic: awaited } = (await look(database.sql, runId)).run as unknown as Record<
        string,
        unknown
      >;
      return state === "paused" && awaited === undefined ? "on its way" : state;
    };
    await until(async () => (await at(runIds[OWNERS.indexOf(owner)] as RunId)) === "succeeded");
    await Promise.all(runIds.map((runId) => half.runtime.command(runId, { type: "advance" }, { reach: EVERYTHING })));
    expect(await Promise.all(runIds.map(stateOf))).toEqual(
      OWNERS.map((each) => (each === owner ? "succeeded" : "paused")),
    );
  });

  it("fires the triggers of the same owner alone", async () => {
    const transition = { recordType: uuidv7(), fromState: "a", toState: "b" };
    const config = { record_type: transition.recordType, from_state: "a", to_state: "b" };
    const about = {
      triggerType: "record_transition",
      workflowId: "hears",
      config,
      enabled: true,
      createdBy: "api",
    } as const;
    for (const tenantId of OWNERS)
      await insertTrigger(database.sql, {
        ...about,
        id: uuidv7(),
        createdAt: new Date(),
        ...(tenantId && { tenantId }),
      });
    const fired = async (tenantId: string | undefined, tenantsApart: boolean) =>
      (await matchingTriggers(database.sql, { ...transition, tenantId, tenantsApart }, undefined, 10)).map(
        (trigger) => trigger.tenantId ?? undefined,
      );
    for (const owner of OWNERS) expect(await fired(owner, true)).toEqual([owner]);
    // With access off, an event of no tenant fires them all.
    expect(new Set(await fired(undefined, false))).toEqual(new Set(OWNERS));
  });
});

describe("a message with access on", () => {
  const limits = { bodyBytes: 100, outputBytes: 100 };
  const read = (headers: object, namesTenant = true) =>
    readMessage({ content: Buffer.from("{}"), fields: { routingKey: "t" }, properties: { headers } } as never, limits, {
      namesTenant,
    }).event;

  it.each(["saga-tenant", "Saga-Tenant", "SAGA-TENANT"])(
    "is of the tenant in its header %s, which is none of the event's",
    (name) => {
      expect(read({ [name]: TENANT.toUpperCase(), to: "ann" })).toMatchObject({
        tenantId: TENANT,
        headers: { to: "ann" },
      });
    },
  );

  it.each<[string, object]>([
    ["names none", { to: "ann" }],
    ["names an empty one", { "saga-tenant": "" }],
    ["names what is no UUID", { "saga-tenant": "acme" }],
    ["names a number", { "saga-tenant": 7 }],
    ["names two", { "saga-tenant": TENANT, "Saga-Tenant": OTHER }],
  ])("is no one's if it %s", (_, headers) => {
    expect(() => read(headers)).toThrow(/saga-tenant/);
  });

  it("with access off is of no tenant, whatever it says", () => {
    expect(read({ "saga-tenant": TENANT }, false)).toEqual({
      topic: "t",
      headers: { "saga-tenant": TENANT },
      payload: {},
    });
  });
});

describeWithRabbitMq("over RabbitMQ, with access on", (url) => {
  let exchange: Exchange;
  let broker: BrokerEvents;

  beforeAll(async () => {
    exchange = await Exchange.open(url);
    const metrics = createMetrics();
    broker = new BrokerEvents({
      ...{ url, exchange: exchange.name, sql: database.sql, log: silentLog, metrics, intake, namesTenant: true },
      ...{ limits: { bodyBytes: 1_000, outputBytes: 1_000 }, scheduler: new FairScheduler() },
      ...{ admits: () => true, shards: () => SHARDS, intervalMs: 50 },
    });
    broker.start();
    const away = async () => (await metrics.eventLinksAway.get()).values.some(({ value }) => value === 1);
    await until(async () => !(await away()), { what: "both connections" });
  });
  afterAll(async () => {
    await broker?.stopIntake();
    await broker?.stop();
    await exchange?.close();
  });

  it("a message is of the tenant that it names, its key included, and one that names none is moved aside", async () => {
    const topic = `in.${randomUUID()}`;
    const messageId = randomUUID();
    for (const tenant of [TENANT, OTHER, TENANT])
      await exchange.send(topic, {}, { messageId, headers: { "saga-tenant": tenant, to: "ann" } });
    await exchange.send(topic, {}, { messageId: "of no one", headers: { to: "ann" } });
    const buried = await until(() => exchange.buried());
    expect(buried && [buried.properties.messageId, buried.properties.headers?.["x-saga-reason"]]).toEqual([
      "of no one",
      "the message must name its tenant once, in the header saga-tenant",
    ]);
    const stored = () => database.sql`select tenant_id, headers from events where topic = ${topic} order by tenant_id`;
    await until(async () => (await stored()).length === 2 && (await exchange.ready()) === 0);
    const of = (tenant_id: string) => ({ tenant_id, headers: { to: "ann" } });
    expect(await stored()).toEqual([TENANT, OTHER].sort().map(of));
  });

  it("what runs emit names their tenant, and nothing where they have none", async () => {
    const topics = await Promise.all(
      OWNERS.map(async (tenantId) => {
        const topic = `out.${uuidv7()}`;
        const runId = await start(half.starter, "tells", { inputs: { topic }, ...(tenantId && { tenantId }) });
        await until(async () => (await stateOf(runId)) === "succeeded");
        await database.sql`
          insert into outgoing_events (id, run_id, shard)
          select e.id, ${runId}, r.shard from events e, runs r where e.topic = ${topic} and r.id = ${runId}`;
        return topic;
      }),
    );
    const heard = (topic: string) => exchange.heard.find(({ fields }) => fields.routingKey === topic);
    await until(() => topics.every(heard), { what: "what the runs emit" });
    expect(topics.map((topic) => heard(topic)?.properties.headers?.["saga-tenant"])).toEqual(OWNERS);
  });
});
