// A dispatch as the message of a stream. The message types are generated from worker.proto, which must never change.
import type { ServerDuplexStream } from "@grpc/grpc-js";
import type { Dispatch } from "../../../machines/index.js";
import type { CoordinatorMessage, ExecuteStep, WorkerMessage } from "../../sdk/protocol/index.js";
import { stepMessage } from "../step-message.js";

export type WorkerCall = ServerDuplexStream<WorkerMessage, CoordinatorMessage>;

/** The most that a time of the protocol can be, 49.7 days. A worker that reads it goes by `deadline_at`. */
const MAX_UINT32 = 4_294_967_295;

export function executeStep(dispatch: Dispatch, remainingMs: number): ExecuteStep {
  const { timeout_ms, heartbeat_timeout_ms, ...message } = stepMessage(dispatch, remainingMs);
  return {
    ...message,
    timeout_ms: Math.min(timeout_ms, MAX_UINT32),
    heartbeat_timeout_ms: Math.min(heartbeat_timeout_ms, MAX_UINT32),
    inputs_json: Buffer.from(JSON.stringify(dispatch.call.inputs)),
  };
}
