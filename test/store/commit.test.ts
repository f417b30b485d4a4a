// The commit statement, part by part: which runs win, and that a loser leaves no row in any table.

import { describe, expect, it } from "vitest";
import type { RunCommit, RunId } from "../../machines/index.js";
import { uuidv7 } from "../../src/ids.js";
import { encodeRun } from "../../src/store/engine/commit/encoding.js";
import { PlainStatements } from "../../src/store/engine/commit/plain.js";
import { commitRuns } from "../../src/store/engine/commit/statement.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import {
  AT,
  command,
  confirmation,
  creation,
  event,
  NO_WAKE,
  openCommitStore,
  signal,
  update,
  variables,
  wake,
  withEverything,
} from "./commit-rows.js";

const store = openCommitStore();
const { commit, rows, created } = store;

describe("compare and set", () => {
  it("updates a run at the expected revision, with all its rows", async () => {
    const runId = await created();
    expect(await commit(update(runId, 1, withEverything(runId)))).toEqual(new Set([runId]));
    const found = await rows(runId);
    expect(found.runs).toMatchObject([{ revision: 2, state: "running", last_seq: 2 }]);
    for (const [table, list] of Object.entries(found)) {
      const expected = table === "run_events" ? 2 : table === "start_keys" ? 0 : 1;
      expect([table, list.length]).toEqual([table, expected]);
    }
  });

  it.each([0, 2])("writes no row of a run that is not at the expected revision (%i of 1)", async (expected) => {
    const runId = await created();
    const before = await rows(runId);
    expect(await commit(update(runId, expected, withEverything(runId)))).toEqual(new Set());
    expect(await rows(runId)).toEqual(before);
  });

  it.each(["8", undefined])(
    "writes no row of a run whose revision came back with another token (%s of 7)",
    async (expectedFence) => {
      const runId = await created();
      const before = await rows(runId);
      const stale = update(runId, 1, withEverything(runId), { expected_fence: expectedFence });
      expect(await commit(stale)).toEqual(new Set());
      expect(await rows(runId)).toEqual(before);
    },
  );

  it("stores every text as it is: quotes, backslashes, control characters, pairs of surrogates", async () => {
    const runId = await created();
    const texts = ['"', "\\", '{"a": "b\\\\c"}', "a\nb\tc\u0001\u007f", '"\n\\', '"😀\u2028', "NULL", "{}", ",", ""];
    for (const [nth, step] of texts.entries()) {
      await commit(update(runId, nth + 1, {}, { step, output: { step } }));
      const [stored] = await store.sql`select current_step as step, output from runs where id = ${runId}`;
      expect(stored).toEqual({ step, output: { step } });
    }
  });

  it.each(["{}", `{${uuidv7()}}`, `{${uuidv7()},${uuidv7()}}`])(
    "writes no row of a run that is of none of the tenants of its command (%s)",
    async (within) => {
      for (const tenant_id of [uuidv7(), undefined]) {
        const share = creation({}, { tenant_id });
        const { runId } = share;
        await commit(share);
        const before = await rows(runId);
        // By the plain statement, and, beside a claim, by the general one.
        for (const more of [{}, { event_claim: [{ event_id: uuidv7() }] }]) {
          const rowsOfIt = { ...withEverything(runId), ...more };
          expect(await commit(update(runId, 1, rowsOfIt, { within }))).toEqual(new Set());
          expect(await commit(confirmation(runId, 1, rowsOfIt, undefined, within))).toEqual(new Set());
        }
        expect(await rows(runId)).toEqual(before);
      }
    },
  );

  it("writes the rows of a run that is of one of the tenants of its command", async () => {
    const tenant_id = uuidv7();
    const share = creation({}, { tenant_id });
    await commit(share);
    const within = `{${uuidv7()},${tenant_id}}`;
    const confirmed = confirmation(share.runId, 1, { signal: [signal()] }, undefined, within);
    for (const one of [confirmed, update(share.runId, 1, withEverything(share.runId), { within })])
      expect(await commit(one)).toEqual(new Set([share.runId]));
  });

  it("lets the others in the batch of a loser win", async () => {
    const [loser, winner] = [await created(), await created()];
    const before = await rows(loser);
    const won = await commit(update(loser, 7, withEverything(loser)), update(winner, 1, withEverything(winner)));
    expect(won).toEqual(new Set([winner]));
    expect(await rows(loser)).toEqual(before);
  });

  it("skips a row that another session has locked, instead of waiting for it", async () => {
    const [held, free] = [await created(), await created()];
    await store.sql.begin(async (transaction) => {
      await transaction`select 1 from runs where id = ${held} for update`;
      expect(await commit(update(held, 1), update(free, 1))).toEqual(new Set([free]));
    });
    expect(await commit(update(held, 1))).toEqual(new Set([held]));
  });

  it("lets exactly one of many commits from the same revision win", async () => {
    const runId = await created();
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, (_, nth) =>
        commit(update(runId, 1, { audit_event: [event(2, { actor: `node:${nth}` })] })),
      ),
    );
    expect(outcomes.filter((won) => won.has(runId))).toHaveLength(1);
    expect((await rows(runId)).run_events).toHaveLength(2);
  });
});

