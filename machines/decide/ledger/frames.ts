// The frames of a run: the blocks of its own that the token is in, innermost last. Branches and items are runs, not frames.

import type { RunContext } from "../../state/context.js";
import type { StepError } from "../../state/entry.js";
import type { Frame, Unprotected } from "../../state/frame.js";
import { catchOf, type Failure, type StepOutcome, type StepPlan } from "../../steps/step.js";
import type { StepErrorCode } from "../../values/error-code.js";
import type { Json } from "../../values/json.js";
import type { Draft } from "../draft.js";
import { joinUndoList, mergeUnprotected } from "./undo-list.js";
import { outputFault } from "./variables.js";

type TryFrame = Extract<Frame, { kind: "try" }>;
type WhileFrame = Extract<Frame, { kind: "while" }>;

/** Moves the token into the step's own block: a try's chain, or the next round of a while. */
export function enterBlock(draft: Draft, plan: StepPlan, outcome: Extract<StepOutcome, { kind: "enter_block" }>): void {
  const { frames, entry, owed, unprotected } = draft.context;
  const { start, edge, dueAt, rollback, rounds } = outcome;
  if (!entry) throw new Error(`the block of the step ${plan.id} is entered before the step`);
  if (plan.type.block?.kind === "try") {
    const catchStep = catchOf(plan);
    const undoes = rollback ? ({ rollback } as const) : {};
    const frame: TryFrame = { kind: "try", step: plan.id, catchStep, entry, dueAt, ...undoes, owed, unprotected };
    draft.change({ frames: [...frames, frame], unprotected: {} });
  } else if (whileFrame(draft.context) === undefined) {
    const { most = 0, keep = 0 } = rounds ?? {};
    const frame: Frame = { kind: "while", step: plan.id, entry, iteration: 0, outputs: [], most, keep };
    draft.change({ frames: [...frames, frame] });
  }
  draft.change({ step: start, entry: undefined, wait: undefined });
  draft.close(edge);
}

/** The frame of the while that is the current step, from its first round on. */
export function whileFrame({ frames, step }: RunContext): Frame | undefined {
  const frame = frames.at(-1);
  return frame?.kind === "while" && frame.step === step ? frame : undefined;
}

export function dropWhileFrame(draft: Draft): void {
  if (whileFrame(draft.context)) popFrame(draft);
}

/** Counts a round of a while and keeps its output. Returns why the outputs cannot be kept, if they cannot. */
export function countRound(draft: Draft, frame: WhileFrame, output: Json): Failure | undefined {
  const outputs = frame.keep === 0 ? [] : [...frame.outputs, output].slice(-frame.keep);
  const fault = outputFault(draft, [...outputs]);
  const kept = fault ? frame.outputs : outputs;
  const next = { ...frame, iteration: frame.iteration + 1, outputs: kept };
  draft.change({ frames: [...draft.context.frames.slice(0, -1), next] });
  return fault;
}

/** Leaves the catch chains that the token is in and the step `stepId` is not. The tries of those chains have succeeded. */
export function leaveCatchChains(draft: Draft, stepId: string | undefined): void {
  const chains = stepId === undefined ? undefined : draft.workflow.layout.get(stepId)?.chains;
  for (;;) {
    const frame = draft.context.frames.at(-1);
    if (frame?.kind !== "catch" || chains?.has(frame.step)) return;
    popFrame(draft);
    completeContainer(draft, frame);
  }
}

/** A container whose block was left before its end has succeeded: by an `end` inside it, or by an edge out of its catch chain. */
export function completeContainer(draft: Draft, { step, entry }: Frame): void {
  const plan = draft.workflow.steps.get(step) as StepPlan;
  joinUndoList(draft, plan, null, entry);
  draft.row("step.succeeded", "running", { stepId: step, metadata: { duration_ms: draft.now - entry.at } });
}

/** The step after this one. A parallel that starts no branches skips its join as well. */
export function nextOf({ workflow }: Draft, { next, type }: StepPlan): string | undefined {
  return type.forks ? workflow.steps.get(next ?? "")?.next : next;
}

/** Whether an edge to `target` ends the catch chain that the token is in. */
export function endsCatchChain({ context }: Draft, target: string): boolean {
  const frame = context.frames.at(-1);
  return frame?.kind === "catch" && frame.step === target;
}

/** Whether an edge from the current step to `target` ends its block, with the catch chains inside it. */
export function endsBlock({ workflow, context }: Draft, target: string): boolean {
  return workflow.layout.get(context.step ?? "")?.block.end === target;
}

/** Whether the try catches errors of this code. A pattern may end with an asterisk. */
export function catchesError({ workflow }: Draft, { step }: TryFrame, { code }: StepError): boolean {
  const plan = workflow.steps.get(step);
  const errors = plan?.type.catches?.(plan.attributes).errors ?? [];
  return errors.some((pattern) => (pattern.endsWith("*") ? code.startsWith(pattern.slice(0, -1)) : code === pattern));
}

/** Whether the try undoes its completed steps before its catch gets the error. */
export function rollsBack(draft: Draft, frame: TryFrame, error: StepError): boolean {
  return frame.rollback === true && catchesError(draft, frame, error);
}

/** While a dispatch inside of it is awaited, the blocks inside of it are still open. */
export function tryBeingLeft({ context: { run, frames, unwinding } }: Draft): TryFrame {
  const frame = frames.find(({ entry }) => entry.number === unwinding?.entry);
  if (frame?.kind !== "try") throw new Error(`run ${run.id} leaves a try that it is not in`);
  return frame;
}

/** The try's frame is popped; its catch chain takes the place. */
export function enterCatchChain(draft: Draft, { step, entry, catchStep }: TryFrame, caught: StepError): void {
  const chain: Frame = { kind: "catch", step, entry, error: caught };
  draft.change({ frames: [...draft.context.frames, chain], caught, step: catchStep, entry: undefined });
  leaveCatchChains(draft, catchStep);
  draft.close("catch");
}

/** Every container around the token fails with the run. */
export function closeFrames(draft: Draft, code: StepErrorCode, message: string): void {
  const { frames, unprotected } = draft.context;
  if (frames.length === 0) return;
  const metadata = { code, message, retryable: false, will_retry: false };
  for (const { step } of [...frames].reverse())
    draft.row("step.failed", draft.context.state, { stepId: step, metadata });
  draft.change({ frames: [], unprotected: unprotectedOutside(frames, unprotected) });
}

/** Moves the token back to the step that holds its block. */
export function moveTo(draft: Draft, { step, entry }: Frame, edge: string): void {
  draft.change({ step, entry, wait: undefined, call: undefined });
  draft.close(edge);
}

export function popFrame(draft: Draft): void {
  const { frames, unprotected } = draft.context;
  draft.change({ frames: frames.slice(0, -1), unprotected: unprotectedOutside(frames.slice(-1), unprotected) });
}

/** Unprotected steps with those that the tries among these frames had set aside at their entry. */
export function unprotectedOutside(frames: readonly Frame[], unprotected: Unprotected): Unprotected {
  const outer = frames.map((frame) => (frame.kind === "try" ? frame.unprotected : {}));
  return [unprotected, ...outer].reduce(mergeUnprotected);
}
