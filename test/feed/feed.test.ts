// The feed between two processes (two feeds on one database): hints, gaps, lost connections, lost hints.

import { isDeepStrictEqual } from "node:util";
import postgres, { type Sql } from "postgres";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { asRunId, type CommittedEvent, newRun as machineRun, type RunId } from "../../machines/index.js";
import { createFeed, type EventItem, type Feed, type FeedOptions, type Head } from "../../src/feed/index.js";
import { Watcher } from "../../src/feed/watcher.js";
import { asShardId, eventId, shardOf } from "../../src/ids.js";
import { channelOf } from "../../src/store/engine/run-channel.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";

let database: TestDatabase;
const feeds: Feed[] = [];
const NEVER = 2 ** 30;

beforeAll(async () => {
  database = await createTestDatabase({ max: 5 });
});
afterEach(async () => {
  await Promise.all(feeds.splice(0).map((feed) => feed.stop()));
});
afterAll(() => database.drop());

function feed(options: Partial<FeedOptions> = {}): Feed {
  const made = createFeed({ sql: database.sql, listenUrl: database.url, log: silentLog, pollMs: NEVER, ...options });
  feeds.push(made);
  return made;
}

async function newRun(): Promise<RunId> {
  const id = newRunId();
  await database.sql`insert into runs (id, shard, revision, fence, last_seq, state, last_event_at, requires_manual_review, record,
    workflow_id, version, definition_id, started_at)
    values (${id}, ${shardOf(id)}, 1, 1, 0, 'running', now(), false, '{}', 'w', 1, ${id}, now())`;
  return id;
}

/** Commits the run's next events, and notifies the given feed as that of the committing process. */
async function commit(runId: RunId, count: number, committing?: Feed, text = ""): Promise<void> {
  const events = await database.sql.begin(async (sql) => {
    const [run] = await sql<{ last_seq: number }[]>`
      update runs set last_seq = last_seq + ${count} where id = ${runId} returning last_seq`;
    const first = (run?.last_seq ?? 0) - count + 1;
    const events = Array.from({ length: count }, (_, index) => eventOf(runId, first + index, text));
    for (const { seq, metadata } of events) {
      await sql`insert into run_events (run_id, seq, recorded_at, event_type, attempt, from_state, to_state, actor, metadata)
        values (${runId}, ${seq}, ${new Date(seq)}, 'log', 0, 'running', 'running', 'api', ${JSON.stringify(metadata)}::text::json)`;
    }
    return events;
  });
  committing?.onCommit(runId, events);
}

function eventOf(runId: RunId, seq: number, text: string): CommittedEvent {
  const states = { from: "running", to: "running" } as const;
  return { runId, seq, type: "log", attempt: 0, ...states, actor: "api", metadata: { text }, at: seq };
}

function watch(on: Feed, runId: RunId, afterSeq = 0) {
  const seqs: number[] = [];
  const { stop } = on.watch(runId, afterSeq, { event: ({ seq }) => void seqs.push(seq) });
  return { seqs, stop, has: (count: number) => until(() => seqs.length >= count, { what: `${count} events` }) };
}

const listening = (runId?: RunId) =>
  until(async () => {
    const rows = await database.sql<{ query: string }[]>`
      select query from pg_stat_activity where application_name = 'saga-feed' and datname = current_database() and state = 'idle'`;
    return rows.length > 0 && rows.every(({ query }) => query.includes(runId ? channelOf(runId) : "listen"));
  });

const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1);

