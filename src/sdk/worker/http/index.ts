// "@saga-orchestrator/worker/http": a worker that the service calls over HTTP, as a Fastify plugin. It imports no library of its own: the
// application brings Fastify.
export { createHttpWorker, type HttpWorker, type HttpWorkerOptions } from "./worker.js";
