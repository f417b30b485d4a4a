// The message of a step as JSON, and answers as the service takes them over its API. It sends nothing.
import type { ExecuteStep } from "../../protocol/index.js";
import type { AnswerMessage } from "../answers.js";
import { deadlineOf } from "../deadline.js";
import type { Callback } from "./reports.js";

/** A step that came as JSON, and where its answer goes. */
export interface CalledStep {
  readonly step: ExecuteStep;
  readonly callback: Callback;
  /** Epoch milliseconds on this machine's clock. */
  readonly deadline: number;
}

const TEXTS = ["dispatch_id", "run_id", "step_id", "service", "action", "idempotency_key", "deadline_at"] as const;
const PHASES: ReadonlySet<unknown> = new Set(["FORWARD", "COMPENSATION"]);

/** A call as JSON, before it is known to be one. */
export type CallMessage = Readonly<Record<string, unknown>>;

/** Throws an Error that says what is wrong; it quotes no payload. */
export function readStep(message: CallMessage): CalledStep {
  for (const name of TEXTS)
    if (typeof message[name] !== "string" || message[name] === "") throw new Error(`${name} is not a text`);
  const { inputs, callback_url: url, callback_token: token = "", phase, attempt, version, ...rest } = message;
  if (typeof inputs !== "object" || inputs === null || Array.isArray(inputs))
    throw new Error("inputs is not an object");
  if (typeof url !== "string" || !URL.canParse(url)) throw new Error("callback_url is not a URL");
  if (typeof token !== "string") throw new Error("callback_token is not a text");
  if (!PHASES.has(phase)) throw new Error("phase is unknown");
  if (!Number.isInteger(attempt) || !Number.isInteger(version)) throw new Error("attempt or version is not a number");
  const defaults = { ...{ tenant_id: "", traceparent: "", forward_idempotency_key: "" }, dry_run: false, ...TIMES };
  const given = { ...rest, phase, attempt, version, callback_token: token };
  const step = { ...defaults, ...given, inputs_json: Buffer.from(JSON.stringify(inputs)) } as ExecuteStep;
  return { step, callback: { url, token }, deadline: deadlineOf(step) };
}

const TIMES = { timeout_ms: 0, heartbeat_timeout_ms: 0 };

/** Throws as `readStep` does. */
export function readMessage(body: Buffer | string): CallMessage {
  let message: unknown;
  try {
    message = JSON.parse(typeof body === "string" ? body : new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new Error("it is not JSON");
  }
  if (typeof message === "object" && message !== null && !Array.isArray(message)) return message as CallMessage;
  throw new Error("it is not a JSON object");
}

/** An answer as the body of a response or of a report. */
export function answerBody(answer: AnswerMessage): string {
  if ("result" in answer) return `{"result":${answer.result.result_json.toString("utf8") || "{}"}}`;
  const { code, message, retryable, outcome_unknown } = answer.failure;
  return JSON.stringify({ error: { code: code || "error", message, retryable, outcome_unknown } });
}