describe("between processes", () => {
  it("a commit in one process is an event in another, without a poll", async () => {
    const [here, there] = [feed(), feed()];
    const runId = await newRun();
    await commit(runId, 2);
    const watcher = watch(here, runId);
    await watcher.has(2);
    await listening(runId);
    await commit(runId, 3, there);
    await watcher.has(5);
    await commit(runId, 40, there, "x".repeat(500));
    await watcher.has(45);
    await commit(runId, 1, there, "é".repeat(5_000));
    await watcher.has(46);
    expect(watcher.seqs).toEqual(upTo(46));
  });

  it("events of local commits are delivered once, although NOTIFY brings them again", async () => {
    const own = feed();
    const runId = await newRun();
    const watchers = [watch(own, runId), watch(own, runId)];
    await listening(runId);
    for (let n = 0; n < 20; n++) await commit(runId, 2, own);
    await own.flush();
    await own.poll();
    for (const watcher of watchers) {
      await watcher.has(40);
      expect(watcher.seqs).toEqual(upTo(40));
    }
  });

  it("with every hint lost, the poll finds the last event too", async () => {
    const here = feed({ listenUrl: undefined, pollMs: 50 });
    const runId = await newRun();
    const watcher = watch(here, runId);
    await commit(runId, 1);
    await watcher.has(1);
    await commit(runId, 2);
    await watcher.has(3);
  });

  it("a broken LISTEN connection is replaced, and the events missed meanwhile are read", async () => {
    const [here, there] = [feed(), feed()];
    const runId = await newRun();
    const watcher = watch(here, runId);
    await listening(runId);
    await database.sql`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = 'saga-feed' and datname = current_database()`;
    await commit(runId, 1);
    await here.poll();
    await watcher.has(1);
    await until(async () => {
      await here.poll();
      await commit(runId, 1, there);
      return watcher.seqs.length >= 3 && (await listening());
    });
    const before = watcher.seqs.length;
    await commit(runId, 1, there);
    await watcher.has(before + 1);
    expect(watcher.seqs).toEqual(upTo(watcher.seqs.length));
  });

  it("a watcher that has left receives nothing, and its channel is unlistened", async () => {
    const here = feed();
    const runId = await newRun();
    const [gone, other] = [watch(here, runId), watch(here, await newRun())];
    await listening();
    gone.stop();
    gone.stop();
    await until(async () => {
      const rows = await database.sql`select 1 from pg_stat_activity
        where application_name = 'saga-feed' and datname = current_database() and query like ${`unlisten%${channelOf(runId)}%`}`;
      return rows.length === 1;
    });
    await commit(runId, 1, here);
    await here.poll();
    expect([gone.seqs, other.seqs]).toEqual([[], []]);
  });

  it("too many watchers and followers are refused", async () => {
    const here = feed({ maxWatchers: 1 });
    const runId = await newRun();
    const first = watch(here, runId);
    const follow = () => here.follow(runId, () => {});
    expect(() => watch(here, runId)).toThrow("too many streams");
    expect(follow).toThrow("too many streams");
    first.stop();
    const second = follow();
    expect(() => watch(here, runId)).toThrow("too many streams");
    second.stop();
    watch(here, runId);
  });

  it("the feed stops safely before its first watcher, and twice", async () => {
    const here = feed();
    await here.stop();
    await here.stop();
    expect(() => watch(here, newRunId())).toThrow();
  });
});

