// Executes actions: one execution per dispatch, with its deadline, abort signal and heartbeats, whose outcome becomes
// an answer. It does not send answers: worker.ts does.
import type { ExecuteStep } from "../protocol/index.js";
import { Alarm, LONGEST_TIMER_MS } from "../timer.js";
import type { AnswerMessage } from "./answers.js";
import { type Codec, throughCodec } from "./codec.js";
import type { ActionContext } from "./context.js";
import { deadlineOf } from "./deadline.js";
import { ActionError } from "./error.js";
import type { Handlers } from "./handlers.js";
import { type Log, withFields } from "./log.js";
import { inTrace } from "./tracing.js";

/** Where a step came from, and its answer and heartbeats go to. */
export interface Origin {
  readonly live: boolean;
  /** Heartbeats are sent no more often than this. */
  readonly heartbeatIntervalMs: number;
}

/** The default of the orchestrator's `SAGA_LIMIT_OUTPUT_BYTES`. */
export const OUTPUT_BYTES = 1_048_576;

export interface ExecutorOptions<From extends Origin> {
  readonly handlers: Handlers;
  /** Steps come out of a queue. Only their traces tell. */
  readonly isConsumer?: boolean;
  /** The most bytes of JSON in an output. */
  readonly outputBytes: number;
  readonly codec?: Codec | undefined;
  readonly log: Log;
  readonly answer: (dispatchId: string, message: AnswerMessage, via: From) => void;
  readonly heartbeat: (dispatchId: string, via: From) => void;
}

/** A step that is being executed. */
interface Execution<From> {
  readonly step: ExecuteStep;
  readonly abort: AbortController;
  /** Epoch milliseconds on this machine's clock. */
  readonly deadline: number;
  /** Where the step came from last. */
  via: From;
}

const MESSAGE_CHARACTERS = 8_192;

export class Executor<From extends Origin> {
  private readonly running = new Map<string, Execution<From>>();

  constructor(private readonly options: ExecutorOptions<From>) {}

  get size(): number {
    return this.running.size;
  }

  /** How many steps came from each place. */
  counts(): ReadonlyMap<From, number> {
    const counts = new Map<From, number>();
    for (const { via } of this.running.values()) counts.set(via, (counts.get(via) ?? 0) + 1);
    return counts;
  }

  all(): Iterable<readonly [dispatchId: string, via: From]> {
    return [...this.running].map(([dispatchId, { via }]) => [dispatchId, via] as const);
  }

  /** A step that is already being executed is not started again. False: its deadline has passed, and nothing follows. */
  execute(step: ExecuteStep, via: From): boolean {
    const running = this.running.get(step.dispatch_id);
    if (running) {
      running.via = via;
      return true;
    }
    const deadline = deadlineOf(step);
    if (!(deadline > Date.now())) {
      this.options.log.warn(
        { runId: step.run_id, stepId: step.step_id },
        "step arrived after its deadline, dropping it",
      );
      return false;
    }
    const execution: Execution<From> = { step, via, deadline, abort: new AbortController() };
    this.running.set(step.dispatch_id, execution);
    void this.run(execution);
    return true;
  }

  /** Steps whose stream was lost belong to this connection now, because its hello named them. */
  adopt(connection: From): void {
    for (const execution of this.running.values()) if (!execution.via.live) execution.via = connection;
  }

  cancel(dispatchId: string, reason: string): void {
    this.running.get(dispatchId)?.abort.abort(new Error(`cancelled: ${reason}`));
  }

  abortAll(reason: string): void {
    for (const { abort } of this.running.values()) abort.abort(new Error(reason));
  }

  private async run(execution: Execution<From>): Promise<void> {
    const { step, abort, deadline } = execution;
    const handler = this.options.handlers.get(step.action, step.version);
    const atDeadline = new Alarm(deadline - Date.now(), () => abort.abort(new Error("the deadline has passed")));
    const heartbeats = this.heartbeats(execution, handler?.autoHeartbeat ?? true);
    let message: AnswerMessage;
    try {
      const { isConsumer = false, log, outputBytes, codec } = this.options;
      const about = context(execution, heartbeats.send, log);
      const execute = (given: unknown) => handler?.execute(given, about);
      const work = () => (codec ? throughCodec(inputs(step), codec, execute) : execute(inputs(step)));
      message = handler
        ? completed(step, await inTrace(step, isConsumer, work), outputBytes)
        : failed(step, new ActionError("unknown_action", `this worker has no ${step.action}@${step.version}`));
    } catch (error) {
      message = failed(step, error);
    } finally {
      atDeadline.stop();
      heartbeats.stop();
    }
    this.running.delete(step.dispatch_id);
    this.options.answer(step.dispatch_id, message, execution.via);
  }

