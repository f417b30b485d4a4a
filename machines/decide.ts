// Decides what a command does to a run: a pure function of program, context, command and facts. Every state answers every
// command: with transitions, with a no-op, or with a refusal and its reason. Nothing here carries anything out.
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
import type { Answer, RunCommand } from "./commands.js";
import { isReady, type RunContext } from "./context.js";
import type { Effect } from "./effects.js";
import { complete, currentPlan, enterStep, failStep } from "./enter.js";
import type { Facts } from "./facts.js";
import { isTerminal, type RunState } from "./lifecycle.js";
import { entryStep, type Program } from "./program.js";
import { abandon, cutOff, undoNext } from "./rollback.js";
import { type Decision, Draft, Needed } from "./transition.js";

type Command<T extends RunCommand["type"]> = Extract<RunCommand, { type: T }>;

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
    case "offer":
      return offer(draft, command);
    case "result":
    case "failure":
    case "heartbeat":
      return report(draft, command);
    case "carry":
      return carry(draft, command);
    case "quarantine":
      return quarantine(draft);
    case "release":
      return release(draft, command);
  }
}

const unchanged = (answer: Answer, effects?: readonly Effect[]): Decision => ({ transitions: [], answer, effects });
const refused = (reason: string): Decision => unchanged({ type: "refused", reason });

function advance(draft: Draft): Decision {
  const { context, now } = draft;
  const { state, run, ending, wait } = context;
  const advanced: Answer = { type: "advanced" };
  if (isTerminal(state) || context.quarantined) return unchanged(advanced);
  if (!ending && run.expiresAt !== undefined && run.expiresAt <= now) timeOut(draft);
  else if (state === "pending") {
    if (run.delayedUntil !== undefined && run.delayedUntil > now) return unchanged(advanced);
    begin(draft);
  } else if (wait) {
    if (!due(draft)) return unchanged(advanced);
  } else if (isReady(context)) ending ? undoNext(draft) : enterStep(draft);
  return draft.decided(advanced);
}

function begin(draft: Draft): void {
  const { entrypoint } = draft.context.run;
  const step = entryStep(draft.program, entrypoint);
  if (step === undefined) throw new Error(`the entrypoint ${entrypoint} is not in the definition`);
  draft.change({ step });
  draft.take(`begin.${entrypoint === "" ? "default" : entrypoint}`);
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
  if (wait.kind === "dispatched") {
    if (Math.min(wait.deadlineAt, wait.heartbeatAt ?? wait.deadlineAt) > now) return false;
    attemptTimedOut(draft, wait);
    return true;
  }
  if (wait.dueAt === undefined || wait.dueAt > now) return false;
  if (wait.kind === "queued") queueTimedOut(draft, wait);
  else if (wait.kind === "backoff") retryNow(draft, wait);
  else if (wait.kind === "timer") complete(draft, currentPlan(draft), {});
  else waitTimedOut(draft);
  return true;
}

function waitTimedOut(draft: Draft): void {
  const plan = currentPlan(draft);
  const { on_timeout: onTimeout } = plan.attributes as { on_timeout?: string };
  if (onTimeout === "continue") complete(draft, plan, { output: null });
  else if (onTimeout === undefined || onTimeout === "fail")
    failStep(draft, plan, { code: "timeout", message: "what was waited for did not come in time" });
  else complete(draft, plan, { output: null, edge: "timeout", target: onTimeout });
}

function signal(draft: Draft, { id, name, payload }: Command<"signal">): Decision {
  const { context } = draft;
  const matched =
    context.wait?.kind === "signal" && context.wait.name === name && !context.quarantined && !context.ending;
  const recorded: Effect = { kind: "signal.recorded", id, name, payload, consumed: matched };
  const answer: Answer = { type: "signal", id, matched };
  if (isTerminal(context.state)) return unchanged(answer, [recorded]);
  draft.owe(recorded);
  draft.row("log", context.state, { stepId: context.step, metadata: { kind: "signal", name, signal_id: id, matched } });
  draft.actor = "coordinator";
  if (matched) complete(draft, currentPlan(draft), { output: payload });
  else {
    draft.change({ unconsumedSignals: context.unconsumedSignals + 1 });
    draft.take("note");
  }
  return draft.decided(answer);
}

function cancel(draft: Draft, { reason = "cancelled", compensate, actor }: Command<"cancel">): Decision {
  const { context } = draft;
  const state = context.state;
  if (isTerminal(state)) return unchanged(cancelAnswer(state, true));
  if (context.ending) return unchanged(cancelAnswer(state, false));
  draft.change({ quarantined: false });
  draft.row("log", state, { metadata: { kind: "cancel", reason, by: actor, compensate } });
  draft.actor = "coordinator";
  const ending = { to: "cancelled", reason } as const;
  if (compensate) cutOff(draft, ending);
  else abandon(draft, ending);
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
  const { wait } = context;
  const awaited = wait?.kind === "signal" && context.unconsumedSignals > 0 ? wait.name : undefined;
  if (awaited !== undefined && facts.signal === undefined) return { need: { kind: "signal", name: awaited } };
  draft.change({ quarantined: false });
  draft.row("log", restState(draft.context), { stepId: context.step, metadata: { kind: "release", by: actor } });
  if (awaited === undefined || !facts.signal) draft.take("note");
  else {
    draft.owe({ kind: "signal.consumed", id: facts.signal.id });
    draft.change({ unconsumedSignals: context.unconsumedSignals - 1 });
    complete(draft, currentPlan(draft), { output: facts.signal.payload });
  }
  return draft.decided({ type: "advanced" });
}

/** The state of a run apart from its quarantine. */
function restState({ ending, step, wait }: RunContext): RunState {
  if (ending) return "compensating";
  if (step === undefined) return "pending";
  return wait && wait.kind !== "queued" && wait.kind !== "dispatched" ? "paused" : "running";
}
