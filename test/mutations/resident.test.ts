// A resident alone, on a host played by the test: how it handles lost commits and unknown outcomes, and that nothing leaves it
// before its commit has won. Mutants of the commit path turn these tests red, without a database.

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  type Answer,
  compileWorkflow,
  decide,
  newRun,
  type RunCommand,
  type RunCommit,
  STANDARD_RUN_LIMITS,
  startActor,
} from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import { createMetrics } from "../../src/metrics/index.js";
import { OutcomeUnknown } from "../../src/run/committer.js";
import type { LoadedRun } from "../../src/run/loaded-run.js";
import { OwedUndos } from "../../src/run/loaded-run.js";
import type { QueuedCommand } from "../../src/run/resident.js";
import { Resident, type ResidentHost } from "../../src/run/resident.js";
import { unitHost } from "../../src/run/unit-host.js";
import { asRevision } from "../../src/store/engine/revision.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { newDispatchId, newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";

const { program } = compileWorkflow({
  id: "wait",
  name: "wait",
  start: "hold",
  steps: [
    { id: "hold", type: "wait_for_signal", signal_name: "go", next: "after" },
    { id: "after", type: "noop" },
  ],
});
const { program: failing } = compileWorkflow({
  id: "failing",
  name: "failing",
  start: "hold",
  steps: [
    { id: "hold", type: "wait_for_signal", signal_name: "go", next: "fail" },
    { id: "fail", type: "error", code: "no", message: "no" },
  ],
});
const { program: forked } = compileWorkflow({
  id: "forked",
  name: "forked",
  start: "fork",
  steps: [
    { id: "fork", type: "parallel", branches: { a: { next: "a" }, b: { next: "b" }, c: { next: "c" } }, next: "meet" },
    ...["a", "b", "c"].map((id) => ({ id, type: "noop" })),
    { id: "meet", type: "join", next: "after" },
    { id: "after", type: "wait_for_signal", signal_name: "go" },
  ],
});
const runId = newRunId();
const NOW = 1_700_000_000_000;

/** The outcome of one submitted commit. */
type Fate = "won" | "lost" | "unknown";

class Host {
  /** Fates of the next commits; when none is left they win. */
  fates: Fate[] = [];
  recorded: Answer | undefined;
  hasLostNode = false;
  stepsPerCommit = 64;
  readonly commits: RunCommit[] = [];
  readonly log: string[] = [];
  readonly order: string[] = [];
  /** The number of the decision that throws. */
  throwsAt = Number.POSITIVE_INFINITY;
  /** Called with every decision, and when the rows of a commit are made. */
  onDecision: () => void = () => {};
  onRows: () => void = () => {};
  private decisions = 0;
  readonly resident = new Resident(runId, this.asHost());

  constructor(private readonly stored: () => LoadedRun = () => waitingForSignal()) {}

  command(command: RunCommand, id = uuidv7(), about: Partial<QueuedCommand> = {}): Promise<Answer> {
    return new Promise((resolve, reject) =>
      this.resident.deliver({ command, id, reach: EVERYTHING, keep: false, resolve, reject, ...about }),
    );
  }

  private asHost(): ResidentHost {
    const host = this;
    const units = unitHost();
    return {
      get hasLostNode() {
        return host.hasLostNode;
      },
      get stepsPerCommit() {
        return host.stepsPerCommit;
      },
      metrics: createMetrics(),
      scheduler: new FairScheduler(() => 0),
      lastWords: { say: (key) => void this.order.push(`says ${key}`) },
      committer: { submit: (commit) => this.submit(commit) },
      recordedAnswer: async () => this.recorded && { answer: this.recorded },
      clock: { now: () => NOW },
      hints: false,
      isMine: () => true,
      units: {
        ...units,
        recordOf: (context) => {
          this.onRows();
          return units.recordOf(context);
        },
      },
      facts: {
        current: (_lastEventAt, owed, fetched) => {
          if (++this.decisions === this.throwsAt) throw new Error("this decision throws");
          this.onDecision();
          const { order } = this;
          const now = () => void order.push("decides");
          return {
            ...{ ...facts(), ...owed, ...fetched },
            get now() {
              now();
              return NOW;
            },
          };
        },
        missedAction: false,
        refreshActions: async () => {},
        // The undo list is read, and has nothing.
        read: async (_run, need, { owedUndos }) => {
          if (need.kind === "undo") owedUndos.keep(need.since, { entries: [], complete: true });
          return owedUndos.facts;
        },
      },
      load: async () => {
        this.log.push("load");
        return this.stored();
      },
      dispatcher: { reserve: () => undefined, holds: () => true, resolved: () => {} },
      effects: {
        afterCommit: (_, events, sends) => {
          this.log.push(`let out ${[...events, ...sends].length > 0 ? "something" : "nothing"}`);
        },
      },
      residents: { keepIdle: () => {}, remove: () => {} },
      advance: () => {},
      advanceFailed: () => {},
    };
  }

