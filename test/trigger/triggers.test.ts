// Triggers on a real store and runtime, with a clock that the test moves: which ticks and events fire, once each, and what is written of it.

import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type JsonObject, Schemas } from "../../machines/index.js";
import { ANYONE, EVERYTHING } from "../../src/access/index.js";
import type { Clock } from "../../src/clock.js";
import { overloaded } from "../../src/errors.js";
import { uuidv7 } from "../../src/ids.js";
import { createMetrics, type Metrics } from "../../src/metrics/index.js";
import type { RunStarter } from "../../src/run/ports.js";
import { SHARDS } from "../../src/shard/placement.js";
import { leaseDueEvents } from "../../src/store/engine/announcements.js";
import { publishEvent } from "../../src/store/engine/events.js";
import { listFires } from "../../src/store/engine/trigger-fires.js";
import { triggerById } from "../../src/store/lists/triggers.js";
import { Triggers } from "../../src/trigger/index.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { type Half, publish, startHalf } from "../run/rig.js";

const HOUR = 3_600_000;
const NOON = Date.UTC(2026, 10, 22, 12);
const at = (time: number) => new Date(time).toISOString();

let database: TestDatabase;
let half: Half;
let now: number;
beforeAll(async () => {
  database = await createTestDatabase();
  half = await startHalf(database, { hints: false });
  await publish(database, "nightly", [{ id: "w", type: "wait_for_signal", signal_name: "go" }]);
  await publish(database, "strict", [{ id: "w", type: "wait_for_signal", signal_name: "go" }], {
    input_schema: { type: "object", required: ["order"] },
  });
  await publish(database, "alone", [{ id: "w", type: "wait_for_signal", signal_name: "go" }], {
    concurrency: { key: "all", limit: 1, on_limit: "refuse" },
  });
  await half.catalog.refresh();
});
afterAll(async () => {
  await half.stop();
  await database.drop();
});
beforeEach(async () => {
  now = NOON;
  await database.sql`delete from triggers`;
});

/** The triggers of a node. Nodes share the store and the clock. */
function node(more: { starter?: RunStarter; licensed?: boolean; metrics?: Metrics; clock?: Clock } = {}): Triggers {
  const { starter = half.starter, metrics = createMetrics(), clock = { now: () => now } } = more;
  return new Triggers({
    ...{ sql: database.sql, log: silentLog, metrics, catalog: half.catalog, shards: () => SHARDS, starter },
    ...{ schemas: new Schemas(), scheduler: new FairScheduler() },
    clock,
    licences: { licensed: () => more.licensed ?? true },
  });
}

const cron = (config: JsonObject = {}, more: JsonObject = {}) => ({
  ...{ trigger_type: "cron", workflow_id: "nightly", ...more },
  config: { schedule: "0 * * * *", ...config },
});

const create = async (document: JsonObject) => (await node().registrar.create(document, ANYONE)).id;

async function firesOf(id: string) {
  const { items } = await listFires(database.sql, EVERYTHING, id, { limit: 100, offset: 0 });
  return items;
}

async function runOf(runId: unknown) {
  const [row] = await database.sql<{ inputs: JsonObject; trigger_id: string; actor: string; metadata: JsonObject }[]>`
    select s.inputs, r.trigger_id, e.actor, e.metadata from runs r join run_starts s on s.run_id = r.id
    join run_events e on e.run_id = r.id and e.seq = 1 where r.id = ${String(runId)}`;
  return row;
}

