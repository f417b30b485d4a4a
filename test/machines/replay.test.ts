// Replay: a run that is stopped and reloaded after every commit has the same end and the same audit rows as one that is not, and as one
// that commits after every transition.
// @module-tag both
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { asDispatchId, type Dispatch } from "../../machines/index.js";
import { STEP_TYPES } from "../../machines/steps/index.js";
import { cases, firstSeed } from "../harness/long.js";
import { ACTS, help } from "./acts.js";
import { worldViolations } from "./chain.js";
import { ACTIONS, documents, program } from "./definitions.js";
import { families, optionsOf } from "./families.js";
import { Simulation, type SimulationOptions, type WorkerMove, type World } from "./simulation.js";

/** The commands from outside, with their weights. */
const WEIGHTS = {
  ...{ work: 3, elapse: 2, go: 1, stop: 1, made: 2, sent: 2, approve: 2, reject: 1, misfill: 1 },
  ...{ cancel: 1, abandon: 1, heartbeat: 1, stale: 1, quarantine: 1, release: 1, carry: 1, credit: 1 },
  ...{ pause: 1, resume: 1, retry_step: 2, skip_step: 1, fail: 1, retry_undo: 1, skip_undo: 1, terminate: 1 },
} as const;
type Move = keyof typeof WEIGHTS;
const moves = Object.entries(WEIGHTS) as [Move, number][];
const move = fc.oneof(...moves.map(([move, weight]) => ({ weight, arbitrary: fc.constant(move) })));

const workerMoves: fc.Arbitrary<WorkerMove[]> = fc.array(
  fc.oneof(
    fc.constant<WorkerMove>({ kind: "result", result: { ok: true, n: 1 } }),
    fc.constant<WorkerMove>({ kind: "result", result: {} }),
    fc.constant<WorkerMove>({ kind: "silence" }),
    fc
      .record({
        kind: fc.constant("failure" as const),
        code: fc.constantFrom("busy", "declined", "unsure"),
        retryable: fc.boolean(),
      })
      .map((failure) => ({ ...failure, outcomeUnknown: failure.code === "unsure" })),
  ),
  { minLength: 1, maxLength: 8 },
);

interface Story<D> {
  readonly document: D;
  /** A command from outside, the run that it goes to, and the moves of the world after it. */
  readonly script: readonly (readonly [move: Move, run: number, moves: number])[];
  readonly answers: readonly WorkerMove[];
  /** The choices among the possible moves. */
  readonly choices: readonly number[];
  readonly n: number;
}

function storiesOf<D>(documents: fc.Arbitrary<D>): fc.Arbitrary<Story<D>> {
  return fc.record({
    document: documents,
    script: fc.array(fc.tuple(move, fc.nat(9), fc.nat(6)), { maxLength: 25 }),
    answers: workerMoves,
    choices: fc.array(fc.nat(20), { minLength: 1, maxLength: 12 }),
    n: fc.integer({ min: 0, max: 4 }),
  });
}

function play({ script, answers, choices }: Story<unknown>, options: SimulationOptions): World {
  let credit = true;
  // By attempt, not by call order: the worker's answer must not depend on the number of calls.
  const worker = ({ attempt, call }: Dispatch) =>
    answers[(attempt + call.stepId.length) % answers.length] as WorkerMove;
  const root = new Simulation({ worker, credit: () => credit, ...options });
  const { world } = root;
  let chosen = 0;
  world.choose = (count) => (choices[chosen++ % choices.length] as number) % count;
  root.advance();
  for (const [move, nth, moves] of script) {
    const living = [...world.runs.values()].filter(({ ended }) => !ended);
    if (move === "credit") credit = !credit;
    else carryOut(move, living[nth % living.length] ?? root);
    for (let made = 0; made < moves; made++) world.move();
  }
  credit = true;
  for (const run of world.runs.values()) run.command({ type: "release", actor: "api" });
  world.drain(200);
  help(world);
  submitAll(world);
  publishAll(world);
  for (const run of world.runs.values()) if (!run.ended && run.context.run.parentRunId === undefined) run.cancel();
  world.drain(5_000);
  help(world);
  world.drain(5_000);
  return world;
}

/** Submits all open tasks. */
function submitAll(world: World): void {
  for (let asked = 0; asked < 5; asked++) {
    const waiting = [...world.runs.values()].filter(({ context }) => context.wait?.kind === "user_task");
    for (const run of waiting) run.submit({ approved: asked % 2 === 0, n: asked });
    world.drain(200);
  }
}

