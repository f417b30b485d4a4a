// Who gets a slot: the functions of the database and the tickets in the commit statement, on several sessions at once.

import { describe, expect, it } from "vitest";
import { type Row, type RunCommit, type RunId, type SlotKey, slotTenant } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { encodeRun, GroupRows } from "../../src/store/engine/commit/encoding.js";
import { generalStatement } from "../../src/store/engine/commit/general.js";
import { PlainStatements } from "../../src/store/engine/commit/plain.js";
import {
  countSlots,
  dropReservation,
  grantSlots,
  isQueueFull,
  reserveSlot,
  slotQueue,
  sweepReservations,
  waitingKeys,
  workflowSlots,
} from "../../src/store/engine/slots.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import { creation, openCommitStore, update } from "./commit-rows.js";

const store = openCommitStore();
const { commit } = store;

let keys = 0;
const newKey = (): SlotKey => ({ scope: "workflow:w", key: `key "${++keys}" \\ 'x'` });

const ticket = (key: SlotKey, more: Partial<Row<"ticket">> = {}): Partial<Row<"ticket">> => ({
  ...{
    entry: 0,
    tenant_id: slotTenant(key),
    scope: key.scope,
    key: key.key,
    slot_limit: 1,
    on_limit: "queue",
    admitted: true,
  },
  ...more,
});

async function waiting(key: SlotKey, more: Partial<Row<"ticket">> = {}, runId = newRunId()): Promise<RunId> {
  await commit(creation({ runId, ticket: [ticket(key, more)] }));
  return runId;
}

const SUCCEEDED = { state: "succeeded", terminal_at: 1 };
const pausedBy = (paused_reason: string) => ({ state: "paused", paused_reason });

const end = (runId: RunId, entries: readonly number[] = [0]) =>
  commit(update(runId, 1, { ticket_gone: entries.map((entry) => ({ entry })) }, SUCCEEDED));

const told = async (key: SlotKey, room?: number) =>
  (await grantSlots(store.sql, key, room)).map(({ to, command }) => [to, command] as const);

const granted = (entry = 0) => ({ type: "slot_granted", entry });
const expire = (runId: RunId) =>
  store.sql`update concurrency_tickets set reserved_until = now() - interval '1 minute' where run_id = ${runId}`;
const ticketsOf = (key: SlotKey) => store.sql<{ run_id: RunId; granted: boolean; reserved: boolean }[]>`
  select run_id, granted_at is not null as granted, reserved_until is not null as reserved from concurrency_tickets
  where key = ${key.key} order by ticket`;

