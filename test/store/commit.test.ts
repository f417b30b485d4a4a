// THE commit statement, part by part: who wins, and that a run that did not win has left nothing anywhere.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { commitRuns } from "../../src/store/commit.js";
import type { RunCommit } from "../../src/store/commit-rows.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { AT, confirmation, creation, event, row, rowsOf, update, withEverything } from "./commit-rows.js";

let database: TestDatabase;
const commit = (...group: RunCommit[]) => commitRuns(database.sql, group);
const rows = (runId: string) => rowsOf(database.sql, runId);

/** A run at revision 1. */
async function created(more: Partial<RunCommit> = {}): Promise<string> {
  const share = creation(more);
  expect(await commit(share)).toEqual(new Set([share.runId]));
  return share.runId;
}

beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

describe("compare and set", () => {
  it("moves a run at the expected revision, with all its rows", async () => {
    const runId = await created();
    expect(await commit(update(runId, 1, withEverything(runId)))).toEqual(new Set([runId]));
    const found = await rows(runId);
    expect(found.runs).toMatchObject([{ revision: 2, state: "running", last_seq: 2 }]);
    for (const [table, list] of Object.entries(found)) {
      const expected = table === "run_events" ? 2 : table === "start_keys" ? 0 : 1;
      expect([table, list.length]).toEqual([table, expected]);
    }
  });

  it.each([0, 2])("leaves nothing of a run that is not at the expected revision (%i of 1)", async (expected) => {
    const runId = await created();
    const before = await rows(runId);
    expect(await commit(update(runId, expected, withEverything(runId)))).toEqual(new Set());
    expect(await rows(runId)).toEqual(before);
  });

  it("lets batch mates of a loser win", async () => {
    const [loser, winner] = [await created(), await created()];
    const before = await rows(loser);
    const won = await commit(update(loser, 7, withEverything(loser)), update(winner, 1, withEverything(winner)));
    expect(won).toEqual(new Set([winner]));
    expect(await rows(loser)).toEqual(before);
  });

  it("skips a row that another session holds, instead of waiting for it", async () => {
    const [held, free] = [await created(), await created()];
    await database.sql.begin(async (transaction) => {
      await transaction`select 1 from runs where id = ${held} for update`;
      expect(await commit(update(held, 1), update(free, 1))).toEqual(new Set([free]));
    });
    expect(await commit(update(held, 1))).toEqual(new Set([held]));
  });

  it("lets exactly one of many that start from the same revision win", async () => {
    const runId = await created();
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, (_, nth) => commit(update(runId, 1, { events: [event(2, { actor: `node:${nth}` })] }))),
    );
    expect(outcomes.filter((won) => won.has(runId))).toHaveLength(1);
    expect((await rows(runId)).run_events).toHaveLength(2);
  });
});

describe("confirming a revision", () => {
  it("wins without touching the run, and writes what it owes", async () => {
    const runId = await created();
    const signal = { id: uuidv7(), name: "go", payload: "{}", at: AT, consumed: false };
    expect(await commit(confirmation(runId, 1, { signals: [signal], wake: null }))).toEqual(new Set([runId]));
    const found = await rows(runId);
    expect(found.runs).toMatchObject([{ revision: 1 }]);
    expect(found.signals).toMatchObject([{ id: signal.id, consumed_at: null }]);
    expect(found.wakes).toEqual([]);
  });

  it("loses at another revision, and leaves nothing", async () => {
    const runId = await created();
    const before = await rows(runId);
    expect(await commit(confirmation(runId, 2, withEverything(runId)))).toEqual(new Set());
    expect(await rows(runId)).toEqual(before);
  });
});

describe("commands", () => {
  const command = (id: string) => ({ id, answer: '{"type":"advanced"}', keep: true, at: AT });

  it("loses when the command has an outcome already, whatever the revision", async () => {
    const runId = await created();
    const id = uuidv7();
    expect(await commit(update(runId, 1, { commands: [command(id)] }))).toEqual(new Set([runId]));
    const before = await rows(runId);
    expect(await commit(update(runId, 2, { ...withEverything(runId), commands: [command(id)] }))).toEqual(new Set());
    expect(await commit(confirmation(runId, 2, { commands: [command(id)] }))).toEqual(new Set());
    expect(await rows(runId)).toEqual(before);
  });

  it("knows a command by its run: another run may use the same id", async () => {
    const [one, other] = [await created(), await created()];
    const id = uuidv7();
    expect(await commit(update(one, 1, { commands: [command(id)] }))).toEqual(new Set([one]));
    expect(await commit(update(other, 1, { commands: [command(id)] }))).toEqual(new Set([other]));
  });
});

