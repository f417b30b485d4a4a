// Random workflows, a random next version of each, and a run that is asked to go on under it wherever it stands. Whatever the check allows
// goes on to an end that breaks no law, and undoes what the old version did as it was recorded. More by command:
// CASES=20000 SEED=1 npx vitest run test/machines/migrate-fuzz.test.ts; CASES=1 SEED=<seed> plays one story again.
// @module-tag both
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type Answer,
  actionText,
  compileWorkflow,
  type Dispatch,
  type JsonObject,
  type Program,
} from "../../machines/index.js";
import { cases, firstSeed } from "../harness/long.js";
import { help } from "./acts.js";
import { worldViolations } from "./chain.js";
import { ACTIONS, documents, program } from "./definitions.js";
import { edited } from "./edits.js";
import { around, families, type Node, optionsOf } from "./families.js";
import { type Random, randomOf } from "./scheduler.js";
import { Simulation, type SimulationOptions, type WorkerMove, type World } from "./simulation.js";
import type { OwnedUndo } from "./world.js";

const CASES = cases(8, 150);
const FIRST = firstSeed();

const wait = (step: Record<string, unknown>): Node => ({ step: { id: "?", ...step } as Node["step"], bodies: [] });
const core = fc.constantFrom(
  wait({ type: "wait_for_signal", signal_name: "go" }),
  wait({ type: "wait_for_signal", signal_name: "stop", timeout_ms: 3_000, on_timeout: "continue" }),
  wait({ type: "wait_for_event", topic: "made", match: "event.payload.n > 0" }),
  wait({ type: "wait_duration", duration_ms: 5_000 }),
  wait({ type: "manual_approval", assignee: "ann", due_in_ms: 9_000 }),
  wait({ type: "action", action: "shop.charge", compensation: { action: "shop.refund" }, timeout_ms: 20_000 }),
  wait({ type: "error", on_failure: "incident" }),
);

const plain = documents.map(
  ({ steps, head }): SimulationOptions => ({
    ...{ program: program(steps, head), inputs: { n: 2 }, actions: ACTIONS, entries: 60 },
  }),
);
const stories: fc.Arbitrary<SimulationOptions> = fc.oneof(
  { weight: 5, arbitrary: core.chain(around).map(optionsOf) },
  { weight: 2, arbitrary: families.map(optionsOf) },
  { weight: 2, arbitrary: plain },
);

/** What the stories met: a check that allows all, or nothing, or never anything of interest, would pass them unseen. */
type Counts = Record<string, number>;

/** The next version, and how its author or the operator says which steps have another id. */
function nextVersion(
  first: Program,
  random: Random,
): {
  readonly two: Program;
  readonly renamed: Readonly<Record<string, string>>;
  readonly steps?: Record<string, string>;
} {
  const { document, renamed } = edited(first, random);
  const told = random();
  const migrations: JsonObject = told < 0.45 ? { migrations: { "1": renamed } } : {};
  const two = compileWorkflow({ ...document, ...migrations }, { version: 2 }).program as Program;
  return { two, renamed, ...(told >= 0.45 && told < 0.9 && { steps: { ...renamed } }) };
}

/** The worker answers by attempt and step, not by the number of calls. */
function workerOf(seed: number) {
  return ({ attempt, call }: Dispatch): WorkerMove => {
    const lot = randomOf(seed + attempt + call.stepId.length + call.action.length)();
    if (lot < 0.7) return { kind: "result", result: { n: attempt } };
    if (lot < 0.8) return { kind: "silence" };
    const code = lot < 0.9 ? "busy" : lot < 0.95 ? "declined" : "unsure";
    return { kind: "failure", code, retryable: code === "busy", outcomeUnknown: code === "unsure" };
  };
}

const living = (world: World) => [...world.runs.values()].filter(({ ended }) => !ended);

