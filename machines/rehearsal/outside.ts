// The outside of a rehearsed run: the answers of workers, servers, people and senders of signals, as the mocks say. The rehearsal
// decides when they come.
import type { RunCommand } from "../messages/command.js";
import type { PublishedEvent } from "../messages/owed.js";
import type { ActionCall } from "../state/call.js";
import type { RunContext } from "../state/context.js";
import type { Wait } from "../state/wait.js";
import type { MockRules } from "../steps/step.js";
import type { RunId } from "../values/ids.js";
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { type MockScript, UNDO_RULES } from "./mocks.js";
import type { RehearsedRun } from "./run.js";

/** The answer to a step, as its type makes it of the output that a mock gives. */
function answerOf(given: Json | undefined, { output, answer }: MockRules = UNDO_RULES): Json {
  const usable = output === "object" && !isObject(given) ? undefined : given;
  return answer?.(usable) ?? usable ?? {};
}

/** The answer that the run waits for: that of a dispatch, or one from outside for this step entry. */
export function awaitedAnswer({ wait, entry }: RunContext): string | number | undefined {
  if (wait?.kind === "dispatched") return wait.dispatchId;
  const { kind } = wait ?? {};
  return kind === "signal" || kind === "event" || kind === "user_task" ? entry?.number : undefined;
}

export class Outside {
  private signals = 0;
  private events = 0;

  constructor(
    private readonly script: MockScript,
    /** The workflow of a run in the family. */
    private readonly workflowOf: (runId: RunId) => string | undefined,
    private readonly publish: (event: Omit<PublishedEvent, "tenantId">) => void,
  ) {}

  /** The command that ends the run's wait. Undefined: there is no answer. */
  answer(run: RehearsedRun): RunCommand | undefined {
    const { wait, call, run: identity, step = "" } = run.context;
    if (wait?.kind === "dispatched" && call) return this.answerDispatch(run, call, wait);
    const mock = this.script.next(identity.workflowId, step);
    if (mock && "error" in mock) return undefined;
    const answer = answerOf(mock?.output, run.program.steps.get(step)?.type.mock);
    if (wait?.kind === "signal") {
      this.signals++;
      const id = `signal-${this.signals}`;
      return { type: "signal", id, name: wait.name, payload: answer, actor: "api" };
    }
    if (wait?.kind === "event") {
      const id = `event-${++this.events}`;
      this.publish({ id, topic: wait.topic, headers: wait.headers, payload: answer });
      return { type: "event", eventId: id };
    }
    if (wait?.kind !== "user_task") throw new Error(`a wait for ${wait?.kind} has no answer from outside`);
    return { type: "submit", taskId: wait.taskId, result: answer as JsonObject, actor: "api" };
  }

  private answerDispatch(
    { program, context }: RehearsedRun,
    call: ActionCall,
    { dispatchId }: Extract<Wait, { kind: "dispatched" }>,
  ): RunCommand | undefined {
    const isUndo = call.phase === "compensation";
    // An undo that a child handed over belongs to the child's workflow.
    const owner = (call.childRunId !== undefined && this.workflowOf(call.childRunId)) || context.run.workflowId;
    const mock = this.script.next(owner, call.stepId, isUndo);
    const about = { dispatchId, actor: call.request ? "coordinator" : "worker:mock" };
    const rules = isUndo ? UNDO_RULES : program.steps.get(call.stepId)?.type.mock;
    if (!mock || "output" in mock)
      return { type: "result", result: answerOf(mock?.output, rules) as JsonObject, ...about };
    const { code, message = code, retryable = true, outcome_unknown: outcomeUnknown = false } = mock.error;
    return code === "timeout" ? undefined : { type: "failure", code, message, retryable, outcomeUnknown, ...about };
  }
}