describe("a tick", () => {
  it("starts a run with the trigger's inputs, and moves the trigger to the next one", async () => {
    const id = await create(cron({ inputs: { region: "eu" } }));
    expect((await triggerById(database.sql, id))?.nextFireAt).toEqual(new Date(NOON + HOUR));
    await node().poll();
    expect(await firesOf(id), "it is not due yet").toEqual([]);
    now = NOON + HOUR + 250;
    await node().poll();
    const [fire, ...others] = await firesOf(id);
    expect(others).toEqual([]);
    expect(fire).toMatchObject({
      trigger_id: id,
      workflow_id: "nightly",
      scheduled_at: at(NOON + HOUR),
      fired_at: at(now),
    });
    const tick = { id, scheduled_at: at(NOON + HOUR), fired_at: at(now) };
    expect(await runOf(fire?.resulting_run_id)).toMatchObject({
      ...{ inputs: { region: "eu", trigger: tick }, trigger_id: id, actor: `trigger:${id}` },
      metadata: { trigger_id: id },
    });
    expect(await triggerById(database.sql, id)).toMatchObject({
      ...{ nextFireAt: new Date(NOON + 2 * HOUR), lastFiredAt: new Date(now) },
    });
  });

  it("of a trigger with jitter fires later, once, as the tick that it is", async () => {
    const id = await create(cron({ jitter_ms: 1_200_000 }));
    const due = (await triggerById(database.sql, id))?.nextFireAt?.getTime() ?? 0;
    expect(due >= NOON + HOUR && due <= NOON + HOUR + 1_200_000).toBe(true);
    now = due - 1;
    await node().poll();
    expect(await firesOf(id)).toEqual([]);
    now = due;
    await Promise.all([node().poll(), node().poll()]);
    const tick = NOON + HOUR;
    expect(await firesOf(id)).toMatchObject([{ scheduled_at: at(tick), fired_at: at(due) }]);
    expect((await triggerById(database.sql, id))?.nextFireAt).toEqual(new Date(due + HOUR));
    now = due + 3 * HOUR + 1_000;
    await node().poll();
    const fires = (await firesOf(id)).filter(({ fired_at: firedAt }) => firedAt === at(now));
    expect(fires).toHaveLength(2);
    expect(fires).toContainEqual(
      expect.objectContaining({ scheduled_at: at(tick + 3 * HOUR), resulting_run_id: expect.any(String) }),
    );
    const error = `ticks before ${at(tick + 3 * HOUR)} were missed`;
    expect(fires).toContainEqual(expect.objectContaining({ scheduled_at: at(tick + HOUR), error }));
  });

  it("that is the last one before its end leaves no other", async () => {
    const id = await create(cron({ start_at: at(NOON + HOUR), end_at: at(NOON + 2 * HOUR) }));
    for (const hour of [1, 2, 3, 4]) {
      now = NOON + hour * HOUR;
      await node().poll();
    }
    expect((await firesOf(id)).map(({ scheduled_at }) => scheduled_at)).toEqual([at(NOON + 2 * HOUR), at(NOON + HOUR)]);
    expect((await triggerById(database.sql, id))?.nextFireAt).toBeNull();
  });

  it("fires once, however many nodes find it due at the same moment", async () => {
    const ids = await Promise.all(Array.from({ length: 10 }, () => create(cron())));
    now = NOON + HOUR;
    await Promise.all(Array.from({ length: 4 }, () => node().poll()));
    for (const id of ids) expect(await firesOf(id)).toHaveLength(1);
    const [row] = await database.sql<{ count: number }[]>`
      select count(*)::int as count from runs where trigger_id = any(${ids})`;
    expect(row?.count).toBe(10);
  });

  it("of a disabled trigger does not fire, and was not missed once the trigger is enabled", async () => {
    const id = await create(cron({}, { enabled: false }));
    now = NOON + 2 * HOUR;
    await node().poll();
    await node().registrar.change(ANYONE, id, { enabled: true });
    await node().poll();
    expect(await firesOf(id)).toEqual([]);
    expect((await triggerById(database.sql, id))?.nextFireAt).toEqual(new Date(NOON + 3 * HOUR));
  });

  it("is skipped under `overlap_policy: skip` while the run of an earlier one goes on, and fires after its end", async () => {
    const id = await create(cron({ overlap_policy: "skip" }));
    for (const hour of [1, 2]) {
      now = NOON + hour * HOUR;
      await node().poll();
    }
    const [skipped, first] = await firesOf(id);
    expect(skipped?.error).toBe(`skipped: the run ${first?.resulting_run_id} has not ended`);
    await database.sql`update runs set terminal_at = now(), state = 'succeeded' where id = ${String(first?.resulting_run_id)}`;
    now = NOON + 3 * HOUR;
    await node().poll();
    expect((await firesOf(id))[0]).toHaveProperty("resulting_run_id");
  });

  it("is skipped under `overlap_policy: skip` however many were skipped before, while the run goes on or is owed", async () => {
    const id = await create(cron({ overlap_policy: "skip" }));
    const ticks = async (from: number, to: number, starter: RunStarter = half.starter) => {
      for (let hour = from; hour <= to; hour++) {
        now = NOON + hour * HOUR;
        await node({ starter }).poll();
      }
      return (await firesOf(id)).filter(({ error }) => String(error).startsWith("skipped: ")).length;
    };
    expect(await ticks(1, 25), "one run goes on").toBe(24);
    await database.sql`update runs set terminal_at = now(), state = 'succeeded' where trigger_id = ${id}`;
    expect(await ticks(26, 50, { start: () => Promise.reject(overloaded("dead")) }), "one run is owed").toBe(48);
  });

  it.each([
    ["latest", 3_600_000, "resulting_run_id", undefined],
    ["latest", 60_000, "error", "missed: 600 s late"],
    ["none", 3_600_000, "error", "missed: 600 s late"],
  ])(
    "missed while no node was up, with catchup %s within %i ms: the latest has %s",
    async (catchup, window, member, text) => {
      const id = await create(cron({ catchup, catchup_window_ms: window }));
      now = NOON + 5 * HOUR + 600_000;
      await node().poll();
      const fires = await firesOf(id);
      const byTick = new Map(fires.map((fire) => [fire.scheduled_at, fire]));
      expect([...byTick.keys()].sort()).toEqual([at(NOON + HOUR), at(NOON + 5 * HOUR)]);
      expect(byTick.get(at(NOON + HOUR))?.error).toBe(`ticks before ${at(NOON + 5 * HOUR)} were missed`);
      const latest = byTick.get(at(NOON + 5 * HOUR));
      expect(latest).toHaveProperty(member);
      if (text !== undefined) expect(latest?.error).toBe(text);
      await node().poll();
      expect(await firesOf(id), "nothing is due any more").toHaveLength(2);
    },
  );

  it("that the workflow's concurrency refuses starts no run, and says why", async () => {
    const id = await create(cron({ overlap_policy: "allow" }, { workflow_id: "alone" }));
    for (const nth of [1, 2]) {
      now = NOON + nth * HOUR;
      await node().poll();
    }
    const [second, first] = await firesOf(id);
    expect(first).toHaveProperty("resulting_run_id");
    expect(second).toMatchObject({ error: 'there is 1 run of the concurrency key "all" already, which is the limit' });
    expect(second).not.toHaveProperty("resulting_run_id");
  });

  it("whose workflow is unpublished since ends with an error, and the next one fires again", async () => {
    await publish(database, "withdrawn", [{ id: "w", type: "wait_for_signal", signal_name: "go" }]);
    await half.catalog.refresh();
    const id = await create(cron({}, { workflow_id: "withdrawn" }));
    await database.sql`update definitions set published = false where workflow_id = 'withdrawn'`;
    await half.catalog.refresh();
    now = NOON + HOUR;
    const metrics = createMetrics();
    const triggers = node({ metrics });
    const failing = async () => {
      await triggers.gauge();
      return (await metrics.triggersFailing.get()).values[0]?.value;
    };
    await triggers.poll();
    expect((await firesOf(id))[0]?.error).toBe(
      "there is no published workflow withdrawn: it is stored and not published",
    );
    expect(await failing()).toBe(1);
    await database.sql`update definitions set published = true where workflow_id = 'withdrawn'`;
    await half.catalog.refresh();
    now = NOON + 2 * HOUR;
    await triggers.poll();
    expect((await firesOf(id))[0]).toHaveProperty("resulting_run_id");
    expect(await failing()).toBe(0);
  });

  it("whose inputs do not fit ends with an error that names the place and not the value", async () => {
    const step = { id: "w", type: "wait_for_signal", signal_name: "go" };
    await publish(database, "stricter", [step]);
    await half.catalog.refresh();
    const id = await create(cron({ inputs: { card: "4111" } }, { workflow_id: "stricter" }));
    await publish(database, "stricter", [step], { version: 2, input_schema: { required: ["order"] } });
    await half.catalog.refresh();
    now = NOON + HOUR;
    await node().poll();
    const [fire] = await firesOf(id);
    expect(fire?.error).toContain("$.inputs");
    expect(fire?.error).not.toContain("4111");
  });
});

