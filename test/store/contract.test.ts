// The contract of a store, kept by Postgres and by the store in memory that rehearsals and simulations run on: the same commits win, leave the
// same rows, and are read back as the same runs and facts.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Relation, type Row, type RunCommit, type RunId, startKey } from "../../machines/index.js";
import type { Tables } from "../../machines/memory/tables.js";
import { uuidv7 } from "../../src/ids.js";
import { announceTo, leaseDueEvents } from "../../src/store/engine/announcements.js";
import { PlainStatements } from "../../src/store/engine/commit/plain.js";
import { keyedRun, namedRun } from "../../src/store/engine/family.js";
import { repeatedAnswer } from "../../src/store/engine/load.js";
import { grantSlots } from "../../src/store/engine/slots.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import {
  AT,
  command,
  confirmation,
  creation,
  event,
  newRunRow,
  type Share,
  signal,
  update,
  variables,
  wake,
} from "./commit-rows.js";
import { BothStores, TABLE_NAMES } from "./contract.js";

let database: TestDatabase;
let stores: BothStores;

beforeAll(async () => {
  database = await createTestDatabase();
});
beforeEach(async () => {
  stores = new BothStores(database);
  stores.now = AT;
  await stores.empty();
});
afterAll(() => database.drop());

/** A run at revision 1, in both stores. */
async function created(row: Partial<Row<"new_run">> = {}, share: Share = {}): Promise<RunId> {
  const commit = creation(share, row);
  expect(await stores.commit(commit)).toEqual(new Set([commit.runId]));
  return commit.runId;
}

const [TENANT, OTHER, THIRD] = [uuidv7(), uuidv7(), uuidv7()];
const OWNED = { tenant_id: TENANT };
const TENANTS = [OTHER, TENANT].join(",");
const OTHERS = [OTHER, THIRD].join(",");

const WAITING = { state: "paused", awaited_signal: "go", paused_reason: "signal" };
/** A run at revision 2 that waits for the signal `go`. */
async function waiter(row: Partial<Row<"new_run">> = {}, more: Partial<Row<"run_update">> = {}): Promise<RunId> {
  const runId = await created(row);
  await stores.commit(update(runId, 1, {}, { ...WAITING, ...more }));
  return runId;
}

const REFUND = { step_id: "s", action: "shop.refund@1", inputs: {}, forward_key: "k", state: "owed" };
const TICKET = {
  ...{ entry: 1, step_id: "s", tenant_id: uuidv7(), scope: "action:shop.pay", key: "k" },
  ...{ slot_limit: 1, on_limit: "queue", admitted: false },
};
const TURN = {
  ...{ entry: 1, step_id: "s", tenant_id: uuidv7(), scope: "action:shop.pay", key: "k" },
  ...{ rate_limit: 1, per_ms: "1000", burst: 1, admitted: false },
};
const id = uuidv7();
const at = AT + 9;

/** What a relation does: the rows of two commits, and a table that the second one changes. */
interface Case {
  readonly given?: Share | ((run: RunId) => Share);
  readonly write: (run: RunId, other: RunId) => Share;
  readonly row?: Partial<Row<"run_update">>;
  readonly changes: keyof Tables | "nothing";
}

