// A dispatch as the message of a stream. The message types are generated from worker.proto, which must never change.
import type { ServerDuplexStream } from "@grpc/grpc-js";
import type { Dispatch } from "../../../machines/index.js";
import { type CoordinatorMessage, type ExecuteStep, MAX_UINT32, type WorkerMessage } from "../../sdk/protocol/index.js";
import { stepMessage } from "../step-message.js";

export type WorkerCall = ServerDuplexStream<WorkerMessage, CoordinatorMessage>;

export function executeStep(dispatch: Dispatch, remainingMs: number): ExecuteStep {
  const { timeout_ms, heartbeat_timeout_ms, ...message } = stepMessage(dispatch, remainingMs);
  return {
    ...message,
    timeout_ms: Math.min(timeout_ms, MAX_UINT32),
    heartbeat_timeout_ms: Math.min(heartbeat_timeout_ms, MAX_UINT32),
    inputs_json: Buffer.from(JSON.stringify(dispatch.call.inputs)),
  };
}
