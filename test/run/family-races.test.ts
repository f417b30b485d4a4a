// Families between two nodes: every order of two racing commits is forced. Nothing is lost, nothing happens twice, and the answers
// agree with the outcome.
// @module-tag both

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Answer, Dispatch, DispatchId, RunCommand, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { newDispatchId, newRunId } from "../harness/ids.js";
import { long } from "../harness/long.js";
import { until } from "../harness/until.js";
import { type Deed, expectSettled, familiesEnd, grouped, type Member, undoOf, undoViolations } from "./family-laws.js";
import { Gate, holdBack, type Side } from "./gate.js";
import { cancel, type Half, publish, registerActions, signal, start, startHalf } from "./rig.js";
import { report } from "./seen.js";

const FAMILIES = long(3, 14);
const HOUR_MS = 3_600_000;

let database: TestDatabase;
/** Families start here. The other node's clock may be an hour ahead, so a wait that is due in half an hour is due there. */
let here: Half;
let there: Half;
const gates = new Map<string, Gate>();
const deeds: Deed[] = [];

/** One family in a race: the root, its branch that pays, and the dispatch of the payment. */
interface Racer {
  readonly root: RunId;
  readonly branch: RunId;
  readonly dispatchId: DispatchId;
  readonly hereFirst: boolean;
  readonly nth: number;
}

beforeAll(async () => {
  database = await createTestDatabase({ max: 6 });
  await registerActions(database, "charge", "refund");
  const pay = {
    ...{
      id: "pay",
      type: "action",
      action: "shop.charge",
      timeout_ms: HOUR_MS / 2,
      retry: { max_attempts: 1, initial_backoff_ms: 1 },
    },
    compensation: { action: "shop.refund" },
  };
  const fork = [
    { id: "p", type: "parallel", branches: { a: { next: "pay" }, b: { next: "quick" } }, next: "j" },
    { id: "quick", type: "noop" },
    { id: "j", type: "join" },
  ];
  await publish(database, "pays", [...fork, pay]);
  await publish(database, "waits", [
    ...fork,
    { ...pay, next: "wait" },
    { id: "wait", type: "wait_for_signal", signal_name: "go" },
  ]);
});
afterAll(() => database.drop());

function work({ runId, call }: Dispatch) {
  const { phase, idempotencyKey: key, forwardIdempotencyKey: forwardKey } = call;
  deeds.push({ runId, phase, key, forwardKey });
  return phase === "compensation" ? { result: {} } : undefined;
}

interface Race {
  readonly workflow: "pays" | "waits";
  /** The racing commits: of the root, of the branch, or of both. */
  readonly on: readonly ("root" | "branch")[];
  readonly here: Side;
  readonly there: Side;
  /** The gates are set before the family starts. */
  readonly early?: true;
  readonly ahead?: number;
  readonly stepsPerCommit?: number;
  /** Every family; absent: all are gated. */
  readonly gated?: (nth: number) => boolean;
  /** No worker takes the call: it stays queued. */
  readonly credit?: false;
  readonly give: (racer: Racer) => Promise<readonly Answer[]>;
}

interface Raced extends Racer {
  readonly answers: readonly Answer[];
  readonly members: readonly Member[];
  readonly state: string;
  /** The branch's. */
  readonly branchState: string;
}

/** Runs the race and checks all families against the laws. `happened`: whether the payment may have been made. */
async function race(about: Race, happened: (raced: Raced) => boolean = () => true): Promise<Raced[]> {
  const { ahead = 0, stepsPerCommit } = about;
  here = await startHalf(database, { reply: work, stepsPerCommit });
  there = await startHalf(database, { applicationName: "saga-there", reply: work, ahead });
  for (const half of [here, there]) {
    holdBack(half, gates);
    half.dispatcher.credit = about.credit ?? true;
  }
  deeds.length = 0;
  try {
    const racers = await line(about);
    const answers = await Promise.all(racers.map(about.give));
    const families = await familiesEnd(
      database.sql,
      racers.map(({ root }) => root),
    );
    await expectSettled(database.sql, families, ahead > 0);
    return lawful(
      racers.map((racer, nth): Raced => {
        const members = families.get(racer.root) ?? [];
        const stateOf = (id: string) => members.find((member) => member.id === id)?.run.state ?? "";
        const states = { state: stateOf(racer.root), branchState: stateOf(racer.branch) };
        return { ...racer, ...states, members, answers: answers[nth] ?? [] };
      }),
      await undoOf(database.sql),
      happened,
    );
  } finally {
    gates.clear();
    await here.stop();
    await there.stop();
  }
}