describe("confirming a revision", () => {
  it("wins without changing the run, and writes its rows", async () => {
    const runId = await created();
    const one = signal();
    expect(await commit(confirmation(runId, 1, { signal: [one], ...NO_WAKE }))).toEqual(new Set([runId]));
    const found = await rows(runId);
    expect(found.runs).toMatchObject([{ revision: 1 }]);
    expect(found.signals).toMatchObject([{ id: one.id, consumed_at: null }]);
    expect(found.wakes).toEqual([]);
  });

  it("loses at the same revision with another token, and writes nothing", async () => {
    const runId = await created();
    const before = await rows(runId);
    expect(await commit(confirmation(runId, 1, withEverything(runId), "8"))).toEqual(new Set());
    expect(await rows(runId)).toEqual(before);
  });

  it("loses at another revision, and writes nothing", async () => {
    const runId = await created();
    const before = await rows(runId);
    expect(await commit(confirmation(runId, 2, withEverything(runId)))).toEqual(new Set());
    expect(await rows(runId)).toEqual(before);
  });
});

describe("commands", () => {
  it("lose when they have an outcome already, whatever the revision", async () => {
    const runId = await created();
    const id = uuidv7();
    expect(await commit(update(runId, 1, { command: [command(id)] }))).toEqual(new Set([runId]));
    const before = await rows(runId);
    expect(await commit(update(runId, 2, { ...withEverything(runId), command: [command(id)] }))).toEqual(new Set());
    expect(await commit(confirmation(runId, 2, { command: [command(id)] }))).toEqual(new Set());
    expect(await rows(runId)).toEqual(before);
  });

  it("are distinguished by their run: another run may use the same id", async () => {
    const [one, other] = [await created(), await created()];
    const id = uuidv7();
    expect(await commit(update(one, 1, { command: [command(id)] }))).toEqual(new Set([one]));
    expect(await commit(update(other, 1, { command: [command(id)] }))).toEqual(new Set([other]));
  });
});

describe("claims of signals", () => {
  it("let one run win, also if two in one group take the same signal", async () => {
    const [owner, one, other] = [await created(), await created(), await created()];
    const [first, second] = [uuidv7(), uuidv7()];
    await commit(update(owner, 1, { signal: [signal(first), signal(second)] }));
    const take = (runId: RunId, id: string) =>
      update(runId, 1, { signal_claim: [{ id, at: AT }], audit_event: [event(2)] });
    expect((await commit(take(one, first), take(other, first))).size).toBe(1);
    const loser = (await rows(one)).run_events.length === 1 ? one : other;
    expect((await rows(loser)).run_events).toHaveLength(1);
    expect(await commit(take(loser, first))).toEqual(new Set());
    expect(await commit(take(loser, second))).toEqual(new Set([loser]));
  });
});

