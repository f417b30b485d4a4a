// "saga-orchestrator/worker": actions, and the worker that executes them. It imports nothing of the service; the two
// share the worker protocol.
export { type Action, type ActionOptions, defineAction, type RetryOptions } from "./action.js";
export type { ActionContext } from "./context.js";
export { ActionError, type ActionErrorOptions } from "./error.js";
export type { Log } from "./log.js";
export { runWorker } from "./run.js";
export { DEFAULT_TIMING, type Timing } from "./timing.js";
export type { TlsOptions } from "./tls.js";
export type { Token } from "./token.js";
export { createWorker, type Worker, type WorkerOptions } from "./worker.js";
