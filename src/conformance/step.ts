// A step that a worker under test was given: how it is sent, and what came back for it. It does not judge.
import { randomUUID } from "node:crypto";
import type { ExecuteStep } from "../sdk/protocol/index.js";
import type { SlowOutput } from "./contract.js";
import { SERVICE } from "./contract.js";
import type { Answer, Seen, Stream } from "./stream.js";

export interface StepOptions {
  readonly inputs?: unknown;
  /** Default: of its own. */
  readonly idempotencyKey?: string;
  /** Time limit in milliseconds, as `deadline_at` and `timeout_ms` say it. Default a minute. */
  readonly timeoutMs?: number;
  readonly heartbeatTimeoutMs?: number;
  /** The key of what is to be undone: the step is an undo. */
  readonly undoes?: string;
  /** Whatever else the message says. */
  readonly message?: Partial<ExecuteStep>;
}

const TIMEOUT_MS = 60_000;

export interface GivenAnswer {
  readonly stream: Stream;
  readonly answer: Answer;
}

export class Step {
  /** Every copy of its answer. */
  readonly answers: Seen<GivenAnswer>[] = [];
  readonly heartbeats: number[] = [];
  /** The worker was told that its answer is durable. */
  recorded = false;
  /** Monotonic milliseconds of its first message. */
  readonly sentAt = performance.now();

  constructor(readonly message: ExecuteStep) {}

  get id(): string {
    return this.message.dispatch_id;
  }

  /** The first answer. */
  get answer(): Answer | undefined {
    return this.answers[0]?.value.answer;
  }

  get failure() {
    const { answer } = this;
    return answer && "failure" in answer ? answer.failure : undefined;
  }

  /** JSON of its result as it came; undefined if it has none. */
  get text(): string | undefined {
    const { answer } = this;
    return answer && "result" in answer ? Buffer.from(answer.result.result_json).toString("utf8") || "{}" : undefined;
  }

  /** Of an answer of `slow`; undefined if it is none. */
  get executions(): number | undefined {
    try {
      return (JSON.parse(this.text ?? "null") as SlowOutput | null)?.executions;
    } catch {
      return undefined;
    }
  }
}

export function makeStep(action: string, options: StepOptions = {}): Step {
  const { timeoutMs = TIMEOUT_MS, inputs = {}, undoes, heartbeatTimeoutMs = 0 } = options;
  const dispatchId = randomUUID();
  return new Step({
    dispatch_id: dispatchId,
    run_id: randomUUID(),
    step_id: action,
    attempt: 1,
    service: SERVICE,
    action,
    version: 1,
    inputs_json: Buffer.from(JSON.stringify(inputs)),
    idempotency_key: options.idempotencyKey ?? `${dispatchId}:${action}:1`,
    deadline_at: new Date(Date.now() + timeoutMs).toISOString(),
    dry_run: false,
    phase: undoes === undefined ? "FORWARD" : "COMPENSATION",
    tenant_id: "",
    traceparent: "",
    timeout_ms: timeoutMs,
    heartbeat_timeout_ms: heartbeatTimeoutMs,
    forward_idempotency_key: undoes ?? "",
    callback_token: "",
    ...options.message,
  });
}

/** For people. */
export function described(step: Step): string {
  const { text, failure } = step;
  if (failure) return `the failure ${failure.code || '""'} (${failure.message.slice(0, 200)})`;
  return text === undefined ? "no answer" : `the result ${text.length > 200 ? `${text.slice(0, 200)}…` : text}`;
}