describe("granting", () => {
  it("gives free slots to those that have waited longest, and tells each once, durably", async () => {
    const key = newKey();
    const runs = [
      await waiting(key, { slot_limit: 2 }),
      await waiting(key, { slot_limit: 2 }),
      await waiting(key, { slot_limit: 2 }),
    ];
    const [one, two, three] = runs as [RunId, RunId, RunId];
    expect(await told(key)).toEqual([
      [one, granted()],
      [two, granted()],
    ]);
    expect(await told(key)).toEqual([]);
    expect((await store.rows(one)).inbox).toMatchObject([{ command: granted(), tries: 0 }]);
    await end(two);
    expect(await told(key)).toEqual([[three, granted()]]);
  });

  it("grants each slot once, however many sessions ask at once", async () => {
    const key = newKey();
    const runs: RunId[] = [];
    for (let nth = 0; nth < 30; nth++) runs.push(await waiting(key, { slot_limit: 3 }));
    for (let round = 0; round < 10; round++) {
      const news = (await Promise.all(Array.from({ length: 6 }, () => grantSlots(store.sql, key)))).flat();
      expect(news.map(({ to }) => to).sort()).toEqual(runs.slice(round * 3, round * 3 + 3).sort());
      await Promise.all(news.map(({ to }) => end(to)));
    }
    expect(await ticketsOf(key)).toEqual([]);
  });

  it("works in bounded portions: grants, cancels and refusals", async () => {
    const fill = (key: SlotKey, limit: number, onLimit: string, admitted = true) => store.sql`
      insert into concurrency_tickets (run_id, entry, shard, tenant_id, scope, key, slot_limit, on_limit, admitted)
      select gen_random_uuid(), 1, 0, ${slotTenant(key)}, ${key.scope}, ${key.key}, ${limit}, ${onLimit}, ${admitted}
      from generate_series(1, 450)`;
    const portions = async (key: SlotKey, room?: number) => {
      const sizes: number[] = [];
      for (let nth = 0; nth < 4; nth++) sizes.push((await grantSlots(store.sql, key, room)).length);
      return sizes;
    };
    const [wide, full, refused, old] = [newKey(), newKey(), newKey(), newKey()];
    await fill(wide, 1_000, "queue");
    expect(await portions(wide)).toEqual([200, 200, 50, 0]);
    await fill(full, 1, "queue", false);
    expect(await portions(full, 9)).toEqual([1 + 200, 200, 40, 0]);
    await fill(refused, 1, "refuse");
    expect(await portions(refused)).toEqual([1 + 200, 200, 49, 0]);
    await fill(old, 1, "cancel_oldest");
    expect(await portions(old)).toEqual([200, 200, 49 + 1, 0]);
    await store.sql`delete from concurrency_tickets`;
    await store.sql`delete from inbox`;
  });

  it("does not wait for a commit that removes a ticket", async () => {
    const key = newKey();
    const [leaving, next] = [await waiting(key), await waiting(key)];
    const session = store.session();
    await session.sql.begin(async (transaction) => {
      await transaction`delete from concurrency_tickets where run_id = ${leaving}`;
      expect(await told(key)).toEqual([[next, granted()]]);
    });
    await session.close();
    expect(await ticketsOf(key)).toEqual([{ run_id: next, granted: true, reserved: false }]);
  });

  it("goes by the limit of the ticket at the head, so a new version of a workflow may change it", async () => {
    const key = newKey();
    const [one, two, three] = [
      await waiting(key),
      await waiting(key, { slot_limit: 2 }),
      await waiting(key, { slot_limit: 2 }),
    ];
    expect(await told(key)).toEqual([
      [one, granted()],
      [two, granted()],
    ]);
    await end(one);
    expect(await told(key)).toEqual([[three, granted()]]);
  });

  it.each(["operator", "quarantine"])(
    "passes over those that are paused for the reason %s, which keep their places",
    async (pausedReason) => {
      const key = newKey();
      const [one, two, three] = [await waiting(key), await waiting(key), await waiting(key)];
      const halt = (runId: RunId, revision: number, reason: string) =>
        commit(update(runId, revision, {}, pausedBy(reason)));
      await halt(one, 1, pausedReason);
      await halt(two, 1, "concurrency");
      expect(await waitingKeys(store.sql, { ...key, key: key.key.slice(0, -1) }, 1)).toMatchObject([{ due: true }]);
      expect(await told(key)).toEqual([[two, granted()]]);
      expect(await slotQueue(store.sql, EVERYTHING, three, 0)).toMatchObject({ ahead: 0 });
      await halt(three, 1, pausedReason);
      await commit(update(two, 2, { ticket_gone: [{ entry: 0 }] }, SUCCEEDED));
      expect(await told(key)).toEqual([]);
      expect(await waitingKeys(store.sql, { ...key, key: key.key.slice(0, -1) }, 1)).toMatchObject([{ due: false }]);
      for (const id of [three, one]) await halt(id, 2, "concurrency");
      expect(await told(key)).toEqual([[one, granted()]]);
    },
  );

  it("a slot that is given back goes to the next one, and its ticket keeps its place", async () => {
    const key = newKey();
    const [one, two] = [await waiting(key), await waiting(key)];
    expect(await told(key)).toEqual([[one, granted()]]);
    await commit(update(one, 7, { ticket_returned: [{ entry: 0 }] }));
    expect(await told(key)).toEqual([]);
    await commit(update(one, 1, { ticket_returned: [{ entry: 0 }] }, pausedBy("operator")));
    expect(await told(key)).toEqual([[two, granted()]]);
    await commit(update(one, 2, {}, pausedBy("concurrency")));
    await end(two);
    expect(await told(key)).toEqual([[one, granted()]]);
  });

  it("grants a ticket that may be refused although its run is paused: it has no place to keep", async () => {
    const key = newKey();
    const one = await waiting(key, { on_limit: "refuse" });
    await commit(update(one, 1, {}, pausedBy("operator")));
    expect(await told(key)).toEqual([[one, granted()]]);
  });

  it("a group without slots has no part for them in its statement", () => {
    const textsOf = (commit: RunCommit) =>
      [(rows: GroupRows) => new PlainStatements().of(rows), generalStatement].map(
        (form) => form(new GroupRows([encodeRun(commit)]))?.text,
      );
    for (const text of textsOf(creation())) expect(text).not.toContain("concurrency_tickets");
    for (const text of textsOf(creation({ ticket: [ticket(newKey())] }))) expect(text).toContain("concurrency_tickets");
  });

  it("a lost commit leaves no ticket, and a run that has ended gives none back twice", async () => {
    const key = newKey();
    const runId = await waiting(key);
    await commit(update(runId, 7, { ticket: [ticket(key, { entry: 3 })] }));
    await commit(update(runId, 7, { ticket_gone: [{ entry: 0 }] }));
    expect(await ticketsOf(key)).toHaveLength(1);
    await end(runId);
    await commit(update(runId, 2, { ticket: [ticket(key, { entry: 3 })] }));
    expect(await ticketsOf(key)).toEqual([]);
  });
});

