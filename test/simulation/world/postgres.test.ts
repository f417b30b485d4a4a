// The simulated Postgres with the real driver: several pools share one backend, and sessions, faults and snapshots are as the nodes expect them.
import postgres, { type Sql } from "postgres";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { randomOf } from "../../machines/scheduler.js";
import { type SessionFate, SimulatedPostgres, type StoreTime } from "./postgres.js";
import type { Snapshot } from "./snapshot.js";

/** Simulated time passes from one callback to the next, whenever the driver has nothing more to do. */
class Clock implements StoreTime {
  now = 0;
  readonly random = randomOf(7);
  private readonly callbacks: { at: number; callback: () => void }[] = [];

  later(ms: number, callback: () => void): void {
    const at = this.now + ms;
    const next = this.callbacks.findIndex((other) => other.at > at);
    this.callbacks.splice(next < 0 ? this.callbacks.length : next, 0, { at, callback });
  }

  /** Until the promise settles, or until `ms` have passed. */
  async run<T>(promise: PromiseLike<T>, ms = Number.POSITIVE_INFINITY): Promise<T | "pending"> {
    let settled = false;
    const settle = () => {
      settled = true;
    };
    promise.then(settle, settle);
    const end = this.now + ms;
    // Longer if nothing but an answer can end the waiting.
    const patience = Number.isFinite(ms) ? 50 : 2_000;
    for (let empty = 0; !settled && empty < patience; ) {
      await new Promise(setImmediate);
      await server.idle();
      const next = this.callbacks[0];
      if (!next || next.at > end) {
        // The driver opens sessions with timers of Node.
        empty += 1;
        await new Promise((resolve) => setTimeout(resolve, 1));
        continue;
      }
      this.callbacks.shift();
      this.now = next.at;
      next.callback();
    }
    if (!settled) this.now = Math.min(end, this.now + ms);
    return settled ? promise : "pending";
  }
}

let server: SimulatedPostgres;
let fresh: Snapshot;
let clock: Clock;
let pools: Sql[] = [];

function pool(owner: string, max = 1): Sql {
  const options = { max, fetch_types: false, onnotice: () => {}, socket: () => server.connect(owner) };
  const sql = postgres("postgres://simulated/saga", options as postgres.Options<Record<string, never>>);
  pools.push(sql);
  return sql;
}

/** The next group of the owner that arrives has this fate, and all others take 1 ms each way. */
function once(owner: string, fate: Partial<SessionFate>): void {
  let isUsed = false;
  const calm = { latencyMs: 1, answerMs: 1 };
  server.fate = (asking) => {
    if (isUsed || asking !== owner) return calm;
    isUsed = true;
    return { ...calm, ...fate };
  };
}

const notes = () => server.query<{ text: string }>("select text from notes order by text");

beforeAll(async () => {
  server = await SimulatedPostgres.open(new Clock());
  await server.query("create table notes (id uuid default gen_random_uuid(), text text primary key)");
  fresh = await server.snapshot();
});

beforeEach(async () => {
  clock = new Clock();
  await server.restart(fresh, clock);
  server.fate = () => ({ latencyMs: 1, answerMs: 1 });
});

afterEach(async () => {
  await clock.run(Promise.all(pools.map((sql) => sql.end({ timeout: 0 }))));
  pools = [];
});

afterAll(() => server.close());

describe("sessions", () => {
  it("a transaction of one holds off the other", async () => {
    const [left, right] = [pool("left"), pool("right")];
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const slow = left.begin(async (transaction) => {
      await transaction`insert into notes (text) values (${"left"})`;
      await released;
    });
    expect(await clock.run(slow, 100)).toBe("pending");
    const reading = right`select text from notes`.execute();
    expect(await clock.run(reading, 100)).toBe("pending");
    await expect(async () => await notes()).rejects.toThrow("The backend belongs to a session of left.");
    release();
    await clock.run(slow);
    expect(await clock.run(reading)).toEqual([{ text: "left" }]);
  });

  it("prepared statements are of a session, and an error leaves the session usable", async () => {
    const left = pool("left");
    for (const text of ["a", "b", "c"]) await clock.run(left`insert into notes (text) values (${text})`);
    await expect(clock.run(left`insert into notes (text) values (${"a"})`)).rejects.toThrow("duplicate key");
    await expect(clock.run(left`select ${"a"}::text from nowhere`)).rejects.toThrow("does not exist");
    expect(await clock.run(left`select count(*)::int from notes where text <> ${"a"}`)).toEqual([{ count: 2 }]);
    const prepared = "select count(*)::int from pg_prepared_statements where name <> ''";
    expect((await server.query<{ count: number }>(prepared))[0]?.count).toBeGreaterThan(1);
    await clock.run(left.end());
    expect(await clock.run(pool("right")`select 1 as one`.simple())).toEqual([{ one: 1 }]);
    expect(await server.query(prepared)).toEqual([{ count: 0 }]);
  });

  it("many sessions at once, a cursor, and the order of one session whatever the latencies", async () => {
    server.fate = () => ({ latencyMs: clock.random() * 20, answerMs: clock.random() * 20 });
    const [left, right] = [pool("left", 4), pool("right", 4)];
    const inserts = Array.from(
      { length: 60 },
      (_, at) => (at % 2 ? left : right)`insert into notes (text) values (${at})`,
    );
    await clock.run(Promise.all(inserts));
    const seen: number[] = [];
    const reading = left`select generate_series(1, 10) as n`.cursor(3, (rows) => {
      for (const { n } of rows) seen.push(n);
    });
    await clock.run(Promise.all([reading, right`select 1`]));
    expect([(await notes()).length, seen.length]).toEqual([60, 10]);
  });

  it("notifications reach the sessions that listen, as long as they do", async () => {
    const [left, right] = [pool("left"), pool("right")];
    const heard: string[] = [];
    const listening = await clock.run(left.listen("Work", (payload) => heard.push(`left ${payload}`)));
    await clock.run(right.listen("Work", (payload) => heard.push(`right ${payload}`)));
    await clock.run(right.notify("Work", "one"));
    await clock.run(right.begin((transaction) => transaction`select pg_notify(${"Work"}, ${"two"})`));
    await server.query("select pg_notify('Work', 'three')");
    await clock.run(new Promise(() => {}), 20);
    if (listening !== "pending") await clock.run(listening.unlisten());
    await clock.run(right.notify("Work", "four"));
    await clock.run(new Promise(() => {}), 20);
    expect(heard).toEqual([
      ...["one", "two", "three"].flatMap((payload) => [`left ${payload}`, `right ${payload}`]),
      "right four",
    ]);
  });
});

