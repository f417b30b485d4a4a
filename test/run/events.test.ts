// An event and a wait, on two nodes: each side commits first and then looks (law 9). Both orders are forced, in several ways;
// whichever it is, the run takes the event once, and no event is lost.
// @module-tag both

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { asRunId, type RunCommit } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { Announcer, type EventListener } from "../../src/events/announcer.js";
import { uuidv7 } from "../../src/ids.js";
import { type DueEvent, leaseAgain, leaseEvents, markAnnounced } from "../../src/store/engine/announcements.js";
import { correlatedRuns } from "../../src/store/engine/correlation.js";
import { publishEvent } from "../../src/store/engine/events.js";
import { Pruner } from "../../src/store/upkeep/pruner.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { until } from "../harness/until.js";
import { cancel, type Half, publish, start, startHalf } from "./rig.js";
import { allEnd, allSound, nothingUnwatched, report } from "./seen.js";

const PAIRS = long(8, 40);

let database: TestDatabase;
let here: Half;
let there: Half;
/** Announces events that were published here from memory, and polls. */
let announcer: Announcer;

beforeAll(async () => {
  database = await createTestDatabase({ max: 8 });
  const mine = { headers: { of: "${inputs.of}" } };
  const hear = (id: string, more: object) =>
    publish(database, id, [{ id: "s", type: "wait_for_event", topic: "sent", ...more }]);
  await hear("hear", mine);
  await hear("hear-now", { ...mine, lookback: "none" });
  await hear("hear-match", { ...mine, match: "event.payload.of == inputs.of" });
  await publish(database, "branches", [
    { id: "fork", type: "parallel", branches: { a: { next: "a" }, b: { next: "b" } }, next: "join" },
    { id: "a", type: "wait_for_event", topic: "sent", ...mine },
    { id: "b", type: "wait_for_event", topic: "sent", ...mine, lookback: "none" },
    { id: "join", type: "join" },
  ]);
  await publish(database, "twice", [
    { id: "s", type: "wait_for_event", topic: "sent", ...mine, next: "again" },
    { id: "again", type: "wait_for_event", topic: "sent", ...mine, timeout_ms: 60_000 },
  ]);
  await publish(database, "match-twice", [
    { id: "s", type: "wait_for_event", topic: "sent", match: "event.payload.of == inputs.of", next: "again" },
    { id: "again", type: "wait_for_event", topic: "sent", match: "event.payload.n == 2 && event.topic == 'sent'" },
  ]);
  await publish(database, "emit", [
    { id: "emit", type: "emit_event", topic: "sent", headers: { of: "${inputs.of}" }, payload: { of: "${inputs.of}" } },
  ]);
  here = await startHalf(database);
  there = await startHalf(database, { applicationName: "saga-there" });
  for (const half of [here, there]) holdBack(half);
  announcer = announcerOf(there);
  announcer.start();
});
afterAll(async () => {
  await announcer.stop();
  await here.stop();
  await there.stop();
  await database.drop();
});

function announcerOf(half: Half, listeners: readonly EventListener[] = []): Announcer {
  const { effects: sends } = half.runtime;
  return new Announcer({
    sql: database.sql,
    log: silentLog,
    listeners,
    intervalMs: 50,
    afterCommit: (id, effects) => sends.afterCommit(id, [], effects),
  });
}

/** Runs whose commit of the wait is held: `came` reports it, `go` releases it. */
const held = new Map<string, { came: () => void; go: Promise<void> }>();

function holdBack({ committer }: Half): void {
  const submit = committer.submit.bind(committer);
  committer.submit = async (commit: RunCommit) => {
    const hold = commit.rows.event_wait ? held.get(commit.runId) : undefined;
    if (hold) {
      held.delete(commit.runId);
      hold.came();
      await hold.go;
    }
    return submit(commit);
  };
}

const event = (of: string, payload: object = { of }) => ({
  ...{ id: uuidv7(), topic: "sent", headers: { of }, payload: payload as { of: string } },
  ...{ hash: "" },
});

async function send(of: string): Promise<string> {
  const one = event(of);
  await publishEvent(database.sql, one);
  announcer.announce(one.id);
  return one.id;
}