/** A relation without its case does not compile. */
const RELATION_CASES: { readonly [Of in Relation]: Case } = {
  run_update: {
    write: () => ({}),
    row: { ...WAITING, step: "s", set_call: true, call: { stepId: "s" }, set_items: true, items: [1] },
    changes: "runs",
  },
  confirm: { write: () => ({}), changes: "nothing" },
  new_run: {
    write: (run) => ({ new_run: [newRunRow(newRunId(), { made_by: run, parent_run_id: run, scope: "s", key: "k" })] }),
    changes: "start_keys",
  },
  held_key: {
    given: { held_key: [{ scope: "s", key: "k" }] },
    write: (run) => ({ held_key: [{ scope: "s", key: "k", expected: run, burst_at: at }] }),
    changes: "held_keys",
  },
  label: { write: () => ({ label: [{ name: "color", value: "red" }] }), changes: "run_labels" },
  command: { write: () => ({ command: [command(id, true)] }), changes: "run_commands" },
  audit_event: { write: () => ({ audit_event: [event(2, { command_id: id })] }), changes: "run_events" },
  variable: {
    given: variables({ x: 1, y: { a: [null] } }),
    write: () => ({ variable: [...(variables({ x: null, z: 3 }).variable ?? []), { name: "y" }] }),
    changes: "run_variables",
  },
  scope: {
    write: (run) => ({ scope: [{ entry: 3, holder: run, manifest: { own: { x: 1 }, shared: {} } }] }),
    changes: "kept_scopes",
  },
  fork: {
    given: {
      undo_entry: [
        { ...REFUND, entry: 1 },
        { ...REFUND, entry: 2, action: undefined, state: "passed" },
        { ...REFUND, entry: 3 },
      ],
    },
    write: () => ({ fork: [{ fork_id: uuidv7(), step: "s", entry: 1, since: 3, inherits: true, at }] }),
    changes: "forks",
  },
  kept_entry: {
    write: () => ({ kept_entry: [{ entry: 3, step_id: "s", manifest: { own: { x: 1 }, shared: {} } }] }),
    changes: "kept_entries",
  },
  scope_value: {
    given: { scope_value: [{ holder: id, hash: id, value: 1 }] },
    write: () => ({
      scope_value: [
        { holder: id, hash: id, value: 2 },
        { holder: id, hash: uuidv7(), value: 3 },
      ],
    }),
    changes: "kept_values",
  },
  wake: { write: (run) => wake(run, AT + 7), changes: "wakes" },
  wake_gone: { write: () => ({ wake_gone: [{}] }), changes: "wakes" },
  signal: { write: () => ({ signal: [signal(), signal(uuidv7(), { consumed: true })] }), changes: "signals" },
  promise: { write: (_, other) => ({ promise: [{ waiter: other, name: "go", fence: "9" }] }), changes: "runs" },
  signal_claim: {
    given: { signal: [signal(id)] },
    write: () => ({ signal_claim: [{ id, at }] }),
    changes: "signals",
  },
  outbox_row: {
    write: () => ({ outbox_row: [{ id, kind: "webhook", payload: { n: 1 }, due_at: at }] }),
    changes: "outbox",
  },
  outbox_gone: {
    given: { outbox_row: [{ id, kind: "action", due_at: at }] },
    write: () => ({ outbox_gone: [{ id }] }),
    changes: "outbox",
  },
  inbox_row: {
    write: (_, other) => ({ inbox_row: [{ id, run_id: other, command: { type: "advance" }, due_at: at }] }),
    changes: "inbox",
  },
  inbox_gone: {
    given: (run) => ({ inbox_row: [{ id, run_id: run, command: { type: "advance" }, due_at: at }] }),
    write: () => ({ inbox_gone: [{ id }] }),
    changes: "inbox",
  },
  published_event: {
    write: () => ({ published_event: [{ id, topic: "t", headers: { a: "1" }, payload: [1] }] }),
    changes: "events",
  },
  outgoing_event: {
    write: (run) => ({ outgoing_event: [{ id, run_id: run, topic: "saga.run.started", payload: {} }] }),
    changes: "outgoing_events",
  },
  event_claim: { write: () => ({ event_claim: [{ event_id: id }] }), changes: "event_takes" },
  event_wait: {
    given: { event_wait: [{ topic: "t", headers: {} }] },
    write: () => ({ event_wait: [{ topic: "u", headers: { a: "1" }, conditions: { entry: 1, equal: {} } }] }),
    changes: "event_waits",
  },
  event_wait_gone: {
    given: { event_wait: [{ topic: "t", headers: {} }] },
    write: () => ({ event_wait_gone: [{}] }),
    changes: "event_waits",
  },
  opened_task: {
    write: () => ({ opened_task: [{ id, step_id: "s", assignee: "ann", title: "t", form_schema: {}, at }] }),
    changes: "user_tasks",
  },
  closed_task: {
    given: { opened_task: [{ id, step_id: "s", assignee: "ann", due_at: at, at }] },
    write: () => ({ closed_task: [{ id, at: at + 1, result: { n: 1 }, submitted_by: "ann" }] }),
    changes: "user_tasks",
  },
  undo_entry: { write: () => ({ undo_entry: [{ ...REFUND, entry: 1 }] }), changes: "undo" },
  undo_settled: {
    given: {
      undo_entry: [
        { ...REFUND, entry: 1 },
        { ...REFUND, entry: 2 },
      ],
    },
    write: () => ({ undo_settled: [{ ordinal: "2", state: "done" }] }),
    changes: "undo",
  },
  undo_passed: {
    given: {
      undo_entry: [1, 2].flatMap((entry) => [
        { ...REFUND, entry },
        { ...REFUND, entry, action: undefined },
      ]),
    },
    write: () => ({ undo_passed: [{ since: 1, every: false }] }),
    changes: "undo",
  },
  undo_handed: {
    given: {
      undo_entry: [
        { ...REFUND, entry: 1 },
        { ...REFUND, entry: 2, state: "done" },
      ],
    },
    write: (_, other) => ({ undo_handed: [{ heir: other, entry: 7 }] }),
    changes: "undo",
  },
  ticket: { write: () => ({ ticket: [TICKET] }), changes: "concurrency_tickets" },
  ticket_gone: {
    given: { ticket: [TICKET] },
    write: () => ({ ticket_gone: [{ entry: 1 }] }),
    changes: "concurrency_tickets",
  },
  ticket_returned: {
    given: { ticket: [TICKET] },
    write: () => ({ ticket_returned: [{ entry: 1 }] }),
    changes: "concurrency_tickets",
  },
  turn: { given: { turn: [TURN] }, write: () => ({ turn: [{ ...TURN, burst: 2 }] }), changes: "rate_tickets" },
  turn_taken: {
    given: { turn: [TURN] },
    write: () => ({ turn_taken: [{ entry: 1 }] }),
    changes: "rate_tickets",
  },
  turn_returned: {
    given: { turn: [TURN] },
    write: () => ({ turn_returned: [{ entry: 1 }] }),
    changes: "rate_tickets",
  },
};

