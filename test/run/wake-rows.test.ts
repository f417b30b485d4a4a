// The wake row of a run in progress: it is moved when it is nearly due, not at every commit, and it never lets a lost node's run wait
// for longer than two seconds. Triggers in the test's database record what was written.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { type RunId, wakeChange } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { SHARDS } from "../../src/shard/placement.js";

import { createTestDatabase, deleteRuns, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { ACTIONS, program } from "../machines/definitions.js";
import { Simulation } from "../machines/simulation.js";
import { type Half, type HalfOptions, publish, registerActions, type Step, signal, start, startHalf } from "./rig.js";
import { allEnd, allSound, look, nothingUnwatched, report } from "./seen.js";

const STEPS = 60;
const noop = (n: number): Step => ({ id: `s${n}`, type: "noop", ...(n < STEPS && { next: `s${n + 1}` }) });
const charge = (n: number): Step => ({
  id: `s${n}`,
  type: "action",
  action: "shop.charge",
  ...(n < 10 && { next: `s${n + 1}` }),
});
const numbered = (count: number) => Array.from({ length: count }, (_, n) => n + 1);

let database: TestDatabase;
const halves: Half[] = [];

beforeAll(async () => {
  database = await createTestDatabase({ max: 4 });
  await registerActions(database, "charge");
  await publish(database, "steps", numbered(STEPS).map(noop));
  await publish(database, "charges", numbered(10).map(charge));
  await publish(database, "beats", [{ ...charge(10), heartbeat_timeout_ms: 15_000 }]);
  const request = { id: "request", type: "http_request", url: "https://shop.example/", timeout_ms: 8_000 };
  await publish(database, "request", [request]);
  await publish(database, "later", [{ id: "wait", type: "wait_duration", duration_ms: 600_000 }]);
  // What a run's commit leaves behind, seen when it commits: the statement writes the wake row after the run row.
  await database.sql.unsafe(`
    create table writes (run_id uuid, at timestamptz);
    create function note_write() returns trigger language plpgsql as
      'begin insert into writes values (new.run_id, clock_timestamp()); return new; end';
    create trigger note_write after insert or update on wakes for each row execute function note_write();
    create table left_due (run_id uuid, state text, wait_kind text, due_in_ms float8);
    create function note_due() returns trigger language plpgsql as '
      begin insert into left_due select new.id, new.state, new.record->''wait''->>''kind'',
        extract(epoch from (select due_at from wakes where run_id = new.id) - clock_timestamp()) * 1000; return new; end';
    create constraint trigger note_due after insert or update on runs deferrable initially deferred for each row execute function note_due()`);
});
beforeEach(async () => {
  await deleteRuns(database.sql);
  await database.sql`delete from writes`;
  await database.sql`delete from left_due`;
});
afterEach(async () => {
  for (const half of halves.splice(0)) await half.stop();
});
afterAll(() => database.drop());

async function half(options: HalfOptions = {}): Promise<Half> {
  const started = await startHalf(database, options);
  halves.push(started);
  return started;
}

/** How often the run's wake row was written, and for how many seconds the run lived. */
async function written(runId: string) {
  const [row] = await database.sql<{ writes: number; seconds: number }[]>`
    select (select count(*) from writes w where w.run_id = ${runId})::int as writes,
      extract(epoch from terminal_at - started_at)::float8 as seconds from runs where id = ${runId}`;
  return row ?? { writes: 0, seconds: 0 };
}

describe("the wake row of a run in progress", () => {
  it("is written once a second at most, however often the run commits", async () => {
    const { starter } = await half({ stepsPerCommit: 1 });
    const runId = await start(starter, "steps");
    await allEnd(database.sql, [runId]);
    const { writes, seconds } = await written(runId);
    report({ commits: STEPS, writes, seconds });
    expect(writes).toBeLessThanOrEqual(2 + seconds);
    await allSound(database.sql, [runId]);
  });

  it("is never due more than two seconds later than the run steps: a lost node's runs are found by then", async () => {
    const { starter } = await half({ stepsPerCommit: 1 });
    const runIds = await Promise.all(numbered(30).map(() => start(starter, "steps")));
    await allEnd(database.sql, runIds);
    const [seen] = await database.sql<{ commits: number; latest: number; without: number }[]>`
      select count(*)::int as commits, max(due_in_ms) as latest, count(*) filter (where due_in_ms is null)::int as without
      from left_due where state in ('pending', 'running')`;
    report(seen ?? {});
    expect(seen?.commits).toBeGreaterThan(30 * (STEPS - 2));
    expect(seen?.latest).toBeLessThanOrEqual(2_000);
    expect(seen?.without).toBe(0);
  });

  it("stays for one call after another, and is due within ten seconds of each, which no other row owes", async () => {
    const { starter } = await half();
    const runId = await start(starter, "charges");
    await allEnd(database.sql, [runId]);
    const { writes, seconds } = await written(runId);
    report({ calls: 10, writes, seconds });
    expect(writes).toBeLessThanOrEqual(2 + seconds);
    const [seen] = await database.sql<{ calls: number; latest: number }[]>`
      select count(*)::int as calls, max(due_in_ms) as latest from left_due where wait_kind = 'dispatched'`;
    expect(seen?.calls).toBe(10);
    expect(seen?.latest).toBeLessThanOrEqual(10_000);
    expect(seen?.latest).toBeGreaterThan(5_000);
    await nothingUnwatched(database.sql);
  });

  it("that is due before the deadline of a call gets the deadline when it is polled", async () => {
    const { starter, poller, dispatcher } = await half({ reply: () => undefined });
    const runId = await start(starter, "charges");
    const due = async () => {
      const [row] = await database.sql<{ tries: number; ms: number }[]>`
        select tries, (extract(epoch from due_at - now()) * 1000)::float8 as ms from wakes where run_id = ${runId}`;
      return row;
    };
    await until(() => dispatcher.sent.length === 1);
    for (let nth = 1; nth <= 2; nth++) {
      await database.sql`update wakes set due_at = now() - interval '1 s'`;
      await poller.tick();
      const moved = async () => ((await due())?.ms ?? 0) > 250_000;
      await until(moved, { what: "a wake row that is due at the deadline" });
      expect(await due()).toMatchObject({ tries: 0 });
    }
  });

  it("is not put off by other commits when the look at a dispatch is due, which may be lost", () => {
    const simulation = new Simulation({ program: program([charge(10)]), actions: ACTIONS });
    simulation.advance();
    const { context, now } = simulation;
    expect(context.wait?.kind).toBe("dispatched");
    for (const stored of [now - 60_000, now, now + 999]) expect(wakeChange(context, now, stored)).toBeUndefined();
    expect(wakeChange(context, now, now + 4_000)).toBe(now + 10_000);
  });

  it("brings a look that leaves the time of the next heartbeat as it is, if the node holds the dispatch", async () => {
    const { starter, poller, dispatcher } = await half({ reply: () => undefined });
    const runId = await start(starter, "beats");
    await until(() => dispatcher.sent.length === 1);
    const wait = async () => {
      const [row] = await database.sql<{ wait: { heartbeatAt: number; hasRow?: true } }[]>`
        select record->'wait' as wait from runs where id = ${runId}`;
      return row?.wait;
    };
    const heartbeatAt = (await wait())?.heartbeatAt;
    expect(heartbeatAt).toBeGreaterThan(0);
    await database.sql`update wakes set due_at = now() - interval '1 s'`;
    await poller.tick();
    await until(async () => (await wait())?.hasRow, { what: "the row of the dispatch" });
    expect((await wait())?.heartbeatAt).toBe(heartbeatAt);
  });

  describe("that a takeover leases while its run is busy", () => {
    /** The node that has the run is gone, and another one takes over. Its first commit waits for the lease. */
    async function takenOver(workflowId: string, meanwhile: (next: Half, runId: RunId) => void = () => {}) {
      const former = await half({ reply: () => undefined });
      const runId = await start(former.starter, workflowId);
      await until(() => former.dispatcher.sent.length === 1);
      const due = async () => {
        const [row] = await database.sql<{ at: string; leased: boolean }[]>`
          select due_at::text as at, tries > 0 and due_at > now() as leased from wakes where run_id = ${runId}`;
        return row;
      };
      const before = await due();
      await former.stop();
      // Without hints: a timer in memory would hide a row that is due too late.
      const next = await half({ reply: () => undefined, hints: false });
      const submit = next.committer.submit.bind(next.committer);
      next.committer.submit = async (commit) => {
        next.committer.submit = submit;
        await until(async () => (await due())?.leased, { what: "the lease of the wake row" });
        return submit(commit);
      };
      next.poller.takeOver(SHARDS);
      meanwhile(next, runId);
      await next.poller.tick();
      return { next, due, before };
    }

    it("is due at the deadline of a request that the new node carries", async () => {
      const { next, due, before } = await takenOver("request");
      await until(() => next.dispatcher.sent.length === 1);
      await until(async () => (await due())?.at === before?.at, { what: "a wake row that is due at the deadline" });
    });

    it("brings the dispatch that no other row owes to the new node", async () => {
      const signalled = (next: Half, runId: RunId) =>
        void next.runtime.command(runId, signal(uuidv7(), "go"), { reach: EVERYTHING });
      const { next } = await takenOver("charges", signalled);
      await until(() => next.dispatcher.sent.length === 1, { what: "the dispatch on the new node" });
    });
  });

  it("is exact for a parked run", async () => {
    const { starter } = await half();
    const runId = await start(starter, "later");
    const state = async () => (await look(database.sql, runId)).run.state;
    await until(async () => (await state()) === "paused");
    const [seen] = await database.sql<{ due_in_ms: number }[]>`select due_in_ms from left_due where state = 'paused'`;
    expect(seen?.due_in_ms).toBeGreaterThan(590_000);
  });
});