describe("terminal runs", () => {
  const end = (runId: RunId, expected: number) =>
    update(runId, expected, NO_WAKE, { state: "succeeded", terminal_at: AT + 2 });

  it("are never updated again, and lose silently beside the others of their batch", async () => {
    const [ended, open] = [await created(), await created()];
    await commit(end(ended, 1));
    const before = await rows(ended);
    expect(await commit(update(ended, 2, withEverything(ended)), update(open, 1))).toEqual(new Set([open]));
    expect(await rows(ended)).toEqual(before);
  });

  it("lose without the guard of the database, too", async () => {
    const ended = await created();
    await commit(end(ended, 1));
    const before = await rows(ended);
    await store.sql`alter table runs disable trigger runs_terminal_guard`;
    try {
      expect(await commit(update(ended, 2, withEverything(ended)))).toEqual(new Set());
    } finally {
      await store.sql`alter table runs enable trigger runs_terminal_guard`;
    }
    expect(await rows(ended)).toEqual(before);
  });

  it("can still be confirmed, so that a late signal is recorded", async () => {
    const ended = await created();
    await commit(end(ended, 1));
    expect(await commit(confirmation(ended, 2, { signal: [signal()] }))).toEqual(new Set([ended]));
    expect((await rows(ended)).signals).toHaveLength(1);
  });

  it("keep their row in a manual update, which skips it without an error", async () => {
    const ended = await created();
    await commit(end(ended, 1));
    const before = await rows(ended);
    const touched = await store.sql`update runs set state = 'running', terminal_at = null where id = ${ended}`;
    expect(touched.count).toBe(0);
    expect(await rows(ended)).toEqual(before);
  });
});

