// The token bucket of the database: who has its turn when. Held against a model that knows no bucket: it looks at all windows of all turns.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Rate, type Row, type RunId, type SlotKey, slotTenant } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import {
  countTurns,
  giveTurns,
  isTurnQueueFull,
  openTurnKeys,
  sweepBuckets,
  turnQueue,
  workflowTurns,
} from "../../src/store/engine/turns.js";
import { newRunId } from "../harness/ids.js";
import { creation, openCommitStore, update } from "./commit-rows.js";

const store = openCommitStore();
const { commit } = store;

let keys = 0;
const newKey = (): SlotKey => ({ scope: "workflow:w", key: `rate "${++keys}" \\ 'x'` });
const SLOW: Rate = { limit: 1, perMs: 86_400_000, burst: 1 };

const asking = (
  key: SlotKey,
  { limit, perMs, burst }: Rate,
  more: Partial<Row<"turn">> = {},
): Partial<Row<"turn">> => ({
  ...{ entry: 0, tenant_id: slotTenant(key), scope: key.scope, key: key.key, admitted: true },
  ...{ rate_limit: limit, per_ms: String(perMs), burst, ...more },
});

/** A run that asks for its turn with its start. */
async function ask(key: SlotKey, rate: Rate, more: Partial<Row<"turn">> = {}): Promise<RunId> {
  const runId = newRunId();
  await commit(creation({ runId, turn: [asking(key, rate, more)] }));
  return runId;
}

interface Given {
  readonly run_id: RunId;
  /** Microseconds. */
  readonly at: number;
}

const now = async () => {
  const [row] = await store.sql`select (extract(epoch from clock_timestamp()) * 1000000)::bigint::float8 as now`;
  return row?.now as number;
};
const ticketsOf = (key: SlotKey) => store.sql<Given[]>`
  select run_id, at_us::float8 as at from rate_tickets where key = ${key.key} and not returned order by ticket`;
const bucketOf = (key: SlotKey) =>
  store.sql`select step_us::float8 as step, burst from rate_buckets where key = ${key.key}`;
const giveBack = (runId: RunId) => store.sql`update rate_tickets set returned = true where run_id = ${runId}`;
const take = (runId: RunId) => store.sql`delete from rate_tickets where run_id = ${runId}`;
/** The time passes: all that the key knows is as much older. */
async function age(key: SlotKey, us: number): Promise<void> {
  await store.sql`update rate_tickets set at_us = at_us - ${us}, before_us = before_us - ${us}, after_us = after_us - ${us} where key = ${key.key}`;
  await store.sql`update rate_buckets set full_us = full_us - ${us} where key = ${key.key}`;
}

const told = async (key: SlotKey, room = 10_000) =>
  (await giveTurns(store.sql, key, room)).map(({ to, command }) => [to, command.type] as const);

/** A token is taken at once. */
async function use(key: SlotKey, rate: Rate): Promise<void> {
  const runId = await ask(key, rate);
  await told(key);
  await take(runId);
}

/** The turns that a test has seen, on a clock that goes on with `age`. */
class Model {
  private past = 0;
  /** Those that count, in the order in which they were asked for: used, awaited, or given back between two others. */
  readonly turns: { readonly runId: RunId; readonly at: number; state: "awaited" | "used" | "back" }[] = [];

  constructor(
    private readonly key: SlotKey,
    private readonly rate: Rate,
  ) {}

  private get step(): number {
    return Math.ceil((this.rate.perMs * 1_000) / this.rate.limit);
  }

  /** The first moment that no window forbids, and at which no earlier ask is overtaken. */
  private next(): number {
    const { turns, step } = this;
    const { burst } = this.rate;
    const free = turns.map(({ at }, nth) => at + (turns.length - nth + 1 - burst) * step);
    return Math.max(Number.NEGATIVE_INFINITY, ...free, turns.at(-1)?.at ?? Number.NEGATIVE_INFINITY);
  }