describe("a schedule whose inputs can never fit its workflow", () => {
  const LINE = { type: "object", required: ["sku"], properties: { amount: { type: "integer", minimum: 1 } } };
  const schema = {
    type: "object",
    required: ["lines", "trigger"],
    additionalProperties: false,
    properties: {
      lines: { type: "array", items: LINE },
      trigger: { type: "object", required: ["id", "scheduled_at", "fired_at"], maxProperties: 3 },
    },
  };
  const step = { id: "w", type: "wait_for_signal", signal_name: "go" };
  const misfit: JsonObject = { lines: [{ sku: "a" }, { amount: 0 }] };
  const refusal = {
    ...{ status: 400, code: "invalid_config" },
    details: [
      { path: "$.config.inputs.lines[1].sku", message: "is required" },
      { path: "$.config.inputs.lines[1].amount", message: "must be at least 1" },
    ],
  };

  beforeAll(async () => {
    await publish(database, "lines", [step]);
    await publish(database, "lines", [step], { input_schema: schema, version: 2 });
    await half.catalog.refresh();
  });

  it("is refused with every place: the latest published version counts, or the one that it names", async () => {
    const document = (version?: number) =>
      cron({ inputs: misfit }, { workflow_id: "lines", ...(version && { version }) });
    await expect(create(document())).rejects.toMatchObject(refusal);
    await expect(create(document(2))).rejects.toMatchObject(refusal);
    await create(document(1));
  });

  it("is refused when it is changed, enabled, or read from a file; it can be disabled", async () => {
    const id = await create(cron({ inputs: { lines: [] } }, { workflow_id: "lines" }));
    const { registrar } = node();
    await expect(registrar.change(ANYONE, id, { config: cron({ inputs: misfit }).config })).rejects.toMatchObject(
      refusal,
    );
    await database.sql`update triggers set config = ${database.sql.json(cron({ inputs: misfit }).config)} where id = ${id}`;
    expect((await registrar.change(ANYONE, id, { enabled: false })).enabled).toBe(false);
    await expect(registrar.change(ANYONE, id, { enabled: true })).rejects.toMatchObject(refusal);
    const file = cron({ inputs: misfit }, { workflow_id: "lines" });
    await expect(registrar.seed("lines", file)).rejects.toMatchObject(refusal);
  });

  it("is accepted where its times decide, which are not known yet", async () => {
    const late = { properties: { scheduled_at: { pattern: "^2030" } } };
    const always = {
      properties: { fired_at: { type: "string", format: "date-time", minLength: 20 } },
      required: ["id"],
    };
    const never = { properties: { scheduled_at: { type: "number" } } };
    const undecided: JsonObject[] = [
      { properties: { trigger: late } },
      { properties: { trigger: { ...always, not: late } } },
      { properties: { trigger: { anyOf: [late, never] } } },
      { properties: { trigger: { oneOf: [late, always] } } },
      { if: { properties: { trigger: late } }, then: { required: ["order"] } },
      { properties: { trigger: { properties: { id: { const: "x" }, fired_at: { enum: ["a", 1] } } } } },
    ];
    for (const [index, input_schema] of undecided.entries()) {
      await publish(database, `undecided_${index}`, [step], { input_schema });
      await half.catalog.refresh();
      await create(cron({}, { workflow_id: `undecided_${index}` }));
    }
    await publish(database, "decided", [step], { input_schema: { properties: { trigger: never } } });
    await half.catalog.refresh();
    const path = "$.config.inputs.trigger.scheduled_at";
    await expect(create(cron({}, { workflow_id: "decided" }))).rejects.toMatchObject({
      details: [{ path, message: "must be a number" }],
    });
  });
});