/** The tables that the commit changes, in both stores. */
async function changedBy(commit: RunCommit, wins = true): Promise<string[]> {
  const before = await stores.same();
  expect((await stores.commit(commit)).size).toBe(wins ? 1 : 0);
  const after = await stores.same();
  return TABLE_NAMES.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
}

describe.each(Object.entries(RELATION_CASES))(
  "rows of the relation %s",
  (relation, { given = {}, write, row, changes }) => {
    /** A run at revision 2. */
    async function prepared() {
      const [run, other] = [await created(), await waiter()];
      await stores.commit(update(run, 1, typeof given === "function" ? given(run) : given));
      if (relation === "ticket_returned") await granted();
      return { run, rows: write(run, other) };
    }

    it("are written by both stores if their run wins", async () => {
      const { run, rows } = await prepared();
      const isConfirm = relation === "confirm";
      const changed = await changedBy(isConfirm ? confirmation(run, 2) : update(run, 2, rows, row));
      expect(changed).toEqual(isConfirm ? [] : expect.arrayContaining(["runs", changes]));
      await stores.load(run);
    });

    it("are written by the general statement, too", async () => {
      stores = new BothStores(database, new PlainStatements(0));
      const { run, rows } = await prepared();
      const isConfirm = relation === "confirm";
      const changed = await changedBy(isConfirm ? confirmation(run, 2) : update(run, 2, rows, row));
      expect(changed).toEqual(isConfirm ? [] : expect.arrayContaining(["runs", changes]));
    });

    it("are written by neither store if their run loses", async () => {
      const { run, rows } = await prepared();
      const lost = relation === "confirm" ? confirmation(run, 1) : update(run, 1, rows, row);
      expect(await changedBy(lost, false)).toEqual([]);
    });
  },
);

/** Gives the free slots of the key in both stores. The types of the messages that it sends; their ids are random, so they are taken away. */
async function granted(): Promise<unknown[]> {
  const { tenant_id: tenantId, scope, key } = TICKET;
  stores.memory.grantSlots();
  const news = await grantSlots(stores.sql, { tenantId, scope, key });
  const told = takenInbox();
  expect(told.map(([to, sent]) => [to, sent])).toEqual(news.map(({ to, command: sent }) => [to, sent]));
  await stores.sql`delete from inbox where id = any(${news.map((sent) => sent.id)}::text[]::uuid[])`;
  return news.map(({ to, command: { type } }) => [to, type]);
}

/** The receivers and commands of all messages of the store in memory, which are taken away. */
function takenInbox(): (readonly [string, unknown])[] {
  const { inbox } = stores.memory.tables;
  const messages = [...inbox];
  for (const message of messages) inbox.delete(message.id);
  return messages.map(({ run_id, command: sent }) => [run_id, sent]);
}

