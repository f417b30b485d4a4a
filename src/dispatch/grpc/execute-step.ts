// A dispatch as the message of a stream. The message types are generated from worker.proto, which must never change.
import type { ServerDuplexStream } from "@grpc/grpc-js";
import type { Dispatch } from "../../../machines/index.js";
import type { CoordinatorMessage, ExecuteStep, WorkerMessage } from "../../sdk/protocol/index.js";
import { stepMessage } from "../step-message.js";

export type WorkerCall = ServerDuplexStream<WorkerMessage, CoordinatorMessage>;

export function executeStep(dispatch: Dispatch, remainingMs: number): ExecuteStep {
  return { ...stepMessage(dispatch, remainingMs), inputs_json: Buffer.from(JSON.stringify(dispatch.call.inputs)) };
}