describe("a node that dies", () => {
  it("after the tick is decided leaves a run that is owed, and another node starts it once", async () => {
    const id = await create(cron());
    now = NOON + HOUR;
    await node({ starter: { start: () => Promise.reject(overloaded("dead")) } }).poll();
    expect(await firesOf(id)).toMatchObject([{ scheduled_at: at(now) }]);
    expect((await firesOf(id))[0]).not.toHaveProperty("resulting_run_id");
    await database.sql`update trigger_fires set due_at = now() - interval '1 s' where trigger_id = ${id}`;
    await Promise.all([node().poll(), node().poll()]);
    expect((await firesOf(id))[0]).toHaveProperty("resulting_run_id");
    const runs = await database.sql`select id from runs where trigger_id = ${id}`;
    expect(runs).toHaveLength(1);
  });

  const dying = (): RunStarter => ({
    start: async (request) => {
      await half.starter.start(request);
      throw overloaded("dead");
    },
  });

  it.each([
    ["a fire that finds its run", () => {}],
    [
      "a fire that finds its run, though its trigger is deleted",
      (id: string) => database.sql`delete from triggers where id = ${id}`,
    ],
  ])("after the run is durable and before the fire knows it leaves %s", async (_, meanwhile) => {
    const id = await create(cron());
    now = NOON + HOUR;
    await node({ starter: dying() }).poll();
    await meanwhile(id);
    await database.sql`update trigger_fires set due_at = now() - interval '1 s' where trigger_id = ${id}`;
    await node().poll();
    const runs = await database.sql<{ id: string }[]>`select id from runs where trigger_id = ${id}`;
    const fires = await database.sql`select resulting_run_id, error from trigger_fires where trigger_id = ${id}`;
    expect(fires).toEqual([{ resulting_run_id: runs[0]?.id, error: null }]);
    expect(runs).toHaveLength(1);
  });
});