  async ask(count: number): Promise<void> {
    const asked: RunId[] = [];
    for (let nth = 0; nth < count; nth++) {
      const runId = newRunId();
      asked.push(runId);
      const { limit, perMs, burst } = this.rate;
      await store.sql`insert into rate_tickets (run_id, entry, shard, tenant_id, scope, key, rate_limit, per_ms, burst, admitted)
        values (${runId}, 0, 0, ${slotTenant(this.key)}, ${this.key.scope}, ${this.key.key}, ${limit}, ${perMs}, ${burst}, true)`;
    }
    const since = (await now()) + this.past;
    await told(this.key);
    const until = (await now()) + this.past;
    const stored = new Map((await ticketsOf(this.key)).map(({ run_id, at }) => [run_id, at + this.past]));
    for (const { runId, at, state } of this.turns)
      if (state === "awaited") expect(stored.get(runId), "a turn that was given stays").toBe(at);
    for (const runId of asked) {
      const at = stored.get(runId) as number;
      const next = this.next();
      if (next > until) expect(at, "the next token").toBe(next);
      else {
        expect(at, "not before the token").toBeGreaterThanOrEqual(Math.max(next, since));
        expect(at, "at once").toBeLessThanOrEqual(until);
      }
      this.turns.push({ runId, at, state: "awaited" });
    }
  }

  /** The first ones whose turn has come are used. */
  async use(count: number): Promise<void> {
    const moment = (await now()) + this.past;
    const due = this.turns.filter(({ state, at }) => state === "awaited" && at <= moment).slice(0, count);
    for (const turn of due) {
      await take(turn.runId);
      turn.state = "used";
    }
  }

  async giveBack(which: number): Promise<void> {
    const awaited = this.turns.filter(({ state }) => state === "awaited");
    const turn = awaited[which % Math.max(1, awaited.length)];
    if (!turn) return;
    await giveBack(turn.runId);
    turn.state = "back";
    await told(this.key);
    while (this.turns.at(-1)?.state === "back") this.turns.pop();
  }

  async wait(steps: number): Promise<void> {
    const us = Math.round(steps * this.step);
    await age(this.key, us);
    this.past += us;
    await sweepBuckets(store.sql, undefined);
  }

  /** No window has more than the bucket allows. */
  check(): void {
    const used = this.turns.filter(({ state }) => state !== "back").map(({ at }) => at);
    for (const [from, one] of used.entries())
      for (const [to, other] of used.entries())
        if (to >= from)
          expect(to - from + 1, "in a window").toBeLessThanOrEqual(this.rate.burst + (other - one) / this.step + 1e-6);
  }
}

const move = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(fc.constant("ask" as const), fc.integer({ min: 1, max: 5 })) },
  { weight: 2, arbitrary: fc.tuple(fc.constant("use" as const), fc.integer({ min: 1, max: 4 })) },
  { weight: 3, arbitrary: fc.tuple(fc.constant("giveBack" as const), fc.nat(20)) },
  { weight: 3, arbitrary: fc.tuple(fc.constant("wait" as const), fc.double({ min: 0, max: 6, noNaN: true })) },
);
const rates = fc.record({
  limit: fc.integer({ min: 1, max: 7 }),
  perMs: fc.constantFrom(60_000, 86_400_000, 2_678_400_000),
  burst: fc.integer({ min: 1, max: 5 }),
});

