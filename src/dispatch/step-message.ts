// A dispatch as the message that its worker gets, with secret values plain: the members of worker.proto's ExecuteStep, in protobuf over gRPC and as JSON
// otherwise. Names and meanings must never change.
import { type Dispatch, revealedText } from "../../machines/index.js";
import { type ExecuteStep, MAX_UINT32 } from "../sdk/protocol/index.js";

/** The credential of the reports on a dispatch. */
export type CallbackToken = (dispatch: Dispatch) => string;

/** With access off a report needs none, and some workers report over their streams only. */
export const noToken: CallbackToken = () => "";

/** The message over gRPC. `remainingMs`: the time that is left to the deadline. */
export function executeStep(dispatch: Dispatch, remainingMs: number, tokenOf: CallbackToken): ExecuteStep {
  const inputs = Buffer.from(revealedText(JSON.stringify(dispatch.call.inputs)));
  return stepMessage(dispatch, remainingMs, tokenOf, { inputs, longest: MAX_UINT32 });
}

/**
 * `remainingMs` is the only member that differs when a dispatch is sent again. Times are whole. `longest`: what the form can say of a time. One literal,
 * without a spread, because every remote step pays for it.
 */
function stepMessage(
  dispatch: Dispatch,
  remainingMs: number,
  tokenOf: CallbackToken,
  { inputs, longest }: { readonly inputs: Buffer; readonly longest: number },
): ExecuteStep {
  const { call } = dispatch;
  return {
    dispatch_id: dispatch.dispatchId,
    run_id: dispatch.runId,
    step_id: call.stepId,
    attempt: dispatch.attempt,
    service: call.service,
    action: call.action,
    version: call.version,
    idempotency_key: call.idempotencyKey,
    deadline_at: new Date(dispatch.deadlineAt).toISOString(),
    dry_run: dispatch.dryRun,
    phase: call.phase === "compensation" ? "COMPENSATION" : "FORWARD",
    tenant_id: dispatch.tenantId ?? "",
    traceparent: dispatch.traceparent ?? "",
    timeout_ms: Math.min(Math.max(Math.ceil(remainingMs), 1), longest),
    heartbeat_timeout_ms: Math.min(call.heartbeatTimeoutMs ?? 0, longest),
    forward_idempotency_key: call.forwardIdempotencyKey ?? "",
    callback_token: tokenOf(dispatch),
    inputs_json: inputs,
  };
}

const IN_JSON = { inputs: Buffer.alloc(0), longest: Number.POSITIVE_INFINITY };

/** Where a worker reports to, and with what. */
export interface CallbackOptions {
  /** The public URL of the service. */
  readonly publicUrl: () => string;
  readonly tokenOf: CallbackToken;
}

/** Members that JSON has in another form, or only with a value. */
const IN_OTHER_FORM: ReadonlySet<string> = new Set(["inputs_json", "heartbeat_timeout_ms"]);

/** The message as JSON. Members without a value are left out. */
export function stepJson(dispatch: Dispatch, remainingMs: number, { publicUrl, tokenOf }: CallbackOptions): string {
  const message = stepMessage(dispatch, remainingMs, tokenOf, IN_JSON);
  const present = Object.entries(message).filter(([name, value]) => value !== "" && !IN_OTHER_FORM.has(name));
  const heartbeat = message.heartbeat_timeout_ms;
  const text = JSON.stringify({
    ...Object.fromEntries(present),
    ...(heartbeat > 0 && { heartbeat_timeout_ms: heartbeat }),
    inputs: dispatch.call.inputs,
    callback_url: callbackUrl(dispatch, publicUrl()),
  });
  return revealedText(text);
}

function callbackUrl({ runId, dispatchId, attempt, call: { stepId } }: Dispatch, base: string): string {
  const path = `/api/v1/sagas/${runId}/actions/${encodeURIComponent(stepId)}/result`;
  return `${base}${path}?attempt=${attempt}&dispatch_id=${dispatchId}`;
}