describe("signals that are taken", () => {
  it("are one run's, also when two in one group take the same", async () => {
    const [owner, one, other] = [await created(), await created(), await created()];
    const [first, second] = [uuidv7(), uuidv7()];
    const signals = [first, second].map((id) => ({ id, name: "go", payload: "{}", at: AT, consumed: false }));
    await commit(update(owner, 1, { signals }));
    const take = (runId: string, id: string) => update(runId, 1, { consumed: [{ id, at: AT }], events: [event(2)] });
    expect((await commit(take(one, first), take(other, first))).size).toBe(1);
    const loser = (await rows(one)).run_events.length === 1 ? one : other;
    expect((await rows(loser)).run_events).toHaveLength(1);
    expect(await commit(take(loser, first))).toEqual(new Set());
    expect(await commit(take(loser, second))).toEqual(new Set([loser]));
  });
});

describe("terminal runs", () => {
  const end = (runId: string, expected: number) =>
    update(runId, expected, { update: row({ state: "succeeded", terminalAt: AT + 2 }), wake: null });

  it("are never updated again, and lose silently beside their batch mates", async () => {
    const [ended, open] = [await created(), await created()];
    await commit(end(ended, 1));
    const before = await rows(ended);
    expect(await commit(update(ended, 2, withEverything(ended)), update(open, 1))).toEqual(new Set([open]));
    expect(await rows(ended)).toEqual(before);
  });

  it("can still be confirmed, so that a late signal is recorded", async () => {
    const ended = await created();
    await commit(end(ended, 1));
    const signal = { id: uuidv7(), name: "go", payload: "{}", at: AT, consumed: false };
    expect(await commit(confirmation(ended, 2, { signals: [signal] }))).toEqual(new Set([ended]));
    expect((await rows(ended)).signals).toHaveLength(1);
  });

  it("keep their row when somebody updates it by hand: skipped without an error", async () => {
    const ended = await created();
    await commit(end(ended, 1));
    const before = await rows(ended);
    const touched = await database.sql`update runs set state = 'running', terminal_at = null where id = ${ended}`;
    expect(touched.count).toBe(0);
    expect(await rows(ended)).toEqual(before);
  });
});