describe("a token bucket", () => {
  it("gives each the first moment that no window forbids, in the order of the asks, and keeps it", async () => {
    await fc.assert(
      fc.asyncProperty(rates, fc.array(move, { minLength: 3, maxLength: 25 }), async (rate, moves) => {
        const model = new Model(newKey(), rate);
        for (const [what, much] of moves) await model[what](much);
        model.check();
        await store.sql`delete from rate_tickets`;
        await store.sql`delete from inbox`;
      }),
      { numRuns: 60 },
    );
  }, 120_000);

  it("tells each its turn once, durably, in milliseconds that are not before the token", async () => {
    const key = newKey();
    const third = { limit: 3, perMs: 1_000, burst: 1 };
    const [one, two] = [await ask(key, third), await ask(key, third)];
    expect(await told(key)).toEqual([
      [one, "turn_given"],
      [two, "turn_given"],
    ]);
    expect(await told(key)).toEqual([]);
    const [first, second] = (await ticketsOf(key)) as unknown as [Given, Given];
    expect(second.at - first.at).toBe(333_334);
    const [row] = (await store.rows(two)).inbox as { command: { type: string; entry: number; at: number } }[];
    expect(row?.command).toMatchObject({ type: "turn_given", entry: 0 });
    expect((row?.command.at ?? 0) * 1_000 - second.at).toBeGreaterThanOrEqual(0);
    expect((row?.command.at ?? 0) * 1_000 - second.at).toBeLessThan(1_000);
  });

  it("counts each token once, however many sessions ask at once", async () => {
    const key = newKey();
    const rate = { limit: 2, perMs: 3_600_000, burst: 3 };
    for (let nth = 0; nth < 12; nth++) await ask(key, rate);
    await Promise.all(Array.from({ length: 6 }, () => giveTurns(store.sql, key, 100)));
    const at = (await ticketsOf(key)).map((ticket) => ticket.at);
    const start = at[0] as number;
    // The bucket fills between the first and the third token, too.
    expect(at.slice(0, 3).every((each) => each === start)).toBe(true);
    expect(at.slice(3)).toEqual(at.slice(3).map((_, nth) => start + (nth + 1) * 1_800_000_000));
  });

  it("serves one in a day and a thousand in a second", async () => {
    const [slow, fast] = [newKey(), newKey()];
    for (let nth = 0; nth < 3; nth++) await ask(slow, SLOW);
    await told(slow);
    const days = (await ticketsOf(slow)).map(({ at }) => at);
    expect(days.map((at) => at - (days[0] as number))).toEqual([0, 86_400_000_000, 2 * 86_400_000_000]);
    for (let nth = 0; nth < 4; nth++) await ask(fast, { limit: 1_000, perMs: 1_000, burst: 2 });
    await told(fast);
    const ms = (await ticketsOf(fast)).map(({ at }) => at);
    expect(ms.map((at) => at - (ms[0] as number))).toEqual([0, 0, 1_000, 2_000]);
  });

  it("works in bounded portions, and so do those that are given back", async () => {
    const key = newKey();
    await store.sql`
      insert into rate_tickets (run_id, entry, shard, tenant_id, scope, key, rate_limit, per_ms, burst, admitted)
      select gen_random_uuid(), 1, 0, ${slotTenant(key)}, ${key.scope}, ${key.key}, 1, 60000, 1, true from generate_series(1, 450)`;
    const sizes: number[] = [];
    for (let nth = 0; nth < 4; nth++) sizes.push((await told(key)).length);
    expect(sizes).toEqual([200, 200, 50, 0]);
    await store.sql`update rate_tickets set returned = true where key = ${key.key} and at_us > (select min(at_us) from rate_tickets where key = ${key.key})`;
    for (let nth = 0; nth < 3; nth++) await told(key);
    const [first] = (await ticketsOf(key)) as unknown as [Given];
    const next = await ask(key, { limit: 1, perMs: 60_000, burst: 1 });
    await told(key);
    expect(await ticketsOf(key)).toMatchObject([first, { run_id: next, at: first.at + 60_000_000 }]);
    await store.sql`delete from rate_tickets`;
    await store.sql`delete from inbox`;
  });

  it("does not wait for a commit that takes a turn", async () => {
    const key = newKey();
    const [leaving, next] = [await ask(key, SLOW), await ask(key, SLOW)];
    await store.sql.begin(async (transaction) => {
      await transaction`delete from rate_tickets where run_id = ${leaving}`;
      expect(await told(key)).toEqual([[next, "turn_given"]]);
    });
  });

  it("keeps the turns that were given when a version has another rate, and the tokens that are missing", async () => {
    const key = newKey();
    const runs = [await ask(key, SLOW), await ask(key, SLOW)];
    await told(key);
    const [first, second] = (await ticketsOf(key)) as unknown as [Given, Given];
    const hourly = { limit: 1, perMs: 3_600_000, burst: 4 };
    const third = await ask(key, hourly);
    await told(key);
    expect(await ticketsOf(key)).toMatchObject([first, second, { run_id: third, at: second.at + 3_600_000_000 }]);
    for (const runId of [...runs, third]) await giveBack(runId);
    const used = newKey();
    await use(used, SLOW);
    const after = [await ask(used, hourly), await ask(used, hourly), await ask(used, hourly), await ask(used, hourly)];
    await told(used);
    const at = (await ticketsOf(used)).map((ticket) => ticket.at);
    expect(
      at.slice(0, 3).every((each) => each === at[0]),
      "three of four tokens are there",
    ).toBe(true);
    expect((at[3] as number) - (at[0] as number)).toBeGreaterThan(3_590_000_000);
    for (const runId of after) await giveBack(runId);
    // And back: at most all tokens of the smaller bucket are missing.
    for (let nth = 0; nth < 4; nth++) await use(used, hourly);
    const slow = await ask(used, SLOW);
    await told(used);
    const [last] = (await ticketsOf(used)) as unknown as [Given];
    expect(last.run_id).toBe(slow);
    expect(last.at - (await now())).toBeLessThanOrEqual(86_400_000_000);
  });

  it("recovers from a clock that was ahead: no used token is missing for longer than it takes to fill the bucket", async () => {
    const key = newKey();
    await use(key, SLOW);
    await age(key, -365 * 86_400_000_000);
    await ask(key, SLOW);
    await told(key);
    const [next] = (await ticketsOf(key)) as unknown as [Given];
    expect(next.at - (await now())).toBeLessThanOrEqual(86_400_000_000);
  });
});