describe("a confirmation beside a commit of another node", () => {
  it.each([null, AT])("loses, and leaves the wake row to that commit (%s)", async (due) => {
    const runId = await created();
    let confirmed: Promise<ReadonlySet<string>> | undefined;
    await store.sql.begin(async (transaction) => {
      const other = transaction as unknown as typeof store.sql;
      await commitRuns(other, [encodeRun(update(runId, 1, wake(runId, AT + 60_000)))], new PlainStatements());
      confirmed = commit(confirmation(runId, 1, due === null ? NO_WAKE : wake(runId, due)));
      // It does not wait for the other session; if it did, it would be found waiting.
      const waiting = () => store.sql`
        select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      await Promise.race([confirmed, until(async () => (await waiting()).length > 0)]);
    });
    expect(await confirmed).toEqual(new Set());
    expect((await rows(runId)).wakes).toMatchObject([{ due_at: new Date(AT + 60_000) }]);
  });

  // Two commits that each hold rows that the other needs would wait for each other until Postgres ends one of them.
  it("loses to another confirmation, and does not wait for it", async () => {
    const [one, other] = [await created(), await created()];
    const same = { command: [command()] };
    const both = (runIds: RunId[]) => runIds.map((runId) => confirmation(runId, 1, { ...same, ...wake(runId, AT) }));
    await store.sql.begin(async (transaction) => {
      await commitRuns(
        transaction as unknown as typeof store.sql,
        both([one, other]).map((commit) => encodeRun(commit)),
        new PlainStatements(),
      );
      expect(await commit(...both([other, one]))).toEqual(new Set());
    });
    for (const runId of [one, other]) expect((await rows(runId)).run_commands).toHaveLength(1);
  });
});

describe("new runs", () => {
  const keyed = (key: string) => ({ scope: "/orders", key });

  it("begin at revision 1 with their start, variables and wake", async () => {
    const runId = await created({ ...variables({ x: { deep: [1] } }), wake: [{ due_at: AT + 9 }] });
    const found = await rows(runId);
    expect(found.runs).toMatchObject([{ revision: 1, last_seq: 1, state: "pending" }]);
    expect(found.run_starts).toMatchObject([{ inputs: { n: 1 }, request_hash: "hash" }]);
    expect(found.run_variables).toMatchObject([{ name: "x", value: { deep: [1] } }]);
    expect(found.wakes).toMatchObject([{ due_at: new Date(AT + 9), tries: 0 }]);
  });

  it("lose if their id exists, and change nothing of that run", async () => {
    const runId = await created();
    const before = await rows(runId);
    expect(await commit(creation({ runId }, keyed(uuidv7())))).toEqual(new Set());
    expect(await rows(runId)).toEqual(before);
  });

  it("lose if their key is taken, and write nothing", async () => {
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

  describe("that a run creates under a key", () => {
    const spawning = (parent: RunId, key: string): RunCommit => {
      const { rows } = creation({}, { ...keyed(key), made_by: parent });
      return update(parent, 1, rows);
    };

    it("exist exactly where their parent's commit has won, in one group and in two at the same time", async () => {
      const parents = await Promise.all(Array.from({ length: 6 }, () => created()));
      const commits = parents.map((parent, nth) => spawning(parent, nth < 3 ? "one-group" : "two-groups"));
      const outcomes = [
        await commit(...commits.slice(0, 3)),
        ...(await Promise.all(commits.slice(3).map((each) => commit(each)))),
      ];
      const won = new Set(outcomes.flatMap((ids) => [...ids]));
      for (const { runId, rows: owed } of commits) {
        const exists = (await rows(owed.new_run?.[0]?.id ?? runId)).runs.length === 1;
        expect(exists).toBe(won.has(runId));
      }
      expect(parents.filter((parent) => won.has(parent))).toHaveLength(2);
    });
  });

  it("may have children in the commit of their start, which exist where it has won, in both forms of the statement", async () => {
    const taken = await created();
    const family = (runId: RunId): RunCommit => {
      const { rows: start } = creation({ runId });
      const { rows: child } = creation({}, { made_by: runId });
      const both = Object.keys(start).map((name) => [name, [...(start as never)[name], ...(child as never)[name]]]);
      return { runId, rows: Object.fromEntries(both) };
    };
    for (const mates of [[], [creation({ runId: taken })]]) {
      const [one, stale] = [family(newRunId()), family(taken)];
      expect((await commit(one, ...mates)).has(one.runId)).toBe(true);
      for (const { id } of one.rows.new_run ?? []) expect((await rows(id)).run_events).toHaveLength(1);
      expect(await commit(stale)).toEqual(new Set());
      expect((await rows(stale.rows.new_run?.[1]?.id ?? "")).runs).toEqual([]);
    }
  });

  it("with one key in two scopes are two runs", async () => {
    const one = creation({}, { scope: "a/orders", key: "shared" });
    const other = creation({}, { scope: "b/orders", key: "shared" });
    expect(await commit(one, other)).toEqual(new Set([one.runId, other.runId]));
  });
});

describe("wakes", () => {
  it("are set, moved with their tries reset, left as they are, and removed", async () => {
    const runId = await created();
    await store.sql`update wakes set tries = 2 where run_id = ${runId}`;
    await commit(update(runId, 1));
    expect((await rows(runId)).wakes).toMatchObject([{ due_at: new Date(AT), tries: 2 }]);
    await commit(update(runId, 2, wake(runId, AT + 100)));
    expect((await rows(runId)).wakes).toMatchObject([{ due_at: new Date(AT + 100), tries: 0 }]);
    await commit(update(runId, 3, NO_WAKE));
    expect((await rows(runId)).wakes).toEqual([]);
    await commit(confirmation(runId, 4, wake(runId, AT + 200)));
    expect((await rows(runId)).wakes).toMatchObject([{ due_at: new Date(AT + 200), tries: 0 }]);
  });
});

describe("variables", () => {
  it("are written if they changed, and marked if they were removed", async () => {
    const runId = await created(variables({ a: 1, b: "two" }));
    await commit(
      update(runId, 1, {
        variable: [{ name: "a" }, { name: "b", value: { k: '"}' } }, { name: "c", value: null }],
      }),
    );
    expect((await rows(runId)).run_variables).toMatchObject([
      { name: "a" },
      { name: "b", value: { k: '"}' } },
      { name: "c", value: null },
    ]);
    const gone = await store.sql`select name from run_variables where run_id = ${runId} and value is null`;
    expect(gone).toMatchObject([{ name: "a" }]);
  });
});

describe("values", () => {
  it("come back as they were written, whatever their characters", async () => {
    const text = `"quoted" \\back {brace,} 'single' NULL , é 🜨 ${"\u0001"}\n`;
    const runId = await created(variables({ v: text }));
    await commit(update(runId, 1, {}, { step: text, output: { [text]: text } }));
    const found = await rows(runId);
    expect(found.run_variables).toMatchObject([{ value: text }]);
    expect(found.runs).toMatchObject([{ current_step: text, output: { [text]: text } }]);
  });
});