const ENDED = { state: "failed", terminal_at: AT };
const claim = (of: string) => ({ signal_claim: [{ id: of, at }] });
const promise = (to: RunId) => ({ promise: [{ waiter: to, name: "go", fence: "9" }] });
/** A start in whose commit it comes to hold a key. */
const holding = (expected?: string) => creation({ held_key: [{ scope: "/orders", key: "k", expected, burst_at: AT }] });
const keyed = { scope: "/orders", key: "k", request_hash: "" };

async function ended(): Promise<RunId> {
  const runId = await created();
  await stores.commit(update(runId, 1, {}, ENDED));
  return runId;
}

const forking = (runId: RunId, revision: number, inherits = true) =>
  confirmation(runId, revision, {
    fork: [{ fork_id: newRunId(), step: "s", entry: 1, since: 1, inherits, at }],
    new_run: [newRunRow(newRunId(), { made_by: runId })],
  });

/** Commits on a run at revision 1 that win or lose: `make` prepares the stores, and gives the commit. */
const COMMITS: Readonly<Record<string, readonly [wins: boolean, make: () => Promise<RunCommit>]>> = {
  "at the expected revision": [true, async () => update(await created(), 1)],
  "behind the revision": [false, async () => update(await created(), 0)],
  "ahead of the revision": [false, async () => update(await created(), 2)],
  "with another token beside the revision": [
    false,
    async () => update(await created(), 1, {}, { expected_fence: "8" }),
  ],
  "of a run that does not exist": [false, async () => update(newRunId(), 1)],
  "of a run that has ended": [
    false,
    async () => {
      const runId = await created();
      await stores.commit(update(runId, 1, {}, ENDED));
      return update(runId, 2);
    },
  ],
  "that confirms a run that has ended": [
    true,
    async () => {
      const runId = await created();
      await stores.commit(update(runId, 1, {}, ENDED));
      return confirmation(runId, 2, { command: [command()] });
    },
  ],
  "that forks a run that has ended": [true, async () => forking(await ended(), 2)],
  "that forks it once more": [
    false,
    async () => {
      const runId = await ended();
      expect([...(await stores.commit(forking(runId, 2)))]).toEqual([runId]);
      return forking(runId, 2);
    },
  ],
  "that forks it once more, and inherits nothing": [
    true,
    async () => {
      const runId = await ended();
      await stores.commit(forking(runId, 2));
      return forking(runId, 2, false);
    },
  ],
  "that confirms another token": [false, async () => confirmation(await created(), 1, {}, "8")],
  "within the tenant of the run": [true, async () => update(await created(OWNED), 1, {}, { within: `{${TENANTS}}` })],
  "within other tenants": [false, async () => update(await created(OWNED), 1, {}, { within: `{${OTHERS}}` })],
  "within no tenant": [false, async () => update(await created(OWNED), 1, {}, { within: "{}" })],
  "within some tenants, of a run of none": [
    false,
    async () => update(await created(), 1, {}, { within: `{${TENANTS}}` }),
  ],
  "that confirms within the tenant of the run": [
    true,
    async () => confirmation(await created(OWNED), 1, { command: [command()] }, undefined, `{${TENANTS}}`),
  ],
  "that confirms within other tenants": [
    false,
    async () => confirmation(await created(OWNED), 1, { command: [command()] }, undefined, `{${OTHERS}}`),
  ],
  "that confirms within some tenants a run of none": [
    false,
    async () => confirmation(await created(), 1, { command: [command()] }, undefined, `{${TENANTS}}`),
  ],
  "that is the first to hold a business key": [true, async () => holding()],
  "that is second to hold a business key": [
    false,
    async () => {
      await stores.commit(holding());
      return holding();
    },
  ],
  "that takes a business key from its holder": [
    true,
    async () => {
      const first = holding();
      await stores.commit(first);
      return holding(first.runId);
    },
  ],
  "that takes a business key from one that holds it no more": [
    false,
    async () => {
      const first = holding();
      await stores.commit(first);
      await stores.commit(holding(first.runId));
      return holding(first.runId);
    },
  ],
  "that takes a business key that no run has held": [false, async () => holding(newRunId())],
  "of a command that was answered": [
    false,
    async () => {
      const runId = await created({}, { command: [command(id)] });
      return update(runId, 1, { command: [command(id)] });
    },
  ],
  "that confirms a command that was answered": [
    false,
    async () => {
      const runId = await created({}, { command: [command(id)] });
      return confirmation(runId, 1, { command: [command(id)] });
    },
  ],
  "of a command that another run has answered": [
    true,
    async () => {
      await created({}, { command: [command(id)] });
      return update(await created(), 1, { command: [command(id)] });
    },
  ],
  "that takes a signal": [true, async () => update(await created({}, { signal: [signal(id)] }), 1, claim(id))],
  "that takes a consumed signal": [
    false,
    async () => update(await created({}, { signal: [signal(id, { consumed: true })] }), 1, claim(id)),
  ],
  "that takes a signal that does not exist": [false, async () => update(await created(), 1, claim(uuidv7()))],
  "that records a signal again": [
    false,
    async () => update(await created({}, { signal: [signal(id)] }), 1, { signal: [signal(id)] }),
  ],
  "that writes an audit row again": [false, async () => update(await created(), 1, { audit_event: [event(1)] })],
  "that promises a signal to a run that waits": [true, async () => update(await created(), 1, promise(await waiter()))],
  "that promises a signal to a run that waits for another": [
    false,
    async () => update(await created(), 1, promise(await waiter({}, { awaited_signal: "stop" }))),
  ],
  "that promises a signal to a run in quarantine": [
    false,
    async () => update(await created(), 1, promise(await waiter({}, { paused_reason: "quarantine" }))),
  ],
  "that promises a signal to a run that has ended": [
    false,
    async () => update(await created(), 1, promise(await waiter({}, ENDED))),
  ],
  "that promises a second signal to a run": [
    false,
    async () => {
      const to = await waiter();
      await stores.commit(update(await created(), 1, promise(to)));
      return update(await created(), 1, promise(to));
    },
  ],
  "of a run that was promised a signal meanwhile": [
    false,
    async () => {
      const to = await waiter();
      await stores.commit(update(await created(), 1, promise(to)));
      return update(to, 2);
    },
  ],
  "that takes an event": [true, async () => update(await created(), 1, { event_claim: [{ event_id: id }] })],
  "that takes an event again": [
    false,
    async () => update(await created({}, { event_claim: [{ event_id: id }] }), 1, { event_claim: [{ event_id: id }] }),
  ],
  "of a start": [true, async () => creation()],
  "of a start whose run exists": [false, async () => creation({ runId: await created() })],
  "of a start with a free key": [true, async () => creation({}, keyed)],
  "of a start whose key is taken": [
    false,
    async () => {
      await created(keyed);
      return creation({}, keyed);
    },
  ],
  "that creates a run with a free key": [
    true,
    async () => {
      const run = await created();
      return update(run, 1, { new_run: [newRunRow(newRunId(), { made_by: run, ...keyed })] });
    },
  ],
  "that creates a run whose key is taken": [
    false,
    async () => {
      const run = await created(keyed);
      return update(run, 1, { new_run: [newRunRow(newRunId(), { made_by: run, ...keyed })] });
    },
  ],
  "that creates a run that exists": [
    true,
    async () => {
      const [run, child] = [await created(), await created()];
      const rows = { new_run: [newRunRow(child, { made_by: run })], label: [{ run_id: child, name: "a", value: "b" }] };
      return update(run, 1, rows);
    },
  ],
};