describe("a fire by hand", () => {
  const shedding: RunStarter = { start: () => Promise.reject(overloaded("load is shed")) };
  const runsOf = (id: string) => database.sql`select id from runs where trigger_id = ${id}`;

  it("without a key is answered once it is durable: a client that were sent away would fire again", async () => {
    const id = await create(cron());
    const answer = await node({ starter: shedding }).registrar.fire(ANYONE, id, undefined);
    expect(answer).toEqual({ fireId: expect.any(String) });
    expect(await firesOf(id)).toMatchObject([{ id: answer.fireId }]);
    await database.sql`update trigger_fires set due_at = now() - interval '1 s' where trigger_id = ${id}`;
    await node().poll();
    expect(await runsOf(id)).toHaveLength(1);
  });

  it("with a key is 503 until its run is durable, and the next try has the run", async () => {
    const id = await create(cron());
    await expect(node({ starter: shedding }).registrar.fire(ANYONE, id, undefined, "k")).rejects.toMatchObject({
      status: 503,
    });
    const { runId } = await node().registrar.fire(ANYONE, id, undefined, "k");
    expect(await runsOf(id)).toEqual([{ id: runId }]);
  });
});

describe("the creation of a trigger under a key", () => {
  it("is answered with the first trigger when its workflow has changed since, and refuses another document", async () => {
    const document = cron({}, { workflow_id: "changing" });
    const steps = [{ id: "w", type: "wait_for_signal", signal_name: "go" }];
    await publish(database, "changing", steps);
    await half.catalog.refresh();
    const first = await node().registrar.create(document, ANYONE, "k1");
    await publish(database, "changing", steps, { version: 2, input_schema: { type: "object", required: ["order"] } });
    await half.catalog.refresh();
    expect(await node().registrar.create(document, ANYONE, "k1")).toEqual(first);
    const other = cron({ schedule: "1 * * * *" }, { workflow_id: "changing" });
    await expect(node().registrar.create(other, ANYONE, "k1")).rejects.toMatchObject({ status: 409 });
    await expect(node().registrar.create(document, ANYONE, "k2")).rejects.toMatchObject({ status: 400 });
  });

  it("has one time: its first tick is the one after its creation", async () => {
    // The clock reaches the tick between two readings.
    const times = [NOON + HOUR - 1, NOON + HOUR];
    const registrar = node({ clock: { now: () => times.shift() ?? NOON + HOUR } }).registrar;
    const { createdAt, nextFireAt } = await registrar.create(cron(), ANYONE);
    expect([createdAt.getTime(), nextFireAt?.getTime()]).toEqual([NOON + HOUR - 1, NOON + HOUR]);
  });
});