/** Anything that may happen to a run. */
function happen(world: World, random: Random): void {
  const runs = living(world);
  const run = runs[Math.floor(random() * runs.length)];
  const lot = random();
  if (!run) return;
  if (lot < 0.45) world.settle();
  else if (lot < 0.6) world.move();
  else if (lot < 0.75) run.elapse();
  else if (lot < 0.8) run.signal(random() < 0.5 ? "go" : "stop", { by: "story" });
  else if (lot < 0.85) run.submit({ approved: random() < 0.7, n: 1 });
  else if (lot < 0.9) run.publish(random() < 0.5 ? "made" : "sent", { n: 3 }, { n: "3" });
  else if (lot < 0.95) run.command({ type: random() < 0.7 ? "pause" : "resume", actor: "user:ops" });
  else if (run.context.wait?.kind === "incident") help(world);
}

/** Perhaps back to where it came from, where that is allowed. */
function goBack(root: Simulation, renamed: Readonly<Record<string, string>>, random: Random, counts: Counts): void {
  if (root.ended || random() > 0.3) return;
  const steps = Object.fromEntries(Object.entries(renamed).map(([old, step]) => [step, old]));
  const answer = root.once({ type: "migrate", version: 1, steps, actor: "user:ops" });
  if (answer.type === "acted" && answer.changed) counts["gone back"] = (counts["gone back"] ?? 0) + 1;
}

/** Everything ends. */
function finish(world: World, random: Random): void {
  if (random() < 0.45) living(world)[0]?.cancel();
  for (let rounds = 0; rounds < 4; rounds++) {
    help(world);
    world.drain(300);
    for (const run of living(world)) answer(run, rounds);
    world.drain(300);
  }
  for (const run of living(world)) if (run.context.run.parentRunId === undefined) run.cancel();
  world.drain(5_000);
  help(world);
  world.drain(5_000);
}

function answer(run: Simulation, nth: number): void {
  const { wait } = run.context;
  if (wait?.kind === "user_task") run.submit({ approved: nth % 2 === 0, n: nth, m: nth });
  else if (wait?.kind === "signal") run.signal(wait.name, { nth });
  else if (wait?.kind === "event") run.publish(wait.topic, { n: 3 + nth }, { ...wait.headers });
}

/** The faults of a run that was not abandoned: what it owed when it moved was undone once, by the action that was recorded. */
function undoFaults(world: World, owed: readonly OwnedUndo[], moved: boolean, counts: Counts): string[] {
  const sent = [...world.runs.values()].flatMap((run) => run.sent.map((dispatch) => ({ run, dispatch })));
  return owed.flatMap((before) => {
    const entry = world.undo.find(({ ordinal }) => ordinal === before.ordinal) as OwnedUndo;
    const { forwardIdempotencyKey: key } = before;
    const calls = sent.filter(
      ({ dispatch: { call } }) => call.phase === "compensation" && call.forwardIdempotencyKey === key,
    );
    const results = calls.filter(({ run, dispatch }) => run.moveOf(dispatch.dispatchId)?.kind === "result");
    const others = calls.filter(({ dispatch: { call } }) => actionText(call) !== before.action);
    const owner = world.runs.get(entry.owner);
    const down = owner !== undefined && owner.state !== "succeeded" && !owner.context.ending?.abandon;
    if (moved && entry.state === "done") counts.undone = (counts.undone ?? 0) + 1;
    return [
      entry.action !== before.action && `the undo ${key} was ${before.action} and became ${entry.action}`,
      results.length > 1 && `the undo ${key} was done ${results.length} times`,
      others.length > 0 &&
        `the undo ${key} was to be ${before.action}, and was ${others.map(({ dispatch }) => actionText(dispatch.call))}`,
      down && entry.state === "owed" && `the undo ${key} is still owed`,
      entry.state === "done" && results.length !== 1 && `the undo ${key} is settled, and nothing has done it`,
    ].filter((fault) => typeof fault === "string");
  });
}