describe("a commit", () => {
  it.each(Object.entries(COMMITS).map(([name, [wins, make]]) => [wins ? "wins" : "loses", name, wins, make] as const))(
    "%s %s",
    async (_, __, wins, make) => {
      const commit = await make();
      const changed = await changedBy(commit, wins);
      expect(changed.length > 0).toBe(wins);
    },
  );

  it("is written with others as if it were alone", async () => {
    const [one, other, third] = [await created(), await created(), await created()];
    const share = (n: number) => ({ ...variables({ n }), undo_entry: [{ ...REFUND, entry: n }], signal: [signal()] });
    const won = await stores.commit(update(one, 1, share(1)), update(other, 2, share(2)), update(third, 1, share(3)));
    expect(won).toEqual(new Set([one, third]));
    const { undo } = await stores.same();
    expect(undo.map(({ entry }) => entry)).toEqual([1, 3]);
  });
});

describe("of two commits in a group", () => {
  it("the first one gets a signal that both want: to take it, or for a run that waits", async () => {
    const [one, other] = [await created({}, { signal: [signal(id)] }), await created()];
    expect(await stores.commit(update(one, 1, claim(id)), update(other, 1, claim(id)))).toEqual(new Set([one]));
    const to = await waiter();
    expect(await stores.commit(update(one, 2, promise(to)), update(other, 1, promise(to)))).toEqual(new Set([one]));
    await stores.same();
  });
});

