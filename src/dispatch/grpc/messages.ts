// The messages of worker.proto as TypeScript types, as proto-loader gives and takes them with PROTO_OPTIONS. The wire
// format itself is worker.proto, which must never change.
import type { ServerDuplexStream } from "@grpc/grpc-js";
import type { Options } from "@grpc/proto-loader";
import type { Dispatch } from "../../../machines/index.js";

export const PROTO_OPTIONS: Options = { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true };

export interface Hello {
  readonly worker_id: string;
  readonly service: string;
  readonly actions: readonly string[];
  readonly max_in_flight: number;
  readonly token: string;
  readonly in_flight: readonly string[];
}

interface Report {
  readonly dispatch_id: string;
  readonly run_id: string;
  readonly step_id: string;
  readonly attempt: number;
}

export interface StepResult extends Report {
  readonly result_json: Buffer;
}

export interface StepFailure extends Report {
  readonly code: string;
  readonly message: string;
  /** Absent means true. */
  readonly retryable?: boolean;
  readonly outcome_unknown: boolean;
}

export interface Heartbeat {
  readonly dispatch_id: string;
}

export interface WorkerMessage {
  /** Which member is set; absent in a message of a newer protocol. */
  readonly message?: "hello" | "result" | "failure" | "heartbeat" | "drain";
  readonly hello?: Hello;
  readonly result?: StepResult;
  readonly failure?: StepFailure;
  readonly heartbeat?: Heartbeat;
  readonly drain?: Record<string, never>;
}

export interface ExecuteStep {
  readonly dispatch_id: string;
  readonly run_id: string;
  readonly step_id: string;
  readonly attempt: number;
  readonly service: string;
  readonly action: string;
  readonly version: number;
  readonly inputs_json: Buffer;
  readonly idempotency_key: string;
  readonly deadline_at: string;
  readonly dry_run: boolean;
  readonly phase: "FORWARD" | "COMPENSATION";
  readonly tenant_id: string;
  readonly traceparent: string;
  readonly timeout_ms: number;
  readonly heartbeat_timeout_ms: number;
  readonly forward_idempotency_key: string;
}

export type CoordinatorMessage =
  | {
      readonly hello_ack: {
        readonly node_id: string;
        readonly heartbeat_interval_ms: number;
        readonly node_count: number;
      };
    }
  | { readonly execute: ExecuteStep }
  | { readonly cancel: { readonly dispatch_id: string; readonly reason: string } }
  | { readonly recorded: { readonly dispatch_id: string; readonly stale: boolean } };

export type WorkerCall = ServerDuplexStream<WorkerMessage, CoordinatorMessage>;

const UINT32_MAX = 4_294_967_295;

/** `remainingMs` is the time to the deadline now: the one field in which a repeat differs. */
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