/** A start; the commit of the run's wait, which may be that of the start, is held until `go`. */
function startHeld(
  workflowId: string,
  nth: number,
): { waiter: string; runId: Promise<string>; came: Promise<void>; go: () => void; of: string } {
  const [runId, of] = [uuidv7(), String(nth) + uuidv7()];
  let go = () => {};
  let came = () => {};
  const coming = new Promise<void>((resolve) => {
    came = resolve;
  });
  held.set(runId, {
    came,
    go: new Promise((resolve) => {
      go = resolve;
    }),
  });
  const started = start((nth % 2 === 0 ? here : there).starter, workflowId, { runId: asRunId(runId), inputs: { of } });
  return { waiter: runId, runId: started, came: coming, go, of };
}

const takesOf = async (runIds: readonly string[]) => {
  const rows = await database.sql<{ run_id: string; event_id: string }[]>`
    select run_id, event_id from event_takes where run_id = any(${[...runIds]}::text[]::uuid[])`;
  return rows.map(({ run_id, event_id }) => `${run_id} ${event_id}`).sort();
};

/** Every run has taken its own event once, and no run waits for an event any more. */
async function expectTaken(pairs: readonly (readonly [runId: string, eventId: string, of: string])[]): Promise<number> {
  const runIds = pairs.map(([runId]) => runId);
  await allEnd(database.sql, runIds);
  const seen = await allSound(database.sql, runIds);
  seen.forEach(({ run }, nth) => {
    const of = pairs[nth]?.[2];
    expect(run).toMatchObject({ state: "succeeded", output: { topic: "sent", headers: { of }, payload: { of } } });
  });
  expect(await takesOf(runIds)).toEqual(pairs.map(([runId, eventId]) => `${runId} ${eventId}`).sort());
  expect(await database.sql`select 1 from event_waits`).toHaveLength(0);
  await nothingUnwatched(database.sql);
  return seen.filter(({ events }) => events.some(({ event_type }) => event_type === "step.paused")).length;
}

describe("an event", { tags: "short" }, () => {
  it("is offered to the runs whose `match` it can pass, at each of their waits, and to no others", async () => {
    const ofs = ["a", "b", "c"].map((name) => name + uuidv7());
    const runIds = await Promise.all(ofs.map((of) => start(here.starter, "match-twice", { inputs: { of } })));
    const waiting = (entry: number) =>
      database.sql`select run_id from event_waits where conditions ->> 'entry' = ${String(entry)}`;
    await until(async () => (await waiting(1)).length === 3);
    const offered = async (payload: object) => {
      const one = event("any", payload);
      await publishEvent(database.sql, one);
      const runs = await correlatedRuns(database.sql, { ...one, tenant_id: null }, null, 10);
      announcer.announce(one.id);
      return runs;
    };
    expect(await offered({ of: "d" })).toEqual([]);
    expect(await offered({ of: ofs[1] })).toEqual([runIds[1]]);
    await until(async () => (await waiting(2)).length === 1);
    expect(await offered({ of: ofs[1] })).toEqual([]);
    expect(await offered({ n: 2 })).toEqual([runIds[1]]);
    for (const of of [ofs[0], ofs[2]]) await offered({ of });
    await allEnd(database.sql, runIds);
    const outputs = (await allSound(database.sql, runIds)).map(({ run }) => run.output);
    expect(outputs).toMatchObject(runIds.map(() => ({ payload: { n: 2 } })));
  });
});

describe("forced interleavings", () => {
  for (const workflowId of ["hear", "hear-now", "hear-match"]) {
    it(`${workflowId}: the event is committed while the wait's commit is held, and the other way round`, async () => {
      const order = { eventFirst: 0, waitFirst: 0 };
      const pairs = await Promise.all(
        Array.from({ length: PAIRS }, async (_, nth) => {
          const { waiter, runId, came, go, of } = startHeld(workflowId, nth);
          await came;
          const eventFirst = nth % 4 < 2;
          if (eventFirst) {
            // Published and announced to the runs that wait by then; this run is not among them.
            const id = await send(of);
            await until(
              async () => (await database.sql`select 1 from events where id = ${id} and due_at is null`).length > 0,
              { within: 30_000 },
            );
            expect(await database.sql`select 1 from inbox where run_id = ${waiter}`).toHaveLength(0);
            go();
            order.eventFirst++;
            return [await runId, id, of] as const;
          }
          go();
          const waits = async () =>
            (await database.sql`select 1 from event_waits where run_id = ${await runId}`).length > 0;
          await until(waits);
          order.waitFirst++;
          return [await runId, await send(of), of] as const;
        }),
      );
      const paused = await expectTaken(pairs);
      // All of them had decided to wait before the event existed.
      expect(paused).toBe(PAIRS);
      expect(order).toEqual({ eventFirst: PAIRS / 2, waitFirst: PAIRS / 2 });
      report({ race: `event / wait (${workflowId})`, ...order });
    }, 180_000);
  }

  it("both at once, on either node: the run is notified, scans, or finds the event at its entry", async () => {
    const pairs = await Promise.all(
      Array.from({ length: PAIRS }, async (_, nth) => {
        const of = uuidv7();
        const runId = await start((nth % 2 === 0 ? here : there).starter, "hear", { inputs: { of } });
        const eventId = await late(nth, () => send(of));
        return { runId, eventId, of };
      }),
    );
    const paused = await expectTaken(pairs.map(({ runId, eventId, of }) => [runId, eventId, of] as const));
    expect(paused).toBeGreaterThan(0);
    report({ race: "event / wait, unforced", paused, foundAtEntry: PAIRS - paused });
  });
});