  /** At least three in each heartbeat timeout, otherwise as rarely as the service advises. */
  private heartbeats(execution: Execution<From>, automatic: boolean): { send(): void; stop(): void } {
    const timeout = execution.step.heartbeat_timeout_ms;
    if (timeout === 0) return { send: () => {}, stop: () => {} };
    const rarely = Math.min(Math.max(timeout / 4, execution.via.heartbeatIntervalMs), timeout / 3);
    const interval = Math.min(rarely, LONGEST_TIMER_MS);
    let last = Number.NEGATIVE_INFINITY;
    const send = () => {
      const at = performance.now();
      // A tenth early is allowed, because an interval timer drifts.
      if (at - last < interval * 0.9 || !this.running.has(execution.step.dispatch_id)) return;
      last = at;
      this.options.heartbeat(execution.step.dispatch_id, execution.via);
    };
    const timer = automatic ? setInterval(send, interval) : undefined;
    return { send, stop: () => clearInterval(timer) };
  }
}

function inputs(step: ExecuteStep): unknown {
  return step.inputs_json.length === 0 ? {} : JSON.parse(step.inputs_json.toString("utf8"));
}

function context({ step, abort, deadline }: Execution<unknown>, heartbeat: () => void, log: Log): ActionContext {
  return {
    runId: step.run_id,
    stepId: step.step_id,
    attempt: step.attempt,
    dispatchId: step.dispatch_id,
    idempotencyKey: step.idempotency_key,
    ...(step.forward_idempotency_key ? { forwardIdempotencyKey: step.forward_idempotency_key } : {}),
    phase: step.phase === "COMPENSATION" ? "compensation" : "forward",
    dryRun: step.dry_run,
    ...(step.tenant_id ? { tenantId: step.tenant_id } : {}),
    ...(step.traceparent ? { traceparent: step.traceparent } : {}),
    deadline: new Date(deadline),
    heartbeat,
    // Made when they are asked for: most actions ask for neither, and an abort controller and a child logger cost more than the rest.
    get signal() {
      return abort.signal;
    },
    get log() {
      return withFields(log, { runId: step.run_id, stepId: step.step_id, attempt: step.attempt });
    },
  };
}

/** What the service refuses in JSON text: an escaped U+0000 or half of a surrogate pair. A whole pair is not escaped. */
const UNSTORABLE = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/;

function storable(text: string): string {
  return text.replace(/\0|\p{Surrogate}/gu, "\uFFFD");
}

/**
 * An output that cannot be sent becomes a failure of unknown outcome: the action has run, so its effect may have to be
 * undone.
 */
function completed(step: ExecuteStep, output: unknown, limit: number): AnswerMessage {
  const refuse = (code: string, message: string) =>
    failed(step, new ActionError(code, message, { retryable: false, outcomeUnknown: true }));
  const value = output === undefined || output === null ? {} : output;
  if (typeof value !== "object" || Array.isArray(value)) {
    return refuse("schema_mismatch", "the action did not return a JSON object");
  }
  let text: string;
  try {
    text = JSON.stringify(value);
  } catch {
    return refuse("schema_mismatch", "the action's output cannot be written as JSON");
  }
  if (UNSTORABLE.test(text)) return refuse("schema_mismatch", "the action's output has U+0000 or half a character");
  const bytes = Buffer.from(text);
  if (bytes.length > limit) {
    const size = `${bytes.length} bytes of JSON, more than ${limit} (outputBytes)`;
    return refuse("limit_exceeded", `the action's output has ${size}`);
  }
  return { result: { ...report(step), result_json: bytes } };
}

function failed(step: ExecuteStep, error: unknown): AnswerMessage {
  const typed = error instanceof ActionError ? error : undefined;
  const message = error instanceof Error ? error.message : String(error);
  return {
    failure: {
      ...report(step),
      code: typed?.code ?? "error",
      message: storable(message.slice(0, MESSAGE_CHARACTERS)),
      retryable: typed?.retryable ?? true,
      outcome_unknown: typed?.outcomeUnknown ?? true,
    },
  };
}

function report(step: ExecuteStep) {
  return { dispatch_id: step.dispatch_id, run_id: step.run_id, step_id: step.step_id, attempt: step.attempt };
}
