// The outside of a rehearsed run: the answers of workers, servers, people and senders of signals, as the mocks say. The rehearsal
// decides when they come.
import type { RunCommand } from "../messages/command.js";
import type { PublishedEvent } from "../messages/owed.js";
import type { ActionCall } from "../state/call.js";
import type { RunContext } from "../state/context.js";
import type { Wait } from "../state/wait.js";
import type { RunId } from "../values/ids.js";
import { isObject, type JsonObject } from "../values/json.js";
import type { MockScript } from "./mocks.js";
import type { RehearsedRun } from "./run.js";

/** The response to a request without a mock, and the members that a mock leaves out. */
const DEFAULT_RESPONSE: JsonObject = { status: 200, headers: {}, body: null };
/** The result of an approval without a mock. */
const DEFAULT_APPROVAL: JsonObject = { approved: true };

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
    if (wait?.kind === "dispatched" && call) return this.answerDispatch(call, wait, identity.workflowId);
    const mock = this.script.next(identity.workflowId, step);
    if (mock && "error" in mock) return undefined;
    if (wait?.kind === "signal") {
      this.signals++;
      const id = `signal-${this.signals}`;
      return { type: "signal", id, name: wait.name, payload: mock?.output ?? {}, actor: "api" };
    }
    if (wait?.kind === "event") {
      const id = `event-${++this.events}`;
      this.publish({ id, topic: wait.topic, headers: wait.headers, payload: mock?.output ?? {} });
      return { type: "event", eventId: id };
    }
    if (wait?.kind !== "user_task") throw new Error(`a wait for ${wait?.kind} has no answer from outside`);
    const approves = run.program.steps.get(step)?.type.name === "manual_approval";
    const result = mock && isObject(mock.output) ? mock.output : approves ? DEFAULT_APPROVAL : {};
    return { type: "submit", taskId: wait.taskId, result, actor: "api" };
  }

  private answerDispatch(
    call: ActionCall,
    { dispatchId }: Extract<Wait, { kind: "dispatched" }>,
    workflowId: string,
  ): RunCommand | undefined {
    // An undo that a child handed over belongs to the child's workflow.
    const owner = (call.childRunId !== undefined && this.workflowOf(call.childRunId)) || workflowId;
    const mock = this.script.next(owner, call.stepId, call.phase === "compensation");
    const about = { dispatchId, actor: call.request ? "coordinator" : "worker:mock" };
    if (!mock || "output" in mock) {
      const output = mock && isObject(mock.output) ? mock.output : {};
      return { type: "result", result: call.request ? { ...DEFAULT_RESPONSE, ...output } : output, ...about };
    }
    const { code, message = code, retryable = true, outcome_unknown: outcomeUnknown = false } = mock.error;
    return code === "timeout" ? undefined : { type: "failure", code, message, retryable, outcomeUnknown, ...about };
  }
}