function tell(counts: Counts, run: Simulation, answer: Answer, renamed: boolean): void {
  const allowed = answer.type === "acted" && answer.changed;
  const { frames, owed, wait } = run.context;
  const names = [
    allowed ? "allowed" : "refused",
    allowed && renamed && "renamed",
    allowed && frames.length > 0 && "in a block",
    allowed && owed > 0 && "owing",
    allowed && `at ${wait?.kind ?? "no wait"}`,
  ];
  for (const name of names) if (name) counts[name] = (counts[name] ?? 0) + 1;
  for (const { message } of (answer.type === "refused" && answer.reasons) || []) {
    const reason = `refused: ${message.replace(/"[^"]*"/g, "…").slice(0, 60)}`;
    counts[reason] = (counts[reason] ?? 0) + 1;
  }
}

/** The broken laws. Undefined: none. */
function story(seed: number, counts: Counts): string | undefined {
  const random = randomOf(seed);
  const [options] = fc.sample(stories, { seed, numRuns: 1 });
  if (!options) throw new Error("no story");
  const { two, renamed, steps } = nextVersion(options.program, random);
  const root = new Simulation({
    ...options,
    versions: { 1: options.program, 2: two },
    worker: workerOf(seed),
    reload: random() < 0.5,
  });
  const { world } = root;
  world.choose = (count) => Math.floor(random() * count);
  const told: string[] = [];
  try {
    root.advance();
    for (let moves = Math.floor(random() * 8); moves > 0; moves--) happen(world, random);
    if (random() < 0.6) world.settle();
    if (root.ended) return undefined;
    const [before, rows, step] = [structuredClone(root.context), root.rows.length, root.context.step];
    const owed = root.undo
      .filter(({ state, action }) => state === "owed" && action !== undefined)
      .map((entry) => ({ ...entry }));
    const answer = root.once({ type: "migrate", version: 2, actor: "user:ops", ...(steps && { steps }) });
    tell(counts, root, answer, root.context.step !== step);
    const moved = answer.type === "acted" && answer.changed;
    told.push(`asked at ${step} (${before.wait?.kind}): ${JSON.stringify(answer)}`);
    if (!moved) expect([root.context, root.rows.length]).toEqual([before, rows]);
    else expect(root.context.run.version).toBe(2);
    for (let moves = Math.floor(random() * 6); moves > 0; moves--) happen(world, random);
    goBack(root, renamed, random, counts);
    finish(world, random);
    told.push(
      ...worldViolations(world).map((law) => `broken: ${law}`),
      ...undoFaults(world, owed, moved, counts).map((law) => `broken: ${law}`),
    );
    if (moved) counts[root.state] = (counts[root.state] ?? 0) + 1;
  } catch (thrown) {
    told.push(`broken: ${thrown instanceof Error ? (thrown.stack ?? thrown.message) : thrown}`);
  }
  if (!told.some((line) => line.startsWith("broken"))) return undefined;
  const versions = [options.program, two].map(({ document }) => JSON.stringify(document));
  return [`seed ${seed}:`, ...told.map((line) => line.slice(0, 1_500)), ...versions].join("\n");
}

describe("migrations", () => {
  it("what the check allows goes on to its end, and undoes what was done before", {
    timeout: 60_000 + CASES * 100,
  }, () => {
    console.log(`migrations: ${CASES} stories from seed ${FIRST}`);
    const counts: Counts = {};
    for (let seed = FIRST; seed < FIRST + CASES; seed++) {
      const fault = story(seed, counts);
      if (fault) throw new Error(fault);
    }
    console.log("seen", counts);
    if (CASES < 100) return;
    const share = (name: string) => (counts[name] ?? 0) / CASES;
    for (const name of ["allowed", "refused"]) expect(share(name), name).toBeGreaterThan(0.1);
    if (CASES < 1_000) return;
    for (const [name, least] of Object.entries(SHARES)) expect(share(name), name).toBeGreaterThan(least);
  });
});

/** The least shares of many stories: half of what is usual. */
const SHARES = {
  renamed: 0.02,
  "in a block": 0.03,
  owing: 0.05,
  undone: 0.02,
  "at dispatched": 0.015,
  "at incident": 0.015,
};