/** The families, up to the point of the race. */
async function line(about: Race): Promise<Racer[]> {
  const gate = (nth: number) =>
    new Gate(
      nth % 2 === 0 ? here : there,
      new Map([
        [here, about.here],
        [there, about.there],
      ]),
    );
  const roots = Array.from({ length: FAMILIES }, () => newRunId());
  if (about.early) for (const [nth, root] of roots.entries()) gates.set(root, gate(nth));
  await Promise.all(roots.map((runId) => start(here.starter, about.workflow, { runId })));
  const branches = await until(async () => {
    const rows = await database.sql<{ id: RunId; root: RunId; dispatch: DispatchId }[]>`
      select id, root_run_id as root, record->'wait'->>'dispatchId' as dispatch from runs
      where parent_branch_id = 'a' and root_run_id = any(${roots}::text[]::uuid[]) and record->'wait'->>'dispatchId' is not null`;
    return rows.length === FAMILIES && new Map(rows.map((row) => [row.root, row]));
  });
  const stand = async () => {
    const rows = await database.sql`
      select 1 from runs where id = any(${roots}::text[]::uuid[]) and paused_reason = 'children'`;
    return about.early || rows.length === FAMILIES;
  };
  await until(stand, { what: "all roots at their joins" });
  return roots.map((root, nth): Racer => {
    const { id: branch = newRunId(), dispatch: dispatchId = newDispatchId() } = branches.get(root) ?? {};
    const raced = gates.get(root) ?? gate(nth);
    if (!about.early && (about.gated?.(nth) ?? true))
      for (const who of about.on) gates.set(who === "root" ? root : branch, raced);
    return { root, branch, dispatchId, nth, hereFirst: nth % 2 === 0 };
  });
}

function lawful(
  raced: Raced[],
  list: Awaited<ReturnType<typeof undoOf>>,
  happened: (raced: Raced) => boolean,
): Raced[] {
  const byOwner = grouped(list, ({ owner }) => owner);
  const byRun = grouped(deeds, ({ runId }) => runId);
  for (const one of raced) {
    const key = `${one.branch}:pay:1`;
    const mine = one.members.flatMap(({ id }) => byOwner.get(id) ?? []);
    const done = one.members.flatMap(({ id }) => byRun.get(id) ?? []);
    const found = undoViolations(one.members, mine, done, new Set(happened(one) ? [key] : []));
    if (found.length > 0)
      throw new Error(`${one.root} (${one.state}, here first: ${one.hereFirst}): ${found.join("\n")}`);
  }
  return raced;
}

const result = ({ dispatchId }: Racer): RunCommand => ({ type: "result", dispatchId, result: {}, actor: "worker:w" });
/** It records a command: in a row of its own, or beside the audit row of a worker's answer. */
const isReport = ({ rows: { command = [], audit_event: events = [] } }: Parameters<Side>[0]) =>
  command.length > 0 || events.some(({ command_id }) => command_id !== undefined);
const isFromInbox = ({ rows }: Parameters<Side>[0]) => (rows.inbox_gone?.length ?? 0) > 0;
const isSignal: Side = ({ rows }) => (rows.signal?.length ?? 0) > 0;

/** The branch waits for a signal, in a commit after the one that took the result. */
const waiting = ({ branch }: Racer) =>
  until(async () => {
    const [row] = await database.sql`select 1 from runs where id = ${branch} and paused_reason = 'signal'`;
    return row;
  });

/** Both orders took place, as far as the outcome shows it. */
function tell(name: string, raced: readonly Raced[], outcome: (raced: Raced) => string): void {
  const seen: Record<string, number> = {};
  for (const one of raced) seen[outcome(one)] = (seen[outcome(one)] ?? 0) + 1;
  report({ race: name, families: raced.length, ...seen });
}

