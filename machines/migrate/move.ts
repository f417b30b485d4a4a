// Moves a run from one version of its workflow to another: everything that is against it, or what changes. It is pure: nothing is moved here.

import type { Program } from "../chart/program.js";
import type { Expression } from "../expression/index.js";
import { scopeOf } from "../expression/scope.js";
import type { Facts, MoveVerdict, VersionChange, VersionFact } from "../messages/fact.js";
import { eventAwaited, type Owed } from "../messages/owed.js";
import type { RunContext } from "../state/context.js";
import type { Frame } from "../state/frame.js";
import type { Group } from "../state/group.js";
import { isTerminal } from "../state/lifecycle.js";
import { obstaclesToMove } from "../state/standing.js";
import type { Wait } from "../state/wait.js";
import { eventConditions } from "../steps/event.js";
import { catchOf, type StepPlan } from "../steps/step.js";
import { mappingReasons, variablesThere } from "./mapping.js";
import { idThere, type Passage, passageOf, planThere } from "./passage.js";
import { positionReasons } from "./position.js";
import { undoReasons } from "./undo.js";
import { waitReasons } from "./wait.js";

export interface Published {
  readonly definitionId: string;
  readonly program: Program;
}

/** The version as a decision on a run of the version `from` sees it. */
export function versionFact(from: Program, { definitionId, program: to }: Published): VersionFact {
  const version = { version: to.version, definitionId };
  return {
    ...version,
    move: (context, steps, conforms) => moveOf({ from, to, version }, context, steps, conforms),
  };
}

interface Versions {
  readonly from: Program;
  readonly to: Program;
  readonly version: Pick<VersionFact, "version" | "definitionId">;
}

function moveOf(
  { from, to, version }: Versions,
  context: RunContext,
  asked: Readonly<Record<string, string>>,
  conforms: Facts["conforms"],
): MoveVerdict {
  // What such a run still does is decided already: its place means nothing.
  if (isTerminal(context.state) || context.ending || context.unwinding || context.finishing)
    return { reasons: ofRun(context) };
  const before = passageOf({ from, to, context, asked, conforms });
  // Expressions of the new version see the run as it would be there.
  const { stored, removed } = variablesThere(before);
  const kept = Object.entries(context.variables).filter(([name]) => !removed.includes(name));
  const run = { ...context.run, ...version };
  const passage = { ...before, context: { ...context, run, variables: { ...Object.fromEntries(kept), ...stored } } };
  const reasons = [
    ...ofRun(context),
    ...mappingReasons(passage),
    ...positionReasons(passage),
    ...waitReasons(passage),
    ...undoReasons(passage),
  ];
  return reasons.length > 0 ? { reasons } : { reasons, change: { stored, removed, ...changeOf(passage) } };
}

const ofRun = (context: RunContext) => obstaclesToMove(context).map((message) => ({ message }));

/** Only what differs is written. */
function changeOf(passage: Passage): Pick<VersionChange, "patch" | "owed"> {
  const { step, frames, groups, wait } = passage.context;
  const framesThere = frames.map((frame) => frameThere(passage, frame));
  const groupsThere = Object.entries(groups).map(([entry, group]) => [entry, groupThere(passage, group)] as const);
  return {
    patch: {
      ...(step !== undefined && { step: idThere(passage, step) }),
      ...(framesThere.some((frame, nth) => frame !== frames[nth]) && { frames: framesThere }),
      ...(groupsThere.length > 0 && { groups: Object.fromEntries(groupsThere) }),
      ...(wait?.kind === "event" && { wait: lookingAgain(wait) }),
    },
    owed: wait?.kind === "event" ? awaitedThere(passage, wait) : undefined,
  };
}

function frameThere(passage: Passage, frame: Frame): Frame {
  const step = idThere(passage, frame.step);
  if (frame.kind !== "try") return step === frame.step ? frame : { ...frame, step };
  const catchStep = catchOf(planThere(passage, frame.step) as StepPlan);
  return step === frame.step && catchStep === frame.catchStep ? frame : { ...frame, step, catchStep };
}

function groupThere(passage: Passage, group: Group): Group {
  return { ...group, step: idThere(passage, group.step) };
}

type EventWait = Extract<Wait, { kind: "event" }>;

/** The `match` of the new version may take what the old one has passed over. */
function lookingAgain({ after: _, ...wait }: EventWait): EventWait {
  return { ...wait, look: true };
}

/** The announcer looks waits up by the conditions of their `match`. */
function awaitedThere(passage: Passage, wait: EventWait): Owed {
  const { context } = passage;
  const { step = "", entry, entries, run } = context;
  const { match } = (planThere(passage, step) as StepPlan).attributes as { match?: Expression };
  const scope = scopeOf(context, entry?.at ?? run.startedAt);
  const conditions = match && eventConditions(match, scope, entry?.number ?? entries);
  return eventAwaited(context, wait, conditions);
}