describe("an undo list", () => {
  it("is passed, settled and handed over in one commit, each entry by one of them, and the new entries stay as they are", async () => {
    const [run, heir] = [await created(), await created()];
    const entries = (...of: (readonly [number, string | undefined])[]) =>
      of.map(([entry, action]) => ({ ...REFUND, entry, action, forward_key: `k${entry}` }));
    await stores.commit(update(run, 1, { undo_entry: entries([1, "a"], [2, "a"], [3, undefined]) }));
    await stores.commit(
      update(run, 2, {
        undo_settled: [{ ordinal: "2", state: "failed" }],
        undo_passed: [{ since: 1, every: false }],
        undo_handed: [{ heir, entry: 7 }],
        undo_entry: entries([4, "a"], [5, undefined]),
      }),
    );
    const { undo } = await stores.same();
    expect(undo.map(({ owner, state, entry }) => [owner === run ? "run" : "heir", state, entry])).toEqual([
      ["heir", "owed", 7],
      ["run", "failed", 2],
      ["run", "passed", 3],
      ["run", "owed", 4],
      ["run", "owed", 5],
    ]);
    await stores.sameFacts(run);
    await stores.sameFacts(heir);
  });
});

describe("the answer of a command", () => {
  it("is given again, and the message that brought it once more is removed", async () => {
    const [recorded, beside, unknown] = [uuidv7(), uuidv7(), uuidv7()];
    const message = (of: string) => ({ id: of, command: { type: "advance" }, due_at: AT });
    const run = await created();
    const inbox_row = [recorded, beside, unknown].map((of) => ({ ...message(of), run_id: run }));
    const share = { command: [command(recorded)], audit_event: [event(2, { command_id: beside })], inbox_row };
    await stores.commit(update(run, 1, share));
    for (const of of [recorded, beside, unknown]) {
      const answer = (await repeatedAnswer(stores.sql, run, of))?.answer;
      expect(stores.memory.repeatedAnswer(run, of)).toEqual(answer);
      expect(answer === undefined).toBe(of === unknown);
    }
    expect((await stores.same()).inbox).toHaveLength(1);
  });
});

describe("slots", () => {
  const ask = async (more: Partial<Row<"ticket">> = {}) => created({}, { ticket: [{ ...TICKET, ...more } as never] });

  it("go to those that have waited longest, past those that stand still, up to the limit", async () => {
    const asking = [await ask(), await ask(), await ask()];
    const [first, second, third] = asking as [RunId, RunId, RunId];
    await stores.commit(update(first, 1, {}, { state: "paused", paused_reason: "operator" }));
    expect(await granted()).toEqual([[second, "slot_granted"]]);
    expect(await granted()).toEqual([]);
    await stores.commit(update(second, 1, { ticket_returned: [{ entry: 1 }] }));
    await stores.commit(update(first, 2));
    expect(await granted()).toEqual([[first, "slot_granted"]]);
    await stores.commit(update(first, 3, { ticket_gone: [{ entry: 1 }] }));
    expect(await granted()).toEqual([[second, "slot_granted"]]);
    expect((await stores.same()).concurrency_tickets.map(({ run_id }) => run_id)).toEqual([second, third]);
  });

  it("are refused, or the oldest makes room, where the key says so", async () => {
    const [first, second] = [await ask({ on_limit: "refuse" }), await ask({ on_limit: "refuse" })];
    expect(await granted()).toEqual([
      [first, "slot_granted"],
      [second, "slot_refused"],
    ]);
    await stores.commit(update(first, 1, { ticket_gone: [{ entry: 1 }] }));
    const [third, fourth] = [await ask({ on_limit: "cancel_oldest" }), await ask({ on_limit: "cancel_oldest" })];
    expect(await granted()).toEqual([
      [third, "cancel"],
      [fourth, "slot_granted"],
    ]);
    await stores.same();
  });
});

