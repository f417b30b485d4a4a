// Entering a step and leaving it: what an outcome does to the run, the same for every step type. Not the attempts of an
// action (call.ts) and not the way down after a failure (rollback.ts).
import { startCall } from "./call.js";
import type { StepError } from "./context.js";
import { ExpressionError } from "./expression/index.js";
import { type Json, type JsonObject, measure } from "./json.js";
import { failRun, joinUndo } from "./rollback.js";
import { scopeOf } from "./scope.js";
import type { Failure, Note, Outcome, StepPlan } from "./steps/step.js";
import { formatInstant } from "./time.js";
import { type Draft, Needed } from "./transition.js";

export function enterStep(draft: Draft): void {
  const plan = currentPlan(draft);
  const number = draft.context.entries + 1;
  draft.change({ entries: number, entry: { number, at: draft.now } });
  draft.row("step.started", "running", { stepId: plan.id });
  const { entries } = draft.facts.limits;
  if (number > entries) {
    const error = { code: "limit_exceeded", message: `the run has entered ${entries} steps`, step_id: plan.id };
    failedRow(draft, plan, error, 0);
    return failRun(draft, error);
  }
  settle(draft, plan, outcomeOf(draft, plan));
}

export function currentPlan(draft: Draft): StepPlan {
  const plan = draft.program.steps.get(draft.context.step ?? "");
  if (!plan) throw new Error(`run ${draft.context.run.id} stands at a step that its definition does not have`);
  return plan;
}

function outcomeOf(draft: Draft, plan: StepPlan): Outcome {
  const { context, facts } = draft;
  try {
    const scope = scopeOf(context, draft.now);
    if (plan.when && !plan.when.test(scope)) return { kind: "skipped", reason: "when" };
    return plan.type.enter({
      plan,
      attributes: plan.attributes,
      scope,
      facts,
      run: context.run,
      entry: context.entries,
      unconsumedSignals: context.unconsumedSignals,
    });
  } catch (error) {
    if (error instanceof ExpressionError)
      return { kind: "failed", error: { code: "expression_error", message: error.message } };
    throw error;
  }
}

function settle(draft: Draft, plan: StepPlan, outcome: Outcome): void {
  switch (outcome.kind) {
    case "need":
      throw new Needed(outcome.need);
    case "done":
      note(draft, plan, outcome.notes);
      if (outcome.effects) draft.owe(...outcome.effects);
      if (outcome.consumedSignal !== undefined) consume(draft, outcome.consumedSignal);
      return complete(draft, plan, outcome);
    case "skipped":
      return skip(draft, plan, outcome);
    case "failed":
      note(draft, plan, outcome.notes);
      return failStep(draft, plan, outcome.error);
    case "wait":
      draft.change({ wait: outcome.wait });
      draft.row("step.paused", "paused", { stepId: plan.id, metadata: pausedMetadata(outcome) });
      return draft.take("pause");
    case "call":
      return startCall(draft, plan, outcome.call);
    case "end":
      return complete(draft, plan, { output: outcome.output, end: true });
  }
}

function note(draft: Draft, plan: StepPlan, notes: readonly Note[] = []): void {
  for (const { type, metadata } of notes) draft.row(type, draft.context.state, { stepId: plan.id, metadata });
}

function consume(draft: Draft, signalId: string): void {
  draft.owe({ kind: "signal.consumed", id: signalId });
  draft.change({ unconsumedSignals: draft.context.unconsumedSignals - 1 });
}

function pausedMetadata({ awaiting, name, wait }: Extract<Outcome, { kind: "wait" }>): JsonObject {
  const dueAt: JsonObject = "dueAt" in wait && wait.dueAt !== undefined ? { wakeup_at: formatInstant(wait.dueAt) } : {};
  return { awaiting, ...(name !== undefined && { name }), ...dueAt };
}

/** What a step that succeeded leaves, and where it goes. `attempt` is that of its call, 0 if it had none. */
export interface Completion {
  readonly output?: Json;
  readonly assign?: JsonObject;
  readonly edge?: string;
  readonly target?: string;
  readonly attempt?: number;
  /** The whole run ends here. */
  readonly end?: boolean;
}