  private async submit(commit: RunCommit): Promise<boolean> {
    this.commits.push(commit);
    const fate = this.fates.shift() ?? "won";
    this.log.push(`submit ${fate}`);
    // Gives anything that would come too early its chance.
    await new Promise((resolve) => setImmediate(resolve));
    if (fate === "unknown") throw new OutcomeUnknown("not answered");
    this.log.push(`committed ${fate}`);
    return fate === "won";
  }
}

const facts = () => ({
  ...{ now: NOW, random: 0, limits: STANDARD_RUN_LIMITS },
  uuid: () => uuidv7(),
  action: () => undefined,
  rule: () => undefined,
  licensed: () => true,
  conforms: () => [],
});

const identity = () => ({
  ...{ id: runId, workflowId: "wait", version: 1, definitionId: uuidv7(), dryRun: false },
  ...{ features: {}, inputs: {}, entrypoint: "", startedAt: NOW },
});

/** A run as it is stored: begun, and waiting. `owed`: entries of its undo list. */
function waitingForSignal(of = program, owed = 0): LoadedRun {
  if (!of) throw new Error("the workflow is not valid");
  const waiting = { state: "paused", step: "hold", entries: 1, entry: { number: 1, at: NOW } } as const;
  const wait = { kind: "signal", name: "go" } as const;
  const actor = startActor(of, { ...newRun(identity(), {}), ...waiting, wait, owed });
  return {
    actor,
    program: of,
    revision: asRevision(3),
    fence: "1",
    lastSeq: 3,
    lastEventAt: NOW,
    owedUndos: new OwedUndos(),
  };
}

/** A run whose three branches were created and have not ended. */
function waitingForBranches(): LoadedRun {
  if (!forked) throw new Error("the workflow is not valid");
  const actor = startActor(forked, newRun(identity(), {}));
  while (actor.context.wait?.kind !== "children") {
    const decision = decide(forked, actor.context, { type: "advance" }, facts(), EVERYTHING);
    if ("need" in decision) throw new Error("no fact is needed here");
    for (const transition of decision.transitions) actor.apply(transition);
  }
  return {
    actor,
    program: forked,
    revision: asRevision(3),
    fence: "1",
    lastSeq: 3,
    lastEventAt: NOW,
    owedUndos: new OwedUndos(),
  };
}

const end = (branch: string): RunCommand => ({
  ...{ type: "child", entry: Number(Object.keys(waitingForBranches().actor.context.groups)[0]), branch },
  ...{ state: "succeeded", owed: 0, unprotected: {} },
});

let host: Host;
beforeEach(() => {
  host = new Host();
});
afterEach(() => host.resident.discard());

const go = (): RunCommand => ({ type: "signal", id: uuidv7(), name: "go", payload: {}, actor: "api" });

