// The place of a run: the step that its token is at, and the blocks around it. All of them must exist in the new version, with the same
// types, and be nested in the same way.
import { Suggestions } from "../attribute/suggestion.js";
import type { Reason } from "../messages/command.js";
import type { Frame } from "../state/frame.js";
import { entryStep, type StepPosition } from "../steps/plan.js";
import type { StepPlan } from "../steps/step.js";
import { type TimeLimits, timeLimit } from "../steps/words.js";
import { idThere, named, type Passage, placeThere, planThere, reasons } from "./passage.js";

/** Problems of the inputs that are named: as many as a start names. */
const MAX_PROBLEMS = 5;

/** A step, and the block or the catch chain that holds it. */
interface Link {
  readonly step: string;
  /** Absent: the step is in no block of the run. */
  readonly holder?: Frame;
}

export function positionReasons(passage: Passage): readonly Reason[] {
  const { context } = passage;
  if (context.step === undefined) return beginReasons(passage);
  const links = linksOf(passage.context, context.step);
  return [
    ...links.flatMap(({ step }) => stepReasons(passage, step)),
    ...links.flatMap((link) => nestingReasons(passage, link)),
    ...context.frames.flatMap((frame) => frameReasons(passage, frame)),
  ];
}

/** The step and what holds it, from the inside out. A while between two rounds is at its own step, with its frame around it. */
function linksOf({ frames }: Passage["context"], step: string): readonly Link[] {
  const last = frames.at(-1);
  const around = last?.kind === "while" && last.step === step ? frames.slice(0, -1) : frames;
  const holders = around.toReversed();
  return [step, ...holders.map((frame) => frame.step)].map((id, nth) => {
    const holder = holders[nth];
    return { step: id, ...(holder && { holder }) };
  });
}

/** A run that has not begun begins under the new version. */
function beginReasons({ to, context: { run }, conforms }: Passage): readonly Reason[] {
  const problems = to.inputSchema ? conforms(to.inputSchema, run.inputs) : [];
  return [
    ...reasons(
      entryStep(to, run.entrypoint) === undefined && {
        path: "$.entrypoints",
        message: `${named(to)} has no entrypoint "${run.entrypoint}"`,
      },
    ),
    ...problems
      .slice(0, MAX_PROBLEMS)
      .map((problem) => ({ path: "$.input_schema", message: `the inputs: ${problem}` })),
  ];
}

function stepReasons(passage: Passage, id: string): readonly Reason[] {
  const { from, to } = passage;
  const [was, there] = [from.steps.get(id), planThere(passage, id)];
  if (!there) return [{ path: "$.steps", message: missing(passage, id) }];
  const place = (attribute?: string) => placeThere(passage, there, attribute);
  return reasons(
    was?.type !== there.type && {
      path: place("type"),
      message: `the step "${id}" is a ${was?.type.name}, and "${there.id}" of ${named(to)} is a ${there.type.name}`,
    },
    !to.reached.has(there.id) && {
      path: place(),
      message: `no run can come to the step "${there.id}" of ${named(to)}`,
    },
  );
}

function missing(passage: Passage, id: string): string {
  const { to } = passage;
  const there = idThere(passage, id);
  const which = there === id ? "" : `, which "${id}" is mapped to`;
  return `${named(to)} has no step "${there}"${which}${new Suggestions().for(there, to.steps.keys())}`;
}

/** Steps that are missing, or that no run comes to, have no position: that is a reason of its own. */
function nestingReasons(passage: Passage, { step, holder }: Link): readonly Reason[] {
  const { to } = passage;
  const there = planThere(passage, step);
  const position = there && to.layout.get(there.id);
  if (!there || !position || isHeldBy(passage, position, holder)) return [];
  const stands = holder ? `in ${PART[holder.kind]} of "${holder.step}"` : "in no block of the run";
  return [
    {
      path: placeThere(passage, there),
      message: `the step "${step}" is ${stands}, and "${there.id}" of ${named(to)} is ${placeOf(position)}`,
    },
  ];
}

/** The frames of a run match the layout of its definition. Branches and items are runs of their own and have no frames here. */
function isHeldBy(passage: Passage, { block, chains }: StepPosition, holder: Frame | undefined): boolean {
  if (chains.size > 0) return holder?.kind === "catch" && chains.has(idThere(passage, holder.step));
  if (!holder) return block.kind === "run" || passage.context.run.family !== undefined;
  return holder.kind === block.kind && block.container === idThere(passage, holder.step);
}

const PART = { try: "the try", catch: "the catch", while: "the body" } as const;

function placeOf({ block, chains }: StepPosition): string {
  const [chain] = chains;
  if (chain !== undefined) return `in the catch of "${chain}"`;
  if (block.kind === "run") return "in no block";
  const part = { branch: "a branch", item: "the body", while: "the body", try: "the try" }[block.kind];
  return `in ${part} of "${block.container}"`;
}

/** The time of a try goes on: what follows when it is over must be known. */
function frameReasons(passage: Passage, frame: Frame): readonly Reason[] {
  const there = planThere(passage, frame.step);
  if (frame.kind !== "try" || frame.dueAt === undefined || there?.type.block?.kind !== "try") return [];
  return timeReasons(passage, there, `the try of "${frame.step}" has a time limit`);
}

/** A time that has been running goes on, so the step needs a limit there, too: only then does its chart say what follows. */
export function timeReasons(passage: Passage, there: StepPlan, subject: string): readonly Reason[] {
  if (timeLimit(there.attributes as TimeLimits) !== undefined) return [];
  const message = `${subject}, and "${there.id}" of ${named(passage.to)} has none`;
  return [{ path: placeThere(passage, there), message }];
}