/** Publishes the awaited events, as long as any run waits. */
function publishAll(world: World): void {
  for (let told = 0; told < 5; told++) {
    const waiting = [...world.runs.values()].map((run) => ({ run, wait: run.context.wait }));
    for (const { run, wait } of waiting)
      if (wait?.kind === "event") run.publish(wait.topic, { n: told }, { ...wait.headers });
    world.drain(200);
  }
}

function carryOut(move: Exclude<Move, "credit">, run: Simulation): void {
  const { wait } = run.context;
  const dispatchId = asDispatchId(wait && "dispatchId" in wait ? wait.dispatchId : "none");
  if (move === "work") run.work();
  else if (move === "elapse") run.elapse();
  else if (move === "go" || move === "stop") run.signal(move, { by: "script" });
  else if (move === "made" || move === "sent") run.publish(move, { n: 3 }, { n: "3" });
  else if (move === "approve") run.submit({ approved: true, n: 1 }, { by: "ann" });
  else if (move === "reject") run.submit({ approved: false, n: 2 });
  else if (move === "misfill") run.submit({});
  else if (move === "cancel") run.cancel();
  else if (move === "abandon") run.cancel(false);
  else if (move === "heartbeat") run.command({ type: "heartbeat", dispatchId, actor: "worker:w" });
  else if (move === "stale") run.result({}, { dispatchId: asDispatchId("another") });
  else if (move === "carry") run.command({ type: "carry", dispatchId });
  else if (move === "quarantine") run.command({ type: "quarantine" });
  else if (move !== "release") run.command(ACTS[move]);
  else run.command({ type: "release", actor: "api" });
}

/** The end of every run. */
const end = (world: World) =>
  [...world.runs.values()].map((run) => ({
    context: JSON.parse(JSON.stringify(run.context)),
    rows: JSON.parse(JSON.stringify(run.rows)),
    undo: run.undo,
    signals: run.signals,
    taken: [...world.taken].filter((take) => take.startsWith(`${run.id}/`)),
    sent: run.sent,
    cancelled: run.cancelled,
  }));

function holds<D>(
  name: string,
  documents: fc.Arbitrary<D>,
  runs: number,
  types: readonly string[],
  optionsOf: (document: D, n: number) => SimulationOptions,
) {
  const seed = firstSeed();
  const ends: Record<string, number> = {};
  const begun: Record<string, number> = {};
  let events = 0;
  console.log(`replay property, ${name}: seed ${seed}, ${runs} stories`);
  const property = fc.property(storiesOf(documents), (story) => {
    const options = optionsOf(story.document, story.n);
    const whole = play(story, options);
    for (const run of whole.runs.values()) {
      ends[run.state] = (ends[run.state] ?? 0) + 1;
      for (const type of typesBegun(run)) begun[type] = (begun[type] ?? 0) + 1;
    }
    events += whole.taken.size;
    expect(worldViolations(whole)).toEqual([]);
    expect(end(play(story, { ...options, reload: true }))).toEqual(end(whole));
    expect(end(play(story, { ...options, reload: true, budget: 1 }))).toEqual(end(whole));
  });
  fc.assert(property, { seed, numRuns: runs });
  console.log("ends", ends, "events taken", events, "begun", begun);
  if (runs < 250) return;
  // A property that met only one kind of end, or not every step type, would prove little.
  expect(Object.keys(ends).sort()).toEqual(["cancelled", "failed", "succeeded"]);
  expect(types.filter((type) => !begun[type])).toEqual([]);
  expect(events).toBeGreaterThan(runs / 50);
}

/** The type of every step entry of the run. */
function typesBegun({ rows, program }: Simulation): string[] {
  const typeOf = (stepId: string) => program.steps.get(stepId)?.type.name;
  return rows.flatMap(({ type, stepId }) => (type === "step.started" && stepId && typeOf(stepId)) || []);
}

describe("stopping after every commit, reloading and going on gives the same end and the same audit rows", () => {
  const runs = cases(5, 30);

  it("of runs without blocks", { timeout: 60_000 + runs * 60 }, () => {
    const blocks = [
      "parallel",
      "join",
      "foreach",
      "while",
      "try_catch",
      "sub_saga",
      "spawn_saga",
      "emit_signal",
      "cancel",
    ];
    const types = [...STEP_TYPES.keys()].filter((type) => !blocks.includes(type));
    holds("runs", documents, runs, types, ({ steps, head }, n) => ({
      program: program(steps, head),
      inputs: { n },
      actions: ACTIONS,
    }));
  });

  it("of families, children and their dispatches included", { timeout: 60_000 + runs * 60 }, () => {
    holds("families", families, Math.ceil(runs / 3), [...STEP_TYPES.keys()], (document) => optionsOf(document));
  });
});
