// The bench's worker as a process of its own, so that its processor time is not that of the load.
import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";

export type Transport = "grpc" | "http" | "rabbitmq";

export interface WorkerSettings {
  readonly transport: Transport;
  readonly api: string;
  readonly grpc: string;
  readonly amqp: string;
  /** Over RabbitMQ: its queue, which goes with the worker. */
  readonly queue: string;
  /** Over HTTP: where it listens and the service reaches it. */
  readonly host: string;
  readonly maxInFlight: number;
  /** Its credential over gRPC. Absent: it has none. */
  readonly token?: string;
}

export interface WorkerProcess {
  readonly pid: number;
  /** Complete on return, safe to repeat. */
  stop(): Promise<void>;
}

/** Resolves when the worker is registered and connected. */
export async function startWorker(settings: Omit<WorkerSettings, "queue">): Promise<WorkerProcess> {
  const { PATH = "", HOME = "" } = process.env;
  const BENCH_WORKER = JSON.stringify({ ...settings, queue: `saga-bench.${randomUUID()}` });
  const entry = new URL("../worker.js", import.meta.url);
  const child = fork(entry, { env: { PATH, HOME, BENCH_WORKER }, stdio: ["ignore", 2, "inherit", "ipc"] });
  const exit = once(child, "exit");
  const died = exit.then(([code]) => Promise.reject(new Error(`the worker ended with ${code} before it was ready`)));
  await Promise.race([once(child, "message"), died]);
  return {
    pid: child.pid ?? 0,
    async stop() {
      if (child.connected) child.disconnect();
      await exit;
    },
  };
}
