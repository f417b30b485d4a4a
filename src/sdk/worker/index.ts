// "@saga-orchestrator/worker": the worker, and the contracts of the actions that it executes. It imports nothing of the service; the two
// share the worker protocol.
export { type ActionContract, type ActionOptions, defineAction, type RetryOptions } from "../contract/index.js";
export { type AesOptions, aesCodec, type Codec, encrypted } from "./codec.js";
export type { ActionContext } from "./context.js";
export { ActionError, type ActionErrorOptions } from "./error.js";
export type { Execute, HandleOptions, Handles } from "./handlers.js";
export type { Log } from "./log.js";
export { runWorker } from "./run.js";
export { DEFAULT_TIMING, type Timing } from "./timing.js";
export type { TlsOptions } from "./tls.js";
export type { Token } from "./token.js";
export { createWorker, type Worker, type WorkerOptions } from "./worker.js";
