// A dispatch as the message that its worker gets: the members of worker.proto's ExecuteStep, in protobuf over gRPC and as JSON
// otherwise. Names and meanings must never change.
import type { Dispatch } from "../../machines/index.js";
import { type ExecuteStep, MAX_UINT32 } from "../sdk/protocol/index.js";

/** The credential of the reports on a dispatch. */
export type CallbackToken = (dispatch: Dispatch) => string;

/** With access off a report needs none, and some workers report over their streams only. */
export const noToken: CallbackToken = () => "";

/** The message over gRPC. `remainingMs`: the time that is left to the deadline. */
export function executeStep(dispatch: Dispatch, remainingMs: number, tokenOf: CallbackToken): ExecuteStep {
  const { timeout_ms, heartbeat_timeout_ms, ...message } = stepMessage(dispatch, remainingMs, tokenOf);
  return {
    ...message,
    timeout_ms: Math.min(timeout_ms, MAX_UINT32),
    heartbeat_timeout_ms: Math.min(heartbeat_timeout_ms, MAX_UINT32),
    inputs_json: Buffer.from(JSON.stringify(dispatch.call.inputs)),
  };
}

/** `remainingMs` is the only member that differs when a dispatch is sent again. Times are whole, and may be longer than protobuf can say. */
function stepMessage(
  dispatch: Dispatch,
  remainingMs: number,
  tokenOf: CallbackToken,
): Omit<ExecuteStep, "inputs_json"> {
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
    timeout_ms: Math.max(Math.ceil(remainingMs), 1),
    heartbeat_timeout_ms: call.heartbeatTimeoutMs ?? 0,
    forward_idempotency_key: call.forwardIdempotencyKey ?? "",
    callback_token: tokenOf(dispatch),
  };
}

/** Where a worker reports to, and with what. */
export interface CallbackOptions {
  /** The public URL of the service. */
  readonly publicUrl: () => string;
  readonly tokenOf: CallbackToken;
}

/** The message as JSON. Members without a value are left out. */
export function stepJson(dispatch: Dispatch, remainingMs: number, { publicUrl, tokenOf }: CallbackOptions): string {
  const { heartbeat_timeout_ms: heartbeat, ...message } = stepMessage(dispatch, remainingMs, tokenOf);
  const present = Object.entries(message).filter(([, value]) => value !== "");
  return JSON.stringify({
    ...Object.fromEntries(present),
    ...(heartbeat > 0 && { heartbeat_timeout_ms: heartbeat }),
    inputs: dispatch.call.inputs,
    callback_url: callbackUrl(dispatch, publicUrl()),
  });
}

function callbackUrl({ runId, dispatchId, attempt, call: { stepId } }: Dispatch, base: string): string {
  const path = `/api/v1/sagas/${runId}/actions/${encodeURIComponent(stepId)}/result`;
  return `${base}${path}?attempt=${attempt}&dispatch_id=${dispatchId}`;
}
