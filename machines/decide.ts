// Decides what a command does to a run: a pure function of program, context, command and facts. Every state answers every
// command: with transitions, with a no-op, or with a refusal and its reason. Nothing here carries anything out.
import { ownFrame, tryTimedOut } from "./blocks.js";
import {
  attemptFailed,
  attemptTimedOut,
  dispatch,
  heartbeat,
  isAbout,
  queueTimedOut,
  retryNow,
  succeeded,
} from "./call.js";
import { childEnded, goOnAfterChildren } from "./children.js";
import type { Answer, RunCommand } from "./commands.js";
import { blockBegin } from "./compile.js";
import { awaitedSignal, isPausing, type Patch, type RunContext } from "./context.js";
import type { Effect } from "./effects.js";
import { complete, consume, currentPlan, enterStep, failStep, outcomeOf, settle } from "./enter.js";
import { eventCame, lookForEvents, lookingAgain } from "./events.js";
import type { Facts } from "./facts.js";
import { isTerminal, type RunState } from "./lifecycle.js";
import { entryStep, type Program } from "./program.js";
import { cutOff, undoNext } from "./rollback.js";
import { look, lookAgain, lookOnce, signal, takeSignal } from "./signals.js";
import { sagaTimedOut } from "./sub-saga.js";
import { received, submit } from "./task.js";
import { type Decision, Draft, Needed } from "./transition.js";

export type Command<T extends RunCommand["type"]> = Extract<RunCommand, { type: T }>;

export function decide(program: Program, context: RunContext, command: RunCommand, facts: Facts): Decision {
  const draft = new Draft(program, context, facts, "actor" in command ? command.actor : "coordinator");
  try {
    return judge(draft, command);
  } catch (thrown) {
    if (thrown instanceof Needed) return { need: thrown.need };
    throw thrown;
  }
}

function judge(draft: Draft, command: RunCommand): Decision {
  switch (command.type) {
    case "advance":
      return advance(draft);
    case "signal":
      return signal(draft, command);
    case "cancel":
      return cancel(draft, command);
    case "submit":
      return submit(draft, command, waitTimedOut);
    case "offer":
      return offer(draft, command);
    case "result":
    case "failure":
    case "heartbeat":
      return report(draft, command);
    case "child":
      return childEnded(draft, command) ? draft.decided({ type: "advanced" }) : unchanged({ type: "advanced" });
    case "take":
      return takeSignal(draft, command);
    case "look":
      return lookAgain(draft, command);
    case "event":
      return eventCame(draft, command);
    case "carry":
      return carry(draft, command);
    case "quarantine":
      return quarantine(draft);
    case "release":
      return release(draft, command);
  }
}

export const unchanged = (answer: Answer, effects?: readonly Effect[]): Decision => ({
  transitions: [],
  answer,
  effects,
});
export const refused = (reason: string): Decision => unchanged({ type: "refused", reason });

function advance(draft: Draft): Decision {
  const { context, now } = draft;
  const { state, run, ending, unwinding, wait } = context;
  const advanced: Answer = { type: "advanced" };
  if (isTerminal(state) || context.quarantined) return unchanged(advanced);
  if (context.looking) look(draft, context.looking);
  else if (!ending && run.expiresAt !== undefined && run.expiresAt <= now) timeOut(draft);
  else if (state === "pending") {
    if (run.delayedUntil !== undefined && run.delayedUntil > now) return unchanged(advanced);
    begin(draft);
  } else if (tryTimedOut(draft)) return draft.decided(advanced);
  else if (wait) {
    if (!due(draft)) return unchanged(advanced);
  } else if (ending || unwinding) undoNext(draft);
  else enterStep(draft);
  return draft.decided(advanced);
}

function begin(draft: Draft): void {
  const { entrypoint, startStep } = draft.context.run;
  const step = startStep ?? entryStep(draft.program, entrypoint);
  if (step === undefined) throw new Error(`the entrypoint ${entrypoint} is not in the definition`);
  draft.change({ step });
  draft.take(startStep === undefined ? `begin.${entrypoint === "" ? "default" : entrypoint}` : blockBegin(startStep));
  enterStep(draft);
}

function timeOut(draft: Draft): void {
  const error = { code: "timeout", message: "the run did not end in time" };
  cutOff(draft, { to: "failed", error, reason: error.message });
}

/** Does what is due; nothing fires early. */
function due(draft: Draft): boolean {
  const { wait } = draft.context;
  const { now } = draft;
  if (!wait) return false;
  if (wait.kind === "signal" && wait.look) return lookOnce(draft, wait);
  if (wait.kind === "event" && wait.look) return lookForEvents(draft, wait);
  if (wait.kind === "children" && wait.more) {
    goOnAfterChildren(draft);
    return true;
  }
  if (wait.kind === "dispatched") {
    if (Math.min(wait.deadlineAt, wait.heartbeatAt ?? wait.deadlineAt) > now) return false;
    attemptTimedOut(draft, wait);
    return true;
  }
  if (wait.dueAt === undefined || wait.dueAt > now) return false;
  if (wait.kind === "queued") queueTimedOut(draft, wait);
  else if (wait.kind === "backoff") retryNow(draft, wait);
  else if (wait.kind === "timer") timerOver(draft);
  else if (wait.kind === "children") sagaTimedOut(draft, currentPlan(draft));
  else waitTimedOut(draft);
  return true;
}

/** A wait is done; a while goes on to its next round. */
function timerOver(draft: Draft): void {
  const plan = currentPlan(draft);
  if (ownFrame(draft.context)) settle(draft, plan, outcomeOf(draft, plan, true));
  else complete(draft, plan, {});
}

