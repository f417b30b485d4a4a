// A dispatch as the message that its worker gets. The message types are generated from worker.proto, which must never
// change.
import type { ServerDuplexStream } from "@grpc/grpc-js";
import type { Dispatch } from "../../../machines/index.js";
import type { CoordinatorMessage, ExecuteStep, WorkerMessage } from "../../sdk/protocol/index.js";

export type WorkerCall = ServerDuplexStream<WorkerMessage, CoordinatorMessage>;

const UINT32_MAX = 4_294_967_295;

/**
 * `remainingMs` is the time that is left to the deadline: the only field that differs when a dispatch is sent again.
 */
export function executeStep(dispatch: Dispatch, remainingMs: number): ExecuteStep {
  const { call } = dispatch;
  return {
    dispatch_id: dispatch.dispatchId,
    run_id: dispatch.runId,
    step_id: call.stepId,
    attempt: dispatch.attempt,
    service: call.service,
    action: call.action,
    version: call.version,
    inputs_json: Buffer.from(JSON.stringify(call.inputs)),
    idempotency_key: call.idempotencyKey,
    deadline_at: new Date(dispatch.deadlineAt).toISOString(),
    dry_run: dispatch.dryRun,
    phase: call.phase === "compensation" ? "COMPENSATION" : "FORWARD",
    tenant_id: dispatch.tenantId ?? "",
    traceparent: "",
    timeout_ms: Math.min(Math.max(Math.ceil(remainingMs), 1), UINT32_MAX),
    heartbeat_timeout_ms: Math.min(call.heartbeatTimeoutMs ?? 0, UINT32_MAX),
    forward_idempotency_key: call.forwardIdempotencyKey ?? "",
  };
}
