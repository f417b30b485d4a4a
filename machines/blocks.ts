// The blocks of a run that the token is in: going into a try or a round, the end of a block, an error on its way outward to the
// catch that takes it. Branches and items are runs of their own (children.ts); the run's own way down is in rollback.ts.

import { forgetEnded, stopChildren, succeed } from "./children.js";
import { doneLabel, raiseLabel } from "./compile.js";
import { type Frame, living, type RunContext, type StepError } from "./context.js";
import { complete, currentPlan, failStep, outcomeOf, outputFault, settle, store } from "./enter.js";
import { type Json, type JsonObject, measure } from "./json.js";
import { cutLoose, cutRow, failRun, joinUndo, leaveKept, merged, warnUnprotected } from "./rollback.js";
import type { Outcome, StepPlan } from "./steps/step.js";
import type { Draft } from "./transition.js";

type Try = Extract<Frame, { kind: "try" }>;

/** Into the step's own block: a try's chain, or the next round of a while. */
export function goInside(
  draft: Draft,
  plan: StepPlan,
  { start, edge, dueAt, rollback, rounds }: Extract<Outcome, { kind: "inside" }>,
): void {
  const { frames, entry, owed, unprotected } = draft.context;
  if (!entry) throw new Error("a block was entered without its step");
  if (plan.type.name === "try_catch") {
    const { catch: catchStep } = plan.attributes as { catch: string };
    const undoes = rollback ? ({ rollback } as const) : {};
    const frame: Try = { kind: "try", step: plan.id, catchStep, entry, dueAt, ...undoes, owed, unprotected };
    draft.change({ frames: [...frames, frame], unprotected: {} });
  } else if (ownFrame(draft.context) === undefined) {
    const { most = 0, keep = 0 } = rounds ?? {};
    const frame: Frame = { kind: "while", step: plan.id, entry, iteration: 0, outputs: [], most, keep };
    draft.change({ frames: [...frames, frame] });
  }
  draft.change({ step: start, entry: undefined, wait: undefined });
  draft.take(edge);
}

/** The frame of the while that the token stands at, from its first round on. */
export function ownFrame({ frames, step }: RunContext): Frame | undefined {
  const frame = frames.at(-1);
  return frame?.kind === "while" && frame.step === step ? frame : undefined;
}

export function dropOwnFrame(draft: Draft): void {
  if (ownFrame(draft.context)) pop(draft);
}

/** The token goes to a step, or to its block's end: catch chains that it does not stand in there are left, and their tries are done. */
export function leaveChains(draft: Draft, stepId: string | undefined): void {
  const chains = stepId === undefined ? undefined : draft.program.layout.get(stepId)?.chains;
  for (;;) {
    const frame = draft.context.frames.at(-1);
    if (frame?.kind !== "catch" || chains?.has(frame.step)) return;
    pop(draft);
    containerDone(draft, frame);
  }
}

/** A step whose block was left, not ended, has succeeded: by an `end` inside, or by a way out of its catch chain. */
function containerDone(draft: Draft, { step, entry }: Frame): void {
  const plan = draft.program.steps.get(step) as StepPlan;
  joinUndo(draft, plan, null, entry);
  draft.row("step.succeeded", "running", { stepId: step, metadata: { duration_ms: draft.now - entry.at } });
}

/** Whether an edge to `target` ends the catch chain that the token is in. */
export function endsChain({ context }: Draft, target: string): boolean {
  const frame = context.frames.at(-1);
  return frame?.kind === "catch" && frame.step === target;
}

/** Whether an edge from the token's step to `target` ends its block, from whichever catch chains it stands in. */
export function endsBlock({ program, context }: Draft, target: string): boolean {
  return program.layout.get(context.step ?? "")?.block.end === target;
}

/** The innermost block is done: a round, a try or catch chain, or the run. `output`: that of the last step entered. */
export function endBlock(draft: Draft, output: Json): void {
  const frame = draft.context.frames.at(-1);
  if (!frame) return finish(draft, output);
  if (frame.kind === "while") return nextRound(draft, frame, output);
  pop(draft);
  hop(draft, frame, doneLabel(frame.step));
  complete(draft, currentPlan(draft), { last: output });
}

