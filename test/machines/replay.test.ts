// The replay law: stopping after every commit, reloading and going on gives the same end and the same audit rows as never
// stopping, and as committing after every transition.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Dispatch } from "../../machines/index.js";
import { violations } from "./chain.js";
import { ACTIONS, documents, program, type StepDocument } from "./definitions.js";
import { Simulation, type SimulationOptions, type WorkerMove } from "./simulation.js";

type Move =
  | "work"
  | "elapse"
  | "go"
  | "stop"
  | "cancel"
  | "abandon"
  | "heartbeat"
  | "stale"
  | "quarantine"
  | "release"
  | "carry"
  | "credit";

const moves: fc.Arbitrary<Move[]> = fc.array(
  fc.constantFrom<Move>(
    "work",
    "work",
    "work",
    "elapse",
    "elapse",
    "go",
    "stop",
    "heartbeat",
    "stale",
    "carry",
    "credit",
    "quarantine",
    "release",
    "cancel",
    "abandon",
  ),
  { maxLength: 25 },
);

const workerMoves: fc.Arbitrary<WorkerMove[]> = fc.array(
  fc.oneof(
    fc.constant<WorkerMove>({ kind: "result", result: { ok: true, n: 1 } }),
    fc.constant<WorkerMove>({ kind: "result", result: {} }),
    fc.constant<WorkerMove>({ kind: "silence" }),
    fc.record({
      kind: fc.constant("failure" as const),
      code: fc.constantFrom("busy", "declined"),
      retryable: fc.boolean(),
      outcomeUnknown: fc.boolean(),
    }),
  ),
  { minLength: 1, maxLength: 8 },
);

interface Story {
  readonly document: { readonly steps: StepDocument[]; readonly head: Record<string, unknown> };
  readonly script: readonly Move[];
  readonly answers: readonly WorkerMove[];
  readonly n: number;
}

const stories = fc.record({
  document: documents,
  script: moves,
  answers: workerMoves,
  n: fc.integer({ min: 0, max: 4 }),
});

function play({ document, script, answers, n }: Story, how: Pick<SimulationOptions, "budget" | "reload">): Simulation {
  let credit = true;
  // By attempt, not by call order: the worker's answer must not depend on how often anything is asked.
  const worker = ({ attempt, call }: Dispatch) =>
    answers[(attempt + call.stepId.length) % answers.length] as WorkerMove;
  const simulation = new Simulation({
    program: program(document.steps, document.head),
    inputs: { n },
    worker,
    actions: ACTIONS,
    credit: () => credit,
    ...how,
  });
  simulation.advance();
  for (const move of script) {
    const { wait } = simulation.context;
    const dispatchId = wait && "dispatchId" in wait ? wait.dispatchId : "none";
    if (move === "work") simulation.work();
    else if (move === "elapse") simulation.elapse();
    else if (move === "go" || move === "stop") simulation.signal(move, { by: "script" });
    else if (move === "cancel") simulation.cancel();
    else if (move === "abandon") simulation.cancel(false);
    else if (move === "heartbeat") simulation.command({ type: "heartbeat", dispatchId, actor: "worker:w" });
    else if (move === "stale") simulation.result({}, { dispatchId: "another" });
    else if (move === "carry") simulation.command({ type: "carry", dispatchId });
    else if (move === "quarantine") simulation.command({ type: "quarantine" });
    else if (move === "release") simulation.command({ type: "release", actor: "api" });
    else {
      credit = !credit;
      if (credit && wait?.kind === "queued") simulation.command({ type: "offer", dispatchId, workerId: "w" });
    }
  }
  credit = true;
  simulation.command({ type: "release", actor: "api" });
  if (simulation.context.wait?.kind === "queued")
    simulation.command({ type: "offer", dispatchId: simulation.context.wait.dispatchId, workerId: "w" });
  simulation.drain(60);
  if (!simulation.ended) simulation.cancel();
  simulation.drain(3_000);
  return simulation;
}

const end = (simulation: Simulation) => ({
  state: simulation.state,
  context: JSON.parse(JSON.stringify(simulation.context)),
  rows: JSON.parse(JSON.stringify(simulation.rows)),
  undo: simulation.undo,
  signals: simulation.signals,
});

test("stopping after every commit, reloading and going on gives the same end and the same audit rows", () => {
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
  const runs = Number(process.env.RUNS ?? 1_500);
  const ends: Record<string, number> = {};
  console.log(`replay property: seed ${seed}, ${runs} stories`);
  fc.assert(
    fc.property(stories, (story) => {
      const whole = play(story, {});
      ends[whole.state] = (ends[whole.state] ?? 0) + 1;
      expect(violations(whole)).toEqual([]);
      expect(end(play(story, { reload: true }))).toEqual(end(whole));
      expect(end(play(story, { reload: true, budget: 1 }))).toEqual(end(whole));
    }),
    { seed, numRuns: runs },
  );
  console.log("ends", ends);
  // A property that only ever saw one kind of end would prove little.
  expect(Object.keys(ends).sort()).toEqual(["cancelled", "failed", "succeeded"]);
});