function waitTimedOut(draft: Draft): void {
  const plan = currentPlan(draft);
  const { on_timeout: onTimeout } = plan.attributes as { on_timeout?: string };
  if (onTimeout === "continue") complete(draft, plan, { output: null });
  else if (onTimeout === undefined || onTimeout === "fail")
    failStep(draft, plan, { code: "timeout", message: "what was waited for did not come in time" });
  else complete(draft, plan, { output: null, edge: "timeout", target: onTimeout });
}

function cancel(draft: Draft, { reason = "cancelled", compensate, actor }: Command<"cancel">): Decision {
  const { context } = draft;
  const state = context.state;
  if (isTerminal(state)) return unchanged(cancelAnswer(state, true));
  if (context.ending) return unchanged(cancelAnswer(state, false));
  draft.change({ quarantined: false });
  const rest = context.quarantined ? restState(draft.context) : state;
  draft.row("log", rest, { metadata: { kind: "cancel", reason, by: actor, compensate } });
  draft.actor = "coordinator";
  cutOff(draft, { to: "cancelled", reason, ...(!compensate && { abandon: true }) });
  return draft.decided(cancelAnswer(draft.context.state, false));
}

const cancelAnswer = (state: RunState, alreadyTerminal: boolean): Answer => ({
  type: "cancel",
  state,
  alreadyTerminal,
});

function offer(draft: Draft, { dispatchId, workerId }: Command<"offer">): Decision {
  const { wait, quarantined } = draft.context;
  if (wait?.kind !== "queued" || wait.dispatchId !== dispatchId)
    return refused("the run does not wait for a worker for this dispatch");
  if (quarantined) return refused("the run is in quarantine");
  dispatch(draft, wait, workerId);
  return draft.decided({ type: "advanced" });
}

function report(draft: Draft, command: Command<"result" | "failure" | "heartbeat">): Decision {
  const { wait, call, quarantined } = draft.context;
  if (wait?.kind !== "dispatched" || !call || !isAbout(command, wait, call))
    return unchanged({ type: "report", stale: true });
  // Not acknowledged: the worker keeps its answer until the run is released.
  if (quarantined) return refused("the run is in quarantine");
  if (wait.deadlineAt <= draft.now) {
    // A late answer is stale, also where nobody has looked at the deadline yet.
    attemptTimedOut(draft, wait);
    return draft.decided({ type: "report", stale: true });
  }
  if (command.type === "result") succeeded(draft, wait, command.result);
  else if (command.type === "failure") attemptFailed(draft, wait, command);
  else if (call.heartbeatTimeoutMs === undefined) return unchanged({ type: "report", stale: false });
  else heartbeat(draft, wait);
  return draft.decided({ type: "report", stale: false });
}

/**
 * Says again what is owed for the dispatch, unchanged; or that nothing is. Whoever asks has just begun to listen: a worker
 * that could not be heard meanwhile gets a whole heartbeat timeout from now.
 */
function carry(draft: Draft, { dispatchId }: Command<"carry">): Decision {
  const { wait, call, run, quarantined } = draft.context;
  const answer: Answer = { type: "advanced" };
  if (!wait || !("dispatchId" in wait) || wait.dispatchId !== dispatchId || !call)
    return unchanged(answer, [{ kind: "dispatch.resolved", dispatchId }]);
  if (quarantined) return unchanged(answer);
  if (wait.kind === "queued") return unchanged(answer, [{ kind: "dispatch.request", dispatchId, call }]);
  const { id: runId, tenantId, dryRun } = run;
  const { attempt, deadlineAt } = wait;
  const send: Effect = {
    kind: "dispatch.send",
    dispatch: { dispatchId, runId, tenantId, dryRun, attempt, deadlineAt, call },
  };
  if (call.heartbeatTimeoutMs === undefined) return unchanged(answer, [send]);
  draft.owe(send);
  heartbeat(draft, wait);
  return draft.decided(answer);
}

function quarantine(draft: Draft): Decision {
  const { context } = draft;
  if (isTerminal(context.state) || context.quarantined) return unchanged({ type: "advanced" });
  draft.change({ quarantined: true });
  draft.row("log", "paused", { stepId: context.step, metadata: { kind: "quarantine" } });
  draft.take("note");
  return draft.decided({ type: "advanced" });
}

function release(draft: Draft, { actor }: Command<"release">): Decision {
  const { context, facts } = draft;
  if (!context.quarantined) return refused("the run is not in quarantine");
  const { wait, unconsumedSignals, run } = context;
  const maybeSignalled = unconsumedSignals > 0 || run.family !== undefined;
  const awaited = maybeSignalled ? awaitedSignal(wait) : undefined;
  if (awaited !== undefined && facts.signal === undefined) return { need: { kind: "signal", name: awaited } };
  draft.change({ quarantined: false, ...lookedFor(draft.context) });
  draft.row("log", restState(draft.context), { stepId: context.step, metadata: { kind: "release", by: actor } });
  if (awaited !== undefined && facts.signal) {
    consume(draft, facts.signal);
    received(draft, facts.signal.payload);
  } else goOnAfterChildren(draft);
  return draft.decided({ type: "advanced" });
}

/** Nobody has told it anything meanwhile: after the commit it looks at what there is. */
function lookedFor({ wait, run }: RunContext): Patch {
  if (wait?.kind === "event") return { wait: lookingAgain(wait) };
  return wait?.kind === "signal" && run.family ? { wait: { ...wait, look: true } } : {};
}

/** The state of a run apart from its quarantine. */
function restState(context: RunContext): RunState {
  if (context.ending && !context.unwinding) return "compensating";
  if (context.step === undefined) return "pending";
  return isPausing(context) ? "paused" : "running";
}