describe("a published event", () => {
  it("is offered to the runs that it correlates with", async () => {
    const [tenant_id, other] = [uuidv7(), uuidv7()];
    const waits = (wait: Partial<Row<"event_wait">>, row: Partial<Row<"new_run">> = {}) =>
      created(row, { event_wait: [{ topic: "t", headers: {}, ...wait }] });
    const equal = (value: unknown) => ({ conditions: { entry: 1, equal: { '["payload","of"]': value } } });
    const mine = { tenant_id };
    const told = [
      await waits({}, mine),
      await waits({ headers: { a: "1" } }, mine),
      await waits(equal("me") as never, mine),
      await waits({ ...equal(null), conditions: { entry: 2, equal: { '["payload","none"]': null } } } as never, mine),
    ];
    for (const [wait, row] of [
      [{}, {}],
      [{}, { tenant_id: other }],
      [{ topic: "u" }, mine],
      [{ headers: { b: "1" } }, mine],
      [equal("you"), mine],
    ] as const)
      await waits(wait as never, row);
    const published_event = [{ id, tenant_id, topic: "t", headers: { a: "1", c: "2" }, payload: { of: "me" } }];
    await stores.commit(update(await created(mine), 1, { published_event }));
    stores.memory.announce();
    await stores.sql`update events set due_at = now()`;
    const due = await until(async () => (await leaseDueEvents(stores.sql, 1))[0], { what: "the event that is due" });
    const { notices } = await announceTo(stores.sql, due);
    expect(notices.map(({ runId }) => runId)).toEqual([...told].sort());
    expect(takenInbox().map(([to]) => to)).toEqual([...told].sort());
  });
});

describe("what a decision asks for", () => {
  it("is found alike: signals, those who wait for them, children, events, runs", async () => {
    const root = await created({}, { signal: [signal(), signal(uuidv7(), { name: "stop" })] });
    const part = (branch: string, entry = 2, more: Partial<Row<"new_run">> = {}) => ({
      ...{ parent_run_id: root, parent_branch_id: branch, parent_entry: entry, family_run_id: root },
      ...{ inputs: undefined, identity: { family: [root] }, ...more },
    });
    const waiting = [await waiter(part("0")), await waiter(part("1", 3))];
    const ended = ["10", "9"].map(async (branch, nth) => {
      const ending = nth === 0 ? { ending: { error: { code: "x", message: "y" } } } : { ending: { reason: "asked" } };
      const child = await created(part(branch, 1));
      await stores.commit(update(child, 1, {}, { ...ENDED, record: { v: 1, ...ending }, output: [nth] }));
    });
    await Promise.all(ended);
    const [to] = waiting as [RunId];
    await stores.commit(update(root, 1, { signal: [signal(id, { promised_to: to })], ...promise(to) }));
    const published_event = [1, 2].map((n) => ({ id: uuidv7(), topic: "t", headers: {}, payload: n }));
    await stores.commit(update(root, 2, { published_event }));
    const cancel = { id: uuidv7(), run_id: waiting[1], command: { type: "cancel" }, due_at: AT };
    for (const runId of [root, ...waiting]) await stores.sameFacts(runId);
    await stores.commit(update(root, 3, { inbox_row: [cancel] }));
    await stores.same();
    for (const runId of [root, ...waiting]) await stores.sameFacts(runId);
    // The promise is void once its run has ended.
    await stores.commit(update(to, 3, {}, ENDED));
    for (const runId of [root, ...waiting]) await stores.sameFacts(runId);
    const { run } = await stores.load(root);
    expect(stores.memory.fetch(run, { kind: "signal", name: "go" }).signal).toMatchObject({ promised: false });
  });

  it("is found alike: a run by its id, and by its key", async () => {
    const { scope, key } = startKey({ tenantId: undefined, workflowId: "orders" }, "k");
    const runs = [await created({ scope, key }), await created({ tenant_id: uuidv7() }), newRunId()];
    const { run } = await stores.load(runs[0] as RunId);
    for (const runId of runs) {
      const found = await namedRun(stores.sql, runId, run.tenantId);
      const { target } = stores.memory.fetch(run, { kind: "target", runId });
      expect(target).toEqual(found && { id: found.id });
    }
    for (const of of ["k", "other"]) {
      const { keyedRun: found } = stores.memory.fetch(run, { kind: "keyed_run", workflowId: "orders", key: of });
      expect(found).toEqual(await keyedRun(stores.sql, scope, of));
    }
  });
});
