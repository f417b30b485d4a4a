// The worker protocol as both of its sides use it: the types of its messages, generated from worker.proto (`npm run
// proto`), how to load it, and how a side sends. The one part of the SDK that the service imports.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Options } from "@grpc/proto-loader";

export type { BatchedCoordinatorMessage } from "./generated/saga/worker/v1/BatchedCoordinatorMessage.js";
export type { BatchedWorkerMessage } from "./generated/saga/worker/v1/BatchedWorkerMessage.js";
export type { CoordinatorMessage } from "./generated/saga/worker/v1/CoordinatorMessage.js";
export type { ExecuteStep } from "./generated/saga/worker/v1/ExecuteStep.js";
export type { Hello } from "./generated/saga/worker/v1/Hello.js";
export type { HelloAck } from "./generated/saga/worker/v1/HelloAck.js";
export type { StepFailure } from "./generated/saga/worker/v1/StepFailure.js";
export type { StepResult } from "./generated/saga/worker/v1/StepResult.js";
export type { WorkerMessage } from "./generated/saga/worker/v1/WorkerMessage.js";
export type { WorkerServiceClient, WorkerServiceHandlers } from "./generated/saga/worker/v1/WorkerService.js";
export type { ProtoGrpcType } from "./generated/worker.js";
export { BATCH_MESSAGES, Outgoing } from "./outgoing.js";

/** The most milliseconds that a message can say, 49.7 days. A worker that reads it goes by `deadline_at`. */
export const MAX_UINT32 = 4_294_967_295;

/** Full name of the gRPC service. */
export const WORKER_SERVICE = "saga.worker.v1.WorkerService";

/**
 * The generated types describe messages that are loaded with these options: change them in the `proto` script as well.
 */
export const PROTO_OPTIONS: Options = { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true };

/** Where worker.proto is, below a folder above this file: beside the bundle of the worker package, or in the sources of the service's. */
const PLACES = ["worker.proto", join("src", "dispatch", "worker.proto")];

/** Path of worker.proto. This file runs from the sources, from dist, and in the bundles of both packages. */
export function protoPath(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const found = PLACES.map((place) => join(folder, place)).find((path) => existsSync(path));
    if (found !== undefined) return found;
    if (folder === dirname(folder))
      throw new Error("worker.proto was not found above the files of this package: install it again");
  }
}