describe("a bounded queue", () => {
  it("refuses those beyond it, from the end, but none that was accepted with its start", async () => {
    const key = newKey();
    const [holder, one] = [await waiting(key), await waiting(key)];
    expect(await told(key)).toEqual([[holder, granted()]]);
    const late = await waiting(key, { entry: 4, admitted: false });
    const accepted = await waiting(key);
    expect(await told(key)).toEqual([]);
    expect(await told(key, 1)).toEqual([[late, { type: "slot_refused", entry: 4, reason: "full" }]]);
    expect((await ticketsOf(key)).map(({ run_id }) => run_id)).toEqual([holder, one, accepted]);
    expect([await isQueueFull(store.sql, key, 2), await isQueueFull(store.sql, key, 3)]).toEqual([true, false]);
  });
});

describe("reservations", () => {
  it("count as taken until their start is committed, which keeps them, or is not", async () => {
    const key = newKey();
    const [one, two] = [newRunId(), newRunId()];
    expect(await reserveSlot(store.sql, key, 1, one)).toBe(true);
    expect(await reserveSlot(store.sql, key, 1, one), "again, for the same start").toBe(true);
    expect(await reserveSlot(store.sql, key, 1, two)).toBe(false);
    expect(await told(key)).toEqual([]);
    await waiting(key, { on_limit: "refuse" }, one);
    expect(await told(key)).toEqual([[one, granted()]]);
    expect(await reserveSlot(store.sql, key, 1, two)).toBe(false);
    await dropReservation(store.sql, one);
    expect(await ticketsOf(key), "only a reservation is dropped").toHaveLength(1);
    await end(one);
    expect(await reserveSlot(store.sql, key, 1, two)).toBe(true);
    await dropReservation(store.sql, two);
    expect(await ticketsOf(key)).toEqual([]);
  });

  it("one that has expired is void: for other starts, for those who wait, and for the sweep", async () => {
    const key = newKey();
    const lost = [newRunId(), newRunId(), newRunId()] as const;
    expect(await reserveSlot(store.sql, key, 1, lost[0])).toBe(true);
    await expire(lost[0]);
    expect(await reserveSlot(store.sql, key, 1, lost[1])).toBe(true);
    await expire(lost[1]);
    const next = await waiting(key);
    expect(await told(key)).toEqual([[next, granted()]]);
    await end(next);
    expect(await reserveSlot(store.sql, key, 1, lost[2])).toBe(true);
    await expire(lost[2]);
    await sweepReservations(store.sql);
    expect(await ticketsOf(key)).toEqual([]);
  });

  it("a start that comes later than its reservation never exceeds the limit", async () => {
    const key = newKey();
    const [slow, quick] = [newRunId(), newRunId()];
    expect(await reserveSlot(store.sql, key, 1, slow)).toBe(true);
    await expire(slow);
    expect(await reserveSlot(store.sql, key, 1, quick)).toBe(true);
    await waiting(key, { on_limit: "refuse" }, quick);
    await waiting(key, { on_limit: "refuse" }, slow);
    expect(await told(key)).toEqual([
      [quick, granted()],
      [slow, { type: "slot_refused", entry: 0, reason: "refused" }],
    ]);
  });

  it("of starts at the same moment, as many are accepted as there are slots", async () => {
    const key = newKey();
    let reserving: Promise<boolean>[] = [];
    await store.sql.begin(async (sql) => {
      await sql`select lock_slot_key(${key.scope}, ${key.key}, ${slotTenant(key)})`;
      reserving = Array.from({ length: 6 }, () => reserveSlot(store.sql, key, 3, newRunId()));
      const waiting = () => store.sql`
        select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      await until(async () => (await waiting()).length === reserving.length, { what: "all of them, waiting" });
    });
    expect((await Promise.all(reserving)).filter(Boolean)).toHaveLength(3);
  });
});

describe("cancel_oldest", () => {
  it("cancels all but the newest, each once, and grants when the slot is free", async () => {
    const key = newKey();
    const one = await waiting(key, { on_limit: "cancel_oldest" });
    expect(await told(key)).toEqual([[one, granted()]]);
    const [two, three] = [
      await waiting(key, { on_limit: "cancel_oldest" }),
      await waiting(key, { on_limit: "cancel_oldest" }),
    ];
    const cancelled = expect.objectContaining({ type: "cancel", compensate: true });
    expect((await told(key)).sort()).toEqual(
      [
        [one, cancelled],
        [two, cancelled],
      ].sort(([left], [right]) => ((left as string) < (right as string) ? -1 : 1)),
    );
    expect(await told(key)).toEqual([]);
    await end(two);
    expect(await told(key), "the first still undoes what it has done").toEqual([]);
    await end(one);
    expect(await told(key)).toEqual([[three, granted()]]);
  });
});

describe("what is known of slots", () => {
  it("the poll finds the keys that wait, page by page, and those with a free slot", async () => {
    await store.sql`delete from concurrency_tickets`;
    const [free, taken, reserved] = [newKey(), newKey(), newKey()];
    for (const key of [free, taken]) await waiting(key);
    await told(taken);
    await waiting(taken);
    await waiting(taken);
    await reserveSlot(store.sql, reserved, 1, newRunId());
    const seen = [];
    let after: SlotKey | undefined;
    for (let page = 0; page < 4; page++) {
      const found = await waitingKeys(store.sql, after, 1);
      seen.push(...found);
      after = found.at(-1) ?? after;
    }
    expect(seen.map(({ key, due }) => [key, due]).sort()).toEqual(
      [
        [free.key, true],
        [taken.key, false],
        [reserved.key, false],
      ].sort(),
    );
    expect(await waitingKeys(store.sql, undefined, 10)).toHaveLength(3);
  });

  it("counts slots, those of a workflow, and those that have leaked", async () => {
    await store.sql`delete from concurrency_tickets`;
    const key = { scope: "workflow:counted", key: "a" };
    const [one] = [await waiting(key), await waiting(key)];
    await told(key);
    expect(await countSlots(store.sql)).toEqual({ held: 1, waiting: 1, leaked: 0 });
    expect(await workflowSlots(store.sql, EVERYTHING, "counted")).toEqual({ held: 1, waiting: 1 });
    await reserveSlot(store.sql, newKey(), 1, newRunId());
    expect(await countSlots(store.sql), "a reservation is no leak").toMatchObject({ leaked: 0 });
    await end(one, []);
    expect(await countSlots(store.sql)).toMatchObject({ leaked: 1 });
  });

  it("tells one that waits who is before it, and who has the slots", async () => {
    const key = newKey();
    const [one, two, three] = [await waiting(key), await waiting(key), await waiting(key)];
    await told(key);
    expect(await slotQueue(store.sql, EVERYTHING, one, 0), "it does not wait").toBeUndefined();
    expect(await slotQueue(store.sql, EVERYTHING, two, 0)).toEqual({ ahead: 0, limit: 1, holders: [one] });
    expect(await slotQueue(store.sql, EVERYTHING, three, 0)).toEqual({ ahead: 1, limit: 1, holders: [one] });
  });
});

describe("granting in turn", () => {
  /** Waiting tickets of a key, one commit each. */
  const waitingFor = async (key: SlotKey, many: number, precedence?: Row<"ticket">["precedence"], limit = 1) => {
    const runs: RunId[] = [];
    for (let nth = 0; nth < many; nth++) runs.push(await waiting(key, { slot_limit: limit, precedence }));
    return runs;
  };
  /** Who has the slots, one after the other, each given back at once. */
  const next = async (key: SlotKey, many: number) => {
    const got: RunId[] = [];
    while (got.length < many) {
      const news = await grantSlots(store.sql, key);
      if (news.length === 0) break;
      for (const { to } of news) {
        got.push(to);
        await end(to);
      }
    }
    return got;
  };
  const shares = (got: readonly RunId[], groups: Readonly<Record<string, readonly RunId[]>>) =>
    Object.fromEntries(
      Object.entries(groups).map(([name, runs]) => [name, got.filter((run) => runs.includes(run)).length]),
    );

  it("gives the levels of priority their turns in the ratio 16 : 8 : 4 : 2 : 1, and of a level first to the oldest", async () => {
    const key = newKey();
    const groups: Record<string, RunId[]> = {};
    for (const priority of [5, 4, 2, 1]) groups[priority] = await waitingFor(key, 40 / priority, { priority });
    groups[3] = await waitingFor(key, 8);
    const got = await next(key, 31);
    expect(shares(got, groups)).toEqual({ 1: 16, 2: 8, 3: 4, 4: 2, 5: 1 });
    expect(got.filter((run) => groups[1]?.includes(run))).toEqual(groups[1]?.slice(0, 16));
    expect((await next(key, 200)).length, "no ticket is left").toBe(40 + 20 + 10 + 8 + 8 - 31);
    expect(await ticketsOf(key)).toEqual([]);
  });

  it("gives the fairness keys of a level their turns by weight, with one slot as with several", async () => {
    for (const limit of [1, 3]) {
      const key = newKey();
      const many = await waitingFor(key, 30, { key: "many" }, limit);
      const heavy = await waitingFor(key, 24, { key: "heavy", weight: 3 }, limit);
      const plain = await waitingFor(key, 10, undefined, limit);
      const got = await next(key, 30);
      expect(shares(got, { many, heavy, plain })).toEqual({ many: 6, heavy: 18, plain: 6 });
      expect(got.filter((run) => many.includes(run))).toEqual(many.slice(0, 6));
      await next(key, 200);
    }
  });

  it("a key that always has one waiting gets no more than its share", async () => {
    const key = newKey();
    const patient = await waitingFor(key, 30, { key: "patient" });
    const quick: RunId[] = [];
    let own = 0;
    for (let nth = 0; nth < 20; nth++) {
      if (own === quick.length) quick.push(...(await waitingFor(key, 1, { key: "quick" })));
      const got = await next(key, 1);
      own += got.filter((run) => quick.includes(run)).length;
      expect([...patient, ...quick]).toEqual(expect.arrayContaining(got));
    }
    // Each time it joins behind the one whose turn is next, by one turn of its own: it has a third or more, and never more than half.
    expect(own).toBeGreaterThanOrEqual(6);
    expect(own).toBeLessThanOrEqual(10);
    await next(key, 200);
  });

  it("counts as ahead those of the same or a higher priority that have waited longer", async () => {
    const key = newKey();
    const [holder, low] = [await waiting(key), await waiting(key, { precedence: { priority: 5 } })];
    await next(key, 0);
    expect((await grantSlots(store.sql, key)).map(({ to }) => to)).toEqual([holder]);
    const [usual, high] = [await waiting(key), await waiting(key, { precedence: { priority: 1, key: "k" } })];
    const ahead = async (runId: RunId) => (await slotQueue(store.sql, EVERYTHING, runId, 0))?.ahead;
    expect([await ahead(low), await ahead(usual), await ahead(high)]).toEqual([0, 0, 0]);
    const last = await waiting(key, { precedence: { priority: 5 } });
    expect(await ahead(last)).toBe(3);
    await end(holder);
    expect(await next(key, 9)).toEqual([high, usual, low, last]);
  });

  it("does not wait for a commit that removes the ticket whose turn it is", async () => {
    const key = newKey();
    const [leaving, following] = [await waiting(key, { precedence: { priority: 1 } }), await waiting(key)];
    const session = store.session();
    await session.sql.begin(async (transaction) => {
      await transaction`delete from concurrency_tickets where run_id = ${leaving}`;
      expect(await told(key)).toEqual([[following, granted()]]);
    });
    await session.close();
  });
});