describe("a follower", () => {
  const all = new Set(Array.from({ length: 256 }, (_, shard) => asShardId(shard)));
  const heard = (on: Feed, runId: RunId) => {
    const heads: Head[] = [];
    const { stop } = on.follow(runId, (head) => void heads.push(head));
    return { heads, stop, hears: (head: Head) => until(() => heads.some((one) => isDeepStrictEqual(one, head))) };
  };
  const sessions = () => database.sql`
    select 1 from pg_stat_activity where application_name = 'saga-feed' and datname = current_database()`;

  it("hears of the commits of this process without a channel, while the run is this process's", async () => {
    const here = feed();
    here.placed(all);
    const runId = await newRun();
    const follower = heard(here, runId);
    await follower.hears({ seq: 0, terminal: false });
    await commit(runId, 2, here);
    await follower.hears({ seq: 2, terminal: false });
    here.onCommit(runId, [{ ...eventOf(runId, 3, ""), to: "succeeded" }]);
    await follower.hears({ seq: 3, terminal: true });
    expect(await sessions()).toEqual([]);
    here.placed(new Set());
    await listening(runId);
    follower.stop();
    await until(
      async () =>
        (await database.sql`select 1 from pg_stat_activity where query like ${`unlisten "${channelOf(runId)}"%`}`)
          .length === 1,
    );
    expect(here.watching).toBe(0);
  });

  it("gets the run as it was committed in this process", async () => {
    const here = feed();
    const runId = await newRun();
    const follower = heard(here, runId);
    const identity = { id: runId, workflowId: "w", version: 1, definitionId: runId, inputs: {}, startedAt: 0 };
    const context = machineRun({ ...identity, dryRun: false, features: {}, entrypoint: "" }, {});
    here.onCommit(runId, [{ ...eventOf(runId, 2, ""), to: "succeeded", at: 7 }], { before: context, after: context });
    await follower.hears({ seq: 2, terminal: true, committed: { context, at: 7 } });
  });

  it("of a run that began in this turn hears where it is, and the store is not asked, unless others commit the run", async () => {
    const here = feed({ listenUrl: undefined });
    here.placed(all);
    const runId = await newRun();
    const began: CommittedEvent = { ...eventOf(runId, 1, ""), type: "saga.started" };
    here.onCommit(runId, [began, { ...began, seq: 2, to: "succeeded" }]);
    const ours = heard(here, runId);
    await Promise.resolve();
    expect(ours.heads).toEqual([{ seq: 2, terminal: true }]);
    // Its row does not say so, and whoever comes later, or does not own the run, asks the store.
    here.placed(new Set());
    here.onCommit(runId, [began]);
    await heard(here, runId).hears({ seq: 0, terminal: false });
    here.placed(all);
    await heard(here, runId).hears({ seq: 0, terminal: false });
    here.onCommit(runId, [began]);
    const gone = heard(here, runId);
    gone.stop();
    await new Promise(setImmediate);
    expect(gone.heads).toEqual([]);
  });

  it("of a run that began in this turn hears of a commit that another process made after all, by the poll", async () => {
    const here = feed();
    here.placed(all);
    const runId = await newRun();
    await commit(runId, 1, here);
    const follower = heard(here, runId);
    await follower.hears({ seq: 1, terminal: false });
    await commit(runId, 2);
    await here.poll();
    await follower.hears({ seq: 3, terminal: false });
  });

  it("hears of the commits of another process without a poll, and of none after it has left", async () => {
    const [here, there] = [feed(), feed()];
    const runId = await newRun();
    const [gone, follower] = [heard(here, runId), heard(here, runId)];
    await listening(runId);
    gone.stop();
    await commit(runId, 2, there);
    await follower.hears({ seq: 2, terminal: false });
    await commit(runId, 1, there, "é".repeat(5_000));
    await follower.hears({ seq: 3, terminal: false });
    expect(gone.heads.every(({ seq }) => seq === 0)).toBe(true);
  });

  it("with every hint lost, hears of them by the poll", async () => {
    const here = feed({ listenUrl: undefined });
    here.placed(all);
    const runId = await newRun();
    const follower = heard(here, runId);
    await follower.hears({ seq: 0, terminal: false });
    await commit(runId, 2);
    await here.poll();
    await follower.hears({ seq: 2, terminal: false });
  });
});