/** After so many turns of the event loop, so that the two sides meet anywhere. */
async function late<T>(turns: number, work: () => Promise<T>): Promise<T> {
  for (let turn = 0; turn < turns % 40; turn++) await new Promise((resolve) => setImmediate(resolve));
  return work();
}

describe("one event", { tags: "short" }, () => {
  // The poll announces what memory has not announced.
  beforeAll(() => {
    for (const { poller } of [here, there]) poller.start();
  });

  it("is taken once by every run that waits for it, and by each waiting branch of a run", async () => {
    const of = uuidv7();
    const runIds = await Promise.all(
      Array.from({ length: 40 }, () => start(here.starter, "branches", { inputs: { of } })),
    );
    const waits = async () => (await database.sql`select 1 from event_waits`).length === 80;
    await until(waits);
    // Both nodes announce it, again and again.
    const other = announcerOf(here);
    const id = await send(of);
    for (let round = 0; round < 3; round++) other.announce(id);
    await allEnd(database.sql, runIds);
    await other.stop();
    await allSound(database.sql, runIds);
    const takes = await database.sql<{ run_id: string }[]>`select run_id from event_takes where event_id = ${id}`;
    expect(takes).toHaveLength(80);
    await until(async () => (await database.sql`select 1 from inbox`).length === 0);
  });

  it("is not enough for two waits of one run", async () => {
    const of = uuidv7();
    const runId = await start(here.starter, "twice", { inputs: { of } });
    const first = await send(of);
    const again = async () =>
      (await database.sql`select 1 from runs where id = ${runId} and current_step = 'again' and state = 'paused'`)
        .length > 0;
    await until(again);
    const command = { type: "event", eventId: first } as const;
    await Promise.all([here, there].map(({ runtime }) => runtime.command(runId, command, { reach: EVERYTHING })));
    expect(await again()).toBe(true);
    const second = await send(of);
    await allEnd(database.sql, [runId]);
    expect(await takesOf([runId])).toEqual([`${runId} ${first}`, `${runId} ${second}`].sort());
  });

  it("emitted by a run is stored in the commit of its step, and reaches only runs of its tenant", async () => {
    const [of, tenantId, stranger] = [uuidv7(), uuidv7(), uuidv7()];
    const heard = await start(here.starter, "hear", { inputs: { of }, tenantId });
    const deaf = await start(here.starter, "hear", { inputs: { of }, tenantId: stranger });
    const emitted = await start(there.starter, "emit", { inputs: { of }, tenantId });
    await allEnd(database.sql, [heard, emitted]);
    const events = await database.sql`select id from events where headers->>'of' = ${of}`;
    expect(events).toHaveLength(1);
    await until(async () => (await database.sql`select 1 from events where due_at is not null`).length === 0);
    expect(await takesOf([heard, deaf])).toEqual([`${heard} ${events[0]?.id}`]);
    await here.runtime.command(deaf, cancel, { reach: EVERYTHING });
  });
});

