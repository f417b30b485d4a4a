// A resident alone, its room played by the test: what it does when a commit is lost or its outcome unknown, and that nothing
// leaves it before its commit has won. Mutations of the commit path are proved here, without a database.
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  type Answer,
  compileWorkflow,
  newRun,
  type RunCommand,
  STANDARD_RUN_LIMITS,
  startActor,
} from "../../machines/index.js";
import { uuidv7 } from "../../src/ids.js";
import { createMetrics } from "../../src/metrics.js";
import { OutcomeUnknown } from "../../src/run/committer.js";
import { type Loaded, Resident } from "../../src/run/resident.js";
import type { RunRoom } from "../../src/run/room.js";
import type { RunCommit } from "../../src/store/commit-rows.js";
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
const runId = uuidv7();
const NOW = 1_700_000_000_000;

/** What becomes of one submitted commit. */
type Fate = "won" | "lost" | "unknown";

class Room {
  /** Fates of the next commits; when none is left they win. */
  fates: Fate[] = [];
  recorded: Answer | undefined;
  careful = false;
  readonly commits: RunCommit[] = [];
  readonly log: string[] = [];
  readonly resident = new Resident(runId, this.asRoom());

  command(command: RunCommand, id = uuidv7()): Promise<Answer> {
    return new Promise((resolve, reject) => this.resident.deliver({ command, id, keep: false, resolve, reject }));
  }

  private asRoom(): RunRoom {
    const isCareful = () => this.careful;
    return {
      get careful() {
        return isCareful();
      },
      metrics: createMetrics(),
      stepsPerCommit: 64,
      committer: { submit: (commit) => this.submit(commit) },
      store: { repeatedAnswer: async () => this.recorded },
      now: () => NOW,
      facts: () => ({
        now: NOW,
        random: 0,
        limits: STANDARD_RUN_LIMITS,
        uuid: () => uuidv7(),
        action: () => undefined,
        rule: () => undefined,
        licensed: () => true,
        conforms: () => [],
        missed: { action: false },
      }),
      learnActions: async () => {},
      fetch: async () => ({}),
      load: async () => this.load(),
      offerFor: () => undefined,
      released: (_, events, effects) => {
        this.log.push(`released ${[...events, ...effects].length > 0 ? "something" : "nothing"}`);
      },
      withdrawn: () => {},
      arm: () => undefined,
      rested: () => {},
      leave: () => {},
      stuck: () => {},
    };
  }

  /** The run as it is stored: begun, and waiting. */
  private load(): Loaded {
    if (!program) throw new Error("the workflow is not sound");
    this.log.push("load");
    const run = {
      ...{ id: runId, workflowId: "wait", version: 1, definitionId: uuidv7(), dryRun: false },
      ...{ features: {}, inputs: {}, entrypoint: "", startedAt: NOW },
    };
    const waiting = { state: "paused", step: "hold", entries: 1, entry: { number: 1, at: NOW } } as const;
    const wait = { kind: "signal", name: "go" } as const;
    const actor = startActor(program, { ...newRun(run, {}), ...waiting, wait });
    return { actor, program, revision: 3, lastSeq: 3, lastEventAt: NOW };
  }

  private async submit(commit: RunCommit): Promise<boolean> {
    this.commits.push(commit);
    const fate = this.fates.shift() ?? "won";
    this.log.push(`submit ${fate}`);
    // Whatever would come too early has its chance.
    await new Promise((resolve) => setImmediate(resolve));
    if (fate === "unknown") throw new OutcomeUnknown("nobody knows");
    this.log.push(`committed ${fate}`);
    return fate === "won";
  }
}

let room: Room;
beforeEach(() => {
  room = new Room();
});
afterEach(() => room.resident.discard());

const go = (): RunCommand => ({ type: "signal", id: uuidv7(), name: "go", payload: {}, actor: "api" });

test("a command whose commit was lost is replayed on what the store has, until it is answered", async () => {
  room.fates = ["lost", "lost", "unknown"];
  expect(await room.command(go())).toMatchObject({ type: "signal", matched: true });
  expect(room.log.filter((line) => line === "load")).toHaveLength(4);
  expect(new Set(room.commits.map(({ expected }) => expected))).toEqual(new Set([3]));
  expect(new Set(room.commits.map(({ commands }) => commands?.[0]?.id)).size, "always under the same id").toBe(1);
});

test("a command that was carried out although nobody said so gets the recorded answer, and is not carried out again", async () => {
  room.fates = ["unknown"];
  room.recorded = { type: "signal", id: "the first", matched: true };
  expect(await room.command(go())).toEqual(room.recorded);
  expect(room.commits).toHaveLength(1);
});

test("replays are bounded: a command that never wins is answered with 503, and can be sent again", async () => {
  room.fates = Array(1_000).fill("lost");
  await expect(room.command(go())).rejects.toMatchObject({ status: 503 });
  expect(room.commits.length).toBeGreaterThan(1);
  expect(room.commits.length).toBeLessThan(100);
  room.fates = [];
  expect(await room.command(go())).toMatchObject({ matched: true });
});

test("nothing is let out before its commit has won, and nothing of a lost one ever", async () => {
  room.fates = ["lost", "won"];
  const answered = room.command(go()).then(() => room.log.push("answered"));
  await answered;
  expect(room.log).toEqual([
    "load",
    "submit lost",
    "committed lost",
    "load",
    "submit won",
    "committed won",
    "released something",
    "answered",
  ]);
});

test("a refusal is a decision too: its revision is confirmed before it is answered", async () => {
  room.fates = ["lost", "won"];
  expect(await room.command({ type: "offer", dispatchId: uuidv7() })).toMatchObject({ type: "refused" });
  expect(room.commits.map(({ expected, update }) => [expected, update])).toEqual([
    [3, undefined],
    [3, undefined],
  ]);
  expect(room.log.slice(0, 4)).toEqual(["load", "submit lost", "committed lost", "load"]);
});

test("a run steps on in the commit of a command; but what it is asked when a node has just died is durable first", async () => {
  const stepsOf = ({ events }: RunCommit) => events.flatMap(({ stepId }) => stepId ?? []);
  await room.command(go());
  expect(stepsOf(room.commits[0] as RunCommit)).toContain("after");
  room = new Room();
  room.careful = true;
  await room.command(go());
  expect(stepsOf(room.commits[0] as RunCommit)).not.toContain("after");
  await until(() => room.commits.length === 2);
  // What it does then is watched: its wake row counts how often it is tried.
  expect(room.commits[0]?.wake).toBeGreaterThan(NOW);
  expect(stepsOf(room.commits[1] as RunCommit)).toContain("after");
});