describe("a confirmation beside a commit of another node", () => {
  it.each([null, AT])("loses, and leaves the wake row to it (%s)", async (wake) => {
    const runId = await created();
    let confirmed: Promise<ReadonlySet<string>> | undefined;
    await database.sql.begin(async (transaction) => {
      await commitRuns(transaction as unknown as typeof database.sql, [update(runId, 1, { wake: AT + 60_000 })]);
      confirmed = commit(confirmation(runId, 1, { wake }));
      // It does not wait for the other; where it did, it would be found waiting.
      const waiting = () => database.sql`
        select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      await Promise.race([confirmed, until(async () => (await waiting()).length > 0)]);
    });
    expect(await confirmed).toEqual(new Set());
    expect((await rows(runId)).wakes).toMatchObject([{ due_at: new Date(AT + 60_000) }]);
  });

  // Two that each hold rows the other needs would wait in a circle until Postgres ends one of them.
  it("loses to another confirmation, and does not wait for it", async () => {
    const [one, other] = [await created(), await created()];
    const command = { id: uuidv7(), answer: '{"type":"advanced"}', keep: true, at: AT };
    const both = (runIds: string[]) => runIds.map((runId) => confirmation(runId, 1, { commands: [command], wake: AT }));
    await database.sql.begin(async (transaction) => {
      await commitRuns(transaction as unknown as typeof database.sql, both([one, other]));
      expect(await commit(...both([other, one]))).toEqual(new Set());
    });
    for (const runId of [one, other]) expect((await rows(runId)).run_commands).toHaveLength(1);
  });
});

describe("new runs", () => {
  const keyed = (key: string) => ({ key: { scope: "/orders", key } });

  it("begin at revision 1 with their start, variables and wake", async () => {
    const runId = await created({ variables: new Map([["x", '{"deep":[1]}']]), wake: AT + 9 });
    const found = await rows(runId);
    expect(found.runs).toMatchObject([{ revision: 1, last_seq: 1, state: "pending" }]);
    expect(found.run_starts).toMatchObject([{ inputs: { n: 1 }, request_hash: "hash" }]);
    expect(found.run_variables).toMatchObject([{ name: "x", value: { deep: [1] } }]);
    expect(found.wakes).toMatchObject([{ due_at: new Date(AT + 9), tries: 0 }]);
  });

  it("lose where their id exists, and change nothing of it", async () => {
    const runId = await created();
    const before = await rows(runId);
    expect(await commit(creation({ runId }, keyed(uuidv7())))).toEqual(new Set());
    expect(await rows(runId)).toEqual(before);
  });

  it("lose where their key is taken, and leave nothing", async () => {
    const first = creation({}, keyed("taken"));
    const second = creation({}, keyed("taken"));
    expect(await commit(first)).toEqual(new Set([first.runId]));
    expect(await commit(second)).toEqual(new Set());
    for (const list of Object.values(await rows(second.runId))) expect(list).toEqual([]);
  });

  it("with the same key in one batch are one run", async () => {
    const twins = [creation({}, keyed("twins")), creation({}, keyed("twins"))];
    const mate = creation();
    const won = await commit(...twins, mate);
    expect(won.size).toBe(2);
    expect(won.has(mate.runId)).toBe(true);
    const loser = twins.find(({ runId }) => !won.has(runId));
    for (const list of Object.values(await rows(loser?.runId ?? ""))) expect(list).toEqual([]);
  });

  it("with the same key at the same time are one run", async () => {
    const rivals = Array.from({ length: 8 }, () => creation({}, keyed("rivals")));
    const outcomes = await Promise.all(rivals.map((rival) => commit(rival)));
    expect(outcomes.reduce((sum, won) => sum + won.size, 0)).toBe(1);
  });

  it("with one key in two scopes are two runs", async () => {
    const one = creation({}, { key: { scope: "a/orders", key: "shared" } });
    const other = creation({}, { key: { scope: "b/orders", key: "shared" } });
    expect(await commit(one, other)).toEqual(new Set([one.runId, other.runId]));
  });
});

describe("wakes", () => {
  it("are set, moved with their tries reset, left alone, and removed", async () => {
    const runId = await created({ wake: AT });
    await database.sql`update wakes set tries = 2 where run_id = ${runId}`;
    await commit(update(runId, 1));
    expect((await rows(runId)).wakes).toMatchObject([{ due_at: new Date(AT), tries: 2 }]);
    await commit(update(runId, 2, { wake: AT + 100 }));
    expect((await rows(runId)).wakes).toMatchObject([{ due_at: new Date(AT + 100), tries: 0 }]);
    await commit(update(runId, 3, { wake: null }));
    expect((await rows(runId)).wakes).toEqual([]);
    await commit(confirmation(runId, 4, { wake: AT + 200 }));
    expect((await rows(runId)).wakes).toMatchObject([{ due_at: new Date(AT + 200), tries: 0 }]);
  });
});

describe("variables", () => {
  it("are written where they changed and removed where they went", async () => {
    const runId = await created({
      variables: new Map([
        ["a", "1"],
        ["b", '"two"'],
      ]),
    });
    await commit(
      update(runId, 1, {
        variables: new Map([
          ["a", undefined],
          ["b", '{"k":"\\"}"}'],
          ["c", "null"],
        ]),
      }),
    );
    expect((await rows(runId)).run_variables).toMatchObject([
      { name: "a" },
      { name: "b", value: { k: '"}' } },
      { name: "c", value: null },
    ]);
    const gone = await database.sql`select name from run_variables where run_id = ${runId} and value is null`;
    expect(gone).toMatchObject([{ name: "a" }]);
  });
});

describe("values", () => {
  it("come back as they went, whatever their characters", async () => {
    const text = `"quoted" \\back {brace,} 'single' NULL , é 🜨 ${"\u0001"}\n`;
    const runId = await created({ variables: new Map([["v", JSON.stringify(text)]]) });
    await commit(update(runId, 1, { update: row({ step: text, output: JSON.stringify({ [text]: text }) }) }));
    const found = await rows(runId);
    expect(found.run_variables).toMatchObject([{ value: text }]);
    expect(found.runs).toMatchObject([{ current_step: text, output: { [text]: text } }]);
  });
});