describe("the queue for turns", () => {
  it("is bounded: those over it are refused, but for starts that were accepted", async () => {
    const key = newKey();
    const late = { admitted: false };
    const runs = [await ask(key, SLOW), await ask(key, SLOW, late), await ask(key, SLOW, late), await ask(key, SLOW)];
    const verdicts = ["turn_given", "turn_given", "turn_refused", "turn_given"];
    expect(await isTurnQueueFull(store.sql, key, 4)).toBe(true);
    expect(await isTurnQueueFull(store.sql, key, 5)).toBe(false);
    expect(await told(key, 1)).toEqual(runs.map((runId, nth) => [runId, verdicts[nth]]));
    expect(await ticketsOf(key)).toHaveLength(3);
    expect(await isTurnQueueFull(store.sql, key, 2)).toBe(true);
    expect(await isTurnQueueFull(store.sql, key, 3), "the first one has its turn now").toBe(false);
    const fresh = newKey();
    const first = await ask(fresh, SLOW, late);
    expect(await told(fresh, 1), "one that need not wait is not refused").toEqual([[first, "turn_given"]]);
  });

  it("is counted, of a key, of a workflow and in all", async () => {
    await store.sql`delete from rate_tickets`;
    const key = { scope: `workflow:counted-${++keys}`, key: "k" };
    const runs = [await ask(key, SLOW), await ask(key, SLOW), await ask(key, SLOW)];
    const [, two, three] = runs as [RunId, RunId, RunId];
    expect(await turnQueue(store.sql, EVERYTHING, three, 0)).toEqual({ ahead: 2 });
    await told(key);
    expect(await turnQueue(store.sql, EVERYTHING, three, 0), "the first one has its turn").toEqual({ ahead: 1 });
    expect(await turnQueue(store.sql, EVERYTHING, two, 0)).toEqual({ ahead: 0 });
    expect(await turnQueue(store.sql, EVERYTHING, newRunId(), 0)).toBeUndefined();
    expect(await countTurns(store.sql)).toEqual({ waiting: 2, leaked: 0 });
    expect(await workflowTurns(store.sql, EVERYTHING, key.scope.slice("workflow:".length))).toBe(2);
    await commit(update(two, 1, {}, { state: "cancelled", terminal_at: 1 }));
    expect(await countTurns(store.sql)).toEqual({ waiting: 2, leaked: 1 });
    await store.sql`update rate_tickets set returned = true where run_id = ${two}`;
    expect(await countTurns(store.sql)).toEqual({ waiting: 1, leaked: 0 });
  });

  it("keys with something to do are found however many wait, and a lost commit asks for nothing", async () => {
    await store.sql`delete from rate_tickets`;
    const [quiet, open, back] = [newKey(), newKey(), newKey()];
    await ask(quiet, SLOW);
    const leaving = await ask(back, SLOW);
    for (const key of [quiet, back]) await told(key);
    await ask(open, SLOW);
    await commit(update(leaving, 1, { turn_returned: [{ entry: 0 }] }));
    const found = await openTurnKeys(store.sql, undefined, 10);
    expect(found).toEqual([open, back].map((key) => ({ ...key, due: true })));
    expect(await openTurnKeys(store.sql, found[0], 10)).toEqual(found.slice(1));
    expect(await openTurnKeys(store.sql, undefined, 1)).toEqual(found.slice(0, 1));
    const runId = newRunId();
    await commit(creation({ runId }));
    await commit(update(runId, 7, { turn: [asking(quiet, SLOW, { entry: 3 })] }));
    expect(await ticketsOf(quiet)).toHaveLength(1);
  });

  it("one that asks anew is behind those that have asked since", async () => {
    const key = newKey();
    const [one, two] = [await ask(key, SLOW), await ask(key, SLOW)];
    await commit(update(one, 1, { turn: [asking(key, SLOW)] }));
    expect((await ticketsOf(key)).map(({ run_id }) => run_id)).toEqual([two, one]);
  });

  it("buckets that are full again are removed, and others stay", async () => {
    const [full, missing] = [newKey(), newKey()];
    for (const key of [full, missing]) {
      await ask(key, SLOW);
      await told(key);
    }
    await age(full, 2 * 86_400_000_000);
    while (await sweepBuckets(store.sql, undefined));
    expect([await bucketOf(full), await bucketOf(missing)]).toEqual([[], [{ step: expect.any(Number), burst: 1 }]]);
  });
});