function nextRound(draft: Draft, frame: Extract<Frame, { kind: "while" }>, output: Json): void {
  const outputs = frame.keep === 0 ? [] : [...frame.outputs, output].slice(-frame.keep);
  const fault = outputFault(draft, [...outputs]);
  const { frames } = draft.context;
  const kept = fault ? frame.outputs : outputs;
  draft.change({ frames: [...frames.slice(0, -1), { ...frame, iteration: frame.iteration + 1, outputs: kept }] });
  hop(draft, frame, doneLabel(frame.step));
  const plan = currentPlan(draft);
  settle(draft, plan, fault ? { kind: "failed", error: fault } : outcomeOf(draft, plan));
}

/** The run succeeds. Containers that an `end` leaves have succeeded with it; branches that were left running are stopped first. */
export function finish(draft: Draft, output: Json): void {
  const { frames, unprotected } = draft.context;
  for (const frame of [...frames].reverse()) containerDone(draft, frame);
  draft.change({ frames: [], unprotected: withOuter(frames, unprotected) });
  succeed(draft, output);
}

/** An error that no `on_error` took goes outward: a matching try catches it, every other container fails with it. */
export function raise(draft: Draft, error: StepError): void {
  const frame = draft.context.frames.at(-1);
  if (!frame) return failRun(draft, error);
  if (frame.kind === "try" && takes(draft, frame, error)) {
    hop(draft, frame, raiseLabel(frame.step));
    return unwind(draft, { entry: frame.entry.number, error });
  }
  pop(draft);
  hop(draft, frame, raiseLabel(frame.step));
  failStep(draft, currentPlan(draft), error);
}

function takes({ program }: Draft, { step }: Try, { code }: StepError): boolean {
  const { errors } = (program.steps.get(step)?.attributes ?? { errors: [] }) as { errors: readonly string[] };
  return errors.some((pattern) => (pattern.endsWith("*") ? code.startsWith(pattern.slice(0, -1)) : code === pattern));
}

/** The try's time has run out: what is inside is cancelled, a dispatch in flight is awaited first. */
export function tryTimedOut(draft: Draft): boolean {
  const { frames, wait, unwinding, ending } = draft.context;
  if (unwinding || ending) return false;
  const frame = frames.find((each) => each.kind === "try" && each.dueAt !== undefined && each.dueAt <= draft.now);
  if (!frame) return false;
  const error = { code: "timeout", message: "what is inside the try did not end in time", step_id: frame.step };
  draft.change({ unwinding: { entry: frame.entry.number, error, timedOut: true } });
  if (wait?.kind === "dispatched") {
    draft.owe({ kind: "dispatch.cancel", dispatchId: wait.dispatchId, reason: error.message });
    draft.take("note");
  } else leaveInside(draft, true);
  return true;
}

/** Up through what is inside the try that is being left. `cut`: the step that the token stands at did not come to an end. */
export function leaveInside(draft: Draft, cut: boolean): void {
  const { unwinding, wait, step, entry } = draft.context;
  if (wait?.kind === "queued") draft.owe({ kind: "dispatch.resolved", dispatchId: wait.dispatchId });
  if (cut && entry) cutRow(draft, "cancelled", "the try around it timed out");
  const plan = draft.program.steps.get(step ?? "");
  if (cut && plan) cutLoose(draft, plan);
  // A while between two rounds, or a step whose frame is its own, is left like any other.
  dropOwnFrame(draft);
  for (let frame = draft.context.frames.at(-1); frame; frame = draft.context.frames.at(-1)) {
    const last = frame.kind === "try" && frame.entry.number === unwinding?.entry;
    if (!last) pop(draft);
    hop(draft, frame, raiseLabel(frame.step));
    if (last) break;
    cutRow(draft, "cancelled", "the try around it timed out");
  }
  if (unwinding) unwind(draft, unwinding);
}