describe("hints", () => {
  let listener: Sql;
  beforeAll(() => {
    listener = postgres(database.url, { max: 1 });
  });
  afterAll(() => listener.end());

  it("carry the events on the documented channel, or only how far the run has come", async () => {
    const runId = await newRun();
    const heard: { run_id: string; events?: EventItem[]; last_seq?: number }[] = [];
    await listener.listen(`saga_event_${runId.replaceAll("-", "")}`, (text) => {
      expect(Buffer.byteLength(text)).toBeLessThan(7500);
      heard.push(JSON.parse(text));
    });
    const there = feed();
    await commit(runId, 2, there);
    await there.flush();
    await commit(runId, 1, there, "x".repeat(10_000));
    await there.flush();
    await until(() => heard.length === 2);
    expect(heard[0]).toMatchObject({ run_id: runId, events: [{ seq: 1, id: eventId(runId, 1) }, { seq: 2 }] });
    expect(heard[1]).toEqual({ run_id: runId, last_seq: 3, state: "running" });
  });

  it("are not sent while no other process can have watchers, and again as soon as one may", async () => {
    const runId = await newRun();
    const heard: number[] = [];
    await listener.listen(channelOf(runId), (text) => heard.push(JSON.parse(text).events[0].seq));
    const there = feed();
    for (const [nth, may] of [true, false, true].entries()) {
      there.watchedElsewhere(may);
      await commit(runId, 1, there);
      await there.flush();
      if (may) await until(() => heard.at(-1) === nth + 1);
    }
    expect(heard).toEqual([1, 3]);
    // What its watchers missed, they read.
    const seen = watch(feed(), runId);
    await seen.has(3);
    seen.stop();
  });

  it("about many runs at once only say how far each has come, and their followers need no more", async () => {
    const first = await newRun();
    const runIds = [first, ...(await Promise.all(Array.from({ length: 5 }, newRun)))];
    const heard: unknown[] = [];
    for (const runId of runIds) await listener.listen(channelOf(runId), (text) => heard.push(JSON.parse(text)));
    const [here, there] = [feed(), feed()];
    const heads: Head[] = [];
    here.follow(first, (head) => heads.push(head));
    await listening(first);
    for (const runId of runIds) there.onCommit(runId, [{ ...eventOf(runId, 1, ""), to: "succeeded" }]);
    await there.flush();
    await until(() => heard.length === runIds.length);
    expect(heard).toEqual(
      expect.arrayContaining(runIds.map((run_id) => ({ run_id, last_seq: 1, state: "succeeded" }))),
    );
    // The run's row does not say so: nothing was read.
    await until(() => heads.some(({ terminal }) => terminal));
  });

  it("many commits of one run share a hint", async () => {
    const runId = await newRun();
    const heard: unknown[] = [];
    await listener.listen(channelOf(runId), (text) => heard.push(JSON.parse(text)));
    const there = feed();
    for (let seq = 1; seq <= 100; seq++) there.onCommit(runId, [eventOf(runId, seq, "")]);
    await there.flush();
    await until(() => heard.length > 0);
    expect(heard).toEqual([{ run_id: runId, last_seq: 100, state: "running" }]);
  });
});

describe("a watcher", () => {
  const event = (seq: number) => ({ seq }) as EventItem;

  it("reads a gap, and delivers nothing twice meanwhile", async () => {
    const handed: number[] = [];
    const reads: number[] = [];
    let release: () => void = () => {};
    const readAfter = async (_: string, seq: number) => {
      reads.push(seq);
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      return [event(seq + 1), event(seq + 2)];
    };
    const watcher = new Watcher(asRunId("run"), 0, { event: ({ seq }) => void handed.push(seq) }, readAfter);
    watcher.offer([event(2)]);
    watcher.offer([event(1), event(2), event(3)]);
    release();
    await until(() => reads.length === 2);
    watcher.offer([event(4)]);
    release();
    await until(() => handed.length === 4);
    watcher.offer([event(4), event(5)]);
    expect(handed).toEqual([1, 2, 3, 4, 5]);
  });

  it("continues after the database failed", async () => {
    const handed: number[] = [];
    const failures: unknown[] = [];
    let fails = true;
    const readAfter = async (_: string, seq: number) => {
      if (fails) throw new Error("gone");
      return seq < 3 ? [event(seq + 1)] : [];
    };
    const sink = {
      event: ({ seq }: EventItem) => void handed.push(seq),
      failed: (error: unknown) => void failures.push(error),
    };
    const watcher = new Watcher(asRunId("run"), 0, sink, readAfter);
    watcher.advanceTo(3);
    await until(() => failures.length === 1);
    fails = false;
    watcher.advanceTo(3);
    await until(() => handed.length === 3);
    expect(handed).toEqual([1, 2, 3]);
  });
});