/** The step succeeded: store, join the undo list, record, go on. Over a limit it fails, but what it did can be undone. */
export function complete(draft: Draft, plan: StepPlan, completion: Completion): void {
  const { output, assign, attempt = 0, end = false } = completion;
  const stored = end || output === undefined || plan.saveAs === null ? assign : { ...assign, [plan.saveAs]: output };
  const fault = outputFault(draft, output) ?? store(draft, stored);
  if (fault) {
    joinUndo(draft, plan, output ?? null);
    return failStep(draft, plan, fault, attempt);
  }
  joinUndo(draft, plan, output ?? null);
  const duration = draft.now - (draft.context.entry?.at ?? draft.now);
  const metadata: JsonObject = output === undefined ? { duration_ms: duration } : { output, duration_ms: duration };
  draft.row("step.succeeded", "running", { stepId: plan.id, attempt, metadata });
  if (end) return succeed(draft, output ?? null);
  go(draft, completion.edge ?? "next", completion.edge === undefined ? plan.next : completion.target, output ?? null);
}

function skip(draft: Draft, plan: StepPlan, { reason, output }: Extract<Outcome, { kind: "skipped" }>): void {
  if (output !== undefined && plan.saveAs !== null) store(draft, { [plan.saveAs]: output });
  draft.row("step.skipped", "running", { stepId: plan.id, metadata: { reason } });
  go(draft, "skip", plan.next, null);
}

/** Along an edge to the next step; without one the run is done, and what the last step left is its output. */
export function go(draft: Draft, edge: string, target: string | undefined, output: Json): void {
  if (target === undefined) return succeed(draft, output);
  draft.change({ step: target, entry: undefined, wait: undefined, call: undefined });
  draft.take(edge);
}

function succeed(draft: Draft, output: Json): void {
  draft.change({ step: undefined, entry: undefined, wait: undefined, call: undefined, output: output ?? undefined });
  draft.row("run.succeeded", "succeeded");
  draft.take("run.succeeded");
}

/** The step failed for good: `on_error` has its say, else the run fails. `retryable` is what the worker said. */
export function failStep(draft: Draft, plan: StepPlan, failure: Failure, attempt = 0, retryable = false): void {
  const error = storeError(draft, plan, { ...failure, step_id: plan.id });
  failedRow(draft, plan, error, attempt, retryable);
  if (plan.onError === "fail") return failRun(draft, error);
  if (plan.onError === "continue") go(draft, "continue", plan.next, { error: { ...error } });
  else go(draft, "error", plan.onError, null);
}

/** A failed step's output is its error, with an output's limits: one that is over them becomes the error of that. */
function storeError(draft: Draft, plan: StepPlan, error: StepError): StepError {
  const output: JsonObject = { error: { ...error } };
  const variable = plan.onError === "fail" ? null : plan.saveAs;
  const fault = outputFault(draft, output) ?? (variable === null ? undefined : store(draft, { [variable]: output }));
  if (!fault) return error;
  const bounded = { ...fault, step_id: plan.id };
  if (variable !== null) store(draft, { [variable]: { error: bounded } });
  return bounded;
}

function failedRow(draft: Draft, plan: StepPlan, error: StepError, attempt: number, retryable = false): void {
  const { code, message } = error;
  const metadata = { code, message, retryable, will_retry: false };
  draft.row("step.failed", "running", { stepId: plan.id, attempt, metadata });
}

function outputFault(draft: Draft, output: Json | undefined): Failure | undefined {
  const size = measure(output ?? null);
  if (typeof size !== "number") return { code: "expression_error", message: `the output${size.path} ${size.message}` };
  const { output: most } = draft.facts.limits;
  if (size <= most) return undefined;
  return { code: "limit_exceeded", message: `the output is over ${most} characters of JSON` };
}

/** Stores variables, or says why they cannot be stored. */
export function store(draft: Draft, variables: JsonObject | undefined): Failure | undefined {
  if (!variables) return undefined;
  let growth = 0;
  for (const [name, value] of Object.entries(variables)) {
    const size = measure(value);
    if (typeof size !== "number")
      return { code: "expression_error", message: `the variable ${name}${size.path} ${size.message}` };
    growth += size - sizeBefore(draft, name);
  }
  const { variables: most } = draft.facts.limits;
  if (draft.context.variablesSize + growth > most)
    return { code: "limit_exceeded", message: `the run's variables are over ${most} characters of JSON` };
  draft.store(variables, growth);
  return undefined;
}

function sizeBefore(draft: Draft, name: string): number {
  const { variables } = draft.context;
  if (!Object.hasOwn(variables, name)) return -name.length - 4;
  const size = measure(variables[name]);
  return typeof size === "number" ? size : 0;
}