/** At the try: its children end first, then what completed inside is undone if that is asked for, then the catch has it. */
export function unwind(draft: Draft, unwinding: NonNullable<RunContext["unwinding"]>): void {
  draft.change({ unwinding });
  const frame = tryLeft(draft);
  const { entry, error, timedOut } = unwinding;
  const taken = takes(draft, frame, error);
  const rolledBack = taken && frame.rollback === true;
  // Branches that a join left running outlive a plain error.
  if ((timedOut || rolledBack) && living(draft.context, entry) > 0) {
    stopChildren(draft, entry, error.message, true);
    draft.change({ wait: { kind: "children" } });
    return draft.take("note");
  }
  draft.change({ wait: undefined, call: undefined, items: undefined });
  forgetEnded(draft, entry);
  if (rolledBack) {
    warnUnprotected(draft, entry);
    if (draft.context.owed > frame.owed) return draft.take("note");
  }
  arrive(draft, frame, error, taken);
}

/** All that completed inside the try is undone: its catch has the error. */
export function rolledBack(draft: Draft, { error }: NonNullable<RunContext["unwinding"]>): void {
  arrive(draft, tryLeft(draft), error, true);
}

function tryLeft({ context }: Draft): Try {
  const frame = context.frames.at(-1);
  if (frame?.kind !== "try") throw new Error("a run unwinds to no try");
  return frame;
}

function arrive(draft: Draft, frame: Try, error: StepError, taken: boolean): void {
  const { ending, frames } = draft.context;
  draft.change({ unwinding: undefined });
  if (ending) return leaveKept(draft, ending);
  pop(draft);
  const plan = currentPlan(draft);
  if (!taken) return failStep(draft, plan, error);
  const { error_var: name } = plan.attributes as { error_var: string };
  const caught = keep(draft, name, error);
  const chain: Frame = { kind: "catch", step: frame.step, entry: frame.entry, error: caught };
  draft.change({ frames: [...frames.slice(0, -1), chain], caught, step: frame.catchStep, entry: undefined });
  leaveChains(draft, frame.catchStep);
  draft.take("catch");
}

/** The error as the catch sees it: bounded, as any variable is. */
function keep(draft: Draft, name: string, error: StepError): StepError {
  const { code, message, step_id } = error;
  const fits = measure(error as unknown as Json);
  if (
    typeof fits === "number" &&
    fits <= draft.facts.limits.metadata &&
    !store(draft, { [name]: { ...error } as JsonObject })
  )
    return error;
  const short: StepError = { code: code.slice(0, 256), message: message.slice(0, 4096), step_id };
  return store(draft, { [name]: { ...short } as JsonObject })
    ? { code, message: "the error is too large", step_id }
    : short;
}

/** Every container around the token is left with the run. */
export function closeFrames(draft: Draft, code: string, message: string): void {
  const { frames, unprotected } = draft.context;
  if (frames.length === 0) return;
  for (const { step } of [...frames].reverse())
    draft.row("step.failed", draft.context.state, {
      stepId: step,
      metadata: { code, message, retryable: false, will_retry: false },
    });
  draft.change({ frames: [], unprotected: withOuter(frames, unprotected) });
}

/** The token moves to the step that holds its block. */
function hop(draft: Draft, { step, entry }: Frame, edge: string): void {
  draft.change({ step, entry, wait: undefined, call: undefined });
  draft.take(edge);
}

function pop(draft: Draft): void {
  const { frames, unprotected } = draft.context;
  draft.change({ frames: frames.slice(0, -1), unprotected: withOuter(frames.slice(-1), unprotected) });
}

/** What was left unprotected before the tries were entered counts again when they are left. */
function withOuter(frames: readonly Frame[], unprotected: RunContext["unprotected"]): RunContext["unprotected"] {
  const outer = frames.map((frame) => (frame.kind === "try" ? frame.unprotected : {}));
  return [unprotected, ...outer].reduce(merged);
}
