// The outside of a rehearsed run: workers, the other sides of requests, people and those who send signals, as the mocks have
// them. Not when they speak: that is the rehearsal's order.
import type { RunCommand } from "../commands.js";
import type { ActionCall, RunContext, Wait } from "../context.js";
import type { PublishedEvent } from "../effects.js";
import { isObject, type JsonObject } from "../json.js";
import type { Script } from "./mocks.js";
import type { RehearsedRun } from "./run.js";

/** What a request without a mock is answered, and what a mock leaves out of an answer. */
const ANSWERED: JsonObject = { status: 200, headers: {}, body: null };
/** What an approval without a mock gets: it is given. */
const APPROVED: JsonObject = { approved: true };

/** What the run waits for from outside: a dispatch, or somebody at this step entry. */
export function awaited({ wait, entry }: RunContext): string | number | undefined {
  if (wait?.kind === "dispatched") return wait.dispatchId;
  const { kind } = wait ?? {};
  return kind === "signal" || kind === "event" || kind === "user_task" ? entry?.number : undefined;
}

export class Outside {
  private signals = 0;
  private events = 0;

  constructor(
    private readonly script: Script,
    /** The workflow of a run of the family. */
    private readonly workflowOf: (runId: string) => string | undefined,
    private readonly publish: (event: Omit<PublishedEvent, "tenantId">) => void,
  ) {}

  /** What comes of what the run waits for; undefined: nothing ever does. */
  answer(run: RehearsedRun): RunCommand | undefined {
    const { wait, call, run: identity, step = "" } = run.context;
    if (wait?.kind === "dispatched" && call) return this.work(call, wait, identity.workflowId);
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
    if (wait?.kind !== "user_task") throw new Error(`nobody outside can end a wait for ${wait?.kind}`);
    const approves = run.program.steps.get(step)?.type.name === "manual_approval";
    const result = mock && isObject(mock.output) ? mock.output : approves ? APPROVED : {};
    return { type: "submit", taskId: wait.taskId, result, actor: "api" };
  }

  private work(
    call: ActionCall,
    { dispatchId }: Extract<Wait, { kind: "dispatched" }>,
    workflowId: string,
  ): RunCommand | undefined {
    // An undo that was handed over is of the child's workflow.
    const owner = (call.childRunId !== undefined && this.workflowOf(call.childRunId)) || workflowId;
    const mock = this.script.next(owner, call.stepId, call.phase === "compensation");
    const about = { dispatchId, actor: call.request ? "coordinator" : "worker:mock" };
    if (!mock || "output" in mock) {
      const output = mock && isObject(mock.output) ? mock.output : {};
      return { type: "result", result: call.request ? { ...ANSWERED, ...output } : output, ...about };
    }
    const { code, message = code, retryable = true, outcome_unknown: outcomeUnknown = false } = mock.error;
    return code === "timeout" ? undefined : { type: "failure", code, message, retryable, outcomeUnknown, ...about };
  }
}
