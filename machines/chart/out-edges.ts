// The ways out of a step: the edges that a run can take from it, each with its condition in words. The chart is drawn from this
// table. A way that the definition itself rules out is not in it: the `skip` of a step that has no condition, for one.
import { type Block, isStep, type StepPosition, type WorkflowPlan } from "../steps/plan.js";
import type { StepPlan } from "../steps/step.js";
import { excerpt, timeLimit } from "../steps/words.js";
import { doneLabel, raiseLabel } from "./labels.js";

export interface OutEdge {
  readonly label: string;
  /** A step's id; absent: the run succeeds. */
  readonly target?: string | undefined;
  /** The condition. */
  readonly when?: string | undefined;
  /** What happens there, where that is more than going to the target. */
  readonly what?: string;
}

/** What the attributes of a step lead to. Its position says whether that is another step or the end of a block. */
interface Exit {
  readonly label: string;
  /** Absent: the innermost block ends. */
  readonly target?: string | undefined;
  readonly when?: string | undefined;
}

export function outEdgesOf(step: StepPlan, plan: WorkflowPlan): readonly OutEdge[] {
  const position = plan.layout.get(step.id);
  // Nothing leads to the step.
  if (!position) return [];
  const exits = exitsOf(step, plan).flatMap((exit) => resolveExit(exit, position, plan));
  const ends = step.type.ends ? [successEdge(position.block, plan)] : [];
  const errors = errorsLeave(step, plan) ? containersOf(position).map(raiseEdge) : [];
  return [...edgesInside(step), ...exits, ...ends, ...errors];
}

/** Into its try or its next round, and into its catch chain. Branches and items are runs of their own. */
function edgesInside({ blocks, edges }: StepPlan): OutEdge[] {
  const inside = blocks.filter(({ kind }) => kind === "try" || kind === "while");
  const catches = edges.filter((edge) => edge.catches);
  return [
    ...inside.map(({ kind, start, when }) => ({ label: kind, target: start, when })),
    ...catches.map(({ label, target, when }) => ({ label, target, when: when ?? undefined })),
  ];
}

function exitsOf(step: StepPlan, plan: WorkflowPlan): Exit[] {
  const { edges, type, attributes, next } = step;
  const nextWhen = type.nextWhen?.(attributes);
  const { next: past, onError } = forkRule(step, plan);
  const skipped = skippedWhen(step, plan);
  return [
    ...edges.flatMap(({ label, target, when, catches }) => (catches || when === null ? [] : { label, target, when })),
    ...(nextWhen === null ? [] : [{ label: "next", target: next, when: nextWhen }]),
    ...(skipped === "" ? [] : [{ label: "skip", target: past, when: skipped }]),
    ...(mayFail(step) && onError === "continue" ? [{ label: "continue", target: past, when: "it fails" }] : []),
    ...(mayFail(step) && isStep(onError) ? [{ label: "error", target: onError, when: "it fails" }] : []),
  ];
}

/** A parallel that does not fork passes over its join, whose `on_error` is the one that counts. */
function forkRule(step: StepPlan, { steps }: WorkflowPlan): StepPlan {
  return (step.type.forks && steps.get(step.next ?? "")) || step;
}

function skippedWhen(step: StepPlan, plan: WorkflowPlan): string {
  const { type, attributes, when } = step;
  const conditions = [
    when && `unless ${excerpt(when.source)}`,
    type.dryRunSkips?.(attributes) && "in a dry run",
    mayStandAtIncident(step, plan) && "it fails, and a person skips it",
  ];
  return conditions.filter(Boolean).join(", or ");
}

/** Whether an error of the step may wait for a person. */
export function mayStandAtIncident(step: StepPlan, plan: WorkflowPlan): boolean {
  if (step.type.ends || !mayFail(step) || forkRule(step, plan).onError !== "fail") return false;
  return (step.onFailure ?? plan.onFailure) === "incident";
}

/** A step that evaluates nothing cannot fail. */
function mayFail({ type, when }: StepPlan): boolean {
  return when !== undefined || Object.keys(type.attributes).length > 0;
}

/** Along the exit's own edge, or back to the container whose block or catch chain it ends. */
function resolveExit({ label, target, when }: Exit, { block, chains }: StepPosition, plan: WorkflowPlan): OutEdge[] {
  const along = { label, target, when };
  if (target !== undefined && target === block.end) return [blockEnd(block, plan, when)];
  if (chains.size === 0) return [target === undefined ? blockEnd(block, plan, when) : along];
  // A step that stands in several catch chains ends the one that the run is in.
  const ended = [...chains].filter((chain) => target === undefined || target === chain);
  const done = ended.map((chain) => doneEdge(chain, "catch", when));
  return ended.length === chains.size ? done : [...done, along];
}

function blockEnd(block: Block, plan: WorkflowPlan, when: string | undefined): OutEdge {
  const { kind, container } = block;
  if (container !== undefined && (kind === "while" || kind === "try")) return doneEdge(container, kind, when);
  return successEdge(block, plan, when);
}

const ENDED = { while: "the round", try: "the try", catch: "the catch" } as const;

function doneEdge(container: string, kind: keyof typeof ENDED, when: string | undefined): OutEdge {
  return { label: doneLabel(container), target: container, when, what: `${ENDED[kind]} of ${container} is done` };
}

/** A branch or an item is a run of its own, which succeeds at the end of its block. */
function successEdge({ kind, container, start }: Block, plan: WorkflowPlan, when?: string): OutEdge {
  const branch = plan.steps.get(container ?? "")?.blocks.find((block) => block.start === start);
  const runs: Partial<Record<Block["kind"], string>> = {
    branch: `the branch ${branch?.name} of ${container}`,
    item: `the item of ${container}`,
  };
  return { label: "run.succeeded", when, what: `${runs[kind] ?? "the run"} succeeds` };
}

/** The steps of this run that an error reaches first on its way outward. */
function containersOf({ block: { kind, container }, chains }: StepPosition): readonly string[] {
  if (chains.size > 0) return [...chains];
  return (kind === "while" || kind === "try") && container !== undefined ? [container] : [];
}

function raiseEdge(container: string): OutEdge {
  return { label: raiseLabel(container), target: container, when: `an error goes outward to ${container}` };
}

/** The step's own error, unless its `on_error` takes it, and the timeout of a try around it. */
function errorsLeave(step: StepPlan, plan: WorkflowPlan): boolean {
  const isRaised = mayFail(step) && forkRule(step, plan).onError === "fail";
  return isRaised || isTimed(step.id, plan, new Set());
}

/** Whether a try around the step, in the same run, has a timeout. */
function isTimed(id: string, plan: WorkflowPlan, seen: Set<string>): boolean {
  const position = plan.layout.get(id);
  if (!position || seen.has(id)) return false;
  seen.add(id);
  const { block, chains } = position;
  const tried = block.kind === "try" ? plan.steps.get(block.container ?? "") : undefined;
  if (tried && timeLimit(tried.attributes) !== undefined) return true;
  const around = block.kind === "try" || block.kind === "while" ? [block.container ?? "", ...chains] : [...chains];
  return around.some((outer) => isTimed(outer, plan, seen));
}
