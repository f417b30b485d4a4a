// "@saga-orchestrator/worker/rabbitmq": a worker that takes its steps from a queue.
export { createRabbitMqWorker, type RabbitMqWorker, type RabbitMqWorkerOptions } from "./worker.js";
