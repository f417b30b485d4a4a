// User tasks against the clock, a cancel and each other: two nodes decide on the same revision of a run, and the test chooses
// which commits first. Every order is forced. In each, nothing is lost and nothing happens twice.
// @module-tag both
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Answer, RunCommand } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { until } from "../harness/until.js";
import { Gate, holdBack } from "./gate.js";
import { cancel, type Half, publish, start, startHalf } from "./rig.js";
import { allEnd, allSound, nothingUnwatched, report, type Seen } from "./seen.js";

const PAIRS = long(8, 40);
const HOUR_MS = 3_600_000;

let database: TestDatabase;
/** Runs live on the first node. The clock of the second is an hour ahead, so a task that is due in half an hour is due there. */
let here: Half;
let ahead: Half;

beforeAll(async () => {
  database = await createTestDatabase({ max: 6 });
  const form = { assignee: "ann", form_schema: { type: "object", required: ["n"] } };
  await publish(database, "ask", [{ id: "ask", type: "collect_input", ...form, due_in_ms: HOUR_MS / 2 }]);
  here = await startHalf(database);
  ahead = await startHalf(database, { applicationName: "saga-other", ahead: HOUR_MS });
  for (const half of [here, ahead]) holdBack(half, gates);
});
afterAll(async () => {
  await here.stop();
  await ahead.stop();
  await database.drop();
});

const gates = new Map<string, Gate>();

interface Task {
  readonly id: string;
  readonly run_id: string;
  readonly closed_at: Date | null;
  readonly submitted_at: Date | null;
  readonly submitted_by: string | null;
  readonly result: unknown;
}

const tasksOf = async (runIds: readonly string[]) =>
  new Map(
    (await database.sql<Task[]>`select * from user_tasks where run_id = any(${[...runIds]}::text[]::uuid[])`).map(
      (task) => [task.run_id, task],
    ),
  );

interface Raced {
  readonly runId: string;
  readonly task: Task;
  readonly firstWins: boolean;
  /** Answers of the submit on this node, and of its rival on the other node. */
  readonly answers: readonly [Answer, Answer];
  readonly seen: Seen;
  readonly signals: readonly { payload: unknown; consumed_at: Date | null }[];
}

const submit = (taskId: string, by: string): RunCommand => ({
  type: "submit",
  taskId,
  result: { n: 1, by },
  submittedBy: by,
  actor: "api",
});

/** A submit here against its rival there, on as many runs as there are pairs; on every other run the rival commits first. */
async function race(rival: (taskId: string) => RunCommand): Promise<Raced[]> {
  const before = [await here.conflicts(), await ahead.conflicts()];
  const runIds = await Promise.all(Array.from({ length: PAIRS }, () => start(here.starter, "ask")));
  const opened = await until(async () => {
    const tasks = await tasksOf(runIds);
    return tasks.size === PAIRS && tasks;
  });
  const answers = await Promise.all(
    runIds.map((runId, nth) => {
      const taskId = opened.get(runId)?.id ?? "";
      gates.set(runId, new Gate(nth % 2 === 0 ? here : ahead));
      return Promise.all([
        here.runtime.command(runId, submit(taskId, "ann"), { reach: EVERYTHING }),
        ahead.runtime.command(runId, rival(taskId), { reach: EVERYTHING }),
      ]);
    }),
  );
  await allEnd(database.sql, runIds);
  const seen = await allSound(database.sql, runIds);
  await nothingUnwatched(database.sql);
  const conflicts = [(await here.conflicts()) - (before[0] ?? 0), (await ahead.conflicts()) - (before[1] ?? 0)];
  // Each loser met the winner's revision; half of them are on either node.
  expect(conflicts).toEqual([PAIRS / 2, PAIRS / 2]);
  const tasks = await tasksOf(runIds);
  return Promise.all(
    runIds.map(async (runId, nth) => ({
      ...{ runId, task: tasks.get(runId) as Task, firstWins: nth % 2 === 0 },
      ...{ answers: answers[nth] as Raced["answers"], seen: seen[nth] as Seen },
      signals: await database.sql<Raced["signals"][number][]>`
        select payload, consumed_at from signals where run_id = ${runId}`,
    })),
  );
}

/** The submit by `who` took effect completely and once. */
function expectSubmitted({ task, seen, signals }: Raced, answer: Answer, who: string): void {
  const result = { n: 1, by: who };
  expect(answer).toEqual({ type: "submit", taskId: task.id, submittedAt: task.submitted_at?.getTime(), matched: true });
  expect(task).toMatchObject({ submitted_by: who, result, closed_at: task.submitted_at });
  expect(signals).toEqual([{ payload: result, consumed_at: expect.any(Date) }]);
  expect(seen.run).toMatchObject({ state: "succeeded", output: result, variables: { ask: result } });
  expect(rowsOfStep(seen)).toEqual(["step.started", "step.paused", "log", "step.succeeded"]);
}

/** The submit has left no trace. */
function expectRefused({ task, signals, seen }: Raced, answer: Answer): void {
  expect(answer).toMatchObject({ type: "closed" });
  expect(task).toMatchObject({ submitted_at: null, submitted_by: null, result: null, closed_at: expect.any(Date) });
  expect(signals).toEqual([]);
  expect(rowsOfStep(seen)).toEqual(["step.started", "step.paused", "step.failed"]);
}

const rowsOfStep = ({ events }: Seen) => events.filter(({ step_id }) => step_id === "ask").map((row) => row.event_type);

describe("in every order of their commits, one wins and nothing happens twice:", () => {
  it("a submit and the due time", async () => {
    const raced = await race(() => ({ type: "advance" }));
    for (const one of raced) {
      const [submitted, due] = one.answers;
      expect(due).toEqual({ type: "advanced" });
      if (one.firstWins) expectSubmitted(one, submitted, "ann");
      else {
        expectRefused(one, submitted);
        expect(one.seen.run).toMatchObject({ state: "failed", error: { code: "timeout" } });
      }
    }
    tell("a submit and the due time", raced);
  });

  it("a submit and a cancel", async () => {
    const raced = await race(() => cancel);
    for (const one of raced) {
      const [submitted, cancelled] = one.answers;
      if (one.firstWins) {
        expectSubmitted(one, submitted, "ann");
        expect(cancelled).toEqual({ type: "cancel", state: "succeeded", alreadyTerminal: true });
      } else {
        expectRefused(one, submitted);
        expect(cancelled).toEqual({ type: "cancel", state: "cancelled", alreadyTerminal: false });
        expect(one.seen.run.state).toBe("cancelled");
      }
    }
    tell("a submit and a cancel", raced);
  });

  it("two submits", async () => {
    // With its clock ahead the other node would find the task expired; here it must see it open.
    const raced = await withoutSkew(() => race((taskId) => submit(taskId, "bob")));
    for (const one of raced) {
      const [ann, bob] = one.answers;
      expectSubmitted(one, one.firstWins ? ann : bob, one.firstWins ? "ann" : "bob");
      expect(one.firstWins ? bob : ann).toMatchObject({ type: "closed" });
    }
    tell("two submits", raced);
  });
});

async function withoutSkew<T>(body: () => Promise<T>): Promise<T> {
  await ahead.stop();
  ahead = await startHalf(database, { applicationName: "saga-other" });
  holdBack(ahead, gates);
  return body();
}

function tell(race: string, raced: readonly Raced[]): void {
  const firstWins = raced.filter((one) => one.firstWins).length;
  report({ race, submitFirst: firstWins, rivalFirst: raced.length - firstWins });
}