describe("a resident", () => {
  it("a command to a run of another tenant is not told what its id was answered, however often it is replayed", async () => {
    host.fates = ["lost", "unknown", "won"];
    host.recorded = { type: "signal", id: uuidv7(), matched: true };
    const sent = host.command(go(), uuidv7(), { reach: { tenants: [uuidv7()] } });
    await expect(sent).rejects.toMatchObject({ status: 404, message: `there is no run ${runId}` });
    expect(host.commits.map(({ rows }) => Object.keys(rows))).toEqual([["confirm"], ["confirm"], ["confirm"]]);
  });

  it("a command whose commit was lost is replayed on what the store has, until it is answered", async () => {
    host.fates = ["lost", "lost", "unknown"];
    expect(await host.command(go())).toMatchObject({ type: "signal", matched: true });
    expect(host.log.filter((line) => line === "load")).toHaveLength(4);
    expect(new Set(host.commits.map(({ rows }) => rows.run_update?.[0]?.expected))).toEqual(new Set([3]));
    expect(
      new Set(host.commits.map(({ rows }) => rows.command?.[0]?.command_id)).size,
      "always under the same id",
    ).toBe(1);
  });

  it("says what it decides on before it decides", async () => {
    await host.command(go());
    expect(host.order.slice(0, 2)).toEqual([`says ${runId}`, "decides"]);
  });

  it("makes the rows of its commit before another run decides, where it needs no fact", async () => {
    host.onDecision = () => queueMicrotask(() => host.order.push("another decides"));
    host.onRows = () => host.order.push("rows");
    await host.command(go());
    const rows = host.order.indexOf("rows");
    expect(host.order.slice(0, rows).filter((what) => what === "decides").length).toBeGreaterThan(1);
    expect(host.order.slice(0, rows)).not.toContain("another decides");
  });

  it("says it again before the rows of its commit are made: another run may have decided since its last step", async () => {
    host = new Host(() => waitingForSignal(failing, 1));
    host.onDecision = () => queueMicrotask(() => host.order.push("another decides"));
    host.onRows = () => host.order.push("rows");
    await host.command(go());
    const rows = host.order.indexOf("rows");
    expect(host.order.slice(0, rows).slice(-2)).toEqual(["another decides", `says ${runId}`]);
  });

  it("a command whose commit won without an answer gets the recorded answer, and is not carried out again", async () => {
    host.fates = ["unknown"];
    host.recorded = { type: "signal", id: "the first", matched: true };
    expect(await host.command(go())).toEqual(host.recorded);
    expect(host.commits).toHaveLength(1);
  });

  it("replays are bounded: a command that never wins is answered with 503, and can be sent again", async () => {
    host.fates = Array(1_000).fill("lost");
    await expect(host.command(go())).rejects.toMatchObject({ status: 503 });
    expect(host.commits.length).toBeGreaterThan(1);
    expect(host.commits.length).toBeLessThan(100);
    host.fates = [];
    expect(await host.command(go())).toMatchObject({ matched: true });
  });

  it("effects leave only after their commit has won, and those of a lost commit never", async () => {
    host.fates = ["lost", "won"];
    const answered = host.command(go()).then(() => host.log.push("answered"));
    await answered;
    expect(host.log).toEqual([
      "load",
      "submit lost",
      "committed lost",
      "load",
      "submit won",
      "committed won",
      "let out something",
      "answered",
    ]);
  });

  it("a refusal is answered only after its revision is confirmed", async () => {
    host.fates = ["lost", "won"];
    expect(await host.command({ type: "offer", dispatchId: newDispatchId() })).toMatchObject({
      type: "refused",
    });
    expect(host.commits.map(({ rows }) => [rows.confirm?.[0]?.expected, rows.run_update])).toEqual([
      [3, undefined],
      [3, undefined],
    ]);
    expect(host.log.slice(0, 4)).toEqual(["load", "submit lost", "committed lost", "load"]);
  });

  it("ends of children that were taken with another wait again if a decision throws, and are answered", async () => {
    host = new Host(waitingForBranches);
    // The first end is decided; the second is taken with it; the decision on the third throws.
    host.throwsAt = 3;
    const [first, second, third] = ["a", "b", "c"].map((branch) => host.command(end(branch)));
    await expect(first).rejects.toThrow("this decision throws");
    expect(await Promise.all([second, third])).toEqual([{ type: "advanced" }, { type: "advanced" }]);
    expect(host.commits.flatMap(({ rows }) => rows.command ?? [])).toHaveLength(2);
  });

  it.each([1, 64])(
    "an end that the poll brings again while it waits is carried out once (up to %i steps a commit)",
    async (steps) => {
      host = new Host(waitingForBranches);
      host.stepsPerCommit = steps;
      const ids = new Map(["a", "b"].map((branch) => [branch, uuidv7()]));
      const deliver = (branch: string) => host.command(end(branch), ids.get(branch), { inboxId: ids.get(branch) });
      const answers = await Promise.all([...ids.keys(), ...ids.keys()].map(deliver));
      expect(answers).toEqual(Array.from({ length: 4 }, () => ({ type: "advanced" })));
      expect(host.commits.flatMap(({ rows }) => rows.command?.map((one) => one.command_id) ?? [])).toEqual([
        ...ids.values(),
      ]);
      expect(host.log.filter((line) => line === "load")).toHaveLength(1);
    },
  );

  it("a run steps on in the commit of a command, but after a node loss the command is committed first", async () => {
    const stepsOf = ({ rows }: RunCommit) => rows.audit_event?.flatMap((row) => row.step_id ?? []);
    await host.command(go());
    expect(stepsOf(host.commits[0] as RunCommit)).toContain("after");
    host = new Host();
    host.hasLostNode = true;
    await host.command(go());
    expect(stepsOf(host.commits[0] as RunCommit)).not.toContain("after");
    await until(() => host.commits.length === 2);
    // The next steps have a wake row, which counts how often they are tried.
    expect(host.commits[0]?.rows.wake?.[0]?.due_at).toBeGreaterThan(NOW);
    expect(stepsOf(host.commits[1] as RunCommit)).toContain("after");
  });
});