describe("a record's transition", () => {
  const paid = { record_type: "invoice", from_state: "open", to_state: "paid" };
  const onPaid = (config: JsonObject = {}, more: JsonObject = {}) => ({
    ...{ trigger_type: "record_transition", workflow_id: "nightly", ...more },
    config: { ...paid, ...config },
  });

  async function happens(payload: JsonObject, triggers = node()): Promise<string> {
    const id = uuidv7();
    await publishEvent(database.sql, { id, topic: "record.transition", headers: {}, payload, hash: id });
    await leaseDueEvents(database.sql, 10);
    await triggers.transitions.onEvent({ id, topic: "record.transition" });
    return id;
  }

  it("fires the triggers that match all three values, with the mapped inputs", async () => {
    const mapping = { invoice: "${record.id}", total: "${record.amount * 2}", from: "${event.payload.from_state}" };
    const id = await create(onPaid({ input_mapping: mapping }));
    const others = await Promise.all([
      create(onPaid({ to_state: "void" })),
      create(onPaid({ record_type: "order" })),
      create(onPaid({}, { enabled: false })),
    ]);
    await happens({ ...paid, record: { id: "inv-1", amount: 21 } });
    const [fire, ...more] = await firesOf(id);
    expect(more).toEqual([]);
    expect((await runOf(fire?.resulting_run_id))?.inputs).toEqual({ invoice: "inv-1", total: 42, from: "open" });
    for (const other of others) expect(await firesOf(other)).toEqual([]);
  });

  it("fires a trigger once, however often it is announced", async () => {
    const id = await create(onPaid());
    const event = await happens(paid);
    await Promise.all([1, 2, 3].map(() => node().transitions.onEvent({ id: event, topic: "record.transition" })));
    expect(await firesOf(id)).toHaveLength(1);
  });

  it("two in the same millisecond are two fires", async () => {
    const id = await create(onPaid());
    const [one, two] = [uuidv7(), uuidv7()];
    for (const each of [one, two])
      await publishEvent(database.sql, {
        id: each,
        topic: "record.transition",
        headers: {},
        payload: paid,
        hash: each,
      });
    await database.sql`update events set published_at = ${new Date(NOON)} where id in (${one}, ${two})`;
    for (const each of [one, two]) await node().transitions.onEvent({ id: each, topic: "record.transition" });
    expect(await firesOf(id)).toHaveLength(2);
  });

  it("on which a mapping fails leaves a row with the error, and the next one fires again", async () => {
    const id = await create(onPaid({ input_mapping: { total: "${record.amount + 1}" } }));
    await happens({ ...paid, record: {} });
    expect((await firesOf(id))[0]?.error).toBeTruthy();
    await happens({ ...paid, record: { amount: 1 } });
    expect((await firesOf(id)).filter((fire) => fire.resulting_run_id)).toHaveLength(1);
  });

  it.each([{}, { record_type: "invoice" }, { ...paid, record: "text" }, "text"])(
    "that the payload %j does not report fires nothing",
    async (payload) => {
      const id = await create(onPaid());
      await happens(payload as JsonObject);
      expect(await firesOf(id)).toEqual([]);
    },
  );
});

describe("a licence that is gone", () => {
  it("is an error of the fire", async () => {
    await publish(database, "licensed", [{ id: "a", type: "action", action: "shop.pay" }]);
    await database.sql`
      insert into actions (id, service, action_name, version, compensable, deprecated, dry_run_supported, input_schema, output_schema, transport, license_group)
      values (${uuidv7()}, 'shop', 'pay', 1, false, false, false, '{}', '{}', 'grpc', 'gold')`;
    await half.catalog.refresh();
    const id = await create(cron({}, { workflow_id: "licensed" }));
    await expect(
      node({ licensed: false }).registrar.create(cron({}, { workflow_id: "licensed" }), ANYONE),
    ).rejects.toMatchObject({
      status: 403,
    });
    now = NOON + HOUR;
    await node({ licensed: false }).poll();
    expect((await firesOf(id))[0]?.error).toContain("licence group gold");
  });
});