describe("families between two nodes lose nothing and repeat nothing in a race of", () => {
  it("a signal to the root and a branch that begins to wait", async () => {
    const raced = await race({
      ...{ workflow: "waits", on: ["root", "branch"], gated: (nth) => nth % 4 < 2 },
      here: isSignal,
      there: ({ rows }) => rows.run_update?.[0]?.awaited_signal === "go",
      give: async (racer) => {
        const id = uuidv7();
        const paid = () => there.runtime.command(racer.branch, result(racer), { reach: EVERYTHING });
        const signalled = () =>
          here.runtime.command(racer.root, signal(id, "go", { nth: racer.nth }), { id, reach: EVERYTHING });
        if (racer.nth % 4 < 2) return Promise.all([signalled(), paid()]);
        // A third order: the branch already waits, visibly.
        const after = racer.nth % 4 === 2 ? await paid() : paid();
        if (racer.nth % 4 === 2) await waiting(racer);
        return [await signalled(), await after];
      },
    });
    const rows = await database.sql<
      { run_id: string; consumed_at: Date | null }[]
    >`select run_id, consumed_at from signals`;
    const consumed = new Map(rows.map((row) => [row.run_id, row.consumed_at]));
    for (const { root, nth, answers, members, state, branch } of raced) {
      expect(state).toBe("succeeded");
      expect(consumed.get(root)).toBeInstanceOf(Date);
      expect(members.find(({ id }) => id === branch)?.run.output).toEqual({ nth });
      const [answer] = answers;
      if (nth % 4 < 2) expect(answer, "nobody waited when it was recorded").toMatchObject({ matched: false });
      if (nth % 4 === 2) expect(answer, "the branch waits").toMatchObject({ matched: true });
    }
    expect(rows).toHaveLength(FAMILIES);
    tell("signal / branch waits", raced, ({ nth, answers }) => {
      const order = ["signal first", "wait first", "after", "free"][nth % 4];
      return `${order}, ${(answers[0] as { matched: boolean }).matched ? 202 : 409}`;
    });
  });

  it("the end of a child and the entry of its join", async () => {
    const raced = await race({
      ...{ workflow: "pays", on: ["root"], early: true, stepsPerCommit: 1 },
      here: ({ rows: { run_update: [row] = [] } }) => row?.step === "j" && row.paused_reason === "children",
      there: isFromInbox,
      give: async (racer) => [await there.runtime.command(racer.branch, result(racer), { reach: EVERYTHING })],
    });
    for (const { state, members } of raced) {
      expect(state).toBe("succeeded");
      expect(members[0]?.run.output).toEqual({ a: {}, b: null });
    }
    tell("child end / join", raced, ({ hereFirst }) => (hereFirst ? "joinFirst" : "endFirst"));
    expect(deeds).toHaveLength(FAMILIES);
  });

  it("the end of a child and a cancel of its parent", async () => {
    const raced = await race({
      ...{ workflow: "pays", on: ["root"] },
      here: isReport,
      there: isFromInbox,
      give: (racer) =>
        Promise.all([
          here.runtime.command(racer.root, cancel, { reach: EVERYTHING }),
          there.runtime.command(racer.branch, result(racer), { reach: EVERYTHING }),
        ]),
    });
    for (const { state, answers, hereFirst, branchState } of raced) {
      expect(branchState).toBe("succeeded");
      const [cancelled] = answers;
      // If the end is first, nothing is left to cancel.
      expect(state).toBe(hereFirst ? "cancelled" : "succeeded");
      expect(cancelled).toMatchObject({ type: "cancel", alreadyTerminal: !hereFirst });
    }
    tell("child end / cancel", raced, ({ hereFirst }) => (hereFirst ? "cancelFirst" : "endFirst"));
  });

  it("a result in a branch and a cancel from the parent", async () => {
    const raced = await race({
      ...{ workflow: "pays", on: ["branch"] },
      here: isFromInbox,
      there: isReport,
      give: (racer) =>
        Promise.all([
          here.runtime.command(racer.root, cancel, { reach: EVERYTHING }),
          there.runtime.command(racer.branch, result(racer), { reach: EVERYTHING }),
        ]),
    });
    for (const { state, branchState, hereFirst, answers } of raced) {
      expect(state).toBe("cancelled");
      expect(branchState).toBe(hereFirst ? "cancelled" : "succeeded");
      expect(answers[1]).toEqual({ type: "report", stale: false });
    }
    tell("result / cancel from above", raced, ({ branchState }) => `branch ${branchState}`);
  });

  it("a result and a cancel of the branch itself", async () => {
    const raced = await race({
      ...{ workflow: "pays", on: ["branch"] },
      here: isReport,
      there: isReport,
      give: (racer) =>
        Promise.all([
          here.runtime.command(racer.branch, cancel, { reach: EVERYTHING }),
          there.runtime.command(racer.branch, result(racer), { reach: EVERYTHING }),
        ]),
    });
    for (const { state, branchState, hereFirst, answers } of raced) {
      expect(state).toBe(hereFirst ? "failed" : "succeeded");
      expect(branchState).toBe(hereFirst ? "cancelled" : "succeeded");
      expect(answers[0]).toMatchObject({ alreadyTerminal: !hereFirst });
      expect(answers[1]).toEqual({ type: "report", stale: false });
    }
    tell("result / cancel", raced, ({ branchState }) => `branch ${branchState}`);
  });

  it("a result and a timeout", async () => {
    const raced = await race({
      ...{ workflow: "pays", on: ["branch"], ahead: HOUR_MS },
      here: isReport,
      there: () => true,
      give: (racer) =>
        Promise.all([
          here.runtime.command(racer.branch, result(racer), { reach: EVERYTHING }),
          there.runtime.command(racer.branch, { type: "advance" }, { reach: EVERYTHING }),
        ]),
    });
    for (const { state, hereFirst, answers } of raced) {
      expect(state).toBe(hereFirst ? "succeeded" : "failed");
      expect(answers[0]).toEqual({ type: "report", stale: !hereFirst });
    }
    tell("a result and a timeout", raced, ({ hereFirst }) => (hereFirst ? "resultFirst" : "timeoutFirst"));
  });

  it("a repeat of a command and a reload on another node", async () => {
    const raced = await race({
      ...{ workflow: "waits", on: ["root"] },
      here: isSignal,
      there: isSignal,
      give: async (racer) => {
        await here.runtime.command(racer.branch, result(racer), { reach: EVERYTHING });
        await waiting(racer);
        const id = uuidv7();
        const same = (half: Half) =>
          half.runtime.command(racer.root, signal(id, "go", { nth: racer.nth }), { id, reach: EVERYTHING });
        return Promise.all([same(here), same(there)]);
      },
    });
    const [row] = await database.sql`
      select count(*)::int as count, count(consumed_at)::int as consumed from signals
      where run_id = any(${raced.map(({ root }) => root)}::text[]::uuid[])`;
    expect(row).toEqual({ count: FAMILIES, consumed: FAMILIES });
    for (const { answers, state } of raced) {
      expect(state).toBe("succeeded");
      expect(answers[0]).toEqual(answers[1]);
      expect(answers[0]).toMatchObject({ matched: true });
    }
    tell("repeat / reload", raced, ({ hereFirst }) => (hereFirst ? "hereFirst" : "thereFirst"));
  });

  it("the withdrawal of a dispatch and its late delivery", async () => {
    const raced = await race(
      {
        ...{ workflow: "pays", on: ["branch"], credit: false },
        here: isFromInbox,
        there: ({ rows }) => rows.audit_event?.some((row) => row.event_type === "step.dispatched") === true,
        give: async (racer) => {
          const { dispatchId } = racer;
          const answers = await Promise.all([
            here.runtime.command(racer.root, cancel, { reach: EVERYTHING }),
            there.runtime.command(racer.branch, { type: "offer", dispatchId, workerId: "late" }, { reach: EVERYTHING }),
          ]);
          // The worker's answer if it has the dispatch. For a withdrawn dispatch it is stale.
          const late = await until(async () => {
            const [row] =
              await database.sql`select terminal_at, record->'ending' as ending from runs where id = ${racer.branch}`;
            return (
              (row?.terminal_at ?? row?.ending) &&
              there.runtime.command(racer.branch, result(racer), { reach: EVERYTHING })
            );
          });
          for (const half of [here, there]) half.dispatcher.credit = true;
          for (const half of [here, there]) half.dispatcher.offerAll();
          return [...answers, late];
        },
      },
      ({ hereFirst }) => !hereFirst,
    );
    for (const { state, branchState, hereFirst, answers } of raced) {
      expect([state, branchState]).toEqual(["cancelled", "cancelled"]);
      expect(answers[1]).toMatchObject(hereFirst ? { type: "refused" } : { type: "advanced" });
      expect(answers[2]).toEqual({ type: "report", stale: hereFirst });
    }
    tell("withdrawn / delivered", raced, ({ hereFirst }) => (hereFirst ? "withdrawn" : "delivered"));
  });
});
