// A run explained: what it waits for, since when, until when, what it is on its way to, and what an operator may do. It decides nothing.
import { isHalted, isReady, nextTryTimeout, type RunContext } from "../state/context.js";
import { isTerminal, type RunState } from "../state/lifecycle.js";
import { obstaclesToMove, obstacleToFork } from "../state/standing.js";
import type { JsonObject } from "../values/json.js";
import { formatInstant } from "../values/time.js";
import { type About, moment, type WaitWords, wordsOf } from "./waits.js";

export type { About, ExplainedChild, SlotQueue, TurnQueue } from "./waits.js";

/** What the row of a run says beside its record. Times are epoch milliseconds. */
export interface Lived extends About {
  /** Its last audit row. */
  readonly lastEventAt: number;
  /** When its rollback began, or when it was quarantined, where that is known. */
  readonly since?: number;
}

export interface Explanation {
  readonly state: RunState;
  /** One sentence without its subject, the run. */
  readonly because: string;
  readonly waitingFor: readonly JsonObject[];
  readonly since: number;
  /** When time alone makes the run, or one of the children that it waits for, go on. */
  readonly nextAt?: number;
  readonly can: readonly Act[];
}

/** The commands of an operator (`OperatorAct`), named like their routes. The names are part of stored bulk jobs: they must never change. */
export type OperatorActName =
  | "pause"
  | "resume"
  | "retry_step"
  | "skip_step"
  | "fail"
  | "compensations/retry"
  | "compensations/skip"
  | "terminate"
  | "migrate";

/** All that a client may do with a run, named like the routes. */
export type Act = OperatorActName | "cancel" | "release" | "rerun" | "fork" | "signal" | "submit";

export function explain(context: RunContext, lived: Lived): Explanation {
  const { words, data, since, nextAt } = situationOf(context, lived);
  const began = since ?? lived.lastEventAt;
  const sinceThen = ` (since ${moment(began)})`;
  return {
    state: context.state,
    // Of an only child the words end with its own moment, which may be the same.
    because: `${onItsWay(context)}${words}${words.endsWith(sinceThen) ? "" : sinceThen}`,
    waitingFor: data,
    since: began,
    ...(nextAt !== undefined && { nextAt }),
    can: actsOn(context),
  };
}

interface Situation {
  readonly words: string;
  readonly data: readonly JsonObject[];
  readonly since?: number;
  readonly nextAt?: number;
}

function situationOf(context: RunContext, lived: Lived): Situation {
  const { state, quarantined, held, wait } = context;
  if (isTerminal(state)) return { words: endOf(context), data: [] };
  if (quarantined) return inQuarantine(context, lived);
  if (held) return onHold(held, context);
  if (state === "pending") return beforeItsStart(context);
  // The children of a step that starts them in portions are waited for, too.
  if (!wait || (isReady(context) && wait.kind !== "children")) return { words: nextStep(context), data: [] };
  const found = wordsOf(context, wait, lived);
  const since = found.since ?? lived.since;
  return {
    words: found.words,
    data: [found.data],
    ...(since !== undefined && { since }),
    ...next(context, found, lived),
  };
}

function nextStep({ ending, unwinding, owed, step, entry }: RunContext): string {
  if (ending || unwinding) return owed > 0 ? "begins the next undo" : "is about to go on";
  return entry ? `takes the step ${step}` : `is about to enter the step ${step}`;
}

function endOf({ state, ending, requiresManualReview }: RunContext): string {
  const why = state === "succeeded" || !ending ? "" : `: ${ending.reason}`;
  const review = requiresManualReview ? "; a manual review is required" : "";
  return `${state === "cancelled" ? "was cancelled" : state}${why}${review}`;
}

function inQuarantine({ proof, step }: RunContext, { since }: Lived): Situation {
  const data = { kind: "quarantine", ...(step !== undefined && { step_id: step }), ...proof };
  const end = proof?.end === "hung" ? "hung" : "ended";
  const times = proof ? `, which ${end} its process ${proof.trials} times` : "";
  const words = `is in quarantine for its next step${times}, and waits for an operator to release it`;
  return { words, data: [data], ...(since !== undefined && { since }) };
}

function onHold({ by, since, reason }: NonNullable<RunContext["held"]>, { step }: RunContext): Situation {
  const at = formatInstant(since);
  const data = {
    kind: "operator",
    ...(step !== undefined && { step_id: step }),
    by,
    since: at,
    ...(reason && { reason }),
  };
  const why = reason === undefined ? "" : ` (${reason})`;
  return { words: `was paused by ${by}${why}, and waits to be resumed`, data: [data], since };
}

function beforeItsStart({ run: { delayedUntil, startedAt } }: RunContext): Situation {
  if (delayedUntil === undefined) return { words: "is about to begin", data: [], since: startedAt };
  const data = { kind: "start", since: formatInstant(startedAt), until: formatInstant(delayedUntil) };
  const words = `waits for its start, until ${moment(delayedUntil)}`;
  return { words, data: [data], since: startedAt, nextAt: delayedUntil };
}

/** The first of the wait's own end, the timeouts around it, and what its children wait for. */
function next(context: RunContext, { until }: WaitWords, { children = [] }: Lived): { readonly nextAt?: number } {
  const { run, ending } = context;
  const expires = ending ? undefined : run.expiresAt;
  const times = [until, expires, nextTryTimeout(context), ...children.map(({ nextAt }) => nextAt)];
  const known = times.filter((time) => time !== undefined);
  return known.length > 0 ? { nextAt: Math.min(...known) } : {};
}

/** What the run is on its way to, if that is not its next step. */
function onItsWay({ state, ending, unwinding, finishing, owed }: RunContext): string {
  if (isTerminal(state)) return "";
  if (unwinding) return `is leaving a try (${unwinding.error.message}): `;
  if (ending && owed > 0) return `is rolling back (${ending.reason}), with ${owed} left to undo: `;
  if (ending) return `is ending as ${ending.to} (${ending.reason}): `;
  return finishing ? "is done, and stops the branches that still run: " : "";
}

function actsOn(context: RunContext): readonly Act[] {
  const { run, state, ending, quarantined, held } = context;
  if (isTerminal(state)) return run.parentRunId === undefined ? ["rerun", "fork"] : [];
  const acts: Act[] = [...(isHalted(context) ? [] : actsOnWait(context)), held ? "resume" : "pause"];
  if (quarantined) acts.push("release");
  if (obstaclesToMove(context).length === 0) acts.push("migrate");
  if (obstacleToFork(context) === undefined) acts.push("fork");
  return [...acts, ...(ending ? [] : (["cancel"] as const)), ...(ending?.terminated ? [] : (["terminate"] as const))];
}

function actsOnWait({ wait, call, ending, unwinding }: RunContext): readonly Act[] {
  if (wait?.kind === "incident")
    return wait.phase === "forward"
      ? ["retry_step", ...(wait.alwaysFails ? [] : (["skip_step"] as const)), "fail"]
      : ["compensations/retry", "compensations/skip"];
  if (wait?.kind === "backoff" && call?.phase !== "compensation") return ["retry_step"];
  if (ending || unwinding) return [];
  if (wait?.kind === "signal") return ["signal"];
  return wait?.kind === "user_task" ? ["submit"] : [];
}