describe("faults", () => {
  it("a cut before the execution leaves nothing, one after it leaves the row", async () => {
    const left = pool("left");
    await clock.run(left`select 1`);
    for (const cut of ["before", "after"] as const) {
      once("left", { cut });
      await expect(clock.run(left`insert into notes (text) values ('${left.unsafe(cut)}')`)).rejects.toThrow(
        "ECONNRESET",
      );
      await clock.run(left`select 1`);
    }
    expect(await notes()).toEqual([{ text: "after" }]);
  });

  it("a node that loses its sessions loses its transaction", async () => {
    const [left, right] = [pool("left"), pool("right")];
    const slow = left.begin(async (transaction) => {
      await transaction`insert into notes (text) values ('left')`;
      await new Promise(() => {});
    });
    const failed = expect(slow).rejects.toThrow("CONNECTION_CLOSED");
    await clock.run(slow, 50);
    server.cutAll("left");
    await clock.run(failed);
    await clock.run(left`select 1`);
    // The driver describes it first: the session ends between Flush and Sync.
    once("left", { cut: "after" });
    await expect(clock.run(left`insert into notes (text) values (${"x"})`)).rejects.toThrow();
    await clock.run(right`insert into notes (text) values ('right')`);
    expect(await notes()).toEqual([{ text: "right" }]);
  });

  it("a frozen node hears and does nothing until it thaws", async () => {
    const [left, right] = [pool("left"), pool("right")];
    await clock.run(Promise.all([left`select 1`, right`select 1`]));
    server.freeze("left");
    const writing = left`insert into notes (text) values ('left')`.execute();
    expect(await clock.run(writing, 1_000)).toBe("pending");
    await clock.run(right`insert into notes (text) values ('right')`);
    expect(await notes()).toEqual([{ text: "right" }]);
    server.thaw("left");
    await clock.run(writing);
    expect(await notes()).toEqual([{ text: "left" }, { text: "right" }]);
  });

  it("a transaction that falls silent ends after 10 s", async () => {
    const [left, right] = [pool("left"), pool("right")];
    const silent = left.begin(async (transaction) => {
      await transaction`insert into notes (text) values ('left')`;
      await new Promise(() => {});
    });
    const failed = expect(silent).rejects.toThrow("CONNECTION_CLOSED");
    await clock.run(silent, 100);
    await clock.run(right`insert into notes (text) values ('right')`);
    expect(clock.now).toBeGreaterThan(10_000);
    await clock.run(failed);
    expect(await notes()).toEqual([{ text: "right" }]);
  });
});

describe("snapshots", () => {
  it("the database returns to one again and again, whatever happened since", async () => {
    const left = pool("left");
    await clock.run(left`insert into notes (text) values ('kept')`);
    const kept = await server.snapshot();
    for (let round = 0; round < 3; round++) {
      const changes = `
        insert into notes (text) select repeat('x', 500) || n from generate_series(1, 3000) n;
        create table more as select * from notes;
        update notes set text = text || '!';
        create function one() returns int language plpgsql as 'begin return 1; end'`;
      await clock.run(left.unsafe(changes).simple());
      for (const statement of ["checkpoint", "vacuum full notes", "select one()"]) await server.query(statement);
      await server.restore(kept);
      expect(await notes()).toEqual([{ text: "kept" }]);
      expect(await server.query("select to_regclass('more') as more, to_regproc('one') as one")).toEqual([
        { more: null, one: null },
      ]);
      await clock.run(left`select 1`.then(undefined, () => {}));
      await clock.run(left`insert into notes (text) values ('next') returning 1`);
      await clock.run(left`delete from notes where text = ${"next"}`);
    }
    await server.query("checkpoint");
    await server.query("reindex table notes");
    expect(await notes()).toEqual([{ text: "kept" }]);
  });

  it("a transaction that was open is rolled back, and its node learns of it", async () => {
    const left = pool("left");
    const slow = left.begin(async (transaction) => {
      await transaction`insert into notes (text) values (${"left"})`;
      await new Promise(() => {});
    });
    const failed = expect(slow).rejects.toThrow("CONNECTION_CLOSED");
    await clock.run(slow, 50);
    const open = await server.snapshot();
    await server.restore(open);
    await clock.run(failed);
    expect(await notes()).toEqual([]);
  });

  it("the same seed gives the same random numbers", async () => {
    const ids = async () => {
      await server.restart(fresh, new Clock());
      return server.query("select gen_random_uuid() as id, random() as number");
    };
    expect(await ids()).toEqual(await ids());
  });
});