describe("the announcer", { tags: "short" }, () => {
  it("continues where another one stopped, and calls its listeners until they accept the event", async () => {
    await announcer.stop();
    const of = uuidv7();
    const runIds = await Promise.all(Array.from({ length: 30 }, () => start(here.starter, "hear", { inputs: { of } })));
    // All of them have scanned too: a scan that is still owed would find the event without a notification.
    const resting = () => database.sql`
      select 1 from runs where id = any(${runIds}::text[]::uuid[]) and record->'wait'->>'topic' = 'sent'
        and record->'wait'->>'look' is null`;
    await until(async () => (await resting()).length === 30);
    const one = event(of);
    await publishEvent(database.sql, one);
    // A node notified the first ten, and died.
    const told = await database.sql<{ run_id: string }[]>`select run_id from event_waits order by run_id limit 10`;
    await database.sql`update events set told_to = ${told[9]?.run_id ?? ""}, due_at = now() - interval '1 s' where id = ${one.id}`;
    const heard: string[] = [];
    const listener: EventListener = async ({ id, topic }) => {
      heard.push(`${topic} ${id === one.id}`);
      if (heard.length < 3) throw new Error("not yet");
      return false;
    };
    const next = announcerOf(there, [listener]);
    for (let round = 0; round < 3; round++) {
      await next.tick();
      await database.sql`update events set due_at = now() - interval '1 s' where due_at is not null`;
    }
    await next.tick();
    expect(heard).toEqual(["sent true", "sent true", "sent true"]);
    const taken = async () => (await database.sql`select 1 from event_takes where event_id = ${one.id}`).length;
    await until(async () => (await taken()) === 20);
    await database.sql`update events set told_to = null, due_at = now() - interval '1 s' where id = ${one.id}`;
    await next.tick();
    await allEnd(database.sql, runIds);
    expect(await taken()).toBe(30);
    await next.stop();
  });

  it("keeps an event due, if a standby took over that lacks what was announced", async () => {
    await announcer.stop();
    const of = uuidv7();
    const runIds = await Promise.all(Array.from({ length: 5 }, () => start(here.starter, "hear", { inputs: { of } })));
    await until(async () => (await database.sql`select from event_waits`).length === runIds.length);
    const one = event(of);
    await publishEvent(database.sql, one);
    const due = async () => {
      const [row] = await database.sql`select due_at::text as lease from events where id = ${one.id}`;
      return (row as { lease: string | null }).lease;
    };
    await database.sql`update events set due_at = now() - interval '1 s' where id = ${one.id}`;
    const published = await due();
    // The notices were committed, and are gone; the fires of the second round as well.
    const failsOver = async (fired: boolean) => {
      await database.sql`delete from inbox`;
      await database.sql`update events set told_to = null, due_at = ${published}::text::timestamptz where id = ${one.id}`;
      return fired;
    };
    const outcomes = [() => failsOver(false), () => failsOver(true), async () => true];
    const next = new Announcer({
      ...{ sql: database.sql, log: silentLog, afterCommit: () => {} },
      listeners: [async () => (await outcomes.shift()?.()) === true],
    });
    for (const left of [2, 1]) {
      await next.tick();
      expect([outcomes.length, await due()]).toEqual([left, published]);
    }
    const [leased] = await leaseEvents(database.sql, [one.id]);
    const again = await leaseAgain(database.sql, leased as DueEvent);
    await database.sql`update events set due_at = ${published}::text::timestamptz where id = ${one.id}`;
    await markAnnounced(database.sql, [leased as DueEvent, again as DueEvent]);
    expect(await due()).toBe(published);
    await next.tick();
    expect(await due()).toBeNull();
    await allEnd(database.sql, runIds);
    await next.stop();
  });

  it("a key publishes once; old events are deleted with their takes, but none that is still owed", async () => {
    const keyed = { ...event("key"), idempotencyKey: "k", hash: "h" };
    const ids = await Promise.all([1, 2, 3].map(() => publishEvent(database.sql, { ...keyed, id: uuidv7() })));
    expect(new Set(ids).size).toBe(1);
    expect(await publishEvent(database.sql, { ...keyed, id: uuidv7(), hash: "other" })).toBeUndefined();
    const pruner = new Pruner(database.sql, silentLog, { eventDays: 2 });
    await database.sql`update events set published_at = now() - interval '3 days'`;
    await pruner.prune();
    const left = await database.sql<{ id: string; owed: boolean }[]>`select id, due_at is not null as owed from events`;
    expect(left).toEqual([{ id: ids[0], owed: true }]);
    expect(await database.sql`select 1 from event_takes`).toHaveLength(0);
    await pruner.stop();
  });
});
